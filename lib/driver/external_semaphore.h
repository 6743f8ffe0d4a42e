/* SPDX-License-Identifier: MIT */
/* The objects behind CUexternalSemaphore: their list, and the checks that need no device. */
#ifndef CUA_EXTERNAL_SEMAPHORE_H
#define CUA_EXTERNAL_SEMAPHORE_H

#include <cuda.h>
#include <stdbool.h>

#include "../extsem/extsem.h"

/* Semaphores of one call; more are a mistake. */
#define CUA_SEMAPHORES_MAX 65536u

/* cuImportExternalSemaphore's arguments: INVALID_VALUE, or NOT_SUPPORTED with *why. */
CUresult cua_semaphore_check(const CUexternalSemaphore *out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc,
                             const char **why);
/* Imports what was checked. An error of the descriptor has *why, a constant; else *why is NULL. */
CUresult cua_semaphore_import(CUexternalSemaphore *out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc,
                              const char **why);
/* Work that was issued, and nodes, keep what is behind it. INVALID_HANDLE. */
CUresult cua_semaphore_destroy(CUexternalSemaphore semaphore);

/* The arguments of a call that signals, or waits for, n semaphores; `params` is an array of n of
   CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS or _WAIT_PARAMS. INVALID_VALUE. */
CUresult cua_semaphores_check(bool wait, const CUexternalSemaphore *handles, const void *params, unsigned n);
/* A reference to what is behind each handle. On failure those that were taken are in out[], the rest
   is untouched: INVALID_HANDLE, or NOT_SUPPORTED with *why. */
CUresult cua_semaphores_get(bool wait, const CUexternalSemaphore *handles, unsigned n,
                            struct vgp_extsem **out, const char **why);

#endif
