/* SPDX-License-Identifier: MIT */
/*
 * Handlers of cuIpc*: memory and events of another process of the same VM.
 *
 * What the guest gets as a handle is a token of the broker's. The software GPU puts it into its own
 * handles by itself. The handle of another provider (NVIDIA's) names things of the whole host, so it
 * never reaches the guest: the broker keeps it, and gives it to workers of this VM alone.
 */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_worker.h"

/* What the guest holds when the provider's handle stays with the broker. */
struct handle {
    char magic[8];
    uint8_t token[VGB_TOKEN];
    uint8_t zero[24];
};
_Static_assert(sizeof(struct handle) == VGB_PAYLOAD, "as cuda.h says");
static const char magic_memory[8] = "vgpuIPCm", magic_event[8] = "vgpuIPCe";

/* Something of this client behind a token, while the provider's handle is with the broker. */
struct item {
    struct item *next;
    enum { GIVEN_MEMORY, OPENED_MEMORY, GIVEN_EVENT, OPENED_EVENT } what;
    uint64_t key;   /* address, or the provider's event */
    unsigned count; /* opened so many times */
    CUcontext ctx;
    uint8_t token[VGB_TOKEN];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf: frees end on waiter threads */
static struct item *items;
static struct vgb_worker *self;
static struct vgp_provider raw;

/* The provider's own handles are tokens. */
static bool provider_shares(void)
{
    return vgb_cu.set_share != NULL;
}

static struct item *find_locked(int what, uint64_t key)
{
    struct item *i = items;

    while (i && ((int)i->what != what || i->key != key))
        i = i->next;
    return i;
}

static bool add_item(struct vgb_call *c, int what, uint64_t key, const uint8_t *token)
{
    struct item *i = calloc(1, sizeof(*i));

    if (!i)
        return false;
    i->what = (unsigned)what;
    i->key = key;
    i->count = 1;
    i->ctx = vgb_base_context(c->w->current);
    memcpy(i->token, token, VGB_TOKEN);
    pthread_mutex_lock(&lock);
    i->next = items;
    items = i;
    pthread_mutex_unlock(&lock);
    return true;
}

/* Takes one count of an item; the last one ends it and drops the token. */
static void end_item(int what, uint64_t key)
{
    struct item *gone = NULL;

    pthread_mutex_lock(&lock);
    for (struct item **at = &items; *at; at = &(*at)->next) {
        if ((int)(*at)->what == what && (*at)->key == key) {
            if (--(*at)->count == 0) {
                gone = *at;
                *at = gone->next;
            }
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (gone)
        vgb_share_drop(self, gone->token);
    free(gone);
}

void vgb_ipc_context_gone(struct vgb_worker *w, CUcontext ctx)
{
    struct item *list = NULL;

    pthread_mutex_lock(&lock);
    for (struct item **at = &items; *at;) {
        struct item *i = *at;

        if (i->ctx != ctx) {
            at = &i->next;
            continue;
        }
        *at = i->next;
        i->next = list;
        list = i;
    }
    pthread_mutex_unlock(&lock);
    while (list) {
        struct item *i = list;

        list = i->next;
        vgb_share_drop(w, i->token);
        free(i);
    }
}

/* A handle for the guest that stands for the provider's. */
static CUresult give(struct vgb_call *c, int what, const char *magic, uint64_t key,
                     const void *payload, uint64_t bytes, void *out)
{
    struct handle h;
    CUresult r = CUDA_SUCCESS;

    memset(&h, 0, sizeof(h));
    memcpy(h.magic, magic, sizeof(h.magic));
    pthread_mutex_lock(&lock);
    struct item *i = find_locked(what, key);

    if (i)
        memcpy(h.token, i->token, VGB_TOKEN);
    pthread_mutex_unlock(&lock);
    if (!i) {
        r = vgb_share_put(c->w, payload, bytes, h.token);
        if (r == CUDA_SUCCESS && !add_item(c, what, key, h.token)) {
            vgb_share_drop(c->w, h.token);
            r = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (r == CUDA_SUCCESS)
        memcpy(out, &h, sizeof(h));
    return r;
}

/* The provider's handle behind one of the guest's; its token is to be dropped some day. */
static CUresult take(struct vgb_call *c, const char *magic, const void *handle, struct handle *h,
                     void *payload)
{
    static const uint8_t zero[sizeof(h->zero)];

    memcpy(h, handle, sizeof(*h));
    if (memcmp(h->magic, magic, sizeof(h->magic)) || memcmp(h->zero, zero, sizeof(zero)))
        return CUDA_ERROR_INVALID_HANDLE;
    return vgb_share_get(c->w, h->token, payload);
}

/* ---- memory ---- */

CUresult vgb_do_cuIpcGetMemHandle(struct vgb_call *c, const struct vgp_args_cuIpcGetMemHandle *a,
                                  struct vgp_ret_cuIpcGetMemHandle *r,
                                  struct vgp_outs_cuIpcGetMemHandle *o)
{
    CUipcMemHandle h;
    CUdeviceptr base = a->dptr;
    size_t size = 0;

    if (!vgb_provider.cuIpcGetMemHandle || !vgb_provider.cuMemGetAddressRange_v2)
        return vgb_missing(c, "cuIpcGetMemHandle");
    CUresult e = vgb_provider.cuIpcGetMemHandle(&h, a->dptr);

    if (e == CUDA_SUCCESS && provider_shares())
        memcpy(o->pHandle, &h, sizeof(o->pHandle));
    else if (e == CUDA_SUCCESS)
        e = vgb_provider.cuMemGetAddressRange_v2(&base, &size, a->dptr);
    if (e == CUDA_SUCCESS && !provider_shares())
        e = give(c, GIVEN_MEMORY, magic_memory, base, &h, size, o->pHandle);
    if (e == CUDA_SUCCESS)
        r->pHandle_len = sizeof(o->pHandle);
    return e;
}

/* Opens a handle of the guest's whose real one the broker keeps. */
static CUresult open_kept(struct vgb_call *c, const void *handle, uint32_t flags, CUdeviceptr *p)
{
    CUipcMemHandle real;
    struct handle h;
    CUresult e = take(c, magic_memory, handle, &h, &real);

    if (e != CUDA_SUCCESS)
        return e;
    e = vgb_provider.cuIpcOpenMemHandle_v2(p, real, flags);
    if (e == CUDA_SUCCESS) {
        pthread_mutex_lock(&lock);
        struct item *i = find_locked(OPENED_MEMORY, *p);

        if (i)
            i->count++;
        pthread_mutex_unlock(&lock);
        if (!i && add_item(c, OPENED_MEMORY, *p, h.token))
            return CUDA_SUCCESS; /* the token stays held */
        if (!i) {
            vgb_provider.cuIpcCloseMemHandle(*p);
            e = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    vgb_share_drop(c->w, h.token);
    return e;
}

CUresult vgb_do_vgpIpcOpenMem(struct vgb_call *c, const struct vgp_args_vgpIpcOpenMem *a,
                              const void *handle, struct vgp_ret_vgpIpcOpenMem *r)
{
    CUdeviceptr p = 0, base;
    CUipcMemHandle h;
    size_t size = 0;
    CUresult e;

    if (a->handle_len != sizeof(h))
        return vgb_malformed(c, "an interprocess handle has %u bytes", a->handle_len);
    if (!vgb_provider.cuIpcOpenMemHandle_v2 || !vgb_provider.cuIpcCloseMemHandle)
        return vgb_missing(c, "cuIpcOpenMemHandle");
    if (provider_shares()) {
        memcpy(&h, handle, sizeof(h));
        e = vgb_provider.cuIpcOpenMemHandle_v2(&p, h, a->flags);
    } else {
        e = open_kept(c, handle, a->flags, &p);
    }
    if (e == CUDA_SUCCESS && vgb_provider.cuMemGetAddressRange_v2)
        vgb_provider.cuMemGetAddressRange_v2(&base, &size, p);
    r->dptr = p;
    r->size = size;
    return e;
}

static CUresult finish_close(struct vgb_worker *w, struct vgb_wait *wait, CUresult r)
{
    CUresult f;

    (void)w;
    end_item(OPENED_MEMORY, wait->arg[0]); /* first: then the address may be another's */
    f = vgb_provider.cuIpcCloseMemHandle((CUdeviceptr)wait->arg[0]);
    return !wait->blocking && r != CUDA_SUCCESS ? r : f;
}

CUresult vgb_do_cuIpcCloseMemHandle(struct vgb_call *c,
                                    const struct vgp_args_cuIpcCloseMemHandle *a)
{
    struct vgb_wait *wait;

    if (!vgb_provider.cuIpcCloseMemHandle)
        return vgb_missing(c, "cuIpcCloseMemHandle");
    wait = vgb_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* It waits for what may still use the memory: do that first, without blocking. */
    wait->finish = finish_close;
    wait->arg[0] = a->dptr;
    CUresult r = vgb_wait_add_context(c, wait);

    if (r != CUDA_SUCCESS && vgb_is_sticky(r))
        return vgb_wait_fail(c, wait, r);
    return vgb_wait_start(c, wait);
}

/* ---- events ---- */

CUresult vgb_do_vgpIpcGetEvent(struct vgb_call *c, const struct vgp_args_vgpIpcGetEvent *a,
                               struct vgp_ret_vgpIpcGetEvent *r, struct vgp_outs_vgpIpcGetEvent *o)
{
    CUipcEventHandle h;
    CUevent event;
    CUresult e = vgb_handle_get(c, a->event, VGP_H_EVENT, false, (void **)&event);

    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuIpcGetEventHandle)
        return vgb_missing(c, "cuIpcGetEventHandle");
    e = vgb_provider.cuIpcGetEventHandle(&h, event);
    if (e == CUDA_SUCCESS && provider_shares())
        memcpy(o->handle, &h, sizeof(o->handle));
    else if (e == CUDA_SUCCESS)
        e = give(c, GIVEN_EVENT, magic_event, (uintptr_t)event, &h, 0, o->handle);
    if (e == CUDA_SUCCESS)
        r->handle_len = sizeof(o->handle);
    return e;
}

CUresult vgb_do_vgpIpcOpenEvent(struct vgb_call *c, const struct vgp_args_vgpIpcOpenEvent *a,
                                const void *handle)
{
    CUipcEventHandle real;
    CUevent event = NULL;
    struct handle h;
    CUresult e = vgb_handle_reserve(c, a->event, VGP_H_EVENT);

    if (e != CUDA_SUCCESS)
        return e;
    if (a->handle_len != sizeof(real))
        return vgb_malformed(c, "an interprocess handle has %u bytes", a->handle_len);
    if (!vgb_provider.cuIpcOpenEventHandle || !vgb_provider.cuEventDestroy_v2)
        return vgb_missing(c, "cuIpcOpenEventHandle");
    if (provider_shares())
        memcpy(&real, handle, sizeof(real));
    else
        e = take(c, magic_event, handle, &h, &real);
    if (e != CUDA_SUCCESS)
        return e;
    e = vgb_provider.cuIpcOpenEventHandle(&event, real);
    if (!provider_shares() &&
        (e != CUDA_SUCCESS || !add_item(c, OPENED_EVENT, (uintptr_t)event, h.token))) {
        if (e == CUDA_SUCCESS) {
            vgb_provider.cuEventDestroy_v2(event);
            e = CUDA_ERROR_OUT_OF_MEMORY;
        }
        vgb_share_drop(c->w, h.token);
    }
    if (e == CUDA_SUCCESS)
        vgb_handle_put(c, a->event, VGP_H_EVENT, event);
    return e;
}

/* ---- the ends of things ---- */

static CUresult i_free(CUdeviceptr p)
{
    end_item(GIVEN_MEMORY, p); /* first: then the address may be another's */
    return raw.cuMemFree_v2(p);
}

static CUresult i_event_destroy(CUevent e)
{
    CUresult r = raw.cuEventDestroy_v2(e);

    if (r == CUDA_SUCCESS) {
        end_item(GIVEN_EVENT, (uintptr_t)e);
        end_item(OPENED_EVENT, (uintptr_t)e);
    }
    return r;
}

void vgb_ipc_wrap(struct vgb_worker *w)
{
    self = w;
    raw = vgb_provider;
    if (provider_shares())
        return; /* it says itself when something ends */
    if (raw.cuMemFree_v2)
        vgb_provider.cuMemFree_v2 = i_free;
    if (raw.cuEventDestroy_v2)
        vgb_provider.cuEventDestroy_v2 = i_event_destroy;
}
