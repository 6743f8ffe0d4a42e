/* SPDX-License-Identifier: MIT */
/* Device resources, green contexts, multicast objects and decompression in real workers: what a guest makes up, what it
 * must not see, what counts; as in process_test.c. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgb_fd.h"
#include "vgp_calls.h"
#include "vgp_sock.h"

#define DESC(i) VGP_HANDLE(VGP_H_RESOURCE_DESC, 1, i)
#define GREEN(i) VGP_HANDLE(VGP_H_GREEN, 1, i)
#define CONTEXT(i) VGP_HANDLE(VGP_H_CONTEXT, 1, i)
#define STREAM(i) VGP_HANDLE(VGP_H_STREAM, 1, i)
#define EVENT(i) VGP_HANDLE(VGP_H_EVENT, 1, i)
#define MEMORY(i) VGP_HANDLE(VGP_H_ALLOCATION, 1, i)
#define M (UINT64_C(1) << 20)

static void begin(struct broker *b, struct guest *g)
{
    static const char *const extra[] = {"--vram-quota", "8M", NULL};

    memset(b, 0, sizeof(*b));
    assert_int_equal(broker_start(b, extra), 0);
    assert_int_equal(guest_connect(g, b->sock, "one"), 0);
    assert_int_equal(guest_context(g), 0);
}

/* Nothing of the provider's own bytes. */
static void clean(const void *reply, uint32_t n)
{
    static const unsigned char mark[4] = {IPC_MARK, IPC_MARK, IPC_MARK, IPC_MARK};

    assert_null(memmem(reply, n, mark, sizeof(mark)));
}

static int device_resource(struct guest *g, uint64_t *id)
{
    struct vgp_args_vgpDevResource a = {.what = VGP_RESOURCE_DEVICE, .type = CU_DEV_RESOURCE_TYPE_SM};
    const struct vgp_ret_vgpDevResource *r = NULL;
    uint32_t n = 0;
    int e = guest_call(g, VGP_vgpDevResource, &a, sizeof(a), (const void **)&r, &n);

    if (e == 0) {
        clean(r, n);
        *id = r->resource;
    }
    return e;
}

/* Into two; their numbers. */
static int split(struct guest *g, uint64_t id, uint64_t *out)
{
    struct vgp_args_vgpResourceSplit a = {.input = id, .groupsWanted = 2, .minCount = 4};
    const struct vgp_ret_vgpResourceSplit *r = NULL;
    uint32_t n = 0;
    int e = guest_call(g, VGP_vgpResourceSplit, &a, sizeof(a), (const void **)&r, &n);

    if (e == 0) {
        clean(r, n);
        assert_int_equal(r->groups, 2);
        assert_int_equal(r->remains, 1);
        assert_int_equal(r->resources_len, 3);
        memcpy(out, r + 1, 2 * sizeof(*out));
    }
    return e;
}

/* Groups of 6, and as many as there are; what is wrong is answered, and ends nothing. */
static int groups(struct guest *g, uint64_t id, uint32_t wanted)
{
    uint32_t params[10] = {6, 2, 0, 0, 0, 0, 2, 0, 0, 0}, n = 0;
    struct vgp_args_vgpResourceGroups a = {.input = id, .wanted = wanted, .params_len = 10};
    const struct vgp_ret_vgpResourceGroups *r = NULL;
    int e;

    guest_submit(g, VGP_vgpResourceGroups, 0, &a, sizeof(a), params, sizeof(params));
    e = guest_wait(g, 0, (const void **)&r, &n, 60000);
    if (e == 0) {
        clean(r, n);
        assert_int_equal(r->sizes_len, 2);
        assert_int_equal(r->remains, 1);
        assert_int_equal(r->resources_len, wanted ? 3 : 1);
        assert_int_equal(r->smCounts_len, r->resources_len);
    }
    return e;
}

static int describe(struct guest *g, uint64_t desc, const uint64_t *ids, uint32_t n)
{
    struct vgp_args_vgpResourceDesc a = {.desc = desc, .resources_len = n};

    guest_submit(g, VGP_vgpResourceDesc, 0, &a, sizeof(a), ids, n * 8);
    return guest_wait(g, 0, NULL, NULL, 60000);
}

static int create(struct guest *g, unsigned i, uint64_t desc)
{
    struct vgp_args_vgpGreenCtxCreate a = {
        .green = GREEN(i), .context = CONTEXT(i), .desc = desc, .flags = CU_GREEN_CTX_DEFAULT_STREAM};

    return guest_call(g, VGP_vgpGreenCtxCreate, &a, sizeof(a), NULL, NULL);
}

static int destroy(struct guest *g, uint64_t green)
{
    struct vgp_args_vgpGreenCtxDestroy a = {.green = green};

    return guest_call(g, VGP_vgpGreenCtxDestroy, &a, sizeof(a), NULL, NULL);
}

static int query(struct guest *g, uint64_t stream)
{
    struct vgp_args_cuStreamQuery a = {.hStream = stream};

    return guest_call(g, VGP_cuStreamQuery, &a, sizeof(a), NULL, NULL);
}

/* Parameters of groups that libcuda does not send. */
static void test_group_parameters(void **state)
{
    static const uint32_t wrong[] = {0, 4, 6, 639};
    static uint32_t params[640];
    struct broker b;
    struct guest g;
    uint64_t id = 0;

    (void)state;
    begin(&b, &g);
    assert_int_equal(device_resource(&g, &id), 0);
    assert_int_equal(groups(&g, id, 0), 0);
    assert_int_equal(groups(&g, id, 2), 0);
    assert_int_equal(groups(&g, 0, 2), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    assert_int_equal(groups(&g, UINT64_MAX, 2), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    guest_close(&g);
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct vgp_args_vgpResourceGroups a = {.input = id, .wanted = 1, .params_len = wrong[i]};

        assert_int_equal(guest_connect(&g, b.sock, "wrong"), 0);
        guest_submit(&g, VGP_vgpResourceGroups, 0, &a, sizeof(a), params, wrong[i] * 4);
        assert_true(guest_wait_dead(&g, 60000));
        guest_close(&g);
    }
    assert_int_equal(broker_stop(&b), 0);
}

/* Resources are numbers that mean something to their client only. */
static void test_resources(void **state)
{
    struct vgp_args_vgpDevResource bad = {.what = VGP_RESOURCE_GREEN, .type = 1, .green = GREEN(9)};
    struct broker b;
    struct guest g1, g2;
    uint64_t id = 0, again = 0, part[2], later[2], wrong;

    (void)state;
    begin(&b, &g1);
    assert_int_equal(guest_connect(&g2, b.sock, "two"), 0);
    assert_int_equal(device_resource(&g1, &id), 0);
    assert_int_equal(device_resource(&g1, &again), 0);
    assert_int_equal(id, again); /* asking in a loop takes no memory */
    assert_int_equal(split(&g1, id, part), 0);
    assert_int_equal(split(&g1, 0, later), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    assert_int_equal(split(&g1, UINT64_MAX, later), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    assert_int_equal(split(&g2, id, later), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    wrong = part[0] + 4096;
    assert_int_equal(describe(&g1, DESC(1), &wrong, 1), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    assert_int_equal(describe(&g1, DESC(1), part, 2), 0);
    assert_int_equal(guest_call(&g1, VGP_vgpDevResource, &bad, sizeof(bad), NULL, NULL),
                     CUDA_ERROR_INVALID_CONTEXT);
    bad = (struct vgp_args_vgpDevResource){.what = VGP_RESOURCE_DEVICE, .type = 7};
    assert_int_equal(guest_call(&g1, VGP_vgpDevResource, &bad, sizeof(bad), NULL, NULL),
                     CUDA_ERROR_INVALID_RESOURCE_TYPE);
    bad = (struct vgp_args_vgpDevResource){.what = VGP_RESOURCE_CONTEXT, .type = 1, .context = CONTEXT(77)};
    assert_int_equal(guest_call(&g1, VGP_vgpDevResource, &bad, sizeof(bad), NULL, NULL),
                     CUDA_ERROR_INVALID_CONTEXT);
    /* The latest are kept, not all that ever were. */
    for (unsigned i = 0; i < 1400; i++) {
        assert_int_equal(device_resource(&g1, &id), 0);
        assert_int_equal(split(&g1, id, later), 0);
    }
    assert_int_equal(describe(&g1, DESC(2), part, 2), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    assert_int_equal(describe(&g1, DESC(3), later, 2), 0);
    describe(&g1, DESC(4), part, 0); /* libcuda does not send that */
    assert_true(guest_wait_dead(&g1, 60000));
    guest_close(&g1);
    guest_close(&g2);
    assert_int_equal(broker_stop(&b), 0);
}

/* For the provider. */
static bool primary_is_there(struct guest *g)
{
    struct vgp_args_cuDevicePrimaryCtxGetState a = {.dev = 0};
    const struct vgp_ret_cuDevicePrimaryCtxGetState *r = NULL;

    assert_int_equal(guest_call(g, VGP_cuDevicePrimaryCtxGetState, &a, sizeof(a), (const void **)&r, NULL),
                     0);
    return r->active;
}

/* A green context holds the primary one for the provider: what counts as gone is gone, however it ends. */
static void test_primary_held(void **state)
{
    struct vgp_args_vgpPrimaryCtxRelease release = {.device = 0};
    struct vgp_args_vgpPrimaryCtxReset reset = {.device = 0};
    uint64_t id = 0, part[2], p = 0;
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    assert_int_equal(device_resource(&g, &id), 0);
    assert_int_equal(split(&g, id, part), 0);
    assert_int_equal(describe(&g, DESC(1), part, 1), 0);
    for (unsigned i = 1; i < 9; i += 2) {
        assert_int_equal(create(&g, i, DESC(1)), 0);
        assert_int_equal(create(&g, i + 1, DESC(1)), 0);
        assert_int_equal(guest_alloc(&g, 6 * M, &p), 0);
        if (i == 5) { /* one that is ending while the primary context does */
            struct vgp_args_vgpGreenCtxDestroy a = {.green = GREEN(i)};

            guest_submit(&g, VGP_vgpGreenCtxDestroy, 3, &a, sizeof(a), NULL, 0);
            g.seq++;
        }
        if (i % 4 == 1)
            assert_int_equal(guest_call(&g, VGP_vgpPrimaryCtxRelease, &release, sizeof(release), NULL, NULL),
                             0);
        else
            assert_int_equal(guest_call(&g, VGP_vgpPrimaryCtxReset, &reset, sizeof(reset), NULL, NULL), 0);
        assert_false(primary_is_there(&g));
        assert_int_equal(guest_alloc(&g, M, &p), CUDA_ERROR_CONTEXT_IS_DESTROYED);
        assert_int_equal(destroy(&g, GREEN(i + 1)), CUDA_ERROR_INVALID_CONTEXT);
        assert_int_equal(guest_context(&g), 0);
        assert_true(primary_is_there(&g));
    }
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

static void test_contexts(void **state)
{
    struct vgp_args_vgpGreenCtxStreamCreate s = {.stream = STREAM(1), .green = GREEN(1), .flags = 1};
    struct vgp_args_cuStreamCreate plain = {.phStream = STREAM(2)};
    struct vgp_args_cuEventCreate event = {.phEvent = EVENT(1)};
    struct vgp_args_cuGreenCtxRecordEvent rec = {.hCtx = GREEN(1), .hEvent = EVENT(1)};
    struct vgp_args_vgpPrimaryCtxRelease release = {.device = 0};
    struct vgp_args_vgpCtxDestroy end = {.context = CONTEXT(1)};
    struct broker b;
    struct guest g;
    uint64_t id = 0, part[2], primary, p = 0;

    (void)state;
    begin(&b, &g);
    primary = g.context;
    assert_int_equal(device_resource(&g, &id), 0);
    assert_int_equal(split(&g, id, part), 0);
    assert_int_equal(describe(&g, DESC(1), part, 1), 0);
    assert_int_equal(create(&g, 1, DESC(2)), CUDA_ERROR_INVALID_VALUE); /* no such descriptor */
    assert_int_equal(create(&g, 1, GREEN(1)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(create(&g, 1, DESC(1)), 0);
    assert_int_equal(create(&g, 2, DESC(1)), 0);
    assert_int_equal(guest_call(&g, VGP_vgpCtxDestroy, &end, sizeof(end), NULL, NULL),
                     CUDA_ERROR_INVALID_CONTEXT);
    s.green = GREEN(3);
    assert_int_equal(guest_call(&g, VGP_vgpGreenCtxStreamCreate, &s, sizeof(s), NULL, NULL),
                     CUDA_ERROR_INVALID_CONTEXT);
    s.green = GREEN(1);
    assert_int_equal(guest_call(&g, VGP_vgpGreenCtxStreamCreate, &s, sizeof(s), NULL, NULL), 0);

    /* What is made while it is current is the primary context's, but for streams. */
    g.context = CONTEXT(1);
    guest_submit(&g, VGP_cuStreamCreate, VGP_NO_REPLY, &plain, sizeof(plain), NULL, 0);
    guest_submit(&g, VGP_cuEventCreate, VGP_NO_REPLY, &event, sizeof(event), NULL, 0);
    assert_int_equal(guest_alloc(&g, 6 * M, &p), 0);
    assert_int_equal(query(&g, STREAM(1)), 0);
    assert_int_equal(query(&g, STREAM(2)), 0);
    assert_int_equal(query(&g, 2), CUDA_ERROR_INVALID_HANDLE); /* CU_STREAM_PER_THREAD */
    assert_int_equal(guest_call(&g, VGP_cuGreenCtxRecordEvent, &rec, sizeof(rec), NULL, NULL), 0);
    rec.hCtx = CONTEXT(1);
    assert_int_equal(guest_call(&g, VGP_cuGreenCtxRecordEvent, &rec, sizeof(rec), NULL, NULL),
                     CUDA_ERROR_INVALID_CONTEXT);
    rec = (struct vgp_args_cuGreenCtxRecordEvent){.hCtx = GREEN(1), .hEvent = EVENT(9)};
    assert_int_equal(guest_call(&g, VGP_cuGreenCtxRecordEvent, &rec, sizeof(rec), NULL, NULL),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(destroy(&g, GREEN(1)), 0);
    assert_int_equal(guest_alloc(&g, M, &p), CUDA_ERROR_CONTEXT_IS_DESTROYED); /* the current one is gone */
    g.context = primary;
    assert_int_equal(query(&g, STREAM(1)), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(query(&g, STREAM(2)), CUDA_ERROR_INVALID_HANDLE);
    rec = (struct vgp_args_cuGreenCtxRecordEvent){.hCtx = GREEN(2), .hEvent = EVENT(1)};
    assert_int_equal(guest_call(&g, VGP_cuGreenCtxRecordEvent, &rec, sizeof(rec), NULL, NULL), 0);
    assert_int_equal(destroy(&g, GREEN(1)), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(guest_alloc(&g, 6 * M, &p), CUDA_ERROR_OUT_OF_MEMORY); /* it still counts */

    /* The primary context takes green ones and all that it has with it. */
    assert_true(primary_is_there(&g));
    assert_int_equal(guest_call(&g, VGP_vgpPrimaryCtxRelease, &release, sizeof(release), NULL, NULL), 0);
    assert_false(primary_is_there(&g));
    assert_int_equal(destroy(&g, GREEN(2)), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(create(&g, 3, DESC(1)), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_alloc(&g, 6 * M, &p), 0);
    create(&g, 2, DESC(1)); /* a handle is made once */
    assert_true(guest_wait_dead(&g, 60000));
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

enum { SLOT = 5 };

/* Releases the provider's long call, when it is in it; then the call, which has number seq, has ended with that result. */
static CUresult let_go(struct guest *g, uint32_t seq)
{
    int r = CUDA_ERROR_INVALID_VALUE;
    uint32_t last;

    while (r == CUDA_ERROR_INVALID_VALUE)
        r = guest_memset(g, 0, VALUE_RELEASE, 0, 0);
    assert_int_equal(r, 0);
    last = g->seq;
    g->seq = seq;
    r = guest_wait(g, SLOT, NULL, NULL, 60000);
    g->seq = last;
    return (CUresult)r;
}

/* Destroys the green context while the call in SLOT is under way. Its result. */
static CUresult end_meanwhile(struct guest *g, unsigned i, uint64_t primary)
{
    const struct vgp_args_vgpGreenCtxDestroy a = {.green = GREEN(i)};
    uint32_t seq = g->seq, end;
    CUresult r;

    g->context = primary;
    guest_submit(g, VGP_vgpGreenCtxDestroy, SLOT + 1, &a, sizeof(a), NULL, 0);
    end = g->seq;
    r = let_go(g, seq);
    seq = g->seq;
    g->seq = end;
    assert_int_equal(guest_wait(g, SLOT + 1, NULL, NULL, 60000), 0);
    g->seq = seq;
    return r;
}

/* What a long call makes in a green context that ends meanwhile belongs to the context below, which goes on. */
static void test_ends_during_call(void **state)
{
    static const char image[] = "slow";
    const uint64_t handle = VGP_HANDLE(VGP_H_MODULE, 1, 1);
    const struct vgp_args_vgpModuleLoad load = {
        .module = handle, .image_size = sizeof(image), .image_len = sizeof(image)};
    const struct vgp_args_cuModuleUnload unload = {.hmod = handle};
    const struct vgp_args_vgpPrimaryCtxRelease release = {.device = 0};
    const struct vgp_args_vgpRegionRegister reg = {.region = 1, .va = 0x600000000000, .length = LONG_BYTES};
    const struct vgp_sock_map map = {
        .type = VGP_SOCK_MAP, .region = reg.region, .va = reg.va, .length = reg.length};
    int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    uint64_t id = 0, part[2], primary;
    struct vgp_sock_mapped m;
    unsigned none = 0;
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    primary = g.context;
    assert_int_equal(device_resource(&g, &id), 0);
    assert_int_equal(split(&g, id, part), 0);
    assert_int_equal(describe(&g, DESC(1), part, 1), 0);

    /* a module: there, and ended by its context */
    assert_int_equal(create(&g, 1, DESC(1)), 0);
    g.context = CONTEXT(1);
    guest_submit(&g, VGP_vgpModuleLoad, SLOT, &load, sizeof(load), image, sizeof(image));
    assert_int_equal(end_meanwhile(&g, 1, primary), CUDA_SUCCESS);
    assert_int_equal(guest_call(&g, VGP_vgpPrimaryCtxRelease, &release, sizeof(release), NULL, NULL), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_call(&g, VGP_cuModuleUnload, &unload, sizeof(unload), NULL, NULL),
                     CUDA_ERROR_INVALID_HANDLE);

    /* registered memory: it stays so */
    assert_int_equal(ftruncate(fd, LONG_BYTES), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_true(vgb_send_fds(g.sock, &map, sizeof(map), &fd, 1, 0) >= 0);
    assert_int_equal(vgb_recv_fds(g.sock, &m, sizeof(m), NULL, &none, 0), sizeof(m));
    assert_int_equal(m.status, 0);
    assert_int_equal(create(&g, 2, DESC(1)), 0);
    g.context = CONTEXT(2);
    guest_submit(&g, VGP_vgpRegionRegister, SLOT, &reg, sizeof(reg), NULL, 0);
    assert_int_equal(end_meanwhile(&g, 2, primary), CUDA_SUCCESS);
    assert_int_equal(guest_call(&g, VGP_vgpRegionRegister, &reg, sizeof(reg), NULL, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    close(fd);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

static int add_device(struct guest *g, uint64_t handle, int device)
{
    struct vgp_args_vgpMulticastAddDevice a = {.handle = handle, .device = device};

    return guest_call(g, VGP_vgpMulticastAddDevice, &a, sizeof(a), NULL, NULL);
}

static int bind(struct guest *g, uint64_t handle, uint64_t memory)
{
    struct vgp_args_vgpMulticastBindMem a = {.handle = handle, .memory = memory, .size = 4 * M};

    return guest_call(g, VGP_vgpMulticastBindMem, &a, sizeof(a), NULL, NULL);
}

static int bind_addr(struct guest *g, uint64_t object, uint64_t address, uint64_t size)
{
    struct vgp_args_vgpMulticastBindAddr a = {.handle = object, .address = address, .size = size};

    return guest_call(g, VGP_vgpMulticastBindAddr, &a, sizeof(a), NULL, NULL);
}

static int unbind(struct guest *g, uint64_t handle, int device)
{
    struct vgp_args_vgpMulticastUnbind a = {.handle = handle, .device = device, .size = 4 * M};

    return guest_call(g, VGP_vgpMulticastUnbind, &a, sizeof(a), NULL, NULL);
}

/* Bound memory counts without handle and mapping; nothing waits in the worker. */
static void test_multicast(void **state)
{
    struct vgp_args_vgpMulticastCreate c = {.handle = MEMORY(1), .numDevices = 2, .size = 4 * M};
    struct vgp_args_vgpMulticastGranularity gran = {.numDevices = 2, .size = 4 * M};
    struct vgp_args_vgpMemMap map = {.ptr = 0x400000000000, .size = 4 * M, .handle = MEMORY(1)};
    struct vgp_args_cuMemUnmap unmap = {.ptr = 0x500000000000, .size = 6 * M};
    struct vgp_args_cuMemUnmap away = {.ptr = map.ptr, .size = map.size};
    const struct vgp_ret_vgpMulticastGranularity *r = NULL;
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    assert_int_equal(
        guest_call(&g, VGP_vgpMulticastGranularity, &gran, sizeof(gran), (const void **)&r, NULL), 0);
    assert_int_equal(r->granularity, 2 * M);
    c.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    assert_int_equal(guest_call(&g, VGP_vgpMulticastCreate, &c, sizeof(c), NULL, NULL),
                     CUDA_ERROR_NOT_SUPPORTED); /* another VM could open it */
    c.handleTypes = 0;
    assert_int_equal(guest_call(&g, VGP_vgpMulticastCreate, &c, sizeof(c), NULL, NULL), 0);
    assert_int_equal(guest_vmm_create(&g, MEMORY(2), 6 * M), 0);              /* the object takes no memory */
    assert_int_equal(add_device(&g, MEMORY(2), 0), CUDA_ERROR_INVALID_VALUE); /* memory */
    assert_int_equal(add_device(&g, MEMORY(1), -1), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(add_device(&g, MEMORY(1), 64), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(add_device(&g, MEMORY(1), 0), 0);
    assert_int_equal(bind(&g, MEMORY(1), MEMORY(2)), CUDA_ERROR_ILLEGAL_STATE);
    assert_int_equal(guest_call(&g, VGP_vgpMemMap, &map, sizeof(map), NULL, NULL), CUDA_ERROR_ILLEGAL_STATE);
    assert_int_equal(add_device(&g, MEMORY(1), 1), 0);
    assert_int_equal(bind(&g, MEMORY(1), MEMORY(3)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(bind(&g, MEMORY(1), MEMORY(1)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(bind(&g, MEMORY(2), MEMORY(2)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(bind(&g, MEMORY(1), MEMORY(2)), 0);
    assert_int_equal(guest_vmm_release(&g, MEMORY(2)), 0);
    assert_int_equal(guest_vmm_create(&g, MEMORY(4), 6 * M), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(unbind(&g, MEMORY(1), 1), 0); /* not where it is */
    assert_int_equal(guest_vmm_create(&g, MEMORY(4), 6 * M), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(unbind(&g, MEMORY(1), 0), 0);
    assert_int_equal(guest_vmm_create(&g, MEMORY(4), 6 * M), 0);
    /* By its address, if it is all of one memory, and no such object; what is bound ends with the object. */
    assert_int_equal(guest_call(&g, VGP_vgpMemMap, &map, sizeof(map), NULL, NULL), 0);
    map = (struct vgp_args_vgpMemMap){.ptr = unmap.ptr, .size = 6 * M, .handle = MEMORY(4)};
    assert_int_equal(guest_call(&g, VGP_vgpMemMap, &map, sizeof(map), NULL, NULL), 0);
    assert_int_equal(bind_addr(&g, MEMORY(1), unmap.ptr, 8 * M), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(bind_addr(&g, MEMORY(1), unmap.ptr - M, 2 * M), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(bind_addr(&g, MEMORY(1), away.ptr, away.size), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(guest_call(&g, VGP_cuMemUnmap, &away, sizeof(away), NULL, NULL), 0);
    assert_int_equal(bind_addr(&g, MEMORY(1), unmap.ptr, 4 * M), 0);
    assert_int_equal(guest_vmm_release(&g, MEMORY(4)), 0);
    assert_int_equal(guest_call(&g, VGP_cuMemUnmap, &unmap, sizeof(unmap), NULL, NULL), 0);
    assert_int_equal(guest_vmm_create(&g, MEMORY(5), 6 * M), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_vmm_release(&g, MEMORY(1)), 0);
    assert_int_equal(unbind(&g, MEMORY(1), 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(guest_vmm_create(&g, MEMORY(5), 6 * M), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* Memory that is being unmapped and would be bound meanwhile would not be charged. */
static void test_bound_while_unmapped(void **state)
{
    const uint64_t where = 0x500000000000;
    const struct vgp_args_vgpMulticastCreate c = {.handle = MEMORY(1), .numDevices = 1, .size = 4 * M};
    const struct vgp_args_vgpMemMap map = {.ptr = where, .size = LONG_BYTES, .handle = MEMORY(2)};
    const struct vgp_args_cuMemUnmap unmap = {.ptr = where, .size = LONG_BYTES};
    struct vgp_args_vgpMemRetain retain = {.addr = where};
    uint64_t context;
    uint32_t seq;
    struct broker b;
    struct guest g;
    int r = 0;

    (void)state;
    begin(&b, &g);
    assert_int_equal(guest_call(&g, VGP_vgpMulticastCreate, &c, sizeof(c), NULL, NULL), 0);
    assert_int_equal(add_device(&g, MEMORY(1), 0), 0);
    assert_int_equal(guest_vmm_create(&g, MEMORY(2), 6 * M), 0);
    assert_int_equal(guest_call(&g, VGP_vgpMemMap, &map, sizeof(map), NULL, NULL), 0);
    assert_int_equal(guest_vmm_release(&g, MEMORY(2)), 0);
    context = g.context;
    g.context = 0; /* a thread of its own unmaps */
    guest_submit(&g, VGP_cuMemUnmap, SLOT, &unmap, sizeof(unmap), NULL, 0);
    seq = g.seq;
    for (uint32_t i = 3; !r; i++) { /* as long as its entry is there */
        retain.handle = MEMORY(i);
        r = guest_call(&g, VGP_vgpMemRetain, &retain, sizeof(retain), NULL, NULL);
        if (!r)
            assert_int_equal(guest_vmm_release(&g, MEMORY(i)), 0);
    }
    assert_int_equal(bind_addr(&g, MEMORY(1), where, LONG_BYTES), CUDA_ERROR_INVALID_VALUE);
    g.context = context;
    assert_int_equal(let_go(&g, seq), CUDA_SUCCESS);
    assert_int_equal(guest_vmm_create(&g, VGP_HANDLE(VGP_H_ALLOCATION, 2, 2), 6 * M), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* Every operation has an element in each array. */
static void test_decompress(void **state)
{
    struct vgp_args_vgpMemDecompress a = {.stream = STREAM(9),
                                          .srcBytes_len = 1,
                                          .dstBytes_len = 1,
                                          .actual_len = 1,
                                          .src_len = 1,
                                          .dst_len = 1,
                                          .algorithms_len = 1};
    const struct vgp_ret_vgpMemDecompress *r = NULL;
    uint64_t one[6] = {8, 8, 0, 0, 0, CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE};
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    guest_submit(&g, VGP_vgpMemDecompress, 0, &a, sizeof(a), one, sizeof(one));
    assert_int_equal(guest_wait(&g, 0, NULL, NULL, 60000), CUDA_ERROR_INVALID_HANDLE);
    a.stream = 0;
    guest_submit(&g, VGP_vgpMemDecompress, 0, &a, sizeof(a), one, sizeof(one));
    assert_int_equal(guest_wait(&g, 0, (const void **)&r, NULL, 60000), 0);
    assert_int_equal(r->status, CUDA_ERROR_INVALID_VALUE); /* no addresses */
    assert_int_equal(r->errorIndex, 0);
    a.src_len = 0;
    guest_submit(&g, VGP_vgpMemDecompress, 0, &a, sizeof(a), one, sizeof(one) - 8);
    assert_true(guest_wait_dead(&g, 60000));
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resources),
        cmocka_unit_test(test_group_parameters),
        cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_ends_during_call),
        cmocka_unit_test(test_primary_held),
        cmocka_unit_test(test_multicast),
        cmocka_unit_test(test_bound_while_unmapped),
        cmocka_unit_test(test_decompress),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
