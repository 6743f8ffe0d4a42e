/* SPDX-License-Identifier: MIT */
/* Kernel launches. All errors that CUDA reports at the call are checked before queueing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module/module.h"
#include "softgpu/newer.h"

struct launch_op {
    struct sg_op op;
    SG_COUNTED struct sg_func *func; /* a reference */
    unsigned grid[3], block[3], dynamic;
    bool cooperative;
    /* blocks per cluster: of the launch; of launch or kernel; 0: none */
    unsigned asked[3], cluster[3];
    /* context whose multiprocessors it uses, a reference; NULL: all */
    SG_COUNTED struct sg_ctx *green;
    _Alignas(16) unsigned char params[];
};

/* Reports the failure, with the source location if the text has line information. */
static void log_fault(const struct sg_func *f, const struct sg_fault *fault)
{
    char text[SG_DIAG_MAX + SG_SOURCE_MAX + 2], where[SG_SOURCE_MAX];

    if (fault->line && sg_module_source(f->mod->ptx, fault->line, where, sizeof(where)))
        snprintf(text, sizeof(text), "%s, %s", fault->message, where);
    else
        snprintf(text, sizeof(text), "%s", fault->message[0] ? fault->message : f->info.name);
    sg_device_fail(text);
}

/* ---- queries of kernels: answers of the calls of the same names ---- */

static uint32_t query_device(void *owner, int32_t *ordinal)
{
    *ordinal = ((const struct sg_mod *)owner)->ctx->device;
    return CUDA_SUCCESS;
}

static uint32_t query_devices(int32_t *count)
{
    *count = (int32_t)sg_config.ndevices;
    return CUDA_SUCCESS;
}

static uint32_t query_version(int32_t *runtime)
{
    *runtime = CUDA_VERSION;
    return CUDA_SUCCESS;
}

static uint32_t query_attribute(int32_t attribute, int32_t device, int32_t *value)
{
    if (attribute <= 0 || attribute >= VGP_DEVICE_ATTRIBUTE_END)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(device);
    *value = sg_attr(device, (CUdevice_attribute)attribute);
    return CUDA_SUCCESS;
}

static uint32_t query_limit(void *owner, uint32_t limit, uint64_t *value)
{
    if (limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = ((struct sg_mod *)owner)->ctx->limits[limit];
    return CUDA_SUCCESS;
}

static uint32_t query_configs(void *owner, int32_t *cache, int32_t *bank)
{
    const struct sg_ctx *ctx = ((struct sg_mod *)owner)->ctx;

    if (cache)
        *cache = (int32_t)ctx->cache_config;
    if (bank)
        *bank = (int32_t)ctx->shared_config;
    return CUDA_SUCCESS;
}

#define E_DEVICE_FUNCTION 98u /* cudaErrorInvalidDeviceFunction */

static uint32_t query_function(void *owner, struct sg_kernel *k, struct sg_function_attributes *out)
{
    const struct {
        int attribute;
        int32_t *to;
    } all[] = {
        {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &out->threads},
        {CU_FUNC_ATTRIBUTE_NUM_REGS, &out->registers},
        {CU_FUNC_ATTRIBUTE_PTX_VERSION, &out->ptx_version},
        {CU_FUNC_ATTRIBUTE_BINARY_VERSION, &out->binary_version},
        {CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, &out->cache_ca},
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &out->max_dynamic},
        {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &out->carveout},
        {CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, &out->cluster_must_be_set},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, &out->cluster[0]},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, &out->cluster[1]},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, &out->cluster[2]},
        {CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, &out->cluster_policy},
        {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, &out->nonportable_cluster},
    };
    SG_AUTO struct sg_func *f = NULL;

    if (sg_mod_func(owner, k, &f) != CUDA_SUCCESS)
        return E_DEVICE_FUNCTION;
    out->shared = f->info.static_shared;
    out->constant = f->mod->const_bytes;
    out->local = f->info.local_bytes;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        sg_func_attribute(&f->info, &f->set, f->mod->const_bytes, all[i].attribute, all[i].to);
    return CUDA_SUCCESS;
}

/* The limits that a kernel itself sets to its blocks, of at most 2^32 - 1 threads. */
static CUresult check_block(const struct sg_kernel_info *info, const struct sg_func_settings *set,
                            const unsigned block[3], unsigned dynamic)
{
    const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];

    if (info->reqntid[0]) {
        for (int i = 0; i < 3; i++) {
            unsigned want = info->reqntid[i] ? info->reqntid[i] : 1;

            if (block[i] != want)
                return sg_fail(CUDA_ERROR_INVALID_VALUE,
                               "launch of %s: block is not the .reqntid of the kernel", info->name);
        }
    } else if (threads > info->max_threads) {
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "launch of %s: %llu threads in a block, .maxntid allows %u",
                       info->name, (unsigned long long)threads, info->max_threads);
    }
    if (dynamic > (unsigned)sg_func_max_dynamic(info, set))
        return sg_fail(CUDA_ERROR_INVALID_VALUE,
                       "launch of %s: %u bytes of dynamic shared memory, %d allowed "
                       "(MAX_DYNAMIC_SHARED_SIZE_BYTES)",
                       info->name, dynamic, sg_func_max_dynamic(info, set));
    return CUDA_SUCCESS;
}

static uint32_t query_occupancy(void *owner, struct sg_kernel *k, int32_t block, uint64_t dynamic,
                                int32_t *blocks)
{
    SG_AUTO struct sg_func *f = NULL;

    if (sg_mod_func(owner, k, &f) != CUDA_SUCCESS)
        return E_DEVICE_FUNCTION;
    *blocks = sg_occupancy(f, block, dynamic);
    return CUDA_SUCCESS;
}

static uint32_t query_launch(void *owner, struct sg_kernel *k, const uint32_t block[3], uint32_t dynamic)
{
    static const struct sg_func_settings initial = SG_FUNC_INITIAL;
    SG_AUTO struct sg_func *f = NULL;
    struct sg_kernel_info info;

    if (sg_mod_func(owner, k, &f) == CUDA_SUCCESS)
        return check_block(&f->info, &f->set, block, dynamic);
    /* The module is being unloaded: its functions, with their settings, are gone. */
    sg_kernel_get_info(k, &info);
    return check_block(&info, &initial, block, dynamic);
}

static const struct sg_query_ops launch_queries = {
    .device = query_device,
    .devices = query_devices,
    .version = query_version,
    .attribute = query_attribute,
    .limit = query_limit,
    .configs = query_configs,
    .function = query_function,
    .occupancy = query_occupancy,
    .launch = query_launch,
};

/* A kernel that prints or allocates fixes these limits of its context. */
static void launch_fix_limits(const struct launch_op *o)
{
    struct sg_ctx *ctx = o->func->mod->ctx;

    if (o->func->info.prints)
        ctx->printed = true;
    if (o->func->info.allocates)
        ctx->allocated = true;
}

static void launch_issued(struct sg_op *op, struct sg_stream *s)
{
    (void)s;
    launch_fix_limits((const struct launch_op *)op);
}

static CUresult launch_run(struct sg_op *op, struct sg_stream *s)
{
    struct launch_op *o = (struct launch_op *)op;
    struct sg_fault fault = {0};
    struct sg_texset textures;
    struct sg_launch l = {
        .kernel = o->func->kernel,
        .grid = {o->grid[0], o->grid[1], o->grid[2]},
        .block = {o->block[0], o->block[1], o->block[2]},
        .cluster = {o->cluster[0], o->cluster[1], o->cluster[2]},
        .dynamic_shared = o->dynamic,
        .stack_bytes = (uint32_t)s->ctx->limits[CU_LIMIT_STACK_SIZE],
        .params = o->params,
        .mem = o->func->mod->ctx,
        .cooperative = o->cooperative,
        .sms = o->green ? &o->green->sms : NULL,
        .max_instructions = sg_config.watchdog,
        .abort_flag = &s->ctx->abort,
        .print = sg_print,
        .print_error = sg_print_error,
        .texture = sg_texset_get,
        .textures = &textures,
        .set_conditional = sg_hooks->set_conditional,
        .graphs = sg_hooks->device,
        .graph = sg_genv_now,
        .queries = &launch_queries,
        .owner = o->func->mod,
        .pending_launches = (uint32_t)s->ctx->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT],
    };
    int r;

    launch_fix_limits(o); /* nodes of graphs are not issued */
    sg_texset_init(&textures, o->func->mod->ctx);
    r = sg_exec_launch(&l, &fault);
    sg_texset_clear(&textures);

    if (r != CUDA_SUCCESS && s->ctx->abort && sg_stream_cut(s))
        return (CUresult)r;  /* ended with its context: no failure of the kernel's */
    if (r != CUDA_SUCCESS) { /* also if out of memory: otherwise the failure would go unnoticed */
        log_fault(o->func, &fault);
        sg_set_fault(s->ctx, (CUresult)r);
    }
    return (CUresult)r;
}

static void launch_drop(struct sg_op *op)
{
    sg_obj_put(&((struct launch_op *)op)->func->obj);
    sg_obj_put((struct sg_obj *)((struct launch_op *)op)->green);
    free(op);
}

/* ---- checks ---- */

/* The attributes for x, y and z follow each other. */
static unsigned dim_limit(CUdevice_attribute x, int axis)
{
    return (unsigned)sg_attr(0, (CUdevice_attribute)((int)x + axis)); /* the same on each device */
}

static CUresult check_shape(const struct sg_launch_request *q, const struct sg_func *f)
{
    uint64_t threads = 1;

    for (int i = 0; i < 3; i++) {
        unsigned gmax = dim_limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, i);
        unsigned bmax = dim_limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, i);

        if (!q->grid[i] || q->grid[i] > gmax || !q->block[i] || q->block[i] > bmax)
            return sg_fail(CUDA_ERROR_INVALID_VALUE,
                           "launch of %s: grid %u x %u x %u, block %u x %u x %u is out of range",
                           f->info.name, q->grid[0], q->grid[1], q->grid[2], q->block[0], q->block[1],
                           q->block[2]);
        threads *= q->block[i];
    }
    if (threads > (unsigned)sg_attr(0, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK))
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "launch of %s: %llu threads in a block", f->info.name,
                       (unsigned long long)threads);
    return check_block(&f->info, &f->set, q->block, q->dynamic);
}

CUresult sg_cluster_dimension(unsigned x, unsigned y, unsigned z, unsigned out[3])
{
    if ((x || y || z) && (!x || !y || !z))
        return sg_fail(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                       "launch attribute CLUSTER_DIMENSION: %u x %u x %u blocks", x, y, z);
    out[0] = x;
    out[1] = y;
    out[2] = z;
    return CUDA_SUCCESS;
}

unsigned sg_cluster_limit(const struct sg_func *f)
{
    unsigned most = f->set.nonportable_cluster ? SG_CLUSTER_MAX : SG_CLUSTER_PORTABLE;

    if (!sg_attr(f->mod->ctx->device, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH))
        return 0;
    return f->info.max_cluster && f->info.max_cluster < most ? f->info.max_cluster : most;
}

/* The size of clusters, of launch or kernel; nothing that could be run otherwise is run without. */
static CUresult check_cluster(const struct sg_launch_request *q, const struct sg_func *f, unsigned out[3])
{
    const unsigned *const asked = q->cluster, *const grid = q->grid;
    const bool set = f->set.cluster[0] || f->set.cluster[1] || f->set.cluster[2];
    unsigned limit;
    uint64_t n = 1;

    if (!asked[0] && !f->info.cluster[0] && !set && !f->info.explicit_cluster) {
        out[0] = out[1] = out[2] = 0;
        return q->preferred ? sg_fail(CUDA_ERROR_INVALID_CLUSTER_SIZE, /* driver 580 */
                                      "launch of %s: a preferred cluster dimension without the regular one",
                                      f->info.name)
                            : CUDA_SUCCESS; /* nearly every launch */
    }
    for (int i = 0; i < 3; i++) {
        const unsigned own = f->info.cluster[0] ? f->info.cluster[i] : set ? (unsigned)f->set.cluster[i] : 0;

        out[i] = asked[0] ? asked[i] : own;
        if (asked[0] && own && own != asked[i])
            return sg_fail(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                           "launch of %s: clusters of %u x %u x %u blocks, its own have another size",
                           f->info.name, asked[0], asked[1], asked[2]);
    }
    if (!out[0] && !out[1] && !out[2])
        return f->info.explicit_cluster
                   ? sg_fail(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                             "launch of %s: it needs the size of clusters (.explicitcluster)", f->info.name)
                   : CUDA_SUCCESS;
    for (int i = 0; i < 3; i++) {
        n *= out[i] <= SG_CLUSTER_MAX ? out[i] : SG_CLUSTER_MAX + 1;
        if (!out[i] || grid[i] % out[i])
            return sg_fail(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                           "launch of %s: clusters of %u x %u x %u blocks do not divide the grid",
                           f->info.name, out[0], out[1], out[2]);
    }
    limit = sg_cluster_limit(f);
    if (n > 1 && !limit)
        return sg_fail(asked[0] ? CUDA_ERROR_INVALID_CLUSTER_SIZE : CUDA_ERROR_NOT_SUPPORTED,
                       "launch of %s: clusters of more than one block need compute capability 9.0 "
                       "(VGPU_SOFT_CC=9.0)",
                       f->info.name);
    if (n > 1 && n > limit)
        return sg_fail(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                       "launch of %s: clusters of %u x %u x %u blocks, %u are allowed%s", f->info.name,
                       out[0], out[1], out[2], limit,
                       limit == SG_CLUSTER_PORTABLE ? " (NON_PORTABLE_CLUSTER_SIZE_ALLOWED)" : "");
    return CUDA_SUCCESS;
}

static CUresult check_resident(const struct sg_launch_request *q, const struct sg_func *f,
                               const struct sg_ctx *green)
{
    int block = (int)(q->block[0] * q->block[1] * q->block[2]);
    uint64_t room =
        (uint64_t)sg_occupancy(f, block, q->dynamic) *
        (green ? green->sms.count : (unsigned)sg_attr(0, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    uint64_t plane = (uint64_t)q->grid[0] * q->grid[1]; /* below 2^47 */

    if (plane > room || plane * q->grid[2] > room)
        return sg_fail(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                       "cooperative launch of %s: more than %llu blocks", f->info.name,
                       (unsigned long long)room);
    return CUDA_SUCCESS;
}

/* Fills the parameter buffer out of kernelParams or the extra array. */
static CUresult gather_parameters(const struct sg_launch_request *q, const struct sg_func *f,
                                  unsigned char *out)
{
    const void *buffer = NULL;
    const size_t *size = NULL;

    if (q->params && q->extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (q->extra) {
        for (void **e = q->extra; *e != CU_LAUNCH_PARAM_END; e += 2) {
            if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER)
                buffer = e[1];
            else if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE)
                size = e[1];
            else
                return CUDA_ERROR_INVALID_VALUE;
        }
        if (!size || (*size && !buffer))
            return sg_fail(CUDA_ERROR_INVALID_VALUE, "launch of %s: no parameter buffer", f->info.name);
        /* The end of the last parameter, without padding (NVIDIA's driver: "too many resources
           requested for launch" for any other size). */
        if (*size != f->info.param_bytes)
            return sg_fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                           "launch of %s: parameter buffer of %zu bytes, %u declared", f->info.name, *size,
                           f->info.param_bytes);
        if (*size)
            memcpy(out, buffer, *size);
        return CUDA_SUCCESS;
    }
    if (f->info.nparams && !q->params)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "launch of %s: no parameters", f->info.name);
    for (uint32_t i = 0; i < f->info.nparams; i++) {
        if (!q->params[i])
            return sg_fail(CUDA_ERROR_INVALID_VALUE, "launch of %s: parameter %u is NULL", f->info.name, i);
        memcpy(out + f->info.params[i].offset, q->params[i], f->info.params[i].size);
    }
    return CUDA_SUCCESS;
}

/* Checks a launch of any form; *cluster receives its cluster size. */
static CUresult check_launch(const struct sg_launch_request *q, struct sg_func *f, const struct sg_ctx *green,
                             unsigned cluster[3])
{
    CUresult r = check_shape(q, f);

    if (r == CUDA_SUCCESS)
        r = check_cluster(q, f, cluster);
    if (r == CUDA_SUCCESS && q->cooperative)
        r = check_resident(q, f, green);
    return r == CUDA_SUCCESS ? sg_func_prepare(f) : r;
}

CUresult sg_launch_build(struct sg_ctx *ctx, struct sg_ctx *green, const struct sg_launch_request *q,
                         struct sg_op **out)
{
    SG_AUTO struct sg_func *f = NULL;
    unsigned cluster[3];
    struct launch_op *o;
    CUresult r = sg_func_get(ctx, q->f, &f);

    if (r != CUDA_SUCCESS)
        return r;
    if (f->mod->ctx != ctx)
        return sg_fail(CUDA_ERROR_INVALID_HANDLE, "launch of %s: it belongs to another context",
                       f->info.name);
    r = check_launch(q, f, green, cluster);
    if (r != CUDA_SUCCESS)
        return r;
    o = calloc(1, sizeof(*o) + f->info.param_bytes + 16);
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = gather_parameters(q, f, o->params);
    if (r != CUDA_SUCCESS) {
        free(o);
        return r;
    }
    o->op.run = launch_run;
    o->op.issued = launch_issued;
    o->op.node_type = CU_GRAPH_NODE_TYPE_KERNEL;
    o->op.drop = launch_drop;
    memcpy(o->grid, q->grid, sizeof(o->grid));
    memcpy(o->block, q->block, sizeof(o->block));
    memcpy(o->asked, q->cluster, sizeof(o->asked));
    memcpy(o->cluster, cluster, sizeof(o->cluster));
    o->dynamic = q->dynamic;
    o->cooperative = q->cooperative;
    o->green = green;
    if (green)
        sg_obj_get(&green->obj);
    sg_obj_get(&f->obj);
    o->func = f;
    *out = &o->op;
    return CUDA_SUCCESS;
}

/* ---- for graph nodes ---- */

CUresult sg_launch_op(struct sg_ctx *ctx, const CUDA_KERNEL_NODE_PARAMS *p,
                      const struct sg_launch_attributes *a, struct sg_op **out)
{
    struct sg_launch_request q = {p->func ? p->func : (CUfunction)p->kern,
                                  {p->gridDimX, p->gridDimY, p->gridDimZ},
                                  {p->blockDimX, p->blockDimY, p->blockDimZ},
                                  p->sharedMemBytes,
                                  NULL,
                                  a && a->cooperative,
                                  p->kernelParams,
                                  p->extra,
                                  {0, 0, 0},
                                  false,
                                  NULL};

    if (a)
        memcpy(q.cluster, a->cluster, sizeof(q.cluster));
    return sg_launch_build(ctx->base, ctx == ctx->base ? NULL : ctx, &q, out);
}

CUresult sg_launch_again(struct sg_op *op, const struct sg_launch_attributes *a, struct sg_op **out)
{
    const struct launch_op *o = (const struct launch_op *)op;
    size_t bytes = sizeof(*o) + o->func->info.param_bytes + 16;
    struct launch_op *again;
    unsigned cluster[3];
    struct sg_launch_request q = {.dynamic = o->dynamic, .cooperative = a->cooperative};
    CUresult r;

    memcpy(q.grid, o->grid, sizeof(q.grid));
    memcpy(q.block, o->block, sizeof(q.block));
    memcpy(q.cluster, a->cluster, sizeof(q.cluster));
    r = check_launch(&q, o->func, o->green, cluster);
    if (r != CUDA_SUCCESS)
        return r;
    again = malloc(bytes);
    if (!again)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(again, o, bytes);
    again->cooperative = a->cooperative;
    memcpy(again->asked, a->cluster, sizeof(again->asked));
    memcpy(again->cluster, cluster, sizeof(again->cluster));
    if (again->green)
        sg_obj_get(&again->green->obj);
    sg_obj_get(&again->func->obj);
    *out = &again->op;
    return CUDA_SUCCESS;
}

bool sg_launch_nests(struct sg_op *op)
{
    return ((const struct launch_op *)op)->func->info.launches;
}

struct sg_ctx *sg_launch_ctx(struct sg_op *op)
{
    return ((const struct launch_op *)op)->func->mod->ctx;
}

void sg_launch_get_attributes(struct sg_op *op, struct sg_launch_attributes *a)
{
    const struct launch_op *o = (const struct launch_op *)op;

    a->cooperative = o->cooperative;
    memcpy(a->cluster, o->asked, sizeof(a->cluster));
}

/* The parameters point into op; *storage is the array that holds the pointers. */
CUresult sg_launch_describe(struct sg_op *op, CUDA_KERNEL_NODE_PARAMS *p, void ***storage)
{
    struct launch_op *o = (struct launch_op *)op;
    uint32_t n = o->func->info.nparams;
    void **ptrs = realloc(*storage, (n + 1) * sizeof(*ptrs));

    if (!ptrs)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *storage = ptrs;
    for (uint32_t i = 0; i < n; i++)
        ptrs[i] = o->params + o->func->info.params[i].offset;
    memset(p, 0, sizeof(*p));
    p->func = SG_HANDLE(CUfunction, o->func);
    p->gridDimX = o->grid[0];
    p->gridDimY = o->grid[1];
    p->gridDimZ = o->grid[2];
    p->blockDimX = o->block[0];
    p->blockDimY = o->block[1];
    p->blockDimZ = o->block[2];
    p->sharedMemBytes = o->dynamic;
    p->kernelParams = ptrs;
    p->ctx = SG_HANDLE(CUcontext, o->green ? o->green : o->func->mod->ctx);
    return CUDA_SUCCESS;
}
