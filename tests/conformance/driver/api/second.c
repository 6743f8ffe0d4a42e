/* SPDX-License-Identifier: MIT */
/*
 * Effects of a call on a later call: outputs of calls with nothing to return, work of other streams after a
 * wait for a single stream, settings that an update keeps, counts after many refusals, sizes of logs.
 */
#include "conform.h"

#include <unistd.h>

/* An allocation of 0 bytes returns NULL (driver 580), regardless of the variable's old value. */
CASE(second_nothing, CF_CTX)
{
    CUmemoryPool pool = NULL;

    NEED(cuDeviceGetDefaultMemPool(&pool, 0));
    for (unsigned i = 0; i < 2; i++) {
        CUdeviceptr p = 0x1234567;

        OK("alloc", i ? cuMemAllocFromPoolAsync(&p, 0, pool, NULL) : cuMemAllocAsync(&p, 0, NULL));
        cf_u64("address", p, 0);
        OK("free", cuMemFreeAsync(p, NULL));
    }
}

static const char managed_text[] = ".version 6.4\n.target sm_70\n.address_size 64\n"
                                   ".visible .global .attribute(.managed) .align 4 .u32 g = 5;\n"
                                   ".visible .entry k(.param .u32 v)\n{\n"
                                   "    .reg .u32 %a, %b;\n"
                                   "    ld.param.u32 %a, [v];\n"
                                   "    ld.global.u32 %b, [g];\n"
                                   "    add.u32 %b, %b, %a;\n"
                                   "    st.global.u32 [g], %b;\n"
                                   "    ret;\n}\n";

/* The wait for a stream returns its bytes; bytes of another stream's later work arrive with the wait for
   that. */
CASE(second_managed, CF_CTX)
{
    CUstream early = NULL, late = NULL;
    CUmodule m = NULL;
    CUfunction f = NULL;
    CUdeviceptr at = 0;
    unsigned right = 0;

    NEED(cuModuleLoadData(&m, managed_text));
    NEED(cuModuleGetFunction(&f, m, "k"));
    NEED(cuFuncLoad(f));
    NEED(cuModuleGetGlobal(&at, NULL, m, "g"));
    NEED(cuStreamCreate(&early, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&late, CU_STREAM_NON_BLOCKING));
    volatile uint32_t *g = (uint32_t *)at;

    for (unsigned i = 0; i < 3; i++) {
        struct cf_gate *gate = cf_gate_put(late);
        unsigned one = 1, ten = 10;
        uint32_t was = *g;

        NEED(cf_launch(f, 1, 1, 0, late, (void *[]){&one}));
        NEED(cf_launch(f, 1, 1, 0, early, (void *[]){&ten}));
        NEED(cuStreamSynchronize(early));
        right += *g == was + 10;
        cf_gate_open(gate);
        NEED(cuStreamSynchronize(late));
        right += *g == was + 11;
    }
    cf_u64("right", right, 6);
    NEED(cuStreamDestroy(early));
    NEED(cuStreamDestroy(late));
    NEED(cuModuleUnload(m));
}

/* A node that was disabled in an executable graph stays so when the graph is updated, and can be enabled again. */
CASE(second_update, CF_CTX)
{
    CUDA_MEMSET_NODE_PARAMS set = {.elementSize = 4, .width = 1, .height = 1};
    CUgraphExecUpdateResultInfo info;
    CUgraphNode n[2] = {NULL, NULL};
    CUcontext here = NULL;
    CUgraphExec x = NULL;
    CUgraph g = NULL;
    CUdeviceptr p = 0;
    unsigned on = 9;

    NEED(cuCtxGetCurrent(&here));
    NEED(cuMemAlloc(&p, 8));
    NEED(cuGraphCreate(&g, 0));
    for (unsigned i = 0; i < 2; i++) {
        set.dst = p + 4 * i;
        set.value = 10 + i;
        NEED(cuGraphAddMemsetNode(&n[i], g, NULL, 0, &set, here));
    }
    NEED(cuGraphInstantiate(&x, g, 0));
    OK("disable", cuGraphNodeSetEnabled(x, n[0], 0));
    for (unsigned round = 0; round < 3; round++) {
        uint32_t words[2] = {9, 9};

        set.dst = p;
        set.value = 20 + round;
        NEED(cuGraphMemsetNodeSetParams(n[0], &set));
        OK("update", cuGraphExecUpdate(x, g, &info));
        if (round == 2)
            OK("enable", cuGraphNodeSetEnabled(x, n[0], 1));
        OK("enabled", cuGraphNodeGetEnabled(x, n[0], &on));
        cf_u64("enabled_value", on, round == 2);
        OK("other", cuGraphNodeGetEnabled(x, n[1], &on));
        cf_u64("other_value", on, 1);
        NEED(cuMemsetD32(p, 0, 2));
        NEED(cuGraphLaunch(x, NULL));
        NEED(cuCtxSynchronize());
        NEED(cuMemcpyDtoH(words, p, sizeof(words)));
        cf_u64("word", words[0], round == 2 ? 22 : 0);
        cf_u64("other_word", words[1], 11);
    }
    NEED(cuGraphExecDestroy(x));
    NEED(cuGraphDestroy(g));
    NEED(cuMemFree(p));
}

/* More than libcuda and a worker accept at a time (stream/vcu_host_function.c). */
#define REFUSALS 16500u

static int runs; /* by atomic accesses */

static void CUDA_CB count_function(void *p)
{
    (void)p;
    __atomic_add_fetch(&runs, 1, __ATOMIC_RELAXED);
}

static void CUDA_CB count_callback(CUstream stream, CUresult r, void *p)
{
    (void)stream;
    (void)r;
    count_function(p);
}

/* Refused host functions take no room from later ones: after a leak the last calls would wait forever. */
CASE(second_refused, CF_CTX | CF_ALONE)
{
    const unsigned n = cf_real() ? 100 : REFUSALS;
    CUstream captured = NULL, s = NULL;
    unsigned refused = 0;
    CUgraph g = NULL;

    NEED(cuStreamCreate(&captured, CU_STREAM_DEFAULT));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (unsigned i = 0; i < n; i++)
        refused += (i % 2 ? cuLaunchHostFunc(NULL, count_function, NULL)
                          : cuStreamAddCallback(NULL, count_callback, NULL, 0)) != CUDA_SUCCESS;
    cf_true("refused", refused == n);
    cf_true("spoilt", cuStreamEndCapture(captured, &g) != CUDA_SUCCESS);
    OK("function", cuLaunchHostFunc(s, count_function, NULL));
    OK("callback", cuStreamAddCallback(s, count_callback, NULL, 0));
    OK("wait", cuStreamSynchronize(s));
    cf_u64("runs", (uint64_t)__atomic_load_n(&runs, __ATOMIC_RELAXED), 2);
    NEED(cuStreamDestroy(s));
    NEED(cuStreamDestroy(captured));
}

static char bad_text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                         ".visible .entry k() { this is no instruction; }\n";

/* The error log of a wrong text by module, library or linker; *n: the size that is returned. */
static bool logged(unsigned by, const char *text, char *log, size_t room, size_t *n)
{
    CUjit_option opt[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *val[] = {log, (void *)(uintptr_t)room};
    CUlinkState l = NULL;
    void *image = NULL;
    size_t size = 0;
    CUlibrary lib = NULL;
    CUmodule m = NULL;
    CUresult r;

    if (by == 0) {
        r = cuModuleLoadDataEx(&m, text, 2, opt, val);
    } else if (by == 1) {
        r = cuLibraryLoadData(&lib, text, opt, val, 2, NULL, NULL, 0);
    } else {
        NEED(cuLinkCreate(2, opt, val, &l));
        r = cuLinkAddData(l, CU_JIT_INPUT_PTX, (void *)(uintptr_t)text, strlen(text) + 1, "text", 0, NULL,
                          NULL);
        if (r == CUDA_SUCCESS)
            r = cuLinkComplete(l, &image, &size);
        NEED(cuLinkDestroy(l));
    }
    if (m)
        NEED(cuModuleUnload(m));
    if (lib)
        NEED(cuLibraryUnload(lib));
    *n = (size_t)val[1];
    return r != CUDA_SUCCESS;
}

/* Room for the text with its NUL, a byte less, a byte more, and little, also without an error: text, size,
   rest. */
CASE(second_log_size, CF_CTX)
{
    static char all[4096], part[4096];

    for (unsigned by = 0; by < 3; by++) {
        size_t length = 0, n = 9;
        unsigned right = 0;

        memset(all, 0, sizeof(all));
        cf_true("wrong", logged(by, bad_text, all, sizeof(all), &length));
        cf_true("text", length > 8 && length == strlen(all));
        for (size_t room = 1; room <= length + 2;
             room += room > 4 && room < length - 4 ? length - 4 - room : 1) {
            const size_t has = room > length ? length : room - 1;

            memset(part, 'x', sizeof(part));
            logged(by, bad_text, part, room, &n);
            right += n == has && !memcmp(part, all, has) && part[has] == '\0' && part[room] == 'x';
        }
        cf_u64("rooms", right, 12);
        memset(part, 'x', sizeof(part));
        cf_true("good", !logged(by, cf_ptx, part, sizeof(part), &n));
        cf_true("empty", n == 0 && part[0] == '\0');
    }
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/* A context ends exactly when it is detached once more than attached. */
CASE(second_attached, CF_CTX | CF_UB)
{
    for (unsigned n = 0; n < 4; n++) {
        CUcontext c = NULL, same = NULL;
        unsigned alive = 0;

        NEED(cuCtxCreate(&c, NULL, 0, 0));
        for (unsigned i = 0; i < n; i++)
            NEED(cuCtxAttach(&same, 0));
        for (unsigned i = 0; i < n; i++)
            alive += cuCtxDetach(c) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS;
        cf_u64("alive", alive, n);
        OK("last", cuCtxDetach(c));
        RC("gone", cuCtxDetach(c), CUDA_ERROR_INVALID_CONTEXT);
    }
}

#pragma GCC diagnostic pop

/* An accepted value of a limit is returned by the query; a refused value changes nothing. */
CASE(second_limits, CF_CTX | CF_UB)
{
    static const struct {
        CUlimit limit;
        size_t taken[4], refused;
    } rows[] = {{CU_LIMIT_MAX_L2_FETCH_GRANULARITY, {128, 0, 1, 127}, 129},
                {CU_LIMIT_PRINTF_FIFO_SIZE, {1 << 20, 1 << 22, 1 << 21, 1 << 20}, 0},
                {CU_LIMIT_MALLOC_HEAP_SIZE, {8 << 20, 16 << 20, 32 << 20, 8 << 20}, 0},
                {CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, {2, 1, 3, 2}, 0}};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t was = 0, v = 9;
        unsigned same = 0;

        NEED(cuCtxGetLimit(&was, rows[i].limit));
        for (unsigned k = 0; k < 4; k++)
            same += cuCtxSetLimit(rows[i].limit, rows[i].taken[k]) == CUDA_SUCCESS &&
                    cuCtxGetLimit(&v, rows[i].limit) == CUDA_SUCCESS && v == rows[i].taken[k];
        cf_u64("same", same, 4);
        if (rows[i].refused) {
            RC("refused", cuCtxSetLimit(rows[i].limit, rows[i].refused), CUDA_ERROR_INVALID_VALUE);
            OK("get", cuCtxGetLimit(&v, rows[i].limit));
            cf_u64("unchanged", v, rows[i].taken[3]);
        }
        NEED(cuCtxSetLimit(rows[i].limit, was));
    }
}

static cuuint64_t graph_memory(CUgraphMem_attribute attribute)
{
    cuuint64_t v = 99;

    NEED(cuDeviceGetGraphMemAttribute(0, attribute, &v));
    return v;
}

/* A launch without memory for its last allocation keeps none of its earlier allocations, in any number of
   attempts. */
CASE(second_launch, CF_CTX | CF_UB)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}}};
    size_t before = 0, after = 0, total = 0;
    CUgraphNode last = NULL, n = NULL;
    CUgraphExec x = NULL;
    unsigned none = 0;
    CUgraph g = NULL;

    NEED(cuDeviceGraphMemTrim(0));
    NEED(cuMemGetInfo(&before, &total));
    NEED(cuGraphCreate(&g, 0));
    for (unsigned i = 0; i < 3; i++) {
        p.bytesize = i == 2 ? total : (size_t)1 << 20;
        NEED(cuGraphAddMemAllocNode(&n, g, last ? &last : NULL, last != NULL, &p));
        last = n;
    }
    NEED(cuGraphInstantiate(&x, g, 0));
    for (unsigned i = 0; i < 3; i++) {
        RC("refused", cuGraphLaunch(x, NULL), CUDA_ERROR_OUT_OF_MEMORY);
        none += graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 0;
    }
    cf_u64("none_used", none, 3);
    NEED(cuGraphExecDestroy(x));
    NEED(cuGraphDestroy(g));
    NEED(cuCtxSynchronize());
    NEED(cuDeviceGraphMemTrim(0));
    cf_u64("reserved", graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
    NEED(cuMemGetInfo(&after, &total));
    cf_true("free", after == before);
}

static int ends; /* by atomic accesses */

static void CUDA_CB end_object(void *p)
{
    (void)p;
    __atomic_add_fetch(&ends, 1, __ATOMIC_RELAXED);
}

struct holders {
    CUuserObject o;
    CUgraph graph[2]; /* the second graph is a clone */
    CUgraphExec x;
};

static CUresult let_go(struct holders *h, unsigned which)
{
    return which == 0   ? cuUserObjectRelease(h->o, 2)
           : which == 3 ? cuGraphExecDestroy(h->x)
                        : cuGraphDestroy(h->graph[which - 1]);
}

/*
 * The program, a graph, its clone and its executable graph release an object in each of the 24 orders: the
 * last release destroys the object, and while a graph holds it the program may retain it again.
 */
CASE(second_objects, CF_CTX)
{
    unsigned orders = 0, early = 0, again = 0, graphs = 0, ended = 0;
    CUuserObject most = NULL;

    for (unsigned code = 0; code < 256; code++) {
        const unsigned order[4] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6};
        struct holders h = {0};
        unsigned left = 0;

        for (unsigned i = 0; i < 4; i++)
            left |= 1u << order[i];
        if (left != 15)
            continue;
        orders++;
        ends = 0;
        NEED(cuUserObjectCreate(&h.o, NULL, end_object, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
        NEED(cuGraphCreate(&h.graph[0], 0));
        NEED(cuGraphRetainUserObject(h.graph[0], h.o, 2, 0));
        NEED(cuGraphClone(&h.graph[1], h.graph[0]));
        NEED(cuGraphInstantiate(&h.x, h.graph[0], 0));
        for (unsigned i = 0; i < 4; i++) {
            early += __atomic_load_n(&ends, __ATOMIC_RELAXED) != 0;
            NEED(let_go(&h, order[i]));
            left &= ~(1u << order[i]);
            if (left & 6) {
                graphs++;
                again +=
                    cuUserObjectRetain(h.o, 3) == CUDA_SUCCESS && cuUserObjectRelease(h.o, 3) == CUDA_SUCCESS;
            }
        }
        for (unsigned i = 0; i < 20000 && !__atomic_load_n(&ends, __ATOMIC_RELAXED); i++)
            usleep(500);
        ended += __atomic_load_n(&ends, __ATOMIC_RELAXED) == 1;
    }
    /* The largest int is a valid number of references, too. */
    ends = 0;
    NEED(cuUserObjectCreate(&most, NULL, end_object, INT32_MAX, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK("release_most", cuUserObjectRelease(most, INT32_MAX));
    for (unsigned i = 0; i < 20000 && !__atomic_load_n(&ends, __ATOMIC_RELAXED); i++)
        usleep(500);
    cf_u64("ended_most", (uint64_t)__atomic_load_n(&ends, __ATOMIC_RELAXED), 1);
    cf_u64("orders", orders, 24);
    cf_u64("early", early, 0);
    cf_u64("again", again, graphs);
    cf_u64("ended", ended, 24);
}

struct range {
    CUdeviceptr start, base;
    size_t size, mapped;
    unsigned device, zero; /* no padding: compared by bytes */
};

/* Attributes of reserved and mapped memory that libcuda answers without the worker. */
static struct range range_of(CUdeviceptr p)
{
    struct range r;

    memset(&r, 0, sizeof(r));
    NEED(cuPointerGetAttribute(&r.start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p));
    NEED(cuPointerGetAttribute(&r.size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p));
    NEED(cuPointerGetAttribute(&r.base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, p));
    NEED(cuPointerGetAttribute(&r.mapped, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, p));
    NEED(cuPointerGetAttribute(&r.device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    return r;
}

/* A refused end of a reservation or of a mapping changes none of its attributes, and the right call ends it. */
CASE(second_reserved, CF_CTX)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmemAccessDesc rw = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h = 0;
    unsigned refused = 0, same = 0;
    CUdeviceptr p = 0;
    struct range was;
    size_t g = 0;

    NEED(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    NEED(cuMemAddressReserve(&p, 2 * g, 0, 0, 0));
    NEED(cuMemCreate(&h, g, &prop, 0));
    NEED(cuMemMap(p, g, 0, h, 0));
    NEED(cuMemSetAccess(p, g, &rw, 1));
    was = range_of(p);
    cf_true("range", was.start == p && was.base == p && was.mapped == g);
    for (unsigned i = 0; i < 8; i++) {
        CUresult r = i % 4 == 0   ? cuMemAddressFree(p, 2 * g) /* mapped */
                     : i % 4 == 1 ? cuMemAddressFree(p, g)
                     : i % 4 == 2 ? cuMemAddressFree(p + g, g)
                                  : cuMemUnmap(p, g / 2);
        struct range is = range_of(p);

        refused += r != CUDA_SUCCESS;
        same += !memcmp(&is, &was, sizeof(is));
    }
    cf_u64("refused", refused, 8);
    cf_u64("same", same, 8);
    OK("memset", cuMemsetD8(p, 1, g));
    OK("unmap", cuMemUnmap(p, g));
    OK("free", cuMemAddressFree(p, 2 * g));
    RC("free_again", cuMemAddressFree(p, 2 * g), CUDA_ERROR_INVALID_VALUE);
    OK("release", cuMemRelease(h));
}

/* Peaks of a pool that keeps its memory: a reset sets each to the present used and reserved size. */
CASE(second_peaks, CF_CTX)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    cuuint64_t all = UINT64_MAX, zero = 0, reserved = 1, high = 2, used = 3;
    CUmemoryPool pool = NULL;
    CUdeviceptr p = 0;

    NEED(cuMemPoolCreate(&pool, &props));
    NEED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    NEED(cuMemAllocFromPoolAsync(&p, 1 << 20, pool, NULL));
    NEED(cuMemFreeAsync(p, NULL));
    NEED(cuCtxSynchronize());
    OK("reset_used", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    OK("reset_reserved", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
    OK("used", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
    cf_u64("used_value", used, 0);
    OK("reserved", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    OK("reserved_high", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &high));
    cf_true("reserved_value", reserved >= 1 << 20 && high == reserved);
    OK("destroy", cuMemPoolDestroy(pool));
}

static cuuint64_t reserved_by(CUmemoryPool pool)
{
    cuuint64_t reserved = 1;

    NEED(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    return reserved;
}

/*
 * A pool with a lowered threshold: the next wait releases memory freed before and after the change, also
 * memory that had been kept and reused.
 */
CASE(second_threshold, CF_CTX)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const size_t sizes[] = {4096, 1 << 20, 32 << 20};
    cuuint64_t all = UINT64_MAX, zero = 0;

    for (unsigned i = 0; i < 6; i++) {
        const bool lowered_last = i % 2;
        CUmemoryPool pool = NULL;
        CUdeviceptr p = 0;

        NEED(cuMemPoolCreate(&pool, &props));
        for (unsigned round = 0; round < 2; round++) {
            NEED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
            for (unsigned k = 0; k < 3; k++) {
                NEED(cuMemAllocFromPoolAsync(&p, sizes[i / 2], pool, NULL));
                NEED(cuMemFreeAsync(p, NULL));
                NEED(cuStreamSynchronize(NULL));
            }
            cf_true("kept", reserved_by(pool) >= sizes[i / 2]);
            NEED(cuMemAllocFromPoolAsync(&p, sizes[i / 2], pool, NULL));
            if (lowered_last)
                NEED(cuMemFreeAsync(p, NULL));
            NEED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero));
            if (!lowered_last)
                NEED(cuMemFreeAsync(p, NULL));
            NEED(cuStreamSynchronize(NULL));
            cf_u64(lowered_last ? "released_lowered_last" : "released", reserved_by(pool), 0);
        }
        OK("destroy", cuMemPoolDestroy(pool));
    }
}

/* A wait releases by the threshold of its time: raising the threshold afterwards brings no memory back. */
CASE(second_threshold_raised, CF_CTX)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    cuuint64_t all = UINT64_MAX, zero = 0;
    CUmemoryPool pool = NULL;

    NEED(cuMemPoolCreate(&pool, &props));
    for (unsigned round = 0; round < 3; round++) {
        CUdeviceptr p = 0;

        NEED(cuMemAllocFromPoolAsync(&p, 32 << 20, pool, NULL));
        NEED(cuMemFreeAsync(p, NULL));
        NEED(cuStreamSynchronize(NULL));
        NEED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
        cf_u64("raised", reserved_by(pool), 0);
        NEED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero));
    }
    OK("destroy", cuMemPoolDestroy(pool));
}

/* The size of a block that is suggested is within the limit, also where that is no multiple of a warp. */
CASE(second_block_size, CF_CTX)
{
    static const int limits[] = {1, 31, 32, 33, 100, 255, 1000, 1023, 1024, 5000};
    CUfunction f = cf_func("k_nop");

    for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        int grid = 0, block = 0, resident = 0;

        NEED(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, NULL, 0, limits[i]));
        cf_true("within", block > 0 && block <= limits[i] && grid > 0);
        NEED(cuOccupancyMaxActiveBlocksPerMultiprocessor(&resident, f, block, 0));
        cf_true("resident", resident > 0);
        if (!cf_real())
            cf_u64("block", (uint64_t)block, (uint64_t)block);
    }
}
