/* SPDX-License-Identifier: MIT */
/*
 * Prometheus' text format. Names are dcgm-exporter's where it has the same metric, so that its
 * dashboards work, else vgpu_*. Text from guests appears in labels only, and is escaped.
 */
#include "metrics/metrics.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/vgpu_cli.h"

/*
 * Writes a label: backslash, quote and newline of its value are escaped, non-ASCII bytes are
 * replaced.
 */
static void print_label(FILE *f, const char *name, const char *text, bool first)
{
    fprintf(f, "%s%s=\"", first ? "" : ",", name);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else
            fputc(c < 0x20 || c >= 0x7f ? '?' : c, f);
    }
    fputc('"', f);
}

static void vm_label(FILE *f, const struct smi_backend *b)
{
    print_label(f, "vm", b->name, true);
    fprintf(f, ",backend=\"%ld\"", b->pid);
}

static void print_head(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Writes a metric of dcgm-exporter, with its labels. */
static void print_dcgm(FILE *f, const struct smi_backend *b, const char *name, unsigned long long value)
{
    char host[256] = "";

    gethostname(host, sizeof(host) - 1);
    fprintf(f, "%s{gpu=\"0\",", name);
    print_label(f, "modelName", b->device, true);
    print_label(f, "Hostname", host, false);
    fputc(',', f);
    vm_label(f, b);
    fprintf(f, "} %llu\n", value);
}

static void dcgm_all(FILE *f, const struct smi_status *s)
{
    print_head(f, "DCGM_FI_DEV_GPU_UTIL", "gauge",
               "GPU utilization (in %); of the software GPU: of one processor.");
    for (size_t i = 0; i < s->count; i++) {
        const struct smi_backend *b = &s->backends[i];

        /* For a backend without an earlier sample the series starts at 0. */
        if (b->percent >= 0 || b->soft)
            print_dcgm(f, b, "DCGM_FI_DEV_GPU_UTIL", b->percent > 0 ? (unsigned long long)b->percent : 0);
    }
    print_head(f, "DCGM_FI_DEV_FB_USED", "gauge", "Device memory used by the guest's processes (in MiB).");
    for (size_t i = 0; i < s->count; i++)
        print_dcgm(f, &s->backends[i], "DCGM_FI_DEV_FB_USED", smi_status_used(&s->backends[i]) >> 20);
    print_head(f, "DCGM_FI_DEV_FB_FREE", "gauge", "Device memory that the guest may still have (in MiB).");
    for (size_t i = 0; i < s->count; i++) {
        unsigned long long total = smi_status_memory(&s->backends[i]), n = smi_status_used(&s->backends[i]);

        if (total)
            print_dcgm(f, &s->backends[i], "DCGM_FI_DEV_FB_FREE", (total > n ? total - n : 0) >> 20);
    }
}

enum unit { PLAIN, MILLISECONDS };
static void print_value(FILE *f, unsigned long long n, enum unit unit)
{
    if (unit == MILLISECONDS)
        fprintf(f, "} %llu.%03llu\n", n / 1000, n % 1000);
    else
        fprintf(f, "} %llu\n", n);
}

#define OF(member) offsetof(struct smi_backend, member)
static const struct vm_metric {
    const char *name, *type, *help;
    size_t at;
    enum unit unit;
} vm_metrics[] = {
    {"vgpu_calls_total", "counter", "Records that workers took from clients.", OF(use.calls), PLAIN},
    {"vgpu_waits_total", "counter", "Records whose reply a client waits for.", OF(use.waits), PLAIN},
    {"vgpu_call_errors_total", "counter", "Records that failed when they were made.", OF(use.errors), PLAIN},
    {"vgpu_copied_bytes_total", "counter", "Bytes of copies to, from and on the device.", OF(use.copied),
     PLAIN},
    {"vgpu_cpu_seconds_total", "counter", "Processor time of the workers.", OF(use.cpu_ms), MILLISECONDS},
    {"vgpu_throttled_seconds_total", "counter",
     "Time for which clients were stopped for being ahead of their share.", OF(use.throttled_ms),
     MILLISECONDS},
    {"vgpu_clients_started_total", "counter", "Clients that were served.", OF(clients_started), PLAIN},
    {"vgpu_clients_refused_total", "counter", "Clients refused by --max-clients.", OF(clients_refused),
     PLAIN},
    {"vgpu_memory_refused_total", "counter", "Reservations of device memory that a quota refused.",
     OF(memory_refused), PLAIN},
    {"vgpu_workers_lost_total", "counter", "Workers that ended while a client used them.", OF(workers_lost),
     PLAIN},
    {"vgpu_image_hits_total", "counter", "Images that a program did not send (--image-cache).",
     OF(image_hits), PLAIN},
    {"vgpu_image_hit_bytes_total", "counter", "Bytes of these.", OF(image_hit_bytes), PLAIN},
    {"vgpu_image_refused_total", "counter", "Images whose bytes did not have the hash that a worker said.",
     OF(image_refused), PLAIN},
    {"vgpu_image_kept_bytes", "gauge", "Images that are kept for the next programs.", OF(image_kept), PLAIN},
    {"vgpu_pool_ready", "gauge", "Workers started ahead that wait for a program.", OF(pool_ready), PLAIN},
    {"vgpu_pool_target", "gauge", "Workers that are to wait: --pool, or more while programs come in bursts.",
     OF(pool_target), PLAIN},
    {"vgpu_pool_misses_total", "counter", "Programs that had to wait for the start of a worker.",
     OF(pool_misses), PLAIN},
    {"vgpu_reserved_bytes", "gauge", "Device memory that counts against --vram-quota.", OF(vram_used), PLAIN},
    {"vgpu_pinned_bytes", "gauge", "Guest memory that is shared with workers.", OF(pin_used), PLAIN},
    {"vgpu_images_bytes", "gauge", "Images of modules on their way.", OF(blob_used), PLAIN},
};

static void of_vms(FILE *f, const struct smi_status *s)
{
    print_head(f, "vgpu_up", "gauge", "1: the backend of a VM or host session answers; 0: it does not.");
    for (size_t i = 0; i < s->count; i++) {
        fprintf(f, "vgpu_up{");
        vm_label(f, &s->backends[i]);
        print_value(f, 1, PLAIN);
    }
    for (unsigned i = 0; i < s->nmutes; i++) {
        fprintf(f, "vgpu_up{");
        print_label(f, "vm", smi_mute_name(&s->mutes[i]), true);
        fprintf(f, ",backend=\"%ld\"", s->mutes[i].pid);
        print_value(f, 0, PLAIN);
    }
    print_head(f, "vgpu_backends_hidden", "gauge",
               "Backends of other users, whose status this process may not read.");
    fprintf(f, "vgpu_backends_hidden %u\n", s->silent);
    print_head(f, "vgpu_backends_refused", "gauge",
               "Status sockets that are not believed: vgpu smi --host says which, and why.");
    fprintf(f, "vgpu_backends_refused %u\n", s->refused);
    print_head(f, "vgpu_clients", "gauge", "Clients (guest processes) that are served.");
    for (size_t i = 0; i < s->count; i++) {
        fprintf(f, "vgpu_clients{");
        vm_label(f, &s->backends[i]);
        print_value(f, s->backends[i].nclients, PLAIN);
    }
    for (size_t m = 0; m < sizeof(vm_metrics) / sizeof(vm_metrics[0]); m++) {
        print_head(f, vm_metrics[m].name, vm_metrics[m].type, vm_metrics[m].help);
        for (size_t i = 0; i < s->count; i++) {
            fprintf(f, "%s{", vm_metrics[m].name);
            vm_label(f, &s->backends[i]);
            print_value(f, *(const unsigned long long *)((const char *)&s->backends[i] + vm_metrics[m].at),
                        vm_metrics[m].unit);
        }
    }
    print_head(f, "vgpu_limit", "gauge", "A limit or share by the name of its option, in its unit; 0: none.");
    for (size_t i = 0; i < s->count; i++) {
        for (unsigned k = 0; k < s->backends[i].nlimits; k++) {
            fprintf(f, "vgpu_limit{");
            vm_label(f, &s->backends[i]);
            print_label(f, "limit", s->backends[i].limits[k].name, false);
            print_value(f, s->backends[i].limits[k].value, PLAIN);
        }
    }
}

/*
 * Metrics of the numbers in struct smi_client. The name in their labels is chosen by the program.
 */
static const struct client_metric {
    const char *name, *type, *help;
    size_t at;
    enum unit unit;
} client_metrics[] = {
    {"vgpu_client_memory_bytes", "gauge", "Device memory of a guest process.",
     offsetof(struct smi_client, memory), PLAIN},
    {"vgpu_client_calls_total", "counter", "Records of a guest process.",
     offsetof(struct smi_client, use.calls), PLAIN},
    {"vgpu_client_cpu_seconds_total", "counter", "Processor time of its worker.",
     offsetof(struct smi_client, use.cpu_ms), MILLISECONDS},
    {"vgpu_client_throttled_seconds_total", "counter", "Time for which its worker was stopped.",
     offsetof(struct smi_client, use.throttled_ms), MILLISECONDS},
};

static void of_clients(FILE *f, const struct smi_status *s)
{
    for (size_t m = 0; m < sizeof(client_metrics) / sizeof(client_metrics[0]); m++) {
        print_head(f, client_metrics[m].name, client_metrics[m].type, client_metrics[m].help);
        for (size_t i = 0; i < s->count; i++) {
            for (size_t k = 0; k < s->backends[i].nclients; k++) {
                const struct smi_client *c = &s->backends[i].clients[k];

                fprintf(f, "%s{", client_metrics[m].name);
                vm_label(f, &s->backends[i]);
                fprintf(f, ",worker=\"%ld\",guest_pid=\"%u\"", c->worker, c->guest);
                print_label(f, "process", c->name, false);
                print_value(f, *(const unsigned long long *)((const char *)c + client_metrics[m].at),
                            client_metrics[m].unit);
            }
        }
    }
}

char *metrics_text(const struct smi_status *s, size_t *length)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, length);

    if (!f)
        vgpu_cli_die("out of memory");
    dcgm_all(f, s);
    of_vms(f, s);
    of_clients(f, s);
    if (fclose(f))
        vgpu_cli_die("out of memory");
    return text;
}
