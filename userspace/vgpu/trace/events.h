/* SPDX-License-Identifier: MIT */
/* Reader of the machine-readable trace (VGPU_TRACE_JSON of libcuda and libnvidia-ml). */
#ifndef CLI_EVENTS_H
#define CLI_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum vgpu_cli_event_type { VGPU_EVENT_CALL, VGPU_EVENT_WHY, VGPU_EVENT_REFUSAL, VGPU_EVENT_RING };

struct vgpu_cli_event {
    enum vgpu_cli_event_type type;
    int pid, tid;
    int code;     /* calls: the result */
    double us;    /* calls: duration, us */
    double time;  /* time of its end, s */
    char *call;   /* name */
    char *text;   /* calls: arguments; other events: the text */
    char *result; /* calls: name of the result */
};

struct vgpu_cli_events {
    struct vgpu_cli_event *list;
    size_t count, room;
    size_t odd;     /* malformed lines: for instance the last line of a killed process */
    uint64_t taken; /* number of bytes read */
    bool skips;     /* the rest of an overlong line is being skipped */
};

/* Reads a trace file; a missing file is an empty trace. *events owns the data for the rest of the
 * process. At most 4 million lines are kept, and 1 GiB is read. */
void vgpu_cli_events_read(struct vgpu_cli_events *events, const char *path);

/* A number from the arguments or the text, "name=VALUE"; -1: missing. */
long vgpu_cli_event_number(const struct vgpu_cli_event *e, const char *name);

/* Appends the events added to the file `f` since the last read. An incomplete line is left for the
 * next read. */
void vgpu_cli_events_more(struct vgpu_cli_events *events, FILE *f);

/*
 * True if the call is to be shown. filter: names and shell patterns, separated by commas; NULL: all
 * calls.
 */
bool vgpu_cli_event_shown(const struct vgpu_cli_event *e, const char *filter);
/* True if the call's result is an error. Not errors: unfinished work, names that are queried and
 * missing, objects freed after the driver has ended. */
bool vgpu_cli_event_failed(const struct vgpu_cli_event *e);

/* Prints per-call totals, most time first, at most `top` lines (0: all), then the refusals with
 * their reasons. */
void vgpu_cli_events_totals(const struct vgpu_cli_events *events, const char *filter, long top, FILE *out);

/* trace_show.c: prints the events as lines. */
struct vgpu_cli_show {
    size_t next;        /* index of the first event not yet shown */
    const char *filter; /* as in vgpu_cli_event_shown() */
    bool all;           /* shows the runtime's start-up call by call */
    int pid;            /* process whose start-up is being folded; 0: none */
    unsigned long folded;
    double us;
};
/* Prints the new events. */
void vgpu_cli_show(struct vgpu_cli_show *s, const struct vgpu_cli_events *events, FILE *out);
/* Called after the last event. */
void vgpu_cli_show_end(struct vgpu_cli_show *s, FILE *out);

/* trace_chrome.c: writes a timeline in the JSON read by Perfetto and chrome://tracing; closes f. False:
 * write error. */
bool vgpu_cli_chrome(const struct vgpu_cli_events *events, const char *filter, FILE *f);
/*
 * Opens a file written by the program, possibly in a guest: rejects links, and pipes, which would
 * block the reader. NULL: missing, or not a regular file.
 */
FILE *vgpu_cli_events_open(const char *path);

#endif
