/* SPDX-License-Identifier: MIT */
/* Declares the native code of operations: sg_native_NAME for each name of natives.def. */
#ifndef SG_JIT_NATIVES_H
#define SG_JIT_NATIVES_H

#include "jit/state.h"

/* By operation; NULL or without an emitter: none. */
extern const struct jop *const sg_jit_natives[SG_OP_COUNT];

#define N(name) extern const struct jop sg_native_##name;
#define N512(name) extern const struct jop sg_native_avx512_##name;
#include "jit/natives.def"
#undef N
#undef N512

#endif
