// SPDX-License-Identifier: MIT
/*
 * Stale, wrong-typed and invented handles: the documented error, and never another object. A
 * physical GPU's own driver dereferences such a pointer, so these cases do not run directly on it.
 */
#include "conform.h"

#define INVENTED ((void *)(uintptr_t)0x0300000100012340ULL)

CASE(handle_stream, CF_CTX | CF_UB)
{
    CUstream s = NULL, t = NULL;
    CUevent e = NULL;
    CUdeviceptr p = 0;
    unsigned flags;

    NEED(cuStreamCreate(&s, 0));
    NEED(cuEventCreate(&e, 0));
    NEED(cuMemAlloc(&p, 64));
    NEED(cuStreamDestroy(s));
    RC("stale_query", cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_sync", cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_destroy", cuStreamDestroy(s), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_flags", cuStreamGetFlags(s, &flags), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_memset", cuMemsetD8Async(p, 0, 64, s), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_copy", cuMemcpyHtoDAsync(p, &flags, 4, s), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_launch", cf_launch(cf_func("k_nop"), 1, 1, 0, s, NULL), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_record", cuEventRecord(e, s), CUDA_ERROR_INVALID_HANDLE);
    NEED(cuStreamCreate(&t, 0));
    cf_true("new_value", t != s);
    RC("stale_after_new", cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
    RC("event_as_stream", cuStreamQuery((CUstream)e), CUDA_ERROR_INVALID_HANDLE);
    RC("event_destroyed_as_stream", cuStreamDestroy((CUstream)e), CUDA_ERROR_INVALID_HANDLE);
    RC("invented", cuStreamSynchronize((CUstream)INVENTED), CUDA_ERROR_INVALID_HANDLE);
    RC("three", cuStreamQuery((CUstream)3), CUDA_ERROR_INVALID_HANDLE);
    RC("all_ones", cuStreamQuery((CUstream) ~(uintptr_t)0), CUDA_ERROR_INVALID_HANDLE);
    OK("event_lives", cuEventQuery(e));
    OK("stream_lives", cuStreamQuery(t));
    OK("destroy", cuStreamDestroy(t));
    OK("event_destroy", cuEventDestroy(e));
    OK("free", cuMemFree(p));
}

CASE(handle_event, CF_CTX | CF_UB)
{
    CUevent e = NULL, f = NULL;
    CUstream s = NULL;
    float ms;

    NEED(cuEventCreate(&e, 0));
    NEED(cuEventCreate(&f, 0));
    NEED(cuStreamCreate(&s, 0));
    NEED(cuEventRecord(e, s));
    NEED(cuEventSynchronize(e));
    NEED(cuEventDestroy(e));
    RC("stale_query", cuEventQuery(e), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_record", cuEventRecord(e, s), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_sync", cuEventSynchronize(e), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_wait", cuStreamWaitEvent(s, e, 0), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_elapsed", cuEventElapsedTime(&ms, e, f), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_destroy", cuEventDestroy(e), CUDA_ERROR_INVALID_HANDLE);
    RC("stream_as_event", cuEventQuery((CUevent)s), CUDA_ERROR_INVALID_HANDLE);
    RC("invented", cuEventRecord((CUevent)INVENTED, s), CUDA_ERROR_INVALID_HANDLE);
    OK("stream_lives", cuStreamSynchronize(s));
    OK("destroy", cuEventDestroy(f));
    OK("stream_destroy", cuStreamDestroy(s));
}

CASE(handle_module, CF_CTX | CF_UB)
{
    CUmodule m = NULL;
    CUfunction f = NULL, g = NULL;
    CUdeviceptr p = 0;
    size_t n;
    int v;

    NEED(cuModuleLoadData(&m, cf_ptx));
    NEED(cuModuleGetFunction(&f, m, "k_nop"));
    NEED(cuModuleUnload(m));
    RC_IN("stale_unload", cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE);
    RC("stale_function", cuModuleGetFunction(&g, m, "k_nop"), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_global", cuModuleGetGlobal(&p, &n, m, "g_array"), CUDA_ERROR_INVALID_HANDLE);
    RC("unloaded_launch", cf_launch(f, 1, 1, 0, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    RC("unloaded_attribute", cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, f),
       CUDA_ERROR_INVALID_HANDLE);
    RC("module_as_function", cf_launch((CUfunction)cf_module(), 1, 1, 0, NULL, NULL),
       CUDA_ERROR_INVALID_HANDLE);
    RC("invented", cf_launch((CUfunction)INVENTED, 1, 1, 0, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    RC("null_module", cuModuleGetFunction(&g, NULL, "k_nop"), CUDA_ERROR_INVALID_HANDLE);
    OK("other_lives", cf_launch(cf_func("k_nop"), 1, 1, 0, NULL, NULL));
    OK("sync", cuCtxSynchronize());
}

CASE(handle_library, CF_CTX | CF_UB)
{
    CUlibrary lib = NULL;
    CUkernel k = NULL, k2 = NULL;
    CUfunction f = NULL;
    CUdeviceptr p = 0;
    size_t n;

    NEED(cuLibraryLoadData(&lib, cf_ptx, NULL, NULL, 0, NULL, NULL, 0));
    NEED(cuLibraryGetKernel(&k, lib, "k_nop"));
    NEED(cuLibraryUnload(lib));
    RC_IN("stale_unload", cuLibraryUnload(lib), CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE);
    RC("stale_kernel", cuLibraryGetKernel(&k2, lib, "k_nop"), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_global", cuLibraryGetGlobal(&p, &n, lib, "g_array"), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_launch", cf_launch((CUfunction)k, 1, 1, 0, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    RC("stale_get_function", cuKernelGetFunction(&f, k), CUDA_ERROR_INVALID_HANDLE);
    RC("invented", cuLibraryGetKernel(&k2, (CUlibrary)INVENTED, "k_nop"), CUDA_ERROR_INVALID_HANDLE);
}

/* Many objects: all handles differ, and no destroyed handle becomes valid again. */
CASE(handle_churn, CF_CTX)
{
    enum { N = 200, ROUNDS = 10 };
    CUevent e[N], old[N] = {0};
    unsigned same = 0, alive = 0, bad = 0;

    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < N; i++)
            bad += cuEventCreate(&e[i], CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS;
        for (int i = 0; i < N; i++) {
            for (int k = i + 1; k < N; k++)
                same += e[i] == e[k];
            if (r && !cf_real())
                alive += cuEventQuery(old[i]) != CUDA_ERROR_INVALID_HANDLE;
        }
        for (int i = 0; i < N; i++) {
            old[i] = e[(i * 7) % N];
            bad += cuEventDestroy(old[i]) != CUDA_SUCCESS;
        }
    }
    cf_u64("bad", bad, 0);
    cf_u64("same", same, 0);
    cf_u64("alive", alive, 0);
}

/*
 * Unimplemented calls return CUDA_ERROR_NOT_SUPPORTED for any arguments, or the library does not
 * offer their function pointer at all.
 */
CASE(not_supported, CF_CTX | CF_UB)
{
    static const char *const names[] = {
        "cuGraphicsMapResources",
        "cuGraphicsUnmapResources",
        "cuGraphicsUnregisterResource",
        "cuGraphicsSubResourceGetMappedArray",
        "cuGraphicsResourceGetMappedMipmappedArray",
    };
    typedef CUresult(CUDAAPI * any)(void *, void *, void *, void *, void *, void *, void *, void *, void *,
                                    void *, void *, void *);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *p = NULL;
        CUresult r = CUDA_ERROR_NOT_SUPPORTED;
        cuGetProcAddress_v2(names[i], &p, 13000, 0, NULL);
        for (int twice = 0; p && twice < 2; twice++)
            r = ((any)p)(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
        RC(names[i], r, CUDA_ERROR_NOT_SUPPORTED);
    }
}
