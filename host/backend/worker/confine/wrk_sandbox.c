/* SPDX-License-Identifier: MIT */
/* Layers of a worker's sandbox, in order, and the filter of its system calls, compiled by the build
 * from the text in policies/. */
#define _GNU_SOURCE
#include "confine.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "policy.h"
#include "vgb_log.h"

/* ---- filters ---- */

struct sock_filter *wrk_policy_code_for(const struct wrk_policy_code *p, uint32_t self)
{
    struct sock_filter *code = malloc(p->n * sizeof(*code));

    for (unsigned i = 0; code && i < p->n; i++) {
        code[i] = p->code[i];
        if (BPF_CLASS(code[i].code) == BPF_JMP && code[i].k == WRK_POLICY_SELF)
            code[i].k = self;
    }
    return code;
}

/* 0, or an error number. For all threads: some may have been started by the provider. */
static int install_code(const struct wrk_policy_code *p)
{
    struct sock_fprog prog = {.len = p->n, .filter = wrk_policy_code_for(p, (uint32_t)getpid())};
    long r = -1;
    int e = ENOMEM;

    if (prog.filter) {
        r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog);
        e = r > 0 ? ESRCH : errno; /* above 0: the thread that has filters of its own */
    }
    free(prog.filter);
    return r ? e : 0;
}

/* Of a policy that the build did not compile: those of tests. */
static int install_text(const char *policy, bool starting, char *err, size_t err_size)
{
    const struct wrk_policy_use use = {.self = (uint64_t)getpid(), .starting = starting};
    scmp_filter_ctx ctx = wrk_policy_build(policy, &use, err, err_size);
    int r;

    if (!ctx)
        return -1;
    seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
    r = seccomp_load(ctx);
    if (r)
        snprintf(err, err_size, "seccomp filter refused: %s", strerror(-r));
    seccomp_release(ctx);
    return r ? -1 : 0;
}

int wrk_sandbox_filter(const char *policy, bool starting, char *err, size_t err_size)
{
    for (unsigned i = 0; i < wrk_policy_codes_n; i++) {
        const struct wrk_policy_code *p = &wrk_policy_codes[i];

        if (p->policy != policy || p->starting != starting)
            continue;
        int e = install_code(p);

        if (e)
            snprintf(err, err_size, "seccomp filter refused: %s", strerror(e));
        return e ? -1 : 0;
    }
    return install_text(policy, starting, err, err_size);
}

/* ---- logging only ---- */

/* pipe that passes the number of the notification descriptor */
static int listener[2] = {-1, -1};

static void name_call(const struct seccomp_notif *q)
{
    static struct {
        int nr;
        uint64_t arg;
    } seen[256];
    static unsigned nseen;
    /* Distinguishes uses of the same call. */
    const uint64_t arg = q->data.nr == SCMP_SYS(ioctl) || q->data.nr == SCMP_SYS(fcntl) ? q->data.args[1]
                         : q->data.nr == SCMP_SYS(prctl)                                ? q->data.args[0]
                                                                                        : 0;
    char *name;

    for (unsigned i = 0; i < nseen; i++) {
        if (seen[i].nr == q->data.nr && seen[i].arg == arg)
            return;
    }
    if (nseen == sizeof(seen) / sizeof(seen[0]))
        return;
    seen[nseen].nr = q->data.nr;
    seen[nseen++].arg = arg;
    name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, q->data.nr);
    vgb_log(VGB_WARN, "the sandbox would refuse %s(0x%llx, 0x%llx, 0x%llx)", name ? name : "?",
            (unsigned long long)q->data.args[0], (unsigned long long)q->data.args[1],
            (unsigned long long)q->data.args[2]);
    free(name);
}

/* Not subject to the filter, being started before it. */
static void *sandbox_watch(void *arg)
{
    struct seccomp_notif *q;
    struct seccomp_notif_resp *a;
    int fd;

    (void)arg;
    if (read(listener[0], &fd, sizeof(fd)) != sizeof(fd) || seccomp_notify_alloc(&q, &a))
        return NULL;
    for (;;) {
        memset(q, 0, sizeof(*q));
        if (seccomp_notify_receive(fd, q))
            continue; /* the caller has ended */
        name_call(q);
        memset(a, 0, sizeof(*a));
        a->id = q->id;
        a->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        seccomp_notify_respond(fd, a);
    }
}

int wrk_sandbox_filter_log(const char *policy, char *err, size_t err_size)
{
    const struct wrk_policy_use use = {.self = (uint64_t)getpid(), .log = true};
    scmp_filter_ctx ctx = wrk_policy_build(policy, &use, err, err_size);
    pthread_t t;
    int r, fd;

    if (!ctx)
        return -1;
    /* Starting and informing the watching thread must not depend on its answers. */
    r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(write), 0);
    if (r == -EEXIST)
        r = 0;
    if (!r && (pipe(listener) || pthread_create(&t, NULL, sandbox_watch, NULL)))
        r = -errno;
    r = r ? r : seccomp_load(ctx);
    if (r) {
        snprintf(err, err_size, "seccomp cannot log here (Linux 5.5 or later): %s", strerror(-r));
        seccomp_release(ctx);
        return -1;
    }
    fd = seccomp_notify_fd(ctx);
    seccomp_release(ctx);
    return write(listener[1], &fd, sizeof(fd)) == sizeof(fd) ? 0 : -1;
}

/* ---- all layers ---- */

bool wrk_sandbox_mode_parse(const char *text, enum wrk_sandbox_mode *mode)
{
    static const char *const names[] = {"enforce", "log", "off"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!strcmp(text, names[i])) {
            *mode = (enum wrk_sandbox_mode)i;
            return true;
        }
    }
    return false;
}

static void set_limit(int what, rlim_t value)
{
    struct rlimit r = {.rlim_cur = value, .rlim_max = value};

    setrlimit(what, &r);
}

static const char *start_policy(const struct wrk_sandbox *s)
{
    return s->mps ? wrk_policy_mps_start : wrk_policy_nvidia_start;
}

static const char *nvidia_policy(const struct wrk_sandbox *s)
{
    return s->mps ? wrk_policy_mps : wrk_policy_nvidia;
}

/*
 * Logging begins before the library does, since it is the start that fails where the sandbox refuses too much. A process
 * has one listener: the software GPU, whose policy is another, gets it when it is known that the provider is one.
 */
static int log_start(const struct wrk_sandbox *s, char *err, size_t err_size)
{
    const char *path = s->provider ? s->provider : "", *name = strrchr(path, '/');

    if (strstr(name ? name : path, "libcuda-soft"))
        return 0;
    return wrk_sandbox_filter_log(start_policy(s), err, err_size);
}

int wrk_sandbox_begin(struct wrk_sandbox *s, char *err, size_t err_size)
{
    bool view;
    int landlock;

    set_limit(RLIMIT_CORE, 0);
    s->layers[0] = '\0';
    s->has_shm = false;
    s->own_net = false;
    if (s->mode == WRK_SANDBOX_OFF) {
        wrk_layer_add(s, "off");
        return 0;
    }
    if (s->mode == WRK_SANDBOX_LOG)
        wrk_layer_add(s, "logs only");
    view = s->mode == WRK_SANDBOX_ENFORCE && wrk_confine(s);
    if (wrk_confine_rights(s, err, err_size))
        return -1;
    if (s->mode == WRK_SANDBOX_LOG)
        return log_start(s, err, err_size);
    if (s->sock) {
        char why[80];
        int r = wrk_mapper_start(s->sock, s->broker, why, sizeof(why));

        if (r < 0) {
            snprintf(err, err_size, "the mapper of guest memory did not start: %s", why);
            return -1;
        }
        wrk_layer_add(s, r ? "no mapper (%s)" : "mapper", why);
    }
    landlock = wrk_landlock_enter(s);
    if (landlock)
        wrk_layer_add(s, "Landlock v%d", landlock);
    if (!landlock && !view) {
        snprintf(err, err_size,
                 "this host has neither Landlock (Linux 5.13) nor lets a process have a "
                 "mount namespace, so its files cannot be limited");
        return -1;
    }
    /* Landlock does not restrict connections to sockets. */
    if (s->mps && (!view || !s->own_net)) {
        snprintf(err, err_size,
                 "CUDA_MPS_PIPE_DIRECTORY is set, and this host does not give workers a mount and a network "
                 "namespace, so they could connect to other services than MPS");
        return -1;
    }
    if (wrk_sandbox_filter(start_policy(s), true, err, err_size))
        return -1;
    wrk_layer_add(s, "seccomp%s", s->mps ? " with MPS" : "");
    return 0;
}

/* Maximum size of the requested log, bytes; only further lines are lost. */
#define SOFT_LOG_MAX (64u << 20)

/* The software GPU's log, opened before: the only file a worker may extend. */
static bool has_log_file(void)
{
    const char *log = getenv("VGPU_SOFT_LOG");

    return log && *log && strcmp(log, "stderr");
}

int wrk_sandbox_narrow(struct wrk_sandbox *s, bool soft, char *err, size_t err_size)
{
    const char *policy = soft ? wrk_policy_soft : nvidia_policy(s);

    if (s->mode == WRK_SANDBOX_OFF)
        return 0;
    signal(SIGXFSZ, SIG_IGN);
    if (soft) {
        /* Pipes and shared mappings are not files here. */
        set_limit(RLIMIT_FSIZE, has_log_file() ? SOFT_LOG_MAX : 0);
    }
    /* the software GPU keeps descriptors of memory exported by other processes */
    set_limit(RLIMIT_NOFILE, 1024);
    if (s->mode == WRK_SANDBOX_LOG)
        return listener[1] >= 0 ? 0 : wrk_sandbox_filter_log(policy, err, err_size);
    return wrk_sandbox_filter(policy, false, err, err_size);
}
