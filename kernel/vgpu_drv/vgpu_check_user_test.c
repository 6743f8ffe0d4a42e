// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: vgpu_check.c, input from user space: a case per rejected field. */
#include <kunit/test.h>
#include <linux/limits.h>
#include <linux/mm.h>
#include <linux/string.h>

#include "vgpu.h"

/* Output fields may hold any value. */
static void vgpu_check_query_good(struct kunit *test)
{
	struct vgpu_query arg;

	memset(&arg, 0xff, sizeof(arg));
	memset(arg.reserved, 0, sizeof(arg.reserved));
	KUNIT_EXPECT_EQ(test, vgpu_check_query(&arg), 0);
}

static void vgpu_check_query_reserved(struct kunit *test)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(((struct vgpu_query *)0)->reserved); i++) {
		struct vgpu_query arg = {};

		arg.reserved[i] = BIT_ULL(63);
		KUNIT_EXPECT_EQ(test, vgpu_check_query(&arg), -EINVAL);
	}
}

static void vgpu_check_create_good(struct kunit *test)
{
	struct vgpu_create_client arg;

	memset(&arg, 0xff, sizeof(arg));
	arg.flags = 0;
	memset(arg.reserved, 0, sizeof(arg.reserved));
	KUNIT_EXPECT_EQ(test, vgpu_check_create(&arg), 0);
}

static void vgpu_check_create_flags(struct kunit *test)
{
	u32 bit;

	for (bit = 0; bit < 32; bit++) {
		struct vgpu_create_client arg = { .flags = BIT(bit) };

		KUNIT_EXPECT_EQ(test, vgpu_check_create(&arg), -EINVAL);
	}
}

static void vgpu_check_create_reserved(struct kunit *test)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(((struct vgpu_create_client *)0)->reserved); i++) {
		struct vgpu_create_client arg = {};

		arg.reserved[i] = 1;
		KUNIT_EXPECT_EQ(test, vgpu_check_create(&arg), -EINVAL);
	}
}

static const struct vgpu_pin good_pin = { .addr = 0x7f0000000000, .length = 16 * PAGE_SIZE };

static void vgpu_check_pin_good(struct kunit *test)
{
	struct vgpu_pin arg = good_pin;

	KUNIT_EXPECT_EQ(test, vgpu_check_pin(&arg), 0);
	arg.flags = VGPU_PIN_FLAG_READONLY;
	arg.region = U32_MAX;
	arg.worker_va = U64_MAX;
	KUNIT_EXPECT_EQ(test, vgpu_check_pin(&arg), 0);
}

static void vgpu_check_pin_flags(struct kunit *test)
{
	u32 bit;

	for (bit = 1; bit < 32; bit++) {
		struct vgpu_pin arg = good_pin;

		arg.flags = BIT(bit) | VGPU_PIN_FLAG_READONLY;
		KUNIT_EXPECT_EQ(test, vgpu_check_pin(&arg), -EINVAL);
	}
}

static void vgpu_check_pin_addr(struct kunit *test)
{
	struct vgpu_pin arg = good_pin;

	arg.addr += 1;
	KUNIT_EXPECT_EQ(test, vgpu_check_pin(&arg), -EINVAL);
	arg.addr = good_pin.addr + PAGE_SIZE / 2;
	KUNIT_EXPECT_EQ(test, vgpu_check_pin(&arg), -EINVAL);
}

/* Not 0, whole pages, and within the address space: at the limit, and a page beyond. */
static void vgpu_check_pin_length(struct kunit *test)
{
	static const u64 bad[] = { 0, 1, PAGE_SIZE - 1, PAGE_SIZE + 1, U64_MAX };
	struct vgpu_pin arg = good_pin;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		arg.length = bad[i];
		KUNIT_EXPECT_EQ(test, vgpu_check_pin(&arg), -EINVAL);
	}
	arg.addr = -(u64)PAGE_SIZE * 2;
	arg.length = PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, vgpu_check_pin(&arg), 0);
	arg.length = PAGE_SIZE * 2;
	KUNIT_EXPECT_EQ(test, vgpu_check_pin(&arg), -EINVAL);
	arg.length = PAGE_SIZE * 3;
	KUNIT_EXPECT_EQ(test, vgpu_check_pin(&arg), -EINVAL);
}

static void vgpu_check_pin_reserved(struct kunit *test)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(good_pin.reserved); i++) {
		struct vgpu_pin arg = good_pin;

		arg.reserved[i] = 1;
		KUNIT_EXPECT_EQ(test, vgpu_check_pin(&arg), -EINVAL);
	}
}

static void vgpu_check_unpin_flags(struct kunit *test)
{
	struct vgpu_unpin arg = { .region = 5 };

	KUNIT_EXPECT_EQ(test, vgpu_check_unpin(&arg), 0);
	arg.flags = 1;
	KUNIT_EXPECT_EQ(test, vgpu_check_unpin(&arg), -EINVAL);
	arg.flags = BIT(31);
	KUNIT_EXPECT_EQ(test, vgpu_check_unpin(&arg), -EINVAL);
}

static void vgpu_check_wait_flags(struct kunit *test)
{
	struct vgpu_wait arg = { .seen = U64_MAX, .deadline_ns = S64_MIN, .state = 7 };

	KUNIT_EXPECT_EQ(test, vgpu_check_wait(&arg), 0);
	arg.flags = 1;
	KUNIT_EXPECT_EQ(test, vgpu_check_wait(&arg), -EINVAL);
	arg.flags = BIT(31);
	KUNIT_EXPECT_EQ(test, vgpu_check_wait(&arg), -EINVAL);
}

static void vgpu_check_export_fields(struct kunit *test)
{
	const struct vgpu_export good = { .region = U32_MAX, .length = PAGE_SIZE, .fd = -1 };
	struct vgpu_export arg = good;
	u32 i;

	KUNIT_EXPECT_EQ(test, vgpu_check_export(&arg), 0);
	for (i = 0; i < 32; i++) {
		arg = good;
		arg.flags = BIT(i);
		KUNIT_EXPECT_EQ(test, vgpu_check_export(&arg), -EINVAL);
		arg = good;
		arg.padding = BIT(i);
		KUNIT_EXPECT_EQ(test, vgpu_check_export(&arg), -EINVAL);
	}
	for (i = 0; i < ARRAY_SIZE(good.reserved); i++) {
		arg = good;
		arg.reserved[i] = BIT_ULL(63);
		KUNIT_EXPECT_EQ(test, vgpu_check_export(&arg), -EINVAL);
	}
}

static void vgpu_check_export_part(struct kunit *test)
{
	static const u64 bad[] = { 0, 1, PAGE_SIZE - 1, PAGE_SIZE + 1, U64_MAX };
	struct vgpu_export arg = { .length = PAGE_SIZE, .offset = PAGE_SIZE };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		arg.length = bad[i];
		KUNIT_EXPECT_EQ(test, vgpu_check_export(&arg), -EINVAL);
	}
	arg.length = PAGE_SIZE;
	for (i = 1; i < ARRAY_SIZE(bad); i++) {
		arg.offset = bad[i];
		KUNIT_EXPECT_EQ(test, vgpu_check_export(&arg), -EINVAL);
	}
	/* The end overflows. */
	arg.offset = -(u64)PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, vgpu_check_export(&arg), -EINVAL);
	arg.length = -(u64)PAGE_SIZE;
	arg.offset = 2 * PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, vgpu_check_export(&arg), -EINVAL);
}

static const struct vgpu_import good_import = {
	.addr = 0x7f0000000000, .length = 16 * PAGE_SIZE, .fd = 3, .flags = VGPU_PIN_FLAG_READONLY,
	.region = U32_MAX, .worker_va = U64_MAX,
};

static void vgpu_check_import_fields(struct kunit *test)
{
	struct vgpu_import arg = good_import;
	u32 i;

	KUNIT_EXPECT_EQ(test, vgpu_check_import(&arg), 0);
	for (i = 0; i < 32; i++) {
		arg = good_import;
		arg.flags |= BIT(i);
		if (BIT(i) != VGPU_PIN_FLAG_READONLY)
			KUNIT_EXPECT_EQ(test, vgpu_check_import(&arg), -EINVAL);
		arg = good_import;
		arg.padding = BIT(i);
		KUNIT_EXPECT_EQ(test, vgpu_check_import(&arg), -EINVAL);
	}
	for (i = 0; i < ARRAY_SIZE(good_import.reserved); i++) {
		arg = good_import;
		arg.reserved[i] = 1;
		KUNIT_EXPECT_EQ(test, vgpu_check_import(&arg), -EINVAL);
	}
}

static void vgpu_check_import_part(struct kunit *test)
{
	static const u64 bad[] = { 1, PAGE_SIZE - 1, PAGE_SIZE + 1, U64_MAX, -(u64)PAGE_SIZE };
	struct vgpu_import arg;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		arg = good_import;
		arg.length = bad[i];
		KUNIT_EXPECT_EQ(test, vgpu_check_import(&arg), -EINVAL);
		arg = good_import;
		arg.offset = bad[i];
		KUNIT_EXPECT_EQ(test, vgpu_check_import(&arg), -EINVAL);
		arg = good_import;
		arg.addr = bad[i];
		KUNIT_EXPECT_EQ(test, vgpu_check_import(&arg), -EINVAL);
	}
	arg = good_import;
	arg.length = 0;
	KUNIT_EXPECT_EQ(test, vgpu_check_import(&arg), -EINVAL);
}

#define RW (VM_SHARED | VM_READ | VM_WRITE)
#define WINDOW (64ULL << 20)

static void vgpu_check_mmap_good(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, vgpu_check_mmap(VGPU_WINDOW_OFFSET, WINDOW, RW, WINDOW), 0);
	KUNIT_EXPECT_EQ(test, vgpu_check_mmap(VGPU_DOORBELL_OFFSET, PAGE_SIZE, RW, WINDOW), 0);
	KUNIT_EXPECT_EQ(test, vgpu_check_mmap(VGPU_DOORBELL_OFFSET, PAGE_SIZE,
					      VM_SHARED | VM_WRITE, WINDOW), 0);
}

static void vgpu_check_mmap_offset(struct kunit *test)
{
	static const u64 bad[] = {
		0, PAGE_SIZE, VGPU_WINDOW_OFFSET - PAGE_SIZE, VGPU_WINDOW_OFFSET + PAGE_SIZE,
		VGPU_DOORBELL_OFFSET - PAGE_SIZE, VGPU_DOORBELL_OFFSET + PAGE_SIZE,
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		KUNIT_EXPECT_EQ(test, vgpu_check_mmap(bad[i], WINDOW, RW, WINDOW), -EINVAL);
		KUNIT_EXPECT_EQ(test, vgpu_check_mmap(bad[i], PAGE_SIZE, RW, WINDOW), -EINVAL);
	}
}

static void vgpu_check_mmap_size(struct kunit *test)
{
	static const u64 window[] = { PAGE_SIZE, WINDOW - PAGE_SIZE, WINDOW + PAGE_SIZE };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(window); i++)
		KUNIT_EXPECT_EQ(test, vgpu_check_mmap(VGPU_WINDOW_OFFSET, window[i], RW, WINDOW),
				-EINVAL);
	KUNIT_EXPECT_EQ(test, vgpu_check_mmap(VGPU_DOORBELL_OFFSET, 2 * PAGE_SIZE, RW, WINDOW),
			-EINVAL);
}

static void vgpu_check_mmap_flags(struct kunit *test)
{
	static const u64 off[] = { VGPU_WINDOW_OFFSET, VGPU_DOORBELL_OFFSET };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(off); i++) {
		u64 size = i ? PAGE_SIZE : WINDOW;

		KUNIT_EXPECT_EQ(test, vgpu_check_mmap(off[i], size, VM_READ | VM_WRITE, WINDOW),
				-EINVAL); /* private */
		KUNIT_EXPECT_EQ(test, vgpu_check_mmap(off[i], size, VM_SHARED | VM_READ, WINDOW),
				-EINVAL); /* read-only */
		KUNIT_EXPECT_EQ(test, vgpu_check_mmap(off[i], size, RW | VM_EXEC, WINDOW),
				-EPERM);
	}
	KUNIT_EXPECT_EQ(test, vgpu_check_mmap(VGPU_WINDOW_OFFSET, WINDOW, VM_SHARED | VM_WRITE,
					      WINDOW), -EINVAL); /* write-only window */
}

static struct kunit_case vgpu_check_user_cases[] = {
	KUNIT_CASE(vgpu_check_query_good),
	KUNIT_CASE(vgpu_check_query_reserved),
	KUNIT_CASE(vgpu_check_create_good),
	KUNIT_CASE(vgpu_check_create_flags),
	KUNIT_CASE(vgpu_check_create_reserved),
	KUNIT_CASE(vgpu_check_pin_good),
	KUNIT_CASE(vgpu_check_pin_flags),
	KUNIT_CASE(vgpu_check_pin_addr),
	KUNIT_CASE(vgpu_check_pin_length),
	KUNIT_CASE(vgpu_check_pin_reserved),
	KUNIT_CASE(vgpu_check_unpin_flags),
	KUNIT_CASE(vgpu_check_wait_flags),
	KUNIT_CASE(vgpu_check_export_fields),
	KUNIT_CASE(vgpu_check_export_part),
	KUNIT_CASE(vgpu_check_import_fields),
	KUNIT_CASE(vgpu_check_import_part),
	KUNIT_CASE(vgpu_check_mmap_good),
	KUNIT_CASE(vgpu_check_mmap_offset),
	KUNIT_CASE(vgpu_check_mmap_size),
	KUNIT_CASE(vgpu_check_mmap_flags),
	{}
};

static struct kunit_suite vgpu_check_user_suite = {
	.name = "vgpu_check_user",
	.test_cases = vgpu_check_user_cases,
};

kunit_test_suite(vgpu_check_user_suite);
