/* SPDX-License-Identifier: MIT */
/* Choice of the workers' provider: NVIDIA's library if it finds a GPU, else the software GPU. */
#define _GNU_SOURCE
#include "main.h"

#include <errno.h>
#include <fcntl.h>
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

static bool find_soft(char *path, size_t size)
{
    static const char *const places[] = {"%s/libcuda-soft.so.1", "%s/../softgpu/libcuda-soft.so.1",
                                         "%s/../lib/vgpu/libcuda-soft.so.1", "%s/../lib/libcuda-soft.so.1"};
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

/* Runs `vgpu-worker --probe`; 0 = a device was found. `text` gets its output. */
static int probe_provider(const char *worker, const char *provider, char *text, size_t size)
{
    char *argv[] = {(char *)(uintptr_t)worker, (char *)"--probe", (char *)"--provider",
                    (char *)(uintptr_t)provider, NULL};
    posix_spawn_file_actions_t fa;
    char **env = NULL;
    size_t have = 0;
    int p[2], status = -1;
    pid_t pid;

    text[0] = '\0';
    if (pipe2(p, O_CLOEXEC))
        return -1;
    env = brk_worker_environment();
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&fa, p[1], 1);
    posix_spawn_file_actions_adddup2(&fa, p[1], 2);
    int e = env ? posix_spawn(&pid, worker, &fa, NULL, argv, env) : ENOMEM;
    free(env);
    posix_spawn_file_actions_destroy(&fa);
    close(p[1]);
    if (e) {
        snprintf(text, size, "cannot start %.200s: %s", worker, strerror(e));
        close(p[0]);
        return -1;
    }
    uint64_t end = vgb_now_ns() + VGB_MS_TO_NS(VGB_START_MS);
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

int brk_choose_provider(struct brk_options *o)
{
    static const char nvidia[] = "libcuda.so.1";
    char text[400];

    if (o->provider[0])
        return 0;
    if (o->gpu != BRK_GPU_SOFT) {
        if (!probe_provider(o->worker, nvidia, text, sizeof(text))) {
            memcpy(o->provider, nvidia, sizeof(nvidia));
            return 0;
        }
        if (o->gpu == BRK_GPU_NVIDIA) {
            vgb_log(VGB_ERROR, "no NVIDIA GPU: %s; --gpu soft uses the software GPU", text);
            return BRK_EXIT_NO_GPU;
        }
        vgb_log(VGB_INFO, "no NVIDIA GPU (%s): using the software GPU", text);
    }
    if (find_soft(o->provider, sizeof(o->provider))) {
        o->jit_cache = 0; /* it compiles in the worker and keeps nothing */
        o->jit_cache_vm = false;
        return 0;
    }
    vgb_log(VGB_ERROR, "the software GPU (libcuda-soft.so.1) is not beside this program nor in "
                       "../lib; give --provider PATH");
    return BRK_EXIT_NO_GPU;
}
