/* SPDX-License-Identifier: MIT */
/* Queries of kernels about the device and its functions: module/sg_launch.c answers them. */
#include "exec/cdp/cdp.h"
#include "exec/code.h"

/* The kernel at an address of device code. NULL: none. */
static struct sg_kernel *kernel_at(const struct sg_launch *l, u64 address)
{
    return l->kernel->ops->at(l->kernel, address);
}

/* Ends a query of a lane: its result goes to the thread's pointer in operand a, its error to d. */
static int query_end(struct sg_warp *w, const struct sg_insn *in, u32 lane, u32 error, const void *value,
                     u32 n, u64 *cost)
{
    const u64 at = SRC(u64, a)[lane];

    if (!error && !at)
        error = E_INVALID;
    if (!error && !sg_cdp_put(w, in, lane, at, value, n))
        return SG_FAULTED;
    DST(u32, d)[lane] = sg_cdp_error(w, lane, error, cost);
    return SG_NEXT;
}

#define QUERY(name, type, call) \
    HANDLER(name) \
    { \
        const struct sg_launch *l = w->cta->launch; \
        u64 cost_ = 0; \
        int r_ = SG_NEXT; \
\
        for (u32 m = w->mask; m && r_ == SG_NEXT; m &= m - 1) { \
            const u32 i = (u32)__builtin_ctz(m); \
            type v = {0}; \
\
            r_ = query_end(w, in, i, l->queries ? (call) : E_NOT_SUPPORTED, &v, sizeof(v), &cost_); \
        } \
        return r_ == SG_NEXT ? sg_charge(w, in, cost_) : r_; \
    }

static u32 ask_function(const struct sg_launch *l, u64 address, struct sg_function_attributes *v)
{
    struct sg_kernel *k = kernel_at(l, address);

    return k ? l->queries->function(l->owner, k, v) : E_FUNCTION;
}

static u32 ask_occupancy(const struct sg_launch *l, u64 address, s32 block, u64 dynamic, s32 *v)
{
    struct sg_kernel *k = kernel_at(l, address);

    return !k ? E_FUNCTION : block < 1 ? E_INVALID : l->queries->occupancy(l->owner, k, block, dynamic, v);
}

QUERY(cdp_device, s32, l->queries->device(l->owner, &v))
QUERY(cdp_devices, s32, l->queries->devices(&v))
QUERY(cdp_version, s32, l->queries->version(&v))
QUERY(cdp_attribute, s32, l->queries->attribute(SRC(s32, b)[i], SRC(s32, c)[i], &v))
QUERY(cdp_limit, u64, l->queries->limit(l->owner, SRC(u32, b)[i], &v))
QUERY(cdp_cache_config, s32, l->queries->configs(l->owner, &v, NULL))
QUERY(cdp_bank_config, s32, l->queries->configs(l->owner, NULL, &v))
QUERY(cdp_function, struct sg_function_attributes, ask_function(l, SRC(u64, b)[i], &v))
QUERY(cdp_occupancy, s32, ask_occupancy(l, SRC(u64, b)[i], SRC(s32, c)[i], SRC(u64, e)[i], &v))

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_cdp_query[] = {
#include "exec/cdp/query.def"
    {0},
};
