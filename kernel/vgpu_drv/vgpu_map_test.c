// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: vgpu_map.c: pages that an access installs, and mappings after the loss of the device. */
#include <linux/fs.h>
#include <linux/mm.h>

#include "vgpu_client_env.h"

/* Initial value of a mapping; later kernels do not allow vm_flags to be assigned. */
#define MAPPING(offset, size)                                                                   \
	{                                                                                       \
		.vm_start = SZ_1G,                                                              \
		.vm_end = SZ_1G + (size),                                                       \
		.vm_pgoff = (offset) >> PAGE_SHIFT,                                             \
		.vm_flags = VM_SHARED | VM_READ | VM_WRITE | VM_MAYSHARE | VM_MAYREAD |         \
			    VM_MAYWRITE,                                                        \
		.vm_mm = &init_mm,                                                              \
	}

static void map_object(struct kunit *test, struct vgpu_client *client, struct vm_area_struct *vma)
{
	int err;

	mmap_write_lock(&init_mm);
	err = vgpu_map(client, vma);
	mmap_write_unlock(&init_mm);
	KUNIT_ASSERT_EQ(test, err, 0);
}

/* An access to a page of a mapping. Return: what it has installed. */
static struct vgpu_fault_maps touch_page(struct kunit *test, struct vm_area_struct *vma,
					 unsigned int page)
{
	struct vm_fault vmf = {
		.vma = vma,
		.address = vma->vm_start + page * PAGE_SIZE,
		.pgoff = vma->vm_pgoff + page,
	};

	memset(vgpu_fault_maps(), 0, sizeof(struct vgpu_fault_maps));
	KUNIT_EXPECT_EQ(test, (u32)vma->vm_ops->fault(&vmf), (u32)VM_FAULT_NOPAGE);
	return *vgpu_fault_maps();
}

/* Each client gets the window and the doorbell of its own slot. */
static void vgpu_map_own_slot(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *client[2] = { env->client, vgpu_client_env_other(test) };
	const struct vgpu_res *res = &env->dev->res;
	const u64 size = env->dev->cfg.window_size;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, vgpu_client_env_create(env->client), 0);
	KUNIT_ASSERT_NE(test, client[0]->slot, client[1]->slot);
	for (i = 0; i < ARRAY_SIZE(client); i++) {
		struct vm_area_struct window = MAPPING(VGPU_WINDOW_OFFSET, size);
		struct vm_area_struct bell = MAPPING(VGPU_DOORBELL_OFFSET, PAGE_SIZE);
		const u32 slot = client[i]->slot;
		const u32 off = VGPU_FAKE_NOTIFY_OFF(VGPU_VQ_DOORBELL + slot);
		struct vgpu_fault_maps maps;

		map_object(test, client[i], &window);
		map_object(test, client[i], &bell);
		maps = touch_page(test, &window, 7);
		KUNIT_EXPECT_EQ(test, (u64)maps.first, (res->windows + slot * size) >> PAGE_SHIFT);
		KUNIT_EXPECT_EQ(test, (u64)maps.n, size >> PAGE_SHIFT);
		KUNIT_EXPECT_EQ(test, maps.pfn, 0UL);
		maps = touch_page(test, &bell, 0);
		KUNIT_EXPECT_EQ(test, (u64)maps.pfn, (res->notify >> PAGE_SHIFT) + off);
		KUNIT_EXPECT_EQ(test, maps.n, 0U);
	}
	vgpu_client_close(client[1]);
}

/* An access gets a private page of zeroes, the same each time. Return: its page frame. */
static unsigned long expect_blank(struct kunit *test, struct vm_area_struct *vma,
				  unsigned int page)
{
	struct vgpu_fault_maps maps = touch_page(test, vma, page);

	KUNIT_EXPECT_EQ(test, maps.n, 0U);
	KUNIT_ASSERT_TRUE(test, pfn_valid(maps.pfn) && maps.pfn < max_mapnr);
	KUNIT_EXPECT_EQ(test, touch_page(test, vma, page).pfn, maps.pfn);
	KUNIT_EXPECT_PTR_EQ(test, memchr_inv(page_address(pfn_to_page(maps.pfn)), 0, PAGE_SIZE),
			    NULL);
	return maps.pfn;
}

/*
 * After the loss of the device a mapping reaches neither its window nor its doorbell, also when the
 * slot belongs to another client.
 */
static void vgpu_map_after_loss(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vm_area_struct window = MAPPING(VGPU_WINDOW_OFFSET, env->dev->cfg.window_size);
	struct vm_area_struct bell = MAPPING(VGPU_DOORBELL_OFFSET, PAGE_SIZE);
	struct vgpu_client *next;
	struct page *page;
	unsigned long pfn;

	KUNIT_ASSERT_EQ(test, vgpu_client_env_create(env->client), 0);
	map_object(test, env->client, &window);
	map_object(test, env->client, &bell);
	KUNIT_EXPECT_NE(test, touch_page(test, &window, 0).n, 0U);
	vgpu_dev_lost(env->dev, "the test says so");
	pfn = expect_blank(test, &window, 3);
	KUNIT_EXPECT_NE(test, expect_blank(test, &window, 4), pfn);
	expect_blank(test, &bell, 0);
	KUNIT_EXPECT_EQ(test, vgpu_dev_recover(env->dev), 0);
	next = vgpu_client_env_other(test);
	KUNIT_EXPECT_EQ(test, next->slot, env->client->slot);
	KUNIT_EXPECT_EQ(test, expect_blank(test, &window, 3), pfn);
	expect_blank(test, &bell, 0);
	vgpu_client_close(next);
	/* The client's pages end with its file. */
	page = pfn_to_page(pfn);
	get_page(page);
	vgpu_client_close(env->client);
	env->client = NULL;
	KUNIT_EXPECT_EQ(test, page_count(page), 1);
	put_page(page);
}

static unsigned int times_unmapped(const struct address_space *mapping)
{
	const struct vgpu_fault_maps *maps = vgpu_fault_maps();
	unsigned int i, n = 0;

	for (i = 0; i < ARRAY_SIZE(maps->unmapped); i++)
		n += maps->unmapped[i] == mapping;
	return n;
}

/* The loss of the device unmaps the files of all clients that have or had a slot, once. */
static void vgpu_map_unmapped(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct address_space *of = kunit_kcalloc(test, 3, sizeof(*of), GFP_KERNEL);
	struct vgpu_client *client[3];
	unsigned int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, of);
	for (i = 0; i < ARRAY_SIZE(client); i++) {
		address_space_init_once(&of[i]);
		client[i] = vgpu_client_open(env->dev, NULL, &of[i]);
		KUNIT_ASSERT_FALSE(test, IS_ERR(client[i]));
		KUNIT_EXPECT_EQ(test, vgpu_client_env_create(client[i]), 0);
	}
	vgpu_client_close(client[1]);
	memset(vgpu_fault_maps(), 0, sizeof(struct vgpu_fault_maps));
	vgpu_dev_lost(env->dev, "the test says so");
	flush_work(&env->dev->reset_work);
	KUNIT_EXPECT_EQ(test, vgpu_fault_maps()->unmaps, 2U);
	KUNIT_EXPECT_EQ(test, times_unmapped(&of[0]), 1U);
	KUNIT_EXPECT_EQ(test, times_unmapped(&of[2]), 1U);
	vgpu_client_close(client[0]);
	vgpu_client_close(client[2]);
	memset(vgpu_fault_maps(), 0, sizeof(struct vgpu_fault_maps));
}

static struct kunit_case vgpu_map_cases[] = {
	KUNIT_CASE(vgpu_map_own_slot),
	KUNIT_CASE(vgpu_map_after_loss),
	KUNIT_CASE(vgpu_map_unmapped),
	{}
};

static struct kunit_suite vgpu_map_suite = {
	.name = "vgpu_map",
	.init = vgpu_client_env_init,
	.exit = vgpu_client_env_exit,
	.test_cases = vgpu_map_cases,
};

kunit_test_suite(vgpu_map_suite);
