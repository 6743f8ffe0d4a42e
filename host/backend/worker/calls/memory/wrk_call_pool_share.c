/* SPDX-License-Identifier: MIT */
/*
 * Handlers of memory pools that processes share. The guest's descriptor holds a token; the worker
 * keeps which pool it belongs to, and gives the provider the broker's memory for an imported one.
 */
#include "../calls.h"

#include <stdlib.h>
#include <string.h>

#include "vgb_fd.h"

struct pool {
    VGB_OWNED struct pool *next;
    CUmemoryPool pool;
    bool imported;
    uint8_t token[VGB_TOKEN];
};

/* Dispatcher only. */
static struct pool *pools;
static struct wrk_worker *self;
static const struct vgp_provider *lower; /* functions below this filter */

static bool pool_share_note(CUmemoryPool pool, const uint8_t *token, bool imported)
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

void wrk_share_note_pool(CUmemoryPool pool, uint32_t handle_types)
{
    uint8_t token[VGB_TOKEN];

    if (handle_types && wrk_share_latest(token))
        pool_share_note(pool, token, false);
}

static CUresult s_pool_destroy(CUmemoryPool pool)
{
    CUresult r = lower->cuMemPoolDestroy(pool);

    for (struct pool **at = &pools; r == CUDA_SUCCESS && *at; at = &(*at)->next) {
        struct pool *p = *at;

        if (p->pool != pool)
            continue;
        *at = p->next;
        if (p->imported)
            wrk_share_drop(self, p->token); /* the provider drops pools it created itself */
        free(p);
        break;
    }
    return r;
}

void wrk_pool_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below)
{
    self = w;
    lower = below;
    if (lower->cuMemPoolDestroy)
        table->cuMemPoolDestroy = s_pool_destroy;
}

const uint8_t *wrk_pool_token(CUmemoryPool pool)
{
    const struct pool *p = pools;

    while (p && p->pool != pool)
        p = p->next;
    return p ? p->token : NULL;
}

CUresult wrk_do_vgpMemPoolImport(struct wrk_call *c, const struct vgp_args_vgpMemPoolImport *a,
                                 const void *token)
{
    CUmemoryPool pool = NULL;
    uint64_t length;
    CUresult r = wrk_handle_reserve(c, a->pool, VGP_H_MEM_POOL);

    if (r != CUDA_SUCCESS)
        return r;
    if (a->token_len != VGB_TOKEN)
        return wrk_malformed(c, "a token has %u bytes", a->token_len);
    if (!wrk_share_handle_types() || !wrk_provider.cuMemPoolImportFromShareableHandle)
        return wrk_missing(c, "cuMemPoolImportFromShareableHandle");
    int fd = wrk_share_open(c->w, token, &length);

    if (fd < 0) {
        wrk_notify_detail(c->w, "no process has the pool any more");
        return fd == -1 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    }
    r = wrk_provider.cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)fd,
                                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    vgb_close(&fd);
    if (r == CUDA_SUCCESS && !pool_share_note(pool, token, true)) {
        lower->cuMemPoolDestroy(pool);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r == CUDA_SUCCESS)
        wrk_handle_put(c, a->pool, VGP_H_MEM_POOL, pool);
    else
        wrk_share_drop(c->w, token);
    return r;
}
