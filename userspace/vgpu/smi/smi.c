/* SPDX-License-Identifier: MIT */
/*
 * vgpu smi: the common functions of nvidia-smi, through our libnvidia-ml.so.1. In a guest, or with
 * VGPU_SOCKET, it shows the GPU there; otherwise it starts a backend as `vgpu run` does.
 */
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cli_config.h"
#include "smi/smi.h"
#include "base/vgpu_cli.h"

static void smi_help(void)
{
    printf(
        "usage: vgpu smi [OPTIONS]\n"
        "\n"
        "Shows the GPU as nvidia-smi does: name, memory, utilisation, processes of this guest.\n"
        "\n"
        "  -L, --list-gpus         one line for each GPU, with its UUID\n"
        "  -q, --query             all known values\n"
        "  -d, --display=LIST      with -q: only MEMORY, UTILIZATION, ECC, TEMPERATURE, POWER, CLOCK,\n"
        "                          COMPUTE, PERFORMANCE, PIDS\n"
        "  --query-gpu=FIELDS --format=csv[,noheader][,nounits]\n"
        "                          the named values, comma separated\n"
        "  --query-compute-apps=FIELDS --format=csv...\n"
        "                          the same of each process of this guest that uses the GPU\n"
        "  --help-query-gpu, --help-query-compute-apps\n"
        "                          the names of the fields\n"
        "  -i, --id=LIST           only these GPUs: numbers, UUIDs, places on the bus\n"
        "  -l, --loop=SECONDS, --loop-ms=MILLISECONDS\n"
        "                          repeat until interrupted\n"
        "  --gpu soft|nvidia|auto  start a backend with this GPU, as `vgpu run` does. Default:\n"
        "                          the backend of VGPU_SOCKET or the device /dev/vgpu0 where one\n"
        "                          is there, else --gpu " VGPU_CLI_GPU "\n"
        "  --host                  on a host: its backends, their workers, and the processes in guests that they\n"
        "                          serve; those of other users are shown to root alone. With -q: limits and\n"
        "                          counters, too; with --json: all of it as JSON, one line; -l repeats\n"
        "  --json                  with --host\n"
        "  -h, --help              this text\n"
        "\n"
        "What the GPU does not say is N/A. Exit status: 0; 2 wrong use; 6 no such GPU; 9 no driver\n"
        "or backend; 12 no libnvidia-ml.so.1; 255 another error of NVML.\n");
}

/* ---- the command ---- */

/* Without our GPU at hand, runs the same command under `vgpu run`. */
static int again_under_run(const char *gpu, int argc, char **argv)
{
    static char self[PATH_MAX];
    struct vgpu_cli_list list = {0};
    struct vgpu_cli_spawn spawn = {.keep_fd = {-1, -1}, .foreground = true};
    int signals;
    pid_t pid;

    if (readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0)
        vgpu_cli_die("cannot find out where the vgpu binary is: is /proc mounted?");
    vgpu_cli_way(&list, gpu, false, NULL);
    vgpu_cli_add(&list, "%s", self);
    vgpu_cli_add(&list, "smi");
    for (int i = 1; i < argc; i++) {
        size_t n = strcspn(argv[i], "=");

        /* In any form that getopt_long() takes for it: --g=soft, too. */
        if (n < 3 || strncmp(argv[i], "--gpu", n) != 0)
            vgpu_cli_add(&list, "%s", argv[i]);
        else if (argv[i][n] == '\0')
            i++;
    }
    signals = vgpu_cli_signals();
    spawn.argv = list.items;
    pid = vgpu_cli_spawn(&spawn);
    if (pid < 0)
        vgpu_cli_die("cannot run %s again", self);
    vgpu_cli_exit_as(vgpu_cli_wait(pid, signals));
}

enum {
    OPT_QUERY_GPU = 1000,
    OPT_QUERY_APPS,
    OPT_FORMAT,
    OPT_HELP_GPU,
    OPT_HELP_APPS,
    OPT_MS,
    OPT_GPU,
    OPT_HOST,
    OPT_JSON
};
static const struct option options[] = {
    {"list-gpus", no_argument, NULL, 'L'},
    {"query", no_argument, NULL, 'q'},
    {"display", required_argument, NULL, 'd'},
    {"query-gpu", required_argument, NULL, OPT_QUERY_GPU},
    {"query-compute-apps", required_argument, NULL, OPT_QUERY_APPS},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"help-query-gpu", no_argument, NULL, OPT_HELP_GPU},
    {"help-query-compute-apps", no_argument, NULL, OPT_HELP_APPS},
    {"id", required_argument, NULL, 'i'},
    {"loop", required_argument, NULL, 'l'},
    {"loop-ms", required_argument, NULL, OPT_MS},
    {"gpu", required_argument, NULL, OPT_GPU},
    {"host", no_argument, NULL, OPT_HOST},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct choice {
    const char *fields, *apps, *format, *only, *display, *gpu;
    bool list, query, host, json;
    long loop_ms; /* 0: once */
};

/* Shows the values once. Returns an exit status. */
static int show_devices(const struct choice *o, bool first)
{
    struct smi s;
    int r = smi_gather(&s, o->only);

    if (r)
        return r;
    if (o->fields)
        r = smi_query(&s, o->fields, o->format, false, first);
    else if (o->apps)
        r = smi_query(&s, o->apps, o->format, true, first);
    else if (o->list)
        smi_print_list(&s);
    else if (o->query)
        smi_print_everything(&s, o->display);
    else
        smi_print_table(&s);
    fflush(stdout);
    smi_free(&s);
    return r;
}

/*
 * Parses a period and returns it in ms, at most a day; unit: 1000 for seconds, 1 for milliseconds;
 * -1: not a number above 0.
 */
static long parse_period(const char *text, long unit)
{
    char *end;
    long n = strtol(text, &end, 10);

    return end == text || *end || n < 1 || n > 86400000 / unit ? -1 : n * unit;
}

/* Returns 0 to continue; else the exit status + 1. */
static int take_option(struct choice *o, int option)
{
    switch (option) {
    case 'L':
        o->list = true;
        return 0;
    case 'q':
        o->query = true;
        return 0;
    case 'd':
        o->display = optarg;
        if (smi_displays_ok(optarg))
            return 0;
        vgpu_cli_wrong(
            "--display: '%s' is not a list of MEMORY, UTILIZATION, ECC, TEMPERATURE, POWER, CLOCK, "
            "COMPUTE, PERFORMANCE, PIDS",
            optarg);
    case 'i':
        o->only = optarg;
        return 0;
    case 'l':
    case OPT_MS:
        o->loop_ms = parse_period(optarg, option == 'l' ? 1000 : 1);
        if (o->loop_ms > 0)
            return 0;
        vgpu_cli_wrong("'%s' is not a time above 0, up to a day", optarg);
    case OPT_QUERY_GPU:
        o->fields = optarg;
        return 0;
    case OPT_QUERY_APPS:
        o->apps = optarg;
        return 0;
    case OPT_FORMAT:
        o->format = optarg;
        if (!smi_format_ok(optarg))
            vgpu_cli_wrong("--format: '%s' is not csv[,noheader][,nounits]", optarg);
        return 0;
    case OPT_HELP_GPU:
    case OPT_HELP_APPS:
        smi_query_help(option == OPT_HELP_APPS);
        return 1;
    case OPT_HOST:
        o->host = true;
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    case OPT_GPU:
        vgpu_cli_check_gpu(optarg, false);
        o->gpu = optarg;
        return 0;
    default:
        smi_help();
        return 1;
    }
}

/* Rejects options that have no effect in combination. */
static void check_together(const struct choice *o)
{
    const char *alone = o->list      ? "--list-gpus"
                        : o->only    ? "--id"
                        : o->display ? "--display"
                        : o->fields  ? "--query-gpu"
                        : o->apps    ? "--query-compute-apps"
                        : o->format  ? "--format"
                        : o->gpu     ? "--gpu"
                                     : NULL;

    if (o->json && !o->host)
        vgpu_cli_wrong("--json goes with --host; see `vgpu smi --help`");
    if (o->host && alone)
        vgpu_cli_wrong("%s does not go with --host; see `vgpu smi --help`", alone);
    if (o->format && !o->fields && !o->apps)
        vgpu_cli_wrong("--format goes with --query-gpu or --query-compute-apps; see `vgpu smi --help`");
}

int vgpu_cli_smi(int argc, char **argv)
{
    char **given = vgpu_cli_alloc(((size_t)argc + 1) * sizeof(*given));
    struct choice o = {0};
    int option, r;

    memcpy(given, argv, (size_t)argc * sizeof(*given)); /* getopt_long() reorders argv */
    while ((option = vgpu_cli_getopt("smi", argc, argv, "Lqd:i:l:h", options)) != -1) {
        r = take_option(&o, option);
        if (r)
            return r - 1;
    }
    if (optind != argc)
        vgpu_cli_wrong("'%s' is not understood; see `vgpu smi --help`", argv[optind]);
    check_together(&o);
    if (o.host)
        return smi_host(o.json ? SMI_HOST_JSON : o.query ? SMI_HOST_ALL : SMI_HOST_TABLE, o.loop_ms);
    if (o.gpu || !vgpu_cli_gpu_is_here())
        return again_under_run(o.gpu, argc, given);
    r = smi_open();
    if (r)
        return r;
    r = show_devices(&o, true);
    while (!r && o.loop_ms && !ferror(stdout)) {
        struct timespec t = {o.loop_ms / 1000, o.loop_ms % 1000 * 1000000};

        nanosleep(&t, NULL);
        r = show_devices(&o, false);
    }
    smi_close();
    return r;
}
