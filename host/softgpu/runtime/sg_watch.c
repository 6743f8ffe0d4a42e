/* SPDX-License-Identifier: MIT */
/*
 * Functions called when an operation of a stream completes, by the stream's own thread, before it
 * runs a later operation: a wait needs no second thread, which would have to be woken first.
 */
#include <stdlib.h>

#include "runtime/runtime.h"

struct sg_watch {
    SG_OWNED struct sg_watch *next;
    uint64_t seq;
    void (*fn)(void *arg, CUresult r);
    void *arg;
};

_Atomic uint64_t sg_waits;

bool sg_stream_when(struct sg_stream *s, uint64_t seq, void (*fn)(void *arg, CUresult r), void *arg)
{
    struct sg_watch *w = malloc(sizeof(*w));
    bool ok;

    if (!w)
        return false;
    *w = (struct sg_watch){.seq = seq, .fn = fn, .arg = arg};
    pthread_mutex_lock(&s->lock);
    ok = s->thread && !s->ended && atomic_load(&s->completed) < seq;
    if (ok) {
        w->next = s->watches;
        s->watches = w;
    }
    pthread_mutex_unlock(&s->lock);
    if (!ok)
        free(w);
    return ok;
}

bool sg_watch_due(const struct sg_stream *s)
{
    for (const struct sg_watch *w = s->watches; w; w = w->next) {
        if (w->seq <= atomic_load(&s->completed))
            return true;
    }
    return false;
}

struct sg_watch *sg_watches_take(struct sg_stream *s)
{
    struct sg_watch **at = &s->watches, *due = NULL;

    while (*at) {
        struct sg_watch *w = *at;

        if (w->seq > atomic_load(&s->completed)) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = due;
        due = w;
    }
    return due;
}

/* Each call stands for a completed wait and gets the wait's result. */
void sg_watches_run(struct sg_stream *s, struct sg_watch *due)
{
    while (due) {
        struct sg_watch *w = due;

        due = w->next;
        atomic_fetch_add(&sg_waits, 1);
        w->fn(w->arg, sg_see_fault(s->ctx));
        free(w);
    }
}
