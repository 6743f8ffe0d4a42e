/* SPDX-License-Identifier: MIT */
/* Driver API: occupancy. */
#include "api/api.h"

static int round_up(int v, int unit)
{
    return (v + unit - 1) / unit * unit;
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* Multiprocessors that work of a context has. */
static int sms_of(const struct sg_ctx *ctx)
{
    return ctx->sms.count ? (int)ctx->sms.count
                          : sg_attr(ctx->device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
}

#define SG_FUNC(var, h) \
    SG_AUTO struct sg_func *var = NULL; \
    do { \
        CUresult sg_rc_ = sg_func_get(ctx, (h), &(var)); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
    } while (0)

CUresult sgd_cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, struct sg_func *f,
                                                     int numBlocks)
{
    int reserved = sg_attr(f->mod->ctx->device, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    int share = sg_attr(f->mod->ctx->device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) /
                numBlocks / SG_SHARED_UNIT * SG_SHARED_UNIT;
    int room = min_int(share - reserved,
                       sg_attr(f->mod->ctx->device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)) -
               (int)f->info.static_shared;

    *dynamicSmemSize = room > 0 ? (size_t)room : 0;
    return CUDA_SUCCESS;
}

CUresult sgd_cuOccupancyMaxPotentialBlockSizeWithFlags(struct sg_ctx *ctx, int *minGridSize, int *blockSize,
                                                       struct sg_func *f,
                                                       CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                       size_t dynamicSMemSize, int blockSizeLimit)
{
    int best = 0, best_block = 0, best_blocks = 0;
    int limit = (int)f->info.max_threads;

    if (blockSizeLimit && blockSizeLimit < limit)
        limit = blockSizeLimit;
    /* From large to small in whole warps: of equally good block sizes the largest wins. */
    for (int b = round_up(limit, SG_WARP_SIZE); b > 0; b -= SG_WARP_SIZE) {
        int block = min_int(b, limit);
        size_t dynamic = blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(block) : dynamicSMemSize;
        int blocks = sg_occupancy(f, block, dynamic);

        if (blocks * block > best) {
            best = blocks * block;
            best_block = block;
            best_blocks = blocks;
        }
    }
    *blockSize = best_block;
    *minGridSize = best_blocks * sms_of(sg_current_self(ctx));
    return CUDA_SUCCESS;
}

/* The checks of a configuration for the two calls below. *s gets a reference. */
static CUresult check_config(struct sg_ctx *ctx, const int *out, const CUlaunchConfig *config,
                             struct sg_stream **s)
{
    if (!out || !config || config->numAttrs > SG_ATTRS_MAX || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    return sg_stream_get(ctx, config->hStream, s);
}

/* Blocks of that shape that are resident on all multiprocessors together. */
static CUresult config_blocks(const struct sg_func *f, const CUlaunchConfig *config, const struct sg_ctx *ctx,
                              unsigned *blocks)
{
    const uint64_t block = (uint64_t)config->blockDimX * config->blockDimY;

    if (!block || block > 1024 || !config->blockDimZ || config->blockDimZ > 64 ||
        block * config->blockDimZ > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks =
        (unsigned)(sg_occupancy(f, (int)(block * config->blockDimZ), config->sharedMemBytes) * sms_of(ctx));
    return CUDA_SUCCESS;
}

/* As many as the device allows, if they fit on it together. */
CUresult sgd_cuOccupancyMaxPotentialClusterSize(struct sg_ctx *ctx, int *clusterSize, CUfunction func,
                                                const CUlaunchConfig *config)
{
    SG_AUTO struct sg_stream *s = NULL;
    unsigned blocks;
    CUresult r = check_config(ctx, clusterSize, config, &s);

    if (r != CUDA_SUCCESS)
        return r;
    SG_FUNC(f, func);
    r = config_blocks(f, config, s->green ? s->green : ctx, &blocks);
    if (r != CUDA_SUCCESS)
        return r;
    const unsigned limit = sg_cluster_limit(f);

    *clusterSize = limit > 1 && blocks ? (int)(limit < blocks ? limit : blocks) : 1;
    return CUDA_SUCCESS;
}

CUresult sgd_cuOccupancyMaxActiveClusters(struct sg_ctx *ctx, int *numClusters, CUfunction func,
                                          const CUlaunchConfig *config)
{
    SG_AUTO struct sg_stream *s = NULL;
    unsigned blocks, size[3] = {0, 0, 0}, n;
    CUresult r = check_config(ctx, numClusters, config, &s);

    if (r != CUDA_SUCCESS)
        return r;
    if (!func)
        return CUDA_ERROR_INVALID_VALUE; /* driver 580 */
    SG_FUNC(f, func);
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *a = &config->attrs[i];

        if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            r = sg_cluster_dimension(a->value.clusterDim.x, a->value.clusterDim.y, a->value.clusterDim.z,
                                     size);
        if (r != CUDA_SUCCESS)
            return r;
    }
    r = config_blocks(f, config, s->green ? s->green : ctx, &blocks);
    if (r != CUDA_SUCCESS)
        return r;
    const bool asked = size[0] != 0;

    for (int k = 0; k < 3 && !asked; k++)
        size[k] = f->info.cluster[0] ? f->info.cluster[k] : (unsigned)f->set.cluster[k];
    n = !size[0] ? 1
        : size[0] > SG_CLUSTER_MAX || size[1] > SG_CLUSTER_MAX || size[2] > SG_CLUSTER_MAX
            ? SG_CLUSTER_MAX + 1
            : size[0] * size[1] * size[2];
    /* A cluster that the device cannot launch is never resident. */
    *numClusters = n == 0 || (n > 1 && n > sg_cluster_limit(f)) ? 0 : (int)(blocks / n);
    return CUDA_SUCCESS;
}
