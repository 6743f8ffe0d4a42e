/* SPDX-License-Identifier: MIT */
/* A front end whose messages are each well formed, and not together. */
#define _GNU_SOURCE
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "vgb_fd.h"
#include "vm.h"

#define FEW 2u
#define USED_BYTES (6 + 8 * FEW)
#define USED_AT ((RAM_SIZE - USED_BYTES) & ~3u) /* the used ring of FEW entries ends with the region */
#define USED_INDEX 100u

static void assert_answers(struct vm *v)
{
    /* What lay in the loop before is done when the second answer comes. */
    for (int i = 0; i < 2; i++)
        assert_int_not_equal(vm_ask(v, BRK_VU_GET_FEATURES), UINT64_MAX);
}

static uint16_t used_index(const struct vm *v)
{
    return __atomic_load_n((const uint16_t *)(const void *)(v->ram + USED_AT + 2), __ATOMIC_ACQUIRE);
}

static void offer_ping(struct vm *v)
{
    struct vgpu_cmd_ping ping = {.hdr = {.type = VGPU_CMD_PING}};
    struct vring_desc *d = (void *)v->ram;

    memcpy(v->ram + REQUEST, &ping, sizeof(ping));
    d[0] = (struct vring_desc){RAM_GPA + REQUEST, sizeof(ping), 1, 1};
    d[1] = (struct vring_desc){RAM_GPA + RESPONSE, sizeof(struct vgpu_resp_hdr), 2, 0};
    vm_queue_post(v, VGPU_VQ_CONTROL, 0);
}

/* Rings with an address for few entries, then a number with which they end behind the guest's memory. */
static void test_more_entries(void **state)
{
    struct brk_vu_payload_state few = {VGPU_VQ_CONTROL, FEW}, many = {VGPU_VQ_CONTROL, NUM * NUM};
    struct brk_vu_payload_addr addr = {
        .index = VGPU_VQ_CONTROL, .desc = RAM_UVA, .avail = RAM_UVA + 0x1000, .used = RAM_UVA + USED_AT};
    struct vm *v = *state;
    uint16_t index = USED_INDEX;

    memcpy(v->ram + USED_AT + 2, &index, sizeof(index));
    assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_NUM, &few, 8, NULL, 0), 0);
    assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_ADDR, &addr, 40, NULL, 0), 0);
    assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_NUM, &many, 8, NULL, 0), 0);
    offer_ping(v);
    assert_answers(v);
    assert_int_equal(used_index(v), USED_INDEX);
    /* With the number that fits it is served. */
    assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_NUM, &few, 8, NULL, 0), 0);
    vgb_eventfd_signal(v->kick[VGPU_VQ_CONTROL]);
    assert_answers(v);
    assert_int_equal(used_index(v), USED_INDEX + 1);
}

static unsigned descriptors_of(pid_t pid)
{
    char path[40];
    unsigned n = 0;
    DIR *d;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    d = opendir(path);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* A header with the descriptor that its request may have, then the payload with more of them. */
static uint64_t call_with_many(struct vm *v)
{
    struct brk_vu_header h = {
        .request = BRK_VU_SET_VRING_CALL, .flags = BRK_VU_VERSION | BRK_VU_FLAG_NEED_REPLY, .size = 8};
    uint64_t queue = VGPU_VQ_EVENT, r;
    int fds[BRK_VU_REGIONS];

    for (unsigned i = 0; i < BRK_VU_REGIONS; i++)
        fds[i] = v->call[1];
    assert_int_equal(vgb_send_fds(v->sock, &h, sizeof(h), fds, 1, 0), sizeof(h));
    assert_int_equal(vgb_send_fds(v->sock, &queue, sizeof(queue), fds + 1, BRK_VU_REGIONS - 1, 0),
                     sizeof(queue));
    return vm_get_reply(v, &r, sizeof(r));
}

static void test_descriptors_with_payload(void **state)
{
    struct vm *v = *state;
    unsigned before, now = 0;

    call_with_many(v);
    before = descriptors_of(v->b.pid);
    for (int i = 0; i < 20; i++)
        assert_int_equal(call_with_many(v), 1);
    /* They are closed by threads. A worker that is being started has a few of its own meanwhile. */
    for (int i = 0; i < 3000 && (now = descriptors_of(v->b.pid)) >= before + 20; i++)
        usleep(10000);
    assert_uint_in_range(now, 1, before + 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_more_entries, vm_setup, vm_teardown),
        cmocka_unit_test_setup_teardown(test_descriptors_with_payload, vm_setup, vm_teardown),
    };

    return cmocka_run_group_tests_name("vhost-messages", tests, NULL, NULL);
}
