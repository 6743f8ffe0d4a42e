/* SPDX-License-Identifier: MIT */
/* vgpu-backend: options, start, exit. */
#define _GNU_SOURCE
#include "main.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "vgb_fd.h"

static int open_log(const struct brk_options *o)
{
    int fd = 2;

    if (o->log_format == VGB_LOG_JOURNAL) {
        fd = o->log ? -EINVAL : vgb_log_journal(VGB_LOG_JOURNAL_PATH);
        if (fd < 0) {
            fprintf(stderr, "vgpu-backend: --log-format journal: %s\n",
                    o->log ? "it goes to the journal, not to --log" : strerror(-fd));
            return o->log ? BRK_EXIT_USAGE : BRK_EXIT_ERROR;
        }
    } else if (o->log && strcmp(o->log, "-")) {
        fd = open(o->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (fd < 0) {
            fprintf(stderr, "vgpu-backend: --log %s: %s\n", o->log, brk_unit_error(errno));
            return BRK_EXIT_USAGE;
        }
    }
    vgb_log_init(fd, o->log_level, "vgpu-backend");
    vgb_log_set_format(o->log_format, o->name);
    return 0;
}

static void say_ready(void)
{
    static const char text[] = "ready\n";

    vgb_log(VGB_INFO, "ready");
    brk_supervisor_say("READY=1");
    if (brk_opt.ready_fd < 0)
        return;
    if (write(brk_opt.ready_fd, text, sizeof(text) - 1) < 0)
        vgb_log(VGB_WARN, "--ready-fd: %s", strerror(errno));
    vgb_close(&brk_opt.ready_fd);
}

/* A client costs up to eight descriptors here: 256 of them do not fit into the usual 1024. */
static void raise_descriptor_limit(void)
{
    struct rlimit r;

    if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max < 65536 ? r.rlim_max : 65536;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

static int main_start(void)
{
    int r = 0;

    if (brk_loop_init()) {
        vgb_log(VGB_ERROR, "epoll or signalfd is not available");
        return BRK_EXIT_ERROR;
    }
    r = brk_choose_provider(&brk_opt);
    if (r)
        return r;
    if (strcmp(brk_opt.sandbox, "enforce"))
        vgb_log(VGB_WARN, "--sandbox=%s: guests can do what this user can", brk_opt.sandbox);
    if (brk_opt.allow_hmm)
        vgb_log(VGB_WARN, "--allow-hmm: kernels of guests may reach all memory of their workers");
    if (!strcmp(brk_opt.sandbox, "enforce"))
        brk_shm_start();
    if (!brk_cgroup_start())
        return BRK_EXIT_USAGE;
    r = brk_cache_start();
    if (r)
        return r;
    brk_vram.limit = brk_opt.vram_quota;
    brk_pins.limit = brk_opt.pin_quota;
    brk_blobs.limit = brk_opt.blob_quota;
    if (brk_opt.listen || brk_opt.listen_fd >= 0)
        r = brk_sock_start(brk_opt.listen, brk_opt.listen_fd);
    if (!r && (brk_opt.vhost_user || brk_opt.vhost_fd >= 0))
        r = brk_vu_start(brk_opt.vhost_user, brk_opt.vhost_fd, brk_opt.vhost_connected);
    if (!r)
        brk_window_init(); /* if it fails, with the first window */
    if (!r && !brk_pool_init(&brk_client_users))
        r = BRK_EXIT_ERROR;
    if (!r && brk_opt.arbiter) {
        const char *wrong = brk_arbiter_open(brk_opt.arbiter);

        if (wrong) {
            vgb_log(VGB_ERROR, "--arbiter %s: %s", brk_opt.arbiter, wrong);
            r = BRK_EXIT_USAGE;
        }
    }
    if (!r)
        r = brk_control_start();
    if (!r && !brk_status_start())
        r = BRK_EXIT_USAGE;
    return r;
}

int main(int argc, char **argv)
{
    bool announced = false;
    int r = brk_options_parse(argc, argv, &brk_opt);

    if (r >= 0)
        return !r && (fflush(stdout) || ferror(stdout)) ? BRK_EXIT_ERROR : r; /* --help, --version */
    r = open_log(&brk_opt);
    if (r)
        return r;
    /* If "libcuda.so.1" is the guest's library by mistake, it must not find a broker. */
    setenv("VGPU_SOCKET", "/nonexistent", 1);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* its descriptors give access to all guest memory */
    brk_inherit_close_on_exec();
    raise_descriptor_limit();
    brk_supervisor_start();
    r = main_start();
    while (!r && brk_loop_once(brk_images_tick(brk_supervisor_tick(brk_pool_tick())))) {
        if (brk_pool_broken())
            r = BRK_EXIT_NO_GPU;
        if (!announced && brk_pool_works()) {
            announced = true;
            say_ready();
        }
    }
    brk_supervisor_say("STOPPING=1");
    brk_books_log();
    brk_status_stop();
    brk_control_stop();
    brk_pace_stop();
    brk_arbiter_close();
    brk_vu_stop();
    brk_sock_stop();
    brk_pool_fini();
    brk_images_stop();
    brk_cgroup_stop();
    brk_shm_stop();
    brk_cache_stop();
    brk_thread_leave(r);
    return r;
}
