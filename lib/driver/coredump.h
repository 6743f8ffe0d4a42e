/* SPDX-License-Identifier: MIT */
/* Settings of GPU core dumps (cuCoredump*), of the process and of contexts. */
#ifndef CUA_COREDUMP_H
#define CUA_COREDUMP_H

#include <cuda.h>

/* A context's own settings; NULL until one differs from the process's. */
struct cua_coredump;

/* own: where a context keeps its settings; NULL: those of the process. The results are those of
   cuCoredumpGetAttribute, cuCoredumpSetAttribute and their Global forms. */
CUresult cua_coredump_get(struct cua_coredump *const *own, CUcoredumpSettings attrib, void *value,
                          size_t *size);
/* NOT_SUPPORTED: a dump was enabled. */
CUresult cua_coredump_set(struct cua_coredump **own, CUcoredumpSettings attrib, const void *value,
                          size_t *size);
/* The context ends: frees its settings. */
void cua_coredump_forget(struct cua_coredump **own);

#endif
