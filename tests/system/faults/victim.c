// SPDX-License-Identifier: MIT
/*
 * victim work SECONDS steady work with a single correct result; exits with 0 if every bit was right
 * victim until          the same until the end of its standard input; prints "working" after
 *                       the first round
 * victim once           one round of it
 * victim count N [signals]   N launches on the same memory, none lost or repeated; [signals]: with
 *                       a timer that interrupts every millisecond. Prints "working" after its start
 * victim streams N      N rounds of 16 streams with work of any length, waited for in any order;
 *                       work is complete when a wait for it returns
 * victim fork N         N children while the parent works: CUDA is not initialized in them; each
 *                       eighth executes this program, which works and has none of its parent's
 *                       descriptors
 * victim dims           launches with impossible sizes are refused, and the next launch works
 * victim talk           kernels that print, until killed
 * victim oob            a kernel that writes out of bounds; exits with 0 if the error was sticky
 * victim wait           waits for a kernel that never ends; exits with 0 if the wait returns an
 *                       error
 * victim busy           starts such a kernel, prints that, and sleeps
 * victim hoard MB       allocates MB megabytes in pieces of 1 MB until out of memory; prints the
 *                       amount, frees a piece and allocates it again
 * victim chain MB       launches a graph that allocates and frees MB megabytes four times in
 *                       sequence;
 * victim branches MB    the same without an order; both print the result of the launch
 * victim modules MB     loads modules of 1 MB of variables, maps physical memory of 2 MB after
 *                       each, until out of memory; prints the amount in MB; unloads a module and
 *                       loads it again
 * victim secret [MB]    fills MB (default 32) with a pattern until killed; victim search looks for
 *                       it
 * victim pin MB         pinned memory beyond pin_limit_mib of vgpu_drv; exits with 0 if it is
 *                       refused as mapped memory (out of memory), served otherwise (copies are
 *                       right, no device pointer), and a small allocation is pinned
 * victim partial        registers memory that begins and ends inside pages; exits with 0 if a
 *                       kernel changes only that memory (in a guest; the socket transport refuses)
 *
 * A line on standard output gives the result.
 */
#include <cuda.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
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
    ".reg .u64 %d<2>; mov.u64 %d0, 16; st.global.u32 [%d0], 1; ret;\n}\n"
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
    ".global .align 1 .b8 text[48] = {97,32,107,101,114,110,101,108,32,116,104,97,116,32,104,97,115,32,109,117,"
    "99,104,32,116,111,32,115,97,121,46,46,46,46,46,46,10,0};\n"
    ".visible .entry talk()\n{\n"
    ".reg .b64 %d<3>; .reg .b32 %r<2>; mov.u64 %d0, text; cvta.global.u64 %d1, %d0; mov.u64 %d2, 0;\n"
    "{ .param .b64 f; .param .b64 a; .param .b32 v; st.param.b64 [f], %d1; st.param.b64 [a], %d2;\n"
    "call.uni (v), vprintf, (f, a); ld.param.b32 %r0, [v]; } ret;\n}\n";

#define N 4096u
#define ITERS 500u

static CUmodule mod;
static CUdeviceptr mem;

static int fail(const char *what, CUresult r)
{
    printf("victim: %s returns %d\n", what, r);
    return 1;
}

#define TRY(call) \
    do { \
        CUresult r_ = (call); \
        if (r_ != CUDA_SUCCESS) \
            return fail(#call, r_); \
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

/* Memory not from cuMemAlloc: variables of modules, and physical memory behind addresses. */
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
        TRY(cuMemRelease(h)); /* held by the mapping */
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
    size_t n = (size_t)mb << 20;
    CUdeviceptr to, on_device = 0;
    unsigned char *p = NULL;
    void *q = NULL, *none = NULL;
    CUresult mapped = cuMemHostAlloc(&none, n, CU_MEMHOSTALLOC_DEVICEMAP), pointer, small;
    size_t wrong = 0;

    TRY(cuMemHostAlloc((void **)&p, n, 0));
    TRY(cuMemAlloc(&to, n));
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)(i * 7 + i / 251);
    TRY(cuMemcpyHtoDAsync(to, p, n, NULL));
    TRY(cuCtxSynchronize());
    memset(p, 0, n);
    TRY(cuMemcpyDtoHAsync(p, to, n, NULL));
    TRY(cuCtxSynchronize());
    for (size_t i = 0; i < n; i++)
        wrong += p[i] != (unsigned char)(i * 7 + i / 251);
    pointer = cuMemHostGetDevicePointer(&on_device, p, 0);
    small = cuMemHostAlloc(&q, 8192, CU_MEMHOSTALLOC_DEVICEMAP);
    TRY(cuMemFreeHost(p));
    printf("victim: %u MB pinned: mapped %d, else %zu bytes wrong, pointer %d, then 8 KB: %d\n", mb, mapped,
           wrong, pointer, small);
    return mapped != CUDA_ERROR_OUT_OF_MEMORY || wrong || pointer != CUDA_ERROR_NOT_SUPPORTED || small;
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
static int secret(int search, unsigned mb)
{
    CUdeviceptr p = 0;
    size_t words = (size_t)(mb ? mb : 32) << 18;
    uint32_t *h = malloc(words * 4);
    unsigned found = 0;

    TRY(cuMemAlloc(&p, words * 4));
    if (!search) {
        TRY(cuMemsetD32(p, SECRET, words));
        TRY(cuCtxSynchronize());
        printf("victim: waiting\n");
        fflush(stdout);
        for (;;)
            pause();
    }
    TRY(cuMemcpyDtoH(h, p, words * 4));
    for (size_t i = 0; i < words; i++)
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

static void working(void)
{
    printf("victim: working\n");
    fflush(stdout);
}

static int until(void)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    unsigned rounds = 0;
    int bad;

    do {
        bad = round_of_work(rounds);
        if (!rounds++ && !bad)
            working();
    } while (!bad && poll(&in, 1, 0) <= 0);
    printf("victim: %u rounds, %s\n", rounds, bad ? "wrong" : "every bit right");
    return bad;
}

static volatile unsigned ticks;

static void on_tick(int sig)
{
    (void)sig;
    ticks++;
}

static int count(unsigned n, int signals)
{
    struct sigaction sa = {.sa_handler = on_tick}; /* without SA_RESTART: system calls return EINTR */
    struct itimerval every = {{0, 1000}, {0, 1000}};
    static uint32_t h[N];
    unsigned iters = 3, bad = 0;
    void *params[] = {&mem, &iters};

    for (unsigned i = 0; i < N; i++)
        h[i] = i;
    TRY(cuMemcpyHtoD(mem, h, sizeof(h)));
    if (signals) {
        sigaction(SIGALRM, &sa, NULL);
        setitimer(ITIMER_REAL, &every, NULL);
    }
    working();
    for (unsigned i = 0; i < n; i++) {
        if (launch("work", N / 128, 128, params))
            return 1;
        if (i % 16 == 15)
            TRY(cuCtxSynchronize());
    }
    TRY(cuMemcpyDtoH(h, mem, sizeof(h)));
    every = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, NULL);
    for (unsigned i = 0; i < N; i++) {
        uint32_t x = i;

        for (unsigned k = 0; k < n * iters; k++)
            x = x * 1664525u + 1013904223u;
        bad += h[i] != x;
    }
    printf("victim: %u launches, %u signals, %u words wrong\n", n, ticks, bad);
    return bad || (signals && !ticks);
}

static int streams(unsigned n)
{
    enum { STREAMS = 16, WORDS = 256 };
    static uint32_t h[STREAMS][WORDS], back[WORDS];
    CUstream s[STREAMS];
    CUdeviceptr p;
    CUfunction f;
    uint32_t rng = 1;

    TRY(cuMemAlloc(&p, sizeof(h)));
    TRY(cuModuleGetFunction(&f, mod, "work"));
    for (unsigned i = 0; i < STREAMS; i++)
        TRY(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    for (unsigned round = 0; round < n; round++) {
        unsigned iters[STREAMS], start = rng % STREAMS;

        for (unsigned i = 0; i < STREAMS; i++) {
            CUdeviceptr at = p + i * sizeof(h[0]);
            void *params[] = {&at, &iters[i]};

            rng = rng * 1664525u + 1013904223u;
            iters[i] = 1 + (rng >> 20);
            for (unsigned k = 0; k < WORDS; k++)
                h[i][k] = rng + k;
            TRY(cuMemcpyHtoDAsync(at, h[i], sizeof(h[0]), s[i]));
            TRY(cuLaunchKernel(f, WORDS / 128, 1, 1, 128, 1, 1, 0, s[i], params, NULL));
        }
        for (unsigned j = 0; j < STREAMS; j++) {
            unsigned i = (start + j * 5) % STREAMS;

            TRY(cuStreamSynchronize(s[i]));
            /* Another stream, which does not wait, reads the result. */
            TRY(cuMemcpyDtoHAsync(back, p + i * sizeof(h[0]), sizeof(back), s[(i + 1) % STREAMS]));
            TRY(cuStreamSynchronize(s[(i + 1) % STREAMS]));
            for (unsigned k = 0; k < WORDS; k++) {
                uint32_t x = h[i][k];

                for (unsigned m = 0; m < iters[i]; m++)
                    x = x * 1664525u + 1013904223u;
                if (x != back[k]) {
                    printf("victim: round %u stream %u word %u: its wait returned too early\n", round, i, k);
                    return 1;
                }
            }
        }
    }
    printf("victim: %u rounds of %u streams, every bit right\n", n, STREAMS);
    return 0;
}

static int child(int anew)
{
    CUdeviceptr p;

    if (anew) {
        execl("/proc/self/exe", "victim", "alone", NULL);
        _exit(3);
    }
    _exit(cuMemAlloc(&p, 4) != CUDA_ERROR_NOT_INITIALIZED);
}

static int forks(unsigned n)
{
    unsigned wrong = 0;

    for (unsigned i = 0; i < n; i++) {
        int status = -1;
        pid_t pid = fork();

        if (!pid)
            child(i % 8 == 7);
        if (round_of_work(i))
            return 1;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
            wrong++;
    }
    printf("victim: %u children, %u wrong\n", n, wrong);
    return wrong != 0;
}

/* Started by a program that uses CUDA: has only the descriptors of any program. */
static int inherited(void)
{
    for (int fd = 3; fd < 256; fd++) {
        char link[64], to[256];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, to, sizeof(to) - 1);
        to[n > 0 ? n : 0] = '\0';
        if (n > 0 &&
            (strstr(to, "vgpu") || strstr(to, "memfd") || strstr(to, "socket") || strstr(to, "event"))) {
            printf("victim: descriptor %d is inherited: %s\n", fd, to);
            return 1;
        }
    }
    return 0;
}

static int dims(void)
{
    static const unsigned sizes[][7] = {
        {0, 1, 1, 32, 1, 1, 0},          {1, 0, 1, 32, 1, 1, 0},          {1, 1, 0, 32, 1, 1, 0},
        {1, 1, 1, 0, 1, 1, 0},           {1, 1, 1, 32, 0, 1, 0},          {1, 1, 1, 32, 1, 0, 0},
        {1, 1, 1, 1025, 1, 1, 0},        {1, 1, 1, 1, 1025, 1, 0},        {1, 1, 1, 1, 1, 65, 0},
        {1, 1, 1, 1024, 2, 1, 0},        {1, 1, 1, 65536, 65536, 1, 0},   {1, 1, 1, 1u << 31, 2, 1, 0},
        {1, 65536, 1, 32, 1, 1, 0},      {1, 1, 65536, 32, 1, 1, 0},      {1u << 31, 1, 1, 32, 1, 1, 0},
        {~0u, 1, 1, 32, 1, 1, 0},        {1, ~0u, ~0u, ~0u, ~0u, ~0u, 0}, {1, 1, 1, 32, 1, 1, 1u << 30},
        {1, 1, 1, 32, 1, 1, 0x80000000}, {1, 1, 1, 32, 1, 1, ~0u},
    };
    const unsigned total = sizeof(sizes) / sizeof(sizes[0]);
    unsigned iters = 1, taken = 0;
    void *params[] = {&mem, &iters};
    CUfunction f;

    TRY(cuModuleGetFunction(&f, mod, "work"));
    for (unsigned i = 0; i < total; i++) {
        const unsigned *z = sizes[i];

        if (!cuLaunchKernel(f, z[0], z[1], z[2], z[3], z[4], z[5], z[6], NULL, params, NULL)) {
            printf("victim: sizes %u are accepted\n", i);
            taken++;
        }
    }
    printf("victim: %u impossible sizes, %u accepted\n", total, taken);
    return taken || round_of_work(1);
}

static int talk(void)
{
    CUfunction f;

    TRY(cuModuleGetFunction(&f, mod, "talk"));
    working();
    for (;;) {
        TRY(cuLaunchKernel(f, 64, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL));
        TRY(cuCtxSynchronize());
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int seconds = argc > 2 ? atoi(argv[2]) : 0, bad;
    unsigned rounds = 0;
    time_t end;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(what, "alone") && inherited())
        return 1;
    if (start())
        return 1;
    if (!strcmp(what, "until"))
        return until();
    if (!strcmp(what, "count"))
        return count((unsigned)seconds, argc > 3);
    if (!strcmp(what, "streams"))
        return streams((unsigned)seconds);
    if (!strcmp(what, "fork"))
        return forks((unsigned)seconds);
    if (!strcmp(what, "dims"))
        return dims();
    if (!strcmp(what, "talk"))
        return talk();
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
        return secret(what[2] == 'a', (unsigned)seconds);
    if (strcmp(what, "work") && strcmp(what, "once") && strcmp(what, "alone"))
        return 2;
    end = time(NULL) + seconds;
    do {
        bad = round_of_work(rounds++);
    } while (!bad && time(NULL) < end);
    printf("victim: %u rounds, %s\n", rounds, bad ? "wrong" : "every bit right");
    return bad;
}
