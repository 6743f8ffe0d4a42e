// SPDX-License-Identifier: GPL-2.0-only
/*
 * The checks of vgpu_check.h. Input is a private copy, so that the checked values are those used.
 */
#include <linux/bitmap.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/string.h>

#include "vgpu.h"

static_assert(sizeof(struct vgpu_config) == 64);
static_assert(sizeof(struct vgpu_cmd_hdr) == 16);
static_assert(sizeof(struct vgpu_resp_hdr) == 8);
static_assert(sizeof(struct vgpu_cmd_client_create) == 48);
static_assert(sizeof(struct vgpu_cmd_pin) == 56);
static_assert(sizeof(struct vgpu_pin_run) == 16);
static_assert(sizeof(struct vgpu_resp_pin) == 16);
static_assert(sizeof(struct vgpu_cmd_unpin) == 24);
static_assert(sizeof(struct vgpu_cmd_ping) == 16);
static_assert(sizeof(struct vgpu_event) == 16);
static_assert(sizeof(struct vgpu_query) == 64);
static_assert(sizeof(struct vgpu_create_client) == 64);
static_assert(sizeof(struct vgpu_pin) == 48);
static_assert(sizeof(struct vgpu_unpin) == 8);
static_assert(sizeof(struct vgpu_wait) == 32);
static_assert(sizeof(struct vgpu_export) == 48);
static_assert(sizeof(struct vgpu_import) == 64);

/**
 * vgpu_check_query - the in fields of struct vgpu_query
 * @arg: private copy
 */
int vgpu_check_query(const struct vgpu_query *arg)
{
	return memchr_inv(arg->reserved, 0, sizeof(arg->reserved)) ? -EINVAL : 0;
}

/**
 * vgpu_check_create - the in fields of struct vgpu_create_client
 * @arg: private copy
 */
int vgpu_check_create(const struct vgpu_create_client *arg)
{
	if (arg->flags || memchr_inv(arg->reserved, 0, sizeof(arg->reserved)))
		return -EINVAL;
	return 0;
}

/**
 * vgpu_check_pin - the in fields of struct vgpu_pin
 * @arg: private copy
 */
int vgpu_check_pin(const struct vgpu_pin *arg)
{
	if (arg->flags & ~VGPU_PIN_FLAG_READONLY)
		return -EINVAL;
	if (memchr_inv(arg->reserved, 0, sizeof(arg->reserved)))
		return -EINVAL;
	if (!arg->length || !PAGE_ALIGNED(arg->addr) || !PAGE_ALIGNED(arg->length))
		return -EINVAL;
	if (arg->length > U64_MAX - arg->addr)
		return -EINVAL;
	return 0;
}

/**
 * vgpu_check_unpin - the in fields of struct vgpu_unpin
 * @arg: private copy
 */
int vgpu_check_unpin(const struct vgpu_unpin *arg)
{
	return arg->flags ? -EINVAL : 0;
}

/**
 * vgpu_check_wait - the in fields of struct vgpu_wait
 * @arg: private copy
 */
int vgpu_check_wait(const struct vgpu_wait *arg)
{
	return arg->flags ? -EINVAL : 0;
}

/* True for a part of an object: whole pages, at least one, and an end that does not overflow. */
static bool vgpu_is_part(u64 offset, u64 length)
{
	return length && PAGE_ALIGNED(offset) && PAGE_ALIGNED(length) && length <= U64_MAX - offset;
}

/**
 * vgpu_check_export - the in fields of struct vgpu_export
 * @arg: private copy
 */
int vgpu_check_export(const struct vgpu_export *arg)
{
	if (arg->flags || arg->padding || memchr_inv(arg->reserved, 0, sizeof(arg->reserved)))
		return -EINVAL;
	return vgpu_is_part(arg->offset, arg->length) ? 0 : -EINVAL;
}

/**
 * vgpu_check_import - the in fields of struct vgpu_import
 * @arg: private copy
 */
int vgpu_check_import(const struct vgpu_import *arg)
{
	if (arg->flags & ~VGPU_PIN_FLAG_READONLY || arg->padding)
		return -EINVAL;
	if (memchr_inv(arg->reserved, 0, sizeof(arg->reserved)))
		return -EINVAL;
	if (!vgpu_is_part(arg->offset, arg->length) || !vgpu_is_part(arg->addr, arg->length))
		return -EINVAL;
	return 0;
}

/**
 * vgpu_check_mmap - offset, size and flags of a mapping
 * @offset: bytes into the file
 * @size: bytes
 * @vm_flags: of the new mapping
 * @window_size: bytes of the client's window
 *
 * Each of the two objects is mapped as a whole, shared, and never executable.
 */
int vgpu_check_mmap(u64 offset, u64 size, unsigned long vm_flags, u64 window_size)
{
	if (!(vm_flags & VM_SHARED) || !(vm_flags & VM_WRITE))
		return -EINVAL;
	if (vm_flags & VM_EXEC)
		return -EPERM;
	if (offset == VGPU_WINDOW_OFFSET)
		return size == window_size && (vm_flags & VM_READ) ? 0 : -EINVAL;
	if (offset == VGPU_DOORBELL_OFFSET)
		return size == PAGE_SIZE ? 0 : -EINVAL;
	return -EINVAL;
}

/**
 * vgpu_check_config - the device's configuration space
 * @raw: private copy
 * @cfg: out, if 0 is returned
 * @why: out, if an error is returned: the reason, for the log
 */
int vgpu_check_config(const struct vgpu_config *raw, struct vgpu_cfg *cfg, const char **why)
{
	if (le32_to_cpu(raw->magic) != VGPU_CONFIG_MAGIC) {
		*why = "its configuration has no VGPU magic: is its backend connected?";
		return -ENODEV;
	}
	if (le32_to_cpu(raw->abi_version) != VGPU_DEVICE_ABI_VERSION) {
		*why = "it speaks another version of the device ABI: update host or guest";
		return -ENODEV;
	}
	cfg->max_clients = le32_to_cpu(raw->max_clients);
	cfg->max_pin_runs = le32_to_cpu(raw->max_pin_runs);
	cfg->window_size = le64_to_cpu(raw->window_size);
	cfg->vram_quota = le64_to_cpu(raw->vram_quota);
	cfg->pin_quota = le64_to_cpu(raw->pin_quota);
	if (!cfg->max_clients || cfg->max_clients > VGPU_MAX_CLIENTS) {
		*why = "max_clients is out of range";
		return -EINVAL;
	}
	if (!cfg->max_pin_runs || cfg->max_pin_runs > VGPU_MAX_PIN_RUNS) {
		*why = "max_pin_runs is out of range";
		return -EINVAL;
	}
	if (!is_power_of_2(cfg->window_size) || cfg->window_size < VGPU_WINDOW_MIN ||
	    cfg->window_size > VGPU_WINDOW_MAX) {
		*why = "window_size is out of range";
		return -EINVAL;
	}
	if (memchr_inv(raw->reserved, 0, sizeof(raw->reserved))) {
		*why = "reserved configuration bytes are not zero";
		return -EINVAL;
	}
	return 0;
}

/**
 * vgpu_check_guest - check that the guest can share memory with its host
 * @encrypted: the guest's memory is encrypted (SEV, TDX)
 * @why: out, if an error is returned
 *
 * In an encrypted guest the windows would be mapped as private memory, and the worker could not
 * read pinned pages: programs would hang or compute with noise.
 */
int vgpu_check_guest(bool encrypted, const char **why)
{
	if (!encrypted)
		return 0;
	*why = "this guest's memory is encrypted (SEV, TDX) and cannot be shared with the host";
	return -EOPNOTSUPP;
}

/**
 * vgpu_check_res - check that all windows and doorbells lie inside the device's memory
 * @res: location of the device's memory
 * @cfg: limits of the device, checked
 * @why: out, if an error is returned
 */
int vgpu_check_res(const struct vgpu_res *res, const struct vgpu_cfg *cfg, const char **why)
{
	DECLARE_BITMAP(seen, VGPU_VQ_DOORBELL + VGPU_MAX_CLIENTS);
	u32 i, off;

	if (!PAGE_ALIGNED(res->windows) || res->windows_len > U64_MAX - res->windows) {
		*why = "the shared-memory region is misplaced";
		return -EINVAL;
	}
	if (cfg->window_size > res->windows_len / cfg->max_clients) {
		*why = "the shared-memory region is smaller than max_clients windows";
		return -EINVAL;
	}
	/* A doorbell shared by two slots would let one process ring for another. */
	bitmap_zero(seen, VGPU_VQ_DOORBELL + VGPU_MAX_CLIENTS);
	for (i = 0; i < VGPU_VQ_DOORBELL + cfg->max_clients; i++) {
		off = res->notify_off[i];
		if (!vgpu_range_ok((u64)off * res->notify_mult, sizeof(__le16), res->notify_len)) {
			*why = "the notification structure is smaller than its doorbells";
			return -EINVAL;
		}
		if (off >= VGPU_VQ_DOORBELL + VGPU_MAX_CLIENTS || test_and_set_bit(off, seen)) {
			*why = "its queues do not have a doorbell each";
			return -EINVAL;
		}
	}
	return 0;
}

/**
 * vgpu_check_notify - the PCI capability of the doorbells
 * @cap: private copy
 * @bar_len: bytes of the BAR named by @cap
 * @why: out, if an error is returned
 */
int vgpu_check_notify(const struct vgpu_notify_cap *cap, u64 bar_len, const char **why)
{
	if (cap->cap_len < 20 || cap->bar > 5) {
		*why = "the notification capability is malformed";
		return -EINVAL;
	}
	if (!vgpu_range_ok(cap->offset, cap->length, bar_len)) {
		*why = "the notification structure lies outside its BAR";
		return -EINVAL;
	}
	if (cap->multiplier < PAGE_SIZE || !PAGE_ALIGNED(cap->multiplier)) {
		*why = "doorbells share pages: give the QEMU device the option page-per-vq=on";
		return -EINVAL;
	}
	return 0;
}

/**
 * vgpu_check_resp - the header and the length of an answer
 * @resp: private copy, of at least @want bytes, zero where nothing was written
 * @used: bytes that the device claims to have written
 * @want: bytes of a successful answer of this type
 * @status: out: enum vgpu_status
 *
 * An answer with an error may end after its header.
 *
 * Return: 0, or -EPROTO when the device does not follow the ABI.
 */
int vgpu_check_resp(const void *resp, u32 used, u32 want, u32 *status)
{
	const struct vgpu_resp_hdr *hdr = resp;

	if (used < sizeof(*hdr) || used > want)
		return -EPROTO;
	*status = le32_to_cpu(hdr->status);
	if (hdr->padding || *status > VGPU_S_STUCK)
		return -EPROTO;
	if (*status == VGPU_S_OK && used != want)
		return -EPROTO;
	return 0;
}

/**
 * vgpu_check_pin_resp - the rest of a successful answer to PIN
 * @resp: private copy
 * @more: further runs of the region follow
 */
int vgpu_check_pin_resp(const struct vgpu_resp_pin *resp, bool more)
{
	u64 va = le64_to_cpu(resp->worker_va);

	if (more)
		return va ? -EPROTO : 0;
	return va && PAGE_ALIGNED(va) ? 0 : -EPROTO;
}

/**
 * vgpu_check_event - an event
 * @event: private copy
 * @used: bytes that the device claims to have written
 * @max_clients: slots
 * @reason: out, for VGPU_EV_CLIENT_DEAD: a reason of the ioctl ABI. A reason that is unknown to
 *	this driver, or reserved for it, is reported as VGPU_DEAD_EXITED: the worker is gone in any
 *	case and its client must not wait for it.
 *
 * Return: 0, -EPROTO when malformed, -EOPNOTSUPP for an unknown type.
 */
int vgpu_check_event(const struct vgpu_event *event, u32 used, u32 max_clients, u32 *reason)
{
	u32 type = le32_to_cpu(event->type);
	u32 arg = le32_to_cpu(event->arg);

	if (used != sizeof(*event) || event->padding || le32_to_cpu(event->client) >= max_clients)
		return -EPROTO;
	if (type == VGPU_EV_CLIENT_DEAD) {
		*reason = arg >= VGPU_DEAD_EXITED && arg < VGPU_DEAD_LOST ? arg : VGPU_DEAD_EXITED;
		return 0;
	}
	return type == VGPU_EV_WAKE ? 0 : -EOPNOTSUPP;
}

/**
 * vgpu_status_errno - errno for user space of a status of the device
 * @type: enum vgpu_cmd_type
 * @status: enum vgpu_status, checked
 */
int vgpu_status_errno(u32 type, u32 status)
{
	if (status == VGPU_S_OK)
		return 0;
	if (status == VGPU_S_UNSUPPORTED)
		return -EOPNOTSUPP;
	if (type == VGPU_CMD_CLIENT_CREATE)
		return -EAGAIN; /* any other cause: no worker now, maybe later */
	switch (status) {
	case VGPU_S_NO_CLIENT:
	case VGPU_S_WORKER:
	case VGPU_S_STUCK:
		return -ENODEV;
	case VGPU_S_NO_MEMORY:
		return -ENOMEM;
	case VGPU_S_QUOTA:
		return -EDQUOT;
	default:
		return -EIO; /* INVALID, BUSY: driver and device disagree on existing objects */
	}
}

/**
 * vgpu_client_next - the state machine of an open file
 * @state: enum vgpu_client_state
 * @input: the event
 *
 * Return: the next state (may be @state), or a negative errno if @input is not allowed in @state.
 */
int vgpu_client_next(enum vgpu_client_state state, enum vgpu_client_input input)
{
	switch (input) {
	case VGPU_INPUT_CREATE:
		return state == VGPU_CLIENT_NEW ? VGPU_CLIENT_STARTING : -EBUSY;
	case VGPU_INPUT_STARTED:
		/* The worker may have died between serving and this event. */
		if (state == VGPU_CLIENT_DEAD)
			return VGPU_CLIENT_DEAD;
		return state == VGPU_CLIENT_STARTING ? VGPU_CLIENT_ACTIVE : -EPROTO;
	case VGPU_INPUT_REFUSED:
		if (state == VGPU_CLIENT_STARTING || state == VGPU_CLIENT_DEAD)
			return VGPU_CLIENT_NEW;
		return -EPROTO;
	case VGPU_INPUT_DIED:
		return state == VGPU_CLIENT_NEW ? -EPROTO : VGPU_CLIENT_DEAD;
	case VGPU_INPUT_LOST:
		return VGPU_CLIENT_DEAD;
	}
	return -EINVAL;
}

/**
 * vgpu_deadline - convert a deadline from the caller's time namespace to the kernel's time
 * @deadline_ns: absolute, negative: none
 * @offset_ns: offset that the namespace adds to CLOCK_MONOTONIC, may be negative
 *
 * Return: absolute CLOCK_MONOTONIC, ns; negative only if there is no deadline.
 */
s64 vgpu_deadline(s64 deadline_ns, s64 offset_ns)
{
	s64 host;

	if (deadline_ns < 0)
		return deadline_ns;
	if (check_sub_overflow(deadline_ns, offset_ns, &host))
		return S64_MAX;
	return max_t(s64, host, 0);
}

/**
 * vgpu_user_cap - maximum number of clients of a user
 * @wanted: module parameter clients_per_user, 0: three quarters of the slots, rounded up
 * @slots: of the device
 */
u32 vgpu_user_cap(u32 wanted, u32 slots)
{
	return wanted ? wanted : slots - slots / 4;
}

/**
 * vgpu_wake_ready - check whether a sleeper of VGPU_IOCTL_WAIT must return
 * @seq: the client's counter
 * @seen: value known to the caller; any difference counts, so the counter may wrap
 * @reason: not 0: dead
 */
bool vgpu_wake_ready(u64 seq, u64 seen, u32 reason)
{
	return seq != seen || reason;
}
