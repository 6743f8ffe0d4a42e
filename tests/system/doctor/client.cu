/* SPDX-License-Identifier: MIT */
/*
 * A program with the runtime API that ends well, or badly in the way that its argument names.
 *   (none)    a kernel, its result
 *   oom       more memory than any GPU has; the program gives up
 *   fallback  the same; the program goes on with less
 *   refused   a call that is not served (a resource of a graphics API)
 *   graph     an empty graph, then a kernel, its result
 *   kernel    a kernel that writes where no memory is
 *   pinned    9 MiB of pinned memory, copied from
 *   mapped    9 MiB of mapped pinned memory
 *   streams   5000 streams, then a wait for all; the program gives up
 *   events    the same with events
 *   printf    a buffer of 32 MiB for printf
 *   nothing   no call of CUDA at all
 *   fails     a kernel, its result, and exit status 7
 *   waits     a kernel, "ready", and no end for a minute: for others to look at
 */
#include <cstdio>
#include <cstring>

#include <cuda_runtime.h>
#include <unistd.h>

__global__ void answer(int *p)
{
    *p = 42;
}

static int end_with(const char *what, cudaError_t e)
{
    if (e != cudaSuccess)
        fprintf(stderr, "%s: %d %s\n", what, (int)e, cudaGetErrorString(e));
    return e != cudaSuccess;
}

/* The kernel writes to `where`; what is at `result` is copied back. */
static int compute(int *where, const int *result)
{
    int value = 0;

    answer<<<1, 1>>>(where);
    if (end_with("launch", cudaGetLastError()) ||
        end_with("copy", cudaMemcpy(&value, result, sizeof(value), cudaMemcpyDeviceToHost)))
        return 1;
    printf("%d\n", value);
    return value != 42;
}

/* The calls return before the worker has made the objects: what it refuses is told by a later one. */
static int exhaust(bool streams)
{
    cudaError_t e = cudaSuccess;

    for (int i = 0; i < 5000 && e == cudaSuccess; i++) {
        cudaStream_t stream;
        cudaEvent_t event;

        e = streams ? cudaStreamCreate(&stream) : cudaEventCreate(&event);
    }
    if (e == cudaSuccess)
        e = cudaDeviceSynchronize();
    return end_with(streams ? "cudaStreamCreate" : "cudaEventCreate", e);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    int n = 0, *p = NULL;

    if (strcmp(way, "nothing") == 0)
        return 1;
    if (end_with("cudaGetDeviceCount", cudaGetDeviceCount(&n)))
        return 1;
    if (n == 0) {
        fprintf(stderr, "found 0 CUDA devices\n");
        return 1;
    }
    if (strcmp(way, "oom") == 0 || strcmp(way, "fallback") == 0) {
        cudaError_t e = cudaMalloc(&p, (size_t)1 << 46);

        if (strcmp(way, "oom") == 0)
            return end_with("cudaMalloc", e);
        cudaGetLastError();
    }
    if (end_with("cudaMalloc", cudaMalloc(&p, sizeof(*p))))
        return 1;
    if (strcmp(way, "streams") == 0 || strcmp(way, "events") == 0)
        return exhaust(way[0] == 's');
    if (strcmp(way, "printf") == 0 &&
        end_with("cudaDeviceSetLimit", cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 32 << 20)))
        return 1;
    if (strcmp(way, "refused") == 0)
        return end_with("cudaGraphicsUnregisterResource",
                        cudaGraphicsUnregisterResource((cudaGraphicsResource_t)&n));
    if (strcmp(way, "graph") == 0) {
        cudaGraph_t g;

        if (end_with("cudaGraphCreate", cudaGraphCreate(&g, 0)) ||
            end_with("cudaGraphDestroy", cudaGraphDestroy(g)))
            return 1;
    }
    if (strcmp(way, "pinned") == 0 || strcmp(way, "mapped") == 0) {
        const size_t size = 9 << 20;
        void *host, *device;

        if (end_with("cudaHostAlloc", cudaHostAlloc(&host, size, way[0] == 'm' ? cudaHostAllocMapped : 0)) ||
            end_with("cudaMalloc", cudaMalloc(&device, size)) ||
            end_with("cudaMemcpy", cudaMemcpy(device, host, size, cudaMemcpyHostToDevice)))
            return 1;
    }
    if (strcmp(way, "kernel") == 0)
        return compute((int *)16, p);
    n = compute(p, p);
    if (strcmp(way, "waits") == 0) {
        printf("ready\n");
        fflush(stdout);
        sleep(60);
    }
    return strcmp(way, "fails") == 0 ? 7 : n;
}
