/* SPDX-License-Identifier: MIT */
/*
 * The trace. VGPU_TRACE=1 or stderr: every call to standard error; VGPU_TRACE=refusals: only what
 * failed, with the reason; VGPU_TRACE=PATH: every call, appended to that file (%p = process id).
 * One line is one write(2), so lines of threads and processes do not mix.
 */
#define _GNU_SOURCE
#include "vcu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

int vcu_trace_on;
static int trace_fd = STDERR_FILENO;

uint64_t vcu_trace_now(void)
{
    struct timespec ts;

    if (!vcu_trace_on)
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int open_trace(const char *pattern)
{
    char path[1024];
    size_t n = 0;

    for (const char *p = pattern; *p != '\0' && n < sizeof(path) - 16; p++) {
        if (p[0] == '%' && p[1] == 'p') {
            n += (size_t)snprintf(path + n, 16, "%d", (int)getpid());
            p++;
        } else {
            path[n++] = *p;
        }
    }
    path[n] = '\0';
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

void vcu_trace_init(void)
{
    const char *v = getenv("VGPU_TRACE");
    int fd;

    if (v == NULL || *v == '\0' || strcmp(v, "0") == 0)
        return;
    if (strcmp(v, "1") == 0 || strcmp(v, "stderr") == 0) {
        vcu_trace_on = VCU_TRACE_ALL;
    } else if (strcmp(v, "refusals") == 0) {
        vcu_trace_on = VCU_TRACE_REFUSALS;
    } else {
        fd = open_trace(v);
        vcu_trace_on = VCU_TRACE_ALL;
        if (fd >= 0)
            trace_fd = fd;
        else
            dprintf(STDERR_FILENO, "vgpu: VGPU_TRACE: cannot open %s: %s; tracing to stderr\n", v,
                    strerror(errno));
    }
}

static void put(char *line, size_t n)
{
    ssize_t done;
    int saved = errno; /* a traced call must not change the application's errno */

    if (n > LINE_MAX_BYTES - 1) {
        n = LINE_MAX_BYTES - 1;
        memcpy(line + n - 3, "...", 3);
    }
    line[n++] = '\n';
    do {
        done = write(trace_fd, line, n);
    } while (done < 0 && errno == EINTR);
    errno = saved;
}

static size_t prefix(char *line)
{
    return (size_t)snprintf(line, LINE_MAX_BYTES, "vgpu[%d.%d] ", (int)getpid(),
                            (int)syscall(SYS_gettid));
}

static size_t clamp(size_t n, int added)
{
    if (added > 0)
        n += (size_t)added;
    return n < LINE_MAX_BYTES ? n : LINE_MAX_BYTES;
}

/*
 * What VGPU_TRACE=refusals is for. Not refusals: "still running", the runtime's clean-up after our
 * end, and names that were asked for and not found (cuGetProcAddress says which itself).
 */
static bool is_failure(const char *name, CUresult r)
{
    if (r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY || r == CUDA_ERROR_DEINITIALIZED)
        return false;
    return r != CUDA_ERROR_NOT_FOUND || strncmp(name, "cuGetProcAddress", 16) != 0;
}

void vcu_trace_call(const char *name, CUresult r, uint64_t t0_ns, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES + 1];
    const char *text = vcu_error_name(r);
    uint64_t ns;
    size_t n;
    va_list ap;

    if (!vcu_trace_on || (vcu_trace_on == VCU_TRACE_REFUSALS && !is_failure(name, r)))
        return;
    ns = vcu_trace_now() - t0_ns;
    n = prefix(line);
    n = clamp(n, snprintf(line + n, LINE_MAX_BYTES - n, "%s(", name));
    va_start(ap, fmt);
    n = clamp(n, vsnprintf(line + n, LINE_MAX_BYTES - n, fmt, ap));
    va_end(ap);
    if (n > LINE_MAX_BYTES - 128) { /* the result is the part that must not be cut off */
        n = LINE_MAX_BYTES - 128;
        n = clamp(n, snprintf(line + n, LINE_MAX_BYTES - n, "..."));
    }
    if (text != NULL)
        n = clamp(n, snprintf(line + n, LINE_MAX_BYTES - n, ") = %s", text));
    else
        n = clamp(n, snprintf(line + n, LINE_MAX_BYTES - n, ") = %d", (int)r));
    n = clamp(n, snprintf(line + n, LINE_MAX_BYTES - n, " %llu.%03llu us",
                          (unsigned long long)(ns / 1000), (unsigned long long)(ns % 1000)));
    put(line, n);
}

void vcu_why(const char *name, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES + 1];
    size_t n;
    va_list ap;

    if (!vcu_trace_on)
        return;
    n = prefix(line);
    n = clamp(n, snprintf(line + n, LINE_MAX_BYTES - n, "why %s: ", name));
    va_start(ap, fmt);
    n = clamp(n, vsnprintf(line + n, LINE_MAX_BYTES - n, fmt, ap));
    va_end(ap);
    put(line, n);
}

/* Names already refused, by address: they are string constants of the generated code. */
#define REFUSED_MAX 1024
static _Atomic(const char *) refused[REFUSED_MAX];

static bool first_time(const char *name)
{
    size_t at = ((uintptr_t)name >> 3) % REFUSED_MAX;

    for (size_t i = 0; i < REFUSED_MAX; i++) {
        _Atomic(const char *) *slot = &refused[(at + i) % REFUSED_MAX];
        const char *seen = NULL;

        if (atomic_compare_exchange_strong(slot, &seen, name))
            return true;
        if (seen == name)
            return false;
    }
    return true; /* more names than the API has: say it again rather than not at all */
}

void vcu_trace_refusal(const char *name, const char *why)
{
    char line[LINE_MAX_BYTES + 1];
    size_t n;

    if (!vcu_trace_on || !first_time(name))
        return;
    n = prefix(line);
    n = clamp(n, snprintf(line + n, LINE_MAX_BYTES - n, "%s: not supported: %s", name, why));
    put(line, n);
}
