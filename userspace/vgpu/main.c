/* SPDX-License-Identifier: MIT */
/* The vgpu command: runs CUDA programs against vgpu-cuda, in a virtual machine or beside it. */
#include <stdio.h>
#include <string.h>

#include "base/cli_config.h"
#include "base/vgpu_cli.h"

static void main_help(void)
{
    printf("usage: vgpu COMMAND [OPTIONS] ...\n"
           "\n"
           "  vgpu run PROGRAM [ARGS...]      runs a CUDA program on this machine, no VM\n"
           "  vgpu vm run PROGRAM [ARGS...]   boots a virtual machine and runs the program in it\n"
           "  vgpu vm shell                   boots a virtual machine and gives you a shell in it\n"
           "  vgpu vm list, vgpu vm stop VM   the virtual machines that these started, and their end\n"
           "  vgpu guest-bundle --out FILE    packs what a guest of your own needs\n"
           "\n"
           "  vgpu smi                        shows the GPU, its memory and who uses it\n"
           "  vgpu ctl --socket PATH ...      reads and changes the limits of a running backend\n"
           "  vgpu metrics                    the backends of a host, for Prometheus\n"
           "  vgpu cdi generate               describes the GPU for podman, docker, Kubernetes\n"
           "  vgpu trace PROGRAM [ARGS...]    shows every call, and what was refused and why\n"
           "  vgpu replay FILE                sends the calls of a recording (vgpu trace --record)\n"
           "                                  to another GPU and compares every answer\n"
           "  vgpu doctor [PROGRAM [ARGS...]] says what is wrong between a program and the GPU\n"
           "\n"
           "  vgpu run --help, vgpu vm run --help, ...: their options\n"
           "  vgpu --version\n"
           "\n"
           "PROGRAM needs no change and no other build: it finds vgpu's libcuda.so.1 and uses it\n"
           "through the libcudart that it was linked with. Exit status: the program's own; 2 when the\n"
           "command line is wrong, 125 when vgpu itself failed, 126 and 127 when the program cannot be\n"
           "run, 124 after --timeout.\n");
}

static int run_command(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";

    if (strcmp(command, "run") == 0)
        return vgpu_cli_run(argc - 1, argv + 1);
    if (strcmp(command, "vm") == 0)
        return vgpu_cli_vm(argc - 1, argv + 1);
    if (strcmp(command, "trace") == 0)
        return vgpu_cli_trace(argc - 1, argv + 1);
    if (strcmp(command, "replay") == 0)
        return vgpu_cli_replay(argc - 1, argv + 1);
    if (strcmp(command, "doctor") == 0)
        return vgpu_cli_doctor(argc - 1, argv + 1);
    if (strcmp(command, "smi") == 0)
        return vgpu_cli_smi(argc - 1, argv + 1);
    if (strcmp(command, "ctl") == 0)
        return vgpu_cli_ctl(argc - 1, argv + 1);
    if (strcmp(command, "metrics") == 0)
        return vgpu_cli_metrics(argc - 1, argv + 1);
    if (strcmp(command, "cdi") == 0)
        return vgpu_cli_cdi(argc - 1, argv + 1);
    if (strcmp(command, "guest-bundle") == 0)
        return vgpu_cli_bundle(argc - 1, argv + 1);
    if (strcmp(command, "probe") == 0)
        return vgpu_cli_probe();
    if (strcmp(command, "--version") == 0) {
        if (argc > 2)
            vgpu_cli_wrong("--version: '%s' is not understood; see `vgpu --help`", argv[2]);
        printf("vgpu %s\n", VGPU_CLI_VERSION);
        return 0;
    }
    if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0 || strcmp(command, "help") == 0) {
        main_help();
        return 0;
    }
    if (*command)
        vgpu_cli_say("'%s' is not a command; see `vgpu --help`", command);
    else
        main_help();
    return VGPU_CLI_USAGE;
}

int main(int argc, char **argv)
{
    int status = run_command(argc, argv);

    /*
     * A failed write (a full disk, for instance) fails the command, since its output is incomplete.
     */
    return vgpu_cli_output_done() || status == VGPU_CLI_USAGE ? status : VGPU_CLI_FAILED;
}
