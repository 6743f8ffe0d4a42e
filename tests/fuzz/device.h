/* SPDX-License-Identifier: MIT */
/* The device memory of a fuzz target: what sg_exec.h asks of the driver half. */
#ifndef FZ_DEVICE_H
#define FZ_DEVICE_H

#include "sg_exec.h"

/* Zeroed memory with a live entry in the checked table; ends the process when there is none. */
void *fz_alloc(size_t size);
void fz_free_all(void);
void fz_no_print(void *ctx, const char *text, size_t len);

#endif
