/* SPDX-License-Identifier: MIT */
/* File descriptors over unix sockets, and small helpers for descriptors. */
#ifndef VGB_FD_H
#define VGB_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Maximum number of descriptors in a message (SCM_MAX_FD); the kernel closes those beyond the
 * receiver's room. */
#define VGB_FD_MAX 253

/* A single sendmsg(2) with descriptors; MSG_NOSIGNAL is added. Bytes sent, or -errno. */
ssize_t vgb_send_fds(int sock, const void *data, size_t size, const int *fds, unsigned nfds, int flags);
/*
 * A single recvmsg(2). *nfds: in, room in fds (<= VGB_FD_MAX); out, number received
 * (close-on-exec). Bytes received, 0 at end of file, -EPROTO when data or descriptors were
 * truncated (all descriptors are closed), other -errno.
 */
ssize_t vgb_recv_fds(int sock, void *data, size_t size, int *fds, unsigned *nfds, int flags);

/*
 * Function by which vgb_recv_fds() closes received descriptors it does not keep; default close().
 */
extern void (*vgb_close_received)(int fd);

void vgb_close_all(const int *fds, unsigned n);
/* Closes *fd unless it is -1 and sets it to -1. */
void vgb_close(int *fd);
/* Adds 1 to an eventfd; a full counter is not an error (the reader has yet to read it). */
void vgb_eventfd_signal(int fd);
/* Reads an eventfd to zero without blocking. */
void vgb_eventfd_clear(int fd);
bool vgb_set_nonblock(int fd);
/* Directory of the running executable, without trailing slash. False if it does not fit. */
bool vgb_exe_dir(char *buf, size_t size);

/* Page size of an in-memory file, bytes: 4096, or the size of its huge pages, which can only be
 * mapped whole. */
uint32_t vgb_fd_page_size(int fd);

#endif
