/* SPDX-License-Identifier: MIT */
/*
 * Watches, so that a guest polling an event or stream need not call each time: after the first
 * query answered "not ready", the dispatcher checks it while awake anyway, and stores the answer in
 * the window. A watch keeps the dispatcher awake no longer than a poll of the guest would. Objects
 * are looked up by handle each time, so a destroyed object is not touched.
 */
#include "../calls.h"
#include "vgb_fd.h"

#define WATCH_NS 300000u

/* Indexed by the word of the window. */
static struct {
    uint64_t handle; /* 0: none */
    uint32_t sequence;
    uint64_t until_ns;
} watches[VGP_WATCHES];
unsigned wrk_watches;
uint64_t wrk_watched_ns;

static struct wrk_answer watch_query(struct wrk_worker *w, uint64_t handle)
{
    unsigned type = VGP_HANDLE_TYPE(handle);
    const struct wrk_handle_entry *e = wrk_handles_find(&w->handles, handle, type);

    if (!e || wrk_captures) /* a capturing stream must not be queried */
        return wrk_answer_of(CUDA_ERROR_INVALID_HANDLE);
    return type == VGP_H_EVENT ? wrk_ask_event(&wrk_provider, e->object)
                               : wrk_ask_stream(&wrk_provider, e->object);
}

static void watch_end(struct wrk_worker *w, unsigned word, uint32_t value)
{
    watches[word].handle = 0;
    wrk_watches--;
    __atomic_store_n(&w->win.shared->watch[word], value, __ATOMIC_RELEASE);
}

bool wrk_watches_poll(struct wrk_worker *w, uint64_t now)
{
    wrk_watched_ns = now;
    for (unsigned i = 0; i < VGP_WATCHES && wrk_watches; i++) {
        enum wrk_state is;

        if (!watches[i].handle)
            continue;
        is = watch_query(w, watches[i].handle).state;
        if (is == WRK_COMPLETE)
            watch_end(w, i, watches[i].sequence);
        else if (is == WRK_UNKNOWN || now > watches[i].until_ns)
            watch_end(w, i, watches[i].sequence | VGP_WATCH_ASK);
    }
    return wrk_watches != 0;
}

void wrk_watches_end(struct wrk_worker *w)
{
    if (!wrk_watches || !wrk_watches_poll(w, vgb_now_ns()))
        return;
    for (unsigned i = 0; i < VGP_WATCHES; i++) {
        if (watches[i].handle)
            watch_end(w, i, watches[i].sequence | VGP_WATCH_ASK);
    }
}

CUresult wrk_watch_begin(struct wrk_call *c, uint64_t handle, uint32_t word, uint32_t sequence,
                         struct wrk_answer a)
{
    struct wrk_worker *w = c->w;

    if (word >= VGP_WATCHES || !sequence || sequence & VGP_WATCH_ASK)
        return wrk_malformed(c, "word %u, sequence %u", word, sequence);
    /* used by another watch, which the guest renews after some time */
    if (watches[word].handle)
        watch_end(w, word, watches[word].sequence | VGP_WATCH_ASK);
    if (a.state != WRK_RUNNING || wrk_captures)
        return a.result;
    watches[word].handle = handle;
    watches[word].sequence = sequence;
    watches[word].until_ns = vgb_now_ns() + WATCH_NS;
    wrk_watches++;
    return a.result;
}
