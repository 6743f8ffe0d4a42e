// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: clients
 *
 * An open file is one client. With CREATE_CLIENT it becomes a client of the device and takes a
 * slot: a window, a doorbell, and a worker process on the host. The slot is not reused before the
 * device has confirmed that the worker is gone. The state machine is vgpu_client_next().
 *
 * A client ends with the address space that opened the file, or with the file if that is earlier:
 * vgpu_client_end(). If the device is alive but does not confirm that the worker is gone, the
 * client becomes a zombie: its slot and its pinned pages stay in use, at no cost to other clients,
 * until the answer arrives or the device is reset: vgpu_reap().
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/hrtimer.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "vgpu.h"

/* First wake_seq. Not 0, so that a caller that does not take it from CREATE_CLIENT notices. */
#define VGPU_FIRST_WAKE_SEQ 1

#if IS_ENABLED(CONFIG_MMU_NOTIFIER)
static void vgpu_mm_release(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	/* Deferred to a work item: all notifiers of the system wait for this callback. */
	vgpu_client_mm_gone(container_of(notifier, struct vgpu_client, notifier));
}

static const struct mmu_notifier_ops vgpu_mm_ops = {
	.release = vgpu_mm_release,
};

static int vgpu_mm_follow(struct vgpu_client *client)
{
	int err;

	if (!client->mm || client->notified)
		return 0;
	client->notifier.ops = &vgpu_mm_ops;
	err = mmu_notifier_register(&client->notifier, client->mm);
	client->notified = !err;
	return err;
}

static void vgpu_mm_leave(struct vgpu_client *client)
{
	if (client->notified)
		mmu_notifier_unregister(&client->notifier, client->mm);
}
#else
/* Without MMU notifiers the client ends with its file. */
static int vgpu_mm_follow(struct vgpu_client *client)
{
	return 0;
}

static void vgpu_mm_leave(struct vgpu_client *client)
{
}
#endif

static void vgpu_client_end(struct vgpu_client *client);

static void vgpu_end_work(struct work_struct *work)
{
	vgpu_client_end(container_of(work, struct vgpu_client, end_work));
}

/**
 * vgpu_client_mm_gone - the address space of a client has ended; its file may still be open
 * @client: the client; ended in a work item
 */
void vgpu_client_mm_gone(struct vgpu_client *client)
{
	queue_work(system_long_wq, &client->end_work);
}

/**
 * vgpu_client_open - a new client of a device
 * @dev: the device; a reference is taken
 * @mm: the address space that the client is bound to, or NULL (unit tests)
 * @mapping: of the file, or NULL (unit tests)
 *
 * Does not wait: the caller may hold a system-wide mutex.
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
	INIT_LIST_HEAD(&client->node);
	INIT_LIST_HEAD(&client->znode);
	INIT_WORK(&client->end_work, vgpu_end_work);
	client->uid = vgpu_user();
	client->exempt = capable(CAP_SYS_RESOURCE);
	xa_init_flags(&client->regions, XA_FLAGS_ALLOC1);
	INIT_LIST_HEAD(&client->kept);
	xa_init(&client->blanks);

	if (READ_ONCE(dev->state) == VGPU_DEV_GONE) {
		kfree(client);
		return ERR_PTR(-ENODEV);
	}
	kref_get(&dev->ref);
	if (mm)
		mmgrab(mm);
	return client;
}

/**
 * vgpu_client_wake_locked - wake the sleepers of a client after the worker has published data
 * @client: the client; dev->lock is held
 */
void vgpu_client_wake_locked(struct vgpu_client *client)
{
	lockdep_assert_held(&client->dev->lock);
	WRITE_ONCE(client->wake_seq, client->wake_seq + 1);
	wake_up_all(&client->wq);
}

/**
 * vgpu_client_die_locked - mark a client dead: the worker or the device is gone
 * @client: the client; dev->lock is held
 * @reason: enum vgpu_dead_reason; the first reason is kept, but LOST replaces any
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
 * vgpu_client_usable - check that a client may send requests
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
 * @killable: whether a fatal signal ends the wait; vgpu_client_end() then waits for the request
 *
 * Return: as vgpu_req_run().
 */
int vgpu_client_call(struct vgpu_client *client, struct vgpu_req *req, bool killable)
{
	int err = vgpu_req_run(client->dev, req, killable);

	lockdep_assert_held(&client->lock);
	if ((err == -EINTR || err == -ETIMEDOUT) && req->sent) {
		kref_get(&req->ref);
		list_add_tail(&req->orphan, &client->orphans);
	}
	return err;
}

/* Returns the number of slots of the client's user, including those of zombies. */
static u32 vgpu_slots_of_user_locked(struct vgpu_client *client)
{
	struct vgpu_dev *dev = client->dev;
	u32 i, n = 0;

	for (i = 0; i < dev->cfg.max_clients; i++)
		n += dev->by_slot[i] && uid_eq(dev->by_slot[i]->uid, client->uid);
	return n;
}

static int vgpu_slot_take(struct vgpu_client *client)
{
	struct vgpu_dev *dev = client->dev;
	u32 cap;
	int next, slot;

	spin_lock_irq(&dev->lock);
	slot = -ENODEV;
	if (client->reason == VGPU_DEAD_LOST || dev->state != VGPU_DEV_LIVE)
		goto out;
	slot = vgpu_client_next(client->state, VGPU_INPUT_CREATE);
	if (slot < 0)
		goto out;
	next = slot;
	cap = vgpu_user_cap(READ_ONCE(vgpu_clients_per_user), dev->cfg.max_clients);
	slot = -EUSERS;
	if (!client->exempt && vgpu_slots_of_user_locked(client) >= cap)
		goto out;
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
		return; /* the device was lost: all its slots were reset */
	client->attached = false;
	client->served = false;
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
		WRITE_ONCE(client->served, started);
		if (!started) {
			client->reason = 0;
			vgpu_slot_give_locked(client);
		}
	}
	spin_unlock_irq(&dev->lock);
}

/**
 * vgpu_client_create - take a slot and request a worker for it
 * @client: the client, locked
 * @label: for the host's log
 *
 * Return: 0, -EBUSY if already called, -ENOSPC without a free slot, -EUSERS if the user is at its
 * limit of slots, -EAGAIN if the host could not start a worker, -ENODEV, -ENOMEM, -EINTR when
 * killed, -ETIMEDOUT if the host is alive but does not answer the request, -EIO.
 */
int vgpu_client_create(struct vgpu_client *client, const char *label)
{
	struct vgpu_cmd_client_create *cmd;
	struct vgpu_resp_hdr resp;
	struct vgpu_req *req;
	u32 status;
	int err;

	lockdep_assert_held(&client->lock);
	if (client->ended)
		return -ENODEV;
	err = vgpu_mm_follow(client);
	if (err)
		return err;
	/* From here on the client is visible to vgpu_map_zap(). */
	if (mutex_lock_killable(&client->dev->mutex))
		return -EINTR;
	if (list_empty(&client->node))
		list_add(&client->node, &client->dev->clients);
	mutex_unlock(&client->dev->mutex);
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

	/* If killed, late, lost or malformed, the slot stays taken until the client ends. */
	err = vgpu_client_call(client, req, true);
	/* A request that never reached the device may be repeated. */
	if (err && !req->sent)
		vgpu_create_done(client, false);
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

/* Sends DESTROY and waits a limited time for its answer and those of all orphans. */
static void vgpu_client_detach(struct vgpu_client *client)
{
	struct vgpu_dev *dev = client->dev;
	struct vgpu_req *req;

	if (READ_ONCE(client->attached)) {
		client->destroy = vgpu_req_alloc(client, VGPU_CMD_CLIENT_DESTROY,
						 sizeof(struct vgpu_cmd_client_destroy),
						 sizeof(struct vgpu_resp_hdr));
		/*
		 * First: DESTROY is the only request that makes a stuck worker answer the others.
		 */
		list_add(&client->destroy->orphan, &client->orphans);
	}
	list_for_each_entry(req, &client->orphans, orphan)
		if (vgpu_req_run(dev, req, false) == -ETIMEDOUT)
			break; /* the others will not be answered either */
}

/* True if the device has answered that the worker is gone, or a reset implies it. */
static bool vgpu_client_detached(struct vgpu_client *client)
{
	struct vgpu_dev *dev = client->dev;
	struct vgpu_resp_hdr resp;
	struct vgpu_req *req;
	u32 status;

	/* Only a reset is known to end the accesses of a lost device. */
	if (READ_ONCE(dev->state) == VGPU_DEV_LOST)
		return false;
	if (!READ_ONCE(client->attached))
		return true;
	list_for_each_entry(req, &client->orphans, orphan)
		if (!completion_done(&req->done))
			return false;
	req = client->destroy;
	if (req->result || vgpu_req_status(dev, req, &resp, &status))
		return false;
	return status == VGPU_S_OK || status == VGPU_S_NO_CLIENT || status == VGPU_S_WORKER;
}

/*
 * Last step of vgpu_client_end(). Return: false when the device may still use the client's slot and
 * memory.
 */
static bool vgpu_client_settle(struct vgpu_client *client)
{
	struct vgpu_dev *dev = client->dev;
	struct vgpu_req *req, *next;

	lockdep_assert_held(&client->lock);
	if (!vgpu_client_detached(client))
		return false;
	list_for_each_entry_safe(req, next, &client->orphans, orphan) {
		list_del(&req->orphan);
		vgpu_req_put(req);
	}
	client->destroy = NULL;
	vgpu_unpin_all(client);

	/*
	 * Events about this client precede the answer and must not reach the next client of the
	 * slot.
	 */
	vgpu_events_poll(dev);
	spin_lock_irq(&dev->lock);
	vgpu_slot_give_locked(client);
	spin_unlock_irq(&dev->lock);
	return true;
}

static void vgpu_client_zombie(struct vgpu_client *client)
{
	struct vgpu_dev *dev = client->dev;
	bool live;

	spin_lock_irq(&dev->lock);
	client->zombie = true;
	list_add_tail(&client->znode, &dev->zombies);
	dev->nzombies++;
	live = dev->state == VGPU_DEV_LIVE;
	/* The answer may have arrived since. */
	if (dev->state != VGPU_DEV_GONE)
		queue_work(system_long_wq, &dev->reap_work);
	spin_unlock_irq(&dev->lock);
	if (live)
		dev_warn_ratelimited(&dev->vdev->dev,
				     "slot %u is out of use: the host does not end its worker\n",
				     client->slot);
}

/*
 * Ends the worker and releases the slot and the pinned memory, or leaves that to the reaper. Not
 * killable, but bounded: see VGPU_PATIENCE_END. Done once; a second caller waits for the first.
 */
static void vgpu_client_end(struct vgpu_client *client)
{
	struct vgpu_dev *dev = client->dev;
	bool zombie = false;

	mutex_lock(&client->lock);
	if (!client->ended) {
		client->ended = true;
		spin_lock_irq(&dev->lock);
		vgpu_client_die_locked(client, VGPU_DEAD_EXITED);
		spin_unlock_irq(&dev->lock);
		vgpu_client_detach(client);
		zombie = !vgpu_client_settle(client);
		if (zombie)
			vgpu_client_zombie(client);
	}
	mutex_unlock(&client->lock);
	/* The work item is no longer queued. */
	if (zombie && READ_ONCE(dev->state) == VGPU_DEV_GONE)
		vgpu_reap(dev);
}

static void vgpu_client_free(struct vgpu_client *client)
{
	if (client->mm)
		mmdrop(client->mm);
	xa_destroy(&client->regions);
	mutex_destroy(&client->lock);
	vgpu_dev_put(client->dev);
	kfree(client);
}

/* Return: true when @client was settled and its file is closed: the caller frees it. */
static bool vgpu_reap_one(struct vgpu_client *client)
{
	struct vgpu_dev *dev = client->dev;
	bool settled;
	bool closed;

	mutex_lock(&client->lock);
	/* The queue had no room for it before. */
	if (client->destroy && !client->destroy->sent)
		vgpu_req_queue(dev, client->destroy);
	settled = vgpu_client_settle(client);
	mutex_unlock(&client->lock);

	spin_lock_irq(&dev->lock);
	if (settled) {
		list_del_init(&client->znode);
		client->zombie = false;
		dev->nzombies--;
	} else {
		list_move_tail(&client->znode, &dev->zombies);
	}
	closed = client->closed;
	spin_unlock_irq(&dev->lock);
	return settled && closed;
}

/**
 * vgpu_reap - release the resources of zombies after the device has answered
 * @dev: the device; the caller has a reference
 */
void vgpu_reap(struct vgpu_dev *dev)
{
	struct vgpu_client *client, *next;
	LIST_HEAD(todo);

	mutex_lock(&dev->reap_mutex);
	spin_lock_irq(&dev->lock);
	list_splice_init(&dev->zombies, &todo);
	spin_unlock_irq(&dev->lock);
	list_for_each_entry_safe(client, next, &todo, znode)
		if (vgpu_reap_one(client))
			vgpu_client_free(client);
	mutex_unlock(&dev->reap_mutex);
}

/**
 * vgpu_reap_work - vgpu_reap() in a work item
 * @work: dev->reap_work; the driver's reference outlives it
 */
void vgpu_reap_work(struct work_struct *work)
{
	vgpu_reap(container_of(work, struct vgpu_dev, reap_work));
}

/**
 * vgpu_client_close - end the client of a file that is closed
 * @client: the client; not valid for the caller afterwards
 */
void vgpu_client_close(struct vgpu_client *client)
{
	struct vgpu_dev *dev = client->dev;
	bool last;

	vgpu_mm_leave(client);
	flush_work(&client->end_work);
	vgpu_client_end(client);

	/* All mappings are gone, as each holds the file. */
	mutex_lock(&dev->mutex);
	list_del_init(&client->node);
	client->mapping = NULL;
	mutex_unlock(&dev->mutex);
	vgpu_map_free_blanks(client);

	spin_lock_irq(&dev->lock);
	client->closed = true;
	last = !client->zombie;
	spin_unlock_irq(&dev->lock);
	if (last)
		vgpu_client_free(client);
}

/**
 * vgpu_client_wait - sleep until the worker wakes the guest
 * @client: the client
 * @seen: wake_seq known to the caller
 * @deadline_ns: absolute CLOCK_MONOTONIC, negative: none
 * @seq: out, except with -ENXIO
 * @reason: out, except with -ENXIO
 *
 * Return: 0, -ETIMEDOUT, -ERESTARTSYS (the call can be repeated unchanged), -ENXIO before
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
		/*
		 * 0: the deadline has passed. Check again: a wake may have arrived at the same
		 * time.
		 */
		if (!schedule_hrtimeout(deadline_ns < 0 ? NULL : &deadline, HRTIMER_MODE_ABS))
			err = -ETIMEDOUT;
	}
	finish_wait(&client->wq, &wait);
	if (vgpu_wake_ready(*seq, seen, *reason))
		err = 0;
	return *reason == VGPU_DEAD_LOST ? -ENODEV : err;
}
