/* SPDX-License-Identifier: MIT */
/* SHA-256 (FIPS 180-4): identifies an image by its content, so that a process can offer the hash
   before it sends the bytes. */
#ifndef SHA_SHA256_H
#define SHA_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA_256_BYTES 32

struct sha_256 {
    uint32_t h[8];
    uint64_t bytes;    /* bytes absorbed so far */
    uint8_t block[64]; /* the last bytes % 64 bytes */
};

void sha_256_begin(struct sha_256 *s);
/* Absorbs n bytes. */
void sha_256_add(struct sha_256 *s, const void *data, size_t n);
/* Finishes the hash and writes it to `out`. */
void sha_256_end(struct sha_256 *s, uint8_t out[SHA_256_BYTES]);
/* Hashes n bytes at once. */
void sha_256(const void *data, size_t n, uint8_t out[SHA_256_BYTES]);

#endif
