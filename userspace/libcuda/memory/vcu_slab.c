/* SPDX-License-Identifier: MIT */
/*
 * Small pinned allocations, many in one piece of shared memory. Sharing memory with the worker
 * costs a message to the broker, mappings and a registration, and worker and broker keep a bounded
 * number of regions; so allocations up to VCU_SLAB_LARGEST are whole pages of a slab, a region that
 * belongs to one context. NVIDIA's driver divides larger pieces, too.
 *
 * Freed pages are given out again only when no work can still use them: at once when nothing is
 * outstanding, else after vgpSettle, the wait that vgpRegionUnregister makes for memory with a
 * region of its own. Where the worker cannot wait (a stream captures) or has failed, and where a
 * dma-buf has the pages, they stay unused until the slab ends, which it does when its last
 * allocation is freed; up to KEPT_MAX slabs without allocations are kept.
 *
 * Disabled while a recorder listens, which keeps a copy of each region.
 */
#include "memory.h"

#include <stdlib.h>
#include <unistd.h>

#include "vgp_guest.h"

#define PAGE 4096u
#define RUN_MAX (VCU_SLAB_LARGEST / PAGE) /* pages; longer runs are not told apart: any allocation fits */
#define SIZE_FIRST (256u << 10)           /* first slab of the process, bytes: few programs need more */
#define SIZE_LATER (2u << 20)             /* size of further slabs: a huge page */
#define WORDS_MAX (SIZE_LATER / PAGE / 64)

struct vcu_slab {
    struct vcu_memory m;                       /* of each allocation; `shared`, `device_ptr`: of the slab */
    struct vcu_slab *next, **at;               /* with_room[run] */
    struct vcu_slab *next_of_all, **at_of_all; /* all_slabs */
    bool listed;                               /* in with_room[run] */
    bool ended;               /* its context was reset or destroyed: no further allocations */
    unsigned run;             /* longest run of free pages, at most RUN_MAX */
    unsigned words;           /* of 64 pages */
    unsigned live;            /* allocations, those included that are being freed */
    uint64_t used[WORDS_MAX]; /* pages */
};

/* Guards all of it, and the slabs; no record is sent under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vcu_slab *with_room[RUN_MAX + 1]; /* of all contexts, which are few, by their longest run */
static struct vcu_slab *all_slabs;
static unsigned kept; /* slabs without allocations */
#define KEPT_MAX 2u

/* The pages at which `n` free pages begin, all in this word. */
static uint64_t runs_of(uint64_t used, unsigned n)
{
    uint64_t at = ~used;

    for (unsigned have = 1; have < n;) {
        unsigned by = n - have < have ? n - have : have;

        at &= at >> by;
        have += by;
    }
    return at;
}

static unsigned longest_run(const struct vcu_slab *s)
{
    unsigned longest = 0;

    for (unsigned i = 0; i < s->words; i++) {
        while (longest < RUN_MAX && runs_of(s->used[i], longest + 1) != 0)
            longest++;
    }
    return longest;
}

static void unlist_slab(struct vcu_slab *s)
{
    if (!s->listed)
        return;
    *s->at = s->next;
    if (s->next != NULL)
        s->next->at = s->at;
    s->listed = false;
}

static void slab_list(struct vcu_slab *s)
{
    struct vcu_slab **head;

    unlist_slab(s);
    s->run = longest_run(s);
    if (s->ended || s->run == 0)
        return;
    head = &with_room[s->run];
    s->next = *head;
    s->at = head;
    if (s->next != NULL)
        s->next->at = &s->next;
    *head = s;
    s->listed = true;
}

static uint64_t mask_of(unsigned n)
{
    return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
}

/* Takes `n` pages that are known to be free; returns their offset in the slab, in bytes. */
static uint64_t take_pages(struct vcu_slab *s, unsigned n)
{
    for (unsigned i = 0; i < s->words; i++) {
        uint64_t at = runs_of(s->used[i], n);

        if (at == 0)
            continue;
        kept -= s->live == 0;
        s->used[i] |= mask_of(n) << __builtin_ctzll(at);
        s->live++;
        slab_list(s);
        return (i * UINT64_C(64) + (unsigned)__builtin_ctzll(at)) * PAGE;
    }
    abort(); /* slab_list() has counted them */
}

/* A slab of the context with room for n pages; NULL: none. */
static struct vcu_slab *find_room(uint64_t context, unsigned n)
{
    for (unsigned run = n; run <= RUN_MAX; run++) {
        for (struct vcu_slab *s = with_room[run]; s != NULL; s = s->next) {
            if (s->m.context == context)
                return s;
        }
    }
    return NULL;
}

static bool is_whole(const struct vcu_slab *s)
{
    uint64_t used = 0;

    for (unsigned i = 0; i < s->words; i++)
        used |= s->used[i];
    return used == 0;
}

/* Takes a slab without allocations out of the lists; the caller calls slab_end() without the lock. */
static void drop_slab(struct vcu_slab *s)
{
    unlist_slab(s);
    *s->at_of_all = s->next_of_all;
    if (s->next_of_all != NULL)
        s->next_of_all->at_of_all = s->at_of_all;
}

static void slab_end(struct vcu_slab *s)
{
    vcu_hostmem_end(&s->m);
    free(s);
}

/* NULL: the caller tries plain memory, whose error is that of the call. */
static struct vcu_slab *new_slab(uint64_t size)
{
    struct vcu_slab *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    s->m.kind = VCU_MEM_HOST;
    if (vcu_hostmem_new(NULL, size, false, &s->m) != CUDA_SUCCESS) {
        free(s);
        return NULL;
    }
    s->m.slab = s;
    s->words = (unsigned)(size / PAGE / 64);
    return s;
}

static void slab_enter(struct vcu_slab *s)
{
    s->next_of_all = all_slabs;
    s->at_of_all = &all_slabs;
    if (all_slabs != NULL)
        all_slabs->at_of_all = &s->next_of_all;
    all_slabs = s;
    kept++;
    slab_list(s);
}

/* Errors of the context surface in calls that are sent. */
static bool may_answer(void)
{
    const struct vcu_context *c = vcu_context_find(NULL);

    return vcu.worker_minor >= 6 && vcu.ring.tap == NULL && vcu_fault_spec == NULL &&
           !vcu_thread()->in_callback &&
           atomic_load_explicit(&vcu.ring.async_error, memory_order_relaxed) == 0 &&
           __atomic_load_n(&vcu.ring.shared->sticky_result, __ATOMIC_RELAXED) == 0 &&
           lnk_ring_dead(&vcu.ring) == CUDA_SUCCESS && c != NULL &&
           atomic_load_explicit(&c->base->sticky, memory_order_relaxed) == 0;
}

bool vcu_slab_take(uint64_t size, struct vcu_memory *m)
{
    unsigned n = (unsigned)((size + PAGE - 1) / PAGE), flags = m->flags;
    uint64_t offset, length;
    struct vcu_slab *s;

    if (size > VCU_SLAB_LARGEST || sysconf(_SC_PAGESIZE) != PAGE || !may_answer())
        return false;
    pthread_mutex_lock(&lock);
    s = find_room(vcu_owner_context(), n);
    if (s == NULL) {
        length = all_slabs == NULL ? SIZE_FIRST : SIZE_LATER;
        pthread_mutex_unlock(&lock);
        s = new_slab(length);
        if (s == NULL)
            return false;
        pthread_mutex_lock(&lock);
        slab_enter(s);
    }
    offset = take_pages(s, n);
    *m = s->m;
    pthread_mutex_unlock(&lock);
    m->flags = flags;
    m->buffer_id = vcu_memory_new_id();
    m->device_ptr += m->device_ptr == 0 ? 0 : offset;
    m->slab_offset = offset;
    return true;
}

void vcu_slab_give(const struct vcu_memory *m, uint64_t size)
{
    struct vcu_slab *s = m->slab;
    uint64_t page = m->slab_offset / PAGE;
    unsigned n = (unsigned)((size + PAGE - 1) / PAGE);
    bool idle = vcu_wait_idle() || (atomic_load(&vcu_captures) == 0 && vgp_call_vgpSettle(0) == CUDA_SUCCESS);
    bool reusable = idle && !m->exported;
    bool ends = false;

    pthread_mutex_lock(&lock);
    if (reusable) {
        s->used[page / 64] &= ~(mask_of(n) << page % 64);
        slab_list(s);
    }
    s->live--;
    if (s->live == 0) {
        ends = s->ended || kept == KEPT_MAX || !is_whole(s);
        if (ends)
            drop_slab(s);
        else
            kept++;
    }
    pthread_mutex_unlock(&lock);
    if (ends)
        slab_end(s);
}

/* Ends a slab of the context that has not ended; *free_it: no part of it is in use. */
static struct vcu_slab *end_one(uint64_t context, bool *free_it)
{
    struct vcu_slab *s = all_slabs;

    while (s != NULL && (s->m.context != context || s->ended))
        s = s->next_of_all;
    if (s == NULL)
        return NULL;
    s->ended = true;
    *free_it = s->live == 0;
    if (*free_it) {
        drop_slab(s);
        kept--;
    } else {
        unlist_slab(s);
    }
    return s;
}

/* Registrations end with the context. Allocations keep their pages until they are freed, as those with a region do. */
static void context_ending(struct vcu_context *c)
{
    struct vcu_slab *s;
    bool free_it;

    if (c->green != 0)
        return;
    do {
        pthread_mutex_lock(&lock);
        s = end_one(c->handle, &free_it);
        pthread_mutex_unlock(&lock);
        if (s != NULL && free_it)
            slab_end(s);
    } while (s != NULL);
}

const struct vcu_unit_ops vcu_slab_unit = {.context_ending = context_ending};
