/* SPDX-License-Identifier: MIT */
/* Driver API: stream memory operations: write a word, or wait until it has a value. */
#include <stdlib.h>
#include <time.h>

#include "api/api.h"
#include "memory/grace.h"

#define SG_BATCH_MAX 256u /* operations per batch: the documented maximum */
#define SG_NAP_MIN_NS 1000u
#define SG_NAP_MAX_NS 500000u /* how late a wait may notice; nobody tells us of a store */

struct memop {
    bool wait, wide;
    uint64_t addr, value;
    unsigned flags;
};

struct memop_op {
    struct sg_op op;
    unsigned n;
    struct memop list[];
};

static bool satisfied(const struct memop *m)
{
    uint64_t v = m->wide ? __atomic_load_n((uint64_t *)m->addr, __ATOMIC_ACQUIRE)
                         : __atomic_load_n((uint32_t *)m->addr, __ATOMIC_ACQUIRE);

    switch (m->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic, as documented */
        return m->wide ? (int64_t)(v - m->value) >= 0 : (int32_t)((uint32_t)v - (uint32_t)m->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return m->wide ? v == m->value : (uint32_t)v == (uint32_t)m->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return m->wide ? (v & m->value) != 0 : ((uint32_t)v & (uint32_t)m->value) != 0;
    default:
        return m->wide ? ~(v | m->value) != 0 : (uint32_t) ~((uint32_t)v | (uint32_t)m->value) != 0;
    }
}

/* Writes the word, or looks at it once. *done: nothing is left to wait for. */
static CUresult memop_once(const struct memop *m, struct sg_stream *s, bool *done)
{
    const uint64_t size = m->wide ? 8 : 4;
    struct sg_mem_info info;
    CUresult r = CUDA_SUCCESS;

    *done = true;
    sg_grace_enter();
    if (!sg_mem_covers(m->addr, size, &info))
        r = sg_gone(s, "stream memory operation");
    else if ((!m->wait && !info.writable) || !sg_mem_reachable(s->ctx->device, m->addr, size, !m->wait))
        r = sg_unreachable(s, "stream memory operation");
    else if (m->wait)
        *done = satisfied(m);
    else if (m->wide)
        __atomic_store_n((uint64_t *)m->addr, m->value, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n((uint32_t *)m->addr, (uint32_t)m->value, __ATOMIC_SEQ_CST);
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

static CUresult check(const struct memop *m)
{
    struct sg_mem_info info;
    uint64_t size = m->wide ? 8 : 4;

    if (m->wait ? (m->flags & ~3u) != 0 : m->flags != 0) /* FLUSH is not offered */
        return m->wait && m->flags & CU_STREAM_WAIT_VALUE_FLUSH ? CUDA_ERROR_NOT_SUPPORTED
                                                                : CUDA_ERROR_INVALID_VALUE;
    if (m->addr % size || !sg_mem_covers(m->addr, size, &info) || (!m->wait && !info.writable))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult build(const struct memop *list, unsigned n, bool *waits, struct memop_op **out)
{
    struct memop_op *o;

    *waits = false;
    for (unsigned i = 0; i < n; i++) {
        CUresult r = check(&list[i]);

        if (r != CUDA_SUCCESS)
            return r;
        *waits |= list[i].wait;
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
    for (unsigned i = 0; i < o->n; i++) {
        const struct memop *m = &o->list[i];

        if (m->wait) {
            list[i].waitValue.operation =
                m->wide ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32;
            list[i].waitValue.address = m->addr;
            list[i].waitValue.value64 = m->value;
            list[i].waitValue.flags = m->flags;
        } else {
            list[i].writeValue.operation =
                m->wide ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
            list[i].writeValue.address = m->addr;
            list[i].writeValue.value64 = m->value;
            list[i].writeValue.flags = m->flags;
        }
    }
    *p = (CUDA_BATCH_MEM_OP_NODE_PARAMS){.count = o->n, .paramArray = list};
    return true;
}

static CUresult issue(struct sg_stream *s, const struct memop *list, unsigned n)
{
    struct memop_op *o;
    bool waits;
    CUresult r = build(list, n, &waits, &o);

    return r == CUDA_SUCCESS ? sg_issue(s, &o->op, waits ? SG_ISSUE_ASYNC : SG_ISSUE_INLINE) : r;
}

/* Reads a batch; *n operations are left of it. */
static CUresult translate(unsigned count, const CUstreamBatchMemOpParams *p, unsigned flags,
                          struct memop list[SG_BATCH_MAX], unsigned *left)
{
    if (!count || count > SG_BATCH_MAX || !p || flags)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned n = 0;

    for (unsigned i = 0; i < count; i++) {
        bool wide = p[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                    p[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;

        switch (p[i].operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            list[n++] =
                (struct memop){true, wide, p[i].waitValue.address,
                               wide ? p[i].waitValue.value64 : p[i].waitValue.value, p[i].waitValue.flags};
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            list[n++] =
                (struct memop){false, wide, p[i].writeValue.address,
                               wide ? p[i].writeValue.value64 : p[i].writeValue.value, p[i].writeValue.flags};
            break;
        case CU_STREAM_MEM_OP_BARRIER: /* every operation is ordered as it is */
            break;
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
            return CUDA_ERROR_NOT_SUPPORTED; /* CAN_FLUSH_REMOTE_WRITES is 0 */
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    *left = n;
    return CUDA_SUCCESS;
}

CUresult sg_memop_op(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct sg_op **out)
{
    struct memop list[SG_BATCH_MAX];
    struct memop_op *o;
    bool waits;
    unsigned n;
    CUresult r = translate(p->count, p->paramArray, p->flags, list, &n);

    if (r == CUDA_SUCCESS)
        r = build(list, n, &waits, &o);
    if (r == CUDA_SUCCESS)
        *out = &o->op;
    return r;
}

/* ---- entry points ---- */

#define SG_MEMOP(NAME, WAIT, WIDE, TYPE) \
    CUresult sgd_##NAME##_v2(struct sg_stream *s, CUdeviceptr addr, TYPE value, unsigned int flags) \
    { \
        return issue(s, &(struct memop){WAIT, WIDE, addr, value, flags}, 1); \
    }

SG_MEMOP(cuStreamWaitValue32, true, false, cuuint32_t)
SG_MEMOP(cuStreamWaitValue64, true, true, cuuint64_t)
SG_MEMOP(cuStreamWriteValue32, false, false, cuuint32_t)
SG_MEMOP(cuStreamWriteValue64, false, true, cuuint64_t)

CUresult sgd_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
                                   unsigned int flags)
{
    SG_AUTO struct sg_stream *s = NULL;
    struct memop list[SG_BATCH_MAX];
    unsigned n;
    CUresult r = translate(count, paramArray, flags, list, &n);

    if (r != CUDA_SUCCESS)
        return r;
    SG_CTX(ctx);
    r = sg_stream_get(ctx, stream, &s);
    return r == CUDA_SUCCESS ? issue(s, list, n) : r;
}
