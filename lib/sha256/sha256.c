/* SPDX-License-Identifier: MIT */
#include "sha256.h"

#include <stdbool.h>
#include <string.h>

static const uint32_t constants[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void expand_schedule(uint32_t w[64], const uint8_t *p)
{
    for (unsigned t = 0; t < 16; t++, p += 4)
        w[t] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    for (unsigned t = 16; t < 64; t++) {
        uint32_t a = w[t - 15], b = w[t - 2];

        w[t] = w[t - 16] + (rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3) + w[t - 7] +
               (rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10);
    }
}

static void add_portably(uint32_t h[8], const uint8_t *p, size_t blocks)
{
    for (; blocks; blocks--, p += 64) {
        uint32_t w[64], v[8];

        expand_schedule(w, p);
        memcpy(v, h, sizeof(v));
        /* Instead of moving the eight words on by a place, each round begins a place earlier. */
#pragma GCC unroll 64
        for (unsigned t = 0; t < 64; t++) {
            const unsigned at = 64 - t;
            uint32_t a = v[at % 8], b = v[(at + 1) % 8], c = v[(at + 2) % 8], e = v[(at + 4) % 8];
            uint32_t x = v[(at + 7) % 8] + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
                         ((e & v[(at + 5) % 8]) ^ (~e & v[(at + 6) % 8])) + constants[t] + w[t];

            v[(at + 3) % 8] += x;
            v[(at + 7) % 8] = x + (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
                              ((a & b) ^ (a & c) ^ (b & c));
        }
        for (unsigned i = 0; i < 8; i++)
            h[i] += v[i];
    }
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

/* The instructions keep a, b, e, f in a register and c, d, g, h in another, and compute two
   rounds each. */
__attribute__((target("sha,sse4.1,ssse3"))) static void add_by_instructions(uint32_t h[8], const uint8_t *p,
                                                                            size_t blocks)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)&h[0]), 0xb1);
    __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)&h[4]), 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);

    for (; blocks; blocks--, p += 64) {
        const __m128i abef_was = abef, cdgh_was = cdgh;
        __m128i w[4];

        for (unsigned i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p + i), swap);
#pragma GCC unroll 16
        for (unsigned i = 0; i < 16; i++) {
            __m128i *next = &w[i & 3], last = w[(i + 3) & 3];

            if (i >= 4)
                *next = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(*next, w[(i + 1) & 3]),
                                                           _mm_alignr_epi8(last, w[(i + 2) & 3], 4)),
                                             last);
            __m128i k = _mm_add_epi32(*next, _mm_load_si128((const __m128i *)&constants[4 * i]));

            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(k, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_was);
        cdgh = _mm_add_epi32(cdgh, cdgh_was);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);

    _mm_storeu_si128((__m128i *)&h[0], _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)&h[4], _mm_alignr_epi8(dchg, feba, 8));
}

static bool has_instructions(void)
{
    unsigned a, b, c, d, sse;

    if (!__get_cpuid(1, &a, &b, &sse, &d) || !(sse & bit_SSSE3) || !(sse & bit_SSE4_1))
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_SHA;
}
#endif

static void add_blocks(uint32_t h[8], const uint8_t *p, size_t blocks)
{
#if defined(__x86_64__)
    static _Atomic int known; /* 1: the instructions are available; -1: they are not */

    if (!known)
        known = has_instructions() ? 1 : -1;
    if (known > 0) {
        add_by_instructions(h, p, blocks);
        return;
    }
#endif
    add_portably(h, p, blocks);
}

void sha_256_begin(struct sha_256 *s)
{
    *s = (struct sha_256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                                0x1f83d9ab, 0x5be0cd19}};
}

void sha_256_add(struct sha_256 *s, const void *data, size_t n)
{
    const uint8_t *p = data;
    size_t have = s->bytes % sizeof(s->block);

    s->bytes += n;
    if (have) {
        size_t part = sizeof(s->block) - have < n ? sizeof(s->block) - have : n;

        memcpy(s->block + have, p, part);
        if (have + part < sizeof(s->block))
            return;
        add_blocks(s->h, s->block, 1);
        p += part;
        n -= part;
    }
    add_blocks(s->h, p, n / sizeof(s->block));
    if (n % sizeof(s->block))
        memcpy(s->block, p + n - n % sizeof(s->block), n % sizeof(s->block));
}

void sha_256_end(struct sha_256 *s, uint8_t out[SHA_256_BYTES])
{
    static const uint8_t padding[64] = {0x80};
    const uint64_t bits = s->bytes * 8;
    uint8_t length[8];

    for (unsigned i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha_256_add(s, padding, 1 + (119 - s->bytes % 64) % 64);
    sha_256_add(s, length, sizeof(length));
    for (unsigned i = 0; i < SHA_256_BYTES; i++)
        out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void sha_256(const void *data, size_t n, uint8_t out[SHA_256_BYTES])
{
    struct sha_256 s;

    sha_256_begin(&s);
    sha_256_add(&s, data, n);
    sha_256_end(&s, out);
}
