// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: fails each request of the driver to the kernel once, in probe, open, CREATE, PIN and
 * recovery: the k-th request, for each k until none is left. After each failure the driver works,
 * and in the end all its resources are released. See vgpu_fault.h.
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/page_ref.h>
#include <linux/sched.h>

#include "vgpu_compat.h"
#include "vgpu_fake.h"

/* More requests than any step makes: a step that never succeeds is a failure, too. */
#define VGPU_FAULT_MOST 400
#define VGPU_FAULT_PAGES 40

static struct task_struct *fault_task;
static unsigned int fault_left;
static bool fault_fired;
static atomic_t taken = ATOMIC_INIT(0);
static atomic_t pinned = ATOMIC_INIT(0);
static struct page *fault_page;
static unsigned int fault_npages = 1;
static unsigned int fault_flags;
static unsigned int fault_dirtied;

/**
 * vgpu_fault_hit - check whether this request is to fail
 * @gfp: flags of the request; __GFP_NOFAIL never fails
 *
 * Counts requests of the arming task only, as work items run at any time.
 */
bool vgpu_fault_hit(gfp_t gfp)
{
	if (current != fault_task || (gfp & __GFP_NOFAIL) || !fault_left || --fault_left)
		return false;
	fault_fired = true;
	return true;
}

/**
 * vgpu_fault_took - count an allocation
 * @p: the allocation, or NULL
 */
void *vgpu_fault_took(void *p)
{
	if (p)
		atomic_inc(&taken);
	return p;
}

/**
 * vgpu_fault_gave - count a release
 * @p: memory to be released, or NULL
 */
void vgpu_fault_gave(const void *p)
{
	if (p)
		atomic_dec(&taken);
}

/**
 * vgpu_fault_memory - set the pages that vgpu_fault_pin() pins
 * @page: the first of contiguous pages; NULL: pinning fails
 * @npages: number of pages, not 0
 */
void vgpu_fault_memory(struct page *page, unsigned int npages)
{
	fault_page = page;
	fault_npages = npages;
}

/**
 * vgpu_fault_pinned - number of pages that are pinned now
 */
int vgpu_fault_pinned(void)
{
	return atomic_read(&pinned);
}

/**
 * vgpu_fault_pin - replaces pin_user_pages_fast(): the test has no address space of a process
 * @addr: page number N stands for page N of vgpu_fault_memory(), modulo the number of pages
 * @n: pages wanted; only a third is pinned, as pin_user_pages_fast() may do
 * @flags: see vgpu_fault_pin_flags()
 * @pages: out
 */
int vgpu_fault_pin(unsigned long addr, int n, unsigned int flags, struct page **pages)
{
	int i, got = n > 2 ? n / 3 : n;

	fault_flags = flags;
	if (!fault_page || vgpu_fault_hit(GFP_KERNEL))
		return -ENOMEM;
	for (i = 0; i < got; i++) {
		pages[i] = fault_page + ((addr >> PAGE_SHIFT) + i) % fault_npages;
		atomic_inc(&pinned);
	}
	return got;
}

/**
 * vgpu_fault_unpin - replaces unpin_user_pages()
 * @pages: from vgpu_fault_pin()
 * @n: number
 */
void vgpu_fault_unpin(struct page **pages, unsigned long n)
{
	atomic_sub(n, &pinned);
}

/**
 * vgpu_fault_unpin_range - replaces unpin_user_page_range_dirty_lock()
 * @page: from vgpu_fault_pin()
 * @n: number
 * @dirty: see vgpu_fault_dirtied()
 */
void vgpu_fault_unpin_range(struct page *page, unsigned long n, bool dirty)
{
	if (dirty)
		fault_dirtied += n;
	atomic_sub(n, &pinned);
}

/**
 * vgpu_fault_pin_flags - flags of the last vgpu_fault_pin()
 */
unsigned int vgpu_fault_pin_flags(void)
{
	return fault_flags;
}

/**
 * vgpu_fault_dirtied - number of pages that were released as dirty
 */
unsigned int vgpu_fault_dirtied(void)
{
	return fault_dirtied;
}

static struct vgpu_fault_maps fault_maps;

/**
 * vgpu_fault_maps - the last changes of page tables; may be zeroed by the case
 */
struct vgpu_fault_maps *vgpu_fault_maps(void)
{
	return &fault_maps;
}

#undef unmap_mapping_range

/**
 * vgpu_fault_insert - replaces vmf_insert_pfn(): the tests have no page tables
 * @vma: ignored
 * @addr: ignored
 * @pfn: page frame
 */
vm_fault_t vgpu_fault_insert(struct vm_area_struct *vma, unsigned long addr, unsigned long pfn)
{
	fault_maps.pfn = pfn;
	return VM_FAULT_NOPAGE;
}

/**
 * vgpu_fault_apply - replaces apply_to_page_range(), see vgpu_fault_insert()
 * @mm: ignored
 * @addr: first address
 * @size: bytes
 * @fn: sets a page table entry
 * @data: for @fn
 *
 * Return: 0, or -EINVAL when @fn does not set contiguous page frames.
 */
int vgpu_fault_apply(struct mm_struct *mm, unsigned long addr, unsigned long size, pte_fn_t fn,
		     void *data)
{
	unsigned long i;

	for (i = 0; i < size >> PAGE_SHIFT; i++) {
		pte_t pte = __pte(0);

		fn(&pte, addr + (i << PAGE_SHIFT), data);
		if (!i)
			fault_maps.first = pte_pfn(pte);
		else if (pte_pfn(pte) != fault_maps.first + i)
			return -EINVAL;
	}
	fault_maps.n = i;
	return 0;
}

/**
 * vgpu_fault_unmap - records and calls unmap_mapping_range()
 * @mapping: of a file
 * @first: byte
 * @len: bytes, 0: to the end
 * @even_cows: also private copies
 */
void vgpu_fault_unmap(struct address_space *mapping, loff_t first, loff_t len, int even_cows)
{
	const unsigned int most = ARRAY_SIZE(fault_maps.unmapped);

	if (!first && !len)
		fault_maps.unmapped[fault_maps.unmaps++ % most] = mapping;
	unmap_mapping_range(mapping, first, len, even_cows);
}

static bool delivers = true;

/**
 * vgpu_fault_deliver - set whether vgpu_fault_to_user() reaches a task of the tests
 * @on: false: it fails, as for unmapped memory
 */
void vgpu_fault_deliver(bool on)
{
	delivers = on;
}

#undef copy_to_user
#undef copy_from_user

/**
 * vgpu_fault_to_user - replaces copy_to_user(): tasks of the tests have no address space
 * @to: user-space address of a process; for tasks of the tests, a kernel address
 * @from: source
 * @n: bytes
 *
 * Return: bytes that were not copied.
 */
unsigned long vgpu_fault_to_user(void __user *to, const void *from, unsigned long n)
{
	if (current->mm)
		return copy_to_user(to, from, n);
	if (!delivers)
		return n;
	memcpy((void __force *)to, from, n);
	return 0;
}

/**
 * vgpu_fault_from_user - replaces copy_from_user(), see vgpu_fault_to_user()
 * @to: destination
 * @from: address as for vgpu_fault_to_user()
 * @n: bytes
 *
 * Return: bytes that were not copied.
 */
unsigned long vgpu_fault_from_user(void *to, const void __user *from, unsigned long n)
{
	if (current->mm)
		return copy_from_user(to, from, n);
	memcpy(to, (const void __force *)from, n);
	return 0;
}

static void arm(unsigned int k)
{
	fault_fired = false;
	fault_left = k;
	fault_task = current;
}

/* Returns true if a request failed since arm(). */
static bool disarm(void)
{
	fault_task = NULL;
	fault_left = 0;
	return fault_fired;
}

static int create(struct vgpu_client *client)
{
	int err;

	mutex_lock(&client->lock);
	err = vgpu_client_create(client, "fault");
	mutex_unlock(&client->lock);
	return err;
}

static int pin(struct vgpu_client *client, u32 *region)
{
	struct vgpu_pin arg = { .addr = PAGE_SIZE, .length = VGPU_FAULT_PAGES * PAGE_SIZE };
	int err;

	mutex_lock(&client->lock);
	err = vgpu_pin(client, &arg);
	mutex_unlock(&client->lock);
	*region = arg.region;
	return err;
}

/* A client makes all calls of an ordinary program. */
static void works(struct kunit *test, struct vgpu_dev *dev)
{
	struct vgpu_client *client = vgpu_client_open(dev, NULL, NULL);

	KUNIT_ASSERT_FALSE(test, IS_ERR(client));
	KUNIT_EXPECT_EQ(test, create(client), 0);
	vgpu_client_close(client);
}

static void vgpu_fault_probe(struct kunit *test)
{
	int before = atomic_read(&taken);
	unsigned int k;
	bool fired = true;

	for (k = 1; fired && k < VGPU_FAULT_MOST; k++) {
		struct vgpu_fake *fake = vgpu_fake_new(test);
		struct vgpu_dev *dev;

		arm(k);
		KUNIT_EXPECT_EQ(test, vgpu_fake_plug(fake), 0);
		fired = disarm();
		dev = vgpu_fake_dev(fake);
		/* Refused, or fully functional. */
		if (dev)
			works(test, dev);
		else
			KUNIT_EXPECT_TRUE(test, fired);
		vgpu_fake_unplug(fake);
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(&taken), before, "refusal %u", k);
	}
	KUNIT_EXPECT_FALSE(test, fired);
	KUNIT_EXPECT_GT(test, k, 6U);
}

static void vgpu_fault_open(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	struct vgpu_client *client;
	struct vgpu_dev *dev;
	bool fired = true;
	unsigned int k;
	int before;

	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	dev = vgpu_fake_dev(fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	before = atomic_read(&taken);
	for (k = 1; fired && k < VGPU_FAULT_MOST; k++) {
		arm(k);
		client = vgpu_client_open(dev, NULL, NULL);
		fired = disarm();
		KUNIT_EXPECT_EQ(test, IS_ERR(client), fired);
		if (!IS_ERR(client))
			vgpu_client_close(client);
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(&taken), before, "refusal %u", k);
	}
	KUNIT_EXPECT_FALSE(test, fired);
	works(test, dev);
	vgpu_fake_unplug(fake);
}

static void vgpu_fault_create(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	struct vgpu_client *client;
	struct vgpu_dev *dev;
	bool fired = true;
	unsigned int k;
	int err, before;

	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	dev = vgpu_fake_dev(fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	before = atomic_read(&taken);
	for (k = 1; fired && k < VGPU_FAULT_MOST; k++) {
		client = vgpu_client_open(dev, NULL, NULL);
		KUNIT_ASSERT_FALSE(test, IS_ERR(client));
		arm(k);
		err = create(client);
		fired = disarm();
		KUNIT_EXPECT_EQ(test, err != 0, fired);
		/* The device was not reached, so CREATE may be repeated. */
		if (err)
			err = create(client);
		KUNIT_EXPECT_EQ_MSG(test, err, 0, "refusal %u", k);
		vgpu_client_close(client);
		works(test, dev);
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(&taken), before, "refusal %u", k);
	}
	KUNIT_EXPECT_FALSE(test, fired);
	KUNIT_EXPECT_GT(test, k, 4U);
	KUNIT_EXPECT_EQ(test, dev->state, VGPU_DEV_LIVE);
	vgpu_fake_unplug(fake);
}

static void vgpu_fault_pins(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	struct vgpu_client *client;
	struct vgpu_dev *dev;
	bool fired = true;
	unsigned int k;
	int err, before;
	u32 region;

	vgpu_fault_memory(alloc_page(GFP_KERNEL), 1);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fault_page);
	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	dev = vgpu_fake_dev(fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	client = vgpu_client_open(dev, NULL, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(client));
	KUNIT_ASSERT_EQ(test, create(client), 0);
	before = atomic_read(&taken);
	for (k = 1; fired && k < VGPU_FAULT_MOST; k++) {
		arm(k);
		err = pin(client, &region);
		fired = disarm();
		if (!err) {
			mutex_lock(&client->lock);
			KUNIT_EXPECT_EQ(test, vgpu_unpin(client, region), 0);
			mutex_unlock(&client->lock);
		} else {
			KUNIT_EXPECT_TRUE(test, fired);
		}
		/* Parts that the device may have stay pinned until the client ends. */
		if (client->nregions) {
			vgpu_client_close(client);
			client = vgpu_client_open(dev, NULL, NULL);
			KUNIT_ASSERT_FALSE(test, IS_ERR(client));
			KUNIT_ASSERT_EQ(test, create(client), 0);
		}
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(&pinned), 0, "refusal %u", k);
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(&taken), before, "refusal %u", k);
	}
	KUNIT_EXPECT_FALSE(test, fired);
	KUNIT_EXPECT_GT(test, k, 8U);
	vgpu_client_close(client);
	KUNIT_EXPECT_EQ(test, atomic_read(&pinned), 0);
	vgpu_fake_unplug(fake);
	__free_page(fault_page);
	vgpu_fault_memory(NULL, 1);
}

/* EXPORTs a region of a client, and IMPORTs it into another. */
static int export_import(struct vgpu_client *from, struct vgpu_client *to, u32 region)
{
	struct vgpu_export_call call = { .uapi = { .region = region, .length = 4 * PAGE_SIZE } };
	struct vgpu_import arg = { .addr = PAGE_SIZE, .length = 4 * PAGE_SIZE };
	int err;

	mutex_lock(&from->lock);
	err = vgpu_export(from, &call);
	mutex_unlock(&from->lock);
	if (err)
		return err;
	mutex_lock(&to->lock);
	err = vgpu_import_dmabuf(to, &arg, call.dmabuf);
	if (!err)
		vgpu_unpin(to, arg.region);
	mutex_unlock(&to->lock);
	vgpu_export_drop(&call);
	return err;
}

/* The kernel closes files of kernel threads asynchronously. */
static bool settles(const atomic_t *count, int want)
{
	int i;

	for (i = 0; i < 500 && atomic_read(count) != want; i++)
		msleep(20);
	return atomic_read(count) == want;
}

static void vgpu_fault_dmabuf(struct kunit *test)
{
	struct vgpu_fake *fake = vgpu_fake_new(test);
	struct vgpu_client *from, *to;
	bool fired = true;
	unsigned int k;
	int err, before;
	u32 region;

	vgpu_fault_memory(alloc_page(GFP_KERNEL), 1);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fault_page);
	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	from = vgpu_client_open(vgpu_fake_dev(fake), NULL, NULL);
	to = vgpu_client_open(vgpu_fake_dev(fake), NULL, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(from) || IS_ERR(to));
	KUNIT_ASSERT_EQ(test, create(from), 0);
	KUNIT_ASSERT_EQ(test, create(to), 0);
	KUNIT_ASSERT_EQ(test, pin(from, &region), 0);
	before = atomic_read(&taken);
	for (k = 1; fired && k < VGPU_FAULT_MOST; k++) {
		arm(k);
		err = export_import(from, to, region);
		fired = disarm();
		KUNIT_EXPECT_TRUE(test, !err || fired);
		/* Parts that the device may have are kept until the client ends. */
		if (to->nregions) {
			vgpu_client_close(to);
			to = vgpu_client_open(vgpu_fake_dev(fake), NULL, NULL);
			KUNIT_ASSERT_FALSE(test, IS_ERR(to));
			KUNIT_ASSERT_EQ(test, create(to), 0);
		}
		KUNIT_EXPECT_TRUE_MSG(test, settles(&taken, before), "refusal %u", k);
	}
	KUNIT_EXPECT_FALSE(test, fired);
	KUNIT_EXPECT_GT(test, k, 8U);
	vgpu_client_close(to);
	vgpu_client_close(from);
	KUNIT_EXPECT_TRUE(test, settles(&pinned, 0));
	vgpu_fake_unplug(fake);
	__free_page(fault_page);
	vgpu_fault_memory(NULL, 1);
}

static void vgpu_fault_recovery(struct kunit *test)
{
	int before = atomic_read(&taken);
	struct vgpu_fake *fake = vgpu_fake_new(test);
	struct vgpu_dev *dev;
	bool fired = true;
	unsigned int k;
	int err;

	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(fake), 0);
	dev = vgpu_fake_dev(fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	for (k = 1; fired && k < VGPU_FAULT_MOST; k++) {
		KUNIT_EXPECT_EQ(test, vgpu_dev_freeze(dev), 0);
		dev->next_start = jiffies; /* as after a long time down */
		arm(k);
		err = vgpu_dev_recover(dev);
		fired = disarm();
		/* The device stays down, and the next attempt restarts it. */
		if (err) {
			KUNIT_EXPECT_TRUE(test, fired);
			dev->next_start = jiffies;
			KUNIT_EXPECT_EQ_MSG(test, vgpu_dev_recover(dev), 0, "refusal %u", k);
		}
		works(test, dev);
	}
	KUNIT_EXPECT_FALSE(test, fired);
	vgpu_fake_unplug(fake);
	KUNIT_EXPECT_EQ(test, atomic_read(&taken), before);
}

static struct kunit_case vgpu_fault_cases[] = {
	KUNIT_CASE(vgpu_fault_probe),
	KUNIT_CASE(vgpu_fault_open),
	KUNIT_CASE(vgpu_fault_create),
	KUNIT_CASE(vgpu_fault_pins),
	KUNIT_CASE(vgpu_fault_dmabuf),
	KUNIT_CASE(vgpu_fault_recovery),
	{}
};

static struct kunit_suite vgpu_fault_suite = {
	.name = "vgpu_fault",
	.test_cases = vgpu_fault_cases,
};

kunit_test_suite(vgpu_fault_suite);
