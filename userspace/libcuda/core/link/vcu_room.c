/* SPDX-License-Identifier: MIT */
/*
 * The provider blocks a caller when its queue of launches is full. NVIDIA's driver has one queue
 * for each of its channels (8 unless CUDA_DEVICE_MAX_CONNECTIONS sets another number), and many
 * streams share a channel: a bound for each stream is not enough. So the streams of a context share
 * a budget. A stream may take the unused part of it, as programs that issue first and release the
 * work later rely on the depth of the queue; the sum stays below the budget, except for the floor
 * of each stream, with which it proceeds as long as its own work does. Concurrent threads may count
 * slightly too much or too little: correctness does not depend on it.
 */
#include "room.h"

#include <stdatomic.h>
#include <stddef.h>

struct vcu_room vcu_room;

struct place {
    _Atomic uint32_t before, since; /* up to the latest mark, after it */
    _Atomic uint32_t epoch;         /* of the context, when they were counted */
    _Atomic uint32_t context;
    _Atomic uint64_t stream;
};
static struct place places[VCU_ROOM_PLACES];
static _Atomic uint32_t pending[VCU_ROOM_CONTEXTS], epochs[VCU_ROOM_CONTEXTS];
static _Atomic uint32_t used, cursor; /* of the places of streams */

static void subtract_room(_Atomic uint32_t *from, uint32_t n)
{
    uint32_t was = atomic_load_explicit(from, memory_order_relaxed);

    while (!atomic_compare_exchange_weak(from, &was, was > n ? was - n : 0))
        ;
}

/* Forgets what was counted before the context was idle. */
static struct place *place_at(uint32_t place, uint32_t context)
{
    struct place *p = &places[place];
    uint32_t now = atomic_load_explicit(&epochs[context], memory_order_relaxed);

    if (atomic_load_explicit(&p->epoch, memory_order_relaxed) != now ||
        atomic_load_explicit(&p->context, memory_order_relaxed) != context) {
        atomic_store(&p->epoch, now);
        atomic_store(&p->context, context);
        atomic_store(&p->before, 0);
        atomic_store(&p->since, 0);
    }
    return p;
}

/* The number of launches that may be pending in a stream that holds `own`. */
static uint32_t limit_of(uint32_t context, uint32_t own)
{
    uint32_t all, others, share;

    if (vcu_room.context == 0)
        return vcu_room.stream;
    all = atomic_load_explicit(&pending[context], memory_order_relaxed);
    others = all > own ? all - own : 0;
    share = others < vcu_room.context ? vcu_room.context - others : 0;
    return share < vcu_room.stream ? share : vcu_room.stream;
}

bool vcu_room_add(uint32_t place, uint64_t stream, uint32_t context, uint32_t weight)
{
    struct place *p = place_at(place, context % VCU_ROOM_CONTEXTS);
    uint32_t since, own, most;

    context %= VCU_ROOM_CONTEXTS;
    if (vcu_room.context != 0 && weight > vcu_room.context / 4)
        weight = vcu_room.context / 4; /* a graph larger than the queue: the driver splits it */
    atomic_store_explicit(&p->stream, stream, memory_order_relaxed);
    if (place < VCU_ROOM_STREAMS && place >= atomic_load_explicit(&used, memory_order_relaxed))
        atomic_store(&used, place + 1);
    since = atomic_load_explicit(&p->since, memory_order_relaxed) + weight;
    atomic_store_explicit(&p->since, since, memory_order_relaxed);
    if (vcu_room.context != 0)
        atomic_fetch_add_explicit(&pending[context], weight, memory_order_relaxed);
    own = since + atomic_load_explicit(&p->before, memory_order_relaxed);
    most = limit_of(context, own);
    return since >= (most / 2 > VCU_ROOM_FLOOR / 2 ? most / 2 : VCU_ROOM_FLOOR / 2);
}

uint32_t vcu_room_mark_begin(uint32_t place)
{
    return atomic_exchange(&places[place].since, 0);
}

void vcu_room_mark_end(uint32_t place, uint32_t context, uint32_t marked)
{
    uint32_t done = atomic_exchange(&places[place].before, marked);

    subtract_room(&pending[context % VCU_ROOM_CONTEXTS], done);
}

void vcu_room_idle(uint32_t place, uint32_t context)
{
    struct place *p = place_at(place, context % VCU_ROOM_CONTEXTS);
    uint32_t done = atomic_exchange(&p->before, 0) + atomic_exchange(&p->since, 0);

    subtract_room(&pending[context % VCU_ROOM_CONTEXTS], done);
}

void vcu_room_context_idle(uint32_t context)
{
    context %= VCU_ROOM_CONTEXTS;
    atomic_fetch_add(&epochs[context], 1);
    atomic_store(&pending[context], 0);
}

uint32_t vcu_room_suspect(uint32_t context, uint32_t but, uint64_t *stream)
{
    uint32_t n = atomic_load(&used);

    context %= VCU_ROOM_CONTEXTS;
    if (vcu_room.context == 0 || atomic_load(&pending[context]) < vcu_room.context / 2)
        return UINT32_MAX;
    for (uint32_t i = 0; i < n && i < 1024; i++) {
        uint32_t place = atomic_fetch_add(&cursor, 1) % n;
        const struct place *p = &places[place];

        if (place != but && atomic_load(&p->context) == context &&
            atomic_load(&p->epoch) == atomic_load(&epochs[context]) &&
            atomic_load(&p->before) + atomic_load(&p->since) != 0) {
            *stream = atomic_load(&p->stream);
            return place;
        }
    }
    return UINT32_MAX;
}

uint32_t vcu_room_pending(uint32_t context)
{
    return atomic_load(&pending[context % VCU_ROOM_CONTEXTS]);
}
