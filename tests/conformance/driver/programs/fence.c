// SPDX-License-Identifier: MIT
/*
 * A stream waits for a fence of the kernel's vgem driver, as a sync_file. Exit status 0: passed, 1:
 * failed, 77: no such fence here, with the reason.
 */
#include "conform.h"

#include <errno.h>

#include "drm_device.h"
#include "vgem.h"

static int say(int status, const char *what)
{
    printf("%s: %s%s%s\n", status == 77 ? "not run" : "FAIL", what, status == 77 ? ": " : "",
           status == 77 ? strerror(errno) : "");
    return status;
}

int main(void)
{
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d = {.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD};
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS sp = {0};
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wp = {0};
    uint32_t fence = 0;
    CUexternalSemaphore s;
    CUcontext ctx;
    CUstream stream;
    int device = drm_device_open("vgem");

    if (device < 0)
        return say(77, "no device of the vgem driver");
    /* The kernel signals the fence after 10 s, so all preparation precedes it. */
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) ||
        cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) || cuStreamSynchronize(stream))
        return say(1, "no context");
    d.handle.fd = vgem_fence_new(device, &fence);
    if (d.handle.fd < 0)
        return say(77, "vgem gives no sync_file");
    if (cuImportExternalSemaphore(&s, &d))
        return say(1, "the import of a sync_file");
    if (cuSignalExternalSemaphoresAsync(&s, &sp, 1, stream) != CUDA_ERROR_NOT_SUPPORTED)
        return say(1, "a sync_file can be signalled");
    if (cuWaitExternalSemaphoresAsync(&s, &wp, 1, stream))
        return say(1, "the wait");
    if (cuStreamQuery(stream) != CUDA_ERROR_NOT_READY)
        return say(1, "the stream did not wait for the fence");
    if (vgem_fence_signal(device, fence) != 0)
        return say(77, "the fence was signalled by the kernel before us");
    if (cuStreamSynchronize(stream))
        return say(1, "the stream after the fence");
    if (cuWaitExternalSemaphoresAsync(&s, &wp, 1, stream) || cuStreamSynchronize(stream))
        return say(1, "a second wait for the same fence");
    if (cuDestroyExternalSemaphore(s))
        return say(1, "the end of the semaphore");
    puts("fence ok");
    return 0;
}
