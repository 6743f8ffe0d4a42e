/* SPDX-License-Identifier: MIT */
/* Images that the broker keeps: what workers that were taken over say of them, bounds, ends. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "images_test.h"
#include "lib/testing/range.h"

/* What is kept cannot be changed, in no way that a descriptor gives. */
static void test_sealed(void **state)
{
    uint8_t hash[SHA_256_BYTES];
    struct worker a, b;
    uint64_t number;
    char *p;
    int fd;

    (void)state;
    worker_open(&a, &one_vm);
    worker_open(&b, &one_vm);
    image(1, SIZE, hash);
    store(&a, hash, SIZE);
    fd = ask(&b, hash, SIZE, &number);
    assert_true(fd >= 0 && !number);
    p = mmap(NULL, SIZE + 1, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(p != MAP_FAILED);
    assert_memory_equal(p, bytes, SIZE);
    assert_int_equal(p[SIZE], 0);
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    assert_int_equal(ftruncate(fd, 1), -1);
    assert_int_equal(ftruncate(fd, 2 * SIZE), -1);
    assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    assert_true(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    assert_int_equal(brk_images.hits, 1);
    assert_int_equal(brk_images.hit_bytes, SIZE);
    munmap(p, SIZE + 1);
    close(fd);
    end(&a);
    end(&b);
}

/* Bytes under the hash of others are kept for nobody, and its worker has nothing kept any more. */
static void test_other_bytes(void **state)
{
    uint8_t hash[SHA_256_BYTES], own[SHA_256_BYTES];
    struct worker bad, b;
    uint64_t number;

    (void)state;
    worker_open(&bad, &one_vm);
    worker_open(&b, &one_vm);
    image(1, SIZE, hash);
    bytes[SIZE - 1] ^= 1;
    store(&bad, hash, SIZE);
    assert_int_equal(brk_images.refused, 1);
    assert_false(has(&b, hash, SIZE));
    image(2, SIZE, own);
    assert_int_equal(ask(&bad, own, SIZE, &number), -1);
    image(1, SIZE, hash); /* the right ones are taken as ever */
    store(&b, hash, SIZE);
    assert_true(has(&bad, hash, SIZE));
    end(&bad);
    end(&b);
}

/* The memory that a worker fills is its own before, while and after it is checked: what is kept was copied before it was
 * hashed. */
static void test_changes(void **state)
{
    uint8_t hash[SHA_256_BYTES], other[SHA_256_BYTES];
    struct worker bad, b;
    uint64_t number;
    char *p;
    int fd;

    (void)state;
    worker_open(&bad, &one_vm);
    worker_open(&b, &one_vm);
    image(1, SIZE, hash);
    fd = ask(&bad, hash, SIZE, &number);
    p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(p != MAP_FAILED);
    assert_int_equal(ftruncate(fd, 4096), -1);
    memcpy(p, bytes, SIZE);
    assert_true(filled(&bad, number, 0));
    assert_int_equal(brk_images_tick(7), 0);
    memset(p, 0xee, 4096); /* what was copied already */
    check_all();
    memset(p, 0xee, SIZE); /* after all of it */
    munmap(p, SIZE);
    close(fd);
    fd = ask(&b, hash, SIZE, &number);
    assert_true(fd >= 0 && !number);
    p = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_memory_equal(p, bytes, SIZE);
    munmap(p, SIZE);
    close(fd);

    image(2, SIZE, other);
    fd = ask(&bad, other, SIZE, &number);
    assert_int_equal(pwrite(fd, bytes, SIZE, 0), SIZE);
    assert_true(filled(&bad, number, 0));
    assert_int_equal(brk_images_tick(7), 0);
    assert_int_equal(pwrite(fd, "x", 1, SIZE - 1), 1); /* what was not copied yet */
    check_all();
    close(fd);
    assert_int_equal(brk_images.refused, 1);
    assert_false(has(&b, other, SIZE));
    end(&bad);
    end(&b);
}

/* Sizes and numbers that no honest worker says, and sizes for which there is no room. */
static void test_lies(void **state)
{
    uint8_t hash[SHA_256_BYTES];
    struct vgb_msg m = {.type = VGB_M_IMAGE_ASK};
    struct worker a, b;
    uint64_t number;
    int fd;

    (void)state;
    worker_open(&a, &one_vm);
    worker_open(&b, &one_vm);
    m.length = VGP_BLOB_OFFER - 1;
    assert_false(brk_images_message(&a.client, &m));
    m.length = (uint64_t)VGP_BLOB_MAX + 1;
    assert_false(brk_images_message(&a.client, &m));
    m.length = UINT64_MAX;
    assert_false(brk_images_message(&a.client, &m));
    image(1, SIZE, hash);
    assert_int_equal(ask(&a, hash, VGP_BLOB_MAX, &number), -1);
    assert_int_equal(ask(&a, hash, CACHE / 2 + 1, &number), -1);
    /* Another size than the image has: its bytes are others. */
    store(&a, hash, SIZE - 4096);
    assert_int_equal(brk_images.refused, 1);
    assert_false(has(&b, hash, SIZE - 4096));
    fd = ask(&b, hash, SIZE, &number);
    assert_false(filled(&a, number, 0)); /* another's */
    assert_false(filled(&b, number + 1, 0));
    assert_false(filled(&b, number, 2));
    assert_true(filled(&b, number, 0));
    assert_false(filled(&b, number, 0));
    close(fd);
    brk_opt.image_cache = 0; /* it was not told that there is any */
    m.length = SIZE;
    assert_false(brk_images_message(&a.client, &m));
    brk_opt.image_cache = CACHE;
    end(&a);
    end(&b);
}

/* Two programs send the same image at once; a third one, of another VM, does not hear of it. */
static void test_two_at_once(void **state)
{
    uint8_t hash[SHA_256_BYTES];
    uint64_t number[2], again;
    struct worker w[2], other;
    int fd[2];

    (void)state;
    image(1, SIZE, hash);
    for (unsigned i = 0; i < 2; i++) {
        worker_open(&w[i], &one_vm);
        fd[i] = ask(&w[i], hash, SIZE, &number[i]);
        assert_true(fd[i] >= 0 && number[i]);
        assert_int_equal(ask(&w[i], hash, SIZE, &again), -1); /* another thread of it */
        assert_int_equal(pwrite(fd[i], bytes, SIZE, 0), SIZE);
    }
    for (unsigned i = 0; i < 2; i++)
        assert_true(filled(&w[i], number[i], 0));
    check_all();
    assert_int_equal(brk_images.count, 1);
    assert_int_equal(brk_images.kept, 1);
    worker_open(&other, &another_vm);
    assert_false(has(&other, hash, SIZE));
    for (unsigned i = 0; i < 2; i++) {
        assert_true(has(&w[i], hash, SIZE));
        close(fd[i]);
        end(&w[i]);
    }
    end(&other);
}

/* The image used last stays; a client has as much kept in its life as the cache holds. */
static void test_eviction(void **state)
{
    uint8_t hash[6][SHA_256_BYTES];
    struct worker w[2];
    uint64_t number;

    (void)state;
    worker_open(&w[0], &one_vm);
    worker_open(&w[1], &one_vm);
    for (uint8_t i = 0; i < 4; i++) {
        image(i, SIZE, hash[i]);
        store(&w[0], hash[i], SIZE);
    }
    assert_int_equal(brk_images.bytes, CACHE);
    assert_true(has(&w[0], hash[0], SIZE));
    image(4, SIZE, hash[4]);
    assert_int_equal(ask(&w[0], hash[4], SIZE, &number), -1);
    store(&w[1], hash[4], SIZE);
    assert_int_equal(brk_images.bytes, CACHE);
    assert_int_equal(brk_images.evicted, 1);
    assert_true(has(&w[1], hash[4], SIZE));
    assert_true(has(&w[1], hash[0], SIZE));
    assert_false(has(&w[1], hash[1], SIZE));
    assert_true(has(&w[1], hash[2], SIZE));
    end(&w[0]);
    end(&w[1]);
}

/* A program that ends at once has its image checked all the same; what it had not sent is given up. */
static void test_ends(void **state)
{
    uint8_t hash[SHA_256_BYTES], other[SHA_256_BYTES];
    struct worker a, b;
    uint64_t number, half;
    int fd[2];

    (void)state;
    worker_open(&a, &one_vm);
    worker_open(&b, &one_vm);
    image(2, SIZE, other);
    fd[1] = ask(&a, other, SIZE, &half);
    image(1, SIZE, hash);
    fd[0] = ask(&a, hash, SIZE, &number);
    assert_int_equal(pwrite(fd[0], bytes, SIZE, 0), SIZE);
    assert_true(filled(&a, number, 0));
    end(&a);
    check_all();
    assert_true(has(&b, hash, SIZE));
    assert_false(has(&b, other, SIZE));
    for (unsigned i = 0; i < 2; i++)
        close(fd[i]);
    end(&b);
}

static unsigned descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 512; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Where the broker may have few descriptors, those for clients are left, whatever workers have it keep, fill and check. */
static void test_few_descriptors(void **state)
{
    enum { LIMIT = 256, WORKERS = 8, EACH = 16, SMALL = VGP_BLOB_OFFER };
    static struct worker w[WORKERS];
    uint8_t hash[SHA_256_BYTES];
    uint64_t number[WORKERS * EACH];
    unsigned n = 0, before, of[WORKERS * EACH];
    struct rlimit was, few;
    int fd;

    (void)state;
    brk_opt.image_cache = UINT64_C(2) * WORKERS * EACH * SMALL;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = (struct rlimit){LIMIT, was.rlim_max};
    for (unsigned i = 0; i < WORKERS; i++)
        worker_open(&w[i], &one_vm);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    before = descriptors();
    for (unsigned i = 0; i < WORKERS * EACH; i++) { /* kept */
        image((uint8_t)i, SMALL, hash);
        store(&w[i / EACH], hash, SMALL);
    }
    assert_uint_in_range(descriptors() - before, 1, LIMIT / 8);
    for (unsigned i = 0; i < WORKERS; i++) { /* other clients, which have not had as much kept */
        end(&w[i]);
        worker_open(&w[i], &one_vm);
    }
    for (unsigned i = 0; i < WORKERS * EACH; i++) { /* filled */
        hash[0]++;
        hash[1] += !hash[0];
        fd = ask(&w[i / EACH], hash, SMALL, &number[n]);
        if (fd >= 0)
            of[n++] = i / EACH;
        vgb_close(&fd);
    }
    assert_true(n > 0);
    assert_uint_in_range(descriptors() - before, 1, LIMIT / 8);
    while (n--) { /* checked, in an order in which each has begun when the next one is complete */
        assert_true(filled(&w[of[n]], number[n], 0));
        assert_uint_in_range(descriptors() - before, 1, LIMIT / 8);
    }
    check_all();
    for (unsigned i = 0; i < WORKERS; i++)
        end(&w[i]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

/* What a worker was given it may have mapped as long as it lives: that much, beside what is kept, is never more than what
 * is kept. */
static void test_held(void **state)
{
    uint8_t hash[9][SHA_256_BYTES];
    struct worker w[4], holder;

    (void)state;
    worker_open(&holder, &one_vm);
    for (unsigned i = 0; i < 4; i++)
        worker_open(&w[i], &one_vm);
    for (uint8_t i = 0; i < 9; i++) { /* each filled by a client that may still have so much kept */
        image(i, SIZE, hash[i]);
        store(&w[i / 4], hash[i], SIZE);
        assert_int_equal(has(&holder, hash[i], SIZE), i < 8);
        assert_int_equal(brk_images.bytes, (i < 4 ? i + 1 : 4) * SIZE);
    }
    assert_true(has(&w[3], hash[7], SIZE)); /* kept, and held by others, too */
    end(&holder);
    image(8, SIZE, hash[8]);
    store(&w[3], hash[8], SIZE);
    assert_true(has(&w[0], hash[8], SIZE));
    for (unsigned i = 0; i < 4; i++)
        end(&w[i]);
}

/* Room of evicted images that were held is there again, all of it, when their holders have ended: each time. */
static void test_held_again(void **state)
{
    uint8_t hash[SHA_256_BYTES];
    struct worker w[4], holder;

    (void)state;
    for (unsigned round = 0; round < 4; round++) {
        worker_open(&holder, &one_vm);
        for (unsigned i = 0; i < 4; i++)
            worker_open(&w[i], &one_vm);
        for (unsigned i = 0; i < 9; i++) { /* four are kept, four are evicted and held, one has no room */
            image((uint8_t)(9 * round + i), SIZE, hash);
            store(&w[i / 4 % 4], hash, SIZE);
            assert_int_equal(has(&holder, hash, SIZE), i < 8);
        }
        assert_int_equal(brk_images.bytes, 4 * SIZE);
        end(&holder);
        for (unsigned i = 0; i < 4; i++)
            end(&w[i]);
    }
}

/* One image is copied at a time, whatever becomes complete meanwhile. */
static void test_one_copy(void **state)
{
    uint8_t hash[2][SHA_256_BYTES];
    uint64_t number[2];
    struct worker a;
    unsigned before;
    int fd[2];

    (void)state;
    worker_open(&a, &one_vm);
    for (unsigned i = 0; i < 2; i++) {
        image((uint8_t)i, SIZE, hash[i]);
        fd[i] = ask(&a, hash[i], SIZE, &number[i]);
        assert_true(fd[i] >= 0);
    }
    before = descriptors();
    for (unsigned i = 2; i-- > 0;) { /* the one that was asked for last is complete first */
        assert_true(filled(&a, number[i], 0));
        assert_int_equal(brk_images_tick(7), 0);
    }
    assert_int_equal(descriptors(), before + 1);
    check_all();
    for (unsigned i = 0; i < 2; i++)
        close(fd[i]);
    end(&a);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_sealed),      T(test_other_bytes), T(test_changes),    T(test_lies),
        T(test_two_at_once), T(test_eviction),    T(test_ends),       T(test_few_descriptors),
        T(test_one_copy),    T(test_held),        T(test_held_again),
    };

    return cmocka_run_group_tests_name("images", tests, NULL, NULL);
}
