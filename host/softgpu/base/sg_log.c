/* SPDX-License-Identifier: MIT */
/* Diagnostics: the log, the detail line of a refusal, and device printf. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

#define SG_DETAIL_MAX 1024

static int log_fd = -1;

static __thread char thread_detail[SG_DETAIL_MAX]; /* detail of the last API call, or empty */
/* detail of the latest device-side error, guarded by the lock */
static char device_detail[SG_DETAIL_MAX];
static pthread_mutex_t detail_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sink {
    void (*fn)(void *ctx, const char *text, size_t len);
    void *ctx;
} out_sink, err_sink; /* device printf; failed device asserts */

void sg_log_open(void)
{
    const char *v = getenv("VGPU_SOFT_LOG");

    if (log_fd >= 0 || !v || !*v)
        return;
    if (!strcmp(v, "stderr"))
        log_fd = STDERR_FILENO;
    else
        log_fd = open(v, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0)
        fprintf(stderr, "libcuda-soft: VGPU_SOFT_LOG=%s: cannot open: %m\n", v);
}

bool sg_log_enabled(void)
{
    return log_fd >= 0;
}

/* One write per line, so that lines of different threads do not mix. */
static void log_line(const char *line)
{
    char buf[SG_DETAIL_MAX + 32];
    int n = snprintf(buf, sizeof(buf), "libcuda-soft: %s\n", line);

    if (n >= (int)sizeof(buf)) {
        n = sizeof(buf) - 1;
        buf[n - 1] = '\n';
    }
    if (n > 0 && write(log_fd, buf, (size_t)n) < 0)
        return; /* there is no place left to report it */
}

void sg_log(const char *fmt, ...)
{
    char line[SG_DETAIL_MAX];
    va_list ap;

    if (log_fd < 0)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    log_line(line);
}

CUresult sg_fail(CUresult r, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(thread_detail, sizeof(thread_detail), fmt, ap);
    va_end(ap);
    if (log_fd >= 0)
        log_line(thread_detail);
    return r;
}

void sg_detail_clear(void)
{
    thread_detail[0] = '\0';
}

void sg_device_fail(const char *text)
{
    pthread_mutex_lock(&detail_lock);
    snprintf(device_detail, sizeof(device_detail), "%s", text);
    pthread_mutex_unlock(&detail_lock);
    if (log_fd >= 0)
        log_line(text);
}

const char *sg_detail(bool device)
{
    static __thread char copy[SG_DETAIL_MAX];

    memcpy(copy, thread_detail, sizeof(copy));
    if (!copy[0] && device) {
        pthread_mutex_lock(&detail_lock);
        memcpy(copy, device_detail, sizeof(copy));
        pthread_mutex_unlock(&detail_lock);
    }
    return copy;
}

void sg_set_print_sink(void (*fn)(void *ctx, const char *text, size_t len), void *ctx)
{
    pthread_mutex_lock(&sink_lock);
    out_sink = (struct sink){fn, ctx};
    pthread_mutex_unlock(&sink_lock);
}

void sg_set_error_sink(void (*fn)(void *ctx, const char *text, size_t len), void *ctx)
{
    pthread_mutex_lock(&sink_lock);
    err_sink = (struct sink){fn, ctx};
    pthread_mutex_unlock(&sink_lock);
}

static void print_to(const struct sink *sink, FILE *file, const char *text, size_t len)
{
    pthread_mutex_lock(&sink_lock);
    if (sink->fn) {
        sink->fn(sink->ctx, text, len);
    } else {
        fwrite(text, 1, len, file);
        fflush(file);
    }
    pthread_mutex_unlock(&sink_lock);
}

void sg_print(void *unused, const char *text, size_t len)
{
    (void)unused;
    print_to(&out_sink, stdout, text, len);
}

void sg_print_error(void *unused, const char *text, size_t len)
{
    (void)unused;
    print_to(&err_sink, stderr, text, len);
}
