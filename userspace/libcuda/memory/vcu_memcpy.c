/* SPDX-License-Identifier: MIT */
/* The copy entry points: each brings its parameters into the normal form of copy.h. */
#include "copy.h"

#include "vgp_entry.h"
#include "vgp_guest.h"
#include "../../../protocol/vgp_guest_rt.h"

static uint64_t memcpy_address(const void *p)
{
    return (uintptr_t)p;
}

/* Unified addressing: an address outside known device memory is memory of this process. */
static bool on_device(uint64_t addr)
{
    return vcu_memory_is_device(addr, 0);
}

/* Result `res` of a fill that was put into the thread's own stream: waits for it where the memory is the host's. */
static CUresult memset_of_thread(CUdeviceptr dst, CUresult res)
{
    if (res != CUDA_SUCCESS || on_device(dst) || vcu_stream_captured(CU_STREAM_PER_THREAD))
        return res;
    return vgp_call_cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult vcu_memset_row(CUdeviceptr dst, unsigned element, uint32_t value, size_t n)
{
    const CUstream own = CU_STREAM_PER_THREAD;

    if (!vcu_per_thread)
        return element == 1   ? vgp_call_cuMemsetD8_v2(dst, (unsigned char)value, n)
               : element == 2 ? vgp_call_cuMemsetD16_v2(dst, (unsigned short)value, n)
                              : vgp_call_cuMemsetD32_v2(dst, value, n);
    return memset_of_thread(dst, element == 1 ? vgp_call_cuMemsetD8Async(dst, (unsigned char)value, n, own)
                                 : element == 2
                                     ? vgp_call_cuMemsetD16Async(dst, (unsigned short)value, n, own)
                                     : vgp_call_cuMemsetD32Async(dst, value, n, own));
}

CUresult vcu_memset_rows(CUdeviceptr dst, size_t pitch, unsigned element, uint32_t value, size_t width,
                         size_t height)
{
    const CUstream own = CU_STREAM_PER_THREAD;
    const unsigned char byte = (unsigned char)value;
    const unsigned short half = (unsigned short)value;

    if (!vcu_per_thread)
        return element == 1   ? vgp_call_cuMemsetD2D8_v2(dst, pitch, byte, width, height)
               : element == 2 ? vgp_call_cuMemsetD2D16_v2(dst, pitch, half, width, height)
                              : vgp_call_cuMemsetD2D32_v2(dst, pitch, value, width, height);
    return memset_of_thread(
        dst, element == 1   ? vgp_call_cuMemsetD2D8Async(dst, pitch, byte, width, height, own)
             : element == 2 ? vgp_call_cuMemsetD2D16Async(dst, pitch, half, width, height, own)
                            : vgp_call_cuMemsetD2D32Async(dst, pitch, value, width, height, own));
}

/* The context of a side that is memory of the host does not matter. */
static bool is_elsewhere(const struct vcu_copy *c, const struct vcu_copy_end *end, CUcontext context)
{
    return !c->async && end->device && context != (CUcontext)(uintptr_t)vcu_current_context() &&
           context != NULL && vcu_context_find(context) != NULL;
}

/* Documented of cuMemcpyPeer: serialised with all work of the two contexts. The copy itself is one of the current context. */
static CUresult run_between(const char *call, struct vcu_copy *c)
{
    const bool src = is_elsewhere(c, &c->src, c->src_context), dst = is_elsewhere(c, &c->dst, c->dst_context);
    CUresult res = src ? vcu_cuCtxSynchronize_v2(c->src_context) : CUDA_SUCCESS;

    if (res == CUDA_SUCCESS && dst)
        res = vcu_cuCtxSynchronize_v2(c->dst_context);
    if (res == CUDA_SUCCESS)
        res = vcu_copy_run(call, c);
    /* Their later work is ordered behind it. */
    return res == CUDA_SUCCESS && (src || dst) ? vgp_call_cuStreamSynchronize(c->stream) : res;
}

CUresult vcu_copy_peer(const char *call, CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                       CUcontext src_context, size_t n, CUstream stream, bool async)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (n == 0)
        return CUDA_SUCCESS;
    /* NULL: the current one (driver 580). */
    if (dst_context == NULL)
        dst_context = (CUcontext)(uintptr_t)vcu_current_context();
    if (src_context == NULL)
        src_context = (CUcontext)(uintptr_t)vcu_current_context();
    if (vcu_context_find(dst_context) == NULL || vcu_context_find(src_context) == NULL)
        return VCU_REFUSE(CUDA_ERROR_INVALID_CONTEXT, call, "a context handle is not live");
    struct vcu_copy c = {.dst = {.device = true, .addr = dst, .pitch = n, .height = 1},
                         .src = {.device = true, .addr = src, .pitch = n, .height = 1},
                         .width = n,
                         .height = 1,
                         .depth = 1,
                         .stream = vcu_stream(stream),
                         .async = async,
                         .dst_context = dst_context,
                         .src_context = src_context};

    return run_between(call, &c);
}

/* Location of a side of a strided copy. */
static CUresult resolve_end(const char *call, CUmemorytype type, const void *host, CUdeviceptr device,
                            CUarray array, struct vcu_copy_end *end)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        end->device = false;
        end->addr = memcpy_address(host);
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
        end->device = true;
        end->addr = device;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
        end->guessed = true;
        end->device = on_device(device);
        end->addr = device;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_ARRAY:
        if (!vgp_handle_live((uintptr_t)array, VGP_H_ARRAY))
            return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "the array handle is not live");
        end->device = end->array = true;
        end->addr = (uintptr_t)array;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Start of the copy on that side. pitch: as given, 0: dense rows. False: invalid, or the rows are
 * longer than the pitch given. */
static bool start_of_copy(struct vcu_copy_end *e, uint64_t pitch, uint64_t width, uint64_t x, uint64_t y,
                          uint64_t z)
{
    uint64_t rows, bytes;

    e->pitch = pitch != 0 ? pitch : width;

    if (e->array) {
        e->x = x;
        e->y = y;
        e->z = z;
        return true;
    }
    if (__builtin_mul_overflow(z, e->height, &rows) || __builtin_add_overflow(rows, y, &rows) ||
        __builtin_mul_overflow(rows, e->pitch, &bytes) || __builtin_add_overflow(bytes, x, &bytes) ||
        __builtin_add_overflow(e->addr, bytes, &e->addr) ||
        __builtin_mul_overflow(e->pitch, e->height, &rows) || __builtin_add_overflow(x, width, &x) ||
        (pitch != 0 && x > pitch))
        return false;
    if (bytes >= VCU_ASK_ABOVE) /* the kind of memory at the address is looked up */
        e->guessed = true;
    return true;
}

/* The limit of cuMemcpy2D and cuMemcpy2DAsync for more than one row; cuMemcpy2DUnaligned has none. */
static bool pitch_ok(CUmemorytype type, size_t pitch)
{
    const struct vcu_context *c = vcu_context_find(NULL);

    return type == CU_MEMORYTYPE_ARRAY || c == NULL ||
           pitch <= (size_t)vcu.devices[c->device].attributes[CU_DEVICE_ATTRIBUTE_MAX_PITCH];
}

CUresult vcu_copy_2d(const char *call, const CUDA_MEMCPY2D *p, bool limited, CUstream stream, bool async)
{
    struct vcu_copy c = {.depth = 1, .stream = vcu_stream(stream), .async = async};
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (limited && p->Height > 1 &&
        (!pitch_ok(p->srcMemoryType, p->srcPitch) || !pitch_ok(p->dstMemoryType, p->dstPitch)))
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "a pitch is larger than device attribute 11");
    if (p->WidthInBytes == 0 || p->Height == 0) /* the rest does not matter then (driver 580) */
        return CUDA_SUCCESS;
    res = resolve_end(call, p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, &c.src);
    if (res == CUDA_SUCCESS)
        res = resolve_end(call, p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, &c.dst);
    if (res != CUDA_SUCCESS)
        return res;
    c.width = p->WidthInBytes;
    c.height = p->Height;
    c.src.height = c.dst.height = p->Height;
    if (c.src.addr == 0 || c.dst.addr == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!start_of_copy(&c.src, p->srcPitch, c.width, p->srcXInBytes, p->srcY, 0) ||
        !start_of_copy(&c.dst, p->dstPitch, c.width, p->dstXInBytes, p->dstY, 0))
        return CUDA_ERROR_INVALID_VALUE;
    return vcu_copy_run(call, &c);
}

CUresult vcu_copy_from_3d(const char *call, const CUDA_MEMCPY3D *p, struct vcu_copy *c)
{
    CUresult res;

    if (p == NULL || p->srcLOD != 0 || p->dstLOD != 0 || p->reserved0 != NULL || p->reserved1 != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    c->width = p->WidthInBytes;
    c->height = p->Height;
    c->depth = p->Depth;
    if (c->width == 0 || c->height == 0 || c->depth == 0)
        return CUDA_SUCCESS;
    res = resolve_end(call, p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, &c->src);
    if (res == CUDA_SUCCESS)
        res = resolve_end(call, p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, &c->dst);
    if (res != CUDA_SUCCESS)
        return res;
    c->src.height = p->srcHeight != 0 ? p->srcHeight : p->Height;
    c->dst.height = p->dstHeight != 0 ? p->dstHeight : p->Height;
    if (c->src.addr == 0 || c->dst.addr == 0)
        return CUDA_ERROR_INVALID_VALUE;
    return start_of_copy(&c->src, p->srcPitch, c->width, p->srcXInBytes, p->srcY, p->srcZ) &&
                   start_of_copy(&c->dst, p->dstPitch, c->width, p->dstXInBytes, p->dstY, p->dstZ)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult vcu_copy_3d(const char *call, const CUDA_MEMCPY3D *p, CUcontext dst_context, CUcontext src_context,
                     CUstream stream, bool async)
{
    struct vcu_copy c = {
        .stream = vcu_stream(stream), .async = async, .dst_context = dst_context, .src_context = src_context};
    CUresult res = vcu_check_context();

    if (res == CUDA_SUCCESS)
        res = vcu_copy_from_3d(call, p, &c);
    if (res != CUDA_SUCCESS)
        return res;
    if (c.width == 0 || c.height == 0 || c.depth == 0)
        return CUDA_SUCCESS;
    return run_between(call, &c);
}

/* ---- one row of an array ---------------------------------------------------------------------- */

/* A side of the row: an array, or n bytes of linear memory. */
static CUresult row_end(const char *call, enum vcu_row kind, uint64_t at, size_t x, size_t n,
                        struct vcu_copy_end *end)
{
    CUresult res;

    if (kind != VCU_ROW_ARRAY) {
        *end = (struct vcu_copy_end){.device = kind == VCU_ROW_DEVICE, .addr = at, .pitch = n, .height = 1};
        return CUDA_SUCCESS;
    }
    *end = (struct vcu_copy_end){.array = true};
    res = resolve_end(call, CU_MEMORYTYPE_ARRAY, NULL, 0, (CUarray)(uintptr_t)at, end);
    end->x = x;
    return res;
}

CUresult vcu_copy_row(const char *call, enum vcu_row dst_kind, uint64_t dst, size_t dst_x,
                      enum vcu_row src_kind, uint64_t src, size_t src_x, size_t n, CUstream stream,
                      bool async)
{
    struct vcu_copy c = {.width = n, .height = 1, .depth = 1, .stream = vcu_stream(stream), .async = async};
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS || n == 0)
        return res;
    res = row_end(call, dst_kind, dst, dst_x, n, &c.dst);
    if (res == CUDA_SUCCESS)
        res = row_end(call, src_kind, src, src_x, n, &c.src);
    return res != CUDA_SUCCESS ? res : vcu_copy_run(call, &c);
}
