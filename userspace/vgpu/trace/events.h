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

/* Prints per-call totals, most time first, then what was refused and why. */
void vgpu_cli_events_totals(const struct vgpu_cli_events *events, FILE *out);

/* Prints a text as a JSON string. */
void vgpu_cli_json_text(FILE *out, const char *text);

#endif
