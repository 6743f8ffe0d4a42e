/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "vgb_fd.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t vgb_send_fds(int sock, const void *data, size_t size, const int *fds, unsigned nfds, int flags)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    union {
        char buf[CMSG_SPACE(sizeof(int) * VGB_FD_MAX)];
        struct cmsghdr align;
    } ctl;
    struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (nfds > VGB_FD_MAX)
        return -EINVAL;
    if (nfds) {
        memset(&ctl, 0, sizeof(ctl));
        mh.msg_control = ctl.buf;
        mh.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
    }
    do {
        n = sendmsg(sock, &mh, flags | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static void just_close(int fd)
{
    close(fd);
}

void (*vgb_close_received)(int fd) = just_close;

/* Takes the descriptors out of a received message; false if there were more than `room`. */
static bool collect_fds(struct msghdr *mh, int *fds, unsigned room, unsigned *got)
{
    bool fits = true;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (*got < room) {
                fds[(*got)++] = fd;
            } else {
                vgb_close_received(fd);
                fits = false;
            }
        }
    }
    return fits;
}

ssize_t vgb_recv_fds(int sock, void *data, size_t size, int *fds, unsigned *nfds, int flags)
{
    struct iovec iov = {.iov_base = data, .iov_len = size};
    union {
        char buf[CMSG_SPACE(sizeof(int) * VGB_FD_MAX)];
        struct cmsghdr align;
    } ctl;
    struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
    unsigned room = *nfds, got = 0;
    ssize_t n;

    if (room) {
        mh.msg_control = ctl.buf;
        mh.msg_controllen = sizeof(ctl.buf);
    }
    *nfds = 0;
    do {
        n = recvmsg(sock, &mh, flags | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    bool fits = !room || collect_fds(&mh, fds, room, &got);
    if (!fits || (mh.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) {
        for (unsigned i = 0; i < got; i++)
            vgb_close_received(fds[i]);
        return -EPROTO;
    }
    *nfds = got;
    return n;
}

void vgb_close_all(const int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
}

void vgb_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void vgb_eventfd_signal(int fd)
{
    uint64_t one = 1;
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    /* Do not block on the full counter of a blocking eventfd: the reader sees it anyway. */
    if (poll(&p, 1, 0) == 1 && write(fd, &one, sizeof(one)) < 0)
        return;
}

void vgb_eventfd_clear(int fd)
{
    uint64_t n;
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (poll(&p, 1, 0) == 1 && read(fd, &n, sizeof(n)) < 0)
        return;
}

bool vgb_set_nonblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

bool vgb_exe_dir(char *buf, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", buf, size);

    if (n <= 0 || (size_t)n >= size)
        return false;
    buf[n] = '\0';
    char *slash = strrchr(buf, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}

uint32_t vgb_fd_page_size(int fd)
{
    struct statfs s;

    if (fstatfs(fd, &s) || s.f_type != HUGETLBFS_MAGIC || s.f_bsize < 4096 || s.f_bsize > 1 << 30)
        return 4096;
    return (uint32_t)s.f_bsize;
}
