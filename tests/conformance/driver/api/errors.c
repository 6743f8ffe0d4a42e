// SPDX-License-Identifier: MIT
/* Kernels that fail: sticky for the process, no effect on the next process. Device printf. */
#include "conform.h"

#include <unistd.h>

/* All later calls of the process return the same error; calls that need no GPU still work. */
static void all_refuse(CUresult want)
{
    CUdeviceptr p = 0;
    CUstream s = NULL;
    CUevent e = NULL;
    CUmodule m = NULL;
    CUcontext c = NULL;
    CUdevice d = -1;
    uint32_t v = 0;
    int n = 0;
    size_t a, b;

    RC("then_sync", cuCtxSynchronize(), want);
    RC("then_alloc", cuMemAlloc(&p, 64), want);
    RC("then_copy", cuMemcpyHtoD(0x1000, &v, 4), want);
    RC("then_read", cuMemcpyDtoH(&v, 0x1000, 4), want);
    RC("then_stream", cuStreamCreate(&s, 0), want);
    RC("then_stream_sync", cuStreamSynchronize(NULL), want);
    RC("then_stream_query", cuStreamQuery(NULL), want);
    RC("then_event", cuEventCreate(&e, 0), want);
    RC("then_module", cuModuleLoadData(&m, cf_ptx), want);
    RC("then_info", cuMemGetInfo(&a, &b), want);
    RC("then_sync_again", cuCtxSynchronize(), want);
    OK("then_current", cuCtxGetCurrent(&c));
    OK("then_device", cuCtxGetDevice(&d));
    OK("then_count", cuDeviceGetCount(&n));
    OK("then_version", cuDriverGetVersion(&n));
}

static void next_is_clean(void)
{
    char out[64];
    int status = cf_spawn("good", "", out, sizeof(out));
    cf_u64("next_process_status", (uint64_t)status, 0);
    cf_str("next_process", out, "good");
}

CASE(sticky_store, CF_ALONE | CF_CTX)
{
    CUdeviceptr wild = 0x10;
    void *params[] = {&wild};
    CUfunction f = cf_func("k_store");

    OK("launch", cf_launch(f, 1, 1, 0, NULL, params));
    RC("sync", cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    RC("then_launch", cf_launch(f, 1, 1, 0, NULL, params), CUDA_ERROR_ILLEGAL_ADDRESS);
    all_refuse(CUDA_ERROR_ILLEGAL_ADDRESS);
    next_is_clean();
}

CASE(sticky_load, CF_ALONE | CF_CTX)
{
    CUdeviceptr wild = 0x7fffffffff000ULL, out = 0;
    void *params[] = {&wild, &out};
    CUstream s = NULL;
    CUevent e = NULL;

    NEED(cuMemAlloc(&out, 4));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, 0));
    OK("launch", cf_launch(cf_func("k_load"), 1, 1, 0, s, params));
    OK("record", cuEventRecord(e, s));
    RC("event_sync", cuEventSynchronize(e), CUDA_ERROR_ILLEGAL_ADDRESS);
    RC("stream_sync", cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    RC("free", cuMemFree(out), CUDA_ERROR_ILLEGAL_ADDRESS);
    all_refuse(CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* An element past the end of an allocation; a physical GPU detects it only at the end of a page. */
CASE(sticky_past_end, CF_ALONE | CF_CTX | CF_UB)
{
    CUdeviceptr p = 0, past;
    void *params[] = {&past};

    NEED(cuMemAlloc(&p, 4096));
    past = p + 4096;
    OK("launch", cf_launch(cf_func("k_store"), 1, 1, 0, NULL, params));
    RC("sync", cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    all_refuse(CUDA_ERROR_ILLEGAL_ADDRESS);
}

CASE(sticky_freed, CF_ALONE | CF_CTX | CF_UB)
{
    CUdeviceptr p = 0;
    void *params[] = {&p};
    CUfunction f = cf_func("k_store"); /* loaded first, as its variables are allocations too */

    NEED(cuMemAlloc(&p, 4096));
    NEED(cuMemFree(p));
    OK("launch", cf_launch(f, 1, 1, 0, NULL, params));
    RC("sync", cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* A pointer into this process's own memory is not a device address. */
CASE(sticky_host_pointer, CF_ALONE | CF_CTX | CF_UB)
{
    static uint32_t victim = 5;
    CUdeviceptr p = (CUdeviceptr)(uintptr_t)&victim;
    void *params[] = {&p};

    OK("launch", cf_launch(cf_func("k_store"), 1, 1, 0, NULL, params));
    RC("sync", cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    cf_u64("untouched", victim, 5);
}

CASE(sticky_misaligned, CF_ALONE | CF_CTX)
{
    CUdeviceptr p = 0, odd;
    void *params[] = {&odd};

    NEED(cuMemAlloc(&p, 4096));
    odd = p + 2;
    OK("launch", cf_launch(cf_func("k_store"), 1, 1, 0, NULL, params));
    RC("sync", cuCtxSynchronize(), CUDA_ERROR_MISALIGNED_ADDRESS);
    all_refuse(CUDA_ERROR_MISALIGNED_ADDRESS);
}

CASE(sticky_shared, CF_ALONE | CF_CTX)
{
    CUdeviceptr p = 0;
    void *params[] = {&p};

    NEED(cuMemAlloc(&p, 4));
    OK("launch", cf_launch(cf_func("k_shared_past"), 1, 1, 64, NULL, params));
    RC_IN("sync", cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_INVALID_ADDRESS_SPACE,
          CUDA_ERROR_ILLEGAL_INSTRUCTION);
}

CASE(sticky_trap, CF_ALONE | CF_CTX)
{
    OK("launch", cf_launch(cf_func("k_trap"), 1, 1, 0, NULL, NULL));
    RC_IN("sync", cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_ILLEGAL_INSTRUCTION);
    next_is_clean();
}

CASE(sticky_assert, CF_ALONE | CF_CTX)
{
    int v = 2;
    void *params[] = {&v};

    OK("holds", cf_launch(cf_func("k_assert"), 1, 1, 0, NULL, params));
    OK("holds_sync", cuCtxSynchronize());
    v = 3;
    OK("launch", cf_launch(cf_func("k_assert"), 1, 1, 0, NULL, params));
    RC("sync", cuCtxSynchronize(), CUDA_ERROR_ASSERT);
    all_refuse(CUDA_ERROR_ASSERT);
}

/* Texts that are easily misquoted; NVIDIA's runtime has the same texts. */
CASE(error_texts, CF_CTX)
{
    static const struct {
        CUresult code;
        const char *text;
    } want[] = {
        {CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "API call is not supported in the installed CUDA driver"},
        {CUDA_ERROR_CONTAINED, "Invalid access of peer GPU memory over nvlink or a hardware error"},
        {CUDA_ERROR_TENSOR_MEMORY_LEAK, "tensor memory not completely freed"},
        {CUDA_ERROR_EXTERNAL_DEVICE, "an async error has occured in external entity outside of CUDA"},
    };
    const char *text;

    for (unsigned i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        text = "";
        OK("text", cuGetErrorString(want[i].code, &text));
        cf_str("text_is", text, want[i].text);
    }
    RC("unknown", cuGetErrorString((CUresult)998, &text), CUDA_ERROR_INVALID_VALUE);
    cf_u64("unknown_is_null", text == NULL, 1);
}

/* Refusals are not sticky. */
CASE(not_sticky, CF_CTX)
{
    CUdeviceptr p = 0;

    RC("launch", cf_launch(cf_func("k_nop"), 0, 1, 0, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("free", cuMemFree(0x1230), CUDA_ERROR_INVALID_VALUE);
    RC("alloc", cuMemAlloc(&p, (size_t)1 << 60), CUDA_ERROR_OUT_OF_MEMORY);
    RC("copy", cuMemcpyDtoH(&p, 0x10, 4), CUDA_ERROR_INVALID_VALUE);
    OK("sync", cuCtxSynchronize());
    OK("alloc_works", cuMemAlloc(&p, 400));
    OK("launch_works", cf_fill(p, 100, 1, NULL));
    cf_true("result", cf_filled(p, 100, 1));
    OK("free_works", cuMemFree(p));
}

/* Device printf has reached standard output when the synchronising call returns. */
CASE(device_printf, CF_CTX)
{
    static const char want[] = "thread 0: -5 0xff text 1.500 z %\nthread 1: -5 0xff text 1.500 z %\n";
    char got[256] = "";
    int v = -5, saved;
    void *params[] = {&v};
    FILE *f = tmpfile();
    CUfunction k = cf_func("k_print");

    cf_need_true("tmpfile", f != NULL);
    fflush(stdout);
    saved = dup(1);
    dup2(fileno(f), 1);
    CUresult launch = cf_launch(k, 1, 2, 0, NULL, params);
    CUresult sync = cuCtxSynchronize();
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    ssize_t n = pread(fileno(f), got, sizeof(got) - 1, 0);
    got[n > 0 ? n : 0] = 0;
    fclose(f);
    OK("launch", launch);
    OK("sync", sync);
    cf_true("text", !strcmp(got, want));
    if (strcmp(got, want))
        printf("device_printf.got [%s]\n", got);
}
