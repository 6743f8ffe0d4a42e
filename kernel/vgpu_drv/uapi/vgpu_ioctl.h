/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * The ioctl ABI of /dev/vgpu0, between libcuda and the guest driver.
 *
 * Rules: 64-bit aligned structures with explicit padding that must be zero (-EINVAL); unknown flags
 * are -EINVAL; append only; an open file is one client, bound to the address space that opened it
 * (-EPERM from any other); WAIT can be interrupted and repeated, all other calls are interrupted
 * only by fatal signals; times are absolute CLOCK_MONOTONIC nanoseconds in the caller's time
 * namespace.
 */
#ifndef VGPU_IOCTL_H
#define VGPU_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define VGPU_IOCTL_ABI_VERSION 1
#define VGPU_IOCTL_MAGIC 0xE7

/**
 * struct vgpu_query - properties of the device
 * @abi_version: out: VGPU_IOCTL_ABI_VERSION of the driver
 * @max_clients: out: client slots of the device
 * @window_size: out: bytes of a client's window
 * @vram_quota: out: bytes of device memory for the VM, 0 = no limit
 * @pin_quota: out: bytes of pinned memory for the VM, 0 = no limit
 * @features: out: bit mask of the negotiated VGPU_F_* bits
 * @reserved: must be zero
 */
struct vgpu_query {
	__u32 abi_version;
	__u32 max_clients;
	__u64 window_size;
	__u64 vram_quota;
	__u64 pin_quota;
	__u64 features;
	__u64 reserved[3];
};

/**
 * struct vgpu_create_client - start this file's worker; once per open file (-EBUSY)
 * @flags: in: must be zero
 * @slot: out: client slot, for messages only
 * @window_size: out: bytes to mmap() at @window_offset (exactly; MAP_SHARED, read and write)
 * @window_offset: out: mmap offset of the window
 * @doorbell_offset: out: mmap offset of the doorbell page (one page; write only)
 * @doorbell_value: out: 16-bit value to store at offset @doorbell_in_page
 * @doorbell_in_page: out: byte offset in the page
 * @wake_seq: out: first value for struct vgpu_wait
 * @reserved: must be zero
 *
 * Errors: -ENODEV device gone, -ENOSPC no free slot, -EUSERS the user is at its limit of clients
 * (module parameter clients_per_user), -EAGAIN the host could not start a worker, -ETIMEDOUT the
 * host did not answer in time (the file can then only be closed).
 */
struct vgpu_create_client {
	__u32 flags;
	__u32 slot;
	__u64 window_size;
	__u64 window_offset;
	__u64 doorbell_offset;
	__u32 doorbell_value;
	__u32 doorbell_in_page;
	__u64 wake_seq;
	__u64 reserved[2];
};

#define VGPU_PIN_FLAG_READONLY (1u << 0)

/**
 * struct vgpu_pin - pin user memory and map it into the worker
 * @addr: in: page aligned
 * @length: in: bytes, page aligned, not 0
 * @flags: in: VGPU_PIN_FLAG_*
 * @region: out: id for struct vgpu_unpin
 * @worker_va: out: address of the region in the worker; equals @addr if that was free in the worker
 * @reserved: must be zero
 *
 * Charged to the user, over all of its processes and files, until the pages are released. Errors:
 * -ENOBUFS over the module parameter pin_limit_mib: not a shortage of memory or of the host, the
 * caller may stage the data in less memory; -ENOMEM guest or host memory, -EDQUOT quota of the VM,
 * -EMFILE VGPU_MAX_REGIONS regions are pinned, -EFAULT not mapped, -EINVAL alignment, -ENODEV
 * worker or device gone, -ETIMEDOUT as in struct vgpu_create_client.
 */
struct vgpu_pin {
	__u64 addr;
	__u64 length;
	__u32 flags;
	__u32 region;
	__u64 worker_va;
	__u64 reserved[2];
};

/**
 * struct vgpu_unpin - undo struct vgpu_pin
 * @region: in: id of struct vgpu_pin or vgpu_import; -ENOENT unless it is a region of this client
 * @flags: in: must be zero
 *
 * With the module parameter unpin_keep the pages stay pinned and charged until the client ends.
 */
struct vgpu_unpin {
	__u32 region;
	__u32 flags;
};

/**
 * struct vgpu_wait - sleep until the worker wakes the guest
 * @seen: in: the last wake_seq that the caller knows
 * @deadline_ns: in: absolute CLOCK_MONOTONIC, negative = no deadline
 * @seq: out: the current wake_seq (returns at once if it differs from @seen)
 * @state: out: 0 alive, else enum vgpu_dead_reason (also returned at once)
 * @flags: in: must be zero
 *
 * Errors: -ETIMEDOUT, -EINTR (call again), -ENODEV device gone (@state is written).
 */
struct vgpu_wait {
	__u64 seen;
	__s64 deadline_ns;
	__u64 seq;
	__u32 state;
	__u32 flags;
};

/**
 * struct vgpu_export - a dma-buf of pinned memory
 * @region: in: id of struct vgpu_pin; the region is writable and not imported
 * @flags: in: must be zero
 * @offset: in: bytes into the region, page aligned
 * @length: in: bytes, page aligned, not 0
 * @fd: out: a new descriptor, close-on-exec, readable and writable
 * @padding: must be zero
 * @reserved: must be zero
 *
 * The dma-buf keeps the region's pages pinned and charged until its last reference is dropped, even
 * after struct vgpu_unpin and the end of this client. Errors: -ENOENT not a region of this client,
 * -EINVAL alignment or outside of the region, -EACCES the region is read-only, -EOPNOTSUPP the
 * region was imported, -EMFILE no free descriptor, -ENOMEM.
 */
struct vgpu_export {
	__u32 region;
	__u32 flags;
	__u64 offset;
	__u64 length;
	__s32 fd;
	__u32 padding;
	__u64 reserved[2];
};

/**
 * struct vgpu_import - map memory of a dma-buf into the worker
 * @addr: in: user-space address for the mapping in the worker, page aligned; not accessed
 * @length: in: bytes, page aligned, not 0
 * @offset: in: bytes into the dma-buf, page aligned
 * @fd: in: the dma-buf; the descriptor stays open
 * @flags: in: VGPU_PIN_FLAG_*; VGPU_PIN_FLAG_READONLY is required for a read-only descriptor
 * @region: out: id for struct vgpu_unpin
 * @padding: must be zero
 * @worker_va: out: address of the region in the worker; equals @addr if that was free in the worker
 * @reserved: must be zero
 *
 * The dma-buf is kept until the region is released. Errors: as struct vgpu_pin, and -EBADF no such
 * descriptor, -EINVAL not a dma-buf, or range outside of it, -EACCES the descriptor is read-only,
 * -EOPNOTSUPP the exporter refuses this device, or the memory is not RAM of the guest.
 */
struct vgpu_import {
	__u64 addr;
	__u64 length;
	__u64 offset;
	__s32 fd;
	__u32 flags;
	__u32 region;
	__u32 padding;
	__u64 worker_va;
	__u64 reserved[2];
};

#define VGPU_IOCTL_QUERY _IOWR(VGPU_IOCTL_MAGIC, 0x00, struct vgpu_query)
#define VGPU_IOCTL_CREATE_CLIENT _IOWR(VGPU_IOCTL_MAGIC, 0x01, struct vgpu_create_client)
#define VGPU_IOCTL_PIN _IOWR(VGPU_IOCTL_MAGIC, 0x02, struct vgpu_pin)
#define VGPU_IOCTL_UNPIN _IOW(VGPU_IOCTL_MAGIC, 0x03, struct vgpu_unpin)
#define VGPU_IOCTL_WAIT _IOWR(VGPU_IOCTL_MAGIC, 0x04, struct vgpu_wait)
#define VGPU_IOCTL_EXPORT _IOWR(VGPU_IOCTL_MAGIC, 0x05, struct vgpu_export)
#define VGPU_IOCTL_IMPORT _IOWR(VGPU_IOCTL_MAGIC, 0x06, struct vgpu_import)

#endif
