/* SPDX-License-Identifier: MIT */
/*
 * Loading of modules and libraries. The provider compiles PTX, which takes seconds, so the call
 * runs on a waiter thread; the dispatcher stores the handle when it lands. Until then the load owns
 * the image and its logs.
 */
#include "load.h"

#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include "vgpu_device.h"

/* Maximum size of logs in a reply, as in the description. */
#define INFO_MAX sizeof(((struct vgp_outs_vgpModuleLoad *)NULL)->infoLog)
#define ERROR_MAX sizeof(((struct vgp_outs_vgpModuleLoad *)NULL)->errorLog)
_Static_assert(sizeof(struct vgp_outs_vgpModuleLoad) == sizeof(struct vgp_outs_vgpLibraryLoad) &&
                   sizeof(struct vgp_ret_vgpModuleLoad) == sizeof(struct vgp_ret_vgpLibraryLoad),
               "one form of reply");

static void load_free(struct wrk_worker *w, struct wrk_load *l, CUresult r)
{
    if (l->done)
        l->done(l->arg, r);
    if (l->blob.used)
        wrk_blob_release(w, &l->blob);
    free(l->copy);
    free(l);
}

CUresult wrk_load_new(struct wrk_call *c, uint64_t handle, unsigned type, const void *image, uint64_t size,
                      bool is_blob, struct wrk_load **out)
{
    struct wrk_load *l = calloc(1, sizeof(*l));
    CUresult r;

    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l->image = image;
    r = wrk_image_take(c, &l->image, &size, is_blob, &l->copy);
    if (r != CUDA_SUCCESS) {
        free(l);
        return r;
    }
    if (is_blob)
        wrk_blob_keep(c->w, &l->blob);
    l->handle = handle;
    l->owner = wrk_base_handle(c->w, c->rec->context);
    l->ctx = wrk_base_context(c->w->current);
    l->type = type;
    *out = l;
    return CUDA_SUCCESS;
}

void wrk_load_drop(struct wrk_call *c, struct wrk_load *l)
{
    load_free(c->w, l, CUDA_ERROR_INVALID_VALUE);
}

CUresult wrk_load_logs(struct wrk_load *l)
{
    l->text = calloc(1, INFO_MAX + ERROR_MAX);
    if (!l->text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wrk_jit_log(&l->jit, false, l->text, INFO_MAX - 1);
    wrk_jit_log(&l->jit, true, l->text + INFO_MAX, ERROR_MAX - 1);
    return CUDA_SUCCESS;
}

static CUresult load_finish(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    struct wrk_load *l = (struct wrk_load *)(uintptr_t)wait->arg[0];
    struct wrk_jit *j = &l->jit;

    if (r != CUDA_SUCCESS)
        return r;
    wrk_compile_begin(w);
    if (l->type == VGP_H_LIBRARY)
        r = wrk_provider.cuLibraryLoadData((CUlibrary *)&l->object, l->image, j->n ? j->options : NULL,
                                           j->n ? j->values : NULL, j->n, NULL, NULL, 0);
    else if (j->n)
        r = wrk_provider.cuModuleLoadDataEx((CUmodule *)&l->object, l->image, j->n, j->options, j->values);
    else
        r = wrk_provider.cuModuleLoadData((CUmodule *)&l->object, l->image);
    wrk_compile_end();
    return r;
}

static uint32_t put_log(uint8_t **at, char *text, uint32_t room)
{
    text[room - 1] = 0;
    uint32_t n = (uint32_t)strlen(text) + 1;

    memcpy(*at, text, n);
    memset(*at + n, 0, (8 - n % 8) % 8);
    *at += (n + 7) & ~7u;
    return n;
}

/* The logs, empty ones too, are part of the reply, also when the load failed. */
static void reply_logs(struct wrk_worker *w, struct wrk_wait *wait, struct wrk_load *l)
{
    uint8_t *base = wrk_bounce_result(w, wait->slot), *at = base;
    struct vgp_ret_vgpModuleLoad ret;

    if (!base)
        return;
    at += sizeof(ret);
    ret.infoLog_len = l->text ? put_log(&at, l->text, INFO_MAX) : 0;
    ret.errorLog_len = l->text ? put_log(&at, l->text + INFO_MAX, ERROR_MAX) : 0;
    memcpy(base, &ret, sizeof(ret));
    wait->buffer = base;
    wait->payload = (uint32_t)(at - base);
    wait->payload_always = true;
}

/* No further bytes, but memory of the module's variables must be covered. */
static CUresult load_count(struct wrk_worker *w, const struct wrk_load *l)
{
    wrk_provider_took();
    if (l->type != VGP_H_MODULE || wrk_quota_take(w, 0))
        return CUDA_SUCCESS;
    wrk_notify_detail(w, "the module's variables exceed the quota of device memory");
    if (wrk_provider.cuModuleUnload)
        wrk_module_end(w, l->object, l->ctx);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult land_load(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    struct wrk_load *l = (struct wrk_load *)(uintptr_t)wait->arg[0];

    /* Libraries belong to no context; a module ended with its context, if that has ended. */
    if (r == CUDA_SUCCESS && l->type == VGP_H_MODULE && wait->context_gone)
        r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (r == CUDA_SUCCESS)
        r = load_count(w, l);
    if (r == CUDA_SUCCESS) {
        if (wrk_handles_reserve(&w->handles, l->handle, l->type) != CUDA_SUCCESS)
            wrk_die(w, VGPU_DEAD_PROTOCOL, "malformed record: handle %#llx was made twice",
                    (unsigned long long)l->handle);
        wrk_handles_put(&w->handles, l->handle, l->type, l->object, l->owner);
    }
    if (l->logs)
        reply_logs(w, wait, l);
    free(l->text);
    load_free(w, l, r);
    return r;
}

CUresult wrk_load_start(struct wrk_call *c, struct wrk_load *l)
{
    struct wrk_wait *wait = wrk_wait_long(c, load_finish, land_load);

    if (!wait) {
        free(l->text);
        load_free(c->w, l, CUDA_ERROR_OUT_OF_MEMORY);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    wait->arg[0] = (uintptr_t)l;
    return wrk_wait_start(c, wait);
}

CUresult wrk_load_plain(struct wrk_call *c, uint64_t handle, unsigned type, const void *image, uint64_t size,
                        bool is_blob, bool want_logs)
{
    struct wrk_load *l;
    CUresult r = wrk_load_new(c, handle, type, image, size, is_blob, &l);

    if (r != CUDA_SUCCESS)
        return r;
    l->logs = true;
    if (want_logs && wrk_load_logs(l) != CUDA_SUCCESS) {
        wrk_load_drop(c, l);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return wrk_load_start(c, l);
}
