/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Checks of all external input, from user space or from the device. Pure functions on private
 * copies, so that each rejection has a unit test (vgpu_check_*_test.c).
 */
#ifndef VGPU_CHECK_H
#define VGPU_CHECK_H

#include <linux/bits.h>
#include <linux/types.h>

#include "uapi/vgpu_device.h"
#include "uapi/vgpu_ioctl.h"

/* Smallest window (device ABI) and largest (the distance of the mmap offsets, see vgpu.h). */
#define VGPU_WINDOW_MIN (4ULL << 20)
#define VGPU_WINDOW_MAX BIT_ULL(40)

/**
 * struct vgpu_cfg - the device's configuration in the CPU's byte order, checked
 * @max_clients: client slots
 * @max_pin_runs: runs in one PIN request
 * @window_size: bytes of one window
 * @vram_quota: for VGPU_IOCTL_QUERY only
 * @pin_quota: bytes, 0 = no limit
 */
struct vgpu_cfg {
	u32 max_clients;
	u32 max_pin_runs;
	u64 window_size;
	u64 vram_quota;
	u64 pin_quota;
};

/**
 * struct vgpu_res - location of the device's memory
 * @windows: physical address of the shared-memory region
 * @windows_len: bytes
 * @notify: physical address of the notification structure
 * @notify_len: bytes
 * @notify_mult: notify_off_multiplier, in bytes
 * @notify_off: queue_notify_off of each queue: its doorbell is @notify_off * @notify_mult bytes
 *	into the notification structure
 */
struct vgpu_res {
	u64 windows;
	u64 windows_len;
	u64 notify;
	u64 notify_len;
	u32 notify_mult;
	u16 notify_off[VGPU_VQ_DOORBELL + VGPU_MAX_CLIENTS];
};

/**
 * struct vgpu_notify_cap - the notification capability of virtio over PCI, as read, not checked
 * @bar: 0..5
 * @cap_len: bytes of the capability
 * @offset: in the BAR
 * @length: bytes
 * @multiplier: notify_off_multiplier
 */
struct vgpu_notify_cap {
	u8 bar;
	u8 cap_len;
	u32 offset;
	u32 length;
	u32 multiplier;
};

/**
 * enum vgpu_client_state - life of an open file
 * @VGPU_CLIENT_NEW: no worker requested
 * @VGPU_CLIENT_STARTING: CLIENT_CREATE was sent
 * @VGPU_CLIENT_ACTIVE: served
 * @VGPU_CLIENT_DEAD: the worker or the device is gone; the file can only be closed
 */
enum vgpu_client_state {
	VGPU_CLIENT_NEW,
	VGPU_CLIENT_STARTING,
	VGPU_CLIENT_ACTIVE,
	VGPU_CLIENT_DEAD,
};

/**
 * enum vgpu_client_input - events of an open file
 * @VGPU_INPUT_CREATE: CLIENT_CREATE is about to be sent
 * @VGPU_INPUT_STARTED: CLIENT_CREATE was answered with success
 * @VGPU_INPUT_REFUSED: CLIENT_CREATE was answered with an error
 * @VGPU_INPUT_DIED: the worker is gone
 * @VGPU_INPUT_LOST: the device is gone
 */
enum vgpu_client_input {
	VGPU_INPUT_CREATE,
	VGPU_INPUT_STARTED,
	VGPU_INPUT_REFUSED,
	VGPU_INPUT_DIED,
	VGPU_INPUT_LOST,
};

/* Input from user space. Return: 0 or the errno for the caller. */
int vgpu_check_query(const struct vgpu_query *arg);
int vgpu_check_create(const struct vgpu_create_client *arg);
int vgpu_check_pin(const struct vgpu_pin *arg);
int vgpu_check_unpin(const struct vgpu_unpin *arg);
int vgpu_check_wait(const struct vgpu_wait *arg);
int vgpu_check_export(const struct vgpu_export *arg);
int vgpu_check_import(const struct vgpu_import *arg);
int vgpu_check_mmap(u64 offset, u64 size, unsigned long vm_flags, u64 window_size);

/* Input from the device. */
int vgpu_check_config(const struct vgpu_config *raw, struct vgpu_cfg *cfg, const char **why);
int vgpu_check_guest(bool encrypted, const char **why);
int vgpu_check_res(const struct vgpu_res *res, const struct vgpu_cfg *cfg, const char **why);
int vgpu_check_notify(const struct vgpu_notify_cap *cap, u64 bar_len, const char **why);
int vgpu_check_resp(const void *resp, u32 used, u32 want, u32 *status);
int vgpu_check_pin_resp(const struct vgpu_resp_pin *resp, bool more);
int vgpu_check_event(const struct vgpu_event *event, u32 used, u32 max_clients, u32 *reason);

/* Decisions. */
int vgpu_status_errno(u32 type, u32 status);
int vgpu_client_next(enum vgpu_client_state state, enum vgpu_client_input input);
bool vgpu_wake_ready(u64 seq, u64 seen, u32 reason);
s64 vgpu_deadline(s64 deadline_ns, s64 offset_ns);
u32 vgpu_user_cap(u32 wanted, u32 slots);

/*
 * Returns the offset of a slot's doorbell in the notification structure, bytes. Both arguments are
 * checked.
 */
static inline u64 vgpu_doorbell_off(const struct vgpu_res *res, u32 slot)
{
	return (u64)res->notify_off[VGPU_VQ_DOORBELL + slot] * res->notify_mult;
}

/**
 * vgpu_range_ok - check that [@off, @off + @n) is inside @len bytes, without overflow
 * @off: start
 * @n: bytes
 * @len: bytes of the whole
 */
static inline bool vgpu_range_ok(u64 off, u64 n, u64 len)
{
	return off <= len && n <= len - off;
}

#endif
