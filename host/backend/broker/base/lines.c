/* SPDX-License-Identifier: MIT */
/* Lines of the log that clients cause: each client has a rate of its own, so that a flood hides no other client's lines. */
#include "base.h"

struct vgb_ratelimit *brk_lines_of(struct brk_lines *l, int slot)
{
    struct vgb_ratelimit *part = &l->part[slot < 0 ? BRK_LINES_PARTS : (unsigned)slot % BRK_LINES_PARTS];

    l->whole.times = BRK_LINES_TIMES;
    part->whole = &l->whole;
    return part;
}
