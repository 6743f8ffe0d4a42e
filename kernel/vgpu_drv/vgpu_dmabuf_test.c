// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: vgpu_export.c and vgpu_import.c: rejections and lifetimes. */
#include <linux/delay.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/iosys-map.h>
#include <linux/pfn.h>
#include <linux/scatterlist.h>

#include "vgpu_client_env.h"

#define PAGES 8U
#define ORDER 3

static struct page *memory;

static int dmabuf_init(struct kunit *test)
{
	struct vgpu_client_env *env;
	int err = vgpu_client_env_init(test);

	if (err)
		return err;
	env = test->priv;
	memory = alloc_pages(GFP_KERNEL | __GFP_ZERO, ORDER);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, memory);
	vgpu_fault_memory(memory, PAGES);
	KUNIT_ASSERT_EQ(test, vgpu_client_env_create(env->client), 0);
	return 0;
}

static void dmabuf_exit(struct kunit *test)
{
	vgpu_client_env_exit(test);
	KUNIT_EXPECT_TRUE(test, vgpu_client_env_unpinned());
	vgpu_fault_memory(NULL, 1);
	__free_pages(memory, ORDER);
}

/* Pins pages 0 to PAGES - 1. Return: the region's id. */
static u32 pin_pages(struct kunit *test, struct vgpu_client *client, u32 flags)
{
	struct vgpu_pin arg = { .addr = PAGES * PAGE_SIZE, .length = PAGES * PAGE_SIZE,
				.flags = flags };
	int err;

	mutex_lock(&client->lock);
	err = vgpu_pin(client, &arg);
	mutex_unlock(&client->lock);
	KUNIT_EXPECT_EQ(test, err, 0);
	return arg.region;
}

static int export_part(struct vgpu_client *client, u32 region, u64 first, u64 n,
		       struct vgpu_export_call *call)
{
	int err;

	*call = (struct vgpu_export_call){ .uapi = { .region = region, .offset = first * PAGE_SIZE,
						     .length = n * PAGE_SIZE } };
	mutex_lock(&client->lock);
	err = vgpu_export(client, call);
	mutex_unlock(&client->lock);
	return err;
}

static int import(struct vgpu_client *client, struct dma_buf *dmabuf, struct vgpu_import *arg)
{
	int err;

	mutex_lock(&client->lock);
	err = vgpu_import_dmabuf(client, arg, dmabuf);
	mutex_unlock(&client->lock);
	return err;
}

/* ---- export ---- */

static void vgpu_dmabuf_export_refused(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *other = vgpu_client_env_other(test);
	struct vgpu_client *young = vgpu_client_open(env->dev, NULL, NULL);
	u32 region = pin_pages(test, env->client, 0);
	u32 readonly = pin_pages(test, env->client, VGPU_PIN_FLAG_READONLY);
	struct vgpu_export_call call;

	/* An unknown region, a region of another client, and before CREATE. */
	KUNIT_EXPECT_EQ(test, export_part(env->client, 0, 0, 1, &call), -ENOENT);
	KUNIT_EXPECT_EQ(test, export_part(env->client, 77, 0, 1, &call), -ENOENT);
	KUNIT_EXPECT_EQ(test, export_part(other, region, 0, 1, &call), -ENOENT);
	KUNIT_EXPECT_EQ(test, export_part(young, region, 0, 1, &call), -ENXIO);
	KUNIT_EXPECT_EQ(test, export_part(env->client, readonly, 0, 1, &call), -EACCES);
	/* Out of range: by a page, by far, and with a byte offset that wraps. */
	KUNIT_EXPECT_EQ(test, export_part(env->client, region, 0, PAGES + 1, &call), -EINVAL);
	KUNIT_EXPECT_EQ(test, export_part(env->client, region, PAGES, 1, &call), -EINVAL);
	KUNIT_EXPECT_EQ(test, export_part(env->client, region, 1, PAGES, &call), -EINVAL);
	KUNIT_EXPECT_EQ(test, export_part(env->client, region, U64_MAX >> PAGE_SHIFT, 1, &call),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, export_part(env->client, region, 1, U64_MAX >> PAGE_SHIFT, &call),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, region), 0);
	KUNIT_EXPECT_EQ(test, export_part(env->client, region, 0, 1, &call), -ENOENT);
	vgpu_client_close(young);
	vgpu_client_close(other);
}

/* The worker has died: its regions remain, but cannot be exported. */
static void vgpu_dmabuf_export_dead(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 region = pin_pages(test, env->client, 0);
	struct vgpu_export_call call;

	spin_lock_irq(&env->dev->lock);
	vgpu_client_die_locked(env->client, VGPU_DEAD_KILLED);
	spin_unlock_irq(&env->dev->lock);
	KUNIT_EXPECT_EQ(test, export_part(env->client, region, 0, 1, &call), -ENODEV);
}

/* A request about the region has no answer, so the state of the region is unknown. */
static void vgpu_dmabuf_export_stuck(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 region = pin_pages(test, env->client, 0);
	struct vgpu_region *r = xa_load(&env->client->regions, region);
	struct vgpu_export_call call;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, r);
	r->stuck = true;
	KUNIT_EXPECT_EQ(test, export_part(env->client, region, 0, 1, &call), -ENOENT);
	r->stuck = false;
}

static void vgpu_dmabuf_unpinned_first(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 region = pin_pages(test, env->client, 0);
	struct vgpu_export_call one, two;

	/* Twice, the second time a part only. */
	KUNIT_ASSERT_EQ(test, export_part(env->client, region, 0, PAGES, &one), 0);
	KUNIT_ASSERT_EQ(test, export_part(env->client, region, 3, 2, &two), 0);
	KUNIT_EXPECT_NE(test, one.uapi.fd, two.uapi.fd);
	KUNIT_EXPECT_EQ(test, one.dmabuf->size, PAGES * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, two.dmabuf->size, 2 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, region), 0);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_UNPIN], 1U);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), PAGES);
	vgpu_export_drop(&one);
	msleep(20);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), PAGES);
	vgpu_export_drop(&two);
	KUNIT_EXPECT_TRUE(test, vgpu_client_env_unpinned());
}

static void vgpu_dmabuf_client_first(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 region = pin_pages(test, env->client, 0);
	struct vgpu_export_call call;

	KUNIT_ASSERT_EQ(test, export_part(env->client, region, 0, PAGES, &call), 0);
	vgpu_client_close(env->client);
	env->client = NULL;
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_CLIENT_DESTROY], 1U);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), PAGES);
	vgpu_export_drop(&call);
	KUNIT_EXPECT_TRUE(test, vgpu_client_env_unpinned());
}

/* The device is lost, and the client ends, before the dma-buf. */
static void vgpu_dmabuf_device_first(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 region = pin_pages(test, env->client, 0);
	struct vgpu_export_call call;

	KUNIT_ASSERT_EQ(test, export_part(env->client, region, 0, PAGES, &call), 0);
	vgpu_dev_lost(env->dev, "the test says so");
	vgpu_client_close(env->client);
	env->client = NULL;
	flush_work(&env->dev->reset_work);
	flush_work(&env->dev->reap_work);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), PAGES);
	vgpu_export_drop(&call);
	KUNIT_EXPECT_TRUE(test, vgpu_client_env_unpinned());
}

/* The dma-buf ends first, while the worker still has the pages. */
static void vgpu_dmabuf_dmabuf_first(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 region = pin_pages(test, env->client, 0);
	struct vgpu_export_call call;

	KUNIT_ASSERT_EQ(test, export_part(env->client, region, 0, 1, &call), 0);
	vgpu_export_drop(&call);
	msleep(20);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), PAGES);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, region), 0);
	KUNIT_EXPECT_TRUE(test, vgpu_client_env_unpinned());
}

static void vgpu_dmabuf_bytes(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 region = pin_pages(test, env->client, 0);
	struct vgpu_export_call call;
	struct iosys_map map;

	KUNIT_ASSERT_EQ(test, export_part(env->client, region, 3, 2, &call), 0);
	*(u32 *)page_address(memory + 3) = 0x3333;
	*(u32 *)page_address(memory + 4) = 0x4444;
	dma_resv_lock(call.dmabuf->resv, NULL);
	KUNIT_ASSERT_EQ(test, dma_buf_vmap(call.dmabuf, &map), 0);
	KUNIT_EXPECT_EQ(test, *(u32 *)map.vaddr, 0x3333U);
	KUNIT_EXPECT_EQ(test, *(u32 *)(map.vaddr + PAGE_SIZE), 0x4444U);
	*(u32 *)(map.vaddr + PAGE_SIZE) = 0x5555;
	dma_buf_vunmap(call.dmabuf, &map);
	dma_resv_unlock(call.dmabuf->resv);
	KUNIT_EXPECT_EQ(test, *(u32 *)page_address(memory + 4), 0x5555U);
	vgpu_export_drop(&call);
}

/* ---- import ---- */

/*
 * A dma-buf of this driver, imported by another client: same pages, also after the end of the first
 * client.
 */
static void vgpu_dmabuf_import_own(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *other = vgpu_client_env_other(test);
	struct vgpu_import arg = { .addr = PAGE_SIZE, .length = 2 * PAGE_SIZE,
				   .offset = PAGE_SIZE };
	u32 region = pin_pages(test, env->client, 0), twice;
	struct vgpu_export_call call, again;
	struct vgpu_region *r;

	KUNIT_ASSERT_EQ(test, export_part(env->client, region, 2, 4, &call), 0);
	KUNIT_ASSERT_EQ(test, import(other, call.dmabuf, &arg), 0);
	r = xa_load(&other->regions, arg.region);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, r);
	KUNIT_EXPECT_EQ(test, r->runs.n, 1U);
	KUNIT_EXPECT_EQ(test, r->runs.npages, 2ULL);
	KUNIT_EXPECT_EQ(test, r->runs.run[0].pfn, (u64)page_to_pfn(memory + 3));
	KUNIT_EXPECT_EQ(test, arg.worker_va, (u64)PAGE_SIZE + VGPU_FAKE_VA);
	/* An imported region cannot be exported: its descriptor exists already. */
	KUNIT_EXPECT_EQ(test, export_part(other, arg.region, 0, 1, &again), -EOPNOTSUPP);
	/* Imported again, and by the exporting client. */
	twice = arg.region;
	KUNIT_EXPECT_EQ(test, import(other, call.dmabuf, &arg), 0);
	KUNIT_EXPECT_NE(test, arg.region, twice);
	KUNIT_EXPECT_EQ(test, import(env->client, call.dmabuf, &arg), 0);
	vgpu_export_drop(&call);
	vgpu_client_close(env->client);
	env->client = NULL;
	msleep(20);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), PAGES);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(other, twice), 0);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(other, twice), -ENOENT);
	msleep(20);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), PAGES);
	vgpu_client_close(other);
	KUNIT_EXPECT_TRUE(test, vgpu_client_env_unpinned());
}

/*
 * A region of two runs of pages: each page of a part that begins in the first and ends in the
 * second, exported and imported.
 */
static void vgpu_dmabuf_two_runs(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_pin pin = { .addr = 5 * PAGE_SIZE, .length = PAGES * PAGE_SIZE };
	struct vgpu_import arg = { .addr = PAGE_SIZE, .length = 4 * PAGE_SIZE,
				   .offset = PAGE_SIZE };
	struct vgpu_export_call call;
	struct vgpu_region *r;
	struct iosys_map map;
	unsigned int i;
	int err;

	for (i = 0; i < PAGES; i++)
		*(u32 *)page_address(memory + i) = i;
	mutex_lock(&env->client->lock);
	err = vgpu_pin(env->client, &pin);
	mutex_unlock(&env->client->lock);
	KUNIT_ASSERT_EQ(test, err, 0);
	r = xa_load(&env->client->regions, pin.region);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, r);
	KUNIT_EXPECT_EQ(test, r->runs.n, 2U); /* pages 5 to 7 and 0 to 4 */
	KUNIT_ASSERT_EQ(test, export_part(env->client, pin.region, 1, 6, &call), 0);
	dma_resv_lock(call.dmabuf->resv, NULL);
	KUNIT_ASSERT_EQ(test, dma_buf_vmap(call.dmabuf, &map), 0);
	for (i = 0; i < 6; i++)
		KUNIT_EXPECT_EQ(test, *(u32 *)(map.vaddr + i * PAGE_SIZE), (6 + i) % PAGES);
	dma_buf_vunmap(call.dmabuf, &map);
	dma_resv_unlock(call.dmabuf->resv);
	KUNIT_ASSERT_EQ(test, import(env->client, call.dmabuf, &arg), 0);
	r = xa_load(&env->client->regions, arg.region);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, r);
	KUNIT_EXPECT_EQ(test, r->runs.npages, 4ULL);
	KUNIT_ASSERT_EQ(test, r->runs.n, 2U);
	KUNIT_EXPECT_EQ(test, r->runs.run[0].pfn, (u64)page_to_pfn(memory + 7));
	KUNIT_EXPECT_EQ(test, r->runs.run[0].npages, 1ULL);
	KUNIT_EXPECT_EQ(test, r->runs.run[1].pfn, (u64)page_to_pfn(memory));
	KUNIT_EXPECT_EQ(test, r->runs.run[1].npages, 3ULL);
	vgpu_export_drop(&call);
}

static void vgpu_dmabuf_import_refused(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *young = vgpu_client_open(env->dev, NULL, NULL);
	const struct vgpu_import good = { .addr = PAGE_SIZE, .length = PAGE_SIZE, .fd = -1 };
	u32 region = pin_pages(test, env->client, 0);
	struct vgpu_import arg = good;
	struct vgpu_export_call call;

	mutex_lock(&young->lock);
	KUNIT_EXPECT_EQ(test, vgpu_import(young, &arg), -ENXIO);
	mutex_unlock(&young->lock);
	mutex_lock(&env->client->lock);
	KUNIT_EXPECT_EQ(test, vgpu_import(env->client, &arg), -EBADF);
	arg.addr = BIT_ULL(63);
	KUNIT_EXPECT_EQ(test, vgpu_import(env->client, &arg), -EFAULT);
	mutex_unlock(&env->client->lock);

	KUNIT_ASSERT_EQ(test, export_part(env->client, region, 0, 2, &call), 0);
	arg = good;
	arg.length = 3 * PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, import(env->client, call.dmabuf, &arg), -EINVAL);
	arg = good;
	arg.offset = 2 * PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, import(env->client, call.dmabuf, &arg), -EINVAL);
	arg = good;
	arg.offset = -(u64)2 * PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, import(env->client, call.dmabuf, &arg), -EINVAL);
	vgpu_export_drop(&call);
	vgpu_client_close(young);
}

/* Import into a client whose worker has died. */
static void vgpu_dmabuf_import_dead(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_import arg = { .addr = PAGE_SIZE, .length = PAGE_SIZE, .fd = -1 };

	spin_lock_irq(&env->dev->lock);
	vgpu_client_die_locked(env->client, VGPU_DEAD_EXITED);
	spin_unlock_irq(&env->dev->lock);
	mutex_lock(&env->client->lock);
	KUNIT_EXPECT_EQ(test, vgpu_import(env->client, &arg), -ENODEV);
	mutex_unlock(&env->client->lock);
}

/* The host cannot map it: the import leaves nothing behind. */
static u32 no_memory(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
		     u32 resp_len)
{
	((struct vgpu_resp_hdr *)resp)->status = cpu_to_le32(VGPU_S_NO_MEMORY);
	return resp_len;
}

static void vgpu_dmabuf_import_host_refuses(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_import arg = { .addr = PAGE_SIZE, .length = PAGE_SIZE };
	u32 region = pin_pages(test, env->client, 0);
	u32 nregions = env->client->nregions;
	struct vgpu_export_call call;

	KUNIT_ASSERT_EQ(test, export_part(env->client, region, 0, 2, &call), 0);
	env->fake->answer = no_memory;
	KUNIT_EXPECT_EQ(test, import(env->client, call.dmabuf, &arg), -ENOMEM);
	env->fake->answer = NULL;
	KUNIT_EXPECT_EQ(test, env->client->nregions, nregions);
	KUNIT_EXPECT_TRUE(test, list_empty(&call.dmabuf->attachments));
	vgpu_export_drop(&call);
}

/* ---- import from another driver ---- */

/**
 * struct maker - exporter with behaviour set by the case
 * @refuse_attach: errno of attach, or 0
 * @refuse_map: errno of map, or 0
 * @addr: address of its only segment
 * @len: length of its only segment, bytes
 * @dir: direction of the last map
 * @mapped: number of maps without unmap, in the same direction
 * @released: the dma-buf was released
 */
struct maker {
	int refuse_attach;
	int refuse_map;
	u64 addr;
	u32 len;
	enum dma_data_direction dir;
	int mapped;
	bool released;
};

static int maker_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	return ((struct maker *)dmabuf->priv)->refuse_attach;
}

static struct sg_table *maker_map(struct dma_buf_attachment *attach, enum dma_data_direction dir)
{
	struct maker *maker = attach->dmabuf->priv;
	struct sg_table *sgt;

	if (maker->refuse_map)
		return ERR_PTR(maker->refuse_map);
	sgt = kzalloc(sizeof(*sgt), GFP_KERNEL);
	if (!sgt || sg_alloc_table(sgt, 1, GFP_KERNEL))
		return ERR_PTR(-ENOMEM);
	sg_set_page(sgt->sgl, memory, PAGE_SIZE, 0);
	sg_dma_address(sgt->sgl) = maker->addr;
	sg_dma_len(sgt->sgl) = maker->len;
	maker->dir = dir;
	maker->mapped++;
	return sgt;
}

static void maker_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt,
			enum dma_data_direction dir)
{
	struct maker *maker = attach->dmabuf->priv;

	maker->mapped -= dir == maker->dir;
	sg_free_table(sgt);
	kfree(sgt);
}

static void maker_release(struct dma_buf *dmabuf)
{
	((struct maker *)dmabuf->priv)->released = true;
}

static const struct dma_buf_ops maker_ops = {
	.attach = maker_attach,
	.map_dma_buf = maker_map,
	.unmap_dma_buf = maker_unmap,
	.release = maker_release,
};

static struct dma_buf *make(struct kunit *test, struct maker *maker, int flags)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dmabuf;

	info.ops = &maker_ops;
	info.size = 2 * PAGE_SIZE;
	info.flags = flags;
	info.priv = maker;
	dmabuf = dma_buf_export(&info);
	KUNIT_ASSERT_FALSE(test, IS_ERR(dmabuf));
	return dmabuf;
}

static void put(struct kunit *test, struct maker *maker, struct dma_buf *dmabuf)
{
	int i;

	KUNIT_EXPECT_EQ(test, maker->mapped, 0);
	dma_buf_put(dmabuf);
	for (i = 0; i < 500 && !READ_ONCE(maker->released); i++)
		msleep(20);
	KUNIT_EXPECT_TRUE(test, maker->released);
}

static void vgpu_dmabuf_foreign(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct maker maker = { .addr = PFN_PHYS(page_to_pfn(memory)), .len = 2 * PAGE_SIZE };
	const struct vgpu_import good = { .addr = PAGE_SIZE, .length = 2 * PAGE_SIZE };
	struct dma_buf *dmabuf = make(test, &maker, O_RDWR);
	struct vgpu_import arg = good;

	KUNIT_EXPECT_EQ(test, import(env->client, dmabuf, &arg), 0);
	KUNIT_EXPECT_EQ(test, maker.mapped, 1);
	KUNIT_EXPECT_EQ(test, maker.dir, DMA_BIDIRECTIONAL);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, arg.region), 0);
	KUNIT_EXPECT_EQ(test, maker.mapped, 0);

	/* Left for the end of the client to release. */
	arg = good;
	KUNIT_EXPECT_EQ(test, import(env->client, dmabuf, &arg), 0);
	vgpu_client_close(env->client);
	env->client = NULL;
	put(test, &maker, dmabuf);
}

static void vgpu_dmabuf_foreign_refused(struct kunit *test)
{
	static const int errors[] = { -EBUSY, -EINVAL, -ENOMEM, -EINTR, -EPERM, -EIO, -EAGAIN };
	struct vgpu_client_env *env = test->priv;
	const struct maker good = { .addr = PFN_PHYS(page_to_pfn(memory)), .len = 2 * PAGE_SIZE };
	struct vgpu_import arg = { .addr = PAGE_SIZE, .length = 2 * PAGE_SIZE };
	struct maker maker = good;
	struct dma_buf *dmabuf = make(test, &maker, O_RDWR);
	int i;

	/* Lack of memory and a signal are reported, as the caller may try again. */
	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		int want = errors[i] == -ENOMEM || errors[i] == -EINTR ? errors[i] : -EOPNOTSUPP;

		maker = good;
		maker.refuse_attach = errors[i];
		KUNIT_EXPECT_EQ(test, import(env->client, dmabuf, &arg), want);
		maker = good;
		maker.refuse_map = errors[i];
		KUNIT_EXPECT_EQ(test, import(env->client, dmabuf, &arg), want);
		KUNIT_EXPECT_EQ(test, maker.mapped, 0);
	}
	/* Not RAM: memory of another device, and past the end of the address space. */
	maker = good;
	maker.addr = PFN_PHYS(max_mapnr + 16);
	KUNIT_EXPECT_EQ(test, import(env->client, dmabuf, &arg), -EOPNOTSUPP);
	maker = good;
	maker.addr = -(u64)PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, import(env->client, dmabuf, &arg), -EOPNOTSUPP);
	SetPageReserved(memory);
	maker = good;
	KUNIT_EXPECT_EQ(test, import(env->client, dmabuf, &arg), -EOPNOTSUPP);
	ClearPageReserved(memory);
	/* Not whole pages, and fewer than the size of the dma-buf. */
	maker = good;
	maker.addr += 16;
	KUNIT_EXPECT_EQ(test, import(env->client, dmabuf, &arg), -EOPNOTSUPP);
	maker = good;
	maker.len = PAGE_SIZE + 16;
	KUNIT_EXPECT_EQ(test, import(env->client, dmabuf, &arg), -EOPNOTSUPP);
	maker = good;
	maker.len = PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, import(env->client, dmabuf, &arg), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, env->client->nregions, 0U);
	put(test, &maker, dmabuf);
}

/* A read-only descriptor: the worker must not write either. */
static void vgpu_dmabuf_foreign_readonly(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct maker maker = { .addr = PFN_PHYS(page_to_pfn(memory)), .len = 2 * PAGE_SIZE };
	struct vgpu_import arg = { .addr = PAGE_SIZE, .length = 2 * PAGE_SIZE };
	struct dma_buf *dmabuf = make(test, &maker, O_RDONLY);

	KUNIT_EXPECT_EQ(test, import(env->client, dmabuf, &arg), -EACCES);
	arg.flags = VGPU_PIN_FLAG_READONLY;
	KUNIT_EXPECT_EQ(test, import(env->client, dmabuf, &arg), 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(env->fake->last_pin.pin_flags), (u32)VGPU_PIN_READONLY);
	KUNIT_EXPECT_EQ(test, maker.dir, DMA_TO_DEVICE);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, arg.region), 0);
	put(test, &maker, dmabuf);
}

static struct kunit_case vgpu_dmabuf_cases[] = {
	KUNIT_CASE(vgpu_dmabuf_export_refused),
	KUNIT_CASE(vgpu_dmabuf_export_dead),
	KUNIT_CASE(vgpu_dmabuf_export_stuck),
	KUNIT_CASE(vgpu_dmabuf_unpinned_first),
	KUNIT_CASE(vgpu_dmabuf_client_first),
	KUNIT_CASE(vgpu_dmabuf_device_first),
	KUNIT_CASE(vgpu_dmabuf_dmabuf_first),
	KUNIT_CASE(vgpu_dmabuf_bytes),
	KUNIT_CASE(vgpu_dmabuf_import_own),
	KUNIT_CASE(vgpu_dmabuf_two_runs),
	KUNIT_CASE(vgpu_dmabuf_import_refused),
	KUNIT_CASE(vgpu_dmabuf_import_dead),
	KUNIT_CASE(vgpu_dmabuf_import_host_refuses),
	KUNIT_CASE(vgpu_dmabuf_foreign),
	KUNIT_CASE(vgpu_dmabuf_foreign_refused),
	KUNIT_CASE(vgpu_dmabuf_foreign_readonly),
	{}
};

static struct kunit_suite vgpu_dmabuf_suite = {
	.name = "vgpu_dmabuf",
	.init = dmabuf_init,
	.exit = dmabuf_exit,
	.test_cases = vgpu_dmabuf_cases,
};

kunit_test_suite(vgpu_dmabuf_suite);
