// SPDX-License-Identifier: MIT
/* Images, modules, libraries, kernels, globals, function attributes. */
#include "conform.h"

static const char bad_ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                              ".visible .entry f()\n{\n  this is no instruction;\n}\n";

CASE(module_ptx, CF_CTX)
{
    CUmodule m = NULL;
    CUfunction f = NULL;
    unsigned count = 0;

    OK("load", cuModuleLoadData(&m, cf_ptx));
    OK("function", cuModuleGetFunction(&f, m, "k_nop"));
    OK("run", cf_launch(f, 1, 1, 0, NULL, NULL));
    OK("sync", cuCtxSynchronize());
    RC("unknown", cuModuleGetFunction(&f, m, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
    RC("name_null", cuModuleGetFunction(&f, m, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("out_null", cuModuleGetFunction(NULL, m, "k_nop"), CUDA_ERROR_INVALID_VALUE);
    OK("count", cuModuleGetFunctionCount(&count, m));
    cf_true("count_value", count > 20);
    OK("unload", cuModuleUnload(m));
    RC("image_null", cuModuleLoadData(&m, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("module_null", cuModuleLoadData(NULL, cf_ptx), CUDA_ERROR_INVALID_VALUE);
}

CASE(module_fatbin, CF_CTX)
{
    CUmodule m = NULL, n = NULL;
    CUfunction f = NULL;

    OK("load", cuModuleLoadData(&m, cf_fatbin));
    OK("load_fatbin", cuModuleLoadFatBinary(&n, cf_fatbin));
    OK("function", cuModuleGetFunction(&f, m, "k_nop"));
    OK("run", cf_launch(f, 1, 1, 0, NULL, NULL));
    OK("sync", cuCtxSynchronize());
    OK("unload", cuModuleUnload(m));
    OK("unload_2", cuModuleUnload(n));
}

CASE(module_wrong_image, CF_CTX)
{
    CUmodule m = NULL;
    size_t n = (size_t)(cf_fatbin_end - cf_fatbin);
    unsigned char *b = calloc(1, n + 65536);

    cf_need_true("memory", b != NULL);
    RC("ptx_syntax", cuModuleLoadData(&m, bad_ptx), CUDA_ERROR_INVALID_PTX);
    RC_IN("text", cuModuleLoadData(&m, "hello, this is no image"), CUDA_ERROR_INVALID_IMAGE,
          CUDA_ERROR_INVALID_PTX);
    RC_IN("empty", cuModuleLoadData(&m, ""), CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_PTX);
    memset(b, 0xa5, 4096);
    RC_IN("garbage", cuModuleLoadData(&m, b), CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_PTX);
    RC("tile_ir", cuModuleLoadData(&m, "\177TileIR\0\15\1"), CUDA_ERROR_INVALID_IMAGE);
    /*
     * The second half of the payload is lost. (A physical GPU's driver does not detect the cause,
     * and ignores an entry's size.)
     */
    memset(b, 0, n + 65536);
    memcpy(b, cf_fatbin, n / 2);
    RC_IN("fatbin_cut", cuModuleLoadData(&m, b), CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_PTX,
          CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_INVALID_SOURCE, CUDA_ERROR_UNKNOWN);
    /* An entry that claims more bytes than the container has. */
    memcpy(b, cf_fatbin, n);
    memset(b + 16 + 8, 0xff, 4);
    b[16 + 11] = 0x7f;
    if (!cf_real())
        RC_IN("fatbin_entry_size", cuModuleLoadData(&m, b), CUDA_ERROR_INVALID_IMAGE,
              CUDA_ERROR_NO_BINARY_FOR_GPU);
    memcpy(b, cf_fatbin, n);
    memset(b + 16 + 64 + 64, 0x99, 64);
    RC_IN("fatbin_flipped", cuModuleLoadData(&m, b), CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_PTX,
          CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_INVALID_SOURCE, CUDA_ERROR_UNKNOWN);
    memcpy(b, cf_cubin, 64);
    memset(b + 64, 0, n);
    RC_IN("elf_cut", cuModuleLoadData(&m, b), CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU);
    OK("good_after_all", cuModuleLoadData(&m, cf_ptx));
    OK("unload", cuModuleUnload(m));
    free(b);
}

/* Machine code for another GPU only: refused by the load, or at the latest by the launch. */
static void sass(const char *what, const void *image)
{
    CUmodule m = NULL;
    CUfunction f = NULL;
    char check[64];
    CUresult r = cuModuleLoadData(&m, image);

    if (r == CUDA_SUCCESS) {
        r = cuModuleGetFunction(&f, m, "k_nop");
        if (r == CUDA_SUCCESS)
            r = cf_launch(f, 1, 1, 0, NULL, NULL);
        if (r == CUDA_SUCCESS)
            r = cuCtxSynchronize();
        cuModuleUnload(m);
    }
    snprintf(check, sizeof(check), "%s_refused", what);
    RC(check, r, CUDA_ERROR_NO_BINARY_FOR_GPU);
}

CASE(module_sass_only, CF_CTX)
{
    int major = 0;
    NEED(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    if (major == 7)
        cf_skip("the image's machine code is for this GPU");
    sass("fatbin", cf_sass);
    sass("cubin", cf_cubin);
    OK("sync", cuCtxSynchronize());
}

/*
 * An instruction that the software GPU does not have: refused by name, at the load, the launch or
 * the next synchronisation, and never ignored silently. A physical GPU runs it.
 */
CASE(module_instruction, CF_CTX | CF_UB)
{
    static const char text[] = ".version 8.0\n.target sm_75\n.address_size 64\n"
                               ".visible .entry f(.param .u64 p)\n{\n"
                               "  .reg .u64 %d<2>; .reg .b32 %r<9>;\n"
                               "  ld.param.u64 %d0, [p];\n"
                               "  tcgen05.shift.cta_group::1.down [%r0];\n"
                               "  st.global.u32 [%d0], 7;\n  ret;\n}\n";
    CUmodule m = NULL;
    CUfunction f = NULL;
    CUdeviceptr p = 0;
    void *params[] = {&p};
    uint32_t v = 1;

    NEED(cuMemAlloc(&p, 4096));
    NEED(cuMemsetD8(p, 0, 4096));
    CUresult r = cuModuleLoadData(&m, text);
    if (!r)
        r = cuModuleGetFunction(&f, m, "f");
    if (!r)
        r = cf_launch(f, 1, 32, 0, NULL, params);
    if (!r)
        r = cuCtxSynchronize();
    RC_IN("refused", r, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_PTX);
    OK("read", cuMemcpyDtoH(&v, p, 4));
    cf_u64("did_nothing", v, 0);
    OK("sync", cuCtxSynchronize());
    OK("goes_on", cf_fill(p, 100, 3, NULL));
    cf_true("result", cf_filled(p, 100, 3));
    OK("free", cuMemFree(p));
}

/* The same refusal, first seen by a call other than a context's synchronisation. */
CASE(module_instruction_late, CF_CTX | CF_UB)
{
    static const char text[] =
        ".version 8.0\n.target sm_75\n.address_size 64\n"
        ".visible .entry f()\n{\n  .reg .b32 %r<9>; .reg .u64 %d<2>;\n  mov.u64 %d0, 0;\n"
        "  tcgen05.shift.cta_group::1.down [%r0];\n  ret;\n}\n";
    CUmodule m = NULL;
    CUfunction f = NULL;
    CUdeviceptr p = 0;
    uint32_t v = 1;
    CUresult r = cuModuleLoadData(&m, text);

    NEED(cuMemAlloc(&p, 64));
    if (!r)
        r = cuModuleGetFunction(&f, m, "f");
    if (!r)
        r = cf_launch(f, 1, 32, 0, NULL, NULL);
    if (!r)
        r = cuMemcpyDtoH(&v, p, 4);
    RC_IN("refused", r, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_PTX);
    OK("sync", cuCtxSynchronize());
    OK("free", cuMemFree(p));
}

#define LARGE (300u << 10)
#define LARGE_REAL (16u << 10) /* a physical GPU's driver compiles each kernel: minutes */

/* Returns a PTX text of LARGE bytes whose last kernel has the given body. */
static char *large_ptx(const char *body)
{
    static const char head[] =
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry good()\n{\n  ret;\n}\n";
    char *text = malloc(LARGE + 4096);
    size_t n = strlen(head);

    strcpy(text, head);
    while (n < (cf_real() ? LARGE_REAL : LARGE))
        n += (size_t)sprintf(text + n, ".visible .entry pad%zu()\n{\n  ret;\n}\n", n);
    sprintf(text + n, ".visible .entry last()\n{\n  %s\n}\n", body);
    return text;
}

/* An error in the last body of a large text is reported by the call that takes the text. */
CASE(module_large_bad, CF_CTX)
{
    static const char *const bodies[] = {"this is no instruction;", "add.u32 %r1, %r2, %r3;"};
    CUjit_option opt[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    CUmodule m = NULL;
    CUlibrary lib = NULL;
    CUlinkState link = NULL;

    for (unsigned i = 0; i < 2; i++) {
        char error[512] = "", link_error[512] = "";
        void *val[] = {error, (void *)sizeof(error)}, *link_val[] = {link_error, (void *)sizeof(link_error)};
        char *text = large_ptx(bodies[i]);

        RC("module", cuModuleLoadData(&m, text), CUDA_ERROR_INVALID_PTX);
        RC("module_ex", cuModuleLoadDataEx(&m, text, 2, opt, val), CUDA_ERROR_INVALID_PTX);
        cf_true("module_log", strstr(error, "line") != NULL);
        /* A physical GPU's driver compiles a library at its first use. */
        CUresult r = cuLibraryLoadData(&lib, text, NULL, NULL, 0, NULL, NULL, 0);
        RC_IN("library", r, CUDA_ERROR_INVALID_PTX, cf_real() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX);
        if (r == CUDA_SUCCESS)
            NEED(cuLibraryUnload(lib));
        NEED(cuLinkCreate(2, opt, link_val, &link));
        RC("link_add", cuLinkAddData(link, CU_JIT_INPUT_PTX, text, strlen(text) + 1, "large", 0, NULL, NULL),
           CUDA_ERROR_INVALID_PTX);
        cf_true("link_log", strstr(link_error, "line") != NULL);
        OK("link_destroy", cuLinkDestroy(link));
        free(text);
    }
}

/* ... and a valid one loads, links and runs. */
CASE(module_large, CF_CTX)
{
    char *text = large_ptx("ret;");
    CUlinkState link = NULL;
    CUmodule m = NULL;
    CUfunction f = NULL;
    void *image = NULL;
    size_t size = 0;

    NEED(cuLinkCreate(0, NULL, NULL, &link));
    OK("link_add", cuLinkAddData(link, CU_JIT_INPUT_PTX, text, strlen(text) + 1, "large", 0, NULL, NULL));
    OK("link_complete", cuLinkComplete(link, &image, &size));
    OK("load", cuModuleLoadData(&m, image));
    OK("function", cuModuleGetFunction(&f, m, "last"));
    OK("launch", cf_launch(f, 1, 1, 0, NULL, NULL));
    OK("sync", cuCtxSynchronize());
    OK("unload", cuModuleUnload(m));
    OK("link_destroy", cuLinkDestroy(link));
    free(text);
}

CASE(module_jit_log, CF_CTX)
{
    CUmodule m = NULL;
    char info[512] = "", error[1024] = "";
    CUjit_option opt[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
                          CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *val[] = {info, (void *)(uintptr_t)sizeof(info), error, (void *)(uintptr_t)sizeof(error)};

    memset(info, 'x', sizeof(info));
    OK("good", cuModuleLoadDataEx(&m, cf_ptx, 4, opt, val));
    cf_true("good_info", memchr(info, 0, sizeof(info)));
    cf_true("good_no_error", error[0] == 0);
    OK("unload", cuModuleUnload(m));
    val[1] = (void *)(uintptr_t)sizeof(info);
    val[3] = (void *)(uintptr_t)sizeof(error);
    RC("bad", cuModuleLoadDataEx(&m, bad_ptx, 4, opt, val), CUDA_ERROR_INVALID_PTX);
    cf_true("bad_explained", error[0] && memchr(error, 0, sizeof(error)));
    val[3] = (void *)(uintptr_t)8;
    memset(error, 'x', sizeof(error));
    RC("bad_small_buffer", cuModuleLoadDataEx(&m, bad_ptx, 4, opt, val), CUDA_ERROR_INVALID_PTX);
    cf_true("buffer_kept", error[8] == 'x');
    RC("options_null", cuModuleLoadDataEx(&m, cf_ptx, 2, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("no_options", cuModuleLoadDataEx(&m, cf_ptx, 0, NULL, NULL));
    OK("unload_2", cuModuleUnload(m));
}

CASE(module_globals, CF_CTX)
{
    CUmodule m = cf_module();
    CUdeviceptr p = 0, out = 0;
    size_t n = 0;
    uint32_t v = 0, h[16], table[4] = {5, 6, 7, 8};
    bool ok = true;
    void *params[] = {&out};

    OK("counter", cuModuleGetGlobal(&p, &n, m, "g_counter"));
    cf_u64("counter_size", n, 4);
    OK("counter_read", cuMemcpyDtoH(&v, p, 4));
    cf_u64("counter_value", v, 7);
    v = 100;
    OK("counter_write", cuMemcpyHtoD(p, &v, 4));
    OK("table", cuModuleGetGlobal(&p, &n, m, "c_table"));
    cf_u64("table_size", n, 16);
    OK("table_read", cuMemcpyDtoH(h, p, 16));
    cf_true("table_value", h[0] == 11 && h[3] == 44);
    OK("table_write", cuMemcpyHtoD(p, table, 16));
    NEED(cuMemAlloc(&out, 64));
    OK("run", cf_launch(cf_func("k_globals"), 1, 32, 0, NULL, params));
    OK("read", cuMemcpyDtoH(h, out, 20));
    cf_true("seen_by_kernel", h[0] == 5 && h[3] == 8 && h[4] == 100);
    OK("array", cuModuleGetGlobal(&p, NULL, m, "g_array"));
    OK("array_read", cuMemcpyDtoH(h, p, 64));
    for (unsigned i = 0; i < 16; i++)
        ok &= h[i] == i * 5;
    cf_true("array_value", ok);
    OK("only_size", cuModuleGetGlobal(NULL, &n, m, "g_array"));
    cf_u64("only_size_value", n, 64);
    RC("unknown", cuModuleGetGlobal(&p, &n, m, "nothing"), CUDA_ERROR_NOT_FOUND);
    RC("name_null", cuModuleGetGlobal(&p, &n, m, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("function_as_global", cuModuleGetGlobal(&p, &n, m, "k_nop"), CUDA_ERROR_INVALID_VALUE);
    NEED(cuModuleGetGlobal(&p, &n, m, "g_counter"));
    RC("free_global", cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    OK("free", cuMemFree(out));
}

/* Two loads of one image have separate variables. */
CASE(module_two, CF_CTX)
{
    CUmodule a = NULL, b = NULL;
    CUdeviceptr p = 0, q = 0;
    uint32_t v = 55, w = 0;

    NEED(cuModuleLoadData(&a, cf_ptx));
    NEED(cuModuleLoadData(&b, cf_ptx));
    NEED(cuModuleGetGlobal(&p, NULL, a, "g_counter"));
    NEED(cuModuleGetGlobal(&q, NULL, b, "g_counter"));
    cf_true("differ", p != q);
    OK("write", cuMemcpyHtoD(p, &v, 4));
    OK("read", cuMemcpyDtoH(&w, q, 4));
    cf_u64("value", w, 7);
    OK("unload", cuModuleUnload(a));
    OK("other_stays", cuMemcpyDtoH(&w, q, 4));
    RC("gone", cuMemcpyDtoH(&w, p, 4), CUDA_ERROR_INVALID_VALUE);
    OK("unload_2", cuModuleUnload(b));
}

CASE(library, CF_CTX)
{
    CUlibrary lib = NULL, of = NULL;
    CUkernel k = NULL, all[64];
    CUfunction f = NULL;
    CUmodule m = NULL;
    CUdeviceptr p = 0, out = 0;
    size_t n = 0, offset = 99, size = 99;
    unsigned count = 0;
    const char *name = NULL;
    int v = -1;
    uint32_t words = 64, from = 5;
    void *params[] = {&out, &words, &from};

    /* Answers of driver 580 on an H200: a table with neither functions nor data. */
    CUlibraryHostUniversalFunctionAndDataTable table = {0};
    CUlibraryOption option = CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE;
    void *value = &table;
    RC("table_empty", cuLibraryLoadData(&lib, cf_ptx, NULL, NULL, 0, &option, &value, 1),
       CUDA_ERROR_INVALID_IMAGE);
    OK("load", cuLibraryLoadData(&lib, cf_fatbin, NULL, NULL, 0, NULL, NULL, 0));
    OK("kernel", cuLibraryGetKernel(&k, lib, "k_fill"));
    RC("kernel_unknown", cuLibraryGetKernel(&k, lib, "nothing"), CUDA_ERROR_NOT_FOUND);
    OK("count", cuLibraryGetKernelCount(&count, lib));
    cf_true("count_value", count > 20 && count <= 64);
    OK("enumerate", cuLibraryEnumerateKernels(all, count, lib));
    OK("name", cuKernelGetName(&name, k));
    cf_str("name_value", name, "k_fill");
    OK("of", cuKernelGetLibrary(&of, k));
    cf_true("of_value", of == lib);
    OK("param", cuKernelGetParamInfo(k, 1, &offset, &size));
    cf_true("param_value", offset == 8 && size == 4);
    OK("param_size_null", cuKernelGetParamInfo(k, 2, &offset, NULL));
    cf_u64("param_2_offset", offset, 12);
    RC("param_past", cuKernelGetParamInfo(k, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemAlloc(&out, 256));
    OK("launch_kernel_handle", cf_launch((CUfunction)k, 1, 64, 0, NULL, params));
    OK("sync", cuCtxSynchronize());
    cf_true("result", cf_filled(out, 64, 5));
    from = 9;
    OK("function", cuKernelGetFunction(&f, k));
    OK("launch_function", cf_launch(f, 1, 64, 0, NULL, params));
    cf_true("result_2", cf_filled(out, 64, 9));
    OK("attribute", cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k, 0));
    cf_true("attribute_value", v > 0 && v <= 1024);
    OK("carveout", cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, k, 0));
    cf_true("carveout_default", v == -1);
    OK("module", cuLibraryGetModule(&m, lib));
    OK("global", cuLibraryGetGlobal(&p, NULL, lib, "g_array"));
    OK("global_2", cuLibraryGetGlobal(&p, &n, lib, "c_table"));
    cf_u64("global_size", n, 16);
    RC("global_unknown", cuLibraryGetGlobal(&p, &n, lib, "nothing"), CUDA_ERROR_NOT_FOUND);
    OK("unload", cuLibraryUnload(lib));
    RC("image_null", cuLibraryLoadData(&lib, NULL, NULL, NULL, 0, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    RC_IN("image_bad", cuLibraryLoadData(&lib, bad_ptx, NULL, NULL, 0, NULL, NULL, 0), CUDA_ERROR_INVALID_PTX,
          CUDA_SUCCESS);
    OK("free", cuMemFree(out));
}

/*
 * Looks a kernel up without a current context, as another thread of the runtime does. Its
 * parameters are known.
 */
static void lookup_without(const char *name, CUcontext ctx)
{
    CUlibrary lib = NULL;
    CUkernel k = NULL;
    CUdeviceptr out = 0;
    uint32_t words = 64, from = 5;
    void *params[] = {&out, &words, &from};

    OK(name, cuCtxSetCurrent(NULL));
    NEED(cuLibraryLoadData(&lib, cf_fatbin, NULL, NULL, 0, NULL, NULL, 0));
    OK("kernel", cuLibraryGetKernel(&k, lib, "k_fill"));
    if (ctx == NULL)
        NEED(cuDevicePrimaryCtxRetain(&ctx, 0));
    NEED(cuCtxSetCurrent(ctx));
    NEED(cuMemAlloc(&out, 256));
    OK("launch", cf_launch((CUfunction)k, 1, 64, 0, NULL, params));
    cf_true("result", cf_filled(out, 64, 5));
    OK("free", cuMemFree(out));
    OK("unload", cuLibraryUnload(lib));
}

/* A kernel, its function and the same function of the library's module have the same settings. */
CASE(library_settings, CF_CTX)
{
    const CUfunction_attribute dynamic = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    CUdeviceptr out = 0;
    uint32_t n = 64;
    void *params[] = {&out, &n};
    CUlibrary lib;
    CUmodule m;
    CUkernel k;
    CUfunction f, same, listed[64] = {0};
    unsigned count = 0, found = 0;
    int most = 0, v = 0;

    NEED(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
    NEED(cuMemAlloc(&out, 4 * n));
    NEED(cuLibraryLoadData(&lib, cf_fatbin, NULL, NULL, 0, NULL, NULL, 0));
    NEED(cuLibraryGetKernel(&k, lib, "k_reverse"));
    NEED(cuKernelGetFunction(&f, k));
    NEED(cuLibraryGetModule(&m, lib));
    NEED(cuModuleGetFunction(&same, m, "k_reverse"));
    NEED(cuModuleGetFunctionCount(&count, m));
    NEED(cuModuleEnumerateFunctions(listed, count, m));
    for (unsigned i = 0; i < count; i++)
        found += listed[i] == same;
    cf_true("listed", found == 1);
    OK("set_of_kernel", cuKernelSetAttribute(dynamic, most - 64, k, 0));
    OK("get_of_function", cuFuncGetAttribute(&v, dynamic, f));
    cf_true("of_function", v == most - 64);
    OK("launch_function", cf_launch(f, 1, 64, (unsigned)most - 64, NULL, params));
    OK("launch_same", cf_launch(same, 1, 64, (unsigned)most - 64, NULL, params));
    OK("set_of_same", cuFuncSetAttribute(same, dynamic, most));
    OK("launch_function_more", cf_launch(f, 1, 64, (unsigned)most, NULL, params));
    OK("launch_kernel_more", cf_launch((CUfunction)k, 1, 64, (unsigned)most, NULL, params));
    OK("get_of_kernel", cuKernelGetAttribute(&v, dynamic, k, 0));
    cf_true("of_kernel", v == most);
    NEED(cuLibraryGetKernel(&k, lib, "k_globals"));
    OK("const", cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, k, 0));
    cf_true("const_value", v >= 16); /* c_table */
    OK("sync", cuCtxSynchronize());
    OK("unload", cuLibraryUnload(lib));
    OK("free", cuMemFree(out));
}

CASE(library_without_current, CF_CTX)
{
    CUcontext ctx = NULL;

    NEED(cuCtxGetCurrent(&ctx));
    lookup_without("none_current", ctx);
}

CASE(library_before_context, CF_ALONE)
{
    unsigned flags = 9;
    int active = 9;

    NEED(cuInit(0));
    lookup_without("none_at_all", NULL);
    OK("release", cuDevicePrimaryCtxRelease(0));
    OK("state", cuDevicePrimaryCtxGetState(0, &flags, &active));
    cf_u64("active", (uint64_t)active, 0);
}

/* A module knows its context: a thread without a current context can look up its symbols. */
CASE(module_without_context, CF_CTX)
{
    CUmodule m = cf_module();
    CUfunction f = NULL, *all;
    CUcontext ctx = NULL;
    CUdeviceptr p = 0;
    unsigned count = 0;
    size_t n = 0;

    NEED(cuCtxGetCurrent(&ctx));
    NEED(cuCtxSetCurrent(NULL));
    OK("function", cuModuleGetFunction(&f, m, "k_nop"));
    RC("unknown", cuModuleGetFunction(&f, m, "nothing"), CUDA_ERROR_NOT_FOUND);
    cf_true("unknown_null", f == NULL);
    RC("empty", cuModuleGetFunction(&f, m, ""), CUDA_ERROR_INVALID_VALUE);
    RC("no_module", cuModuleGetFunction(&f, NULL, "k_nop"), CUDA_ERROR_INVALID_HANDLE);
    OK("function_again", cuModuleGetFunction(&f, m, "k_nop"));
    OK("global", cuModuleGetGlobal(&p, &n, m, "g_counter"));
    cf_u64("global_size", n, 4);
    RC("global_empty", cuModuleGetGlobal(&p, &n, m, ""), CUDA_ERROR_INVALID_VALUE);
    OK("count", cuModuleGetFunctionCount(&count, m));
    all = calloc(count, sizeof(*all));
    cf_need_true("memory", count > 0 && all != NULL);
    OK("all", cuModuleEnumerateFunctions(all, count, m));
    cf_true("all_there", all[0] && all[count - 1]);
    free(all);
    RC("load", cuModuleLoadData(&m, cf_ptx), CUDA_ERROR_INVALID_CONTEXT);
    NEED(cuCtxSetCurrent(ctx));
    OK("launch", cf_launch(f, 1, 1, 0, NULL, NULL));
    OK("sync", cuCtxSynchronize());
}

/* Newer than the toolkit's cuda.h: programs look it up by name, from CUDA 13.2 on. */
CASE(function_param_count, CF_CTX)
{
    CUresult (*count)(CUfunction, size_t *) = NULL;
    CUdriverProcAddressQueryResult found;
    CUfunction f = cf_func("k_reduce");
    CUlibrary lib = NULL;
    CUkernel k = NULL;
    int version = 0;
    void *p = &version;
    size_t n = 99;

    OK("older", cuGetProcAddress("cuFuncGetParamCount", &p, 13000, 0, &found));
    cf_true("older_none", p == NULL);
    NEED(cuDriverGetVersion(&version));
    if (version < 13020)
        return;
    cf_true("older_why", found == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    NEED(cuGetProcAddress("cuFuncGetParamCount", &p, 13020, 0, &found));
    memcpy(&count, &p, sizeof(count));
    OK("function", count(f, &n));
    cf_u64("function_value", n, 3);
    NEED(cuLibraryLoadData(&lib, cf_fatbin, NULL, NULL, 0, NULL, NULL, 0));
    NEED(cuLibraryGetKernel(&k, lib, "k_reduce"));
    n = 99;
    OK("kernel", count((CUfunction)(void *)k, &n));
    cf_u64("kernel_value", n, 3);
    RC("null", count(f, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("no_function", count(NULL, &n), CUDA_ERROR_INVALID_HANDLE);
    OK("no_context", cuCtxSetCurrent(NULL));
    OK("without_context", count(f, &n));
    NEED(cuLibraryUnload(lib));
    RC("dead_kernel", count((CUfunction)(void *)k, &n), CUDA_ERROR_INVALID_HANDLE);
}

CASE(function_attributes, CF_CTX)
{
    CUfunction f = cf_func("k_reduce");
    CUmodule m = NULL;
    const char *name = NULL;
    int v = -1, w = 0;
    size_t offset = 99, size = 99;

    for (int a = 0; a <= CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT; a++) {
        char check[32];
        snprintf(check, sizeof(check), "attribute_%d", a);
        OK(check, cuFuncGetAttribute(&v, (CUfunction_attribute)a, f));
    }
    OK("shared", cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
    cf_u64("shared_value", (uint64_t)v, 1024);
    OK("local", cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, f));
    OK("ptx", cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_PTX_VERSION, f));
    cf_u64("ptx_value", (uint64_t)v, 75);
    OK("threads", cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    cf_true("threads_value", v >= 256 && v <= 1024);
    RC("unknown", cuFuncGetAttribute(&v, (CUfunction_attribute)999, f), CUDA_ERROR_INVALID_VALUE);
    RC("null", cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, f), CUDA_ERROR_INVALID_VALUE);
    OK("module", cuFuncGetModule(&m, f));
    cf_true("module_value", m == cf_module());
    OK("name", cuFuncGetName(&name, f));
    cf_str("name_value", name, "k_reduce");
    OK("param", cuFuncGetParamInfo(f, 2, &offset, &size));
    cf_true("param_value", offset == 16 && size == 4);
    RC("param_past", cuFuncGetParamInfo(f, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);

    f = cf_func("k_reverse");
    NEED(cuDeviceGetAttribute(&w, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
    OK("blocks_before", cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 128, (size_t)w));
    cf_true("blocks_before_value", v == 0); /* more than the function allows */
    OK("set_dynamic", cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, w));
    OK("get_dynamic", cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
    cf_true("dynamic_value", v == w);
    RC("set_too_much", cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, w + 1),
       CUDA_ERROR_INVALID_VALUE);
    RC("set_read_only", cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS, 1), CUDA_ERROR_INVALID_VALUE);
    OK("blocks_after", cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 128, (size_t)w));
    cf_true("blocks_after_value", v >= 1);
    OK("blocks", cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 128, 0));
    cf_true("blocks_value", v >= 1);
    RC("blocks_size", cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 0, 0), CUDA_ERROR_INVALID_VALUE);
}
