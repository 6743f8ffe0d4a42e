/* SPDX-License-Identifier: MIT */
/*
 * Physical memory (cuMemCreate): pieces of one sparse memfd. Each mapping of a piece is an mmap() of that file, so
 * the same pages can be mapped at several addresses without mremap(), which a worker's sandbox refuses: mremap()
 * also duplicates mappings that other parts of the process have lent. The file is made before the sandbox, in which
 * files do not grow.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memory/memory.h"

#define STORE_BYTES (UINT64_C(1) << 46) /* addresses within the file; memory is taken where it is touched */

struct hole {
    uint64_t at, size;
    struct hole *next;
};

static struct {
    pthread_mutex_t lock;
    int fd;
    struct hole *holes; /* by offset, not touching */
} store = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* No longer than this process may make a file: beyond that ftruncate() sends SIGXFSZ. */
static uint64_t store_length(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_FSIZE, &r) || r.rlim_cur > STORE_BYTES)
        return STORE_BYTES;
    return r.rlim_cur & ~(uint64_t)4095;
}

bool sg_store_init(void)
{
    uint64_t length = store_length();
    struct hole *h;

    if (store.fd >= 0)
        return true;
    h = malloc(sizeof(*h));
    store.fd = memfd_create("sg-physical", MFD_CLOEXEC);
    if (!h || store.fd < 0 || !length || ftruncate(store.fd, (off_t)length)) {
        if (store.fd >= 0)
            close(store.fd);
        store.fd = -1;
        free(h);
        return false;
    }
    *h = (struct hole){.at = 0, .size = length};
    store.holes = h;
    return true;
}

static bool store_take_locked(uint64_t size, uint64_t *at)
{
    for (struct hole **h = &store.holes; *h; h = &(*h)->next) {
        struct hole *x = *h;

        if (x->size < size)
            continue;
        *at = x->at;
        x->at += size;
        x->size -= size;
        if (!x->size) {
            *h = x->next;
            free(x);
        }
        return true;
    }
    return false;
}

bool sg_store_take(uint64_t size, uint64_t *at)
{
    pthread_mutex_lock(&store.lock);
    bool ok = store.fd >= 0 && size && store_take_locked(size, at);

    pthread_mutex_unlock(&store.lock);
    return ok;
}

void *sg_store_map(void *where, uint64_t size, uint64_t at)
{
    return mmap(where, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | (where ? MAP_FIXED : 0),
                store.fd, (off_t)at);
}

static void store_merge_locked(void)
{
    for (struct hole *y = store.holes; y && y->next;) {
        struct hole *z = y->next;

        if (y->at + y->size != z->at) {
            y = z;
            continue;
        }
        y->size += z->size;
        y->next = z->next;
        free(z);
    }
}

void sg_store_give(void *pages, uint64_t size, uint64_t at)
{
    struct hole *x = malloc(sizeof(*x)), **h;

    /* The next owner finds zeroes. A piece that cannot be emptied is not used again. */
    if (!x || (pages && madvise(pages, size, MADV_REMOVE))) {
        free(x);
        return;
    }
    *x = (struct hole){.at = at, .size = size};
    pthread_mutex_lock(&store.lock);
    for (h = &store.holes; *h && (*h)->at < at; h = &(*h)->next)
        ;
    x->next = *h;
    *h = x;
    store_merge_locked();
    pthread_mutex_unlock(&store.lock);
}
