/* SPDX-License-Identifier: MIT */
/*
 * Arithmetic as the PTX manual (chapter 9) describes it, in plain C, written without a look at the
 * software GPU's handlers. Values travel as bits in 64-bit words.
 */
#ifndef GEN_REF_H
#define GEN_REF_H

#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef __int128 s128;

float f32(u64 bits);
double f64(u64 bits);
u64 bits32(float f);
u64 bits64(double d);

/* Flags of a floating point operation. */
enum { RN = 0, RZ = 1, RM = 2, RP = 3, FTZ = 4, SAT = 8, RELU = 16, NANP = 32, XORSIGN = 64 };

/* op: one of + - * / f (fused multiply-add) q (square root), < (min), > (max) */
u64 op32(char op, u64 a, u64 b, u64 c, int flags);
u64 op64(char op, u64 a, u64 b, u64 c, int flags);
u64 op16(char op, u64 a, u64 b, u64 c, int flags);  /* f16 */
u64 opb16(char op, u64 a, u64 b, u64 c, int flags); /* bf16 */
u64 op16x2(char op, u64 a, u64 b, u64 c, int flags);

/* cmp: "eq" "ne" "lt" "le" "gt" "ge", with u behind: true when unordered, too; "num", "nan" */
bool cmpf(const char *cmp, double a, double b);

double from16(u64 h); /* f16 */
double fromb16(u64 h);
u64 to16(double x, int flags); /* RN or RZ, RELU, SAT */
u64 tob16(double x, int flags);

/* To an integer of the width; sign: signed. wide: the result of NaN is the top bit (the manual:
 * when the source is f64 or the destination has 64 bits), else 0. */
u64 to_int(double x, int round, int bits, bool sign, bool wide);
double round_to_integer(double x, int round);
float int_to_f32(s128 v, int round);
double int_to_f64(s128 v, int round);
float f64_to_f32(double x, int flags);
/* lg2 ('l'), sin ('s') and cos ('c') as this GPU defines them: the same steps in every instruction
 * set */
u64 approx32(char what, u64 a, int flags);
double ftz32(double x); /* a float's denormal becomes a zero of its sign */

u64 clamp(s128 v, s128 lo, s128 hi);
u64 bfe(u64 a, u32 pos, u32 len, int bits, bool sign);
u64 bfi(u64 a, u64 b, u32 pos, u32 len, int bits);
u64 prmt(u32 a, u32 b, u32 c, const char *mode);
u64 lop3(u32 a, u32 b, u32 c, unsigned table);
u64 reverse(u64 v, int bits);
int leading_zeros(u64 v, int bits);
u64 dot4(u32 a, u32 b, u32 c, bool sa, bool sb);
u64 dot2(u32 a, u32 b, u32 c, bool sa, bool sb, bool high);

#endif
