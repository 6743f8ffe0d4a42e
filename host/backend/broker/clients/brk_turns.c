/* SPDX-License-Identifier: MIT */
/*
 * Shares by turns, for a GPU whose time is not processor time (--pacing ring). A single client at a
 * time puts work into the GPU: during its turn the worker takes work off the ring, a bounded amount
 * at a time, and reports when none is left. The client is charged for the time in which its work
 * was in flight, so work that takes longer than estimated costs its client later turns. base/brk_fair.c
 * decides which client is ahead, as for the software GPU.
 *
 * Running work is not interrupted: a kernel keeps the GPU, or its part of the driver's time slices,
 * until it ends. After OVERRUN_NS the next turn begins nevertheless. A worker decides itself what
 * it submits, so a compromised worker can ignore turns; a client cannot.
 */
#define _GNU_SOURCE
#include "clients.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "vgb_fd.h"

#define TICK_NS 1000000u       /* while a client waits for a turn */
#define TICK_REST_NS 50000000u /* while a client has work */
#define SLACK_NS 6000000u      /* time a client keeps the turn while others wait */
#define GRACE_NS 600000u       /* time an idle client that is not ahead keeps the turn */
#define OVERRUN_NS 50000000u
#define CALM_NS 30000000u /* idle time after which unused share is lost */
#define LAG_NS UINT64_C(50000000)
#define BOUND_NS 4000000u
#define BOUND_ALONE_NS 20000000u /* maximum wait of a newly arriving client */
#define BOUND_LOW_NS 500000u     /* the same with a client of higher priority */
#define BOOST_NS 200000000u      /* lead, in own time, up to which a priority is honoured */
#define CAP_BURST_NS 200000000u

static struct {
    struct brk_source timer;
    struct brk_fair vm;
    uint64_t floor, at_ns, tick_ns;
    bool contended;   /* another VM of the host has work */
    unsigned sharers; /* other VMs with work in flight */
} turns = {.timer = {.fd = -1}};

static bool client_serves(const struct brk_client *c)
{
    return c->proc && c->state == BRK_C_SERVING;
}

/* True if it had work recently. */
static bool client_wants_turn(const struct brk_client *c, uint64_t now, uint64_t lately_ns)
{
    return c->turn.work != VGB_WORK_NONE || now - c->turn.since_ns < lately_ns;
}

/* Its lead over the slowest, in its own time. */
static uint64_t lead_of(const struct brk_client *c)
{
    uint64_t l = c->fair.vtime > turns.floor ? c->fair.vtime - turns.floor : 0;

    return l > UINT64_MAX / BRK_WEIGHT_MAX ? l : l * c->fair.weight / BRK_WEIGHT_DEFAULT;
}

static uint32_t priority_of(const struct brk_client *c)
{
    return lead_of(c) < BOOST_NS ? c->priority : 0;
}

static bool eligible_for_turn(const struct brk_client *c)
{
    return !c->fair.over && !turns.vm.held && (priority_of(c) || !c->fair.ahead);
}

static uint64_t lead_bound(const struct brk_client *c)
{
    unsigned others = 0;
    bool higher = false;

    for (struct brk_client *o = brk_client_first(); o; o = o->next) {
        others += o != c && client_serves(o);
        higher |= client_serves(o) && o->priority > c->priority;
    }
    return higher ? BOUND_LOW_NS : others || turns.contended ? BOUND_NS : BOUND_ALONE_NS;
}

static void turns_tell(struct brk_client *c, bool open, uint64_t now)
{
    struct vgb_msg m = {
        .type = VGB_M_TURN, .status = open, .value = lead_bound(c), .flags = ++c->turn.number};

    c->turn.open = open;
    c->turn.closing = !open;
    c->turn.bound_ns = m.value;
    c->turn.told_ns = now;
    brk_proc_send(c->proc, &m, NULL, 0);
}

/* ---- the parts of a decision ---- */

static void charge_turn(uint64_t now)
{
    uint64_t passed = now - turns.at_ns, dt = passed, sum = 0;

    turns.at_ns = now;
    /* Work in flight beside other VMs' work takes proportionally longer. */
    dt /= 1 + turns.sharers;
    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (!client_serves(c))
            continue;
        c->turn.used_ns += c->turn.work == VGB_WORK_BUSY ? dt : 0;
        sum += brk_fair_charge(&c->fair, c->turn.used_ns);
        brk_fair_cap(&c->fair, passed * c->fair.cap / 100, CAP_BURST_NS * (uint64_t)c->fair.cap / 100);
    }
    brk_fair_charge(&turns.vm, turns.vm.used_ns + sum);
    brk_fair_cap(&turns.vm, passed * turns.vm.cap / 100, CAP_BURST_NS * (uint64_t)turns.vm.cap / 100);
}

static void measure_clients(uint64_t now)
{
    uint64_t slowest = BRK_FAIR_NONE, others = brk_arbiter_slowest(now);

    turns.contended = others != BRK_FAIR_NONE;
    turns.vm.wants = false;
    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (!client_serves(c))
            continue;
        uint64_t behind = LAG_NS * BRK_WEIGHT_DEFAULT / c->fair.weight;

        c->fair.wants = client_wants_turn(c, now, CALM_NS);
        turns.vm.wants |= c->fair.wants;
        brk_fair_join(&c->fair, turns.floor);
        if (c->fair.over && c->fair.vtime < turns.floor)
            c->fair.vtime = turns.floor;
        /* Bounds the share that an occasionally active client saves up. */
        if (turns.floor > behind && c->fair.vtime < turns.floor - behind)
            c->fair.vtime = turns.floor - behind;
        if (client_wants_turn(c, now, GRACE_NS) && !c->fair.over && c->fair.vtime < slowest)
            slowest = c->fair.vtime;
    }
    if (slowest != BRK_FAIR_NONE && slowest > turns.floor)
        turns.floor = slowest;
    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (client_serves(c))
            brk_fair_hold(&c->fair, slowest, SLACK_NS);
    }
    brk_fair_join(&turns.vm, others == BRK_FAIR_NONE ? 0 : others);
    brk_fair_hold(&turns.vm, others, SLACK_NS);
}

/* Waiting client that gets the next turn. */
static struct brk_client *next_one(void)
{
    struct brk_client *best = NULL;

    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (!client_serves(c) || c->turn.open || c->turn.work != VGB_WORK_WAITS || !eligible_for_turn(c))
            continue;
        if (!best || priority_of(c) > priority_of(best) ||
            (priority_of(c) == priority_of(best) && c->fair.vtime < best->fair.vtime))
            best = c;
    }
    return best;
}

static bool must_leave(const struct brk_client *c, const struct brk_client *next, uint64_t now)
{
    if (c->fair.over || turns.vm.held)
        return true;
    if (!next)
        return false;
    if (priority_of(next) > priority_of(c) || !eligible_for_turn(c))
        return true;
    return c->turn.work == VGB_WORK_NONE && now - c->turn.since_ns > GRACE_NS;
}

static void decide_turn(uint64_t now)
{
    struct brk_client *next;
    bool taken = false, busy = false;

    measure_clients(now);
    next = next_one();
    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (!client_serves(c))
            continue;
        busy |= c->turn.work == VGB_WORK_BUSY;
        if (c->turn.open && must_leave(c, next, now))
            turns_tell(c, false, now);
        else if (c->turn.open && c->turn.bound_ns != lead_bound(c))
            turns_tell(c, true, now);
        /* A client of higher priority does not wait for work in flight; no client waits
         * indefinitely. */
        taken |= c->turn.open || (c->turn.closing && now - c->turn.told_ns < OVERRUN_NS &&
                                  !(next && priority_of(next) > priority_of(c)));
    }
    if (next && !taken)
        turns_tell(next, true, now);
    brk_arbiter_busy(busy);
    turns.sharers = brk_arbiter_others_busy(now);
}

static void arm_turn_timer(void)
{
    uint64_t ns = TICK_REST_NS * UINT64_C(5);
    struct itimerspec t = {0};

    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (!client_serves(c))
            continue;
        if (c->turn.work == VGB_WORK_WAITS || (c->fair.cap && c->turn.work) || (turns.vm.cap && c->turn.work))
            ns = TICK_NS;
        else if (c->turn.work == VGB_WORK_BUSY && ns > TICK_REST_NS)
            ns = TICK_REST_NS;
    }
    if (ns > TICK_NS && brk_opt.arbiter && turns.vm.wants)
        ns = 4 * TICK_NS;
    if (ns == turns.tick_ns)
        return;
    turns.tick_ns = ns;
    t.it_interval.tv_nsec = t.it_value.tv_nsec = (long)ns;
    timerfd_settime(turns.timer.fd, 0, &t, NULL);
}

static void turns_look(void)
{
    uint64_t now = vgb_now_ns();

    charge_turn(now);
    decide_turn(now);
    brk_arbiter_publish(&turns.vm, now);
    arm_turn_timer();
}

static void on_tick(struct brk_source *s, uint32_t events)
{
    uint64_t expired;

    (void)events;
    if (read(s->fd, &expired, sizeof(expired)) == sizeof(expired))
        turns_look();
}

/* ---- for others ---- */

bool brk_share_timer(struct brk_source *timer, void (*tick)(struct brk_source *timer, uint32_t events))
{
    timer->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    timer->ready = tick;
    if (timer->fd >= 0 && brk_loop_add(timer, EPOLLIN) == 0)
        return true;
    vgb_log(VGB_ERROR, "shares are not enforced: no timer: %s", strerror(errno));
    vgb_close(&timer->fd);
    return false;
}

bool brk_turns_work(void)
{
    return turns.timer.fd >= 0;
}

void brk_turns_client(struct brk_client *c)
{
    uint64_t now = vgb_now_ns();

    c->fair =
        (struct brk_fair){.weight = brk_opt.client_weight, .cap = brk_opt.client_cap, .vtime = turns.floor};
    c->turn = (struct brk_turn){.since_ns = now};
    turns_tell(c, false, now);
}

bool brk_turns_message(struct brk_client *c, const struct vgb_msg *m)
{
    uint64_t now = vgb_now_ns();

    if (!brk_turns_work() || m->status > VGB_WORK_WAITS)
        return false;
    charge_turn(now);
    if (m->flags == c->turn.number && m->status != VGB_WORK_BUSY)
        c->turn.closing = false;
    if (c->turn.work != m->status)
        c->turn.since_ns = now;
    c->turn.work = m->status;
    decide_turn(now);
    arm_turn_timer();
    return true;
}

void brk_turns_changed(void)
{
    turns.vm.weight = turns.vm.weight ? turns.vm.weight : brk_opt.weight;
    if (turns.timer.fd < 0) {
        if (!brk_share_timer(&turns.timer, on_tick))
            return;
        turns.at_ns = vgb_now_ns();
        for (struct brk_client *c = brk_client_first(); c; c = c->next) {
            if (client_serves(c))
                brk_turns_client(c);
        }
        vgb_log(
            VGB_INFO,
            "shares of the GPU are enforced by turns: weight %u, cap %u %%, clients' weight %u, cap %u %%",
            brk_opt.weight, brk_opt.cap, brk_opt.client_weight, brk_opt.client_cap);
    }
    uint64_t others = brk_arbiter_slowest(vgb_now_ns());

    brk_fair_weight(&turns.vm, brk_opt.weight, others == BRK_FAIR_NONE ? turns.vm.vtime : others);
    turns.vm.cap = brk_opt.cap;
    turns_look();
}

void brk_turns_client_set(struct brk_client *c, uint32_t weight, uint32_t cap)
{
    charge_turn(vgb_now_ns());
    brk_fair_weight(&c->fair, weight, turns.floor);
    c->fair.cap = cap;
    turns_look();
}

void brk_turns_gone(struct brk_client *c)
{
    if (!brk_turns_work())
        return;
    c->turn.work = VGB_WORK_NONE;
    c->turn.open = c->turn.closing = false;
    turns_look();
}

void brk_turns_stop(void)
{
    if (turns.timer.fd < 0)
        return;
    brk_loop_del(&turns.timer);
    vgb_close(&turns.timer.fd);
}
