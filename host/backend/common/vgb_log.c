/* SPDX-License-Identifier: MIT */
#include "vgb_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int log_fd = 2;
static enum vgb_log_level log_max = VGB_INFO;
static const char *log_name = "vgpu";
static const char *const level_names[] = {"error", "warn", "info", "debug"};

uint64_t vgb_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void vgb_log_init(int fd, enum vgb_log_level max_level, const char *name)
{
    log_fd = fd;
    log_max = max_level;
    log_name = name;
}

bool vgb_log_level_parse(const char *text, enum vgb_log_level *level)
{
    for (unsigned i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        if (!strcmp(text, level_names[i])) {
            *level = (enum vgb_log_level)i;
            return true;
        }
    }
    return false;
}

enum vgb_log_level vgb_log_level_get(void)
{
    return log_max;
}

static void emit(enum vgb_log_level level, const char *fmt, va_list ap)
{
    char line[768];
    int n = snprintf(line, sizeof(line), "%s: %s: ", log_name, level_names[level]);

    if (n < 0 || (size_t)n >= sizeof(line) - 2)
        return;
    int m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
    if (m < 0)
        return;
    size_t len = strlen(line);
    /* A peer's text may be part of the line: it must not be able to forge lines or colours. */
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)line[i];
        if (c < 0x20 || c == 0x7f)
            line[i] = '?';
    }
    line[len++] = '\n';
    if (write(log_fd, line, len) < 0)
        return; /* nowhere to report it */
}

void vgb_log(enum vgb_log_level level, const char *fmt, ...)
{
    va_list ap;

    if (level > log_max)
        return;
    va_start(ap, fmt);
    emit(level, fmt, ap);
    va_end(ap);
}

bool vgb_ratelimit_take(struct vgb_ratelimit *limit, uint64_t now_ns)
{
    uint64_t second = now_ns / 1000000000u;

    if (limit->second != second) {
        limit->second = second;
        limit->used = 0;
    }
    if (limit->used >= VGB_LOG_BURST) {
        limit->dropped++;
        return false;
    }
    limit->used++;
    return true;
}

void vgb_log_limited(struct vgb_ratelimit *limit, enum vgb_log_level level, const char *fmt, ...)
{
    va_list ap;

    if (level > log_max || !vgb_ratelimit_take(limit, vgb_now_ns()))
        return;
    if (limit->dropped) {
        vgb_log(level, "%u further lines of this source were dropped", limit->dropped);
        limit->dropped = 0;
    }
    va_start(ap, fmt);
    emit(level, fmt, ap);
    va_end(ap);
}
