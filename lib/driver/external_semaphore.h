/* SPDX-License-Identifier: MIT */
/* The objects behind CUexternalSemaphore: their list, and checks that need no device. */
#ifndef CUA_EXTERNAL_SEMAPHORE_H
#define CUA_EXTERNAL_SEMAPHORE_H

#include <cuda.h>
#include <stdbool.h>

#include "../extsem/extsem.h"

/* Maximum number of semaphores in a call. */
#define CUA_SEMAPHORES_MAX 65536u

/* Checks the arguments of cuImportExternalSemaphore: INVALID_VALUE, or NOT_SUPPORTED with *why. */
CUresult cua_semaphore_check(const CUexternalSemaphore *out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc,
                             const char **why);
/* Imports a checked descriptor. *why is a constant for errors of the descriptor, else NULL. */
CUresult cua_semaphore_import(CUexternalSemaphore *out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc,
                              const char **why);
/* Destroys the handle; issued work and nodes keep the semaphore. INVALID_HANDLE. */
CUresult cua_semaphore_destroy(CUexternalSemaphore semaphore);

/* Checks the arguments of a call that signals, or waits for, n semaphores; `params` is an array
   of n CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS or _WAIT_PARAMS. INVALID_VALUE. */
CUresult cua_semaphores_check(bool wait, const CUexternalSemaphore *handles, const void *params, unsigned n);
/* Takes a reference to the semaphore behind each handle. On failure out[] holds the references
   taken so far, the rest is unchanged: INVALID_HANDLE, or NOT_SUPPORTED with *why. */
CUresult cua_semaphores_get(bool wait, const CUexternalSemaphore *handles, unsigned n,
                            struct vgp_extsem **out, const char **why);

#endif
