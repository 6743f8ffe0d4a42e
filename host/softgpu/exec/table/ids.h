/* SPDX-License-Identifier: MIT */
/* SG_ID(id, name, native) for each operation, in the order of their numbers; native: its native code
   (jit/natives.def), none or flow. No guard; ends SG_ID. */
#include "exec/table/undef.h"

#define OP1(id, name, native, ...) SG_ID(id, name, native)
#define OP2(id, name, native, ...) SG_ID(id, name, native)
#define OP3(id, name, native, ...) SG_ID(id, name, native)
#define OP1_CLEAN(id, name, native, ...) SG_ID(id, name, native)
#define OP2_CLEAN(id, name, native, ...) SG_ID(id, name, native)
#define CMP(id, name, native, ...) SG_ID(id, name, native)
#define TEST(id, name, native, ...) SG_ID(id, name, native)
#define LIBM(id, name, native, ...) SG_ID(id, name, native)
#define HALF(id, name, native, ...) SG_ID(id, name, native)
#define HALF_SIGN(id, name, native, ...) SG_ID(id, name, native)
#define HALF_CMP(id, name, native, ...) SG_ID(id, name, native)
#define CARRY(id, name, native, ...) SG_ID(id, name, native)
#define CARRY_SAT(id, name, native, ...) SG_ID(id, name, native)
#define SIMD(id, name, native, ...) SG_ID(id, name, native)
#define CVT_SAT(id, name, native, ...) SG_ID(id, name, native)
#define CVT_INT(id, name, native, ...) SG_ID(id, name, native)
#define CVT_FF(id, name, native, ...) SG_ID(id, name, native)
#define LD_G(id, name, native, ...) SG_ID(id, name, native)
#define LD_S(id, name, native, ...) SG_ID(id, name, native)
#define LD_L(id, name, native, ...) SG_ID(id, name, native)
#define LD_P(id, name, native, ...) SG_ID(id, name, native)
#define ST_G(id, name, native, ...) SG_ID(id, name, native)
#define ST_S(id, name, native, ...) SG_ID(id, name, native)
#define ST_L(id, name, native, ...) SG_ID(id, name, native)
#define LD_GV(id, name, native, ...) SG_ID(id, name, native)
#define LD_SV(id, name, native, ...) SG_ID(id, name, native)
#define ST_GV(id, name, native, ...) SG_ID(id, name, native)
#define ST_SV(id, name, native, ...) SG_ID(id, name, native)
#define ATOM(id, name, native, ...) SG_ID(id, name, native)
#define ATOM16(id, name, native, ...) SG_ID(id, name, native)
#define FETCH(id, name, native, ...) SG_ID(id, name, native)
#define EXCH(id, name, native, ...) SG_ID(id, name, native)
#define CAS(id, name, native, ...) SG_ID(id, name, native)
#define ROW(id, name, native, ...) SG_ID(id, name, native)
#define ROWE(id, name, native, ...) SG_ID(id, name, native)
#define ROWR(id, name, native, ...) SG_ID(id, name, native)
#define ROWF(id, name, native, ...) SG_ID(id, name, native)

/* clang-format off: the order is that of the numbers */
#include "exec/ops/integer.def"
#include "exec/ops/float.def"
#include "exec/ops/half.def"
#include "exec/ops/convert.def"
#include "exec/ops/rare.def"
#include "exec/ops/memory.def"
#include "exec/ops/atom.def"
#include "exec/ops/control.def"
#include "exec/ops/warp.def"
#include "exec/ops/mma.def"
#include "exec/ops/mma_rare.def"
#include "exec/wgmma/wgmma.def"
#include "exec/tcgen05/tcgen05.def"
#include "exec/tcgen05/product.def"
#include "exec/ops/matrix.def"
#include "exec/ops/bulk.def"
#include "exec/tensor/tensor.def"
#include "exec/ops/cluster.def"
#include "exec/ops/texture.def"
#include "exec/ops/surface.def"
#include "exec/ops/graph.def"
#include "exec/cdp/launch.def"
#include "exec/cdp/memory.def"
#include "exec/cdp/query.def"
/* clang-format on */

#include "exec/table/undef.h"
#undef SG_ID
