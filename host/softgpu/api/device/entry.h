/* SPDX-License-Identifier: MIT */
/* The table of entry points, generated from cuda.h and cudaTypedefs.h by
   api/device/gen_entries.py. */
#ifndef SG_ENTRY_H
#define SG_ENTRY_H

#include <stdbool.h>

struct sg_entry {
    const char *name; /* base name, as passed to cuGetProcAddress */
    int version;      /* CUDA version that introduced this variant, e.g. 3020 */
    bool per_thread;  /* a _ptsz or _ptds variant */
    void *fn;
};
extern const struct sg_entry sg_entries[]; /* terminated by an entry with name NULL */

/* Logs the name and returns CUDA_ERROR_NOT_SUPPORTED. */
int sg_unsupported(const char *name);

#endif
