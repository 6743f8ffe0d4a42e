/* SPDX-License-Identifier: MIT */
/*
 * External semaphores in the guest. The objects belong to this process (lib/extsem/extsem.h); the
 * worker requests, in stream order, signals and waits.
 */
#ifndef VCU_EXTSEM_H
#define VCU_EXTSEM_H

#include "stream.h"

#include "../../../lib/extsem/extsem.h"

/* The semaphore operations of one call or node; constant once created, except for the flag. */
struct vcu_semas {
    _Atomic unsigned refs;
    _Atomic bool given_up; /* its context has ended: no further signals or waits */
    bool wait;
    unsigned n;
    uint64_t context;
    uint64_t cookie;         /* of a call on a stream, until the worker requests it; under the list's lock */
    struct vgp_extsem **sem; /* each a reference */
    CUexternalSemaphore *handles; /* the following two: as given, for GetParams */
    union {
        CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *signal;
        CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *wait;
        void *any;
    } params;
    struct vcu_semas *next, **pprev; /* all there are */
};

/* Ends a context's outstanding operations. */
extern const struct vcu_unit_ops vcu_semas_unit;
/* Checks and copies; *out has one reference. call: for the trace. */
CUresult vcu_semas_new(const char *call, bool wait, const CUexternalSemaphore *handles, const void *params,
                       unsigned n, struct vcu_semas **out);
void vcu_semas_put(struct vcu_semas *s);
/* CUDA_SUCCESS, or NOT_SUPPORTED with a trace line when the worker is too old. */
CUresult vcu_semas_served(const char *call);
/* Registers them as vcu_hostfunc_keep_service() does. */
uint64_t vcu_semas_keep(struct vcu_semas *s, bool once, CUresult *why);
/* The registered semaphores, with a reference; NULL: unknown cookie. */
struct vcu_semas *vcu_semas_of(uint64_t cookie);

#endif
