/* SPDX-License-Identifier: MIT */
/* A worker that was taken over: says it is ready, then what $BADWORKER asks for. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vgb_fd.h"
#include "vgb_msg.h"

static void say(uint32_t type, uint64_t value)
{
    struct vgb_msg m = {.type = type, .value = value, .va = value, .region = 7};

    memset(m.text, 'x', sizeof(m.text)); /* no end */
    if (vgb_msg_send(3, &m, NULL, 0, 0) < 0)
        _exit(0);
}

int main(void)
{
    const char *what = getenv("BADWORKER");
    char junk[64] = "junk";
    struct vgb_msg m;
    int fds[VGB_MSG_FDS];
    unsigned nfds = VGB_MSG_FDS;
    int self = dup(0);

    if (!what)
        return 1;
    say(VGB_M_READY, 1);
    vgb_msg_recv(3, &m, fds, &nfds, 0); /* START */
    if (!strcmp(what, "short"))
        send(3, junk, sizeof(junk), MSG_NOSIGNAL);
    else if (!strcmp(what, "fd"))
        vgb_send_fds(3, &m, sizeof(m), &self, 1, 0);
    else if (!strcmp(what, "type"))
        say(1000, 0);
    else if (!strcmp(what, "mapped"))
        say(VGB_M_MAPPED, 0x1000);
    else if (!strcmp(what, "ready"))
        say(VGB_M_READY, 1);
    else if (!strcmp(what, "dead"))
        say(VGB_M_DEAD, 0);
    else if (!strcmp(what, "serving")) {
        say(VGB_M_SERVING, 0);
        say(VGB_M_UNMAPPED, 0);
    } else if (!strcmp(what, "reserve")) {
        say(VGB_M_SERVING, 0);
        for (;;)
            say(VGB_M_RESERVE, UINT64_MAX); /* and never reads the answers */
    }
    pause();
    return 0;
}
