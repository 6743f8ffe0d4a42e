/* SPDX-License-Identifier: MIT */
#include "vgb_plan.h"

#include <stdlib.h>
#include <string.h>

#define SMALLEST 4096u

bool vgb_plan_begin(struct vgb_plan *p, uint64_t length, const struct vgb_run *first)
{
    uint64_t page = first->page;

    memset(p, 0, sizeof(*p));
    if (!length || length % SMALLEST || page < SMALLEST || page & (page - 1) ||
        length > UINT64_MAX - 2 * page)
        return false;
    p->length = length;
    p->page = first->page;
    p->phase = (uint32_t)(first->offset % page);
    return true;
}

uint64_t vgb_plan_place(const struct vgb_plan *p)
{
    return (p->phase + p->length + p->page - 1) / p->page * p->page;
}

static struct vgb_call *one_more(struct vgb_plan *p)
{
    if (p->n == p->room) {
        uint32_t room = p->room ? p->room * 2 : 16;
        struct vgb_call *list = realloc(p->list, room * sizeof(*list));

        if (!list)
            return NULL;
        p->list = list;
        p->room = room;
    }
    return &p->list[p->n++];
}

enum vgb_plan_result vgb_plan_add(struct vgb_plan *p, const struct vgb_run *run, uint32_t prot)
{
    if (!p->page || !run->length || run->length % SMALLEST || run->offset % SMALLEST ||
        run->length > p->length - p->planned || run->file == VGB_CALL_NO_FILE)
        return VGB_PLAN_BAD;
    /* Runs consist of whole file pages; only the first may begin, and only the last may end, inside
     * a page. */
    uint64_t at = p->phase + p->planned, before = at % p->page;
    uint64_t length = (before + run->length + p->page - 1) / p->page * p->page;

    if (run->page != p->page || run->offset % p->page != before || (before && p->planned) ||
        ((before + run->length) % p->page && p->planned + run->length != p->length))
        return VGB_PLAN_PAGES;
    struct vgb_call *last = p->n ? &p->list[p->n - 1] : NULL;

    if (last && last->file == run->file && last->offset + last->length == run->offset - before) {
        last->length += length;
    } else {
        struct vgb_call *c = one_more(p);

        if (!c)
            return VGB_PLAN_MEMORY;
        *c = (struct vgb_call){.at = at - before,
                               .length = length,
                               .offset = run->offset - before,
                               .file = run->file,
                               .prot = prot};
    }
    p->planned += run->length;
    return VGB_PLAN_OK;
}

void vgb_plan_drop(struct vgb_plan *p)
{
    free(p->list);
    p->list = NULL;
    p->n = p->room = 0;
}
