/* SPDX-License-Identifier: MIT */
/* For tests: a function in a child that is in a worker's sandbox. */
#ifndef WRK_IN_SANDBOX_H
#define WRK_IN_SANDBOX_H

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confine.h"

/*
 * Runs fn in a child in such a sandbox: its return value, or minus the signal that ended it. start: what the provider's
 * library does before a client is served, or NULL; 98 when it does not return 0.
 */
static int in_sandbox_with(struct wrk_sandbox s, bool soft, int (*start)(void), int (*fn)(void))
{
    int status, r;
    pid_t pid = fork();

    if (!pid) {
        char err[300];

        s.broker = getpid();
        if (wrk_sandbox_begin(&s, err, sizeof(err))) {
            fprintf(stderr, "%s\n", err);
            _exit(99);
        }
        r = start ? start() : 0;
        if (r) {
            fprintf(stderr, "step %d of the start failed: %s\n", r, strerror(errno));
            syscall(SYS_exit_group, 98);
        }
        if (wrk_sandbox_narrow(&s, soft, err, sizeof(err))) {
            fprintf(stderr, "%s\n", err);
            _exit(99);
        }
        syscall(SYS_exit_group, fn());
    }
    if (waitpid(pid, &status, 0) != pid)
        return -1000;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

#endif
