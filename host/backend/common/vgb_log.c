/* SPDX-License-Identifier: MIT */
#include "vgb_log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lib/terminal/terminal.h"
#include "lib/clock/clock.h"
#include "lib/json/json.h"

static int log_fd = 2;
static enum vgb_log_level log_max = VGB_INFO;
static const char *log_name = "vgpu";
static enum vgb_log_format log_format = VGB_LOG_TEXT;
static const char *log_vm = "";
static const char *const level_names[] = {"error", "warn", "info", "debug"};

uint64_t vgb_now_ns(void)
{
    return clk_now_ns();
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

/* ---- the structured forms ---- */

#define OUT_MAX 4000u /* below PIPE_BUF: lines of several processes do not mix */
#define OUT_TAIL 100u /* room kept for the rest of an object behind a text of any length */

struct out {
    char text[OUT_MAX + 8];
    size_t used;
};

static void put_text(struct out *o, const char *text)
{
    size_t n = strlen(text);

    if (n <= OUT_MAX - o->used) {
        memcpy(o->text + o->used, text, n);
        o->used += n;
    }
}

static void field_json(struct out *o, const char *name, const char *text, size_t n)
{
    put_text(o, ",\"");
    put_text(o, name);
    put_text(o, "\":");
    size_t room = o->used + JSN_ROOM_MIN < OUT_MAX - OUT_TAIL ? OUT_MAX - OUT_TAIL - o->used : JSN_ROOM_MIN;
    o->used += jsn_string(o->text + o->used, room, text, n);
}

/* Writes a line of the journal's protocol, where a newline ends the value. */
static void field_journal(struct out *o, const char *name, const char *text, size_t n)
{
    char value[OUT_MAX];
    size_t room = OUT_MAX - OUT_TAIL > o->used ? OUT_MAX - OUT_TAIL - o->used : 0;

    n = n < room ? n : room;
    memcpy(value, text, n);
    value[n] = '\0';
    trm_harmless(value, "");
    put_text(o, name);
    put_text(o, "=");
    put_text(o, value);
    put_text(o, "\n");
}

/* Parses "client 3 (name): ...", the start of lines about a client: number and name. */
static bool find_client(const char *message, char number[16], const char **name, size_t *length)
{
    unsigned client;
    int n = 0;

    if (sscanf(message, "client %u (%n", &client, &n) != 1 || !n)
        return false;
    const char *end = strstr(message + n, "): ");
    if (!end)
        return false;
    snprintf(number, 16, "%u", client);
    *name = message + n;
    *length = (size_t)(end - *name);
    return true;
}

/*
 * `client`: number of the client that the line is about, "" for none; NULL: taken from the line,
 * which this process has printed.
 */
static void emit_structured(enum vgb_log_level level, const char *process, const char *client,
                            const char *message)
{
    static const char *const priorities[] = {"3", "4", "6", "7"}; /* syslog priorities */
    bool json = log_format == VGB_LOG_JSON;
    void (*field)(struct out *, const char *, const char *, size_t) = json ? field_json : field_journal;
    char when[64], number[16];
    struct out o = {.used = 0};
    const char *name = NULL;
    struct timespec ts;
    struct tm tm;
    size_t n;

    if (json) {
        clock_gettime(CLOCK_REALTIME, &ts);
        gmtime_r(&ts.tv_sec, &tm);
        n = strftime(when, sizeof(when), "{\"time\":\"%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(when + n, sizeof(when) - n, ".%03uZ\"", (unsigned)(ts.tv_nsec / 1000000));
        put_text(&o, when);
        field(&o, "level", level_names[level], strlen(level_names[level]));
    } else {
        field(&o, "PRIORITY", priorities[level], 1);
    }
    field(&o, json ? "process" : "SYSLOG_IDENTIFIER", process, strlen(process));
    field(&o, json ? "vm" : "VGPU_VM", log_vm, strlen(log_vm));
    if (!client && find_client(message, number, &name, &n))
        client = number;
    if (client && *client) {
        if (json) {
            put_text(&o, ",\"client\":");
            put_text(&o, client);
        } else {
            field(&o, "VGPU_CLIENT", client, strlen(client));
        }
        if (name)
            field(&o, json ? "client_name" : "VGPU_CLIENT_NAME", name, n);
    }
    field(&o, json ? "message" : "MESSAGE", message, strlen(message));
    if (json)
        put_text(&o, "}\n");
    if (write(log_fd, o.text, o.used) < 0)
        return; /* nowhere to report it */
}

void vgb_log_set_format(enum vgb_log_format format, const char *vm)
{
    log_format = format;
    log_vm = vm;
}

bool vgb_log_format_parse(const char *text, enum vgb_log_format *format)
{
    static const char *const names[] = {"text", "json", "journal"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!strcmp(text, names[i])) {
            *format = (enum vgb_log_format)i;
            return true;
        }
    }
    return false;
}

int vgb_log_journal(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd;

    if (strlen(path) >= sizeof(a.sun_path))
        return -ENAMETOOLONG;
    memcpy(a.sun_path, path, strlen(path) + 1);
    /* Non-blocking: lines are lost if the journal does not read, but nothing stalls. */
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&a, sizeof(a))) {
        int e = errno;

        close(fd);
        return -e;
    }
    return fd;
}

static void emit_line(enum vgb_log_level level, const char *fmt, va_list ap)
{
    char line[768];
    int n = snprintf(line, sizeof(line), "%s: %s: ", log_name, level_names[level]);

    if (n < 0 || (size_t)n >= sizeof(line) - 2)
        return;
    int m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
    if (m < 0)
        return;
    if (log_format != VGB_LOG_TEXT) {
        emit_structured(level, log_name, NULL, line + n);
        return;
    }
    /* The line may contain a peer's text, which must not forge lines or colours. */
    trm_harmless(line, "");
    size_t len = strlen(line);
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
    emit_line(level, fmt, ap);
    va_end(ap);
}

/*
 * True if another line is within the limit, including the allowance restored since the last call.
 */
static bool has_room(struct vgb_ratelimit *limit, uint64_t second)
{
    unsigned times = limit->times ? limit->times : 1;
    uint64_t forgotten = 0;

    if (limit->second != second) {
        if (second > limit->second)
            forgotten = (second / VGB_LOG_FORGET_S - limit->second / VGB_LOG_FORGET_S) * times;
        limit->reserve_used -= forgotten < limit->reserve_used ? (unsigned)forgotten : limit->reserve_used;
        limit->second = second;
        limit->used = 0;
    }
    return limit->used < VGB_LOG_BURST * times && limit->reserve_used < VGB_LOG_RESERVE * times;
}

/* Outermost limit that this limit is part of. */
static struct vgb_ratelimit *outermost_limit(struct vgb_ratelimit *limit)
{
    while (limit->whole)
        limit = limit->whole;
    return limit;
}

bool vgb_ratelimit_take(struct vgb_ratelimit *limit, uint64_t now_ns)
{
    uint64_t second = now_ns / 1000000000u;

    for (struct vgb_ratelimit *l = limit; l; l = l->whole) {
        if (has_room(l, second))
            continue;
        outermost_limit(limit)->dropped++;
        return false;
    }
    for (struct vgb_ratelimit *l = limit; l; l = l->whole) {
        l->used++;
        l->reserve_used++;
    }
    return true;
}

/* The count of a part is added to its whole, as the part may never log again. */
static void say_dropped(struct vgb_ratelimit *limit, enum vgb_log_level level)
{
    struct vgb_ratelimit *l = outermost_limit(limit);

    if (l->dropped)
        vgb_log(level, "%u further lines of this source were dropped", l->dropped);
    l->dropped = 0;
}

void vgb_log_limited(struct vgb_ratelimit *limit, enum vgb_log_level level, const char *fmt, ...)
{
    va_list ap;

    if (level > log_max || !vgb_ratelimit_take(limit, vgb_now_ns()))
        return;
    say_dropped(limit, level);
    va_start(ap, fmt);
    emit_line(level, fmt, ap);
    va_end(ap);
}

void vgb_log_foreign(struct vgb_ratelimit *limit, const char *process, int client, const char *line)
{
    enum vgb_log_level level = VGB_INFO;
    const char *message = line;
    size_t n = strlen(process);
    char number[16] = "";

    for (unsigned i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        size_t length = strlen(level_names[i]);

        if (strncmp(line, process, n) || strncmp(line + n, ": ", 2) ||
            strncmp(line + n + 2, level_names[i], length) || strncmp(line + n + 2 + length, ": ", 2))
            continue;
        level = (enum vgb_log_level)i;
        message = line + n + 2 + length + 2;
        break;
    }
    if (log_format == VGB_LOG_TEXT) {
        vgb_log_limited(limit, level, "%s", line);
        return;
    }
    if (level > log_max || !vgb_ratelimit_take(limit, vgb_now_ns()))
        return;
    say_dropped(limit, level);
    if (client >= 0)
        snprintf(number, sizeof(number), "%d", client);
    emit_structured(level, process, number, message);
}
