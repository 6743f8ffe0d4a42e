/* SPDX-License-Identifier: MIT */
/* Requests to the broker about shared objects, their order, and the use of its answers. The test is
 * the broker. */
#define _GNU_SOURCE
#include "core.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "vgb_fd.h"
#include <linux/types.h>

#include "vgpu_device.h"

static struct wrk_worker w;
static int broker;
static struct sg_share_ops ops;

static void set_share(const struct sg_share_ops *o, void *arg)
{
    assert_ptr_equal(arg, &w);
    ops = *o;
}

static int setup(void **state)
{
    int pair[2];

    (void)state;
    memset(&w, 0, sizeof(w));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return -1;
    w.sock = pair[0];
    broker = pair[1];
    w.doorbell = eventfd(0, EFD_CLOEXEC);
    w.quota.dispatcher = pthread_self();
    wrk_provider.sg_set_share = set_share;
    wrk_share_init(&w);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(w.sock);
    close(broker);
    close(w.doorbell);
    return 0;
}

/* The broker's answer to the next request, sent ahead. */
static void will_say(uint32_t status, uint8_t token, uint32_t holder, int fd)
{
    struct vgb_msg m = {.type = VGB_M_SHARED, .status = status, .length = VGP_PAGE, .value = holder};

    memset(m.share.token, token, VGB_TOKEN);
    assert_int_equal(vgb_msg_send(broker, &m, &fd, fd >= 0, 0), 0);
}

/* Type of the next request to the broker, 0: none; *token: the first byte of its token. */
static uint32_t heard(uint8_t *token)
{
    struct vgb_msg m;
    unsigned none = 0;

    if (vgb_msg_recv(broker, &m, NULL, &none, MSG_DONTWAIT) != 1)
        return 0;
    *token = m.share.token[0];
    return m.type;
}

static void *drop_on_thread(void *token)
{
    ops.close(&w, token);
    return NULL;
}

static void drop_elsewhere(uint8_t *token)
{
    pthread_t t;

    assert_int_equal(pthread_create(&t, NULL, drop_on_thread, token), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
}

/* Only the dispatcher uses the channel: it reports what another thread dropped, each object once. */
static void test_dropped_elsewhere(void **state)
{
    uint8_t one[VGB_TOKEN], two[VGB_TOKEN], token = 0;
    struct pollfd bell = {.fd = w.doorbell, .events = POLLIN};
    unsigned seen = 0;

    (void)state;
    memset(one, 1, sizeof(one));
    memset(two, 2, sizeof(two));
    assert_false(wrk_share_pending());
    drop_elsewhere(one);
    drop_elsewhere(two);
    assert_int_equal(heard(&token), 0);
    assert_true(wrk_share_pending());
    assert_int_equal(poll(&bell, 1, 0), 1);
    will_say(VGPU_S_OK, 0, 0, -1);
    will_say(VGPU_S_OK, 0, 0, -1);
    wrk_share_flush(&w);
    assert_false(wrk_share_pending());
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(heard(&token), VGB_M_SHARE_DROP);
        seen |= token;
    }
    assert_int_equal(seen, 3);
    wrk_share_flush(&w);
    assert_int_equal(heard(&token), 0);
    /* The dispatcher reports its own drops at once. */
    will_say(VGPU_S_OK, 0, 0, -1);
    ops.close(&w, one);
    assert_int_equal(heard(&token), VGB_M_SHARE_DROP);
    assert_false(wrk_share_pending());
}

/* At the limit of objects, a drop by another thread makes room for the next object. */
static void test_drops_first(void **state)
{
    uint8_t old[VGB_TOKEN], token[VGB_TOKEN], first = 0;
    uint32_t holder = 0;

    (void)state;
    memset(old, 3, sizeof(old));
    for (unsigned opens = 0; opens < 2; opens++) {
        int fd = memfd_create("shared", MFD_CLOEXEC), got;

        drop_elsewhere(old);
        will_say(VGPU_S_OK, 0, 0, -1);
        will_say(VGPU_S_OK, 9, 77, fd);
        memset(token, 9, sizeof(token));
        got = opens ? ops.open(&w, VGB_SHARE_MEMORY, token, &holder)
                    : ops.create(&w, VGB_SHARE_MEMORY, VGP_PAGE, token, &holder);
        assert_true(got >= 0);
        close(got);
        close(fd);
        assert_int_equal(holder, 77);
        assert_int_equal(token[0], 9);
        assert_int_equal(heard(&first), VGB_M_SHARE_DROP);
        assert_int_equal(first, 3);
        assert_int_equal(heard(&first), opens ? VGB_M_SHARE_OPEN : VGB_M_SHARE_NEW);
        assert_int_equal(heard(&first), 0);
    }
}

/* A missing object and missing memory have different errors; neither leaves a descriptor open. */
static void test_refused(void **state)
{
    uint8_t token[VGB_TOKEN] = {0}, first;
    int fd = memfd_create("shared", MFD_CLOEXEC), before = dup(0);
    uint32_t holder = 0;

    (void)state;
    close(before);
    will_say(VGPU_S_INVALID, 0, 5, fd);
    assert_int_equal(ops.open(&w, VGB_SHARE_MEMORY, token, &holder), -1);
    will_say(VGPU_S_QUOTA, 0, 5, fd);
    assert_int_equal(ops.open(&w, VGB_SHARE_MEMORY, token, &holder), -2);
    will_say(VGPU_S_QUOTA, 0, 5, fd);
    assert_int_equal(ops.create(&w, VGB_SHARE_MEMORY, VGP_PAGE, token, &holder), -1);
    assert_int_equal(holder, 0);
    for (unsigned i = 0; i < 3; i++)
        assert_true(heard(&first));
    /* An unknown kind is refused without a request to the broker. */
    assert_int_equal(ops.create(&w, 0, VGP_PAGE, token, &holder), -1);
    assert_int_equal(ops.create(&w, VGB_SHARE_EVENT + 1, VGP_PAGE, token, &holder), -1);
    assert_int_equal(ops.open(&w, 0, token, &holder), -1);
    assert_int_equal(ops.open(&w, VGB_SHARE_EVENT + 1, token, &holder), -1);
    assert_int_equal(heard(&first), 0);
    assert_int_equal(dup(0), before);
    close(before);
    close(fd);
}

/* The broker keeps the bytes of a driver's handle and returns them without memory. */
static void test_payload(void **state)
{
    uint8_t payload[VGB_PAYLOAD] = {0}, token[VGB_TOKEN], first;

    (void)state;
    will_say(VGPU_S_OK, 4, 0, -1);
    assert_int_equal(wrk_share_put(&w, payload, 4096, token), CUDA_SUCCESS);
    assert_int_equal(token[0], 4);
    will_say(VGPU_S_QUOTA, 5, 0, -1);
    assert_int_equal(wrk_share_put(&w, payload, 4096, token), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(token[0], 4);
    will_say(VGPU_S_OK, 4, 0, -1);
    assert_int_equal(wrk_share_get(&w, token, payload), CUDA_SUCCESS);
    will_say(VGPU_S_INVALID, 4, 0, -1);
    assert_int_equal(wrk_share_get(&w, token, payload), CUDA_ERROR_INVALID_HANDLE);
    will_say(VGPU_S_QUOTA, 4, 0, -1);
    assert_int_equal(wrk_share_get(&w, token, payload), CUDA_ERROR_MAP_FAILED);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(heard(&first), i < 2 ? VGB_M_SHARE_NEW : VGB_M_SHARE_OPEN);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(test_dropped_elsewhere), T(test_drops_first), T(test_refused),
                                       T(test_payload)};

    return cmocka_run_group_tests_name("share_requests", tests, NULL, NULL);
}
