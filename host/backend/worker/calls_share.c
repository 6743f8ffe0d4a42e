/* SPDX-License-Identifier: MIT */
/*
 * Handlers of memory pools that processes share. The guest's descriptor holds a token; the worker
 * keeps which pool it belongs to, and gives the provider the broker's memory for an imported one.
 */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

#include "vgb_fd.h"
#include "vgp_worker.h"

struct pool {
    struct pool *next;
    CUmemoryPool pool;
    bool imported;
    uint8_t token[VGB_TOKEN];
};

/* The dispatcher's alone. */
static struct pool *pools;
static struct vgb_worker *self;
static struct vgp_provider raw;

static bool note(CUmemoryPool pool, const uint8_t *token, bool imported)
{
    struct pool *p = calloc(1, sizeof(*p));

    if (!p)
        return false;
    p->pool = pool;
    p->imported = imported;
    memcpy(p->token, token, VGB_TOKEN);
    p->next = pools;
    pools = p;
    return true;
}

void vgb_share_note_pool(CUmemoryPool pool)
{
    uint8_t token[VGB_TOKEN];

    if (vgb_share_latest(token))
        note(pool, token, false);
}

static CUresult s_pool_destroy(CUmemoryPool pool)
{
    CUresult r = raw.cuMemPoolDestroy(pool);

    for (struct pool **at = &pools; r == CUDA_SUCCESS && *at; at = &(*at)->next) {
        struct pool *p = *at;

        if (p->pool != pool)
            continue;
        *at = p->next;
        if (p->imported)
            vgb_share_drop(self, p->token); /* the provider drops what it has made itself */
        free(p);
        break;
    }
    return r;
}

void vgb_share_wrap(struct vgb_worker *w)
{
    self = w;
    raw = vgb_provider;
    if (raw.cuMemPoolDestroy)
        vgb_provider.cuMemPoolDestroy = s_pool_destroy;
}

static CUresult pool_get(struct vgb_call *c, uint64_t handle, CUmemoryPool *pool)
{
    CUresult r = vgb_handle_get(c, handle, VGP_H_MEM_POOL, false, (void **)pool);

    return r == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : r; /* CUDA's code here */
}

CUresult vgb_do_vgpMemPoolExport(struct vgb_call *c, const struct vgp_args_vgpMemPoolExport *a,
                                 struct vgp_ret_vgpMemPoolExport *r,
                                 struct vgp_outs_vgpMemPoolExport *o)
{
    CUmemoryPool pool;
    CUresult e = pool_get(c, a->pool, &pool);
    struct pool *p = pools;

    if (e != CUDA_SUCCESS)
        return e;
    while (p && p->pool != pool)
        p = p->next;
    if (!p) {
        vgb_notify_detail(c->w, "the pool was not made to be exported");
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(o->token, p->token, VGB_TOKEN);
    r->token_len = VGB_TOKEN;
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpMemPoolImport(struct vgb_call *c, const struct vgp_args_vgpMemPoolImport *a,
                                 const void *token)
{
    CUmemoryPool pool = NULL;
    uint64_t length;
    CUresult r = vgb_handle_reserve(c, a->pool, VGP_H_MEM_POOL);

    if (r != CUDA_SUCCESS)
        return r;
    if (a->token_len != VGB_TOKEN)
        return vgb_malformed(c, "a token has %u bytes", a->token_len);
    if (!vgb_share_handle_types() || !vgb_provider.cuMemPoolImportFromShareableHandle)
        return vgb_missing(c, "cuMemPoolImportFromShareableHandle");
    int fd = vgb_share_open(c->w, token, &length);

    if (fd < 0) {
        vgb_notify_detail(c->w, "no process has the pool any more");
        return fd == -1 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    }
    r = vgb_provider.cuMemPoolImportFromShareableHandle(
        &pool, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    vgb_close(&fd);
    if (r == CUDA_SUCCESS && !note(pool, token, true)) {
        raw.cuMemPoolDestroy(pool);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r == CUDA_SUCCESS)
        vgb_handle_put(c, a->pool, VGP_H_MEM_POOL, pool);
    else
        vgb_share_drop(c->w, token);
    return r;
}

CUresult vgb_do_vgpMemPoolExportPointer(struct vgb_call *c,
                                        const struct vgp_args_vgpMemPoolExportPointer *a,
                                        struct vgp_ret_vgpMemPoolExportPointer *r,
                                        struct vgp_outs_vgpMemPoolExportPointer *o)
{
    CUmemPoolPtrExportData data;

    if (!vgb_share_handle_types() || !vgb_provider.cuMemPoolExportPointer)
        return vgb_missing(c, "cuMemPoolExportPointer");
    CUresult e = vgb_provider.cuMemPoolExportPointer(&data, a->dptr);

    if (e == CUDA_SUCCESS) {
        memcpy(o->data, &data, sizeof(o->data));
        r->data_len = sizeof(o->data);
    }
    return e;
}

CUresult vgb_do_vgpMemPoolImportPointer(struct vgb_call *c,
                                        const struct vgp_args_vgpMemPoolImportPointer *a,
                                        const void *bytes,
                                        struct vgp_ret_vgpMemPoolImportPointer *r)
{
    CUmemPoolPtrExportData data;
    CUmemoryPool pool;
    CUdeviceptr p = 0, base;
    size_t size = 0;
    CUresult e = pool_get(c, a->pool, &pool);

    if (e != CUDA_SUCCESS)
        return e;
    if (a->data_len != sizeof(data))
        return vgb_malformed(c, "an exported pointer has %u bytes", a->data_len);
    if (!vgb_share_handle_types() || !vgb_provider.cuMemPoolImportPointer)
        return vgb_missing(c, "cuMemPoolImportPointer");
    memcpy(&data, bytes, sizeof(data));
    e = vgb_provider.cuMemPoolImportPointer(&p, pool, &data);
    if (e == CUDA_SUCCESS && vgb_provider.cuMemGetAddressRange_v2)
        vgb_provider.cuMemGetAddressRange_v2(&base, &size, p);
    r->dptr = p;
    r->size = size;
    return e;
}
