/* SPDX-License-Identifier: MIT */
/* One normal form for every copy: up to three dimensions, host or device on either side. */
#ifndef VCU_COPY_H
#define VCU_COPY_H

#include "memory.h"

/* Size in bytes from which a call's host memory is checked to be mapped. */
#define VCU_ASK_ABOVE (64u << 20)

struct vcu_copy_end {
    bool device;
    uint64_t addr;   /* address of the first copied byte */
    uint64_t pitch;  /* row pitch, bytes */
    uint64_t height; /* plane pitch, rows */
    /* an array: device is set, addr is its handle, and the copy begins at byte x of row y of slice
     * z */
    bool array;
    uint64_t x, y, z;
    bool guessed; /* the call does not say whether it is device memory */
};

struct vcu_copy {
    struct vcu_copy_end dst, src;
    uint64_t width;         /* bytes */
    uint64_t height, depth; /* rows, planes */
    CUstream stream;
    bool async;
    CUcontext dst_context, src_context; /* for copies between contexts; else NULL */
};

/* Wire form of a side: kind, and the values of pitch and height for byte x of row y of plane z. */
static inline uint32_t vcu_copy_wire_kind(const struct vcu_copy_end *e)
{
    return e->array ? VGP_COPY_ARRAY : e->device ? VGP_COPY_DEVICE : VGP_COPY_HOST;
}

static inline uint64_t vcu_copy_wire_pitch(const struct vcu_copy_end *e, uint64_t z, uint64_t y, uint64_t x)
{
    return e->array ? VGP_COPY_AT(e->x + x, e->y + y, e->z + z) : e->pitch;
}

static inline uint64_t vcu_copy_wire_height(const struct vcu_copy_end *e, uint64_t height)
{
    return e->array ? 0 : height;
}

/* Linear copy of n bytes. */
CUresult vcu_copy_linear(const char *call, bool dst_device, uint64_t dst, bool src_device, uint64_t src,
                         uint64_t n, CUstream stream, bool async);
/* Same with two addresses of either kind: an address outside known device memory is host memory. */
CUresult vcu_copy_unified(const char *call, uint64_t dst, uint64_t src, uint64_t n, CUstream stream,
                          bool async);
/* A 3D copy; the contexts are NULL, or those of its sides. */
CUresult vcu_copy_3d(const char *call, const CUDA_MEMCPY3D *p, CUcontext dst_context, CUcontext src_context,
                     CUstream stream, bool async);
/* Checks and runs a copy; context and stream are checked here. */
CUresult vcu_copy_run(const char *call, struct vcu_copy *c);
static inline uint64_t vcu_copy_row_at(const struct vcu_copy_end *e, uint64_t z, uint64_t y)
{
    return e->addr + (z * e->height + y) * e->pitch;
}

/* Copies rows between strided host memory and packed bytes: rows [y, y + rows) of plane z, bytes
   [x, x + width) of each. */
void vcu_copy_pack(uint8_t *packed, const struct vcu_copy_end *e, uint64_t z, uint64_t y, uint64_t x,
                   uint64_t width, uint64_t rows, bool to_host);
/*
 * vcu_copy_staged.c: copies between the memory of the program and the device through pieces of the
 * staging area. An upload that is not asynchronous, and every download, is complete on return.
 */
CUresult vcu_copy_upload_staged(const struct vcu_copy *c, enum vgp_observed observed);
CUresult vcu_copy_download_staged(const struct vcu_copy *c);
/* True if a staged upload that need not wait should wait, to measure which kind of stores is
 * faster. */
bool vcu_copy_to_be_measured(const struct vcu_copy *c);
/* Extent of one side in bytes, from the first to the last byte; 0 = overflow. */
uint64_t vcu_copy_extent(const struct vcu_copy_end *e, const struct vcu_copy *c);
/* Immediate checks: simplifies the copy and computes both extents. CUDA_SUCCESS with *to == 0:
 * nothing to copy. */
CUresult vcu_copy_check(const char *call, struct vcu_copy *c, uint64_t *to, uint64_t *from);
/* False: a host side is known to be unmapped. extent: of that side. */
bool vcu_copy_host_ok(const struct vcu_copy_end *e, uint64_t extent);
/* The normal form of a 3D copy, with the checks of its parameters. */
CUresult vcu_copy_from_3d(const char *call, const CUDA_MEMCPY3D *p, struct vcu_copy *c);

/* Pure part, for the test: merges rows and planes that follow each other without a gap. */
void vcu_copy_simplify(struct vcu_copy *c);

/* ---- vcu_memcpy.c ---- */

/*
 * Fills n elements of `element` bytes (1, 2 or 4), or `height` rows of `width` elements, `pitch` bytes apart. A per-thread
 * variant puts the fill into the thread's own stream, and waits for it where the memory is the host's, as the driver does.
 */
CUresult vcu_memset_row(CUdeviceptr dst, unsigned element, uint32_t value, size_t n);
CUresult vcu_memset_rows(CUdeviceptr dst, size_t pitch, unsigned element, uint32_t value, size_t width,
                         size_t height);
/* limited: the pitch may not exceed the device's maximum. */
CUresult vcu_copy_2d(const char *call, const CUDA_MEMCPY2D *p, bool limited, CUstream stream, bool async);
/* A single worker has all devices of the process in one address space: inside of one device a peer
 * copy is a device copy. */
CUresult vcu_copy_peer(const char *call, CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                       CUcontext src_context, size_t n, CUstream stream, bool async);
/* Source or destination of a single-row copy. */
enum vcu_row { VCU_ROW_HOST, VCU_ROW_DEVICE, VCU_ROW_ARRAY };
/* A copy of n bytes; dst_x and src_x: bytes from the start of an array, 0 for memory. */
CUresult vcu_copy_row(const char *call, enum vcu_row dst_kind, uint64_t dst, size_t dst_x,
                      enum vcu_row src_kind, uint64_t src, size_t src_x, size_t n, CUstream stream,
                      bool async);

/* ---- vcu_copy_batch.c ---- */

/* Brings a copy between two contexts into *plain; the contexts are checked. */
CUresult vcu_peer_3d(const char *call, const CUDA_MEMCPY3D_PEER *p, CUDA_MEMCPY3D *plain);
/* How lib/driver/copy_batch.h issues each copy of a batch. */
extern const struct cua_batch_ops vcu_batch_ops;

#endif
