/* SPDX-License-Identifier: MIT */
/* Boxes of tensor copies: coordinates of their rows (PTX ISA, "Tensors"). */
#include "exec/tensor/box.h"
#include "exec/code.h"

#include <stdio.h>

static bool box_fault(struct sg_warp *w, const struct sg_insn *in, u32 lane, int result, const char *why)
{
    char text[160];

    snprintf(text, sizeof(text), "tensor copy: %s", why);
    sg_fault_set(w, in, lane, result, text);
    return false;
}

/* A copy of the map, which its memory may no longer be when the copy is checked. */
static bool read_map(struct sg_box *b, struct sg_warp *w, const struct sg_insn *in, u32 lane)
{
    const u64 at = SRC(u64, a)[lane];

    if (at % SG_TMAP_ALIGN) {
        sg_fault_addr(w, in, lane, SG_ERR_MISALIGNED, SG_SP_GLOBAL, at, SG_TMAP_BYTES, false);
        return false;
    }
    if (at - sg_win.shared < SG_WIN_CLUSTER_SIZE || at - sg_win.local < SG_WIN_LOCAL_SIZE)
        return box_fault(w, in, lane, SG_ERR_ADDRESS_SPACE, "a map in shared or local memory");
    return sg_lane_read(w, in, lane, SG_SP_GENERIC, at, &b->map, sizeof(b->map));
}

static bool mode_fits(const struct sg_box *b, u32 dims)
{
    const struct sg_tensor_map *m = &b->map;

    if (m->rank != dims)
        return false;
    switch (b->mode) {
    case SG_TENSOR_TILE:
        return m->form == SG_TMAP_TILED;
    case SG_TENSOR_FOUR_ROWS:
        return m->form == SG_TMAP_TILED && dims == 2 && m->box[1] == 1;
    case SG_TENSOR_IM2COL:
        return m->form == SG_TMAP_IM2COL;
    default:
        return false;
    }
}

static u32 box_count(const struct sg_tensor_map *m, u32 i)
{
    return (m->box[i] + m->step[i] - 1u) / m->step[i];
}

static void count_rows(struct sg_box *b)
{
    const struct sg_tensor_map *m = &b->map;
    u64 rows = 1;

    b->row_elements = b->mode == SG_TENSOR_IM2COL ? m->channels : m->box[0];
    b->row_bytes = sg_tensor_map_bytes(m, b->row_elements);
    if (b->mode == SG_TENSOR_IM2COL)
        rows = m->pixels;
    else if (b->mode == SG_TENSOR_FOUR_ROWS)
        rows = 4;
    else
        for (u32 i = 1; i < m->rank; i++)
            rows *= box_count(m, i); /* at most 256^4 */
    b->bytes = rows * b->row_bytes;
    b->rows = rows > UINT32_MAX ? UINT32_MAX : (u32)rows; /* too many for shared memory */
}

static void take_coordinates(struct sg_box *b, const struct sg_warp *w, u32 lane)
{
    for (u32 i = 0; i < SG_TMAP_RANK; i++) {
        b->start[i] = (s32)w->cta->tex.arg[SG_TN_COORD + i][lane];
        b->at[i] = b->start[i];
    }
    for (u32 i = 0; i < 4; i++)
        b->four[i] = b->start[1 + i];
    for (u32 i = 0; i < SG_TMAP_SPATIAL; i++)
        b->offset[i] = b->mode == SG_TENSOR_IM2COL ? w->cta->tex.arg[SG_TN_OFFSET + i][lane] & 0xffff : 0;
}

bool sg_box_begin(struct sg_box *b, struct sg_warp *w, const struct sg_insn *in, u32 lane)
{
    const char *why;

    if (!read_map(b, w, in, lane))
        return false;
    why = sg_tensor_map_fault(&b->map);
    if (why)
        return box_fault(w, in, lane, SG_ERR_ILLEGAL_INSN, why);
    why = sg_tensor_map_missing(&b->map);
    if (why)
        return box_fault(w, in, lane, SG_ERR_UNSUPPORTED, why);
    b->mode = SG_TENSOR_MODE(in->imm);
    if (!mode_fits(b, SG_TENSOR_DIMS(in->imm)))
        return box_fault(w, in, lane, SG_ERR_ILLEGAL_INSN, "a map of another form or rank");
    count_rows(b);
    take_coordinates(b, w, lane);
    return true;
}

/* The next pixel in the bounding box, then the next image. */
static void next_pixel(struct sg_box *b)
{
    const struct sg_tensor_map *m = &b->map;
    const u32 images = m->rank - 1u;

    for (u32 i = 1; i < images; i++) {
        b->at[i] += m->step[i];
        if (b->at[i] <= (s64)m->dim[i] - 1 + m->upper[i - 1])
            return;
        b->at[i] = m->lower[i - 1];
    }
    b->at[images]++;
}

static void next_in_tile(struct sg_box *b)
{
    const struct sg_tensor_map *m = &b->map;

    for (u32 i = 1; i < m->rank; i++) {
        b->at[i] += m->step[i];
        if (b->at[i] < b->start[i] + m->box[i])
            return;
        b->at[i] = b->start[i];
    }
}

void sg_box_next(struct sg_box *b, u32 row)
{
    switch (b->mode) {
    case SG_TENSOR_TILE:
        next_in_tile(b);
        return;
    case SG_TENSOR_FOUR_ROWS:
        b->at[1] = b->four[row < 3 ? row + 1 : 3];
        return;
    default:
        next_pixel(b);
    }
}

bool sg_box_part(const struct sg_box *b, struct sg_box_part *part)
{
    const struct sg_tensor_map *m = &b->map;
    unsigned __int128 address = m->address;
    s64 first = b->at[0] < 0 ? -b->at[0] : 0, end = (s64)m->dim[0] - b->at[0];

    *part = (struct sg_box_part){0, 0, 0};
    if (end > b->row_elements)
        end = b->row_elements;
    if (first >= end)
        return true;
    for (u32 i = 1; i < m->rank; i++) {
        const s64 at = b->at[i] + (i + 1 < m->rank && i <= SG_TMAP_SPATIAL ? b->offset[i - 1] : 0);

        if (at < 0 || at >= (s64)m->dim[i])
            return true;
        address += (unsigned __int128)(u64)at * m->stride[i - 1];
    }
    address += (u64)(b->at[0] + first) * (u64)sg_tensor_map_bytes(m, 1);
    part->skip = sg_tensor_map_bytes(m, (u32)first);
    part->bytes = sg_tensor_map_bytes(m, (u32)(end - first));
    part->address = (u64)address;
    return address <= UINT64_MAX - part->bytes;
}
