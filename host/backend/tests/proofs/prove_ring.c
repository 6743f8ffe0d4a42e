/* SPDX-License-Identifier: MIT */
/*
 * Proof about the worker's ring (wrk_ring_next), by CBMC: whatever the window holds, and however it changes
 * while it is read, no byte outside the ring and the private copy is touched, and the head moves by whole records
 * within what was published.
 */
#include <stdlib.h>

#include "window/window.h"

#define RING 64u /* bytes: two records, or one and a pad */

uint64_t nondet_u64(void);

void prove_ring(void)
{
    static struct vgp_window_shared shared;
    struct wrk_window win = {.shared = &shared, .ring_offset = 0, .ring_size = RING};
    uint8_t *ring = malloc(RING), *args = malloc(VGP_RECORD_MAX); /* contents: anything */
    struct wrk_ring r = {.args = args};
    enum wrk_ring_state s;

    __CPROVER_assume(ring && args);
    win.base = ring;
    r.head = nondet_u64();
    __CPROVER_assume(r.head % 16 == 0);
    shared.ring_tail = nondet_u64();

    const uint64_t head = r.head, published = shared.ring_tail - head;

    s = wrk_ring_next(&r, &win);
    __CPROVER_assert(s == WRK_RING_EMPTY || s == WRK_RING_RECORD || s == WRK_RING_MALFORMED, "a state");
    __CPROVER_assert(s == WRK_RING_MALFORMED || r.head - head <= published, "not beyond what was published");
    __CPROVER_assert(r.head % 16 == 0, "whole records");
    if (s == WRK_RING_RECORD) {
        __CPROVER_assert(r.args_size <= VGP_RECORD_MAX - sizeof(r.rec), "the copy has room");
        __CPROVER_assert(r.args_size == r.rec.size - sizeof(r.rec) && r.rec.size % 16 == 0, "its size");
        __CPROVER_assert(r.rec.reply_slot == VGP_NO_REPLY || r.rec.reply_slot < VGP_REPLY_SLOTS, "its slot");
        __CPROVER_assert(shared.ring_head == r.head, "the guest may use what was read");
    }
    if (s == WRK_RING_MALFORMED)
        __CPROVER_assert(r.error != NULL, "it is said what is wrong");
}
