/* SPDX-License-Identifier: MIT */
/* Names and texts of results. */
#ifndef CUA_ERRORS_H
#define CUA_ERRORS_H

#include <cuda.h>

/* "CUDA_ERROR_INVALID_VALUE", or NULL for a code that cuda.h does not have. A constant. */
const char *cua_error_name(CUresult r);
/* "invalid argument", or NULL. A constant. */
const char *cua_error_text(CUresult r);

#endif
