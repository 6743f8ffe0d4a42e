// SPDX-License-Identifier: MIT
/*
 * Calls that libcuda forwards to a provider with features that the software GPU lacks: multicast
 * objects and decompression, with the backend's test provider (two devices of 16 multiprocessors).
 * Lines as printed by conform: `provider.check result`.
 */
#include <cuda.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define M ((size_t)1 << 20)

static unsigned passed, failed;

static void rc(const char *check, CUresult got, CUresult want)
{
    const char *name = "?";

    cuGetErrorName(got, &name);
    got == want ? passed++ : failed++;
    printf("provider.%s %s%s\n", check, name, got == want ? "" : " FAIL");
}

static void yes(const char *check, bool ok)
{
    ok ? passed++ : failed++;
    printf("provider.%s %s\n", check, ok ? "yes" : "no FAIL want yes");
}

struct binder {
    pthread_t thread;
    CUmemGenericAllocationHandle object, memory; /* memory 0: maps the object */
    CUdeviceptr at;
    atomic_bool begun;
    CUresult result;
};

static void *bind_or_map(void *arg)
{
    struct binder *b = arg;

    b->begun = true;
    b->result = b->memory ? cuMulticastBindMem(b->object, 0, b->memory, 0, 2 * M, 0)
                          : cuMemMap(b->at, 2 * M, 0, b->object, 0);
    return NULL;
}

static void start(struct binder *b)
{
    pthread_create(&b->thread, NULL, bind_or_map, b);
    while (!b->begun)
        sched_yield();
}

/* Worker and provider refuse calls that come too early: success of both shows that they waited. */
static void multicast(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmulticastObjectProp team = {.numDevices = 2, .size = 2 * M};
    struct binder bind = {0}, map = {.at = 0x500000000000};
    CUmemGenericAllocationHandle object = 0, memory = 0;
    size_t granularity = 0;
    int offered = 0, fd = -1;

    rc("attribute", cuDeviceGetAttribute(&offered, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0), 0);
    yes("offered", offered == 1);
    rc("granularity", cuMulticastGetGranularity(&granularity, &team, CU_MULTICAST_GRANULARITY_MINIMUM), 0);
    yes("granularity_is", granularity == 2 * M);
    rc("granularity_option", cuMulticastGetGranularity(&granularity, &team, (CUmulticastGranularity_flags)7),
       CUDA_ERROR_INVALID_VALUE);
    team.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    rc("exported", cuMulticastCreate(&object, &team), CUDA_ERROR_NOT_SUPPORTED);
    team.handleTypes = 0;
    team.flags = 1;
    rc("flags", cuMulticastCreate(&object, &team), CUDA_ERROR_INVALID_VALUE);
    team.flags = 0;
    rc("create", cuMulticastCreate(&object, &team), 0);
    rc("memory", cuMemCreate(&memory, 2 * M, &prop, 0), 0);
    rc("export", cuMemExportToShareableHandle(&fd, object, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
       CUDA_ERROR_INVALID_VALUE);
    bind.object = map.object = object;
    bind.memory = memory;
    start(&bind);
    start(&map);
    rc("add", cuMulticastAddDevice(object, 0), 0);
    rc("add_again", cuMulticastAddDevice(object, 0), CUDA_ERROR_INVALID_VALUE);
    rc("add_unknown", cuMulticastAddDevice(object, 9), CUDA_ERROR_INVALID_DEVICE);
    rc("add_memory", cuMulticastAddDevice(memory, 1), CUDA_ERROR_INVALID_VALUE);
    rc("add_2", cuMulticastAddDevice(object, 1), 0);
    pthread_join(bind.thread, NULL);
    pthread_join(map.thread, NULL);
    rc("bind", bind.result, 0);
    rc("map", map.result, 0);
    rc("bind_flags", cuMulticastBindMem(object, 0, memory, 0, 2 * M, 1), CUDA_ERROR_INVALID_VALUE);
    rc("bind_nothing", cuMulticastBindMem(object, 0, 0, 0, 2 * M, 0), CUDA_ERROR_INVALID_VALUE);
    /* Memory bound by its address; a mapping of the object itself cannot be bound. */
    rc("bind_itself", cuMulticastBindAddr(object, 0, map.at, 2 * M, 0), CUDA_ERROR_INVALID_VALUE);
    rc("map_memory", cuMemMap(map.at + 2 * M, 2 * M, 0, memory, 0), 0);
    rc("bind_address", cuMulticastBindAddr(object, 0, map.at + 2 * M, 2 * M, 0), 0);
    rc("bind_past", cuMulticastBindAddr(object, 0, map.at + 2 * M, 4 * M, 0), CUDA_ERROR_INVALID_VALUE);
    rc("unbind", cuMulticastUnbind(object, 0, 0, 2 * M), 0);
    rc("unbind_unknown", cuMulticastUnbind(object, 9, 0, 2 * M), CUDA_ERROR_INVALID_DEVICE);
    rc("unmap", cuMemUnmap(map.at, 2 * M), 0);
    rc("unmap_memory", cuMemUnmap(map.at + 2 * M, 2 * M), 0);
    rc("release", cuMemRelease(object), 0);
    rc("released", cuMulticastUnbind(object, 0, 0, 2 * M), CUDA_ERROR_INVALID_VALUE);
    rc("release_memory", cuMemRelease(memory), 0);
}

/* Numbers are those of the provider; data kept in a resource stays with the worker. */
static void green(void)
{
    CUdevResource all, part[3], left;
    CUdevResourceDesc desc;
    CUgreenCtx g = NULL;
    CUcontext c = NULL;
    CUstream s = NULL;
    unsigned n = 3;

    rc("resource", cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM), 0);
    yes("resource_is", all.sm.smCount == 16 && all.sm.minSmPartitionSize == 2);
    yes("resource_hides", !memmem(&all, sizeof(all), "\xa7\xa7\xa7\xa7", 4));
    rc("split", cuDevSmResourceSplitByCount(part, &n, &all, &left, 0, 5), 0);
    yes("split_is", n == 2 && part[1].sm.smCount == 6 && left.sm.smCount == 4);
    rc("describe", cuDevResourceGenerateDesc(&desc, part, 2), 0);
    rc("create_green", cuGreenCtxCreate(&g, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM), 0);
    rc("green_resource", cuGreenCtxGetDevResource(g, &all, CU_DEV_RESOURCE_TYPE_SM), 0);
    yes("green_resource_is", all.sm.smCount == 12);
    rc("convert", cuCtxFromGreenCtx(&c, g), 0);
    rc("push", cuCtxPushCurrent(c), 0);
    rc("stream", cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), 0);
    rc("synchronize", cuStreamSynchronize(s), 0);
    rc("stream_end", cuStreamDestroy(s), 0);
    rc("pop", cuCtxPopCurrent(&c), 0);
    rc("destroy", cuGreenCtxDestroy(g), 0);
}

/* A batch is sent in pieces: the index of an invalid entry counts from the start of the batch. */
static void decompress(void)
{
    static CUmemDecompressParams op[600];
    CUdeviceptr p = 0;
    unsigned char from[600 * 8], to[600 * 8];
    unsigned capable = 0;
    unsigned actual[600];
    size_t at = 7;
    bool all = true;

    rc("alloc", cuMemAlloc(&p, 3 * sizeof(from)), 0);
    rc("capable", cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, p), 0);
    yes("capable_is", capable == 1);
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (unsigned char)(i * 7);
    rc("up", cuMemcpyHtoD(p, from, sizeof(from)), 0);
    for (size_t i = 0; i < 600; i++) {
        op[i].srcNumBytes = op[i].dstNumBytes = 1 + i % 8;
        op[i].src = (const void *)(uintptr_t)(p + 8 * i);
        op[i].dst = (void *)(uintptr_t)(p + sizeof(from) + 8 * i);
        op[i].dstActBytes = (cuuint32_t *)(uintptr_t)(p + 2 * sizeof(from) + 4 * i);
        op[i].algo = CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE;
    }
    rc("decompress", cuMemBatchDecompressAsync(op, 600, 0, &at, NULL), 0);
    yes("decompress_index", at == SIZE_MAX);
    rc("down", cuMemcpyDtoH(to, p + sizeof(from), sizeof(to)), 0);
    rc("down_sizes", cuMemcpyDtoH(actual, p + 2 * sizeof(from), sizeof(actual)), 0);
    for (size_t i = 0; i < 600; i++)
        all = all && actual[i] == 1 + i % 8 && !memcmp(to + 8 * i, from + 8 * i, actual[i]);
    yes("decompressed", all);
    op[555].algo = (CUmemDecompressAlgorithm)77;
    rc("algorithm", cuMemBatchDecompressAsync(op, 600, 0, &at, NULL), CUDA_ERROR_INVALID_VALUE);
    yes("algorithm_index", at == 555);
    op[3].padding[19] = 1;
    rc("padding", cuMemBatchDecompressAsync(op, 600, 0, &at, NULL), CUDA_ERROR_INVALID_VALUE);
    yes("padding_index", at == 3);
    rc("decompress_flags", cuMemBatchDecompressAsync(op, 1, 1, &at, NULL), CUDA_ERROR_INVALID_VALUE);
    yes("flags_index", at == SIZE_MAX);
    rc("free", cuMemFree(p), 0);
}

/* Logs at and around the capacity of one reply and of several: each byte is in place, for every call that
   returns a log. */
static void logs(void)
{
    static const unsigned sizes[] = {100, 4031, 4032, 4033, 8063, 8064, 8065, 40000};
    static char log[40002];
    char text[40];

    for (unsigned by = 0; by < 3; by++) {
        bool all = true, lengths = true;

        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            CUjit_option opt[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
            void *val[] = {log, (void *)(uintptr_t)sizeof(log)};
            CUlinkState link = NULL;
            CUlibrary library = NULL;
            CUmodule module = NULL;
            CUresult r;

            memset(log, 'x', sizeof(log));
            snprintf(text, sizeof(text), "// log %u\n.version 8.0\n", sizes[i]);
            if (by == 0) {
                r = cuModuleLoadDataEx(&module, text, 2, opt, val);
                r = r == CUDA_SUCCESS ? cuModuleUnload(module) : r;
            } else if (by == 1) {
                r = cuLibraryLoadData(&library, text, opt, val, 2, NULL, NULL, 0);
                r = r == CUDA_SUCCESS ? cuLibraryUnload(library) : r;
            } else {
                r = cuLinkCreate(2, opt, val, &link);
                if (r == CUDA_SUCCESS)
                    r = cuLinkAddData(link, CU_JIT_INPUT_PTX, text, strlen(text) + 1, "log", 0, NULL, NULL);
                r = r == CUDA_SUCCESS ? cuLinkDestroy(link) : r;
            }
            lengths = lengths && r == CUDA_SUCCESS && (size_t)val[1] == sizes[i];
            for (unsigned at = 0; at < sizes[i]; at++)
                all = all && log[at] == (at % 64 == 63 ? '\n' : (char)('a' + (at + at / 64) % 26));
            all = all && log[sizes[i]] == '\0' && log[sizes[i] + 1] == 'x';
        }
        yes(by == 0 ? "module_logs" : by == 1 ? "library_logs" : "link_logs", all);
        yes(by == 0 ? "module_log_sizes" : by == 1 ? "library_log_sizes" : "link_log_sizes", lengths);
    }
}

int main(void)
{
    CUcontext c;

    rc("init", cuInit(0), 0);
    rc("retain", cuDevicePrimaryCtxRetain(&c, 0), 0);
    rc("current", cuCtxSetCurrent(c), 0);
    multicast();
    green();
    decompress();
    logs();
    rc("end", cuDevicePrimaryCtxRelease(0), 0);
    printf("provider: %u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
