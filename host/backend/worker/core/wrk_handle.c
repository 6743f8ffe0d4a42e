/* SPDX-License-Identifier: MIT */
/*
 * Handles of a client. The guest chooses the values, so all parts are checked: the type must match
 * the call, the index must be in range, the generation must be that of the stored object. Memory is
 * allocated in chunks, so that a hostile index costs a chunk, not a whole table.
 */
#include "core.h"

#include <stdlib.h>

#ifndef WRK_HANDLE_CHUNK /* prove_handle.c uses small chunks */
#define WRK_HANDLE_CHUNK 256u
#endif
#define WRK_HANDLE_CHUNKS (VGP_HANDLE_INDEX_MAX / WRK_HANDLE_CHUNK)

struct wrk_handle_chunk {
    struct wrk_handle_entry entry[WRK_HANDLE_CHUNK];
};

uint64_t wrk_names_epoch = 1;

void wrk_handles_fini(struct wrk_handles *t)
{
    for (unsigned type = 0; type < VGP_H_TYPES; type++) {
        if (!t->chunks[type])
            continue;
        for (unsigned i = 0; i < WRK_HANDLE_CHUNKS; i++)
            free(t->chunks[type][i]);
        free(t->chunks[type]);
        t->chunks[type] = NULL;
        free(t->free_list[type]);
        t->free_list[type] = NULL;
        t->nfree[type] = t->free_room[type] = 0;
    }
}

/* Handles minted here: freed indices are reused. */
static bool is_minted(unsigned type, uint64_t handle)
{
    return (type == VGP_H_GRAPH || type == VGP_H_GRAPH_NODE) &&
           VGP_HANDLE_INDEX(handle) < VGP_HANDLE_GUEST_FIRST;
}

static bool well_formed(uint64_t handle, unsigned type)
{
    return type > 0 && type < VGP_H_TYPES && VGP_HANDLE_TYPE(handle) == type && VGP_HANDLE_GEN(handle) != 0 &&
           VGP_HANDLE_INDEX(handle) < VGP_HANDLE_INDEX_MAX;
}

static struct wrk_handle_entry *entry_at(struct wrk_handles *t, uint64_t handle, unsigned type)
{
    uint32_t index = VGP_HANDLE_INDEX(handle);

    if (!t->chunks[type] || !t->chunks[type][index / WRK_HANDLE_CHUNK])
        return NULL;
    return &t->chunks[type][index / WRK_HANDLE_CHUNK]->entry[index % WRK_HANDLE_CHUNK];
}

struct wrk_handle_entry *wrk_handles_find(struct wrk_handles *t, uint64_t handle, unsigned type)
{
    if (!well_formed(handle, type))
        return NULL;
    struct wrk_handle_entry *e = entry_at(t, handle, type);
    if (!e || !e->live || e->generation != VGP_HANDLE_GEN(handle))
        return NULL;
    return e;
}

/* Entry of a well-formed handle; NULL: no memory. */
static struct wrk_handle_entry *make_room(struct wrk_handles *t, uint64_t handle, unsigned type)
{
    uint32_t index = VGP_HANDLE_INDEX(handle);

    if (!t->chunks[type])
        t->chunks[type] = calloc(WRK_HANDLE_CHUNKS, sizeof(*t->chunks[type]));
    if (!t->chunks[type])
        return NULL;
    struct wrk_handle_chunk **chunk = &t->chunks[type][index / WRK_HANDLE_CHUNK];
    if (!*chunk)
        *chunk = calloc(1, sizeof(**chunk));
    return *chunk ? &(*chunk)->entry[index % WRK_HANDLE_CHUNK] : NULL;
}

CUresult wrk_handles_reserve(struct wrk_handles *t, uint64_t handle, unsigned type)
{
    if (!well_formed(handle, type))
        return CUDA_ERROR_INVALID_HANDLE;
    const struct wrk_handle_entry *e = wrk_limits_handle(t, type) ? make_room(t, handle, type) : NULL;

    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* Reusing the generation would make a stale handle valid. */
    if (e->live || e->generation == VGP_HANDLE_GEN(handle))
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

void wrk_handles_put(struct wrk_handles *t, uint64_t handle, unsigned type, void *object, uint64_t owner)
{
    struct wrk_handle_entry *e = entry_at(t, handle, type);

    e->object = object;
    e->owner = owner;
    e->parent = 0;
    e->first = e->next = e->prev = 0;
    e->generation = VGP_HANDLE_GEN(handle);
    e->live = true;
    e->failed = 0;
    t->live[type]++;
    t->live_all++;
    if (VGP_HANDLE_INDEX(handle) >= t->high[type])
        t->high[type] = VGP_HANDLE_INDEX(handle) + 1;
}

void wrk_handles_fail(struct wrk_handles *t, uint64_t handle, unsigned type, CUresult r)
{
    struct wrk_handle_entry *e = well_formed(handle, type) ? make_room(t, handle, type) : NULL;

    if (!e || e->live || e->generation == VGP_HANDLE_GEN(handle))
        return;
    e->generation = VGP_HANDLE_GEN(handle);
    e->failed = (int)r;
}

CUresult wrk_handles_failure(struct wrk_handles *t, uint64_t handle, unsigned type)
{
    struct wrk_handle_entry *e = well_formed(handle, type) ? entry_at(t, handle, type) : NULL;

    return e && !e->live && e->generation == VGP_HANDLE_GEN(handle) ? (CUresult)e->failed : CUDA_SUCCESS;
}

void wrk_handles_set_parent(struct wrk_handles *t, uint64_t handle, uint64_t parent)
{
    struct wrk_handle_entry *e = wrk_handles_find(t, handle, VGP_HANDLE_TYPE(handle));
    struct wrk_handle_entry *p = wrk_handles_find(t, parent, VGP_HANDLE_TYPE(parent));

    if (!e || !p || e == p || e->parent)
        return;
    e->parent = parent;
    e->next = p->first;
    if (p->first)
        entry_at(t, p->first, VGP_HANDLE_TYPE(p->first))->prev = handle;
    p->first = handle;
}

/* Removes a handle from the list of its parent, which may itself be in removal. */
static void leave_parent(struct wrk_handles *t, struct wrk_handle_entry *e)
{
    if (!e->parent)
        return;
    if (e->prev)
        entry_at(t, e->prev, VGP_HANDLE_TYPE(e->prev))->next = e->next;
    else
        entry_at(t, e->parent, VGP_HANDLE_TYPE(e->parent))->first = e->next;
    if (e->next)
        entry_at(t, e->next, VGP_HANDLE_TYPE(e->next))->prev = e->prev;
    e->parent = e->next = e->prev = 0;
}

void wrk_name_removed(struct wrk_handle_entry *e)
{
    struct wrk_name *n = e->name;

    if (!n)
        return;
    n->entry = NULL;
    e->name = NULL;
    if (!n->end) {
        n->gone = true;
        wrk_names_epoch++;
    }
}

bool wrk_handles_remove(struct wrk_handles *t, uint64_t handle, unsigned type)
{
    struct wrk_handle_entry *e = wrk_handles_find(t, handle, type);

    if (!e)
        return false;
    e->live = false;
    wrk_name_removed(e);
    e->object = NULL;
    t->live[type]--;
    t->live_all--;
    leave_parent(t, e);
    while (e->first)
        wrk_handles_remove(t, e->first, VGP_HANDLE_TYPE(e->first));
    if (is_minted(type, handle)) {
        if (t->nfree[type] == t->free_room[type]) {
            uint32_t room = t->free_room[type] ? 2 * t->free_room[type] : 64;
            uint32_t *grown = realloc(t->free_list[type], room * sizeof(*grown));

            if (!grown)
                return true; /* only the index is lost */
            t->free_list[type] = grown;
            t->free_room[type] = room;
        }
        t->free_list[type][t->nfree[type]++] = VGP_HANDLE_INDEX(handle);
    }
    return true;
}

uint64_t wrk_handles_mint(struct wrk_handles *t, unsigned type, void *object)
{
    uint32_t index = t->nfree[type] ? t->free_list[type][t->nfree[type] - 1] : t->minted[type] + 1;
    uint32_t generation = 1;

    if (index >= VGP_HANDLE_GUEST_FIRST)
        return 0;
    const struct wrk_handle_entry *e = entry_at(t, VGP_HANDLE(type, 1, index), type);
    if (e && e->generation)
        generation = e->generation == 0xffffffu ? 1 : e->generation + 1;
    uint64_t handle = VGP_HANDLE(type, generation, index);
    if (wrk_handles_reserve(t, handle, type) != CUDA_SUCCESS)
        return 0;
    if (t->nfree[type])
        t->nfree[type]--;
    else
        t->minted[type] = index;
    wrk_handles_put(t, handle, type, object, 0);
    return handle;
}

void wrk_handles_each(struct wrk_handles *t, unsigned type,
                      void (*fn)(struct wrk_handle_entry *e, uint64_t handle, void *arg), void *arg)
{
    for (uint32_t i = 0; i < t->high[type]; i++) {
        struct wrk_handle_chunk *chunk = t->chunks[type][i / WRK_HANDLE_CHUNK];

        if (!chunk) {
            i += WRK_HANDLE_CHUNK - 1 - i % WRK_HANDLE_CHUNK;
            continue;
        }
        struct wrk_handle_entry *e = &chunk->entry[i % WRK_HANDLE_CHUNK];
        if (e->live)
            fn(e, VGP_HANDLE(type, e->generation, i), arg);
    }
}
