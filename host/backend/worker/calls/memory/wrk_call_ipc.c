/* SPDX-License-Identifier: MIT */
/*
 * Handlers of cuIpc*: memory and events of another process of the same VM.
 *
 * The guest's handles are tokens of the broker. The software GPU puts the token into its own
 * handles. Another provider's handle (NVIDIA's) is valid on the whole host, so it never reaches the
 * guest: the broker stores it and passes it only to workers of this VM.
 */
#include "../calls.h"

#include "lib/driver/errors.h"

#include <stdlib.h>
#include <string.h>

/* What the guest holds when the provider's handle stays with the broker. */
struct handle {
    char magic[8];
    uint8_t token[VGB_TOKEN];
    uint8_t zero[24];
};
_Static_assert(sizeof(struct handle) == VGB_PAYLOAD, "as cuda.h says");
static const char magic_memory[] = "vgpuIPCm", magic_event[] = "vgpuIPCe"; /* 8 bytes of each */

/* Object of this client behind a token, while the broker stores the provider's handle. */
struct item {
    VGB_OWNED struct item *next;
    enum { GIVEN_MEMORY, OPENED_MEMORY, GIVEN_EVENT, OPENED_EVENT } what;
    uint64_t key;   /* address, or provider event */
    unsigned count; /* number of opens */
    CUcontext ctx;  /* context whose end ends the object */
    uint8_t token[VGB_TOKEN];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf: frees end on waiter threads */
static struct item *items;
static struct wrk_worker *self;
static const struct vgp_provider *lower; /* functions below this filter */

/* The provider's own handles are tokens. */
static bool provider_shares(void)
{
    return wrk_provider.sg_set_share != NULL;
}

/* Memory may be open in several contexts: that of `ctx` or, where there is none, any. Its place is NULL: none at all. */
static struct item **place_locked(int what, uint64_t key, CUcontext ctx)
{
    struct item **any = NULL, **at = &items;

    for (; *at; at = &(*at)->next) {
        if ((int)(*at)->what != what || (*at)->key != key)
            continue;
        if ((*at)->ctx == ctx)
            return at;
        any = any ? any : at;
    }
    return any ? any : at;
}

static struct item *find_locked(int what, uint64_t key, CUcontext ctx)
{
    return *place_locked(what, key, ctx);
}

/* `ctx`: context of the object, which need not be the current one. */
static bool add_item(CUcontext ctx, int what, uint64_t key, const uint8_t *token)
{
    struct item *i = calloc(1, sizeof(*i));

    if (!i)
        return false;
    i->what = (unsigned)what;
    i->key = key;
    i->count = 1;
    i->ctx = ctx;
    memcpy(i->token, token, VGB_TOKEN);
    pthread_mutex_lock(&lock);
    i->next = items;
    items = i;
    pthread_mutex_unlock(&lock);
    return true;
}

/* Drops a count of an item. Returns it with the last one: it is in the list no more. */
static struct item *take_item(int what, uint64_t key, CUcontext ctx)
{
    struct item **at, *gone = NULL;

    pthread_mutex_lock(&lock);
    at = place_locked(what, key, ctx);
    if (*at && --(*at)->count == 0) {
        gone = *at;
        *at = gone->next;
    }
    pthread_mutex_unlock(&lock);
    return gone;
}

static void drop_item(struct item *gone)
{
    if (gone)
        wrk_share_drop(self, gone->token);
    free(gone);
}

/* The last drop ends it and drops the token. */
static void end_item(int what, uint64_t key)
{
    drop_item(take_item(what, key, NULL));
}

/* Undoes take_item(), which gave `taken`. Its context has not ended meanwhile. */
static void put_item(struct item *taken, int what, uint64_t key, CUcontext ctx)
{
    struct item *i;

    pthread_mutex_lock(&lock);
    if (taken) {
        taken->count = 1;
        taken->next = items;
        items = taken;
    } else if ((i = find_locked(what, key, ctx))) {
        i->count++;
    }
    pthread_mutex_unlock(&lock);
}

void wrk_ipc_context_gone(struct wrk_worker *w, CUcontext ctx)
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
        wrk_share_drop(w, i->token);
        free(i);
    }
}

/* Creates a guest handle for a provider handle of an object of `ctx`. */
static CUresult make_handle(struct wrk_call *c, CUcontext ctx, int what, const char *magic, uint64_t key,
                            const void *payload, uint64_t bytes, void *out)
{
    struct handle h;
    CUresult r = CUDA_SUCCESS;

    memset(&h, 0, sizeof(h));
    memcpy(h.magic, magic, sizeof(h.magic));
    pthread_mutex_lock(&lock);
    struct item *i = find_locked(what, key, ctx);

    if (i)
        memcpy(h.token, i->token, VGB_TOKEN);
    pthread_mutex_unlock(&lock);
    if (!i) {
        r = wrk_share_put(c->w, payload, bytes, h.token);
        if (r == CUDA_SUCCESS && !add_item(ctx, what, key, h.token)) {
            wrk_share_drop(c->w, h.token);
            r = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (r == CUDA_SUCCESS)
        memcpy(out, &h, sizeof(h));
    return r;
}

/* Provider handle behind a guest handle; its token has to be dropped eventually. */
static CUresult ipc_take(struct wrk_call *c, const char *magic, const void *handle, struct handle *h,
                         void *payload, CUresult none)
{
    static const uint8_t zero[sizeof(h->zero)];

    memcpy(h, handle, sizeof(*h));
    if (memcmp(h->magic, magic, sizeof(h->magic)) || memcmp(h->zero, zero, sizeof(zero)))
        return none;
    return wrk_share_get(c->w, h->token, payload);
}

/* ---- memory ---- */

/*
 * Any context may be current when a handle of the memory is made. Memory that is being freed, or whose context is ending,
 * has no entry in the books any more, while the provider still has it. Another thread that frees it takes the entry first,
 * the item then: so the entry is looked at once the item is there.
 */
CUresult wrk_ipc_give_memory(struct wrk_call *c, CUdeviceptr p, CUipcMemHandle *handle)
{
    CUdeviceptr base = p;
    size_t size = 0;
    CUcontext ctx;
    CUresult r = wrk_provider.cuMemGetAddressRange_v2(&base, &size, p);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_quota_context(c->w, base, &ctx))
        return CUDA_ERROR_INVALID_VALUE;
    r = make_handle(c, ctx, GIVEN_MEMORY, magic_memory, base, handle, size, handle);
    if (r == CUDA_SUCCESS && !wrk_quota_context(c->w, base, &ctx)) {
        end_item(GIVEN_MEMORY, base);
        r = CUDA_ERROR_INVALID_VALUE;
    }
    return r;
}

CUresult wrk_ipc_open_kept(struct wrk_call *c, const CUipcMemHandle *handle, uint32_t flags, CUdeviceptr *p)
{
    const CUcontext ctx = wrk_base_context(c->w->current);
    CUipcMemHandle real;
    struct handle h;
    CUresult e = ipc_take(c, magic_memory, handle, &h, &real, CUDA_ERROR_INVALID_VALUE);

    if (e != CUDA_SUCCESS)
        return e;
    e = wrk_provider.cuIpcOpenMemHandle_v2(p, real, flags);
    if (e == CUDA_SUCCESS) {
        pthread_mutex_lock(&lock);
        struct item *i = find_locked(OPENED_MEMORY, *p, ctx);

        if (i && i->ctx != ctx)
            i = NULL; /* each ends with its own context */
        if (i)
            i->count++;
        pthread_mutex_unlock(&lock);
        if (!i && add_item(ctx, OPENED_MEMORY, *p, h.token))
            return CUDA_SUCCESS; /* the token stays held */
        if (!i) {
            wrk_provider.cuIpcCloseMemHandle(*p);
            e = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    wrk_share_drop(c->w, h.token);
    return e;
}

uint64_t wrk_allocation_size(CUdeviceptr p)
{
    CUdeviceptr base;
    size_t size = 0;

    if (!wrk_provider.cuMemGetAddressRange_v2 ||
        wrk_provider.cuMemGetAddressRange_v2(&base, &size, p) != CUDA_SUCCESS)
        return 0;
    return size;
}

static CUresult finish_close(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    const CUcontext of = (CUcontext)(uintptr_t)wait->arg[1];
    /* First: then the address may be another's. */
    struct item *i = of ? take_item(OPENED_MEMORY, wait->arg[0], of) : NULL;
    CUresult f = wrk_provider.cuIpcCloseMemHandle((CUdeviceptr)wait->arg[0]);

    (void)w;
    if (f == CUDA_SUCCESS)
        drop_item(i);
    else if (of)
        put_item(i, OPENED_MEMORY, wait->arg[0], of); /* the provider still has it open */
    return !wait->blocking && r != CUDA_SUCCESS ? r : f;
}

CUresult wrk_do_cuIpcCloseMemHandle(struct wrk_call *c, const struct vgp_args_cuIpcCloseMemHandle *a)
{
    struct wrk_wait *wait;
    const CUcontext own = wrk_base_context(c->w->current);
    const struct item *i;
    CUcontext of = NULL;

    if (!wrk_provider.cuIpcCloseMemHandle)
        return wrk_missing(c, "cuIpcCloseMemHandle");
    pthread_mutex_lock(&lock);
    i = find_locked(OPENED_MEMORY, a->dptr, own);
    if (i)
        of = i->ctx;
    pthread_mutex_unlock(&lock);
    if (of != own)
        wrk_call_uses(c, of); /* it ends with that context, which therefore waits */
    wait = wrk_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* It waits for work that may still use the memory: wait first, without blocking. */
    wait->finish = finish_close;
    wait->arg[0] = a->dptr;
    wait->arg[1] = (uintptr_t)of;
    CUresult r = wrk_wait_add_context(c, wait);
    wait->blocking |= c->other[0] != NULL;

    if (r != CUDA_SUCCESS && cua_error_is_sticky(r))
        return wrk_wait_fail(c, wait, r);
    return wrk_wait_start(c, wait);
}

/* ---- events ---- */

CUresult wrk_ipc_give_event(struct wrk_call *c, CUevent event, CUipcEventHandle *handle)
{
    /* wrk_handle_get() has noted the event's context, if that is another one */
    return make_handle(c, c->other[1] ? c->other[1] : wrk_base_context(c->w->current), GIVEN_EVENT,
                       magic_event, (uintptr_t)event, handle, 0, handle);
}

CUresult wrk_ipc_event_real(struct wrk_call *c, CUipcEventHandle *handle, uint8_t token[VGB_TOKEN])
{
    struct handle h;
    CUresult r = ipc_take(c, magic_event, handle, &h, handle, CUDA_ERROR_INVALID_HANDLE);

    if (r == CUDA_SUCCESS)
        memcpy(token, h.token, VGB_TOKEN);
    return r;
}

CUresult wrk_ipc_event_opened(struct wrk_call *c, const uint8_t token[VGB_TOKEN], const CUevent *event,
                              CUresult r)
{
    if (provider_shares())
        return r;
    if (r == CUDA_SUCCESS &&
        !add_item(wrk_base_context(c->w->current), OPENED_EVENT, (uintptr_t)*event, token)) {
        wrk_provider.cuEventDestroy_v2(*event);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r != CUDA_SUCCESS)
        wrk_share_drop(c->w, token);
    return r;
}

/* ---- the ends of things ---- */

static CUresult i_free(CUdeviceptr p)
{
    end_item(GIVEN_MEMORY, p); /* first: then the address may be another's */
    return lower->cuMemFree_v2(p);
}

static CUresult i_event_destroy(CUevent e)
{
    CUresult r = lower->cuEventDestroy_v2(e);

    if (r == CUDA_SUCCESS) {
        end_item(GIVEN_EVENT, (uintptr_t)e);
        end_item(OPENED_EVENT, (uintptr_t)e);
    }
    return r;
}

void wrk_ipc_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below)
{
    self = w;
    lower = below;
    if (provider_shares())
        return; /* it reports ends itself */
    if (lower->cuMemFree_v2)
        table->cuMemFree_v2 = i_free;
    if (lower->cuEventDestroy_v2)
        table->cuEventDestroy_v2 = i_event_destroy;
}
