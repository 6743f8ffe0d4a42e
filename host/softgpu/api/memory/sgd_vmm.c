/* SPDX-License-Identifier: MIT */
/*
 * Driver API: virtual memory management. Physical memory is a piece of this process's store
 * (memory/sg_store.c), or a file of its own if it can be exported. Mapping it creates a second mapping
 * of the same pages of the file in a reserved address range. The descriptor of exported memory is
 * requested anew each time, because a sandbox allows only few; the descriptor of imported memory is
 * kept. The table of allocations holds the access rights.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/api.h"

#include "lib/btree/btree.h"
#include "lib/driver/driver.h"

#define SG_GRANULARITY (2ull << 20)
#define SG_RESERVE_MAX (1ull << 44) /* bytes per reservation */

struct sg_phys {
    struct sg_obj obj;
    void *pages;
    uint64_t size;
    unsigned handles; /* times that the handle was given out and not released; under `lock` */
    CUmemAllocationProp prop;
    bool imported;                 /* another process has made it: not counted here */
    uint8_t token[SG_SHARE_TOKEN]; /* if it was created here and may be exported */
    /* descriptor of imported memory, to map it again; -1: none */
    int fd;
    uint64_t at; /* offset in the store, if it is neither */
};
static const char tail_magic[] = "sgVMM001"; /* 8 bytes of it */

struct mapping {
    uint64_t base, size;
    SG_COUNTED struct sg_phys *phys; /* a reference */
    uint32_t access;                 /* SG_ACCESS_*; 0: not in the table of allocations */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards both trees */
static struct btr_tree mappings;     /* struct mapping by first address, weighted by length */
static struct btr_tree reservations; /* first address, weighted by length */

static bool phys_in_store(const struct sg_phys *p)
{
    return !p->imported && !p->prop.requestedHandleTypes;
}

static void phys_free(struct sg_obj *obj)
{
    struct sg_phys *p = (struct sg_phys *)obj;

    if (p->pages != MAP_FAILED) {
        if (phys_in_store(p))
            sg_store_give(p->pages, p->size, p->at);
        munmap(p->pages, p->size);
    }
    if (!p->imported)
        sg_mem_uncharge(p->prop.location.id, p->size);
    if (p->prop.requestedHandleTypes && !p->imported && p->pages != MAP_FAILED)
        sg_share_close(p->token);
    if (p->fd >= 0)
        close(p->fd);
    free(p);
}

static bool is_granular(uint64_t v)
{
    return v && v % SG_GRANULARITY == 0;
}

static CUresult check_prop(const CUmemAllocationProp *p)
{
    if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sg_location_ok(&p->location))
        return CUDA_ERROR_INVALID_VALUE;
    if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "physical memory of the host");
    SG_CHECK_DEVICE(p->location.id);
    return CUDA_SUCCESS;
}

CUresult sgd_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop)
{
    CUresult r = check_prop(prop);

    if (r == CUDA_SUCCESS && (prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        r = sg_fail(CUDA_ERROR_NOT_SUPPORTED, "only descriptors can be exported");
    if (r == CUDA_SUCCESS)
        *granularity = SG_GRANULARITY;
    return r;
}

/* ---- physical memory ---- */

/* With the pages not there yet. NULL: no memory. */
static struct sg_phys *phys_new(uint64_t size, const CUmemAllocationProp *prop, bool imported)
{
    struct sg_phys *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    sg_obj_init(&p->obj, SG_T_PHYS, NULL, phys_free);
    p->size = size;
    p->prop = *prop;
    p->handles = 1;
    p->imported = imported;
    p->fd = -1;
    p->pages = MAP_FAILED;
    return p;
}

/* Maps over the existing pages at `where`; NULL: at any address. */
static void *map_pages(void *where, uint64_t size, int fd)
{
    return mmap(where, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | (where ? MAP_FIXED : 0), fd,
                0);
}

/* Gives p its pages; false: no memory. */
static bool phys_fill(struct sg_phys *p)
{
    struct sg_share_tail tail;
    int fd;

    if (phys_in_store(p)) {
        if (!sg_store_take(p->size, &p->at))
            return false;
        p->pages = sg_store_map(NULL, p->size, p->at);
        if (p->pages == MAP_FAILED)
            sg_store_give(NULL, p->size, p->at);
        return p->pages != MAP_FAILED;
    }
    fd = sg_share_create_fd(tail_magic, p->size, p->prop.location.id, p->token, &tail);
    if (fd < 0)
        return false;
    p->pages = map_pages(NULL, p->size, fd);
    close(fd);
    if (p->pages == MAP_FAILED)
        sg_share_close(p->token);
    return p->pages != MAP_FAILED;
}

CUresult sgd_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                         unsigned long long flags)
{
    struct sg_phys *p;
    CUresult r;

    if (!handle || flags || !is_granular(size))
        return CUDA_ERROR_INVALID_VALUE;
    r = check_prop(prop);
    if (r != CUDA_SUCCESS)
        return r;
    if (prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "cuMemCreate: only descriptors can be exported");
    if (!sg_mem_charge(prop->location.id, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    p = phys_new(size, prop, false);
    if (!p) {
        sg_mem_uncharge(prop->location.id, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    bool ok = phys_fill(p) && sg_obj_register(&p->obj);

    if (ok)
        *handle = p->obj.handle;
    sg_obj_put(&p->obj);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- exported and imported memory ---- */

CUresult sgd_cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                          CUmemAllocationHandleType handleType, unsigned long long flags)
{
    int fd;

    SG_AUTO struct sg_phys *p = SG_LOOKUP(handle, SG_T_PHYS);

    if (!p || !shareableHandle || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return handleType == CU_MEM_HANDLE_TYPE_NONE ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    if (!(p->prop.requestedHandleTypes & handleType))
        return sg_fail(CUDA_ERROR_INVALID_VALUE,
                       "cuMemExportToShareableHandle: not made with that handle type");
    fd = sg_share_gives_fds() ? sg_share_again(p->token) : -1;
    if (fd < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *(int *)shareableHandle = fd;
    return CUDA_SUCCESS;
}

CUresult sgd_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                            CUmemAllocationHandleType shHandleType)
{
    /* No handle types: it cannot be exported again (driver 580). */
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    struct sg_share_tail tail;
    struct sg_phys *p;
    int fd = (int)(uintptr_t)osHandle;

    if (shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return shHandleType == CU_MEM_HANDLE_TYPE_NONE ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    if (!sg_share_look(fd, tail_magic, &tail) || !is_granular(tail.bytes))
        return sg_fail(errno == ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE,
                       "cuMemImportFromShareableHandle: %s",
                       errno == ENOMEM ? "no memory to look at it" : "not memory that was exported");
    prop.location.id = tail.device;
    p = phys_new(tail.bytes, &prop, true);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (p->fd >= 0)
        p->pages = map_pages(NULL, tail.bytes, fd);
    bool ok = p->pages != MAP_FAILED && sg_obj_register(&p->obj);

    if (ok)
        *handle = p->obj.handle;
    sg_obj_put(&p->obj);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Mapped memory stays until it is unmapped. */
CUresult sgd_cuMemRelease(struct sg_phys *p)
{
    bool ok, last = false;

    pthread_mutex_lock(&lock);
    ok = p->handles > 0;
    if (ok)
        last = --p->handles == 0;
    if (last)
        sg_obj_unregister(&p->obj);
    pthread_mutex_unlock(&lock);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sgd_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, struct sg_phys *p)
{
    *prop = p->prop;
    return CUDA_SUCCESS;
}

/* ---- addresses ---- */

/* Maps the file of exportable memory created here: requests its descriptor, maps it and closes
   it. */
static bool map_exported(void *to, uint64_t size, const struct sg_phys *p)
{
    uint64_t bytes = 0;
    const bool gives = sg_share_gives_fds();
    int fd = gives ? sg_share_again(p->token) : sg_share_open(SG_SHARE_FD, p->token, &bytes, NULL);

    if (fd < 0)
        return false;
    bool ok = (gives || size <= bytes) && map_pages(to, size, fd) != MAP_FAILED;

    close(fd);
    if (!gives)
        sg_share_close(p->token);
    return ok;
}

/* A second mapping of the pages of p. */
static bool map_again(void *to, uint64_t size, const struct sg_phys *p)
{
    if (phys_in_store(p))
        return sg_store_map(to, size, p->at) != MAP_FAILED;
    return p->imported ? map_pages(to, size, p->fd) != MAP_FAILED : map_exported(to, size, p);
}

/* The pages of p at a reserved address. */
static CUresult place_pages(uint64_t at, uint64_t size, const struct sg_phys *p)
{
    if (map_again((void *)at, size, p))
        return CUDA_SUCCESS;
    sg_mem_reserve_clear(at, size); /* the failed attempt may have removed the reserved pages */
    return sg_fail(CUDA_ERROR_OUT_OF_MEMORY, "cuMemMap: the system refuses one mapping more");
}

CUresult sgd_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                 unsigned long long flags)
{
    uint64_t base;

    if (!ptr || flags || !is_granular(size) || size > SG_RESERVE_MAX || (alignment & (alignment - 1)) ||
        alignment > SG_RESERVE_MAX || addr % SG_GRANULARITY)
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < SG_GRANULARITY)
        alignment = SG_GRANULARITY;
    if (!sg_mem_reserve(addr, size, alignment, &base)) /* addr is a hint, as documented */
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    const int failed = btr_insert(&reservations, base, size, NULL);

    pthread_mutex_unlock(&lock);
    if (failed) {
        sg_mem_unreserve(base, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ptr = base;
    return CUDA_SUCCESS;
}

static struct mapping *mapping_at(uint64_t addr)
{
    struct btr_item item;

    return btr_floor(&mappings, addr, &item) && addr - item.key < item.weight ? item.value : NULL;
}

static bool overlaps_mapping(uint64_t base, uint64_t size)
{
    struct btr_item item;

    return mapping_at(base) || (btr_ceiling(&mappings, base, &item) && item.key - base < size);
}

CUresult sgd_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    struct btr_item item;

    pthread_mutex_lock(&lock);
    if (btr_find(&reservations, ptr, &item) && item.weight == size && !overlaps_mapping(ptr, size)) {
        btr_remove(&reservations, ptr, NULL);
        sg_mem_unreserve(ptr, size);
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

/* The reservation around addr. */
static bool reservation_at(uint64_t addr, struct btr_item *item)
{
    return btr_floor(&reservations, addr, item) && addr - item->key < item->weight;
}

static bool is_reserved(uint64_t base, uint64_t size)
{
    struct btr_item item;

    return reservation_at(base, &item) && size <= item.weight - (base - item.key);
}

/* ---- mapping ---- */

CUresult sgd_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    struct mapping *m;

    SG_AUTO struct sg_phys *p = SG_LOOKUP(handle, SG_T_PHYS);

    if (!p || flags || offset || !is_granular(size) || !is_granular(ptr) || size > p->size)
        return r;
    m = calloc(1, sizeof(*m));
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    if (is_reserved(ptr, size) && !overlaps_mapping(ptr, size))
        r = btr_reserve(&mappings) ? place_pages(ptr, size, p) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        sg_obj_get(&p->obj);
        *m = (struct mapping){ptr, size, p, 0};
        btr_insert(&mappings, ptr, size, m);
    } else {
        free(m);
    }
    pthread_mutex_unlock(&lock);
    return r;
}

/* True when whole mappings cover [base, base + size) without a gap. */
static bool whole_mappings(uint64_t base, uint64_t size)
{
    for (uint64_t at = base; at < base + size;) {
        struct mapping *m = mapping_at(at);

        if (!m || m->base != at || m->size > base + size - at)
            return false;
        at += m->size;
    }
    return true;
}

/* True when there are mappings in [base, base + size) of a reservation, with gaps between them (driver 580),
   and none that reaches out of it. */
static bool only_whole_mappings(uint64_t base, uint64_t size)
{
    struct mapping *first = mapping_at(base);
    struct btr_item item;
    bool any = false;

    if (!is_reserved(base, size) || (first && first->base != base))
        return false;
    for (uint64_t at = base; btr_ceiling(&mappings, at, &item) && item.key - base < size;
         at = item.key + item.weight) {
        if (item.weight > size - (item.key - base))
            return false;
        any = true;
    }
    return any;
}

CUresult sgd_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    struct sg_ctx *ctx;

    if (!is_granular(ptr) || !is_granular(size) || ptr + size < ptr)
        return r;
    if (sg_current_raw(&ctx) == CUDA_SUCCESS)
        sg_ctx_drain(ctx);
    pthread_mutex_lock(&lock);
    if (only_whole_mappings(ptr, size)) {
        struct btr_item item;

        while (btr_ceiling(&mappings, ptr, &item) && item.key - ptr < size) {
            struct mapping *m = item.value;

            btr_remove(&mappings, m->base, NULL);
            if (m->access)
                sg_mem_release(m->base);
            sg_mem_reserve_clear(m->base, m->size);
            sg_obj_put(&m->phys->obj);
            free(m);
        }
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

/* CU_MEM_ACCESS_FLAGS_* are the two bits of SG_ACCESS_OF: 1 to read, 3 to write too. */
static CUresult set_access(struct mapping *m, const CUmemAccessDesc *desc, size_t count)
{
    uint32_t access = m->access;
    CUresult r = CUDA_SUCCESS;

    for (size_t i = 0; i < count; i++)
        access = (access & ~SG_ACCESS_OF(desc[i].location.id)) | (uint32_t)desc[i].flags
                                                                     << 2 * desc[i].location.id;
    if (access == m->access)
        return r;
    if (!access)
        sg_mem_release(m->base);
    else if (m->access)
        sg_mem_set_access(m->base, access);
    else /* not of any context: it belongs to the device and outlives them */
        r = sg_mem_add_mapped(sg_devices[m->phys->prop.location.id].primary, m->base, m->size, access);
    if (r == CUDA_SUCCESS)
        m->access = access;
    return r;
}

CUresult sgd_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    CUresult r = CUDA_SUCCESS;

    if (!desc || !count || !is_granular(ptr) || !is_granular(size) || ptr + size < ptr)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
             desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
             desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
            return CUDA_ERROR_INVALID_VALUE;
        SG_CHECK_DEVICE(desc[i].location.id);
    }
    pthread_mutex_lock(&lock);
    if (!whole_mappings(ptr, size))
        r = CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = ptr; r == CUDA_SUCCESS && at < ptr + size;) {
        struct mapping *m = mapping_at(at);

        r = set_access(m, desc, count);
        at += m->size;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult sgd_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return r;
    SG_CHECK_DEVICE(location->id);
    pthread_mutex_lock(&lock);
    struct mapping *m = mapping_at(ptr);

    if (m) {
        *flags = m->access >> 2 * location->id & 3;
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

/* Returns another handle of the memory mapped at addr; it is released like the first. */
CUresult sgd_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    if (!handle)
        return r;
    pthread_mutex_lock(&lock);
    struct mapping *m = mapping_at((uint64_t)(uintptr_t)addr);

    if (m) {
        r = m->phys->handles || sg_obj_register(&m->phys->obj) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (r == CUDA_SUCCESS) {
            m->phys->handles++;
            *handle = m->phys->obj.handle;
        }
    }
    pthread_mutex_unlock(&lock);
    return r;
}

bool sg_vmm_find(uint64_t addr, struct cua_reserved *out)
{
    struct btr_item item;

    pthread_mutex_lock(&lock);
    const bool found = reservation_at(addr, &item);

    if (found) {
        const struct mapping *m = mapping_at(addr);

        *out = (struct cua_reserved){.base = item.key, .size = item.weight};
        if (m) {
            out->map_base = m->base;
            out->map_size = m->size;
            out->id = m->phys->obj.handle;
            out->device = m->phys->prop.location.id;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}
