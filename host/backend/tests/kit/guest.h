/* SPDX-License-Identifier: MIT */
/* The smallest possible guest: one thread, one record at a time, over the socket transport. */
#ifndef GUEST_H
#define GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgp_ring.h"

struct guest {
    int sock, doorbell, memfd;
    uint8_t *win;
    struct vgp_window_shared *s;
    uint64_t window_size, tail, notify_head;
    uint32_t seq;
    bool batch; /* records are written, and published with the first one after it */
    uint64_t context;
    char refused[256];
};

/* 0, or -1 (g->refused has the reason if the broker refused). */
int guest_connect(struct guest *g, const char *path, const char *label);
void guest_close(struct guest *g);
/* Publishes a record; slot VGP_NO_REPLY: none. */
void guest_submit(struct guest *g, uint16_t call, uint32_t slot, const void *args, uint32_t size,
                  const void *var, uint32_t var_size);
/* Waits for the reply in a slot; the CUresult, or -1: timeout, -2: the worker or its broker is
 * gone. */
int guest_wait(struct guest *g, uint32_t slot, const void **payload, uint32_t *size, int ms);
/* Submit with slot 0 and wait, 5 s. */
int guest_call(struct guest *g, uint16_t call, const void *args, uint32_t size, const void **payload,
               uint32_t *psize);
/* Publishes raw bytes as they are, 16-byte aligned. */
void guest_raw(struct guest *g, const void *bytes, uint32_t size);
/* Waits until the worker is dead; false: still alive after ms. */
bool guest_wait_dead(struct guest *g, int ms);
/* Waits for the next notification of that type; copies its text or cookie. False after ms. */
bool guest_notification(struct guest *g, uint16_t type, uint64_t *cookie, char *text, int ms);
/* Collects text printed by the provider until it contains "(end)", or none arrives for 5 s. */
void guest_printed(struct guest *g, char *all, size_t size);
/* Retains the primary context under a fixed handle and makes it the record's context. */
int guest_context(struct guest *g);
int guest_alloc(struct guest *g, uint64_t bytes, uint64_t *dptr);
int guest_free(struct guest *g, uint64_t dptr);
/* cuMemCreate of device memory, and cuMemRelease. */
int guest_vmm_create(struct guest *g, uint64_t handle, uint64_t size);
int guest_vmm_release(struct guest *g, uint64_t handle);
/* cuMemsetD8Async, see testprov.h. */
int guest_memset(struct guest *g, uint64_t dst, uint8_t value, uint64_t n, uint64_t stream);
/* Ends the provider's long call, for which it waits up to 5 s. The CUresult. */
int guest_release(struct guest *g);
/* The result of the call with this number; -1: not yet, after ms. */
int guest_result_of(struct guest *g, unsigned slot, uint32_t seq, int ms);

/* vgpGraphNew: a graph with this handle, without a reply. */
void guest_graph_new(struct guest *g, uint64_t graph);
/* vgpGraphDestroy and vgpGraphInstantiate, with a reply: the result. */
int guest_graph_destroy(struct guest *g, uint64_t graph);
int guest_graph_instantiate(struct guest *g, uint64_t graph, uint64_t exec);

#endif
