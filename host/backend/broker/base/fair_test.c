/* SPDX-License-Identifier: MIT */
/* Shares, played with a clock of the test: who runs, for how long, and who is held. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "base/base.h"

#define MS 1000000u
#define TICK (4 * MS)
#define CPUS 2u
#define MOST 8u

/* Clients that use all they get; the processors are shared equally among those that are not held. */
struct play {
    struct brk_fair f[MOST];
    uint64_t cpu[MOST], limit[MOST]; /* used; what it can use in a tick, 0: all */
    unsigned n;
    uint64_t now, floor, window_at;
};

static uint64_t slowest(const struct play *p)
{
    uint64_t s = BRK_FAIR_NONE;

    for (unsigned i = 0; i < p->n; i++) {
        if (p->f[i].wants && !p->f[i].over && p->f[i].vtime < s)
            s = p->f[i].vtime;
    }
    return s;
}

static void tick(struct play *p)
{
    unsigned run = 0;

    for (unsigned i = 0; i < p->n; i++)
        run += !p->f[i].held;
    p->now += TICK;
    for (unsigned i = 0; i < p->n; i++) {
        uint64_t part = run ? CPUS * (uint64_t)TICK / run : 0;

        if (p->limit[i] && part > p->limit[i])
            part = p->limit[i];
        if (!p->f[i].held)
            p->cpu[i] += part;
        brk_fair_charge(&p->f[i], p->cpu[i]);
        brk_fair_cap(&p->f[i], (uint64_t)TICK * CPUS * p->f[i].cap / 100,
                     (uint64_t)50 * MS * CPUS * p->f[i].cap / 100);
    }
    if (p->now - p->window_at >= 40 * MS) {
        for (unsigned i = 0; i < p->n; i++)
            brk_fair_window(&p->f[i], p->limit[i] ? 0 : 40 * MS, p->now - p->window_at, p->floor);
        p->window_at = p->now;
    }
    uint64_t s = slowest(p);

    if (s != BRK_FAIR_NONE && s > p->floor)
        p->floor = s;
    for (unsigned i = 0; i < p->n; i++)
        brk_fair_hold(&p->f[i], s, BRK_FAIR_SLACK_NS);
}

static void play(struct play *p, unsigned ms)
{
    for (uint64_t end = p->now + (uint64_t)ms * MS; p->now < end;)
        tick(p);
}

static struct play with(unsigned n, const uint32_t *weights)
{
    struct play p = {.n = n, .now = MS};

    for (unsigned i = 0; i < n; i++)
        p.f[i].weight = weights[i];
    return p;
}

/* Within 2 % of what is due. */
static void assert_share(const struct play *p, unsigned i, uint64_t sum, unsigned percent)
{
    uint64_t share = p->cpu[i] * 10000 / sum;

    assert_uint_in_range(share, percent * 98, percent * 102);
}

static void test_weights(void **state)
{
    static const uint32_t two[] = {10, 90}, four[] = {10, 20, 30, 40}, equal[] = {100, 100};
    struct play p = with(2, two);

    (void)state;
    play(&p, 10000);
    assert_int_equal(p.cpu[0] + p.cpu[1], 2 * (p.now - MS)); /* nothing is lost */
    assert_share(&p, 0, p.cpu[0] + p.cpu[1], 10);
    p = with(4, four);
    play(&p, 10000);
    for (unsigned i = 0; i < 4; i++)
        assert_share(&p, i, 2 * (p.now - MS), 10 * (i + 1));
    p = with(2, equal);
    play(&p, 10000);
    assert_share(&p, 0, 2 * (p.now - MS), 50);
}

/* Alone, whatever the weight; and one that uses little keeps nobody from the rest. */
static void test_unused(void **state)
{
    static const uint32_t w[] = {1, 1000};
    struct play p = with(1, w);

    (void)state;
    play(&p, 1000);
    assert_int_equal(p.cpu[0], 2 * (p.now - MS));
    p = with(2, w);
    p.limit[1] = MS / 2; /* an eighth of a processor */
    play(&p, 10000);
    assert_true(p.cpu[0] > (p.now - MS) / 100 * 95); /* all of the processor that the play gives it */
    assert_true(p.cpu[1] > (p.now - MS) / 9);
}

/* Time that was not used is not saved up. */
static void test_return(void **state)
{
    static const uint32_t w[] = {100, 100};
    struct play p = with(2, w);
    uint64_t was;

    (void)state;
    p.limit[1] = 1;
    play(&p, 5000);
    p.limit[1] = 0;
    play(&p, 100);
    was = p.cpu[0];
    uint64_t other = p.cpu[1];
    play(&p, 2000);
    assert_uint_in_range(p.cpu[0] - was, 1900 * (uint64_t)MS, 2100 * (uint64_t)MS);
    assert_uint_in_range(p.cpu[1] - other, 1900 * (uint64_t)MS, 2100 * (uint64_t)MS);
}

static void test_change(void **state)
{
    static const uint32_t w[] = {100, 100};
    struct play p = with(2, w);
    uint64_t was[2];

    (void)state;
    play(&p, 3000);
    brk_fair_weight(&p.f[0], 10, p.floor);
    brk_fair_weight(&p.f[1], 90, p.floor);
    memcpy(was, p.cpu, sizeof(was));
    play(&p, 10000);
    assert_uint_in_range((p.cpu[0] - was[0]) * 1000 / (20000 * (uint64_t)MS), 95, 105);
}

static void test_cap(void **state)
{
    static const uint32_t w[] = {100, 100};
    struct play p = with(2, w);

    (void)state;
    p.f[0].cap = 25;
    play(&p, 10000);
    assert_share(&p, 0, 2 * (p.now - MS), 25);
    assert_share(&p, 1, 2 * (p.now - MS), 75); /* the one with the cap does not keep the other back */
    p.f[0].cap = 0;
    play(&p, 10000);
    assert_true(p.cpu[0] > (p.now - MS) / 10 * 7);
}

/* Far apart, and exact all the same. */
static void test_far(void **state)
{
    static const uint32_t w[] = {1, 1000};
    struct play p = with(2, w);

    (void)state;
    play(&p, 100000);
    assert_uint_in_range(p.cpu[0], 100 * (uint64_t)MS, 300 * (uint64_t)MS); /* 200 are due */
}

static void test_forgive(void **state)
{
    struct brk_fair f = {.weight = 10};

    (void)state;
    brk_fair_charge(&f, 1000 * MS);
    brk_fair_hold(&f, 0, BRK_FAIR_SLACK_NS);
    assert_true(f.held);
    brk_fair_forgive(&f, 5);
    assert_false(f.held);
    brk_fair_hold(&f, 5, BRK_FAIR_SLACK_NS);
    assert_false(f.held);
    brk_fair_hold(&f, BRK_FAIR_NONE, 0);
    assert_false(f.held);
}

/* Ahead from one slack on until it is level; far ahead from four on until it is within one. */
static void test_far_ahead(void **state)
{
    static const struct {
        uint64_t slowest_ms;
        bool ahead, far;
    } step[] = {{96, false, false}, {95, true, false}, {84, true, false},
                {83, true, true},   {95, true, true},  {96, true, false},
                {99, true, false},  {84, true, false}, {100, false, false}};
    struct brk_fair f = {.weight = 100, .vtime = 100 * MS};

    (void)state;
    for (unsigned i = 0; i < sizeof(step) / sizeof(step[0]); i++) {
        brk_fair_hold(&f, step[i].slowest_ms * MS, BRK_FAIR_SLACK_NS);
        assert_int_equal(f.ahead, step[i].ahead);
        assert_int_equal(f.far, step[i].far);
    }
    brk_fair_hold(&f, 0, BRK_FAIR_SLACK_NS);
    assert_true(f.far);
    brk_fair_forgive(&f, 50 * MS);
    assert_false(f.far);
}

/* ---- the file of the host ---- */

static void test_arbiter(void **state)
{
    char path[] = "/tmp/vgb-arbiter-XXXXXX";
    struct brk_fair vm = {.weight = 100, .vtime = 77, .wants = true};
    uint64_t now = 5000000000u;

    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_null(brk_arbiter_open(path));
    brk_arbiter_publish(&vm, now);
    assert_int_equal(brk_arbiter_slowest(now), BRK_FAIR_NONE); /* its own row does not count */
    brk_arbiter_close();
    /* Another broker's row: fresh, stale, not wanting. Row 0 was ours and is taken again. */
    assert_null(brk_arbiter_open(path));
    uint64_t row[3] = {now, 42, 1};
    assert_int_equal(pwrite(fd, row, sizeof(row), 128), sizeof(row));
    assert_int_equal(brk_arbiter_slowest(now), 42);
    assert_int_equal(brk_arbiter_slowest(now + 10000 * (uint64_t)MS), BRK_FAIR_NONE);
    const uint32_t busy = 1;
    assert_int_equal(pwrite(fd, &busy, sizeof(busy), 128 + 32), sizeof(busy));
    assert_int_equal(brk_arbiter_others_busy(now), 1);
    /* Read a little before it was written; and of a clock that has begun again since. */
    assert_int_equal(brk_arbiter_slowest(now - MS), 42);
    assert_int_equal(brk_arbiter_slowest(now - 1000 * (uint64_t)MS), BRK_FAIR_NONE);
    assert_int_equal(brk_arbiter_others_busy(now - 1000 * (uint64_t)MS), 0);
    row[2] = 0;
    assert_int_equal(pwrite(fd, row, sizeof(row), 128), sizeof(row));
    assert_int_equal(brk_arbiter_slowest(now), BRK_FAIR_NONE);
    brk_arbiter_close();
    /* Files that are none. */
    assert_int_equal(fchmod(fd, 0666), 0);
    assert_non_null(brk_arbiter_open(path));
    brk_arbiter_close();
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(write(fd, "something else entirely", 23), 23);
    assert_non_null(brk_arbiter_open(path));
    brk_arbiter_close();
    assert_non_null(brk_arbiter_open("/nonexistent/arbiter"));
    brk_arbiter_close();
    close(fd);
    unlink(path);
}

/* What a taken-over broker that shares the file can do to the others: it ends none, and delays none. */
static void test_arbiter_hostile(void **state)
{
    char path[] = "/tmp/vgb-arbiter-XXXXXX";
    struct brk_fair vm = {.weight = 100, .vtime = 77, .wants = true};
    uint64_t now = 5000000000u, row[8] = {now, 42, 1}, begin;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_null(brk_arbiter_open(path));
    brk_arbiter_publish(&vm, now);
    assert_int_equal(pwrite(fd, row, sizeof(row), 128), sizeof(row));
    assert_int_equal(brk_arbiter_slowest(now), 42);
    /* The file gets shorter: nobody holds us back, and our row comes again. */
    for (off_t length = 0; length <= 130; length += 65) {
        assert_int_equal(ftruncate(fd, length), 0);
        assert_int_equal(brk_arbiter_slowest(now), BRK_FAIR_NONE);
        assert_int_equal(brk_arbiter_others_busy(now), 0);
        assert_true(brk_arbiter_commit(10, 100));
        brk_arbiter_publish(&vm, now);
        assert_int_equal(pread(fd, row, sizeof(row), 64), sizeof(row));
        assert_int_equal(row[0], now);
        assert_int_equal(row[1], 77);
        assert_int_equal(row[3], 10);
    }
    /* What is written into our row is not believed, and does not stay. */
    memset(row, 0xff, sizeof(row));
    assert_int_equal(pwrite(fd, row, sizeof(row), 64), sizeof(row));
    assert_true(brk_arbiter_commit(20, 100));
    brk_arbiter_publish(&vm, now);
    assert_int_equal(pread(fd, row, sizeof(row), 64), sizeof(row));
    assert_int_equal(row[1], 77);
    assert_int_equal(row[3], 20);
    /* A virtual time with which ours would wrap. */
    memcpy(row, (uint64_t[8]){now, UINT64_MAX - 1, 1}, sizeof(row));
    assert_int_equal(pwrite(fd, row, sizeof(row), 128), sizeof(row));
    assert_int_equal(brk_arbiter_slowest(now), BRK_FAIR_NONE);
    /* The table's lock, kept for good: what fits is given all the same, what does not fit is not. */
    int held = open(path, O_RDWR | O_CLOEXEC);
    assert_true(held >= 0);
    assert_int_equal(fcntl(held, F_OFD_SETLK, &lock), 0);
    begin = vgb_now_ns();
    assert_true(brk_arbiter_commit(30, 100));
    assert_false(brk_arbiter_commit(101, 100));
    assert_true(vgb_now_ns() - begin < 5000 * (uint64_t)MS); /* tries are counted */
    assert_int_equal(pread(fd, row, sizeof(row), 64), sizeof(row));
    assert_int_equal(row[3], 30);
    brk_arbiter_close();
    /* With the row of a process that is there. */
    lock.l_start = 2;
    assert_int_equal(fcntl(held, F_OFD_SETLK, &lock), 0);
    assert_int_equal(pwrite(fd, (uint64_t[4]){0, 0, 0, 80}, 32, 128), 32);
    assert_null(brk_arbiter_open(path));
    assert_false(brk_arbiter_commit(30, 100));
    assert_true(brk_arbiter_commit(20, 100));
    assert_int_equal(pwrite(fd, (uint64_t[4]){0, 0, 0, UINT64_MAX}, 32, 128), 32);
    assert_false(brk_arbiter_commit(21, 100));
    brk_arbiter_close();
    close(held);
    close(fd);
    unlink(path);
}

/* A broker that holds the locks of all rows keeps no other from starting, and none from seeing what is promised. */
static void test_arbiter_rows_held(void **state)
{
    char path[] = "/tmp/vgb-arbiter-XXXXXX";
    struct brk_fair vm = {.weight = 100, .vtime = 77, .wants = true};
    uint64_t now = 5000000000u, row[8];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 255};

    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
    assert_null(brk_arbiter_open(path));
    brk_arbiter_publish(&vm, now);
    assert_int_equal(pwrite(fd, (uint64_t[4]){now, 42, 1, 80}, 32, 64), 32);
    assert_int_equal(brk_arbiter_slowest(now), 42);
    assert_true(brk_arbiter_commit(20, 100));
    assert_false(brk_arbiter_commit(21, 100));
    lock.l_type = F_UNLCK;
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
    brk_arbiter_publish(&vm, now + 10000 * (uint64_t)MS);
    assert_int_equal(pread(fd, row, sizeof(row), 64), sizeof(row));
    assert_int_equal(row[1], 77);
    assert_int_equal(row[3], 20);
    brk_arbiter_close();
    close(fd);
    unlink(path);
}

/* ---- a writer that never gives the inode's lock back ---- */

struct stuck {
    int file, uffd;
    char *page; /* not there: writing from it stops until the test gives it */
    pthread_t thread;
};

static void *stuck_write(void *arg)
{
    struct stuck *s = arg;

    return (void *)(uintptr_t)(pwrite(s->file, s->page, 64, 8192) == 64);
}

/* False: this kernel, or this user, has no userfaultfd that stops system calls. */
static bool stuck_begin(struct stuck *s, const char *path)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register r = {.range.len = VGP_PAGE, .mode = UFFDIO_REGISTER_MODE_MISSING};
    struct pollfd p = {.events = POLLIN};

    p.fd = s->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (s->uffd < 0)
        return false;
    assert_int_equal(ioctl(s->uffd, UFFDIO_API, &api), 0);
    s->page = mmap(NULL, VGP_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(s->page, MAP_FAILED);
    r.range.start = (uintptr_t)s->page;
    assert_int_equal(ioctl(s->uffd, UFFDIO_REGISTER, &r), 0);
    s->file = open(path, O_RDWR | O_CLOEXEC);
    assert_true(s->file >= 0);
    assert_int_equal(pthread_create(&s->thread, NULL, stuck_write, s), 0);
    assert_int_equal(poll(&p, 1, -1), 1); /* it has asked for the page: it has the lock */
    assert_int_equal(p.revents, POLLIN);
    return true;
}

static void stuck_end(struct stuck *s)
{
    struct uffdio_zeropage z = {.range = {(uintptr_t)s->page, VGP_PAGE}};
    void *wrote;

    assert_int_equal(ioctl(s->uffd, UFFDIO_ZEROPAGE, &z), 0);
    pthread_join(s->thread, &wrote);
    assert_non_null(wrote);
    munmap(s->page, VGP_PAGE);
    close(s->uffd);
    close(s->file);
}

static struct {
    const char *path;
    sem_t done;
    bool right;
} other;

/* All that a broker does with the file; another thread sees whether it comes back. */
static void *use_arbiter(void *arg)
{
    struct brk_fair vm = {.weight = 100, .vtime = 77, .wants = true};
    const uint64_t now = 5000000000u;

    (void)arg;
    brk_arbiter_publish(&vm, now);
    brk_arbiter_busy(true);
    other.right = brk_arbiter_slowest(now) == BRK_FAIR_NONE;
    other.right &= brk_arbiter_commit(10, 100);
    brk_arbiter_close();
    other.right &= !brk_arbiter_open(other.path); /* as a broker that starts */
    brk_arbiter_publish(&vm, now);
    sem_post(&other.done);
    return NULL;
}

/* `length`: what the file was cut to before. */
static void use_while_stuck(const char *path, off_t length)
{
    struct brk_fair vm = {.weight = 100, .vtime = 78, .wants = true};
    struct timespec end;
    struct stuck s;
    pthread_t thread;
    uint64_t row[16] = {0};

    assert_null(brk_arbiter_open(path));
    assert_int_equal(truncate(path, length), 0);
    if (!stuck_begin(&s, path)) {
        brk_arbiter_close();
        skip();
    }
    other.path = path;
    assert_int_equal(pthread_create(&thread, NULL, use_arbiter, NULL), 0);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20; /* else for ever */
    bool came_back = !sem_timedwait(&other.done, &end);

    stuck_end(&s);
    pthread_join(thread, NULL);
    assert_true(came_back);
    assert_true(other.right);
    /* The file is as it should be once the lock is free. Which row it is depends on when the child was slow. */
    for (unsigned i = 0; i < 1000 && row[1] != 78 && row[9] != 78; i++) {
        brk_arbiter_publish(&vm, 5000000000u);
        s.file = open(path, O_RDONLY | O_CLOEXEC);
        if (pread(s.file, row, sizeof(row), 64) != sizeof(row))
            memset(row, 0, sizeof(row));
        close(s.file);
        usleep(10000);
    }
    assert_true(row[1] == 78 || row[9] == 78);
    brk_arbiter_close();
}

static void test_arbiter_stuck_writer(void **state)
{
    char path[] = "/tmp/vgb-arbiter-XXXXXX";

    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    sem_init(&other.done, 0, 0);
    use_while_stuck(path, 64 + 255 * 64);
    use_while_stuck(path, 0);
    sem_destroy(&other.done);
    unlink(path);
}

/* Whether a broker of this user and this group besides its own may use the file. */
static bool may_use(const char *path, uid_t uid, gid_t group)
{
    pid_t child = fork();
    int is = 0;

    if (!child) {
        struct brk_fair vm = {.weight = 100, .vtime = 7, .wants = true};

        if (setgroups(1, &group) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
            _exit(77);
        if (brk_arbiter_open(path))
            _exit(1);
        brk_arbiter_publish(&vm, vgb_now_ns());
        _exit(0);
    }
    waitpid(child, &is, 0);
    assert_true(WIFEXITED(is) && WEXITSTATUS(is) <= 1);
    return !WEXITSTATUS(is);
}

/* A file that brokers of several users share is root's: who is in its group is the administrator's decision. */
static void test_arbiter_group(void **state)
{
    char path[] = "/tmp/vgb-arbiter-XXXXXX";

    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, 0660), 0);
    if (!geteuid()) {
        assert_null(brk_arbiter_open(path));
        brk_arbiter_close();
        assert_int_equal(fchmod(fd, 0662), 0);
        assert_non_null(brk_arbiter_open(path));
        brk_arbiter_close();
        assert_int_equal(fchmod(fd, 0660), 0);
        assert_int_equal(fchown(fd, 0, 4242), 0);
        assert_null(brk_arbiter_open(path));
        assert_true(may_use(path, 4243, 4242)); /* and this one sees it */
        assert_int_equal(brk_arbiter_slowest(vgb_now_ns()), 7);
        assert_false(may_use(path, 4243, 4244));
        brk_arbiter_close();
        /* Neither this user's nor root's, though root could open it. */
        assert_int_equal(fchown(fd, 12345, 0), 0);
    }
    assert_non_null(brk_arbiter_open(path));
    brk_arbiter_close();
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_unused),
        cmocka_unit_test(test_return),
        cmocka_unit_test(test_change),
        cmocka_unit_test(test_cap),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_forgive),
        cmocka_unit_test(test_far_ahead),
        cmocka_unit_test(test_arbiter),
        cmocka_unit_test(test_arbiter_hostile),
        cmocka_unit_test(test_arbiter_group),
        cmocka_unit_test(test_arbiter_rows_held),
        cmocka_unit_test(test_arbiter_stuck_writer),
    };

    return cmocka_run_group_tests_name("shares", tests, NULL, NULL);
}
