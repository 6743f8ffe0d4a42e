// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: life of a device
 *
 * DOWN --start--> LIVE --lost--> LOST --reset--> DOWN, and from any state --remove--> GONE.
 *
 * A device is lost when it asks for a reset, stops answering, violates the ABI, or is unplugged.
 * Then, in this order: its clients are dead (VGPU_DEAD_LOST) and their waiters return; no request
 * reaches it; device pages mapped by processes are replaced by private zero pages (vgpu_map.c); it
 * is reset, which ends its access to guest memory; pinned pages and buffers are released. Files
 * stay open until their owner closes them. The first ioctl of a new file restarts the device.
 *
 * A single unanswered request does not mean that the device is lost, if the device serves PING
 * (VGPU_F_PING) and answers it: the client becomes a zombie, whose slot and pins stay in use until
 * the request is answered or the device is reset (vgpu_client.c).
 */
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <linux/virtio_config.h>

#include "vgpu.h"
#include "vgpu_compat.h"

/*
 * Interval between attempts to restart a device, jiffies: open() in a loop must not cause a storm
 * of resets.
 */
#define VGPU_START_INTERVAL (HZ / 4)

static void vgpu_dev_release(struct kref *ref)
{
	struct vgpu_dev *dev = container_of(ref, struct vgpu_dev, ref);

	put_device(dev->dma_dev);
	put_device(&dev->vdev->dev);
	kfree(dev);
}

/**
 * vgpu_dev_put - drop a reference
 * @dev: may be gone afterwards
 */
void vgpu_dev_put(struct vgpu_dev *dev)
{
	kref_put(&dev->ref, vgpu_dev_release);
}

static void vgpu_reset_work(struct work_struct *work)
{
	struct vgpu_dev *dev = container_of(work, struct vgpu_dev, reset_work);
	u8 status;

	mutex_lock(&dev->mutex);
	if (dev->state == VGPU_DEV_LIVE) {
		status = dev->vdev->config->get_status(dev->vdev);
		if (status & VIRTIO_CONFIG_S_NEEDS_RESET)
			vgpu_dev_lost(dev, "it asks for a reset");
		else if (!(status & VIRTIO_CONFIG_S_DRIVER_OK))
			vgpu_dev_lost(dev, "it was reset behind the driver's back");
	}
	if (dev->state == VGPU_DEV_LOST)
		vgpu_dev_stop(dev, VGPU_DEV_DOWN);
	mutex_unlock(&dev->mutex);
}

/**
 * vgpu_dev_create - allocate the driver's object for a device; not started
 * @vdev: the device; vdev->priv is set
 * @res: location of the device's memory
 *
 * Return: the object, to be dropped with vgpu_dev_put(), or NULL.
 */
struct vgpu_dev *vgpu_dev_create(struct virtio_device *vdev, const struct vgpu_res *res)
{
	struct vgpu_dev *dev = kzalloc(sizeof(*dev), GFP_KERNEL);

	if (!dev)
		return NULL;
	kref_init(&dev->ref);
	get_device(&vdev->dev);
	dev->vdev = vdev;
	/* A separate reference, as the virtio device drops that of its parent when removed. */
	dev->dma_dev = get_device(vdev->dev.parent ? vdev->dev.parent : &vdev->dev);
	dev->res = *res;
	dev->index = -1;
	spin_lock_init(&dev->lock);
	mutex_init(&dev->mutex);
	mutex_init(&dev->reap_mutex);
	init_rwsem(&dev->map_sem);
	init_waitqueue_head(&dev->wq);
	INIT_LIST_HEAD(&dev->reqs);
	INIT_LIST_HEAD(&dev->clients);
	INIT_LIST_HEAD(&dev->zombies);
	INIT_WORK(&dev->event_work, vgpu_event_work);
	INIT_WORK(&dev->reset_work, vgpu_reset_work);
	INIT_WORK(&dev->reap_work, vgpu_reap_work);
	dev->next_start = jiffies;
	vdev->priv = dev;
	return dev;
}

static int vgpu_find_queues(struct vgpu_dev *dev)
{
	unsigned int i, n = VGPU_VQ_DOORBELL + dev->cfg.max_clients;
	struct vgpu_vq_spec *spec = kcalloc(n, sizeof(*spec), GFP_KERNEL);
	struct virtqueue **vqs = kcalloc(n, sizeof(*vqs), GFP_KERNEL);
	int err = -ENOMEM;

	if (!spec || !vqs)
		goto out;
	spec[VGPU_VQ_CONTROL] = (struct vgpu_vq_spec){ "control", vgpu_ctl_callback };
	spec[VGPU_VQ_EVENT] = (struct vgpu_vq_spec){ "event", vgpu_event_callback };
	for (i = VGPU_VQ_DOORBELL; i < n; i++)
		spec[i] = (struct vgpu_vq_spec){ "doorbell", NULL };

	err = vgpu_find_vqs(dev->vdev, n, vqs, spec);
	if (err) {
		dev_err(&dev->vdev->dev, "setting up %u queues failed: %d\n", n, err);
		goto out;
	}
	dev->ctl = vqs[VGPU_VQ_CONTROL];
	dev->ev = vqs[VGPU_VQ_EVENT];
	dev->depth = virtqueue_get_vring_size(dev->ctl) / 2; /* two descriptors each */
	if (!dev->depth) {
		dev_err(&dev->vdev->dev, "the control queue has no room for a request\n");
		err = -EINVAL;
	}
out:
	kfree(vqs);
	kfree(spec);
	return err;
}

/* Resets the device, with or without queues: a failed recovery may leave it partly set up. */
static void vgpu_drop_queues(struct vgpu_dev *dev)
{
	virtio_reset_device(dev->vdev);
	if (!dev->ctl)
		return;
	cancel_work_sync(&dev->event_work);
	vgpu_ctl_drop(dev);
	vgpu_events_drop(dev);
	dev->vdev->config->del_vqs(dev->vdev);
	dev->ctl = NULL;
	dev->ev = NULL;
}

/**
 * vgpu_dev_start - DOWN to LIVE
 * @dev: a device with negotiated features; @dev->mutex is held or the device is not published yet
 *
 * Return: 0 or an error with the reason in the log; the device is DOWN then.
 */
int vgpu_dev_start(struct vgpu_dev *dev)
{
	const char *why = NULL;
	struct vgpu_cfg cfg;
	int err;

	err = vgpu_cfg_get(dev->vdev, &cfg);
	if (err)
		return err;
	err = vgpu_check_res(&dev->res, &cfg, &why);
	if (err) {
		dev_err(&dev->vdev->dev, "the vgpu-cuda device is refused: %s\n", why);
		return err;
	}
	dev->cfg = cfg;

	err = vgpu_find_queues(dev);
	if (!err)
		err = vgpu_events_alloc(dev);
	if (err) {
		vgpu_drop_queues(dev);
		return err;
	}
	/*
	 * Ready before LIVE, as requests may only be sent to a ready device. Without clients no
	 * event can be lost.
	 */
	virtio_device_ready(dev->vdev);
	spin_lock_irq(&dev->lock);
	/*
	 * A queue with room for one request has none left for a PING while that request is
	 * unanswered.
	 */
	dev->has_ping = virtio_has_feature(dev->vdev, VGPU_F_PING) && dev->depth >= 2;
	dev->pinging = false;
	vgpu_ids_init(&dev->slots, dev->cfg.max_clients);
	dev->state = VGPU_DEV_LIVE;
	spin_unlock_irq(&dev->lock);
	vgpu_events_poll(dev);
	return 0;
}

/*
 * All clients die with the device, and all slots become free. A file that has not taken a slot is
 * not affected: it may take one when the device is back.
 */
static void vgpu_dev_cut_locked(struct vgpu_dev *dev, enum vgpu_dev_state state)
{
	struct vgpu_client *client;
	unsigned int i;

	WRITE_ONCE(dev->state, state);
	for (i = 0; i < VGPU_MAX_CLIENTS; i++) {
		client = dev->by_slot[i];
		dev->by_slot[i] = NULL;
		if (client) {
			client->attached = false;
			vgpu_client_die_locked(client, VGPU_DEAD_LOST);
		}
	}
	/*
	 * Not freed one by one: see vgpu_slot_give_locked(). vgpu_dev_freeze() checks for slots in
	 * use.
	 */
	vgpu_ids_init(&dev->slots, dev->cfg.max_clients);
	vgpu_ctl_fail_locked(dev);
	wake_up_all(&dev->wq);
}

/**
 * vgpu_dev_lost - LIVE to LOST; does nothing in another state
 * @dev: the device
 * @why: reason for the log: "the device is lost: <why>"
 *
 * Context: any. The reset follows in a work item.
 */
void vgpu_dev_lost(struct vgpu_dev *dev, const char *why)
{
	unsigned long flags;
	bool was_live;

	spin_lock_irqsave(&dev->lock, flags);
	was_live = dev->state == VGPU_DEV_LIVE;
	if (was_live) {
		vgpu_dev_cut_locked(dev, VGPU_DEV_LOST);
		/*
		 * Under the lock: once the device is GONE, reset_work must not be queued any more.
		 */
		queue_work(system_long_wq, &dev->reset_work);
	}
	spin_unlock_irqrestore(&dev->lock, flags);
	if (was_live)
		dev_err(&dev->vdev->dev, "the device is lost: %s\n", why);
}

/**
 * vgpu_dev_stop - reset the device and release all memory and buffers that it had
 * @dev: the device, @dev->mutex held; if it was LIVE its clients die
 * @state: VGPU_DEV_DOWN or VGPU_DEV_GONE
 */
void vgpu_dev_stop(struct vgpu_dev *dev, enum vgpu_dev_state state)
{
	lockdep_assert_held(&dev->mutex);
	spin_lock_irq(&dev->lock);
	vgpu_dev_cut_locked(dev, VGPU_DEV_LOST);
	spin_unlock_irq(&dev->lock);

	vgpu_map_zap(dev);
	vgpu_drop_queues(dev);

	spin_lock_irq(&dev->lock);
	WRITE_ONCE(dev->state, state);
	if (state != VGPU_DEV_GONE && dev->nzombies)
		queue_work(system_long_wq, &dev->reap_work);
	wake_up_all(&dev->wq);
	spin_unlock_irq(&dev->lock);
}

/**
 * vgpu_dev_freeze - stop for suspend or hibernation
 * @dev: the device
 *
 * Return: 0, or -EBUSY while a client has a worker, as the worker's state is on the host and cannot
 * be saved.
 */
int vgpu_dev_freeze(struct vgpu_dev *dev)
{
	int err = 0;

	mutex_lock(&dev->mutex);
	spin_lock_irq(&dev->lock);
	if (!bitmap_empty(dev->slots.busy, VGPU_MAX_CLIENTS))
		err = -EBUSY;
	spin_unlock_irq(&dev->lock);
	if (!err)
		vgpu_dev_stop(dev, VGPU_DEV_DOWN);
	mutex_unlock(&dev->mutex);
	return err;
}

/* Negotiates features after a reset, as the virtio core does before probe(). */
static int vgpu_dev_negotiate(struct virtio_device *vdev)
{
	int err;

	virtio_reset_device(vdev);
	virtio_add_status(vdev, VIRTIO_CONFIG_S_ACKNOWLEDGE);
	virtio_add_status(vdev, VIRTIO_CONFIG_S_DRIVER);
	err = vdev->config->finalize_features(vdev);
	if (err)
		return err;
	virtio_add_status(vdev, VIRTIO_CONFIG_S_FEATURES_OK);
	if (!(vdev->config->get_status(vdev) & VIRTIO_CONFIG_S_FEATURES_OK)) {
		dev_err(&vdev->dev, "the device does not accept its former features any more\n");
		return -ENODEV;
	}
	return 0;
}

/**
 * vgpu_dev_recover - restart a device that was lost
 * @dev: the device
 *
 * Return: 0 when the device is LIVE (also if it was never lost), -EINTR when killed, else -ENODEV.
 */
int vgpu_dev_recover(struct vgpu_dev *dev)
{
	int err = 0;

	if (READ_ONCE(dev->state) == VGPU_DEV_LIVE)
		return 0;
	if (wait_event_killable(dev->wq, READ_ONCE(dev->state) != VGPU_DEV_LOST))
		return -EINTR;
	if (mutex_lock_killable(&dev->mutex))
		return -EINTR;
	if (dev->state == VGPU_DEV_DOWN && time_after_eq(jiffies, dev->next_start)) {
		dev->next_start = jiffies + VGPU_START_INTERVAL;
		err = vgpu_dev_negotiate(dev->vdev);
		if (!err)
			err = vgpu_dev_start(dev);
		if (err)
			virtio_add_status(dev->vdev, VIRTIO_CONFIG_S_FAILED);
		else
			dev_info(&dev->vdev->dev, "the device is back\n");
	}
	if (dev->state != VGPU_DEV_LIVE)
		err = -ENODEV;
	mutex_unlock(&dev->mutex);
	return err;
}

/**
 * vgpu_dev_remove - end a device that is unplugged or unbound
 * @dev: the device; the caller's reference is dropped
 */
void vgpu_dev_remove(struct vgpu_dev *dev)
{
	mutex_lock(&dev->mutex);
	vgpu_dev_stop(dev, VGPU_DEV_GONE);
	mutex_unlock(&dev->mutex);
	/* Once the device is GONE the work items are not queued again. */
	cancel_work_sync(&dev->reset_work);
	cancel_work_sync(&dev->reap_work);
	vgpu_reap(dev);
	dev->vdev->priv = NULL;
	vgpu_dev_put(dev);
}
