/* SPDX-License-Identifier: MIT */
/*
 * Copies a worker's standard output and error to the broker's log, line by line. Each worker has
 * its own pipe: a compromised worker could open a shared pipe for reading through /proc/self/fd,
 * steal lines of other workers, and insert text into them.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "vgb_fd.h"

#define LAST_READS 64u /* final reads of an ended worker: the pipe's 64 KiB */

#define PROC_OF_OUTPUT(s) ((struct brk_proc *)((char *)(s)-offsetof(struct brk_proc, output)))

static struct brk_lines lines;

/* Callbacks of its user; NULL: no client. */
static const struct brk_pool_users *proc_users(const struct brk_proc *p)
{
    return p && p->client ? p->users : NULL;
}

int brk_proc_slot(const struct brk_proc *p)
{
    const struct brk_pool_users *users = proc_users(p);

    return users && users->slot ? (int)users->slot(p->client) : -1;
}

int brk_proc_lines(const struct brk_proc *p)
{
    const struct brk_pool_users *users = proc_users(p);

    return users && users->lines ? users->lines(p->client) : -1;
}

static void output_say(struct brk_proc *p, size_t length)
{
    int slot = brk_proc_slot(p);

    p->line[length] = '\0';
    vgb_log_foreign(brk_lines_of(&lines, brk_proc_lines(p)), "worker", slot, p->line);
}

/* False: no data now, or end of file. */
static bool read_some(struct brk_proc *p)
{
    ssize_t n = read(p->output.fd, p->line + p->line_size, sizeof(p->line) - 1 - p->line_size);
    char *nl;

    if (n <= 0)
        return false;
    p->line_size += (size_t)n;
    while ((nl = memchr(p->line, '\n', p->line_size)) || p->line_size == sizeof(p->line) - 1) {
        size_t len = nl ? (size_t)(nl - p->line) : p->line_size;

        output_say(p, len);
        len += nl != NULL;
        memmove(p->line, p->line + len, p->line_size - len);
        p->line_size -= len;
    }
    return true;
}

static void on_output(struct brk_source *s, uint32_t events)
{
    struct brk_proc *p = PROC_OF_OUTPUT(s);

    /* the worker closed its end, but may still run */
    if (!read_some(p) && events & (EPOLLHUP | EPOLLERR))
        brk_output_close(p);
}

int brk_output_open(struct brk_proc *p)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) /* workers must not block on the broker */
        return -1;
    p->output.fd = ends[0];
    p->output.ready = on_output;
    if (!brk_loop_add(&p->output, EPOLLIN))
        return ends[1];
    close(ends[1]);
    vgb_close(&p->output.fd);
    return -1;
}

void brk_output_close(struct brk_proc *p)
{
    unsigned reads = LAST_READS;

    if (p->output.fd < 0)
        return;
    while (reads-- && read_some(p))
        ;
    if (p->line_size) { /* a last line without newline */
        output_say(p, p->line_size);
        p->line_size = 0;
    }
    brk_loop_del(&p->output);
    vgb_close(&p->output.fd);
}
