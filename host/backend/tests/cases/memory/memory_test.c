/* SPDX-License-Identifier: MIT */
/* Virtual memory management and memory pools against the quota and against other clients; with real
 * brokers and workers, as in process_test.c. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgp_calls.h"
#include <linux/types.h>

#include "vgpu_device.h"

/* ---- cuMemCreate against the quota ---- */

static int vmm_map(struct guest *g, uint64_t ptr, uint64_t size, uint64_t handle)
{
    struct vgp_args_vgpMemMap a = {.ptr = ptr, .size = size, .handle = handle};

    return guest_call(g, VGP_vgpMemMap, &a, sizeof(a), NULL, NULL);
}

static int vmm_unmap(struct guest *g, uint64_t ptr, uint64_t size)
{
    struct vgp_args_cuMemUnmap a = {.ptr = ptr, .size = size};

    return guest_call(g, VGP_cuMemUnmap, &a, sizeof(a), NULL, NULL);
}

static int vmm_retain(struct guest *g, uint64_t handle, uint64_t addr)
{
    struct vgp_args_vgpMemRetain a = {.handle = handle, .addr = addr};

    return guest_call(g, VGP_vgpMemRetain, &a, sizeof(a), NULL, NULL);
}

/* Physical memory counts until neither a handle nor a mapping is left, however they end. */
static void test_vmm_quota(void **state)
{
    enum { M = 1 << 20 };
    static const char *const extra[] = {"--vram-quota", "8M", NULL};
    const uint64_t h1 = VGP_HANDLE(VGP_H_ALLOCATION, 1, 1), h2 = VGP_HANDLE(VGP_H_ALLOCATION, 1, 2),
                   h3 = VGP_HANDLE(VGP_H_ALLOCATION, 1, 3), at = 0x400000000000;
    struct vgp_args_vgpMemCreate bad = {.handle = h2,
                                        .size = M,
                                        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                        .locationType = CU_MEM_LOCATION_TYPE_DEVICE};
    struct broker b = {0};
    struct guest g1, g2;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g1, b.sock, "one"), 0);
    assert_int_equal(guest_connect(&g2, b.sock, "two"), 0);
    assert_int_equal(guest_context(&g1), 0);
    /* The host's memory and memory that could leave the client are refused here, not only in libcuda. */
    bad.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    assert_int_equal(guest_call(&g1, VGP_vgpMemCreate, &bad, sizeof(bad), NULL, NULL),
                     CUDA_ERROR_NOT_SUPPORTED);
    bad.handleTypes = 0;
    bad.locationType = CU_MEM_LOCATION_TYPE_HOST;
    assert_int_equal(guest_call(&g1, VGP_vgpMemCreate, &bad, sizeof(bad), NULL, NULL),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(guest_vmm_create(&g1, h1, 6 * M), 0);
    assert_int_equal(guest_vmm_create(&g2, h1, 4 * M), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_vmm_create(&g1, h2, 4 * M), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(vmm_map(&g2, at, M, h1), CUDA_ERROR_INVALID_VALUE); /* the other one's */
    assert_int_equal(vmm_retain(&g2, h1, at), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(vmm_map(&g1, at, 2 * M, h1), 0);
    assert_int_equal(vmm_map(&g1, at + 2 * M, 2 * M, h1), 0);
    assert_int_equal(guest_vmm_release(&g1, h1), 0);
    assert_int_equal(guest_vmm_release(&g1, h1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(guest_vmm_create(&g1, h2, 4 * M), CUDA_ERROR_OUT_OF_MEMORY); /* still mapped */
    assert_int_equal(vmm_unmap(&g1, at + 1, 4 * M), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(vmm_unmap(&g1, at, 2 * M), 0);
    assert_int_equal(guest_vmm_create(&g1, h2, 4 * M), CUDA_ERROR_OUT_OF_MEMORY); /* one mapping left */
    assert_int_equal(vmm_retain(&g1, h3, at), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(vmm_retain(&g1, h3, at + 3 * M), 0);
    assert_int_equal(vmm_unmap(&g1, at + 2 * M, 2 * M), 0);
    assert_int_equal(guest_vmm_create(&g1, h2, 4 * M), CUDA_ERROR_OUT_OF_MEMORY); /* one handle left */
    assert_int_equal(guest_vmm_release(&g1, h3), 0);
    assert_int_equal(guest_vmm_create(&g1, h2, 4 * M), 0);
    assert_int_equal(vmm_map(&g1, at, 4 * M, h2), 0);
    /* The end of the client is the end of everything. */
    guest_close(&g1);
    int r = CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < 3000 && (r = guest_vmm_create(&g2, h1, 7 * M)); i++)
        usleep(10000);
    assert_int_equal(r, 0);
    guest_close(&g2);
    assert_int_equal(broker_stop(&b), 0);
}

/* Until the entry of the mapping at `at`, which another thread of the worker unmaps, is gone. */
static void await_unmapping(struct guest *g, uint64_t at)
{
    int r = 0;

    for (uint32_t i = 1; !r; i++) {
        const uint64_t h = VGP_HANDLE(VGP_H_ALLOCATION, i, 3);

        r = vmm_retain(g, h, at);
        if (!r)
            assert_int_equal(guest_vmm_release(g, h), 0);
    }
}

/*
 * Of two overlapping unmappings at once the second one finds less than it was told, and its failure leaves what is
 * mapped in the books, and nothing else.
 */
static void test_vmm_unmapped_twice(void **state)
{
    enum { M = 1 << 20, FIRST = 5, SECOND = 6 };
    static const char *const extra[] = {"--vram-quota", "8M", NULL};
    const uint64_t h1 = VGP_HANDLE(VGP_H_ALLOCATION, 1, 1), h2 = VGP_HANDLE(VGP_H_ALLOCATION, 1, 2),
                   at = 0x400000000000;
    struct vgp_args_cuMemUnmap one = {.ptr = at, .size = LONG_BYTES},
                               all = {.ptr = at, .size = LONG_BYTES + M};
    struct broker b = {0};
    uint32_t first, last;
    uint64_t context;
    struct guest g;
    int r;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "twice"), 0);
    assert_int_equal(guest_context(&g), 0);
    context = g.context;
    assert_int_equal(guest_vmm_create(&g, h1, 6 * M), 0);
    assert_int_equal(vmm_map(&g, at, LONG_BYTES, h1), 0);
    assert_int_equal(vmm_map(&g, at + LONG_BYTES, M, h1), 0);
    assert_int_equal(guest_vmm_release(&g, h1), 0);
    g.context = 0; /* which has no work to wait for: a thread of its own unmaps */
    guest_submit(&g, VGP_cuMemUnmap, FIRST, &one, sizeof(one), NULL, 0);
    first = g.seq;
    await_unmapping(&g, at);
    guest_submit(&g, VGP_cuMemUnmap, SECOND, &all, sizeof(all), NULL, 0);
    assert_int_equal(guest_wait(&g, SECOND, NULL, NULL, 60000), CUDA_ERROR_INVALID_VALUE);
    g.context = context;
    for (r = CUDA_ERROR_INVALID_VALUE;
         r == CUDA_ERROR_INVALID_VALUE;) /* it is on the way into the provider */
        r = guest_memset(&g, 0, VALUE_RELEASE, 0, 0);
    last = g.seq;
    g.seq = first;
    assert_int_equal(guest_wait(&g, FIRST, NULL, NULL, 60000), 0);
    g.seq = last;
    assert_int_equal(guest_vmm_create(&g, h2, 6 * M), CUDA_ERROR_OUT_OF_MEMORY); /* a mapping is left */
    assert_int_equal(vmm_unmap(&g, at + LONG_BYTES, M), 0);
    assert_int_equal(guest_vmm_create(&g, h2, 6 * M), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* Memory mapped into a gap of a range that is being unmapped would be unmapped with it, and be charged for good. */
static void test_vmm_mapped_while_unmapped(void **state)
{
    enum { M = 1 << 20, PAGE = 4096, FIRST = 5 };
    static const char *const extra[] = {"--vram-quota", "8M", NULL};
    const uint64_t h1 = VGP_HANDLE(VGP_H_ALLOCATION, 1, 1), h2 = VGP_HANDLE(VGP_H_ALLOCATION, 1, 2),
                   at = 0x400000000000, gap = at + LONG_BYTES - PAGE;
    struct vgp_args_cuMemUnmap all = {.ptr = at, .size = LONG_BYTES};
    struct broker b = {0};
    uint32_t first, last;
    uint64_t context;
    struct guest g;
    int r = 0;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "gap"), 0);
    assert_int_equal(guest_context(&g), 0);
    context = g.context;
    assert_int_equal(guest_vmm_create(&g, h1, 6 * M), 0);
    assert_int_equal(vmm_map(&g, at, LONG_BYTES - PAGE, h1), 0);
    g.context = 0; /* which has no work to wait for: a thread of its own unmaps */
    guest_submit(&g, VGP_cuMemUnmap, FIRST, &all, sizeof(all), NULL, 0);
    first = g.seq;
    await_unmapping(&g, at);
    assert_int_equal(vmm_map(&g, gap, PAGE, h1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(vmm_map(&g, gap - PAGE, 4 * PAGE, h1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(vmm_map(&g, at + LONG_BYTES, PAGE, h1), 0); /* beside it */
    g.context = context;
    for (r = CUDA_ERROR_INVALID_VALUE;
         r == CUDA_ERROR_INVALID_VALUE;) /* it is on the way into the provider */
        r = guest_memset(&g, 0, VALUE_RELEASE, 0, 0);
    last = g.seq;
    g.seq = first;
    /* The provider unmaps no range with a gap. */
    assert_int_equal(guest_wait(&g, FIRST, NULL, NULL, 60000), CUDA_ERROR_INVALID_VALUE);
    g.seq = last;
    assert_int_equal(vmm_map(&g, gap, PAGE, h1), 0);
    assert_int_equal(vmm_unmap(&g, at, LONG_BYTES - PAGE), 0);
    assert_int_equal(vmm_unmap(&g, gap, 2 * PAGE), 0);
    assert_int_equal(guest_vmm_release(&g, h1), 0);
    assert_int_equal(guest_vmm_create(&g, h2, 8 * M), 0); /* nothing is charged */
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* A free that ends on a waiter, when the dispatcher sleeps already, gives its reservation back too. */
static void test_idle_gives_back(void **state)
{
    static const char *const extra[] = {"--vram-quota", "8M", NULL};
    struct broker b = {0};
    struct guest g1, g2;
    uint64_t p1, p2;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g1, b.sock, "one"), 0);
    assert_int_equal(guest_connect(&g2, b.sock, "two"), 0);
    assert_int_equal(guest_context(&g1), 0);
    assert_int_equal(guest_context(&g2), 0);
    assert_int_equal(guest_alloc(&g1, 6 << 20, &p1), 0);
    assert_int_equal(guest_memset(&g1, 0, VALUE_BUSY, 300, 0), 0);
    assert_int_equal(guest_free(&g1, p1), 0); /* 300 ms later, and then not another word */
    int r = CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < 3000 && (r = guest_alloc(&g2, 6 << 20, &p2)); i++)
        usleep(10000);
    assert_int_equal(r, 0);
    guest_close(&g1);
    guest_close(&g2);
    assert_int_equal(broker_stop(&b), 0);
}

static int set_limit(struct guest *g, CUlimit limit, uint64_t value)
{
    struct vgp_args_cuCtxSetLimit a = {.limit = limit, .value = value};

    return guest_call(g, VGP_cuCtxSetLimit, &a, sizeof(a), NULL, NULL);
}

/* An allocation counts what a driver takes for it, and limits count. */
static void test_rounding_and_limits(void **state)
{
    enum { M = 1 << 20 };
    static const char *const extra[] = {"--vram-quota", "8M", NULL};
    struct vgp_args_vgpPrimaryCtxReset reset = {.device = 0};
    struct broker b = {0};
    struct guest g;
    uint64_t p, q;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "one"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_alloc(&g, 3 * M + 1, &p), 0);
    assert_int_equal(guest_alloc(&g, 3 * M + 1, &q), 0);
    assert_int_equal(g.s->memory_used, 8 * M);
    assert_int_equal(guest_alloc(&g, 1, &q), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_free(&g, p), 0);
    assert_int_equal(guest_alloc(&g, 1, &p), 0);
    assert_int_equal(g.s->memory_used, 4 * M + 512);
    assert_int_equal(set_limit(&g, CU_LIMIT_MALLOC_HEAP_SIZE, 5 * M), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(set_limit(&g, CU_LIMIT_MALLOC_HEAP_SIZE, UINT64_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(set_limit(&g, CU_LIMIT_STACK_SIZE, UINT64_MAX / 2), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(set_limit(&g, (CUlimit)0x7fffffff, 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
    assert_int_equal(set_limit(&g, CU_LIMIT_MALLOC_HEAP_SIZE, 3 * M), 0);
    assert_int_equal(set_limit(&g, CU_LIMIT_PRINTF_FIFO_SIZE, 1 * M), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(set_limit(&g, CU_LIMIT_MALLOC_HEAP_SIZE, 2 * M), 0);
    assert_int_equal(set_limit(&g, CU_LIMIT_PRINTF_FIFO_SIZE, 1 * M), 0);
    assert_int_equal(g.s->memory_used, 7 * M + 512);
    assert_int_equal(set_limit(&g, CU_LIMIT_PRINTF_FIFO_SIZE, BAD_LIMIT), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(g.s->memory_used, 7 * M + 512);
    assert_int_equal(guest_call(&g, VGP_vgpPrimaryCtxReset, &reset, sizeof(reset), NULL, NULL), 0);
    assert_int_equal(g.s->memory_used, 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* What NVML knows of the worker beyond what was counted counts too, not only for the one that has it. */
static void test_nvml(void **state)
{
    enum { M = 1 << 20 };
    static const char *const extra[] = {"--vram-quota", "16M", NULL};
    struct broker b = {0};
    struct guest g1, g2;
    uint64_t p;
    int r = 0;

    (void)state;
    setenv("VGPU_TEST_NVML", "1", 1);
    assert_int_equal(broker_start(&b, extra), 0);
    unsetenv("VGPU_TEST_NVML");
    assert_int_equal(guest_connect(&g1, b.sock, "one"), 0);
    assert_int_equal(guest_connect(&g2, b.sock, "two"), 0);
    assert_int_equal(guest_context(&g1), 0);
    assert_int_equal(guest_context(&g2), 0);
    assert_int_equal(guest_memset(&g1, 0, VALUE_NVML, 10, 0), 0);
    for (int i = 0; i < 3000 && r == 0; i++) { /* NVML is asked now and then only */
        usleep(10000);
        r = guest_alloc(&g1, 8 * M, &p);
        if (r == 0)
            assert_int_equal(guest_free(&g1, p), 0);
    }
    assert_int_equal(r, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&g1, 4 * M, &p), 0);
    assert_int_equal(guest_alloc(&g2, 2 * M, &p), CUDA_ERROR_OUT_OF_MEMORY); /* 14 of 16, and 1 of its own */
    assert_int_equal(guest_memset(&g1, 0, VALUE_NVML, 17, 0), 0);
    /* A second context would be one too many already: nobody has room for it. */
    struct vgp_args_vgpPrimaryCtxRelease release = {.device = 0};
    assert_int_equal(guest_call(&g1, VGP_vgpPrimaryCtxRelease, &release, sizeof(release), NULL, NULL), 0);
    assert_int_equal(guest_context(&g1), CUDA_ERROR_OUT_OF_MEMORY);
    guest_close(&g1);
    guest_close(&g2);
    assert_int_equal(broker_stop(&b), 0);
}

/* ---- copies that no guest of ours asks for ---- */

/* Each ends the client that sent it, which is told why; one that fits is not among them. */
static void test_malformed_copies(void **state)
{
    static const struct {
        uint8_t dst, src, when;
        uint16_t width, data;
        bool reply, good;
    } cases[] = {
        {VGP_COPY_DEVICE, VGP_COPY_INLINE, VGP_WHEN_ISSUED, 16, 16, true, true},
        {VGP_COPY_DEVICE, VGP_COPY_INLINE, VGP_WHEN_ISSUED, 16, 8, true, false},
        {VGP_COPY_DEVICE, VGP_COPY_INLINE, VGP_WHEN_ISSUED, 8, 16, true, false},
        {VGP_COPY_DEVICE, VGP_COPY_INLINE, VGP_WHEN_ISSUED, 16, 0, true, false},
        {VGP_COPY_DEVICE, VGP_COPY_DEVICE, VGP_WHEN_ISSUED, 16, 16, true, false},
        {VGP_COPY_INLINE, VGP_COPY_DEVICE, VGP_WHEN_ISSUED, 16, 0, true, false},
        {VGP_COPY_ARRAY + 1, VGP_COPY_DEVICE, VGP_WHEN_ISSUED, 16, 0, true, false},
        {255, VGP_COPY_DEVICE, VGP_WHEN_ISSUED, 16, 0, true, false},
        {VGP_COPY_DEVICE, VGP_COPY_REPLY, VGP_WHEN_ISSUED, 16, 0, true, false},
        {VGP_COPY_DEVICE, VGP_COPY_ARRAY + 1, VGP_WHEN_ISSUED, 16, 0, true, false},
        {VGP_COPY_DEVICE, 255, VGP_WHEN_ISSUED, 16, 0, true, false},
        {VGP_COPY_DEVICE, VGP_COPY_DEVICE, VGP_WHEN_COMPLETE + 1, 16, 0, true, false},
        {VGP_COPY_DEVICE, VGP_COPY_DEVICE, VGP_WHEN_NEVER, 16, 0, true, false},
        {VGP_COPY_DEVICE, VGP_COPY_DEVICE, VGP_WHEN_ISSUED, 16, 0, false, false},
        {VGP_COPY_DEVICE, VGP_COPY_DEVICE, VGP_WHEN_COMPLETE, 16, 0, false, false},
        {VGP_COPY_REPLY, VGP_COPY_DEVICE, VGP_WHEN_COMPLETE, VGP_COPY_REPLY_MAX, 0, true, true},
        {VGP_COPY_REPLY, VGP_COPY_DEVICE, VGP_WHEN_COMPLETE, VGP_COPY_REPLY_MAX + 1, 0, true, false},
        {VGP_COPY_REPLY, VGP_COPY_DEVICE, VGP_WHEN_ISSUED, 16, 0, true, false},
    };
    static const uint8_t bytes[16];
    struct broker b = {0};

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vgp_args_vgpCopy a = {.dstKind = cases[i].dst,
                                     .srcKind = cases[i].src,
                                     .when = cases[i].when,
                                     .widthBytes = cases[i].width,
                                     .height = 1,
                                     .depth = 1,
                                     .data_len = cases[i].data};
        struct guest g;
        uint64_t p;

        assert_int_equal(guest_connect(&g, b.sock, "copies"), 0);
        assert_int_equal(guest_context(&g), 0);
        assert_int_equal(guest_alloc(&g, 16384, &p), 0);
        a.dst = p;
        a.src = a.srcKind == VGP_COPY_DEVICE ? p + 8192 : 0;
        guest_submit(&g, VGP_vgpCopy, cases[i].reply ? 0 : VGP_NO_REPLY, &a, sizeof(a), bytes, cases[i].data);
        if (cases[i].good) {
            assert_int_equal(guest_wait(&g, 0, NULL, NULL, 60000), 0);
        } else if (!guest_wait_dead(&g, 60000) || g.s->dead_reason != VGPU_DEAD_PROTOCOL) {
            fail_msg("copy %u is taken", i);
        }
        guest_close(&g);
    }
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed_copies),
        cmocka_unit_test(test_vmm_quota),
        cmocka_unit_test(test_vmm_unmapped_twice),
        cmocka_unit_test(test_vmm_mapped_while_unmapped),
        cmocka_unit_test(test_idle_gives_back),
        cmocka_unit_test(test_rounding_and_limits),
        cmocka_unit_test(test_nvml),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
