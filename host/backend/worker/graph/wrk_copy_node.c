/* SPDX-License-Identifier: MIT */
/* Copy nodes, including nodes of two halves: a copy and a host function of the guest. */
#include "node.h"

#include <string.h>

/* Host memory of a side of the copy; 1: in no region. */
static CUresult host_side(struct wrk_call *c, const uint64_t size[3], uint64_t address, uint64_t pitch,
                          uint64_t height, bool write, void **host)
{
    uint64_t bytes;

    if (!wrk_copy_span(size, pitch, height, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    *host = wrk_host_pointer(c->w, VGP_COPY_HOST, address, bytes, write);
    if (!*host)
        wrk_notify_detail(c->w, "copy node: host address is in no shared region");
    return *host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* An array that has ended, with its context perhaps, is none to a copy. */
static CUresult array_side(struct wrk_call *c, uint64_t handle, CUarray *array)
{
    CUresult r = wrk_handle_get(c, handle, VGP_H_ARRAY, false, (void **)array);

    return r == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : r;
}

static CUresult copy_node_describe(struct wrk_call *c, const struct vgp_args_vgpGraphCopyNode *a,
                                   CUDA_MEMCPY3D *p)
{
    const uint64_t size[3] = {a->widthBytes, a->height, a->depth};
    void *host = NULL;
    CUresult r = CUDA_SUCCESS;

    if ((a->dstKind != VGP_COPY_DEVICE && a->dstKind != VGP_COPY_HOST && a->dstKind != VGP_COPY_ARRAY) ||
        (a->srcKind != VGP_COPY_DEVICE && a->srcKind != VGP_COPY_HOST && a->srcKind != VGP_COPY_ARRAY))
        return wrk_malformed(c, "kinds of memory that a node cannot copy");
    if (!size[0] || !size[1] || !size[2])
        return CUDA_ERROR_INVALID_VALUE;
    memset(p, 0, sizeof(*p));
    p->WidthInBytes = size[0];
    p->Height = size[1];
    p->Depth = size[2];
    p->srcPitch = a->srcPitch;
    p->srcHeight = a->srcHeight;
    p->dstPitch = a->dstPitch;
    p->dstHeight = a->dstHeight;
    p->srcMemoryType = a->srcKind == VGP_COPY_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    p->dstMemoryType = a->dstKind == VGP_COPY_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    p->srcDevice = a->srcKind == VGP_COPY_HOST ? 0 : a->src;
    p->dstDevice = a->dstKind == VGP_COPY_HOST ? 0 : a->dst;
    if (a->srcKind == VGP_COPY_HOST) {
        r = host_side(c, size, a->src, a->srcPitch, a->srcHeight, false, &host);
        p->srcHost = host;
    }
    if (r == CUDA_SUCCESS && a->dstKind == VGP_COPY_HOST)
        r = host_side(c, size, a->dst, a->dstPitch, a->dstHeight, true, &p->dstHost);
    if (r == CUDA_SUCCESS && a->srcKind == VGP_COPY_ARRAY) {
        p->srcMemoryType = CU_MEMORYTYPE_ARRAY;
        p->srcDevice = p->srcPitch = p->srcHeight = 0;
        p->srcXInBytes = VGP_COPY_AT_X(a->srcPitch);
        p->srcY = VGP_COPY_AT_Y(a->srcPitch);
        p->srcZ = VGP_COPY_AT_Z(a->srcPitch);
        r = array_side(c, a->src, &p->srcArray);
    }
    if (r == CUDA_SUCCESS && a->dstKind == VGP_COPY_ARRAY) {
        p->dstMemoryType = CU_MEMORYTYPE_ARRAY;
        p->dstDevice = p->dstPitch = p->dstHeight = 0;
        p->dstXInBytes = VGP_COPY_AT_X(a->dstPitch);
        p->dstY = VGP_COPY_AT_Y(a->dstPitch);
        p->dstZ = VGP_COPY_AT_Z(a->dstPitch);
        r = array_side(c, a->dst, &p->dstArray);
    }
    return r;
}

static bool can_copy(void)
{
    return wrk_provider.cuGraphAddMemcpyNode && wrk_provider.cuGraphMemcpyNodeSetParams &&
           wrk_provider.cuGraphExecMemcpyNodeSetParams && wrk_provider.cuGraphAddHostNode &&
           wrk_provider.cuGraphDestroyNode && wrk_provider.cuMemcpy3DAsync_v2 &&
           wrk_provider.cuLaunchHostFunc;
}

/* Halves of a copy with a host function. */
struct halves {
    bool copy, to_device;
};

/* Adds both halves, in their order. */
static CUresult add_joined(struct wrk_call *c, struct wrk_where *w, const CUDA_MEMCPY3D *p, CUcontext ctx,
                           uint64_t cookie, struct halves h, uint64_t *handle)
{
    CUDA_HOST_NODE_PARAMS host = {.fn = wrk_host_func_run};
    CUgraph g = w->graph->object;
    CUgraphNode func = NULL, copy = NULL;
    struct wrk_host_func *f;
    CUresult r;

    if (w->edges) {
        wrk_notify_detail(c->w, "copy of pageable memory after a programmatic edge");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    r = wrk_host_func_for(c->w, g, cookie, &f);
    host.userData = f;
    if (r == CUDA_SUCCESS && h.copy && !h.to_device)
        r = wrk_provider.cuGraphAddMemcpyNode(&copy, g, w->deps, w->ndeps, p, ctx);
    if (r == CUDA_SUCCESS && copy)
        r = wrk_provider.cuGraphAddHostNode(&func, g, &copy, 1, &host);
    else if (r == CUDA_SUCCESS)
        r = wrk_provider.cuGraphAddHostNode(&func, g, w->deps, w->ndeps, &host);
    if (r == CUDA_SUCCESS && h.copy && h.to_device)
        r = wrk_provider.cuGraphAddMemcpyNode(&copy, g, &func, 1, p, ctx);
    if (r == CUDA_SUCCESS) {
        CUgraphNode in = h.copy && !h.to_device ? copy : func;
        CUgraphNode out = h.copy && h.to_device ? copy : func;

        *handle = w->name;
        if (wrk_gnode_join(c->w, w->graph, h.copy ? copy : func, in, out, cookie, handle))
            return CUDA_SUCCESS;
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (copy)
        wrk_provider.cuGraphDestroyNode(copy);
    if (func)
        wrk_provider.cuGraphDestroyNode(func);
    return r;
}

/* Adds a half to the capture; *node: the resulting node. */
static CUresult capture_half(CUstream stream, const CUDA_MEMCPY3D *p, struct wrk_host_func *f,
                             CUgraphNode *node)
{
    CUgraph g;
    CUresult r = p ? wrk_provider.cuMemcpy3DAsync_v2(p, stream)
                   : wrk_provider.cuLaunchHostFunc(stream, wrk_host_func_run, f);

    return r == CUDA_SUCCESS ? wrk_capture_front(stream, &g, node) : r;
}

static CUresult capture_joined(struct wrk_call *c, CUstream stream, const CUDA_MEMCPY3D *p, uint64_t cookie,
                               struct halves h)
{
    CUgraphNode func = NULL, copy = NULL, last;
    struct wrk_host_func *f;
    uint64_t handle = 0;
    CUgraph object;
    CUresult r = wrk_capture_front(stream, &object, &last);

    if (r == CUDA_SUCCESS)
        r = wrk_host_func_for(c->w, object, cookie, &f);
    if (r == CUDA_SUCCESS && h.copy && !h.to_device)
        r = capture_half(stream, p, NULL, &copy);
    if (r == CUDA_SUCCESS)
        r = capture_half(stream, NULL, f, &func);
    if (r == CUDA_SUCCESS && h.copy && h.to_device)
        r = capture_half(stream, p, NULL, &copy);
    if (r != CUDA_SUCCESS)
        return r;
    struct wrk_graph *g = wrk_graph_of(c->w, object);
    CUgraphNode in = h.copy && !h.to_device ? copy : func;
    CUgraphNode out = h.copy && h.to_device ? copy : func;
    if (!g || !in || !out || !wrk_gnode_join(c->w, g, h.copy ? copy : func, in, out, cookie, &handle))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

/* Replaces or removes the host function of a two-half node. */
static CUresult change_func(struct wrk_call *c, struct wrk_where *w, uint64_t cookie)
{
    CUDA_HOST_NODE_PARAMS host = {.fn = wrk_host_func_nothing};
    struct wrk_gnode *n = w->target;
    struct wrk_host_func *f = NULL;
    CUresult r = CUDA_SUCCESS;

    if (w->op == VGP_NODE_EXEC) {
        if (cookie && !(f = wrk_host_func_new(c->w, cookie, false)))
            return CUDA_ERROR_OUT_OF_MEMORY;
        r = wrk_exec_set_func(w->exec, n, f);
        if (r != CUDA_SUCCESS && f)
            wrk_host_func_drop(f);
        else if (f)
            wrk_host_func_put(f);
        return r;
    }
    if (cookie) {
        r = wrk_host_func_for(c->w, n->graph->object, cookie, &f);
        host = (CUDA_HOST_NODE_PARAMS){.fn = wrk_host_func_run, .userData = f};
    }
    if (r == CUDA_SUCCESS)
        r = wrk_provider.cuGraphHostNodeSetParams(wrk_gnode_func(n), &host);
    if (r == CUDA_SUCCESS) {
        n->cookie = cookie;
        n->changed = true;
    }
    return r;
}

/* Sets parameters of a copy that has or gets a host function. The set of halves and their order do
 * not change. */
static CUresult change_joined(struct wrk_call *c, struct wrk_where *w, const CUDA_MEMCPY3D *p, CUcontext ctx,
                              uint64_t cookie, struct halves h)
{
    const struct wrk_gnode *n = w->target;
    bool two = n->in != n->out, to_device = n->out == n->object;
    CUresult r = CUDA_SUCCESS;

    if (!wrk_provider.cuGraphHostNodeSetParams || !wrk_provider.cuGraphExecHostNodeSetParams)
        return wrk_missing(c, "cuGraphHostNodeSetParams");
    if ((!two && !n->cookie) || h.copy != two || (cookie && two && h.to_device != to_device)) {
        wrk_notify_detail(c->w, "a copy node cannot be changed between pageable memory and other "
                                "memory, or its direction, unless it was made for pageable memory");
        /* Documented for executable graphs; the driver permits the change in graphs. */
        return w->op == VGP_NODE_SET ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    }
    if (two)
        r = w->op == VGP_NODE_SET ? wrk_provider.cuGraphMemcpyNodeSetParams(n->object, p)
                                  : wrk_provider.cuGraphExecMemcpyNodeSetParams(w->exec, n->object, p, ctx);
    return r == CUDA_SUCCESS ? change_func(c, w, cookie) : r;
}

static CUresult copy_node(struct wrk_call *c, struct wrk_where *w, const struct vgp_args_vgpGraphCopyNode *a,
                          const CUDA_MEMCPY3D *p, uint64_t *handle)
{
    const struct halves h = {
        .copy = a->dstKind != VGP_COPY_HOST || a->srcKind != VGP_COPY_HOST,
        .to_device = a->dstKind != VGP_COPY_HOST,
    };
    CUgraphNode node = NULL;
    CUcontext ctx;
    CUstream stream;
    CUresult r = wrk_node_context(c, a->context, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (w->op == VGP_NODE_CAPTURE) {
        if (!a->cookie)
            return wrk_malformed(c, "plain copies are captured by another call");
        r = wrk_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);
        return r != CUDA_SUCCESS ? r : capture_joined(c, stream, p, a->cookie, h);
    }
    if (w->op == VGP_NODE_ADD && a->cookie)
        return add_joined(c, w, p, ctx, a->cookie, h, handle);
    if (a->cookie || (w->target && (w->target->cookie || w->target->in != w->target->out)))
        return change_joined(c, w, p, ctx, a->cookie, h);
    if (w->op == VGP_NODE_SET)
        return wrk_provider.cuGraphMemcpyNodeSetParams(w->target->object, p);
    if (w->op == VGP_NODE_EXEC)
        return wrk_provider.cuGraphExecMemcpyNodeSetParams(w->exec, w->target->object, p, ctx);
    r = wrk_provider.cuGraphAddMemcpyNode(&node, w->graph->object, w->deps, wrk_where_n(w), p, ctx);
    return wrk_added(c, w, r, node, handle);
}

CUresult wrk_do_vgpGraphCopyNode(struct wrk_call *c, const struct vgp_args_vgpGraphCopyNode *a,
                                 const uint64_t *dependencies, const void *edgeData,
                                 struct vgp_ret_vgpGraphCopyNode *ret)
{
    CUDA_MEMCPY3D p = {0};
    struct wrk_where w;
    CUresult r = WRK_WHERE(&w);
    bool both_host = a->dstKind == VGP_COPY_HOST && a->srcKind == VGP_COPY_HOST;

    if (r == CUDA_SUCCESS && !can_copy())
        r = wrk_missing(c, "cuGraphAddMemcpyNode and its kin");
    if (r == CUDA_SUCCESS && !(both_host && a->cookie)) /* which the host function does alone */
        r = copy_node_describe(c, a, &p);
    if (r == CUDA_SUCCESS)
        r = copy_node(c, &w, a, &p, &ret->node);
    if (r != CUDA_SUCCESS && a->cookie)
        wrk_host_func_refused(c, a->cookie);
    wrk_where_end(&w);
    return r;
}

static uint64_t guest_side(struct wrk_worker *w, const CUDA_MEMCPY3D *p, bool dst)
{
    const uint64_t size[3] = {p->WidthInBytes, p->Height, p->Depth};
    const uint8_t *host = dst ? p->dstHost : p->srcHost;
    uint64_t bytes;

    if (!wrk_copy_span(size, dst ? p->dstPitch : p->srcPitch, dst ? p->dstHeight : p->srcHeight, &bytes))
        return 0;
    return wrk_region_guest_address(w, host, bytes);
}

/* Client handle of an array; 0 if gone. */
struct array_search {
    CUarray array;
    uint64_t handle;
};

static void compare_array(struct wrk_handle_entry *e, uint64_t handle, void *arg)
{
    struct array_search *s = arg;

    if (e->object == s->array)
        s->handle = handle;
}

static uint64_t array_handle(struct wrk_worker *w, CUarray array)
{
    struct array_search s = {array, 0};

    wrk_handles_each(&w->handles, VGP_H_ARRAY, compare_array, &s);
    return s.handle;
}

CUresult wrk_do_vgpGraphCopyNodeGet(struct wrk_call *c, const struct vgp_args_vgpGraphCopyNodeGet *a,
                                    struct vgp_ret_vgpGraphCopyNodeGet *ret)
{
    CUDA_MEMCPY3D p = {0};
    struct wrk_gnode *n;
    CUresult r = wrk_gnode_get(c, a->node, &n);

    if (r != CUDA_SUCCESS)
        return r;
    ret->cookie = n->cookie;
    if (n->cookie)
        return CUDA_SUCCESS;
    if (!wrk_provider.cuGraphMemcpyNodeGetParams)
        return wrk_missing(c, "cuGraphMemcpyNodeGetParams");
    r = wrk_provider.cuGraphMemcpyNodeGetParams(n->object, &p);
    if (r != CUDA_SUCCESS)
        return r;
    ret->dstKind = p.dstMemoryType == CU_MEMORYTYPE_HOST ? VGP_COPY_HOST : VGP_COPY_DEVICE;
    ret->srcKind = p.srcMemoryType == CU_MEMORYTYPE_HOST ? VGP_COPY_HOST : VGP_COPY_DEVICE;
    ret->dst = ret->dstKind == VGP_COPY_HOST ? guest_side(c->w, &p, true) : p.dstDevice;
    ret->src = ret->srcKind == VGP_COPY_HOST ? guest_side(c->w, &p, false) : p.srcDevice;
    ret->dstPitch = p.dstPitch;
    ret->dstHeight = p.dstHeight;
    ret->srcPitch = p.srcPitch;
    ret->srcHeight = p.srcHeight;
    if (p.dstMemoryType == CU_MEMORYTYPE_ARRAY) {
        ret->dstKind = VGP_COPY_ARRAY;
        ret->dst = array_handle(c->w, p.dstArray);
        ret->dstPitch = VGP_COPY_AT(p.dstXInBytes, p.dstY, p.dstZ);
        ret->dstHeight = 0;
    }
    if (p.srcMemoryType == CU_MEMORYTYPE_ARRAY) {
        ret->srcKind = VGP_COPY_ARRAY;
        ret->src = array_handle(c->w, p.srcArray);
        ret->srcPitch = VGP_COPY_AT(p.srcXInBytes, p.srcY, p.srcZ);
        ret->srcHeight = 0;
    }
    ret->widthBytes = p.WidthInBytes;
    ret->height = p.Height;
    ret->depth = p.Depth;
    return CUDA_SUCCESS;
}
