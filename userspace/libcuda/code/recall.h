/* SPDX-License-Identifier: MIT */
/*
 * Answers of the worker that stay valid until the program changes a setting that they depend on:
 * occupancy, limits of a context, the range of stream priorities. Programs query them before each
 * launch; a repeated query needs no round trip.
 */
#ifndef VCU_RECALL_H
#define VCU_RECALL_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

/* A query in the calling thread's context. Members that a call does not use are zero. */
struct vcu_question {
    uint16_t call;                /* VGP_... */
    uint64_t object;              /* the function's handle */
    uint64_t inputs[3];           /* as they are sent */
    uint64_t context, generation; /* vcu_recall() fills them in */
};

/* True: `answer` is the worker's answer to the same query, and no setting has changed since. */
bool vcu_recall(struct vcu_question *q, uint64_t answer[2]);
/* Stores the worker's answer after vcu_recall() returned false for the same query. */
void vcu_recall_keep(const struct vcu_question *q, const uint64_t answer[2]);
/*
 * Invalidates the stored answers: an attribute, a limit or a configuration was set, a module
 * loaded, or a context ends. Always CUDA_SUCCESS.
 */
CUresult vcu_recall_forget(void);
/* False with VGPU_ANSWER_QUERIES=0. */
bool vcu_recall_on(void);
/* Reads VGPU_ANSWER_QUERIES; when the library is loaded. */
void vcu_recall_init(void);

#endif
