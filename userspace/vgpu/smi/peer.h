/* SPDX-License-Identifier: MIT */
/* Validation of status sockets and of their content. */
#ifndef CLI_PEER_H
#define CLI_PEER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "smi/status.h"

#define SMI_PEER_UNITS "/run/vgpu-backend" /* a folder for each systemd unit: packaging/systemd */

/* Checks the socket of a unit's folder, SMI_PEER_UNITS/VM/status. Returns the error; NULL: valid,
 * *owner is the user who must be listening. */
const char *smi_peer_file(const char *path, uid_t *owner);
/* Reads the listener's credentials from the kernel. False: unavailable. */
bool smi_peer_known(int fd, struct ucred *who);
/* True if the listener belongs to a user whose backends are hidden from this user. */
bool smi_peer_others(const struct ucred *who);
/* Returns "vm1" for /run/vgpu-backend/vm1/status. */
void smi_peer_unit(const char *path, char *name, size_t room);
/* Corrects the socket and machine name reported by a backend where they do not belong to its user.
 * source: the path of a unit's socket, or the name of an abstract socket. */
void smi_peer_name(const char *source, const struct ucred *who, struct smi_backend *b);

#endif
