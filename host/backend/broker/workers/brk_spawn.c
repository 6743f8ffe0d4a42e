/* SPDX-License-Identifier: MIT */
/* Command line, descriptors and signals of a new worker process, and detection of its exit. */
#define _GNU_SOURCE
#include "workers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgb_fd.h"

bool brk_spawn_pair(int pair[2])
{
    int moved;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return false;
    /* The pair's end must not be descriptor 3: dup2 onto itself would keep it close-on-exec. */
    if (pair[1] != 3)
        return true;
    moved = fcntl(pair[1], F_DUPFD_CLOEXEC, 10);
    if (moved < 0)
        return false;
    close(pair[1]);
    pair[1] = moved;
    return true;
}

/*
 * Starts the program with the legacy memory layout, which a worker needs (worker/main/wrk_main.c). The personality is
 * inherited and takes effect at exec only. The worker would set it and execute itself a second time.
 * ThreadSanitizer supports the ordinary layout only.
 */
static int spawn_laid_out(pid_t *pid, const posix_spawn_file_actions_t *fa, const posix_spawnattr_t *at,
                          char **argv, char **env)
{
    int own = -1, r;

#ifndef __SANITIZE_THREAD__
    own = personality(0xffffffff);
    if (own >= 0)
        personality(((unsigned long)own & ~(unsigned long)ADDR_NO_RANDOMIZE) | ADDR_COMPAT_LAYOUT);
#endif
    r = posix_spawn(pid, brk_opt.worker, fa, at, argv, env);
    if (own >= 0)
        personality((unsigned long)own);
    return r;
}

int brk_spawn(int sock, int output, pid_t *pid)
{
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    sigset_t none, def;
    char ppid[24], minor[8], cache[32], shm[32];
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    char *argv[24] = {brk_opt.worker,
                      (char *)"--provider",
                      brk_opt.provider,
                      (char *)"--fd",
                      (char *)"3",
                      (char *)"--broker-pid",
                      ppid,
                      (char *)"--log-level",
                      (char *)(uintptr_t)levels[brk_opt.log_level],
                      (char *)"--protocol-minor",
                      minor,
                      (char *)"--sandbox",
                      (char *)(uintptr_t)brk_opt.sandbox};
    unsigned n = 13;
    char **env = brk_worker_environment();

    if (brk_opt.allow_hmm)
        argv[n++] = (char *)"--allow-hmm";
    if (brk_opt.shm_fd >= 0) {
        snprintf(shm, sizeof(shm), "/proc/self/fd/%d", BRK_WORKER_SHM_FD);
        argv[n++] = (char *)"--shm";
        argv[n++] = shm;
    }
    if (brk_opt.cache_fd >= 0) {
        snprintf(cache, sizeof(cache), "/proc/self/fd/%d", BRK_WORKER_CACHE_FD);
        argv[n++] = (char *)"--cache";
        argv[n++] = cache;
    }
    snprintf(ppid, sizeof(ppid), "%ld", (long)getpid());
    snprintf(minor, sizeof(minor), "%u", brk_opt.minor);
    sigemptyset(&none);
    sigfillset(&def);
    posix_spawnattr_init(&at);
    posix_spawnattr_setsigmask(&at, &none);
    posix_spawnattr_setsigdefault(&at, &def);
    /* A separate group, so that a terminal's signals to a program and its broker do not reach
     * workers. */
    posix_spawnattr_setpgroup(&at, 0);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&fa, output, 1);
    posix_spawn_file_actions_adddup2(&fa, output, 2);
    posix_spawn_file_actions_adddup2(&fa, sock, 3);
    if (brk_opt.cache_fd >= 0)
        posix_spawn_file_actions_adddup2(&fa, brk_opt.cache_fd, BRK_WORKER_CACHE_FD);
    if (brk_opt.shm_fd >= 0)
        posix_spawn_file_actions_adddup2(&fa, brk_opt.shm_fd, BRK_WORKER_SHM_FD);
    int r = env ? spawn_laid_out(pid, &fa, &at, argv, env) : ENOMEM;
    free(env);
    posix_spawn_file_actions_destroy(&fa);
    posix_spawnattr_destroy(&at);
    return r;
}

/* Both must be watched; otherwise its exit would go unnoticed. */
static bool proc_watch(struct brk_proc *p)
{
    if (brk_loop_add(&p->sock, EPOLLIN))
        return false;
    if (!brk_loop_add(&p->pidfd, EPOLLIN))
        return true;
    brk_loop_del(&p->sock);
    return false;
}

/* Of a started process: before it serves a guest. False with a message. */
static bool proc_adopt(struct brk_proc *p, char *why, size_t why_size)
{
    if (!brk_cgroup_add(p->pid)) {
        snprintf(why, why_size, "a worker cannot be put into the control group: %s", strerror(errno));
        return false;
    }
    p->pidfd.fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    p->since_ns = vgb_now_ns();
    if (p->pidfd.fd < 0) {
        snprintf(why, why_size, "pidfd_open: %s (Linux 5.4 is needed)", strerror(errno));
        return false;
    }
    vgb_set_nonblock(p->sock.fd);
    fcntl(p->pidfd.fd, F_SETFD, FD_CLOEXEC);
    if (proc_watch(p))
        return true;
    snprintf(why, why_size, "cannot wait on a worker: it is ended");
    return false;
}

struct brk_proc *brk_proc_start(void (*message)(struct brk_source *s, uint32_t events),
                                void (*ended)(struct brk_source *s, uint32_t events), char *why,
                                size_t why_size)
{
    struct brk_proc *p = calloc(1, sizeof(*p));
    int pair[2] = {-1, -1}, output = -1, e = ENOMEM;

    if (p) {
        p->output.fd = p->pidfd.fd = p->sock.fd = -1;
        e = brk_spawn_pair(pair) ? 0 : errno;
    }
    if (!e) {
        output = brk_output_open(p);
        e = output < 0 ? errno : brk_spawn(pair[1], output, &p->pid);
    }
    vgb_close(&pair[1]);
    vgb_close(&output);
    if (e) {
        snprintf(why, why_size, "cannot start %.60s: %s", brk_opt.worker, strerror(e));
    } else {
        p->sock.fd = pair[0];
        p->sock.ready = message;
        p->pidfd.ready = ended;
        if (proc_adopt(p, why, why_size))
            return p;
        kill(p->pid, SIGKILL);
        brk_group_kill(p->pid);
        waitpid(p->pid, NULL, 0);
        brk_group_leave(p->pid);
        vgb_close(&p->pidfd.fd);
    }
    if (p)
        brk_output_close(p);
    vgb_close(&pair[0]);
    free(p);
    return NULL;
}

void brk_proc_describe_end(const siginfo_t *si, char *text, size_t size)
{
    if (si->si_code == CLD_EXITED)
        snprintf(text, size, "the worker ended with status %d", si->si_status);
    else if (si->si_status == SIGSYS)
        snprintf(text, size, "the worker was ended by its sandbox: a forbidden system call");
    else
        snprintf(text, size, "the worker was ended by signal %d (%s)", si->si_status,
                 strsignal(si->si_status));
}

bool brk_proc_has_ended(const struct brk_proc *p)
{
    struct pollfd f[2] = {{.fd = p->pidfd.fd, .events = POLLIN}, {.fd = p->sock.fd}};

    return poll(f, 2, 0) > 0;
}
