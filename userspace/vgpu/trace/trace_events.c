/* SPDX-License-Identifier: MIT */
/*
 * Reads the JSON lines that our libraries write. They come from the observed program, so none is
 * trusted: a line that is not in our form is counted and otherwise ignored.
 */
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/hash/hash.h"
#include "trace/events.h"
#include "base/vgpu_cli.h"

#define EVENTS_MAX 4000000
/*
 * Limits of a line (the libraries' have 2 KiB at most), bytes, and of the whole input, bytes: a
 * guest may write a file of any size without a newline, at no cost.
 */
#define LINE_ROOM 8192u
#define BYTES_MAX (UINT64_C(1) << 30)
#define FIGURE_MAX 1e15 /* limit of a time, s or us */

/* Returns the value after "key": in a line of ours; NULL: none. */
static const char *value_of(const char *line, const char *key)
{
    char pattern[32];
    const char *at;

    snprintf(pattern, sizeof(pattern), "\"%s\":", key);
    at = strstr(line, pattern);
    return at ? at + strlen(pattern) : NULL;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * Decodes a JSON string with the escapes that our libraries write, and makes it harmless for a
 * terminal. NULL: not such a string.
 */
static char *take_text(const char *at)
{
    char *text, *to;

    if (!at || *at++ != '"')
        return NULL;
    text = to = vgpu_cli_alloc(strlen(at) + 1);
    for (; *at && *at != '"'; at++) {
        if (*at != '\\') {
            *to++ = *at;
        } else if (at[1] == '"' || at[1] == '\\') {
            *to++ = *++at;
        } else if (at[1] == 'u' && at[2] == '0' && at[3] == '0' && hex_digit(at[4]) >= 0 &&
                   hex_digit(at[5]) >= 0) {
            *to++ = (char)(hex_digit(at[4]) << 4 | hex_digit(at[5]));
            at += 5;
        } else {
            break;
        }
    }
    *to = '\0';
    if (*at == '"') {
        vgpu_cli_harmless(text);
        return text;
    }
    free(text);
    return NULL;
}

/* Neither "nan" nor "inf", which atof(3) takes: they have no order, and JSON has no such numbers. */
static bool is_figure(double value)
{
    return value >= 0 && value <= FIGURE_MAX;
}

static bool parse_event(const char *line, struct vgpu_cli_event *e)
{
    char *type = strncmp(line, "{\"type\":", 8) == 0 ? take_text(line + 8) : NULL;
    const char *pid = value_of(line, "pid"), *tid = value_of(line, "tid");
    const char *code, *us;
    bool ok = type && pid && tid && line[strlen(line) - 1] == '}';

    memset(e, 0, sizeof(*e));
    if (!ok) {
        free(type);
        return false;
    }
    e->pid = atoi(pid);
    e->tid = atoi(tid);
    e->time = value_of(line, "time") ? atof(value_of(line, "time")) : 0;
    e->call = take_text(value_of(line, "call"));
    if (strcmp(type, "call") == 0) {
        e->text = take_text(value_of(line, "args"));
        /* The arguments may contain anything, so the rest is searched from the end of the line. */
        for (code = line + strlen(line); code > line && strncmp(code, ",\"result\":", 10) != 0;)
            code--;
        e->result = take_text(code > line ? code + 10 : NULL);
        us = value_of(code, "us");
        code = value_of(code, "code");
        ok = code && us && e->result;
        e->code = ok ? atoi(code) : 0;
        e->us = ok ? atof(us) : 0;
    } else {
        e->type = strcmp(type, "refusal") == 0 ? VGPU_EVENT_REFUSAL
                  : strcmp(type, "ring") == 0  ? VGPU_EVENT_RING
                                               : VGPU_EVENT_WHY;
        e->text = take_text(value_of(line, "text"));
    }
    free(type);
    return ok && e->call && e->text && is_figure(e->time) && is_figure(e->us);
}

static void take_line(struct vgpu_cli_events *events, char *line)
{
    struct vgpu_cli_event e;

    line[strcspn(line, "\n")] = '\0';
    if (!*line || !parse_event(line, &e)) {
        events->odd++;
        return;
    }
    if (events->count == events->room) {
        events->room = events->room ? 2 * events->room : 1024;
        events->list = realloc(events->list, events->room * sizeof(e));
        if (!events->list)
            vgpu_cli_die("out of memory");
    }
    events->list[events->count++] = e;
}

/*
 * Reads a line into `line`, of LINE_ROOM bytes. Returns its length with the newline, if any; a
 * longer line is truncated to the room.
 */
static size_t next_line(FILE *f, char *line)
{
    size_t n = 0;
    int c;

    while (n < LINE_ROOM - 1 && (c = getc_unlocked(f)) != EOF) {
        line[n++] = (char)c;
        if (c == '\n')
            break;
    }
    line[n] = '\0';
    return n;
}

void vgpu_cli_events_more(struct vgpu_cli_events *events, FILE *f)
{
    char line[LINE_ROOM];
    size_t n;

    clearerr(f);
    while (events->count < EVENTS_MAX && events->taken < BYTES_MAX && (n = next_line(f, line))) {
        const bool ends = line[n - 1] == '\n', skips = events->skips;

        if (!ends && n < LINE_ROOM - 1 && !skips) {
            fseek(f, -(long)n, SEEK_CUR);
            break;
        }
        events->taken += n;
        events->skips = !ends;
        if (ends && !skips)
            take_line(events, line);
        else
            events->odd += !ends && !skips; /* a line longer than any of ours counts once */
    }
}

FILE *vgpu_cli_events_open(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    FILE *f = NULL;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        f = fdopen(fd, "r");
    if (fd >= 0 && !f)
        close(fd);
    return f;
}

void vgpu_cli_events_read(struct vgpu_cli_events *events, const char *path)
{
    FILE *f = vgpu_cli_events_open(path);
    char line[LINE_ROOM];

    memset(events, 0, sizeof(*events));
    if (!f)
        return;
    vgpu_cli_events_more(events, f);
    if (events->count < EVENTS_MAX && events->taken < BYTES_MAX && next_line(f, line))
        take_line(events, line); /* without a newline */
    fclose(f);
}

long vgpu_cli_event_number(const struct vgpu_cli_event *e, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = e->text; p; p = strchr(p, ' ')) {
        p += *p == ' ';
        if (strncmp(p, name, n) == 0 && p[n] == '=')
            return strtol(p + n + 1, NULL, 0);
    }
    return -1;
}

/* ---- totals ---- */

struct total {
    const char *call;
    unsigned long count, errors;
    double us, longest;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct total *)a)->call, ((const struct total *)b)->call);
}

static int by_time(const void *a, const void *b)
{
    double x = ((const struct total *)a)->us, y = ((const struct total *)b)->us;

    return x < y ? 1 : x > y ? -1 : by_name(a, b);
}

bool vgpu_cli_event_shown(const struct vgpu_cli_event *e, const char *filter)
{
    char pattern[128];
    size_t n;

    for (const char *p = filter; p && *p; p += n + (p[n] == ',')) {
        n = strcspn(p, ",");
        if (n >= sizeof(pattern))
            continue;
        memcpy(pattern, p, n);
        pattern[n] = '\0';
        if (!fnmatch(pattern, e->call, 0))
            return true;
    }
    return !filter || !*filter;
}

bool vgpu_cli_event_failed(const struct vgpu_cli_event *e)
{
    bool names = !strncmp(e->call, "cuGetProcAddress", 16) || !strncmp(e->call, "cuGetExportTable", 16);

    return e->code != 0 && strcmp(e->result, "CUDA_ERROR_NOT_READY") &&
           strcmp(e->result, "CUDA_ERROR_DEINITIALIZED") &&
           !(names && !strcmp(e->result, "CUDA_ERROR_NOT_FOUND"));
}

static size_t sum_up(const struct vgpu_cli_events *events, const char *filter, struct total *totals)
{
    size_t n = 0, calls = 0;

    for (size_t i = 0; i < events->count; i++) {
        const struct vgpu_cli_event *e = &events->list[i];

        if (e->type == VGPU_EVENT_CALL && vgpu_cli_event_shown(e, filter))
            totals[calls++] = (struct total){e->call, 1, vgpu_cli_event_failed(e), e->us, e->us};
    }
    qsort(totals, calls, sizeof(*totals), by_name);
    for (size_t i = 0; i < calls; i++) {
        if (n && strcmp(totals[n - 1].call, totals[i].call) == 0) {
            totals[n - 1].count++;
            totals[n - 1].errors += totals[i].errors;
            totals[n - 1].us += totals[i].us;
            if (totals[i].longest > totals[n - 1].longest)
                totals[n - 1].longest = totals[i].longest;
        } else {
            totals[n++] = totals[i];
        }
    }
    qsort(totals, n, sizeof(*totals), by_time);
    return n;
}

/* ---- reasons ---- */

#define REASONS_MAX 1000u
#define REASON_SLOTS 4096u /* a power of two, and more than reasons */

/* Texts that were printed, by a keyed hash: the traced program chooses them, and there may be millions. */
struct reasons {
    struct {
        uint64_t hash;
        const char *text; /* NULL: free */
    } slot[REASON_SLOTS];
    size_t n;
};

/* False: the text was added before. */
static bool add_reason(struct reasons *r, const char *text)
{
    const uint64_t hash = hsh_bytes(0, text, strlen(text));
    size_t i = hash % REASON_SLOTS;

    for (; r->slot[i].text; i = (i + 1) % REASON_SLOTS)
        if (r->slot[i].hash == hash && strcmp(r->slot[i].text, text) == 0)
            return false;
    r->slot[i].hash = hash;
    r->slot[i].text = text;
    r->n++;
    return true;
}

/* Prints each text once, in order. */
static void print_reasons(const struct vgpu_cli_events *events, FILE *out)
{
    struct reasons *r = vgpu_cli_alloc(sizeof(*r));

    for (size_t i = 0; i < events->count; i++) {
        const struct vgpu_cli_event *e = &events->list[i];

        if (e->type == VGPU_EVENT_CALL || e->type == VGPU_EVENT_RING || !add_reason(r, e->text))
            continue;
        if (r->n > REASONS_MAX) {
            fprintf(out, "  and others: the trace has more than %u\n", REASONS_MAX);
            break;
        }
        fprintf(out, "%s %s: %s%s\n", r->n == 1 ? "refused or failed:\n " : " ", e->call,
                e->type == VGPU_EVENT_REFUSAL ? "not supported: " : "", e->text);
    }
    free(r);
}

/* Prints the ring statistics that processes wrote at exit; a killed process has none. */
static void print_ring(const struct vgpu_cli_events *events, FILE *out)
{
    static const char *const names[4] = {"records", "round_trips", "sleeps", "doorbells"};
    long sum[4] = {0};
    bool any = false;

    for (size_t i = 0; i < events->count; i++) {
        if (events->list[i].type != VGPU_EVENT_RING)
            continue;
        any = true;
        for (int k = 0; k < 4; k++) {
            long value = vgpu_cli_event_number(&events->list[i], names[k]);

            if (value > 0 && __builtin_add_overflow(sum[k], value, &sum[k]))
                sum[k] = LONG_MAX;
        }
    }
    if (any)
        fprintf(out,
                "%ld records were sent to the worker, %ld replies were waited for (with %ld "
                "sleeps), %ld times the worker had to be woken up\n",
                sum[0], sum[1], sum[2], sum[3]);
}

void vgpu_cli_events_totals(const struct vgpu_cli_events *events, const char *filter, long top, FILE *out)
{
    struct total *totals = vgpu_cli_alloc((events->count + 1) * sizeof(*totals));
    size_t n = sum_up(events, filter, totals), shown = top > 0 && (size_t)top < n ? (size_t)top : n;
    unsigned long count = 0, errors = 0;
    double us = 0;

    fprintf(out, "%-44s %9s %7s %12s %12s %12s\n", "call", "count", "errors", "total us", "mean us",
            "max us");
    for (size_t i = 0; i < n; i++) {
        if (i < shown)
            fprintf(out, "%-44s %9lu %7lu %12.1f %12.1f %12.1f\n", totals[i].call, totals[i].count,
                    totals[i].errors, totals[i].us, totals[i].us / (double)totals[i].count,
                    totals[i].longest);
        count += totals[i].count;
        errors += totals[i].errors;
        us += totals[i].us;
    }
    if (shown < n)
        fprintf(out, "... and %zu other calls\n", n - shown);
    fprintf(out, "%-44s %9lu %7lu %12.1f\n", "all calls", count, errors, us);
    print_ring(events, out);
    if (events->odd)
        fprintf(out, "%zu lines of the trace were not understood\n", events->odd);
    print_reasons(events, out);
    free(totals);
}
