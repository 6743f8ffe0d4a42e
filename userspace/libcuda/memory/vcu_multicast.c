/* SPDX-License-Identifier: MIT */
/*
 * Multicast objects: handles of physical memory (vcu_vmm.c) to which the memory of several devices is
 * bound. CUDA calls that wait until all devices were added wait in the guest, because the worker
 * must not block.
 */
#include "memory.h"

#include <stdlib.h>
#include <time.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

#define ABSENT "no multicast objects (device attribute 132 is 0)"

struct team {
    struct team *next;
    uint64_t handle;
    uint64_t added; /* a bit for each device */
    uint32_t devices;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list; a leaf */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct team *teams;

static struct team *find_locked(uint64_t handle)
{
    struct team *t = teams;

    while (t != NULL && t->handle != handle)
        t = t->next;
    return t;
}

#define LOOK_NS 100000000 /* interval at which a wait checks whether the worker is gone */

/* Waits for a bounded time; false: the object is complete, or gone. */
static bool multicast_wait(uint64_t handle)
{
    const struct team *t;
    struct timespec ts;
    bool missing;

    clock_gettime(CLOCK_REALTIME, &ts);
    ts.tv_nsec += LOOK_NS;
    if (ts.tv_nsec >= 1000000000) {
        ts.tv_sec++;
        ts.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&lock);
    t = find_locked(handle);
    missing = t != NULL && (uint32_t)__builtin_popcountll(t->added) < t->devices;
    if (missing)
        pthread_cond_timedwait(&changed, &lock, &ts);
    pthread_mutex_unlock(&lock);
    return missing;
}

/* Also ends when the object is released: another thread may do that instead of adding the last
 * device. And when the worker is gone: the call that follows returns that error. */
void vcu_multicast_await(uint64_t handle)
{
    while (multicast_wait(handle) && lnk_ring_lost(&vcu.ring) == CUDA_SUCCESS)
        continue;
}

void vcu_multicast_forget(uint64_t handle)
{
    struct team *t = NULL;

    pthread_mutex_lock(&lock);
    for (struct team **p = &teams; *p != NULL; p = &(*p)->next) {
        if ((*p)->handle != handle)
            continue;
        t = *p;
        *p = t->next;
        break;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    free(t);
}

static bool any_device_can(void)
{
    for (int i = 0; i < vcu.device_count; i++) {
        if (vcu.devices[i].attributes[CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED] != 0)
            return true;
    }
    return false;
}

/* Without the feature no argument is looked at (driver 580). */
static CUresult check_feature(const char *call)
{
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS || any_device_can())
        return res;
    return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call, "%s", ABSENT);
}

static bool prop_ok(const CUmulticastObjectProp *prop)
{
    return prop != NULL && prop->numDevices != 0 && prop->size != 0 && prop->flags == 0;
}

CUresult vcu_cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
                                       CUmulticastGranularity_flags option)
{
    uint64_t g = 0;
    CUresult res = check_feature("cuMulticastGetGranularity");

    if (res != CUDA_SUCCESS)
        return res;
    if ((unsigned)option > CU_MULTICAST_GRANULARITY_RECOMMENDED || granularity == NULL || !prop_ok(prop))
        return CUDA_ERROR_INVALID_VALUE;
    res = vgp_call_vgpMulticastGranularity(prop->numDevices, prop->size, prop->handleTypes, prop->flags,
                                           option, &g);
    if (res == CUDA_SUCCESS)
        *granularity = g;
    return res;
}

CUresult vcu_cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop)
{
    struct team *t;
    CUresult res = check_feature("cuMulticastCreate");

    if (res != CUDA_SUCCESS)
        return res;
    if (mcHandle == NULL || !prop_ok(prop))
        return CUDA_ERROR_INVALID_VALUE;
    t = calloc(1, sizeof(*t));
    if (t == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    t->devices = prop->numDevices;
    t->handle = vgp_handle_mint(VGP_H_ALLOCATION);
    res = t->handle == 0 ? CUDA_ERROR_OUT_OF_MEMORY
                         : vgp_call_vgpMulticastCreate(t->handle, prop->numDevices, prop->size,
                                                       prop->handleTypes, prop->flags);
    if (res != CUDA_SUCCESS) {
        vgp_handle_drop(t->handle);
        free(t);
        return res;
    }
    *mcHandle = t->handle;
    pthread_mutex_lock(&lock);
    t->next = teams;
    teams = t;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult vcu_multicast_check(const char *call, uint64_t handle)
{
    CUresult res = check_feature(call);

    if (res != CUDA_SUCCESS || vgp_handle_live(handle, VGP_H_ALLOCATION))
        return res;
    return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "the handle is not live");
}

CUresult vcu_cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
    struct vcu_device *d;
    struct team *t;
    CUresult res = vcu_multicast_check("cuMulticastAddDevice", mcHandle);

    if (res == CUDA_SUCCESS)
        res = vcu_device_get(dev, &d);
    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpMulticastAddDevice(mcHandle, dev);
    if (res != CUDA_SUCCESS)
        return res;
    pthread_mutex_lock(&lock);
    t = find_locked(mcHandle);
    if (t != NULL)
        t->added |= UINT64_C(1) << dev;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}
