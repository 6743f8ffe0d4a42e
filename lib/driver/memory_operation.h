/* SPDX-License-Identifier: MIT */
/* Memory operations of streams and graph nodes, read from their parameters and written back. */
#ifndef CUA_MEMORY_OPERATION_H
#define CUA_MEMORY_OPERATION_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#define CUA_MEMORY_OPERATIONS_MAX 256u /* in a batch: cuStreamBatchMemOp's documentation */

struct cua_memory_operation {
    CUstreamBatchMemOpType type;
    unsigned flags;
    uint64_t address, value; /* of waits and writes; 0: a barrier or a flush */
};

static inline bool cua_memory_operation_waits(CUstreamBatchMemOpType type)
{
    return type == CU_STREAM_MEM_OP_WAIT_VALUE_32 || type == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

/* Size of the word of a wait or a write, in bytes. */
static inline unsigned cua_memory_operation_width(CUstreamBatchMemOpType type)
{
    return type == CU_STREAM_MEM_OP_WAIT_VALUE_64 || type == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? 8 : 4;
}

/* Reads a batch into list, which has room for the maximum. INVALID_VALUE: a wrong number, or an unknown operation. */
CUresult cua_memory_operations_read(const CUstreamBatchMemOpParams *params, unsigned count,
                                    struct cua_memory_operation *list);
/* The parameters that an operation was read from. */
CUstreamBatchMemOpParams cua_memory_operation_params(const struct cua_memory_operation *m);

#endif
