/* SPDX-License-Identifier: MIT */
/* Tensor maps: which are valid (CUDA Driver API, "Tensor Map Object Management"; PTX ISA, "Tensors"), sizes,
   places in shared memory. */
#include "memory/tensor_map.h"

#include <stdbool.h>
#include <stddef.h>

#define DIM_MAX (1ull << 32)
#define STRIDE_MAX (1ull << 40)
#define BOX_MAX 256
#define STEP_MAX 8
#define PIXELS_MAX 1024

static uint32_t element_bits(uint32_t type)
{
    static const uint8_t bits[SG_TMAP_TYPES] = {
        [SG_TMAP_U8] = 8,        [SG_TMAP_U16] = 16,  [SG_TMAP_U32] = 32,      [SG_TMAP_S32] = 32,
        [SG_TMAP_U64] = 64,      [SG_TMAP_S64] = 64,  [SG_TMAP_F16] = 16,      [SG_TMAP_F32] = 32,
        [SG_TMAP_F64] = 64,      [SG_TMAP_BF16] = 16, [SG_TMAP_F32_FTZ] = 32,  [SG_TMAP_TF32] = 32,
        [SG_TMAP_TF32_FTZ] = 32, [SG_TMAP_B4X16] = 4, [SG_TMAP_B4X16_P64] = 8, [SG_TMAP_B6X16] = 8};

    return bits[type];
}

static bool is_float(uint32_t type)
{
    return type >= SG_TMAP_F16 && type <= SG_TMAP_TF32_FTZ;
}

/* Elements of less than a byte that have gaps in shared memory. */
static bool is_padded(uint32_t type)
{
    return type == SG_TMAP_B4X16_P64 || type == SG_TMAP_B6X16;
}

uint32_t sg_tensor_map_bytes(const struct sg_tensor_map *m, uint32_t n)
{
    return (uint32_t)((uint64_t)n * element_bits(m->type) / 8);
}

uint32_t sg_tensor_map_swizzle(const struct sg_tensor_map *m, uint32_t at)
{
    switch (m->swizzle) {
    case SG_TMAP_SWIZZLE_32B:
    case SG_TMAP_SWIZZLE_96B:
        return at ^ (at >> 3 & 0x10);
    case SG_TMAP_SWIZZLE_64B:
        return at ^ (at >> 3 & 0x30);
    case SG_TMAP_SWIZZLE_128B:
        break;
    default:
        return at;
    }
    switch (m->atom) {
    case SG_TMAP_ATOM_16B:
        return at ^ (at >> 3 & 0x70);
    case SG_TMAP_ATOM_64B:
        return at ^ (at >> 1 & 0x40);
    case SG_TMAP_ATOM_32B_FLIP_8B:
        return at ^ (at >> 2 & 0x60) ^ (at >> 4 & 8);
    default:
        return at ^ (at >> 2 & 0x60);
    }
}

static const char *header_fault(const struct sg_tensor_map *m)
{
    if (m->magic != SG_TMAP_MAGIC || m->version != SG_TMAP_VERSION || m->reserved)
        return "no tensor map";
    if (m->form < SG_TMAP_TILED || m->form > SG_TMAP_IM2COL_W128)
        return "a form that does not exist";
    if (m->type >= SG_TMAP_TYPES)
        return "a type that does not exist";
    if (m->interleave > SG_TMAP_INTERLEAVE_32B || m->swizzle > SG_TMAP_SWIZZLE_96B ||
        m->atom > SG_TMAP_ATOM_64B || m->fill > 1 || m->promotion > 3)
        return "an interleave, swizzle, promotion or fill that does not exist";
    if (m->atom && m->swizzle != SG_TMAP_SWIZZLE_128B)
        return "an atom without a swizzle of 128 bytes";
    if (m->fill && !is_float(m->type))
        return "a fill with NaN of elements that are not floating point";
    return NULL;
}

static const char *tensor_fault(const struct sg_tensor_map *m)
{
    const uint64_t align = m->interleave == SG_TMAP_INTERLEAVE_32B || is_padded(m->type) ? 32 : 16;
    const uint32_t lowest = m->form != SG_TMAP_TILED || m->interleave ? 3 : 1;

    if (m->rank < lowest || m->rank > SG_TMAP_RANK)
        return "a wrong number of dimensions";
    if (m->address % align)
        return "a misaligned address";
    for (uint32_t i = 0; i < m->rank; i++) {
        if (!m->dim[i] || m->dim[i] > DIM_MAX)
            return "a dimension out of range";
        if (i + 1 < m->rank && (m->stride[i] % align || m->stride[i] >= STRIDE_MAX))
            return "a stride that is misaligned or too large";
        if ((i || m->interleave) && (!m->step[i] || m->step[i] > STEP_MAX))
            return "an element stride out of range";
    }
    if ((is_padded(m->type) && m->dim[0] % 128) || (m->type == SG_TMAP_B4X16 && m->dim[0] % 2))
        return "a dimension that ends in a part of a group of elements";
    return NULL;
}

static const char *swizzle_fault(const struct sg_tensor_map *m, uint32_t inner)
{
    static const uint8_t spans[] = {0, 32, 64, 128, 96};

    if (m->interleave == SG_TMAP_INTERLEAVE_32B && m->swizzle != SG_TMAP_SWIZZLE_32B)
        return "an interleave of 32 bytes without a swizzle of 32 bytes";
    if (m->interleave && (m->swizzle == SG_TMAP_SWIZZLE_96B || m->type == SG_TMAP_B6X16))
        return "an interleave with a type or swizzle that allows none";
    if (!m->interleave && sg_tensor_map_bytes(m, inner) % 16)
        return "a box whose rows are no multiple of 16 bytes";
    if (!m->interleave && m->swizzle && sg_tensor_map_bytes(m, inner) > spans[m->swizzle])
        return "a box whose rows exceed the span of the swizzle";
    if (!is_padded(m->type))
        return NULL;
    if (inner != 128)
        return "a box whose rows are not 128 packed elements";
    if ((m->swizzle && m->swizzle != SG_TMAP_SWIZZLE_128B) || m->atom == SG_TMAP_ATOM_32B_FLIP_8B ||
        (m->type == SG_TMAP_B4X16_P64 && m->atom == SG_TMAP_ATOM_64B))
        return "a swizzle that this type does not have";
    return NULL;
}

static const char *im2col_fault(const struct sg_tensor_map *m)
{
    static const int32_t corner_limits[] = {32768, 128, 16}; /* with 1, 2, 3 spatial dimensions */
    const bool wide = m->form != SG_TMAP_IM2COL;
    const uint32_t spatial = m->rank - 2u, corners = wide ? 1 : spatial;
    const int32_t limit = corner_limits[wide ? 0 : spatial - 1];

    for (uint32_t i = 0; i < corners; i++) {
        if (m->lower[i] < -limit || m->lower[i] >= limit || m->upper[i] < -limit || m->upper[i] >= limit)
            return "a corner out of range";
        if ((int64_t)m->dim[i + 1] - 1 + m->upper[i] < m->lower[i])
            return "a bounding box without area";
    }
    if (!m->channels || m->channels > BOX_MAX)
        return "channels per pixel out of range";
    if (m->form != SG_TMAP_IM2COL_W128 && (!m->pixels || m->pixels > PIXELS_MAX))
        return "pixels per column out of range";
    if (wide && (m->interleave || m->swizzle < SG_TMAP_SWIZZLE_64B || m->swizzle > SG_TMAP_SWIZZLE_128B ||
                 m->atom > SG_TMAP_ATOM_32B))
        return "an interleave or swizzle that wide im2col maps do not have";
    return swizzle_fault(m, m->channels);
}

static const char *tiled_fault(const struct sg_tensor_map *m)
{
    for (uint32_t i = 0; i < m->rank; i++)
        if (!m->box[i] || m->box[i] > BOX_MAX)
            return "a box out of range";
    return swizzle_fault(m, m->box[0]);
}

const char *sg_tensor_map_fault(const struct sg_tensor_map *m)
{
    const char *why = header_fault(m);

    if (!why)
        why = tensor_fault(m);
    if (!why)
        why = m->form == SG_TMAP_TILED ? tiled_fault(m) : im2col_fault(m);
    return why;
}

const char *sg_tensor_map_missing(const struct sg_tensor_map *m)
{
    if (m->interleave)
        return "interleaved tensors are not available";
    if (m->type >= SG_TMAP_B4X16)
        return "tensors of packed 4-bit and 6-bit elements are not available";
    return m->form > SG_TMAP_IM2COL ? "wide im2col maps are not available" : NULL;
}
