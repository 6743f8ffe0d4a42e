/* SPDX-License-Identifier: MIT */
/*
 * client LIBCUDART [PTX_FILE]: the runtime calls of a program compiled by nvcc, through the runtime
 * named on the command line: start-up, device query, a kernel and a variable of its own image,
 * streams, events, a graph. The image is assembled here, so that one program serves every runtime;
 * its PTX is that of the file (made by library.c), or a built-in one. Prints a line per step: "ok
 * PART: STEP" or "FAIL PART: STEP: reason". Status 0: all steps passed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    unsigned x, y, z;
} grid;

/* The wrapper that nvcc places in .nvFatBinSegment, and its container. */
static struct {
    uint32_t magic, version;
    const void *data;
    void *names;
} wrapper = {0x466243b1, 1, NULL, NULL};

struct container {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size;
    struct {
        uint16_t kind, flags16;
        uint32_t header_size;
        uint64_t payload_size;
        uint32_t compressed, options;
        uint16_t minor, major;
        uint32_t arch, name, name_size;
        uint64_t flags, zero, uncompressed;
    } entry;
    char text[16384];
};

static const char ptx[] = ".version 7.8\n"
                          ".target sm_52\n"
                          ".address_size 64\n"
                          ".visible .global .align 4 .u32 step = 1;\n"
                          ".visible .entry advance(.param .u64 out, .param .u32 n)\n"
                          "{\n"
                          "  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<4>;\n"
                          "  ld.param.u64 %d0, [out]; ld.param.u32 %r0, [n];\n"
                          "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
                          "  mad.lo.s32 %r4, %r1, %r2, %r3;\n"
                          "  setp.ge.u32 %p, %r4, %r0; @%p ret;\n"
                          "  cvta.to.global.u64 %d1, %d0; mul.wide.u32 %d2, %r4, 4; add.s64 %d3, %d1, %d2;\n"
                          "  ld.global.u32 %r5, [%d3]; ld.global.u32 %r6, [step]; add.u32 %r7, %r5, %r6;\n"
                          "  st.global.u32 [%d3], %r7;\n"
                          "  ret;\n"
                          "}\n";

static void *runtime;
static int failed;
static const char *part = "start-up"; /* part of the subsequent steps */

/* Looks up a function of the runtime; ends the program if missing. */
static void *fn(const char *name)
{
    void *p = dlsym(runtime, name);

    if (p == NULL) {
        printf("FAIL %s: %s: the runtime does not export it\n", part, name);
        exit(1);
    }
    return p;
}

#define CALL(result, name, ...) (((result(*)())fn(name))(__VA_ARGS__))

/* Reports a step; true if it passed. */
static int step(const char *name, int error)
{
    if (error == 0) {
        printf("ok %s: %s\n", part, name);
        return 1;
    }
    failed++;
    printf("FAIL %s: %s: %d %s\n", part, name, error, CALL(const char *, "cudaGetErrorString", error));
    return 0;
}

static void check(const char *name, int right)
{
    if (right)
        printf("ok %s: %s\n", part, name);
    else
        printf("FAIL %s: %s: wrong result\n", part, name);
    failed += !right;
}

static void stub(void)
{
}

static uint32_t step_host;

/* Reads the PTX of the image, from the file or the built-in text. 0: no such file, or too long. */
static unsigned read_ptx(const char *path, char *to, size_t room)
{
    FILE *f = path == NULL ? NULL : fopen(path, "r");
    size_t n;

    if (path == NULL)
        return (unsigned)snprintf(to, room, "%s", ptx);
    if (f == NULL)
        return 0;
    n = fread(to, 1, room - 1, f);
    if (!feof(f))
        n = 0;
    fclose(f);
    to[n] = '\0';
    return (unsigned)n;
}

static void **add_image(const char *path)
{
    static struct container c;
    unsigned n = read_ptx(path, c.text, sizeof(c.text) - 8);
    int major = 0, minor = 0, arch = 0;
    const char *version = strstr(c.text, ".version "), *target = strstr(c.text, ".target sm_");
    void **handle;

    if (n == 0 || version == NULL || target == NULL ||
        sscanf(version, ".version %d.%d", &major, &minor) != 2 ||
        sscanf(target, ".target sm_%d", &arch) != 1) {
        printf("FAIL %s: no PTX in %s\n", part, path);
        exit(1);
    }
    printf("ptx %d.%d\n", major, minor);
    c.magic = 0xba55ed50;
    c.version = 1;
    c.header_size = 16;
    c.entry.kind = 1;
    c.entry.flags16 = 0x101;
    c.entry.header_size = sizeof(c.entry);
    c.entry.payload_size = (n + 1 + 7) & ~7u;
    c.entry.major = (uint16_t)major;
    c.entry.minor = (uint16_t)minor;
    c.entry.arch = (uint32_t)arch;
    c.entry.flags = 0x11;
    c.size = sizeof(c.entry) + c.entry.payload_size;
    wrapper.data = &c;
    handle = CALL(void **, "__cudaRegisterFatBinary", &wrapper);
    CALL(void, "__cudaRegisterFunction", handle, (const char *)stub, (char *)"advance", "advance", -1, NULL,
         NULL, NULL, NULL, NULL);
    CALL(void, "__cudaRegisterVar", handle, (char *)&step_host, (char *)"step", "step", 0, sizeof(step_host),
         0, 0);
    CALL(void, "__cudaRegisterFatBinaryEnd", handle);
    return handle;
}

#define COUNT 1000u

static int launch(void *stream, uint32_t *device)
{
    uint32_t n = COUNT;
    void *args[] = {&device, &n};
    int (*go)(const void *, grid, grid, void **, size_t, void *);

    *(void **)&go = fn("cudaLaunchKernel");
    return go((const void *)stub, (grid){4, 1, 1}, (grid){256, 1, 1}, args, (size_t)0, stream);
}

/* True if all words of the device's array are `value`. */
static int all_are(uint32_t *device, uint32_t value)
{
    static uint32_t host[COUNT];

    memset(host, 0xee, sizeof(host));
    if (CALL(int, "cudaMemcpy", host, device, sizeof(host), 2) != 0)
        return 0;
    for (unsigned i = 0; i < COUNT; i++) {
        if (host[i] != value)
            return 0;
    }
    return 1;
}

static void query(void)
{
    int runtime_version = 0, driver_version = 0, count = 0, warp = 0;
    static char properties[16384]; /* the length differs between runtimes; the name comes first */
    char id[32] = "";

    step("cudaRuntimeGetVersion", CALL(int, "cudaRuntimeGetVersion", &runtime_version));
    step("cudaDriverGetVersion", CALL(int, "cudaDriverGetVersion", &driver_version));
    printf("runtime %d driver %d\n", runtime_version, driver_version);
    part = "query";
    if (!step("cudaGetDeviceCount", CALL(int, "cudaGetDeviceCount", &count)) || count < 1)
        exit(1);
    step("cudaDeviceGetAttribute", CALL(int, "cudaDeviceGetAttribute", &warp, 10, 0));
    check("warp size", warp == 32);
    if (step("cudaGetDeviceProperties",
             CALL(int,
                  runtime_version >= 12000 && runtime_version < 13000 ? "cudaGetDeviceProperties_v2"
                                                                      : "cudaGetDeviceProperties",
                  properties, 0)))
        printf("device %s\n", properties);
    step("cudaDeviceGetPCIBusId", CALL(int, "cudaDeviceGetPCIBusId", id, 32, 0));
}

static void streams(uint32_t *device)
{
    void *stream[2], *event, *start;
    float ms = -1;
    int error = 0;

    for (int i = 0; i < 2; i++)
        step("cudaStreamCreate", CALL(int, "cudaStreamCreate", &stream[i]));
    step("cudaEventCreate", CALL(int, "cudaEventCreate", &event));
    step("cudaEventCreate", CALL(int, "cudaEventCreate", &start));
    step("cudaEventRecord", CALL(int, "cudaEventRecord", start, stream[0]));
    for (int i = 0; i < 8; i++)
        error |= launch(stream[0], device);
    step("launches on a stream", error);
    step("cudaEventRecord", CALL(int, "cudaEventRecord", event, stream[0]));
    step("cudaStreamWaitEvent", CALL(int, "cudaStreamWaitEvent", stream[1], event, 0u));
    step("launch on another stream", launch(stream[1], device));
    step("cudaStreamSynchronize", CALL(int, "cudaStreamSynchronize", stream[1]));
    step("cudaEventElapsedTime", CALL(int, "cudaEventElapsedTime", &ms, start, event));
    check("elapsed time", ms >= 0);
    for (int i = 0; i < 2; i++)
        step("cudaStreamDestroy", CALL(int, "cudaStreamDestroy", stream[i]));
}

static void graph(uint32_t *device)
{
    void *stream, *g, *exec;

    step("cudaStreamCreate", CALL(int, "cudaStreamCreate", &stream));
    step("cudaStreamBeginCapture", CALL(int, "cudaStreamBeginCapture", stream, 0));
    step("launch while capturing", launch(stream, device) | launch(stream, device));
    if (!step("cudaStreamEndCapture", CALL(int, "cudaStreamEndCapture", stream, &g)))
        return;
    if (!step("cudaGraphInstantiateWithFlags", CALL(int, "cudaGraphInstantiateWithFlags", &exec, g, 0ull)))
        return;
    for (int i = 0; i < 3; i++)
        step("cudaGraphLaunch", CALL(int, "cudaGraphLaunch", exec, stream));
    step("cudaStreamSynchronize", CALL(int, "cudaStreamSynchronize", stream));
    step("cudaGraphExecDestroy", CALL(int, "cudaGraphExecDestroy", exec));
    step("cudaGraphDestroy", CALL(int, "cudaGraphDestroy", g));
}

int main(int argc, char **argv)
{
    uint32_t *device, two = 2, back = 0;
    void **handle, *pinned;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2 && argc != 3)
        return 2;
    runtime = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (runtime == NULL) {
        printf("FAIL %s: dlopen: %s\n", part, dlerror());
        return 1;
    }
    handle = add_image(argv[2]);
    query();
    part = "kernel";
    if (!step("cudaMalloc", CALL(int, "cudaMalloc", &device, sizeof(uint32_t) * COUNT)))
        return 1;
    step("cudaMemset", CALL(int, "cudaMemset", device, 0, sizeof(uint32_t) * COUNT));
    step("cudaLaunchKernel", launch(NULL, device));
    step("cudaDeviceSynchronize", CALL(int, "cudaDeviceSynchronize"));
    check("kernel", all_are(device, 1));
    step("cudaMemcpyToSymbol", CALL(int, "cudaMemcpyToSymbol", &step_host, &two, sizeof(two), (size_t)0, 1));
    step("cudaMemcpyFromSymbol",
         CALL(int, "cudaMemcpyFromSymbol", &back, &step_host, sizeof(back), (size_t)0, 2));
    check("variable", back == 2);
    part = "streams";
    streams(device);
    check("streams", all_are(device, 1 + 9 * 2));
    part = "graph";
    graph(device);
    check("graph", all_are(device, 19 + 6 * 2));
    part = "streams";
    step("cudaMallocHost", CALL(int, "cudaMallocHost", &pinned, (size_t)1 << 16));
    step("cudaFreeHost", CALL(int, "cudaFreeHost", pinned));
    step("cudaFree", CALL(int, "cudaFree", device));
    step("cudaGetLastError", CALL(int, "cudaGetLastError"));
    CALL(void, "__cudaUnregisterFatBinary", handle);
    printf("%s\n", failed == 0 ? "all steps passed" : "some steps failed");
    return failed != 0;
}
