/* SPDX-License-Identifier: MIT */
/*
 * Functions that a provider may export in addition to those of cuda.h, as the software GPU does. A
 * provider without them is used without the related features. Part of the provider's table
 * (vgp_provider.h).
 */
#ifndef VGP_PROVIDER_EXT_H
#define VGP_PROVIDER_EXT_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reason for the failure of this thread's latest call: a line of text, possibly empty. Valid until
 * the next call. */
const char *sg_last_error_detail(void);
/* Receivers of printf output of kernels and of messages of failed asserts; called on any thread. */
void sg_set_print_sink(void (*fn)(void *ctx, const char *text, size_t len), void *ctx);
void sg_set_error_sink(void (*fn)(void *ctx, const char *text, size_t len), void *ctx);
/*
 * Sets the function that grants `bytes` of device memory to the variables of a module, or of a
 * library in a context; false: the load fails with CUDA_ERROR_OUT_OF_MEMORY. It runs on the loading
 * thread, which holds the lock of the library or module. To be called before the first load.
 */
void sg_set_room(bool (*fn)(void *arg, uint64_t bytes), void *arg);
/*
 * Bytes of device memory used by this process on all devices, exact to the byte. Needs no context.
 * The heap of kernels counts with what it may take beyond its default size.
 * Any thread.
 */
uint64_t sg_memory_held(void);
/*
 * Operations of all streams: how many were issued since the start, and how many of them have ended. Of
 * a moment at which another thread issues or ends some, no more than had been issued have ended. Any
 * thread; needs no context and takes no lock.
 */
void sg_operations(uint64_t *issued, uint64_t *ended);
/* Sets the value by which kernels launch an executable graph: the client's handle. */
CUresult sg_graph_exec_name(CUgraphExec hGraphExec, uint64_t name);

/*
 * Registers private memory of the loading program until process exit, to be hidden from guests: it
 * is page-locked for copies that name it as host memory, and inaccessible to kernels, memsets,
 * other copies and pointer queries. To be called before the first copy; needs no context.
 */
CUresult sg_host_register_private(void *p, size_t size);

/*
 * Has fn(arg, r) called once the work of the event's latest record is complete, also if it failed, on
 * the thread that completes work of the stream: earlier than a thread could be woken that waits in
 * cuEventSynchronize(). r is what that call would return. fn may call the API, but must not wait for
 * work, not even for the event: it may have been recorded again. False: it will not be called; the
 * caller queries or waits as before (the work is complete already, was recorded by another process,
 * or memory is short). Any thread; needs no context.
 */
bool sg_event_when(CUevent event, void (*fn)(void *arg, CUresult r), void *arg);

/* Sets whether linear copies issued by this thread use non-temporal stores: for a reader on a
 * processor that shares no cache with the writer, or for sizes beyond the caches. */
void sg_copy_past_caches(bool past);

/*
 * Lists live objects of programs as text, for tests; at most `size` bytes including the final NUL.
 */
void sg_books(char *text, size_t size);

/* Provider of memory that other processes may open; host/softgpu/memory/share.h describes the
 * members. */
struct sg_share_ops {
    int (*create)(void *arg, uint32_t kind, uint64_t bytes, uint8_t *token, uint32_t *holder);
    int (*open)(void *arg, uint32_t kind, const uint8_t *token, uint32_t *holder);
    void (*close)(void *arg, const uint8_t *token);
    int (*again)(void *arg, const uint8_t *token);
    bool (*gone)(void *arg, uint32_t holder);
};
void sg_set_share(const struct sg_share_ops *ops, void *arg);
/* Called when a process that held shared events of this process has ended: work it recorded in this
 * process's name completes. Any thread. */
void sg_share_holder_gone(void);

#endif
