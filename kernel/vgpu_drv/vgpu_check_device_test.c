// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: vgpu_check.c, input from the device: a case per rejected field. */
#include <kunit/test.h>
#include <linux/limits.h>
#include <linux/mm.h>

#include "vgpu.h"

static struct vgpu_config good_config(void)
{
	return (struct vgpu_config){
		.magic = cpu_to_le32(VGPU_CONFIG_MAGIC),
		.abi_version = cpu_to_le32(VGPU_DEVICE_ABI_VERSION),
		.max_clients = cpu_to_le32(16),
		.max_pin_runs = cpu_to_le32(256),
		.window_size = cpu_to_le64(VGPU_WINDOW_MIN),
		.vram_quota = cpu_to_le64(1),
		.pin_quota = cpu_to_le64(2),
	};
}

static int config_err(struct vgpu_config raw)
{
	struct vgpu_cfg cfg;
	const char *why = NULL;
	int err = vgpu_check_config(&raw, &cfg, &why);

	return err && !why ? -EDOM : err; /* a rejection sets a reason */
}

static void vgpu_check_config_good(struct kunit *test)
{
	struct vgpu_config raw = good_config();
	struct vgpu_cfg cfg;
	const char *why;

	KUNIT_ASSERT_EQ(test, vgpu_check_config(&raw, &cfg, &why), 0);
	KUNIT_EXPECT_EQ(test, cfg.max_clients, 16U);
	KUNIT_EXPECT_EQ(test, cfg.max_pin_runs, 256U);
	KUNIT_EXPECT_EQ(test, cfg.window_size, VGPU_WINDOW_MIN);
	KUNIT_EXPECT_EQ(test, cfg.vram_quota, 1ULL);
	KUNIT_EXPECT_EQ(test, cfg.pin_quota, 2ULL);
}

static void vgpu_check_config_magic(struct kunit *test)
{
	struct vgpu_config raw = good_config();

	raw.magic = cpu_to_le32(VGPU_CONFIG_MAGIC + 1);
	KUNIT_EXPECT_EQ(test, config_err(raw), -ENODEV);
	raw.magic = 0; /* no backend behind the device */
	KUNIT_EXPECT_EQ(test, config_err(raw), -ENODEV);
}

static void vgpu_check_config_version(struct kunit *test)
{
	struct vgpu_config raw = good_config();

	raw.abi_version = cpu_to_le32(VGPU_DEVICE_ABI_VERSION + 1);
	KUNIT_EXPECT_EQ(test, config_err(raw), -ENODEV);
	raw.abi_version = 0;
	KUNIT_EXPECT_EQ(test, config_err(raw), -ENODEV);
}

static void vgpu_check_config_max_clients(struct kunit *test)
{
	struct vgpu_config raw = good_config();

	raw.max_clients = 0;
	KUNIT_EXPECT_EQ(test, config_err(raw), -EINVAL);
	raw.max_clients = cpu_to_le32(1);
	KUNIT_EXPECT_EQ(test, config_err(raw), 0);
	raw.max_clients = cpu_to_le32(VGPU_MAX_CLIENTS);
	KUNIT_EXPECT_EQ(test, config_err(raw), 0);
	raw.max_clients = cpu_to_le32(VGPU_MAX_CLIENTS + 1);
	KUNIT_EXPECT_EQ(test, config_err(raw), -EINVAL);
	raw.max_clients = cpu_to_le32(U32_MAX);
	KUNIT_EXPECT_EQ(test, config_err(raw), -EINVAL);
}

static void vgpu_check_config_max_pin_runs(struct kunit *test)
{
	struct vgpu_config raw = good_config();

	raw.max_pin_runs = 0;
	KUNIT_EXPECT_EQ(test, config_err(raw), -EINVAL);
	raw.max_pin_runs = cpu_to_le32(1);
	KUNIT_EXPECT_EQ(test, config_err(raw), 0);
	raw.max_pin_runs = cpu_to_le32(VGPU_MAX_PIN_RUNS);
	KUNIT_EXPECT_EQ(test, config_err(raw), 0);
	raw.max_pin_runs = cpu_to_le32(VGPU_MAX_PIN_RUNS + 1);
	KUNIT_EXPECT_EQ(test, config_err(raw), -EINVAL);
}

static void vgpu_check_config_window_size(struct kunit *test)
{
	static const u64 bad[] = {
		0, 1, VGPU_WINDOW_MIN / 2, VGPU_WINDOW_MIN - 1, VGPU_WINDOW_MIN + 1,
		VGPU_WINDOW_MIN * 3, VGPU_WINDOW_MAX * 2, BIT_ULL(63), U64_MAX,
	};
	struct vgpu_config raw = good_config();
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		raw.window_size = cpu_to_le64(bad[i]);
		KUNIT_EXPECT_EQ(test, config_err(raw), -EINVAL);
	}
	raw.window_size = cpu_to_le64(VGPU_WINDOW_MAX);
	KUNIT_EXPECT_EQ(test, config_err(raw), 0);
}

static void vgpu_check_config_reserved(struct kunit *test)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(((struct vgpu_config *)0)->reserved); i++) {
		struct vgpu_config raw = good_config();

		raw.reserved[i] = cpu_to_le64(1);
		KUNIT_EXPECT_EQ(test, config_err(raw), -EINVAL);
	}
}

static int res_err(u64 windows, u64 windows_len, u64 notify_len, u32 clients)
{
	struct vgpu_res res = {
		.windows = windows,
		.windows_len = windows_len,
		.notify_len = notify_len,
		.notify_mult = PAGE_SIZE,
	};
	struct vgpu_cfg cfg = { .max_clients = clients, .window_size = VGPU_WINDOW_MIN };
	const char *why = NULL;
	u32 i;
	int err;

	for (i = 0; i < ARRAY_SIZE(res.notify_off); i++)
		res.notify_off[i] = i;
	err = vgpu_check_res(&res, &cfg, &why);

	return err && !why ? -EDOM : err;
}

/* The windows fit exactly; rejected if the region is a page too small. */
static void vgpu_check_res_windows(struct kunit *test)
{
	u64 all = 16 * VGPU_WINDOW_MIN, bells = 18 * PAGE_SIZE;

	KUNIT_EXPECT_EQ(test, res_err(0xf8000000, all, bells, 16), 0);
	KUNIT_EXPECT_EQ(test, res_err(0xf8000000, all - PAGE_SIZE, bells, 16), -EINVAL);
	KUNIT_EXPECT_EQ(test, res_err(0xf8000000, 0, bells, 16), -EINVAL);
	KUNIT_EXPECT_EQ(test, res_err(0xf8000001, all, bells, 16), -EINVAL);
	KUNIT_EXPECT_EQ(test, res_err(-(u64)PAGE_SIZE, all, bells, 16), -EINVAL);
}

/* The last doorbell's two bytes fit exactly; rejected if the region is a byte too small. */
static void vgpu_check_res_doorbells(struct kunit *test)
{
	u64 all = 16 * VGPU_WINDOW_MIN, last = 17 * PAGE_SIZE;

	KUNIT_EXPECT_EQ(test, res_err(0, all, last + 2, 16), 0);
	KUNIT_EXPECT_EQ(test, res_err(0, all, last + 1, 16), -EINVAL);
	KUNIT_EXPECT_EQ(test, res_err(0, all, 0, 16), -EINVAL);
}

static const struct vgpu_notify_cap good_cap = {
	.bar = 2, .cap_len = 20, .offset = 0x3000, .length = 0x400000, .multiplier = PAGE_SIZE,
};

static int cap_err(struct vgpu_notify_cap cap)
{
	const char *why = NULL;
	int err = vgpu_check_notify(&cap, 0x800000, &why);

	return err && !why ? -EDOM : err;
}

static void vgpu_check_notify_fields(struct kunit *test)
{
	struct vgpu_notify_cap cap = good_cap;

	KUNIT_EXPECT_EQ(test, cap_err(cap), 0);
	cap.cap_len = 19;
	KUNIT_EXPECT_EQ(test, cap_err(cap), -EINVAL);
	cap = good_cap;
	cap.bar = 6;
	KUNIT_EXPECT_EQ(test, cap_err(cap), -EINVAL);
	cap = good_cap;
	cap.offset = 0x800000 - 0x400000;
	KUNIT_EXPECT_EQ(test, cap_err(cap), 0);
	cap.offset++;
	KUNIT_EXPECT_EQ(test, cap_err(cap), -EINVAL);
	cap = good_cap;
	cap.length = U32_MAX;
	KUNIT_EXPECT_EQ(test, cap_err(cap), -EINVAL);
}

/* Without page-per-vq=on, QEMU's multiplier is 4. */
static void vgpu_check_notify_multiplier(struct kunit *test)
{
	struct vgpu_notify_cap cap = good_cap;

	cap.multiplier = 4;
	KUNIT_EXPECT_EQ(test, cap_err(cap), -EINVAL);
	cap.multiplier = 0;
	KUNIT_EXPECT_EQ(test, cap_err(cap), -EINVAL);
	cap.multiplier = PAGE_SIZE + 2;
	KUNIT_EXPECT_EQ(test, cap_err(cap), -EINVAL);
	cap.multiplier = 2 * PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, cap_err(cap), 0);
}

static int resp_err(u32 status, u32 padding, u32 used, u32 want)
{
	struct vgpu_resp_pin resp = { .hdr = { cpu_to_le32(status), cpu_to_le32(padding) } };
	u32 out = U32_MAX;
	int err = vgpu_check_resp(&resp, used, want, &out);

	return !err && out != status ? -EDOM : err;
}

static void vgpu_check_resp_length(struct kunit *test)
{
	static const u32 bad[] = { 0, 1, 7, 9, 15, 17, U32_MAX };
	u32 i;

	KUNIT_EXPECT_EQ(test, resp_err(VGPU_S_OK, 0, 16, 16), 0);
	KUNIT_EXPECT_EQ(test, resp_err(VGPU_S_OK, 0, 8, 8), 0);
	KUNIT_EXPECT_EQ(test, resp_err(VGPU_S_OK, 0, 8, 16), -EPROTO); /* only for errors */
	KUNIT_EXPECT_EQ(test, resp_err(VGPU_S_QUOTA, 0, 8, 16), 0);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_EQ(test, resp_err(VGPU_S_OK, 0, bad[i], 16), -EPROTO);
}

static void vgpu_check_resp_status(struct kunit *test)
{
	u32 status;

	for (status = 0; status <= VGPU_S_STUCK; status++)
		KUNIT_EXPECT_EQ(test, resp_err(status, 0, 8, 8), 0);
	KUNIT_EXPECT_EQ(test, resp_err(VGPU_S_STUCK + 1, 0, 8, 8), -EPROTO);
	KUNIT_EXPECT_EQ(test, resp_err(U32_MAX, 0, 8, 8), -EPROTO);
}

static void vgpu_check_resp_padding(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, resp_err(VGPU_S_OK, 1, 8, 8), -EPROTO);
	KUNIT_EXPECT_EQ(test, resp_err(VGPU_S_QUOTA, BIT(31), 8, 8), -EPROTO);
}

static void vgpu_check_pin_resp_va(struct kunit *test)
{
	struct vgpu_resp_pin resp = {};

	KUNIT_EXPECT_EQ(test, vgpu_check_pin_resp(&resp, true), 0);
	KUNIT_EXPECT_EQ(test, vgpu_check_pin_resp(&resp, false), -EPROTO);
	resp.worker_va = cpu_to_le64(PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, vgpu_check_pin_resp(&resp, false), 0);
	KUNIT_EXPECT_EQ(test, vgpu_check_pin_resp(&resp, true), -EPROTO);
	resp.worker_va = cpu_to_le64(PAGE_SIZE + 8);
	KUNIT_EXPECT_EQ(test, vgpu_check_pin_resp(&resp, false), -EPROTO);
}

static int event_err(u32 type, u32 client, u32 arg, u32 padding, u32 used, u32 *reason)
{
	struct vgpu_event event = {
		.type = cpu_to_le32(type),
		.client = cpu_to_le32(client),
		.arg = cpu_to_le32(arg),
		.padding = cpu_to_le32(padding),
	};

	return vgpu_check_event(&event, used, 8, reason);
}

static void vgpu_check_event_type(struct kunit *test)
{
	u32 r;

	KUNIT_EXPECT_EQ(test, event_err(VGPU_EV_WAKE, 0, 0, 0, 16, &r), 0);
	KUNIT_EXPECT_EQ(test, event_err(VGPU_EV_CLIENT_DEAD, 0, 1, 0, 16, &r), 0);
	KUNIT_EXPECT_EQ(test, event_err(0, 0, 0, 0, 16, &r), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, event_err(3, 0, 0, 0, 16, &r), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, event_err(U32_MAX, 0, 0, 0, 16, &r), -EOPNOTSUPP);
}

static void vgpu_check_event_client(struct kunit *test)
{
	u32 r;

	KUNIT_EXPECT_EQ(test, event_err(VGPU_EV_WAKE, 7, 0, 0, 16, &r), 0);
	KUNIT_EXPECT_EQ(test, event_err(VGPU_EV_WAKE, 8, 0, 0, 16, &r), -EPROTO);
	KUNIT_EXPECT_EQ(test, event_err(VGPU_EV_CLIENT_DEAD, U32_MAX, 1, 0, 16, &r), -EPROTO);
}

static void vgpu_check_event_padding(struct kunit *test)
{
	u32 r;

	KUNIT_EXPECT_EQ(test, event_err(VGPU_EV_WAKE, 0, 0, 1, 16, &r), -EPROTO);
}

static void vgpu_check_event_length(struct kunit *test)
{
	static const u32 bad[] = { 0, 8, 15, 17, U32_MAX };
	u32 i, r;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_EQ(test, event_err(VGPU_EV_WAKE, 0, 0, 0, bad[i], &r), -EPROTO);
}

/* The client dies for any reason; a reason unknown to user space is reported as EXITED. */
static void vgpu_check_event_reason(struct kunit *test)
{
	static const u32 in[] = { 1, 2, 3, 0, VGPU_DEAD_LOST, 5, U32_MAX };
	static const u32 want[] = { 1, 2, 3, 1, 1, 1, 1 };
	u32 i, r;

	for (i = 0; i < ARRAY_SIZE(in); i++) {
		KUNIT_EXPECT_EQ(test, event_err(VGPU_EV_CLIENT_DEAD, 0, in[i], 0, 16, &r), 0);
		KUNIT_EXPECT_EQ(test, r, want[i]);
	}
}

static struct kunit_case vgpu_check_device_cases[] = {
	KUNIT_CASE(vgpu_check_config_good),
	KUNIT_CASE(vgpu_check_config_magic),
	KUNIT_CASE(vgpu_check_config_version),
	KUNIT_CASE(vgpu_check_config_max_clients),
	KUNIT_CASE(vgpu_check_config_max_pin_runs),
	KUNIT_CASE(vgpu_check_config_window_size),
	KUNIT_CASE(vgpu_check_config_reserved),
	KUNIT_CASE(vgpu_check_res_windows),
	KUNIT_CASE(vgpu_check_res_doorbells),
	KUNIT_CASE(vgpu_check_notify_fields),
	KUNIT_CASE(vgpu_check_notify_multiplier),
	KUNIT_CASE(vgpu_check_resp_length),
	KUNIT_CASE(vgpu_check_resp_status),
	KUNIT_CASE(vgpu_check_resp_padding),
	KUNIT_CASE(vgpu_check_pin_resp_va),
	KUNIT_CASE(vgpu_check_event_type),
	KUNIT_CASE(vgpu_check_event_client),
	KUNIT_CASE(vgpu_check_event_padding),
	KUNIT_CASE(vgpu_check_event_length),
	KUNIT_CASE(vgpu_check_event_reason),
	{}
};

static struct kunit_suite vgpu_check_device_suite = {
	.name = "vgpu_check_device",
	.test_cases = vgpu_check_device_cases,
};

kunit_test_suite(vgpu_check_device_suite);
