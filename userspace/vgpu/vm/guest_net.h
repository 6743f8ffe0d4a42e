/* SPDX-License-Identifier: MIT */
/* The network of the guest that `vgpu vm run` boots; part of its init. */
#ifndef VGPU_GUEST_NET_H
#define VGPU_GUEST_NET_H

#include <stdbool.h>

/*
 * Names the machine and brings the loopback interface up, as every installed system does. With `card`: gives the
 * network card the address that QEMU's user network forwards ports to, and writes resolv.conf below `root`.
 * `note` reports what could not be done; nothing of it is fatal.
 */
void guest_net(const char *root, bool card,
               void (*note)(const char *fmt, ...) __attribute__((format(printf, 1, 2))));

#endif
