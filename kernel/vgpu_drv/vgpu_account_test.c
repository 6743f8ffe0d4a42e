// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: vgpu_account.c: the user charged for pinned pages, the number of pages, and the end of the
 * charge.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/dma-buf.h>
#include <linux/mm.h>
#include <linux/user_namespace.h>

#include "vgpu_client_env.h"

/* Limit set by the cases, pages: 1 MiB. */
#define LIMIT ((u64)SZ_1M >> PAGE_SHIFT)
#define ALICE 1000
#define BOB 1001
#define SUBUID 100000

static struct page *memory;
static unsigned int limit_before;

static int account_init(struct kunit *test)
{
	struct vgpu_client_env *env;
	int err = vgpu_client_env_init(test);

	if (err)
		return err;
	env = test->priv;
	memory = alloc_page(GFP_KERNEL | __GFP_ZERO);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, memory);
	vgpu_fault_memory(memory, 1);
	limit_before = vgpu_pin_limit_mib;
	vgpu_pin_limit_mib = 1;
	KUNIT_ASSERT_EQ(test, vgpu_client_env_create(env->client), 0);
	return 0;
}

static u64 pages_of(u32 uid)
{
	return vgpu_account_pages(KUIDT_INIT(uid));
}

/* The kernel closes files of kernel threads asynchronously. */
static bool pages_become(u32 uid, u64 want)
{
	int i;

	for (i = 0; i < 500 && pages_of(uid) != want; i++)
		msleep(20);
	return pages_of(uid) == want;
}

static void account_exit(struct kunit *test)
{
	vgpu_client_env_exit(test);
	KUNIT_EXPECT_TRUE(test, pages_become(0, 0));
	KUNIT_EXPECT_TRUE(test, pages_become(ALICE, 0));
	KUNIT_EXPECT_TRUE(test, pages_become(BOB, 0));
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 0);
	vgpu_pin_limit_mib = limit_before;
	vgpu_unpin_keep = false;
	vgpu_fault_memory(NULL, 1);
	__free_page(memory);
}

/* PIN by an unprivileged user, in a user namespace unless @ns is NULL. */
static int pin_in(struct user_namespace *ns, u32 uid, struct vgpu_client *client, u64 npages,
		  u32 *region)
{
	struct vgpu_pin arg = { .addr = PAGE_SIZE, .length = npages << PAGE_SHIFT };
	struct cred *cred = prepare_creds();
	struct user_namespace *real;
	const struct cred *old;
	int err;

	if (!cred)
		return -ENOMEM;
	real = cred->user_ns;
	cred->user_ns = ns ?: real;
	cred->uid = KUIDT_INIT(uid);
	cred->euid = KUIDT_INIT(uid);
	cred->cap_effective = CAP_EMPTY_SET;
	old = override_creds(cred);
	mutex_lock(&client->lock);
	err = vgpu_pin(client, &arg);
	mutex_unlock(&client->lock);
	revert_creds(old);
	cred->user_ns = real;
	put_cred(cred);
	if (region)
		*region = arg.region;
	return err;
}

static int pin_as(u32 uid, struct vgpu_client *client, u64 npages, u32 *region)
{
	return pin_in(NULL, uid, client, npages, region);
}

/* Pages up to the limit, none beyond it, and as many again as UNPIN has released. */
static void vgpu_account_at_limit(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 most, last;

	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, LIMIT + 1, NULL), -ENOBUFS);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 0ULL);
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, LIMIT - 1, &most), 0);
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, 2, NULL), -ENOBUFS);
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, 1, &last), 0);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), LIMIT);
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, 1, NULL), -ENOBUFS);
	/* A refused PIN affects neither the pages nor the host. */
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), (int)LIMIT);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, most), 0);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 1ULL);
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, LIMIT - 1, &most), 0);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, last), 0);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, most), 0);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 0ULL);
}

/* All files of a user share one account; another user has a separate one. */
static void vgpu_account_of_user(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *second = vgpu_client_env_other(test);
	struct vgpu_client *bobs = vgpu_client_env_other(test);

	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, LIMIT / 2, NULL), 0);
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, second, LIMIT / 2, NULL), 0);
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, second, 1, NULL), -ENOBUFS);
	KUNIT_EXPECT_EQ(test, pages_of(BOB), 0ULL);
	KUNIT_EXPECT_EQ(test, pin_as(BOB, bobs, LIMIT, NULL), 0);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), LIMIT);
	vgpu_client_close(bobs);
	KUNIT_EXPECT_EQ(test, pages_of(BOB), 0ULL);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), LIMIT);
	vgpu_client_close(second);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), LIMIT / 2);
}

/*
 * The charge ends with close(), and, if the file is still open in a forked child, with the address
 * space that opened it.
 */
static void vgpu_account_ends(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *forked = vgpu_client_env_other(test);

	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, 3, NULL), 0);
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, forked, 5, NULL), 0);
	vgpu_client_close(env->client);
	env->client = NULL;
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 5ULL);
	vgpu_client_mm_gone(forked);
	flush_work(&forked->end_work);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 0ULL);
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, forked, 1, NULL), -ENODEV);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 0ULL);
	vgpu_client_close(forked);
}

static u32 host_refuses(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
			u32 resp_len)
{
	if (hdr->type == cpu_to_le32(VGPU_CMD_PIN))
		((struct vgpu_resp_hdr *)resp)->status = cpu_to_le32(VGPU_S_NO_MEMORY);
	return resp_len;
}

/* A PIN that fails is not charged: no memory, or refused by the host. */
static void vgpu_account_errors(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;

	vgpu_fault_memory(NULL, 1);
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, LIMIT, NULL), -ENOMEM);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 0ULL);
	vgpu_fault_memory(memory, 1);
	env->fake->answer = host_refuses;
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, LIMIT, NULL), -ENOMEM);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 0ULL);
	env->fake->answer = NULL;
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, LIMIT, NULL), 0);
}

/* After loss of the device pages stay charged until the reset has ended its access to them. */
static void vgpu_account_lost(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;

	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, 7, NULL), 0);
	vgpu_dev_lost(env->dev, "the test says so");
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 7ULL);
	vgpu_client_close(env->client);
	env->client = NULL;
	flush_work(&env->dev->reset_work);
	flush_work(&env->dev->reap_work);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 0ULL);
}

/* The dma-buf keeps the charge, to the user that pinned the pages. */
static void vgpu_account_dmabuf(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_export_call call = { .uapi = { .length = PAGE_SIZE } };
	struct vgpu_client *second = vgpu_client_env_other(test);
	u32 region;
	int err;

	KUNIT_ASSERT_EQ(test, pin_as(ALICE, env->client, LIMIT, &region), 0);
	call.uapi.region = region;
	mutex_lock(&env->client->lock);
	err = vgpu_export(env->client, &call);
	mutex_unlock(&env->client->lock);
	KUNIT_ASSERT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), LIMIT); /* not charged twice */
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, region), 0);
	vgpu_client_close(env->client);
	env->client = NULL;
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, second, 1, NULL), -ENOBUFS);
	vgpu_export_drop(&call);
	KUNIT_EXPECT_TRUE(test, pages_become(ALICE, 0));
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, second, LIMIT, NULL), 0);
	vgpu_client_close(second);
}

/* CAP_IPC_LOCK: charged without a limit. */
static void vgpu_account_exempt(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_pin arg = { .addr = PAGE_SIZE, .length = (LIMIT + 1) << PAGE_SHIFT };
	int err;

	mutex_lock(&env->client->lock);
	err = vgpu_pin(env->client, &arg);
	mutex_unlock(&env->client->lock);
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, pages_of(0), LIMIT + 1);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, arg.region), 0);
}

static void vgpu_account_limits(struct kunit *test)
{
	vgpu_pin_limit_mib = 0;
	KUNIT_EXPECT_EQ(test, vgpu_account_limit(), (u64)totalram_pages() / 2);
	vgpu_pin_limit_mib = UINT_MAX; /* effectively unlimited: the limit in pages must not wrap */
	KUNIT_EXPECT_EQ(test, vgpu_account_limit(), (u64)UINT_MAX << (20 - PAGE_SHIFT));
}

/* ---- unpin_keep ---- */

/* An unpinned region is removed, but its pages stay pinned and charged until the client ends. */
static void vgpu_account_keep(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 kept, freed;

	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, 3, &freed), 0);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, freed), 0);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 0ULL); /* unpin_keep is off by default */
	vgpu_unpin_keep = true;
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, 3, &kept), 0);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, kept), 0);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_UNPIN], 2U);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, kept), -ENOENT);
	KUNIT_EXPECT_EQ(test, env->client->nregions, 0U);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 3);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 3ULL);
	/* The pages stay charged to the user. */
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, LIMIT, NULL), -ENOBUFS);
	/* After unpin_keep is turned off, kept pages stay; regions unpinned since are released. */
	vgpu_unpin_keep = false;
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, 5, &freed), 0);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, freed), 0);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 3ULL);
	vgpu_client_close(env->client);
	env->client = NULL;
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 0ULL);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 0);
}

/* A PIN refused by the host after the pages were sent, and a PIN that was never sent. */
static void vgpu_account_keep_refused(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;

	vgpu_unpin_keep = true;
	vgpu_fault_memory(NULL, 1);
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, 4, NULL), -ENOMEM);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 0ULL);
	vgpu_fault_memory(memory, 1);
	env->fake->answer = host_refuses;
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, 4, NULL), -ENOMEM);
	env->fake->answer = NULL;
	KUNIT_EXPECT_EQ(test, env->client->nregions, 0U);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 4ULL);
	vgpu_client_mm_gone(env->client);
	flush_work(&env->client->end_work);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 0ULL);
}

/* If the device does not confirm the end of the worker, unpinned pages are kept, too. */
static u32 destroy_silent(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
			  u32 resp_len)
{
	return hdr->type == cpu_to_le32(VGPU_CMD_CLIENT_DESTROY) ? VGPU_FAKE_SILENT : resp_len;
}

static void vgpu_account_keep_zombie(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 region;

	vgpu_unpin_keep = true;
	KUNIT_EXPECT_EQ(test, pin_as(ALICE, env->client, 3, &region), 0);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, region), 0);
	vgpu_timeout_ms = 50;
	env->fake->answer = destroy_silent;
	vgpu_client_close(env->client);
	env->client = NULL;
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 1U);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 3ULL);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 3);
	vgpu_fake_answer_kept(env->fake, VGPU_S_OK);
	flush_work(&env->dev->reap_work);
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 0U);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), 0ULL);
}

/* Ids of /etc/subuid count for the user that created the namespace, also in a nested namespace. */
static void vgpu_account_namespace(struct kunit *test)
{
	struct user_namespace *ns = kunit_kcalloc(test, 3, sizeof(*ns), GFP_KERNEL);
	struct user_namespace *outer = &ns[0], *inner = &ns[1], *container = &ns[2];
	struct vgpu_client_env *env = test->priv;
	u32 region;

	KUNIT_ASSERT_NOT_NULL(test, ns);
	outer->parent = &init_user_ns;
	outer->owner = KUIDT_INIT(ALICE);
	outer->level = 1;
	inner->parent = outer;
	inner->owner = KUIDT_INIT(SUBUID);
	inner->level = 2;
	container->parent = &init_user_ns;
	container->owner = GLOBAL_ROOT_UID;
	container->level = 1;

	KUNIT_EXPECT_EQ(test, pin_in(outer, SUBUID, env->client, LIMIT - 1, &region), 0);
	KUNIT_EXPECT_EQ(test, pages_of(ALICE), LIMIT - 1);
	KUNIT_EXPECT_EQ(test, pin_in(inner, SUBUID + 1, env->client, 2, NULL), -ENOBUFS);
	KUNIT_EXPECT_EQ(test, pin_in(container, BOB, env->client, 2, NULL), 0);
	KUNIT_EXPECT_EQ(test, pages_of(BOB), 2ULL);
	KUNIT_EXPECT_EQ(test, pages_of(SUBUID), 0ULL);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_unpin(env->client, region), 0);
	KUNIT_EXPECT_EQ(test, __kuid_val(vgpu_user_of(KUIDT_INIT(BOB), &init_user_ns)), BOB);
}

static struct kunit_case vgpu_account_cases[] = {
	KUNIT_CASE(vgpu_account_namespace),
	KUNIT_CASE(vgpu_account_at_limit),
	KUNIT_CASE(vgpu_account_of_user),
	KUNIT_CASE(vgpu_account_ends),
	KUNIT_CASE(vgpu_account_errors),
	KUNIT_CASE(vgpu_account_lost),
	KUNIT_CASE(vgpu_account_dmabuf),
	KUNIT_CASE(vgpu_account_exempt),
	KUNIT_CASE(vgpu_account_limits),
	KUNIT_CASE(vgpu_account_keep),
	KUNIT_CASE(vgpu_account_keep_refused),
	KUNIT_CASE(vgpu_account_keep_zombie),
	{}
};

static struct kunit_suite vgpu_account_suite = {
	.name = "vgpu_account",
	.init = account_init,
	.exit = account_exit,
	.test_cases = vgpu_account_cases,
};

kunit_test_suite(vgpu_account_suite);
