// SPDX-License-Identifier: MIT
/* The linker, batches of stream memory operations, clusters, tensor maps, old prefetch calls. */
#include "conform.h"

#include <unistd.h>

CASE(link_ptx, CF_CTX)
{
    char info[256] = "x", error[256] = "x";
    float ms = -1;
    CUjit_option opt[] = {CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                          CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                          CU_JIT_WALL_TIME,        CU_JIT_LOG_VERBOSE};
    void *val[] = {info, (void *)sizeof(info), error, (void *)sizeof(error), NULL, (void *)1};
    CUlinkState l = NULL;
    CUmodule m = NULL;
    CUfunction f = NULL;
    CUdeviceptr p = 0;
    void *image = NULL;
    size_t size = 0;
    unsigned n = 100, v = 3;
    void *params[] = {&p, &n, &v};

    OK("create", cuLinkCreate(6, opt, val, &l));
    if (!cf_real())
        RC("nothing", cuLinkComplete(l, &image, &size), CUDA_ERROR_INVALID_VALUE);
    OK("add",
       cuLinkAddData(l, CU_JIT_INPUT_PTX, (void *)cf_ptx, strlen(cf_ptx) + 1, "kernels", 0, NULL, NULL));
    RC("complete_null", cuLinkComplete(l, NULL, &size), CUDA_ERROR_INVALID_VALUE);
    OK("complete", cuLinkComplete(l, &image, &size));
    cf_true("image", image && size > 100);
    memcpy(&ms, &val[4], sizeof(ms));
    cf_true("wall_time", ms >= 0);
    cf_true("no_error", error[0] == 0);
    OK("load", cuModuleLoadData(&m, image));
    OK("destroy", cuLinkDestroy(l));
    if (!cf_real()) { /* a GPU's own driver frees it twice */
        RC("destroy_again", cuLinkDestroy(l), CUDA_ERROR_INVALID_HANDLE);
        RC("complete_destroyed", cuLinkComplete(l, &image, &size), CUDA_ERROR_INVALID_HANDLE);
    }
    OK("function", cuModuleGetFunction(&f, m, "k_fill"));
    NEED(cuMemAlloc(&p, 400));
    OK("launch", cf_launch(f, 1, 128, 0, NULL, params));
    cf_true("result", cf_filled(p, 100, 3));
    NEED(cuMemFree(p));
    OK("unload", cuModuleUnload(m));
}

/* A kernel that needs about 50 registers if allowed. */
static void wide_kernel(char *to, size_t room)
{
    size_t n = (size_t)snprintf(to, room,
                                ".version 7.0\n.target sm_70\n.address_size 64\n"
                                ".visible .entry wide(.param .u64 p)\n{\n.reg .b64 %%a;\n"
                                ".reg .f32 %%f<48>, %%s;\nld.param.u64 %%a, [p];\n");

    for (int i = 0; i < 48; i++)
        n += (size_t)snprintf(to + n, room - n, "ld.volatile.global.f32 %%f%d, [%%a+%d];\n", i, 4 * i);
    n += (size_t)snprintf(to + n, room - n, "mov.f32 %%s, 0f00000000;\n");
    for (int i = 47; i >= 0; i--)
        n += (size_t)snprintf(to + n, room - n, "fma.rn.f32 %%s, %%s, %%s, %%f%d;\n", i);
    snprintf(to + n, room - n, "st.global.f32 [%%a], %%s;\nret;\n}\n");
}

/* Register options of the compiler show in the kernel's reported registers. */
CASE(link_registers, CF_CTX)
{
    static char text[8192];
    CUjit_option most = CU_JIT_MAX_REGISTERS;
    void *n = (void *)32;
    CUlinkState l = NULL;
    CUmodule m = NULL;
    CUfunction f = NULL;
    void *image = NULL;
    size_t size = 0;
    int free_choice = 0, linked = 0, loaded = 0;

    wide_kernel(text, sizeof(text));
    NEED(cuModuleLoadData(&m, text));
    NEED(cuModuleGetFunction(&f, m, "wide"));
    OK("attribute", cuFuncGetAttribute(&free_choice, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    cf_true("needs_more", free_choice > 32);
    OK("unload", cuModuleUnload(m));
    OK("load", cuModuleLoadDataEx(&m, text, 1, &most, &n));
    NEED(cuModuleGetFunction(&f, m, "wide"));
    OK("attribute_loaded", cuFuncGetAttribute(&loaded, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    cf_true("limited_loaded", loaded > 0 && loaded <= 32);
    OK("unload_loaded", cuModuleUnload(m));
    n = (void *)32;
    OK("create", cuLinkCreate(1, &most, &n, &l));
    OK("add", cuLinkAddData(l, CU_JIT_INPUT_PTX, text, strlen(text) + 1, "wide", 0, NULL, NULL));
    OK("complete", cuLinkComplete(l, &image, &size));
    OK("load_linked", cuModuleLoadData(&m, image));
    NEED(cuModuleGetFunction(&f, m, "wide"));
    OK("attribute_linked", cuFuncGetAttribute(&linked, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    cf_true("limited_linked", linked > 0 && linked <= 32);
    OK("destroy", cuLinkDestroy(l));
    OK("unload_linked", cuModuleUnload(m));
}

CASE(link_arguments, CF_CTX)
{
    char error[512] = "", path[] = "/tmp/conform-XXXXXX";
    CUjit_option opt[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *val[] = {error, (void *)sizeof(error)};
    CUjit_option unknown = (CUjit_option)999;
    CUlinkState l = NULL;
    void *image = NULL;
    size_t size = 0, n = strlen(cf_ptx);
    char wrong[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                   ".visible .entry k() { this is no instruction; }\n";

    RC("create_null", cuLinkCreate(0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("create_options", cuLinkCreate(1, NULL, NULL, &l), CUDA_ERROR_INVALID_VALUE);
    RC("create_unknown", cuLinkCreate(1, &unknown, val, &l), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) /* a physical GPU's driver follows it */
        RC("add_handle", cuLinkAddData((CUlinkState)0x1234, CU_JIT_INPUT_PTX, wrong, 4, "x", 0, NULL, NULL),
           CUDA_ERROR_INVALID_HANDLE);
    NEED(cuLinkCreate(2, opt, val, &l));
    RC("add_null", cuLinkAddData(l, CU_JIT_INPUT_PTX, NULL, 4, "x", 0, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("add_type", cuLinkAddData(l, (CUjitInputType)99, wrong, sizeof(wrong), "x", 0, NULL, NULL),
       CUDA_ERROR_INVALID_VALUE);
    RC("file_null", cuLinkAddFile(l, CU_JIT_INPUT_PTX, NULL, 0, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("file_none", cuLinkAddFile(l, CU_JIT_INPUT_PTX, "/nowhere/at/all", 0, NULL, NULL),
       CUDA_ERROR_FILE_NOT_FOUND);
    /* Answers of driver 580 on an H200: not a cubin. */
    RC("file_cubin_none", cuLinkAddFile(l, CU_JIT_INPUT_CUBIN, "/nowhere/at/all", 0, NULL, NULL),
       CUDA_ERROR_INVALID_VALUE);
    RC("add_no_cubin", cuLinkAddData(l, CU_JIT_INPUT_CUBIN, wrong, sizeof(wrong), "x", 0, NULL, NULL),
       CUDA_ERROR_INVALID_VALUE);
    int fd = mkstemp(path);
    cf_need_true("file", fd >= 0 && write(fd, cf_ptx, n) == (ssize_t)n);
    close(fd);
    OK("file_add", cuLinkAddFile(l, CU_JIT_INPUT_PTX, path, 0, NULL, NULL));
    unlink(path);
    OK("file_complete", cuLinkComplete(l, &image, &size));
    OK("destroy", cuLinkDestroy(l));
    /* An input that does not compile: the log gives the reason, at the add or at the end. */
    val[1] = (void *)sizeof(error); /* overwritten by the first link with the length of its log */
    NEED(cuLinkCreate(2, opt, val, &l));
    CUresult a = cuLinkAddData(l, CU_JIT_INPUT_PTX, wrong, sizeof(wrong), NULL, 0, NULL, NULL);
    if (a == CUDA_SUCCESS)
        a = cuLinkComplete(l, &image, &size);
    RC("wrong", a, CUDA_ERROR_INVALID_PTX);
    cf_true("wrong_log", error[0] != 0);
    OK("wrong_destroy", cuLinkDestroy(l));
}

/* Two PTX texts: each has a helper of the same name, one calls the other and reads its variable. */
CASE(link_several, CF_CTX)
{
    static const char head[] = ".version 7.0\n.target sm_70\n.address_size 64\n";
    static const char helper[] = ".func (.param .b32 r) helper()\n{\n.reg .b32 %r1;\n"
                                 "mov.u32 %r1, VALUE;\nst.param.b32 [r], %r1;\nret;\n}\n";
    static const char kernel[] =
        ".extern .func (.param .b32 r) other();\n.extern .global .align 4 .u32 number;\n"
        ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %rd1;\n.reg .b32 %r<4>;\n"
        "ld.param.u64 %rd1, [p];\n{ .param .b32 q; call.uni (q), helper, ();"
        " ld.param.b32 %r1, [q]; }\n{ .param .b32 q; call.uni (q), other, ();"
        " ld.param.b32 %r2, [q]; }\nld.global.u32 %r3, [number];\nadd.u32 %r1, %r1, %r2;\n"
        "add.u32 %r1, %r1, %r3;\nst.u32 [%rd1], %r1;\nret;\n}\n";
    static const char function[] = ".visible .global .align 4 .u32 number = 4000;\n"
                                   ".visible .func (.param .b32 r) other()\n{\n.reg .b32 %r1;\n"
                                   "{ .param .b32 q; call.uni (q), helper, (); ld.param.b32 %r1, [q]; }\n"
                                   "st.param.b32 [r], %r1;\nret;\n}\n";
    char text[2][2048], error[512] = "";
    CUjit_option opt[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *val[] = {error, (void *)sizeof(error)}, *image = NULL;
    CUlinkState l = NULL;
    CUmodule m = NULL;
    CUfunction f = NULL;
    CUdeviceptr p = 0, v = 0;
    void *params[] = {&p};
    size_t size = 0;
    unsigned got = 0;

    for (int i = 0; i < 2; i++) {
        const char *value = strstr(helper, "VALUE");

        snprintf(text[i], sizeof(text[i]), "%s%.*s%s%s%s", head, (int)(value - helper), helper,
                 i ? "200" : "10", value + 5, i ? function : kernel);
    }
    NEED(cuLinkCreate(2, opt, val, &l));
    for (int i = 0; i < 2; i++)
        OK(i ? "add_second" : "add_first",
           cuLinkAddData(l, CU_JIT_INPUT_PTX, text[i], strlen(text[i]) + 1, NULL, 0, NULL, NULL));
    OK("complete", cuLinkComplete(l, &image, &size));
    OK("load", cuModuleLoadData(&m, image));
    OK("destroy", cuLinkDestroy(l));
    OK("function", cuModuleGetFunction(&f, m, "k"));
    OK("variable", cuModuleGetGlobal(&v, &size, m, "number"));
    cf_u64("variable_size", size, 4);
    NEED(cuMemAlloc(&p, 4));
    OK("launch", cf_launch(f, 1, 1, 0, NULL, params));
    OK("read", cuMemcpyDtoH(&got, p, 4));
    cf_u64("value", got, 4210);
    NEED(cuMemFree(p));
    OK("unload", cuModuleUnload(m));
    /* A duplicate function, and an undefined function. */
    for (int i = 0; i < 2; i++) {
        CUresult r;

        val[1] = (void *)sizeof(error);
        error[0] = 0;
        NEED(cuLinkCreate(2, opt, val, &l));
        r = cuLinkAddData(l, CU_JIT_INPUT_PTX, text[0], strlen(text[0]) + 1, NULL, 0, NULL, NULL);
        if (r == CUDA_SUCCESS && i == 0)
            r = cuLinkAddData(l, CU_JIT_INPUT_PTX, text[0], strlen(text[0]) + 1, NULL, 0, NULL, NULL);
        if (r == CUDA_SUCCESS)
            r = cuLinkComplete(l, &image, &size);
        cf_true(i ? "undefined_fails" : "twice_fails", r != CUDA_SUCCESS);
        cf_true(i ? "undefined_log" : "twice_log", error[0] != 0);
        OK(i ? "undefined_destroy" : "twice_destroy", cuLinkDestroy(l));
    }
}

/* Host objects and archives of them, as created by nvcc -dc. */
CASE(link_objects, CF_CTX)
{
    static const char kernel[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".extern .func (.param .b32 r) other(.param .b32 x);\n"
        ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %rd1;\n.reg .b32 %r<4>;\n"
        "ld.param.u64 %rd1, [p];\nmov.u32 %r1, 13;\n{ .param .b32 a; .param .b32 q;"
        " st.param.b32 [a], %r1; call.uni (q), other, (a); ld.param.b32 %r2, [q]; }\n"
        "st.u32 [%rd1], %r2;\nret;\n}\n";
    const unsigned char *input[] = {cf_object, cf_archive};
    const size_t length[] = {(size_t)(cf_object_end - cf_object), (size_t)(cf_archive_end - cf_archive)};
    const CUjitInputType type[] = {CU_JIT_INPUT_OBJECT, CU_JIT_INPUT_LIBRARY};
    CUlinkState l = NULL;
    CUdeviceptr p = 0;
    void *params[] = {&p}, *image = NULL;
    size_t size = 0;

    NEED(cuMemAlloc(&p, 4));
    for (int i = 0; i < 2; i++) {
        CUmodule m = NULL;
        CUfunction f = NULL;
        unsigned got = 0;

        NEED(cuLinkCreate(0, NULL, NULL, &l));
        NEED(cuLinkAddData(l, CU_JIT_INPUT_PTX, (void *)(uintptr_t)kernel, sizeof(kernel), "k", 0, NULL,
                           NULL));
        OK(i ? "archive" : "object",
           cuLinkAddData(l, type[i], (void *)(uintptr_t)input[i], length[i], "device", 0, NULL, NULL));
        OK(i ? "archive_complete" : "object_complete", cuLinkComplete(l, &image, &size));
        NEED(cuModuleLoadData(&m, image));
        NEED(cuLinkDestroy(l));
        NEED(cuModuleGetFunction(&f, m, "k"));
        NEED(cf_launch(f, 1, 1, 0, NULL, params));
        NEED(cuMemcpyDtoH(&got, p, 4));
        cf_u64(i ? "archive_value" : "object_value", got, 40);
        NEED(cuModuleUnload(m));
    }
    NEED(cuMemFree(p));
    NEED(cuLinkCreate(0, NULL, NULL, &l));
    cf_true("not_an_object", cuLinkAddData(l, CU_JIT_INPUT_OBJECT, (void *)(uintptr_t)kernel, sizeof(kernel),
                                           "k", 0, NULL, NULL) != CUDA_SUCCESS);
    cf_true("not_an_archive", cuLinkAddData(l, CU_JIT_INPUT_LIBRARY, (void *)(uintptr_t)kernel,
                                            sizeof(kernel), "k", 0, NULL, NULL) != CUDA_SUCCESS);
    OK("destroy", cuLinkDestroy(l));
}

/* A link state ends with its context. */
CASE(link_context, CF_CTX)
{
    CUcontext c = NULL, old = NULL;
    CUlinkState l = NULL;

    NEED(cuCtxGetCurrent(&old));
    NEED(cuCtxCreate(&c, NULL, 0, 0));
    NEED(cuLinkCreate(0, NULL, NULL, &l));
    OK("destroy_context", cuCtxDestroy(c));
    NEED(cuCtxSetCurrent(old));
    /* A physical GPU's driver keeps the link state. */
    RC_IN("destroy", cuLinkDestroy(l), CUDA_ERROR_INVALID_HANDLE, CUDA_SUCCESS);
}

CASE(memop_batch, CF_CTX)
{
    CUdeviceptr p = 0, d = 0;
    uint32_t *h = NULL, got[4] = {0};
    CUstreamBatchMemOpParams ops[3];
    CUstream s = NULL;

    NEED(cuMemAlloc(&p, 64));
    NEED(cuMemsetD8(p, 0, 64));
    NEED(cuMemHostAlloc((void **)&h, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemHostGetDevicePointer(&d, h, 0));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    h[0] = 0;
    memset(ops, 0, sizeof(ops));
    ops[0].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    ops[0].waitValue.address = d;
    ops[0].waitValue.value = 9;
    ops[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    ops[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[1].writeValue.address = p;
    ops[1].writeValue.value = 41;
    ops[2].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    ops[2].writeValue.address = p + 8;
    ops[2].writeValue.value64 = 0x1122334455667788;
    OK("batch", cuStreamBatchMemOp(s, 3, ops, 0));
    RC("waits", cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    *(volatile uint32_t *)h = 9; /* the processor releases the stream */
    OK("sync", cuStreamSynchronize(s));
    OK("read", cuMemcpyDtoH(got, p, 16));
    cf_u64("value", got[0], 41);
    cf_u64("value_64", got[2], 0x55667788);
    OK("write_pinned", cuStreamWriteValue32(s, d + 4, 5, 0));
    OK("sync_2", cuStreamSynchronize(s));
    cf_u64("pinned", h[1], 5);
    OK("none", cuStreamBatchMemOp(s, 0, ops, 0));
    RC("too_many", cuStreamBatchMemOp(s, 257, ops, 0), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) /* a GPU's driver crashes */
        RC("null", cuStreamBatchMemOp(s, 1, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    RC("flags", cuStreamBatchMemOp(s, 1, ops + 1, 7), CUDA_ERROR_INVALID_VALUE);
    ops[1].operation = (CUstreamBatchMemOpType)77;
    RC("operation", cuStreamBatchMemOp(s, 1, ops + 1, 0), CUDA_ERROR_INVALID_VALUE);
    RC("unaligned", cuStreamWriteValue32(s, p + 2, 5, 0), CUDA_ERROR_INVALID_VALUE);
    RC("unaligned_64", cuStreamWriteValue64(s, p + 4, 5, 0), CUDA_ERROR_INVALID_VALUE);
    RC("not_ours", cuStreamWriteValue32(s, 0x1000, 5, 0), CUDA_ERROR_INVALID_VALUE);
    RC("wait_not_ours", cuStreamWaitValue32(s, 0x1000, 5, 0), CUDA_ERROR_INVALID_VALUE);
    RC("past", cuStreamWriteValue64(s, p + 64, 5, 0), CUDA_ERROR_INVALID_VALUE);
    RC("write_flags", cuStreamWriteValue32(s, p, 5, 0x70), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) /* a GPU's driver crashes */
        RC("stream", cuStreamWriteValue32((CUstream)0x1234567, p, 5, 0), CUDA_ERROR_INVALID_HANDLE);
    NEED(cuStreamDestroy(s));
    NEED(cuMemFree(p));
    NEED(cuMemFreeHost(h));
}

/*
 * Memory that is read-only for the device is refused at the call, and the stream continues; over
 * the socket it has no address.
 */
CASE(memop_read_only, CF_CTX)
{
    const unsigned flags = CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
    CUresult write = CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr d = 0;
    uint32_t *h = aligned_alloc(4096, 4096);
    CUstream s = NULL;

    if (cf_real()) /* not known */
        return;
    h[0] = 3;
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemHostRegister(h, 4096, flags));
    if (cuMemHostGetDevicePointer(&d, h, 0) == CUDA_SUCCESS)
        write = cuStreamWriteValue32(s, d, 5, 0);
    RC("write", write, CUDA_ERROR_INVALID_VALUE);
    OK("sync", cuStreamSynchronize(s));
    cf_u64("kept", h[0], 3);
    if (d != 0)
        NEED(cuStreamWaitValue32(s, d, 3, CU_STREAM_WAIT_VALUE_EQ));
    OK("wait", cuStreamSynchronize(s));
    NEED(cuMemHostUnregister(h));
    NEED(cuStreamDestroy(s));
    free(h);
}

/*
 * The same batch on a stream and as a node: barriers, unsupported operations, and parameters read
 * back.
 */
CASE(memop_params, CF_CTX)
{
    CUDA_BATCH_MEM_OP_NODE_PARAMS node = {.count = 3}, got;
    CUstreamBatchMemOpParams ops[3];
    CUgraphNode n = NULL;
    CUdeviceptr p = 0;
    CUgraph g = NULL;
    CUstream s = NULL;
    uint32_t value[2];

    NEED(cuMemAlloc(&p, 64));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuGraphCreate(&g, 0));
    NEED(cuCtxGetCurrent(&node.ctx));
    node.paramArray = ops;
    memset(ops, 0xee, sizeof(ops));
    ops[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[0].writeValue.address = p;
    ops[0].writeValue.value = 5; /* the upper half of value64 is unchanged */
    ops[0].writeValue.flags = 0;
    ops[1].operation = CU_STREAM_MEM_OP_BARRIER;
    ops[1].memoryBarrier.flags = CU_STREAM_MEMORY_BARRIER_TYPE_SYS;
    ops[2] = ops[0];
    ops[2].writeValue.address = p + 4;
    OK("barrier", cuStreamBatchMemOp(s, 3, ops, 0));
    OK("sync", cuStreamSynchronize(s));
    OK("read", cuMemcpyDtoH(value, p, 8));
    cf_true("values", value[0] == 5 && value[1] == 5);
    OK("node", cuGraphAddBatchMemOpNode(&n, g, NULL, 0, &node));
    memset(&got, 0xee, sizeof(got));
    OK("get", cuGraphBatchMemOpNodeGetParams(n, &got));
    cf_true("flags", got.flags == 0 && got.count >= 2);
    cf_u64("first", got.paramArray[0].operation, CU_STREAM_MEM_OP_WRITE_VALUE_32);
    cf_u64("first_value", got.paramArray[0].writeValue.value, 5);
    cf_true("first_address", got.paramArray[0].writeValue.address == p);
    ops[1].operation = (CUstreamBatchMemOpType)77;
    RC("unknown", cuStreamBatchMemOp(s, 3, ops, 0), CUDA_ERROR_INVALID_VALUE);
    RC("unknown_node", cuGraphBatchMemOpNodeSetParams(n, &node), CUDA_ERROR_INVALID_VALUE);
    ops[0].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
    ops[0].flushRemoteWrites.flags = 0;
    /* Operations are read in order; no GPU has the flush. */
    RC("unknown_behind_flush", cuStreamBatchMemOp(s, 3, ops, 0), CUDA_ERROR_NOT_SUPPORTED);
    RC("unknown_behind_flush_node", cuGraphBatchMemOpNodeSetParams(n, &node), CUDA_ERROR_NOT_SUPPORTED);
    node.count = 257;
    RC("too_many_node", cuGraphBatchMemOpNodeSetParams(n, &node), CUDA_ERROR_INVALID_VALUE);
    memset(&got, 0xee, sizeof(got));
    OK("get_after", cuGraphBatchMemOpNodeGetParams(n, &got));
    cf_true("as_before", got.count >= 2 && got.paramArray[0].writeValue.address == p);
    node.count = 0;
    OK("none_node", cuGraphBatchMemOpNodeSetParams(n, &node));
    memset(&got, 0xee, sizeof(got));
    OK("get_none", cuGraphBatchMemOpNodeGetParams(n, &got));
    cf_u64("none_count", got.count, 0);
    NEED(cuGraphDestroy(g));
    NEED(cuStreamDestroy(s));
    NEED(cuMemFree(p));
}

CASE(cluster_occupancy, CF_CTX)
{
    CUlaunchConfig cfg = {
        .gridDimX = 4, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128, .blockDimY = 1, .blockDimZ = 1};
    CUfunction f = cf_func("k_nop");
    int n = -1;

    OK("active", cuOccupancyMaxActiveClusters(&n, f, &cfg));
    cf_true("active_value",
            n >= (cf_real() ? 0 : 1)); /* without clusters a physical GPU's driver reports 0 */
    OK("size", cuOccupancyMaxPotentialClusterSize(&n, f, &cfg));
    cf_true("size_value", n >= 1);
    RC("active_null", cuOccupancyMaxActiveClusters(NULL, f, &cfg), CUDA_ERROR_INVALID_VALUE);
    RC("active_config", cuOccupancyMaxActiveClusters(&n, f, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("active_function", cuOccupancyMaxActiveClusters(&n, NULL, &cfg), CUDA_ERROR_INVALID_VALUE);
    RC("size_null", cuOccupancyMaxPotentialClusterSize(NULL, f, &cfg), CUDA_ERROR_INVALID_VALUE);
    cfg.blockDimX = 0;
    RC("active_block", cuOccupancyMaxActiveClusters(&n, f, &cfg), CUDA_ERROR_INVALID_VALUE);
}

/* A word per block: 100 times the number of blocks of its cluster, plus its rank. */
static const char cluster_text[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry any(.param .u64 p)\n{\n.reg .b64 %rd<4>;\n.reg .b32 %r<4>;\nld.param.u64 %rd1, [p];\n"
    "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %cluster_ctarank;\nmov.u32 %r3, %cluster_nctarank;\n"
    "mad.lo.u32 %r2, %r3, 100, %r2;\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd1, %rd1, %rd2;\n"
    "st.global.u32 [%rd1], %r2;\nret;\n}\n"
    ".visible .entry two()\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n{\nret;\n}\n";

static bool in_clusters_of(CUdeviceptr p, unsigned size)
{
    unsigned v[8];

    if (cuMemcpyDtoH(v, p, sizeof(v)))
        return false;
    for (unsigned i = 0; i < 8; i++)
        if (v[i] != 100 * size + i % size)
            return false;
    return true;
}

/*
 * Clusters exist from compute capability 9.0 on; an impossible launch is refused at once, and runs
 * nothing.
 */
CASE(cluster_launch, CF_CTX)
{
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {2, 1, 1}};
    CUlaunchConfig cfg = {.gridDimX = 8,
                          .gridDimY = 1,
                          .gridDimZ = 1,
                          .blockDimX = 32,
                          .blockDimY = 1,
                          .blockDimZ = 1,
                          .attrs = &attr,
                          .numAttrs = 1};
    CUfunction any, two;
    CUdeviceptr p = 0;
    void *args[] = {&p};
    CUmodule m;
    int has = 0;

    NEED(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0));
    if (!has) {
        RC("none", cuLaunchKernelEx(&cfg, cf_func("k_nop"), NULL, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
        OK("none_after", cuCtxSynchronize());
        return;
    }
    NEED(cuMemAlloc(&p, 64));
    OK("load", cuModuleLoadData(&m, cluster_text));
    NEED(cuModuleGetFunction(&any, m, "any"));
    NEED(cuModuleGetFunction(&two, m, "two"));
    OK("two", cuLaunchKernelEx(&cfg, any, args, NULL));
    OK("two_done", cuCtxSynchronize());
    cf_true("two_ranks", in_clusters_of(p, 2));
    attr.value.clusterDim.x = 8;
    OK("eight", cuLaunchKernelEx(&cfg, any, args, NULL));
    cf_true("eight_ranks", in_clusters_of(p, 8));
    attr.value.clusterDim.x = 3;
    RC("three", cuLaunchKernelEx(&cfg, any, args, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    OK("own", cuLaunchKernel(two, 4, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    RC("own_grid", cuLaunchKernel(two, 5, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL),
       CUDA_ERROR_INVALID_CLUSTER_SIZE);
    OK("plain", cuLaunchKernel(any, 8, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
    OK("after", cuCtxSynchronize());
    cf_true("plain_ranks", in_clusters_of(p, 1));
    NEED(cuModuleUnload(m));
    NEED(cuMemFree(p));
}

/*
 * A larger cluster that the device may use instead: a multiple of the regular one that divides the
 * grid.
 */
CASE(cluster_preferred, CF_CTX)
{
    CUlaunchAttribute attr[] = {
        {.id = CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, .value.preferredClusterDim = {4, 1, 1}},
        {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {2, 1, 1}}};
    CUlaunchConfig cfg = {.gridDimX = 8,
                          .gridDimY = 1,
                          .gridDimZ = 1,
                          .blockDimX = 32,
                          .blockDimY = 1,
                          .blockDimZ = 1,
                          .attrs = attr,
                          .numAttrs = 2};
    CUfunction any;
    CUdeviceptr p = 0;
    void *args[] = {&p};
    CUmodule m;
    int has = 0;

    NEED(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0));
    if (!has) {
        RC("none", cuLaunchKernelEx(&cfg, cf_func("k_nop"), NULL, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
        return;
    }
    NEED(cuMemAlloc(&p, 64));
    NEED(cuModuleLoadData(&m, cluster_text));
    NEED(cuModuleGetFunction(&any, m, "any"));
    OK("four", cuLaunchKernelEx(&cfg, any, args, NULL));
    OK("four_done", cuCtxSynchronize());
    cf_true("four_ranks", in_clusters_of(p, 2) || in_clusters_of(p, 4));
    attr[0].value.preferredClusterDim.x = 2;
    OK("same", cuLaunchKernelEx(&cfg, any, args, NULL));
    attr[0].value.preferredClusterDim.x = 3;
    RC("no_multiple", cuLaunchKernelEx(&cfg, any, args, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    attr[0].value.preferredClusterDim.x = 6;
    RC("grid", cuLaunchKernelEx(&cfg, any, args, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    attr[0].value.preferredClusterDim.x = 0;
    RC("zero", cuLaunchKernelEx(&cfg, any, args, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    attr[0].value.preferredClusterDim.x = 4;
    attr[0].value.preferredClusterDim.y = 2;
    RC("grid_y", cuLaunchKernelEx(&cfg, any, args, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    /* It is invalid without the regular one. */
    cfg.numAttrs = 1;
    attr[0].value.preferredClusterDim.y = 1;
    RC("alone", cuLaunchKernelEx(&cfg, any, args, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    OK("after", cuCtxSynchronize());
    NEED(cuModuleUnload(m));
    NEED(cuMemFree(p));
}

/* Each requirement of the manual, broken alone; a refusal leaves the map as it was. */
static void tensor_map_refusals(CUdeviceptr p)
{
    static const struct {
        const char *name;
        unsigned rank, address, type, interleave, swizzle, promotion, fill;
        cuuint64_t dim, stride;
        cuuint32_t box[2], step;
    } bad[] = {{"rank_0", 0, 0, 7, 0, 0, 0, 0, 64, 256, {16, 16}, 1},
               {"rank_6", 6, 0, 7, 0, 0, 0, 0, 64, 256, {16, 16}, 1},
               {"address", 2, 8, 7, 0, 0, 0, 0, 64, 256, {16, 16}, 1},
               {"dim_0", 2, 0, 7, 0, 0, 0, 0, 0, 256, {16, 16}, 1},
               {"dim_large", 2, 0, 7, 0, 0, 0, 0, (1ull << 32) + 1, 256, {16, 16}, 1},
               {"stride_8", 2, 0, 7, 0, 0, 0, 0, 64, 264, {16, 16}, 1},
               {"stride_large", 2, 0, 7, 0, 0, 0, 0, 64, 1ull << 40, {16, 16}, 1},
               {"box_0", 2, 0, 7, 0, 0, 0, 0, 64, 256, {16, 0}, 1},
               {"box_large", 2, 0, 7, 0, 0, 0, 0, 64, 256, {16, 257}, 1},
               {"box_bytes", 2, 0, 7, 0, 0, 0, 0, 64, 256, {15, 16}, 1},
               {"step_0", 2, 0, 7, 0, 0, 0, 0, 64, 256, {16, 16}, 0},
               {"step_9", 2, 0, 7, 0, 0, 0, 0, 64, 256, {16, 16}, 9},
               {"swizzle_span", 2, 0, 7, 0, CU_TENSOR_MAP_SWIZZLE_32B, 0, 0, 64, 256, {16, 16}, 1},
               {"interleave_rank", 2, 0, 7, CU_TENSOR_MAP_INTERLEAVE_16B, 0, 0, 0, 64, 256, {16, 16}, 1},
               {"fill_integer", 2, 0, CU_TENSOR_MAP_DATA_TYPE_UINT32, 0, 0, 0, 1, 64, 256, {16, 16}, 1}};
    CUtensorMap map, untouched;

    for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
        const cuuint64_t dims[6] = {64, bad[k].dim, 1, 1, 1, 1},
                         strides[5] = {bad[k].stride, 16384, 16384, 16384, 16384};
        const cuuint32_t box[6] = {bad[k].box[0], bad[k].box[1], 1, 1, 1, 1},
                         steps[6] = {1, bad[k].step, 1, 1, 1, 1};

        memset(&map, 0x5a, sizeof(map));
        untouched = map;
        RC(bad[k].name,
           cuTensorMapEncodeTiled(
               &map, (CUtensorMapDataType)bad[k].type, bad[k].rank, (void *)(p + bad[k].address), dims,
               strides, box, steps, (CUtensorMapInterleave)bad[k].interleave,
               (CUtensorMapSwizzle)bad[k].swizzle, (CUtensorMapL2promotion)bad[k].promotion,
               (CUtensorMapFloatOOBfill)bad[k].fill),
           CUDA_ERROR_INVALID_VALUE);
        cf_true("untouched", !memcmp(&map, &untouched, sizeof(map)));
    }
}

/* Only GPUs of compute capability 9.0 and later have tensor maps. */
CASE(tensor_map, CF_CTX)
{
    CUtensorMap map;
    CUdeviceptr p = 0;
    cuuint64_t dims[2] = {64, 64}, strides[1] = {256};
    cuuint32_t box[2] = {16, 16}, step[2] = {1, 1};
    CUresult r;

    NEED(cuMemAlloc(&p, 64 * 256));
    r = cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)p, dims, strides, box, step,
                               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                               CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    RC_IN("tiled", r, CUDA_SUCCESS, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_VALUE);
    if (r == CUDA_SUCCESS) {
        OK("replace", cuTensorMapReplaceAddress(&map, (void *)p));
        tensor_map_refusals(p);
    }
    NEED(cuMemFree(p));
}
