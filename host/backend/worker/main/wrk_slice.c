/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RESET_ON_FORK 1u /* SCHED_FLAG_RESET_ON_FORK */

bool wrk_slice_short(void)
{
    struct wrk_sched_attr a = {.size = sizeof(a)};

    if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) ||
        (a.policy != SCHED_OTHER && a.policy != SCHED_BATCH))
        return false;
    a.flags &= RESET_ON_FORK;
    a.runtime = WRK_SLICE_NS;
    return !syscall(SYS_sched_setattr, 0, &a, 0);
}
