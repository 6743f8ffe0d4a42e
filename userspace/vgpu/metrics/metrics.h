/* SPDX-License-Identifier: MIT */
/* vgpu metrics: the status of this host's backends for Prometheus. */
#ifndef CLI_METRICS_H
#define CLI_METRICS_H

#include "smi/status.h"

/* Returns the text in Prometheus' exposition format; allocated. */
char *metrics_text(const struct smi_status *s, size_t *length);

/* Serves the text at /metrics until a signal arrives. where: ADDRESS:PORT of this host's loopback,
 * or the path of a unix socket, which is made with mode 0660. Returns an exit status. */
int metrics_serve(const char *where);

/* Queries all backends twice, a moment apart if there are any, to compute utilisation. */
void metrics_sample(struct smi_status *now);

#endif
