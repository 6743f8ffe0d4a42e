/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into vgpu doctor: simulates the parts of a guest that the host lacks. /dev/vgpu1 and
 * /dev/vgpu10 (the first VGPU_TEST_NODES of them), the PCI devices of the folder VGPU_TEST_BUS, and
 * the driver's lines in a kernel log.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <unistd.h>

#define BUS "/sys/bus/pci/devices"

static const char kernel_log[] = "<6>[    1.0] vgpu_drv: loaded\n"
                                 "<6>[    2.0] vgpu_drv virtio1: /dev/vgpu1: the first\n"
                                 "<6>[    3.0] vgpu_drv virtio2: /dev/vgpu10: the second\n"
                                 "<6>[    4.0] another: /dev/vgpu1: not the driver's\n";

/* Further paths checked by doctor; a folder includes its contents. */
static const char *const root_paths[] = {"/run/.containerenv",   "/.dockerenv",     "/run/systemd/container",
                                         "/sys/module/vgpu_drv", "/sys/class/misc", "/lib/modules"};

static bool is_no_temp(const char *path)
{
    const char *list = getenv("VGPU_TEST_NO_TEMP");
    size_t n = strlen(path);

    for (const char *at = list; at && *at; at += strcspn(at, " "), at += *at == ' ') {
        if (strcspn(at, " ") == n && !strncmp(at, path, n))
            return true;
    }
    return false;
}

static const char *place(const char *path, char *room, size_t size)
{
    const char *bus = getenv("VGPU_TEST_BUS"), *root = getenv("VGPU_TEST_ROOT"),
               *nodes = getenv("VGPU_TEST_NODES");
    int n = nodes ? atoi(nodes) : 0;

    if (bus && !strncmp(path, BUS, strlen(BUS))) {
        snprintf(room, size, "%s%s", bus, path + strlen(BUS));
        return room;
    }
    for (size_t i = 0; root && i < sizeof(root_paths) / sizeof(root_paths[0]); i++) {
        if (!strncmp(path, root_paths[i], strlen(root_paths[i]))) {
            snprintf(room, size, "%s%s", root, path);
            return room;
        }
    }
    if (is_no_temp(path))
        return "/nowhere";
    if ((n > 0 && !strcmp(path, "/dev/vgpu1")) || (n > 1 && !strcmp(path, "/dev/vgpu10")))
        return "/dev/null";
    return path;
}

int access(const char *path, int mode)
{
    char room[600];

    return faccessat(AT_FDCWD, place(path, room, sizeof(room)), mode, 0);
}

int open(const char *path, int flags, ...)
{
    char room[600];
    va_list ap;
    mode_t mode;

    va_start(ap, flags);
    mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return openat(AT_FDCWD, place(path, room, sizeof(room)), flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    char room[600];

    return next(place(path, room, sizeof(room)), mode);
}

DIR *opendir(const char *path)
{
    DIR *(*next)(const char *) = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
    char room[600];

    return next(place(path, room, sizeof(room)));
}

int klogctl(int type, char *to, int room)
{
    return type == 3 ? snprintf(to, (size_t)room, "%s", kernel_log) : -1;
}
