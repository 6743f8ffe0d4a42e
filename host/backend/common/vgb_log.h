/* SPDX-License-Identifier: MIT */
/*
 * Logging of broker and worker to a file descriptor: each call writes a line "name: level: text", a
 * JSON object, or a datagram for systemd's journal. A line is written with a single write(2), so
 * lines of several processes do not mix. Nothing here allocates. Messages that a peer can cause
 * more than once go through vgb_log_limited().
 */
#ifndef VGB_LOG_H
#define VGB_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum vgb_log_level { VGB_ERROR = 0, VGB_WARN = 1, VGB_INFO = 2, VGB_DEBUG = 3 };

/*
 * Rate limit per source: BURST lines a second; RESERVE lines in total, of which a line is restored
 * every FORGET_S seconds, so that a peer cannot fill a disk over days and later lines are not
 * suppressed for long. Suppressed lines are counted and reported in a single line.
 */
#define VGB_LOG_BURST 20
#define VGB_LOG_RESERVE 1000
#define VGB_LOG_FORGET_S 4

struct vgb_ratelimit {
    uint64_t second; /* the second (monotonic) that `used` counts */
    unsigned used;
    unsigned reserve_used;
    /* suppressed and not reported yet; those of a part are counted in its whole */
    unsigned dropped;
    unsigned times; /* multiplier of the limits above; 0: 1 */
    /* Limit that this limit is part of: a line counts for both, recursively. NULL: none. */
    struct vgb_ratelimit *whole;
};

/* Sets the destination (not closed by this module), the most detailed level written, and the name
 * at the start of each line. `name` must stay valid until exit. */
void vgb_log_init(int fd, enum vgb_log_level max_level, const char *name);
enum vgb_log_format {
    VGB_LOG_TEXT,
    VGB_LOG_JSON, /* time, level, process, vm, client, client_name, message; ASCII */
    /* fields of systemd's journal; the descriptor is a connected journal socket */
    VGB_LOG_JOURNAL,
};
/* Sets the format, and the name of the VM for the structured formats. `vm` must stay valid until
 * exit. */
void vgb_log_set_format(enum vgb_log_format format, const char *vm);
bool vgb_log_format_parse(const char *text, enum vgb_log_format *format);
/* Connects a socket to the journal listening at `path`. Descriptor or -errno. */
int vgb_log_journal(const char *path);
#define VGB_LOG_JOURNAL_PATH "/run/systemd/journal/socket"
/*
 * Logs a line printed by another process of this program, which may be under a peer's control. It
 * is attributed to `process` whatever it contains. "process: level: text" sets its level (default
 * info); the structured formats attribute it to `client`, a client number (-1: none). Limited as by
 * vgb_log_limited().
 */
void vgb_log_foreign(struct vgb_ratelimit *limit, const char *process, int client, const char *line);
/* Parses "error", "warn", "info" or "debug" into *level; false for any other text. */
bool vgb_log_level_parse(const char *text, enum vgb_log_level *level);
enum vgb_log_level vgb_log_level_get(void);

void vgb_log(enum vgb_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same, subject to `limit`. */
void vgb_log_limited(struct vgb_ratelimit *limit, enum vgb_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* True if a line may be written now; takes it from the budget. */
bool vgb_ratelimit_take(struct vgb_ratelimit *limit, uint64_t now_ns);

/* CLOCK_MONOTONIC, nanoseconds. */
uint64_t vgb_now_ns(void);

#endif
