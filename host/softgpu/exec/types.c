/* SPDX-License-Identifier: MIT */
/* The types of PTX: names and sizes. */
#include "exec/code.h"

#include <string.h>

static const struct {
    const char *name;
    uint8_t type, size;
} sg_types[] = {
    {"b8", SG_TY_B8, 1},         {"u8", SG_TY_U8, 1},         {"s8", SG_TY_S8, 1},
    {"b16", SG_TY_B16, 2},       {"u16", SG_TY_U16, 2},       {"s16", SG_TY_S16, 2},
    {"f16", SG_TY_F16, 2},       {"bf16", SG_TY_BF16, 2},     {"b32", SG_TY_B32, 4},
    {"u32", SG_TY_U32, 4},       {"s32", SG_TY_S32, 4},       {"f32", SG_TY_F32, 4},
    {"f16x2", SG_TY_F16X2, 4},   {"bf16x2", SG_TY_BF16X2, 4}, {"tf32", SG_TY_TF32, 4},
    {"b64", SG_TY_B64, 8},       {"u64", SG_TY_U64, 8},       {"s64", SG_TY_S64, 8},
    {"f64", SG_TY_F64, 8},       {"b128", SG_TY_B128, 16},    {"pred", SG_TY_PRED, 0},
    {"e4m3x2", SG_TY_E4M3X2, 2}, {"e5m2x2", SG_TY_E5M2X2, 2}, {"e4m3", SG_TY_E4M3, 1},
    {"e5m2", SG_TY_E5M2, 1},     {"u16x2", SG_TY_U16X2, 4},   {"s16x2", SG_TY_S16X2, 4},
    {"f32x2", SG_TY_F32X2, 8},
};
#define NTYPES (sizeof(sg_types) / sizeof(sg_types[0]))

enum sg_type sg_type_of(const char *s, size_t len)
{
    if (len < 2 || len > 6)
        return SG_TY_NONE;
    for (size_t i = 0; i < NTYPES; i++)
        if (sg_types[i].name[0] == s[0] && strlen(sg_types[i].name) == len &&
            !memcmp(sg_types[i].name, s, len))
            return (enum sg_type)sg_types[i].type;
    return SG_TY_NONE;
}

uint32_t sg_type_size(enum sg_type t)
{
    for (size_t i = 0; i < NTYPES; i++)
        if (sg_types[i].type == t)
            return sg_types[i].size;
    return 0;
}

const char *sg_type_name(enum sg_type t)
{
    for (size_t i = 0; i < NTYPES; i++)
        if (sg_types[i].type == t)
            return sg_types[i].name;
    return "none";
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
