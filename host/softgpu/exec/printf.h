/* SPDX-License-Identifier: MIT */
/* printf and assert of device code. */
#ifndef SG_PRINTF_H
#define SG_PRINTF_H

#include "exec/core.h"

/* Handlers of calls to vprintf (d: result, a: format, b: argument buffer) and __assertfail
 * (d: message, a: file, b: line, c: function). */
int sg_vprintf(struct sg_warp *w, const struct sg_insn *in);
int sg_assertfail(struct sg_warp *w, const struct sg_insn *in);

#endif
