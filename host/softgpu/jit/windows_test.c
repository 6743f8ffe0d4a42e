/* SPDX-License-Identifier: MIT */
/*
 * Loads in windows (jit/windows.h): every pattern of addresses after every other, with all and with some lanes, gives what
 * lane by lane is loaded; what ends at an allocation's end is loaded, and a byte beyond is the fault of that lane.
 */
#include "exec/exec_test.h"
#include "jit/jit.h"

#ifdef SG_JIT

#include "jit/windows.h"

#include <stdlib.h>
#include <string.h>

#define BYTES 8192u
#define WORDS 8u /* results of each lane and turn */

/* Turns: lane i of mask m loads at the offset off[turn * 32 + i]; through a register of its own, then through one for all. */
static const char *const text =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry windows(.param .u64 data, .param .u64 off, .param .u64 out, .param .u32 n, .param .u32 m)\n{\n"
    ".reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<4>; .reg .b16 %h<8>;\n"
    "ld.param.u64 %d0, [data]; ld.param.u64 %d1, [off]; ld.param.u64 %d2, [out]; ld.param.u32 %r0, [n];\n"
    "ld.param.u32 %r1, [m]; mov.u32 %r2, %tid.x; mul.wide.u32 %d3, %r2, 4; add.u64 %d1, %d1, %d3;\n"
    "mul.wide.u32 %d3, %r2, 32; add.u64 %d2, %d2, %d3;\n"
    "shr.u32 %r1, %r1, %r2; and.b32 %r1, %r1, 1; setp.eq.u32 %p1, %r1, 0;\n@%p1 bra END;\n"
    "LOOP:\nld.global.u32 %r3, [%d1];\ncvt.u64.u32 %d4, %r3; add.u64 %d5, %d0, %d4;\n"
    "add.u64 %d10, %d4, %d0;\nld.global.u32 %r12, [%d10];\nld.global.u32 %r4, [%d5];\nadd.u64 %d6, %d5, 4;\nld.global.u16 %r5, [%d6+-2];\nadd.u64 %d7, %d5, 8;\n"
    "ld.global.s8 %r6, [%d7+-7];\nadd.u64 %d8, %d5, 16;\nld.global.u16 %r7, [%d8+-16];\n"
    "ld.global.u16 %r8, [%d8+-14];\nadd.u64 %d9, %d5, 1;\nld.global.s16 %r9, [%d9+-1];\n"
    "ld.global.u8 %r10, [%d5+3];\nld.global.s8 %r11, [%d5+2];\n"
    "st.global.u32 [%d2], %r4; st.global.u32 [%d2+4], %r5; st.global.u32 [%d2+8], %r6;\n"
    "shl.b32 %r8, %r8, 16; or.b32 %r7, %r7, %r8; st.global.u32 [%d2+12], %r7; st.global.u32 [%d2+16], %r9;\n"
    "st.global.u32 [%d2+20], %r10; st.global.u32 [%d2+24], %r11; st.global.u32 [%d2+28], %r12;\n"
    "add.u64 %d1, %d1, 128; add.u64 %d2, %d2, 1024; sub.u32 %r0, %r0, 1; setp.ne.u32 %p2, %r0, 0;\n@%p2 bra LOOP;\n"
    "END:\nret;\n}\n";

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
    default: /* in no order */
        return i * 20 % 32 * 4 + i / 8 * 100;
    }
}
#define PATTERNS 8u

struct params {
    uint64_t data, off, out;
    uint32_t n, m;
};

static uint8_t *data;
static uint32_t *off, *out;

/* What lane i loads at an offset. */
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
}

static int run(struct tk *t, uint32_t n, uint32_t m, struct sg_fault *f)
{
    struct params p = {(uintptr_t)data, (uintptr_t)off, (uintptr_t)out, n, m};

    memset(out, 0x55, n * 1024);
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
            if (memcmp(out + turn * 256 + i * WORDS, want, sizeof(want)))
                return false;
        }
    return true;
}

static unsigned windows(const struct tk *t)
{
    unsigned n = 0;

    for (const struct sg_window *x = t->k->code.windows; x; x = x->next)
        n += x->state >= SG_WINDOW_8;
    return n;
}

/* Turns of first, then, first; as many bytes further each time as every third lane's element has. */
static bool pair(uint32_t m, unsigned first, unsigned then, unsigned *learnt)
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

static void patterns(uint32_t m, const char *name, bool windowed)
{
    unsigned bad = 0, learnt = 0;

    for (unsigned first = 0; first < PATTERNS; first++)
        for (unsigned then = 0; then < PATTERNS; then++)
            if (!pair(m, first, then, &learnt))
                bad++;
    t_result(name, !bad && (learnt > 0) == windowed, "%u of %u pairs of patterns are wrong, %u windows", bad,
             PATTERNS * PATTERNS, learnt);
}

/* The lanes of a pattern that was learnt, so that the last one's element ends `beyond` bytes behind the end of data. */
static void edge(unsigned pattern, uint32_t m, int beyond, const char *name)
{
    const uint32_t size = 2048 + 256 * pattern;
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
    first = ok && !run(&t, 2, m, &f) && same(2, m) && windows(&t);
    ok = ok && run(&t, 3, m, &f) == (beyond > 0 ? (beyond & 3 ? SG_ERR_MISALIGNED : SG_ERR_ADDRESS) : 0);
    if (beyond & 3) /* all of them: the first lane's is the fault */
        ok = ok && f.thread[0] == 0;
    else if (beyond > 0)
        ok = ok && f.thread[0] == lane && f.address == (uintptr_t)data + size - 4 + (uint32_t)beyond &&
             f.access_size == 4;
    else
        ok = ok && same(3, m);
    t_result(name, ok && first, "learnt %d; lane %u (not %u), %s", first, f.thread[0], lane, f.message);
    tk_close(&t);
    data = all;
}

int main(void)
{
    if (!sg_jit_available() || !__builtin_cpu_supports("avx512vbmi")) {
        t_skip("windows", "this processor has no AVX512-VBMI");
        return t_end("softgpu windows");
    }
    data = tm_alloc(BYTES);
    off = tm_alloc(6 * 128);
    out = tm_alloc(6 * 1024);
    for (uint32_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 167 + i / 256 * 13);
    patterns(0xffffffffu, "all lanes", true);
    patterns(0x0000ffffu, "the lower half", true);
    patterns(0x00000fffu, "some of the lower half", true);
    patterns(0x0fffffffu, "most lanes", true);
    patterns(0x55555555u, "every second lane", true);
    patterns(0xfffffffeu, "without the first lane", false);
    for (unsigned pattern = 1; pattern < 4; pattern++) {
        edge(pattern, 0xffffffffu, 0, "elements up to the end");
        edge(pattern, 0xffffffffu, 4, "an element behind the end");
        edge(pattern, 0xffffffffu, 2, "misaligned");
        edge(pattern, 0x00000fffu, 0, "elements of some lanes up to the end");
        edge(pattern, 0x00000fffu, 4, "an element of some lanes behind the end");
        edge(pattern, 0x3fffffffu, 4, "an element of most lanes behind the end");
    }
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
