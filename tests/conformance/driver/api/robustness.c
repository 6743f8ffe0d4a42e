// SPDX-License-Identifier: MIT
/* Unusual but legal behaviour of programs: odd memory, short-lived threads, lost descriptors. */
#include "conform.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Memory that is not writable: a read-only file mapping, and constants of the program. */
CASE(copy_read_only, CF_CTX)
{
    size_t n = 4 << 20;
    FILE *f = tmpfile();
    unsigned char *b = malloc(n), *back = malloc(n);
    CUdeviceptr p = 0;
    CUstream s = NULL;

    cf_need_true("file", f && b && back);
    cf_pattern(b, n, 21);
    cf_need_true("write", fwrite(b, 1, n, f) == n && !fflush(f));
    unsigned char *map = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fileno(f), 0);
    cf_need_true("mmap", map != MAP_FAILED);
    NEED(cuMemAlloc(&p, n));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK("file", cuMemcpyHtoD(p, map, n));
    OK("file_back", cuMemcpyDtoH(back, p, n));
    cf_true("file_right", !memcmp(b, back, n));
    OK("constants", cuMemcpyHtoDAsync(p, cf_ptx, strlen(cf_ptx), s));
    OK("sync", cuStreamSynchronize(s));
    OK("constants_back", cuMemcpyDtoH(back, p, strlen(cf_ptx)));
    cf_true("constants_right", !memcmp(cf_ptx, back, strlen(cf_ptx)));
    OK("destroy", cuStreamDestroy(s));
    OK("free", cuMemFree(p));
    munmap(map, n);
    fclose(f);
    free(b);
    free(back);
}

/* Memory without pages yet, and memory shared with a child until written. */
CASE(copy_fresh, CF_CTX)
{
    size_t n = 8 << 20;
    unsigned char *src = malloc(n);
    unsigned char *dst = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *zero = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr p = 0;
    int go[2];
    char byte = 0;

    cf_need_true("memory", src && dst != MAP_FAILED && zero != MAP_FAILED && !pipe(go));
    cf_pattern(src, n, 22);
    NEED(cuMemAlloc(&p, n));
    OK("to_device", cuMemcpyHtoD(p, src, n));
    OK("to_untouched", cuMemcpyDtoH(dst, p, n));
    cf_true("untouched_right", cf_is_pattern(dst, n, 22));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) { /* keeps its copy of dst until the parent's has changed */
        close(go[1]);
        (void)!read(go[0], &byte, 1);
        _exit(cf_is_pattern(dst, n, 22) ? 0 : 1);
    }
    close(go[0]);
    OK("from_untouched", cuMemcpyHtoD(p, zero, n));
    OK("over_shared", cuMemcpyDtoH(dst, p, n));
    cf_true("over_shared_right", !dst[0] && !dst[n - 1] && !memcmp(dst, dst + 1, n - 1));
    close(go[1]);
    cf_u64("child_kept_its_own", (uint64_t)cf_child_status(pid), 0);
    OK("free", cuMemFree(p));
    munmap(dst, n);
    munmap(zero, n);
    free(src);
}

/* Many pinned allocations, a large one, and ranges that share a page with others. */
CASE(pinned_many, CF_CTX)
{
    enum { N = 40 };
    uint32_t *h[N], *big = NULL;
    CUdeviceptr d = 0;
    unsigned bad = 0;
    char *page = aligned_alloc(4096, 8 * 4096);

    for (unsigned i = 0; i < N; i++)
        bad += cuMemHostAlloc((void **)&h[i], 4096 + i * 1000, CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS;
    cf_need_true("allocations", !bad);
    for (unsigned i = 0; i < N; i++) {
        bad += cuMemHostGetDevicePointer(&d, h[i], 0) != CUDA_SUCCESS;
        bad += cf_fill(d, 1024, i * 7, NULL) != CUDA_SUCCESS;
    }
    bad += cuCtxSynchronize() != CUDA_SUCCESS;
    for (unsigned i = 0; i < N; i++)
        bad += h[i][0] != i * 7 || h[i][1023] != i * 7 + 1023;
    for (unsigned i = 0; i < N; i++)
        bad += cuMemFreeHost(h[(i * 13) % N]) != CUDA_SUCCESS;
    cf_u64("bad", bad, 0);
    OK("big", cuMemHostAlloc((void **)&big, 64 << 20, 0));
    OK("big_pointer", cuMemHostGetDevicePointer(&d, big, 0));
    OK("big_fill", cf_fill(d + (60 << 20), 1000, 5, NULL));
    OK("big_sync", cuCtxSynchronize());
    cf_u64("big_seen", big[(60 << 20) / 4 + 999], 1004);
    OK("big_free", cuMemFreeHost(big));
    cf_need_true("memory", page != NULL);
    OK("register", cuMemHostRegister(page, 4096 * 3, CU_MEMHOSTREGISTER_PORTABLE));
    RC("overlap", cuMemHostRegister(page + 8192, 4096 * 2, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK("behind", cuMemHostRegister(page + 4 * 4096, 4096, 0));
    OK("unregister", cuMemHostUnregister(page));
    OK("unregister_2", cuMemHostUnregister(page + 4 * 4096));
    OK("again", cuMemHostRegister(page, 8 * 4096, 0));
    OK("again_end", cuMemHostUnregister(page));
    free(page);
}

/* Writes to pinned words by the CPU, then by a kernel, while a child process exists. */
static bool both_see(uint32_t *h, unsigned n, unsigned v)
{
    CUdeviceptr d = 0, out = 0;
    uint32_t got[64] = {0};
    bool ok = cuMemHostGetDevicePointer(&d, h, 0) == CUDA_SUCCESS && !cuMemAlloc(&out, 256);

    for (unsigned i = 0; i < n; i++)
        h[i] = v * i;
    unsigned count = 64;
    void *params[] = {&d, &out, &count};
    ok = ok && cf_launch(cf_func("k_copy"), 1, 64, 0, NULL, params) == CUDA_SUCCESS;
    ok = ok && cuMemcpyDtoH(got, out, 256) == CUDA_SUCCESS;
    for (unsigned i = 0; i < 64; i++)
        ok &= got[i] == v * i;
    ok = ok && cf_fill(d, n, v, NULL) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS;
    for (unsigned i = 0; i < n; i++)
        ok &= h[i] == v + i;
    cuMemFree(out);
    return ok;
}

/*
 * fork() makes ordinary memory copy-on-write; pinned memory stays in the pages used by the device.
 */
CASE(pinned_fork, CF_ALONE | CF_CTX)
{
    enum { N = 20000 };
    uint32_t *a = NULL, *b = mmap(NULL, N * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int hold[2];
    char byte;

    cf_need_true("memory", b != MAP_FAILED && !pipe(hold));
    cf_pattern(b, N * 4, 3);
    NEED(cuMemHostAlloc((void **)&a, N * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemHostRegister(b, (N * 4 + 4095) & ~4095u, CU_MEMHOSTREGISTER_DEVICEMAP));
    cf_true("before", both_see(a, N, 3) && both_see(b, N, 5));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(hold[1]);
        (void)!read(hold[0], &byte, 1);
        _exit(0);
    }
    close(hold[0]);
    cf_true("allocated", both_see(a, N, 7));
    cf_true("registered", both_see(b, N, 9));
    close(hold[1]);
    cf_u64("child", (uint64_t)cf_child_status(pid), 0);
    cf_true("after", both_see(a, N, 11) && both_see(b, N, 13));
    OK("unregister", cuMemHostUnregister(b));
    OK("free", cuMemFreeHost(a));
}

static CUcontext shared_ctx;

static void *short_life(void *arg)
{
    unsigned id = (unsigned)(uintptr_t)arg;
    CUdeviceptr p = 0;
    uintptr_t bad = cuCtxSetCurrent(shared_ctx) != CUDA_SUCCESS;

    bad += cuMemAlloc(&p, 400) != CUDA_SUCCESS;
    bad += cuMemsetD32Async(p, id, 100, CU_STREAM_PER_THREAD) != CUDA_SUCCESS;
    uint32_t h[100] = {0};
    bad += cuMemcpyDtoHAsync(h, p, 400, CU_STREAM_PER_THREAD) != CUDA_SUCCESS;
    bad += cuStreamSynchronize(CU_STREAM_PER_THREAD) != CUDA_SUCCESS;
    bad += h[0] != id || h[99] != id;
    bad += cuMemFree(p) != CUDA_SUCCESS;
    return (void *)bad;
}

/* A hundred and fifty threads, three at a time, each with its own per-thread stream. */
CASE(threads_short, CF_CTX)
{
    uintptr_t bad = 0;

    NEED(cuCtxGetCurrent(&shared_ctx));
    for (uintptr_t i = 0; i < 150; i += 3) {
        pthread_t t[3];
        for (int k = 0; k < 3; k++)
            cf_need_true("thread", !pthread_create(&t[k], NULL, short_life, (void *)(i + (uintptr_t)k)));
        for (int k = 0; k < 3; k++) {
            void *r;
            pthread_join(t[k], &r);
            bad += (uintptr_t)r;
        }
    }
    cf_u64("bad", bad, 0);
}

static void *maker(void *arg)
{
    uintptr_t bad = cuCtxSetCurrent(shared_ctx) != CUDA_SUCCESS;
    CUmodule m = NULL;
    CUfunction f = NULL;

    (void)arg;
    for (int i = 0; i < 10; i++) {
        CUstream s = NULL;
        CUevent e = NULL;
        CUdeviceptr p = 0;
        bad += cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
        bad += cuEventCreate(&e, 0) != CUDA_SUCCESS;
        bad += cuMemAlloc(&p, 256) != CUDA_SUCCESS;
        bad += cuModuleLoadData(&m, cf_fatbin) != CUDA_SUCCESS;
        bad += cuModuleGetFunction(&f, m, "k_fill") != CUDA_SUCCESS;
        unsigned n = 64, v = (unsigned)i;
        void *params[] = {&p, &n, &v};
        bad += cf_launch(f, 1, 64, 0, s, params) != CUDA_SUCCESS;
        bad += cuEventRecord(e, s) != CUDA_SUCCESS;
        bad += cuEventSynchronize(e) != CUDA_SUCCESS;
        bad += !cf_filled(p, 64, v);
        bad += cuModuleUnload(m) != CUDA_SUCCESS;
        bad += cuEventDestroy(e) != CUDA_SUCCESS;
        bad += cuStreamDestroy(s) != CUDA_SUCCESS;
        bad += cuMemFree(p) != CUDA_SUCCESS;
    }
    return (void *)bad;
}

/* Six threads create, use and destroy objects of every kind concurrently. */
CASE(threads_objects, CF_CTX)
{
    pthread_t t[6];
    uintptr_t bad = 0;

    NEED(cuCtxGetCurrent(&shared_ctx));
    for (int i = 0; i < 6; i++)
        cf_need_true("thread", !pthread_create(&t[i], NULL, maker, NULL));
    for (int i = 0; i < 6; i++) {
        void *r;
        pthread_join(t[i], &r);
        bad += (uintptr_t)r;
    }
    cf_u64("bad", bad, 0);
}

/* Queries and waits refer to the latest record of an event. */
CASE(event_again, CF_CTX)
{
    CUstream s = NULL, w = NULL;
    CUevent e = NULL;
    CUdeviceptr p = 0;
    unsigned bad = 0;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&w, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    NEED(cuMemAlloc(&p, 400));
    for (unsigned i = 0; i < 100; i++) {
        bad += cf_fill(p, 100, i, s) != CUDA_SUCCESS;
        bad += cuEventRecord(e, s) != CUDA_SUCCESS;
        bad += cuStreamWaitEvent(w, e, 0) != CUDA_SUCCESS;
        uint32_t last = 0;
        bad += cuMemcpyDtoHAsync(&last, p + 396, 4, w) != CUDA_SUCCESS;
        bad += cuStreamSynchronize(w) != CUDA_SUCCESS;
        bad += last != i + 99;
    }
    cf_u64("bad", bad, 0);
    struct cf_gate *g = cf_gate_put(s);
    OK("record", cuEventRecord(e, s));
    OK("wait", cuStreamWaitEvent(w, e, 0)); /* waits for this record ... */
    OK("record_elsewhere", cuEventRecord(e, CU_STREAM_PER_THREAD));
    OK("complete", cuEventSynchronize(e)); /* ... while the event already refers to that record */
    RC("first_wait_holds", cuStreamQuery(w), CUDA_ERROR_NOT_READY);
    cf_gate_open(g);
    OK("sync", cuStreamSynchronize(w));
    OK("destroy_event", cuEventDestroy(e));
    OK("destroy", cuStreamDestroy(s));
    OK("destroy_2", cuStreamDestroy(w));
    OK("free", cuMemFree(p));
}

/* A program that closes all unknown descriptors gets errors, but no crash and no hang. */
CASE(process_closed_fds, CF_ALONE | CF_CTX | CF_UB)
{
    CUdeviceptr p = 0;
    uint32_t v = 1;

    NEED(cuMemAlloc(&p, 64));
    int keep = fcntl(9, F_DUPFD, 200); /* the channel to the parent process */
    for (int fd = 3; fd < 200; fd++)
        close(fd);
    dup2(keep, 9);
    CUresult r = cuMemcpyHtoD(p, &v, 4), again = cuCtxSynchronize();
    cf_true("copy_returns", r == CUDA_SUCCESS || r > CUDA_SUCCESS);
    cf_true("sync_returns", again == CUDA_SUCCESS || again > CUDA_SUCCESS);
}

/* Without free descriptors cuInit fails, and works later. */
CASE(process_no_fds, CF_ALONE | CF_UB)
{
    struct rlimit old, low;
    CUcontext c = NULL;
    int next = dup(0), n = 0;

    cf_need_true("limit", next >= 0 && !getrlimit(RLIMIT_NOFILE, &old));
    close(next);
    low = old;
    low.rlim_cur = (rlim_t)next;
    cf_need_true("lower", !setrlimit(RLIMIT_NOFILE, &low));
    CUresult r = cuInit(0);
    if (r == CUDA_SUCCESS) /* an in-process provider may need no descriptor */
        r = cuDevicePrimaryCtxRetain(&c, 0);
    setrlimit(RLIMIT_NOFILE, &old);
    cf_true("no_crash", true);
    if (r != CUDA_SUCCESS) {
        CUresult later = cuInit(0);
        cf_true("later", later == CUDA_SUCCESS || later == r);
    } else {
        cf_true("later", cuDeviceGetCount(&n) == CUDA_SUCCESS);
    }
}
