// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: vgpu_ioctl.c: each output field, by a distinct value; fields that must be zero and sizes;
 * each ioctl whose result cannot be delivered (EFAULT): it leaves pages, regions, charges and
 * descriptors unchanged.
 */
#include <linux/dma-buf.h>
#include <linux/fdtable.h>
#include <linux/file.h>

#include "vgpu_client_env.h"

#define PAGES 4U
#define ORDER 2

static struct page *memory;

static int ioctl_init(struct kunit *test)
{
	int err = vgpu_client_env_init(test);

	if (err)
		return err;
	memory = alloc_pages(GFP_KERNEL | __GFP_ZERO, ORDER);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, memory);
	vgpu_fault_memory(memory, PAGES);
	return 0;
}

static void ioctl_exit(struct kunit *test)
{
	vgpu_fault_deliver(true);
	vgpu_client_env_exit(test);
	KUNIT_EXPECT_TRUE(test, vgpu_client_env_unpinned());
	vgpu_fault_memory(NULL, 1);
	__free_pages(memory, ORDER);
}

static long call(struct vgpu_client *client, unsigned int cmd, void *arg)
{
	return vgpu_ioctl(client, cmd, (void __force __user *)arg);
}

static void vgpu_ioctl_query(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_query query = {};

	env->dev->cfg.vram_quota = 0x1234567890ULL;
	env->dev->cfg.pin_quota = 0xabcdef0123ULL;
	KUNIT_ASSERT_EQ(test, call(env->client, VGPU_IOCTL_QUERY, &query), 0L);
	KUNIT_EXPECT_EQ(test, query.abi_version, (u32)VGPU_IOCTL_ABI_VERSION);
	KUNIT_EXPECT_EQ(test, query.max_clients, (u32)VGPU_FAKE_CLIENTS);
	KUNIT_EXPECT_EQ(test, query.window_size, (u64)env->dev->cfg.window_size);
	KUNIT_EXPECT_EQ(test, query.vram_quota, 0x1234567890ULL);
	KUNIT_EXPECT_EQ(test, query.pin_quota, 0xabcdef0123ULL);
	KUNIT_EXPECT_EQ(test, query.features,
			env->fake->offered & (BIT_ULL(VGPU_F_PIN) | BIT_ULL(VGPU_F_PING)));
	KUNIT_EXPECT_NE(test, query.features & BIT_ULL(VGPU_F_PIN), 0ULL);
}

/* A file whose device was lost stays without one, also for QUERY; a new file has the device. */
static void vgpu_ioctl_query_lost(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *next = vgpu_client_open(env->dev, NULL, NULL);
	const struct vgpu_query none = {};
	struct vgpu_query query = {};

	KUNIT_ASSERT_FALSE(test, IS_ERR(next));
	KUNIT_ASSERT_EQ(test, vgpu_client_env_create(env->client), 0);
	vgpu_dev_lost(env->dev, "the test says so");
	KUNIT_EXPECT_EQ(test, call(next, VGPU_IOCTL_QUERY, &query), 0L);
	KUNIT_EXPECT_EQ(test, query.max_clients, (u32)VGPU_FAKE_CLIENTS);
	query = none;
	KUNIT_EXPECT_EQ(test, call(env->client, VGPU_IOCTL_QUERY, &query), (long)-ENODEV);
	KUNIT_EXPECT_EQ(test, memcmp(&query, &none, sizeof(query)), 0);
	vgpu_client_close(next);
}

static void vgpu_ioctl_create(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *other = vgpu_client_env_other(test);
	struct vgpu_create_client create = {};
	u64 doorbell;

	other->wake_seq = 5;
	env->client->wake_seq = 77;
	KUNIT_ASSERT_EQ(test, call(env->client, VGPU_IOCTL_CREATE_CLIENT, &create), 0L);
	KUNIT_EXPECT_EQ(test, create.slot, env->client->slot);
	KUNIT_EXPECT_NE(test, create.slot, other->slot);
	KUNIT_EXPECT_EQ(test, create.window_size, (u64)env->dev->cfg.window_size);
	KUNIT_EXPECT_EQ(test, create.window_offset, (u64)VGPU_WINDOW_OFFSET);
	KUNIT_EXPECT_EQ(test, create.doorbell_offset, (u64)VGPU_DOORBELL_OFFSET);
	KUNIT_EXPECT_EQ(test, create.doorbell_value, VGPU_VQ_DOORBELL + create.slot);
	doorbell = env->dev->res.notify + vgpu_doorbell_off(&env->dev->res, create.slot);
	KUNIT_EXPECT_EQ(test, create.doorbell_in_page, (u32)offset_in_page(doorbell));
	KUNIT_EXPECT_EQ(test, create.wake_seq, 77ULL);
	vgpu_client_close(other);
}

/*
 * WAIT writes its results back on success, on timeout and for a lost device, but not on other
 * errors.
 */
static void vgpu_ioctl_wait(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	const struct vgpu_wait untouched = { .seen = 9, .seq = 1111, .state = 2222 };
	struct vgpu_wait wait = untouched;

	KUNIT_EXPECT_EQ(test, call(env->client, VGPU_IOCTL_WAIT, &wait), (long)-ENXIO);
	KUNIT_EXPECT_EQ(test, memcmp(&wait, &untouched, sizeof(wait)), 0);
	KUNIT_ASSERT_EQ(test, vgpu_client_env_create(env->client), 0);
	env->client->wake_seq = 9;
	KUNIT_EXPECT_EQ(test, call(env->client, VGPU_IOCTL_WAIT, &wait), (long)-ETIMEDOUT);
	KUNIT_EXPECT_EQ(test, wait.seq, 9ULL);
	KUNIT_EXPECT_EQ(test, wait.state, 0U);
	env->client->wake_seq = 10;
	KUNIT_EXPECT_EQ(test, call(env->client, VGPU_IOCTL_WAIT, &wait), 0L);
	KUNIT_EXPECT_EQ(test, wait.seq, 10ULL);
	KUNIT_EXPECT_EQ(test, wait.state, 0U);
	vgpu_dev_lost(env->dev, "the test says so");
	wait = untouched;
	KUNIT_EXPECT_EQ(test, call(env->client, VGPU_IOCTL_WAIT, &wait), (long)-ENODEV);
	KUNIT_EXPECT_EQ(test, wait.seq, 10ULL);
	KUNIT_EXPECT_EQ(test, wait.state, (u32)VGPU_DEAD_LOST);
	flush_work(&env->dev->reset_work);
}

/* Resources that an ioctl may leave behind. */
struct vgpu_left {
	int pinned, fd;
	unsigned int regions;
	u64 charged;
};

static struct vgpu_left left_by(struct vgpu_client *client)
{
	struct vgpu_left left = {
		.pinned = vgpu_fault_pinned(),
		.fd = get_unused_fd_flags(0),
		.regions = client->nregions,
		.charged = vgpu_account_pages(client->uid),
	};

	if (left.fd >= 0)
		put_unused_fd(left.fd);
	return left;
}

static void expect_undone(struct kunit *test, const char *name, unsigned int cmd, void *arg)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_left before = left_by(env->client), after;

	vgpu_fault_deliver(false);
	KUNIT_EXPECT_EQ_MSG(test, call(env->client, cmd, arg), (long)-EFAULT, "%s", name);
	vgpu_fault_deliver(true);
	after = left_by(env->client);
	KUNIT_EXPECT_EQ_MSG(test, after.pinned, before.pinned, "%s: pages", name);
	KUNIT_EXPECT_EQ_MSG(test, after.fd, before.fd, "%s: descriptors", name);
	KUNIT_EXPECT_EQ_MSG(test, after.regions, before.regions, "%s: regions", name);
	KUNIT_EXPECT_EQ_MSG(test, after.charged, before.charged, "%s: charges", name);
}

/* PIN, EXPORT, IMPORT: first undelivered, then delivered, each using the previous result. */
static void vgpu_ioctl_undelivered(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_pin pin = { .addr = PAGES * PAGE_SIZE, .length = PAGES * PAGE_SIZE };
	struct vgpu_export export = { .offset = PAGE_SIZE, .length = 2 * PAGE_SIZE };
	struct vgpu_import import = { .addr = PAGE_SIZE, .length = PAGE_SIZE };
	struct vgpu_unpin unpin = {};
	struct dma_buf *dmabuf;

	KUNIT_ASSERT_EQ(test, vgpu_client_env_create(env->client), 0);
	expect_undone(test, "PIN", VGPU_IOCTL_PIN, &pin);
	KUNIT_ASSERT_EQ(test, call(env->client, VGPU_IOCTL_PIN, &pin), 0L);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), (int)PAGES);
	KUNIT_EXPECT_NE(test, pin.worker_va, 0ULL);
	export.region = pin.region;
	expect_undone(test, "EXPORT", VGPU_IOCTL_EXPORT, &export);
	KUNIT_ASSERT_EQ(test, call(env->client, VGPU_IOCTL_EXPORT, &export), 0L);
	dmabuf = dma_buf_get(export.fd);
	KUNIT_ASSERT_FALSE(test, IS_ERR(dmabuf));
	KUNIT_EXPECT_EQ(test, (u64)dmabuf->size, 2ULL * PAGE_SIZE);
	import.fd = export.fd;
	expect_undone(test, "IMPORT", VGPU_IOCTL_IMPORT, &import);
	KUNIT_EXPECT_EQ(test, file_count(dmabuf->file), 2L);
	KUNIT_ASSERT_EQ(test, call(env->client, VGPU_IOCTL_IMPORT, &import), 0L);
	KUNIT_EXPECT_NE(test, import.region, pin.region);
	unpin.region = import.region;
	KUNIT_EXPECT_EQ(test, call(env->client, VGPU_IOCTL_UNPIN, &unpin), 0L);
	KUNIT_EXPECT_EQ(test, call(env->client, VGPU_IOCTL_UNPIN, &unpin), (long)-ENOENT);
	KUNIT_EXPECT_EQ(test, file_count(dmabuf->file), 2L);
	dma_buf_put(dmabuf);
	close_fd(export.fd);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_PIN], 4U);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_UNPIN], 3U);
}

/* Each ioctl refuses a field that must be zero, and has its own size in its number. */
static void vgpu_ioctl_checked(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_pin pinned = { .addr = PAGE_SIZE, .length = PAGE_SIZE };
	struct vgpu_query query = { .reserved = { 1 } };
	struct vgpu_create_client create = { .flags = 1 };
	struct vgpu_pin pin = { .addr = PAGE_SIZE, .length = PAGE_SIZE, .flags = 2 };
	struct vgpu_unpin unpin = { .flags = 1 };
	struct vgpu_wait wait = { .seen = 9, .flags = 1 };
	struct vgpu_export export = { .length = PAGE_SIZE, .flags = 1 };
	struct vgpu_import import = {
		.addr = PAGE_SIZE, .length = PAGE_SIZE, .fd = -1, .flags = 2,
	};
	const struct {
		unsigned int cmd;
		void *arg;
	} calls[] = {
		{ VGPU_IOCTL_QUERY, &query },	{ VGPU_IOCTL_CREATE_CLIENT, &create },
		{ VGPU_IOCTL_PIN, &pin },	{ VGPU_IOCTL_UNPIN, &unpin },
		{ VGPU_IOCTL_WAIT, &wait },	{ VGPU_IOCTL_EXPORT, &export },
		{ VGPU_IOCTL_IMPORT, &import },
	};
	unsigned int i, cmd;

	KUNIT_ASSERT_EQ(test, vgpu_client_env_create(env->client), 0);
	KUNIT_ASSERT_EQ(test, call(env->client, VGPU_IOCTL_PIN, &pinned), 0L);
	unpin.region = pinned.region;
	export.region = pinned.region;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		cmd = calls[i].cmd;
		KUNIT_EXPECT_EQ_MSG(test, call(env->client, cmd, calls[i].arg), (long)-EINVAL,
				    "ioctl %u", _IOC_NR(cmd));
		cmd = _IOC(_IOC_DIR(cmd), _IOC_TYPE(cmd), _IOC_NR(cmd), _IOC_SIZE(cmd) - 4);
		KUNIT_EXPECT_EQ_MSG(test, call(env->client, cmd, calls[i].arg), (long)-ENOTTY,
				    "ioctl %u", _IOC_NR(cmd));
	}
	KUNIT_EXPECT_EQ(test, env->client->nregions, 1U);
}

/* An ioctl without results needs no memory that can be written. */
static void vgpu_ioctl_without_result(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_pin pin = { .addr = PAGE_SIZE, .length = PAGE_SIZE };
	struct vgpu_unpin unpin = {};

	KUNIT_ASSERT_EQ(test, vgpu_client_env_create(env->client), 0);
	KUNIT_ASSERT_EQ(test, call(env->client, VGPU_IOCTL_PIN, &pin), 0L);
	unpin.region = pin.region;
	vgpu_fault_deliver(false);
	KUNIT_EXPECT_EQ(test, call(env->client, VGPU_IOCTL_UNPIN, &unpin), 0L);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 0);
}

static struct kunit_case vgpu_ioctl_cases[] = {
	KUNIT_CASE(vgpu_ioctl_query),
	KUNIT_CASE(vgpu_ioctl_query_lost),
	KUNIT_CASE(vgpu_ioctl_create),
	KUNIT_CASE(vgpu_ioctl_wait),
	KUNIT_CASE(vgpu_ioctl_undelivered),
	KUNIT_CASE(vgpu_ioctl_checked),
	KUNIT_CASE(vgpu_ioctl_without_result),
	{}
};

static struct kunit_suite vgpu_ioctl_suite = {
	.name = "vgpu_ioctl",
	.init = ioctl_init,
	.exit = ioctl_exit,
	.test_cases = vgpu_ioctl_cases,
};

kunit_test_suite(vgpu_ioctl_suite);
