/* SPDX-License-Identifier: MIT */
/* Pointer attributes, from what a driver knows about an address. */
#ifndef CUA_POINTER_H
#define CUA_POINTER_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

/* A reservation of addresses around an address, and the mapping in it. size 0: none; map_size 0: not mapped. */
struct cua_reserved {
    uint64_t base, size, map_base, map_size;
};

struct cua_pointer {
    CUdeviceptr address;
    struct cua_reserved reserved;
    bool known; /* in memory of CUDA's that the device may reach; false: the fields below are not read */
    bool host, managed, read_only;
    bool sync_memops;
    bool ipc;              /* cuIpcGetMemHandle takes it */
    int device;            /* ordinal */
    uint64_t base, size;   /* of the allocation */
    uint64_t id;           /* of the allocation, unique in the process */
    CUdeviceptr on_device; /* the address for the device, 0: none */
    uint64_t context;      /* handle of the owner, 0: none */
    uint64_t pool;         /* handle of its pool, 0: none */
    /* CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; NULL: never. */
    CUresult (*decompress)(const struct cua_pointer *p, bool *capable);
};

/* cuPointerGetAttribute. INVALID_VALUE, and nothing is written: the address has no such property. */
CUresult cua_pointer_attribute(const struct cua_pointer *p, void *data, CUpointer_attribute attribute);
/* cuPointerGetAttributes: a missing property is no error and reads as zero, the device as -2. */
CUresult cua_pointer_attributes(const struct cua_pointer *p, unsigned n,
                                const CUpointer_attribute *attributes, void **data);

#endif
