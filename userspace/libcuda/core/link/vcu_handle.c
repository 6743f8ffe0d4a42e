/* SPDX-License-Identifier: MIT */
/*
 * The handle table: the application's CUstream, CUevent, ... is a number minted here, type << 56 |
 * generation << 32 | index, and the same number names the object on the wire.
 *
 * Looking a handle up takes no lock. An index is reused last-freed-last and only after REUSE_DELAY
 * other frees, always with another generation, so a stale handle is noticed.
 */
#include "../core.h"

#include <stdlib.h>

#define CHUNK 256u
#define CHUNKS (VGP_HANDLE_INDEX_MAX / CHUNK)
#define REUSE_DELAY 64u

struct entry {
    _Atomic uint64_t handle; /* 0: free */
    _Atomic(void *) data;
    _Atomic uint64_t facts[VCU_HANDLE_FACTS];
    uint32_t generation;
    uint32_t next_free;
};

struct table {
    pthread_mutex_t lock;
    _Atomic(struct entry *) *chunks; /* CHUNKS pointers, allocated on first use */
    uint32_t used;                   /* highest index ever handed out; index 0 stays unused */
    uint32_t free_head, free_tail;   /* queue of free indices; 0 = empty */
    uint32_t free_count;
    uint32_t live;
};

static struct table tables[VGP_H_TYPES] = {
    [0 ... VGP_H_TYPES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER},
};

static struct entry *entry_at(struct table *t, uint32_t index)
{
    _Atomic(struct entry *) *chunks = __atomic_load_n(&t->chunks, __ATOMIC_ACQUIRE);
    struct entry *chunk;

    if (chunks == NULL || index == 0 || index >= VGP_HANDLE_INDEX_MAX)
        return NULL;
    chunk = atomic_load_explicit(&chunks[index / CHUNK], memory_order_acquire);
    return chunk == NULL ? NULL : &chunk[index % CHUNK];
}

/* The lowest index minted by the guest. */
static uint32_t first_of(enum vgp_handle_type type)
{
    return type == VGP_H_GRAPH || type == VGP_H_GRAPH_NODE ? VGP_HANDLE_GUEST_FIRST : 1;
}

static struct entry *grow_locked(struct table *t, uint32_t first, uint32_t *index)
{
    uint32_t next = (t->used != 0 ? t->used : first - 1) + 1;

    if (next >= VGP_HANDLE_INDEX_MAX)
        return NULL;
    if (t->chunks == NULL) {
        void *chunks = calloc(CHUNKS, sizeof(*t->chunks));

        if (chunks == NULL)
            return NULL;
        __atomic_store_n(&t->chunks, chunks, __ATOMIC_RELEASE);
    }
    if (atomic_load_explicit(&t->chunks[next / CHUNK], memory_order_relaxed) == NULL) {
        struct entry *chunk = calloc(CHUNK, sizeof(*chunk));

        if (chunk == NULL)
            return NULL;
        atomic_store_explicit(&t->chunks[next / CHUNK], chunk, memory_order_release);
    }
    t->used = next;
    *index = next;
    return entry_at(t, next);
}

uint64_t vcu_handle_mint(enum vgp_handle_type type, void *data)
{
    struct table *t;
    struct entry *e = NULL;
    uint64_t handle = 0;
    uint32_t index = 0;

    if ((unsigned)type == 0 || (unsigned)type >= VGP_H_TYPES)
        return 0;
    t = &tables[type];
    pthread_mutex_lock(&t->lock);
    if (t->free_count <= REUSE_DELAY)
        e = grow_locked(t, first_of(type), &index);
    if (e == NULL && t->free_count > 0) {
        index = t->free_head;
        e = entry_at(t, index);
        t->free_head = e->next_free;
        t->free_count--;
        if (t->free_count == 0)
            t->free_tail = 0;
    }
    if (e != NULL) {
        e->generation = (e->generation + 1) & 0xffffffu;
        if (e->generation == 0)
            e->generation = 1;
        handle = VGP_HANDLE(type, e->generation, index);
        atomic_store_explicit(&e->data, data, memory_order_relaxed);
        for (unsigned i = 0; i < VCU_HANDLE_FACTS; i++)
            atomic_store_explicit(&e->facts[i], 0, memory_order_relaxed);
        atomic_store_explicit(&e->handle, handle, memory_order_release);
        t->live++;
    }
    pthread_mutex_unlock(&t->lock);
    return handle;
}

static struct entry *handle_find(uint64_t handle, enum vgp_handle_type type)
{
    struct entry *e;

    if (handle == 0 || VGP_HANDLE_TYPE(handle) != (unsigned)type || (unsigned)type >= VGP_H_TYPES)
        return NULL;
    e = entry_at(&tables[type], VGP_HANDLE_INDEX(handle));
    if (e == NULL || atomic_load_explicit(&e->handle, memory_order_acquire) != handle)
        return NULL;
    return e;
}

bool vgp_handle_live(uint64_t handle, enum vgp_handle_type type)
{
    return handle_find(handle, type) != NULL;
}

void vgp_handle_drop(uint64_t handle)
{
    unsigned type = VGP_HANDLE_TYPE(handle);
    uint32_t index = VGP_HANDLE_INDEX(handle);
    struct table *t;
    struct entry *e;

    if (type == 0 || type >= VGP_H_TYPES)
        return;
    t = &tables[type];
    pthread_mutex_lock(&t->lock);
    e = handle_find(handle, (enum vgp_handle_type)type);
    if (e != NULL) {
        atomic_store_explicit(&e->handle, 0, memory_order_release);
        atomic_store_explicit(&e->data, NULL, memory_order_relaxed);
        e->next_free = 0;
        if (t->free_count == 0)
            t->free_head = index;
        else
            entry_at(t, t->free_tail)->next_free = index;
        t->free_tail = index;
        t->free_count++;
        t->live--;
    }
    pthread_mutex_unlock(&t->lock);
}

void *vcu_handle_data(uint64_t handle, enum vgp_handle_type type)
{
    struct entry *e = handle_find(handle, type);
    void *data;

    if (e == NULL)
        return NULL;
    data = atomic_load_explicit(&e->data, memory_order_acquire);
    /* Dropped and reused meanwhile? Then the data may be another object's. */
    return atomic_load_explicit(&e->handle, memory_order_acquire) == handle ? data : NULL;
}

bool vcu_handle_set_data(uint64_t handle, enum vgp_handle_type type, void *data)
{
    struct entry *e = handle_find(handle, type);

    if (e == NULL)
        return false;
    atomic_store_explicit(&e->data, data, memory_order_release);
    return true;
}

uint64_t vcu_handle_fact(uint64_t handle, enum vgp_handle_type type, unsigned which)
{
    struct entry *e = handle_find(handle, type);
    uint64_t fact;

    if (e == NULL)
        return 0;
    fact = atomic_load_explicit(&e->facts[which], memory_order_acquire);
    return atomic_load_explicit(&e->handle, memory_order_acquire) == handle ? fact : 0;
}

bool vcu_handle_learn(uint64_t handle, enum vgp_handle_type type, unsigned which, uint64_t was, uint64_t fact)
{
    struct entry *e = handle_find(handle, type);
    bool same;

    if (e == NULL)
        return false;
    pthread_mutex_lock(&tables[type].lock); /* the index may be minted again otherwise */
    same = handle_find(handle, type) == e && atomic_load(&e->facts[which]) == was;
    if (same)
        atomic_store_explicit(&e->facts[which], fact, memory_order_release);
    pthread_mutex_unlock(&tables[type].lock);
    return same;
}

void vcu_handle_each(enum vgp_handle_type type, void (*fn)(uint64_t handle, void *data, void *arg), void *arg)
{
    struct table *t = &tables[type];
    uint32_t used;

    pthread_mutex_lock(&t->lock);
    used = t->used;
    pthread_mutex_unlock(&t->lock);
    for (uint32_t i = first_of(type); i <= used; i++) {
        struct entry *e = entry_at(t, i);
        uint64_t handle = e == NULL ? 0 : atomic_load(&e->handle);

        if (handle != 0)
            fn(handle, atomic_load(&e->data), arg);
    }
}

uint32_t vcu_handle_count(enum vgp_handle_type type)
{
    uint32_t n;

    pthread_mutex_lock(&tables[type].lock);
    n = tables[type].live;
    pthread_mutex_unlock(&tables[type].lock);
    return n;
}
