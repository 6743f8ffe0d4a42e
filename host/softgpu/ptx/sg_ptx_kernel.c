/* SPDX-License-Identifier: MIT */
/* Kernels: decoding at first use, and their attributes. */
#define _GNU_SOURCE /* memmem */
#include "jit/jit.h"
#include "ptx/decode.h"
#include "ptx/module.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- decoding ---- */

static void dec_free(struct sg_dec *d)
{
    free(d->vregs);
    free(d->insns);
    free(d->metas);
    sg_sym_free(&d->symtab);
    free(d->ranges);
    for (uint32_t i = 0; i < d->nnames; i++)
        free(d->names[i]);
    free(d->names);
    free(d->lvars);
    free(d->labels);
    free(d->defs);
    free(d->named);
    free(d->lists);
    free(d->procs);
    free(d->sites);
    free(d->shared_offset);
    free(d->pool_hash);
}

static bool text_has(const char *p, const char *end, const char *what)
{
    return memmem(p, (size_t)(end - p), what, strlen(what)) != NULL;
}

/* Operations whose results depend on the mode of denormals, by the part before the first '.'. */
static bool has_mode(const char *name, size_t n)
{
    static const char *const names[] = {"abs", "add", "cos", "cvt",  "div",  "ex2",  "fma",
                                        "lg2", "mad", "max", "min",  "mul",  "neg",  "rcp",
                                        "set", "sin", "sub", "setp", "sqrt", "tanh", "rsqrt"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == n && !memcmp(names[i], name, n))
            return true;
    return false;
}

static bool is_word(char ch)
{
    return isalnum((unsigned char)ch) || ch == '_' || ch == '.' || ch == '%' || ch == '$';
}

/*
 * True if most of a function's floating-point instructions flush denormals. The kernel then runs in that
 * mode, and only the rest change it: kernels often have a few instructions of one kind (ex2.approx.ftz) among
 * many of the other.
 */
static bool flushes_most(const char *p, const char *end)
{
    size_t flushing = 0, keeping = 0;

    while (p < end) {
        const char *word = p, *dot;

        while (p < end && is_word(*p))
            p++;
        if (p == word) {
            p++;
            continue;
        }
        dot = memchr(word, '.', (size_t)(p - word));
        if (!dot || !has_mode(word, (size_t)(dot - word)))
            continue;
        if (text_has(dot, p, ".ftz"))
            flushing++;
        else if (text_has(dot, p, ".f32") || text_has(dot, p, ".f64"))
            keeping++;
    }
    return flushing > keeping;
}

static int decode_body(struct sg_dec *d, const struct sg_func *f)
{
    struct sg_code *c = d->code;

    d->next_frame = 1;
    sg_scope_open(d);
    d->ftz = flushes_most(f->body, f->body_end);
    c->mxcsr = 0x1f80u | (d->ftz ? 0x8040u : 0);
    d->shared_offset = malloc((d->m->nshared + 1) * sizeof(uint32_t));
    if (!d->shared_offset)
        return sg_dec_nomem(d);
    memset(d->shared_offset, 0xff, (d->m->nshared + 1) * sizeof(uint32_t));
    for (uint32_t i = 0; i < f->nparams; i++)
        if (sg_scope_define(d, f->params[i].name, f->params[i].len, SG_K_PARAM, i))
            return d->err;
    d->call_stack[d->depth++] = d->k->func;
    if (sg_dec_body(d, f->body, f->body_end - 1, f->body_line))
        return d->err;
    sg_emit(d, SG_OP_exit, SG_OPND_NONE, SG_OPND_NONE, SG_OPND_NONE, SG_OPND_NONE);
    if (d->err)
        return d->err;
    d->metas[d->ninsns - 1].ctl = SG_CT_EXIT;
    if (sg_call_bodies(d))
        return d->err;
    c->static_shared = d->shared_bytes;
    c->dynamic_base = (d->shared_bytes + 15) & ~15u;
    for (uint32_t i = 0; i < d->m->nshared; i++)
        if (d->m->shared[i].unsized && d->m->shared[i].align > 16 && d->m->shared[i].align <= 4096)
            c->dynamic_base = (c->dynamic_base + d->m->shared[i].align - 1) & ~(d->m->shared[i].align - 1);
    c->local_bytes = (d->local_bytes + 15) & ~15u;
    sg_resolve_dyn(d);
    return sg_dec_flow(d);
}

/* Decodes a kernel; *large: refused because it is too large with its functions expanded. */
static int decode_once(struct sg_kernel *k, struct sg_code *code, struct sg_diag *diag, bool apart,
                       bool *large)
{
    const struct sg_func *f = &k->module->funcs[k->func];
    struct sg_dec *d = calloc(1, sizeof(*d));
    int r;

    if (!d)
        return sg_diag_at(diag, SG_ERR_NOMEM, 0, 0, "out of memory");
    d->read_body = sg_dec_body;
    d->m = k->module;
    d->k = k;
    d->code = code;
    d->diag = diag;
    d->apart = apart;
    d->code->name = f->name;
    r = decode_body(d, f);
    *large = d->large;
    if (r) {
        sg_code_free(d->code);
    } else {
        d->code->insns = d->insns;
        d->code->ninsns = d->ninsns;
        d->insns = NULL;
    }
    dec_free(d);
    free(d);
    return r;
}

/* Decodes the body of a kernel into `code`, which is zero, or has only `rows` or `column` set. */
static int kernel_decode(struct sg_kernel *k, struct sg_code *code, struct sg_diag *diag)
{
    struct sg_diag second;
    const bool rows = code->rows, column = code->column;
    bool large = false;
    int r;

    if (!sg_windows_init())
        return sg_diag_at(diag, SG_ERR_NOMEM, 0, 0, "no address space for the memory windows");
    /* Calls cost time, so functions are called only if necessary; then it is likely to be
       necessary in all kernels of the module. */
    if (!atomic_load_explicit(&k->module->large, memory_order_relaxed)) {
        r = decode_once(k, code, diag, false, &large);
        if (!r || !large)
            return r;
    }
    memset(&second, 0, sizeof(second));
    code->rows = rows;
    code->column = column;
    r = decode_once(k, code, &second, true, &large);
    if (!r)
        atomic_store_explicit(&k->module->large, true, memory_order_relaxed);
    *diag = second;
    return r;
}

/* Decodes a kernel without trusting the result: code that does not verify is refused. */
static int decode_verified(struct sg_kernel *k, struct sg_code *code, struct sg_diag *diag)
{
    char why[160];
    int r = kernel_decode(k, code, diag);

    if (r)
        return r;
    r = sg_code_verify(code, k->param_bytes, why, sizeof(why));
    if (r) {
        sg_code_free(code);
        sg_diag_at(diag, r, 0, 0, "kernel %.100s does not verify and is refused: %s",
                   k->module->funcs[k->func].name, why);
    }
    return r;
}

/* ---- constant variables, which isspacep asks for ---- */

static int range_order(const void *a, const void *b)
{
    const struct sg_const_range *x = a, *y = b;

    return (x->start > y->start) - (x->start < y->start);
}

static bool const_var(const struct sg_var *v)
{
    return v->is_const && v->size;
}

/* The ranges of the module's constant variables, made once and owned by the module. *out NULL: not
 * every variable has its address yet. 0 or SG_ERR_NOMEM. Any thread. */
static int const_space_of(struct sg_module *m, const struct sg_const_space **out)
{
    struct sg_const_space *c = atomic_load(&m->const_space), *other = NULL;
    uint32_t n = 0;

    *out = c;
    if (c)
        return 0;
    for (uint32_t i = 0; i < m->nvars; i++) {
        if (const_var(&m->vars[i]) && !m->vars[i].address)
            return 0;
        n += const_var(&m->vars[i]);
    }
    c = malloc(sizeof(*c) + n * sizeof(c->at[0]));
    if (!c)
        return SG_ERR_NOMEM;
    c->n = 0;
    for (uint32_t i = 0; i < m->nvars; i++) {
        if (const_var(&m->vars[i]))
            c->at[c->n++] = (struct sg_const_range){m->vars[i].address, m->vars[i].size};
    }
    qsort(c->at, c->n, sizeof(c->at[0]), range_order);
    if (!atomic_compare_exchange_strong(&m->const_space, &other, c)) {
        free(c); /* of another kernel of the module, made meanwhile */
        c = other;
    }
    *out = c;
    return 0;
}

/* ---- code ---- */

/* Native code for blocks of every size; the kernel is locked. */
static void kernel_compile(struct sg_kernel *k)
{
    if (!atomic_load_explicit(&k->compiled, memory_order_relaxed))
        sg_jit_compile(&k->code);
    atomic_store_explicit(&k->compiled, true, memory_order_release);
}

int sg_kernel_prepare(struct sg_kernel *k, struct sg_diag *diag)
{
    struct sg_diag unused;
    int r;

    if (!diag)
        diag = &unused;
    memset(diag, 0, sizeof(*diag));
    pthread_mutex_lock(&k->lock);
    if (!k->state) {
        k->result = decode_verified(k, &k->code, &k->diag);
        k->state = k->result ? 2 : 1;
        if (k->result == SG_ERR_NOMEM)
            k->state = 0; /* may succeed next time */
    }
    if (k->state == 1) {
        bool ready = true;

        for (uint32_t i = 0; i < k->code.nrelocs; i++)
            ready &= sg_reloc_value(k->module, &k->code.relocs[i]) != 0;
        if (k->code.asks_const && !k->code.const_space) {
            k->result = const_space_of(k->module, &k->code.const_space);
            ready &= k->code.const_space != NULL;
        }
        if (!k->relocated) { /* again until every variable has its address */
            sg_code_relocate(k->module, &k->code);
            k->relocated = ready;
        }
    }
    r = k->result;
    *diag = k->diag;
    pthread_mutex_unlock(&k->lock);
    return r;
}

/* Decodes a kernel for blocks of whole rows, or (column) one thread wide. NULL: not possible. */
static struct sg_code *decode_special(struct sg_kernel *k, bool column)
{
    struct sg_code *c = calloc(1, sizeof(*c));
    struct sg_diag diag;
    int r = SG_ERR_NOMEM;

    memset(&diag, 0, sizeof(diag));
    if (c) {
        c->rows = !column;
        c->column = column;
        r = decode_verified(k, c, &diag);
        c->const_space = k->code.const_space;
    }
    if (r) {
        free(c);
        return NULL;
    }
    sg_code_relocate(k->module, c);
    sg_jit_compile(c);
    return c;
}

const struct sg_code *sg_kernel_code(struct sg_kernel *k, const uint32_t block[3])
{
    const struct sg_code *c = &k->code;
    const bool column = k->code.column_help && sg_block_is_column(block);

    /* A kernel is compiled by its first launch: of a large module few kernels run, and the launch
       shows which code is wanted natively if there can be two. */
    if (!k->code.rows_help && !column && atomic_load_explicit(&k->compiled, memory_order_acquire))
        return c;
    pthread_mutex_lock(&k->lock);
    if (k->relocated && k->code.rows_help && sg_block_in_rows(block)) {
        if (!k->rows_tried)
            k->rows = decode_special(k, false);
        k->rows_tried = true;
        c = k->rows ? k->rows : c;
    } else if (k->relocated && column) {
        if (!k->column_tried)
            k->column = decode_special(k, true);
        k->column_tried = true;
        c = k->column ? k->column : c;
    }
    if (k->relocated && c == &k->code)
        kernel_compile(k);
    pthread_mutex_unlock(&k->lock);
    return c;
}

#define SG_REGS_LEAST 16u

/* Maximum registers for a block of `threads` threads: warps are allocated in fours, registers by
   256. */
static uint32_t register_limit(uint32_t threads)
{
    const uint32_t warps = (threads + 127) / 128 * 4, limit = 65536 / warps / 256 * 256 / SG_LANES;

    return limit > 255 ? 255 : limit;
}

/* The smaller limit; 0 is no limit. A GPU's compiler needs some registers even for the smallest
   kernel. */
static uint32_t at_most(uint32_t limit, uint32_t other)
{
    return other && other < limit ? (other < SG_REGS_LEAST ? SG_REGS_LEAST : other) : limit;
}

void sg_module_limit_registers(struct sg_module *m, uint32_t most)
{
    m->max_registers = most;
}

void sg_kernel_get_info(const struct sg_kernel *k, struct sg_kernel_info *info)
{
    const struct sg_func *f = &k->module->funcs[k->func];
    struct sg_diag diag;
    uint32_t regs, limit;
    uint64_t threads;

    memset(info, 0, sizeof(*info));
    info->name = f->name;
    info->nparams = f->nparams;
    info->params = k->params;
    info->param_bytes = k->param_bytes;
    info->ptx_target = k->module->target;
    info->ptx_version = k->module->version;
    memcpy(info->reqntid, f->reqntid, sizeof(info->reqntid));
    memcpy(info->cluster, f->cluster, sizeof(info->cluster));
    info->max_cluster = f->max_cluster;
    info->explicit_cluster = f->explicit_cluster;
    threads = f->reqntid[0]   ? (uint64_t)f->reqntid[0] * f->reqntid[1] * f->reqntid[2]
              : f->maxntid[0] ? (uint64_t)f->maxntid[0] * f->maxntid[1] * f->maxntid[2]
                              : 1024;
    info->max_threads = threads && threads < 1024 ? (uint32_t)threads : 1024;
    limit = register_limit(info->max_threads);
    limit = at_most(limit, f->maxnreg);
    limit = at_most(limit, k->module->max_registers);
    info->num_regs = SG_REGS_LEAST;
    if (sg_kernel_prepare((struct sg_kernel *)(uintptr_t)k, &diag) && !k->module->is_sass)
        return;
    info->static_shared = k->code.static_shared;
    info->local_bytes = k->code.local_bytes;
    info->launches = k->code.launches;
    info->prints = k->code.prints;
    info->allocates = k->code.allocates;
    regs = k->code.num_regs < SG_REGS_LEAST && !k->module->is_sass ? SG_REGS_LEAST : k->code.num_regs;
    info->num_regs = regs > limit ? limit : regs;
}

static struct sg_kernel *kernel_at(const struct sg_kernel *k, uint64_t address)
{
    const struct sg_module *m = k->module;
    uint64_t i = (address - sg_func_address(0)) / 16;

    if (i >= m->nfuncs || sg_func_address((uint32_t)i) != address || !m->funcs[i].is_entry ||
        !m->funcs[i].kernel)
        return NULL;
    return m->kernels[m->funcs[i].kernel - 1];
}

const struct sg_kernel_ops sg_kernel_ops = {sg_kernel_prepare, sg_kernel_code, kernel_at};

void sg_func_clear(struct sg_func *f)
{
    free(f->name);
    free(f->params);
    free(f->rets);
}

void sg_module_free(struct sg_module *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < m->nkernels; i++) {
        sg_code_free(&m->kernels[i]->code);
        if (m->kernels[i]->rows)
            sg_code_free(m->kernels[i]->rows);
        free(m->kernels[i]->rows);
        if (m->kernels[i]->column)
            sg_code_free(m->kernels[i]->column);
        free(m->kernels[i]->column);
        pthread_mutex_destroy(&m->kernels[i]->lock);
        free(m->kernels[i]->params);
        free(m->kernels[i]);
    }
    for (uint32_t i = 0; i < m->nfuncs; i++)
        sg_func_clear(&m->funcs[i]);
    for (uint32_t i = 0; i < m->nvars; i++)
        free(m->vars[i].name);
    free(m->const_space);
    for (uint32_t i = 0; i < m->nshared; i++)
        free(m->shared[i].name);
    for (uint32_t i = 0; i < m->nopaques; i++)
        free(m->opaques[i].name);
    free(m->opaques);
    free(m->kernels);
    free(m->funcs);
    free(m->vars);
    free(m->shared);
    free(m->data_relocs);
    sg_sym_free(&m->symtab);
    pthread_mutex_destroy(&m->lock);
    free(m->text);
    free(m);
}
