// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: control and event queue
 *
 * A request is two buffers on the control queue and has two owners: the task that waits for the
 * answer, and the queue. Each holds a reference, so a killed waiter may return at once while the
 * device still writes into valid memory: the queue's reference is dropped when the device returns
 * the buffers, or after the reset that ends its access to them.
 *
 * The device is not trusted: its data is copied out once, checked (vgpu_check.c), and then used.
 * Lengths claimed by the device are never used as lengths.
 */
#include <linux/jiffies.h>
#include <linux/scatterlist.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/virtio_config.h>

#include "vgpu.h"

/* Number of slices that timeout_ms is divided into while waiting. */
#define VGPU_SLICES 10

/*
 * Maximum wait for a request to a live device, in multiples of timeout_ms. With the default that is
 * 120 s, more than the 70 s in which the broker gets a worker started. The end of a client waits
 * for 1: its slot can wait without a task.
 */
#define VGPU_PATIENCE 12
#define VGPU_PATIENCE_END 1

/* Maximum silence of a device without PING while a worker starts, in multiples of timeout_ms. */
#define VGPU_PATIENCE_START 8

/**
 * vgpu_req_alloc - allocate a request with its header filled in
 * @client: subject of the request, with a slot. NULL for PING
 * @type: enum vgpu_cmd_type
 * @cmd_len: bytes of the request
 * @resp_len: bytes of the answer
 *
 * Return: the request, to be dropped with vgpu_req_put(), or NULL.
 */
struct vgpu_req *vgpu_req_alloc(struct vgpu_client *client, u32 type, u32 cmd_len, u32 resp_len)
{
	/*
	 * The end of a client must not fail. The size is at most a page, so __GFP_NOFAIL is
	 * allowed.
	 */
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

/* Takes the request off the queue and drops the queue's reference. */
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

/* Completes the requests that the device has answered. */
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
			/* Bounded: no request is added while the lock is held. */
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

/* Returns the number of places in the queue available to @req: one is reserved for a PING. */
static unsigned int vgpu_ctl_depth(struct vgpu_dev *dev, const struct vgpu_req *req)
{
	return dev->depth - (dev->has_ping && req->client);
}

/**
 * vgpu_req_queue - send a request
 * @dev: the device
 * @req: the request; the queue holds a reference while the request is queued
 *
 * Return: 0, -ENOSPC if the queue is full, -EBUSY for a second PING, -ENODEV.
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
		/*
		 * Not attached: the device was lost and is back, and the slot may have another
		 * owner.
		 */
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

/*
 * Sends a PING to check that the device is alive. No task waits for its answer, as any answer
 * counts.
 */
static void vgpu_ping(struct vgpu_dev *dev)
{
	struct vgpu_req *req = vgpu_req_alloc(NULL, VGPU_CMD_PING, sizeof(struct vgpu_cmd_ping),
					      sizeof(struct vgpu_resp_hdr));

	vgpu_req_queue(dev, req);
	vgpu_req_put(req);
}

/**
 * struct vgpu_patience - progress of a wait for an answer
 * @seen: last value of dev->answers
 * @silent: number of slices since @seen changed
 * @total: number of slices since the start
 * @most: maximum number of slices for the request
 */
struct vgpu_patience {
	u32 seen;
	unsigned int silent;
	unsigned int total;
	unsigned int most;
};

/* Called after a slice without an answer. Return: 0 to go on, -ETIMEDOUT. */
static int vgpu_patience_next(struct vgpu_dev *dev, struct vgpu_req *req, struct vgpu_patience *p)
{
	const struct vgpu_cmd_hdr *hdr = req->cmd;
	unsigned int limit = VGPU_SLICES;
	u32 now;

	vgpu_ctl_poll(dev); /* in case the interrupt was lost */
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

/* Return: jiffies left, 0 after a slice without an event, negative when killed. */
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
 * vgpu_req_run - send a request, unless already sent, and wait for the answer
 * @dev: the device
 * @req: the request; the caller keeps its reference in any case
 * @killable: whether a fatal signal ends the wait; false also means that the client is ending
 *
 * The device is declared lost after timeout_ms without any answer, plus another timeout_ms without
 * an answer to PING if it serves PING. A device that answers other requests is alive: silence about
 * this request affects its client only. The wait is divided into slices, so that a jump of the
 * clock while the machine was paused ends a single slice and not the whole wait.
 *
 * Return: 0 when answered (see vgpu_req_status()), -ENODEV when the device is lost, -EINTR when
 * killed, -ETIMEDOUT when the device is alive but does not answer this request. After the last two
 * the request may still be in the queue (req->sent), and the caller must see to its end.
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
 * vgpu_req_status - copy the answer out of shared memory and check it
 * @dev: the device; declared lost if the answer violates the ABI
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
 * vgpu_ctl_fail_locked - make all waiters for an answer return -ENODEV
 * @dev: a lost device; it still owns the buffers
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
 * vgpu_ctl_drop - remove all requests from the queue of a device that was reset
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
		return; /* closed meanwhile */
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
 * vgpu_events_poll - handle pending events
 * @dev: the device
 */
void vgpu_events_poll(struct vgpu_dev *dev)
{
	/*
	 * Shared by all rounds: the device may send the next event just after the queue was found
	 * empty.
	 */
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
		/*
		 * Interrupts stay off until the work item has run. Under the lock: see
		 * vgpu_drop_queues().
		 */
		if (!done && !broken)
			schedule_work(&dev->event_work);
	}
	spin_unlock_irqrestore(&dev->lock, flags);
	if (broken)
		vgpu_dev_lost(dev, "it corrupted the event queue");
}

/**
 * vgpu_event_work - handle the rest of a flood of events
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
 * vgpu_events_alloc - fill the event queue of a device that is not running yet
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
 * vgpu_events_drop - free the buffers of the event queue of a device that was reset
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
