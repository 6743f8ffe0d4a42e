/* SPDX-License-Identifier: MIT */
/* Common parts of all calls: errors, the current context, handles and streams of the wire. */
#include "core.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/attribute/attribute.h"
#include "lib/driver/errors.h"
#include "vgp_facts.h"
#include "vgp_worker.h"

unsigned wrk_captures;
void (*wrk_capture_over)(struct wrk_worker *w, CUgraph graph);
static struct capture {
    CUstream origin; /* stream in which it began; NULL: ends with its context, and did not end before */
    CUgraph graph;   /* graph it is captured into, of the provider or the client */
    bool own;        /* the provider made the graph for this capture */
} * captures;        /* wrk_captures entries, followed by those ended but not settled */
static unsigned captures_room, captures_over;
static unsigned contexts_ending;
const char wrk_context_end;

bool wrk_capture_room(void)
{
    unsigned room = captures_room ? 2 * captures_room : 8;
    struct capture *bigger;

    if (wrk_captures + captures_over < captures_room)
        return true;
    bigger = realloc(captures, room * sizeof(*captures));
    if (!bigger)
        return false;
    captures = bigger;
    captures_room = room;
    return true;
}

void wrk_capture_begun(CUstream stream, CUgraph graph, bool own)
{
    /* Captures that are over and not settled follow: their first one makes room. */
    if (captures_over)
        captures[wrk_captures + captures_over] = captures[wrk_captures];
    captures[wrk_captures++] = (struct capture){stream, graph, own};
}

/* The last entry takes its place. */
static void end_capture(unsigned i)
{
    const struct capture c = captures[i];

    captures[i] = captures[--wrk_captures];
    captures[wrk_captures] = c;
    captures_over++;
}

void wrk_capture_forget(CUstream stream)
{
    for (unsigned i = wrk_captures; i-- > 0;) {
        if (captures[i].origin == stream)
            end_capture(i);
    }
}

void wrk_capture_end(CUstream stream)
{
    for (unsigned i = wrk_captures; i-- > 0;) {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        CUgraph graph = NULL;

        if (captures[i].origin != stream)
            continue;
        if (wrk_provider.cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && graph && captures[i].own)
            wrk_provider.cuGraphDestroy(graph);
        if (wrk_provider.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
            status == CU_STREAM_CAPTURE_STATUS_NONE)
            end_capture(i);
    }
}

void wrk_capture_leave(CUstream stream)
{
    wrk_capture_end(stream);
    for (unsigned i = 0; i < wrk_captures; i++) {
        if (captures[i].origin == stream)
            captures[i].origin = NULL;
    }
}

void wrk_captures_context_ends(void)
{
    contexts_ending++;
}

bool wrk_contexts_ending(void)
{
    return contexts_ending != 0;
}

void wrk_captures_context_gone(struct wrk_worker *w)
{
    if (--contexts_ending)
        return;
    for (unsigned i = wrk_captures; i-- > 0;) {
        if (!captures[i].origin)
            end_capture(i);
    }
    wrk_captures_settle(w);
}

CUgraph wrk_capture_graph(unsigned i)
{
    return captures[i].graph;
}

void wrk_captures_lose(void)
{
    for (unsigned i = 0; i < wrk_captures; i++) {
        if (captures[i].origin)
            wrk_ask_stream(&wrk_provider, captures[i].origin);
    }
}

void wrk_captures_look(void)
{
    for (unsigned i = wrk_captures; i-- > 0;) {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;

        if (captures[i].origin &&
            wrk_provider.cuStreamIsCapturing(captures[i].origin, &status) == CUDA_SUCCESS &&
            status == CU_STREAM_CAPTURE_STATUS_NONE)
            end_capture(i);
    }
}

bool wrk_capture_into(CUgraph graph)
{
    for (unsigned i = 0; i < wrk_captures; i++) {
        if (captures[i].graph == graph)
            return true;
    }
    return false;
}

void wrk_captures_settle(struct wrk_worker *w)
{
    while (captures_over) {
        CUgraph graph = captures[wrk_captures + --captures_over].graph;

        if (!wrk_capture_into(graph))
            wrk_capture_over(w, graph);
    }
    if (!wrk_captures)
        wrk_namer_clear(w, &wrk_capturing);
}

CUresult wrk_note_result(struct wrk_worker *w, CUresult r)
{
    int none = 0;

    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        wrk_limits_look_at_memory();
    if (r != CUDA_SUCCESS && cua_error_is_sticky(r) &&
        atomic_compare_exchange_strong(&w->sticky, &none, (int)r)) {
        __atomic_store_n(&w->win.shared->sticky_result, (int32_t)r, __ATOMIC_RELEASE);
        if (wrk_provider.sg_last_error_detail)
            wrk_notify_detail(w, wrk_provider.sg_last_error_detail());
    }
    return r;
}

static void tell_failure(struct wrk_worker *w, enum vgp_notify_type type, _Atomic uint64_t *kept,
                         uint16_t call, CUresult r)
{
    if (wrk_provider.sg_last_error_detail)
        wrk_notify_detail(w, wrk_provider.sg_last_error_detail());
    uint64_t error = (uint64_t)call << 32 | (uint32_t)r, none = 0;

    /* No room: keep the first error until there is. */
    if (!wrk_notify(w, type, error, NULL, 0, 0))
        atomic_compare_exchange_strong(kept, &none, error);
}

void wrk_async_error(struct wrk_worker *w, uint16_t call, CUresult r)
{
    tell_failure(w, VGP_NOTIFY_ASYNC_ERROR, &w->kept_error, call, r);
}

void wrk_async_capture_lost(struct wrk_worker *w, uint16_t call, CUresult r)
{
    tell_failure(w, VGP_NOTIFY_CAPTURE_LOST, &w->kept_lost, call, r);
}

void wrk_async_graph_failed(struct wrk_worker *w, uint16_t call, CUresult r)
{
    tell_failure(w, VGP_NOTIFY_GRAPH_FAILED, &w->kept_graph, call, r);
}

static void retry_error(struct wrk_worker *w, enum vgp_notify_type type, _Atomic uint64_t *kept)
{
    uint64_t error = atomic_load(kept);

    if (error && wrk_notify(w, type, error, NULL, 0, 0))
        atomic_store(kept, 0);
}

void wrk_async_error_retry(struct wrk_worker *w)
{
    retry_error(w, VGP_NOTIFY_ASYNC_ERROR, &w->kept_error);
    retry_error(w, VGP_NOTIFY_CAPTURE_LOST, &w->kept_lost);
    retry_error(w, VGP_NOTIFY_GRAPH_FAILED, &w->kept_graph);
}

/* For lists of processes: marks this process as computing. */
static void show_context(struct wrk_worker *w)
{
    if (w->win.shared)
        __atomic_store_n(&w->win.shared->has_context, 1, __ATOMIC_RELAXED);
}

void wrk_context_created(struct wrk_worker *w, CUcontext ctx)
{
    show_context(w);
    w->current = ctx;
}

CUresult wrk_set_context(struct wrk_worker *w, CUcontext ctx)
{
    if (ctx == w->current)
        return CUDA_SUCCESS;
    CUresult r = wrk_provider.cuCtxSetCurrent(ctx);
    /* Checked again, as the call may return objects the guest can no longer name. */
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        r = wrk_provider.cuCtxSetCurrent(ctx);
    if (ctx)
        show_context(w);
    /* unknown: to be set at the next call */
    w->current = r == CUDA_SUCCESS ? ctx : (CUcontext)-1;
    return r;
}

CUresult wrk_malformed(struct wrk_call *c, const char *fmt, ...)
{
    va_list ap;

    if (!c->malformed) {
        va_start(ap, fmt);
        vsnprintf(c->malformed_text, sizeof(c->malformed_text), fmt, ap);
        va_end(ap);
    }
    c->malformed = true;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult wrk_missing(struct wrk_call *c, const char *name)
{
    char text[128];

    snprintf(text, sizeof(text), "%s: the host's CUDA driver does not have it", name);
    wrk_notify_detail(c->w, text);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult wrk_refuse(struct wrk_call *c, CUresult r, const char *why)
{
    wrk_notify_detail(c->w, why);
    return r;
}

/* ---- handles ---- */

bool wrk_handle_is_part(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type)
{
    const struct wrk_handle_entry *e = wrk_handles_find(&c->w->handles, handle, type);

    return e && e->parent;
}

uint64_t wrk_handle_parent_of(struct wrk_call *c, uint64_t handle)
{
    const struct wrk_handle_entry *e = wrk_handles_find(&c->w->handles, handle, VGP_HANDLE_TYPE(handle));

    return e ? e->parent : 0;
}

/* Recording or waiting for an event in a captured stream creates a node only if the call requests
 * it; otherwise events just order streams and are in no graph. */
static bool external_event(const struct wrk_call *c)
{
    const struct vgp_call_facts *f = vgp_call_facts(c->rec->call);

    return f && vgp_place_get(f->external, c->args, NULL);
}

void wrk_naming_begin(struct wrk_call *c)
{
    struct wrk_worker *w = c->w;

    w->naming = wrk_captures ? &wrk_capturing : NULL;
    w->naming_events = w->naming && external_event(c);
    if (w->naming)
        wrk_naming_context(c); /* if out of memory, the call fails as well */
}

/* The stream used for CU_STREAM_PER_THREAD of a guest thread in a context. */
static CUresult thread_stream(struct wrk_worker *w, uint64_t context, uint32_t thread, CUstream *out)
{
    struct wrk_thread_stream *list;

    for (unsigned i = 0; i < w->nthread_streams; i++) {
        if (w->thread_streams[i].thread == thread && w->thread_streams[i].context == context) {
            *out = w->thread_streams[i].stream;
            return CUDA_SUCCESS;
        }
    }
    if (w->nthread_streams == WRK_THREAD_STREAMS_MAX || !wrk_limits_stream(&w->handles))
        return CUDA_ERROR_OUT_OF_MEMORY;
    list = realloc(w->thread_streams, (w->nthread_streams + 1) * sizeof(*list));
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    w->thread_streams = list;
    CUresult r = wrk_provider.cuStreamCreate(out, CU_STREAM_DEFAULT);
    if (r == CUDA_SUCCESS) {
        struct wrk_thread_stream s = {.context = context, .thread = thread, .stream = *out};
        list[w->nthread_streams++] = s;
        w->handles.thread_streams++;
        w->handles.unnamed++;
    }
    return r;
}

void wrk_thread_stream_gone(struct wrk_worker *w, unsigned i)
{
    w->thread_streams[i] = w->thread_streams[--w->nthread_streams];
    w->handles.thread_streams--;
    w->handles.unnamed--;
}

CUresult wrk_stream_get(struct wrk_call *c, uint64_t value, CUstream *out)
{
    *out = (CUstream)(uintptr_t)value;
    if (value < 2)
        return CUDA_SUCCESS;
    if (value == 2 && wrk_base_handle(c->w, c->rec->context) != c->rec->context)
        return CUDA_ERROR_INVALID_HANDLE; /* documented with cuStreamGetCtx_v2 */
    if (value == 2)
        return thread_stream(c->w, c->rec->context, c->rec->thread, out);
    return wrk_handle_get(c, value, VGP_H_STREAM, false, (void **)out);
}

/* CUDA error for an invalid object of this type. */
static CUresult bad_handle(unsigned type)
{
    switch (type) {
    case VGP_H_CONTEXT:
    case VGP_H_GREEN:
        return CUDA_ERROR_INVALID_CONTEXT;
    case VGP_H_GRAPH:
    case VGP_H_GRAPH_NODE:
    case VGP_H_GRAPH_EXEC:
    case VGP_H_USER_OBJECT:
    case VGP_H_TEXTURE:
    case VGP_H_SURFACE:
    case VGP_H_RESOURCE_DESC:
        return CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_HANDLE;
    }
}

void wrk_call_uses(struct wrk_call *c, CUcontext ctx)
{
    if (!ctx || ctx == c->other[0])
        return;
    c->many |= c->other[0] != NULL;
    c->other[0] = ctx;
    c->other[1] = wrk_base_context(ctx);
}

/*
 * A call may be about an object of another context than its own. Its wait then uses that context,
 * too: other threads may end it as soon as the call waits, and the object with it.
 */
static void note_context(struct wrk_call *c, const struct wrk_handle_entry *e)
{
    const struct wrk_handle_entry *of;

    if (!e->owner || e->owner == c->rec->context)
        return;
    of = wrk_handles_find(&c->w->handles, e->owner, VGP_H_CONTEXT);
    if (of)
        wrk_call_uses(c, of->object);
}

CUresult wrk_handle_get(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type, bool null_ok,
                        void **out)
{
    *out = NULL;
    if (type == VGP_H_STREAM && handle <= 2) {
        if (!handle && !null_ok)
            return CUDA_ERROR_INVALID_HANDLE;
        CUresult r = wrk_stream_get(c, handle, (CUstream *)out);

        c->stream = *out;
        c->has_stream = r == CUDA_SUCCESS;
        return r;
    }
    if (!handle)
        return null_ok ? CUDA_SUCCESS : bad_handle(type);
    struct wrk_handle_entry *e = wrk_handles_find(&c->w->handles, handle, type);
    if (!e) {
        CUresult failed = wrk_handles_failure(&c->w->handles, handle, type);

        c->told |= failed != CUDA_SUCCESS;
        return failed != CUDA_SUCCESS ? failed : bad_handle(type);
    }
    /* Of an ended primary context only the handle is there; NULL would name the calling one. */
    if (type == VGP_H_CONTEXT && !e->object)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = e->object;
    note_context(c, e);
    if (type == VGP_H_STREAM) {
        c->stream = e->object;
        c->has_stream = true;
    }
    return c->w->naming ? wrk_naming_found(c, type, e, handle) : CUDA_SUCCESS;
}

CUresult wrk_func_get(struct wrk_call *c, uint64_t handle, CUfunction *func)
{
    unsigned type = VGP_HANDLE_TYPE(handle) == VGP_H_KERNEL ? VGP_H_KERNEL : VGP_H_FUNCTION;

    return wrk_handle_get(c, handle, type, false, (void **)func);
}

CUresult wrk_handle_reserve(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type)
{
    CUresult r = wrk_handles_reserve(&c->w->handles, handle, type);

    c->makes = handle;
    c->makes_type = type;
    if (r == CUDA_ERROR_INVALID_HANDLE)
        return wrk_malformed(c, "handle %#llx cannot be created: malformed, live or used before",
                             (unsigned long long)handle);
    return r;
}

void wrk_handle_put(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type, void *object)
{
    uint64_t owner = c->rec->context;

    /* Streams are owned by their (green) context, all other objects by the underlying primary
     * context (wrk_base_handle). */
    if (type != VGP_H_STREAM)
        owner = type == VGP_H_CONTEXT ? 0 : wrk_base_handle(c->w, owner);
    if (wrk_handles_reserve(&c->w->handles, handle, type) == CUDA_SUCCESS)
        wrk_handles_put(&c->w->handles, handle, type, object, owner);
}

void wrk_handle_parent(struct wrk_call *c, uint64_t handle, uint64_t parent)
{
    wrk_handles_set_parent(&c->w->handles, handle, parent);
}

void wrk_handle_drop(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type)
{
    wrk_handles_remove(&c->w->handles, handle, type);
}

bool wrk_plain_attribute(uint32_t id)
{
    return att_launch_class((CUlaunchAttributeID)id) == ATT_PLAIN;
}
