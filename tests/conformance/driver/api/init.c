// SPDX-License-Identifier: MIT
/* Before cuInit, devices, cuGetProcAddress, error names. */
#include "conform.h"

CASE(init_before, CF_ALONE)
{
    int n = 0, v = 0;
    CUdevice d;
    CUcontext c = NULL;
    CUdeviceptr p = 0;
    CUstream s = NULL;
    const char *text = NULL;

    OK("driver_version", cuDriverGetVersion(&v));
    cf_true("driver_version_13", v >= 13000);
    RC("driver_version_null", cuDriverGetVersion(NULL), CUDA_ERROR_INVALID_VALUE);
    OK("error_name", cuGetErrorName(CUDA_ERROR_NOT_INITIALIZED, &text));
    RC("device_count", cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
    RC("device_get", cuDeviceGet(&d, 0), CUDA_ERROR_NOT_INITIALIZED);
    RC("attribute", cuDeviceGetAttribute(&v, 1, 0), CUDA_ERROR_NOT_INITIALIZED);
    RC("ctx_current", cuCtxGetCurrent(&c), CUDA_ERROR_NOT_INITIALIZED);
    RC("ctx_set", cuCtxSetCurrent(NULL), CUDA_ERROR_NOT_INITIALIZED);
    RC("retain", cuDevicePrimaryCtxRetain(&c, 0), CUDA_ERROR_NOT_INITIALIZED);
    RC("alloc", cuMemAlloc(&p, 16), CUDA_ERROR_NOT_INITIALIZED);
    RC("free", cuMemFree(0), CUDA_ERROR_NOT_INITIALIZED);
    RC("stream", cuStreamCreate(&s, 0), CUDA_ERROR_NOT_INITIALIZED);
    RC("launch", cf_launch(NULL, 1, 1, 0, NULL, NULL), CUDA_ERROR_NOT_INITIALIZED);
    /* These check for NULL first (driver 580). */
    RC("ctx_flags_null", cuCtxGetFlags(NULL), CUDA_ERROR_INVALID_VALUE);
    RC("ctx_device_null", cuCtxGetDevice(NULL), CUDA_ERROR_INVALID_VALUE);
    RC("library_null", cuLibraryGetKernelCount(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("unload_null", cuLibraryUnload(NULL), CUDA_ERROR_INVALID_HANDLE);
    RC("link_null", cuLinkDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
    RC("managed_null", cuMemAllocManaged(NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RC("alloc_null", cuMemAlloc(NULL, 0), CUDA_ERROR_NOT_INITIALIZED);
    RC("init_flags", cuInit(1), CUDA_ERROR_INVALID_VALUE);
    OK("init", cuInit(0));
    OK("init_again", cuInit(0));
    RC("alloc_no_context", cuMemAlloc(&p, 16), CUDA_ERROR_INVALID_CONTEXT);
    RC("stream_no_context", cuStreamCreate(&s, 0), CUDA_ERROR_INVALID_CONTEXT);
    RC("sync_no_context", cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    RC("ctx_device_none", cuCtxGetDevice(&d), CUDA_ERROR_INVALID_CONTEXT);
    RC("ctx_device_none_null", cuCtxGetDevice(NULL), CUDA_ERROR_INVALID_VALUE);
    RC("unload_none_null", cuModuleUnload(NULL), CUDA_ERROR_INVALID_HANDLE);
    OK("ctx_current_none", cuCtxGetCurrent(&c));
    cf_true("ctx_current_null", c == NULL);
}

CASE(device, CF_CTX)
{
    int n = 0, v = 0, w = 0;
    CUdevice d = -1;
    char name[256] = "", shorter[8], bus[32] = "";
    size_t total = 0, free_mem = 0, total2 = 0;
    CUuuid id = {{0}}, id2 = {{0}};

    OK("count", cuDeviceGetCount(&n));
    cf_true("count_positive", n >= 1);
    RC("count_null", cuDeviceGetCount(NULL), CUDA_ERROR_INVALID_VALUE);
    OK("get", cuDeviceGet(&d, 0));
    RC("get_null", cuDeviceGet(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    RC("get_past", cuDeviceGet(&d, n), CUDA_ERROR_INVALID_DEVICE);
    RC("get_negative", cuDeviceGet(&d, -1), CUDA_ERROR_INVALID_DEVICE);
    OK("name", cuDeviceGetName(name, sizeof(name), 0));
    cf_true("name_text", name[0] && strlen(name) < sizeof(name));
    memset(shorter, 'x', sizeof(shorter));
    OK("name_cut", cuDeviceGetName(shorter, 4, 0));
    cf_true("name_cut_right", !shorter[3] && !strncmp(shorter, name, 3) && shorter[4] == 'x');
    RC("name_null", cuDeviceGetName(NULL, 4, 0), CUDA_ERROR_INVALID_VALUE);
    RC("name_device", cuDeviceGetName(name, sizeof(name), 77), CUDA_ERROR_INVALID_DEVICE);
    OK("total", cuDeviceTotalMem(&total, 0));
    OK("info", cuMemGetInfo(&free_mem, &total2));
    cf_true("info_right", total > 0 && free_mem > 0 && free_mem <= total2 && total2 <= total);
    RC("total_device", cuDeviceTotalMem(&total, 77), CUDA_ERROR_INVALID_DEVICE);
    RC("total_null", cuDeviceTotalMem(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    OK("uuid", cuDeviceGetUuid(&id, 0));
    OK("uuid_again", cuDeviceGetUuid(&id2, 0));
    cf_true("uuid_same", !memcmp(&id, &id2, sizeof(id)));
    OK("pci", cuDeviceGetPCIBusId(bus, sizeof(bus), 0));
    cf_true("pci_form", strlen(bus) >= 12 && bus[4] == ':' && bus[7] == ':' && bus[10] == '.');
    OK("pci_back", cuDeviceGetByPCIBusId(&d, bus));
    cf_u64("pci_device", (uint64_t)d, 0);
    RC("pci_unknown", cuDeviceGetByPCIBusId(&d, "ffff:ff:1f.7"), CUDA_ERROR_INVALID_DEVICE);
    OK("warp", cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    cf_u64("warp_size", (uint64_t)v, 32);
    OK("uva", cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
    cf_u64("uva_value", (uint64_t)v, 1);
    OK("threads", cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0));
    cf_u64("threads_value", (uint64_t)v, 1024);
    OK("major", cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    OK("minor", cuDeviceGetAttribute(&w, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
    cf_true("capability", v * 10 + w >= 75);
    RC("attribute_unknown", cuDeviceGetAttribute(&v, (CUdevice_attribute)100000, 0),
       CUDA_ERROR_INVALID_VALUE);
    RC("attribute_negative", cuDeviceGetAttribute(&v, (CUdevice_attribute)-1, 0), CUDA_ERROR_INVALID_VALUE);
    RC("attribute_null", cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0),
       CUDA_ERROR_INVALID_VALUE);
    RC("attribute_device", cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 77),
       CUDA_ERROR_INVALID_DEVICE);
    OK("peer_self", cuDeviceCanAccessPeer(&v, 0, 0));
    cf_u64("peer_self_value", (uint64_t)v, 0);
}

/* cudart refuses the device if any attribute up to the last fails. */
CASE(device_attributes, CF_CTX)
{
    unsigned failed = 0;
    for (int a = 1; a <= CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED; a++) {
        int v;
        failed += cuDeviceGetAttribute(&v, (CUdevice_attribute)a, 0) != CUDA_SUCCESS && a != 44;
    }
    cf_u64("failed", failed, 0);
}

CASE(error_text, CF_CTX)
{
    CUresult code;
    const char *want, *got;
    unsigned wrong = 0, no_text = 0;

    for (unsigned i = 0; cf_result_at(i, &code, &want); i++) {
        got = NULL;
        if (cuGetErrorName(code, &got) != CUDA_SUCCESS || !got || strcmp(got, want)) {
            printf("error_text.name %s got %s FAIL\n", want, got ? got : "(null)");
            wrong++;
        }
        got = NULL;
        no_text += cuGetErrorString(code, &got) != CUDA_SUCCESS || !got || !*got;
    }
    cf_u64("names_wrong", wrong, 0);
    cf_u64("strings_missing", no_text, 0);
    got = "x";
    RC("name_unknown", cuGetErrorName((CUresult)12345, &got), CUDA_ERROR_INVALID_VALUE);
    cf_true("name_unknown_null", got == NULL);
    got = "x";
    RC("string_unknown", cuGetErrorString((CUresult)12345, &got), CUDA_ERROR_INVALID_VALUE);
    cf_true("string_unknown_null", got == NULL);
    if (!cf_real()) /* a physical GPU's driver writes there (driver 580) */
        RC("name_null", cuGetErrorName(CUDA_SUCCESS, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("string", cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &got));
    cf_str("string_text", got, "out of memory");
    OK("string_ok", cuGetErrorString(CUDA_SUCCESS, &got));
    cf_str("string_ok_text", got, "no error");
}

/* Version 1 as exported by the library; cuda.h maps its name to version 2. */
#undef cuGetProcAddress
extern CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags);

typedef CUresult(CUDAAPI *alloc_fn)(CUdeviceptr *, size_t);
typedef CUresult(CUDAAPI *free_fn)(CUdeviceptr);
typedef CUresult(CUDAAPI *sync_fn)(CUstream);

CASE(proc_address, CF_CTX)
{
    void *p = NULL, *q = NULL;
    CUdriverProcAddressQueryResult st;
    CUdeviceptr d = 0;

    OK("alloc", cuGetProcAddress_v2("cuMemAlloc", &p, 13000, 0, &st));
    cf_u64("alloc_status", st, CU_GET_PROC_ADDRESS_SUCCESS);
    OK("free", cuGetProcAddress_v2("cuMemFree", &q, 13000, 0, NULL));
    if (p && q) {
        OK("alloc_call", ((alloc_fn)p)(&d, 64));
        OK("free_call", ((free_fn)q)(d));
    }
    p = NULL;
    OK("v1", cuGetProcAddress("cuMemAlloc", &p, 12000, 0));
    cf_true("v1_pointer", p != NULL);
    OK("self", cuGetProcAddress_v2("cuGetProcAddress", &p, 12000, 0, &st));
    cf_true("self_pointer", p == (void *)cuGetProcAddress_v2);
    OK("self_old", cuGetProcAddress_v2("cuGetProcAddress", &p, 11030, 0, &st));
    cf_true("self_old_pointer", p == (void *)cuGetProcAddress);
    p = (void *)1;
    OK("unknown", cuGetProcAddress_v2("cuNoSuchCall", &p, 13000, 0, &st));
    cf_true("unknown_null", p == NULL);
    cf_u64("unknown_status", st, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    p = (void *)1;
    OK("too_old", cuGetProcAddress_v2("cuLibraryLoadData", &p, 11000, 0, &st));
    cf_true("too_old_null", p == NULL);
    cf_u64("too_old_status", st, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    if (!cf_real()) { /* a physical GPU's driver dereferences them (driver 580) */
        RC("null_symbol", cuGetProcAddress_v2(NULL, &p, 13000, 0, &st), CUDA_ERROR_INVALID_VALUE);
        RC("null_pfn", cuGetProcAddress_v2("cuInit", NULL, 13000, 0, &st), CUDA_ERROR_INVALID_VALUE);
    }
    RC("flags", cuGetProcAddress_v2("cuInit", &p, 13000, 0x100, &st), CUDA_ERROR_INVALID_VALUE);
    OK("legacy", cuGetProcAddress_v2("cuStreamSynchronize", &p, 13000, 1, &st));
    OK("per_thread", cuGetProcAddress_v2("cuStreamSynchronize", &q, 13000, 2, &st));
    cf_true("per_thread_differs", p && q && p != q);
    if (q)
        OK("per_thread_call", ((sync_fn)q)(NULL));
    OK("per_thread_none", cuGetProcAddress_v2("cuInit", &q, 13000, 2, &st));
    cf_true("per_thread_none_pointer", q != NULL);
}

/*
 * Texts are truncated to the caller's buffer, always end in a NUL, and nothing beyond is written.
 */
static void cut(const char *what, CUresult (*get)(char *, int, CUdevice), int longest)
{
    char whole[300], part[300];

    NEED(get(whole, sizeof(whole), 0));
    for (int n = 1; n <= longest; n++) {
        char check[40];
        size_t want = strlen(whole) < (size_t)n ? strlen(whole) : (size_t)n - 1;

        memset(part, 'x', sizeof(part));
        snprintf(check, sizeof(check), "%s_%d", what, n);
        OK(check, get(part, n, 0));
        snprintf(check, sizeof(check), "%s_%d_cut", what, n);
        cf_true(check,
                memchr(part, '\0', (size_t)n) == part + want && !memcmp(part, whole, want) && part[n] == 'x');
    }
    RC(what, get(part, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RC(what, get(part, -1, 0), CUDA_ERROR_INVALID_VALUE);
    RC(what, get(NULL, 13, 0), CUDA_ERROR_INVALID_VALUE);
    RC(what, get(part, 13, 99), CUDA_ERROR_INVALID_DEVICE);
}

CASE(text_lengths, CF_CTX | CF_UB)
{
    cut("name", cuDeviceGetName, 20);
    cut("pci", cuDeviceGetPCIBusId, 20);
}
