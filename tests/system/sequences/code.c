/* SPDX-License-Identifier: MIT */
/* Modules, libraries, links, launches, also of a kernel that faults. */
#include "sequences.h"

#include <string.h>

const char seq_ptx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .global .align 8 .b8 bytes[64];\n"
    ".visible .entry store(.param .u64 p)\n{ .reg .b64 %a; .reg .b32 %b; ld.param.u64 %a, [p]; mov.b32 %b, 1;\n"
    "  st.global.b32 [%a], %b; ret; }\n"
    ".visible .entry fault(.param .u64 p)\n{ .reg .b64 %a; .reg .b32 %b; mov.b64 %a, 16; mov.b32 %b, 1;\n"
    "  st.global.b32 [%a], %b; ret; }\n"
    ".extern .func cudaGraphSetConditional(.param .b64 a, .param .b32 b);\n"
    ".visible .entry set(.param .u64 h)\n{ .reg .b64 %a; ld.param.u64 %a, [h];\n"
    "  { .param .b64 p; st.param.b64 [p], %a; .param .b32 q; st.param.b32 [q], 1;\n"
    "    call.uni cudaGraphSetConditional, (p, q); }\n  ret; }\n";

static CUresult code_keep(CUresult r, CUfunction f)
{
    if (r == CUDA_SUCCESS)
        SEQ_PUT(function, f);
    return r;
}

static CUresult load(void)
{
    CUmodule m;
    CUfunction f = NULL;
    CUresult r = cuModuleLoadData(&m, seq_ptx);

    if (r != CUDA_SUCCESS)
        return r;
    SEQ_PUT(module, m);
    return code_keep(cuModuleGetFunction(&f, m, "store"), f);
}
/* Never the first module, whose function is kept. */
static CUresult unload(void)
{
    return cuModuleUnload(seq.module[1 + seq_random(seq_slots - 1)]);
}
static CUresult global(void)
{
    CUdeviceptr p;
    size_t n;

    return cuModuleGetGlobal_v2(&p, &n, SEQ_ANY(module), "bytes");
}
static CUresult library_load(void)
{
    return cuLibraryLoadData(SEQ_SLOT(library), seq_ptx, NULL, NULL, 0, NULL, NULL, 0);
}
static CUresult library_kernel(void)
{
    CUkernel k;
    CUfunction f = NULL;
    CUresult r = cuLibraryGetKernel(&k, SEQ_ANY(library), "store");

    return r == CUDA_SUCCESS ? code_keep(cuKernelGetFunction(&f, k), f) : r;
}
static CUresult library_unload(void)
{
    return cuLibraryUnload(SEQ_ANY(library));
}
static CUresult link_create(void)
{
    return cuLinkCreate_v2(0, NULL, NULL, SEQ_SLOT(link));
}
static CUresult link_add(void)
{
    return cuLinkAddData_v2(SEQ_ANY(link), CU_JIT_INPUT_PTX, (void *)seq_ptx, strlen(seq_ptx) + 1, "a", 0,
                            NULL, NULL);
}
static CUresult link_complete(void)
{
    CUmodule m;
    void *image;
    size_t n;
    CUresult r = cuLinkComplete(SEQ_ANY(link), &image, &n);

    /* Another thread may destroy the link, and the image with it. */
    if (r == CUDA_SUCCESS && seq_threads == 1 && cuModuleLoadData(&m, image) == CUDA_SUCCESS)
        SEQ_PUT(module, m);
    return r;
}
static CUresult link_destroy(void)
{
    return cuLinkDestroy(SEQ_ANY(link));
}
static CUresult launch(void)
{
    CUdeviceptr at = seq_memory();
    void *arguments[] = {&at};

    return cuLaunchKernel(SEQ_ANY(function), 1, 1, 1, 32, 1, 1, 0, SEQ_ANY(stream), arguments, NULL);
}

/* In a context other than the primary: a fault makes a context unusable until destroyed. */
static CUresult fault(void)
{
    CUcontext c = seq.context[1 + seq_random(2)];
    CUdeviceptr at = 0;
    void *arguments[] = {&at};
    CUmodule m;
    CUfunction f;
    CUresult r = CUDA_ERROR_INVALID_CONTEXT;

    /* At once, concurrently with other streams. */
    if (seq_fault && seq_random(4) == 0)
        return cuLaunchKernel(seq_fault, 1, 1, 1, 1, 1, 1, 0, SEQ_ANY(stream), arguments, NULL);
    if (!c || seq_random(4) || cuCtxSetCurrent(c) != CUDA_SUCCESS)
        return r;
    r = cuModuleLoadData(&m, seq_ptx);
    if (r == CUDA_SUCCESS)
        r = cuModuleGetFunction(&f, m, "fault");
    if (r == CUDA_SUCCESS)
        r = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
    cuCtxSetCurrent(seq_home());
    return r;
}

const struct seq_step seq_code_steps[] = {
    {"cuModuleLoadData", load, 2},
    {"cuModuleUnload", unload, 1},
    {"cuModuleGetGlobal", global, 1},
    {"cuLibraryLoadData", library_load, 1},
    {"cuLibraryGetKernel", library_kernel, 2},
    {"cuLibraryUnload", library_unload, 1},
    {"cuLinkCreate", link_create, 1},
    {"cuLinkAddData", link_add, 2},
    {"cuLinkComplete", link_complete, 1},
    {"cuLinkDestroy", link_destroy, 1},
    {"cuLaunchKernel", launch, 6},
    {"a kernel that faults", fault, 1},
    {NULL, NULL, 0},
};
