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

static unsigned long puts_seen, beyond;

void lnk_record_put(enum vgp_event_type type, uint64_t serial, const void *head, uint32_t head_size,
                    const void *body, uint32_t body_size)
{
    const struct vgp_event_host *h = head;

    (void)type;
    (void)serial;
    (void)head_size;
    (void)body;
    puts_seen++;
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_changes_meanwhile),
                                       cmocka_unit_test(test_part_of_mapping)};

    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
