/* SPDX-License-Identifier: MIT */
/* Loads the provider: any shared object with the CUDA driver API. NVIDIA's libcuda.so.1 or ours. */
#include "worker.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct vgb_core vgb_cu;

/* Pointers to functions through dlsym, without a cast that ISO C does not define. */
static bool load(const char *name, void *slot)
{
    void *sym = dlsym(vgb_cu.dl, name);

    memcpy(slot, &sym, sizeof(sym));
    return sym != NULL;
}

static const char *load_core(void)
{
    static const struct {
        const char *name;
        void *slot;
    } need[] = {
        {"cuInit", &vgb_cu.Init},
        {"cuDriverGetVersion", &vgb_cu.DriverGetVersion},
        {"cuDeviceGetCount", &vgb_cu.DeviceGetCount},
        {"cuDeviceGet", &vgb_cu.DeviceGet},
        {"cuDeviceGetName", &vgb_cu.DeviceGetName},
        {"cuCtxSetCurrent", &vgb_cu.CtxSetCurrent},
        {"cuCtxSynchronize", &vgb_cu.CtxSynchronize},
        {"cuStreamCreate", &vgb_cu.StreamCreate},
        {"cuStreamQuery", &vgb_cu.StreamQuery},
        {"cuStreamSynchronize", &vgb_cu.StreamSynchronize},
        {"cuEventCreate", &vgb_cu.EventCreate},
        {"cuEventDestroy_v2", &vgb_cu.EventDestroy},
        {"cuEventRecord", &vgb_cu.EventRecord},
        {"cuEventQuery", &vgb_cu.EventQuery},
        {"cuEventSynchronize", &vgb_cu.EventSynchronize},
    };

    for (unsigned i = 0; i < sizeof(need) / sizeof(need[0]); i++) {
        if (!load(need[i].name, need[i].slot))
            return need[i].name;
    }
    load("cuMemHostRegister_v2", &vgb_cu.MemHostRegister);
    load("cuMemHostUnregister", &vgb_cu.MemHostUnregister);
    load("sg_last_error_detail", &vgb_cu.last_error_detail);
    load("sg_set_error_sink", &vgb_cu.set_error_sink);
    load("sg_set_share", &vgb_cu.set_share);
    load("sg_graph_exec_name", &vgb_cu.graph_exec_name);
    vgb_cu.is_soft = load("sg_set_print_sink", &vgb_cu.set_print_sink);
    return NULL;
}

int vgb_provider_open(const char *path, char *err, size_t err_size)
{
    CUresult r;
    CUdevice dev;

    vgb_cu.dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!vgb_cu.dl) {
        snprintf(err, err_size, "%s", dlerror());
        return -1;
    }
    const char *missing = load_core();
    if (missing) {
        snprintf(err, err_size, "%s does not export %s: not a CUDA driver library", path, missing);
        return -1;
    }
    r = vgb_cu.Init(0);
    if (r == CUDA_SUCCESS)
        r = vgb_cu.DriverGetVersion(&vgb_cu.driver_version);
    if (r == CUDA_SUCCESS)
        r = vgb_cu.DeviceGetCount(&vgb_cu.device_count);
    if (r != CUDA_SUCCESS) {
        snprintf(err, err_size, "%s: cuInit or the device query gave CUDA error %d", path, (int)r);
        return -1;
    }
    if (vgb_cu.device_count > 0 && vgb_cu.DeviceGet(&dev, 0) == CUDA_SUCCESS)
        vgb_cu.DeviceGetName(vgb_cu.name, (int)sizeof(vgb_cu.name) - 1, dev);
    return 0;
}
