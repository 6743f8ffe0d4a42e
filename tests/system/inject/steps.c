// SPDX-License-Identifier: MIT
/*
 * steps own|other PAGE KIND MOST [FROM-STEP FROM-K]
 *     Walks through all steps: in each, the k-th call of KIND (a number of inject.h) fails, for k
 *     from 1 to MOST or until the step makes fewer calls. The calls are those of libcuda in this
 *     process (own), or of another process that maps PAGE (other): a worker. After each failure the
 *     step is repeated without a failure and must work, nothing may be leaked (memory blocks,
 *     descriptors, device memory), and the error must fit the kind. Exits with 3 if the worker has
 *     gone, after printing step and k.
 * steps init PAGE KIND MOST
 *     The same from cuInit to a kernel's result, in a child process for each k, which starts again
 *     in the same process after the failure.
 * steps once
 *     All steps, without failures.
 *
 * Lines that begin with FAIL are faults. The last line gives the total: "walked N failures in M
 * steps".
 */
#include "steps.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject.h"

/*
 * Growth with each failure is a leak. Exceptions: a table that grows once, and objects freed from
 * time to time: a worker frees events that are behind work (core/wrk_flow.c) when there are 64.
 */
#define ROUNDS 80

CUmodule steps_module;
CUfunction steps_add;
static struct inject_page *page;
static bool own;
static unsigned kind, faults, walked, stepped;

static int descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static int of_libcuda(struct dl_phdr_info *i, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (!strstr(i->dlpi_name, "/libcuda.so.1"))
        return 0;
    for (int n = 0; n < i->dlpi_phnum; n++) {
        const ElfW(Phdr) *p = &i->dlpi_phdr[n];

        if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
            atomic_store(&page->high, i->dlpi_addr + p->p_vaddr + p->p_memsz);
            atomic_store(&page->low, i->dlpi_addr + p->p_vaddr);
        }
    }
    return 1;
}

static void arm(unsigned k)
{
    atomic_store(&page->fired, 0);
    atomic_store(&page->left, k);
    atomic_store(&page->kind, kind);
}

static bool disarm(void)
{
    atomic_store(&page->kind, 0);
    atomic_store(&page->left, 0);
    return atomic_load(&page->fired) != 0;
}

static void fault(const struct step *s, unsigned k, const char *what, long value)
{
    printf("FAIL: %s, kind %u, failure %u: %s (%ld)\n", s->name, kind, k, what, value);
    faults++;
}

/* True if the error fits the injected failure. */
static bool fits(CUresult r)
{
    switch (kind) {
    case INJECT_MEMORY:
    case INJECT_MAPPING:
    case INJECT_PROVIDER:
        return r == CUDA_ERROR_OUT_OF_MEMORY;
    default:
        return r == CUDA_ERROR_OUT_OF_MEMORY || r == CUDA_ERROR_OPERATING_SYSTEM;
    }
}

/* True if the worker has gone, and with it this process's CUDA. */
static bool dead(void)
{
    size_t n, whole;

    return cuMemGetInfo(&n, &whole) != CUDA_SUCCESS;
}

static size_t device_memory(void)
{
    size_t n = 0, whole;

    cuCtxSynchronize();
    return cuMemGetInfo(&n, &whole) == CUDA_SUCCESS ? n : 0;
}

/* Repeats a failure to find leaks. Memory that the provider refuses to free does not count. */
static void leaks(const struct step *s, unsigned k)
{
    if (kind == INJECT_PROVIDER)
        return;
    int live = INT_MAX, fds = 0;
    size_t device = 0;
    bool grows = !(own && s->keeps), loses = true;

    for (int i = 0; i < ROUNDS && (grows || loses); i++) {
        arm(k);
        s->run();
        disarm();
        cuCtxSynchronize();
        if (i > 4)
            usleep(500); /* other threads free the released objects */
        if (s->run() != CUDA_SUCCESS)
            return; /* reported by the caller */
        size_t d = device_memory();
        int l = atomic_load(&page->live), f = descriptors();

        if (i) {
            grows &= l > live || f > fds;
            loses &= d < device;
        }
        live = l;
        fds = f;
        device = d;
    }
    if (grows)
        fault(s, k, "each time something is left, blocks of memory or descriptors", live);
    if (loses)
        fault(s, k, "each time device memory is lost", 0);
}

static void walk(const struct step *s, unsigned first, unsigned most)
{
    stepped++;
    for (int i = 0; i < 2; i++) {
        CUresult r = s->run();

        if (r != CUDA_SUCCESS) {
            fault(s, 0, "the step fails without a failure", r);
            return;
        }
    }
    leaks(s, 0);
    for (unsigned k = first; k <= most; k++) {
        arm(k);
        CUresult r = s->run();
        bool fired = disarm();

        /* An error of a call without a reply may come later, at the latest with a wait. */
        CUresult late = cuCtxSynchronize();

        if (r == CUDA_SUCCESS)
            r = late;

        if (!fired && r == CUDA_SUCCESS)
            return;
        walked++;
        if (r == STEPS_WRONG)
            fault(s, k, "success, but a wrong result", 0);
        if (dead()) {
            printf("died %s %u %d\n", s->name, k, r);
            exit(own ? 4 : 3);
        }
        if (!fired)
            fault(s, k, "an error where nothing has failed", r);
        /*
         * If the worker cannot tell whether a stream captures, a copy that is illegal in a capture
         * is refused.
         */
        bool refused = r == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && !strcmp(s->name, "capture");

        /*
         * Captured calls are not waited for: the end of the capture reports that it is incomplete.
         */
        refused |= r == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && !strcmp(s->name, "capture");

        if (r != CUDA_SUCCESS && r != STEPS_WRONG && !fits(r) && !refused)
            fault(s, k, "the error does not say what has failed", r);
        r = s->run();
        if (r != CUDA_SUCCESS)
            fault(s, k, "does not work afterwards", r);
        else
            leaks(s, k);
    }
}

static CUresult begin(void)
{
    CUcontext c;
    CUresult r;

    TRY(cuInit(0));
    TRY(cuDevicePrimaryCtxRetain(&c, 0));
    TRY(cuCtxSetCurrent(c));
    TRY(cuModuleLoadData(&steps_module, steps_ptx));
    TRY(cuModuleGetFunction(&steps_add, steps_module, "add"));
out:
    return r;
}

/*
 * Runs a child process in which the k-th call from its start fails; returns its status, -1: no such
 * call.
 */
static int start_anew(unsigned k)
{
    static const struct step whole = {"init", begin};
    pid_t pid = fork();
    int status;

    if (!pid) {
        arm(k);
        CUresult r = begin();
        bool fired = disarm();

        if (!fired)
            _exit(r == CUDA_SUCCESS ? 100 : 101);
        faults = 0;
        if (r != CUDA_SUCCESS && !fits(r) && r != CUDA_ERROR_NO_DEVICE)
            fault(&whole, k, "the error does not say what has failed", r);
        r = begin();
        if (r == CUDA_SUCCESS)
            r = steps_memory[0].run();
        if (r != CUDA_SUCCESS)
            fault(&whole, k, "does not work afterwards", r);
        fflush(stdout);
        _exit(faults != 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
        fault(&whole, k, "ended by a signal", pid < 0 ? 0 : WTERMSIG(status));
        return 1;
    }
    return WEXITSTATUS(status) == 100 ? -1 : WEXITSTATUS(status);
}

static int all(unsigned most, const char *name, unsigned k)
{
    const struct step *const lists[] = {steps_memory, steps_work};
    bool begun = !name;

    for (unsigned l = 0; l < 2; l++) {
        for (const struct step *s = lists[l]; s->name; s++) {
            bool here = name && !strcmp(s->name, name);

            begun |= here;
            if (begun)
                walk(s, here ? k : 1, most);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    int fd;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 2 && !strcmp(argv[1], "once")) {
        static struct inject_page none;

        page = &none;
        CUresult r = begin();

        if (r != CUDA_SUCCESS)
            printf("FAIL: the start: %d\n", r);
        else
            all(0, NULL, 0);
        return r != CUDA_SUCCESS || faults;
    }
    if (argc < 5 || (fd = open(argv[2], O_RDWR | O_CLOEXEC)) < 0)
        return 2;
    page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED)
        return 2;
    own = strcmp(argv[1], "other") != 0;
    kind = (unsigned)atoi(argv[3]);
    unsigned most = (unsigned)atoi(argv[4]);

    if (own) {
        dl_iterate_phdr(of_libcuda, NULL);
        if (!atomic_load(&page->low)) {
            printf("FAIL: our libcuda is not there\n");
            return 1;
        }
    }
    if (!strcmp(argv[1], "init")) {
        int r;

        stepped = 1;
        for (unsigned k = 1; k <= most && (r = start_anew(k)) >= 0; k++) {
            walked++;
            if (r > 1)
                printf("FAIL: init, kind %u, failure %u: status %d\n", kind, k, r);
            faults += r != 0;
        }
    } else {
        CUresult r = begin();

        if (r != CUDA_SUCCESS) {
            printf("FAIL: the start: %d\n", r);
            return 1;
        }
        all(most, argc > 6 ? argv[5] : NULL, argc > 6 ? (unsigned)atoi(argv[6]) : 0);
    }
    printf("walked %u failures in %u steps\n", walked, stepped);
    return faults != 0;
}
