/* SPDX-License-Identifier: MIT */
/* Handlers: tensor copies, tensor reductions, changes of tensor maps. */
#include "exec/ops/bulk.h"
#include "exec/tensor/box.h"

#define ROW_COST 256 /* the walk to a row, in bytes copied */

/* A box in the shared memory of a block: where it begins, in the window and in this process. */
struct shared_box {
    u64 at;
    u8 *host;
};

/* The box of a lane in shared memory; false: faulted. */
static bool shared_begin(struct shared_box *s, struct sg_warp *w, const struct sg_insn *in, u32 lane,
                         const struct sg_box *b, u64 at, bool write)
{
    const u32 size = b->bytes > SG_WIN_SHARED_SIZE ? SG_WIN_SHARED_SIZE : (u32)b->bytes;
    u32 local;

    s->at = at;
    s->host = sg_resolve(w, in, lane, SG_SP_SHARED, at, size, SG_BOX_ALIGN, write, &local);
    return s->host != NULL;
}

/* Copies a row between its place in shared memory, which the swizzle divides, and a buffer. False: faulted,
   as the swizzle moved a piece of the last 128 bytes out of the block's memory. */
static bool shared_row(const struct shared_box *s, struct sg_warp *w, const struct sg_insn *in, u32 lane,
                       const struct sg_box *b, u32 row, u8 *buf, bool write)
{
    const u32 unit = b->map.atom == SG_TMAP_ATOM_32B_FLIP_8B ? 8 : 16, begin = row * b->row_bytes;
    u32 local;

    if (!b->map.swizzle) {
        memcpy(write ? s->host + begin : buf, write ? buf : s->host + begin, b->row_bytes);
        return true;
    }
    for (u32 k = 0; k < b->row_bytes; k += unit) {
        /* the box is aligned to the 128 bytes that a swizzle stays in */
        const u32 to = sg_tensor_map_swizzle(&b->map, (u32)s->at + begin + k) - (u32)s->at;
        u8 *p = s->host + to;

        if (to + unit > b->bytes)
            p = sg_resolve(w, in, lane, SG_SP_SHARED, s->at + to, unit, 1, write, &local);
        if (!p)
            return false;
        memcpy(write ? p : buf + k, write ? buf + k : p, unit);
    }
    return true;
}

/* The NaN of elements outside a tensor is 0x7ff7 in each 16 bits. */
static void fill_row(const struct sg_box *b, u8 *buf)
{
    const u16 nan = 0x7ff7;

    if (!b->map.fill)
        memset(buf, 0, b->row_bytes);
    else
        for (u32 k = 0; k < b->row_bytes; k += 2)
            memcpy(buf + k, &nan, 2);
}

static u32 round_tf32(u32 v)
{
    if ((v & 0x7f800000u) == 0x7f800000u)
        return v & 0x7fffffu ? v | 0x400000u : v;
    return (v + 0xfff + (v >> 13 & 1)) & ~0x1fffu;
}

/* Loads flush subnormal numbers of the types with .ftz, and round to .tf32. */
static void convert_row(u32 type, u8 *buf, u32 n)
{
    const bool ftz = type == SG_TMAP_F32_FTZ || type == SG_TMAP_TF32_FTZ;
    const bool tf32 = type == SG_TMAP_TF32 || type == SG_TMAP_TF32_FTZ;

    for (u32 k = 0; (ftz || tf32) && k < n; k += 4) {
        u32 v;

        memcpy(&v, buf + k, 4);
        if (ftz && !(v & 0x7f800000u))
            v &= 0x80000000u;
        if (tf32)
            v = round_tf32(v);
        memcpy(buf + k, &v, 4);
    }
}

/* The row's part in global memory, which may be empty. False: faulted. */
static bool global_part(struct sg_warp *w, const struct sg_insn *in, u32 lane, const struct sg_box *b,
                        struct sg_box_part *part, u8 **host, bool write)
{
    u32 local;

    *host = NULL;
    if (!sg_box_part(b, part)) {
        sg_fault_addr(w, in, lane, SG_ERR_ADDRESS, SG_SP_GLOBAL, part->address, part->bytes, write);
        return false;
    }
    if (part->bytes)
        *host = sg_resolve(w, in, lane, SG_SP_GLOBAL, part->address, part->bytes, 1, write, &local);
    return !part->bytes || *host;
}

/* From global memory to the block at `at`. The box is walked from its start. */
static bool load_box(struct sg_warp *w, const struct sg_insn *in, u32 lane, struct sg_box b, u64 at)
{
    u8 buf[SG_BOX_ROW_MAX], *from;
    struct sg_box_part part;
    struct shared_box s;

    if (!shared_begin(&s, w, in, lane, &b, at, true))
        return false;
    for (u32 row = 0; row < b.rows; sg_box_next(&b, row++)) {
        if (!global_part(w, in, lane, &b, &part, &from, false))
            return false;
        if (part.bytes < b.row_bytes)
            fill_row(&b, buf);
        if (part.bytes) {
            memcpy(buf + part.skip, from, part.bytes);
            convert_row(b.map.type, buf + part.skip, part.bytes);
        }
        if (!shared_row(&s, w, in, lane, &b, row, buf, true))
            return false;
    }
    return true;
}

static u64 box_cost(const struct sg_box *b)
{
    return b->bytes + (u64)b->rows * ROW_COST;
}

HANDLER(tensor_load)
{
    u64 cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        struct sg_box b;

        if (!sg_box_begin(&b, w, in, i) || !load_box(w, in, i, b, SRC(u32, d)[i]) ||
            !sg_bulk_count_at(w, in, i, SRC(u32, c)[i], (u32)b.bytes))
            return SG_FAULTED;
        cost += box_cost(&b);
    }
    return sg_charge(w, in, cost);
}

/* The rank of the block whose barrier counts: that of the box, or of the pair the block that the operand names. */
static u32 barrier_rank(const struct sg_warp *w, const struct sg_insn *in, u64 barrier, u32 rank)
{
    const u64 slot = barrier / SG_WIN_SHARED_SIZE;
    const u32 named = slot && slot <= w->cta->cluster_size ? (u32)slot - 1 : w->cta->cluster_rank;

    return in->imm & SG_TENSOR_PAIR ? (rank & ~1u) | (named & 1) : rank;
}

HANDLER(tensor_load_multicast)
{
    u64 cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m), barrier = SRC(u32, c)[i];
        struct sg_box b;

        if (!sg_box_begin(&b, w, in, i))
            return SG_FAULTED;
        for (u32 to = SRC(u32, b)[i] & 0xffff; to; to &= to - 1) {
            const u32 rank = (u32)__builtin_ctz(to);

            if (!load_box(w, in, i, b, sg_cluster_map(w->cta, SRC(u32, d)[i], rank)) ||
                !sg_bulk_count_at(w, in, i,
                                  sg_cluster_map(w->cta, barrier, barrier_rank(w, in, barrier, rank)),
                                  (u32)b.bytes))
                return SG_FAULTED;
            cost += box_cost(&b);
        }
    }
    return sg_charge(w, in, cost);
}

/* The type that a reduction combines; SG_TY_NONE: op has no such elements. */
static enum sg_type reduced_type(u32 op, u32 type)
{
    const bool bits = op >= 5, counts = op == 3 || op == 4;

    switch (type) {
    case SG_TMAP_U32:
        return SG_TY_U32;
    case SG_TMAP_S32:
        return counts ? SG_TY_NONE : SG_TY_S32;
    case SG_TMAP_U64:
        return counts ? SG_TY_NONE : SG_TY_U64;
    case SG_TMAP_S64:
        return counts || op == 0 ? SG_TY_NONE : SG_TY_S64;
    case SG_TMAP_F16:
        return counts || bits ? SG_TY_NONE : SG_TY_F16;
    case SG_TMAP_BF16:
        return counts || bits ? SG_TY_NONE : SG_TY_BF16;
    case SG_TMAP_F32:
    case SG_TMAP_F32_FTZ:
        return op == 0 ? SG_TY_F32 : SG_TY_NONE;
    default:
        return SG_TY_NONE;
    }
}

/* From shared to global memory; t: the type to combine, SG_TY_NONE: copied. False: faulted. */
static bool store_box(struct sg_warp *w, const struct sg_insn *in, u32 lane, struct sg_box *b, enum sg_type t)
{
    u8 buf[SG_BOX_ROW_MAX] __attribute__((aligned(16))), *to;
    struct sg_box_part part;
    struct shared_box s;

    if (!shared_begin(&s, w, in, lane, b, SRC(u32, b)[lane], false))
        return false;
    for (u32 row = 0; row < b->rows; sg_box_next(b, row++)) {
        if (!global_part(w, in, lane, b, &part, &to, true) ||
            !shared_row(&s, w, in, lane, b, row, buf, false))
            return false;
        if (!part.bytes)
            continue;
        if (t == SG_TY_NONE)
            memcpy(to, buf + part.skip, part.bytes);
        else
            sg_bulk_reduce(to, buf + part.skip, part.bytes, in->aux & 7, t);
    }
    return true;
}

HANDLER(tensor_store)
{
    u64 cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        struct sg_box b;

        if (!sg_box_begin(&b, w, in, i) || !store_box(w, in, i, &b, SG_TY_NONE))
            return SG_FAULTED;
        cost += box_cost(&b);
    }
    return sg_charge(w, in, cost);
}

HANDLER(tensor_reduce)
{
    u64 cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        enum sg_type t;
        struct sg_box b;

        if (!sg_box_begin(&b, w, in, i))
            return SG_FAULTED;
        t = reduced_type(in->aux & 7, b.map.type);
        if (t == SG_TY_NONE)
            return sg_fault_set(w, in, i, SG_ERR_ILLEGAL_INSN,
                                "a reduction that elements of this type do not have");
        if (!store_box(w, in, i, &b, t))
            return SG_FAULTED;
        cost += box_cost(&b) + b.bytes * SG_BULK_REDUCE_COST;
    }
    return sg_charge(w, in, cost);
}

/* A hint: the map is checked, the tensor is not. */
HANDLER(tensor_prefetch)
{
    for (u32 m = w->mask; m; m &= m - 1) {
        struct sg_box b;

        if (!sg_box_begin(&b, w, in, (u32)__builtin_ctz(m)))
            return SG_FAULTED;
    }
    return SG_NEXT;
}

static u8 low8(u64 v)
{
    return (u8)(v < UINT8_MAX ? v : UINT8_MAX);
}

/* Values that a field cannot hold become its largest, which no valid map has. */
static void replace_field(struct sg_tensor_map *m, u32 field, u32 i, u64 v)
{
    static const u8 types[] = {SG_TMAP_U8,       SG_TMAP_U16,   SG_TMAP_U32,       SG_TMAP_S32,
                               SG_TMAP_U64,      SG_TMAP_S64,   SG_TMAP_F16,       SG_TMAP_F32,
                               SG_TMAP_F32_FTZ,  SG_TMAP_F64,   SG_TMAP_BF16,      SG_TMAP_TF32,
                               SG_TMAP_TF32_FTZ, SG_TMAP_B4X16, SG_TMAP_B4X16_P64, SG_TMAP_B6X16};

    switch (field) {
    case SG_TF_GLOBAL_ADDRESS:
        m->address = v;
        break;
    case SG_TF_RANK:
        m->rank = low8(v < UINT8_MAX ? v + 1 : v);
        break;
    case SG_TF_BOX_DIM:
        if (i < SG_TMAP_RANK)
            m->box[i] = (u16)(v < UINT16_MAX ? v : UINT16_MAX);
        break;
    case SG_TF_GLOBAL_DIM:
        if (i < SG_TMAP_RANK)
            m->dim[i] = v;
        break;
    case SG_TF_GLOBAL_STRIDE:
        if (i < SG_TMAP_RANK - 1)
            m->stride[i] = v;
        break;
    case SG_TF_ELEMENT_STRIDE:
        if (i < SG_TMAP_RANK)
            m->step[i] = low8(v);
        break;
    case SG_TF_ELEMTYPE:
        m->type = v < sizeof(types) ? types[v] : UINT8_MAX;
        break;
    case SG_TF_INTERLEAVE_LAYOUT:
        m->interleave = low8(v);
        break;
    case SG_TF_SWIZZLE_MODE:
        m->swizzle = low8(v);
        break;
    case SG_TF_SWIZZLE_ATOMICITY:
        m->atom = low8(v);
        break;
    default:
        m->fill = low8(v);
    }
}

HANDLER(tensor_map_replace)
{
    for (u32 mask = w->mask; mask; mask &= mask - 1) {
        const u32 lane = (u32)__builtin_ctz(mask);
        struct sg_tensor_map m;
        u32 local;
        u8 *p =
            sg_resolve(w, in, lane, SG_SP_GENERIC, SRC(u64, a)[lane], sizeof(m), SG_TMAP_ALIGN, true, &local);

        if (!p)
            return SG_FAULTED;
        if (local)
            return sg_fault_set(w, in, lane, SG_ERR_ADDRESS_SPACE, "a tensor map in local memory");
        memcpy(&m, p, sizeof(m));
        if (m.magic != SG_TMAP_MAGIC || m.version != SG_TMAP_VERSION || m.form != SG_TMAP_TILED)
            return sg_fault_set(w, in, lane, SG_ERR_ILLEGAL_INSN, "no tiled tensor map");
        replace_field(&m, in->imm & 255, (u32)(in->imm >> 8) & 255, SRC(u64, b)[lane]);
        memcpy(p, &m, sizeof(m));
    }
    return SG_NEXT;
}

#include "exec/tensor/tensor.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_tensor[] = {
#include "exec/tensor/tensor.def"
    {0},
};
