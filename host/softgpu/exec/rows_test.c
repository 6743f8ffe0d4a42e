/* SPDX-License-Identifier: MIT */
/*
 * Kernels with values that are uniform in whole rows, uniform loop counters and loads from uniform
 * addresses (exec/rows_test.h), in blocks of all shapes, one after another and from two threads at
 * once. Results and faults (message, thread, line) equal those of a child process without native
 * code, which treats no value of a block as uniform.
 */
#include "exec/bytecode.h"
#include "exec/rows_test.h"
#include "exec/exec_test.h"
#include "jit/jit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 3
#define MAX_THREADS (BLOCKS * 256)
#define TABLE_WORDS 1024
#define SCRATCH (1u << 18)
#define TURNS 3

static const uint32_t shapes[][3] = {{32, 4, 1}, {64, 2, 1}, {96, 1, 1}, {33, 2, 1}, {256, 1, 1},
                                     {16, 8, 1}, {32, 1, 3}, {48, 2, 1}, {32, 1, 1}, {64, 2, 2},
                                     {1, 8, 4},  {1, 8, 8},  {1, 1, 1}};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0])) /* no multiple of 7: each_case() */

struct outcome {
    int result;
    uint32_t line, thread[3], block[3];
    char message[SG_DIAG_MAX];
    uint32_t words[MAX_THREADS];
};

static struct outcome (*expected)[SHAPES]; /* [ROWS_CASES], shared with the child */

struct buffers {
    uint64_t out, table, scratch; /* the kernel's parameters */
};

static struct buffers buffers_new(void)
{
    uint32_t *table = tm_alloc(TABLE_WORDS * 4);
    const struct buffers b = {(uintptr_t)tm_alloc(MAX_THREADS * 4), (uintptr_t)table,
                              (uintptr_t)tm_alloc(SCRATCH)};

    for (uint32_t i = 0; i < TABLE_WORDS; i++)
        table[i] = (i * 2654435761u + 12345) ^ i << 7;
    return b;
}

static void run_shape(struct tk *t, const struct buffers *b, const uint32_t shape[3], struct outcome *o)
{
    const uint32_t grid[3] = {BLOCKS, 1, 1};
    struct sg_fault f = {0};

    memset(o, 0, sizeof(*o));
    memset((void *)(uintptr_t)b->out, 0, MAX_THREADS * 4);
    memset((void *)(uintptr_t)b->scratch, 0, SCRATCH);
    o->result = tk_run3(t, grid, shape, 0, b, &f);
    if (!o->result) {
        memcpy(o->words, (void *)(uintptr_t)b->out, MAX_THREADS * 4);
        return;
    }
    o->line = f.line;
    memcpy(o->thread, f.thread, sizeof(o->thread));
    memcpy(o->block, f.block, sizeof(o->block));
    snprintf(o->message, sizeof(o->message), "%s", f.message);
}

static bool fits(const struct rows_case *c, const uint32_t shape[3])
{
    return c->kind != WARPS || shape[0] % 32 == 0 || (32 % shape[0] == 0 && shape[1] <= 8 && shape[2] <= 4);
}

static bool open_case(struct tk *t, const struct rows_case *c)
{
    static char text[1 << 15];

    snprintf(text, sizeof(text), "%s%s%s", ROWS_HEAD, c->body, ROWS_TAIL);
    return tk_open(t, text, "t");
}

/* All cases without native code, in a process of its own with the same addresses. */
static bool compute_expected(const struct buffers *b)
{
    int status = 1;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        setenv("VGPU_SOFT_JIT", "0", 1);
        for (size_t i = 0; i < ROWS_CASES; i++) {
            struct tk t;

            if (!open_case(&t, &rows_cases[i])) {
                printf("%s: refused\n", rows_cases[i].name);
                fflush(stdout);
                _exit(2);
            }
            for (size_t s = 0; s < SHAPES; s++)
                run_shape(&t, b, shapes[s], &expected[i][s]);
            tk_close(&t);
        }
        _exit(sg_jit_available() ? 3 : 0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

static bool same(const struct outcome *got, const struct outcome *want, char why[256])
{
    for (uint32_t i = 0; i < MAX_THREADS; i++)
        if (got->words[i] != want->words[i]) {
            snprintf(why, 256, "word %u is 0x%x, expected 0x%x; %d %.100s", i, got->words[i], want->words[i],
                     got->result, got->message);
            return false;
        }
    snprintf(why, 256, "%d line %u thread %u,%u: %.90s; expected %d line %u thread %u,%u: %.90s", got->result,
             got->line, got->thread[0], got->thread[1], got->message, want->result, want->line,
             want->thread[0], want->thread[1], want->message);
    return got->result == want->result && got->line == want->line && !memcmp(got->thread, want->thread, 12) &&
           !memcmp(got->block, want->block, 12) && !strcmp(got->message, want->message);
}

static void each_case(const struct buffers *b)
{
    static struct outcome got;

    for (size_t i = 0; i < ROWS_CASES; i++) {
        const struct rows_case *c = &rows_cases[i];
        char why[256] = "refused";
        bool ok, fault = false;
        struct tk t;

        ok = open_case(&t, c);
        for (size_t n = 0; ok && n < 2 * SHAPES; n++) {
            const size_t s = (n * 7 + i) % SHAPES;

            if (!fits(c, shapes[s]))
                continue;
            run_shape(&t, b, shapes[s], &got);
            ok = same(&got, &expected[i][s], why);
            fault |= got.result != 0;
            if (!ok)
                snprintf(why + strlen(why), 256 - strlen(why), " (%u,%u,%u)", shapes[s][0], shapes[s][1],
                         shapes[s][2]);
        }
        t_result(c->name, ok && fault == (c->kind == FAULTS), "%s", why);
        tk_close(&t);
    }
}

/* ---- from two threads ---- */

struct worker {
    struct tk *t;
    size_t which;
    unsigned seed, wrong;
    struct buffers b;
    struct outcome got;
    char why[256];
};

static void *work(void *arg)
{
    struct worker *w = arg;

    for (unsigned n = 0; n < TURNS * SHAPES && !w->wrong; n++) {
        const size_t s = (n * (w->seed ? 3u : 7u) + w->seed) % SHAPES;

        if (!fits(&rows_cases[w->which], shapes[s]))
            continue;
        run_shape(w->t, &w->b, shapes[s], &w->got);
        w->wrong += !same(&w->got, &expected[w->which][s], w->why);
    }
    return NULL;
}

static void at_once(const struct buffers b[2])
{
    for (size_t i = 0; i < ROWS_CASES; i++) {
        static struct worker w[2];
        pthread_t thread;
        char name[128];
        struct tk t;

        if (rows_cases[i].kind == FAULTS || !open_case(&t, &rows_cases[i]))
            continue;
        for (unsigned k = 0; k < 2; k++)
            w[k] = (struct worker){.t = &t, .which = i, .seed = k, .b = b[k]};
        snprintf(name, sizeof(name), "two threads: %s", rows_cases[i].name);
        if (pthread_create(&thread, NULL, work, &w[1])) {
            t_result(name, false, "no thread");
        } else {
            work(&w[0]);
            pthread_join(thread, NULL);
            t_result(name, !w[0].wrong && !w[1].wrong, "%s; %s", w[0].why, w[1].why);
        }
        tk_close(&t);
    }
}

/* Without code for whole rows the comparison would prove nothing: it exists and runs where the block fits. */
static void has_rows(void)
{
    const uint32_t yes[3] = {64, 2, 1}, no[3] = {48, 2, 1}, column[3] = {1, 2, 2}, one[3] = {1, 1, 1};
    unsigned n = 0, narrow = 0;

    for (size_t i = 0; i < ROWS_CASES; i++) {
        struct tk t;

        if (!open_case(&t, &rows_cases[i]))
            continue;
        n += sg_kernel_code(t.k, yes)->rows && !sg_kernel_code(t.k, no)->rows;
        narrow += sg_kernel_code(t.k, column)->column && !sg_kernel_code(t.k, one)->column &&
                  !sg_kernel_code(t.k, no)->column;
        tk_close(&t);
    }
    t_result("kernels have code for whole rows", n > ROWS_CASES / 2, "%u of %zu", n, ROWS_CASES);
    t_result("and for blocks one thread wide", narrow > ROWS_CASES / 2, "%u of %zu", narrow, ROWS_CASES);
}

int main(int argc, char **argv)
{
    struct buffers b[2];

    t_variant(argc, argv);
    sg_exec_set_threads(1);
    b[0] = buffers_new();
    b[1] = buffers_new();
    expected =
        mmap(NULL, ROWS_CASES * sizeof(*expected), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (expected == MAP_FAILED || !compute_expected(&b[0])) {
        t_result("without native code", false, "failed");
        return t_end("softgpu rows");
    }
    if (!sg_jit_available()) {
        t_skip("code for whole rows", "no native code on this machine");
    } else {
        has_rows();
    }
    each_case(&b[0]);
    at_once(b);
    return t_end("softgpu rows");
}
