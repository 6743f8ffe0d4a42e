/* SPDX-License-Identifier: MIT */
/*
 * Handlers of virtual memory management. Physical memory is charged to the quota from cuMemCreate
 * until it is unreachable, without handles and mappings. The worker therefore counts both; its list
 * of mappings is also used to retain a handle by address.
 */
#include "vmm.h"

#include <stdlib.h>
#include <string.h>

#include "lib/btree/btree.h"
#include "vgb_fd.h"

/* Bounds the worker's memory and time; far above the kernel's limit of mappings per process
 * (65530). */
#define MAPPINGS_MAX (1u << 18)

struct mapping {
    uint64_t base, size;
    VGB_COUNTED struct wrk_phys *phys;
};

/*
 * Unmapping ends on a waiter thread, so the counts have a lock; only the quota's lock nests inside.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct btr_tree
    mappings; /* struct wrk_phys, counted, by first address, weighted by length; disjoint */

/* Removes the first binding of a non-empty list; returns its memory. */
static struct wrk_phys *bindings_take(struct wrk_binding **list)
{
    struct wrk_binding *b = *list;
    struct wrk_phys *p = b->phys;

    *list = b->next;
    free(b);
    return p;
}

/* Releases the memory's charge after its last reference. */
static void phys_settle_locked(struct wrk_worker *w, struct wrk_phys *p)
{
    if (p->handles || p->mappings)
        return;
    while (p->bindings) {
        struct wrk_phys *memory = bindings_take(&p->bindings);

        memory->mappings--;
        /* has no bindings of its own: recursion of one level at most */
        phys_settle_locked(w, memory);
    }
    wrk_quota_give(w, p->bytes);
    if (p->imported)
        wrk_share_drop(w, p->token);
    free(p);
}

void wrk_phys_hold(struct wrk_worker *w, struct wrk_phys *p)
{
    (void)w;
    pthread_mutex_lock(&lock);
    if (p)
        p->mappings++;
    pthread_mutex_unlock(&lock);
}

void wrk_phys_let_go(struct wrk_worker *w, struct wrk_phys *p)
{
    pthread_mutex_lock(&lock);
    if (p) {
        p->mappings--;
        phys_settle_locked(w, p);
    }
    pthread_mutex_unlock(&lock);
}

/* Makes room for another mapping, before the provider maps. */
static bool reserve_locked(void)
{
    return mappings.count < MAPPINGS_MAX && btr_reserve(&mappings);
}

static void insert_locked(const struct mapping *m)
{
    btr_insert(&mappings, m->base, m->size, m->phys);
}

/* Memory mapped at addr; NULL: none. */
static struct wrk_phys *phys_at_locked(uint64_t addr)
{
    struct btr_item item;

    return btr_floor(&mappings, addr, &item) && addr - item.key < item.weight ? item.value : NULL;
}

/* Range being unmapped by the provider; on the stack of the calling thread. */
struct unmapping {
    VGB_LISTED struct unmapping *next;
    uint64_t base, size;
};
static struct unmapping *under_way; /* disjoint ranges */

/* Is another thread unmapping a part of [base, base + size)? */
static bool unmapping_locked(uint64_t base, uint64_t size)
{
    for (const struct unmapping *x = under_way; x; x = x->next) {
        if (x->base - base < size || base - x->base < x->size)
            return true;
    }
    return false;
}

bool wrk_phys_hold_at(uint64_t addr, uint64_t size, struct wrk_phys **out)
{
    struct btr_item item;
    bool ok;

    *out = NULL;
    pthread_mutex_lock(&lock);
    ok = !unmapping_locked(addr, size);
    if (ok && btr_floor(&mappings, addr, &item) && addr - item.key < item.weight) {
        struct wrk_phys *p = item.value;

        /* what lies behind it would not be held; and what is bound to a multicast object has no bindings of its own */
        ok = vgp_range_ok(addr - item.key, size, item.weight) && !p->team;
        if (ok) {
            p->mappings++;
            *out = p;
        }
    } else if (ok && btr_ceiling(&mappings, addr, &item) && item.key - addr < size) {
        ok = false;
    }
    pthread_mutex_unlock(&lock);
    return ok;
}

/* ---- physical memory ---- */

struct wrk_allocation *wrk_allocation_new(void)
{
    struct wrk_allocation *al = calloc(1, sizeof(*al));

    if (al && !(al->phys = calloc(1, sizeof(*al->phys)))) {
        free(al);
        return NULL;
    }
    if (al)
        al->phys->handles = 1;
    return al;
}

void wrk_allocation_free(struct wrk_allocation *al)
{
    if (al)
        free(al->phys);
    free(al);
}

CUresult wrk_memory_prop_check(struct wrk_call *c, uint32_t handle_types, uint32_t location)
{
    if (handle_types & ~wrk_share_handle_types()) {
        wrk_notify_detail(c->w, wrk_share_handle_types()
                                    ? "memory can be exported by descriptor only"
                                    : "memory that can be exported is not served with this GPU");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (location == CU_MEM_LOCATION_TYPE_HOST || location == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
        location == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT) {
        wrk_notify_detail(c->w, "physical memory of the host is not served");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return location == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult wrk_do_vgpMemCreate(struct wrk_call *c, const struct vgp_args_vgpMemCreate *a)
{
    CUmemAllocationProp prop;
    struct wrk_allocation *al;
    CUresult r = wrk_handle_reserve(c, a->handle, VGP_H_ALLOCATION);

    if (r == CUDA_SUCCESS)
        r = wrk_memory_prop_check(c, a->handleTypes, a->locationType);
    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuMemCreate || !wrk_provider.cuMemRelease)
        return wrk_missing(c, "cuMemCreate");
    memset(&prop, 0, sizeof(prop));
    prop.type = (CUmemAllocationType)a->allocType;
    prop.location.type = (CUmemLocationType)a->locationType;
    prop.location.id = a->locationId;
    prop.allocFlags.compressionType = a->compression;
    prop.allocFlags.gpuDirectRDMACapable = a->rdma;
    prop.allocFlags.usage = a->usage;
    prop.requestedHandleTypes = (CUmemAllocationHandleType)a->handleTypes;
    wrk_share_forget();
    al = wrk_allocation_new();
    r = al && wrk_quota_take(c->w, a->size) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        r = wrk_provider.cuMemCreate(&al->handle, a->size, &prop, a->flags);
        if (r != CUDA_SUCCESS)
            wrk_quota_give(c->w, a->size);
    }
    if (r != CUDA_SUCCESS) {
        wrk_allocation_free(al);
        return r;
    }
    al->phys->bytes = a->size;
    al->phys->device = a->locationId;
    al->phys->shareable = a->handleTypes && wrk_share_latest(al->phys->token);
    wrk_handle_put(c, a->handle, VGP_H_ALLOCATION, al);
    return CUDA_SUCCESS;
}

CUresult wrk_allocation_get(struct wrk_call *c, uint64_t handle, struct wrk_allocation **out)
{
    CUresult r = wrk_handle_get(c, handle, VGP_H_ALLOCATION, false, (void **)out);

    return r == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : r; /* CUDA's code here */
}

CUresult wrk_allocation_object(struct wrk_call *c, uint64_t handle, CUmemGenericAllocationHandle *object)
{
    struct wrk_allocation *al;
    CUresult r = wrk_allocation_get(c, handle, &al);

    if (r == CUDA_SUCCESS)
        *object = al->handle;
    return r;
}

CUresult wrk_do_vgpMemRelease(struct wrk_call *c, const struct vgp_args_vgpMemRelease *a)
{
    struct wrk_allocation *al;
    CUresult r = wrk_allocation_get(c, a->handle, &al);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuMemRelease)
        return wrk_missing(c, "cuMemRelease");
    r = wrk_provider.cuMemRelease(al->handle);
    if (r != CUDA_SUCCESS)
        return r;
    wrk_handle_drop(c, a->handle, VGP_H_ALLOCATION);
    pthread_mutex_lock(&lock);
    al->phys->handles--;
    phys_settle_locked(c->w, al->phys);
    pthread_mutex_unlock(&lock);
    free(al);
    return CUDA_SUCCESS;
}

CUresult wrk_do_vgpMemRetain(struct wrk_call *c, const struct vgp_args_vgpMemRetain *a)
{
    struct wrk_allocation *al;
    CUresult r = wrk_handle_reserve(c, a->handle, VGP_H_ALLOCATION);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuMemRetainAllocationHandle || !wrk_provider.cuMemRelease)
        return wrk_missing(c, "cuMemRetainAllocationHandle");
    al = malloc(sizeof(*al));
    if (!al)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    al->phys = phys_at_locked(a->addr);
    r = al->phys ? wrk_provider.cuMemRetainAllocationHandle(&al->handle, (void *)(uintptr_t)a->addr)
                 : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        al->phys->handles++;
    pthread_mutex_unlock(&lock);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(c, a->handle, VGP_H_ALLOCATION, al);
    else
        free(al);
    return r;
}

/* ---- exported and imported ---- */

const uint8_t *wrk_allocation_token(struct wrk_call *c, uint64_t handle)
{
    struct wrk_allocation *al;

    return wrk_allocation_get(c, handle, &al) == CUDA_SUCCESS && al->phys->shareable ? al->phys->token : NULL;
}

CUresult wrk_do_vgpMemImport(struct wrk_call *c, const struct vgp_args_vgpMemImport *a, const void *token)
{
    struct wrk_allocation *al;
    uint64_t length;
    CUresult r = wrk_handle_reserve(c, a->handle, VGP_H_ALLOCATION);

    if (r != CUDA_SUCCESS)
        return r;
    if (a->token_len != VGB_TOKEN)
        return wrk_malformed(c, "a token has %u bytes", a->token_len);
    if (!wrk_share_handle_types() || !wrk_provider.cuMemImportFromShareableHandle ||
        !wrk_provider.cuMemRelease)
        return wrk_missing(c, "cuMemImportFromShareableHandle");
    al = wrk_allocation_new();
    int fd = al ? wrk_share_open(c->w, token, &length) : -2;

    r = fd >= 0    ? wrk_provider.cuMemImportFromShareableHandle(&al->handle, (void *)(uintptr_t)fd,
                                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        : fd == -1 ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_ERROR_OUT_OF_MEMORY;
    if (fd == -1)
        wrk_notify_detail(c->w, "no process has the memory any more");
    if (fd >= 0 && r != CUDA_SUCCESS)
        wrk_share_drop(c->w, token);
    vgb_close(&fd);
    if (r != CUDA_SUCCESS) {
        wrk_allocation_free(al);
        return r;
    }
    al->phys->device = -1;
    al->phys->imported = true; /* and not shareable, as with the provider */
    memcpy(al->phys->token, token, VGB_TOKEN);
    wrk_handle_put(c, a->handle, VGP_H_ALLOCATION, al);
    return CUDA_SUCCESS;
}

uint32_t wrk_allocation_handle_types(struct wrk_call *c, uint64_t handle)
{
    struct wrk_allocation *al;

    return wrk_allocation_get(c, handle, &al) == CUDA_SUCCESS && al->phys->shareable
               ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
               : 0;
}

/* ---- mappings ---- */

CUresult wrk_do_vgpMemMap(struct wrk_call *c, const struct vgp_args_vgpMemMap *a)
{
    struct wrk_allocation *al;
    CUresult r = wrk_allocation_get(c, a->handle, &al);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuMemMap || !wrk_provider.cuMemUnmap)
        return wrk_missing(c, "cuMemMap");
    if (!wrk_team_complete(al->phys)) { /* cuMemMap would wait: libcuda does */
        wrk_notify_detail(c->w, "not all devices of the multicast object were added");
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    pthread_mutex_lock(&lock);
    /* The unmapping has taken its entries from the list. Memory mapped into a gap between them would be unmapped
     * with them, and its entry would stay: charged until the client ends. */
    r = unmapping_locked(a->ptr, a->size) ? CUDA_ERROR_INVALID_VALUE
        : reserve_locked() ? wrk_provider.cuMemMap(a->ptr, a->size, a->offset, al->handle, a->flags)
                           : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        insert_locked(&(struct mapping){a->ptr, a->size, al->phys});
        al->phys->mappings++;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

/* Removes the *n mappings inside [base, base + size) from the list. NULL: none, or no memory. Their
 * memory stays charged. */
static struct mapping *detach_locked(uint64_t base, uint64_t size, uint32_t *n)
{
    uint64_t from = base;
    struct btr_item item;
    struct mapping *out;

    for (*n = 0; btr_ceiling(&mappings, from, &item) && item.key - base < size &&
                 vgp_range_ok(item.key - base, item.weight, size);
         from = item.key + 1)
        ++*n;
    out = *n ? malloc(*n * sizeof(*out)) : NULL;
    for (uint32_t i = 0; out && i < *n && btr_ceiling(&mappings, base, &item); i++) {
        out[i] = (struct mapping){item.key, item.weight, item.value};
        btr_remove(&mappings, item.key, NULL);
    }
    return out;
}

/*
 * False: another thread is unmapping part of the range, which counts as unmapped. If both ran, the
 * failing call would restore entries whose memory the other has unmapped. Does not wait, as this
 * may be the dispatcher.
 */
static bool unmapping_begin_locked(struct unmapping *u)
{
    if (unmapping_locked(u->base, u->size))
        return false;
    u->next = under_way;
    under_way = u;
    return true;
}

static void unmapping_end_locked(const struct unmapping *u)
{
    struct unmapping **at = &under_way;

    while (*at != u)
        at = &(*at)->next;
    *at = u->next;
}

/* The entries leave the list first, as with cuMemFree: once unmapped, the dispatcher may be asked
 * to map there again. The lock is not held while the provider waits for the device. */
static CUresult finish_unmap(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    struct unmapping u = {.base = wait->arg[0], .size = wait->arg[1]};
    struct mapping *gone;
    uint32_t n;

    (void)r; /* errors of the work before it surface elsewhere */
    pthread_mutex_lock(&lock);
    if (!unmapping_begin_locked(&u)) {
        pthread_mutex_unlock(&lock);
        return CUDA_ERROR_INVALID_VALUE;
    }
    gone = detach_locked(u.base, u.size, &n);
    pthread_mutex_unlock(&lock);
    r = n && !gone ? CUDA_ERROR_OUT_OF_MEMORY : wrk_provider.cuMemUnmap((CUdeviceptr)u.base, (size_t)u.size);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; gone && i < n; i++) {
        if (r == CUDA_SUCCESS) {
            gone[i].phys->mappings--;
            phys_settle_locked(w, gone[i].phys);
        } else if (reserve_locked()) {
            insert_locked(&gone[i]); /* otherwise it stays charged forever, which is safe */
        }
    }
    unmapping_end_locked(&u);
    pthread_mutex_unlock(&lock);
    free(gone);
    return r;
}

CUresult wrk_do_cuMemUnmap(struct wrk_call *c, const struct vgp_args_cuMemUnmap *a)
{
    struct wrk_wait *wait;

    if (!wrk_provider.cuMemUnmap)
        return wrk_missing(c, "cuMemUnmap");
    wait = wrk_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->finish = finish_unmap;
    wait->arg[0] = a->ptr;
    wait->arg[1] = a->size;
    /* Unmapping waits for the device: do that first, without blocking. */
    if (!c->rec->context || wrk_wait_add_context(c, wait) != CUDA_SUCCESS)
        wait->blocking = true;
    if (c->w->handles.live[VGP_H_CONTEXT] > 1)
        wrk_wait_use_all(wait); /* mapped memory is of no context: the provider may wait for any */
    return wrk_wait_start(c, wait);
}
