/* SPDX-License-Identifier: MIT */
/*
 * A lock of a file that ends with this process. A child that a system call keeps beyond SIGKILL shares the
 * broker's descriptors (brk_thread.c), and the kernel keeps a lock of flock(2) as long as one of them is open. A
 * thread with a table of descriptors of its own, which no child shares, therefore holds it.
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOCK_STACK_BYTES (64u << 10)
#define UNSHARE_TABLE 2u /* CLOSE_RANGE_UNSHARE */

static struct {
    pthread_t thread;
    sem_t taken, end;
    int fd, result;
    bool runs;
} lock;

static void close_from(unsigned from, unsigned to)
{
    struct rlimit r;

    if (from > to || !syscall(SYS_close_range, from, to, 0))
        return;
    if (!getrlimit(RLIMIT_NOFILE, &r) && to >= r.rlim_max)
        to = (unsigned)r.rlim_max;
    for (unsigned fd = from; fd < to; fd++) /* before Linux 5.9 */
        close((int)fd);
}

/* Gives this thread a table of descriptors with `fd` alone. False: the kernel, or a sandbox, does not. */
static bool own_table(int fd)
{
    if (syscall(SYS_close_range, (unsigned)fd + 1, ~0u, UNSHARE_TABLE)) {
        if (unshare(CLONE_FILES))
            return false;
        close_from((unsigned)fd + 1, ~0u);
    }
    if (fd > 0)
        close_from(0, (unsigned)fd - 1);
    return true;
}

static int lock_file(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) ? -errno : 0;
}

static void *hold_lock(void *arg)
{
    char path[40];
    int fd = -1;

    (void)arg;
    snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", lock.fd);
    if (!own_table(lock.fd)) {
        lock.result = lock_file(lock.fd); /* as long as anything has it open */
    } else if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
        lock.result = -errno;
    } else {
        close(lock.fd); /* of this table */
        lock.result = lock_file(fd);
    }
    sem_post(&lock.taken);
    while (!lock.result && sem_wait(&lock.end))
        continue;
    /* Said here: the kernel wakes pthread_join() before it closes the descriptors of a thread that ends. */
    if (!lock.result)
        flock(fd >= 0 ? fd : lock.fd, LOCK_UN);
    if (fd >= 0)
        close(fd);
    return NULL;
}

static void end_holder(void)
{
    sem_post(&lock.end);
    pthread_join(lock.thread, NULL);
    sem_destroy(&lock.taken);
    sem_destroy(&lock.end);
    lock.runs = false;
}

int brk_lock_take(int fd)
{
    int r;

    lock.fd = fd;
    sem_init(&lock.taken, 0, 0);
    sem_init(&lock.end, 0, 0);
    r = brk_thread_create(&lock.thread, LOCK_STACK_BYTES, hold_lock, NULL);
    if (r)
        return r;
    while (sem_wait(&lock.taken))
        continue;
    r = lock.result;
    lock.runs = true;
    if (r)
        end_holder();
    return r;
}

void brk_lock_drop(void)
{
    if (lock.runs)
        end_holder();
}
