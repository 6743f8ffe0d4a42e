/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * The device ABI between the guest driver and the vgpu-cuda virtio device (QEMU front end +
 * broker). The prose specification is docs/device.md.
 *
 * All fields are little-endian. Every structure is a multiple of 8 bytes with explicit padding that
 * the sender writes as zero and the receiver checks. Numbers are never reused. The device never
 * parses CUDA calls, which travel in the client windows (protocol/vgp_ring.h).
 */
#ifndef VGPU_DEVICE_H
#define VGPU_DEVICE_H

#include <linux/types.h>
#ifndef __KERNEL__
#include <stdint.h>
#endif

/* Virtio device id. Linux' virtio-pci binds PCI device ids 0x1040..0x107f, so 63 is the last. */
#define VGPU_VIRTIO_ID 63
#define VGPU_PCI_VENDOR_ID 0x1af4
#define VGPU_PCI_DEVICE_ID 0x107f

/*
 * Alternative id of the same device: a generic vhost-user device of QEMU (11.1) refuses ids for
 * which QEMU has no name, such as 63. Among the named ids, no Linux driver binds "parameter
 * server". The magic in the configuration space identifies the device.
 */
#define VGPU_GENERIC_VIRTIO_ID 38
#define VGPU_GENERIC_PCI_DEVICE_ID 0x1066

/* Shared-memory region (virtio 1.2, 4.1.4.7) that holds the client windows; a 64-bit BAR. */
#define VGPU_SHMID_WINDOWS 1

/*
 * Virtqueues. Queue 0: requests from the driver. Queue 1: events from the device. Queue 2 + i: the
 * doorbell of client slot i, without buffers; a write to its notification address reaches the
 * worker of that client. The notification address of queue n is at n * notify_off_multiplier and
 * the device sets notify_off_multiplier >= 4096 (one page per queue), so that a doorbell can be
 * mapped into one process alone.
 */
#define VGPU_VQ_CONTROL 0
#define VGPU_VQ_EVENT 1
#define VGPU_VQ_DOORBELL 2

/* Feature bits (device specific, 0..23). */
#define VGPU_F_PIN 0 /* VGPU_CMD_PIN and VGPU_CMD_UNPIN are served */
#define VGPU_F_PING 1 /* VGPU_CMD_PING is served */

#define VGPU_DEVICE_ABI_VERSION 1
#define VGPU_CONFIG_MAGIC 0x55504756 /* "VGPU" */

#define VGPU_MAX_CLIENTS 256	/* slots; vhost-user's 8-bit queue index allows 254 */
#define VGPU_MAX_PIN_RUNS 4096	/* per request: 64 KiB of runs */
#define VGPU_MAX_REGIONS 4096	/* pinned regions of one client at a time */
#define VGPU_LABEL_LEN 32

/*
 * Configuration space, read by the driver once at probe. Offered by the broker, lowered by the
 * device's properties, then fixed for the lifetime of the device. reserved is zero.
 */
struct vgpu_config {
	__le32 magic;		/* VGPU_CONFIG_MAGIC */
	__le32 abi_version;	/* VGPU_DEVICE_ABI_VERSION */
	__le32 max_clients;	/* 1..VGPU_MAX_CLIENTS: client slots = doorbell queues */
	__le32 max_pin_runs;	/* 1..VGPU_MAX_PIN_RUNS: runs in one VGPU_CMD_PIN */
	__le64 window_size;	/* bytes per client window, power of two, >= 4 MiB */
	__le64 vram_quota;	/* bytes of device memory for the whole VM, 0 = no limit */
	__le64 pin_quota;	/* bytes of pinned guest memory for the whole VM, 0 = no limit */
	__le64 reserved[3];
};

/* Requests on the control queue: a readable descriptor chain (request), a writable (response). */
enum vgpu_cmd_type {
	VGPU_CMD_CLIENT_CREATE = 1,
	VGPU_CMD_CLIENT_DESTROY = 2,
	VGPU_CMD_PIN = 3,
	VGPU_CMD_UNPIN = 4,
	/* 5, 6: dma-buf export and import */
	VGPU_CMD_PING = 7,
};

/* Status of a response. */
enum vgpu_status {
	VGPU_S_OK = 0,
	VGPU_S_INVALID = 1,	/* malformed request: a field out of range or padding not zero */
	VGPU_S_NO_CLIENT = 2,	/* the slot has no client */
	VGPU_S_BUSY = 3,	/* the slot already has a client, or the region id is taken */
	VGPU_S_NO_MEMORY = 4,	/* the host could not map or allocate */
	VGPU_S_QUOTA = 5,	/* over a quota of the VM */
	VGPU_S_WORKER = 6,	/* the worker could not be started or has died */
	VGPU_S_UNSUPPORTED = 7,	/* unknown request type */
	/*
	 * The worker was killed but does not exit (it is stuck in a driver of the host): its slot,
	 * its window and its pages stay in use. CLIENT_DESTROY may be repeated.
	 */
	VGPU_S_STUCK = 8,
};

struct vgpu_cmd_hdr {
	__le32 type;	/* enum vgpu_cmd_type */
	__le32 flags;	/* 0 */
	__le32 client;	/* slot, < max_clients */
	__le32 padding;
};

struct vgpu_resp_hdr {
	__le32 status;	/* enum vgpu_status */
	__le32 padding;
};

/*
 * CLIENT_CREATE: starts a worker for the slot. Answered when the worker serves the window: the
 * header (protocol/vgp_ring.h) is written, the rest of the window is zero.
 */
struct vgpu_cmd_client_create {
	struct vgpu_cmd_hdr hdr;
	__u8 label[VGPU_LABEL_LEN];	/* for logs only: process name, NUL-padded */
};

/*
 * CLIENT_DESTROY: ends the worker. Answered when the worker no longer accesses the window or guest
 * pages, or with VGPU_S_STUCK after a timeout. Response: struct vgpu_resp_hdr.
 */
struct vgpu_cmd_client_destroy {
	struct vgpu_cmd_hdr hdr;
};

struct vgpu_pin_run {
	__le64 addr;	/* guest-physical, page aligned */
	__le64 len;	/* bytes, page aligned, not 0 */
};

/*
 * PIN: maps guest pages into the client's worker as one contiguous range, at the virtual address
 * that they have in the guest process, outside the areas reserved by the worker.
 */
#define VGPU_PIN_READONLY (1u << 0)	/* the worker maps the region without write access */
#define VGPU_PIN_MORE (1u << 1)		/* further runs of this region follow in the next PIN */
struct vgpu_cmd_pin {
	struct vgpu_cmd_hdr hdr;
	__le32 region;		/* chosen by the driver, unique among the client's regions */
	__le32 pin_flags;	/* VGPU_PIN_* */
	__le64 va;		/* address in the guest process, page aligned */
	__le64 length;		/* whole region, bytes, page aligned = sum of all runs */
	__le64 offset;		/* offset in the region of the first run of this request, bytes */
	__le32 nruns;		/* 1..max_pin_runs */
	__le32 padding;
	struct vgpu_pin_run runs[];
};

struct vgpu_resp_pin {
	struct vgpu_resp_hdr hdr;
	__le64 worker_va;	/* address in the worker; == va if that was free. 0 with MORE */
};

/* UNPIN: the worker unmaps the region. Response when unmapped: struct vgpu_resp_hdr. */
struct vgpu_cmd_unpin {
	struct vgpu_cmd_hdr hdr;
	__le32 region;
	__le32 padding;
};

/*
 * PING: checks that the device is alive. Answered at once, regardless of the workers. client is 0.
 * A request of another type without an answer affects only its own client; a PING without an answer
 * means that the device is lost. Response: struct vgpu_resp_hdr.
 */
struct vgpu_cmd_ping {
	struct vgpu_cmd_hdr hdr;
};

/* Events. The driver keeps writable buffers of sizeof(struct vgpu_event) on queue 1. */
enum vgpu_event_type {
	VGPU_EV_WAKE = 1,	 /* the client's worker published data while the guest slept */
	VGPU_EV_CLIENT_DEAD = 2, /* the client's worker is gone; arg = enum vgpu_dead_reason */
};

enum vgpu_dead_reason {
	VGPU_DEAD_EXITED = 1,	/* the worker exited or crashed */
	VGPU_DEAD_PROTOCOL = 2,	/* the client sent a malformed record */
	VGPU_DEAD_KILLED = 3,	/* ended by the host (quota, watchdog, operator) */
	VGPU_DEAD_LOST = 4,	/* the broker or the device is gone (set by the driver itself) */
};

struct vgpu_event {
	__le32 type;	/* enum vgpu_event_type */
	__le32 client;	/* slot */
	__le32 arg;
	__le32 padding;
};

#endif
