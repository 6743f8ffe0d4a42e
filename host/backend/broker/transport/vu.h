/* SPDX-License-Identifier: MIT */
/*
 * The vhost-user back end of QEMU's -device vgpu-cuda (docs/device.md, "Between QEMU and the
 * broker"; messages as in QEMU's docs/interop/vhost-user.rst). Files: brk_vu_msg.c (checks of
 * messages), brk_vu_mem.c (guest memory), brk_vu_queue.c (virtqueues), brk_vu_device.c (requests and events of
 * the guest driver), brk_vu_conn.c (the connection), brk_vu_shmem.c (windows that QEMU maps for the
 * broker). The guest is hostile: data in its memory is copied once, then checked. QEMU owns this
 * VM: its messages are checked to find its bugs here.
 */
#ifndef BRK_VU_H
#define BRK_VU_H

#include "transport.h"

/* ---- brk_vu_msg.c ---- */

enum brk_vu_request {
    BRK_VU_GET_FEATURES = 1,
    BRK_VU_SET_FEATURES = 2,
    BRK_VU_SET_OWNER = 3,
    BRK_VU_RESET_OWNER = 4,
    BRK_VU_SET_MEM_TABLE = 5,
    BRK_VU_SET_VRING_NUM = 8,
    BRK_VU_SET_VRING_ADDR = 9,
    BRK_VU_SET_VRING_BASE = 10,
    BRK_VU_GET_VRING_BASE = 11,
    BRK_VU_SET_VRING_KICK = 12,
    BRK_VU_SET_VRING_CALL = 13,
    BRK_VU_SET_VRING_ERR = 14,
    BRK_VU_GET_PROTOCOL_FEATURES = 15,
    BRK_VU_SET_PROTOCOL_FEATURES = 16,
    BRK_VU_GET_QUEUE_NUM = 17,
    BRK_VU_SET_VRING_ENABLE = 18,
    BRK_VU_SET_BACKEND_REQ_FD = 21,
    BRK_VU_GET_CONFIG = 24,
    BRK_VU_SET_CONFIG = 25,
    BRK_VU_GET_SHMEM_CONFIG = 44,
};

/* Requests from the back end to the front end, on a separate channel. */
enum brk_vu_backend_request {
    BRK_VU_BACKEND_SHMEM_MAP = 9,
    BRK_VU_BACKEND_SHMEM_UNMAP = 10,
};

#define BRK_VU_VERSION 1u
#define BRK_VU_FLAG_REPLY (1u << 2)
#define BRK_VU_FLAG_NEED_REPLY (1u << 3)

#define BRK_VU_F_PROTOCOL_FEATURES 30
#define BRK_VU_F_VERSION_1 32
#define BRK_VU_F_INDIRECT_DESC 28
#define BRK_VU_F_EVENT_IDX 29
#define BRK_VU_PF_MQ 0
#define BRK_VU_PF_REPLY_ACK 3
#define BRK_VU_PF_BACKEND_REQ 5
#define BRK_VU_PF_CONFIG 9
#define BRK_VU_PF_SHMEM 22

#define BRK_VU_REGIONS 8u /* regions of a memory table: the protocol's maximum */
#define BRK_VU_CONFIG_MAX 256u
#define BRK_VU_NOFD (1u << 8) /* in the u64 of KICK, CALL, ERR: no descriptor comes */

struct brk_vu_header {
    uint32_t request, flags, size;
};

struct brk_vu_region {
    uint64_t gpa, size, uva, offset;
};

struct brk_vu_payload_mem {
    uint32_t nregions, padding;
    struct brk_vu_region regions[BRK_VU_REGIONS];
};

struct brk_vu_payload_state {
    uint32_t index, num;
};

struct brk_vu_payload_addr {
    uint32_t index, flags;
    uint64_t desc, used, avail, log;
};

struct brk_vu_payload_config {
    uint32_t offset, size, flags;
    uint8_t data[BRK_VU_CONFIG_MAX];
};

#define BRK_VU_SHMEM_REGIONS 256u
#define BRK_VU_SHMEM_WRITABLE (UINT64_C(1) << 0)

/* Answer to GET_SHMEM_CONFIG: size of each shared memory region of the device, bytes; 0: no region
 * of that id. */
struct brk_vu_payload_shmem {
    uint32_t nregions, padding;
    uint64_t sizes[BRK_VU_SHMEM_REGIONS];
};

/* SHMEM_MAP and SHMEM_UNMAP. */
struct brk_vu_payload_mmap {
    uint8_t shmid, padding[7];
    uint64_t fd_offset, shm_offset, len, flags;
};

union brk_vu_payload {
    uint64_t u64;
    struct brk_vu_payload_mem mem;
    struct brk_vu_payload_state state;
    struct brk_vu_payload_addr addr;
    struct brk_vu_payload_config config;
    struct brk_vu_payload_shmem shmem;
};

/* Checks a header and its number of descriptors. NULL, or an error text. */
const char *brk_vu_header_check(const struct brk_vu_header *h, unsigned nfds);
/* Checks sizes that depend on the payload's content. NULL, or an error text. */
const char *brk_vu_payload_check(const struct brk_vu_header *h, const union brk_vu_payload *p, unsigned nfds);
const char *brk_vu_request_name(uint32_t request);

/* ---- brk_vu_mem.c ---- */

struct brk_vu_map {
    struct brk_vu_region r;
    int fd;
    uint8_t *base; /* address of the region's first byte */
    void *mapping; /* the whole mapping, from file offset 0 */
    uint64_t mapping_size;
    bool windows; /* the BAR with the client windows, not guest RAM */
    bool lost;    /* zeros are in its place: its file became shorter */
};

struct brk_vu_mem {
    struct brk_vu_map map[BRK_VU_REGIONS];
    unsigned n;
};

/* Replaces the table; takes the descriptors over. NULL, or an error text and the table is empty. */
const char *brk_vu_mem_set(struct brk_vu_mem *m, const struct brk_vu_payload_mem *p, const int *fds);
void brk_vu_mem_clear(struct brk_vu_mem *m);
/* QEMU can shorten the files of the table, whose pages then raise SIGBUS here: zeros take the place
 * of such a region, and `lost` is called from the loop. False: no descriptor or memory. */
bool brk_vu_mem_guard(struct brk_vu_mem *m, void (*lost)(void));
/* Guest RAM at a guest-physical address. *n: in, bytes wanted; out, bytes contiguous here (<=
 * wanted). NULL: no RAM at this address. */
uint8_t *brk_vu_mem_gpa(struct brk_vu_mem *m, uint64_t gpa, uint64_t *n);
/* The same for a QEMU user address: all `size` bytes, or NULL. */
void *brk_vu_mem_uva(struct brk_vu_mem *m, uint64_t uva, uint64_t size);
/* Appends the file ranges of a guest-physical run. False: not entirely guest RAM, or no room. */
bool brk_vu_mem_run(struct brk_vu_mem *m, uint64_t gpa, uint64_t len, struct brk_map_run *runs, unsigned *n,
                    unsigned room);
const struct brk_vu_map *brk_vu_mem_windows(const struct brk_vu_mem *m);

/* ---- brk_vu_queue.c ---- */

#define BRK_VU_QUEUE_SIZE_MAX 1024u
/*
 * Maximum number of unanswered requests, of 8 KiB each. A driver uses a descriptor in one request
 * at a time, so there are at most as many as queue entries, plus those of a queue stopped
 * meanwhile.
 */
#define BRK_VU_PENDING_MAX (2 * BRK_VU_QUEUE_SIZE_MAX)
#define BRK_VU_SKIP_MAX 16u
/* segments of a chain; a PIN of 4096 runs in 4 KiB pages needs 18 */
#define BRK_VU_SEGMENTS 260u

struct brk_vu_segment {
    uint64_t gpa;
    uint32_t len;
};

/* A descriptor chain taken from the available ring. */
struct brk_vu_chain {
    uint16_t head;
    unsigned nread, nwrite;
    struct brk_vu_segment read[BRK_VU_SEGMENTS], write[BRK_VU_SEGMENTS];
};

struct brk_vu_queue {
    uint32_t num;
    struct brk_vu_payload_addr addr;
    bool have_addr;
    const uint8_t *desc;
    uint8_t *avail, *used; /* NULL: not usable with the current memory table */
    uint16_t last_avail, used_idx;
    bool enabled, started;
    bool event_idx;
    /* incremented at every stop; answers for an earlier generation are dropped */
    uint32_t generation;
    struct brk_source kick;
    int call, err;
};

/* Looks up the rings again after a change of the memory table. */
void brk_vu_queue_remap(struct brk_vu_queue *q, struct brk_vu_mem *m);
/* Changes the number of entries and looks up the rings again. Nothing else changes it. */
void brk_vu_queue_resize(struct brk_vu_queue *q, struct brk_vu_mem *m, uint32_t num);
/*
 * 1: a chain was taken; 0: none available; -1: the ring is broken and no longer served; 2: the
 * bound was reached, check again later. Malformed chains are returned with length 0 and skipped, up
 * to BRK_VU_SKIP_MAX per call.
 */
int brk_vu_queue_pop(struct brk_vu_queue *q, struct brk_vu_mem *m, struct brk_vu_chain *c);
void brk_vu_queue_push(struct brk_vu_queue *q, uint16_t head, uint32_t written);
/* Notifies the driver unless it suppressed notifications. */
void brk_vu_queue_notify(struct brk_vu_queue *q, uint16_t old_used);
/* Copies at most `room` readable bytes; *total = readable bytes of the chain. */
uint32_t brk_vu_chain_read(struct brk_vu_mem *m, const struct brk_vu_chain *c, void *to, uint32_t room,
                           uint64_t *total);
/* Writes to the writable part; returns the bytes written. */
uint32_t brk_vu_chain_write(struct brk_vu_mem *m, const struct brk_vu_chain *c, const void *from,
                            uint32_t size);
uint64_t brk_vu_chain_room(const struct brk_vu_chain *c);

/* ---- brk_vu_device.c ---- */

#define BRK_VU_CLIENTS_MAX 254u /* vhost-user can address 256 queues */
#define BRK_VU_QUEUES (BRK_VU_CLIENTS_MAX + VGPU_VQ_DOORBELL)

struct brk_vu_request_state;
struct brk_vu_slot {
    struct brk_client *client;
    struct brk_vu_request_state *pending; /* unanswered requests */
    bool wake, dead, destroying;          /* events to send */
    bool dead_sent;
    uint32_t dead_reason;
};

struct brk_vu_device {
    struct vgpu_config config; /* the offer, then the values set by QEMU */
    bool configured;
    uint64_t features;
    struct brk_vu_mem mem;
    int windows_fd; /* own duplicate */
    uint64_t windows_offset, windows_size;
    /* set by brk_vu_shmem.c: size of the windows in bytes if the broker allocated them, else 0 */
    uint64_t shmem_size;
    bool shmem_waiting; /* the front end's answer is pending: the control queue rests */
    struct brk_vu_queue queue[BRK_VU_QUEUES];
    struct brk_vu_slot slot[BRK_VU_CLIENTS_MAX];
    unsigned nclients;
    unsigned npending;  /* unanswered requests of all slots */
    void (*idle)(void); /* called when each client has ended or is stuck */
};
extern struct brk_vu_device brk_vu_dev;

void brk_vu_config_offer(struct vgpu_config *c);
/* NULL, or the reason why QEMU may not set this. */
const char *brk_vu_config_check(const struct vgpu_config *offer, const struct vgpu_config *set);
/* Serve pending control requests; send events that wait for a buffer. Both do a bounded amount of
 * work and kick themselves for the rest. */
void brk_vu_device_control(void);
void brk_vu_device_events(void);
/* Number of clients, except those whose worker is stuck. */
unsigned brk_vu_device_clients(void);
/* Passes a changed eventfd of doorbell i on to the worker. */
void brk_vu_device_doorbell(unsigned i);
/* The windows' memory from now on, taken over; -1: none. The last close of the one before may free
 * the pages of all windows, which the loop does not wait for. */
void brk_vu_device_windows(int fd);
/* True if the control queue is set up and may be served. */
bool brk_vu_device_started(void);
/* Ends all clients. brk_vu_dev.idle() follows when all have ended or are stuck, possibly before
 * this returns. */
void brk_vu_device_end_clients(void);

/* ---- brk_vu_shmem.c ---- */

/*
 * A front end that asks for the shared memory regions has no memory for the windows: the broker
 * allocates it and has the front end map it whenever the driver starts the device. Other front ends
 * provide the windows in the memory table.
 */

/* Answers GET_SHMEM_CONFIG. NULL, or the reason for failure. The first call allocates the windows
 * for the current configuration. */
const char *brk_vu_shmem_config(struct brk_vu_payload_shmem *c);
/*
 * Sets the channel for back-end requests; takes the descriptor over. False: not a suitable socket.
 */
bool brk_vu_shmem_channel(int fd);
/* Called when the driver starts the device: sends SHMEM_MAP unless already sent or not needed. */
void brk_vu_shmem_start(void);
/* Called when the driver stops the device: the front end may keep or drop its mapping. */
void brk_vu_shmem_stop(void);
/* Called when the connection has ended. */
void brk_vu_shmem_reset(void);

#endif
