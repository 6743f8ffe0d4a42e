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
        /* A flush in front of it is refused first: no discrete GPU has it. */
        if (!cua_memory_operation_known(params[i].operation))
            return flush ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
        flush |= params[i].operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
        list[i] = cua_memory_operation_of(&params[i]);
    }
    return CUDA_SUCCESS;
}

struct cua_memory_operation cua_memory_operation_of(const CUstreamBatchMemOpParams *p)
{
    struct cua_memory_operation m = {.type = p->operation, .flags = p->flushRemoteWrites.flags};

    if (!cua_memory_operation_has_value(m.type)) /* a barrier has its flags in the same place */
        return m;
    m.address = p->waitValue.address; /* as in writeValue */
    m.value = cua_memory_operation_width(m.type) == 8 ? p->waitValue.value64 : p->waitValue.value;
    m.flags = p->waitValue.flags;
    return m;
}

CUstreamBatchMemOpParams cua_memory_operation_params(const struct cua_memory_operation *m)
{
    CUstreamBatchMemOpParams p;

    memset(&p, 0, sizeof(p));
    p.operation = m->type;
    if (!cua_memory_operation_has_value(m->type)) {
        p.flushRemoteWrites.flags = m->flags; /* as in memoryBarrier */
        return p;
    }
    p.waitValue.address = m->address; /* as in writeValue */
    p.waitValue.value64 = m->value;
    p.waitValue.flags = m->flags;
    return p;
}
