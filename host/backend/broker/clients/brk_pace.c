/* SPDX-License-Identifier: MIT */
/*
 * Shares of the software GPU; brk_turns.c handles other GPUs. The software GPU's time is the processor
 * time of its workers, so it is metered by the kernel. A worker ahead of its share runs at the
 * lowest priority, on time that other workers leave (a GPU's work has tails in which processors are
 * idle). A worker far ahead, or over its cap, is stopped (SIGSTOP), as is any worker that is ahead
 * where priorities cannot be raised again. Neither needs the worker's cooperation, so a compromised
 * worker gains nothing. base/brk_fair.c decides which clients are ahead within this VM and, through
 * base/brk_arbiter.c, among the VMs of the host.
 *
 * A stopped worker has demand; a running worker has demand if its threads run or wait for a
 * processor for most of a window. Processors that stay idle while a worker is stopped are given
 * away: the lead is forgiven, and may be larger next time.
 */
#define _GNU_SOURCE
#include "clients.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "vgb_fd.h"

#define TICK_NS 4000000u        /* while a client has demand */
#define TICK_REST_NS 50000000u  /* else */
#define TICK_IDLE_NS 250000000u /* after a while without any use */
#define IDLE_NS 2000000000u
#define WINDOW_NS 40000000u /* per eight clients */
#define SPARE_NS 100000000u /* /proc/stat counts in 10 ms */
#define SLACK_MAX_NS 400000000u
#define ANSWER_NS 250000000u
#define CAP_BURST_NS 200000000u /* burst at full rate that a cap allows after idle time */
#define BOOST_NS 200000000u     /* lead, in own time, up to which a priority is honoured */
#define NICE_LAST 19

static struct {
    struct brk_source timer;
    bool known, soft; /* the provider is known; it is the software GPU */
    bool warned;
    bool lowers; /* this process may lower a worker's priority and raise it again */
    int nice;    /* nice value of workers that are not braked */
    unsigned cpus;
    struct brk_fair vm;
    uint64_t floor; /* virtual time of the slowest client, monotonic */
    uint64_t slack_ns;
    uint64_t tick_ns;
    uint64_t at_ns, window_at_ns, spare_at_ns, used_at_ns;
    uint64_t idle_ticks; /* idle ticks of the usable processors, at spare_at_ns */
    bool held_in_spare;  /* a client was held in this stretch */
} pace = {.timer = {.fd = -1}, .slack_ns = BRK_FAIR_SLACK_NS};

static bool contends_for_device(const struct brk_fair *f)
{
    return f->wants && !f->over;
}

static bool client_runs(const struct brk_client *c)
{
    return c->proc && c->state == BRK_C_SERVING;
}

static void send_signal(struct brk_client *c, int sig)
{
    syscall(SYS_pidfd_send_signal, c->proc->pidfd.fd, sig, NULL, 0);
}

/* A worker that owes an answer, or has messages to read, gets a tick now and then whatever its
 * share, so that it does not count as unresponsive. */
static bool must_answer(const struct brk_client *c, uint64_t now)
{
    return (c->asked || (c->proc && brk_out_holds(c->proc))) && c->brake && now - c->braked_ns > ANSWER_NS;
}

/*
 * Sets the priority of all its threads through the process group that a worker leads
 * (setpriority(2), PRIO_PGRP). A process that left its group is out of reach, which does not affect
 * the rest. Restores the priority of the client demoted last in any case.
 */
static bool set_nice(struct brk_client *c, int nice)
{
    if (!setpriority(PRIO_PGRP, (id_t)c->proc->pid, nice))
        return true;
    if (errno != ESRCH && pace.lowers) {
        vgb_log(VGB_WARN,
                "the priority of workers cannot be changed (%s): those ahead of their share are stopped",
                strerror(errno));
        pace.lowers = false;
    }
    return false;
}

static void set_brake(struct brk_client *c, enum brk_brake brake, uint64_t now)
{
    enum brk_brake was = c->brake;

    if (brake == BRK_LAST && !pace.lowers)
        brake = BRK_STOPPED;
    if (brake == was)
        return;
    if (was)
        c->throttled_ns += now - c->braked_ns;
    c->brake = brake;
    c->braked_ns = now;
    if (brake == BRK_LAST && !set_nice(c, NICE_LAST))
        c->brake = brake = BRK_STOPPED;
    c->lowered |= brake == BRK_LAST;
    if (brake == BRK_FREE && c->lowered)
        set_nice(c, pace.nice);
    if ((brake == BRK_STOPPED) != (was == BRK_STOPPED))
        send_signal(c, brake == BRK_STOPPED ? SIGSTOP : SIGCONT);
}

/* Tries it on a separate thread: priorities are per thread, and several mechanisms can permit
 * raising them. */
static void *try_nice(void *may)
{
    *(bool *)may = !setpriority(PRIO_PROCESS, 0, NICE_LAST) && !setpriority(PRIO_PROCESS, 0, pace.nice);
    return NULL;
}

static bool may_lower(void)
{
    pthread_t thread;
    bool may = false;

    if (pace.nice >= NICE_LAST || pthread_create(&thread, NULL, try_nice, &may))
        return false;
    pthread_join(thread, NULL);
    return may;
}

/* ---- what the kernel says ---- */

/* Idle time of the processors that this process may use, in ticks of /proc/stat. */
static uint64_t idle_ticks(void)
{
    uint64_t sum = 0;
    char line[400];
    cpu_set_t may;
    FILE *f = fopen("/proc/stat", "re");

    if (f && !sched_getaffinity(0, sizeof(may), &may)) {
        pace.cpus = (unsigned)CPU_COUNT(&may);
        while (fgets(line, sizeof(line), f)) {
            unsigned long long idle, io;
            unsigned cpu;

            if (sscanf(line, "cpu%u %*u %*u %*u %llu %llu", &cpu, &idle, &io) == 3 && cpu < CPU_SETSIZE &&
                CPU_ISSET(cpu, &may))
                sum += idle + io;
        }
    }
    if (f)
        fclose(f);
    return sum;
}

/* ---- the parts of a tick ---- */

/* A client for which others are stopped is charged for all processors, used or not. */
static uint64_t charged_time(struct brk_client *c, uint64_t dt)
{
    uint64_t cpu = brk_usage_cpu(c->proc), all = c->fair.used_ns + dt * pace.cpus;

    if (c->turn.open && cpu + c->turn.used_ns < all)
        c->turn.used_ns = all - cpu;
    return cpu + c->turn.used_ns;
}

/* Reads all meters; returns the total use of all clients. */
static uint64_t charge_all(uint64_t dt)
{
    uint64_t sum = 0, cap;

    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (!client_runs(c))
            continue;
        sum += brk_fair_charge(&c->fair, charged_time(c, dt));
        c->behind_ns += c->behind ? dt : 0;
        cap = c->fair.cap * pace.cpus;
        brk_fair_cap(&c->fair, dt * cap / 100, CAP_BURST_NS * cap / 100);
    }
    brk_fair_charge(&pace.vm, pace.vm.used_ns + sum);
    cap = pace.vm.cap * pace.cpus;
    brk_fair_cap(&pace.vm, dt * cap / 100, CAP_BURST_NS * cap / 100);
    return sum;
}

/* Determines the clients with demand at the end of a window. */
static void end_window(uint64_t window, uint64_t others)
{
    bool any = false;

    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        uint64_t wait = 0;

        if (!client_runs(c))
            continue;
        /* A client with little use may have waited all the time; a client that used most of the
         * window wants more. */
        if (!c->fair.was_held && c->fair.window_ns < window / 4 * 3) {
            unsigned most = brk_waited_most(brk_client_count());
            uint64_t now = brk_waited(c->proc->pid, &most);

            wait = now > c->waited_ns ? now - c->waited_ns : 0;
            c->fair.was_held |= !c->waited_known; /* unknown: as before */
            c->waited_ns = now;
            c->waited_known = true;
        } else {
            c->waited_known = false;
        }
        c->fair.was_held |= pace.vm.was_held;
        /* A client stopped in favour of another is judged by the rest of the window if that is long
         * enough, so that a priority cannot last by keeping other clients from showing demand. */
        c->fair.was_held |= c->behind_ns > window / 2;
        brk_fair_window(&c->fair, wait, window - (c->behind_ns < window ? c->behind_ns : window), pace.floor);
        c->behind_ns = 0;
        any |= c->fair.wants;
        /* A thread created while priorities were raised may have kept the low priority. */
        if (c->lowered && c->brake == BRK_FREE)
            set_nice(c, pace.nice);
    }
    pace.vm.wants = any;
    pace.vm.window_ns = 0;
    pace.vm.was_held = pace.vm.held;
    brk_fair_join(&pace.vm, others == BRK_FAIR_NONE ? 0 : others);
}

/* Time idle while a client was stopped helped no other client. */
static bool idle_time_spare(uint64_t now)
{
    uint64_t passed = now - pace.spare_at_ns, idle;
    bool held = pace.held_in_spare;

    if (passed < SPARE_NS)
        return false;
    pace.spare_at_ns = now;
    pace.held_in_spare = false;
    if (!held)
        return false;
    idle = idle_ticks();
    uint64_t was = pace.idle_ticks;

    pace.idle_ticks = idle;
    /* A quarter of the processors on average. */
    if (was && idle > was &&
        (idle - was) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK)) > passed * pace.cpus / 4) {
        pace.slack_ns = pace.slack_ns * 2 < SLACK_MAX_NS ? pace.slack_ns * 2 : SLACK_MAX_NS;
        return true;
    }
    pace.slack_ns = BRK_FAIR_SLACK_NS;
    return false;
}

static uint64_t slowest_client(void)
{
    uint64_t slowest = BRK_FAIR_NONE;

    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (client_runs(c) && contends_for_device(&c->fair) && c->fair.vtime < slowest)
            slowest = c->fair.vtime;
    }
    if (slowest != BRK_FAIR_NONE && slowest > pace.floor)
        pace.floor = slowest;
    return slowest;
}

/* Effective priority of a client with work that is not too far ahead; 0: none. */
static uint32_t goes_first(const struct brk_client *c)
{
    uint64_t lead = c->fair.vtime > pace.floor ? c->fair.vtime - pace.floor : 0;

    return c->priority && c->turn.work == VGB_WORK_BUSY && !c->fair.over && !pace.vm.held &&
                   lead < (uint64_t)BOOST_NS * BRK_WEIGHT_DEFAULT / c->fair.weight
               ? c->priority
               : 0;
}

/* `prior`: it has a priority and no client has a higher one. */
static enum brk_brake brake_for(const struct brk_client *c, bool prior, uint64_t now)
{
    bool held = c->fair.held && !prior;

    if ((!held && !pace.vm.held && !c->behind) || must_answer(c, now))
        return BRK_FREE;
    if (c->behind || c->fair.over || pace.vm.over || (held && c->fair.far) || pace.vm.far)
        return BRK_STOPPED;
    return BRK_LAST;
}

static void decide_brakes(uint64_t now, uint64_t others, bool forgive)
{
    uint64_t slowest = slowest_client();
    uint32_t first = 0;

    if (forgive)
        brk_fair_forgive(&pace.vm, others);
    brk_fair_hold(&pace.vm, others, pace.slack_ns);
    if (pace.vm.over)
        brk_fair_join(&pace.vm, others == BRK_FAIR_NONE ? 0 : others);
    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (!client_runs(c))
            continue;
        if (forgive)
            brk_fair_forgive(&c->fair, slowest);
        if (c->fair.over && c->fair.vtime < pace.floor)
            c->fair.vtime = pace.floor; /* held by its cap, not by other clients */
        brk_fair_hold(&c->fair, slowest, pace.slack_ns);
        first = goes_first(c) > first ? goes_first(c) : first;
    }
    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (!client_runs(c))
            continue;
        bool prior = first && goes_first(c) == first;

        /* `open`: other clients with demand are stopped for it. */
        c->turn.open = prior;
        c->behind = c->fair.wants && goes_first(c) < first;
        set_brake(c, brake_for(c, prior, now), now);
        pace.held_in_spare |= c->brake == BRK_STOPPED && !c->fair.over && !pace.vm.over;
    }
}

static void arm_pace_timer(uint64_t ns)
{
    struct itimerspec t = {.it_interval.tv_nsec = (long)ns, .it_value.tv_nsec = (long)ns};

    if (ns == pace.tick_ns)
        return;
    pace.tick_ns = ns;
    timerfd_settime(pace.timer.fd, 0, &t, NULL);
}

static void on_tick(struct brk_source *s, uint32_t events)
{
    uint64_t expired, now = vgb_now_ns(), others, window;
    bool busy = pace.vm.wants || pace.vm.cap || brk_opt.client_cap;
    unsigned n = brk_client_count();

    (void)events;
    if (read(s->fd, &expired, sizeof(expired)) != sizeof(expired))
        return;
    if (charge_all(now - pace.at_ns) > (now - pace.at_ns) / 100)
        pace.used_at_ns = now;
    pace.at_ns = now;
    others = brk_arbiter_slowest(now);
    window = WINDOW_NS * (uint64_t)(1 + n / 8);
    if (now - pace.window_at_ns >= window) {
        end_window(now - pace.window_at_ns, others);
        pace.window_at_ns = now;
    }
    decide_brakes(now, others, idle_time_spare(now));
    brk_arbiter_publish(&pace.vm, now);
    for (struct brk_client *c = brk_client_first(); c; c = c->next)
        busy |= client_runs(c) && (c->fair.cap || c->brake);
    arm_pace_timer(busy                              ? TICK_NS * (uint64_t)(1 + n / 16)
                   : now - pace.used_at_ns < IDLE_NS ? TICK_REST_NS
                                                     : TICK_IDLE_NS);
}

/* ---- for others ---- */

void brk_pace_provider(bool soft)
{
    pace.known = true;
    pace.soft = soft;
    brk_pace_changed();
}

static bool works_by_time(void)
{
    return pace.timer.fd >= 0;
}

bool brk_pace_by_turns(void)
{
    return brk_turns_work();
}

/* The worker of a client with a priority reports when it has work; all its turns are open. */
static void ask_for_work(struct brk_client *c)
{
    struct vgb_msg m = {.type = VGB_M_TURN, .status = 1};

    if (!c->priority || c->turn.number)
        return;
    m.flags = c->turn.number = 1;
    brk_proc_send(c->proc, &m, NULL, 0);
}

void brk_pace_client(struct brk_client *c)
{
    if (brk_turns_work()) {
        brk_turns_client(c);
        return;
    }
    /* Not for its start. */
    c->fair = (struct brk_fair){.weight = brk_opt.client_weight,
                                .cap = brk_opt.client_cap,
                                .used_ns = brk_usage_cpu(c->proc),
                                .vtime = pace.floor};
    c->waited_known = false;
    c->brake = BRK_FREE;
    c->behind = c->lowered = false;
    c->behind_ns = 0;
    c->turn = (struct brk_turn){0};
    if (works_by_time())
        ask_for_work(c);
}

static void pace_start(void)
{
    cpu_set_t may;

    if (pace.timer.fd >= 0)
        return;
    pace.cpus = sched_getaffinity(0, sizeof(may), &may) ? 1 : (unsigned)CPU_COUNT(&may);
    pace.vm.weight = brk_opt.weight;
    if (!brk_share_timer(&pace.timer, on_tick))
        return;
    pace.nice = getpriority(PRIO_PROCESS, 0);
    pace.lowers = may_lower();
    pace.at_ns = pace.window_at_ns = pace.spare_at_ns = vgb_now_ns();
    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (client_runs(c))
            brk_pace_client(c); /* earlier use is not charged */
    }
    arm_pace_timer(TICK_REST_NS);
    vgb_log(
        VGB_INFO,
        "shares of the software GPU are enforced: weight %u, cap %u %%, clients' weight %u, cap %u %%; who is ahead %s",
        brk_opt.weight, brk_opt.cap, brk_opt.client_weight, brk_opt.client_cap,
        pace.lowers ? "runs last" : "is stopped");
}

void brk_pace_changed(void)
{
    if (!brk_opt.pace)
        return;
    if (!pace.known)
        return;
    if (brk_opt.pacing == BRK_PACING_RING || (brk_opt.pacing == BRK_PACING_AUTO && !pace.soft)) {
        brk_turns_changed();
        return;
    }
    if (!pace.soft) {
        if (!pace.warned)
            vgb_log(VGB_WARN, "shares are not enforced: --pacing stop is for the software GPU's time only");
        pace.warned = true;
        return;
    }
    pace_start();
    uint64_t others = brk_arbiter_slowest(vgb_now_ns());

    brk_fair_weight(&pace.vm, brk_opt.weight, others == BRK_FAIR_NONE ? pace.vm.vtime : others);
    pace.vm.cap = brk_opt.cap;
}

bool brk_pace_works(void)
{
    return pace.timer.fd >= 0 || brk_turns_work();
}

void brk_pace_client_set(struct brk_client *c, uint32_t weight, uint32_t cap)
{
    if (brk_turns_work()) {
        brk_turns_client_set(c, weight, cap);
        return;
    }
    /* charged at the old weight up to now */
    brk_fair_charge(&c->fair, brk_usage_cpu(c->proc) + c->turn.used_ns);
    brk_fair_weight(&c->fair, weight, pace.floor);
    c->fair.cap = cap;
}

void brk_pace_priority(struct brk_client *c, uint32_t priority)
{
    c->priority = priority;
    if (works_by_time() && client_runs(c))
        ask_for_work(c);
    else if (brk_turns_work() && client_runs(c))
        brk_turns_client_set(c, c->fair.weight, c->fair.cap);
}

bool brk_pace_message(struct brk_client *c, const struct vgb_msg *m)
{
    uint64_t now = vgb_now_ns();

    if (brk_turns_work())
        return brk_turns_message(c, m);
    if (!works_by_time() || !c->turn.number || m->status > VGB_WORK_WAITS)
        return false;
    c->turn.work = m->status;
    charge_all(now - pace.at_ns);
    pace.at_ns = pace.used_at_ns = now;
    decide_brakes(now, brk_arbiter_slowest(now), false);
    if (c->turn.open)
        arm_pace_timer(TICK_NS);
    return true;
}

void brk_pace_gone(struct brk_client *c)
{
    c->turn.work = VGB_WORK_NONE;
    c->turn.open = false;
    brk_turns_gone(c);
}

void brk_pace_stop(void)
{
    brk_turns_stop();
    if (pace.timer.fd < 0)
        return;
    brk_loop_del(&pace.timer);
    vgb_close(&pace.timer.fd);
}
