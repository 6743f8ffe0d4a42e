/* SPDX-License-Identifier: MIT */
/*
 * Texture and surface objects: checks descriptors and converts them to the form that kernels fetch
 * through.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "module/module.h"

#define SG_TEX_FLAGS \
    (CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB | \
     CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP)

static void texobj_destroy(struct sg_obj *obj)
{
    struct sg_texobj *o = (struct sg_texobj *)obj;

    if (o->array)
        sg_obj_put(&o->array->obj);
    if (o->mipmap)
        sg_obj_put(&o->mipmap->obj);
    free(atomic_load(&o->retired));
    sg_obj_put(&o->ctx->obj);
    free(o);
}

/* ---- resources ---- */

static CUresult set_format(struct sg_texture *t, CUarray_format format, unsigned channels)
{
    struct sg_format f;
    CUresult r = sg_format_element(format, channels, &t->elem);

    if (r == CUDA_SUCCESS)
        r = sg_format_get(format, &f);
    if (r != CUDA_SUCCESS)
        return r;
    t->kind = f.kind;
    t->bytes = f.bytes;
    t->channels = channels;
    t->as_float = f.normalized;
    return CUDA_SUCCESS;
}

static void set_level(struct sg_texture *t, unsigned i, const struct sg_array *a)
{
    t->level[i] = (struct sg_tex_level){(uint64_t)(uintptr_t)a->data, (uint32_t)a->width, (uint32_t)a->height,
                                        (uint32_t)a->depth,           a->pitch,           a->slice};
}

static CUresult set_shape(struct sg_texture *t, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    t->cube = d->Flags & CUDA_ARRAY3D_CUBEMAP;
    t->layered = d->Flags & CUDA_ARRAY3D_LAYERED;
    t->dims = !d->Height ? 1 : d->Depth && !t->cube && !t->layered ? 3 : 2;
    return set_format(t, d->Format, d->NumChannels);
}

static CUresult array_resource(struct sg_texobj *o)
{
    o->array = SG_LOOKUP(o->res.res.array.hArray, SG_T_ARRAY);
    if (!o->array)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "resource: no CUDA array");
    o->t.nlevels = 1;
    set_level(&o->t, 0, o->array);
    return set_shape(&o->t, &o->array->desc);
}

static CUresult mipmap_resource(struct sg_texobj *o)
{
    o->mipmap = SG_LOOKUP(o->res.res.mipmap.hMipmappedArray, SG_T_MIPMAP);
    if (!o->mipmap)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "resource: no CUDA mipmapped array");
    o->t.nlevels = o->mipmap->nlevels;
    for (unsigned i = 0; i < o->t.nlevels; i++)
        set_level(&o->t, i, o->mipmap->level[i]);
    return set_shape(&o->t, &o->mipmap->desc);
}

static CUresult check_memory(uint64_t addr, uint64_t bytes)
{
    struct sg_mem_info info;

    return sg_mem_covers(addr, bytes, &info)
               ? CUDA_SUCCESS
               : sg_fail(CUDA_ERROR_INVALID_VALUE, "resource: no %llu bytes of memory at 0x%llx",
                         (unsigned long long)bytes, (unsigned long long)addr);
}

#define ATTR(a) (size_t) sg_attr(o->ctx->device, CU_DEVICE_ATTRIBUTE_##a)

static CUresult linear_resource(struct sg_texobj *o)
{
    const uint64_t addr = o->res.res.linear.devPtr, bytes = o->res.res.linear.sizeInBytes;
    CUresult r = set_format(&o->t, o->res.res.linear.format, o->res.res.linear.numChannels);

    if (r != CUDA_SUCCESS)
        return r;
    /* More elements than attribute 27 says are taken, too (driver 580): an index has 32 bits. */
    if (!addr || addr % ATTR(TEXTURE_ALIGNMENT) || bytes < o->t.elem || bytes / o->t.elem > UINT32_MAX)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "linear resource: %llu bytes at 0x%llx",
                       (unsigned long long)bytes, (unsigned long long)addr);
    o->t.checked = o->t.buffer = true;
    o->t.dims = 1;
    o->t.nlevels = 1;
    o->t.level[0] = (struct sg_tex_level){addr, (uint32_t)(bytes / o->t.elem), 1, 1, bytes, bytes};
    /* The texture may extend beyond its memory (convolutionFFT2D of cuda-samples): each access
       is checked. */
    return check_memory(addr, o->t.elem);
}

static CUresult pitch_resource(struct sg_texobj *o)
{
    const uint64_t addr = o->res.res.pitch2D.devPtr, pitch = o->res.res.pitch2D.pitchInBytes;
    const size_t w = o->res.res.pitch2D.width, h = o->res.res.pitch2D.height;
    CUresult r = set_format(&o->t, o->res.res.pitch2D.format, o->res.res.pitch2D.numChannels);

    if (r != CUDA_SUCCESS)
        return r;
    if (!addr || addr % ATTR(TEXTURE_ALIGNMENT) || !w || !h || w > ATTR(MAXIMUM_TEXTURE2D_LINEAR_WIDTH) ||
        h > ATTR(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT) || pitch > ATTR(MAXIMUM_TEXTURE2D_LINEAR_PITCH) ||
        pitch % ATTR(TEXTURE_PITCH_ALIGNMENT) || pitch < w * o->t.elem)
        return sg_fail(CUDA_ERROR_INVALID_VALUE,
                       "2D resource: %zu x %zu elements at 0x%llx, rows of %llu bytes", w, h,
                       (unsigned long long)addr, (unsigned long long)pitch);
    o->t.checked = true;
    o->t.dims = 2;
    o->t.nlevels = 1;
    o->t.level[0] = (struct sg_tex_level){addr, (uint32_t)w, (uint32_t)h, 1, pitch, pitch * h};
    return check_memory(addr, pitch * (h - 1) + w * o->t.elem);
}

static CUresult set_resource(struct sg_texobj *o)
{
    if (o->res.flags)
        return CUDA_ERROR_INVALID_VALUE;
    switch (o->res.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        return array_resource(o);
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        return mipmap_resource(o);
    case CU_RESOURCE_TYPE_LINEAR:
        return linear_resource(o);
    case CU_RESOURCE_TYPE_PITCH2D:
        return pitch_resource(o);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- views ---- */

static const CUarray_format view_formats[] = {CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_SIGNED_INT8,
                                              CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16,
                                              CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32,
                                              CU_AD_FORMAT_HALF,           CU_AD_FORMAT_FLOAT};

static CUresult view_format(struct sg_texture *t, CUresourceViewFormat f)
{
    const uint32_t elem = t->elem;
    CUresult r;

    if (f == CU_RES_VIEW_FORMAT_NONE)
        return CUDA_SUCCESS;
    if (f >= CU_RES_VIEW_FORMAT_UNSIGNED_BC1 && f <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "resource views of block compressed formats");
    if ((unsigned)f > CU_RES_VIEW_FORMAT_FLOAT_4X32)
        return CUDA_ERROR_INVALID_VALUE;
    /* Three in a row of each format: 1, 2 and 4 channels. */
    r = set_format(t, view_formats[((unsigned)f - 1) / 3], 1u << ((unsigned)f - 1) % 3);
    if (r == CUDA_SUCCESS && t->elem != elem)
        r = sg_fail(CUDA_ERROR_INVALID_VALUE, "resource view of %u bytes, elements of %u", t->elem, elem);
    return r;
}

static CUresult set_view(struct sg_texobj *o)
{
    const CUDA_RESOURCE_VIEW_DESC *v = &o->view;
    const CUDA_ARRAY3D_DESCRIPTOR *d = o->array ? &o->array->desc : &o->mipmap->desc;
    struct sg_texture *t = &o->t;
    CUresult r = view_format(t, v->format);

    if (r != CUDA_SUCCESS)
        return r;
    if (v->width != d->Width || v->height != d->Height || v->depth != d->Depth ||
        v->lastMipmapLevel < v->firstMipmapLevel || v->lastMipmapLevel >= t->nlevels ||
        v->lastLayer < v->firstLayer ||
        (t->layered ? v->lastLayer >= t->level[0].depth : v->lastLayer != 0) ||
        (t->cube && t->layered && (v->firstLayer % 6 || (v->lastLayer + 1) % 6)))
        return sg_fail(CUDA_ERROR_INVALID_VALUE,
                       "resource view of %zu x %zu x %zu, levels %u to %u, layers %u to %u", v->width,
                       v->height, v->depth, v->firstMipmapLevel, v->lastMipmapLevel, v->firstLayer,
                       v->lastLayer);
    t->nlevels = v->lastMipmapLevel - v->firstMipmapLevel + 1;
    memmove(t->level, t->level + v->firstMipmapLevel, t->nlevels * sizeof(t->level[0]));
    for (unsigned i = 0; t->layered && i < t->nlevels; i++) {
        t->level[i].data += v->firstLayer * t->level[i].slice;
        t->level[i].depth = v->lastLayer - v->firstLayer + 1;
    }
    return CUDA_SUCCESS;
}

/* ---- samplers ---- */

static enum sg_address_mode address_mode(const struct sg_texture *t, CUaddress_mode m)
{
    if (t->cube)
        return SG_CLAMP; /* within a face; see seamless */
    /* Documented: without normalized coordinates wrap and mirror are not available. */
    if (!t->normalized && (m == CU_TR_ADDRESS_MODE_WRAP || m == CU_TR_ADDRESS_MODE_MIRROR))
        return SG_CLAMP;
    return (enum sg_address_mode)m;
}

static CUresult check_sampler(const struct sg_texobj *o)
{
    const CUDA_TEXTURE_DESC *d = &o->desc;

    for (int i = 0; i < 3; i++) {
        if ((unsigned)d->addressMode[i] > CU_TR_ADDRESS_MODE_BORDER)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if ((unsigned)d->filterMode > CU_TR_FILTER_MODE_LINEAR ||
        (unsigned)d->mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR || d->flags & ~(unsigned)SG_TEX_FLAGS ||
        isnan(d->mipmapLevelBias) || isnan(d->minMipmapLevelClamp) || isnan(d->maxMipmapLevelClamp))
        return CUDA_ERROR_INVALID_VALUE;
    if (o->mipmap && !(d->flags & CU_TRSF_NORMALIZED_COORDINATES))
        return sg_fail(CUDA_ERROR_INVALID_VALUE,
                       "texture of a mipmapped array without normalized coordinates");
    if (d->flags & CU_TRSF_SEAMLESS_CUBEMAP && !o->t.cube)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "seamless cube map of what is not one");
    return CUDA_SUCCESS;
}

static CUresult set_sampler(struct sg_texobj *o)
{
    const CUDA_TEXTURE_DESC *d = &o->desc;
    struct sg_texture *t = &o->t;
    CUresult r = check_sampler(o);

    if (r != CUDA_SUCCESS)
        return r;
    t->normalized = d->flags & CU_TRSF_NORMALIZED_COORDINATES && !t->buffer;
    t->linear = d->filterMode == CU_TR_FILTER_MODE_LINEAR && !t->buffer;
    t->mip_linear = d->mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
    t->srgb = d->flags & CU_TRSF_SRGB;
    t->seamless = d->flags & CU_TRSF_SEAMLESS_CUBEMAP;
    if (t->kind <= SG_TEXEL_SINT && t->bytes < 4 && !(d->flags & CU_TRSF_READ_AS_INTEGER))
        t->as_float = true;
    for (int i = 0; i < 3; i++)
        t->address[i] = address_mode(t, d->addressMode[i]);
    t->bias = d->mipmapLevelBias;
    t->min_lod = d->minMipmapLevelClamp;
    t->max_lod = d->maxMipmapLevelClamp;
    memcpy(t->border, d->borderColor, sizeof(t->border));
    return CUDA_SUCCESS;
}

/* ---- objects ---- */

static struct sg_texobj *texobj_alloc(struct sg_ctx *ctx, enum sg_type type, const CUDA_RESOURCE_DESC *res)
{
    struct sg_texobj *o = calloc(1, sizeof(*o));

    if (!o)
        return NULL;
    sg_obj_init(&o->obj, type, ctx, texobj_destroy);
    sg_obj_get(&ctx->obj);
    o->ctx = ctx;
    o->res = *res;
    return o;
}

static CUresult finish_object(struct sg_texobj *o, CUresult r, struct sg_texobj **out)
{
    if (r == CUDA_SUCCESS)
        *out = o;
    else
        sg_obj_put(&o->obj);
    return r;
}

CUresult sg_texobj_new(struct sg_ctx *ctx, const CUDA_RESOURCE_DESC *res, const CUDA_TEXTURE_DESC *desc,
                       const CUDA_RESOURCE_VIEW_DESC *view, struct sg_texobj **out)
{
    struct sg_texobj *o = texobj_alloc(ctx, SG_T_TEXOBJ, res);
    CUresult r;

    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->desc = *desc;
    r = set_resource(o);
    if (r == CUDA_SUCCESS && view) {
        /* Documented: only for arrays and mipmapped arrays. */
        o->has_view = true;
        o->view = *view;
        r = o->array || o->mipmap ? set_view(o) : CUDA_ERROR_INVALID_VALUE;
    }
    if (r == CUDA_SUCCESS)
        r = set_sampler(o);
    return finish_object(o, r, out);
}

CUresult sg_sampler_new(struct sg_ctx *ctx, const CUDA_TEXTURE_DESC *desc, struct sg_texobj **out)
{
    const CUDA_RESOURCE_DESC none = {0};
    struct sg_texobj *o = texobj_alloc(ctx, SG_T_TEXOBJ, &none);

    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->desc = *desc;
    o->t.kind = SG_TEXEL_FLOAT; /* which every filter goes with; no levels: not a texture */
    return finish_object(o, set_sampler(o), out);
}

CUresult sg_surfobj_new(struct sg_ctx *ctx, const CUDA_RESOURCE_DESC *res, struct sg_texobj **out)
{
    struct sg_texobj *o = texobj_alloc(ctx, SG_T_SURFOBJ, res);
    CUresult r;

    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = res->resType == CU_RESOURCE_TYPE_ARRAY ? set_resource(o) : CUDA_ERROR_INVALID_VALUE;
    o->t.surface = true;
    return finish_object(o, r, out);
}
