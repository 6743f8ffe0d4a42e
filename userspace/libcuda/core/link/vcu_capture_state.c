/* SPDX-License-Identifier: MIT */
/*
 * The capturing streams of this process. The worker makes all calls on one thread and therefore
 * captures in relaxed mode; this file decides which thread may disturb or end a capture.
 */
#include "../core.h"

#include <stdlib.h>
#include <string.h>

struct vcu_capture {
    struct vcu_capture *next;
    CUstream stream;  /* as on the wire: 2 is the per-thread stream of that thread and context */
    uint64_t context; /* of the stream */
    uint32_t thread;  /* that began it */
    CUstreamCaptureMode mode;
    bool to_graph; /* that the program gave */
    bool spoilt;   /* lost by another thread, which cannot name this thread's per-thread stream */
    bool doubtful; /* possibly invalid, or with unknown streams */
};

_Atomic uint32_t vcu_captures;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vcu_capture *captures;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
static bool post_off; /* VGPU_POST_CAPTURED=0 */
static struct btr_tree
    known; /* captures by their streams, and by events recorded in them last; under `lock` */

static uint64_t context_of(CUstream stream)
{
    if ((uintptr_t)stream <= 2)
        return vcu_current_context();
    return (uint64_t)(uintptr_t)vcu_handle_data((uintptr_t)stream, VGP_H_STREAM);
}

static bool is_stream(const struct vcu_capture *c, CUstream stream)
{
    if (c->stream != stream)
        return false;
    return stream != CU_STREAM_PER_THREAD ||
           (c->thread == vcu_thread()->number && c->context == vcu_current_context());
}

/* ---- streams and events that are known to be part of a capture --------------------------------- */

/* Types of handles are below 32, so a per-thread stream has a key of its own. */
static uint64_t key_of(CUstream stream)
{
    _Static_assert(VGP_H_TYPES <= 0x80, "the top bit of a handle is free");

    if (stream != CU_STREAM_PER_THREAD)
        return (uintptr_t)stream;
    return UINT64_C(1) << 63 | (uint64_t)vcu_thread()->number << 24 | VGP_HANDLE_INDEX(vcu_current_context());
}

static struct vcu_capture *known_locked(uint64_t key)
{
    struct btr_item item;

    return btr_find(&known, key, &item) ? item.value : NULL;
}

static bool doubtful_locked(void)
{
    for (const struct vcu_capture *c = captures; c != NULL; c = c->next) {
        if (c->doubtful)
            return true;
    }
    return false;
}

static void know_locked(uint64_t key, struct vcu_capture *c)
{
    btr_remove(&known, key, NULL);
    if (btr_insert(&known, key, 0, c) != 0)
        c->doubtful = true;
}

static void unknow_locked(const struct vcu_capture *c)
{
    struct btr_item item;

    for (uint64_t key = 0; btr_ceiling(&known, key, &item); key = item.key + 1) {
        if (item.value == c)
            btr_remove(&known, item.key, NULL);
    }
}

static bool may_post(void)
{
    return atomic_load_explicit(&vcu_captures, memory_order_relaxed) != 0 && vcu.worker_minor >= 7 &&
           !post_off;
}

bool vcu_capture_post(CUstream stream)
{
    const struct vcu_capture *c;
    bool yes;

    if (!may_post() || (uintptr_t)stream <= 1)
        return false;
    pthread_mutex_lock(&lock);
    c = known_locked(key_of(stream));
    yes = c != NULL && !c->doubtful;
    pthread_mutex_unlock(&lock);
    return yes;
}

struct vgp_intent vcu_capture_post_record(CUstream stream, CUevent event, bool plain)
{
    struct vcu_capture *c, *before;
    bool posted;

    if (!may_post())
        return (struct vgp_intent){0};
    pthread_mutex_lock(&lock);
    c = known_locked(key_of(stream));
    before = known_locked((uintptr_t)event);
    posted = c != NULL && plain && !c->doubtful;
    if (posted) {
        know_locked((uintptr_t)event, c);
        posted = !c->doubtful;
    } else {
        btr_remove(&known, (uintptr_t)event, NULL);
        /* Only the provider knows which capture the event is part of now. */
        if (c != NULL)
            c->doubtful = true;
        if (before != NULL && !plain)
            before->doubtful = true;
    }
    pthread_mutex_unlock(&lock);
    return (struct vgp_intent){.posted = posted};
}

struct vgp_intent vcu_capture_post_wait(CUstream stream, CUevent event, unsigned int flags)
{
    struct vcu_capture *c, *into;
    bool posted;

    if (!may_post())
        return (struct vgp_intent){0};
    pthread_mutex_lock(&lock);
    c = known_locked((uintptr_t)event);
    into = known_locked(key_of(stream));
    posted = c != NULL && (into == NULL ? !doubtful_locked() : into == c && !c->doubtful) && flags == 0 &&
             (uintptr_t)stream > 1;
    if (posted && into == NULL) { /* the stream joins the capture */
        know_locked(key_of(stream), c);
        posted = !c->doubtful;
    } else if (c != NULL && !posted) {
        c->doubtful = true; /* the stream may have joined it */
    }
    pthread_mutex_unlock(&lock);
    return (struct vgp_intent){.posted = posted};
}

void vcu_capture_doubt(void)
{
    if (atomic_load_explicit(&vcu_captures, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&lock);
    for (struct vcu_capture *c = captures; c != NULL; c = c->next)
        c->doubtful = true;
    pthread_mutex_unlock(&lock);
}

void vcu_capture_init(void)
{
    const char *value = getenv("VGPU_POST_CAPTURED");

    post_off = value != NULL && !strcmp(value, "0");
}

/* ---- captures ---------------------------------------------------------------------------------- */

/* Takes out the captures for which fn says true. */
static void drop_if(bool (*fn)(const struct vcu_capture *c, const void *arg), const void *arg)
{
    pthread_mutex_lock(&lock);
    for (struct vcu_capture **p = &captures; *p != NULL;) {
        struct vcu_capture *c = *p;

        if (!fn(c, arg)) {
            p = &c->next;
            continue;
        }
        *p = c->next;
        unknow_locked(c);
        free(c);
        atomic_fetch_sub(&vcu_captures, 1);
    }
    pthread_mutex_unlock(&lock);
}

static bool of_stream(const struct vcu_capture *c, const void *arg)
{
    return is_stream(c, *(const CUstream *)arg);
}

static bool of_context(const struct vcu_capture *c, const void *arg)
{
    return c->context == *(const uint64_t *)arg;
}

void vcu_capture_forget_stream(CUstream stream)
{
    struct vcu_capture *c;

    if (atomic_load_explicit(&vcu_captures, memory_order_relaxed) == 0)
        return;
    drop_if(of_stream, &stream);
    pthread_mutex_lock(&lock);
    c = known_locked(key_of(stream));
    if (c != NULL)
        c->doubtful = true; /* a stream that had joined another stream's capture */
    pthread_mutex_unlock(&lock);
}

void vcu_capture_forget_context(uint64_t context)
{
    if (atomic_load_explicit(&vcu_captures, memory_order_relaxed) == 0)
        return;
    drop_if(of_context, &context);
    vcu_capture_doubt();
}

/* ---- what may not happen meanwhile ----------------------------------------------------------- */

/* True if cuThreadExchangeStreamCaptureMode's documentation forbids the call to this thread. */
static bool capture_forbids(const struct vcu_capture *c, uint32_t thread)
{
    if (c->thread == thread)
        return c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUstream vcu_capture_next_lost(void)
{
    const uint32_t thread = vcu_thread()->number;
    CUstream found = NULL;

    pthread_mutex_lock(&lock);
    for (struct vcu_capture *c = captures; c != NULL && found == NULL; c = c->next) {
        if (!capture_forbids(c, thread) || c->spoilt)
            continue;
        c->spoilt = c->doubtful = true;
        if (c->stream != CU_STREAM_PER_THREAD || c->thread == thread)
            found = c->stream;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool vcu_capture_forbids_thread(void)
{
    const uint32_t thread = vcu_thread()->number;
    bool any = false;

    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    pthread_mutex_lock(&lock);
    for (struct vcu_capture *c = captures; c != NULL; c = c->next)
        any |= capture_forbids(c, thread);
    pthread_mutex_unlock(&lock);
    return any;
}

bool vcu_capture_spoilt(CUstream stream)
{
    bool spoilt = false;

    pthread_mutex_lock(&lock);
    for (struct vcu_capture *c = captures; c != NULL; c = c->next)
        spoilt |= is_stream(c, stream) && c->spoilt && stream == CU_STREAM_PER_THREAD;
    pthread_mutex_unlock(&lock);
    return spoilt;
}

/* ---- beginning and ending -------------------------------------------------------------------- */

CUstreamCaptureMode vcu_capture_exchange_mode(CUstreamCaptureMode mode)
{
    CUstreamCaptureMode old = thread_mode;

    thread_mode = mode;
    return old;
}

struct vcu_capture *vcu_capture_new(CUstream stream, CUstreamCaptureMode mode, bool to_graph)
{
    struct vcu_capture *c = malloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    *c = (struct vcu_capture){
        .stream = stream,
        .context = context_of(stream),
        .thread = vcu_thread()->number,
        .mode = mode,
        .to_graph = to_graph,
    };
    return c;
}

void vcu_capture_begun(struct vcu_capture *c, bool begun)
{
    if (!begun) {
        free(c);
        return;
    }
    pthread_mutex_lock(&lock);
    c->next = captures;
    captures = c;
    know_locked(key_of(c->stream), c);
    atomic_fetch_add(&vcu_captures, 1);
    pthread_mutex_unlock(&lock);
}

bool vcu_capture_may_end(CUstream stream)
{
    uint32_t thread = vcu_thread()->number;
    bool ok = true;

    pthread_mutex_lock(&lock);
    for (struct vcu_capture *c = captures; c != NULL; c = c->next) {
        if (is_stream(c, stream) && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != thread)
            ok = false;
    }
    pthread_mutex_unlock(&lock);
    return ok;
}

bool vcu_capture_to_graph(CUstream stream)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (const struct vcu_capture *c = captures; c != NULL && !found; c = c->next)
        found = is_stream(c, stream) && c->to_graph;
    pthread_mutex_unlock(&lock);
    return found;
}
