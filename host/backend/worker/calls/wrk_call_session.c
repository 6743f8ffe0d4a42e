/* SPDX-License-Identifier: MIT */
/* Handlers of the transport's own calls: hello, devices, blobs, shared regions. */
#include "calls.h"

#include <stdio.h>
#include <string.h>

/* Fills a string result; returns its length with the NUL. */
static uint32_t put_text(char *to, size_t room, const char *text)
{
    snprintf(to, room, "%s", text);
    return (uint32_t)strlen(to) + 1;
}

CUresult wrk_do_vgpHello(struct wrk_call *c, const struct vgp_args_vgpHello *a, const char *label,
                         struct vgp_ret_vgpHello *r, struct vgp_outs_vgpHello *o)
{
    r->workerVersionMajor = VGP_VERSION_MAJOR;
    r->workerVersionMinor = c->w->minor;
    r->driverVersion = wrk_capabilities.driver_version;
    r->deviceCount = wrk_capabilities.device_count;
    r->features = c->w->minor >= 1 ? VGP_FEATURE_NVML : 0;
    r->features |= c->w->minor >= 7 && c->w->images ? VGP_FEATURE_IMAGES : 0;
    r->provider_len = put_text(o->provider, sizeof(o->provider), wrk_capabilities.title);
    if (label[0])
        snprintf(c->w->label, sizeof(c->w->label), "%s", label);
    return a->versionMajor == VGP_VERSION_MAJOR ? CUDA_SUCCESS : CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
}

CUresult wrk_do_vgpDeviceInfo(struct wrk_call *c, const struct vgp_args_vgpDeviceInfo *a,
                              struct vgp_ret_vgpDeviceInfo *r, struct vgp_outs_vgpDeviceInfo *o)
{
    CUdevice dev;
    CUuuid uuid;
    size_t total = 0;
    CUresult e = wrk_provider.cuDeviceGet(&dev, (int)a->ordinal);

    if (e != CUDA_SUCCESS)
        return e;
    if (wrk_provider.cuDeviceTotalMem_v2)
        wrk_provider.cuDeviceTotalMem_v2(&total, dev);
    r->totalMem = total;
    r->vramQuota = c->w->quota.limit;
    if (wrk_provider.cuDeviceGetUuid_v2 && wrk_provider.cuDeviceGetUuid_v2(&uuid, dev) == CUDA_SUCCESS) {
        memcpy(o->uuid, &uuid, sizeof(o->uuid));
        r->uuid_len = sizeof(o->uuid);
    }
    if (wrk_provider.cuDeviceGetName(o->name, (int)sizeof(o->name) - 1, dev) == CUDA_SUCCESS)
        r->name_len = (uint32_t)strlen(o->name) + 1;
    if (wrk_provider.cuDeviceGetPCIBusId &&
        wrk_provider.cuDeviceGetPCIBusId(o->pciBusId, (int)sizeof(o->pciBusId) - 1, dev) == CUDA_SUCCESS)
        r->pciBusId_len = (uint32_t)strlen(o->pciBusId) + 1;
    for (int i = 1; i < VGP_DEVICE_ATTRIBUTE_END && i < 256; i++) {
        int value = 0;

        if (wrk_provider.cuDeviceGetAttribute &&
            wrk_provider.cuDeviceGetAttribute(&value, (CUdevice_attribute)i, dev) == CUDA_SUCCESS)
            o->attributes[i] = value;
        r->attributes_len = (uint32_t)i + 1;
    }
    /* Descriptors of NVIDIA's driver do not leave the worker. */
    o->attributes[CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED] &=
        wrk_share_handle_types() != 0;
    o->attributes[CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES] &= (int)wrk_share_handle_types();
    o->attributes[CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED] &= wrk_capabilities.ipc_events;
    return CUDA_SUCCESS;
}

/* NVIDIA's library keeps a page of each event in /dev/shm. */
int wrk_attribute_shown(uint32_t attribute, int value)
{
    return attribute == CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED ? value & wrk_capabilities.ipc_events : value;
}
