/* SPDX-License-Identifier: MIT */
/* JIT options: which are sent to the host and which are handled here. */
#include "jit.h"

#include <string.h>

CUresult vcu_jit_parse(const char *call, struct vcu_jit *jit, unsigned n, const CUjit_option *options,
                       void **values)
{
    memset(jit, 0, sizeof(*jit));
    if (n != 0 && (options == NULL || values == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    jit->started = lnk_trace_now();
    for (unsigned i = 0; i < n; i++) {
        switch (options[i]) {
        case CU_JIT_INFO_LOG_BUFFER:
            jit->info.text = values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            jit->info.size = (uint32_t)(uintptr_t)values[i];
            jit->info.size_out = &values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER:
            jit->error.text = values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            jit->error.size = (uint32_t)(uintptr_t)values[i];
            jit->error.size_out = &values[i];
            break;
        case CU_JIT_WALL_TIME:
            jit->wall_time = &values[i];
            break;
        case CU_JIT_GLOBAL_SYMBOL_NAMES:
        case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
        case CU_JIT_GLOBAL_SYMBOL_COUNT:
            return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call,
                              "JIT option %d: symbols of the host cannot be linked into device code "
                              "of another machine",
                              (int)options[i]);
        case CU_JIT_REFERENCED_KERNEL_NAMES:
        case CU_JIT_REFERENCED_KERNEL_COUNT:
        case CU_JIT_REFERENCED_VARIABLE_NAMES:
        case CU_JIT_REFERENCED_VARIABLE_COUNT:
        case CU_JIT_NEW_SM3X_OPT:
            break; /* hints about omissible work, and an option for drivers only */
        default:
            if ((unsigned)options[i] >= CU_JIT_NUM_OPTIONS || jit->n == VCU_JIT_OPTIONS_MAX)
                return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "JIT option %d is unknown",
                                  (int)options[i]);
            jit->ids[jit->n] = options[i];
            jit->values[jit->n++] = (uintptr_t)values[i];
            break;
        }
    }
    return CUDA_SUCCESS;
}

uint32_t vcu_jit_log_room(const struct vcu_jit_log *log)
{
    if (log->text == NULL)
        return 0;
    return log->size < VGP_JIT_LOG_MAX ? log->size : VGP_JIT_LOG_MAX;
}

void vcu_jit_give(const struct vcu_jit_log *log, const char *text, size_t n)
{
    if (log->text == NULL || log->size == 0)
        return;
    if (n >= log->size)
        n = log->size - 1;
    memcpy(log->text, text, n);
    log->text[n] = '\0';
    if (log->size_out != NULL)
        *log->size_out = (void *)(uintptr_t)n;
}

void vcu_jit_done(const struct vcu_jit *jit)
{
    float ms;

    if (jit->wall_time == NULL)
        return;
    ms = (float)((double)(lnk_trace_now() - jit->started) / 1e6);
    memcpy(jit->wall_time, &ms, sizeof(ms));
}
