/* SPDX-License-Identifier: MIT */
/* Green contexts share memory, modules and events with their primary context, which owns them.
 * Floors below the handlers of green contexts need the primary context of each green context. */
#include "core.h"

static struct wrk_green_base *greens;

void wrk_green_base_add(struct wrk_green_base *g)
{
    g->next = greens;
    greens = g;
}

void wrk_green_base_remove(struct wrk_green_base *g)
{
    struct wrk_green_base **p = &greens;

    while (*p && *p != g)
        p = &(*p)->next;
    if (*p)
        *p = g->next;
}

bool wrk_greens_exist(void)
{
    return greens != NULL;
}

uint64_t wrk_base_handle(struct wrk_worker *w, uint64_t context)
{
    struct wrk_handle_entry *e = greens ? wrk_handles_find(&w->handles, context, VGP_H_CONTEXT) : NULL;

    return e && e->owner ? e->owner : context;
}

CUcontext wrk_base_context(CUcontext ctx)
{
    for (const struct wrk_green_base *g = greens; g; g = g->next) {
        if (g->ctx == ctx)
            return g->base_ctx;
    }
    return ctx;
}

bool wrk_context_has(struct wrk_worker *w, uint64_t context, uint64_t owner)
{
    return owner == context || (greens && wrk_base_handle(w, owner) == context);
}

bool wrk_context_divided(struct wrk_worker *w, uint64_t context)
{
    uint64_t base = wrk_base_handle(w, context);

    for (const struct wrk_green_base *g = greens; g; g = g->next) {
        if (g->base == base)
            return true;
    }
    return false;
}
