/* SPDX-License-Identifier: MIT */
/* Settings of GPU core dumps (cuCoredump*), for the process and for contexts. */
#ifndef CUA_COREDUMP_H
#define CUA_COREDUMP_H

#include <cuda.h>

/* A context's settings; NULL: the initial ones. */
struct cua_coredump;

/* own: the settings of a context; NULL: those of the process. Results are those of
   cuCoredumpGetAttribute, cuCoredumpSetAttribute and their Global forms. */
CUresult cua_coredump_get(struct cua_coredump *const *own, CUcoredumpSettings attrib, void *value,
                          size_t *size);
/* NOT_SUPPORTED: the call enables a dump. */
CUresult cua_coredump_set(struct cua_coredump **own, CUcoredumpSettings attrib, const void *value,
                          size_t *size);
/* A context begins with the settings of the process, which it has no more part in then. */
void cua_coredump_begin(struct cua_coredump **own);
/* Frees the settings, at the end of a context. */
void cua_coredump_forget(struct cua_coredump **own);

#endif
