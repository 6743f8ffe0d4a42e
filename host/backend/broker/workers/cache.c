/* SPDX-License-Identifier: MIT */
/*
 * The folder in which NVIDIA's library keeps code that it has compiled (CUDA_CACHE_PATH): of the workers of
 * this broker, so of one VM, and of nobody else. A lock on the folder says whose it is; it ends with the broker.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "vgpu-jit."
#define KEPT "vgpu-jit" /* inside of --jit-cache-dir: nothing else there is touched */
#define DEPTH_MAX 16    /* the library makes two levels */
#define ENTRIES_MAX 65536u
#define PASSES_MAX 1000

static char folder[4096];
static int lock_fd = -1; /* the folder */
static bool kept;

/* ---- a tree that somebody else may have made: never by paths, never through links ---- */

static int open_folder(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char path[32];

    if (fd >= 0 || errno != EACCES)
        return fd;
    /* Made without rights for its owner. */
    fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (chmod(path, 0700))
        vgb_log(VGB_DEBUG, "%s: %s", name, strerror(errno));
    close(fd);
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Its entries, without "." and ".."; closed with closedir(). Does not take over fd. */
static DIR *entries_of(int fd)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = own >= 0 ? fdopendir(own) : NULL;

    if (!d && own >= 0)
        close(own);
    return d;
}

static struct dirent *next_entry(DIR *d)
{
    struct dirent *e = d ? readdir(d) : NULL;

    while (e && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")))
        e = readdir(d);
    return e;
}

/* Removes what is in a folder. Too deep a one is moved to the top, for the next pass. False: something is left. */
static bool empty(int top, int fd, unsigned depth)
{
    static unsigned long moved;
    DIR *d = entries_of(fd);
    struct dirent *e;
    bool all = d != NULL;

    while ((e = next_entry(d))) {
        char name[40];
        int sub;

        if (!unlinkat(fd, e->d_name, 0) || !unlinkat(fd, e->d_name, AT_REMOVEDIR))
            continue;
        if (depth == DEPTH_MAX) {
            snprintf(name, sizeof(name), "moved.%lu", moved++);
            renameat(fd, e->d_name, top, name);
            all = false;
            continue;
        }
        sub = open_folder(fd, e->d_name);
        if (sub >= 0) {
            all &= empty(top, sub, depth + 1);
            close(sub);
        }
        all &= !unlinkat(fd, e->d_name, AT_REMOVEDIR);
    }
    if (d)
        closedir(d);
    return all;
}

static void empty_folder(int fd)
{
    for (int i = 0; i < PASSES_MAX && !empty(fd, fd, 0); i++)
        continue;
}

struct sum {
    uint64_t bytes;
    unsigned entries;
    bool odd; /* nothing that the library makes */
};

/* Adds what is in a folder, and gives it to uid unless that is -1. */
static void add_up(int fd, unsigned depth, uid_t uid, struct sum *s)
{
    DIR *d = entries_of(fd);
    struct dirent *e;

    s->odd |= !d;
    while (!s->odd && (e = next_entry(d))) {
        struct stat st;
        int sub;

        s->odd = depth == DEPTH_MAX || ++s->entries > ENTRIES_MAX;
        if (s->odd || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        s->bytes += (uint64_t)st.st_blocks * 512;
        if (uid != (uid_t)-1 && fchownat(fd, e->d_name, uid, (gid_t)uid, AT_SYMLINK_NOFOLLOW))
            s->odd = true;
        if (!S_ISDIR(st.st_mode))
            continue;
        sub = open_folder(fd, e->d_name);
        s->odd |= sub < 0;
        if (sub >= 0) {
            add_up(sub, depth + 1, uid, s);
            close(sub);
        }
    }
    if (d)
        closedir(d);
}

/* ---- whose it is ---- */

uid_t brk_give_to_workers(int fd)
{
    uid_t ids[] = {VGB_WORKER_UID(getpid()), VGB_WORKER_UID_LOW(getpid())};

    if (geteuid())
        return geteuid();
    if (strcmp(brk_opt.sandbox, "enforce"))
        ids[0] = 0; /* they stay root, but without its rights on files of others */
    for (unsigned i = 0; i < 2; i++) {
        if (!fchown(fd, ids[i], (gid_t)ids[i]))
            return ids[i];
    }
    return geteuid();
}

/* A folder that is locked by nobody else and still there; -1. */
static int take(int at, const char *name)
{
    int fd = open_folder(at, name);
    struct stat st;

    if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) || fstat(fd, &st) || !st.st_nlink)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool of_a_broker(const struct stat *st)
{
    return st->st_uid == geteuid() ||
           (!geteuid() && (st->st_uid >= VGB_WORKER_UID(0) ||
                           (st->st_uid >= VGB_UID_LOW && st->st_uid < VGB_UID_LOW + VGB_UID_LOW_COUNT)));
}

/* Folders of brokers that were killed. */
static void remove_stale(const char *place)
{
    DIR *d = opendir(place);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        struct stat st;
        int fd;

        if (strncmp(e->d_name, PREFIX, sizeof(PREFIX) - 1) ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode) || !of_a_broker(&st))
            continue;
        fd = take(dirfd(d), e->d_name);
        if (fd < 0)
            continue; /* a living one's */
        empty_folder(fd);
        unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
        close(fd);
    }
    if (d)
        closedir(d);
}

/* A new folder, which goes with this broker. */
static bool make_own(void)
{
    const char *tmp = getenv("TMPDIR");
    const char *place = tmp && *tmp == '/' ? tmp : "/tmp";

    remove_stale(place);
    /* Between mkdtemp() and the lock another broker may hold it for stale. */
    for (int i = 0; i < 8 && lock_fd < 0; i++) {
        int n = snprintf(folder, sizeof(folder), "%s/" PREFIX "XXXXXX", place);

        if (n >= (int)sizeof(folder) || !mkdtemp(folder))
            break;
        lock_fd = take(AT_FDCWD, folder);
    }
    if (lock_fd < 0)
        vgb_log(VGB_WARN, "no folder for compiled code in %s: %s; each worker compiles anew", place, strerror(errno));
    return lock_fd >= 0;
}

/* The one that the administrator has given. 0, or an exit code, the reason logged. */
static int open_kept(const char *dir)
{
    char real[PATH_MAX];
    struct stat st;

    mkdir(dir, 0711);
    if (!realpath(dir, real) || snprintf(folder, sizeof(folder), "%s/" KEPT, real) >= (int)sizeof(folder)) {
        vgb_log(VGB_ERROR, "--jit-cache-dir %s: %s", dir, strerror(errno));
        return BRK_EXIT_ERROR;
    }
    mkdir(folder, 0700);
    if (lstat(folder, &st) || !S_ISDIR(st.st_mode) || !of_a_broker(&st)) {
        vgb_log(VGB_ERROR, "--jit-cache-dir %s: %s is no folder of this user's", dir, folder);
        return BRK_EXIT_ERROR;
    }
    lock_fd = take(AT_FDCWD, folder);
    if (lock_fd < 0) {
        vgb_log(VGB_ERROR, "--jit-cache-dir %s: %s", dir,
                errno == EWOULDBLOCK ? "another vgpu-backend uses it; VMs never share one" : strerror(errno));
        return BRK_EXIT_ERROR;
    }
    return 0;
}

int brk_cache_start(void)
{
    const char *off = getenv("CUDA_CACHE_DISABLE");
    struct sum s = {0};
    uid_t uid;
    int r = 0;

    if (!brk_opt.jit_cache || (off && !strcmp(off, "1")))
        return 0;
    kept = brk_opt.jit_cache_dir != NULL;
    if (kept)
        r = open_kept(brk_opt.jit_cache_dir);
    else if (!make_own())
        folder[0] = '\0';
    if (r || lock_fd < 0)
        return r;
    uid = brk_give_to_workers(lock_fd);
    add_up(lock_fd, 0, geteuid() ? (uid_t)-1 : uid, &s);
    if (s.odd)
        empty_folder(lock_fd);
    brk_opt.cache = folder;
    brk_cache_check();
    return 0;
}

void brk_cache_check(void)
{
    struct sum s = {0};

    if (lock_fd < 0)
        return;
    add_up(lock_fd, 0, (uid_t)-1, &s);
    /* The library keeps to the size itself, roughly. */
    if (!s.odd && s.bytes <= 2 * brk_opt.jit_cache)
        return;
    vgb_log(VGB_WARN, "%s has more than twice --jit-cache (%llu bytes), or what no driver makes: emptied", folder,
            (unsigned long long)brk_opt.jit_cache);
    empty_folder(lock_fd);
}

void brk_cache_stop(void)
{
    if (lock_fd < 0)
        return;
    if (!kept) {
        empty_folder(lock_fd);
        rmdir(folder);
    }
    close(lock_fd);
    lock_fd = -1;
    brk_opt.cache = NULL;
}
