// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: vgpu_pin.c, vgpu_map.c and vgpu_file.c: bounds of regions, results and effects of UNPIN,
 * access to mmap(), and flags of mappings.
 */
#include <linux/dma-buf.h>
#include <linux/fs.h>
#include <linux/mm.h>

#include "vgpu_compat.h"
#include "vgpu_client_env.h"

static struct page *memory;

static int pin_init(struct kunit *test)
{
	struct vgpu_client_env *env;
	int err = vgpu_client_env_init(test);

	if (err)
		return err;
	env = test->priv;
	memory = alloc_page(GFP_KERNEL | __GFP_ZERO);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, memory);
	vgpu_fault_memory(memory, 1);
	KUNIT_ASSERT_EQ(test, vgpu_client_env_create(env->client), 0);
	return 0;
}

static void pin_exit(struct kunit *test)
{
	vgpu_client_env_exit(test);
	KUNIT_EXPECT_TRUE(test, vgpu_client_env_unpinned());
	vgpu_fault_memory(NULL, 1);
	__free_page(memory);
}

static int pin(struct vgpu_client *client, u64 npages, u32 *region)
{
	struct vgpu_pin arg = { .addr = PAGE_SIZE, .length = npages << PAGE_SHIFT };
	int err;

	mutex_lock(&client->lock);
	err = vgpu_pin(client, &arg);
	mutex_unlock(&client->lock);
	if (!err && region)
		*region = arg.region;
	return err;
}

/* At most VGPU_MAX_REGIONS at a time per client; a region freed by UNPIN can be replaced. */
static void vgpu_pin_most_regions(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *other = vgpu_client_env_other(test);
	u32 first, region;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, pin(env->client, 1, &first), 0);
	for (i = 1; i < VGPU_MAX_REGIONS; i++)
		KUNIT_ASSERT_EQ(test, pin(env->client, 1, &region), 0);
	KUNIT_EXPECT_EQ(test, pin(env->client, 1, NULL), -EMFILE);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), VGPU_MAX_REGIONS);
	KUNIT_EXPECT_EQ(test, pin(other, 1, NULL), 0);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, first), 0);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, first), -ENOENT);
	KUNIT_EXPECT_EQ(test, pin(env->client, 1, NULL), 0);
	KUNIT_EXPECT_EQ(test, pin(env->client, 1, NULL), -EMFILE);
	KUNIT_EXPECT_EQ(test, env->client->nregions, VGPU_MAX_REGIONS);
	vgpu_client_close(other);
}

/* A region may be as large as the VM's quota, and no larger; 0: no quota. */
static void vgpu_pin_quota(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 region;

	env->dev->cfg.pin_quota = 4 * PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, pin(env->client, 5, NULL), -EDQUOT);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 0);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_PIN], 0U);
	KUNIT_EXPECT_EQ(test, pin(env->client, 4, &region), 0);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, region), 0);
	env->dev->cfg.pin_quota = 0;
	KUNIT_EXPECT_EQ(test, pin(env->client, 5, NULL), 0);
}

/*
 * Pages are pinned for long, for writing unless the region is read-only, and released as dirty if
 * the worker may have written to them.
 */
static void vgpu_pin_writable(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_pin arg = { .addr = PAGE_SIZE, .length = 5 * PAGE_SIZE };
	unsigned int dirtied = vgpu_fault_dirtied();
	u32 region;
	int err;

	KUNIT_ASSERT_EQ(test, pin(env->client, 5, &region), 0);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pin_flags(), (unsigned int)(FOLL_LONGTERM | FOLL_WRITE));
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, region), 0);
	KUNIT_EXPECT_EQ(test, vgpu_fault_dirtied(), dirtied + 5);
	arg.flags = VGPU_PIN_FLAG_READONLY;
	mutex_lock(&env->client->lock);
	err = vgpu_pin(env->client, &arg);
	mutex_unlock(&env->client->lock);
	KUNIT_ASSERT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pin_flags(),
			(unsigned int)(FOLL_LONGTERM | VGPU_FOLL_READONLY));
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, arg.region), 0);
	KUNIT_EXPECT_EQ(test, vgpu_fault_dirtied(), dirtied + 5);
}

static u32 pin_flags[2];

static u32 record_pin(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
		      u32 resp_len)
{
	const struct vgpu_cmd_pin *cmd = container_of(hdr, struct vgpu_cmd_pin, hdr);

	if (hdr->type == cpu_to_le32(VGPU_CMD_PIN)) {
		const bool more = cmd->pin_flags & cpu_to_le32(VGPU_PIN_MORE);

		pin_flags[!more] = le32_to_cpu(cmd->pin_flags);
		if (!more)
			((struct vgpu_resp_pin *)resp)->worker_va = cpu_to_le64(SZ_1G);
	}
	return resp_len;
}

/* Each request of a read-only region says so; the address is that of the last answer. */
static void vgpu_pin_parts(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_pin arg = { .addr = PAGE_SIZE, .length = (VGPU_FAKE_RUNS + 1) * PAGE_SIZE,
				.flags = VGPU_PIN_FLAG_READONLY };
	int err;

	env->fake->answer = record_pin;
	mutex_lock(&env->client->lock);
	err = vgpu_pin(env->client, &arg);
	mutex_unlock(&env->client->lock);
	KUNIT_ASSERT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_PIN], 2U);
	KUNIT_EXPECT_EQ(test, pin_flags[0], (u32)(VGPU_PIN_READONLY | VGPU_PIN_MORE));
	KUNIT_EXPECT_EQ(test, pin_flags[1], (u32)VGPU_PIN_READONLY);
	KUNIT_EXPECT_EQ(test, arg.worker_va, (u64)SZ_1G);
	env->fake->answer = NULL;
}

/* A region lies in user space with all of its pages, not with the first only. */
static void vgpu_pin_user_space(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_pin arg = { .addr = TASK_SIZE - 2 * PAGE_SIZE };
	u64 npages;

	mutex_lock(&env->client->lock);
	for (npages = 3; npages < 8; npages++) {
		arg.length = npages * PAGE_SIZE;
		KUNIT_EXPECT_EQ(test, vgpu_pin(env->client, &arg), -EFAULT);
	}
	arg.length = PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, vgpu_pin(env->client, &arg), 0);
	mutex_unlock(&env->client->lock);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_PIN], 1U);
}

static u32 unpin_status;

static u32 answer_unpin(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
			u32 resp_len)
{
	if (hdr->type == cpu_to_le32(VGPU_CMD_UNPIN))
		((struct vgpu_resp_hdr *)resp)->status = cpu_to_le32(unpin_status);
	return resp_len;
}

static int unpin_with(struct vgpu_client_env *env, u32 region, u32 status)
{
	int err;

	unpin_status = status;
	env->fake->answer = answer_unpin;
	err = vgpu_client_env_unpin(env->client, region);
	env->fake->answer = NULL;
	return err;
}

/* A worker that is gone has no mappings: UNPIN releases the pages. */
static void vgpu_unpin_worker_gone(struct kunit *test)
{
	static const u32 gone[] = { VGPU_S_OK, VGPU_S_NO_CLIENT, VGPU_S_WORKER };
	struct vgpu_client_env *env = test->priv;
	unsigned int i;
	u32 region;

	for (i = 0; i < ARRAY_SIZE(gone); i++) {
		KUNIT_ASSERT_EQ(test, pin(env->client, 3, &region), 0);
		KUNIT_EXPECT_EQ_MSG(test, unpin_with(env, region, gone[i]), 0, "status %u",
				    gone[i]);
		KUNIT_EXPECT_EQ_MSG(test, vgpu_fault_pinned(), 0, "status %u", gone[i]);
		KUNIT_EXPECT_EQ(test, env->client->nregions, 0U);
		KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, region), -ENOENT);
	}
}

/*
 * A refused UNPIN changes nothing; if the worker may still have the pages, they are kept until it
 * ends.
 */
static void vgpu_unpin_refused(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 region;

	KUNIT_ASSERT_EQ(test, pin(env->client, 3, &region), 0);
	KUNIT_EXPECT_EQ(test, unpin_with(env, region, VGPU_S_NO_MEMORY), -ENOMEM);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 3);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, region), 0);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 0);
	KUNIT_ASSERT_EQ(test, pin(env->client, 3, &region), 0);
	KUNIT_EXPECT_NE(test, unpin_with(env, region, VGPU_S_STUCK), 0);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, region), -ENOENT);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 3);
	vgpu_client_close(env->client);
	env->client = NULL;
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 0);
}

/*
 * A mapping is not inherited by children, does not grow, is not dumped, and cannot be made
 * executable later.
 */
static void vgpu_map_flags(struct kunit *test)
{
	const unsigned long have = VM_IO | VM_PFNMAP | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP;
	static const u64 offsets[] = { VGPU_WINDOW_OFFSET, VGPU_DOORBELL_OFFSET };
	struct vgpu_client_env *env = test->priv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(offsets); i++) {
		const bool bell = offsets[i] == VGPU_DOORBELL_OFFSET;
		struct vm_area_struct vma = {
			.vm_start = SZ_1G,
			.vm_end = SZ_1G + (bell ? PAGE_SIZE : env->dev->cfg.window_size),
			.vm_pgoff = offsets[i] >> PAGE_SHIFT,
			.vm_flags = VM_SHARED | VM_WRITE | VM_MAYSHARE | VM_MAYWRITE | VM_MAYEXEC |
				    (bell ? 0 : VM_READ | VM_MAYREAD),
			.vm_mm = &init_mm,
		};

		mmap_write_lock(&init_mm);
		KUNIT_EXPECT_EQ(test, vgpu_map(env->client, &vma), 0);
		mmap_write_unlock(&init_mm);
		KUNIT_EXPECT_EQ(test, vma.vm_flags & have, have);
		KUNIT_EXPECT_EQ(test, vma.vm_flags & VM_MAYEXEC, 0UL);
		KUNIT_EXPECT_PTR_EQ(test, vma.vm_private_data, (void *)env->client);
	}
}

/* A file belongs to the address space that opened it; a kernel thread has none. */
static void vgpu_file_of_mm(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *client = vgpu_client_open(env->dev, &init_mm, NULL);
	struct file *file = kunit_kzalloc(test, sizeof(*file), GFP_KERNEL);
	struct vm_area_struct vma = {
		.vm_start = SZ_1G,
		.vm_end = SZ_1G + PAGE_SIZE,
		.vm_flags = VM_SHARED,
	};

	KUNIT_ASSERT_FALSE(test, IS_ERR(client));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, file);
	file->private_data = &env->dev->misc;
	KUNIT_EXPECT_EQ(test, vgpu_fops.open(NULL, file), -EPERM);
	file->private_data = client;
	KUNIT_EXPECT_EQ(test, vgpu_fops.unlocked_ioctl(file, 0, 0), -EPERM);
	KUNIT_EXPECT_EQ(test, vgpu_fops.mmap(file, &vma), -EPERM);
	vma.vm_mm = &init_mm;
	KUNIT_EXPECT_EQ(test, vgpu_fops.mmap(file, &vma), -ENXIO); /* before CREATE */
	vgpu_client_close(client);
}

/* A dma-buf is mapped shared, and within its size. */
static void vgpu_map_exported(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_export_call call = { .uapi = { .offset = PAGE_SIZE, .length = 2 * PAGE_SIZE } };
	struct vm_area_struct vma = {
		.vm_start = SZ_1G,
		.vm_end = SZ_1G + 2 * PAGE_SIZE,
		.vm_flags = VM_READ | VM_MAYREAD,
		.vm_mm = &init_mm,
	};
	struct vm_area_struct shared = vma;
	struct vm_fault behind = { .vma = &shared, .address = SZ_1G, .pgoff = 2 };
	struct vm_fault far = { .vma = &shared, .address = SZ_1G, .pgoff = ULONG_MAX };
	int err;

	KUNIT_ASSERT_EQ(test, pin(env->client, 4, &call.uapi.region), 0);
	mutex_lock(&env->client->lock);
	err = vgpu_export(env->client, &call);
	mutex_unlock(&env->client->lock);
	KUNIT_ASSERT_EQ(test, err, 0);
	mmap_write_lock(&init_mm);
	KUNIT_EXPECT_EQ(test, call.dmabuf->ops->mmap(call.dmabuf, &vma), -EINVAL);
	KUNIT_EXPECT_PTR_EQ(test, (const void *)vma.vm_ops, NULL);
	vgpu_vm_flags(&shared, VM_SHARED | VM_MAYSHARE, 0);
	KUNIT_EXPECT_EQ(test, call.dmabuf->ops->mmap(call.dmabuf, &shared), 0);
	mmap_write_unlock(&init_mm);
	KUNIT_EXPECT_EQ(test, shared.vm_flags & (VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP),
			(unsigned long)(VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP));
	KUNIT_EXPECT_EQ(test, (u32)shared.vm_ops->fault(&behind), (u32)VM_FAULT_SIGBUS);
	KUNIT_EXPECT_EQ(test, (u32)shared.vm_ops->fault(&far), (u32)VM_FAULT_SIGBUS);
	vgpu_export_drop(&call);
}

static struct kunit_case vgpu_pin_cases[] = {
	KUNIT_CASE(vgpu_pin_most_regions),
	KUNIT_CASE(vgpu_pin_quota),
	KUNIT_CASE(vgpu_pin_writable),
	KUNIT_CASE(vgpu_pin_parts),
	KUNIT_CASE(vgpu_pin_user_space),
	KUNIT_CASE(vgpu_unpin_worker_gone),
	KUNIT_CASE(vgpu_unpin_refused),
	KUNIT_CASE(vgpu_map_flags),
	KUNIT_CASE(vgpu_file_of_mm),
	KUNIT_CASE(vgpu_map_exported),
	{}
};

static struct kunit_suite vgpu_pin_suite = {
	.name = "vgpu_pin",
	.init = pin_init,
	.exit = pin_exit,
	.test_cases = vgpu_pin_cases,
};

kunit_test_suite(vgpu_pin_suite);
