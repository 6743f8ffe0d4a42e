/* SPDX-License-Identifier: MIT */
/*
 * Affine addresses (jit/memory/affine.h): in a loop, from a counter that differs between lanes, by every
 * operation that is known, while the distances of lanes stay the same, change once or in every turn;
 * addresses that are used as values; counters that wrap around in some lanes; the ends of memory.
 */
#include "exec/exec_test.h"
#include "jit/jit.h"

#ifdef SG_JIT

#include "jit/memory/affine.h"

#include <string.h>

#define BYTES 131072u
#define MIDDLE 65536u
#define TURNS 12u
#define LANES 64u

static uint8_t *data;
static uint32_t *out, *start;

static const char *const patterns[] = {"a row", "one value", "quarters", "backwards", "in no order"};
#define PATTERNS (sizeof(patterns) / sizeof(patterns[0]))

/* The counter of lane t at first. */
static uint32_t counter(unsigned pattern, uint32_t t)
{
    const uint32_t at[] = {t, 5, t / 8, 200 - 2 * t, t * 19 % 64};

    return at[pattern];
}

/* Update of the counter %r at the end of turn %n. */
static const struct {
    const char *name, *ptx;
} changes[] = {
    {"the same distances", ""},
    {"others from the fifth turn on", "setp.eq.u32 %q, %n, 4; selp.b32 %c, %t, 0, %q; add.u32 %r, %r, %c;"},
    {"others in every turn", "add.u32 %r, %r, %t;"},
};
#define CHANGES (sizeof(changes) / sizeof(changes[0]))

static uint32_t changed(unsigned change, uint32_t r, uint32_t n, uint32_t t)
{
    return r + 2 + (change == 2 || (change == 1 && n == 4) ? t : 0);
}

/* Two addresses from the counter %r, %t lanes, %n turns, the data %b, their middle %m, hoisted %l, 12 bytes for
   each lane, %y: as %b, further by 8 bytes and one for each lane after each turn. */
static const struct {
    const char *name, *ptx;
} forms[] = {
    {"mul.wide.u32, uniform values",
     "mul.wide.u32 %x, %r, 4; add.u64 %a, %x, %b; cvt.u64.u32 %u, %n; shl.b64 %u, %u, 3; add.u64 %a1, %u, %a;"},
    {"mul.wide.s32 of negative numbers",
     "add.u32 %r1, %r, -300; mul.wide.s32 %x, %r1, 4; add.u64 %a, %m, %x; mul.wide.s32 %x, %r1, -4; "
     "add.u64 %a1, %m, %x;"},
    {"cvt.u64.u32, mul.lo.b64, shl.b64, sub.b64",
     "cvt.u64.u32 %x, %r; mul.lo.u64 %x, %x, 36; add.u64 %a, %x, %b; shl.b64 %x, %x, 1; sub.u64 %a1, %m, %x; "
     "add.u64 %a1, %a1, %x; sub.u64 %a1, %a1, %x;"},
    {"sums and products of 32 bits",
     "add.u32 %r1, %r, %n; shl.b32 %r1, %r1, 2; cvt.u64.u32 %x, %r1; add.u64 %a, %b, %x; "
     "mul.lo.u32 %r2, %r, 12; mad.wide.u32 %a1, %r2, 3, %b;"},
    {"differences of 32 bits",
     "sub.u32 %r1, 1000, %r; mul.wide.u32 %x, %r1, 4; add.u64 %a, %b, %x; sub.u32 %r2, %r, 400; "
     "mad.wide.s32 %a1, %r2, 16, %m;"},
    {"hoisted values",
     "mul.wide.u32 %x, %r, 4; add.u64 %x, %x, %l; add.u64 %a, %x, %b; sub.u64 %a1, %m, %l; add.u64 %a1, %a1, 96;"},
    {"two counters", "mul.wide.u32 %x, %r, 4; add.u64 %a, %x, %y; add.u64 %x, %x, %x; add.u64 %a1, %x, %y;"},
    {"cvt.s64.s32", "add.u32 %r1, %r, -300; cvt.s64.s32 %x, %r1; shl.b64 %x, %x, 2; add.u64 %a, %m, %x; "
                    "add.u64 %a1, %a, 64;"},
};
#define FORMS (sizeof(forms) / sizeof(forms[0]))

static void addresses(unsigned form, uint32_t r, uint32_t n, uint32_t t, uint32_t a[2])
{
    const uint32_t y = 8 * n + 4 * t;
    const uint32_t at[FORMS][2] = {{4 * r, 4 * r + 8 * n},
                                   {MIDDLE + 4 * (r - 300), MIDDLE - 4 * (r - 300)},
                                   {36 * r, MIDDLE - 72 * r},
                                   {4 * (r + n), 36 * r},
                                   {4 * (1000 - r), MIDDLE + 16 * (r - 400)},
                                   {4 * r + 12 * t, MIDDLE - 12 * t + 96},
                                   {4 * r + y, 8 * r + y},
                                   {MIDDLE + 4 * (r - 300), MIDDLE + 4 * (r - 300) + 64}};

    memcpy(a, at[form], sizeof(at[form]));
}

static const struct {
    const char *name, *ptx;
} uses[] = {
    {"words", "ld.global.u32 %v, [%a]; ld.global.u32 %w, [%a1];"},
    {"words of groups", "ld.global.u32 %v, [%a+4]; ld.global.u32 %w, [%a]; xor.b32 %v, %v, %w; "
                        "ld.global.u32 %w, [%a1]; ld.global.u32 %c, [%a1+8]; xor.b32 %w, %w, %c;"},
    {"values, too",
     "ld.global.u32 %v, [%a]; ld.global.u32 %w, [%a1]; sub.u64 %x, %a, %b; cvt.u32.u64 %c, %x; "
     "xor.b32 %v, %v, %c; sub.u64 %x, %a1, %b; cvt.u32.u64 %c, %x; xor.b32 %w, %w, %c;"},
    {"halves and bytes", "ld.global.u16 %h, [%a]; ld.global.s8 %w, [%a1+3]; cvt.u32.u16 %v, %h;"},
};
#define USES (sizeof(uses) / sizeof(uses[0]))

static uint32_t word(uint32_t at)
{
    uint32_t v;

    memcpy(&v, data + at, 4);
    return v;
}

static uint32_t loaded(unsigned use, const uint32_t a[2])
{
    switch (use) {
    case 1:
        return (word(a[0]) ^ word(a[0] + 4)) * 3 + (word(a[1]) ^ word(a[1] + 8));
    case 2:
        return (word(a[0]) ^ a[0]) * 3 + (word(a[1]) ^ a[1]);
    case 3:
        return (word(a[0]) & 0xffff) * 3 + (uint32_t)(int8_t)data[a[1] + 3];
    default:
        return word(a[0]) * 3 + word(a[1]);
    }
}

#define TEXT \
    ".version 8.0\n.target sm_80\n.address_size 64\n" \
    ".visible .entry t(.param .u64 data, .param .u64 out, .param .u64 start, .param .u32 turns, .param .u32 step)\n{\n" \
    ".reg .b64 %%b, %%m, %%l, %%a, %%a1, %%x, %%u, %%y, %%z;\n.reg .b32 %%t, %%r, %%r1, %%r2, %%n, %%c, %%v, %%w, %%s, %%e, %%d;\n" \
    ".reg .b16 %%h;\n.reg .pred %%p, %%q;\nld.param.u64 %%b, [data];\nmov.u32 %%t, %%tid.x;\nadd.u64 %%m, %%b, 65536;\n" \
    "mul.wide.u32 %%l, %%t, 12;\nld.param.u64 %%z, [start];\nmul.wide.u32 %%x, %%t, 4;\nadd.u64 %%z, %%z, %%x;\n" \
    "ld.global.u32 %%r, [%%z];\nadd.u64 %%y, %%b, %%x;\nmov.u32 %%n, 0;\nmov.u32 %%s, 0;\nld.param.u32 %%e, [turns];\n" \
    "ld.param.u32 %%d, [step];\nLOOP:\n%s\n%s\n" \
    "mad.lo.u32 %%v, %%v, 3, %%w;\nmad.lo.u32 %%s, %%s, 31, %%v;\n%s\nadd.u32 %%r, %%r, %%d;\nadd.u64 %%y, %%y, 8;\n" \
    "add.u32 %%n, %%n, 1;\nsetp.lt.u32 %%p, %%n, %%e;\n@%%p bra LOOP;\n" \
    "ld.param.u64 %%z, [out];\nmul.wide.u32 %%x, %%t, 4;\nadd.u64 %%z, %%z, %%x;\nst.global.u32 [%%z], %%s;\nret;\n}\n"

static int launch(struct tk *t, uint32_t lanes, uint32_t turns, uint32_t step, struct sg_fault *f)
{
    const struct {
        uint64_t data, out, start;
        uint32_t turns, step;
    } p = {(uintptr_t)data, (uintptr_t)out, (uintptr_t)start, turns, step};

    memset(out, 0x55, 4 * LANES);
    return tk_run(t, 1, lanes, &p, f);
}

/* True if the kernel has code for affine addresses. */
static bool has_affine(const struct tk *t)
{
    return t->k->code.affine || (t->k->rows && t->k->rows->affine);
}

static bool one(unsigned pattern, unsigned form, unsigned change, unsigned use, bool *affine)
{
    struct sg_fault f = {0};
    char text[4096];
    struct tk t;
    bool ok;

    snprintf(text, sizeof(text), TEXT, forms[form].ptx, uses[use].ptx, changes[change].ptx);
    for (uint32_t i = 0; i < LANES; i++)
        start[i] = counter(pattern, i);
    ok = tk_open(&t, text, "t");
    for (int again = 0; again < 2 && ok; again++) {
        ok = !launch(&t, LANES, TURNS, 2, &f);
        for (uint32_t i = 0; i < LANES && ok; i++) {
            uint32_t r = counter(pattern, i), s = 0, a[2];

            for (uint32_t n = 0; n < TURNS; n++) {
                addresses(form, r, n, i, a);
                s = s * 31 + loaded(use, a);
                r = changed(change, r, n, i);
            }
            ok = out[i] == s;
        }
    }
    *affine = ok && has_affine(&t);
    if (!ok)
        printf("%s, %s, %s, %s: %s\n", patterns[pattern], forms[form].name, changes[change].name,
               uses[use].name, f.message);
    if (t.m)
        tk_close(&t);
    return ok;
}

static void test_all(void)
{
    char name[128];

    for (unsigned form = 0; form < FORMS; form++)
        for (unsigned change = 0; change < CHANGES; change++) {
            unsigned wrong = 0, without = 0;
            bool affine;

            for (unsigned pattern = 0; pattern < PATTERNS; pattern++)
                for (unsigned use = 0; use < USES; use++) {
                    wrong += !one(pattern, form, change, use, &affine);
                    without += !affine;
                }
            snprintf(name, sizeof(name), "%s: %s", forms[form].name, changes[change].name);
            t_result(name, !wrong && (!without || !sg_jit_available()), "%u wrong, %u without such code",
                     wrong, without);
        }
}

#define FAR ((size_t)1 << 32)

/*
 * The upper lanes' counters wrap around in the second turn, all lanes' in the third: their addresses are then
 * 4 GiB away. sign: the counters become negative there.
 */
static void test_wrap(bool sign, const char *ptx, const char *name)
{
    const uint32_t first = sign ? 0x7fffff80u : 0xffffff80u;
    uint8_t *const all = data, *far = tm_reserve(FAR + 4096);
    struct sg_fault f = {0};
    char text[4096];
    uint32_t bad = 0;
    struct tk t;
    bool ok;

    for (uint32_t i = 0; i < 1024; i++) {
        far[i] = (uint8_t)(i * 7);
        far[FAR - 1 - i] = (uint8_t)(i * 5 + 1);
        far[FAR + i] = (uint8_t)(i * 3 + 2);
    }
    data = far;
    for (uint32_t i = 0; i < 32; i++)
        start[i] = first + 4 * i;
    snprintf(text, sizeof(text), TEXT, ptx, uses[0].ptx, "");
    ok = tk_open(&t, text, "t") && !launch(&t, 32, 5, 64, &f) && has_affine(&t) == sg_jit_available();
    for (uint32_t i = 0; i < 32 && ok; i++) {
        uint32_t s = 0;

        for (uint32_t n = 0; n < 5; n++) {
            const uint32_t r = first + 4 * i + 64 * n;
            const uint8_t *at = sign ? far + FAR / 2 + (int32_t)r : far + r;
            uint32_t v[2];

            memcpy(&v[0], at, 4);
            memcpy(&v[1], at + 8, 4);
            s = s * 31 + v[0] * 3 + v[1];
        }
        bad += out[i] != s;
    }
    t_result(name, ok && !bad, "%d, %u lanes are wrong: %s", ok, bad, f.message);
    if (t.m)
        tk_close(&t);
    data = all;
}

/* The last lane's word in the last turn is the last of the memory, or lies `beyond` bytes further. */
static void test_edge(unsigned form, uint32_t beyond, const char *name)
{
    uint8_t *const all = data;
    struct sg_fault f = {0};
    uint32_t high = 0, a[2];
    char text[4096];
    struct tk t;
    int r = -1;

    for (uint32_t i = 0; i < 32; i++) {
        start[i] = i;
        addresses(form, i + 2 * (TURNS - 1), TURNS - 1, i, a);
        high = a[0] > high ? a[0] : high;
        high = a[1] > high ? a[1] : high;
    }
    data = tm_alloc(high + 4 - beyond);
    memset(data, 1, high + 4 - beyond);
    snprintf(text, sizeof(text), TEXT, forms[form].ptx, uses[0].ptx, "");
    if (tk_open(&t, text, "t")) {
        r = launch(&t, 32, TURNS, 2, &f);
        tk_close(&t);
    }
    t_result(name,
             beyond ? r == SG_ERR_ADDRESS && f.thread[0] == 31 && f.address == (uintptr_t)data + high : !r,
             "%s: %d, lane %u, %s", forms[form].name, r, f.thread[0], f.message);
    data = all;
}

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    data = tm_alloc(BYTES);
    out = tm_alloc(4 * LANES);
    start = tm_alloc(4 * LANES);
    for (uint32_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    test_all();
    test_wrap(false, "mad.wide.u32 %a, %r, 1, %b; add.u64 %a1, %a, 8;", "mad.wide.u32 of what wraps around");
    test_wrap(false, "cvt.u64.u32 %x, %r; add.u64 %a, %x, %b; add.u64 %a1, %a, 8;",
              "cvt.u64.u32 of what wraps around");
    test_wrap(false, "bar.sync 0; mul.wide.u32 %x, %r, 1; add.u64 %a, %x, %b; add.u64 %a1, %a, 8;",
              "a block that begins with what wraps around");
    test_wrap(
        true,
        "mov.b64 %u, 2147483648; cvt.s64.s32 %x, %r; add.u64 %x, %x, %u; add.u64 %a, %x, %b; add.u64 %a1, %a, 8;",
        "cvt.s64.s32 of what becomes negative");
    test_wrap(
        true,
        "mov.b64 %u, 2147483648; mul.wide.s32 %x, %r, 1; add.u64 %x, %x, %u; add.u64 %a, %x, %b; add.u64 %a1, %a, 8;",
        "mul.wide.s32 of what becomes negative");
    for (unsigned form = 0; form < FORMS; form++)
        if (form != 1 && form != 2 && form != 4 && form != 5) {
            test_edge(form, 0, "the last word");
            test_edge(form, 4, "a word behind the end");
        }
    tm_free_all();
    return t_end("softgpu affine addresses");
}

#else

int main(void)
{
    t_skip("affine addresses", "no native code for this processor");
    return t_end("softgpu affine addresses");
}

#endif
