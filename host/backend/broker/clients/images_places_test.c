/* SPDX-License-Identifier: MIT */
/* Places for images that workers fill: who takes them from whom, and when. */
#define _GNU_SOURCE
#include "images_test.h"
#include "lib/testing/range.h"

static uint64_t later_ns;
uint64_t __real_vgb_now_ns(void);
uint64_t __wrap_vgb_now_ns(void);
uint64_t __wrap_vgb_now_ns(void)
{
    return __real_vgb_now_ns() + later_ns;
}

/* Asks for so many small images, and fills none of them. */
static void hold(struct worker *w, unsigned kind, unsigned n, uint64_t *number)
{
    uint8_t hash[SHA_256_BYTES];

    for (unsigned i = 0; i < n; i++) {
        image((uint8_t)(kind + i), VGP_BLOB_OFFER, hash);
        int fd = ask(w, hash, VGP_BLOB_OFFER, &number[i]);
        vgb_close(&fd);
    }
}

/* Places that workers have taken and do not fill are another's after a minute; no place that moves is. */
static void test_stale(void **state)
{
    enum { WORKERS = 64 };
    static struct worker holds[WORKERS], other;
    uint8_t hash[SHA_256_BYTES];
    uint64_t number[WORKERS], n;

    (void)state;
    later_ns = 0;
    worker_open(&other, &one_vm);
    for (unsigned i = 0; i < WORKERS; i++) {
        worker_open(&holds[i], &one_vm);
        hold(&holds[i], i, 1, &number[i]);
    }
    image(200, VGP_BLOB_OFFER, hash);
    assert_int_equal(ask(&other, hash, VGP_BLOB_OFFER, &n), -1); /* there is no place */
    later_ns = UINT64_C(59000000000);
    assert_int_equal(ask(&other, hash, VGP_BLOB_OFFER, &n), -1);
    later_ns = UINT64_C(61000000000);
    store(&other, hash, VGP_BLOB_OFFER);
    assert_true(has(&other, hash, VGP_BLOB_OFFER));
    /* The worker that was too slow says so, once for each; more than that no honest one does. */
    assert_true(filled(&holds[0], number[0], 0));
    assert_false(filled(&holds[0], number[0], 0));
    assert_true(filled(&holds[1], number[1], 1)); /* that one is there yet */
    for (unsigned i = 0; i < WORKERS; i++)
        end(&holds[i]);
    end(&other);
    later_ns = 0;
}

/* Workers that ask anew before what they have is stale keep no more than the others: places, or bytes. */
static void test_richer(void **state)
{
    enum { WORKERS = 4, EACH = 16 };
    static struct worker greedy[WORKERS], other;
    uint8_t hash[SHA_256_BYTES];
    uint64_t number[EACH], n;
    unsigned places = 0, left = 0, got;
    int fd;

    (void)state;
    later_ns = 0;
    brk_opt.image_cache = 4 * CACHE; /* places are short, not bytes */
    worker_open(&other, &one_vm);
    for (unsigned i = 0; i < WORKERS; i++) {
        worker_open(&greedy[i], &one_vm);
        hold(&greedy[i], i * EACH, EACH, number);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        places += greedy[i].client.nfilling; /* by the limit of descriptors */
    hold(&other, 100, EACH, number);
    got = other.client.nfilling;
    assert_uint_in_range(got, places / (WORKERS + 1), EACH);
    for (unsigned i = 0; i < WORKERS; i++) {
        left += greedy[i].client.nfilling;
        hold(&greedy[i], 120 + i, 1, &n);
        assert_int_equal(n, 0);
    }
    assert_int_equal(left + got, places);
    for (unsigned i = 0; i < WORKERS; i++)
        end(&greedy[i]);
    end(&other);
    brk_opt.image_cache = CACHE;
    worker_open(&other, &one_vm);
    worker_open(&greedy[0], &one_vm);
    image(1, SIZE, hash);
    fd = ask(&greedy[0], hash, CACHE / 2, &n); /* all bytes */
    store(&other, hash, SIZE);
    assert_int_equal(greedy[0].client.nfilling, 0);
    assert_true(filled(&greedy[0], n, 1)); /* it does not know that yet */
    vgb_close(&fd);
    end(&greedy[0]);
    end(&other);
}

/* A place is given up for an image that can have it: not for one that has no room, nor for who may fill no more. */
static void test_stale_for_nobody(void **state)
{
    static struct worker slow, full, bad;
    uint8_t hash[SHA_256_BYTES], other[SHA_256_BYTES];
    uint64_t number, n, held[16];
    int fd;

    (void)state;
    later_ns = 0;
    worker_open(&slow, &one_vm);
    worker_open(&full, &one_vm);
    worker_open(&bad, &one_vm);
    image(200, SIZE, other);
    bytes[0] ^= 1;
    store(&bad, other, SIZE);
    assert_int_equal(brk_images.refused, 1);
    image(201, SIZE, hash);
    fd = ask(&slow, hash, SIZE, &number); /* half of what may be filled */
    later_ns = UINT64_C(61000000000);
    hold(&full, 0, 16, held);
    assert_int_equal(full.client.nfilling, 16);
    image(202, CACHE / 4, other);
    assert_int_equal(ask(&full, other, CACHE / 4, &n), -1); /* it has as many as it may */
    assert_int_equal(ask(&bad, other, CACHE / 4 + 1, &n), -1);
    end(&bad);
    worker_open(&bad, &one_vm);
    assert_int_equal(ask(&bad, other, CACHE / 2 + 1, &n), -1); /* more than may be filled at all */
    assert_int_equal(ask(&bad, other, CACHE / 2, &n), -1);     /* more than the others leave */
    assert_int_equal(slow.client.nfilling, 1);
    image(201, SIZE, hash);
    assert_int_equal(pwrite(fd, bytes, SIZE, 0), SIZE);
    assert_true(filled(&slow, number, 0));
    check_all();
    assert_true(has(&bad, hash, SIZE));
    vgb_close(&fd);
    end(&slow);
    end(&full);
    end(&bad);
    later_ns = 0;
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(test_stale), T(test_richer), T(test_stale_for_nobody)};

    return cmocka_run_group_tests_name("images places", tests, NULL, NULL);
}
