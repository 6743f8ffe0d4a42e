/* SPDX-License-Identifier: MIT */
/*
 * Logging of broker and worker: one line per call, "name: level: text", or one JSON object, or one datagram for
 * systemd's journal, to one file descriptor.
 * A line is written with a single write(2), so lines of several processes do not mix. Nothing here
 * allocates. Whatever a peer can cause more than once is logged through vgb_log_limited().
 */
#ifndef VGB_LOG_H
#define VGB_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum vgb_log_level { VGB_ERROR = 0, VGB_WARN = 1, VGB_INFO = 2, VGB_DEBUG = 3 };

/* Lines allowed per source and second; and in a row, of which one is forgotten in so many seconds: what a peer provokes
 * for days fills no disk, and what comes after it is not lost for long. Further lines are counted and reported as one. */
#define VGB_LOG_BURST 20
#define VGB_LOG_RESERVE 1000
#define VGB_LOG_FORGET_S 4

struct vgb_ratelimit {
    uint64_t second; /* the second (monotonic) that `used` counts */
    unsigned used;
    unsigned reserve_used;
    unsigned dropped; /* and not reported yet; those of a part count in the whole's */
    unsigned times;   /* the numbers above, so many times; 0: once */
    struct vgb_ratelimit
        *whole; /* of which this is a part: a line counts for both, and so on; NULL: of none */
};

/* Sets the destination (not closed by this module), the most detailed level written, and the name
 * that starts each line. `name` must outlive the process. */
void vgb_log_init(int fd, enum vgb_log_level max_level, const char *name);
enum vgb_log_format {
    VGB_LOG_TEXT,
    VGB_LOG_JSON,    /* time, level, process, vm, client, client_name, message; ASCII */
    VGB_LOG_JOURNAL, /* the fields of systemd's journal; the descriptor is a connected socket of it */
};
/* Sets the form, and which VM the lines are about. `vm` must outlive the process. */
void vgb_log_set_format(enum vgb_log_format format, const char *vm);
bool vgb_log_format_parse(const char *text, enum vgb_log_format *format);
/* A socket connected to the journal that listens at `path`; -errno. */
int vgb_log_journal(const char *path);
#define VGB_LOG_JOURNAL_PATH "/run/systemd/journal/socket"
/* A line that another process of ours has printed, which may be in a peer's hands. It stands under `process`, whatever it
 * says; "process: level: text" has that level (else info), and in the structured forms it is about `client`, the
 * number of one (-1: of none). At most as many lines as vgb_log_limited() writes. */
void vgb_log_foreign(struct vgb_ratelimit *limit, const char *process, int client, const char *line);
/* Parses "error", "warn", "info", "debug" into *level; false when it is none of them. */
bool vgb_log_level_parse(const char *text, enum vgb_log_level *level);
enum vgb_log_level vgb_log_level_get(void);

void vgb_log(enum vgb_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same, as many lines as each `limit` allows. */
void vgb_log_limited(struct vgb_ratelimit *limit, enum vgb_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* True when a line may be written now (takes one from the budget). */
bool vgb_ratelimit_take(struct vgb_ratelimit *limit, uint64_t now_ns);

/* CLOCK_MONOTONIC, nanoseconds. */
uint64_t vgb_now_ns(void);

#endif
