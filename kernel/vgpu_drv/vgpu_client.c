// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: clients
 *
 * An open file is one client. It becomes one for the device with CREATE_CLIENT, which takes a slot:
 * a window, a doorbell, and a worker process on the host. The slot is given to nobody else before
 * the device has said that the worker is gone. The state machine is vgpu_client_next().
 */
#include <linux/hrtimer.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "vgpu.h"

/* The first wake_seq: not 0, so that a caller who forgets to take it from CREATE_CLIENT notices. */
#define VGPU_FIRST_WAKE_SEQ 1

/**
 * vgpu_client_open - a new client of a device
 * @dev: the device; a reference is taken
 * @mm: the address space that it is bound to, or NULL (unit tests)
 * @mapping: of the file, or NULL (unit tests)
 *
 * Return: the client or an ERR_PTR.
 */
struct vgpu_client *vgpu_client_open(struct vgpu_dev *dev, struct mm_struct *mm,
				     struct address_space *mapping)
{
	struct vgpu_client *client = kzalloc(sizeof(*client), GFP_KERNEL_ACCOUNT);

	if (!client)
		return ERR_PTR(-ENOMEM);
	client->dev = dev;
	client->mm = mm;
	client->mapping = mapping;
	client->wake_seq = VGPU_FIRST_WAKE_SEQ;
	mutex_init(&client->lock);
	init_waitqueue_head(&client->wq);
	INIT_LIST_HEAD(&client->orphans);
	xa_init_flags(&client->regions, XA_FLAGS_ALLOC1);
	xa_init(&client->blanks);

	mutex_lock(&dev->mutex);
	if (dev->state != VGPU_DEV_LIVE) {
		mutex_unlock(&dev->mutex);
		kfree(client);
		return ERR_PTR(-ENODEV);
	}
	list_add(&client->node, &dev->clients);
	mutex_unlock(&dev->mutex);

	kref_get(&dev->ref);
	if (mm)
		mmgrab(mm);
	return client;
}

/**
 * vgpu_client_wake_locked - the worker has published something
 * @client: the client; dev->lock is held
 */
void vgpu_client_wake_locked(struct vgpu_client *client)
{
	lockdep_assert_held(&client->dev->lock);
	WRITE_ONCE(client->wake_seq, client->wake_seq + 1);
	wake_up_all(&client->wq);
}

/**
 * vgpu_client_die_locked - the worker or the device is gone
 * @client: the client; dev->lock is held
 * @reason: enum vgpu_dead_reason; the first one stays, but LOST replaces any
 */
void vgpu_client_die_locked(struct vgpu_client *client, u32 reason)
{
	bool lost = reason == VGPU_DEAD_LOST;
	int next = vgpu_client_next(client->state, lost ? VGPU_INPUT_LOST : VGPU_INPUT_DIED);

	lockdep_assert_held(&client->dev->lock);
	if (next < 0)
		return;
	client->state = next;
	if (lost || !client->reason)
		WRITE_ONCE(client->reason, reason);
	wake_up_all(&client->wq);
}

/**
 * vgpu_client_usable - may this client send requests
 * @client: the client
 *
 * Return: 0, -ENXIO before CREATE_CLIENT, -ENODEV when the worker or the device is gone.
 */
int vgpu_client_usable(struct vgpu_client *client)
{
	switch (READ_ONCE(client->state)) {
	case VGPU_CLIENT_ACTIVE:
		return 0;
	case VGPU_CLIENT_DEAD:
		return -ENODEV;
	default:
		return -ENXIO;
	}
}

/**
 * vgpu_client_call - vgpu_req_run() on behalf of a client
 * @client: the client, locked
 * @req: the request; the caller keeps its reference
 * @killable: whether a fatal signal ends the wait; the request is then seen to by
 *	vgpu_client_close()
 */
int vgpu_client_call(struct vgpu_client *client, struct vgpu_req *req, bool killable)
{
	int err = vgpu_req_run(client->dev, req, killable);

	lockdep_assert_held(&client->lock);
	if (err == -EINTR) {
		kref_get(&req->ref);
		list_add_tail(&req->orphan, &client->orphans);
	}
	return err;
}

static int vgpu_slot_take(struct vgpu_client *client)
{
	struct vgpu_dev *dev = client->dev;
	int next, slot;

	spin_lock_irq(&dev->lock);
	slot = -ENODEV;
	if (client->reason == VGPU_DEAD_LOST || dev->state != VGPU_DEV_LIVE)
		goto out;
	slot = vgpu_client_next(client->state, VGPU_INPUT_CREATE);
	if (slot < 0)
		goto out;
	next = slot;
	slot = vgpu_ids_alloc(&dev->slots);
	if (slot < 0)
		goto out;
	client->state = next;
	client->slot = slot;
	client->attached = true;
	dev->by_slot[slot] = client;
out:
	spin_unlock_irq(&dev->lock);
	return slot < 0 ? slot : 0;
}

static void vgpu_slot_give_locked(struct vgpu_client *client)
{
	struct vgpu_dev *dev = client->dev;

	lockdep_assert_held(&dev->lock);
	if (!client->attached)
		return; /* the device was lost: its slots have started anew */
	client->attached = false;
	dev->by_slot[client->slot] = NULL;
	vgpu_ids_free(&dev->slots, client->slot);
}

static void vgpu_create_done(struct vgpu_client *client, bool started)
{
	struct vgpu_dev *dev = client->dev;
	int next;

	spin_lock_irq(&dev->lock);
	if (client->reason != VGPU_DEAD_LOST) {
		next = vgpu_client_next(client->state,
					started ? VGPU_INPUT_STARTED : VGPU_INPUT_REFUSED);
		if (next >= 0)
			WRITE_ONCE(client->state, next);
		if (!started) {
			client->reason = 0;
			vgpu_slot_give_locked(client);
		}
	}
	spin_unlock_irq(&dev->lock);
}

/**
 * vgpu_client_create - take a slot and have a worker started for it
 * @client: the client, locked
 * @label: for the host's log
 *
 * Return: 0, -EBUSY when it was done before, -ENOSPC without a free slot, -EAGAIN when the host
 * could not start a worker, -ENODEV, -ENOMEM, -EINTR when killed, -EIO.
 */
int vgpu_client_create(struct vgpu_client *client, const char *label)
{
	struct vgpu_cmd_client_create *cmd;
	struct vgpu_resp_hdr resp;
	struct vgpu_req *req;
	u32 status;
	int err;

	lockdep_assert_held(&client->lock);
	err = vgpu_slot_take(client);
	if (err)
		return err;
	req = vgpu_req_alloc(client, VGPU_CMD_CLIENT_CREATE, sizeof(*cmd), sizeof(resp));
	if (!req) {
		vgpu_create_done(client, false);
		return -ENOMEM;
	}
	cmd = req->cmd;
	strscpy_pad(cmd->label, label, sizeof(cmd->label));

	/* Killed, lost or malformed: the slot stays taken until the file is closed. */
	err = vgpu_client_call(client, req, true);
	if (!err)
		err = vgpu_req_status(client->dev, req, &resp, &status);
	if (!err) {
		err = vgpu_status_errno(VGPU_CMD_CLIENT_CREATE, status);
		vgpu_create_done(client, !err);
		if (err)
			dev_warn_ratelimited(&client->dev->vdev->dev,
					     "the host could not start a worker: status %u\n",
					     status);
	}
	vgpu_req_put(req);
	return err;
}

/* Returns when the device can reach neither the window nor the pinned pages of this client. */
static void vgpu_client_detach(struct vgpu_client *client)
{
	struct vgpu_dev *dev = client->dev;
	struct vgpu_req *req, *next;
	struct vgpu_resp_hdr resp;
	u32 status;

	if (READ_ONCE(client->attached)) {
		req = vgpu_req_alloc(client, VGPU_CMD_CLIENT_DESTROY,
				     sizeof(struct vgpu_cmd_client_destroy), sizeof(resp));
		if (!vgpu_req_run(dev, req, false) &&
		    !vgpu_req_status(dev, req, &resp, &status) && status != VGPU_S_OK &&
		    status != VGPU_S_NO_CLIENT && status != VGPU_S_WORKER)
			vgpu_dev_lost(dev, "it cannot end a worker");
		vgpu_req_put(req);
	}
	/* After the end of the worker: one that is stuck answers these by nothing else. */
	list_for_each_entry_safe(req, next, &client->orphans, orphan) {
		list_del(&req->orphan);
		/* Not linked: answered by now, or killed while it waited for room. */
		if (!list_empty_careful(&req->node))
			vgpu_req_wait(dev, req, false);
		vgpu_req_put(req);
	}
	/* Of a lost device only the reset is known to have ended its accesses. */
	wait_event(dev->wq, READ_ONCE(dev->state) != VGPU_DEV_LOST);
}

/**
 * vgpu_client_close - end a client
 * @client: gone afterwards
 *
 * Not killable, and never long: the device answers within timeout_ms or is reset.
 */
void vgpu_client_close(struct vgpu_client *client)
{
	struct vgpu_dev *dev = client->dev;

	mutex_lock(&client->lock);
	vgpu_client_detach(client);
	vgpu_unpin_all(client);
	mutex_unlock(&client->lock);

	/* Events about this client came before the answer: none must reach the slot's next. */
	vgpu_events_poll(dev);
	spin_lock_irq(&dev->lock);
	vgpu_slot_give_locked(client);
	spin_unlock_irq(&dev->lock);

	mutex_lock(&dev->mutex);
	list_del(&client->node);
	mutex_unlock(&dev->mutex);

	vgpu_map_free_blanks(client);
	if (client->mm)
		mmdrop(client->mm);
	xa_destroy(&client->regions);
	kfree(client);
	vgpu_dev_put(dev);
}

/**
 * vgpu_client_wait - sleep until the worker wakes the guest
 * @client: the client
 * @seen: wake_seq that the caller knows
 * @deadline_ns: absolute CLOCK_MONOTONIC, negative: none
 * @seq: out, except with -ENXIO
 * @reason: out, except with -ENXIO
 *
 * Return: 0, -ETIMEDOUT, -ERESTARTSYS (the call can be repeated as it is), -ENXIO before
 * CREATE_CLIENT, -ENODEV when the device is lost.
 */
int vgpu_client_wait(struct vgpu_client *client, u64 seen, s64 deadline_ns, u64 *seq, u32 *reason)
{
	ktime_t deadline = ns_to_ktime(deadline_ns);
	DEFINE_WAIT(wait);
	int err = 0;

	if (vgpu_client_usable(client) == -ENXIO)
		return -ENXIO;
	for (;;) {
		prepare_to_wait(&client->wq, &wait, TASK_INTERRUPTIBLE | TASK_FREEZABLE);
		*reason = READ_ONCE(client->reason);
		*seq = READ_ONCE(client->wake_seq);
		if (vgpu_wake_ready(*seq, seen, *reason))
			break;
		if (!err && signal_pending(current))
			err = -ERESTARTSYS;
		if (err)
			break;
		/* 0: the deadline has passed. Look once more: a wake may have come with it. */
		if (!schedule_hrtimeout(deadline_ns < 0 ? NULL : &deadline, HRTIMER_MODE_ABS))
			err = -ETIMEDOUT;
	}
	finish_wait(&client->wq, &wait);
	if (vgpu_wake_ready(*seq, seen, *reason))
		err = 0;
	return *reason == VGPU_DEAD_LOST ? -ENODEV : err;
}
