/* SPDX-License-Identifier: MIT */
/*
 * client QUESTION: the devices shown by libcuda and NVML, in lines that run.sh compares.
 *   cuda    cuInit's result, then UUID and PCI bus id of each device
 *   nvml    the same from NVML
 *   use     works on device 0, then prints the devices on which NVML lists this process, and the
 *           memory in use
 *   beyond  an ordinal of another backend, and an address given to another process: CUresults
 *   late    queries the version, sets CUDA_VISIBLE_DEVICES=1, then as `cuda`
 *   forked  NVML's number of devices before a fork and in the child
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvml_abi.h"

#define SIZE (8u << 20)

/* Ends the program with the name of the step if it fails. */
static void need(const char *what, int r)
{
    if (r == 0)
        return;
    printf("FAIL %s %d\n", what, r);
    exit(1);
}

/* A single type for all functions: the caller passes the arguments of each. */
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
typedef nvmlReturn_t (*nvml_fn)();

static nvml_fn nvml(const char *name)
{
    static void *library;
    nvml_fn f;
    void *sym;

    if (library == NULL)
        library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    sym = library != NULL ? dlsym(library, name) : NULL;
    memcpy(&f, &sym, sizeof(f));
    need(name, sym == NULL);
    return f;
}

static void cuda_devices(void)
{
    int n = 0, r = (int)cuInit(0);

    printf("init %d\n", r);
    if (r == 0)
        need("cuDeviceGetCount", cuDeviceGetCount(&n));
    for (int i = 0; i < n; i++) {
        CUuuid u;
        char bus[32];
        CUdevice d = -1;

        need("cuDeviceGetUuid", cuDeviceGetUuid(&u, i));
        need("cuDeviceGetPCIBusId", cuDeviceGetPCIBusId(bus, sizeof(bus), i));
        need("cuDeviceGetByPCIBusId", cuDeviceGetByPCIBusId(&d, bus));
        printf("GPU-");
        for (int k = 0; k < 16; k++)
            printf("%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", (unsigned char)u.bytes[k]);
        printf(" %s%s\n", bus, d == i ? "" : " (another device's)");
    }
}

static unsigned nvml_count(void)
{
    unsigned n = 0;

    need("nvmlDeviceGetCount_v2", (int)nvml("nvmlDeviceGetCount_v2")(&n));
    return n;
}

static nvmlDevice_t nvml_device(unsigned i)
{
    nvmlDevice_t d = NULL;

    need("nvmlDeviceGetHandleByIndex_v2", (int)nvml("nvmlDeviceGetHandleByIndex_v2")(i, &d));
    return d;
}

static void nvml_devices(void)
{
    need("nvmlInit_v2", (int)nvml("nvmlInit_v2")());
    for (unsigned i = 0, n = nvml_count(); i < n; i++) {
        nvmlDevice_t d = nvml_device(i), again = NULL, first = nvml_device(0);
        char uuid[96];
        nvmlPciInfo_t pci;
        unsigned index = 99, peer = 99;

        need("nvmlDeviceGetUUID", (int)nvml("nvmlDeviceGetUUID")(d, uuid, (unsigned)sizeof(uuid)));
        need("nvmlDeviceGetPciInfo_v3", (int)nvml("nvmlDeviceGetPciInfo_v3")(d, &pci));
        need("nvmlDeviceGetHandleByUUID", (int)nvml("nvmlDeviceGetHandleByUUID")(uuid, &again));
        need("the device of a UUID", again != d);
        need("nvmlDeviceGetHandleByPciBusId_v2",
             (int)nvml("nvmlDeviceGetHandleByPciBusId_v2")(pci.bus_id, &again));
        need("the device of a bus id", again != d);
        need("nvmlDeviceGetIndex", (int)nvml("nvmlDeviceGetIndex")(d, &index));
        need("the index", index != i);
        need("nvmlDeviceGetP2PStatus",
             (int)nvml("nvmlDeviceGetP2PStatus")(d, first, NVML_P2P_CAPS_INDEX_READ, &peer));
        printf("%s %s peer of the first: %u\n", uuid, pci.bus_id, peer == NVML_P2P_STATUS_OK);
    }
}

static void use(void)
{
    static unsigned char back[SIZE];
    nvmlProcessInfo_v2_t list[64];
    CUcontext context;
    CUdeviceptr p;

    need("cuInit", cuInit(0));
    need("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, 0));
    need("cuCtxSetCurrent", cuCtxSetCurrent(context));
    need("cuMemAlloc", cuMemAlloc(&p, SIZE));
    need("cuMemsetD8", cuMemsetD8(p, 0x5a, SIZE));
    need("cuMemcpyDtoH", cuMemcpyDtoH(back, p, SIZE));
    need("what was copied", back[0] != 0x5a || back[SIZE - 1] != 0x5a);
    need("nvmlInit_v2", (int)nvml("nvmlInit_v2")());
    for (unsigned i = 0, n = nvml_count(); i < n; i++) {
        unsigned count = 64, mine = 0;
        nvmlMemory_t m;

        need("nvmlDeviceGetComputeRunningProcesses_v3",
             (int)nvml("nvmlDeviceGetComputeRunningProcesses_v3")(nvml_device(i), &count, list));
        for (unsigned k = 0; k < count; k++)
            mine += list[k].pid == (unsigned)getpid() && list[k].used >= SIZE;
        need("nvmlDeviceGetMemoryInfo", (int)nvml("nvmlDeviceGetMemoryInfo")(nvml_device(i), &m));
        printf("%s%u:%u:%s", i ? " " : "", i, mine, m.used >= SIZE ? "used" : "free");
    }
    printf("\n");
}

static void beyond(void)
{
    CUcontext context;
    CUdeviceptr p = 0;
    int count = 0, peer = 0, n = 0;

    need("cuInit", cuInit(0));
    need("cuDeviceGetCount", cuDeviceGetCount(&n));
    need("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, 0));
    need("cuCtxSetCurrent", cuCtxSetCurrent(context));
    printf("devices %d", n);
    printf(" retain %d", cuDevicePrimaryCtxRetain(&context, n));
    printf(" attribute %d", cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_WARP_SIZE, n));
    printf(" peer %d", cuDeviceCanAccessPeer(&peer, 0, n));
    printf(" copy %d", cuMemcpyPeer(p, context, p, (CUcontext)(uintptr_t)0x1234567, 16));
    printf(" context %d\n", cuCtxSetCurrent((CUcontext)(uintptr_t)0x1234567));
}

static void late(void)
{
    int version = 0;

    need("cuDriverGetVersion", cuDriverGetVersion(&version));
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    cuda_devices();
}

static void forked(void)
{
    unsigned before;
    pid_t child;

    need("nvmlInit_v2", (int)nvml("nvmlInit_v2")());
    before = nvml_count();
    fflush(stdout);
    child = fork();
    if (child == 0) {
        printf("before %u child %u\n", before, nvml_count());
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"cuda", cuda_devices}, {"nvml", nvml_devices}, {"use", use},
               {"beyond", beyond},     {"late", late},         {"forked", forked}};

    for (size_t i = 0; argc == 2 && i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(argv[1], all[i].name) == 0) {
            all[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: client cuda|nvml|use|beyond|late|forked\n");
    return 2;
}
