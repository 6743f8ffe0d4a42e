/* SPDX-License-Identifier: MIT */
/* Sets of disjoint address ranges: own device allocations, pinned host memory. */
#include "../core.h"

/* Under the set's lock. */
static bool range_around(const struct vcu_range_set *set, uint64_t addr, struct vcu_range *out)
{
    struct btr_item item;

    if (!btr_floor(&set->tree, addr, &item) || addr - item.key >= item.weight)
        return false;
    *out = (struct vcu_range){item.key, item.weight, item.value};
    return true;
}

/* The first range that overlaps [start, start + size), which does not wrap. Under the set's lock. */
static bool range_overlap(const struct vcu_range_set *set, uint64_t start, uint64_t size,
                          struct vcu_range *out)
{
    struct btr_item item;

    if (range_around(set, start, out))
        return true;
    if (!btr_ceiling(&set->tree, start, &item) || item.key - start >= size)
        return false;
    *out = (struct vcu_range){item.key, item.weight, item.value};
    return true;
}

bool vcu_range_add(struct vcu_range_set *set, uint64_t start, uint64_t size, void *data)
{
    struct vcu_range there;
    bool added;

    if (size == 0 || start + size < start)
        return false;
    pthread_rwlock_wrlock(&set->lock);
    added = !range_overlap(set, start, size, &there) && btr_insert(&set->tree, start, size, data) == 0;
    pthread_rwlock_unlock(&set->lock);
    return added;
}

bool vcu_range_remove(struct vcu_range_set *set, uint64_t start, struct vcu_range *out)
{
    struct btr_item item;
    bool removed;

    pthread_rwlock_wrlock(&set->lock);
    removed = btr_remove(&set->tree, start, &item);
    pthread_rwlock_unlock(&set->lock);
    if (removed && out != NULL)
        *out = (struct vcu_range){item.key, item.weight, item.value};
    return removed;
}

bool vcu_range_remove_overlap(struct vcu_range_set *set, uint64_t start, uint64_t size, struct vcu_range *out)
{
    bool found;

    pthread_rwlock_wrlock(&set->lock);
    found = range_overlap(set, start, size, out);
    if (found)
        btr_remove(&set->tree, out->start, NULL);
    pthread_rwlock_unlock(&set->lock);
    return found;
}

bool vcu_range_find(struct vcu_range_set *set, uint64_t addr, struct vcu_range *out)
{
    struct vcu_range range;
    bool found;

    pthread_rwlock_rdlock(&set->lock);
    found = range_around(set, addr, &range);
    pthread_rwlock_unlock(&set->lock);
    if (found && out != NULL)
        *out = range;
    return found;
}

bool vcu_range_look(struct vcu_range_set *set, uint64_t addr, vcu_range_fn *fn, void *arg)
{
    struct vcu_range range;
    bool yes;

    pthread_rwlock_rdlock(&set->lock);
    yes = range_around(set, addr, &range) && fn(&range, arg);
    pthread_rwlock_unlock(&set->lock);
    return yes;
}

bool vcu_range_look_overlap(struct vcu_range_set *set, uint64_t start, uint64_t size, vcu_range_fn *fn,
                            void *arg)
{
    struct vcu_range range;
    bool yes;

    pthread_rwlock_rdlock(&set->lock);
    yes = range_overlap(set, start, size, &range) && fn(&range, arg);
    pthread_rwlock_unlock(&set->lock);
    return yes;
}

bool vcu_range_edit(struct vcu_range_set *set, uint64_t addr, vcu_range_fn *fn, void *arg)
{
    struct vcu_range range;
    bool removed;

    pthread_rwlock_wrlock(&set->lock);
    removed = range_around(set, addr, &range) && fn(&range, arg);
    if (removed)
        btr_remove(&set->tree, range.start, NULL);
    pthread_rwlock_unlock(&set->lock);
    return removed;
}

void vcu_range_remove_if(struct vcu_range_set *set, vcu_range_fn *fn, void *arg)
{
    struct btr_item item;
    uint64_t from = 0;

    pthread_rwlock_wrlock(&set->lock);
    while (btr_ceiling(&set->tree, from, &item)) {
        const struct vcu_range range = {item.key, item.weight, item.value};

        if (fn(&range, arg))
            btr_remove(&set->tree, range.start, NULL);
        from = range.start + range.size; /* at most UINT64_MAX: vcu_range_add() */
    }
    pthread_rwlock_unlock(&set->lock);
}
