// SPDX-License-Identifier: MIT
/* Graph nodes that signal external semaphores or wait for them; see stream/extsem.c. */
#include "stream/other_api.h"

#define N 1000u

static CUstream new_stream(void)
{
    CUstream s = NULL;
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static unsigned type_of(CUgraphNode n)
{
    CUgraphNodeType type = (CUgraphNodeType)99;

    return cuGraphNodeGetType(n, &type) == CUDA_SUCCESS ? (unsigned)type : 99;
}

/* A graph: wait for `in` to reach 1, a memset, signal `out` with 1. */
struct line {
    struct cf_sem in, out;
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait;
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal;
    CUDA_EXT_SEM_WAIT_NODE_PARAMS wait_node;
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS signal_node;
    CUgraph g;
    CUgraphNode waits, sets, signals;
    CUdeviceptr p;
};

static void line_params(struct line *l)
{
    cf_sem_counter(&l->in);
    cf_sem_counter(&l->out);
    l->wait.params.fence.value = l->signal.params.fence.value = 1;
    l->wait_node = (CUDA_EXT_SEM_WAIT_NODE_PARAMS){&l->in.cuda, &l->wait, 1};
    l->signal_node = (CUDA_EXT_SEM_SIGNAL_NODE_PARAMS){&l->out.cuda, &l->signal, 1};
}

static void line_new(struct line *l)
{
    CUDA_MEMSET_NODE_PARAMS set = {.elementSize = 4, .width = N, .height = 1, .value = 5};
    CUcontext ctx = NULL;

    memset(l, 0, sizeof(*l));
    line_params(l);
    NEED(cuCtxGetCurrent(&ctx));
    NEED(cuMemAlloc(&l->p, N * 4));
    NEED(cuMemsetD32(l->p, 0, N));
    set.dst = l->p;
    NEED(cuGraphCreate(&l->g, 0));
    OK("add_wait", cuGraphAddExternalSemaphoresWaitNode(&l->waits, l->g, NULL, 0, &l->wait_node));
    NEED(cuGraphAddMemsetNode(&l->sets, l->g, &l->waits, 1, &set, ctx));
    OK("add_signal", cuGraphAddExternalSemaphoresSignalNode(&l->signals, l->g, &l->sets, 1, &l->signal_node));
}

static void line_end(struct line *l)
{
    NEED(cuGraphDestroy(l->g));
    cf_sem_end(&l->in);
    cf_sem_end(&l->out);
    NEED(cuMemFree(l->p));
}

/* Launches; the graph blocks at its wait until the other API raises `in`. */
static bool runs(struct line *l, CUgraphExec x, CUstream s, uint64_t value)
{
    uint64_t before = cf_sem_value(&l->out);
    bool ok;

    NEED(cuGraphLaunch(x, s));
    ok = cuStreamQuery(s) == CUDA_ERROR_NOT_READY && cf_sem_value(&l->out) == before;
    cf_sem_set(&l->in, value);
    NEED(cuStreamSynchronize(s));
    return ok && cf_sem_value(&l->out) == value;
}

CASE(gextsem_nodes, CF_CTX | CF_UB)
{
    CUDA_EXT_SEM_WAIT_NODE_PARAMS w = {0};
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS g = {0};
    CUDA_HOST_NODE_PARAMS host = {0};
    CUgraphExec x = NULL, y = NULL;
    CUgraphNode found = NULL;
    CUgraph clone = NULL;
    CUstream s = new_stream();
    unsigned on = 7;
    struct line l;

    line_new(&l);
    cf_u64("wait_type", type_of(l.waits), CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
    cf_u64("signal_type", type_of(l.signals), CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL);
    OK("get_wait", cuGraphExternalSemaphoresWaitNodeGetParams(l.waits, &w));
    cf_true("get_wait_value",
            w.numExtSems == 1 && w.extSemArray[0] == l.in.cuda && w.paramsArray[0].params.fence.value == 1);
    OK("get_signal", cuGraphExternalSemaphoresSignalNodeGetParams(l.signals, &g));
    cf_true("get_signal_value",
            g.numExtSems == 1 && g.extSemArray[0] == l.out.cuda && g.paramsArray[0].params.fence.value == 1);
    RC("get_other", cuGraphExternalSemaphoresWaitNodeGetParams(l.signals, &w), CUDA_ERROR_INVALID_VALUE);
    RC("get_memset", cuGraphExternalSemaphoresSignalNodeGetParams(l.sets, &g), CUDA_ERROR_INVALID_VALUE);
    RC("get_null", cuGraphExternalSemaphoresSignalNodeGetParams(l.signals, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("get_host", cuGraphHostNodeGetParams(l.waits, &host), CUDA_ERROR_INVALID_VALUE);
    OK("instantiate", cuGraphInstantiate(&x, l.g, 0));
    RC("enable", cuGraphNodeSetEnabled(x, l.waits, 0), CUDA_ERROR_INVALID_VALUE);
    RC("enabled", cuGraphNodeGetEnabled(x, l.waits, &on), CUDA_ERROR_INVALID_VALUE);
    cf_true("runs", runs(&l, x, s, 1));
    OK("again", cuGraphLaunch(x, s)); /* the counter has this value already */
    OK("again_sync", cuStreamSynchronize(s));
    OK("clone", cuGraphClone(&clone, l.g));
    OK("find", cuGraphNodeFindInClone(&found, l.waits, clone));
    cf_u64("clone_type", type_of(found), CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
    l.wait.params.fence.value = 2;
    OK("set_clone", cuGraphExternalSemaphoresWaitNodeSetParams(found, &l.wait_node));
    OK("find_signal", cuGraphNodeFindInClone(&found, l.signals, clone));
    l.signal.params.fence.value = 2;
    OK("set_clone_signal", cuGraphExternalSemaphoresSignalNodeSetParams(found, &l.signal_node));
    OK("get_again", cuGraphExternalSemaphoresSignalNodeGetParams(found, &g));
    cf_u64("get_again_value", g.paramsArray[0].params.fence.value, 2);
    OK("get_first", cuGraphExternalSemaphoresSignalNodeGetParams(l.signals, &g));
    cf_u64("get_first_value", g.paramsArray[0].params.fence.value, 1);
    OK("instantiate_clone", cuGraphInstantiate(&y, clone, 0));
    cf_true("clone_runs", runs(&l, y, s, 2));
    OK("destroy_clone", cuGraphDestroy(clone));
    l.wait.params.fence.value = l.signal.params.fence.value = 3;
    OK("set_exec", cuGraphExecExternalSemaphoresWaitNodeSetParams(x, l.waits, &l.wait_node));
    OK("set_exec_signal", cuGraphExecExternalSemaphoresSignalNodeSetParams(x, l.signals, &l.signal_node));
    cf_true("exec_runs", runs(&l, x, s, 3));
    OK("node_is_old", cuGraphExternalSemaphoresWaitNodeGetParams(l.waits, &w));
    cf_u64("node_is_old_value", w.paramsArray[0].params.fence.value, 1);
    OK("destroy", cuGraphExecDestroy(x));
    OK("destroy_2", cuGraphExecDestroy(y));
    line_end(&l);
    NEED(cuStreamDestroy(s));
}

CASE(gextsem_refused, CF_CTX | CF_UB)
{
    CUexternalSemaphore two[2], none = NULL;
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params[2] = {{.params.fence.value = 1}};
    CUDA_EXT_SEM_WAIT_NODE_PARAMS w;
    CUgraphExec x = NULL;
    CUgraphNode n = NULL;
    struct line l;

    line_new(&l);
    w = l.wait_node;
    RC("null", cuGraphAddExternalSemaphoresWaitNode(&n, l.g, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("out_null", cuGraphAddExternalSemaphoresWaitNode(NULL, l.g, NULL, 0, &w), CUDA_ERROR_INVALID_VALUE);
    RC("graph_null", cuGraphAddExternalSemaphoresWaitNode(&n, NULL, NULL, 0, &w), CUDA_ERROR_INVALID_VALUE);
    w.numExtSems = 0;
    RC("no_semaphores", cuGraphAddExternalSemaphoresWaitNode(&n, l.g, NULL, 0, &w), CUDA_ERROR_INVALID_VALUE);
    w.numExtSems = 0xffffffffu;
    RC("many", cuGraphAddExternalSemaphoresWaitNode(&n, l.g, NULL, 0, &w), CUDA_ERROR_INVALID_VALUE);
    w = l.wait_node;
    w.extSemArray = &none;
    RC("none", cuGraphAddExternalSemaphoresWaitNode(&n, l.g, NULL, 0, &w), CUDA_ERROR_INVALID_VALUE);
    RC("set_none", cuGraphExternalSemaphoresWaitNodeSetParams(l.waits, &w), CUDA_ERROR_INVALID_VALUE);
    RC("set_other", cuGraphExternalSemaphoresWaitNodeSetParams(l.signals, &l.wait_node),
       CUDA_ERROR_INVALID_VALUE);
    RC("set_memset", cuGraphExternalSemaphoresWaitNodeSetParams(l.sets, &l.wait_node),
       CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphInstantiate(&x, l.g, 0));
    two[0] = l.in.cuda;
    two[1] = l.out.cuda;
    w = (CUDA_EXT_SEM_WAIT_NODE_PARAMS){two, params, 2};
    RC("exec_number", cuGraphExecExternalSemaphoresWaitNodeSetParams(x, l.waits, &w),
       CUDA_ERROR_INVALID_VALUE);
    RC("exec_other", cuGraphExecExternalSemaphoresWaitNodeSetParams(x, l.signals, &l.wait_node),
       CUDA_ERROR_INVALID_VALUE);
    RC("exec_null", cuGraphExecExternalSemaphoresWaitNodeSetParams(NULL, l.waits, &l.wait_node),
       CUDA_ERROR_INVALID_VALUE);
    OK("set_number", cuGraphExternalSemaphoresWaitNodeSetParams(l.waits, &w));
    OK("destroy", cuGraphExecDestroy(x));
    line_end(&l);
}

/* Calls that take a node of any type. */
CASE(gextsem_any, CF_CTX | CF_UB)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL};
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT};
    CUgraphNode waits = NULL, signals = NULL;
    CUstream s = new_stream();
    CUgraphExec x = NULL;
    struct line l = {0};

    line_params(&l);
    NEED(cuGraphCreate(&l.g, 0));
    q.extSemWait.extSemArray = &l.in.cuda;
    q.extSemWait.paramsArray = &l.wait;
    q.extSemWait.numExtSems = 1;
    p.extSemSignal.extSemArray = &l.out.cuda;
    p.extSemSignal.paramsArray = &l.signal;
    p.extSemSignal.numExtSems = 1;
    OK("add_wait", cuGraphAddNode(&waits, l.g, NULL, NULL, 0, &q));
    OK("add_signal", cuGraphAddNode(&signals, l.g, &waits, NULL, 1, &p));
    cf_u64("wait_type", type_of(waits), CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
    OK("instantiate", cuGraphInstantiate(&x, l.g, 0));
    cf_true("runs", runs(&l, x, s, 1));
    l.wait.params.fence.value = l.signal.params.fence.value = 2;
    OK("set_exec", cuGraphExecNodeSetParams(x, waits, &q));
    OK("set_exec_signal", cuGraphExecNodeSetParams(x, signals, &p));
    cf_true("exec_runs", runs(&l, x, s, 2));
    l.wait.params.fence.value = l.signal.params.fence.value = 3;
    OK("set", cuGraphNodeSetParams(waits, &q));
    OK("set_signal", cuGraphNodeSetParams(signals, &p));
    RC("set_other", cuGraphNodeSetParams(signals, &q), CUDA_ERROR_INVALID_VALUE);
    OK("destroy", cuGraphExecDestroy(x));
    OK("instantiate_2", cuGraphInstantiate(&x, l.g, 0));
    cf_true("set_runs", runs(&l, x, s, 3));
    OK("destroy_2", cuGraphExecDestroy(x));
    OK("destroy_graph", cuGraphDestroy(l.g));
    cf_sem_end(&l.in);
    cf_sem_end(&l.out);
    NEED(cuStreamDestroy(s));
}

CASE(gextsem_capture, CF_CTX | CF_UB)
{
    CUDA_EXT_SEM_WAIT_NODE_PARAMS w = {0};
    CUgraphNode nodes[4] = {0}, child = NULL;
    CUgraph outer = NULL, inner = NULL, other = NULL;
    CUstream s = new_stream();
    CUgraphExec x = NULL;
    struct line l = {0};
    size_t n = 4;

    line_params(&l);
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK("wait", cf_sem_wait(&l.in, 1, s));
    OK("signal", cf_sem_signal(&l.out, 1, s));
    OK("end", cuStreamEndCapture(s, &l.g));
    OK("nodes", cuGraphGetNodes(l.g, nodes, &n));
    cf_u64("number", n, 2);
    cf_true("types", (type_of(nodes[0]) == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT &&
                      type_of(nodes[1]) == CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL) ||
                         (type_of(nodes[1]) == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT &&
                          type_of(nodes[0]) == CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL));
    n = 1;
    OK("roots", cuGraphGetRootNodes(l.g, nodes, &n));
    OK("get", cuGraphExternalSemaphoresWaitNodeGetParams(nodes[0], &w));
    cf_true("get_value",
            w.numExtSems == 1 && w.extSemArray[0] == l.in.cuda && w.paramsArray[0].params.fence.value == 1);
    cf_u64("nothing_yet", cf_sem_value(&l.out), 0);
    OK("instantiate", cuGraphInstantiate(&x, l.g, 0));
    cf_true("runs", runs(&l, x, s, 1));
    OK("destroy", cuGraphExecDestroy(x));
    NEED(cuGraphCreate(&outer, 0));
    OK("child", cuGraphAddChildGraphNode(&child, outer, NULL, 0, l.g));
    OK("child_graph", cuGraphChildGraphNodeGetGraph(child, &inner));
    n = 1;
    OK("child_roots", cuGraphGetRootNodes(inner, nodes, &n));
    cf_u64("child_type", type_of(nodes[0]), CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
    OK("destroy_graph", cuGraphDestroy(l.g));
    l.wait.params.fence.value = 2;
    OK("child_set", cuGraphExternalSemaphoresWaitNodeSetParams(nodes[0], &l.wait_node));
    OK("instantiate_child", cuGraphInstantiate(&x, outer, 0));
    NEED(cuGraphCreate(&other, 0));
    NEED(cuGraphAddExternalSemaphoresSignalNode(nodes, other, NULL, 0, &l.signal_node));
    NEED(cuGraphAddExternalSemaphoresSignalNode(nodes, other, nodes, 1, &l.signal_node));
    RC("child_other", cuGraphExecChildGraphNodeSetParams(x, child, other), CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphDestroy(other));
    NEED(cuGraphLaunch(x, s));
    RC("child_waits", cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    cf_sem_set(&l.in, 2);
    OK("child_runs", cuStreamSynchronize(s));
    OK("destroy_2", cuGraphExecDestroy(x));
    OK("destroy_outer", cuGraphDestroy(outer));
    cf_sem_end(&l.in);
    cf_sem_end(&l.out);
    NEED(cuStreamDestroy(s));
}

static void CUDA_CB nothing(void *unused)
{
    (void)unused;
}

CASE(gextsem_update, CF_CTX | CF_UB)
{
    CUDA_HOST_NODE_PARAMS host = {.fn = nothing};
    CUgraphExecUpdateResultInfo info = {0};
    CUstream s = new_stream();
    CUgraphExec x = NULL;
    CUgraph g = NULL;
    CUgraphNode n = NULL;
    struct line l = {0};

    line_params(&l);
    NEED(cuGraphCreate(&l.g, 0));
    NEED(cuGraphAddExternalSemaphoresWaitNode(&l.waits, l.g, NULL, 0, &l.wait_node));
    NEED(cuGraphAddExternalSemaphoresSignalNode(&l.signals, l.g, &l.waits, 1, &l.signal_node));
    NEED(cuGraphInstantiate(&x, l.g, 0));
    cf_true("runs", runs(&l, x, s, 1));
    l.wait.params.fence.value = l.signal.params.fence.value = 2;
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddExternalSemaphoresWaitNode(&n, g, NULL, 0, &l.wait_node));
    NEED(cuGraphAddExternalSemaphoresSignalNode(&n, g, &n, 1, &l.signal_node));
    OK("update", cuGraphExecUpdate(x, g, &info));
    cf_u64("update_result", info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    NEED(cuGraphDestroy(g));
    cf_true("update_runs", runs(&l, x, s, 2));
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddExternalSemaphoresWaitNode(&n, g, NULL, 0, &l.wait_node));
    NEED(cuGraphAddHostNode(&n, g, &n, 1, &host));
    RC("host", cuGraphExecUpdate(x, g, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    cf_u64("host_result", info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    NEED(cuGraphDestroy(g));
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddExternalSemaphoresWaitNode(&n, g, NULL, 0, &l.wait_node));
    NEED(cuGraphAddExternalSemaphoresWaitNode(&n, g, &n, 1, &l.wait_node));
    RC("wait", cuGraphExecUpdate(x, g, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    cf_u64("wait_result", info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    NEED(cuGraphDestroy(g));
    OK("destroy", cuGraphExecDestroy(x));
    NEED(cuGraphDestroy(l.g));
    cf_sem_end(&l.in);
    cf_sem_end(&l.out);
    NEED(cuStreamDestroy(s));
}
