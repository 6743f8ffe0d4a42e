/* SPDX-License-Identifier: MIT */
/*
 * Loads in windows (jit/memory/windows.h): every pattern of addresses after every other, with all and
 * with some lanes, gives the result of loading lane by lane; an element at an allocation's end is
 * loaded, and a byte beyond it is that lane's fault.
 */
#include "exec/exec_test.h"
#include "jit/jit.h"

#ifdef SG_JIT

#include "jit/memory/windows.h"

#include <stdlib.h>
#include <string.h>

#define BYTES 8192u
#define WORDS 16u /* results of each lane and turn; 14 are used */
#define TURN (32 * WORDS * 4)

/*
 * Turns: lane i of mask m loads at the offset off[turn * 32 + i], through registers of their own,
 * then through one for several loads. A: registers of addresses, U: their type.
 */
#define KERNEL(name, sp, A, U, begin, convert) \
    ".visible .entry " name \
    "(.param .u64 data, .param .u64 off, .param .u64 out, .param .u32 n, .param .u32 m)\n{\n" \
    ".reg .b32 %r<40>, %a<20>; .reg .b64 %d<20>; .reg .pred %p<4>;\n" \
    "ld.param.u64 %d0, [data]; ld.param.u64 %d1, [off]; ld.param.u64 %d2, [out]; ld.param.u32 %r0, [n];\n" \
    "ld.param.u32 %r1, [m]; mov.u32 %r2, %tid.x; mul.wide.u32 %d3, %r2, 4;\n" begin \
    "add.u64 %d1, %d1, %d3; mul.wide.u32 %d3, %r2, 64; add.u64 %d2, %d2, %d3;\n" \
    "shr.u32 %r1, %r1, %r2; and.b32 %r1, %r1, 1; setp.eq.u32 %p1, %r1, 0;\n@%p1 bra END;\n" \
    "LOOP:\nld.global.u32 %r3, [%d1];\n" convert "add." U A "5, " A "0, " A "4; add." U A "10, " A "4, " A \
    "0;\nld." sp ".u32 %r4, [" A "10];\n" \
    "add." U A "6, " A "5, 4;\nld." sp ".u16 %r5, [" A "6+-2];\nadd." U A "7, " A "5, 8;\n" \
    "ld." sp ".s8 %r6, [" A "7+-7];\nadd." U A "8, " A "5, 16;\nld." sp ".u16 %r7, [" A "8+-16];\n" \
    "ld." sp ".u16 %r8, [" A "8+-14];\nadd." U A "9, " A "5, 1;\nld." sp ".s16 %r9, [" A "9+-1];\n" \
    "ld." sp ".u32 %r12, [" A "5];\nld." sp ".u8 %r10, [" A "5+3];\nld." sp ".s8 %r11, [" A "5+2];\n" \
    "ld." sp ".v2.u32 {%r13, %r14}, [" A "11];\nadd." U A "12, " A "11, 16;\n" \
    "ld." sp ".v4.u32 {%r15, %r16, %r17, %r18}, [" A "12+-16];\n" \
    "shl.b32 %r8, %r8, 16; or.b32 %r7, %r7, %r8; st.global.v4.u32 [%d2], {%r4, %r5, %r6, %r7};\n" \
    "st.global.v4.u32 [%d2+16], {%r9, %r10, %r11, %r12}; st.global.v2.u32 [%d2+32], {%r13, %r14};\n" \
    "st.global.v2.u32 [%d2+40], {%r15, %r16}; st.global.v2.u32 [%d2+48], {%r17, %r18};\n" \
    "add.u64 %d1, %d1, 128; add.u64 %d2, %d2, 2048; sub.u32 %r0, %r0, 1; setp.ne.u32 %p2, %r0, 0;\n@%p2 bra LOOP;\n" \
    "END:\nret;\n}\n"

static const char *const global_text = ".version 8.0\n.target sm_80\n.address_size 64\n" KERNEL(
    "windows", "global", "%d", "u64 ", "",
    "cvt.u64.u32 %d4, %r3; and.b64 %d13, %d4, -16; add.u64 %d11, %d0, %d13;\n");
/* The data is copied to shared memory first; SHARED bytes of it. */
#define SHARED 4096u
static const char *const shared_text =
    ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 16 .b8 s[4096];\n" KERNEL(
        "windows", "shared", "%a", "u32 ",
        "mov.u32 %a0, s; add.u64 %d4, %d0, %d3; mad.lo.u32 %a1, %r2, 4, %a0; mov.u32 %r20, 32;\n"
        "COPY:\nld.global.u32 %r21, [%d4]; st.shared.u32 [%a1], %r21;\nadd.u64 %d4, %d4, 128; add.u32 %a1, %a1, 128;\n"
        "sub.u32 %r20, %r20, 1; setp.ne.u32 %p1, %r20, 0;\n@%p1 bra COPY;\n",
        "mov.u32 %a4, %r3; and.b32 %a13, %r3, -16; add.u32 %a11, %a0, %a13;\n");

/* The offset of lane i in a pattern; all stay below 2048 and are multiples of 4. */
static uint32_t offset(unsigned pattern, uint32_t i)
{
    switch (pattern) {
    case 0: /* a row */
        return 4 * i;
    case 1: /* blocks of 36 bytes */
        return i / 4 * 36 + i % 4 * 8;
    case 2: /* 8 lanes in 64 bytes, the other way round */
        return (31 - i) * 8;
    case 3: /* 4 lanes in 64 bytes */
        return 16 * i;
    case 4: /* far apart */
        return 64 * i;
    case 5: /* all at one address */
        return 128;
    case 6: /* two rows, one far away */
        return i / 16 * 1024 + i % 16 * 4;
    case 7: /* pairs of lanes in 12 bytes, 36 bytes apart */
        return i / 2 * 36 + i % 2 * 8;
    case 8: /* pairs with the same address */
        return i / 2 * 36;
    default: /* in no order */
        return i * 20 % 32 * 4 + i / 8 * 100;
    }
}
#define PATTERNS 10u

struct params {
    uint64_t data, off, out;
    uint32_t n, m;
};

static uint8_t *data;
static uint32_t *off, *out;

/* The value that lane i loads at an offset. */
static void expect(uint32_t at, uint32_t want[WORDS])
{
    uint16_t h[2];

    memcpy(&want[0], data + at, 4);
    memcpy(h, data + at, 4);
    want[1] = h[1];
    want[2] = (uint32_t)(int8_t)data[at + 1];
    want[3] = want[0];
    want[4] = (uint32_t)(int16_t)h[0];
    want[5] = data[at + 3];
    want[6] = (uint32_t)(int8_t)data[at + 2];
    want[7] = want[0];
    memcpy(&want[8], data + (at & ~15u), 8);
    memcpy(&want[10], data + (at & ~15u), 16);
}

static int run(struct tk *t, uint32_t n, uint32_t m, struct sg_fault *f)
{
    struct params p = {(uintptr_t)data, (uintptr_t)off, (uintptr_t)out, n, m};

    memset(out, 0x55, n * TURN);
    return tk_run(t, 1, 32, &p, f);
}

static bool same(uint32_t n, uint32_t m)
{
    for (uint32_t turn = 0; turn < n; turn++)
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t want[WORDS];

            memset(want, 0x55, sizeof(want));
            if (m >> i & 1)
                expect(off[turn * 32 + i], want);
            if (memcmp(out + turn * (TURN / 4) + i * WORDS, want, sizeof(want)))
                return false;
        }
    return true;
}

static unsigned windows(const struct tk *t)
{
    unsigned n = 0;

    for (const struct sg_window *x = t->k->code.windows; x; x = x->next)
        n += x->state >= SG_WINDOW_FIRST;
    return n;
}

/* Turns of first, then, first; as many bytes further each time as every third lane's element
   has. */
static bool pair(const char *text, uint32_t m, unsigned first, unsigned then, unsigned *learnt)
{
    struct sg_fault f;
    struct tk t;
    bool ok = tk_open(&t, text, "windows");

    for (uint32_t turn = 0; turn < 6; turn++)
        for (uint32_t i = 0; i < 32; i++)
            off[turn * 32 + i] = offset(turn % 4 > 1 ? then : first, i) + 36 * turn;
    for (int again = 0; again < 2 && ok; again++)
        ok = !run(&t, 6, m, &f) && same(6, m);
    *learnt += windows(&t);
    tk_close(&t);
    return ok;
}

static void patterns(const char *text, uint32_t m, const char *name, bool windowed)
{
    unsigned bad = 0, learnt = 0;

    for (unsigned first = 0; first < PATTERNS; first++)
        for (unsigned then = 0; then < PATTERNS; then++)
            if (!pair(text, m, first, then, &learnt))
                bad++;
    t_result(name, !bad && (learnt > 0) == windowed, "%u of %u pairs of patterns are wrong, %u windows", bad,
             PATTERNS * PATTERNS, learnt);
}

/* The lanes of a learnt pattern, placed so that the last element ends `beyond` bytes behind the end of
   data. */
static void edge(const char *text, unsigned pattern, uint32_t m, int beyond, const char *name)
{
    const bool shared = text == shared_text;
    const uint32_t size = shared ? SHARED : 2048 + 256 * pattern;
    uint32_t last = 0, lane = 0;
    uint8_t *all = data;
    struct sg_fault f;
    bool ok, first;
    struct tk t;

    data = tm_alloc(size);
    memcpy(data, all, size);
    for (uint32_t i = 0; i < 32; i++)
        if ((m >> i & 1) && offset(pattern, i) > last) {
            last = offset(pattern, i);
            lane = i;
        }
    for (uint32_t turn = 0; turn < 3; turn++)
        for (uint32_t i = 0; i < 32; i++)
            off[turn * 32 + i] = offset(pattern, i) + (turn == 2 ? size - 4 - last + (uint32_t)beyond : 0);
    ok = tk_open(&t, text, "windows");
    first = ok && !run(&t, 2, m, &f) && same(2, m) &&
            (windows(&t) || (pattern == 3 && !strcmp(sg_op_isa(), "avx2")));
    ok = ok && run(&t, 3, m, &f) == (beyond > 0 ? (beyond & 3 ? SG_ERR_MISALIGNED : SG_ERR_ADDRESS) : 0);
    if (beyond & 3) /* all of them: the first lane's is the fault */
        ok = ok && f.thread[0] == 0;
    else if (beyond > 0)
        ok = ok && f.thread[0] == lane &&
             f.address == (shared ? 0 : (uintptr_t)data) + size - 4 + (uint32_t)beyond && f.access_size == 4;
    else
        ok = ok && same(3, m);
    t_result(name, ok && first, "learnt %d; lane %u (not %u), %s", first, f.thread[0], lane, f.message);
    tk_close(&t);
    data = all;
}

/* Loads through one register, which are checked together by the addresses of the first. 20 bytes per
   lane and turn. */
#define GROUP(name, loads) \
    ".visible .entry " name \
    "(.param .u64 data, .param .u64 off, .param .u64 out, .param .u32 n, .param .u32 m)\n{\n" \
    ".reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<4>;\n" \
    "ld.param.u64 %d0, [data]; ld.param.u64 %d1, [off]; ld.param.u64 %d2, [out]; ld.param.u32 %r0, [n];\n" \
    "ld.param.u32 %r1, [m]; mov.u32 %r2, %tid.x; mul.wide.u32 %d3, %r2, 4;\n" \
    "add.u64 %d1, %d1, %d3; mul.wide.u32 %d3, %r2, 64; add.u64 %d2, %d2, %d3;\n" \
    "shr.u32 %r1, %r1, %r2; and.b32 %r1, %r1, 1; setp.eq.u32 %p1, %r1, 0;\n@%p1 bra END;\n" \
    "LOOP:\nld.global.u32 %r3, [%d1];\ncvt.u64.u32 %d4, %r3; add.u64 %d5, %d0, %d4;\n" loads \
    "st.global.v4.u32 [%d2], {%r4, %r5, %r6, %r7}; st.global.u32 [%d2+16], %r8;\n" \
    "add.u64 %d1, %d1, 128; add.u64 %d2, %d2, 2048; sub.u32 %r0, %r0, 1; setp.ne.u32 %p2, %r0, 0;\n@%p2 bra LOOP;\n" \
    "END:\nret;\n}\n"
static const char *const group_text = ".version 8.0\n.target sm_80\n.address_size 64\n" GROUP(
    "halves", "ld.global.u16 %r4, [%d5]; ld.global.u32 %r5, [%d5+64]; ld.global.u8 %r6, [%d5+-56];\n"
              "ld.global.v2.u32 {%r7, %r8}, [%d5+72];\n")
    GROUP("words", "ld.global.u32 %r4, [%d5]; ld.global.u32 %r5, [%d5+64]; ld.global.u8 %r6, [%d5+-56];\n"
                   "ld.global.u32 %r7, [%d5+72]; ld.global.u32 %r8, [%d5+76];\n")
        GROUP("volatile", "ld.global.u32 %r4, [%d5]; ld.volatile.global.u8 %r6, [%d5+-56];\n"
                          "ld.volatile.global.u32 %r7, [%d5+72]; ld.relaxed.gpu.global.u32 %r8, [%d5+76];\n"
                          "ld.global.u32 %r5, [%d5+64];\n")
            GROUP(
                "wide",
                "ld.global.u32 %r4, [%d5]; ld.global.v2.u32 {%r7, %r8}, [%d5+72]; mov.u32 %r5, 0; mov.u32 %r6, 0;\n");

static bool group_same(uint32_t turns, uint32_t m, bool halves)
{
    for (uint32_t turn = 0; turn < turns; turn++)
        for (uint32_t i = 0; i < 32; i++) {
            const uint8_t *at = data + off[turn * 32 + i];
            uint32_t want[5] = {0};

            if (!(m >> i & 1))
                continue;
            want[2] = at[-56];
            memcpy(&want[0], at, halves ? 2 : 4);
            memcpy(&want[1], at + 64, 4);
            memcpy(&want[3], at + 72, 8);
            if (memcmp(out + turn * (TURN / 4) + i * WORDS, want, sizeof(want)))
                return false;
        }
    return true;
}

/*
 * Two turns in the middle of an allocation, then one whose highest (up) or lowest byte is its last or
 * first, or (beyond) 8 bytes further: that lane and that load fault, after all work before them.
 */
static void group(const char *kernel, unsigned pattern, uint32_t m, bool up, bool beyond, const char *name)
{
    const bool halves = !strcmp(kernel, "halves");
    const uint32_t size = 4096;
    uint32_t last = 0, lane = 0, low = 0, base;
    uint8_t *all = data;
    struct sg_fault f = {0};
    struct tk t;
    bool ok;

    data = tm_alloc(size);
    memcpy(data, all, size);
    for (uint32_t i = 0; i < 32; i++) {
        if (!(m >> i & 1))
            continue;
        if (offset(pattern, i) >= last) {
            last = offset(pattern, i);
            lane = i;
        }
        low = offset(pattern, i) < offset(pattern, low) || !(m >> low & 1) ? i : low;
    }
    base = up ? size - 80 - last + (beyond ? 8 : 0) : 56 - offset(pattern, low) - (beyond ? 8 : 0);
    for (uint32_t turn = 0; turn < 3; turn++)
        for (uint32_t i = 0; i < 32; i++)
            off[turn * 32 + i] = offset(pattern, i) + (turn == 2 ? base : 256);
    ok = tk_open(&t, group_text, kernel) && !run(&t, 2, m, &f) && group_same(2, m, halves) &&
         !run(&t, 2, m, &f) && group_same(2, m, halves);
    ok = ok && run(&t, 3, m, &f) == (beyond ? SG_ERR_ADDRESS : 0);
    ok = ok && group_same(beyond ? 2 : 3, m, halves);
    if (ok && beyond && up)
        ok = f.thread[0] == lane && f.access_size == (halves ? 8 : 4) && f.address == (uintptr_t)data + size;
    else if (ok && beyond)
        ok = f.thread[0] == low && f.access_size == 1 && f.address == (uintptr_t)data - 8;
    t_result(name, ok, "%s, pattern %u: lane %u, %s", kernel, pattern, f.thread[0], f.message);
    tk_close(&t);
    data = all;
}

/* Every second lane is aligned for the group's first load only: faults each time, also with known
   distances. */
static void group_misaligned(const char *kernel, uint32_t step, uint32_t m, const char *name)
{
    struct sg_fault f = {0};
    unsigned bad = 0;
    struct tk t;
    bool ok;

    for (uint32_t i = 0; i < 32; i++)
        off[i] = 256 + step * i;
    ok = tk_open(&t, group_text, kernel);
    for (int again = 0; again < 3 && ok; again++)
        bad += run(&t, 1, m, &f) != SG_ERR_MISALIGNED || f.thread[0] != 1;
    t_result(name, ok && !bad, "%s, %u of 3 are wrong: lane %u, %s", kernel, bad, f.thread[0], f.message);
    tk_close(&t);
}

static void groups(void)
{
    static const uint32_t masks[] = {0xffffffffu, 0x00000fffu, 0x3fffffffu};

    for (unsigned i = 0; i < 3; i++) {
        for (unsigned k = 0; k < 4; k++) {
            group("halves", 2, masks[i], k & 1, k & 2, "a group of loads in windows");
            group("halves", 3, masks[i], k & 1, k & 2, "a group of loads in windows of four");
            group("words", 7, masks[i], k & 1, k & 2, "a group of loads in windows of two");
            group("words", 0, masks[i], k & 1, k & 2, "a group of loads in rows");
            group("words", 4, masks[i], k & 1, k & 2, "a group of loads far apart");
            group("volatile", 0, masks[i], k & 1, k & 2, "loads in rows between those of a group");
            group("volatile", 2, masks[i], k & 1, k & 2, "loads in windows between those of a group");
            group("volatile", 4, masks[i], k & 1, k & 2, "loads far apart between those of a group");
        }
        group_misaligned("halves", 2, masks[i], "a group whose first load alone is aligned");
        group_misaligned("wide", 4, masks[i], "a group in a row whose first load alone is aligned");
    }
}

/* Each lane stores 8 and 16 bits at off[lane], of shared memory, too, whose bytes are copied out
   at the end. */
static const char *const store_text =
    ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 16 .b8 s[1024];\n"
    ".visible .entry stores(.param .u64 off, .param .u64 out, .param .u32 m)\n{\n"
    ".reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<4>; .reg .b16 %h<4>;\n"
    "ld.param.u64 %d0, [off]; ld.param.u64 %d1, [out]; ld.param.u32 %r1, [m]; mov.u32 %r2, %tid.x;\n"
    "mov.u32 %r4, s; mad.lo.u32 %r5, %r2, 4, %r4; mov.u32 %r6, 0; mov.u32 %r7, 8;\n"
    "ZERO:\nst.shared.u32 [%r5], %r6;\nadd.u32 %r5, %r5, 128; sub.u32 %r7, %r7, 1; setp.ne.u32 %p1, %r7, 0;\n@%p1 bra ZERO;\n"
    "mul.wide.u32 %d3, %r2, 4; add.u64 %d0, %d0, %d3; ld.global.u32 %r3, [%d0];\n"
    "shr.u32 %r1, %r1, %r2; and.b32 %r1, %r1, 1; setp.eq.u32 %p1, %r1, 0; mul.lo.u32 %r8, %r2, 1001; add.u32 %r8, %r8, 7;\n"
    "cvt.u16.u32 %h0, %r8;\n@%p1 bra END;\n"
    "cvt.u64.u32 %d4, %r3; add.u64 %d5, %d1, %d4; add.u64 %d6, %d5, %d4; add.u32 %r5, %r4, %r3; add.u32 %r9, %r5, %r3;\n"
    "st.global.u8 [%d5], %h0; st.global.u16 [%d6+512], %h0; st.shared.u8 [%r5], %h0; st.shared.u16 [%r9+512], %h0;\n"
    "END:\nbar.sync 0;\nmul.wide.u32 %d3, %r2, 4; add.u64 %d7, %d1, %d3; mad.lo.u32 %r5, %r2, 4, %r4; mov.u32 %r7, 8;\n"
    "COPY:\nld.shared.u32 %r6, [%r5]; st.global.u32 [%d7+1024], %r6;\nadd.u32 %r5, %r5, 128; add.u64 %d7, %d7, 128;\n"
    "sub.u32 %r7, %r7, 1; setp.ne.u32 %p1, %r7, 0;\n@%p1 bra COPY;\nret;\n}\n";

/* Offset of lane i's byte: in a row, every second byte, in reverse, all at one place, in a row except
   for one. */
static uint32_t place(unsigned pattern, uint32_t i)
{
    const uint32_t at[] = {i, 2 * i, 31 - i, 5, i == 9 ? 100 : i};

    return at[pattern];
}

static void stores(uint32_t m, const char *name)
{
    struct {
        uint64_t off, out;
        uint32_t m;
    } p = {(uintptr_t)off, (uintptr_t)out, m};
    uint8_t want[1024], *got = (uint8_t *)out;
    struct sg_fault f;
    unsigned bad = 0;
    struct tk t;
    bool ok = tk_open(&t, store_text, "stores");

    for (unsigned pattern = 0; pattern < 5 && ok; pattern++) {
        memset(want, 0, sizeof(want));
        memset(out, 0, 2048);
        for (uint32_t i = 0; i < 32; i++) {
            const uint16_t v = (uint16_t)(i * 1001 + 7);

            off[i] = place(pattern, i) + pattern;
            if (!(m >> i & 1))
                continue;
            want[off[i]] = (uint8_t)v;
            memcpy(want + 512 + 2 * off[i], &v, 2);
        }
        bad += tk_run(&t, 1, 32, &p, &f) || memcmp(got, want, 1024) || memcmp(got + 1024, want, 1024);
    }
    t_result(name, ok && !bad, "%u patterns are wrong", bad);
    tk_close(&t);
}

/* A row of bytes that ends a byte behind the end of memory, and a row that ends at it. */
static void store_edge(const char *name, uint32_t m, uint32_t beyond)
{
    struct {
        uint64_t off, out;
        uint32_t m;
    } p = {(uintptr_t)off, 0, m};
    const uint32_t last = 31u - (uint32_t)__builtin_clz(m), size = 4096;
    uint8_t *to = tm_alloc(size);
    struct sg_fault f;
    struct tk t;
    bool ok = tk_open(&t, store_text, "stores");
    int r;

    p.out = (uintptr_t)to;
    for (uint32_t i = 0; i < 32; i++)
        off[i] = size - 1 - last + i + beyond;
    r = ok ? tk_run(&t, 1, 32, &p, &f) : 0;
    /* a fault in any case, of the bytes first: the halves are far behind, where another allocation
       may be, the bytes of shared memory behind its end */
    ok = ok && r == SG_ERR_ADDRESS && f.is_write &&
         (beyond ? f.access_size == 1 && f.thread[0] == last && f.address == p.out + size
                 : f.address - p.out > size && to[size - 1] == (uint8_t)(last * 1001 + 7));
    t_result(name, ok, "%d: %s", r, f.message);
    tk_close(&t);
}

static void both(const char *text)
{
    patterns(text, 0xffffffffu, "all lanes", true);
    patterns(text, 0x0000ffffu, "the lower half", true);
    patterns(text, 0x00000fffu, "some of the lower half", true);
    patterns(text, 0x0fffffffu, "most lanes", true);
    patterns(text, 0x55555555u, "every second lane", true);
    patterns(text, 0xfffffffeu, "without the first lane", false);
    for (unsigned pattern = 1; pattern < 8; pattern += pattern < 3 ? 1 : 4) { /* 1, 2, 3, 7 */
        edge(text, pattern, 0xffffffffu, 0, "elements up to the end");
        edge(text, pattern, 0xffffffffu, 4, "an element behind the end");
        edge(text, pattern, 0xffffffffu, 2, "misaligned");
        edge(text, pattern, 0x00000fffu, 0, "elements of some lanes up to the end");
        edge(text, pattern, 0x00000fffu, 4, "an element of some lanes behind the end");
        edge(text, pattern, 0x3fffffffu, 4, "an element of most lanes behind the end");
    }
}

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    if (!sg_jit_available() || (strcmp(sg_op_isa(), "avx2") && !__builtin_cpu_supports("avx512vbmi"))) {
        t_skip("windows", "this processor has no AVX512-VBMI");
        return t_end("softgpu windows");
    }
    data = tm_alloc(BYTES);
    off = tm_alloc(6 * 128);
    out = tm_alloc(6 * TURN);
    for (uint32_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 167 + i / 256 * 13);
    both(global_text);
    both(shared_text);
    groups();
    stores(0xffffffffu, "stores of all lanes");
    stores(0x00000fffu, "stores of some of the lower half");
    stores(0x3ffffffeu, "stores of most lanes");
    store_edge("stores of all lanes up to the end", 0xffffffffu, 0);
    store_edge("a store behind the end", 0xffffffffu, 1);
    store_edge("stores of some lanes up to the end", 0x00000fffu, 0);
    store_edge("a store of some lanes behind the end", 0x00000fffu, 1);
    tm_free_all();
    return t_end("softgpu windows");
}

#else

int main(void)
{
    t_skip("windows", "no native code on this processor");
    return t_end("softgpu windows");
}

#endif
