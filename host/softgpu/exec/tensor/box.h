/* SPDX-License-Identifier: MIT */
/*
 * The box that one tensor copy moves, as rows: elements that lie side by side in global memory, and behind
 * the row before in shared memory. Made of a map that a guest may have written: sg_box_begin() validates it,
 * and each access is checked where it is made.
 */
#ifndef SG_EXEC_TENSOR_BOX_H
#define SG_EXEC_TENSOR_BOX_H

#include "exec/ops/handler.h"
#include "memory/tensor_map.h"

#define SG_BOX_ROW_MAX 2048 /* bytes: 256 elements of 8 */
#define SG_BOX_ALIGN 128    /* bytes, of a box in shared memory (CUDA C++ Programming Guide) */

struct sg_box {
    struct sg_tensor_map map; /* a private copy */
    u32 mode;                 /* enum sg_tensor_mode */
    u32 rows, row_elements, row_bytes;
    u64 bytes;
    s64 start[SG_TMAP_RANK];
    s64 at[SG_TMAP_RANK];        /* coordinates of the row's first element */
    u32 offset[SG_TMAP_SPATIAL]; /* im2col */
    s64 four[4];                 /* second coordinate of each of four rows */
};

/* The part of a row that lies in the tensor. */
struct sg_box_part {
    u64 address; /* 0 bytes: undefined */
    u32 skip;    /* bytes of the row before it */
    u32 bytes;
};

/* Reads and checks the map of a lane; takes its coordinates. False: faulted. */
bool sg_box_begin(struct sg_box *b, struct sg_warp *w, const struct sg_insn *in, u32 lane);
void sg_box_next(struct sg_box *b, u32 row); /* from that row to the one after it */
/* False: the addresses of the map leave the address space. */
bool sg_box_part(const struct sg_box *b, struct sg_box_part *part);

#endif
