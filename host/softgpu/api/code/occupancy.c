/* SPDX-License-Identifier: MIT */
/* Driver API: occupancy. */
#include "api/api.h"

#define SG_OCCUPANCY_FLAGS CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE

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

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
                                                                      int blockSize, size_t dynamicSMemSize,
                                                                      unsigned int flags)
{
    SG_CTX(ctx);
    if (!numBlocks || blockSize < 1 || (flags & ~(unsigned)SG_OCCUPANCY_FLAGS))
        return CUDA_ERROR_INVALID_VALUE;
    SG_FUNC(f, func);
    *numBlocks = sg_occupancy(f, blockSize, dynamicSMemSize);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
                                                             size_t dynamicSMemSize)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize,
                                                                0);
}

CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
                                                         int numBlocks, int blockSize)
{
    SG_CTX(ctx);
    if (!dynamicSmemSize || numBlocks < 1 || blockSize < 1)
        return CUDA_ERROR_INVALID_VALUE;
    SG_FUNC(f, func);
    if (numBlocks > sg_occupancy_threads(f, blockSize))
        return CUDA_ERROR_INVALID_VALUE;
    int reserved = sg_attr(f->mod->ctx->device, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    int share = sg_attr(f->mod->ctx->device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) /
                numBlocks / SG_SHARED_UNIT * SG_SHARED_UNIT;
    int room = min_int(share - reserved,
                       sg_attr(f->mod->ctx->device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)) -
               (int)f->info.static_shared;

    *dynamicSmemSize = room > 0 ? (size_t)room : 0;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
                                                           CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                           size_t dynamicSMemSize, int blockSizeLimit,
                                                           unsigned int flags)
{
    int best = 0, best_block = 0, best_blocks = 0;

    SG_CTX(ctx);
    if (!minGridSize || !blockSize || blockSizeLimit < 0 || (flags & ~(unsigned)SG_OCCUPANCY_FLAGS))
        return CUDA_ERROR_INVALID_VALUE;
    SG_FUNC(f, func);
    int limit = (int)f->info.max_threads;

    if (blockSizeLimit && blockSizeLimit < limit)
        limit = blockSizeLimit;
    /* From large to small in whole warps: of equally good ones the largest wins. */
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

/* Clusters have one block here. */
CUresult CUDAAPI cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func,
                                                    const CUlaunchConfig *config)
{
    SG_AUTO struct sg_stream *s = NULL;

    SG_CTX(ctx);
    CUresult r = check_config(ctx, clusterSize, config, &s);

    if (r != CUDA_SUCCESS)
        return r;
    SG_FUNC(f, func);
    *clusterSize = 1;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config)
{
    SG_AUTO struct sg_stream *s = NULL;

    SG_CTX(ctx);
    CUresult r = check_config(ctx, numClusters, config, &s);

    if (r != CUDA_SUCCESS)
        return r;
    SG_FUNC(f, func);
    unsigned cluster = 1;

    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *a = &config->attrs[i];

        if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            cluster = a->value.clusterDim.x | a->value.clusterDim.y | a->value.clusterDim.z;
    }
    uint64_t block = (uint64_t)config->blockDimX * config->blockDimY;

    if (!block || block > 1024 || !config->blockDimZ || config->blockDimZ > 64 ||
        block * config->blockDimZ > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    *numClusters = cluster > 1 ? 0
                               : sg_occupancy(f, (int)(block * config->blockDimZ), config->sharedMemBytes) *
                                     sms_of(s->green ? s->green : ctx);
    return CUDA_SUCCESS;
}
