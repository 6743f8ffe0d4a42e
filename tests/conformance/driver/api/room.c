/* SPDX-License-Identifier: MIT */
/*
 * Calls that fill an array or a text of the caller: with no room, room for one element less than
 * available, for exactly that and for one more; with no object, one and several. Memory behind the
 * room is unchanged. Also batches that fail at each position.
 */
#include "conform.h"

#define MOST 3u /* maximum number of objects */
#define GUARD 0xa7
#define BYTES 4096u

struct room {
    const char *name;
    size_t size; /* size of an element, bytes */
    /* Creates n objects; `ask` queries them. */
    void (*begin)(unsigned n);
    CUresult (*ask)(void *to, size_t *count);
    void (*end)(void);
    bool rest_is_null; /* unused room is zeroed; an array without room is refused */
};

static char label[96];

static const char *check_name(const char *name, unsigned n, size_t room, const char *what)
{
    snprintf(label, sizeof(label), "%s_%u_in_%zu_%s", name, n, room, what);
    return label;
}

static bool all_are(const unsigned char *p, size_t from, size_t to, unsigned char value)
{
    while (from < to && p[from] == value)
        from++;
    return from >= to;
}

/* Calls with the given room when there are n objects, whose bytes are `all`. */
static void one_room(const struct room *r, unsigned n, size_t room, const unsigned char *all)
{
    static unsigned char to[BYTES];
    size_t count = room, got = room < n ? room : n;

    memset(to, GUARD, sizeof(to));
    cf_rc(check_name(r->name, n, room, "call"), r->ask(to, &count),
          r->rest_is_null && !room ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
    cf_u64(check_name(r->name, n, room, "count"), count, got);
    cf_true(check_name(r->name, n, room, "elements"), !memcmp(to, all, got * r->size));
    cf_true(check_name(r->name, n, room, "rest"),
            all_are(to, got * r->size, room * r->size, r->rest_is_null ? 0 : GUARD));
    cf_true(check_name(r->name, n, room, "behind"), all_are(to, room * r->size, sizeof(to), GUARD));
}

static void each_room(const struct room *r)
{
    static const unsigned numbers[] = {0, 1, MOST};

    for (unsigned k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
        unsigned char all[BYTES];
        unsigned n = numbers[k];
        size_t count = n;

        r->begin(n);
        memset(all, 0, sizeof(all));
        if (n)
            cf_need(r->name, r->ask(all, &count));
        for (unsigned i = 1; i < n; i++)
            cf_need_true("no element twice", memcmp(all, all + i * r->size, r->size) != 0);
        for (size_t room = 0; room <= MOST + 1; room++) {
            if (room + 1 >= n || !room)
                one_room(r, n, room, all);
        }
        r->end();
    }
}

/* ---- graphs ---- */

static CUgraph graph;
static CUgraphNode node; /* in the middle */

static void lone_nodes(unsigned n)
{
    NEED(cuGraphCreate(&graph, 0));
    for (unsigned i = 0; i < n; i++)
        NEED(cuGraphAddEmptyNode(&node, graph, NULL, 0));
}

/* Creates n nodes before `node` and n after it. */
static void star(unsigned n)
{
    CUgraphNode before[MOST], behind;

    NEED(cuGraphCreate(&graph, 0));
    for (unsigned i = 0; i < n; i++)
        NEED(cuGraphAddEmptyNode(&before[i], graph, NULL, 0));
    NEED(cuGraphAddEmptyNode(&node, graph, before, n));
    for (unsigned i = 0; i < n; i++)
        NEED(cuGraphAddEmptyNode(&behind, graph, &node, 1));
}

/* Creates n edges into one node. */
static void edges(unsigned n)
{
    CUgraphNode before[MOST];

    NEED(cuGraphCreate(&graph, 0));
    for (unsigned i = 0; i < n; i++)
        NEED(cuGraphAddEmptyNode(&before[i], graph, NULL, 0));
    NEED(cuGraphAddEmptyNode(&node, graph, before, n));
}

static void graph_end(void)
{
    NEED(cuGraphDestroy(graph));
}

static CUresult ask_nodes(void *to, size_t *count)
{
    return cuGraphGetNodes(graph, to, count);
}

static CUresult ask_roots(void *to, size_t *count)
{
    return cuGraphGetRootNodes(graph, to, count);
}

static CUgraphNode other[MOST + 2]; /* the array not under test */
static CUgraphEdgeData data[MOST + 2];

static CUresult ask_edges_from(void *to, size_t *count)
{
    return cuGraphGetEdges(graph, to, other, data, count);
}

/* All edges have the same target, so the sources tell them apart and must keep their order. */
static CUresult ask_edges_to(void *to, size_t *count)
{
    CUgraphNode from[MOST + 2], target[MOST + 2];
    size_t room = *count;
    CUresult r;

    memset(target, GUARD, sizeof(target));
    r = cuGraphGetEdges(graph, from, target, data, count);
    memcpy(to, from, room * sizeof(*from));
    for (size_t i = 0; r == CUDA_SUCCESS && i < MOST + 2; i++) {
        if (i < *count ? target[i] != node
            : i < room ? target[i] != NULL
                       : !all_are((void *)&target[i], 0, 8, GUARD))
            r = CUDA_ERROR_UNKNOWN;
    }
    return r;
}

static CUresult ask_dependencies(void *to, size_t *count)
{
    return cuGraphNodeGetDependencies(node, to, data, count);
}

static CUresult ask_dependents(void *to, size_t *count)
{
    return cuGraphNodeGetDependentNodes(node, to, data, count);
}

CASE(room_graph, CF_CTX)
{
    static const struct room calls[] = {
        {"nodes", sizeof(CUgraphNode), lone_nodes, ask_nodes, graph_end, true},
        {"roots", sizeof(CUgraphNode), lone_nodes, ask_roots, graph_end, true},
        {"edges_from", sizeof(CUgraphNode), edges, ask_edges_from, graph_end, true},
        {"edges_to", sizeof(CUgraphNode), edges, ask_edges_to, graph_end, true},
        {"dependencies", sizeof(CUgraphNode), star, ask_dependencies, graph_end, true},
        {"dependents", sizeof(CUgraphNode), star, ask_dependents, graph_end, true},
    };

    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        each_room(&calls[i]);
}

/* ---- code ---- */

static CUmodule module;
static CUlibrary library;

static void ptx_of(char *text, size_t size, unsigned n)
{
    int at = snprintf(text, size, ".version 6.5\n.target sm_75\n.address_size 64\n");

    for (unsigned i = 0; i < n; i++)
        at += snprintf(text + at, size - (size_t)at, ".visible .entry k%u() { ret; }\n", i);
}

static void kernels(unsigned n)
{
    char text[512];
    unsigned count = 9;

    ptx_of(text, sizeof(text), n);
    NEED(cuModuleLoadData(&module, text));
    NEED(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    NEED(cuModuleGetFunctionCount(&count, module));
    cf_need_true("functions", count == n);
    NEED(cuLibraryGetKernelCount(&count, library));
    cf_need_true("kernels", count == n);
}

static void kernels_end(void)
{
    NEED(cuModuleUnload(module));
    NEED(cuLibraryUnload(library));
}

/* These calls do not return the number of elements. */
static size_t given(const void *to, size_t room)
{
    size_t n = 0;

    while (n < room && !all_are((const unsigned char *)to + n * sizeof(void *), 0, sizeof(void *), GUARD))
        n++;
    return n;
}

static CUresult ask_functions(void *to, size_t *count)
{
    CUresult r = cuModuleEnumerateFunctions(to, (unsigned)*count, module);

    *count = given(to, *count);
    return r;
}

static CUresult ask_kernels(void *to, size_t *count)
{
    CUresult r = cuLibraryEnumerateKernels(to, (unsigned)*count, library);

    *count = given(to, *count);
    return r;
}

CASE(room_code, CF_CTX)
{
    static const struct room calls[] = {
        {"functions", sizeof(CUfunction), kernels, ask_functions, kernels_end, false},
        {"kernels", sizeof(CUkernel), kernels, ask_kernels, kernels_end, false},
    };

    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        each_room(&calls[i]);
}

/* ---- texts ---- */

static CUresult ask_name(char *to, int room)
{
    return cuDeviceGetName(to, room, 0);
}

static CUresult ask_bus(char *to, int room)
{
    return cuDeviceGetPCIBusId(to, room, 0);
}

CASE(room_text, CF_CTX)
{
    static const struct {
        const char *name;
        CUresult (*ask)(char *to, int room);
    } texts[] = {{"name", ask_name}, {"bus", ask_bus}};

    for (unsigned k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
        char all[256], to[256];

        NEED(texts[k].ask(all, sizeof(all)));
        int n = (int)strlen(all) + 1;

        for (int room = n - 1; room <= n + 1; room++) {
            char name[64];
            CUresult r;

            memset(to, GUARD, sizeof(to));
            r = texts[k].ask(to, room);
            /* A name is truncated, a bus id has to fit. */
            snprintf(name, sizeof(name), "%s_%+d", texts[k].name, room - n);
            RC_IN(name, r, CUDA_SUCCESS, room < n ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
            snprintf(name, sizeof(name), "%s_%+d_text", texts[k].name, room - n);
            cf_true(name, r != CUDA_SUCCESS || !strncmp(to, all, (size_t)(room < n ? room - 1 : n)));
            snprintf(name, sizeof(name), "%s_%+d_behind", texts[k].name, room - n);
            cf_true(name, all_are((unsigned char *)to, (size_t)room, sizeof(to), GUARD));
        }
    }
}

/* ---- batches that fail at one place ---- */

#define BATCH 5u
#define SIZE 64u

typedef CUresult CUDAAPI batch_fn(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *,
                                  size_t *, size_t, size_t *, CUstream);
typedef CUresult CUDAAPI batch_3d_fn(size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *, unsigned long long,
                                     CUstream);

static CUdeviceptr from, into;
static CUstream stream;

/* Returns the copies that were made, as bits; destinations start with BATCH different patterns. */
static unsigned copied(void)
{
    unsigned char back[BATCH * SIZE], zero[SIZE] = {0};
    unsigned made = 0;

    NEED(cuStreamSynchronize(stream));
    NEED(cuMemcpyDtoH(back, into, sizeof(back)));
    for (unsigned i = 0; i < BATCH; i++) {
        bool same = cf_is_pattern(back + i * SIZE, SIZE, i + 1);

        cf_need_true("a copy is whole", same || !memcmp(back + i * SIZE, zero, SIZE));
        made |= (unsigned)same << i;
    }
    NEED(cuMemsetD8(into, 0, sizeof(back)));
    NEED(cuCtxSynchronize());
    return made;
}

static void batch_begin(void)
{
    unsigned char all[BATCH * SIZE];

    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&from, sizeof(all)));
    NEED(cuMemAlloc(&into, sizeof(all)));
    for (unsigned i = 0; i < BATCH; i++)
        cf_pattern(all + i * SIZE, SIZE, i + 1);
    NEED(cuMemcpyHtoD(from, all, sizeof(all)));
    NEED(cuMemsetD8(into, 0, sizeof(all)));
    NEED(cuCtxSynchronize());
}

static void batch_end(void)
{
    NEED(cuMemFree(from));
    NEED(cuMemFree(into));
    NEED(cuStreamDestroy(stream));
}

static void *entry(const char *name)
{
    CUdriverProcAddressQueryResult found;
    void *p = NULL;

    NEED(cuGetProcAddress(name, &p, 12080, 0, &found));
    cf_need_true(name, p != NULL);
    return p;
}

/* `bad`: position of a copy that fails; BATCH: none. */
static void batch_fails(batch_fn *call, unsigned bad)
{
    CUdeviceptr dsts[BATCH], srcs[BATCH];
    CUmemcpyAttributes attr = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t sizes[BATCH], first = 0, failed[3] = {77, 77, 77};
    char name[64];
    CUresult r;

    for (unsigned i = 0; i < BATCH; i++) {
        dsts[i] = into + i * SIZE;
        srcs[i] = i == bad ? 0 : from + i * SIZE;
        sizes[i] = SIZE;
    }
    r = call(dsts, srcs, sizes, BATCH, &attr, &first, 1, &failed[1], stream);
    snprintf(name, sizeof(name), "copies_%u", bad);
    cf_rc(name, r, bad < BATCH ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
    snprintf(name, sizeof(name), "copies_%u_index", bad);
    cf_u64(name, failed[1], bad < BATCH ? bad : SIZE_MAX);
    cf_true("beside_index", failed[0] == 77 && failed[2] == 77);
    snprintf(name, sizeof(name), "copies_%u_made", bad);
    cf_u64(name, copied(), (1u << bad) - 1);
}

static void batch_3d_fails(batch_3d_fn *call, unsigned bad)
{
    CUDA_MEMCPY3D_BATCH_OP ops[BATCH];
    size_t failed[3] = {77, 77, 77};
    char name[64];
    CUresult r;

    memset(ops, 0, sizeof(ops));
    for (unsigned i = 0; i < BATCH; i++) {
        ops[i].src.type = ops[i].dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
        ops[i].src.op.ptr.ptr = i == bad ? 0 : from + i * SIZE;
        ops[i].dst.op.ptr.ptr = into + i * SIZE;
        ops[i].extent = (CUextent3D){SIZE, 1, 1};
        ops[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    }
    r = call(BATCH, ops, &failed[1], 0, stream);
    snprintf(name, sizeof(name), "copies_3d_%u", bad);
    cf_rc(name, r, bad < BATCH ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
    /* Only for an operation with invalid parameters, not with an invalid address (driver 580). */
    snprintf(name, sizeof(name), "copies_3d_%u_index", bad);
    cf_u64(name, failed[1], SIZE_MAX);
    cf_true("beside_index", failed[0] == 77 && failed[2] == 77);
    snprintf(name, sizeof(name), "copies_3d_%u_made", bad);
    cf_u64(name, copied(), (1u << bad) - 1);
}

CASE(batch_fails_at, CF_CTX)
{
    batch_begin();
    for (unsigned bad = 0; bad <= BATCH; bad++) {
        batch_fails((batch_fn *)entry("cuMemcpyBatchAsync"), bad);
        batch_3d_fails((batch_3d_fn *)entry("cuMemcpy3DBatchAsync"), bad);
    }
    batch_end();
}

/*
 * Batches without an index: refused memory operations have no effect at all; attributes are written
 * up to the refused one.
 */
CASE(batch_refused_at, CF_CTX)
{
    batch_begin();
    for (unsigned bad = 0; bad <= BATCH; bad++) {
        CUstreamBatchMemOpParams ops[BATCH];
        CUpointer_attribute attrs[BATCH];
        unsigned ids[BATCH][3];
        void *to[BATCH];
        uint32_t words[BATCH];
        char name[64];

        memset(ops, 0, sizeof(ops));
        for (unsigned i = 0; i < BATCH; i++) {
            ops[i].operation = i == bad ? 99 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
            ops[i].writeValue.operation = ops[i].operation;
            ops[i].writeValue.address = into + 4 * i;
            ops[i].writeValue.value = 5;
            attrs[i] = i == bad ? (CUpointer_attribute)999 : CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
            ids[i][0] = ids[i][1] = ids[i][2] = 77;
            to[i] = &ids[i][1];
        }
        snprintf(name, sizeof(name), "memory_operations_%u", bad);
        cf_rc(name, cuStreamBatchMemOp(stream, BATCH, ops, 0),
              bad < BATCH ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
        NEED(cuStreamSynchronize(stream));
        NEED(cuMemcpyDtoH(words, into, sizeof(words)));
        snprintf(name, sizeof(name), "memory_operations_%u_made", bad);
        unsigned made = 0;
        for (unsigned i = 0; i < BATCH; i++)
            made += words[i] == 5;
        cf_u64(name, made, bad < BATCH ? 0 : BATCH);
        NEED(cuMemsetD8(into, 0, BATCH * SIZE));
        NEED(cuCtxSynchronize());
        snprintf(name, sizeof(name), "attributes_%u", bad);
        cf_rc(name, cuPointerGetAttributes(BATCH, attrs, to, into),
              bad < BATCH ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
        made = 0;
        for (unsigned i = 0; i < BATCH; i++) {
            made += ids[i][1] == CU_MEMORYTYPE_DEVICE;
            cf_need_true("beside an attribute", ids[i][0] == 77 && ids[i][2] == 77);
        }
        snprintf(name, sizeof(name), "attributes_%u_made", bad);
        cf_u64(name, made, bad);
    }
    batch_end();
}
