/* SPDX-License-Identifier: MIT */
/* The options of `vgpu vm run` and `vgpu vm shell`. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cli_config.h"
#include "base/vgpu_cli.h"

#define DISKS_MAX 8
#define PORTS_MAX 32
#define TEXT(value) VGPU_CLI_STRING(value)

enum {
    OPT_GPU = 1000,
    OPT_GPUS,
    OPT_ACCEL,
    OPT_MEMORY,
    OPT_CPUS,
    OPT_SHARE,
    OPT_DISK,
    OPT_PORT,
    OPT_NET,
    OPT_NAME,
    OPT_ENV,
    OPT_TRACE,
    OPT_TIMEOUT,
    OPT_KEEP_LOG,
    OPT_VERBOSE,
    OPT_HELP,
    OPT_PART /* + enum vgpu_cli_part */
};

static const struct option options[] = {
    {"gpu", required_argument, NULL, OPT_GPU},
    {"gpus", required_argument, NULL, OPT_GPUS},
    {"accel", required_argument, NULL, OPT_ACCEL},
    {"memory", required_argument, NULL, OPT_MEMORY},
    {"mem", required_argument, NULL, OPT_MEMORY},
    {"cpus", required_argument, NULL, OPT_CPUS},
    {"disk", required_argument, NULL, OPT_DISK},
    {"port", required_argument, NULL, OPT_PORT},
    {"net", no_argument, NULL, OPT_NET},
    {"name", required_argument, NULL, OPT_NAME},
    {"share", required_argument, NULL, OPT_SHARE},
    {"env", required_argument, NULL, OPT_ENV},
    {"trace", optional_argument, NULL, OPT_TRACE},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"keep-log", required_argument, NULL, OPT_KEEP_LOG},
    {"verbose", no_argument, NULL, OPT_VERBOSE},
    {"help", no_argument, NULL, OPT_HELP},
    {"backend", required_argument, NULL, OPT_PART + VGPU_PART_BACKEND},
    {"libcuda", required_argument, NULL, OPT_PART + VGPU_PART_LIBCUDA},
    {"nvml", required_argument, NULL, OPT_PART + VGPU_PART_NVML},
    {"ptxas", required_argument, NULL, OPT_PART + VGPU_PART_PTXAS},
    {"jit", required_argument, NULL, OPT_PART + VGPU_PART_JIT},
    {"qemu", required_argument, NULL, OPT_PART + VGPU_PART_QEMU},
    {"kernel", required_argument, NULL, OPT_PART + VGPU_PART_KERNEL},
    {"initrd", required_argument, NULL, OPT_PART + VGPU_PART_INITRD},
    {"driver", required_argument, NULL, OPT_PART + VGPU_PART_DRIVER},
    {NULL, 0, NULL, 0},
};

void vgpu_cli_vm_help(bool shell)
{
    if (shell)
        printf("usage: vgpu vm shell [OPTIONS] [SHELL [ARGS...]]\n"
               "\n"
               "Boots a virtual machine as `vgpu vm run` does and gives you a shell in it.\n");
    else
        printf("usage: vgpu vm run [OPTIONS] PROGRAM [ARGS...]\n"
               "\n"
               "Boots a virtual machine with a vgpu-cuda device and runs PROGRAM of this machine in\n"
               "it. The guest sees this machine's files read-only, under an overlay that is thrown\n"
               "away; the working directory (and --share) are writable, and what is written there\n"
               "stays. Standard input, output, error and the exit status are passed on.\n");
    printf(
        "\n"
        "  --gpu soft|nvidia|auto  which GPU executes: the software GPU, the physical one, or\n"
        "                          the physical one where the host has one (default " VGPU_CLI_GPU ");\n"
        "                          none: a machine without the device\n"
        "  --gpus N                so many vgpu-cuda devices, /dev/vgpu0 and on, each with a\n"
        "                          backend and that GPU (default 1)\n"
        "  --accel auto|kvm|tcg    how the guest's CPU runs: KVM, emulated, or KVM where it\n"
        "                          works, found out by trying (default auto)\n"
        "  --memory MB, --mem MB   guest memory (default " TEXT(
            VGPU_CLI_MEMORY_MB) ")\n"
                                "  --cpus N                guest processors (default " TEXT(
                                    VGPU_CLI_CPUS) ")\n"
                                                   "  --share DIR             a further directory that the guest may write to; may be\n"
                                                   "                          given several times\n"
                                                   "  --disk FILE             a disk of the guest, /dev/vda and so on: qcow2 if the name\n"
                                                   "                          ends so, else raw; read-only if the file is; several times\n"
                                                   "  --port HOST:GUEST       the TCP port GUEST of the guest is HOST on this machine, for\n"
                                                   "                          programs of this machine only; several times\n"
                                                   "  --net                   the guest reaches the network of this machine; without it\n"
                                                   "                          it reaches nothing, also with --port\n"
                                                   "  --name NAME             its name for `vgpu vm list` and `vgpu vm stop` (default: the\n"
                                                   "                          process id)\n"
                                                   "  --env NAME=VALUE        sets a variable for the program, beside your own ones\n"
                                                   "  --trace[=FILE]          every CUDA call with its result, to standard error or FILE;\n"
                                                   "                          --trace=refusals: only calls that failed, and why\n"
                                                   "  --timeout SECONDS       ends everything after that time, with status 124\n"
                                                   "  --keep-log FILE         the guest's whole kernel log\n"
                                                   "  --verbose               show how QEMU is started and what it and the guest's kernel say\n"
                                                   "  --help                  this text\n");
    vgpu_cli_help_paths(options);
}

/* Adds a writable directory. The guest has its own /dev, /proc, /sys and /run. */
void vgpu_cli_vm_share(struct vgpu_cli_vm *vm, const char *dir)
{
    static const char *const own[] = {"/dev", "/proc", "/sys", "/run"};
    char *real = realpath(dir, NULL);

    if (!real || access(real, X_OK) != 0)
        vgpu_cli_wrong("--share %s: %s", dir, strerror(errno));
    if (strcmp(real, "/") == 0)
        vgpu_cli_wrong("--share /: the whole file system is not shared for writing");
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        size_t len = strlen(own[i]);

        if (strncmp(real, own[i], len) == 0 && (real[len] == 0 || real[len] == '/'))
            vgpu_cli_wrong("--share %s: the guest has its own %s", dir, own[i]);
    }
    for (size_t i = 0; i < vm->shares.count; i++) {
        if (strcmp(vm->shares.items[i], real) == 0)
            return;
    }
    vgpu_cli_add(&vm->shares, "%s", real);
}

static void add_disk(struct vgpu_cli_vm *vm, const char *file)
{
    char *real = realpath(file, NULL);
    struct stat st;

    if (!real || access(real, R_OK) != 0 || stat(real, &st) != 0)
        vgpu_cli_wrong("--disk %s: %s", file, strerror(errno));
    if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
        vgpu_cli_wrong("--disk %s: it is neither a file nor a block device", file);
    if (vm->disks.count == DISKS_MAX)
        vgpu_cli_wrong("--disk: a guest has at most %d", DISKS_MAX);
    vgpu_cli_add(&vm->disks, "%s", real);
}

static void add_port(struct vgpu_cli_vm *vm, const char *text)
{
    char *copy = vgpu_cli_format("%s", text), *colon = strchr(copy, ':');
    long host, guest;

    if (!colon)
        vgpu_cli_wrong("--port: '%s' is not HOST:GUEST", text);
    *colon = 0;
    host = vgpu_cli_number("--port", copy, 1, 65535);
    guest = vgpu_cli_number("--port", colon + 1, 1, 65535);
    if (vm->ports.count == PORTS_MAX)
        vgpu_cli_wrong("--port: a guest has at most %d", PORTS_MAX);
    vgpu_cli_add(&vm->ports, "%ld:%ld", host, guest);
    free(copy);
}

/* Names appear in a table and must differ from process ids. */
static void set_name(struct vgpu_cli_vm *vm, const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

    if (!n || n > 40 || name[n] || name[0] == '-' || name[strspn(name, "0123456789")] == 0)
        vgpu_cli_wrong(
            "--name: '%s' is not a name: at most 40 letters, digits, '.', '_', '-', and not digits alone",
            name);
    vm->name = name;
}

static enum vgpu_cli_accel parse_accel(const char *text)
{
    if (strcmp(text, "auto") == 0)
        return VGPU_ACCEL_AUTO;
    if (strcmp(text, "kvm") == 0)
        return VGPU_ACCEL_KVM;
    if (strcmp(text, "tcg") != 0)
        vgpu_cli_wrong("--accel: '%s' is not one of auto, kvm, tcg", text);
    return VGPU_ACCEL_TCG;
}

static void parse_option(struct vgpu_cli_vm *vm, int option, const char **trace)
{
    switch (option) {
    case OPT_GPU:
        vm->gpu = optarg;
        break;
    case OPT_GPUS:
        vm->gpus = vgpu_cli_number("--gpus", optarg, 1, VGPU_CLI_GPUS_MAX);
        break;
    case OPT_ACCEL:
        vm->accel = parse_accel(optarg);
        break;
    case OPT_MEMORY:
        vm->memory_mb = vgpu_cli_number("--memory", optarg, 256, 1 << 20);
        break;
    case OPT_CPUS:
        vm->cpus = vgpu_cli_number("--cpus", optarg, 1, 64);
        break;
    case OPT_SHARE:
        vgpu_cli_vm_share(vm, optarg);
        break;
    case OPT_DISK:
        add_disk(vm, optarg);
        break;
    case OPT_PORT:
        add_port(vm, optarg);
        break;
    case OPT_NET:
        vm->net = true;
        break;
    case OPT_NAME:
        set_name(vm, optarg);
        break;
    case OPT_ENV: {
        char *copy = vgpu_cli_format("%s", optarg), *equals = strchr(copy, '=');

        if (!equals || equals == copy)
            vgpu_cli_wrong("--env: '%s' is not NAME=VALUE", optarg);
        *equals = 0;
        vgpu_cli_setenv(&vm->env, copy, equals + 1);
        free(copy);
        break;
    }
    case OPT_TRACE:
        *trace = optarg ? optarg : "";
        break;
    case OPT_TIMEOUT:
        vm->timeout_s = vgpu_cli_number("--timeout", optarg, 1, 1000000);
        break;
    case OPT_KEEP_LOG:
        vm->keep_log = optarg;
        break;
    case OPT_VERBOSE:
        vgpu_cli_verbose = true;
        break;
    default:
        vgpu_cli_set_path((enum vgpu_cli_part)(option - OPT_PART), optarg);
    }
}

bool vgpu_cli_vm_options(struct vgpu_cli_vm *vm, int argc, char **argv, bool shell, const char **trace,
                         int *status)
{
    int option;

    while ((option = vgpu_cli_getopt(shell ? "vm shell" : "vm run", argc, argv, "+", options)) != -1) {
        if (option == OPT_HELP) {
            vgpu_cli_vm_help(shell);
            *status = 0;
            return false;
        }
        parse_option(vm, option, trace);
    }
    return true;
}
