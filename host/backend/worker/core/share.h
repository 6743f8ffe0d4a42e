/* SPDX-License-Identifier: MIT */
/* What other workers of this VM may open: share.c. */
#ifndef WRK_SHARE_H
#define WRK_SHARE_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct wrk_worker;

/* Offers it to the provider. Dispatcher, before the sandbox. */
void wrk_share_init(struct wrk_worker *w);
/* The token that the provider got for the latest thing it made; false: it made nothing since the
 * last wrk_share_forget(). */
bool wrk_share_latest(uint8_t *token);
void wrk_share_forget(void);
/* Opens what another worker has made (kind FD): a descriptor, or -1. Dispatcher. */
int wrk_share_open(struct wrk_worker *w, const uint8_t *token, uint64_t *length);
/* One open (or create) less; any thread. */
void wrk_share_drop(struct wrk_worker *w, const uint8_t *token);
/* Tells the broker what other threads have dropped. Dispatcher. */
void wrk_share_flush(struct wrk_worker *w);
/* True if something dropped waits for wrk_share_flush(); any thread. */
bool wrk_share_pending(void);
/* Bytes of a provider's own handle: a token for them, and what is behind one. Dispatcher. */
CUresult wrk_share_put(struct wrk_worker *w, const void *payload, uint64_t device_bytes, uint8_t *token);
CUresult wrk_share_get(struct wrk_worker *w, const uint8_t *token, void *payload);

/* A client that had shared events of this one has ended; what it recorded in this one's name completes. */
void wrk_share_holder_gone(void);

/* CU_MEM_HANDLE_TYPE_* that can be served: descriptors, when the provider asks for its memory. */
uint32_t wrk_share_handle_types(void);

#endif
