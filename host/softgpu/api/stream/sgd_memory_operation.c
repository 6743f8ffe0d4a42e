/* SPDX-License-Identifier: MIT */
/* Driver API: stream memory operations: write a word, or wait until it has a value. */
#include <stdlib.h>
#include <time.h>

#include "api/api.h"
#include "memory/grace.h"

#include "lib/driver/driver.h"

#define SG_NAP_MIN_NS 1000u
/* ns: maximum delay until a wait notices a store, which causes no notification */
#define SG_NAP_MAX_NS 500000u

struct memop_op {
    struct sg_op op;
    unsigned n;
    struct cua_memory_operation list[];
};

static bool wait_is_satisfied(const struct cua_memory_operation *m)
{
    const bool wide = cua_memory_operation_width(m->type) == 8;
    uint64_t v = wide ? __atomic_load_n((uint64_t *)m->address, __ATOMIC_ACQUIRE)
                      : __atomic_load_n((uint32_t *)m->address, __ATOMIC_ACQUIRE);

    switch (m->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic, as documented */
        return wide ? (int64_t)(v - m->value) >= 0 : (int32_t)((uint32_t)v - (uint32_t)m->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return wide ? v == m->value : (uint32_t)v == (uint32_t)m->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return wide ? (v & m->value) != 0 : ((uint32_t)v & (uint32_t)m->value) != 0;
    default:
        return wide ? ~(v | m->value) != 0 : (uint32_t) ~((uint32_t)v | (uint32_t)m->value) != 0;
    }
}

/* Writes the word, or looks at it once. *done: nothing is left to wait for. */
static CUresult memop_once(const struct cua_memory_operation *m, struct sg_stream *s, bool *done)
{
    const uint64_t size = cua_memory_operation_width(m->type);
    const bool wait = cua_memory_operation_waits(m->type);
    struct sg_mem_info info;
    CUresult r = CUDA_SUCCESS;

    *done = true;
    sg_grace_enter();
    if (!sg_mem_covers(m->address, size, &info))
        r = sg_gone(s, "stream memory operation");
    else if ((!wait && !info.writable) || !sg_mem_reachable(s->ctx->device, m->address, size, !wait))
        r = sg_unreachable(s, "stream memory operation");
    else if (wait)
        *done = wait_is_satisfied(m);
    else if (size == 8)
        __atomic_store_n((uint64_t *)m->address, m->value, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n((uint32_t *)m->address, (uint32_t)m->value, __ATOMIC_SEQ_CST);
    sg_grace_leave();
    return r;
}

static CUresult memop_run(struct sg_op *op, struct sg_stream *s)
{
    struct memop_op *o = (struct memop_op *)op;

    for (unsigned i = 0; i < o->n; i++) {
        struct timespec nap = {0, SG_NAP_MIN_NS};
        bool done;

        for (;;) {
            CUresult r = memop_once(&o->list[i], s, &done);

            if (r != CUDA_SUCCESS)
                return r;
            if (done)
                break;
            if (s->ctx->abort)
                return CUDA_ERROR_LAUNCH_FAILED;
            nanosleep(&nap, NULL);
            if (nap.tv_nsec < (long)SG_NAP_MAX_NS)
                nap.tv_nsec *= 2;
        }
    }
    return CUDA_SUCCESS;
}

static void memop_drop(struct sg_op *op)
{
    free(op);
}

static CUresult check_operation(const struct cua_memory_operation *m)
{
    struct sg_mem_info info;
    const uint64_t size = cua_memory_operation_width(m->type);
    const bool wait = cua_memory_operation_waits(m->type);

    if (wait ? (m->flags & ~3u) != 0 : m->flags != 0) /* FLUSH is not offered */
        return wait && m->flags & CU_STREAM_WAIT_VALUE_FLUSH ? CUDA_ERROR_NOT_SUPPORTED
                                                             : CUDA_ERROR_INVALID_VALUE;
    if (m->address % size || !sg_mem_covers(m->address, size, &info) || (!wait && !info.writable))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult build_operations(const struct cua_memory_operation *list, unsigned n, bool *waits,
                                 struct memop_op **out)
{
    struct memop_op *o;

    *waits = false;
    for (unsigned i = 0; i < n; i++) {
        CUresult r = check_operation(&list[i]);

        if (r != CUDA_SUCCESS)
            return r;
        *waits |= cua_memory_operation_waits(list[i].type);
    }
    o = calloc(1, sizeof(*o) + n * sizeof(o->list[0]));
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = memop_run;
    o->op.node_type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    o->op.drop = memop_drop;
    o->n = n;
    for (unsigned i = 0; i < n; i++)
        o->list[i] = list[i];
    *out = o;
    return CUDA_SUCCESS;
}

bool sg_memop_describe(struct sg_op *op, CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    const struct memop_op *o = (const struct memop_op *)op;
    CUstreamBatchMemOpParams *list = calloc(o->n + 1, sizeof(*list));

    if (!list)
        return false;
    for (unsigned i = 0; i < o->n; i++)
        list[i] = cua_memory_operation_params(&o->list[i]);
    *p = (CUDA_BATCH_MEM_OP_NODE_PARAMS){.count = o->n, .paramArray = list};
    return true;
}

static CUresult issue_operations(struct sg_stream *s, const struct cua_memory_operation *list, unsigned n)
{
    struct memop_op *o;
    bool waits;
    CUresult r = build_operations(list, n, &waits, &o);

    return r == CUDA_SUCCESS ? sg_issue(s, &o->op, waits ? SG_ISSUE_ASYNC : SG_ISSUE_INLINE) : r;
}

/* Reads a batch; *left operations remain to be carried out. */
static CUresult translate_operations(unsigned count, const CUstreamBatchMemOpParams *p, unsigned flags,
                                     struct cua_memory_operation list[CUA_MEMORY_OPERATIONS_MAX],
                                     unsigned *left)
{
    CUresult r = flags ? CUDA_ERROR_INVALID_VALUE : cua_memory_operations_read(p, count, list);

    *left = 0;
    for (unsigned i = 0; r == CUDA_SUCCESS && i < count; i++) {
        if (list[i].type == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
            r = CUDA_ERROR_NOT_SUPPORTED;                  /* CAN_FLUSH_REMOTE_WRITES is 0 */
        else if (list[i].type != CU_STREAM_MEM_OP_BARRIER) /* operations are ordered anyway */
            list[(*left)++] = list[i];
    }
    return r;
}

CUresult sg_memop_op(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct sg_op **out)
{
    struct cua_memory_operation list[CUA_MEMORY_OPERATIONS_MAX];
    struct memop_op *o;
    bool waits;
    unsigned n;
    CUresult r = translate_operations(p->count, p->paramArray, p->flags, list, &n);

    if (r == CUDA_SUCCESS)
        r = build_operations(list, n, &waits, &o);
    if (r == CUDA_SUCCESS)
        *out = &o->op;
    return r;
}

/* ---- entry points ---- */

#define SG_MEMOP(NAME, OPERATION, TYPE) \
    CUresult sgd_##NAME##_v2(struct sg_stream *s, CUdeviceptr addr, TYPE value, unsigned int flags) \
    { \
        return issue_operations(s, &(struct cua_memory_operation){OPERATION, flags, addr, value}, 1); \
    }

SG_MEMOP(cuStreamWaitValue32, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)
SG_MEMOP(cuStreamWaitValue64, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)
SG_MEMOP(cuStreamWriteValue32, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)
SG_MEMOP(cuStreamWriteValue64, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)

CUresult sgd_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
                                   unsigned int flags)
{
    SG_AUTO struct sg_stream *s = NULL;
    struct cua_memory_operation list[CUA_MEMORY_OPERATIONS_MAX];
    unsigned n;
    CUresult r = translate_operations(count, paramArray, flags, list, &n);

    if (r != CUDA_SUCCESS)
        return r;
    SG_CTX(ctx);
    r = sg_stream_get(ctx, stream, &s);
    return r == CUDA_SUCCESS && n ? issue_operations(s, list, n) : r;
}
