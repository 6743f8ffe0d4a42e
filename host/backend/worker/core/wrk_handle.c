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

/* CUDA error for an invalid object of this type. */
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

void wrk_call_uses(struct wrk_call *c, CUcontext ctx)
{
    if (!ctx || ctx == c->other[0])
        return;
    c->many |= c->other[0] != NULL;
    c->other[0] = ctx;
    c->other[1] = wrk_base_context(ctx);
}

/*
 * A call may be about an object of another context than its own. Its wait then uses that context,
 * too: other threads may end it as soon as the call waits, and the object with it.
 */
static void note_context(struct wrk_call *c, const struct wrk_handle_entry *e)
{
    const struct wrk_handle_entry *of;

    if (!e->owner || e->owner == c->rec->context)
        return;
    of = wrk_handles_find(&c->w->handles, e->owner, VGP_H_CONTEXT);
    if (of)
        wrk_call_uses(c, of->object);
}

CUresult wrk_handle_get(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type, bool null_ok,
                        void **out)
{
    *out = NULL;
    if (type == VGP_H_STREAM && handle <= 2) {
        if (!handle && !null_ok)
            return CUDA_ERROR_INVALID_HANDLE;
        CUresult r = wrk_stream_get(c, handle, (CUstream *)out);

        c->stream = *out;
        c->has_stream = r == CUDA_SUCCESS;
        return r;
    }
    if (!handle)
        return null_ok ? CUDA_SUCCESS : bad_handle(type);
    struct wrk_handle_entry *e = wrk_handles_find(&c->w->handles, handle, type);
    if (!e) {
        CUresult failed = wrk_handles_failure(&c->w->handles, handle, type);

        c->told |= failed != CUDA_SUCCESS;
        return failed != CUDA_SUCCESS ? failed : bad_handle(type);
    }
    /* Of an ended primary context only the handle is there; NULL would name the calling one. */
    if (type == VGP_H_CONTEXT && !e->object)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = e->object;
    note_context(c, e);
    if (type == VGP_H_STREAM) {
        c->stream = e->object;
        c->has_stream = true;
    }
    return c->w->naming ? wrk_naming_found(c, type, e, handle) : CUDA_SUCCESS;
}

CUresult wrk_func_get(struct wrk_call *c, uint64_t handle, CUfunction *func)
{
    unsigned type = VGP_HANDLE_TYPE(handle) == VGP_H_KERNEL ? VGP_H_KERNEL : VGP_H_FUNCTION;

    return wrk_handle_get(c, handle, type, false, (void **)func);
}

CUresult wrk_handle_reserve(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type)
{
    CUresult r = wrk_handles_reserve(&c->w->handles, handle, type);

    c->makes = handle;
    c->makes_type = type;
    if (r == CUDA_ERROR_INVALID_HANDLE)
        return wrk_malformed(c, "handle %#llx cannot be created: malformed, live or used before",
                             (unsigned long long)handle);
    return r;
}

void wrk_handle_put(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type, void *object)
{
    uint64_t owner = c->rec->context;

    /* Streams are owned by their (green) context, all other objects by the underlying primary
     * context (wrk_base_handle). */
    if (type != VGP_H_STREAM)
        owner = type == VGP_H_CONTEXT ? 0 : wrk_base_handle(c->w, owner);
    if (wrk_handles_reserve(&c->w->handles, handle, type) == CUDA_SUCCESS)
        wrk_handles_put(&c->w->handles, handle, type, object, owner);
}

void wrk_handle_parent(struct wrk_call *c, uint64_t handle, uint64_t parent)
{
    wrk_handles_set_parent(&c->w->handles, handle, parent);
}

void wrk_handle_drop(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type)
{
    wrk_handles_remove(&c->w->handles, handle, type);
}
