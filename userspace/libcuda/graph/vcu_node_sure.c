/* SPDX-License-Identifier: MIT */
/* The context of a node, and whether the provider is sure to accept a node of that context. */
#include "graph.h"
#include "../memory/memory.h"

#include "vgp_guest.h"

CUcontext vcu_node_context(const struct vgp_where *w, CUcontext ctx)
{
    return ctx == NULL && vgp_where_adds(w) ? (CUcontext)(uintptr_t)vcu_current_context() : ctx;
}

bool vcu_node_context_sure(CUcontext ctx)
{
    const struct vcu_context *c =
        vgp_handle_live((uintptr_t)ctx, VGP_H_CONTEXT) ? vcu_context_find(ctx) : NULL;

    return c != NULL && c->base == c && vcu_context_usable(c) == CUDA_SUCCESS;
}

bool vcu_node_memory_sure(CUcontext ctx, uint64_t addr, uint64_t n)
{
    const struct vcu_context *c = vcu_context_find(ctx);
    struct vcu_place place;

    return c != NULL && vcu_memory_is_private(addr, n) && vcu_memory_find(addr, &place) &&
           place.m.device == c->device;
}
