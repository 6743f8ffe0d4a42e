/* SPDX-License-Identifier: MIT */
/*
 * A client that can write any bytes into its window, as a hostile guest process can, over the
 * socket or, for a path in /dev, over the guest's driver. No CUDA library is involved.
 */
#ifndef RAW_H
#define RAW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "vgp_calls.h"
#include "vgp_ring.h"
#include "vgp_sock.h"

struct raw {
    int sock;                     /* the connection, or the open device */
    int bell;                     /* eventfd; -1 with the device */
    volatile uint16_t *bell_page; /* with the device */
    uint16_t bell_value;
    volatile struct vgp_window_shared *w;
    uint8_t *base, *ring;
    uint64_t window_size;
    uint32_t ring_size, slots, slot_size, reply_offset;
    uint64_t tail; /* published position */
    uint32_t seq;
    uint64_t context; /* copied into each record */
};

/* Connects and maps the window. 0, or -1 with a line on stderr. */
int raw_open(struct raw *r, const char *path);
void raw_close(struct raw *r);
/* Connects without HELLO; the descriptor or -1. */
int raw_connect(const char *path);

/*
 * Writes a record with the given header fields and argument bytes at the tail (with a pad record to
 * the start of the ring if it does not fit); does not publish.
 */
struct vgp_record *raw_put(struct raw *r, uint16_t call, const void *args, uint32_t args_size, uint32_t slot);
/* Publishes everything put so far and rings the doorbell. */
void raw_publish(struct raw *r);
/* Stores any tail value and rings the doorbell. */
void raw_publish_tail(struct raw *r, uint64_t tail);

/*
 * Makes a call with a reply in slot 0: the CUresult, -1 if the client is dead, -2 without an answer
 * in time. payload may be NULL.
 */
int raw_call(struct raw *r, uint16_t call, const void *args, uint32_t size, void *payload,
             uint32_t payload_size);
/* True if vgpPing returns the right value. */
bool raw_ping(struct raw *r);
bool raw_is_dead(const struct raw *r);
/* Waits for the end of this client: dead, a reason, a text, and the connection closed by the
 * broker. NULL, or the missing part. */
const char *raw_wait_dead(struct raw *r);
/* Waits until everything published is consumed, or the client is dead. False: neither in time. */
bool raw_settle(struct raw *r);

#define RAW_WAIT_MS 10000

#endif
