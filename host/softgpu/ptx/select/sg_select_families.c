/* SPDX-License-Identifier: MIT */
/* The tables of ptx/select/families.h. */
#include "ptx/select/families.h"

/* The types as names of operations spell them. */
enum {
    TYPE_b16 = SG_TY_B16,
    TYPE_b32 = SG_TY_B32,
    TYPE_b64 = SG_TY_B64,
    TYPE_pred = SG_TY_PRED,
    TYPE_u8 = SG_TY_U8,
    TYPE_s8 = SG_TY_S8,
    TYPE_u16 = SG_TY_U16,
    TYPE_s16 = SG_TY_S16,
    TYPE_u32 = SG_TY_U32,
    TYPE_s32 = SG_TY_S32,
    TYPE_u64 = SG_TY_U64,
    TYPE_s64 = SG_TY_S64,
    TYPE_u16x2 = SG_TY_U16X2,
    TYPE_s16x2 = SG_TY_S16X2,
    TYPE_f16 = SG_TY_F16,
    TYPE_f16x2 = SG_TY_F16X2,
    TYPE_bf16 = SG_TY_BF16,
    TYPE_bf16x2 = SG_TY_BF16X2,
    TYPE_f32 = SG_TY_F32,
    TYPE_f64 = SG_TY_F64,
    TYPE_tf32 = SG_TY_TF32,
    TYPE_e4m3x2 = SG_TY_E4M3X2,
    TYPE_e5m2x2 = SG_TY_E5M2X2,
    TYPE_e2m1x2 = SG_TY_E2M1X2,
    TYPE_e2m3x2 = SG_TY_E2M3X2,
    TYPE_e3m2x2 = SG_TY_E3M2X2,
    TYPE_ue8m0x2 = SG_TY_UE8M0X2
};

/* ON(f, t...): SG_OP_f_t under each type t, up to 14 */
#define ON1(f, t) [TYPE_##t] = SG_OP_##f##_##t
#define ON2(f, t, ...) ON1(f, t), ON1(f, __VA_ARGS__)
#define ON3(f, t, ...) ON1(f, t), ON2(f, __VA_ARGS__)
#define ON4(f, t, ...) ON1(f, t), ON3(f, __VA_ARGS__)
#define ON5(f, t, ...) ON1(f, t), ON4(f, __VA_ARGS__)
#define ON6(f, t, ...) ON1(f, t), ON5(f, __VA_ARGS__)
#define ON7(f, t, ...) ON1(f, t), ON6(f, __VA_ARGS__)
#define ON8(f, t, ...) ON1(f, t), ON7(f, __VA_ARGS__)
#define ON9(f, t, ...) ON1(f, t), ON8(f, __VA_ARGS__)
#define ON10(f, t, ...) ON1(f, t), ON9(f, __VA_ARGS__)
#define ON11(f, t, ...) ON1(f, t), ON10(f, __VA_ARGS__)
#define ON12(f, t, ...) ON1(f, t), ON11(f, __VA_ARGS__)
#define ON13(f, t, ...) ON1(f, t), ON12(f, __VA_ARGS__)
#define ON14(f, t, ...) ON1(f, t), ON13(f, __VA_ARGS__)
#define ON_OF(t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14, on, ...) on
#define ON(f, ...) \
    ON_OF(__VA_ARGS__, ON14, ON13, ON12, ON11, ON10, ON9, ON8, ON7, ON6, ON5, ON4, ON3, ON2, ON1, ) \
    (f, __VA_ARGS__)
#define UNTYPED(name) [SG_TY_NONE] = SG_OP_##name

#define OF(variant, ...) \
    [SG_V_##variant] = &(const struct sg_typed_ops) \
    { \
        { \
            __VA_ARGS__ \
        } \
    }
#define TO(type, ...) \
    [TYPE_##type] = &(const struct sg_typed_ops) \
    { \
        { \
            __VA_ARGS__ \
        } \
    }
#define FAMILY(name, ...) const struct sg_family_ops sg_fam_##name = {{__VA_ARGS__}};
#define PAIRS(name, ...) const struct sg_paired_ops sg_pairs_##name = {{__VA_ARGS__}};
#include "ptx/select/families.def"
