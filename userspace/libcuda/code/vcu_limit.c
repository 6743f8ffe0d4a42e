/* SPDX-License-Identifier: MIT */
/* Limits of a context and the range of stream priorities: answered without the worker once they are known. */
#include "code.h"
#include "recall.h"

#include "vgp_calls.h"
#include "vgp_entry.h"
#include "vgp_guest.h"

CUresult vcu_limit_get(size_t *value, CUlimit limit)
{
    struct vcu_question q = {.call = VGP_cuCtxGetLimit, .inputs = {(uint32_t)limit}};
    uint64_t answer[2] = {0};
    CUresult res = CUDA_SUCCESS;

    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    /* A driver raises the stack's size by itself when a kernel needs more. */
    if (limit == CU_LIMIT_STACK_SIZE)
        return vgp_call_cuCtxGetLimit(value, limit);
    if (!vcu_recall(&q, answer)) {
        res = vgp_call_cuCtxGetLimit(&answer[0], limit);
        if (res == CUDA_SUCCESS)
            vcu_recall_keep(&q, answer);
    }
    if (res == CUDA_SUCCESS)
        *value = answer[0];
    return res;
}

CUresult vcu_limit_set(CUlimit limit, size_t value)
{
    CUresult res = vgp_call_cuCtxSetLimit(limit, value);

    vcu_recall_forget();
    return res;
}

CUresult vcu_priority_range(int *least, int *greatest)
{
    struct vcu_question q = {.call = VGP_cuCtxGetStreamPriorityRange};
    uint64_t answer[2] = {0};

    if (!vcu_recall(&q, answer)) {
        int lo = 0, hi = 0;
        CUresult res = vgp_call_cuCtxGetStreamPriorityRange(&lo, &hi);

        if (res != CUDA_SUCCESS)
            return res;
        answer[0] = (unsigned)lo;
        answer[1] = (unsigned)hi;
        vcu_recall_keep(&q, answer);
    }
    if (least != NULL)
        *least = (int)answer[0];
    if (greatest != NULL)
        *greatest = (int)answer[1];
    return CUDA_SUCCESS;
}
