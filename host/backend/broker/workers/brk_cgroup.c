/* SPDX-License-Identifier: MIT */
/*
 * Control group of all workers of this broker: bounds their processes, memory and processors, even
 * if a compromised worker ignores the limits that it counts itself. Created where the broker is
 * allowed to: below its own group if delegated, or below the group of --cgroup.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PIDS_SPARE 256u /* processes beyond the clients' limits: spares, ending workers */

static char group[600];   /* "": none */
static char own[600];     /* group the broker moved itself to, "": none */
static char summary[160]; /* text for the log and doctor */

static bool cgroup_put(const char *dir, const char *file, const char *text)
{
    char path[700];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int e = errno;
    close(fd);
    errno = e;
    return ok;
}

static bool put_number(const char *dir, const char *file, uint64_t n)
{
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
    return cgroup_put(dir, file, text);
}

/* "max" with the kernel's default period; percent of a processor. */
static bool put_cpu(uint64_t percent)
{
    char text[48];

    snprintf(text, sizeof(text), "%llu 100000", (unsigned long long)percent * 1000);
    return cgroup_put(group, "cpu.max", text);
}

const char *brk_cgroup_make(const char *parent, const struct brk_cgroup_limits *l)
{
    char controllers[40];
    const char *wrong = NULL;

    snprintf(group, sizeof(group), "%s/vgpu-workers.%ld", parent, (long)getpid());
    /* A group can only use controllers enabled by its parent. */
    snprintf(controllers, sizeof(controllers), "+pids%s%s", l->memory ? " +memory" : "",
             l->cpu || l->weight ? " +cpu" : "");
    if (!cgroup_put(parent, "cgroup.subtree_control", controllers))
        wrong = "its controllers cannot be passed on";
    else if (mkdir(group, 0755) && errno != EEXIST)
        wrong = "no group can be made in it";
    else if (!put_number(group, "pids.max", l->pids) ||
             (l->memory && !put_number(group, "memory.max", l->memory)) || (l->cpu && !put_cpu(l->cpu)) ||
             (l->weight && !put_number(group, "cpu.weight", l->weight)))
        wrong = "its limits cannot be set";
    if (!wrong)
        return NULL;
    rmdir(group);
    group[0] = '\0';
    return wrong;
}

/* Group of this process; false: not in the unified hierarchy. */
static bool own_group(char *path, size_t size)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[512];
    bool found = false;
    struct statfs fs;

    while (f && !found && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4))
            continue;
        snprintf(path, size, BRK_CGROUP_MOUNT "%s", line + 3);
        found = true;
    }
    if (f)
        fclose(f);
    return found && !statfs(BRK_CGROUP_MOUNT, &fs) && fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* systemd marks groups delegated to a service; no other group of the host is changed unasked. */
static bool cgroup_delegated(const char *path)
{
    char v[2];

    return getxattr(path, "user.delegate", v, sizeof(v)) == 1 ||
           getxattr(path, "trusted.delegate", v, sizeof(v)) == 1;
}

/* A group with processes cannot enable controllers for children: the broker moves to a sibling of
 * the workers' group. */
static const char *step_aside(const char *parent)
{
    snprintf(own, sizeof(own), "%s/vgpu-broker.%ld", parent, (long)getpid());
    if ((!mkdir(own, 0755) || errno == EEXIST) && put_number(own, "cgroup.procs", (uint64_t)getpid()))
        return NULL;
    rmdir(own);
    own[0] = '\0';
    return "the broker cannot leave its own group";
}

static void step_back(const char *parent)
{
    if (own[0] && put_number(parent, "cgroup.procs", (uint64_t)getpid()))
        rmdir(own);
    own[0] = '\0';
}

bool brk_cgroup_start(void)
{
    uint64_t threads = brk_opt.limits.threads;
    struct brk_cgroup_limits l = {.pids = brk_opt.cgroup_pids,
                                  .memory = brk_opt.cgroup_memory,
                                  .cpu = brk_opt.cgroup_cpu,
                                  .weight = brk_opt.cgroup_weight};
    bool needed = l.memory || l.cpu || l.weight;
    bool asked = brk_opt.cgroup && *brk_opt.cgroup == '/';
    const char *why = NULL;
    char parent[550] = "";

    if (brk_opt.cgroup && !strcmp(brk_opt.cgroup, "off"))
        why = "--cgroup off";
    else if (asked)
        snprintf(parent, sizeof(parent), "%s", brk_opt.cgroup);
    else if (!own_group(parent, sizeof(parent)))
        why = "this host has no unified control groups";
    else if (!cgroup_delegated(parent))
        why = "this process's group is not delegated to it";
    else
        why = step_aside(parent);
    if (!l.pids)
        l.pids = threads ? (threads + 1) * brk_opt.max_clients + PIDS_SPARE : 1u << 22;
    if (!why)
        why = brk_cgroup_make(parent, &l);
    if (why) {
        step_back(parent);
        snprintf(summary, sizeof(summary), "no cgroup (%s)", why);
        vgb_log(asked || needed ? VGB_ERROR : VGB_INFO,
                "cgroup of the workers: none: %s; what limits them is per client", why);
        return !asked && !needed;
    }
    snprintf(summary, sizeof(summary), "cgroup (%llu processes and threads, memory %s, processors %s)",
             (unsigned long long)l.pids, l.memory ? "limited" : "not limited",
             l.cpu ? "limited" : "not limited");
    vgb_log(
        VGB_INFO,
        "cgroup of the workers: %s: %llu processes and threads, %llu bytes of memory, %llu %% of a processor "
        "(0: no limit)",
        group, (unsigned long long)l.pids, (unsigned long long)l.memory, (unsigned long long)l.cpu);
    return true;
}

const char *brk_cgroup_summary(void)
{
    return summary;
}

bool brk_cgroup_add(pid_t pid)
{
    return !group[0] || put_number(group, "cgroup.procs", (uint64_t)pid);
}

/* Value of a file that has one number; UINT64_MAX: "max", or unreadable. */
static uint64_t cgroup_number(const char *dir, const char *file)
{
    char path[700], text[32] = "";
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    f = fopen(path, "re");
    if (f && !fgets(text, sizeof(text), f))
        text[0] = '\0';
    if (f)
        fclose(f);
    return text[0] >= '0' && text[0] <= '9' ? strtoull(text, NULL, 10) : UINT64_MAX;
}

/* Page cache that the kernel takes back first, which memory.current counts. */
static uint64_t cgroup_reclaimable(const char *dir)
{
    char path[700], line[128];
    unsigned long long n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/memory.stat", dir);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "inactive_file %llu", &n) == 1)
            break;
    if (f)
        fclose(f);
    return n;
}

/* Memory that DIR's own limit leaves. */
static uint64_t cgroup_left(const char *dir)
{
    uint64_t max = cgroup_number(dir, "memory.max"), now = cgroup_number(dir, "memory.current"), cache;

    if (max == UINT64_MAX || now == UINT64_MAX)
        return UINT64_MAX;
    cache = cgroup_reclaimable(dir);
    now -= cache < now ? cache : now;
    return now < max ? max - now : 0;
}

uint64_t brk_cgroup_memory_left(const char *root)
{
    uint64_t least = UINT64_MAX;
    char path[sizeof(group)];
    size_t n = strlen(root);

    if (group[0])
        memcpy(path, group, sizeof(path));
    else if (!own_group(path, sizeof(path)))
        return least;
    /* A group's limit holds for all below it. */
    while (!strncmp(path, root, n)) {
        uint64_t left = cgroup_left(path);
        char *end = strrchr(path, '/');

        if (left < least)
            least = left;
        if (!end)
            break;
        *end = '\0';
    }
    return least;
}

void brk_cgroup_stop(void)
{
    if (group[0] && rmdir(group))
        vgb_log(VGB_DEBUG, "%s: %s", group, strerror(errno));
    group[0] = '\0';
}
