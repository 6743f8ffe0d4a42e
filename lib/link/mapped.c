/* SPDX-License-Identifier: MIT */
/* Which memory of this process is mapped, and which calls touch memory of the device. */
#define _GNU_SOURCE
#include "mapped.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../protocol/generated/vgp_calls.h"

bool lnk_memory_mapped(const void *p, uint64_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)p & ~(page - 1);

    if (n == 0)
        return true;
    if (n > UINTPTR_MAX - (uintptr_t)p)
        return false;
    /* Starts nothing; that it fails with ENOMEM where a page is not mapped is what is wanted. */
    return msync((void *)start, (uintptr_t)p + n - start, MS_ASYNC) == 0 || errno != ENOMEM;
}

bool lnk_call_is_work(uint16_t call)
{
    switch (call) {
    case VGP_vgpCopy:
    case VGP_vgpLaunch:
    case VGP_cuGraphLaunch:
    case VGP_vgpGraphLaunch:
    case VGP_vgpStreamMemOps:
    case VGP_cuStreamWaitValue32_v2:
    case VGP_cuStreamWaitValue64_v2:
    case VGP_cuStreamWriteValue32_v2:
    case VGP_cuStreamWriteValue64_v2:
        return true;
    default:
        return call >= VGP_cuMemsetD8_v2 && call <= VGP_cuMemsetD2D32Async;
    }
}
