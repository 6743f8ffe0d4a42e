/* SPDX-License-Identifier: MIT */
#include "jit/late.h"
#include "jit/late_state.h"

#include "jit/avx2/avx2.h"
#include "jit/memory/windows.h"

#ifdef SG_JIT

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Continuation of an instruction without native code, or whose step was taken. */
struct late_way {
    u64 to, step; /* an address; RAX there */
};

struct sg_late *sg_jit_late_new(struct jit *j)
{
    const u32 n = j->code->ninsns;
    struct sg_late *l = calloc(1, sizeof(*l));
    u32 k = 0;

    if (!l)
        return NULL;
    pthread_mutex_init(&l->lock, NULL);
    l->code = j->code;
    for (u32 i = 0; i < n; i++)
        l->nblocks += j->leader[i] == 1;
    l->first = calloc(l->nblocks, sizeof(*l->first));
    l->entry = calloc((size_t)l->nblocks * LATE_VERSIONS, sizeof(*l->entry));
    l->all = calloc(l->nblocks, sizeof(*l->all));
    l->settle = calloc(l->nblocks, sizeof(*l->settle));
    l->sites = j->sites = calloc(SG_NATIVE_SITES, sizeof(*l->sites));
    if (!l->first || !l->entry || !l->all || !l->settle || !l->sites) {
        sg_jit_late_free(l);
        return NULL;
    }
    for (u32 i = 0; i < n; i++)
        if (j->leader[i] == 1)
            l->first[k++] = i;
    return l;
}

void sg_jit_late_free(struct sg_late *l)
{
    if (!l)
        return;
    for (u32 k = 0; k < l->ncodes; k++)
        sg_jit_mem_free(l->codes[k].at, l->codes[k].bytes);
    free(l->codes);
    free(l->insns);
    free(l->first);
    free((void *)l->entry);
    free(l->all);
    for (u32 k = 0; k < l->nblocks && l->settle; k++)
        free(l->settle[k].first);
    free(l->settle);
    free(l->sites);
    free(l->j.leader);
    free(l->j.kill);
    free(l->j.addresses);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

u32 sg_jit_late_count(struct sg_late *l)
{
    u32 n;

    pthread_mutex_lock(&l->lock);
    n = l->ncodes;
    pthread_mutex_unlock(&l->lock);
    return n;
}

u32 sg_jit_late_settled(struct sg_late *l)
{
    u32 n = 0;

    pthread_mutex_lock(&l->lock);
    for (u32 k = 0; k < l->nblocks; k++) {
        const u64 entry = atomic_load_explicit(&l->entry[LATE_MASKED * l->nblocks + k], memory_order_relaxed);

        n += l->settle[k].nsites && entry != l->settle[k].usual &&
             entry != (u64)(uintptr_t)l->common[UINT32_MAX - JIT_MISSING];
    }
    pthread_mutex_unlock(&l->lock);
    return n;
}

void sg_jit_late_begin(struct jit *j, const u8 *at, const size_t common[JIT_COMMON])
{
    struct sg_late *l = j->late;

    for (u32 k = 0; k < JIT_COMMON; k++)
        l->common[k] = at + common[k];
    for (u32 k = 0; k < LATE_VERSIONS * l->nblocks; k++)
        atomic_store_explicit(&l->entry[k], (u64)(uintptr_t)l->common[UINT32_MAX - JIT_MISSING],
                              memory_order_relaxed);
    for (u32 k = 0; k < l->nblocks; k++) {
        l->all[k] = (u64)(uintptr_t)(at + j->entry[l->first[k]]);
        l->settle[k].usual += (u64)(uintptr_t)at;
    }
    l->avx2 = j->b.avx2 != NULL;
    l->j = *j;
    l->j.b = (struct buf){.max = j->b.max - j->b.n};
    l->j.late_block = true;
    l->j.entry = l->j.outside = NULL; /* the rest is the first compilation's */
    l->j.stubs = NULL;
    l->j.jumps = NULL;
    l->j.patterns = NULL;
    l->j.windows = NULL;
    l->j.affines = NULL;
    l->j.nstubs = l->j.cap_stubs = l->j.njumps = l->j.cap_jumps = l->j.npatterns = l->j.cap_patterns = 0;
}

/* The place in l->entry of the version of the block that begins at insn. */
static u32 late_index(const struct sg_late *l, u32 version, u32 insn)
{
    return (version - JIT_SOME) * l->nblocks + sg_late_block(l, insn);
}

/* The address of the version of a block that a jump goes to, for all lanes or compiled. */
static u64 late_address(const struct sg_late *l, const struct jump *p)
{
    if (p->masked == JIT_ALL)
        return l->all[sg_late_block(l, p->insn)];
    return atomic_load_explicit(&l->entry[late_index(l, p->masked, p->insn)], memory_order_relaxed);
}

/* Emits the settled version of the block. */
static void late_settled(struct sg_late *l, struct jit *j, u32 block)
{
    const struct late_settle *s = &l->settle[block];

    j->masked = JIT_ALL;
    j->nsites = s->sites;
    j->moves = s->others ? s->moves : NULL;
    sg_jit_settled_compare(j, s);
    sg_jit_block_settled(j, l->first[block], s->affine);
    j->b.failed |= j->nsites != s->sites + s->nsites; /* not as in the first compilation */
    j->nsites = l->j.nsites;
}

/* ---- compilation ---- */

static bool late_is_missing(const struct sg_late *l, u64 entry)
{
    return entry == (u64)(uintptr_t)l->common[UINT32_MAX - JIT_MISSING];
}

/*
 * Offset relative to the code, which will lie at `base`, of the target of a jump: a common place, a version that is
 * compiled, or code added here that asks the table.
 */
static size_t late_target(struct sg_late *l, struct jit *j, const struct jump *p, u32 self)
{
    struct buf *b = B(j);
    const size_t at = b->n;
    u64 entry;
    u32 k;

    if (p->masked == JIT_ALL)
        return SIZE_MAX;
    k = late_index(l, p->masked, p->insn);
    if (k == self)
        return 0;
    entry = atomic_load_explicit(&l->entry[k], memory_order_relaxed);
    if (!late_is_missing(l, entry))
        return SIZE_MAX;
    mov_imm64(b, RCX, k);
    mov_imm64(b, RDX, (u64)(uintptr_t)&l->entry[k]);
    put8(b, 0xff); /* jmp [rdx] */
    put8(b, 0x22);
    return at;
}

/* Patches the jumps and copies the code to its place. Returns its address; NULL: failed. */
static u8 *late_place(struct sg_late *l, struct jit *j, u32 self)
{
    struct buf *b = B(j);
    size_t *to = calloc((size_t)j->njumps + 1, sizeof(*to));
    u8 *at = NULL;

    for (u32 k = 0; to && k < j->njumps; k++) {
        const struct jump *p = &j->jumps[k];
        u32 same = k;

        for (u32 i = k; i-- > 0 && p->insn < j->code->ninsns && same == k;)
            if (j->jumps[i].insn == p->insn && j->jumps[i].masked == p->masked)
                same = i;
        if (p->insn >= j->code->ninsns)
            to[k] = SIZE_MAX;
        else
            to[k] = same < k ? to[same] : late_target(l, j, p, self);
    }
    if (to && !b->failed)
        at = sg_jit_mem_claim(b->n);
    for (u32 k = 0; at && k < j->njumps; k++) {
        const struct jump *p = &j->jumps[k];
        u64 absolute = 0;

        if (p->insn >= j->code->ninsns)
            absolute = (u64)(uintptr_t)l->common[UINT32_MAX - p->insn];
        else if (to[k] == SIZE_MAX)
            absolute = late_address(l, p);
        patch(b, p->at, absolute ? absolute - (u64)(uintptr_t)at : to[k]);
    }
    if (at && !sg_jit_mem_fill(at, b->p, b->n)) {
        sg_jit_mem_free(at, b->n);
        at = NULL;
    }
    free(to);
    return at;
}

/* Room for a compilation, which is too large for the stack of any thread. */
struct late_work {
    struct jit j;
    struct sg_code code;
    struct avx2 avx2;
    struct avx2_fork forks[AVX2_FORKS];
    u8 lie[SG_NATIVE_SITES];
};

/* Compiles version `index` of l->entry, a settled one for the lanes of w. Returns its address; NULL: failed. */
static u8 *late_compile(struct sg_late *l, struct late_work *x, u32 index, const struct sg_warp *w)
{
    struct jit *j = &x->j;
    const u32 block = index % l->nblocks, version = index / l->nblocks;
    u8 *at = NULL;

    *j = l->j;
    x->code = *l->code;
    x->code.insns = l->insns;
    j->code = &x->code;
    x->avx2.forks = x->forks;
    j->b.avx2 = l->avx2 ? &x->avx2 : NULL;
    memcpy(x->lie, w->lie, sizeof(x->lie));
    j->settled = version == LATE_MASKED ? x->lie : NULL;
    j->masked = (u8)(JIT_SOME + version);
    if (j->settled)
        late_settled(l, j, block);
    else
        sg_jit_block(j, l->first[block]);
    sg_jit_stubs(j);
    sg_jit_complete(j);
    sg_jit_patterns(j);
    j->b.failed |= j->native_bytes > l->code->native_bytes;
    if (!j->b.failed)
        at = late_place(l, j, index);
    while (at && j->windows) { /* freed with the kernel's */
        struct sg_window *next = j->windows->next;

        j->windows->next = l->code->windows;
        l->code->windows = j->windows;
        j->windows = next;
    }
    sg_jit_windows_free(j->windows);
    if (at) {
        l->codes[l->ncodes++] = (struct late_code){at, j->b.n};
        l->j.b.max -= j->b.n;
        l->j.table_room = j->table_room;
        l->j.walked = j->walked;
        l->j.nmma = j->nmma;
        l->j.nsites = j->nsites;
    }
    free(j->b.p);
    free(j->stubs);
    free(j->patterns);
    free(j->jumps);
    return at;
}

/* The instructions without the native code that replaced some of them. */
static bool late_has_insns(struct sg_late *l)
{
    const struct sg_code *c = l->code;

    if (l->insns)
        return true;
    l->insns = malloc(c->ninsns * sizeof(*l->insns));
    for (u32 i = 0; l->insns && i < c->ninsns; i++) {
        l->insns[i] = c->insns[i];
        l->insns[i].fn = c->handlers[i];
    }
    return l->insns != NULL;
}

static u64 late_find(struct sg_late *l, u32 index, const struct sg_warp *w)
{
    u64 entry;

    pthread_mutex_lock(&l->lock);
    entry = atomic_load_explicit(&l->entry[index], memory_order_relaxed);
    if (late_is_missing(l, entry)) { /* in another thread neither */
        struct late_work *x = calloc(1, sizeof(*x));
        u8 *at = NULL;

        if (x && late_has_insns(l) && sg_grow(&l->codes, &l->cap_codes, l->ncodes, sizeof(*l->codes)))
            at = late_compile(l, x, index, w);
        free(x);
        if (!at && index >= LATE_MASKED * l->nblocks)
            at = (u8 *)(uintptr_t)l->settle[index % l->nblocks].usual;
        entry = (u64)(uintptr_t)at;
        /* The processors that run the kernel's other threads were interrupted when the code was
           unmapped for writing, so that they have none of what was there before. */
        if (at)
            atomic_store_explicit(&l->entry[index], entry, memory_order_release);
        else
            atomic_store_explicit(&l->failed, true, memory_order_relaxed);
    }
    pthread_mutex_unlock(&l->lock);
    return entry;
}

/* A warp begins a block that has no settled version: where it continues. */
static u64 late_settle(struct sg_warp *w, struct sg_late *l, u32 index)
{
    struct late_settle *s = &l->settle[index % l->nblocks];
    bool now, never;

    pthread_mutex_lock(&l->lock);
    sg_jit_settled_watch(l, s, w);
    now = sg_jit_settled_may(l, s, w, &never);
    pthread_mutex_unlock(&l->lock);
    if (now)
        return late_find(l, index, w);
    if (never) {
        u64 missing = (u64)(uintptr_t)l->common[UINT32_MAX - JIT_MISSING];

        atomic_compare_exchange_strong(&l->entry[index], &missing, s->usual);
    }
    return s->usual;
}

/* A warp comes to a version that is missing: where it continues. */
static struct late_way late_enter(struct sg_warp *w, struct sg_late *l, u32 index)
{
    const u32 i = l->first[index % l->nblocks];
    const struct sg_insn *in = &l->code->insns[i];
    u64 to;
    int step;

    if (index >= LATE_MASKED * l->nblocks)
        return (struct late_way){late_settle(w, l, index), 0};
    to = atomic_load_explicit(&l->failed, memory_order_relaxed) ? 0 : late_find(l, index, w);
    if (to)
        return (struct late_way){to, 0};
    w->cta->icount++;
    step = l->code->handlers[i](w, in);
    if (step == SG_NEXT) {
        w->ip = in + 1;
        step = SG_JUMP;
    }
    return (struct late_way){(u64)(uintptr_t)l->common[UINT32_MAX - JIT_EXIT], (u64)step};
}

void sg_jit_late_common(struct jit *j, size_t at[JIT_COMMON])
{
    const struct sg_late *l = j->late;
    struct buf *b = B(j);
    size_t some;

    at[UINT32_MAX - JIT_MASKED] = b->n;
    mov_imm64(b, RDX, (u64)(uintptr_t)l->entry);
    sg_jit_cmp_upper(j);
    some = jcc(b, JNE);
    alu_imm(b, false, 0, RCX, l->nblocks);
    land(b, some);
    put8(b, 0xff); /* jmp [rdx + 8 * rcx] */
    put8(b, 0x24);
    put8(b, 0xca);
    at[UINT32_MAX - JIT_MISSING] = b->n;
    mov_imm64(b, RSI, (u64)(uintptr_t)l);
    alu_reg(b, false, 0x89, RDX, RCX);
    sg_jit_call_function(j, G_WARP, (u64)(uintptr_t)late_enter);
    alu_reg(b, true, 0x89, RCX, RAX);
    alu_reg(b, true, 0x89, RAX, RDX);
    put8(b, 0xff); /* jmp rcx */
    put8(b, 0xe1);
}

#endif
