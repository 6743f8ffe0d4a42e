/* SPDX-License-Identifier: MIT */
/*
 * Kernels that launch kernels. A grid keeps a list of the launches of its threads. When all its
 * blocks are done, the children run, each followed by its own children, with those of the tail
 * stream last; then the grid is complete, as defined by the guide. A kernel cannot wait for a child
 * (CUDA 12 has no such call), so programs cannot distinguish this from children that run
 * concurrently.
 */
#include "exec/ops/handler.h"
#include "exec/heap.h"
#include "exec/code.h"
#include "memory/grace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cudaError_t values */
#define E_INVALID 1u
#define E_MEMORY 2u
#define E_CONFIGURATION 9u
#define E_DEPTH 65u
#define E_PENDING 69u /* cudaErrorLaunchPendingCountExceeded */
#define E_FUNCTION 98u
#define STREAM_TAIL 3u /* cudaStreamTailLaunch */
#define DEPTH_MAX 24u  /* CUDA: grids within grids */
#define PENDING_DEFAULT 2048u
/* threads per grid with a stored last error: the list is searched linearly */
#define ERRORS_MAX 4096u

/* A kernel, or a copy or memset when kernel is NULL. */
struct child {
    struct child *next;
    struct sg_kernel *kernel;
    uint64_t to, from, bytes;
    int value;       /* -1: a copy */
    uint64_t buffer; /* allocated in the device heap until the launch */
    u32 grid[3], block[3], dynamic;
    bool tail;
    uint8_t *params;
};

/* The last error of a thread. Errors are rare: a list. */
struct error {
    struct error *next;
    u32 ctaid[3], tid[3], code;
};

struct sg_children {
    pthread_mutex_t lock;
    struct error *errors;
    struct child *waiting; /* have a buffer, are not launched */
    struct child *first, **last;
    u32 n, nerrors, depth;
    u32 *total;      /* atomic: `n` of all grids of the tree */
    uint64_t *taken; /* warp instructions of the whole tree */
    uint64_t streams;
};

/* Counts another child. Returns false if there are too many. Under the lock. */
static bool count_child(const struct sg_launch *l, struct sg_children *k)
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

static bool is_of(const struct error *e, const struct sg_warp *w, u32 lane)
{
    for (int i = 0; i < 3; i++)
        if (e->ctaid[i] != w->cta->ctaid[i] || e->tid[i] != w->tid[i][lane])
            return false;
    return true;
}

/* Stores code, unless it is 0, as the last error of the thread, and returns it. */
static u32 set_last_error(struct sg_warp *w, u32 lane, u32 code)
{
    struct sg_children *k = w->cta->launch->children;
    struct error *e;

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
        struct error *e = k->errors;

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

/* The texts of cudaGetErrorString() for the errors returned here; stored in the device heap, for
   kernels. */
static u64 error_string(u32 code)
{
    static const struct {
        u32 code;
        const char *text;
    } known[] = {
        {0, "no error"},
        {E_INVALID, "invalid argument"},
        {E_MEMORY, "out of memory"},
        {E_CONFIGURATION, "invalid configuration argument"},
        {E_DEPTH, "launch would exceed maximum depth of nested launches"},
        {E_PENDING, "launch failed because launch would exceed "
                    "cudaLimitDevRuntimePendingLaunchCount"},
        {E_FUNCTION, "invalid device function"},
        {UINT32_MAX, "unrecognized error code"},
    };
    enum { KNOWN = sizeof(known) / sizeof(known[0]) };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static u64 at[KNOWN];
    int i = 0;

    while (i < KNOWN - 1 && known[i].code != code)
        i++;
    pthread_mutex_lock(&lock);
    if (!at[i]) {
        at[i] = sg_heap_alloc(strlen(known[i].text) + 1);
        if (at[i])
            strcpy((char *)(uintptr_t)at[i], known[i].text);
    }
    pthread_mutex_unlock(&lock);
    return at[i];
}

HANDLER(cdp_error_string)
{
    u64 *d = DST(u64, d);

    for (u32 m = w->mask; m; m &= m - 1)
        d[__builtin_ctz(m)] = error_string(SRC(u32, a)[__builtin_ctz(m)]);
    return SG_NEXT;
}

static void child_free(struct child *c)
{
    if (c->buffer)
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
    struct child *c;

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
    if (!count_child(l, k)) {
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

/* The link to the waiting child with this buffer. NULL: none. Under the lock. */
static struct child **child_waiting(struct sg_children *k, uint64_t buffer)
{
    for (struct child **p = &k->waiting; *p; p = &(*p)->next)
        if ((*p)->buffer == buffer)
            return p;
    return NULL;
}

static u32 child_launch(struct sg_children *k, uint64_t buffer, uint64_t stream)
{
    u32 r = E_INVALID;

    pthread_mutex_lock(&k->lock);
    struct child **p = child_waiting(k, buffer), *c = p ? *p : NULL;

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

static u32 memory_launch(const struct sg_launch *l, u64 to, u64 from, int value, u64 bytes, u64 stream)
{
    struct sg_children *k = l->children;
    struct child *c = calloc(1, sizeof(*c));
    bool room;

    if (!c)
        return E_MEMORY;
    c->to = to;
    c->from = from;
    c->value = value;
    c->bytes = bytes;
    c->tail = stream == STREAM_TAIL;
    pthread_mutex_lock(&k->lock);
    room = count_child(l, k);
    if (room) {
        *k->last = c;
        k->last = &c->next;
    }
    pthread_mutex_unlock(&k->lock);
    if (!room)
        free(c);
    return room ? 0 : E_PENDING;
}

HANDLER(cdp_memcpy)
{
    u32 *d = DST(u32, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = set_last_error(w, i,
                              memory_launch(w->cta->launch, SRC(u64, a)[i], SRC(u64, b)[i], -1,
                                            SRC(u64, c)[i], SRC(u64, e)[i]));
    }
    return SG_NEXT;
}

HANDLER(cdp_memset)
{
    u32 *d = DST(u32, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = set_last_error(w, i,
                              memory_launch(w->cta->launch, SRC(u64, a)[i], 0, (int)(SRC(u32, b)[i] & 255),
                                            SRC(u64, c)[i], SRC(u64, e)[i]));
    }
    return SG_NEXT;
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
            set_last_error(w, i, code);
    }
    return SG_NEXT;
}

HANDLER(cdp_shared)
{
    struct sg_children *k = w->cta->launch->children;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        pthread_mutex_lock(&k->lock);
        struct child **p = child_waiting(k, SRC(u64, a)[i]);

        if (p)
            (*p)->dynamic = SRC(u32, b)[i];
        pthread_mutex_unlock(&k->lock);
    }
    return SG_NEXT;
}

HANDLER(cdp_launch)
{
    u32 *d = DST(u32, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = set_last_error(w, i, child_launch(w->cta->launch->children, SRC(u64, a)[i], SRC(u64, b)[i]));
    }
    return SG_NEXT;
}

/* Writes 8 bytes through the thread's pointer. */
static bool put64(struct sg_warp *w, const struct sg_insn *in, u32 lane, u64 at, u64 v)
{
    u32 local = 0;
    void *p = sg_resolve(w, in, lane, SG_SP_GENERIC, at, 8, 8, true, &local);

    if (!p)
        return false;
    if (!local) {
        memcpy(p, &v, 8);
        return true;
    }
    memcpy(sg_local_word(w, lane, local - 1), &v, 4);
    memcpy(sg_local_word(w, lane, local + 3), (const u8 *)&v + 4, 4);
    return true;
}

HANDLER(cdp_malloc)
{
    u32 *d = DST(u32, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        const u64 got = sg_heap_alloc(SRC(u64, b)[i]);

        if (!put64(w, in, i, SRC(u64, a)[i], got)) {
            sg_heap_free(got);
            return SG_FAULTED;
        }
        d[i] = set_last_error(w, i, got || !SRC(u64, b)[i] ? 0 : E_MEMORY);
    }
    return SG_NEXT;
}

HANDLER(cdp_free)
{
    u32 *d = DST(u32, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = set_last_error(w, i, sg_heap_free(SRC(u64, a)[i]) ? 0 : E_INVALID);
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
        const u64 n = __atomic_add_fetch(&k->streams, 1, __ATOMIC_RELAXED);

        if (!put64(w, in, i, SRC(u64, a)[i], n * 256))
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

        d[i] = set_last_error(w, i, SRC(u64, a)[i] && !(SRC(u64, a)[i] & 255) ? 0 : E_INVALID);
    }
    return SG_NEXT;
}

const struct sg_opdef sg_ops_cdp[] = {
    ROWR(cdp_buffer, "cdp.buffer", SG_R_CDP, 0, OUT(u64), IN(u64), IN(u64), IN(u64), IN(u64)),
    ROWR(cdp_shared, "cdp.shared", SG_R_CDP, 0, NO, IN(u64), IN(u32)),
    ROWR(cdp_launch, "cdp.launch", SG_R_CDP, 0, OUT(u32), IN(u64), IN(u64)),
    ROWR(cdp_malloc, "cdp.malloc", SG_R_CDP, 0, OUT(u32), IN(u64), IN(u64)),
    ROWR(cdp_free, "cdp.free", SG_R_CDP, 0, OUT(u32), IN(u64)),
    ROWR(cdp_stream, "cdp.stream", SG_R_CDP, 0, OUT(u32), IN(u64), OPT(IN(u32))),
    ROWR(cdp_stream_end, "cdp.stream.end", SG_R_CDP, 0, OUT(u32), IN(u64)),
    ROWR(cdp_memcpy, "cdp.memcpy", SG_R_CDP, 0, OUT(u32), IN(u64), IN(u64), IN(u64), IN(u64)),
    ROWR(cdp_memset, "cdp.memset", SG_R_CDP, 0, OUT(u32), IN(u64), IN(u32), IN(u64), IN(u64)),
    ROWR(cdp_error, "cdp.error", SG_R_CDP, 0, OUT(u32)),
    ROWR(cdp_error_peek, "cdp.error.peek", SG_R_CDP, 0, OUT(u32)),
    ROWR(cdp_error_string, "cdp.error.string", SG_R_CDP, 0, OUT(u64), IN(u32)),
    {0},
};

void sg_tree_count(const struct sg_launch *l, uint64_t instructions)
{
    *l->children->taken += instructions + 1;
}

/* 0 if the children of a grid may begin, else the error. A running grid checks that itself. */
static int may_go_on(const struct sg_launch *l, struct sg_fault *fault, uint64_t taken)
{
    bool late = l->max_instructions && taken >= l->max_instructions;

    if (!late && !(l->abort_flag && *l->abort_flag))
        return 0;
    memset(fault, 0, sizeof(*fault));
    fault->result = late ? SG_ERR_TIMEOUT : SG_ERR_FAILED;
    snprintf(fault->message, sizeof(fault->message), "%s, before what a kernel launched began",
             late ? "the launch took too many instructions" : "the launch was aborted");
    return fault->result;
}

static int run_with_children(const struct sg_launch *l, struct sg_fault *fault, sg_run_grid *grid, u32 depth,
                             u32 *total, uint64_t *taken);

static bool reach_memory(const struct sg_launch *l, u64 at, u64 n, bool write)
{
    struct sg_mem_range hit;
    u64 base, end;

    sg_heap_range(&base, &end);
    return (end && sg_span_has(base, end - base, at, n)) || sg_mem_check(l->mem, at, n, write, &hit);
}

static int run_memory(const struct sg_launch *l, struct sg_fault *fault, const struct child *c)
{
    bool copy = c->value < 0;

    if (!c->bytes)
        return 0;
    sg_grace_enter();
    if (!reach_memory(l, c->to, c->bytes, true) || (copy && !reach_memory(l, c->from, c->bytes, false))) {
        memset(fault, 0, sizeof(*fault));
        fault->result = SG_ERR_ADDRESS;
        snprintf(fault->message, sizeof(fault->message),
                 "%s of %llu bytes by a kernel: to 0x%llx%s: no memory of the device",
                 copy ? "copy" : "memset", (unsigned long long)c->bytes, (unsigned long long)c->to,
                 copy ? ", or from where it comes" : "");
    } else if (copy) {
        memmove((void *)(uintptr_t)c->to, (const void *)(uintptr_t)c->from, c->bytes);
    } else {
        memset((void *)(uintptr_t)c->to, c->value, c->bytes);
    }
    sg_grace_leave();
    return fault->result;
}

static int run_children(const struct sg_launch *l, struct sg_fault *fault, sg_run_grid *grid,
                        struct sg_children *k, bool tail)
{
    int r = 0;

    for (struct child *c = k->first; c && !r; c = c->next) {
        struct sg_launch one = *l;

        if (c->tail != tail)
            continue;
        r = may_go_on(l, fault, *k->taken);
        if (r)
            break;
        if (!c->kernel) {
            r = run_memory(l, fault, c);
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
    if (l->max_instructions) /* the caller has seen that something is left */
        with.max_instructions = l->max_instructions - *taken;
    r = grid(&with, fault);
    if (!r && k.first)
        r = run_children(l, fault, grid, &k, false);
    if (!r && k.first)
        r = run_children(l, fault, grid, &k, true);
    __atomic_sub_fetch(total, k.n, __ATOMIC_RELAXED);
    for (struct child *c; (c = k.first ? k.first : k.waiting) != NULL; child_free(c)) {
        if (k.first)
            k.first = c->next;
        else
            k.waiting = c->next;
    }
    for (struct error *e; (e = k.errors) != NULL; free(e))
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
