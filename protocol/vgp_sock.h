/* SPDX-License-Identifier: MIT */
/*
 * Unix-socket transport between libcuda and the broker on a host without a VM. SOCK_SEQPACKET; a
 * connection is a client and its identity. It replaces the ioctls of /dev/vgpu0.
 *
 * libcuda connects and sends HELLO; the broker starts a worker and answers WELCOME with two file
 * descriptors (SCM_RIGHTS): the window (a memfd sealed against shrinking and growing) and the
 * doorbell (an eventfd: write 8 bytes of 1). The guest is woken by a futex on wake_seq in the
 * window (FUTEX_WAKE without PRIVATE; all waiters). Closing the connection ends the client. The
 * broker closes the connection when the client is dead; dead_reason and dead_text in the window
 * header give the reason.
 */
#ifndef VGP_SOCK_H
#define VGP_SOCK_H

#include <stdint.h>

/* Search order of libcuda: $VGPU_SOCKET, then, without /dev/vgpu0, these paths. */
#define VGP_SOCK_RUNTIME "vgpu.sock" /* in $XDG_RUNTIME_DIR */
#define VGP_SOCK_SYSTEM "/run/vgpu/vgpu.sock"

enum vgp_sock_type {
    VGP_SOCK_HELLO = 1,   /* client -> broker: struct vgp_sock_hello */
    VGP_SOCK_WELCOME = 2, /* broker -> client: struct vgp_sock_welcome + 2 fds */
    /* broker -> client: struct vgp_sock_refused, then the connection closes */
    VGP_SOCK_REFUSED = 3,
    VGP_SOCK_MAP = 4,    /* client -> broker: struct vgp_sock_map + 1 fd (memfd, F_SEAL_SHRINK) */
    VGP_SOCK_MAPPED = 5, /* broker -> client: struct vgp_sock_mapped */
    VGP_SOCK_UNMAP = 6,  /* client -> broker: struct vgp_sock_map, va and length 0; -> MAPPED */
    /* Diagnostic query instead of HELLO: the type alone; the answer is struct vgp_sock_info. A
     * broker that does not know it closes the connection. */
    VGP_SOCK_INFO = 7,
};

struct vgp_sock_hello {
    uint32_t type;
    uint16_t version_major, version_minor;
    char label[32]; /* process name, for logs only */
};

struct vgp_sock_welcome {
    uint32_t type;
    uint32_t padding;
    uint64_t window_size;
};

struct vgp_sock_refused {
    uint32_t type;
    uint32_t status; /* enum vgpu_status */
    char text[256];  /* advice to the user; NUL-terminated */
};

struct vgp_sock_info {
    uint32_t type;
    uint32_t padding;
    char sandbox[256]; /* sandbox layers of the workers in force; NUL-terminated */
};

/* Shares host memory of the client with the worker, at the same address unless it lies in the
 * worker's own areas. */
struct vgp_sock_map {
    uint32_t type;
    uint32_t region; /* chosen by the client, unique among its regions */
    uint64_t va;     /* page aligned */
    uint64_t length; /* bytes, page aligned */
    uint64_t offset; /* offset in the memfd, page aligned */
};

struct vgp_sock_mapped {
    uint32_t type;
    uint32_t region;
    uint32_t status; /* enum vgpu_status */
    uint32_t padding;
    uint64_t worker_va;
};

#endif
