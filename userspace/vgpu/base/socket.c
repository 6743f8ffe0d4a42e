/* SPDX-License-Identifier: MIT */
/*
 * Sockets on which another user may listen. The sender of a message can attach descriptors, and the
 * last close of such a descriptor may block for a time chosen by the sender: a TCP socket with
 * SO_LINGER and unsent bytes. The kernel performs that close in the process that reads the message,
 * whatever the socket's time limit, or that closes the socket unread.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/vgpu_cli.h"

#define CLOSING_MAX 64u /* closing processes that have not been reaped */

static pid_t closing[CLOSING_MAX];
static int *open_still; /* sockets for which no process could be started */
static size_t nopen, room;

ssize_t vgpu_cli_recv_foreign(int fd, void *buf, size_t size, int flags)
{
    return recv(fd, buf, size, flags | MSG_PEEK);
}

/* Returns a free slot; NULL: all processes are still closing a socket. */
static pid_t *pid_slot(void)
{
    pid_t *found = NULL;

    for (unsigned i = 0; i < CLOSING_MAX; i++) {
        if (closing[i] && waitpid(closing[i], NULL, WNOHANG))
            closing[i] = 0;
        found = closing[i] ? found : &closing[i];
    }
    return found;
}

void vgpu_cli_close_foreign(const int *fds, size_t n)
{
    int *longer = nopen + n > room ? realloc(open_still, 2 * (nopen + n) * sizeof(int)) : open_still;
    pid_t *at = pid_slot();
    int gate[2];
    char byte;

    if (!longer || !n)
        return; /* they stay open, which blocks no caller */
    room = nopen + n > room ? 2 * (nopen + n) : room;
    open_still = longer;
    while (n)
        open_still[nopen++] = fds[--n];
    if (!at || pipe2(gate, O_CLOEXEC))
        return; /* closed by a later call */
    *at = fork();
    if (!*at) {
        /*
         * Waits until the caller has closed its own descriptors. Sockets do not linger at the exit
         * of a process.
         */
        close(gate[1]);
        while (read(gate[0], &byte, 1) > 0)
            ;
        _exit(0);
    }
    close(gate[0]);
    while (*at > 0 && nopen)
        close(open_still[--nopen]);
    *at = *at > 0 ? *at : 0;
    close(gate[1]);
}
