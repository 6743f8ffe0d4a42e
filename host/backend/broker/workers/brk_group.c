/* SPDX-License-Identifier: MIT */
/*
 * Processes left behind by a worker. Its mapper is a child of the broker (CLONE_PARENT), announced
 * to the broker by a message. A mapper whose worker ends before that, whose message is refused, or
 * that a debugger holds at its exit, has no other owner. All of them are in their worker's process
 * group, whose number is not reused before all its processes are reaped.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Groups with children of the broker left. */
struct group {
    struct group *next;
    pid_t id;
};
static struct group *groups;
static struct vgb_ratelimit limit;

/* True if no child of the broker is left in it. */
static bool group_reap(pid_t id)
{
    siginfo_t si;

    do {
        memset(&si, 0, sizeof(si));
        if (waitid(P_PGID, (id_t)id, &si, WEXITED | WNOHANG))
            return true;
    } while (si.si_pid);
    return false;
}

void brk_group_kill(pid_t worker)
{
    if (worker > 1)
        kill(-worker, SIGKILL);
}

void brk_group_leave(pid_t worker)
{
    struct group *g;

    if (group_reap(worker))
        return;
    g = calloc(1, sizeof(*g));
    if (!g) {
        vgb_log_limited(&limit, VGB_WARN, "worker %d: no memory to wait for its mapper", (int)worker);
        return;
    }
    g->id = worker;
    g->next = groups;
    groups = g;
}

bool brk_groups_left(void)
{
    struct group **at = &groups;

    while (*at) {
        struct group *g = *at;

        if (!group_reap(g->id)) {
            at = &g->next;
            continue;
        }
        *at = g->next;
        free(g);
    }
    return groups != NULL;
}
