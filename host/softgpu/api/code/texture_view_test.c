/* SPDX-License-Identifier: MIT */
/* Resource views as kernels see them: the layers and levels that a view names, and none beside them. Part of
 * texture_fetch_test. */
#include <string.h>

#include "api/code/texture_model_test.h"

#define SIDE 4u    /* elements of each dimension */
#define SAMPLES 16 /* of a launch */

/* Elements of slice z, all with this value. */
static void fill(CUarray array, size_t side, size_t height, size_t z, float value)
{
    float data[SIDE * SIDE];
    CUDA_MEMCPY3D m = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = data,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .dstArray = array,
                       .dstZ = z,
                       .WidthInBytes = side * sizeof(float),
                       .Height = height,
                       .Depth = 1};

    for (size_t i = 0; i < side * height; i++)
        data[i] = value;
    OK(cuMemcpy3D_v2(&m));
}

/* The first channel of what a kernel fetches at w = -1, 0, 1, ... */
static void fetch(const char *kernel, CUtexObject tex, float out[SAMPLES])
{
    float s[SAMPLES][4], got[SAMPLES][4];
    CUdeviceptr c, o;
    CUfunction f;
    int n = SAMPLES;
    void *args[] = {&tex, &c, &o, &n};

    for (int i = 0; i < SAMPLES; i++)
        memcpy(s[i], (const float[4]){1, 0.25f, 0.25f, (float)(i - 1)}, sizeof(s[i]));
    OK(cuModuleGetFunction(&f, module, kernel));
    OK(cuMemAlloc_v2(&c, sizeof(s)));
    OK(cuMemAlloc_v2(&o, sizeof(got)));
    OK(cuMemcpyHtoD_v2(c, s, sizeof(s)));
    OK(cuLaunchKernel(f, 1, 1, 1, SAMPLES, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH_v2(got, o, sizeof(got)));
    OK(cuMemFree_v2(c));
    OK(cuMemFree_v2(o));
    for (int i = 0; i < SAMPLES; i++)
        out[i] = got[i][0];
}

/* What part `w` of a view of parts `first` to `last` is: the nearest that it has. */
static unsigned part(int w, unsigned first, unsigned last)
{
    return w < 0 ? first : first + (unsigned)w > last ? last : first + (unsigned)w;
}

void test_views_of_layers(void **state)
{
    static const struct {
        const char *kernel;
        size_t height;
        unsigned flags, faces;
    } kind[] = {{"ta1", 0, CUDA_ARRAY3D_LAYERED, 1},
                {"ta2", SIDE, CUDA_ARRAY3D_LAYERED, 1},
                {"tacube", SIDE, CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP, 6}};
    const unsigned layers = 4;
    float got[SAMPLES];

    (void)state;
    for (unsigned k = 0; k < sizeof(kind) / sizeof(kind[0]); k++) {
        const unsigned faces = kind[k].faces;
        CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};
        CUDA_TEXTURE_DESC t = {.flags = faces > 1 ? CU_TRSF_NORMALIZED_COORDINATES : 0};
        CUDA_ARRAY3D_DESCRIPTOR d = {.Width = SIDE,
                                     .Height = kind[k].height,
                                     .Depth = (size_t)layers * faces,
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1,
                                     .Flags = kind[k].flags};

        OK(cuArray3DCreate_v2(&res.res.array.hArray, &d));
        for (unsigned z = 0; z < layers * faces; z++)
            fill(res.res.array.hArray, SIDE, kind[k].height ? SIDE : 1, z, (float)z);
        for (unsigned first = 0; first < layers; first++) {
            for (unsigned last = first; last < layers; last++) {
                CUDA_RESOURCE_VIEW_DESC v = {.width = d.Width,
                                             .height = d.Height,
                                             .depth = d.Depth,
                                             .firstLayer = first * faces,
                                             .lastLayer = last * faces + faces - 1};
                CUtexObject tex;

                OK(cuTexObjectCreate(&tex, &res, &t, &v));
                fetch(kind[k].kernel, tex, got);
                for (int i = 0; i < SAMPLES; i++) {
                    if (got[i] != (float)(part(i - 1, first, last) * faces)) /* the cube's face +x */
                        fail_msg("%s: layer %d of a view of %u to %u is %g", kind[k].kernel, i - 1, first,
                                 last, (double)got[i]);
                }
                OK(cuTexObjectDestroy(tex));
            }
        }
        OK(cuArrayDestroy(res.res.array.hArray));
    }
}

void test_views_of_levels(void **state)
{
    const unsigned levels = 3;
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY};
    CUDA_TEXTURE_DESC t = {.flags = CU_TRSF_NORMALIZED_COORDINATES, .maxMipmapLevelClamp = 99};
    CUDA_ARRAY3D_DESCRIPTOR d = {
        .Width = SIDE, .Height = SIDE, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    float got[SAMPLES];

    (void)state;
    OK(cuMipmappedArrayCreate(&res.res.mipmap.hMipmappedArray, &d, levels));
    for (unsigned l = 0; l < levels; l++) {
        CUarray level;

        OK(cuMipmappedArrayGetLevel(&level, res.res.mipmap.hMipmappedArray, l));
        fill(level, SIDE >> l, SIDE >> l, 0, (float)l);
    }
    for (unsigned first = 0; first < levels; first++) {
        for (unsigned last = first; last < levels; last++) {
            CUDA_RESOURCE_VIEW_DESC v = {
                .width = d.Width, .height = d.Height, .firstMipmapLevel = first, .lastMipmapLevel = last};
            CUtexObject tex;

            OK(cuTexObjectCreate(&tex, &res, &t, &v));
            fetch("t2_lod", tex, got);
            for (int i = 0; i < SAMPLES; i++) {
                if (got[i] != (float)part(i - 1, first, last))
                    fail_msg("level %d of a view of %u to %u is %g", i - 1, first, last, (double)got[i]);
            }
            OK(cuTexObjectDestroy(tex));
        }
    }
    OK(cuMipmappedArrayDestroy(res.res.mipmap.hMipmappedArray));
}
