/* SPDX-License-Identifier: MIT */
/* Names and descriptions of results, and which of them end a process's work. */
#ifndef CUA_ERRORS_H
#define CUA_ERRORS_H

#include <cuda.h>
#include <stdbool.h>

/* "CUDA_ERROR_INVALID_VALUE"; NULL for a code missing in cuda.h. A constant. */
const char *cua_error_name(CUresult r);
/* "invalid argument", or NULL. A constant. */
const char *cua_error_text(CUresult r);

/* True if the device can do no further work for the process: cuda.h asks for its termination, or
 * the hardware is damaged. */
static inline bool cua_error_is_sticky(CUresult r)
{
    switch ((int)r) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
        return true;
    default:
        return false;
    }
}

#endif
