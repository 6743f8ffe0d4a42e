/* SPDX-License-Identifier: MIT */
/*
 * Verdicts from synthetic events: each error code that is a fault, with its cause, and the codes
 * that are no fault.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "doctor/doctor.h"

/* A call that returned a code, and libcuda's reason, in a program that ended with status 1. */
struct row {
    const char *call;
    int code;
    const char *why;
    enum vgpu_cause cause; /* NONE: the call is not mentioned */
};
static const struct row rows[] = {
    {"cuMemAlloc", 2, NULL, VGPU_CAUSE_MEMORY},
    {"cuMemHostRegister", 2, "pin_limit_mib", VGPU_CAUSE_PINNED},
    {"cuModuleLoadData", 200, NULL, VGPU_CAUSE_IMAGE},
    {"cuModuleLoadData", 209, NULL, VGPU_CAUSE_IMAGE},
    {"cuModuleLoadData", 218, NULL, VGPU_CAUSE_PTX},
    {"cuModuleLoadData", 222, NULL, VGPU_CAUSE_PTX},
    {"cuStreamSynchronize", 700, NULL, VGPU_CAUSE_KERNEL},
    {"cuStreamSynchronize", 709, NULL, VGPU_CAUSE_KERNEL},
    {"cuStreamSynchronize", 710, NULL, VGPU_CAUSE_KERNEL},
    {"cuStreamSynchronize", 714, NULL, VGPU_CAUSE_KERNEL},
    {"cuStreamSynchronize", 715, NULL, VGPU_CAUSE_KERNEL},
    {"cuStreamSynchronize", 716, NULL, VGPU_CAUSE_KERNEL},
    {"cuStreamSynchronize", 717, NULL, VGPU_CAUSE_KERNEL},
    {"cuStreamSynchronize", 718, NULL, VGPU_CAUSE_KERNEL},
    {"cuStreamSynchronize", 702, NULL, VGPU_CAUSE_KERNEL},
    {"cuStreamSynchronize", 719, NULL, VGPU_CAUSE_KERNEL},
    {"cuMemHostRegister", 801, "pin_limit_mib", VGPU_CAUSE_PINNED},
    {"cuMemHostGetDevicePointer", 801, "registered memory that has no pages of its own", VGPU_CAUSE_REFUSED},
    {"cuMemcpyBatchAsync", 801, "the worker speaks 1.0", VGPU_CAUSE_MISMATCH},
    {"cuMemcpyBatchAsync", 801, NULL, VGPU_CAUSE_REFUSED},
    {"cuMemAlloc", 1, NULL, VGPU_CAUSE_CALL},
    {"cuCtxSetCurrent", 201, NULL, VGPU_CAUSE_CALL},
    /*
     * Ordinary: work that is not ready, the program's shutdown, a missing context, peers, missing
     * names.
     */
    {"cuStreamQuery", 600, NULL, VGPU_CAUSE_NONE},
    {"cuEventQuery", 600, NULL, VGPU_CAUSE_NONE},
    {"cuMemFree", 4, NULL, VGPU_CAUSE_NONE},
    {"cuCtxGetCurrent", 201, NULL, VGPU_CAUSE_NONE},
    {"cuCtxGetDevice", 201, NULL, VGPU_CAUSE_NONE},
    {"cuCtxEnablePeerAccess", 704, NULL, VGPU_CAUSE_NONE},
    {"cuCtxDisablePeerAccess", 705, NULL, VGPU_CAUSE_NONE},
    {"cuGetProcAddress_v2", 500, NULL, VGPU_CAUSE_NONE},
    {"cuGetExportTable", 1, NULL, VGPU_CAUSE_NONE},
    {"nvmlDeviceGetFanSpeed", 3, NULL, VGPU_CAUSE_NONE},
};

static struct vgpu_cli_event event(enum vgpu_cli_event_type type, const char *call, int code,
                                   const char *text)
{
    static char result[16];

    snprintf(result, sizeof(result), "error %d", code);
    return (struct vgpu_cli_event){.type = type,
                                   .pid = 1,
                                   .tid = 1,
                                   .code = code,
                                   .call = (char *)(uintptr_t)call,
                                   .text = (char *)(uintptr_t)text,
                                   .result = result};
}

static void judge_in(struct vgpu_findings *f, const struct row *r, const struct vgpu_ldlog *log)
{
    struct vgpu_cli_event list[6];
    struct vgpu_cli_events events = {.list = list};
    struct vgpu_ending end = {.started = true, .status = 1 << 8, .text = ""};

    if (strcmp(r->call, "cuInit") != 0) {
        list[events.count++] = event(VGPU_EVENT_CALL, "cuInit", 0, "");
        list[events.count++] = event(VGPU_EVENT_CALL, "cuMemAlloc", 0, "");
        list[events.count++] = event(VGPU_EVENT_CALL, "cuLaunchKernel", 0, "");
    }
    if (r->why)
        list[events.count++] = event(VGPU_EVENT_WHY, r->call, r->code, r->why);
    list[events.count++] = event(VGPU_EVENT_CALL, r->call, r->code, "");
    memset(f, 0, sizeof(*f));
    vgpu_cli_judge(f, &events, log, &end);
}

static void judge(struct vgpu_findings *f, const struct row *r)
{
    judge_in(f, r, &(struct vgpu_ldlog){.any = true});
}

static void test_rows(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *r = &rows[i];
        struct vgpu_findings f;
        bool found = false, named = false;

        judge(&f, r);
        for (size_t k = 0; k < f.count; k++) {
            found |= f.list[k].cause == r->cause;
            named |= strstr(f.list[k].what, r->call) != NULL;
        }
        if (r->cause ? !found || !named : named)
            fail_msg("%s with %d%s%s: %s, %s", r->call, r->code, r->why ? ", " : "", r->why ? r->why : "",
                     found     ? "its cause"
                     : f.count ? vgpu_cli_cause_name(f.list[0].cause)
                               : "nothing",
                     named ? "named" : "not named");
    }
}

/* The list of calls is no remedy: the call is served, for other kinds of memory. */
static void test_registered_pages(void **state)
{
    const struct row row = {"cuMemHostGetDevicePointer", 801,
                            "without a VM, registered memory that has no pages of its own is only copied",
                            VGPU_CAUSE_REFUSED};
    struct vgpu_findings f;
    bool told = false;

    (void)state;
    judge(&f, &row);
    for (size_t k = 0; k < f.count; k++)
        told |= f.list[k].remedy && strstr(f.list[k].remedy, "cudaHostAlloc") != NULL;
    assert_true(told);
}

static bool remedy_has(const struct vgpu_findings *f, const char *text)
{
    for (size_t k = 0; k < f->count; k++)
        if (f->list[k].remedy && strstr(f->list[k].remedy, text))
            return true;
    return false;
}

/*
 * PyTorch: the remedy is a build with PTX. A compute capability that would do comes first; other
 * errors have their own remedies.
 */
static void test_torch(void **state)
{
    const struct row none = {"cuLaunchKernel", 209, NULL, VGPU_CAUSE_IMAGE},
                     newer = {"cuLaunchKernel", 209, "try the profile VGPU_SOFT_CC=9.0 (the image has",
                              VGPU_CAUSE_IMAGE},
                     memory = {"cuMemAlloc", 2, NULL, VGPU_CAUSE_MEMORY};
    const struct vgpu_ldlog log = {.any = true, .torch = true};
    struct vgpu_findings f;

    (void)state;
    judge_in(&f, &none, &log);
    assert_true(remedy_has(&f, "python3-torch-cuda") && remedy_has(&f, "TORCH_CUDA_ARCH_LIST=8.0+PTX"));
    judge(&f, &none);
    assert_false(remedy_has(&f, "torch"));
    judge_in(&f, &newer, &log);
    assert_true(remedy_has(&f, "VGPU_SOFT_CC=9.0") && !remedy_has(&f, "torch"));
    judge_in(&f, &memory, &log);
    assert_false(remedy_has(&f, "torch"));
}

/*
 * A loader's log in which PyTorch's kernel library was loaded, and a log in which it was only
 * searched for.
 */
static void test_torch_in_log(void **state)
{
    static const struct {
        const char *line;
        bool torch;
    } logs[] = {{"      7:\tcalling init: /v/torch/lib/libtorch_cuda.so\n", true},
                {"      7:\tfind library=libtorch_cuda.so [0]; searching\n", false},
                {"      7:\tcalling init: /v/torch/lib/libtorch_cuda_linalg.so\n", false}};

    (void)state;
    for (unsigned i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
        char folder[] = "/tmp/vgpu-ldlog-XXXXXX", path[64];
        struct vgpu_ldlog log;
        FILE *f;

        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof(path), "%s/ld.7", folder);
        f = fopen(path, "we");
        assert_non_null(f);
        fputs(logs[i].line, f);
        fclose(f);
        vgpu_cli_ldlog_read(&log, folder);
        unlink(path);
        rmdir(folder);
        assert_int_equal(log.torch, logs[i].torch);
    }
}

/* Each row of the table of limits in docs/tenancy.md that gives the program an error: the text of
 * the broker, the worker or libcuda, and the option to raise. */
static const struct limit_row {
    struct row row;
    const char *option;
} limit_rows[] = {
    {{"cuMemAlloc", 2, "bytes of device memory: the limit of 16777216 is met (vgpu-backend --vram-quota)",
      VGPU_CAUSE_MEMORY},
     "--vram-quota"},
    {{"cuMemAlloc", 2,
      "bytes of the GPU's memory with all its VMs: the limit of 9 is met (vgpu-backend --memory-policy ceiling)",
      VGPU_CAUSE_MEMORY},
     "--memory-policy ceiling"},
    {{"cuMemHostAlloc", 2,
      "the backend could not map 9 bytes: Disk quota exceeded; the VM's quota of pinned memory (vgpu-backend "
      "--pin-quota)",
      VGPU_CAUSE_MEMORY},
     "--pin-quota"},
    {{"cuInit", 806, "the broker serves as many clients as it may; raise --max-clients or end one",
      VGPU_CAUSE_CONNECT},
     "--max-clients"},
    {{"cuModuleLoadData", 2, "bytes of module images: the limit of 9 is met (vgpu-backend --blob-quota)",
      VGPU_CAUSE_MEMORY},
     "--blob-quota"},
    {{"cuMemAllocHost", 2, "bytes of host memory: the limit of 9 is met (vgpu-backend --client-memory)",
      VGPU_CAUSE_MEMORY},
     "--client-memory"},
    {{"cuModuleLoadData", 304, "threads: the limit of 32 is met (vgpu-backend --client-threads)",
      VGPU_CAUSE_CALL},
     "--client-threads"},
    {{"cuStreamCreate", 2, "streams: the limit of 8 is met (vgpu-backend --client-streams)",
      VGPU_CAUSE_MEMORY},
     "--client-streams"},
    {{"cuEventCreate", 2, "objects: the limit of 8 is met (vgpu-backend --client-handles)",
      VGPU_CAUSE_MEMORY},
     "--client-handles"},
    {{"cuCtxSetLimit", 2, "bytes for printf: the limit of 8 is met (vgpu-backend --client-printf)",
      VGPU_CAUSE_MEMORY},
     "--client-printf"},
    {{"cuModuleLoadData", 2, "the image has 9 bytes: the limit of 8 is met (vgpu-backend --client-image)",
      VGPU_CAUSE_MEMORY},
     "--client-image"},
    {{"cuModuleLoadData", 719,
      "the worker: a compilation took more than 9 s of processor time (--client-compile-time)",
      VGPU_CAUSE_WORKER},
     "--client-compile-time"},
    {{"cuStreamSynchronize", 719, "the worker: none of its work has ended for 5 s (--client-time-limit)",
      VGPU_CAUSE_WORKER},
     "--client-time-limit"},
};

/* Expects a finding of that cause whose remedy names the option, and no other option. */
static void expect_raise(const struct vgpu_findings *f, enum vgpu_cause cause, const char *option)
{
    const char *told = NULL;

    for (size_t i = 0; i < f->count; i++) {
        if (f->list[i].cause == cause && f->list[i].remedy)
            told = f->list[i].remedy;
    }
    if (!told || !strstr(told, option) ||
        (strcmp(option, "--vram-quota") && strcmp(option, "--memory-policy ceiling") &&
         strstr(told, "--vram-quota")))
        fail_msg("%s: %s", option, told ? told : "nothing");
}

static void test_limits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(limit_rows) / sizeof(limit_rows[0]); i++) {
        struct vgpu_findings f;

        judge(&f, &limit_rows[i].row);
        expect_raise(&f, limit_rows[i].row.cause, limit_rows[i].option);
    }
}

/*
 * The text about a limit, with other texts between it and the call, on another thread; then without
 * a failed call.
 */
static void test_limit_said_earlier(void **state)
{
    struct vgpu_cli_event list[16];
    struct vgpu_cli_events events = {.list = list};
    struct vgpu_ldlog log = {.any = true};
    struct vgpu_ending end = {.started = true, .status = 1 << 8, .text = ""};
    struct vgpu_findings f = {.count = 0};

    (void)state;
    list[events.count++] = event(VGPU_EVENT_CALL, "cuInit", 0, "");
    list[events.count++] = event(VGPU_EVENT_CALL, "cuMemAlloc", 0, "");
    list[events.count] =
        event(VGPU_EVENT_WHY, "worker", 0, "streams: the limit of 8 is met (vgpu-backend --client-streams)");
    list[events.count++].tid = 2;
    for (int i = 0; i < 10; i++)
        list[events.count++] = event(VGPU_EVENT_CALL, "cuStreamCreate", 0, "");
    vgpu_cli_judge(&f, &events, &log, &end);
    expect_raise(&f, VGPU_CAUSE_MEMORY, "--client-streams");
    f.count = 0;
    list[events.count++] =
        event(VGPU_EVENT_WHY, "worker", 0,
              "cuStreamCreate, which had returned already, failed: CUDA_ERROR_OUT_OF_MEMORY");
    list[events.count++] = event(VGPU_EVENT_CALL, "cuCtxSynchronize", 2, "");
    vgpu_cli_judge(&f, &events, &log, &end);
    expect_raise(&f, VGPU_CAUSE_MEMORY, "--client-streams");
    /* The limit was reached by another process. */
    f.count = 0;
    list[2].pid = 2;
    vgpu_cli_judge(&f, &events, &log, &end);
    for (size_t i = 0; i < f.count; i++)
        assert_true(f.list[i].cause == VGPU_CAUSE_NONE || f.list[i].remedy == NULL ||
                    strstr(f.list[i].remedy, "--client-streams") == NULL);
}

/* The reason that names the limit is chosen, not the later one. */
static void test_limit_before_others(void **state)
{
    struct vgpu_cli_event list[6];
    struct vgpu_cli_events events = {.list = list};
    struct vgpu_ldlog log = {.any = true};
    struct vgpu_ending end = {.started = true, .status = 1 << 8, .text = ""};
    struct vgpu_findings f = {.count = 0};

    (void)state;
    list[events.count++] = event(VGPU_EVENT_CALL, "cuInit", 0, "");
    list[events.count++] = event(VGPU_EVENT_CALL, "cuMemAlloc", 0, "");
    list[events.count++] = event(VGPU_EVENT_WHY, "worker", 0,
                                 "bytes of an image: the limit of 8 is met (vgpu-backend --client-image)");
    list[events.count++] = event(VGPU_EVENT_WHY, "cuModuleLoadData", 0, "out of memory");
    list[events.count++] = event(VGPU_EVENT_CALL, "cuModuleLoadData", 2, "");
    vgpu_cli_judge(&f, &events, &log, &end);
    expect_raise(&f, VGPU_CAUSE_MEMORY, "--client-image");
    /* A worker ended by its time limit. */
    f.count = 0;
    list[2].text =
        (char *)(uintptr_t) "seconds without an end of any work: the limit of 5 is met (vgpu-backend "
                            "--client-time-limit)";
    list[3] = event(VGPU_EVENT_WHY, "worker", 0, "the worker was ended");
    list[4].code = 0;
    vgpu_cli_judge(&f, &events, &log, &end);
    expect_raise(&f, VGPU_CAUSE_WORKER, "--client-time-limit");
}

/* The name of a limit ends where a text goes on in any way that broker and workers write; a longer word is another one. */
static void test_limit_names(void **state)
{
    static const char *const limits[] = {
        "vram-quota",    "pin-quota",           "blob-quota",     "max-clients",      "start-rate",
        "client-memory", "client-threads",      "client-streams", "client-handles",   "client-printf",
        "client-image",  "client-compile-time", "client-queue",   "client-time-limit"};
    static const char *const behind[] = {")", ",", ";", ":", " ", ""};
    char text[200], want[100];

    (void)state;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        snprintf(want, sizeof(want), "raise --%s of vgpu-backend", limits[i]);
        for (size_t k = 0; k < sizeof(behind) / sizeof(behind[0]); k++) {
            snprintf(text, sizeof(text), "the limit is --%s%s", limits[i], behind[k]);
            assert_true(vgpu_cli_names_limit(text));
            assert_memory_equal(vgpu_cli_limit_remedy(text), want, strlen(want));
            snprintf(text, sizeof(text), "beside --gpu soft, --%sx and --%s%s", limits[i], limits[i],
                     behind[k]);
            assert_memory_equal(vgpu_cli_limit_remedy(text), want, strlen(want));
        }
        snprintf(text, sizeof(text), "--%sx --%s-y, %s", limits[i], limits[i], limits[i]);
        assert_false(vgpu_cli_names_limit(text));
    }
}

/* A program that a signal ends while the runtime starts: a crash, or somebody's wish. */
static void test_signals(void **state)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGABRT};
    struct vgpu_cli_event list[] = {event(VGPU_EVENT_CALL, "cuInit", 0, ""),
                                    event(VGPU_EVENT_CALL, "cuDeviceGet", 0, "")};
    const struct vgpu_cli_events events = {.list = list, .count = 2};
    const struct vgpu_ldlog log = {.any = true};

    (void)state;
    for (int signal = 1; signal < 32; signal++) {
        const struct vgpu_ending end = {.started = true, .status = signal, .text = ""};
        struct vgpu_findings f = {.count = 0};
        bool crash = false, found = false;
        char said[32];

        for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
            crash |= crashes[i] == signal;
        snprintf(said, sizeof(said), "died by signal %d ", signal);
        vgpu_cli_judge(&f, &events, &log, &end);
        for (size_t i = 0; i < f.count; i++)
            found |= f.list[i].cause == VGPU_CAUSE_TABLE_EMPTY && strstr(f.list[i].what, said);
        if (found != crash)
            fail_msg("signal %d: %s", signal, found ? "a crash" : "no crash");
    }
}

/* File names and loader messages in a finding contain no terminal control characters. */
static void test_words(void **state)
{
    struct vgpu_findings f = {.count = 0};

    (void)state;
    vgpu_cli_find(&f, VGPU_CAUSE_NONE, strdup("a\033[2J"), "\xc2\x9b[2J", "\x9b");
    assert_string_equal(f.list[0].what, "a?[2J");
    assert_string_equal(f.list[0].seen, "??[2J");
    assert_string_equal(f.list[0].remedy, "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_registered_pages),
                                       cmocka_unit_test(test_torch),
                                       cmocka_unit_test(test_torch_in_log),
                                       cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_limit_said_earlier),
                                       cmocka_unit_test(test_limit_before_others),
                                       cmocka_unit_test(test_limit_names),
                                       cmocka_unit_test(test_signals),
                                       cmocka_unit_test(test_words)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    print_message("userspace/vgpu/verdict: %d passed, %d failed, 0 skipped\n",
                  (int)(sizeof(tests) / sizeof(tests[0])) - failed, failed);
    return failed;
}
