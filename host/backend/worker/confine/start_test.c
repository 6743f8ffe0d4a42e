/* SPDX-License-Identifier: MIT */
/* What NVIDIA's library does while a worker starts, and that it is over once a client is served. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "confine.h"
#include "in_sandbox.h"

static int listening = -1;

static void *stay(void *arg)
{
    *(_Atomic pid_t *)arg = gettid();
    while (!sleep(1000))
        ;
    return NULL;
}

/* What cuInit of NVIDIA's driver 580 does, and gives 304 when one of these fails. */
static int do_start(void)
{
    struct sockaddr_un mps = {.sun_family = AF_UNIX, .sun_path = "/tmp/nvidia-mps/control"};
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    static _Atomic pid_t thread;
    char path[64];
    pthread_t t;
    int on = 1, n;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ||
        !connect(fd, (struct sockaddr *)&mps, sizeof(mps)) || errno != ENOENT)
        return 1;
    close(fd);
    listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    n = snprintf(own.sun_path + 1, sizeof(own.sun_path) - 1, "cuda-uvmfd-test-%d", getpid());
    if (listening < 0 ||
        bind(listening, (struct sockaddr *)&own,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) ||
        listen(listening, 128))
        return 2;
    if (pthread_create(&t, NULL, stay, (void *)&thread))
        return 3;
    while (!thread)
        sched_yield();
    snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)thread);
    FILE *f = fopen(path, "w");
    if (!f || fputs("cuda00001400001", f) < 0 || fclose(f))
        return 4;
    /* What could send without a connection is no part of it. */
    return socket(AF_UNIX, SOCK_DGRAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0 ||
           socket(AF_INET, SOCK_SEQPACKET, 0) >= 0 || accept(listening, NULL, NULL) >= 0;
}

/* Nobody is answered, and nothing else listens, once a client is served. */
static int do_accept(void)
{
    return accept(listening, NULL, NULL) < 0 && errno == EPERM && socket(AF_UNIX, SOCK_SEQPACKET, 0) < 0 &&
                   errno == EPERM
               ? 5
               : 1;
}

static int do_listen(void)
{
    listen(listening, 1);
    return 1;
}

static int when_started(int (*fn)(void))
{
    return in_sandbox_with((struct wrk_sandbox){.provider = "libcuda.so.1"}, false, do_start, fn);
}

static void test_start(void **state)
{
    (void)state;
    assert_int_equal(when_started(do_accept), 5);
    assert_int_equal(when_started(do_listen), -SIGSYS);
}

/* The log has what would have been refused before a client is served, too. */
static void test_log(void **state)
{
    struct wrk_sandbox s = {.provider = "libcuda.so.1", .broker = getpid(), .mode = WRK_SANDBOX_LOG};
    char text[4096] = "", err[300];
    int p[2], status;
    size_t n = 0;
    ssize_t k;

    (void)state;
    assert_int_equal(pipe(p), 0);
    pid_t pid = fork();
    if (!pid) {
        dup2(p[1], 2);
        if (wrk_sandbox_begin(&s, err, sizeof(err)) || socket(AF_INET, SOCK_DGRAM, 0) < 0 ||
            wrk_sandbox_narrow(&s, false, err, sizeof(err)))
            _exit(1);
        _exit(0);
    }
    close(p[1]);
    while (n + 1 < sizeof(text) && (k = read(p[0], text + n, sizeof(text) - 1 - n)) > 0)
        n += (size_t)k;
    close(p[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_non_null(strstr(text, "would refuse socket"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_start), cmocka_unit_test(test_log)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
