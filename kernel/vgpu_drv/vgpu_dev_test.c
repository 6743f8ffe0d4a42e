// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: vgpu_main.c and vgpu_dev.c: binding, refusal, loss, recovery, removal. */
#include <linux/mm.h>
#include <linux/virtio_config.h>

#include "vgpu_fake.h"

/* Plugs @fake in and unplugs it again. Return: true if the driver accepted it. */
static bool accepted(struct vgpu_fake *fake)
{
	bool yes;

	if (vgpu_fake_plug(fake))
		return false;
	yes = vgpu_fake_dev(fake);
	vgpu_fake_unplug(fake);
	return yes;
}

/*
 * A conforming device becomes LIVE and has a device file, its limits, all queues, and event
 * buffers.
 */
static void vgpu_dev_good(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	struct vgpu_dev *dev;

	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	dev = vgpu_fake_dev(fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	KUNIT_EXPECT_EQ(test, dev->state, VGPU_DEV_LIVE);
	KUNIT_EXPECT_NOT_ERR_OR_NULL(test, dev->misc.this_device);
	KUNIT_EXPECT_EQ(test, dev->misc.mode, (umode_t)0666);
	KUNIT_EXPECT_EQ(test, dev->cfg.max_clients, (u32)VGPU_FAKE_CLIENTS);
	KUNIT_EXPECT_EQ(test, fake->nvqs, (u32)VGPU_VQ_DOORBELL + VGPU_FAKE_CLIENTS);
	KUNIT_EXPECT_EQ(test, dev->nevents, (u32)VGPU_FAKE_VRING);
	KUNIT_EXPECT_EQ(test, dev->depth, (u32)VGPU_FAKE_VRING / 2);
	KUNIT_EXPECT_TRUE(test, fake->status & VIRTIO_CONFIG_S_DRIVER_OK);
	vgpu_fake_unplug(fake);
}

/* Id of a generic vhost-user device, which other devices may have too. */
static void vgpu_dev_generic(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test), *other = vgpu_fake_new(test);

	fake->vdev.id.device = VGPU_GENERIC_VIRTIO_ID;
	KUNIT_EXPECT_TRUE(test, accepted(fake));
	other->vdev.id.device = VGPU_GENERIC_VIRTIO_ID;
	other->config.magic = 0;
	KUNIT_EXPECT_FALSE(test, accepted(other));
}

/* Two devices have separate files. */
static void vgpu_dev_two(struct kunit *test)
{
	struct vgpu_fake *a = vgpu_fake_new(test), *b = vgpu_fake_new(test);

	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(a), 0);
	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(b), 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, vgpu_fake_dev(a));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, vgpu_fake_dev(b));
	KUNIT_EXPECT_NE(test, vgpu_fake_dev(a)->index, vgpu_fake_dev(b)->index);
	vgpu_fake_unplug(a);
	vgpu_fake_unplug(b);
}

static void vgpu_dev_refuses_legacy(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);

	fake->offered &= ~BIT_ULL(VIRTIO_F_VERSION_1);
	KUNIT_EXPECT_FALSE(test, accepted(fake));
}

static void vgpu_dev_refuses_magic(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);

	fake->config.magic = 0;
	KUNIT_EXPECT_FALSE(test, accepted(fake));
}

static void vgpu_dev_refuses_version(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);

	fake->config.abi_version = cpu_to_le32(VGPU_DEVICE_ABI_VERSION + 1);
	KUNIT_EXPECT_FALSE(test, accepted(fake));
}

/* More clients than the shared-memory region has windows for. */
static void vgpu_dev_refuses_small_region(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);

	fake->config.max_clients = cpu_to_le32(VGPU_FAKE_CLIENTS + 1);
	KUNIT_EXPECT_FALSE(test, accepted(fake));
}

static void vgpu_dev_refuses_queue_failure(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);

	fake->find_vqs_err = -ENOENT;
	KUNIT_EXPECT_FALSE(test, accepted(fake));
}

/* A control queue with one descriptor has no room for a request and its answer. */
static void vgpu_dev_refuses_tiny_queue(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);

	fake->vring_num = 1;
	KUNIT_EXPECT_FALSE(test, accepted(fake));
}

/* Behind an IOMMU, physical addresses are not valid for the device: no PIN. */
static void vgpu_dev_no_pin_behind_iommu(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);

	fake->vdev.features = BIT_ULL(VGPU_F_PIN) | BIT_ULL(VIRTIO_F_VERSION_1) |
			      BIT_ULL(VIRTIO_F_ACCESS_PLATFORM);
	KUNIT_EXPECT_EQ(test, vgpu_validate(&fake->vdev), 0);
	KUNIT_EXPECT_FALSE(test, fake->vdev.features & BIT_ULL(VGPU_F_PIN));
	kfree(fake);
}

/* A device without PIN is accepted; the feature mask of VGPU_IOCTL_QUERY shows it. */
static void vgpu_dev_without_pin(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	struct vgpu_client *client;
	struct vgpu_pin arg = { .addr = PAGE_SIZE, .length = PAGE_SIZE };

	fake->offered &= ~BIT_ULL(VGPU_F_PIN);
	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, vgpu_fake_dev(fake));
	client = vgpu_client_open(vgpu_fake_dev(fake), NULL, NULL);
	mutex_lock(&client->lock);
	KUNIT_EXPECT_EQ(test, vgpu_client_create(client, "t"), 0);
	KUNIT_EXPECT_EQ(test, vgpu_pin(client, &arg), -EOPNOTSUPP);
	mutex_unlock(&client->lock);
	vgpu_client_close(client);
	vgpu_fake_unplug(fake);
}

static struct vgpu_client *new_client(struct kunit *test, struct vgpu_dev *dev)
{
	struct vgpu_client *client = vgpu_client_open(dev, NULL, NULL);

	KUNIT_ASSERT_FALSE(test, IS_ERR(client));
	mutex_lock(&client->lock);
	KUNIT_EXPECT_EQ(test, vgpu_client_create(client, "test"), 0);
	mutex_unlock(&client->lock);
	return client;
}

static int wait_now(struct vgpu_client *client, u32 *reason)
{
	u64 seq;

	return vgpu_client_wait(client, client->wake_seq, 0, &seq, reason);
}

/* NEEDS_RESET: clients die as LOST, the device is reset, and the next ioctl restarts it. */
static void vgpu_dev_needs_reset(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	struct vgpu_client *client, *next;
	struct vgpu_dev *dev;
	u32 resets, reason;

	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	dev = vgpu_fake_dev(fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	client = new_client(test, dev);
	KUNIT_EXPECT_EQ(test, wait_now(client, &reason), -ETIMEDOUT);

	resets = fake->resets;
	fake->status |= VIRTIO_CONFIG_S_NEEDS_RESET;
	virtio_config_changed(&fake->vdev);
	flush_work(&dev->reset_work);
	flush_work(&dev->reset_work); /* loss of the device queues the work again */
	KUNIT_EXPECT_EQ(test, dev->state, VGPU_DEV_DOWN);
	KUNIT_EXPECT_GT(test, fake->resets, resets);
	KUNIT_EXPECT_EQ(test, fake->nvqs, 0U);
	KUNIT_EXPECT_EQ(test, wait_now(client, &reason), -ENODEV);
	KUNIT_EXPECT_EQ(test, reason, (u32)VGPU_DEAD_LOST);
	KUNIT_EXPECT_FALSE(test, client->attached);
	KUNIT_EXPECT_EQ(test, vgpu_dev_recover(dev), 0);
	KUNIT_EXPECT_EQ(test, dev->state, VGPU_DEV_LIVE);
	next = new_client(test, dev);
	KUNIT_EXPECT_EQ(test, wait_now(next, &reason), -ETIMEDOUT);
	/*
	 * The old file stays dead, and closing it does not affect the slot, which has a new owner.
	 */
	KUNIT_EXPECT_EQ(test, wait_now(client, &reason), -ENODEV);
	vgpu_client_close(client);
	KUNIT_EXPECT_TRUE(test, next->attached);
	KUNIT_EXPECT_EQ(test, fake->count[VGPU_CMD_CLIENT_DESTROY], 0U);
	vgpu_client_close(next);
	KUNIT_EXPECT_EQ(test, fake->count[VGPU_CMD_CLIENT_DESTROY], 1U);
	vgpu_fake_unplug(fake);
}

/* A status without DRIVER_OK: the device was reset by another party. */
static void vgpu_dev_reset_behind_its_back(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	struct vgpu_dev *dev;

	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	dev = vgpu_fake_dev(fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	fake->status = 0;
	virtio_config_changed(&fake->vdev);
	flush_work(&dev->reset_work);
	KUNIT_EXPECT_EQ(test, dev->state, VGPU_DEV_DOWN);
	vgpu_fake_unplug(fake);
}

/* A configuration change without effect is ignored. */
static void vgpu_dev_spurious_config_change(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	struct vgpu_dev *dev;

	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	dev = vgpu_fake_dev(fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	virtio_config_changed(&fake->vdev);
	flush_work(&dev->reset_work);
	KUNIT_EXPECT_EQ(test, dev->state, VGPU_DEV_LIVE);
	vgpu_fake_unplug(fake);
}

/* A device with an invalid configuration after reset stays DOWN; restarts are rate-limited. */
static void vgpu_dev_recovery_is_checked(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	struct vgpu_dev *dev;
	u32 resets;

	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	dev = vgpu_fake_dev(fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	vgpu_dev_lost(dev, "the test says so");
	flush_work(&dev->reset_work);
	fake->config.window_size = cpu_to_le64(1);
	KUNIT_EXPECT_EQ(test, vgpu_dev_recover(dev), -ENODEV);
	resets = fake->resets;
	KUNIT_EXPECT_EQ(test, vgpu_dev_recover(dev), -ENODEV);
	KUNIT_EXPECT_EQ(test, fake->resets, resets);
	KUNIT_EXPECT_EQ(test, dev->state, VGPU_DEV_DOWN);
	/* The virtio core warns unless the device is reset when the driver releases it. */
	KUNIT_EXPECT_TRUE(test, fake->status & VIRTIO_CONFIG_S_FAILED);
	vgpu_fake_unplug(fake);
}

/* Unplugged with open files: they return -ENODEV, and closing them frees the device. */
static void vgpu_dev_remove_with_open_files(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	struct vgpu_client *active, *idle;
	struct vgpu_dev *dev;
	u32 reason;

	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	dev = vgpu_fake_dev(fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	active = new_client(test, dev);
	idle = vgpu_client_open(dev, NULL, NULL);
	kref_get(&dev->ref);
	vgpu_fake_unplug(fake); /* the device's memory lives as long as its files */

	KUNIT_EXPECT_EQ(test, dev->state, VGPU_DEV_GONE);
	KUNIT_EXPECT_EQ(test, wait_now(active, &reason), -ENODEV);
	KUNIT_EXPECT_EQ(test, vgpu_dev_recover(dev), -ENODEV);
	mutex_lock(&idle->lock);
	KUNIT_EXPECT_EQ(test, vgpu_client_create(idle, "late"), -ENODEV);
	mutex_unlock(&idle->lock);
	KUNIT_EXPECT_PTR_EQ(test, vgpu_client_open(dev, NULL, NULL),
			    (struct vgpu_client *)ERR_PTR(-ENODEV));
	vgpu_client_close(active);
	vgpu_client_close(idle);
	vgpu_dev_put(dev);
}

/* A control queue with room for one request, so without PING: the device works. */
static void vgpu_dev_small_queue(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	unsigned int before = vgpu_timeout_ms;

	fake->vring_num = 2;
	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, vgpu_fake_dev(fake));
	KUNIT_EXPECT_EQ(test, vgpu_fake_dev(fake)->depth, 1U);
	vgpu_timeout_ms = 100;
	vgpu_client_close(new_client(test, vgpu_fake_dev(fake)));
	vgpu_timeout_ms = before;
	KUNIT_EXPECT_EQ(test, fake->count[VGPU_CMD_CLIENT_DESTROY], 1U);
	KUNIT_EXPECT_EQ(test, fake->count[VGPU_CMD_PING], 0U);
	vgpu_fake_unplug(fake);
}

/*
 * The device's memory lives until the last file is closed, and no longer; a file holds its address
 * space as long.
 */
static void vgpu_dev_references(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	const struct kref *ref = &fake->vdev.dev.kobj.kref;
	int users = atomic_read(&init_mm.mm_count);
	struct vgpu_client *client;

	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, vgpu_fake_dev(fake));
	get_device(&fake->vdev.dev);
	client = vgpu_client_open(vgpu_fake_dev(fake), &init_mm, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(client));
	KUNIT_EXPECT_EQ(test, atomic_read(&init_mm.mm_count), users + 1);
	vgpu_fake_unplug(fake);
	KUNIT_EXPECT_GT(test, kref_read(ref), 1U);
	vgpu_client_close(client);
	KUNIT_EXPECT_EQ(test, kref_read(ref), 1U);
	KUNIT_EXPECT_EQ(test, atomic_read(&init_mm.mm_count), users);
	put_device(&fake->vdev.dev);
}

/* Suspend is refused while a client has a worker, and works otherwise. */
static void vgpu_dev_freeze_with_client(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	struct vgpu_client *client;
	struct vgpu_dev *dev;

	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	dev = vgpu_fake_dev(fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	client = new_client(test, dev);
	KUNIT_EXPECT_EQ(test, vgpu_dev_freeze(dev), -EBUSY);
	KUNIT_EXPECT_EQ(test, dev->state, VGPU_DEV_LIVE);
	vgpu_client_close(client);
	KUNIT_EXPECT_EQ(test, vgpu_dev_freeze(dev), 0);
	KUNIT_EXPECT_EQ(test, fake->nvqs, 0U);
	KUNIT_EXPECT_EQ(test, vgpu_dev_recover(dev), 0);
	client = new_client(test, dev);
	vgpu_client_close(client);
	vgpu_fake_unplug(fake);
}

/* A lost device has no workers, and does not prevent suspend. */
static void vgpu_dev_freeze_after_loss(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	struct vgpu_client *client;
	struct vgpu_dev *dev;

	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	dev = vgpu_fake_dev(fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	client = new_client(test, dev);
	vgpu_dev_lost(dev, "test");
	flush_work(&dev->reset_work);
	KUNIT_EXPECT_EQ(test, dev->state, VGPU_DEV_DOWN);
	KUNIT_EXPECT_EQ(test, vgpu_dev_freeze(dev), 0);
	vgpu_client_close(client);
	KUNIT_EXPECT_EQ(test, vgpu_dev_freeze(dev), 0);
	KUNIT_EXPECT_EQ(test, vgpu_dev_recover(dev), 0);
	client = new_client(test, dev);
	KUNIT_EXPECT_EQ(test, vgpu_dev_freeze(dev), -EBUSY);
	vgpu_client_close(client);
	vgpu_fake_unplug(fake);
}

static struct kunit_case vgpu_dev_cases[] = {
	KUNIT_CASE(vgpu_dev_good),
	KUNIT_CASE(vgpu_dev_generic),
	KUNIT_CASE(vgpu_dev_two),
	KUNIT_CASE(vgpu_dev_refuses_legacy),
	KUNIT_CASE(vgpu_dev_refuses_magic),
	KUNIT_CASE(vgpu_dev_refuses_version),
	KUNIT_CASE(vgpu_dev_refuses_small_region),
	KUNIT_CASE(vgpu_dev_refuses_queue_failure),
	KUNIT_CASE(vgpu_dev_refuses_tiny_queue),
	KUNIT_CASE(vgpu_dev_no_pin_behind_iommu),
	KUNIT_CASE(vgpu_dev_without_pin),
	KUNIT_CASE(vgpu_dev_needs_reset),
	KUNIT_CASE(vgpu_dev_reset_behind_its_back),
	KUNIT_CASE(vgpu_dev_spurious_config_change),
	KUNIT_CASE(vgpu_dev_recovery_is_checked),
	KUNIT_CASE(vgpu_dev_remove_with_open_files),
	KUNIT_CASE(vgpu_dev_small_queue),
	KUNIT_CASE(vgpu_dev_references),
	KUNIT_CASE(vgpu_dev_freeze_with_client),
	KUNIT_CASE(vgpu_dev_freeze_after_loss),
	{}
};

static struct kunit_suite vgpu_dev_suite = {
	.name = "vgpu_dev",
	.test_cases = vgpu_dev_cases,
};

kunit_test_suite(vgpu_dev_suite);
