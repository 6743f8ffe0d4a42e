/* SPDX-License-Identifier: MIT */
/* Shared code of the parts of conform_dmabuf. */
#ifndef DMABUF_H
#define DMABUF_H

#include <cuda.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE 4096u
#define BYTES (16 * PAGE)
#define WORDS (BYTES / 4)

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("FAIL: line %d: %s (errno %d)\n", __LINE__, #what, errno); \
            exit(1); \
        } \
    } while (0)
#define OK(call) dm_is((call), CUDA_SUCCESS, #call, __LINE__)
#define RC(call, want) dm_is((call), (want), #call, __LINE__)

/* Ends the program with status 1 unless the result is as expected. */
void dm_is(CUresult got, CUresult want, const char *call, int line);
/* Ends the program with status 77; errno says why. */
void dm_not_run(const char *why) __attribute__((noreturn));
/* A context and the kernels; not run on a GPU without dma-bufs of pinned memory. */
void dm_gpu(void);
/* A kernel of those: fill, spin. */
CUfunction dm_kernel(const char *name);
/* Sets word i to v + i; checks it. */
void dm_fill(CUdeviceptr p, unsigned n, unsigned v);
bool dm_filled(const volatile uint32_t *p, unsigned n, unsigned v);
/* cuMemGetHandleForAddressRange, cuImportExternalMemory, cuExternalMemoryGetMappedBuffer, mmap of a
 * dma-buf. */
CUresult dm_range(int *fd, const void *p, size_t size);
CUresult dm_import(CUexternalMemory *m, int fd, unsigned long long size);
CUdeviceptr dm_buffer(CUexternalMemory m, uint64_t offset, uint64_t size);
uint32_t *dm_map(int fd, size_t size);
/* Imports a dma-buf of BYTES twice, and uses it by all means; the bytes are at `seen`, too. */
void dm_use_import(int fd, uint32_t *seen);

/* The tests and the other processes of dmabuf_peer.c; `dm_channel` leads to the test that started
 * it. */
extern int dm_channel;
void dm_exporter_killed(void);
void dm_exporter_exits(void);
void dm_importer_killed(void);
void dm_role_exporter(void);
void dm_role_importer(void);

#endif
