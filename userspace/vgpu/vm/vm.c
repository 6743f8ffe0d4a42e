/* SPDX-License-Identifier: MIT */
/* vgpu vm: boots a guest for a program (or a shell) and returns the program's output and status. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli_config.h"
#include "base/vgpu_cli.h"

/* Time limits for HELLO of the guest's init. A stock kernel boots in about 1 s under KVM and in 3
 * to 4 s on an emulated CPU; the longest limits are for busy machines. */
#define HELLO_KVM_PROBE_MS 6000
#define HELLO_KVM_MS 30000
#define HELLO_TCG_MS 180000

extern char **environ;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
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
    for (long i = 0; i < vm->gpus; i++) {
        if (vm->backends[i].log)
            vgpu_cli_show_tail(vm->backends[i].log, 10);
    }
    vgpu_cli_cleanup();
    exit(VGPU_CLI_FAILED);
}

/* Boots once. A backend serves a single QEMU, so each attempt has its own. */
static enum vgpu_cli_hello boot_vm(struct vgpu_cli_vm *vm, enum vgpu_cli_accel accel, int timeout_ms)
{
    enum vgpu_cli_hello how;
    int stop = 0;

    for (long i = 0; i < vm->gpus; i++)
        vm->backends[i].name = vm->name;
    if (strcmp(vm->gpu, "none") != 0)
        vgpu_cli_backends_start(vm->backends, vm->gpus, "--vhost-user", vm->gpu);
    vgpu_cli_qemu_start(vm, accel);
    how = vgpu_cli_wait_hello(vm, timeout_ms, &stop);
    if (how == VGPU_HELLO_STOPPED)
        vgpu_cli_exit_as(stop);
    return how;
}

void vgpu_cli_vm_drop_logs(const struct vgpu_cli_vm *vm)
{
    if (!vm->qemu_log)
        return; /* --verbose: the console is /dev/stderr, which root could remove */
    unlink(vm->qemu_log);
    if (!vm->keep_log)
        unlink(vm->console);
}

static void end_boot(struct vgpu_cli_vm *vm)
{
    vgpu_cli_stop(&vm->qemu, 200);
    for (long i = 0; i < vm->gpus; i++)
        vgpu_cli_stop(&vm->backends[i].pid, 1000);
    close(vm->channel);
    vgpu_cli_vm_drop_logs(vm);
}

#define NO_ARCH_CPU "-cpu host,arch-capabilities=off"

/* Some hosts' KVM rejects accesses of a guest with arch-capabilities, and QEMU ends; the second
 * attempt disables that feature. `known`: the accelerator that worked before, or AUTO. True: a
 * guest is running. */
static bool boot_kvm(struct vgpu_cli_vm *vm, enum vgpu_cli_accel known)
{
    enum vgpu_cli_accel accel = known == VGPU_ACCEL_KVM_NO_ARCH ? known : VGPU_ACCEL_KVM;

    for (; accel <= VGPU_ACCEL_KVM_NO_ARCH; accel++) {
        enum vgpu_cli_hello how = boot_vm(vm, accel, accel == known ? HELLO_KVM_MS : HELLO_KVM_PROBE_MS);

        if (how == VGPU_HELLO_OK) {
            if (accel == known)
                return true;
            vgpu_cli_accel_remember(accel);
            if (accel == VGPU_ACCEL_KVM_NO_ARCH)
                vgpu_cli_say("KVM boots a guest with " NO_ARCH_CPU " on this machine: that is used");
            return true;
        }
        vgpu_cli_say("/dev/kvm is there, but a guest did not boot with it%s: %s",
                     how == VGPU_HELLO_TIMEOUT ? " within the time limit" : "",
                     accel == VGPU_ACCEL_KVM ? "KVM is tried again, with " NO_ARCH_CPU
                                             : "the guest's CPU is emulated, which is slower");
        end_boot(vm);
    }
    return false;
}

/* Uses KVM where it works: /dev/kvm may exist and be broken or slow, so it is tried with a time
 * limit, once per boot of the host. Otherwise the CPU is emulated, with a message. */
static void boot_auto(struct vgpu_cli_vm *vm)
{
    enum vgpu_cli_accel known = vgpu_cli_accel_known();
    bool tried = false;
    enum vgpu_cli_hello how;

    if (access("/dev/kvm", R_OK | W_OK) != 0) {
        vgpu_cli_say("KVM cannot be used (/dev/kvm: %s): the guest's CPU is emulated, which is slower",
                     strerror(errno));
    } else if (known == VGPU_ACCEL_TCG) {
        vgpu_cli_say("KVM does not work on this machine: the guest's CPU is emulated, which is slower");
    } else if (boot_kvm(vm, known)) {
        return;
    } else {
        tried = true;
    }
    how = boot_vm(vm, VGPU_ACCEL_TCG, HELLO_TCG_MS);
    if (how != VGPU_HELLO_OK)
        boot_failed(vm, how, "emulated CPU");
    /* Only a successful boot without KVM proves that KVM was at fault. */
    if (tried)
        vgpu_cli_accel_remember(VGPU_ACCEL_TCG);
}

/* Boots with --accel kvm or tcg. */
static void boot_given(struct vgpu_cli_vm *vm)
{
    bool kvm = vm->accel == VGPU_ACCEL_KVM;
    bool again = kvm && vgpu_cli_accel_known() == VGPU_ACCEL_KVM_NO_ARCH;
    enum vgpu_cli_hello how =
        boot_vm(vm, again ? VGPU_ACCEL_KVM_NO_ARCH : vm->accel, kvm ? HELLO_KVM_MS : HELLO_TCG_MS);

    if (how == VGPU_HELLO_DEAD && kvm && !again) {
        vgpu_cli_say("a guest did not boot with KVM: KVM is tried again, with " NO_ARCH_CPU);
        end_boot(vm);
        how = boot_vm(vm, VGPU_ACCEL_KVM_NO_ARCH, HELLO_KVM_MS);
    }
    if (how != VGPU_HELLO_OK)
        boot_failed(vm, how, kvm ? "KVM" : "emulated CPU");
}

/* Appends this vgpu's folder to PATH, unless PATH already leads to a vgpu. */
static void add_to_path(struct vgpu_cli_list *env)
{
    const char *path = vgpu_cli_getenv(env, "PATH"), *own = vgpu_cli_binary_dir();
    char *copy = vgpu_cli_format("%s", path ? path : "/usr/local/bin:/usr/bin:/bin"), *longer;

    for (char *save = NULL, *dir = strtok_r(copy, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
        char *file = vgpu_cli_format("%s/vgpu", dir);
        bool there = access(file, X_OK) == 0;

        free(file);
        if (there) {
            free(copy);
            return;
        }
    }
    free(copy);
    longer = vgpu_cli_format("%s:%s", path ? path : "/usr/local/bin:/usr/bin:/bin", own);
    vgpu_cli_setenv(env, "PATH", longer);
    free(longer);
}

static void prepare_vm(struct vgpu_cli_vm *vm, const char *trace)
{
    static const enum vgpu_cli_part needed[] = {VGPU_PART_QEMU, VGPU_PART_KERNEL, VGPU_PART_INITRD,
                                                VGPU_PART_DRIVER};
    static char cwd[PATH_MAX];

    /* Missing parts are reported before anything is started. */
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (needed[i] != VGPU_PART_DRIVER || strcmp(vm->gpu, "none") != 0)
            vgpu_cli_path(needed[i]);
    }
    if (!getcwd(cwd, sizeof(cwd)))
        vgpu_cli_die("the working directory is gone");
    vm->cwd = cwd;
    if (strcmp(cwd, "/") != 0)
        vgpu_cli_vm_share(vm, cwd);
    /* Parents before the directories in them: later mounts cover earlier ones. */
    qsort(vm->shares.items, vm->shares.count, sizeof(char *), by_name);
    if (strcmp(vm->gpu, "none") != 0) {
        vgpu_cli_guest_env(&vm->env, trace);
        vgpu_cli_python_env(&vm->env, vm->gpu, vm->args.items[0]);
    }
    add_to_path(&vm->env);
    vgpu_cli_vm_register(vm);
    vm->signals = vgpu_cli_signals();
    /* By descriptor: the folder may be writable for a guest. */
    if (vm->keep_log || !vgpu_cli_verbose) {
        char *path = vgpu_cli_format("%s/console.log", vgpu_cli_temp_dir());

        vm->console_fd = vgpu_cli_create(vm->keep_log ? "--keep-log" : "the guest's console:",
                                         vm->keep_log ? vm->keep_log : path);
        vm->console = vgpu_cli_format("/proc/self/fd/%d", vm->console_fd);
        free(path);
    } else {
        vm->console_fd = -1;
        vm->console = vgpu_cli_format("/dev/stderr");
    }
    vm->qemu_log = vgpu_cli_verbose ? NULL : vgpu_cli_format("%s/qemu.log", vgpu_cli_temp_dir());
}

static int vm_run(int argc, char **argv, bool shell)
{
    static struct vgpu_cli_vm vm = {.gpu = VGPU_CLI_GPU,
                                    .gpus = 1,
                                    .memory_mb = VGPU_CLI_MEMORY_MB,
                                    .cpus = VGPU_CLI_CPUS,
                                    .channel = -1};
    const char *trace = NULL;
    int status;

    for (char **e = environ; *e; e++) {
        if (strncmp(*e, "VGPU_SOCKET=", 12) != 0)
            vgpu_cli_add(&vm.env, "%s", *e);
    }
    if (!vgpu_cli_vm_options(&vm, argc, argv, shell, &trace, &status))
        return status;
    vgpu_cli_check_gpu(vm.gpu, true);
    if (optind == argc && !shell)
        vgpu_cli_wrong("which program? usage: vgpu vm run [OPTIONS] PROGRAM [ARGS...]");
    for (int i = optind; i < argc; i++)
        vgpu_cli_add(&vm.args, "%s", argv[i]);
    if (optind == argc)
        vgpu_cli_add(&vm.args, "/bin/bash");
    vm.tty = shell && isatty(0);
    prepare_vm(&vm, trace);
    if (vm.accel == VGPU_ACCEL_AUTO)
        boot_auto(&vm);
    else
        boot_given(&vm);
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
        vgpu_cli_vm_help(false);
        return 0;
    }
    if (strcmp(command, "list") == 0)
        return vgpu_cli_vm_list(argc - 1, argv + 1);
    if (strcmp(command, "stop") == 0)
        return vgpu_cli_vm_stop(argc - 1, argv + 1);
    vgpu_cli_say("vm: '%s' is not a command; there are `vgpu vm run`, `shell`, `list` and `stop`", command);
    return VGPU_CLI_USAGE;
}
