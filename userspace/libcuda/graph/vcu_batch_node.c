/* SPDX-License-Identifier: MIT */
/* Memory operation nodes: write words of memory, or wait for them. */
#include "../memory/memory.h"
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

/* True if the provider is sure to accept the word: of device memory as for fills, or of memory of
 * cuMemHostAlloc, whose address is the same on the device. */
static bool word_sure(CUcontext ctx, uint64_t addr, unsigned size)
{
    struct vcu_place place;

    if (addr % size != 0)
        return false;
    if (vcu_node_memory_sure(ctx, addr, size))
        return true;
    return vcu_memory_in_place(addr, size) && vcu_memory_find_host(addr, &place) && !place.m.registered &&
           place.m.device_ptr == place.start;
}

/* Not sure: barriers and flushes, which have no address, and operations that only some devices support. */
static bool operations_sure(const struct cua_memory_operation *list, unsigned n, unsigned flags,
                            CUcontext ctx)
{
    const int *attributes;

    if (n == 0 || flags != 0 || !vcu_node_context_sure(ctx))
        return false;
    attributes = vcu.devices[vcu_context_find(ctx)->device].attributes;
    for (unsigned i = 0; i < n; i++) {
        const unsigned size = cua_memory_operation_width(list[i].type);
        const bool waits = cua_memory_operation_waits(list[i].type);

        if ((waits ? list[i].flags >= CU_STREAM_WAIT_VALUE_NOR : list[i].flags != 0) ||
            (size == 8 && attributes[CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS] == 0) ||
            !word_sure(ctx, list[i].address, size))
            return false;
    }
    return true;
}

CUresult vcu_batch_node(const struct vgp_where *w, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, uint64_t *node)
{
    struct vgp_where where = *w;
    struct cua_memory_operation list[CUA_MEMORY_OPERATIONS_MAX];
    uint64_t words[4 * CUA_MEMORY_OPERATIONS_MAX];
    CUresult res =
        p == NULL ? CUDA_ERROR_INVALID_VALUE : cua_memory_operations_read(p->paramArray, p->count, list);

    if (res != CUDA_SUCCESS)
        return res;
    for (unsigned i = 0; i < p->count; i++) {
        words[4 * i] = list[i].type;
        words[4 * i + 1] = list[i].flags;
        words[4 * i + 2] = list[i].address;
        words[4 * i + 3] = list[i].value;
    }
    if (vcu_build_post(w, operations_sure(list, p->count, p->flags, p->ctx)))
        where.op = VGP_NODE_POST;
    return vgp_call_vgpGraphBatchMemOpNode(VGP_WHERE(&where), p->ctx, p->flags, words, 4 * p->count, node);
}

CUresult vcu_cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
    CUstreamBatchMemOpParams *list;
    uint32_t type = 0, flags = 0, total = 0, have = 0;
    uint64_t graph = 0, context = 0;
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && (!vcu_node_ok(hNode) || nodeParams_out == NULL))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpGraphNodeInfo(hNode, &type, &graph);
    if (res != CUDA_SUCCESS)
        return res;
    list = calloc(CUA_MEMORY_OPERATIONS_MAX, sizeof(*list));
    if (list == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    do {
        uint64_t words[480];
        uint32_t n = 480;

        res = vgp_call_vgpGraphBatchMemOpNodeGet(hNode, have, &flags, &total, words, &n);
        if (res == CUDA_SUCCESS &&
            (n % 4 != 0 || total > CUA_MEMORY_OPERATIONS_MAX || have + n / 4 > CUA_MEMORY_OPERATIONS_MAX))
            res = CUDA_ERROR_UNKNOWN;
        if (res != CUDA_SUCCESS) {
            free(list);
            return res;
        }
        for (uint32_t i = 0; i < n; i += 4, have++) {
            struct cua_memory_operation m = {(CUstreamBatchMemOpType)words[i], (unsigned)words[i + 1],
                                             words[i + 2], words[i + 3]};

            list[have] = cua_memory_operation_params(&m);
        }
        if (n == 0)
            break;
    } while (have < total);
    if (vcu.worker_minor >= 11) { /* an older one cannot name the context */
        res = vgp_call_vgpGraphBatchMemOpNodeContext(hNode, &context);
        if (res != CUDA_SUCCESS) {
            free(list);
            return res;
        }
    }
    if (!vcu_node_keep(hNode, (CUgraph)(uintptr_t)graph, list))
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(nodeParams_out, 0, sizeof(*nodeParams_out)); /* the padding too */
    nodeParams_out->ctx = (CUcontext)(uintptr_t)context;
    nodeParams_out->count = have;
    nodeParams_out->paramArray = list;
    nodeParams_out->flags = flags;
    return CUDA_SUCCESS;
}
