/* SPDX-License-Identifier: MIT */
/*
 * Batches of copies (cuMemcpyBatchAsync, cuMemcpy3DBatchAsync). A batch as a whole keeps stream
 * order and has no internal order, so executing its copies in sequence is valid.
 */
#ifndef CUA_COPY_BATCH_H
#define CUA_COPY_BATCH_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

/* The driver's copies. `call` names the entry point in error messages. */
struct cua_batch_ops {
    /* Checks context and stream; refuses the legacy default stream and captured streams. */
    CUresult (*check_stream)(const char *call, CUstream stream);
    /* True: copies read the source in stream order. False: pageable memory, read when the copy
       is issued. */
    bool (*source_in_order)(CUdeviceptr src, size_t bytes);
    /* Copies between two addresses of any kind. async false: the caller synchronizes the stream
       afterwards. */
    CUresult (*copy)(const char *call, CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream,
                     bool async);
    CUresult (*copy_3d)(const CUDA_MEMCPY3D *p, CUstream stream);
    CUresult (*synchronize)(CUstream stream);
    /* Size of an array element in bytes; 0 is refused. */
    CUresult (*element)(const char *call, CUarray array, size_t *bytes);
};

/* Implementations of the calls. failed: index of the copy that failed, SIZE_MAX if no single
   copy did; may be NULL. */
CUresult cua_copy_batch(const struct cua_batch_ops *ops, const CUdeviceptr *dsts, const CUdeviceptr *srcs,
                        const size_t *sizes, size_t count, const CUmemcpyAttributes *attrs,
                        const size_t *first, size_t nattrs, size_t *failed, CUstream stream);
CUresult cua_copy_batch_3d(const struct cua_batch_ops *ops, size_t n, const CUDA_MEMCPY3D_BATCH_OP *list,
                           size_t *failed, unsigned long long flags, CUstream stream);

#endif
