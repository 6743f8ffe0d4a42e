/* SPDX-License-Identifier: MIT */
/* A driver library whose cuInit follows FAKE_CUINIT: a number to return, "die", or "hang". For check.sh. */
#include <cuda.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

CUresult cuInit(unsigned flags)
{
    const char *what = getenv("FAKE_CUINIT");

    (void)flags;
    if (what && !strcmp(what, "die"))
        raise(SIGSEGV);
    while (what && !strcmp(what, "hang"))
        pause();
    return what ? (CUresult)atoi(what) : CUDA_ERROR_NO_DEVICE;
}
