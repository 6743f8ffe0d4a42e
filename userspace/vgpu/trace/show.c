/* SPDX-License-Identifier: MIT */
/*
 * The trace as lines. What the CUDA runtime does before a program's first own call, some 550 look-ups and attributes,
 * is one line; numbers of attributes have their names.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/events.h"

static const struct attribute {
    const char *name;
    int value;
} attributes[] = {
#include "attributes.h"
};

/* Which list of names a call's argument "attrib=" is from. */
static const struct family {
    const char *call, *prefix;
} families[] = {
    {"cuDeviceGetAttribute", "CU_DEVICE_ATTRIBUTE_"},
    {"cuFuncGetAttribute", "CU_FUNC_ATTRIBUTE_"},
    {"cuFuncSetAttribute", "CU_FUNC_ATTRIBUTE_"},
    {"cuKernelGetAttribute", "CU_FUNC_ATTRIBUTE_"},
    {"cuKernelSetAttribute", "CU_FUNC_ATTRIBUTE_"},
    {"cuPointerGetAttribute", "CU_POINTER_ATTRIBUTE_"},
    {"cuPointerSetAttribute", "CU_POINTER_ATTRIBUTE_"},
    {"cuDeviceGetP2PAttribute", "CU_DEVICE_P2P_ATTRIBUTE_"},
};

static const char *name_of(const char *prefix, int value)
{
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
        if (attributes[i].value == value && !strncmp(attributes[i].name, prefix, strlen(prefix)))
            return attributes[i].name;
    }
    return NULL;
}

/* Words of the program for a terminal: kernels are named by it. */
static void put(const char *text, size_t n, FILE *out)
{
    for (; n && *text; n--, text++)
        fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, out);
}

/* The arguments, with the name of the attribute in place of its number. */
static void print_arguments(const struct vgpu_cli_event *e, FILE *out)
{
    const char *at = strstr(e->text, "attrib=");
    const char *name = NULL;
    size_t key = 7;
    char *end;

    for (size_t i = 0; at && i < sizeof(families) / sizeof(families[0]); i++) {
        if (!strcmp(families[i].call, e->call))
            name = name_of(families[i].prefix, (int)strtol(at + key, &end, 0));
    }
    if (name) {
        put(e->text, (size_t)(at + key - e->text), out);
        fputs(name, out);
        put(end, SIZE_MAX, out);
    } else {
        put(e->text, SIZE_MAX, out);
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
