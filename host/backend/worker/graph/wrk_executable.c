/* SPDX-License-Identifier: MIT */
/* State of executable graphs: memory that a launch may use, for the quota, and host functions set
 * in them. A filter in front of the provider, like the memory quota. Dispatcher only. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "vgb_sum.h"
#include "vgp_worker.h"

uint64_t wrk_memory_nodes_made;

/* Reference to a host function set in an executable graph, as the provider takes none. */
struct set_func {
    VGB_OWNED struct set_func *next;
    /* handle, which is never another node's; 0: replaced, a launch under way may still run it */
    uint64_t node;
    VGB_COUNTED struct wrk_host_func *f;
};

struct exec {
    VGB_OWNED struct exec *next; /* in its bucket, or in `ended` */
    CUgraphExec object;
    CUcontext ctx;
    VGB_OWNED uint64_t *bytes; /* peak memory of a launch, bytes by device; NULL: none */
    VGB_OWNED struct set_func *funcs;
    /* event behind its last launch (launches run in order); created if there are funcs */
    CUevent last;
    CUcontext last_ctx; /* context of `last` */
    /* wait that ends the context of earlier launches, whose functions may run until it lands; NULL: none */
    VGB_LENT const struct wrk_wait *ending;
    bool captured;  /* a captured launch may run its functions for ever */
    uint8_t *types; /* types of its host nodes from wrk_exec_set_types(); NULL: all plain */
    size_t ntypes;
    struct wrk_namer names; /* objects named by its nodes */
};

#define BUCKETS 256u
static struct exec *known[BUCKETS];
static unsigned count;     /* number of records; 0: nothing to look up */
static struct exec *ended; /* destroyed, but perhaps still running */
static struct wrk_worker *self;
static const struct vgp_provider *lower; /* functions below this filter */

static struct exec **bucket_of(CUgraphExec x)
{
    return &known[((uintptr_t)x >> 4 ^ (uintptr_t)x >> 20) % BUCKETS];
}

static struct exec *executable_find(CUgraphExec object)
{
    struct exec *x = count ? *bucket_of(object) : NULL;

    while (x && x->object != object)
        x = x->next;
    return x;
}

static struct exec *exec_get(CUgraphExec object)
{
    struct exec *x = executable_find(object), **b = bucket_of(object);

    if (x)
        return x;
    x = calloc(1, sizeof(*x));
    if (!x)
        return NULL;
    x->object = object;
    x->ctx = wrk_base_context(self->current);
    x->next = *b;
    *b = x;
    count++;
    return x;
}

void wrk_memory_node_made(void)
{
    wrk_memory_nodes_made++;
}

/* ---- memory ---- */

static int graph_devices(void)
{
    int n = 0;

    return lower->cuDeviceGetCount(&n) == CUDA_SUCCESS ? n : 0;
}

static uint64_t graph_attribute(int device, CUgraphMem_attribute what)
{
    cuuint64_t v = 0;

    return lower->cuDeviceGetGraphMemAttribute &&
                   lower->cuDeviceGetGraphMemAttribute(device, what, &v) == CUDA_SUCCESS
               ? v
               : 0;
}

bool wrk_graph_memory(CUgraph g, uint64_t *bytes)
{
    const int n = bytes ? graph_devices() : 0;
    struct wrk_graph_mem m = {0};
    bool found = wrk_memory_nodes_made && lower->cuGraphGetNodes && lower->cuGraphNodeGetType &&
                 lower->cuGraphMemAllocNodeGetParams && lower->cuGraphChildGraphNodeGetGraph &&
                 wrk_graph_mem_of(g, WRK_ANY_DEVICE, 0, &m);

    for (int d = 0; d < n; d++) {
        if (found && n > 1)
            wrk_graph_mem_of(g, d, 0, &m);
        bytes[d] = vgb_sum(m.kept, m.passing);
    }
    return found;
}

uint64_t wrk_graph_memory_reserved(void)
{
    const int n = wrk_memory_nodes_made ? graph_devices() : 0;
    uint64_t sum = 0;

    for (int d = 0; d < n; d++)
        sum += graph_attribute(d, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
    return sum;
}

/* Additional bytes that may be reserved for graphs by launching this graph: what one device has reserved is none of
 * another's. */
static uint64_t may_take(const struct exec *x)
{
    const int n = graph_devices();
    uint64_t sum = 0;

    for (int d = 0; d < n; d++) {
        const uint64_t then = vgb_sum(graph_attribute(d, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), x->bytes[d]);
        const uint64_t reserved = graph_attribute(d, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);

        sum = vgb_sum(sum, then > reserved ? then - reserved : 0);
    }
    return sum;
}

/* False: no memory to remember it. */
static bool note_memory(struct exec *x, CUgraph g)
{
    free(x->bytes);
    x->bytes = NULL;
    if (!wrk_memory_nodes_made)
        return true;
    x->bytes = calloc((size_t)graph_devices() + 1, sizeof(*x->bytes));
    if (x->bytes && !wrk_graph_memory(g, x->bytes)) {
        free(x->bytes);
        x->bytes = NULL;
        return true;
    }
    return x->bytes != NULL;
}

/* ---- host functions ---- */

/* Drops functions that can no longer run; all: the executable graph is destroyed. */
static bool let_go(struct exec *x, bool all)
{
    if (!x->funcs)
        return true;
    if (x->captured || x->ending || (x->last && wrk_ask_event(lower, x->last).state != WRK_COMPLETE))
        return false;
    for (struct set_func **p = &x->funcs; *p;) {
        struct set_func *s = *p;

        if (!all && s->node) {
            p = &s->next;
            continue;
        }
        *p = s->next;
        wrk_host_func_put(s->f);
        free(s);
    }
    return !x->funcs;
}

static void sweep_execs(void)
{
    wrk_host_funcs_tell();
    for (struct exec **p = &ended; *p;) {
        struct exec *x = *p;

        if (!let_go(x, true)) {
            p = &x->next;
            continue;
        }
        *p = x->next;
        if (x->last)
            lower->cuEventDestroy_v2(x->last);
        free(x->types);
        free(x->bytes);
        free(x);
    }
}

bool wrk_exec_set_types(CUgraphExec exec, uint8_t *types, size_t n)
{
    struct exec *x = types ? exec_get(exec) : executable_find(exec);

    if (x) {
        free(x->types);
        x->types = types;
        x->ntypes = n;
    }
    return x || !types;
}

const uint8_t *wrk_exec_types(CUgraphExec exec, size_t *n)
{
    const struct exec *x = executable_find(exec);

    *n = x ? x->ntypes : 0;
    return x ? x->types : NULL;
}

/* Previous functions of this node are kept only for launches in progress. */
static void drop_replaced(struct exec *x, uint64_t node)
{
    for (struct set_func *s = x->funcs; s; s = s->next) {
        if (!node || s->node == node)
            s->node = 0;
    }
    let_go(x, false);
}

CUresult wrk_exec_set_func(CUgraphExec exec, const struct wrk_gnode *node, struct wrk_host_func *f)
{
    CUDA_HOST_NODE_PARAMS p = {.fn = f ? wrk_host_func_run : wrk_host_func_nothing, .userData = f};
    struct set_func *s = calloc(1, sizeof(*s));
    struct exec *x = s ? exec_get(exec) : NULL;
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

    sweep_execs();
    if (x && !x->last && lower->cuEventCreate && lower->cuEventRecord && lower->cuEventDestroy_v2 &&
        lower->cuEventCreate(&x->last, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        x->last = NULL;
    if (x && x->last && !x->last_ctx)
        x->last_ctx = wrk_base_context(self->current);
    if (x && x->last)
        r = wrk_provider.cuGraphExecHostNodeSetParams
                ? wrk_provider.cuGraphExecHostNodeSetParams(exec, wrk_gnode_func(node), &p)
                : CUDA_ERROR_NOT_SUPPORTED;
    if (r != CUDA_SUCCESS) {
        free(s);
        return r;
    }
    drop_replaced(x, node->handle);
    if (!f) {
        free(s);
        return CUDA_SUCCESS;
    }
    s->node = node->handle;
    s->f = wrk_host_func_get(f);
    s->next = x->funcs;
    x->funcs = s;
    return CUDA_SUCCESS;
}

bool wrk_exec_has_func(CUgraphExec exec, const struct wrk_gnode *node, uint64_t cookie)
{
    const struct exec *x = executable_find(exec);

    for (const struct set_func *s = x ? x->funcs : NULL; s; s = s->next) {
        if (s->node == node->handle && wrk_host_func_cookie(s->f) != cookie)
            return true;
    }
    return false;
}

void wrk_exec_updated(CUgraphExec exec)
{
    struct exec *x = executable_find(exec);

    if (x)
        drop_replaced(x, 0);
}

/* ---- around the provider ---- */

bool wrk_exec_made(CUgraphExec exec, const struct wrk_graph *g)
{
    struct exec *x;

    sweep_execs();
    x = exec_get(exec);
    if (!x || !wrk_graph_names(&x->names, g))
        return false;
    return note_memory(x, g->object);
}

struct wrk_namer *wrk_exec_names(CUgraphExec exec)
{
    struct exec *x = executable_find(exec);

    return x ? &x->names : NULL;
}

bool wrk_exec_stale(CUgraphExec exec)
{
    struct exec *x = executable_find(exec);

    return x && wrk_namer_stale(&x->names);
}

static CUresult q_launch(CUgraphExec exec, CUstream stream)
{
    struct exec *x = executable_find(exec);
    uint64_t bytes;
    CUresult r;

    if (!x)
        return lower->cuGraphLaunch(exec, stream);
    if (wrk_namer_stale(&x->names))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (wrk_stream_captured(stream)) {
        x->captured = true;
        if (!wrk_namer_copy(&wrk_capturing, &x->names))
            return CUDA_ERROR_OUT_OF_MEMORY;
        return lower->cuGraphLaunch(exec, stream);
    }
    bytes = x->bytes ? may_take(x) : 0;
    if (bytes && !wrk_quota_take(self, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = lower->cuGraphLaunch(exec, stream);
    /* Memory it did take is seen by wrk_provider_used() from now on. */
    wrk_quota_give(self, bytes);
    if (r == CUDA_SUCCESS && x->funcs && (!x->last || lower->cuEventRecord(x->last, stream) != CUDA_SUCCESS))
        x->captured = true; /* its end is unknown: its functions stay */
    return r;
}

static CUresult q_upload(CUgraphExec exec, CUstream stream)
{
    return wrk_exec_stale(exec) ? CUDA_ERROR_CONTEXT_IS_DESTROYED : lower->cuGraphUpload(exec, stream);
}

static void take_out(struct exec *x)
{
    struct exec **p = bucket_of(x->object);

    while (*p != x)
        p = &(*p)->next;
    *p = x->next;
    count--;
    x->next = ended;
    ended = x;
    wrk_namer_clear(self, &x->names);
}

static CUresult q_destroy(CUgraphExec exec)
{
    struct exec *x = executable_find(exec);
    CUresult r = lower->cuGraphExecDestroy(exec);

    if (r == CUDA_SUCCESS && x)
        take_out(x);
    sweep_execs();
    return r;
}

/*
 * The event of the last launch ends with its context. Launches in other contexts could not record it
 * and count as captured. The wait's landing then tells that the launches are complete.
 */
static void forget_last(struct exec *x, const struct wrk_wait *end)
{
    x->captured |= x->ending && x->funcs; /* an earlier end is still under way, and only one is recorded */
    x->ending = end;
    x->last = NULL;
    x->last_ctx = NULL;
}

/* A context's executable graphs and events end with it. */
void wrk_exec_context_ends(CUcontext ctx, const struct wrk_wait *end)
{
    for (struct exec *x = ended; x; x = x->next) {
        if (x->last_ctx == ctx)
            forget_last(x, end);
    }
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (struct exec *x = known[i], *next; x; x = next) {
            next = x->next;
            if (x->last_ctx == ctx)
                forget_last(x, end);
            if (x->ctx == ctx)
                take_out(x);
        }
    }
    sweep_execs();
}

static void exec_context_gone(struct exec *x, const struct wrk_wait *end, bool known_end)
{
    if (x->ending != end)
        return;
    x->ending = NULL;
    x->captured |= !known_end && x->funcs;
}

void wrk_exec_context_gone(const struct wrk_wait *end, CUresult r)
{
    /* An error may be that of the context's work, or say that the context stays: what runs is unknown. */
    for (struct exec *x = ended; x; x = x->next)
        exec_context_gone(x, end, r == CUDA_SUCCESS);
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (struct exec *x = known[i]; x; x = x->next)
            exec_context_gone(x, end, r == CUDA_SUCCESS);
    }
    sweep_execs();
}

void wrk_exec_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below)
{
    self = w;
    lower = below;
    wrk_capture_over = wrk_capture_graph_over;
    if (lower->cuGraphLaunch)
        table->cuGraphLaunch = q_launch;
    if (lower->cuGraphUpload)
        table->cuGraphUpload = q_upload;
    if (lower->cuGraphExecDestroy)
        table->cuGraphExecDestroy = q_destroy;
}
