/* SPDX-License-Identifier: MIT */
/*
 * Physical memory (cuMemCreate): pieces of a sparse memfd. Each mapping of a piece is an mmap() of
 * that file, so the same pages can be mapped at several addresses without mremap(), which a
 * worker's sandbox refuses: mremap() could also duplicate mappings lent by other parts of the
 * process. The file is created before the sandbox, in which files cannot grow.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memory/arena.h"
#include "memory/memory.h"

/* Address space of the file; memory is allocated when it is first accessed. */
#define STORE_BYTES (UINT64_C(1) << 46)

static struct {
    pthread_mutex_t lock;
    int fd;
    struct sg_arena space; /* offsets that no piece has */
} store = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* Limited to the maximum file size of this process: beyond it ftruncate() raises SIGXFSZ. */
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

    if (store.fd >= 0)
        return true;
    store.fd = memfd_create("sg-physical", MFD_CLOEXEC);
    if (store.fd < 0 || !length || ftruncate(store.fd, (off_t)length) ||
        !sg_arena_init(&store.space, 0, length)) {
        if (store.fd >= 0)
            close(store.fd);
        store.fd = -1;
        return false;
    }
    return true;
}

bool sg_store_take(uint64_t size, uint64_t *at)
{
    pthread_mutex_lock(&store.lock);
    bool ok = store.fd >= 0 && size && sg_arena_take(&store.space, size, 1, at);

    pthread_mutex_unlock(&store.lock);
    return ok;
}

void *sg_store_map(void *where, uint64_t size, uint64_t at)
{
    return mmap(where, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | (where ? MAP_FIXED : 0),
                store.fd, (off_t)at);
}

void sg_store_give(void *pages, uint64_t size, uint64_t at)
{
    /* The next owner must find zeroes; a piece that cannot be cleared is not used again. It is
       cleared through the file, not the mapping (MADV_REMOVE): a sandbox identifies files by
       descriptors, and the guest's memory has none here. */
    if (pages && fallocate(store.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)size))
        return;
    pthread_mutex_lock(&store.lock);
    sg_arena_give(&store.space, at, size);
    pthread_mutex_unlock(&store.lock);
}
