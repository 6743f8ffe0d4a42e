/* SPDX-License-Identifier: MIT */
/* Handlers of the transport's own calls: hello, devices, blobs, shared regions. */
#include "graph.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "vgp_worker.h"

struct vgp_provider vgb_provider;

static void *find(void *ctx, const char *name)
{
    return dlsym(ctx, name);
}

void vgb_calls_init(struct vgb_worker *w)
{
    vgp_provider_load(&vgb_provider, find, vgb_cu.dl);
    /* Drivers before 12.8 have it without the suffix only, with the same meaning and parameters. */
    if (!vgb_provider.cuEventElapsedTime_v2) {
        void *sym = find(vgb_cu.dl, "cuEventElapsedTime");

        memcpy(&vgb_provider.cuEventElapsedTime_v2, &sym, sizeof(sym));
    }
    vgb_quota_wrap(w);
    vgb_exec_wrap(w);
    vgb_ipc_wrap(w);
    vgb_share_wrap(w);
    vgb_share_init(w);
}

/* Fills a string result; returns its length with the NUL. */
static uint32_t put_text(char *to, size_t room, const char *text)
{
    snprintf(to, room, "%s", text);
    return (uint32_t)strlen(to) + 1;
}

CUresult vgb_do_vgpHello(struct vgb_call *c, const struct vgp_args_vgpHello *a, const char *label,
                         struct vgp_ret_vgpHello *r, struct vgp_outs_vgpHello *o)
{
    r->workerVersionMajor = VGP_VERSION_MAJOR;
    r->workerVersionMinor = c->w->minor;
    r->driverVersion = vgb_cu.driver_version;
    r->deviceCount = vgb_cu.device_count;
    r->features = c->w->minor >= 1 ? VGP_FEATURE_NVML : 0;
    r->provider_len = put_text(o->provider, sizeof(o->provider),
                               vgb_cu.is_soft ? "software GPU" : "NVIDIA driver");
    if (label[0])
        snprintf(c->w->label, sizeof(c->w->label), "%s", label);
    return a->versionMajor == VGP_VERSION_MAJOR ? CUDA_SUCCESS : CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
}

CUresult vgb_do_vgpDeviceInfo(struct vgb_call *c, const struct vgp_args_vgpDeviceInfo *a,
                              struct vgp_ret_vgpDeviceInfo *r, struct vgp_outs_vgpDeviceInfo *o)
{
    CUdevice dev;
    CUuuid uuid;
    size_t total = 0;
    CUresult e = vgb_cu.DeviceGet(&dev, (int)a->ordinal);

    if (e != CUDA_SUCCESS)
        return e;
    if (vgb_provider.cuDeviceTotalMem_v2)
        vgb_provider.cuDeviceTotalMem_v2(&total, dev);
    r->totalMem = total;
    r->vramQuota = c->w->quota.limit;
    if (vgb_provider.cuDeviceGetUuid_v2 &&
        vgb_provider.cuDeviceGetUuid_v2(&uuid, dev) == CUDA_SUCCESS) {
        memcpy(o->uuid, &uuid, sizeof(o->uuid));
        r->uuid_len = sizeof(o->uuid);
    }
    if (vgb_cu.DeviceGetName(o->name, (int)sizeof(o->name) - 1, dev) == CUDA_SUCCESS)
        r->name_len = (uint32_t)strlen(o->name) + 1;
    if (vgb_provider.cuDeviceGetPCIBusId &&
        vgb_provider.cuDeviceGetPCIBusId(o->pciBusId, (int)sizeof(o->pciBusId) - 1, dev) ==
            CUDA_SUCCESS)
        r->pciBusId_len = (uint32_t)strlen(o->pciBusId) + 1;
    for (int i = 1; i < CU_DEVICE_ATTRIBUTE_MAX && i < 256; i++) {
        int value = 0;

        if (vgb_provider.cuDeviceGetAttribute &&
            vgb_provider.cuDeviceGetAttribute(&value, (CUdevice_attribute)i, dev) == CUDA_SUCCESS)
            o->attributes[i] = value;
        r->attributes_len = (uint32_t)i + 1;
    }
    /* Descriptors of NVIDIA's driver do not leave the worker. */
    o->attributes[CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED] &=
        vgb_share_handle_types() != 0;
    o->attributes[CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES] &=
        (int)vgb_share_handle_types();
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpDeviceGetAttribute(struct vgb_call *c,
                                      const struct vgp_args_vgpDeviceGetAttribute *a,
                                      struct vgp_ret_vgpDeviceGetAttribute *r)
{
    if (!vgb_provider.cuDeviceGetAttribute)
        return vgb_missing(c, "cuDeviceGetAttribute");
    return vgb_provider.cuDeviceGetAttribute(&r->value, (CUdevice_attribute)a->attribute,
                                             a->device);
}

CUresult vgb_do_vgpBlobAppend(struct vgb_call *c, const struct vgp_args_vgpBlobAppend *a,
                              const void *data)
{
    CUresult r = vgb_blob_append(c->w, a->blobId, a->totalSize, data, a->data_len);

    if (r == CUDA_ERROR_INVALID_VALUE)
        return vgb_malformed(c, "blob %u: sizes do not add up", a->blobId);
    return CUDA_SUCCESS; /* no memory: the call that uses the blob says so */
}

CUresult vgb_do_vgpBlobDrop(struct vgb_call *c, const struct vgp_args_vgpBlobDrop *a)
{
    vgb_blob_drop(c->w, a->blobId);
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpPing(struct vgb_call *c, const struct vgp_args_vgpPing *a,
                        struct vgp_ret_vgpPing *r)
{
    (void)c;
    r->echo = a->value;
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpRegionRegister(struct vgb_call *c, const struct vgp_args_vgpRegionRegister *a,
                                  struct vgp_ret_vgpRegionRegister *r)
{
    struct vgb_region *g = vgb_region_by_id(c->w, a->region);
    CUdeviceptr dptr = 0;
    unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;

    if (!vgb_provider.cuMemHostRegister_v2 || !vgb_provider.cuMemHostGetDevicePointer_v2)
        return vgb_missing(c, "cuMemHostRegister");
    if (!g || !g->base || g->registered || a->va < g->guest_va || !a->length ||
        !vgp_range_ok(a->va - g->guest_va, a->length, g->length))
        return CUDA_ERROR_INVALID_VALUE;
    if (a->flags & VGP_REGION_READONLY || g->flags & VGB_MAP_READONLY)
        flags |= CU_MEMHOSTREGISTER_READ_ONLY;
    uint8_t *at = g->base + (a->va - g->guest_va);
    CUresult e = vgb_provider.cuMemHostRegister_v2(at, a->length, flags);
    if (e != CUDA_SUCCESS)
        return e;
    g->registered = true;
    g->registered_at = at;
    g->ctx = vgb_base_context(c->w->current);
    e = vgb_provider.cuMemHostGetDevicePointer_v2(&dptr, at, 0);
    r->devicePointer = dptr;
    return e;
}

static CUresult finish_unregister(struct vgb_worker *w, struct vgb_wait *wait, CUresult r)
{
    (void)w;
    (void)r; /* also after an error the memory must be given back */
    return vgb_provider.cuMemHostUnregister((void *)(uintptr_t)wait->arg[0]);
}

CUresult vgb_do_vgpRegionUnregister(struct vgb_call *c,
                                    const struct vgp_args_vgpRegionUnregister *a)
{
    struct vgb_region *g = vgb_region_by_id(c->w, a->region);
    struct vgb_wait *wait;

    if (!g || !g->registered || !vgb_provider.cuMemHostUnregister)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    wait = vgb_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    g->registered = false;
    wait->finish = finish_unregister;
    wait->arg[0] = (uintptr_t)g->registered_at;
    vgb_wait_add_context(c, wait);
    return vgb_wait_start(c, wait);
}
