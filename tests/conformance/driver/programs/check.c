/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <string.h>

void check_result(CUresult got, CUresult want, const char *call, int line)
{
    if (got == want)
        return;
    printf("FAIL: line %d: %s: %d, expected %d\n", line, call, got, want);
    exit(1);
}

void check_not_run(const char *why)
{
    printf("not run: %s: %s\n", why, strerror(errno));
    exit(77);
}
