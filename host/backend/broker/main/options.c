/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "main.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgb_deadline.h"
#include "vgb_fd.h"
#include "vgb_version.h"

static const char usage[] =
    "Usage: vgpu-backend [--vhost-user PATH] [--listen PATH] [options]\n"
    "Gives CUDA to a virtual machine (vhost-user) or to programs of this host (unix socket).\n"
    "\n"
    "  --vhost-user PATH   listen here for QEMU: -chardev socket,id=c,path=PATH\n"
    "                      -device vgpu-cuda,chardev=c\n"
    "  --listen PATH       listen here for programs that use our libcuda.so.1 (VGPU_SOCKET=PATH)\n"
    "  --fd N              a unix socket inherited as N: listening SOCK_SEQPACKET as with --listen;\n"
    "                      SOCK_STREAM, listening or connected to QEMU, as with --vhost-user; twice for\n"
    "                      both. The sockets of a systemd socket unit (LISTEN_FDS) need no option\n"
    "  --socket-path PATH  the same as --vhost-user\n"
    "  --peer-uid USER     only programs of this user, name or number, may connect to these sockets, besides\n"
    "                      root and the broker's own user (default: whom the socket's file lets)\n"
    "  --peer-gid GROUP    only programs of this group may; of --peer-uid and --peer-gid one suffices\n"
    "  --name NAME         of the virtual machine, for log, `vgpu smi --host` and `vgpu metrics`: at most 48\n"
    "                      letters, digits, '.', '_', '-', '@' (default: the socket's, without folder and \".sock\")\n"
    "  --print-capabilities   what QEMU's conventions for vhost-user programs ask for, as JSON\n"
    "  --gpu KIND          soft: the software GPU; nvidia: the host's libcuda.so.1;\n"
    "                      auto (default): nvidia when it finds a device, else soft\n"
    "  --provider PATH     load this CUDA driver library instead\n"
    "  --worker PATH       the vgpu-worker program (default: beside this one)\n"
    "  --vram-quota SIZE   device memory of all clients together (default 0: no quota; the GPU refuses\n"
    "                      what it does not have)\n"
    "  --memory-policy P   promise: the quota is reserved; a broker does not start if the quotas of the VMs\n"
    "                      with the same --arbiter would exceed the GPU's memory. ceiling: quotas may add up\n"
    "                      to more; an allocation fails when the GPU's memory is exhausted\n"
    "  --memory-wait S     seconds that an allocation waits for device memory, 0 to 60 (default 0: it\n"
    "                      fails at once)\n"
    "  --pin-quota SIZE    guest memory shared with workers, together (default: the host's memory)\n"
    "  --max-clients N     clients at the same time, 1 to 256 (default 64)\n"
    "  --start-rate N      workers started per second; a burst of twice --max-clients is free, later\n"
    "                      clients wait (default 50)\n"
    "  --long-call SECONDS   longest wait of a request to share memory while a call of the GPU's driver\n"
    "                      runs in the same client, 0 to 3600 (default 100); otherwise 7 seconds\n"
    "  --blob-quota SIZE   module images in transfer, of all clients together (default 2G)\n"
    "  --client-memory SIZE   host memory of one client's worker, without device memory and the memory\n"
    "                      that the client shares (default 8G)\n"
    "  --client-threads N  threads of one client's worker (default 1024)\n"
    "  --client-streams N  streams of one client (default 1024)\n"
    "  --client-handles N  objects of one client: streams, events, modules, graph nodes, ... (default\n"
    "                      262144)\n"
    "  --client-printf SIZE   printf buffer of one client's kernels (default 64M)\n"
    "  --client-image SIZE   size of one module image, or of the input of one linker (default 512M)\n"
    "  --client-compile-time S   processor time of one call that compiles or links; a client that exceeds\n"
    "                      it is ended (default 600)\n"
    "  --client-queue N    incomplete calls that put work into streams; further ones wait on the ring\n"
    "                      (default 65536)\n"
    "  --client-time-limit S   ends a client when none of its work completes for so many seconds, 1 to\n"
    "                      86400 (default 0: no limit)\n"
    "  (0 for a limit from --pin-quota to here: no limit.)\n"
    "  --weight N          this VM's share of the GPU among those of the same --arbiter, 1 to\n"
    "                      1000 (default 100)\n"
    "  --cap PERCENT       upper limit of this VM's share of the GPU (default 0: no cap)\n"
    "  --client-weight N   a client's share of the GPU in its VM, 1 to 1000 (default 100)\n"
    "  --client-cap PERCENT   upper limit of a client's share of the GPU (default 0: no cap)\n"
    "  --client-priority N   work of a higher priority goes first, within the client's share: 0 (default)\n"
    "                      to 2\n"
    "  --pace              enforce shares; implied by the five options above and by --arbiter\n"
    "  --pacing HOW        how shares are enforced. stop: by processor time; workers that are ahead are\n"
    "                      lowered in priority or stopped (software GPU only). ring: clients submit in\n"
    "                      turn, with a bounded amount of work in flight. auto (default): stop for the\n"
    "                      software GPU, else ring\n"
    "  --arbiter FILE      share the GPU by weight with the VMs whose brokers name the same file; created\n"
    "                      if missing\n"
    "  --control PATH      listen here for `vgpu ctl`, which changes the limits and shares above\n"
    "  --status PATH       listen here, too, for `vgpu smi --host` and `vgpu metrics`, which look for\n"
    "                      /run/vgpu-backend/*/status: needed in a network namespace of its own\n"
    "  --status-user USER  this user, name or number, may read that one, besides root and the broker's user\n"
    "  --window-size SIZE  shared memory per client, a power of two, 4M to 1G (default 16M)\n"
    "  --pool N            workers started ahead, 0 to 16 (default 2)\n"
    "  --ready-fd N        write \"ready\\n\" there when a worker has started, then close it\n"
    "  --log FILE          log there; - is standard error (default)\n"
    "  --log-format FORM   text (default); json: an object a line; journal: to systemd's journal, with\n"
    "                      fields (no --log)\n"
    "  --log-level LEVEL   error, warn, info (default) or debug\n"
    "  --protocol-minor N  workers speak version 1.N of the protocol, as older ones do: for tests\n"
    "  --sandbox MODE      enforce (default): a worker without system call filter, without limits\n"
    "                      on files or with capabilities is not started; log: system calls that\n"
    "                      the filter would refuse are logged by name and made; off: workers keep\n"
    "                      all rights (log and off are for debugging; --no-sandbox is off)\n"
    "  --image-cache SIZE  keep images of programs (PTX, cubins, fat binaries), by their hash, so that the\n"
    "                      next program of this VM need not send them; 1M to 64G, in the host's memory, or\n"
    "                      0: keep none. To hash one takes longer than to send it (default 0)\n"
    "  --jit-cache SIZE    cache of NVIDIA's library for compiled code, shared by the workers of this\n"
    "                      process, 1M to 4G, or 0: each worker compiles for itself. Programs that share\n"
    "                      it can run code in each other (default: 0 for a VM; else 256M)\n"
    "  --jit-cache-dir DIR   load the cache from DIR and save it there at the end; one VM each, and that\n"
    "                      with --jit-cache (default: the cache ends with this process)\n"
    "  --jit-cache-path HOW   fd (default): the library gets the path /proc/self/fd/4, a file system of\n"
    "                      limited size; shm: /dev/shm/jit, limited by the host's /dev/shm only and not\n"
    "                      saved, for a library that does not accept the former\n"
    "  --cgroup WHERE      a control group for all workers: auto (default): below this process's, where that\n"
    "                      is delegated; DIR: below this one, or no service; off: none\n"
    "  --cgroup-memory SIZE   memory of all workers together; needs a control group (default 0: no limit)\n"
    "  --cgroup-cpu PERCENT   processor time of all workers, 100 is one processor (default 0: no limit)\n"
    "  --cgroup-weight N   cpu.weight of the workers' group, 1 to 10000 (default 0: the kernel's)\n"
    "  --cgroup-pids N     processes and threads of all workers (default 0: the sum of --client-threads)\n"
    "  --allow-hmm         serve a GPU whose kernels reach all memory of the worker (HMM, ATS)\n"
    "  --help, --version\n"
    "Workers get these environment variables and no others: VGPU_SOFT_*, VGPU_TEST_*, CUDA_* but\n"
    "for CUDA_INJECTION* and CUDA_CACHE_*, LD_LIBRARY_PATH, LANG, LC_ALL, TZ, the options of sanitizers. Without\n"
    "CUDA_MPS_PIPE_DIRECTORY a running MPS daemon is not used; with it workers may connect to the\n"
    "sockets in that folder.\n"
    "SIZE: bytes, or with K, M, G, T. Exit status: 0 ended by a signal, 1 an error,\n"
    "2 wrong usage, or an option that cannot be had here, 3 no usable GPU.\n";

/*
 * The schema (QEMU's docs/interop/vhost-user.json) has no type for a device of our own. "gpu" means
 * virtio-gpu: a manager would start us for a display. "rpmsg", messages to a remote processor, has
 * no device in QEMU.
 */
static const char capabilities[] = "{\n  \"type\": \"rpmsg\",\n  \"features\": []\n}\n";

enum {
    O_VHOST = 256,
    O_LISTEN,
    O_FD,
    O_NAME,
    O_GPU,
    O_PROVIDER,
    O_WORKER,
    O_WINDOW,
    O_LONG,
    O_POOL,
    O_READY,
    O_PACE,
    O_PACING,
    O_ARBITER,
    O_CONTROL,
    O_MEMORY,
    O_WAIT,
    O_LOG,
    O_LEVEL,
    O_FORMAT,
    O_STATUS,
    O_STATUSUSER,
    O_PEERUID,
    O_PEERGID,
    O_MINOR,
    O_NOSANDBOX,
    O_SANDBOX,
    O_HMM,
    O_IMAGES,
    O_JIT,
    O_JITDIR,
    O_JITPATH,
    O_CGROUP,
    O_CGMEMORY,
    O_CGCPU,
    O_CGWEIGHT,
    O_CGPIDS,
    O_HELP,
    O_VERSION,
    O_LIMITS /* and enum brk_limit_id */
};

#define LIMIT(name, id) \
    { \
        name, 1, NULL, O_LIMITS + BRK_L_##id \
    }

static const struct option longopts[] = {LIMIT("vram-quota", VRAM),
                                         LIMIT("pin-quota", PIN),
                                         LIMIT("blob-quota", BLOBS),
                                         LIMIT("max-clients", CLIENTS),
                                         LIMIT("start-rate", RATE),
                                         LIMIT("client-memory", MEMORY),
                                         LIMIT("client-threads", THREADS),
                                         LIMIT("client-streams", STREAMS),
                                         LIMIT("client-handles", HANDLES),
                                         LIMIT("client-printf", PRINTF),
                                         LIMIT("weight", WEIGHT),
                                         LIMIT("cap", CAP),
                                         LIMIT("client-weight", CLIENT_WEIGHT),
                                         LIMIT("client-cap", CLIENT_CAP),
                                         LIMIT("client-priority", CLIENT_PRIORITY),
                                         LIMIT("client-image", IMAGE),
                                         LIMIT("client-compile-time", COMPILE),
                                         LIMIT("client-queue", QUEUE),
                                         LIMIT("client-time-limit", TIME),
                                         {"pace", 0, NULL, O_PACE},
                                         {"pacing", 1, NULL, O_PACING},
                                         {"arbiter", 1, NULL, O_ARBITER},
                                         {"control", 1, NULL, O_CONTROL},
                                         {"memory-policy", 1, NULL, O_MEMORY},
                                         {"memory-wait", 1, NULL, O_WAIT},
                                         {"vhost-user", 1, NULL, O_VHOST},
                                         {"listen", 1, NULL, O_LISTEN},
                                         {"fd", 1, NULL, O_FD},
                                         {"name", 1, NULL, O_NAME},
                                         {"gpu", 1, NULL, O_GPU},
                                         {"provider", 1, NULL, O_PROVIDER},
                                         {"worker", 1, NULL, O_WORKER},
                                         {"window-size", 1, NULL, O_WINDOW},
                                         {"long-call", 1, NULL, O_LONG},
                                         {"pool", 1, NULL, O_POOL},
                                         {"ready-fd", 1, NULL, O_READY},
                                         {"log", 1, NULL, O_LOG},
                                         {"log-level", 1, NULL, O_LEVEL},
                                         {"log-format", 1, NULL, O_FORMAT},
                                         {"status", 1, NULL, O_STATUS},
                                         {"status-user", 1, NULL, O_STATUSUSER},
                                         {"peer-uid", 1, NULL, O_PEERUID},
                                         {"peer-gid", 1, NULL, O_PEERGID},
                                         {"no-sandbox", 0, NULL, O_NOSANDBOX},
                                         {"protocol-minor", 1, NULL, O_MINOR},
                                         {"sandbox", 1, NULL, O_SANDBOX},
                                         {"allow-hmm", 0, NULL, O_HMM},
                                         {"socket-path", 1, NULL, O_VHOST},
                                         {"print-capabilities", 0, NULL, 0},
                                         {"image-cache", 1, NULL, O_IMAGES},
                                         {"jit-cache", 1, NULL, O_JIT},
                                         {"jit-cache-dir", 1, NULL, O_JITDIR},
                                         {"jit-cache-path", 1, NULL, O_JITPATH},
                                         {"cgroup", 1, NULL, O_CGROUP},
                                         {"cgroup-memory", 1, NULL, O_CGMEMORY},
                                         {"cgroup-pids", 1, NULL, O_CGPIDS},
                                         {"cgroup-cpu", 1, NULL, O_CGCPU},
                                         {"cgroup-weight", 1, NULL, O_CGWEIGHT},
                                         {"help", 0, NULL, O_HELP},
                                         {"version", 0, NULL, O_VERSION},
                                         {NULL, 0, NULL, 0}};

static bool parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *n)
{
    return brk_parse_size(text, n) && *n >= low && *n <= high;
}

static int options_bad(const char *option, const char *value, const char *want)
{
    fprintf(stderr, "vgpu-backend: %s %s: %s\n", option, value, want);
    return BRK_EXIT_USAGE;
}

/* A variable of a unit that is not set, for instance. */
static int bad_empty(const char *name)
{
    fprintf(stderr, "vgpu-backend: --%s: its value is empty; see --help\n", name);
    return BRK_EXIT_USAGE;
}

static int set_path(char *to, size_t size, const char *option, const char *value)
{
    if (strlen(value) >= size)
        return options_bad(option, value, "path too long");
    memcpy(to, value, strlen(value) + 1);
    return -1;
}

/* Parses a limit; -1 = continue, else the exit code. */
static int take_limit(struct brk_options *o, enum brk_limit_id id, const char *arg)
{
    char option[40], want[80];
    uint64_t n;

    if (!brk_limit_parse(id, arg, &n, want)) {
        snprintf(option, sizeof(option), "--%s", brk_limits[id].name);
        return options_bad(option, arg, want);
    }
    brk_limit_put(o, id, n);
    if (brk_limit_is_share(id))
        o->pace = true;
    return -1;
}

/* Parses an option; -1 = continue, else the exit code. */
static int options_take(struct brk_options *o, int ch, const char *arg)
{
    const char *wrong;
    uint64_t n = 0;

    if (ch >= O_LIMITS)
        return take_limit(o, (enum brk_limit_id)(ch - O_LIMITS), arg);
    switch (ch) {
    case O_VHOST:
        o->vhost_user = arg;
        return -1;
    case O_LISTEN:
        o->listen = arg;
        return -1;
    case O_NAME:
        if (!brk_name_valid(arg))
            return options_bad("--name", arg, "1 to 48 letters, digits, '.', '_', '-', '@'");
        snprintf(o->name, sizeof(o->name), "%s", arg);
        return -1;
    case O_LOG:
        o->log = arg;
        return -1;
    case O_STATUS:
        o->status = arg;
        return -1;
    case O_STATUSUSER:
        return brk_parse_user(arg, &o->status_uid) ? -1 : options_bad("--status-user", arg, "no such user");
    case O_PEERUID:
        return brk_parse_user(arg, &o->peer_uid) ? -1 : options_bad("--peer-uid", arg, "no such user");
    case O_PEERGID:
        return brk_parse_group(arg, &o->peer_gid) ? -1 : options_bad("--peer-gid", arg, "no such group");
    case O_FORMAT:
        return vgb_log_format_parse(arg, &o->log_format)
                   ? -1
                   : options_bad("--log-format", arg, "text, json or journal");
    case O_NOSANDBOX:
        o->sandbox = "off";
        return -1;
    case O_IMAGES:
        if (!brk_parse_size(arg, &n) || (n && (n < 1u << 20 || n > UINT64_C(64) << 30)))
            return options_bad("--image-cache", arg, "0, or 1M to 64G");
        o->image_cache = n;
        return -1;
    case O_JITDIR:
        o->jit_cache_dir = arg;
        return -1;
    case O_JITPATH:
        if (strcmp(arg, "fd") && strcmp(arg, "shm"))
            return options_bad("--jit-cache-path", arg, "fd or shm");
        o->jit_cache_shm = !strcmp(arg, "shm");
        return -1;
    case O_JIT:
        if (!brk_parse_size(arg, &n) || (n && (n < 1u << 20 || n > UINT64_C(4) << 30)))
            return options_bad("--jit-cache", arg, "0, or 1M to 4G");
        o->jit_cache = n;
        return -1;
    case O_CGROUP:
        if (strcmp(arg, "auto") && strcmp(arg, "off") && (*arg != '/' || strlen(arg) > 500))
            return options_bad("--cgroup", arg, "auto, off or a folder from the root");
        o->cgroup = arg;
        return -1;
    case O_CGMEMORY:
        return brk_parse_size(arg, &o->cgroup_memory) ? -1
                                                      : options_bad("--cgroup-memory", arg, "not a size");
    case O_CGCPU:
        return parse_number(arg, 0, 1u << 20, &o->cgroup_cpu)
                   ? -1
                   : options_bad("--cgroup-cpu", arg, "0, or percent");
    case O_CGWEIGHT:
        return parse_number(arg, 0, 10000, &o->cgroup_weight)
                   ? -1
                   : options_bad("--cgroup-weight", arg, "0 to 10000");
    case O_CGPIDS:
        return parse_number(arg, 0, 1u << 22, &o->cgroup_pids) ? -1
                                                               : options_bad("--cgroup-pids", arg, "0 to 4M");
    case O_HMM:
        o->allow_hmm = true;
        return -1;
    case O_SANDBOX:
        if (strcmp(arg, "enforce") && strcmp(arg, "log") && strcmp(arg, "off"))
            return options_bad("--sandbox", arg, "enforce, log or off");
        o->sandbox = arg;
        return -1;
    case O_PROVIDER:
        return set_path(o->provider, sizeof(o->provider), "--provider", arg);
    case O_WORKER:
        return set_path(o->worker, sizeof(o->worker), "--worker", arg);
    case O_FD:
        if (!parse_number(arg, 3, 1 << 20, &n))
            return options_bad("--fd", arg, "a descriptor number from 3 is needed");
        wrong = brk_inherit(o, (int)n);
        return wrong ? options_bad("--fd", arg, wrong) : -1;
    case O_READY:
        if (!parse_number(arg, 1, 1 << 20, &n))
            return options_bad("--ready-fd", arg, "a descriptor number from 1 is needed");
        o->ready_fd = (int)n;
        return -1;
    case O_GPU:
        if (strcmp(arg, "auto") && strcmp(arg, "soft") && strcmp(arg, "nvidia"))
            return options_bad("--gpu", arg, "soft, nvidia or auto");
        o->gpu = *arg == 'a' ? BRK_GPU_AUTO : *arg == 's' ? BRK_GPU_SOFT : BRK_GPU_NVIDIA;
        return -1;
    case O_LONG:
        if (!parse_number(arg, 0, 3600, &n))
            return options_bad("--long-call", arg, "0 to 3600 seconds");
        o->long_call_ms = (unsigned)n * 1000;
        return -1;
    case O_MEMORY:
        if (strcmp(arg, "promise") && strcmp(arg, "ceiling"))
            return options_bad("--memory-policy", arg, "promise or ceiling");
        o->memory = *arg == 'p' ? BRK_MEMORY_PROMISE : BRK_MEMORY_CEILING;
        return -1;
    case O_WAIT:
        if (!parse_number(arg, 0, 60, &n))
            return options_bad("--memory-wait", arg, "0 to 60 seconds");
        o->memory_wait_ms = (unsigned)n * 1000;
        return -1;
    case O_PACE:
        o->pace = true;
        return -1;
    case O_PACING:
        if (strcmp(arg, "auto") && strcmp(arg, "stop") && strcmp(arg, "ring"))
            return options_bad("--pacing", arg, "stop, ring or auto");
        o->pacing = *arg == 'a' ? BRK_PACING_AUTO : *arg == 's' ? BRK_PACING_STOP : BRK_PACING_RING;
        o->pace = true;
        return -1;
    case O_ARBITER:
        o->arbiter = arg;
        o->pace = true;
        return -1;
    case O_CONTROL:
        o->control = arg;
        return -1;
    case O_POOL:
        if (!parse_number(arg, 0, BRK_POOL_MAX, &n))
            return options_bad("--pool", arg, "0 to 16");
        o->pool = (unsigned)n;
        return -1;
    case O_MINOR:
        if (!parse_number(arg, 0, VGP_VERSION_MINOR, &n))
            return options_bad("--protocol-minor", arg, "no version of the protocol");
        o->minor = (unsigned)n;
        return -1;
    case O_WINDOW:
        if (!parse_number(arg, VGP_WINDOW_MIN, 1u << 30, &n) || n & (n - 1))
            return options_bad("--window-size", arg, "a power of two, 4M to 1G");
        o->window_size = n;
        return -1;
    case O_LEVEL:
        return vgb_log_level_parse(arg, &o->log_level) ? -1
                                                       : options_bad("--log-level", arg, "unknown level");
    case O_HELP:
        fputs(usage, stdout);
        return 0;
    case O_VERSION:
        printf("vgpu-backend %s\n", VGB_VERSION);
        return 0;
    default:
        fprintf(stderr, "vgpu-backend: see --help\n");
        return BRK_EXIT_USAGE;
    }
}

/* Memory that does not exist need not be promised. */
static uint64_t host_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

int brk_options_parse(int argc, char **argv, struct brk_options *o)
{
    static char name[] = "vgpu-backend";
    char dir[4000];
    int ch, index = 0;

    memset(o, 0, sizeof(*o));
    o->listen_fd = o->vhost_fd = o->ready_fd = o->cache_fd = o->shm_fd = -1;
    o->peer_uid = o->peer_gid = o->status_uid = BRK_ANYBODY;
    o->max_clients = 64;
    o->weight = o->client_weight = BRK_WEIGHT_DEFAULT;
    o->window_size = VGP_WINDOW_DEFAULT;
    o->pool = BRK_POOL_DEFAULT;
    o->long_call_ms = VGB_LONG_MS;
    o->start_rate = 50;
    o->pin_quota = host_memory();
    o->blob_quota = UINT64_C(2) << 30;
    o->limits = (struct vgb_limits){.memory = UINT64_C(8) << 30,
                                    .printf_fifo = 64 << 20,
                                    .threads = 1024,
                                    .streams = 1024,
                                    .handles = 1 << 18,
                                    .image = 512 << 20,
                                    .compile_s = 600,
                                    .queue = 1 << 16};
    o->minor = VGP_VERSION_MINOR;
    o->log_level = VGB_INFO;
    o->sandbox = "enforce";
    o->jit_cache = BRK_CACHE_DEFAULT;
    for (int i = 1; i < argc; i++) { /* all other options are ignored with it */
        if (!strcmp(argv[i], "--print-capabilities")) {
            fputs(capabilities, stdout);
            return 0;
        }
    }
    argv[0] = name; /* of getopt's messages, as of all others */
    while ((ch = getopt_long(argc, argv, "", longopts, &index)) != -1) {
        int r =
            ch != '?' && optarg && !*optarg ? bad_empty(longopts[index].name) : options_take(o, ch, optarg);

        if (r >= 0)
            return r;
    }
    o->limits.blobs = o->blob_quota;
    if (optind != argc)
        return options_bad("argument", argv[optind], "not understood; see --help");
    ch = brk_inherit_activation(o);
    if (ch >= 0)
        return ch;
    if (o->vhost_user && o->vhost_fd >= 0)
        return options_bad("--vhost-user", o->vhost_user,
                           "QEMU's socket is inherited: one of the two is needed");
    if (o->listen && o->listen_fd >= 0)
        return options_bad("--listen", o->listen,
                           "the socket of programs is inherited: one of the two is needed");
    if (!o->vhost_user && !o->listen && o->listen_fd < 0 && o->vhost_fd < 0)
        return options_bad("nothing to listen on:", "", "give --vhost-user, --listen or --fd; see --help");
    if (!o->name[0])
        brk_name_by_socket(o);
    if (!brk_cache_choose(o))
        return options_bad("--jit-cache-dir", o->jit_cache_dir,
                           "programs of a VM share code with --jit-cache SIZE only");
    if (o->memory != BRK_MEMORY_ALONE && !o->vram_quota)
        return options_bad("--memory-policy", "", "it says what --vram-quota means: give that, too");
    if (!o->worker[0]) {
        if (!vgb_exe_dir(dir, sizeof(dir)))
            return options_bad("--worker", "", "the program's own directory is unknown: give the path");
        snprintf(o->worker, sizeof(o->worker), "%s/vgpu-worker", dir);
    }
    if (access(o->worker, X_OK)) {
        fprintf(stderr, "vgpu-backend: %s: %s; give --worker PATH\n", o->worker, strerror(errno));
        return BRK_EXIT_ERROR;
    }
    return -1;
}
