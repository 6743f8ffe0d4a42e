/* SPDX-License-Identifier: MIT */
/*
 * Which status sockets are believed. Anybody may make an abstract socket of a backend's name, and the process behind a
 * socket may be one that a guest has taken over. What is believed is the kernel's word on who listens: its user, and its
 * process. Of a unit of systemd it must be the user to whom systemd has given the folder; whatever name the process
 * gives its machine, it is the folder's.
 */
#include "smi/peer.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "vm1" of /run/vgpu-backend/vm1/status. */
static void unit_of(const char *path, char *name, size_t room)
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

    unit_of(path, name, sizeof(name));
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

/* A socket's file that this user has. */
static bool has_file(const char *path, uid_t uid)
{
    struct stat st;

    return *path == '/' && !lstat(path, &st) && S_ISSOCK(st.st_mode) && st.st_uid == uid;
}

void smi_peer_name(const char *source, const struct ucred *who, char *where, size_t room)
{
    char name[256], usual[300];

    if (*source == '/') {
        unit_of(source, name, sizeof(name));
        snprintf(usual, sizeof(usual), "/run/vgpu/%s.sock", name);
        if (strcmp(where, usual))
            snprintf(where, room, SMI_PEER_UNITS "/%s", name);
    } else if (who->uid && who->uid != geteuid() && strcmp(where, "-") && !has_file(where, who->uid)) {
        snprintf(where, room, "uid-%u", (unsigned)who->uid);
    }
}
