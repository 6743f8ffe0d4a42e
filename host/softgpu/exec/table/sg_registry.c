/* SPDX-License-Identifier: MIT */
/* The operations by number and by handler, for the best instruction set that the
   processor supports. */
#include "exec/core.h"

#include <stdlib.h>
#include <string.h>

#define TABLES(isa) \
    extern const struct sg_opdef sg_ops_int_##isa[], sg_ops_flt_##isa[], sg_ops_mem_##isa[], \
        sg_ops_half_##isa[], sg_ops_mma_##isa[], sg_ops_matrix_##isa[], sg_ops_product_##isa[], \
        sg_ops_wgmma_##isa[];
TABLES(base)
#ifdef SG_HAVE_AVX2
TABLES(avx2)
#endif
#ifdef SG_HAVE_AVX512
TABLES(avx512)
#endif
extern const struct sg_opdef sg_ops_ctl[], sg_ops_warp[], sg_ops_atom[], sg_ops_cold[], sg_ops_cvt[],
    sg_ops_bulk[], sg_ops_cdp[], sg_ops_cdp_memory[], sg_ops_cdp_query[], sg_ops_cluster[], sg_ops_graph[],
    sg_ops_mma2[], sg_ops_tensor[], sg_ops_tcgen05[], sg_ops_tex[], sg_ops_surf[];

#define OPS_HASH 8192 /* power of two, more than twice the operations */
static const struct sg_opdef *ops_rows[SG_OP_COUNT];
static const struct sg_opdef *fn_hash[OPS_HASH]; /* by handler */
static pthread_once_t ops_once = PTHREAD_ONCE_INIT;
static const char *ops_isa;

static uint32_t hash_of_fn(sg_fn fn)
{
    return (uint32_t)((uint64_t)(uintptr_t)fn * 0x9e3779b97f4a7c15ull >> 40) & (OPS_HASH - 1);
}

static void add_table(const struct sg_opdef *t)
{
    for (; t->name; t++) {
        uint32_t k = hash_of_fn(t->fn);

        ops_rows[t->op] = t;
        while (fn_hash[k] && fn_hash[k]->fn != t->fn)
            k = (k + 1) & (OPS_HASH - 1);
        fn_hash[k] = t;
    }
}

static const char *best_isa(void)
{
    const char *env = getenv("VGPU_SOFT_ISA");

#if defined(__x86_64__) && (defined(SG_HAVE_AVX2) || defined(SG_HAVE_AVX512))
    bool avx2, avx512;

    __builtin_cpu_init();
    avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
#ifdef SG_HAVE_AVX512
    if (avx512 && (!env || !strncmp(env, "avx512", 6)))
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
#define ADD(isa) \
    if (!strcmp(ops_isa, #isa)) { \
        add_table(sg_ops_int_##isa); \
        add_table(sg_ops_flt_##isa); \
        add_table(sg_ops_mem_##isa); \
        add_table(sg_ops_half_##isa); \
        add_table(sg_ops_mma_##isa); \
        add_table(sg_ops_matrix_##isa); \
        add_table(sg_ops_wgmma_##isa); \
        add_table(sg_ops_product_##isa); \
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
    add_table(sg_ops_cluster);
    add_table(sg_ops_cdp);
    add_table(sg_ops_cdp_memory);
    add_table(sg_ops_cdp_query);
    add_table(sg_ops_graph);
    add_table(sg_ops_mma2);
    add_table(sg_ops_tensor);
    add_table(sg_ops_tcgen05);
    add_table(sg_ops_tex);
    add_table(sg_ops_surf);
}

const struct sg_opdef *sg_op_row(enum sg_op op)
{
    pthread_once(&ops_once, ops_make);
    return op < SG_OP_COUNT ? ops_rows[op] : NULL;
}

sg_fn sg_op_fn(enum sg_op op)
{
    const struct sg_opdef *def = sg_op_row(op);

    return def ? def->fn : NULL;
}

enum sg_op sg_op_of(sg_fn fn)
{
    const struct sg_opdef *def = sg_op_def_of(fn);

    return def ? (enum sg_op)def->op : SG_OP_NONE;
}

const struct sg_opdef *sg_op_def_of(sg_fn fn)
{
    pthread_once(&ops_once, ops_make);
    for (uint32_t i = hash_of_fn(fn); fn_hash[i]; i = (i + 1) & (OPS_HASH - 1))
        if (fn_hash[i]->fn == fn)
            return fn_hash[i];
    return NULL;
}

const char *sg_op_name(sg_fn fn)
{
    const struct sg_opdef *def = sg_op_def_of(fn);

    return def ? def->name : "?";
}

void sg_op_each(void (*fn)(const struct sg_opdef *def))
{
    pthread_once(&ops_once, ops_make);
    for (uint32_t i = SG_OP_NONE + 1; i < SG_OP_COUNT; i++)
        if (ops_rows[i])
            fn(ops_rows[i]);
}

const char *sg_op_isa(void)
{
    pthread_once(&ops_once, ops_make);
    return ops_isa;
}
