/* SPDX-License-Identifier: MIT */
/*
 * Handlers of device resources and green contexts.
 *
 * The content of a CUdevResource may include pointers of the provider, so the guest never sees it:
 * it gets a number, and the bytes stay here. Programs do not end resources, so the latest
 * RESOURCES_MAX are kept, and equal answers to a query get the same number.
 */
#include "../calls.h"

#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include "vgpu_device.h"

#define RESOURCES_MAX 4096u
#define GROUP_WORDS 5u /* words of a CU_DEV_SM_RESOURCE_GROUP_PARAMS on the wire */

static struct {
    uint64_t id; /* 0: unused */
    bool asked;  /* answer to a query, which is reused */
    CUdevResource r;
} resources[RESOURCES_MAX];
static uint64_t latest; /* id; the slot is id % RESOURCES_MAX */

struct green {
    struct wrk_green_base on; /* its context and the underlying primary context */
    VGB_LISTED struct green *next;
    uint64_t handle, context; /* guest handles */
    CUgreenCtx object;
};
static struct green *greens;

/* ---- resources ---- */

uint64_t wrk_resource_keep(const CUdevResource *r, bool asked)
{
    for (unsigned i = 0; asked && i < RESOURCES_MAX; i++) {
        if (resources[i].id && resources[i].asked && !memcmp(&resources[i].r, r, sizeof(*r)))
            return resources[i].id;
    }
    latest++;
    resources[latest % RESOURCES_MAX].id = latest;
    resources[latest % RESOURCES_MAX].asked = asked;
    resources[latest % RESOURCES_MAX].r = *r;
    return latest;
}

const CUdevResource *wrk_resource_kept(struct wrk_call *c, uint64_t id)
{
    if (id && resources[id % RESOURCES_MAX].id == id)
        return &resources[id % RESOURCES_MAX].r;
    wrk_notify_detail(c->w, id && id <= latest ? "the resource is too old: the latest 4096 are known"
                                               : "no such resource was made");
    return NULL;
}

uint16_t wrk_resource_narrow(unsigned n)
{
    return n < UINT16_MAX ? (uint16_t)n : UINT16_MAX;
}

CUresult wrk_resources_kept(struct wrk_call *c, CUdevResource *out, const uint64_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const CUdevResource *one = wrk_resource_kept(c, ids[i]);

        if (!one)
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        out[i] = *one;
    }
    return CUDA_SUCCESS;
}

CUresult wrk_resource_groups(struct wrk_call *c, CU_DEV_SM_RESOURCE_GROUP_PARAMS *out, const uint32_t *words,
                             uint32_t nwords)
{
    if (!nwords || nwords % GROUP_WORDS)
        return wrk_malformed(c, "%u words about groups", nwords);
    for (uint32_t i = 0; i < nwords / GROUP_WORDS; i++)
        memcpy(&out[i], &words[(size_t)i * GROUP_WORDS], GROUP_WORDS * sizeof(*words));
    return CUDA_SUCCESS;
}

/* ---- green contexts ---- */

static CUresult green_create(struct green *g, CUdevResourceDesc desc, int device, unsigned flags)
{
    CUresult r = wrk_provider.cuGreenCtxCreate(&g->object, desc, device, flags);

    if (r != CUDA_SUCCESS)
        return r;
    r = wrk_provider.cuCtxFromGreenCtx(&g->on.ctx, g->object);
    if (r != CUDA_SUCCESS)
        wrk_provider.cuGreenCtxDestroy(g->object);
    return r;
}

CUresult wrk_green_make(struct wrk_call *c, const struct vgp_args_vgpGreenCtxCreate *a, uint64_t base,
                        CUcontext base_ctx)
{
    struct wrk_handles *t = &c->w->handles;
    CUdevResourceDesc desc;
    struct green *g;
    CUresult r = wrk_handle_reserve(c, a->green, VGP_H_GREEN);

    if (r == CUDA_SUCCESS)
        r = wrk_handle_reserve(c, a->context, VGP_H_CONTEXT);
    if (r == CUDA_SUCCESS)
        r = wrk_handle_get(c, a->desc, VGP_H_RESOURCE_DESC, false, (void **)&desc);
    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuGreenCtxCreate || !wrk_provider.cuCtxFromGreenCtx || !wrk_provider.cuGreenCtxDestroy)
        return wrk_missing(c, "cuGreenCtxCreate");
    g = calloc(1, sizeof(*g));
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    g->on.base = base;
    g->on.base_ctx = base_ctx;
    r = g->on.base ? green_create(g, desc, a->device, a->flags) : CUDA_ERROR_INVALID_CONTEXT;
    if (r != CUDA_SUCCESS) {
        free(g);
        return r;
    }
    g->handle = a->green;
    g->context = a->context;
    g->next = greens;
    greens = g;
    wrk_green_base_add(&g->on);
    wrk_handle_put(c, a->green, VGP_H_GREEN, g);
    wrk_handles_put(t, a->context, VGP_H_CONTEXT, g->on.ctx, g->on.base);
    return CUDA_SUCCESS;
}

/* No internal use from now on. Its streams end only in name: the provider keeps them. The caller settles captures. */
static void green_leave(struct wrk_worker *w, struct green *g)
{
    struct green **p = &greens;

    wrk_set_context(w, g->on.ctx);
    wrk_flow_green_ends(w, g->on.ctx, g->on.base_ctx);
    wrk_waits_context_ends(w, g->on.ctx);
    wrk_waits_forget_context(w, g->on.ctx);
    wrk_drop_owned(w, g->context);
    wrk_set_context(w, NULL);
    wrk_handles_remove(&w->handles, g->context, VGP_H_CONTEXT);
    wrk_handles_remove(&w->handles, g->handle, VGP_H_GREEN);
    while (*p != g)
        p = &(*p)->next;
    *p = g->next;
    wrk_green_base_remove(&g->on);
    free(g);
}

struct wrk_greens_left {
    unsigned n;
    struct {
        CUgreenCtx object;
        VGB_OWNED struct wrk_host_page *page;
    } of[];
};

struct wrk_greens_left *wrk_greens_leave(struct wrk_worker *w, uint64_t base)
{
    struct wrk_greens_left *left = NULL;
    unsigned n = 0;

    for (struct green *g = greens; g; g = g->next)
        n += g->on.base == base;
    if (n)
        left = calloc(1, sizeof(*left) + n * sizeof(left->of[0]));
    if (n && !left) /* their host functions would stay known under addresses that the driver uses anew */
        wrk_die(w, VGPU_DEAD_EXITED, "no memory for the end of %u green contexts", n);
    for (struct green *g = greens, *next; g; g = next) {
        next = g->next;
        if (g->on.base != base)
            continue;
        if (left) {
            left->of[left->n].object = g->object;
            left->of[left->n++].page = wrk_host_func_context_ends(g->on.ctx);
        }
        green_leave(w, g);
    }
    return left;
}

/* A green context holds its primary context and, if leaked, would keep it forever. */
void wrk_greens_end(const struct wrk_greens_left *left)
{
    for (unsigned i = 0; left && i < left->n; i++)
        wrk_provider.cuGreenCtxDestroy(left->of[i].object);
}

void wrk_greens_gone(const struct wrk_greens_left *left)
{
    for (unsigned i = 0; left && i < left->n; i++)
        wrk_host_func_context_gone(left->of[i].page, false);
}

static CUresult finish_destroy(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)w;
    (void)r;
    r = wrk_provider.cuGreenCtxDestroy((CUgreenCtx)(uintptr_t)wait->arg[0]);
    wrk_provider.cuCtxSetCurrent((CUcontext)(uintptr_t)wait->arg[2]); /* which the page is registered in */
    wrk_host_func_context_gone((struct wrk_host_page *)(uintptr_t)wait->arg[1], true);
    wrk_provider.cuCtxSetCurrent(NULL);
    return r;
}

static CUresult land_destroy(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)wait;
    wrk_captures_context_gone(w);
    return r;
}

CUresult wrk_do_vgpGreenCtxDestroy(struct wrk_call *c, const struct vgp_args_vgpGreenCtxDestroy *a)
{
    struct wrk_wait *wait;
    struct green *g;
    CUresult r = wrk_handle_get(c, a->green, VGP_H_GREEN, false, (void **)&g);

    if (r != CUDA_SUCCESS)
        return r;
    wait = wrk_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->ctx = NULL;
    wait->uses[0] = wait->uses[1] = NULL;
    wait->uses[2] = g->on.base_ctx; /* the primary context, kept until then */
    wait->uses[3] = &wrk_context_end;
    wait->ends = g->on.ctx;
    wait->finish = finish_destroy;
    wait->land = land_destroy;
    wait->blocking = true; /* it may wait for the work */
    wait->arg[0] = (uintptr_t)g->object;
    wait->arg[1] = (uintptr_t)wrk_host_func_context_ends(g->on.ctx);
    wait->arg[2] = (uintptr_t)g->on.base_ctx;
    green_leave(c->w, g);
    wrk_captures_settle(c->w);
    wrk_captures_context_ends();
    return wrk_wait_start(c, wait);
}

CUresult wrk_green_object(struct wrk_call *c, uint64_t handle, CUgreenCtx *object)
{
    struct green *g;
    CUresult r = wrk_handle_get(c, handle, VGP_H_GREEN, false, (void **)&g);

    if (r == CUDA_SUCCESS)
        *object = g->object;
    return r;
}

CUresult wrk_do_vgpGreenCtxStreamCreate(struct wrk_call *c, const struct vgp_args_vgpGreenCtxStreamCreate *a)
{
    CUstream stream = NULL;
    struct green *g;
    CUresult r = wrk_handle_reserve(c, a->stream, VGP_H_STREAM);

    if (r == CUDA_SUCCESS)
        r = wrk_handle_get(c, a->green, VGP_H_GREEN, false, (void **)&g);
    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuGreenCtxStreamCreate)
        return wrk_missing(c, "cuGreenCtxStreamCreate");
    r = wrk_provider.cuGreenCtxStreamCreate(&stream, g->object, a->flags, a->priority);
    if (r == CUDA_SUCCESS)
        wrk_handles_put(&c->w->handles, a->stream, VGP_H_STREAM, stream, g->context);
    return r;
}
