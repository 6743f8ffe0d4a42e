/* SPDX-License-Identifier: MIT */
/* vgpu replay: options, the backend and the exit status; the rest of replay/ does the work. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli_config.h"
#include "replay/replay.h"
#include "base/vgpu_cli.h"

#define VGPU_CLI_DIFFERENT 1

static void replay_help(void)
{
    printf("usage: vgpu replay [OPTIONS] FILE\n"
           "\n"
           "Sends the calls of FILE, which `vgpu trace --record FILE PROGRAM` has written, to a GPU\n"
           "and compares each answer with the recorded one: results, values, and the bytes that\n"
           "were copied from the device. Addresses and objects may have other numbers. Exit status\n"
           "0: all equal; 1: differences, each listed; 2: wrong usage, or FILE is no recording;\n"
           "125: vgpu itself failed.\n"
           "\n"
           "  --gpu soft|nvidia|auto  start a backend with this GPU. Default: the backend of\n"
           "                          VGPU_SOCKET or the device /dev/vgpu0 where one is there,\n"
           "                          else --gpu " VGPU_CLI_GPU "\n"
           "  --tolerance T           floats that were copied from the device may differ by this\n"
           "                          part of their value; T:double for numbers of 64 bits\n"
           "  --show N                list at most N differences (default 20)\n"
           "  --json FILE             each answer and the totals, one JSON object a line\n"
           "  --timeout SECONDS       how long one answer may take (default 600)\n"
           "  --partial               a recording that was cut off is replayed as far as it goes\n"
           "  --no-data-addresses     copied data is never searched for addresses of the recorded\n"
           "                          GPU (kernel parameters always are)\n"
           "  --move MIB              allocate this much memory first, so that the program's memory gets\n"
           "                          other addresses: two GPUs of one kind allocate alike\n"
           "  --check                 only checks FILE, starts nothing\n"
           "  --verbose               show the backend's messages\n"
           "  --help                  this text\n");
}

enum {
    OPT_GPU = 1000,
    OPT_TOLERANCE,
    OPT_SHOW,
    OPT_JSON,
    OPT_TIMEOUT,
    OPT_PARTIAL,
    OPT_KEEP,
    OPT_MOVE,
    OPT_CHECK,
    OPT_VERBOSE,
    OPT_HELP,
    OPT_BACKEND
};
static const struct option options[] = {
    {"gpu", required_argument, NULL, OPT_GPU},
    {"tolerance", required_argument, NULL, OPT_TOLERANCE},
    {"show", required_argument, NULL, OPT_SHOW},
    {"json", required_argument, NULL, OPT_JSON},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"partial", no_argument, NULL, OPT_PARTIAL},
    {"no-data-addresses", no_argument, NULL, OPT_KEEP},
    {"move", required_argument, NULL, OPT_MOVE},
    {"check", no_argument, NULL, OPT_CHECK},
    {"verbose", no_argument, NULL, OPT_VERBOSE},
    {"help", no_argument, NULL, OPT_HELP},
    {"backend", required_argument, NULL, OPT_BACKEND},
    {NULL, 0, NULL, 0},
};

static bool parse_tolerance(struct replay_options *o, const char *text)
{
    char *end;

    o->tolerance = strtod(text, &end);
    o->doubles = strcmp(end, ":double") == 0;
    return end != text && (*end == '\0' || o->doubles) && o->tolerance >= 0 && o->tolerance < 1;
}

/* Reads and checks the whole file; sends nothing. */
static int check_only(struct replay_run *r)
{
    struct replay_event e;
    uint64_t events = 0;
    int rc;

    while ((rc = replay_file_next(&r->file, &e, r->options.partial)) == 1)
        events++;
    if (rc < 0) {
        vgpu_cli_say("%s", r->file.why);
        return VGPU_CLI_USAGE;
    }
    printf("%s: a recording of %s: %llu calls, %llu events, %llu bytes\n", r->file.path,
           r->file.header.program, (unsigned long long)r->file.calls, (unsigned long long)events,
           (unsigned long long)r->file.size);
    return 0;
}

static int start_run(struct replay_run *r, const char *gpu, bool check)
{
    struct vgpu_cli_backend backend = {0};
    int rc;

    if (check)
        return check_only(r);
    if (gpu != NULL || !vgpu_cli_gpu_is_here()) {
        vgpu_cli_signals();
        vgpu_cli_backend_start(&backend, "--listen", gpu != NULL ? gpu : VGPU_CLI_GPU);
        setenv("VGPU_SOCKET", backend.socket, 1);
    }
    rc = replay_run(r);
    if (backend.pid != 0)
        vgpu_cli_stop(&backend.pid, 2000);
    return rc < 0 ? VGPU_CLI_USAGE : rc > 0 ? VGPU_CLI_DIFFERENT : 0;
}

int vgpu_cli_replay(int argc, char **argv)
{
    struct replay_run *r = vgpu_cli_alloc(sizeof(*r));
    const char *gpu = NULL, *json = NULL;
    bool check = false;
    int option, rc;

    r->options = (struct replay_options){.show = 20, .timeout_ms = 600000, .out = stdout};
    while ((option = vgpu_cli_getopt("replay", argc, argv, "", options)) != -1) {
        switch (option) {
        case OPT_GPU:
            vgpu_cli_check_gpu(optarg, false);
            gpu = optarg;
            break;
        case OPT_TOLERANCE:
            if (!parse_tolerance(&r->options, optarg)) {
                vgpu_cli_say("--tolerance: '%s' is not a number from 0 to 1, or such a number with "
                             ":double",
                             optarg);
                return VGPU_CLI_USAGE;
            }
            break;
        case OPT_SHOW:
            r->options.show = (unsigned)vgpu_cli_number("--show", optarg, 0, 1000000);
            break;
        case OPT_JSON:
            json = optarg;
            break;
        case OPT_TIMEOUT:
            r->options.timeout_ms = 1000 * vgpu_cli_number("--timeout", optarg, 1, 86400);
            break;
        case OPT_PARTIAL:
            r->options.partial = true;
            break;
        case OPT_KEEP:
            r->options.keep_words = true;
            break;
        case OPT_MOVE:
            r->options.move = (uint64_t)vgpu_cli_number("--move", optarg, 1, 1 << 20) << 20;
            break;
        case OPT_CHECK:
            check = true;
            break;
        case OPT_VERBOSE:
            vgpu_cli_verbose = true;
            break;
        case OPT_BACKEND:
            vgpu_cli_set_path(VGPU_PART_BACKEND, optarg);
            break;
        case OPT_HELP:
            replay_help();
            vgpu_cli_help_paths(options);
            return 0;
        }
    }
    if (optind + 1 != argc) {
        vgpu_cli_say("usage: vgpu replay [OPTIONS] FILE; see `vgpu replay --help`");
        return VGPU_CLI_USAGE;
    }
    if (!replay_file_open(&r->file, argv[optind])) {
        vgpu_cli_say("%s", r->file.why);
        return VGPU_CLI_USAGE;
    }
    if (json != NULL && (r->options.json = fdopen(vgpu_cli_create("--json", json), "w")) == NULL)
        vgpu_cli_die("--json %s: %s", json, strerror(errno));
    rc = start_run(r, gpu, check);
    if (r->options.json != NULL && fclose(r->options.json) != 0)
        vgpu_cli_die("--json %s: %s", json, strerror(errno));
    vgpu_cli_cleanup();
    return rc;
}
