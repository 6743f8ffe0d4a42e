/* SPDX-License-Identifier: MIT */
/* Shared code of the parts of conform_dmabuf. */
#ifndef DMABUF_H
#define DMABUF_H

#include "check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE 4096u
#define BYTES (16 * PAGE)
#define WORDS (BYTES / 4)

/* Creates a context and loads the kernels; not run on a GPU without dma-bufs of pinned memory. */
void dm_gpu(void);
/* Returns a kernel: fill, spin. */
CUfunction dm_kernel(const char *name);
/* Sets word i to v + i; dm_filled() checks that. */
void dm_fill(CUdeviceptr p, unsigned n, unsigned v);
bool dm_filled(const volatile uint32_t *p, unsigned n, unsigned v);
/* cuMemGetHandleForAddressRange, cuImportExternalMemory, cuExternalMemoryGetMappedBuffer, mmap of a
 * dma-buf. */
CUresult dm_range(int *fd, const void *p, size_t size);
CUresult dm_import(CUexternalMemory *m, int fd, unsigned long long size);
CUdeviceptr dm_buffer(CUexternalMemory m, uint64_t offset, uint64_t size);
uint32_t *dm_map(int fd, size_t size);
/*
 * Imports a dma-buf of BYTES twice, and uses it in all ways; the bytes are also mapped at `seen`.
 */
void dm_use_import(int fd, uint32_t *seen);

/* Prints "holding" and returns after SIGUSR1. */
void dm_hold(void);

/* The tests of dmabuf_drm.c. */
void dm_vgem_import(void);
void dm_vgem_first(void);
void dm_vgem_readonly(void);
void dm_vgem_export(void);
void dm_virtio_gpu_import(void);
void dm_virtio_gpu_first(void);
void dm_virtio_gpu_readonly(void);
void dm_virtio_gpu_resource(void);
void dm_virtio_gpu_export(void);
void dm_virtio_gpu_hold(void);

/*
 * Tests and other processes of dmabuf_peer.c; `dm_channel` is connected to the test that started
 * the process.
 */
extern int dm_channel;
void dm_exporter_killed(void);
void dm_exporter_exits(void);
void dm_importer_killed(void);
void dm_role_exporter(void);
void dm_role_importer(void);

#endif
