/* SPDX-License-Identifier: MIT */
/* CUDA arrays and mipmapped arrays: formats, extents, memory. */
#include <stdlib.h>
#include <string.h>

#include "memory/memory.h"

#define SG_ARRAY_FLAGS \
    (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER)
#define SG_ARRAY_FLAGS_KNOWN \
    (SG_ARRAY_FLAGS | CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT | CUDA_ARRAY3D_SPARSE | \
     CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE)

/* ---- formats ---- */

static const struct {
    CUarray_format id;
    struct sg_format f;
} formats[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, {SG_TEXEL_UINT, 1, 0, false}},
    {CU_AD_FORMAT_UNSIGNED_INT16, {SG_TEXEL_UINT, 2, 0, false}},
    {CU_AD_FORMAT_UNSIGNED_INT32, {SG_TEXEL_UINT, 4, 0, false}},
    {CU_AD_FORMAT_SIGNED_INT8, {SG_TEXEL_SINT, 1, 0, false}},
    {CU_AD_FORMAT_SIGNED_INT16, {SG_TEXEL_SINT, 2, 0, false}},
    {CU_AD_FORMAT_SIGNED_INT32, {SG_TEXEL_SINT, 4, 0, false}},
    {CU_AD_FORMAT_HALF, {SG_TEXEL_HALF, 2, 0, false}},
    {CU_AD_FORMAT_FLOAT, {SG_TEXEL_FLOAT, 4, 0, false}},
    {CU_AD_FORMAT_UNORM_INT8X1, {SG_TEXEL_UINT, 1, 1, true}},
    {CU_AD_FORMAT_UNORM_INT8X2, {SG_TEXEL_UINT, 1, 2, true}},
    {CU_AD_FORMAT_UNORM_INT8X4, {SG_TEXEL_UINT, 1, 4, true}},
    {CU_AD_FORMAT_UNORM_INT16X1, {SG_TEXEL_UINT, 2, 1, true}},
    {CU_AD_FORMAT_UNORM_INT16X2, {SG_TEXEL_UINT, 2, 2, true}},
    {CU_AD_FORMAT_UNORM_INT16X4, {SG_TEXEL_UINT, 2, 4, true}},
    {CU_AD_FORMAT_SNORM_INT8X1, {SG_TEXEL_SINT, 1, 1, true}},
    {CU_AD_FORMAT_SNORM_INT8X2, {SG_TEXEL_SINT, 1, 2, true}},
    {CU_AD_FORMAT_SNORM_INT8X4, {SG_TEXEL_SINT, 1, 4, true}},
    {CU_AD_FORMAT_SNORM_INT16X1, {SG_TEXEL_SINT, 2, 1, true}},
    {CU_AD_FORMAT_SNORM_INT16X2, {SG_TEXEL_SINT, 2, 2, true}},
    {CU_AD_FORMAT_SNORM_INT16X4, {SG_TEXEL_SINT, 2, 4, true}},
};

/* Formats of cuda.h that are not implemented: block compressed, planar, packed. */
static bool format_refused(CUarray_format f)
{
    return (f >= CU_AD_FORMAT_BC1_UNORM && f <= CU_AD_FORMAT_P010) || f == CU_AD_FORMAT_NV12 ||
           (f >= CU_AD_FORMAT_P016 && f <= CU_AD_FORMAT_Y410) ||
           (f >= CU_AD_FORMAT_Y416 && f <= CU_AD_FORMAT_YUV444_16bit_SemiPlanar) ||
           f == CU_AD_FORMAT_UNORM_INT_101010_2;
}

CUresult sg_format_get(CUarray_format format, struct sg_format *out)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (formats[i].id == format) {
            *out = formats[i].f;
            return CUDA_SUCCESS;
        }
    }
    return format_refused(format)
               ? sg_fail(CUDA_ERROR_NOT_SUPPORTED,
                         "array format 0x%x: no block compressed, planar or packed formats", (unsigned)format)
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_format_element(CUarray_format format, unsigned channels, uint32_t *bytes)
{
    struct sg_format f;
    CUresult r = sg_format_get(format, &f);

    if (r != CUDA_SUCCESS)
        return r;
    if ((channels != 1 && channels != 2 && channels != 4) || (f.channels && f.channels != channels))
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = f.bytes * channels;
    return CUDA_SUCCESS;
}

/* ---- extents: the tables of cuArray3DCreate and cuMipmappedArrayCreate in the driver API manual ---- */

#define MAXIMUM(what) (size_t) sg_attr(device, CU_DEVICE_ATTRIBUTE_MAXIMUM_##what)

static bool extent_within(const CUDA_ARRAY3D_DESCRIPTOR *d, size_t w, size_t h, size_t depth)
{
    return d->Width <= w && d->Height <= h && d->Depth <= depth;
}

static bool surface_extent(int device, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    bool layered = d->Flags & CUDA_ARRAY3D_LAYERED;

    if (d->Flags & CUDA_ARRAY3D_CUBEMAP)
        return layered ? extent_within(d, MAXIMUM(SURFACECUBEMAP_LAYERED_WIDTH),
                                       MAXIMUM(SURFACECUBEMAP_LAYERED_WIDTH),
                                       MAXIMUM(SURFACECUBEMAP_LAYERED_LAYERS))
                       : extent_within(d, MAXIMUM(SURFACECUBEMAP_WIDTH), MAXIMUM(SURFACECUBEMAP_WIDTH), 6);
    if (layered && d->Height)
        return extent_within(d, MAXIMUM(SURFACE2D_LAYERED_WIDTH), MAXIMUM(SURFACE2D_LAYERED_HEIGHT),
                             MAXIMUM(SURFACE2D_LAYERED_LAYERS));
    if (layered)
        return extent_within(d, MAXIMUM(SURFACE1D_LAYERED_WIDTH), 0, MAXIMUM(SURFACE1D_LAYERED_LAYERS));
    if (d->Depth)
        return extent_within(d, MAXIMUM(SURFACE3D_WIDTH), MAXIMUM(SURFACE3D_HEIGHT),
                             MAXIMUM(SURFACE3D_DEPTH));
    return d->Height ? extent_within(d, MAXIMUM(SURFACE2D_WIDTH), MAXIMUM(SURFACE2D_HEIGHT), 0)
                     : extent_within(d, MAXIMUM(SURFACE1D_WIDTH), 0, 0);
}

static bool flat_extent(int device, const CUDA_ARRAY3D_DESCRIPTOR *d, bool mipmapped)
{
    if (d->Depth)
        return extent_within(d, MAXIMUM(TEXTURE3D_WIDTH), MAXIMUM(TEXTURE3D_HEIGHT),
                             MAXIMUM(TEXTURE3D_DEPTH)) ||
               extent_within(d, MAXIMUM(TEXTURE3D_WIDTH_ALTERNATE), MAXIMUM(TEXTURE3D_HEIGHT_ALTERNATE),
                             MAXIMUM(TEXTURE3D_DEPTH_ALTERNATE));
    if (!d->Height)
        return extent_within(d, mipmapped ? MAXIMUM(TEXTURE1D_MIPMAPPED_WIDTH) : MAXIMUM(TEXTURE1D_WIDTH), 0,
                             0);
    if (d->Flags & CUDA_ARRAY3D_TEXTURE_GATHER &&
        !extent_within(d, MAXIMUM(TEXTURE2D_GATHER_WIDTH), MAXIMUM(TEXTURE2D_GATHER_HEIGHT), 0))
        return false;
    return mipmapped
               ? extent_within(d, MAXIMUM(TEXTURE2D_MIPMAPPED_WIDTH), MAXIMUM(TEXTURE2D_MIPMAPPED_HEIGHT), 0)
               : extent_within(d, MAXIMUM(TEXTURE2D_WIDTH), MAXIMUM(TEXTURE2D_HEIGHT), 0);
}

static bool texture_extent(int device, const CUDA_ARRAY3D_DESCRIPTOR *d, bool mipmapped)
{
    bool layered = d->Flags & CUDA_ARRAY3D_LAYERED;

    if (d->Flags & CUDA_ARRAY3D_CUBEMAP)
        return d->Width == d->Height && d->Depth && d->Depth % 6 == 0 &&
               (layered ? extent_within(d, MAXIMUM(TEXTURECUBEMAP_LAYERED_WIDTH),
                                        MAXIMUM(TEXTURECUBEMAP_LAYERED_WIDTH),
                                        MAXIMUM(TEXTURECUBEMAP_LAYERED_LAYERS))
                        : extent_within(d, MAXIMUM(TEXTURECUBEMAP_WIDTH), MAXIMUM(TEXTURECUBEMAP_WIDTH), 6));
    if (!layered)
        return (d->Height || !d->Depth) && flat_extent(device, d, mipmapped);
    return d->Depth &&
           (d->Height
                ? extent_within(d, MAXIMUM(TEXTURE2D_LAYERED_WIDTH), MAXIMUM(TEXTURE2D_LAYERED_HEIGHT),
                                MAXIMUM(TEXTURE2D_LAYERED_LAYERS))
                : extent_within(d, MAXIMUM(TEXTURE1D_LAYERED_WIDTH), 0, MAXIMUM(TEXTURE1D_LAYERED_LAYERS)));
}

static CUresult check_desc(int device, const CUDA_ARRAY3D_DESCRIPTOR *d, bool mipmapped, uint32_t *elem)
{
    bool volume = d->Depth && !(d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP));
    CUresult r = sg_format_element(d->Format, d->NumChannels, elem);

    if (r != CUDA_SUCCESS)
        return r;
    if (d->Flags & ~(unsigned)SG_ARRAY_FLAGS_KNOWN)
        return CUDA_ERROR_INVALID_VALUE;
    if (d->Flags & ~(unsigned)SG_ARRAY_FLAGS)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED,
                       "array flags 0x%x: no depth, attachment, sparse, deferred or video arrays", d->Flags);
    if (!d->Width || !texture_extent(device, d, mipmapped) ||
        (d->Flags & CUDA_ARRAY3D_SURFACE_LDST && !surface_extent(device, d)) ||
        (d->Flags & CUDA_ARRAY3D_TEXTURE_GATHER && (!d->Height || volume)))
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "array of %zu x %zu x %zu elements, flags 0x%x", d->Width,
                       d->Height, d->Depth, d->Flags);
    return CUDA_SUCCESS;
}

/* ---- memory ---- */

static CUresult store_new(int device, uint64_t bytes, struct sg_store **out)
{
    struct sg_store *s = calloc(1, sizeof(*s));
    uint64_t charge = (bytes + 511) & ~511ull;

    if (s && !sg_mem_charge(device, charge)) {
        free(s);
        return sg_fail(CUDA_ERROR_OUT_OF_MEMORY, "out of device memory: array of %llu bytes",
                       (unsigned long long)bytes);
    }
    if (s && !(s->data = calloc(1, bytes))) {
        sg_mem_uncharge(device, charge);
        free(s);
        s = NULL;
    }
    if (!s)
        return sg_fail(CUDA_ERROR_OUT_OF_MEMORY, "no %llu bytes of memory for an array",
                       (unsigned long long)bytes);
    atomic_init(&s->refs, 1);
    s->device = device;
    s->charge = charge;
    if (sg_config.poison)
        memset(s->data, 0xCD, bytes);
    *out = s;
    return CUDA_SUCCESS;
}

static void store_put(struct sg_store *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    sg_mem_uncharge(s->device, s->charge);
    free(s->data);
    free(s);
}

/* ---- objects ---- */

static void array_destroy(struct sg_obj *obj)
{
    struct sg_array *a = (struct sg_array *)obj;

    store_put(a->store);
    free(a);
}

static uint64_t layout_levels(struct sg_array *a)
{
    a->width = a->desc.Width;
    a->height = a->desc.Height ? a->desc.Height : 1;
    a->depth = a->desc.Depth ? a->desc.Depth : 1;
    /* Each row is aligned to the widest access of a surface; at most 2^17 * 2^4, with rows and
       slices below 2^55. */
    a->row = a->width * a->elem;
    a->pitch = (a->row + SG_ROW_ALIGN - 1) & ~(size_t)(SG_ROW_ALIGN - 1);
    a->slice = a->pitch * a->height;
    return (uint64_t)a->slice * a->depth;
}

static struct sg_array *array_alloc(struct sg_ctx *ctx, const CUDA_ARRAY3D_DESCRIPTOR *desc, uint32_t elem)
{
    struct sg_array *a = calloc(1, sizeof(*a));

    if (!a)
        return NULL;
    sg_obj_init(&a->obj, SG_T_ARRAY, ctx, array_destroy);
    a->ctx = ctx;
    a->device = sg_space(ctx)->device;
    a->desc = *desc;
    a->elem = elem;
    return a;
}

CUresult sg_array_new(struct sg_ctx *ctx, const CUDA_ARRAY3D_DESCRIPTOR *desc, struct sg_array **out)
{
    struct sg_array *a;
    uint32_t elem;
    CUresult r = check_desc(sg_space(ctx)->device, desc, false, &elem);

    if (r != CUDA_SUCCESS)
        return r;
    a = array_alloc(ctx, desc, elem);
    r = a ? store_new(sg_space(ctx)->device, layout_levels(a), &a->store) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        a->data = a->store->data;
        r = sg_obj_register(&a->obj) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r != CUDA_SUCCESS) {
        if (a)
            sg_obj_put(&a->obj);
        return r;
    }
    *out = a;
    return CUDA_SUCCESS;
}

static void mipmap_destroy(struct sg_obj *obj)
{
    struct sg_mipmap *m = (struct sg_mipmap *)obj;

    for (unsigned i = 0; i < m->nlevels; i++) {
        if (m->level[i]) {
            sg_obj_unregister(&m->level[i]->obj);
            sg_obj_put(&m->level[i]->obj);
        }
    }
    free(m);
}

static size_t halved_extent(size_t n, unsigned level)
{
    return n >> level ? n >> level : n ? 1 : 0;
}

static unsigned max_levels(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    size_t n = d->Width > d->Height ? d->Width : d->Height;
    unsigned levels = 1;

    if (!(d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) && d->Depth > n)
        n = d->Depth;
    for (; n > 1; n >>= 1)
        levels++;
    return levels;
}

/* Creates the levels, which share a store. */
static CUresult mipmap_fill(struct sg_mipmap *m, struct sg_ctx *ctx, uint32_t elem)
{
    bool layers = m->desc.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    uint64_t offset[SG_LEVELS_MAX], bytes = 0;
    struct sg_store *store;
    CUresult r;

    for (unsigned i = 0; i < m->nlevels; i++) {
        CUDA_ARRAY3D_DESCRIPTOR d = m->desc;

        d.Width = halved_extent(d.Width, i);
        d.Height = halved_extent(d.Height, i);
        d.Depth = layers ? d.Depth : halved_extent(d.Depth, i);
        m->level[i] = array_alloc(ctx, &d, elem);
        if (!m->level[i])
            return CUDA_ERROR_OUT_OF_MEMORY;
        m->level[i]->is_level = true;
        offset[i] = bytes;
        bytes += layout_levels(m->level[i]); /* a multiple of SG_ROW_ALIGN */
    }
    r = store_new(sg_space(ctx)->device, bytes, &store);
    if (r != CUDA_SUCCESS)
        return r;
    for (unsigned i = 0; i < m->nlevels && r == CUDA_SUCCESS; i++) {
        atomic_fetch_add(&store->refs, 1);
        m->level[i]->store = store;
        m->level[i]->data = store->data + offset[i];
        if (!sg_obj_register(&m->level[i]->obj))
            r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    store_put(store);
    return r;
}

CUresult sg_mipmap_new(struct sg_ctx *ctx, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels,
                       struct sg_mipmap **out)
{
    struct sg_mipmap *m;
    uint32_t elem;
    CUresult r = check_desc(sg_space(ctx)->device, desc, true, &elem);

    if (r != CUDA_SUCCESS)
        return r;
    m = calloc(1, sizeof(*m));
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&m->obj, SG_T_MIPMAP, ctx, mipmap_destroy);
    m->ctx = ctx;
    m->device = sg_space(ctx)->device;
    m->desc = *desc;
    /* Documented: clamped to the range [1, 1 + floor(log2(max(width, height, depth)))]. */
    m->nlevels = levels < 1 ? 1 : levels > max_levels(desc) ? max_levels(desc) : levels;
    r = mipmap_fill(m, ctx, elem);
    if (r == CUDA_SUCCESS && !sg_obj_register(&m->obj))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        sg_obj_put(&m->obj);
        return r;
    }
    *out = m;
    return CUDA_SUCCESS;
}
