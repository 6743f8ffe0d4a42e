/* SPDX-License-Identifier: MIT */
/*
 * Driver API: multiprocessors as a resource, and green contexts, which own some of them. A
 * multiprocessor of this device is an executing thread. A kernel in a green context runs on as many
 * threads as the context has multiprocessors and sees their numbers in %smid.
 */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

#define RESOURCES_MAX 256u /* per descriptor: the maximum number of multiprocessors */

/* The private part of a CUdevResource. It is in the program's memory, so it is checked. */
struct hidden {
    uint64_t magic;
    uint64_t split; /* 0: from a device or context; else identifies the call that split it off */
    struct sg_sms sms;
    int device;
    uint32_t rest; /* 1: the remainder of cuDevSmResourceSplit, which may be split again */
};
#define MAGIC 0x7667707573726573ull
_Static_assert(sizeof(struct hidden) <= sizeof(((CUdevResource *)0)->_internal_padding), "room");

/* A descriptor; no call destroys it. */
struct sg_rdesc {
    struct sg_obj obj;
    struct sg_sms sms;
    int device;
};

struct sg_green {
    struct sg_obj obj;
    SG_COUNTED struct sg_ctx *ctx; /* a reference */
};

static _Atomic uint64_t next_split = 1;

/* ---- resources ---- */

static bool sms_overlap(const struct sg_sms *a, const struct sg_sms *b)
{
    for (unsigned i = 0; i < SG_SM_WORDS; i++) {
        if (a->bits[i] & b->bits[i])
            return true;
    }
    return false;
}

static void add_sms(struct sg_sms *to, const struct sg_sms *s)
{
    to->count += s->count;
    for (unsigned i = 0; i < SG_SM_WORDS; i++)
        to->bits[i] |= s->bits[i];
}

/* Removes the n lowest multiprocessors from *from and returns them. */
static struct sg_sms take_sms(struct sg_sms *from, unsigned n)
{
    struct sg_sms out = {0};

    for (unsigned i = 0; i < 64 * SG_SM_WORDS && out.count < n; i++) {
        uint64_t bit = 1ull << (i % 64);

        if (!(from->bits[i / 64] & bit))
            continue;
        from->bits[i / 64] &= ~bit;
        from->count--;
        out.bits[i / 64] |= bit;
        out.count++;
    }
    return out;
}

static struct sg_sms all_of(int device)
{
    struct sg_sms all = {0};

    memset(all.bits, 0xff, sizeof(all.bits));
    all.count = 64 * SG_SM_WORDS;
    return take_sms(&all, (unsigned)sg_attr(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
}

/*
 * The guideline of cuda.h for each architecture; if there are fewer multiprocessors, all of them
 * form a group. The alignment divides their number, as required by CUdevSmResource.
 */
static void sm_granularity(int device, unsigned count, bool ignore, unsigned *min, unsigned *align)
{
    int major = sg_attr(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);

    *min = ignore ? 1 : major >= 9 ? 8 : major == 8 ? 4 : 2;
    *align = ignore ? 1 : major >= 9 ? 8 : 2;
    if (*min > count)
        *min = count;
    while (*align > 1 && count % *align)
        *align /= 2;
}

static void resource_fill(CUdevResource *out, const struct hidden *h, bool ignore)
{
    memset(out, 0, sizeof(*out));
    out->type = CU_DEV_RESOURCE_TYPE_SM;
    memcpy(out->_internal_padding, h, sizeof(*h));
    out->sm.smCount = h->sms.count;
    sm_granularity(h->device, h->sms.count, ignore, &out->sm.minSmPartitionSize,
                   &out->sm.smCoscheduledAlignment);
}

static CUresult resource_read(const char *call, const CUdevResource *r, struct hidden *h)
{
    unsigned count = 0;
    bool ok;

    if (r->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    memcpy(h, r->_internal_padding, sizeof(*h));
    ok = h->magic == MAGIC && (unsigned)h->device < sg_config.ndevices;
    for (unsigned i = 0; ok && i < SG_SM_WORDS; i++) {
        ok = !(h->sms.bits[i] & ~all_of(h->device).bits[i]);
        count += (unsigned)__builtin_popcountll(h->sms.bits[i]);
    }
    if (!ok || !count || count != h->sms.count || count != r->sm.smCount)
        return sg_fail(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
                       "%s: the resource was not made by CUDA, or changed since", call);
    return CUDA_SUCCESS;
}

static CUresult resource_of(int device, const struct sg_ctx *ctx, CUdevResource *out, CUdevResourceType type)
{
    struct hidden h = {.magic = MAGIC, .device = device};

    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    h.sms = ctx && ctx->sms.count ? ctx->sms : all_of(device);
    resource_fill(out, &h, false);
    return CUDA_SUCCESS;
}

CUresult sgd_cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    return resource_of(device, NULL, resource, type);
}

CUresult CUDAAPI cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
    SG_INIT();
    if (!resource)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    SG_AUTO struct sg_ctx *c = sg_ctx_find(hCtx);

    /* No name is the current context's, other than elsewhere (driver 580). */
    return c ? resource_of(c->device, c, resource, type) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sgd_cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
                                         const CUdevResource *input, CUdevResource *remaining,
                                         unsigned int useFlags, unsigned int minCount)
{
    bool ignore = useFlags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING;
    unsigned min, align, groups;
    struct hidden h, part;
    CUresult r;

    if (!nbGroups || !input || (result && !*nbGroups)) /* unknown flags are not minded (driver 580) */
        return CUDA_ERROR_INVALID_VALUE;
    r = resource_read("cuDevSmResourceSplitByCount", input, &h);
    if (r != CUDA_SUCCESS)
        return r;
    if (h.split) /* documented */
        return sg_fail(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
                       "cuDevSmResourceSplitByCount: what was split is split again through a green "
                       "context only");
    if (useFlags & CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE &&
        sg_attr(h.device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) < 9)
        return CUDA_ERROR_INVALID_VALUE;
    sm_granularity(h.device, h.sms.count, ignore, &min, &align);
    min = minCount > min ? minCount : min;
    groups = min > h.sms.count ? 0 : h.sms.count / ((min + align - 1) / align * align);
    min = groups ? (min + align - 1) / align * align : min;
    if (!groups)
        return sg_fail(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
                       "cuDevSmResourceSplitByCount: no group of %u fits into %u", min, h.sms.count);
    if (!result) {
        *nbGroups = groups;
        return CUDA_SUCCESS;
    }
    if (*nbGroups > groups)
        *nbGroups = groups;
    h.split = atomic_fetch_add(&next_split, 1);
    for (unsigned i = 0; i < *nbGroups; i++) {
        part = h;
        part.sms = take_sms(&h.sms, min);
        resource_fill(&result[i], &part, ignore);
    }
    if (remaining) {
        memset(remaining, 0, sizeof(*remaining)); /* CU_DEV_RESOURCE_TYPE_INVALID: nothing is left */
        if (h.sms.count)
            resource_fill(remaining, &h, ignore);
    }
    return CUDA_SUCCESS;
}

/* The contents of a CU_DEV_SM_RESOURCE_GROUP_PARAMS; cuda.h before 13.5 has no name for the
   fifth member. */
struct group {
    unsigned int sms, together, preferred, flags, domain, reserved[11];
};
_Static_assert(sizeof(struct group) == sizeof(CU_DEV_SM_RESOURCE_GROUP_PARAMS), "layout of cuda.h");
#define GROUP_BACKFILL 1u /* CU_DEV_SM_RESOURCE_GROUP_BACKFILL */
#define GROUP_DOMAIN 6u   /* _LOCALITY_DOMAIN_ID, _LOCALITY_DOMAIN_SUPPLEMENTAL_SMS */

static CUresult group_check(const struct group *g, unsigned available, unsigned most)
{
    unsigned reserved = g->flags & GROUP_DOMAIN ? 0 : g->domain;

    for (unsigned i = 0; i < sizeof(g->reserved) / sizeof(g->reserved[0]); i++)
        reserved |= g->reserved[i];
    if (reserved || (g->flags & ~(GROUP_BACKFILL | GROUP_DOMAIN)))
        return CUDA_ERROR_INVALID_VALUE;
    if (g->flags & GROUP_DOMAIN)
        return sg_fail(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
                       "cuDevSmResourceSplit: the device has no locality domains");
    if (g->sms % 2 || g->sms > available || g->together % 2 || g->together > most ||
        (g->together && g->preferred % g->together))
        return CUDA_ERROR_INVALID_VALUE;
    return g->together && g->sms % g->together && !(g->flags & GROUP_BACKFILL) ? CUDA_ERROR_INVALID_VALUE
                                                                               : CUDA_SUCCESS;
}

/*
 * Number of the remaining multiprocessors that the group receives; 0: none. All are equivalent, so
 * any of them can be scheduled together.
 */
static unsigned group_size(const struct group *g, unsigned left, unsigned together)
{
    if (g->sms)
        return g->sms <= left && g->sms >= g->together ? g->sms : 0;
    if (left < together)
        return 0;
    return g->flags & GROUP_BACKFILL ? left : left / together * together;
}

CUresult sgd_cuDevSmResourceSplit(CUdevResource *result, unsigned int nbGroups, const CUdevResource *input,
                                  CUdevResource *remainder, unsigned int flags,
                                  CU_DEV_SM_RESOURCE_GROUP_PARAMS *groupParams)
{
    unsigned min, align, n[RESOURCES_MAX];
    struct hidden h, part, rest;
    struct group g;
    CUresult r;

    if (!nbGroups || nbGroups > RESOURCES_MAX || !input || flags || !groupParams)
        return CUDA_ERROR_INVALID_VALUE;
    r = resource_read("cuDevSmResourceSplit", input, &h);
    if (r != CUDA_SUCCESS)
        return r;
    if (h.split && !h.rest)
        return sg_fail(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
                       "cuDevSmResourceSplit: a group is split again through a green context only");
    sm_granularity(h.device, h.sms.count, false, &min, &align);
    rest = h;
    /* Writes nothing before all groups are known to fit. */
    for (unsigned i = 0; i < nbGroups; i++) {
        memcpy(&g, &groupParams[i], sizeof(g));
        r = group_check(&g, h.sms.count,
                        sg_attr(h.device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 9 ? 32 : 2);
        if (r != CUDA_SUCCESS)
            return r;
        n[i] = group_size(&g, rest.sms.count, g.together ? g.together : align);
        if (!n[i] && (result || g.sms))
            return sg_fail(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
                           "cuDevSmResourceSplit: group %u gets no multiprocessors: %u of %u are left", i,
                           rest.sms.count, h.sms.count);
        take_sms(&rest.sms, n[i]);
    }
    h.split = rest.split = atomic_fetch_add(&next_split, 1);
    h.rest = 0;
    rest.rest = 1;
    for (unsigned i = 0; i < nbGroups; i++) {
        if (result) {
            part = h;
            part.sms = take_sms(&h.sms, n[i]);
            resource_fill(&result[i], &part, false);
        }
        groupParams[i].smCount = n[i];
    }
    if (remainder) {
        memset(remainder, 0, sizeof(*remainder));
        if (rest.sms.count)
            resource_fill(remainder, &rest, false);
    }
    return CUDA_SUCCESS;
}

static void rdesc_free(struct sg_obj *obj)
{
    free(obj);
}

CUresult sgd_cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources,
                                       unsigned int nbResources)
{
    struct hidden first = {0}, h;
    struct sg_rdesc *d;
    CUresult r;

    for (unsigned i = 0; i < nbResources; i++) {
        r = resource_read("cuDevResourceGenerateDesc", &resources[i], &h);
        if (r != CUDA_SUCCESS)
            return r;
        if (!i) {
            first = h;
            continue;
        }
        if (!h.split || h.split != first.split || h.device != first.device || i >= RESOURCES_MAX ||
            sms_overlap(&first.sms, &h.sms))
            return sg_fail(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
                           "cuDevResourceGenerateDesc: not different results of one split");
        add_sms(&first.sms, &h.sms);
    }
    d = calloc(1, sizeof(*d));
    if (!d)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&d->obj, SG_T_RDESC, NULL, rdesc_free);
    d->sms = first.sms;
    d->device = first.device;
    r = sg_obj_register(&d->obj) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS)
        *phDesc = SG_HANDLE(CUdevResourceDesc, d);
    sg_obj_put(&d->obj);
    return r;
}

/* ---- green contexts ---- */

static void green_free(struct sg_obj *obj)
{
    struct sg_ctx *ctx = ((struct sg_green *)obj)->ctx;

    if (ctx) {
        sg_stream_retire(ctx->legacy);
        sg_obj_put(&ctx->obj);
    }
    free(obj);
}

static CUresult green_new(CUgreenCtx *out, struct sg_ctx *base, const struct sg_sms *sms)
{
    SG_AUTO struct sg_green *g = calloc(1, sizeof(*g));
    CUresult r;

    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&g->obj, SG_T_GREEN, NULL, green_free);
    r = sg_ctx_new_green(base, sms, &g->ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!sg_obj_register(&g->ctx->obj))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!sg_obj_register(&g->obj)) {
        sg_obj_unregister(&g->ctx->obj);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    g->ctx->green = g->obj.handle;
    *out = SG_HANDLE(CUgreenCtx, g);
    return CUDA_SUCCESS;
}

CUresult sgd_cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
    CUcontext primary;
    CUresult r;

    SG_AUTO struct sg_rdesc *d = SG_LOOKUP(desc, SG_T_RDESC);

    if (!phCtx || !d || flags != CU_GREEN_CTX_DEFAULT_STREAM || d->device != dev)
        return CUDA_ERROR_INVALID_VALUE;
    r = cuDevicePrimaryCtxRetain(&primary, dev); /* documented; released by cuGreenCtxDestroy */
    if (r != CUDA_SUCCESS)
        return r;
    r = green_new(phCtx, sg_devices[dev].primary, &d->sms);
    if (r != CUDA_SUCCESS)
        cuDevicePrimaryCtxRelease_v2(dev);
    return r;
}

/* 201: no such; 709: the primary context was reset. */
CUresult sg_green_get(CUgreenCtx h, struct sg_green **out)
{
    CUresult r = sg_check_init();
    struct sg_tls *t;

    *out = NULL;
    if (r != CUDA_SUCCESS)
        return r;
    t = sg_tls();
    if (t && t->in_callback)
        return CUDA_ERROR_NOT_PERMITTED;
    *out = SG_LOOKUP(h, SG_T_GREEN);
    if (!*out)
        return CUDA_ERROR_INVALID_CONTEXT;
    return sg_ctx_alive((*out)->ctx) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* A capture can only end through its stream, which has no valid handle any more. */
static void abandon_captures(struct sg_ctx *ctx)
{
    pthread_mutex_lock(&ctx->base->issue);
    for (struct sg_stream *s = ctx->base->streams; s; s = s->next) {
        if (s->green == ctx)
            sg_capture_abandon(s);
    }
    pthread_mutex_unlock(&ctx->base->issue);
}

CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    SG_AUTO struct sg_green *g = NULL;
    CUresult r = sg_green_get(hCtx, &g);

    if (!g)
        return r;
    if (!sg_obj_unregister(&g->obj))
        return CUDA_ERROR_INVALID_CONTEXT;
    abandon_captures(g->ctx);
    atomic_store(&g->ctx->alive, false); /* first: waits for external semaphores are given up */
    sg_ctx_drain(g->ctx);
    sg_ctx_ungate(g->ctx);
    sg_obj_unregister(&g->ctx->obj);
    return r == CUDA_SUCCESS ? cuDevicePrimaryCtxRelease_v2(g->ctx->device) : r;
}

CUresult sgd_cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
    SG_AUTO struct sg_green *g = NULL;
    CUresult r = sg_green_get(hCtx, &g);

    if (r == CUDA_SUCCESS)
        *pContext = SG_HANDLE(CUcontext, g->ctx);
    return r;
}

CUresult sgd_cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
    SG_AUTO struct sg_green *g = NULL;
    CUresult r = sg_green_get(hCtx, &g);

    return r == CUDA_SUCCESS ? resource_of(g->ctx->device, g->ctx, resource, type) : r;
}

CUresult sgd_cuGreenCtxRecordEvent(struct sg_green *g, CUevent hEvent)
{
    return cuCtxRecordEvent(SG_HANDLE(CUcontext, g->ctx), hEvent);
}

CUresult sgd_cuGreenCtxWaitEvent(struct sg_green *g, CUevent hEvent)
{
    return cuCtxWaitEvent(SG_HANDLE(CUcontext, g->ctx), hEvent);
}

CUresult sgd_cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority)
{
    SG_AUTO struct sg_green *g = NULL;
    CUresult r = sg_green_get(greenCtx, &g);

    if (r == CUDA_SUCCESS && flags != CU_STREAM_NON_BLOCKING)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = (CUresult)atomic_load(&g->ctx->base->sticky);
    return r == CUDA_SUCCESS ? sg_stream_create(g->ctx, flags, priority, phStream) : r;
}

CUresult sgd_cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
    SG_AUTO struct sg_green *g = NULL;
    struct sg_ctx *ctx;
    CUresult r;

    if (greenCtx) {
        r = sg_green_get(greenCtx, &g);
        if (r == CUDA_SUCCESS)
            *greenCtxId = g->ctx->id;
        return r;
    }
    r = sg_current_raw(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (sg_current_self(ctx) == ctx)
        return CUDA_ERROR_INVALID_CONTEXT; /* not a green context */
    *greenCtxId = sg_current_self(ctx)->id;
    return CUDA_SUCCESS;
}
