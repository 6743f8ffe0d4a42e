/* SPDX-License-Identifier: MIT */
/* Replaces pages that are in use by pages that other processes can open. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "memory/memory.h"

/*
 * Kernels and copies of other threads continue meanwhile. The pages are made read-only; a thread
 * that writes to them faults and waits in the handler; the pages are copied, and the copy replaces
 * them in a single step (mmap); then the write is repeated. Device memory has no other reason to
 * fault: the arena is mapped as a whole.
 */
static _Atomic bool moving;
static struct sigaction before;

static void on_fault(int sig, siginfo_t *si, void *uc)
{
    const struct timespec nap = {0, 100000};

    if (si->si_code == SEGV_ACCERR && sg_mem_in_arena((uint64_t)(uintptr_t)si->si_addr)) {
        int saved = errno;

        while (atomic_load(&moving))
            nanosleep(&nap, NULL);
        errno = saved;
        return;
    }
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(sig, si, uc);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(sig);
    } else {
        signal(sig, SIG_DFL); /* on return it faults again and ends as it would have */
    }
}

/* The handler stays installed: when the pages are replaced, a thread may have faulted without
   having entered it. */
static bool install_handler(void)
{
    struct sigaction now, mine = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    sigemptyset(&mine.sa_mask);
    if (sigaction(SIGSEGV, NULL, &now))
        return false;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault)
        return true;
    before = now;
    return sigaction(SIGSEGV, &mine, NULL) == 0;
}

/* Zero pages are neither copied nor allocated. */
static void copy_pages(uint8_t *dst, const uint8_t *src, uint64_t len)
{
    static const uint8_t zeroes[4096];

    for (uint64_t at = 0; at < len; at += sizeof(zeroes)) {
        if (memcmp(src + at, zeroes, sizeof(zeroes)))
            memcpy(dst + at, src + at, sizeof(zeroes));
    }
}

bool sg_share_move(uint64_t base, uint64_t len, int fd)
{
    void *at = (void *)(uintptr_t)base;
    void *copy = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    bool ok;

    if (copy == MAP_FAILED)
        return false;
    if (!install_handler()) {
        munmap(copy, len);
        return false;
    }
    atomic_store(&moving, true);
    ok = mprotect(at, len, PROT_READ) == 0;
    if (ok) {
        copy_pages(copy, at, len);
        ok = mmap(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
        if (!ok)
            mprotect(at, len, PROT_READ | PROT_WRITE);
    }
    atomic_store(&moving, false);
    munmap(copy, len);
    return ok;
}
