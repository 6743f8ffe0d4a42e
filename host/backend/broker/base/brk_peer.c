/* SPDX-License-Identifier: MIT */
/*
 * Checks of a peer's credentials as reported by the kernel. A group such as kvm contains the
 * programs of all virtual machines of a host: the mode of a socket's file alone does not separate a
 * VM's QEMU from another VM's broker.
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vgb_fd.h"

#define GROUPS_MAX 65536u /* NGROUPS_MAX of Linux */

static bool parse_id(const char *text, uint32_t *id)
{
    unsigned long n;
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    n = strtoul(text, &end, 10);
    if (errno || *end || n >= BRK_ANYBODY)
        return false;
    *id = (uint32_t)n;
    return true;
}

bool brk_parse_user(const char *text, uint32_t *id)
{
    const struct passwd *p;

    if (parse_id(text, id))
        return true;
    p = getpwnam(text);
    if (p)
        *id = p->pw_uid;
    return p != NULL;
}

bool brk_parse_group(const char *text, uint32_t *id)
{
    const struct group *g;

    if (parse_id(text, id))
        return true;
    g = getgrnam(text);
    if (g)
        *id = g->gr_gid;
    return g != NULL;
}

/* True also for a supplementary group. */
static bool in_group(int fd, const struct ucred *who, gid_t group)
{
    socklen_t size = GROUPS_MAX * sizeof(gid_t);
    bool found = who->gid == group;
    gid_t *list = found ? NULL : malloc(size);

    if (list && !getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, list, &size)) {
        for (socklen_t i = 0; i < size / sizeof(gid_t); i++)
            found |= list[i] == group;
    }
    free(list);
    return found;
}

bool brk_peer_allowed(int fd)
{
    struct ucred who;
    socklen_t size = sizeof(who);

    if (brk_opt.peer_uid == BRK_ANYBODY && brk_opt.peer_gid == BRK_ANYBODY)
        return true;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size))
        return false;
    return !who.uid || who.uid == geteuid() ||
           (brk_opt.peer_uid != BRK_ANYBODY && who.uid == brk_opt.peer_uid) ||
           (brk_opt.peer_gid != BRK_ANYBODY && in_group(fd, &who, brk_opt.peer_gid));
}

int brk_accept_peer(struct brk_source *s)
{
    static struct vgb_ratelimit limit;
    int fd = brk_accept(s);

    if (fd < 0 || brk_peer_allowed(fd))
        return fd;
    vgb_log_limited(&limit, VGB_WARN,
                    "a program of another user wants to connect: refused (--peer-uid, --peer-gid)");
    brk_foreign_end(&fd); /* it may have sent descriptors already */
    return -1;
}
