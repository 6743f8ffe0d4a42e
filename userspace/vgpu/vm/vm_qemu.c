/* SPDX-License-Identifier: MIT */
/* QEMU's command line, and the cached result of trying KVM on this machine. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vm/guest_channel.h"
#include "base/vgpu_cli.h"

/* In QEMU's option syntax a comma in a value is written twice. */
static char *escape_option(const char *text)
{
    char *out = vgpu_cli_alloc(2 * strlen(text) + 1), *p = out;

    for (; *text; text++) {
        *p++ = *text;
        if (*text == ',')
            *p++ = ',';
    }
    return out;
}

static char *share_option(const char *tag, const char *path, bool readonly)
{
    return vgpu_cli_format("local,id=%s,path=%s,security_model=none,multidevs=remap%s", tag,
                           escape_option(path), readonly ? ",readonly=on" : "");
}

/* security_model=none: files in shared folders belong to the user, as if written by a program on
 * the host; QEMU's process may not create set-id bits and device nodes (vm_confine.c). */
static void add_share(struct vgpu_cli_list *a, const char *tag, const char *path, bool readonly)
{
    vgpu_cli_add(a, "-fsdev");
    vgpu_cli_add(a, "%s", share_option(tag, path, readonly));
    vgpu_cli_add(a, "-device");
    vgpu_cli_add(a, "virtio-9p-pci,fsdev=%s,mount_tag=%s", tag, tag);
}

static void machine_options(struct vgpu_cli_list *a, const struct vgpu_cli_vm *vm, enum vgpu_cli_accel accel)
{
    static const char *const cpus[] = {[VGPU_ACCEL_KVM] = "host",
                                       [VGPU_ACCEL_KVM_NO_ARCH] = "host,arch-capabilities=off",
                                       [VGPU_ACCEL_TCG] = "max"};
    bool kvm = accel != VGPU_ACCEL_TCG;
    bool talkative = vm->keep_log || vgpu_cli_verbose;

    vgpu_cli_add(a, "-nodefaults");
    vgpu_cli_add(a, "-no-user-config");
    vgpu_cli_add(a, "-no-reboot");
    vgpu_cli_add(a, "-display");
    vgpu_cli_add(a, "none");
    vgpu_cli_add(a, "-machine");
    vgpu_cli_add(a, "q35,accel=%s,memory-backend=mem", kvm ? "kvm" : "tcg");
    vgpu_cli_add(a, "-cpu");
    vgpu_cli_add(a, "%s", cpus[accel]);
    vgpu_cli_add(a, "-smp");
    vgpu_cli_add(a, "%ld", vm->cpus);
    vgpu_cli_add(a, "-m");
    vgpu_cli_add(a, "%ldM", vm->memory_mb);
    /* The backend accesses guest memory, so it must be shared. */
    vgpu_cli_add(a, "-object");
    vgpu_cli_add(a, "memory-backend-memfd,id=mem,size=%ldM,share=on", vm->memory_mb);
    vgpu_cli_add(a, "-kernel");
    vgpu_cli_add(a, "%s", vgpu_cli_path(VGPU_PART_KERNEL));
    vgpu_cli_add(a, "-initrd");
    vgpu_cli_add(a, "%s", vgpu_cli_path(VGPU_PART_INITRD));
    vgpu_cli_add(a, "-append");
    /*
     * Each line on the emulated serial port costs time: without a reader only errors go there. An
     * emulated CPU on a busy host may miss the ticks that the kernel awaits in its test of the
     * timer interrupt, and the kernel then panics; on KVM the kernel skips that test by itself.
     */
    vgpu_cli_add(a, "console=ttyS0 panic=-1 random.trust_cpu=on %s%s", kvm ? "" : "no_timer_check ",
                 talkative ? "loglevel=7" : "quiet loglevel=4");
    /* Appended: with --verbose it is /dev/stderr, possibly a file with vgpu's own messages. */
    vgpu_cli_add(a, "-chardev");
    vgpu_cli_add(a, "file,id=console,path=%s,append=%s", escape_option(vm->console),
                 vm->qemu_log ? "off" : "on");
    vgpu_cli_add(a, "-serial");
    vgpu_cli_add(a, "chardev:console");
}

bool vgpu_cli_vm_has_net(const struct vgpu_cli_vm *vm)
{
    return vm->net || vm->ports.count;
}

/* QEMU's user network needs no privilege on the host. Ports belong to this machine alone, not to
 * its network; without --net, forwarded ports are the guest's only connection. */
static void net_options(struct vgpu_cli_list *a, const struct vgpu_cli_vm *vm)
{
    char *user = vgpu_cli_format("user,id=net,restrict=%s", vm->net ? "off" : "on");

    for (size_t i = 0; i < vm->ports.count; i++) {
        const char *colon = strchr(vm->ports.items[i], ':');
        char *longer = vgpu_cli_format("%s,hostfwd=tcp:127.0.0.1:%.*s-:%s", user,
                                       (int)(colon - vm->ports.items[i]), vm->ports.items[i], colon + 1);

        free(user);
        user = longer;
    }
    vgpu_cli_add(a, "-netdev");
    vgpu_cli_add(a, "%s", user);
    free(user);
    vgpu_cli_add(a, "-device");
    vgpu_cli_add(a, "virtio-net-pci,netdev=net,romfile=");
}

/* The format is never probed from the file's content, which the guest writes. */
static void disk_option(struct vgpu_cli_list *a, size_t i, const char *file)
{
    size_t length = strlen(file);
    bool qcow2 = length > 6 && strcmp(file + length - 6, ".qcow2") == 0;

    vgpu_cli_add(a, "-drive");
    vgpu_cli_add(a, "if=none,id=disk%zu,file=%s,format=%s,readonly=%s", i, escape_option(file),
                 qcow2 ? "qcow2" : "raw", access(file, W_OK) == 0 ? "off" : "on");
    vgpu_cli_add(a, "-device");
    vgpu_cli_add(a, "virtio-blk-pci,drive=disk%zu", i);
}

void vgpu_cli_qemu_start(struct vgpu_cli_vm *vm, enum vgpu_cli_accel accel)
{
    struct vgpu_cli_list a = {0};
    struct vgpu_cli_spawn spawn = {.log = vm->qemu_log, .keep_fd = {-1, -1}};
    struct vgpu_cli_confine confine = {.say = fcntl(2, F_DUPFD_CLOEXEC, 10)};
    size_t root_at;
    int pair[2];

    confine.root = vgpu_cli_format("%s/root", vgpu_cli_temp_dir());
    if (mkdir(confine.root, 0700) && errno != EEXIST)
        vgpu_cli_die("%s: %s", confine.root, strerror(errno));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        vgpu_cli_die("socketpair: %s", strerror(errno));
    vgpu_cli_add(&a, "%s", vgpu_cli_path(VGPU_PART_QEMU));
    if (vgpu_cli_qemu_has_sandbox(vgpu_cli_path(VGPU_PART_QEMU))) {
        vgpu_cli_add(&a, "-sandbox");
        vgpu_cli_add(&a, "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
    }
    machine_options(&a, vm, accel);
    vgpu_cli_add(&a, "-device");
    vgpu_cli_add(&a, "virtio-serial-pci,max_ports=2");
    vgpu_cli_add(&a, "-chardev");
    vgpu_cli_add(&a, "socket,id=channel,fd=%d", pair[1]);
    vgpu_cli_add(&a, "-device");
    vgpu_cli_add(&a, "virtserialport,chardev=channel,name=" VGPU_CHANNEL_NAME);
    root_at = a.count + 1;
    add_share(&a, "root", confine.root, true);
    confine.fallback = share_option("root", "/", true);
    for (size_t i = 0; i < vm->shares.count; i++) {
        char tag[32];

        snprintf(tag, sizeof(tag), "share%zu", i);
        add_share(&a, tag, vm->shares.items[i], false);
    }
    for (size_t i = 0; i < vm->disks.count; i++)
        disk_option(&a, i, vm->disks.items[i]);
    if (vgpu_cli_vm_has_net(vm))
        net_options(&a, vm);
    for (long i = 0; strcmp(vm->gpu, "none") != 0 && i < vm->gpus; i++) {
        vgpu_cli_add(&a, "-chardev");
        vgpu_cli_add(&a, "socket,id=vgpu%ld,path=%s", i, escape_option(vm->backends[i].socket));
        vgpu_cli_add(&a, "-device");
        vgpu_cli_add(&a, "vgpu-cuda,chardev=vgpu%ld", i);
    }
    if (vgpu_cli_verbose) {
        fprintf(stderr, "vgpu:");
        for (size_t i = 0; i < a.count; i++)
            fprintf(stderr, strchr(a.items[i], ' ') ? " '%s'" : " %s", a.items[i]);
        fprintf(stderr, "\n");
    }
    confine.option = &a.items[root_at];
    spawn.prepare = vgpu_cli_confine;
    spawn.prepare_arg = &confine;
    spawn.argv = a.items;
    spawn.keep_fd[0] = pair[1];
    spawn.keep_fd[1] = vm->console_fd;
    vm->qemu = vgpu_cli_spawn(&spawn);
    if (vm->qemu < 0)
        vgpu_cli_die("cannot run QEMU (%s): %s", a.items[0], strerror(-vm->qemu));
    close(pair[1]);
    if (confine.say >= 0)
        close(confine.say);
    vm->channel = pair[0];
}

/*
 * Returns the file with the verdict about KVM, which holds until the host reboots or QEMU changes.
 * File: a line "BOOT_ID QEMU_MTIME yes|arch-capabilities=off|no", in $XDG_CACHE_HOME/vgpu (default
 * ~/.cache/vgpu).
 */
static char *verdict_file(bool make)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *dir;

    if (cache && cache[0] == '/')
        dir = vgpu_cli_format("%s", cache);
    else if (home && home[0] == '/')
        dir = vgpu_cli_format("%s/.cache", home);
    else
        return NULL;
    if (make) {
        char *sub = vgpu_cli_format("%s/vgpu", dir);

        mkdir(dir, 0700);
        mkdir(sub, 0700);
        free(sub);
    }
    return vgpu_cli_format("%s/vgpu/kvm-verdict", dir);
}

static char *verdict_key(void)
{
    char boot_id[64] = "?";
    struct stat st = {0};
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (f) {
        if (fscanf(f, "%63s", boot_id) != 1)
            strcpy(boot_id, "?");
        fclose(f);
    }
    stat(vgpu_cli_path(VGPU_PART_QEMU), &st);
    return vgpu_cli_format("%s %lld", boot_id, (long long)st.st_mtime);
}

static const char *const accel_words[] = {
    [VGPU_ACCEL_KVM] = "yes", [VGPU_ACCEL_KVM_NO_ARCH] = "arch-capabilities=off", [VGPU_ACCEL_TCG] = "no"};

enum vgpu_cli_accel vgpu_cli_accel_known(void)
{
    char *path = verdict_file(false), *key = verdict_key(), line[256] = "";
    FILE *f = path ? fopen(path, "re") : NULL;
    enum vgpu_cli_accel known = VGPU_ACCEL_AUTO;
    size_t n = strlen(key);

    if (f && fgets(line, sizeof(line), f) && strncmp(line, key, n) == 0 && line[n] == ' ') {
        line[strcspn(line, "\n")] = '\0';
        for (enum vgpu_cli_accel a = VGPU_ACCEL_KVM; a <= VGPU_ACCEL_TCG; a++) {
            if (strcmp(line + n + 1, accel_words[a]) == 0)
                known = a;
        }
    }
    if (f)
        fclose(f);
    free(path);
    free(key);
    return known;
}

void vgpu_cli_accel_remember(enum vgpu_cli_accel accel)
{
    char *path = verdict_file(true), *key = verdict_key();
    /* A link may be another user's, if root runs with that user's HOME. */
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666) : -1;
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (f) {
        fprintf(f, "%s %s\n", key, accel_words[accel]);
        fclose(f);
    }
    free(path);
    free(key);
}
