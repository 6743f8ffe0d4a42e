/* SPDX-License-Identifier: MIT */
/*
 * Folder with its own in-memory file system, whose size the kernel enforces. It is mounted nowhere:
 * it is reachable only through its descriptor and vanishes with the last descriptor. Creating it
 * requires the right to mount: root's, or that of a user namespace, which a child process enters.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgb_fd.h"

/* Linux 5.2; in glibc since 2.36. */
#define CONTEXT_CLOEXEC 1u
#define SET_STRING 1u
#define CREATE 6u
#define MOUNT_CLOEXEC 1u
#define NOSUID_NODEV_NOEXEC 0xeu
#ifndef SYS_fsopen
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#endif

/* An O_PATH descriptor, or -1 and errno. */
static int mount_detached(uint64_t bytes, unsigned entries)
{
    char size[24], inodes[16];
    int fs = (int)syscall(SYS_fsopen, "tmpfs", CONTEXT_CLOEXEC), fd = -1;

    if (fs < 0)
        return -1;
    snprintf(size, sizeof(size), "%llu", (unsigned long long)bytes);
    snprintf(inodes, sizeof(inodes), "%u", entries);
    if (!syscall(SYS_fsconfig, fs, SET_STRING, "size", size, 0) &&
        !syscall(SYS_fsconfig, fs, SET_STRING, "nr_inodes", inodes, 0) &&
        !syscall(SYS_fsconfig, fs, SET_STRING, "mode", "700", 0) &&
        !syscall(SYS_fsconfig, fs, CREATE, NULL, NULL, 0))
        fd = (int)syscall(SYS_fsmount, fs, MOUNT_CLOEXEC, NOSUID_NODEV_NOEXEC);
    close(fs);
    return fd;
}

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    size_t n = strlen(text);
    bool ok = fd >= 0 && write(fd, text, n) == (ssize_t)n;

    if (fd >= 0)
        close(fd);
    return ok;
}

/* Enters a new user namespace that maps this user only. */
static int mount_as_user(uint64_t bytes, unsigned entries)
{
    char uid[64], gid[64];
    int fd = -1;

    snprintf(uid, sizeof(uid), "%u %u 1", geteuid(), geteuid());
    snprintf(gid, sizeof(gid), "%u %u 1", getegid(), getegid());
    /* otherwise the files under /proc/self belong to root */
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (!unshare(CLONE_NEWUSER | CLONE_NEWNS)) {
        write_file("/proc/self/setgroups", "deny");
        if (write_file("/proc/self/uid_map", uid) && write_file("/proc/self/gid_map", gid))
            fd = mount_detached(bytes, entries);
    }
    return fd;
}

/* The same in a child, to keep this process's own namespaces. */
static int mount_by_child(uint64_t bytes, unsigned entries)
{
    int pair[2], fd = -1, error = EIO;
    unsigned n = 1;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return -1;
    child = fork();
    if (child == 0) {
        fd = mount_as_user(bytes, entries);
        error = errno;
        _exit(vgb_send_fds(pair[1], &error, sizeof(error), &fd, fd >= 0, 0) < 0);
    }
    close(pair[1]);
    if (child < 0 || vgb_recv_fds(pair[0], &error, sizeof(error), &fd, &n, 0) != sizeof(error))
        n = 0;
    close(pair[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    errno = error;
    return n ? fd : -1;
}

int brk_bounded_folder(uint64_t bytes, unsigned entries)
{
    int mounted = mount_detached(bytes, entries), fd, e;

    if (mounted < 0)
        mounted = mount_by_child(bytes, entries);
    if (mounted < 0)
        return -1;
    fd = openat(mounted, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    e = errno;
    close(mounted);
    errno = e;
    return fd;
}
