/* SPDX-License-Identifier: MIT */
/* SHA-256 (FIPS 180-4): names an image by its bytes, where one side offers the hash before it sends them. */
#ifndef SHA_SHA256_H
#define SHA_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA_256_BYTES 32

struct sha_256 {
    uint32_t h[8];
    uint64_t bytes;    /* taken in so far */
    uint8_t block[64]; /* the last bytes % 64 of them */
};

void sha_256_begin(struct sha_256 *s);
/* Takes n bytes in. */
void sha_256_add(struct sha_256 *s, const void *data, size_t n);
/* Ends it, with the hash in `out`. */
void sha_256_end(struct sha_256 *s, uint8_t out[SHA_256_BYTES]);
/* Of n bytes in one piece. */
void sha_256(const void *data, size_t n, uint8_t out[SHA_256_BYTES]);

#endif
