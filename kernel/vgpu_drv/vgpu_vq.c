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

/* Parts that timeout_ms is waited in. */
#define VGPU_SLICES 10

/*
 * How many times timeout_ms a request may take of a device that lives. With the default that is 120
 * seconds, more than the 70 that the broker gives a worker to start. The end of a client waits for
 * one: its slot can wait without a task.
 */
#define VGPU_PATIENCE 12
#define VGPU_PATIENCE_END 1

/* How many times timeout_ms a device without PING may be silent while a worker starts. */
#define VGPU_PATIENCE_START 8

/**
 * vgpu_req_alloc - a request with its header filled in
 * @client: whom it is about: it has a slot. NULL for PING
 * @type: enum vgpu_cmd_type
 * @cmd_len: bytes of the request
 * @resp_len: bytes of the answer
 *
 * Return: the request, to be dropped with vgpu_req_put(), or NULL.
 */
struct vgpu_req *vgpu_req_alloc(struct vgpu_client *client, u32 type, u32 cmd_len, u32 resp_len)
{
	/* A client must be able to end: this is one page at most, so the allocator can keep it. */
	gfp_t gfp = GFP_KERNEL | (type == VGPU_CMD_CLIENT_DESTROY || type == VGPU_CMD_PING ?
				  __GFP_NOFAIL : 0);
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
	if (client)
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
	if (!req->client)
		dev->pinging = false;
	if (dev->nzombies && dev->state != VGPU_DEV_GONE)
		queue_work(system_long_wq, &dev->reap_work);
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

/* Places in the queue for @req: one is kept free for a PING. */
static unsigned int vgpu_ctl_depth(struct vgpu_dev *dev, const struct vgpu_req *req)
{
	return dev->depth - (dev->has_ping && req->client);
}

/**
 * vgpu_req_queue - send a request
 * @dev: the device
 * @req: the request; while it is in the queue, that holds a reference
 *
 * Return: 0, -ENOSPC when the queue is full, -EBUSY for a second PING, -ENODEV.
 */
int vgpu_req_queue(struct vgpu_dev *dev, struct vgpu_req *req)
{
	struct scatterlist out, in, *sgs[2] = { &out, &in };
	unsigned long flags;
	int err;

	sg_init_one(&out, req->cmd, req->cmd_len);
	sg_init_one(&in, req->resp, req->resp_len);

	spin_lock_irqsave(&dev->lock, flags);
	if (dev->state != VGPU_DEV_LIVE || (req->client && !req->client->attached)) {
		/* The second: lost and back meanwhile. The slot may be someone else's by now. */
		err = -ENODEV;
	} else if (!req->client && dev->pinging) {
		err = -EBUSY;
	} else if (dev->inflight >= vgpu_ctl_depth(dev, req)) {
		err = -ENOSPC;
	} else {
		err = virtqueue_add_sgs(dev->ctl, sgs, 1, 1, req, GFP_ATOMIC);
		if (!err) {
			kref_get(&req->ref);
			list_add_tail(&req->node, &dev->reqs);
			dev->inflight++;
			req->sent = true;
			if (!req->client)
				dev->pinging = true;
			if (!virtqueue_kick(dev->ctl))
				err = -EIO;
		}
	}
	spin_unlock_irqrestore(&dev->lock, flags);

	if (err == -EIO)
		vgpu_dev_lost(dev, "its control queue is broken");
	return err == -EIO ? -ENODEV : err;
}

static bool vgpu_ctl_has_room(struct vgpu_dev *dev, const struct vgpu_req *req)
{
	return READ_ONCE(dev->state) != VGPU_DEV_LIVE ||
	       READ_ONCE(dev->inflight) < vgpu_ctl_depth(dev, req);
}

/* Asks the device whether it lives. Nobody waits for this answer: every answer counts. */
static void vgpu_ping(struct vgpu_dev *dev)
{
	struct vgpu_req *req = vgpu_req_alloc(NULL, VGPU_CMD_PING, sizeof(struct vgpu_cmd_ping),
					      sizeof(struct vgpu_resp_hdr));

	vgpu_req_queue(dev, req);
	vgpu_req_put(req);
}

/**
 * struct vgpu_patience - what a waiter has seen
 * @seen: dev->answers when it last changed
 * @silent: slices since then
 * @total: slices since the beginning
 * @most: slices that this request may take
 */
struct vgpu_patience {
	u32 seen;
	unsigned int silent;
	unsigned int total;
	unsigned int most;
};

/* After a slice without an answer. Return: 0 to go on, -ETIMEDOUT. */
static int vgpu_patience_next(struct vgpu_dev *dev, struct vgpu_req *req, struct vgpu_patience *p)
{
	const struct vgpu_cmd_hdr *hdr = req->cmd;
	unsigned int limit = VGPU_SLICES;
	u32 now;

	vgpu_ctl_poll(dev); /* in case it is the interrupt that was lost */
	now = READ_ONCE(dev->answers);
	p->silent = now == p->seen ? p->silent + 1 : 0;
	p->seen = now;
	p->total++;
	if (!dev->has_ping && hdr->type == cpu_to_le32(VGPU_CMD_CLIENT_CREATE))
		limit *= VGPU_PATIENCE_START;
	if (p->silent < limit)
		return p->total < p->most ? 0 : -ETIMEDOUT;
	if (dev->has_ping && p->silent == limit)
		vgpu_ping(dev);
	if (p->silent >= limit * (dev->has_ping ? 2 : 1) && !completion_done(&req->done))
		vgpu_dev_lost(dev, "it does not answer (module parameter timeout_ms)");
	return 0;
}

/* Return: jiffies left, 0 after a slice in which nothing happened, negative when killed. */
static long vgpu_req_slice(struct vgpu_dev *dev, struct vgpu_req *req, bool killable, long slice)
{
	if (!req->sent && killable)
		return wait_event_killable_timeout(dev->wq, vgpu_ctl_has_room(dev, req), slice);
	if (!req->sent)
		return wait_event_timeout(dev->wq, vgpu_ctl_has_room(dev, req), slice);
	if (killable)
		return wait_for_completion_killable_timeout(&req->done, slice);
	return wait_for_completion_timeout(&req->done, slice);
}

/**
 * vgpu_req_run - send a request, if that was not done, and wait for the answer
 * @dev: the device
 * @req: the request; the caller keeps its reference in any case
 * @killable: whether a fatal signal ends the wait; false also means that the client ends
 *
 * The device is declared lost when it has answered nothing at all for timeout_ms, nor then a PING,
 * if it knows that, for timeout_ms. One that answers others is alive: silence about this request
 * concerns its client only. The time is waited in slices, so that a clock that jumps because the
 * machine was paused ends one slice and not the patience.
 *
 * Return: 0 when answered (see vgpu_req_status()), -ENODEV when the device is lost, -EINTR when
 * killed, -ETIMEDOUT when the device lives and does not answer this. After the last two the request
 * may still be in the queue (req->sent), and someone has to see to its end.
 */
int vgpu_req_run(struct vgpu_dev *dev, struct vgpu_req *req, bool killable)
{
	unsigned long slice = msecs_to_jiffies(READ_ONCE(vgpu_timeout_ms) / VGPU_SLICES) + 1;
	struct vgpu_patience patience = {
		.seen = READ_ONCE(dev->answers),
		.most = VGPU_SLICES * (killable ? VGPU_PATIENCE : VGPU_PATIENCE_END),
	};
	long left;
	int err;

	for (;;) {
		if (!req->sent) {
			err = vgpu_req_queue(dev, req);
			if (err && err != -ENOSPC)
				return err;
		}
		left = vgpu_req_slice(dev, req, killable, slice);
		if (left < 0)
			return -EINTR;
		if (req->sent && completion_done(&req->done))
			return READ_ONCE(req->result);
		if (left)
			continue;
		err = vgpu_patience_next(dev, req, &patience);
		if (err)
			return err;
	}
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
static bool vgpu_events_take_locked(struct vgpu_dev *dev, unsigned int *budget)
{
	struct vgpu_event *buf, event;
	u32 used;

	while (*budget && (buf = virtqueue_get_buf(dev->ev, &used))) {
		(*budget)--;
		memcpy(&event, buf, sizeof(event));
		vgpu_event_handle_locked(dev, &event, used);
		vgpu_event_post(dev, buf);
	}
	return *budget;
}

/**
 * vgpu_events_poll - handle the events that have arrived
 * @dev: the device
 */
void vgpu_events_poll(struct vgpu_dev *dev)
{
	/* Of all rounds: a device may send the next event just when the queue was found empty. */
	unsigned int budget = VGPU_EVENT_BUDGET;
	bool broken = false, done = true;
	unsigned long flags;

	spin_lock_irqsave(&dev->lock, flags);
	if (dev->state == VGPU_DEV_LIVE) {
		do {
			virtqueue_disable_cb(dev->ev);
			done = vgpu_events_take_locked(dev, &budget);
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
