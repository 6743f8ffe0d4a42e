/* SPDX-License-Identifier: MIT */
/* A client and the test's end of its worker's socket, for tests of what the broker answers to workers. */
#ifndef BRK_WORKER_TEST_H
#define BRK_WORKER_TEST_H

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clients.h"

struct worker {
    struct brk_client client;
    struct brk_proc proc;
    int sock; /* the worker's end */
};

static inline void worker_open(struct worker *w, const struct brk_client_ops *vm)
{
    int pair[2];

    memset(w, 0, sizeof(*w));
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w->proc.sock.fd = pair[0];
    w->sock = pair[1];
    w->client.proc = &w->proc;
    w->client.ops = vm;
}

static inline void worker_close(struct worker *w)
{
    close(w->sock);
    close(w->proc.sock.fd);
}

#endif
