/* SPDX-License-Identifier: MIT */
/*
 * Host functions: the provider calls us, the guest runs the function, the stream goes on. Those of
 * cuLaunchHostFunc run once; those that became nodes of a graph run at each launch, perhaps in
 * several launches at once.
 *
 * A run has a slot and a sequence number. Its end comes in two ways: a record, and a word of the
 * window, which is looked at here every now and then. So a stream goes on even when the record is
 * stuck behind calls that wait for this very stream.
 *
 * A wait for external semaphores may last, and a driver may have one thread for all host functions:
 * there the function only tells the guest and returns, and the stream itself waits for the word of the
 * window, which the provider sees through a mapping of its own for each context.
 */
#define _GNU_SOURCE
#include "graph.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "vgp_worker.h"

#define HOST_FUNCS_MAX 1024u /* one-time functions not yet run, of one client */
#define STREAM_WAITS_MAX (VGP_HOST_RUNS / 2) /* runs that streams wait for; the others need slots too */
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
    struct vgb_host_func *f; /* the stream waits for it, no thread: freed when it has ended */
    CUcontext ctx;           /* ... this context's stream */
};

/* The page of the window that has host_done, as a context's streams see it. */
struct page {
    struct page *next;
    CUcontext ctx;
    void *base;
    CUdeviceptr at;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct run *runs;
static struct page *pages;
static unsigned stream_waits;
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

/* It has its slot. */
static void enter_locked(struct run *r)
{
    if (++last_sequence == 0)
        last_sequence = 1;
    r->sequence = last_sequence;
    r->next = runs;
    runs = r;
}

static void begin(struct run *r)
{
    pthread_mutex_lock(&lock);
    while (!take_slot_locked(&r->slot))
        pthread_cond_wait(&changed, &lock);
    enter_locked(r);
    pthread_mutex_unlock(&lock);
}

static void leave_locked(struct run **at)
{
    struct run *r = *at;

    *at = r->next;
    slots[r->slot / 64] &= ~(UINT64_C(1) << (r->slot % 64));
    pthread_cond_broadcast(&changed);
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
            leave_locked(at);
            break;
        }
    }
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

/* ---- runs that a stream waits for ---- */

/* The page for a context, made when it is first needed; NULL: it is not to be had. */
static struct page *page_of(struct vgb_worker *w, CUcontext ctx)
{
    struct page *p;

    for (p = pages; p; p = p->next) {
        if (p->ctx == ctx)
            return p;
    }
    if (!vgb_provider.cuMemHostRegister_v2 || !vgb_provider.cuMemHostGetDevicePointer_v2 ||
        !vgb_provider.cuStreamBatchMemOp_v2)
        return NULL;
    p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    /* Of no size: another mapping of the same pages, because each context registers its own. */
    p->base = mremap(w->win.base, 0, VGP_PAGE, MREMAP_MAYMOVE);
    if (p->base == MAP_FAILED ||
        vgb_provider.cuMemHostRegister_v2(p->base, VGP_PAGE,
                                          CU_MEMHOSTREGISTER_PORTABLE |
                                              CU_MEMHOSTREGISTER_DEVICEMAP) !=
            CUDA_SUCCESS ||
        vgb_provider.cuMemHostGetDevicePointer_v2(&p->at, p->base, 0) != CUDA_SUCCESS) {
        if (p->base != MAP_FAILED)
            munmap(p->base, VGP_PAGE);
        free(p);
        return NULL;
    }
    p->ctx = ctx;
    p->next = pages;
    pages = p;
    return p;
}

/* A run with a slot, for a wait of the current context's; NULL: a thread has to wait. */
static struct run *stream_run(struct vgb_worker *w, struct vgb_host_func *f, CUdeviceptr *word)
{
    struct run *r = calloc(1, sizeof(*r));
    struct page *p = NULL;

    pthread_mutex_lock(&lock);
    if (r && stream_waits < STREAM_WAITS_MAX)
        p = page_of(w, w->current);
    if (p && take_slot_locked(&r->slot)) {
        r->cookie = f->cookie;
        r->f = f;
        r->ctx = p->ctx;
        enter_locked(r);
        stream_waits++;
        *word = p->at + VGP_HOST_DONE_OFFSET + r->slot * sizeof(uint32_t);
    } else {
        free(r);
        r = NULL;
        vgb_log(VGB_DEBUG, "a wait for semaphores takes a thread of the provider's");
    }
    pthread_mutex_unlock(&lock);
    return r;
}

static void stream_run_end_locked(struct run **at)
{
    struct run *r = *at;

    leave_locked(at);
    stream_waits--;
    free(r);
}

/* In the stream, before it waits: the word is behind what it waits for, and the guest is asked. */
static void ask(void *arg)
{
    struct run r = *(struct run *)arg; /* as soon as the guest knows, it may be gone */
    uint32_t what[3] = {CUDA_SUCCESS, r.slot, r.sequence};

    __atomic_store_n(&self->win.shared->host_done[r.slot], r.sequence - 1, __ATOMIC_RELEASE);
    while (!vgb_notify(self, VGP_NOTIFY_HOST_FUNC, r.cookie, what, sizeof(what), 1000))
        continue;
    vgb_host_func_free(r.f);
}

CUresult vgb_host_func_wait(struct vgb_worker *w, CUstream stream, struct vgb_host_func *f)
{
    CUstreamBatchMemOpParams op = {0};
    CUdeviceptr word = 0;
    struct run *r = stream_run(w, f, &word);
    CUresult res = vgb_provider.cuLaunchHostFunc(stream, r ? ask : vgb_host_func_run,
                                                 r ? (void *)r : (void *)f);

    if (res != CUDA_SUCCESS) {
        pthread_mutex_lock(&lock);
        for (struct run **at = &runs; r && *at; at = &(*at)->next) {
            if (*at == r) {
                stream_run_end_locked(at);
                break;
            }
        }
        pthread_mutex_unlock(&lock);
        vgb_host_func_free(f);
        return res;
    }
    if (!r)
        return res;
    op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op.waitValue.address = word;
    op.waitValue.value = r->sequence;
    /* Later runs in this slot have higher numbers: none can make it wait again. */
    op.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    return vgb_provider.cuStreamBatchMemOp_v2(stream, 1, &op, 0);
}

void vgb_host_func_context_gone(CUcontext ctx, bool registered)
{
    pthread_mutex_lock(&lock);
    for (struct run **at = &runs; *at;) {
        if ((*at)->f && (*at)->ctx == ctx)
            stream_run_end_locked(at);
        else
            at = &(*at)->next;
    }
    for (struct page **at = &pages; *at; at = &(*at)->next) {
        struct page *p = *at;

        if (p->ctx != ctx)
            continue;
        *at = p->next;
        if (registered && vgb_provider.cuMemHostUnregister)
            vgb_provider.cuMemHostUnregister(p->base);
        munmap(p->base, VGP_PAGE);
        free(p);
        break;
    }
    pthread_mutex_unlock(&lock);
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
    for (struct run **at = &runs; *at; at = &(*at)->next) {
        struct run *r = *at;

        if (r->slot != a->slot || r->sequence != a->sequence)
            continue;
        if (r->f)
            stream_run_end_locked(at);
        else
            r->done = true;
        break;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}
