/* SPDX-License-Identifier: MIT */
/* 2D and 3D copies between memory and arrays: computes the ranges of bytes. */
#include <string.h>

#include "runtime/runtime.h"

/* Offset of the side's first byte, and the number of bytes up to and including its last byte. */
static bool side_extent(struct sg_copy_side *s, size_t w, size_t h, size_t d, uint64_t *offset,
                        uint64_t *span, uint64_t *slice)
{
    uint64_t t;

    /* Pitch 0: the rows are dense. The offset then counts from a row to the next. */
    const bool dense = !s->pitch;

    if (dense)
        s->pitch = w;
    if (!s->rows)
        s->rows = h;
    if (__builtin_add_overflow((uint64_t)s->x, w, &t) || (!dense && t > s->pitch))
        return false;
    if (__builtin_mul_overflow((uint64_t)s->pitch, s->rows, slice) || (d > 1 && s->rows < h))
        return false;
    return !__builtin_mul_overflow(*slice, (uint64_t)s->z, offset) &&
           !__builtin_mul_overflow((uint64_t)s->pitch, s->y, &t) &&
           !__builtin_add_overflow(*offset, t, offset) &&
           !__builtin_add_overflow(*offset, (uint64_t)s->x, offset) &&
           !__builtin_mul_overflow(*slice, (uint64_t)(d - 1), span) &&
           !__builtin_mul_overflow((uint64_t)s->pitch, h - 1, &t) &&
           !__builtin_add_overflow(*span, t, span) && !__builtin_add_overflow(*span, (uint64_t)w, span);
}

static CUresult side_place(const struct sg_copy_side *s, enum sg_place *place)
{
    switch (s->type) {
    case CU_MEMORYTYPE_HOST:
        *place = SG_PLACE_HOST;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
        *place = SG_PLACE_DEVICE;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
        *place = SG_PLACE_ANY;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* The same for an array side: base is its handle, pitch and rows are the array's. */
static CUresult array_side(struct sg_copy_side *s, size_t w, size_t h, size_t d, uint64_t *addr,
                           uint64_t *slice, struct sg_array **array)
{
    struct sg_array *a = SG_LOOKUP(s->base, SG_T_ARRAY);

    *array = a; /* the caller's reference, also on failure */
    if (!a)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "copy to or from 0x%llx: no CUDA array",
                       (unsigned long long)s->base);
    if (s->x % a->elem) /* but a part of an element is copied (driver 580) */
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "copy at byte %zu of rows of elements of %u bytes", s->x,
                       a->elem);
    if (w > a->row || s->x > a->row - w || h > a->height || s->y > a->height - h || d > a->depth ||
        s->z > a->depth - d)
        return sg_fail(CUDA_ERROR_INVALID_VALUE,
                       "copy of %zu bytes x %zu x %zu at (%zu, %zu, %zu) leaves an array of "
                       "%zu x %zu x %zu",
                       w, h, d, s->x, s->y, s->z, a->row, a->height, a->depth);
    s->pitch = a->pitch;
    s->rows = a->height;
    *slice = a->slice;
    *addr = PTR(a->data) + s->z * a->slice + s->y * a->pitch + s->x;
    return CUDA_SUCCESS;
}

static CUresult check_side(struct sg_copy_side *s, size_t w, size_t h, size_t d, bool write, uint64_t *addr,
                           uint64_t *slice, bool *pageable, struct sg_array **array)
{
    uint64_t offset, span;
    enum sg_place place = SG_PLACE_ANY;
    CUresult r;

    *pageable = false;
    if (s->type == CU_MEMORYTYPE_ARRAY)
        return array_side(s, w, h, d, addr, slice, array);
    r = side_place(s, &place);
    if (r != CUDA_SUCCESS)
        return r;
    if (!s->base || !side_extent(s, w, h, d, &offset, &span, slice) ||
        __builtin_add_overflow(s->base, offset, addr))
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_copy_check(place, *addr, span, write, pageable);
    if (r == CUDA_SUCCESS && *pageable && offset >= SG_ASK_ABOVE && !sg_host_mapped(*addr, span))
        r = sg_fail(CUDA_ERROR_INVALID_VALUE, "copy at 0x%llx: no memory there", (unsigned long long)*addr);
    return r;
}

CUresult sg_copy_resolve(struct sg_copy_side *dst, struct sg_copy_side *src, size_t w, size_t h, size_t d,
                         struct sg_copy *c, bool *src_pageable, bool *dst_pageable)
{
    struct sg_array *darray = NULL, *sarray = NULL;
    uint64_t daddr, saddr, dslice, sslice;
    CUresult r = check_side(dst, w, h, d, true, &daddr, &dslice, dst_pageable, &darray);

    if (r == CUDA_SUCCESS)
        r = check_side(src, w, h, d, false, &saddr, &sslice, src_pageable, &sarray);
    if (r == CUDA_SUCCESS && darray && sarray && darray->elem != sarray->elem)
        r = sg_fail(CUDA_ERROR_INVALID_VALUE, "copy between arrays of elements of %u and %u bytes",
                    sarray->elem, darray->elem);
    if (r != CUDA_SUCCESS) {
        sg_copy_done(&(struct sg_copy){.dst_array = darray, .src_array = sarray});
        return r;
    }
    *c = (struct sg_copy){.dst = (uint8_t *)daddr,
                          .src = (const uint8_t *)saddr,
                          .width = w,
                          .height = h,
                          .depth = d,
                          .dst_pitch = dst->pitch,
                          .dst_slice = dslice,
                          .src_pitch = src->pitch,
                          .src_slice = sslice,
                          .dst_array = darray,
                          .src_array = sarray,
                          .dst_on = (uint8_t)(dst->ctx ? 1 + dst->ctx->device : 0),
                          .src_on = (uint8_t)(src->ctx ? 1 + src->ctx->device : 0)};
    return CUDA_SUCCESS;
}

void sg_copy_sides(const CUDA_MEMCPY3D *p, struct sg_copy_side *dst, struct sg_copy_side *src)
{
    *src = (struct sg_copy_side){p->srcMemoryType, SG_COPY_BASE(p, src), p->srcXInBytes, p->srcY,
                                 p->srcZ,          p->srcPitch,          p->srcHeight,   NULL};
    *dst = (struct sg_copy_side){p->dstMemoryType, SG_COPY_BASE(p, dst), p->dstXInBytes, p->dstY,
                                 p->dstZ,          p->dstPitch,          p->dstHeight,   NULL};
}

CUresult sg_copy_op(const CUDA_MEMCPY3D *p, struct sg_op **out)
{
    bool src_pageable, dst_pageable;
    struct sg_copy_side dst, src;
    struct sg_copy_op *o;
    struct sg_copy c;
    CUresult r;

    if (p->srcLOD || p->dstLOD || !p->WidthInBytes || !p->Height || !p->Depth)
        return CUDA_ERROR_INVALID_VALUE;
    sg_copy_sides(p, &dst, &src);
    r = sg_copy_resolve(&dst, &src, p->WidthInBytes, p->Height, p->Depth, &c, &src_pageable, &dst_pageable);
    if (r != CUDA_SUCCESS)
        return r;
    o = sg_copy_new(&c);
    sg_copy_done(&c);
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->c.src_pageable = src_pageable;
    o->c.dst_pageable = dst_pageable;
    *out = &o->op;
    return CUDA_SUCCESS;
}

static void describe_side(const void *p, CUmemorytype *type, CUdeviceptr *device, const void **host)
{
    struct sg_mem_info info;
    bool is_device = sg_mem_find((uint64_t)(uintptr_t)p, &info) && info.kind == SG_MEM_DEVICE;

    *type = is_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    *device = is_device ? (CUdeviceptr)(uintptr_t)p : 0;
    *host = is_device ? NULL : p;
}

static void array_place(const struct sg_array *a, const uint8_t *at, size_t *x, size_t *y, size_t *z)
{
    size_t offset = (size_t)(at - a->data);

    *z = offset / a->slice;
    *y = offset % a->slice / a->pitch;
    *x = offset % a->pitch;
}

void sg_copy_describe(struct sg_op *op, CUDA_MEMCPY3D *p)
{
    const struct sg_copy *c = &((struct sg_copy_op *)op)->c;
    const void *dst;

    memset(p, 0, sizeof(*p));
    describe_side(c->src, &p->srcMemoryType, &p->srcDevice, &p->srcHost);
    describe_side(c->dst, &p->dstMemoryType, &p->dstDevice, &dst);
    p->dstHost = (void *)(uintptr_t)dst;
    p->WidthInBytes = c->width;
    p->Height = c->height;
    p->Depth = c->depth;
    if (c->src_array) {
        p->srcMemoryType = CU_MEMORYTYPE_ARRAY;
        p->srcHost = NULL;
        p->srcArray = SG_HANDLE(CUarray, c->src_array);
        array_place(c->src_array, c->src, &p->srcXInBytes, &p->srcY, &p->srcZ);
    }
    if (c->dst_array) {
        p->dstMemoryType = CU_MEMORYTYPE_ARRAY;
        p->dstHost = NULL;
        p->dstArray = SG_HANDLE(CUarray, c->dst_array);
        array_place(c->dst_array, c->dst, &p->dstXInBytes, &p->dstY, &p->dstZ);
    }
    p->srcPitch = c->src_pitch ? c->src_pitch : c->width;
    p->dstPitch = c->dst_pitch ? c->dst_pitch : c->width;
    p->srcHeight = c->src_slice ? c->src_slice / p->srcPitch : c->height;
    p->dstHeight = c->dst_slice ? c->dst_slice / p->dstPitch : c->height;
}
