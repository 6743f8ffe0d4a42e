/* SPDX-License-Identifier: MIT */
/* The provider of the CUDA driver API, what it can do, and the filters in front of it. */
#ifndef WRK_PROVIDER_H
#define WRK_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgp_provider.h"

struct wrk_worker;

/* ---- provider.c ---- */

/* The functions as everybody calls them: those of the library until wrk_filters_apply(). */
extern struct vgp_provider wrk_provider;

/*
 * What the worker must know of its provider beyond the functions that it exports. Filled once, by
 * wrk_provider_open(). Nothing else in the worker tells one provider from another.
 */
struct wrk_capabilities {
    const char *title;  /* what the guest calls it */
    void *library;      /* of dlopen() */
    int driver_version; /* of cuDriverGetVersion() */
    int device_count;
    char device_name[128]; /* of device 0 */
    uint64_t memory;       /* bytes of all devices */
    bool software_policy;  /* which sandbox policy its library needs: worker-soft, else worker-nvidia */
    bool
        private_memory; /* device memory is this process's alone, and cuMemGetInfo() says to the byte what it holds */
    bool host_nvml;       /* the host's NVML knows its devices */
    bool reaches_process; /* its devices may be able to reach all memory of this process (HMM, ATS) */
    bool ipc_events;      /* events can be shared with other processes */
};
extern struct wrk_capabilities wrk_capabilities;

/*
 * Loads the provider, initialises it and fills wrk_provider and wrk_capabilities. private_shm: the
 * provider can make files in /dev/shm. 0, or -1 with a sentence in err.
 */
int wrk_provider_open(const char *path, bool private_shm, char *err, size_t err_size);

/* Another library of the same driver: from the provider's own folder, else where the loader finds it;
 * NULL: there is none. */
void *wrk_provider_sibling(const char *name);

/*
 * Whether work is complete. Nothing else asks the provider (scripts/lint.sh looks for it).
 *
 * A question has three answers. An error is no end: a fault in one stream is the answer for all events of the context,
 * also for those of a stream whose host function runs. What WRK_UNKNOWN was answered for lives on until its context,
 * its stream or the client has ended, or a later question is answered with WRK_COMPLETE. The type keeps a caller from
 * comparing results and taking what is left for "complete".
 */
enum wrk_state { WRK_UNKNOWN, WRK_RUNNING, WRK_COMPLETE };
struct wrk_answer {
    enum wrk_state state;
    CUresult result; /* as the client is told */
};

/* What a result of the provider's says. */
struct wrk_answer wrk_answer_of(CUresult result);

/* Of the functions in `from`: wrk_provider, or what a filter found. They do not block. */
struct wrk_answer wrk_ask_event(const struct vgp_provider *from, CUevent event);
struct wrk_answer wrk_ask_stream(const struct vgp_provider *from, CUstream stream);
/* These block; for waiters, or behind a question that was answered with WRK_COMPLETE. Never WRK_RUNNING. */
struct wrk_answer wrk_await_event(const struct vgp_provider *from, CUevent event);
struct wrk_answer wrk_await_stream(const struct vgp_provider *from, CUstream stream);
struct wrk_answer wrk_await_context(const struct vgp_provider *from); /* the thread's current one */

/* ---- filter.c ---- */

/* A layer in front of some of the provider's functions. */
struct wrk_filter {
    const char *name;
    /*
     * Replaces functions of *table by the filter's own. Those call the functions of *next: what was in
     * the table before, the library's or another filter's. *next stays valid. A function that the
     * provider lacks stays NULL.
     */
    void (*wrap)(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *next);
};
#define WRK_FILTERS_MAX 8u

/* Puts n filters (at most WRK_FILTERS_MAX) in front of the library: the first one next to it, the last
 * one next to the handlers. Once, after wrk_provider_open(); again: in front of those that are there. */
void wrk_filters_apply(struct wrk_worker *w, const struct wrk_filter *filters, unsigned n);

#endif
