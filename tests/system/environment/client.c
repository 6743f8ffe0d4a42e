/* SPDX-License-Identifier: MIT */
/*
 * client QUESTION...: effects of the environment on libcuda, a line per question; compared by run.sh.
 *   devices   cuInit's result; for each device its capability, and the number of blocks per SM that
 *             work in its context reaches
 *   uuids     the UUIDs of all devices, in nvidia-smi's form
 *   hidden    whether an ordinal hidden from the application can be used (CUresults)
 *   blocking  a launch's result and whether the stream is idle after it; the result of a faulting
 *             launch
 *   loading   cuModuleGetLoadingMode
 *   pinned    64 KiB and 9 MiB of pinned memory, allocated and registered: results, copies,
 *             attributes
 *   tokens    ROUNDS times, as a language model decodes: small inputs with a wait for each, a
 *             kernel, its result
 *   ggml-tokens  the same with the inputs in the thread's default stream, as in ggml
 *   steps     ROUNDS times, as a training step: copies a batch, runs kernels, reads a value back
 *   fills     ROUNDS times: zeroes results in both ways, waits, increments and reads them back
 *   captures  captures graphs ROUNDS times
 *   others    ROUNDS times: waits for inputs, then uses them in another stream
 *   unified   whether pinned memory has the same address on host and device, far from the program's
 *             mappings
 *   images    the result of a kernel in an image of 1 MiB
 *   version   cuDriverGetVersion before cuInit, in a child forked before cuInit, and after cuInit
 */
#include <cuda.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char spin[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                           ".visible .entry spin(.param .u64 to, .param .u32 n)\n{\n"
                           "  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
                           "  ld.param.u64 %d0, [to]; ld.param.u32 %r0, [n];\n"
                           "  mov.u32 %r1, 0;\n"
                           "again:\n"
                           "  add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, %r0; @%p bra again;\n"
                           "  cvta.to.global.u64 %d1, %d0; st.global.u32 [%d1], %r1;\n"
                           "  ret;\n}\n";

static const char add[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                          ".visible .entry add(.param .u64 to, .param .u64 from)\n{\n"
                          "  .reg .b32 %r<3>; .reg .b64 %d<3>;\n"
                          "  ld.param.u64 %d0, [to]; ld.param.u64 %d1, [from];\n"
                          "  ld.global.u32 %r0, [%d0]; ld.global.u32 %r1, [%d1];\n"
                          "  add.u32 %r2, %r0, %r1; st.global.u32 [%d0], %r2;\n"
                          "  ret;\n}\n";

/* Ends the program with the name of the step if it fails. */
static void need(const char *what, CUresult r)
{
    if (r == CUDA_SUCCESS)
        return;
    printf("FAIL %s %d\n", what, (int)r);
    exit(1);
}

/* Blocks of 32 threads per SM: the worker's answer for the device of the current context. */
static int blocks(void)
{
    CUmodule module;
    CUfunction f;
    int n = 0;

    need("cuModuleLoadData", cuModuleLoadData(&module, spin));
    need("cuModuleGetFunction", cuModuleGetFunction(&f, module, "spin"));
    need("cuOccupancyMaxActiveBlocksPerMultiprocessor",
         cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 32, 0));
    need("cuModuleUnload", cuModuleUnload(module));
    return n;
}

static void use(CUdevice device)
{
    CUcontext context;

    need("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
    need("cuCtxSetCurrent", cuCtxSetCurrent(context));
}

static void devices(void)
{
    CUresult r = cuInit(0);
    int n = 0, major, minor;

    printf("init %d:", (int)r);
    if (r == CUDA_SUCCESS)
        need("cuDeviceGetCount", cuDeviceGetCount(&n));
    for (int i = 0; i < n; i++) {
        CUdevice now = -1;

        use(i);
        need("cuDeviceGetAttribute",
             cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, i));
        need("cuDeviceGetAttribute",
             cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, i));
        need("cuCtxGetDevice", cuCtxGetDevice(&now));
        printf(" %d.%d:%d%s", major, minor, blocks(), now == i ? "" : " (another ordinal)");
    }
    printf("\n");
}

static void uuids(void)
{
    CUuuid u;
    int n = 0;

    need("cuInit", cuInit(0));
    need("cuDeviceGetCount", cuDeviceGetCount(&n));
    for (int i = 0; i < n; i++) {
        need("cuDeviceGetUuid", cuDeviceGetUuid(&u, i));
        printf("GPU-");
        for (int k = 0; k < 16; k++)
            printf("%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", (unsigned char)u.bytes[k]);
        printf("\n");
    }
}

/* Ordinals beyond the visible ones must not reach hidden devices. */
static void hidden(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemGenericAllocationHandle handle;
    CUmemAccessDesc access = {.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
                              .location.id = 1,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemoryPool pool;
    int peer = 0;
    size_t size;

    need("cuInit", cuInit(0));
    use(0);
    need("granularity", cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    need("cuMemCreate", cuMemCreate(&handle, size, &prop, 0));
    need("properties", cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    need("cuMemRelease", cuMemRelease(handle));
    need("pool", cuDeviceGetDefaultMemPool(&pool, 0));
    printf("own %d, ", prop.location.id);
    prop.location.id = 1;
    printf("create %d, pool access %d, peer %d\n", cuMemCreate(&handle, size, &prop, 0) != CUDA_SUCCESS,
           cuMemPoolSetAccess(pool, &access, 1) != CUDA_SUCCESS,
           cuDeviceCanAccessPeer(&peer, 0, 1) != CUDA_SUCCESS);
}

static void blocking(void)
{
    CUmodule module;
    CUfunction f;
    CUdeviceptr p, bad = 16;
    CUstream s;
    unsigned n = 2000000;
    void *good_args[] = {&p, &n}, *bad_args[] = {&bad, &n};
    CUresult launched, state;

    need("cuInit", cuInit(0));
    use(0);
    need("cuModuleLoadData", cuModuleLoadData(&module, spin));
    need("cuModuleGetFunction", cuModuleGetFunction(&f, module, "spin"));
    need("cuMemAlloc", cuMemAlloc(&p, 4));
    need("cuStreamCreate", cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    launched = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, good_args, NULL);
    state = cuStreamQuery(s);
    printf("launch %d query %d, ", (int)launched, (int)state);
    need("cuStreamSynchronize", cuStreamSynchronize(s));
    need("cuStreamBeginCapture", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    printf("captured %d, ", (int)cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, good_args, NULL));
    need("cuStreamEndCapture", cuStreamEndCapture(s, &(CUgraph){NULL}));
    launched = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, bad_args, NULL);
    printf("fault %d, then %d\n", (int)launched, (int)cuStreamSynchronize(s));
}

static void version(void)
{
    int before = 0, after = 0, status = 0;
    pid_t child;

    need("cuDriverGetVersion", cuDriverGetVersion(&before));
    fflush(stdout);
    child = fork();
    if (child == 0) {
        int n = 0, seen = 0;

        _exit(cuInit(0) != 0                                     ? 1
              : cuDeviceGetCount(&n) != 0 || n < 1               ? 2
              : cuDriverGetVersion(&seen) != 0 || seen != before ? 3
                                                                 : 0);
    }
    waitpid(child, &status, 0);
    need("cuInit", cuInit(0));
    need("cuDriverGetVersion", cuDriverGetVersion(&after));
    printf("before %d child %d after %d\n", before, status, after);
}

static void loading(void)
{
    CUmoduleLoadingMode mode = 0;

    need("cuInit", cuInit(0));
    need("cuModuleGetLoadingMode", cuModuleGetLoadingMode(&mode));
    printf("loading %d\n", (int)mode);
}

#define LARGE (9u << 20)

static unsigned char value(size_t i, int round)
{
    return (unsigned char)(i * 7 + i / 251 + (size_t)round);
}

/*
 * Checks that copies to the device and back, on a stream and in a graph, preserve the contents of
 * `host`.
 */
static const char *copies(unsigned char *host, size_t n)
{
    CUdeviceptr p;
    CUstream s;
    CUgraph graph;
    CUgraphExec exec;
    size_t graph_n = 65536; /* a graph keeps its own pinned memory for its copies */
    int right = 1;

    need("cuMemAlloc", cuMemAlloc(&p, n));
    need("cuStreamCreate", cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < n; i++)
            host[i] = value(i, round);
        if (round == 1)
            need("cuStreamBeginCapture", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        need("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync(p, host, round == 1 ? graph_n : n, s));
        need("cuMemcpyDtoHAsync", cuMemcpyDtoHAsync(host, p, round == 1 ? graph_n : n, s));
        if (round == 1) {
            need("cuStreamEndCapture", cuStreamEndCapture(s, &graph));
            need("cuGraphInstantiate", cuGraphInstantiate(&exec, graph, 0));
            need("cuGraphLaunch", cuGraphLaunch(exec, s));
            need("cuStreamSynchronize", cuStreamSynchronize(s));
            need("cuGraphExecDestroy", cuGraphExecDestroy(exec));
            need("cuGraphDestroy", cuGraphDestroy(graph));
            need("cuMemcpyDtoH", cuMemcpyDtoH(host + n / 2, p, n / 2));
        }
        need("cuStreamSynchronize", cuStreamSynchronize(s));
        for (size_t i = 0; i < n; i++)
            right &= host[i] == value(round == 1 && i >= n / 2 ? i - n / 2 : i,
                                      round == 1 && (i < n / 2 || i - n / 2 < graph_n));
    }
    need("cuStreamDestroy", cuStreamDestroy(s));
    need("cuMemFree", cuMemFree(p));
    return right ? "right" : "wrong";
}

/* Checks one kind of pinned memory, and frees it. */
static void pinned_one(const char *name, void *host, size_t n, CUresult (*end)(void *))
{
    CUdeviceptr on_device = 0, attribute = 0;
    CUmemorytype type = 0;
    CUresult r;

    printf("%s copies %s", name, copies(host, n));
    r = cuMemHostGetDevicePointer(&on_device, host, 0);
    need("type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)host));
    printf(" pointer %d attribute %d type %d end", (int)r,
           (int)cuPointerGetAttribute(&attribute, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, (uintptr_t)host),
           (int)type);
    printf(" %d", (int)end(host));
    printf(" again %d\n", (int)end(host) != CUDA_SUCCESS);
}

static void pinned(void)
{
    void *small, *large, *mapped = NULL, *own = aligned_alloc(4096, LARGE);

    need("cuInit", cuInit(0));
    use(0);
    need("cuMemHostAlloc", cuMemHostAlloc(&small, 65536, 0));
    need("cuMemHostAlloc", cuMemHostAlloc(&large, LARGE, 0));
    pinned_one("large", large, LARGE, cuMemFreeHost);
    need("cuMemHostRegister", cuMemHostRegister(own, LARGE, 0));
    pinned_one("registered", own, LARGE, cuMemHostUnregister);
    printf("mapped %d", (int)cuMemHostAlloc(&mapped, LARGE, CU_MEMHOSTALLOC_DEVICEMAP));
    printf(" registered %d\n", (int)cuMemHostRegister(own, LARGE, CU_MEMHOSTREGISTER_DEVICEMAP));
    pinned_one("small", small, 65536, cuMemFreeHost);
    free(own);
}

#define INPUTS 13

struct work {
    CUstream s, other;
    CUfunction add;
    CUdeviceptr in[INPUTS], out;
    unsigned rounds;
};

static void work_begin(struct work *w)
{
    const char *rounds = getenv("ROUNDS");
    CUmodule module;

    need("cuInit", cuInit(0));
    use(0);
    w->rounds = rounds ? (unsigned)atoi(rounds) : 1;
    need("cuStreamCreate", cuStreamCreate(&w->s, CU_STREAM_NON_BLOCKING));
    need("cuStreamCreate", cuStreamCreate(&w->other, CU_STREAM_NON_BLOCKING));
    need("cuModuleLoadData", cuModuleLoadData(&module, add));
    need("cuModuleGetFunction", cuModuleGetFunction(&w->add, module, "add"));
    for (int i = 0; i < INPUTS; i++)
        need("cuMemAlloc", cuMemAlloc(&w->in[i], 16384));
    need("cuMemAlloc", cuMemAlloc(&w->out, 16384));
    need("cuMemsetD32", cuMemsetD32(w->out, 0, 4096));
    need("cuCtxSynchronize", cuCtxSynchronize());
}

static void work_add(const struct work *w, int input, CUstream s)
{
    CUdeviceptr out = w->out, in = w->in[input];
    void *params[] = {&out, &in};

    need("cuLaunchKernel", cuLaunchKernel(w->add, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
}

/* Reads the sum so far, as a program reads a result. */
static void work_check(const struct work *w, CUstream s, unsigned want)
{
    unsigned got = 0;

    need("cuMemcpyDtoHAsync", cuMemcpyDtoHAsync(&got, w->out, 4, s));
    need("cuStreamSynchronize", cuStreamSynchronize(s));
    if (got != want) {
        printf("%u instead of %u\n", got, want);
        exit(1);
    }
}

/* Inputs in one stream, kernels in another. */
static void decode(bool per_thread)
{
    struct work w;
    unsigned sum = 0, data[64];
    CUstream inputs;

    work_begin(&w);
    inputs = per_thread ? CU_STREAM_PER_THREAD : w.s;
    for (unsigned i = 0; i < w.rounds; i++) {
        for (unsigned k = 0; k < INPUTS; k++) {
            data[0] = i * 100 + k;
            sum += data[0];
            need("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync(w.in[k], data, sizeof(data), inputs));
            need("cuStreamSynchronize", cuStreamSynchronize(inputs));
        }
        for (int k = 0; k < INPUTS; k++)
            work_add(&w, k, w.s);
        work_check(&w, w.s, sum);
    }
    printf("right\n");
}

static void tokens(void)
{
    decode(false);
}

static void ggml_tokens(void)
{
    decode(true);
}

static void steps(void)
{
    static unsigned batch[1024];
    struct work w;
    unsigned sum = 0;

    work_begin(&w);
    for (unsigned i = 0; i < w.rounds; i++) {
        batch[0] = i + 1;
        sum += 3 * batch[0];
        need("cuMemcpyHtoD", cuMemcpyHtoD(w.in[0], batch, sizeof(batch)));
        for (int k = 0; k < 3; k++)
            work_add(&w, 0, NULL);
        work_check(&w, NULL, sum);
    }
    printf("right\n");
}

static void fills(void)
{
    struct work w;

    work_begin(&w);
    for (unsigned i = 0; i < w.rounds; i++) {
        unsigned one = 1;

        need("cuMemsetD32Async", cuMemsetD32Async(w.in[0], 0, 1, w.s));
        need("cuStreamSynchronize", cuStreamSynchronize(w.s));
        need("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync(w.in[0], &one, sizeof(one), w.s));
        need("cuMemsetD8Async", cuMemsetD8Async(w.out, 0, sizeof(i), w.s));
        work_add(&w, 0, w.s);
        work_check(&w, w.s, 1);
    }
    printf("right\n");
}

/* Captured graphs: a fill and two kernels each. */
static void captures(void)
{
    struct work w;
    CUgraph g;

    work_begin(&w);
    work_add(&w, 0, w.s);
    need("cuStreamSynchronize", cuStreamSynchronize(w.s));
    for (unsigned i = 0; i < w.rounds; i++) {
        need("cuStreamBeginCapture", cuStreamBeginCapture(w.s, CU_STREAM_CAPTURE_MODE_GLOBAL));
        need("cuMemsetD32Async", cuMemsetD32Async(w.in[0], 0, 1, w.s));
        work_add(&w, 0, w.s);
        work_add(&w, 0, w.s);
        need("cuStreamEndCapture", cuStreamEndCapture(w.s, &g));
        need("cuGraphDestroy", cuGraphDestroy(g));
    }
    printf("right\n");
}

/* Of completed work the worker is asked once, for any number of queries by the program. */
static void queries(void)
{
    struct work w;
    CUevent e;

    work_begin(&w);
    need("cuEventCreate", cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < w.rounds; i++) {
        work_add(&w, 0, w.s);
        need("cuEventRecord", cuEventRecord(e, w.s));
        need("cuEventSynchronize", cuEventSynchronize(e));
        for (unsigned k = 0; k < 100; k++) {
            need("cuEventQuery", cuEventQuery(e));
            need("cuStreamQuery", cuStreamQuery(w.s));
        }
    }
    printf("right\n");
}

static void CUDA_CB hold(void *semaphore)
{
    while (sem_wait(semaphore) != 0)
        ;
}

/*
 * Incomplete work is queried from the worker only at intervals. Prints the number of queries, and
 * their time in microseconds.
 */
static void polls(void)
{
    struct work w;
    struct timespec t[2];
    sem_t semaphore;
    CUevent e;
    unsigned n = 20000;

    work_begin(&w);
    sem_init(&semaphore, 0, 0);
    need("cuEventCreate", cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    need("cuLaunchHostFunc", cuLaunchHostFunc(w.s, hold, &semaphore));
    need("cuEventRecord", cuEventRecord(e, w.s));
    clock_gettime(CLOCK_MONOTONIC, &t[0]);
    for (unsigned i = 0; i < n; i++) {
        if (cuEventQuery(e) != CUDA_ERROR_NOT_READY || cuStreamQuery(w.s) != CUDA_ERROR_NOT_READY) {
            printf("FAIL complete\n");
            exit(1);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &t[1]);
    sem_post(&semaphore);
    need("cuStreamSynchronize", cuStreamSynchronize(w.s));
    need("cuEventQuery", cuEventQuery(e));
    printf("right %u %lld\n", 2 * n,
           (t[1].tv_sec - t[0].tv_sec) * 1000000LL + (t[1].tv_nsec - t[0].tv_nsec) / 1000);
}

static void others(void)
{
    struct work w;
    unsigned sum = 0;

    work_begin(&w);
    for (unsigned i = 0; i < w.rounds; i++) {
        sum += i;
        need("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync(w.in[0], &i, sizeof(i), w.s));
        need("cuStreamSynchronize", cuStreamSynchronize(w.s));
        work_add(&w, 0, w.other);
        work_check(&w, w.other, sum);
        need("cuCtxSynchronize", cuCtxSynchronize());
    }
    printf("right\n");
}

/* Pinned memory at addresses other than those chosen by mmap. */
static void unified(void)
{
    char *p[4], *near = mmap(NULL, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr on_device = 0;
    int same = 0, far = 0;

    need("cuInit", cuInit(0));
    use(0);
    for (int i = 0; i < 4; i++) {
        need("cuMemHostAlloc", cuMemHostAlloc((void **)&p[i], 65536, CU_MEMHOSTALLOC_DEVICEMAP));
        need("cuMemHostGetDevicePointer", cuMemHostGetDevicePointer(&on_device, p[i], 0));
        same += on_device == (uintptr_t)p[i];
        far += llabs((long long)(p[i] - near)) > 1LL << 32;
    }
    printf("%s, at %s\n", same == 4 ? "same" : "not the same",
           far == 4 ? "other addresses" : "these addresses");
}

static void images(void)
{
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE);
    unsigned values[2] = {40, 2};
    CUdeviceptr p, q;
    CUcontext ctx;
    CUfunction f;
    CUmodule m;
    CUdevice d;

    if (text == NULL)
        exit(1);
    memset(text, ' ', SIZE);
    memcpy(text, add, sizeof(add) - 1);
    text[SIZE - 1] = 0;
    need("cuInit", cuInit(0));
    need("cuDeviceGet", cuDeviceGet(&d, 0));
    need("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&ctx, d));
    need("cuCtxSetCurrent", cuCtxSetCurrent(ctx));
    need("cuMemAlloc", cuMemAlloc(&p, 8));
    q = p + 4;
    need("cuMemcpyHtoD", cuMemcpyHtoD(p, values, sizeof(values)));
    need("cuModuleLoadData", cuModuleLoadData(&m, text));
    need("cuModuleGetFunction", cuModuleGetFunction(&f, m, "add"));
    need("cuLaunchKernel", cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&p, &q}, NULL));
    need("cuMemcpyDtoH", cuMemcpyDtoH(values, p, sizeof(values)));
    printf("images %u\n", values[0]);
    free(text);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"devices", devices},   {"uuids", uuids},     {"hidden", hidden},
               {"blocking", blocking}, {"version", version}, {"loading", loading},
               {"pinned", pinned},     {"tokens", tokens},   {"ggml-tokens", ggml_tokens},
               {"fills", fills},       {"steps", steps},     {"captures", captures},
               {"others", others},     {"unified", unified}, {"queries", queries},
               {"polls", polls},       {"images", images}};

    for (size_t i = 0; argc == 2 && i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(argv[1], all[i].name) == 0) {
            all[i].run();
            return 0;
        }
    }
    fprintf(
        stderr,
        "usage: client devices|uuids|hidden|blocking|version|loading|pinned|tokens|ggml-tokens|steps|captures|others|unified|queries|polls|images\n");
    return 2;
}
