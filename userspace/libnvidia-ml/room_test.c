/* SPDX-License-Identifier: MIT */
/*
 * Calls that fill an array or text: with capacity 0, one less than needed, exactly sufficient and
 * one more, for no, one and several processes. Memory beyond the capacity stays unchanged.
 */
#include <dlfcn.h>
#include <err.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "nvml_abi.h"

#pragma GCC diagnostic ignored "-Wstrict-prototypes"
typedef nvmlReturn_t (*fn)();
static void *nvml, *cuda;

#define CHILDREN 3u
#define GUARD 0xa7

static fn look_up(void *library, const char *name)
{
    void *sym = dlsym(library, name);
    fn f;

    memcpy(&f, &sym, sizeof(f));
    if (f == NULL)
        fail_msg("%s is not exported", name);
    return f;
}
#define N(name) look_up(nvml, #name)
#define CU(name) look_up(cuda, #name)
#define ok(call) assert_int_equal((call), 0)

static nvmlDevice_t device(void)
{
    nvmlDevice_t d = NULL;

    ok(N(nvmlDeviceGetHandleByIndex_v2)(0u, &d));
    return d;
}

static void untouched(const unsigned char *bytes, size_t from, size_t to, const char *name)
{
    for (size_t i = from; i < to; i++) {
        if (bytes[i] != GUARD)
            fail_msg("%s has written byte %zu of %zu", name, i, from);
    }
}

struct list {
    const char *name;
    size_t size; /* size of an element, bytes */
    bool compute;
};
static const struct list lists[] = {
    {"nvmlDeviceGetComputeRunningProcesses", sizeof(nvmlProcessInfo_v1_t), true},
    {"nvmlDeviceGetComputeRunningProcesses_v2", sizeof(nvmlProcessInfo_v2_t), true},
    {"nvmlDeviceGetComputeRunningProcesses_v3", sizeof(nvmlProcessInfo_v2_t), true},
    {"nvmlDeviceGetGraphicsRunningProcesses", sizeof(nvmlProcessInfo_v1_t), false},
    {"nvmlDeviceGetGraphicsRunningProcesses_v2", sizeof(nvmlProcessInfo_v2_t), false},
    {"nvmlDeviceGetGraphicsRunningProcesses_v3", sizeof(nvmlProcessInfo_v2_t), false},
    {"nvmlDeviceGetMPSComputeRunningProcesses", sizeof(nvmlProcessInfo_v1_t), false},
    {"nvmlDeviceGetMPSComputeRunningProcesses_v2", sizeof(nvmlProcessInfo_v2_t), false},
    {"nvmlDeviceGetMPSComputeRunningProcesses_v3", sizeof(nvmlProcessInfo_v2_t), false},
};

/* Calls once, with capacity `room` and n processes. */
static void one_room(const struct list *l, unsigned room, unsigned n, const pid_t *pids)
{
    unsigned char to[(CHILDREN + 2) * sizeof(nvmlProcessInfo_v2_t)];
    unsigned count = room, seen = 0;
    nvmlReturn_t r;

    memset(to, GUARD, sizeof(to));
    r = look_up(nvml, l->name)(device(), &count, room ? (void *)to : NULL);
    assert_int_equal(count, n);
    if (n > room) {
        assert_int_equal(r, NVML_ERROR_INSUFFICIENT_SIZE);
        untouched(to, 0, sizeof(to), l->name);
        return;
    }
    assert_int_equal(r, NVML_SUCCESS);
    for (unsigned i = 0; i < n; i++) {
        unsigned pid;

        memcpy(&pid, to + i * l->size, sizeof(pid));
        for (unsigned k = 0; k < n; k++)
            seen += pid == (unsigned)pids[k];
    }
    assert_int_equal(seen, n);
    untouched(to, n * l->size, sizeof(to), l->name);
}

/* Starts a process with a context, which lives until the other end of the pipe is closed. */
static pid_t user(const int hold[2], int said)
{
    pid_t pid = fork();
    CUcontext ctx;
    char byte;

    if (pid)
        return pid;
    close(hold[1]);
    byte = CU(cuInit)(0) != 0 || CU(cuCtxCreate_v2)(&ctx, 0u, 0) != 0;
    _exit(write(said, &byte, 1) != 1 || read(hold[0], &byte, 1) != 0);
}

static void users_end(const pid_t *pids, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        int status = 1;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < 1000 && n; i++) { /* until the workers are reaped */
        unsigned left = 0;

        if (N(nvmlDeviceGetComputeRunningProcesses_v3)(device(), &left, NULL) == NVML_SUCCESS)
            break;
        usleep(10000);
    }
}

static void lists_have_exact_room(void **state)
{
    pid_t pids[CHILDREN];
    int hold[2], said[2];
    char byte = 1;

    (void)state;
    for (unsigned n = 0; n <= CHILDREN; n++) {
        assert_int_equal(pipe(hold), 0);
        assert_int_equal(pipe(said), 0);
        for (unsigned i = 0; i < n; i++)
            pids[i] = user(hold, said[1]);
        for (unsigned i = 0; i < n; i++) {
            assert_int_equal(read(said[0], &byte, 1), 1);
            assert_int_equal(byte, 0);
        }
        for (unsigned k = 0; k < sizeof(lists) / sizeof(lists[0]); k++) {
            for (unsigned room = 0; room <= CHILDREN + 1; room++)
                one_room(&lists[k], room, lists[k].compute ? n : 0, pids);
        }
        close(hold[1]);
        close(hold[0]);
        close(said[0]);
        close(said[1]);
        users_end(pids, n);
    }
}

/* Texts: the capacity is in bytes and includes the NUL. */
struct text {
    const char *name;
    enum { OF_DEVICE, OF_SYSTEM, OF_PROCESS } of;
};
static const struct text texts[] = {
    {"nvmlDeviceGetName", OF_DEVICE},          {"nvmlDeviceGetUUID", OF_DEVICE},
    {"nvmlSystemGetDriverVersion", OF_SYSTEM}, {"nvmlSystemGetNVMLVersion", OF_SYSTEM},
    {"nvmlSystemGetProcessName", OF_PROCESS},
};

static nvmlReturn_t text_of(const struct text *t, char *to, unsigned room)
{
    fn f = look_up(nvml, t->name);

    if (t->of == OF_DEVICE)
        return f(device(), to, room);
    return t->of == OF_SYSTEM ? f(to, room) : f((unsigned)getpid(), to, room);
}

static void texts_have_exact_room(void **state)
{
    (void)state;
    for (unsigned k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
        const struct text *t = &texts[k];
        char all[4096], to[4098];
        unsigned n;

        ok(text_of(t, all, sizeof(all)));
        n = (unsigned)strlen(all) + 1;
        for (unsigned room = n > 2 ? n - 2 : 1; room <= n + 1; room++) {
            nvmlReturn_t r;

            memset(to, GUARD, sizeof(to));
            r = text_of(t, to, room);
            untouched((unsigned char *)to, room, sizeof(to), t->name);
            if (room >= n) {
                assert_int_equal(r, NVML_SUCCESS);
                assert_string_equal(to, all);
                untouched((unsigned char *)to, n, sizeof(to), t->name);
            } else if (t->of != OF_PROCESS) { /* process names are truncated */
                assert_int_equal(r, NVML_ERROR_INSUFFICIENT_SIZE);
            }
        }
    }
}

static int init(void **state)
{
    (void)state;
    return (int)N(nvmlInit_v2)();
}

static int end(void **state)
{
    (void)state;
    return (int)N(nvmlShutdown)();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lists_have_exact_room, init, end),
        cmocka_unit_test_setup_teardown(texts_have_exact_room, init, end),
    };

    nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (nvml == NULL || cuda == NULL)
        errx(1, "%s", dlerror());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
