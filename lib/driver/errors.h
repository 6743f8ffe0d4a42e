/* SPDX-License-Identifier: MIT */
/* Names and descriptions of results. */
#ifndef CUA_ERRORS_H
#define CUA_ERRORS_H

#include <cuda.h>

/* "CUDA_ERROR_INVALID_VALUE"; NULL for a code missing in cuda.h. A constant. */
const char *cua_error_name(CUresult r);
/* "invalid argument", or NULL. A constant. */
const char *cua_error_text(CUresult r);

#endif
