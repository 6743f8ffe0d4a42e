/* SPDX-License-Identifier: MIT */
/*
 * Answers about events and streams that the guest keeps, and what ends them; wait.h describes which
 * queries are answered. vcu_query.c asks the worker where none is kept.
 */
#ifndef VCU_ANSWERS_H
#define VCU_ANSWERS_H

#include "../core.h"

/* True if launches of graphs may record events that no record names: answers about events do not
 * last. */
extern _Atomic bool vcu_answers_graphs_record;

/* The kept result of a query of an event or of a stream with that latest work; CUDA_ERROR_UNKNOWN:
 * ask. */
CUresult vcu_answer_look(uint64_t handle, const struct vcu_wait_latest *latest);
/* True if the event is known to be complete. */
bool vcu_answer_complete(uint64_t event);
/* A question about to be sent: the worker is to write `sequence` to that word of the window. */
struct vcu_question {
    uint64_t number;
    uint32_t word, sequence;
};
struct vcu_question vcu_answer_begin(uint64_t handle, const struct vcu_wait_latest *latest);
/* Keeps the worker's answer, unless it is to an older question. */
void vcu_answer_end(uint64_t handle, const struct vcu_question *question, CUresult r);

/* Makes the pair if it is new. True: *milliseconds is the answer; false: ask, then
 * vcu_elapsed_learn() with the same *changes. */
bool vcu_elapsed_look(uint64_t start, uint64_t end, float *milliseconds, uint64_t *changes);
void vcu_elapsed_learn(uint64_t start, uint64_t end, uint64_t changes, float milliseconds);
struct vcu_elapsed_pair {
    uint64_t start, end, changes;
};
/* The pair for which the program will ask after a wait for the event `end`; false: none that is worth
 * asking for. */
bool vcu_elapsed_expected(uint64_t end, struct vcu_elapsed_pair *pair);
/* The same after a wait for a stream, in which the second event was recorded last; NULL: for all
 * streams. */
bool vcu_elapsed_awaited(const CUstream *stream, struct vcu_elapsed_pair *pair);

#endif
