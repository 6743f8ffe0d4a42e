/* SPDX-License-Identifier: MIT */
/*
 * Tensor maps (CUtensorMap): 128 bytes that describe a tensor in global memory and the box that one copy
 * moves. Programs treat them as opaque, so the layout is the software GPU's own. Kernels read them from
 * memory that a guest can write: sg_tensor_map_fault() is called on a private copy before each use, and
 * addresses that follow from the fields are checked like any other. Does not need cuda.h.
 */
#ifndef SG_MEMORY_TENSOR_MAP_H
#define SG_MEMORY_TENSOR_MAP_H

#include <stdint.h>

#define SG_TMAP_MAGIC 0x50414d54u
#define SG_TMAP_VERSION 1
#define SG_TMAP_BYTES 128
#define SG_TMAP_ALIGN 64 /* bytes; cuTensorMapEncodeTiled */
#define SG_TMAP_RANK 5
#define SG_TMAP_SPATIAL 3 /* dimensions between channels and images: W, H, D */

enum sg_tmap_form { SG_TMAP_TILED = 1, SG_TMAP_IM2COL, SG_TMAP_IM2COL_W, SG_TMAP_IM2COL_W128 };

/* The numbers of CUtensorMapDataType. */
enum sg_tmap_type {
    SG_TMAP_U8,
    SG_TMAP_U16,
    SG_TMAP_U32,
    SG_TMAP_S32,
    SG_TMAP_U64,
    SG_TMAP_S64,
    SG_TMAP_F16,
    SG_TMAP_F32,
    SG_TMAP_F64,
    SG_TMAP_BF16,
    SG_TMAP_F32_FTZ,
    SG_TMAP_TF32,
    SG_TMAP_TF32_FTZ,
    SG_TMAP_B4X16,     /* 16U4_ALIGN8B */
    SG_TMAP_B4X16_P64, /* 16U4_ALIGN16B */
    SG_TMAP_B6X16,     /* 16U6_ALIGN16B */
    SG_TMAP_TYPES
};

enum sg_tmap_interleave { SG_TMAP_NO_INTERLEAVE, SG_TMAP_INTERLEAVE_16B, SG_TMAP_INTERLEAVE_32B };

/* As in tensormap.replace: the span, and apart from it the unit that stays in one piece. */
enum sg_tmap_swizzle {
    SG_TMAP_NO_SWIZZLE,
    SG_TMAP_SWIZZLE_32B,
    SG_TMAP_SWIZZLE_64B,
    SG_TMAP_SWIZZLE_128B,
    SG_TMAP_SWIZZLE_96B
};
enum sg_tmap_atom { SG_TMAP_ATOM_16B, SG_TMAP_ATOM_32B, SG_TMAP_ATOM_32B_FLIP_8B, SG_TMAP_ATOM_64B };

struct sg_tensor_map {
    uint32_t magic;
    uint8_t version;
    uint8_t form, type;
    uint8_t rank; /* number of dimensions */
    uint8_t interleave, swizzle, atom;
    uint8_t fill; /* elements outside the tensor: 0 zero, 1 NaN */
    uint8_t promotion;
    uint8_t step[SG_TMAP_RANK]; /* distance of elements in a box, in elements of the tensor */
    uint16_t box[SG_TMAP_RANK]; /* tiled: extent in the tensor, elements */
    int16_t lower[SG_TMAP_SPATIAL], upper[SG_TMAP_SPATIAL]; /* im2col: corners from W on */
    uint16_t channels, pixels;                              /* im2col: elements, rows of a box */
    uint32_t reserved;                                      /* 0 */
    uint64_t dim[SG_TMAP_RANK];                             /* elements, 1 to 2^32 */
    uint64_t address;
    uint64_t stride[SG_TMAP_RANK - 1]; /* bytes, from dimension 1 on, below 2^40 */
};
_Static_assert(sizeof(struct sg_tensor_map) == SG_TMAP_BYTES, "CUtensorMap");

/* Why the map cannot be used, or NULL. Does not look at memory that the map describes. */
const char *sg_tensor_map_fault(const struct sg_tensor_map *m);
/* Of a valid map: what it needs that the software GPU does not have, or NULL. */
const char *sg_tensor_map_missing(const struct sg_tensor_map *m);
/* Bytes of n elements. */
uint32_t sg_tensor_map_bytes(const struct sg_tensor_map *m, uint32_t n);
/* The swizzled place of an address in shared memory: a permutation within each 128 bytes, of 8 bytes where
   the atom is flipped, else of 16. */
uint32_t sg_tensor_map_swizzle(const struct sg_tensor_map *m, uint32_t at);

#endif
