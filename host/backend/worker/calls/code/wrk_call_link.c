/* SPDX-License-Identifier: MIT */
/*
 * Handlers of the linker. A provider's link state keeps pointers to its log buffers, so it has a
 * record here with the same lifetime. Inputs are data, never paths: the guest's files are not the
 * host's.
 */
#include "../calls.h"
#include "link_thread.h"

#include <stdlib.h>
#include <string.h>

#define LINKS_MAX 256u /* of a client; each may hold two logs */

struct linking;
struct link {
    CUlinkState state;
    VGB_OWNED struct wrk_link_thread *thread; /* of all calls about `state`; NULL: whoever calls */
    CUcontext ctx;                            /* current there */
    char *log[2];                             /* info, error; NULL: not wanted */
    uint32_t log_size[2];
    uint64_t given; /* bytes of input */
    bool added;     /* something was: NVIDIA's driver is not asked to complete nothing */
    struct wrk_jit jit;
    const uint8_t *result; /* owned by the provider until the state ends */
    uint64_t result_size;
    /* Call in progress on a waiter; both under `lock`. If the context ends meanwhile, the waiter
     * ends the state directly after the call, while the context still exists. */
    bool busy, orphan;
    VGB_LISTED struct linking *landing; /* the call, until it has landed; dispatcher only */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned nlinks;

static void link_free(struct link *l)
{
    wrk_link_thread_end(l->thread);
    free(l->log[0]);
    free(l->log[1]);
    free(l);
    nlinks--;
}

/* A thread of its own has no context; the others have the right one. */
static CUresult link_enter(const struct link *l)
{
    return l->thread ? wrk_provider.cuCtxSetCurrent(l->ctx) : CUDA_SUCCESS;
}

struct job {
    VGB_LENT struct link *l;
    CUresult r;
};

static void link_create_job(void *arg)
{
    struct job *j = arg;
    struct link *l = j->l;

    j->r = link_enter(l);
    if (j->r == CUDA_SUCCESS)
        j->r = wrk_provider.cuLinkCreate_v2(l->jit.n, l->jit.options, l->jit.values, &l->state);
}

static void link_destroy_job(void *arg)
{
    struct job *j = arg;

    j->r = link_enter(j->l);
    if (j->r == CUDA_SUCCESS)
        j->r = wrk_provider.cuLinkDestroy(j->l->state);
    j->l->state = NULL;
}

static CUresult link_destroy(struct link *l)
{
    struct job j = {.l = l};

    wrk_link_thread_run(l->thread, link_destroy_job, &j);
    return j.r;
}

/* Plain numbers only: a pointer of the guest must never reach the provider. */
static bool plain_option(uint32_t id)
{
    switch (id) {
    case CU_JIT_MAX_REGISTERS:
    case CU_JIT_THREADS_PER_BLOCK:
    case CU_JIT_OPTIMIZATION_LEVEL:
    case CU_JIT_TARGET_FROM_CUCONTEXT:
    case CU_JIT_TARGET:
    case CU_JIT_FALLBACK_STRATEGY:
    case CU_JIT_GENERATE_DEBUG_INFO:
    case CU_JIT_LOG_VERBOSE:
    case CU_JIT_GENERATE_LINE_INFO:
    case CU_JIT_CACHE_MODE:
    case CU_JIT_FAST_COMPILE:
    case CU_JIT_LTO:
    case CU_JIT_FTZ:
    case CU_JIT_PREC_DIV:
    case CU_JIT_PREC_SQRT:
    case CU_JIT_FMA:
    case CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES:
    case CU_JIT_POSITION_INDEPENDENT_CODE:
    case CU_JIT_MIN_CTA_PER_SM:
    case CU_JIT_MAX_THREADS_PER_BLOCK:
    case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
    case CU_JIT_SPLIT_COMPILE:
        return true;
    default:
        return false;
    }
}

CUresult wrk_jit_options(struct wrk_call *c, struct wrk_jit *j, const uint32_t *ids, uint32_t n,
                         const uint64_t *values, uint32_t nvalues)
{
    j->n = 0;
    if (n != nvalues || n > WRK_JIT_OPTIONS)
        return wrk_malformed(c, "JIT options without their values");
    for (uint32_t i = 0; i < n; i++) {
        if (!plain_option(ids[i])) {
            wrk_notify_detail(c->w, "a JIT option that is not a plain number");
            return CUDA_ERROR_INVALID_VALUE;
        }
        j->options[j->n] = (CUjit_option)ids[i];
        j->values[j->n++] = (void *)(uintptr_t)values[i];
    }
    return CUDA_SUCCESS;
}

void wrk_jit_log(struct wrk_jit *j, bool error, char *buffer, uint32_t size)
{
    j->options[j->n] = error ? CU_JIT_ERROR_LOG_BUFFER : CU_JIT_INFO_LOG_BUFFER;
    j->values[j->n++] = buffer;
    j->options[j->n] = error ? CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES : CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES;
    j->values[j->n++] = (void *)(uintptr_t)size;
}

CUresult wrk_do_vgpLinkCreate(struct wrk_call *c, const struct vgp_args_vgpLinkCreate *a,
                              const uint32_t *optionIds, const uint64_t *optionValues)
{
    const uint32_t want[2] = {a->infoMax, a->errorMax};
    struct link *l;
    CUresult r = wrk_handle_reserve(c, a->state, VGP_H_LINK);

    if (r != CUDA_SUCCESS)
        return r;
    if (want[0] > VGP_JIT_LOG_MAX || want[1] > VGP_JIT_LOG_MAX)
        return wrk_malformed(c, "a log of more than %u bytes", VGP_JIT_LOG_MAX);
    if (!wrk_provider.cuLinkCreate_v2 || !wrk_provider.cuLinkDestroy)
        return wrk_missing(c, "cuLinkCreate");
    if (nlinks == LINKS_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l = calloc(1, sizeof(*l));
    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    nlinks++;
    r = wrk_jit_options(c, &l->jit, optionIds, a->optionIds_len, optionValues, a->optionValues_len);
    for (unsigned i = 0; i < 2 && r == CUDA_SUCCESS; i++) {
        l->log_size[i] = want[i];
        if (!want[i])
            continue;
        l->log[i] = calloc(1, want[i] + 1u);
        if (!l->log[i])
            r = CUDA_ERROR_OUT_OF_MEMORY;
        else
            wrk_jit_log(&l->jit, i == 1, l->log[i], want[i]);
    }
    l->ctx = wrk_base_context(c->w->current); /* the owner of the handle; a green context may end before */
    if (r == CUDA_SUCCESS && !wrk_capabilities.software_policy && !(l->thread = wrk_link_thread_start()))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        struct job j = {.l = l};

        wrk_link_thread_run(l->thread, link_create_job, &j);
        r = j.r;
    }
    if (r == CUDA_SUCCESS)
        wrk_handle_put(c, a->state, VGP_H_LINK, l);
    else
        link_free(l);
    return r;
}

/* Looks up a link not in use by another thread of the client. */
static CUresult link_get(struct wrk_call *c, uint64_t handle, struct link **out)
{
    CUresult r = wrk_handle_get(c, handle, VGP_H_LINK, false, (void **)out);

    return r == CUDA_SUCCESS && (*out)->landing ? CUDA_ERROR_INVALID_HANDLE : r;
}

/* State of a call in progress; belongs to the dispatcher again when it lands. */
struct linking {
    VGB_LISTED struct link *l;
    struct wrk_jit jit;
    const void *data;
    void *copy;
    struct wrk_blob blob;
    uint64_t size;
    char *name;
    CUjitInputType type;
    bool complete, done; /* done: the provider has been called, and the link was not ended since */
    VGB_LENT struct wrk_worker *w;
    CUresult r;   /* what it answered, and for a complete link: */
    void *result; /* the provider's, as in struct link */
    size_t result_size;
};

static void linking_free(struct wrk_worker *w, struct linking *k)
{
    if (k->blob.used)
        wrk_blob_release(w, &k->blob);
    free(k->copy);
    free(k->name);
    free(k);
}

/* Adds or completes, on the link's thread. */
static void link_work(void *arg)
{
    struct linking *k = arg;
    struct link *l = k->l;

    k->r = link_enter(l);
    if (k->r != CUDA_SUCCESS)
        return;
    wrk_compile_begin(k->w);
    k->r = k->complete ? wrk_provider.cuLinkComplete(l->state, &k->result, &k->result_size)
                       : wrk_provider.cuLinkAddData_v2(l->state, k->type, (void *)(uintptr_t)k->data, k->size,
                                                       k->name, k->jit.n, k->jit.options, k->jit.values);
    wrk_compile_end();
}

static CUresult finish_link(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    struct linking *k = (struct linking *)(uintptr_t)wait->arg[0];
    struct link *l = k->l;

    k->w = w;
    if (r == CUDA_SUCCESS) {
        wrk_link_thread_run(l->thread, link_work, k);
        r = k->r;
    }
    pthread_mutex_lock(&lock);
    k->done = true;
    if (l->orphan) {
        link_destroy(l);
        k->done = false;
    } else if (r == CUDA_SUCCESS && k->complete) {
        l->result = k->result;
        l->result_size = k->result_size;
    }
    l->busy = false;
    pthread_mutex_unlock(&lock);
    return r;
}

static CUresult land_link(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    struct linking *k = (struct linking *)(uintptr_t)wait->arg[0];
    struct vgp_ret_vgpLinkComplete *ret = wrk_bounce_result(w, wait->slot);

    if (k->l)
        k->l->landing = NULL;
    if (!k->l || !k->done) { /* its context has ended: before it landed, or during the call */
        if (k->l)
            link_free(k->l);
        r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    } else if (r == CUDA_SUCCESS && k->complete && ret) {
        ret->size = k->l->result_size;
        wait->buffer = ret;
        wait->payload = sizeof(*ret);
    }
    linking_free(w, k);
    return r;
}

static CUresult start_link(struct wrk_call *c, struct linking *k)
{
    struct wrk_wait *wait = wrk_wait_long(c, finish_link, land_link);

    if (!wait) {
        linking_free(c->w, k);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    k->l->busy = true;
    k->l->landing = k;
    k->l->result = NULL; /* the provider may move or free it */
    wait->arg[0] = (uintptr_t)k;
    return wrk_wait_start(c, wait);
}

CUresult wrk_do_vgpLinkAdd(struct wrk_call *c, const struct vgp_args_vgpLinkAdd *a, const void *data,
                           const char *name, const uint32_t *optionIds, const uint64_t *optionValues)
{
    const char *why;
    struct linking *k;
    struct link *l;
    CUresult r = link_get(c, a->state, &l);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuLinkAddData_v2)
        return wrk_missing(c, "cuLinkAddData");
    k = calloc(1, sizeof(*k));
    if (!k)
        return CUDA_ERROR_OUT_OF_MEMORY;
    k->l = l;
    k->type = (CUjitInputType)a->inputType;
    k->data = data;
    k->size = a->data_size;
    r = wrk_jit_options(c, &k->jit, optionIds, a->optionIds_len, optionValues, a->optionValues_len);
    if (r == CUDA_SUCCESS && !(k->name = strdup(name)))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS)
        r = wrk_image_take(c, &k->data, &k->size, a->data_blob != 0, &k->copy);
    if (r == CUDA_SUCCESS && (why = wrk_image_refused(l->given + a->data_size)))
        r = wrk_refuse(c, CUDA_ERROR_OUT_OF_MEMORY, why);
    if (r != CUDA_SUCCESS) {
        linking_free(c->w, k);
        return r;
    }
    if (a->data_blob)
        wrk_blob_keep(c->w, &k->blob);
    l->given += a->data_size;
    l->added = true;
    return start_link(c, k);
}

CUresult wrk_do_vgpLinkComplete(struct wrk_call *c, const struct vgp_args_vgpLinkComplete *a,
                                struct vgp_ret_vgpLinkComplete *r)
{
    struct linking *k;
    struct link *l;
    CUresult e = link_get(c, a->state, &l);

    (void)r;
    if (e != CUDA_SUCCESS)
        return e;
    if (!wrk_provider.cuLinkComplete)
        return wrk_missing(c, "cuLinkComplete");
    if (!l->added)
        return wrk_refuse(c, CUDA_ERROR_INVALID_VALUE, "there is nothing to link");
    k = calloc(1, sizeof(*k));
    if (!k)
        return CUDA_ERROR_OUT_OF_MEMORY;
    k->l = l;
    k->complete = true;
    return start_link(c, k);
}

CUresult wrk_link_result(struct wrk_call *c, uint64_t state, const uint8_t **result, uint64_t *size)
{
    struct link *l;
    CUresult r = link_get(c, state, &l);

    if (r == CUDA_SUCCESS) {
        *result = l->result;
        *size = l->result_size;
    }
    return r;
}

CUresult wrk_link_log(struct wrk_call *c, uint64_t state, uint32_t which, const char **text, uint32_t *total)
{
    struct link *l;
    CUresult r = link_get(c, state, &l);

    if (r == CUDA_SUCCESS && which > 1)
        r = wrk_malformed(c, "a link has two logs");
    if (r != CUDA_SUCCESS)
        return r;
    *text = l->log[which];
    *total = *text ? (uint32_t)strnlen(*text, l->log_size[which]) : 0;
    return CUDA_SUCCESS;
}

CUresult wrk_do_cuLinkDestroy(struct wrk_call *c, const struct vgp_args_cuLinkDestroy *a)
{
    struct link *l;
    CUresult r = link_get(c, a->state, &l);

    if (r != CUDA_SUCCESS)
        return r;
    r = link_destroy(l);
    wrk_handle_drop(c, a->state, VGP_H_LINK);
    link_free(l);
    return r;
}

struct ending {
    VGB_LENT struct wrk_worker *w;
    uint64_t context;
};

static void end_one(struct wrk_handle_entry *e, uint64_t handle, void *arg)
{
    struct ending *k = arg;
    struct link *l = e->object;

    if (e->owner != k->context)
        return;
    wrk_handles_remove(&k->w->handles, handle, VGP_H_LINK);
    pthread_mutex_lock(&lock);
    bool busy = l->orphan = l->busy;
    pthread_mutex_unlock(&lock);
    if (busy)
        return;
    link_destroy(l); /* now, while its context is there */
    if (l->landing)
        l->landing->l = NULL;
    link_free(l);
}

void wrk_links_end(struct wrk_worker *w, uint64_t context)
{
    struct ending k = {.w = w, .context = context};

    wrk_handles_each(&w->handles, VGP_H_LINK, end_one, &k);
}
