/* SPDX-License-Identifier: MIT */
/* The tables of known addresses: allocations, variables, pinned host memory. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_guest.h"

/* Device addresses and guest addresses are different spaces: one table each. */
static struct vcu_range_set device_ranges = VCU_RANGE_SET_INIT;
static struct vcu_range_set host_ranges = VCU_RANGE_SET_INIT;
static _Atomic uint64_t next_buffer_id = 1;

static struct vcu_range_set *set_of(enum vcu_memory_kind kind)
{
    return kind == VCU_MEM_HOST ? &host_ranges : &device_ranges;
}

uint64_t vcu_memory_new_id(void)
{
    return atomic_fetch_add(&next_buffer_id, 1);
}

bool vcu_memory_add(uint64_t start, uint64_t size, const struct vcu_memory *m)
{
    struct vcu_memory *copy = malloc(sizeof(*copy));

    if (copy == NULL)
        return false;
    *copy = *m;
    if (vcu_range_add(set_of(m->kind), start, size, copy))
        return true;
    free(copy);
    return false;
}

static bool copy_out(const struct vcu_range *range, void *arg)
{
    struct vcu_place *place = arg;

    place->start = range->start;
    place->size = range->size;
    place->m = *(struct vcu_memory *)range->data;
    return true;
}

struct take {
    uint64_t start;
    enum vcu_memory_kind kind;
    struct vcu_place *place;
};

static bool take_it(const struct vcu_range *range, void *arg)
{
    const struct take *t = arg;

    if (range->start != t->start || ((struct vcu_memory *)range->data)->kind != t->kind ||
        ((struct vcu_memory *)range->data)->graph)
        return false;
    copy_out(range, t->place);
    free(range->data);
    return true;
}

bool vcu_memory_take(uint64_t start, enum vcu_memory_kind kind, struct vcu_place *place)
{
    struct take t = {start, kind, place};

    return vcu_range_edit(set_of(kind), start, take_it, &t);
}

struct access {
    uint64_t start, next; /* start of the mapping, and of the next one */
    const CUmemAccessDesc *desc;
    size_t count;
};

static bool give_access(const struct vcu_range *range, void *arg)
{
    struct vcu_memory *m = range->data;
    struct access *a = arg;

    if (range->start != a->start || m->kind != VCU_MEM_MAPPED)
        return false;
    a->next = range->start + range->size;
    for (size_t i = 0; i < a->count; i++) {
        const CUmemAccessDesc *d = &a->desc[i];
        uint64_t bit;

        if (d->location.type != CU_MEM_LOCATION_TYPE_DEVICE || d->location.id < 0 ||
            d->location.id >= VCU_MAX_DEVICES)
            continue;
        bit = UINT64_C(1) << d->location.id;
        m->readers = d->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? m->readers & ~bit : m->readers | bit;
        m->writers = d->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? m->writers | bit : m->writers & ~bit;
    }
    return false; /* it stays */
}

void vcu_memory_set_access(uint64_t start, uint64_t size, const CUmemAccessDesc *desc, size_t count)
{
    struct access a = {.next = start, .desc = desc, .count = count};

    do {
        a.start = a.next;
        vcu_range_edit(&device_ranges, a.start, give_access, &a);
    } while (a.next != a.start && a.next - start < size);
}

CUmemAccess_flags vcu_memory_access(const struct vcu_memory *m)
{
    const struct vcu_context *c = vcu_context_find(NULL);
    const uint64_t bit = UINT64_C(1) << (c != NULL ? c->device : m->device);

    return (m->writers & bit) != 0   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : (m->readers & bit) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                     : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

static bool find_in(struct vcu_range_set *set, uint64_t addr, struct vcu_place *place)
{
    return vcu_range_look(set, addr, copy_out, place);
}

bool vcu_memory_find(uint64_t addr, struct vcu_place *place)
{
    return find_in(&device_ranges, addr, place) || find_in(&host_ranges, addr, place);
}

bool vcu_memory_next(uint64_t start, uint64_t size, struct vcu_place *place)
{
    return vcu_range_look_overlap(&device_ranges, start, size, copy_out, place);
}

bool vcu_memory_find_host(uint64_t addr, struct vcu_place *place)
{
    return find_in(&host_ranges, addr, place);
}

static bool place_is_inside(const struct vcu_place *p, uint64_t addr, uint64_t n)
{
    return vgp_range_ok(addr - p->start, n, p->size);
}

bool vcu_memory_is_device(uint64_t addr, uint64_t n)
{
    struct vcu_place p;

    if (!find_in(&device_ranges, addr, &p))
        return false;
    if (p.m.kind != VCU_MEM_MAPPED)
        return place_is_inside(&p, addr, n);
    for (;;) {
        uint64_t here = p.start + p.size - addr;

        if (p.m.kind != VCU_MEM_MAPPED || vcu_memory_access(&p.m) != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return false;
        if (n <= here)
            return true;
        addr += here;
        n -= here;
        if (!find_in(&device_ranges, addr, &p))
            return false;
    }
}

bool vcu_memory_is_private(uint64_t addr, uint64_t n)
{
    struct vcu_place p;

    return find_in(&device_ranges, addr, &p) && place_is_inside(&p, addr, n) && !p.m.sync_memops &&
           (p.m.kind == VCU_MEM_VARIABLE || (p.m.kind == VCU_MEM_DEVICE && p.m.pool == 0 && !p.m.graph &&
                                             p.m.opened == 0 && !p.m.exported && !p.m.imported));
}

static bool set_exported(const struct vcu_range *range, void *arg)
{
    (void)arg;
    ((struct vcu_memory *)range->data)->exported = true;
    return false; /* it stays */
}

void vcu_memory_set_exported(uint64_t addr)
{
    vcu_range_edit(&device_ranges, addr, set_exported, NULL);
    vcu_range_edit(&host_ranges, addr, set_exported, NULL);
}

bool vcu_memory_in_place(uint64_t addr, uint64_t n)
{
    struct vcu_place p;

    return find_in(&host_ranges, addr, &p) && p.m.in_place && place_is_inside(&p, addr, n);
}

bool vcu_memory_host_crossed(uint64_t addr, uint64_t n)
{
    struct vcu_place p;

    return find_in(&host_ranges, addr, &p) && !place_is_inside(&p, addr, n);
}

struct sync {
    bool on, found;
};

static bool set_sync(const struct vcu_range *range, void *arg)
{
    struct sync *s = arg;

    ((struct vcu_memory *)range->data)->sync_memops = s->on;
    s->found = true;
    return false; /* it stays */
}

bool vcu_memory_set_sync(uint64_t addr, bool on)
{
    struct sync s = {on, false};

    vcu_range_edit(&device_ranges, addr, set_sync, &s);
    if (!s.found)
        vcu_range_edit(&host_ranges, addr, set_sync, &s);
    return s.found;
}

void vcu_memory_note_variable(uint64_t owner, uint64_t addr, uint64_t size)
{
    struct vcu_memory m = {
        .kind = VCU_MEM_VARIABLE,
        .owner = owner,
        .context = vcu_owner_context(),
        .buffer_id = vcu_memory_new_id(),
    };
    struct vcu_context *c = vcu_context_find(NULL);

    if (c != NULL)
        m.device = c->device;
    vcu_memory_add(addr, size, &m); /* already known: asked for a second time */
}

static bool is_of_owner(const struct vcu_range *range, void *arg)
{
    struct vcu_memory *m = range->data;

    if ((m->kind != VCU_MEM_VARIABLE && m->kind != VCU_MEM_SHADOW) || m->owner != *(uint64_t *)arg)
        return false;
    free(m);
    return true;
}

void vcu_memory_forget_owner(uint64_t owner)
{
    vcu_range_remove_if(&device_ranges, is_of_owner, &owner);
}

/* Ranges of a context that is reset or destroyed. Host memory's pages stay: they are the guest's.
 */
static bool range_belongs(const struct vcu_range *range, void *arg)
{
    struct vcu_memory *m = range->data;

    if (m->context != *(uint64_t *)arg || m->graph)
        return false;
    free(m);
    return true;
}

void vcu_memory_forget_context(uint64_t context)
{
    vcu_range_remove_if(&device_ranges, range_belongs, &context);
}

bool vcu_memory_put(uint64_t start, uint64_t size, const struct vcu_memory *m)
{
    /* The worker reports the address as new: stale entries of the table there are removed. */
    while (!vcu_memory_add(start, size, m)) {
        struct vcu_range stale;

        if (!vcu_range_remove_overlap(&device_ranges, start, size, &stale))
            return false;
        free(stale.data);
    }
    return true;
}

static _Atomic bool graph_memory;

void vcu_graph_memory_note(uint64_t dptr, uint64_t size, int device)
{
    struct vcu_memory m = {
        .kind = VCU_MEM_DEVICE,
        .context = vcu_owner_context(),
        .device = device,
        .buffer_id = vcu_memory_new_id(),
        .device_ptr = dptr,
        .graph = true,
    };

    atomic_store(&graph_memory, true);
    vcu_memory_put(dptr, size, &m);
}

bool vcu_graph_memory_known(void)
{
    return atomic_load(&graph_memory);
}

static bool memory_note(uint64_t dptr, uint64_t size, uint64_t pool, unsigned opened)
{
    struct vcu_context *c = vcu_context_find(NULL);
    struct vcu_memory m = {
        .kind = VCU_MEM_DEVICE,
        .context = vcu_owner_context(),
        .device = c == NULL ? 0 : c->device,
        .buffer_id = vcu_memory_new_id(),
        .device_ptr = dptr,
        .pool = pool,
        .opened = opened,
    };

    return vcu_memory_put(dptr, size, &m);
}

CUresult vcu_memory_note(uint64_t dptr, uint64_t size)
{
    if (memory_note(dptr, size, 0, 0))
        return CUDA_SUCCESS;
    vgp_call_cuMemFree_v2(dptr);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult vcu_memory_note_pool(uint64_t dptr, uint64_t size, uint64_t pool, CUstream stream)
{
    if (memory_note(dptr, size, pool, 0))
        return CUDA_SUCCESS;
    vgp_call_cuMemFreeAsync(dptr, stream);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Makes counting and entering atomic. */
static pthread_mutex_t opened_lock = PTHREAD_MUTEX_INITIALIZER;

struct opened {
    uint64_t start, size;
    struct vcu_place *place;
    bool counted;
};

static bool open_once_more(const struct vcu_range *range, void *arg)
{
    struct vcu_memory *m = range->data;
    struct opened *o = arg;

    o->counted = range->start == o->start && range->size == o->size && m->opened != 0;
    m->opened += o->counted;
    return false; /* it stays */
}

CUresult vcu_memory_note_opened(uint64_t dptr, uint64_t size, uint64_t pool)
{
    struct opened o = {.start = dptr, .size = size};
    bool known = true;

    pthread_mutex_lock(&opened_lock);
    vcu_range_edit(&device_ranges, dptr, open_once_more, &o);
    if (!o.counted)
        known = memory_note(dptr, size, pool, 1);
    pthread_mutex_unlock(&opened_lock);
    if (known)
        return CUDA_SUCCESS;
    if (pool)
        vgp_call_cuMemFree_v2(dptr);
    else
        vgp_call_cuIpcCloseMemHandle(dptr);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static bool open_once_less(const struct vcu_range *range, void *arg)
{
    struct vcu_memory *m = range->data;
    struct opened *o = arg;

    if (range->start != o->start || m->opened == 0 || --m->opened != 0)
        return false;
    copy_out(range, o->place);
    o->place->m.opened = 1;
    free(m);
    return true;
}

bool vcu_memory_close(uint64_t dptr, struct vcu_place *place)
{
    struct opened o = {.start = dptr, .place = place};
    bool last;

    pthread_mutex_lock(&opened_lock);
    last = vcu_range_edit(&device_ranges, dptr, open_once_less, &o);
    pthread_mutex_unlock(&opened_lock);
    return last;
}
