/* SPDX-License-Identifier: MIT */
/* Kernels that launch kernels: the calls, whose launches exec/cdp/sg_cdp_tree.c runs. */
#include "exec/cdp/cdp.h"
#include "exec/heap.h"
#include "exec/code.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 24u /* CUDA: grids within grids */

static int last_errors(struct sg_warp *w, const struct sg_insn *in, bool reset)
{
    u32 *d = DST(u32, d);
    u64 cost = 0;

    for (u32 m = w->mask; m; m &= m - 1)
        d[__builtin_ctz(m)] = sg_cdp_last_error(w, (u32)__builtin_ctz(m), reset, &cost);
    return sg_charge(w, in, cost);
}

HANDLER(cdp_error)
{
    return last_errors(w, in, true);
}

HANDLER(cdp_error_peek)
{
    return last_errors(w, in, false);
}

/* The texts of cudaGetErrorString() and cudaGetErrorName() for the errors returned here; stored in the device
   heap, for kernels. */
static u64 error_string(u32 code, bool name)
{
    static const struct {
        u32 code;
        const char *text[2];
    } known[] = {
        {0, {"no error", "cudaSuccess"}},
        {E_INVALID, {"invalid argument", "cudaErrorInvalidValue"}},
        {E_MEMORY, {"out of memory", "cudaErrorMemoryAllocation"}},
        {E_CONFIGURATION, {"invalid configuration argument", "cudaErrorInvalidConfiguration"}},
        {E_PITCH, {"invalid pitch argument", "cudaErrorInvalidPitchValue"}},
        {E_DEPTH,
         {"launch would exceed maximum depth of nested launches", "cudaErrorLaunchMaxDepthExceeded"}},
        {E_PENDING,
         {"launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount",
          "cudaErrorLaunchPendingCountExceeded"}},
        {E_FUNCTION, {"invalid device function", "cudaErrorInvalidDeviceFunction"}},
        {E_NOT_SUPPORTED, {"operation not supported", "cudaErrorNotSupported"}},
        {UINT32_MAX, {"unrecognized error code", "unrecognized error code"}},
    };
    enum { KNOWN = sizeof(known) / sizeof(known[0]) };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static u64 at[KNOWN][2];
    int i = 0;

    while (i < KNOWN - 1 && known[i].code != code)
        i++;
    pthread_mutex_lock(&lock);
    if (!at[i][name]) {
        at[i][name] = sg_heap_alloc(strlen(known[i].text[name]) + 1);
        if (at[i][name])
            strcpy((char *)(uintptr_t)at[i][name], known[i].text[name]);
    }
    pthread_mutex_unlock(&lock);
    return at[i][name];
}

static int error_texts(struct sg_warp *w, const struct sg_insn *in, bool name)
{
    u64 *d = DST(u64, d);

    for (u32 m = w->mask; m; m &= m - 1)
        d[__builtin_ctz(m)] = error_string(SRC(u32, a)[__builtin_ctz(m)], name);
    return SG_NEXT;
}

HANDLER(cdp_error_string)
{
    return error_texts(w, in, false);
}

HANDLER(cdp_error_name)
{
    return error_texts(w, in, true);
}

static bool shape_ok(const u32 grid[3], const u32 block[3], const u32 cluster[3])
{
    for (int k = 0; k < 3 && cluster[0]; k++)
        if (!cluster[k] || grid[k] % cluster[k])
            return false;
    return grid[0] && grid[0] <= INT32_MAX && grid[1] && grid[1] <= 65535 && grid[2] && grid[2] <= 65535 &&
           block[0] && block[0] <= 1024 && block[1] && block[1] <= 1024 && block[2] && block[2] <= 64 &&
           block[0] * block[1] * block[2] <= 1024;
}

/* Allocates a parameter buffer. 0, as in CUDA, if the launch is impossible: *code is the reason. */
static uint64_t child_new(const struct sg_launch *l, uint64_t address, const u32 grid[3], const u32 block[3],
                          u32 *code)
{
    struct sg_children *k = l->children;
    struct sg_kernel *kernel = l->kernel->ops->at(l->kernel, address);
    struct sg_child *c;

    *code = !kernel                                   ? E_FUNCTION
            : !shape_ok(grid, block, kernel->cluster) ? E_CONFIGURATION
            : k->depth >= DEPTH_MAX - 1               ? E_DEPTH
                                                      : 0;
    if (*code)
        return 0;
    *code = E_MEMORY;
    c = calloc(1, sizeof(*c));
    if (!c)
        return 0;
    c->kernel = kernel;
    memcpy(c->grid, grid, sizeof(c->grid));
    memcpy(c->block, block, sizeof(c->block));
    pthread_mutex_lock(&k->lock);
    if (!sg_cdp_count(l, k)) {
        *code = E_PENDING;
    } else {
        c->buffer = sg_heap_alloc(kernel->param_bytes ? kernel->param_bytes : 1);
        if (!c->buffer)
            sg_cdp_uncount(k);
    }
    if (c->buffer) {
        c->next = k->waiting;
        k->waiting = c;
    }
    pthread_mutex_unlock(&k->lock);
    if (!c->buffer) {
        free(c);
        return 0;
    }
    return c->buffer;
}

static u32 child_launch(struct sg_children *k, uint64_t buffer, uint64_t stream, u64 *cost)
{
    u32 r = E_INVALID;

    pthread_mutex_lock(&k->lock);
    struct sg_child **p = sg_cdp_waiting(k, buffer, true, cost), *c = p ? *p : NULL;

    if (c) {
        const u32 n = c->kernel->param_bytes;

        c->params = calloc(1, n + 16);
        r = c->params ? 0 : E_MEMORY;
        if (c->params) {
            memcpy(c->params, (const void *)(uintptr_t)c->buffer, n); /* the heap's own, still */
            sg_heap_free(c->buffer);
            c->buffer = 0;
            c->tail = stream == STREAM_TAIL;
            *p = c->next;
            c->next = NULL;
            *k->last = c;
            k->last = &c->next;
        }
    }
    pthread_mutex_unlock(&k->lock);
    return r;
}

HANDLER(cdp_buffer)
{
    const struct sg_launch *l = w->cta->launch;
    u64 *d = DST(u64, d), cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        const u64 xy = SRC(u64, b)[i], zx = SRC(u64, c)[i], yz = SRC(u64, e)[i];
        const u32 grid[3] = {(u32)xy, (u32)(xy >> 32), (u32)zx};
        const u32 block[3] = {(u32)(zx >> 32), (u32)yz, (u32)(yz >> 32)};

        u32 code;

        d[i] = child_new(l, SRC(u64, a)[i], grid, block, &code);
        if (!d[i])
            sg_cdp_error(w, i, code, &cost);
    }
    return sg_charge(w, in, cost);
}

/* Gives a waiting child its dynamic shared memory. Returns the name of its buffer; 0, with the child dropped, if
   its kernel allows no such launch. */
static uint64_t child_set_shared(const struct sg_launch *l, uint64_t buffer, u32 dynamic, u32 *code,
                                 u64 *cost)
{
    struct sg_children *k = l->children;
    struct sg_child **p, *c;

    *code = 0;
    pthread_mutex_lock(&k->lock);
    p = sg_cdp_waiting(k, buffer, true, cost);
    c = p ? *p : NULL;
    if (c) {
        c->dynamic = dynamic;
        if (l->queries)
            *code = l->queries->launch(l->owner, c->kernel, c->block, dynamic);
    }
    if (*code) {
        *p = c->next;
        sg_cdp_uncount(k);
    }
    pthread_mutex_unlock(&k->lock);
    if (*code)
        sg_child_free(c);
    return *code ? 0 : buffer;
}

HANDLER(cdp_shared)
{
    const struct sg_launch *l = w->cta->launch;
    u64 *d = DST(u64, d), cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        u32 code;

        d[i] = child_set_shared(l, SRC(u64, a)[i], SRC(u32, b)[i], &code, &cost);
        sg_cdp_error(w, i, code, &cost);
    }
    return sg_charge(w, in, cost);
}

HANDLER(cdp_launch)
{
    u32 *d = DST(u32, d);
    u64 cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = sg_cdp_error(
            w, i, child_launch(w->cta->launch->children, SRC(u64, a)[i], SRC(u64, b)[i], &cost), &cost);
    }
    return sg_charge(w, in, cost);
}

HANDLER(cdp_malloc)
{
    u32 *d = DST(u32, d);
    u64 cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        u32 blocks;
        const u64 got = sg_heap_search(SRC(u64, b)[i], &blocks);

        cost += (u64)blocks * SG_HEAP_BLOCK_COST;
        if (!sg_cdp_put(w, in, i, SRC(u64, a)[i], &got, 8)) {
            sg_heap_free(got);
            return SG_FAULTED;
        }
        d[i] = sg_cdp_error(w, i, got || !SRC(u64, b)[i] ? 0 : E_MEMORY, &cost);
    }
    return sg_charge(w, in, cost);
}

HANDLER(cdp_free)
{
    u32 *d = DST(u32, d);
    u64 cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = sg_cdp_error(w, i, sg_heap_free(SRC(u64, a)[i]) ? 0 : E_INVALID, &cost);
    }
    return sg_charge(w, in, cost);
}

/* Children run one after the other regardless of their streams, so a stream is just a non-zero
   number. */
HANDLER(cdp_stream)
{
    struct sg_children *k = w->cta->launch->children;
    u32 *d = DST(u32, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        const u64 stream = __atomic_add_fetch(&k->streams, 1, __ATOMIC_RELAXED) * 256;

        if (!sg_cdp_put(w, in, i, SRC(u64, a)[i], &stream, 8))
            return SG_FAULTED;
        d[i] = 0;
    }
    return SG_NEXT;
}

HANDLER(cdp_stream_end)
{
    u32 *d = DST(u32, d);
    u64 cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = sg_cdp_error(w, i, SRC(u64, a)[i] && !(SRC(u64, a)[i] & 255) ? 0 : E_INVALID, &cost);
    }
    return sg_charge(w, in, cost);
}

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_cdp[] = {
#include "exec/cdp/launch.def"
    {0},
};
