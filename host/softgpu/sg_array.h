/* SPDX-License-Identifier: MIT */
/*
 * CUDA arrays and mipmapped arrays. Their memory is not in the table of device memory: no device
 * address leads to it. It is plain rows, slices (or layers, or cube faces) one behind the other, and
 * lives as long as something refers to it: the handle, a copy, a node, a texture, a surface.
 */
#ifndef SG_ARRAY_H
#define SG_ARRAY_H

#include "sg_int.h"
#include "sg_tex.h"

/* Memory of one array, or of all levels of a mipmapped one. */
struct sg_store {
    _Atomic uint32_t refs;
    int device;      /* whose quota it counts against */
    uint64_t charge; /* bytes of that */
    uint8_t *data;
};

struct sg_array {
    struct sg_obj obj;
    struct sg_ctx *ctx; /* compare only */
    int device;
    CUDA_ARRAY3D_DESCRIPTOR desc; /* as asked for; of a level: with the level's size */
    uint32_t elem;                /* bytes per element: 1, 2, 4, 8 or 16 */
    size_t width, height, depth;  /* elements, rows, slices: each at least 1 */
    size_t pitch, slice;          /* bytes from row to row, slice to slice */
    struct sg_store *store;       /* a reference */
    uint8_t *data;                /* first element, in store */
    bool is_level;                /* of a mipmapped array: not destroyed by itself */
};

struct sg_mipmap {
    struct sg_obj obj;
    struct sg_ctx *ctx; /* compare only */
    int device;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    unsigned nlevels;
    struct sg_array *level[SG_LEVELS_MAX]; /* each a reference */
};

/* What a format's elements are made of. */
struct sg_format {
    enum sg_texel_kind kind;
    unsigned bytes;      /* per channel: 1, 2 or 4 */
    unsigned channels;   /* of formats that say it, else 0 */
    bool normalized;     /* always read as [0, 1] or [-1, 1] */
};
/* 0, 1 (no such format) or 801 with a detail line (block compressed, planar, packed). */
CUresult sg_format_get(CUarray_format format, struct sg_format *out);
/* Bytes of an element of that format; 1 when the number of channels does not fit. */
CUresult sg_format_element(CUarray_format format, unsigned channels, uint32_t *bytes);

/* Checks the descriptor (1, 801), takes memory (2) and makes the object, registered. */
CUresult sg_array_new(struct sg_ctx *ctx, const CUDA_ARRAY3D_DESCRIPTOR *desc,
                      struct sg_array **out);
CUresult sg_mipmap_new(struct sg_ctx *ctx, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels,
                       struct sg_mipmap **out);

/* ---- texture and surface objects (sg_texobj.c), references (sg_drv_texref.c) ---- */

struct sg_texobj {
    struct sg_obj obj; /* SG_T_TEXOBJ or SG_T_SURFOBJ */
    struct sg_ctx *ctx;
    CUDA_RESOURCE_DESC res;
    CUDA_TEXTURE_DESC desc;
    CUDA_RESOURCE_VIEW_DESC view;
    bool has_view;
    _Atomic bool dying; /* destroyed, but launches that are queued may still look it up */
    struct sg_array *array;   /* a reference, or NULL */
    struct sg_mipmap *mipmap; /* a reference, or NULL */
    struct sg_texture t;
};
/* Makes an object that is not registered. view may be NULL. 1, 801, 2. */
CUresult sg_texobj_new(struct sg_ctx *ctx, const CUDA_RESOURCE_DESC *res,
                       const CUDA_TEXTURE_DESC *desc, const CUDA_RESOURCE_VIEW_DESC *view,
                       struct sg_texobj **out);
CUresult sg_surfobj_new(struct sg_ctx *ctx, const CUDA_RESOURCE_DESC *res, struct sg_texobj **out);

/* A texture or surface reference: of a module's .texref or .surfref, or of cuTexRefCreate. */
struct sg_texref {
    struct sg_obj obj; /* SG_T_TEXREF or SG_T_SURFREF */
    struct sg_ctx *ctx;
    bool of_module; /* constant: not of cuTexRefCreate */
    pthread_mutex_t lock; /* guards the fields below */
    bool bound, sampler; /* sampler: desc alone, nothing to bind */
    CUDA_RESOURCE_DESC res;
    CUDA_TEXTURE_DESC desc;
    CUarray_format format; /* as cuTexRefSetFormat said; of linear memory */
    unsigned channels;
    CUdeviceptr address;   /* as cuTexRefSetAddress got it */
};
/* An object that is a sampler alone: nothing can be fetched through it. */
CUresult sg_sampler_new(struct sg_ctx *ctx, const CUDA_TEXTURE_DESC *desc, struct sg_texobj **out);
struct sg_texref *sg_texref_new(struct sg_ctx *ctx, bool surface); /* registered, with a reference */
/* What a kernel that is launched now fetches through, with a reference; 1: nothing is bound. */
CUresult sg_texref_object(struct sg_texref *t, struct sg_texobj **out);
/* The handle of a module's variable; 500: no such. */
CUresult sg_mod_texref(struct sg_mod *mod, const char *name, bool surface, uint64_t *handle);

/* What one launch has looked up. It stays until the launch has ended. */
struct sg_texset {
    struct sg_ctx *ctx;
    pthread_mutex_t lock; /* guards the lists */
    struct sg_texpin *pins[64];
};
void sg_texset_init(struct sg_texset *s, struct sg_ctx *ctx);
const struct sg_texture *sg_texset_get(void *texset, uint64_t handle, bool surface);
void sg_texset_clear(struct sg_texset *s);

#endif
