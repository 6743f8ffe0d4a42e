// SPDX-License-Identifier: MIT
/*
 * inject.so, preloaded into the broker, a worker, QEMU or a program with libcuda: the k-th call of
 * one kind fails, once.
 *
 * INJECT_FILE names a file of struct inject_page (inject.h), also mapped by the test, which writes
 * `kind` and `left` at any time. Mapped at the start, so that it works inside a sandbox.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inject.h"

static struct inject_page *page;
static uintptr_t loader,
    loader_end; /* code of the dynamic linker, which ends the process when it has no memory */

static int of_loader(struct dl_phdr_info *i, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (!strstr(i->dlpi_name, "/ld-linux"))
        return 0;
    for (int n = 0; n < i->dlpi_phnum; n++) {
        const ElfW(Phdr) *p = &i->dlpi_phdr[n];

        if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
            loader = i->dlpi_addr + p->p_vaddr;
            loader_end = loader + p->p_memsz;
        }
    }
    return 1;
}

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

__attribute__((constructor)) static void start(void)
{
    const char *file = getenv("INJECT_FILE");
    int fd = file ? open(file, O_RDWR | O_CLOEXEC) : -1;
    void *p;

    dl_iterate_phdr(of_loader, NULL);
    if (fd < 0)
        return;
    p = ((void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap"))(
        NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p != MAP_FAILED)
        page = p;
}

/* True if this call is to fail. from: its return address. */
static bool hit_from(unsigned kind, const void *from)
{
    uintptr_t at = (uintptr_t)from, low = page ? atomic_load(&page->low) : 0;
    unsigned left;

    if (!page || (at >= loader && at < loader_end) || (low && (at < low || at >= atomic_load(&page->high))))
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

bool inject_hit(unsigned kind)
{
    return hit_from(kind, __builtin_return_address(0));
}

static void *took(void *p)
{
    if (p && page)
        atomic_fetch_add(&page->live, 1);
    return p;
}

#define hit(kind) hit_from(kind, __builtin_return_address(0))
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
    FAIL(INJECT_MEMORY, ENOMEM, NULL);
    return took(__libc_malloc(n));
}

void *calloc(size_t n, size_t size)
{
    FAIL(INJECT_MEMORY, ENOMEM, NULL);
    return took(__libc_calloc(n, size));
}

void *realloc(void *p, size_t n)
{
    FAIL(INJECT_MEMORY, ENOMEM, NULL);
    return p ? __libc_realloc(p, n) : took(__libc_malloc(n));
}

void *aligned_alloc(size_t align, size_t n)
{
    FAIL(INJECT_MEMORY, ENOMEM, NULL);
    return took(__libc_memalign(align, n));
}

int posix_memalign(void **p, size_t align, size_t n)
{
    void *got;

    if (hit(INJECT_MEMORY) || !(got = __libc_memalign(align, n)))
        return ENOMEM;
    *p = took(got);
    return 0;
}

void free(void *p)
{
    if (p && page)
        atomic_fetch_sub(&page->live, 1);
    __libc_free(p);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    NEXT(void *, mmap, void *, size_t, int, int, int, off_t)
    FAIL(INJECT_MAPPING, ENOMEM, MAP_FAILED);
    return next(at, n, prot, flags, fd, offset);
}

int socket(int domain, int type, int protocol)
{
    NEXT(int, socket, int, int, int)
    FAIL(INJECT_SOCKET, EMFILE, -1);
    return next(domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
    NEXT(int, socketpair, int, int, int, int *)
    FAIL(INJECT_SOCKET, EMFILE, -1);
    return next(domain, type, protocol, fds);
}

int accept4(int fd, struct sockaddr *a, socklen_t *size, int flags)
{
    NEXT(int, accept4, int, struct sockaddr *, socklen_t *, int)
    FAIL(INJECT_SOCKET, EMFILE, -1);
    return next(fd, a, size, flags);
}

int eventfd(unsigned count, int flags)
{
    NEXT(int, eventfd, unsigned, int)
    FAIL(INJECT_DESCRIPTOR, EMFILE, -1);
    return next(count, flags);
}

int memfd_create(const char *name, unsigned flags)
{
    NEXT(int, memfd_create, const char *, unsigned)
    FAIL(INJECT_DESCRIPTOR, EMFILE, -1);
    return next(name, flags);
}

int pipe2(int fds[2], int flags)
{
    NEXT(int, pipe2, int *, int)
    FAIL(INJECT_DESCRIPTOR, EMFILE, -1);
    return next(fds, flags);
}

int ftruncate(int fd, off_t size)
{
    NEXT(int, ftruncate, int, off_t)
    FAIL(INJECT_DESCRIPTOR, ENOSPC, -1);
    return next(fd, size);
}

/* pidfd_open() and similar calls have no wrapper in older C libraries. */
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
        FAIL(INJECT_DESCRIPTOR, EMFILE, -1);
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int posix_spawn(pid_t *pid, const char *file, const posix_spawn_file_actions_t *fa,
                const posix_spawnattr_t *at, char *const argv[], char *const env[])
{
    NEXT(int, posix_spawn, pid_t *, const char *, const posix_spawn_file_actions_t *,
         const posix_spawnattr_t *, char *const[], char *const[])
    if (hit(INJECT_PROCESS))
        return EAGAIN;
    return next(pid, file, fa, at, argv, env);
}

/* Looked up by name, as threads of the provider also pass through the worker's pthread_create. */
int pthread_create(pthread_t *t, const pthread_attr_t *at, void *(*fn)(void *), void *arg)
{
    NEXT(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)
    if (hit(INJECT_THREAD))
        return EAGAIN;
    return next(t, at, fn, arg);
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *e)
{
    NEXT(int, epoll_ctl, int, int, int, struct epoll_event *)
    if (op == EPOLL_CTL_ADD)
        FAIL(INJECT_WATCH, ENOSPC, -1);
    return next(epfd, op, fd, e);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    NEXT(ssize_t, sendmsg, int, const struct msghdr *, int)
    FAIL(INJECT_SEND, ENOBUFS, -1);
    return next(fd, m, flags);
}

ssize_t send(int fd, const void *data, size_t n, int flags)
{
    NEXT(ssize_t, send, int, const void *, size_t, int)
    FAIL(INJECT_SEND, ENOBUFS, -1);
    return next(fd, data, n, flags);
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    NEXT(ssize_t, recvmsg, int, struct msghdr *, int)
    FAIL(INJECT_RECEIVE, ENOMEM, -1);
    return next(fd, m, flags);
}

ssize_t recv(int fd, void *data, size_t n, int flags)
{
    NEXT(ssize_t, recv, int, void *, size_t, int)
    FAIL(INJECT_RECEIVE, ENOMEM, -1);
    return next(fd, data, n, flags);
}

int open(const char *path, int flags, ...)
{
    NEXT(int, open, const char *, int, ...)
    va_list ap;
    mode_t mode = 0;

    va_start(ap, flags);
    if (flags & (O_CREAT | O_TMPFILE))
        mode = va_arg(ap, mode_t);
    va_end(ap);
    FAIL(INJECT_OPEN, EMFILE, -1);
    return next(path, flags, mode);
}
