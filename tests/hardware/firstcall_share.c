/* SPDX-License-Identifier: MIT */
/* Steps of firstcall: memory and events that two processes share (CUDA driver API, section "Memory Management", IPC). */
#include "firstcall.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts this program again with a handle of `size` bytes; its exit status is the low byte of its result. */
static CUresult ask_peer(struct fc *fc, const char *kind, const void *handle, size_t size)
{
    char hex[2 * sizeof(CUipcMemHandle) + 1];
    int status;
    pid_t peer;

    for (size_t i = 0; i < size; i++)
        sprintf(hex + 2 * i, "%02x", ((const unsigned char *)handle)[i]);
    peer = fork();
    if (peer < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (!peer) {
        execl("/proc/self/exe", fc->self, "--libcuda", fc->library, "--peer", kind, hex, (char *)NULL);
        _exit(255);
    }
    if (waitpid(peer, &status, 0) != peer || !WIFEXITED(status)) {
        fc_note(fc, "the second process died");
        return CUDA_ERROR_UNKNOWN;
    }
    if (WEXITSTATUS(status))
        fc_note(fc, "the second process: result %d (low byte)", WEXITSTATUS(status));
    return WEXITSTATUS(status) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult ipc_memory(struct fc *fc)
{
    CUipcMemHandle handle;
    unsigned char byte = 0;
    CUdeviceptr p;

    FC_TRY(fc_context(fc));
    FC_TRY(fc->cu.cuMemAlloc(&p, 1 << 20));
    FC_TRY(fc->cu.cuMemsetD8(p, 1, 1 << 20));
    FC_TRY(fc->cu.cuCtxSynchronize());
    FC_TRY(fc->cu.cuIpcGetMemHandle(&handle, p));
    FC_TRY(ask_peer(fc, "memory", &handle, sizeof(handle)));
    FC_TRY(fc->cu.cuMemcpyDtoH(&byte, p, 1));
    FC_TRY(fc->cu.cuMemFree(p));
    if (byte != 9)
        fc_note(fc, "WRONG: %d instead of what the second process wrote", byte);
    return byte == 9 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult ipc_event(struct fc *fc)
{
    CUipcEventHandle handle;
    CUevent event;

    FC_TRY(fc_context(fc));
    FC_TRY(fc->cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    FC_TRY(fc->cu.cuEventRecord(event, NULL));
    FC_TRY(fc->cu.cuIpcGetEventHandle(&handle, event));
    FC_TRY(ask_peer(fc, "event", &handle, sizeof(handle)));
    return fc->cu.cuEventDestroy(event);
}

CUresult fc_peer(struct fc *fc, const char *kind, const char *hex)
{
    union {
        CUipcMemHandle memory;
        CUipcEventHandle event;
        unsigned char bytes[sizeof(CUipcMemHandle)];
    } handle;
    CUdeviceptr p;
    CUevent event;
    unsigned value;

    memset(&handle, 0, sizeof(handle));
    for (size_t i = 0; i < sizeof(handle.bytes) && sscanf(hex + 2 * i, "%2x", &value) == 1; i++)
        handle.bytes[i] = (unsigned char)value;
    FC_TRY(fc_context(fc));
    if (!strcmp(kind, "event")) {
        FC_TRY(fc->cu.cuIpcOpenEventHandle(&event, handle.event));
        FC_TRY(fc->cu.cuEventSynchronize(event));
        return fc->cu.cuEventDestroy(event);
    }
    FC_TRY(fc->cu.cuIpcOpenMemHandle(&p, handle.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    FC_TRY(fc->cu.cuMemsetD8(p, 9, 1 << 20));
    FC_TRY(fc->cu.cuCtxSynchronize());
    return fc->cu.cuIpcCloseMemHandle(p);
}

const struct fc_step fc_share_steps[] = {
    {"ipc_memory", ipc_memory, 30, 0},
    {"ipc_event", ipc_event, 30, 0},
    {NULL, NULL, 0, 0},
};
