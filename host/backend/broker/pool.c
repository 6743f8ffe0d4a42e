/* SPDX-License-Identifier: MIT */
/*
 * Worker processes. A few are started ahead, because loading a CUDA driver takes long. Each is
 * exec'd (the broker never forks into a worker), holds one socket to the broker, and dies with it.
 */
#define _GNU_SOURCE
#include "broker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgb_fd.h"

#define START_TIMEOUT_NS (60ull * 1000000000u) /* NVIDIA's driver can take seconds per GPU */
#define SERVE_TIMEOUT_NS (10ull * 1000000000u)
#define ANSWER_TIMEOUT_NS UINT64_C(8000000000) /* to map or unmap a region */
#define RETRY_NS 1000000000u /* after a worker that did not become ready */
#define REFILL_NS 30000000u /* while spares are left: the client that took one starts up first */
#define OUT_MAX 4096u        /* queued messages: a worker that reads none of them is ended */

extern char **environ;

struct vgb_out {
    struct vgb_out *next;
    struct vgb_msg m;
    int fds[VGB_MSG_FDS];
    unsigned nfds;
};

static struct vgb_proc *procs;
static struct vgb_source log_pipe;
static int log_write = -1;
static struct vgb_ratelimit log_limit;
static bool worked, broken;
static uint64_t retry_at; /* not before this time is a worker started */
static unsigned failures;

bool vgb_pool_works(void)
{
    return worked;
}

bool vgb_pool_broken(void)
{
    return broken;
}

/* ---- what workers write to stderr ---- */

static void log_line(const char *line)
{
    enum vgb_log_level level = VGB_INFO;

    if (strstr(line, ": error: "))
        level = VGB_ERROR;
    else if (strstr(line, ": warn: "))
        level = VGB_WARN;
    else if (strstr(line, ": debug: "))
        level = VGB_DEBUG;
    vgb_log_limited(&log_limit, level, "%s", line);
}

static void on_log(struct vgb_source *s, uint32_t events)
{
    static char buf[1024];
    static size_t have;
    ssize_t n = read(s->fd, buf + have, sizeof(buf) - 1 - have);
    char *nl;

    (void)events;
    if (n <= 0)
        return;
    have += (size_t)n;
    while ((nl = memchr(buf, '\n', have)) || have == sizeof(buf) - 1) {
        size_t len = nl ? (size_t)(nl - buf) : have;

        buf[len] = '\0';
        log_line(buf);
        len += nl != NULL;
        memmove(buf, buf + len, have - len);
        have -= len;
    }
}

/* ---- starting ---- */

static bool wanted(void)
{
    unsigned spare = 0;

    for (struct vgb_proc *p = procs; p; p = p->next)
        spare += p->state == VGB_PROC_STARTING || p->state == VGB_PROC_READY;
    return spare < vgb_opt.pool || (!spare && vgb_client_waiting());
}

static int spawn(int sock, pid_t *pid)
{
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    sigset_t none, def;
    char ppid[24], minor[8];
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    char *argv[] = {vgb_opt.worker,
                    (char *)"--provider",
                    vgb_opt.provider,
                    (char *)"--fd",
                    (char *)"3",
                    (char *)"--broker-pid",
                    ppid,
                    (char *)"--log-level",
                    (char *)(uintptr_t)levels[vgb_opt.log_level],
                    (char *)"--protocol-minor",
                    minor,
                    vgb_opt.no_sandbox ? (char *)"--no-sandbox" : NULL,
                    NULL};

    snprintf(ppid, sizeof(ppid), "%ld", (long)getpid());
    snprintf(minor, sizeof(minor), "%u", vgb_opt.minor);
    sigemptyset(&none);
    sigfillset(&def);
    posix_spawnattr_init(&at);
    posix_spawnattr_setsigmask(&at, &none);
    posix_spawnattr_setsigdefault(&at, &def);
    /* A group of its own: what a terminal sends to a program and its broker is not for workers. */
    posix_spawnattr_setpgroup(&at, 0);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                      POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&fa, log_write, 1);
    posix_spawn_file_actions_adddup2(&fa, log_write, 2);
    posix_spawn_file_actions_adddup2(&fa, sock, 3);
    int r = posix_spawn(pid, vgb_opt.worker, &fa, &at, argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    posix_spawnattr_destroy(&at);
    return r;
}

static void on_message(struct vgb_source *s, uint32_t events);
static void on_exit_event(struct vgb_source *s, uint32_t events);

#define PROC_OF_SOCK(s) ((struct vgb_proc *)((char *)(s)-offsetof(struct vgb_proc, sock)))
#define PROC_OF_PID(s) ((struct vgb_proc *)((char *)(s)-offsetof(struct vgb_proc, pidfd)))

static bool start_one(void)
{
    struct vgb_proc *p = calloc(1, sizeof(*p));
    int pair[2] = {-1, -1};

    if (!p || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        goto fail;
    /* Descriptor 3 must not be the pair's own end: dup2 onto itself would keep it close-on-exec. */
    if (pair[1] == 3) {
        int moved = fcntl(pair[1], F_DUPFD_CLOEXEC, 10);

        if (moved < 0)
            goto fail;
        close(pair[1]);
        pair[1] = moved;
    }
    int e = spawn(pair[1], &p->pid);
    if (e) {
        vgb_log(VGB_ERROR, "cannot start %s: %s", vgb_opt.worker, strerror(e));
        goto fail;
    }
    vgb_close(&pair[1]);
    p->sock.fd = pair[0];
    p->sock.ready = on_message;
    p->pidfd.fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    p->pidfd.ready = on_exit_event;
    p->since_ns = vgb_now_ns();
    p->out_tail = &p->out;
    if (p->pidfd.fd < 0) {
        vgb_log(VGB_ERROR, "pidfd_open: %s (Linux 5.3 or later is needed)", strerror(errno));
        kill(p->pid, SIGKILL);
        waitpid(p->pid, NULL, 0);
        goto fail;
    }
    vgb_set_nonblock(p->sock.fd);
    fcntl(p->pidfd.fd, F_SETFD, FD_CLOEXEC);
    vgb_loop_add(&p->sock, EPOLLIN);
    vgb_loop_add(&p->pidfd, EPOLLIN);
    p->next = procs;
    procs = p;
    return true;
fail:
    vgb_close(&pair[0]);
    vgb_close(&pair[1]);
    free(p);
    return false;
}

static void fill(void)
{
    while (!broken && vgb_now_ns() >= retry_at && wanted()) {
        if (!start_one()) {
            retry_at = vgb_now_ns() + RETRY_NS;
            return;
        }
    }
}

bool vgb_pool_init(void)
{
    int p[2];

    if (pipe2(p, O_CLOEXEC | O_NONBLOCK))
        return false;
    log_pipe.fd = p[0];
    log_pipe.ready = on_log;
    log_write = p[1];
    vgb_loop_add(&log_pipe, EPOLLIN);
    return start_one();
}

/* ---- messages ---- */

static void failed_to_start(struct vgb_proc *p, const char *why)
{
    retry_at = vgb_now_ns() + RETRY_NS;
    failures++;
    vgb_log(VGB_ERROR, "worker %d did not become ready: %s", (int)p->pid, why);
    if (!worked)
        broken = true;
}

static void on_ready(struct vgb_proc *p, const struct vgb_msg *m)
{
    if (p->state != VGB_PROC_STARTING) {
        vgb_proc_kill(p);
        return;
    }
    if (m->status) {
        failed_to_start(p, m->text);
        vgb_proc_kill(p);
        return;
    }
    if (!worked)
        vgb_log(VGB_INFO, "GPU: %s (%llu device%s)", m->text, (unsigned long long)m->value,
                m->value == 1 ? "" : "s");
    worked = true;
    failures = 0;
    p->state = VGB_PROC_READY;
    p->since_ns = vgb_now_ns();
    struct vgb_client *c = vgb_client_waiting();
    if (c) {
        p->state = VGB_PROC_ASSIGNED;
        p->client = c;
        vgb_client_worker_ready(c, p);
    }
    fill();
}

/* Everything that the worker has sent. The worker may be hostile: an odd message ends it. */
static void drain(struct vgb_proc *p)
{
    struct vgb_msg m;
    unsigned none = 0;

    for (;;) {
        none = 0;
        int r = vgb_msg_recv(p->sock.fd, &m, NULL, &none, MSG_DONTWAIT);
        if (r == -EAGAIN)
            return;
        if (r != 1) {
            if (r != 0 && p->state != VGB_PROC_KILLED)
                vgb_log(VGB_WARN, "worker %d: bad message", (int)p->pid);
            vgb_proc_kill(p);
            vgb_loop_del(&p->sock);
            return;
        }
        if (m.type == VGB_M_READY) {
            on_ready(p, &m);
        } else if (m.type == VGB_M_DEAD) {
            p->dead_reason = m.reason == VGPU_DEAD_PROTOCOL ? VGPU_DEAD_PROTOCOL : VGPU_DEAD_EXITED;
            memcpy(p->dead_text, m.text, sizeof(p->dead_text));
            vgb_proc_kill(p);
        } else if (p->client && p->state == VGB_PROC_ASSIGNED) {
            vgb_client_message(p->client, &m);
        }
    }
}

static void flush_out(struct vgb_proc *p)
{
    while (p->out) {
        struct vgb_out *o = p->out;

        if (vgb_msg_send(p->sock.fd, &o->m, o->fds, o->nfds, MSG_DONTWAIT) == -EAGAIN)
            return;
        vgb_close_all(o->fds, o->nfds);
        p->out = o->next;
        if (!p->out)
            p->out_tail = &p->out;
        p->nout--;
        free(o);
    }
    vgb_loop_change(&p->sock, EPOLLIN);
}

static void on_message(struct vgb_source *s, uint32_t events)
{
    struct vgb_proc *p = PROC_OF_SOCK(s);

    if (events & EPOLLOUT)
        flush_out(p);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        drain(p);
}

void vgb_proc_send(struct vgb_proc *p, const struct vgb_msg *m, const int *fds, unsigned nfds)
{
    int r = p->out ? -EAGAIN : vgb_msg_send(p->sock.fd, m, fds, nfds, MSG_DONTWAIT);

    if (r != -EAGAIN) {
        if (r < 0 && r != -EPIPE && r != -ECONNRESET)
            vgb_log(VGB_WARN, "worker %d: send: %s", (int)p->pid, strerror(-r));
        return; /* a closed socket: its end is on the way */
    }
    struct vgb_out *o = p->nout < OUT_MAX ? calloc(1, sizeof(*o)) : NULL;
    if (!o) {
        vgb_log(VGB_WARN, "worker %d does not read its messages: ended", (int)p->pid);
        vgb_proc_kill(p);
        return;
    }
    o->m = *m;
    for (unsigned i = 0; i < nfds; i++) {
        int fd = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);

        if (fd < 0) {
            vgb_close_all(o->fds, o->nfds);
            free(o);
            vgb_proc_kill(p);
            return;
        }
        o->fds[o->nfds++] = fd;
    }
    *p->out_tail = o;
    p->out_tail = &o->next;
    if (!p->nout++)
        vgb_loop_change(&p->sock, EPOLLIN | EPOLLOUT);
}

void vgb_proc_kill(struct vgb_proc *p)
{
    p->state = VGB_PROC_KILLED;
    kill(p->pid, SIGKILL); /* not reaped yet: the pid is still its own */
}

/* ---- ends ---- */

static void describe_end(const siginfo_t *si, char *text, size_t size)
{
    if (si->si_code == CLD_EXITED)
        snprintf(text, size, "the worker ended with status %d", si->si_status);
    else if (si->si_status == SIGSYS)
        snprintf(text, size, "the worker was ended by its sandbox: a forbidden system call");
    else
        snprintf(text, size, "the worker was ended by signal %d (%s)", si->si_status,
                 strsignal(si->si_status));
}

static void on_exit_event(struct vgb_source *s, uint32_t events)
{
    struct vgb_proc *p = PROC_OF_PID(s);
    char text[VGB_MSG_TEXT];
    siginfo_t si;

    (void)events;
    memset(&si, 0, sizeof(si));
    if (waitid(P_PID, (id_t)p->pid, &si, WEXITED | WNOHANG) || !si.si_pid)
        return;
    if (p->state != VGB_PROC_KILLED)
        drain(p); /* its last words */
    describe_end(&si, text, sizeof(text));
    vgb_log(VGB_DEBUG, "worker %d: %s", (int)p->pid, text);
    if (p->state == VGB_PROC_STARTING)
        failed_to_start(p, text);
    for (struct vgb_proc **at = &procs; *at; at = &(*at)->next) {
        if (*at == p) {
            *at = p->next;
            break;
        }
    }
    vgb_loop_del(&p->sock);
    vgb_loop_del(&p->pidfd);
    close(p->sock.fd);
    close(p->pidfd.fd);
    while (p->out) {
        struct vgb_out *o = p->out;

        p->out = o->next;
        vgb_close_all(o->fds, o->nfds);
        free(o);
    }
    if (p->client)
        vgb_client_worker_gone(p->client, p->dead_reason ? p->dead_reason : VGPU_DEAD_EXITED,
                               p->dead_text[0] ? p->dead_text : text);
    free(p);
    fill();
}

static bool spare_left(void)
{
    for (struct vgb_proc *p = procs; p; p = p->next) {
        if (p->state == VGB_PROC_READY)
            return true;
    }
    return false;
}

struct vgb_proc *vgb_pool_take(struct vgb_client *c)
{
    for (struct vgb_proc *p = procs; p; p = p->next) {
        if (p->state != VGB_PROC_READY)
            continue;
        p->state = VGB_PROC_ASSIGNED;
        p->client = c;
        p->since_ns = vgb_now_ns();
        /* Its replacement is started by the tick, after START was sent, or a little later. */
        if (spare_left() && retry_at < p->since_ns + REFILL_NS)
            retry_at = p->since_ns + REFILL_NS;
        return p;
    }
    retry_at = failures ? retry_at : 0;
    fill();
    return NULL;
}

int vgb_pool_tick(void)
{
    uint64_t now = vgb_now_ns();
    int next = -1;

    for (struct vgb_proc *p = procs; p; p = p->next) {
        bool starting = p->state == VGB_PROC_STARTING;
        bool serving = p->state == VGB_PROC_ASSIGNED && p->client &&
                       p->client->state == VGB_C_STARTING;

        /* Its guest's driver would give the whole device up after 10 s. */
        bool asked = p->state == VGB_PROC_ASSIGNED && p->client &&
                     p->client->state == VGB_C_SERVING && p->client->asked;

        if ((asked && now - p->client->asked_ns > ANSWER_TIMEOUT_NS) ||
            (starting && now - p->since_ns > START_TIMEOUT_NS) ||
            (serving && now - p->since_ns > SERVE_TIMEOUT_NS)) {
            vgb_log(VGB_ERROR, "worker %d is silent: ended", (int)p->pid);
            vgb_proc_kill(p);
        }
        if (starting || serving || asked)
            next = 1000;
    }
    if (!broken && wanted()) {
        fill();
        if (wanted()) {
            int ms = now < retry_at ? (int)((retry_at - now) / 1000000u) + 1 : 1000;

            next = next < 0 || ms < next ? ms : next;
        }
    }
    return next;
}

void vgb_pool_fini(void)
{
    broken = true; /* no new ones */
    for (struct vgb_proc *p = procs; p; p = p->next)
        vgb_proc_kill(p);
    for (struct vgb_proc *p = procs; p; p = p->next)
        waitpid(p->pid, NULL, 0);
}
