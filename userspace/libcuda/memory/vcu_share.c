/* SPDX-License-Identifier: MIT */
/*
 * Physical memory and pools shared with other processes by descriptor. The descriptor is a file of
 * this guest, sealed, that holds a token of the host's broker: it can be passed on, inherited and
 * closed like any other. It keeps nothing alive: its object can be imported as long as some process
 * has it.
 */
#define _GNU_SOURCE
#include "memory.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgp_entry.h"
#include "vgp_guest.h"
#include "../../../protocol/vgp_guest_rt.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)
#define TOKEN 32

enum kind { KIND_MEMORY = 1, KIND_POOL = 2 };

struct ticket {
    char magic[8];
    uint32_t kind;
    uint32_t zero;
    uint8_t token[TOKEN];
    uint8_t zeroes[16];
};
static const char magic[] = "vgpuShr1"; /* 8 bytes of it */

static CUresult write_ticket(enum kind kind, const uint8_t *token, int *fd)
{
    struct ticket t = {.kind = kind};
    int f = memfd_create("vgpu-cuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (f < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(t.magic, magic, sizeof(t.magic));
    memcpy(t.token, token, TOKEN);
    if (pwrite(f, &t, sizeof(t), 0) != (ssize_t)sizeof(t) || fcntl(f, F_ADD_SEALS, SEALS)) {
        close(f);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *fd = f;
    return CUDA_SUCCESS;
}

/* The application may pass any number as a descriptor. */
static bool read_ticket(enum kind kind, int fd, uint8_t *token)
{
    struct ticket t, want = {.kind = kind};
    struct stat st;
    int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);

    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) || st.st_size != sizeof(t) ||
        pread(fd, &t, sizeof(t), 0) != (ssize_t)sizeof(t))
        return false;
    memcpy(want.magic, magic, sizeof(want.magic));
    memcpy(want.token, t.token, TOKEN);
    memcpy(token, t.token, TOKEN);
    return !memcmp(&t, &want, sizeof(t));
}

static CUresult not_a_ticket(const char *call)
{
    return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call,
                      "the descriptor is not one that this library has exported");
}

static CUresult check_type(const char *call, CUmemAllocationHandleType type)
{
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_SUCCESS;
    if (type == CU_MEM_HANDLE_TYPE_WIN32 || type == CU_MEM_HANDLE_TYPE_WIN32_KMT ||
        type == CU_MEM_HANDLE_TYPE_FABRIC)
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call, "only file descriptors are served");
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- physical memory ------------------------------------------------------------------------ */

CUresult vcu_cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                          CUmemAllocationHandleType handleType, unsigned long long flags)
{
    uint8_t token[TOKEN];
    uint32_t n = sizeof(token);
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (shareableHandle == NULL || flags != 0 || !vgp_handle_live(handle, VGP_H_ALLOCATION))
        return CUDA_ERROR_INVALID_VALUE;
    res = check_type("cuMemExportToShareableHandle", handleType);
    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpMemExport(handle, token, &n);
    if (res == CUDA_SUCCESS && n != sizeof(token))
        res = CUDA_ERROR_UNKNOWN;
    return res == CUDA_SUCCESS ? write_ticket(KIND_MEMORY, token, shareableHandle) : res;
}

CUresult vcu_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                            CUmemAllocationHandleType shHandleType)
{
    uint8_t token[TOKEN];
    uint64_t h;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (handle == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = check_type("cuMemImportFromShareableHandle", shHandleType);
    if (res != CUDA_SUCCESS)
        return res;
    if (!read_ticket(KIND_MEMORY, (int)(uintptr_t)osHandle, token))
        return not_a_ticket("cuMemImportFromShareableHandle");
    h = vgp_handle_mint(VGP_H_ALLOCATION);
    if (h == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    res = vgp_call_vgpMemImport(token, sizeof(token), h);
    if (res == CUDA_SUCCESS)
        *handle = h;
    else
        vgp_handle_drop(h);
    return res;
}

/* ---- pools ---------------------------------------------------------------------------------- */

static bool is_pool(CUmemoryPool pool)
{
    return vgp_handle_live((uintptr_t)pool, VGP_H_MEM_POOL);
}

CUresult vcu_cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
                                              CUmemAllocationHandleType handleType, unsigned long long flags)
{
    uint8_t token[TOKEN];
    uint32_t n = sizeof(token);
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (handle_out == NULL || flags != 0 || !is_pool(pool))
        return CUDA_ERROR_INVALID_VALUE;
    res = check_type("cuMemPoolExportToShareableHandle", handleType);
    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpMemPoolExport(pool, token, &n);
    if (res == CUDA_SUCCESS && n != sizeof(token))
        res = CUDA_ERROR_UNKNOWN;
    return res == CUDA_SUCCESS ? write_ticket(KIND_POOL, token, handle_out) : res;
}

CUresult vcu_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
                                                CUmemAllocationHandleType handleType,
                                                unsigned long long flags)
{
    uint8_t token[TOKEN];
    uint64_t h;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (pool_out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    res = check_type("cuMemPoolImportFromShareableHandle", handleType);
    if (res != CUDA_SUCCESS)
        return res;
    if (!read_ticket(KIND_POOL, (int)(uintptr_t)handle, token))
        return not_a_ticket("cuMemPoolImportFromShareableHandle");
    h = vgp_handle_mint(VGP_H_MEM_POOL);
    if (h == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    res = vgp_call_vgpMemPoolImport(token, sizeof(token), (CUmemoryPool)(uintptr_t)h);
    if (res == CUDA_SUCCESS)
        *pool_out = (CUmemoryPool)(uintptr_t)h;
    else
        vgp_handle_drop(h);
    return res;
}
