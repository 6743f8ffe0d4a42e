// SPDX-License-Identifier: MIT
/* Nodes of semaphores and of memory operations: what each addition refuses, and that it leaves the rest as
 * it was. */
#include "graph/graph.h"
#include "stream/other_api.h"

/* A node of a graph that no other graph's nodes can depend on. */
static CUgraphNode foreign(CUgraph *other)
{
    CUgraphNode n = NULL;

    NEED(cuGraphCreate(other, 0));
    NEED(cuGraphAddEmptyNode(&n, *other, NULL, 0));
    return n;
}

CASE(gnode_semaphore, CF_CTX | CF_UB)
{
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = {.params.fence.value = 1};
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {.params.fence.value = 1};
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS s = {.paramsArray = &signal, .numExtSems = 1}, bad, back;
    CUDA_EXT_SEM_WAIT_NODE_PARAMS w = {.paramsArray = &wait, .numExtSems = 1};
    CUgraphNode signals = UNTOUCHED, waits = UNTOUCHED, out = UNTOUCHED, child = UNTOUCHED;
    CUexternalSemaphore none = NULL;
    CUgraph g = NULL, other = NULL, outer = NULL;
    CUstream stream = new_stream();
    struct cf_sem sem;

    cf_sem_counter(&sem);
    s.extSemArray = w.extSemArray = &sem.cuda;
    CUgraphNode strange = foreign(&other);
    NEED(cuGraphCreate(&g, 0));
    refused("null", cuGraphAddExternalSemaphoresSignalNode(&out, g, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE,
            &out);
    refused("no_graph", cuGraphAddExternalSemaphoresWaitNode(&out, NULL, NULL, 0, &w),
            CUDA_ERROR_INVALID_VALUE, &out);
    refused("no_deps", cuGraphAddExternalSemaphoresWaitNode(&out, g, NULL, 1, &w), CUDA_ERROR_INVALID_VALUE,
            &out);
    refused("strange", cuGraphAddExternalSemaphoresWaitNode(&out, g, &strange, 1, &w),
            CUDA_ERROR_INVALID_VALUE, &out);
    bad = s;
    bad.numExtSems = 0;
    refused("empty", cuGraphAddExternalSemaphoresSignalNode(&out, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE,
            &out);
    bad = s;
    bad.extSemArray = &none;
    refused("none", cuGraphAddExternalSemaphoresSignalNode(&out, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE,
            &out);
    signal.flags = 1;
    refused("flags", cuGraphAddExternalSemaphoresSignalNode(&out, g, NULL, 0, &s), CUDA_ERROR_INVALID_VALUE,
            &out);
    signal.flags = 0;
    cf_u64("none_added", nodes_of(g), 0);
    OK("signal", cuGraphAddExternalSemaphoresSignalNode(&signals, g, NULL, 0, &s));
    OK("wait", cuGraphAddExternalSemaphoresWaitNode(&waits, g, &signals, 1, &w));
    /* The parameters are read by the call. */
    signal.params.fence.value = wait.params.fence.value = 99;
    edges_and_end(g, signals);
    edges_and_end(g, waits);
    OK("get", cuGraphExternalSemaphoresSignalNodeGetParams(signals, &back));
    cf_true("get_right", back.numExtSems == 1 && back.extSemArray[0] == sem.cuda &&
                             back.paramsArray[0].params.fence.value == 1);
    OK("again", cuGraphAddExternalSemaphoresWaitNode(&out, g, &waits, 1, &w));
    OK("end", cuGraphDestroyNode(out));
    NEED(cuGraphCreate(&outer, 0));
    OK("child", cuGraphAddChildGraphNode(&child, outer, NULL, 0, g));
    OK("run", run(g, stream, 1));
    cf_u64("value", cf_sem_value(&sem), 1);
    OK("destroy", cuGraphDestroy(g));
    OK("run_child", run(outer, stream, 2));
    cf_u64("value_left", cf_sem_value(&sem), 1);
    NEED(cuGraphDestroy(outer));
    NEED(cuGraphDestroy(other));
    cf_sem_end(&sem);
    NEED(cuStreamDestroy(stream));
}

static CUstreamBatchMemOpParams write32(CUdeviceptr p, uint32_t value)
{
    return (CUstreamBatchMemOpParams){
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = p, .value = value}};
}

static CUstreamBatchMemOpParams wait32(CUdeviceptr p, uint32_t value, unsigned flags)
{
    return (CUstreamBatchMemOpParams){
        .waitValue = {
            .operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = p, .value = value, .flags = flags}};
}

CASE(gnode_memop, CF_CTX | CF_UB)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N), managed = 0;
    uint32_t *pinned = NULL, word[4] = {0};
    CUstreamBatchMemOpParams list[3], one;
    CUDA_BATCH_MEM_OP_NODE_PARAMS b = {.ctx = current(), .count = 1, .paramArray = &one}, bad, back;
    CUgraphNode n[5] = {UNTOUCHED, UNTOUCHED, UNTOUCHED, UNTOUCHED, UNTOUCHED}, out = UNTOUCHED, child;
    CUgraph g = NULL, other = NULL, outer = NULL;
    CUgraphNode strange = foreign(&other);

    NEED(cuMemHostAlloc((void **)&pinned, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    memset(pinned, 0, 64);
    NEED(cuGraphCreate(&g, 0));
    one = write32(p, 5);
    refused("null", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE, &out);
    refused("no_graph", cuGraphAddBatchMemOpNode(&out, NULL, NULL, 0, &b), CUDA_ERROR_INVALID_VALUE, &out);
    refused("no_deps", cuGraphAddBatchMemOpNode(&out, g, NULL, 1, &b), CUDA_ERROR_INVALID_VALUE, &out);
    refused("strange", cuGraphAddBatchMemOpNode(&out, g, &strange, 1, &b), CUDA_ERROR_INVALID_VALUE, &out);
    bad = b;
    bad.ctx = NULL;
    refused("no_context", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &bad), CUDA_ERROR_INVALID_CONTEXT, &out);
    bad = b;
    bad.flags = 1;
    refused("flags", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE, &out);
    bad = b;
    bad.count = 257;
    refused("many", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE, &out);
    bad = b;
    bad.paramArray = NULL;
    refused("no_list", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE, &out);
    one = write32(p + 2, 5);
    refused("between", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &b), CUDA_ERROR_INVALID_VALUE, &out);
    one = write32(p + N * 4, 5);
    refused("behind", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &b), CUDA_ERROR_INVALID_VALUE, &out);
    one = write32(p + N * 4 - 4, 5);
    one.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    refused("half", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &b), CUDA_ERROR_INVALID_VALUE, &out);
    one = wait32(0, 5, 0);
    refused("nowhere", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &b), CUDA_ERROR_INVALID_VALUE, &out);
    one = wait32(p, 5, 8);
    refused("wait_flags", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &b), CUDA_ERROR_INVALID_VALUE, &out);
    one = wait32(p, 5, 0);
    one.operation = 77;
    refused("type", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &b), CUDA_ERROR_INVALID_VALUE, &out);
    cf_u64("none_added", nodes_of(g), 0);
    /* The device, then the host, then managed memory; the list is read by the call. */
    one = write32(p, 5);
    OK("write", cuGraphAddBatchMemOpNode(&n[0], g, NULL, 0, &b));
    one = write32(p, 99);
    list[0] = wait32(p, 5, CU_STREAM_WAIT_VALUE_EQ);
    list[1] = write32((uintptr_t)pinned, 6);
    list[2] = wait32((uintptr_t)pinned, 6, CU_STREAM_WAIT_VALUE_EQ);
    b.paramArray = list;
    b.count = 3;
    OK("three", cuGraphAddBatchMemOpNode(&n[1], g, &n[0], 1, &b));
    b.paramArray = &one;
    b.count = 1;
    one = write32(managed, 7);
    OK("managed", cuGraphAddBatchMemOpNode(&n[2], g, &n[1], 1, &b));
    one = wait32(p, ~5u, CU_STREAM_WAIT_VALUE_NOR);
    OK("nor", cuGraphAddBatchMemOpNode(&n[3], g, &n[2], 1, &b));
    one = (CUstreamBatchMemOpParams){.operation = CU_STREAM_MEM_OP_BARRIER};
    OK("barrier", cuGraphAddBatchMemOpNode(&n[4], g, &n[3], 1, &b));
    edges_and_end(g, n[0]);
    edges_and_end(g, n[1]);
    OK("get", cuGraphBatchMemOpNodeGetParams(n[1], &back));
    cf_true("get_right", back.count == 3 && back.paramArray[1].writeValue.value == 6 &&
                             back.paramArray[2].waitValue.address == (uintptr_t)pinned);
    one = write32(p + 4, 8);
    OK("extra", cuGraphAddBatchMemOpNode(&out, g, &n[0], 1, &b));
    OK("end", cuGraphDestroyNode(out));
    OK("end_nor", cuGraphDestroyNode(n[3]));
    NEED(cuGraphCreate(&outer, 0));
    OK("child", cuGraphAddChildGraphNode(&child, outer, NULL, 0, g));
    OK("set", cuGraphBatchMemOpNodeSetParams(n[4], &b));
    OK("run_child", run(outer, s, 1));
    NEED(cuMemcpyDtoH(word, p, sizeof(word)));
    cf_true("child_right", word[0] == 5 && word[1] == 0 && pinned[0] == 6 && *(uint32_t *)managed == 7);
    OK("run", run(g, s, 2));
    NEED(cuMemcpyDtoH(word, p, sizeof(word)));
    cf_true("right", word[0] == 5 && word[1] == 8);
    NEED(cuGraphDestroy(outer));
    NEED(cuGraphDestroy(g));
    NEED(cuGraphDestroy(other));
    NEED(cuMemFree(managed));
    NEED(cuMemFreeHost(pinned));
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}
