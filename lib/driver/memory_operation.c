/* SPDX-License-Identifier: MIT */
#include "memory_operation.h"

#include <string.h>

CUresult cua_memory_operations_read(const CUstreamBatchMemOpParams *params, unsigned count,
                                    struct cua_memory_operation *list)
{
    bool flush = false;

    if (count > CUA_MEMORY_OPERATIONS_MAX || (count != 0 && params == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        const CUstreamBatchMemOpParams *p = &params[i];
        struct cua_memory_operation m = {.type = p->operation};

        switch (p->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64: /* the fields lie as in waitValue */
            m.address = p->waitValue.address;
            m.value = cua_memory_operation_width(m.type) == 8 ? p->waitValue.value64 : p->waitValue.value;
            m.flags = p->waitValue.flags;
            break;
        case CU_STREAM_MEM_OP_BARRIER:
            m.flags = p->memoryBarrier.flags;
            break;
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
            m.flags = p->flushRemoteWrites.flags;
            flush = true;
            break;
        default: /* the flush in front of it is refused first: no discrete GPU has it */
            return flush ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
        }
        list[i] = m;
    }
    return CUDA_SUCCESS;
}

CUstreamBatchMemOpParams cua_memory_operation_params(const struct cua_memory_operation *m)
{
    CUstreamBatchMemOpParams p;

    memset(&p, 0, sizeof(p));
    p.operation = m->type;
    if (m->type == CU_STREAM_MEM_OP_BARRIER || m->type == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES) {
        p.flushRemoteWrites.flags = m->flags; /* as in memoryBarrier */
        return p;
    }
    p.waitValue.address = m->address; /* as in writeValue */
    p.waitValue.value64 = m->value;
    p.waitValue.flags = m->flags;
    return p;
}
