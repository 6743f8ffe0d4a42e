/* SPDX-License-Identifier: MIT */
/* vgpu-backend: options, start, end. */
#define _GNU_SOURCE
#include "broker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "vgb_fd.h"

struct vgb_options vgb_opt;

static int open_log(const struct vgb_options *o)
{
    int fd = 2;

    if (o->log && strcmp(o->log, "-")) {
        fd = open(o->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (fd < 0) {
            fprintf(stderr, "vgpu-backend: %s: %s\n", o->log, strerror(errno));
            return VGB_EXIT_ERROR;
        }
    }
    vgb_log_init(fd, o->log_level, "vgpu-backend");
    return 0;
}

static void say_ready(void)
{
    static const char text[] = "ready\n";

    vgb_log(VGB_INFO, "ready");
    if (vgb_opt.ready_fd < 0)
        return;
    if (write(vgb_opt.ready_fd, text, sizeof(text) - 1) < 0)
        vgb_log(VGB_WARN, "--ready-fd: %s", strerror(errno));
    vgb_close(&vgb_opt.ready_fd);
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

static int start(void)
{
    int r = 0;

    if (vgb_loop_init()) {
        vgb_log(VGB_ERROR, "epoll or signalfd is not available");
        return VGB_EXIT_ERROR;
    }
    r = vgb_choose_provider(&vgb_opt);
    if (r)
        return r;
    if (vgb_opt.no_sandbox)
        vgb_log(VGB_WARN, "--no-sandbox: workers keep all rights of this user");
    vgb_vram.limit = vgb_opt.vram_quota;
    vgb_pins.limit = vgb_opt.pin_quota;
    if (vgb_opt.listen || vgb_opt.listen_fd >= 0)
        r = vgb_sock_start(vgb_opt.listen, vgb_opt.listen_fd);
    if (!r && vgb_opt.vhost_user)
        r = vgb_vu_start(vgb_opt.vhost_user);
    if (!r && !vgb_pool_init())
        r = VGB_EXIT_ERROR;
    return r;
}

int main(int argc, char **argv)
{
    bool announced = false;
    int r = vgb_options_parse(argc, argv, &vgb_opt);

    if (r >= 0)
        return r;
    r = open_log(&vgb_opt);
    if (r)
        return r;
    /* Should "libcuda.so.1" be the guest's library by mistake: it must not find a broker, us. */
    setenv("VGPU_SOCKET", "/nonexistent", 1);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* its descriptors reach all guest memory */
    if (vgb_opt.ready_fd > 2)
        fcntl(vgb_opt.ready_fd, F_SETFD, FD_CLOEXEC);
    raise_descriptor_limit();
    r = start();
    while (!r && vgb_loop_once(vgb_pool_tick())) {
        if (vgb_pool_broken())
            r = VGB_EXIT_NO_GPU;
        if (!announced && vgb_pool_works()) {
            announced = true;
            say_ready();
        }
    }
    vgb_vu_stop();
    vgb_sock_stop();
    vgb_pool_fini();
    return r;
}
