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

/* Value of every byte of a handle that only drivers may see. */
#define IPC_MARK 0xa7

#define VALUE_NVML 0xb9         /* NVML reports n MiB for this process */
#define VALUE_RELEASE 0xba      /* ends the long calls; INVALID_VALUE: none in progress */
#define LONG_BYTES (5u * 4096u) /* size of a registration or limit that takes long */
#define VALUE_CACHE 0xbb        /* the folder for compiled code, testprov_cache.c; n is one of: */
/* to MPS, and to the sockets of $VGPU_TEST_OTHER_SOCKET: testprov_cache.c */
#define VALUE_CONNECT 0xbc
#define CACHE_COUNT 0u /* print how often this was run in the folder */
/* print whether the folder $VGPU_TEST_OTHER_CACHE can be read, written, removed */
#define CACHE_OTHER 1u
/* write until nothing fits, folders without rights, and folders in folders */
#define CACHE_FLOOD 2u
#define BAD_LIMIT 12345u              /* limit refused by the provider */
#define BAD_ARRAY (LONG_BYTES + 4096) /* width of an array whose destruction takes long, and is refused */

/* A context created with this flag takes long to end. */
#define LONG_CONTEXT CU_CTX_LMEM_RESIZE_TO_MAX
/* A context created with this flag is not ended by cuCtxDestroy(). */
#define KEPT_CONTEXT CU_CTX_SCHED_BLOCKING_SYNC
/* The second context created with this flag has the address of the first; its creation fails until
 * the first begins to end. */
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
/* Returns at once for contexts without LONG_CONTEXT. */
void testprov_context_long(CUcontext c);
bool testprov_context_kept(CUcontext c);

/* testprov_obj.c */
void testprov_context_ends(void);
/* Takes a reference to the primary context, dropped by cuDevicePrimaryCtxRelease(). */
void testprov_primary_hold(void);
/* The context of the green context that was made last. */
bool testprov_is_green(CUcontext c);
/* The context of the green context that ended last. */
bool testprov_green_ended(const void *context);

/* testprov_graph.c: ends a capture that began in the stream, with its graph. */
void testprov_stream_ends(CUstream s);
/* Same file: invalidates the stream's capture, as a query does. True: the stream is captured. */
bool testprov_stream_asked(CUstream s);

/* True if the object named by a graph node still exists. */
bool testprov_event_live(const void *e);
bool testprov_array_live(const void *a);
bool testprov_function_live(const void *f);

/*
 * testprov_gpu.c. Without $VGPU_TEST_GPU, work of n completes n milliseconds from now, independent
 * of other work. With it, all workers share a GPU, the file of that name: work runs in order of
 * arrival, n microseconds each, TESTPROV_DEAR times as long if `dear`. Returns the time of
 * completion.
 */
#define TESTPROV_DEAR 20u
#define TESTPROV_CLIENTS 64u
struct testprov_gpu {
    unsigned long long until_ns; /* completion of all work so far */
    struct {
        unsigned pid;
        unsigned pieces;
        unsigned long long used_ns;
        unsigned long long waited_ns; /* time spent waiting for earlier work of other workers */
    } of[TESTPROV_CLIENTS];
};
unsigned long long testprov_gpu(size_t n, bool dear, unsigned long long after_ns);

/* testprov_code.c */
void testprov_modules_end(void);
CUmodule testprov_module(void);
/* Unloading it takes long, as where the driver waits for work that may run its code. */
void testprov_module_slow(CUmodule m);

/* testprov.c: what is current on this thread. */
CUcontext testprov_current(void);

#endif
