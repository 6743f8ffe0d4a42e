/* SPDX-License-Identifier: MIT */
/*
 * Host functions (cuLaunchHostFunc, cuStreamAddCallback, host nodes of graphs). The worker requests
 * a run with a notification; a thread of this file runs it and reports its end. Any thread that
 * waits for a reply may be the one that reads the notification, so the runner sleeps on a condition
 * variable, which the reading thread signals. A second thread, the listener, sleeps in the
 * transport in case no other thread does. Both are started at first use and use no CPU while
 * nothing is outstanding.
 *
 * When the worker dies, the listener ends what the worker would have requested: stream callbacks
 * run with the error, in the order of their calls; host functions and services are dropped; a
 * graph's functions are released; a user object's destructor runs once neither the program nor one
 * of its graphs refers to the object. A function whose call has not returned is left to that call,
 * which fails, or ends the function in vcu_hostfunc_sent().
 */
#define _GNU_SOURCE
#include "stream.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "vgp_guest.h"
#include "../../../lib/clock/clock.h"

struct callback {
    struct callback *next; /* in its bucket */
    uint64_t cookie;
    CUhostFn fn;
    CUstreamCallback stream_fn; /* set: cuStreamAddCallback */
    CUstream stream;
    void *user;
    bool kept;                              /* a graph's: it may run any number of times */
    void (*gone)(void *user);               /* kept: called when no further run is possible; may be NULL */
    uint64_t object;                        /* fn is the destructor of this user object */
    int64_t own;                            /* the object's references that the program has */
    bool sent;                              /* the call succeeded: at the worker's death this file ends it */
    const struct vcu_host_service *service; /* no function, but a service for `user`: a reference */
};

/* A run requested by the worker. A callback itself serves as the task of its last run or of its
 * end, because a lack of memory could not be reported then. */
struct task {
    struct callback c; /* first; a copy where a kept one runs: it may be released meanwhile */
    struct task *next;
    struct vcu_host_run run;
    bool released; /* no run, but the end of it */
    bool unasked;  /* the worker did not request the run, and gets no answer */
    bool fixed;    /* one of `spare` */
};

#define BUCKETS 256u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static struct callback *known[BUCKETS]; /* by cookie */
static struct task *ready, **ready_end = &ready;
/* For runs of kept callbacks when memory is exhausted: the worker has at most this number in
 * flight. */
static struct task spare[VGP_HOST_RUNS];
static bool spare_used[VGP_HOST_RUNS];
static _Atomic unsigned one_time; /* one-time functions that have not ended */
static unsigned outstanding;      /* runs that will be requested, or are in progress */
static bool always;               /* and an unknown number of further runs */
static unsigned objects;          /* user objects, whose destructors may be requested at any time */
static unsigned started;          /* of the two threads */
static CUresult lost;             /* the worker's death has been handled: its error */
static uint64_t next_cookie;

/* Beyond that a call waits: the worker refuses a client's one-time functions beyond 16384. */
#define ONCE_MAX 15360u
#define ONCE_LOOK_NS 1000000

/* How long the listener sleeps in the transport before it checks for outstanding work. */
#define WAIT_NS 1000000000ll

static int64_t soon_deadline(void)
{
    return (int64_t)clk_now_ns() + WAIT_NS;
}

static struct callback **find_locked(uint64_t cookie)
{
    struct callback **p = &known[cookie % BUCKETS];

    while (*p != NULL && (*p)->cookie != cookie)
        p = &(*p)->next;
    return p;
}

/* A service has its own thread: the runner may be in a function that does not return. */
static bool post_service(const struct vcu_host_run *r)
{
    const struct vcu_host_service *service = NULL;
    void *arg = NULL;
    struct callback **p, *c;

    pthread_mutex_lock(&lock);
    p = find_locked(r->cookie);
    c = *p;
    if (c != NULL && c->service != NULL) {
        service = c->service;
        arg = c->user;
        if (outstanding > 0)
            outstanding--;
        if (c->kept) {
            service->get(arg);
        } else {
            *p = c->next;
            one_time--;
            free(c);
        }
    }
    pthread_mutex_unlock(&lock);
    if (service != NULL)
        service->post(arg, r);
    return service != NULL;
}

static void enqueue_locked(struct task *task)
{
    task->next = NULL;
    *ready_end = task;
    ready_end = &task->next;
    pthread_cond_broadcast(&wake);
}

/* A task for one run of a kept callback. */
static struct task *task_new_locked(void)
{
    struct task *task = malloc(sizeof(*task));

    if (task != NULL)
        return task;
    for (unsigned i = 0; i < VGP_HOST_RUNS; i++) {
        if (!spare_used[i]) {
            spare_used[i] = true;
            return &spare[i];
        }
    }
    lnk_why("worker", "no memory to run a host function: its stream stays blocked");
    return NULL;
}

static void task_end_locked(struct task *task)
{
    if (task->fixed)
        spare_used[task - spare] = false;
    else
        free(task);
}

static void post_callback(const struct vcu_host_run *r)
{
    struct callback **p, *c;
    struct task *task;

    if (post_service(r))
        return;
    pthread_mutex_lock(&lock);
    p = find_locked(r->cookie);
    c = *p; /* an unknown cookie, or a destructor's before its release, is the worker's mistake, and ignored */
    task = c == NULL || c->object != 0 ? NULL : c->kept ? task_new_locked() : (struct task *)c;
    if (task != NULL) {
        if (c->kept) {
            const bool fixed = task >= spare && task < spare + VGP_HOST_RUNS;

            *task = (struct task){.c = *c, .fixed = fixed};
        } else {
            *p = c->next;
        }
        task->run = *r;
        enqueue_locked(task);
    }
    pthread_mutex_unlock(&lock);
}

/* The last task of a callback that is no longer in `known`, and that the worker does not request. A
 * stream's callback runs with the error; no other function runs after an error. */
static void release_locked(struct callback *c, CUresult error)
{
    struct task *task = (struct task *)c;

    if (c->object != 0 && objects > 0)
        objects--;
    if (!c->kept && c->stream_fn == NULL && outstanding > 0)
        outstanding--;
    task->released = c->stream_fn == NULL;
    task->unasked = true;
    task->run = (struct vcu_host_run){.cookie = c->cookie, .status = (uint32_t)error};
    enqueue_locked(task);
}

/* Called by the thread that reads the notification; the runner does the slow part. A one-time
 * function is released when its call, which had returned already, fails. */
static void callback_released(uint64_t cookie)
{
    struct callback **p, *c;

    pthread_mutex_lock(&lock);
    p = find_locked(cookie);
    c = *p;
    if (c != NULL) {
        *p = c->next;
        release_locked(c, CUDA_ERROR_UNKNOWN);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- the worker's death ---------------------------------------------------------------------- */

/* A graph of the program keeps its objects: it cannot be destroyed any more, as that call fails. */
static bool ends_with_worker(const struct callback *c)
{
    return c->sent && (c->object == 0 || (c->own <= 0 && vcu_handle_count(VGP_H_GRAPH) == 0 &&
                                          vcu_handle_count(VGP_H_GRAPH_EXEC) == 0));
}

/* Ends what no worker will request any more, in the order of the calls. */
static void lose_all(CUresult error)
{
    struct callback *ending[BUCKETS] = {NULL}, *c;

    pthread_mutex_lock(&lock);
    lost = error;
    outstanding = objects = 0;
    always = false;
    for (unsigned i = 0; i < BUCKETS; i++) { /* the latest first; in `ending` the earliest */
        for (struct callback **p = &known[i]; (c = *p) != NULL;) {
            if (!ends_with_worker(c)) {
                p = &c->next;
                continue;
            }
            *p = c->next;
            c->next = ending[i];
            ending[i] = c;
        }
    }
    for (;;) {
        unsigned first = 0;

        for (unsigned i = 1; i < BUCKETS; i++) {
            if (ending[i] != NULL && (ending[first] == NULL || ending[i]->cookie < ending[first]->cookie))
                first = i;
        }
        c = ending[first];
        if (c == NULL)
            break;
        ending[first] = c->next;
        release_locked(c, lost);
    }
    pthread_mutex_unlock(&lock);
}

/* Ends a callback whose call, or whose last reference, came after the worker's death. */
static void lose_late_locked(struct callback **p)
{
    struct callback *c = *p;

    if (lost == CUDA_SUCCESS || !ends_with_worker(c))
        return;
    *p = c->next;
    release_locked(c, lost);
}

void vcu_hostfunc_sent(uint64_t cookie)
{
    struct callback **p;

    pthread_mutex_lock(&lock);
    p = find_locked(cookie);
    if (*p != NULL) { /* else it has run */
        (*p)->sent = true;
        lose_late_locked(p);
    }
    pthread_mutex_unlock(&lock);
}

void vcu_hostfunc_own(uint64_t cookie, int64_t references)
{
    struct callback **p;

    pthread_mutex_lock(&lock);
    p = find_locked(cookie);
    if (*p != NULL) {
        (*p)->own += references;
        lose_late_locked(p);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- notifications --------------------------------------------------------------------------- */

static bool handle_notification(uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size)
{
    struct vcu_host_run r = {.cookie = cookie};
    uint32_t words[3] = {0};

    if (type == VGP_NOTIFY_RELEASED) {
        callback_released(cookie);
        return true;
    }
    if (type != VGP_NOTIFY_HOST_FUNC)
        return false;
    memcpy(words, data, size < sizeof(words) ? size : sizeof(words));
    r.status = words[0];
    r.numbered = size >= sizeof(words) && words[1] < VGP_HOST_RUNS && words[2] != 0;
    r.slot = words[1];
    r.sequence = words[2];
    post_callback(&r);
    return true;
}

const struct vcu_unit_ops vcu_hostfunc_unit = {.notify = handle_notification};

static void hostfunc_end(const struct callback *c)
{
    struct vcu_thread *t = vcu_thread();

    if (c->service != NULL) {
        c->service->put(c->user);
        return;
    }
    if (c->object == 0) {
        if (c->gone != NULL)
            c->gone(c->user);
        return;
    }
    t->in_callback = true; /* nor may a destructor make CUDA calls */
    c->fn(c->user);
    t->in_callback = false;
    if (vgp_call_vgpUserObjectDrop((CUuserObject)(uintptr_t)c->object) != CUDA_SUCCESS)
        vgp_handle_drop(c->object); /* no worker to tell */
}

void vcu_hostfunc_finish(const struct vcu_host_run *r)
{
    if (!r->numbered) {
        vgp_call_vgpHostFuncDone(r->cookie);
        return;
    }
    if (__builtin_expect(atomic_load_explicit(&lnk_record_on, memory_order_relaxed), 0))
        lnk_record_host_done(r->slot, r->sequence);
    /* Written to the window first: the ring may be full of calls that wait for this stream. */
    __atomic_store_n(&vcu.ring.shared->host_done[r->slot], r->sequence, __ATOMIC_RELEASE);
    vgp_call_vgpHostFuncFinished(r->slot, r->sequence);
}

static void hostfunc_run(const struct task *task)
{
    const struct callback *c = &task->c;
    const struct vcu_host_run *r = &task->run;
    struct vcu_thread *t = vcu_thread();
    CUresult status = (CUresult)r->status;

    if (task->released) {
        hostfunc_end(c);
        return;
    }
    if (status == CUDA_SUCCESS) /* the worker may have died since it requested the run */
        status = lnk_ring_dead(&vcu.ring);
    if (status == CUDA_ERROR_UNKNOWN && task->unasked && atomic_load(&vcu.ring.async_error) != 0)
        status = (CUresult)atomic_load(&vcu.ring.async_error); /* comes after the release */
    t->in_callback = true; /* CUDA calls inside are refused with NOT_PERMITTED */
    if (c->stream_fn != NULL)
        c->stream_fn(c->stream, status, c->user);
    else if (status == CUDA_SUCCESS) /* a failed stream runs no host functions */
        c->fn(c->user);
    t->in_callback = false;
    if (!task->unasked)
        vcu_hostfunc_finish(r);
}

/* The runner: one callback after another. */
static void *hostfunc_serve(void *arg)
{
    (void)arg;
    for (;;) {
        struct task *task;

        pthread_mutex_lock(&lock);
        while (ready == NULL)
            pthread_cond_wait(&wake, &lock);
        task = ready;
        ready = task->next;
        if (ready == NULL)
            ready_end = &ready;
        pthread_mutex_unlock(&lock);
        hostfunc_run(task);
        pthread_mutex_lock(&lock);
        if (outstanding > 0 && !task->released)
            outstanding--;
        one_time -= !task->c.kept;
        task_end_locked(task);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* The listener: reads notifications while a callback is outstanding. */
static void *listener_main(void *arg)
{
    CUresult dead;

    (void)arg;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (outstanding == 0 && objects == 0 && !always)
            pthread_cond_wait(&wake, &lock);
        pthread_mutex_unlock(&lock);
        if (lnk_ring_wait_notify(&vcu.ring, soon_deadline()))
            lnk_ring_drain(&vcu.ring);
        dead = lnk_ring_dead(&vcu.ring);
        if (dead != CUDA_SUCCESS) {
            lnk_ring_drain(&vcu.ring); /* runs requested just before the end come first */
            lose_all(dead);
        }
    }
    return NULL;
}

static CUresult start_locked(void)
{
    static void *(*const bodies[])(void *) = {hostfunc_serve, listener_main};
    static const char *const names[] = {"vgpu-callbacks", "vgpu-listener"};
    sigset_t all, old;
    pthread_t thread;
    int rc = 0;

    sigfillset(&all); /* signals belong to the application's threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (started < 2 && rc == 0) {
        rc = pthread_create(&thread, NULL, bodies[started], NULL);
        if (rc != 0)
            break;
        pthread_setname_np(thread, names[started++]);
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Enters a callback; the two threads run from the first one on. */
static CUresult hostfunc_enter(const struct callback *init, uint64_t *cookie)
{
    struct task *task = calloc(1, sizeof(*task));
    struct callback *c = (struct callback *)task;
    CUresult res;

    if (c == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *c = *init;
    pthread_mutex_lock(&lock);
    res = start_locked();
    if (res == CUDA_SUCCESS) {
        struct callback **bucket;

        c->cookie = *cookie = ++next_cookie;
        bucket = &known[c->cookie % BUCKETS];
        c->next = *bucket;
        *bucket = c;
        if (!c->kept) {
            outstanding++;
            one_time++;
        }
        if (c->object != 0)
            objects++;
        pthread_cond_broadcast(&wake);
    }
    pthread_mutex_unlock(&lock);
    if (res != CUDA_SUCCESS)
        free(c);
    return res;
}

/* Removes a callback that will not be requested. */
static bool hostfunc_leave(uint64_t cookie)
{
    struct callback **p, *c;
    bool found;

    pthread_mutex_lock(&lock);
    p = find_locked(cookie);
    c = *p;
    found = c != NULL;
    if (found) {
        *p = c->next;
        one_time -= !c->kept;
        if (!c->kept && outstanding > 0)
            outstanding--;
        if (c->object != 0 && objects > 0)
            objects--;
    }
    pthread_mutex_unlock(&lock);
    if (found && c->service != NULL)
        c->service->put(c->user);
    free(c);
    return found;
}

/* Until the worker has room for another function: as for room in a stream, only this thread waits. */
static void hostfunc_await_room(void)
{
    const struct timespec nap = {.tv_nsec = ONCE_LOOK_NS};

    while (atomic_load_explicit(&one_time, memory_order_relaxed) >= ONCE_MAX && !vcu_thread()->in_callback &&
           lnk_ring_lost(&vcu.ring) == CUDA_SUCCESS)
        nanosleep(&nap, NULL);
}

uint64_t vcu_hostfunc_once(CUhostFn fn, CUstreamCallback stream_fn, CUstream stream, void *user,
                           CUresult *why)
{
    const struct callback init = {.fn = fn, .stream_fn = stream_fn, .stream = stream, .user = user};
    uint64_t cookie = 0;

    hostfunc_await_room();
    *why = hostfunc_enter(&init, &cookie);
    return cookie;
}

uint64_t vcu_hostfunc_keep(CUhostFn fn, void *user, void (*gone)(void *user), CUresult *why)
{
    const struct callback init = {.fn = fn, .user = user, .kept = true, .gone = gone};
    uint64_t cookie = 0;

    *why = hostfunc_enter(&init, &cookie);
    return cookie;
}

uint64_t vcu_hostfunc_keep_service(const struct vcu_host_service *service, void *arg, bool once,
                                   CUresult *why)
{
    const struct callback init = {.service = service, .user = arg, .kept = !once};
    uint64_t cookie = 0;

    *why = hostfunc_enter(&init, &cookie);
    if (cookie == 0)
        service->put(arg);
    return cookie;
}

void *vcu_hostfunc_service(uint64_t cookie, const struct vcu_host_service *service)
{
    struct callback *c;
    void *arg;

    pthread_mutex_lock(&lock);
    c = *find_locked(cookie);
    arg = c != NULL && c->service == service ? c->user : NULL;
    if (arg != NULL)
        service->get(arg);
    pthread_mutex_unlock(&lock);
    return arg;
}

uint64_t vcu_hostfunc_keep_object(CUhostFn destroy, void *user, uint64_t handle, CUresult *why)
{
    const struct callback init = {.fn = destroy, .user = user, .kept = true, .object = handle};
    uint64_t cookie = 0;

    *why = hostfunc_enter(&init, &cookie);
    return cookie;
}

bool vcu_hostfunc_cancel(uint64_t cookie)
{
    return hostfunc_leave(cookie);
}

void vcu_hostfunc_kept(uint64_t cookie, CUresult res)
{
    if (res == CUDA_SUCCESS)
        vcu_hostfunc_sent(cookie);
    else
        vcu_hostfunc_cancel(cookie);
}

bool vcu_hostfunc_find(uint64_t cookie, CUhostFn *fn, void **user)
{
    struct callback *c;

    pthread_mutex_lock(&lock);
    c = *find_locked(cookie);
    if (c != NULL && c->service != NULL) /* no function: the worker named the wrong cookie */
        c = NULL;
    if (c != NULL) {
        *fn = c->fn;
        *user = c->user;
    }
    pthread_mutex_unlock(&lock);
    return c != NULL;
}

void vcu_hostfunc_expect(uint32_t runs)
{
    if (runs == 0)
        return;
    pthread_mutex_lock(&lock);
    if (runs == VGP_HOST_NODES_UNKNOWN)
        always = true;
    else
        outstanding += runs;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
}
