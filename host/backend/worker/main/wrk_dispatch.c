/* SPDX-License-Identifier: MIT */
/* Executes a record as a provider call. Checks common to all calls are here, not in handlers. */
#include "main.h"

#include <linux/types.h>

#include "vgpu_device.h"

/* Checks the record against its dispatch row, as the generated code relies on. */
static bool row_ok(struct wrk_call *c, const struct vgp_dispatch *row)
{
    uint32_t most = (row->args_max + 15) & ~15u;
    bool reply = c->rec->reply_slot != VGP_NO_REPLY;

    if (c->args_size < row->args_fixed || c->args_size > most) {
        wrk_malformed(c, "%u bytes of arguments, %u to %u are possible", c->args_size, row->args_fixed, most);
    } else if (row->flags & VGP_F_REPLY && !reply) {
        wrk_malformed(c, "no reply slot");
    }
    return !c->malformed;
}

/* Makes the record's context current; an unknown context counts as none. */
static CUresult enter_context(struct wrk_call *c, const struct vgp_dispatch *row)
{
    struct wrk_worker *w = c->w;
    struct wrk_handle_entry *e = NULL;

    if (c->rec->context)
        e = wrk_handles_find(&w->handles, c->rec->context, VGP_H_CONTEXT);
    if (!e && row->flags & VGP_F_CONTEXT)
        return c->rec->context ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
    CUresult r = wrk_set_context(w, e ? (CUcontext)e->object : NULL);
    if (e && !e->object) /* an ended primary context, which can own no new objects */
        r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return row->flags & VGP_F_CONTEXT ? r : CUDA_SUCCESS;
}

static void die_malformed(struct wrk_call *c, const struct vgp_dispatch *row)
{
    wrk_die(c->w, VGPU_DEAD_PROTOCOL, "malformed record: %s: %s", row ? row->name : "?", c->malformed_text);
}

void wrk_dispatch_one(struct wrk_worker *w)
{
    struct wrk_call *c = &w->call;
    const struct vgp_record *rec = &w->ring.rec;
    const struct vgp_dispatch *row = vgp_dispatch_row(rec->call);
    uint32_t flags = 0;
    CUresult r;

    wrk_count(&w->win.shared->calls, 1);
    if (rec->reply_slot != VGP_NO_REPLY)
        wrk_count(&w->win.shared->waits, 1);
    c->w = w;
    c->rec = rec;
    c->args = w->ring.args;
    c->args_size = w->ring.args_size;
    c->malformed = c->deferred = c->has_stream = c->told = c->many = false;
    c->other[0] = c->other[1] = NULL;
    c->makes = c->builds = 0;
    c->reply_size = 0;
    if (!row || row->since > w->minor)
        wrk_die(w, VGPU_DEAD_PROTOCOL, "malformed record: call number %#x does not exist", rec->call);
    if (!row_ok(c, row))
        die_malformed(c, row);
    if (rec->call != VGP_vgpGraphList)
        wrk_graph_list_forget(); /* the call may change the listed graph */
    wrk_naming_begin(c);
    r = enter_context(c, row);
    if (r == CUDA_SUCCESS)
        r = row->handler(c);
    if (r == CUDA_SUCCESS && row->flags & VGP_F_FILLS && c->has_stream)
        wrk_flow_issued(c);
    wrk_blob_call_done(w);
    if (c->malformed)
        die_malformed(c, row);
    if (r == CUDA_SUCCESS)
        wrk_audit(c);
    if (c->deferred)
        return;
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY)
        wrk_count(&w->win.shared->errors, 1);
    wrk_note_result(w, r);
    if (rec->reply_slot == VGP_NO_REPLY) {
        /* Later calls fail on the missing object; the cause is reported once. */
        if (r != CUDA_SUCCESS && c->makes)
            wrk_handles_fail(&w->handles, c->makes, c->makes_type, r);
        if (r != CUDA_SUCCESS && !(row->flags & VGP_F_FILLS && wrk_capture_failed(c, r)) &&
            !wrk_graph_call_failed(c, r) && !c->told)
            wrk_async_error(w, rec->call, r);
        return;
    }
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY && wrk_provider.sg_last_error_detail) {
        const char *why = wrk_provider.sg_last_error_detail();

        if (why && *why) {
            wrk_notify_detail(w, why);
            flags = VGP_REPLY_DETAIL;
        }
    }
    wrk_reply_send(w, rec->reply_slot, rec->reply_seq, r, c->reply, c->reply_size, flags);
}
