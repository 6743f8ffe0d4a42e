/* SPDX-License-Identifier: MIT */
/* Images cross once: real broker and workers, in their sandbox. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "lib/sha256/sha256.h"
#include "proc.h"
#include "vgp_calls.h"

#define SIZE (300u << 10)

static char image[SIZE];
static uint8_t hash[SHA_256_BYTES];

static int setup(void **state)
{
    (void)state;
    memset(image, 'i', SIZE);
    sha_256(image, SIZE, hash);
    return 0;
}

/* A word of the broker's status. */
static unsigned long long said(const struct broker *b, const char *name)
{
    static char text[131072];
    char key[64];
    ssize_t n = broker_status(b->pid, text, sizeof(text) - 1);
    const char *at;

    assert_true(n > 0);
    text[n] = 0;
    snprintf(key, sizeof(key), " %s ", name);
    at = strstr(text, key);
    assert_non_null(at);
    return strtoull(at + strlen(key), NULL, 10);
}

static void wait_for(const struct broker *b, const char *name, unsigned long long value)
{
    for (int i = 0; i < 6000 && said(b, name) != value; i++)
        usleep(10000);
    assert_int_equal(said(b, name), value);
}

static uint64_t features(struct guest *g)
{
    struct vgp_args_vgpHello a = {
        .versionMajor = VGP_VERSION_MAJOR, .versionMinor = VGP_VERSION_MINOR, .label_len = 8};
    const void *p;

    guest_submit(g, VGP_vgpHello, 0, &a, sizeof(a), "images\0", 8);
    assert_int_equal(guest_wait(g, 0, &p, NULL, 60000), 0);
    return ((const struct vgp_ret_vgpHello *)p)->features;
}

static bool offer(struct guest *g, uint32_t id)
{
    struct vgp_args_vgpBlobOffer a = {.blobId = id, .totalSize = SIZE, .hash_len = sizeof(hash)};
    const void *p;

    guest_submit(g, VGP_vgpBlobOffer, 0, &a, sizeof(a), hash, sizeof(hash));
    assert_int_equal(guest_wait(g, 0, &p, NULL, 60000), 0);
    return ((const struct vgp_ret_vgpBlobOffer *)p)->there;
}

static void send_bytes(struct guest *g, uint32_t id)
{
    for (uint32_t at = 0; at < SIZE; at += 50u << 10) {
        struct vgp_args_vgpBlobAppend a = {.blobId = id, .totalSize = SIZE, .data_len = 50u << 10};

        guest_submit(g, VGP_vgpBlobAppend, VGP_NO_REPLY, &a, sizeof(a), image + at, a.data_len);
    }
}

static int load(struct guest *g, uint32_t id)
{
    struct vgp_args_vgpModuleLoad a = {
        .module = VGP_HANDLE(VGP_H_MODULE, 1, id), .image_size = SIZE, .image_blob = id};

    guest_submit(g, VGP_vgpModuleLoad, 0, &a, sizeof(a), NULL, 0);
    return guest_wait(g, 0, NULL, NULL, 60000);
}

static void start(struct broker *b, struct guest *g, const char *option, const char *value)
{
    const char *extra[] = {option, value, NULL};

    memset(b, 0, sizeof(*b));
    assert_int_equal(broker_start(b, extra), 0);
    assert_int_equal(guest_connect(g, b->sock, "first"), 0);
    assert_int_equal(guest_context(g), 0);
}

/* The second program sends no byte of it, also when the first has ended; and a new broker knows nothing. */
static void test_crosses_once(void **state)
{
    struct broker b;
    struct guest g;

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        start(&b, &g, "--image-cache", "16M");
        assert_true(features(&g) & VGP_FEATURE_IMAGES);
        assert_false(offer(&g, 1));
        send_bytes(&g, 1);
        assert_int_equal(load(&g, 1), 0);
        guest_close(&g);
        wait_for(&b, "image-count", 1);
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(guest_connect(&g, b.sock, "next"), 0);
            assert_int_equal(guest_context(&g), 0);
            for (uint32_t id = 1; id < 3; id++) {
                assert_true(offer(&g, id));
                assert_int_equal(load(&g, id), 0);
            }
            guest_close(&g);
        }
        assert_int_equal(said(&b, "image-hits"), 4);
        assert_int_equal(said(&b, "image-hit-bytes"), 4 * SIZE);
        assert_int_equal(said(&b, "image-kept"), SIZE);
        assert_int_equal(broker_stop(&b), 0);
    }
}

/* A program that offers what it does not send: it loads what it has sent, and nobody else does. */
static void test_lie(void **state)
{
    struct broker b;
    struct guest g;

    (void)state;
    start(&b, &g, "--image-cache", "16M");
    image[7] ^= 1;
    assert_false(offer(&g, 1));
    send_bytes(&g, 1);
    assert_int_equal(load(&g, 1), 0);
    image[7] ^= 1;
    wait_for(&b, "image-refused", 1);
    assert_int_equal(said(&b, "image-count"), 0);
    assert_false(offer(&g, 2)); /* and goes on, without */
    send_bytes(&g, 2);
    assert_int_equal(load(&g, 2), 0);
    guest_close(&g);
    assert_int_equal(guest_connect(&g, b.sock, "next"), 0);
    assert_false(offer(&g, 1));
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* Without, and with a worker that is older: the client hears that there is nothing to offer to. */
static void test_without(void **state)
{
    static const char *const options[][2] = {
        {"--image-cache", "0"}, {"--log-level", "warn"}, {"--protocol-minor", "6"}};
    struct broker b;
    struct guest g;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        start(&b, &g, options[i][0], options[i][1]);
        assert_false(features(&g) & VGP_FEATURE_IMAGES);
        if (i < 2)
            assert_false(offer(&g, 1));
        send_bytes(&g, 1);
        assert_int_equal(load(&g, 1), 0);
        guest_close(&g);
        assert_int_equal(broker_stop(&b), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_crosses_once, setup),
        cmocka_unit_test_setup(test_lie, setup),
        cmocka_unit_test_setup(test_without, setup),
    };

    return cmocka_run_group_tests_name("images", tests, NULL, NULL);
}
