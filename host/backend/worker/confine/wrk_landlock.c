/* SPDX-License-Identifier: MIT */
/* Files that a worker may use, and their enforcement by Landlock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine.h"

/* From kernels newer than the headers possibly used for the build. */
#define FS_REFER (1ull << 13)     /* version 2 */
#define FS_TRUNCATE (1ull << 14)  /* version 3 */
#define NET_TCP 3ull              /* version 4: bind, connect */
#define FS_IOCTL_DEV (1ull << 15) /* version 5 */
#define SCOPE_ALL 3ull            /* version 6: abstract sockets, signals */

struct ruleset_attr {
    uint64_t handled_access_fs, handled_access_net, scoped;
};

#define FS_V1 ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define READ_ONLY (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
/* Truncation: NVIDIA's driver names its threads by fopen(/proc/self/task/N/comm, "w"), and cuInit fails without. */
#define DEVICE (READ_ONLY | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV)
#define WRITABLE \
    (READ_ONLY | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR | \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | FS_REFER | FS_TRUNCATE)
#define ON_A_FILE (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

/* Folder of a library named by a path, with links resolved too. */
static void folders_of(const char *lib, void (*fn)(void *, const char *, enum wrk_access), void *arg)
{
    char path[PATH_MAX], real[PATH_MAX];

    if (!strchr(lib, '/') || strlen(lib) >= sizeof(path))
        return;
    if (realpath(lib, real)) {
        *strrchr(real, '/') = '\0';
        fn(arg, real[0] ? real : "/", WRK_READ);
    }
    snprintf(path, sizeof(path), "%s", lib);
    *strrchr(path, '/') = '\0';
    if (path[0] && strcmp(path, "/proc/self/fd"))
        fn(arg, path, WRK_READ);
}

/* Folders of LD_LIBRARY_PATH, which may contain a library found by name. */
static void folders_of_loader(void (*fn)(void *, const char *, enum wrk_access), void *arg)
{
    const char *list = getenv("LD_LIBRARY_PATH");
    char path[PATH_MAX], real[PATH_MAX];

    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, ":;");

        if (n && n < sizeof(path)) {
            memcpy(path, p, n);
            path[n] = '\0';
            if (realpath(path, real) && strcmp(real, "/"))
                fn(arg, real, WRK_READ);
        }
        p += n + (p[n] != 0);
    }
}

void wrk_sandbox_paths(const struct wrk_sandbox *s,
                       void (*fn)(void *arg, const char *path, enum wrk_access access), void *arg)
{
    static const char *const read_only[] = {
        "/usr", "/lib", "/lib64", "/etc", "/opt", "/sys", "/run/nvidia-persistenced",
        /* of /proc nothing that belongs to another process */
        "/proc/driver/nvidia", "/proc/driver/nvidia-uvm", "/proc/devices", "/proc/modules", "/proc/cpuinfo",
        "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/filesystems", "/proc/cmdline", "/proc/sys",
        "/proc/uptime", "/proc/loadavg",
        /* where distributions and container hosts have NVIDIA's libraries that /usr is not */
        "/nix/store", "/gnu/store", "/run/opengl-driver", "/run/nvidia/driver/usr", "/dev/urandom",
        "/dev/random", "/dev/zero"};
    static const char *const devices[] = {"/proc/self", /* thread names */
                                          "/dev/null",        "/dev/nvidiactl",
                                          "/dev/nvidia-uvm",  "/dev/nvidia-uvm-tools",
                                          "/dev/nvidia-caps", "/dev/nvidia-caps-imex-channels"};
    char node[32];

    for (unsigned i = 0; i < sizeof(read_only) / sizeof(read_only[0]); i++)
        fn(arg, read_only[i], WRK_READ);
    folders_of(s->provider, fn, arg);
    folders_of_loader(fn, arg);
    for (unsigned i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
        fn(arg, devices[i], WRK_DEVICE);
    /* NVIDIA's library opens no GPU without the first: its absence spares 32 failing lookups, twice. */
    for (int i = 0; i < 32 && !access("/dev/nvidiactl", F_OK); i++) {
        snprintf(node, sizeof(node), "/dev/nvidia%d", i);
        fn(arg, node, WRK_DEVICE);
    }
    if (s->has_shm)
        fn(arg, "/dev/shm", WRK_WRITE);
    if (s->cache)
        fn(arg, s->cache, WRK_WRITE);
    if (s->mps)
        fn(arg, s->mps, WRK_READ);
}

struct rules {
    int ruleset;
    uint64_t handled;
};

static void landlock_add(const struct rules *r, const char *path, uint64_t access)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = access & r->handled};
    struct stat st;

    rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (rule.parent_fd < 0)
        return; /* not on this machine */
    if (!fstat(rule.parent_fd, &st) && !S_ISDIR(st.st_mode))
        rule.allowed_access &= ON_A_FILE;
    syscall(SYS_landlock_add_rule, r->ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(rule.parent_fd);
}

static void add_path(void *arg, const char *path, enum wrk_access access)
{
    static const uint64_t rights[] = {[WRK_READ] = READ_ONLY, [WRK_DEVICE] = DEVICE, [WRK_WRITE] = WRITABLE};

    landlock_add(arg, path, rights[access]);
}

/* Files opened for the provider, which reopens them by descriptor number. */
static void add_open_files(const struct rules *r)
{
    char path[32];

    for (int fd = 3; fd < 64; fd++) {
        struct stat st;

        if (fstat(fd, &st) || !S_ISREG(st.st_mode))
            continue;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        landlock_add(r, path, ON_A_FILE & ~FS_IOCTL_DEV);
    }
}

int wrk_landlock_enter(const struct wrk_sandbox *s)
{
    struct ruleset_attr attr = {.handled_access_fs = FS_V1};
    struct rules r;
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    size_t size = sizeof(attr.handled_access_fs);

    if (version < 1)
        return 0;
    if (version >= 2)
        attr.handled_access_fs |= FS_REFER;
    if (version >= 3)
        attr.handled_access_fs |= FS_TRUNCATE;
    if (version >= 4) {
        attr.handled_access_net = NET_TCP;
        size = 2 * sizeof(uint64_t);
    }
    if (version >= 5)
        attr.handled_access_fs |= FS_IOCTL_DEV;
    if (version >= 6) {
        attr.scoped = SCOPE_ALL;
        size = sizeof(attr);
    }
    r.handled = attr.handled_access_fs;
    r.ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
    if (r.ruleset < 0)
        return 0;
    wrk_sandbox_paths(s, add_path, &r);
    add_open_files(&r);
    long refused = syscall(SYS_landlock_restrict_self, r.ruleset, 0);
    close(r.ruleset);
    return refused ? 0 : (int)version;
}
