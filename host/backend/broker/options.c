/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "broker.h"

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

#include "vgb_fd.h"
#include "vgb_version.h"

#define PROBE_TIMEOUT_MS 60000 /* a host with many GPUs and no persistence daemon is slow */

extern char **environ;

static const char usage[] =
    "Usage: vgpu-backend [--vhost-user PATH] [--listen PATH] [options]\n"
    "Gives CUDA to a virtual machine (vhost-user) or to programs of this host (unix socket).\n"
    "\n"
    "  --vhost-user PATH   listen here for QEMU: -chardev socket,id=c,path=PATH\n"
    "                      -device vgpu-cuda,chardev=c\n"
    "  --listen PATH       listen here for programs that use our libcuda.so.1 (VGPU_SOCKET=PATH)\n"
    "  --fd N              the same, on a listening SOCK_SEQPACKET socket inherited as N\n"
    "  --gpu KIND          soft: the software GPU; nvidia: the host's libcuda.so.1;\n"
    "                      auto (default): nvidia when it finds a device, else soft\n"
    "  --provider PATH     load this CUDA driver library instead\n"
    "  --worker PATH       the vgpu-worker program (default: beside this one)\n"
    "  --vram-quota SIZE   device memory of all clients together (default: no limit)\n"
    "  --pin-quota SIZE    guest memory shared with workers, together (default: no limit)\n"
    "  --max-clients N     clients at the same time, 1 to 256 (default 64)\n"
    "  --window-size SIZE  shared memory per client, a power of two, 4M to 1G (default 16M)\n"
    "  --pool N            workers started ahead, 0 to 16 (default 2)\n"
    "  --ready-fd N        write \"ready\\n\" there when a worker has started, then close it\n"
    "  --log FILE          log there; - is standard error (default)\n"
    "  --log-level LEVEL   error, warn, info (default) or debug\n"
    "  --protocol-minor N  workers know nothing that came after version 1.N of the protocol, as\n"
    "                      older ones do: for tests\n"
    "  --no-sandbox        workers keep all rights: for debugging only\n"
    "  --help, --version\n"
    "SIZE: bytes, or with K, M, G, T. Exit status: 0 ended by a signal, 1 an error,\n"
    "2 wrong usage, 3 no usable GPU.\n";

enum { O_VHOST = 256, O_LISTEN, O_FD, O_GPU, O_PROVIDER, O_WORKER, O_VRAM, O_PIN, O_CLIENTS,
       O_WINDOW, O_POOL, O_READY, O_LOG, O_LEVEL, O_MINOR, O_NOSANDBOX, O_HELP, O_VERSION };

static const struct option longopts[] = {
    {"vhost-user", 1, NULL, O_VHOST},   {"listen", 1, NULL, O_LISTEN},
    {"fd", 1, NULL, O_FD},              {"gpu", 1, NULL, O_GPU},
    {"provider", 1, NULL, O_PROVIDER},  {"worker", 1, NULL, O_WORKER},
    {"vram-quota", 1, NULL, O_VRAM},    {"pin-quota", 1, NULL, O_PIN},
    {"max-clients", 1, NULL, O_CLIENTS}, {"window-size", 1, NULL, O_WINDOW},
    {"pool", 1, NULL, O_POOL},          {"ready-fd", 1, NULL, O_READY},
    {"log", 1, NULL, O_LOG},            {"log-level", 1, NULL, O_LEVEL},
    {"no-sandbox", 0, NULL, O_NOSANDBOX}, {"protocol-minor", 1, NULL, O_MINOR},
    {"help", 0, NULL, O_HELP},
    {"version", 0, NULL, O_VERSION},    {NULL, 0, NULL, 0}};

bool vgb_parse_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno)
        return false;
    if (*end) {
        const char *u = strchr(units, *end);

        if (!u || end[1])
            return false;
        unsigned shift = 10 * (unsigned)(u - units + 1);
        if (n > UINT64_MAX >> shift)
            return false;
        n <<= shift;
    }
    *bytes = n;
    return true;
}

static bool parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *n)
{
    return vgb_parse_size(text, n) && *n >= low && *n <= high;
}

static int bad(const char *option, const char *value, const char *want)
{
    fprintf(stderr, "vgpu-backend: %s %s: %s\n", option, value, want);
    return VGB_EXIT_USAGE;
}

static int set_path(char *to, size_t size, const char *option, const char *value)
{
    if (strlen(value) >= size)
        return bad(option, value, "path too long");
    memcpy(to, value, strlen(value) + 1);
    return -1;
}

/* One option; -1 = fine, else the exit code. */
static int take(struct vgb_options *o, int ch, const char *arg)
{
    uint64_t n = 0;

    switch (ch) {
    case O_VHOST: o->vhost_user = arg; return -1;
    case O_LISTEN: o->listen = arg; return -1;
    case O_LOG: o->log = arg; return -1;
    case O_NOSANDBOX: o->no_sandbox = true; return -1;
    case O_PROVIDER: return set_path(o->provider, sizeof(o->provider), "--provider", arg);
    case O_WORKER: return set_path(o->worker, sizeof(o->worker), "--worker", arg);
    case O_FD:
        if (!parse_number(arg, 3, 1 << 20, &n))
            return bad("--fd", arg, "a descriptor number from 3 is needed");
        o->listen_fd = (int)n;
        return -1;
    case O_READY:
        if (!parse_number(arg, 1, 1 << 20, &n))
            return bad("--ready-fd", arg, "a descriptor number from 1 is needed");
        o->ready_fd = (int)n;
        return -1;
    case O_GPU:
        if (strcmp(arg, "auto") && strcmp(arg, "soft") && strcmp(arg, "nvidia"))
            return bad("--gpu", arg, "soft, nvidia or auto");
        o->gpu = *arg == 'a' ? VGB_GPU_AUTO : *arg == 's' ? VGB_GPU_SOFT : VGB_GPU_NVIDIA;
        return -1;
    case O_VRAM:
        return vgb_parse_size(arg, &o->vram_quota) ? -1 : bad("--vram-quota", arg, "not a size");
    case O_PIN:
        return vgb_parse_size(arg, &o->pin_quota) ? -1 : bad("--pin-quota", arg, "not a size");
    case O_CLIENTS:
        if (!parse_number(arg, 1, VGPU_MAX_CLIENTS, &n))
            return bad("--max-clients", arg, "1 to 256");
        o->max_clients = (uint32_t)n;
        return -1;
    case O_POOL:
        if (!parse_number(arg, 0, VGB_POOL_MAX, &n))
            return bad("--pool", arg, "0 to 16");
        o->pool = (unsigned)n;
        return -1;
    case O_MINOR:
        if (!parse_number(arg, 0, VGP_VERSION_MINOR, &n))
            return bad("--protocol-minor", arg, "no version of the protocol");
        o->minor = (unsigned)n;
        return -1;
    case O_WINDOW:
        if (!parse_number(arg, VGP_WINDOW_MIN, 1u << 30, &n) || n & (n - 1))
            return bad("--window-size", arg, "a power of two, 4M to 1G");
        o->window_size = n;
        return -1;
    case O_LEVEL:
        return vgb_log_level_parse(arg, &o->log_level) ? -1
                                                       : bad("--log-level", arg, "unknown level");
    case O_HELP: fputs(usage, stdout); return 0;
    case O_VERSION: printf("vgpu-backend %s\n", VGB_VERSION); return 0;
    default: return VGB_EXIT_USAGE;
    }
}

int vgb_options_parse(int argc, char **argv, struct vgb_options *o)
{
    char dir[4000];
    int ch;

    memset(o, 0, sizeof(*o));
    o->listen_fd = o->ready_fd = -1;
    o->max_clients = 64;
    o->window_size = VGP_WINDOW_DEFAULT;
    o->pool = VGB_POOL_DEFAULT;
    o->minor = VGP_VERSION_MINOR;
    o->log_level = VGB_INFO;
    while ((ch = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
        int r = take(o, ch, optarg);

        if (r >= 0)
            return r;
    }
    if (optind != argc)
        return bad("argument", argv[optind], "not understood; see --help");
    if (!o->vhost_user && !o->listen && o->listen_fd < 0)
        return bad("nothing to listen on:", "", "give --vhost-user, --listen or --fd; see --help");
    if (!o->worker[0]) {
        if (!vgb_exe_dir(dir, sizeof(dir)))
            return bad("--worker", "", "the program's own directory is unknown: give the path");
        snprintf(o->worker, sizeof(o->worker), "%s/vgpu-worker", dir);
    }
    if (access(o->worker, X_OK)) {
        fprintf(stderr, "vgpu-backend: %s: %s; give --worker PATH\n", o->worker, strerror(errno));
        return VGB_EXIT_ERROR;
    }
    return -1;
}

/* ---- which provider ---- */

static bool find_soft(char *path, size_t size)
{
    static const char *const places[] = {"%s/libcuda-soft.so.1", "%s/../softgpu/libcuda-soft.so.1",
                                         "%s/../lib/vgpu/libcuda-soft.so.1",
                                         "%s/../lib/libcuda-soft.so.1"};
    char dir[3900];

    if (vgb_exe_dir(dir, sizeof(dir))) {
        for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(path, size, places[i], dir);
#pragma GCC diagnostic pop
            if (!access(path, R_OK))
                return true;
        }
    }
    return false;
}

/* Runs `vgpu-worker --probe`; 0 = a device was found. `text` gets what it said. */
static int probe(const char *worker, const char *provider, char *text, size_t size)
{
    char *argv[] = {(char *)(uintptr_t)worker, (char *)"--probe", (char *)"--provider",
                    (char *)(uintptr_t)provider, NULL};
    posix_spawn_file_actions_t fa;
    size_t have = 0;
    int p[2], status = -1;
    pid_t pid;

    text[0] = '\0';
    if (pipe2(p, O_CLOEXEC))
        return -1;
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&fa, p[1], 1);
    posix_spawn_file_actions_adddup2(&fa, p[1], 2);
    int e = posix_spawn(&pid, worker, &fa, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    close(p[1]);
    if (e) {
        snprintf(text, size, "cannot start %.200s: %s", worker, strerror(e));
        close(p[0]);
        return -1;
    }
    uint64_t end = vgb_now_ns() + PROBE_TIMEOUT_MS * 1000000ull;
    for (;;) {
        struct pollfd pf = {.fd = p[0], .events = POLLIN};
        uint64_t now = vgb_now_ns();
        ssize_t n;

        if (now >= end || poll(&pf, 1, (int)((end - now) / 1000000u) + 1) <= 0) {
            kill(pid, SIGKILL);
            snprintf(text, size, "%s does not answer", provider);
            break;
        }
        n = have < size - 1 ? read(p[0], text + have, size - 1 - have) : 0;
        if (n <= 0)
            break;
        have += (size_t)n;
        text[have] = '\0';
    }
    close(p[0]);
    waitpid(pid, &status, 0);
    text[strcspn(text, "\n")] = '\0';
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int vgb_choose_provider(struct vgb_options *o)
{
    static const char nvidia[] = "libcuda.so.1";
    char text[400];

    if (o->provider[0])
        return 0;
    if (o->gpu != VGB_GPU_SOFT) {
        if (!probe(o->worker, nvidia, text, sizeof(text))) {
            memcpy(o->provider, nvidia, sizeof(nvidia));
            return 0;
        }
        if (o->gpu == VGB_GPU_NVIDIA) {
            vgb_log(VGB_ERROR, "no NVIDIA GPU: %s; --gpu soft uses the software GPU", text);
            return VGB_EXIT_NO_GPU;
        }
        vgb_log(VGB_INFO, "no NVIDIA GPU (%s): using the software GPU", text);
    }
    if (find_soft(o->provider, sizeof(o->provider)))
        return 0;
    vgb_log(VGB_ERROR, "the software GPU (libcuda-soft.so.1) is not beside this program nor in "
                       "../lib; give --provider PATH");
    return VGB_EXIT_NO_GPU;
}
