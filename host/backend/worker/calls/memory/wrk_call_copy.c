/* SPDX-License-Identifier: MIT */
/* vgpCopy: every memory copy of the driver API, linear or strided. */
#include "../calls.h"

#include <string.h>

struct side {
    uint32_t kind;
    uint64_t address; /* device address, staging offset or guest address */
    uint64_t pitch, height;
    void *host;    /* kinds other than DEVICE and ARRAY: address in this process */
    CUarray array; /* ARRAY: provider object */
};

struct copy {
    struct side dst, src;
    uint64_t width, height, depth;
    CUstream stream;
};

static bool side_span(const struct copy *k, const struct side *s, uint64_t *bytes)
{
    const uint64_t size[3] = {k->width, k->height, k->depth};

    return wrk_copy_span(size, s->pitch, s->height, bytes);
}

/* Finds the host memory of a staging or host side; NULL result = CUDA_ERROR_INVALID_VALUE. */
static CUresult locate_side(struct wrk_call *c, const struct copy *k, struct side *s, bool write)
{
    struct wrk_worker *w = c->w;
    uint64_t bytes;

    if (s->kind == VGP_COPY_DEVICE)
        return CUDA_SUCCESS;
    if (s->kind == VGP_COPY_ARRAY)
        return wrk_handle_get(c, s->address, VGP_H_ARRAY, false, (void **)&s->array);
    if (!side_span(k, s, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    s->host = wrk_host_pointer(w, s->kind, s->address, bytes, write);
    if (!s->host && s->kind == VGP_COPY_STAGING)
        return wrk_malformed(c, "staging range is outside the window");
    if (!s->host)
        wrk_notify_detail(w, "copy: host address is in no shared region");
    return s->host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_linear(const struct copy *k)
{
    const struct side *d = &k->dst, *s = &k->src;
    bool to_device = d->kind == VGP_COPY_DEVICE, from_device = s->kind == VGP_COPY_DEVICE;

    if (to_device && from_device)
        /*
         * Not the unified cuMemcpyAsync, which accepts any address of this process as host memory.
         */
        return wrk_provider.cuMemcpyDtoDAsync_v2(d->address, s->address, k->width, k->stream);
    if (to_device)
        return wrk_provider.cuMemcpyHtoDAsync_v2(d->address, s->host, k->width, k->stream);
    if (from_device)
        return wrk_provider.cuMemcpyDtoHAsync_v2(d->host, s->address, k->width, k->stream);
    /*
     * Both sides are named as what they are: as a unified address neither is one that may be ours.
     */
    const CUDA_MEMCPY3D p = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                             .srcHost = s->host,
                             .dstMemoryType = CU_MEMORYTYPE_HOST,
                             .dstHost = d->host,
                             .WidthInBytes = k->width,
                             .Height = 1,
                             .Depth = 1};
    return wrk_provider.cuMemcpy3DAsync_v2(&p, k->stream);
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
    return wrk_provider.cuMemcpy3DAsync_v2(&p, k->stream);
}

static bool provider_can(void)
{
    return wrk_provider.cuMemcpyDtoDAsync_v2 && wrk_provider.cuMemcpyHtoDAsync_v2 &&
           wrk_provider.cuMemcpyDtoHAsync_v2 && wrk_provider.cuMemcpy3DAsync_v2;
}

/* Checks the kinds against each other and the reply; sets the pitch of packed sides. */
static CUresult copy_check(struct wrk_call *c, const struct vgp_args_vgpCopy *a, struct copy *k,
                           uint64_t *total)
{
    if (a->dstKind > VGP_COPY_ARRAY || a->dstKind == VGP_COPY_INLINE ||
        (a->srcKind > VGP_COPY_HOST && a->srcKind != VGP_COPY_ARRAY) || a->when > VGP_WHEN_COMPLETE)
        return wrk_malformed(c, "unknown kind or time of reply");
    if ((a->when != VGP_WHEN_NEVER) != (c->rec->reply_slot != VGP_NO_REPLY))
        return wrk_malformed(c, "time of reply and reply slot disagree");
    if (__builtin_mul_overflow(k->width, k->height, total) || __builtin_mul_overflow(*total, k->depth, total))
        return CUDA_ERROR_INVALID_VALUE;
    if ((a->srcKind == VGP_COPY_INLINE) != (a->data_len != 0) ||
        (a->srcKind == VGP_COPY_INLINE && *total != a->data_len))
        return wrk_malformed(c, "inline data does not have the size of the copy");
    if (a->dstKind == VGP_COPY_REPLY && (*total > VGP_COPY_REPLY_MAX || a->when != VGP_WHEN_COMPLETE))
        return wrk_malformed(c, "the result does not fit a reply");
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

static CUresult decode_sides(struct wrk_call *c, const struct vgp_args_vgpCopy *a, struct copy *k,
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
        r = locate_side(c, k, &k->src, false);
    if (r != CUDA_SUCCESS)
        return r;
    if (a->dstKind != VGP_COPY_REPLY)
        return locate_side(c, k, &k->dst, true);
    uint8_t *slot = wrk_bounce_result(c->w, c->rec->reply_slot);
    k->dst.host = slot ? slot + sizeof(struct vgp_ret_vgpCopy) : NULL;
    return slot ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/*
 * A small result of an idle stream: copied here and now, which is quicker than an event. Not on the
 * legacy stream beside others, which it would wait for.
 */
static bool quick_result(struct wrk_call *c, const struct vgp_args_vgpCopy *a, struct copy *k,
                         struct vgp_outs_vgpCopy *o)
{
    if (a->dstKind != VGP_COPY_REPLY || a->srcKind != VGP_COPY_DEVICE || k->height != 1 || k->depth != 1 ||
        (k->stream == NULL && c->w->handles.live[VGP_H_STREAM]) ||
        wrk_ask_stream(&wrk_provider, k->stream).state != WRK_COMPLETE)
        return false;
    k->dst.host = o->result;
    return true;
}

/* What the guest hints about copies like this: stored past the caches? The window may say anything;
 * only speed depends on it. */
static bool is_past(const struct wrk_call *c, const struct vgp_args_vgpCopy *a)
{
    const uint32_t hints = __atomic_load_n(&c->w->win.shared->past_caches, __ATOMIC_RELAXED);

    return wrk_provider.sg_copy_past_caches &&
           ((a->dstKind == VGP_COPY_STAGING && a->srcKind == VGP_COPY_DEVICE &&
             hints & VGP_PAST_TO_STAGING) ||
            (a->srcKind == VGP_COPY_STAGING && a->dstKind == VGP_COPY_DEVICE &&
             hints & VGP_PAST_FROM_STAGING));
}

/* Issues a copy with both sides resolved. */
static CUresult copy_issue(const struct copy *k, bool past)
{
    CUresult e;

    if (k->height != 1 || k->depth != 1 || k->src.array || k->dst.array)
        return copy_strided(k);
    if (past)
        wrk_provider.sg_copy_past_caches(true);
    e = copy_linear(k);
    if (past)
        wrk_provider.sg_copy_past_caches(false);
    return e;
}

/* The copy was issued: the reply follows on completion. */
static CUresult reply_when_complete(struct wrk_call *c, const struct copy *k, uint32_t result)
{
    struct wrk_wait *wait;
    CUresult r;

    /* Already complete, as with providers that copy synchronously: reply at once. */
    if (!result && wrk_stream_query(c->w, k->stream).state == WRK_COMPLETE) {
        wrk_notify_drain_output(c->w, CUDA_SUCCESS);
        return CUDA_SUCCESS;
    }
    wait = wrk_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct vgp_ret_vgpCopy head = {.result_len = result};
    if (result) {
        wait->buffer = (uint8_t *)k->dst.host - sizeof(head);
        memcpy(wait->buffer, &head, sizeof(head));
        wait->payload = (uint32_t)sizeof(head) + ((result + 7) & ~7u);
    } else {
        wait->buffer = wrk_bounce_result(c->w, c->rec->reply_slot);
        if (wait->buffer) {
            memcpy(wait->buffer, &head, sizeof(head));
            wait->payload = sizeof(head);
        }
    }
    r = wrk_wait_add_stream(c->w, wait, k->stream);
    if (r != CUDA_SUCCESS)
        return wrk_wait_fail(c, wait, r);
    return wrk_wait_start(c, wait);
}

/* A graph node accesses its memory at each launch, so memory valid for this call only cannot be
 * used. */
static bool is_passing(uint32_t kind)
{
    return kind != VGP_COPY_DEVICE && kind != VGP_COPY_HOST && kind != VGP_COPY_ARRAY;
}

CUresult wrk_do_vgpCopy(struct wrk_call *c, const struct vgp_args_vgpCopy *a, const void *data,
                        struct vgp_ret_vgpCopy *r, struct vgp_outs_vgpCopy *o)
{
    struct copy k = {
        .dst = {.kind = a->dstKind, .address = a->dst, .pitch = a->dstPitch, .height = a->dstHeight},
        .src = {.kind = a->srcKind, .address = a->src, .pitch = a->srcPitch, .height = a->srcHeight},
        .width = a->widthBytes,
        .height = a->height ? a->height : 1,
        .depth = a->depth ? a->depth : 1};
    uint64_t total = 0;

    if (!provider_can())
        return wrk_missing(c, "cuMemcpy3DAsync and its kin");
    CUresult e = copy_check(c, a, &k, &total);
    if (e == CUDA_SUCCESS)
        e = wrk_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&k.stream);
    /* A node would access the worker's own memory at each launch, after the call. */
    if (e == CUDA_SUCCESS && (is_passing(a->dstKind) || is_passing(a->srcKind)) &&
        wrk_stream_captured(k.stream))
        e = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (e != CUDA_SUCCESS)
        return e;
    wrk_count(&c->w->win.shared->copied, total);
    wrk_bounce_register(c->w);
    if (total && quick_result(c, a, &k, o)) {
        r->result_len = (uint32_t)total;
        return copy_linear(&k);
    }
    if (total) {
        e = decode_sides(c, a, &k, data);
        if (e == CUDA_SUCCESS)
            e = copy_issue(&k, is_past(c, a));
        if (e != CUDA_SUCCESS)
            return e;
    }
    if (a->when == VGP_WHEN_COMPLETE)
        return reply_when_complete(c, &k, a->dstKind == VGP_COPY_REPLY ? (uint32_t)total : 0);
    return CUDA_SUCCESS;
}
