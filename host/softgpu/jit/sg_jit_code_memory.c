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

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/btree/btree.h"

#define CODE_BYTES (256u << 20) /* reserved, not used: pages come when code is put there */
#define GRAIN 256u

static struct {
    pthread_mutex_t lock;
    uint8_t *run;
    int fd;
    struct btr_tree holes; /* keyed by offset, weighted by size in bytes; holes never touch */
} mem = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

bool sg_jit_mem_init(void)
{
    void *x = MAP_FAILED;
    int fd;

    if (mem.run)
        return true;
    fd = memfd_create("sg-code", MFD_CLOEXEC);
    if (fd >= 0 && !ftruncate(fd, CODE_BYTES))
        x = mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (x == MAP_FAILED || btr_insert(&mem.holes, 0, CODE_BYTES, NULL)) {
        if (x != MAP_FAILED)
            munmap(x, CODE_BYTES);
        if (fd >= 0)
            close(fd);
        return false;
    }
    mem.fd = fd;
    mem.run = x;
    return true;
}

static size_t grains_of(size_t n)
{
    return (n + GRAIN - 1) & ~(size_t)(GRAIN - 1);
}

/* False: the system refuses another mapping. */
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

void *sg_jit_mem_claim(size_t n)
{
    struct btr_item hole;
    void *p = NULL;

    n = n ? n : 1;
    pthread_mutex_lock(&mem.lock);
    if (btr_reserve(&mem.holes) && btr_first_of_weight(&mem.holes, 0, grains_of(n), &hole)) {
        p = mem.run + hole.key;
        btr_remove(&mem.holes, hole.key, NULL);
        if (hole.weight > grains_of(n))
            btr_insert(&mem.holes, hole.key + grains_of(n), hole.weight - grains_of(n), NULL);
    }
    pthread_mutex_unlock(&mem.lock);
    return p;
}

bool sg_jit_mem_fill(void *p, const uint8_t *code, size_t n)
{
    return write_code((size_t)((uint8_t *)p - mem.run), code, n);
}

void *sg_jit_mem_put(const uint8_t *code, size_t n)
{
    void *p = sg_jit_mem_claim(n);

    if (p && n && !sg_jit_mem_fill(p, code, n)) {
        sg_jit_mem_free(p, n);
        p = NULL;
    }
    return p;
}

void sg_jit_mem_free(void *p, size_t n)
{
    struct btr_item left, right;
    uint64_t at, size = grains_of(n ? n : 1);

    if (!p)
        return;
    at = (uint64_t)((uint8_t *)p - mem.run);
    pthread_mutex_lock(&mem.lock);
    if (btr_find(&mem.holes, at + size, &right)) {
        btr_remove(&mem.holes, right.key, NULL);
        size += right.weight;
    }
    if (btr_floor(&mem.holes, at, &left) && left.key + left.weight == at)
        btr_set_weight(&mem.holes, left.key, left.weight + size);
    else
        btr_insert(&mem.holes, at, size, NULL); /* without memory this piece stays unused */
    pthread_mutex_unlock(&mem.lock);
}

#endif
