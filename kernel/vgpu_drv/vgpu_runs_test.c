// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: vgpu_runs.c */
#include <kunit/test.h>
#include <linux/mm.h>

#include "vgpu_runs.h"

/* Adds n pages that are not adjacent: n runs. */
static void add_scattered(struct kunit *test, struct vgpu_runs *runs, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ(test, vgpu_runs_add(runs, 1000 + 2 * i), 0);
}

/* Adjacent pages are merged into one run. */
static void vgpu_runs_coalesce(struct kunit *test)
{
	struct vgpu_runs runs = {};
	u64 pfn;

	for (pfn = 7; pfn < 7 + 600; pfn++)
		KUNIT_ASSERT_EQ(test, vgpu_runs_add(&runs, pfn), 0);
	KUNIT_ASSERT_EQ(test, runs.n, 1U);
	KUNIT_EXPECT_EQ(test, runs.run[0].pfn, 7ULL);
	KUNIT_EXPECT_EQ(test, runs.run[0].npages, 600ULL);
	KUNIT_EXPECT_EQ(test, runs.npages, 600ULL);
	vgpu_runs_free(&runs);
}

/* A gap, a step back and the same page again each start a new run. */
static void vgpu_runs_do_not_coalesce(struct kunit *test)
{
	static const u64 pfns[] = { 10, 12, 11, 11, 10 };
	struct vgpu_runs runs = {};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(pfns); i++)
		KUNIT_ASSERT_EQ(test, vgpu_runs_add(&runs, pfns[i]), 0);
	KUNIT_ASSERT_EQ(test, runs.n, (u32)ARRAY_SIZE(pfns));
	for (i = 0; i < ARRAY_SIZE(pfns); i++) {
		KUNIT_EXPECT_EQ(test, runs.run[i].pfn, pfns[i]);
		KUNIT_EXPECT_EQ(test, runs.run[i].npages, 1ULL);
	}
	vgpu_runs_free(&runs);
}

/* Page frame 0 is valid. */
static void vgpu_runs_frame_zero(struct kunit *test)
{
	struct vgpu_runs runs = {};

	vgpu_runs_add(&runs, 0);
	vgpu_runs_add(&runs, 1);
	KUNIT_ASSERT_EQ(test, runs.n, 1U);
	KUNIT_EXPECT_EQ(test, runs.run[0].npages, 2ULL);
	vgpu_runs_free(&runs);
}

/* The list keeps its contents over several reallocations. */
static void vgpu_runs_grow_keeps(struct kunit *test)
{
	struct vgpu_runs runs = {};
	u32 i;

	add_scattered(test, &runs, 5000);
	KUNIT_ASSERT_EQ(test, runs.n, 5000U);
	for (i = 0; i < 5000; i++)
		KUNIT_ASSERT_EQ(test, runs.run[i].pfn, 1000ULL + 2 * i);
	vgpu_runs_free(&runs);
	KUNIT_EXPECT_NULL(test, runs.run);
	KUNIT_EXPECT_EQ(test, runs.n, 0U);
	KUNIT_EXPECT_EQ(test, runs.npages, 0ULL);
}

/* limit - 1 and limit runs fit in one request, limit + 1 need two. */
static void vgpu_runs_limit(struct kunit *test)
{
	static const u32 max = 8;
	u32 n;

	for (n = max - 1; n <= max + 1; n++) {
		struct vgpu_slice slice = {};
		struct vgpu_runs runs = {};

		add_scattered(test, &runs, n);
		KUNIT_ASSERT_TRUE(test, vgpu_runs_slice(&runs, max, &slice));
		KUNIT_EXPECT_EQ(test, slice.first, 0U);
		KUNIT_EXPECT_EQ(test, slice.n, min(n, max));
		KUNIT_EXPECT_EQ(test, slice.offset, 0ULL);
		KUNIT_EXPECT_EQ(test, slice.more, n > max);
		KUNIT_EXPECT_EQ(test, vgpu_runs_slice(&runs, max, &slice), n > max);
		if (n > max) {
			KUNIT_EXPECT_EQ(test, slice.first, max);
			KUNIT_EXPECT_EQ(test, slice.n, 1U);
			KUNIT_EXPECT_EQ(test, slice.offset, (u64)max * PAGE_SIZE);
			KUNIT_EXPECT_FALSE(test, slice.more);
			KUNIT_EXPECT_FALSE(test, vgpu_runs_slice(&runs, max, &slice));
		}
		vgpu_runs_free(&runs);
	}
}

/* The parts of a region are complete, in order, and at the right offsets. */
static void vgpu_runs_split_is_complete(struct kunit *test)
{
	struct vgpu_slice slice = {};
	struct vgpu_runs runs = {};
	u64 bytes = 0, pfn = 0;
	u32 i, seen = 0;

	for (i = 1; i <= 23; i++) { /* runs of 1 to 23 pages */
		u32 j;

		pfn++;
		for (j = 0; j < i; j++)
			KUNIT_ASSERT_EQ(test, vgpu_runs_add(&runs, pfn++), 0);
	}
	KUNIT_ASSERT_EQ(test, runs.n, 23U);
	while (vgpu_runs_slice(&runs, 5, &slice)) {
		KUNIT_EXPECT_EQ(test, slice.first, seen);
		KUNIT_EXPECT_EQ(test, slice.offset, bytes);
		seen += slice.n;
		bytes += slice.bytes;
		KUNIT_EXPECT_EQ(test, slice.more, seen < 23);
	}
	KUNIT_EXPECT_EQ(test, seen, 23U);
	KUNIT_EXPECT_EQ(test, bytes, (u64)runs.npages * PAGE_SIZE);
	vgpu_runs_free(&runs);
}

/* An empty list yields no request. */
static void vgpu_runs_empty(struct kunit *test)
{
	struct vgpu_slice slice = {};
	struct vgpu_runs runs = {};

	KUNIT_EXPECT_FALSE(test, vgpu_runs_slice(&runs, 8, &slice));
	vgpu_runs_free(&runs);
}

/* Addresses and lengths are in bytes, little-endian, and may exceed 4 GiB. */
static void vgpu_runs_encoding(struct kunit *test)
{
	struct vgpu_slice slice = { .first = 1, .n = 1 };
	struct vgpu_run run[2] = { { 1, 1 }, { 0x123456789ULL, 0x200000 } };
	struct vgpu_runs runs = { .run = run, .n = 2, .cap = 2 };
	struct vgpu_pin_run out;

	vgpu_runs_encode(&runs, &slice, &out);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(out.addr), 0x123456789ULL << PAGE_SHIFT);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(out.len), 0x200000ULL << PAGE_SHIFT);
}

static struct kunit_case vgpu_runs_cases[] = {
	KUNIT_CASE(vgpu_runs_coalesce),
	KUNIT_CASE(vgpu_runs_do_not_coalesce),
	KUNIT_CASE(vgpu_runs_frame_zero),
	KUNIT_CASE(vgpu_runs_grow_keeps),
	KUNIT_CASE(vgpu_runs_limit),
	KUNIT_CASE(vgpu_runs_split_is_complete),
	KUNIT_CASE(vgpu_runs_empty),
	KUNIT_CASE(vgpu_runs_encoding),
	{}
};

static struct kunit_suite vgpu_runs_suite = {
	.name = "vgpu_runs",
	.test_cases = vgpu_runs_cases,
};

kunit_test_suite(vgpu_runs_suite);
