/* SPDX-License-Identifier: MIT */
/*
 * Objects shared between processes: physical memory and pools by descriptors, external memory, IPC
 * handles of another process.
 */
#include "sequences.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Data of the process that makes the handles: independent of seeds, and alive as long as the
 * program.
 */
static struct {
    CUipcMemHandle memory[2];
    CUipcEventHandle event[2];
    CUmemPoolPtrExportData pointer[2];
    int pool; /* its descriptor */
} share_peer;

static CUresult share_peer_make(void)
{
    CUcontext c;
    CUevent e;
    CUdeviceptr at;
    CUmemoryPool pool;
    CUmemPoolProps p;
    CUresult r = cuInit(0);

    if (r == CUDA_SUCCESS)
        r = cuDevicePrimaryCtxRetain(&c, 0);
    if (r == CUDA_SUCCESS)
        r = cuCtxSetCurrent(c);
    for (unsigned i = 0; r == CUDA_SUCCESS && i < 2; i++) {
        r = cuMemAlloc_v2(&at, SEQ_GRANULE);
        if (r == CUDA_SUCCESS)
            r = cuIpcGetMemHandle(&share_peer.memory[i], at);
        if (r == CUDA_SUCCESS)
            r = cuEventCreate(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
        if (r == CUDA_SUCCESS)
            r = cuIpcGetEventHandle(&share_peer.event[i], e);
    }
    memset(&p, 0, sizeof(p));
    p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (r == CUDA_SUCCESS)
        r = cuMemPoolCreate(&pool, &p);
    if (r == CUDA_SUCCESS)
        r = cuMemPoolExportToShareableHandle(&share_peer.pool, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                             0);
    for (unsigned i = 0; r == CUDA_SUCCESS && i < 2; i++) {
        r = cuMemAllocFromPoolAsync(&at, SEQ_BYTES, pool, NULL);
        if (r == CUDA_SUCCESS)
            r = cuMemPoolExportPointer(&share_peer.pointer[i], at);
    }
    return r == CUDA_SUCCESS ? cuCtxSynchronize() : r;
}

bool seq_share_begin(void)
{
    char path[40];
    int pipe_of[2];
    pid_t parent = getpid(), pid;

    if (pipe(pipe_of))
        return false;
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || share_peer_make() != CUDA_SUCCESS ||
            write(pipe_of[1], &share_peer, sizeof(share_peer)) != sizeof(share_peer))
            _exit(1);
        for (;;)
            pause();
    }
    close(pipe_of[1]);
    bool ok = pid > 0 && read(pipe_of[0], &share_peer, sizeof(share_peer)) == sizeof(share_peer);

    close(pipe_of[0]);
    if (ok) {
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, share_peer.pool);
        share_peer.pool = open(path, O_RDWR | O_CLOEXEC);
        ok = share_peer.pool >= 0;
    }
    return ok;
}

static CUresult ipc_memory(void)
{
    CUdeviceptr p;
    CUresult r =
        cuIpcOpenMemHandle_v2(&p, share_peer.memory[seq_random(2)], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

    if (r == CUDA_SUCCESS)
        seq.memory[1 + seq_random(seq_slots - 1)] = seq.opened[seq_random(seq_slots)] = p;
    return r;
}
static CUresult ipc_close(void)
{
    return cuIpcCloseMemHandle(SEQ_ANY(opened));
}
static CUresult ipc_event(void)
{
    return cuIpcOpenEventHandle(SEQ_SLOT(event), share_peer.event[seq_random(2)]);
}
static CUresult ipc_give(void)
{
    CUipcMemHandle m;
    CUipcEventHandle e;

    return seq_random(2) ? cuIpcGetMemHandle(&m, seq_memory()) : cuIpcGetEventHandle(&e, SEQ_ANY(event));
}
static CUresult event_create(void)
{
    return cuEventCreate(SEQ_SLOT(event), CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
}

/* Imports a pool of the other process, or of this one by its descriptor. */
static CUresult pool_import(void)
{
    int fd = share_peer.pool;
    CUresult r = CUDA_SUCCESS;

    if (seq_random(2))
        return cuMemPoolImportFromShareableHandle(SEQ_SLOT(pool), (void *)(uintptr_t)fd,
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    r = cuMemPoolExportToShareableHandle(&fd, SEQ_ANY(pool), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (r == CUDA_SUCCESS) {
        r = cuMemPoolImportFromShareableHandle(SEQ_SLOT(pool), (void *)(uintptr_t)fd,
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        close(fd);
    }
    return r;
}
static CUresult pool_pointer(void)
{
    CUdeviceptr p;
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    for (unsigned i = 0; r != CUDA_SUCCESS && i < SEQ_SLOTS; i++)
        r = cuMemPoolImportPointer(&p, seq.pool[i], &share_peer.pointer[seq_random(2)]);
    if (r == CUDA_SUCCESS)
        seq.memory[1 + seq_random(seq_slots - 1)] = p;
    return r;
}
static CUresult pool_give(void)
{
    CUmemPoolPtrExportData data;
    CUdeviceptr p = 0;
    CUresult r = cuMemAllocFromPoolAsync(&p, SEQ_BYTES, SEQ_ANY(pool), SEQ_ANY(stream));

    if (r != CUDA_SUCCESS)
        return r;
    SEQ_PUT(memory, p);
    return cuMemPoolExportPointer(&data, p);
}

static CUresult physical_again(void)
{
    int fd = -1;
    CUresult r =
        cuMemExportToShareableHandle(&fd, SEQ_ANY(physical), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

    if (r == CUDA_SUCCESS) {
        r = cuMemImportFromShareableHandle(SEQ_SLOT(physical), (void *)(uintptr_t)fd,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        close(fd);
    }
    return r;
}
static CUresult physical_retain(void)
{
    return cuMemRetainAllocationHandle(SEQ_SLOT(physical), (void *)(uintptr_t)SEQ_ANY(reserved));
}

static CUresult external_import(void)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                          .size = SEQ_GRANULE};
    int fd = -1;
    CUresult r =
        cuMemExportToShareableHandle(&fd, SEQ_ANY(physical), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

    if (r != CUDA_SUCCESS)
        return r;
    d.handle.fd = fd;
    r = cuImportExternalMemory(SEQ_SLOT(external), &d);
    if (r != CUDA_SUCCESS) /* on success the library owns the descriptor */
        close(fd);
    return r;
}
static CUresult external_buffer(void)
{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC d = {.size = SEQ_GRANULE};
    CUdeviceptr p;
    CUresult r = cuExternalMemoryGetMappedBuffer(&p, SEQ_ANY(external), &d);

    if (r == CUDA_SUCCESS)
        seq.memory[1 + seq_random(seq_slots - 1)] = p;
    return r;
}
static CUresult external_destroy(void)
{
    return cuDestroyExternalMemory(SEQ_ANY(external));
}

const struct seq_step seq_share_steps[] = {
    {"cuIpcOpenMemHandle", ipc_memory, 1},
    {"cuIpcCloseMemHandle", ipc_close, 1},
    {"cuIpcOpenEventHandle", ipc_event, 1},
    {"cuIpcGet...Handle", ipc_give, 1},
    {"cuEventCreate (interprocess)", event_create, 1},
    {"cuMemPoolImportFromShareableHandle", pool_import, 2},
    {"cuMemPoolImportPointer", pool_pointer, 2},
    {"cuMemPoolExportPointer", pool_give, 1},
    {"cuMemExport..., Import...", physical_again, 1},
    {"cuMemRetainAllocationHandle", physical_retain, 1},
    {"cuImportExternalMemory", external_import, 2},
    {"cuExternalMemoryGetMappedBuffer", external_buffer, 2},
    {"cuDestroyExternalMemory", external_destroy, 1},
    {NULL, NULL, 0},
};
