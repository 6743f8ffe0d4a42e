/* SPDX-License-Identifier: MIT */
#include "drm_device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xf86drm.h>

#define NODES 64 /* minor numbers of primary nodes */

int drm_device_open(const char *driver)
{
    for (int i = 0; i < NODES; i++) {
        drmVersionPtr v;
        char path[40];
        int fd, found;

        snprintf(path, sizeof(path), "/dev/dri/card%d", i);
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            continue;
        v = drmGetVersion(fd);
        found = v != NULL && strcmp(v->name, driver) == 0;
        drmFreeVersion(v);
        if (found)
            return fd;
        close(fd);
    }
    errno = ENODEV;
    return -1;
}
