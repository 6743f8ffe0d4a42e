/* SPDX-License-Identifier: MIT */
/* Unit tests of lib/driver: what needs no library around it. Memory calls are stand-ins. */
#include "driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- results ---- */

/* Texts of NVIDIA's runtime that are easily written otherwise; 202 and 916 follow cuda.h. */
static void test_error_texts(void **state)
{
    (void)state;
    assert_string_equal(cua_error_name(CUDA_ERROR_NOT_READY), "CUDA_ERROR_NOT_READY");
    assert_string_equal(cua_error_text(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER),
                        "API call is not supported in the installed CUDA driver");
    assert_string_equal(cua_error_text(CUDA_ERROR_CONTEXT_ALREADY_CURRENT), "context already current");
    assert_string_equal(cua_error_text(CUDA_ERROR_CONTAINED),
                        "Invalid access of peer GPU memory over nvlink or a hardware error");
    assert_string_equal(cua_error_text(CUDA_ERROR_TENSOR_MEMORY_LEAK), "tensor memory not completely freed");
    assert_string_equal(cua_error_text(CUDA_ERROR_EXTERNAL_DEVICE),
                        "an async error has occured in external entity outside of CUDA");
    assert_string_equal(cua_error_text(CUDA_ERROR_KEY_ROTATION),
                        "an error happened during the key rotation sequence");
    assert_null(cua_error_name((CUresult)1000));
    assert_null(cua_error_text((CUresult)-1));
}

/* cuda.h says of some results, in the comment before each, that the process must be terminated. */
static void test_sticky_errors(void **state)
{
    char line[512], comment[4096] = "";
    unsigned sticky = 0;
    FILE *f = fopen(CUDA_H, "r");

    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        char *name = strstr(line, "CUDA_ERROR_"), *value = strrchr(line, '=');

        if (strstr(line, "/**") != NULL)
            comment[0] = 0;
        if (name == line + 4 && value != NULL) {
            bool ends = strstr(comment, "terminated and relaunched") != NULL;

            if (ends && !cua_error_is_sticky((CUresult)atoi(value + 1)))
                fail_msg("%s is not sticky", name);
            sticky += ends;
        } else if (strlen(comment) + sizeof(line) <
                   sizeof(comment)) { /* words, without the lines they are in */
            for (char *word = strtok(line, " *\n"); word != NULL; word = strtok(NULL, " *\n"))
                strcat(strcat(comment, word), " ");
        }
    }
    fclose(f);
    assert_true(sticky >= 12);
    assert_true(cua_error_is_sticky(CUDA_ERROR_ECC_UNCORRECTABLE));
    assert_true(cua_error_is_sticky(CUDA_ERROR_NVLINK_UNCORRECTABLE));
    assert_true(cua_error_is_sticky(CUDA_ERROR_ASSERT));
    assert_false(cua_error_is_sticky(CUDA_SUCCESS));
    assert_false(cua_error_is_sticky(CUDA_ERROR_NOT_READY));
    assert_false(cua_error_is_sticky(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
}

/* ---- core dump settings ---- */

static void test_coredump(void **state)
{
    struct cua_coredump *own = NULL;
    char name[1024];
    bool on = true, off = false, value = true;
    size_t size = sizeof(on), room = sizeof(name);

    (void)state;
    assert_int_equal(cua_coredump_set(&own, CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cua_coredump_set(&own, CU_COREDUMP_ENABLE_ON_EXCEPTION, &off, &size), CUDA_SUCCESS);
    assert_int_equal(cua_coredump_set(&own, CU_COREDUMP_PIPE, "x", &size), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_coredump_set(&own, CU_COREDUMP_MAX, &on, &size), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_coredump_set(&own, CU_COREDUMP_LIGHTWEIGHT, &on, &size), CUDA_SUCCESS);
    assert_int_equal(cua_coredump_get(&own, CU_COREDUMP_LIGHTWEIGHT, &value, &size), CUDA_SUCCESS);
    assert_true(value);
    assert_int_equal(cua_coredump_get(NULL, CU_COREDUMP_LIGHTWEIGHT, &value, &size), CUDA_SUCCESS);
    assert_false(value); /* the process's setting is another one */
    size = 4;
    assert_int_equal(cua_coredump_set(NULL, CU_COREDUMP_FILE, "dump", &size), CUDA_SUCCESS);
    assert_int_equal(cua_coredump_get(&own, CU_COREDUMP_FILE, name, &room), CUDA_SUCCESS);
    assert_string_not_equal(name, "dump"); /* the context was there before */
    room = 4;                              /* the end does not fit */
    assert_int_equal(cua_coredump_get(NULL, CU_COREDUMP_FILE, name, &room), CUDA_SUCCESS);
    assert_string_equal(name, "dum");
    room = 0;
    assert_int_equal(cua_coredump_get(NULL, CU_COREDUMP_FILE, name, &room), CUDA_SUCCESS);
    room = sizeof(name);
    cua_coredump_begin(&own);
    assert_int_equal(cua_coredump_get(&own, CU_COREDUMP_FILE, name, &room), CUDA_SUCCESS);
    assert_string_equal(name, "dump");
    cua_coredump_forget(&own);
    assert_null(own);
    cua_coredump_forget(&own);
}

/* ---- advice ---- */

static uint64_t alive_id;

static bool alive(uint64_t id, uint64_t start)
{
    (void)start;
    return id == alive_id;
}

static int read_mostly(const struct cua_range *r, uint64_t from, uint64_t count)
{
    int v = -1;

    assert_int_equal(cua_advice_attribute(r, from, count, &v, sizeof(v), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY),
                     CUDA_SUCCESS);
    return v;
}

static void test_advice(void **state)
{
    struct cua_range r = {1, 0x100000, 0x10000}, other = {2, 0x100000, 0x10000};
    struct cua_place nowhere = {0, 0}, host = {CU_MEM_LOCATION_TYPE_HOST, 0};
    int two[2], v;

    (void)state;
    alive_id = 1;
    assert_int_equal(cua_advice_keep(&r, r.base + 1, 1, CU_MEM_ADVISE_SET_READ_MOSTLY, nowhere, alive),
                     CUDA_SUCCESS);
    assert_int_equal(read_mostly(&r, r.base, 0x1000), 1); /* the whole page */
    assert_int_equal(read_mostly(&r, r.base, 0x1001), 0); /* not all of the range */
    assert_int_equal(read_mostly(&r, r.base + 0x1000, 1), 0);
    assert_int_equal(cua_advice_keep(&r, r.base, r.size, CU_MEM_ADVISE_SET_ACCESSED_BY, host, alive),
                     CUDA_SUCCESS);
    assert_int_equal(
        cua_advice_attribute(&r, r.base, r.size, two, sizeof(two), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY),
        CUDA_SUCCESS);
    assert_int_equal(two[0], CU_DEVICE_CPU);
    assert_int_equal(two[1], CU_DEVICE_INVALID);
    assert_int_equal(cua_advice_attribute(&r, r.base, 1, two, 3, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_advice_attribute(&r, r.base, 1, &v, 1, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_advice_attribute(&r, r.base, 1, NULL, sizeof(v), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_advice_attribute(&r, r.base, 1, &v, sizeof(v), (CUmem_range_attribute)99),
                     CUDA_ERROR_INVALID_VALUE);
    /* Another allocation at the address has none of it, and drops the record of the first. */
    alive_id = 2;
    assert_int_equal(read_mostly(&other, r.base, 0x1000), 0);
    assert_int_equal(cua_advice_keep(&other, r.base, 1, CUA_PREFETCHED, host, alive), CUDA_SUCCESS);
    assert_int_equal(read_mostly(&r, r.base, 0x1000), 0);
}

/* ---- external memory ---- */

static int live_memory, live_maps;
static CUresult map_result;

static CUresult t_import(CUmemGenericAllocationHandle *h, void *os, CUmemAllocationHandleType type)
{
    assert_int_equal(type, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if ((intptr_t)os < 0)
        return CUDA_ERROR_INVALID_VALUE;
    *h = 7;
    live_memory++;
    return CUDA_SUCCESS;
}
static CUresult t_release(CUmemGenericAllocationHandle h)
{
    assert_int_equal(h, 7);
    live_memory--;
    return CUDA_SUCCESS;
}
static CUresult t_properties(CUmemAllocationProp *prop, CUmemGenericAllocationHandle h)
{
    (void)h;
    memset(prop, 0, sizeof(*prop));
    return CUDA_SUCCESS;
}
static CUresult t_granularity(size_t *g, const CUmemAllocationProp *prop,
                              CUmemAllocationGranularity_flags option)
{
    (void)prop;
    (void)option;
    *g = 0x1000;
    return CUDA_SUCCESS;
}
static CUresult t_device(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}
static CUresult t_reserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                          unsigned long long flags)
{
    (void)alignment;
    (void)addr;
    (void)flags;
    assert_int_equal(size % 0x1000, 0);
    *ptr = 0x70000000;
    live_maps++;
    return CUDA_SUCCESS;
}
static CUresult t_map(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle h,
                      unsigned long long flags)
{
    (void)ptr;
    (void)size;
    (void)offset;
    (void)h;
    (void)flags;
    return map_result;
}
static CUresult t_access(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    (void)ptr;
    (void)size;
    (void)desc;
    (void)count;
    return CUDA_SUCCESS;
}
static CUresult t_unmap(CUdeviceptr ptr, size_t size)
{
    (void)ptr;
    (void)size;
    return CUDA_SUCCESS;
}
static CUresult t_unreserve(CUdeviceptr ptr, size_t size)
{
    (void)ptr;
    (void)size;
    live_maps--;
    return CUDA_SUCCESS;
}

static int live_dmabufs;

static CUresult t_dmabuf_import(void **object, CUdeviceptr *ptr, int fd, size_t size)
{
    (void)size;
    if (fd < 0)
        return CUDA_ERROR_INVALID_HANDLE;
    live_dmabufs++;
    *object = &live_dmabufs;
    *ptr = 0x80000000;
    return CUDA_SUCCESS;
}
static CUresult t_dmabuf_release(void *object)
{
    assert_ptr_equal(object, &live_dmabufs);
    live_dmabufs--;
    return CUDA_SUCCESS;
}

static const struct cua_memory_ops ops = {
    .import = t_import,
    .release = t_release,
    .properties = t_properties,
    .granularity = t_granularity,
    .current_device = t_device,
    .reserve = t_reserve,
    .map = t_map,
    .set_access = t_access,
    .unmap = t_unmap,
    .unreserve = t_unreserve,
};

/* Its buffers keep a dma-buf: it is released once, after the import and all of them. */
static void test_external_dmabuf(void **state)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD, .handle.fd = -1, .size = 0x3000};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC b = {.offset = 0x1000, .size = 0x2000};
    struct cua_memory_ops with = ops;
    CUdeviceptr first, second;
    CUexternalMemory m;
    const char *why = NULL;
    CUresult r;

    (void)state;
    assert_int_equal(cua_external_memory_import(&ops, &m, &d, &why), CUDA_ERROR_NOT_SUPPORTED);
    assert_non_null(why);
    with.dmabuf_import = t_dmabuf_import;
    with.dmabuf_release = t_dmabuf_release;
    assert_int_equal(cua_external_memory_import(&with, &m, &d, &why), CUDA_ERROR_INVALID_HANDLE);
    d.handle.fd = 0;
    d.flags = 1;
    assert_int_equal(cua_external_memory_import(&with, &m, &d, &why), CUDA_ERROR_INVALID_VALUE);
    d.flags = 0;
    assert_int_equal(cua_external_memory_import(&with, &m, &d, &why), CUDA_SUCCESS);
    assert_int_equal(cua_external_memory_buffer(&with, &first, m, &b), CUDA_SUCCESS);
    assert_int_equal(first, 0x80001000);
    b.offset = 0x1001; /* the last byte is outside */
    assert_int_equal(cua_external_memory_buffer(&with, &second, m, &b), CUDA_ERROR_INVALID_VALUE);
    b.offset = 0;
    assert_int_equal(cua_external_memory_buffer(&with, &second, m, &b), CUDA_SUCCESS);
    assert_int_equal(cua_external_memory_destroy(&with, m), CUDA_SUCCESS);
    assert_int_equal(cua_external_memory_buffer(&with, &second, m, &b), CUDA_ERROR_INVALID_HANDLE);
    assert_true(cua_external_memory_free(&with, second, &r));
    assert_int_equal(live_dmabufs, 1);
    assert_true(cua_external_memory_free(&with, first, &r));
    assert_int_equal(live_dmabufs, 0);
    assert_int_equal(live_maps, 0);
}

static void test_external_memory(void **state)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = -1, .size = UINT64_MAX};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC b = {.offset = 0x800, .size = 0x2000};
    CUexternalMemory m;
    CUdeviceptr ptr;
    const char *why = NULL;
    CUresult r;

    (void)state;
    assert_int_equal(cua_external_memory_import(&ops, &m, &d, &why), CUDA_ERROR_INVALID_VALUE);
    d.handle.fd = dup(0);
    d.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP;
    assert_int_equal(cua_external_memory_import(&ops, &m, &d, &why), CUDA_ERROR_NOT_SUPPORTED);
    assert_non_null(why);
    d.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    assert_int_equal(cua_external_memory_import(&ops, &m, &d, &why), CUDA_SUCCESS);
    assert_int_equal(close(d.handle.fd), -1); /* taken over */
    map_result = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(cua_external_memory_buffer(&ops, &ptr, m, &b), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(live_maps, 0);
    map_result = CUDA_SUCCESS;
    b.offset = ~0ull;
    assert_int_equal(cua_external_memory_buffer(&ops, &ptr, m, &b), CUDA_ERROR_INVALID_VALUE);
    b.offset -= b.size; /* ends at 2^64 - 1: in whole granules it would be a small mapping */
    assert_int_equal(cua_external_memory_buffer(&ops, &ptr, m, &b), CUDA_ERROR_INVALID_VALUE);
    b.offset = 0x800;
    assert_int_equal(cua_external_memory_buffer(&ops, &ptr, m, &b), CUDA_SUCCESS);
    assert_int_equal(ptr, 0x70000800);
    assert_int_equal(cua_external_memory_destroy(&ops, m), CUDA_SUCCESS);
    assert_int_equal(cua_external_memory_destroy(&ops, m), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cua_external_memory_buffer(&ops, &ptr, m, &b), CUDA_ERROR_INVALID_HANDLE);
    assert_false(cua_external_memory_free(&ops, ptr + 1, &r));
    assert_true(cua_external_memory_free(&ops, ptr, &r));
    assert_int_equal(r, CUDA_SUCCESS);
    assert_false(cua_external_memory_free(&ops, ptr, &r));
    assert_int_equal(live_maps, 0);
    assert_int_equal(live_memory, 0);
}

/* ---- legacy ---- */

static void test_legacy_launch(void **state)
{
    struct cua_old_launch *old = NULL;
    struct cua_old_args a;
    int seven = 7;

    (void)state;
    assert_int_equal(cua_old_get(&old, 8, 1, 1, &a), CUDA_SUCCESS); /* nothing was set */
    assert_int_equal(a.block[0], 0);
    free(a.params);
    assert_int_equal(cua_old_set_block(&old, 8, 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_old_set_block(&old, 8, 3, 2, 1), CUDA_SUCCESS);
    assert_int_equal(cua_old_set_shared(&old, 8, 64), CUDA_SUCCESS);
    assert_int_equal(cua_old_set_size(&old, 8, 9), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_old_set_size(&old, 8, 8), CUDA_SUCCESS);
    assert_int_equal(cua_old_set_param(&old, 8, 5, &seven, 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_old_set_param(&old, 8, -1, &seven, 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_old_set_param(&old, 8, 4, NULL, 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_old_set_param(&old, 8, 4, &seven, 4), CUDA_SUCCESS);
    assert_int_equal(cua_old_get(&old, 8, 0, 1, &a), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_old_get(&old, 8, 1, 1, &a), CUDA_SUCCESS);
    assert_int_equal(a.block[0], 3);
    assert_int_equal(a.shared, 64);
    assert_int_equal(a.size, 8);
    assert_memory_equal(a.params + 4, &seven, 4);
    free(a.params);
    free(old);
}

static void test_legacy_structures(void **state)
{
    CUDA_ARRAY3D_DESCRIPTOR wide = {.Width = 1ull << 40, .Height = 2, .Depth = 3};
    CUDA_MEMCPY3D_v1 copy = {.srcXInBytes = 1, .srcDevice = 0x10, .dstPitch = 5, .Depth = 4};

    (void)state;
    assert_int_equal(cua_narrow_array3d(&wide).Width, UINT32_MAX);
    assert_int_equal(cua_narrow_array3d(&wide).Depth, 3);
    assert_int_equal(cua_wide_3d(&copy).srcDevice, 0x10);
    assert_int_equal(cua_wide_3d(&copy).dstPitch, 5);
    assert_int_equal(cua_wide_3d(NULL).Depth, 0);
}

/* ---- what is not offered ---- */

static void nothing(CUasyncNotificationInfo *info, void *user, CUasyncCallbackHandle callback)
{
    (void)info;
    (void)user;
    (void)callback;
}

static void test_absent(void **state)
{
    CUasyncCallbackHandle h;
    CUprocessState s;
    const char *why = NULL;

    (void)state;
    assert_int_equal(cua_notification_register(false, 0, nothing, &h), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cua_notification_register(true, 0, NULL, &h), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_notification_register(true, 0, nothing, &h), CUDA_SUCCESS);
    assert_int_equal(cua_notification_unregister(true, 1, h), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_notification_unregister(true, 0, h), CUDA_SUCCESS);
    assert_int_equal(cua_notification_unregister(true, 0, h), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_checkpoint_state(getpid(), &s, &why), CUDA_SUCCESS);
    assert_int_equal(s, CU_PROCESS_STATE_RUNNING);
    assert_int_equal(cua_checkpoint_state(0, &s, &why), CUDA_ERROR_OPERATING_SYSTEM);
    assert_int_equal(cua_checkpoint_lock(getpid(), &why), CUDA_ERROR_NOT_SUPPORTED);
    assert_non_null(why);
    assert_int_equal(cua_checkpoint_other(getpid(), &why), CUDA_ERROR_ILLEGAL_STATE);
    assert_int_equal(cua_checkpoint_other(getppid(), &why), CUDA_ERROR_NOT_SUPPORTED);
}

/* ---- batches of copies ---- */

static char batch_said[64]; /* calls of a batch: c and C copies, C synchronous, 3 in 3D, s synchronizing */
static CUDA_MEMCPY3D batch_last;

static CUresult batch_stream(const char *call, CUstream stream)
{
    (void)call;
    return stream == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Addresses below 100 are pageable memory. */
static bool batch_in_order(CUdeviceptr src, size_t bytes)
{
    (void)bytes;
    return src >= 100;
}

static CUresult batch_copy(const char *call, CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream,
                           bool async)
{
    (void)call, (void)dst, (void)src, (void)stream;
    strcat(batch_said, async ? "c" : "C");
    return bytes == 13 ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

static CUresult batch_3d(const CUDA_MEMCPY3D *p, CUstream stream)
{
    (void)stream;
    batch_last = *p;
    strcat(batch_said, "3");
    return p->srcDevice == 13 ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

static CUresult batch_synchronize(CUstream stream)
{
    (void)stream;
    strcat(batch_said, "s");
    return CUDA_SUCCESS;
}

static CUresult batch_element(const char *call, CUarray array, size_t *bytes)
{
    (void)call;
    *bytes = (uintptr_t)array;
    return CUDA_SUCCESS;
}

static const struct cua_batch_ops batch_ops = {
    .check_stream = batch_stream,
    .source_in_order = batch_in_order,
    .copy = batch_copy,
    .copy_3d = batch_3d,
    .synchronize = batch_synchronize,
    .element = batch_element,
};

static void test_batch_order(void **state)
{
    CUstream s = (CUstream)8;
    CUdeviceptr dsts[6] = {0}, srcs[6] = {1, 100, 1, 100, 1, 100};
    size_t sizes[6] = {1, 1, 1, 1, 1, 1}, first[3] = {0, 2, 4}, failed = 0;
    CUmemcpyAttributes a[3] = {{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
                               {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL},
                               {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY}};

    (void)state;
    batch_said[0] = 0;
    assert_int_equal(cua_copy_batch(&batch_ops, dsts, srcs, sizes, 6, a, first, 3, &failed, s), CUDA_SUCCESS);
    assert_string_equal(batch_said, "scccCscc");
    assert_int_equal(failed, SIZE_MAX);
    sizes[3] = 13;
    assert_int_equal(cua_copy_batch(&batch_ops, dsts, srcs, sizes, 6, a, first, 3, &failed, s),
                     CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(failed, 3);
    assert_int_equal(cua_copy_batch(&batch_ops, dsts, srcs, sizes, 6, a, first, 3, &failed, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(failed, 3); /* not written */
    first[2] = 2;                /* not rising */
    assert_int_equal(cua_copy_batch(&batch_ops, dsts, srcs, sizes, 6, a, first, 3, NULL, s),
                     CUDA_ERROR_INVALID_VALUE);
}

static void test_batch_3d(void **state)
{
    CUDA_MEMCPY3D_BATCH_OP op = {.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
                                 .dst = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY},
                                 .extent = {.width = 3, .height = 2, .depth = 1},
                                 .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUstream s = (CUstream)8;
    size_t failed = 77;

    (void)state;
    batch_said[0] = 0;
    op.src.op.ptr.ptr = 5;
    op.src.op.ptr.rowLength = 7;
    op.dst.op.array.array = (CUarray)4; /* elements of four bytes */
    op.dst.op.array.offset.x = 2;
    assert_int_equal(cua_copy_batch_3d(&batch_ops, 1, &op, NULL, 0, s), CUDA_SUCCESS);
    assert_string_equal(batch_said, "s3");
    assert_int_equal(batch_last.WidthInBytes, 12);
    assert_int_equal(batch_last.srcPitch, 28);
    assert_int_equal(batch_last.srcHeight, 2);
    assert_int_equal(batch_last.dstXInBytes, 8);
    op.extent.width = SIZE_MAX / 4 + 1;
    op.src.op.ptr.rowLength = 0;
    assert_int_equal(cua_copy_batch_3d(&batch_ops, 1, &op, NULL, 0, s), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_copy_batch_3d(&batch_ops, 1, &op, &failed, 0, s), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(failed, 0);
    op.extent.width = 3;
    op.src.op.ptr.ptr = 13;
    assert_int_equal(cua_copy_batch_3d(&batch_ops, 1, &op, &failed, 0, s), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(failed, SIZE_MAX); /* an address is not attributed */
    op.dst.op.array.array = NULL;       /* a driver that says 0 bytes */
    assert_int_equal(cua_copy_batch_3d(&batch_ops, 1, &op, NULL, 0, s), CUDA_ERROR_INVALID_VALUE);
}

/* ---- memory operations ---- */

static void test_memory_operations(void **state)
{
    struct cua_memory_operation list[CUA_MEMORY_OPERATIONS_MAX];
    CUstreamBatchMemOpParams two[2] = {{.operation = CU_STREAM_MEM_OP_BARRIER}, {.operation = 77}};

    (void)state;
    assert_int_equal(cua_memory_operations_read(NULL, 0, list), CUDA_SUCCESS);
    assert_int_equal(cua_memory_operations_read(NULL, 1, list), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cua_memory_operations_read(two, 1, list), CUDA_SUCCESS);
    assert_int_equal(cua_memory_operations_read(two, 2, list), CUDA_ERROR_INVALID_VALUE);
    two[0].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
    assert_int_equal(cua_memory_operations_read(two, 2, list), CUDA_ERROR_NOT_SUPPORTED);
    /* Each known operation, there and back; a value has the width of its word. */
    for (int type = CU_STREAM_MEM_OP_WAIT_VALUE_32; type <= CU_STREAM_MEM_OP_BARRIER; type++) {
        const bool has_value =
            type != CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES && type != CU_STREAM_MEM_OP_BARRIER;
        const struct cua_memory_operation m = {(CUstreamBatchMemOpType)type, 1, 0x100000008, 0x200000003};
        CUstreamBatchMemOpParams p = cua_memory_operation_params(&m);
        struct cua_memory_operation got = cua_memory_operation_of(&p);

        assert_int_equal(got.type, type);
        if (!cua_memory_operation_known(m.type))
            continue;
        assert_int_equal(got.flags, 1);
        assert_int_equal(got.address, has_value ? m.address : 0);
        assert_int_equal(got.value, !has_value ? 0 : cua_memory_operation_width(m.type) == 8 ? m.value : 3);
    }
    assert_false(cua_memory_operation_known((CUstreamBatchMemOpType)77));
}

int main(void)
{
    const struct CMUnitTest tests[] = {

        cmocka_unit_test(test_error_texts),     cmocka_unit_test(test_sticky_errors),
        cmocka_unit_test(test_batch_order),     cmocka_unit_test(test_batch_3d),

        cmocka_unit_test(test_coredump),        cmocka_unit_test(test_advice),
        cmocka_unit_test(test_external_memory), cmocka_unit_test(test_external_dmabuf),
        cmocka_unit_test(test_legacy_launch),   cmocka_unit_test(test_legacy_structures),
        cmocka_unit_test(test_absent),          cmocka_unit_test(test_memory_operations),
    };

    return cmocka_run_group_tests_name("driver", tests, NULL, NULL);
}
