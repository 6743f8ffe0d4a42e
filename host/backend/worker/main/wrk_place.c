/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "place.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number of consecutive signs before a move, which costs as much as a few calls. */
#define SIGNS 8u
#define LONG_NS 700u        /* a yield without a switch is shorter */
#define SLICE_NS 500000u    /* longer yields: a thread ran that does not yield itself */
#define TRYING_NS 50000000u /* time after a move in which it may prove wrong */
#define REST_MIN_NS 100000000u
#define REST_MAX_NS UINT64_C(10000000000)
#define GROUPS_MAX 64u

static cpu_set_t groups[GROUPS_MAX];
static unsigned ngroups;
static int came_from = -1;

/* The move did not help: wait longer before the next. */
static void give_up(struct wrk_place *p, uint64_t now_ns)
{
    p->moved_ns = 0;
    p->signs = 0;
    p->rest_ns = !p->rest_ns ? REST_MIN_NS : p->rest_ns < REST_MAX_NS / 2 ? 2 * p->rest_ns : REST_MAX_NS;
    p->rests_until_ns = now_ns + p->rest_ns;
}

enum wrk_place_move wrk_place_judge(struct wrk_place *p, uint64_t now_ns, uint64_t took_ns, bool found)
{
    if (p->moved_ns && now_ns - p->moved_ns > TRYING_NS) {
        p->moved_ns = 0;
        p->rest_ns = 0;
    }
    if (p->moved_ns && took_ns > SLICE_NS) {
        give_up(p, now_ns);
        return WRK_PLACE_BACK;
    }
    if (!found)
        return WRK_PLACE_STAY;
    if (took_ns < LONG_NS) {
        p->signs = 0;
        p->helped = true;
        return WRK_PLACE_STAY;
    }
    if (++p->signs < SIGNS || now_ns < p->rests_until_ns)
        return WRK_PLACE_STAY;
    if (p->moved_ns && !p->helped) { /* other threads run there, too */
        give_up(p, now_ns);
        return WRK_PLACE_STAY;
    }
    p->signs = 0;
    p->helped = false;
    p->moved_ns = now_ns;
    return WRK_PLACE_AWAY;
}

/* Parses a list such as "0-3,8"; false: malformed. */
static bool parse_list(const char *text, cpu_set_t *set)
{
    CPU_ZERO(set);
    for (;;) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;

        if (end == text)
            return false;
        if (*end == '-') {
            text = end + 1;
            last = strtoul(text, &end, 10);
            if (end == text)
                return false;
        }
        for (; first <= last && first < CPU_SETSIZE; first++)
            CPU_SET(first, set);
        if (*end != ',')
            return *end == '\n' || *end == '\0';
        text = end + 1;
    }
}

void wrk_place_init(void)
{
    cpu_set_t all, seen;

    CPU_ZERO(&seen);
    if (sched_getaffinity(0, sizeof(all), &all))
        return;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE && ngroups < GROUPS_MAX; cpu++) {
        char path[80], text[1024];
        FILE *f;

        if (!CPU_ISSET(cpu, &all) || CPU_ISSET(cpu, &seen))
            continue;
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cache/index3/shared_cpu_list", cpu);
        f = fopen(path, "re");
        if (!f)
            return; /* not reported by this machine */
        if (fgets(text, sizeof(text), f) && parse_list(text, &groups[ngroups])) {
            CPU_OR(&seen, &seen, &groups[ngroups]);
            ngroups++;
        }
        fclose(f);
    }
}

/* Leaves this processor; the affinity mask is restored. */
static void place_leave(const cpu_set_t *all, const cpu_set_t *for_these)
{
    if (!sched_setaffinity(0, sizeof(*for_these), for_these))
        sched_setaffinity(0, sizeof(*all), all);
}

/* False: no other processor. */
static bool move_away(void)
{
    cpu_set_t all, others, near;
    int cpu = sched_getcpu();

    if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof(all), &all))
        return false;
    others = all;
    CPU_CLR((unsigned)cpu, &others);
    for (unsigned i = 0; i < ngroups; i++) {
        CPU_AND(&near, &others, &groups[i]);
        if (CPU_ISSET((unsigned)cpu, &groups[i]) && CPU_COUNT(&near))
            others = near;
    }
    if (!CPU_COUNT(&others))
        return false;
    came_from = cpu;
    place_leave(&all, &others);
    return true;
}

static void move_back(void)
{
    cpu_set_t all, there;

    if (came_from < 0 || sched_getaffinity(0, sizeof(all), &all) || !CPU_ISSET((unsigned)came_from, &all))
        return;
    CPU_ZERO(&there);
    CPU_SET((unsigned)came_from, &there);
    place_leave(&all, &there);
}

bool wrk_place_yielded(struct wrk_place *p, uint64_t now_ns, uint64_t took_ns, bool found)
{
    switch (wrk_place_judge(p, now_ns, took_ns, found)) {
    case WRK_PLACE_STAY:
        return false;
    case WRK_PLACE_AWAY:
        if (move_away())
            return true;
        p->moved_ns = 0;
        p->rests_until_ns = now_ns + REST_MIN_NS; /* more processors may be allowed later */
        return false;
    case WRK_PLACE_BACK:
        move_back();
        return false;
    }
    return false;
}
