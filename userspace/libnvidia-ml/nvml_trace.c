/* SPDX-License-Identifier: MIT */
/*
 * Names and texts of NVML's results, and this library's trace lines (VGPU_TRACE, as for libcuda).
 */
#include <stdarg.h>
#include <stdio.h>

#include "library.h"
#include "../../lib/link/link.h"

static const struct {
    nvmlReturn_t code;
    const char *name, *text;
} results[] = {
#define R(name, text) \
    { \
        NVML_##name, "NVML_" #name, text \
    }
    R(SUCCESS, "The operation was successful"),
    R(ERROR_UNINITIALIZED, "Uninitialized"),
    R(ERROR_INVALID_ARGUMENT, "Invalid Argument"),
    R(ERROR_NOT_SUPPORTED, "Not Supported"),
    R(ERROR_NO_PERMISSION, "Insufficient Permissions"),
    R(ERROR_ALREADY_INITIALIZED, "Already Initialized"),
    R(ERROR_NOT_FOUND, "Not Found"),
    R(ERROR_INSUFFICIENT_SIZE, "Insufficient Size"),
    R(ERROR_INSUFFICIENT_POWER, "Insufficient External Power"),
    R(ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"),
    R(ERROR_TIMEOUT, "Timeout"),
    R(ERROR_IRQ_ISSUE, "Interrupt Request Issue"),
    R(ERROR_LIBRARY_NOT_FOUND, "NVML Shared Library Not Found"),
    R(ERROR_FUNCTION_NOT_FOUND, "Function Not Found"),
    R(ERROR_CORRUPTED_INFOROM, "Corrupted infoROM"),
    R(ERROR_GPU_IS_LOST, "GPU is lost"),
    R(ERROR_RESET_REQUIRED, "GPU requires reset"),
    R(ERROR_OPERATING_SYSTEM, "GPU access blocked by the operating system"),
    R(ERROR_LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch"),
    R(ERROR_IN_USE, "In use by another client"),
    R(ERROR_MEMORY, "Insufficient Memory"),
    R(ERROR_NO_DATA, "No data"),
    R(ERROR_VGPU_ECC_NOT_SUPPORTED, "Not available because ECC is enabled"),
    R(ERROR_INSUFFICIENT_RESOURCES, "Insufficient Resources"),
    R(ERROR_FREQ_NOT_SUPPORTED, "Frequency Not Supported"),
    R(ERROR_ARGUMENT_VERSION_MISMATCH, "Argument Version Mismatch"),
    R(ERROR_DEPRECATED, "Deprecated"),
    R(ERROR_NOT_READY, "Not Ready"),
    R(ERROR_GPU_NOT_FOUND, "GPU Not Found"),
    R(ERROR_INVALID_STATE, "Invalid State"),
    R(ERROR_UNKNOWN, "Unknown Error"),
#undef R
};
#define RESULTS (sizeof(results) / sizeof(results[0]))

const char *nvml_error_name(nvmlReturn_t r)
{
    for (unsigned i = 0; i < RESULTS; i++) {
        if (results[i].code == r)
            return results[i].name;
    }
    return NULL;
}

NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t r);
NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t r)
{
    for (unsigned i = 0; i < RESULTS; i++) {
        if (results[i].code == r)
            return results[i].text;
    }
    return "Unknown Error";
}

static const char *result_name(int code)
{
    return nvml_error_name((nvmlReturn_t)code);
}

/* True for all results but success, although the software GPU does not support many values. */
static bool is_failure(const char *name, int result)
{
    (void)name;
    return result != NVML_SUCCESS;
}

const struct lnk_trace_results nvml_trace_results = {result_name, is_failure};

void nvml_trace(const char *name, nvmlReturn_t r, uint64_t t0, const char *what, ...)
{
    va_list ap;

    va_start(ap, what);
    lnk_trace_result(name, (int)r, t0, what, ap);
    va_end(ap);
}

void nvml_why(const char *name, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (!lnk_trace_on)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    lnk_why(name, "%s", text);
}

void nvml_refusal(const char *name)
{
    lnk_trace_refusal(name, "libnvidia-ml of vgpu-cuda does not serve it");
}
