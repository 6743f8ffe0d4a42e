/* SPDX-License-Identifier: MIT */
/* Loading of modules and libraries on a waiter thread (wrk_call_load.c). */
#ifndef WRK_LOAD_H
#define WRK_LOAD_H

#include "../calls.h"

struct wrk_load {
    uint64_t handle;
    uint64_t owner; /* handle of the context of the call; of a green context: of the one below it */
    CUcontext ctx;  /* that context */
    unsigned type;  /* VGP_H_MODULE or VGP_H_LIBRARY */
    const void *image;
    void *copy;           /* private copy holding the image */
    struct wrk_blob blob; /* the blob holding it, if sent ahead */
    struct wrk_jit jit;
    bool logs;    /* the reply has two logs, ... */
    char *text;   /* ... in this buffer; NULL: both empty */
    void *object; /* the loaded object */
    /*
     * For logs of the caller: runs on the dispatcher at the end of the load, also after an error.
     */
    void (*done)(void *arg, CUresult r);
    void *arg;
};

/* Sets up logs that are part of the reply. */
CUresult wrk_load_logs(struct wrk_load *l);
/* Frees a load that was not started. */
void wrk_load_drop(struct wrk_call *c, struct wrk_load *l);
/* Starts the load and takes it over; the call is deferred. */
CUresult wrk_load_start(struct wrk_call *c, struct wrk_load *l);

#endif
