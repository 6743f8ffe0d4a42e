/* SPDX-License-Identifier: MIT */
/*
 * vgpu metrics, as a process of its own: it queries backends as `vgpu smi --host` does, so that no
 * HTTP reaches a process that holds a guest's memory.
 */
#include "metrics/metrics.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/vgpu_cli.h"

#define SAMPLE_MS 200

static void metrics_help(void)
{
    printf(
        "usage: vgpu metrics [--listen PATH|ADDRESS:PORT]\n"
        "\n"
        "Metrics of all backends of this host for Prometheus, in its text format: dcgm-exporter's names for\n"
        "what it has too (DCGM_FI_DEV_GPU_UTIL, _FB_USED, _FB_FREE), vgpu_* for clients, calls, waits, bytes,\n"
        "refusals, throttled time, limits. Without --listen they are printed once, as the textfile collector\n"
        "of node_exporter takes them.\n"
        "\n"
        "  -l, --listen WHERE  serve them at /metrics: the path of a unix socket, which gets the mode 0660,\n"
        "                      or an address of the loopback and a port (127.0.0.1:9400; 0: any port). What\n"
        "                      is served is printed. Whoever may connect may read\n"
        "  -h, --help          this text\n"
        "\n"
        "Backends of other users are shown to root alone. Exit status: 0; 2 wrong use; 125 another error.\n");
}

void metrics_sample(struct smi_status *now)
{
    const struct timespec pause = {0, SAMPLE_MS * 1000000};
    struct smi_status before;

    smi_status_read(&before, NULL);
    if (before.count)
        nanosleep(&pause, NULL);
    smi_status_read(now, &before);
    smi_status_free(&before);
}

static int print_once(void)
{
    struct smi_status now;
    size_t length = 0;
    char *text;

    metrics_sample(&now);
    text = metrics_text(&now, &length);
    fwrite(text, 1, length, stdout);
    free(text);
    smi_status_free(&now);
    return 0;
}

int vgpu_cli_metrics(int argc, char **argv)
{
    static const struct option options[] = {
        {"listen", required_argument, NULL, 'l'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    const char *where = NULL;
    int c;

    while ((c = vgpu_cli_getopt("metrics", argc, argv, "l:h", options)) != -1) {
        if (c == 'h') {
            metrics_help();
            return 0;
        }
        where = optarg;
    }
    if (optind != argc) {
        vgpu_cli_say("metrics: '%s' is not understood; see `vgpu metrics --help`", argv[optind]);
        return 2;
    }
    return where ? metrics_serve(where) : print_once();
}
