/* SPDX-License-Identifier: MIT */
/*
 * Keyed hashes (SipHash) for tables whose keys a guest chooses: without the secret the guest cannot
 * construct keys that collide. The secret belongs to the process and is drawn at first use; a hash
 * is meaningless outside the process.
 */
#ifndef HSH_HASH_H
#define HSH_HASH_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

struct hsh_key {
    uint64_t k[2];
};

struct hsh_state {
    uint64_t v[4];
};

static inline uint64_t hsh_rotate(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static inline void hsh_round(struct hsh_state *s)
{
    uint64_t *v = s->v;

    v[0] += v[1];
    v[2] += v[3];
    v[1] = hsh_rotate(v[1], 13) ^ v[0];
    v[3] = hsh_rotate(v[3], 16) ^ v[2];
    v[0] = hsh_rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = hsh_rotate(v[1], 17) ^ v[2];
    v[3] = hsh_rotate(v[3], 21) ^ v[0];
    v[2] = hsh_rotate(v[2], 32);
}

static inline struct hsh_state hsh_begin(const struct hsh_key *key)
{
    return (struct hsh_state){{key->k[0] ^ 0x736f6d6570736575u, key->k[1] ^ 0x646f72616e646f6du,
                               key->k[0] ^ 0x6c7967656e657261u, key->k[1] ^ 0x7465646279746573u}};
}

/* Absorbs eight bytes, with `rounds` rounds. */
static inline void hsh_add(struct hsh_state *s, uint64_t m, unsigned rounds)
{
    s->v[3] ^= m;
    for (unsigned i = 0; i < rounds; i++)
        hsh_round(s);
    s->v[0] ^= m;
}

/* Absorbs the last n bytes of a message of total length `all`. */
static inline void hsh_add_last(struct hsh_state *s, const void *p, size_t n, size_t all, unsigned rounds)
{
    const unsigned char *c = (const unsigned char *)p;
    uint64_t m = 0;

    for (; n >= 8; n -= 8, c += 8) {
        memcpy(&m, c, 8);
        hsh_add(s, m, rounds);
    }
    m = (uint64_t)all << 56;
    for (size_t i = 0; i < n; i++)
        m |= (uint64_t)c[i] << 8 * i;
    hsh_add(s, m, rounds);
}

static inline uint64_t hsh_end(struct hsh_state *s, unsigned rounds)
{
    s->v[2] ^= 0xff;
    for (unsigned i = 0; i < rounds; i++)
        hsh_round(s);
    return s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
}

static struct hsh_key hsh_secret_key;

static inline void hsh_draw(void)
{
    const void *start = (const void *)getauxval(AT_RANDOM);

    /* If getrandom() fails, uses the random bytes that the process was started with. */
    if (getrandom(&hsh_secret_key, sizeof(hsh_secret_key), 0) != (ssize_t)sizeof(hsh_secret_key) && start)
        memcpy(&hsh_secret_key, start, sizeof(hsh_secret_key));
}

static inline const struct hsh_key *hsh_secret(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, hsh_draw);
    return &hsh_secret_key;
}

/* The hash of n bytes, in the name space `space`. */
static inline uint64_t hsh_bytes(uint64_t space, const void *p, size_t n)
{
    struct hsh_state s = hsh_begin(hsh_secret());

    hsh_add(&s, space, 1);
    hsh_add_last(&s, p, n, n + 8, 1);
    return hsh_end(&s, 3);
}

/* The hash of a number. */
static inline uint64_t hsh_number(uint64_t space, uint64_t number)
{
    struct hsh_state s = hsh_begin(hsh_secret());

    hsh_add(&s, space, 1);
    hsh_add(&s, number, 1);
    return hsh_end(&s, 3);
}

#endif
