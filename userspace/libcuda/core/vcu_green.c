/* SPDX-License-Identifier: MIT */
/*
 * Device resources and green contexts.
 *
 * A CUdevResource holds a number for the worker's resource of its driver. A green context has two
 * records: its own, and that of the CUcontext it is converted to, which all other code uses
 * (vcu_context.c).
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

#define GROUPS_MAX 256u /* of one split, and of one descriptor: the wire's maximum */
#define SPLIT_MAX 128u  /* groups of cuDevSmResourceSplit: two multiprocessors each, at the least */
#define GROUP_WORDS 5u  /* bytes of the parameters of a group on the wire */

/* libcuda's part of a CUdevResource, after its type. */
struct hidden {
    uint64_t magic;
    uint64_t resource; /* the worker's number */
    uint32_t count;
    uint32_t padding; /* 0: the program sees it */
};
#define MAGIC UINT64_C(0x6772656776677063)

/* ---- resources ---- */

static void resource_fill(CUdevResource *out, uint64_t resource, uint32_t count, uint32_t minimum,
                          uint32_t alignment)
{
    struct hidden h = {MAGIC, resource, count, 0};

    memset(out, 0, sizeof(*out));
    out->type = CU_DEV_RESOURCE_TYPE_SM;
    memcpy(out->_internal_padding, &h, sizeof(h));
    out->sm.smCount = count;
    out->sm.minSmPartitionSize = minimum;
    out->sm.smCoscheduledAlignment = alignment;
}

static CUresult resource_read(const char *call, const CUdevResource *r, uint64_t *resource)
{
    struct hidden h;

    if (r->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    memcpy(&h, r->_internal_padding, sizeof(h));
    if (h.magic != MAGIC || h.count != r->sm.smCount)
        return VCU_REFUSE(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, call,
                          "the resource was not made by CUDA, or changed since");
    *resource = h.resource;
    return CUDA_SUCCESS;
}

CUresult vcu_resource_ask(uint32_t what, int device, CUcontext context, CUgreenCtx green, CUdevResource *out,
                          CUdevResourceType type)
{
    uint32_t count = 0, minimum = 0, alignment = 0;
    uint64_t resource = 0;
    CUresult res;

    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    res =
        vgp_call_vgpDevResource(what, device, context, green, type, &resource, &count, &minimum, &alignment);
    if (res == CUDA_SUCCESS)
        resource_fill(out, resource, count, minimum, alignment);
    return res;
}

CUresult vcu_cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
                                         const CUdevResource *input, CUdevResource *remaining,
                                         unsigned int useFlags, unsigned int minCount)
{
    uint64_t resource, ids[GROUPS_MAX + 1];
    uint16_t counts[GROUPS_MAX + 1], minimums[GROUPS_MAX + 1], alignments[GROUPS_MAX + 1];
    uint32_t n[4] = {GROUPS_MAX + 1, GROUPS_MAX + 1, GROUPS_MAX + 1, GROUPS_MAX + 1};
    uint32_t groups = 0, left = 0, want;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (nbGroups == NULL || input == NULL || (result != NULL && *nbGroups == 0))
        return CUDA_ERROR_INVALID_VALUE;
    res = resource_read("cuDevSmResourceSplitByCount", input, &resource);
    if (res != CUDA_SUCCESS)
        return res;
    want = result == NULL ? 0 : *nbGroups < GROUPS_MAX ? *nbGroups : GROUPS_MAX;
    res = vgp_call_vgpResourceSplit(resource, want, useFlags, minCount, &groups, &left, ids, &n[0], counts,
                                    &n[1], minimums, &n[2], alignments, &n[3]);
    if (res != CUDA_SUCCESS)
        return res;
    if (result != NULL) {
        if (groups > want || left > 1 || n[0] != groups + left || n[1] != n[0] || n[2] != n[0] ||
            n[3] != n[0])
            return CUDA_ERROR_UNKNOWN;
        for (uint32_t i = 0; i < groups; i++)
            resource_fill(&result[i], ids[i], counts[i], minimums[i], alignments[i]);
        if (remaining != NULL && left != 0)
            resource_fill(remaining, ids[groups], counts[groups], minimums[groups], alignments[groups]);
        else if (remaining != NULL)
            memset(remaining, 0, sizeof(*remaining)); /* CU_DEV_RESOURCE_TYPE_INVALID */
    }
    *nbGroups = groups;
    return CUDA_SUCCESS;
}

/* What cuda.h 13.1 calls reserved includes localityDomainId of 13.5. */
struct group {
    uint32_t wire[GROUP_WORDS], reserved[11];
};
_Static_assert(sizeof(struct group) == sizeof(CU_DEV_SM_RESOURCE_GROUP_PARAMS), "layout of cuda.h");

CUresult vcu_cuDevSmResourceSplit(CUdevResource *result, unsigned int nbGroups, const CUdevResource *input,
                                  CUdevResource *remainder, unsigned int flags,
                                  CU_DEV_SM_RESOURCE_GROUP_PARAMS *groupParams)
{
    uint16_t sizes[SPLIT_MAX], counts[SPLIT_MAX + 1], minimums[SPLIT_MAX + 1], alignments[SPLIT_MAX + 1];
    uint32_t params[SPLIT_MAX * GROUP_WORDS], left = 0, want = result == NULL ? 0 : nbGroups;
    uint32_t n[5] = {SPLIT_MAX, SPLIT_MAX + 1, SPLIT_MAX + 1, SPLIT_MAX + 1, SPLIT_MAX + 1};
    uint64_t resource, ids[SPLIT_MAX + 1];
    struct group group;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (nbGroups == 0 || nbGroups > SPLIT_MAX || input == NULL || flags != 0 || groupParams == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = resource_read("cuDevSmResourceSplit", input, &resource);
    if (res != CUDA_SUCCESS)
        return res;
    for (uint32_t i = 0; i < nbGroups; i++) {
        memcpy(&group, &groupParams[i], sizeof(group));
        for (unsigned k = 0; k < sizeof(group.reserved) / sizeof(group.reserved[0]); k++) {
            if (group.reserved[k] != 0)
                return CUDA_ERROR_INVALID_VALUE;
        }
        memcpy(&params[(size_t)i * GROUP_WORDS], group.wire, sizeof(group.wire));
    }
    res = vgp_call_vgpResourceGroups(resource, want, flags, params, nbGroups * GROUP_WORDS, sizes, &n[0],
                                     &left, ids, &n[1], counts, &n[2], minimums, &n[3], alignments, &n[4]);
    if (res != CUDA_SUCCESS)
        return res;
    if (left > 1 || n[0] != nbGroups || n[1] != want + left || n[2] != n[1] || n[3] != n[1] || n[4] != n[1])
        return CUDA_ERROR_UNKNOWN;
    for (uint32_t i = 0; i < want; i++)
        resource_fill(&result[i], ids[i], counts[i], minimums[i], alignments[i]);
    for (uint32_t i = 0; i < nbGroups; i++)
        groupParams[i].smCount = sizes[i];
    if (remainder != NULL && left != 0)
        resource_fill(remainder, ids[want], counts[want], minimums[want], alignments[want]);
    else if (remainder != NULL)
        memset(remainder, 0, sizeof(*remainder)); /* CU_DEV_RESOURCE_TYPE_INVALID */
    return CUDA_SUCCESS;
}

CUresult vcu_cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources,
                                       unsigned int nbResources)
{
    uint64_t ids[GROUPS_MAX], desc;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (phDesc == NULL || resources == NULL || nbResources == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < nbResources; i++) {
        if (i == GROUPS_MAX)
            return VCU_REFUSE(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "cuDevResourceGenerateDesc",
                              "more than %u resources", GROUPS_MAX);
        res = resource_read("cuDevResourceGenerateDesc", &resources[i], &ids[i]);
        if (res != CUDA_SUCCESS)
            return res;
    }
    desc = vgp_handle_mint(VGP_H_RESOURCE_DESC);
    if (desc == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    res = vgp_call_vgpResourceDesc((CUdevResourceDesc)(uintptr_t)desc, ids, nbResources);
    if (res == CUDA_SUCCESS)
        *phDesc = (CUdevResourceDesc)(uintptr_t)desc;
    else
        vgp_handle_drop(desc);
    return res;
}

/* ---- green contexts ---- */

static struct vcu_green *green_new(int device, uint64_t *handle)
{
    struct vcu_green *g = calloc(1, sizeof(*g));

    if (g == NULL)
        return NULL;
    *handle = vgp_handle_mint(VGP_H_GREEN);
    g->context = *handle == 0 ? NULL : vcu_context_add_green(device);
    if (g->context == NULL) {
        vgp_handle_drop(*handle);
        free(g);
        return NULL;
    }
    g->device = device;
    g->context->green = *handle;
    vcu_handle_set_data(*handle, VGP_H_GREEN, g);
    return g;
}

CUresult vcu_cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
    struct vcu_device *d;
    struct vcu_green *g;
    CUdevResource own;
    CUcontext primary;
    uint64_t handle = 0;
    CUresult res = vcu_device_get(dev, &d);

    if (res != CUDA_SUCCESS)
        return res;
    if (phCtx == NULL || !vgp_handle_live((uintptr_t)desc, VGP_H_RESOURCE_DESC) ||
        flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    /* Documented; its primary context must not end before it. */
    res = vcu_cuDevicePrimaryCtxRetain(&primary, dev);
    if (res != CUDA_SUCCESS)
        return res;
    g = green_new(dev, &handle);
    res = g == NULL ? CUDA_ERROR_OUT_OF_MEMORY
                    : vgp_call_vgpGreenCtxCreate((CUgreenCtx)(uintptr_t)handle,
                                                 (CUcontext)(uintptr_t)g->context->handle, desc, dev, flags);
    if (res != CUDA_SUCCESS) {
        if (g != NULL) {
            vcu_context_drop(g->context);
            vgp_handle_drop(handle);
            free(g);
        }
        vcu_cuDevicePrimaryCtxRelease_v2(dev);
        return res;
    }
    if (vcu_resource_ask(VGP_RESOURCE_GREEN, 0, NULL, (CUgreenCtx)(uintptr_t)handle, &own,
                         CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS)
        g->context->sm_count = (int)own.sm.smCount;
    vcu_greens++;
    *phCtx = (CUgreenCtx)(uintptr_t)handle;
    return CUDA_SUCCESS;
}

CUresult vcu_green_get(CUgreenCtx h, struct vcu_green **g)
{
    CUresult res;

    *g = vcu_handle_data((uintptr_t)h, VGP_H_GREEN);
    if (*g == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    res = vcu_context_usable((*g)->context);
    return res == CUDA_ERROR_CONTEXT_IS_DESTROYED ? res : CUDA_SUCCESS;
}

/* The records are kept: another thread may be reading them. Green contexts are few. */
CUresult vcu_cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    struct vcu_green *g;
    CUresult res = vcu_check_init(), released;

    if (res != CUDA_SUCCESS)
        return res;
    res = vcu_green_get(hCtx, &g);
    if (g == NULL)
        return res;
    vcu_parked_send();
    vcu_units_context_ending(g->context);
    vcu_capture_forget_context(g->context->handle);
    vcu_green_forget(g->context);
    g->context->retained = 0;
    if (res == CUDA_SUCCESS) /* else it went with the primary context */
        res = vgp_call_vgpGreenCtxDestroy(hCtx);
    vcu_units_context_gone(g->context);
    vgp_handle_drop((uintptr_t)hCtx); /* no effect when the encoder already dropped it */
    vgp_handle_drop(g->context->handle);
    vcu_greens--;
    if (res == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return res;
    released = vcu_cuDevicePrimaryCtxRelease_v2(g->device);
    return res == CUDA_SUCCESS ? released : res;
}

CUresult vcu_green_check_event(CUgreenCtx hCtx, CUevent hEvent)
{
    struct vcu_green *g;
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS)
        res = vcu_green_get(hCtx, &g);
    if (res == CUDA_SUCCESS && !vgp_handle_live((uintptr_t)hEvent, VGP_H_EVENT))
        res = CUDA_ERROR_INVALID_HANDLE;
    return res;
}

/* ---- affinity ---- */

CUresult vcu_context_affinity(const char *call, CUexecAffinityParam *out, CUexecAffinityType type,
                              unsigned int *sms)
{
    const struct vcu_context *c = vcu_context_find(NULL);
    CUdevResource green;
    CUresult res;

    out->type = type;
    if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
        return VCU_REFUSE(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, call, "the type of affinity is unknown");
    *sms = (unsigned)vcu.devices[c->device].attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
    if (c->base == c)
        return CUDA_SUCCESS;
    res = vcu_resource_ask(VGP_RESOURCE_CONTEXT, 0, (CUcontext)(uintptr_t)c->handle, NULL, &green,
                           CU_DEV_RESOURCE_TYPE_SM);
    if (res == CUDA_SUCCESS)
        *sms = green.sm.smCount;
    return res;
}
