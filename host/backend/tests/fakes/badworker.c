/* SPDX-License-Identifier: MIT */
/* A worker that was taken over: says it is ready, then what $VGPU_TEST_BADWORKER asks for. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "confine/confine.h"
#include "vgb_fd.h"
#include "vgb_msg.h"
#include "vgb_plan.h"

static void say(uint32_t type, uint64_t value)
{
    const char *what = getenv("VGPU_TEST_BADWORKER");
    struct vgb_msg m = {.type = type, .value = value, .va = value, .region = 7};

    if (type == VGB_M_READY && what && !strcmp(what, "greedy"))
        m.flags = VGB_READY_SOFT;

    memset(m.text, 'x', sizeof(m.text)); /* no end */
    if (vgb_msg_send(3, &m, NULL, 0, 0) < 0)
        _exit(0);
}

/* Killed, this process cannot be reaped: a debugger has it. That is as near as a test comes to one that
 * is stuck in a driver. The debugger goes by itself after a time. */
static void be_held(void)
{
    pid_t self = getpid();
    char c;
    int p[2];

    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (pipe(p))
        _exit(1);
    if (!fork()) {
        setsid();
        for (int i = 0; i < 3; i++) /* the broker shall see the end of the worker's socket */
            close(i);
        close(3);
        close(p[0]);
        c = ptrace(PTRACE_SEIZE, self, 0, 0) ? 'n' : 'y';
        if (write(p[1], &c, 1) < 0)
            _exit(1);
        alarm(100);
        for (;;)
            pause();
    }
    close(p[1]);
    if (read(p[0], &c, 1) != 1 || c != 'y')
        _exit(1);
    close(p[0]);
}

static void *burn(void *arg)
{
    for (volatile unsigned i = 0;; i++)
        ;
    return arg;
}

static void leave_group(int sig)
{
    (void)sig;
    setpgid(0, getpgid(getppid()));
}

/* Takes all the processor time that it can get, and never looks at its broker. With SIGUSR1 it goes into its broker's
 * process group, where no priority that is set for its own group reaches it. */
static void be_greedy(void)
{
    struct rlimit r = {.rlim_cur = 60, .rlim_max = 60};
    pthread_t t;

    signal(SIGUSR1, leave_group);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CPU, &r); /* should the test fail to end it */
    for (int i = 0; i < 3; i++)
        pthread_create(&t, NULL, burn, NULL);
}

/* Says for ever that it has work, and is to go first for it. */
static void *claim(void *arg)
{
    struct vgb_msg m, work = {.type = VGB_M_WORK, .status = VGB_WORK_BUSY};
    int fds[VGB_MSG_FDS];
    unsigned nfds;

    do {
        nfds = VGB_MSG_FDS;
        if (vgb_msg_recv(3, &m, fds, &nfds, 0) != 1)
            break;
        if (m.type == VGB_M_TURN)
            vgb_msg_send(3, &work, NULL, 0, 0);
    } while (true);
    return arg;
}

static void *read_all(void *arg)
{
    struct vgb_msg m;
    int fds[VGB_MSG_FDS];
    unsigned nfds;

    do {
        nfds = VGB_MSG_FDS;
    } while (vgb_msg_recv(3, &m, fds, &nfds, 0) == 1);
    return arg;
}

/* The first of them takes what it can of all workers' output, and puts its own between; the others say something. */
static void listen_in(void)
{
    const char *mark = getenv("VGPU_TEST_MARK");
    char buf[100];

    if (mark && open(mark, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0) {
        int all = open("/proc/self/fd/1", O_RDWR | O_NONBLOCK);

        say(VGB_M_SERVING, 0);
        for (;;) {
            if (write(1, "noise", 5) < 0 || read(all, buf, sizeof(buf)) < 0)
                usleep(1000);
        }
    }
    say(VGB_M_SERVING, 0);
    for (unsigned i = 0; i < 10; i++) {
        dprintf(1, "worker: info: one line ");
        usleep(20000);
        dprintf(1, "in two parts\n");
    }
}

/* The first of them prints without end; the others say something. */
static void shout(void)
{
    const char *mark = getenv("VGPU_TEST_MARK");

    say(VGB_M_SERVING, 0);
    if (mark && open(mark, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0) {
        for (;;) {
            if (write(1, "worker: info: noise\n", 20) < 0) /* not blocking */
                usleep(100);
        }
    }
    dprintf(1, "worker: info: a quiet line\n");
}

#define PAGE 4096u

/* Of one region that the mapper maps. */
static struct vgb_plan plan;
static struct vgb_job job;
static struct vgb_call calls[8];
static uint8_t *place;

static void tell(uint32_t type, uint32_t region, uint64_t va)
{
    struct vgb_msg m = {.type = type, .region = region, .va = va, .value = (uintptr_t)&job};

    if (vgb_msg_send(3, &m, NULL, 0, 0) < 0)
        _exit(0);
}

static bool is(const char *what, const char *name)
{
    return !strcmp(what, name);
}

/* All runs are known: has the mapper ask for what it should, or for something else. */
static void place_region(const char *what, uint32_t region)
{
    uint64_t length = vgb_plan_place(&plan);

    place = mmap(NULL, length + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memcpy(calls, plan.list, plan.n * sizeof(calls[0]));
    job = (struct vgb_job){.place = (uintptr_t)place, .calls = calls, .n = plan.n};
    if (is(what, "mapper-other"))
        calls[0].offset += PAGE;
    else if (is(what, "mapper-more"))
        calls[plan.n - 1].length += PAGE;
    else if (is(what, "mapper-writes"))
        calls[0].prot = PROT_READ | PROT_WRITE;
    else if (is(what, "mapper-alias")) {
        calls[plan.n] = calls[0];
        calls[plan.n].at = length;
        job.n++;
    } else if (is(what, "mapper-crash"))
        job.calls = (void *)PAGE;
    tell(VGB_M_PLACE, region, is(what, "mapper-odd") ? (uintptr_t)place + 1 : (uintptr_t)place);
    vgb_plan_drop(&plan);
}

static void take_region(const char *what, uint32_t region)
{
    calls[0] = (struct vgb_call){.length = vgb_plan_place(&plan), .file = VGB_CALL_NO_FILE};
    job = (struct vgb_job){.place = (uintptr_t)place, .calls = calls, .n = 1};
    if (is(what, "mapper-keeps"))
        job.n = 0; /* nothing is taken away */
    else if (is(what, "mapper-keeps-a-page"))
        calls[0].length -= PAGE;
    else if (is(what, "mapper-takes-another"))
        job.place += vgb_plan_place(&plan);
    tell(VGB_M_UNMAPPED, region, 0);
}

/* What is pinned for reading can be made writable, or a descriptor of it has come: this worker ends. */
static void check(bool well)
{
    if (!well)
        _exit(9);
}

/* Serves regions that its mapper maps, as a worker does but for what it is asked to do otherwise. */
static void serve_regions(const char *what)
{
    struct vgb_msg m;
    int fds[VGB_MSG_FDS];
    unsigned nfds = VGB_MSG_FDS;

    say(VGB_M_SERVING, 0);
    for (; vgb_msg_recv(3, &m, fds, &nfds, 0) == 1; nfds = VGB_MSG_FDS) {
        if (m.type == VGB_M_MAP) {
            check(!nfds && m.flags & VGB_MAP_BY_MAPPER);
            if (!m.offset)
                check(vgb_plan_begin(&plan, m.length, &m.runs[0]));
            for (unsigned i = 0; i < m.nruns; i++)
                check(!vgb_plan_add(&plan, &m.runs[i],
                                    PROT_READ | (m.flags & VGB_MAP_READONLY ? 0 : PROT_WRITE)));
            if (is(what, "mapper-early"))
                tell(VGB_M_MAPPED, m.region, PAGE);
            else if (!(m.flags & VGB_MAP_MORE))
                place_region(what, m.region);
        } else if (m.type == VGB_M_PLACED) {
            if (is(what, "mapper-reads"))
                check(mprotect(place, PAGE, PROT_READ | PROT_WRITE));
            if (is(what, "mapper-fails")) {
                struct vgb_msg no = {.type = VGB_M_MAPPED, .region = m.region, .status = 1};

                calls[0] = (struct vgb_call){.length = vgb_plan_place(&plan), .file = VGB_CALL_NO_FILE};
                job = (struct vgb_job){.place = (uintptr_t)place, .calls = calls, .n = 1};
                no.value = (uintptr_t)&job;
                check(!vgb_msg_send(3, &no, NULL, 0, 0));
                continue;
            }
            tell(VGB_M_MAPPED, m.region, (uintptr_t)place);
            if (is(what, "mapper-unasked"))
                take_region(what, m.region);
        } else if (m.type == VGB_M_UNMAP) {
            take_region(what, m.region);
        }
    }
    _exit(0);
}

/* Two children of the broker's, of which it does not hear: one has ended, one has not. A mapper is one for a while. */
static void leave_strays(void)
{
    for (int i = 0; i < 2; i++) {
        if (!syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, 0)) {
            prctl(PR_SET_NAME, "stray");
            alarm(100);
            while (i)
                pause();
            _exit(0);
        }
    }
}

static void start_mapper(void)
{
    char why[100];

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (wrk_mapper_start(3, getppid(), why, sizeof(why)))
        _exit(1);
}

/* Makes the eventfd that wakes its broker a blocking one, for both, and takes the count away between the broker's look
 * and its read. Stops when the broker does not answer any more. */
static void take_wakes(int wake)
{
    struct pollfd answer = {.fd = 3, .events = POLLIN};
    uint64_t one = 1, n;
    struct iovec to = {.iov_base = &n, .iov_len = sizeof(n)};
    struct vgb_msg m, ask = {.type = VGB_M_ASK_USAGE};
    int fds[VGB_MSG_FDS];
    unsigned nfds;

    fcntl(wake, F_SETFL, 0);
    for (unsigned round = 0;; round++) {
        if (write(wake, &one, sizeof(one)) < 0)
            return;
        for (volatile unsigned i = 0; i < (round * 37) % 20000; i++)
            ;
        if (preadv2(wake, &to, 1, -1, RWF_NOWAIT) < 0)
            continue;
        nfds = VGB_MSG_FDS;
        if (vgb_msg_send(3, &ask, NULL, 0, 0) || poll(&answer, 1, 2000) != 1 ||
            vgb_msg_recv(3, &m, fds, &nfds, 0) != 1)
            return;
    }
}

int main(void)
{
    const char *what = getenv("VGPU_TEST_BADWORKER");
    char junk[64] = "junk";
    struct vgb_msg m;
    int fds[VGB_MSG_FDS];
    unsigned nfds = VGB_MSG_FDS;
    int self = dup(0);

    if (!what)
        return 1;
    if (!strncmp(what, "mapper-", 7))
        start_mapper();
    say(VGB_M_SANDBOX, 0);
    if (!strcmp(what, "twice"))
        say(VGB_M_SANDBOX, 0);
    say(VGB_M_READY, 1);
    vgb_msg_recv(3, &m, fds, &nfds, 0); /* START */
    if (!strcmp(what, "short"))
        send(3, junk, sizeof(junk), MSG_NOSIGNAL);
    else if (!strcmp(what, "fd"))
        vgb_send_fds(3, &m, sizeof(m), &self, 1, 0);
    else if (!strcmp(what, "type"))
        say(1000, 0);
    else if (!strcmp(what, "mapped"))
        say(VGB_M_MAPPED, 0x1000);
    else if (!strcmp(what, "ready"))
        say(VGB_M_READY, 1);
    else if (!strcmp(what, "layers"))
        say(VGB_M_SANDBOX, 0);
    else if (!strcmp(what, "dead"))
        say(VGB_M_DEAD, 0);
    else if (!strcmp(what, "serving")) {
        say(VGB_M_SERVING, 0);
        say(VGB_M_UNMAPPED, 0);
    } else if (!strcmp(what, "work")) { /* has no turns */
        say(VGB_M_SERVING, 0);
        say(VGB_M_WORK, 0);
    } else if (!strcmp(what, "reserve")) {
        say(VGB_M_SERVING, 0);
        for (;;)
            say(VGB_M_RESERVE, UINT64_MAX); /* and never reads the answers */
    } else if (!strcmp(what, "flood")) {
        pthread_t t;

        pthread_create(&t, NULL, read_all, NULL);
        say(VGB_M_SERVING, 0);
        for (;;)
            say(VGB_M_ASK_USAGE, 0);
    } else if (!strcmp(what, "greedy")) {
        pthread_t t;

        say(VGB_M_SERVING, 0);
        be_greedy();
        pthread_create(&t, NULL, claim, NULL);
    } else if (!strcmp(what, "held")) {
        be_held();
        say(VGB_M_SERVING, 0);
    } else if (!strcmp(what, "held-silent")) {
        be_held();
    } else if (!strncmp(what, "mapper-", 7)) {
        serve_regions(what);
    } else if (!strcmp(what, "listens")) {
        listen_in();
    } else if (!strcmp(what, "shouts")) {
        shout();
    } else if (!strcmp(what, "takes-wakes")) {
        say(VGB_M_SERVING, 0);
        if (nfds == 3)
            take_wakes(fds[2]);
    } else if (!strcmp(what, "strays")) {
        leave_strays();
        say(VGB_M_SERVING, 0);
    } else if (!strcmp(what, "leaves")) {
        return 0;
    }
    for (;;)
        pause();
}
