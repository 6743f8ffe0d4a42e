/* SPDX-License-Identifier: MIT */
/* Which status sockets are believed, and in what. */
#ifndef CLI_PEER_H
#define CLI_PEER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "smi/status.h"

#define SMI_PEER_UNITS "/run/vgpu-backend" /* a folder for each unit of systemd: packaging/systemd */

/* What is wrong with the socket of a unit's folder, SMI_PEER_UNITS/VM/status; NULL: nothing, *owner listens there. */
const char *smi_peer_file(const char *path, uid_t *owner);
/* Who listens, as the kernel says. */
bool smi_peer_known(int fd, struct ucred *who);
/* It is of a user whose backends this one is not shown. */
bool smi_peer_others(const struct ucred *who);
/* Corrects the socket and the name of the machine that a backend gives itself, where they are not its user's. source: the
 * path of a unit's socket, or the name of an abstract one. */
void smi_peer_name(const char *source, const struct ucred *who, struct smi_backend *b);

#endif
