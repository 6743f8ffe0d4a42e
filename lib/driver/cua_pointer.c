/* SPDX-License-Identifier: MIT */
#include "pointer.h"

#include <string.h>

/* Size of an attribute's value in bytes, according to cuda.h, and of what it calls a boolean as the driver
   writes it (580): a program may pass an int. 0: unknown attribute. */
static size_t pointer_width(CUpointer_attribute attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: /* as wide as cuPointerSetAttribute takes it */
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return sizeof(uint32_t);
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return sizeof(uint64_t);
    default:
        return 0;
    }
}

static void pointer_write(void *data, size_t width, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;

    memcpy(data, width == sizeof(value) ? (void *)&value : (void *)&narrow, width);
}

/*
 * Attributes of a reserved address where memory is mapped. Returns false for other attributes. RANGE is
 * the reservation and MAPPING the mapping in it, according to cuda.h.
 */
static bool pointer_of_reserved(const struct cua_reserved *v, CUpointer_attribute attribute, uint64_t *value)
{
    if (v->map_size == 0)
        return false;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *value = v->base;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *value = v->size;
        return true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *value = 1;
        return true;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *value = v->map_base;
        return true;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *value = v->map_size;
        return true;
    default:
        return false;
    }
}

/* A property of known memory; false: it does not have that. */
static bool pointer_of_memory(const struct cua_pointer *p, CUpointer_attribute attribute, uint64_t *value)
{
    *value = 0;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *value = p->context;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *value = p->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *value = p->on_device;
        return p->on_device != 0;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *value = p->address;
        return p->host || p->managed;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *value = p->sync_memops;
        return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *value = p->id;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *value = p->managed;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *value = (uint64_t)p->device;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *value = p->base;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *value = p->size;
        return true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *value = p->on_device != 0;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *value = p->ipc;
        return true;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *value = p->no_access   ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE
                 : p->read_only ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *value = p->pool;
        return true;
    default: /* no memory has the property */
        return true;
    }
}

/* The value of an attribute of known size. */
static CUresult pointer_value(const struct cua_pointer *p, CUpointer_attribute attribute, uint64_t *value)
{
    bool capable = false;
    CUresult r;

    if (pointer_of_reserved(&p->reserved, attribute, value))
        return CUDA_SUCCESS;
    if (!p->known || !pointer_of_memory(p, attribute, value))
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute != CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE || p->decompress == NULL)
        return CUDA_SUCCESS;
    r = p->decompress(p, &capable);
    *value = capable;
    return r;
}

/* Memory that has no address on one side: NULL is written, although that is an error (driver 580). */
static bool pointer_lacks_address(const struct cua_pointer *p, CUpointer_attribute attribute)
{
    return p->known && (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
                        attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER);
}

CUresult cua_pointer_attribute(const struct cua_pointer *p, void *data, CUpointer_attribute attribute)
{
    size_t width = pointer_width(attribute);
    uint64_t value;
    CUresult r = data == NULL || width == 0 ? CUDA_ERROR_INVALID_VALUE : pointer_value(p, attribute, &value);

    if (r != CUDA_SUCCESS && pointer_lacks_address(p, attribute) && data != NULL)
        value = 0;
    else if (r != CUDA_SUCCESS)
        return r;
    pointer_write(data, width, value);
    return r;
}

CUresult cua_pointer_attributes(const struct cua_pointer *p, unsigned n,
                                const CUpointer_attribute *attributes, void **data)
{
    if (n == 0 || attributes == NULL || data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        size_t width = pointer_width(attributes[i]);
        uint64_t value;

        if (data[i] == NULL || width == 0)
            return CUDA_ERROR_INVALID_VALUE;
        if (pointer_value(p, attributes[i], &value) != CUDA_SUCCESS)
            value = attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? (uint64_t)-2 : 0;
        pointer_write(data[i], width, value);
    }
    return CUDA_SUCCESS;
}
