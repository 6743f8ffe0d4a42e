/* SPDX-License-Identifier: MIT */
/* vgpu-worker: started by the broker, or with --probe to check whether a provider works. */
#define _GNU_SOURCE
#include "main.h"

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
#include <sys/stat.h>
#include <unistd.h>

#include <linux/types.h>

#include "place.h"
#include "slice.h"
#include "vgb_version.h"
#include "vgp_worker.h"
#include "vgpu_device.h"

struct options {
    const char *provider;
    int fd;
    pid_t broker;
    unsigned minor;
    bool probe, layout_set;
    struct wrk_sandbox sandbox;
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
    "  --sandbox MODE     enforce (default), log what the filter would refuse, or off\n"
    "  --shm DIR          what the provider sees as /dev/shm\n"
    "  --cache DIR        where the provider keeps compiled code\n"
    "  --allow-hmm        serve a GPU whose kernels reach all memory of this process\n"
    "  --help, --version\n"
    "Exit status: 0 ended by the broker or by its client, 1 an error, 2 wrong usage,\n"
    "3 (with --probe) the provider works but has no device.\n";

static struct wrk_memory memory;
static struct wrk_worker worker = {.memory = &memory};

enum { ALLOW_HMM = 256 };

static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longopts[] = {{"probe", 0, NULL, 'p'},
                                             {"provider", 1, NULL, 'P'},
                                             {"fd", 1, NULL, 'f'},
                                             {"broker-pid", 1, NULL, 'b'},
                                             {"log-level", 1, NULL, 'l'},
                                             {"sandbox", 1, NULL, 's'},
                                             {"shm", 1, NULL, 'S'},
                                             {"cache", 1, NULL, 'c'},
                                             {"allow-hmm", 0, NULL, ALLOW_HMM},
                                             {"protocol-minor", 1, NULL, 'm'},
                                             {"layout-set", 0, NULL, 'y'},
                                             {"help", 0, NULL, 'h'},
                                             {"version", 0, NULL, 'v'},
                                             {NULL, 0, NULL, 0}};
    enum vgb_log_level level;
    int ch;

    while ((ch = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
        switch (ch) {
        case 'p':
            o->probe = true;
            break;
        case 'P':
            o->provider = optarg;
            break;
        case 'f':
            o->fd = atoi(optarg);
            break;
        case 'b':
            o->broker = (pid_t)atol(optarg);
            break;
        case 's':
            if (!wrk_sandbox_mode_parse(optarg, &o->sandbox.mode))
                return 2;
            break;
        case 'S':
            o->sandbox.shm = optarg;
            break;
        case 'c':
            o->sandbox.cache = optarg;
            break;
        case ALLOW_HMM:
            wrk_hmm_allow();
            break;
        case 'm':
            o->minor = (unsigned)atoi(optarg);
            break;
        case 'y':
            o->layout_set = true;
            break;
        case 'l':
            if (!vgb_log_level_parse(optarg, &level))
                return 2;
            vgb_log_init(2, level, "worker");
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        case 'v':
            printf("vgpu-worker %s\n", VGB_VERSION);
            exit(0);
        default:
            return 2;
        }
    }
    if (optind != argc || !o->provider || (!o->probe && o->fd < 0) || o->minor > VGP_VERSION_MINOR) {
        fputs(usage, stderr);
        return 2;
    }
    return 0;
}

/*
 * The kernel places programs, including guest programs, at the top of the address space by default.
 * To map guest memory at the guest's addresses, this process moves out of the way, to the legacy
 * layout, in which libraries and other mappings grow upwards from a third of the address space. The
 * broker starts it so (broker/workers/brk_spawn.c); where it does not, the process re-executes itself.
 * All addresses stay random. ThreadSanitizer supports the ordinary layout only: scripts/san.sh.
 */
static void move_out_of_the_way(int argc, char **argv)
{
#ifdef __SANITIZE_THREAD__
    (void)argc, (void)argv;
#else
    const unsigned long mask = ADDR_COMPAT_LAYOUT | ADDR_NO_RANDOMIZE;
    int now = personality(0xffffffff);
    char **args;

    if (now < 0 || ((unsigned long)now & mask) == ADDR_COMPAT_LAYOUT ||
        personality(((unsigned long)now & ~mask) | ADDR_COMPAT_LAYOUT) < 0)
        return;
    args = calloc((size_t)argc + 2, sizeof(*args));
    if (!args)
        return;
    memcpy(args, argv, (size_t)argc * sizeof(*args));
    args[argc] = (char *)(uintptr_t) "--layout-set";
    execv("/proc/self/exe", args);
    free(args); /* no re-execution: addresses may collide, which is reported to the guest */
#endif
}

static int probe_provider(const char *provider)
{
    char err[400];

    if (wrk_provider_open(provider, false, err, sizeof(err))) {
        fprintf(stderr, "vgpu-worker: %s\n", err);
        return 1;
    }
    printf("%d %d %s\n", wrk_capabilities.device_count, wrk_capabilities.driver_version,
           wrk_capabilities.device_name);
    return wrk_capabilities.device_count > 0 ? 0 : 3;
}

static int main_refuse(struct wrk_worker *w, const char *text)
{
    struct vgb_msg m = {.type = VGB_M_READY, .status = 1};

    snprintf(m.text, sizeof(m.text), "%s", text);
    vgb_msg_send(w->sock, &m, NULL, 0, 0);
    return 1;
}

static int announce_worker(struct wrk_worker *w)
{
    struct vgb_msg m = {.type = VGB_M_READY,
                        .value = (uint64_t)wrk_capabilities.device_count,
                        .offset = wrk_capabilities.memory,
                        .flags = wrk_capabilities.software_policy ? VGB_READY_SOFT : 0};

    snprintf(m.text, sizeof(m.text), "%s", wrk_capabilities.device_name);
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

/* For ps and top, to identify a client's worker. */
static void name_after(const char *label)
{
    char name[16];

    snprintf(name, sizeof(name), "vgpu-worker:%s", label);
    prctl(PR_SET_NAME, name);
}

/* Folder of MPS, if it is to be used; otherwise the broker names a folder that does not exist. */
static const char *mps_folder(void)
{
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    struct stat st;

    return folder && folder[0] == '/' && !stat(folder, &st) && S_ISDIR(st.st_mode) ? folder : NULL;
}

/* Single-threaded up to here: all later threads are in the sandbox. */
static int start_provider(struct wrk_worker *w, struct options *o)
{
    struct vgb_msg layers = {.type = VGB_M_SANDBOX};
    char err[400];

    o->sandbox.mps = mps_folder();
    if (wrk_sandbox_begin(&o->sandbox, err, sizeof(err))) {
        char text[VGB_MSG_TEXT];

        snprintf(text, sizeof(text), "no sandbox, no service: %.200s; see --sandbox", err);
        return main_refuse(w, text);
    }
    if (o->broker && getppid() != o->broker)
        return 1; /* the broker exited while PR_SET_PDEATHSIG was reset */
    snprintf(layers.text, sizeof(layers.text), "%s", o->sandbox.layers);
    if (vgb_msg_send(w->sock, &layers, NULL, 0, 0))
        return 1;
    bool private_shm = o->sandbox.mode == WRK_SANDBOX_OFF || o->sandbox.has_shm;
    if (wrk_provider_open(o->sandbox.provider, private_shm, err, sizeof(err)) ||
        wrk_hmm_check(err, sizeof(err)))
        return main_refuse(w, err);
    return announce_worker(w);
}

static void change_limits(struct wrk_worker *w, uint64_t device_memory, const struct vgb_limits *l)
{
    wrk_quota_change(w, device_memory);
    wrk_limits_change(l);
    wrk_stall_watch(w);
}

static const struct wrk_control_ops control_ops = {
    .map = wrk_region_map,
    .unmap = wrk_region_unmap,
    .placed = wrk_region_placed,
    .taken = wrk_region_taken,
    .place = wrk_layout_private,
    .limits = change_limits,
    .turn = wrk_flow_turn,
    .holder_gone = wrk_share_holder_gone,
};

/* 0, or -1 with the reason logged. */
static int main_wait_start(struct wrk_worker *w)
{
    struct vgb_msg start;

    wrk_control_init(&control_ops);
    if (wrk_control_wait_start(w, &start))
        return -1;
    wrk_quota_init(w, start.value);
    wrk_limits_set(w, &start.limits);
    if (start.flags & VGB_START_TURNS)
        wrk_flow_turn(w, false, 0, 0);
    return 0;
}

static int main_serve(struct wrk_worker *w, struct options *o)
{
    struct vgb_msg serving = {.type = VGB_M_SERVING};
    char err[400];

    be_first_to_go();
    wrk_slice_short();
    wrk_place_init();
    w->sock = o->fd;
    w->minor = o->minor;
    w->wake_fd = -1;
    w->doorbell = -1;
    pthread_mutex_init(&w->notify_lock, NULL);
    wrk_waits_init(&w->waits);
    wrk_regions_init(w);
    wrk_audit_init();
    if (!wrk_ring_init(&w->ring))
        return main_refuse(w, "out of memory");
    int r = start_provider(w, o);
    if (r)
        return r;
    if (main_wait_start(w))
        return 1;
    name_after(w->label);
    wrk_bounce_init(w);
    wrk_filters_install(w);
    wrk_share_init(w);
    if (wrk_notify_capture_output(w))
        vgb_log(VGB_WARN, "the output of kernels will not reach the guest");
    if (!wrk_layout_init())
        wrk_die(w, VGPU_DEAD_EXITED, "the addresses in use cannot be found out");
    if (wrk_sandbox_narrow(&o->sandbox, wrk_capabilities.software_policy, err, sizeof(err)))
        wrk_die(w, VGPU_DEAD_EXITED, "no sandbox, no service: %s", err);
    w->win.staging_piece = wrk_capabilities.software_policy ? VGP_PIECE_DEFAULT : VGP_PIECE_LARGE;
    wrk_window_publish(&w->win, w->minor);
    if (vgb_msg_send(w->sock, &serving, NULL, 0, 0))
        return 1;
    /* while the client is being notified, but not before the sandbox is complete */
    wrk_waits_prepare(w);
    wrk_loop(w);
}

int main(int argc, char **argv)
{
    struct options o = {.fd = -1, .minor = VGP_VERSION_MINOR};

    vgb_log_init(2, VGB_INFO, "worker");
    int bad = parse_options(argc, argv, &o);
    if (bad)
        return bad;
    signal(SIGPIPE, SIG_IGN);
    /* otherwise the allocator reads /sys for its limit, inside the sandbox */
    mallopt(M_ARENA_MAX, 8);
    if (o.probe)
        return probe_provider(o.provider);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (o.broker && getppid() != o.broker)
        return 1; /* the broker exited before the line above */
    if (!o.layout_set)
        move_out_of_the_way(argc, argv);
    o.sandbox.provider = o.provider;
    o.sandbox.broker = o.broker;
    o.sandbox.sock = o.fd;
    return main_serve(&worker, &o);
}
