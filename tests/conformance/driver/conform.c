// SPDX-License-Identifier: MIT
/*
 * conform [--list] [--alone] [case or prefix*...]: runs cases in child processes of this program,
 * so that a crash or a hang costs a single case and sticky errors stay within the child. The parent
 * never calls CUDA.
 */
#include "busy.h"
#include "conform.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern const struct cf_case *const __start_cf_cases[], *const __stop_cf_cases[];

#define BOOKS_MAX 1024
#define CF_CONTROL_FD 9 /* child -> parent: one struct note per event */

struct note {
    uint32_t index;
    uint8_t done, failed, skipped, padding;
};

static const char *current = "?";
static unsigned failures;
static bool skipped;
static jmp_buf leave;

bool cf_mode_run(const char *mode, const char *arg); /* process.c */

static size_t n_cases(void)
{
    return (size_t)(__stop_cf_cases - __start_cf_cases);
}

bool cf_real(void)
{
    const char *v = getenv("CONFORM_REAL");
    return v && *v == '1';
}

static void line(bool ok, const char *check, const char *got, const char *want)
{
    if (!ok)
        failures++;
    if (ok)
        printf("%s.%s %s\n", current, check, got);
    else
        printf("%s.%s %s FAIL want %s\n", current, check, got, want);
    fflush(stdout);
}

bool cf_rc(const char *check, CUresult got, CUresult want)
{
    line(got == want, check, cf_result_name(got), cf_result_name(want));
    return got == want;
}

bool cf_rc_in(const char *check, CUresult got, ...)
{
    char want[256] = "";
    bool ok = false;
    va_list ap;

    va_start(ap, got);
    for (int c = va_arg(ap, int); c != -1; c = va_arg(ap, int)) {
        size_t n = strlen(want);
        ok |= c == (int)got;
        snprintf(want + n, sizeof(want) - n, "%s%s", n ? " or " : "", cf_result_name(c));
    }
    va_end(ap);
    line(ok, check, cf_result_name(got), want);
    return ok;
}

bool cf_u64(const char *check, uint64_t got, uint64_t want)
{
    char a[24], b[24];
    snprintf(a, sizeof(a), "%llu", (unsigned long long)got);
    snprintf(b, sizeof(b), "%llu", (unsigned long long)want);
    line(got == want, check, a, b);
    return got == want;
}

bool cf_true(const char *check, bool got)
{
    line(got, check, got ? "yes" : "no", "yes");
    return got;
}

bool cf_str(const char *check, const char *got, const char *want)
{
    bool ok = got && !strcmp(got, want);
    line(ok, check, got ? got : "(null)", want);
    return ok;
}

void cf_skip(const char *why)
{
    printf("not run: conform %s: %s\n", current, why);
    fflush(stdout);
    skipped = true;
    longjmp(leave, 1);
}

void cf_need(const char *what, CUresult r)
{
    if (r == CUDA_SUCCESS)
        return;
    char check[200];
    snprintf(check, sizeof(check), "need[%.150s]", what);
    line(false, check, cf_result_name(r), "CUDA_SUCCESS");
    longjmp(leave, 1);
}

void cf_need_true(const char *what, bool ok)
{
    if (ok)
        return;
    line(false, what, "no", "yes");
    longjmp(leave, 1);
}

/*
 * Lists the objects alive in the provider, if it can: the software GPU, called directly. A case
 * releases its objects: an object left after it that did not exist before was leaked.
 */
static void (*books)(char *text, size_t size);

static void find_books(void)
{
    void *provider = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    books = provider ? (void (*)(char *, size_t))dlsym(provider, "sg_books") : NULL;
}

static void read_books(char text[BOOKS_MAX])
{
    text[0] = 0;
    if (books)
        books(text, BOOKS_MAX);
}

/* Threads that release a stream's objects may finish slightly later. */
static void compare_books(const char *before)
{
    char after[BOOKS_MAX];

    for (unsigned i = 0; i < 1000; i++) {
        read_books(after);
        if (!strcmp(before, after))
            return;
        usleep(1000);
    }
    line(false, "books", after, before);
}

/* Runs a case. False if the process cannot continue, as the case left a sticky error. */
static bool run_one(uint32_t index, int control)
{
    const struct cf_case *c = __start_cf_cases[index];
    struct note n = {.index = index};
    CUcontext ctx = NULL;
    volatile bool busy = false; /* set before a longjmp() */
    char before[BOOKS_MAX];

    current = c->name;
    failures = 0;
    skipped = false;
    read_books(before);
    if (write(control, &n, sizeof(n)) != sizeof(n))
        _exit(2);
    if (!setjmp(leave)) {
        if ((c->flags & CF_UB) && cf_real())
            cf_skip("undefined on a physical GPU's own driver");
        if (c->flags & CF_CTX) {
            NEED(cuInit(0));
            NEED(cuDevicePrimaryCtxRetain(&ctx, 0));
            NEED(cuCtxSetCurrent(ctx));
            if (busy_wanted()) {
                busy_begin();
                busy = true;
            }
        }
        c->run();
    }
    bool usable = true;
    if (ctx) {
        cf_module_forget();
        usable = cuCtxSynchronize() == CUDA_SUCCESS;
        if (busy)
            busy_end(usable);
        cuCtxSetCurrent(NULL);
        cuDevicePrimaryCtxRelease(0);
    } else if (usable && !failures && !skipped) {
        cuDevicePrimaryCtxReset(0); /* in case the case created it */
    }
    /* Three times: an audited worker then checks for leaks (host/backend/worker/main/wrk_audit.c). */
    for (unsigned i = 0; i < 3; i++)
        cuDeviceGraphMemTrim(0);
    /* Cases with two devices end with a failed context. */
    if (usable && !failures && !skipped && !(c->flags & CF_TWO))
        compare_books(before);
    n.done = 1;
    n.failed = failures > 0;
    n.skipped = skipped;
    if (write(control, &n, sizeof(n)) != sizeof(n))
        _exit(2);
    return usable;
}

/* Starts a child that runs the given cases in order; returns its pid and the pipe of its notes. */
static pid_t start_child(const uint32_t *index, size_t n, int *notes)
{
    int p[2];
    if (pipe(p))
        return -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char **argv = calloc(n + 3, sizeof(*argv));
        if (dup2(p[1], CF_CONTROL_FD) < 0 || !argv)
            _exit(126);
        close(p[0]);
        close(p[1]);
        argv[0] = "conform";
        argv[1] = "--child";
        for (size_t i = 0; i < n; i++)
            argv[i + 2] = (char *)__start_cf_cases[index[i]]->name;
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    close(p[1]);
    *notes = p[0];
    return pid;
}

static int find_case(const char *name)
{
    for (size_t i = 0; i < n_cases(); i++)
        if (!strcmp(__start_cf_cases[i]->name, name))
            return (int)i;
    return -1;
}

static void on_alarm(int number)
{
    (void)number;
}

/*
 * Raises a signal every millisecond: system calls of the library return early, without effect on
 * its results.
 */
static void start_alarms(void)
{
    struct itimerval every = {{0, 1000}, {0, 1000}};
    struct sigaction act = {.sa_handler = on_alarm}; /* no SA_RESTART */

    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

static int child_main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (getenv("CONFORM_ALARM"))
        start_alarms();
    find_books();
    for (int i = 0; i < argc; i++) {
        int c = find_case(argv[i]);
        if (c < 0)
            return 2;
        if (!run_one((uint32_t)c, CF_CONTROL_FD))
            break; /* the parent passes the rest to a new process */
    }
    return 0;
}

struct totals {
    unsigned passed, failed, skipped;
};

/* Runs cases index[0..n) in one child; returns the number of cases that ended. */
static size_t run_group(const uint32_t *index, size_t n, int limit_s, struct totals *t)
{
    int notes, status = 0;
    size_t over = 0;
    const char *why = NULL;
    char text[64];
    pid_t pid = start_child(index, n, &notes);

    if (pid < 0) {
        perror("conform: fork");
        exit(2);
    }
    for (;;) {
        struct pollfd pf = {.fd = notes, .events = POLLIN};
        struct note note;
        int r = poll(&pf, 1, limit_s * 1000);
        if (r < 0 && errno == EINTR)
            continue;
        if (r == 0) {
            why = "no end in time";
            kill(pid, SIGKILL);
            break;
        }
        if (read(notes, &note, sizeof(note)) != sizeof(note))
            break;
        if (!note.done)
            continue;
        over++;
        t->failed += note.failed;
        t->skipped += note.skipped && !note.failed;
        t->passed += !note.skipped && !note.failed;
        if (over == n) { /* the process still has to exit: exit handlers are part of the test */
            r = poll(&pf, 1, limit_s * 1000);
            if (r == 0) {
                printf("%s.exit no end in time FAIL want exit status 0\n",
                       __start_cf_cases[index[n - 1]]->name);
                kill(pid, SIGKILL);
                waitpid(pid, &status, 0);
                t->failed++;
                close(notes);
                return n;
            }
        }
    }
    waitpid(pid, &status, 0);
    close(notes);
    if (over && !status && !why)
        return over;
    if (!why) {
        if (WIFSIGNALED(status))
            snprintf(text, sizeof(text), "signal %d", WTERMSIG(status));
        else
            snprintf(text, sizeof(text), "exit status %d", WEXITSTATUS(status));
        why = text;
    }
    size_t at = over < n ? over : n - 1;
    printf("%s.process %s FAIL want exit status 0\n", __start_cf_cases[index[at]]->name, why);
    t->failed++;
    if (over == n) { /* the last case passed but the process did not exit cleanly */
        t->passed -= t->passed > 0;
        return n;
    }
    return over + 1;
}

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        size_t n = strlen(argv[i]);
        if (!strcmp(argv[i], name) || (n && argv[i][n - 1] == '*' && !strncmp(argv[i], name, n - 1)))
            return true;
    }
    return argc == 0;
}

int main(int argc, char **argv)
{
    struct totals t = {0};
    int limit_s = getenv("CONFORM_LIMIT") ? atoi(getenv("CONFORM_LIMIT")) : 60;
    bool alone = false;
    int first = 1;

    signal(SIGPIPE, SIG_IGN);
    if (argc >= 3 && !strcmp(argv[1], "--mode"))
        return cf_mode_run(argv[2], argc > 3 ? argv[3] : "") ? 0 : 2;
    if (argc >= 2 && !strcmp(argv[1], "--child"))
        return child_main(argc - 2, argv + 2);
    if (argc >= 2 && !strcmp(argv[1], "--list")) {
        for (size_t i = 0; i < n_cases(); i++)
            puts(__start_cf_cases[i]->name);
        return 0;
    }
    if (argc >= 2 && !strcmp(argv[1], "--alone")) {
        alone = true;
        first = 2;
    } else if (argc >= 2 && argv[1][0] == '-') {
        fprintf(stderr, "usage: conform [--list] [--alone] [case | prefix*]...\n"
                        "  --alone  every case in a process of its own\n"
                        "  CONFORM_LIMIT  seconds that one case may take (60)\n"
                        "  CONFORM_ALARM=1 a signal every millisecond\n"
                        "  CONFORM_BUSY=1 other threads keep streams busy meanwhile\n"
                        "  CONFORM_DEVICES=2 the cases that need two devices instead of the others\n"
                        "  CONFORM_REAL=1 a physical GPU's own driver: leaves out what is undefined there\n");
        return strcmp(argv[1], "--help") ? 2 : 0;
    }

    uint32_t *index = calloc(n_cases(), sizeof(*index));
    size_t n = 0;
    if (!index)
        return 2;
    for (size_t i = 0; i < n_cases(); i++)
        if (wanted(__start_cf_cases[i]->name, argc - first, argv + first) &&
            !(__start_cf_cases[i]->flags & CF_TWO) == !getenv("CONFORM_DEVICES"))
            index[n++] = (uint32_t)i;
    for (size_t i = 0; i < n;) {
        size_t k = 1;
        if (!alone && !(__start_cf_cases[index[i]]->flags & CF_ALONE))
            while (i + k < n && !(__start_cf_cases[index[i + k]]->flags & CF_ALONE))
                k++;
        for (size_t over = 0; over < k;)
            over += run_group(index + i + over, k - over, limit_s, &t);
        i += k;
    }
    free(index);
    if (!n)
        fprintf(stderr, "conform: no such case; --list shows them\n");
    printf("conform: %u passed, %u failed, %u skipped\n", t.passed, t.failed, t.skipped);
    return t.failed || !n;
}
