// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: vgpu_client.c and vgpu_vq.c against a device that answers as the case says. */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/ktime.h>

#include "vgpu_fake.h"

/* What each case starts with. */
struct vgpu_client_env {
	struct vgpu_fake *fake;
	struct vgpu_dev *dev;
	struct vgpu_client *client;
	unsigned int timeout_ms;
};

static int vgpu_client_init(struct kunit *test)
{
	struct vgpu_client_env *env = kunit_kzalloc(test, sizeof(*env), GFP_KERNEL);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, env);
	env->timeout_ms = vgpu_timeout_ms;
	env->fake = vgpu_fake_new(test);
	env->fake->ctx = env;
	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(env->fake), 0);
	env->dev = vgpu_fake_dev(env->fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, env->dev);
	env->client = vgpu_client_open(env->dev, NULL, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(env->client));
	test->priv = env;
	return 0;
}

static void vgpu_client_exit(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;

	if (!env)
		return;
	vgpu_timeout_ms = env->timeout_ms;
	if (env->client)
		vgpu_client_close(env->client);
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

/* ---- CREATE ---- */

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

/* What the device gets: the slot, the label padded with zeroes, and nothing else. */
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

	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	KUNIT_EXPECT_EQ(test, create(env->client), -EBUSY);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_CLIENT_CREATE], 1U);
}

/* Before CREATE there is nothing to wait for, to pin for, or to map. */
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

/* Slots: as many as the device has, then -ENOSPC; one that is closed can be had again. */
static void vgpu_client_slots(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *more[VGPU_FAKE_CLIENTS];
	u32 i;

	for (i = 0; i < VGPU_FAKE_CLIENTS; i++) {
		more[i] = vgpu_client_open(env->dev, NULL, NULL);
		KUNIT_EXPECT_EQ(test, create(more[i]), 0);
		KUNIT_EXPECT_EQ(test, more[i]->slot, i);
	}
	KUNIT_EXPECT_EQ(test, create(env->client), -ENOSPC);
	vgpu_client_close(more[2]);
	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	KUNIT_EXPECT_EQ(test, env->client->slot, 2U);
	more[2] = NULL;
	for (i = 0; i < VGPU_FAKE_CLIENTS; i++)
		if (more[i])
			vgpu_client_close(more[i]);
}

static u32 refuse_worker(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
			 u32 resp_len)
{
	if (hdr->type == cpu_to_le32(VGPU_CMD_CLIENT_CREATE))
		((struct vgpu_resp_hdr *)resp)->status = cpu_to_le32(VGPU_S_WORKER);
	return resp_len;
}

/* A refused client may try again, and takes no slot meanwhile. */
static void vgpu_client_create_refused(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 i;

	env->fake->answer = refuse_worker;
	for (i = 0; i < 2 * VGPU_FAKE_CLIENTS; i++)
		KUNIT_EXPECT_EQ(test, create(env->client), -EAGAIN);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(env->dev->slots.busy, VGPU_MAX_CLIENTS));
	env->fake->answer = NULL;
	KUNIT_EXPECT_EQ(test, create(env->client), 0);
}

/* ---- malformed answers: -EIO, and the device is not believed any more ---- */

static void expect_lost(struct kunit *test, int err)
{
	struct vgpu_client_env *env = test->priv;

	KUNIT_EXPECT_EQ(test, create(env->client), err);
	flush_work(&env->dev->reset_work);
	KUNIT_EXPECT_EQ(test, env->dev->state, VGPU_DEV_DOWN);
	KUNIT_EXPECT_EQ(test, env->client->reason, (u32)VGPU_DEAD_LOST);
	KUNIT_EXPECT_EQ(test, env->dev->inflight, 0U);
	KUNIT_EXPECT_TRUE(test, list_empty(&env->dev->reqs));
	env->fake->answer = NULL;
	env->fake->bad_id = -1;
}

static u32 short_answer(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
			u32 resp_len)
{
	return 4;
}

static void vgpu_client_answer_short(struct kunit *test)
{
	((struct vgpu_client_env *)test->priv)->fake->answer = short_answer;
	expect_lost(test, -EIO);
}

static u32 long_answer(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
		       u32 resp_len)
{
	return 0x10000; /* claims more than there is room for */
}

static void vgpu_client_answer_long(struct kunit *test)
{
	((struct vgpu_client_env *)test->priv)->fake->answer = long_answer;
	expect_lost(test, -EIO);
}

static u32 padded_answer(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
			 u32 resp_len)
{
	((struct vgpu_resp_hdr *)resp)->padding = cpu_to_le32(1);
	return resp_len;
}

static void vgpu_client_answer_padding(struct kunit *test)
{
	((struct vgpu_client_env *)test->priv)->fake->answer = padded_answer;
	expect_lost(test, -EIO);
}

static u32 unknown_status(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
			  u32 resp_len)
{
	((struct vgpu_resp_hdr *)resp)->status = cpu_to_le32(99);
	return resp_len;
}

static void vgpu_client_answer_status(struct kunit *test)
{
	((struct vgpu_client_env *)test->priv)->fake->answer = unknown_status;
	expect_lost(test, -EIO);
}

/* Used ids that were never made available: the ring core breaks the queue, we notice. */
static void vgpu_client_answer_id_unused(struct kunit *test)
{
	((struct vgpu_client_env *)test->priv)->fake->bad_id = VGPU_FAKE_VRING - 1;
	expect_lost(test, -ENODEV);
}

static void vgpu_client_answer_id_range(struct kunit *test)
{
	((struct vgpu_client_env *)test->priv)->fake->bad_id = 0x7fffffff;
	expect_lost(test, -ENODEV);
}

/* ---- silence ---- */

static u32 silent(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp, u32 resp_len)
{
	return VGPU_FAKE_SILENT;
}

/* No answer within timeout_ms: lost, and closing does not hang. */
static void vgpu_client_silence(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;

	vgpu_timeout_ms = 50;
	env->fake->answer = silent;
	expect_lost(test, -ENODEV);
}

/* DESTROY without an answer: the slot's end is the reset. */
static void vgpu_client_close_silent(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 resets = env->fake->resets;

	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	vgpu_timeout_ms = 50;
	env->fake->answer = silent;
	vgpu_client_close(env->client);
	env->client = NULL;
	flush_work(&env->dev->reset_work);
	KUNIT_EXPECT_GT(test, env->fake->resets, resets);
	KUNIT_EXPECT_EQ(test, env->dev->state, VGPU_DEV_DOWN);
	flush_work(&env->dev->reap_work);
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 0U);
}

/* An interrupt that got lost costs a slice of the patience, not the device. */
static void vgpu_client_lost_interrupt(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;

	vgpu_timeout_ms = 200;
	virtqueue_disable_cb(env->dev->ctl); /* what matters: nobody polls the queue by itself */
	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	KUNIT_EXPECT_EQ(test, env->dev->state, VGPU_DEV_LIVE);
}

/* ---- killed waiters ---- */

static int killed_create(void *arg)
{
	struct vgpu_client *client = arg;

	return create(client);
}

/*
 * More requests than the queue has room for: they wait for room, and all are answered. The device
 * looks at the queue only when it is full.
 */
static void vgpu_client_queue_full(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct task_struct *task[VGPU_FAKE_CLIENTS];
	struct vgpu_client *client[VGPU_FAKE_CLIENTS];
	unsigned int depth = env->dev->depth;
	u32 i;

	env->dev->depth = 2;
	env->fake->hold = true;
	for (i = 0; i < VGPU_FAKE_CLIENTS; i++) {
		client[i] = vgpu_client_open(env->dev, NULL, NULL);
		task[i] = kthread_create(killed_create, client[i], "vgpu-test-%u", i);
		KUNIT_ASSERT_FALSE(test, IS_ERR(task[i]));
		get_task_struct(task[i]);
		wake_up_process(task[i]);
	}
	msleep(20);
	KUNIT_EXPECT_EQ(test, env->dev->inflight, 1U); /* one place is kept for a PING */
	env->fake->hold = false;
	vgpu_fake_kick(env->fake);
	for (i = 0; i < VGPU_FAKE_CLIENTS; i++) {
		KUNIT_EXPECT_EQ(test, kthread_stop(task[i]), 0);
		put_task_struct(task[i]);
	}
	env->dev->depth = depth;
	for (i = 0; i < VGPU_FAKE_CLIENTS; i++) {
		KUNIT_EXPECT_EQ(test, client[i]->state, VGPU_CLIENT_ACTIVE);
		vgpu_client_close(client[i]);
	}
}

/*
 * A waiter that left (killed) with its request in the queue: closing waits for that request before
 * it sends DESTROY, and the buffers live until the device has answered.
 */
static void vgpu_client_orphan(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_req *req;

	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	env->fake->hold = true;
	req = vgpu_req_alloc(env->client, VGPU_CMD_UNPIN, sizeof(struct vgpu_cmd_unpin),
			     sizeof(struct vgpu_resp_hdr));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, req);
	vgpu_timeout_ms = 1;
	/* Queue it, and let its waiter go as if it had been killed. */
	KUNIT_EXPECT_EQ(test, vgpu_req_queue(env->dev, req), 0);
	list_add_tail(&req->orphan, &env->client->orphans);
	vgpu_timeout_ms = 10000; /* of the end: it does not become a zombie */
	env->fake->hold = false;
	schedule_work(&env->fake->kick);
	vgpu_client_close(env->client);
	env->client = NULL;
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_UNPIN], 1U);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_CLIENT_DESTROY], 1U);
	KUNIT_EXPECT_EQ(test, env->dev->state, VGPU_DEV_LIVE);
}

/*
 * A request that was made before the device was lost does not reach it after it came back: the slot
 * is someone else's.
 */
static void vgpu_client_request_of_former_life(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *next;
	struct vgpu_req *req;

	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	req = vgpu_req_alloc(env->client, VGPU_CMD_CLIENT_DESTROY,
			     sizeof(struct vgpu_cmd_client_destroy), sizeof(struct vgpu_resp_hdr));
	vgpu_dev_lost(env->dev, "the test says so");
	KUNIT_EXPECT_EQ(test, vgpu_dev_recover(env->dev), 0);
	next = vgpu_client_open(env->dev, NULL, NULL);
	KUNIT_EXPECT_EQ(test, create(next), 0);
	KUNIT_EXPECT_EQ(test, next->slot, env->client->slot);
	KUNIT_EXPECT_EQ(test, vgpu_req_run(env->dev, req, false), -ENODEV);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_CLIENT_DESTROY], 0U);
	vgpu_req_put(req);
	vgpu_client_close(next);
}

/* ---- events ---- */

static bool send_event(struct vgpu_fake *fake, u32 type, u32 slot, u32 arg)
{
	struct vgpu_event event = {
		.type = cpu_to_le32(type),
		.client = cpu_to_le32(slot),
		.arg = cpu_to_le32(arg),
	};

	return vgpu_fake_event(fake, &event, sizeof(event));
}

static void vgpu_client_wake(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u64 seq, seen;
	u32 reason;

	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	seen = env->client->wake_seq;
	KUNIT_EXPECT_EQ(test, vgpu_client_wait(env->client, seen, 0, &seq, &reason), -ETIMEDOUT);
	KUNIT_EXPECT_EQ(test, seq, seen);
	KUNIT_EXPECT_EQ(test, reason, 0U);
	KUNIT_EXPECT_TRUE(test, send_event(env->fake, VGPU_EV_WAKE, 0, 0));
	vgpu_fake_event_irq(env->fake);
	KUNIT_EXPECT_EQ(test, vgpu_client_wait(env->client, seen, -1, &seq, &reason), 0);
	KUNIT_EXPECT_EQ(test, seq, seen + 1);
}

/* A sleeper is woken while it sleeps. */
struct vgpu_sleeper {
	struct vgpu_client *client;
	u64 seen;
	u64 seq;
	u32 reason;
};

static int sleeper_fn(void *arg)
{
	struct vgpu_sleeper *s = arg;

	return vgpu_client_wait(s->client, s->seen, -1, &s->seq, &s->reason);
}

static struct task_struct *sleeper_start(struct kunit *test, struct vgpu_sleeper *s)
{
	struct task_struct *task = kthread_create(sleeper_fn, s, "vgpu-sleeper");

	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	get_task_struct(task);
	wake_up_process(task);
	msleep(20);
	return task;
}

static void vgpu_client_wake_sleeper(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_sleeper s = { .client = env->client };
	struct task_struct *task;

	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	s.seen = env->client->wake_seq;
	task = sleeper_start(test, &s);
	send_event(env->fake, VGPU_EV_WAKE, 0, 0);
	vgpu_fake_event_irq(env->fake);
	KUNIT_EXPECT_EQ(test, kthread_stop(task), 0);
	put_task_struct(task);
	KUNIT_EXPECT_EQ(test, s.seq, s.seen + 1);
}

static void vgpu_client_loss_wakes_sleeper(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_sleeper s = { .client = env->client };
	struct task_struct *task;

	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	s.seen = env->client->wake_seq;
	task = sleeper_start(test, &s);
	vgpu_dev_lost(env->dev, "the test says so");
	KUNIT_EXPECT_EQ(test, kthread_stop(task), -ENODEV);
	put_task_struct(task);
	KUNIT_EXPECT_EQ(test, s.reason, (u32)VGPU_DEAD_LOST);
}

/* The worker's death: WAIT returns at once with the reason, everything else -ENODEV. */
static void vgpu_client_dead(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u64 seq;
	u32 reason;

	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	send_event(env->fake, VGPU_EV_CLIENT_DEAD, 0, VGPU_DEAD_KILLED);
	send_event(env->fake, VGPU_EV_CLIENT_DEAD, 0, VGPU_DEAD_EXITED);
	vgpu_fake_event_irq(env->fake);
	KUNIT_EXPECT_EQ(test, vgpu_client_wait(env->client, env->client->wake_seq, -1, &seq,
					       &reason), 0);
	KUNIT_EXPECT_EQ(test, reason, (u32)VGPU_DEAD_KILLED);
	mutex_lock(&env->client->lock);
	KUNIT_EXPECT_EQ(test, vgpu_unpin(env->client, 1), -ENODEV);
	mutex_unlock(&env->client->lock);
	KUNIT_EXPECT_TRUE(test, env->client->attached);
	vgpu_client_close(env->client);
	env->client = NULL;
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_CLIENT_DESTROY], 1U);
}

/* Events that break the rules reach nobody, and the buffers go back to the device. */
static void vgpu_client_bad_events(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_event good = { .type = cpu_to_le32(VGPU_EV_WAKE) };
	u64 seen;
	u32 i;

	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	seen = env->client->wake_seq;
	send_event(env->fake, VGPU_EV_WAKE, VGPU_FAKE_CLIENTS, 0);
	send_event(env->fake, VGPU_EV_WAKE, U32_MAX, 0);
	send_event(env->fake, VGPU_EV_CLIENT_DEAD, VGPU_MAX_CLIENTS, 1);
	send_event(env->fake, VGPU_EV_WAKE, 1, 0); /* a slot without client */
	send_event(env->fake, 77, 0, 0);
	vgpu_fake_event(env->fake, &good, 0);
	vgpu_fake_event(env->fake, &good, sizeof(good) - 1);
	vgpu_fake_event(env->fake, &good, U32_MAX);
	good.padding = cpu_to_le32(1);
	vgpu_fake_event(env->fake, &good, sizeof(good));
	vgpu_fake_event_irq(env->fake);
	KUNIT_EXPECT_EQ(test, env->client->wake_seq, seen);
	KUNIT_EXPECT_EQ(test, env->client->reason, 0U);
	KUNIT_EXPECT_EQ(test, env->dev->state, VGPU_DEV_LIVE);
	for (i = 0; i < VGPU_FAKE_VRING; i++)
		KUNIT_EXPECT_TRUE(test, send_event(env->fake, VGPU_EV_WAKE, 0, 0));
	vgpu_fake_event_irq(env->fake);
	vgpu_events_poll(env->dev);
	KUNIT_EXPECT_EQ(test, env->client->wake_seq, seen + VGPU_FAKE_VRING);
}

/* A flood: one interrupt handles as much as its budget, a work item the rest, and it ends. */
static void vgpu_client_event_flood(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u64 seen;
	u32 i;

	BUILD_BUG_ON(VGPU_FAKE_VRING <= VGPU_EVENT_BUDGET);
	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	seen = env->client->wake_seq;
	for (i = 0; i < VGPU_FAKE_VRING; i++)
		KUNIT_EXPECT_TRUE(test, send_event(env->fake, VGPU_EV_WAKE, 0, 0));
	vgpu_fake_event_irq(env->fake);
	KUNIT_EXPECT_GE(test, env->client->wake_seq, seen + VGPU_EVENT_BUDGET);
	flush_work(&env->dev->event_work);
	flush_work(&env->dev->event_work); /* it may have queued itself */
	KUNIT_EXPECT_EQ(test, env->client->wake_seq, seen + VGPU_FAKE_VRING);
	/* Interrupts are on again. */
	KUNIT_EXPECT_TRUE(test, send_event(env->fake, VGPU_EV_WAKE, 0, 0));
	vgpu_fake_event_irq(env->fake);
	KUNIT_EXPECT_EQ(test, env->client->wake_seq, seen + VGPU_FAKE_VRING + 1);
}

/* The event queue stays full of buffers through many rounds. */
static void vgpu_client_event_rounds(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u64 seen;
	u32 i;

	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	seen = env->client->wake_seq;
	for (i = 0; i < 70000; i++) { /* past the 16-bit indices of the ring */
		if (!send_event(env->fake, VGPU_EV_WAKE, 0, 0))
			break;
		if (i % VGPU_EVENT_BUDGET == VGPU_EVENT_BUDGET - 1)
			vgpu_fake_event_irq(env->fake);
	}
	vgpu_fake_event_irq(env->fake);
	KUNIT_EXPECT_EQ(test, env->client->wake_seq, seen + 70000);
}

/*
 * An event about a client that is being closed, sent before its DESTROY was answered and seen only
 * then, does not reach the slot's next client.
 */
static void vgpu_client_late_event(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *last;
	u32 i;

	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	KUNIT_EXPECT_EQ(test, env->client->slot, 0U);
	send_event(env->fake, VGPU_EV_CLIENT_DEAD, 0, VGPU_DEAD_EXITED); /* no interrupt yet */
	vgpu_client_close(env->client);
	env->client = NULL;
	for (i = 1; i < VGPU_FAKE_CLIENTS; i++) { /* until slot 0 comes round again */
		last = vgpu_client_open(env->dev, NULL, NULL);
		KUNIT_EXPECT_EQ(test, create(last), 0);
		vgpu_client_close(last);
	}
	env->client = vgpu_client_open(env->dev, NULL, NULL);
	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	KUNIT_EXPECT_EQ(test, env->client->slot, 0U);
	vgpu_fake_event_irq(env->fake);
	KUNIT_EXPECT_EQ(test, env->client->reason, 0U);
}

/* Deadlines: past, near, and a wake that comes before. */
static void vgpu_client_deadline(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u64 seq, seen;
	s64 start;
	u32 reason;

	KUNIT_EXPECT_EQ(test, create(env->client), 0);
	seen = env->client->wake_seq;
	KUNIT_EXPECT_EQ(test, vgpu_client_wait(env->client, seen, 1, &seq, &reason), -ETIMEDOUT);
	start = ktime_get_ns();
	KUNIT_EXPECT_EQ(test, vgpu_client_wait(env->client, seen, start + 20 * NSEC_PER_MSEC,
					       &seq, &reason), -ETIMEDOUT);
	KUNIT_EXPECT_GE(test, (s64)ktime_get_ns() - start, (s64)(20 * NSEC_PER_MSEC));
	KUNIT_EXPECT_EQ(test, vgpu_client_wait(env->client, seen - 1, S64_MAX, &seq, &reason), 0);
}

static struct kunit_case vgpu_client_cases[] = {
	KUNIT_CASE(vgpu_client_create_request),
	KUNIT_CASE(vgpu_client_create_twice),
	KUNIT_CASE(vgpu_client_not_created),
	KUNIT_CASE(vgpu_client_slots),
	KUNIT_CASE(vgpu_client_create_refused),
	KUNIT_CASE(vgpu_client_answer_short),
	KUNIT_CASE(vgpu_client_answer_long),
	KUNIT_CASE(vgpu_client_answer_padding),
	KUNIT_CASE(vgpu_client_answer_status),
	KUNIT_CASE(vgpu_client_answer_id_unused),
	KUNIT_CASE(vgpu_client_answer_id_range),
	KUNIT_CASE(vgpu_client_silence),
	KUNIT_CASE(vgpu_client_close_silent),
	KUNIT_CASE(vgpu_client_lost_interrupt),
	KUNIT_CASE(vgpu_client_queue_full),
	KUNIT_CASE(vgpu_client_orphan),
	KUNIT_CASE(vgpu_client_request_of_former_life),
	KUNIT_CASE(vgpu_client_wake),
	KUNIT_CASE(vgpu_client_wake_sleeper),
	KUNIT_CASE(vgpu_client_loss_wakes_sleeper),
	KUNIT_CASE(vgpu_client_dead),
	KUNIT_CASE(vgpu_client_bad_events),
	KUNIT_CASE(vgpu_client_event_flood),
	KUNIT_CASE(vgpu_client_event_rounds),
	KUNIT_CASE(vgpu_client_late_event),
	KUNIT_CASE(vgpu_client_deadline),
	{}
};

static struct kunit_suite vgpu_client_suite = {
	.name = "vgpu_client",
	.init = vgpu_client_init,
	.exit = vgpu_client_exit,
	.test_cases = vgpu_client_cases,
};

kunit_test_suite(vgpu_client_suite);
