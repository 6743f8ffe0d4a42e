/* SPDX-License-Identifier: MIT */
/* vgpu run: runs a program on the host itself, with our libcuda and a private backend. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cli_config.h"
#include "base/vgpu_cli.h"

extern char **environ;

static void run_help(void)
{
    printf("usage: vgpu run [OPTIONS] PROGRAM [ARGS...]\n"
           "\n"
           "Runs PROGRAM on this machine with vgpu's libcuda.so.1 and a backend of its own over a\n"
           "unix socket: no virtual machine. The exit status is PROGRAM's; 125: vgpu itself failed.\n"
           "\n"
           "  --gpu soft|nvidia|auto  which GPU executes: the software GPU, the physical one, or\n"
           "                          the physical one where the host has one (default " VGPU_CLI_GPU ")\n"
           "  --gpus N                so many backends, each with that GPU (default 1)\n"
           "  --trace[=FILE]          every CUDA call with its result, to standard error or FILE;\n"
           "                          --trace=refusals: only calls that failed, and why\n"
           "  --verbose               show the backend's messages\n"
           "  --help                  this text\n");
}

enum {
    OPT_GPU = 1000,
    OPT_GPUS,
    OPT_TRACE,
    OPT_VERBOSE,
    OPT_HELP,
    OPT_BACKEND,
    OPT_LIBCUDA,
    OPT_NVML,
    OPT_PTXAS,
    OPT_JIT
};

static const struct option options[] = {
    {"gpu", required_argument, NULL, OPT_GPU},
    {"gpus", required_argument, NULL, OPT_GPUS},
    {"trace", optional_argument, NULL, OPT_TRACE},
    {"verbose", no_argument, NULL, OPT_VERBOSE},
    {"help", no_argument, NULL, OPT_HELP},
    {"backend", required_argument, NULL, OPT_BACKEND},
    {"libcuda", required_argument, NULL, OPT_LIBCUDA},
    {"nvml", required_argument, NULL, OPT_NVML},
    {"ptxas", required_argument, NULL, OPT_PTXAS},
    {"jit", required_argument, NULL, OPT_JIT},
    {NULL, 0, NULL, 0},
};

/* Waits for the program and forwards the signals that vgpu receives to it. */
static int wait_program(pid_t program, int signals, struct vgpu_cli_backend *backends, long gpus)
{
    struct pollfd pfd = {.fd = signals, .events = POLLIN};
    struct signalfd_siginfo si;
    int status;

    for (;;) {
        if (waitpid(program, &status, WNOHANG) == program)
            return status;
        for (struct vgpu_cli_backend *b = backends; b < backends + gpus; b++) {
            if (b->pid <= 0 || waitpid(b->pid, NULL, WNOHANG) != b->pid)
                continue;
            /* The program gets CUDA's error for a lost device and may end by itself. */
            b->pid = 0;
            vgpu_cli_say("the backend has ended while the program runs%s", b->log ? ":" : "");
            if (b->log)
                vgpu_cli_show_tail(b->log, 12);
        }
        poll(&pfd, 1, -1);
        while (read(signals, &si, sizeof(si)) == sizeof(si)) {
            if (vgpu_cli_sends_on(&si))
                kill(program, (int)si.ssi_signo);
        }
    }
}

int vgpu_cli_run(int argc, char **argv)
{
    const char *gpu = VGPU_CLI_GPU, *trace = NULL;
    struct vgpu_cli_spawn spawn = {.keep_fd = {-1, -1}, .foreground = true};
    static struct vgpu_cli_backend backends[VGPU_CLI_GPUS_MAX];
    struct vgpu_cli_list env = {0};
    char *sockets;
    long gpus = 1;
    int option, signals;
    pid_t program;

    while ((option = vgpu_cli_getopt("run", argc, argv, "+", options)) != -1) {
        switch (option) {
        case OPT_GPU:
            gpu = optarg;
            break;
        case OPT_GPUS:
            gpus = vgpu_cli_number("--gpus", optarg, 1, VGPU_CLI_GPUS_MAX);
            break;
        case OPT_TRACE:
            trace = optarg ? optarg : "";
            break;
        case OPT_VERBOSE:
            vgpu_cli_verbose = true;
            break;
        case OPT_HELP:
            run_help();
            vgpu_cli_help_paths(options);
            return 0;
        case OPT_BACKEND:
            vgpu_cli_set_path(VGPU_PART_BACKEND, optarg);
            break;
        case OPT_LIBCUDA:
            vgpu_cli_set_path(VGPU_PART_LIBCUDA, optarg);
            break;
        case OPT_NVML:
            vgpu_cli_set_path(VGPU_PART_NVML, optarg);
            break;
        case OPT_PTXAS:
            vgpu_cli_set_path(VGPU_PART_PTXAS, optarg);
            break;
        case OPT_JIT:
            vgpu_cli_set_path(VGPU_PART_JIT, optarg);
            break;
        }
    }
    vgpu_cli_check_gpu(gpu, false);
    if (optind == argc)
        vgpu_cli_wrong("which program? usage: vgpu run [OPTIONS] PROGRAM [ARGS...]");

    for (char **e = environ; *e; e++)
        vgpu_cli_add(&env, "%s", *e);
    vgpu_cli_guest_env(&env, trace);
    vgpu_cli_python_env(&env, gpu, argv[optind]);
    signals = vgpu_cli_signals();
    vgpu_cli_backends_start(backends, gpus, "--listen", gpu);
    sockets = backends[0].socket;
    for (long i = 1; i < gpus; i++)
        sockets = vgpu_cli_format("%s:%s", sockets, backends[i].socket);
    vgpu_cli_setenv(&env, "VGPU_SOCKET", sockets);
    spawn.argv = argv + optind;
    spawn.env = env.items;
    if (vgpu_cli_wants_node(&env, argv[optind])) {
        spawn.prepare_arg = vgpu_cli_format("%s/dev", vgpu_cli_temp_dir());
        if (mkdir(spawn.prepare_arg, 0755) == 0)
            spawn.prepare = vgpu_cli_node_prepare;
    }
    program = vgpu_cli_spawn(&spawn);
    if (program < 0) {
        vgpu_cli_say("cannot run %s: %s", argv[optind],
                     vgpu_cli_program_why_not(&env, argv[optind], -program));
        vgpu_cli_cleanup();
        return program == -ENOENT ? VGPU_CLI_NOT_FOUND : VGPU_CLI_CANNOT_RUN;
    }
    vgpu_cli_exit_as(wait_program(program, signals, backends, gpus));
}
