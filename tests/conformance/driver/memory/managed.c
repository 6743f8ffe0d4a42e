// SPDX-License-Identifier: MIT
/* __managed__ variables: the same address for program and kernels. */
#include "conform.h"

#include <unistd.h>

static const char ptx[] = ".version 6.4\n.target sm_70\n.address_size 64\n"
                          ".visible .global .attribute(.managed) .align 4 .u32 g = 5;\n"
                          ".visible .global .attribute(.managed) .align 4 .b8 big[40000];\n"
                          ".visible .global .align 4 .u32 plain = 6;\n"
                          ".visible .entry k(.param .u32 v)\n{\n"
                          "    .reg .u32 %a, %b;\n"
                          "    ld.param.u32 %a, [v];\n"
                          "    ld.global.u32 %b, [g];\n"
                          "    add.u32 %b, %b, %a;\n"
                          "    st.global.u32 [g], %b;\n"
                          "    st.global.u32 [big+39996], %b;\n"
                          "    ret;\n}\n";

CASE(managed_variable, CF_CTX)
{
    CUlibrary lib = NULL;
    CUkernel k = NULL;
    CUdeviceptr at = 0, big_at = 0, d = 0, scratch = 0;
    size_t size = 0;
    unsigned v = 3, managed = 9;
    void *params[] = {&v};
    void *host = NULL;
    CUstream s = NULL, t = NULL;
    CUevent e = NULL;

    NEED(cuLibraryLoadData(&lib, ptx, NULL, NULL, 0, NULL, NULL, 0));
    NEED(cuLibraryGetKernel(&k, lib, "k"));
    OK("get", cuLibraryGetManaged(&at, &size, lib, "g"));
    cf_u64("size", size, 4);
    OK("get_big", cuLibraryGetManaged(&big_at, &size, lib, "big"));
    cf_u64("size_big", size, 40000);
    RC("none", cuLibraryGetManaged(&d, NULL, lib, "nothing"), CUDA_ERROR_NOT_FOUND);
    RC("not_managed", cuLibraryGetManaged(&d, NULL, lib, "plain"), CUDA_ERROR_NOT_FOUND);
    volatile uint32_t *g = (uint32_t *)at;
    volatile unsigned char *big = (unsigned char *)big_at;

    cf_u64("initial", *g, 5);
    *g = 10;
    OK("launch", cf_launch((CUfunction)k, 1, 1, 0, NULL, params));
    OK("sync", cuCtxSynchronize());
    cf_u64("written", *g, 13);
    cf_u64("written_big", big[39996], 13);
    /* Bytes written by the program next to bytes written by the device are kept, and vice versa. */
    big[0] = 77;
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, 0));
    OK("launch_stream", cf_launch((CUfunction)k, 1, 1, 0, s, params));
    OK("record", cuEventRecord(e, s));
    OK("sync_event", cuEventSynchronize(e));
    cf_u64("written_stream", *g, 16);
    cf_u64("kept", big[0], 77);
    OK("launch_other", cf_launch((CUfunction)k, 1, 1, 0, t, params));
    OK("sync_stream", cuStreamSynchronize(t));
    cf_u64("written_other", *g, 19);
    *g = 100;
    OK("sync_nothing", cuStreamSynchronize(s));
    cf_u64("not_overwritten", *g, 100);
    /* Copies and memsets accept it as memory. */
    NEED(cuMemAlloc(&scratch, 64));
    OK("copy_from", cuMemcpyDtoD(scratch, at, 4));
    uint32_t got = 0;
    OK("read", cuMemcpyDtoH(&got, scratch, 4));
    cf_u64("copied", got, 100);
    OK("memset", cuMemsetD32(at, 55, 1));
    OK("sync_memset", cuCtxSynchronize());
    cf_u64("set", *g, 55);
    got = 66;
    OK("copy_to", cuMemcpyHtoD(at, &got, 4));
    cf_u64("copied_to", *g, 66);
    /* Other ways to look it up, and its pointer attributes. */
    CUmodule m = NULL;
    NEED(cuLibraryGetModule(&m, lib));
    OK("global", cuModuleGetGlobal(&d, &size, m, "g"));
    cf_true("global_same", d == at && size == 4);
    OK("is_managed", cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
    cf_u64("is_managed_value", managed & 1, 1);
    OK("host_pointer", cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at));
    cf_true("host_pointer_value", host == (void *)at);
    NEED(cuMemFree(scratch));
    NEED(cuStreamDestroy(s));
    NEED(cuStreamDestroy(t));
    NEED(cuEventDestroy(e));
    OK("unload", cuLibraryUnload(lib));
}

/* Looked up as an ordinary variable of a module, it is still managed. */
CASE(managed_module, CF_CTX)
{
    CUmodule m = NULL;
    CUfunction f = NULL;
    CUdeviceptr at = 0;
    unsigned v = 1;
    void *params[] = {&v};

    NEED(cuModuleLoadData(&m, ptx));
    NEED(cuModuleGetFunction(&f, m, "k"));
    OK("global", cuModuleGetGlobal(&at, NULL, m, "g"));
    volatile uint32_t *g = (uint32_t *)at;

    cf_u64("initial", *g, 5);
    for (int i = 0; i < 20; i++) {
        *g = *g + 1;
        NEED(cf_launch(f, 1, 1, 0, NULL, params));
        NEED(cuCtxSynchronize());
    }
    cf_u64("after", *g, 45);
    OK("unload", cuModuleUnload(m));
}

/* Program and device write adjacent bytes concurrently: neither overwrites the other's. */
CASE(managed_beside, CF_CTX)
{
    CUmodule m = NULL;
    CUfunction f = NULL;
    CUdeviceptr at = 0, big_at = 0, scratch = 0;
    unsigned v = 1, theirs = 0, ours = 0, seen = 0;
    void *params[] = {&v};

    NEED(cuModuleLoadData(&m, ptx));
    NEED(cuModuleGetFunction(&f, m, "k"));
    NEED(cuModuleGetGlobal(&at, NULL, m, "g"));
    NEED(cuModuleGetGlobal(&big_at, NULL, m, "big"));
    NEED(cuMemAlloc(&scratch, 16));
    volatile uint32_t *g = (uint32_t *)at;
    volatile unsigned char *big = (unsigned char *)big_at;

    NEED(cuMemsetD8(scratch, 0, 16));
    for (unsigned i = 1; i <= 4; i++) {
        const unsigned char want = (unsigned char)(*g + v);
        uint8_t got[9] = {0};

        NEED(cf_launch(f, 1, 1, 0, NULL, params));
        usleep(50000); /* completed, without any wait */
        big[39991] = big[39999] = (unsigned char)(100 + i);
        if (i > 2) /* work on other memory also transfers the program's bytes */
            NEED(cuMemsetD8Async(scratch, 1, 16, NULL));
        NEED(cuCtxSynchronize());
        theirs += big[39996] == want;
        ours += big[39991] == 100 + i && big[39999] == 100 + i;
        NEED(cuMemcpyDtoH(got, big_at + 39991, sizeof(got)));
        seen += got[0] == 100 + i && got[5] == want && got[8] == 100 + i;
    }
    cf_u64("of_device", theirs, 4);
    cf_u64("of_program", ours, 4);
    cf_u64("device_sees", seen, 4);
    NEED(cuMemFree(scratch));
    NEED(cuModuleUnload(m));
}
