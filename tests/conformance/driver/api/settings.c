/* SPDX-License-Identifier: MIT */
/*
 * Settings of memory: each is set, read at each address that it applies to and nowhere else, and
 * reset. Answers cached by the guest: each is the answer for its own arguments.
 */
#include "conform.h"

#define SIZE 4096u
#define KINDS 5u

static unsigned sync_at(CUdeviceptr p)
{
    unsigned on = 0xee;

    return cuPointerGetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p) == CUDA_SUCCESS ? on : 99;
}

CASE(settings_sync, CF_CTX)
{
    static const char *const names[KINDS] = {"alloc", "pool", "managed", "host", "registered"};
    CUdeviceptr p[KINDS];
    void *host, *registered = aligned_alloc(SIZE, SIZE);

    NEED(cuMemAlloc(&p[0], SIZE));
    NEED(cuMemAllocAsync(&p[1], SIZE, NULL));
    NEED(cuCtxSynchronize());
    NEED(cuMemAllocManaged(&p[2], SIZE, CU_MEM_ATTACH_GLOBAL));
    NEED(cuMemAllocHost(&host, SIZE));
    NEED(cuMemHostRegister(registered, SIZE, 0));
    p[3] = (uintptr_t)host;
    p[4] = (uintptr_t)registered;
    for (unsigned i = 0; i < KINDS; i++) {
        const CUdeviceptr at[] = {p[i], p[i] + 1, p[i] + SIZE - 1};
        char check[64];

        for (unsigned on = 1; on < 2; on--) {
            unsigned here = 0, others = 0;

            snprintf(check, sizeof(check), "%s_set_%u", names[i], on);
            OK(check, cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at[on]));
            for (unsigned k = 0; k < sizeof(at) / sizeof(at[0]); k++)
                here += sync_at(at[k]) == on;
            for (unsigned k = 0; k < KINDS; k++)
                others += k != i && sync_at(p[k]) == 0;
            snprintf(check, sizeof(check), "%s_here_%u", names[i], on);
            cf_u64(check, here, 3);
            snprintf(check, sizeof(check), "%s_others_%u", names[i], on);
            cf_u64(check, others, KINDS - 1);
        }
    }
    NEED(cuMemFree(p[0]));
    NEED(cuMemFreeAsync(p[1], NULL));
    NEED(cuCtxSynchronize());
    NEED(cuMemFree(p[2]));
    NEED(cuMemFreeHost(host));
    NEED(cuMemHostUnregister(registered));
    free(registered);
}

/* Access to each range of mappings: mappings inside get it, mappings outside keep theirs. */
CASE(settings_access, CF_CTX)
{
    enum { MAPPINGS = 4 };
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc d = {.location = prop.location};
    CUmemGenericAllocationHandle h;
    unsigned ranges = 0, right = 0;
    CUdeviceptr p;
    size_t g = 0;

    NEED(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    NEED(cuMemAddressReserve(&p, MAPPINGS * g, 0, 0, 0));
    for (unsigned i = 0; i < MAPPINGS; i++) {
        NEED(cuMemCreate(&h, g, &prop, 0));
        NEED(cuMemMap(p + i * g, g, 0, h, 0));
        NEED(cuMemRelease(h));
    }
    for (unsigned from = 0; from < MAPPINGS; from++) {
        for (unsigned n = 1; n <= MAPPINGS - from; n++) {
            bool ok = true;

            d.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
            NEED(cuMemSetAccess(p, MAPPINGS * g, &d, 1));
            d.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
            NEED(cuMemSetAccess(p + from * g, n * g, &d, 1));
            for (unsigned i = 0; i < MAPPINGS; i++) {
                const bool in = i >= from && i < from + n;
                CUdeviceptr base = 0;
                size_t size = 0;

                ok &= cuMemGetAddressRange(&base, &size, p + i * g + 1) ==
                      (in ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
                ok &= (cuMemsetD8(p + i * g, (unsigned char)i, 16) == CUDA_SUCCESS) == in;
            }
            ranges++;
            right += ok;
        }
    }
    cf_u64("ranges", right, ranges);
    NEED(cuMemUnmap(p, MAPPINGS * g));
    NEED(cuMemAddressFree(p, MAPPINGS * g));
}

/* ---- answers that are kept ---- */

static const int threads[] = {32, 64, 256, 1024};
static const size_t shared[] = {32, 64, 1024, 16384, 40000};
#define THREADS (sizeof(threads) / sizeof(threads[0]))
#define SHARED (sizeof(shared) / sizeof(shared[0]))

struct answers {
    int blocks[2][THREADS][SHARED];
    size_t room[2][THREADS][THREADS];
    size_t limit[CU_LIMIT_MAX];
};

/* Makes all queries; `forget`: sets a limit before each, which may change any answer. */
static void ask_all(struct answers *a, bool forget)
{
    const CUfunction f[2] = {cf_func("k_reverse"), cf_func("k_reduce")};
    size_t heap = 0;

    memset(a, 0, sizeof(*a));
    NEED(cuCtxGetLimit(&heap, CU_LIMIT_MALLOC_HEAP_SIZE));
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned t = 0; t < THREADS; t++) {
            for (unsigned s = 0; s < SHARED; s++) {
                if (forget)
                    NEED(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, heap));
                NEED(cuOccupancyMaxActiveBlocksPerMultiprocessor(&a->blocks[k][t][s], f[k], threads[t],
                                                                 shared[s]));
            }
            for (unsigned b = 0; b < THREADS; b++) {
                if (forget)
                    NEED(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, heap));
                if (cuOccupancyAvailableDynamicSMemPerBlock(&a->room[k][t][b], f[k], 1 + (int)b, threads[t]))
                    a->room[k][t][b] = 1;
            }
        }
    }
    for (unsigned l = 0; l < CU_LIMIT_MAX; l++) {
        if (forget)
            NEED(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, heap));
        if (cuCtxGetLimit(&a->limit[l], (CUlimit)l) != CUDA_SUCCESS)
            a->limit[l] = 1;
    }
}

CASE(settings_kept_answers, CF_CTX)
{
    static struct answers first, again, fresh;
    bool differ = false;

    ask_all(&first, false);
    ask_all(&again, false);
    ask_all(&fresh, true);
    cf_true("first", memcmp(&first, &fresh, sizeof(fresh)) == 0);
    cf_true("again", memcmp(&again, &fresh, sizeof(fresh)) == 0);
    for (unsigned s = 1; s < SHARED; s++)
        differ |= fresh.blocks[0][0][s] != fresh.blocks[0][0][0];
    cf_true("shared_matters", differ);
}

/* ---- numbers ---- */

/*
 * Each combination of the flags of cuda.h is served or not supported; an additional flag is an
 * error.
 */
CASE(settings_handle_types, CF_CTX)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const unsigned over = 2 * CU_MEM_HANDLE_TYPE_FABRIC;

    for (unsigned types = 0; types <= over; types++) {
        char check[32];
        size_t g = 0xee;
        CUresult r;

        prop.requestedHandleTypes = (CUmemAllocationHandleType)types;
        r = cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
        snprintf(check, sizeof(check), "types_%u", types);
        if (types < over)
            RC_IN(check, r, CUDA_SUCCESS, CUDA_ERROR_NOT_SUPPORTED);
        else
            RC(check, r, CUDA_ERROR_INVALID_VALUE);
        snprintf(check, sizeof(check), "types_%u_output", types);
        cf_true(check, (g == 0xee) == (r != CUDA_SUCCESS));
    }
}
