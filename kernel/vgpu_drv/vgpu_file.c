// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: /dev/vgpu*
 *
 * An open file belongs to the address space that opened it. A process that inherits or receives the
 * file may only close it: CUDA's state cannot be shared with a child, and a window must not be
 * reachable from two processes. The client ends with that address space, even while the file is
 * still open elsewhere.
 */
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/sched.h>

#include "vgpu.h"

static int vgpu_open(struct inode *inode, struct file *file)
{
	/*
	 * misc_open() has set private_data, and prevents deregistration meanwhile with a mutex
	 * shared by all misc devices of the system (kvm, fuse, tun): open must not wait. A lost
	 * device is restarted by the first ioctl.
	 */
	struct vgpu_dev *dev = container_of(file->private_data, struct vgpu_dev, misc);
	struct vgpu_client *client;

	if (!current->mm)
		return -EPERM;
	client = vgpu_client_open(dev, current->mm, file->f_mapping);
	if (IS_ERR(client))
		return PTR_ERR(client);
	file->private_data = client;
	return nonseekable_open(inode, file);
}

static int vgpu_release(struct inode *inode, struct file *file)
{
	vgpu_client_close(file->private_data);
	return 0;
}

static long vgpu_file_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct vgpu_client *client = file->private_data;

	if (client->mm != current->mm)
		return -EPERM;
	return vgpu_ioctl(client, cmd, (void __user *)arg);
}

static int vgpu_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct vgpu_client *client = file->private_data;

	if (client->mm != vma->vm_mm)
		return -EPERM;
	return vgpu_map(client, vma);
}

const struct file_operations vgpu_fops = {
	.owner = THIS_MODULE,
	.open = vgpu_open,
	.release = vgpu_release,
	.unlocked_ioctl = vgpu_file_ioctl,
	.compat_ioctl = compat_ptr_ioctl, /* all structures have the same layout for 32 bits */
	.mmap = vgpu_mmap,
};
