/* SPDX-License-Identifier: MIT */
/*
 * Worker processes. A few are started ahead, because loading a CUDA driver takes long. Each is
 * exec'd (the broker never forks into a worker), holds one socket to the broker, and dies with it.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "demand.h"
#include "vgb_deadline.h"
#include "vgb_fd.h"

#define RETRY_NS 1000000000u /* after a worker that did not become ready */
#define DRAIN_MAX 32u        /* messages of a worker per round */
#define LAST_WORDS_MAX 1024u /* messages read from an ended worker: more than a socket holds */

static const struct brk_pool_users *users; /* NULL until brk_pool_init() */
static struct brk_proc *procs;
static struct brk_lines lines; /* of each client */
#define LIMIT(p) brk_lines_of(&lines, brk_proc_lines(p))
static bool worked, broken;
static uint64_t retry_at; /* earliest time of the next start */
static unsigned failures;
static char sandbox[VGB_MSG_TEXT];
static struct brk_bucket starts; /* rate of worker starts */
static struct brk_demand demand;
static uint64_t worker_bytes; /* memory of an idle worker; 0: none was ready yet */
static uint64_t misses;       /* clients for which no worker was ready */

const char *brk_pool_sandbox(void)
{
    return sandbox;
}

bool brk_pool_works(void)
{
    return worked;
}

bool brk_pool_broken(void)
{
    return broken;
}

/* ---- starting ---- */

struct pool_counts {
    unsigned of[BRK_PROC_KILLED + 1];
};

static struct pool_counts pool_count(void)
{
    struct pool_counts n = {0};

    for (struct brk_proc *p = procs; p; p = p->next)
        n.of[p->state]++;
    return n;
}

static struct brk_demand_bounds pool_bounds(const struct pool_counts *n, uint64_t now_ns)
{
    const unsigned served = n->of[BRK_PROC_ASSIGNED];

    return (struct brk_demand_bounds){
        .low = brk_opt.pool,
        .high = brk_opt.pool_max,
        .free = served < brk_opt.max_clients ? brk_opt.max_clients - served : 0,
        .worker = worker_bytes,
        .available = demand.learnt > brk_opt.pool ? brk_footprint_available(now_ns) : 0,
    };
}

static bool worker_is_wanted(uint64_t now_ns)
{
    const struct pool_counts n = pool_count();
    const struct brk_demand_bounds b = pool_bounds(&n, now_ns);
    const struct brk_demand_stock s = {.waiting = users && users->waiting(),
                                       .spare = n.of[BRK_PROC_STARTING] + n.of[BRK_PROC_READY],
                                       .starting = n.of[BRK_PROC_STARTING],
                                       .processors = brk_footprint_processors(),
                                       .starts_left = brk_bucket_half(&starts, now_ns)};

    return brk_demand_wants(&demand, &b, &s, now_ns) || (!s.spare && s.waiting);
}

static void on_message(struct brk_source *s, uint32_t events);
static void on_exit_event(struct brk_source *s, uint32_t events);

#define PROC_OF_SOCK(s) ((struct brk_proc *)((char *)(s)-offsetof(struct brk_proc, sock)))
#define PROC_OF_PID(s) ((struct brk_proc *)((char *)(s)-offsetof(struct brk_proc, pidfd)))

static bool start_one(void)
{
    char why[120];
    struct brk_proc *p = brk_proc_start(on_message, on_exit_event, why, sizeof(why));

    if (!p) {
        vgb_log_limited(LIMIT(NULL), VGB_ERROR, "%s", why);
        return false;
    }
    p->users = users;
    p->next = procs;
    procs = p;
    return true;
}

static void pool_fill(void)
{
    while (!broken && vgb_now_ns() >= retry_at && worker_is_wanted(vgb_now_ns())) {
        uint64_t wait_ns = brk_bucket_take(&starts, vgb_now_ns());

        if (wait_ns) {
            vgb_log_limited(LIMIT(NULL), VGB_WARN,
                            "%u workers a second were started, more clients wait: the limit is --start-rate",
                            starts.rate);
            retry_at = vgb_now_ns() + wait_ns;
            return;
        }
        if (!start_one()) {
            retry_at = vgb_now_ns() + RETRY_NS;
            return;
        }
    }
}

void brk_pool_rate_changed(void)
{
    brk_bucket_init(&starts, brk_opt.start_rate, 2 * brk_opt.max_clients);
    retry_at = failures ? retry_at : 0;
}

bool brk_pool_init(const struct brk_pool_users *u)
{
    users = u;
    /* All clients may start at once and once more; then the rate applies. */
    brk_pool_rate_changed();
    return start_one();
}

/* ---- messages ---- */

static void failed_to_start(struct brk_proc *p, const char *why)
{
    retry_at = vgb_now_ns() + RETRY_NS;
    failures++;
    vgb_log_limited(LIMIT(p), VGB_ERROR, "worker %d did not become ready: %s", (int)p->pid, why);
    if (!worked)
        broken = true;
}

static void on_ready(struct brk_proc *p, const struct vgb_msg *m)
{
    if (p->state != BRK_PROC_STARTING) {
        brk_proc_kill(p);
        return;
    }
    if (m->status) {
        failed_to_start(p, m->text);
        brk_proc_kill(p);
        return;
    }
    if (!worked)
        vgb_log(VGB_INFO, "GPU: %s (%llu device%s)", m->text, (unsigned long long)m->value,
                m->value == 1 ? "" : "s");
    const char *wrong =
        !worked && users->provider ? users->provider(m->flags & VGB_READY_SOFT, m->offset, m->text) : NULL;

    if (wrong) {
        vgb_log(VGB_ERROR, "%s", wrong);
        broken = true;
        return;
    }
    worked = true;
    failures = 0;
    p->state = BRK_PROC_READY;
    brk_demand_started(&demand, vgb_now_ns() - p->since_ns);
    worker_bytes = brk_footprint_of(p->pid);
    p->since_ns = vgb_now_ns();
    struct brk_client *c = users->waiting();
    if (c) {
        p->state = BRK_PROC_ASSIGNED;
        p->client = c;
        users->ready(c, p);
    }
    pool_fill();
}

/* Accepted once, before the provider is loaded: until then the worker is trusted. */
static void on_sandbox(struct brk_proc *p, const struct vgb_msg *m)
{
    if (p->state != BRK_PROC_STARTING || p->layers_known) {
        if (p->state == BRK_PROC_STARTING)
            failed_to_start(p, "it said twice which layers its sandbox has");
        brk_proc_kill(p);
        return;
    }
    p->layers_known = true;
    char text[VGB_MSG_TEXT];
    if (snprintf(text, sizeof(text), "%s, %s", m->text, brk_cgroup_summary()) >= (int)sizeof(text))
        text[sizeof(text) - 1] = '\0';
    if (!strcmp(sandbox, text))
        return;
    memcpy(sandbox, text, sizeof(sandbox));
    vgb_log(VGB_INFO, "sandbox of the workers: %s", sandbox);
}

static void on_mapper_bad(void *arg, const char *why)
{
    struct brk_proc *p = arg;

    vgb_log_limited(LIMIT(p), VGB_WARN, "worker %d: %s: ended", (int)p->pid, why);
    if (!p->dead_text[0])
        snprintf(p->dead_text, sizeof(p->dead_text), "the worker was ended: %s", why);
    brk_proc_kill(p);
}

static void on_mapper_done(void *arg, uint32_t region, bool taken)
{
    struct brk_proc *p = arg;

    if (p->client && p->state == BRK_PROC_ASSIGNED)
        users->mapper_done(p->client, region, taken);
}

/* A worker without its mapper is useless, and its memory exists until both have ended. */
static void on_mapper_gone(void *arg)
{
    struct brk_proc *p = arg;

    if (p->ended) {
        on_exit_event(&p->pidfd, 0);
        return;
    }
    p->lost_mapper = p->state != BRK_PROC_KILLED;
    brk_proc_kill(p);
}

static const struct brk_warden_ops mapper_ops = {on_mapper_bad, on_mapper_done, on_mapper_gone};

/* Before it reports its sandbox the worker is trusted: the only time at which its descriptors are
 * accepted. */
static bool may_bring_mapper(const struct brk_proc *p)
{
    return p->state == BRK_PROC_STARTING && !p->layers_known && !p->warden;
}

/* Takes the descriptors over. */
static void on_mapper(struct brk_proc *p, const struct vgb_msg *m, const int *fds, unsigned nfds)
{
    if (nfds == 2 && m->value <= INT_MAX)
        p->warden = brk_warden_new(&mapper_ops, p, (pid_t)m->value, fds);
    if (!p->warden)
        brk_foreign_close_all(fds, nfds);
    if (!p->warden || !brk_cgroup_add((pid_t)m->value)) {
        if (p->state == BRK_PROC_STARTING)
            failed_to_start(p, "its mapper is of no use");
        brk_proc_kill(p);
    }
}

/* An intact worker reports changes only. */
static void on_busy(struct brk_proc *p, const struct vgb_msg *m)
{
    if (p->state != BRK_PROC_ASSIGNED || m->status > 1 || p->busy == (m->status == 1)) {
        vgb_log_limited(LIMIT(p), VGB_WARN, "worker %d: bad message", (int)p->pid);
        brk_proc_kill(p);
        return;
    }
    p->busy = m->status == 1;
    if (!p->busy)
        p->busy_until_ns = vgb_now_ns();
}

/* The worker may be hostile: an invalid message ends it, and messages per round are bounded. */
void brk_proc_drain(struct brk_proc *p, unsigned max)
{
    struct vgb_msg m;

    while (max--) {
        int fds[VGB_FD_MAX]; /* the maximum: the kernel would close the rest, and might block */
        unsigned nfds = VGB_FD_MAX;
        int r = vgb_msg_recv(p->sock.fd, &m, fds, &nfds, MSG_DONTWAIT);

        if (r == -EAGAIN)
            return;
        if (r == 1 && m.type == VGB_M_MAPPER && may_bring_mapper(p)) {
            on_mapper(p, &m, fds, nfds);
            continue;
        }
        if (r == 1 && nfds) {
            brk_foreign_close_all(fds, nfds);
            r = -EPROTO;
        }
        if (r != 1) {
            if (r != 0 && p->state != BRK_PROC_KILLED)
                vgb_log_limited(LIMIT(p), VGB_WARN, "worker %d: bad message", (int)p->pid);
            brk_proc_kill(p);
            brk_loop_del(&p->sock);
            return;
        }
        if (p->state == BRK_PROC_KILLED)
            continue;
        if (m.type == VGB_M_READY) {
            on_ready(p, &m);
        } else if (m.type == VGB_M_SANDBOX) {
            on_sandbox(p, &m);
        } else if (m.type == VGB_M_BUSY) {
            on_busy(p, &m);
        } else if (m.type == VGB_M_DEAD) {
            p->dead_reason =
                m.reason == VGPU_DEAD_PROTOCOL || m.reason == VGPU_DEAD_KILLED ? m.reason : VGPU_DEAD_EXITED;
            memcpy(p->dead_text, m.text, sizeof(p->dead_text));
            brk_proc_kill(p);
        } else if (p->client && p->state == BRK_PROC_ASSIGNED) {
            users->message(p->client, &m);
        }
    }
}

static void on_message(struct brk_source *s, uint32_t events)
{
    struct brk_proc *p = PROC_OF_SOCK(s);

    if (events & EPOLLOUT)
        brk_proc_flush(p);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        brk_proc_drain(p, DRAIN_MAX);
}

static struct brk_proc *longest_queue(void)
{
    struct brk_proc *longest = procs;

    for (struct brk_proc *p = procs; p; p = p->next)
        longest = p->nout > longest->nout ? p : longest;
    return longest;
}

/* The worker would wait for a message that can never be sent. */
static void check_sent(struct brk_proc *p, int error)
{
    error = brk_out_sent(p, error);
    if (!error)
        return;
    vgb_log_limited(LIMIT(p), VGB_WARN, "worker %d: send: %s: ended", (int)p->pid, strerror(-error));
    brk_proc_kill(p);
}

void brk_proc_flush(struct brk_proc *p)
{
    check_sent(p, brk_out_flush(p));
}

void brk_proc_send(struct brk_proc *p, const struct vgb_msg *m, const int *fds, unsigned nfds)
{
    const char *wrong;
    int error;

    if (p->state == BRK_PROC_KILLED)
        return;
    error = p->out ? -EAGAIN : brk_out_send(p, m, fds, nfds);
    if (!error)
        return;
    if (!brk_out_waits(error)) {
        check_sent(p, error);
        return;
    }
    wrong = brk_out_push(p, m, fds, nfds);
    if (!wrong && brk_out_over()) {
        p = longest_queue();
        wrong = "reads its messages slowest, and too many wait in all";
    }
    if (wrong) {
        vgb_log_limited(LIMIT(p), VGB_WARN, "worker %d %s: ended", (int)p->pid, wrong);
        brk_proc_kill(p);
        return;
    }
    if (p->nout == 1)
        check_sent(p, error);
}

void brk_proc_kill(struct brk_proc *p)
{
    if (p->state == BRK_PROC_KILLED)
        return;
    p->state = BRK_PROC_KILLED;
    p->since_ns = vgb_now_ns();
    brk_out_drop(p);
    brk_loop_change(&p->sock, EPOLLIN);
    if (p->warden)
        brk_warden_kill(p->warden);
    syscall(SYS_pidfd_send_signal, p->pidfd.fd, SIGKILL, NULL, 0);
}

/* ---- ends ---- */

static void on_exit_event(struct brk_source *s, uint32_t events)
{
    struct brk_proc *p = PROC_OF_PID(s);
    char text[VGB_MSG_TEXT];
    siginfo_t si;

    (void)events;
    if (p->state != BRK_PROC_KILLED)
        brk_proc_drain(p, LAST_WORDS_MAX);
    memset(&si, 0, sizeof(si));
    if (p->warden && !brk_warden_gone(p->warden)) { /* reaped by on_mapper_gone() */
        brk_loop_del(&p->pidfd);
        p->ended = true;
        if (p->state == BRK_PROC_STARTING &&
            !waitid(P_PIDFD, (id_t)p->pidfd.fd, &si, WEXITED | WNOHANG | WNOWAIT) && si.si_pid) {
            brk_proc_describe_end(&si, text, sizeof(text));
            failed_to_start(p, text);
        }
        brk_proc_kill(p);
        return;
    }
    brk_group_kill(p->pid);
    if (waitid(P_PIDFD, (id_t)p->pidfd.fd, &si, WEXITED | WNOHANG)) {
        snprintf(text, sizeof(text), "the worker has ended: %s", strerror(errno));
    } else if (!si.si_pid) {
        /* Exited but held by a debugger: its pidfd stays readable, so it is not watched. */
        if (!p->held)
            brk_loop_del(&p->pidfd);
        p->held = true;
        brk_proc_kill(p);
        return;
    } else {
        brk_proc_describe_end(&si, text, sizeof(text));
    }
    brk_group_leave(p->pid);
    if (p->lost_mapper)
        snprintf(text, sizeof(text), "the worker was ended: its mapper has ended");
    vgb_log_limited(LIMIT(p), VGB_DEBUG, "worker %d: %s", (int)p->pid, text);
    if (p->state == BRK_PROC_STARTING)
        failed_to_start(p, text);
    for (struct brk_proc **at = &procs; *at; at = &(*at)->next) {
        if (*at == p) {
            *at = p->next;
            break;
        }
    }
    brk_loop_del(&p->sock);
    if (!p->held)
        brk_loop_del(&p->pidfd);
    if (p->warden)
        brk_warden_free(p->warden);
    brk_output_close(p);
    brk_foreign_end(&p->sock.fd); /* its last messages may carry descriptors */
    close(p->pidfd.fd);
    brk_out_drop(p);
    if (p->client)
        users->gone(p->client, p->dead_reason ? p->dead_reason : VGPU_DEAD_EXITED,
                    p->dead_text[0] ? p->dead_text : text, p->dead_reason != 0);
    free(p);
    brk_cache_check();
    pool_fill();
}

struct brk_proc *brk_pool_take(struct brk_client *c)
{
    const uint64_t now_ns = vgb_now_ns();
    const struct pool_counts n = pool_count();
    const struct brk_demand_bounds b = pool_bounds(&n, now_ns);

    brk_demand_came(&demand, n.of[BRK_PROC_READY] ? n.of[BRK_PROC_READY] - 1 : 0, &b, now_ns);
    for (struct brk_proc *p = procs; p; p = p->next) {
        if (p->state != BRK_PROC_READY || brk_proc_has_ended(p))
            continue;
        p->state = BRK_PROC_ASSIGNED;
        p->client = c;
        p->since_ns = now_ns;
        /* The tick starts its replacement, after START was sent or a little later. */
        return p;
    }
    misses++;
    retry_at = failures ? retry_at : 0;
    pool_fill();
    return NULL;
}

/* True if the worker is unresponsive. *waits: an answer is pending. */
static bool worker_is_silent(const struct brk_proc *p, uint64_t now, bool *waits)
{
    *waits = p->state == BRK_PROC_STARTING;
    if (p->state == BRK_PROC_STARTING)
        return now - p->since_ns > VGB_MS_TO_NS(VGB_START_MS);
    return p->state == BRK_PROC_ASSIGNED && users->silent(p->client, p, now, waits);
}

/* Workers held by a debugger: their end is noticed only by checking. */
static void look_at_held(void)
{
    for (struct brk_proc *p = procs, *next; p; p = next) {
        next = p->next;
        if (p->held)
            on_exit_event(&p->pidfd, 0);
    }
}

/* Ends workers that the last burst was given ahead, one at a time. Returns the time until the next look, ms; -1: none. */
static int pool_shrink(uint64_t now_ns)
{
    const struct pool_counts n = pool_count();
    const struct brk_demand_bounds b = pool_bounds(&n, now_ns);
    struct brk_proc *oldest = NULL;

    if (n.of[BRK_PROC_READY] > brk_demand_target(&demand, &b, now_ns)) {
        for (struct brk_proc *p = procs; p; p = p->next)
            oldest = p->state == BRK_PROC_READY ? p : oldest;
        brk_proc_kill(oldest);
    }
    const uint64_t next_ns = brk_demand_next_ns(&demand, &b, now_ns);
    return next_ns == UINT64_MAX ? -1 : (int)(next_ns / 1000000u) + 1;
}

void brk_pool_figures(struct brk_pool_figures *f)
{
    const uint64_t now_ns = vgb_now_ns();
    const struct pool_counts n = pool_count();
    const struct brk_demand_bounds b = pool_bounds(&n, now_ns);

    *f = (struct brk_pool_figures){
        .ready = n.of[BRK_PROC_READY], .target = brk_demand_target(&demand, &b, now_ns), .misses = misses};
}

int brk_pool_tick(void)
{
    uint64_t now = vgb_now_ns();
    int next = -1;

    look_at_held();
    if (brk_groups_left())
        next = VGB_TICK_MS;
    for (struct brk_proc *p = procs; p; p = p->next) {
        bool waits = false;

        if (p->out_later)
            brk_proc_flush(p);
        brk_out_look(p, now);
        if (worker_is_silent(p, now, &waits)) {
            vgb_log_limited(LIMIT(p), VGB_ERROR, "worker %d is silent: ended", (int)p->pid);
            brk_proc_kill(p);
        }
        if (p->state == BRK_PROC_KILLED) /* and not reaped yet */
            waits = p->client ? users->unreaped(p->client, p, now) : p->held;
        if (waits || p->out_later)
            next = VGB_TICK_MS;
    }
    if (brk_cache_tick())
        next = VGB_TICK_MS;
    if (users->expire(now))
        next = VGB_TICK_MS;
    if (!broken && worker_is_wanted(now)) {
        pool_fill();
        if (worker_is_wanted(now)) {
            int ms = now < retry_at ? (int)((retry_at - now) / 1000000u) + 1 : 1000;

            next = next < 0 || ms < next ? ms : next;
        }
    }
    const int later = pool_shrink(now);
    return next < 0 || (later >= 0 && later < next) ? later : next;
}

void brk_pool_fini(void)
{
    uint64_t end = vgb_now_ns() + VGB_MS_TO_NS(VGB_EXIT_MS);

    broken = true; /* start no further workers */
    for (struct brk_proc *p = procs; p; p = p->next)
        brk_proc_kill(p);
    for (struct brk_proc *p = procs; p; p = p->next) {
        struct pollfd f = {.fd = p->pidfd.fd, .events = POLLIN};
        uint64_t now = vgb_now_ns();

        /* A worker that does not exit is left to init. */
        if (poll(&f, 1, now < end ? (int)((end - now) / 1000000u) : 0) == 1)
            waitid(P_PIDFD, (id_t)p->pidfd.fd, NULL, WEXITED | WNOHANG);
        now = vgb_now_ns();
        if (p->warden)
            brk_warden_wait(p->warden, now < end ? (int)((end - now) / 1000000u) : 0);
    }
}
