/* SPDX-License-Identifier: MIT */
/*
 * Inherited sockets: --fd N, and the descriptors of socket activation (sd_listen_fds(3):
 * LISTEN_PID, LISTEN_FDS; they start at 3). The socket type determines its use: SOCK_STREAM for
 * QEMU (vhost-user), SOCK_SEQPACKET for programs of this host.
 */
#define _GNU_SOURCE
#include "main.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "vgb_fd.h"

#define ACTIVATION_FIRST 3
#define ACTIVATION_MAX 16ul

static int socket_option(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) ? -1 : value;
}

/* Path where it listens or was connected to: QEMU's end of the two. */
static void remember_path(struct brk_options *o, int fd, bool preferred)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t size = sizeof(a);

    if ((o->inherited[0] && !preferred) || getsockname(fd, (struct sockaddr *)&a, &size) ||
        size <= offsetof(struct sockaddr_un, sun_path) || a.sun_path[0] != '/')
        return;
    snprintf(o->inherited, sizeof(o->inherited), "%.*s", (int)sizeof(a.sun_path), a.sun_path);
    for (char *p = o->inherited; *p; p++)
        *p = (char)(isgraph((unsigned char)*p) ? *p : '?'); /* a single word of the status */
}

const char *brk_inherit(struct brk_options *o, int fd)
{
    const int type = socket_option(fd, SO_TYPE);
    const bool listening = socket_option(fd, SO_ACCEPTCONN) == 1;

    if (type < 0 || socket_option(fd, SO_DOMAIN) != AF_UNIX)
        return "not a unix socket";
    if (type == SOCK_SEQPACKET) {
        if (!listening)
            return "a SOCK_SEQPACKET socket must be a listening one";
        if (o->listen_fd >= 0)
            return "there is a SOCK_SEQPACKET socket already";
        o->listen_fd = fd;
    } else if (type == SOCK_STREAM) {
        if (o->vhost_fd >= 0)
            return "there is a SOCK_STREAM socket already";
        o->vhost_fd = fd;
        o->vhost_connected = !listening;
    } else {
        return "neither a SOCK_STREAM nor a SOCK_SEQPACKET socket";
    }
    remember_path(o, fd, type == SOCK_STREAM);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    vgb_set_nonblock(fd);
    return NULL;
}

/* A decimal number and nothing else, or -1. */
static long inherit_number(const char *text)
{
    char *end;
    long n;

    if (!text || *text < '0' || *text > '9')
        return -1;
    n = strtol(text, &end, 10);
    return *end ? -1 : n;
}

int brk_inherit_activation(struct brk_options *o)
{
    const long pid = inherit_number(getenv("LISTEN_PID")), n = inherit_number(getenv("LISTEN_FDS"));
    const bool ours = pid == (long)getpid();

    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (!ours || !n)
        return -1;
    if (n < 0 || n > (long)ACTIVATION_MAX) {
        fprintf(stderr, "vgpu-backend: LISTEN_FDS is not a number from 0 to %lu\n", ACTIVATION_MAX);
        return BRK_EXIT_USAGE;
    }
    for (int fd = ACTIVATION_FIRST; fd < ACTIVATION_FIRST + (int)n; fd++) {
        const char *wrong = brk_inherit(o, fd);

        if (wrong) {
            fprintf(stderr, "vgpu-backend: descriptor %d of the socket unit: %s\n", fd, wrong);
            return BRK_EXIT_USAGE;
        }
    }
    return -1;
}

void brk_inherit_close_on_exec(void)
{
    DIR *d = opendir("/proc/self/fd");
    struct dirent *e;

    while (d && (e = readdir(d))) {
        const long fd = inherit_number(e->d_name);

        if (fd > 2)
            fcntl((int)fd, F_SETFD, FD_CLOEXEC);
    }
    if (d)
        closedir(d);
}
