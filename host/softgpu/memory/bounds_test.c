/* SPDX-License-Identifier: MIT */
/*
 * Proofs about memory/bounds.h, by CBMC with a solver (memory/prove.sh): for every address, size
 * and allocation, what passes a check lies inside. Compiled as an ordinary program it tries the
 * same statements on the boundary values of all variables instead.
 */
#include "memory/bounds.h"

#ifdef __CPROVER__
#define ASSUME(x) __CPROVER_assume(x)
#define CLAIM(x) __CPROVER_assert(x, #x)
#else
#include <stdio.h>
static unsigned long tried, wrong;
#define ASSUME(x) \
    do { \
        if (!(x)) \
            return; \
    } while (0)
#define CLAIM(x) \
    do { \
        tried++; \
        if (!(x) && wrong++ < 10) \
            printf("does not hold: %s\n", #x); \
    } while (0)
#endif

#define HALF (1ull << 63)

/* What passes is inside, to its last byte; and what is inside passes: no access is refused for
   nothing. */
static void span(uint64_t base, uint64_t len, uint64_t addr, uint64_t size)
{
    const bool inside = addr <= UINT64_MAX - size && addr >= base && addr + size <= base + len;

    ASSUME(base <= UINT64_MAX - len);
    CLAIM(!sg_span_has(base, len, addr, size) || inside);
    CLAIM(!inside || sg_span_has(base, len, addr, size));
}

static void lanes(uint64_t base, uint64_t len, uint64_t ad, uint64_t size)
{
    ASSUME(base <= UINT64_MAX - len && len < HALF && size && size <= len);
    CLAIM(!(sg_lane_bad64(ad, base, base + len - size) >> 63) == sg_span_has(base, len, ad, size));
    ASSUME(!base && len < HALF >> 32 && ad <= UINT32_MAX);
    CLAIM(!(sg_lane_bad32((uint32_t)ad, (uint32_t)(len - size)) >> 31) == sg_bytes_have(len, ad, size));
}

static void native(uint64_t base, uint64_t len, uint64_t ad, int64_t low, uint64_t size, uint32_t k)
{
    ASSUME(base <= UINT64_MAX - len && len < HALF && size && size < 1u << 31);
    ASSUME(low >= INT32_MIN && low <= INT32_MAX && k < 8);
    ASSUME(sg_native_has(base, base + len, low, low + (int64_t)size, 1u << k, ad));
    CLAIM(sg_span_has(base, len, ad + (uint64_t)low, size));
    CLAIM(!((ad + (uint64_t)low - base) & ((1u << k) - 1)));
}

#ifdef __CPROVER__
uint64_t nondet_u64(void);
int64_t nondet_s64(void);

void prove_span(void)
{
    span(nondet_u64(), nondet_u64(), nondet_u64(), nondet_u64());
}

void prove_lanes(void)
{
    lanes(nondet_u64(), nondet_u64(), nondet_u64(), nondet_u64());
}

/* One for each alignment that native code has: 1 to 16 bytes. */
#define NATIVE(k) \
    void prove_native_##k(void) \
    { \
        native(nondet_u64(), nondet_u64(), nondet_u64(), nondet_s64(), nondet_u64(), k); \
    }
NATIVE(0)
NATIVE(1)
NATIVE(2)
NATIVE(3)
NATIVE(4)
#else
static const uint64_t values[] = {0,
                                  1,
                                  2,
                                  15,
                                  16,
                                  63,
                                  64,
                                  65,
                                  80,
                                  127,
                                  128,
                                  4095,
                                  4096,
                                  0x7fffffff,
                                  0x80000000,
                                  0x80000001,
                                  0xffffffff,
                                  0x100000000,
                                  0x200010000000,
                                  0x200010000040,
                                  0x7fffffffffff,
                                  HALF - 1,
                                  HALF,
                                  HALF + 1,
                                  UINT64_MAX - 4096,
                                  UINT64_MAX - 64,
                                  UINT64_MAX - 63,
                                  UINT64_MAX - 15,
                                  UINT64_MAX - 1,
                                  UINT64_MAX};
enum { N = sizeof(values) / sizeof(values[0]) };

static void rest(uint64_t a, uint64_t b, uint64_t c)
{
    for (unsigned l = 0; l < N; l++) {
        lanes(a, b, c, values[l]);
        lanes(a, b, a + c, values[l]);
        span(a, b, c, values[l]);
        span(a, b, a + c, values[l]);
        span(a, b, a + b - c, values[l]);
        for (uint32_t k = 0; k < 5; k++) {
            native(a, b, c, (int32_t)values[l], 16, k);
            native(a, b, a + b - c, (int32_t)values[l], 4, k);
            native(a, b, a + c, -(int64_t)(values[l] & 0xffff), 128, k);
        }
    }
}

int main(void)
{
    for (unsigned i = 0; i < N; i++)
        for (unsigned j = 0; j < N; j++)
            for (unsigned k = 0; k < N; k++)
                rest(values[i], values[j], values[k]);
    if (wrong)
        printf("[  FAILED  ] bounds\n%lu of %lu statements do not hold\n[  FAILED  ] bounds\n", wrong, tried);
    else
        printf("[       OK ] %lu statements about bounds, at boundary values\n", tried);
    printf("bounds_test: %d passed, %d failed, 0 skipped\n", !wrong, wrong != 0);
    return wrong != 0;
}
#endif
