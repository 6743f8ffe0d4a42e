/* SPDX-License-Identifier: MIT */
/* vgpu vm: boots a guest for one program (or a shell) and gives back what the program gives. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli_config.h"
#include "base/vgpu_cli.h"

/* How long the guest's init may take to say hello. A stock kernel boots in about 1 s under KVM and in
 * 3 to 4 s on an emulated CPU; the longest times are for busy machines. */
#define HELLO_KVM_PROBE_MS 6000
#define HELLO_KVM_MS 30000
#define HELLO_TCG_MS 180000

extern char **environ;

static void help(bool shell)
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
        "  --accel auto|kvm|tcg    how the guest's CPU runs: KVM, emulated, or KVM where it\n"
        "                          works, found out by trying (default auto)\n"
        "  --memory MB             guest memory (default " VGPU_CLI_STRING(
            VGPU_CLI_MEMORY_MB) ")\n"
                                "  --cpus N                guest processors (default " VGPU_CLI_STRING(
                                    VGPU_CLI_CPUS) ")\n"
                                                   "  --share DIR             a further directory that the guest may write to; may be\n"
                                                   "                          given several times\n"
                                                   "  --env NAME=VALUE        sets a variable for the program, beside your own ones\n"
                                                   "  --trace[=FILE]          every CUDA call with its result, to standard error or FILE;\n"
                                                   "                          --trace=refusals: only calls that failed, and why\n"
                                                   "  --timeout SECONDS       ends everything after that time, with status 124\n"
                                                   "  --keep-log FILE         the guest's whole kernel log\n"
                                                   "  --verbose               show how QEMU is started and what it and the guest's kernel say\n"
                                                   "  --help                  this text\n");
    vgpu_cli_help_paths();
}

enum {
    OPT_GPU = 1000,
    OPT_ACCEL,
    OPT_MEMORY,
    OPT_CPUS,
    OPT_SHARE,
    OPT_ENV,
    OPT_TRACE,
    OPT_TIMEOUT,
    OPT_KEEP_LOG,
    OPT_VERBOSE,
    OPT_HELP,
    OPT_PART /* + enum vgpu_cli_part */
};

static struct option options[] = {
    {"gpu", required_argument, NULL, OPT_GPU},
    {"accel", required_argument, NULL, OPT_ACCEL},
    {"memory", required_argument, NULL, OPT_MEMORY},
    {"cpus", required_argument, NULL, OPT_CPUS},
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
    {"qemu", required_argument, NULL, OPT_PART + VGPU_PART_QEMU},
    {"kernel", required_argument, NULL, OPT_PART + VGPU_PART_KERNEL},
    {"initrd", required_argument, NULL, OPT_PART + VGPU_PART_INITRD},
    {"driver", required_argument, NULL, OPT_PART + VGPU_PART_DRIVER},
    {NULL, 0, NULL, 0},
};

/* Adds a writable directory. The guest has its own /dev, /proc, /sys and /run. */
static void add_share(struct vgpu_cli_vm *vm, const char *dir)
{
    static const char *const own[] = {"/dev", "/proc", "/sys", "/run"};
    char *real = realpath(dir, NULL);

    if (!real || access(real, X_OK) != 0)
        vgpu_cli_die("--share %s: %s", dir, strerror(errno));
    if (strcmp(real, "/") == 0)
        vgpu_cli_die("--share /: the whole file system is not shared for writing");
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        size_t len = strlen(own[i]);

        if (strncmp(real, own[i], len) == 0 && (real[len] == 0 || real[len] == '/'))
            vgpu_cli_die("--share %s: the guest has its own %s", dir, own[i]);
    }
    for (size_t i = 0; i < vm->shares.count; i++) {
        if (strcmp(vm->shares.items[i], real) == 0)
            return;
    }
    vgpu_cli_add(&vm->shares, "%s", real);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum vgpu_cli_accel parse_accel(const char *text)
{
    if (strcmp(text, "auto") == 0)
        return VGPU_ACCEL_AUTO;
    if (strcmp(text, "kvm") == 0)
        return VGPU_ACCEL_KVM;
    if (strcmp(text, "tcg") != 0)
        vgpu_cli_die("--accel: '%s' is not one of auto, kvm, tcg", text);
    return VGPU_ACCEL_TCG;
}

static void parse_option(struct vgpu_cli_vm *vm, int option, const char **trace)
{
    switch (option) {
    case OPT_GPU:
        vm->gpu = optarg;
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
        add_share(vm, optarg);
        break;
    case OPT_ENV: {
        char *copy = vgpu_cli_format("%s", optarg), *equals = strchr(copy, '=');

        if (!equals || equals == copy)
            vgpu_cli_die("--env: '%s' is not NAME=VALUE", optarg);
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

static void __attribute__((noreturn))
boot_failed(struct vgpu_cli_vm *vm, enum vgpu_cli_hello how, const char *accel)
{
    vgpu_cli_say(how == VGPU_HELLO_DEAD ? "QEMU ended before the guest was up (%s):"
                                        : "the guest did not come up in time (%s):",
                 accel);
    vgpu_cli_stop(&vm->qemu, 500);
    if (vm->qemu_log)
        vgpu_cli_show_tail(vm->qemu_log, 10);
    vgpu_cli_show_tail(vm->console, 10);
    if (vm->backend.log)
        vgpu_cli_show_tail(vm->backend.log, 10);
    vgpu_cli_cleanup();
    exit(VGPU_CLI_FAILED);
}

/* One attempt to boot. The backend serves one QEMU: each attempt has its own. */
static enum vgpu_cli_hello boot(struct vgpu_cli_vm *vm, enum vgpu_cli_accel accel, int timeout_ms)
{
    enum vgpu_cli_hello how;
    int stop = 0;

    if (strcmp(vm->gpu, "none") != 0) {
        vm->backend.all_devices = true; /* the guest gets the environment */
        vgpu_cli_backend_start(&vm->backend, "--vhost-user", vm->gpu);
    }
    vgpu_cli_qemu_start(vm, accel);
    how = vgpu_cli_wait_hello(vm, timeout_ms, &stop);
    if (how == VGPU_HELLO_STOPPED)
        vgpu_cli_exit_as(stop);
    return how;
}

static void unboot(struct vgpu_cli_vm *vm)
{
    vgpu_cli_stop(&vm->qemu, 200);
    vgpu_cli_stop(&vm->backend.pid, 1000);
    close(vm->channel);
    unlink(vm->console);
    if (vm->qemu_log)
        unlink(vm->qemu_log);
}

/* KVM where it works: /dev/kvm may be there and not work, or crawl, so it is tried once per boot of
 * the host with a time limit. Otherwise the CPU is emulated, and we say so. */
static void boot_auto(struct vgpu_cli_vm *vm)
{
    bool known, works = vgpu_cli_kvm_verdict(&known), tried = false;
    enum vgpu_cli_hello how;

    if (access("/dev/kvm", R_OK | W_OK) != 0) {
        vgpu_cli_say("KVM cannot be used (/dev/kvm: %s): the guest's CPU is emulated, which is slower",
                     strerror(errno));
    } else if (known && !works) {
        vgpu_cli_say("KVM does not work on this machine: the guest's CPU is emulated, which is slower");
    } else {
        how = boot(vm, VGPU_ACCEL_KVM, known ? HELLO_KVM_MS : HELLO_KVM_PROBE_MS);
        if (how == VGPU_HELLO_OK) {
            if (!known)
                vgpu_cli_kvm_remember(true);
            return;
        }
        tried = true;
        vgpu_cli_say("/dev/kvm is there, but a guest did not boot with it%s: "
                     "the guest's CPU is emulated, which is slower",
                     how == VGPU_HELLO_TIMEOUT ? " within the time limit" : "");
        unboot(vm);
    }
    how = boot(vm, VGPU_ACCEL_TCG, HELLO_TCG_MS);
    if (how != VGPU_HELLO_OK)
        boot_failed(vm, how, "emulated CPU");
    /* Only now is it known that KVM was the fault. */
    if (tried)
        vgpu_cli_kvm_remember(false);
}

static void prepare(struct vgpu_cli_vm *vm, const char *trace)
{
    static char cwd[PATH_MAX];

    if (!getcwd(cwd, sizeof(cwd)))
        vgpu_cli_die("the working directory is gone");
    vm->cwd = cwd;
    if (strcmp(cwd, "/") != 0)
        add_share(vm, cwd);
    /* Parents before what lies in them: later mounts cover earlier ones. */
    qsort(vm->shares.items, vm->shares.count, sizeof(char *), by_name);
    if (strcmp(vm->gpu, "none") != 0) {
        vgpu_cli_guest_env(&vm->env, trace);
        vgpu_cli_soft_env(&vm->env, vm->gpu, vm->args.items[0]);
    }
    vm->signals = vgpu_cli_signals();
    vm->console = vm->keep_log       ? vgpu_cli_format("%s", vm->keep_log)
                  : vgpu_cli_verbose ? vgpu_cli_format("/dev/stderr")
                                     : vgpu_cli_format("%s/console.log", vgpu_cli_temp_dir());
    vm->qemu_log = vgpu_cli_verbose ? NULL : vgpu_cli_format("%s/qemu.log", vgpu_cli_temp_dir());
}

static int vm_run(int argc, char **argv, bool shell)
{
    static struct vgpu_cli_vm vm = {
        .gpu = VGPU_CLI_GPU, .memory_mb = VGPU_CLI_MEMORY_MB, .cpus = VGPU_CLI_CPUS, .channel = -1};
    enum vgpu_cli_hello how;
    const char *trace = NULL;
    int option, status;

    for (char **e = environ; *e; e++) {
        if (strncmp(*e, "VGPU_SOCKET=", 12) != 0)
            vgpu_cli_add(&vm.env, "%s", *e);
    }
    while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        if (option == OPT_HELP) {
            help(shell);
            return 0;
        }
        if (option == '?') {
            vgpu_cli_say("see `vgpu vm %s --help`", shell ? "shell" : "run");
            return VGPU_CLI_FAILED;
        }
        parse_option(&vm, option, &trace);
    }
    vgpu_cli_check_gpu(vm.gpu, true);
    if (optind == argc && !shell)
        vgpu_cli_die("which program? usage: vgpu vm run [OPTIONS] PROGRAM [ARGS...]");
    for (int i = optind; i < argc; i++)
        vgpu_cli_add(&vm.args, "%s", argv[i]);
    if (optind == argc)
        vgpu_cli_add(&vm.args, "/bin/bash");
    vm.tty = shell && isatty(0);
    prepare(&vm, trace);
    if (vm.accel == VGPU_ACCEL_AUTO) {
        boot_auto(&vm);
    } else {
        how = boot(&vm, vm.accel, vm.accel == VGPU_ACCEL_KVM ? HELLO_KVM_MS : HELLO_TCG_MS);
        if (how != VGPU_HELLO_OK)
            boot_failed(&vm, how, vm.accel == VGPU_ACCEL_KVM ? "KVM" : "emulated CPU");
    }
    status = vgpu_cli_relay(&vm);
    vgpu_cli_exit_as(status);
}

int vgpu_cli_vm(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";

    if (strcmp(command, "run") == 0)
        return vm_run(argc - 1, argv + 1, false);
    if (strcmp(command, "shell") == 0)
        return vm_run(argc - 1, argv + 1, true);
    if (strcmp(command, "--help") == 0) {
        help(false);
        return 0;
    }
    vgpu_cli_say("vm: '%s' is not a command; there are `vgpu vm run` and `vgpu vm shell`", command);
    return VGPU_CLI_FAILED;
}
