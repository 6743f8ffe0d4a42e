/* SPDX-License-Identifier: MIT */
/*
 * Handlers of the linker. A link state of the provider keeps pointers to its log buffers, so it has
 * a record here that lives as long as it does. Inputs come as data, never as paths: the guest's
 * files are not the host's.
 */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_worker.h"

#define LINKS_MAX 256u /* of one client: each may hold two logs */

struct link {
    CUlinkState state;
    char *log[2]; /* info, error; NULL: not wanted */
    uint32_t log_size[2];
    struct vgb_jit jit;
    const uint8_t *result; /* the provider's, until the state ends */
    uint64_t result_size;
};

static unsigned nlinks;

static void link_free(struct link *l)
{
    free(l->log[0]);
    free(l->log[1]);
    free(l);
    nlinks--;
}

/* Plain numbers only: a pointer of the guest must never reach the provider. */
static bool plain_option(uint32_t id)
{
    switch (id) {
    case CU_JIT_MAX_REGISTERS:
    case CU_JIT_THREADS_PER_BLOCK:
    case CU_JIT_OPTIMIZATION_LEVEL:
    case CU_JIT_TARGET_FROM_CUCONTEXT:
    case CU_JIT_TARGET:
    case CU_JIT_FALLBACK_STRATEGY:
    case CU_JIT_GENERATE_DEBUG_INFO:
    case CU_JIT_LOG_VERBOSE:
    case CU_JIT_GENERATE_LINE_INFO:
    case CU_JIT_CACHE_MODE:
    case CU_JIT_FAST_COMPILE:
    case CU_JIT_LTO:
    case CU_JIT_FTZ:
    case CU_JIT_PREC_DIV:
    case CU_JIT_PREC_SQRT:
    case CU_JIT_FMA:
    case CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES:
    case CU_JIT_POSITION_INDEPENDENT_CODE:
    case CU_JIT_MIN_CTA_PER_SM:
    case CU_JIT_MAX_THREADS_PER_BLOCK:
    case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
    case CU_JIT_SPLIT_COMPILE:
        return true;
    default:
        return false;
    }
}

CUresult vgb_jit_options(struct vgb_call *c, struct vgb_jit *j, const uint32_t *ids, uint32_t n,
                         const uint64_t *values, uint32_t nvalues)
{
    j->n = 0;
    if (n != nvalues || n > VGB_JIT_OPTIONS)
        return vgb_malformed(c, "JIT options without their values");
    for (uint32_t i = 0; i < n; i++) {
        if (!plain_option(ids[i])) {
            vgb_notify_detail(c->w, "a JIT option that is not a plain number");
            return CUDA_ERROR_INVALID_VALUE;
        }
        j->options[j->n] = (CUjit_option)ids[i];
        j->values[j->n++] = (void *)(uintptr_t)values[i];
    }
    return CUDA_SUCCESS;
}

void vgb_jit_log(struct vgb_jit *j, bool error, char *buffer, uint32_t size)
{
    j->options[j->n] = error ? CU_JIT_ERROR_LOG_BUFFER : CU_JIT_INFO_LOG_BUFFER;
    j->values[j->n++] = buffer;
    j->options[j->n] = error ? CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
                             : CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES;
    j->values[j->n++] = (void *)(uintptr_t)size;
}

CUresult vgb_do_vgpLinkCreate(struct vgb_call *c, const struct vgp_args_vgpLinkCreate *a,
                              const uint32_t *optionIds, const uint64_t *optionValues)
{
    const uint32_t want[2] = {a->infoMax, a->errorMax};
    struct link *l;
    CUresult r = vgb_handle_reserve(c, a->state, VGP_H_LINK);

    if (r != CUDA_SUCCESS)
        return r;
    if (want[0] > VGP_JIT_LOG_MAX || want[1] > VGP_JIT_LOG_MAX)
        return vgb_malformed(c, "a log of more than %u bytes", VGP_JIT_LOG_MAX);
    if (!vgb_provider.cuLinkCreate_v2 || !vgb_provider.cuLinkDestroy)
        return vgb_missing(c, "cuLinkCreate");
    if (nlinks == LINKS_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l = calloc(1, sizeof(*l));
    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    nlinks++;
    r = vgb_jit_options(c, &l->jit, optionIds, a->optionIds_len, optionValues,
                        a->optionValues_len);
    for (unsigned i = 0; i < 2 && r == CUDA_SUCCESS; i++) {
        l->log_size[i] = want[i];
        if (!want[i])
            continue;
        l->log[i] = calloc(1, want[i] + 1u);
        if (!l->log[i])
            r = CUDA_ERROR_OUT_OF_MEMORY;
        else
            vgb_jit_log(&l->jit, i == 1, l->log[i], want[i]);
    }
    if (r == CUDA_SUCCESS)
        r = vgb_provider.cuLinkCreate_v2(l->jit.n, l->jit.options, l->jit.values, &l->state);
    if (r == CUDA_SUCCESS)
        vgb_handle_put(c, a->state, VGP_H_LINK, l);
    else
        link_free(l);
    return r;
}

CUresult vgb_do_vgpLinkAdd(struct vgb_call *c, const struct vgp_args_vgpLinkAdd *a,
                           const void *data, const char *name, const uint32_t *optionIds,
                           const uint64_t *optionValues)
{
    struct vgb_jit jit;
    struct link *l;
    void *copy = NULL;
    CUresult r = vgb_handle_get(c, a->state, VGP_H_LINK, false, (void **)&l);

    if (r == CUDA_SUCCESS)
        r = vgb_jit_options(c, &jit, optionIds, a->optionIds_len, optionValues,
                            a->optionValues_len);
    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuLinkAddData_v2)
        return vgb_missing(c, "cuLinkAddData");
    r = vgb_image_take(c, &data, a->data_size, a->data_blob != 0, &copy);
    if (r != CUDA_SUCCESS)
        return r;
    r = vgb_provider.cuLinkAddData_v2(l->state, (CUjitInputType)a->inputType,
                                      (void *)(uintptr_t)data, a->data_size, name, jit.n,
                                      jit.options, jit.values);
    free(copy);
    return r;
}

CUresult vgb_do_vgpLinkComplete(struct vgb_call *c, const struct vgp_args_vgpLinkComplete *a,
                                struct vgp_ret_vgpLinkComplete *r)
{
    struct link *l;
    void *result = NULL;
    size_t size = 0;
    CUresult e = vgb_handle_get(c, a->state, VGP_H_LINK, false, (void **)&l);

    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuLinkComplete)
        return vgb_missing(c, "cuLinkComplete");
    e = vgb_provider.cuLinkComplete(l->state, &result, &size);
    if (e == CUDA_SUCCESS) {
        l->result = result;
        l->result_size = size;
        r->size = size;
    }
    return e;
}

CUresult vgb_do_vgpLinkRead(struct vgb_call *c, const struct vgp_args_vgpLinkRead *a,
                            struct vgp_ret_vgpLinkRead *r, struct vgp_outs_vgpLinkRead *o)
{
    struct link *l;
    CUresult e = vgb_handle_get(c, a->state, VGP_H_LINK, false, (void **)&l);

    if (e != CUDA_SUCCESS)
        return e;
    if (!l->result || a->offset > l->result_size)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t n = l->result_size - a->offset;

    n = n < sizeof(o->data) ? n : sizeof(o->data);
    memcpy(o->data, l->result + a->offset, n);
    r->data_len = (uint32_t)n;
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpLinkLog(struct vgb_call *c, const struct vgp_args_vgpLinkLog *a,
                           struct vgp_ret_vgpLinkLog *r, struct vgp_outs_vgpLinkLog *o)
{
    struct link *l;
    CUresult e = vgb_handle_get(c, a->state, VGP_H_LINK, false, (void **)&l);

    if (e != CUDA_SUCCESS)
        return e;
    if (a->which > 1)
        return vgb_malformed(c, "a link has two logs");
    const char *log = l->log[a->which];
    uint32_t total = log ? (uint32_t)strnlen(log, l->log_size[a->which]) : 0;
    uint32_t n = a->offset < total ? total - a->offset : 0;

    n = n < sizeof(o->text) ? n : sizeof(o->text);
    if (n)
        memcpy(o->text, log + a->offset, n);
    r->text_len = n;
    r->total = total;
    return CUDA_SUCCESS;
}

CUresult vgb_do_cuLinkDestroy(struct vgb_call *c, const struct vgp_args_cuLinkDestroy *a)
{
    struct link *l;
    CUresult r = vgb_handle_get(c, a->state, VGP_H_LINK, false, (void **)&l);

    if (r != CUDA_SUCCESS)
        return r;
    r = vgb_provider.cuLinkDestroy(l->state);
    vgb_handle_drop(c, a->state, VGP_H_LINK);
    link_free(l);
    return r;
}

struct ending {
    struct vgb_worker *w;
    uint64_t context;
};

static void end_one(struct vgb_handle_entry *e, uint64_t handle, void *arg)
{
    struct ending *k = arg;
    struct link *l = e->object;

    if (e->owner != k->context)
        return;
    vgb_provider.cuLinkDestroy(l->state); /* now, while its context is there */
    vgb_handles_remove(&k->w->handles, handle, VGP_H_LINK);
    link_free(l);
}

void vgb_links_end(struct vgb_worker *w, uint64_t context)
{
    struct ending k = {.w = w, .context = context};

    vgb_handles_each(&w->handles, VGP_H_LINK, end_one, &k);
}
