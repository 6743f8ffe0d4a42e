/* SPDX-License-Identifier: MIT */
/* Objects owned by a context end with it: a stale handle must not reach the provider. */
#include "../calls.h"

struct drop {
    VGB_LENT struct wrk_worker *w;
    uint64_t context;
    unsigned type;
};

static void drop_one(struct wrk_handle_entry *e, uint64_t handle, void *arg)
{
    struct drop *d = arg;

    if (e->owner != d->context)
        return;
    if (d->type == VGP_H_STREAM) {
        /* it may have work from calls in other contexts */
        wrk_flow_stream_ends(d->w, e->object);
        wrk_capture_leave(e->object);
    }
    wrk_handles_remove(&d->w->handles, handle, d->type);
}

void wrk_drop_owned(struct wrk_worker *w, uint64_t context)
{
    static const unsigned types[] = {VGP_H_STREAM,   VGP_H_EVENT,      VGP_H_MODULE,
                                     VGP_H_FUNCTION, VGP_H_ARRAY,      VGP_H_TEXTURE,
                                     VGP_H_SURFACE,  VGP_H_GRAPH_EXEC, VGP_H_MIPMAPPED_ARRAY};

    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct drop d = {.w = w, .context = context, .type = types[i]};

        wrk_handles_each(&w->handles, types[i], drop_one, &d);
    }
    wrk_links_end(w, context);
    wrk_textures_end(w, context);
    for (unsigned i = 0; i < w->nthread_streams;) {
        if (w->thread_streams[i].context != context) {
            i++;
            continue;
        }
        wrk_flow_stream_ends(w, w->thread_streams[i].stream);
        wrk_capture_leave(w->thread_streams[i].stream);
        wrk_thread_stream_gone(w, i);
    }
}
