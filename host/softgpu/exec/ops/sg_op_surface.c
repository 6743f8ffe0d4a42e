/* SPDX-License-Identifier: MIT */
/* Handlers: surface loads, stores and reductions (PTX ISA 9.7.11). */
#include "exec/ops/texture.h"
#include "base/half.h"

#define EACH SG_EACH_LANE

/* Address of size bytes at the coordinates of a lane. NULL: out of bounds in mode zero, or
   *fault. */
static u8 *surface_address(struct sg_warp *w, const struct sg_insn *in, u32 lane, const struct sg_texture *t,
                           u32 size, bool *fault)
{
    const struct sg_tex_scratch *s = &w->cta->tex;
    const struct sg_tex_level *l = &t->level[0];
    const u32 dims = SG_TX_DIMS(in->aux), mode = SG_TX_MODE(in->aux);
    const bool samples = in->aux & SG_TX_FORMATTED;
    s64 at[3] = {0, 0, 0}; /* bytes, rows, slices */
    const s64 end[3] = {(s64)l->width * t->elem - size, (s64)l->height - 1, (s64)l->depth - 1};

    for (u32 k = 0; k < dims; k++)
        at[k] = (s32)s->arg[SG_TA_COORD + k][lane];
    if (in->aux & SG_TX_LAYERED)
        at[2] = (s64)s->arg[SG_TA_LAYER][lane];
    if (samples)
        at[0] *= t->elem;
    if (at[0] & (samples ? 0 : size - 1)) {
        sg_fault_set(w, in, lane, SG_ERR_MISALIGNED, "misaligned surface coordinate");
        *fault = true;
        return NULL;
    }
    for (int k = 0; k < 3; k++) {
        if (at[k] >= 0 && at[k] <= end[k])
            continue;
        if (mode == SG_TX_CLAMP && end[k] >= 0) {
            at[k] = at[k] < 0 ? 0 : end[k] - (!k && !samples ? end[k] & (size - 1) : 0);
            continue;
        }
        if (mode == SG_TX_TRAP) {
            sg_fault_set(w, in, lane, SG_ERR_FAILED, "surface access out of bounds");
            *fault = true;
        }
        return NULL;
    }
    return (u8 *)(uintptr_t)(l->data + (u64)at[2] * l->slice + (u64)at[1] * l->pitch + (u64)at[0]);
}

/* ---- unformatted ---- */

HANDLER(surf_load)
{
    const u64 *h = SRC(u64, a);
    const u32 n = SG_TX_VEC(in->aux), bytes = SG_TX_BYTES(in->aux);
    u64(*val)[SG_LANES] = w->cta->tex.val;

    EACH(w->mask)
    {
        const struct sg_texture *t = sg_tex_of(w, in, i, h[i], true);
        bool fault = false;
        u8 *p;

        if (!t)
            return SG_FAULTED;
        p = surface_address(w, in, i, t, n * bytes, &fault);
        if (fault)
            return SG_FAULTED;
        for (u32 k = 0; k < n; k++) {
            val[k][i] = 0;
            if (p)
                memcpy(&val[k][i], p + k * bytes, bytes);
        }
    }
    return SG_NEXT;
}

HANDLER(surf_store)
{
    const u64 *h = SRC(u64, a);
    const u32 n = SG_TX_VEC(in->aux), bytes = SG_TX_BYTES(in->aux);
    u64(*val)[SG_LANES] = w->cta->tex.val;

    EACH(w->mask)
    {
        const struct sg_texture *t = sg_tex_of(w, in, i, h[i], true);
        bool fault = false;
        u8 *p;

        if (!t)
            return SG_FAULTED;
        p = surface_address(w, in, i, t, n * bytes, &fault);
        if (fault)
            return SG_FAULTED;
        for (u32 k = 0; p && k < n; k++)
            memcpy(p + k * bytes, &val[k][i], bytes);
    }
    return SG_NEXT;
}

/* ---- formatted: 32-bit values become channels ---- */

static u32 round_channel(float f, float lo, float max)
{
    f = f != f ? 0 : f < lo ? lo : f > 1.0f ? 1.0f : f;
    return (u32)(s32)rintf(f * max);
}

static u32 to_channel(const struct sg_texture *t, u32 v)
{
    const u32 bits = 8 * t->bytes;
    float f;

    memcpy(&f, &v, 4);
    if (t->kind == SG_TEXEL_FLOAT || bits == 32)
        return v;
    if (t->kind == SG_TEXEL_HALF)
        return sg_f32_to_f16(f, 0);
    if (t->as_float)
        return t->kind == SG_TEXEL_UINT ? round_channel(f, 0, (float)((1u << bits) - 1))
                                        : round_channel(f, -1, (float)((1u << (bits - 1)) - 1));
    if (t->kind == SG_TEXEL_UINT)
        return v >> bits ? (1u << bits) - 1 : v;
    const s32 max = (1 << (bits - 1)) - 1;

    return (u32)((s32)v > max ? max : (s32)v < -max - 1 ? -max - 1 : (s32)v);
}

HANDLER(surf_store_p)
{
    const u64 *h = SRC(u64, a);
    const u32 n = SG_TX_VEC(in->aux);
    u64(*val)[SG_LANES] = w->cta->tex.val;

    EACH(w->mask)
    {
        const struct sg_texture *t = sg_tex_of(w, in, i, h[i], true);
        bool fault = false;
        u8 *p;

        if (!t)
            return SG_FAULTED;
        p = surface_address(w, in, i, t, t->elem, &fault);
        if (fault)
            return SG_FAULTED;
        for (u32 k = 0; p && k < n && k < t->channels; k++) {
            const u32 c = to_channel(t, (u32)val[k][i]);

            memcpy(p + k * t->bytes, &c, t->bytes);
        }
    }
    return SG_NEXT;
}

/* ---- reductions ---- */

#define REDUCE(T, p, v, op) \
    do { \
        T *p_ = (T *)(void *)(p), old_ = __atomic_load_n(p_, __ATOMIC_RELAXED), new_; \
        do { \
            const T v_ = (T)(v); \
            new_ = (op) == SG_TX_ADD   ? (T)(old_ + v_) \
                   : (op) == SG_TX_MIN ? (old_ < v_ ? old_ : v_) \
                   : (op) == SG_TX_MAX ? (old_ > v_ ? old_ : v_) \
                   : (op) == SG_TX_AND ? (T)(old_ & v_) \
                                       : (T)(old_ | v_); \
        } while (!__atomic_compare_exchange_n(p_, &old_, new_, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \
    } while (0)

HANDLER(surf_red)
{
    const u64 *h = SRC(u64, a);
    const u32 bytes = SG_TX_BYTES(in->aux), op = SG_TX_OP(in->aux);
    u64(*val)[SG_LANES] = w->cta->tex.val;

    EACH(w->mask)
    {
        const struct sg_texture *t = sg_tex_of(w, in, i, h[i], true);
        bool fault = false;
        u8 *p;

        if (!t)
            return SG_FAULTED;
        if (in->aux & SG_TX_FORMATTED && (t->elem != 4 || t->kind > SG_TEXEL_SINT))
            return sg_fault_set(w, in, i, SG_ERR_FAILED, "sured.p needs elements of 32-bit integers");
        p = surface_address(w, in, i, t, bytes, &fault);
        if (fault)
            return SG_FAULTED;
        if (!p)
            continue;
        /* A locked access that crosses lines of the cache stops every processor. */
        if ((uintptr_t)p & (bytes - 1))
            return sg_fault_set(w, in, i, SG_ERR_MISALIGNED, "misaligned surface element");
        const bool sign =
            in->aux & SG_TX_FORMATTED ? t->kind == SG_TEXEL_SINT : (in->aux & SG_TX_SIGNED) != 0;
        if (bytes == 8 && sign)
            REDUCE(s64, p, val[0][i], op);
        else if (bytes == 8)
            REDUCE(u64, p, val[0][i], op);
        else if (sign)
            REDUCE(s32, p, val[0][i], op);
        else
            REDUCE(u32, p, val[0][i], op);
    }
    return SG_NEXT;
}

#include "exec/ops/surface.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_surf[] = {
#include "exec/ops/surface.def"
    {0},
};
