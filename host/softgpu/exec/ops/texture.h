/* SPDX-License-Identifier: MIT */
/* Shared by the handlers of texture and surface instructions. */
#ifndef SG_EXEC_TEX_H
#define SG_EXEC_TEX_H

#include "exec/ops/handler.h"
#include "exec/code.h"
#include "exec/fetch.h"

#define SG_EACH_LANE(m) for (u32 m_ = (m), i; m_ && (i = (u32)__builtin_ctz(m_), 1); m_ &= m_ - 1)

/* The object behind a handle, or NULL with the fault recorded. Handles are looked up, not
   dereferenced. */
const struct sg_texture *sg_tex_of(struct sg_warp *w, const struct sg_insn *in, u32 lane, u64 handle,
                                   bool surface);
/* The same without recording a fault (istypep). */
const struct sg_texture *sg_tex_peek(struct sg_warp *w, u64 handle, bool surface);

#endif
