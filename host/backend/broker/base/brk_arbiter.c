/* SPDX-License-Identifier: MIT */
/*
 * The VMs of one host: a file that all their brokers read and write, a row for each. There is no daemon to start, to
 * trust or to lose: each broker writes its own row, reads the others', and holds its own workers back. A row is its
 * broker's by a lock that goes with the process, and counts while it is fresh. The brokers may be of different users: a
 * file of root's that a group may write. No broker can end another or hold it up:
 *  - The file is mapped, and the mapping accessed by process_vm_readv() and process_vm_writev() alone: where the file was
 *    made shorter they give an error, not a SIGBUS. pread() and pwrite() would wait for the inode's lock, which a
 *    writer whose pages are not there (a file system of its own, userfaultfd) keeps as long as it likes.
 *  - The file's length is changed by a child, for which the broker waits a bounded time: ftruncate() takes that lock.
 *  - Locks of bytes are tried, never waited for; a broker that finds none of its own goes on without a row. The kernel walks
 *    through all locks of the file, of which each broker may take as many as it has memory for: walks have a budget.
 * A broker's own values are in its memory, and written again each time. A broker that was taken over can still lie about
 * its VM, and write rows of others: it can take more than its share, and keep others from theirs. Workers never see the
 * file.
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vgb_fd.h"

#define MAGIC UINT64_C(0x3172657469627261) /* "arbiter1" */
#define ROWS 255u
#define LOCK_TRIES 20u /* 100 us each */
#define GROW_TRIES 50u /* 1 ms each */
/*
 * Budget of processor time for walks through the file's locks, and of time waiting for children ...
 */
#define WALKS_NS 20000000u
#define GROWS_NS 100000000u
/* ... and the fraction of passing time by which it is refilled */
#define BACK_PART 50u
#define ROW_NS 1000000000u         /* interval between tries of a broker without a row */
#define FRESH_NS 600000000u        /* longer than between two looks of an idle broker */
#define VTIME_MAX (UINT64_MAX / 2) /* beyond the uptime of any host; sums with it do not wrap */

struct row {
    uint64_t beat_ns; /* CLOCK_MONOTONIC, the same for all processes of a host */
    uint64_t vtime;
    uint32_t wants;
    uint32_t pid;
    /* bytes of device memory, promised or in use; counts while the row is locked */
    uint64_t committed;
    uint32_t busy; /* non-zero: work of its clients is in flight */
    uint32_t unused32;
    uint64_t unused[3];
};
struct table {
    uint64_t magic, unused[7];
    struct row row[ROWS];
};
_Static_assert(sizeof(struct row) == 64, "a line of the cache each");

static struct row own;          /* authoritative copy; the file's copy is never read */
static int own_row = -1;        /* -1: none */
static struct row others[ROWS]; /* untrusted copy of the file at the last read */
static int file = -1;
static struct table *map = MAP_FAILED; /* see above: for arbiter_copy() only */
static pid_t grower;                   /* child that extends the file; 0: none */
static uint64_t row_tried_ns;
static struct vgb_ratelimit rows_limit;
static struct budget {
    uint64_t used_ns, at_ns; /* budget used, minus refills, at at_ns */
} walks, grows;

static off_t row_at(unsigned i)
{
    return (off_t)(offsetof(struct table, row) + i * sizeof(struct row));
}

/* Logs a defect of the file once per place: another broker can keep the file defective. */
#define SAY_ONCE(...) \
    do { \
        static bool said; \
        vgb_log(said ? VGB_DEBUG : VGB_WARN, "--arbiter: " __VA_ARGS__); \
        said = true; \
    } while (0)

static uint64_t arbiter_cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool budget_left(struct budget *b, uint64_t most)
{
    const uint64_t back = (vgb_now_ns() - b->at_ns) / BACK_PART;

    b->used_ns -= back < b->used_ns ? back : b->used_ns;
    b->at_ns += back * BACK_PART;
    return b->used_ns < most;
}

/* False: the budget for locks is used up. */
static bool walk_allowed(void)
{
    if (budget_left(&walks, WALKS_NS))
        return true;
    SAY_ONCE("the file has so many locks that they are not always asked for: another broker keeps them");
    return false;
}

static bool lock_walk(int cmd, struct flock *l)
{
    const uint64_t began = arbiter_cpu_ns();
    const bool ok = !fcntl(file, cmd, l);

    walks.used_ns += arbiter_cpu_ns() - began;
    return ok;
}

static bool lock_byte(off_t at)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    return walk_allowed() && lock_walk(F_OFD_SETLK, &l);
}

static void unlock_byte(off_t at)
{
    struct flock l = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    lock_walk(F_OFD_SETLK, &l);
}

/* Copies between `own_bytes` and the file without blocking. Bytes copied, fewer if the file ends
 * earlier; -1: none. */
static ssize_t arbiter_copy(bool to_file, void *own_bytes, off_t at, size_t n)
{
    struct iovec here = {own_bytes, n}, there = {(char *)map + at, n};

    if (map == MAP_FAILED) {
        errno = EBADF;
        return -1;
    }
    return to_file ? process_vm_writev(getpid(), &here, 1, &there, 1, 0)
                   : process_vm_readv(getpid(), &here, 1, &there, 1, 0);
}

/* The child has none of the broker's descriptors: while it waits for the inode's lock, descriptors
 * the broker closes are really closed, and the broker's row is free after its exit. */
static void arbiter_grow_child(void)
{
    char path[40];
    struct stat st;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || dup2(fd, 0))
        _exit(1);
    syscall(SYS_close_range, 1, ~0u, 0);
    if (!fstat(0, &st) && st.st_size < (off_t)sizeof(struct table) && ftruncate(0, sizeof(struct table)))
        _exit(1);
    _exit(0);
}

static bool wait_for_grower(unsigned tries)
{
    for (unsigned i = 0; i < tries && grower > 0; i++) {
        if (waitpid(grower, NULL, WNOHANG)) {
            grower = 0;
            return true;
        }
        usleep(i ? 1000 : 100);
    }
    if (grower < 0)
        grower = 0;
    return false;
}

/*
 * Extends the file to the size of the table; false: not in time. A child that was too slow before
 * is only checked. A broker that truncates the file repeatedly costs at most the budget of waits.
 */
static bool arbiter_grow(void)
{
    const uint64_t began = vgb_now_ns();
    unsigned tries = 1;

    if (!grower) {
        if (!budget_left(&grows, GROWS_NS))
            return false;
        grower = fork();
        if (!grower)
            arbiter_grow_child();
        tries = GROW_TRIES;
    }
    bool grown = wait_for_grower(tries);

    grows.used_ns += vgb_now_ns() - began;
    return grown;
}

static bool is_whole(void)
{
    struct stat st;

    return !fstat(file, &st) && st.st_size >= (off_t)sizeof(struct table);
}

/* Access within the page in which the file ends succeeds. */
static bool write_row(void)
{
    return arbiter_copy(true, &own, row_at((unsigned)own_row), sizeof(own)) == sizeof(own) && is_whole();
}

static void write_own(void)
{
    uint64_t magic = MAGIC;

    if (own_row < 0 || write_row())
        return;
    SAY_ONCE("somebody has made the file shorter");
    if (arbiter_grow() && write_row())
        arbiter_copy(true, &magic, 0, sizeof(magic));
}

/* Rows beyond the end of a truncated file are unused. */
static void read_others(void)
{
    ssize_t n = arbiter_copy(false, others, row_at(0), sizeof(others));

    if (n < (ssize_t)sizeof(others))
        memset((char *)others + (n > 0 ? n : 0), 0, sizeof(others) - (size_t)(n > 0 ? n : 0));
    if (own_row >= 0)
        memset(&others[own_row], 0, sizeof(others[own_row]));
}

/* Takes a row not held by a living process. */
static bool take_row(void)
{
    for (unsigned i = 0; i < ROWS; i++) {
        if (lock_byte((off_t)i + 1)) {
            own.pid = (uint32_t)getpid();
            own_row = (int)i;
            write_own();
            return true;
        }
    }
    return false;
}

/* Other brokers can lock all rows: this broker still follows their rows, but is not visible to
 * them. */
static void take_row_again(uint64_t now_ns)
{
    if (file < 0 || now_ns - row_tried_ns < ROW_NS)
        return;
    row_tried_ns = now_ns;
    if (take_row())
        vgb_log_limited(&rows_limit, VGB_INFO, "--arbiter: a row has become free");
}

/* Write access is granted by the file's owner: this user or root; a group's members are determined
 * by root alone. */
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

/* First without O_CREAT, which takes the folder's lock, and any user who can read the folder can
 * hold that. */
static int arbiter_open_file(const char *path)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = open(path, flags);

    return fd < 0 && errno == ENOENT ? open(path, flags | O_CREAT, 0600) : fd;
}

const char *brk_arbiter_open(const char *path)
{
    const char *wrong;
    struct stat st;
    uint64_t magic = 0;

    memset(&own, 0, sizeof(own));
    file = arbiter_open_file(path);
    if (file < 0 || fstat(file, &st))
        return brk_unit_error(errno);
    wrong = owner_wrong(&st);
    if (wrong)
        return wrong;
    map = mmap(NULL, sizeof(*map), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        return strerror(errno);
    /* A truncated file also reads as zeroes. Brokers that start concurrently write the same. */
    if (arbiter_copy(false, &magic, 0, sizeof(magic)) < 0 && errno != EFAULT)
        return strerror(errno);
    if (magic && magic != MAGIC)
        return "it holds something else";
    if (st.st_size < (off_t)sizeof(struct table) && !arbiter_grow())
        SAY_ONCE("the file cannot be made as long as it has to be: another broker keeps it");
    magic = MAGIC;
    if (arbiter_copy(true, &magic, 0, sizeof(magic)) < 0 && errno != EFAULT)
        return strerror(errno);
    if (!take_row())
        SAY_ONCE("all 255 rows are taken: other virtual machines do not see this one");
    return NULL;
}

void brk_arbiter_publish(const struct brk_fair *vm, uint64_t now_ns)
{
    if (own_row < 0)
        take_row_again(now_ns);
    own.vtime = vm->vtime;
    own.wants = vm->wants && !vm->over;
    own.beat_ns = now_ns;
    write_own();
}

void brk_arbiter_busy(bool busy)
{
    if (own.busy == busy)
        return;
    own.busy = busy;
    write_own();
}

/* Rows of brokers that have ended or are stopped do not hold others back; nor do rows from before a
 * reboot, whose clock is ahead. */
static bool row_is_live(const struct row *r, uint64_t now_ns)
{
    uint64_t beat = r->beat_ns;

    return beat && (now_ns < beat ? beat - now_ns : now_ns - beat) <= FRESH_NS;
}

uint64_t brk_arbiter_slowest(uint64_t now_ns)
{
    uint64_t slowest = BRK_FAIR_NONE;

    if (file < 0)
        return slowest;
    read_others();
    for (unsigned i = 0; i < ROWS; i++) {
        const struct row *r = &others[i];

        if (r->wants && r->vtime < slowest && r->vtime <= VTIME_MAX && row_is_live(r, now_ns))
            slowest = r->vtime;
    }
    return slowest;
}

unsigned brk_arbiter_others_busy(uint64_t now_ns)
{
    unsigned n = 0;

    if (file < 0)
        return 0;
    read_others();
    for (unsigned i = 0; i < ROWS; i++)
        n += others[i].busy && row_is_live(&others[i], now_ns);
    return n;
}

/* Byte 0 is the table's lock, held for microseconds. It only decides which of two concurrent
 * brokers gets the memory; if a broker keeps it, the rest continue without it. */
static bool lock_table(void)
{
    for (unsigned i = 0; i < LOCK_TRIES && walk_allowed(); i++) {
        if (lock_byte(0))
            return true;
        usleep(100);
    }
    return false;
}

/* Also true for a stopped broker. If that cannot be determined, the row counts: memory is not
 * promised twice. */
static bool is_alive(unsigned i)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)i + 1, .l_len = 1};

    return !walk_allowed() || (lock_walk(F_OFD_GETLK, &l) && l.l_type != F_UNLCK);
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

    if (file < 0)
        return bytes <= total;
    locked = lock_table();
    if (!locked)
        SAY_ONCE("another broker keeps the table's lock: memory is committed without it");
    /* Published before reading the other rows: of two brokers without the lock, at least one sees
     * the other. */
    brk_arbiter_commit_force(bytes);
    ok = vgp_range_ok(committed_by_others(), bytes, total);
    if (!ok)
        brk_arbiter_commit_force(was);
    if (locked)
        unlock_byte(0);
    return ok;
}

void brk_arbiter_close(void)
{
    memset(&own, 0, sizeof(own));
    write_own();
    own_row = -1;
    row_tried_ns = walks.used_ns = grows.used_ns = 0;
    if (grower && waitpid(grower, NULL, WNOHANG))
        grower = 0;
    if (map != MAP_FAILED)
        munmap(map, sizeof(*map));
    map = MAP_FAILED;
    vgb_close(&file);
}
