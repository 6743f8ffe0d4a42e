// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: vgpu_id.c */
#include <kunit/test.h>

#include "vgpu_id.h"

static struct vgpu_ids *ids_new(struct kunit *test, u32 count)
{
	struct vgpu_ids *ids = kunit_kzalloc(test, sizeof(*ids), GFP_KERNEL);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ids);
	vgpu_ids_init(ids, count);
	return ids;
}

/* Every id is allocated once, then -ENOSPC: with one slot, a few, and at the limit. */
static void vgpu_id_all_once(struct kunit *test)
{
	static const u32 counts[] = { 1, 2, VGPU_MAX_CLIENTS - 1, VGPU_MAX_CLIENTS };
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		struct vgpu_ids *ids = ids_new(test, counts[i]);

		for (j = 0; j < counts[i]; j++)
			KUNIT_EXPECT_EQ(test, vgpu_ids_alloc(ids), (int)j);
		KUNIT_EXPECT_EQ(test, vgpu_ids_alloc(ids), -ENOSPC);
		KUNIT_EXPECT_EQ(test, vgpu_ids_alloc(ids), -ENOSPC);
	}
}

/* A count beyond the table is clamped. */
static void vgpu_id_count_is_cut(struct kunit *test)
{
	struct vgpu_ids *ids = ids_new(test, VGPU_MAX_CLIENTS + 1);
	u32 n = 0;

	while (vgpu_ids_alloc(ids) >= 0)
		n++;
	KUNIT_EXPECT_EQ(test, n, (u32)VGPU_MAX_CLIENTS);
}

/* A freed id is reused last. */
static void vgpu_id_delayed_reuse(struct kunit *test)
{
	struct vgpu_ids *ids = ids_new(test, 4);

	KUNIT_EXPECT_EQ(test, vgpu_ids_alloc(ids), 0);
	vgpu_ids_free(ids, 0);
	KUNIT_EXPECT_EQ(test, vgpu_ids_alloc(ids), 1);
	KUNIT_EXPECT_EQ(test, vgpu_ids_alloc(ids), 2);
	KUNIT_EXPECT_EQ(test, vgpu_ids_alloc(ids), 3);
	KUNIT_EXPECT_EQ(test, vgpu_ids_alloc(ids), 0);
	KUNIT_EXPECT_EQ(test, vgpu_ids_alloc(ids), -ENOSPC);
}

/* A single free slot is reused at once. */
static void vgpu_id_reuse_of_the_only_one(struct kunit *test)
{
	struct vgpu_ids *ids = ids_new(test, 3);
	u32 i;

	for (i = 0; i < 3; i++)
		vgpu_ids_alloc(ids);
	vgpu_ids_free(ids, 1);
	KUNIT_EXPECT_EQ(test, vgpu_ids_alloc(ids), 1);
}

/* Freeing an id that was never allocated has no effect. */
static void vgpu_id_free_out_of_range(struct kunit *test)
{
	struct vgpu_ids *ids = ids_new(test, 2);

	vgpu_ids_alloc(ids);
	vgpu_ids_alloc(ids);
	vgpu_ids_free(ids, 2);
	vgpu_ids_free(ids, VGPU_MAX_CLIENTS);
	vgpu_ids_free(ids, U32_MAX);
	KUNIT_EXPECT_EQ(test, vgpu_ids_alloc(ids), -ENOSPC);
}

/* Region ids are never 0, and a freed id is not the next one. */
static void vgpu_id_regions(struct kunit *test)
{
	struct xarray regions;
	u32 next = 0, a = 0, b = 0, c = 0;
	int entry;

	xa_init_flags(&regions, XA_FLAGS_ALLOC1);
	KUNIT_EXPECT_EQ(test, vgpu_region_id_alloc(&regions, &entry, &next, &a), 0);
	KUNIT_EXPECT_NE(test, a, 0U);
	xa_erase(&regions, a);
	KUNIT_EXPECT_EQ(test, vgpu_region_id_alloc(&regions, &entry, &next, &b), 0);
	KUNIT_EXPECT_NE(test, b, a);
	KUNIT_EXPECT_EQ(test, vgpu_region_id_alloc(&regions, &entry, &next, &c), 0);
	KUNIT_EXPECT_NE(test, c, b);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&regions, c), (void *)&entry);
	KUNIT_EXPECT_NULL(test, xa_load(&regions, a));
	xa_destroy(&regions);
}

/* The counter wraps past 2^32 to 1, and skips ids in use. */
static void vgpu_id_regions_wrap(struct kunit *test)
{
	struct xarray regions;
	u32 next = U32_MAX, a = 0, b = 0;
	int entry;

	xa_init_flags(&regions, XA_FLAGS_ALLOC1);
	KUNIT_ASSERT_EQ(test, xa_insert(&regions, 1, &entry, GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, vgpu_region_id_alloc(&regions, &entry, &next, &a), 0);
	KUNIT_EXPECT_EQ(test, a, U32_MAX);
	KUNIT_EXPECT_EQ(test, vgpu_region_id_alloc(&regions, &entry, &next, &b), 0);
	KUNIT_EXPECT_EQ(test, b, 2U);
	xa_destroy(&regions);
}

static struct kunit_case vgpu_id_cases[] = {
	KUNIT_CASE(vgpu_id_all_once),
	KUNIT_CASE(vgpu_id_count_is_cut),
	KUNIT_CASE(vgpu_id_delayed_reuse),
	KUNIT_CASE(vgpu_id_reuse_of_the_only_one),
	KUNIT_CASE(vgpu_id_free_out_of_range),
	KUNIT_CASE(vgpu_id_regions),
	KUNIT_CASE(vgpu_id_regions_wrap),
	{}
};

static struct kunit_suite vgpu_id_suite = {
	.name = "vgpu_id",
	.test_cases = vgpu_id_cases,
};

kunit_test_suite(vgpu_id_suite);
