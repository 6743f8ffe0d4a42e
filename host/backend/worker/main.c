/* SPDX-License-Identifier: MIT */
/* vgpu-worker: started by the broker only (or with --probe to see whether a provider works). */
#define _GNU_SOURCE
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <linux/types.h>

#include "vgb_version.h"
#include "vgp_worker.h"
#include "vgpu_device.h"

struct options {
    const char *provider;
    int fd;
    pid_t broker;
    unsigned minor;
    bool probe, no_sandbox, layout_set;
};

static const char usage[] =
    "Usage: vgpu-worker --probe --provider PATH\n"
    "Serves one client of vgpu-backend, which starts it; it is not for direct use.\n"
    "  --probe            load the provider, print \"devices driver-version name\", exit\n"
    "  --provider PATH    the CUDA driver library to load\n"
    "  --fd N             socket to the broker\n"
    "  --broker-pid N     end when this process ends\n"
    "  --log-level LEVEL  error, warn, info or debug\n"
    "  --protocol-minor N know nothing that came after version 1.N of the protocol (for tests)\n"
    "  --no-sandbox       keep all rights (for debugging)\n"
    "  --help, --version\n"
    "Exit status: 0 ended by the broker or by its client, 1 an error, 2 wrong usage,\n"
    "3 (with --probe) the provider works but has no device.\n";

static struct vgb_worker worker;

static int parse(int argc, char **argv, struct options *o)
{
    static const struct option longopts[] = {
        {"probe", 0, NULL, 'p'},      {"provider", 1, NULL, 'P'},  {"fd", 1, NULL, 'f'},
        {"broker-pid", 1, NULL, 'b'}, {"log-level", 1, NULL, 'l'}, {"no-sandbox", 0, NULL, 'n'},
        {"protocol-minor", 1, NULL, 'm'},
        {"layout-set", 0, NULL, 'y'}, {"help", 0, NULL, 'h'},      {"version", 0, NULL, 'v'},
        {NULL, 0, NULL, 0}};
    enum vgb_log_level level;
    int ch;

    while ((ch = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
        switch (ch) {
        case 'p': o->probe = true; break;
        case 'P': o->provider = optarg; break;
        case 'f': o->fd = atoi(optarg); break;
        case 'b': o->broker = (pid_t)atol(optarg); break;
        case 'n': o->no_sandbox = true; break;
        case 'm': o->minor = (unsigned)atoi(optarg); break;
        case 'y': o->layout_set = true; break;
        case 'l':
            if (!vgb_log_level_parse(optarg, &level))
                return 2;
            vgb_log_init(2, level, "worker");
            break;
        case 'h': fputs(usage, stdout); exit(0);
        case 'v': printf("vgpu-worker %s\n", VGB_VERSION); exit(0);
        default: return 2;
        }
    }
    if (optind != argc || !o->provider || (!o->probe && o->fd < 0) ||
        o->minor > VGP_VERSION_MINOR) {
        fputs(usage, stderr);
        return 2;
    }
    return 0;
}

/*
 * Guest programs have their own memory where the kernel puts a program by default: at the top of
 * the address space, and near 0x555555554000. This process gets out of the way, so that guest
 * memory can be mapped at the addresses that the guest uses: it is linked at a fixed low address,
 * and started again with the old layout, libraries from one third of the address space upwards.
 */
static void move_out_of_the_way(int argc, char **argv)
{
    const unsigned long want = ADDR_COMPAT_LAYOUT | ADDR_NO_RANDOMIZE;
    int now = personality(0xffffffff);
    char **args;

    if (now < 0 || ((unsigned long)now & want) == want ||
        personality((unsigned long)now | want) < 0)
        return;
    args = calloc((size_t)argc + 2, sizeof(*args));
    if (!args)
        return;
    memcpy(args, argv, (size_t)argc * sizeof(*args));
    args[argc] = (char *)(uintptr_t)"--layout-set";
    execv("/proc/self/exe", args);
    free(args); /* stays where it is: addresses may collide, which the guest is told */
}

static int probe(const char *provider)
{
    char err[400];

    if (vgb_provider_open(provider, err, sizeof(err))) {
        fprintf(stderr, "vgpu-worker: %s\n", err);
        return 1;
    }
    printf("%d %d %s\n", vgb_cu.device_count, vgb_cu.driver_version, vgb_cu.name);
    return vgb_cu.device_count > 0 ? 0 : 3;
}

static int refuse(struct vgb_worker *w, const char *text)
{
    struct vgb_msg m = {.type = VGB_M_READY, .status = 1};

    snprintf(m.text, sizeof(m.text), "%s", text);
    vgb_msg_send(w->sock, &m, NULL, 0, 0);
    return 1;
}

static int announce(struct vgb_worker *w)
{
    struct vgb_msg m = {.type = VGB_M_READY, .value = (uint64_t)vgb_cu.device_count};

    snprintf(m.text, sizeof(m.text), "%s", vgb_cu.name);
    return vgb_msg_send(w->sock, &m, NULL, 0, 0);
}

/* Short of memory, the host should end the worker of the greedy client, not the broker or QEMU. */
static void be_first_to_go(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0 && write(fd, "500", 3) != 3)
        vgb_log(VGB_DEBUG, "oom_score_adj: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
}

static int serve(struct vgb_worker *w, const struct options *o)
{
    struct vgb_msg serving = {.type = VGB_M_SERVING};
    char err[400];

    be_first_to_go();
    w->sock = o->fd;
    w->minor = o->minor;
    w->wake_fd = -1;
    w->doorbell = -1;
    pthread_mutex_init(&w->notify_lock, NULL);
    vgb_waits_init(&w->waits);
    if (!vgb_ring_init(&w->ring))
        return refuse(w, "out of memory");
    if (vgb_provider_open(o->provider, err, sizeof(err)))
        return refuse(w, err);
    if (announce(w) || vgb_control_wait_start(w))
        return 1;
    vgb_calls_init(w);
    if (vgb_notify_capture_output(w))
        vgb_log(VGB_WARN, "the output of kernels will not reach the guest");
    if (!o->no_sandbox && vgb_sandbox_enter(vgb_cu.is_soft, err, sizeof(err)))
        vgb_die(w, VGPU_DEAD_EXITED, "no sandbox, no service: %s", err);
    vgb_window_publish(&w->win, w->minor);
    if (vgb_msg_send(w->sock, &serving, NULL, 0, 0))
        return 1;
    vgb_loop(w);
}

int main(int argc, char **argv)
{
    struct options o = {.fd = -1, .minor = VGP_VERSION_MINOR};

    vgb_log_init(2, VGB_INFO, "worker");
    int bad = parse(argc, argv, &o);
    if (bad)
        return bad;
    signal(SIGPIPE, SIG_IGN);
    mallopt(M_ARENA_MAX, 8); /* else the allocator reads /sys to find its limit, in the sandbox */
    if (o.probe)
        return probe(o.provider);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (o.broker && getppid() != o.broker)
        return 1; /* it ended before the line above */
    if (!o.layout_set)
        move_out_of_the_way(argc, argv);
    return serve(&worker, &o);
}
