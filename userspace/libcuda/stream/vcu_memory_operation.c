/* SPDX-License-Identifier: MIT */
/*
 * Stream memory operations: a stream writes a word or waits for one. A single operation on known
 * memory is sent without a reply; an operation that the worker may refuse has a reply.
 */
#include "stream.h"

#include "../memory/memory.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

static CUresult memop_send(CUstream stream, const struct cua_memory_operation *list, uint32_t n,
                           unsigned flags)
{
    uint32_t operations[CUA_MEMORY_OPERATIONS_MAX], operation_flags[CUA_MEMORY_OPERATIONS_MAX];
    uint64_t addresses[CUA_MEMORY_OPERATIONS_MAX], values[CUA_MEMORY_OPERATIONS_MAX];

    for (uint32_t i = 0; i < n; i++) {
        operations[i] = list[i].type;
        operation_flags[i] = list[i].flags;
        addresses[i] = list[i].address;
        values[i] = list[i].value;
    }
    return vgp_call_vgpStreamMemOps(stream, flags, operations, n, addresses, n, values, n, operation_flags,
                                    n);
}

/* Pinned memory that the device may write. */
static bool writable_in_place(CUdeviceptr addr, unsigned size)
{
    struct vcu_place place;

    return vcu_memory_in_place(addr, size) && !(vcu_memory_find_host(addr, &place) && place.m.registered &&
                                                (place.m.flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0);
}

/* True when the worker cannot refuse it for its arguments; what only some devices support is left to it. */
static bool memop_certain(uint32_t operation, CUdeviceptr addr, unsigned flags)
{
    bool waits = cua_memory_operation_waits(operation);
    unsigned size = cua_memory_operation_width(operation);

    if ((waits ? flags >= CU_STREAM_WAIT_VALUE_NOR : flags != 0) || addr % size != 0)
        return false;
    return vcu_memory_is_device(addr, size) ||
           (waits ? vcu_memory_in_place(addr, size) : writable_in_place(addr, size));
}

static CUresult memop_check(CUstream *stream)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    *stream = vcu_stream(*stream);
    return vcu_check_own_stream(*stream);
}

CUresult vcu_memop_issue(CUstream stream, uint32_t operation, CUdeviceptr addr, uint64_t value,
                         unsigned flags)
{
    const struct cua_memory_operation one = {operation, flags, addr, value};

    if (!memop_certain(operation, addr, flags))
        return memop_send(stream, &one, 1, 0);
    switch (operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return vgp_call_cuStreamWaitValue32_v2(stream, addr, (cuuint32_t)value, flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return vgp_call_cuStreamWaitValue64_v2(stream, addr, value, flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return vgp_call_cuStreamWriteValue32_v2(stream, addr, (cuuint32_t)value, flags);
    default:
        return vgp_call_cuStreamWriteValue64_v2(stream, addr, value, flags);
    }
}

CUresult vcu_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
                                   unsigned int flags)
{
    struct cua_memory_operation list[CUA_MEMORY_OPERATIONS_MAX];
    CUresult res = memop_check(&stream);

    if (res != CUDA_SUCCESS)
        return res;
    res = cua_memory_operations_read(paramArray, count, list);
    if (res != CUDA_SUCCESS)
        return res;
    if (count == 0)
        return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    return memop_send(stream, list, count, flags);
}
