/* SPDX-License-Identifier: MIT */
/* The machine-readable trace (VGPU_TRACE_JSON of libcuda and libnvidia-ml), read again. */
#ifndef CLI_EVENTS_H
#define CLI_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum vgpu_cli_event_type { VGPU_EVENT_CALL, VGPU_EVENT_WHY, VGPU_EVENT_REFUSAL, VGPU_EVENT_RING };

struct vgpu_cli_event {
    enum vgpu_cli_event_type type;
    int pid, tid;
    int code;     /* calls: the result */
    double us;    /* calls: how long it took */
    double time;  /* when it ended, seconds */
    char *call;   /* name */
    char *text;   /* calls: arguments; others: the text */
    char *result; /* calls: the result's name */
};

struct vgpu_cli_events {
    struct vgpu_cli_event *list;
    size_t count, room;
    size_t odd; /* lines that were not understood: the last one of a killed process, for instance */
};

/* Reads a trace file; a missing one is an empty trace. What is read is owned by *events, for the
 * rest of the process. At most 4 million lines are kept. */
void vgpu_cli_events_read(struct vgpu_cli_events *events, const char *path);

/* One value out of the arguments or the text: "name=VALUE"; -1 when it is not there. */
long vgpu_cli_event_number(const struct vgpu_cli_event *e, const char *name);

/* Appends what is there beyond what was read already; `f` is the file. A line that is not complete is left for the next
 * time. */
void vgpu_cli_events_more(struct vgpu_cli_events *events, FILE *f);

/* Which calls are shown: names and patterns of the shell, separated by commas; NULL: all. */
bool vgpu_cli_event_shown(const struct vgpu_cli_event *e, const char *filter);
/* Does the call's result say that something is wrong? Not: work that is not ready, names that are asked for and are not
 * there, objects that are freed after the driver has ended. */
bool vgpu_cli_event_failed(const struct vgpu_cli_event *e);

/* Prints per-call totals, most time first, at most `top` lines (0: all), then what was refused and why. */
void vgpu_cli_events_totals(const struct vgpu_cli_events *events, const char *filter, long top, FILE *out);

/* show.c: the events as lines. */
struct vgpu_cli_show {
    size_t next;        /* the first event that was not shown */
    const char *filter; /* as above */
    bool all;           /* the runtime's start-up too, call by call */
    int pid;            /* a process whose start-up is being folded, 0: none */
    unsigned long folded;
    double us;
};
/* Shows what is new. */
void vgpu_cli_show(struct vgpu_cli_show *s, const struct vgpu_cli_events *events, FILE *out);
/* The last of them was shown. */
void vgpu_cli_show_end(struct vgpu_cli_show *s, FILE *out);

/* chrome.c: a timeline in the JSON that Perfetto and chrome://tracing read; closes f. False: it cannot be written. */
bool vgpu_cli_chrome(const struct vgpu_cli_events *events, const char *filter, FILE *f);
/*
 * Opens a file that the program has written, which may be a guest: no link, no pipe that would hold the reader. NULL: there
 * is none, or it is no regular file.
 */
FILE *vgpu_cli_events_open(const char *path);

/* Prints a text as a JSON string. */
void vgpu_cli_json_text(FILE *out, const char *text);

#endif
