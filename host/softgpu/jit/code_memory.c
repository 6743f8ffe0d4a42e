/* SPDX-License-Identifier: MIT */
/*
 * Memory for native code: an anonymous file, mapped executable once, because a sandbox forbids
 * making memory executable later. The pages of a kernel are mapped writable only while its code is
 * copied there, at an address that the system chooses, so a stray write of a kernel cannot change
 * the code that it runs.
 */
#define _GNU_SOURCE
#include "jit/jit.h"

#include <pthread.h>

#ifdef SG_JIT

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CODE_BYTES (256u << 20) /* reserved, not used: pages come when code is put there */
#define GRAIN 256u

struct hole {
    size_t at, size;
    struct hole *next;
};

static struct {
    pthread_mutex_t lock;
    uint8_t *run;
    int fd;
    struct hole *holes; /* by address */
} mem = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

bool sg_jit_mem_init(void)
{
    struct hole *h;
    void *x = MAP_FAILED;
    int fd;

    if (mem.run)
        return true;
    h = malloc(sizeof(*h));
    fd = memfd_create("sg-code", MFD_CLOEXEC);
    if (h && fd >= 0 && !ftruncate(fd, CODE_BYTES))
        x = mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (x == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        free(h);
        return false;
    }
    *h = (struct hole){.at = 0, .size = CODE_BYTES};
    mem.holes = h;
    mem.fd = fd;
    mem.run = x;
    return true;
}

static size_t grains(size_t n)
{
    return (n + GRAIN - 1) & ~(size_t)(GRAIN - 1);
}

/* False: the system refuses one mapping more. */
static bool write_code(size_t at, const uint8_t *code, size_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), skip = at & (page - 1);
    uint8_t *w = mmap(NULL, skip + n, PROT_READ | PROT_WRITE, MAP_SHARED, mem.fd, (off_t)(at - skip));

    if (w == MAP_FAILED)
        return false;
    memcpy(w + skip, code, n);
    munmap(w, skip + n);
    return true;
}

void *sg_jit_mem_put(const uint8_t *code, size_t n)
{
    void *p = NULL;

    n = n ? n : 1;
    pthread_mutex_lock(&mem.lock);
    for (struct hole **h = &mem.holes; *h; h = &(*h)->next) {
        struct hole *x = *h;

        if (x->size < grains(n))
            continue;
        if (!write_code(x->at, code, n))
            break;
        p = mem.run + x->at;
        x->at += grains(n);
        x->size -= grains(n);
        if (!x->size) {
            *h = x->next;
            free(x);
        }
        break;
    }
    pthread_mutex_unlock(&mem.lock);
    return p;
}

void sg_jit_mem_free(void *p, size_t n)
{
    struct hole *x, **h;

    if (!p)
        return;
    x = malloc(sizeof(*x));
    if (!x)
        return; /* this piece stays unused */
    *x = (struct hole){.at = (size_t)((uint8_t *)p - mem.run), .size = grains(n ? n : 1)};
    pthread_mutex_lock(&mem.lock);
    for (h = &mem.holes; *h && (*h)->at < x->at; h = &(*h)->next)
        ;
    x->next = *h;
    *h = x;
    for (struct hole *y = mem.holes; y && y->next;) {
        struct hole *z = y->next;

        if (y->at + y->size != z->at) {
            y = z;
            continue;
        }
        y->size += z->size;
        y->next = z->next;
        free(z);
    }
    pthread_mutex_unlock(&mem.lock);
}

#endif
