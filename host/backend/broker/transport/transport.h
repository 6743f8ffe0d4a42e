/* SPDX-License-Identifier: MIT */
/* The two transports of clients: unix sockets and vhost-user. */
#ifndef BRK_TRANSPORT_H
#define BRK_TRANSPORT_H

#include "clients/clients.h"

/* ---- brk_sock.c ---- */

/* 0, or an exit code with the reason logged. */
int brk_sock_start(const char *path, int fd);
void brk_sock_stop(void);

/* ---- vu_*.c ---- */

/* Listens at `path`, or uses the socket `fd` (-1: none): a listening socket or, if `connected`, the
 * only connection, with whose end the broker exits. 0, or an exit code with the reason logged. */
int brk_vu_start(const char *path, int fd, bool connected);
void brk_vu_stop(void);

#endif
