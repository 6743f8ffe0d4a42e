/* SPDX-License-Identifier: MIT */
/*
 * Provider of the CUDA driver API: its functions, its capabilities, and the filters in front of it.
 */
#ifndef WRK_PROVIDER_H
#define WRK_PROVIDER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgp_provider.h"

struct wrk_worker;

/* ---- wrk_provider.c ---- */

/* Functions as called by the worker: the library's own until wrk_filters_apply(). */
extern struct vgp_provider wrk_provider;

/* Properties of the provider beyond its exported functions. Filled once, by wrk_provider_open().
 * Nothing else in the worker distinguishes providers. */
struct wrk_capabilities {
    const char *title;  /* name shown to the guest */
    void *library;      /* handle from dlopen() */
    int driver_version; /* from cuDriverGetVersion() */
    int device_count;
    char device_name[128]; /* name of device 0 */
    uint64_t memory;       /* total bytes of all devices */
    bool software_policy;  /* sandbox policy for its library: worker-soft, else worker-nvidia */
    bool
        /* device memory is private to this process, and sg_memory_held() says how much of it is in use */
        private_memory;
    bool host_nvml;       /* its devices are visible in the host's NVML */
    bool reaches_process; /* its devices may reach all memory of this process (HMM, ATS) */
    bool ipc_events;      /* events can be shared with other processes */
};
extern struct wrk_capabilities wrk_capabilities;

/* Loads and initialises the provider; fills wrk_provider and wrk_capabilities. private_shm: the
 * provider can create files in /dev/shm. 0, or -1 with a message in err. */
int wrk_provider_open(const char *path, bool private_shm, char *err, size_t err_size);

/* Loads another library of the same driver, from the provider's folder or else by the loader's
 * search path; NULL: not found. */
void *wrk_provider_sibling(const char *name);

/*
 * Completion of work. No other code queries the provider for it (checked by scripts/lint.sh).
 *
 * A query has three answers. An error is not completion: a fault in one stream is reported for all
 * events of the context, including those of a stream whose host function still runs. After
 * WRK_UNKNOWN, the object queried stays in use until its context, its stream or the client has
 * ended, or until a later query answers WRK_COMPLETE. The type prevents callers from comparing
 * results and treating the remainder as "complete".
 *
 * A question has three answers. An error is no end: a fault in one stream is the answer for all
 * events of the context, also for those of a stream whose host function runs. What WRK_UNKNOWN was
 * answered for lives on until its context, its stream or the client has ended, or a later question
 * is answered with WRK_COMPLETE. The type keeps a caller from comparing results and taking what is
 * left for "complete".
 */
enum wrk_state { WRK_UNKNOWN, WRK_RUNNING, WRK_COMPLETE };
struct wrk_answer {
    enum wrk_state state;
    CUresult result; /* as reported to the client */
};

/* Converts a result of the provider. */
struct wrk_answer wrk_answer_of(CUresult result);

/* Non-blocking queries through the functions in `from`: wrk_provider, or a filter's next table. */
struct wrk_answer wrk_ask_event(const struct vgp_provider *from, CUevent event);
struct wrk_answer wrk_ask_stream(const struct vgp_provider *from, CUstream stream);
/* Blocking versions, for waiters, or after a query that answered WRK_COMPLETE. Never return
 * WRK_RUNNING. */
struct wrk_answer wrk_await_event(const struct vgp_provider *from, CUevent event);
struct wrk_answer wrk_await_stream(const struct vgp_provider *from, CUstream stream);
/* the thread's current context */
struct wrk_answer wrk_await_context(const struct vgp_provider *from);

/* ---- filter.c ---- */

/* A layer in front of some of the provider's functions. */
struct wrk_filter {
    const char *name;
    /*
     * Replaces functions in *table by the filter's own, which call the previous functions (the
     * library's or another filter's) through *next. *next stays valid. A function that the provider
     * lacks stays NULL.
     */
    void (*wrap)(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *next);
};
#define WRK_FILTERS_MAX 8u

/*
 * Stacks n filters (at most WRK_FILTERS_MAX) on the library: the first is next to the library, the
 * last next to the handlers. To be called after wrk_provider_open(); a second call stacks on top of
 * the first.
 */
void wrk_filters_apply(struct wrk_worker *w, const struct wrk_filter *filters, unsigned n);

/* Whether a thread may be created, with which there are n; asked by pthread_create(). NULL: always. wrk_client_limits.c
 * sets it before main(). */
extern bool (*wrk_thread_allowed)(unsigned n);
int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

#endif
