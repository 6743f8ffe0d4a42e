/* SPDX-License-Identifier: MIT */
/*
 * Compiles the blocks of a kernel. Within a block, chunks of 64 bytes of the register file live in
 * vector registers; they are written back at its end unless no later instruction reads them.
 */
#include "sg_jit_int.h"

#include <stdlib.h>
#include <string.h>

#ifdef SG_JIT

#define MAX_LIVE_BYTES (64u << 20) /* bit sets of liveness; beyond it everything counts as live */
#define MAX_SWEEPS 64
#define HASH 1024

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool available;
static struct {
    sg_fn fn;
    const struct jop *op;
    bool pure; /* nothing but its result */
} table[HASH];
static sg_fn f_bra, f_bra_if, f_bra_not, f_join, f_brx, f_exit, f_pred_if, f_pred_not, f_fpmode,
    f_wsync, f_ext, f_bar[5], f_exit_if[2];

static u32 hash(sg_fn fn)
{
    return (u32)(((u64)(uintptr_t)fn * 0x9e3779b97f4a7c15ull) >> 54);
}

static void table_add(const struct jop *o, bool pure)
{
    for (; o->name; o++) {
        sg_fn fn = sg_op_find(o->name);
        u32 i;

        if (!fn)
            continue;
        for (i = hash(fn); table[i].fn && table[i].fn != fn; i = (i + 1) & (HASH - 1))
            ;
        table[i].fn = fn;
        table[i].op = o;
        table[i].pure = pure;
    }
}

static const struct jop *find_op(sg_fn fn, bool *pure)
{
    for (u32 i = hash(fn); table[i].fn; i = (i + 1) & (HASH - 1))
        if (table[i].fn == fn) {
            *pure = table[i].pure;
            return table[i].op;
        }
    return NULL;
}

static void init(void)
{
    const char *env = getenv("VGPU_SOFT_JIT");

    if ((env && !strcmp(env, "0")) || strcmp(sg_op_isa(), "avx512") || !sg_jit_mem_init())
        return;
    table_add(sg_jit_ops_alu, true);
    table_add(sg_jit_ops_mem, false);
    f_bra = sg_op_find("bra");
    f_bra_if = sg_op_find("bra.if");
    f_bra_not = sg_op_find("bra.not");
    f_join = sg_op_find("join");
    f_brx = sg_op_find("brx");
    f_exit = sg_op_find("exit");
    f_exit_if[0] = sg_op_find("exit.if");
    f_exit_if[1] = sg_op_find("exit.not");
    f_pred_if = sg_op_find("pred.if");
    f_pred_not = sg_op_find("pred.not");
    f_fpmode = sg_op_find("fpmode");
    f_wsync = sg_op_find("wsync");
    f_ext = sg_op_find("ext");
    f_bar[0] = sg_op_find("bar.sync");
    f_bar[1] = sg_op_find("bar.arrive");
    f_bar[2] = sg_op_find("bar.red.popc");
    f_bar[3] = sg_op_find("bar.red.and");
    f_bar[4] = sg_op_find("bar.red.or");
    available = true;
}

void sg_jit_init(void)
{
    pthread_once(&once, init);
}

bool sg_jit_available(void)
{
    sg_jit_init();
    return available;
}

bool sg_jit_room(struct buf *b, size_t n)
{
    size_t cap = b->cap ? b->cap * 2 : 65536;
    u8 *p = b->failed ? NULL : realloc(b->p, cap);

    (void)n;
    if (!p) {
        b->failed = true;
        return false;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

/* ---- the cache of chunks ---- */

static const struct vop MOV_LOAD = {M0F, P66, 1, 0x6f}, MOV_STORE = {M0F, P66, 1, 0x7f};

static void load_chunk(struct jit *j, u32 v, u32 key)
{
    evm(B(j), MOV_LOAD, v, 0, key >> 31 ? G_POOL : G_REGS, (s32)(key & 0x7fffffffu), 64, 0, 0);
}

void sg_jit_lanes(struct jit *j, u32 k, u32 h, bool wide)
{
    if (!j->masked)
        KONES(B(j), k);
    else if (wide)
        KMOVB_LOAD(B(j), k, G_WARP, (s32)(offsetof(struct sg_warp, mask) + h));
    else
        KMOVW_LOAD(B(j), k, G_WARP, (s32)(offsetof(struct sg_warp, mask) + 2 * h));
}

/* Lanes that do not run keep what they have: only memory has it. */
static void store_chunk(struct jit *j, u32 v, u32 key)
{
    const bool wide = key < j->code->slots32;
    struct vop o = MOV_STORE;

    if (j->masked) {
        sg_jit_lanes(j, 7, wide ? key >> 6 & 3 : key >> 6 & 1, wide);
        o.w = wide;
    }
    evm(B(j), o, v, 0, G_REGS, (s32)key, 64, j->masked ? 7 : 0, 0);
}

void sg_jit_put_pred(struct jit *j, u32 d)
{
    struct buf *b = B(j);

    if (j->masked) { /* d ^ ((d ^ new) & mask) */
        alu_mem(b, false, 0x8b, RCX, G_REGS, (s32)d);
        alu_reg(b, false, 0x31, RAX, RCX);
        alu_mem(b, false, 0x23, RAX, G_WARP, offsetof(struct sg_warp, mask));
        alu_reg(b, false, 0x31, RAX, RCX);
    }
    alu_mem(b, false, 0x89, RAX, G_REGS, (s32)d);
}

static u32 key_of(u32 op, u32 h)
{
    return op & SG_OPND_CONST ? op : op + 64 * h; /* constants are the same in every lane */
}

static u32 find(const struct jit *j, u32 key)
{
    for (u32 i = V_SCRATCH; i < V_COUNT; i++)
        if (j->v[i].key == key)
            return i;
    return 0;
}

static void drop(struct jit *j, u32 i)
{
    j->v[i].key = NO_KEY;
    j->v[i].dirty = false;
    j->v[i].low_bytes = false;
}

u32 sg_jv_new(struct jit *j)
{
    u32 best = 0;

    for (u32 i = V_SCRATCH; i < V_COUNT; i++) {
        const struct vreg *v = &j->v[i];

        if (v->pinned)
            continue;
        if (v->key == NO_KEY) {
            best = i;
            break;
        }
        if (!best || v->used < j->v[best].used)
            best = i;
    }
    if (j->v[best].key != NO_KEY && j->v[best].dirty)
        store_chunk(j, best, j->v[best].key);
    drop(j, best);
    j->v[best].pinned = true;
    j->v[best].used = ++j->clock;
    return best;
}

u32 sg_jv_get(struct jit *j, u32 op, u32 h)
{
    const u32 key = key_of(op, h);
    u32 v = find(j, key);

    if (!v) {
        v = sg_jv_new(j);
        load_chunk(j, v, key);
        j->v[v].key = key;
    }
    j->v[v].pinned = true;
    j->v[v].used = ++j->clock;
    return v;
}

void sg_jv_bind(struct jit *j, u32 op, u32 h, u32 v)
{
    u32 old = find(j, key_of(op, h));

    if (old)
        drop(j, old);
    if (j->kill[j->cur] & F_DEAD)
        return;
    j->v[v].key = key_of(op, h);
    j->v[v].dirty = true;
    j->v[v].low_bytes = false;
}

void sg_jv_unpin(struct jit *j)
{
    for (u32 i = V_SCRATCH; i < V_COUNT; i++)
        j->v[i].pinned = false;
}

static const u32 *field(const struct sg_insn *in, u32 k)
{
    const u32 *f[5] = {&in->d, &in->a, &in->b, &in->c, &in->e};

    return f[k];
}

void sg_jv_kill(struct jit *j, const struct sg_insn *in, u32 h_mask)
{
    const u32 kill = j->kill[j->cur];

    for (u32 k = 0; k < 5; k++) {
        const u32 op = *field(in, k);

        if (!(kill >> k & 1) || (op & SG_OPND_CONST))
            continue;
        for (u32 h = 0; h < 4; h++) {
            u32 v = h_mask >> h & 1 ? find(j, op + 64 * h) : 0;

            if (v)
                drop(j, v);
        }
    }
}

static void flush(struct jit *j)
{
    for (u32 i = V_SCRATCH; i < V_COUNT; i++)
        if (j->v[i].key != NO_KEY && j->v[i].dirty) {
            store_chunk(j, i, j->v[i].key);
            j->v[i].dirty = false;
        }
}

static void forget(struct jit *j)
{
    for (u32 i = 0; i < V_COUNT; i++)
        j->v[i] = (struct vreg){.key = NO_KEY};
}

bool sg_jit_const(const struct jit *j, u32 op, u64 *v, bool wide)
{
    const struct sg_code *c = j->code;
    const u32 off = op & 0x7fffffffu;

    if (!(op & SG_OPND_CONST))
        return false;
    for (u32 i = 0; i < c->nrelocs; i++)
        if (c->relocs[i].offset == off)
            return false; /* an address, which may still change */
    *v = 0;
    memcpy(v, c->pool + off, wide ? 8 : 4);
    return true;
}

struct stub *sg_jit_stub(struct jit *j)
{
    struct stub *s;

    if (!sg_grow(&j->stubs, &j->cap_stubs, j->nstubs, sizeof(*j->stubs))) {
        j->b.failed = true;
        return NULL;
    }
    s = &j->stubs[j->nstubs++];
    s->njumps = 0;
    s->insn = j->cur;
    s->masked = j->masked;
    memcpy(s->v, j->v, sizeof(s->v));
    return s;
}

u32 sg_jit_pattern(struct jit *j, u32 v, u32 bytes)
{
    struct buf *b = B(j);
    struct pattern *p;

    evex_head(b, (struct vop){M38, P66, 0, 0x5a}, v, 0, true, true, 0, 0, false);
    put8(b, (v & 7) << 3 | 5); /* vbroadcasti32x4 v, [rip + distance] */
    if (!sg_grow(&j->patterns, &j->cap_patterns, j->npatterns, sizeof(*j->patterns))) {
        b->failed = true;
        return v;
    }
    p = &j->patterns[j->npatterns++];
    p->at = b->n;
    put32(b, 0);
    for (u32 i = 0; i < 16; i++) {
        const u32 x = bytes >> (8 * (i & 3)) & 255;

        p->bytes[i] = (u8)(x & 0x80 ? x : x + (i & ~3u));
    }
    return v;
}

/* ---- calls of handlers and ways out ---- */

static void jump_to(struct jit *j, size_t at, u32 insn)
{
    if (!sg_grow(&j->jumps, &j->cap_jumps, j->njumps, sizeof(*j->jumps))) {
        j->b.failed = true;
        return;
    }
    j->jumps[j->njumps++] = (struct jump){at, insn, j->masked};
}

#define EXIT UINT32_MAX

/* A handler is compiled code that uses SSE: with the upper halves of the registers in use, its first such
 * instruction would take hundreds of cycles. No register's contents are kept across a call. */
static void call_handler(struct jit *j, u32 insn)
{
    static const u8 vzeroupper[] = {0xc5, 0xf8, 0x77};
    const struct sg_insn *in = &j->code->insns[insn];
    struct buf *b = B(j);

    for (size_t k = 0; k < sizeof(vzeroupper); k++)
        put8(b, vzeroupper[k]);
    alu_reg(b, true, 0x89, RDI, G_WARP);
    mov_imm64(b, RSI, (u64)(uintptr_t)in);
    mov_imm64(b, RAX, (u64)(uintptr_t)in->fn);
    put8(b, 0xff);
    put8(b, 0xd0); /* call rax */
}

/* Returns step with w->ip at an instruction. */
static void leave_at(struct jit *j, u32 insn, u32 step)
{
    struct buf *b = B(j);

    mov_imm64(b, RAX, (u64)(uintptr_t)&j->code->insns[insn]);
    alu_mem(b, true, 0x89, RAX, G_WARP, offsetof(struct sg_warp, ip));
    mov_imm64(b, RAX, step);
    jump_to(j, jmp(b), EXIT);
}

static void generic(struct jit *j, u32 i, u32 good)
{
    struct buf *b = B(j);

    flush(j);
    forget(j);
    call_handler(j, i);
    if (good)
        alu_imm(b, false, 7, RAX, good);
    else
        alu_reg(b, false, 0x85, RAX, RAX);
    jump_to(j, jcc(b, JNE), EXIT);
}

static void count(struct jit *j, u32 n)
{
    alu_mem(B(j), true, 0x8b, RAX, G_CTA, offsetof(struct sg_cta, icount));
    alu_imm(B(j), true, 0, RAX, n);
    alu_mem(B(j), true, 0x89, RAX, G_CTA, offsetof(struct sg_cta, icount));
}

/* With lanes waiting elsewhere: those that wait lower than insn go first. */
static void check_waiting(struct jit *j, u32 insn)
{
    struct buf *b = B(j);
    size_t skip;

    if (!j->masked)
        return;
    mov_imm64(b, RAX, (u64)(uintptr_t)&j->code->insns[insn]);
    alu_mem(b, true, 0x3b, RAX, G_WARP, offsetof(struct sg_warp, min_wait));
    skip = jcc(b, JB);
    leave_at(j, insn, SG_RESCHED);
    patch(b, skip, b->n);
}

/* To a block, over its budget when it lies behind. */
static void go_to(struct jit *j, u32 from, u32 to)
{
    struct buf *b = B(j);
    size_t skip;

    if (to <= from) {
        alu_mem(b, false, 0x8b, RAX, G_WARP, offsetof(struct sg_warp, budget));
        alu_imm(b, false, 5, RAX, 1);
        alu_mem(b, false, 0x89, RAX, G_WARP, offsetof(struct sg_warp, budget));
        skip = jcc(b, 15); /* jg */
        leave_at(j, to, SG_YIELD);
        patch(b, skip, b->n);
    }
    check_waiting(j, to);
    jump_to(j, jmp(b), to);
}

/* A conditional branch at the end of a block: all lanes one way, or as the interpreter does it. */
static void branch(struct jit *j, u32 i)
{
    const struct sg_insn *in = &j->code->insns[i];
    const u32 to = (u32)((s64)i + in->imm);
    struct buf *b = B(j);
    const bool not = in->fn == f_bra_not;
    size_t none, all;

    alu_mem(b, false, 0x8b, RAX, in->a >> 31 ? G_POOL : G_REGS, (s32)(in->a & 0x7fffffffu));
    if (j->masked) {
        alu_mem(b, false, 0x8b, RCX, G_WARP, offsetof(struct sg_warp, mask));
        alu_reg(b, false, 0x21, RAX, RCX);
    } else {
        alu_reg(b, false, 0x85, RAX, RAX);
    }
    none = jcc(b, JE);
    if (j->masked)
        alu_reg(b, false, 0x39, RAX, RCX);
    else
        alu_imm(b, false, 7, RAX, SG_FULL);
    all = jcc(b, JE);
    call_handler(j, i); /* the lanes part: it returns something to do for the interpreter */
    jump_to(j, jmp(b), EXIT);
    patch(b, not ? none : all, b->n);
    go_to(j, i, to);
    patch(b, not ? all : none, b->n);
    check_waiting(j, i + 1);
    jump_to(j, jmp(b), i + 1);
}

/* ---- blocks ---- */

static bool is_bar(sg_fn fn)
{
    for (u32 k = 0; k < 5; k++)
        if (fn == f_bar[k])
            return true;
    return fn == f_exit_if[0] || fn == f_exit_if[1];
}

static bool is_span(sg_fn fn)
{
    return fn == f_pred_if || fn == f_pred_not || fn == f_fpmode;
}

static bool is_branch(sg_fn fn)
{
    return fn == f_bra || fn == f_bra_if || fn == f_bra_not;
}

/* Marks where blocks begin: 1; instructions inside of a span: 2. */
static void find_leaders(struct jit *j)
{
    const struct sg_code *c = j->code;

    j->leader[0] = 1;
    for (u32 i = 0; i < c->ninsns; i++) {
        const struct sg_insn *in = &c->insns[i];

        if (is_branch(in->fn)) {
            j->leader[(u32)((s64)i + in->imm)] = 1;
            j->leader[i + 1] = 1;
        } else if (is_bar(in->fn) || in->fn == f_brx || in->fn == f_exit) {
            j->leader[i + 1] = 1;
        } else if (is_span(in->fn)) {
            for (u32 k = 1; k <= in->aux && i + k < c->ninsns; k++)
                j->leader[i + k] = 2;
            i += in->aux;
        }
    }
    for (u32 k = 0; k < c->ntargets;) {
        const u32 n = c->targets[k++];

        for (u32 e = k + n; k < e && k < c->ntargets; k++)
            j->leader[c->targets[k]] = 1;
    }
}

/* cvt of f16 or an integer to f32 neither takes nor gives denormals: only rounding matters. */
static bool harmless_mode(const struct sg_insn *in)
{
    return in->aux == 1 && (in->imm & 0x6000) == 0;
}

static void block(struct jit *j, u32 first)
{
    const struct sg_code *c = j->code;
    struct buf *b = B(j);
    u32 i = first, done = 0;

    forget(j);
    while (i < c->ninsns && (i == first || j->leader[i] != 1)) {
        const struct sg_insn *in = &c->insns[i];
        const struct jop *o;
        bool pure;

        done++;
        j->cur = i;
        if (is_branch(in->fn)) {
            flush(j);
            count(j, done);
            if (in->fn == f_bra)
                go_to(j, i, (u32)((s64)i + in->imm));
            else
                branch(j, i);
            return;
        }
        if (in->fn == f_join && j->masked) {
            flush(j);
            check_waiting(j, i);
        }
        if (in->fn == f_join || in->fn == f_ext || (in->fn == f_wsync && !j->masked)) {
            i++; /* all lanes are here */
            continue;
        }
        if (in->fn == f_fpmode && harmless_mode(in)) {
            o = find_op(in[1].fn, &pure);
            if (o && (o->arg & 0x80000000u)) {
                i++;
                continue;
            }
        }
        if (is_span(in->fn)) {
            generic(j, i, SG_JUMP);
            i += 1 + in->aux;
            done += in->aux;
            continue;
        }
        o = find_op(in->fn, &pure);
        if (o && pure && (j->kill[i] & F_DEAD)) { /* nobody reads what it gives */
            i++;
            continue;
        }
        if (!o || !o->emit(j, in, o->arg & 0x7fffffffu))
            generic(j, i, SG_NEXT);
        sg_jv_unpin(j);
        i++;
        if (in->fn == f_exit || in->fn == f_brx) { /* never comes back here */
            count(j, done);
            return;
        }
    }
    flush(j);
    count(j, done);
    if (i < c->ninsns)
        jump_to(j, jmp(b), i);
    else
        leave_at(j, c->ninsns - 1, SG_JUMP);
}

/* The way in for the interpreter. */
static void outside(struct jit *j, u32 i)
{
    static const u8 push[] = {0x55, 0x53, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57};
    struct buf *b = B(j);

    for (size_t k = 0; k < sizeof(push); k++)
        put8(b, push[k]);
    alu_reg(b, true, 0x89, G_WARP, RDI);
    alu_mem(b, true, 0x8b, G_REGS, G_WARP, offsetof(struct sg_warp, base));
    alu_mem(b, true, 0x8b, G_POOL, G_WARP, offsetof(struct sg_warp, base) + 8);
    alu_mem(b, true, 0x8b, G_CTA, G_WARP, offsetof(struct sg_warp, cta));
    mov_imm64(b, G_GEN, (u64)(uintptr_t)&sg_mem_generation);
    rex(b, false, 0, G_WARP);
    put8(b, 0x83); /* cmp dword [w + mask], -1 */
    mem_operand(b, 7, G_WARP, offsetof(struct sg_warp, mask), 1);
    put8(b, 0xff);
    j->masked = false;
    jump_to(j, jcc(b, JE), i);
    j->masked = true;
    jump_to(j, jmp(b), i);
}

static void common_exit(struct jit *j)
{
    static const u8 pop[] = {0xc5, 0xf8, 0x77, /* vzeroupper */
                             0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x5b, 0x5d, 0xc3};

    for (size_t k = 0; k < sizeof(pop); k++)
        put8(B(j), pop[k]);
}

/* The checked way of a memory access: everything to memory, the handler, everything back. */
static void emit_stub(struct jit *j, const struct stub *s)
{
    struct buf *b = B(j);

    j->masked = s->masked;
    for (u32 k = 0; k < s->njumps; k++)
        patch(b, s->jumps[k], b->n);
    for (u32 i = V_SCRATCH; i < V_COUNT; i++)
        if (s->v[i].key != NO_KEY && s->v[i].dirty)
            store_chunk(j, i, s->v[i].key);
    call_handler(j, s->insn);
    alu_reg(b, false, 0x85, RAX, RAX);
    jump_to(j, jcc(b, JNE), EXIT);
    for (u32 i = V_SCRATCH; i < V_COUNT; i++)
        if (s->after[i].key != NO_KEY)
            load_chunk(j, i, s->after[i].key);
    patch(b, jmp(b), s->back);
}

/* ---- liveness of slots ---- */

struct live {
    u32 words, nblocks;
    u32 *first; /* of each block; first[nblocks] is the end */
    u32 *block_at;
    u64 *in;
};

static bool tracked(const struct sg_code *c, u32 op)
{
    return !(op & SG_OPND_CONST) && op >= c->slots_begin && op < c->slots_end;
}

static void scan_back(const struct sg_code *c, u32 i, u64 *live, u8 *kill)
{
    const u32 def = c->fields[2 * i], use = c->fields[2 * i + 1];
    const struct sg_insn *in = &c->insns[i];
    u32 k, out = 0, dead = (def & 31) && !(def & F_PARTIAL) ? F_DEAD : 0;

    for (k = 0; k < 5; k++) {
        const u32 op = *field(in, k), s = op >> 7;

        if (!(def >> k & 1))
            continue;
        if (!tracked(c, op) || (live[s >> 6] >> (s & 63) & 1))
            dead = 0;
        if (tracked(c, op) && !(def & F_PARTIAL))
            live[s >> 6] &= ~(1ull << (s & 63));
        if (tracked(c, op) && (def & F_PARTIAL))
            live[s >> 6] |= 1ull << (s & 63);
    }
    for (k = 0; k < 5; k++) {
        const u32 op = *field(in, k), s = op >> 7;

        if ((use >> k & 1) && tracked(c, op) && !(live[s >> 6] >> (s & 63) & 1))
            out |= 1u << k;
    }
    for (k = 0; k < 5; k++) {
        const u32 op = *field(in, k), s = op >> 7;

        if ((use >> k & 1) && tracked(c, op))
            live[s >> 6] |= 1ull << (s & 63);
    }
    if (kill)
        kill[i] = (u8)(out | dead);
}

static void live_out(const struct jit *j, const struct live *x, u32 blk, u64 *out)
{
    const struct sg_code *c = j->code;
    const u32 last = x->first[blk + 1] - 1;
    const struct sg_insn *in = &c->insns[last];
    const bool falls = in->fn != f_bra && in->fn != f_exit;

    memset(out, 0, (size_t)x->words * 8);
    if (in->fn == f_brx || (falls && last + 1 >= c->ninsns)) {
        memset(out, 0xff, (size_t)x->words * 8);
        return;
    }
    if (is_branch(in->fn))
        memcpy(out, x->in + (size_t)x->block_at[(u32)((s64)last + in->imm)] * x->words,
               (size_t)x->words * 8);
    if (falls)
        for (u32 w = 0; w < x->words; w++)
            out[w] |= x->in[(size_t)(blk + 1) * x->words + w];
}

static void find_kills(struct jit *j)
{
    const struct sg_code *c = j->code;
    struct live x = {.words = ((c->slots_end >> 7) + 64) / 64};
    u64 *out = malloc((size_t)x.words * 8);
    bool changed = true;

    x.first = malloc(((size_t)c->ninsns + 2) * sizeof(u32));
    x.block_at = malloc(((size_t)c->ninsns + 1) * sizeof(u32));
    if (!x.first || !x.block_at || !out)
        goto end;
    for (u32 i = 0; i < c->ninsns; i++) {
        if (j->leader[i] == 1)
            x.first[x.nblocks++] = i;
        x.block_at[i] = x.nblocks - 1;
    }
    x.first[x.nblocks] = c->ninsns;
    if ((u64)x.nblocks * x.words * 8 > MAX_LIVE_BYTES)
        goto end;
    x.in = calloc((size_t)x.nblocks + 1, (size_t)x.words * 8);
    if (!x.in)
        goto end;
    for (u32 sweep = 0; changed && sweep < MAX_SWEEPS; sweep++) {
        changed = false;
        for (u32 k = x.nblocks; k-- > 0;) {
            live_out(j, &x, k, out);
            for (u32 i = x.first[k + 1]; i-- > x.first[k];)
                scan_back(c, i, out, NULL);
            if (memcmp(out, x.in + (size_t)k * x.words, (size_t)x.words * 8)) {
                memcpy(x.in + (size_t)k * x.words, out, (size_t)x.words * 8);
                changed = true;
            }
        }
    }
    if (!changed)
        for (u32 k = x.nblocks; k-- > 0;) {
            live_out(j, &x, k, out);
            for (u32 i = x.first[k + 1]; i-- > x.first[k];)
                scan_back(c, i, out, j->kill);
        }
end:
    free(x.first);
    free(x.block_at);
    free(x.in);
    free(out);
}

/* ---- a kernel ---- */

static void compile(struct jit *j)
{
    struct sg_code *c = j->code;
    size_t end;

    find_leaders(j);
    find_kills(j);
    for (u32 i = 0; i < c->ninsns && !j->b.failed; i++) {
        if (j->leader[i] != 1)
            continue;
        j->outside[i] = j->b.n + 1;
        outside(j, i);
        for (u32 k = 0; k < 2; k++) {
            j->masked = k;
            j->entry[k][i] = j->b.n;
            block(j, i);
        }
    }
    for (u32 k = 0; k < j->nstubs && !j->b.failed; k++)
        emit_stub(j, &j->stubs[k]);
    end = j->b.n;
    common_exit(j);
    for (u32 k = 0; k < j->npatterns; k++) {
        patch(B(j), j->patterns[k].at, j->b.n);
        for (u32 i = 0; i < 16; i++)
            put8(B(j), j->patterns[k].bytes[i]);
    }
    for (u32 k = 0; k < j->njumps; k++) {
        const struct jump *p = &j->jumps[k];

        patch(B(j), p->at, p->insn >= c->ninsns ? end : j->entry[p->masked][p->insn]);
    }
}

void sg_jit_compile(struct sg_code *c)
{
    struct jit j = {.code = c};
    u8 *at = NULL;

    /* real calls go to places that the branches do not tell: they are interpreted */
    if (!sg_jit_available() || !c->ninsns || !c->fields || c->jit || c->calls)
        return;
    j.leader = calloc((size_t)c->ninsns + 1, 1);
    j.kill = calloc((size_t)c->ninsns + 1, 1);
    j.entry[0] = calloc((size_t)c->ninsns + 1, sizeof(size_t));
    j.entry[1] = calloc((size_t)c->ninsns + 1, sizeof(size_t));
    j.outside = calloc((size_t)c->ninsns + 1, sizeof(*j.outside));
    c->handlers = calloc(c->ninsns, sizeof(*c->handlers));
    if (j.leader && j.kill && j.entry[0] && j.entry[1] && j.outside && c->handlers) {
        compile(&j);
        at = j.b.failed ? NULL : sg_jit_mem_put(j.b.p, j.b.n);
    }
    if (at) {
        c->jit = at;
        c->jit_bytes = j.b.n;
        for (u32 i = 0; i < c->ninsns; i++) {
            c->handlers[i] = c->insns[i].fn;
            if (j.outside[i])
                c->insns[i].fn = (sg_fn)(uintptr_t)(at + j.outside[i] - 1);
        }
    } else {
        free(c->handlers);
        c->handlers = NULL;
    }
    free(j.leader);
    free(j.kill);
    free(j.entry[0]);
    free(j.entry[1]);
    free(j.outside);
    free(j.stubs);
    free(j.patterns);
    free(j.jumps);
    free(j.b.p);
}

void sg_jit_free(struct sg_code *c)
{
    sg_jit_mem_free(c->jit, c->jit_bytes);
    free(c->handlers);
    free(c->fields);
    c->jit = NULL;
    c->handlers = NULL;
    c->fields = NULL;
}

sg_fn sg_jit_handler(const struct sg_code *c, const struct sg_insn *in)
{
    return c->handlers ? c->handlers[in - c->insns] : in->fn;
}

#else

void sg_jit_init(void)
{
}

bool sg_jit_available(void)
{
    return false;
}

void sg_jit_compile(struct sg_code *c)
{
    (void)c;
}

void sg_jit_free(struct sg_code *c)
{
    free(c->fields);
    c->fields = NULL;
}

sg_fn sg_jit_handler(const struct sg_code *c, const struct sg_insn *in)
{
    (void)c;
    return in->fn;
}

#endif
