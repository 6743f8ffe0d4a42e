// SPDX-License-Identifier: MIT
/*
 * scale-bench [--quick] [--json FILE] [--library LIBRARY] [KIND...]
 *
 * Processor time of an operation while 1,000, 10,000 and 100,000 objects of a kind are alive (fewer
 * where the table gives a reason), and memory per object: of this process, and of the backend and
 * its workers under `vgpu run`. Each kind and number runs in a separate process, and so with a
 * separate worker. Exit status 1: an operation failed, or costs more than 3 times as much with the
 * most objects as with the fewest.
 *
 * A thousand objects fit into the caches and a hundred thousand do not. If all work is done in this
 * process, the caches are therefore emptied before each pair of operations, of which the second is
 * measured. Otherwise that would measure the wake-up of other processes: COLD_LINES additional
 * cache misses are allowed, at their cost in this run.
 */
#define _GNU_SOURCE
#include "bench.h"
#include "scale.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT 3.0
#define COLD_LINES 8 /* chosen allowance; docs/scale.md lists the rows that need it */
#define COLD_BYTES (48u << 20)
#define COLD_OPERATIONS 24u /* per batch, as emptying the caches takes milliseconds */
#define BATCHES 12u

struct scale_api scale_api;
static int pids[66];
static double ran_us[66]; /* so far; of an ended process: until its end */
static size_t npids;

double scale_cpu_us(void)
{
    double sum = 0;

    for (size_t i = 0; i < npids; i++) {
        struct timespec t;
        clockid_t clock;

        if (!clock_getcpuclockid(pids[i], &clock) && !clock_gettime(clock, &t))
            ran_us[i] = (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
        sum += ran_us[i];
    }
    return sum;
}

bool scale_cold(void)
{
    return npids == 1;
}

double scale_cold_us(CUresult (*run)(unsigned), unsigned other, unsigned i, CUresult *r)
{
    static volatile uint8_t *bytes;
    double start;

    if (!bytes)
        bytes = calloc(COLD_BYTES, 1);
    for (size_t at = 0; bytes && at < COLD_BYTES; at += 64)
        bytes[at]++;
    *r = run(other); /* code, clocks and data shared by all objects are cached again */
    start = scale_cpu_us();
    *r = *r ? *r : run(i);
    return scale_cpu_us() - start;
}

double scale_resident(void)
{
    double sum = 0;

    for (size_t i = 0; i < npids; i++) {
        char path[64];
        unsigned long long size, resident;

        snprintf(path, sizeof(path), "/proc/%d/statm", pids[i]);
        FILE *f = fopen(path, "r");

        if (f && fscanf(f, "%llu %llu", &size, &resident) == 2)
            sum += (double)resident * (double)sysconf(_SC_PAGESIZE);
        if (f)
            fclose(f);
    }
    return sum;
}

static CUresult open_library(const char *library)
{
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    CUcontext ctx;
    CUresult r;

    if (!lib) {
        fprintf(stderr, "scale-bench: %s\n", dlerror());
        return CUDA_ERROR_FILE_NOT_FOUND;
    }
#define X(field, symbol) \
    *(void **)&scale_api.field = dlsym(lib, #symbol); \
    if (!scale_api.field) { \
        fprintf(stderr, "scale-bench: %s has no " #symbol "\n", library); \
        return CUDA_ERROR_NOT_FOUND; \
    }
    SCALE_CALLS(X)
#undef X
    r = scale_api.cuInit(0);
    r = r ? r : scale_api.cuDevicePrimaryCtxRetain(&ctx, 0);
    r = r ? r : scale_api.cuCtxSetCurrent(ctx);
    r = r ? r : scale_api.cuModuleLoadData(&scale_api.module, scale_ptx);
    return r ? r : scale_api.cuModuleGetFunction(&scale_api.kernel, scale_api.module, "e");
}

/*
 * Runs an operation on `n` objects in the order of `order`. Processor time of each: the median of
 * cold operations, or the mean with deferred work included.
 */
static CUresult batch(CUresult (*run)(unsigned), const unsigned *order, unsigned n, double *us)
{
    const double start = scale_cpu_us();
    CUresult r = CUDA_SUCCESS;
    struct samples s = {0};

    for (unsigned i = 0; scale_cold() && !r && i + 1 < n; i += 2)
        samples_add(&s, scale_cold_us(run, order[i], order[i + 1], &r));
    if (scale_cold()) {
        r = r ? r : scale_api.cuCtxSynchronize();
        *us = s.n ? samples_at(&s, 0.5) : 0;
        free(s.v);
        return r;
    }
    for (unsigned i = 0; !r && i < n; i++)
        r = run(order[i]);
    r = r ? r : scale_api.cuCtxSynchronize();
    *us = (scale_cpu_us() - start) / n;
    return r;
}

static void shuffle(unsigned *order, unsigned n)
{
    for (unsigned i = n; i > 1; i--) {
        unsigned k = (unsigned)random() % i, x = order[i - 1];

        order[i - 1] = order[k];
        order[k] = x;
    }
}

/*
 * Destroys and recreates batches spread over the n objects: cost with n alive, lower quartile of
 * the batches.
 */
static void churn(const struct scale_kind *k, unsigned n, struct scale_result *out)
{
    const unsigned most = scale_cold() ? COLD_OPERATIONS : 500, each = n / 4 < most ? n / 4 : most;
    unsigned *order = malloc(n * sizeof(*order));
    CUresult (*const run[])(unsigned) = {k->make, k->use, k->drop};
    struct samples s[3] = {{0}};
    CUresult r = order ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    double us = 0, was;

    r = r || !k->setup ? r : k->setup(n);
    for (unsigned i = 0; !r && i < n; i++)
        order[i] = i;
    was = scale_resident();
    for (unsigned i = 0; !r && i < n; out->at = ++i)
        r = k->make(i);
    r = r ? r : scale_api.cuCtxSynchronize();
    out->bytes = (scale_resident() - was) / n;
    for (unsigned i = 0; !r && k->warm && i < n; i++)
        r = k->warm(i);
    r = r ? r : scale_api.cuCtxSynchronize();
    for (unsigned b = 0; !r && b < BATCHES; b++) {
        shuffle(order, n);
        for (int at = 0; !r && at < 3; at++) { /* use, drop, make */
            const int row = (at + 1) % 3;

            if (!run[row])
                continue;
            r = batch(run[row], order, each, &us);
            if (b) /* the first round touches the pages */
                samples_add(&s[row], us);
        }
    }
    for (int row = 0; row < 3; row++)
        out->us[row] = s[row].n ? samples_at(&s[row], 0.25) : -1;
    out->error = r;
}

/* Measures in a separate process, so that no kind is affected by another. */
static bool measure(const char *library, const struct scale_kind *k, unsigned n, struct scale_result *out)
{
    const int above = getppid();
    int ends[2], status;

    fflush(NULL);
    if (pipe(ends))
        return false;
    pid_t child = fork();

    if (!child) {
        for (int i = 0; i < SCALE_ROWS; i++)
            out->us[i] = -1;
        out->error = open_library(library);
        pids[npids++] = getpid();
        if (strcmp(library, "libcuda.so.1") == 0) {
            npids += descendants(above, "vgpu-worker", pids + npids, 60);
            npids += descendants(above, "vgpu-backend", pids + npids, 4);
        }
        if (!out->error && k->run)
            k->run(n, out);
        else if (!out->error)
            churn(k, n, out);
        _exit(write(ends[1], out, sizeof(*out)) != sizeof(*out));
    }
    close(ends[1]);
    bool ok = child > 0 && read(ends[0], out, sizeof(*out)) == sizeof(*out);

    close(ends[0]);
    return child > 0 && waitpid(child, &status, 0) == child && ok;
}

/* ---- cost of a cache miss ---- */

static double cold_us;

static double thread_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Follows a random cycle through memory larger than any cache. */
static double measure_cold_line(void)
{
    const uint32_t n = COLD_BYTES / 64, steps = 200000;
    uint32_t(*line)[16] = malloc((size_t)n * 64), at = 0;

    if (!line)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        line[i][0] = i;
    for (uint32_t i = n - 1; i > 0; i--) { /* Sattolo: a single cycle */
        const uint32_t k = (uint32_t)random() % i, x = line[i][0];

        line[i][0] = line[k][0];
        line[k][0] = x;
    }
    const double start = thread_us();

    for (uint32_t i = 0; i < steps; i++)
        at = line[at][0];
    const double us = (thread_us() - start) / steps;

    free(line);
    return at < n ? us : 0;
}

static FILE *json;
static const char *separator = "{";

static bool direct; /* the provider is called in this process */

static bool row(const struct scale_kind *k, int at, const struct scale_result r[3], unsigned sizes)
{
    const double ratio = r[sizes - 1].us[at] / r[0].us[at];
    const bool ok = sizes < 3 || r[2].us[at] <= LIMIT * r[0].us[at] + (direct ? 0 : COLD_LINES * cold_us);

    printf("  %-26s", k->rows[at]);
    for (unsigned i = 0; i < sizes; i++)
        printf(" %10.2f", r[i].us[at]);
    printf(" %8.2f%s\n", ratio, ok ? "" : "  GROWS");
    if (json)
        fprintf(json, "%s\n  \"%s: %s\": [%.3f, %.3f]", separator, k->name, k->rows[at], r[0].us[at],
                r[sizes - 1].us[at]);
    separator = ",";
    return ok;
}

static unsigned passed, failed;

static void table(const char *library, const struct scale_kind *k, unsigned sizes)
{
    struct scale_result r[3] = {{{0}, 0, 0, 0}};

    printf("%-28s", k->name);
    for (unsigned i = 0; i < sizes; i++)
        printf(" %10u", k->size[i]);
    printf("%s%s\n", k->note ? "           " : "    ratio", k->note ? k->note : "");
    for (unsigned i = 0; i < sizes; i++) {
        if (measure(library, k, k->size[i], &r[i]) && !r[i].error)
            continue;
        printf("  with %u: error %d at object %u\n", k->size[i], r[i].error, r[i].at);
        failed++;
        return;
    }
    for (int at = 0; at < SCALE_ROWS; at++)
        if (k->rows[at])
            row(k, at, r, sizes) ? passed++ : failed++;
    printf("  %-26s", "bytes for each");
    for (unsigned i = 0; i < sizes; i++)
        printf(" %10.0f", r[i].bytes);
    printf("\n");
}

static bool chosen(const char *name, char **argv)
{
    bool any = false, yes = false;

    for (; *argv; argv++) {
        any = true;
        yes |= !strcmp(*argv, name);
    }
    return yes || !any;
}

int main(int argc, char **argv)
{
    const char *library = "libcuda.so.1";
    bool quick = false;
    int i = 1;

    for (; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--quick"))
            quick = true;
        else if (i + 1 < argc && !strcmp(argv[i], "--library"))
            library = argv[++i];
        else if (i + 1 < argc && !strcmp(argv[i], "--json"))
            json = fopen(argv[++i], "w");
        else
            return 2;
    }
    direct = strcmp(library, "libcuda.so.1") != 0;
    printf("processor time of one operation, microseconds, %s, while so many are alive\n",
           direct ? "the provider called directly, with caches emptied before each"
                  : "all processes, over the socket");
    cold_us = measure_cold_line();
    printf("  %-26s %10.2f\n", "a cache miss", cold_us);
    for (size_t k = 0; k < scale_nkinds; k++)
        if (chosen(scale_kinds[k].name, argv + i))
            table(library, &scale_kinds[k], quick ? 1 : 3);
    if (json) {
        fprintf(json, "\n}\n");
        fclose(json);
    }
    printf("scale-bench: %u passed, %u failed\n", passed, failed);
    return failed != 0;
}
