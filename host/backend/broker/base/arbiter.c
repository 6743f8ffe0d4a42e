/* SPDX-License-Identifier: MIT */
/*
 * The VMs of one host: a file that all their brokers read and write, a row for each. There is no daemon to start, to
 * trust or to lose: each broker writes its own row, reads the others', and holds its own workers back. A row is its
 * broker's by a lock that goes with the process, and counts while it is fresh. The brokers may be of different users: a
 * file of root's that a group may write. The file is never mapped, so that none can end another by making it shorter; a
 * broker's own values are in its memory, and written again each time; a lock that is never released delays nobody. A
 * broker that was taken over can still lie about its VM, and write rows of others: it can take more than its share, and
 * keep others from theirs. Workers never see the file.
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgb_fd.h"

#define MAGIC UINT64_C(0x3172657469627261) /* "arbiter1" */
#define ROWS 255u
#define LOCK_TRIES 20u             /* 100 us each */
#define FRESH_NS 600000000u        /* longer than between two looks of an idle broker */
#define VTIME_MAX (UINT64_MAX / 2) /* no host runs so long; sums with it do not wrap */

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

static struct row own;          /* as this broker means it; what the file says of it is never read */
static int own_row = -1;        /* -1: none */
static struct row others[ROWS]; /* as the file was when it was read last: anything */
static int file = -1;

static bool lock_byte(off_t at, short type)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    return !fcntl(file, F_OFD_SETLK, &l);
}

static off_t row_at(unsigned i)
{
    return (off_t)(offsetof(struct table, row) + i * sizeof(struct row));
}

static void write_own(void)
{
    if (own_row >= 0 && pwrite(file, &own, sizeof(own), row_at((unsigned)own_row)) != sizeof(own))
        vgb_log(VGB_DEBUG, "--arbiter: the row cannot be written: %s", strerror(errno));
}

/* Rows behind the end of a file that somebody has made shorter are those of nobody. */
static void read_others(void)
{
    ssize_t n = pread(file, others, sizeof(others), row_at(0));

    if (n < (ssize_t)sizeof(others))
        memset((char *)others + (n > 0 ? n : 0), 0, sizeof(others) - (size_t)(n > 0 ? n : 0));
    memset(&others[own_row], 0, sizeof(others[own_row]));
}

/* Takes a row that no living process has. */
static bool take_row(void)
{
    for (unsigned i = 0; i < ROWS; i++) {
        if (lock_byte((off_t)i + 1, F_WRLCK)) {
            memset(&own, 0, sizeof(own));
            own.pid = (uint32_t)getpid();
            own_row = (int)i;
            write_own();
            return true;
        }
    }
    return false;
}

/* Whom the file's owner lets write it: that is this user's decision or root's, and a group's members are root's alone. */
static const char *owner_wrong(const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return "not a file";
    if (st->st_uid != geteuid() && st->st_uid)
        return "it belongs to another user";
    if (st->st_mode & S_IWOTH)
        return "others may write to it";
    if ((st->st_mode & S_IWGRP) && st->st_uid)
        return "a group may write to it, and it is not root's";
    return NULL;
}

const char *brk_arbiter_open(const char *path)
{
    const char *wrong;
    struct stat st;
    uint64_t magic = 0;

    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (file < 0 || fstat(file, &st))
        return brk_unit_error(errno);
    wrong = owner_wrong(&st);
    if (wrong)
        return wrong;
    /* Zeros are also what is left of a file that somebody has made shorter. Brokers that start at once write the same. */
    if (pread(file, &magic, sizeof(magic), 0) < 0)
        return strerror(errno);
    if (magic && magic != MAGIC)
        return "it holds something else";
    magic = MAGIC;
    if (pwrite(file, &magic, sizeof(magic), 0) != sizeof(magic))
        return strerror(errno);
    return take_row() ? NULL : "255 brokers use it already";
}

void brk_arbiter_publish(const struct brk_fair *vm, uint64_t now_ns)
{
    if (own_row < 0)
        return;
    own.vtime = vm->vtime;
    own.wants = vm->wants && !vm->over;
    own.beat_ns = now_ns;
    write_own();
}

void brk_arbiter_busy(bool busy)
{
    if (own_row < 0 || own.busy == busy)
        return;
    own.busy = busy;
    write_own();
}

/* A broker that has ended, or is stopped itself, holds nobody back; nor does one from before the host was started, whose
 * clock was ahead of ours. */
static bool counts(const struct row *r, uint64_t now_ns)
{
    uint64_t beat = r->beat_ns;

    return beat && (now_ns < beat ? beat - now_ns : now_ns - beat) <= FRESH_NS;
}

uint64_t brk_arbiter_slowest(uint64_t now_ns)
{
    uint64_t slowest = BRK_FAIR_NONE;

    if (own_row < 0)
        return slowest;
    read_others();
    for (unsigned i = 0; i < ROWS; i++) {
        const struct row *r = &others[i];

        if (r->wants && r->vtime < slowest && r->vtime <= VTIME_MAX && counts(r, now_ns))
            slowest = r->vtime;
    }
    return slowest;
}

unsigned brk_arbiter_others_busy(uint64_t now_ns)
{
    unsigned n = 0;

    if (own_row < 0)
        return 0;
    read_others();
    for (unsigned i = 0; i < ROWS; i++)
        n += others[i].busy && counts(&others[i], now_ns);
    return n;
}

/*
 * Byte 0 is the table's lock: held for microseconds. It only decides which of two brokers that ask at once gets the
 * memory; one that keeps it has the others go on without.
 */
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
    own.committed = bytes;
    write_own();
}

static uint64_t committed_by_others(void)
{
    uint64_t sum = 0;

    read_others();
    for (unsigned i = 0; i < ROWS; i++) {
        uint64_t n = others[i].committed;

        if (n && is_alive(i) && __builtin_add_overflow(sum, n, &sum))
            sum = UINT64_MAX;
    }
    return sum;
}

bool brk_arbiter_commit(uint64_t bytes, uint64_t total)
{
    uint64_t was = own.committed;
    bool locked, ok;

    if (own_row < 0)
        return bytes <= total;
    locked = lock_table();
    /* Said before the others are read: of two that ask without the lock at least one sees the other. */
    brk_arbiter_commit_force(bytes);
    ok = vgp_range_ok(committed_by_others(), bytes, total);
    if (!ok)
        brk_arbiter_commit_force(was);
    if (locked)
        lock_byte(0, F_UNLCK);
    return ok;
}

void brk_arbiter_close(void)
{
    memset(&own, 0, sizeof(own));
    write_own();
    own_row = -1;
    vgb_close(&file);
}
