/* SPDX-License-Identifier: MIT */
/*
 * Folder for code compiled by NVIDIA's library (CUDA_CACHE_PATH), shared by the workers of this
 * broker only. Code written by a worker is run by all others: in a VM, whose programs are to be
 * isolated from each other, the folder exists only if the administrator asks for it. It is a
 * bounded file system of its own, whatever a compromised worker does; workers reach it by
 * descriptor, so it is in no file tree. --jit-cache-dir: its content is copied in at the start and
 * back at exit. A lock on that folder marks its user; it ends with the broker.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "vgb_fd.h"

#define KEPT "vgpu-jit" /* subfolder of --jit-cache-dir; nothing else there is touched */
#define ENTRIES_MAX 16384u
#define FULL 16u /* full if less than 1/FULL is free */
#define FD_MIN 16

#define EMPTY_AT_ONCE 1024u /* entries removed per round of the loop */

static int kept_fd = -1; /* --jit-cache-dir, under brk_lock_take() */
static bool emptying;
static struct vgb_ratelimit limit;

/* The library itself roughly observes --jit-cache. */
static struct brk_tree_limits tree_limits(void)
{
    return (struct brk_tree_limits){
        .bytes = 2 * brk_opt.jit_cache, .entries = ENTRIES_MAX, .owner = geteuid()};
}

/* ---- whose it is ---- */

uid_t brk_give_to_workers(int fd)
{
    uid_t ids[] = {VGB_WORKER_UID(getpid()), VGB_WORKER_UID_LOW(getpid())};

    if (geteuid())
        return geteuid();
    if (strcmp(brk_opt.sandbox, "enforce"))
        ids[0] = 0; /* still root, but without its rights on other users' files */
    for (unsigned i = 0; i < 2; i++) {
        if (!fchown(fd, ids[i], (gid_t)ids[i]))
            return ids[i];
    }
    return geteuid();
}

/* Opens the administrator's folder. 0, or an exit code with the reason logged. */
static int open_kept(const char *dir)
{
    char folder[PATH_MAX + sizeof(KEPT)];
    int status = BRK_EXIT_USAGE, r;
    struct stat st;

    mkdir(dir, 0711);
    snprintf(folder, sizeof(folder), "%s/" KEPT, dir);
    mkdir(folder, 0700);
    kept_fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (kept_fd < 0 || fstat(kept_fd, &st)) {
        vgb_log(VGB_ERROR, "--jit-cache-dir %s: %s", dir, brk_unit_error(errno));
    } else if (st.st_uid != geteuid()) {
        vgb_log(VGB_ERROR, "--jit-cache-dir %s: %s is no folder of this user's", dir, folder);
    } else if ((r = brk_lock_take(kept_fd))) {
        vgb_log(VGB_ERROR, "--jit-cache-dir %s: %s", dir,
                r == -EWOULDBLOCK ? "another vgpu-backend uses it; VMs never share one" : strerror(-r));
        status = BRK_EXIT_ERROR; /* the other broker may be about to exit */
    } else {
        return 0;
    }
    vgb_close(&kept_fd);
    return status;
}

static void leave_kept(void)
{
    brk_lock_drop();
    vgb_close(&kept_fd);
}

/* An attacker who controls a worker chooses the code it leaves in a shared cache. Programs of this
 * host that use the same socket belong to a single user, as with ~/.nv; those of a VM do not. */
bool brk_cache_choose(struct brk_options *o)
{
    if (o->jit_cache != BRK_CACHE_DEFAULT)
        return true;
    o->jit_cache_vm = o->vhost_user || o->vhost_fd >= 0;
    o->jit_cache = o->jit_cache_vm ? 0 : UINT64_C(256) << 20;
    return !o->jit_cache_vm || !o->jit_cache_dir;
}

int brk_cache_start(void)
{
    const char *off = getenv("CUDA_CACHE_DISABLE");
    struct brk_tree_limits l = tree_limits();
    int r = 0, fd;

    brk_opt.cache_fd = -1;
    if (brk_opt.jit_cache_vm)
        vgb_log(VGB_INFO, "each program of the VM compiles its own code; --jit-cache lets them share it");
    if (!brk_opt.jit_cache || (off && !strcmp(off, "1")))
        return 0;
    if (brk_opt.jit_cache_dir)
        r = open_kept(brk_opt.jit_cache_dir);
    if (r)
        return r;
    fd = brk_bounded_folder(l.bytes, l.entries);
    if (fd < 0) {
        vgb_log(VGB_WARN, "no file system for compiled code can be made (%s): each worker compiles anew",
                strerror(errno));
        leave_kept();
        return 0;
    }
    l.owner = brk_give_to_workers(fd);
    if (kept_fd >= 0)
        brk_tree_copy(kept_fd, fd, &l);
    /* Above the descriptor numbers used in workers. */
    brk_opt.cache_fd = fcntl(fd, F_DUPFD_CLOEXEC, FD_MIN);
    close(fd);
    brk_cache_check();
    return 0;
}

void brk_cache_check(void)
{
    struct statvfs st;

    if (brk_opt.cache_fd < 0 || emptying || fstatvfs(brk_opt.cache_fd, &st) ||
        (st.f_bavail >= st.f_blocks / FULL && st.f_favail >= st.f_files / FULL))
        return;
    vgb_log_limited(&limit, VGB_WARN,
                    "compiled code takes twice what --jit-cache says (%llu bytes): all of it is removed",
                    (unsigned long long)brk_opt.jit_cache);
    emptying = true;
    brk_cache_tick();
}

bool brk_cache_tick(void)
{
    if (!emptying || brk_opt.cache_fd < 0)
        return false;
    emptying = !brk_tree_empty(brk_opt.cache_fd, EMPTY_AT_ONCE);
    if (!emptying)
        vgb_log_limited(&limit, VGB_WARN, "the folder for compiled code is emptied");
    return emptying;
}

void brk_cache_stop(void)
{
    const struct brk_tree_limits l = tree_limits();

    if (brk_opt.cache_fd >= 0 && kept_fd >= 0)
        brk_tree_copy(brk_opt.cache_fd, kept_fd, &l);
    vgb_close(&brk_opt.cache_fd);
    leave_kept();
}
