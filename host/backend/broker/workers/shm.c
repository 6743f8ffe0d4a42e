/* SPDX-License-Identifier: MIT */
/*
 * The folder that the workers of this broker see as /dev/shm, where their host lets them have a view
 * of the files of their own. NVIDIA's library keeps there what the processes of one VM share of an
 * event; nobody else gets to see it.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACE "/dev/shm"
#define PREFIX "vgpu-backend."

static char folder[64];

/* The folder and all in it. Workers may have made folders. */
static void remove_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0) {
        brk_tree_empty(fd);
        close(fd);
    }
    rmdir(path);
}

/* Those of brokers that were killed. */
static void remove_stale(void)
{
    DIR *d = opendir(PLACE);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        char path[300];
        struct stat st;
        long pid;

        if (strncmp(e->d_name, PREFIX, sizeof(PREFIX) - 1))
            continue;
        pid = atol(e->d_name + sizeof(PREFIX) - 1);
        /* Its own user's: root's are the worker's user's, and gone with the machine. */
        if (pid <= 0 || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode) ||
            (geteuid() && st.st_uid != geteuid()) || !kill((pid_t)pid, 0) || errno != ESRCH)
            continue;
        snprintf(path, sizeof(path), PLACE "/%s", e->d_name);
        remove_folder(path);
    }
    if (d)
        closedir(d);
}

/* --jit-cache-path shm: the folder for compiled code. */
static void make_cache(int shm)
{
    int fd = -1;

    if (mkdirat(shm, BRK_SHM_CACHE, 0700) == 0)
        fd = openat(shm, BRK_SHM_CACHE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        vgb_log(VGB_WARN, "%s/" BRK_SHM_CACHE ": %s", folder, strerror(errno));
        return;
    }
    brk_give_to_workers(fd);
    close(fd);
}

const char *brk_shm_start(void)
{
    int fd;

    remove_stale();
    snprintf(folder, sizeof(folder), PLACE "/" PREFIX "%ld", (long)getpid());
    remove_folder(folder);
    if (mkdir(folder, 0700)) {
        vgb_log(VGB_DEBUG, "%s: %s", folder, strerror(errno));
        folder[0] = '\0';
        return NULL;
    }
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        brk_give_to_workers(fd);
        if (brk_opt.jit_cache_shm)
            make_cache(fd);
        close(fd);
    }
    return folder;
}

void brk_shm_stop(void)
{
    if (folder[0])
        remove_folder(folder);
    folder[0] = '\0';
}
