/* SPDX-License-Identifier: MIT */
/* Test workers that ask for images, from the broker's view. */
#ifndef BRK_IMAGES_TEST_H
#define BRK_IMAGES_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "clients.h"
#include "lib/sha256/sha256.h"
#include "vgb_fd.h"
#include "worker_test.h"

#define CACHE (UINT64_C(4) << 20)
#define SIZE ((size_t)1 << 20)

static const struct brk_client_ops one_vm, another_vm;
static uint8_t bytes[SIZE];

static inline int setup(void **state)
{
    (void)state;
    brk_opt.image_cache = CACHE;
    brk_images = (struct brk_images_state){0};
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    brk_images_stop();
    return brk_images.bytes || brk_images.count;
}

/* Ends a client as the broker does after its worker's exit. */
static inline void end(struct worker *w)
{
    brk_images_client_gone(&w->client);
    brk_images_worker_gone(&w->client);
    assert_int_equal(w->client.nfilling, 0);
    worker_close(w);
}

/* Fills `bytes` with the image of this kind. */
static inline void image(uint8_t kind, size_t size, uint8_t hash[SHA_256_BYTES])
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(kind + i / 4096);
    sha_256(bytes, size, hash);
}

/* Sends IMAGE_ASK. Descriptor received, -1: none. *number: 0: the descriptor is the image. */
static inline int ask(struct worker *w, const uint8_t *hash, uint64_t size, uint64_t *number)
{
    struct vgb_msg m = {.type = VGB_M_IMAGE_ASK, .length = size};
    unsigned n = 1;
    int fd = -1;

    memcpy(m.image.hash, hash, SHA_256_BYTES);
    assert_true(brk_images_message(&w->client, &m));
    assert_int_equal(vgb_msg_recv(w->sock, &m, &fd, &n, MSG_DONTWAIT), 1);
    assert_int_equal(m.type, VGB_M_IMAGE);
    *number = m.value;
    assert_int_equal(m.status == VGPU_S_OK, fd >= 0 && !m.value);
    assert_int_equal(n, m.status == VGPU_S_OK || m.value);
    return n ? fd : -1;
}

static inline bool filled(struct worker *w, uint64_t number, uint32_t status)
{
    struct vgb_msg m = {.type = VGB_M_IMAGE_FILLED, .value = number, .status = status};

    return brk_images_message(&w->client, &m);
}

static inline void check_all(void)
{
    while (brk_images_tick(7) == 0)
        ;
}

/* Offers `bytes` with this hash to the broker's cache. */
static inline void store(struct worker *w, const uint8_t *hash, size_t size)
{
    uint64_t number;
    int fd = ask(w, hash, size, &number);

    assert_true(fd >= 0 && number);
    assert_int_equal(pwrite(fd, bytes, size, 0), size);
    assert_true(filled(w, number, 0));
    check_all();
    close(fd);
}

static inline bool has(struct worker *w, const uint8_t *hash, size_t size)
{
    uint64_t number;
    int fd = ask(w, hash, size, &number);
    bool there = fd >= 0 && !number;

    if (number)
        assert_true(filled(w, number, 1)); /* not needed */
    vgb_close(&fd);
    return there;
}

#endif
