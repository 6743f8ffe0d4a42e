/* SPDX-License-Identifier: MIT */
/*
 * Extents of arrays. Copies of arrays whose extent is known here need no check by the worker. Known
 * are arrays that cuArrayCreate and cuArray3DCreate made in a device's primary context, of formats
 * with whole elements; not levels of mipmapped arrays, planes, and arrays of other contexts.
 *
 * The extent is a single number, the data of the array's handle, so that reading it needs no lock:
 * whether it is known (1 bit), the device (12), log2 of the bytes of an element (3), and width (17),
 * height (17) and depth (14), each less one.
 */
#include "code.h"

#include "vgp_entry.h"

#define KNOWN (UINT64_C(1) << 63)
#define DEVICE_SHIFT 51
#define DEVICE_MAX 0xfffu
#define ELEMENT_SHIFT 48
#define WIDTH_SHIFT 31
#define HEIGHT_SHIFT 14
#define WIDTH_MAX 0x20000u /* also of the height */
#define DEPTH_MAX 0x4000u

/* log2 of the bytes of a component; -1: no plain format. */
static int component_log2(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 0;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 2;
    default:
        return -1;
    }
}

static uint64_t unpack_extent(uint64_t v, unsigned shift, uint64_t max)
{
    return (v >> shift & (max - 1)) + 1;
}

void vcu_array_note(CUarray array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    const struct vcu_context *c = vcu_context_find((CUcontext)(uintptr_t)vcu_owner_context());
    const unsigned plain = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST;
    const uint64_t height = d->Height != 0 ? d->Height : 1, depth = d->Depth != 0 ? d->Depth : 1;
    const int log2 = component_log2(d->Format);
    uint64_t v;

    if (c == NULL || c->handle != vcu.devices[c->device].primary || (unsigned)c->device > DEVICE_MAX ||
        log2 < 0 || (d->Flags & ~plain) != 0 || d->Width == 0 || d->Width > WIDTH_MAX || height > WIDTH_MAX ||
        depth > DEPTH_MAX || (d->NumChannels != 1 && d->NumChannels != 2 && d->NumChannels != 4))
        return;
    v = KNOWN | (uint64_t)(unsigned)c->device << DEVICE_SHIFT |
        (uint64_t)((unsigned)log2 + d->NumChannels / 2) << ELEMENT_SHIFT |
        (uint64_t)(d->Width - 1) << WIDTH_SHIFT | (height - 1) << HEIGHT_SHIFT | (depth - 1);
    vcu_handle_set_data((uintptr_t)array, VGP_H_ARRAY, (void *)(uintptr_t)v);
}

bool vcu_array_extent(CUarray array, CUcontext ctx, struct vcu_array_extent *out)
{
    const uint64_t v = (uint64_t)(uintptr_t)vcu_handle_data((uintptr_t)array, VGP_H_ARRAY);

    if ((v & KNOWN) == 0 || (uintptr_t)ctx != vcu.devices[v >> DEVICE_SHIFT & DEVICE_MAX].primary)
        return false;
    out->element = 1u << (v >> ELEMENT_SHIFT & 7);
    out->row = unpack_extent(v, WIDTH_SHIFT, WIDTH_MAX) * out->element;
    out->height = unpack_extent(v, HEIGHT_SHIFT, WIDTH_MAX);
    out->depth = unpack_extent(v, 0, DEPTH_MAX);
    return true;
}

static void forget_of_device(uint64_t handle, void *data, void *arg)
{
    const uint64_t v = (uint64_t)(uintptr_t)data;

    if ((v & KNOWN) != 0 && (v >> DEVICE_SHIFT & DEVICE_MAX) == *(unsigned *)arg)
        vcu_handle_set_data(handle, VGP_H_ARRAY, NULL);
}

/* The worker ends the arrays of a context with it; their handles stay, without an object. */
static void context_ending(struct vcu_context *c)
{
    unsigned device = (unsigned)c->device;

    if (c->handle == vcu.devices[c->device].primary)
        vcu_handle_each(VGP_H_ARRAY, forget_of_device, &device);
}

const struct vcu_unit_ops vcu_array_unit = {.context_ending = context_ending};
