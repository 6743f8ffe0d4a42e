/* SPDX-License-Identifier: MIT */
/*
 * Copies in graphs. Pinned memory is copied in place by the worker. Memory that the worker does not
 * map is read, or written, by this process when the graph runs: a host function of libcuda copies
 * the bytes to or from memory that the worker maps, before or after the actual copy.
 */
#include "../code/code.h"
#include "../memory/memory.h"
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

/* ---- memory between ---------------------------------------------------------------------------- */

/* Freed buffers kept for the next copies: returning memory waits for the device, which the thread
 * that reads notifications must not do. Buffers beyond this limit are also kept until the process
 * ends, so the sum is the maximum ever needed at one time. */
struct between {
    struct between *next;
    uint64_t size;
    uint64_t context;
    struct vcu_memory m;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct between *spare;

/* The smallest sufficient spare buffer, or a new one. */
static CUresult take_between(const char *call, uint64_t size, struct between **out)
{
    struct between **best = NULL, *b;
    uint64_t context = vcu_owner_context();
    CUresult res;

    size = (size + 4095) & ~4095ull;
    pthread_mutex_lock(&lock);
    for (struct between **p = &spare; *p != NULL; p = &(*p)->next) {
        if ((*p)->context == context && (*p)->size >= size && (*p)->size / 4 <= size &&
            (best == NULL || (*p)->size < (*best)->size))
            best = p;
    }
    if (best != NULL) {
        *out = *best;
        *best = (*best)->next;
    }
    pthread_mutex_unlock(&lock);
    if (best != NULL)
        return CUDA_SUCCESS;
    b = calloc(1, sizeof(*b));
    if (b == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    b->m.kind = VCU_MEM_HOST;
    b->size = size;
    b->context = context;
    res = vcu_hostmem_new(call, b->size, false, &b->m);
    if (res != CUDA_SUCCESS) {
        free(b);
        return res;
    }
    *out = b;
    return CUDA_SUCCESS;
}

static void give_between(struct between *b)
{
    if (b == NULL)
        return;
    pthread_mutex_lock(&lock);
    b->next = spare;
    spare = b;
    pthread_mutex_unlock(&lock);
}

/* ---- moving ------------------------------------------------------------------------------------ */

struct mover {
    struct vcu_copy copy;
    CUDA_MEMCPY3D shown;     /* parameters for GetParams */
    struct between *between; /* NULL: from host to host */
};

static void move_bytes(void *arg)
{
    const struct mover *m = arg;
    const struct vcu_copy *c = &m->copy;
    uint8_t *packed = m->between == NULL ? NULL : m->between->m.shared.va;

    for (uint64_t z = 0; z < c->depth; z++) {
        if (packed != NULL) {
            vcu_copy_pack(packed + z * c->width * c->height, c->dst.device ? &c->src : &c->dst, z, 0, 0,
                          c->width, c->height, !c->dst.device);
            continue;
        }
        for (uint64_t y = 0; y < c->height; y++)
            memmove((void *)(uintptr_t)(c->dst.addr + (z * c->dst.height + y) * c->dst.pitch),
                    (const void *)(uintptr_t)(c->src.addr + (z * c->src.height + y) * c->src.pitch),
                    c->width);
    }
}

static void mover_gone(void *arg)
{
    struct mover *m = arg;

    give_between(m->between);
    free(m);
}

static CUresult new_mover(const char *call, const struct vcu_copy *c, const CUDA_MEMCPY3D *shown,
                          struct mover **out)
{
    struct mover *m = calloc(1, sizeof(*m));
    CUresult res = CUDA_SUCCESS;

    if (m == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->copy = *c;
    m->shown = *shown;
    if (c->dst.device || c->src.device)
        res = take_between(call, c->width * c->height * c->depth, &m->between);
    if (res != CUDA_SUCCESS)
        free(m);
    else
        *out = m;
    return res;
}

/* The parameters that a captured node reports for such a copy. */
static void show_copy(const struct vcu_copy *c, CUDA_MEMCPY3D *p)
{
    memset(p, 0, sizeof(*p));
    if (c->src.array) {
        p->srcMemoryType = CU_MEMORYTYPE_ARRAY;
        p->srcArray = (CUarray)(uintptr_t)c->src.addr;
        p->srcXInBytes = c->src.x;
        p->srcY = c->src.y;
        p->srcZ = c->src.z;
    } else {
        p->srcMemoryType = c->src.device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        p->srcDevice = c->src.device ? c->src.addr : 0;
        p->srcHost = c->src.device ? NULL : (const void *)(uintptr_t)c->src.addr;
        p->srcPitch = c->src.pitch;
        p->srcHeight = c->src.height;
    }
    if (c->dst.array) {
        p->dstMemoryType = CU_MEMORYTYPE_ARRAY;
        p->dstArray = (CUarray)(uintptr_t)c->dst.addr;
        p->dstXInBytes = c->dst.x;
        p->dstY = c->dst.y;
        p->dstZ = c->dst.z;
    } else {
        p->dstMemoryType = c->dst.device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        p->dstDevice = c->dst.device ? c->dst.addr : 0;
        p->dstHost = c->dst.device ? NULL : (void *)(uintptr_t)c->dst.addr;
        p->dstPitch = c->dst.pitch;
        p->dstHeight = c->dst.height;
    }
    p->WidthInBytes = c->width;
    p->Height = c->height;
    p->Depth = c->depth;
}

static CUresult copy_node_send(const struct vgp_where *w, CUcontext ctx, CUstream stream, uint64_t cookie,
                               const struct vcu_copy *c, uint64_t *node)
{
    return vgp_call_vgpGraphCopyNode(
        VGP_WHERE(w), ctx, stream, cookie, vcu_copy_wire_kind(&c->dst), vcu_copy_wire_kind(&c->src),
        c->dst.addr, vcu_copy_wire_pitch(&c->dst, 0, 0, 0), vcu_copy_wire_height(&c->dst, c->dst.height),
        c->src.addr, vcu_copy_wire_pitch(&c->src, 0, 0, 0), vcu_copy_wire_height(&c->src, c->src.height),
        c->width, c->height, c->depth, node);
}

/* Adds or captures a copy whose host side is not visible to the worker. */
static CUresult send_moved(const char *call, const struct vgp_where *w, CUcontext ctx, CUstream stream,
                           const struct vcu_copy *c, const CUDA_MEMCPY3D *shown, uint64_t *node)
{
    struct vcu_copy sent = *c;
    struct vcu_copy_end *side = c->dst.device ? &sent.src : &sent.dst;
    struct mover *m;
    uint64_t cookie;
    CUresult res = new_mover(call, c, shown, &m);

    if (res != CUDA_SUCCESS)
        return res;
    if (m->between != NULL) /* packed there */
        *side = (struct vcu_copy_end){
            .addr = (uintptr_t)m->between->m.shared.va, .pitch = c->width, .height = c->height};
    cookie = vcu_hostfunc_keep(move_bytes, m, mover_gone, &res);
    if (cookie == 0) {
        mover_gone(m);
        return res;
    }
    res = copy_node_send(w, ctx, stream, cookie, &sent, node);
    if (res == CUDA_SUCCESS)
        vcu_hostfunc_sent(cookie);
    else if (vcu_hostfunc_cancel(cookie))
        mover_gone(m);
    return res;
}

/* Checked before the host function becomes a node: a capture does not remove that node when the
 * copy is refused. */
static bool is_memory(const struct vcu_copy_end *e)
{
    struct vcu_place place;
    uint32_t managed;

    return !e->device || e->array || vcu_memory_find(e->addr, &place) ||
           vgp_call_vgpPointerManaged(e->addr, &managed) == CUDA_SUCCESS;
}

static CUresult capture_pageable(const char *call, const struct vcu_copy *c)
{
    const struct vgp_where w = {.op = VGP_NODE_CAPTURE};
    CUDA_MEMCPY3D shown;
    uint64_t node;

    if (!is_memory(&c->dst) || !is_memory(&c->src))
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "the address is no device memory");
    show_copy(c, &shown);
    return send_moved(call, &w, NULL, c->stream, c, &shown, &node);
}

/* ---- nodes ------------------------------------------------------------------------------------- */

/* True if both sides that are arrays contain their part of the copy, in whole elements of one size. */
static bool arrays_sure(const struct vcu_copy *c, CUcontext ctx)
{
    const struct vcu_copy_end *const side[] = {&c->dst, &c->src};
    struct vcu_array_extent a;
    uint32_t element = 0;

    for (unsigned i = 0; i < 2; i++) {
        const struct vcu_copy_end *e = side[i];

        if (!e->array)
            continue;
        if (!vcu_array_extent((CUarray)(uintptr_t)e->addr, ctx, &a) ||
            (element != 0 && a.element != element) || e->x % a.element != 0 || c->width % a.element != 0 ||
            c->width > a.row || e->x > a.row - c->width || c->height > a.height ||
            e->y > a.height - c->height || c->depth > a.depth || e->z > a.depth - c->depth)
            return false;
        element = a.element;
    }
    return true;
}

/* extent: of that side, not of an array: arrays_sure(). Memory of the host that is not in place is read or written by this process. */
static bool side_sure(const struct vcu_copy_end *e, uint64_t extent, CUcontext ctx, bool write)
{
    const unsigned not_to_write = CU_MEMHOSTREGISTER_READ_ONLY | CU_MEMHOSTREGISTER_IOMEMORY;
    struct vcu_place place;

    if (e->array)
        return true;
    if (e->pitch > VCU_PITCH_SURE)
        return false;
    if (e->device)
        return vcu_node_memory_sure(ctx, e->addr, extent);
    return !write || !vcu_memory_find_host(e->addr, &place) || !place.m.registered ||
           (place.m.flags & not_to_write) == 0;
}

CUresult vcu_copy_node(const char *call, const struct vgp_where *w, const CUDA_MEMCPY3D *p, CUcontext ctx,
                       uint64_t *node)
{
    struct vcu_copy c = {0};
    struct vgp_where where = *w;
    uint64_t to, from;
    CUresult res;

    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    ctx = vcu_node_context(w, ctx);
    if (w->op != VGP_NODE_SET && (ctx == NULL || vcu_context_find(ctx) == NULL))
        return CUDA_ERROR_INVALID_CONTEXT;
    res = vcu_copy_from_3d(call, p, &c);
    if (res == CUDA_SUCCESS && (c.width == 0 || c.height == 0 || c.depth == 0))
        res = CUDA_ERROR_INVALID_VALUE; /* a node must copy something */
    if (res == CUDA_SUCCESS)
        res = vcu_copy_check(call, &c, &to, &from);
    if (res == CUDA_SUCCESS && (!vcu_copy_host_ok(&c.dst, to) || !vcu_copy_host_ok(&c.src, from)))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res != CUDA_SUCCESS)
        return res;
    if (vcu_build_post(w, vcu_node_context_sure(ctx) && arrays_sure(&c, ctx) &&
                              side_sure(&c.dst, to, ctx, true) && side_sure(&c.src, from, ctx, false)))
        where.op = VGP_NODE_POST;
    if ((c.dst.device || vcu_memory_in_place(c.dst.addr, to)) &&
        (c.src.device || vcu_memory_in_place(c.src.addr, from)))
        return copy_node_send(&where, ctx, NULL, 0, &c, node);
    return send_moved(call, &where, ctx, NULL, &c, p, node);
}

/* The reverse of the wire's form. */
static void from_wire(struct vcu_copy_end *e, uint32_t kind)
{
    e->array = kind == VGP_COPY_ARRAY;
    e->device = e->array || kind == VGP_COPY_DEVICE;
    if (e->array) {
        e->x = VGP_COPY_AT_X(e->pitch);
        e->y = VGP_COPY_AT_Y(e->pitch);
        e->z = VGP_COPY_AT_Z(e->pitch);
    }
}

CUresult vcu_cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
    struct vcu_copy c = {0};
    uint32_t dst = 0, src = 0;
    uint64_t cookie = 0;
    CUhostFn fn = NULL;
    void *user = NULL;
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && (!vcu_node_ok(hNode) || nodeParams == NULL))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpGraphCopyNodeGet(hNode, &cookie, &dst, &src, &c.dst.addr, &c.dst.pitch,
                                           &c.dst.height, &c.src.addr, &c.src.pitch, &c.src.height, &c.width,
                                           &c.height, &c.depth);
    if (res != CUDA_SUCCESS)
        return res;
    if (cookie == 0) {
        from_wire(&c.dst, dst);
        from_wire(&c.src, src);
        show_copy(&c, nodeParams);
        return CUDA_SUCCESS;
    }
    if (!vcu_hostfunc_find(cookie, &fn, &user) || fn != move_bytes)
        return CUDA_ERROR_UNKNOWN;
    *nodeParams = ((struct mover *)user)->shown;
    return CUDA_SUCCESS;
}

const struct vcu_unit_ops vcu_copy_node_unit = {.capture_copy = capture_pageable};
