/* SPDX-License-Identifier: MIT */
/*
 * A GPU that can access all memory of the process (HMM, ATS) would give kernels of the guest access
 * to the worker itself: its code, its stack, other objects' handles. NVIDIA's driver can disable it
 * for a process if requested when nvidia-uvm is opened, which libcuda does not do.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine.h"
#include "core/core.h"

#define UVM_INITIALIZE 0x30000001ul
#define UVM_INIT_FLAGS_DISABLE_HMM UINT64_C(1)

struct uvm_initialize {
    uint64_t flags;  /* in */
    uint32_t status; /* out, 0: done */
};

static bool allowed;

/* Interposes the C library's function for libcuda, as this program exports the name. */
int ioctl(int fd, unsigned long request, ...)
{
    struct uvm_initialize *init;
    va_list ap;
    void *arg;

    va_start(ap, request);
    arg = va_arg(ap, void *);
    va_end(ap);
    init = arg;
    if ((request & 0xffffffff) == UVM_INITIALIZE && init && !allowed) {
        const uint64_t flags = init->flags;

        init->flags = flags | UVM_INIT_FLAGS_DISABLE_HMM;
        long r = syscall(SYS_ioctl, fd, request, arg);
        init->flags = flags;
        if (!r && !init->status)
            return 0;
        /* Not supported by this driver: continue as libcuda requested; wrk_hmm_check() checks the
         * result. */
    }
    return (int)syscall(SYS_ioctl, fd, request, arg);
}

void wrk_hmm_allow(void)
{
    allowed = true;
}

int wrk_hmm_check(char *err, size_t err_size)
{
    for (int i = 0; i < wrk_capabilities.device_count && !allowed && wrk_capabilities.reaches_process; i++) {
        int pageable = 0, tables = 0;
        CUdevice dev;

        if (!wrk_provider.cuDeviceGetAttribute || wrk_provider.cuDeviceGet(&dev, i) != CUDA_SUCCESS)
            continue;
        wrk_provider.cuDeviceGetAttribute(&pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, dev);
        wrk_provider.cuDeviceGetAttribute(
            &tables, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, dev);
        if (!pageable && !tables)
            continue;
        snprintf(err, err_size,
                 "kernels on device %d reach all memory of the worker (%s): load nvidia-uvm with "
                 "uvm_disable_hmm=1, or accept it with --allow-hmm",
                 i, tables ? "ATS" : "HMM");
        return -1;
    }
    return 0;
}
