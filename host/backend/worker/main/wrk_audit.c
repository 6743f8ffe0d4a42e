/* SPDX-License-Identifier: MIT */
/*
 * Compares the objects that calls create and end per the description (docs/state.md) with the
 * actual state: after each successful call, created objects must exist and ended objects must not.
 * Enabled in tests by VGPU_TEST_AUDIT. A difference is a bug of the description or of a handler,
 * never of the guest; it is logged, and the client continues. Objects not released by a program are
 * logged when it trims graph memory three times, which tests do after releasing everything.
 */
#include "main.h"
#include "memory/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vgp_facts.h"
#include "vgp_worker.h"

#define OWN_RANGES 2u  /* staging and results */
#define CURRENT_MAX 2u /* ended contexts still current on threads */

static bool on;

void wrk_audit_init(void)
{
    on = getenv("VGPU_TEST_AUDIT") != NULL;
    if (on)
        vgb_log(VGB_WARN, "audit: each call's objects are looked up after it");
}

/* Memory is known only to the provider. Memory of a graph under construction has no extent yet. */
static bool address_is_allocated(uint64_t address)
{
    CUdeviceptr base = 0;
    size_t size = 0;

    return wrk_provider.cuMemGetAddressRange_v2 &&
           wrk_provider.cuMemGetAddressRange_v2(&base, &size, (CUdeviceptr)address) == CUDA_SUCCESS;
}

static void audit_look(struct wrk_call *c, const struct vgp_state *s)
{
    const void *reply = c->reply_size >= s->at.offset + s->at.size ? c->reply : NULL;
    uint64_t number = vgp_place_get(s->at, c->args, reply);
    bool there;

    if (!number) /* none was created, or the call does not name the ended object */
        return;
    if (s->kind < VGP_H_TYPES)
        there = wrk_handles_find(&c->w->handles, number, s->kind);
    else if (s->kind == VGP_KIND_MEMORY && !wrk_captures && !(s->ends && !vgp_leaves_nothing(c->rec->call)))
        there = address_is_allocated(number);
    else
        return;
    if (there == s->ends)
        vgb_log(VGB_ERROR, "audit: call %#06x: %#llx of kind %u is %s", c->rec->call,
                (unsigned long long)number, s->kind, there ? "there after its end" : "not there");
}

/* Primary contexts and default pools last as long as the process; no call ends a descriptor of
 * resources. */
static bool may_stay(unsigned type)
{
    return type == VGP_H_CONTEXT || type == VGP_H_MEM_POOL || type == VGP_H_RESOURCE_DESC;
}

/* Counts provider objects and handles; false: none that a program must release. */
static bool something_is_left(struct wrk_worker *w, char *text, size_t size)
{
    unsigned long long own = 0, contexts = 0, streams = 0;
    const char *rest = text;
    int length = 0;
    bool left = false;
    size_t at;

    text[0] = 0;
    if (wrk_provider.sg_books)
        wrk_provider.sg_books(text, size);
    /* An ended green context may still be current on a thread of this process, which keeps its
     * default stream. */
    if (sscanf(text, "context %llu stream %llu %n", &contexts, &streams, &length) == 2 &&
        contexts == streams && contexts <= CURRENT_MAX)
        rest += length;
    if (text[0]) /* only ranges: memory of this process */
        left = sscanf(rest, "ranges %llu bytes 0 reserved 0", &own) != 1 || own > OWN_RANGES;
    at = strlen(text);
    for (unsigned i = 0; i < VGP_H_TYPES && at < size; i++) {
        if (!w->handles.live[i] || (may_stay(i) && (i == VGP_H_RESOURCE_DESC || w->handles.live[i] == 1)))
            continue;
        at += (size_t)snprintf(text + at, size - at, ", %llu handles of type %u",
                               (unsigned long long)w->handles.live[i], i);
        left = true;
    }
    return left;
}

/* Provider threads may release a stream's objects with a short delay. */
static void look_for_rest(struct wrk_worker *w)
{
    char text[1000];

    for (unsigned i = 0; something_is_left(w, text, sizeof(text)); i++) {
        if (i == 1000) {
            vgb_log(VGB_ERROR, "audit: left: %s", text);
            return;
        }
        usleep(1000);
    }
}

void wrk_audit(struct wrk_call *c)
{
    static unsigned trims;
    const struct vgp_call_facts *f = on ? vgp_call_facts(c->rec->call) : NULL;

    trims = c->rec->call == VGP_cuDeviceGraphMemTrim ? trims + 1 : 0;
    if (on && trims == 3)
        look_for_rest(c->w);
    if (f && f->verdict.where && vgp_place_get(f->verdict, c->args, c->reply))
        return;
    for (uint32_t i = 0; f && i < f->states_count; i++) {
        /* Deferred work of a call is not done yet; its handles are removed at once. */
        if (!c->deferred || (f->states[i].ends && f->states[i].kind < VGP_H_TYPES))
            audit_look(c, &f->states[i]);
    }
}
