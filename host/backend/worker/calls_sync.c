/* SPDX-License-Identifier: MIT */
/* Handlers of the calls that wait for streams, events and contexts, and of host functions. */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_worker.h"

CUresult vgb_do_cuStreamSynchronize(struct vgb_call *c,
                                    const struct vgp_args_cuStreamSynchronize *a)
{
    struct vgb_wait *wait;
    CUstream stream;
    CUresult r = vgb_handle_get(c, a->hStream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    wait = vgb_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = vgb_wait_add_stream(c->w, wait, stream);
    if (r == CUDA_SUCCESS && !wait->nevents) {
        /* Idle, so this does not block; and it is what writes the output of device printf. */
        r = vgb_cu.StreamSynchronize(stream);
    }
    return r == CUDA_SUCCESS ? vgb_wait_start(c, wait) : vgb_wait_fail(c, wait, r);
}

CUresult vgb_do_cuEventSynchronize(struct vgb_call *c, const struct vgp_args_cuEventSynchronize *a)
{
    struct vgb_wait *wait;
    CUevent event;
    CUresult r = vgb_handle_get(c, a->hEvent, VGP_H_EVENT, false, (void **)&event);

    if (r != CUDA_SUCCESS)
        return r;
    wait = vgb_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->borrowed = event;
    return vgb_wait_start(c, wait);
}

struct collect {
    struct vgb_call *c;
    struct vgb_wait *wait;
    CUresult r;
};

static void add_one(struct collect *k, CUstream stream)
{
    if (k->r != CUDA_SUCCESS || k->wait->blocking)
        return;
    if (k->wait->nevents == VGB_WAIT_EVENTS) {
        k->wait->blocking = true; /* too many to poll: a waiter asks for the context as a whole */
        return;
    }
    k->r = vgb_wait_add_stream(k->c->w, k->wait, stream);
}

static void add_owned(struct vgb_handle_entry *e, uint64_t handle, void *arg)
{
    struct collect *k = arg;

    (void)handle;
    if (e->owner == k->c->rec->context)
        add_one(k, e->object);
}

CUresult vgb_wait_add_context(struct vgb_call *c, struct vgb_wait *wait)
{
    struct collect k = {.c = c, .wait = wait, .r = CUDA_SUCCESS};
    struct vgb_worker *w = c->w;

    add_one(&k, NULL);
    for (unsigned i = 0; i < w->nthread_streams; i++) {
        if (w->thread_streams[i].context == c->rec->context)
            add_one(&k, w->thread_streams[i].stream);
    }
    vgb_handles_each(&w->handles, VGP_H_STREAM, add_owned, &k);
    return k.r;
}

/* For contexts with many streams: on a waiter thread. */
static CUresult finish_context(struct vgb_worker *w, struct vgb_wait *wait, CUresult r)
{
    (void)w;
    return wait->blocking && r == CUDA_SUCCESS ? vgb_cu.CtxSynchronize() : r;
}

CUresult vgb_do_vgpCtxSynchronize(struct vgb_call *c, const struct vgp_args_vgpCtxSynchronize *a)
{
    struct vgb_wait *wait = vgb_wait_new(c);

    (void)a;
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->finish = finish_context;
    CUresult r = vgb_wait_add_context(c, wait);
    if (r == CUDA_SUCCESS && !wait->nevents && !wait->blocking)
        r = vgb_cu.CtxSynchronize(); /* all idle: does not block, as above */
    return r == CUDA_SUCCESS ? vgb_wait_start(c, wait) : vgb_wait_fail(c, wait, r);
}

/* ---- host functions: the provider calls us, the guest runs it, the stream goes on ---- */

#define HOST_FUNCS_MAX 1024u /* not yet run, of one client */

struct host_func {
    struct host_func *next;
    struct vgb_worker *w;
    uint64_t cookie;
    bool done;
};

static pthread_mutex_t funcs_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t funcs_done = PTHREAD_COND_INITIALIZER;
static struct host_func *funcs;
static unsigned nfuncs;

static void unlink_locked(struct host_func *f)
{
    for (struct host_func **at = &funcs; *at; at = &(*at)->next) {
        if (*at == f) {
            *at = f->next;
            nfuncs--;
            return;
        }
    }
}

/* On a thread of the provider. The stream goes on when this returns. */
static void run_host_func(void *arg)
{
    struct host_func *f = arg;

    /* A guest that makes no room holds up its own stream, as a function that does not return. */
    while (!vgb_notify(f->w, VGP_NOTIFY_HOST_FUNC, f->cookie, NULL, 0, 1000))
        continue;
    pthread_mutex_lock(&funcs_lock);
    while (!f->done)
        pthread_cond_wait(&funcs_done, &funcs_lock);
    unlink_locked(f);
    pthread_mutex_unlock(&funcs_lock);
    free(f);
}

CUresult vgb_do_vgpLaunchHostFunc(struct vgb_call *c, const struct vgp_args_vgpLaunchHostFunc *a)
{
    CUstream stream;
    CUresult r = vgb_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuLaunchHostFunc)
        return vgb_missing(c, "cuLaunchHostFunc");
    struct host_func *f = calloc(1, sizeof(*f));
    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    f->w = c->w;
    f->cookie = a->cookie;
    pthread_mutex_lock(&funcs_lock);
    bool room = nfuncs < HOST_FUNCS_MAX;
    if (room) {
        f->next = funcs;
        funcs = f;
        nfuncs++;
    }
    pthread_mutex_unlock(&funcs_lock);
    if (!room) {
        free(f);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    r = vgb_provider.cuLaunchHostFunc(stream, run_host_func, f);
    if (r != CUDA_SUCCESS) {
        pthread_mutex_lock(&funcs_lock);
        unlink_locked(f);
        pthread_mutex_unlock(&funcs_lock);
        free(f);
    }
    return r;
}

CUresult vgb_do_vgpHostFuncDone(struct vgb_call *c, const struct vgp_args_vgpHostFuncDone *a)
{
    (void)c;
    pthread_mutex_lock(&funcs_lock);
    for (struct host_func *f = funcs; f; f = f->next) {
        if (f->cookie == a->cookie)
            f->done = true;
    }
    pthread_cond_broadcast(&funcs_done);
    pthread_mutex_unlock(&funcs_lock);
    return CUDA_SUCCESS;
}
