/* SPDX-License-Identifier: MIT */
/* Selects the transport to the worker by the devices and sockets that exist; no setting is
   needed. */
#define _GNU_SOURCE
#include "transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../protocol/vgp_sock.h"

#define DEVICE_PATH "/dev/vgpu"

static void reset_transport(struct lnk_transport *t)
{
    memset(t, 0, sizeof(*t));
    t->fd = -1;
    t->bell_fd = -1;
    t->next_region = 1;
}

int lnk_transport_open_at(struct lnk_transport *t, const struct lnk_place *place)
{
    int rc;

    reset_transport(t);
    t->ops = place->ops;
    t->number = place->number;
    rc = place->ops->open(t, place->path);
    if (rc != 0)
        t->ops = NULL;
    return rc;
}

/* A path that is too long is truncated and still too long for a socket: opening it reports that. */
static unsigned add_place(struct lnk_place *list, unsigned n, const struct lnk_transport_ops *ops,
                          const char *path, size_t size)
{
    struct lnk_place *p = &list[n];

    p->ops = ops;
    p->number = n;
    snprintf(p->path, sizeof(p->path), "%.*s", (int)(size < sizeof(p->path) ? size : sizeof(p->path)), path);
    return n + 1;
}

/* Splits the list at colons; an existing socket whose name contains a colon is used as it is. */
static unsigned add_chosen(struct lnk_place *list, const char *text)
{
    unsigned n = 0;

    if (access(text, F_OK) == 0)
        return add_place(list, 0, &lnk_transport_sock, text, strlen(text));
    while (n < LNK_PLACES_MAX) {
        size_t size = strcspn(text, ":");

        if (size != 0)
            n = add_place(list, n, &lnk_transport_sock, text, size);
        if (text[size] == '\0')
            break;
        text += size + 1;
    }
    return n;
}

static unsigned add_devices(struct lnk_place *list)
{
    unsigned n = 0;

    for (unsigned i = 0; i < LNK_PLACES_MAX; i++) {
        char path[32];
        int size = snprintf(path, sizeof(path), DEVICE_PATH "%u", i);

        if (access(path, F_OK) != 0)
            continue;
        n = add_place(list, n, &lnk_transport_dev, path, (size_t)size);
        list[n - 1].number = i;
    }
    return n;
}

/* Sets path to "" if the variable is not set, or too long. */
static void runtime_socket(char *path, size_t room)
{
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");

    path[0] = '\0';
    if (runtime != NULL && *runtime != '\0' &&
        (size_t)snprintf(path, room, "%s/%s", runtime, VGP_SOCK_RUNTIME) >= room)
        path[0] = '\0';
}

unsigned lnk_places(struct lnk_place list[LNK_PLACES_MAX])
{
    const char *chosen = secure_getenv("VGPU_SOCKET");
    char path[256];
    unsigned n;

    if (chosen != NULL && *chosen != '\0')
        return add_chosen(list, chosen);
    n = add_devices(list);
    if (n != 0)
        return n;
    runtime_socket(path, sizeof(path));
    if (path[0] != '\0' && access(path, F_OK) == 0)
        return add_place(list, 0, &lnk_transport_sock, path, strlen(path));
    if (access(VGP_SOCK_SYSTEM, F_OK) == 0)
        return add_place(list, 0, &lnk_transport_sock, VGP_SOCK_SYSTEM, strlen(VGP_SOCK_SYSTEM));
    return 0;
}

int lnk_transport_none(struct lnk_transport *t)
{
    char path[256];

    reset_transport(t);
    if (secure_getenv("VGPU_SOCKET") != NULL && *secure_getenv("VGPU_SOCKET") != '\0') {
        snprintf(t->why, sizeof(t->why), "no GPU found: VGPU_SOCKET names no socket");
        return -ENODEV;
    }
    runtime_socket(path, sizeof(path));
    snprintf(t->why, sizeof(t->why),
             "no GPU found: VGPU_SOCKET is not set, and none of these exist: " DEVICE_PATH
             "0 (in a VM: is vgpu_drv loaded, has the VM a vgpu-cuda device?), %.100s, " VGP_SOCK_SYSTEM
             " (without a VM: is vgpu-backend running?)",
             path[0] != '\0' ? path : "(no XDG_RUNTIME_DIR)");
    return -ENODEV;
}

int lnk_transport_open(struct lnk_transport *t)
{
    struct lnk_place list[LNK_PLACES_MAX];

    return lnk_places(list) == 0 ? lnk_transport_none(t) : lnk_transport_open_at(t, &list[0]);
}

void lnk_identify(unsigned number, const char *provider, uint8_t uuid[16], char *bus_id, int *domain)
{
    char digits[8];

    if (number == 0 || strcmp(provider, "software GPU") != 0)
        return;
    uuid[14] = (uint8_t)(uuid[14] + number);
    *domain += (int)number;
    snprintf(digits, sizeof(digits), "%04X", (unsigned)*domain & 0xffffu);
    if (strlen(bus_id) > 4 && bus_id[4] == ':')
        memcpy(bus_id, digits, 4);
}
