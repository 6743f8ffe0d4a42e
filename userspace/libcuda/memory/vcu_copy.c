/* SPDX-License-Identifier: MIT */
/*
 * Copies between host and device.
 *
 *   small, from the host        inline in the record
 *   small, to the host          in the reply
 *   pinned memory               in place, by the worker
 *   everything else             through pieces of the staging area, several under way
 *
 * When a call returns is CUDA's rule: synchronous copies with a pageable or pinned host side when
 * they are complete; asynchronous copies from pageable memory when the source has been read;
 * asynchronous copies to pageable memory when they are complete; pinned and device copies at once.
 */
#include "copy.h"
#include "memory.h"

#include <string.h>

#include "vgp_guest.h"

/* Copies up to this size travel in the record. A record is copied once more than a staged piece,
   but an asynchronous copy needs no reply then. */
#define INLINE_SYNC 512u
#define INLINE_ASYNC (8u << 10)

void vcu_copy_simplify(struct vcu_copy *c)
{
    if (c->dst.array || c->src.array)
        return; /* rows of an array do not follow each other */
    if (c->depth > 1 && c->dst.height == c->height && c->src.height == c->height) {
        c->height *= c->depth; /* planes follow each other: more rows */
        c->depth = 1;
    }
    if (c->depth == 1 && c->height > 1 && c->dst.pitch == c->width && c->src.pitch == c->width) {
        c->width *= c->height;
        c->height = 1;
    }
    if (c->height == 1 && c->depth == 1)
        c->dst.pitch = c->src.pitch = c->width;
}

/* Of an array only whether the place fits the wire: the worker's driver knows its size. */
static uint64_t array_extent(const struct vcu_copy_end *e, const struct vcu_copy *c)
{
    return e->x < 1u << 24 && c->width < 1u << 24 && e->y < 1u << 19 && c->height < 1u << 19 &&
           e->z < 1u << 19 && c->depth < 1u << 19;
}

uint64_t vcu_copy_extent(const struct vcu_copy_end *e, const struct vcu_copy *c)
{
    uint64_t rows, bytes;

    if (e->array)
        return array_extent(e, c);
    if (__builtin_mul_overflow(c->depth - 1, e->height, &rows) ||
        __builtin_add_overflow(rows, c->height - 1, &rows) ||
        __builtin_mul_overflow(rows, e->pitch, &bytes) || __builtin_add_overflow(bytes, c->width, &bytes) ||
        e->addr + bytes < e->addr)
        return 0;
    return bytes;
}

/* True if either side of a copy between contexts is on a non-current device. The worker then needs
   both contexts. */
static bool crosses_devices(const struct vcu_copy *c)
{
    const struct vcu_context *current = vcu_context_find(NULL);
    const struct vcu_context *dst = vcu_context_find(c->dst_context);
    const struct vcu_context *src = vcu_context_find(c->src_context);

    return vcu.worker_minor >= 2 && !c->dst.array && !c->src.array && current != NULL && dst != NULL &&
           src != NULL && (dst->device != current->device || src->device != current->device);
}

/* True if only a wait can reveal when the copy to the device has ended. The source has been read
 * when the call returns, or lies on the device. */
static bool is_quiet(const struct vcu_copy *c)
{
    return !c->dst.array && c->width * c->height * c->depth <= VCU_OWE_MAX &&
           vcu_memory_is_private(c->dst.addr, vcu_copy_extent(&c->dst, c)) &&
           (!c->src.device ||
            (!c->src.array && vcu_memory_is_private(c->src.addr, vcu_copy_extent(&c->src, c))));
}

static CUresult send_whole(const struct vcu_copy *c, uint32_t dst_kind, uint32_t src_kind, uint32_t when)
{
    struct vgp_intent intent = {0};
    struct vgp_submit s;
    CUresult res;

    if (c->dst_context != NULL && c->src_context != NULL && dst_kind == VGP_COPY_DEVICE &&
        src_kind == VGP_COPY_DEVICE && crosses_devices(c))
        return vgp_call_vgpCopyPeer(c->dst.addr, c->dst.pitch, c->dst.height, c->src.addr, c->src.pitch,
                                    c->src.height, c->dst_context, c->src_context, c->width, c->height,
                                    c->depth, c->stream);
    if (when == VGP_WHEN_NEVER && atomic_load_explicit(&vcu_captures, memory_order_relaxed) != 0) {
        intent.posted = vcu_capture_post(c->stream);
        if (!intent.posted)
            when = VGP_WHEN_ISSUED; /* an error belongs to the call then */
    }
    if (when == VGP_WHEN_COMPLETE)
        intent.observed = VGP_OBSERVED_WAITS;
    else if (dst_kind == VGP_COPY_DEVICE && src_kind == VGP_COPY_DEVICE && is_quiet(c))
        intent.observed = VGP_OBSERVED_QUIET;
    res = vgp_send_vgpCopy(
        &s, when != VGP_WHEN_NEVER, intent, dst_kind, src_kind, c->dst.addr,
        vcu_copy_wire_pitch(&c->dst, 0, 0, 0), vcu_copy_wire_height(&c->dst, c->dst.height), c->src.addr,
        vcu_copy_wire_pitch(&c->src, 0, 0, 0), vcu_copy_wire_height(&c->src, c->src.height), c->width,
        c->height, c->depth, c->stream, when, NULL, 0);

    if (res == CUDA_SUCCESS && when != VGP_WHEN_NEVER)
        res = vgp_recv_vgpCopy(&s, NULL, NULL);
    return res;
}

/* ---- host to device ------------------------------------------------------------------------- */

static CUresult upload_inline(const struct vcu_copy *c, uint64_t bytes, uint32_t when)
{
    uint8_t packed[INLINE_SYNC]; /* larger ones are linear: not packed */
    const void *data = (const void *)(uintptr_t)c->src.addr;
    struct vgp_intent intent = {0};
    struct vgp_submit s;
    CUresult res;

    if (when == VGP_WHEN_NEVER && atomic_load_explicit(&vcu_captures, memory_order_relaxed) != 0)
        when = VGP_WHEN_ISSUED;
    if (c->height > 1 || c->depth > 1) {
        uint8_t *p = packed;

        for (uint64_t z = 0; z < c->depth; z++) {
            vcu_copy_pack(p, &c->src, z, 0, 0, c->width, c->height, false);
            p += c->width * c->height;
        }
        data = packed;
    }
    if (when == VGP_WHEN_COMPLETE)
        intent.observed = VGP_OBSERVED_WAITS;
    else if (is_quiet(c))
        intent.observed = VGP_OBSERVED_QUIET;
    res = vgp_send_vgpCopy(&s, when != VGP_WHEN_NEVER, intent, vcu_copy_wire_kind(&c->dst), VGP_COPY_INLINE,
                           c->dst.addr, vcu_copy_wire_pitch(&c->dst, 0, 0, 0),
                           vcu_copy_wire_height(&c->dst, c->dst.height), 0, c->width, c->height, c->width,
                           c->height, c->depth, c->stream, when, data, (uint32_t)bytes);
    if (res == CUDA_SUCCESS && when != VGP_WHEN_NEVER)
        res = vgp_recv_vgpCopy(&s, NULL, NULL);
    return res;
}

static CUresult upload_staged(const struct vcu_copy *c)
{
    return vcu_copy_upload_staged(c, !c->async     ? VGP_OBSERVED_WAITS
                                     : is_quiet(c) ? VGP_OBSERVED_QUIET
                                                   : VGP_OBSERVED_ANY);
}

/*
 * Asynchronous copies are answered when they are complete, which is too late for an address that
 * the driver refuses at the call. For unknown memory, the first and the last byte are therefore
 * copied ahead, and the worker answers as soon as these copies are issued.
 */
static CUresult try_ends(const struct vcu_copy *c, uint64_t src_extent, uint64_t dst_extent)
{
    struct vcu_copy one = *c;
    CUresult res;

    one.width = one.height = one.depth = 1;
    res = upload_inline(&one, 1, VGP_WHEN_ISSUED);
    if (res != CUDA_SUCCESS)
        return res;
    one.dst.addr += dst_extent - 1;
    one.src.addr += src_extent - 1;
    return upload_inline(&one, 1, VGP_WHEN_ISSUED);
}

/* A copy out of pinned memory reads it in its stream's order. With no work outstanding that is now:
 * the bytes may go with the record, and a wait for the copy can be owed as for pageable memory. */
static bool upload_now(const struct vcu_copy *c, uint64_t bytes)
{
    return c->async && bytes <= INLINE_ASYNC && c->height == 1 && c->depth == 1 && is_quiet(c) &&
           vcu_wait_may_owe(c->stream);
}

/* A synchronous copy whose bytes are in the record: it may complete by itself where no earlier work
 * requires a wait. False: the caller must wait. */
static bool upload_owed(const struct vcu_copy *c, uint64_t bytes, CUresult *res)
{
    if (bytes > INLINE_ASYNC || c->height > 1 || c->depth > 1 || !is_quiet(c) || !vcu_wait_may_owe(c->stream))
        return false;
    *res = upload_inline(c, bytes, VGP_WHEN_NEVER);
    if (*res == CUDA_SUCCESS && !vcu_wait_owe(c->stream))
        *res = vgp_call_cuStreamSynchronize(c->stream);
    return true;
}

/*
 * Same for more bytes than a record holds: the staging area has them when the call returns. Of 64
 * KiB the program waits only for its own copy, while the worker makes the second.
 */
static bool upload_staged_owed(const struct vcu_copy *c, CUresult *res)
{
    struct vcu_copy left = *c;

    if (!is_quiet(c) || !vcu_wait_may_owe(c->stream) || vcu_copy_to_be_measured(c))
        return false;
    left.async = true;
    *res = upload_staged(&left);
    if (*res == CUDA_SUCCESS && !vcu_wait_owe(c->stream))
        *res = vgp_call_cuStreamSynchronize(c->stream);
    return true;
}

static CUresult copy_upload(const struct vcu_copy *c, uint64_t src_extent)
{
    uint64_t bytes = c->width * c->height * c->depth;
    uint64_t dst_extent = vcu_copy_extent(&c->dst, c);
    /* A known address needs no answer of the worker, which may refuse others. */
    bool known = dst_extent != 0 && vcu_memory_is_device(c->dst.addr, dst_extent);
    uint32_t when = !c->async ? VGP_WHEN_COMPLETE : known ? VGP_WHEN_NEVER : VGP_WHEN_ISSUED;

    CUresult res;

    if (!c->async && known && upload_owed(c, bytes, &res))
        return res;
    if (vcu_memory_in_place(c->src.addr, src_extent) && !(known && upload_now(c, bytes)))
        return send_whole(c, vcu_copy_wire_kind(&c->dst), VGP_COPY_HOST, when);
    if (bytes <= INLINE_SYNC || (bytes <= INLINE_ASYNC && c->async && c->height == 1 && c->depth == 1))
        return upload_inline(c, bytes, when);
    if (!c->async && known && upload_staged_owed(c, &res))
        return res;
    if (when == VGP_WHEN_ISSUED && vcu_copy_wire_kind(&c->dst) == VGP_COPY_DEVICE && dst_extent != 0 &&
        src_extent != 0 && atomic_load_explicit(&vcu_captures, memory_order_relaxed) == 0) {
        res = try_ends(c, src_extent, dst_extent);

        if (res != CUDA_SUCCESS)
            return res;
    }
    return upload_staged(c);
}

/* ---- device to host ------------------------------------------------------------------------- */

static CUresult download_small(const struct vcu_copy *c, uint64_t bytes)
{
    uint8_t packed[VGP_COPY_REPLY_MAX];
    uint32_t n = sizeof(packed);
    struct vgp_submit s;
    CUresult res;

    res =
        vgp_send_vgpCopy(&s, true, (struct vgp_intent){.observed = VGP_OBSERVED_WAITS}, VGP_COPY_REPLY,
                         vcu_copy_wire_kind(&c->src), 0, c->width, c->height, c->src.addr,
                         vcu_copy_wire_pitch(&c->src, 0, 0, 0), vcu_copy_wire_height(&c->src, c->src.height),
                         c->width, c->height, c->depth, c->stream, VGP_WHEN_COMPLETE, NULL, 0);
    if (res == CUDA_SUCCESS)
        res = vgp_recv_vgpCopy(&s, packed, &n);
    if (res == CUDA_SUCCESS && n != bytes)
        res = CUDA_ERROR_UNKNOWN;
    if (res != CUDA_SUCCESS)
        return res;
    for (uint64_t z = 0; z < c->depth; z++)
        vcu_copy_pack(packed + z * c->width * c->height, &c->dst, z, 0, 0, c->width, c->height, true);
    return CUDA_SUCCESS;
}

static CUresult copy_download(const struct vcu_copy *c, uint64_t dst_extent)
{
    uint64_t bytes = c->width * c->height * c->depth;
    uint64_t src_extent = vcu_copy_extent(&c->src, c);
    bool known = src_extent != 0 && vcu_memory_is_device(c->src.addr, src_extent);

    if (vcu_memory_in_place(c->dst.addr, dst_extent)) {
        uint32_t when = !c->async ? VGP_WHEN_COMPLETE : known ? VGP_WHEN_NEVER : VGP_WHEN_ISSUED;

        return send_whole(c, VGP_COPY_HOST, vcu_copy_wire_kind(&c->src), when);
    }
    if (bytes <= VGP_COPY_REPLY_MAX)
        return download_small(c, bytes);
    return vcu_copy_download_staged(c);
}

/* ---- the four directions -------------------------------------------------------------------- */

static CUresult host_to_host(const struct vcu_copy *c)
{
    /* "Fully synchronous with respect to the host", after the stream's work. */
    CUresult res = vgp_call_cuStreamSynchronize(c->stream);

    if (res != CUDA_SUCCESS)
        return res;
    for (uint64_t z = 0; z < c->depth; z++) {
        for (uint64_t y = 0; y < c->height; y++)
            memmove((void *)(uintptr_t)vcu_copy_row_at(&c->dst, z, y),
                    (const void *)(uintptr_t)vcu_copy_row_at(&c->src, z, y), c->width);
    }
    return CUDA_SUCCESS;
}

/* True if the worker has no reason to refuse either side. Host memory is in place. */
static bool is_certain(const struct vcu_copy *c)
{
    return !c->dst.array && !c->src.array &&
           (!c->dst.device || vcu_memory_is_device(c->dst.addr, vcu_copy_extent(&c->dst, c))) &&
           (!c->src.device || vcu_memory_is_device(c->src.addr, vcu_copy_extent(&c->src, c)));
}

static CUresult device_to_device(const struct vcu_copy *c)
{
    /* No host synchronisation in either form; a reply only where the worker may refuse. */
    return send_whole(c, vcu_copy_wire_kind(&c->dst), vcu_copy_wire_kind(&c->src),
                      is_certain(c) && c->async ? VGP_WHEN_NEVER : VGP_WHEN_ISSUED);
}

/* A captured copy: each launch of the graph reads or writes the host memory anew. */
static CUresult copy_capture(const char *call, const struct vcu_copy *c, uint64_t to, uint64_t from)
{
    uint32_t dst = c->dst.device ? vcu_copy_wire_kind(&c->dst) : VGP_COPY_HOST;
    uint32_t src = c->src.device ? vcu_copy_wire_kind(&c->src) : VGP_COPY_HOST;

    if (!c->async)
        return vcu_capture_spoil(call, c->stream);
    if ((!c->dst.device && !vcu_memory_in_place(c->dst.addr, to)) ||
        (!c->src.device && !vcu_memory_in_place(c->src.addr, from)))
        return vcu_units_capture_copy(call, c);
    return send_whole(c, dst, src, is_certain(c) ? VGP_WHEN_NEVER : VGP_WHEN_ISSUED);
}

/*
 * Unified addressing: a side that the call says is host memory may be device memory, as when a program
 * hands cuBLAS a result on the device in the mode for the host. Not where the process
 * has a mapping at that address: the call then means that mapping.
 */
static void reveal_device(struct vcu_copy_end *e)
{
    struct vcu_place p;

    if (!e->device && vcu_memory_next(e->addr, 1, &p) && p.m.kind != VCU_MEM_MANAGED &&
        p.m.kind != VCU_MEM_SHADOW && !lnk_memory_mapped((const void *)(uintptr_t)e->addr, 1))
        e->device = true;
}

CUresult vcu_copy_check(const char *call, struct vcu_copy *c, uint64_t *to, uint64_t *from)
{
    *to = *from = 0;
    if (c->width == 0 || c->height == 0 || c->depth == 0)
        return CUDA_SUCCESS;
    vcu_copy_simplify(c);
    if ((c->height > 1 || c->depth > 1) &&
        ((!c->dst.array && c->dst.pitch < c->width) || (!c->src.array && c->src.pitch < c->width)))
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "a pitch is smaller than the width");
    if (c->depth > 1 &&
        ((!c->dst.array && c->dst.height < c->height) || (!c->src.array && c->src.height < c->height)))
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "a height is smaller than the copy's");
    *to = vcu_copy_extent(&c->dst, c);
    *from = vcu_copy_extent(&c->src, c);
    if (*to == 0 || *from == 0 || c->dst.addr == 0 || c->src.addr == 0)
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "a NULL address, or a size that wraps");
    reveal_device(&c->dst);
    reveal_device(&c->src);
    return CUDA_SUCCESS;
}

/* An unknown address counts as host memory: the kernel is asked whether it is mapped. Where the
 * call says that it is host memory, only for copies that cost more than this check. */
bool vcu_copy_host_ok(const struct vcu_copy_end *e, uint64_t extent)
{
    if (e->device || (!e->guessed && extent < VCU_ASK_ABOVE))
        return true;
    return lnk_memory_mapped((const void *)(uintptr_t)e->addr, extent);
}

/* Refuses a copy that begins in known memory and ends behind it, before any byte is moved. */
static bool leaves_memory(const struct vcu_copy_end *e, uint64_t extent)
{
    struct vcu_place place;

    return e->device && !e->array && !vcu_memory_is_device(e->addr, extent) &&
           vcu_memory_find(e->addr, &place) &&
           (place.m.kind == VCU_MEM_DEVICE || place.m.kind == VCU_MEM_VARIABLE ||
            place.m.kind == VCU_MEM_MANAGED) &&
           extent > place.size - (e->addr - place.start);
}

/* Same for pinned host memory. Pageable memory may reach into it (driver 580). */
static bool crosses_pinned(const struct vcu_copy_end *e, uint64_t extent)
{
    return !e->device && !e->array && vcu_memory_host_crossed(e->addr, extent);
}

CUresult vcu_copy_run(const char *call, struct vcu_copy *c)
{
    uint64_t to, from;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_stream_ok(c->stream))
        return VCU_REFUSE(vcu_stream_error(c->stream), call, "the stream handle is not live");
    res = vcu_copy_check(call, c, &to, &from);
    if (res != CUDA_SUCCESS || to == 0)
        return res;
    if (!vcu_copy_host_ok(&c->dst, to) || !vcu_copy_host_ok(&c->src, from))
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "neither device memory nor memory of this process");
    if (leaves_memory(&c->dst, to) || leaves_memory(&c->src, from) || crosses_pinned(&c->dst, to) ||
        crosses_pinned(&c->src, from))
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "the copy leaves its allocation");
    if (vcu_stream_captured(c->stream))
        return copy_capture(call, c, to, from);
    if (c->dst.device && c->src.device)
        return device_to_device(c);
    if (!c->dst.device && !c->src.device)
        return host_to_host(c);
    res = c->dst.device ? copy_upload(c, from) : copy_download(c, to);
    if (vcu_units_watch() && res == CUDA_SUCCESS && !c->async)
        vcu_units_after_wait(false);
    if (res == CUDA_SUCCESS && !c->async) { /* it has waited for earlier work, so the error surfaces here */
        vcu_units_wait_answered();
        res = lnk_ring_take_async_error(&vcu.ring);
    }
    return res;
}

static struct vcu_copy linear_copy(bool dst_device, uint64_t dst, bool src_device, uint64_t src, uint64_t n,
                                   CUstream stream, bool async)
{
    return (struct vcu_copy){
        .dst = {.device = dst_device, .addr = dst, .pitch = n, .height = 1},
        .src = {.device = src_device, .addr = src, .pitch = n, .height = 1},
        .width = n,
        .height = 1,
        .depth = 1,
        .stream = vcu_stream(stream),
        .async = async,
    };
}

CUresult vcu_copy_linear(const char *call, bool dst_device, uint64_t dst, bool src_device, uint64_t src,
                         uint64_t n, CUstream stream, bool async)
{
    struct vcu_copy c = linear_copy(dst_device, dst, src_device, src, n, stream, async);

    return vcu_copy_run(call, &c);
}

CUresult vcu_copy_unified(const char *call, uint64_t dst, uint64_t src, uint64_t n, CUstream stream,
                          bool async)
{
    struct vcu_copy c =
        linear_copy(vcu_memory_is_device(dst, 0), dst, vcu_memory_is_device(src, 0), src, n, stream, async);

    c.dst.guessed = c.src.guessed = true;
    return vcu_copy_run(call, &c);
}
