/* SPDX-License-Identifier: MIT */
/*
 * vgpu smi --host: the backends of this host, their workers, and the guest processes that these
 * serve.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "smi/smi.h"
#include "smi/status.h"
#include "../../../lib/json/json.h"

#define SAMPLE_MS 200 /* duration of a utilisation sample; a loop uses its own period */
/* The table fits into the 80 columns of a terminal. */
#define RULE "+------------------------------------------------------------------------------+"
#define WHERE_MAX 23
#define PROCESS_MAX 15

static const char *percent_text(char *text, size_t room, int value)
{
    if (value < 0)
        return "N/A";
    snprintf(text, room, "%d%%", value);
    return text;
}

static const char *cap_text(char *text, size_t room, unsigned long long value)
{
    if (!value)
        return "-";
    snprintf(text, room, "%llu%%", value);
    return text;
}

/* "64MiB / 4096MiB" */
static const char *memory_text(char *text, size_t room, const struct smi_backend *b)
{
    unsigned long long sum = smi_status_used(b), total = smi_status_memory(b);

    if (total)
        snprintf(text, room, "%lluMiB / %lluMiB", sum >> 20, total >> 20);
    else
        snprintf(text, room, "%lluMiB / N/A", sum >> 20);
    return text;
}

/* Returns the end of a text that is too long, which identifies a path better than its beginning. */
static const char *text_tail(char *out, size_t width, const char *text)
{
    size_t n = strlen(text);

    if (n <= width) {
        memcpy(out, text, n + 1);
    } else {
        memcpy(out, "...", 3);
        memcpy(out + 3, text + n - (width - 3), width - 2);
    }
    return out;
}

/* Formats a count in at most eight characters: "99999999", then "100M". */
static const char *count_text(char *text, size_t room, unsigned long long n)
{
    if (n < 100000000)
        snprintf(text, room, "%llu", n);
    else
        snprintf(text, room, "%lluM", n / 1000000);
    return text;
}

static void print_backend(const struct smi_backend *b)
{
    char where[WHERE_MAX + 1], mem[48], util[16], limit[24], clients[48];

    /* For a machine without a name, its socket is shown. */
    text_tail(where, WHERE_MAX, b->named ? b->name : b->where);
    snprintf(clients, sizeof(clients), "%zu / %llu", b->nclients, smi_status_limit(b, "max-clients"));
    printf("| %-23s %7ld %4s %19s %9s %4llu %4s |\n", where, b->pid,
           percent_text(util, sizeof(util), b->percent), memory_text(mem, sizeof(mem), b), clients,
           smi_status_limit(b, "weight"), cap_text(limit, sizeof(limit), smi_status_limit(b, "cap")));
}

static void print_mute(const struct smi_mute *m)
{
    char where[WHERE_MAX + 1], pid[24] = "-";

    if (m->pid)
        snprintf(pid, sizeof(pid), "%ld", m->pid);
    printf("| %-23s %7s %-44s |\n%s\n", text_tail(where, WHERE_MAX, smi_mute_name(m)), pid, "no answer",
           RULE);
}

static void print_client(const struct smi_client *c)
{
    char name[PROCESS_MAX + 1], util[16], limit[24], seconds[40], weight[16] = "-", calls[32];

    snprintf(seconds, sizeof(seconds), c->use.cpu_ms < 100000000 ? "%llu.%01llus" : "%llus",
             c->use.cpu_ms / 1000, c->use.cpu_ms % 1000 / 100);
    if (c->paced)
        snprintf(weight, sizeof(weight), "%u", c->weight);
    printf("|  %-15s %7u %7ld %4s %7lluMiB %8s %8s %4s %4s |\n", text_tail(name, PROCESS_MAX, c->name),
           c->guest, c->worker, percent_text(util, sizeof(util), c->percent), c->memory >> 20,
           count_text(calls, sizeof(calls), c->use.calls), seconds, weight,
           cap_text(limit, sizeof(limit), c->cap));
}

static void print_table(const struct smi_status *s)
{
    printf("%s\n| %-23s %7s %4s %19s %9s %4s %4s |\n", RULE, "Machine", "PID", "Util", "Memory-Usage",
           "Clients", "Wght", "Cap");
    printf("|  %-15s %7s %7s %4s %10s %8s %8s %4s %4s |\n%s\n", "Guest process", "Guest", "Worker", "Util",
           "Memory", "Calls", "CPU time", "", "", RULE);
    for (size_t i = 0; i < s->count; i++) {
        const struct smi_backend *b = &s->backends[i];

        print_backend(b);
        for (size_t k = 0; k < b->nclients; k++)
            print_client(&b->clients[k]);
        if (!b->nclients)
            printf("|  %-75s |\n", "no guest process");
        printf("%s\n", RULE);
    }
    for (unsigned i = 0; i < s->nmutes; i++)
        print_mute(&s->mutes[i]);
}

static void print_use(int indent, const struct smi_use *u)
{
    printf("%*s%-*s: %llu.%03llu s\n", indent, "", 40 - indent, "Processor time", u->cpu_ms / 1000,
           u->cpu_ms % 1000);
    printf("%*s%-*s: %llu.%03llu s\n", indent, "", 40 - indent, "Throttled", u->throttled_ms / 1000,
           u->throttled_ms % 1000);
    printf("%*s%-*s: %llu\n", indent, "", 40 - indent, "Calls", u->calls);
    printf("%*s%-*s: %llu\n", indent, "", 40 - indent, "Calls waited for", u->waits);
    printf("%*s%-*s: %llu\n", indent, "", 40 - indent, "Calls that failed", u->errors);
    printf("%*s%-*s: %llu\n", indent, "", 40 - indent, "Bytes copied", u->copied);
}

static bool is_size(const char *limit)
{
    return strstr(limit, "quota") || strstr(limit, "memory") || strstr(limit, "printf") ||
           strstr(limit, "image");
}

static void print_limits(const struct smi_backend *b)
{
    printf("    Limits\n");
    for (unsigned i = 0; i < b->nlimits; i++) {
        unsigned long long value = b->limits[i].value;

        printf("        %-32s: ", b->limits[i].name);
        if (!value)
            printf("none\n");
        else if (is_size(b->limits[i].name) && value % (1u << 20))
            printf("%llu bytes\n", value);
        else if (is_size(b->limits[i].name))
            printf("%llu MiB\n", value >> 20);
        else
            printf("%llu\n", value);
    }
}

static void print_everything(const struct smi_status *s)
{
    char text[48];

    printf("%-40s: %zu\n", "Backends", s->count + s->nmutes);
    for (unsigned i = 0; i < s->nmutes; i++) {
        printf("Backend %ld\n", s->mutes[i].pid);
        printf("    %-36s: %s\n", "Name", smi_mute_name(&s->mutes[i]));
        printf("    %-36s: no answer\n", "State");
    }
    for (size_t i = 0; i < s->count; i++) {
        const struct smi_backend *b = &s->backends[i];

        printf("Backend %ld\n", b->pid);
        printf("    %-36s: %s\n", "Name", b->name);
        printf("    %-36s: %s\n", "Socket", b->where);
        printf("    %-36s: %s\n", "Device", *b->device ? b->device : "N/A");
        printf("    %-36s: %s\n", "Memory", memory_text(text, sizeof(text), b));
        printf("    %-36s: %s\n", "Utilization", percent_text(text, sizeof(text), b->percent));
        printf("    %-36s: %llu MiB\n", "Pinned guest memory", b->pin_used >> 20);
        printf("    %-36s: %llu MiB\n", "Images on their way", b->blob_used >> 20);
        printf("    %-36s: %s\n", "Shares", b->paced ? "enforced" : "not enforced");
        print_use(4, &b->use);
        printf("    %-36s: %llu\n", "Clients since start", b->clients_started);
        printf("    %-36s: %llu\n", "Clients refused", b->clients_refused);
        printf("    %-36s: %llu\n", "Allocations refused", b->memory_refused);
        printf("    %-36s: %llu\n", "Workers lost", b->workers_lost);
        print_limits(b);
        printf("    Clients\n");
        for (size_t k = 0; k < b->nclients; k++) {
            const struct smi_client *c = &b->clients[k];

            printf("        %-32s: %ld\n", "Worker", c->worker);
            printf("            %-28s: %u\n", "Guest process", c->guest);
            printf("            %-28s: %s\n", "Name", c->name);
            printf("            %-28s: %llu MiB\n", "Memory", c->memory >> 20);
            printf("            %-28s: %s\n", "Utilization", percent_text(text, sizeof(text), c->percent));
            if (c->paced)
                printf("            %-28s: %u, cap %s\n", "Weight", c->weight,
                       cap_text(text, sizeof(text), c->cap));
            print_use(12, &c->use);
        }
    }
}

static void json_use(const struct smi_use *u)
{
    printf("\"cpu_ms\": %llu, \"throttled_ms\": %llu, \"calls\": %llu, \"waits\": %llu, \"errors\": %llu, "
           "\"copied_bytes\": %llu",
           u->cpu_ms, u->throttled_ms, u->calls, u->waits, u->errors, u->copied);
}

static void json_percent(int value)
{
    if (value < 0)
        printf("\"utilization\": null, ");
    else
        printf("\"utilization\": %d, ", value);
}

static void print_json(const struct smi_status *s)
{
    printf("{\"backends\": [");
    for (size_t i = 0; i < s->count; i++) {
        const struct smi_backend *b = &s->backends[i];

        printf("%s{\"pid\": %ld, \"name\": ", i ? ", " : "", b->pid);
        jsn_print(stdout, b->name);
        printf(", \"socket\": ");
        jsn_print(stdout, b->where);
        printf(", \"device\": ");
        jsn_print(stdout, b->device);
        printf(", \"software\": %s, \"memory_total\": %llu, \"vram_reserved\": %llu, \"pinned\": %llu, ",
               b->soft ? "true" : "false", smi_status_memory(b), b->vram_used, b->pin_used);
        json_percent(b->percent);
        json_use(&b->use);
        printf(
            ", \"clients_started\": %llu, \"clients_refused\": %llu, \"memory_refused\": %llu, \"workers_lost\": "
            "%llu, \"shares\": %s, \"limits\": {",
            b->clients_started, b->clients_refused, b->memory_refused, b->workers_lost,
            b->paced ? "true" : "false");
        for (unsigned k = 0; k < b->nlimits; k++) {
            printf("%s", k ? ", " : "");
            jsn_print(stdout, b->limits[k].name);
            printf(": %llu", b->limits[k].value);
        }
        printf("}, \"clients\": [");
        for (size_t k = 0; k < b->nclients; k++) {
            const struct smi_client *c = &b->clients[k];

            printf("%s{\"worker\": %ld, \"guest_pid\": %u, \"name\": ", k ? ", " : "", c->worker, c->guest);
            jsn_print(stdout, c->name);
            printf(", \"memory\": %llu, ", c->memory);
            json_percent(c->percent);
            if (c->paced)
                printf("\"weight\": %u, \"cap\": %u, ", c->weight, c->cap);
            json_use(&c->use);
            printf("}");
        }
        printf("]}");
    }
    printf("], \"no_answer\": [");
    for (unsigned i = 0; i < s->nmutes; i++) {
        printf("%s{\"pid\": %ld, \"name\": ", i ? ", " : "", s->mutes[i].pid);
        jsn_print(stdout, smi_mute_name(&s->mutes[i]));
        printf("}");
    }
    printf("], \"hidden\": %u, \"refused\": [", s->silent);
    for (unsigned i = 0; i < s->refused && i < SMI_REFUSED_MAX; i++) {
        printf("%s", i ? ", " : "");
        jsn_print(stdout, s->refusals[i]);
    }
    printf("]}\n");
}

static void wait_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static void print_status(const struct smi_status *s, enum smi_host_form form)
{
    if (form == SMI_HOST_JSON) {
        print_json(s);
        return;
    }
    if ((s->count || s->nmutes) && form == SMI_HOST_ALL)
        print_everything(s);
    else if (s->count || s->nmutes)
        print_table(s);
    for (unsigned i = 0; i < s->refused && i < SMI_REFUSED_MAX; i++)
        printf("not believed: %s\n", s->refusals[i]);
    if (s->silent)
        printf("%u backends of other users are not shown\n", s->silent);
    else if (!s->count && !s->nmutes)
        printf("no vgpu-backend runs on this host\n");
}

int smi_host(enum smi_host_form form, long loop_ms)
{
    struct smi_status before, now;

    smi_status_read(&before, NULL);
    if (before.count)
        wait_ms(SAMPLE_MS);
    for (;;) {
        smi_status_read(&now, &before);
        print_status(&now, form);
        fflush(stdout);
        smi_status_free(&before);
        before = now;
        if (!loop_ms || ferror(stdout))
            break;
        wait_ms(loop_ms);
    }
    smi_status_free(&before);
    return 0;
}
