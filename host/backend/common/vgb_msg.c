/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "vgb_msg.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vgb_fd.h"

int vgb_msg_send(int sock, const struct vgb_msg *m, const int *fds, unsigned nfds, int flags)
{
    ssize_t n = vgb_send_fds(sock, m, sizeof(*m), fds, nfds, flags);

    return n < 0 ? (int)n : 0;
}

int vgb_msg_recv(int sock, struct vgb_msg *m, int *fds, unsigned *nfds, int flags)
{
    ssize_t n = vgb_recv_fds(sock, m, sizeof(*m), fds, nfds, flags);

    if (n <= 0)
        return (int)n;
    if ((size_t)n != sizeof(*m)) {
        for (unsigned i = 0; i < *nfds; i++)
            vgb_close_received(fds[i]);
        *nfds = 0;
        return -EPROTO;
    }
    m->text[VGB_MSG_TEXT - 1] = '\0';
    return 1;
}
