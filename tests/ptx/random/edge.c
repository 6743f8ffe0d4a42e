/* SPDX-License-Identifier: MIT */
/*
 * Accesses at both ends of memory: every width and kind of access, addresses of the lanes in rows, strides,
 * reversed or all equal, with lanes missing, in each space. An instruction first runs inside the memory
 * several times, to warm its caches, and then at the edge: inside to the last byte, or a lane, a byte or far
 * beyond. The launch's result (error, lane, address, size) and the values read and written are compared with
 * single lanes in ascending order; memory around the allocation must not change.
 */
#include "edge.h"
#include "device.h"
#include "gen.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS 4 /* the last turn is at the edge */
#define LANES 32
#define ROOM_MIN 2048
#define ROOM_MAX (ROOM_MIN + 256)
#define MARGIN 4096
#define INSNS 3
#define TEXT 8192
#define CANARY 0xa5

enum what { LOAD, STORE, RED, ATOM };
static const char *const what_names[] = {"ld", "st", "red", "atom"};

static const struct access {
    enum what what;
    const char *type, *regs;
    u32 bytes, words; /* in all; registers of a vector */
} accesses[] = {
    {LOAD, "u8", "%w0", 1, 1},
    {LOAD, "s8", "%w0", 1, 1},
    {LOAD, "u16", "%w0", 2, 1},
    {LOAD, "s16", "%w0", 2, 1},
    {LOAD, "b32", "%w0", 4, 1},
    {LOAD, "b64", "%d0", 8, 1},
    {LOAD, "v2.b32", "{%w0, %w1}", 8, 2},
    {LOAD, "v4.b32", "{%w0, %w1, %w2, %w3}", 16, 4},
    {LOAD, "v2.b64", "{%d0, %d1}", 16, 2},
    {STORE, "b8", "%w0", 1, 1},
    {STORE, "b16", "%h0", 2, 1},
    {STORE, "b32", "%w0", 4, 1},
    {STORE, "b64", "%d0", 8, 1},
    {STORE, "v2.b32", "{%w0, %w1}", 8, 2},
    {STORE, "v4.b32", "{%w0, %w1, %w2, %w3}", 16, 4},
    {STORE, "v2.b64", "{%d0, %d1}", 16, 2},
    {RED, "add.u32", "%w0", 4, 1},
    {RED, "add.u64", "%d0", 8, 1},
    {ATOM, "add.u32", "%w0", 4, 1},
    {ATOM, "exch.b64", "%d0", 8, 1},
};
#define NACCESSES (sizeof(accesses) / sizeof(accesses[0]))

enum space { GLOBAL, GENERIC, SHARED, LOCAL };
static const char *const space_names[] = {".global", "", ".shared", ".local"};

/* Which lanes run, and whether by a guard or a branch around. */
enum who { ALL, ALONE, LOW, HIGH, ODD };

struct edge {
    const struct access *a;
    enum space space;
    enum who who;
    bool branch, flat;
    s32 step; /* bytes from a lane to the next */
    u32 alone, block, n, size;
    s32 imm[INSNS];
    s64 warm, last;
};

static char text[TEXT];
static u8 model[ROOM_MAX];
static u64 sums[LANES];

static bool runs(const struct edge *e, u32 lane)
{
    switch (e->who) {
    case ALONE:
        return lane == e->alone;
    case LOW:
        return lane < 16;
    case HIGH:
        return lane >= 16;
    case ODD:
        return lane & 1;
    default:
        return true;
    }
}

static s64 lane_offset(const struct edge *e, u32 lane)
{
    if (e->flat)
        return 0;
    return e->step >= 0 ? (s64)lane * e->step : (s64)(LANES - 1 - lane) * -e->step;
}

/* ---- the program ---- */

static size_t put_guard(const struct edge *e, char *at, size_t room)
{
    static const char *const conditions[] = {[ALONE] = "eq", [LOW] = "lt", [HIGH] = "ge", [ODD] = "ne"};
    const u32 than = e->who == ALONE ? e->alone : e->who == ODD ? 0 : 16;

    if (e->who == ALL)
        return 0;
    return (size_t)snprintf(at, room, "and.b32 %%u, %%t, %d;\nsetp.%s.u32 %%go, %%u, %u;\n",
                            e->who == ODD ? 1 : 63, conditions[e->who], than);
}

static size_t put_access(const struct edge *e, u32 k, char *at, size_t room)
{
    const struct access *a = e->a;
    const char *guard = e->who == ALL || e->branch ? "" : "@%go ";
    const char *regs = a->regs, *space = space_names[e->space];

    if (a->what == LOAD)
        return (size_t)snprintf(at, room, "%sld%s.%s %s, [%%at+%d];\n", guard, space, a->type, regs,
                                e->imm[k]);
    if (a->what == ATOM)
        return (size_t)snprintf(at, room, "%satom%s.%s %s, [%%at+%d], %s;\n", guard, space, a->type,
                                a->bytes == 8 ? "%d1" : "%w1", e->imm[k], regs);
    return (size_t)snprintf(at, room, "%s%s%s.%s [%%at+%d], %s;\n", guard, what_names[a->what], space,
                            a->type, e->imm[k], regs);
}

#define P(...) n += (size_t)snprintf(text + n, n < TEXT ? TEXT - n : 0, __VA_ARGS__)

static size_t write_edge(const struct edge *e)
{
    const bool own = e->space == SHARED || e->space == LOCAL;
    size_t n = 0;

    P(".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry t(.param .u64 mem, .param .u64 out, .param .u64 warm, "
      ".param .u64 last)\n{\n");
    if (own)
        P("%s .align 16 .b8 own[%u];\n", space_names[e->space], e->size);
    P(".reg .b32 %%w<4>, %%t, %%u, %%i, %%x;\n.reg .b16 %%h0;\n.reg .b64 %%d<2>, %%base, %%out, %%warm, %%last, %%rel, %%lane, %%at, "
      "%%sum, %%v;\n.reg .pred %%go, %%p;\nld.param.u64 %%out, [out];\nld.param.u64 %%warm, [warm];\n"
      "ld.param.u64 %%last, [last];\nmov.u32 %%t, %%tid.x;\n");
    if (own) { /* filled as the global memory is; each thread writes the same */
        P("mov.u64 %%base, own;\nmov.u32 %%i, 0;\nF: mad.lo.u32 %%x, %%i, 37, 11;\ncvt.u64.u32 %%at, %%i;\n"
          "add.u64 %%at, %%at, %%base;\nst%s.b8 [%%at], %%x;\nadd.u32 %%i, %%i, 1;\nsetp.lt.u32 %%p, %%i, %u;\n"
          "@%%p bra F;\nbar.sync 0;\n",
          space_names[e->space], e->size);
    } else {
        P("ld.param.u64 %%base, [mem];\n");
    }
    if (e->flat)
        P("mov.u64 %%lane, 0;\n");
    else if (e->step >= 0)
        P("mul.wide.u32 %%lane, %%t, %d;\n", e->step);
    else
        P("sub.u32 %%u, %d, %%t;\nmul.wide.u32 %%lane, %%u, %d;\n", LANES - 1, -e->step);
    n += put_guard(e, text + n, TEXT - n);
    P("mov.u64 %%sum, 0;\nmov.u32 %%i, 0;\nmov.u64 %%rel, %%warm;\nL:\nadd.u64 %%at, %%base, %%rel;\n");
    if (!e->flat)
        P("add.u64 %%at, %%at, %%lane;\n");
    if (e->branch && e->who != ALL)
        P("@!%%go bra S;\n");
    for (u32 k = 0; k < e->n; k++) {
        if (e->a->what != LOAD || !k)
            P("add.u32 %%w0, %%t, 1;\nadd.u32 %%w1, %%t, 100;\nadd.u32 %%w2, %%t, 200;\nadd.u32 %%w3, %%t, 300;\n"
              "cvt.u64.u32 %%d0, %%w0;\ncvt.u64.u32 %%d1, %%w1;\ncvt.u16.u32 %%h0, %%w0;\n");
        n += put_access(e, k, text + n, TEXT - n);
        if (e->a->what == LOAD)
            P("cvt.u64.u32 %%v, %%w0;\nadd.u64 %%v, %%v, %%d0;\n%sadd.u64 %%sum, %%sum, %%v;\n",
              e->who == ALL || e->branch ? "" : "@%go ");
    }
    P("S:\nadd.u32 %%i, %%i, 1;\nsetp.eq.u32 %%p, %%i, %d;\nselp.b64 %%rel, %%last, %%warm, %%p;\n"
      "setp.lt.u32 %%p, %%i, %d;\n@%%p bra L;\nmad.wide.u32 %%out, %%t, 8, %%out;\nst.global.u64 [%%out], %%sum;\nret;\n}\n",
      ROUNDS - 1, ROUNDS);
    return n < TEXT ? n : 0;
}
#undef P

/* ---- expected effect ---- */

struct outcome {
    int result;
    u32 lane;
    u64 offset; /* from the start of the memory */
};

static u64 read_model(const u8 *p, u32 bytes, bool sign)
{
    u64 v = 0;

    memcpy(&v, p, bytes < 8 ? bytes : 8);
    if (sign)
        v = bytes == 1 ? (u32)(s32)(signed char)v : (u32)(s32)(s16)v;
    return v;
}

static void do_lane(const struct edge *e, u32 lane, u8 *p)
{
    const struct access *a = e->a;
    const u32 each = a->bytes / a->words;
    u64 old = 0;

    if (a->what == LOAD) {
        const u64 v = read_model(p, each, a->type[0] == 's');

        sums[lane] += each == 8 ? lane + 1 + v : v + (lane + 1);
        return;
    }
    for (u32 k = 0; k < a->words; k++) {
        const u64 v = lane + (k ? 100 * k : 1u);

        if (a->what == RED || !strncmp(a->type, "add", 3))
            memcpy(&old, p, each);
        old += v;
        memcpy(p + k * each, &old, each);
        old = 0;
    }
}

static bool expect(const struct edge *e, struct outcome *o)
{
    *o = (struct outcome){0, 0, 0};
    memset(sums, 0, sizeof(sums));
    for (u32 i = 0; i < ROOM_MAX; i++)
        model[i] = (u8)(i * 37 + 11);
    for (u32 round = 0; round < ROUNDS; round++)
        for (u32 k = 0; k < e->n; k++) {
            const s64 at = (round == ROUNDS - 1 ? e->last : e->warm) + e->imm[k];

            for (u32 lane = 0; lane < e->block; lane++) {
                const s64 off = at + lane_offset(e, lane);

                if (!runs(e, lane))
                    continue;
                *o = (struct outcome){0, lane, (u64)off};
                if (e->space >= SHARED && off != (u32)off)
                    o->result = 700; /* not an address of a window, for any alignment */
                else if (off & (e->a->bytes - 1))
                    o->result = 716;
                else if (off < 0 || off + e->a->bytes > e->size)
                    o->result = 700;
                if (o->result)
                    return false;
                do_lane(e, lane, model + off);
            }
        }
    return true;
}

/* ---- a random program ---- */

static s64 beyond(u32 bytes)
{
    switch (rnd(8)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
    case 3:
        return bytes;
    case 4:
        return (s64)bytes * (1 + rnd(LANES));
    case 5:
        return (s64)bytes * LANES;
    case 6:
        return rnd(2) ? 1ll << 20 : 1ll << 33;
    default:
        return bytes / 2;
    }
}

static void pick_lanes(struct edge *e)
{
    static const s32 steps[] = {1, 1, 1, 1, 2, -1, -1};

    e->who = rnd(3) ? ALL : (enum who)rnd(ODD + 1);
    e->branch = rnd(2);
    e->flat = rnd(6) == 0;
    e->step = steps[rnd(sizeof(steps) / sizeof(steps[0]))] * (s32)e->a->bytes;
    e->block = rnd(4) ? LANES : 1 + rnd(LANES);
    e->alone = rnd(3) ? 0 : rnd(e->block);
    if (e->who == HIGH && e->block <= 16)
        e->who = ALL;
    if (e->who == ODD && e->block < 2)
        e->who = ALL;
}

static void build_edge(struct edge *e, u64 seed)
{
    s64 low = INT64_MAX, high = INT64_MIN;

    rnd_seed(seed ^ 0xedbe);
    memset(e, 0, sizeof(*e));
    e->a = &accesses[rnd(NACCESSES)];
    e->space = (enum space)rnd(LOCAL + 1);
    if (e->space == LOCAL && e->a->what >= RED) /* there are none */
        e->space = GLOBAL;
    pick_lanes(e);
    e->n = e->a->what == LOAD && rnd(2) ? 1 + rnd(INSNS) : 1;
    e->size = ROOM_MIN + 16 * rnd(15) + (e->space < SHARED ? rnd(16) : 0);
    e->imm[0] = (s32)e->a->bytes * ((s32)rnd(16) - 8);
    for (u32 k = 1; k < e->n; k++)
        e->imm[k] = e->imm[0] + (s32)(k * e->a->bytes);
    for (u32 lane = 0; lane < e->block; lane++)
        for (u32 k = 0; k < e->n && runs(e, lane); k++) {
            const s64 at = lane_offset(e, lane) + e->imm[k];

            low = at < low ? at : low;
            high = at + e->a->bytes > high ? at + e->a->bytes : high;
        }
    const s64 align = e->a->bytes, end = (e->size - high) & ~(align - 1);

    e->warm = ((-low + 15) & ~15ll) + 16 * rnd(4);
    e->last = rnd(2) ? end + beyond(e->a->bytes) : -low - beyond(e->a->bytes);
}

/* ---- running and comparing ---- */

static bool right_end(const struct edge *e, const struct sg_fault *f, int r, const struct outcome *o,
                      const u8 *mem, char *why, size_t room)
{
    const u64 at = (uintptr_t)mem + o->offset;

    if (r == o->result &&
        (!r || (f->thread[0] == o->lane && f->access_size == e->a->bytes &&
                f->is_write == (e->a->what != LOAD) && (e->space >= SHARED || f->address == at))))
        return true;
    snprintf(why, room, "result %d of thread %u, %s of %u bytes at %+lld; expected %d of thread %u at %+lld",
             r, f->thread[0], f->is_write ? "write" : "read", f->access_size,
             (long long)(f->address - (uintptr_t)mem), o->result, o->lane, (long long)o->offset);
    return false;
}

static bool beside_untouched(const u8 *mem, u32 size)
{
    for (u32 i = 0; i < MARGIN; i++)
        if (mem[(s64)i - MARGIN] != CANARY || mem[size + i] != CANARY)
            return false;
    return true;
}

static bool launch_edge(const struct edge *e, struct sg_module *m, char *why, size_t room)
{
    u8 *mem = fz_alloc_between(e->size, MARGIN, CANARY);
    u64 *out = fz_alloc(LANES * 8);
    const u64 params[] = {(uintptr_t)mem, (uintptr_t)out, (u64)e->warm, (u64)e->last};
    struct sg_launch l = {.kernel = sg_module_kernel(m, 0),
                          .grid = {1, 1, 1},
                          .block = {e->block, 1, 1},
                          .params = params,
                          .max_instructions = 10000000};
    struct sg_fault f = {.message = ""};
    struct outcome o;
    const bool whole = expect(e, &o);

    for (u32 i = 0; i < e->size; i++)
        mem[i] = (u8)(i * 37 + 11);
    const int r = sg_exec_launch(&l, &f);

    if (!right_end(e, &f, r, &o, mem, why, room))
        return false;
    snprintf(why, room, "bytes beside the memory have changed");
    if (!beside_untouched(mem, e->size))
        return false;
    snprintf(why, room, "what was read or written differs");
    return !whole ||
           (!memcmp(sums, out, e->block * 8) && (e->space >= SHARED || !memcmp(mem, model, e->size)));
}

bool edge_run(u64 seed, char *why, size_t room)
{
    struct sg_module *m;
    struct sg_diag d;
    struct edge e;
    bool ok = false;
    size_t n;

    build_edge(&e, seed);
    n = write_edge(&e);
    if (!n || sg_module_parse(text, n, &m, &d)) {
        snprintf(why, room, "not parsed: line %u: %s", d.line, d.message);
        return false;
    }
    if (sg_kernel_prepare(sg_module_kernel(m, 0), &d))
        snprintf(why, room, "not decoded: line %u: %s", d.line, d.message);
    else
        ok = launch_edge(&e, m, why, room);
    sg_module_free(m);
    fz_free_all();
    return ok;
}

const char *edge_text(void)
{
    return text;
}
