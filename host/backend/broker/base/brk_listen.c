/* SPDX-License-Identifier: MIT */
/* Listening unix sockets. */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static bool is_socket(const char *path)
{
    struct stat st;

    return !lstat(path, &st) && S_ISSOCK(st.st_mode);
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
    /* A socket file without a listener is left over from an earlier broker. A listener need not
     * accept. */
    if (!connect(probe, (struct sockaddr *)&a, sizeof(a)) || errno == EAGAIN) {
        close(probe);
        return -EADDRINUSE;
    }
    /* Of any other file the kernel says the same: it is not ours to remove. */
    if (errno == ECONNREFUSED && is_socket(path))
        unlink(path);
    close(probe);
    fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    /* Mode set by bind(2): chmod(2) of the path could follow a link that replaced the socket. */
    mode_t old = umask(~mode & 0777);
    int r = bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 64) ? -errno : 0;
    umask(old);
    if (r) {
        close(fd);
        return r;
    }
    return fd;
}
