/* SPDX-License-Identifier: MIT */
/*
 * Time that a worker's threads have waited for a processor, for brk_pace.c. A compromised worker may
 * have as many threads as the kernel allows, and so may all workers of a VM at once: the cost of a
 * round over all workers is bounded.
 */
#include "clients.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "vgb_fd.h"

#define THREADS_ROUND 512u /* threads of all workers per round */
/* minimum per worker, however many there are: rounds are then further apart */
#define THREADS_LEAST 32u

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
