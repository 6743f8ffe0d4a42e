// SPDX-License-Identifier: MIT
/*
 * victim work SECONDS   steady work with one right answer; ends with 0 when every bit was right
 * victim once           one round of it
 * victim oob            a kernel that writes out of bounds; ends with 0 when the error was sticky
 * victim wait           waits for a kernel that never ends; ends with 0 when the wait returns an error
 * victim busy           starts such a kernel, says so, and sleeps
 * victim hoard MB       allocates MB megabytes in pieces of 1 MB until out of memory; says how many it
 *                       got, frees one and allocates it again
 * victim chain MB        launches a graph that allocates and frees MB megabytes four times, one after the other;
 * victim branches MB     the same without an order between them; either says what the launch returns
 * victim modules MB      loads modules of 1 MB of variables, maps physical memory of 2 MB after each,
 *                       until out of memory; says how many MB it got; unloads one and loads it again
 * victim secret         fills 32 MB with a pattern and is killed by the test; victim search looks for it
 * victim pin MB          one pinned allocation of that size; ends with 0 when it was refused with out of
 *                       memory and a small one works
 * victim partial        registers memory that begins and ends inside pages; ends with 0 when a kernel
 *                       changes it and nothing beside it (in a guest; the socket transport refuses)
 * One line on standard output says what happened.
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry work(.param .u64 p, .param .u32 iters)\n{\n"
    ".reg .u32 %r<8>; .reg .u64 %d<4>; .reg .pred %q;\n"
    "ld.param.u64 %d0, [p]; ld.param.u32 %r0, [iters]; cvta.to.global.u64 %d0, %d0;\n"
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "mad.lo.u32 %r1, %r1, %r2, %r3; mul.wide.u32 %d1, %r1, 4; add.u64 %d0, %d0, %d1;\n"
    "ld.global.u32 %r4, [%d0];\n"
    "again: mad.lo.u32 %r4, %r4, 1664525, 1013904223; sub.u32 %r0, %r0, 1;\n"
    "setp.ne.u32 %q, %r0, 0; @%q bra again;\n"
    "st.global.u32 [%d0], %r4; ret;\n}\n"
    ".visible .entry spin(.param .u64 p)\n{\n"
    ".reg .u32 %r<2>; .reg .u64 %d<2>; .reg .pred %q;\n"
    "ld.param.u64 %d0, [p]; cvta.to.global.u64 %d0, %d0;\n"
    "again: ld.volatile.global.u32 %r0, [%d0]; setp.eq.u32 %q, %r0, 0; @%q bra again;\n"
    "ret;\n}\n"
    ".visible .entry wild()\n{\n"
    ".reg .u64 %d<2>; mov.u64 %d0, 16; st.global.u32 [%d0], 1; ret;\n}\n";

#define N 4096u
#define ITERS 500u

static CUmodule mod;
static CUdeviceptr mem;

static int fail(const char *what, CUresult r)
{
    printf("victim: %s returns %d\n", what, r);
    return 1;
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        CUresult r_ = (call);                                                                      \
        if (r_ != CUDA_SUCCESS)                                                                    \
            return fail(#call, r_);                                                                \
    } while (0)

static int start(void)
{
    CUcontext c;
    TRY(cuInit(0));
    TRY(cuDevicePrimaryCtxRetain(&c, 0));
    TRY(cuCtxSetCurrent(c));
    TRY(cuModuleLoadData(&mod, ptx));
    TRY(cuMemAlloc(&mem, N * 4));
    return 0;
}

static int launch(const char *name, unsigned grid, unsigned block, void **params)
{
    CUfunction f;
    TRY(cuModuleGetFunction(&f, mod, name));
    TRY(cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, NULL, params, NULL));
    return 0;
}

static int round_of_work(unsigned round)
{
    static uint32_t h[N];
    unsigned iters = ITERS;
    void *params[] = {&mem, &iters};

    for (unsigned i = 0; i < N; i++)
        h[i] = i * 2654435761u + round;
    TRY(cuMemcpyHtoD(mem, h, sizeof(h)));
    if (launch("work", N / 128, 128, params))
        return 1;
    TRY(cuMemcpyDtoH(h, mem, sizeof(h)));
    for (unsigned i = 0; i < N; i++) {
        uint32_t x = i * 2654435761u + round;
        for (unsigned k = 0; k < ITERS; k++)
            x = x * 1664525u + 1013904223u;
        if (h[i] != x) {
            printf("victim: round %u word %u is %08x, not %08x\n", round, i, h[i], x);
            return 1;
        }
    }
    return 0;
}

static int spin(int wait)
{
    void *params[] = {&mem};
    TRY(cuMemsetD8(mem, 0, 4));
    if (launch("spin", 1, 32, params))
        return 1;
    printf("victim: waiting\n");
    fflush(stdout);
    if (!wait)
        for (;;)
            pause();
    CUresult r = cuCtxSynchronize(), again = cuCtxSynchronize(), alloc = cuMemAlloc(&mem, 4);
    printf("victim: the wait returns %d, then %d, and an allocation %d\n", r, again, alloc);
    return !r || !again || !alloc;
}

/* Launches a graph that allocates and frees mb MiB `times` times; in a chain, or all at once. */
static int graph(unsigned mb, unsigned times, int chain)
{
    CUgraphNode last = NULL;
    CUgraphExec exec;
    CUgraph g;

    TRY(cuGraphCreate(&g, 0));
    for (unsigned i = 0; i < times; i++) {
        CUDA_MEM_ALLOC_NODE_PARAMS a = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                      .location.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                        .bytesize = (size_t)mb << 20};
        CUgraphNode n;

        TRY(cuGraphAddMemAllocNode(&n, g, &last, chain && last, &a));
        TRY(cuGraphAddMemFreeNode(&last, g, &n, 1, a.dptr));
    }
    TRY(cuGraphInstantiate(&exec, g, 0));
    CUresult r = cuGraphLaunch(exec, NULL);
    CUresult then = cuCtxSynchronize();
    printf("victim: the launch returns %d\n", r ? r : then);
    return 0;
}

/* What no cuMemAlloc asks for: variables of modules, and physical memory behind addresses. */
static int modules(unsigned mb)
{
    static const char image[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                                ".visible .global .align 4 .b8 v[1048576];\n";
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle h;
    CUmodule last = NULL, m;
    CUdeviceptr at = 0;
    CUresult r = CUDA_SUCCESS;
    unsigned n = 0;

    TRY(cuMemAddressReserve(&at, (size_t)(mb + 4) << 20, 0, 0, 0));
    for (unsigned used = 0; n < mb; used += 2) {
        r = cuModuleLoadData(&m, image);
        if (r)
            break;
        last = m;
        n++;
        r = cuMemCreate(&h, 2 << 20, &prop, 0);
        if (r)
            break;
        n += 2;
        TRY(cuMemMap(at + ((CUdeviceptr)used << 20), 2 << 20, 0, h, 0));
        TRY(cuMemRelease(h)); /* the mapping keeps it */
    }
    printf("victim: %u MB, then %d\n", n, r);
    fflush(stdout);
    if (r != CUDA_ERROR_OUT_OF_MEMORY || !last)
        return 1;
    TRY(cuModuleUnload(last));
    TRY(cuModuleLoadData(&last, image));
    return 0;
}

static int hoard(unsigned mb)
{
    CUdeviceptr *p = calloc(mb, sizeof(*p));
    CUresult r = CUDA_SUCCESS;
    unsigned n = 0;

    while (n < mb && !(r = cuMemAlloc(&p[n], 1 << 20)))
        n++;
    printf("victim: %u MB, then %d\n", n, r);
    fflush(stdout);
    if (r != CUDA_ERROR_OUT_OF_MEMORY || !n)
        return 1;
    TRY(cuMemFree(p[n - 1]));
    TRY(cuMemAlloc(&p[n - 1], 1 << 20));
    TRY(cuMemsetD8(p[n - 1], 1, 1 << 20));
    TRY(cuCtxSynchronize());
    free(p);
    return 0;
}

static int pin(unsigned mb)
{
    void *p = NULL, *q = NULL;
    CUresult r = cuMemHostAlloc(&p, (size_t)mb << 20, 0), small = cuMemHostAlloc(&q, 8192, 0);

    printf("victim: %u MB pinned: %d, then 8 KB: %d\n", mb, r, small);
    return r != CUDA_ERROR_OUT_OF_MEMORY || small;
}

static int partial(void)
{
    enum { WORDS = 5000, FROM = 700, COUNT = 1280 };
    uint32_t *h = aligned_alloc(4096, 20480);
    unsigned iters = 1, bad = 0;
    CUdeviceptr d = 0;
    void *params[] = {&d, &iters};

    for (unsigned i = 0; i < WORDS; i++)
        h[i] = i;
    TRY(cuMemHostRegister(h + FROM, COUNT * 4, CU_MEMHOSTREGISTER_DEVICEMAP));
    TRY(cuMemHostGetDevicePointer(&d, h + FROM, 0));
    if (launch("work", COUNT / 128, 128, params))
        return 1;
    TRY(cuCtxSynchronize());
    for (unsigned i = 0; i < WORDS; i++)
        bad += h[i] != (i >= FROM && i < FROM + COUNT ? i * 1664525u + 1013904223u : i);
    TRY(cuMemHostUnregister(h + FROM));
    printf("victim: %u words wrong\n", bad);
    free(h);
    return bad != 0;
}

#define SECRET 0x5ec2e7a5u
#define SECRET_WORDS (8u << 20)

static int secret(int search)
{
    CUdeviceptr p = 0;
    uint32_t *h = malloc(SECRET_WORDS * 4);
    unsigned found = 0;

    TRY(cuMemAlloc(&p, SECRET_WORDS * 4));
    if (!search) {
        TRY(cuMemsetD32(p, SECRET, SECRET_WORDS));
        TRY(cuCtxSynchronize());
        printf("victim: waiting\n");
        fflush(stdout);
        for (;;)
            pause();
    }
    TRY(cuMemcpyDtoH(h, p, SECRET_WORDS * 4));
    for (unsigned i = 0; i < SECRET_WORDS; i++)
        found += h[i] == SECRET;
    printf("victim: %u words of another process\n", found);
    free(h);
    return found != 0;
}

static int out_of_bounds(void)
{
    if (launch("wild", 1, 1, NULL))
        return 1;
    CUresult r = cuCtxSynchronize(), again = cuMemFree(mem);
    printf("victim: out of bounds returns %d, then %d\n", r, again);
    return r != CUDA_ERROR_ILLEGAL_ADDRESS || again != CUDA_ERROR_ILLEGAL_ADDRESS;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int seconds = argc > 2 ? atoi(argv[2]) : 0, bad;
    unsigned rounds = 0;
    time_t end;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (start())
        return 1;
    if (!strcmp(what, "oob"))
        return out_of_bounds();
    if (!strcmp(what, "wait") || !strcmp(what, "busy"))
        return spin(what[0] == 'w');
    if (!strcmp(what, "hoard"))
        return hoard((unsigned)seconds);
    if (!strcmp(what, "modules"))
        return modules((unsigned)seconds);
    if (!strcmp(what, "chain") || !strcmp(what, "branches"))
        return graph((unsigned)seconds, 4, what[0] == 'c');
    if (!strcmp(what, "partial"))
        return partial();
    if (!strcmp(what, "pin"))
        return pin((unsigned)seconds);
    if (!strcmp(what, "secret") || !strcmp(what, "search"))
        return secret(what[2] == 'a');
    if (strcmp(what, "work") && strcmp(what, "once"))
        return 2;
    end = time(NULL) + seconds;
    do {
        bad = round_of_work(rounds++);
    } while (!bad && time(NULL) < end);
    printf("victim: %u rounds, %s\n", rounds, bad ? "wrong" : "every bit right");
    return bad;
}
