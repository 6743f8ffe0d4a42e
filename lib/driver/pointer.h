/* SPDX-License-Identifier: MIT */
/* Pointer attributes, computed from a driver's knowledge of an address. */
#ifndef CUA_POINTER_H
#define CUA_POINTER_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

/* A reservation of addresses, and the mapping in it, around an address. size 0: none; map_size
   0: not mapped. */
struct cua_reserved {
    uint64_t base, size, map_base, map_size;
    uint64_t id; /* of the mapped memory, unique in the process */
    int device;  /* its ordinal */
};

struct cua_pointer {
    CUdeviceptr address;
    struct cua_reserved reserved;
    /* the address is in CUDA memory; false: ignore the fields below */
    bool known;
    bool host, managed, read_only;
    bool no_access; /* mapped, but no device may access it: it has no device address */
    bool sync_memops;
    bool ipc;              /* cuIpcGetMemHandle accepts it */
    int device;            /* ordinal */
    uint64_t base, size;   /* of the allocation, bytes */
    uint64_t id;           /* id of the allocation, unique in the process */
    CUdeviceptr on_device; /* address for the device; 0: none */
    uint64_t context;      /* handle of the owning context; 0: none */
    uint64_t pool;         /* handle of the pool; 0: none */
    /* CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; NULL: never. */
    CUresult (*decompress)(const struct cua_pointer *p, bool *capable);
};

/* cuPointerGetAttribute. INVALID_VALUE if the address lacks the property; nothing is written then, except
   NULL for an address that known memory does not have. */
CUresult cua_pointer_attribute(const struct cua_pointer *p, void *data, CUpointer_attribute attribute);
/* cuPointerGetAttributes: a missing property is not an error and reads as zero, the device as
   -2. */
CUresult cua_pointer_attributes(const struct cua_pointer *p, unsigned n,
                                const CUpointer_attribute *attributes, void **data);

#endif
