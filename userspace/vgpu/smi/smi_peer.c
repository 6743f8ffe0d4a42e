/* SPDX-License-Identifier: MIT */
/*
 * Validation of status sockets. Any user may make an abstract socket with a backend's name, and the
 * process behind a socket may have been taken over by a guest. Only the kernel's information about
 * the listener is trusted: its user and its process. For a systemd unit it must be the user to whom
 * systemd has given the folder; the machine has the folder's name, whatever name the process
 * reports.
 */
#include "smi/peer.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void smi_peer_unit(const char *path, char *name, size_t room)
{
    const char *from = path + sizeof(SMI_PEER_UNITS);

    snprintf(name, room, "%.*s", (int)strcspn(from, "/"), from);
}

static bool is_folder_of(const char *path, uid_t *owner)
{
    struct stat st;

    if (lstat(path, &st) || !S_ISDIR(st.st_mode) || st.st_mode & (S_IWGRP | S_IWOTH))
        return false;
    *owner = st.st_uid;
    return true;
}

const char *smi_peer_file(const char *path, uid_t *owner)
{
    char name[256], folder[sizeof(name) + sizeof(SMI_PEER_UNITS)];
    struct stat st;
    uid_t root;

    smi_peer_unit(path, name, sizeof(name));
    snprintf(folder, sizeof(folder), SMI_PEER_UNITS "/%s", name);
    if (!is_folder_of(SMI_PEER_UNITS, &root) || root)
        return "the folder of the units is not root's alone";
    if (!is_folder_of(folder, owner))
        return "its folder is not of one user alone";
    if (lstat(path, &st) || !S_ISSOCK(st.st_mode) || (st.st_uid != *owner && st.st_uid))
        return "it is not a socket of its folder's user";
    return NULL;
}

bool smi_peer_known(int fd, struct ucred *who)
{
    socklen_t size = sizeof(*who);

    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, who, &size);
}

bool smi_peer_others(const struct ucred *who)
{
    return geteuid() && who->uid != geteuid() && who->uid;
}

/* True if the socket's file belongs to this user. */
static bool has_file(const char *path, uid_t uid)
{
    struct stat st;

    return *path == '/' && !lstat(path, &st) && S_ISSOCK(st.st_mode) && st.st_uid == uid;
}

/* Derives the name from the socket: vm1 of /run/vgpu/vm1.sock. */
static void name_by_socket(struct smi_backend *b)
{
    const char *slash = strrchr(b->where, '/'), *from = slash ? slash + 1 : b->where;
    size_t n = strlen(from);

    if (n > 5 && !strcmp(from + n - 5, ".sock"))
        n -= 5;
    snprintf(b->name, sizeof(b->name), "%.*s", (int)n, from);
}

void smi_peer_name(const char *source, const struct ucred *who, struct smi_backend *b)
{
    char name[256], usual[300];

    if (*source == '/') {
        smi_peer_unit(source, name, sizeof(name));
        snprintf(usual, sizeof(usual), "/run/vgpu/%s.sock", name);
        if (strcmp(b->where, usual))
            snprintf(b->where, sizeof(b->where), SMI_PEER_UNITS "/%s", name);
        snprintf(b->name, sizeof(b->name), "%s", name);
        b->named = true;
        return;
    }
    if (who->uid && who->uid != geteuid()) {
        if (strcmp(b->where, "-") && !has_file(b->where, who->uid))
            snprintf(b->where, sizeof(b->where), "uid-%u", (unsigned)who->uid);
        b->name[0] = '\0'; /* another user's claim: use that user's socket */
    }
    b->named = b->name[0] && strcmp(b->name, "-");
    if (!b->named)
        name_by_socket(b);
}
