/* SPDX-License-Identifier: MIT */
/*
 * The table of handles. A handle holds type, generation and index of a slot:
 *
 *   bits 44..49 type   28..43 generation   4..27 index   0..3 zero
 *
 * so it is never 0, 1 or 2 (which mean the default streams) and never an address of ours. Freed
 * slots are reused first in, first out, which keeps a stale handle invalid as long as possible.
 */
#include <stdlib.h>

#include "base/base.h"

#define SG_HANDLES_MAX (1u << 24) /* the index field */

struct slot {
    struct sg_obj *obj; /* NULL: free */
    uint32_t generation;
    uint32_t next_free; /* index + 1, 0: none */
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot *slots;
static uint32_t nslots, cap_slots;
static uint32_t free_head, free_tail, nfree; /* index + 1 */

/* Number of live objects by type, with or without a handle; without objects that last as long as
   the process. */
static _Atomic int64_t alive[SG_T_COUNT];

/* Slots stay in the free list until it has this length, so that generations last. */
#define SG_FREE_MIN 1024

void sg_obj_init(struct sg_obj *obj, enum sg_type type, struct sg_ctx *owner,
                 void (*destroy)(struct sg_obj *))
{
    atomic_init(&obj->refs, 1);
    obj->type = type;
    obj->handle = 0;
    obj->owner = owner;
    obj->destroy = destroy;
    obj->whole = NULL;
    atomic_fetch_add_explicit(&alive[type], 1, memory_order_relaxed);
}

void sg_obj_count(int64_t n[SG_T_COUNT])
{
    for (unsigned i = 0; i < SG_T_COUNT; i++)
        n[i] = atomic_load_explicit(&alive[i], memory_order_relaxed);
}

static struct sg_obj *counted_owner(struct sg_obj *obj)
{
    return obj && obj->whole ? obj->whole : obj;
}

void sg_obj_end(struct sg_obj *obj)
{
    sg_obj_lasts(obj);
    obj->destroy(obj);
}

void sg_obj_lasts(const struct sg_obj *obj)
{
    atomic_fetch_sub_explicit(&alive[obj->type], 1, memory_order_relaxed);
}

void sg_obj_get(struct sg_obj *obj)
{
    obj = counted_owner(obj);
    atomic_fetch_add_explicit(&obj->refs, 1, memory_order_relaxed);
}

bool sg_obj_try_get(struct sg_obj *obj)
{
    obj = counted_owner(obj);
    uint32_t refs = atomic_load_explicit(&obj->refs, memory_order_relaxed);

    while (refs && !atomic_compare_exchange_weak_explicit(&obj->refs, &refs, refs + 1, memory_order_acquire,
                                                          memory_order_relaxed))
        ;
    return refs != 0;
}

void sg_obj_put(struct sg_obj *obj)
{
    obj = counted_owner(obj);
    if (obj && atomic_fetch_sub_explicit(&obj->refs, 1, memory_order_acq_rel) == 1)
        sg_obj_end(obj);
}

static bool take_slot_locked(uint32_t *index)
{
    if (nfree >= SG_FREE_MIN || (nfree && nslots == SG_HANDLES_MAX)) {
        *index = free_head - 1;
        free_head = slots[*index].next_free;
        if (!free_head)
            free_tail = 0;
        nfree--;
        return true;
    }
    if (nslots == SG_HANDLES_MAX)
        return false;
    if (nslots == cap_slots) {
        uint32_t cap = cap_slots ? cap_slots * 2 : 256;
        struct slot *grown = realloc(slots, (size_t)cap * sizeof(*slots));

        if (!grown)
            return false;
        slots = grown;
        cap_slots = cap;
    }
    *index = nslots++;
    slots[*index] = (struct slot){0};
    return true;
}

bool sg_obj_register(struct sg_obj *obj)
{
    uint32_t i;
    bool ok;

    pthread_mutex_lock(&table_lock);
    ok = take_slot_locked(&i);
    if (ok) {
        slots[i].generation = (slots[i].generation + 1) & 0xffff;
        slots[i].obj = obj;
        sg_obj_get(obj);
        obj->handle = (uint64_t)obj->type << 44 | (uint64_t)slots[i].generation << 28 | (uint64_t)i << 4;
    }
    pthread_mutex_unlock(&table_lock);
    return ok;
}

static void free_slot_locked(uint32_t i)
{
    slots[i].obj = NULL;
    slots[i].next_free = 0;
    if (free_tail)
        slots[free_tail - 1].next_free = i + 1;
    else
        free_head = i + 1;
    free_tail = i + 1;
    nfree++;
}

bool sg_obj_unregister(struct sg_obj *obj)
{
    bool ok;

    pthread_mutex_lock(&table_lock);
    ok = obj->handle != 0;
    if (ok) {
        free_slot_locked((uint32_t)(obj->handle >> 4) & (SG_HANDLES_MAX - 1));
        obj->handle = 0;
    }
    pthread_mutex_unlock(&table_lock);
    if (ok)
        sg_obj_put(obj);
    return ok;
}

void *sg_lookup(uint64_t handle, enum sg_type type)
{
    uint32_t i = (uint32_t)(handle >> 4) & (SG_HANDLES_MAX - 1);
    struct sg_obj *obj = NULL;

    pthread_mutex_lock(&table_lock);
    if (i < nslots && slots[i].obj && slots[i].obj->handle == handle &&
        slots[i].obj->type == (uint32_t)type) {
        obj = slots[i].obj;
        sg_obj_get(obj);
    }
    pthread_mutex_unlock(&table_lock);
    return obj;
}

void sg_unregister_owned(struct sg_ctx *ctx)
{
    for (uint32_t i = 0;; i++) {
        struct sg_obj *obj = NULL;

        pthread_mutex_lock(&table_lock);
        if (i >= nslots) {
            pthread_mutex_unlock(&table_lock);
            return;
        }
        if (slots[i].obj && slots[i].obj->owner == ctx) {
            obj = slots[i].obj;
            obj->handle = 0;
            free_slot_locked(i);
        }
        pthread_mutex_unlock(&table_lock);
        sg_obj_put(obj); /* outside the lock: destroying may unregister other objects */
    }
}
