/* SPDX-License-Identifier: MIT */
/*
 * User objects: a counted reference to a resource of the application, held by graphs for as long as
 * they, their clones, their executable graphs and launches in progress need it. Destructors run on
 * a thread of this library, because the last reference may be dropped while any lock is held.
 */
#include <stdlib.h>

#include "graph/graph.h"

struct sg_uobj {
    struct sg_obj obj; /* registered while references exist */
    void *ptr;
    CUhostFn destroy;
    uint64_t own; /* the application's references; under count_lock */
    /* number of lists that hold it, plus one for the application; under count_lock */
    uint64_t holders;
    SG_LISTED struct sg_uobj *next; /* in the queue */
};

static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER;
static struct sg_uobj *queue, **queue_end = &queue;
static bool started;

static void *destroy_main(void *arg)
{
    struct sg_tls *t = sg_tls();

    (void)arg;
    if (t)
        t->in_callback = true; /* a destructor must not make CUDA calls */
    for (;;) {
        pthread_mutex_lock(&queue_lock);
        while (!queue)
            pthread_cond_wait(&queue_filled, &queue_lock);
        struct sg_uobj *u = queue;

        queue = u->next;
        if (!queue)
            queue_end = &queue;
        pthread_mutex_unlock(&queue_lock);
        u->destroy(u->ptr);
        free(u);
    }
    return NULL;
}

/* Starts the thread before the first object exists, so that its start cannot fail later. */
static bool start_destroyer(void)
{
    pthread_t t;

    pthread_mutex_lock(&queue_lock);
    if (!started && !pthread_create(&t, NULL, destroy_main, NULL)) {
        pthread_detach(t);
        started = true;
    }
    pthread_mutex_unlock(&queue_lock);
    return started;
}

static void uobj_free(struct sg_obj *obj)
{
    struct sg_uobj *u = (struct sg_uobj *)obj;

    pthread_mutex_lock(&queue_lock);
    u->next = NULL;
    *queue_end = u;
    queue_end = &u->next;
    pthread_cond_signal(&queue_filled);
    pthread_mutex_unlock(&queue_lock);
}

/* ---- references of graphs and programs ---- */

/* A holder has a reference: the destructor runs when the last holder is gone. */
static void uobj_hold(struct sg_uobj *u)
{
    sg_obj_get(&u->obj);
    pthread_mutex_lock(&count_lock);
    u->holders++;
    pthread_mutex_unlock(&count_lock);
}

void sg_uobj_let_go(struct sg_uobj *u)
{
    pthread_mutex_lock(&count_lock);
    bool last = --u->holders == 0;

    pthread_mutex_unlock(&count_lock);
    if (last)
        sg_obj_unregister(&u->obj);
    sg_obj_put(&u->obj);
}

bool sg_urefs_add(struct sg_urefs *l, struct sg_uobj *u, unsigned count)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->ref[i].u == u) {
            l->ref[i].count += count;
            return true;
        }
    }
    struct sg_uref *grown = realloc(l->ref, (l->n + 1) * sizeof(*grown));

    if (!grown)
        return false;
    l->ref = grown;
    uobj_hold(u); /* once, whatever the count */
    l->ref[l->n++] = (struct sg_uref){u, count};
    return true;
}

bool sg_urefs_append(struct sg_urefs *to, const struct sg_urefs *from)
{
    struct sg_uref *grown;

    if (!from->n)
        return true;
    grown = realloc(to->ref, (to->n + from->n) * sizeof(*grown));
    if (!grown)
        return false;
    to->ref = grown;
    for (size_t i = 0; i < from->n; i++) {
        uobj_hold(from->ref[i].u);
        to->ref[to->n++] = (struct sg_uref){from->ref[i].u, 1};
    }
    return true;
}

static int by_object(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)((const struct sg_uref *)a)->u,
                    y = (uintptr_t)((const struct sg_uref *)b)->u;

    return x < y ? -1 : x > y;
}

void sg_urefs_sort(struct sg_urefs *l)
{
    size_t n = 0;

    if (l->n < 2)
        return;
    qsort(l->ref, l->n, sizeof(l->ref[0]), by_object);
    for (size_t i = 1; i < l->n; i++) {
        if (l->ref[i].u == l->ref[n].u) {
            l->ref[n].count += l->ref[i].count;
            sg_uobj_let_go(l->ref[i].u); /* another entry holds it */
        } else {
            l->ref[++n] = l->ref[i];
        }
    }
    l->n = n + 1;
}

bool sg_urefs_copy(struct sg_urefs *to, const struct sg_urefs *from)
{
    const bool empty = !to->n;

    if (!sg_urefs_append(to, from))
        return false;
    if (!empty)
        sg_urefs_sort(to);
    return true;
}

void sg_urefs_clear(struct sg_urefs *l)
{
    for (size_t i = 0; i < l->n; i++)
        sg_uobj_let_go(l->ref[i].u);
    free(l->ref);
    *l = (struct sg_urefs){0};
}

bool sg_urefs_drop(struct sg_urefs *l, const struct sg_uobj *u, unsigned count, bool *gone)
{
    *gone = false;
    for (size_t i = 0; i < l->n; i++) {
        struct sg_uref *ref = &l->ref[i];

        if (ref->u != u || ref->count < count)
            continue;
        ref->count -= count;
        *gone = !ref->count;
        if (*gone)
            *ref = l->ref[--l->n];
        return true;
    }
    return false;
}

/* ---- references of the application ---- */

bool sg_uobj_new(void *ptr, CUhostFn destroy, unsigned refs, CUuserObject *out)
{
    struct sg_uobj *u = start_destroyer() ? calloc(1, sizeof(*u)) : NULL;

    if (!u)
        return false;
    sg_obj_init(&u->obj, SG_T_UOBJ, NULL, uobj_free);
    u->ptr = ptr;
    u->destroy = destroy;
    u->own = refs;
    u->holders = 1;
    if (!sg_obj_register(&u->obj)) {
        free(u);
        return false;
    }
    *out = SG_HANDLE(CUuserObject, u);
    return true; /* the first reference is the application's */
}

void sg_uobj_retain(struct sg_uobj *u, unsigned n)
{
    pthread_mutex_lock(&count_lock);
    if (!u->own) { /* only graphs hold it */
        u->holders++;
        sg_obj_get(&u->obj);
    }
    u->own += n;
    pthread_mutex_unlock(&count_lock);
}

/* Returns n of the application's references; 1: it has fewer. */
CUresult sg_uobj_release(struct sg_uobj *u, unsigned n)
{
    pthread_mutex_lock(&count_lock);
    bool ok = u->own >= n, last = ok && u->own == n;

    u->own -= ok ? n : 0;
    pthread_mutex_unlock(&count_lock);
    if (last)
        sg_uobj_let_go(u);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
