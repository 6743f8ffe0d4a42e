/* SPDX-License-Identifier: MIT */
/* The network of the guest that `vgpu vm run` boots; part of its init. */
#ifndef VGPU_GUEST_NET_H
#define VGPU_GUEST_NET_H

#include <stdbool.h>

/*
 * Sets the host name and brings the loopback interface up, as every installed system does. With
 * `card`: gives the network card the address to which QEMU's user network forwards ports, and
 * writes resolv.conf below `root`. `note` reports failures; none of them is fatal.
 */
void guest_net(const char *root, bool card,
               void (*note)(const char *fmt, ...) __attribute__((format(printf, 1, 2))));

#endif
