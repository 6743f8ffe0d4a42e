/* SPDX-License-Identifier: MIT */
/*
 * Makes table entries (struct sg_opdef) of the rows of a .def file. Rows with an expression derive
 * their fields from its types; ROW, ROWE, ROWR and ROWF give each field, in the order of struct
 * sg_insn. No guard: after the handlers.
 */
#include "exec/table/undef.h"

#define IN(T) ((sizeof(T) == 8 ? SG_W_64 : SG_W_32) | _Generic((T)0, f32 : SG_W_F32, default : 0))
#define OUT(T) (SG_W_OUT | IN(T))
#define CLEAN(T) (SG_W_OUT | SG_W_32 | SG_W_CLEAN)
#define IN_P SG_W_PRED
#define OUT_P (SG_W_OUT | SG_W_PRED)
#define ADR SG_W_ADDRESS
#define BY SG_W_VARIES
#define OPT(x) (SG_W_OPTIONAL | (x))
#define NO SG_W_NONE

/* fn: the handler, where it is not the operation's own; rule, arg: enum sg_rule. */
#define ROWF(id, name, native, fn, rule, arg, ...) {name, fn, {__VA_ARGS__}, rule, arg, SG_OP_##id},
#define ROWR(id, name, native, rule, arg, ...) ROWF(id, name, native, h_##id, rule, arg, __VA_ARGS__)
#define ROW(id, name, native, ...) ROWR(id, name, native, SG_R_PLAIN, 0, __VA_ARGS__)
/* An operation with effects beyond its result: accesses memory, other lanes or the warp (including its
   carry), or faults. The others are pure (sg_op_is_pure()): hoisting may run them ahead of blocks. */
#define ROWE(id, name, native, ...) ROWR(id, name, native, SG_R_EFFECT, 0, __VA_ARGS__)

#define OP1(id, name, native, TD, TA, e) ROW(id, name, native, OUT(TD), IN(TA))
#define OP2(id, name, native, TD, TA, TB, e) ROW(id, name, native, OUT(TD), IN(TA), IN(TB))
#define OP3(id, name, native, TD, TA, TB, TC, e) ROW(id, name, native, OUT(TD), IN(TA), IN(TB), IN(TC))
/* The same, for operations whose result is never a NaN other than PTX's canonical one. */
#define OP1_CLEAN(id, name, native, TD, TA, e) ROW(id, name, native, CLEAN(TD), IN(TA))
#define OP2_CLEAN(id, name, native, TD, TA, TB, e) ROW(id, name, native, CLEAN(TD), IN(TA), IN(TB))
#define CMP(id, name, native, TA, e) ROW(id, name, native, OUT_P, IN(TA), IN(TA))
#define TEST(id, name, native, TA, e) ROW(id, name, native, OUT_P, IN(TA))
#define LIBM(id, name, native, T, e) ROW(id, name, native, OUT(T), IN(T))

#define SECOND(n, T) (n > 1 ? IN(T) : NO)
#define THIRD(n, T) (n > 2 ? IN(T) : NO)
#define HALF(id, name, native, n, bf, pair, e) \
    ROW(id, name, native, OUT(u32), IN(u32), SECOND(n, u32), THIRD(n, u32))
#define HALF_SIGN(id, name, native, T, e) ROW(id, name, native, OUT(T), IN(T))
#define HALF_CMP(id, name, native, widen, e) ROW(id, name, native, OUT_P, IN(u32), IN(u32))
#define CARRY(id, name, native, T, W, n, e, out, set) \
    ROWE(id, name, native, OUT(T), IN(T), IN(T), THIRD(n, T))
#define CARRY_SAT(id, name, native, n, e) ROWE(id, name, native, OUT(u32), IN(u32), IN(u32), THIRD(n, u32))
#define SIMD(id, name, native, op, bits) ROW(id, name, native, OUT(u32), IN(u32), IN(u32), IN(u32))
#define CVT_SAT(id, name, native, DR, lo, hi, SR, ST) ROW(id, name, native, OUT(DR), IN(SR))
#define CVT_INT(id, name, native, fn, DR, DT, lo, hi, limit, nan, ST) ROW(id, name, native, OUT(DR), IN(ST))
#define CVT_FF(id, name, native, fn, ST) ROW(id, name, native, OUT(ST), IN(ST))

#define LD_G(id, name, native, TD, T) ROWR(id, name, native, SG_R_LOAD, 0, OUT(TD), IN(u64))
#define LD_S(id, name, native, TD, T) ROWR(id, name, native, SG_R_LOAD, 0, OUT(TD), IN(u32))
#define LD_L(id, name, native, TD, T) ROWR(id, name, native, SG_R_LOAD, 0, OUT(TD), IN(u32))
#define LD_P(id, name, native, TD, T) ROWR(id, name, native, SG_R_LOAD_P, sizeof(T), OUT(TD))
#define ST_G(id, name, native, TD, T) ROWR(id, name, native, SG_R_STORE, 0, IN(TD), IN(u64))
#define ST_S(id, name, native, TD, T) ROWR(id, name, native, SG_R_STORE, 0, IN(TD), IN(u32))
#define ST_L(id, name, native, TD, T) ROWR(id, name, native, SG_R_STORE, 0, IN(TD), IN(u32))
#define MORE(x, N) (N > 2 ? (x) : NO)
#define LD_GV(id, name, native, T, N) \
    ROWR(id, name, native, SG_R_LOAD, 0, OUT(T), IN(u64), OUT(T), MORE(OUT(T), N), MORE(OUT(T), N))
#define LD_SV(id, name, native, T, N) \
    ROWR(id, name, native, SG_R_LOAD, 0, OUT(T), IN(u32), OUT(T), MORE(OUT(T), N), MORE(OUT(T), N))
#define ST_GV(id, name, native, T, N) \
    ROWR(id, name, native, SG_R_STORE, 0, IN(T), IN(u64), IN(T), MORE(IN(T), N), MORE(IN(T), N))
#define ST_SV(id, name, native, T, N) \
    ROWR(id, name, native, SG_R_STORE, 0, IN(T), IN(u32), IN(T), MORE(IN(T), N), MORE(IN(T), N))

#define ATOM(id, name, native, U, B, e) ROWE(id, name, native, OUT(U), ADR, IN(B))
#define ATOM16(id, name, native, e) ROWE(id, name, native, OUT(u32), ADR, IN(u32))
#define FETCH(id, name, native, U, fn, op) ROWE(id, name, native, OUT(U), ADR, IN(U))
#define EXCH(id, name, native, U) ROWE(id, name, native, OUT(U), ADR, IN(U))
#define CAS(id, name, native, T, R) ROWE(id, name, native, OUT(R), ADR, IN(R), IN(R))
