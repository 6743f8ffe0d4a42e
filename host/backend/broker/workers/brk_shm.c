/* SPDX-License-Identifier: MIT */
/*
 * Folder mounted as /dev/shm in the workers of this broker, on hosts where they have their own view
 * of the file system. NVIDIA's library keeps there the data of events shared by processes of a VM;
 * it is visible to no other process. The kernel bounds its size, as a compromised worker may write
 * anything. It vanishes with its last descriptor, however the broker ends.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgb_fd.h"

#define BYTES (64u << 20) /* a page per event */
#define ENTRIES 4096u
#define FD_MIN 16 /* above the descriptor numbers used in workers */

/* --jit-cache-path shm: the folder for compiled code. */
static void make_cache(int shm)
{
    int fd = -1;

    if (mkdirat(shm, BRK_SHM_CACHE, 0700) == 0)
        fd = openat(shm, BRK_SHM_CACHE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        vgb_log(VGB_WARN, "/dev/shm/" BRK_SHM_CACHE " of workers: %s", strerror(errno));
        return;
    }
    brk_give_to_workers(fd);
    close(fd);
}

void brk_shm_start(void)
{
    bool cache = brk_opt.jit_cache_shm && brk_opt.jit_cache;
    int fd = brk_bounded_folder(BYTES + (cache ? 2 * brk_opt.jit_cache : 0), ENTRIES);

    brk_opt.shm_fd = -1;
    if (fd < 0) {
        vgb_log(VGB_DEBUG, "no /dev/shm for workers: %s", strerror(errno));
        return;
    }
    brk_give_to_workers(fd);
    if (cache)
        make_cache(fd);
    brk_opt.shm_fd = fcntl(fd, F_DUPFD_CLOEXEC, FD_MIN);
    close(fd);
}

void brk_shm_stop(void)
{
    vgb_close(&brk_opt.shm_fd);
}
