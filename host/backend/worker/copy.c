/* SPDX-License-Identifier: MIT */
/* vgpCopy: every memory copy of the driver API, linear or strided. */
#include "worker.h"

#include <string.h>

#include "vgp_worker.h"

struct side {
    uint32_t kind;
    uint64_t address; /* device address, staging offset or guest address */
    uint64_t pitch, height;
    void *host;       /* kinds other than DEVICE and ARRAY: where the bytes are here */
    CUarray array;    /* ARRAY: the provider's */
};

struct copy {
    struct side dst, src;
    uint64_t width, height, depth;
    CUstream stream;
};

static bool mul(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool vgb_copy_span(const uint64_t size[3], uint64_t pitch, uint64_t height, uint64_t *bytes)
{
    uint64_t rows, extent;

    if (size[1] > 1 || size[2] > 1) {
        if (pitch < size[0] || (size[2] > 1 && height < size[1]))
            return false;
    }
    if (!mul(size[2] - 1, height, &rows) || __builtin_add_overflow(rows, size[1] - 1, &rows) ||
        !mul(rows, pitch, &extent))
        return false;
    return !__builtin_add_overflow(extent, size[0], bytes);
}

static bool span(const struct copy *k, const struct side *s, uint64_t *bytes)
{
    const uint64_t size[3] = {k->width, k->height, k->depth};

    return vgb_copy_span(size, s->pitch, s->height, bytes);
}

/* Finds the host memory of a staging or host side; NULL result = CUDA_ERROR_INVALID_VALUE. */
static CUresult locate(struct vgb_call *c, const struct copy *k, struct side *s, bool write)
{
    struct vgb_worker *w = c->w;
    uint64_t bytes;

    if (s->kind == VGP_COPY_DEVICE)
        return CUDA_SUCCESS;
    if (s->kind == VGP_COPY_ARRAY)
        return vgb_handle_get(c, s->address, VGP_H_ARRAY, false, (void **)&s->array);
    if (!span(k, s, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (s->kind == VGP_COPY_STAGING) {
        if (!vgp_range_ok(s->address, bytes, w->win.staging_size))
            return vgb_malformed(c, "staging range is outside the window");
        s->host = w->win.base + w->win.staging_offset + s->address;
        return CUDA_SUCCESS;
    }
    s->host = vgb_region_address(w, s->address, bytes, write);
    if (!s->host)
        vgb_notify_detail(w, "copy: host address is in no shared region");
    return s->host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_linear(const struct copy *k)
{
    const struct side *d = &k->dst, *s = &k->src;
    bool to_device = d->kind == VGP_COPY_DEVICE, from_device = s->kind == VGP_COPY_DEVICE;

    if (to_device && from_device)
        /* Not the unified cuMemcpyAsync: it takes any address of this process as host memory. */
        return vgb_provider.cuMemcpyDtoDAsync_v2(d->address, s->address, k->width, k->stream);
    if (to_device)
        return vgb_provider.cuMemcpyHtoDAsync_v2(d->address, s->host, k->width, k->stream);
    if (from_device)
        return vgb_provider.cuMemcpyDtoHAsync_v2(d->host, s->address, k->width, k->stream);
    return vgb_provider.cuMemcpyAsync((uintptr_t)d->host, (uintptr_t)s->host, k->width, k->stream);
}

static CUresult copy_strided(const struct copy *k)
{
    const struct side *d = &k->dst, *s = &k->src;
    CUDA_MEMCPY3D p;

    memset(&p, 0, sizeof(p));
    if (s->array) {
        p.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        p.srcArray = s->array;
        p.srcXInBytes = VGP_COPY_AT_X(s->pitch);
        p.srcY = VGP_COPY_AT_Y(s->pitch);
        p.srcZ = VGP_COPY_AT_Z(s->pitch);
    } else {
        p.srcMemoryType = s->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        p.srcHost = s->host;
        p.srcDevice = s->host ? 0 : s->address;
        p.srcPitch = s->pitch;
        p.srcHeight = s->height;
    }
    if (d->array) {
        p.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        p.dstArray = d->array;
        p.dstXInBytes = VGP_COPY_AT_X(d->pitch);
        p.dstY = VGP_COPY_AT_Y(d->pitch);
        p.dstZ = VGP_COPY_AT_Z(d->pitch);
    } else {
        p.dstMemoryType = d->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        p.dstHost = d->host;
        p.dstDevice = d->host ? 0 : d->address;
        p.dstPitch = d->pitch;
        p.dstHeight = d->height;
    }
    p.WidthInBytes = k->width;
    p.Height = k->height;
    p.Depth = k->depth;
    return vgb_provider.cuMemcpy3DAsync_v2(&p, k->stream);
}

static bool provider_can(void)
{
    return vgb_provider.cuMemcpyAsync && vgb_provider.cuMemcpyDtoDAsync_v2 &&
           vgb_provider.cuMemcpyHtoDAsync_v2 && vgb_provider.cuMemcpyDtoHAsync_v2 &&
           vgb_provider.cuMemcpy3DAsync_v2;
}

/* Kinds against each other and against the reply; packed sides get their pitch. */
static CUresult check(struct vgb_call *c, const struct vgp_args_vgpCopy *a, struct copy *k,
                      uint64_t *total)
{
    if (a->dstKind > VGP_COPY_ARRAY || a->dstKind == VGP_COPY_INLINE ||
        (a->srcKind > VGP_COPY_HOST && a->srcKind != VGP_COPY_ARRAY) || a->when > VGP_WHEN_COMPLETE)
        return vgb_malformed(c, "unknown kind or time of reply");
    if ((a->when != VGP_WHEN_NEVER) != (c->rec->reply_slot != VGP_NO_REPLY))
        return vgb_malformed(c, "time of reply and reply slot disagree");
    if (!mul(k->width, k->height, total) || !mul(*total, k->depth, total))
        return CUDA_ERROR_INVALID_VALUE;
    if ((a->srcKind == VGP_COPY_INLINE) != (a->data_len != 0) ||
        (a->srcKind == VGP_COPY_INLINE && *total != a->data_len))
        return vgb_malformed(c, "inline data does not have the size of the copy");
    if (a->dstKind == VGP_COPY_REPLY &&
        (*total > VGP_COPY_REPLY_MAX || a->when != VGP_WHEN_COMPLETE))
        return vgb_malformed(c, "the result does not fit a reply");
    if (a->srcKind == VGP_COPY_INLINE) {
        k->src.pitch = k->width;
        k->src.height = k->height;
    }
    if (a->dstKind == VGP_COPY_REPLY) {
        k->dst.pitch = k->width;
        k->dst.height = k->height;
    }
    return CUDA_SUCCESS;
}

static CUresult sides(struct vgb_call *c, const struct vgp_args_vgpCopy *a, struct copy *k,
                      const void *data)
{
    CUresult r = CUDA_SUCCESS;

    /*
     * Inline data is pageable memory of ours: CUDA's API synchronization behaviour says that an
     * asynchronous copy from such memory returns when the source may be reused. So the record's
     * private copy is enough, and no second one is made here.
     */
    if (a->srcKind == VGP_COPY_INLINE)
        k->src.host = (void *)(uintptr_t)data;
    else
        r = locate(c, k, &k->src, false);
    if (r != CUDA_SUCCESS)
        return r;
    if (a->dstKind != VGP_COPY_REPLY)
        return locate(c, k, &k->dst, true);
    uint8_t *slot = vgb_bounce_result(c->w, c->rec->reply_slot);
    k->dst.host = slot ? slot + sizeof(struct vgp_ret_vgpCopy) : NULL;
    return slot ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/*
 * A small result of an idle stream: copied here and now, which is quicker than an event. Not on the
 * legacy stream beside others, which it would wait for.
 */
static bool quick_result(struct vgb_call *c, const struct vgp_args_vgpCopy *a, struct copy *k,
                         struct vgp_outs_vgpCopy *o)
{
    if (a->dstKind != VGP_COPY_REPLY || a->srcKind != VGP_COPY_DEVICE || k->height != 1 ||
        k->depth != 1 || (k->stream == NULL && c->w->handles.live[VGP_H_STREAM]) ||
        vgb_cu.StreamQuery(k->stream) != CUDA_SUCCESS)
        return false;
    k->dst.host = o->result;
    return true;
}

/* The copy was issued: the reply comes when it is complete. */
static CUresult reply_when_complete(struct vgb_call *c, const struct copy *k, uint32_t result)
{
    struct vgb_wait *wait = vgb_wait_new(c);
    CUresult r;

    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct vgp_ret_vgpCopy head = {.result_len = result};
    if (result) {
        wait->buffer = (uint8_t *)k->dst.host - sizeof(head);
        memcpy(wait->buffer, &head, sizeof(head));
        wait->payload = (uint32_t)sizeof(head) + ((result + 7) & ~7u);
    } else {
        wait->buffer = vgb_bounce_result(c->w, c->rec->reply_slot);
        if (wait->buffer) {
            memcpy(wait->buffer, &head, sizeof(head));
            wait->payload = sizeof(head);
        }
    }
    r = vgb_wait_add_stream(c->w, wait, k->stream);
    if (r != CUDA_SUCCESS)
        return vgb_wait_fail(c, wait, r);
    return vgb_wait_start(c, wait);
}

CUresult vgb_do_vgpCopy(struct vgb_call *c, const struct vgp_args_vgpCopy *a, const void *data,
                        struct vgp_ret_vgpCopy *r, struct vgp_outs_vgpCopy *o)
{
    struct copy k = {.dst = {.kind = a->dstKind,
                             .address = a->dst,
                             .pitch = a->dstPitch,
                             .height = a->dstHeight},
                     .src = {.kind = a->srcKind,
                             .address = a->src,
                             .pitch = a->srcPitch,
                             .height = a->srcHeight},
                     .width = a->widthBytes,
                     .height = a->height ? a->height : 1,
                     .depth = a->depth ? a->depth : 1};
    uint64_t total = 0;

    if (!provider_can())
        return vgb_missing(c, "cuMemcpyAsync and its kin");
    CUresult e = check(c, a, &k, &total);
    if (e == CUDA_SUCCESS)
        e = vgb_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&k.stream);
    if (e != CUDA_SUCCESS)
        return e;
    vgb_bounce_register(c->w);
    if (total && quick_result(c, a, &k, o)) {
        r->result_len = (uint32_t)total;
        return copy_linear(&k);
    }
    if (total) {
        e = sides(c, a, &k, data);
        if (e == CUDA_SUCCESS)
            e = k.height == 1 && k.depth == 1 && !k.src.array && !k.dst.array ? copy_linear(&k)
                                                                             : copy_strided(&k);
        if (e != CUDA_SUCCESS)
            return e;
    }
    if (a->when == VGP_WHEN_COMPLETE)
        return reply_when_complete(c, &k, a->dstKind == VGP_COPY_REPLY ? (uint32_t)total : 0);
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpCopyPeer(struct vgb_call *c, const struct vgp_args_vgpCopyPeer *a)
{
    CUcontext dst = NULL, src = NULL;
    CUstream stream = NULL;
    CUresult e = vgb_handle_get(c, a->dstContext, VGP_H_CONTEXT, false, (void **)&dst);

    if (e == CUDA_SUCCESS)
        e = vgb_handle_get(c, a->srcContext, VGP_H_CONTEXT, false, (void **)&src);
    if (e == CUDA_SUCCESS)
        e = vgb_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);
    if (e != CUDA_SUCCESS)
        return e;
    if (a->height == 1 && a->depth == 1)
        return vgb_provider.cuMemcpyPeerAsync
                   ? vgb_provider.cuMemcpyPeerAsync(a->dst, dst, a->src, src, a->widthBytes, stream)
                   : vgb_missing(c, "cuMemcpyPeerAsync");
    CUDA_MEMCPY3D_PEER p = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                            .srcDevice = a->src,
                            .srcContext = src,
                            .srcPitch = a->srcPitch,
                            .srcHeight = a->srcHeight,
                            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .dstDevice = a->dst,
                            .dstContext = dst,
                            .dstPitch = a->dstPitch,
                            .dstHeight = a->dstHeight,
                            .WidthInBytes = a->widthBytes,
                            .Height = a->height,
                            .Depth = a->depth};

    return vgb_provider.cuMemcpy3DPeerAsync ? vgb_provider.cuMemcpy3DPeerAsync(&p, stream)
                                            : vgb_missing(c, "cuMemcpy3DPeerAsync");
}
