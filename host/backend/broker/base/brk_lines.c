/* SPDX-License-Identifier: MIT */
/* Log lines caused by clients: each client has its own rate, so that a flood does not hide lines of
 * other clients. */
#define _GNU_SOURCE
#include "base.h"

#include <sys/socket.h>

#include "lib/hash/hash.h"

_Static_assert(BRK_LINES_DOMAIN_TIMES * 2 <= BRK_LINES_TIMES, "a domain leaves lines to others");

/* Keys of local programs: BRK_LINES_SLOTS + user * BRK_LINES_PROCESSES + process. */
struct vgb_ratelimit *brk_lines_of(struct brk_lines *l, int key)
{
    const unsigned local = key < (int)BRK_LINES_SLOTS ? 0 : (unsigned)key - BRK_LINES_SLOTS;
    const unsigned user = local / BRK_LINES_PROCESSES % (BRK_LINES_DOMAINS - 1);
    struct vgb_ratelimit *part, *domain;

    l->whole.times = BRK_LINES_TIMES;
    if (key < 0) {
        part = &l->part[BRK_LINES_SLOTS + BRK_LINES_PROCESSES];
        part->whole = &l->whole;
        return part;
    }
    if (key < (int)BRK_LINES_SLOTS) {
        part = &l->part[key];
        domain = &l->domain[0];
    } else {
        part = &l->part[BRK_LINES_SLOTS + local % BRK_LINES_PROCESSES];
        domain = &l->domain[1 + user];
    }
    domain->times = BRK_LINES_DOMAIN_TIMES;
    domain->whole = &l->whole;
    part->whole = domain;
    return part;
}

int brk_lines_key_of_peer(int fd)
{
    struct ucred who;
    socklen_t size = sizeof(who);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size))
        return -1;
    /*
     * With a secret, so that processes cannot be started until one gets another program's budget.
     */
    const uint64_t process = hsh_number(0, (uint64_t)(uint32_t)who.pid) % BRK_LINES_PROCESSES;
    const uint64_t user = hsh_number(1, who.uid) % (BRK_LINES_DOMAINS - 1);

    return (int)(BRK_LINES_SLOTS + user * BRK_LINES_PROCESSES + process);
}
