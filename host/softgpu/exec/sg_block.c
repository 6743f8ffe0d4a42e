/* SPDX-License-Identifier: MIT */
/*
 * Runs the blocks of a launch on a thread, one after the other; the thread keeps its buffers for
 * the next launch. Blocks that wait for each other are run by exec/sg_together.c.
 */
#include "exec/run.h"
#include "exec/profile.h"
#include "exec/tcgen05/tcgen05.h"
#include "memory/grace.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARENA (4ull << 30) /* bytes per launch and thread */
#define KEEP_ARENA (64u << 20) /* bytes that a thread keeps between launches */
#define MEMOS 64               /* kernels whose allocations a thread remembers */
#define MAX_BATCH 16           /* maximum number of blocks that a worker takes in one step */

/* ---- memory of a thread ---- */

/* The allocations that the instructions of a kernel used last, as a start for the next launch. They
 * are checked as always. */
struct memo {
    const struct sg_code *code;
    const void *mem; /* context of the launch */
    uint32_t n;
    struct sg_mem_range *ranges;
};

/* A growable buffer, aligned to 4096 and zeroed when new; block: allocated with calloc(). */
struct room {
    uint8_t *at, *block;
    size_t size;
};

struct arena {
    struct room mem, own; /* laid out by struct sg_layout */
    struct memo memos[MEMOS];
};

static pthread_key_t arena_key;
static pthread_once_t arena_once = PTHREAD_ONCE_INIT;

static void arena_free(void *p)
{
    struct arena *a = p;

    for (uint32_t i = 0; i < MEMOS; i++)
        free(a->memos[i].ranges);
    free(a->mem.block);
    free(a->own.block);
    free(a);
}

static void arena_make(void)
{
    pthread_key_create(&arena_key, arena_free);
}

static struct arena *arena_of_thread(void)
{
    struct arena *a;

    pthread_once(&arena_once, arena_make);
    a = pthread_getspecific(arena_key);
    if (!a && (a = calloc(1, sizeof(*a))) != NULL)
        pthread_setspecific(arena_key, a);
    return a;
}

static void room_drop(struct room *r)
{
    free(r->block);
    *r = (struct room){0};
}

static uint8_t *room_get(struct room *r, size_t size)
{
    if (r->size < size) {
        room_drop(r);
        r->block = calloc(1, size + 4095);
        if (r->block) {
            r->at = (uint8_t *)(((uintptr_t)r->block + 4095) & ~(uintptr_t)4095);
            r->size = size;
        }
    }
    return r->at;
}

void sg_arena_trim(void)
{
    struct arena *a;

    pthread_once(&arena_once, arena_make);
    a = pthread_getspecific(arena_key);
    if (a && a->mem.size > KEEP_ARENA)
        room_drop(&a->mem);
    if (a && a->own.size > KEEP_ARENA)
        room_drop(&a->own);
}

static struct memo *memo_of(const struct sg_code *code)
{
    struct arena *a = pthread_getspecific(arena_key);

    return a ? &a->memos[((uintptr_t)code >> 6) % MEMOS] : NULL;
}

static uint32_t ranges_of(const struct sg_code *code)
{
    return code->nranges < SG_RANGE_CACHE ? code->nranges : SG_RANGE_CACHE;
}

static void ranges_recall(struct sg_cta *c)
{
    const uint32_t n = ranges_of(c->code);
    const struct memo *m = memo_of(c->code);

    if (m && m->code == c->code && m->mem == c->mem && m->n == n)
        memcpy(c->cache, m->ranges, n * sizeof(c->cache[0]));
    else
        memset(c->cache, 0, n * sizeof(c->cache[0]));
}

void sg_block_remember(const struct sg_cta *c)
{
    const uint32_t n = ranges_of(c->code);
    struct memo *m = memo_of(c->code);

    if (!m)
        return;
    if (m->n != n) {
        free(m->ranges);
        m->n = 0;
        m->ranges = malloc(n * sizeof(c->cache[0]));
        if (!m->ranges) {
            m->code = NULL;
            return;
        }
        m->n = n;
    }
    m->code = c->code;
    m->mem = c->mem;
    memcpy(m->ranges, c->cache, n * sizeof(c->cache[0]));
}

static size_t align_up(size_t n)
{
    return (n + 255) & ~(size_t)255;
}

static bool make_layout(const struct sg_run *run, struct sg_layout *y)
{
    const struct sg_code *c = run->code;
    const struct sg_launch *l = run->l;
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];

    if (!threads || threads > 1024 || l->dynamic_shared > SG_WIN_SHARED_SIZE / 2)
        return false;
    y->nwarps = (uint32_t)((threads + SG_LANES - 1) / SG_LANES);
    y->warps = align_up(sizeof(struct sg_cta));
    y->own_total = y->warps + align_up(y->nwarps * sizeof(struct sg_warp));
    y->local = (size_t)y->nwarps * (c->regfile_bytes + c->native_bytes);
    y->local_bytes = c->local_bytes;
    y->stack_words = 0;
    if (c->calls || sg_code_has_top(c)) {
        uint64_t bytes = (uint64_t)(l->stack_bytes ? l->stack_bytes : SG_STACK_DEFAULT) * SG_STACK_FACTOR;

        bytes = (bytes + 15) & ~15ull;
        if (bytes > SG_WIN_LOCAL_SIZE / 2)
            bytes = SG_WIN_LOCAL_SIZE / 2;
        y->local_bytes += (uint32_t)bytes;
        y->stack_words = c->calls ? (uint32_t)(bytes / 4) : 0;
    }
    y->stack = y->local + align_up((size_t)y->nwarps * y->local_bytes * SG_LANES);
    y->shared = y->stack + align_up((size_t)y->nwarps * y->stack_words * 4 * SG_LANES);
    y->tensor = align_up(y->shared + c->dynamic_base + l->dynamic_shared + 64);
    y->total = y->tensor + (c->tensor ? SG_TENSOR_BYTES : 0);
    return y->total <= MAX_ARENA && y->own_total <= MAX_ARENA;
}

/* ---- a block ---- */

static void fill_sreg(struct sg_warp *w, const struct sg_code *c, enum sg_sreg r, uint32_t v)
{
    uint32_t *p;

    if (!(c->sreg_used[r / 32] >> (r & 31) & 1))
        return;
    p = (uint32_t *)(void *)(w->base[0] + c->sreg_offset[r]);
    for (int i = 0; i < SG_LANES; i++)
        p[i] = v;
}

/* The multiprocessor number of a worker: one of those available to the launch. */
static uint32_t sm_of(const struct sg_launch *l, uint32_t worker)
{
    if (!l->sms)
        return worker;
    for (uint32_t i = 0; i < 64 * SG_SM_WORDS; i++) {
        if (l->sms->bits[i / 64] >> (i % 64) & 1 && worker-- == 0)
            return i;
    }
    return 0;
}

/* Special registers with the same value in every block. No other code writes their slots. */
static void warp_sregs(struct sg_warp *w, const struct sg_cta *c, const struct sg_run *run)
{
    static const uint8_t which[] = {SG_SR_LANEID,      SG_SR_LANEMASK_EQ, SG_SR_LANEMASK_LE,
                                    SG_SR_LANEMASK_LT, SG_SR_LANEMASK_GE, SG_SR_LANEMASK_GT};
    const struct sg_code *code = c->code;
    const struct sg_launch *l = run->l;
    uint64_t ws = run->workspace ? sg_win.grid : 0;

    for (uint32_t k = 0; k < 3; k++) {
        fill_sreg(w, code, (enum sg_sreg)(SG_SR_NTID_X + k), c->ntid[k]);
        fill_sreg(w, code, (enum sg_sreg)(SG_SR_NCTAID_X + k), c->nctaid[k]);
        fill_sreg(w, code, (enum sg_sreg)(SG_SR_NCLUSTERID_X + k), c->nctaid[k] / run->cluster[k]);
        fill_sreg(w, code, (enum sg_sreg)(SG_SR_CLUSTER_NCTAID_X + k), run->cluster[k]);
        if (code->sreg_used[0] >> (SG_SR_TID_X + k) & 1)
            memcpy(w->base[0] + code->sreg_offset[SG_SR_TID_X + k], w->tid[k], sizeof(w->tid[k]));
    }
    fill_sreg(w, code, SG_SR_WARPID, w->index);
    fill_sreg(w, code, SG_SR_NWARPID, 64);
    fill_sreg(w, code, SG_SR_SMID, sm_of(l, c->worker));
    fill_sreg(w, code, SG_SR_NSMID, run->nsm);
    fill_sreg(w, code, SG_SR_ENVREG1, (uint32_t)(ws >> 32));
    fill_sreg(w, code, SG_SR_ENVREG2, (uint32_t)ws);
    fill_sreg(w, code, SG_SR_DYN_SMEM, l->dynamic_shared);
    fill_sreg(w, code, SG_SR_TOTAL_SMEM, c->shared_bytes);
    fill_sreg(w, code, SG_SR_ZERO, 0);
    fill_sreg(w, code, SG_SR_ONE, 1);
    fill_sreg(w, code, SG_SR_GRIDID, 0);
    fill_sreg(w, code, SG_SR_CLUSTER_NCTARANK, run->cluster_size);
    fill_sreg(w, code, SG_SR_EXPLICIT_CLUSTER, run->explicit_cluster);
    for (uint32_t k = 0; k < 6; k++) {
        if (!(code->sreg_used[which[k] / 32] >> (which[k] & 31) & 1))
            continue;
        for (uint32_t i = 0; i < SG_LANES; i++) {
            const uint32_t eq = 1u << i, lt = eq - 1;
            const uint32_t v[] = {i, eq, lt | eq, lt, ~lt, ~(lt | eq)};

            ((uint32_t *)(void *)(w->base[0] + code->sreg_offset[which[k]]))[i] = v[k];
        }
    }
}

/* Values that are the same in every block, or in every block of a row (ptx/hoist/sg_ptx_hoist.c). */
static void warp_ahead(struct sg_warp *w, const struct sg_ahead *a)
{
    w->alive = SG_FULL;
    sg_warp_set_mask(w, SG_FULL);
    memset(w->lie, 0, sizeof(w->lie)); /* depends on the values computed here, and so does: */
    memset(w->affine, 0, sizeof(w->affine));
    if (a->native)
        a->native(w, a->insns);
    for (uint32_t i = 0; i < a->n && !a->native; i++)
        a->insns[i].fn(w, &a->insns[i]);
}

/* The position of a block's cluster. */
static void warp_cluster(struct sg_warp *w, const struct sg_cta *c)
{
    for (uint32_t k = 0; k < 3; k++) {
        fill_sreg(w, c->code, (enum sg_sreg)(SG_SR_CLUSTERID_X + k), c->clusterid[k]);
        fill_sreg(w, c->code, (enum sg_sreg)(SG_SR_CLUSTER_CTAID_X + k), c->cluster_ctaid[k]);
    }
    fill_sreg(w, c->code, SG_SR_CLUSTER_CTARANK, c->cluster_rank);
}

/* A special register that begins each block with a value. */
struct start {
    uint32_t offset, value;
};

static uint32_t add_start(struct start *s, uint32_t n, const struct sg_code *c, uint32_t r, uint32_t value)
{
    s[n] = (struct start){c->sreg_offset[r], value};
    return n + (c->sreg_used[r / 32] >> (r & 31) & 1);
}

/* fresh: bit mask of the dimensions in which the position differs from the previous block's. */
static void warps_start(struct sg_cta *c, uint32_t fresh)
{
    typedef uint32_t lanes __attribute__((vector_size(4 * SG_LANES), may_alias));
    const struct sg_code *code = c->code;
    const bool row = (fresh & 6) && code->ahead[SG_AHEAD_ROW].n, cluster = sg_code_has_cluster(code);
    struct start s[6];
    uint32_t n = 0;

    for (uint32_t k = 0; k < 3; k++)
        if (fresh >> k & 1)
            n = add_start(s, n, code, SG_SR_CTAID_X + k, c->ctaid[k]);
    n = add_start(s, n, code, SG_SR_FRAME, code->local_bytes);
    n = add_start(s, n, code, SG_SR_TOP, c->local_bytes);
    for (struct sg_warp *w = c->warps; w < c->warps_end; w++) {
        for (uint32_t k = 0; k < n; k++)
            *(lanes *)(void *)(w->base[0] + s[k].offset) = (lanes){0} + s[k].value;
        if (row)
            warp_ahead(w, &code->ahead[SG_AHEAD_ROW]);
        w->mask = w->alive = w->threads;
        w->wmask = SG_FULL; /* missing lanes never existed */
        w->cc = 0;
        w->ip = code->insns;
        w->min_wait = (const struct sg_insn *)UINTPTR_MAX;
        w->slices = 0;
        w->budget = SG_SLICE;
        w->hold = w->spin = w->sync_force = false;
        w->ngroups = 0;
        w->cluster_in = 0;
        if (c->stack_words)
            memset(w->sp, 0, sizeof(w->sp));
        if (cluster)
            warp_cluster(w, c);
    }
}

/* Clears the state of a block and its warps, except entries beyond a count: ranges and groups. */
static void clear_warps(struct sg_cta *c, struct sg_warp *w, uint32_t nwarps)
{
    const size_t behind = offsetof(struct sg_cta, cache) + sizeof(c->cache);

    memset(c, 0, offsetof(struct sg_cta, cache));
    memset((uint8_t *)c + behind, 0, sizeof(*c) - behind);
    for (; nwarps--; w++) {
        memset(w, 0, offsetof(struct sg_warp, groups));
        memset(&w->index, 0, sizeof(*w) - offsetof(struct sg_warp, index));
    }
}

/* Sets the thread indexes of a warp. tid: index of its first thread, then of the thread after
   it. */
static void warp_tids(struct sg_warp *w, const uint32_t block[3], uint32_t tid[3])
{
    const bool row = block[0] % SG_LANES == 0; /* all lanes are in one row */
    const bool column = block[0] == 1 && tid[1] + SG_LANES <= block[1];

    for (uint32_t j = 0; j < SG_LANES && (row || column); j++) {
        w->tid[0][j] = row ? tid[0] + j : 0;
        w->tid[1][j] = row ? tid[1] : tid[1] + j;
        w->tid[2][j] = tid[2];
    }
    for (uint32_t j = 0; j < (row ? 1 : SG_LANES); j++) {
        for (int k = 0; k < 3 && !row && !column; k++)
            w->tid[k][j] = tid[k];
        tid[0] += row ? SG_LANES : 1;
        if (tid[0] < block[0])
            continue;
        tid[0] = 0;
        if (++tid[1] < block[1])
            continue;
        tid[1] = 0;
        tid[2]++;
    }
}

struct sg_cta *sg_block_place(const struct sg_layout *y, uint64_t i, struct sg_run *run, uint32_t worker,
                              struct sg_fault *fault)
{
    const struct sg_code *code = run->code;
    const struct sg_launch *l = run->l;
    uint8_t *mem = y->mem + i * y->total, *own = y->own + i * y->own_total;
    struct sg_cta *c = (struct sg_cta *)(void *)own;
    uint32_t tid[3] = {0, 0, 0};

    /* The only visible state of an earlier launch is register contents, to lanes that read registers which
       the other lanes never set (shfl, mma). Shared memory is cleared for each block. */
    clear_warps(c, (struct sg_warp *)(void *)(own + y->warps), y->nwarps);
    if (code->zero_regs)
        memset(mem, 0, y->local);
    memset(mem + y->local, 0, y->shared - y->local);
    c->fault = fault;
    c->run = run;
    c->code = code;
    c->mem = l->mem;
    c->launch = l;
    ranges_recall(c);
    c->warps = (struct sg_warp *)(void *)(own + y->warps);
    c->warps_end = c->warps + y->nwarps;
    c->shared = mem + y->shared;
    c->tensor =
        code->tensor ? (uint32_t *)(void *)(mem + y->tensor) : NULL; /* cleared when it is allocated */
    c->shared_bytes = code->static_shared + l->dynamic_shared;
    if (l->dynamic_shared)
        c->shared_bytes = code->dynamic_base + l->dynamic_shared;
    c->local_bytes = y->local_bytes;
    c->stack_words = y->stack_words;
    c->params = l->params;
    c->param_bytes = run->k->param_bytes;
    c->nwarps = y->nwarps;
    c->worker = worker;
    c->cluster = c;
    c->cluster_size = 1;
    c->workspace = run->workspace;
    c->nthreads = l->block[0] * l->block[1] * l->block[2];
    for (int k = 0; k < 3; k++) {
        c->ntid[k] = l->block[k];
        c->nctaid[k] = l->grid[k];
    }
    for (uint32_t k = 0; k < y->nwarps; k++) {
        struct sg_warp *w = &c->warps[k];

        w->index = k;
        w->threads =
            c->nthreads - k * SG_LANES >= SG_LANES ? SG_FULL : (1u << (c->nthreads & (SG_LANES - 1))) - 1;
        w->cta = c;
        w->base[0] = mem + (size_t)k * (code->regfile_bytes + code->native_bytes) + code->native_bytes;
        w->base[1] = code->pool;
        w->local = mem + y->local + (size_t)k * y->local_bytes * SG_LANES;
        w->stack = (uint32_t *)(void *)(mem + y->stack + (size_t)k * y->stack_words * 4 * SG_LANES);
        warp_tids(w, l->block, tid);
        warp_sregs(w, c, run);
        warp_ahead(w, &code->ahead[SG_AHEAD_LAUNCH]);
    }
    return c;
}

void sg_block_start(struct sg_cta *c, const uint32_t id[3])
{
    uint32_t fresh = c->started ? 0 : 7;

    for (uint32_t k = 0; k < 3; k++) {
        fresh |= (uint32_t)(c->ctaid[k] != id[k]) << k;
        c->ctaid[k] = id[k];
    }
    c->started = true;
    c->alive = c->nthreads;
    c->parked = 0;
    for (; c->bars; c->bars &= c->bars - 1)
        c->bar[__builtin_ctz(c->bars)].active = false;
    c->cluster_arrived = 0;
    c->tensor_used = c->tensor_starts = 0;
    c->tensor_closed = false;
    c->cur = c->warps_end - 1; /* makes the first warp the next one */
    memset(c->shared, 0, c->shared_bytes);
    warps_start(c, fresh);
}

static void cta_start(struct sg_cta *c, const struct sg_run *run, uint64_t index)
{
    const struct sg_launch *l = run->l;
    /* divisions cost as much as a small block */
    const bool line = l->grid[1] == 1 && l->grid[2] == 1;
    const uint32_t id[3] = {line ? (uint32_t)index : (uint32_t)(index % l->grid[0]),
                            line ? 0 : (uint32_t)(index / l->grid[0] % l->grid[1]),
                            line ? 0 : (uint32_t)(index / l->grid[0] / l->grid[1])};

    for (uint32_t k = 0; k < 3; k++)
        c->clusterid[k] = id[k]; /* clusters of one block each */
    sg_block_start(c, id);
}

void sg_run_fault(struct sg_run *run, const struct sg_fault *f, uint64_t block)
{
    pthread_mutex_lock(&run->fault_lock);
    if (!run->faulted || block < run->fault_block) {
        run->fault = *f;
        run->fault_block = block;
        run->faulted = true;
    }
    pthread_mutex_unlock(&run->fault_lock);
    __atomic_store_n(&run->stop, 1, __ATOMIC_RELEASE);
}

static void run_error(struct sg_run *run, int result, const char *what)
{
    struct sg_fault f = {.result = result};

    snprintf(f.message, sizeof(f.message), "%s: %s", run->code->name, what);
    sg_run_fault(run, &f, UINT64_MAX);
}

bool sg_block_memory(struct sg_run *run, struct sg_layout *y, uint64_t n)
{
    const bool fits = make_layout(run, y) && n <= MAX_ARENA / y->total && n <= MAX_ARENA / y->own_total;
    struct arena *a = fits ? arena_of_thread() : NULL;

    y->mem = a ? room_get(&a->mem, n * y->total) : NULL;
    y->own = a ? room_get(&a->own, n * y->own_total) : NULL;
    if (y->mem && y->own)
        return true;
    run_error(run, SG_ERR_RESOURCES,
              n == 1                ? "not enough memory for one block"
              : run->l->cooperative ? "not enough memory for a cooperative launch"
                                    : "not enough memory for a cluster");
    return false;
}

/* The same, naming a live thread of the block if there is one. */
static void run_ended(struct sg_run *run, struct sg_cta *c, bool started, int result, const char *what)
{
    if (started && sg_cta_fault(c, result, what))
        sg_run_fault(run, c->fault, UINT64_MAX);
    else
        run_error(run, result, what);
}

bool sg_block_must_stop(struct sg_run *run, struct sg_cta *c, bool started)
{
    const struct sg_launch *l = run->l;

    sg_grace_pass(); /* each access of a slice was checked in it */
    if (__atomic_load_n(&run->stop, __ATOMIC_ACQUIRE))
        return true;
    if (l->abort_flag && *l->abort_flag) {
        run_ended(run, c, started, SG_ERR_FAILED, "the launch was aborted");
        return true;
    }
    if (l->max_instructions) {
        uint64_t n = __atomic_add_fetch(&run->icount, c->icount, __ATOMIC_RELAXED);

        c->icount = 0;
        if (n > l->max_instructions) {
            run_ended(run, c, started, SG_ERR_TIMEOUT, "the launch took too many instructions");
            return true;
        }
    }
    return false;
}

/*
 * The next blocks for a worker, in ascending order; *end: after the last. Fewer towards the end, so
 * that workers finish together. Blocks may wait for earlier blocks, whose worker makes progress.
 */
static uint64_t take_blocks(struct sg_run *run, uint64_t *end)
{
    const uint64_t seen = __atomic_load_n(&run->next, __ATOMIC_RELAXED);
    const uint64_t left = seen < run->total ? run->total - seen : 0;
    uint64_t n = left / (4 * run->nworkers);

    n = n > MAX_BATCH ? MAX_BATCH : n ? n : 1;
    const uint64_t first = __atomic_fetch_add(&run->next, n, __ATOMIC_RELAXED);

    *end = first + n < run->total ? first + n : run->total;
    return first;
}

/* Begins the next block of this worker. Returns false if there is none. */
static bool next_block(struct sg_cta *c)
{
    struct sg_run *run = c->run;

    if (c->blocks_next == c->blocks_end)
        c->blocks_next = take_blocks(run, &c->blocks_end);
    c->block = c->blocks_next++;
    if (c->block >= run->total || sg_block_must_stop(run, c, false))
        return false;
    cta_start(c, run, c->block);
    return true;
}

/*
 * A block may wait for earlier blocks, also for those whose work a canceller does: the thread's own blocks are
 * cancelled first, in ascending order. Blocks that other threads have taken run there.
 */
bool sg_block_cancel(struct sg_cta *c, uint32_t first[3])
{
    struct sg_run *run = c->run;
    const bool apart = c->next_block != NULL;
    uint64_t u;

    if (run->l->cooperative) /* all blocks have begun */
        return false;
    if (apart && c->blocks_next < c->blocks_end) {
        u = c->blocks_next++;
    } else {
        if (__atomic_load_n(&run->next, __ATOMIC_RELAXED) >= run->total)
            return false;
        u = __atomic_fetch_add(&run->next, 1, __ATOMIC_RELAXED);
    }
    if (u >= run->total)
        return false;
    for (int k = 0; k < 3; k++) {
        const uint32_t n = run->l->grid[k] / run->cluster[k];

        first[k] = (uint32_t)(u % n) * run->cluster[k];
        u /= n;
    }
    return true;
}

void sg_run_apart(struct sg_run *run, uint32_t worker)
{
    struct sg_fault fault;
    struct sg_layout y;
    struct sg_cta *c;

    if (!sg_block_memory(run, &y, 1))
        return;
    c = sg_block_place(&y, 0, run, worker, &fault);
    c->next_block = next_block;
    c->blocks_next = c->blocks_end = 0;
    while (next_block(c)) {
        int r;

        do {
            r = sg_cta_slice(c);
        } while (r == SG_YIELD && !sg_block_must_stop(run, c, true));
        if (r == SG_FAULTED)
            sg_run_fault(run, &fault, c->block);
        if (r != SG_NEXT)
            break;
    }
    sg_block_remember(c);
    if (sg_profile_on())
        __atomic_add_fetch(&run->icount, c->icount, __ATOMIC_RELAXED);
}
