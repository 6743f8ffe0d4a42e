/* SPDX-License-Identifier: MIT */
/* Objects shared with other workers of this VM: wrk_share.c. */
#ifndef WRK_SHARE_H
#define WRK_SHARE_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct wrk_worker;

/* Offers sharing to the provider. Dispatcher, before the sandbox. */
void wrk_share_init(struct wrk_worker *w);
/* Token of the object that the provider created last; false: none since the last
 * wrk_share_forget(). */
bool wrk_share_latest(uint8_t *token);
void wrk_share_forget(void);
/* Opens an object of another worker (kind FD): a descriptor, or -1. Dispatcher. */
int wrk_share_open(struct wrk_worker *w, const uint8_t *token, uint64_t *length);
/* Drops a reference from an open or create. Any thread. */
void wrk_share_drop(struct wrk_worker *w, const uint8_t *token);
/* Sends the broker the drops made on other threads. Dispatcher. */
void wrk_share_flush(struct wrk_worker *w);
/* True if drops wait for wrk_share_flush(). Any thread. */
bool wrk_share_pending(void);
/* Store the bytes of a provider's own handle under a token, and fetch them by token. Dispatcher. */
CUresult wrk_share_put(struct wrk_worker *w, const void *payload, uint64_t device_bytes, uint8_t *token);
CUresult wrk_share_get(struct wrk_worker *w, const uint8_t *token, void *payload);

/* Called when a client that held shared events of this client has ended: work it recorded in this
 * client's name completes. */
void wrk_share_holder_gone(void);

/* CU_MEM_HANDLE_TYPE_* bits that can be served: file descriptors, if the provider gets its memory
 * through this interface. */
uint32_t wrk_share_handle_types(void);

#endif
