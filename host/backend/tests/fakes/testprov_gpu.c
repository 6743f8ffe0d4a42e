/* SPDX-License-Identifier: MIT */
/* A GPU that all workers share: it works on one thing after the other and cannot be interrupted. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "testprov.h"

static struct testprov_gpu *gpu;
static unsigned own = TESTPROV_CLIENTS;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void find(void)
{
    const char *path = getenv("VGPU_TEST_GPU");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *p = fd >= 0 ? mmap(NULL, sizeof(*gpu), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (fd >= 0)
        close(fd);
    if (p == MAP_FAILED)
        return;
    gpu = p;
    for (own = 0; own < TESTPROV_CLIENTS - 1; own++) {
        unsigned none = 0;

        if (__atomic_compare_exchange_n(&gpu->of[own].pid, &none, (unsigned)getpid(), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            break;
    }
}

unsigned long long testprov_gpu(size_t n, bool dear, unsigned long long after_ns)
{
    unsigned long long now = now_ns(), was, start, end;

    pthread_once(&once, find);
    if (!gpu)
        return now + n * 1000000u;
    now = now > after_ns ? now : after_ns;
    was = __atomic_load_n(&gpu->until_ns, __ATOMIC_RELAXED);
    do {
        start = was > now ? was : now;
        end = start + n * 1000u * (dear ? TESTPROV_DEAR : 1u);
    } while (
        !__atomic_compare_exchange_n(&gpu->until_ns, &was, end, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    __atomic_fetch_add(&gpu->of[own].used_ns, end - start, __ATOMIC_RELAXED);
    __atomic_fetch_add(&gpu->of[own].waited_ns, start - now, __ATOMIC_RELAXED);
    __atomic_fetch_add(&gpu->of[own].pieces, 1, __ATOMIC_RELAXED);
    return end;
}
