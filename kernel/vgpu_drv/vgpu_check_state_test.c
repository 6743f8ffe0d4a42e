// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: vgpu_check.c, pure functions: errno of an answer, states of a client, wakes, ranges. */
#include <kunit/test.h>
#include <linux/limits.h>

#include "vgpu.h"

/* Every status of every request maps to the errno documented in the ioctl ABI. */
static void vgpu_check_status_errno(struct kunit *test)
{
	static const int pin[] = { 0, -EIO, -ENODEV, -EIO, -ENOMEM, -EDQUOT, -ENODEV, -EOPNOTSUPP,
				    -ENODEV };
	u32 s;

	BUILD_BUG_ON(ARRAY_SIZE(pin) != VGPU_S_STUCK + 1);
	for (s = 0; s < ARRAY_SIZE(pin); s++) {
		int create = !s ? 0 : s == VGPU_S_UNSUPPORTED ? -EOPNOTSUPP : -EAGAIN;

		KUNIT_EXPECT_EQ(test, vgpu_status_errno(VGPU_CMD_PIN, s), pin[s]);
		KUNIT_EXPECT_EQ(test, vgpu_status_errno(VGPU_CMD_UNPIN, s), pin[s]);
		KUNIT_EXPECT_EQ(test, vgpu_status_errno(VGPU_CMD_CLIENT_CREATE, s), create);
	}
}

/* All transitions of the client's states. */
static void vgpu_check_client_states(struct kunit *test)
{
	static const int next[4][5] = {
		/* CREATE, STARTED, REFUSED, DIED, LOST */
		[VGPU_CLIENT_NEW] = { VGPU_CLIENT_STARTING, -EPROTO, -EPROTO, -EPROTO,
				      VGPU_CLIENT_DEAD },
		[VGPU_CLIENT_STARTING] = { -EBUSY, VGPU_CLIENT_ACTIVE, VGPU_CLIENT_NEW,
					   VGPU_CLIENT_DEAD, VGPU_CLIENT_DEAD },
		[VGPU_CLIENT_ACTIVE] = { -EBUSY, -EPROTO, -EPROTO, VGPU_CLIENT_DEAD,
					 VGPU_CLIENT_DEAD },
		[VGPU_CLIENT_DEAD] = { -EBUSY, VGPU_CLIENT_DEAD, VGPU_CLIENT_NEW, VGPU_CLIENT_DEAD,
				       VGPU_CLIENT_DEAD },
	};
	int s, i;

	for (s = 0; s < 4; s++)
		for (i = 0; i < 5; i++)
			KUNIT_EXPECT_EQ_MSG(test, vgpu_client_next(s, i), next[s][i],
					    "state %d, input %d", s, i);
	KUNIT_EXPECT_EQ(test, vgpu_client_next(VGPU_CLIENT_NEW, 5), -EINVAL);
}

/* Any difference wakes, also across the wrap; otherwise only death does. */
static void vgpu_check_wake_arithmetic(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, vgpu_wake_ready(5, 5, 0));
	KUNIT_EXPECT_TRUE(test, vgpu_wake_ready(6, 5, 0));
	KUNIT_EXPECT_TRUE(test, vgpu_wake_ready(5, 6, 0));
	KUNIT_EXPECT_TRUE(test, vgpu_wake_ready(0, U64_MAX, 0));
	KUNIT_EXPECT_TRUE(test, vgpu_wake_ready(U64_MAX, 0, 0));
	KUNIT_EXPECT_TRUE(test, vgpu_wake_ready(BIT_ULL(32), 0, 0));
	KUNIT_EXPECT_FALSE(test, vgpu_wake_ready(U64_MAX, U64_MAX, 0));
	KUNIT_EXPECT_TRUE(test, vgpu_wake_ready(5, 5, VGPU_DEAD_EXITED));
	KUNIT_EXPECT_TRUE(test, vgpu_wake_ready(5, 5, VGPU_DEAD_LOST));
}

/* vgpu_range_ok() at its limits. */
static void vgpu_check_range(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, vgpu_range_ok(0, 0, 0));
	KUNIT_EXPECT_TRUE(test, vgpu_range_ok(4, 4, 8));
	KUNIT_EXPECT_FALSE(test, vgpu_range_ok(4, 5, 8));
	KUNIT_EXPECT_TRUE(test, vgpu_range_ok(8, 0, 8));
	KUNIT_EXPECT_FALSE(test, vgpu_range_ok(9, 0, 8));
	KUNIT_EXPECT_FALSE(test, vgpu_range_ok(8, U64_MAX, 16));
	KUNIT_EXPECT_FALSE(test, vgpu_range_ok(U64_MAX, 1, U64_MAX));
	KUNIT_EXPECT_TRUE(test, vgpu_range_ok(0, U64_MAX, U64_MAX));
}

static struct kunit_case vgpu_check_state_cases[] = {
	KUNIT_CASE(vgpu_check_status_errno),
	KUNIT_CASE(vgpu_check_client_states),
	KUNIT_CASE(vgpu_check_wake_arithmetic),
	KUNIT_CASE(vgpu_check_range),
	{}
};

static struct kunit_suite vgpu_check_state_suite = {
	.name = "vgpu_check_state",
	.test_cases = vgpu_check_state_cases,
};

kunit_test_suite(vgpu_check_state_suite);
