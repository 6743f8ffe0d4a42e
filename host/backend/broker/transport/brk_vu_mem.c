/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "vu.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgb_fd.h"

/* The memfd of the windows as created by QEMU's device: name in /proc, and seals. */
#define WINDOWS_LINK "/memfd:vgpu-windows (deleted)"
#define WINDOWS_SEALS (F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

/*
 * Not identified by size: the guest's RAM may be a file of the same size, even on a disk. Never in huge
 * pages: QEMU can take those out of the file again, and where the pool has no other the broker's next
 * access to a window is a SIGBUS.
 */
static bool is_windows(int fd, const struct stat *st)
{
    int seals = fcntl(fd, F_GET_SEALS);

    return !st->st_nlink && seals >= 0 && (seals & WINDOWS_SEALS) == WINDOWS_SEALS &&
           vgb_fd_page_size(fd) == VGP_PAGE && brk_is_named(fd, WINDOWS_LINK);
}

/*
 * Memory (memfd, tmpfs, hugetlbfs: all of them have seals), or a file on a disk. Of what is on no block device a program
 * may be the server (FUSE, also under an overlay): each access to the memory, even fstat(2), would wait for it without an
 * end, and SIGKILL would not help. AT_STATX_DONT_SYNC asks no server.
 */
static bool is_local(int fd)
{
    struct statx st;

    if (fcntl(fd, F_GET_SEALS) >= 0)
        return true;
    return !statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) && st.stx_dev_major;
}

static const char *map_one(struct brk_vu_map *m, const struct brk_vu_region *r, int fd)
{
    struct stat st;
    uint64_t end;

    *m = (struct brk_vu_map){.fd = fd, .r = *r};
    m->mapping = MAP_FAILED;
    /* uva: rings are aligned by it, which atomic accesses rely on */
    if (!r->size || r->size % VGP_PAGE || r->gpa % VGP_PAGE || r->offset % VGP_PAGE || r->uva % VGP_PAGE ||
        __builtin_add_overflow(r->offset, r->size, &end) || r->gpa > UINT64_MAX - r->size ||
        r->uva > UINT64_MAX - r->size)
        return "a region's numbers make no sense";
    if (!is_local(fd))
        return "a region's descriptor is neither memory (memfd, tmpfs, hugetlbfs) nor a file on a disk";
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < 0)
        return "a region's descriptor is not a file";
    if (end > (uint64_t)st.st_size)
        return "a region is longer than its file";
    m->mapping_size = r->size;
    m->mapping = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)r->offset);
    if (m->mapping == MAP_FAILED)
        return "a region cannot be mapped";
    /* Keeps guest memory out of the broker's core files. */
    madvise(m->mapping, r->size, MADV_DONTDUMP);
    m->base = m->mapping;
    m->windows = is_windows(fd, &st);
    return NULL;
}

/* ---- files that become shorter ---- */

static struct {
    struct brk_vu_mem *mem;
    void (*lost)(void);
    struct brk_source told; /* eventfd; fd -1: not guarded */
} guard = {.told = {.fd = -1}};

/* On the thread of the loop, which alone uses the table, in an access to it. */
static void on_sigbus(int sig, siginfo_t *si, void *context)
{
    const uint64_t one = 1;
    const int saved = errno;

    (void)context;
    for (unsigned i = 0; i < guard.mem->n; i++) {
        struct brk_vu_map *k = &guard.mem->map[i];
        const uint8_t *at = si->si_addr, *from = k->mapping;

        if (k->mapping == MAP_FAILED || at < from || (uint64_t)(at - from) >= k->mapping_size)
            continue;
        if (mmap(k->mapping, k->mapping_size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED ||
            write(guard.told.fd, &one, sizeof(one)) != sizeof(one))
            break;
        k->lost = true;
        errno = saved;
        return;
    }
    signal(sig, SIG_DFL); /* on return it faults again */
}

static void on_told(struct brk_source *s, uint32_t events)
{
    uint64_t n;

    (void)events;
    if (read(s->fd, &n, sizeof(n)) != sizeof(n))
        return;
    for (unsigned i = 0; i < guard.mem->n; i++) {
        if (guard.mem->map[i].lost) { /* and not of a table that has been replaced since */
            guard.lost();
            return;
        }
    }
}

bool brk_vu_mem_guard(struct brk_vu_mem *m, void (*lost)(void))
{
    struct sigaction act = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};

    guard.mem = m;
    guard.lost = lost;
    guard.told = (struct brk_source){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = on_told};
    if (guard.told.fd >= 0 && !brk_loop_add(&guard.told, EPOLLIN) && !sigaction(SIGBUS, &act, NULL))
        return true;
    vgb_close(&guard.told.fd);
    return false;
}

/* ---- the table ---- */

void brk_vu_mem_clear(struct brk_vu_mem *m)
{
    for (unsigned i = 0; i < m->n; i++) {
        if (m->map[i].mapping != MAP_FAILED)
            munmap(m->map[i].mapping, m->map[i].mapping_size);
        /* frees all of the guest's memory if QEMU has exited */
        brk_foreign_close(m->map[i].fd);
    }
    m->n = 0;
}

const char *brk_vu_mem_set(struct brk_vu_mem *m, const struct brk_vu_payload_mem *p, const int *fds)
{
    const char *wrong = NULL;

    brk_vu_mem_clear(m);
    for (unsigned i = 0; i < p->nregions; i++) {
        if (wrong) {
            brk_foreign_close(fds[i]);
            continue;
        }
        const struct brk_vu_map *windows = brk_vu_mem_windows(m);

        wrong = map_one(&m->map[m->n++], &p->regions[i], fds[i]);
        /* Windows of a second device look the same, but QEMU's device sends only its own. */
        if (!wrong && windows && m->map[m->n - 1].windows)
            wrong = "two regions are windows of a vgpu-cuda: update QEMU's device";
    }
    if (wrong)
        brk_vu_mem_clear(m);
    return wrong;
}

uint8_t *brk_vu_mem_gpa(struct brk_vu_mem *m, uint64_t gpa, uint64_t *n)
{
    for (unsigned i = 0; i < m->n; i++) {
        const struct brk_vu_map *k = &m->map[i];

        if (k->windows || gpa < k->r.gpa || gpa - k->r.gpa >= k->r.size)
            continue;
        uint64_t left = k->r.size - (gpa - k->r.gpa);
        if (*n > left)
            *n = left;
        return k->base + (gpa - k->r.gpa);
    }
    return NULL;
}

void *brk_vu_mem_uva(struct brk_vu_mem *m, uint64_t uva, uint64_t size)
{
    for (unsigned i = 0; i < m->n; i++) {
        const struct brk_vu_map *k = &m->map[i];

        if (!k->windows && uva >= k->r.uva && vgp_range_ok(uva - k->r.uva, size, k->r.size))
            return k->base + (uva - k->r.uva);
    }
    return NULL;
}

bool brk_vu_mem_run(struct brk_vu_mem *m, uint64_t gpa, uint64_t len, struct brk_map_run *runs, unsigned *n,
                    unsigned room)
{
    if (!len || len % VGP_PAGE || gpa % VGP_PAGE || len > UINT64_MAX - gpa)
        return false;
    while (len) {
        const struct brk_vu_map *k = NULL;

        for (unsigned i = 0; i < m->n; i++) {
            const struct brk_vu_map *c = &m->map[i];

            if (!c->windows && gpa >= c->r.gpa && gpa - c->r.gpa < c->r.size)
                k = c;
        }
        if (!k)
            return false;
        uint64_t at = gpa - k->r.gpa, part = k->r.size - at < len ? k->r.size - at : len;
        uint64_t offset = k->r.offset + at;
        /* Adjacent runs are merged, for fewer mappings in the worker. */
        if (*n && runs[*n - 1].fd == k->fd && runs[*n - 1].offset + runs[*n - 1].length == offset) {
            runs[*n - 1].length += part;
        } else {
            if (*n == room)
                return false;
            runs[*n] = (struct brk_map_run){.fd = k->fd, .offset = offset, .length = part};
            (*n)++;
        }
        gpa += part;
        len -= part;
    }
    return true;
}

const struct brk_vu_map *brk_vu_mem_windows(const struct brk_vu_mem *m)
{
    for (unsigned i = 0; i < m->n; i++) {
        if (m->map[i].windows)
            return &m->map[i];
    }
    return NULL;
}
