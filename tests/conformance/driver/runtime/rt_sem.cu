// SPDX-License-Identifier: MIT
// External semaphores through NVIDIA's own libcudart, as its samples use them: an eventfd stands for another
// API's semaphore. Only through us: a physical GPU's own driver knows no eventfds.
#include <cstdio>
#include <cuda_runtime.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static unsigned passed, failed;

static void rc(const char *check, cudaError_t got, cudaError_t want = cudaSuccess)
{
    got == want ? passed++ : failed++;
    printf(got == want ? "rt_sem.%s %s\n" : "rt_sem.%s %s FAIL want %s\n", check,
           cudaGetErrorName(got), cudaGetErrorName(want));
    fflush(stdout);
}
static void yes(const char *check, bool ok)
{
    ok ? passed++ : failed++;
    printf("rt_sem.%s %s\n", check, ok ? "yes" : "no FAIL want yes");
    fflush(stdout);
}

__global__ void fill(int *p, int v) { p[threadIdx.x] = v; }

static int other[2]; // the other API's ends

static cudaExternalSemaphore_t import(const char *check, int which)
{
    cudaExternalSemaphoreHandleDesc d = {};
    cudaExternalSemaphore_t s = nullptr;

    other[which] = eventfd(0, EFD_NONBLOCK);
    d.type = cudaExternalSemaphoreHandleTypeOpaqueFd;
    d.handle.fd = dup(other[which]);
    rc(check, cudaImportExternalSemaphore(&s, &d));
    return s;
}
static bool is_set(int which)
{
    pollfd p = {other[which], POLLIN, 0};
    return poll(&p, 1, 0) == 1;
}

int main()
{
    cudaExternalSemaphoreWaitParams wait = {};
    cudaExternalSemaphoreSignalParams signal = {};
    cudaGraphNodeParams node = {};
    cudaGraphNode_t waits, signals;
    cudaGraphNodeType type;
    cudaGraphExec_t x;
    cudaStream_t s;
    cudaGraph_t g;
    int *p, back[32] = {};

    rc("malloc", cudaMalloc(&p, sizeof(back)));
    rc("stream", cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    cudaExternalSemaphore_t in = import("import", 0), out = import("import_2", 1);
    rc("wait", cudaWaitExternalSemaphoresAsync(&in, &wait, 1, s));
    fill<<<1, 32, 0, s>>>(p, 5);
    rc("signal", cudaSignalExternalSemaphoresAsync(&out, &signal, 1, s));
    rc("pending", cudaStreamQuery(s), cudaErrorNotReady);
    yes("not_yet", !is_set(1));
    eventfd_write(other[0], 1);
    rc("sync", cudaStreamSynchronize(s));
    yes("signalled", is_set(1) && !is_set(0));
    rc("copy", cudaMemcpy(back, p, sizeof(back), cudaMemcpyDeviceToHost));
    yes("filled", back[0] == 5 && back[31] == 5);
    rc("graph", cudaGraphCreate(&g, 0));
    node.type = cudaGraphNodeTypeExtSemaphoreWait;
    node.extSemWait.extSemArray = &in;
    node.extSemWait.paramsArray = &wait;
    node.extSemWait.numExtSems = 1;
#if CUDART_VERSION >= 13000
    rc("add_wait", cudaGraphAddNode(&waits, g, nullptr, nullptr, 0, &node));
#else
    rc("add_wait", cudaGraphAddNode(&waits, g, nullptr, 0, &node));
#endif
    cudaExternalSemaphoreSignalNodeParams sp = {&out, &signal, 1};
    rc("add_signal", cudaGraphAddExternalSemaphoresSignalNode(&signals, g, &waits, 1, &sp));
    rc("type", cudaGraphNodeGetType(signals, &type));
    yes("type_value", type == cudaGraphNodeTypeExtSemaphoreSignal);
    rc("instantiate", cudaGraphInstantiate(&x, g, 0));
    eventfd_t n;
    eventfd_read(other[1], &n);
    rc("launch", cudaGraphLaunch(x, s));
    rc("graph_pending", cudaStreamQuery(s), cudaErrorNotReady);
    eventfd_write(other[0], 1);
    rc("graph_sync", cudaStreamSynchronize(s));
    yes("graph_signalled", is_set(1));
    rc("exec_end", cudaGraphExecDestroy(x));
    rc("graph_end", cudaGraphDestroy(g));
    rc("destroy", cudaDestroyExternalSemaphore(in));
    rc("destroy_2", cudaDestroyExternalSemaphore(out));
    rc("destroy_again", cudaDestroyExternalSemaphore(out), cudaErrorInvalidResourceHandle);
    printf("rt_sem: %u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
