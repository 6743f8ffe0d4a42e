/* SPDX-License-Identifier: MIT */
/* Kernels: decoding at first use, what is told about them, and the table of operations. */
#include "sg_jit.h"

#include <stdlib.h>
#include <string.h>

int sg_kernel_prepare(struct sg_kernel *k, struct sg_diag *diag)
{
    struct sg_diag unused;
    int r;

    if (!diag)
        diag = &unused;
    memset(diag, 0, sizeof(*diag));
    pthread_mutex_lock(&k->lock);
    if (!k->state) {
        k->result = sg_decode(k, &k->diag);
        k->state = k->result ? 2 : 1;
        if (k->result == SG_ERR_NOMEM)
            k->state = 0; /* may be better next time */
    }
    if (k->state == 1) {
        bool ready = true;

        for (uint32_t i = 0; i < k->code.nrelocs; i++)
            ready &= sg_reloc_value(k->module, &k->code.relocs[i]) != 0;
        if (!k->relocated) { /* again until every variable has its address */
            sg_code_relocate(k->module, &k->code);
            k->relocated = ready;
            if (ready)
                sg_jit_compile(&k->code);
        }
    }
    r = k->result;
    *diag = k->diag;
    pthread_mutex_unlock(&k->lock);
    return r;
}

#define SG_REGS_LEAST 16u

/* So many registers that a block of so many threads fits: warps come in fours, registers by 256. */
static uint32_t register_limit(uint32_t threads)
{
    const uint32_t warps = (threads + 127) / 128 * 4, limit = 65536 / warps / 256 * 256 / SG_LANES;

    return limit > 255 ? 255 : limit;
}

/* The smaller one; 0 is no limit. A GPU's compiler has some need even of the smallest kernel. */
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
    threads = f->reqntid[0] ? (uint64_t)f->reqntid[0] * f->reqntid[1] * f->reqntid[2]
              : f->maxntid[0] ? (uint64_t)f->maxntid[0] * f->maxntid[1] * f->maxntid[2] : 1024;
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
    regs = k->code.num_regs < SG_REGS_LEAST && !k->module->is_sass ? SG_REGS_LEAST
                                                                   : k->code.num_regs;
    info->num_regs = regs > limit ? limit : regs;
}

/* ---- operations by name ---- */

#define TABLES(isa)                                                          \
    extern const struct sg_opdef sg_ops_int_##isa[], sg_ops_flt_##isa[], sg_ops_mem_##isa[],       \
        sg_ops_half_##isa[], sg_ops_mma_##isa[];
TABLES(base)
#ifdef SG_HAVE_AVX2
TABLES(avx2)
#endif
#ifdef SG_HAVE_AVX512
TABLES(avx512)
#endif
extern const struct sg_opdef sg_ops_ctl[], sg_ops_warp[], sg_ops_atom[], sg_ops_cold[],
    sg_ops_cvt[], sg_ops_bulk[], sg_ops_cdp[], sg_ops_graph[], sg_ops_mma2[],
    sg_ops_tex[], sg_ops_surf[];

#define OPS_HASH 8192 /* power of two, more than twice the operations */
static const struct sg_opdef *ops_hash[OPS_HASH], *fn_hash[OPS_HASH]; /* by name, by handler */
static pthread_once_t ops_once = PTHREAD_ONCE_INIT;
static const char *ops_isa;

static uint32_t op_hash(const char *s)
{
    uint32_t h = 2166136261u;

    while (*s)
        h = (h ^ (unsigned char)*s++) * 16777619u;
    return h ^ h >> 15;
}

static uint32_t hash_of_fn(sg_fn fn)
{
    return (uint32_t)((uint64_t)(uintptr_t)fn * 0x9e3779b97f4a7c15ull >> 40) & (OPS_HASH - 1);
}

static void add_table(const struct sg_opdef *t)
{
    for (; t->name; t++) {
        uint32_t i = op_hash(t->name) & (OPS_HASH - 1), k = hash_of_fn(t->fn);

        while (fn_hash[k] && fn_hash[k]->fn != t->fn)
            k = (k + 1) & (OPS_HASH - 1);
        fn_hash[k] = t;

        while (ops_hash[i])
            i = (i + 1) & (OPS_HASH - 1);
        ops_hash[i] = t;
    }
}

static const char *best_isa(void)
{
    const char *env = getenv("SG_ISA");

#if defined(__x86_64__) && (defined(SG_HAVE_AVX2) || defined(SG_HAVE_AVX512))
    bool avx2, avx512;

    __builtin_cpu_init();
    avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
#ifdef SG_HAVE_AVX512
    if (avx512 && (!env || !strcmp(env, "avx512")))
        return "avx512";
#endif
    (void)avx512;
#ifdef SG_HAVE_AVX2
    if (avx2 && (!env || strcmp(env, "base")))
        return "avx2";
#endif
#endif
    (void)env;
    return "base";
}

static void ops_make(void)
{
    if (!ops_isa)
        ops_isa = best_isa();
#define ADD(isa)                                                             \
    if (!strcmp(ops_isa, #isa)) {                                            \
        add_table(sg_ops_int_##isa);                                         \
        add_table(sg_ops_flt_##isa);                                         \
        add_table(sg_ops_mem_##isa);                                         \
        add_table(sg_ops_half_##isa);                                        \
        add_table(sg_ops_mma_##isa);                                         \
    }
    ADD(base)
#ifdef SG_HAVE_AVX2
    ADD(avx2)
#endif
#ifdef SG_HAVE_AVX512
    ADD(avx512)
#endif
    add_table(sg_ops_ctl);
    add_table(sg_ops_warp);
    add_table(sg_ops_atom);
    add_table(sg_ops_cold);
    add_table(sg_ops_cvt);
    add_table(sg_ops_bulk);
    add_table(sg_ops_cdp);
    add_table(sg_ops_graph);
    add_table(sg_ops_mma2);
    add_table(sg_ops_tex);
    add_table(sg_ops_surf);
}

sg_fn sg_op_find(const char *name)
{
    uint32_t i;

    pthread_once(&ops_once, ops_make);
    for (i = op_hash(name) & (OPS_HASH - 1); ops_hash[i]; i = (i + 1) & (OPS_HASH - 1))
        if (!strcmp(ops_hash[i]->name, name))
            return ops_hash[i]->fn;
    return NULL;
}

const char *sg_op_name(sg_fn fn)
{
    for (uint32_t i = hash_of_fn(fn); fn_hash[i]; i = (i + 1) & (OPS_HASH - 1))
        if (fn_hash[i]->fn == fn)
            return fn_hash[i]->name;
    return "?";
}

const char *sg_op_isa(void)
{
    pthread_once(&ops_once, ops_make);
    return ops_isa;
}
