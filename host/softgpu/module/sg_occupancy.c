/* SPDX-License-Identifier: MIT */
/*
 * Occupancy, as the CUDA occupancy calculator computes it: registers are allocated to warps in
 * units of 256, warps in groups of four, shared memory in units of 128 bytes.
 */
#include "module/module.h"

#define SG_WARPS_GROUP 4
#define SG_REGS_UNIT 256

static int round_up(int v, int unit)
{
    return (v + unit - 1) / unit * unit;
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

int sg_occupancy_threads(const struct sg_func *f, int block)
{
    int warps = (block + SG_WARP_SIZE - 1) / SG_WARP_SIZE;
    int regs = round_up((int)f->info.num_regs * SG_WARP_SIZE, SG_REGS_UNIT);
    int n = sg_attr(f->mod->ctx->device, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);

    if (block < 1 || block > (int)f->info.max_threads)
        return 0;
    n = min_int(n, sg_attr(f->mod->ctx->device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) /
                       SG_WARP_SIZE / warps);
    if (regs > 0) {
        int room = sg_attr(f->mod->ctx->device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR) / regs;

        n = min_int(n, room / SG_WARPS_GROUP * SG_WARPS_GROUP / warps);
    }
    return n;
}

int sg_occupancy(const struct sg_func *f, int block, size_t dynamic)
{
    int n = sg_occupancy_threads(f, block);
    int reserved = sg_attr(f->mod->ctx->device, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    int optin = sg_attr(f->mod->ctx->device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);

    /* As in cuda_occupancy.h: a configuration that a launch would refuse has no resident blocks. */
    if (dynamic > (size_t)sg_func_max_dynamic(&f->info, &f->set) ||
        (int)f->info.static_shared + (int)dynamic > optin)
        return 0;
    int shared = round_up((int)f->info.static_shared + (int)dynamic + reserved, SG_SHARED_UNIT);

    if (shared > 0)
        n = min_int(n,
                    sg_attr(f->mod->ctx->device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) /
                        shared);
    return n;
}
