// SPDX-License-Identifier: MIT
/* Nodes of semaphores: what each addition refuses, and that it leaves the rest as
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
