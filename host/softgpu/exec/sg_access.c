/* SPDX-License-Identifier: MIT */
/* Memory accesses one lane at a time: every check, every fault, every address space. */
#define _GNU_SOURCE
#include "exec/ops/address.h"
#include "exec/code.h"
#include "exec/heap.h"
#include "exec/run.h"

#include <stdio.h>
#include <sys/mman.h>

struct sg_windows sg_win;

static pthread_once_t win_once = PTHREAD_ONCE_INIT;

static void win_make(void)
{
    const size_t total =
        SG_WIN_CLUSTER_SIZE + SG_WIN_LOCAL_SIZE + SG_WIN_PARAM_SIZE + SG_WIN_CODE_SIZE + SG_WIN_GRID_SIZE;
    void *p = sg_guest_reserve(total, PROT_NONE);

    if (p == MAP_FAILED)
        return;
    sg_win.shared = (uint64_t)(uintptr_t)p;
    sg_win.local = sg_win.shared + SG_WIN_CLUSTER_SIZE;
    sg_win.param = sg_win.local + SG_WIN_LOCAL_SIZE;
    sg_win.code = sg_win.param + SG_WIN_PARAM_SIZE;
    sg_win.grid = sg_win.code + SG_WIN_CODE_SIZE;
}

bool sg_windows_init(void)
{
    pthread_once(&win_once, win_make);
    return sg_win.shared != 0;
}

static const char *const space_names[] = {"global", "global", "shared", "local", "param", "const"};

static void fault_where(struct sg_warp *w, const struct sg_insn *in, uint32_t lane, int result)
{
    struct sg_fault *f = w->cta->fault;

    memset(f, 0, sizeof(*f));
    f->result = result;
    f->line = in->line;
    for (int k = 0; k < 3; k++) {
        f->block[k] = w->cta->ctaid[k];
        f->thread[k] = w->tid[k][lane & (SG_LANES - 1)];
    }
}

int sg_fault_set(struct sg_warp *w, const struct sg_insn *in, uint32_t lane, int result, const char *what)
{
    struct sg_fault *f = w->cta->fault;

    fault_where(w, in, lane, result);
    snprintf(f->message, sizeof(f->message), "%s: %s, block (%u,%u,%u) thread (%u,%u,%u), PTX line %u",
             w->cta->code->name, what, f->block[0], f->block[1], f->block[2], f->thread[0], f->thread[1],
             f->thread[2], in->line);
    return SG_FAULTED;
}

int sg_fault_addr(struct sg_warp *w, const struct sg_insn *in, uint32_t lane, int result, enum sg_space sp,
                  uint64_t addr, uint32_t size, bool write)
{
    struct sg_fault *f = w->cta->fault;

    fault_where(w, in, lane, result);
    f->address = addr;
    f->access_size = size;
    f->is_write = write;
    snprintf(f->space, sizeof(f->space), "%s", space_names[sp]);
    snprintf(f->message, sizeof(f->message),
             "%s: %s of %u bytes at %s address 0x%llx %s (%s), block (%u,%u,%u) thread "
             "(%u,%u,%u), PTX line %u",
             w->cta->code->name, write ? "write" : "read", size, f->space, (unsigned long long)addr,
             result == SG_ERR_MISALIGNED ? "is misaligned" : "is out of bounds",
             w->cta->run->op_name(sg_code_handler(w->cta->code, in)), f->block[0], f->block[1], f->block[2],
             f->thread[0], f->thread[1], f->thread[2], in->line);
    return SG_FAULTED;
}

static void *resolve_global(struct sg_warp *w, const struct sg_insn *in, uint32_t lane, enum sg_space sp,
                            uint64_t addr, uint32_t size, bool write)
{
    struct sg_cta *c = w->cta;
    struct sg_mem_range *r = &c->cache[in->idx & (SG_RANGE_CACHE - 1)], hit;

    if (r->generation == SG_GENERATION() && (!write || r->writable) &&
        sg_span_has(r->base, r->end - r->base, addr, size))
        return (void *)(uintptr_t)addr;
    if (c->workspace && sg_span_has(sg_win.grid, SG_GRID_WORKSPACE, addr, size))
        return c->workspace + (addr - sg_win.grid);
    memset(&hit, 0, sizeof(hit));
    sg_heap_range(&hit.base, &hit.end);
    if (hit.end && sg_span_has(hit.base, hit.end - hit.base, addr, size)) {
        hit.generation = SG_GENERATION();
        hit.writable = true;
        *r = hit;
        return (void *)(uintptr_t)addr;
    }
    if (!sg_mem_check(c->mem, addr, size, write, &hit)) {
        sg_fault_addr(w, in, lane, SG_ERR_ADDRESS, sp, addr, size, write);
        return NULL;
    }
    *r = hit;
    return (void *)(uintptr_t)addr;
}

bool sg_range_refill(struct sg_warp *w, const struct sg_insn *in, uint32_t size, bool write)
{
    const uint64_t addr = SRC(u64, a)[__builtin_ctz(w->mask)] + (uint64_t)in->imm;
    struct sg_mem_range hit;

    memset(&hit, 0, sizeof(hit));
    if (!sg_mem_check(w->cta->mem, addr, size, write, &hit))
        return false;
    w->cta->cache[in->idx & (SG_RANGE_CACHE - 1)] = hit;
    return true;
}

/* The block of the cluster whose shared memory contains this window offset. NULL: none. */
static struct sg_cta *block_of(struct sg_cta *c, uint64_t at)
{
    const uint64_t slot = at / SG_WIN_SHARED_SIZE;

    if (!slot)
        return c;
    return c->cluster_size > 1 && slot <= c->cluster_size ? sg_cluster_block(c, (uint32_t)slot - 1) : NULL;
}

void *sg_resolve(struct sg_warp *w, const struct sg_insn *in, uint32_t lane, enum sg_space sp, uint64_t addr,
                 uint32_t size, uint32_t align, bool write, uint32_t *local)
{
    struct sg_cta *c = w->cta;
    uint64_t a = addr;

    *local = 0;
    if (addr & (align - 1)) {
        sg_fault_addr(w, in, lane, SG_ERR_MISALIGNED, sp, addr, size, write);
        return NULL;
    }
    if (sp == SG_SP_GENERIC || sp == SG_SP_PARAM) {
        if (a - sg_win.shared < SG_WIN_CLUSTER_SIZE && sp == SG_SP_GENERIC) {
            sp = SG_SP_SHARED;
            a -= sg_win.shared;
        } else if (a - sg_win.local < SG_WIN_LOCAL_SIZE && sp == SG_SP_GENERIC) {
            sp = SG_SP_LOCAL;
            a -= sg_win.local;
        } else if (a - sg_win.param < SG_WIN_PARAM_SIZE) {
            a -= sg_win.param;
            if (write || !sg_bytes_have(c->param_bytes, a, size)) {
                sg_fault_addr(w, in, lane, SG_ERR_ADDRESS, SG_SP_PARAM, addr, size, write);
                return NULL;
            }
            return (void *)(uintptr_t)(c->params + a);
        } else if (sp == SG_SP_PARAM) { /* a parameter of a function */
            sp = SG_SP_LOCAL;
        }
    }
    switch (sp) {
    case SG_SP_SHARED:
        c = block_of(c, a);
        if (c && sg_bytes_have(c->shared_bytes, a % SG_WIN_SHARED_SIZE, size))
            return c->shared + a % SG_WIN_SHARED_SIZE;
        break;
    case SG_SP_LOCAL:
        if (sg_bytes_have(c->local_bytes, a, size)) {
            *local = (uint32_t)a + 1;
            return w->local;
        }
        break;
    default:
        return resolve_global(w, in, lane, sp, addr, size, write);
    }
    sg_fault_addr(w, in, lane, SG_ERR_ADDRESS, sp, addr, size, write);
    return NULL;
}

static void local_copy(struct sg_warp *w, uint32_t lane, uint32_t off, uint8_t *buf, uint32_t n, bool write)
{
    /* an aligned word lies in one piece */
    for (; n >= 4 && !(off & 3); n -= 4, off += 4, buf += 4) {
        uint8_t *p = sg_local_word(w, lane, off);

        if (write)
            memcpy(p, buf, 4);
        else
            memcpy(buf, p, 4);
    }
    for (uint32_t k = 0; k < n; k++) {
        uint8_t *p = sg_local_word(w, lane, off + k);

        if (write)
            *p = buf[k];
        else
            buf[k] = *p;
    }
}

bool sg_lane_read(struct sg_warp *w, const struct sg_insn *in, uint32_t lane, enum sg_space sp, uint64_t addr,
                  void *buf, uint32_t size)
{
    uint32_t local;
    void *p = sg_resolve(w, in, lane, sp, addr, size, 1, false, &local);

    if (!p)
        return false;
    if (local)
        local_copy(w, lane, local - 1, buf, size, false);
    else
        memcpy(buf, p, size);
    return true;
}

static uint64_t lane_address(const struct sg_warp *w, const struct sg_insn *in, uint32_t lane)
{
    if (in->aux & SG_AUX_ADDR32)
        return (uint32_t)(SRC(u32, a)[lane] + (uint32_t)in->imm);
    return SRC(u64, a)[lane] + (uint64_t)in->imm;
}

/* A naturally aligned element, read or written as a whole. */
static void access_element(void *host, uint8_t *buf, uint32_t size, bool write)
{
    switch (size) {
#define ELEMENT(n, T) \
    case n: \
        if (write) \
            *(volatile T *)host = *(T *)(void *)buf; \
        else \
            *(T *)(void *)buf = *(volatile T *)host; \
        break;
        ELEMENT(1, u8)
        ELEMENT(2, u16)
        ELEMENT(4, u32)
        ELEMENT(8, u64)
    default:
        break;
#undef ELEMENT
    }
}

/* Words of local memory at the same address in all lanes, which form rows of 32. Returns false,
   with nothing done, if the access is not of this kind. */
static bool local_rows(struct sg_warp *w, const struct sg_insn *in, bool write)
{
    const uint32_t esize = SG_AUX_ELEM(in->aux), n = SG_AUX_VEC(in->aux), words = esize / 4;
    const uint32_t reg[4] = {in->d, in->b, in->c, in->e}, total = esize * n;
    const uint64_t at = lane_address(w, in, (uint32_t)__builtin_ctz(w->mask));

    if (SG_AUX_SPACE(in->aux) != SG_SP_LOCAL || !words || n > 4 ||
        !sg_bytes_have(w->cta->local_bytes, at, total) || (at & (total - 1)))
        return false;
    for (uint32_t m = w->mask; m; m &= m - 1)
        if (lane_address(w, in, (uint32_t)__builtin_ctz(m)) != at)
            return false;
    for (uint32_t k = 0; k < n * words; k++) {
        uint32_t *row = (uint32_t *)(void *)sg_local_word(w, 0, (uint32_t)at + 4 * k);
        uint8_t *r =
            write ? (uint8_t *)(uintptr_t)sg_src_ptr(w, reg[k / words]) : w->base[0] + reg[k / words];
        uint32_t *v = (uint32_t *)(void *)r + k % words;

        for (uint32_t m = w->mask; m; m &= m - 1) {
            const uint32_t i = (uint32_t)__builtin_ctz(m);

            if (write)
                row[i] = v[i * words];
            else
                v[i * words] = row[i];
        }
    }
    return true;
}

static int access_slow(struct sg_warp *w, const struct sg_insn *in, bool write)
{
    const uint32_t esize = SG_AUX_ELEM(in->aux), n = SG_AUX_VEC(in->aux);
    const uint32_t reg[4] = {in->d, in->b, in->c, in->e};
    const enum sg_space sp = (enum sg_space)SG_AUX_SPACE(in->aux);
    uint8_t whole[16] __attribute__((aligned(16)));
    bool at_once;

    if (in->aux & SG_AUX_SPIN)
        w->spin = true;
    if (local_rows(w, in, write))
        return SG_NEXT;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m), local;
        uint64_t addr = lane_address(w, in, lane);
        uint8_t *p = sg_resolve(w, in, lane, sp, addr, esize * n, esize * n, write, &local);
        uint64_t v = 0;

        if (!p)
            return SG_FAULTED;
        at_once = !local && n > 1 && (esize * n == 8 || esize * n == 16) && !((uintptr_t)p & (esize * n - 1));
        if (at_once && !write)
            sg_read_whole(whole, p, esize * n);
        for (uint32_t k = 0; k < n; k++) {
            void *r = write ? (void *)(uintptr_t)sg_src_ptr(w, reg[k]) : w->base[0] + reg[k];
            void *slot = (uint8_t *)r + lane * (esize == 8 ? 8 : 4);

            if (write)
                memcpy(&v, slot, esize == 8 ? 8 : 4);
            if (local)
                local_copy(w, lane, local - 1 + k * esize, (uint8_t *)&v, esize, write);
            else if (at_once)
                access_element(whole + k * esize, (uint8_t *)&v, esize, write);
            else
                access_element(p + k * esize, (uint8_t *)&v, esize, write);
            if (write)
                continue;
            if (in->aux & SG_AUX_SIGNED)
                v = esize == 1   ? (uint64_t)(int64_t)(int8_t)v
                    : esize == 2 ? (uint64_t)(int64_t)(int16_t)v
                                 : v;
            memcpy(slot, &v, esize == 8 ? 8 : 4);
            v = 0;
        }
        if (at_once && write)
            sg_write_whole(p, whole, esize * n);
    }
    return SG_NEXT;
}

int sg_ld_slow(struct sg_warp *w, const struct sg_insn *in)
{
    return access_slow(w, in, false);
}

int sg_st_slow(struct sg_warp *w, const struct sg_insn *in)
{
    return access_slow(w, in, true);
}
