/* SPDX-License-Identifier: MIT */
/* Sets of disjoint address ranges: own device allocations, pinned host memory. */
#define _GNU_SOURCE
#include "core.h"

#include <search.h>
#include <stdlib.h>

/* Overlapping ranges compare equal, so a one-byte key finds the range around it. */
static int compare(const void *va, const void *vb)
{
    const struct vcu_range *a = va, *b = vb;

    if (a->start >= b->start + b->size)
        return 1;
    if (b->start >= a->start + a->size)
        return -1;
    return 0;
}

bool vcu_range_add(struct vcu_range_set *set, uint64_t start, uint64_t size, void *data)
{
    struct vcu_range *r;
    void *found;
    bool added;

    if (size == 0 || start + size < start)
        return false;
    r = malloc(sizeof(*r));
    if (r == NULL)
        return false;
    *r = (struct vcu_range){start, size, data};
    pthread_rwlock_wrlock(&set->lock);
    found = tsearch(r, &set->root, compare);
    added = found != NULL && *(struct vcu_range **)found == r; /* the node is the tree's: under the lock */
    pthread_rwlock_unlock(&set->lock);
    if (!added)
        free(r);
    return added;
}

bool vcu_range_remove(struct vcu_range_set *set, uint64_t start, struct vcu_range *out)
{
    struct vcu_range key = {start, 1, NULL};
    struct vcu_range *r = NULL;
    void *found;

    pthread_rwlock_wrlock(&set->lock);
    found = tfind(&key, &set->root, compare);
    if (found != NULL && (*(struct vcu_range **)found)->start == start) {
        r = *(struct vcu_range **)found;
        tdelete(r, &set->root, compare);
    }
    pthread_rwlock_unlock(&set->lock);
    if (r == NULL)
        return false;
    if (out != NULL)
        *out = *r;
    free(r);
    return true;
}

bool vcu_range_remove_overlap(struct vcu_range_set *set, uint64_t start, uint64_t size, struct vcu_range *out)
{
    struct vcu_range key = {start, size, NULL};
    struct vcu_range *r = NULL;
    void *found;

    pthread_rwlock_wrlock(&set->lock);
    found = tfind(&key, &set->root, compare);
    if (found != NULL) {
        r = *(struct vcu_range **)found;
        tdelete(r, &set->root, compare);
    }
    pthread_rwlock_unlock(&set->lock);
    if (r == NULL)
        return false;
    *out = *r;
    free(r);
    return true;
}

bool vcu_range_find(struct vcu_range_set *set, uint64_t addr, struct vcu_range *out)
{
    struct vcu_range key = {addr, 1, NULL};
    void *found;

    pthread_rwlock_rdlock(&set->lock);
    found = tfind(&key, &set->root, compare);
    if (found != NULL && out != NULL)
        *out = **(struct vcu_range **)found;
    pthread_rwlock_unlock(&set->lock);
    return found != NULL;
}

bool vcu_range_look(struct vcu_range_set *set, uint64_t addr, vcu_range_fn *fn, void *arg)
{
    struct vcu_range key = {addr, 1, NULL};
    void *found;
    bool yes;

    pthread_rwlock_rdlock(&set->lock);
    found = tfind(&key, &set->root, compare);
    yes = found != NULL && fn(*(struct vcu_range **)found, arg);
    pthread_rwlock_unlock(&set->lock);
    return yes;
}

bool vcu_range_edit(struct vcu_range_set *set, uint64_t addr, vcu_range_fn *fn, void *arg)
{
    struct vcu_range key = {addr, 1, NULL};
    struct vcu_range *r = NULL;
    void *found;

    pthread_rwlock_wrlock(&set->lock);
    found = tfind(&key, &set->root, compare);
    if (found != NULL && fn(*(struct vcu_range **)found, arg)) {
        r = *(struct vcu_range **)found;
        tdelete(r, &set->root, compare);
    }
    pthread_rwlock_unlock(&set->lock);
    free(r);
    return r != NULL;
}

struct sweep {
    vcu_range_fn *fn;
    void *arg;
    struct vcu_range *victim;
};

static void visit(const void *node, VISIT which, void *closure)
{
    struct vcu_range *r = *(struct vcu_range *const *)node;
    struct sweep *s = closure;

    if ((which == postorder || which == leaf) && s->victim == NULL && s->fn(r, s->arg))
        s->victim = r;
}

void vcu_range_remove_if(struct vcu_range_set *set, vcu_range_fn *fn, void *arg)
{
    struct sweep s = {fn, arg, NULL};

    pthread_rwlock_wrlock(&set->lock);
    do { /* the tree must not change during a walk: one victim per walk */
        s.victim = NULL;
        twalk_r(set->root, visit, &s);
        if (s.victim != NULL) {
            tdelete(s.victim, &set->root, compare);
            free(s.victim);
        }
    } while (s.victim != NULL);
    pthread_rwlock_unlock(&set->lock);
}
