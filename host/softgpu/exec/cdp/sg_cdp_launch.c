/* SPDX-License-Identifier: MIT */
/*
 * Kernels that launch kernels. A grid keeps a list of the launches of its threads. When all its
 * blocks are done, the children run, each followed by its own children, with those of the tail
 * stream last; then the grid is complete, as defined by the guide. A kernel cannot wait for a child
 * (CUDA 12 has no such call), so programs cannot distinguish this from children that run
 * concurrently.
 */
#include "exec/cdp/cdp.h"
#include "exec/heap.h"
#include "exec/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 24u /* CUDA: grids within grids */
#define PENDING_DEFAULT 2048u
/* threads per grid with a stored last error: the list is searched linearly */
#define ERRORS_MAX 4096u

/* The last error of a thread. Errors are rare: a list. */
struct sg_cdp_error {
    struct sg_cdp_error *next;
    u32 ctaid[3], tid[3], code;
};

bool sg_cdp_count(const struct sg_launch *l, struct sg_children *k)
{
    const u32 limit = l->pending_launches ? l->pending_launches : PENDING_DEFAULT;

    if (k->n >= limit || __atomic_load_n(k->total, __ATOMIC_RELAXED) >= SG_PENDING_LAUNCHES_MAX)
        return false;
    __atomic_add_fetch(k->total, 1, __ATOMIC_RELAXED);
    k->n++;
    return true;
}

static void uncount_child(struct sg_children *k)
{
    __atomic_sub_fetch(k->total, 1, __ATOMIC_RELAXED);
    k->n--;
}

static bool is_of(const struct sg_cdp_error *e, const struct sg_warp *w, u32 lane)
{
    for (int i = 0; i < 3; i++)
        if (e->ctaid[i] != w->cta->ctaid[i] || e->tid[i] != w->tid[i][lane])
            return false;
    return true;
}

u32 sg_cdp_error(struct sg_warp *w, u32 lane, u32 code)
{
    struct sg_children *k = w->cta->launch->children;
    struct sg_cdp_error *e;

    if (!code)
        return 0;
    pthread_mutex_lock(&k->lock);
    for (e = k->errors; e && !is_of(e, w, lane); e = e->next)
        ;
    if (!e && k->nerrors < ERRORS_MAX && (e = calloc(1, sizeof(*e))) != NULL) {
        for (int i = 0; i < 3; i++) {
            e->ctaid[i] = w->cta->ctaid[i];
            e->tid[i] = w->tid[i][lane];
        }
        e->next = k->errors;
        k->errors = e;
        k->nerrors++;
    }
    if (e)
        e->code = code;
    pthread_mutex_unlock(&k->lock);
    return code;
}

static int last_errors(struct sg_warp *w, const struct sg_insn *in, bool reset)
{
    struct sg_children *k = w->cta->launch->children;
    u32 *d = DST(u32, d);

    pthread_mutex_lock(&k->lock);
    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        struct sg_cdp_error *e = k->errors;

        while (e && !is_of(e, w, i))
            e = e->next;
        d[i] = e ? e->code : 0;
        if (e && reset)
            e->code = 0;
    }
    pthread_mutex_unlock(&k->lock);
    return SG_NEXT;
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

static void child_free(struct sg_child *c)
{
    if (c->kernel && c->buffer)
        sg_heap_free(c->buffer);
    free(c->params);
    free(c);
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
            uncount_child(k);
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

struct sg_child **sg_cdp_waiting(struct sg_children *k, uint64_t buffer, bool kernel)
{
    for (struct sg_child **p = &k->waiting; *p; p = &(*p)->next)
        if ((*p)->buffer == buffer && !(*p)->kernel == !kernel)
            return p;
    return NULL;
}

static u32 child_launch(struct sg_children *k, uint64_t buffer, uint64_t stream)
{
    u32 r = E_INVALID;

    pthread_mutex_lock(&k->lock);
    struct sg_child **p = sg_cdp_waiting(k, buffer, true), *c = p ? *p : NULL;

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
    u64 *d = DST(u64, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        const u64 xy = SRC(u64, b)[i], zx = SRC(u64, c)[i], yz = SRC(u64, e)[i];
        const u32 grid[3] = {(u32)xy, (u32)(xy >> 32), (u32)zx};
        const u32 block[3] = {(u32)(zx >> 32), (u32)yz, (u32)(yz >> 32)};

        u32 code;

        d[i] = child_new(l, SRC(u64, a)[i], grid, block, &code);
        if (!d[i])
            sg_cdp_error(w, i, code);
    }
    return SG_NEXT;
}

/* Gives a waiting child its dynamic shared memory. Returns the name of its buffer; 0, with the child dropped, if
   its kernel allows no such launch. */
static uint64_t child_set_shared(const struct sg_launch *l, uint64_t buffer, u32 dynamic, u32 *code)
{
    struct sg_children *k = l->children;
    struct sg_child **p, *c;

    *code = 0;
    pthread_mutex_lock(&k->lock);
    p = sg_cdp_waiting(k, buffer, true);
    c = p ? *p : NULL;
    if (c) {
        c->dynamic = dynamic;
        if (l->queries)
            *code = l->queries->launch(l->owner, c->kernel, c->block, dynamic);
    }
    if (*code) {
        *p = c->next;
        uncount_child(k);
    }
    pthread_mutex_unlock(&k->lock);
    if (*code)
        child_free(c);
    return *code ? 0 : buffer;
}

HANDLER(cdp_shared)
{
    const struct sg_launch *l = w->cta->launch;
    u64 *d = DST(u64, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        u32 code;

        d[i] = child_set_shared(l, SRC(u64, a)[i], SRC(u32, b)[i], &code);
        sg_cdp_error(w, i, code);
    }
    return SG_NEXT;
}

HANDLER(cdp_launch)
{
    u32 *d = DST(u32, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = sg_cdp_error(w, i, child_launch(w->cta->launch->children, SRC(u64, a)[i], SRC(u64, b)[i]));
    }
    return SG_NEXT;
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
        d[i] = sg_cdp_error(w, i, got || !SRC(u64, b)[i] ? 0 : E_MEMORY);
    }
    return sg_charge(w, in, cost);
}

HANDLER(cdp_free)
{
    u32 *d = DST(u32, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = sg_cdp_error(w, i, sg_heap_free(SRC(u64, a)[i]) ? 0 : E_INVALID);
    }
    return SG_NEXT;
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

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = sg_cdp_error(w, i, SRC(u64, a)[i] && !(SRC(u64, a)[i] & 255) ? 0 : E_INVALID);
    }
    return SG_NEXT;
}

void sg_tree_count(const struct sg_launch *l, uint64_t instructions)
{
    *l->children->taken += instructions + 1;
}

int sg_cdp_may_go_on(const struct sg_launch *l, struct sg_fault *fault, uint64_t taken)
{
    bool late = l->max_instructions && taken >= l->max_instructions;

    if (!late && !(l->abort_flag && *l->abort_flag))
        return 0;
    memset(fault, 0, sizeof(*fault));
    fault->result = late ? SG_ERR_TIMEOUT : SG_ERR_FAILED;
    snprintf(fault->message, sizeof(fault->message), "%s, before what a kernel launched has ended",
             late ? "the launch took too many instructions" : "the launch was aborted");
    return fault->result;
}

static int run_with_children(const struct sg_launch *l, struct sg_fault *fault, sg_run_grid *grid, u32 depth,
                             u32 *total, uint64_t *taken);

static int run_children(const struct sg_launch *l, struct sg_fault *fault, sg_run_grid *grid,
                        struct sg_children *k, bool tail)
{
    int r = 0;

    for (struct sg_child *c = k->first; c && !r; c = c->next) {
        struct sg_launch one = *l;

        if (c->tail != tail)
            continue;
        r = sg_cdp_may_go_on(l, fault, *k->taken);
        if (r)
            break;
        if (!c->kernel) {
            r = sg_cdp_run_memory(l, fault, c, k->taken);
            continue;
        }
        one.kernel = c->kernel;
        memcpy(one.grid, c->grid, sizeof(one.grid));
        memcpy(one.block, c->block, sizeof(one.block));
        one.dynamic_shared = c->dynamic;
        one.params = c->params;
        memset(one.cluster, 0, sizeof(one.cluster)); /* use the kernel's own size */
        one.cooperative = false;
        r = run_with_children(&one, fault, grid, k->depth + 1, k->total, k->taken);
    }
    return r;
}

static int run_with_children(const struct sg_launch *l, struct sg_fault *fault, sg_run_grid *grid, u32 depth,
                             u32 *total, uint64_t *taken)
{
    struct sg_children k = {.depth = depth, .total = total, .taken = taken};
    struct sg_launch with = *l;
    int r;

    k.last = &k.first;
    pthread_mutex_init(&k.lock, NULL);
    with.children = &k;
    if (l->max_instructions) /* the caller has checked that launches are left */
        with.max_instructions = l->max_instructions - *taken;
    r = grid(&with, fault);
    if (!r && k.first)
        r = run_children(l, fault, grid, &k, false);
    if (!r && k.first)
        r = run_children(l, fault, grid, &k, true);
    __atomic_sub_fetch(total, k.n, __ATOMIC_RELAXED);
    for (struct sg_child *c; (c = k.first ? k.first : k.waiting) != NULL; child_free(c)) {
        if (k.first)
            k.first = c->next;
        else
            k.waiting = c->next;
    }
    for (struct sg_cdp_error *e; (e = k.errors) != NULL; free(e))
        k.errors = e->next;
    pthread_mutex_destroy(&k.lock);
    return r;
}

int sg_run_tree(const struct sg_launch *l, struct sg_fault *fault, sg_run_grid *grid)
{
    uint64_t taken = 0;
    u32 total = 0;

    return run_with_children(l, fault, grid, 0, &total, &taken);
}

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_cdp[] = {
#include "exec/cdp/launch.def"
    {0},
};
