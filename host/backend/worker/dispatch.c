/* SPDX-License-Identifier: MIT */
/* One record -> one call of the provider. Checks that all calls share are here, not in handlers. */
#include "worker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include "vgpu_device.h"

bool vgb_is_sticky(CUresult r)
{
    switch ((int)r) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return true;
    default:
        return false;
    }
}

CUresult vgb_note_result(struct vgb_worker *w, CUresult r)
{
    int none = 0;

    if (r != CUDA_SUCCESS && vgb_is_sticky(r) &&
        atomic_compare_exchange_strong(&w->sticky, &none, (int)r)) {
        __atomic_store_n(&w->win.shared->sticky_result, (int32_t)r, __ATOMIC_RELEASE);
        if (vgb_cu.last_error_detail)
            vgb_notify_detail(w, vgb_cu.last_error_detail());
    }
    return r;
}

void vgb_async_error(struct vgb_worker *w, uint16_t call, CUresult r)
{
    if (vgb_cu.last_error_detail)
        vgb_notify_detail(w, vgb_cu.last_error_detail());
    uint64_t error = (uint64_t)call << 32 | (uint32_t)r, none = 0;

    /* No room: the first one is kept until there is some. */
    if (!vgb_notify(w, VGP_NOTIFY_ASYNC_ERROR, error, NULL, 0, 0))
        atomic_compare_exchange_strong(&w->kept_error, &none, error);
}

void vgb_async_error_retry(struct vgb_worker *w)
{
    uint64_t error = atomic_load(&w->kept_error);

    if (error && vgb_notify(w, VGP_NOTIFY_ASYNC_ERROR, error, NULL, 0, 0))
        atomic_store(&w->kept_error, 0);
}

CUresult vgb_set_context(struct vgb_worker *w, CUcontext ctx)
{
    if (ctx == w->current)
        return CUDA_SUCCESS;
    CUresult r = vgb_cu.CtxSetCurrent(ctx);
    if (ctx && w->win.shared)
        __atomic_store_n(&w->win.shared->has_context, 1, __ATOMIC_RELAXED);
    w->current = r == CUDA_SUCCESS ? ctx : (CUcontext)-1; /* unknown: set again next time */
    return r;
}

CUresult vgb_malformed(struct vgb_call *c, const char *fmt, ...)
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

CUresult vgb_missing(struct vgb_call *c, const char *name)
{
    char text[128];

    snprintf(text, sizeof(text), "%s: the host's CUDA driver does not have it", name);
    vgb_notify_detail(c->w, text);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* The stream that stands for CU_STREAM_PER_THREAD of one guest thread in one context. */
static CUresult thread_stream(struct vgb_worker *w, uint64_t context, uint32_t thread,
                              CUstream *out)
{
    struct vgb_thread_stream *list;

    for (unsigned i = 0; i < w->nthread_streams; i++) {
        if (w->thread_streams[i].thread == thread && w->thread_streams[i].context == context) {
            *out = w->thread_streams[i].stream;
            return CUDA_SUCCESS;
        }
    }
    if (w->nthread_streams == VGB_THREAD_STREAMS_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    list = realloc(w->thread_streams, (w->nthread_streams + 1) * sizeof(*list));
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    w->thread_streams = list;
    CUresult r = vgb_cu.StreamCreate(out, CU_STREAM_DEFAULT);
    if (r == CUDA_SUCCESS) {
        struct vgb_thread_stream s = {.context = context, .thread = thread, .stream = *out};
        list[w->nthread_streams++] = s;
    }
    return r;
}

CUresult vgb_stream_get(struct vgb_call *c, uint64_t value, CUstream *out)
{
    *out = (CUstream)(uintptr_t)value;
    if (value < 2)
        return CUDA_SUCCESS;
    if (value == 2 && vgb_base_handle(c->w, c->rec->context) != c->rec->context)
        return CUDA_ERROR_INVALID_HANDLE; /* documented with cuStreamGetCtx_v2 */
    if (value == 2)
        return thread_stream(c->w, c->rec->context, c->rec->thread, out);
    return vgb_handle_get(c, value, VGP_H_STREAM, false, (void **)out);
}

/* The record against its row: what the generated code relies on. */
static bool row_ok(struct vgb_call *c, const struct vgp_dispatch *row)
{
    uint32_t most = (row->args_max + 15) & ~15u;
    bool reply = c->rec->reply_slot != VGP_NO_REPLY;

    if (c->args_size < row->args_fixed || c->args_size > most) {
        vgb_malformed(c, "%u bytes of arguments, %u to %u are possible", c->args_size,
                      row->args_fixed, most);
    } else if (row->flags & VGP_F_REPLY && !reply) {
        vgb_malformed(c, "no reply slot");
    }
    return !c->malformed;
}

/* The record's context becomes current; an unknown one is as none. */
static CUresult enter_context(struct vgb_call *c, const struct vgp_dispatch *row)
{
    struct vgb_worker *w = c->w;
    struct vgb_handle_entry *e = NULL;

    if (c->rec->context)
        e = vgb_handles_find(&w->handles, c->rec->context, VGP_H_CONTEXT);
    if (!e && row->flags & VGP_F_CONTEXT)
        return c->rec->context ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
    CUresult r = vgb_set_context(w, e ? (CUcontext)e->object : NULL);
    return row->flags & VGP_F_CONTEXT ? r : CUDA_SUCCESS;
}

static void die_malformed(struct vgb_call *c, const struct vgp_dispatch *row)
{
    vgb_die(c->w, VGPU_DEAD_PROTOCOL, "malformed record: %s: %s", row ? row->name : "?",
            c->malformed_text);
}

void vgb_dispatch_one(struct vgb_worker *w)
{
    struct vgb_call *c = &w->call;
    const struct vgp_record *rec = &w->ring.rec;
    const struct vgp_dispatch *row = vgp_dispatch_row(rec->call);
    uint32_t flags = 0;
    CUresult r;

    c->w = w;
    c->rec = rec;
    c->args = w->ring.args;
    c->args_size = w->ring.args_size;
    c->malformed = c->deferred = false;
    c->reply_size = 0;
    if (!row || row->since > w->minor)
        vgb_die(w, VGPU_DEAD_PROTOCOL, "malformed record: call number %#x does not exist",
                rec->call);
    if (!row_ok(c, row))
        die_malformed(c, row);
    r = enter_context(c, row);
    if (r == CUDA_SUCCESS)
        r = row->handler(c);
    vgb_blob_call_done(w);
    if (c->malformed)
        die_malformed(c, row);
    if (c->deferred)
        return;
    vgb_note_result(w, r);
    if (rec->reply_slot == VGP_NO_REPLY) {
        if (r != CUDA_SUCCESS)
            vgb_async_error(w, rec->call, r);
        return;
    }
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY && vgb_cu.last_error_detail) {
        const char *why = vgb_cu.last_error_detail();

        if (why && *why) {
            vgb_notify_detail(w, why);
            flags = VGP_REPLY_DETAIL;
        }
    }
    vgb_reply_send(w, rec->reply_slot, rec->reply_seq, r, c->reply, c->reply_size, flags);
}
