/* SPDX-License-Identifier: MIT */
/*
 * Unit tests of external semaphores. DRM objects are a stand-in here: render node, ioctl and the
 * name of the descriptor are replaced, so what libdrm asks of the kernel is tested where there is
 * no GPU.
 */
#define _GNU_SOURCE
#include "extsem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the stand-in for DRM ---------------------------------------------------------------------- */

static int syncobj_fd = -1; /* the descriptor that is named as one */
static const char *fd_name; /* ... and how */
static int nodes;           /* render nodes that there are: the last one takes objects */
static bool timelines;      /* ... and knows timelines */
static bool set, alive;
static uint64_t point;
static int fail_with;
static bool libdrm; /* is installed */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int ioctl(int fd, unsigned long request, ...);
void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
int __real_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms);
ssize_t __real_readlink(const char *path, char *to, size_t size);
ssize_t __wrap_readlink(const char *path, char *to, size_t size);

int __wrap_open(const char *path, int flags, ...)
{
    unsigned n;

    if (sscanf(path, "/dev/dri/renderD%u", &n) != 1)
        return __real_open(path, flags);
    if ((int)n - 128 >= nodes) {
        errno = ENOENT;
        return -1;
    }
    return __real_open((int)n - 128 == nodes - 1 ? "/dev/zero" : "/dev/null", O_RDWR);
}

ssize_t __wrap_readlink(const char *path, char *to, size_t size)
{
    int fd;

    if (fd_name != NULL && sscanf(path, "/proc/self/fd/%d", &fd) == 1 && fd == syncobj_fd) {
        size_t n = strlen(fd_name) < size ? strlen(fd_name) : size;

        memcpy(to, fd_name, n);
        return (ssize_t)n;
    }
    return __real_readlink(path, to, size);
}

static uint64_t word(uint64_t address)
{
    return *(const uint64_t *)(uintptr_t)address;
}

static int answer(unsigned number, void *arg)
{
    uint64_t *words = arg;

    switch (number) {
    case 0x0c: /* GET_CAP */
        assert_int_equal(words[0], 0x14);
        words[1] = timelines;
        return 0;
    case 0xc0: /* DESTROY */
        alive = false;
        return 0;
    case 0xc2: /* FD_TO_HANDLE */
        assert_int_equal(((int32_t *)arg)[2], syncobj_fd);
        ((uint32_t *)arg)[0] = 17;
        return 0;
    case 0xc3: /* WAIT */
        return set ? 0 : ETIME;
    case 0xc4: /* RESET */
        set = false;
        return 0;
    case 0xc5: /* SIGNAL */
        set = true;
        return 0;
    case 0xca: /* TIMELINE_WAIT */
        return point >= word(words[1]) ? 0 : ETIME;
    case 0xcb: /* QUERY */
        *(uint64_t *)(uintptr_t)words[1] = point;
        return 0;
    case 0xcd: /* TIMELINE_SIGNAL */
        point = word(words[1]);
        return 0;
    default:
        return ENOTTY;
    }
}

/* libdrm's, too. */
int ioctl(int fd, unsigned long request, ...)
{
    char name[20] = "";
    char path[40];
    va_list ap;

    va_start(ap, request);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (__real_readlink(path, name, sizeof(name) - 1) < 0 || strcmp(name, "/dev/zero") != 0)
        errno = ENOTTY; /* a device without such objects */
    else if (fail_with != 0)
        errno = fail_with;
    else
        errno = answer(request & 0xff, arg);
    return errno == 0 ? 0 : -1;
}

void *__wrap_dlopen(const char *name, int flags)
{
    assert_string_equal(name, "libdrm.so.2");
    return libdrm ? __real_dlopen(name, flags) : NULL;
}

static int new_syncobj(void)
{
    fd_name = "anon_inode:syncobj_file";
    syncobj_fd = __real_open("/dev/null", O_RDWR);
    set = false;
    alive = true;
    point = 0;
    fail_with = 0;
    nodes = 2;
    timelines = true;
    return syncobj_fd;
}

/* The first test: what was loaded stays. */
static void test_without_libdrm(void **state)
{
    struct vgp_extsem *s;
    const char *why;
    int fd = new_syncobj();

    (void)state;
    assert_int_equal(vgp_extsem_import(fd, false, &s, &why), -EOPNOTSUPP);
    assert_non_null(strstr(why, "libdrm.so.2"));
    assert_int_not_equal(fcntl(fd, F_GETFD), -1); /* the caller's still */
    libdrm = true;                                /* it is installed meanwhile */
    assert_int_equal(vgp_extsem_import(fd, false, &s, &why), 0);
    vgp_extsem_put(s);
}

static void test_syncobj(void **state)
{
    struct vgp_extsem *s;
    const char *why;
    int fd = new_syncobj();

    (void)state;
    assert_int_equal(vgp_extsem_import(fd, false, &s, &why), 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_true(vgp_extsem_can_signal(s));
    assert_int_equal(vgp_extsem_wait(s, 0, 0), 0);
    assert_int_equal(vgp_extsem_signal(s, 0), 0);
    assert_int_equal(vgp_extsem_wait(s, 0, 0), 1);
    assert_false(set); /* the wait took it */
    fail_with = ENODEV;
    assert_int_equal(vgp_extsem_wait(s, 0, 0), -ENODEV);
    assert_int_equal(vgp_extsem_signal(s, 0), -ENODEV);
    fail_with = 0;
    vgp_extsem_get(s);
    vgp_extsem_put(s);
    assert_true(alive);
    vgp_extsem_put(s);
    assert_false(alive);
}

static void test_syncobj_timeline(void **state)
{
    struct vgp_extsem *s;
    const char *why;

    (void)state;
    assert_int_equal(vgp_extsem_import(new_syncobj(), true, &s, &why), 0);
    assert_int_equal(vgp_extsem_wait(s, 0, 0), 1);
    assert_int_equal(vgp_extsem_wait(s, 3, 0), 0);
    assert_int_equal(vgp_extsem_signal(s, 3), 0);
    assert_int_equal(vgp_extsem_wait(s, 3, 0), 1);
    assert_int_equal(vgp_extsem_wait(s, 2, 0), 1);
    assert_int_equal(vgp_extsem_signal(s, 2), 1); /* it does not go back */
    assert_int_equal(point, 3);
    vgp_extsem_put(s);
}

static void test_syncobj_refused(void **state)
{
    struct vgp_extsem *s;
    const char *why;
    int fd = new_syncobj();

    (void)state;
    nodes = 0;
    assert_int_equal(vgp_extsem_import(fd, false, &s, &why), -EOPNOTSUPP);
    nodes = 1;
    timelines = false;
    assert_int_equal(vgp_extsem_import(fd, true, &s, &why), -EOPNOTSUPP);
    fail_with = EINVAL;
    assert_int_equal(vgp_extsem_import(fd, false, &s, &why), -EOPNOTSUPP);
    assert_true(strlen(why) > 0);
    assert_int_not_equal(fcntl(fd, F_GETFD), -1); /* the caller's still */
    close(fd);
}

/* Its readiness is all that is known of it: a pipe that is named as one. */
static void test_fence(void **state)
{
    struct vgp_extsem *s;
    const char *why;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    syncobj_fd = ends[0];
    fd_name = "anon_inode:sync_file";
    assert_int_equal(vgp_extsem_import(ends[0], true, &s, &why), -EINVAL);
    assert_int_equal(vgp_extsem_import(ends[0], false, &s, &why), 0);
    assert_false(vgp_extsem_can_signal(s));
    assert_int_equal(vgp_extsem_signal(s, 0), -EOPNOTSUPP);
    assert_int_equal(vgp_extsem_wait(s, 0, 0), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(vgp_extsem_wait(s, 0, 1000), 1);
    assert_int_equal(vgp_extsem_wait(s, 0, 0), 1); /* for ever */
    vgp_extsem_put(s);
    close(ends[1]);
    fd_name = NULL;
}

/* ---- what every Linux has ---------------------------------------------------------------------- */

static void test_event(void **state)
{
    struct vgp_extsem *s, *counting;
    const char *why;
    eventfd_t n = 0;
    int fd = eventfd(0, 0), mine = dup(fd); /* one that blocks */

    (void)state;
    fd_name = NULL;
    assert_int_equal(vgp_extsem_import(fd, false, &s, &why), 0);
    assert_int_equal(vgp_extsem_wait(s, 0, 0), 0);
    assert_int_equal(vgp_extsem_signal(s, 0), 0);
    assert_int_equal(vgp_extsem_signal(s, 0), 0);
    assert_int_equal(vgp_extsem_wait(s, 0, 0), 1);
    assert_int_equal(vgp_extsem_wait(s, 0, 0), 0); /* set twice, reset at once */
    assert_int_equal(eventfd_write(mine, UINT64_MAX - 1), 0);
    assert_int_equal(vgp_extsem_signal(s, 0), 0); /* full, and does not block */
    assert_int_equal(eventfd_read(mine, &n), 0);
    assert_true(n == UINT64_MAX - 1);
    vgp_extsem_put(s);
    close(mine);
    assert_int_equal(vgp_extsem_import(eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK), false, &counting, &why), 0);
    assert_int_equal(vgp_extsem_signal(counting, 0), 0);
    assert_int_equal(vgp_extsem_signal(counting, 0), 0);
    assert_int_equal(vgp_extsem_wait(counting, 0, 0), 1);
    assert_int_equal(vgp_extsem_wait(counting, 0, 0), 1);
    assert_int_equal(vgp_extsem_wait(counting, 0, 0), 0);
    vgp_extsem_put(counting);
}

static int fill_after_poll =
    -1; /* an eventfd that another holder fills as soon as it was found to have room */

int __wrap_poll(struct pollfd *p, nfds_t n, int ms)
{
    int rc = __real_poll(p, n, ms);

    if (fill_after_poll >= 0 && p->events == POLLOUT)
        assert_int_equal(eventfd_write(fill_after_poll, UINT64_MAX - 1), 0);
    fill_after_poll = -1;
    return rc;
}

/* A signal does not block, whatever others do with the eventfd, and comes when there is room. */
static void test_event_filled(void **state)
{
    struct vgp_extsem *s;
    const char *why;
    eventfd_t n = 0;
    int fd = eventfd(0, 0), mine = dup(fd), status;
    pid_t pid;

    (void)state;
    fd_name = NULL;
    assert_int_equal(vgp_extsem_import(fd, false, &s, &why), 0);
    pid = fork();
    if (pid == 0) {
        alarm(20); /* ends one that hangs */
        fill_after_poll = mine;
        if (vgp_extsem_signal(s, 0) != 0 || vgp_extsem_signal(s, 0) != 0)
            _exit(1);
        if (eventfd_read(mine, &n) != 0 || n != UINT64_MAX - 1)
            _exit(2);
        _exit(vgp_extsem_wait(s, 0, 10000) == 1 ? 0 : 3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    vgp_extsem_put(s);
    close(mine);
}

static int counter(size_t size, int seals)
{
    struct vgp_extsem_page page = {.magic = VGP_EXTSEM_MAGIC, .version = 1};
    int fd = memfd_create("test", MFD_ALLOW_SEALING);

    assert_int_equal(pwrite(fd, &page, sizeof(page), 0), (ssize_t)sizeof(page));
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void test_counter(void **state)
{
    struct vgp_extsem *s;
    const char *why;
    int fd = counter(4096, F_SEAL_SHRINK), other = dup(fd), status;
    struct vgp_extsem *again;
    pid_t pid;

    (void)state;
    assert_int_equal(vgp_extsem_import(fd, true, &s, &why), 0);
    assert_int_equal(vgp_extsem_wait(s, 5, 10), 0);
    assert_int_equal(vgp_extsem_signal(s, 4), 0);
    assert_int_equal(vgp_extsem_wait(s, 5, 0), 0);
    assert_int_equal(vgp_extsem_signal(s, 4), 1);
    pid = fork(); /* another process signals, while this one sleeps */
    if (pid == 0) {
        _exit(vgp_extsem_import(other, true, &again, &why) == 0 && vgp_extsem_signal(again, UINT64_MAX) == 0
                  ? 0
                  : 1);
    }
    assert_int_equal(vgp_extsem_wait(s, 5, 60000), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(vgp_extsem_wait(s, UINT64_MAX, 0), 1);
    vgp_extsem_put(s);
    close(other);
}

static void refused(int fd, bool timeline, int want)
{
    struct vgp_extsem *s = NULL;
    const char *why = NULL;

    assert_int_equal(vgp_extsem_import(fd, timeline, &s, &why), want);
    assert_non_null(why);
    assert_null(s);
    if (want != -EBADF) {
        assert_int_not_equal(fcntl(fd, F_GETFD), -1);
        close(fd);
    }
}

static void test_refused(void **state)
{
    struct vgp_extsem_page page = {.magic = VGP_EXTSEM_MAGIC, .version = 2};
    int fd = counter(64, F_SEAL_SHRINK);

    (void)state;
    refused(-1, false, -EBADF);
    refused(1 << 20, true, -EBADF);
    refused(eventfd(0, 0), true, -EINVAL);
    refused(__real_open("/dev/null", O_RDWR), false, -EINVAL);
    refused(__real_open("/dev/null", O_RDWR), true, -EINVAL);
    refused(counter(64, F_SEAL_SHRINK), false, -EINVAL);
    refused(counter(64, F_SEAL_GROW), true, -EINVAL);
    refused(counter(63, F_SEAL_SHRINK), true, -EINVAL);
    refused(counter(0, F_SEAL_SHRINK), true, -EINVAL);
    refused(counter(64, F_SEAL_SHRINK | F_SEAL_WRITE), true, -EPERM);
    assert_int_equal(pwrite(fd, &page, sizeof(page), 0), (ssize_t)sizeof(page));
    refused(fd, true, -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_libdrm),
        cmocka_unit_test(test_syncobj),
        cmocka_unit_test(test_syncobj_timeline),
        cmocka_unit_test(test_syncobj_refused),
        cmocka_unit_test(test_fence),
        cmocka_unit_test(test_event),
        cmocka_unit_test(test_event_filled),
        cmocka_unit_test(test_counter),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests_name("vgp_extsem", tests, NULL, NULL);
}
