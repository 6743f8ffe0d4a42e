/* SPDX-License-Identifier: MIT */
/* Starts the private backend of a run and prepares the program's environment. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cli_config.h"
#include "base/vgpu_cli.h"

#define READY_MS 20000 /* loading NVIDIA's driver takes seconds on an idle machine */

void vgpu_cli_check_gpu(const char *gpu, bool none_allowed)
{
    if (strcmp(gpu, "soft") == 0 || strcmp(gpu, "nvidia") == 0 || strcmp(gpu, "auto") == 0 ||
        (none_allowed && strcmp(gpu, "none") == 0))
        return;
    vgpu_cli_wrong("--gpu: '%s' is not one of soft, nvidia, auto%s", gpu, none_allowed ? ", none" : "");
}

/* Kconfig's options for the software GPU are passed in its environment variables, unless the user
 * has set those. */
static void set_default(const char *name, const char *value)
{
    if (value[0])
        setenv(name, value, 0);
}

void vgpu_cli_backend_start(struct vgpu_cli_backend *b, const char *mode, const char *gpu)
{
    const char *backend = vgpu_cli_path(VGPU_PART_BACKEND);
    struct vgpu_cli_list argv = {0};
    struct vgpu_cli_spawn spawn = {.keep_fd = {-1, -1}};
    struct pollfd pfd = {.events = POLLIN};
    int ready[2];
    char byte, number[12] = "";

    set_default("VGPU_SOFT_THREADS", VGPU_CLI_SOFT_THREADS);
    set_default("VGPU_SOFT_MEMORY", VGPU_CLI_SOFT_MEMORY);
    set_default("VGPU_SOFT_CC", VGPU_CLI_SOFT_CC);
    if (b->number != 0)
        snprintf(number, sizeof(number), "%u", b->number);
    const char *name = b->name ? b->name : vgpu_cli_format("%d", (int)getpid());
    b->socket = vgpu_cli_format("%s/backend%s.sock", vgpu_cli_temp_dir(), number);
    b->log = vgpu_cli_verbose ? NULL : vgpu_cli_format("%s/backend%s.log", vgpu_cli_temp_dir(), number);
    unlink(b->socket);
    if (pipe2(ready, O_CLOEXEC))
        vgpu_cli_die("pipe: %s", strerror(errno));
    vgpu_cli_add(&argv, "%s", backend);
    vgpu_cli_add(&argv, "%s", mode);
    vgpu_cli_add(&argv, "%s", b->socket);
    vgpu_cli_add(&argv, "--name");
    vgpu_cli_add(&argv, "%s%s%s", name, *number ? "-" : "", number);
    vgpu_cli_add(&argv, "--gpu");
    vgpu_cli_add(&argv, "%s", gpu);
    vgpu_cli_add(&argv, "--ready-fd");
    vgpu_cli_add(&argv, "%d", ready[1]);
    if (!VGPU_CLI_SANDBOX)
        vgpu_cli_add(&argv, "--no-sandbox");
    spawn.argv = argv.items;
    spawn.log = b->log;
    spawn.keep_fd[0] = ready[1];
    /*
     * libcuda applies both; applied by the backend as well, their indices would be translated
     * twice.
     */
    if (b->all_devices) {
        unsetenv("CUDA_VISIBLE_DEVICES");
        unsetenv("CUDA_DEVICE_ORDER");
    }
    b->pid = vgpu_cli_spawn(&spawn);
    if (b->pid < 0)
        vgpu_cli_die("cannot run the backend %s: %s", backend, strerror(-b->pid));
    close(ready[1]);
    /* End of file without a byte: the backend has ended. */
    pfd.fd = ready[0];
    if (poll(&pfd, 1, READY_MS) != 1 || read(ready[0], &byte, 1) != 1) {
        vgpu_cli_say("the backend (--gpu %s) did not start%s", gpu, b->log ? ":" : "");
        vgpu_cli_stop(&b->pid, 500);
        if (b->log)
            vgpu_cli_show_tail(b->log, 12);
        vgpu_cli_cleanup();
        exit(VGPU_CLI_FAILED);
    }
    close(ready[0]);
}

void vgpu_cli_backends_start(struct vgpu_cli_backend *b, long count, const char *mode, const char *gpu)
{
    for (long i = 0; i < count; i++) {
        b[i].number = (unsigned)i;
        b[i].all_devices = true; /* the program's environment has both variables */
        vgpu_cli_backend_start(&b[i], mode, gpu);
    }
}

void vgpu_cli_guest_env(struct vgpu_cli_list *env, const char *trace)
{
    const char *ours = vgpu_cli_path(VGPU_PART_LIBCUDA);
    const char *nvml = vgpu_cli_path_if_there(VGPU_PART_NVML);
    const char *before = vgpu_cli_getenv(env, "LD_LIBRARY_PATH");
    bool second = nvml && strcmp(nvml, ours) != 0; /* both in one folder if installed */
    char *path = vgpu_cli_format("%s%s%s%s%s", ours, second ? ":" : "", second ? nvml : "",
                                 before && *before ? ":" : "", before ? before : "");

    vgpu_cli_setenv(env, "LD_LIBRARY_PATH", path);
    free(path);
    if (trace)
        vgpu_cli_setenv(env, "VGPU_TRACE", *trace ? trace : "1");
}
