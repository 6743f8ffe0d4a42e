/* SPDX-License-Identifier: MIT */
/* vgpLaunch: a kernel with its packed parameter buffer, passed to the provider unchanged. */
#include "../calls.h"

#include <string.h>

#define ATTRIBUTE_BYTES 64u

CUresult wrk_launch_attributes(struct wrk_call *c, CUlaunchAttribute *attrs, const uint32_t *ids, uint32_t n,
                               const void *values, uint32_t value_bytes)
{
    if (value_bytes != n * ATTRIBUTE_BYTES || n >= WRK_LAUNCH_ATTRIBUTES_MAX)
        return wrk_malformed(c, "launch attributes without their values");
    memset(attrs, 0, WRK_LAUNCH_ATTRIBUTES_MAX * sizeof(*attrs));
    for (uint32_t i = 0; i < n; i++) {
        if (!wrk_plain_attribute(ids[i])) {
            wrk_notify_detail(c->w, "launch: an attribute that is not plain data");
            return CUDA_ERROR_NOT_SUPPORTED;
        }
        attrs[i].id = (CUlaunchAttributeID)ids[i];
        memcpy(&attrs[i].value, (const uint8_t *)values + (size_t)i * ATTRIBUTE_BYTES, ATTRIBUTE_BYTES);
    }
    return CUDA_SUCCESS;
}

static CUresult launch_ex(struct wrk_call *c, const struct vgp_args_vgpLaunch *a, CUfunction f,
                          CUstream stream, const uint32_t *ids, const uint8_t *values, void **extra)
{
    CUlaunchAttribute attrs[WRK_LAUNCH_ATTRIBUTES_MAX];
    CUlaunchConfig config;
    CUresult r = wrk_launch_attributes(c, attrs, ids, a->attributeIds_len, values, a->attributeValues_len);

    if (r != CUDA_SUCCESS)
        return r;

    if (!wrk_provider.cuLaunchKernelEx)
        return wrk_missing(c, "cuLaunchKernelEx");
    memset(&config, 0, sizeof(config));
    config.gridDimX = a->gridX;
    config.gridDimY = a->gridY;
    config.gridDimZ = a->gridZ;
    config.blockDimX = a->blockX;
    config.blockDimY = a->blockY;
    config.blockDimZ = a->blockZ;
    config.sharedMemBytes = a->sharedBytes;
    config.hStream = stream;
    config.attrs = attrs;
    config.numAttrs = a->attributeIds_len;
    if (a->flags & VGP_LAUNCH_COOPERATIVE) {
        attrs[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attrs[config.numAttrs++].value.cooperative = 1;
    }
    return wrk_provider.cuLaunchKernelEx(&config, f, NULL, extra);
}

CUresult wrk_do_vgpLaunch(struct wrk_call *c, const struct vgp_args_vgpLaunch *a,
                          const uint32_t *attributeIds, const void *attributeValues, const void *params)
{
    size_t size = a->params_len;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)params, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &size, CU_LAUNCH_PARAM_END};
    CUfunction f;
    CUstream stream;
    CUresult r = wrk_func_get(c, a->func, &f);

    if (r == CUDA_SUCCESS)
        r = wrk_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (a->flags & ~(uint32_t)(VGP_LAUNCH_COOPERATIVE | VGP_LAUNCH_REPLY))
        return wrk_malformed(c, "unknown launch flags %#x", a->flags);
    if (a->attributeValues_len != a->attributeIds_len * ATTRIBUTE_BYTES)
        return wrk_malformed(c, "launch attributes without their values");
    if (a->attributeIds_len || a->flags & VGP_LAUNCH_COOPERATIVE)
        return launch_ex(c, a, f, stream, attributeIds, attributeValues, size ? extra : NULL);
    if (!wrk_provider.cuLaunchKernel)
        return wrk_missing(c, "cuLaunchKernel");
    return wrk_provider.cuLaunchKernel(f, a->gridX, a->gridY, a->gridZ, a->blockX, a->blockY, a->blockZ,
                                       a->sharedBytes, stream, NULL, size ? extra : NULL);
}
