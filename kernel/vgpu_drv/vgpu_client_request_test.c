// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: the control queue of vgpu_vq.c: malformed answers, silence, killed waiters. */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/sched/signal.h>

#include "vgpu_client_env.h"

/* ---- malformed answers: -EIO, and the device is lost ---- */

static void expect_lost(struct kunit *test, int err)
{
	struct vgpu_client_env *env = test->priv;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), err);
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
	return 0x10000; /* claims more bytes than the buffer has */
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

/* Used ids that were never made available: the virtio ring breaks the queue, the driver notices. */
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

/* DESTROY without an answer: the slot is freed by the reset. */
static void vgpu_client_close_silent(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u32 resets = env->fake->resets;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
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

/* A lost interrupt delays the answer by a slice of timeout_ms, but does not lose the device. */
static void vgpu_client_lost_interrupt(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;

	vgpu_timeout_ms = 200;
	virtqueue_disable_cb(env->dev->ctl); /* no interrupt: only the waiter polls the queue */
	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	KUNIT_EXPECT_EQ(test, env->dev->state, VGPU_DEV_LIVE);
}

/* ---- killed waiters ---- */

/**
 * struct vgpu_caller - a task that calls the driver
 * @client: its client
 * @begun: the task can be killed
 * @ended: the call has returned: kthread_stop() wakes the task, and would hide a missing wake-up
 */
struct vgpu_caller {
	struct vgpu_client *client;
	struct completion begun;
	struct completion ended;
};

static int caller_create(void *arg)
{
	struct vgpu_caller *caller = arg;
	int err;

	allow_signal(SIGKILL);
	complete(&caller->begun);
	err = vgpu_client_env_create(caller->client);
	complete(&caller->ended);
	return err;
}

static int caller_pin(void *arg)
{
	struct vgpu_pin pin = { .addr = PAGE_SIZE, .length = PAGE_SIZE };
	struct vgpu_caller *caller = arg;
	int err;

	allow_signal(SIGKILL);
	complete(&caller->begun);
	mutex_lock(&caller->client->lock);
	err = vgpu_pin(caller->client, &pin);
	mutex_unlock(&caller->client->lock);
	complete(&caller->ended);
	return err;
}

static struct task_struct *caller_start(struct kunit *test, struct vgpu_caller *caller,
					int (*call)(void *arg))
{
	struct task_struct *task = kthread_create(call, caller, "vgpu-caller");

	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	init_completion(&caller->begun);
	init_completion(&caller->ended);
	get_task_struct(task);
	wake_up_process(task);
	wait_for_completion(&caller->begun);
	return task;
}

/*
 * More requests than the queue has room for: they wait for room, which wakes them long before their
 * slice of timeout_ms ends, and all are answered. The device processes the queue only when it is
 * full.
 */
static void vgpu_client_queue_full(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct task_struct *task[VGPU_FAKE_CLIENTS];
	struct vgpu_caller caller[VGPU_FAKE_CLIENTS] = {};
	unsigned int depth = env->dev->depth;
	u32 i;

	vgpu_timeout_ms = 600000;
	env->dev->depth = 2;
	env->fake->hold = true;
	for (i = 0; i < VGPU_FAKE_CLIENTS; i++) {
		caller[i].client = vgpu_client_open(env->dev, NULL, NULL);
		task[i] = caller_start(test, &caller[i], caller_create);
	}
	msleep(20);
	KUNIT_EXPECT_EQ(test, env->dev->inflight, 1U); /* one place is reserved for a PING */
	env->fake->hold = false;
	vgpu_fake_kick(env->fake);
	for (i = 0; i < VGPU_FAKE_CLIENTS; i++)
		KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&caller[i].ended, 2 * HZ), 0UL);
	env->dev->depth = depth; /* so that the test ends also when it fails */
	wake_up_all(&env->dev->wq);
	for (i = 0; i < VGPU_FAKE_CLIENTS; i++) {
		KUNIT_EXPECT_EQ(test, kthread_stop(task[i]), 0);
		put_task_struct(task[i]);
	}
	for (i = 0; i < VGPU_FAKE_CLIENTS; i++) {
		KUNIT_EXPECT_EQ(test, caller[i].client->state, VGPU_CLIENT_ACTIVE);
		vgpu_client_close(caller[i].client);
	}
}

static u32 silent_pin(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *hdr, void *resp,
		      u32 resp_len)
{
	return hdr->type == cpu_to_le32(VGPU_CMD_PIN) ? VGPU_FAKE_SILENT : resp_len;
}

/*
 * A killed PIN returns at once; its pages and the slot stay in use, also after the end of the
 * client, until the device has answered it.
 */
static void vgpu_client_killed(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_caller caller = { .client = env->client };
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	struct task_struct *task;
	u32 i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, page);
	vgpu_fault_memory(page, 1);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	env->fake->answer = silent_pin;
	task = caller_start(test, &caller, caller_pin);
	for (i = 0; i < 500 && !READ_ONCE(env->fake->nkept); i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, env->fake->nkept, 1U);
	send_sig(SIGKILL, task, 1);
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&caller.ended, 5 * HZ), 0UL);
	KUNIT_EXPECT_EQ(test, kthread_stop(task), -EINTR);
	put_task_struct(task);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 1);
	vgpu_timeout_ms = 50;
	vgpu_client_close(env->client);
	env->client = NULL;
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_CLIENT_DESTROY], 1U);
	KUNIT_EXPECT_EQ(test, env->dev->state, VGPU_DEV_LIVE);
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 1U);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 1);
	vgpu_fake_answer_kept(env->fake, VGPU_S_OK);
	flush_work(&env->dev->reap_work);
	KUNIT_EXPECT_EQ(test, env->dev->nzombies, 0U);
	KUNIT_EXPECT_EQ(test, vgpu_fault_pinned(), 0);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(env->dev->slots.busy, VGPU_MAX_CLIENTS));
	vgpu_fault_memory(NULL, 1);
	__free_page(page);
}

/*
 * A killed waiter leaves its request in the queue: closing waits for that request before it sends
 * DESTROY, and the buffers stay allocated until the device has answered.
 */
static void vgpu_client_orphan(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_req *req;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	env->fake->hold = true;
	req = vgpu_req_alloc(env->client, VGPU_CMD_UNPIN, sizeof(struct vgpu_cmd_unpin),
			     sizeof(struct vgpu_resp_hdr));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, req);
	vgpu_timeout_ms = 1;
	/* Queue the request, and orphan it as if its waiter had been killed. */
	KUNIT_EXPECT_EQ(test, vgpu_req_queue(env->dev, req), 0);
	list_add_tail(&req->orphan, &env->client->orphans);
	vgpu_timeout_ms = 10000; /* for the end of the client: not a zombie */
	env->fake->hold = false;
	schedule_work(&env->fake->kick);
	vgpu_client_close(env->client);
	env->client = NULL;
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_UNPIN], 1U);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_CLIENT_DESTROY], 1U);
	KUNIT_EXPECT_EQ(test, env->dev->state, VGPU_DEV_LIVE);
}

/*
 * A request allocated before the device was lost is not sent after its recovery: the slot may have
 * another owner.
 */
static void vgpu_client_request_of_former_life(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *next;
	struct vgpu_req *req;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	req = vgpu_req_alloc(env->client, VGPU_CMD_CLIENT_DESTROY,
			     sizeof(struct vgpu_cmd_client_destroy), sizeof(struct vgpu_resp_hdr));
	vgpu_dev_lost(env->dev, "the test says so");
	KUNIT_EXPECT_EQ(test, vgpu_dev_recover(env->dev), 0);
	next = vgpu_client_open(env->dev, NULL, NULL);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(next), 0);
	KUNIT_EXPECT_EQ(test, next->slot, env->client->slot);
	KUNIT_EXPECT_EQ(test, vgpu_req_run(env->dev, req, false), -ENODEV);
	KUNIT_EXPECT_EQ(test, env->fake->count[VGPU_CMD_CLIENT_DESTROY], 0U);
	vgpu_req_put(req);
	vgpu_client_close(next);
}

static struct kunit_case vgpu_client_request_cases[] = {
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
	KUNIT_CASE(vgpu_client_killed),
	KUNIT_CASE(vgpu_client_orphan),
	KUNIT_CASE(vgpu_client_request_of_former_life),
	{}
};

static struct kunit_suite vgpu_client_request_suite = {
	.name = "vgpu_client_request",
	.init = vgpu_client_env_init,
	.exit = vgpu_client_env_exit,
	.test_cases = vgpu_client_request_cases,
};

kunit_test_suite(vgpu_client_request_suite);
