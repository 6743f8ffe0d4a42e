/* SPDX-License-Identifier: MIT */
/*
 * Processes that a worker leaves behind. Its mapper is a child of the broker (CLONE_PARENT), of which the broker hears by
 * a message: a mapper whose worker ends before that, whose message is refused, or that a debugger held when it ended,
 * has no other owner. All of them are in their worker's process group, whose number no other process or group gets as
 * long as one of them has not been reaped.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Groups of which a child of the broker is left. */
struct group {
    struct group *next;
    pid_t id;
};
static struct group *groups;
static struct vgb_ratelimit limit;

/* True: no child of the broker is left in it. */
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
