/* SPDX-License-Identifier: MIT */
/*
 * Threads for system calls that would hold up the loop. Such a call can outlast SIGKILL, and a process
 * ends with the last of its threads. Each thread therefore has a child process make the call, with the
 * address space and the descriptors of the broker, and waits for it in a way that can be killed. A call
 * that does not return keeps the child, not the broker.
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_STACK_BYTES (64u << 10)
#define STACK_BYTES (CHILD_STACK_BYTES + (64u << 10))
#define LEAVE_MS 500u /* maximum wait for calls under way when the broker ends */

struct job {
    void *(*fn)(void *);
    void *arg;
    pid_t broker;
};

static unsigned under_way;

/* Runs with the thread-local storage of the thread, which waits. */
static int child_run(void *arg)
{
    const struct job *j = arg;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == j->broker)
        j->fn(j->arg);
    return 0;
}

static bool run_in_child(struct job *j)
{
#ifdef __SANITIZE_THREAD__ /* keeps its locks over a clone(2) */
    (void)child_run;
    (void)j;
    return false;
#else
    char stack[CHILD_STACK_BYTES] __attribute__((aligned(16)));
    /* No exit signal: the child is none of those that are waited for elsewhere. */
    pid_t child = clone(child_run, stack + sizeof(stack), CLONE_VM | CLONE_FILES | CLONE_VFORK, j);

    if (child < 0)
        return false;
    while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
        continue;
    return true;
#endif
}

static void *thread_run(void *arg)
{
    struct job *j = arg;

    if (!run_in_child(j))
        j->fn(j->arg); /* out of processes */
    free(j);
    __atomic_fetch_sub(&under_way, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

int brk_thread_create(pthread_t *t, size_t stack_bytes, void *(*fn)(void *), void *arg)
{
    sigset_t all, was;
    pthread_attr_t at;
    int r = pthread_attr_init(&at);

    if (r)
        return -r;
    pthread_attr_setstacksize(&at, stack_bytes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was); /* signals are handled by the loop */
    r = pthread_create(t, &at, fn, arg);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    pthread_attr_destroy(&at);
    return -r;
}

bool brk_thread_start(void *(*fn)(void *), void *arg)
{
    struct job *j = malloc(sizeof(*j));
    pthread_t t;

    if (!j)
        return false;
    *j = (struct job){.fn = fn, .arg = arg, .broker = getpid()};
    __atomic_fetch_add(&under_way, 1, __ATOMIC_SEQ_CST);
    if (!brk_thread_create(&t, STACK_BYTES, thread_run, j)) {
        pthread_detach(t);
        return true;
    }
    __atomic_fetch_sub(&under_way, 1, __ATOMIC_SEQ_CST);
    free(j);
    return false;
}

/* Has another process keep the descriptors until the broker has ended: the calls may end by SIGKILL, and
 * the broker would then close what is still in their lists. */
static void keep_descriptors(void)
{
    pid_t broker = getpid();

    if (syscall(SYS_clone, CLONE_FILES, NULL, NULL, NULL, NULL))
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (syscall(SYS_getppid) == broker)
        pause();
    _exit(0);
}

void brk_thread_leave(int status)
{
    unsigned left;

    for (unsigned i = 0; i < LEAVE_MS && __atomic_load_n(&under_way, __ATOMIC_SEQ_CST); i++)
        usleep(1000);
    left = __atomic_load_n(&under_way, __ATOMIC_SEQ_CST);
    if (!left)
        return;
    vgb_log(VGB_WARN, "ending; %u processes stay until system calls on descriptors of others have returned",
            left);
    keep_descriptors();
    _exit(status); /* what runs at an exit(3) may wait for the threads */
}
