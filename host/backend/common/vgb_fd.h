/* SPDX-License-Identifier: MIT */
/* File descriptors over unix sockets, and small helpers around descriptors. */
#ifndef VGB_FD_H
#define VGB_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define VGB_FD_MAX \
    253 /* descriptors in one message: SCM_MAX_FD. With less room the kernel closes the rest for us */

/* One sendmsg(2) with descriptors; MSG_NOSIGNAL is added. Bytes sent, or -errno. */
ssize_t vgb_send_fds(int sock, const void *data, size_t size, const int *fds, unsigned nfds, int flags);
/*
 * One recvmsg(2). *nfds: in, room in fds (<= VGB_FD_MAX); out, how many came (close-on-exec).
 * Bytes received, 0 at the end, -EPROTO when data or descriptors were cut off (nothing is kept
 * open), other -errno.
 */
ssize_t vgb_recv_fds(int sock, void *data, size_t size, int *fds, unsigned *nfds, int flags);

/* What vgb_recv_fds() closes received descriptors with that it does not keep: close(), unless a process sets another. */
extern void (*vgb_close_received)(int fd);

void vgb_close_all(const int *fds, unsigned n);
/* Closes *fd unless it is -1 and sets it to -1. */
void vgb_close(int *fd);
/* Adds 1 to an eventfd; a full counter is no error (the reader has not looked yet). */
void vgb_eventfd_signal(int fd);
/* Reads an eventfd to zero without blocking. */
void vgb_eventfd_clear(int fd);
bool vgb_set_nonblock(int fd);
/* The directory of the running executable, no trailing slash. False when it does not fit. */
bool vgb_exe_dir(char *buf, size_t size);

/* Bytes of a page of a file in memory: 4096 but for files in huge pages, which can be mapped in whole
 * ones only. */
uint32_t vgb_fd_page_size(int fd);

#endif
