/* SPDX-License-Identifier: MIT */
/*
 * How long a worker's threads have waited for a processor, for pace.c. A worker that was taken over has as many threads
 * as the kernel lets it have, and so may all workers of a VM at once: what one round of looks costs is bounded for all of
 * them together.
 */
#include "clients.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "vgb_fd.h"

#define THREADS_ROUND 512u /* of all workers, in one round */
#define THREADS_LEAST 32u  /* of one, however many there are: rounds are further apart then */

unsigned brk_waited_most(unsigned workers)
{
    unsigned most = THREADS_ROUND / (workers ? workers : 1);

    return most > THREADS_LEAST ? most : THREADS_LEAST;
}

/* False: the thread has ended. */
static bool waited_thread(pid_t pid, const char *thread, uint64_t *wait_ns)
{
    unsigned long long ran, wait;
    char text[300];

    snprintf(text, sizeof(text), "/proc/%ld/task/%.20s/schedstat", (long)pid, thread);
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

    vgb_close(&fd);
    text[n > 0 ? n : 0] = '\0';
    if (sscanf(text, "%llu %llu", &ran, &wait) != 2)
        return false;
    *wait_ns = wait;
    return true;
}

uint64_t brk_waited(pid_t pid, unsigned *most)
{
    unsigned left = *most;
    uint64_t sum = 0, wait;
    struct dirent *e;
    char path[60];
    DIR *d;

    snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
    d = opendir(path);
    while (d && left && (e = readdir(d))) {
        if (*e->d_name == '.')
            continue;
        left--;
        if (waited_thread(pid, e->d_name, &wait))
            sum += wait;
    }
    if (d)
        closedir(d);
    *most -= left;
    return sum;
}
