/* SPDX-License-Identifier: MIT */
/*
 * vgpu doctor: checks the path from a program to the GPU in the order of a call: device, driver,
 * permissions, backend; the loader; the start of NVIDIA's runtime; the calls.
 */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cli_config.h"
#include "doctor/doctor.h"
#include "base/vgpu_cli.h"
#include "../../../lib/json/json.h"

extern char **environ;

#define OUTPUT_TAIL 8192 /* bytes of the program's output kept for the rules */

static void doctor_help(void)
{
    printf("usage: vgpu doctor [OPTIONS] [PROGRAM [ARGS...]]\n"
           "\n"
           "Says what is wrong between a program and the GPU, and what to do: looks at device,\n"
           "driver, permissions and backend, runs PROGRAM with a trace and reads it. Without\n"
           "PROGRAM a small one of its own opens libcuda and asks for the devices.\n"
           "\n"
           "  --gpu soft|nvidia|auto  start a backend and set the library path as `vgpu run` does;\n"
           "                          without it, examine this machine and environment as they are,\n"
           "                          as is right in a guest\n"
           "  --json                  the report for machines\n"
           "  --show-output           let PROGRAM write to the terminal\n"
           "  --timeout SECONDS       ends PROGRAM after that time (default 600)\n"
           "  --help                  this text\n"
           "\n"
           "In a guest: vgpu vm run vgpu doctor PROGRAM\n"
           "Exit status: 0 nothing is wrong; 2 wrong use; 125 vgpu itself failed; else the first\n"
           "cause found:\n");
    for (int i = VGPU_CAUSE_NO_DEVICE; i <= VGPU_CAUSE_LAST; i++) {
        if (strcmp(vgpu_cli_cause_name((enum vgpu_cause)i), "?") != 0)
            printf("  %d %s\n", i, vgpu_cli_cause_name((enum vgpu_cause)i));
    }
    printf("%s has a paragraph about each.\n", vgpu_cli_page("troubleshooting.md"));
}

/* ---- the program ---- */

static char *read_tail(const char *path)
{
    char *text = vgpu_cli_alloc(OUTPUT_TAIL + 1);
    FILE *f = fopen(path, "re");
    size_t n;

    if (!f)
        return text;
    if (fseek(f, -OUTPUT_TAIL, SEEK_END))
        rewind(f);
    n = fread(text, 1, OUTPUT_TAIL, f);
    for (size_t i = 0; i < n; i++) {
        if (!text[i])
            text[i] = ' ';
    }
    fclose(f);
    return text;
}

static int wait_or_end(pid_t pid, int timeout_s, bool *late)
{
    int64_t end = vgpu_cli_now_ms() + (int64_t)timeout_s * 1000;
    int status;

    *late = false;
    while (waitpid(pid, &status, WNOHANG) != pid) {
        if (!*late && vgpu_cli_now_ms() > end) {
            *late = true;
            kill(pid, SIGTERM);
            end += 2000;
        } else if (*late && vgpu_cli_now_ms() > end) {
            kill(pid, SIGKILL);
        }
        usleep(20000);
    }
    return status;
}

struct choice {
    const char *gpu;
    bool json, show;
    int timeout_s;
};

/* False: no folder for the trace and the loader's log, so the program is not run. */
static bool check_temp(struct vgpu_findings *f)
{
    const char *base = vgpu_cli_temp_base();

    if (access(base, W_OK | X_OK) != 0) {
        vgpu_cli_find(
            f, VGPU_CAUSE_NO_TEMP, vgpu_cli_format("no folder for temporary files may be written to"),
            "TMPDIR, /tmp, /var/tmp, /dev/shm", "make /tmp (mode 1777), or set TMPDIR to a folder of yours");
        return false;
    }
    if (access("/tmp", W_OK | X_OK) != 0)
        vgpu_cli_find(f, VGPU_CAUSE_NONE, vgpu_cli_format("/tmp may not be written to; %s is used", base),
                      strerror(errno), "make it (mode 1777): other programs need it, too");
    return true;
}

static void examine_program(struct vgpu_findings *f, const struct choice *o, char **program)
{
    const char *temp = vgpu_cli_temp_dir();
    char *trace = vgpu_cli_format("%s/trace.json", temp), *output = vgpu_cli_format("%s/out", temp);
    struct vgpu_cli_list env = {0};
    struct vgpu_cli_spawn spawn = {.keep_fd = {-1, -1}, .foreground = true};
    struct vgpu_cli_backend backend = {.all_devices = true};
    struct vgpu_cli_events events;
    struct vgpu_program file;
    struct vgpu_ending end = {.text = "", .program = &file};
    struct vgpu_ldlog log;
    bool late = false;
    char *prefix;
    pid_t pid;
    int fd;

    for (char **e = environ; *e; e++)
        vgpu_cli_add(&env, "%s", *e);
    if (o->gpu) {
        vgpu_cli_guest_env(&env, NULL);
        vgpu_cli_backend_start(&backend, "--listen", o->gpu);
        vgpu_cli_setenv(&env, "VGPU_SOCKET", backend.socket);
        vgpu_cli_find(f, VGPU_CAUSE_NONE, vgpu_cli_format("a backend with --gpu %s starts", o->gpu), NULL,
                      NULL);
        fd = vgpu_cli_doctor_connect(backend.socket);
        if (fd >= 0) {
            vgpu_cli_doctor_sandbox(f, fd);
            vgpu_cli_close_foreign(&fd, 1);
        }
    }
    vgpu_cli_program_read(f, &file, &env, program[0]);
    prefix = vgpu_cli_format("%s/ld", temp);
    vgpu_cli_setenv(&env, "LD_DEBUG", "libs");
    vgpu_cli_setenv(&env, "LD_DEBUG_OUTPUT", prefix);
    vgpu_cli_setenv(&env, "VGPU_TRACE_JSON", trace);
    spawn.argv = program;
    spawn.env = env.items;
    spawn.log = o->show ? NULL : output;
    pid = vgpu_cli_spawn(&spawn);
    if (pid < 0) {
        vgpu_cli_judge_exec(f, &file, &env, -pid);
        return;
    }
    end.started = true;
    end.status = wait_or_end(pid, o->timeout_s, &late);
    end.text = o->show ? "" : read_tail(output);
    vgpu_cli_events_read(&events, trace);
    vgpu_cli_ldlog_read(&log, temp);
    if (log.libcuda && vgpu_cli_is_our_libcuda(log.libcuda))
        vgpu_cli_find(f, VGPU_CAUSE_NONE, vgpu_cli_format("the program loads our libcuda: %s", log.libcuda),
                      log.found_by, NULL);
    if (late)
        vgpu_cli_find(f, VGPU_CAUSE_NONE,
                      vgpu_cli_format("the program was ended after %d s (--timeout)", o->timeout_s), NULL,
                      NULL);
    vgpu_cli_judge(f, &events, &log, &end);
}

/* ---- the report ---- */

static const struct vgpu_finding *verdict_of(const struct vgpu_findings *f)
{
    for (size_t i = 0; i < f->count; i++) {
        if (f->list[i].cause != VGPU_CAUSE_NONE)
            return &f->list[i];
    }
    return NULL;
}

static void report_text(const struct vgpu_findings *f, const struct vgpu_finding *verdict)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct vgpu_finding *x = &f->list[i];

        printf("%s %s\n", x->cause == VGPU_CAUSE_NONE ? "  ok  " : "WRONG ", x->what);
        if (x->seen)
            printf("         seen: %s\n", x->seen);
        if (x->remedy)
            printf("         do:   %s\n", x->remedy);
    }
    if (verdict)
        printf("verdict: %s (%d): %s\n", vgpu_cli_cause_name(verdict->cause), verdict->cause, verdict->what);
    else
        printf("verdict: ok: nothing is wrong between the program and the GPU\n");
}

static void json_field(const char *name, const char *text)
{
    printf(",\"%s\":", name);
    if (text)
        jsn_print(stdout, text);
    else
        printf("null");
}

static void report_json(const struct vgpu_findings *f, const struct vgpu_finding *verdict)
{
    printf("{\"verdict\":\"%s\",\"status\":%d,\"findings\":[",
           verdict ? vgpu_cli_cause_name(verdict->cause) : "ok", verdict ? (int)verdict->cause : 0);
    for (size_t i = 0; i < f->count; i++) {
        const struct vgpu_finding *x = &f->list[i];

        printf("%s{\"cause\":\"%s\"", i ? "," : "", vgpu_cli_cause_name(x->cause));
        json_field("what", x->what);
        json_field("seen", x->seen);
        json_field("remedy", x->remedy);
        printf("}");
    }
    printf("]}\n");
}

enum { OPT_GPU = 1000, OPT_JSON, OPT_SHOW, OPT_TIMEOUT, OPT_HELP };
static const struct option options[] = {
    {"gpu", required_argument, NULL, OPT_GPU},    {"json", no_argument, NULL, OPT_JSON},
    {"show-output", no_argument, NULL, OPT_SHOW}, {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"help", no_argument, NULL, OPT_HELP},        {NULL, 0, NULL, 0},
};

int vgpu_cli_doctor(int argc, char **argv)
{
    static struct vgpu_findings findings;
    static char self[PATH_MAX], probe[] = "probe";
    char *own[] = {self, probe, NULL};
    struct choice o = {.timeout_s = 600};
    const struct vgpu_finding *verdict;
    int option;
    bool way;

    while ((option = vgpu_cli_getopt("doctor", argc, argv, "+", options)) != -1) {
        switch (option) {
        case OPT_GPU:
            vgpu_cli_check_gpu(optarg, false);
            o.gpu = optarg;
            break;
        case OPT_JSON:
            o.json = true;
            break;
        case OPT_SHOW:
            o.show = true;
            break;
        case OPT_TIMEOUT:
            o.timeout_s = (int)vgpu_cli_number("--timeout", optarg, 1, 1000000);
            break;
        case OPT_HELP:
            doctor_help();
            return 0;
        }
    }
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0)
        vgpu_cli_die("cannot find out where the vgpu binary is: is /proc mounted?");
    way = o.gpu || vgpu_cli_doctor_machine(&findings);
    if (check_temp(&findings) && way)
        examine_program(&findings, &o, optind < argc ? argv + optind : own);
    verdict = verdict_of(&findings);
    if (o.json)
        report_json(&findings, verdict);
    else
        report_text(&findings, verdict);
    fflush(stdout);
    vgpu_cli_cleanup();
    return verdict ? (int)verdict->cause : 0;
}

/* ---- vgpu probe: run by doctor without a program ---- */

int vgpu_cli_probe(void)
{
    int (*init)(unsigned), (*get_count)(int *), (*get_name)(char *, int, int);
    void *lib = dlopen("libcuda.so.1", RTLD_NOW), *sym;
    char name[256];
    int n = 0, r;

    if (!lib) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    sym = dlsym(lib, "cuInit");
    memcpy(&init, &sym, sizeof(sym));
    sym = dlsym(lib, "cuDeviceGetCount");
    memcpy(&get_count, &sym, sizeof(sym));
    sym = dlsym(lib, "cuDeviceGetName");
    memcpy(&get_name, &sym, sizeof(sym));
    if (!init || !get_count || !get_name) {
        fprintf(stderr, "libcuda.so.1 lacks cuInit\n");
        return 1;
    }
    r = init(0);
    if (r == 0)
        r = get_count(&n);
    for (int i = 0; r == 0 && i < n; i++) {
        if (get_name(name, sizeof(name), i) == 0)
            printf("device %d: %s\n", i, name);
    }
    if (r != 0)
        fprintf(stderr, "CUDA error %d\n", r);
    return r != 0 || n == 0;
}
