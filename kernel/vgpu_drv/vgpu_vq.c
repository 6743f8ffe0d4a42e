// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: control and event queue
 *
 * A request is two buffers on the control queue and has two owners: the task that waits for the
 * answer, and the queue. Each holds a reference, so a waiter that is killed may leave at once, and
 * the device still writes into memory that is there: the queue's reference is dropped when the
 * device returns the buffers, or after the reset that ends its access to them.
 *
 * The device is not trusted: what it returns is copied out once, checked (vgpu_check.c), and then
 * used. The lengths that it claims are never used as lengths.
 */
#include <linux/jiffies.h>
#include <linux/scatterlist.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/virtio_config.h>

#include "vgpu.h"

/* Parts that timeout_ms is waited in, and how many times timeout_ms a busy device may take. */
#define VGPU_SLICES 10
#define VGPU_BUSY_FACTOR 6

/* How long a task waits for room in the control queue before it looks again whether it may stop. */
#define VGPU_SPACE_POLL (HZ / 2)

/**
 * vgpu_req_alloc - a request with its header filled in
 * @client: whom it is about: it has a slot
 * @type: enum vgpu_cmd_type
 * @cmd_len: bytes of the request
 * @resp_len: bytes of the answer
 *
 * Return: the request, to be dropped with vgpu_req_put(), or NULL.
 */
struct vgpu_req *vgpu_req_alloc(struct vgpu_client *client, u32 type, u32 cmd_len, u32 resp_len)
{
	/* A client must be able to end: this is one page at most, so the allocator can keep it. */
	gfp_t gfp = GFP_KERNEL | (type == VGPU_CMD_CLIENT_DESTROY ? __GFP_NOFAIL : 0);
	struct vgpu_req *req = kzalloc(sizeof(*req), gfp);
	struct vgpu_cmd_hdr *hdr;

	if (!req)
		return NULL;
	kref_init(&req->ref);
	INIT_LIST_HEAD(&req->node);
	INIT_LIST_HEAD(&req->orphan);
	init_completion(&req->done);
	req->client = client;
	req->result = -EINPROGRESS;
	req->cmd_len = cmd_len;
	req->resp_len = resp_len;
	req->cmd = kzalloc(cmd_len, gfp);
	req->resp = kzalloc(resp_len, gfp);
	if (!req->cmd || !req->resp) {
		vgpu_req_put(req);
		return NULL;
	}
	hdr = req->cmd;
	hdr->type = cpu_to_le32(type);
	hdr->client = cpu_to_le32(client->slot);
	return req;
}

static void vgpu_req_release(struct kref *ref)
{
	struct vgpu_req *req = container_of(ref, struct vgpu_req, ref);

	kfree(req->resp);
	kfree(req->cmd);
	kfree(req);
}

/**
 * vgpu_req_put - drop a reference
 * @req: may be gone afterwards
 */
void vgpu_req_put(struct vgpu_req *req)
{
	kref_put(&req->ref, vgpu_req_release);
}

/* The request leaves the queue. Drops the queue's reference. */
static void vgpu_req_finish_locked(struct vgpu_dev *dev, struct vgpu_req *req, int result)
{
	lockdep_assert_held(&dev->lock);
	list_del_init(&req->node);
	dev->inflight--;
	if (req->result == -EINPROGRESS)
		req->result = result;
	complete_all(&req->done);
	vgpu_req_put(req);
}

/* Takes what the device has answered. */
static void vgpu_ctl_poll(struct vgpu_dev *dev)
{
	struct vgpu_req *req;
	unsigned long flags;
	bool broken = false;
	u32 used;

	spin_lock_irqsave(&dev->lock, flags);
	if (dev->state == VGPU_DEV_LIVE) {
		do {
			virtqueue_disable_cb(dev->ctl);
			/* Bounded: nothing is added while the lock is held. */
			while ((req = virtqueue_get_buf(dev->ctl, &used))) {
				req->used = used;
				dev->answers++;
				vgpu_req_finish_locked(dev, req, 0);
			}
			broken = virtqueue_is_broken(dev->ctl);
		} while (!broken && !virtqueue_enable_cb(dev->ctl));
		wake_up_all(&dev->wq);
	}
	spin_unlock_irqrestore(&dev->lock, flags);
	if (broken)
		vgpu_dev_lost(dev, "it corrupted the control queue");
}

/**
 * vgpu_req_queue - send a request
 * @dev: the device
 * @req: the request; while it is in the queue, that holds a reference
 *
 * Return: 0, -ENOSPC when the queue is full, -ENODEV.
 */
int vgpu_req_queue(struct vgpu_dev *dev, struct vgpu_req *req)
{
	struct scatterlist out, in, *sgs[2] = { &out, &in };
	unsigned long flags;
	int err;

	sg_init_one(&out, req->cmd, req->cmd_len);
	sg_init_one(&in, req->resp, req->resp_len);

	spin_lock_irqsave(&dev->lock, flags);
	if (dev->state != VGPU_DEV_LIVE || !req->client->attached) {
		/* The second: lost and back meanwhile. The slot may be someone else's by now. */
		err = -ENODEV;
	} else if (dev->inflight >= dev->depth) {
		err = -ENOSPC;
	} else {
		err = virtqueue_add_sgs(dev->ctl, sgs, 1, 1, req, GFP_ATOMIC);
		if (!err) {
			kref_get(&req->ref);
			list_add_tail(&req->node, &dev->reqs);
			dev->inflight++;
			if (!virtqueue_kick(dev->ctl))
				err = -EIO;
		}
	}
	spin_unlock_irqrestore(&dev->lock, flags);

	if (err == -EIO)
		vgpu_dev_lost(dev, "its control queue is broken");
	return err == -EIO ? -ENODEV : err;
}

static bool vgpu_ctl_has_room(struct vgpu_dev *dev)
{
	return READ_ONCE(dev->state) != VGPU_DEV_LIVE || READ_ONCE(dev->inflight) < dev->depth;
}

/**
 * vgpu_req_run - send a request and wait for the answer
 * @dev: the device
 * @req: the request; the caller keeps its reference in any case
 * @killable: whether a fatal signal ends the wait
 *
 * Return: 0 when answered (see vgpu_req_status()), -ENODEV when the device is lost, -EINTR when
 * killed (the request may still be in the queue: then req->node is linked and someone has to see to
 * its end), -ENOMEM.
 */
int vgpu_req_run(struct vgpu_dev *dev, struct vgpu_req *req, bool killable)
{
	int err;

	while ((err = vgpu_req_queue(dev, req)) == -ENOSPC) {
		wait_event_timeout(dev->wq, vgpu_ctl_has_room(dev), VGPU_SPACE_POLL);
		if (killable && fatal_signal_pending(current))
			return -EINTR;
	}
	return err ? err : vgpu_req_wait(dev, req, killable);
}

/**
 * vgpu_req_wait - wait for the answer to a request that was sent
 * @dev: the device
 * @req: the request
 * @killable: whether a fatal signal ends the wait
 *
 * The device is declared lost when it has answered nothing at all for timeout_ms: one that answers
 * others is only busy (but not for ever). The time is waited in slices, so that a clock that jumps
 * because the machine was paused ends one slice and not the patience.
 *
 * Return: as vgpu_req_run().
 */
int vgpu_req_wait(struct vgpu_dev *dev, struct vgpu_req *req, bool killable)
{
	unsigned long slice = msecs_to_jiffies(vgpu_timeout_ms / VGPU_SLICES) + 1;
	unsigned int silent = 0, total = 0;
	u32 seen = READ_ONCE(dev->answers), now;
	long rc;

	while (silent < VGPU_SLICES && total++ < VGPU_SLICES * VGPU_BUSY_FACTOR) {
		rc = killable ? wait_for_completion_killable_timeout(&req->done, slice) :
				wait_for_completion_timeout(&req->done, slice);
		if (rc < 0)
			return -EINTR;
		if (rc > 0)
			return READ_ONCE(req->result);
		vgpu_ctl_poll(dev); /* in case it is the interrupt that was lost */
		now = READ_ONCE(dev->answers);
		silent = now == seen ? silent + 1 : 0;
		seen = now;
	}
	if (!completion_done(&req->done))
		vgpu_dev_lost(dev, "it does not answer (module parameter timeout_ms)");
	wait_for_completion(&req->done);
	return READ_ONCE(req->result);
}

/**
 * vgpu_req_status - take the answer out of shared memory and check it
 * @dev: the device; declared lost when it does not follow the ABI
 * @req: a request that was answered
 * @resp: out: req->resp_len bytes
 * @status: out: enum vgpu_status
 *
 * Return: 0 or -EIO.
 */
int vgpu_req_status(struct vgpu_dev *dev, struct vgpu_req *req, void *resp, u32 *status)
{
	memcpy(resp, req->resp, req->resp_len);
	if (!vgpu_check_resp(resp, req->used, req->resp_len, status))
		return 0;
	vgpu_dev_lost(dev, "it gave a malformed answer");
	return -EIO;
}

/**
 * vgpu_ctl_callback - interrupt of the control queue
 * @vq: the queue
 */
void vgpu_ctl_callback(struct virtqueue *vq)
{
	vgpu_ctl_poll(vq->vdev->priv);
}

/**
 * vgpu_ctl_fail_locked - let all waiters for an answer return -ENODEV
 * @dev: a device that is lost; it still owns the buffers
 */
void vgpu_ctl_fail_locked(struct vgpu_dev *dev)
{
	struct vgpu_req *req;

	lockdep_assert_held(&dev->lock);
	list_for_each_entry(req, &dev->reqs, node) {
		req->result = -ENODEV;
		complete_all(&req->done);
	}
}

/**
 * vgpu_ctl_drop - take all requests out of the queue of a device that was reset
 * @dev: the device
 */
void vgpu_ctl_drop(struct vgpu_dev *dev)
{
	struct vgpu_req *req;
	unsigned long flags;

	spin_lock_irqsave(&dev->lock, flags);
	while ((req = virtqueue_detach_unused_buf(dev->ctl)))
		vgpu_req_finish_locked(dev, req, -ENODEV);
	spin_unlock_irqrestore(&dev->lock, flags);
}

static void vgpu_event_handle_locked(struct vgpu_dev *dev, const struct vgpu_event *event, u32 used)
{
	u32 reason = 0;
	struct vgpu_client *client;
	int err = vgpu_check_event(event, used, dev->cfg.max_clients, &reason);

	if (err) {
		dev_warn_ratelimited(&dev->vdev->dev, "ignored an event of type %u: %s\n",
				     le32_to_cpu(event->type),
				     err == -EPROTO ? "malformed" : "unknown type");
		return;
	}
	/* The index was checked against max_clients <= VGPU_MAX_CLIENTS. */
	client = dev->by_slot[le32_to_cpu(event->client)];
	if (!client)
		return; /* closed in the meantime */
	if (event->type == cpu_to_le32(VGPU_EV_WAKE))
		vgpu_client_wake_locked(client);
	else
		vgpu_client_die_locked(client, reason);
}

static int vgpu_event_post(struct vgpu_dev *dev, struct vgpu_event *event)
{
	struct scatterlist sg;

	memset(event, 0, sizeof(*event));
	sg_init_one(&sg, event, sizeof(*event));
	return virtqueue_add_inbuf(dev->ev, &sg, 1, event, GFP_ATOMIC);
}

/* Return: false when the budget is spent. */
static bool vgpu_events_take_locked(struct vgpu_dev *dev)
{
	unsigned int budget = VGPU_EVENT_BUDGET;
	struct vgpu_event *buf, event;
	u32 used;

	while (budget-- && (buf = virtqueue_get_buf(dev->ev, &used))) {
		memcpy(&event, buf, sizeof(event));
		vgpu_event_handle_locked(dev, &event, used);
		vgpu_event_post(dev, buf);
	}
	return budget != UINT_MAX;
}

/**
 * vgpu_events_poll - handle the events that have arrived
 * @dev: the device
 */
void vgpu_events_poll(struct vgpu_dev *dev)
{
	bool broken = false, done = true;
	unsigned long flags;

	spin_lock_irqsave(&dev->lock, flags);
	if (dev->state == VGPU_DEV_LIVE) {
		do {
			virtqueue_disable_cb(dev->ev);
			done = vgpu_events_take_locked(dev);
			broken = !virtqueue_kick(dev->ev) || virtqueue_is_broken(dev->ev);
		} while (done && !broken && !virtqueue_enable_cb(dev->ev));
		/* Interrupts stay off until it has run. Under the lock: see vgpu_drop_queues(). */
		if (!done && !broken)
			schedule_work(&dev->event_work);
	}
	spin_unlock_irqrestore(&dev->lock, flags);
	if (broken)
		vgpu_dev_lost(dev, "it corrupted the event queue");
}

/**
 * vgpu_event_work - the rest of a flood of events
 * @work: dev->event_work
 */
void vgpu_event_work(struct work_struct *work)
{
	vgpu_events_poll(container_of(work, struct vgpu_dev, event_work));
}

/**
 * vgpu_event_callback - interrupt of the event queue
 * @vq: the queue
 */
void vgpu_event_callback(struct virtqueue *vq)
{
	vgpu_events_poll(vq->vdev->priv);
}

/**
 * vgpu_events_alloc - fill the event queue of a device that does not run yet
 * @dev: the device
 *
 * Return: 0, -ENOMEM, or the error of the queue.
 */
int vgpu_events_alloc(struct vgpu_dev *dev)
{
	unsigned int i, n = min_t(u32, virtqueue_get_vring_size(dev->ev), VGPU_EVENT_BUFFERS);
	int err;

	dev->events = kcalloc(n, sizeof(*dev->events), GFP_KERNEL);
	if (!dev->events)
		return -ENOMEM;
	dev->nevents = n;
	for (i = 0; i < n; i++) {
		err = vgpu_event_post(dev, &dev->events[i]);
		if (err)
			return err;
	}
	return 0;
}

/**
 * vgpu_events_drop - take the buffers back from a device that was reset
 * @dev: the device
 */
void vgpu_events_drop(struct vgpu_dev *dev)
{
	while (virtqueue_detach_unused_buf(dev->ev))
		;
	kfree(dev->events);
	dev->events = NULL;
	dev->nevents = 0;
}
