/* SPDX-License-Identifier: MIT */
/* Memory operations of streams and graph nodes: conversion from and to their parameters. */
#ifndef CUA_MEMORY_OPERATION_H
#define CUA_MEMORY_OPERATION_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#define CUA_MEMORY_OPERATIONS_MAX 256u /* maximum in a batch: cuStreamBatchMemOp's documentation */

struct cua_memory_operation {
    CUstreamBatchMemOpType type;
    unsigned flags;
    uint64_t address, value; /* for waits and writes; 0: a barrier or a flush */
};

static inline bool cua_memory_operation_waits(CUstreamBatchMemOpType type)
{
    return type == CU_STREAM_MEM_OP_WAIT_VALUE_32 || type == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

/* True for a wait or a write, which have an address and a value; the other operations have flags
 * only. */
static inline bool cua_memory_operation_has_value(CUstreamBatchMemOpType type)
{
    return cua_memory_operation_waits(type) || type == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
           type == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

/* False for an operation of a newer CUDA, whose parameters may contain pointers. */
static inline bool cua_memory_operation_known(CUstreamBatchMemOpType type)
{
    return cua_memory_operation_has_value(type) || type == CU_STREAM_MEM_OP_BARRIER ||
           type == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
}

/* Word size of a wait or a write, in bytes. */
static inline unsigned cua_memory_operation_width(CUstreamBatchMemOpType type)
{
    return type == CU_STREAM_MEM_OP_WAIT_VALUE_64 || type == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? 8 : 4;
}

/* Converts a batch into list, which has room for the maximum. INVALID_VALUE: invalid count or
   unknown operation. */
CUresult cua_memory_operations_read(const CUstreamBatchMemOpParams *params, unsigned count,
                                    struct cua_memory_operation *list);
/* Converts the parameters of a known operation, and back. */
struct cua_memory_operation cua_memory_operation_of(const CUstreamBatchMemOpParams *p);
CUstreamBatchMemOpParams cua_memory_operation_params(const struct cua_memory_operation *m);

#endif
