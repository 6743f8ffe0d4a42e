// SPDX-License-Identifier: MIT
/*
 * inject.so, preloaded into the broker or a worker: the k-th call of one kind fails, once.
 *
 * INJECT_FILE names a file of struct inject_page, which the test maps as well: it writes `kind` and
 * `left` (calls that are still to succeed, plus one) at any time; `fired` counts what has failed, and
 * `calls` what was made. Mapped at the start, so that it works inside a sandbox.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MEMORY = 1, MAPPING, SOCKET, DESCRIPTOR, PROCESS, THREAD, WATCH, KINDS };

struct inject_page {
    atomic_uint kind, left, fired, calls[KINDS];
};

static struct inject_page *page;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

__attribute__((constructor)) static void start(void)
{
    const char *file = getenv("INJECT_FILE");
    int fd = file ? open(file, O_RDWR | O_CLOEXEC) : -1;
    void *p;

    if (fd < 0)
        return;
    p = ((void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap"))(
        NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p != MAP_FAILED)
        page = p;
}

/* Is it this call's turn to fail? */
static bool hit(unsigned kind)
{
    unsigned left;

    if (!page)
        return false;
    atomic_fetch_add(&page->calls[kind], 1);
    if (atomic_load(&page->kind) != kind)
        return false;
    left = atomic_load(&page->left);
    while (left && !atomic_compare_exchange_weak(&page->left, &left, left - 1))
        ;
    if (left != 1)
        return false;
    atomic_fetch_add(&page->fired, 1);
    return true;
}

#define FAIL(kind, error, value) \
    do { \
        if (hit(kind)) { \
            errno = (error); \
            return (value); \
        } \
    } while (0)
#define NEXT(type, name, ...) \
    static type (*next)(__VA_ARGS__); \
    if (!next) { \
        void *sym_ = dlsym(RTLD_NEXT, #name); \
        __builtin_memcpy(&next, &sym_, sizeof(sym_)); \
    }

void *malloc(size_t n)
{
    FAIL(MEMORY, ENOMEM, NULL);
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    FAIL(MEMORY, ENOMEM, NULL);
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    FAIL(MEMORY, ENOMEM, NULL);
    return __libc_realloc(p, n);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    NEXT(void *, mmap, void *, size_t, int, int, int, off_t)
    FAIL(MAPPING, ENOMEM, MAP_FAILED);
    return next(at, n, prot, flags, fd, offset);
}

int socket(int domain, int type, int protocol)
{
    NEXT(int, socket, int, int, int)
    FAIL(SOCKET, EMFILE, -1);
    return next(domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
    NEXT(int, socketpair, int, int, int, int *)
    FAIL(SOCKET, EMFILE, -1);
    return next(domain, type, protocol, fds);
}

int accept4(int fd, struct sockaddr *a, socklen_t *size, int flags)
{
    NEXT(int, accept4, int, struct sockaddr *, socklen_t *, int)
    FAIL(SOCKET, EMFILE, -1);
    return next(fd, a, size, flags);
}

int eventfd(unsigned count, int flags)
{
    NEXT(int, eventfd, unsigned, int)
    FAIL(DESCRIPTOR, EMFILE, -1);
    return next(count, flags);
}

int memfd_create(const char *name, unsigned flags)
{
    NEXT(int, memfd_create, const char *, unsigned)
    FAIL(DESCRIPTOR, EMFILE, -1);
    return next(name, flags);
}

int pipe2(int fds[2], int flags)
{
    NEXT(int, pipe2, int *, int)
    FAIL(DESCRIPTOR, EMFILE, -1);
    return next(fds, flags);
}

int ftruncate(int fd, off_t size)
{
    NEXT(int, ftruncate, int, off_t)
    FAIL(DESCRIPTOR, ENOSPC, -1);
    return next(fd, size);
}

/* pidfd_open() and its like have no wrapper in older C libraries. */
long syscall(long number, ...)
{
    NEXT(long, syscall, long, ...)
    long a[6];
    va_list ap;

    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (number == 434) /* pidfd_open */
        FAIL(DESCRIPTOR, EMFILE, -1);
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int posix_spawn(pid_t *pid, const char *file, const posix_spawn_file_actions_t *fa,
                const posix_spawnattr_t *at, char *const argv[], char *const env[])
{
    NEXT(int, posix_spawn, pid_t *, const char *, const posix_spawn_file_actions_t *,
         const posix_spawnattr_t *, char *const[], char *const[])
    if (hit(PROCESS))
        return EAGAIN;
    return next(pid, file, fa, at, argv, env);
}

/* By name, as threads of the provider come through the worker's own pthread_create. */
int pthread_create(pthread_t *t, const pthread_attr_t *at, void *(*fn)(void *), void *arg)
{
    NEXT(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)
    if (hit(THREAD))
        return EAGAIN;
    return next(t, at, fn, arg);
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *e)
{
    NEXT(int, epoll_ctl, int, int, int, struct epoll_event *)
    if (op == EPOLL_CTL_ADD)
        FAIL(WATCH, ENOSPC, -1);
    return next(epfd, op, fd, e);
}
