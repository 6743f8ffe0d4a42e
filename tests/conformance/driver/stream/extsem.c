// SPDX-License-Identifier: MIT
/*
 * External semaphores on streams. This process acts as the other API, with the other end of an
 * eventfd (a binary semaphore) or of a counter in a memfd (a timeline). A physical GPU's own driver
 * supports neither, so these cases do not run directly on it.
 */
#include "stream/other_api.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define N 1000u
#define BINARY CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD
#define TIMELINE CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD

static CUstream new_stream(void)
{
    CUstream s = NULL;
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static CUdeviceptr words(void)
{
    CUdeviceptr p = 0;
    NEED(cuMemAlloc(&p, N * 4));
    NEED(cuMemsetD32(p, 0, N));
    return p;
}

CASE(extsem_import, CF_CTX | CF_UB)
{
    struct vgp_extsem_page *page;
    CUexternalSemaphore s;
    CUresult r;
    int yes = 0, fd = eventfd(0, 0);

    OK("timeline_attribute",
       cuDeviceGetAttribute(&yes, CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 0));
    cf_u64("timeline_attribute_value", (uint64_t)yes, 1);
    s = cf_sem_import(BINARY, fd, &r);
    cf_rc("event", r, CUDA_SUCCESS);
    cf_true("descriptor_taken", fcntl(fd, F_GETFD) < 0);
    OK("destroy", cuDestroyExternalSemaphore(s));
    RC("destroy_again", cuDestroyExternalSemaphore(s), CUDA_ERROR_INVALID_HANDLE);
    fd = cf_counter(true, sizeof(*page), &page);
    s = cf_sem_import(TIMELINE, fd, &r);
    cf_rc("counter", r, CUDA_SUCCESS);
    cf_true("counter_taken", fcntl(fd, F_GETFD) < 0);
    OK("destroy_counter", cuDestroyExternalSemaphore(s));
}

/* Each import is refused, and the descriptor stays open. */
CASE(extsem_import_refused, CF_CTX | CF_UB)
{
    struct vgp_extsem_page *page;
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d = {.type = BINARY, .flags = 1};
    CUexternalSemaphore s = NULL;
    int ends[2], event = eventfd(0, 0), file = open("/dev/null", O_RDWR), fd;
    CUresult r;

    cf_need_true("a pipe", pipe(ends) == 0);
    d.handle.fd = event;
    RC("flags", cuImportExternalSemaphore(&s, &d), CUDA_ERROR_INVALID_VALUE);
    d.flags = 0;
    RC("null", cuImportExternalSemaphore(NULL, &d), CUDA_ERROR_INVALID_VALUE);
    RC("desc_null", cuImportExternalSemaphore(&s, NULL), CUDA_ERROR_INVALID_VALUE);
    cf_sem_import((CUexternalSemaphoreHandleType)0, event, &r);
    cf_rc("type_0", r, CUDA_ERROR_INVALID_VALUE);
    cf_sem_import((CUexternalSemaphoreHandleType)99, event, &r);
    cf_rc("type_99", r, CUDA_ERROR_INVALID_VALUE);
    cf_sem_import(CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32, event, &r);
    cf_rc("win32", r, CUDA_ERROR_NOT_SUPPORTED);
    cf_sem_import(CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D12_FENCE, event, &r);
    cf_rc("d3d12", r, CUDA_ERROR_NOT_SUPPORTED);
    cf_sem_import(CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC, event, &r);
    cf_rc("nvscisync", r, CUDA_ERROR_NOT_SUPPORTED);
    cf_sem_import(TIMELINE, event, &r);
    cf_rc("event_as_timeline", r, CUDA_ERROR_INVALID_HANDLE);
    cf_sem_import(BINARY, -1, &r);
    cf_rc("no_descriptor", r, CUDA_ERROR_INVALID_VALUE);
    cf_sem_import(BINARY, file, &r);
    cf_rc("file", r, CUDA_ERROR_INVALID_HANDLE);
    cf_sem_import(BINARY, ends[0], &r);
    cf_rc("pipe", r, CUDA_ERROR_INVALID_HANDLE);
    fd = cf_counter(true, sizeof(*page), &page);
    cf_sem_import(BINARY, fd, &r);
    cf_rc("counter_as_binary", r, CUDA_ERROR_INVALID_HANDLE);
    page->magic = 1;
    cf_sem_import(TIMELINE, fd, &r);
    cf_rc("counter_magic", r, CUDA_ERROR_INVALID_HANDLE);
    page->magic = VGP_EXTSEM_MAGIC;
    page->version = 2;
    cf_sem_import(TIMELINE, fd, &r);
    cf_rc("counter_version", r, CUDA_ERROR_INVALID_HANDLE);
    cf_sem_import(TIMELINE, cf_counter(false, sizeof(*page), &page), &r);
    cf_rc("counter_may_shrink", r, CUDA_ERROR_INVALID_HANDLE);
    cf_sem_import(TIMELINE, cf_counter(true, sizeof(*page) - 1, &page), &r);
    cf_rc("counter_short", r, CUDA_ERROR_INVALID_HANDLE);
    cf_true("descriptors_kept", fcntl(event, F_GETFD) >= 0 && fcntl(file, F_GETFD) >= 0 &&
                                    fcntl(ends[0], F_GETFD) >= 0 && fcntl(fd, F_GETFD) >= 0);
}

CASE(extsem_calls_refused, CF_CTX | CF_UB)
{
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = {0};
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {0};
    CUstream gone = new_stream();
    CUexternalSemaphore none = NULL;
    struct cf_sem s;

    NEED(cuStreamDestroy(gone));
    cf_sem_event(&s);
    RC("signal_none", cuSignalExternalSemaphoresAsync(&s.cuda, &signal, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("signal_many", cuSignalExternalSemaphoresAsync(&s.cuda, &signal, 0xffffffffu, NULL),
       CUDA_ERROR_INVALID_VALUE);
    RC("signal_null", cuSignalExternalSemaphoresAsync(NULL, &signal, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("signal_no_params", cuSignalExternalSemaphoresAsync(&s.cuda, NULL, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("signal_null_handle", cuSignalExternalSemaphoresAsync(&none, &signal, 1, NULL),
       CUDA_ERROR_INVALID_HANDLE);
    RC("signal_stream", cuSignalExternalSemaphoresAsync(&s.cuda, &signal, 1, gone),
       CUDA_ERROR_INVALID_HANDLE);
    RC("wait_none", cuWaitExternalSemaphoresAsync(&s.cuda, &wait, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("wait_many", cuWaitExternalSemaphoresAsync(&s.cuda, &wait, 0xffffffffu, NULL),
       CUDA_ERROR_INVALID_VALUE);
    RC("wait_null", cuWaitExternalSemaphoresAsync(&s.cuda, NULL, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("wait_stream", cuWaitExternalSemaphoresAsync(&s.cuda, &wait, 1, gone), CUDA_ERROR_INVALID_HANDLE);
    signal.flags = CUDA_EXTERNAL_SEMAPHORE_SIGNAL_SKIP_NVSCIBUF_MEMSYNC;
    RC("signal_flags", cuSignalExternalSemaphoresAsync(&s.cuda, &signal, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    wait.flags = CUDA_EXTERNAL_SEMAPHORE_WAIT_SKIP_NVSCIBUF_MEMSYNC;
    RC("wait_flags", cuWaitExternalSemaphoresAsync(&s.cuda, &wait, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    cf_true("nothing_signalled", !cf_sem_is_set(&s));
    none = s.cuda;
    signal.flags = wait.flags = 0;
    cf_sem_end(&s);
    RC("signal_destroyed", cuSignalExternalSemaphoresAsync(&none, &signal, 1, NULL),
       CUDA_ERROR_INVALID_HANDLE);
    RC("wait_destroyed", cuWaitExternalSemaphoresAsync(&none, &wait, 1, NULL), CUDA_ERROR_INVALID_HANDLE);
}

CASE(extsem_signal, CF_CTX | CF_UB)
{
    CUstream s = new_stream();
    struct cf_gate *gate = cf_gate_put(s);
    struct cf_sem sem, timeline;

    cf_sem_event(&sem);
    cf_sem_counter(&timeline);
    OK("signal", cf_sem_signal(&sem, 0, s));
    OK("signal_timeline", cf_sem_signal(&timeline, 7, s));
    RC("pending", cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    cf_true("not_before_its_turn", !cf_sem_is_set(&sem) && cf_sem_value(&timeline) == 0);
    cf_gate_open(gate);
    OK("sync", cuStreamSynchronize(s));
    cf_true("signalled", cf_sem_is_set(&sem));
    cf_u64("value", cf_sem_value(&timeline), 7);
    OK("back", cf_sem_signal(&timeline, 5, s));
    OK("sync_back", cuStreamSynchronize(s));
    cf_u64("stays", cf_sem_value(&timeline), 7);
    OK("far", cf_sem_signal(&timeline, UINT64_MAX, s));
    OK("sync_far", cuStreamSynchronize(s));
    cf_u64("far_value", cf_sem_value(&timeline), UINT64_MAX);
    cf_sem_end(&sem);
    cf_sem_end(&timeline);
    NEED(cuStreamDestroy(s));
}

CASE(extsem_wait, CF_CTX | CF_UB)
{
    CUstream s = new_stream(), other = new_stream();
    CUdeviceptr p = words();
    struct cf_sem sem, timeline;

    cf_sem_event(&sem);
    cf_sem_counter(&timeline);
    OK("wait", cf_sem_wait(&sem, 0, s));
    OK("fill", cf_fill(p, N, 3, s));
    OK("other_stream", cuStreamSynchronize(other));
    RC("pending", cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    cf_sem_set(&sem, 0);
    OK("sync", cuStreamSynchronize(s));
    cf_true("filled", cf_filled(p, N, 3));
    cf_true("reset", !cf_sem_is_set(&sem));
    cf_sem_set(&sem, 0);
    OK("wait_set", cf_sem_wait(&sem, 0, s));
    OK("sync_set", cuStreamSynchronize(s));
    OK("timeline", cf_sem_wait(&timeline, 10, s));
    OK("fill_2", cf_fill(p, N, 4, s));
    cf_sem_set(&timeline, 9);
    RC("too_low", cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    cf_sem_set(&timeline, 11);
    OK("sync_timeline", cuStreamSynchronize(s));
    cf_true("filled_2", cf_filled(p, N, 4));
    OK("reached", cf_sem_wait(&timeline, 10, s));
    OK("zero", cf_sem_wait(&timeline, 0, s));
    OK("sync_reached", cuStreamSynchronize(s));
    cf_sem_end(&sem);
    cf_sem_end(&timeline);
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
    NEED(cuStreamDestroy(other));
}

/* Streams that wait for each other, several semaphores at once, and host functions meanwhile. */
CASE(extsem_between_streams, CF_CTX | CF_UB)
{
    enum { WAITERS = 8 };
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait[2] = {{.params.fence.value = 2}};
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal[2] = {{.params.fence.value = 2}};
    CUstream s[WAITERS], last = new_stream();
    struct cf_sem timeline, event[WAITERS];
    CUexternalSemaphore both[2];
    struct cf_gate *gate;
    bool all = true;

    cf_sem_counter(&timeline);
    both[0] = timeline.cuda;
    for (int i = 0; i < WAITERS; i++) {
        s[i] = new_stream();
        cf_sem_event(&event[i]);
        both[1] = event[i].cuda;
        NEED(cuWaitExternalSemaphoresAsync(both, wait, 2, s[i]));
        NEED(cf_sem_signal(&event[i], 0, s[i])); /* after the wait */
    }
    gate = cf_gate_put(last); /* a host function that runs while all of them wait */
    for (int i = 0; i < WAITERS; i++)
        all = all && cuStreamQuery(s[i]) == CUDA_ERROR_NOT_READY;
    cf_true("all_wait", all);
    for (int i = 0; i < WAITERS - 1; i++)
        cf_sem_set(&event[i], 0);
    cf_gate_open(gate);
    both[1] = event[WAITERS - 1].cuda;
    OK("signal_both", cuSignalExternalSemaphoresAsync(both, signal, 2, last));
    for (int i = 0; i < WAITERS; i++)
        NEED(cuStreamSynchronize(s[i]));
    for (int i = 0; i < WAITERS; i++)
        all = all && cf_sem_is_set(&event[i]);
    cf_true("all_signalled", all);
    OK("sync", cuCtxSynchronize());
    for (int i = 0; i < WAITERS; i++) {
        cf_sem_end(&event[i]);
        NEED(cuStreamDestroy(s[i]));
    }
    cf_sem_end(&timeline);
    NEED(cuStreamDestroy(last));
}

/* More waits than the worker has words for waiting streams. */
CASE(extsem_many, CF_CTX | CF_UB)
{
    enum { WAITS = 400 };
    CUstream s = new_stream(), other = new_stream();
    struct cf_sem there, back;

    cf_sem_counter(&there);
    cf_sem_counter(&back);
    for (unsigned i = 1; i <= WAITS; i++) {
        NEED(cf_sem_wait(&there, i, i % 2 ? s : other));
        NEED(cf_sem_signal(&back, i, i % 2 ? s : other));
    }
    cf_sem_set(&there, 2);
    while (cf_sem_value(&back) < 2)
        usleep(100);
    RC("pending", cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    RC("pending_other", cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    cf_u64("so_far", cf_sem_value(&back), 2);
    cf_sem_set(&there, WAITS);
    OK("sync", cuStreamSynchronize(s));
    OK("sync_other", cuStreamSynchronize(other));
    cf_u64("all", cf_sem_value(&back), WAITS);
    cf_sem_end(&there);
    cf_sem_end(&back);
    NEED(cuStreamDestroy(s));
    NEED(cuStreamDestroy(other));
}

/* Back and forth with the other API, each side waiting for the other. */
CASE(extsem_ping_pong, CF_CTX | CF_UB)
{
    CUstream s = new_stream();
    CUdeviceptr p = words();
    struct cf_sem there, back;
    bool right = true;

    cf_sem_counter(&there);
    cf_sem_counter(&back);
    for (unsigned i = 1; i <= 50; i++) {
        NEED(cf_sem_wait(&there, i, s));
        NEED(cuMemsetD32Async(p, i, N, s));
        NEED(cf_sem_signal(&back, i, s));
    }
    for (unsigned i = 1; i <= 50; i++) {
        right = right && cf_sem_value(&back) == i - 1;
        cf_sem_set(&there, i);
        while (cf_sem_value(&back) < i)
            usleep(100);
    }
    cf_true("in_step", right);
    OK("sync", cuStreamSynchronize(s));
    cf_sem_end(&there);
    cf_sem_end(&back);
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

/* A semaphore in use may be destroyed: the work holds the object behind it. */
CASE(extsem_destroyed_early, CF_CTX | CF_UB)
{
    CUstream s = new_stream();
    struct cf_sem sem, done;

    cf_sem_event(&sem);
    cf_sem_event(&done);
    OK("wait", cf_sem_wait(&sem, 0, s));
    OK("signal", cf_sem_signal(&done, 0, s));
    OK("destroy", cuDestroyExternalSemaphore(sem.cuda));
    OK("destroy_2", cuDestroyExternalSemaphore(done.cuda));
    RC("pending", cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    cf_sem_set(&sem, 0);
    OK("sync", cuStreamSynchronize(s));
    cf_true("signalled", cf_sem_is_set(&done));
    NEED(cuStreamDestroy(s));
}

/*
 * Destruction of a context does not wait for a signal that never comes; signals after the wait are
 * not sent. The process continues.
 */
CASE(extsem_context_ends, CF_CTX | CF_UB | CF_ALONE)
{
    CUcontext ctx = NULL, old = NULL;
    struct cf_sem never, behind;
    CUstream s;

    NEED(cuCtxGetCurrent(&old));
    NEED(cuCtxCreate(&ctx, NULL, 0, 0));
    s = new_stream();
    cf_sem_event(&never);
    cf_sem_event(&behind);
    OK("wait", cf_sem_wait(&never, 0, s));
    OK("wait_2", cf_sem_wait(&never, 0, s));
    OK("signal", cf_sem_signal(&behind, 0, s));
    OK("destroy", cuCtxDestroy(ctx));
    cf_true("nothing_behind_it", !cf_sem_is_set(&behind));
    NEED(cuCtxSetCurrent(old));
    OK("signal_elsewhere", cf_sem_signal(&behind, 0, NULL));
    OK("sync", cuCtxSynchronize());
    cf_true("signalled", cf_sem_is_set(&behind));
    s = new_stream();
    OK("wait_primary", cf_sem_wait(&never, 0, s));
    OK("reset", cuDevicePrimaryCtxReset(0));
    NEED(cuCtxSetCurrent(old));
}

/* The kernel's id of an eventfd's counter; -1: not an eventfd. */
static int counter_of(int fd)
{
    char path[60], line[80];
    int id = -1;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    f = fopen(path, "re");
    if (f == NULL)
        return -1;
    while (fgets(line, sizeof(line), f) != NULL)
        (void)sscanf(line, "eventfd-id: %d", &id);
    fclose(f);
    return id;
}

/*
 * Makes the object behind a semaphore fail: another file, a pipe without a reader, replaces CUDA's
 * descriptor.
 */
static void *fail_later(void *arg)
{
    const struct cf_sem *sem = arg;
    int ends[2], id = counter_of(sem->fd);

    usleep(200000); /* the other thread should wait by then; otherwise the case is not meaningful */
    if (pipe(ends) != 0)
        return NULL;
    close(ends[0]);
    for (int fd = 3; fd < 1024; fd++) {
        if (fd != sem->fd && counter_of(fd) == id)
            dup2(ends[1], fd);
    }
    return NULL;
}

/* The ways to wait for a stream whose wait for a semaphore fails meanwhile. */
static CUresult wait_by(const char *how, CUdeviceptr p, CUstream s)
{
    CUevent e = NULL;
    CUresult r;
    int word;

    if (strcmp(how, "stream") == 0)
        return cuStreamSynchronize(s);
    if (strcmp(how, "context") == 0)
        return cuCtxSynchronize();
    if (strcmp(how, "copy") == 0)
        return cuMemcpyDtoH(&word, p, sizeof(word));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    NEED(cuEventRecord(e, s));
    if (strcmp(how, "event") == 0)
        return cuEventSynchronize(e);
    do
        r = cuEventQuery(e);
    while (r == CUDA_ERROR_NOT_READY);
    return r;
}

/* The waiting call returns the error, like all later calls, as the stream's order was not kept. */
CASE(extsem_fails, CF_CTX | CF_UB | CF_ALONE)
{
    static const char *const ways[] = {"stream", "context", "copy", "event", "query"};

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        CUcontext ctx = NULL;
        struct cf_sem never;
        pthread_t t;
        CUdeviceptr p;
        CUstream s = NULL;

        NEED(cuCtxCreate(&ctx, NULL, 0, 0));
        p = words();
        NEED(cuStreamCreate(&s, CU_STREAM_DEFAULT));
        cf_sem_event(&never);
        NEED(cuMemsetD32Async(p, 1, N, s));
        OK("wait", cf_sem_wait(&never, 0, s));
        cf_need_true("thread", !pthread_create(&t, NULL, fail_later, &never));
        RC(ways[i], wait_by(ways[i], p, s), CUDA_ERROR_OPERATING_SYSTEM);
        pthread_join(t, NULL);
        RC("afterwards", cuCtxSynchronize(), CUDA_ERROR_OPERATING_SYSTEM);
        (void)cuCtxDestroy(ctx);
    }
}

/* Return: a stream of a new green context of all SMs, which is current from here on. */
static CUstream green_stream(CUgreenCtx *green)
{
    CUdevResource all;
    CUdevResourceDesc desc = NULL;
    CUcontext ctx = NULL;
    CUstream s = NULL;

    NEED(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    NEED(cuDevResourceGenerateDesc(&desc, &all, 1));
    NEED(cuGreenCtxCreate(green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    NEED(cuCtxFromGreenCtx(&ctx, *green));
    NEED(cuCtxSetCurrent(ctx));
    NEED(cuGreenCtxStreamCreate(&s, *green, CU_STREAM_NON_BLOCKING, 0));
    return s;
}

/* The same for a green context, whose base context continues. */
CASE(extsem_green_ends, CF_CTX | CF_UB | CF_ALONE)
{
    struct cf_sem never, behind;
    CUcontext base = NULL;
    CUgreenCtx green = NULL;
    CUstream s;

    NEED(cuCtxGetCurrent(&base));
    s = green_stream(&green);
    cf_sem_event(&never);
    cf_sem_event(&behind);
    OK("wait", cf_sem_wait(&never, 0, s));
    OK("signal", cf_sem_signal(&behind, 0, s));
    NEED(cuCtxSetCurrent(base));
    OK("destroy", cuGreenCtxDestroy(green));
    cf_true("nothing_behind_it", !cf_sem_is_set(&behind));
    OK("signal_base", cf_sem_signal(&behind, 0, NULL));
    OK("sync", cuCtxSynchronize());
    cf_true("signalled", cf_sem_is_set(&behind));
}

/* The base context of a green context fails with it. */
CASE(extsem_fails_green, CF_CTX | CF_UB | CF_ALONE)
{
    CUcontext base = NULL;
    CUgreenCtx green = NULL;
    CUstream s;
    struct cf_sem never;
    pthread_t t;

    NEED(cuCtxGetCurrent(&base));
    s = green_stream(&green);
    cf_sem_event(&never);
    OK("wait", cf_sem_wait(&never, 0, s));
    cf_need_true("thread", !pthread_create(&t, NULL, fail_later, &never));
    RC("sync", cuStreamSynchronize(s), CUDA_ERROR_OPERATING_SYSTEM);
    pthread_join(t, NULL);
    RC("green", cuCtxSynchronize(), CUDA_ERROR_OPERATING_SYSTEM);
    NEED(cuCtxSetCurrent(base));
    RC("base", cuCtxSynchronize(), CUDA_ERROR_OPERATING_SYSTEM);
    (void)cuGreenCtxDestroy(green);
}

struct opener {
    struct cf_gate *gate;
    pthread_t thread;
};

static void *open_later(void *arg)
{
    const struct opener *o = arg;

    usleep(300000); /* the other thread should be in cuGreenCtxDestroy() by then */
    cf_gate_open(o->gate);
    return NULL;
}

/*
 * Destruction of a green context waits for work of its base context with a running host function,
 * which must be able to finish.
 */
CASE(extsem_green_ends_busy, CF_CTX | CF_UB | CF_ALONE)
{
    CUcontext base = NULL;
    CUgreenCtx green = NULL;
    CUstream s, busy = new_stream();
    struct cf_sem never;
    struct opener o;

    NEED(cuCtxGetCurrent(&base));
    s = green_stream(&green);
    cf_sem_event(&never);
    OK("wait", cf_sem_wait(&never, 0, s));
    NEED(cuCtxSetCurrent(base));
    o.gate = cf_gate_put(busy);
    cf_need_true("thread", !pthread_create(&o.thread, NULL, open_later, &o));
    OK("destroy", cuGreenCtxDestroy(green));
    pthread_join(o.thread, NULL);
    OK("sync", cuStreamSynchronize(busy));
}

bool cf_sem_leave(const char *how)
{
    struct cf_sem never, behind;
    CUresult r;

    cf_sem_event(&never);
    cf_sem_counter(&behind);
    r = cf_sem_wait(&never, 0, NULL);
    if (r == CUDA_SUCCESS)
        r = cf_sem_signal(&behind, 1, NULL);
    puts(r == CUDA_SUCCESS && cf_sem_value(&behind) == 0 ? "waiting" : "bad");
    fflush(stdout);
    if (!strcmp(how, "_exit"))
        _exit(0);
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
    return r == CUDA_SUCCESS;
}

/* Programs exit normally while a stream waits. */
CASE(extsem_process_ends, CF_ALONE | CF_UB)
{
    char out[64];
    int status;

    status = cf_spawn("semaphore", "exit", out, sizeof(out));
    cf_true("exit", WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cf_str("exit_said", out, "waiting");
    status = cf_spawn("semaphore", "_exit", out, sizeof(out));
    cf_true("_exit", WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cf_str("_exit_said", out, "waiting");
    status = cf_spawn("semaphore", "kill", out, sizeof(out));
    cf_true("kill", WIFSIGNALED(status));
    cf_str("kill_said", out, "waiting");
}
