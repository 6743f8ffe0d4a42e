/* SPDX-License-Identifier: MIT */
/* Loads with JIT options. The logs are buffers of the worker, read in pieces and dropped by the
 * guest. A library may be compiled long after loading, so its buffers stay. */
#include "load.h"

#include <stdlib.h>
#include <string.h>

#define LOGS_MAX 64u              /* sets of logs of a client not yet dropped */
#define LOG_BYTES_MAX (32u << 20) /* total bytes of buffers, including those of libraries */

struct logs {
    VGB_OWNED struct logs *next;
    uint32_t id;
    bool busy, library; /* written by a load in progress */
    bool stays;         /* may be written by the provider later */
    char *text[2];      /* info, error; NULL: not wanted */
    uint32_t size[2];
};

static struct logs *all_logs;
static uint64_t log_bytes;
static unsigned nlogs; /* sets of logs readable by the guest */

static struct logs *logs_find(uint32_t id)
{
    struct logs *l = all_logs;

    while (l && l->id != id)
        l = l->next;
    return l;
}

static void logs_free(struct logs *l)
{
    for (unsigned i = 0; i < 2; i++) {
        if (l->text[i])
            log_bytes -= l->size[i] + 1u;
        free(l->text[i]);
    }
    free(l);
}

/* Buffers for one load, added to its options. */
static CUresult logs_new(struct wrk_call *c, uint32_t id, uint32_t info, uint32_t error, struct wrk_jit *jit,
                         struct logs **out)
{
    const uint32_t want[2] = {info, error};
    struct logs *l;

    *out = NULL;
    if (info > VGP_JIT_LOG_MAX || error > VGP_JIT_LOG_MAX)
        return wrk_malformed(c, "a log of more than %u bytes", VGP_JIT_LOG_MAX);
    if (!info && !error)
        return CUDA_SUCCESS;
    if (!id || logs_find(id))
        return wrk_malformed(c, "log id %u is zero or in use", id);
    if (nlogs == LOGS_MAX || log_bytes + info + error + 2 > LOG_BYTES_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l = calloc(1, sizeof(*l));
    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < 2; i++) {
        if (!want[i])
            continue;
        l->text[i] = calloc(1, want[i] + 1u);
        if (!l->text[i]) {
            logs_free(l);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        l->size[i] = want[i];
        log_bytes += want[i] + 1u;
        wrk_jit_log(jit, i == 1, l->text[i], want[i]);
    }
    l->id = id;
    l->next = all_logs;
    all_logs = l;
    nlogs++;
    *out = l;
    return CUDA_SUCCESS;
}

/* The load is over. */
static void logs_done(void *arg, CUresult r)
{
    struct logs *l = arg, **pp = &all_logs;

    l->busy = false;
    l->stays = l->library && r == CUDA_SUCCESS;
    if (l->id || l->stays)
        return;
    while (*pp != l) /* dropped meanwhile */
        pp = &(*pp)->next;
    *pp = l->next;
    logs_free(l);
}

CUresult wrk_load_jit(struct wrk_call *c, struct wrk_load *load, const uint32_t *ids, uint32_t n,
                      const uint64_t *values, uint32_t nvalues, uint32_t log, uint32_t info, uint32_t error)
{
    struct logs *l = NULL;
    CUresult r = wrk_jit_options(c, &load->jit, ids, n, values, nvalues);

    if (r == CUDA_SUCCESS)
        r = logs_new(c, log, info, error, &load->jit, &l);
    if (r != CUDA_SUCCESS) {
        wrk_load_drop(c, load);
        return r;
    }
    if (l) {
        l->busy = true;
        l->library = load->type == VGP_H_LIBRARY;
        load->done = logs_done;
        load->arg = l;
    }
    return wrk_load_start(c, load);
}

void wrk_jit_log_drop(uint32_t id)
{
    for (struct logs **pp = &all_logs, *l; (l = *pp); pp = &l->next) {
        if (!id || l->id != id)
            continue;
        nlogs--;
        if (l->stays || l->busy) {
            l->id = 0; /* no longer readable */
        } else {
            *pp = l->next;
            logs_free(l);
        }
        break;
    }
}

CUresult wrk_jit_log_text(uint32_t id, uint32_t which, const char **text, uint32_t *total)
{
    const struct logs *l = id ? logs_find(id) : NULL;

    if (!l || l->busy || which > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *text = l->text[which];
    *total = *text ? (uint32_t)strnlen(*text, l->size[which]) : 0;
    return CUDA_SUCCESS;
}
