/* SPDX-License-Identifier: MIT */
/*
 * Functions that a provider may export beside those of cuda.h. The software GPU has them; a provider
 * without them is used without what they are for. Part of the provider's table (vgp_provider.h).
 */
#ifndef VGP_PROVIDER_EXT_H
#define VGP_PROVIDER_EXT_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why the latest call of this thread failed: one line, or an empty one. Valid until the next call. */
const char *sg_last_error_detail(void);
/* Receivers of what kernels print, and of the messages of failed asserts; any thread calls them. */
void sg_set_print_sink(void (*fn)(void *ctx, const char *text, size_t len), void *ctx);
void sg_set_error_sink(void (*fn)(void *ctx, const char *text, size_t len), void *ctx);
/* The name by which kernels launch an executable graph: the handle that the client has for it. */
CUresult sg_graph_exec_name(CUgraphExec hGraphExec, uint64_t name);

/*
 * Memory of the loading program's own, until the process ends, of which guests must not know: page-locked for copies
 * that name it as host memory, and nothing at all for kernels, memsets, other copies and questions about pointers.
 * Before the first copy; needs no context.
 */
CUresult sg_host_register_private(void *p, size_t size);

/*
 * Whether linear copies that this thread issues from here on are to be stored past the caches: where the reader is
 * a processor that shares none with the writer, or the bytes are more than the caches hold.
 */
void sg_copy_past_caches(bool past);

/* What programs have made and not given back, as text, for tests; at most `size` bytes with the final zero. */
void sg_books(char *text, size_t size);

/* Who makes memory that other processes may open; host/softgpu/memory/share.h describes the members. */
struct sg_share_ops {
    int (*create)(void *arg, uint32_t kind, uint64_t bytes, uint8_t *token, uint32_t *holder);
    int (*open)(void *arg, uint32_t kind, const uint8_t *token, uint32_t *holder);
    void (*close)(void *arg, const uint8_t *token);
    int (*again)(void *arg, const uint8_t *token);
    bool (*gone)(void *arg, uint32_t holder);
};
void sg_set_share(const struct sg_share_ops *ops, void *arg);
/* A process that had shared events of this one has gone: what it recorded in this one's name completes. Any thread. */
void sg_share_holder_gone(void);

#endif
