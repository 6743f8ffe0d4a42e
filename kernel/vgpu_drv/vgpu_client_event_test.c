// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: the event queue of vgpu_vq.c, and vgpu_client_wait(): wakes, deaths, deadlines. */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/sched/signal.h>

#include "vgpu_client_env.h"

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

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	seen = env->client->wake_seq;
	KUNIT_EXPECT_EQ(test, vgpu_client_wait(env->client, seen, 0, &seq, &reason), -ETIMEDOUT);
	KUNIT_EXPECT_EQ(test, seq, seen);
	KUNIT_EXPECT_EQ(test, reason, 0U);
	KUNIT_EXPECT_TRUE(test, send_event(env->fake, VGPU_EV_WAKE, 0, 0));
	vgpu_fake_event_irq(env->fake);
	KUNIT_EXPECT_EQ(test, vgpu_client_wait(env->client, seen, -1, &seq, &reason), 0);
	KUNIT_EXPECT_EQ(test, seq, seen + 1);
}

/**
 * struct vgpu_sleeper - a task in WAIT
 * @client: its client
 * @seen: argument
 * @deadline: argument, 0: none
 * @seq: result
 * @reason: result
 * @begun: the task can be interrupted
 * @ended: WAIT has returned: kthread_stop() wakes the task, and would hide a missing wake-up
 */
struct vgpu_sleeper {
	struct vgpu_client *client;
	u64 seen;
	s64 deadline;
	u64 seq;
	u32 reason;
	struct completion begun;
	struct completion ended;
};

static int sleeper_fn(void *arg)
{
	struct vgpu_sleeper *s = arg;
	int err;

	allow_signal(SIGUSR1);
	complete(&s->begun);
	err = vgpu_client_wait(s->client, s->seen, s->deadline ?: -1, &s->seq, &s->reason);
	complete(&s->ended);
	return err;
}

static struct task_struct *sleeper_start(struct kunit *test, struct vgpu_sleeper *s)
{
	struct task_struct *task = kthread_create(sleeper_fn, s, "vgpu-sleeper");

	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	init_completion(&s->begun);
	init_completion(&s->ended);
	get_task_struct(task);
	wake_up_process(task);
	wait_for_completion(&s->begun);
	msleep(20);
	return task;
}

/* Return: the result of WAIT, which must have ended by itself. */
static int sleeper_end(struct kunit *test, struct vgpu_sleeper *s, struct task_struct *task)
{
	int err;

	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&s->ended, 5 * HZ), 0UL);
	err = kthread_stop(task);
	put_task_struct(task);
	return err;
}

static void vgpu_client_wake_sleeper(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_sleeper s = { .client = env->client };
	struct task_struct *task;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	s.seen = env->client->wake_seq;
	task = sleeper_start(test, &s);
	send_event(env->fake, VGPU_EV_WAKE, 0, 0);
	vgpu_fake_event_irq(env->fake);
	KUNIT_EXPECT_EQ(test, sleeper_end(test, &s, task), 0);
	KUNIT_EXPECT_EQ(test, s.seq, s.seen + 1);
}

/* A wake at the deadline is not a timeout, whether the wake or the timer ends the sleep. */
static void vgpu_client_wake_at_deadline(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_sleeper s = { .client = env->client };
	struct task_struct *task;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	s.seen = env->client->wake_seq;
	s.deadline = ktime_get_ns() + NSEC_PER_SEC; /* enough to start the sleeper on a busy host */
	task = sleeper_start(test, &s);
	spin_lock_irq(&env->dev->lock);
	/* Without wake_up(), so that the timer ends the sleep. */
	WRITE_ONCE(env->client->wake_seq, s.seen + 1);
	spin_unlock_irq(&env->dev->lock);
	KUNIT_EXPECT_EQ(test, sleeper_end(test, &s, task), 0);
	KUNIT_EXPECT_EQ(test, s.seq, s.seen + 1);
}

static void vgpu_client_loss_wakes_sleeper(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_sleeper s = { .client = env->client };
	struct task_struct *task;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	s.seen = env->client->wake_seq;
	task = sleeper_start(test, &s);
	vgpu_dev_lost(env->dev, "the test says so");
	KUNIT_EXPECT_EQ(test, sleeper_end(test, &s, task), -ENODEV);
	KUNIT_EXPECT_EQ(test, s.reason, (u32)VGPU_DEAD_LOST);
}

/* Each end of a client ends its sleepers: death of the worker, and end of the address space. */
static void vgpu_client_end_wakes_sleeper(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *other = vgpu_client_env_other(test);
	struct vgpu_sleeper a = { .client = env->client }, b = { .client = other };
	struct task_struct *first, *second;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	a.seen = env->client->wake_seq;
	b.seen = other->wake_seq;
	first = sleeper_start(test, &a);
	second = sleeper_start(test, &b);
	send_event(env->fake, VGPU_EV_CLIENT_DEAD, env->client->slot, VGPU_DEAD_KILLED);
	vgpu_fake_event_irq(env->fake);
	KUNIT_EXPECT_EQ(test, sleeper_end(test, &a, first), 0);
	KUNIT_EXPECT_EQ(test, a.reason, (u32)VGPU_DEAD_KILLED);
	KUNIT_EXPECT_FALSE(test, completion_done(&b.ended));
	vgpu_client_mm_gone(other);
	KUNIT_EXPECT_EQ(test, sleeper_end(test, &b, second), 0);
	KUNIT_EXPECT_EQ(test, b.reason, (u32)VGPU_DEAD_EXITED);
	vgpu_client_close(other);
}

/* A signal interrupts WAIT, which the kernel repeats if the handler says so. */
static void vgpu_client_signal_wakes_sleeper(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_sleeper s = { .client = env->client };
	struct task_struct *task;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	s.seen = env->client->wake_seq;
	task = sleeper_start(test, &s);
	send_sig(SIGUSR1, task, 1);
	KUNIT_EXPECT_EQ(test, sleeper_end(test, &s, task), -ERESTARTSYS);
	KUNIT_EXPECT_EQ(test, s.seq, s.seen);
	KUNIT_EXPECT_EQ(test, s.reason, 0U);
}

/* Death of the worker: WAIT returns at once with the reason, all other calls -ENODEV. */
static void vgpu_client_dead(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u64 seq;
	u32 reason;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
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

/* Malformed events reach no client, and their buffers go back to the device. */
static void vgpu_client_bad_events(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_event good = { .type = cpu_to_le32(VGPU_EV_WAKE) };
	u64 seen;
	u32 i;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	seen = env->client->wake_seq;
	send_event(env->fake, VGPU_EV_WAKE, VGPU_FAKE_CLIENTS, 0);
	send_event(env->fake, VGPU_EV_WAKE, U32_MAX, 0);
	send_event(env->fake, VGPU_EV_CLIENT_DEAD, VGPU_MAX_CLIENTS, 1);
	send_event(env->fake, VGPU_EV_WAKE, 1, 0); /* a slot without a client */
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

/* A flood of events: an interrupt handles its budget, a work item the rest, and the flood ends. */
static void vgpu_client_event_flood(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u64 seen;
	u32 i;

	BUILD_BUG_ON(VGPU_FAKE_VRING <= VGPU_EVENT_BUDGET);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	seen = env->client->wake_seq;
	for (i = 0; i < VGPU_FAKE_VRING; i++)
		KUNIT_EXPECT_TRUE(test, send_event(env->fake, VGPU_EV_WAKE, 0, 0));
	vgpu_fake_event_irq(env->fake);
	KUNIT_EXPECT_GE(test, env->client->wake_seq, seen + VGPU_EVENT_BUDGET);
	flush_work(&env->dev->event_work);
	flush_work(&env->dev->event_work); /* it may have queued itself */
	KUNIT_EXPECT_EQ(test, env->client->wake_seq, seen + VGPU_FAKE_VRING);
	/* Interrupts are enabled again. */
	KUNIT_EXPECT_TRUE(test, send_event(env->fake, VGPU_EV_WAKE, 0, 0));
	vgpu_fake_event_irq(env->fake);
	KUNIT_EXPECT_EQ(test, env->client->wake_seq, seen + VGPU_FAKE_VRING + 1);
}

/*
 * A device that sends the next event when the queue is found empty does not keep the interrupt
 * handler running.
 */
static void vgpu_client_event_echo(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	unsigned int left;
	u64 seen;
	u32 i;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	seen = env->client->wake_seq;
	env->fake->echoes = 4 * VGPU_EVENT_BUDGET;
	KUNIT_EXPECT_TRUE(test, send_event(env->fake, VGPU_EV_WAKE, 0, 0));
	preempt_disable(); /* delays the work item */
	vgpu_fake_event_irq(env->fake);
	left = env->fake->echoes;
	preempt_enable();
	KUNIT_EXPECT_GE(test, left, 3 * VGPU_EVENT_BUDGET);
	for (i = 0; i < 8; i++)
		flush_work(&env->dev->event_work); /* it requeues itself */
	KUNIT_EXPECT_EQ(test, env->client->wake_seq, seen + 1 + 4 * VGPU_EVENT_BUDGET);
}

/* The event queue stays filled with buffers over many rounds. */
static void vgpu_client_event_rounds(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u64 seen;
	u32 i;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
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
 * An event about a client that is being closed, sent before the answer to its DESTROY but read
 * after it, does not reach the next client of the slot.
 */
static void vgpu_client_late_event(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *last;
	u32 i;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	KUNIT_EXPECT_EQ(test, env->client->slot, 0U);
	send_event(env->fake, VGPU_EV_CLIENT_DEAD, 0, VGPU_DEAD_EXITED); /* no interrupt yet */
	vgpu_client_close(env->client);
	env->client = NULL;
	for (i = 1; i < VGPU_FAKE_CLIENTS; i++) { /* until slot 0 is reused */
		last = vgpu_client_open(env->dev, NULL, NULL);
		KUNIT_EXPECT_EQ(test, vgpu_client_env_create(last), 0);
		vgpu_client_close(last);
	}
	env->client = vgpu_client_open(env->dev, NULL, NULL);
	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	KUNIT_EXPECT_EQ(test, env->client->slot, 0U);
	vgpu_fake_event_irq(env->fake);
	KUNIT_EXPECT_EQ(test, env->client->reason, 0U);
}

/* Deadlines: past, near, and a wake before the deadline. */
static void vgpu_client_deadline(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	u64 seq, seen;
	s64 start;
	u32 reason;

	KUNIT_EXPECT_EQ(test, vgpu_client_env_create(env->client), 0);
	seen = env->client->wake_seq;
	KUNIT_EXPECT_EQ(test, vgpu_client_wait(env->client, seen, 1, &seq, &reason), -ETIMEDOUT);
	start = ktime_get_ns();
	KUNIT_EXPECT_EQ(test, vgpu_client_wait(env->client, seen, start + 20 * NSEC_PER_MSEC,
					       &seq, &reason), -ETIMEDOUT);
	KUNIT_EXPECT_GE(test, (s64)ktime_get_ns() - start, (s64)(20 * NSEC_PER_MSEC));
	KUNIT_EXPECT_EQ(test, vgpu_client_wait(env->client, seen - 1, S64_MAX, &seq, &reason), 0);
}

static struct kunit_case vgpu_client_event_cases[] = {
	KUNIT_CASE(vgpu_client_wake),
	KUNIT_CASE(vgpu_client_wake_sleeper),
	KUNIT_CASE(vgpu_client_wake_at_deadline),
	KUNIT_CASE(vgpu_client_loss_wakes_sleeper),
	KUNIT_CASE(vgpu_client_end_wakes_sleeper),
	KUNIT_CASE(vgpu_client_signal_wakes_sleeper),
	KUNIT_CASE(vgpu_client_dead),
	KUNIT_CASE(vgpu_client_bad_events),
	KUNIT_CASE(vgpu_client_event_flood),
	KUNIT_CASE(vgpu_client_event_echo),
	KUNIT_CASE(vgpu_client_event_rounds),
	KUNIT_CASE(vgpu_client_late_event),
	KUNIT_CASE(vgpu_client_deadline),
	{}
};

static struct kunit_suite vgpu_client_event_suite = {
	.name = "vgpu_client_event",
	.init = vgpu_client_env_init,
	.exit = vgpu_client_env_exit,
	.test_cases = vgpu_client_event_cases,
};

kunit_test_suite(vgpu_client_event_suite);
