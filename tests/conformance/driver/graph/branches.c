// SPDX-License-Identifier: MIT
/*
 * Branches of graphs that wait for each other, without a limit: run in sequence they would never
 * end, and the case's time limit (CONFORM_LIMIT) ends the case.
 */
#include "graph/graph.h"

#include <sched.h>

#define BRANCHES 8u

static CUgraphNode add(CUgraph g, const CUgraphNode *after, unsigned n, const char *name, void **params)
{
    CUDA_KERNEL_NODE_PARAMS k = kernel(name, params);
    CUgraphNode node = NULL;

    k.gridDimX = k.blockDimX = 1;
    NEED(cuGraphAddKernelNode(&node, g, after, n, &k));
    return node;
}

/* Adds a node that waits until *flag is not zero, then sets *out = *flag. */
static CUgraphNode add_wait(CUgraph g, const CUgraphNode *after, CUdeviceptr flag, CUdeviceptr out)
{
    unsigned no_limit = 0;
    void *params[] = {&flag, &out, &no_limit};

    return add(g, after, after ? 1 : 0, "k_wait", params);
}

/* Adds a node that sets *p = v, or with a kernel *p += v. */
static CUgraphNode add_set(CUgraph g, const CUgraphNode *after, CUdeviceptr p, unsigned v)
{
    CUDA_MEMSET_NODE_PARAMS set = {.dst = p, .value = v, .elementSize = 4, .width = 1, .height = 1};
    CUgraphNode node = NULL;

    NEED(cuGraphAddMemsetNode(&node, g, after, after ? 1 : 0, &set, current()));
    return node;
}

static CUgraphNode add_plus(CUgraph g, const CUgraphNode *after, CUdeviceptr p, unsigned v)
{
    unsigned one = 1;
    void *params[] = {&p, &one, &v};

    return add(g, after, after ? 1 : 0, "k_add", params);
}

static uint32_t word(CUdeviceptr p)
{
    uint32_t v = 0;

    NEED(cuMemcpyDtoH(&v, p, 4));
    return v;
}

CASE(gbranch_kernels, CF_CTX)
{
    CUdeviceptr p = words(4);
    CUstream s = new_stream();
    CUgraph g = NULL;

    NEED(cuGraphCreate(&g, 0));
    CUgraphNode begin = add_set(g, NULL, p, 0);
    CUgraphNode wait = add_wait(g, &begin, p, p + 4);
    add_plus(g, &wait, p + 4, 10);
    CUgraphNode other = add_plus(g, &begin, p + 8, 1); /* a chain would run it later */
    add_set(g, &other, p, 5);
    OK("run", run(g, s, 3));
    cf_u64("waited", word(p + 4), 15);
    cf_u64("times", word(p + 8), 3);
    OK("destroy", cuGraphDestroy(g));
}

/* Each of many waits for the next. */
CASE(gbranch_many, CF_CTX)
{
    const unsigned n = cf_real() ? 2 : BRANCHES; /* a GPU runs only some branches at once */
    CUdeviceptr p = words(2 * BRANCHES + 2);
    CUstream s = new_stream();
    CUgraph g = NULL;
    uint32_t sum = 0;

    NEED(cuGraphCreate(&g, 0));
    for (unsigned i = 0; i < n; i++) {
        CUgraphNode wait = add_wait(g, NULL, p + 4 * (i + 1), p + 4 * (n + 1 + i));
        add_set(g, &wait, p + 4 * i, i + 1);
    }
    add_set(g, NULL, p + 4 * n, 100);
    OK("run", run(g, s, 1));
    for (unsigned i = 0; i < n; i++)
        sum += word(p + 4 * (n + 1 + i));
    cf_u64("sum", sum, 100 + n * (n + 1) / 2 - 1);
    OK("destroy", cuGraphDestroy(g));
}

CASE(gbranch_stream_memory, CF_CTX)
{
    CUdeviceptr p = words(4);
    CUstream s = new_stream();
    CUgraphNode wait = NULL;
    CUgraph g = NULL;
    CUstreamBatchMemOpParams op[2] = {{0}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {.ctx = current(), .count = 1, .paramArray = op};

    NEED(cuGraphCreate(&g, 0));
    op[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op[0].waitValue.address = p;
    op[0].waitValue.value = 7;
    op[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    NEED(cuGraphAddBatchMemOpNode(&wait, g, NULL, 0, &batch));
    add_set(g, &wait, p + 4, 1);
    CUgraphNode other = add_plus(g, NULL, p + 8, 1);
    op[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op[0].writeValue.address = p;
    op[0].writeValue.value = 7;
    op[0].writeValue.flags = 0;
    NEED(cuGraphAddBatchMemOpNode(&wait, g, &other, 1, &batch));
    OK("run", run(g, s, 1));
    cf_u64("after_wait", word(p + 4), 1);
    cf_u64("other", word(p + 8), 1);
    OK("destroy", cuGraphDestroy(g));
}

/* A child graph waits for another. */
CASE(gbranch_children, CF_CTX)
{
    CUgraph g = NULL, waits = NULL, sets = NULL;
    CUgraphNode first = NULL, second = NULL, both[2];
    CUdeviceptr p = words(4);
    CUstream s = new_stream();

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphCreate(&waits, 0));
    NEED(cuGraphCreate(&sets, 0));
    CUgraphNode inner = add_wait(waits, NULL, p, p + 4);
    add_plus(waits, &inner, p + 4, 1);
    inner = add_plus(sets, NULL, p + 8, 1);
    add_set(sets, &inner, p, 9);
    OK("add_first", cuGraphAddChildGraphNode(&first, g, NULL, 0, waits));
    OK("add_second", cuGraphAddChildGraphNode(&second, g, NULL, 0, sets));
    both[0] = first;
    both[1] = second;
    CUdeviceptr out = p + 12, flag = p + 4;
    unsigned once = 1;
    void *params[] = {&flag, &out, &once};
    add(g, both, 2, "k_wait", params); /* after both: copies the word */
    OK("run", run(g, s, 1));
    cf_u64("waited", word(p + 4), 10);
    cf_u64("joined", word(p + 12), 10);
    OK("destroy", cuGraphDestroy(g));
    OK("destroy_waits", cuGraphDestroy(waits));
    OK("destroy_sets", cuGraphDestroy(sets));
}

/* In the body of a conditional node. */
CASE(gbranch_body, CF_CTX)
{
    CUgraphConditionalHandle h = 0;
    CUdeviceptr p = words(4);
    CUstream s = new_stream();
    CUgraphNode node = NULL;
    CUgraph g = NULL;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphConditionalHandleCreate(&h, g, current(), 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams c = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    c.conditional.handle = h;
    c.conditional.type = CU_GRAPH_COND_TYPE_IF;
    c.conditional.size = 1;
    c.conditional.ctx = current();
    NEED(cuGraphAddNode(&node, g, NULL, NULL, 0, &c));
    CUgraph body = c.conditional.phGraph_out[0];
    CUgraphNode wait = add_wait(body, NULL, p, p + 4);
    add_plus(body, &wait, p + 4, 1);
    add_set(body, NULL, p, 3);
    add_plus(g, &node, p + 8, 1);
    OK("run", run(g, s, 2));
    cf_u64("waited", word(p + 4), 4);
    cf_u64("behind", word(p + 8), 2);
    OK("destroy", cuGraphDestroy(g));
}

/* Two captured streams. */
CASE(gbranch_capture, CF_CTX)
{
    CUstream s = new_stream(), t = new_stream();
    CUfunction wait = cf_func("k_wait");
    CUdeviceptr p = words(4);
    CUevent fork = NULL, join = NULL;
    unsigned no_limit = 0;
    CUdeviceptr flag = p, out = p + 4;
    void *params[] = {&flag, &out, &no_limit};
    CUgraph g = NULL;

    NEED(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    NEED(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    OK("begin", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK("fork", cuEventRecord(fork, s));
    OK("fork_wait", cuStreamWaitEvent(t, fork, 0));
    OK("wait", cf_launch(wait, 1, 1, 0, s, params));
    OK("set", cuMemsetD32Async(p, 6, 1, t));
    OK("join", cuEventRecord(join, t));
    OK("join_wait", cuStreamWaitEvent(s, join, 0));
    OK("copy", cuMemcpyDtoDAsync(p + 8, p + 4, 4, s));
    OK("end", cuStreamEndCapture(s, &g));
    OK("run", run(g, s, 2));
    cf_u64("copied", word(p + 8), 6);
    OK("destroy", cuGraphDestroy(g));
}

static void CUDA_CB take(void *word)
{
    while (!__atomic_load_n((uint32_t *)word, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void CUDA_CB give(void *word)
{
    __atomic_store_n((uint32_t *)word, 3, __ATOMIC_RELEASE);
}

/* A host function waits for a kernel, and a kernel for a host function. */
CASE(gbranch_host, CF_CTX)
{
    CUgraphNode first = NULL, second = NULL;
    CUdeviceptr p = words(4), pinned = 0;
    CUstream s = new_stream();
    uint32_t *word_of_host = NULL;
    CUgraph g = NULL;

    NEED(cuMemHostAlloc((void **)&word_of_host, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemHostGetDevicePointer(&pinned, word_of_host, 0));
    word_of_host[0] = word_of_host[1] = 0;
    CUDA_HOST_NODE_PARAMS taker = {take, word_of_host}, giver = {give, word_of_host + 1};
    NEED(cuGraphCreate(&g, 0));
    CUgraphNode wait = add_wait(g, NULL, pinned + 4, p + 4);
    OK("taker", cuGraphAddHostNode(&first, g, NULL, 0, &taker));
    OK("giver", cuGraphAddHostNode(&second, g, &first, 1, &giver));
    add_plus(g, &wait, p + 4, 1);
    add_plus(g, NULL, pinned, 1);
    OK("run", run(g, s, 1));
    cf_u64("waited", word(p + 4), 4);
    OK("destroy", cuGraphDestroy(g));
}

/* Two branches use allocations of the graph at the same time, each with a free node. */
CASE(gbranch_memory, CF_CTX)
{
    CUDA_MEM_ALLOC_NODE_PARAMS a[2] = {{.bytesize = 4096}, {.bytesize = 4096}};
    CUgraphNode alloc[2] = {NULL}, node[2], gone = NULL;
    CUdeviceptr p = words(4);
    CUstream s = new_stream();
    CUgraph g = NULL;
    cuuint64_t high = 0;

    NEED(cuGraphCreate(&g, 0));
    for (unsigned i = 0; i < 2; i++) {
        a[i].poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        a[i].poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        OK(i ? "alloc_1" : "alloc_0", cuGraphAddMemAllocNode(&alloc[i], g, NULL, 0, &a[i]));
    }
    node[0] = add_wait(g, &alloc[0], p, a[0].dptr);
    node[1] = add_set(g, &alloc[1], a[1].dptr, 4);
    CUgraphNode both[2] = {node[0], node[1]};
    add_set(g, &node[1], p, 8);
    unsigned once = 1;
    CUdeviceptr out = p + 4;
    void *params[] = {&a[0].dptr, &out, &once};
    both[0] = add(g, both, 2, "k_wait", params); /* out = *a[0] */
    OK("free_0", cuGraphAddMemFreeNode(&gone, g, both, 1, a[0].dptr));
    OK("free_1", cuGraphAddMemFreeNode(&gone, g, both, 1, a[1].dptr));
    NEED(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &high));
    OK("run", run(g, s, 2));
    cf_u64("waited", word(p + 4), 8);
    NEED(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &high));
    cf_true("high", high >= 8192);
    OK("destroy", cuGraphDestroy(g));
    NEED(cuCtxSynchronize());
    NEED(cuDeviceGraphMemTrim(0)); /* a driver keeps the memory of a graph until then */
    NEED(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &high));
    cf_u64("none_left", high, 0);
}

/* A graph without races has one result in any order of execution. */
CASE(gbranch_result, CF_CTX)
{
    CUdeviceptr p = words(4 * N);
    CUstream s = new_stream();
    unsigned n = N, iters = 2000;
    CUgraphNode mid[3];
    CUgraph g = NULL;
    uint32_t *got = malloc(2 * 4 * N);
    bool same = true;

    NEED(cuGraphCreate(&g, 0));
    CUgraphNode begin = add_set(g, NULL, p, 1);
    for (unsigned i = 0; i < 3; i++) {
        CUdeviceptr at = p + 4 * N * (i + 1);
        void *in[] = {&p, &at, &n}, *work[] = {&at, &n, &iters};
        CUDA_KERNEL_NODE_PARAMS k = kernel("k_copy", in), w = kernel("k_work", work);
        CUgraphNode node = NULL;

        NEED(cuGraphAddKernelNode(&node, g, &begin, 1, &k));
        NEED(cuGraphAddKernelNode(&mid[i], g, &node, 1, &w));
    }
    CUdeviceptr at = p + 4 * N;
    void *last[] = {&at, &p, &n};
    CUDA_KERNEL_NODE_PARAMS k = kernel("k_copy", last);
    NEED(cuGraphAddKernelNode(&begin, g, mid, 3, &k));
    for (unsigned i = 0; i < 20; i++) {
        NEED(cuMemsetD32(p, 3, N));
        NEED(run(g, s, 1));
        NEED(cuMemcpyDtoH(got + (i ? N : 0), p, 4 * N));
        same = same && (!i || !memcmp(got, got + N, 4 * N));
    }
    cf_true("same", same);
    free(got);
    OK("destroy", cuGraphDestroy(g));
}

/* A branch fails: another that would wait for ever ends, too. */
CASE(gbranch_fault, CF_CTX | CF_ALONE)
{
    CUdeviceptr p = words(4), bad = 0xdead0000;
    CUstream s = new_stream();
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    void *params[] = {&bad};

    NEED(cuGraphCreate(&g, 0));
    add_wait(g, NULL, p, p + 4);
    add(g, NULL, 0, "k_store", params);
    NEED(cuGraphInstantiate(&x, g, 0));
    NEED(cuGraphDestroy(g));
    OK("launch", cuGraphLaunch(x, s));
    RC("sync", cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    RC("again", cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
}
