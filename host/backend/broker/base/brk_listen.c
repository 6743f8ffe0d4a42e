/* SPDX-License-Identifier: MIT */
/* Listening unix sockets. */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static bool is_socket(const char *path)
{
    struct stat st;

    return !lstat(path, &st) && S_ISSOCK(st.st_mode);
}

/*
 * The process that called listen(2), as a descriptor, or -errno; -ESRCH: it has ended, and its parent has waited for
 * it. Before Linux 6.5 it is found by its number, which another process may have by now, and a process of another
 * namespace of processes has none.
 */
static int listener_open(int connected)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    int fd;

    if (!getsockopt(connected, SOL_SOCKET, SO_PEERPIDFD, &fd, &(socklen_t){sizeof(fd)}))
        return fd;
    if (errno == ESRCH)
        return -ESRCH;
    if (getsockopt(connected, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.pid <= 0)
        return -ENODATA;
    fd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
    return fd < 0 ? -errno : fd;
}

/*
 * True if the process that called listen(2) has ended. After a SIGKILL of a broker, a child of it that a
 * system call keeps (brk_thread.c) still has the descriptors: connect(2) succeeds, and nothing accepts.
 */
static bool listener_has_ended(int connected)
{
    struct pollfd p = {.fd = listener_open(connected), .events = POLLIN};
    bool ended;

    if (p.fd < 0)
        return p.fd == -ESRCH;
    ended = poll(&p, 1, 0) == 1; /* also while its parent has not waited for it */
    close(p.fd);
    return ended;
}

/* True if the socket's file is left over from an earlier broker. A listener need not accept. */
static bool is_left_over(const char *path, int probe, const struct sockaddr_un *a)
{
    const bool connected = !connect(probe, (const struct sockaddr *)a, sizeof(*a));

    /* Of a file that is no socket, and of a link to one, the kernel says the same: it is not ours to remove. */
    return (connected ? listener_has_ended(probe) : errno == ECONNREFUSED) && is_socket(path);
}

int brk_listen_unix(const char *path, int type, mode_t mode)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd, probe;

    if (strlen(path) >= sizeof(a.sun_path))
        return -ENAMETOOLONG;
    memcpy(a.sun_path, path, strlen(path) + 1);
    probe = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return -errno;
    if (is_left_over(path, probe, &a))
        unlink(path);
    close(probe);
    fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    /* Mode set by bind(2): chmod(2) of the path could follow a link that replaced the socket. */
    mode_t old = umask(~mode & 0777);
    int r = bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, BRK_LISTEN_QUEUE) ? -errno : 0;
    umask(old);
    if (r) {
        close(fd);
        return r;
    }
    return fd;
}
