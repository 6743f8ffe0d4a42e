/* SPDX-License-Identifier: MIT */
/*
 * Fills of device memory (cuMemset*) need no reply: CUDA lets them be asynchronous unless the memory is the host's
 * or managed ("API synchronization behavior", Memset), and what a driver checks at the call, the context, the stream and the
 * range, is known here as well.
 */
#include "stream.h"

#include "vgp_guest.h"

/* Bytes from the first to the last; 0: none, or more than an address can say. */
static uint64_t extent(uint64_t pitch, uint64_t width, uint64_t height, uint32_t element)
{
    uint64_t rows = 0, row;

    if (width == 0 || height == 0 || __builtin_mul_overflow(width, element, &row) ||
        (height > 1 && (pitch < row || __builtin_mul_overflow(height - 1, pitch, &rows))) ||
        __builtin_add_overflow(rows, row, &rows))
        return 0;
    return rows;
}

bool vgp_submit_silent(uint32_t since, uint64_t dst, uint64_t pitch, uint64_t width, uint64_t height,
                       uint32_t element, bool streamed, uint64_t stream)
{
    uint64_t bytes = extent(pitch, width, height, element);

    /* An address or a pitch between two elements is an error. */
    if (vcu.worker_minor < since || bytes == 0 || dst % element != 0 || pitch % element != 0 ||
        !vcu_units_memory_private(dst, bytes))
        return false;
    /* During a capture an error belongs to the call. */
    if (atomic_load_explicit(&vcu_captures, memory_order_relaxed) != 0 &&
        !(streamed && vcu_capture_post((CUstream)(uintptr_t)stream)))
        return false;
    vcu_wait_effect(bytes <= VCU_OWE_MAX ? VCU_EFFECT_QUIET : VCU_EFFECT_ANY);
    if (!streamed) /* what the caller does not wait for fills its stream */
        vgp_stream_count((uintptr_t)CU_STREAM_LEGACY);
    return true;
}
