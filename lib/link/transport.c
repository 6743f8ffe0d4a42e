/* SPDX-License-Identifier: MIT */
/* Selects the transport to the worker by what exists; no setting is needed. */
#define _GNU_SOURCE
#include "transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../protocol/vgp_sock.h"

#define DEVICE_PATH "/dev/vgpu0"

static int try_one(struct lnk_transport *t, const struct lnk_transport_ops *ops, const char *path)
{
    int rc;

    memset(t, 0, sizeof(*t));
    t->fd = -1;
    t->bell_fd = -1;
    t->next_region = 1;
    t->ops = ops;
    rc = ops->open(t, path);
    if (rc != 0)
        t->ops = NULL;
    return rc;
}

int lnk_transport_open(struct lnk_transport *t)
{
    const char *chosen = getenv("VGPU_SOCKET");
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char path[256];
    char looked[128];

    if (chosen != NULL && *chosen != '\0')
        return try_one(t, &lnk_transport_sock, chosen);
    if (access(DEVICE_PATH, F_OK) == 0)
        return try_one(t, &lnk_transport_dev, DEVICE_PATH);
    path[0] = '\0';
    if (runtime != NULL && *runtime != '\0') {
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", runtime, VGP_SOCK_RUNTIME) < sizeof(path) &&
            access(path, F_OK) == 0)
            return try_one(t, &lnk_transport_sock, path);
    }
    if (access(VGP_SOCK_SYSTEM, F_OK) == 0)
        return try_one(t, &lnk_transport_sock, VGP_SOCK_SYSTEM);
    memset(t, 0, sizeof(*t));
    t->fd = -1;
    t->bell_fd = -1;
    snprintf(looked, sizeof(looked), "%.100s", path[0] != '\0' ? path : "(no XDG_RUNTIME_DIR)");
    snprintf(t->why, sizeof(t->why),
             "no GPU found: VGPU_SOCKET is not set, and none of these exist: " DEVICE_PATH
             " (in a VM: is vgpu_drv loaded, has the VM a vgpu-cuda device?), %s, " VGP_SOCK_SYSTEM
             " (without a VM: is vgpu-backend running?)",
             looked);
    return -ENODEV;
}
