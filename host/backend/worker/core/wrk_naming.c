/* SPDX-License-Identifier: MIT */
/*
 * Graph nodes name functions, events, arrays and contexts. A driver may keep just the pointer and
 * follow it when the graph is cloned, instantiated, updated or launched. A named object is
 * therefore destroyed at once for the client, and in the provider with the last graph that may name
 * it. Objects that end with their context cannot be kept: graphs that name them can only be
 * destroyed from then on.
 *
 * Names are recorded by handle lookup (wrk_handle_get), not by the handlers. Dispatcher only.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#include "lib/hash/hash.h"
#include "vgp_facts.h"
#include "vgp_worker.h"

struct wrk_namer wrk_capturing;
static struct wrk_name *all;

/* ---- the set of one namer ---- */

static size_t naming_place(const struct wrk_namer *n, const struct wrk_name *name)
{
    return (size_t)hsh_number(0, (uintptr_t)name) & (n->room - 1);
}

static bool grow_names(struct wrk_namer *n)
{
    size_t room = n->room ? 2 * n->room : 8;
    struct wrk_namer bigger = {.room = room, .slot = calloc(room, sizeof(*bigger.slot))};

    if (!bigger.slot)
        return false;
    for (size_t i = 0; i < n->room; i++) {
        if (n->slot[i]) {
            size_t at = naming_place(&bigger, n->slot[i]);

            while (bigger.slot[at])
                at = (at + 1) & (room - 1);
            bigger.slot[at] = n->slot[i];
        }
    }
    free(n->slot);
    n->slot = bigger.slot;
    n->room = room;
    return true;
}

/* The slot of the name, or the free one for it. */
static size_t naming_find(const struct wrk_namer *n, const struct wrk_name *name)
{
    size_t i = naming_place(n, name);

    while (n->slot[i] && n->slot[i] != name)
        i = (i + 1) & (n->room - 1);
    return i;
}

/* A namer that has the name is left as it is: wrk_namer_copy() may be reading it. */
static bool add_here(struct wrk_namer *n, struct wrk_name *name)
{
    if (n->room && n->slot[naming_find(n, name)])
        return true;
    if (2 * (n->count + 1) > n->room && !grow_names(n))
        return false;
    n->slot[naming_find(n, name)] = name;
    n->count++;
    n->stale |= name->gone;
    name->namers++;
    return true;
}

static bool naming_add(struct wrk_namer *n, struct wrk_name *name)
{
    for (; n; n = n->up) {
        if (!add_here(n, name))
            return false;
    }
    return true;
}

bool wrk_namer_copy(struct wrk_namer *to, const struct wrk_namer *from)
{
    for (size_t i = 0; to != from && i < from->room; i++) {
        if (from->slot[i] && !naming_add(to, from->slot[i]))
            return false;
    }
    return true;
}

static bool stale_here(struct wrk_namer *n)
{
    if (n->looked == wrk_names_epoch)
        return n->stale;
    n->stale = false;
    for (size_t i = 0; i < n->room && !n->stale; i++)
        n->stale = n->slot[i] && n->slot[i]->gone;
    n->looked = wrk_names_epoch;
    return n->stale;
}

bool wrk_namer_stale(struct wrk_namer *n)
{
    for (; n; n = n->up) {
        if (stale_here(n))
            return true;
    }
    return false;
}

/* ---- names ---- */

static void free_name(struct wrk_name *name)
{
    *name->at = name->next;
    if (name->next)
        name->next->at = name->at;
    if (name->entry)
        name->entry->name = NULL;
    free(name);
}

static void let_go(struct wrk_worker *w, struct wrk_name *name)
{
    wrk_name_end *end = name->end;
    void *object = name->object;
    CUcontext ctx = name->ctx;

    if (--name->namers)
        return;
    free_name(name);
    if (end) {
        w->handles.kept--;
        end(w, object, ctx);
    }
}

void wrk_namer_clear(struct wrk_worker *w, struct wrk_namer *n)
{
    struct wrk_namer was = *n;

    *n = (struct wrk_namer){.up = was.up};
    for (size_t i = 0; i < was.room; i++) {
        if (was.slot[i])
            let_go(w, was.slot[i]);
    }
    free(was.slot);
}

static struct wrk_name *name_of(struct wrk_handle_entry *e, uint64_t context)
{
    struct wrk_name *name = e->name;

    if (name)
        return name;
    name = calloc(1, sizeof(*name));
    if (!name)
        return NULL;
    name->entry = e;
    name->object = e->object;
    name->context = context;
    name->next = all;
    name->at = &all;
    if (all)
        all->at = &name->next;
    all = name;
    e->name = name;
    return name;
}

/* A name without a namer is not valid yet: naming_add() makes it so. */
static CUresult name_object(struct wrk_namer *n, struct wrk_handle_entry *e, uint64_t context)
{
    struct wrk_name *made = name_of(e, context);
    bool ok = made && naming_add(n, made);

    if (made && !made->namers)
        free_name(made);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- while a call looks handles up ---- */

void wrk_naming_for(struct wrk_call *c, struct wrk_namer *n)
{
    c->w->naming = n;
    c->w->naming_events = true;
}

CUresult wrk_naming_context(struct wrk_call *c)
{
    uint64_t handle = c->rec->context;
    struct wrk_handle_entry *e = wrk_handles_find(&c->w->handles, handle, VGP_H_CONTEXT);

    return e && c->w->naming ? name_object(c->w->naming, e, handle) : CUDA_SUCCESS;
}

CUresult wrk_naming_found(struct wrk_call *c, unsigned type, struct wrk_handle_entry *e, uint64_t handle)
{
    struct wrk_handles *t = &c->w->handles;
    CUresult r = CUDA_SUCCESS;

    switch (type) {
    case VGP_H_CONTEXT:
        return name_object(c->w->naming, e, handle);
    case VGP_H_KERNEL: /* runs in the calling context unless the node names another */
        r = wrk_naming_context(c);
        break;
    case VGP_H_EVENT:
        if (!c->w->naming_events)
            return CUDA_SUCCESS;
        break;
    case VGP_H_FUNCTION:
    case VGP_H_MODULE:
    case VGP_H_LIBRARY:
    case VGP_H_ARRAY:
    case VGP_H_MIPMAPPED_ARRAY:
        break;
    default: /* streams are in no graph; graphs and user objects have their own counts */
        return CUDA_SUCCESS;
    }
    while (e->parent) { /* the object it ends with */
        struct wrk_handle_entry *p = wrk_handles_find(t, e->parent, VGP_HANDLE_TYPE(e->parent));

        if (!p)
            break;
        type = VGP_HANDLE_TYPE(e->parent);
        e = p;
    }
    return r == CUDA_SUCCESS ? name_object(c->w->naming, e, type == VGP_H_LIBRARY ? 0 : e->owner) : r;
}

/* ---- the end of what is named ---- */

bool wrk_name_keep(struct wrk_call *c, uint64_t handle, unsigned type, wrk_name_end *end)
{
    struct wrk_handle_entry *e = wrk_handles_find(&c->w->handles, handle, type);
    struct wrk_name *n = e ? e->name : NULL;

    if (!n)
        return false;
    struct wrk_handle_entry *ctx = wrk_handles_find(&c->w->handles, n->context, VGP_H_CONTEXT);
    n->end = end;
    n->ctx = ctx ? ctx->object : NULL;
    c->w->handles.kept++;
    wrk_handles_remove(&c->w->handles, handle, type);
    return true;
}

void wrk_names_context_ends(struct wrk_worker *w, uint64_t context)
{
    struct wrk_handle_entry *e = wrk_handles_find(&w->handles, context, VGP_H_CONTEXT);

    if (e)
        wrk_name_removed(e); /* the handle of a primary context stays */
    for (struct wrk_name *n = all; n; n = n->next) {
        if (!n->end || n->context != context)
            continue;
        n->end = NULL;
        n->gone = true;
        w->handles.kept--;
        wrk_names_epoch++;
    }
}
