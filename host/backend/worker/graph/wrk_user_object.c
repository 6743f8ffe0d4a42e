/* SPDX-License-Identifier: MIT */
/*
 * User objects of the client. The provider frees an object with its last reference, on any thread
 * at any time, while the guest keeps the handle until it has run the destructor. The handle
 * therefore refers to a record, and the provider is called only while a reference known to the
 * worker keeps the object alive: a reference of the client, or of an existing graph. Dispatcher,
 * except object_gone().
 */
#include "graph.h"

#include <limits.h>
#include <stdlib.h>

#include "vgp_worker.h"

/* references of all graphs of a client; bounds the worker's memory */
#define UREFS_MAX (1u << 20)

struct uobj {
    CUuserObject object;
    uint64_t cookie;
    uint64_t own;       /* references of the client */
    uint64_t in_graphs; /* ... of graphs, as far as known; never too high */
    VGB_LENT struct wrk_worker *w;
    atomic_uint holders; /* the handle, the provider's destructor, each struct wrk_uref */
};

/* References of a graph to an object. */
struct wrk_uref {
    VGB_COUNTED struct uobj *u;
    uint64_t count;
};

static unsigned nurefs;

static void user_object_put(struct uobj *u)
{
    if (atomic_fetch_sub(&u->holders, 1) == 1)
        free(u);
}

static void object_gone(void *arg)
{
    struct uobj *u = arg;

    wrk_tell_released(u->w, u->cookie);
    user_object_put(u);
}

/*
 * True if it may get so many references more. In one call there are as many as an int holds, and so
 * there are in all: a provider may count them in one, where more would wrap around and end an object
 * that is alive here.
 */
static bool user_object_has_room(const struct uobj *u, uint64_t more)
{
    return more <= INT_MAX && u->own + u->in_graphs <= INT_MAX - more;
}

static bool object_is_alive(const struct uobj *u)
{
    return u->own || u->in_graphs;
}

CUresult wrk_do_vgpUserObjectCreate(struct wrk_call *c, const struct vgp_args_vgpUserObjectCreate *a)
{
    struct uobj *u;
    CUresult r = wrk_handle_reserve(c, a->object, VGP_H_USER_OBJECT);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuUserObjectCreate)
        return wrk_missing(c, "cuUserObjectCreate");
    if (a->references > INT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    u = calloc(1, sizeof(*u));
    if (!u)
        return CUDA_ERROR_OUT_OF_MEMORY;
    u->cookie = a->cookie;
    u->w = c->w;
    u->own = a->references;
    atomic_store(&u->holders, 2);
    r = wrk_provider.cuUserObjectCreate(&u->object, u, object_gone, a->references, a->flags);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(c, a->object, VGP_H_USER_OBJECT, u);
    else
        free(u);
    return r;
}

CUuserObject wrk_user_object_of(const void *entry)
{
    return ((const struct uobj *)entry)->object;
}

bool wrk_user_object_may(const void *entry, uint32_t count)
{
    return object_is_alive(entry) && user_object_has_room(entry, count);
}

void wrk_user_object_own(void *entry, uint32_t count)
{
    ((struct uobj *)entry)->own += count;
}

bool wrk_user_object_take(void *entry, uint32_t count)
{
    struct uobj *u = entry;

    if (!count || u->own < count)
        return false;
    u->own -= count;
    return true;
}

/* The guest reports that the destructor has run; a premature report only costs it the handle. */
CUresult wrk_do_vgpUserObjectDrop(struct wrk_call *c, const struct vgp_args_vgpUserObjectDrop *a)
{
    struct uobj *u;

    if (wrk_handle_get(c, a->object, VGP_H_USER_OBJECT, false, (void **)&u) == CUDA_SUCCESS) {
        wrk_handle_drop(c, a->object, VGP_H_USER_OBJECT);
        user_object_put(u);
    }
    return CUDA_SUCCESS;
}

/* ---- references of graphs ---- */

static struct wrk_uref *uref_of(const struct wrk_graph *g, const struct uobj *u)
{
    struct btr_item it;

    return btr_find(&g->urefs, (uintptr_t)u, &it) ? it.value : NULL;
}

/* Entry of u, created without references if missing; NULL: no memory, or too many. */
static struct wrk_uref *uref_need(struct wrk_graph *g, struct uobj *u)
{
    struct wrk_uref *ref = uref_of(g, u);

    if (ref)
        return ref;
    ref = nurefs < UREFS_MAX ? calloc(1, sizeof(*ref)) : NULL;
    if (!ref || btr_insert(&g->urefs, (uintptr_t)u, 0, ref)) {
        free(ref);
        return NULL;
    }
    ref->u = u;
    atomic_fetch_add(&u->holders, 1);
    nurefs++;
    return ref;
}

static void uref_free(struct wrk_graph *g, struct wrk_uref *ref)
{
    btr_remove(&g->urefs, (uintptr_t)ref->u, NULL);
    ref->u->in_graphs -= ref->count;
    user_object_put(ref->u);
    free(ref);
    nurefs--;
}

void wrk_urefs_clear(struct wrk_graph *g)
{
    struct btr_item it;

    while (btr_ceiling(&g->urefs, 0, &it))
        uref_free(g, it.value);
    btr_fini(&g->urefs);
}

/* If out of memory, the clone's references are unknown: objects kept only by them cannot be used
 * directly. */
void wrk_urefs_copy(struct wrk_graph *to, const struct wrk_graph *from)
{
    struct btr_item it = {0};

    for (uint64_t key = 0; btr_ceiling(&from->urefs, key, &it); key = it.key + 1) {
        const struct wrk_uref *ref = it.value;
        struct wrk_uref *mine = uref_need(to, ref->u);

        if (!mine)
            return;
        mine->count++;
        ref->u->in_graphs++;
    }
}

CUresult wrk_user_object_retain(struct wrk_graph *g, void *entry, uint32_t count, uint32_t flags)
{
    struct uobj *u = entry;
    bool move = flags & CU_GRAPH_USER_OBJECT_MOVE;
    struct wrk_uref *ref;
    CUresult r;

    if (!count || !object_is_alive(u) || (move ? u->own < count : !user_object_has_room(u, count)))
        return CUDA_ERROR_INVALID_VALUE;
    ref = uref_need(g, u);
    if (!ref)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = wrk_provider.cuGraphRetainUserObject(g->object, u->object, count, flags);
    if (r == CUDA_SUCCESS) {
        ref->count += count;
        u->in_graphs += count;
        u->own -= move ? count : 0;
    }
    if (!ref->count)
        uref_free(g, ref);
    return r;
}

CUresult wrk_user_object_release(struct wrk_graph *g, void *entry, uint32_t count)
{
    struct uobj *u = entry;
    struct wrk_uref *ref = uref_of(g, u);

    if (!count || !ref || ref->count < count)
        return CUDA_ERROR_INVALID_VALUE;
    ref->count -= count;
    u->in_graphs -= count;
    CUresult r = wrk_provider.cuGraphReleaseUserObject(g->object, u->object, count);
    if (!ref->count)
        uref_free(g, ref);
    return r;
}
