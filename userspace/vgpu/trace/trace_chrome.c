/* SPDX-License-Identifier: MIT */
/*
 * The trace as a timeline, in the JSON of Chrome's trace viewer: complete events (ph X), times in
 * microseconds since the first event.
 */
#include <stdio.h>

#include "../../../lib/json/json.h"
#include "trace/events.h"

static void chrome_event(const struct vgpu_cli_event *e, double origin, bool first, FILE *f)
{
    double end = (e->time - origin) * 1e6;

    fprintf(f, "%s\n{\"name\": ", first ? "" : ",");
    jsn_print(f, e->call);
    if (e->type == VGPU_EVENT_CALL)
        fprintf(f, ", \"cat\": \"call\", \"ph\": \"X\", \"ts\": %.3f, \"dur\": %.3f",
                end > e->us ? end - e->us : 0, e->us);
    else
        fprintf(f, ", \"cat\": \"note\", \"ph\": \"i\", \"s\": \"t\", \"ts\": %.3f", end > 0 ? end : 0);
    fprintf(f, ", \"pid\": %d, \"tid\": %d, \"args\": {\"%s\": ", e->pid, e->tid,
            e->type == VGPU_EVENT_CALL ? "arguments" : "text");
    jsn_print(f, e->text);
    if (e->type == VGPU_EVENT_CALL) {
        fprintf(f, ", \"result\": ");
        jsn_print(f, e->result);
    }
    fprintf(f, "}}");
}

bool vgpu_cli_chrome(const struct vgpu_cli_events *events, const char *filter, FILE *f)
{
    double origin = 0;
    bool first = true;

    for (size_t i = 0; i < events->count; i++) {
        double begin = events->list[i].time - events->list[i].us / 1e6;

        origin = i == 0 || begin < origin ? begin : origin;
    }
    fprintf(f, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
    for (size_t i = 0; i < events->count; i++) {
        if (!vgpu_cli_event_shown(&events->list[i], filter))
            continue;
        chrome_event(&events->list[i], origin, first, f);
        first = false;
    }
    fprintf(f, "\n]}\n");
    return !fclose(f);
}
