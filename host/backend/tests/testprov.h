/* SPDX-License-Identifier: MIT */
#ifndef TESTPROV_H
#define TESTPROV_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#define VALUE_BUSY 0xb1
#define VALUE_CRASH 0xb2
#define VALUE_SYSCALL 0xb3
#define VALUE_FAULT 0xb4
#define VALUE_PRINT 0xb5
#define VALUE_ASSERT 0xb6
#define VALUE_SHM 0xb7
#define VALUE_ENVIRON 0xb8

/* Every byte of a handle that only drivers may see. */
#define IPC_MARK 0xa7

#define VALUE_NVML 0xb9         /* NVML says that this process has n MiB */
#define VALUE_RELEASE 0xba      /* what is long ends; INVALID_VALUE: nothing was */
#define LONG_BYTES (5u * 4096u) /* of a registration or a limit that takes long */
#define VALUE_CACHE 0xbb        /* the folder for compiled code, testprov_cache.c: n is one of */
#define VALUE_CONNECT 0xbc      /* to MPS, and to the sockets of $VGPU_TEST_OTHER_SOCKET: testprov_cache.c */
#define CACHE_COUNT 0u          /* print how often this was done in the folder */
#define CACHE_OTHER 1u   /* print whether that of $VGPU_TEST_OTHER_CACHE can be read, written, removed */
#define CACHE_FLOOD 2u   /* write until nothing fits, folders without rights, and folders in folders */
#define BAD_LIMIT 12345u /* a limit that the provider refuses */

/* A context made with this takes long to end. */
#define LONG_CONTEXT CU_CTX_LMEM_RESIZE_TO_MAX
/* The second one that is made with this has the address of the first; it fails until the end of that one has begun. */
#define SAME_CONTEXT CU_CTX_MAP_HOST

/* testprov_cache.c */
int testprov_cache(unsigned what);
void testprov_connect(void);

/* testprov_host.c */
extern unsigned long long testprov_nvml_bytes;

/* testprov_long.c */
void testprov_long(void);
unsigned testprov_release(void);
CUcontext testprov_context(unsigned flags);
/* Returns at once for a context without LONG_CONTEXT. */
void testprov_context_long(CUcontext c);

/* testprov_obj.c */
void testprov_context_ends(void);
/* One reference more to the primary context; cuDevicePrimaryCtxRelease() takes it back. */
void testprov_primary_hold(void);

/* testprov_graph.c: a capture that began in the stream ends with it, and with its graph. */
void testprov_stream_ends(CUstream s);
/* The same file: a question about the stream invalidates its capture. True: it is captured. */
bool testprov_stream_asked(CUstream s);

/* Is what a node of a graph names still there? */
bool testprov_event_live(const void *e);
bool testprov_array_live(const void *a);
bool testprov_function_live(const void *f);

/*
 * testprov_gpu.c. Without $VGPU_TEST_GPU work of n is ready n milliseconds from now, whatever else there is. With it
 * all workers have one GPU, the file of that name: one piece of work after the other, in the order in which they
 * came, n microseconds each, TESTPROV_DEAR times as long when `dear`. Returns when it is ready.
 */
#define TESTPROV_DEAR 20u
#define TESTPROV_CLIENTS 64u
struct testprov_gpu {
    unsigned long long until_ns; /* all that came is ready then */
    struct {
        unsigned pid;
        unsigned pieces;
        unsigned long long used_ns;
        unsigned long long waited_ns; /* for work of others, that came before */
    } of[TESTPROV_CLIENTS];
};
unsigned long long testprov_gpu(size_t n, bool dear, unsigned long long after_ns);

/* testprov_code.c */
void testprov_modules_end(void);
CUmodule testprov_module(void);

#endif
