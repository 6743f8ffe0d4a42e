/* SPDX-License-Identifier: MIT */
/* Registered memory that the device writes while a recording looks at what has changed in it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "mapped.h"
#include "record_int.h"
#include "vgp_calls.h"

#define PAGE 4096u
#define LOOKS 1000000u

#define STREAM UINT64_C(0x0200000000000007)
#define EVENT ((uint64_t)VGP_H_EVENT << 56 | 9)

static unsigned long puts_seen, beyond;
static unsigned writes, results, eithers; /* events of each type */
static uint64_t last_offset;

static void record_put(enum vgp_event_type type, uint64_t serial, const void *head, uint32_t head_size,
                       const void *body, uint32_t body_size)
{
    const struct vgp_event_host *h = head;

    (void)serial;
    (void)head_size;
    (void)body;
    puts_seen++;
    writes += type == VGP_EVENT_HOST_WRITE;
    results += type == VGP_EVENT_HOST_RESULT;
    eithers += type == VGP_EVENT_HOST_EITHER;
    last_offset = h->offset;
    beyond += h->size == 0 || h->size != body_size || h->offset >= PAGE || h->size > PAGE - h->offset;
}

static atomic_bool stop;

/* A byte of the device's that changes and is again as it was, all the time. */
static void *flip(void *arg)
{
    volatile uint8_t *byte = arg;

    while (!stop) {
        *byte ^= 1;
        for (volatile unsigned i = 0; i < 200; i++)
            ;
    }
    return NULL;
}

static void region_call(uint16_t call, const void *args, size_t size)
{
    struct {
        struct vgp_record record;
        uint8_t args[128];
    } r = {.record = {.call = call}};

    memcpy(r.args, args, size);
    lnk_record_mem_call(&r.record);
}

static void region_reply(uint16_t call, const void *args, size_t size)
{
    struct {
        struct vgp_record record;
        uint8_t args[128];
    } r = {.record = {.call = call}};

    memcpy(r.args, args, size);
    lnk_record_mem_reply(&r.record, CUDA_SUCCESS);
}

static void seen(unsigned w, unsigned r, unsigned e)
{
    assert_int_equal(writes, w);
    assert_int_equal(results, r);
    assert_int_equal(eithers, e);
    writes = results = eithers = 0;
}

static uint8_t *registered(uint32_t region, uint64_t length)
{
    uint8_t *p =
        mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct vgp_args_vgpRegionRegister a = {.region = region, .va = (uintptr_t)p, .length = length};

    assert_ptr_not_equal(p, MAP_FAILED);
    writes = results = eithers = 0;
    region_call(VGP_vgpRegionRegister, &a, sizeof(a));
    seen(0, 0, 0);
    return p;
}

static void unregistered(uint32_t region, uint8_t *p, uint64_t length)
{
    struct vgp_args_vgpRegionUnregister a = {.region = region};

    region_call(VGP_vgpRegionUnregister, &a, sizeof(a));
    munmap(p, length);
    writes = results = eithers = 0;
}

static void fill_sent(uint64_t stream)
{
    struct vgp_args_cuMemsetD8Async a = {.hStream = stream};

    region_call(VGP_cuMemsetD8Async, &a, sizeof(a));
}

static void waited(uint16_t call, uint64_t handle)
{
    region_call(call, &handle, sizeof(handle));
    region_reply(call, &handle, sizeof(handle));
}

/* Who has written: the program before work is sent, the device when none is pending, either before a wait. */
static void test_who_wrote(void **state)
{
    uint8_t *p = registered(1, 4 * PAGE);

    (void)state;
    p[5] = 1;
    fill_sent(STREAM);
    seen(1, 0, 0);
    assert_int_equal(last_offset, 5);
    p[6] = 1;
    region_call(VGP_cuStreamSynchronize, &(uint64_t){STREAM}, 8);
    seen(0, 0, 1);
    p[2 * PAGE] = 1;
    region_reply(VGP_cuStreamSynchronize, &(uint64_t){STREAM}, 8);
    seen(0, 1, 0);
    assert_int_equal(last_offset, 2 * PAGE);
    waited(VGP_cuStreamSynchronize, STREAM); /* nothing is pending, nothing has changed */
    seen(0, 0, 0);
    /* Of two streams the wait for one says nothing of the other. */
    fill_sent(STREAM);
    fill_sent(STREAM + 1);
    p[7] = 2;
    region_reply(VGP_cuStreamSynchronize, &(uint64_t){STREAM}, 8);
    seen(0, 0, 0);
    region_reply(VGP_cuStreamSynchronize, &(uint64_t){STREAM + 1}, 8);
    seen(0, 1, 0);
    unregistered(1, p, 4 * PAGE);
}

/* An event tells of the work before its last record, and only if nothing was sent after that. */
static void test_events(void **state)
{
    const struct vgp_args_cuEventRecord record = {.hEvent = EVENT, .hStream = STREAM};
    uint8_t *p = registered(2, PAGE);

    (void)state;
    for (unsigned later = 0; later < 2; later++) {
        fill_sent(STREAM);
        region_call(VGP_cuEventRecord, &record, sizeof(record));
        if (later)
            fill_sent(STREAM);
        p[later] = 9;
        region_reply(VGP_cuEventSynchronize, &(uint64_t){EVENT + 1}, 8); /* another event */
        seen(0, 0, 0);
        region_reply(VGP_cuEventSynchronize, &(uint64_t){EVENT}, 8);
        seen(0, !later, 0);
    }
    region_reply(VGP_cuStreamSynchronize, &(uint64_t){STREAM}, 8);
    seen(0, 1, 0);
    unregistered(2, p, PAGE);
}

/* Where a copy is under way the device writes: that is not the program's, until the copy was waited for. */
static void test_copies_under_way(void **state)
{
    uint8_t *p = registered(3, 4 * PAGE);
    const struct vgp_args_vgpCopy copy = {.dstKind = VGP_COPY_HOST,
                                          .dst = (uintptr_t)p + 100,
                                          .dstPitch = 50,
                                          .dstHeight = 1,
                                          .widthBytes = 50,
                                          .height = 1,
                                          .depth = 1,
                                          .stream = STREAM};

    (void)state;
    region_call(VGP_vgpCopy, &copy, sizeof(copy));
    p[100] = p[149] = 3;
    fill_sent(STREAM + 1);
    seen(0, 0, 0);
    p[99] = 3;
    fill_sent(STREAM + 1);
    seen(1, 0, 0);
    assert_int_equal(last_offset, 99);
    p[150] = 3;
    fill_sent(STREAM + 1);
    seen(1, 0, 0);
    assert_int_equal(last_offset, 150);
    region_reply(VGP_cuStreamSynchronize, &(uint64_t){STREAM}, 8);
    seen(0, 0, 0); /* the other stream has work */
    fill_sent(STREAM + 1);
    seen(1, 0, 0); /* no copy is under way any more */
    region_reply(VGP_cuStreamSynchronize, &(uint64_t){STREAM + 1}, 8);
    unregistered(3, p, 4 * PAGE);
}

/* What is followed is bounded by what is registered at a time, not by what ever was. */
static void test_followed(void **state)
{
    const uint64_t length = UINT64_C(200) << 20;
    uint8_t *p, *q;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        p = registered(4, PAGE);
        unregistered(4, p, PAGE);
    }
    for (unsigned i = 0; i < 2; i++) {
        q = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        struct vgp_args_vgpRegionRegister a = {.region = 5, .va = (uintptr_t)q, .length = length};

        region_call(VGP_vgpRegionRegister, &a, sizeof(a));
        unregistered(5, q, length);
    }
    p = registered(6, UINT64_C(100) << 20);
    p[1] = 1;
    fill_sent(STREAM);
    seen(1, 0, 0);
    region_reply(VGP_cuStreamSynchronize, &(uint64_t){STREAM}, 8);
    unregistered(6, p, UINT64_C(100) << 20);
}

static void test_changes_meanwhile(void **state)
{
    uint8_t *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct vgp_args_vgpRegionRegister begin = {.region = 1, .va = (uintptr_t)page, .length = PAGE};
    struct vgp_args_vgpRegionUnregister end = {.region = 1};
    pthread_t device;

    (void)state;
    assert_ptr_not_equal(page, MAP_FAILED);
    assert_int_equal(mprotect(page + PAGE, PAGE, PROT_NONE),
                     0); /* looking beyond the region ends the program */
    region_call(VGP_vgpRegionRegister, &begin, sizeof(begin));
    assert_int_equal(pthread_create(&device, NULL, flip, page + PAGE - 1), 0);
    for (unsigned i = 0; i < LOOKS; i++)
        lnk_record_mem_function(true);
    stop = true;
    pthread_join(device, NULL);
    page[100] = 7; /* it is still seen what has changed */
    puts_seen = 0;
    lnk_record_mem_function(true);
    assert_int_equal(puts_seen, 1);
    assert_int_equal(beyond, 0);
    region_call(VGP_vgpRegionUnregister, &end, sizeof(end));
    munmap(page, 2 * PAGE);
}

static bool keep_mapping(const struct lnk_mapping *p, void *arg)
{
    *(struct lnk_mapping *)arg = *p;
    return true;
}

/* Of a file's mapping the part that is asked for, with its place in the file. */
static void test_part_of_mapping(void **state)
{
    struct lnk_mapping part = {.start = 0};
    int fd = memfd_create("mapping", MFD_CLOEXEC);

    (void)state;
    assert_int_equal(ftruncate(fd, 5 * PAGE), 0);
    uint8_t *p = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, fd, PAGE);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_true(lnk_each_mapping(p + PAGE, 2 * PAGE, keep_mapping, &part));
    assert_int_equal(part.start, (uintptr_t)p + PAGE);
    assert_int_equal(part.end, (uintptr_t)p + 3 * PAGE);
    assert_int_equal(part.offset, 2 * PAGE);
    assert_string_equal(part.access, "r--s");
    munmap(p, 4 * PAGE);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes_meanwhile), cmocka_unit_test(test_part_of_mapping),
        cmocka_unit_test(test_who_wrote),         cmocka_unit_test(test_events),
        cmocka_unit_test(test_copies_under_way),  cmocka_unit_test(test_followed)};

    lnk_record_mem_start(record_put);
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
