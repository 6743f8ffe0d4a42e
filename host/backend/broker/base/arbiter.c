/* SPDX-License-Identifier: MIT */
/*
 * The VMs of one host: a file that all their brokers map, a row for each. There is no daemon to start, to trust or
 * to lose: each broker writes its own row, reads the others', and holds its own workers back. A row is its broker's
 * by a lock that goes with the process, and counts while it is fresh. Brokers of one owner trust each other this far:
 * one that was taken over can take more than its share, keep the others from theirs, or end them (by making the file
 * shorter): VMs that must not trust each other's brokers have a file each. Workers never see the file.
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgb_fd.h"

#define MAGIC UINT64_C(0x3172657469627261) /* "arbiter1" */
#define ROWS 255u
#define LOCK_TRIES 200u
#define FRESH_NS 600000000u /* longer than between two looks of an idle broker */

struct row {
    uint64_t beat_ns; /* CLOCK_MONOTONIC, the same for all processes of a host */
    uint64_t vtime;
    uint32_t wants;
    uint32_t pid;
    uint64_t committed; /* bytes of device memory, promised or in use; counts while the row is locked */
    uint32_t busy;      /* work of its clients is in flight */
    uint32_t unused32;
    uint64_t unused[3];
};
struct table {
    uint64_t magic, unused[7];
    struct row row[ROWS];
};
_Static_assert(sizeof(struct row) == 64, "a line of the cache each");

static struct table *table;
static struct row *own;
static int file = -1;

static bool lock_byte(off_t at, short type)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    return !fcntl(file, F_OFD_SETLK, &l);
}

/* Takes a row that no living process has. */
static bool take_row(void)
{
    for (unsigned i = 0; i < ROWS; i++) {
        if (lock_byte((off_t)i + 1, F_WRLCK)) {
            own = &table->row[i];
            memset(own, 0, sizeof(*own));
            return true;
        }
    }
    return false;
}

const char *brk_arbiter_open(const char *path)
{
    struct stat st;
    uint64_t none = 0;
    void *p;

    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return strerror(errno);
    if (fstat(file, &st) || !S_ISREG(st.st_mode))
        return "not a file";
    if (st.st_uid != geteuid())
        return "it belongs to another user";
    if (st.st_mode & 022)
        return "others may write to it";
    /* All brokers make it as long, so none can be cut short by another. */
    if (st.st_size != (off_t)sizeof(*table) && (st.st_size || ftruncate(file, sizeof(*table))))
        return st.st_size ? "it holds something else" : strerror(errno);
    p = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (p == MAP_FAILED)
        return strerror(errno);
    table = p;
    if (!__atomic_compare_exchange_n(&table->magic, &none, MAGIC, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST) &&
        none != MAGIC)
        return "it holds something else";
    return take_row() ? NULL : "255 brokers use it already";
}

void brk_arbiter_publish(const struct brk_fair *vm, uint64_t now_ns)
{
    if (!own)
        return;
    own->pid = (uint32_t)getpid();
    __atomic_store_n(&own->vtime, vm->vtime, __ATOMIC_RELAXED);
    __atomic_store_n(&own->wants, vm->wants && !vm->over, __ATOMIC_RELAXED);
    __atomic_store_n(&own->beat_ns, now_ns, __ATOMIC_RELEASE);
}

void brk_arbiter_busy(bool busy)
{
    if (own)
        __atomic_store_n(&own->busy, busy, __ATOMIC_RELAXED);
}

/* A broker that has ended, or is stopped itself, holds nobody back; nor does one from before the host was started, whose
 * clock was ahead of ours. */
static bool counts(const struct row *r, uint64_t now_ns)
{
    uint64_t beat = __atomic_load_n(&r->beat_ns, __ATOMIC_ACQUIRE);

    return r != own && beat && (now_ns < beat ? beat - now_ns : now_ns - beat) <= FRESH_NS;
}

uint64_t brk_arbiter_slowest(uint64_t now_ns)
{
    uint64_t slowest = BRK_FAIR_NONE;

    for (unsigned i = 0; own && i < ROWS; i++) {
        const struct row *r = &table->row[i];
        uint64_t vtime = __atomic_load_n(&r->vtime, __ATOMIC_RELAXED);

        if (__atomic_load_n(&r->wants, __ATOMIC_RELAXED) && vtime < slowest && counts(r, now_ns))
            slowest = vtime;
    }
    return slowest;
}

unsigned brk_arbiter_others_busy(uint64_t now_ns)
{
    unsigned n = 0;

    for (unsigned i = 0; own && i < ROWS; i++)
        n += __atomic_load_n(&table->row[i].busy, __ATOMIC_RELAXED) && counts(&table->row[i], now_ns);
    return n;
}

/* Byte 0 is the table's lock: held for microseconds. A broker that was stopped with it does not stop the others for long. */
static bool lock_table(void)
{
    for (unsigned i = 0; i < LOCK_TRIES; i++) {
        if (lock_byte(0, F_WRLCK))
            return true;
        usleep(100);
    }
    return false;
}

static bool is_alive(unsigned i)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)i + 1, .l_len = 1};

    return !fcntl(file, F_OFD_GETLK, &l) && l.l_type != F_UNLCK;
}

void brk_arbiter_commit_force(uint64_t bytes)
{
    if (own)
        __atomic_store_n(&own->committed, bytes, __ATOMIC_RELAXED);
}

bool brk_arbiter_commit(uint64_t bytes, uint64_t total)
{
    uint64_t others = 0;
    bool ok;

    if (!own)
        return bytes <= total;
    if (!lock_table())
        return false;
    for (unsigned i = 0; i < ROWS; i++) {
        uint64_t n = __atomic_load_n(&table->row[i].committed, __ATOMIC_RELAXED);

        if (n && &table->row[i] != own && is_alive(i) && __builtin_add_overflow(others, n, &others))
            others = UINT64_MAX;
    }
    ok = vgp_range_ok(others, bytes, total);
    if (ok)
        brk_arbiter_commit_force(bytes);
    lock_byte(0, F_UNLCK);
    return ok;
}

void brk_arbiter_close(void)
{
    if (own)
        __atomic_store_n(&own->beat_ns, 0, __ATOMIC_RELEASE);
    own = NULL;
    if (table)
        munmap(table, sizeof(*table));
    table = NULL;
    vgb_close(&file);
}
