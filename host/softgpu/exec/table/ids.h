/* SPDX-License-Identifier: MIT */
/* SG_ID(id) for each operation, in the order of their numbers. No guard; ends SG_ID. */
#include "exec/table/undef.h"

#define OP1(id, ...) SG_ID(id)
#define OP2(id, ...) SG_ID(id)
#define OP3(id, ...) SG_ID(id)
#define OP1_CLEAN(id, ...) SG_ID(id)
#define OP2_CLEAN(id, ...) SG_ID(id)
#define CMP(id, ...) SG_ID(id)
#define TEST(id, ...) SG_ID(id)
#define LIBM(id, ...) SG_ID(id)
#define HALF(id, ...) SG_ID(id)
#define HALF_SIGN(id, ...) SG_ID(id)
#define HALF_CMP(id, ...) SG_ID(id)
#define CARRY(id, ...) SG_ID(id)
#define CARRY_SAT(id, ...) SG_ID(id)
#define SIMD(id, ...) SG_ID(id)
#define CVT_SAT(id, ...) SG_ID(id)
#define CVT_INT(id, ...) SG_ID(id)
#define CVT_FF(id, ...) SG_ID(id)
#define LD_G(id, ...) SG_ID(id)
#define LD_S(id, ...) SG_ID(id)
#define LD_L(id, ...) SG_ID(id)
#define LD_P(id, ...) SG_ID(id)
#define ST_G(id, ...) SG_ID(id)
#define ST_S(id, ...) SG_ID(id)
#define ST_L(id, ...) SG_ID(id)
#define LD_GV(id, ...) SG_ID(id)
#define LD_SV(id, ...) SG_ID(id)
#define ST_GV(id, ...) SG_ID(id)
#define ST_SV(id, ...) SG_ID(id)
#define ATOM(id, ...) SG_ID(id)
#define ATOM16(id, ...) SG_ID(id)
#define FETCH(id, ...) SG_ID(id)
#define EXCH(id, ...) SG_ID(id)
#define CAS(id, ...) SG_ID(id)
#define ROW(id, ...) SG_ID(id)
#define ROWE(id, ...) SG_ID(id)
#define ROWR(id, ...) SG_ID(id)
#define ROWF(id, ...) SG_ID(id)

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
#include "exec/ops/matrix.def"
#include "exec/ops/bulk.def"
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
