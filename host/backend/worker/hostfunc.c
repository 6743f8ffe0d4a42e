/* SPDX-License-Identifier: MIT */
/*
 * Host functions: the provider calls us, the guest runs the function, the stream goes on. Those of
 * cuLaunchHostFunc run once; those that became nodes of a graph run at each launch, perhaps in
 * several launches at once.
 *
 * A run has a slot and a sequence number. Its end comes in two ways: a record, and a word of the
 * window, which is looked at here every now and then. So a stream goes on even when the record is
 * stuck behind calls that wait for this very stream.
 */
#include "graph.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "vgp_worker.h"

#define HOST_FUNCS_MAX 1024u /* one-time functions not yet run, of one client */
#define LOOK_FIRST_NS 1000000l   /* how soon the window is looked at, ... */
#define LOOK_LAST_NS 100000000l  /* ... and how rarely at last */

struct vgb_host_func {
    uint64_t cookie;
    bool once;
    enum vgp_extsem_op semaphores;
};

struct run {
    struct run *next;
    uint64_t cookie;
    uint32_t slot, sequence;
    bool done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct run *runs;
static unsigned waiting; /* one-time functions */
static uint64_t slots[VGP_HOST_RUNS / 64];
static uint32_t last_sequence;
static struct vgb_worker *self;
uint64_t vgb_host_nodes_made; /* the dispatcher's, both */
uint64_t vgb_semaphores_made;

static void init(void)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attr);
    pthread_condattr_destroy(&attr);
}

static bool take_slot_locked(uint32_t *slot)
{
    for (unsigned i = 0; i < VGP_HOST_RUNS / 64; i++) {
        if (slots[i] == UINT64_MAX)
            continue;
        unsigned bit = (unsigned)__builtin_ctzll(~slots[i]);
        slots[i] |= UINT64_C(1) << bit;
        *slot = i * 64 + bit;
        return true;
    }
    return false;
}

static void begin(struct run *r)
{
    pthread_mutex_lock(&lock);
    while (!take_slot_locked(&r->slot))
        pthread_cond_wait(&changed, &lock);
    if (++last_sequence == 0)
        last_sequence = 1;
    r->sequence = last_sequence;
    r->next = runs;
    runs = r;
    pthread_mutex_unlock(&lock);
}

static bool ended_locked(const struct run *r)
{
    return r->done || __atomic_load_n(&self->win.shared->host_done[r->slot], __ATOMIC_ACQUIRE) ==
                          r->sequence;
}

static void wait_end(struct run *r)
{
    long step = LOOK_FIRST_NS;

    pthread_mutex_lock(&lock);
    while (!ended_locked(r)) {
        struct timespec until;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += step;
        if (until.tv_nsec >= 1000000000l) {
            until.tv_nsec -= 1000000000l;
            until.tv_sec++;
        }
        if (pthread_cond_timedwait(&changed, &lock, &until) == ETIMEDOUT && step < LOOK_LAST_NS)
            step *= 2;
    }
    for (struct run **at = &runs; *at; at = &(*at)->next) {
        if (*at == r) {
            *at = r->next;
            break;
        }
    }
    slots[r->slot / 64] &= ~(UINT64_C(1) << (r->slot % 64));
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void vgb_host_func_run(void *arg)
{
    struct vgb_host_func *f = arg;
    struct run r = {.cookie = f->cookie};

    begin(&r);
    uint32_t what[3] = {CUDA_SUCCESS, r.slot, r.sequence};
    /* A guest that makes no room holds up its own stream, as a function that does not return. */
    while (!vgb_notify(self, VGP_NOTIFY_HOST_FUNC, f->cookie, what, sizeof(what), 1000))
        continue;
    wait_end(&r);
    if (f->once)
        vgb_host_func_free(f);
}

void vgb_host_func_nothing(void *unused)
{
    (void)unused;
}

struct vgb_host_func *vgb_host_func_new(struct vgb_worker *w, uint64_t cookie, bool one_time)
{
    struct vgb_host_func *f = NULL;

    pthread_once(&once, init);
    vgb_host_nodes_made += !one_time;
    pthread_mutex_lock(&lock);
    self = w;
    if (!one_time || waiting < HOST_FUNCS_MAX)
        f = calloc(1, sizeof(*f));
    if (f) {
        f->cookie = cookie;
        f->once = one_time;
        waiting += one_time;
    }
    pthread_mutex_unlock(&lock);
    return f;
}

void vgb_host_func_free(struct vgb_host_func *f)
{
    pthread_mutex_lock(&lock);
    waiting -= f->once;
    pthread_mutex_unlock(&lock);
    free(f);
}

uint64_t vgb_host_func_cookie(const struct vgb_host_func *f)
{
    return f->cookie;
}

void vgb_host_func_set_semaphores(struct vgb_host_func *f, enum vgp_extsem_op what)
{
    f->semaphores = what;
    vgb_semaphores_made += what != VGP_EXTSEM_NONE;
}

enum vgp_extsem_op vgb_host_node_semaphores(CUgraphNode node)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUDA_HOST_NODE_PARAMS p = {0};

    if (!vgb_provider.cuGraphNodeGetType || !vgb_provider.cuGraphHostNodeGetParams ||
        vgb_provider.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS ||
        type != CU_GRAPH_NODE_TYPE_HOST ||
        vgb_provider.cuGraphHostNodeGetParams(node, &p) != CUDA_SUCCESS ||
        p.fn != vgb_host_func_run || !p.userData)
        return VGP_EXTSEM_NONE;
    return ((const struct vgb_host_func *)p.userData)->semaphores;
}

/* On a thread of the provider: the last reference has gone. */
static void tell_released(uint64_t cookie)
{
    while (!vgb_notify(self, VGP_NOTIFY_RELEASED, cookie, NULL, 0, 1000))
        continue;
}

bool vgb_host_func_end(struct vgb_host_func *f)
{
    if (!vgb_notify(self, VGP_NOTIFY_RELEASED, f->cookie, NULL, 0, 0))
        return false;
    vgb_host_func_free(f);
    return true;
}

static void host_func_gone(void *arg)
{
    uint64_t cookie = ((struct vgb_host_func *)arg)->cookie;

    vgb_host_func_free(arg);
    tell_released(cookie);
}

/* A driver without user objects (before 11.3) keeps it for as long as the client lives. */
CUresult vgb_host_func_for(struct vgb_worker *w, CUgraph g, uint64_t cookie,
                           struct vgb_host_func **out)
{
    struct vgb_host_func *f = vgb_host_func_new(w, cookie, false);
    CUuserObject object;
    CUresult r;

    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = f;
    if (!vgb_provider.cuUserObjectCreate || !vgb_provider.cuGraphRetainUserObject ||
        !vgb_provider.cuUserObjectRelease)
        return CUDA_SUCCESS;
    r = vgb_provider.cuUserObjectCreate(&object, f, host_func_gone, 1,
                                        CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    if (r != CUDA_SUCCESS) {
        vgb_host_func_free(f);
        return r;
    }
    r = vgb_provider.cuGraphRetainUserObject(g, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
    if (r != CUDA_SUCCESS)
        vgb_provider.cuUserObjectRelease(object, 1);
    return r;
}

/* ---- user objects of the client ---- */

static void user_object_gone(void *arg)
{
    uint64_t cookie = *(uint64_t *)arg;

    free(arg);
    tell_released(cookie);
}

CUresult vgb_do_vgpUserObjectCreate(struct vgb_call *c,
                                    const struct vgp_args_vgpUserObjectCreate *a)
{
    CUuserObject object = NULL;
    CUresult r = vgb_handle_reserve(c, a->object, VGP_H_USER_OBJECT);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuUserObjectCreate)
        return vgb_missing(c, "cuUserObjectCreate");
    pthread_mutex_lock(&lock);
    self = c->w;
    pthread_mutex_unlock(&lock);
    uint64_t *cookie = malloc(sizeof(*cookie));
    if (!cookie)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *cookie = a->cookie;
    r = vgb_provider.cuUserObjectCreate(&object, cookie, user_object_gone, a->references, a->flags);
    if (r == CUDA_SUCCESS)
        vgb_handle_put(c, a->object, VGP_H_USER_OBJECT, object);
    else
        free(cookie);
    return r;
}

/* Its destructor has run, so the provider has forgotten it already. */
CUresult vgb_do_vgpUserObjectDrop(struct vgb_call *c, const struct vgp_args_vgpUserObjectDrop *a)
{
    vgb_handle_drop(c, a->object, VGP_H_USER_OBJECT);
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpGraphUserObject(struct vgb_call *c, const struct vgp_args_vgpGraphUserObject *a)
{
    struct vgb_graph *g;
    CUuserObject object;
    CUresult r = vgb_graph_get(c, a->graph, &g);

    if (r == CUDA_SUCCESS)
        r = vgb_handle_get(c, a->object, VGP_H_USER_OBJECT, false, (void **)&object);
    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuGraphRetainUserObject || !vgb_provider.cuGraphReleaseUserObject)
        return vgb_missing(c, "cuGraphRetainUserObject");
    if (a->release)
        return vgb_provider.cuGraphReleaseUserObject(g->object, object, a->count);
    return vgb_provider.cuGraphRetainUserObject(g->object, object, a->count, a->flags);
}

CUresult vgb_do_vgpLaunchHostFunc(struct vgb_call *c, const struct vgp_args_vgpLaunchHostFunc *a)
{
    CUstream stream;
    CUresult r = vgb_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuLaunchHostFunc)
        return vgb_missing(c, "cuLaunchHostFunc");
    if (vgb_stream_captured(stream))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* it would run more than once */
    struct vgb_host_func *f = vgb_host_func_new(c->w, a->cookie, true);
    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = vgb_provider.cuLaunchHostFunc(stream, vgb_host_func_run, f);
    if (r != CUDA_SUCCESS)
        vgb_host_func_free(f);
    return r;
}

/* The way of protocol 1.0: whatever runs with that cookie. */
CUresult vgb_do_vgpHostFuncDone(struct vgb_call *c, const struct vgp_args_vgpHostFuncDone *a)
{
    (void)c;
    pthread_once(&once, init);
    pthread_mutex_lock(&lock);
    for (struct run *r = runs; r; r = r->next) {
        if (r->cookie == a->cookie)
            r->done = true;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpHostFuncFinished(struct vgb_call *c,
                                    const struct vgp_args_vgpHostFuncFinished *a)
{
    (void)c;
    pthread_once(&once, init);
    pthread_mutex_lock(&lock);
    for (struct run *r = runs; r; r = r->next) {
        if (r->slot == a->slot && r->sequence == a->sequence)
            r->done = true;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}
