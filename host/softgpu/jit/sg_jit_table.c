/* SPDX-License-Identifier: MIT */
/* The native code of each operation, which its row names (exec/table/ids.h). */
#include "jit/natives.h"

#ifdef SG_JIT

static const struct jop sg_native_none, sg_native_flow; /* nothing to emit for the operation itself */
#define sg_native_avx512(name) sg_native_avx512_##name

/* A name that no row has gives the warning of a variable that is not used. */
#define N(name) static char named_##name;
#define N512(name) static char named_avx512_##name;
#include "jit/natives.def"
static char named_none __attribute__((unused)), named_flow __attribute__((unused));
#define named_avx512(name) named_avx512_##name

const struct jop *const sg_jit_natives[SG_OP_COUNT] = {
#define SG_ID(id, name, native) [SG_OP_##id] = sizeof(named_##native) ? &sg_native_##native : NULL,
#include "exec/table/ids.h"
};

#endif
