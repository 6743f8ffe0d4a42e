/* SPDX-License-Identifier: MIT */
/* Operations on file trees possibly created by hostile workers: never by path, never through links,
 * bounded. */
#define _GNU_SOURCE
#include "workers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 16 /* the library uses two levels */
#define PASSES_MAX 1000
#define BYTES_FEW (256u << 10) /* size of a file that is removed directly */
#define PART "vgpu.part"       /* name of an incomplete file */

static int open_folder(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char path[32];

    if (fd >= 0 || errno != EACCES)
        return fd;
    /* May have been created without rights for its owner. */
    fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (chmod(path, 0700))
        vgb_log(VGB_DEBUG, "%s: %s", name, strerror(errno));
    close(fd);
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Opens a directory stream, to be closed with closedir(). Does not take over fd. */
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

/*
 * The last close of a large file frees its pages, a third of a second for each GiB: done elsewhere.
 */
static bool remove_file(int at, const char *name)
{
    int fd = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    bool removed = !unlinkat(at, name, 0);
    struct stat st;

    if (fd >= 0 && removed && !fstat(fd, &st) && (uint64_t)st.st_blocks * 512 > BYTES_FEW)
        brk_foreign_close(fd);
    else if (fd >= 0)
        close(fd);
    return removed;
}

/*
 * Removes a folder's content. Folders nested too deep are moved to the top, for the next pass.
 * False: something is left. left: entries to visit, bounded because the folder may be filled
 * concurrently.
 */
static bool empty_folder(int top, int fd, unsigned depth, unsigned *left)
{
    static unsigned long moved;
    DIR *d = entries_of(fd);
    struct dirent *e;
    bool all = d != NULL;

    while ((e = next_entry(d))) {
        char name[40];
        int sub;

        if (!*left) {
            all = false;
            break;
        }
        (*left)--;
        if (remove_file(fd, e->d_name) || !unlinkat(fd, e->d_name, AT_REMOVEDIR))
            continue;
        if (depth == DEPTH_MAX) {
            snprintf(name, sizeof(name), "moved.%lu", moved++);
            renameat(fd, e->d_name, top, name);
            all = false;
            continue;
        }
        sub = open_folder(fd, e->d_name);
        if (sub >= 0) {
            all &= empty_folder(top, sub, depth + 1, left);
            close(sub);
        }
        all &= !unlinkat(fd, e->d_name, AT_REMOVEDIR);
    }
    if (d)
        closedir(d);
    return all;
}

bool brk_tree_empty(int fd, unsigned most)
{
    bool all = false;

    for (int i = 0; i < PASSES_MAX && most && !all; i++)
        all = empty_folder(fd, fd, 0, &most);
    return all;
}

/* ---- copying ---- */

struct copying {
    const struct brk_tree_limits *limits;
    uint64_t bytes;
    unsigned entries;
};

static bool tree_same(const struct stat *a, const struct stat *b)
{
    return S_ISREG(b->st_mode) && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static bool give_to_owner(const struct copying *c, int fd)
{
    return c->limits->owner == geteuid() || !fchown(fd, c->limits->owner, (gid_t)c->limits->owner);
}

static bool copy_bytes(int from, int to, uint64_t left)
{
    static char buffer[1 << 16];

    while (left) {
        ssize_t n = read(from, buffer, left < sizeof(buffer) ? left : sizeof(buffer));

        if (n <= 0 || write(to, buffer, (size_t)n) != n)
            return false;
        left -= (uint64_t)n;
    }
    return true;
}

static bool copy_file(struct copying *c, int from, int to, const char *name)
{
    int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), out = -1;
    struct stat st, old;
    bool ok = false;

    if (in < 0 || fstat(in, &st) || !S_ISREG(st.st_mode))
        goto out;
    /* By its length: a sparse file may be larger than its file system. */
    if ((uint64_t)st.st_size > c->limits->bytes - c->bytes)
        goto out;
    c->bytes += (uint64_t)st.st_size;
    if (!fstatat(to, name, &old, AT_SYMLINK_NOFOLLOW) && tree_same(&st, &old)) {
        ok = true;
        goto out;
    }
    unlinkat(to, PART, 0);
    out = openat(to, PART, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ok = out >= 0 && copy_bytes(in, out, (uint64_t)st.st_size) &&
         !futimens(out, (struct timespec[]){st.st_atim, st.st_mtim}) && give_to_owner(c, out) &&
         !renameat(to, PART, to, name);
    if (!ok)
        unlinkat(to, PART, 0);
out:
    if (out >= 0)
        close(out);
    if (in >= 0)
        close(in);
    return ok;
}

static void copy_folder(struct copying *c, int from, int to, unsigned depth);

static bool copy_subfolder(struct copying *c, int from, int to, const char *name, unsigned depth)
{
    int in = depth < DEPTH_MAX ? open_folder(from, name) : -1, out = -1;
    bool ok = false;

    if (in >= 0) {
        mkdirat(to, name, 0700);
        out = open_folder(to, name);
    }
    if (out >= 0) {
        ok = give_to_owner(c, out);
        copy_folder(c, in, out, depth + 1);
        close(out);
    }
    if (in >= 0)
        close(in);
    return ok;
}

/* Removes entries missing in `from`, then copies. */
static void copy_folder(struct copying *c, int from, int to, unsigned depth)
{
    DIR *d = entries_of(to);
    struct dirent *e;
    struct stat a, b;

    while ((e = next_entry(d))) {
        if (strcmp(e->d_name, PART) != 0 && !fstatat(from, e->d_name, &a, AT_SYMLINK_NOFOLLOW) &&
            !fstatat(to, e->d_name, &b, AT_SYMLINK_NOFOLLOW) && (a.st_mode & S_IFMT) == (b.st_mode & S_IFMT))
            continue;
        if (unlinkat(to, e->d_name, 0)) {
            int sub = open_folder(to, e->d_name);

            if (sub >= 0) {
                brk_tree_empty(sub, UINT_MAX);
                close(sub);
            }
            unlinkat(to, e->d_name, AT_REMOVEDIR);
        }
    }
    if (d)
        closedir(d);
    d = entries_of(from);
    while ((e = next_entry(d)) && ++c->entries <= c->limits->entries) {
        if (!strcmp(e->d_name, PART) || fstatat(from, e->d_name, &a, AT_SYMLINK_NOFOLLOW))
            continue;
        if (S_ISDIR(a.st_mode) ? !copy_subfolder(c, from, to, e->d_name, depth)
                               : !copy_file(c, from, to, e->d_name))
            unlinkat(to, e->d_name, 0);
    }
    if (d)
        closedir(d);
}

void brk_tree_copy(int from, int to, const struct brk_tree_limits *limits)
{
    struct copying c = {.limits = limits};

    copy_folder(&c, from, to, 0);
}
