/* SPDX-License-Identifier: MIT */
/*
 * Holds what the description says that calls make and end (docs/state.md) against what is there: after each call that
 * succeeded, objects that it made are found, those that it ended are not. For tests: the environment has VGPU_TEST_AUDIT.
 * A difference is a fault of the description or of a handler, never of the guest; it is logged, and the client goes on.
 */
#include "main.h"

#include <stdlib.h>

#include "vgp_facts.h"
#include "vgp_worker.h"

static bool on;

void wrk_audit_init(void)
{
    on = getenv("VGPU_TEST_AUDIT") != NULL;
    if (on)
        vgb_log(VGB_WARN, "audit: each call's objects are looked up after it");
}

/* Memory is known to the provider alone. That of a graph under construction has no extent yet. */
static bool allocated(uint64_t address)
{
    CUdeviceptr base = 0;
    size_t size = 0;

    return wrk_provider.cuMemGetAddressRange_v2 &&
           wrk_provider.cuMemGetAddressRange_v2(&base, &size, (CUdeviceptr)address) == CUDA_SUCCESS;
}

static void look(struct wrk_call *c, const struct vgp_state *s)
{
    const void *reply = c->reply_size >= s->at.offset + s->at.size ? c->reply : NULL;
    uint64_t number = vgp_place_get(s->at, c->args, reply);
    bool there;

    if (!number) /* none was made, or the call does not name what it ended */
        return;
    if (s->kind < VGP_H_TYPES)
        there = wrk_handles_find(&c->w->handles, number, s->kind);
    else if (s->kind == VGP_KIND_MEMORY && !wrk_captures && !(s->ends && !vgp_leaves_nothing(c->rec->call)))
        there = allocated(number);
    else
        return;
    if (there == s->ends)
        vgb_log(VGB_ERROR, "audit: call %#06x: %#llx of kind %u is %s", c->rec->call,
                (unsigned long long)number, s->kind, there ? "there after its end" : "not there");
}

void wrk_audit(struct wrk_call *c)
{
    const struct vgp_call_facts *f = on ? vgp_call_facts(c->rec->call) : NULL;

    if (f && f->verdict.where && vgp_place_get(f->verdict, c->args, c->reply))
        return;
    for (uint32_t i = 0; f && i < f->states_count; i++) {
        /* What a call does later is not done yet; its handles are taken away at once. */
        if (!c->deferred || (f->states[i].ends && f->states[i].kind < VGP_H_TYPES))
            look(c, &f->states[i]);
    }
}
