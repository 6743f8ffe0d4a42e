/* SPDX-License-Identifier: MIT */
/* Steps of firstcall: allocation, copies, pinned and registered host memory, arrays. */
#define _GNU_SOURCE
#include "firstcall.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static CUresult allocate(struct fc *fc)
{
    CUdeviceptr p;
    size_t free_ = 0, total = 0;

    FC_TRY(fc_context(fc));
    FC_TRY(fc->cu.cuMemAlloc(&p, 1 << 20));
    FC_TRY(fc->cu.cuMemGetInfo(&free_, &total));
    fc_note(fc, "%zu of %zu MB free", free_ >> 20, total >> 20);
    return fc->cu.cuMemFree(p);
}

/* There and back through pageable memory, compared. */
static CUresult round_trip(struct fc *fc, size_t size)
{
    unsigned char *from = malloc(size), *to = calloc(1, size);
    CUdeviceptr p = 0;
    CUresult result;

    if (!from || !to) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
        goto out;
    }
    for (size_t i = 0; i < size; i++)
        from[i] = (unsigned char)(i * 7 + (i >> 8));
    if ((result = fc_context(fc)) || (result = fc->cu.cuMemAlloc(&p, size)) ||
        (result = fc->cu.cuMemcpyHtoD(p, from, size)) || (result = fc->cu.cuMemcpyDtoH(to, p, size)))
        goto out;
    if (memcmp(from, to, size)) {
        fc_note(fc, "WRONG: other bytes came back");
        result = CUDA_ERROR_UNKNOWN;
    }
out:
    if (p)
        fc->cu.cuMemFree(p);
    free(from);
    free(to);
    return result;
}

static CUresult copy_4k(struct fc *fc)
{
    return round_trip(fc, 4096);
}

static CUresult copy_16m(struct fc *fc)
{
    return round_trip(fc, 16 << 20);
}

/* A registered range must carry a copy and be released. */
static CUresult use_registered(struct fc *fc, void *base, size_t size, unsigned flags)
{
    CUdeviceptr mapped = 0, p;
    CUresult result;

    FC_TRY(fc->cu.cuMemHostRegister(base, size, flags));
    result = fc->cu.cuMemHostGetDevicePointer(&mapped, base, 0);
    fc_note(fc, "device pointer: result %d, %s", (int)result,
            mapped == (CUdeviceptr)(uintptr_t)base ? "the same address" : "another address");
    FC_TRY(fc->cu.cuMemAlloc(&p, size));
    FC_TRY(fc->cu.cuMemcpyHtoDAsync(p, base, size, NULL));
    FC_TRY(fc->cu.cuCtxSynchronize());
    FC_TRY(fc->cu.cuMemFree(p));
    return fc->cu.cuMemHostUnregister(base);
}

static CUresult pinned(struct fc *fc)
{
    void *p;

    FC_TRY(fc_context(fc));
    FC_TRY(fc->cu.cuMemAllocHost(&p, 9 << 20));
    memset(p, 1, 9 << 20);
    return fc->cu.cuMemFreeHost(p);
}

static CUresult register_memfd(struct fc *fc)
{
    size_t size = 1 << 20;
    int fd = memfd_create("firstcall", MFD_CLOEXEC);
    void *base;

    if (fd < 0 || ftruncate(fd, (off_t)size))
        return CUDA_ERROR_OPERATING_SYSTEM;
    base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (base == MAP_FAILED)
        return CUDA_ERROR_OPERATING_SYSTEM;
    FC_TRY(fc_context(fc));
    FC_TRY(use_registered(fc, base, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    munmap(base, size);
    return CUDA_SUCCESS;
}

static CUresult register_read_only(struct fc *fc)
{
    size_t size = 1 << 20;
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        return CUDA_ERROR_OPERATING_SYSTEM;
    memset(base, 3, size);
    mprotect(base, size, PROT_READ);
    FC_TRY(fc_context(fc));
    FC_TRY(use_registered(fc, base, size, CU_MEMHOSTREGISTER_READ_ONLY | CU_MEMHOSTREGISTER_DEVICEMAP));
    munmap(base, size);
    return CUDA_SUCCESS;
}

static CUresult pin_rate(struct fc *fc)
{
    size_t size = 256 << 20;
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    double start, registered;

    if (base == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    FC_TRY(fc_context(fc));
    start = fc_now();
    FC_TRY(fc->cu.cuMemHostRegister(base, size, CU_MEMHOSTREGISTER_PORTABLE));
    registered = fc_now();
    FC_TRY(fc->cu.cuMemHostUnregister(base));
    fc_note(fc, "%.2f GB/s registered, %.2f GB/s unregistered", (double)size / (registered - start) / 1e9,
            (double)size / (fc_now() - registered) / 1e9);
    munmap(base, size);
    return CUDA_SUCCESS;
}

/* Little of it: a card that runs out of managed memory may hang. */
static CUresult managed(struct fc *fc)
{
    CUdeviceptr p;
    CUfunction f;
    int n = 64, *values;
    void *params[] = {&p, &n};

    FC_TRY(fc_kernel(fc, "fc_add", &f));
    FC_TRY(fc->cu.cuMemAllocManaged(&p, 32 << 10, CU_MEM_ATTACH_GLOBAL));
    values = (int *)(uintptr_t)p;
    values[3] = 41;
    FC_TRY(fc_launch(fc, f, 64, NULL, params));
    FC_TRY(fc->cu.cuCtxSynchronize());
    if (values[3] != 42) {
        fc_note(fc, "WRONG: %d instead of 42", values[3]);
        return CUDA_ERROR_UNKNOWN;
    }
    return fc->cu.cuMemFree(p);
}

/* Does the end of an array wait for a kernel of 200 ms? */
static CUresult array_destroy_busy(struct fc *fc)
{
    CUDA_ARRAY_DESCRIPTOR d = {.Width = 256, .Height = 256, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    unsigned long long ns = 200000000;
    void *params[] = {&ns};
    CUarray array;
    CUfunction f;
    double start;

    FC_TRY(fc_kernel(fc, "fc_spin", &f));
    FC_TRY(fc->cu.cuArrayCreate(&array, &d));
    FC_TRY(fc_launch(fc, f, 1, NULL, params));
    start = fc_now();
    FC_TRY(fc->cu.cuArrayDestroy(array));
    fc_note(fc, "cuArrayDestroy took %.1f ms", (fc_now() - start) * 1e3);
    return fc->cu.cuCtxSynchronize();
}

static CUresult vmm_export(struct fc *fc)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle memory, again;
    CUdeviceptr p;
    size_t size = 0;
    int fd = -1;

    FC_TRY(fc_context(fc));
    FC_TRY(fc->cu.cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    FC_TRY(fc->cu.cuMemCreate(&memory, size, &prop, 0));
    FC_TRY(fc->cu.cuMemAddressReserve(&p, size, 0, 0, 0));
    FC_TRY(fc->cu.cuMemMap(p, size, 0, memory, 0));
    FC_TRY(fc->cu.cuMemSetAccess(p, size, &access, 1));
    FC_TRY(fc->cu.cuMemsetD8(p, 7, size));
    FC_TRY(fc->cu.cuMemExportToShareableHandle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    FC_TRY(fc->cu.cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    FC_TRY(fc->cu.cuMemRelease(again));
    FC_TRY(fc->cu.cuMemUnmap(p, size));
    FC_TRY(fc->cu.cuMemAddressFree(p, size));
    fc_note(fc, "granularity %zu KiB", size >> 10);
    return fc->cu.cuMemRelease(memory);
}

static CUresult pool(struct fc *fc)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool memory;
    CUdeviceptr p;
    CUstream s;

    FC_TRY(fc_context(fc));
    FC_TRY(fc->cu.cuMemPoolCreate(&memory, &props));
    FC_TRY(fc->cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    FC_TRY(fc->cu.cuMemAllocFromPoolAsync(&p, 1 << 20, memory, s));
    FC_TRY(fc->cu.cuMemFreeAsync(p, s));
    FC_TRY(fc->cu.cuStreamSynchronize(s));
    FC_TRY(fc->cu.cuStreamDestroy(s));
    return fc->cu.cuMemPoolDestroy(memory);
}

const struct fc_step fc_memory_steps[] = {
    {"allocate", allocate, 20, 0},
    {"copy_4k", copy_4k, 20, 0},
    {"copy_16m", copy_16m, 30, 0},
    {"pinned_9m", pinned, 20, 0},
    {"register_memfd", register_memfd, 20, 0},
    {"register_read_only", register_read_only, 20, 0},
    {"pin_rate", pin_rate, 60, 0},
    {"managed_32k", managed, 20, 0},
    {"array_destroy_busy", array_destroy_busy, 30, 0},
    {"vmm_export", vmm_export, 20, 0},
    {"pool", pool, 20, 0},
    {NULL, NULL, 0, 0},
};
