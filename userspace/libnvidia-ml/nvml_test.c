/* SPDX-License-Identifier: MIT */
/*
 * NVML as used by programs: the library is opened and its functions are looked up. Runs under `vgpu
 * run` (run_tests.sh); NVML's values are compared with CUDA's in the same process.
 */
#include <dlfcn.h>
#include <err.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../lib/testing/range.h"
#include <cuda.h>

#include "nvml_abi.h"

/* A common type for all functions, which the test calls with their own arguments. */
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
typedef nvmlReturn_t (*fn)();
static void *nvml, *cuda;

static fn look_up(void *library, const char *name)
{
    void *sym = dlsym(library, name);
    fn f;

    memcpy(&f, &sym, sizeof(f));
    if (f == NULL)
        fail_msg("%s is not exported", name);
    return f;
}
#define N(name) look_up(nvml, #name)
#define CU(name) look_up(cuda, #name)
#define ok(call) assert_int_equal((call), 0)

static nvmlDevice_t device(void)
{
    nvmlDevice_t d = NULL;

    ok(N(nvmlDeviceGetHandleByIndex_v2)(0u, &d));
    return d;
}

static const char *const refused[] = {
#define REFUSE(name) #name,
#include "names.def"
};

static void before_init(void **state)
{
    unsigned value = 7;

    (void)state;
    assert_int_equal(N(nvmlDeviceGetCount_v2)(&value), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(value, 7);
    assert_int_equal(N(nvmlShutdown)(), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(N(nvmlSystemGetDriverVersion)(NULL, 0u), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(N(nvmlDeviceGetName)(NULL, NULL, 0u), NVML_ERROR_UNINITIALIZED);
    for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        assert_int_equal(look_up(nvml, refused[i])(NULL, NULL, NULL), NVML_ERROR_UNINITIALIZED);
}

static void users_are_counted(void **state)
{
    unsigned n = 0;

    (void)state;
    for (unsigned f = 0; f < 16; f++) /* the flags are the bits below 8 */
        assert_int_equal(N(nvmlInitWithFlags)(f) ?: N(nvmlShutdown)(), f / 8 * NVML_ERROR_INVALID_ARGUMENT);
    ok(N(nvmlInit_v2)());
    ok(N(nvmlInit)());
    ok(N(nvmlInitWithFlags)(NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH));
    ok(N(nvmlShutdown)());
    ok(N(nvmlShutdown)());
    ok(N(nvmlDeviceGetCount)(&n));
    assert_int_equal(n, 1);
    ok(N(nvmlShutdown)());
    assert_int_equal(N(nvmlDeviceGetCount)(&n), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(N(nvmlShutdown)(), NVML_ERROR_UNINITIALIZED);
    ok(N(nvmlInit_v2)()); /* reconnects */
    ok(N(nvmlDeviceGetCount_v2)(&n));
    ok(N(nvmlShutdown)());
}

static int init(void **state)
{
    (void)state;
    return (int)N(nvmlInit_v2)();
}

static int end(void **state)
{
    (void)state;
    return (int)N(nvmlShutdown)();
}

static void null_and_foreign_handles(void **state)
{
    static const char *const one_result[] = {
        "nvmlDeviceGetIndex",
        "nvmlDeviceGetPciInfo",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetBrand",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetArchitecture",
        "nvmlDeviceGetComputeMode",
        "nvmlDeviceGetMemoryBusWidth",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetFanSpeed",
        "nvmlDeviceGetPerformanceState",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetPersistenceMode",
        "nvmlDeviceIsMigDeviceHandle",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetNumGpuCores",
    };
    static char space[4096];
    nvmlDevice_t d = device(), odd = (nvmlDevice_t)((char *)d + 8);

    (void)state;
    for (unsigned i = 0; i < sizeof(one_result) / sizeof(one_result[0]); i++) {
        fn f = look_up(nvml, one_result[i]);

        assert_int_equal(f(d, NULL, NULL), NVML_ERROR_INVALID_ARGUMENT);
        if (strstr(one_result[i], "_v2") != NULL)
            *(unsigned *)space = NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2u);
        assert_int_equal(f(NULL, space, space), NVML_ERROR_INVALID_ARGUMENT);
        assert_int_equal(f(odd, space, space), NVML_ERROR_INVALID_ARGUMENT);
        assert_int_equal(f((nvmlDevice_t)space, space, space), NVML_ERROR_INVALID_ARGUMENT);
    }
    assert_int_equal(N(nvmlDeviceGetHandleByIndex_v2)(1u, &d), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(N(nvmlDeviceGetHandleByIndex_v2)(0u, NULL), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(N(nvmlDeviceGetHandleByUUID)("GPU-0", &d), NVML_ERROR_NOT_FOUND);
    assert_int_equal(N(nvmlDeviceGetHandleByUUID)(NULL, &d), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(N(nvmlDeviceGetHandleByPciBusId_v2)("nonsense", &d), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(N(nvmlDeviceGetHandleByPciBusId_v2)("00001234:56:78.0", &d), NVML_ERROR_NOT_FOUND);
    assert_int_equal(N(nvmlDeviceGetHandleBySerial)("none", &d), NVML_ERROR_NOT_FOUND);
}

static void texts_must_fit(void **state)
{
    const char *(*error_string)(int);
    char all[96], cut[96];
    nvmlDevice_t d = device();

    (void)state;
    ok(N(nvmlDeviceGetName)(d, all, (unsigned)sizeof(all)));
    memset(cut, '#', sizeof(cut));
    assert_int_equal(N(nvmlDeviceGetName)(d, cut, (unsigned)strlen(all)), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(cut[0], '#');
    ok(N(nvmlDeviceGetName)(d, cut, (unsigned)strlen(all) + 1));
    assert_string_equal(all, cut);
    assert_int_equal(N(nvmlDeviceGetUUID)(d, cut, 10u), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(N(nvmlSystemGetDriverVersion)(cut, 1u), NVML_ERROR_INSUFFICIENT_SIZE);
    ok(N(nvmlSystemGetDriverVersion)(cut, 80u));
    assert_true(atoi(cut) >= 525); /* parsed as by clients: the branch number */
    ok(N(nvmlSystemGetNVMLVersion)(cut, 80u));
    ok(N(nvmlSystemGetProcessName)((unsigned)getpid(), cut, (unsigned)sizeof(cut)));
    assert_non_null(strstr(cut, "nvml_test"));
    assert_int_equal(N(nvmlSystemGetProcessName)(4000000u, cut, 9u), NVML_ERROR_NOT_FOUND);
    fn f = N(nvmlErrorString);
    memcpy(&error_string, &f, sizeof(f));
    for (int r = 0; r < 30; r++)
        assert_true(strlen(error_string(r)) > 4);
}

/* Before cuInit in this process: CUDA is queried last. */
static void says_what_cuda_says(void **state)
{
    char name[96], other[96], want[64];
    int version = 0, cuda_version = 1, major, minor, attribute = 0;
    nvmlPciInfo_t pci;
    nvmlMemory_t m;
    nvmlMemory_v2_t m2 = {.version = NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2u)};
    nvmlDevice_t d = device(), same = NULL;
    unsigned value = 0;
    size_t total = 0;
    CUuuid uuid;

    (void)state;
    ok(CU(cuInit)(0));
    ok(CU(cuDriverGetVersion)(&cuda_version));
    ok(N(nvmlSystemGetCudaDriverVersion)(&version));
    assert_int_equal(version, cuda_version);
    ok(N(nvmlSystemGetCudaDriverVersion_v2)(&version));
    assert_int_equal(version, cuda_version);
    ok(N(nvmlDeviceGetName)(d, name, 96u));
    ok(CU(cuDeviceGetName)(other, 96, 0));
    assert_string_equal(name, other);
    ok(N(nvmlDeviceGetUUID)(d, name, 96u));
    ok(CU(cuDeviceGetUuid)(&uuid, 0));
    snprintf(want, sizeof(want), "GPU-%02x%02x%02x%02x-", (unsigned char)uuid.bytes[0],
             (unsigned char)uuid.bytes[1], (unsigned char)uuid.bytes[2], (unsigned char)uuid.bytes[3]);
    assert_memory_equal(name, want, strlen(want));
    ok(N(nvmlDeviceGetHandleByUUID)(name, &same));
    assert_ptr_equal(same, d);
    ok(N(nvmlDeviceGetPciInfo_v3)(d, &pci));
    ok(N(nvmlDeviceGetHandleByPciBusId_v2)(pci.bus_id, &same));
    ok(N(nvmlDeviceGetHandleByPciBusId)(pci.legacy_bus_id, &same));
    ok(CU(cuDeviceGetPCIBusId)(other, 32, 0));
    ok(N(nvmlDeviceGetHandleByPciBusId_v2)(other, &same));
    ok(N(nvmlDeviceGetCudaComputeCapability)(d, &major, &minor));
    ok(CU(cuDeviceGetAttribute)(&attribute, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    assert_int_equal(major, attribute);
    ok(CU(cuDeviceTotalMem_v2)(&total, 0));
    ok(N(nvmlDeviceGetMemoryInfo)(d, &m));
    assert_int_equal(m.total, total);
    assert_int_equal(m.free + m.used, m.total);
    ok(N(nvmlDeviceGetMemoryInfo_v2)(d, &m2));
    assert_int_equal(m2.free + m2.used + m2.reserved, m2.total);
    m2.version = 1;
    assert_int_equal(N(nvmlDeviceGetMemoryInfo_v2)(d, &m2), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    ok(N(nvmlDeviceGetComputeMode)(d, &value));
    ok(N(nvmlDeviceGetArchitecture)(d, &value));
    assert_true(value >= NVML_DEVICE_ARCH_TURING);
}

/* All versions of a call agree, each in its own layout. */
static void all_versions_agree(void **state)
{
    nvmlPciInfo_t pci[3];
    nvmlDevice_t d = device(), same = NULL;
    unsigned clock = 0;
    int khz = 0;

    (void)state;
    memset(pci, 0, sizeof(pci));
    ok(N(nvmlDeviceGetHandleByIndex)(0u, &same));
    assert_ptr_equal(same, d);
    ok(N(nvmlDeviceGetPciInfo)(d, &pci[0])); /* version 1 has no long PCI address */
    ok(N(nvmlDeviceGetPciInfo_v2)(d, &pci[1]));
    ok(N(nvmlDeviceGetPciInfo_v3)(d, &pci[2]));
    assert_string_equal(pci[0].legacy_bus_id, pci[2].legacy_bus_id);
    assert_int_equal(pci[0].bus, pci[2].bus);
    assert_int_equal(pci[0].bus_id[0], 0);
    assert_int_equal(pci[1].bus, pci[2].bus);
    assert_int_equal(pci[1].ids, pci[2].ids);
    for (unsigned kind = NVML_CLOCK_GRAPHICS; kind <= NVML_CLOCK_VIDEO; kind++) {
        int r = (int)N(nvmlDeviceGetClockInfo)(d, kind, &clock);

        assert_true(r == NVML_ERROR_NOT_SUPPORTED || (r == NVML_SUCCESS && clock > 0));
    }
    assert_int_equal(N(nvmlDeviceGetClockInfo)(d, 4u, &clock), NVML_ERROR_INVALID_ARGUMENT);
    ok(N(nvmlDeviceGetMaxClockInfo)(d, NVML_CLOCK_SM, &clock));
    ok(CU(cuInit)(0));
    ok(CU(cuDeviceGetAttribute)(&khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 0));
    assert_int_equal(clock, khz / 1000);
    assert_int_equal(N(nvmlDeviceGetMaxClockInfo)(d, 4u, &clock), NVML_ERROR_INVALID_ARGUMENT);
}

/* The software GPU has no sensors and returns an error. */
static void what_nobody_knows(void **state)
{
    static const char *const sensors[] = {"nvmlDeviceGetPowerUsage", "nvmlDeviceGetFanSpeed",
                                          "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPerformanceState"};
    nvmlDevice_t d = device();
    unsigned value = 77, other = 0;

    (void)state;
    if (getenv("NVML_TEST_REAL") != NULL)
        skip();
    for (unsigned i = 0; i < sizeof(sensors) / sizeof(sensors[0]); i++)
        assert_int_equal(look_up(nvml, sensors[i])(d, &value), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(N(nvmlDeviceGetTemperature)(d, 0u, &value), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(N(nvmlDeviceGetTemperature)(d, 9u, &value), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(N(nvmlDeviceGetMigMode)(d, &value, &other), NVML_ERROR_NOT_SUPPORTED);
    other = 5;
    assert_true(N(nvmlDeviceGetMaxMigDeviceCount)(d, &other) == NVML_SUCCESS && other == 0);
    assert_int_equal(N(nvmlDeviceGetVbiosVersion)(d, "", 0u), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(value, 77);
    for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        assert_int_equal(look_up(nvml, refused[i])(d, &value), NVML_ERROR_NOT_SUPPORTED);
}

static unsigned processes(nvmlProcessInfo_v2_t *list, unsigned room)
{
    ok(N(nvmlDeviceGetComputeRunningProcesses_v3)(device(), &room, list));
    return room;
}

static void looking_is_not_using(void **state)
{
    nvmlProcessInfo_v2_t list[8];

    (void)state;
    assert_int_equal(processes(list, 8), 0);
}

static void memory_of_processes(void **state)
{
    nvmlProcessInfo_v2_t list[8];
    nvmlProcessInfo_v1_t old[8];
    nvmlMemory_t before, after;
    unsigned n = 0;
    CUcontext ctx;
    CUdeviceptr p;

    (void)state;
    ok(CU(cuInit)(0));
    ok(CU(cuDevicePrimaryCtxRetain)(&ctx, 0));
    ok(CU(cuCtxSetCurrent)(ctx));
    ok(N(nvmlDeviceGetMemoryInfo)(device(), &before));
    ok(CU(cuMemAlloc_v2)(&p, (size_t)96 << 20));
    ok(N(nvmlDeviceGetMemoryInfo)(device(), &after));
    assert_true(after.used >= before.used + (96 << 20));
    assert_int_equal(processes(list, 8), 1);
    assert_int_equal(list[0].pid, getpid());
    assert_true(list[0].used >= 96 << 20);
    assert_int_equal(list[0].gpu_instance, 0xffffffffu);
    assert_int_equal(N(nvmlDeviceGetComputeRunningProcesses_v3)(device(), &n, NULL),
                     NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(n, 1);
    n = 8;
    ok(N(nvmlDeviceGetComputeRunningProcesses)(device(), &n, old));
    assert_int_equal(old[0].pid, getpid());
    n = 8;
    ok(N(nvmlDeviceGetComputeRunningProcesses_v2)(device(), &n, list));
    assert_int_equal(n, 1);
    assert_int_equal(list[0].pid, getpid());
    n = 8;
    ok(N(nvmlDeviceGetGraphicsRunningProcesses_v3)(device(), &n, list));
    assert_int_equal(n, 0);
    ok(CU(cuMemFree_v2)(p));
    ok(N(nvmlDeviceGetMemoryInfo)(device(), &after));
    assert_true(after.used <= before.used);
}

/* A program that creates a context of its own and does nothing else with it. */
static void created_context_is_listed(void **state)
{
    nvmlProcessInfo_v2_t list[8];
    CUcontext ctx;
    int status = 0;
    pid_t pid;

    (void)state;
    pid = fork();
    if (pid == 0) {
        bool bad = CU(cuInit)(0) != 0 || CU(cuCtxCreate_v2)(&ctx, 0u, 0) != 0 || processes(list, 8) < 1;

        for (unsigned i = 0; !bad && list[i].pid != (unsigned)getpid(); i++)
            bad = i == 7;
        _exit(bad);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* nvidia-smi makes an event set at its start; events of the host's GPU do not reach guests. */
static void events(void **state)
{
    unsigned long long types = 7;
    char data[64];
    void *set = NULL, *more[80];
    unsigned n = 0;

    (void)state;
    assert_int_equal(N(nvmlEventSetCreate)(NULL), NVML_ERROR_INVALID_ARGUMENT);
    ok(N(nvmlEventSetCreate)(&set));
    ok(N(nvmlDeviceGetSupportedEventTypes)(device(), &types));
    assert_int_equal(types, 0);
    assert_int_equal(N(nvmlDeviceRegisterEvents)(device(), 8ull, set), NVML_ERROR_NOT_SUPPORTED);
    ok(N(nvmlDeviceRegisterEvents)(device(), 0ull, set));
    assert_int_equal(N(nvmlEventSetWait_v2)(set, data, 1u), NVML_ERROR_TIMEOUT);
    assert_int_equal(N(nvmlEventSetWait)(set, NULL, 1u), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(N(nvmlEventSetWait)(data, data, 1u), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(N(nvmlEventSetFree)(data), NVML_ERROR_INVALID_ARGUMENT);
    ok(N(nvmlEventSetFree)(set));
    assert_int_equal(N(nvmlEventSetFree)(set), NVML_ERROR_INVALID_ARGUMENT);
    while (n < 80 && N(nvmlEventSetCreate)(&more[n]) == NVML_SUCCESS)
        n++;
    assert_int_equal(n, 64);
    while (n)
        ok(N(nvmlEventSetFree)(more[--n]));
}

/* The table used by nvidia-smi: its lists of processes agree with the documented API. */
static void export_table(void **state)
{
    static const unsigned char id[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                         0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
    struct row {
        unsigned pid;
        unsigned long long used;
        unsigned instances[2];
        unsigned long long protected_used;
        char name[4096];
    } *rows = calloc(8, sizeof(*rows));
    nvmlProcessInfo_v2_t list[8];
    const union {
        uint64_t size;
        fn function;
    } *table = NULL;
    unsigned n = 8, want;
    CUcontext ctx;
    CUdeviceptr p;

    (void)state;
    assert_non_null(rows);
    assert_int_equal(N(nvmlInternalGetExportTable)(NULL, id), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(N(nvmlInternalGetExportTable)(&table, NULL), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(N(nvmlInternalGetExportTable)(&table, "0123456789abcdef"), NVML_ERROR_INVALID_ARGUMENT);
    assert_null(table);
    ok(N(nvmlInternalGetExportTable)(&table, id));
    assert_int_equal(table[0].size, 216 * 8);
    for (unsigned i = 1; i < 213; i++)
        assert_int_equal(table[i].size, 0);
    ok(CU(cuInit)(0));
    ok(CU(cuDevicePrimaryCtxRetain)(&ctx, 0));
    ok(CU(cuCtxSetCurrent)(ctx));
    ok(CU(cuMemAlloc_v2)(&p, (size_t)1 << 20));
    want = processes(list, 8);
    assert_true(want >= 1);
    ok(table[213].function(device(), &n, rows));
    assert_int_equal(n, want);
    for (unsigned i = 0; i < n; i++) {
        assert_true(rows[i].pid == list[i].pid && rows[i].used == list[i].used);
        assert_int_equal(rows[i].instances[0] & rows[i].instances[1], 0xffffffffu); /* none */
        if (rows[i].pid == (unsigned)getpid())
            assert_non_null(strstr(rows[i].name, "nvml_test"));
    }
    n = 0; /* no capacity: nothing is written */
    ok(table[213].function(device(), &n, NULL));
    assert_int_equal(n, 0);
    for (unsigned i = 214; i < 216; i++) {
        n = 8;
        ok(table[i].function(device(), &n, rows));
        assert_int_equal(n, 0);
        assert_int_equal(table[i].function(rows, &n, rows), NVML_ERROR_INVALID_ARGUMENT);
    }
    assert_int_equal(table[213].function(rows, &n, rows), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(table[213].function(device(), NULL, rows), NVML_ERROR_INVALID_ARGUMENT);
    ok(CU(cuMemFree_v2)(p));
    free(rows);
}

static void *fill_memory(void *arg)
{
    CUcontext ctx;
    CUdeviceptr p;

    ok(CU(cuDevicePrimaryCtxRetain)(&ctx, 0));
    ok(CU(cuCtxSetCurrent)(ctx));
    ok(CU(cuMemAlloc_v2)(&p, (size_t)64 << 20));
    /* Only one pending: the last of thousands would end long after the test. */
    while (!__atomic_load_n((int *)arg, __ATOMIC_ACQUIRE)) {
        ok(CU(cuMemsetD8_v2)(p, 1, (size_t)64 << 20));
        ok(CU(cuCtxSynchronize)());
    }
    ok(CU(cuMemFree_v2)(p));
    return NULL;
}

static void work_is_utilization(void **state)
{
    nvmlUtilization_t u = {0, 0};
    pthread_t t;
    int stop = 0;

    (void)state;
    ok(CU(cuInit)(0));
    assert_int_equal(pthread_create(&t, NULL, fill_memory, &stop), 0);
    for (int i = 0; i < 100 && u.gpu == 0; i++) {
        ok(N(nvmlDeviceGetUtilizationRates)(device(), &u));
        usleep(100000);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(t, NULL);
    assert_uint_in_range(u.gpu, 1, 100);
}

/* PyTorch counts devices with NVML, then forks: neither NVML nor CUDA may fail. */
static void survives_fork(void **state)
{
    int status = 0;
    pid_t pid;

    (void)state;
    ok(N(nvmlInit_v2)());
    pid = fork();
    if (pid == 0) {
        unsigned n = 0;
        int bad = N(nvmlDeviceGetCount_v2)(&n) != NVML_SUCCESS || n != 1 ||
                  N(nvmlInit_v2)() != NVML_SUCCESS || N(nvmlShutdown)() != NVML_SUCCESS || CU(cuInit)(0) != 0;

        _exit(bad);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    unsigned n = 0;
    ok(N(nvmlDeviceGetCount_v2)(&n)); /* the parent's connection is unaffected */
    nvmlMemory_t m;
    ok(N(nvmlDeviceGetMemoryInfo)(device(), &m));
    ok(N(nvmlShutdown)());
}

static void *hammer(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        nvmlMemory_t m;
        nvmlDevice_t d;

        if (N(nvmlInit_v2)() != NVML_SUCCESS)
            return (void *)1;
        if (N(nvmlDeviceGetHandleByIndex_v2)(0u, &d) != NVML_SUCCESS ||
            N(nvmlDeviceGetMemoryInfo)(d, &m) != NVML_SUCCESS || m.total == 0)
            return (void *)2;
        if (N(nvmlShutdown)() != NVML_SUCCESS)
            return (void *)3;
    }
    return NULL;
}

static void threads(void **state)
{
    pthread_t t[8];
    void *result;

    (void)state;
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&t[i], NULL, hammer, NULL), 0);
    for (int i = 0; i < 8; i++) {
        pthread_join(t[i], &result);
        assert_null(result);
    }
    assert_int_equal(N(nvmlShutdown)(), NVML_ERROR_UNINITIALIZED);
}

static void no_backend(void **state)
{
    const char *socket = getenv("VGPU_SOCKET");
    char *keep = strdup(socket != NULL ? socket : "");

    (void)state;
    setenv("VGPU_SOCKET", "/nonexistent/vgpu.sock", 1);
    assert_int_equal(N(nvmlInitWithFlags)(NVML_INIT_FLAG_NO_GPUS), NVML_ERROR_DRIVER_NOT_LOADED);
    assert_int_equal(N(nvmlShutdown)(), NVML_ERROR_UNINITIALIZED);
    ok(*keep != '\0' ? setenv("VGPU_SOCKET", keep, 1) : unsetenv("VGPU_SOCKET"));
    free(keep);
    ok(N(nvmlInit_v2)());
    ok(N(nvmlShutdown)());
}

/* A device is its own peer, without NVLink. */
static void peers(void **state)
{
    nvmlDevice_t d = device();
    unsigned status = 7;

    (void)state;
    ok(N(nvmlDeviceGetP2PStatus)(d, d, NVML_P2P_CAPS_INDEX_READ, &status));
    assert_int_equal(status, NVML_P2P_STATUS_OK);
    ok(N(nvmlDeviceGetP2PStatus)(d, d, NVML_P2P_CAPS_INDEX_NVLINK, &status));
    assert_int_equal(status, NVML_P2P_STATUS_NOT_SUPPORTED);
    assert_int_equal(N(nvmlDeviceGetP2PStatus)(d, d, NVML_P2P_CAPS_INDEX_UNKNOWN, &status),
                     NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(N(nvmlDeviceGetP2PStatus)(d, NULL, 0u, &status), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(N(nvmlDeviceGetP2PStatus)(d, d, 0u, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

#define IN_USE(test) cmocka_unit_test_setup_teardown(test, init, end)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(before_init),
                                       cmocka_unit_test(users_are_counted),
                                       cmocka_unit_test(no_backend),
                                       cmocka_unit_test(threads),
                                       IN_USE(survives_fork),
                                       IN_USE(null_and_foreign_handles),
                                       IN_USE(texts_must_fit),
                                       IN_USE(what_nobody_knows),
                                       IN_USE(looking_is_not_using),
                                       IN_USE(created_context_is_listed),
                                       IN_USE(events),
                                       IN_USE(export_table),
                                       IN_USE(says_what_cuda_says),
                                       IN_USE(all_versions_agree),
                                       IN_USE(peers),
                                       IN_USE(memory_of_processes),
                                       IN_USE(work_is_utilization)};

    nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (nvml == NULL || cuda == NULL)
        errx(1, "%s", dlerror());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
