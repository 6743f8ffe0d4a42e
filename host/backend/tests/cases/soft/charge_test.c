/* SPDX-License-Identifier: MIT */
/*
 * Variables of libraries, padded arrays and arrays that only textures keep against the quota of
 * device memory, with a real worker and the software GPU.
 */
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
#include "proc.h"
#include "vgp_calls.h"

#define M (1ull << 20)
#define LIBRARY(n) VGP_HANDLE(VGP_H_LIBRARY, 1, n)
#define KERNEL(n) VGP_HANDLE(VGP_H_KERNEL, 1, n)

/* Loads library n, with one kernel and one variable of `mib` MiB. */
static void load(struct guest *g, uint32_t n, unsigned mib)
{
    struct {
        struct vgp_args_vgpLibraryLoad a;
        char image[512];
    } x = {.a = {.library = LIBRARY(n)}};

    x.a.image_size = (uint64_t)snprintf(x.image, sizeof(x.image),
                                        ".version 8.0\n.target sm_80\n.address_size 64\n"
                                        ".visible .global .b8 v[%llu];\n.visible .entry k() { ret; }\n",
                                        mib * M);
    x.a.image_len = (uint32_t)x.a.image_size;
    assert_int_equal(
        guest_call(g, VGP_vgpLibraryLoad, &x, (uint32_t)(sizeof(x.a) + x.a.image_len + 7) & ~7u, NULL, NULL),
        0);
}

static int use_variable(struct guest *g, uint32_t n)
{
    struct {
        struct vgp_args_vgpLibraryGetGlobal a;
        char name[8];
    } x = {.a = {.library = LIBRARY(n), .name_len = 2}, .name = "v"};

    return guest_call(g, VGP_vgpLibraryGetGlobal, &x, sizeof(x), NULL, NULL);
}

static int use_kernel(struct guest *g, uint32_t n)
{
    struct {
        struct vgp_args_vgpLibraryGetKernel a;
        char name[8];
    } x = {.a = {.library = LIBRARY(n), .kernel = KERNEL(n), .name_len = 2}, .name = "k"};
    const struct vgp_args_vgpFuncLoad l = {.func = KERNEL(n), .load = 1};
    int r = guest_call(g, VGP_vgpLibraryGetKernel, &x, sizeof(x), NULL, NULL);

    return r ? r : guest_call(g, VGP_vgpFuncLoad, &l, sizeof(l), NULL, NULL);
}

static void test_variables(void **state)
{
    const char *const extra[] = {"--provider", soft_provider(), "--vram-quota", "16M", NULL};
    struct broker b = {0};
    uint64_t at;
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "library"), 0);
    assert_int_equal(guest_context(&g), 0);
    load(&g, 1, 4);
    load(&g, 2, 64);
    load(&g, 3, 6);
    load(&g, 4, 10);
    assert_int_equal(use_variable(&g, 2), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(use_kernel(&g, 2), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(use_variable(&g, 1), 0);
    assert_int_equal(use_kernel(&g, 1), 0); /* its variables are charged already */
    assert_int_equal(use_kernel(&g, 4), 0);
    assert_int_equal(use_variable(&g, 3), CUDA_ERROR_OUT_OF_MEMORY); /* 14 MiB are held */
    assert_int_equal(use_kernel(&g, 3), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&g, 4 * M, &at), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&g, M, &at), 0); /* charged once */
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

static int set_heap(struct guest *g, uint64_t value)
{
    const struct vgp_args_cuCtxSetLimit a = {.limit = CU_LIMIT_MALLOC_HEAP_SIZE, .value = value};

    return guest_call(g, VGP_cuCtxSetLimit, &a, sizeof(a), NULL, NULL);
}

/* The heap of kernels is the host's memory: what is set beyond its default counts. */
static void test_heap(void **state)
{
    const char *const extra[] = {"--provider", soft_provider(), "--vram-quota", "16M", NULL};
    struct broker b = {0};
    uint64_t at;
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "heap"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(set_heap(&g, 8 * M), 0);
    assert_int_equal(set_heap(&g, 25 * M), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(set_heap(&g, UINT64_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(set_heap(&g, 20 * M), 0);
    assert_int_equal(set_heap(&g, 20 * M), 0); /* charged once */
    assert_int_equal(guest_alloc(&g, 5 * M, &at), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&g, 4 * M, &at), 0);
    assert_int_equal(set_heap(&g, 21 * M), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(set_heap(&g, 8 * M), 0); /* no kernel has used it */
    assert_int_equal(guest_alloc(&g, 12 * M, &at), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

static int make_array(struct guest *g, uint32_t width, uint32_t height, uint32_t layers, uint32_t levels)
{
    const struct vgp_CUDA_ARRAY3D_DESCRIPTOR d = {.Width = width,
                                                  .Height = height,
                                                  .Depth = layers,
                                                  .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                                  .NumChannels = 1,
                                                  .Flags = CUDA_ARRAY3D_LAYERED};
    static uint32_t n;
    const struct vgp_args_cuArray3DCreate_v2 a = {VGP_HANDLE(VGP_H_ARRAY, 1, ++n), d};
    const struct vgp_args_cuMipmappedArrayCreate m = {.pHandle = VGP_HANDLE(VGP_H_MIPMAPPED_ARRAY, 1, n),
                                                      .pMipmappedArrayDesc = d,
                                                      .numMipmapLevels = levels};

    return levels ? guest_call(g, VGP_cuMipmappedArrayCreate, &m, sizeof(m), NULL, NULL)
                  : guest_call(g, VGP_cuArray3DCreate_v2, &a, sizeof(a), NULL, NULL);
}

/* The software GPU pads rows to 16 bytes. */
static void test_arrays(void **state)
{
    const char *const extra[] = {"--provider", soft_provider(), "--vram-quota", "16M", NULL};
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "arrays"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(make_array(&g, 1, 16384, 256, 0), CUDA_ERROR_OUT_OF_MEMORY); /* 4 MiB, padded 64 */
    assert_int_equal(make_array(&g, 1, 16384, 256, 3), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(make_array(&g, 16, 16384, 48, 3),
                     CUDA_ERROR_OUT_OF_MEMORY); /* levels of 12, 6 and 3 MiB */
    assert_int_equal(make_array(&g, 16, 16384, 32, 3), 0);
    assert_int_equal(make_array(&g, 1, 16384, 4, 0), 0);
    assert_int_equal(make_array(&g, 1, 16384, 8, 0), CUDA_ERROR_OUT_OF_MEMORY); /* 15 MiB are held */
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* What no call has allocated is counted also by calls without a context. */
static void test_without_context(void **state)
{
    const char *const extra[] = {"--provider", soft_provider(), "--vram-quota", "16M", NULL};
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "no context"), 0);
    assert_int_equal(guest_context(&g), 0);
    load(&g, 1, 8);
    assert_int_equal(use_variable(&g, 1), 0);
    g.context = 0;
    assert_int_equal(guest_vmm_create(&g, VGP_HANDLE(VGP_H_ALLOCATION, 1, 0), 4 * M), 0);
    assert_int_equal(guest_vmm_create(&g, VGP_HANDLE(VGP_H_ALLOCATION, 1, 1), 4 * M), 0);
    assert_int_equal(guest_vmm_create(&g, VGP_HANDLE(VGP_H_ALLOCATION, 1, 2), 2 * M),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_vmm_release(&g, VGP_HANDLE(VGP_H_ALLOCATION, 1, 0)), 0);
    assert_int_equal(guest_vmm_create(&g, VGP_HANDLE(VGP_H_ALLOCATION, 1, 3), 2 * M), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* A surface of the array, which keeps its memory. */
static void make_surface(struct guest *g, uint64_t array)
{
    const struct vgp_args_vgpTexObjectCreate a = {
        .surface = 1, .type = CU_RESOURCE_TYPE_ARRAY, .array = array};

    assert_int_equal(guest_call(g, VGP_vgpTexObjectCreate, &a, sizeof(a), NULL, NULL), 0);
}

static int reserve(struct guest *g, uint64_t *at)
{
    const struct vgp_args_cuMemAddressReserve a = {.size = 2 * M};
    const void *p = NULL;
    int r = guest_call(g, VGP_cuMemAddressReserve, &a, sizeof(a), &p, NULL);

    if (r == 0)
        *at = ((const struct vgp_ret_cuMemAddressReserve *)p)->ptr;
    return r;
}

/* Reserved addresses, and textures, take no device memory and have no handles: they count with the objects that have. */
static void test_without_handles(void **state)
{
    const char *const extra[] = {"--provider", soft_provider(), "--client-handles", "64", NULL};
    struct vgp_args_cuEventCreate event = {.phEvent = VGP_HANDLE(VGP_H_EVENT, 1, 1)};
    struct broker b = {0};
    unsigned n = 0;
    uint64_t at = 0;
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "addresses"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(make_array(&g, 16, 16, 1, 0), 0);
    while (n < 64 && reserve(&g, &at) == 0)
        n++;
    assert_in_range(n, 32, 63);
    assert_int_equal(reserve(&g, &at), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_call(&g, VGP_cuEventCreate, &event, sizeof(event), NULL, NULL),
                     CUDA_ERROR_OUT_OF_MEMORY);
    for (unsigned i = 0; i < 3; i++) {
        const struct vgp_args_cuMemAddressFree f = {.ptr = at, .size = 2 * M};

        assert_int_equal(guest_call(&g, VGP_cuMemAddressFree, &f, sizeof(f), NULL, NULL), 0);
        assert_int_equal(guest_call(&g, VGP_cuMemAddressFree, &f, sizeof(f), NULL, NULL),
                         CUDA_ERROR_INVALID_VALUE); /* and counts nothing out */
        assert_int_equal(reserve(&g, &at), 0);
        assert_int_equal(reserve(&g, &at), CUDA_ERROR_OUT_OF_MEMORY);
    }
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* One quota is that of all devices together, whichever is current. */
static void test_two_devices(void **state)
{
    const char *const extra[] = {"--provider", soft_provider(), "--vram-quota", "16M", NULL};
    const struct vgp_args_vgpPrimaryCtxRetain second = {.device = 1,
                                                        .context = VGP_HANDLE(VGP_H_CONTEXT, 1, 1)};
    const struct vgp_args_cuArrayDestroy gone = {.hArray = VGP_HANDLE(VGP_H_ARRAY, 2, 0)};
    const struct vgp_args_cuArray3DCreate_v2 array = {
        .pHandle = gone.hArray,
        .pAllocateArray = {
            .Width = 4096, .Height = 1024, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1}};
    struct broker b = {0};
    uint64_t at, first;
    struct guest g;

    (void)state;
    setenv("VGPU_SOFT_CC", "8.0,8.0", 1);
    assert_int_equal(broker_start(&b, extra), 0);
    unsetenv("VGPU_SOFT_CC");
    assert_int_equal(guest_connect(&g, b.sock, "two devices"), 0);
    assert_int_equal(guest_context(&g), 0);
    first = g.context;
    assert_int_equal(guest_call(&g, VGP_vgpPrimaryCtxRetain, &second, sizeof(second), NULL, NULL), 0);
    load(&g, 1, 6);
    load(&g, 2, 8);
    assert_int_equal(use_variable(&g, 1), 0);
    assert_int_equal(guest_call(&g, VGP_cuArray3DCreate_v2, &array, sizeof(array), NULL, NULL), 0);
    make_surface(&g, gone.hArray);
    assert_int_equal(guest_call(&g, VGP_cuArrayDestroy, &gone, sizeof(gone), NULL, NULL), 0);
    g.context = second.context; /* 10 MiB are held on the first device, and no call names them */
    assert_int_equal(use_variable(&g, 2), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&g, 8 * M, &at), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&g, 5 * M, &at), 0);
    g.context = first;
    assert_int_equal(guest_alloc(&g, 2 * M, &at), CUDA_ERROR_OUT_OF_MEMORY);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* An executable graph that allocates memory of the device, and frees it. */
static void make_graph(struct guest *g, uint32_t n, int device, uint64_t bytes)
{
    const uint64_t graph = VGP_HANDLE(VGP_H_GRAPH, 1, VGP_HANDLE_GUEST_FIRST + n);
    const struct vgp_args_vgpGraphMemAllocNode a = {.graph = graph,
                                                    .bytesize = bytes,
                                                    .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                    .locationType = CU_MEM_LOCATION_TYPE_DEVICE,
                                                    .locationId = device};
    struct {
        struct vgp_args_vgpGraphMemFreeNode a;
        uint64_t after;
    } f = {.a = {.graph = graph, .dependencies_len = 1}};
    const void *p;

    guest_graph_new(g, graph);
    assert_int_equal(guest_call(g, VGP_vgpGraphMemAllocNode, &a, sizeof(a), &p, NULL), 0);
    f.after = ((const struct vgp_ret_vgpGraphMemAllocNode *)p)->node;
    f.a.dptr = ((const struct vgp_ret_vgpGraphMemAllocNode *)p)->dptr;
    assert_int_equal(guest_call(g, VGP_vgpGraphMemFreeNode, &f, sizeof(f), NULL, NULL), 0);
    assert_int_equal(guest_graph_instantiate(g, graph, VGP_HANDLE(VGP_H_GRAPH_EXEC, 1, n)), 0);
}

static int launch_graph(struct guest *g, uint32_t n)
{
    const struct vgp_args_vgpGraphLaunch a = {.exec = VGP_HANDLE(VGP_H_GRAPH_EXEC, 1, n)};
    const struct vgp_args_vgpCtxSynchronize s = {0};
    int r = guest_call(g, VGP_vgpGraphLaunch, &a, sizeof(a), NULL, NULL);

    return r ? r : guest_call(g, VGP_vgpCtxSynchronize, &s, sizeof(s), NULL, NULL);
}

/* What one device has reserved for graphs is no memory of another's. */
static void test_graphs_of_two_devices(void **state)
{
    const char *const extra[] = {"--provider", soft_provider(), "--vram-quota", "16M", NULL};
    const struct vgp_args_vgpPrimaryCtxRetain second = {.device = 1,
                                                        .context = VGP_HANDLE(VGP_H_CONTEXT, 1, 1)};
    const struct vgp_args_cuDeviceGraphMemTrim trim = {.device = 0};
    struct broker b = {0};
    uint64_t first;
    struct guest g;

    (void)state;
    setenv("VGPU_SOFT_CC", "8.0,8.0", 1);
    assert_int_equal(broker_start(&b, extra), 0);
    unsetenv("VGPU_SOFT_CC");
    assert_int_equal(guest_connect(&g, b.sock, "graphs"), 0);
    assert_int_equal(guest_context(&g), 0);
    first = g.context;
    assert_int_equal(guest_call(&g, VGP_vgpPrimaryCtxRetain, &second, sizeof(second), NULL, NULL), 0);
    make_graph(&g, 1, 0, 10 * M);
    assert_int_equal(launch_graph(&g, 1), 0);
    g.context = second.context;
    make_graph(&g, 2, 1, 10 * M);
    assert_int_equal(launch_graph(&g, 2), CUDA_ERROR_OUT_OF_MEMORY);
    g.context = first;
    assert_int_equal(launch_graph(&g, 1), 0); /* its memory is reserved */
    assert_int_equal(guest_call(&g, VGP_cuDeviceGraphMemTrim, &trim, sizeof(trim), NULL, NULL), 0);
    g.context = second.context;
    assert_int_equal(launch_graph(&g, 2), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* Without a quota the provider refuses what there is not; what is counted stays. */
static void test_refused_without_quota(void **state)
{
    const char *const extra[] = {"--provider", soft_provider(), NULL};
    struct broker b = {0};
    uint64_t at;
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "refused"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_alloc(&g, 4 * M, &at), 0);
    assert_int_equal(guest_alloc(&g, UINT64_MAX, &at), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(g.s->memory_used, 4 * M);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_heap),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_without_context),
        cmocka_unit_test(test_without_handles),
        cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_graphs_of_two_devices),
        cmocka_unit_test(test_refused_without_quota),
    };

    if (access(soft_provider(), R_OK)) {
        print_error("%s: not built\n", soft_provider());
        return 1;
    }
    return cmocka_run_group_tests_name("charge", tests, NULL, NULL);
}
