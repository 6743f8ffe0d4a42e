/* SPDX-License-Identifier: MIT */
/*
 * Loads with JIT options. The logs are buffers of the worker; the guest reads them in pieces and
 * drops them. A library may be compiled long after it was loaded, so its buffers stay.
 */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_worker.h"

#define LOGS_MAX 64u               /* sets of logs of one client that are not dropped */
#define LOG_BYTES_MAX (32u << 20)  /* bytes of all buffers, those of libraries included */

struct logs {
    struct logs *next;
    uint32_t id;
    bool stays; /* the provider may write it later */
    char *text[2]; /* info, error; NULL: not wanted */
    uint32_t size[2];
};

static struct logs *all_logs;
static uint64_t log_bytes;
static unsigned nlogs; /* that the guest can still read */

static struct logs *logs_find(uint32_t id)
{
    struct logs *l = all_logs;

    while (l && l->id != id)
        l = l->next;
    return l;
}

static void logs_free(struct logs *l)
{
    for (unsigned i = 0; i < 2; i++) {
        if (l->text[i])
            log_bytes -= l->size[i] + 1u;
        free(l->text[i]);
    }
    free(l);
}

/* Buffers for one load, added to its options. */
static CUresult logs_new(struct vgb_call *c, uint32_t id, uint32_t info, uint32_t error,
                         struct vgb_jit *jit, struct logs **out)
{
    const uint32_t want[2] = {info, error};
    struct logs *l;

    *out = NULL;
    if (info > VGP_JIT_LOG_MAX || error > VGP_JIT_LOG_MAX)
        return vgb_malformed(c, "a log of more than %u bytes", VGP_JIT_LOG_MAX);
    if (!info && !error)
        return CUDA_SUCCESS;
    if (!id || logs_find(id))
        return vgb_malformed(c, "log id %u is zero or in use", id);
    if (nlogs == LOGS_MAX || log_bytes + info + error + 2 > LOG_BYTES_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l = calloc(1, sizeof(*l));
    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < 2; i++) {
        if (!want[i])
            continue;
        l->text[i] = calloc(1, want[i] + 1u);
        if (!l->text[i]) {
            logs_free(l);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        l->size[i] = want[i];
        log_bytes += want[i] + 1u;
        vgb_jit_log(jit, i == 1, l->text[i], want[i]);
    }
    l->id = id;
    l->next = all_logs;
    all_logs = l;
    nlogs++;
    *out = l;
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpModuleLoadEx(struct vgb_call *c, const struct vgp_args_vgpModuleLoadEx *a,
                                const void *image, const uint32_t *optionIds,
                                const uint64_t *optionValues)
{
    CUmodule module = NULL;
    struct vgb_jit jit;
    struct logs *l;
    void *copy;
    CUresult r = vgb_handle_reserve(c, a->module, VGP_H_MODULE);

    if (r == CUDA_SUCCESS)
        r = vgb_jit_options(c, &jit, optionIds, a->optionIds_len, optionValues,
                            a->optionValues_len);
    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuModuleLoadDataEx)
        return vgb_missing(c, "cuModuleLoadDataEx");
    r = vgb_image_take(c, &image, a->image_size, a->image_blob != 0, &copy);
    if (r == CUDA_SUCCESS)
        r = logs_new(c, a->logId, a->infoMax, a->errorMax, &jit, &l);
    if (r == CUDA_SUCCESS)
        r = vgb_provider.cuModuleLoadDataEx(&module, image, jit.n, jit.options, jit.values);
    free(copy);
    if (r == CUDA_SUCCESS)
        r = vgb_module_count(c, module);
    if (r == CUDA_SUCCESS)
        vgb_handle_put(c, a->module, VGP_H_MODULE, module);
    return r;
}

CUresult vgb_do_vgpLibraryLoadEx(struct vgb_call *c, const struct vgp_args_vgpLibraryLoadEx *a,
                                 const void *image, const uint32_t *optionIds,
                                 const uint64_t *optionValues)
{
    CUlibrary library = NULL;
    struct vgb_jit jit;
    struct logs *l = NULL;
    void *copy;
    CUresult r = vgb_handle_reserve(c, a->library, VGP_H_LIBRARY);

    if (r == CUDA_SUCCESS)
        r = vgb_jit_options(c, &jit, optionIds, a->optionIds_len, optionValues,
                            a->optionValues_len);
    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuLibraryLoadData)
        return vgb_missing(c, "cuLibraryLoadData");
    r = vgb_image_take(c, &image, a->image_size, a->image_blob != 0, &copy);
    if (r == CUDA_SUCCESS)
        r = logs_new(c, a->logId, a->infoMax, a->errorMax, &jit, &l);
    if (r == CUDA_SUCCESS)
        r = vgb_provider.cuLibraryLoadData(&library, image, jit.options, jit.values, jit.n, NULL,
                                           NULL, 0);
    free(copy);
    if (l)
        l->stays = r == CUDA_SUCCESS;
    if (r == CUDA_SUCCESS)
        vgb_handle_put(c, a->library, VGP_H_LIBRARY, library);
    return r;
}

CUresult vgb_do_vgpJitLogRead(struct vgb_call *c, const struct vgp_args_vgpJitLogRead *a,
                              struct vgp_ret_vgpJitLogRead *r, struct vgp_outs_vgpJitLogRead *o)
{
    const struct logs *l = a->logId ? logs_find(a->logId) : NULL;

    if (a->which > 1)
        return vgb_malformed(c, "a load has two logs");
    if (!l)
        return CUDA_ERROR_INVALID_VALUE;
    const char *text = l->text[a->which];
    uint32_t total = text ? (uint32_t)strnlen(text, l->size[a->which]) : 0;
    uint32_t n = a->offset < total ? total - a->offset : 0;

    n = n < sizeof(o->text) ? n : sizeof(o->text);
    if (n)
        memcpy(o->text, text + a->offset, n);
    r->text_len = n;
    r->total = total;
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpJitLogDrop(struct vgb_call *c, const struct vgp_args_vgpJitLogDrop *a)
{
    (void)c;
    for (struct logs **pp = &all_logs, *l; (l = *pp); pp = &l->next) {
        if (!a->logId || l->id != a->logId)
            continue;
        nlogs--;
        if (l->stays) {
            l->id = 0; /* nobody reads it any more */
        } else {
            *pp = l->next;
            logs_free(l);
        }
        break;
    }
    return CUDA_SUCCESS;
}
