/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "main.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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
    "                      runs in the same client, and of a new client for the clearing of its\n"
    "                      window, 0 to 3600 (default 100); otherwise 7 seconds\n"
    "  --blob-quota SIZE   module images in transfer, of all clients together (default 2G)\n"
    "  --client-memory SIZE   host memory of one client's worker, without device memory and the memory\n"
    "                      that the client shares (default 8G)\n"
    "  --client-threads N  threads of one client's worker (default 1024)\n"
    "  --client-streams N  streams of one client (default 1024)\n"
    "  --client-handles N  objects of one client: streams, events, modules, graph nodes, textures,\n"
    "                      reserved addresses, ... (default 262144)\n"
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
    "  --pool N            workers started ahead, 0 to 16 (default 2; 0: none, whatever --pool-max says)\n"
    "  --pool-max N        workers started ahead while programs come in bursts, 0 to 64 (default 8); what is\n"
    "                      beyond --pool takes at most a sixteenth of the host's free memory\n"
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

/* Where the value of an option is kept, and as what. */
enum kind {
    TEXT,    /* const char *: the argument itself */
    WORD,    /* const char *: one of `want` */
    CHOICE,  /* an enumeration as int: one of `want`, in the order of its values from `low` on */
    YES,     /* bool, no argument */
    PATH,    /* char[4096] */
    USER,    /* uint32_t: a user's number, by name or number */
    GROUP,   /* uint32_t */
    NUMBER,  /* unsigned: low to high */
    SECONDS, /* unsigned, in milliseconds: low to high seconds */
    SIZE,    /* uint64_t: low to high bytes, or 0 */
    LIMIT,   /* low: enum brk_limit_id */
    CALL,    /* `call`: -1 = continue, else the exit code */
    ACT,     /* the same without an argument */
};

struct row {
    const char *name;
    enum kind kind;
    size_t at; /* in struct brk_options */
    uint64_t low, high;
    const char
        *want; /* after a value that is refused; of WORD and CHOICE the words, separated by ", " or " or " */
    int (*call)(struct brk_options *o, const char *arg);
    bool pace; /* implies --pace */
};

static int options_bad(const char *option, const char *value, const char *want)
{
    fprintf(stderr, "vgpu-backend: %s %s: %s\n", option, value, want);
    return BRK_EXIT_USAGE;
}

static bool parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *n)
{
    return brk_parse_size(text, n) && *n >= low && *n <= high;
}

static int take_name(struct brk_options *o, const char *arg)
{
    if (!brk_name_valid(arg))
        return options_bad("--name", arg, "1 to 48 letters, digits, '.', '_', '-', '@'");
    snprintf(o->name, sizeof(o->name), "%s", arg);
    return -1;
}

static int take_fd(struct brk_options *o, const char *arg)
{
    const char *wrong;
    uint64_t n;

    if (!parse_number(arg, 3, 1 << 20, &n))
        return options_bad("--fd", arg, "a descriptor number from 3 is needed");
    wrong = brk_inherit(o, (int)n);
    if (wrong)
        return options_bad("--fd", arg, wrong);
    /* The process that made the socket may have ended, and another broker would take the path for left over: this
     * process listens. A service manager's socket remains the manager's. */
    if (o->vhost_fd != (int)n || !o->vhost_connected)
        (void)listen((int)n, BRK_LISTEN_QUEUE);
    return -1;
}

static int take_log_level(struct brk_options *o, const char *arg)
{
    return vgb_log_level_parse(arg, &o->log_level) ? -1 : options_bad("--log-level", arg, "unknown level");
}

static int take_log_format(struct brk_options *o, const char *arg)
{
    return vgb_log_format_parse(arg, &o->log_format)
               ? -1
               : options_bad("--log-format", arg, "text, json or journal");
}

static int take_no_sandbox(struct brk_options *o, const char *arg)
{
    (void)arg;
    o->sandbox = "off";
    return -1;
}

static int take_jit_path(struct brk_options *o, const char *arg)
{
    if (strcmp(arg, "fd") && strcmp(arg, "shm"))
        return options_bad("--jit-cache-path", arg, "fd or shm");
    o->jit_cache_shm = !strcmp(arg, "shm");
    return -1;
}

static int take_cgroup(struct brk_options *o, const char *arg)
{
    if (strcmp(arg, "auto") && strcmp(arg, "off") && (*arg != '/' || strlen(arg) > 500))
        return options_bad("--cgroup", arg, "auto, off or a folder from the root");
    o->cgroup = arg;
    return -1;
}

static int take_window(struct brk_options *o, const char *arg)
{
    uint64_t n;

    if (!parse_number(arg, VGP_WINDOW_MIN, 1u << 30, &n) || n & (n - 1))
        return options_bad("--window-size", arg, "a power of two, 4M to 1G");
    o->window_size = n;
    return -1;
}

static int show_capabilities(struct brk_options *o, const char *arg)
{
    (void)o;
    (void)arg;
    fputs(capabilities, stdout);
    return 0;
}

static int show_help(struct brk_options *o, const char *arg)
{
    (void)o;
    (void)arg;
    fputs(usage, stdout);
    return 0;
}

static int show_version(struct brk_options *o, const char *arg)
{
    (void)o;
    (void)arg;
    printf("vgpu-backend %s\n", VGB_VERSION);
    return 0;
}

#define SET(option, how, field) .name = option, .kind = how, .at = offsetof(struct brk_options, field)
#define LIMITED(option, id) \
    { \
        .name = option, .kind = LIMIT, .low = BRK_L_##id \
    }
#define CALLED(option, function) \
    { \
        .name = option, .kind = CALL, .call = function \
    }

static const struct row rows[] = {
    LIMITED("vram-quota", VRAM),
    LIMITED("pin-quota", PIN),
    LIMITED("blob-quota", BLOBS),
    LIMITED("max-clients", CLIENTS),
    LIMITED("start-rate", RATE),
    LIMITED("client-memory", MEMORY),
    LIMITED("client-threads", THREADS),
    LIMITED("client-streams", STREAMS),
    LIMITED("client-handles", HANDLES),
    LIMITED("client-printf", PRINTF),
    LIMITED("weight", WEIGHT),
    LIMITED("cap", CAP),
    LIMITED("client-weight", CLIENT_WEIGHT),
    LIMITED("client-cap", CLIENT_CAP),
    LIMITED("client-priority", CLIENT_PRIORITY),
    LIMITED("client-image", IMAGE),
    LIMITED("client-compile-time", COMPILE),
    LIMITED("client-queue", QUEUE),
    LIMITED("client-time-limit", TIME),
    {SET("pace", YES, pace)},
    {SET("pacing", CHOICE, pacing), .low = BRK_PACING_AUTO, .want = "auto, stop or ring", .pace = true},
    {SET("arbiter", TEXT, arbiter), .pace = true},
    {SET("control", TEXT, control)},
    {SET("memory-policy", CHOICE, memory), .low = BRK_MEMORY_PROMISE, .want = "promise or ceiling"},
    {SET("memory-wait", SECONDS, memory_wait_ms), .high = 60, .want = "0 to 60 seconds"},
    {SET("vhost-user", TEXT, vhost_user)},
    {SET("socket-path", TEXT, vhost_user)},
    {SET("listen", TEXT, listen)},
    CALLED("fd", take_fd),
    CALLED("name", take_name),
    {SET("gpu", CHOICE, gpu), .low = BRK_GPU_AUTO, .want = "auto, soft or nvidia"},
    {SET("provider", PATH, provider)},
    {SET("worker", PATH, worker)},
    CALLED("window-size", take_window),
    {SET("long-call", SECONDS, long_call_ms), .high = 3600, .want = "0 to 3600 seconds"},
    {SET("pool", NUMBER, pool), .high = BRK_POOL_MAX, .want = "0 to 16"},
    {SET("pool-max", NUMBER, pool_max), .high = BRK_POOL_LEARNT_MAX, .want = "0 to 64"},
    {SET("ready-fd", NUMBER, ready_fd), .low = 1, .high = 1 << 20,
     .want = "a descriptor number from 1 is needed"},
    {SET("log", TEXT, log)},
    CALLED("log-level", take_log_level),
    CALLED("log-format", take_log_format),
    {SET("status", TEXT, status)},
    {SET("status-user", USER, status_uid), .want = "no such user"},
    {SET("peer-uid", USER, peer_uid), .want = "no such user"},
    {SET("peer-gid", GROUP, peer_gid), .want = "no such group"},
    {SET("protocol-minor", NUMBER, minor), .high = VGP_VERSION_MINOR, .want = "no version of the protocol"},
    {SET("sandbox", WORD, sandbox), .want = "enforce, log or off"},
    {.name = "no-sandbox", .kind = ACT, .call = take_no_sandbox},
    {SET("allow-hmm", YES, allow_hmm)},
    {SET("image-cache", SIZE, image_cache), .low = 1u << 20, .high = UINT64_C(64) << 30,
     .want = "0, or 1M to 64G"},
    {SET("jit-cache", SIZE, jit_cache), .low = 1u << 20, .high = UINT64_C(4) << 30, .want = "0, or 1M to 4G"},
    {SET("jit-cache-dir", TEXT, jit_cache_dir)},
    CALLED("jit-cache-path", take_jit_path),
    CALLED("cgroup", take_cgroup),
    {SET("cgroup-memory", SIZE, cgroup_memory), .high = UINT64_MAX, .want = "not a size"},
    {SET("cgroup-cpu", SIZE, cgroup_cpu), .high = 1u << 20, .want = "0, or percent"},
    {SET("cgroup-weight", SIZE, cgroup_weight), .high = 10000, .want = "0 to 10000"},
    {SET("cgroup-pids", SIZE, cgroup_pids), .high = 1u << 22, .want = "0 to 4M"},
    {.name = "print-capabilities", .kind = ACT, .call = show_capabilities},
    {.name = "help", .kind = ACT, .call = show_help},
    {.name = "version", .kind = ACT, .call = show_version},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))
#define FIRST 256 /* of getopt's numbers: the row behind it */

_Static_assert(sizeof(enum brk_gpu) == sizeof(int) && sizeof(enum brk_pacing) == sizeof(int) &&
                   sizeof(enum brk_memory) == sizeof(int),
               "CHOICE stores an int");

/* A variable of a unit that is not set, for instance. */
static int bad_empty(const char *name)
{
    fprintf(stderr, "vgpu-backend: --%s: its value is empty; see --help\n", name);
    return BRK_EXIT_USAGE;
}

/* Which of the words of a row it is, from 0; -1: none. */
static int word_of(const char *want, const char *arg)
{
    for (int i = 0;; i++) {
        size_t n = strcspn(want, ", ");

        if (strlen(arg) == n && !strncmp(want, arg, n))
            return i;
        want += n;
        if (!*want)
            return -1;
        want += *want == ',' ? strlen(", ") : strlen(" or ");
    }
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

/* Stores the value of a row without a function; false: it is none. */
static bool options_store(const struct row *row, void *to, const char *arg)
{
    int word = row->kind == WORD || row->kind == CHOICE ? word_of(row->want, arg) : 0;
    uint64_t n = 0;

    switch (row->kind) {
    case TEXT:
    case WORD:
        *(const char **)to = arg;
        return word >= 0;
    case CHOICE:
        *(int *)to = (int)row->low + word;
        return word >= 0;
    case YES:
        *(bool *)to = true;
        return true;
    case USER:
        return brk_parse_user(arg, to);
    case GROUP:
        return brk_parse_group(arg, to);
    case NUMBER:
    case SECONDS:
        if (!parse_number(arg, row->low, row->high, &n))
            return false;
        *(unsigned *)to = (unsigned)n * (row->kind == SECONDS ? 1000 : 1);
        return true;
    default: /* SIZE */
        if (!brk_parse_size(arg, &n) || (n && (n < row->low || n > row->high)))
            return false;
        *(uint64_t *)to = n;
        return true;
    }
}

/* -1 = continue, else the exit code. */
static int options_take(struct brk_options *o, const struct row *row, const char *arg)
{
    void *to = (char *)o + row->at;
    char option[40];

    if (row->pace)
        o->pace = true;
    if (row->kind == LIMIT)
        return take_limit(o, (enum brk_limit_id)row->low, arg);
    if (row->kind == CALL || row->kind == ACT)
        return row->call(o, arg);
    snprintf(option, sizeof(option), "--%s", row->name);
    if (row->kind == PATH) {
        if (strlen(arg) >= sizeof(o->worker))
            return options_bad(option, arg, "path too long");
        memcpy(to, arg, strlen(arg) + 1);
        return -1;
    }
    return options_store(row, to, arg) ? -1 : options_bad(option, arg, row->want);
}

/* The rows as getopt takes them. */
static const struct option *long_options(void)
{
    static struct option list[ROWS + 1];

    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];

        list[i] = (struct option){r->name, r->kind == YES || r->kind == ACT ? no_argument : required_argument,
                                  NULL, FIRST + (int)i};
    }
    return list;
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
    int ch;

    memset(o, 0, sizeof(*o));
    o->listen_fd = o->vhost_fd = o->ready_fd = o->cache_fd = o->shm_fd = -1;
    o->peer_uid = o->peer_gid = o->status_uid = BRK_ANYBODY;
    o->max_clients = 64;
    o->weight = o->client_weight = BRK_WEIGHT_DEFAULT;
    o->window_size = VGP_WINDOW_DEFAULT;
    o->pool = BRK_POOL_DEFAULT;
    o->pool_max = BRK_POOL_LEARNT_DEFAULT;
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
        if (!strcmp(argv[i], "--print-capabilities"))
            return show_capabilities(o, NULL);
    }
    argv[0] = name; /* of getopt's messages, as of all others */
    while ((ch = getopt_long(argc, argv, "", long_options(), NULL)) != -1) {
        int r;

        if (ch == '?') {
            fprintf(stderr, "vgpu-backend: see --help\n");
            return BRK_EXIT_USAGE;
        }
        r = optarg && !*optarg ? bad_empty(rows[ch - FIRST].name)
                               : options_take(o, &rows[ch - FIRST], optarg);
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
