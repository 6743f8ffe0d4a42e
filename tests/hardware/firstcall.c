/* SPDX-License-Identifier: MIT */
/*
 * firstcall [--libcuda PATH] [--list] [--only STEP] [--limit SECONDS]: a CUDA driver's answers, step by step.
 *
 * Loads the driver library and prints a line per step: its name, the CUresult, its duration in us, and a
 * remark. A step that fails, crashes or hangs does not stop later steps: steps run in a child process, which
 * is restarted after a step that ended it. The last line has the counts. Exit status: 0 if every step was
 * tried.
 */
#include "firstcall.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "firstcall_ptx.h"

static const struct fc_step *const tables[] = {fc_basic_steps, fc_memory_steps, fc_work_steps,
                                               fc_share_steps};

static const struct fc_step *step_at(size_t index)
{
    for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++)
        for (const struct fc_step *s = tables[t]; s->name; s++)
            if (!index--)
                return s;
    return NULL;
}

double fc_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void fc_note(struct fc *fc, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsnprintf(fc->note, sizeof(fc->note), format, ap);
    va_end(ap);
}

/* Replaces a function that the library lacks. */
static CUresult absent(void)
{
    return CUDA_ERROR_NOT_FOUND;
}

#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)

static bool load_library(struct fc *fc)
{
    void *lib = dlopen(fc->library, RTLD_NOW | RTLD_LOCAL);

    if (!lib) {
        fprintf(stderr, "firstcall: %s\n", dlerror());
        return false;
    }
#define LOAD_(name) \
    fc->cu.name = (__typeof__(fc->cu.name))(uintptr_t)dlsym(lib, TEXT(name)); \
    if (!fc->cu.name) \
        fc->cu.name = (__typeof__(fc->cu.name))(uintptr_t)absent;
#define LOAD(name) LOAD_(name)
    FC_CALLS(LOAD)
    return true;
}

CUresult fc_context(struct fc *fc)
{
    if (fc->context)
        return CUDA_SUCCESS;
    FC_TRY(fc->cu.cuInit(0));
    FC_TRY(fc->cu.cuDeviceGet(&fc->device, 0));
    FC_TRY(fc->cu.cuDevicePrimaryCtxRetain(&fc->context, fc->device));
    return fc->cu.cuCtxSetCurrent(fc->context);
}

CUresult fc_load(struct fc *fc, const char *comment, CUmodule *module)
{
    size_t size = strlen(comment) + sizeof(firstcall_ptx) + 8;
    char *text = malloc(size);
    CUresult result;

    if (!text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    snprintf(text, size, "// %s\n%s", comment, (const char *)firstcall_ptx);
    result = fc->cu.cuModuleLoadData(module, text);
    free(text);
    return result;
}

const char *fc_text(void)
{
    return (const char *)firstcall_ptx;
}

CUresult fc_kernel(struct fc *fc, const char *name, CUfunction *f)
{
    FC_TRY(fc_context(fc));
    if (!fc->module)
        FC_TRY(fc_load(fc, "firstcall", &fc->module));
    return fc->cu.cuModuleGetFunction(f, fc->module, name);
}

CUresult fc_launch(struct fc *fc, CUfunction f, unsigned threads, CUstream s, void **params)
{
    return fc->cu.cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, 0, s, params, NULL);
}

/* The child: steps from index on, or only that step. Each prints a line at its start and a line at its
   end. */
static int run_steps(struct fc *fc, size_t index, bool alone)
{
    const struct fc_step *step;

    if (!load_library(fc))
        return 2;
    for (; (step = step_at(index)); index++) {
        double start;
        CUresult result;

        if ((step->flags & FC_ALONE) && !alone)
            break;
        printf("begin\n");
        fflush(stdout);
        fc->note[0] = 0;
        start = fc_now();
        result = step->run(fc);
        printf("end %d %.1f %s\n", (int)result, (fc_now() - start) * 1e6, fc->note);
        fflush(stdout);
        if (alone)
            break;
    }
    return 0;
}

/* Seconds that no step may exceed, whatever its own limit. */
static int longest = 3600;

static struct {
    int tried, succeeded, refused, died;
} sums;

static void print_step(const char *name, int result, double us, const char *note)
{
    printf("%-26s %4d %12.1f  %s\n", name, result, us, note);
    fflush(stdout);
    sums.tried++;
    if (result == CUDA_SUCCESS)
        sums.succeeded++;
    else if (result > 0)
        sums.refused++;
    else
        sums.died++;
}

/* Reads the child's output until it exits or hangs; returns the index behind the last step tried. */
static size_t follow(int from, pid_t child, size_t index)
{
    FILE *lines = fdopen(from, "r");
    char line[512];
    bool inside = false, hangs = false;
    int status;

    setvbuf(lines, NULL, _IONBF, 0);
    for (;;) {
        struct pollfd p = {.fd = from, .events = POLLIN};
        const struct fc_step *step = step_at(index);
        int result, used = 0;
        double us;
        int limit = step ? step->limit : 10;

        if (poll(&p, 1, (limit < longest ? limit : longest) * 1000) == 0) {
            hangs = true;
            kill(child, SIGKILL);
        }
        if (!fgets(line, sizeof(line), lines))
            break;
        line[strcspn(line, "\n")] = 0;
        if (!strcmp(line, "begin")) {
            inside = true;
        } else if (inside && sscanf(line, "end %d %lf %n", &result, &us, &used) >= 2 && used) {
            print_step(step ? step->name : "?", result, us, line + used);
            inside = false;
            index++;
        }
    }
    fclose(lines);
    waitpid(child, &status, 0);
    if (inside) {
        char why[64];

        if (hangs)
            snprintf(why, sizeof(why), "HANGS: no answer within its limit");
        else if (WIFSIGNALED(status))
            snprintf(why, sizeof(why), "DIED: signal %d", WTERMSIG(status));
        else
            snprintf(why, sizeof(why), "DIED: exit status %d", WEXITSTATUS(status));
        print_step(step_at(index) ? step_at(index)->name : "?", -1, 0, why);
        index++;
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
        exit(2);
    }
    return index;
}

static void supervise(const struct fc *fc, size_t index, bool one)
{
    const struct fc_step *step;

    while ((step = step_at(index))) {
        bool alone = one || (step->flags & FC_ALONE);
        char at[24];
        int pipes[2];
        pid_t child;

        snprintf(at, sizeof(at), "%zu", index);
        if (pipe(pipes) || (child = fork()) < 0) {
            perror("firstcall");
            exit(1);
        }
        if (!child) {
            dup2(pipes[1], 1);
            close(pipes[0]);
            close(pipes[1]);
            execl("/proc/self/exe", fc->self, "--libcuda", fc->library, alone ? "--child-one" : "--child", at,
                  (char *)NULL);
            _exit(127);
        }
        close(pipes[1]);
        index = follow(pipes[0], child, index);
        if (one)
            break;
    }
}

static int usage(void)
{
    fprintf(stderr,
            "usage: firstcall [--libcuda PATH] [--list] [--only STEP] [--limit SECONDS]\n"
            "Prints step, CUresult (-1: died or hangs), microseconds, remark. PATH: the driver library\n"
            "(default: libcuda.so.1, as the dynamic linker finds it). SECONDS: no step may take longer.\n");
    return 2;
}

int main(int argc, char **argv)
{
    struct fc fc = {.library = "libcuda.so.1", .self = argv[0]};
    const char *only = NULL, *peer = NULL, *child = NULL;
    size_t index = 0;
    bool alone = false;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--list")) {
            for (size_t k = 0; step_at(k); k++)
                puts(step_at(k)->name);
            return 0;
        }
        if (i + 1 == argc)
            return usage();
        if (!strcmp(argv[i], "--libcuda"))
            fc.library = argv[++i];
        else if (!strcmp(argv[i], "--only"))
            only = argv[++i];
        else if (!strcmp(argv[i], "--limit"))
            longest = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--child") || !strcmp(argv[i], "--child-one")) {
            alone = !strcmp(argv[i], "--child-one");
            child = argv[++i];
        } else if (!strcmp(argv[i], "--peer") && i + 2 < argc) {
            peer = argv[i + 1];
            child = argv[i + 2];
            i += 2;
        } else {
            return usage();
        }
    }
    if (peer)
        return load_library(&fc) ? (int)fc_peer(&fc, peer, child) & 255 : 255;
    if (child)
        return run_steps(&fc, strtoul(child, NULL, 10), alone);
    while (only && step_at(index) && strcmp(step_at(index)->name, only))
        index++;
    if (!step_at(index) || longest < 1)
        return usage();
    supervise(&fc, index, only != NULL);
    printf("firstcall: %d steps, %d succeeded, %d refused, %d died\n", sums.tried, sums.succeeded,
           sums.refused, sums.died);
    return 0;
}
