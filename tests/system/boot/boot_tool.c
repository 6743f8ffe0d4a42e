// SPDX-License-Identifier: MIT
/*
 * Checks in the guest that a shell cannot do. Each command prints a line: "ok", or the unexpected
 * result.
 *
 *   boot_tool insmod FILE   boot_tool rmmod     load and unload the driver
 *   boot_tool held          rmmod fails while this process has the device open
 *   boot_tool clients       two opens make two clients; wrong ioctl arguments fail
 *   boot_tool fork          a child cannot use its parent's client
 *   boot_tool many          opens clients until all slots are in use, twice
 *   boot_tool user COMMAND  runs COMMAND as nobody, with a memory lock limit of 1 MiB
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgpu_ioctl.h"

#define DEVICE "/dev/vgpu0"

static int say(const char *what, long rc)
{
    if (rc >= 0)
        printf("%s returns %ld\n", what, rc);
    else
        printf("%s: %s\n", what, strerrorname_np(errno));
    return 1;
}

#define WANT_OK(call) \
    do { \
        long rc_ = (call); \
        if (rc_ < 0) \
            return say(#call, rc_); \
    } while (0)
#define WANT(call, error) \
    do { \
        long rc_ = (call); \
        if (rc_ >= 0 || errno != (error)) \
            return say(#call " (want " #error ")", rc_); \
    } while (0)

static int insmod(const char *file)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    WANT_OK(fd);
    WANT_OK(syscall(SYS_finit_module, fd, "", 0));
    return 0;
}

static int rmmod(void)
{
    WANT_OK(syscall(SYS_delete_module, "vgpu_drv", O_NONBLOCK));
    return 0;
}

static int held(void)
{
    int fd = open(DEVICE, O_RDWR | O_CLOEXEC);
    WANT_OK(fd);
    /* The kernel returns EWOULDBLOCK for a module in use when asked not to wait. */
    long rc = syscall(SYS_delete_module, "vgpu_drv", O_NONBLOCK);
    if (rc >= 0 || (errno != EBUSY && errno != EWOULDBLOCK))
        return say("delete_module", rc);
    struct vgpu_query q = {0};
    WANT_OK(ioctl(fd, VGPU_IOCTL_QUERY, &q));
    return 0;
}

static int clients(void)
{
    struct vgpu_query q = {0}, bad_query = {.reserved = {0, 1, 0}};
    struct vgpu_create_client a = {0}, b = {0}, again = {0}, flags = {.flags = 1};
    struct vgpu_pin pin = {.addr = 1, .length = 4096};
    struct vgpu_unpin unpin = {.region = 12345};
    int x = open(DEVICE, O_RDWR | O_CLOEXEC), y = open(DEVICE, O_RDWR | O_CLOEXEC);

    WANT_OK(x);
    WANT_OK(y);
    WANT_OK(ioctl(x, VGPU_IOCTL_QUERY, &q));
    if (q.abi_version != VGPU_IOCTL_ABI_VERSION || !q.max_clients || !q.window_size)
        return say("query", 0);
    WANT(ioctl(x, VGPU_IOCTL_QUERY, &bad_query), EINVAL);
    WANT(ioctl(x, VGPU_IOCTL_CREATE_CLIENT, &flags), EINVAL);
    WANT(ioctl(x, VGPU_IOCTL_QUERY, NULL), EFAULT);
    WANT(ioctl(x, _IO(VGPU_IOCTL_MAGIC, 0x40), NULL), ENOTTY);
    WANT_OK(ioctl(x, VGPU_IOCTL_CREATE_CLIENT, &a));
    WANT_OK(ioctl(y, VGPU_IOCTL_CREATE_CLIENT, &b));
    if (a.slot == b.slot)
        return say("slots are equal", a.slot);
    WANT(ioctl(x, VGPU_IOCTL_CREATE_CLIENT, &again), EBUSY);
    WANT(ioctl(x, VGPU_IOCTL_PIN, &pin), EINVAL);
    WANT(ioctl(x, VGPU_IOCTL_UNPIN, &unpin), ENOENT);
    close(x);
    WANT_OK(ioctl(y, VGPU_IOCTL_QUERY, &q));
    return 0;
}

static int forked(void)
{
    struct vgpu_create_client a = {0};
    int fd = open(DEVICE, O_RDWR | O_CLOEXEC), status = 0;

    WANT_OK(fd);
    WANT_OK(ioctl(fd, VGPU_IOCTL_CREATE_CLIENT, &a));
    void *window = mmap(NULL, a.window_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)a.window_offset);
    void *bell = mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, (off_t)a.doorbell_offset);
    if (window == MAP_FAILED || bell == MAP_FAILED)
        return say("mmap", -1);
    pid_t pid = fork();
    if (pid == 0) {
        struct vgpu_pin pin = {.addr = 0x10000, .length = 4096};
        struct vgpu_wait wait_for = {.deadline_ns = 0};
        unsigned char present[1];
        int bad = 0;
        bad |= (ioctl(fd, VGPU_IOCTL_PIN, &pin) == 0 || errno != EPERM) << 0;
        bad |= (ioctl(fd, VGPU_IOCTL_WAIT, &wait_for) == 0 || errno != EPERM) << 1;
        void *again = mmap(NULL, a.window_size, PROT_READ, MAP_SHARED, fd, (off_t)a.window_offset);
        bad |= (again != MAP_FAILED) << 2;
        /* Not even mapped in the child. */
        bad |= (mincore(window, 4096, present) == 0 || errno != ENOMEM) << 3;
        bad |= (mincore(bell, 4096, present) == 0 || errno != ENOMEM) << 4;
        _exit(bad);
    }
    waitpid(pid, &status, 0);
    if (status)
        return say("child's wrong answers (a bit each), shifted by 8", status);
    return 0;
}

/* As many clients as the device supports, then ENOSPC; again after they are closed. */
static int many(void)
{
    struct vgpu_query q = {0};
    int fds[512], probe = open(DEVICE, O_RDWR | O_CLOEXEC);

    WANT_OK(probe);
    WANT_OK(ioctl(probe, VGPU_IOCTL_QUERY, &q));
    close(probe);
    for (int round = 0; round < 2; round++) {
        unsigned n = 0;
        for (; n < 512; n++) {
            struct vgpu_create_client a = {0};
            fds[n] = open(DEVICE, O_RDWR | O_CLOEXEC);
            WANT_OK(fds[n]);
            if (ioctl(fds[n], VGPU_IOCTL_CREATE_CLIENT, &a)) {
                if (errno != ENOSPC)
                    return say("create", -1);
                break;
            }
        }
        if (n != q.max_clients)
            return say("clients before ENOSPC", n);
        for (unsigned i = 0; i <= n && i < 512; i++)
            close(fds[i]);
    }
    return 0;
}

static int as_user(char **command)
{
    /* Ignored by the driver. */
    struct rlimit lock = {1 << 16, 1 << 16};

    WANT_OK(setrlimit(RLIMIT_MEMLOCK, &lock));
    WANT_OK(setgroups(0, NULL));
    WANT_OK(setgid(65534));
    WANT_OK(setuid(65534));
    execv(command[0], command);
    return say("execv", -1);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int bad;

    if (!strcmp(what, "insmod") && argc == 3)
        bad = insmod(argv[2]);
    else if (!strcmp(what, "rmmod"))
        bad = rmmod();
    else if (!strcmp(what, "held"))
        bad = held();
    else if (!strcmp(what, "clients"))
        bad = clients();
    else if (!strcmp(what, "fork"))
        bad = forked();
    else if (!strcmp(what, "many"))
        bad = many();
    else if (!strcmp(what, "user") && argc > 2)
        bad = as_user(argv + 2);
    else
        return 2;
    if (!bad)
        puts("ok");
    return bad;
}
