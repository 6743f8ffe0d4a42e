/* SPDX-License-Identifier: MIT */
/*
 * Driver API: user objects: a counted reference to something of the application, which graphs hold
 * for as long as they, their clones, what was instantiated from them and launches under way need it.
 *
 * Destructors run on a thread of ours: the last reference may go while any lock is held.
 */
#include <limits.h>
#include <stdlib.h>

#include "sg_graph.h"

struct sg_uobj {
    struct sg_obj obj; /* registered as long as it is held by anybody */
    void *ptr;
    CUhostFn destroy;
    uint64_t own;         /* the application's references; under count_lock */
    uint64_t holders;     /* lists that hold it, and one for the application; under count_lock */
    struct sg_uobj *next; /* in the queue */
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
        t->in_callback = true; /* a destructor may make no CUDA calls */
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

/* The thread is there before the first object is: its start cannot fail when it is needed. */
static bool start(void)
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

static void hold(struct sg_uobj *u)
{
    pthread_mutex_lock(&count_lock);
    u->holders++;
    pthread_mutex_unlock(&count_lock);
}

static void let_go(struct sg_uobj *u)
{
    pthread_mutex_lock(&count_lock);
    bool last = --u->holders == 0;

    pthread_mutex_unlock(&count_lock);
    if (last)
        sg_obj_unregister(&u->obj);
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
    hold(u); /* once, whatever the count */
    l->ref[l->n++] = (struct sg_uref){u, count};
    return true;
}

bool sg_urefs_copy(struct sg_urefs *to, const struct sg_urefs *from)
{
    for (size_t i = 0; i < from->n; i++) {
        if (!sg_urefs_add(to, from->ref[i].u, 1))
            return false;
    }
    return true;
}

void sg_urefs_clear(struct sg_urefs *l)
{
    for (size_t i = 0; i < l->n; i++)
        let_go(l->ref[i].u);
    free(l->ref);
    *l = (struct sg_urefs){0};
}

/* ---- entry points ---- */

#define SG_UOBJ(var, h)                                                                            \
    SG_INIT();                                                                                     \
    SG_AUTO struct sg_uobj *var = SG_LOOKUP((h), SG_T_UOBJ);                                       \
    if (!var)                                                                                      \
        return CUDA_ERROR_INVALID_VALUE

/* Takes n of the application's references back; 1: there are fewer. */
static CUresult release(struct sg_uobj *u, unsigned n)
{
    pthread_mutex_lock(&count_lock);
    bool ok = u->own >= n, last = ok && u->own == n;

    u->own -= ok ? n : 0;
    pthread_mutex_unlock(&count_lock);
    if (last)
        let_go(u);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                                    unsigned int initialRefcount, unsigned int flags)
{
    SG_INIT();
    if (!object_out || !destroy || !initialRefcount || initialRefcount > INT_MAX ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    struct sg_uobj *u = start() ? calloc(1, sizeof(*u)) : NULL;

    if (!u)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&u->obj, SG_T_UOBJ, NULL, uobj_free);
    u->ptr = ptr;
    u->destroy = destroy;
    u->own = initialRefcount;
    u->holders = 1;
    if (!sg_obj_register(&u->obj)) {
        free(u);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *object_out = SG_HANDLE(CUuserObject, u);
    sg_obj_put(&u->obj);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    SG_UOBJ(u, object);
    bool ok = count && count <= INT_MAX;

    pthread_mutex_lock(&count_lock);
    if (ok && !u->own) /* only graphs had it */
        u->holders++;
    u->own += ok ? count : 0;
    pthread_mutex_unlock(&count_lock);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    SG_UOBJ(u, object);
    return count && count <= INT_MAX ? release(u, count) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                         unsigned int flags)
{
    CUresult r = CUDA_SUCCESS;

    SG_GRAPH(g, graph);
    SG_AUTO struct sg_uobj *u = SG_LOOKUP(object, SG_T_UOBJ);

    if (!u || !count || count > INT_MAX || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sg_graph_lock);
    if (!sg_urefs_add(&g->urefs, u, count))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&sg_graph_lock);
    if (r == CUDA_SUCCESS && flags & CU_GRAPH_USER_OBJECT_MOVE)
        r = release(u, count);
    return r;
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    bool gone = false;

    SG_GRAPH(g, graph);
    SG_AUTO struct sg_uobj *u = SG_LOOKUP(object, SG_T_UOBJ);

    if (!u || !count || count > INT_MAX)
        return r;
    pthread_mutex_lock(&sg_graph_lock);
    for (size_t i = 0; i < g->urefs.n; i++) {
        struct sg_uref *ref = &g->urefs.ref[i];

        if (ref->u != u || ref->count < count)
            continue;
        ref->count -= count;
        gone = !ref->count;
        if (gone)
            *ref = g->urefs.ref[--g->urefs.n];
        r = CUDA_SUCCESS;
        break;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    if (gone)
        let_go(u);
    return r;
}
