/* SPDX-License-Identifier: MIT */
/*
 * The trace as lines. What the CUDA runtime does before a program's first own call, some 550 look-ups and attributes,
 * is one line; numbers that cuda.h has a name for have that.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "trace/events.h"

/* Written by names.py, out of cuda.h. */
struct value {
    const char *name;
    long long value;
};
struct list {
    unsigned first, count; /* in values */
};
struct argument {
    const char *call, *name; /* without what tells versions apart; in lower case */
    unsigned list;
    int is_flags;
};
#include "names.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Length of the name without what tells versions and default streams apart. */
static size_t base_length(const char *call)
{
    size_t n = strlen(call);

    for (;;) {
        size_t m = n;

        if (n > 5 && (!strncmp(call + n - 5, "_ptsz", 5) || !strncmp(call + n - 5, "_ptds", 5)))
            m = n - 5;
        else if (n > 3 && !strncmp(call + n - 3, "_v", 2) && call[n - 1] >= '0' && call[n - 1] <= '9')
            m = n - 3;
        if (m == n)
            return n;
        n = m;
    }
}

static const struct argument *find_argument(const char *call, const char *name, size_t length)
{
    size_t n = base_length(call);

    for (size_t i = 0; i < COUNT(arguments); i++) {
        const struct argument *a = &arguments[i];

        if (strlen(a->call) == n && !strncmp(a->call, call, n) && strlen(a->name) == length &&
            !strncasecmp(a->name, name, length))
            return a;
    }
    return NULL;
}

/* The name of the value, or those of all its bits. False, and nothing written: a bit has no name. */
static bool put_names(const struct argument *a, long long value, FILE *out)
{
    const struct value *list = &values[lists[a->list].first];
    unsigned n = lists[a->list].count;
    long long known = 0; /* the bits that have a name */

    for (unsigned i = 0; i < n; i++) {
        if (list[i].value == value) {
            fputs(list[i].name, out);
            return true;
        }
        if (list[i].value > 0 && !(list[i].value & (list[i].value - 1)))
            known |= list[i].value;
    }
    if (!a->is_flags || value <= 0 || (value & ~known))
        return false;
    for (unsigned i = 0; i < n; i++) {
        if (list[i].value > 0 && !(list[i].value & (list[i].value - 1)) && (value & list[i].value)) {
            value &= ~list[i].value;
            fprintf(out, "%s%s", list[i].name, value ? "|" : "");
        }
    }
    return true;
}

/* Words of the program for a terminal: kernels are named by it. */
static void put(const char *text, size_t n, FILE *out)
{
    for (; n && *text; n--, text++)
        fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, out);
}

/* The arguments, words "name=value" and "*name=value", with names in place of numbers. */
static void print_arguments(const struct vgpu_cli_event *e, FILE *out)
{
    const char *at = e->text;

    while (*at) {
        const char *name = at + (*at == '*'), *equals = name + strcspn(name, "= ");
        const struct argument *a =
            *equals == '=' ? find_argument(e->call, name, (size_t)(equals - name)) : NULL;
        char *end = NULL;
        long long value = a ? strtoll(equals + 1, &end, 0) : 0;

        if (a && end > equals + 1 && (*end == ' ' || !*end)) {
            put(at, (size_t)(equals + 1 - at), out);
            if (!put_names(a, value, out))
                put(equals + 1, (size_t)(end - equals - 1), out);
            at = end;
        } else {
            size_t length = strcspn(at, " ");

            put(at, length, out);
            at += length;
        }
        while (*at == ' ')
            fputc(*at++, out);
    }
}

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static bool is_lookup(const char *call)
{
    return begins(call, "cuGetProcAddress") || begins(call, "cuGetExportTable") ||
           !strcmp(call, "validity check");
}

/* What the runtime asks before it does anything for the program. */
static bool is_start_up(const char *call)
{
    static const char *const calls[] = {"cuDriverGetVersion",
                                        "cuInit",
                                        "cuModuleGetLoadingMode",
                                        "cuDeviceGetCount",
                                        "cuDeviceGet",
                                        "cuDeviceGetName",
                                        "cuDeviceGetUuid",
                                        "cuDeviceGetUuid_v2",
                                        "cuDeviceTotalMem_v2",
                                        "cuDeviceGetAttribute",
                                        "cuCtxGetCurrent"};

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (!strcmp(calls[i], call))
            return true;
    }
    return is_lookup(call);
}

static void show_one(const struct vgpu_cli_event *e, FILE *out)
{
    fprintf(out, "vgpu[%d.%d] ", e->pid, e->tid);
    if (e->type == VGPU_EVENT_CALL) {
        put(e->call, SIZE_MAX, out);
        fputc('(', out);
        print_arguments(e, out);
        fprintf(out, ") = %s %.3f us\n", e->result, e->us);
    } else {
        fputs(e->type == VGPU_EVENT_WHY ? "why " : "", out);
        put(e->call, SIZE_MAX, out);
        fputs(e->type == VGPU_EVENT_REFUSAL ? ": not supported: " : ": ", out);
        put(e->text, SIZE_MAX, out);
        fputc('\n', out);
    }
}

void vgpu_cli_show_end(struct vgpu_cli_show *s, FILE *out)
{
    if (s->folded)
        fprintf(out, "vgpu[%d] start-up: %lu calls, %.1f us (--all shows them)\n", s->pid, s->folded, s->us);
    s->folded = 0;
    s->us = 0;
    fflush(out);
}

void vgpu_cli_show(struct vgpu_cli_show *s, const struct vgpu_cli_events *events, FILE *out)
{
    for (; s->next < events->count; s->next++) {
        const struct vgpu_cli_event *e = &events->list[s->next];
        bool is_call = e->type == VGPU_EVENT_CALL;

        if (!vgpu_cli_event_shown(e, s->filter))
            continue;
        /* A new process starts; in one that works, look-ups alone are start-up: those of a further library. */
        if (!s->all && is_call && !vgpu_cli_event_failed(e) &&
            (is_lookup(e->call) || ((s->pid != e->pid || s->folded) && is_start_up(e->call)))) {
            if (s->pid != e->pid)
                vgpu_cli_show_end(s, out);
            s->pid = e->pid;
            s->folded++;
            s->us += e->us;
            continue;
        }
        vgpu_cli_show_end(s, out);
        s->pid = e->pid;
        show_one(e, out);
    }
    fflush(out);
}
