/* SPDX-License-Identifier: MIT */
/*
 * vgpu trace: runs a program with both traces on, as `vgpu run` or `vgpu vm run` does or, if our
 * GPU is available already, directly. Sums up the calls when the program has ended, also by a
 * crash.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cli_config.h"
#include "../../../protocol/vgp_recording.h"
#include "../../../lib/link/link.h"
#include "trace/events.h"
#include "base/vgpu_cli.h"

extern char **environ;

static void trace_help(void)
{
    printf(
        "usage: vgpu trace [OPTIONS] PROGRAM [ARGS...]\n"
        "\n"
        "Runs PROGRAM and shows every call of the CUDA driver API and of NVML, with arguments,\n"
        "result and time, and at its end, however it ends, the totals of each call, and what\n"
        "was refused and why. The exit status is PROGRAM's.\n"
        "\n"
        "  --json FILE        the trace for machines too: one JSON object a line, with type,\n"
        "                     time (s), pid, tid, call, args, result, code and us; the types\n"
        "                     `why` and `refusal` have text instead, and so has `ring`, a\n"
        "                     process's last line: what it sent, how often it waited\n"
        "  --output FILE      the readable trace and the totals go there, not to standard error\n"
        "  --all              also what the runtime does when it starts, which is one line otherwise\n"
        "  --filter NAMES     only these calls: names and patterns ('cuMem*,cuLaunchKernel'), in the lines,\n"
        "                     the totals and --chrome\n"
        "  --totals           only the totals\n"
        "  --top N            only the N calls that took most time, in the totals\n"
        "  --chrome FILE      a timeline for ui.perfetto.dev or chrome://tracing\n"
        "  --record FILE      a recording of each process, for `vgpu replay`; no trace is shown\n"
        "                     unless --json or --output asks for it. A second process of the\n"
        "                     program writes FILE.PID\n"
        "  --limit SIZE       how large a recording may become, with K, M or G (default 1G)\n"
        "  --vm               in a virtual machine, as `vgpu vm run` does\n"
        "  --gpu soft|nvidia|auto\n"
        "                     start a backend with this GPU, as `vgpu run` does. Default: the\n"
        "                     backend of VGPU_SOCKET or the device /dev/vgpu0 where one is\n"
        "                     there, else --gpu " VGPU_CLI_GPU "\n"
        "  --help             this text\n");
}

enum {
    OPT_ALL = 900,
    OPT_FILTER,
    OPT_TOP,
    OPT_CHROME,
    OPT_JSON = 1000,
    OPT_OUTPUT,
    OPT_TOTALS,
    OPT_RECORD,
    OPT_LIMIT,
    OPT_VM,
    OPT_GPU,
    OPT_HELP
};
static const struct option options[] = {
    {"json", required_argument, NULL, OPT_JSON},
    {"output", required_argument, NULL, OPT_OUTPUT},
    {"totals", no_argument, NULL, OPT_TOTALS},
    {"all", no_argument, NULL, OPT_ALL},
    {"filter", required_argument, NULL, OPT_FILTER},
    {"top", required_argument, NULL, OPT_TOP},
    {"chrome", required_argument, NULL, OPT_CHROME},
    {"record", required_argument, NULL, OPT_RECORD},
    {"limit", required_argument, NULL, OPT_LIMIT},
    {"vm", no_argument, NULL, OPT_VM},
    {"gpu", required_argument, NULL, OPT_GPU},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

bool vgpu_cli_gpu_is_here(void)
{
    struct lnk_place list[LNK_PLACES_MAX];
    const char *socket = getenv("VGPU_SOCKET");

    return (socket && *socket) || (lnk_places(list) != 0 && list[0].ops == &lnk_transport_dev);
}

void vgpu_cli_way(struct vgpu_cli_list *argv, const char *gpu, bool vm, const char *share)
{
    static char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (!gpu && !vm && vgpu_cli_gpu_is_here())
        return;
    if (n <= 0)
        vgpu_cli_die("cannot find out where the vgpu binary is: is /proc mounted?");
    vgpu_cli_add(argv, "%s", self);
    if (vm)
        vgpu_cli_add(argv, "vm");
    vgpu_cli_add(argv, "run");
    vgpu_cli_add(argv, "--gpu");
    vgpu_cli_add(argv, "%s", gpu ? gpu : VGPU_CLI_GPU);
    if (vm) {
        vgpu_cli_add(argv, "--share");
        vgpu_cli_add(argv, "%s", share);
    }
}

#define FOLLOW_MS 100

/* Waits for the end of the process, at most `ms` (-1: without limit). True: it has ended. */
static bool wait_for(pid_t pid, int signals, int ms, int *status)
{
    struct pollfd pfd = {.fd = signals, .events = POLLIN};
    struct signalfd_siginfo si;
    int64_t end = vgpu_cli_now_ms() + ms;

    while (waitpid(pid, status, WNOHANG) != pid) {
        int64_t left = end - vgpu_cli_now_ms();

        if (ms >= 0 && left <= 0)
            return false;
        poll(&pfd, 1, ms < 0 ? -1 : (int)left);
        while (read(signals, &si, sizeof(si)) == sizeof(si)) {
            if (vgpu_cli_sends_on(&si))
                kill(pid, (int)si.ssi_signo);
        }
    }
    return true;
}

int vgpu_cli_wait(pid_t pid, int signals)
{
    int status = 0;

    wait_for(pid, signals, -1, &status);
    return status;
}

/*
 * Returns the path as the program sees it, which may change its working directory; empties the
 * file.
 */
static char *new_file(const char *option, const char *path)
{
    char *real;

    close(vgpu_cli_create(option, path));
    real = realpath(path, NULL);
    if (!real)
        vgpu_cli_die("%s %s: %s", option, path, strerror(errno));
    return real;
}

/* Opened before the program starts, since a guest may write into the folder. */
static FILE *new_stream(const char *option, const char *path)
{
    FILE *f = fdopen(vgpu_cli_create(option, path), "a");

    if (!f)
        vgpu_cli_die("%s %s: %s", option, path, strerror(errno));
    return f;
}

struct choice {
    const char *json, *output, *gpu, *record, *limit, *filter, *chrome;
    bool totals, vm, all;
    long top;
};

/* The file must not exist: libcuda never overwrites a recording. */
static char *record_env(struct vgpu_cli_list *env, const struct choice *o)
{
    char *path = new_file("--record", o->record);

    unlink(path);
    vgpu_cli_setenv(env, "VGPU_RECORD", path);
    if (o->limit)
        vgpu_cli_setenv(env, "VGPU_RECORD_LIMIT", o->limit);
    return path;
}

static char *folder_of(const char *path)
{
    char *folder = vgpu_cli_format("%s", path);

    *strrchr(folder, '/') = '\0';
    return *folder ? folder : vgpu_cli_format("/");
}

/* True if the recording exists and covers the whole program. */
static bool recording_is_whole(const char *path)
{
    struct vgp_event e;
    struct vgp_event_end end;
    FILE *f = vgpu_cli_events_open(path);
    bool whole;

    if (!f) {
        vgpu_cli_say("--record %s: nothing was recorded: no CUDA program used vgpu's library, or it "
                     "said why not",
                     path);
        return false;
    }
    whole = fseek(f, -(long)(sizeof(e) + sizeof(end)), SEEK_END) == 0 && fread(&e, sizeof(e), 1, f) == 1 &&
            fread(&end, sizeof(end), 1, f) == 1 && e.type == VGP_EVENT_END;
    fclose(f);
    if (!whole)
        vgpu_cli_say("--record %s: the program was ended before it could finish its recording; "
                     "`vgpu replay --partial` takes it",
                     path);
    else if (end.reason == VGP_END_LIMIT)
        vgpu_cli_say("--record %s: the limit was reached after %llu calls: see --limit", path,
                     (unsigned long long)end.calls);
    else if (end.reason != VGP_END_EXIT)
        vgpu_cli_say("--record %s: could not be written to its end", path);
    return whole && end.reason == VGP_END_EXIT;
}

/* Shows the calls while the program runs. Returns its wait status. */
static int follow_program(pid_t pid, int signals, const char *path, struct vgpu_cli_events *events,
                          struct vgpu_cli_show *show, FILE *out)
{
    FILE *f = vgpu_cli_events_open(path);
    bool ended;
    int status;

    do {
        ended = wait_for(pid, signals, FOLLOW_MS, &status);
        if (!f)
            f = vgpu_cli_events_open(path);
        if (f) {
            vgpu_cli_events_more(events, f);
            vgpu_cli_show(show, events, out);
        }
    } while (!ended);
    vgpu_cli_show_end(show, out);
    if (f && fgetc(f) != EOF)
        events->odd++; /* the last line of a killed process */
    if (f)
        fclose(f);
    return status;
}

static int run_program(const struct choice *o, char **program)
{
    const char *temp = vgpu_cli_temp_dir();
    char *events_path = vgpu_cli_format("%s/trace.json", temp);
    struct vgpu_cli_list env = {0}, argv = {0};
    struct vgpu_cli_spawn spawn = {.keep_fd = {-1, -1}, .foreground = true};
    struct vgpu_cli_events events = {.list = NULL};
    struct vgpu_cli_show show = {.filter = o->filter, .all = o->all};
    char *record_path = NULL;
    FILE *chrome = NULL, *out = stderr;
    bool quiet;
    int signals, status;
    pid_t pid;

    if (o->json) {
        free(events_path);
        events_path = new_file("--json", o->json);
    }
    for (char **e = environ; *e; e++)
        vgpu_cli_add(&env, "%s", *e);
    if (o->record)
        record_path = record_env(&env, o);
    quiet = o->record && !o->json && !o->output && !o->totals && !o->chrome;
    if (!quiet)
        vgpu_cli_setenv(&env, "VGPU_TRACE_JSON", events_path);
    vgpu_cli_setenv(&env, "VGPU_TRACE", "0"); /* the lines are printed from the JSON */
    if (o->chrome)
        chrome = new_stream("--chrome", o->chrome);
    if (o->output)
        out = new_stream("--output", o->output);
    vgpu_cli_way(&argv, o->gpu, o->vm, record_path ? folder_of(record_path) : temp);
    for (int i = 0; program[i]; i++)
        vgpu_cli_add(&argv, "%s", program[i]);
    signals = vgpu_cli_signals();
    spawn.argv = argv.items;
    spawn.env = env.items;
    pid = vgpu_cli_spawn(&spawn);
    if (pid < 0) {
        vgpu_cli_say("cannot run %s: %s", argv.items[0], vgpu_cli_program_why_not(&env, argv.items[0], -pid));
        vgpu_cli_cleanup();
        return pid == -ENOENT ? VGPU_CLI_NOT_FOUND : VGPU_CLI_CANNOT_RUN;
    }
    if (quiet || o->totals)
        status = vgpu_cli_wait(pid, signals);
    else
        status = follow_program(pid, signals, events_path, &events, &show, out);
    /* A failed program may not have recorded anything: its own status says more. */
    if (record_path && !recording_is_whole(record_path) && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        vgpu_cli_cleanup();
        exit(VGPU_CLI_FAILED);
    }
    if (quiet)
        vgpu_cli_exit_as(status);
    if (o->totals)
        vgpu_cli_events_read(&events, events_path);
    if (!events.count)
        fprintf(out, "vgpu trace: no call of CUDA or NVML was made through vgpu's libraries; "
                     "`vgpu doctor` says why\n");
    else
        vgpu_cli_events_totals(&events, o->filter, o->top, out);
    if (chrome && !vgpu_cli_chrome(&events, o->filter, chrome))
        vgpu_cli_die("--chrome %s: it cannot be written", o->chrome);
    if (out != stderr)
        fclose(out);
    vgpu_cli_exit_as(status);
}

int vgpu_cli_trace(int argc, char **argv)
{
    struct choice o = {0};
    int option;

    while ((option = vgpu_cli_getopt("trace", argc, argv, "+", options)) != -1) {
        switch (option) {
        case OPT_JSON:
            o.json = optarg;
            break;
        case OPT_OUTPUT:
            o.output = optarg;
            break;
        case OPT_ALL:
            o.all = true;
            break;
        case OPT_FILTER:
            o.filter = optarg;
            break;
        case OPT_TOP:
            o.top = vgpu_cli_number("--top", optarg, 1, 1000000);
            break;
        case OPT_CHROME:
            o.chrome = optarg;
            break;
        case OPT_TOTALS:
            o.totals = true;
            break;
        case OPT_RECORD:
            o.record = optarg;
            break;
        case OPT_LIMIT:
            o.limit = optarg;
            break;
        case OPT_VM:
            o.vm = true;
            break;
        case OPT_GPU:
            vgpu_cli_check_gpu(optarg, false);
            o.gpu = optarg;
            break;
        case OPT_HELP:
            trace_help();
            return 0;
        }
    }
    if (o.limit && !o.record)
        vgpu_cli_wrong("--limit says how large a recording may become: with --record FILE");
    if (optind == argc)
        vgpu_cli_wrong("which program? usage: vgpu trace [OPTIONS] PROGRAM [ARGS...]");
    return run_program(&o, argv + optind);
}
