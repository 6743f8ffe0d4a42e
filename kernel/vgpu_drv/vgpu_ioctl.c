// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: ioctls
 *
 * A table with the number (including the size), the check and the action of each ioctl. The
 * argument is copied in once; checks and actions use the copy. The ABI is uapi/vgpu_ioctl.h.
 */
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <linux/virtio_config.h>

#include "vgpu.h"
#include "vgpu_compat.h"

union vgpu_arg {
	struct vgpu_query query;
	struct vgpu_create_client create;
	struct vgpu_pin pin;
	struct vgpu_unpin unpin;
	struct vgpu_wait wait;
	struct vgpu_export_call export;
	struct vgpu_import import;
};

/**
 * struct vgpu_ioctl_row - one ioctl
 * @cmd: its number
 * @check: checks the in fields; pure
 * @run: the action; with the client locked unless @unlocked
 * @undo: undoes @run if its result cannot be delivered, or NULL if closing the file does
 * @commit: final step after the result was delivered, or NULL
 * @unlocked: @run may sleep without limit and must not block other ioctls
 */
struct vgpu_ioctl_row {
	unsigned int cmd;
	int (*check)(const union vgpu_arg *arg);
	int (*run)(struct vgpu_client *client, union vgpu_arg *arg);
	void (*undo)(struct vgpu_client *client, union vgpu_arg *arg);
	void (*commit)(union vgpu_arg *arg);
	bool unlocked;
};

static int vgpu_query_check(const union vgpu_arg *arg)
{
	return vgpu_check_query(&arg->query);
}

/* Restarts a lost device on behalf of a file that is not a client yet. */
static int vgpu_revive(struct vgpu_client *client)
{
	return READ_ONCE(client->state) == VGPU_CLIENT_NEW ? vgpu_dev_recover(client->dev) : 0;
}

static int vgpu_query_run(struct vgpu_client *client, union vgpu_arg *arg)
{
	struct vgpu_dev *dev = client->dev;
	struct vgpu_query *query = &arg->query;
	int err = vgpu_revive(client);

	if (err)
		return err;
	spin_lock_irq(&dev->lock);
	if (dev->state != VGPU_DEV_LIVE || client->reason == VGPU_DEAD_LOST) {
		err = -ENODEV;
	} else {
		*query = (struct vgpu_query){
			.abi_version = VGPU_IOCTL_ABI_VERSION,
			.max_clients = dev->cfg.max_clients,
			.window_size = dev->cfg.window_size,
			.vram_quota = dev->cfg.vram_quota,
			.pin_quota = dev->cfg.pin_quota,
		};
		if (virtio_has_feature(dev->vdev, VGPU_F_PIN))
			query->features |= BIT_ULL(VGPU_F_PIN);
		if (virtio_has_feature(dev->vdev, VGPU_F_PING))
			query->features |= BIT_ULL(VGPU_F_PING);
	}
	spin_unlock_irq(&dev->lock);
	return err;
}

static int vgpu_create_check(const union vgpu_arg *arg)
{
	return vgpu_check_create(&arg->create);
}

static int vgpu_create_run(struct vgpu_client *client, union vgpu_arg *arg)
{
	struct vgpu_dev *dev = client->dev;
	u64 wake_seq = READ_ONCE(client->wake_seq);
	char comm[TASK_COMM_LEN];
	u64 doorbell;
	int err;

	err = vgpu_revive(client);
	if (err)
		return err;
	get_task_comm(comm, current->group_leader);
	err = vgpu_client_create(client, comm);
	if (err)
		return err;
	doorbell = dev->res.notify + vgpu_doorbell_off(&dev->res, client->slot);
	arg->create = (struct vgpu_create_client){
		.slot = client->slot,
		.window_size = dev->cfg.window_size,
		.window_offset = VGPU_WINDOW_OFFSET,
		.doorbell_offset = VGPU_DOORBELL_OFFSET,
		.doorbell_value = VGPU_VQ_DOORBELL + client->slot,
		.doorbell_in_page = offset_in_page(doorbell),
		.wake_seq = wake_seq,
	};
	return 0;
}

static int vgpu_pin_check(const union vgpu_arg *arg)
{
	return vgpu_check_pin(&arg->pin);
}

static int vgpu_pin_run(struct vgpu_client *client, union vgpu_arg *arg)
{
	return vgpu_pin(client, &arg->pin);
}

static void vgpu_pin_undo(struct vgpu_client *client, union vgpu_arg *arg)
{
	vgpu_unpin(client, arg->pin.region);
}

static int vgpu_unpin_check(const union vgpu_arg *arg)
{
	return vgpu_check_unpin(&arg->unpin);
}

static int vgpu_unpin_run(struct vgpu_client *client, union vgpu_arg *arg)
{
	return vgpu_unpin(client, arg->unpin.region);
}

static int vgpu_wait_check(const union vgpu_arg *arg)
{
	return vgpu_check_wait(&arg->wait);
}

static int vgpu_wait_run(struct vgpu_client *client, union vgpu_arg *arg)
{
	struct vgpu_wait *wait = &arg->wait;

	return vgpu_client_wait(client, wait->seen,
				vgpu_deadline(wait->deadline_ns, vgpu_monotonic_offset_ns()),
				&wait->seq, &wait->state);
}

static int vgpu_export_check(const union vgpu_arg *arg)
{
	return vgpu_check_export(&arg->export.uapi);
}

static int vgpu_export_run(struct vgpu_client *client, union vgpu_arg *arg)
{
	return vgpu_export(client, &arg->export);
}

static void vgpu_export_undo(struct vgpu_client *client, union vgpu_arg *arg)
{
	vgpu_export_drop(&arg->export);
}

static void vgpu_export_commit(union vgpu_arg *arg)
{
	vgpu_export_install(&arg->export);
}

static int vgpu_import_check(const union vgpu_arg *arg)
{
	return vgpu_check_import(&arg->import);
}

static int vgpu_import_run(struct vgpu_client *client, union vgpu_arg *arg)
{
	return vgpu_import(client, &arg->import);
}

static void vgpu_import_undo(struct vgpu_client *client, union vgpu_arg *arg)
{
	vgpu_unpin(client, arg->import.region);
}

static const struct vgpu_ioctl_row vgpu_ioctls[] = {
	{ VGPU_IOCTL_QUERY, vgpu_query_check, vgpu_query_run },
	{ VGPU_IOCTL_CREATE_CLIENT, vgpu_create_check, vgpu_create_run },
	{ VGPU_IOCTL_PIN, vgpu_pin_check, vgpu_pin_run, .undo = vgpu_pin_undo },
	{ VGPU_IOCTL_UNPIN, vgpu_unpin_check, vgpu_unpin_run },
	{ VGPU_IOCTL_WAIT, vgpu_wait_check, vgpu_wait_run, .unlocked = true },
	{ VGPU_IOCTL_EXPORT, vgpu_export_check, vgpu_export_run, .undo = vgpu_export_undo,
	  .commit = vgpu_export_commit },
	{ VGPU_IOCTL_IMPORT, vgpu_import_check, vgpu_import_run, .undo = vgpu_import_undo },
};

/*
 * WAIT returns its results even with an error; no other ioctl writes its argument back on an error.
 */
static bool vgpu_writes_back(unsigned int cmd, int err)
{
	if (!err)
		return _IOC_DIR(cmd) & _IOC_READ;
	return cmd == VGPU_IOCTL_WAIT && (err == -ETIMEDOUT || err == -ENODEV);
}

static int vgpu_ioctl_locked(struct vgpu_client *client, const struct vgpu_ioctl_row *row,
			     union vgpu_arg *arg, void __user *user)
{
	int err = row->run(client, arg);

	if (vgpu_writes_back(row->cmd, err) && copy_to_user(user, arg, _IOC_SIZE(row->cmd))) {
		if (row->undo && !err)
			row->undo(client, arg);
		return -EFAULT;
	}
	if (row->commit && !err)
		row->commit(arg);
	return err;
}

/**
 * vgpu_ioctl - dispatch an ioctl
 * @client: of the file; the caller has checked that it belongs to the current address space
 * @cmd: number
 * @user: argument
 *
 * Return: 0, -ENOTTY for an unknown number (or another size), -EFAULT, or the ioctl's own errors.
 */
long vgpu_ioctl(struct vgpu_client *client, unsigned int cmd, void __user *user)
{
	const struct vgpu_ioctl_row *row = NULL;
	union vgpu_arg arg = {};
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(vgpu_ioctls) && !row; i++)
		if (vgpu_ioctls[i].cmd == cmd)
			row = &vgpu_ioctls[i];
	if (!row)
		return -ENOTTY;
	if (copy_from_user(&arg, user, _IOC_SIZE(cmd)))
		return -EFAULT;
	err = row->check(&arg);
	if (err)
		return err;
	if (row->unlocked)
		return vgpu_ioctl_locked(client, row, &arg, user);
	if (mutex_lock_killable(&client->lock))
		return -EINTR;
	err = vgpu_ioctl_locked(client, row, &arg, user);
	mutex_unlock(&client->lock);
	return err;
}
