/* SPDX-License-Identifier: MIT */
/* Clearing of windows: many at once, of the same bytes, and without threads. Clearing ends when the test says so (--wrap). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "clients.h"
#include "vgb_fd.h"

#define WINDOWS 64u
#define SIZE ((uint64_t)VGP_PAGE)
#define WIDE WINDOWS /* that of a window of two slices which begins in the first */
#define PUMP_MS 5000

static struct {
    unsigned begun, allowed;
    bool fails;
} slices[WINDOWS + 1];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool no_threads;
static int file;

static struct {
    struct brk_client c;
    unsigned done;
    bool ok;
} clients[WINDOWS];
static unsigned done;

int __wrap_fallocate(int fd, int mode, off_t offset, off_t len);
bool __real_brk_thread_start(void *(*fn)(void *), void *arg);
bool __wrap_brk_thread_start(void *(*fn)(void *), void *arg);

int __wrap_fallocate(int fd, int mode, off_t offset, off_t len)
{
    const unsigned i = (uint64_t)len > SIZE ? WIDE : (unsigned)((uint64_t)offset / SIZE);
    unsigned number;
    bool fails;

    pthread_mutex_lock(&lock);
    number = ++slices[i].begun;
    pthread_cond_broadcast(&changed);
    while (slices[i].allowed < number)
        pthread_cond_wait(&changed, &lock);
    fails = slices[i].fails || fcntl(fd, F_GETFD) < 0 || !(mode & FALLOC_FL_PUNCH_HOLE);
    pthread_mutex_unlock(&lock);
    return fails ? -1 : 0;
}

bool __wrap_brk_thread_start(void *(*fn)(void *), void *arg)
{
    return !no_threads && __real_brk_thread_start(fn, arg);
}

static void allow(unsigned slice)
{
    pthread_mutex_lock(&lock);
    slices[slice].allowed++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static unsigned begun(unsigned slice)
{
    unsigned n;

    pthread_mutex_lock(&lock);
    n = slices[slice].begun;
    pthread_mutex_unlock(&lock);
    return n;
}

static void await_begun(unsigned slice, unsigned n)
{
    pthread_mutex_lock(&lock);
    while (slices[slice].begun < n)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void on_cleared(struct brk_client *c, bool ok)
{
    assert_false(c->clearing);
    clients[c->slot].done++;
    clients[c->slot].ok = ok;
    done++;
}

/* The loop, until `n` clearings were reported. */
static void pump(unsigned n)
{
    for (unsigned i = 0; i < 500 && done < n; i++)
        brk_loop_once(PUMP_MS / 500);
    assert_int_equal(done, n);
}

/* The loop, until the clearing that nothing is reported of has ended. */
static void pump_descriptor(int fd)
{
    for (unsigned i = 0; i < 500 && fcntl(fd, F_GETFD) >= 0; i++)
        brk_loop_once(PUMP_MS / 500);
    assert_true(fcntl(fd, F_GETFD) < 0);
}

static struct brk_client *client(unsigned i, unsigned slice, unsigned n)
{
    struct brk_client *c = &clients[i].c;

    c->slot = i;
    c->window_fd = fcntl(file, F_DUPFD_CLOEXEC, 3);
    c->window_offset = slice * SIZE;
    c->window_size = n * SIZE;
    assert_true(c->window_fd >= 0);
    return c;
}

static int setup(void **state)
{
    (void)state;
    memset(slices, 0, sizeof(slices));
    memset(clients, 0, sizeof(clients));
    for (unsigned i = 0; i < WINDOWS; i++)
        clients[i].c.window_fd = -1;
    done = 0;
    no_threads = false;
    brk_opt.max_clients = WINDOWS;
    file = memfd_create("vgpu-windows", MFD_CLOEXEC);
    return file < 0 || ftruncate(file, WINDOWS * SIZE) || !brk_window_init();
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < WINDOWS; i++)
        vgb_close(&clients[i].c.window_fd);
    vgb_close(&file);
    return 0;
}

/* None waits for another one. */
static void test_many(void **state)
{
    (void)state;
    for (unsigned i = 0; i < WINDOWS; i++)
        assert_true(brk_window_clear(client(i, i, 1), on_cleared));
    for (unsigned i = 0; i < WINDOWS; i++)
        await_begun(i, 1);
    brk_loop_once(0);
    assert_int_equal(done, 0);
    allow(5);
    pump(1);
    assert_int_equal(clients[5].done, 1);
    assert_true(clients[5].ok);
    slices[7].fails = true;
    for (unsigned i = 0; i < WINDOWS; i++) {
        assert_int_equal(clients[i].c.clearing, i != 5);
        if (i != 5)
            allow(i);
    }
    pump(WINDOWS);
    for (unsigned i = 0; i < WINDOWS; i++) {
        assert_int_equal(clients[i].done, 1);
        assert_int_equal(clients[i].ok, i != 7);
    }
}

/* A late clearing never meets the next client, also if that has a window of another size; and what does not overlap goes on. */
static void test_order(void **state)
{
    struct brk_client *gone = client(0, 0, 1);
    const int fd = gone->window_fd;

    (void)state;
    brk_window_give_back(gone);
    assert_int_equal(gone->window_fd, -1);
    memset(gone, 0xff, sizeof(*gone)); /* it is freed */
    assert_true(brk_window_clear(client(1, 0, 1), on_cleared));
    assert_true(brk_window_clear(client(2, 1, 1), on_cleared));
    assert_true(brk_window_clear(client(3, 0, 2), on_cleared));
    await_begun(0, 1);
    await_begun(1, 1);
    allow(1);
    pump(1);
    assert_int_equal(clients[2].done, 1);
    usleep(20000);
    assert_int_equal(begun(0), 1);
    assert_int_equal(begun(WIDE), 0);
    assert_true(clients[1].c.clearing && clients[3].c.clearing);
    allow(0);
    pump_descriptor(fd);
    await_begun(0, 2);
    usleep(20000);
    assert_int_equal(begun(WIDE), 0);
    allow(0);
    pump(2);
    assert_int_equal(clients[1].done, 1);
    await_begun(WIDE, 1);
    assert_int_equal(clients[3].done, 0);
    allow(WIDE);
    pump(3);
    assert_int_equal(clients[3].done, 1);
    clients[0].c.window_fd = -1;
}

/* Without a thread a client is refused, also one that has waited for another clearing; what ends keeps its descriptor. */
static void test_no_threads(void **state)
{
    struct brk_client *c = client(0, 0, 1);

    (void)state;
    no_threads = true;
    assert_false(brk_window_clear(c, on_cleared));
    assert_false(c->clearing);
    brk_window_give_back(c);
    assert_true(c->window_fd >= 0);
    no_threads = false;
    assert_true(brk_window_clear(c, on_cleared));
    await_begun(0, 1);
    no_threads = true;
    assert_true(brk_window_clear(client(1, 0, 1), on_cleared));
    assert_true(brk_window_clear(client(2, 0, 2), on_cleared));
    const int fd = client(3, 1, 1)->window_fd;
    brk_window_give_back(&clients[3].c);
    allow(0);
    pump(3);
    assert_true(clients[0].ok);
    assert_false(clients[1].ok || clients[2].ok);
    pump_descriptor(fd);
    assert_int_equal(begun(0) + begun(1) + begun(WIDE), 1);
}

/* What no client counts for is bounded: beyond, the slot is left to its next client. */
static void test_bounded(void **state)
{
    int fd[4];

    (void)state;
    brk_opt.max_clients = 2;
    for (unsigned i = 0; i < 4; i++) {
        fd[i] = client(i, i, 1)->window_fd;
        brk_window_give_back(&clients[i].c);
        assert_int_equal(clients[i].c.window_fd, i < 2 ? -1 : fd[i]);
    }
    assert_true(brk_window_clear(&clients[2].c, on_cleared));
    allow(2);
    pump(1);
    allow(1);
    pump_descriptor(fd[1]);
    brk_window_give_back(&clients[3].c);
    assert_int_equal(clients[3].c.window_fd, -1);
    allow(0);
    allow(3);
    pump_descriptor(fd[0]);
    pump_descriptor(fd[3]);
    assert_int_equal(begun(0) + begun(1) + begun(2) + begun(3), 4);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(test_many), T(test_order), T(test_no_threads), T(test_bounded)};

    if (brk_loop_init())
        return 1;
    return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
