/* SPDX-License-Identifier: MIT */
/* Steps of firstcall: start, attributes, context, modules. */
#include "firstcall.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static CUresult init(struct fc *fc)
{
    return fc->cu.cuInit(0);
}

static CUresult version(struct fc *fc)
{
    int v = 0, count = 0;

    FC_TRY(fc->cu.cuDriverGetVersion(&v));
    FC_TRY(fc->cu.cuInit(0));
    FC_TRY(fc->cu.cuDeviceGetCount(&count));
    fc_note(fc, "CUDA %d.%d, %d devices", v / 1000, v % 1000 / 10, count);
    return CUDA_SUCCESS;
}

/* All attributes; prints those that differ between devices. */
static CUresult attributes(struct fc *fc)
{
    char name[128] = "";
    int known = 0, major = 0, minor = 0, pageable = 0, tables = 0, value;
    size_t total = 0;

    FC_TRY(fc->cu.cuInit(0));
    FC_TRY(fc->cu.cuDeviceGet(&fc->device, 0));
    FC_TRY(fc->cu.cuDeviceGetName(name, sizeof(name), fc->device));
    FC_TRY(fc->cu.cuDeviceTotalMem(&total, fc->device));
    for (int i = 1; i < CU_DEVICE_ATTRIBUTE_MAX; i++)
        known += fc->cu.cuDeviceGetAttribute(&value, (CUdevice_attribute)i, fc->device) == CUDA_SUCCESS;
    fc->cu.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, fc->device);
    fc->cu.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, fc->device);
    fc->cu.cuDeviceGetAttribute(&pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, fc->device);
    fc->cu.cuDeviceGetAttribute(&tables, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
                                fc->device);
    fc_note(fc, "%s, %d.%d, %zu MB, %d attributes, pageable access %d, host page tables %d", name, major,
            minor, total >> 20, known, pageable, tables);
    return CUDA_SUCCESS;
}

static CUresult context(struct fc *fc)
{
    return fc_context(fc);
}

static CUresult limits(struct fc *fc)
{
    size_t value[CU_LIMIT_MAX] = {0};

    FC_TRY(fc_context(fc));
    for (int i = 0; i < CU_LIMIT_MAX; i++)
        fc->cu.cuCtxGetLimit(&value[i], (CUlimit)i);
    fc_note(fc, "stack %zu, printf %zu, heap %zu", value[CU_LIMIT_STACK_SIZE],
            value[CU_LIMIT_PRINTF_FIFO_SIZE], value[CU_LIMIT_MALLOC_HEAP_SIZE]);
    return CUDA_SUCCESS;
}

static char once[80];

/* Text that no cache of compiled code has seen. */
static CUresult ptx_new(struct fc *fc)
{
    CUmodule module;

    FC_TRY(fc_context(fc));
    snprintf(once, sizeof(once), "%ld.%d", (long)time(NULL), (int)getpid());
    FC_TRY(fc_load(fc, once, &module));
    return fc->cu.cuModuleUnload(module);
}

/* The same text again: quick when a cache of compiled code works. */
static CUresult ptx_again(struct fc *fc)
{
    CUmodule module;

    FC_TRY(fc_context(fc));
    FC_TRY(fc_load(fc, once, &module));
    return fc->cu.cuModuleUnload(module);
}

/* Queries of a kernel before a context exists, while none is current, and with a current context. */
static CUresult kernel_lookup(struct fc *fc)
{
    CUlibrary library;
    CUkernel kernel;
    size_t offset, size;
    int value, got[3], attribute[3];

    FC_TRY(fc->cu.cuInit(0));
    FC_TRY(fc->cu.cuDeviceGet(&fc->device, 0));
    FC_TRY(fc->cu.cuLibraryLoadData(&library, fc_text(), NULL, NULL, 0, NULL, NULL, 0));
    FC_TRY(fc->cu.cuLibraryGetKernel(&kernel, library, "fc_add"));
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            FC_TRY(fc->cu.cuDevicePrimaryCtxRetain(&fc->context, fc->device));
        if (i == 2)
            FC_TRY(fc->cu.cuCtxSetCurrent(fc->context));
        got[i] = (int)fc->cu.cuKernelGetParamInfo(kernel, 1, &offset, &size);
        attribute[i] =
            (int)fc->cu.cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, fc->device);
    }
    fc_note(fc, "parameters, registers: %d, %d without a context; %d, %d with none current; %d, %d", got[0],
            attribute[0], got[1], attribute[1], got[2], attribute[2]);
    return (CUresult)got[2];
}

const struct fc_step fc_basic_steps[] = {
    {"init", init, 60, 0},
    {"version", version, 20, 0},
    {"attributes", attributes, 20, 0},
    {"context", context, 60, 0},
    {"limits", limits, 20, 0},
    {"ptx_new", ptx_new, 60, 0},
    {"ptx_again", ptx_again, 60, 0},
    {"kernel_lookup", kernel_lookup, 60, FC_ALONE},
    {NULL, NULL, 0, 0},
};
