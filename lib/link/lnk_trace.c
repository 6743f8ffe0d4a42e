/* SPDX-License-Identifier: MIT */
/*
 * The trace. VGPU_TRACE=1 or stderr: every call to standard error; VGPU_TRACE=refusals: only what
 * failed, with the reason; VGPU_TRACE=PATH: every call, appended to that file (%p = process id).
 * VGPU_TRACE_JSON=PATH: the same for machines, one JSON object a line, beside the other one:
 *   {"type":"call","time":SECONDS,"pid":N,"tid":N,"call":NAME,"args":TEXT,"result":NAME,"code":N,
 *    "us":MICROSECONDS}
 *   {"type":"why"|"refusal"|"load",...,"call":NAME,"text":TEXT}
 *   {"type":"ring",...,"call":"end","text":"records=N round_trips=N sleeps=N doorbells=N"} at the end
 * One line is one write(2), so lines of threads and processes do not mix.
 */
#define _GNU_SOURCE
#include "trace.h"
#include "../clock/clock.h"
#include "../json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

int lnk_trace_on;
static const struct lnk_trace_results *results;
static int trace_fd = STDERR_FILENO;
static int text_mode = LNK_TRACE_OFF; /* mode of the readable trace */
static int json_fd = -1;

uint64_t lnk_trace_now(void)
{
    return lnk_trace_on ? clk_now_ns() : 0;
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

void lnk_trace_init(const struct lnk_trace_results *of_library)
{
    const char *v = secure_getenv("VGPU_TRACE"), *json = secure_getenv("VGPU_TRACE_JSON");
    int fd;

    results = of_library;
    if (json != NULL && *json != '\0') {
        json_fd = open_trace(json);
        if (json_fd < 0)
            dprintf(STDERR_FILENO, "vgpu: VGPU_TRACE_JSON: cannot open %s: %s\n", json, strerror(errno));
        else
            lnk_trace_on = LNK_TRACE_ALL;
    }
    if (v == NULL || *v == '\0' || strcmp(v, "0") == 0)
        return;
    text_mode = LNK_TRACE_ALL;
    if (strcmp(v, "1") == 0 || strcmp(v, "stderr") == 0) {
        lnk_trace_on = LNK_TRACE_ALL;
    } else if (strcmp(v, "refusals") == 0) {
        text_mode = LNK_TRACE_REFUSALS;
        if (lnk_trace_on == LNK_TRACE_OFF)
            lnk_trace_on = LNK_TRACE_REFUSALS;
    } else {
        fd = open_trace(v);
        lnk_trace_on = LNK_TRACE_ALL;
        if (fd >= 0)
            trace_fd = fd;
        else
            dprintf(STDERR_FILENO, "vgpu: VGPU_TRACE: cannot open %s: %s; tracing to stderr\n", v,
                    strerror(errno));
    }
}

static void write_line(int fd, char *line, size_t n)
{
    ssize_t done;
    int saved = errno; /* a traced call must not change the application's errno */

    if (n > LINE_MAX_BYTES - 1) {
        n = LINE_MAX_BYTES - 1;
        memcpy(line + n - 3, "...", 3);
    }
    line[n++] = '\n';
    do {
        done = write(fd, line, n);
    } while (done < 0 && errno == EINTR);
    errno = saved;
}

static size_t put_prefix(char *line)
{
    return (size_t)snprintf(line, LINE_MAX_BYTES, "vgpu[%d.%d] ", (int)getpid(), (int)syscall(SYS_gettid));
}

static size_t clamp_length(size_t n, int added)
{
    if (added > 0)
        n += (size_t)added;
    return n < LINE_MAX_BYTES ? n : LINE_MAX_BYTES;
}

/* ---- for machines ---- */

/* Space reserved for the fields after a text of any length. */
#define JSON_TAIL 150

/* Appends a text as a JSON string. A text that is too long is truncated and ends in "...". */
static size_t json_text(char *line, size_t n, const char *text)
{
    const size_t end = LINE_MAX_BYTES - JSON_TAIL;

    return n + jsn_string(line + n, n + JSN_ROOM_MIN < end ? end - n : JSN_ROOM_MIN, text, strlen(text));
}

static size_t json_begin(char *line, const char *type, const char *name)
{
    struct timespec ts;
    size_t n;

    clock_gettime(CLOCK_REALTIME, &ts);
    n = clamp_length(0, snprintf(line, LINE_MAX_BYTES,
                                 "{\"type\":\"%s\",\"time\":%lld.%06ld,\"pid\":%d,\"tid\":%d,\"call\":", type,
                                 (long long)ts.tv_sec, ts.tv_nsec / 1000, (int)getpid(),
                                 (int)syscall(SYS_gettid)));
    return json_text(line, n, name);
}

static void json_note(const char *type, const char *name, const char *text)
{
    char line[LINE_MAX_BYTES + 1];
    size_t n;

    if (json_fd < 0)
        return;
    n = json_begin(line, type, name);
    n = clamp_length(n, snprintf(line + n, LINE_MAX_BYTES - n, ",\"text\":"));
    n = json_text(line, n, text);
    line[n++] = '}';
    write_line(json_fd, line, n);
}

static void json_call(const char *name, int result, uint64_t ns, const char *args)
{
    const char *text = results->name(result);
    char line[LINE_MAX_BYTES + 1];
    size_t n;

    if (json_fd < 0)
        return;
    n = json_begin(line, "call", name);
    n = clamp_length(n, snprintf(line + n, LINE_MAX_BYTES - n, ",\"args\":"));
    n = json_text(line, n, args);
    n = clamp_length(n,
                     snprintf(line + n, LINE_MAX_BYTES - n,
                              ",\"result\":\"%s\",\"code\":%d,\"us\":%llu.%03llu}", text != NULL ? text : "?",
                              result, (unsigned long long)(ns / 1000), (unsigned long long)(ns % 1000)));
    write_line(json_fd, line, n);
}

/* ---- lines ---- */

void lnk_trace_result(const char *name, int result, uint64_t t0_ns, const char *fmt, va_list ap)
{
    const char *text = results->name(result);
    char line[LINE_MAX_BYTES + 1], args[LINE_MAX_BYTES - 256];
    uint64_t ns;
    size_t n;

    if (!lnk_trace_on)
        return;
    ns = lnk_trace_now() - t0_ns;
    vsnprintf(args, sizeof(args), fmt, ap);
    json_call(name, result, ns, args);
    if (text_mode == LNK_TRACE_OFF ||
        ((text_mode == LNK_TRACE_REFUSALS || lnk_trace_on == LNK_TRACE_REFUSALS) &&
         !results->is_failure(name, result)))
        return;
    n = put_prefix(line);
    n = clamp_length(n, snprintf(line + n, LINE_MAX_BYTES - n, "%s(%s", name, args));
    if (n > LINE_MAX_BYTES - 128) { /* the result is the part that must not be cut off */
        n = LINE_MAX_BYTES - 128;
        n = clamp_length(n, snprintf(line + n, LINE_MAX_BYTES - n, "..."));
    }
    if (text != NULL)
        n = clamp_length(n, snprintf(line + n, LINE_MAX_BYTES - n, ") = %s", text));
    else
        n = clamp_length(n, snprintf(line + n, LINE_MAX_BYTES - n, ") = %d", result));
    n = clamp_length(n, snprintf(line + n, LINE_MAX_BYTES - n, " %llu.%03llu us",
                                 (unsigned long long)(ns / 1000), (unsigned long long)(ns % 1000)));
    write_line(trace_fd, line, n);
}

/* A line that is no call; `between` joins name and text in the readable form. */
static void note_event(const char *type, const char *before, const char *name, const char *between,
                       const char *text)
{
    char line[LINE_MAX_BYTES + 1];
    size_t n;

    json_note(type, name, text);
    if (text_mode == LNK_TRACE_OFF)
        return;
    n = put_prefix(line);
    n = clamp_length(n, snprintf(line + n, LINE_MAX_BYTES - n, "%s%s%s%s", before, name, between, text));
    write_line(trace_fd, line, n);
}

void lnk_why(const char *name, const char *fmt, ...)
{
    char text[LINE_MAX_BYTES - 128];
    va_list ap;

    if (!lnk_trace_on)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    note_event("why", "why ", name, ": ", text);
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
    return true; /* more names than the API has: repeat the line rather than omit it */
}

void lnk_trace_refusal(const char *name, const char *why)
{
    if (lnk_trace_on && first_time(name))
        note_event("refusal", "", name, ": not supported: ", why);
}

void lnk_trace_ring(uint64_t records, uint64_t round_trips, uint64_t sleeps, uint64_t doorbells)
{
    char text[160];

    if (lnk_trace_on != LNK_TRACE_ALL)
        return;
    snprintf(text, sizeof(text), "records=%llu round_trips=%llu sleeps=%llu doorbells=%llu",
             (unsigned long long)records, (unsigned long long)round_trips, (unsigned long long)sleeps,
             (unsigned long long)doorbells);
    if (text_mode == LNK_TRACE_ALL)
        note_event("ring", "", "end", ": ", text);
    else
        json_note("ring", "end", text);
}
