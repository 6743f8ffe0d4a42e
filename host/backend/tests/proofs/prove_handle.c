/* SPDX-License-Identifier: MIT */
/*
 * Proof about the worker's table of handles (wrk_handle.c), by CBMC: one operation on a table in any state that the
 * others leave it in, with handles of any value. What is found is live, of the type, the generation and the index
 * that the handle says; a handle that has ended is never found again; no other handle's object changes. The table is
 * small: two chunks of two entries for each of two types.
 */
#include "core.h"

#undef VGP_HANDLE_INDEX_MAX
#define VGP_HANDLE_INDEX_MAX 4u
#undef VGP_HANDLE_GUEST_FIRST
#define VGP_HANDLE_GUEST_FIRST 3u
#ifndef WRK_HANDLE_CHUNK /* prove.sh: 1 for what removes */
#define WRK_HANDLE_CHUNK 2u
#endif

/* Memory of any contents, or none; nothing here depends on what a grown list holds. */
static void *any_memory(size_t bytes);
#define calloc(n, bytes) some_zeros((n) * (bytes))
#define realloc(old, bytes) any_memory(bytes)
#define free(p) ((void)(p))
static void *some_zeros(size_t bytes);
#include "worker/core/wrk_handle.c"

bool nondet_bool(void);
unsigned nondet_unsigned(void);
uint64_t nondet_u64(void);
void *nondet_pointer(void);
struct wrk_handle_chunk nondet_chunk(void);

static void *any_memory(size_t bytes)
{
    return nondet_bool() ? __CPROVER_allocate(bytes, 0) : NULL;
}

static void *some_zeros(size_t bytes)
{
    return nondet_bool() ? __CPROVER_allocate(bytes, 1) : NULL;
}

bool wrk_limits_handle(const struct wrk_handles *t, unsigned type)
{
    (void)t, (void)type;
    return nondet_bool();
}

/* The types that the table has: one that may be part of another object, and one whose handles are minted. */
#define CHILD VGP_H_ARRAY
#define MINTED VGP_H_GRAPH

static struct wrk_handles table;

/* As operations leave an entry: a live one was put, below the highest index. None has a name: what names it is not in
 * the table, which only forgets it. */
static bool sound(const struct wrk_handle_entry *e, unsigned type, uint32_t index)
{
    return !e->name && e->generation <= 0xffffffu &&
           (!e->live || (e->generation && index < table.high[type]));
}

static struct wrk_handles *any_table(void)
{
    static const unsigned types[] = {CHILD, MINTED};

    for (unsigned k = 0; k < 2; k++) {
        const unsigned type = types[k];

        table.high[type] = nondet_unsigned();
        __CPROVER_assume(table.high[type] <= VGP_HANDLE_INDEX_MAX);
        table.live[type] = nondet_u64();
        if (nondet_bool())
            continue; /* nothing of this type was ever made */
        table.chunks[type] = __CPROVER_allocate(WRK_HANDLE_CHUNKS * sizeof(*table.chunks[type]), 1);
        for (unsigned i = 0; i < WRK_HANDLE_CHUNKS; i++) {
            if (nondet_bool())
                continue;
            table.chunks[type][i] = __CPROVER_allocate(sizeof(struct wrk_handle_chunk), 0);
            for (unsigned j = 0; j < WRK_HANDLE_CHUNK; j++)
                __CPROVER_assume(sound(&table.chunks[type][i]->entry[j], type, i * WRK_HANDLE_CHUNK + j));
        }
    }
    /* What waits to be used again is anything: a wrong number may cost a handle, and nothing else. */
    table.minted[MINTED] = nondet_unsigned();
    table.nfree[MINTED] = nondet_unsigned();
    __CPROVER_assume(table.nfree[MINTED] <= 2);
    table.free_room[MINTED] = 2;
    table.free_list[MINTED] = __CPROVER_allocate(2 * sizeof(uint32_t), 0);
    return &table;
}

/* A handle of the two types, or of any other type that the table has nothing of. */
static unsigned any_type(void)
{
    const unsigned type = nondet_unsigned();

    __CPROVER_assume(type == CHILD || type == MINTED || type == VGP_H_EVENT || type >= VGP_H_TYPES || !type);
    return type;
}

static bool is_what_it_says(const struct wrk_handle_entry *e, uint64_t handle, unsigned type)
{
    const uint32_t index = VGP_HANDLE_INDEX(handle);

    return index < VGP_HANDLE_INDEX_MAX && VGP_HANDLE_TYPE(handle) == type && type < VGP_H_TYPES && e->live &&
           VGP_HANDLE_GEN(handle) && e->generation == VGP_HANDLE_GEN(handle) &&
           e == &table.chunks[type][index / WRK_HANDLE_CHUNK]->entry[index % WRK_HANDLE_CHUNK];
}

/* Another handle, and what it stood for before the operation. */
static struct watched {
    uint64_t handle;
    unsigned type;
    bool found;
    void *object;
} other;

static void watch(struct wrk_handles *t)
{
    const struct wrk_handle_entry *e;

    other.handle = nondet_u64();
    other.type = any_type();
    e = wrk_handles_find(t, other.handle, other.type);
    other.found = e != NULL;
    other.object = e ? e->object : NULL;
}

/* Nothing of what the guest could name before has become another object, and nothing that had ended has come back. */
static void others_are_unchanged(struct wrk_handles *t)
{
    const struct wrk_handle_entry *e = wrk_handles_find(t, other.handle, other.type);

    __CPROVER_assert((e != NULL) == other.found, "no other handle ends or comes back");
    __CPROVER_assert(!e || e->object == other.object, "no other handle's object changes");
}

void prove_find(void)
{
    struct wrk_handles *t = any_table();
    const uint64_t handle = nondet_u64();
    const unsigned type = any_type();
    const struct wrk_handle_entry *e = wrk_handles_find(t, handle, type);

    __CPROVER_assert(!e || is_what_it_says(e, handle, type), "what is found is what the handle says");
}

void prove_put(void)
{
    struct wrk_handles *t = any_table();
    const uint64_t handle = nondet_u64();
    const unsigned type = any_type();
    void *object = nondet_pointer();

    watch(t);

    const bool was = wrk_handles_find(t, handle, type) != NULL;

    if (wrk_handles_reserve(t, handle, type) == CUDA_SUCCESS) {
        __CPROVER_assert(!was, "a live handle is not put again");
        wrk_handles_put(t, handle, type, object, nondet_u64());

        const struct wrk_handle_entry *e = wrk_handles_find(t, handle, type);

        __CPROVER_assert(e && is_what_it_says(e, handle, type) && e->object == object,
                         "what was put is found");
        __CPROVER_assert(sound(e, type, VGP_HANDLE_INDEX(handle)), "the state is sound");
        __CPROVER_assume(other.handle != handle || other.type != type);
    }
    others_are_unchanged(t);
}

void prove_mint(void)
{
    struct wrk_handles *t = any_table();
    void *object = nondet_pointer();

    watch(t);

    const struct wrk_handle_entry *last =
        well_formed(other.handle, MINTED) ? entry_at(t, other.handle, MINTED) : NULL;
    const bool was =
        last && last->generation == VGP_HANDLE_GEN(other.handle); /* live, or the last one there */
    const uint64_t handle = wrk_handles_mint(t, MINTED, object);

    if (handle) {
        const struct wrk_handle_entry *e = wrk_handles_find(t, handle, MINTED);

        __CPROVER_assert(e && is_what_it_says(e, handle, MINTED) && e->object == object,
                         "what was minted is found");
        __CPROVER_assert(sound(e, MINTED, VGP_HANDLE_INDEX(handle)), "the state is sound");
        __CPROVER_assert(!was || other.handle != handle,
                         "neither a live handle is minted again nor one that has ended");
        __CPROVER_assume(other.handle != handle || other.type != MINTED);
    }
    others_are_unchanged(t);
}

#if WRK_HANDLE_CHUNK == 1

/* What has parts is of another type than they are. */
#define WHOLE VGP_H_MIPMAPPED_ARRAY

/*
 * Each entry is a variable of its own, at a fixed place: written to at any place of a chunk of several, or of memory that is
 * allocated, the formulas take gigabytes and no solver ends. How an index finds its chunk is in the proofs above.
 */
static struct wrk_handle_chunk whole_0, part_0, part_1, part_2, part_3;
static struct wrk_handle_chunk *whole_chunks[WRK_HANDLE_CHUNKS], *part_chunks[WRK_HANDLE_CHUNKS];

/* Tables of one whole and of parts in any state. Returns how many live parts `whole` has, of `*live` ones. A part has no
 * parts here; its removal is the same function's, one level down. */
static unsigned any_parts(struct wrk_handles *t, uint64_t whole, unsigned *live)
{
    unsigned parts = 0;

    whole_0 = nondet_chunk();
    part_0 = nondet_chunk();
    part_1 = nondet_chunk();
    part_2 = nondet_chunk();
    part_3 = nondet_chunk();
    whole_chunks[0] = &whole_0;
    part_chunks[0] = &part_0;
    part_chunks[1] = &part_1;
    part_chunks[2] = nondet_bool() ? &part_2 : NULL;
    part_chunks[3] = nondet_bool() ? &part_3 : NULL;
    t->chunks[WHOLE] = whole_chunks;
    t->chunks[CHILD] = part_chunks;
    t->high[WHOLE] = 1;
    t->high[CHILD] = nondet_unsigned();
    __CPROVER_assume(t->high[CHILD] <= VGP_HANDLE_INDEX_MAX);
    *live = 0;
    for (unsigned i = 0; i < VGP_HANDLE_INDEX_MAX; i++) {
        if (!part_chunks[i])
            continue;

        const struct wrk_handle_entry *e = part_chunks[i]->entry;

        __CPROVER_assume(sound(e, CHILD, i) && !e->first);
        *live += e->live;
        parts += e->live && e->parent == whole;
    }
    t->live[CHILD] = *live;
    t->live[WHOLE] = nondet_u64();
    return parts;
}

static struct wrk_handle_chunk minted_0, minted_1;
static struct wrk_handle_chunk *minted_chunks[WRK_HANDLE_CHUNKS];
static uint32_t minted_free[2];

/* A table of a type whose handles are minted, at fixed places, too. */
static void any_minted(struct wrk_handles *t)
{
    minted_0 = nondet_chunk();
    minted_1 = nondet_chunk();
    minted_free[0] = nondet_unsigned();
    minted_free[1] = nondet_unsigned();
    minted_chunks[0] = &minted_0;
    minted_chunks[1] = nondet_bool() ? &minted_1 : NULL;
    t->chunks[MINTED] = minted_chunks;
    t->high[MINTED] = nondet_unsigned();
    __CPROVER_assume(t->high[MINTED] <= VGP_HANDLE_INDEX_MAX);
    __CPROVER_assume(sound(minted_0.entry, MINTED, 0) && sound(minted_1.entry, MINTED, 1));
    t->live[MINTED] = nondet_u64();
    t->free_list[MINTED] = minted_free;
    t->free_room[MINTED] = 2;
    t->minted[MINTED] = nondet_unsigned();
    t->nfree[MINTED] = nondet_unsigned();
    __CPROVER_assume(t->nfree[MINTED] <= 2);
}

static uint64_t part_handle(unsigned i)
{
    return VGP_HANDLE(CHILD, part_chunks[i]->entry->generation, i);
}

/* The whole's list, as wrk_handles_set_parent() leaves it: it has all its parts, each once, in any order. */
static bool listed(const struct wrk_handle_entry *whole, uint64_t handle, unsigned parts)
{
    uint64_t at = whole->first, before = 0;
    unsigned n = 0;

    for (; at && n < VGP_HANDLE_INDEX_MAX; n++) {
        const unsigned i = VGP_HANDLE_INDEX(at);
        const struct wrk_handle_entry *e;

        if (i >= VGP_HANDLE_INDEX_MAX || !part_chunks[i] || at != part_handle(i))
            return false;
        e = part_chunks[i]->entry;
        if (!e->live || e->parent != handle || e->prev != before)
            return false;
        before = at;
        at = e->next;
    }
    return !at && n == parts;
}

/* With an object its parts end, and nothing else. */
void prove_parts(void)
{
    struct wrk_handles *t = &table;
    const uint64_t whole = nondet_u64();
    unsigned live;
    const unsigned parts = any_parts(t, whole, &live);
    const struct wrk_handle_entry *e = wrk_handles_find(t, whole, WHOLE), *o;

    __CPROVER_assume(e && !e->parent && listed(e, whole, parts));
    other.handle = nondet_u64();
    other.type = nondet_bool() ? CHILD : WHOLE;
    o = wrk_handles_find(t, other.handle, other.type);
    other.found = o && o != e && (other.type == WHOLE || o->parent != whole);
    other.object = o ? o->object : NULL;
    __CPROVER_assert(wrk_handles_remove(t, whole, WHOLE), "what is there can be removed");
    __CPROVER_assert(!wrk_handles_find(t, whole, WHOLE), "what was removed is not found");
    __CPROVER_assert(t->live[CHILD] == live - parts, "its parts count no more");
    others_are_unchanged(t);
}

/* A part that ends before its whole leaves the list as a list of the others. */
void prove_part(void)
{
    struct wrk_handles *t = &table;
    const uint64_t whole = nondet_u64();
    unsigned live;
    const unsigned parts = any_parts(t, whole, &live), i = nondet_unsigned();
    const struct wrk_handle_entry *e = wrk_handles_find(t, whole, WHOLE), *o;

    __CPROVER_assume(e && !e->parent && listed(e, whole, parts));
    __CPROVER_assume(i < VGP_HANDLE_INDEX_MAX && part_chunks[i]);

    const uint64_t part = part_handle(i);

    o = wrk_handles_find(t, part, CHILD);
    __CPROVER_assume(o && o->parent == whole);
    other.handle = nondet_u64();
    other.type = nondet_bool() ? CHILD : WHOLE;
    o = wrk_handles_find(t, other.handle, other.type);
    other.found = o && (other.type == WHOLE || other.handle != part);
    other.object = o ? o->object : NULL;
    __CPROVER_assert(wrk_handles_remove(t, part, CHILD), "what is there can be removed");
    __CPROVER_assert(listed(e, whole, parts - 1), "the list has the other parts");
    others_are_unchanged(t);
}

/* What has ended does not come back. A proof for each type: with a type of any value CBMC does not end. */
static void no_return(unsigned type)
{
    struct wrk_handles *t = &table;
    const uint64_t handle = nondet_u64();
    unsigned live;

    any_parts(t, 0, &live);
    any_minted(t);
    struct wrk_handle_entry *e = wrk_handles_find(t, handle, type);

    __CPROVER_assume(e && !e->first && !e->parent); /* with parts: prove_parts; a part itself: prove_part */
    watch(t);
    __CPROVER_assume(other.handle != handle);
    __CPROVER_assert(wrk_handles_remove(t, handle, type), "what is there can be removed");
    __CPROVER_assert(!wrk_handles_find(t, handle, type), "what was removed is not found");
    __CPROVER_assert(!wrk_handles_remove(t, handle, type), "nor removed again");
    __CPROVER_assert(wrk_handles_reserve(t, handle, type) != CUDA_SUCCESS, "nor made again");
    __CPROVER_assert(sound(e, type, VGP_HANDLE_INDEX(handle)), "the state is sound");
    others_are_unchanged(t);
}

void prove_no_return(void)
{
    no_return(CHILD);
}

void prove_no_return_minted(void)
{
    no_return(MINTED);
}

#endif
