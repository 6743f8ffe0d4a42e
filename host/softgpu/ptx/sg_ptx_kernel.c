/* SPDX-License-Identifier: MIT */
/* Kernels: decoding at first use, and their attributes. */
#include "jit/jit.h"
#include "ptx/module.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Decodes a kernel without trusting the result: code that does not verify is refused. */
static int decode_verified(struct sg_kernel *k, struct sg_code *code, struct sg_diag *diag)
{
    char why[160];
    int r = sg_decode(k, code, diag);

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
