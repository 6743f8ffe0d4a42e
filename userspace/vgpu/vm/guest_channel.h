/* SPDX-License-Identifier: MIT */
/*
 * Protocol between the vgpu command on the host and its init in the guest, over a virtio-serial
 * port. Both ends come from the same build; the version detects a stale initramfs only.
 *
 * A frame is struct vgpu_cli_frame followed by `length` bytes, in host byte order (both x86-64).
 * The host begins with RUN after HELLO; the guest ends with EXIT.
 */
#ifndef VGPU_GUEST_CHANNEL_H
#define VGPU_GUEST_CHANNEL_H

#include <stdint.h>

#define VGPU_CHANNEL_NAME "vgpu.channel" /* name= of the virtserialport */
#define VGPU_CHANNEL_VERSION 1u
#define VGPU_CHANNEL_DATA_MAX 32768u      /* payload of STDIN, STDOUT, STDERR, bytes */
#define VGPU_CHANNEL_FRAME_MAX (4u << 20) /* RUN, bytes: above Linux's limit for argv and env */

enum vgpu_cli_frame_type {
    /* guest -> host */
    VGPU_FRAME_HELLO = 1,  /* u32 version */
    VGPU_FRAME_STDOUT = 2, /* bytes */
    VGPU_FRAME_STDERR = 3, /* bytes */
    VGPU_FRAME_LOG = 4,    /* text of init, for --verbose and for the reason of a failure */
    VGPU_FRAME_EXIT = 5,   /* struct vgpu_cli_exit; nothing follows */
    /* host -> guest */
    VGPU_FRAME_RUN = 16,       /* struct vgpu_cli_run and its strings; once */
    VGPU_FRAME_STDIN = 17,     /* bytes */
    VGPU_FRAME_STDIN_EOF = 18, /* empty: end of the program's standard input */
    VGPU_FRAME_SIGNAL = 19,    /* u32 signal number for the program */
    VGPU_FRAME_WINSIZE = 20,   /* u16 rows, u16 columns */
};

struct vgpu_cli_frame {
    uint32_t length;
    uint32_t type; /* enum vgpu_cli_frame_type */
};

#define VGPU_RUN_TTY (1u << 0) /* the program gets a terminal: all output arrives as STDOUT */
#define VGPU_RUN_NET (1u << 1) /* a network card on QEMU's user network is present */

/*
 * The program to run. NUL-terminated strings follow, in this order: path of vgpu_drv.ko ("" = load
 * no driver), working directory, `shares` directories (9p tags share0, share1, ...), argc
 * arguments, envc environment strings.
 */
struct vgpu_cli_run {
    uint32_t version; /* VGPU_CHANNEL_VERSION */
    uint32_t flags;   /* VGPU_RUN_* */
    uint32_t uid, gid;
    uint32_t shares, argc, envc;
    uint16_t rows, columns; /* terminal size, with VGPU_RUN_TTY */
};

enum vgpu_cli_exit_kind {
    VGPU_EXIT_STATUS = 0, /* value = exit status */
    VGPU_EXIT_SIGNAL = 1, /* value = signal number */
    VGPU_EXIT_EXEC = 2,   /* the program could not be started; value = errno */
    VGPU_EXIT_INIT = 3,   /* init could not prepare the guest; LOG frames have the reason */
};

struct vgpu_cli_exit {
    uint32_t kind; /* enum vgpu_cli_exit_kind */
    uint32_t value;
};

#endif
