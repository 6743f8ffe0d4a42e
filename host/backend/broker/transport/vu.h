/* SPDX-License-Identifier: MIT */
/*
 * The vhost-user back end: what QEMU's -device vgpu-cuda talks to (docs/device.md, "Between QEMU
 * and the broker"; messages as in QEMU's docs/interop/vhost-user.rst). Files: vu_msg.c (what a
 * message may look like), vu_mem.c (guest memory), vu_queue.c (virtqueues), vu_device.c (requests and
 * events of the guest driver), vu_conn.c (the connection), vu_shmem.c (windows that QEMU
 * maps for the broker). The guest is hostile: what is in its
 * memory is copied once. QEMU is the owner of this VM: its messages are checked, so that a bug
 * there is found here.
 */
#ifndef BRK_VU_H
#define BRK_VU_H

#include "transport.h"

/* ---- vu_msg.c ---- */

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

/* Requests of the back end, on a channel of their own. */
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

#define BRK_VU_REGIONS 8u /* of one memory table: what the protocol allows */
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

/* Answer to GET_SHMEM_CONFIG: bytes of each shared memory region of the device, 0: it has none of that id. */
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

/* NULL: a header that can be served with that many descriptors; else what is wrong with it. */
const char *brk_vu_header_check(const struct brk_vu_header *h, unsigned nfds);
/* The same for header and payload together: sizes that depend on the content. */
const char *brk_vu_payload_check(const struct brk_vu_header *h, const union brk_vu_payload *p, unsigned nfds);
const char *brk_vu_request_name(uint32_t request);

/* ---- vu_mem.c ---- */

struct brk_vu_map {
    struct brk_vu_region r;
    int fd;
    uint8_t *base; /* of the region's first byte */
    void *mapping; /* whole mapping, from file offset 0 */
    uint64_t mapping_size;
    bool windows; /* the BAR with the client windows: not guest RAM */
};

struct brk_vu_mem {
    struct brk_vu_map map[BRK_VU_REGIONS];
    unsigned n;
};

/* Replaces the table; takes the descriptors over. NULL or what is wrong (the table is empty then). */
const char *brk_vu_mem_set(struct brk_vu_mem *m, const struct brk_vu_payload_mem *p, const int *fds);
void brk_vu_mem_clear(struct brk_vu_mem *m);
/* Bytes of guest RAM at a guest-physical address; *n: in, wanted, out, contiguous here (<= wanted).
 * NULL: no RAM there. */
uint8_t *brk_vu_mem_gpa(struct brk_vu_mem *m, uint64_t gpa, uint64_t *n);
/* The same for QEMU's addresses, all `size` bytes or NULL. */
void *brk_vu_mem_uva(struct brk_vu_mem *m, uint64_t uva, uint64_t size);
/* One guest-physical run -> file ranges, appended. False: not all is guest RAM, or no room. */
bool brk_vu_mem_run(struct brk_vu_mem *m, uint64_t gpa, uint64_t len, struct brk_map_run *runs, unsigned *n,
                    unsigned room);
const struct brk_vu_map *brk_vu_mem_windows(const struct brk_vu_mem *m);

/* ---- vu_queue.c ---- */

#define BRK_VU_QUEUE_SIZE_MAX 1024u
/*
 * Requests that are not answered, of 8 KiB each. A driver has each descriptor in one request at a time, so that there
 * are at most as many as the queue is long, and those of a queue that was stopped meanwhile.
 */
#define BRK_VU_PENDING_MAX (2 * BRK_VU_QUEUE_SIZE_MAX)
#define BRK_VU_SKIP_MAX 16u
#define BRK_VU_SEGMENTS 260u /* of one chain; a PIN of 4096 runs in 4 KiB pages needs 18 */

struct brk_vu_segment {
    uint64_t gpa;
    uint32_t len;
};

/* One chain, taken from the available ring. */
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
    uint8_t *avail, *used; /* NULL: not usable with the present memory */
    uint16_t last_avail, used_idx;
    bool enabled, started;
    bool event_idx;
    uint32_t generation; /* +1 at every stop: late answers to an earlier life are dropped */
    struct brk_source kick;
    int call, err;
};

/* Finds the rings in memory again. */
void brk_vu_queue_remap(struct brk_vu_queue *q, struct brk_vu_mem *m);
/* The number of entries changes only here: the rings are looked up for it. */
void brk_vu_queue_resize(struct brk_vu_queue *q, struct brk_vu_mem *m, uint32_t num);
/* 1: a chain was taken; 0: none there; -1: the ring is broken and no longer served; 2: there may be
 * one, to be looked for later. Chains that are malformed are given back with length 0 and skipped,
 * BRK_VU_SKIP_MAX in one call. */
int brk_vu_queue_pop(struct brk_vu_queue *q, struct brk_vu_mem *m, struct brk_vu_chain *c);
void brk_vu_queue_push(struct brk_vu_queue *q, uint16_t head, uint32_t written);
/* Tells the driver, unless it asked not to be told. */
void brk_vu_queue_notify(struct brk_vu_queue *q, uint16_t old_used);
/* Copies at most `room` readable bytes; *total = how many the chain has. */
uint32_t brk_vu_chain_read(struct brk_vu_mem *m, const struct brk_vu_chain *c, void *to, uint32_t room,
                           uint64_t *total);
/* Writes to the writable part; bytes written. */
uint32_t brk_vu_chain_write(struct brk_vu_mem *m, const struct brk_vu_chain *c, const void *from,
                            uint32_t size);
uint64_t brk_vu_chain_room(const struct brk_vu_chain *c);

/* ---- vu_device.c ---- */

#define BRK_VU_CLIENTS_MAX 254u /* vhost-user can address 256 queues */
#define BRK_VU_QUEUES (BRK_VU_CLIENTS_MAX + VGPU_VQ_DOORBELL)

struct brk_vu_request_state;
struct brk_vu_slot {
    struct brk_client *client;
    struct brk_vu_request_state *pending; /* requests not answered yet */
    bool wake, dead, destroying;          /* events to send */
    bool dead_sent;
    uint32_t dead_reason;
};

struct brk_vu_device {
    struct vgpu_config config; /* offer, then what QEMU set */
    bool configured;
    uint64_t features;
    struct brk_vu_mem mem;
    int windows_fd; /* own duplicate */
    uint64_t windows_offset, windows_size;
    struct brk_vu_queue queue[BRK_VU_QUEUES];
    struct brk_vu_slot slot[BRK_VU_CLIENTS_MAX];
    unsigned nclients;
    unsigned npending;  /* of all slots */
    void (*idle)(void); /* called when the last client has ended or is stuck */
};
extern struct brk_vu_device brk_vu_dev;

void brk_vu_config_offer(struct vgpu_config *c);
/* NULL, or why QEMU may not set this. */
const char *brk_vu_config_check(const struct vgpu_config *offer, const struct vgpu_config *set);
/* Control requests that are there; events that wait for a buffer. Both do a bounded amount of work and
 * kick themselves for the rest. */
void brk_vu_device_control(void);
void brk_vu_device_events(void);
/* Number of clients, without those whose worker cannot be ended. */
unsigned brk_vu_device_clients(void);
/* The eventfd of doorbell i changed: the worker gets it. */
void brk_vu_device_doorbell(unsigned i);
/* The control queue is set up and may be served. */
bool brk_vu_device_started(void);
/* Ends all clients; brk_vu_dev.idle() comes when that is done (perhaps before this returns), or when what
 * is left is stuck. */
void brk_vu_device_end_clients(void);

/* ---- vu_shmem.c ---- */

/*
 * A front end that asks for the regions has no memory for the windows: the broker makes it, and has it mapped whenever
 * the driver starts the device. Front ends that never ask bring the windows in the memory table.
 */

/* NULL, or why there is no answer. The first question makes the windows, for the configuration of that moment. */
const char *brk_vu_shmem_config(struct brk_vu_payload_shmem *c);
/* The windows are the broker's, and so large; 0: they are not. */
uint64_t brk_vu_shmem_size(void);
/* The channel for requests of the back end; takes the descriptor over. False: it is none. */
bool brk_vu_shmem_channel(int fd);
/* The driver has started the device: sends SHMEM_MAP, unless that is done or there is nothing to map. */
void brk_vu_shmem_start(void);
/* The front end has not answered yet: CLIENT_CREATE would come too early. */
bool brk_vu_shmem_waiting(void);
/* The driver has stopped the device: the front end drops its mapping or keeps it, as it likes. */
void brk_vu_shmem_stop(void);
/* The connection has ended. */
void brk_vu_shmem_reset(void);

#endif
