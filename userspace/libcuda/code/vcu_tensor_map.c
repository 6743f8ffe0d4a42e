/* SPDX-License-Identifier: MIT */
/* Tensor maps: 128 bytes that only the host's driver can write. They hold device addresses, which
 * are the same on both sides. */
#include "code.h"

#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

CUresult vcu_tensor_map_encode(CUtensorMap *out, const struct vcu_tensor_map *m)
{
    uint64_t dims[5], strides[4];
    uint8_t bytes[sizeof(*out)];
    uint32_t n = sizeof(bytes);
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (out == NULL || m->dims == NULL || m->steps == NULL || m->rank == 0 || m->rank > 5 ||
        (m->rank > 1 && m->strides == NULL) ||
        (m->form == VGP_TMAP_TILED ? m->box == NULL : m->lower == NULL || m->upper == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < m->rank; i++) {
        dims[i] = m->dims[i];
        if (i + 1 < m->rank)
            strides[i] = m->strides[i];
    }
    res = vgp_call_vgpTensorMapEncode(m->form, m->type, m->rank, (uintptr_t)m->address, dims, m->rank,
                                      strides, m->rank - 1, m->box, m->form == VGP_TMAP_TILED ? m->rank : 0,
                                      m->steps, m->rank, m->lower, m->corners, m->upper, m->corners,
                                      m->channels, m->pixels, m->interleave, m->mode, m->swizzle,
                                      m->promotion, m->fill, NULL, 0, bytes, &n);
    if (res == CUDA_SUCCESS && n != sizeof(bytes))
        res = CUDA_ERROR_UNKNOWN;
    if (res == CUDA_SUCCESS)
        memcpy(out, bytes, sizeof(bytes));
    return res;
}

CUresult vcu_tensor_map_moved(const CUtensorMap *map, const void *address, uint8_t *bytes, uint32_t *n)
{
    return vgp_call_vgpTensorMapEncode(VGP_TMAP_REPLACE_ADDRESS, 0, 0, (uintptr_t)address, NULL, 0, NULL, 0,
                                       NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, map,
                                       sizeof(*map), bytes, n);
}
