/* SPDX-License-Identifier: MIT */
/* What workers write to their standard output and error, on the broker's log: one pipe for all, a line at a time. */
#define _GNU_SOURCE
#include "workers.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static struct brk_source log_pipe;
static struct vgb_ratelimit log_limit;

static void on_log(struct brk_source *s, uint32_t events)
{
    static char buf[1024];
    static size_t have;
    ssize_t n = read(s->fd, buf + have, sizeof(buf) - 1 - have);
    char *nl;

    (void)events;
    if (n <= 0)
        return;
    have += (size_t)n;
    while ((nl = memchr(buf, '\n', have)) || have == sizeof(buf) - 1) {
        size_t len = nl ? (size_t)(nl - buf) : have;

        buf[len] = '\0';
        vgb_log_foreign(&log_limit, buf);
        len += nl != NULL;
        memmove(buf, buf + len, have - len);
        have -= len;
    }
}

int brk_worker_output(void)
{
    int p[2];

    if (pipe2(p, O_CLOEXEC | O_NONBLOCK))
        return -1;
    log_pipe.fd = p[0];
    log_pipe.ready = on_log;
    if (brk_loop_add(&log_pipe, EPOLLIN)) { /* workers would block when the pipe is full */
        vgb_log(VGB_ERROR, "cannot wait on the workers' output");
        close(p[0]);
        close(p[1]);
        return -1;
    }
    return p[1];
}
