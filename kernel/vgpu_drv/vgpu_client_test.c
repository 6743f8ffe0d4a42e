// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: vgpu_client.c: CREATE, calls before CREATE, and slots. */
#include <linux/capability.h>
#include <linux/cred.h>

#include "vgpu_client_env.h"

static u32 check_create(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
			u32 resp_len)
{
	const struct vgpu_cmd_client_create *cmd;

	cmd = container_of(hdr, struct vgpu_cmd_client_create, hdr);
	if (hdr->type != cpu_to_le32(VGPU_CMD_CLIENT_CREATE))
		return resp_len;
	if (hdr->flags || hdr->padding || hdr->client ||
	    strncmp(cmd->label, "a label", sizeof(cmd->label)) ||
	    memchr_inv(cmd->label + 7, 0, sizeof(cmd->label) - 7))
		((struct vgpu_resp_hdr *)resp)->status = cpu_to_le32(VGPU_S_INVALID);
	return resp_len;
}

/* The request holds the slot, the label padded with zeroes, and nothing else. */
static void vgpu_client_create_request(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;

	env->fake->answer = check_create;
	mutex_lock(&env->client->lock);
	KUNIT_EXPECT_EQ(test, vgpu_client_create(env->client, "a label"), 0);
	mutex_unlock(&env->client->lock);
	KUNIT_EXPECT_EQ(test, env->client->state, VGPU_CLIENT_ACTIVE);
}

static void vgpu_client_create_twice(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), -EBUSY);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_CLIENT_CREATE], 1U);
}

/* Before CREATE, WAIT, PIN and mmap are refused. */
static void vgpu_client_not_created(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_pin arg = { .addr = PAGE_SIZE, .length = PAGE_SIZE };
	u64 seq;
	u32 reason;

	KUNIT_EXPECT_EQ(test, vgpu_client_wait(env->client, 1, 0, &seq, &reason), -ENXIO);
	KUNIT_EXPECT_EQ(test, vgpu_client_wait(env->client, 9, 0, &seq, &reason), -ENXIO);
	mutex_lock(&env->client->lock);
	KUNIT_EXPECT_EQ(test, vgpu_pin(env->client, &arg), -ENXIO);
	KUNIT_EXPECT_EQ(test, vgpu_unpin(env->client, 1), -ENXIO);
	mutex_unlock(&env->client->lock);
}

/* As many slots as the device has, then -ENOSPC; a closed slot can be reused. */
static void vgpu_client_slots(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *more[VGPU_FAKE_CLIENTS];
	u32 i;

	for (i = 0; i < VGPU_FAKE_CLIENTS; i++) {
		more[i] = vgpu_client_open(env->dev, NULL, NULL);
		KUNIT_EXPECT_EQ(test, vgpu_client_env_create(more[i]), 0);
		KUNIT_EXPECT_EQ(test, more[i]->slot, i);
	}
	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), -ENOSPC);
	vgpu_client_close(more[2]);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	KUNIT_EXPECT_EQ(test, env->client->slot, 2U);
	more[2] = NULL;
	for (i = 0; i < VGPU_FAKE_CLIENTS; i++)
		if (more[i])
			vgpu_client_close(more[i]);
}

static struct vgpu_client *open_as(struct kunit *test, u32 uid)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *client = vgpu_client_open(env->dev, NULL, NULL);

	KUNIT_ASSERT_FALSE(test, IS_ERR(client));
	client->uid = KUIDT_INIT(uid);
	client->exempt = false;
	return client;
}

/* Each slot counts for the limit of its user, from the first to the last. */
static void vgpu_client_each_slot_counts(struct kunit *test)
{
	unsigned int before = vgpu_clients_per_user;
	unsigned long seen = 0;
	u32 i;

	vgpu_clients_per_user = 1;
	for (i = 0; i < VGPU_FAKE_CLIENTS; i++) {
		struct vgpu_client *first = open_as(test, 1000), *second = open_as(test, 1000);
		struct vgpu_client *other = open_as(test, 1001);

		KUNIT_EXPECT_EQ(test, vgpu_client_env_create(first), 0);
		seen |= BIT(first->slot);
		KUNIT_EXPECT_EQ_MSG(test, vgpu_client_env_create(second), -EUSERS, "slot %u",
				    first->slot);
		vgpu_client_close(first);
		KUNIT_EXPECT_EQ(test, vgpu_client_env_create(second), 0);
		KUNIT_EXPECT_EQ(test, vgpu_client_env_create(other), 0);
		vgpu_client_close(second);
		vgpu_client_close(other);
	}
	KUNIT_EXPECT_EQ(test, seen, BIT(VGPU_FAKE_CLIENTS) - 1);
	vgpu_clients_per_user = before;
}

/* CAP_SYS_RESOURCE of the opener, and no other capability, lifts the limit of slots. */
static void vgpu_client_exempt(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	int cap;

	for (cap = 0; cap <= CAP_LAST_CAP; cap++) {
		struct cred *cred = prepare_creds();
		struct vgpu_client *client;
		const struct cred *old;

		KUNIT_ASSERT_NOT_NULL(test, cred);
		cred->cap_effective = CAP_EMPTY_SET;
		cap_raise(cred->cap_effective, cap);
		old = override_creds(cred);
		client = vgpu_client_open(env->dev, NULL, NULL);
		revert_creds(old);
		put_cred(cred);
		KUNIT_ASSERT_FALSE(test, IS_ERR(client));
		KUNIT_EXPECT_EQ_MSG(test, client->exempt, cap == CAP_SYS_RESOURCE, "%d", cap);
		vgpu_client_close(client);
	}
}

static u32 refuse_worker(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
			 u32 resp_len)
{
	if (hdr->type == cpu_to_le32(VGPU_CMD_CLIENT_CREATE))
		((struct vgpu_resp_hdr *)resp)->status = cpu_to_le32(VGPU_S_WORKER);
	return resp_len;
}

/* A refused client may try again, and holds no slot meanwhile. */
static void vgpu_client_create_refused(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 i;

	env->fake->answer = refuse_worker;
	for (i = 0; i < 2 * VGPU_FAKE_CLIENTS; i++)
		KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), -EAGAIN);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(env->dev->slots.busy, VGPU_MAX_CLIENTS));
	env->fake->answer = NULL;
	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
}

static struct kunit_case vgpu_client_cases[] = {
	KUNIT_CASE(vgpu_client_create_request),
	KUNIT_CASE(vgpu_client_create_twice),
	KUNIT_CASE(vgpu_client_not_created),
	KUNIT_CASE(vgpu_client_slots),
	KUNIT_CASE(vgpu_client_each_slot_counts),
	KUNIT_CASE(vgpu_client_exempt),
	KUNIT_CASE(vgpu_client_create_refused),
	{}
};

static struct kunit_suite vgpu_client_suite = {
	.name = "vgpu_client",
	.init = vgpu_client_env_init,
	.exit = vgpu_client_env_exit,
	.test_cases = vgpu_client_cases,
};

kunit_test_suite(vgpu_client_suite);
