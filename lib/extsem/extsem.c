/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "extsem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "extsem_drm.h"
#include "../clock/clock.h"

enum kind {
    EVENT,   /* an eventfd: set when its counter is not 0 */
    FENCE,   /* a sync_file: readable when its fences are signalled, for ever */
    SYNCOBJ, /* a DRM synchronization object, imported into `device` */
    COUNTER, /* a memfd with a struct vgp_extsem_page */
};

struct vgp_extsem {
    _Atomic unsigned refs;
    enum kind kind;
    bool timeline;
    int fd; /* EVENT, FENCE; else -1 */
    int device;
    uint32_t handle;
    struct vgp_extsem_page *page;
    /* EVENT, under `writes`: */
    bool writing;    /* a thread is in write() */
    int write_error; /* result of the last write, -errno */
};

/* ---- classification of a descriptor
   ----------------------------------------------------------- */

/* The kernel's name for the open file, the only property that distinguishes all kinds. */
static bool name_of(int fd, char *name, size_t size)
{
    char path[40];
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    n = readlink(path, name, size - 1);
    if (n < 0)
        return false;
    name[n] = '\0';
    return true;
}

static int map_counter(int fd, struct vgp_extsem *s, const char **why)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    void *p;

    *why = "a memfd that is not sealed against shrinking";
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return -EINVAL;
    *why = "a memfd without a semaphore's page in it";
    if (fstat(fd, &st) != 0)
        return -errno;
    if (st.st_size < (off_t)sizeof(*s->page))
        return -EINVAL;
    p = mmap(NULL, sizeof(*s->page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        *why = "a memfd that cannot be mapped for writing";
        return -errno;
    }
    s->page = p;
    if (s->page->magic == VGP_EXTSEM_MAGIC && s->page->version == 1)
        return 0;
    munmap(p, sizeof(*s->page));
    return -EINVAL;
}

static int make_semaphore(int fd, struct vgp_extsem *s, const char **why)
{
    char name[80];

    *why = "/proc does not tell what the descriptor is";
    if (!name_of(fd, name, sizeof(name)))
        return -EOPNOTSUPP;
    if (strcmp(name, "anon_inode:syncobj_file") == 0) {
        s->kind = SYNCOBJ;
        return vgp_extsem_drm_import(fd, s->timeline, &s->device, &s->handle, why);
    }
    if (strncmp(name, "/memfd:", 7) == 0 && s->timeline) {
        s->kind = COUNTER;
        return map_counter(fd, s, why);
    }
    *why = s->timeline ? "the descriptor is no timeline semaphore (DRM syncobj, memfd with a counter)"
                       : "the descriptor is no binary semaphore (eventfd, sync_file, DRM syncobj)";
    if (s->timeline)
        return -EINVAL;
    if (strcmp(name, "anon_inode:[eventfd]") == 0)
        s->kind = EVENT;
    else if (strcmp(name, "anon_inode:sync_file") == 0)
        s->kind = FENCE;
    else
        return -EINVAL;
    /* A duplicate: the semaphore survives if the program closes the descriptor after the import. */
    *why = "no descriptor is left";
    s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return s->fd < 0 ? -errno : 0;
}

int vgp_extsem_import(int fd, bool timeline, struct vgp_extsem **out, const char **why)
{
    struct vgp_extsem *s;
    int rc;

    *why = "the descriptor is not open";
    if (fcntl(fd, F_GETFD) < 0)
        return -EBADF;
    *why = "no memory";
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return -ENOMEM;
    s->refs = 1;
    s->timeline = timeline;
    s->fd = s->device = -1;
    rc = make_semaphore(fd, s, why);
    if (rc != 0) {
        free(s);
        return rc;
    }
    close(fd);
    *out = s;
    return 0;
}

void vgp_extsem_get(struct vgp_extsem *s)
{
    atomic_fetch_add(&s->refs, 1);
}

void vgp_extsem_put(struct vgp_extsem *s)
{
    if (s == NULL || atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    if (s->fd >= 0)
        close(s->fd);
    if (s->kind == SYNCOBJ)
        vgp_extsem_drm_close(s->device, s->handle);
    if (s->page != NULL)
        munmap(s->page, sizeof(*s->page));
    free(s);
}

bool vgp_extsem_can_signal(const struct vgp_extsem *s)
{
    return s->kind != FENCE;
}

/* ---- signals ----------------------------------------------------------------------------------- */

static int raise_counter(struct vgp_extsem_page *p, uint64_t value)
{
    uint64_t now = __atomic_load_n(&p->value, __ATOMIC_ACQUIRE);

    do {
        if (now >= value)
            return 1;
    } while (!__atomic_compare_exchange_n(&p->value, &now, value, false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE));
    __atomic_add_fetch(&p->changes, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &p->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return 0;
}

/*
 * Any other holder of an eventfd may fill its counter at any time, and a write then blocks:
 * O_NONBLOCK belongs to the open file, which is shared, and the kernel accepts RWF_NOWAIT only for
 * reads. So a separate thread writes and may stay blocked: at most one per semaphore, since a full
 * counter is set.
 */
#define WRITE_MS 100

static pthread_once_t writes_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t writes = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t written;

static void writes_init(void)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&written, &attr);
    pthread_condattr_destroy(&attr);
}

static void *write_event(void *arg)
{
    struct vgp_extsem *s = arg;
    const uint64_t one = 1;
    ssize_t n = write(s->fd, &one, sizeof(one));
    int error = n == (ssize_t)sizeof(one) || errno == EAGAIN ? 0 : -errno;

    pthread_mutex_lock(&writes);
    s->writing = false;
    s->write_error = error;
    pthread_cond_broadcast(&written);
    pthread_mutex_unlock(&writes);
    vgp_extsem_put(s);
    return NULL;
}

/* False: it has not ended by then. */
static bool wait_written_locked(const struct vgp_extsem *s, const struct timespec *until)
{
    int rc = 0;

    while (s->writing && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&written, &writes, until);
    return !s->writing;
}

/* 0 or -errno. */
static int begin_write_locked(struct vgp_extsem *s)
{
    sigset_t all, was;
    pthread_t t;
    int rc;

    vgp_extsem_get(s);
    s->writing = true;
    sigfillset(&all); /* the program's handlers run on threads of the program */
    pthread_sigmask(SIG_SETMASK, &all, &was);
    rc = pthread_create(&t, NULL, write_event, s);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    if (rc == 0) {
        pthread_detach(t);
        return 0;
    }
    s->writing = false;
    atomic_fetch_sub(&s->refs, 1); /* the caller holds a reference */
    return -rc;
}

static int set_event(struct vgp_extsem *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLOUT};
    struct timespec until;
    int rc = 0;

    /* A full counter has no room: the semaphore is set. */
    if (poll(&p, 1, 0) == 0)
        return 0;
    pthread_once(&writes_once, writes_init);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WRITE_MS * 1000000l;
    until.tv_sec += until.tv_nsec / 1000000000l;
    until.tv_nsec %= 1000000000l;
    pthread_mutex_lock(&writes);
    if (wait_written_locked(s, &until)) {
        rc = begin_write_locked(s);
        if (rc == 0 && wait_written_locked(s, &until))
            rc = s->write_error;
    }
    pthread_mutex_unlock(&writes);
    return rc;
}

int vgp_extsem_signal(struct vgp_extsem *s, uint64_t value)
{
    switch (s->kind) {
    case EVENT:
        return set_event(s);
    case SYNCOBJ:
        return vgp_extsem_drm_signal(s->device, s->handle, s->timeline, value);
    case COUNTER:
        return raise_counter(s->page, value);
    default:
        return -EOPNOTSUPP;
    }
}

/* ---- waits ------------------------------------------------------------------------------------- */

/* Takes the current value. Another waiter may be faster, so this read must not block. */
static int take_event(int fd)
{
    uint64_t n;
    struct iovec iov = {&n, sizeof(n)};
    ssize_t got = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);

    if (got < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) /* before Linux 5.8 */
        got = read(fd, &n, sizeof(n));
    if (got == (ssize_t)sizeof(n))
        return 1;
    return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static int wait_readable(const struct vgp_extsem *s, int milliseconds)
{
    int64_t end = clk_now_ms() + milliseconds;

    for (;;) {
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        int64_t left = end - clk_now_ms();
        int n = poll(&p, 1, left > 0 ? (int)left : 0);

        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0 && (p.revents & POLLIN)) {
            int rc = s->kind == EVENT ? take_event(s->fd) : 1;

            if (rc != 0)
                return rc;
        } else if (n > 0) {
            return -EIO;
        }
        if (clk_now_ms() >= end)
            return 0;
    }
}

static int wait_counter(struct vgp_extsem_page *p, uint64_t value, int milliseconds)
{
    int64_t end = clk_now_ms() + milliseconds;

    for (;;) {
        uint32_t seen = __atomic_load_n(&p->changes, __ATOMIC_SEQ_CST);
        int64_t left;
        struct timespec ts;

        if (__atomic_load_n(&p->value, __ATOMIC_SEQ_CST) >= value)
            return 1;
        left = end - clk_now_ms();
        if (left <= 0)
            return 0;
        ts.tv_sec = left / 1000;
        ts.tv_nsec = left % 1000 * 1000000;
        syscall(SYS_futex, &p->changes, FUTEX_WAIT, seen, &ts, NULL, 0);
    }
}

int vgp_extsem_wait(struct vgp_extsem *s, uint64_t value, int milliseconds)
{
    switch (s->kind) {
    case SYNCOBJ:
        return vgp_extsem_drm_wait(s->device, s->handle, s->timeline, value, milliseconds);
    case COUNTER:
        return wait_counter(s->page, value, milliseconds);
    default:
        return wait_readable(s, milliseconds);
    }
}
