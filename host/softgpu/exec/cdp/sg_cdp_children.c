/* SPDX-License-Identifier: MIT */
/* The children of a grid before they run: their number, their names, and the last errors of threads. */
#include "exec/cdp/cdp.h"
#include "exec/heap.h"
#include "exec/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PENDING_DEFAULT 2048u
/* threads per grid with a stored last error: the list is searched linearly */
#define ERRORS_MAX 4096u

bool sg_cdp_count(const struct sg_launch *l, struct sg_children *k)
{
    const u32 limit = l->pending_launches ? l->pending_launches : PENDING_DEFAULT;

    if (k->n >= limit || __atomic_load_n(k->total, __ATOMIC_RELAXED) >= SG_PENDING_LAUNCHES_MAX)
        return false;
    __atomic_add_fetch(k->total, 1, __ATOMIC_RELAXED);
    k->n++;
    return true;
}

void sg_cdp_uncount(struct sg_children *k)
{
    __atomic_sub_fetch(k->total, 1, __ATOMIC_RELAXED);
    k->n--;
}

struct sg_child **sg_cdp_waiting(struct sg_children *k, uint64_t buffer, bool kernel, u64 *cost)
{
    for (struct sg_child **p = &k->waiting; *p; p = &(*p)->next) {
        *cost += CDP_ENTRY_COST;
        if ((*p)->buffer == buffer && !(*p)->kernel == !kernel)
            return p;
    }
    return NULL;
}

void sg_child_free(struct sg_child *c)
{
    if (c->kernel && c->buffer)
        sg_heap_free(c->buffer);
    free(c->params);
    free(c);
}

int sg_cdp_may_go_on(const struct sg_launch *l, struct sg_fault *fault, uint64_t taken)
{
    bool late = l->max_instructions && taken >= l->max_instructions;

    if (!late && !(l->abort_flag && *l->abort_flag))
        return 0;
    memset(fault, 0, sizeof(*fault));
    fault->result = late ? SG_ERR_TIMEOUT : SG_ERR_FAILED;
    snprintf(fault->message, sizeof(fault->message), "%s, before what a kernel launched has ended",
             late ? "the launch took too many instructions" : "the launch was aborted");
    return fault->result;
}

/* ---- the last error of a thread ---- */

static bool is_of(const struct sg_cdp_error *e, const struct sg_warp *w, u32 lane)
{
    for (int i = 0; i < 3; i++)
        if (e->ctaid[i] != w->cta->ctaid[i] || e->tid[i] != w->tid[i][lane])
            return false;
    return true;
}

/* The entry of a thread; NULL: none. Under the lock. */
static struct sg_cdp_error *error_of(const struct sg_children *k, const struct sg_warp *w, u32 lane,
                                     u64 *cost)
{
    struct sg_cdp_error *e = k->errors;

    for (; e && !is_of(e, w, lane); e = e->next)
        *cost += CDP_ENTRY_COST;
    return e;
}

u32 sg_cdp_error(struct sg_warp *w, u32 lane, u32 code, u64 *cost)
{
    struct sg_children *k = w->cta->launch->children;
    struct sg_cdp_error *e;

    if (!code)
        return 0;
    pthread_mutex_lock(&k->lock);
    e = error_of(k, w, lane, cost);
    if (!e && k->nerrors < ERRORS_MAX && (e = calloc(1, sizeof(*e))) != NULL) {
        for (int i = 0; i < 3; i++) {
            e->ctaid[i] = w->cta->ctaid[i];
            e->tid[i] = w->tid[i][lane];
        }
        e->next = k->errors;
        k->errors = e;
        k->nerrors++;
    }
    if (e)
        e->code = code;
    pthread_mutex_unlock(&k->lock);
    return code;
}

u32 sg_cdp_last_error(struct sg_warp *w, u32 lane, bool reset, u64 *cost)
{
    struct sg_children *k = w->cta->launch->children;
    struct sg_cdp_error *e;
    u32 code;

    pthread_mutex_lock(&k->lock);
    e = error_of(k, w, lane, cost);
    code = e ? e->code : 0;
    if (e && reset)
        e->code = 0;
    pthread_mutex_unlock(&k->lock);
    return code;
}

/* ---- results ---- */

bool sg_cdp_put(struct sg_warp *w, const struct sg_insn *in, u32 lane, u64 at, const void *from, u32 n)
{
    const u32 unit = n % 8 ? 4 : 8;

    for (u32 i = 0; i < n; i += 4) {
        u32 local = 0;
        void *p = sg_resolve(w, in, lane, SG_SP_GENERIC, at + i, 4, i ? 4 : unit, true, &local);

        if (!p)
            return false;
        memcpy(local ? sg_local_word(w, lane, local - 1) : p, (const u8 *)from + i, 4);
    }
    return true;
}
