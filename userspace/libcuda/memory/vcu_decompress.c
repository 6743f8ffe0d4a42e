/* SPDX-License-Identifier: MIT */
/* Decompression by hardware (cuMemBatchDecompressAsync): forwarded where the device has it. */
#include "memory.h"

#include "vgp_entry.h"
#include "vgp_guest.h"
#include "../../../protocol/vgp_guest_rt.h"

#define PIECE 256u /* operations of one record */

static bool device_can(int device)
{
    return vcu.devices[device].attributes[CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK] != 0;
}

CUresult vcu_decompress_capable(int device, uint64_t address, bool *out)
{
    uint32_t capable = 0;
    CUresult res = CUDA_SUCCESS;

    if (device >= 0 && device < vcu.device_count && device_can(device))
        res = vgp_call_vgpPointerDecompress(address, &capable);
    if (res == CUDA_SUCCESS)
        *out = capable != 0;
    return res;
}

/* Operations first .. first + n - 1; *at: the operation that the result concerns, SIZE_MAX:
 * none. */
static CUresult decompress_piece(const CUmemDecompressParams *p, size_t first, uint32_t n, CUstream stream,
                                 size_t *at)
{
    uint64_t src_bytes[PIECE], dst_bytes[PIECE], actual[PIECE], src[PIECE], dst[PIECE];
    uint32_t algorithms[PIECE], status = 0;
    uint64_t index = UINT64_MAX;
    CUresult res;

    for (uint32_t i = 0; i < n; i++) {
        const CUmemDecompressParams *one = &p[first + i];

        for (size_t k = 0; k < sizeof(one->padding); k++) {
            if (one->padding[k] != 0) { /* documented: must be zeroed */
                *at = first + i;
                return CUDA_ERROR_INVALID_VALUE;
            }
        }
        src_bytes[i] = one->srcNumBytes;
        dst_bytes[i] = one->dstNumBytes;
        actual[i] = (uintptr_t)one->dstActBytes;
        src[i] = (uintptr_t)one->src;
        dst[i] = (uintptr_t)one->dst;
        algorithms[i] = one->algo;
    }
    res = vgp_call_vgpMemDecompress(stream, src_bytes, n, dst_bytes, n, actual, n, src, n, dst, n, algorithms,
                                    n, &status, &index);
    if (res == CUDA_SUCCESS && status != CUDA_SUCCESS) {
        res = (CUresult)status;
        *at = index < n ? first + (size_t)index : SIZE_MAX;
    }
    return res;
}

/* The parts of a batch are unordered, so its pieces are, too. */
CUresult vcu_cuMemBatchDecompressAsync(CUmemDecompressParams *paramsArray, size_t count, unsigned int flags,
                                       size_t *errorIndex, CUstream stream)
{
    size_t at = SIZE_MAX;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (!device_can(vcu_context_find(NULL)->device)) /* before any argument (driver 580) */
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, "cuMemBatchDecompressAsync",
                          "no hardware decompression (device attribute 136 is 0)");
    if (errorIndex != NULL)
        *errorIndex = SIZE_MAX;
    if (paramsArray == NULL || count == 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    stream = vcu_stream(stream);
    if (!vcu_stream_ok(stream))
        return vcu_stream_error(stream);
    for (size_t i = 0; i < count && res == CUDA_SUCCESS; i += PIECE)
        res =
            decompress_piece(paramsArray, i, (uint32_t)(count - i < PIECE ? count - i : PIECE), stream, &at);
    if (res != CUDA_SUCCESS && errorIndex != NULL)
        *errorIndex = at;
    return res;
}
