/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "fork.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__asan_default_options(void)
{
    return "exitcode=77:detect_leaks=0:allocator_may_return_null=1:handle_abort=1";
}
const char *__ubsan_default_options(void)
{
    return "exitcode=77";
}

/* ---- coverage of the child ---- */

extern char cntrs_begin[] __asm__("__start___sancov_cntrs");
extern char cntrs_end[] __asm__("__stop___sancov_cntrs");

/* Whole pages of the counters are shared with later processes, and keep their contents. */
void fz_share_counters(void)
{
    uintptr_t from = ((uintptr_t)cntrs_begin + 4095) & ~(uintptr_t)4095,
              to = (uintptr_t)cntrs_end & ~(uintptr_t)4095;

    if (to <= from)
        return;
    void *copy = malloc(to - from);
    memcpy(copy, (void *)from, to - from);
    if (mmap((void *)from, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) == MAP_FAILED)
        abort();
    memcpy((void *)from, copy, to - from);
    free(copy);
}

/* Counters outside whole shared pages (in a small program all of them): an exiting process copies them
   here. */
static uint8_t *left;

static void leave_counters(void)
{
    for (size_t i = 0; left && i < (size_t)(cntrs_end - cntrs_begin); i++)
        left[i] = (uint8_t)cntrs_begin[i];
}

static void take_counters(void)
{
    for (size_t i = 0; left && i < (size_t)(cntrs_end - cntrs_begin); i++) {
        if (left[i] > (uint8_t)cntrs_begin[i])
            cntrs_begin[i] = (char)left[i];
    }
}

static void make_left(void)
{
    size_t n = (size_t)(cntrs_end - cntrs_begin);

    if (!left)
        left = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (left == MAP_FAILED)
        abort();
    memset(left, 0, n);
}

int fz_in_child(const char *name, void (*run)(const uint8_t *data, size_t size), const uint8_t *data,
                size_t size)
{
    int status = 0;

    make_left();
    pid_t pid = fork();

    if (pid == 0) {
        run(data, size);
        leave_counters();
        _exit(0);
    }
    if (pid < 0)
        return 0;
    while (waitpid(pid, &status, 0) < 0)
        ;
    take_counters();
    if (WIFSIGNALED(status) || WEXITSTATUS(status) == FZ_BAD_EXIT) {
        fprintf(stderr, "%s: a process ended with status %#x\n", name, (unsigned)status);
        abort();
    }
    return 0;
}

static unsigned stacks; /* already reported */

static void say_stack(int sig)
{
    (void)sig;
    fprintf(stderr, "thread %ld:\n", (long)gettid());
    __sanitizer_print_stack_trace();
    __atomic_add_fetch(&stacks, 1, __ATOMIC_RELEASE);
}

void fz_say_stacks(int fd)
{
    DIR *d = opendir("/proc/self/task");
    struct dirent *e;
    char path[40], text[120] = "";

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    FILE *f = fopen(path, "re");
    while (f && fgets(text, sizeof(text), f))
        fprintf(stderr, "descriptor: %s", text);
    if (f)
        fclose(f);
    signal(SIGUSR1, say_stack);
    while (d && (e = readdir(d))) {
        const pid_t thread = (pid_t)atoi(e->d_name);
        const unsigned before = stacks;

        if (thread <= 0 || tgkill(getpid(), thread, SIGUSR1))
            continue;
        for (unsigned ms = 0; ms < 2000 && __atomic_load_n(&stacks, __ATOMIC_ACQUIRE) == before; ms++)
            usleep(1000);
    }
    if (d)
        closedir(d);
}

void *fz_dlsym(void *from, const char *name)
{
    (void)from;
    return dlsym(RTLD_DEFAULT, name);
}
