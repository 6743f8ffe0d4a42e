// SPDX-License-Identifier: MIT
/* The other API's side of external semaphores, with the layout of docs/semaphores.md. */
#include "stream/other_api.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

CUexternalSemaphore cf_sem_import(CUexternalSemaphoreHandleType type, int fd, CUresult *r)
{
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d = {.type = type, .handle.fd = fd};
    CUexternalSemaphore s = NULL;

    *r = cuImportExternalSemaphore(&s, &d);
    return s;
}

void cf_sem_event(struct cf_sem *s)
{
    CUresult r;

    *s = (struct cf_sem){.fd = eventfd(0, EFD_NONBLOCK)};
    cf_need_true("an eventfd", s->fd >= 0);
    s->cuda = cf_sem_import(CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD, dup(s->fd), &r);
    cf_need("import of an eventfd", r);
}

int cf_counter(bool sealed, size_t size, struct vgp_extsem_page **page)
{
    int fd = memfd_create("conform counter", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *p;

    if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
        return -1;
    p = mmap(NULL, sizeof(**page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return -1;
    *page = p;
    if (size >= sizeof(**page)) {
        (*page)->version = 1;
        (*page)->magic = VGP_EXTSEM_MAGIC;
    }
    if (sealed)
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
    return fd;
}

void cf_sem_counter(struct cf_sem *s)
{
    CUresult r;
    int fd;

    *s = (struct cf_sem){.fd = -1};
    fd = cf_counter(true, sizeof(*s->page), &s->page);
    cf_need_true("a memfd", fd >= 0);
    s->cuda = cf_sem_import(CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, fd, &r);
    cf_need("import of a counter", r);
}

void cf_sem_set(struct cf_sem *s, uint64_t value)
{
    if (!s->page) {
        cf_need_true("eventfd_write", eventfd_write(s->fd, 1) == 0);
        return;
    }
    __atomic_store_n(&s->page->value, value, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&s->page->changes, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &s->page->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool cf_sem_is_set(const struct cf_sem *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

uint64_t cf_sem_value(const struct cf_sem *s)
{
    return __atomic_load_n(&s->page->value, __ATOMIC_SEQ_CST);
}

void cf_sem_end(struct cf_sem *s)
{
    cf_need("cuDestroyExternalSemaphore", cuDestroyExternalSemaphore(s->cuda));
    if (s->fd >= 0)
        close(s->fd);
    if (s->page)
        munmap(s->page, sizeof(*s->page));
}

CUresult cf_sem_signal(struct cf_sem *s, uint64_t value, CUstream stream)
{
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS p = {.params.fence.value = value};

    return cuSignalExternalSemaphoresAsync(&s->cuda, &p, 1, stream);
}

CUresult cf_sem_wait(struct cf_sem *s, uint64_t value, CUstream stream)
{
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS p = {.params.fence.value = value};

    return cuWaitExternalSemaphoresAsync(&s->cuda, &p, 1, stream);
}
