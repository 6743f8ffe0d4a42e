/* SPDX-License-Identifier: MIT */
/*
 * Answers of the worker that stay true until the program sets what they depend on: occupancy, limits of a context, the
 * range of stream priorities. Programs ask them before each launch; a repeated question is no round trip.
 */
#ifndef VCU_RECALL_H
#define VCU_RECALL_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

/* A question in the calling thread's context. Zero what a call has not got. */
struct vcu_question {
    uint16_t call;                /* VGP_... */
    uint64_t object;              /* the function's handle */
    uint64_t inputs[3];           /* as they are sent */
    uint64_t context, generation; /* vcu_recall() fills them in */
};

/* True: `answer` is what the worker said to the same question, and nothing was set since. */
bool vcu_recall(struct vcu_question *q, uint64_t answer[2]);
/* After a vcu_recall() of the same question that was false: keeps the worker's answer. */
void vcu_recall_keep(const struct vcu_question *q, const uint64_t answer[2]);
/*
 * An attribute, a limit or a configuration was set, a module loaded, or a context ends: what was kept may not be true
 * any more. Always CUDA_SUCCESS.
 */
CUresult vcu_recall_forget(void);
/* False with VGPU_ANSWER_QUERIES=0. */
bool vcu_recall_on(void);
/* Reads VGPU_ANSWER_QUERIES; when the library is loaded. */
void vcu_recall_init(void);

#endif
