/* SPDX-License-Identifier: MIT */
/*
 * Stream memory operations: a stream writes a word or waits for one. A single operation on memory
 * that we know is sent without a reply; one that the worker may refuse gets a reply.
 */
#include "../memory/memory.h"

#include <stdlib.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

#define BATCH_MAX 256u /* cuStreamBatchMemOp's documentation */

struct memop {
    uint32_t operation, flags;
    uint64_t address, value;
};

static CUresult send(CUstream stream, const struct memop *list, uint32_t n, unsigned flags)
{
    uint32_t operations[BATCH_MAX], operation_flags[BATCH_MAX];
    uint64_t addresses[BATCH_MAX], values[BATCH_MAX];

    for (uint32_t i = 0; i < n; i++) {
        operations[i] = list[i].operation;
        operation_flags[i] = list[i].flags;
        addresses[i] = list[i].address;
        values[i] = list[i].value;
    }
    return vgp_call_vgpStreamMemOps(stream, flags, operations, n, addresses, n, values, n, operation_flags,
                                    n);
}

/* True when the worker cannot refuse it for its arguments. */
bool vcu_memop_certain(uint32_t operation, CUdeviceptr addr, unsigned flags)
{
    bool waits = operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    unsigned size =
        operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? 8 : 4;

    return (flags & ~(waits ? CU_STREAM_WAIT_VALUE_NOR : 0u)) == 0 && addr % size == 0 &&
           (vcu_memory_is_device(addr, size) || vcu_memory_in_place(addr, size));
}

static CUresult check(CUstream *stream)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    *stream = vcu_stream(*stream);
    return vcu_check_own_stream(*stream);
}

CUresult vcu_memop_ask(CUstream stream, uint32_t operation, CUdeviceptr addr, uint64_t value, unsigned flags)
{
    return send(stream, &(struct memop){operation, flags, addr, value}, 1, 0);
}

CUresult vcu_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
                                   unsigned int flags)
{
    struct memop list[BATCH_MAX];
    CUresult res = check(&stream);

    if (res != CUDA_SUCCESS)
        return res;
    if (count == 0 || count > BATCH_MAX || paramArray == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        const CUstreamBatchMemOpParams *p = &paramArray[i];
        struct memop m = {.operation = p->operation};

        switch (p->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            m.address = p->waitValue.address;
            m.value =
                p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ? p->waitValue.value64 : p->waitValue.value;
            m.flags = p->waitValue.flags;
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            m.address = p->writeValue.address;
            m.value =
                p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? p->writeValue.value64 : p->writeValue.value;
            m.flags = p->writeValue.flags;
            break;
        case CU_STREAM_MEM_OP_BARRIER:
            m.flags = p->memoryBarrier.flags;
            break;
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
            m.flags = p->flushRemoteWrites.flags;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
        list[i] = m;
    }
    return send(stream, list, count, flags);
}
