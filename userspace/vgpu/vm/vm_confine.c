/* SPDX-License-Identifier: MIT */
/*
 * Limits access of QEMU, and so of the guest, to the host's files: `vgpu vm run` gives the guest
 * the host's root read-only and some writable folders. The guest's kernel is not trusted, so the
 * host's kernel enforces the limits on QEMU.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/vgpu_cli.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_mount_setattr /* Linux 5.12 */
#define SYS_mount_setattr 442
#endif
#define MOUNT_READ_ONLY 1u    /* MOUNT_ATTR_RDONLY; linux/mount.h may conflict with libc's */
#define AT_WHOLE_TREE 0x8000u /* AT_RECURSIVE */

#define SET_ID (S_ISUID | S_ISGID)
#define ARG(n) ((unsigned)offsetof(struct seccomp_data, args) + 8u * (n)) /* low half */
#define DENY(e) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (e))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))

/* Calls whose argument `a` is a file mode must not set a set-id bit. Four instructions. */
#define NO_SET_ID(nr, a) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 4), LOAD(ARG(a)), \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SET_ID, 0, 1), DENY(EPERM), ALLOW

/* Same for calls with a mode only if flags (argument `f`) request the creation of a file. */
#define NO_SET_ID_IF_NEW(nr, f, a) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 6), LOAD(ARG(f)), \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT | (O_TMPFILE & ~O_DIRECTORY), 0, 3), LOAD(ARG(a)), \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SET_ID, 0, 1), DENY(EPERM), ALLOW

/*
 * No file may get a set-id bit: such a file, written by a guest to a shared folder, would give the
 * user's rights to any user of the host who runs it. nosuid on the guest's mount would be at the
 * guest's discretion.
 */
static int forbid_set_id(void)
{
#if defined(__x86_64__)
    struct sock_filter code[] = {
        LOAD(offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        DENY(ENOSYS),
        LOAD(offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), /* x32 ABI */
        DENY(ENOSYS),
        NO_SET_ID(SYS_chmod, 1),
        NO_SET_ID(SYS_fchmod, 1),
        NO_SET_ID(SYS_fchmodat, 2),
        NO_SET_ID(SYS_fchmodat2, 2),
        NO_SET_ID(SYS_mkdir, 1),
        NO_SET_ID(SYS_mkdirat, 2),
        NO_SET_ID(SYS_mknod, 1),
        NO_SET_ID(SYS_mknodat, 2),
        NO_SET_ID(SYS_creat, 1),
        NO_SET_ID_IF_NEW(SYS_open, 1, 2),
        NO_SET_ID_IF_NEW(SYS_openat, 2, 3),
        /* Its mode is in memory, which filters cannot read. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        DENY(ENOSYS),
        ALLOW,
    };
    struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
#else
    errno = ENOTSUP;
    return -1;
#endif
}

/* Undoes the escapes of /proc/self/mountinfo: \\ and three octal digits. */
static void unescape_path(char *path)
{
    char *to = path;

    for (; *path; path++) {
        if (path[0] == '\\' && path[1] && path[2] && path[3]) {
            *to++ = (char)((path[1] - '0') << 6 | (path[2] - '0') << 3 | (path[3] - '0'));
            path += 3;
        } else {
            *to++ = *path;
        }
    }
    *to = '\0';
}

/* Returns the flags of a mount that a user namespace may not clear. */
static unsigned long mount_flags(const char *path)
{
    static const struct {
        unsigned long says, flag;
    } flags[] = {{ST_NOSUID, MS_NOSUID},   {ST_NODEV, MS_NODEV},           {ST_NOEXEC, MS_NOEXEC},
                 {ST_NOATIME, MS_NOATIME}, {ST_NODIRATIME, MS_NODIRATIME}, {ST_RELATIME, MS_RELATIME}};
    unsigned long all = 0;
    struct statvfs st;

    for (size_t i = 0; !statvfs(path, &st) && i < sizeof(flags) / sizeof(flags[0]); i++)
        all |= st.f_flag & flags[i].says ? flags[i].flag : 0;
    return all;
}

/* True if the mount cannot be reached by its path: another mount covers it, so that the path leads
 * elsewhere, or this user may not enter it. */
static bool is_out_of_reach(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EINVAL || error == EACCES;
}

/* Before Linux 5.12 each mount is changed separately. */
static bool read_only_each(const char *at)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char *line = NULL, path[4200];
    size_t room = 0, n = strlen(at);
    bool ok = f != NULL;

    while (ok && getline(&line, &room, f) > 0) {
        if (sscanf(line, "%*s %*s %*s %*s %4199s", path) != 1)
            continue;
        unescape_path(path);
        if (strncmp(path, at, n) || (path[n] && path[n] != '/'))
            continue;
        ok = !mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | mount_flags(path), NULL) ||
             is_out_of_reach(errno);
    }
    free(line);
    if (f)
        fclose(f);
    return ok;
}

/*
 * Makes the whole tree read-only, also where `at` lies in a folder shared for writing, through
 * which the guest would write to the host's files.
 */
static bool read_only(const char *at)
{
    struct {
        uint64_t set, clear, propagation, userns;
    } attributes = {.set = MOUNT_READ_ONLY};

    if (!syscall(SYS_mount_setattr, AT_FDCWD, at, AT_WHOLE_TREE, &attributes, sizeof(attributes)))
        return true;
    return errno == ENOSYS && read_only_each(at);
}

/*
 * Makes the host's tree at `at`, read-only, without files about the host's processes and devices,
 * of which the guest has its own.
 */
static bool tree_made(const char *at)
{
    static const char *const hidden[] = {"proc", "sys", "dev", "run"};

    if (mount("/", at, NULL, MS_BIND | MS_REC, NULL) || !read_only(at))
        return false;
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
        char path[4200];
        struct stat st;

        snprintf(path, sizeof(path), "%s/%s", at, hidden[i]);
        if (lstat(path, &st) || !S_ISDIR(st.st_mode))
            continue;
        if (mount("none", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,mode=755"))
            return false;
    }
    return true;
}

static bool tree_without_proc(const char *at)
{
    int why;

    if (!vgpu_cli_own_mounts(MS_PRIVATE))
        return false;
    if (tree_made(at))
        return true;
    why = errno;
    umount2(at, MNT_DETACH);
    errno = why;
    return false;
}

void vgpu_cli_confine(void *arg)
{
    struct vgpu_cli_confine *c = arg;

    if (!tree_without_proc(c->root)) {
        dprintf(c->say,
                "vgpu: warning: the guest can read /proc and /sys of the host: no mount namespace "
                "(%s)\n",
                strerror(errno));
        *c->option = c->fallback;
    }
    /*
     * Shared folders get neither file capabilities nor device nodes; no effect for ordinary users.
     */
    prctl(PR_CAPBSET_DROP, CAP_SETFCAP, 0, 0, 0);
    prctl(PR_CAPBSET_DROP, CAP_MKNOD, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || forbid_set_id())
        dprintf(c->say, "vgpu: warning: the guest can leave set-id files in shared folders: %s\n",
                strerror(errno));
}

bool vgpu_cli_qemu_has_sandbox(const char *qemu)
{
    char *argv[] = {(char *)(uintptr_t)qemu, (char *)"-sandbox", (char *)"on", (char *)"-version", NULL};
    struct vgpu_cli_spawn spawn = {.argv = argv, .log = "/dev/null", .keep_fd = {-1, -1}};
    pid_t pid = vgpu_cli_spawn(&spawn);
    int status = -1;

    return pid > 0 && vgpu_cli_reap(pid, &status) && WIFEXITED(status) && !WEXITSTATUS(status);
}
