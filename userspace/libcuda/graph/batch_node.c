/* SPDX-License-Identifier: MIT */
/* Memory operation nodes: write words of memory, or wait for them. */
#include "graph.h"

#include <stdlib.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

CUresult vcu_batch_node(const char *call, const struct vgp_where *w, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p,
                        uint64_t *node)
{
    uint64_t words[4 * 256];

    if (p == NULL || p->count == 0 || p->count > 256 || p->paramArray == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < p->count; i++) {
        const CUstreamBatchMemOpParams *q = &p->paramArray[i];
        uint64_t *to = &words[4 * i];

        to[0] = q->operation;
        to[1] = q->waitValue.flags; /* at the same place in writeValue */
        to[2] = q->waitValue.address;
        to[3] = q->waitValue.value64;
        switch (q->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            break;
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
            to[1] = q->flushRemoteWrites.flags;
            to[2] = to[3] = 0;
            break;
        case CU_STREAM_MEM_OP_BARRIER:
            return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call, "memory operation %d is not served",
                              (int)q->operation);
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return vgp_call_vgpGraphBatchMemOpNode(VGP_WHERE(w), p->ctx, p->flags, words, 4 * p->count, node);
}

CUresult vcu_cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
    CUstreamBatchMemOpParams *list;
    uint32_t type = 0, flags = 0, total = 0, have = 0;
    uint64_t graph = 0;
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && (!vcu_node_ok(hNode) || nodeParams_out == NULL))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpGraphNodeInfo(hNode, &type, &graph);
    if (res != CUDA_SUCCESS)
        return res;
    list = calloc(256, sizeof(*list));
    if (list == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    do {
        uint64_t words[480];
        uint32_t n = 480;

        res = vgp_call_vgpGraphBatchMemOpNodeGet(hNode, have, &flags, &total, words, &n);
        if (res == CUDA_SUCCESS && (n % 4 != 0 || total > 256 || have + n / 4 > 256))
            res = CUDA_ERROR_UNKNOWN;
        if (res != CUDA_SUCCESS) {
            free(list);
            return res;
        }
        for (uint32_t i = 0; i < n; i += 4, have++) {
            list[have].operation = (CUstreamBatchMemOpType)words[i];
            list[have].waitValue.flags = (unsigned)words[i + 1];
            list[have].waitValue.address = words[i + 2];
            list[have].waitValue.value64 = words[i + 3];
        }
        if (n == 0)
            break;
    } while (have < total);
    if (!vcu_node_keep(hNode, (CUgraph)(uintptr_t)graph, list))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *nodeParams_out = (CUDA_BATCH_MEM_OP_NODE_PARAMS){.count = have, .paramArray = list, .flags = flags};
    return CUDA_SUCCESS;
}
