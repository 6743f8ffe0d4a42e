/* SPDX-License-Identifier: MIT */
/*
 * The vhost-user back end: what QEMU's -device vgpu-cuda talks to (docs/device.md, "Between QEMU
 * and the broker"; messages as in QEMU's docs/interop/vhost-user.rst). Files: vu_msg (what a
 * message may look like), vu_mem (guest memory), vu_queue (virtqueues), vu_device (requests and
 * events of the guest driver), vu_conn (the connection). The guest is hostile: what is in its
 * memory is copied once. QEMU is the owner of this VM: its messages are checked, so that a bug
 * there is found here.
 */
#ifndef VGB_VU_H
#define VGB_VU_H

#include "broker.h"

/* ---- vu_msg.c ---- */

enum vu_request {
    VU_GET_FEATURES = 1,
    VU_SET_FEATURES = 2,
    VU_SET_OWNER = 3,
    VU_RESET_OWNER = 4,
    VU_SET_MEM_TABLE = 5,
    VU_SET_VRING_NUM = 8,
    VU_SET_VRING_ADDR = 9,
    VU_SET_VRING_BASE = 10,
    VU_GET_VRING_BASE = 11,
    VU_SET_VRING_KICK = 12,
    VU_SET_VRING_CALL = 13,
    VU_SET_VRING_ERR = 14,
    VU_GET_PROTOCOL_FEATURES = 15,
    VU_SET_PROTOCOL_FEATURES = 16,
    VU_GET_QUEUE_NUM = 17,
    VU_SET_VRING_ENABLE = 18,
    VU_GET_CONFIG = 24,
    VU_SET_CONFIG = 25,
};

#define VU_VERSION 1u
#define VU_FLAG_REPLY (1u << 2)
#define VU_FLAG_NEED_REPLY (1u << 3)

#define VU_F_PROTOCOL_FEATURES 30
#define VU_F_VERSION_1 32
#define VU_F_INDIRECT_DESC 28
#define VU_F_EVENT_IDX 29
#define VU_PF_MQ 0
#define VU_PF_REPLY_ACK 3
#define VU_PF_CONFIG 9

#define VU_REGIONS 8u     /* of one memory table: what the protocol allows */
#define VU_CONFIG_MAX 256u
#define VU_NOFD (1u << 8) /* in the u64 of KICK, CALL, ERR: no descriptor comes */

struct vu_header {
    uint32_t request, flags, size;
};

struct vu_region {
    uint64_t gpa, size, uva, offset;
};

struct vu_payload_mem {
    uint32_t nregions, padding;
    struct vu_region regions[VU_REGIONS];
};

struct vu_payload_state {
    uint32_t index, num;
};

struct vu_payload_addr {
    uint32_t index, flags;
    uint64_t desc, used, avail, log;
};

struct vu_payload_config {
    uint32_t offset, size, flags;
    uint8_t data[VU_CONFIG_MAX];
};

union vu_payload {
    uint64_t u64;
    struct vu_payload_mem mem;
    struct vu_payload_state state;
    struct vu_payload_addr addr;
    struct vu_payload_config config;
};

/* NULL: a header that can be served with that many descriptors; else what is wrong with it. */
const char *vu_header_check(const struct vu_header *h, unsigned nfds);
/* The same for header and payload together: sizes that depend on the content. */
const char *vu_payload_check(const struct vu_header *h, const union vu_payload *p, unsigned nfds);
const char *vu_request_name(uint32_t request);

/* ---- vu_mem.c ---- */

struct vu_map {
    struct vu_region r;
    int fd;
    uint8_t *base; /* of the region's first byte */
    void *mapping; /* whole mapping, from file offset 0 */
    uint64_t mapping_size;
    bool windows;  /* the BAR with the client windows: not guest RAM */
};

struct vu_mem {
    struct vu_map map[VU_REGIONS];
    unsigned n;
};

/* Replaces the table; takes the descriptors over. NULL or what is wrong (the table is empty then).
 * `windows_size`: size of the windows' BAR. */
const char *vu_mem_set(struct vu_mem *m, const struct vu_payload_mem *p, const int *fds,
                       uint64_t windows_size);
void vu_mem_clear(struct vu_mem *m);
/* Bytes of guest RAM at a guest-physical address; *n: in, wanted, out, contiguous here (<= wanted).
 * NULL: no RAM there. */
uint8_t *vu_mem_gpa(struct vu_mem *m, uint64_t gpa, uint64_t *n);
/* The same for QEMU's addresses, all `size` bytes or NULL. */
void *vu_mem_uva(struct vu_mem *m, uint64_t uva, uint64_t size);
/* One guest-physical run -> file ranges, appended. False: not all is guest RAM, or no room. */
bool vu_mem_run(struct vu_mem *m, uint64_t gpa, uint64_t len, struct vgb_map_run *runs, unsigned *n,
                unsigned room);
const struct vu_map *vu_mem_windows(const struct vu_mem *m);

/* ---- vu_queue.c ---- */

#define VU_QUEUE_SIZE_MAX 1024u
#define VU_SEGMENTS 260u /* of one chain; a PIN of 4096 runs in 4 KiB pages needs 18 */

struct vu_segment {
    uint64_t gpa;
    uint32_t len;
};

/* One chain, taken from the available ring. */
struct vu_chain {
    uint16_t head;
    unsigned nread, nwrite;
    struct vu_segment read[VU_SEGMENTS], write[VU_SEGMENTS];
};

struct vu_queue {
    uint32_t num;
    struct vu_payload_addr addr;
    bool have_addr;
    const uint8_t *desc;
    uint8_t *avail, *used; /* NULL: not usable with the present memory */
    uint16_t last_avail, used_idx;
    bool enabled, started;
    bool event_idx;
    uint32_t generation; /* +1 at every stop: late answers to an earlier life are dropped */
    struct vgb_source kick;
    int call, err;
};

/* Finds the rings in memory again. */
void vu_queue_remap(struct vu_queue *q, struct vu_mem *m);
/* 1: a chain was taken; 0: none there; -1: the ring is broken and no longer served. Chains that are
 * malformed are given back with length 0 and skipped. */
int vu_queue_pop(struct vu_queue *q, struct vu_mem *m, struct vu_chain *c);
void vu_queue_push(struct vu_queue *q, uint16_t head, uint32_t written);
/* Tells the driver, unless it asked not to be told. */
void vu_queue_notify(struct vu_queue *q, uint16_t old_used);
/* Copies at most `room` readable bytes; *total = how many the chain has. */
uint32_t vu_chain_read(struct vu_mem *m, const struct vu_chain *c, void *to, uint32_t room,
                       uint64_t *total);
/* Writes to the writable part; bytes written. */
uint32_t vu_chain_write(struct vu_mem *m, const struct vu_chain *c, const void *from,
                        uint32_t size);
uint64_t vu_chain_room(const struct vu_chain *c);

/* ---- vu_device.c ---- */

#define VU_CLIENTS_MAX 254u /* vhost-user can address 256 queues */
#define VU_QUEUES (VU_CLIENTS_MAX + VGPU_VQ_DOORBELL)

struct vu_request_state;
struct vu_slot {
    struct vgb_client *client;
    struct vu_request_state *pending; /* requests not answered yet */
    bool wake, dead, destroying;      /* events to send */
    bool dead_sent;
    uint32_t dead_reason;
};

struct vu_device {
    struct vgpu_config config; /* offer, then what QEMU set */
    bool configured;
    uint64_t features;
    struct vu_mem mem;
    int windows_fd;            /* own duplicate */
    uint64_t windows_offset;
    struct vu_queue queue[VU_QUEUES];
    struct vu_slot slot[VU_CLIENTS_MAX];
    unsigned nclients;
    void (*idle)(void); /* called when the last client has ended */
};
extern struct vu_device vu_dev;

void vu_config_offer(struct vgpu_config *c);
/* NULL, or why QEMU may not set this. */
const char *vu_config_check(const struct vgpu_config *offer, const struct vgpu_config *set);
/* Control requests that are there; events that wait for a buffer. */
void vu_device_control(void);
void vu_device_events(void);
/* The eventfd of doorbell i changed: the worker gets it. */
void vu_device_doorbell(unsigned i);
/* Ends all clients; vu_dev.idle() comes when that is done (perhaps before this returns). */
void vu_device_end_clients(void);

#endif
