// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: pinned memory
 *
 * A region is user memory that the worker also maps. Its pages are pinned (FOLL_LONGTERM), charged
 * to the user (vgpu_account.c), and described to the device as runs of contiguous pages, in as many
 * requests as the device's limit requires. They are released when the device has confirmed that the
 * worker has unmapped them, or is gone; never earlier, even if the caller is killed. A dma-buf of
 * the pages keeps them longer: a region belongs to its client and to its dma-bufs (vgpu_export.c).
 * The pages of an imported region belong to the exporter (vgpu_import.c).
 *
 * A page unmapped by the worker may still be referenced on the host: a GPU driver holds pages, not
 * mappings, and a compromised worker may keep a registration with it. With the module parameter
 * unpin_keep, all pages sent to the device stay referenced and charged until the device confirms
 * that the worker is gone, or was reset.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "vgpu.h"
#include "vgpu_compat.h"

/* Maximum number of pages pinned per call: their pointers fill a page. */
#define VGPU_PIN_BATCH (PAGE_SIZE / sizeof(struct page *))

/**
 * vgpu_region_new - allocate an empty region, charged to the calling user
 * @client: the client
 * @npages: number of pages that the region will have
 * @flags: VGPU_PIN_FLAG_*
 *
 * Return: the region, with a reference for the caller, or an ERR_PTR. -ENOBUFS of PIN and IMPORT
 * comes from this function only: the caller may stage.
 */
struct vgpu_region *vgpu_region_new(struct vgpu_client *client, u64 npages, u32 flags)
{
	struct vgpu_region *region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);
	struct vgpu_account *account;

	if (!region)
		return ERR_PTR(-ENOMEM);
	kref_init(&region->ref);
	INIT_LIST_HEAD(&region->kept);
	region->dirty = !(flags & VGPU_PIN_FLAG_READONLY);
	account = vgpu_account_charge(&client->dev->vdev->dev, npages);
	if (IS_ERR(account)) {
		kfree(region);
		return ERR_CAST(account);
	}
	region->account = account;
	region->charged = npages;
	return region;
}

static void vgpu_region_release(struct kref *ref)
{
	struct vgpu_region *region = container_of(ref, struct vgpu_region, ref);
	u32 i;

	if (region->attach) {
		vgpu_import_release(region);
	} else {
		for (i = 0; i < region->runs.n; i++) {
			unpin_user_page_range_dirty_lock(pfn_to_page(region->runs.run[i].pfn),
							 region->runs.run[i].npages,
							 region->dirty);
			cond_resched();
		}
	}
	vgpu_runs_free(&region->runs);
	vgpu_account_uncharge(region->account, region->charged);
	kfree(region);
}

/**
 * vgpu_region_put - drop a reference; the last put releases the pages
 * @region: the region; needs no lock, and neither the client nor the device need exist any more
 */
void vgpu_region_put(struct vgpu_region *region)
{
	kref_put(&region->ref, vgpu_region_release);
}

static int vgpu_pin_batch(struct vgpu_region *region, unsigned long addr, int n,
			  struct page **pages)
{
	unsigned int flags = FOLL_LONGTERM | (region->dirty ? FOLL_WRITE : VGPU_FOLL_READONLY);
	int i, got, err;

	got = pin_user_pages_fast(addr, n, flags, pages);
	/* A read-only shared mapping cannot be copied on write, and need not be. */
	if (got == -EFAULT && !region->dirty && VGPU_FOLL_READONLY)
		got = pin_user_pages_fast(addr, n, FOLL_LONGTERM, pages);
	if (got <= 0)
		return got ? got : -EFAULT;
	for (i = 0; i < got; i++) {
		err = vgpu_runs_add(&region->runs, page_to_pfn(pages[i]));
		if (err) {
			/* The region owns the pages added before the failure. */
			unpin_user_pages(pages + i, got - i);
			return err;
		}
	}
	return got;
}

static int vgpu_pin_pages(struct vgpu_region *region, unsigned long addr, u64 npages)
{
	struct page **pages = (struct page **)__get_free_page(GFP_KERNEL);
	int got = 0;

	if (!pages)
		return -ENOMEM;
	while (npages) {
		if (fatal_signal_pending(current)) {
			got = -EINTR;
			break;
		}
		got = vgpu_pin_batch(region, addr, min_t(u64, npages, VGPU_PIN_BATCH), pages);
		if (got < 0)
			break;
		addr += (unsigned long)got << PAGE_SHIFT;
		npages -= got;
		cond_resched();
	}
	free_page((unsigned long)pages);
	return got < 0 ? got : 0;
}

static struct vgpu_req *vgpu_pin_request(struct vgpu_client *client, struct vgpu_region *region,
					 const struct vgpu_pin *arg, const struct vgpu_slice *slice)
{
	u32 pin_flags = slice->more ? VGPU_PIN_MORE : 0;
	struct vgpu_cmd_pin *cmd;
	struct vgpu_req *req;

	req = vgpu_req_alloc(client, VGPU_CMD_PIN, struct_size(cmd, runs, slice->n),
			     sizeof(struct vgpu_resp_pin));
	if (!req)
		return NULL;
	if (arg->flags & VGPU_PIN_FLAG_READONLY)
		pin_flags |= VGPU_PIN_READONLY;
	cmd = req->cmd;
	cmd->region = cpu_to_le32(region->id);
	cmd->pin_flags = cpu_to_le32(pin_flags);
	cmd->va = cpu_to_le64(arg->addr);
	cmd->length = cpu_to_le64(arg->length);
	cmd->offset = cpu_to_le64(slice->offset);
	cmd->nruns = cpu_to_le32(slice->n);
	vgpu_runs_encode(&region->runs, slice, cmd->runs);
	return req;
}

static int vgpu_pin_send(struct vgpu_client *client, struct vgpu_region *region,
			 struct vgpu_pin *arg, const struct vgpu_slice *slice)
{
	struct vgpu_resp_pin resp;
	struct vgpu_req *req;
	u32 status;
	int err;

	req = vgpu_pin_request(client, region, arg, slice);
	if (!req)
		return -ENOMEM;
	region->told = true;
	err = vgpu_client_call(client, req, true);
	if (!err)
		err = vgpu_req_status(client->dev, req, &resp, &status);
	if (err) {
		region->stuck = true;
	} else {
		err = vgpu_status_errno(VGPU_CMD_PIN, status);
		if (status == VGPU_S_STUCK) /* the worker may have mapped it */
			region->stuck = true;
		if (!err && vgpu_check_pin_resp(&resp, slice->more)) {
			vgpu_dev_lost(client->dev, "it gave a malformed answer to PIN");
			region->stuck = true;
			err = -EIO;
		}
		arg->worker_va = le64_to_cpu(resp.worker_va);
	}
	vgpu_req_put(req);
	return err;
}

/* Return: 0 when the worker no longer has the region; else the region is stuck or unknown. */
static int vgpu_unpin_send(struct vgpu_client *client, struct vgpu_region *region)
{
	struct vgpu_resp_hdr resp;
	struct vgpu_cmd_unpin *cmd;
	struct vgpu_req *req;
	u32 status;
	int err;

	req = vgpu_req_alloc(client, VGPU_CMD_UNPIN, sizeof(*cmd), sizeof(resp));
	if (!req)
		return -ENOMEM;
	cmd = req->cmd;
	cmd->region = cpu_to_le32(region->id);
	err = vgpu_client_call(client, req, true);
	if (!err)
		err = vgpu_req_status(client->dev, req, &resp, &status);
	if (err || status == VGPU_S_STUCK) /* the worker may still have it mapped */
		region->stuck = true;
	if (!err && status != VGPU_S_NO_CLIENT && status != VGPU_S_WORKER)
		err = vgpu_status_errno(VGPU_CMD_UNPIN, status);
	/* Otherwise the worker is gone, with all its mappings. */
	vgpu_req_put(req);
	return err;
}

static int vgpu_pin_announce(struct vgpu_client *client, struct vgpu_region *region,
			     struct vgpu_pin *arg)
{
	u32 max = min_t(u32, client->dev->cfg.max_pin_runs, VGPU_RUNS_PER_REQUEST);
	struct vgpu_slice slice = {};
	int err = 0;

	while (!err && vgpu_runs_slice(&region->runs, max, &slice))
		err = vgpu_pin_send(client, region, arg, &slice);
	/* The device has the parts before the failed part, unless it has already dropped them. */
	if (err && !region->stuck && slice.first && vgpu_unpin_send(client, region) == -ENOMEM)
		region->stuck = true;
	return err;
}

/**
 * vgpu_pin_allowed - check that a client may have one more region
 * @client: the client, locked
 * @addr: address in the worker, of user space
 * @length: bytes
 *
 * Return: 0 or the error of PIN and IMPORT.
 */
int vgpu_pin_allowed(struct vgpu_client *client, u64 addr, u64 length)
{
	u64 quota = client->dev->cfg.pin_quota;
	int err;

	lockdep_assert_held(&client->lock);
	err = vgpu_client_usable(client);
	if (err)
		return err;
	if (!virtio_has_feature(client->dev->vdev, VGPU_F_PIN))
		return -EOPNOTSUPP;
	if (quota && length > quota)
		return -EDQUOT;
	if (!access_ok((void __user *)(unsigned long)addr, length))
		return -EFAULT;
	return client->nregions < VGPU_MAX_REGIONS ? 0 : -EMFILE;
}

/*
 * Called when the worker no longer has the region. Drops the client's reference, or keeps it
 * (unpin_keep).
 */
static void vgpu_region_leave(struct vgpu_client *client, struct vgpu_region *region)
{
	lockdep_assert_held(&client->lock);
	xa_erase(&client->regions, region->id);
	client->nregions--;
	if (region->told && READ_ONCE(vgpu_unpin_keep))
		list_add_tail(&region->kept, &client->kept);
	else
		vgpu_region_put(region);
}

/**
 * vgpu_region_enter - add a filled region to the client and map it into the worker
 * @client: the client, locked
 * @region: the region; on success the client takes over the reference, else the caller keeps it
 * @arg: for the worker; region and worker_va are written
 *
 * Return: 0 or an error. The client keeps a reference of its own to a region that the device may
 * still access.
 */
int vgpu_region_enter(struct vgpu_client *client, struct vgpu_region *region, struct vgpu_pin *arg)
{
	int err;

	lockdep_assert_held(&client->lock);
	err = vgpu_region_id_alloc(&client->regions, region, &client->next_region, &region->id);
	if (err)
		return err;
	client->nregions++;
	err = vgpu_pin_announce(client, region, arg);
	if (!err) {
		arg->region = region->id;
		return 0;
	}
	/* The caller keeps its reference, so the client needs one of its own. */
	kref_get(&region->ref);
	if (!region->stuck)
		vgpu_region_leave(client, region);
	return err;
}

/**
 * vgpu_pin - VGPU_IOCTL_PIN
 * @client: the client, locked
 * @arg: checked by vgpu_check_pin(); region and worker_va are written
 *
 * Return: 0 or an error; then nothing stays pinned, except pages that the device may still access:
 * these are released with the client.
 */
int vgpu_pin(struct vgpu_client *client, struct vgpu_pin *arg)
{
	u64 npages = arg->length >> PAGE_SHIFT;
	struct vgpu_region *region;
	int err = vgpu_pin_allowed(client, arg->addr, arg->length);

	if (err)
		return err;
	region = vgpu_region_new(client, npages, arg->flags);
	if (IS_ERR(region))
		return PTR_ERR(region);
	err = vgpu_pin_pages(region, arg->addr, npages);
	if (!err)
		err = vgpu_region_enter(client, region, arg);
	if (err)
		vgpu_region_put(region);
	return err;
}

/**
 * vgpu_unpin - VGPU_IOCTL_UNPIN
 * @client: the client, locked
 * @id: of the region
 *
 * Return: 0, -ENOENT, or an error; with an error other than -ENOENT the pages stay pinned until the
 * client ends.
 */
int vgpu_unpin(struct vgpu_client *client, u32 id)
{
	struct vgpu_region *region;
	int err;

	lockdep_assert_held(&client->lock);
	err = vgpu_client_usable(client);
	if (err)
		return err;
	region = xa_load(&client->regions, id);
	if (!region || region->stuck)
		return -ENOENT;
	err = vgpu_unpin_send(client, region);
	if (!err)
		vgpu_region_leave(client, region);
	return err;
}

/**
 * vgpu_unpin_all - release all regions of a client, including those kept by unpin_keep
 * @client: the client, locked; the device can no longer access its regions
 */
void vgpu_unpin_all(struct vgpu_client *client)
{
	struct vgpu_region *region, *next;
	unsigned long id;

	lockdep_assert_held(&client->lock);
	list_for_each_entry_safe(region, next, &client->kept, kept) {
		list_del(&region->kept);
		vgpu_region_put(region);
	}
	xa_for_each(&client->regions, id, region) {
		xa_erase(&client->regions, id);
		client->nregions--;
		vgpu_region_put(region);
	}
}
