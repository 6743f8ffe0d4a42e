/* SPDX-License-Identifier: MIT */
/* The types of PTX: names and sizes; the supported shapes and types of mma.sync. */
#include "exec/code.h"
#include "exec/mma.h"

#include <string.h>

const uint64_t sg_without_sign = 0x7fffffffu;

#define T(name, size) \
    { \
        name, sizeof(name) - 1, size \
    }
static const struct {
    char name[8];
    uint8_t length, size;
} types[SG_TY_COUNT] = {
    [SG_TY_B8] = T("b8", 1),         [SG_TY_U8] = T("u8", 1),           [SG_TY_S8] = T("s8", 1),
    [SG_TY_B16] = T("b16", 2),       [SG_TY_U16] = T("u16", 2),         [SG_TY_S16] = T("s16", 2),
    [SG_TY_F16] = T("f16", 2),       [SG_TY_BF16] = T("bf16", 2),       [SG_TY_B32] = T("b32", 4),
    [SG_TY_U32] = T("u32", 4),       [SG_TY_S32] = T("s32", 4),         [SG_TY_F32] = T("f32", 4),
    [SG_TY_F16X2] = T("f16x2", 4),   [SG_TY_BF16X2] = T("bf16x2", 4),   [SG_TY_TF32] = T("tf32", 4),
    [SG_TY_B64] = T("b64", 8),       [SG_TY_U64] = T("u64", 8),         [SG_TY_S64] = T("s64", 8),
    [SG_TY_F64] = T("f64", 8),       [SG_TY_B128] = T("b128", 16),      [SG_TY_PRED] = T("pred", 0),
    [SG_TY_E4M3X2] = T("e4m3x2", 2), [SG_TY_E5M2X2] = T("e5m2x2", 2),   [SG_TY_E4M3] = T("e4m3", 1),
    [SG_TY_E5M2] = T("e5m2", 1),     [SG_TY_U16X2] = T("u16x2", 4),     [SG_TY_S16X2] = T("s16x2", 4),
    [SG_TY_F32X2] = T("f32x2", 8),   [SG_TY_E2M1X2] = T("e2m1x2", 1),   [SG_TY_E2M3X2] = T("e2m3x2", 2),
    [SG_TY_E3M2X2] = T("e3m2x2", 2), [SG_TY_UE8M0X2] = T("ue8m0x2", 2), [SG_TY_E4M3X4] = T("e4m3x4", 4),
    [SG_TY_E5M2X4] = T("e5m2x4", 4), [SG_TY_E2M1X4] = T("e2m1x4", 2),   [SG_TY_E2M3X4] = T("e2m3x4", 4),
    [SG_TY_E3M2X4] = T("e3m2x4", 4), [SG_TY_E2M1] = T("e2m1", 1),       [SG_TY_E2M3] = T("e2m3", 1),
    [SG_TY_E3M2] = T("e3m2", 1),
};
#undef T

enum sg_type sg_type_of(const char *s, size_t len)
{
    for (unsigned t = SG_TY_NONE + 1; t < SG_TY_COUNT; t++)
        if (types[t].length == len && !memcmp(types[t].name, s, len))
            return (enum sg_type)t;
    return SG_TY_NONE;
}

uint32_t sg_type_size(enum sg_type t)
{
    return t < SG_TY_COUNT ? types[t].size : 0;
}

const char *sg_type_name(enum sg_type t)
{
    return t > SG_TY_NONE && t < SG_TY_COUNT ? types[t].name : "none";
}

bool sg_type_signed(enum sg_type t)
{
    return t == SG_TY_S8 || t == SG_TY_S16 || t == SG_TY_S32 || t == SG_TY_S64;
}

bool sg_type_float(enum sg_type t)
{
    return t == SG_TY_F16 || t == SG_TY_BF16 || t == SG_TY_F32 || t == SG_TY_F64 || t == SG_TY_F16X2 ||
           t == SG_TY_BF16X2 || t == SG_TY_TF32 || t == SG_TY_F32X2;
}

/* ---- mma.sync ---- */

#define EIGHTHS(a, b) F("m16n8k32", a, b, 'f', 16, 32, 4, 2, 4), F("m16n8k32", a, b, 'h', 16, 32, 4, 2, 2)
#define EIGHTHS_OF(a) EIGHTHS(a, E4M3), EIGHTHS(a, E5M2), EIGHTHS(a, E3M2), EIGHTHS(a, E2M3), EIGHTHS(a, E2M1)
#define SHALLOW(a, b) F("m16n8k16", a, b, 'f', 16, 16, 2, 1, 4), F("m16n8k16", a, b, 'h', 16, 16, 2, 1, 2)
#define F(shape, a, b, c, m, k, na, nb, nc) \
    { \
        shape, SG_MMA_##a, SG_MMA_##b, c, m, k, na, nb, nc \
    }

const struct sg_mma_form sg_mma_forms[] = {
    F("m16n8k16", F16, F16, 'f', 16, 16, 4, 2, 4),
    F("m16n8k16", F16, F16, 'h', 16, 16, 4, 2, 2),
    F("m16n8k16", BF16, BF16, 'f', 16, 16, 4, 2, 4),
    F("m16n8k8", F16, F16, 'f', 16, 8, 2, 1, 4),
    F("m16n8k8", F16, F16, 'h', 16, 8, 2, 1, 2),
    F("m16n8k8", BF16, BF16, 'f', 16, 8, 2, 1, 4),
    F("m16n8k8", TF32, TF32, 'f', 16, 8, 4, 2, 4),
    F("m16n8k4", TF32, TF32, 'f', 16, 4, 2, 1, 4),
    F("m16n8k32", S8, S8, 'i', 16, 32, 4, 2, 4),
    F("m16n8k32", U8, U8, 'i', 16, 32, 4, 2, 4),
    F("m16n8k32", S8, U8, 'i', 16, 32, 4, 2, 4),
    F("m16n8k32", U8, S8, 'i', 16, 32, 4, 2, 4),
    F("m16n8k16", S8, S8, 'i', 16, 16, 2, 1, 4),
    F("m16n8k16", U8, U8, 'i', 16, 16, 2, 1, 4),
    F("m16n8k16", S8, U8, 'i', 16, 16, 2, 1, 4),
    F("m16n8k16", U8, S8, 'i', 16, 16, 2, 1, 4),
    F("m8n8k16", S8, S8, 'i', 8, 16, 1, 1, 2),
    F("m8n8k16", U8, U8, 'i', 8, 16, 1, 1, 2),
    F("m8n8k16", S8, U8, 'i', 8, 16, 1, 1, 2),
    F("m8n8k16", U8, S8, 'i', 8, 16, 1, 1, 2),
    F("m8n8k4", F64, F64, 'd', 8, 4, 1, 1, 2),
    EIGHTHS_OF(E4M3),
    EIGHTHS_OF(E5M2),
    EIGHTHS_OF(E3M2),
    EIGHTHS_OF(E2M3),
    EIGHTHS_OF(E2M1),
    SHALLOW(E4M3, E4M3),
    SHALLOW(E4M3, E5M2),
    SHALLOW(E5M2, E4M3),
    SHALLOW(E5M2, E5M2),
    {NULL, 0, 0, 0, 0, 0, 0, 0, 0},
};

#undef F
#undef EIGHTHS
#undef EIGHTHS_OF

/* ---- mma.sp, mma with .block_scale ---- */

#define F(shape, a, b, c, k, na, nb, lanes) \
    { \
        shape, SG_MMA_##a, SG_MMA_##b, c, k, na, nb, (c) == 'h' ? 2 : 4, lanes \
    }
#define SMALL(shape, a, b, k) F(shape, a, b, 'i', k, 2, 2, 2)
#define LARGE(shape, a, b, k) F(shape, a, b, 'i', k, 4, 4, 4)
#define EIGHTHS(a, b) \
    F("m16n8k64", a, b, 'f', 64, 4, 4, 4), F("m16n8k64", a, b, 'h', 64, 4, 4, 4), \
        F("m16n8k32", a, b, 'f', 32, 4, 2, 0)
#define EIGHTHS_OF(a) EIGHTHS(a, E4M3), EIGHTHS(a, E5M2), EIGHTHS(a, E3M2), EIGHTHS(a, E2M3), EIGHTHS(a, E2M1)

const struct sg_mma_wide sg_mma_wide_forms[] = {
    F("m16n8k16", F16, F16, 'f', 16, 2, 2, 1),
    F("m16n8k16", F16, F16, 'h', 16, 2, 2, 1),
    F("m16n8k32", F16, F16, 'f', 32, 4, 4, 2),
    F("m16n8k32", F16, F16, 'h', 32, 4, 4, 2),
    F("m16n8k16", BF16, BF16, 'f', 16, 2, 2, 1),
    F("m16n8k32", BF16, BF16, 'f', 32, 4, 4, 2),
    F("m16n8k8", TF32, TF32, 'f', 8, 2, 2, 1),
    F("m16n8k16", TF32, TF32, 'f', 16, 4, 4, 2),
    SMALL("m16n8k32", S8, S8, 32),
    SMALL("m16n8k32", S8, U8, 32),
    SMALL("m16n8k32", U8, S8, 32),
    SMALL("m16n8k32", U8, U8, 32),
    LARGE("m16n8k64", S8, S8, 64),
    LARGE("m16n8k64", S8, U8, 64),
    LARGE("m16n8k64", U8, S8, 64),
    LARGE("m16n8k64", U8, U8, 64),
    SMALL("m16n8k64", S4, S4, 64),
    SMALL("m16n8k64", S4, U4, 64),
    SMALL("m16n8k64", U4, S4, 64),
    SMALL("m16n8k64", U4, U4, 64),
    LARGE("m16n8k128", S4, S4, 128),
    LARGE("m16n8k128", S4, U4, 128),
    LARGE("m16n8k128", U4, S4, 128),
    LARGE("m16n8k128", U4, U4, 128),
    EIGHTHS_OF(E4M3),
    EIGHTHS_OF(E5M2),
    EIGHTHS_OF(E3M2),
    EIGHTHS_OF(E2M3),
    EIGHTHS_OF(E2M1),
    F("m16n8k128", E2M1_PACKED, E2M1_PACKED, 'f', 128, 4, 4, 4),
    F("m16n8k64", E2M1_PACKED, E2M1_PACKED, 'f', 64, 4, 2, 0),
    {NULL, 0, 0, 0, 0, 0, 0, 0, 0},
};

const struct sg_mma_wide *sg_mma_wide_of(uint32_t aux)
{
    const uint32_t n = sizeof(sg_mma_wide_forms) / sizeof(sg_mma_wide_forms[0]) - 1,
                   scales = SG_WIDE_SCALES(aux);

    if ((aux & 255) >= n || aux >> 14 || (scales != 0 && scales != 1 && scales != 2 && scales != 4))
        return NULL;
    return &sg_mma_wide_forms[aux & 255];
}

/* ---- queries of the verifier ---- */

static uint32_t set_lists(uint32_t *n, uint32_t a, uint32_t b, uint32_t c)
{
    n[0] = a;
    n[1] = b;
    n[2] = n[3] = c;
    return 4;
}

static uint32_t wide_lists(uint32_t aux, uint32_t *n)
{
    const struct sg_mma_wide *f = sg_mma_wide_of(aux);

    if (!f)
        return 0;
    set_lists(n, f->na, f->nb, f->nc);
    n[3] = f->lanes ? 1 : 0;
    n[4] = n[5] = SG_WIDE_SCALES(aux) ? 3 : 0;
    n[6] = f->nc;
    return 7;
}

uint32_t sg_mma_lists(const struct sg_opdef *row, uint32_t aux, uint32_t n[SG_MMA_LISTS])
{
    const uint32_t tall = aux & SG_SUB_TALL ? 2 : 1, deep = aux & SG_SUB_DEEP ? 2 : 1;
    const struct sg_mma_form *f = sg_mma_forms;

    switch (row->rule) {
    case SG_R_MMA:
        for (uint32_t k = 0; f->shape && k < aux; k++)
            f++;
        if (!f->shape || (row->arg == 'i') != (f->c == 'i') || f->c == 'd')
            return 0;
        return set_lists(n, f->na, f->nb, f->nc);
    case SG_R_MMA_F64:
        return set_lists(n, 1, 1, 2);
    case SG_R_MMA_F64_16:
        return aux == 4 || aux == 8 || aux == 16 ? set_lists(n, aux / 2, aux / 4, 4) : 0;
    case SG_R_MMA_SUB:
        return set_lists(n, tall * deep, deep, 2 * tall);
    case SG_R_MMA_WIDE:
        return wide_lists(aux, n);
    default:
        return 0;
    }
}
