/* SPDX-License-Identifier: MIT */
/*
 * walk [--list] [--ours] [--limit SECONDS] [NAME | PREFIX*]...
 *
 * Calls every entry point of cuda.h with bad arguments, each entry point and phase in a separate
 * child process, which then checks that the library still works. Prints a line per call: `name
 * phase label result`. A crash or hang affects a single vector: it is a line too, and the walk
 * continues after it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "walk.h"

static const char *const phase_names[] = {"before-init", "no-context", "context", "capture"};

bool wk_ours;

/* Shared with the children: current position. */
static struct place {
    volatile unsigned vector; /* of the entry point: being called */
    volatile unsigned steps;  /* incremented by every call: the child is alive */
    volatile unsigned calls, failures;
    volatile bool again; /* the child requests a successor that starts after `vector` */
    char label[96];
} * place;

static void line(const char *entry, const char *phase, const char *label, const char *result,
                 const char *want)
{
    char text[1024];
    int n = want == NULL ? snprintf(text, sizeof(text), "%s %s (%s) %s\n", entry, phase, label, result)
                         : snprintf(text, sizeof(text), "%s %s (%s) %s FAIL want %s\n", entry, phase, label,
                                    result, want);

    if (want != NULL)
        place->failures++;
    if (write(STDOUT_FILENO, text, (size_t)n) != n)
        _exit(3);
}

static void step(const char *label)
{
    snprintf(place->label, sizeof(place->label), "%s", label);
    place->steps++;
}

/* Pops and destroys all contexts left by earlier calls. */
static void drop_contexts(void)
{
    CUcontext c;

    for (int i = 0; i < 64 && cuCtxGetCurrent(&c) == CUDA_SUCCESS && c != NULL; i++)
        cuCtxSetCurrent(NULL);
}

/*
 * Determines the bytes of its arguments written by a call. A write of the fill value itself is
 * found by a second call with another value.
 */
static const char *call_watched(const struct wk_entry *e, enum wk_phase phase, void *fn, unsigned n,
                                struct wk_vector *v, CUresult *r)
{
    static char text[700];
    struct wk_vector again;
    char capture[64] = "";

    wk_written_fill(e, v, 0xee);
    *r = e->call(fn, v->args);
    if (phase == WK_CAPTURE)
        snprintf(capture, sizeof(capture), "%s", wk_capture_end(e, v));
    if (*r == CUDA_SUCCESS && strstr(e->name, "toHAsync") != NULL)
        cuCtxSynchronize(); /* makes the copy visible */
    if (wk_written_look(e, v) && (phase == WK_BEFORE_INIT || wk_live_start()) &&
        wk_vector_make(e, phase, n, &again)) {
        if (phase == WK_NO_CONTEXT)
            drop_contexts();
        wk_written_fill(e, &again, 0x11);
        e->call(fn, again.args);
        if (phase == WK_CAPTURE)
            wk_capture_end(e, &again);
        wk_written_look(e, &again);
    }
    snprintf(text, sizeof(text), "%s", wk_written_text(e));
    if (*capture != '\0')
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", *text == '\0' ? " wrote " : ",",
                 capture);
    return text;
}

/* Runs in the child: vectors of one entry point in one phase, starting with `first`. */
static void child(const struct wk_entry *e, enum wk_phase phase, unsigned first)
{
    void *fn = dlsym(RTLD_DEFAULT, e->name);
    struct wk_vector v;

    if (fn == NULL && e->beyond && !wk_ours)
        _exit(0); /* a provider need not have it */
    if (fn == NULL) {
        line(e->name, phase_names[phase], "export", "missing", "an export");
        _exit(0);
    }
    if (phase != WK_BEFORE_INIT && cuInit(0) != CUDA_SUCCESS) {
        line(e->name, phase_names[phase], "cuInit", "fails", "a library that works");
        _exit(0);
    }
    for (unsigned n = first;; n++) {
        const char *name, *want, *wrote;
        char result[800];
        CUresult r;

        step("preparing");
        if (phase != WK_BEFORE_INIT && !wk_live_start()) {
            place->again = n > first; /* a sticky error: the next process continues */
            place->vector = n;
            if (n == first)
                line(e->name, phase_names[phase], "preparing", "fails", "a library that works");
            _exit(0);
        }
        if (!wk_vector_make(e, phase, n, &v))
            break;
        place->vector = n;
        if (phase == WK_NO_CONTEXT)
            drop_contexts();
        step(v.label);
        wrote = call_watched(e, phase, fn, n, &v, &r);
        step("after");
        place->calls++;
        name = wk_result_name(r);
        want = wk_judge(e, phase, &v, r);
        snprintf(result, sizeof(result), "%s%s", name != NULL ? name : "a number", wrote);
        line(e->name, phase_names[phase], v.label, result, want);
    }
    if (phase != WK_BEFORE_INIT) {
        step("working");
        if (!wk_works())
            line(e->name, phase_names[phase], "afterwards", "broken", "a library that works");
    }
    step("exit");
    exit(0); /* with destructors, as exit must work too */
}

/* Waits for a child; false if it made no step for `limit` seconds and was killed. */
static bool await(pid_t pid, unsigned limit, int *status)
{
    struct timespec nap = {0, 2000000};
    unsigned last = place->steps;
    time_t since = time(NULL);

    for (;;) {
        pid_t got = waitpid(pid, status, WNOHANG);

        if (got == pid)
            return true;
        if (got < 0 && errno != EINTR)
            return true;
        if (place->steps != last) {
            last = place->steps;
            since = time(NULL);
        } else if (time(NULL) - since > (time_t)limit) {
            kill(pid, SIGKILL);
            waitpid(pid, status, 0);
            return false;
        }
        nanosleep(&nap, NULL);
    }
}

static void walk(const struct wk_entry *e, enum wk_phase phase, unsigned limit)
{
    unsigned first = 0;

    for (;;) {
        char text[64];
        int status = 0;
        bool in_time;
        pid_t pid;

        place->vector = first;
        place->again = false;
        unlink(wk_name); /* files written by other calls */
        unlink(wk_unknown_name);
        pid = fork();
        if (pid == 0)
            child(e, phase, first);
        if (pid < 0) {
            line(e->name, phase_names[phase], "fork", "fails", "a process");
            return;
        }
        in_time = await(pid, limit, &status);
        if (in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            if (!place->again)
                return;
            first = place->vector;
            continue;
        }
        if (!in_time)
            snprintf(text, sizeof(text), "no return in %u s", limit);
        else if (WIFSIGNALED(status))
            snprintf(text, sizeof(text), "signal %d", WTERMSIG(status));
        else
            snprintf(text, sizeof(text), "exit %d", WEXITSTATUS(status));
        line(e->name, phase_names[phase], place->label, text, "a result");
        first = place->vector + 1;
    }
}

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        size_t n = strlen(argv[i]);

        if (strcmp(name, argv[i]) == 0 ||
            (n > 0 && argv[i][n - 1] == '*' && strncmp(name, argv[i], n - 1) == 0))
            return true;
    }
    return argc == 0;
}

int main(int argc, char **argv)
{
    unsigned limit = 120, entries = 0;
    int first = 1;

    while (first < argc && argv[first][0] == '-') {
        if (strcmp(argv[first], "--limit") == 0 && first + 1 < argc) {
            limit = (unsigned)atoi(argv[++first]);
        } else if (strcmp(argv[first], "--ours") == 0) {
            wk_ours = true;
        } else if (strcmp(argv[first], "--list") == 0) {
            for (unsigned i = 0; i < wk_entry_count; i++)
                puts(wk_entries[i].name);
            return 0;
        } else {
            fprintf(stderr, "usage: walk [--list] [--ours] [--limit SECONDS] [NAME | PREFIX*]...\n");
            return 2;
        }
        first++;
    }
    place = mmap(NULL, sizeof(*place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED)
        return 3;
    for (unsigned i = 0; i < wk_entry_count; i++) {
        if (!wanted(wk_entries[i].name, argc - first, argv + first))
            continue;
        entries++;
        for (int phase = 0; phase < WK_PHASES; phase++)
            walk(&wk_entries[i], (enum wk_phase)phase, limit);
    }
    printf("walk: %u entry points, %u calls, %u failures\n", entries, place->calls, place->failures);
    return place->failures > 0;
}
