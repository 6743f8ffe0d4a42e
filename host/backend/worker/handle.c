/* SPDX-License-Identifier: MIT */
/*
 * Handles of one client. The guest chooses the value, so nothing about it is believed: the type
 * must be the one that the call asks for, the index in range, the generation the one that was put.
 * Memory is taken in chunks, so that a hostile index costs one chunk, not a whole table.
 */
#include "worker.h"

#include <stdlib.h>

#define CHUNK 256u
#define VGB_HANDLE_CHUNKS (VGP_HANDLE_INDEX_MAX / CHUNK)

struct vgb_handle_chunk {
    struct vgb_handle_entry entry[CHUNK];
};

void vgb_handles_fini(struct vgb_handles *t)
{
    for (unsigned type = 0; type < VGP_H_TYPES; type++) {
        if (!t->chunks[type])
            continue;
        for (unsigned i = 0; i < VGB_HANDLE_CHUNKS; i++)
            free(t->chunks[type][i]);
        free(t->chunks[type]);
        t->chunks[type] = NULL;
        free(t->free_list[type]);
        t->free_list[type] = NULL;
        t->nfree[type] = t->free_room[type] = 0;
    }
}

/* Types whose handles are minted here: their freed indices are used again. */
static bool is_minted(unsigned type)
{
    return type == VGP_H_GRAPH || type == VGP_H_GRAPH_NODE;
}

static bool well_formed(uint64_t handle, unsigned type)
{
    return type > 0 && type < VGP_H_TYPES && VGP_HANDLE_TYPE(handle) == type &&
           VGP_HANDLE_GEN(handle) != 0 && VGP_HANDLE_INDEX(handle) < VGP_HANDLE_INDEX_MAX;
}

static struct vgb_handle_entry *entry_at(struct vgb_handles *t, uint64_t handle, unsigned type)
{
    uint32_t index = VGP_HANDLE_INDEX(handle);

    if (!t->chunks[type] || !t->chunks[type][index / CHUNK])
        return NULL;
    return &t->chunks[type][index / CHUNK]->entry[index % CHUNK];
}

struct vgb_handle_entry *vgb_handles_find(struct vgb_handles *t, uint64_t handle, unsigned type)
{
    if (!well_formed(handle, type))
        return NULL;
    struct vgb_handle_entry *e = entry_at(t, handle, type);
    if (!e || !e->live || e->generation != VGP_HANDLE_GEN(handle))
        return NULL;
    return e;
}

CUresult vgb_handles_reserve(struct vgb_handles *t, uint64_t handle, unsigned type)
{
    uint32_t index = VGP_HANDLE_INDEX(handle);

    if (!well_formed(handle, type))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!t->chunks[type]) {
        t->chunks[type] = calloc(VGB_HANDLE_CHUNKS, sizeof(*t->chunks[type]));
        if (!t->chunks[type])
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct vgb_handle_chunk **chunk = &t->chunks[type][index / CHUNK];
    if (!*chunk)
        *chunk = calloc(1, sizeof(**chunk));
    if (!*chunk)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct vgb_handle_entry *e = &(*chunk)->entry[index % CHUNK];
    /* The same generation again would make a stale handle valid. */
    if (e->live || e->generation == VGP_HANDLE_GEN(handle))
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

void vgb_handles_put(struct vgb_handles *t, uint64_t handle, unsigned type, void *object,
                     uint64_t owner)
{
    struct vgb_handle_entry *e = entry_at(t, handle, type);

    e->object = object;
    e->owner = owner;
    e->generation = VGP_HANDLE_GEN(handle);
    e->live = true;
    t->live[type]++;
    if (VGP_HANDLE_INDEX(handle) >= t->high[type])
        t->high[type] = VGP_HANDLE_INDEX(handle) + 1;
}

bool vgb_handles_remove(struct vgb_handles *t, uint64_t handle, unsigned type)
{
    struct vgb_handle_entry *e = vgb_handles_find(t, handle, type);

    if (!e)
        return false;
    e->live = false;
    e->object = NULL;
    t->live[type]--;
    if (is_minted(type)) {
        if (t->nfree[type] == t->free_room[type]) {
            uint32_t room = t->free_room[type] ? 2 * t->free_room[type] : 64;
            uint32_t *grown = realloc(t->free_list[type], room * sizeof(*grown));

            if (!grown)
                return true; /* the index is lost, nothing else */
            t->free_list[type] = grown;
            t->free_room[type] = room;
        }
        t->free_list[type][t->nfree[type]++] = VGP_HANDLE_INDEX(handle);
    }
    return true;
}

uint64_t vgb_handles_mint(struct vgb_handles *t, unsigned type, void *object)
{
    uint32_t index = t->nfree[type] ? t->free_list[type][t->nfree[type] - 1] : t->high[type] + 1;
    uint32_t generation = 1;

    if (index >= VGP_HANDLE_INDEX_MAX)
        return 0;
    const struct vgb_handle_entry *e = entry_at(t, VGP_HANDLE(type, 1, index), type);
    if (e && e->generation)
        generation = e->generation == 0xffffffu ? 1 : e->generation + 1;
    uint64_t handle = VGP_HANDLE(type, generation, index);
    if (vgb_handles_reserve(t, handle, type) != CUDA_SUCCESS)
        return 0;
    if (t->nfree[type])
        t->nfree[type]--;
    vgb_handles_put(t, handle, type, object, 0);
    return handle;
}

void vgb_handles_each(struct vgb_handles *t, unsigned type,
                      void (*fn)(struct vgb_handle_entry *e, uint64_t handle, void *arg),
                      void *arg)
{
    for (uint32_t i = 0; i < t->high[type]; i++) {
        struct vgb_handle_chunk *chunk = t->chunks[type][i / CHUNK];

        if (!chunk) {
            i += CHUNK - 1 - i % CHUNK;
            continue;
        }
        struct vgb_handle_entry *e = &chunk->entry[i % CHUNK];
        if (e->live)
            fn(e, VGP_HANDLE(type, e->generation, i), arg);
    }
}

/* Which error CUDA gives for a bad object of this type. */
static CUresult bad_handle(unsigned type)
{
    switch (type) {
    case VGP_H_CONTEXT:
    case VGP_H_GREEN:
        return CUDA_ERROR_INVALID_CONTEXT;
    case VGP_H_GRAPH:
    case VGP_H_GRAPH_NODE:
    case VGP_H_GRAPH_EXEC:
    case VGP_H_USER_OBJECT:
    case VGP_H_TEXTURE:
    case VGP_H_SURFACE:
    case VGP_H_RESOURCE_DESC:
        return CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_HANDLE;
    }
}

CUresult vgb_handle_get(struct vgb_call *c, uint64_t handle, enum vgp_handle_type type,
                        bool null_ok, void **out)
{
    *out = NULL;
    if (type == VGP_H_STREAM && handle <= 2) {
        if (!handle && !null_ok)
            return CUDA_ERROR_INVALID_HANDLE;
        return vgb_stream_get(c, handle, (CUstream *)out);
    }
    if (!handle)
        return null_ok ? CUDA_SUCCESS : bad_handle(type);
    struct vgb_handle_entry *e = vgb_handles_find(&c->w->handles, handle, type);
    if (!e)
        return bad_handle(type);
    *out = e->object;
    return CUDA_SUCCESS;
}

CUresult vgb_func_get(struct vgb_call *c, uint64_t handle, CUfunction *func)
{
    unsigned type = VGP_HANDLE_TYPE(handle) == VGP_H_KERNEL ? VGP_H_KERNEL : VGP_H_FUNCTION;

    return vgb_handle_get(c, handle, type, false, (void **)func);
}

CUresult vgb_handle_reserve(struct vgb_call *c, uint64_t handle, enum vgp_handle_type type)
{
    CUresult r = vgb_handles_reserve(&c->w->handles, handle, type);

    if (r == CUDA_ERROR_INVALID_HANDLE)
        return vgb_malformed(c, "handle %#llx cannot be created: malformed, live or used before",
                             (unsigned long long)handle);
    return r;
}

void vgb_handle_put(struct vgb_call *c, uint64_t handle, enum vgp_handle_type type, void *object)
{
    uint64_t owner = c->rec->context;

    /* What a context stands on (vgb_base_handle) is the owner of a context; streams are a green context's
     * own, all else is of what it stands on. */
    if (type != VGP_H_STREAM)
        owner = type == VGP_H_CONTEXT ? 0 : vgb_base_handle(c->w, owner);
    if (vgb_handles_reserve(&c->w->handles, handle, type) == CUDA_SUCCESS)
        vgb_handles_put(&c->w->handles, handle, type, object, owner);
}

void vgb_handle_drop(struct vgb_call *c, uint64_t handle, enum vgp_handle_type type)
{
    vgb_handles_remove(&c->w->handles, handle, type);
}
