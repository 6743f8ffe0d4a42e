// SPDX-License-Identifier: GPL-2.0-only
/*
 * vgpu_drv: the guest driver of the vgpu-cuda virtio device. Binding, module parameters, and the
 * device file.
 */
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/virtio_config.h>

#include "vgpu.h"
#include "vgpu_compat.h"

/* Maximum number of devices, more than any machine has; bounds the numbers in /dev. */
#define VGPU_MAX_DEVICES 64

/*
 * Range of timeout_ms, ms. The minimum is shorter than a loaded host may take to answer, the
 * maximum longer than a user waits for a dead host.
 */
#define VGPU_TIMEOUT_MS_MIN 100
#define VGPU_TIMEOUT_MS_MAX 3600000

unsigned int vgpu_timeout_ms = 10000;

/**
 * vgpu_timeout_set - set the module parameter timeout_ms, when loading and through sysfs
 * @text: the value written
 * @param: the parameter
 *
 * Return: 0, or -EINVAL if out of range; the former value is kept.
 */
int vgpu_timeout_set(const char *text, const struct kernel_param *param)
{
	return param_set_uint_minmax(text, param, VGPU_TIMEOUT_MS_MIN, VGPU_TIMEOUT_MS_MAX);
}

static const struct kernel_param_ops vgpu_timeout_ops = {
	.set = vgpu_timeout_set,
	.get = param_get_uint,
};
module_param_cb(timeout_ms, &vgpu_timeout_ops, &vgpu_timeout_ms, 0644);
MODULE_PARM_DESC(timeout_ms, "milliseconds of silence after which the device is asked whether it lives, or declared lost (100 to 3600000, default 10000)");

unsigned int vgpu_clients_per_user;
module_param_named(clients_per_user, vgpu_clients_per_user, uint, 0644);
MODULE_PARM_DESC(clients_per_user, "clients that one user may have at once (default 0: three quarters of the device's); CAP_SYS_RESOURCE is exempt");

unsigned int vgpu_pin_limit_mib;
module_param_named(pin_limit_mib, vgpu_pin_limit_mib, uint, 0644);
MODULE_PARM_DESC(pin_limit_mib, "MiB that one user may have pinned, over all of its processes (default 0: half of the guest's memory); CAP_IPC_LOCK is exempt");

bool vgpu_unpin_keep;
module_param_named(unpin_keep, vgpu_unpin_keep, bool, 0644);
MODULE_PARM_DESC(unpin_keep, "keep unpinned pages referenced and charged until their client ends, for a host driver that may still refer to them (default no)");

static ushort vgpu_mode = 0666;
module_param_named(mode, vgpu_mode, ushort, 0444);
MODULE_PARM_DESC(mode, "access mode of /dev/vgpu* (default 0666: every user has the GPU)");

static bool vgpu_hotplug;
module_param_named(hotplug, vgpu_hotplug, bool, 0444);
MODULE_PARM_DESC(hotplug, "stay loaded without a device and wait for one to be plugged in (default no)");

#ifdef MODULE
#define VGPU_NEEDS_DEVICE (!vgpu_hotplug)
#else
#define VGPU_NEEDS_DEVICE false /* built in: the bus may be probed after this driver starts */
#endif

static DEFINE_IDA(vgpu_index);
static atomic_t vgpu_seen = ATOMIC_INIT(0);
static atomic_t vgpu_bound = ATOMIC_INIT(0);

/**
 * vgpu_validate - check the feature bits before negotiation
 * @vdev: the device; bits that this driver cannot serve are cleared
 *
 * Return: 0, or -ENODEV when the device cannot be used.
 */
int vgpu_validate(struct virtio_device *vdev)
{
	if (!virtio_has_feature(vdev, VIRTIO_F_VERSION_1)) {
		dev_err(&vdev->dev, "the vgpu-cuda device is refused: not a virtio 1.0 device\n");
		return -ENODEV;
	}
	/* User space stores a constant doorbell value. */
	__virtio_clear_bit(vdev, VIRTIO_F_NOTIFICATION_DATA);
	/* Behind an IOMMU, the physical addresses sent by PIN are not valid for the device. */
	if (virtio_has_feature(vdev, VIRTIO_F_ACCESS_PLATFORM)) {
		dev_warn(&vdev->dev, "no pinned memory: the device is behind an IOMMU\n");
		__virtio_clear_bit(vdev, VGPU_F_PIN);
	}
	return 0;
}

static int vgpu_register(struct vgpu_dev *dev)
{
	int err;

	dev->index = ida_alloc_max(&vgpu_index, VGPU_MAX_DEVICES - 1, GFP_KERNEL);
	if (dev->index < 0)
		return dev->index;
	snprintf(dev->name, sizeof(dev->name), "vgpu%d", dev->index);
	dev->misc.minor = MISC_DYNAMIC_MINOR;
	dev->misc.name = dev->name;
	dev->misc.fops = &vgpu_fops;
	dev->misc.parent = &dev->vdev->dev;
	dev->misc.mode = vgpu_mode;
	err = misc_register(&dev->misc);
	if (err)
		ida_free(&vgpu_index, dev->index);
	return err;
}

static int vgpu_probe(struct virtio_device *vdev)
{
	struct vgpu_res res = {};
	struct vgpu_dev *dev;
	int err;

	atomic_inc(&vgpu_seen);
	err = vgpu_guest_ok(vdev);
	if (err)
		return err;
	err = vgpu_res_get(vdev, &res);
	if (err)
		return err;
	dev = vgpu_dev_create(vdev, &res);
	if (!dev)
		return -ENOMEM;
	mutex_lock(&dev->mutex);
	err = vgpu_dev_start(dev);
	mutex_unlock(&dev->mutex);
	if (err)
		goto remove;
	err = vgpu_register(dev);
	if (err)
		goto remove;
	atomic_inc(&vgpu_bound);
	dev_info(&vdev->dev, "/dev/%s: %u clients of %llu MiB%s\n", dev->name,
		 dev->cfg.max_clients, dev->cfg.window_size >> 20,
		 virtio_has_feature(vdev, VGPU_F_PIN) ? "" : ", no pinned memory");
	return 0;

remove:
	vgpu_dev_remove(dev);
	return err;
}

static void vgpu_remove(struct virtio_device *vdev)
{
	struct vgpu_dev *dev = vdev->priv;

	misc_deregister(&dev->misc);
	ida_free(&vgpu_index, dev->index);
	atomic_dec(&vgpu_bound);
	vgpu_dev_remove(dev);
}

static void vgpu_config_changed(struct virtio_device *vdev)
{
	struct vgpu_dev *dev = vdev->priv;

	/* The configuration is fixed, so only the status can have changed. */
	if (dev)
		queue_work(system_long_wq, &dev->reset_work);
}

#ifdef CONFIG_PM
static int vgpu_freeze(struct virtio_device *vdev)
{
	int err = vgpu_dev_freeze(vdev->priv);

	if (err) {
		dev_warn(&vdev->dev, "suspend is refused: a process uses the GPU\n");
		vgpu_freeze_refused(vdev);
	}
	return err;
}

static int vgpu_restore(struct virtio_device *vdev)
{
	struct vgpu_dev *dev = vdev->priv;
	int err;

	mutex_lock(&dev->mutex);
	err = vgpu_dev_start(dev);
	mutex_unlock(&dev->mutex);
	return err;
}
#endif

static const struct virtio_device_id vgpu_ids[] = {
	{ VGPU_VIRTIO_ID, VIRTIO_DEV_ANY_ID },
	{ VGPU_GENERIC_VIRTIO_ID, VIRTIO_DEV_ANY_ID },
	{ 0 },
};
MODULE_DEVICE_TABLE(virtio, vgpu_ids);

static const unsigned int vgpu_features[] = {
	VGPU_F_PIN,
	VGPU_F_PING,
};

static struct virtio_driver vgpu_driver = {
	.driver.name = "vgpu_drv",
	.driver.owner = THIS_MODULE,
	/* Synchronous, so that insmod reports whether there is a device. */
	.driver.probe_type = PROBE_FORCE_SYNCHRONOUS,
	.id_table = vgpu_ids,
	.feature_table = vgpu_features,
	.feature_table_size = ARRAY_SIZE(vgpu_features),
	.validate = vgpu_validate,
	.probe = vgpu_probe,
	.remove = vgpu_remove,
	.config_changed = vgpu_config_changed,
#ifdef CONFIG_PM
	.freeze = vgpu_freeze,
	.restore = vgpu_restore,
#endif
};

static int __init vgpu_init(void)
{
	int err;

	if (vgpu_mode & ~0777) {
		pr_err("vgpu_drv: mode=0%o is not an access mode\n", vgpu_mode);
		return -EINVAL;
	}
	err = register_virtio_driver(&vgpu_driver);
	if (err || !VGPU_NEEDS_DEVICE || atomic_read(&vgpu_bound))
		return err;
	unregister_virtio_driver(&vgpu_driver);
	if (atomic_read(&vgpu_seen))
		pr_err("vgpu_drv: a vgpu-cuda device was found but cannot be used, see above\n");
	else
		pr_err("vgpu_drv: no vgpu-cuda device: start QEMU with -device vgpu-cuda,chardev=... (is virtio_pci loaded?)\n");
	return -ENODEV;
}
module_init(vgpu_init);

static void __exit vgpu_exit(void)
{
	unregister_virtio_driver(&vgpu_driver);
	ida_destroy(&vgpu_index);
}
module_exit(vgpu_exit);

MODULE_DESCRIPTION("CUDA GPU shared by the host: guest driver of the vgpu-cuda device");
MODULE_LICENSE("GPL");
