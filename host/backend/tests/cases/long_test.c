/* SPDX-License-Identifier: MIT */
/* Calls of the provider that take long hold up their own caller only; as in process_test.c. The test
 * provider's calls end when another call says so, which never comes if the dispatcher is in one. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgb_deadline.h"
#include "vgb_fd.h"
#include "vgp_calls.h"
#include "vgp_sock.h"

#define SLOT 5 /* of the long call */

static int setup(void **state)
{
    static struct broker b;

    *state = &b;
    return broker_start(&b, NULL);
}

static int teardown(void **state)
{
    return broker_stop(*state);
}

static void connect_to(struct broker *b, struct guest *g)
{
    assert_int_equal(guest_connect(g, b->sock, "long"), 0);
    assert_int_equal(guest_context(g), 0);
}

static int ping(struct guest *g)
{
    struct vgp_args_vgpPing a = {.value = 1};

    return guest_call(g, VGP_vgpPing, &a, sizeof(a), NULL, NULL);
}

static int request(struct guest *g, uint32_t type, uint32_t region, void *va, uint64_t length, int fd)
{
    struct vgp_sock_map m = {.type = type, .region = region, .va = (uintptr_t)va, .length = length};

    return vgb_send_fds(g->sock, &m, sizeof(m), &fd, fd >= 0 ? 1 : 0, 0) < 0 ? -1 : 0;
}

static int answered(struct guest *g, struct vgp_sock_mapped *m)
{
    unsigned none = 0;

    return vgb_recv_fds(g->sock, m, sizeof(*m), NULL, &none, MSG_DONTWAIT) == sizeof(*m);
}

/* Shares a page of memory with the worker while the long call is under way, and takes it back. */
static void share(struct guest *g)
{
    int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct vgp_sock_mapped m;
    unsigned none = 0;

    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(i ? request(g, VGP_SOCK_UNMAP, 9, NULL, 0, -1)
                           : request(g, VGP_SOCK_MAP, 9, (void *)0x700000000000, 4096, fd),
                         0);
        assert_int_equal(vgb_recv_fds(g->sock, &m, sizeof(m), NULL, &none, 0), sizeof(m));
        assert_int_equal(m.status, 0);
    }
    close(fd);
}

/* The call was submitted with SLOT and seq: others go on, it does not end before it is released. Its result. */
static int others_go_on(struct guest *g, uint32_t seq, const void **payload, uint32_t *size)
{
    uint32_t last;
    int r;

    assert_int_equal(ping(g), 0);
    share(g);
    last = g->seq;
    g->seq = seq;
    assert_int_equal(guest_wait(g, SLOT, NULL, NULL, 0), -1);
    g->seq = last;
    assert_int_equal(guest_release(g), 0);
    last = g->seq;
    g->seq = seq;
    r = guest_wait(g, SLOT, payload, size, 60000);
    g->seq = last;
    return r;
}

static void load(struct guest *g, uint64_t module, const char *image, uint32_t logs)
{
    struct vgp_args_vgpModuleLoad a = {.module = module,
                                       .image_size = strlen(image) + 1,
                                       .image_len = (uint32_t)strlen(image) + 1,
                                       .wantLogs = logs};

    guest_submit(g, VGP_vgpModuleLoad, SLOT, &a, sizeof(a), image, a.image_len);
}

static void test_load(void **state)
{
    const uint64_t m = VGP_HANDLE(VGP_H_MODULE, 1, 1);
    struct vgp_args_cuModuleUnload unload = {.hmod = m};
    const struct vgp_ret_vgpModuleLoad *ret;
    const void *p;
    uint32_t size = 0;
    struct guest g;

    connect_to(*state, &g);
    load(&g, m, "slow", 0);
    assert_int_equal(others_go_on(&g, g.seq, &p, &size), 0);
    assert_int_equal(size, sizeof(*ret)); /* two logs, both empty */
    assert_int_equal(guest_call(&g, VGP_cuModuleUnload, &unload, sizeof(unload), NULL, NULL), 0);
    /* The compiler's messages come with the error. */
    load(&g, VGP_HANDLE(VGP_H_MODULE, 1, 2), "slow and bad", 1);
    assert_int_equal(others_go_on(&g, g.seq, &p, &size), CUDA_ERROR_INVALID_PTX);
    ret = p;
    assert_true(size >= sizeof(*ret) + 8 + 24);
    assert_int_equal(ret->infoLog_len, 1);
    assert_string_equal((const char *)(ret + 1) + 8, "a line of the compiler");
    guest_close(&g);
}

/* The context goes while a module is loaded into it, and a handle is used twice meanwhile. */
static void test_load_ends(void **state)
{
    const uint64_t m = VGP_HANDLE(VGP_H_MODULE, 1, 1);
    struct vgp_args_vgpPrimaryCtxReset reset = {.device = 0};
    struct vgp_args_cuModuleUnload unload = {.hmod = m};
    struct vgp_args_vgpCtxCreate other = {.context = VGP_HANDLE(VGP_H_CONTEXT, 1, 7)};
    struct guest g;

    connect_to(*state, &g);
    assert_int_equal(guest_call(&g, VGP_vgpCtxCreate, &other, sizeof(other), NULL, NULL), 0);
    load(&g, m, "slow", 0);
    uint32_t seq = g.seq;
    guest_submit(&g, VGP_vgpPrimaryCtxReset, 6, &reset, sizeof(reset), NULL, 0);
    uint32_t reset_seq = g.seq;
    assert_int_equal(ping(&g), 0);
    g.context = other.context;
    assert_int_equal(guest_release(&g), 0);
    g.seq = seq;
    assert_int_equal(guest_wait(&g, SLOT, NULL, NULL, 60000), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    g.seq = reset_seq;
    assert_int_equal(guest_wait(&g, 6, NULL, NULL, 60000), 0);
    g.seq += 1000;
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_call(&g, VGP_cuModuleUnload, &unload, sizeof(unload), NULL, NULL),
                     CUDA_ERROR_INVALID_HANDLE);
    load(&g, m, "slow", 0);
    load(&g, m, "quick", 0);
    for (int i = 0; i < 500 && !guest_wait_dead(&g, 10); i++)
        guest_memset(&g, 0, VALUE_RELEASE, 0, 0);
    assert_true(guest_wait_dead(&g, 60000));
    guest_close(&g);
}

/* What the provider takes long to link, for the first link. */
#define LINK_HANDLE VGP_HANDLE(VGP_H_LINK, 1, 1)
static const struct {
    struct vgp_args_vgpLinkAdd a;
    char data[8], name[8];
} slow_add = {
    .a = {.state = LINK_HANDLE, .inputType = CU_JIT_INPUT_PTX, .data_size = 5, .data_len = 5, .name_len = 2},
    .data = "slow",
    .name = "n"};

static void test_link(void **state)
{
    const uint64_t link = LINK_HANDLE;
    struct vgp_args_vgpLinkCreate create = {.state = link};
    struct vgp_args_vgpLinkComplete complete = {.state = link};
    struct vgp_args_cuLinkDestroy destroy = {.state = link};
    struct guest g;

    connect_to(*state, &g);
    assert_int_equal(guest_call(&g, VGP_vgpLinkCreate, &create, sizeof(create), NULL, NULL), 0);
    assert_int_equal(guest_call(&g, VGP_vgpLinkAdd, &slow_add, sizeof(slow_add), NULL, NULL), 0);
    guest_submit(&g, VGP_vgpLinkComplete, SLOT, &complete, sizeof(complete), NULL, 0);
    uint32_t seq = g.seq;
    assert_int_equal(guest_call(&g, VGP_cuLinkDestroy, &destroy, sizeof(destroy), NULL, NULL),
                     CUDA_ERROR_INVALID_HANDLE); /* in use */
    assert_int_equal(others_go_on(&g, seq, NULL, NULL), 0);
    assert_int_equal(guest_call(&g, VGP_cuLinkDestroy, &destroy, sizeof(destroy), NULL, NULL), 0);
    guest_close(&g);
}

static void test_array_and_limit(void **state)
{
    const uint64_t array = VGP_HANDLE(VGP_H_ARRAY, 1, 1);
    struct vgp_args_cuArray3DCreate_v2 create = {.pHandle = array};
    struct vgp_args_cuArrayDestroy destroy = {.hArray = array};
    struct vgp_args_cuCtxSetLimit limit = {.limit = CU_LIMIT_PRINTF_FIFO_SIZE, .value = LONG_BYTES};
    struct guest g;

    connect_to(*state, &g);
    create.pAllocateArray.Width = LONG_BYTES;
    assert_int_equal(guest_call(&g, VGP_cuArray3DCreate_v2, &create, sizeof(create), NULL, NULL), 0);
    guest_submit(&g, VGP_cuArrayDestroy, SLOT, &destroy, sizeof(destroy), NULL, 0);
    assert_int_equal(others_go_on(&g, g.seq, NULL, NULL), 0);
    guest_submit(&g, VGP_cuCtxSetLimit, SLOT, &limit, sizeof(limit), NULL, 0);
    assert_int_equal(others_go_on(&g, g.seq, NULL, NULL), 0);
    guest_close(&g);
}

/* Which of two calls for a limit the provider takes first is its own affair: what it may have counts. */
static void test_two_limits(void **state)
{
    struct vgp_args_cuCtxSetLimit limit = {.limit = CU_LIMIT_MALLOC_HEAP_SIZE, .value = LONG_BYTES};
    struct guest g;

    connect_to(*state, &g);
    guest_submit(&g, VGP_cuCtxSetLimit, SLOT, &limit, sizeof(limit), NULL, 0);
    uint32_t seq = g.seq;

    limit.value = 4096;
    assert_int_equal(guest_call(&g, VGP_cuCtxSetLimit, &limit, sizeof(limit), NULL, NULL), 0);
    assert_int_equal(others_go_on(&g, seq, NULL, NULL), 0); /* and the provider has LONG_BYTES */
    assert_uint_in_range(g.s->memory_used, LONG_BYTES, UINT64_MAX);
    assert_int_equal(guest_call(&g, VGP_cuCtxSetLimit, &limit, sizeof(limit), NULL, NULL), 0);
    assert_int_equal(g.s->memory_used, 4096);
    guest_close(&g);
}

/* A limit is being lowered: its memory counts until the provider has done so, as it may refuse. */
static void test_lowered_limit(void **state)
{
    struct vgp_args_cuCtxSetLimit limit = {.limit = CU_LIMIT_MALLOC_HEAP_SIZE, .value = 4 * LONG_BYTES};
    struct guest g;

    connect_to(*state, &g);
    assert_int_equal(guest_call(&g, VGP_cuCtxSetLimit, &limit, sizeof(limit), NULL, NULL), 0);
    assert_int_equal(g.s->memory_used, 4 * LONG_BYTES);
    limit.value = LONG_BYTES;
    guest_submit(&g, VGP_cuCtxSetLimit, SLOT, &limit, sizeof(limit), NULL, 0);
    uint32_t seq = g.seq;

    assert_int_equal(ping(&g), 0);
    assert_int_equal(g.s->memory_used, 4 * LONG_BYTES);
    assert_int_equal(others_go_on(&g, seq, NULL, NULL), 0);
    assert_int_equal(g.s->memory_used, LONG_BYTES);
    limit.value = BAD_LIMIT;
    assert_int_equal(guest_call(&g, VGP_cuCtxSetLimit, &limit, sizeof(limit), NULL, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(g.s->memory_used, LONG_BYTES);
    guest_close(&g);
}

/* Memory that is being registered is taken away when that is over, not in the middle. */
static void test_register(void **state)
{
    struct vgp_args_vgpRegionRegister a = {.region = 1, .va = 0x600000000000, .length = LONG_BYTES};
    int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct vgp_sock_mapped m;
    unsigned none = 0;
    const void *p;
    struct guest g;

    connect_to(*state, &g);
    assert_int_equal(ftruncate(fd, LONG_BYTES), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(request(&g, VGP_SOCK_MAP, 1, (void *)a.va, LONG_BYTES, fd), 0);
    assert_int_equal(vgb_recv_fds(g.sock, &m, sizeof(m), NULL, &none, 0), sizeof(m));
    assert_int_equal(m.status, 0);
    guest_submit(&g, VGP_vgpRegionRegister, SLOT, &a, sizeof(a), NULL, 0);
    assert_int_equal(others_go_on(&g, g.seq, &p, NULL), 0);
    assert_int_equal(((const struct vgp_ret_vgpRegionRegister *)p)->devicePointer, m.worker_va);
    assert_int_equal(guest_call(&g, VGP_vgpRegionRegister, &a, sizeof(a), NULL, NULL),
                     CUDA_ERROR_INVALID_VALUE); /* twice */
    struct vgp_args_vgpRegionUnregister u = {.region = 1};
    assert_int_equal(guest_call(&g, VGP_vgpRegionUnregister, &u, sizeof(u), NULL, NULL), 0);
    guest_submit(&g, VGP_vgpRegionRegister, SLOT, &a, sizeof(a), NULL, 0);
    uint32_t seq = g.seq;
    assert_int_equal(ping(&g), 0);
    assert_int_equal(request(&g, VGP_SOCK_UNMAP, 1, NULL, 0, -1), 0);
    assert_int_equal(ping(&g), 0);
    assert_false(answered(&g, &m));
    assert_int_equal(guest_release(&g), 0);
    g.seq = seq;
    assert_int_equal(guest_wait(&g, SLOT, NULL, NULL, 60000), 0);
    assert_int_equal(vgb_recv_fds(g.sock, &m, sizeof(m), NULL, &none, 0), sizeof(m));
    assert_int_equal(m.status, 0);
    g.seq += 1000;
    assert_int_equal(ping(&g), 0);
    close(fd);
    guest_close(&g);
}

/*
 * A context that is ending has the memory that was registered in it until it has ended: its work may use it. Also what
 * was being registered when the end came.
 */
static void test_context_ends(void **state)
{
    struct vgp_args_vgpRegionRegister a = {.region = 1, .va = 0x600000000000};
    const struct vgp_args_vgpRegionUnregister u = {.region = 1};
    struct guest g;

    connect_to(*state, &g);
    const uint64_t other = g.context;
    for (int slow = 0; slow < 2; slow++) {
        const uint32_t length = slow ? LONG_BYTES : 4096;
        int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        const struct vgp_args_vgpCtxCreate make = {.context = VGP_HANDLE(VGP_H_CONTEXT, 1, 7 + slow),
                                                   .flags = LONG_CONTEXT};
        const struct vgp_args_vgpCtxDestroy end = {.context = make.context};
        struct vgp_sock_mapped m;
        unsigned none = 0;

        a.length = length;
        assert_int_equal(ftruncate(fd, length), 0);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
        assert_int_equal(request(&g, VGP_SOCK_MAP, 1, (void *)a.va, length, fd), 0);
        assert_int_equal(vgb_recv_fds(g.sock, &m, sizeof(m), NULL, &none, 0), sizeof(m));
        assert_int_equal(m.status, 0);
        assert_int_equal(guest_call(&g, VGP_vgpCtxCreate, &make, sizeof(make), NULL, NULL), 0);
        g.context = make.context;
        guest_submit(&g, VGP_vgpRegionRegister, SLOT, &a, sizeof(a), NULL, 0);
        const uint32_t registered = g.seq;
        if (!slow)
            assert_int_equal(guest_wait(&g, SLOT, NULL, NULL, 60000), 0);
        g.context = other;
        guest_submit(&g, VGP_vgpCtxDestroy, SLOT + 1, &end, sizeof(end), NULL, 0);
        const uint32_t ended = g.seq;
        assert_int_equal(ping(&g), 0);
        if (slow) {
            const uint32_t last = g.seq;

            assert_int_equal(guest_release(&g), 0);
            g.seq = registered;
            assert_int_equal(guest_wait(&g, SLOT, NULL, NULL, 60000), CUDA_ERROR_CONTEXT_IS_DESTROYED);
            g.seq = last + 1000;
        }
        assert_int_equal(guest_call(&g, VGP_vgpRegionUnregister, &u, sizeof(u), NULL, NULL),
                         CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        assert_int_equal(guest_call(&g, VGP_vgpRegionRegister, &a, sizeof(a), NULL, NULL),
                         CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(request(&g, VGP_SOCK_UNMAP, 1, NULL, 0, -1), 0);
        for (int i = 0; i < 10; i++) {
            assert_int_equal(ping(&g), 0);
            assert_false(answered(&g, &m));
            usleep(10000);
        }
        const uint32_t last = g.seq;
        assert_int_equal(guest_release(&g), 0);
        g.seq = ended;
        assert_int_equal(guest_wait(&g, SLOT + 1, NULL, NULL, 60000), 0);
        g.seq = last + 1000;
        assert_int_equal(vgb_recv_fds(g.sock, &m, sizeof(m), NULL, &none, 0), sizeof(m));
        assert_int_equal(m.status, 0);
        close(fd);
    }
    guest_close(&g);
}

/*
 * The broker's answer waits for a call that takes longer than workers may be silent: the client lives. The
 * broker looks at silence itself, so this waits as long as it must.
 */
static void test_outlasts(void **state)
{
    struct vgp_args_vgpRegionRegister a = {.region = 1, .va = 0x600000000000, .length = LONG_BYTES};
    int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct vgp_sock_mapped m;
    unsigned none = 0;
    struct guest g;

    connect_to(*state, &g);
    assert_int_equal(ftruncate(fd, LONG_BYTES), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(request(&g, VGP_SOCK_MAP, 1, (void *)a.va, LONG_BYTES, fd), 0);
    assert_int_equal(vgb_recv_fds(g.sock, &m, sizeof(m), NULL, &none, 0), sizeof(m));
    assert_int_equal(m.status, 0);
    guest_submit(&g, VGP_vgpRegionRegister, SLOT, &a, sizeof(a), NULL, 0);
    uint32_t seq = g.seq;
    assert_int_equal(ping(&g), 0);
    assert_int_equal(request(&g, VGP_SOCK_UNMAP, 1, NULL, 0, -1), 0);
    assert_false(guest_wait_dead(&g, VGB_ANSWER_MS + VGB_GRACE_MS));
    assert_int_equal(guest_release(&g), 0);
    g.seq = seq;
    assert_int_equal(guest_wait(&g, SLOT, NULL, NULL, 60000), 0);
    assert_int_equal(vgb_recv_fds(g.sock, &m, sizeof(m), NULL, &none, 0), sizeof(m));
    assert_int_equal(m.status, 0);
    g.seq += 1000;
    assert_int_equal(ping(&g), 0);
    close(fd);
    guest_close(&g);
}

/* Registered memory is taken away without its program, when the work of the contexts is done. */
static void test_taken_away(void **state)
{
    struct vgp_args_vgpRegionRegister a = {.region = 1, .va = 0x600000000000, .length = 4096};
    int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct vgp_sock_mapped m;
    unsigned none = 0;
    struct guest g;

    connect_to(*state, &g);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    for (int i = 0; i < 2; i++) { /* the second time where the first one was */
        assert_int_equal(request(&g, VGP_SOCK_MAP, 1, (void *)a.va, 4096, fd), 0);
        assert_int_equal(vgb_recv_fds(g.sock, &m, sizeof(m), NULL, &none, 0), sizeof(m));
        assert_int_equal(m.status, 0);
        assert_int_equal(m.worker_va, a.va);
        assert_int_equal(guest_call(&g, VGP_vgpRegionRegister, &a, sizeof(a), NULL, NULL), 0);
        assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, 300, 0), 0);
        assert_int_equal(request(&g, VGP_SOCK_UNMAP, 1, NULL, 0, -1), 0);
        assert_int_equal(ping(&g), 0);
        assert_int_equal(vgb_recv_fds(g.sock, &m, sizeof(m), NULL, &none, 0), sizeof(m));
        assert_int_equal(m.status, 0);
        assert_int_equal(guest_call(&g, VGP_vgpRegionRegister, &a, sizeof(a), NULL, NULL),
                         CUDA_ERROR_INVALID_VALUE);
    }
    close(fd);
    guest_close(&g);
}

/* Two calls are under way: in SLOT and the next one. They end in this order. */
static void both_end(struct guest *g, uint32_t seq, uint32_t next, CUresult expected)
{
    const uint32_t last = g->seq;

    g->seq = seq;
    assert_int_equal(guest_wait(g, SLOT, NULL, NULL, 60000), expected);
    g->seq = next;
    assert_int_equal(guest_wait(g, SLOT + 1, NULL, NULL, 60000), 0);
    g->seq = last + 1000;
    assert_int_equal(ping(g), 0);
}

enum about { MODULE, ARRAY, LINK };

/* Makes the object, then the call about it in the other context, in SLOT. MODULE: it waits; the others take long. */
static void call_about(struct guest *g, enum about what, uint64_t other)
{
    const uint64_t link = LINK_HANDLE;
    const struct vgp_args_cuModuleUnload unload = {.hmod = VGP_HANDLE(VGP_H_MODULE, 1, 1)};
    const struct vgp_args_cuArrayDestroy destroy = {.hArray = VGP_HANDLE(VGP_H_ARRAY, 1, 1)};
    const struct vgp_args_vgpLinkCreate begin = {.state = link};
    const struct vgp_args_vgpLinkComplete complete = {.state = link};
    const struct vgp_args_cuArray3DCreate_v2 create = {.pHandle = destroy.hArray,
                                                       .pAllocateArray = {.Width = LONG_BYTES}};

    if (what == MODULE) {
        load(g, unload.hmod, "quick", 0);
        assert_int_equal(guest_wait(g, SLOT, NULL, NULL, 60000), 0);
        g->context = other;
        assert_int_equal(guest_memset(g, 0, VALUE_BUSY, 300, 0), 0);
        guest_submit(g, VGP_cuModuleUnload, SLOT, &unload, sizeof(unload), NULL, 0);
    } else if (what == ARRAY) {
        assert_int_equal(guest_call(g, VGP_cuArray3DCreate_v2, &create, sizeof(create), NULL, NULL), 0);
        g->context = other;
        guest_submit(g, VGP_cuArrayDestroy, SLOT, &destroy, sizeof(destroy), NULL, 0);
    } else {
        assert_int_equal(guest_call(g, VGP_vgpLinkCreate, &begin, sizeof(begin), NULL, NULL), 0);
        assert_int_equal(guest_call(g, VGP_vgpLinkAdd, &slow_add, sizeof(slow_add), NULL, NULL), 0);
        g->context = other;
        guest_submit(g, VGP_vgpLinkComplete, SLOT, &complete, sizeof(complete), NULL, 0);
    }
}

/* A call in one context is about an object of another one, which ends meanwhile: after the call. */
static void test_other_context_ends(void **state)
{
    const struct vgp_args_vgpCtxCreate other = {.context = VGP_HANDLE(VGP_H_CONTEXT, 1, 7)};
    const struct vgp_args_vgpPrimaryCtxReset reset = {.device = 0};

    for (enum about what = MODULE; what <= LINK; what++) {
        struct guest g;

        connect_to(*state, &g);
        assert_int_equal(guest_call(&g, VGP_vgpCtxCreate, &other, sizeof(other), NULL, NULL), 0);
        call_about(&g, what, other.context);
        const uint32_t seq = g.seq;

        guest_submit(&g, VGP_vgpPrimaryCtxReset, SLOT + 1, &reset, sizeof(reset), NULL, 0);
        const uint32_t next = g.seq;

        for (int i = 0; i < 10 && what != MODULE; i++) {
            const uint32_t last = g.seq + 1;

            assert_int_equal(ping(&g), 0);
            g.seq = next;
            assert_int_equal(guest_wait(&g, SLOT + 1, NULL, NULL, 10), -1);
            g.seq = last;
        }
        if (what != MODULE)
            assert_int_equal(guest_release(&g), 0);
        both_end(&g, seq, next, what == LINK ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS);
        guest_close(&g);
    }
}

/* An array is destroyed while its context ends, and the provider refuses: it ends with the context, and counts no more. */
static void test_end_refused(void **state)
{
    const struct vgp_args_vgpCtxCreate other = {.context = VGP_HANDLE(VGP_H_CONTEXT, 1, 7)};
    const struct vgp_args_vgpPrimaryCtxReset reset = {.device = 0};
    const struct vgp_args_cuArrayDestroy destroy = {.hArray = VGP_HANDLE(VGP_H_ARRAY, 1, 1)};
    const struct vgp_args_cuArray3DCreate_v2 create = {.pHandle = destroy.hArray,
                                                       .pAllocateArray = {.Width = BAD_ARRAY}};
    uint32_t seq, next;
    struct guest g;

    connect_to(*state, &g);
    assert_int_equal(guest_call(&g, VGP_vgpCtxCreate, &other, sizeof(other), NULL, NULL), 0);
    assert_int_equal(guest_call(&g, VGP_cuArray3DCreate_v2, &create, sizeof(create), NULL, NULL), 0);
    assert_true(g.s->memory_used >= BAD_ARRAY);
    g.context = other.context;
    guest_submit(&g, VGP_cuArrayDestroy, SLOT, &destroy, sizeof(destroy), NULL, 0);
    seq = g.seq;
    assert_int_equal(guest_release(&g), 0); /* it is in the provider */
    guest_submit(&g, VGP_vgpPrimaryCtxReset, SLOT + 1, &reset, sizeof(reset), NULL, 0);
    next = g.seq;
    assert_int_equal(guest_release(&g), 0);
    both_end(&g, seq, next, CUDA_ERROR_UNKNOWN);
    assert_int_equal(g.s->memory_used, 0);
    guest_close(&g);
}

static int query(struct guest *g)
{
    struct vgp_args_cuStreamQuery a = {.hStream = 0};

    return guest_call(g, VGP_cuStreamQuery, &a, sizeof(a), NULL, NULL);
}

/* Where no event can be made for the streams of the context, the context itself is waited for. */
static void test_unregister_without_events(void **state)
{
    struct vgp_args_vgpRegionRegister a = {.region = 1, .va = 0x600000000000, .length = 4096};
    struct vgp_args_vgpRegionUnregister u = {.region = 1};
    int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct vgp_sock_mapped m;
    unsigned none = 0;
    struct broker b;
    struct guest g;

    (void)state;
    setenv("VGPU_TEST_NO_EVENTS", "1", 1);
    assert_int_equal(broker_start(&b, NULL), 0);
    unsetenv("VGPU_TEST_NO_EVENTS");
    connect_to(&b, &g);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(request(&g, VGP_SOCK_MAP, 1, (void *)a.va, 4096, fd), 0);
    assert_int_equal(vgb_recv_fds(g.sock, &m, sizeof(m), NULL, &none, 0), sizeof(m));
    assert_int_equal(guest_call(&g, VGP_vgpRegionRegister, &a, sizeof(a), NULL, NULL), 0);
    assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, 500, 0), 0);
    assert_int_equal(query(&g), CUDA_ERROR_NOT_READY);
    assert_int_equal(guest_call(&g, VGP_vgpRegionUnregister, &u, sizeof(u), NULL, NULL), 0);
    assert_int_equal(query(&g), 0);
    close(fd);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load),         cmocka_unit_test(test_load_ends),
        cmocka_unit_test(test_link),         cmocka_unit_test(test_array_and_limit),
        cmocka_unit_test(test_two_limits),   cmocka_unit_test(test_lowered_limit),
        cmocka_unit_test(test_register),     cmocka_unit_test(test_taken_away),
        cmocka_unit_test(test_context_ends), cmocka_unit_test(test_other_context_ends),
        cmocka_unit_test(test_outlasts),     cmocka_unit_test(test_unregister_without_events),
        cmocka_unit_test(test_end_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
