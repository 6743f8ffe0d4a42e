/* SPDX-License-Identifier: MIT */
/* Loading of modules and libraries on a waiter thread; load.c. */
#ifndef WRK_LOAD_H
#define WRK_LOAD_H

#include "../calls.h"

struct wrk_load {
    uint64_t handle, owner; /* of the guest; the context that was current */
    unsigned type;          /* VGP_H_MODULE or VGP_H_LIBRARY */
    const void *image;
    void *copy;           /* what the image lies in */
    struct wrk_blob blob; /* the same, where it was sent ahead */
    struct wrk_jit jit;
    bool logs;    /* the reply has two, ... */
    char *text;   /* ... these; NULL: empty ones */
    void *object; /* the result */
    /* Logs of the caller: runs on the dispatcher when the load is over, also after an error. */
    void (*done)(void *arg, CUresult r);
    void *arg;
};

/* Reserves the handle, checks the image and takes it over. */
CUresult wrk_load_new(struct wrk_call *c, uint64_t handle, unsigned type, const void *image, uint64_t size,
                      bool is_blob, struct wrk_load **out);
/* Logs that are part of the reply. */
CUresult wrk_load_logs(struct wrk_load *l);
/* Gives up a load that was not started. */
void wrk_load_drop(struct wrk_call *c, struct wrk_load *l);
/* Takes the load over; the call is deferred. */
CUresult wrk_load_start(struct wrk_call *c, struct wrk_load *l);

#endif
