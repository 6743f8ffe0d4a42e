/* SPDX-License-Identifier: MIT */
/*
 * The worker gives up its rights before it reads the first byte of its guest. In order: no core
 * dumps, no files beyond a few, no capabilities, not traceable by siblings, no new privileges,
 * (NVIDIA) only some files, and last the list of system calls, which is text in policies/ and part
 * of the program.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox.h"

static int policy_errno(const char *name)
{
    static const struct {
        const char *name;
        int value;
    } table[] = {{"ENOSYS", ENOSYS}, {"EACCES", EACCES}, {"EPERM", EPERM}};

    for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (!strcmp(name, table[i].name))
            return table[i].value;
    }
    return 0;
}

/* One policy line -> one rule. 0, or -1: not understood or not accepted by libseccomp. */
static int add_rule(scmp_filter_ctx ctx, const char *line)
{
    char name[32], word[16];
    unsigned arg;
    char mask[24], value[24];

    if (sscanf(line, "%31s %15s", name, word) == 2 && !strcmp(word, "kill")) {
        int nr = seccomp_syscall_resolve_name(name);

        return nr == __NR_SCMP_ERROR ? -1 : seccomp_rule_add(ctx, SCMP_ACT_KILL_PROCESS, nr, 0);
    }
    if (sscanf(line, "%31s errno %15s", name, word) == 2) {
        int nr = seccomp_syscall_resolve_name(name), e = policy_errno(word);

        if (nr == __NR_SCMP_ERROR || !e)
            return -1;
        return seccomp_rule_add(ctx, SCMP_ACT_ERRNO((uint32_t)e), nr, 0);
    }
    int got = sscanf(line, "%31s arg%u & %23s == %23s", name, &arg, mask, value);
    int nr = got >= 1 ? seccomp_syscall_resolve_name(name) : __NR_SCMP_ERROR;

    if (nr == __NR_SCMP_ERROR)
        return -1;
    if (got == 1)
        return strlen(name) == strlen(line) ? seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0) : -1;
    if (got != 4 || arg > 5)
        return -1;
    return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 1,
                            SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, strtoull(mask, NULL, 0),
                                     strtoull(value, NULL, 0)));
}

/* The policy's own "default errno NAME" line, or death. */
static uint32_t default_action(const char *policy)
{
    const char *line = strstr(policy, "\ndefault errno ");
    char word[16];

    if (!line || sscanf(line, "\ndefault errno %15s", word) != 1 || !policy_errno(word))
        return SCMP_ACT_KILL_PROCESS;
    return SCMP_ACT_ERRNO((uint32_t)policy_errno(word));
}

int vgb_sandbox_filter(const char *policy, char *err, size_t err_size)
{
    const uint32_t otherwise = default_action(policy);
    scmp_filter_ctx ctx = seccomp_init(otherwise);
    char line[160];
    int r = -1;

    if (!ctx) {
        snprintf(err, err_size, "seccomp is not available");
        return -1;
    }
    /* Threads that the provider has started already are covered too. */
    seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
    for (const char *p = policy; *p;) {
        size_t n = strcspn(p, "\n");

        snprintf(line, sizeof(line), "%.*s", (int)n, p);
        p += n + (p[n] != 0);
        line[strcspn(line, "#")] = '\0';
        for (size_t l = strlen(line); l && isspace((unsigned char)line[l - 1]);)
            line[--l] = '\0';
        if (!strncmp(line, "default errno ", 14) && otherwise != SCMP_ACT_KILL_PROCESS)
            continue;
        if (*line && add_rule(ctx, line)) {
            snprintf(err, err_size, "policy line not understood: %s", line);
            goto out;
        }
    }
    r = seccomp_load(ctx);
    if (r)
        snprintf(err, err_size, "seccomp filter refused: %s", strerror(-r));
out:
    seccomp_release(ctx);
    return r ? -1 : 0;
}

static void drop_capabilities(void)
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct d[2];

    memset(d, 0, sizeof(d));
    for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
        prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &h, d))
        vgb_log(VGB_WARN, "capabilities were not dropped: %s", strerror(errno));
}

static void allow_below(int ruleset, const char *path, uint64_t access)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = access};

    rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (rule.parent_fd < 0)
        return; /* not on this machine */
    syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(rule.parent_fd);
}

#define READ_ONLY (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define DEVICE (READ_ONLY | LANDLOCK_ACCESS_FS_WRITE_FILE)

/* NVIDIA only: the files that its library needs after start. */
static void limit_files(void)
{
    static const char *const read_only[] = {"/usr",  "/lib",        "/lib64", "/etc", "/opt",
                                            "/proc", "/sys",        "/run/nvidia-persistenced"};
    struct landlock_ruleset_attr attr = {.handled_access_fs =
                                             (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1};
    char node[32];

    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (ruleset < 0) {
        vgb_log(VGB_WARN, "the kernel has no Landlock: files are not limited for this worker");
        return;
    }
    for (unsigned i = 0; i < sizeof(read_only) / sizeof(read_only[0]); i++)
        allow_below(ruleset, read_only[i], READ_ONLY);
    allow_below(ruleset, "/proc/self", DEVICE); /* thread names */
    allow_below(ruleset, "/dev/nvidiactl", DEVICE & ~LANDLOCK_ACCESS_FS_READ_DIR);
    allow_below(ruleset, "/dev/nvidia-uvm", DEVICE & ~LANDLOCK_ACCESS_FS_READ_DIR);
    allow_below(ruleset, "/dev/nvidia-uvm-tools", DEVICE & ~LANDLOCK_ACCESS_FS_READ_DIR);
    allow_below(ruleset, "/dev/nvidia-caps", DEVICE);
    allow_below(ruleset, "/dev/nvidia-caps-imex-channels", DEVICE);
    allow_below(ruleset, "/dev/null", DEVICE & ~LANDLOCK_ACCESS_FS_READ_DIR);
    for (int i = 0; i < 32; i++) {
        snprintf(node, sizeof(node), "/dev/nvidia%d", i);
        allow_below(ruleset, node, DEVICE & ~LANDLOCK_ACCESS_FS_READ_DIR);
    }
    if (syscall(SYS_landlock_restrict_self, ruleset, 0))
        vgb_log(VGB_WARN, "Landlock refused: %s", strerror(errno));
    close(ruleset);
}

static void limit(int what, rlim_t value)
{
    struct rlimit r = {.rlim_cur = value, .rlim_max = value};

    setrlimit(what, &r);
}

/* The log that was asked for may grow so far, in bytes. Lines beyond are lost, nothing else. */
#define SOFT_LOG_MAX (64u << 20)

/* The software GPU's log, opened before: the only file that a worker may make longer. */
static bool has_log_file(void)
{
    const char *log = getenv("VGPU_SOFT_LOG");

    return log && *log && strcmp(log, "stderr");
}

int vgb_sandbox_enter(bool soft, char *err, size_t err_size)
{
    limit(RLIMIT_CORE, 0);
    signal(SIGXFSZ, SIG_IGN);
    if (soft) {
        /* Pipes and shared mappings are not files here. */
        limit(RLIMIT_FSIZE, has_log_file() ? SOFT_LOG_MAX : 0);
        limit(RLIMIT_NOFILE, 64);
    } else {
        limit(RLIMIT_NOFILE, 1024);
    }
    drop_capabilities();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
        snprintf(err, err_size, "no_new_privs: %s", strerror(errno));
        return -1;
    }
    if (!soft)
        limit_files();
    /* Not for NVIDIA's library, which reads its own /proc/self; ptrace is forbidden to workers
     * anyway. */
    if (soft)
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return vgb_sandbox_filter(soft ? vgb_policy_soft : vgb_policy_nvidia, err, err_size);
}
