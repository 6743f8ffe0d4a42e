// SPDX-License-Identifier: MIT
/* Host memory: many concurrent registrations, and the ranges of each with a dma-buf. */
#include "conform.h"

#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u
#define PIECES 600u
#define SIZES 9u
#define EACH 3u

/*
 * Every other page, so that each is a separate region; unregistered and registered again in another
 * order.
 */
CASE(many_registered, CF_CTX)
{
    unsigned registered = 0, twice = 0, same = 0, ended = 0, again = 0, dead = 0;
    uint8_t *p = mmap(NULL, 2 * PIECES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr d, copy;

    cf_need_true("memory", p != MAP_FAILED);
    NEED(cuMemAlloc(&copy, PAGE));
    for (unsigned i = 0; i < PIECES; i++)
        registered += cuMemHostRegister(p + 2 * i * PAGE, PAGE, CU_MEMHOSTREGISTER_DEVICEMAP) == CUDA_SUCCESS;
    cf_u64("registered", registered, PIECES);
    for (unsigned i = 0; i < PIECES; i++) {
        uint8_t *at = p + 2 * i * PAGE;

        twice += cuMemHostRegister(at, PAGE, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        cf_pattern(at, PAGE, i);
        if (cuMemHostGetDevicePointer(&d, at, 0) != CUDA_SUCCESS ||
            cuMemcpyDtoD(copy, d, PAGE) != CUDA_SUCCESS)
            continue;
        memset(at, 0, PAGE);
        same += cuMemcpyDtoH(at, copy, PAGE) == CUDA_SUCCESS && cf_is_pattern(at, PAGE, i);
    }
    cf_u64("registered_once", twice, PIECES);
    cf_u64("same", same, PIECES);
    for (unsigned i = 1; i < PIECES; i += 2)
        ended += cuMemHostUnregister(p + 2 * i * PAGE) == CUDA_SUCCESS;
    cf_u64("ended", ended, PIECES / 2);
    for (unsigned i = 0; i < PIECES; i++) {
        uint8_t *at = p + 2 * i * PAGE;

        if (i % 2 == 0)
            again += cuMemHostRegister(at, PAGE, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        else
            dead += cuMemHostGetDevicePointer(&d, at, 0) != CUDA_SUCCESS;
    }
    cf_u64("others_stay", again, PIECES / 2);
    cf_u64("gone", dead, PIECES / 2);
    for (unsigned i = PIECES - 1; i < PIECES; i -= 2)
        NEED(cuMemHostRegister(p + 2 * i * PAGE, PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
    same = 0;
    for (unsigned i = 0; i < PIECES; i++) {
        uint8_t *at = p + 2 * i * PAGE;

        same += cuMemHostGetDevicePointer(&d, at, 0) == CUDA_SUCCESS &&
                cuMemsetD8(d, (unsigned char)i, PAGE) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS &&
                at[0] == (uint8_t)i && at[PAGE - 1] == (uint8_t)i;
    }
    cf_u64("usable", same, PIECES);
    for (unsigned i = 0; i < PIECES; i++)
        NEED(cuMemHostUnregister(p + 2 * i * PAGE));
    NEED(cuMemFree(copy));
    munmap(p, 2 * PIECES * PAGE);
}

static CUresult export_range(CUdeviceptr p, uint64_t size)
{
    int fd = -1;
    CUresult r = cuMemGetHandleForAddressRange(&fd, p, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);

    if (r == CUDA_SUCCESS)
        close(fd);
    return r;
}

/*
 * Each range of whole pages that begins in an allocation: inside it according to the attribute,
 * beyond it refused.
 */
static void ranges(const char *kind, CUdeviceptr p, uint64_t size, CUresult inside)
{
    const uint64_t pages = (size + PAGE - 1) / PAGE, from[] = {0, 1, pages / 2, pages - 1};
    unsigned right = 0, tried = 0;
    char check[64];

    for (unsigned i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
        const uint64_t left = from[i] < pages ? pages - from[i] : 0;
        const uint64_t n[] = {1, left / 2, left - 1, left, left + 1, left + 2, pages + 1, 2 * pages};

        for (unsigned k = 0; left != 0 && k < sizeof(n) / sizeof(n[0]); k++) {
            const CUresult want = n[k] != 0 && n[k] <= left ? inside : CUDA_ERROR_INVALID_VALUE;

            right += export_range(p + from[i] * PAGE, n[k] * PAGE) == want;
            tried++;
        }
        right += left == 0 || export_range(p + from[i] * PAGE, -(uint64_t)PAGE) == CUDA_ERROR_INVALID_VALUE;
        tried++;
    }
    snprintf(check, sizeof(check), "%s_%llu", kind, (unsigned long long)size);
    cf_u64(check, right, tried);
}

CASE(many_ranges, CF_CTX | CF_UB)
{
    static const uint64_t sizes[SIZES] = {1,        PAGE - 1,  PAGE,       PAGE + 1,      2 * PAGE,
                                          5 * PAGE, 64 * PAGE, 100 * PAGE, 600 * PAGE + 1};
    void *host[SIZES][EACH];
    CUdeviceptr managed;
    CUresult inside;
    int yes = 0;

    NEED(cuDeviceGetAttribute(&yes, CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED, 0));
    inside = yes ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    for (unsigned i = 0; i < SIZES; i++) {
        for (unsigned k = 0; k < EACH; k++)
            NEED(cuMemHostAlloc(&host[i][k], sizes[i], 0));
    }
    for (unsigned i = 0; i < SIZES; i++) {
        for (unsigned k = 0; k < EACH; k++)
            ranges("host", (uintptr_t)host[i][k], sizes[i], inside);
    }
    for (unsigned i = 0; i < SIZES; i++) {
        void *own = mmap(NULL, 602 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        cf_need_true("memory", own != MAP_FAILED);
        NEED(cuMemAllocManaged(&managed, sizes[i], CU_MEM_ATTACH_GLOBAL));
        ranges("managed", managed, sizes[i], inside);
        NEED(cuMemFree(managed));
        if (sizes[i] % PAGE == 0) {
            NEED(cuMemHostRegister(own, sizes[i], 0));
            ranges("registered", (uintptr_t)own, sizes[i], inside);
            NEED(cuMemHostUnregister(own));
        }
        munmap(own, 602 * PAGE);
    }
    for (unsigned i = 0; i < SIZES; i++) {
        for (unsigned k = 0; k < EACH; k++)
            NEED(cuMemFreeHost(host[i][k]));
    }
}
