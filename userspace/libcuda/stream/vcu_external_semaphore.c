/* SPDX-License-Identifier: MIT */
/*
 * External semaphores: objects, and the calls on streams. The worker's stream stops at the position
 * of a call, and requests it with a HOST_FUNC notification. The thread of the host functions does
 * not answer, because an application may block it: a thread of this file signals at once, and gives
 * each wait that must sleep a separate thread. So no wait delays another wait, a signal, or a host
 * function.
 */
#define _GNU_SOURCE
#include "external_semaphore.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

#define SLICE_MS 100   /* interval at which a wait checks whether its context, or the worker, has ended */
#define NO_THREAD_MS 1 /* same, for a wait without a thread */

/* A run requested by the worker; next: in the queue. */
struct run {
    struct run *next;
    struct vcu_semas *s; /* a reference */
    struct vcu_host_run what;
    unsigned at; /* number of its semaphores already waited for */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list; a leaf */
static struct vcu_semas *all;

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static pthread_cond_t queued = PTHREAD_COND_INITIALIZER;
static struct run *queue, **queue_end = &queue;
static bool started;

CUresult vcu_semas_served(const char *call)
{
    if (vcu.worker_minor >= 2)
        return CUDA_SUCCESS;
    return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call,
                      "the worker speaks protocol %d.%u, external semaphores came with 1.2: update "
                      "the host",
                      VGP_VERSION_MAJOR, vcu.worker_minor);
}

/* ---- objects ----------------------------------------------------------------------------------- */

CUresult vcu_cuImportExternalSemaphore(CUexternalSemaphore *extSem_out,
                                       const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *semHandleDesc)
{
    static const char call[] = "cuImportExternalSemaphore";
    const char *why = NULL;
    CUresult res = vcu_check_context();

    if (res == CUDA_SUCCESS)
        res = cua_semaphore_check(extSem_out, semHandleDesc, &why);
    if (res == CUDA_SUCCESS)
        res = vcu_semas_served(call);
    if (res == CUDA_SUCCESS)
        res = cua_semaphore_import(extSem_out, semHandleDesc, &why);
    return res != CUDA_SUCCESS && why != NULL ? VCU_REFUSE(res, call, "%s", why) : res;
}

/* ---- what a call does -------------------------------------------------------------------------- */

/* Takes references to the objects of the handles, and enters s into the list. */
static CUresult resolve_semaphores(const char *call, struct vcu_semas *s)
{
    const char *why = NULL;
    CUresult res = cua_semaphores_get(s->wait, s->handles, s->n, s->sem, &why);

    if (res != CUDA_SUCCESS)
        return why != NULL ? VCU_REFUSE(res, call, "%s", why) : res;
    pthread_mutex_lock(&lock);
    s->next = all;
    s->pprev = &all;
    if (all != NULL)
        all->pprev = &s->next;
    all = s;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static void release_semaphores(struct vcu_semas *s)
{
    for (unsigned i = 0; s->sem != NULL && i < s->n; i++)
        vgp_extsem_put(s->sem[i]);
    free(s->sem);
    free(s->handles);
    free(s->params.any);
    free(s);
}

static bool start_server(void);

CUresult vcu_semas_new(const char *call, bool wait, const CUexternalSemaphore *handles, const void *params,
                       unsigned n, struct vcu_semas **out)
{
    size_t size =
        wait ? sizeof(CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS) : sizeof(CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS);
    struct vcu_semas *s;
    CUresult res = cua_semaphores_check(wait, handles, params, n);

    if (res != CUDA_SUCCESS)
        return res;
    res = CUDA_ERROR_OUT_OF_MEMORY;
    if (!start_server())
        return res;
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return res;
    s->refs = 1;
    s->wait = wait;
    s->n = n;
    s->context = vcu_current_context();
    s->sem = calloc(n, sizeof(*s->sem));
    s->handles = malloc(n * sizeof(*s->handles));
    s->params.any = malloc(n * size);
    if (s->sem != NULL && s->handles != NULL && s->params.any != NULL) {
        memcpy(s->handles, handles, n * sizeof(*handles));
        memcpy(s->params.any, params, n * size);
        res = resolve_semaphores(call, s);
    }
    if (res != CUDA_SUCCESS)
        release_semaphores(s);
    else
        *out = s;
    return res;
}

void vcu_semas_put(struct vcu_semas *s)
{
    if (atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    pthread_mutex_lock(&lock);
    *s->pprev = s->next;
    if (s->next != NULL)
        s->next->pprev = s->pprev;
    pthread_mutex_unlock(&lock);
    release_semaphores(s);
}

/* ---- runs -------------------------------------------------------------------------------------- */

static bool run_is_over(const struct run *r)
{
    return atomic_load(&r->s->given_up) || atomic_load(&vcu.state) != VCU_READY ||
           lnk_ring_lost(&vcu.ring) != CUDA_SUCCESS;
}

/* A semaphore that can no longer be signalled or waited for: no answer could report it, so the
 * context fails, of a green context its base. */
static void fail_context(const struct vcu_semas *s, int rc)
{
    struct vcu_context *c = vcu_context_find((CUcontext)(uintptr_t)s->context);

    lnk_why("external semaphore", "%s failed: %s", s->wait ? "a wait" : "a signal", strerror(-rc));
    if (c != NULL)
        atomic_store(&c->base->sticky, CUDA_ERROR_OPERATING_SYSTEM);
}

static void signal_all(const struct vcu_semas *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        uint64_t value = s->params.signal[i].params.fence.value;
        int rc = vgp_extsem_signal(s->sem[i], value);

        if (rc < 0) {
            fail_context(s, rc);
            return;
        }
        if (rc == 1)
            lnk_why("external semaphore", "a timeline does not go back to %llu: it stays",
                    (unsigned long long)value);
    }
}

/* Waits for a bounded time; true: all waits are complete, or further waiting is useless. */
static bool wait_all(struct run *r, int milliseconds)
{
    const struct vcu_semas *s = r->s;

    while (r->at < s->n) {
        int rc = vgp_extsem_wait(s->sem[r->at], s->params.wait[r->at].params.fence.value, milliseconds);

        if (rc == 0)
            return run_is_over(r);
        if (rc < 0) {
            fail_context(s, rc);
            return true;
        }
        r->at++;
    }
    return true;
}

static void extsem_finish(struct run *r)
{
    if (atomic_load(&vcu.state) == VCU_READY)
        vcu_hostfunc_finish(&r->what);
    vcu_semas_put(r->s);
    free(r);
}

static void *sleeper_main(void *arg)
{
    struct run *r = arg;

    while (!wait_all(r, SLICE_MS))
        continue;
    extsem_finish(r);
    return NULL;
}

static bool extsem_start(void *(*body)(void *), void *arg, const char *name)
{
    sigset_t every, old;
    pthread_t thread;
    bool ok;

    sigfillset(&every); /* signals belong to the application's threads */
    pthread_sigmask(SIG_SETMASK, &every, &old);
    ok = pthread_create(&thread, NULL, body, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (ok) {
        pthread_setname_np(thread, name);
        pthread_detach(thread);
    }
    return ok;
}

static void enqueue_run(struct run *r)
{
    pthread_mutex_lock(&queue_lock);
    r->next = NULL;
    *queue_end = r;
    queue_end = &r->next;
    pthread_cond_signal(&queued);
    pthread_mutex_unlock(&queue_lock);
}

static void *extsem_serve(void *arg)
{
    (void)arg;
    for (;;) {
        struct run *r;

        pthread_mutex_lock(&queue_lock);
        while (queue == NULL)
            pthread_cond_wait(&queued, &queue_lock);
        r = queue;
        queue = r->next;
        if (queue == NULL)
            queue_end = &queue;
        pthread_mutex_unlock(&queue_lock);
        if (run_is_over(r) || r->what.status != 0) { /* a failed stream does no further work */
            extsem_finish(r);
        } else if (!r->s->wait) {
            signal_all(r->s);
            extsem_finish(r);
        } else if (wait_all(r, 0)) {
            extsem_finish(r);
        } else if (!extsem_start(sleeper_main, r, "vgpu-semaphore")) {
            if (wait_all(r, NO_THREAD_MS)) /* alternating with other waits */
                extsem_finish(r);
            else
                enqueue_run(r);
        }
    }
    return NULL;
}

/* Starts the answering thread at the first use; false: it cannot be started. */
static bool start_server(void)
{
    bool ok;

    pthread_mutex_lock(&queue_lock);
    if (!started)
        started = extsem_start(extsem_serve, NULL, "vgpu-semaphores");
    ok = started;
    pthread_mutex_unlock(&queue_lock);
    return ok;
}

static void semas_post(void *arg, const struct vcu_host_run *run)
{
    struct vcu_semas *s = arg;
    struct run *r = malloc(sizeof(*r));

    if (r == NULL) {
        lnk_why("worker", "no memory for a semaphore: its stream stays blocked");
        vcu_semas_put(s);
        return;
    }
    *r = (struct run){.s = s, .what = *run};
    pthread_mutex_lock(&lock);
    s->cookie = 0;
    pthread_mutex_unlock(&lock);
    enqueue_run(r);
}

static void semas_get(void *arg)
{
    struct vcu_semas *s = arg;

    atomic_fetch_add(&s->refs, 1);
}

static void semas_put(void *arg)
{
    vcu_semas_put(arg);
}

static const struct vcu_host_service semas_service = {.get = semas_get, .put = semas_put, .post = semas_post};

uint64_t vcu_semas_keep(struct vcu_semas *s, bool once, CUresult *why)
{
    return vcu_hostfunc_keep_service(&semas_service, s, once, why);
}

struct vcu_semas *vcu_semas_of(uint64_t cookie)
{
    return vcu_hostfunc_service(cookie, &semas_service);
}

/* ---- the end of a context ---------------------------------------------------------------------- */

static void context_ending(struct vcu_context *c)
{
    uint64_t context = c->handle;

    pthread_mutex_lock(&lock);
    for (struct vcu_semas *s = all; s != NULL; s = s->next) {
        if (s->context == context)
            atomic_store(&s->given_up, true);
    }
    pthread_mutex_unlock(&lock);
}

static uint64_t next_left(uint64_t context)
{
    uint64_t cookie = 0;

    pthread_mutex_lock(&lock);
    for (struct vcu_semas *s = all; s != NULL && cookie == 0; s = s->next) {
        if (s->context == context && atomic_load(&s->given_up)) {
            cookie = s->cookie;
            s->cookie = 0;
        }
    }
    pthread_mutex_unlock(&lock);
    return cookie;
}

static void context_gone(struct vcu_context *c)
{
    uint64_t cookie;

    while ((cookie = next_left(c->handle)) != 0)
        vcu_hostfunc_cancel(cookie);
}

const struct vcu_unit_ops vcu_semas_unit = {
    .context_ending = context_ending,
    .context_gone = context_gone,
};

/* ---- streams ----------------------------------------------------------------------------------- */

CUresult vcu_semaphore_issue(const char *call, bool wait, const CUexternalSemaphore *handles,
                             const void *params, unsigned n, CUstream stream)
{
    uint32_t what = wait ? VGP_EXTSEM_WAIT : VGP_EXTSEM_SIGNAL;
    struct vcu_semas *s;
    uint64_t cookie;
    bool captured;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    stream = vcu_stream(stream);
    if (!vcu_stream_ok(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    res = vcu_semas_new(call, wait, handles, params, n, &s);
    if (res != CUDA_SUCCESS)
        return res;
    captured = vcu_stream_captured(stream);
    cookie = vcu_semas_keep(s, !captured, &res);
    if (cookie == 0)
        return res;
    if (!captured) { /* the worker does not request it before the next call */
        pthread_mutex_lock(&lock);
        s->cookie = cookie;
        pthread_mutex_unlock(&lock);
    }
    res = vgp_call_vgpExtSemOp(stream, what, captured, cookie);
    vcu_hostfunc_kept(cookie, res);
    return res;
}
