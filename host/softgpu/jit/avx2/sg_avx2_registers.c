/* SPDX-License-Identifier: MIT */
/* AVX2: the VEX encoder, and which ymm registers hold which halves. */
#include "jit/avx2/avx2.h"

#ifdef SG_JIT

#include <string.h>

/* ---- encoder ---- */

static void modrm(struct buf *b, u32 reg, struct rm x)
{
    const bool sib = (x.reg & 7) == 4;

    if (!x.memory) {
        put8(b, 0xc0 | (reg & 7) << 3 | (x.reg & 7));
        return;
    }
    put8(b, (x.disp >= -128 && x.disp < 128 ? 0x40u : 0x80u) | (reg & 7) << 3 | (x.reg & 7));
    if (sib)
        put8(b, 0x24);
    if (x.disp >= -128 && x.disp < 128)
        put8(b, (u32)x.disp & 255);
    else
        put32(b, (u32)x.disp);
}

/* vpand, vpor, vpxor, vpaddd, vpaddq, vpcmpeqd, vpmuludq: commutative integer operations. */
static bool operands_commute(struct vop o)
{
    return o.map == M0F && o.pp == P66 &&
           (o.op == 0xdb || o.op == 0xeb || o.op == 0xef || o.op == 0xfe || o.op == 0xd4 || o.op == 0x76 ||
            o.op == 0xf4);
}

void sg_avx2_vex(struct buf *b, struct vop o, bool l, u32 reg, u32 vv, struct rm x)
{
    u32 last;

    if (!x.memory && x.reg & 8 && !(vv & 8) && operands_commute(o)) {
        const u32 high = x.reg;

        x.reg = vv; /* so that the shorter prefix does */
        vv = high;
    }
    if (!x.memory && x.reg & 8 && !(reg & 8) && o.map == M0F && o.op == LOAD.op && o.pp == LOAD.pp) {
        const u32 from = x.reg;

        o.op = STORE_OP.op; /* between registers, the same from reg to rm */
        x.reg = reg;
        reg = from;
    }
    last = (~vv & 15) << 3 | (u32)l << 2 | o.pp;
    if (o.map == M0F && !o.w && !(x.reg & 8)) { /* the prefix of two bytes */
        put8(b, 0xc5);
        put8(b, (u32)(!(reg & 8)) << 7 | last);
    } else {
        put8(b, 0xc4);
        put8(b, (u32)(!(reg & 8)) << 7 | 0x40 | (u32)(!(x.reg & 8)) << 5 | o.map);
        put8(b, (u32)o.w << 7 | last);
    }
    put8(b, o.op);
    modrm(b, reg, x);
}

void sg_avx2_vsib(struct buf *b, struct vop o, u32 reg, u32 mask, u32 base, u32 index, s32 disp, bool no_base)
{
    put8(b, 0xc4);
    put8(b, (u32)(!(reg & 8)) << 7 | (u32)(!(index & 8)) << 6 | (u32)(no_base || !(base & 8)) << 5 | o.map);
    put8(b, (u32)o.w << 7 | (~mask & 15) << 3 | 4 | o.pp);
    put8(b, o.op);
    put8(b, (no_base ? 0x04u : 0x84u) | (reg & 7) << 3);
    put8(b, (index & 7) << 3 | (no_base ? 5 : base & 7));
    put32(b, (u32)disp);
}

void sg_avx2_general(struct buf *b, bool w, bool two, u32 op, u32 reg, struct rm x)
{
    rex(b, w, reg, x.reg);
    if (two)
        put8(b, 0x0f);
    put8(b, op);
    modrm(b, reg, x);
}

void sg_avx2_point(struct buf *b, u32 reg, const void *at)
{
    mov_imm64(b, reg, (u64)(uintptr_t)at);
}

/* ---- frame ---- */

void sg_avx2_enter(struct buf *b)
{
    alu_reg(b, true, 0x89, RAX, RSP);
    alu_imm(b, true, 5, RSP, AVX2_FRAME_BYTES);
    alu_imm(b, true, 4, RSP, (u32)-64);
    sg_avx2_general(b, true, false, 0x8d, AVX2_FRAME, MEM_AT(RSP, AVX2_FRAME_BIAS)); /* lea */
    sg_avx2_general(b, true, false, 0x89, RAX, MEM_AT(AVX2_FRAME, AVX2_RSP_AT));
}

void sg_avx2_leave(struct buf *b)
{
    sg_avx2_general(b, true, false, 0x8b, RSP, MEM_AT(AVX2_FRAME, AVX2_RSP_AT));
}

/* ---- halves ---- */

static u64 *word_of(u64 bits[2], u32 half)
{
    return &bits[half >> 6 & 1];
}

static void set_half_bit(u64 bits[2], u32 half, bool on)
{
    *word_of(bits, half) &= ~(1ull << (half & 63));
    *word_of(bits, half) |= (u64)on << (half & 63);
}

static void empty_register(struct avx2 *a, u32 ymm)
{
    a->in[a->half[ymm]] = 0;
    a->held &= ~(1u << ymm);
    a->dirty &= ~(1u << ymm);
}

static void write_back(struct buf *b, u32 ymm)
{
    struct avx2 *a = b->avx2;

    if (!(a->dirty >> ymm & 1))
        return;
    v256(b, STORE_OP, ymm, 0, MEM_AT(AVX2_FRAME, AVX2_SLOT(a->half[ymm])));
    a->dirty &= ~(1u << ymm);
}

/* An empty ymm register, or the least recently used. */
static u32 spare_register(struct buf *b)
{
    struct avx2 *a = b->avx2;
    u32 best = AVX2_YMM;

    for (u32 i = 0; i < AVX2_YMM; i++) {
        if (!(a->held >> i & 1))
            return i;
        if (!(a->locked >> i & 1) && (best == AVX2_YMM || a->used[i] < a->used[best]))
            best = i;
    }
    if (best == AVX2_YMM) {
        b->failed = true;
        return 0;
    }
    write_back(b, best);
    empty_register(a, best);
    return best;
}

static void lock_register(struct avx2 *a, u32 ymm)
{
    a->locked |= 1u << ymm;
    a->used[ymm] = ++a->clock;
}

static u32 take_register(struct buf *b, u32 half)
{
    struct avx2 *a = b->avx2;
    u32 ymm = a->in[half] ? a->in[half] - 1u : spare_register(b);

    a->in[half] = (u8)(ymm + 1);
    a->half[ymm] = (u8)half;
    a->held |= 1u << ymm;
    lock_register(a, ymm);
    return ymm;
}

static void need_half(struct buf *b, u32 half)
{
    if (sg_avx2_is_scratch(half >> 1) && !sg_avx2_half_bit(b->avx2->valid, half))
        b->failed = true;
}

u32 sg_avx2_get(struct buf *b, u32 v, u32 h)
{
    struct avx2 *a = b->avx2;
    const u32 half = 2 * v + h;
    const bool resident = a->in[half];
    const u32 ymm = take_register(b, half);

    need_half(b, half);
    if (!resident)
        v256(b, LOAD, ymm, 0, sg_avx2_place_of(a, half));
    return ymm;
}

struct rm sg_avx2_operand(struct buf *b, u32 v, u32 h)
{
    struct avx2 *a = b->avx2;
    const u32 half = 2 * v + h;

    need_half(b, half);
    if (!a->in[half])
        return sg_avx2_place_of(a, half);
    lock_register(a, a->in[half] - 1u);
    return REG(a->in[half] - 1u);
}

struct rm sg_avx2_in_memory(struct buf *b, u32 v, u32 h)
{
    struct avx2 *a = b->avx2;
    const u32 half = 2 * v + h;

    need_half(b, half);
    if (a->in[half])
        write_back(b, a->in[half] - 1u);
    return sg_avx2_place_of(a, half);
}

struct rm sg_avx2_part(struct buf *b, u32 v, u32 h, bool upper, u32 t)
{
    struct rm x = sg_avx2_operand(b, v, h);

    if (!upper)
        return x;
    if (x.memory)
        return MEM_AT(x.reg, x.disp + 16);
    v256i(b, UPPER128, x.reg, 0, REG(t), 1);
    return REG(t);
}

u32 sg_avx2_put(struct buf *b, u32 v, u32 h)
{
    struct avx2 *a = b->avx2;
    const u32 half = 2 * v + h, ymm = take_register(b, half);

    set_half_bit(a->alias, half, false);
    set_half_bit(a->valid, half, true);
    a->dirty |= 1u << ymm;
    return ymm;
}

void sg_avx2_unlock(struct buf *b)
{
    b->avx2->locked = 0;
}

/* ---- for the emitters ---- */

static void drop_value(struct avx2 *a, u32 v)
{
    for (u32 half = 2 * v; half < 2 * v + 2; half++)
        if (a->in[half])
            empty_register(a, a->in[half] - 1u);
}

void sg_avx2_alias(struct buf *b, u32 v, u32 base, s32 disp)
{
    struct avx2 *a = b->avx2;

    drop_value(a, v);
    a->at[v] = (struct avx2_memory){base, disp};
    for (u32 h = 0; h < 2; h++) {
        set_half_bit(a->alias, 2 * v + h, true);
        set_half_bit(a->valid, 2 * v + h, true);
    }
}

void sg_avx2_stored(struct buf *b, u32 v, u32 base, s32 disp)
{
    struct avx2 *a = b->avx2;

    a->at[v] = (struct avx2_memory){base, disp};
    for (u32 half = 2 * v; half < 2 * v + 2; half++) {
        set_half_bit(a->alias, half, true);
        if (a->in[half])
            a->dirty &= ~(1u << (a->in[half] - 1u));
    }
}

void sg_avx2_own(struct buf *b, u32 v)
{
    for (u32 h = 0; h < 2; h++) {
        if (!sg_avx2_half_bit(b->avx2->alias, 2 * v + h))
            continue;
        sg_avx2_unlock(b);
        (void)sg_avx2_get(b, v, h);
        (void)sg_avx2_put(b, v, h);
    }
}

u32 sg_avx2_aliases(const struct buf *b)
{
    u32 v, out = 0;

    for (v = 0; v < 32; v++)
        out |= (u32)(sg_avx2_half_bit(b->avx2->alias, 2 * v) && sg_avx2_half_bit(b->avx2->alias, 2 * v + 1))
               << v;
    return out;
}

void sg_avx2_reload(struct buf *b, u32 v, u32 base, s32 disp)
{
    for (u32 h = 0; h < 2; h++) {
        v256(b, LOAD, T0, 0, MEM_AT(base, disp + (s32)(32 * h)));
        v256(b, STORE_OP, T0, 0, MEM_AT(AVX2_FRAME, AVX2_SLOT(2 * v + h)));
    }
}

void sg_avx2_done(struct buf *b, u32 held)
{
    struct avx2 *a = b->avx2;

    for (u32 v = 0; v < AVX2_REGISTERS; v++) {
        if (v < AVX2_MASKS && !sg_avx2_is_scratch(v) && (held >> v & 1))
            continue;
        drop_value(a, v);
        set_half_bit(a->alias, 2 * v, false);
        set_half_bit(a->alias, 2 * v + 1, false);
    }
    memset(a->valid, 0, sizeof(a->valid));
    for (u32 k = 0; k < 8; k++)
        a->mask[k].state = AVX2_NONE;
}

void sg_avx2_lost(struct buf *b)
{
    struct avx2 *a = b->avx2;

    memset(a->in, 0, sizeof(a->in));
    a->held = a->dirty = a->locked = 0;
}

/* ---- labels (jit/x86.h) ---- */

void sg_avx2_flush(struct buf *b)
{
    struct avx2 *a = b->avx2;

    for (u32 i = 0; i < AVX2_YMM; i++)
        if ((a->held >> i & 1) && !sg_avx2_is_scratch(a->half[i] >> 1))
            write_back(b, i);
}

void sg_avx2_label(struct buf *b)
{
    sg_avx2_flush(b);
    sg_avx2_lost(b);
    b->avx2->dead_at = 0;
    memset(b->avx2->valid, 0, sizeof(b->avx2->valid));
    for (u32 k = 0; k < 8; k++)
        b->avx2->mask[k].state = AVX2_NONE;
}

#endif
