// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: a failure affects a single client. A live device that does not answer one request, files
 * that outlive their process, users that want every slot, and other cases that must not harm the
 * rest.
 */
#include <linux/kthread.h>
#include <linux/virtio_config.h>

#include "vgpu_fake.h"

struct vgpu_guard_env {
	struct vgpu_fake *fake;
	struct vgpu_dev *dev;
	unsigned int timeout_ms;
	u32 silent_type;
};

static int vgpu_guard_init(struct kunit *test)
{
	struct vgpu_guard_env *env = kunit_kzalloc(test, sizeof(*env), GFP_KERNEL);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, env);
	env->timeout_ms = vgpu_timeout_ms;
	env->fake = vgpu_fake_new(test);
	env->fake->ctx = env;
	test->priv = env;
	return 0;
}

static void plug(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;

	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(env->fake), 0);
	env->dev = vgpu_fake_dev(env->fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, env->dev);
	vgpu_timeout_ms = 20;
}

static void unplug(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;

	vgpu_timeout_ms = env->timeout_ms;
	vgpu_clients_per_user = 0;
	vgpu_fake_unplug(env->fake);
}

static int create(struct vgpu_client *client)
{
	int err;

	mutex_lock(&client->lock);
	err = vgpu_client_create(client, "test");
	mutex_unlock(&client->lock);
	return err;
}

static struct vgpu_client *new_client(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	struct vgpu_client *client = vgpu_client_open(env->dev, NULL, NULL);

	KUNIT_ASSERT_FALSE(test, IS_ERR(client));
	KUNIT_EXPECT_EQ(test, create(client), 0);
	return client;
}

/* Answers all requests but those of one type. */
static u32 silent_about(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
			u32 resp_len)
{
	struct vgpu_guard_env *env = fake->ctx;

	return hdr->type == cpu_to_le32(env->silent_type) ? VGPU_FAKE_SILENT : resp_len;
}

static void be_silent_about(struct vgpu_guard_env *env, u32 type)
{
	env->silent_type = type;
	env->fake->answer = silent_about;
}

/* ---- an unanswered request ---- */

/*
 * A worker that cannot be ended: its slot is out of use, but the device and other clients work. The
 * late answer frees the slot.
 */
static void vgpu_guard_destroy_late(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	struct vgpu_client *stuck, *other;
	u32 slot;

	plug(test);
	stuck = new_client(test);
	other = new_client(test);
	slot = stuck->slot;
	be_silent_about(env, VGPU_CMD_CLIENT_DESTROY);
	vgpu_client_close(stuck);
	KUNIT_EXPECT_EQ(test, env->dev->state, VGPU_DEV_LIVE);
	KUNIT_EXPECT_GE(test, env->fake->count[VGPU_CMD_PING], 1U);
	KUNIT_EXPECT_EQ(test, other->reason, 0U);
	KUNIT_EXPECT_TRUE(test, test_bit(slot, env->dev->slots.busy));
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 1U);

	env->fake->answer = NULL;
	vgpu_fake_answer_kept(env->fake, VGPU_S_OK);
	flush_work(&env->dev->reap_work);
	KUNIT_EXPECT_FALSE(test, test_bit(slot, env->dev->slots.busy));
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 0U);
	vgpu_client_close(other);
	unplug(test);
}

/* The same, but the device is reset instead of answering. */
static void vgpu_guard_destroy_reset(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	struct vgpu_client *next;

	plug(test);
	be_silent_about(env, VGPU_CMD_CLIENT_DESTROY);
	vgpu_client_close(new_client(test));
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 1U);
	env->fake->answer = NULL;
	vgpu_dev_lost(env->dev, "the test says so");
	KUNIT_EXPECT_EQ(test, vgpu_dev_recover(env->dev), 0);
	next = new_client(test); /* the same slot: the end of the zombie must not free it */
	flush_work(&env->dev->reap_work);
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 0U);
	KUNIT_EXPECT_TRUE(test, test_bit(next->slot, env->dev->slots.busy));
	vgpu_client_close(next);
	unplug(test);
}

/* The device is unplugged while a zombie waits: nothing is leaked. */
static void vgpu_guard_destroy_removed(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	struct vgpu_dev *dev;

	plug(test);
	dev = env->dev;
	kref_get(&dev->ref);
	be_silent_about(env, VGPU_CMD_CLIENT_DESTROY);
	vgpu_client_close(new_client(test));
	KUNIT_EXPECT_EQ(test, dev->nzombies, 1U);
	unplug(test);
	KUNIT_EXPECT_EQ(test, dev->nzombies, 0U);
	KUNIT_EXPECT_EQ(test, kref_read(&dev->ref), 1U);
	vgpu_dev_put(dev);
}

/* A device that refuses to end a worker: the slot stays out of use, without further effects. */
static u32 refuse_destroy(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
			  u32 resp_len)
{
	if (hdr->type == cpu_to_le32(VGPU_CMD_CLIENT_DESTROY))
		((struct vgpu_resp_hdr *)resp)->status = cpu_to_le32(VGPU_S_STUCK);
	return resp_len;
}

static void vgpu_guard_destroy_refused(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;

	plug(test);
	env->fake->answer = refuse_destroy;
	vgpu_client_close(new_client(test));
	flush_work(&env->dev->reap_work);
	KUNIT_EXPECT_EQ(test, env->dev->state, VGPU_DEV_LIVE);
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 1U);
	unplug(test);
}

static u32 refuse_pin(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
		      u32 resp_len)
{
	if (hdr->type == cpu_to_le32(VGPU_CMD_PIN))
		((struct vgpu_resp_hdr *)resp)->status = cpu_to_le32(VGPU_S_STUCK);
	return resp_len;
}

/* A worker that cannot be ended may have mapped regions with an unanswered PIN: pages stay. */
static void vgpu_guard_pin_stuck(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	struct vgpu_pin arg = { .addr = PAGE_SIZE, .length = PAGE_SIZE };
	struct page *page = alloc_page(GFP_KERNEL);
	struct vgpu_client *client;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, page);
	vgpu_fault_memory(page, 1);
	plug(test);
	client = new_client(test);
	env->fake->answer = refuse_pin;
	mutex_lock(&client->lock);
	KUNIT_EXPECT_EQ(test, vgpu_pin(client, &arg), -ENODEV);
	mutex_unlock(&client->lock);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 1);
	env->fake->answer = NULL;
	vgpu_client_close(client);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 0);
	unplug(test);
	vgpu_fault_memory(NULL, 1);
	__free_page(page);
}

/* The device is lost only if PING is not answered either. */
static u32 silent_at_all(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
			 u32 resp_len)
{
	return VGPU_FAKE_SILENT;
}

static void vgpu_guard_ping_silent(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	struct vgpu_client *client;

	plug(test);
	client = new_client(test);
	env->fake->answer = silent_at_all;
	vgpu_client_close(client);
	flush_work(&env->dev->reset_work);
	KUNIT_EXPECT_EQ(test, env->dev->state, VGPU_DEV_DOWN);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_PING], 1U);
	unplug(test);
}

/* A host without PING: silence means that the device is lost; but a start may take longer. */
static void vgpu_guard_old_host(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	struct vgpu_client *client;
	unsigned long start;

	env->fake->offered &= ~BIT_ULL(VGPU_F_PING);
	plug(test);
	client = vgpu_client_open(env->dev, NULL, NULL);
	env->fake->answer = silent_at_all;
	start = jiffies;
	KUNIT_EXPECT_EQ(test, create(client), -ENODEV);
	KUNIT_EXPECT_GE(test, jiffies - start, 7 * msecs_to_jiffies(20));
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_PING], 0U);
	vgpu_client_close(client);
	unplug(test);
}

/*
 * A live device that never answers CREATE: the caller gets -ETIMEDOUT after twelve times
 * timeout_ms, each waited in ten slices.
 */
static void vgpu_guard_create_late(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	struct vgpu_client *late, *other;
	unsigned long start;

	plug(test);
	other = new_client(test);
	be_silent_about(env, VGPU_CMD_CLIENT_CREATE);
	late = vgpu_client_open(env->dev, NULL, NULL);
	start = jiffies;
	KUNIT_EXPECT_EQ(test, create(late), -ETIMEDOUT);
	/* 11 instead of 12: the first slice may end a jiffy early. */
	KUNIT_EXPECT_GE(test, jiffies - start,
			11 * 10 * (msecs_to_jiffies(vgpu_timeout_ms / 10) + 1));
	KUNIT_EXPECT_EQ(test, env->dev->state, VGPU_DEV_LIVE);
	KUNIT_EXPECT_EQ(test, create(late), -EBUSY);
	KUNIT_EXPECT_TRUE(test, test_bit(late->slot, env->dev->slots.busy));
	vgpu_client_close(late); /* DESTROY is answered, CREATE is not yet */
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 1U);
	vgpu_fake_answer_kept(env->fake, VGPU_S_WORKER);
	flush_work(&env->dev->reap_work);
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 0U);
	KUNIT_EXPECT_EQ(test, other->reason, 0U);
	vgpu_client_close(other);
	unplug(test);
}

/* A queue full of unanswered requests: PING has a reserved place, DESTROY waits for room. */
static void vgpu_guard_queue_full(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	struct vgpu_client *a, *b;

	plug(test);
	a = new_client(test);
	b = new_client(test);
	env->dev->depth = 2;
	be_silent_about(env, VGPU_CMD_CLIENT_DESTROY);
	vgpu_client_close(a);
	vgpu_client_close(b);
	KUNIT_EXPECT_EQ(test, env->dev->state, VGPU_DEV_LIVE);
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 2U);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_CLIENT_DESTROY], 1U);
	env->fake->answer = NULL;
	vgpu_fake_answer_kept(env->fake, VGPU_S_OK);
	flush_work(&env->dev->reap_work); /* ends the first, sends the second DESTROY */
	vgpu_fake_kick(env->fake);
	flush_work(&env->dev->reap_work);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_CLIENT_DESTROY], 2U);
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 0U);
	unplug(test);
}

/* ---- the end of a process ---- */

/* The address space ends while the file is open elsewhere: worker and slot end, once. */
static void vgpu_guard_mm_gone(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	struct vgpu_client *client;
	u64 seq;
	u32 reason;

	plug(test);
	client = new_client(test);
	vgpu_client_mm_gone(client);
	vgpu_client_mm_gone(client);
	flush_work(&client->end_work);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_CLIENT_DESTROY], 1U);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(env->dev->slots.busy, VGPU_MAX_CLIENTS));
	KUNIT_EXPECT_EQ(test, vgpu_client_usable(client), -ENODEV);
	KUNIT_EXPECT_EQ(test, vgpu_map_allowed(client), -ENODEV);
	KUNIT_EXPECT_EQ(test, vgpu_client_wait(client, client->wake_seq, 0, &seq, &reason), 0);
	KUNIT_EXPECT_EQ(test, reason, (u32)VGPU_DEAD_EXITED);
	vgpu_client_close(client);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_CLIENT_DESTROY], 1U);
	/* A file that never became a client: nothing to end, and it cannot become one any more. */
	client = vgpu_client_open(env->dev, NULL, NULL);
	vgpu_client_mm_gone(client);
	flush_work(&client->end_work);
	KUNIT_EXPECT_EQ(test, create(client), -ENODEV);
	vgpu_client_close(client);
	unplug(test);
}

/* The worker of a process that has exited does not end: closing the file later frees the rest. */
static void vgpu_guard_mm_gone_late(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	struct vgpu_client *client;

	plug(test);
	client = new_client(test);
	be_silent_about(env, VGPU_CMD_CLIENT_DESTROY);
	vgpu_client_mm_gone(client);
	flush_work(&client->end_work);
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 1U);
	vgpu_fake_answer_kept(env->fake, VGPU_S_OK);
	flush_work(&env->dev->reap_work);
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 0U);
	vgpu_client_close(client); /* frees it; KASAN would report a double free */
	unplug(test);
}

/* ---- open ---- */

struct vgpu_opener {
	struct vgpu_dev *dev;
	struct vgpu_client *client;
	struct completion opened;
};

static int opener_fn(void *arg)
{
	struct vgpu_opener *o = arg;

	o->client = vgpu_client_open(o->dev, NULL, NULL);
	complete(&o->opened);
	return 0;
}

/*
 * open() is called under a system-wide mutex: it must not wait for a reset of the device, which is
 * done with dev->mutex held.
 */
static void vgpu_guard_open_waits_not(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	struct vgpu_opener o = {};
	struct task_struct *task;

	plug(test);
	o.dev = env->dev;
	init_completion(&o.opened);
	mutex_lock(&env->dev->mutex);
	WRITE_ONCE(env->dev->state, VGPU_DEV_LOST);
	task = kthread_create(opener_fn, &o, "vgpu-opener");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	get_task_struct(task);
	wake_up_process(task);
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&o.opened, 5 * HZ), 0UL);
	WRITE_ONCE(env->dev->state, VGPU_DEV_LIVE);
	mutex_unlock(&env->dev->mutex);
	kthread_stop(task);
	put_task_struct(task);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, o.client);
	KUNIT_EXPECT_EQ(test, create(o.client), 0);
	vgpu_client_close(o.client);
	unplug(test);
}

/* ---- slots ---- */

/* A user gets at most the cap; another user, and an exempt one, still get a slot. */
static void vgpu_guard_slots_per_user(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	struct vgpu_client *client[VGPU_FAKE_CLIENTS];
	u32 i;

	plug(test);
	for (i = 0; i < VGPU_FAKE_CLIENTS; i++) {
		client[i] = vgpu_client_open(env->dev, NULL, NULL);
		KUNIT_ASSERT_FALSE(test, IS_ERR(client[i]));
		client[i]->uid = KUIDT_INIT(1000);
		client[i]->exempt = false;
	}
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, create(client[i]), 0);
	KUNIT_EXPECT_EQ(test, create(client[3]), -EUSERS); /* three quarters of 4 slots */
	vgpu_clients_per_user = 4;
	KUNIT_EXPECT_EQ(test, create(client[3]), 0);
	vgpu_client_close(client[3]);
	vgpu_clients_per_user = 1;
	client[3] = vgpu_client_open(env->dev, NULL, NULL);
	client[3]->uid = KUIDT_INIT(1001);
	client[3]->exempt = false;
	KUNIT_EXPECT_EQ(test, create(client[3]), 0);
	vgpu_client_close(client[3]);
	client[3] = vgpu_client_open(env->dev, NULL, NULL);
	client[3]->uid = KUIDT_INIT(1000);
	client[3]->exempt = true;
	KUNIT_EXPECT_EQ(test, create(client[3]), 0);
	for (i = 0; i < VGPU_FAKE_CLIENTS; i++)
		vgpu_client_close(client[i]);
	unplug(test);
}

/*
 * A worker that dies while starting: until CREATE is refused, the window must not be mapped, as the
 * mapping would persist when the slot goes to the next client.
 */
static u32 die_then_refuse(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
			   u32 resp_len)
{
	struct vgpu_guard_env *env = fake->ctx;
	struct vgpu_event event = {
		.type = cpu_to_le32(VGPU_EV_CLIENT_DEAD),
		.client = hdr->client,
		.arg = cpu_to_le32(VGPU_DEAD_EXITED),
	};
	struct vgpu_client *client = env->dev->by_slot[le32_to_cpu(hdr->client)];

	if (hdr->type != cpu_to_le32(VGPU_CMD_CLIENT_CREATE))
		return resp_len;
	vgpu_fake_event(fake, &event, sizeof(event));
	vgpu_fake_event_irq(fake);
	env->silent_type = vgpu_map_allowed(client) == -ENODEV && client->attached;
	((struct vgpu_resp_hdr *)resp)->status = cpu_to_le32(VGPU_S_WORKER);
	return resp_len;
}

static void vgpu_guard_dead_while_starting(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	struct vgpu_client *client;
	u64 seq;
	u32 reason;

	plug(test);
	client = vgpu_client_open(env->dev, NULL, NULL);
	env->fake->answer = die_then_refuse;
	KUNIT_EXPECT_EQ(test, create(client), -EAGAIN);
	KUNIT_EXPECT_EQ(test, env->silent_type, 1U);
	env->fake->answer = NULL;
	KUNIT_EXPECT_EQ(test, create(client), 0);
	KUNIT_EXPECT_EQ(test, vgpu_map_allowed(client), 0);
	/* The new client of the slot is alive. */
	KUNIT_EXPECT_EQ(test, vgpu_client_wait(client, client->wake_seq, 0, &seq, &reason),
			-ETIMEDOUT);
	KUNIT_EXPECT_EQ(test, reason, 0U);
	vgpu_client_close(client);
	unplug(test);
}

/* ---- limits, offsets, deadlines ---- */

static void vgpu_guard_timeout_range(struct kunit *test)
{
	static const char * const bad[] = {
		"0", "1", "99", "3600001", "4294967296", "-1", "x", "",
	};
	unsigned int value = 10000, i;
	struct kernel_param param = { .name = "timeout_ms", .arg = &value };

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_LT(test, vgpu_timeout_set(bad[i], &param), 0);
	KUNIT_EXPECT_EQ(test, value, 10000U);
	KUNIT_EXPECT_EQ(test, vgpu_timeout_set("100", &param), 0);
	KUNIT_EXPECT_EQ(test, vgpu_timeout_set("3600000", &param), 0);
	KUNIT_EXPECT_EQ(test, value, 3600000U);
	kfree(((struct vgpu_guard_env *)test->priv)->fake);
}

/* An encrypted guest cannot share memory: the device is rejected. */
static void vgpu_guard_encrypted(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;

	vgpu_encrypted_for_test = true;
	KUNIT_EXPECT_EQ(test, vgpu_fake_plug(env->fake), 0);
	vgpu_encrypted_for_test = false;
	KUNIT_EXPECT_NULL(test, vgpu_fake_dev(env->fake));
	vgpu_fake_unplug(env->fake);
}

/* Doorbells are at the device's offsets; each queue has its own. */
static void vgpu_guard_doorbells(struct kunit *test)
{
	struct vgpu_guard_env *env = test->priv;
	const char *why = NULL;
	struct vgpu_res res;
	u32 i;

	plug(test);
	for (i = 0; i < VGPU_FAKE_CLIENTS; i++)
		KUNIT_EXPECT_EQ(test, vgpu_doorbell_off(&env->dev->res, i),
				(u64)VGPU_FAKE_NOTIFY_OFF(VGPU_VQ_DOORBELL + i) * PAGE_SIZE);
	res = env->dev->res;
	KUNIT_EXPECT_EQ(test, vgpu_check_res(&res, &env->dev->cfg, &why), 0);
	res.notify_off[3] = res.notify_off[4];
	KUNIT_EXPECT_EQ(test, vgpu_check_res(&res, &env->dev->cfg, &why), -EINVAL);
	res.notify_off[3] = VGPU_VQ_DOORBELL + VGPU_FAKE_CLIENTS;
	KUNIT_EXPECT_EQ(test, vgpu_check_res(&res, &env->dev->cfg, &why), -EINVAL);
	res.notify_off[3] = U16_MAX;
	KUNIT_EXPECT_EQ(test, vgpu_check_res(&res, &env->dev->cfg, &why), -EINVAL);
	unplug(test);
}

/* mmap2() of 32-bit programs has 32 bits for the page number. */
static void vgpu_guard_offsets_32bit(struct kunit *test)
{
	KUNIT_EXPECT_LE(test, VGPU_DOORBELL_OFFSET >> PAGE_SHIFT, (u64)U32_MAX);
	KUNIT_EXPECT_LE(test, (VGPU_WINDOW_OFFSET + VGPU_WINDOW_MAX) >> PAGE_SHIFT, (u64)U32_MAX);
	KUNIT_EXPECT_LE(test, VGPU_WINDOW_OFFSET + VGPU_WINDOW_MAX, VGPU_DOORBELL_OFFSET);
	kfree(((struct vgpu_guard_env *)test->priv)->fake);
}

static void vgpu_guard_time_namespace(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, vgpu_deadline(100, 0), 100LL);
	KUNIT_EXPECT_EQ(test, vgpu_deadline(-1, 50), -1LL);
	KUNIT_EXPECT_EQ(test, vgpu_deadline(100, 30), 70LL);
	KUNIT_EXPECT_EQ(test, vgpu_deadline(100, -30), 130LL);
	KUNIT_EXPECT_EQ(test, vgpu_deadline(100, 300), 0LL); /* past, and not negative ("none") */
	KUNIT_EXPECT_EQ(test, vgpu_deadline(S64_MAX, -1), S64_MAX);
	kfree(((struct vgpu_guard_env *)test->priv)->fake);
}

static struct kunit_case vgpu_guard_cases[] = {
	KUNIT_CASE(vgpu_guard_destroy_late),
	KUNIT_CASE(vgpu_guard_destroy_reset),
	KUNIT_CASE(vgpu_guard_destroy_removed),
	KUNIT_CASE(vgpu_guard_destroy_refused),
	KUNIT_CASE(vgpu_guard_pin_stuck),
	KUNIT_CASE(vgpu_guard_ping_silent),
	KUNIT_CASE(vgpu_guard_old_host),
	KUNIT_CASE(vgpu_guard_create_late),
	KUNIT_CASE(vgpu_guard_queue_full),
	KUNIT_CASE(vgpu_guard_mm_gone),
	KUNIT_CASE(vgpu_guard_mm_gone_late),
	KUNIT_CASE(vgpu_guard_open_waits_not),
	KUNIT_CASE(vgpu_guard_slots_per_user),
	KUNIT_CASE(vgpu_guard_dead_while_starting),
	KUNIT_CASE(vgpu_guard_timeout_range),
	KUNIT_CASE(vgpu_guard_encrypted),
	KUNIT_CASE(vgpu_guard_doorbells),
	KUNIT_CASE(vgpu_guard_offsets_32bit),
	KUNIT_CASE(vgpu_guard_time_namespace),
	{}
};

static struct kunit_suite vgpu_guard_suite = {
	.name = "vgpu_guard",
	.init = vgpu_guard_init,
	.test_cases = vgpu_guard_cases,
};

kunit_test_suite(vgpu_guard_suite);
