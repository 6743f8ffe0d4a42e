/* SPDX-License-Identifier: MIT */
/* Handlers: exchange between lanes. A preceding wsync has reconverged the lanes. */
#include "exec/ops/handler.h"

#define EACH(m) for (u32 m_ = (m), i; m_ && (i = (u32)__builtin_ctz(m_), 1); m_ &= m_ - 1)

/*
 * The common form: all lanes run, distance and limits are constants, no segments. Returns false for
 * other forms. d and a may share a slot, hence the copy.
 */
enum shfl_mode { UP, DOWN, BFLY, IDX };
static bool shfl_fast(struct sg_warp *w, const struct sg_insn *in, enum shfl_mode mode)
{
    const u32 *pa = SRC(u32, a), b = SRC(u32, b)[0] & 31, c = SRC(u32, c)[0] & 0x1f1f;
    u32 *d = DST(u32, d), *p = DST(u32, e), tmp[SG_LANES];

    if (w->mask != SG_FULL || !(in->c & SG_OPND_CONST) || c != (mode == UP ? 0 : 31))
        return false;
    if (!(in->b & SG_OPND_CONST)) {
        u32 differ = 0;

        LANES differ |= (SRC(u32, b)[i] ^ b) & 31;
        if (differ)
            return false;
    }
    memcpy(tmp, pa, sizeof(tmp));
    *p = SG_FULL;
    switch (mode) {
    case UP:
        memcpy(d, tmp, b * 4);
        memcpy(d + b, tmp, (SG_LANES - b) * 4);
        *p = SG_FULL << b;
        break;
    case DOWN:
        memcpy(d, tmp + b, (SG_LANES - b) * 4);
        memcpy(d + SG_LANES - b, tmp + SG_LANES - b, b * 4);
        *p = SG_FULL >> b;
        break;
    case BFLY:
        for (u32 i = 0; i < SG_LANES; i++)
            d[i] = tmp[i ^ b];
        break;
    case IDX:
        LANES d[i] = tmp[b];
        break;
    }
    return true;
}

/*
 * shfl (PTX ISA): c holds the clamp in bits 0-4 and the segment mask in bits 8-12. A source lane
 * outside the limits gives the lane its own value and a false predicate.
 */
#define SHFL(id, mode, calc, inside) \
    HANDLER(id) \
    { \
        const u32 *pa = SRC(u32, a), *pb = SRC(u32, b), *pc = SRC(u32, c); \
        u32 *d = DST(u32, d), tmp[SG_LANES], pred = 0; \
        if (shfl_fast(w, in, mode)) \
            return SG_NEXT; \
        EACH(w->mask) \
        { \
            const int lane = (int)i, bval = (int)(pb[i] & 31); \
            const int cval = (int)(pc[i] & 31), seg = (int)(pc[i] >> 8 & 31); \
            const int max = (lane & seg) | (cval & ~seg); \
            const int min = lane & seg; \
            int j = (calc); \
            const bool ok = (inside); \
            (void)min; \
            j = ok ? j : lane; \
            tmp[i] = pa[j & 31]; \
            pred |= ok ? 1u << i : 0; \
        } \
        EACH(w->mask) d[i] = tmp[i]; \
        { \
            u32 *p = DST(u32, e); \
            *p = (*p & ~w->mask) | pred; \
        } \
        return SG_NEXT; \
    }

SHFL(shfl_up, UP, lane - bval, j >= max)
SHFL(shfl_down, DOWN, lane + bval, j <= max)
SHFL(shfl_bfly, BFLY, lane ^ bval, j <= max)
SHFL(shfl_idx, IDX, min | (bval & ~seg), j <= max)

#define VOTE(id, e) \
    HANDLER(id) \
    { \
        const u32 p = PREDV(a), *pm = SRC(u32, b); \
        u32 r = 0; \
        EACH(w->mask) \
        { \
            const u32 m = pm[i] & w->mask, yes = p & m; \
            (void)yes; \
            (void)m; \
            r |= (e) ? 1u << i : 0; \
        } \
        { \
            u32 *d = DST(u32, d); \
            *d = (*d & ~w->mask) | r; \
        } \
        return SG_NEXT; \
    }
VOTE(vote_all, yes == m)
VOTE(vote_any, yes != 0)
VOTE(vote_uni, yes == m || yes == 0)

HANDLER(vote_ballot)
{
    const u32 p = PREDV(a), *pm = SRC(u32, b);
    u32 *d = DST(u32, d);

    EACH(w->mask) d[i] = p & pm[i] & w->mask;
    return SG_NEXT;
}

#define MATCH(id, T) \
    HANDLER(match_any_##id) \
    { \
        const T *pa = SRC(T, a); \
        const u32 *pm = SRC(u32, b); \
        u32 *d = DST(u32, d), tmp[SG_LANES]; \
        EACH(w->mask) \
        { \
            u32 r = 0; \
            for (u32 m = pm[i] & w->mask; m; m &= m - 1) { \
                const u32 j = (u32)__builtin_ctz(m); \
                r |= pa[j] == pa[i] ? 1u << j : 0; \
            } \
            tmp[i] = r; \
        } \
        EACH(w->mask) d[i] = tmp[i]; \
        return SG_NEXT; \
    } \
    HANDLER(match_all_##id) \
    { \
        const T *pa = SRC(T, a); \
        const u32 *pm = SRC(u32, b); \
        u32 *d = DST(u32, d), *p = DST(u32, e), tmp[SG_LANES], pred = 0; \
        EACH(w->mask) \
        { \
            const u32 m = pm[i] & w->mask; \
            bool all = true; \
            for (u32 k = m; k; k &= k - 1) \
                all &= pa[__builtin_ctz(k)] == pa[i]; \
            tmp[i] = all ? m : 0; \
            pred |= all ? 1u << i : 0; \
        } \
        EACH(w->mask) d[i] = tmp[i]; \
        *p = (*p & ~w->mask) | pred; \
        return SG_NEXT; \
    }
MATCH(b32, u32)
MATCH(b64, u64)

#define REDUX(id, T, init, e) \
    HANDLER(redux_##id) \
    { \
        const T *pa = SRC(T, a); \
        const u32 *pm = SRC(u32, b); \
        T *d = DST(T, d), tmp[SG_LANES]; \
        u32 last = 0; \
        T value = 0; \
        EACH(w->mask) \
        { \
            const u32 m = pm[i] & w->mask; \
            if (m != last) { \
                T r = (init); \
                for (u32 k = m; k; k &= k - 1) { \
                    const T x = pa[__builtin_ctz(k)]; \
                    r = (T)(e); \
                } \
                last = m; \
                value = r; \
            } \
            tmp[i] = value; \
        } \
        EACH(w->mask) d[i] = tmp[i]; \
        return SG_NEXT; \
    }
REDUX(add_b32, u32, 0, r + x)
REDUX(and_b32, u32, SG_FULL, r &x)
REDUX(or_b32, u32, 0, r | x)
REDUX(xor_b32, u32, 0, r ^ x)
REDUX(min_u32, u32, SG_FULL, x < r ? x : r)
REDUX(max_u32, u32, 0, x > r ? x : r)
REDUX(min_s32, s32, INT32_MAX, x < r ? x : r)
REDUX(max_s32, s32, INT32_MIN, x > r ? x : r)

/* Minimum or maximum of r and x as f32, by their bits: -0.0 is below +0.0, and a NaN counts only if nan. */
static inline u32 redux_f32(u32 r, u32 x, bool max, bool nan)
{
    const bool rn = (r & 0x7fffffffu) > 0x7f800000u, xn = (x & 0x7fffffffu) > 0x7f800000u;
    const u32 kr = r >> 31 ? ~r : r | 1u << 31, kx = x >> 31 ? ~x : x | 1u << 31;

    if ((rn && xn) || (nan && (rn || xn)))
        return 0x7fffffffu;
    if (rn || xn)
        return rn ? x : r;
    return (max ? kx > kr : kx < kr) ? x : r;
}
REDUX(min_f32, u32, 0x7fffffffu, redux_f32(r, x, false, false))
REDUX(max_f32, u32, 0x7fffffffu, redux_f32(r, x, true, false))
REDUX(min_nan_f32, u32, 0x7f800000u, redux_f32(r, x, false, true))
REDUX(max_nan_f32, u32, 0xff800000u, redux_f32(r, x, true, true))

HANDLER(activemask)
{
    u32 *d = DST(u32, d);

    EACH(w->mask) d[i] = w->mask;
    return SG_NEXT;
}

HANDLER(elect)
{
    const u32 *pm = SRC(u32, a);
    u32 *d = DST(u32, d), *p = DST(u32, e), tmp[SG_LANES], pred = 0;

    EACH(w->mask)
    {
        const u32 m = pm[i] & w->mask, leader = m ? (u32)__builtin_ctz(m) : i;

        tmp[i] = leader;
        pred |= leader == i ? 1u << i : 0;
    }
    EACH(w->mask) d[i] = tmp[i];
    *p = (*p & ~w->mask) | pred;
    return SG_NEXT;
}

/* The value of the first running lane, written as any result: behind "flat" to all lanes. */
#define FIRST(bits) \
    HANDLER(first_b##bits) \
    { \
        const u##bits *a = SRC(u##bits, a), v = a[__builtin_ctz(w->mask)]; \
        u##bits *d = DST(u##bits, d); \
\
        EACH(w->wmask) d[i] = v; \
        return SG_NEXT; \
    }
FIRST(32)
FIRST(64)

#include "exec/ops/warp.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_warp[] = {
#include "exec/ops/warp.def"
    {0},
};
