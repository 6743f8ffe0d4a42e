// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: accounts of pinned pages
 *
 * Pinned pages cannot be reclaimed, and a dma-buf of them outlives the process. The driver
 * therefore charges them to the user that pinned them, over all processes, files and devices of the
 * user, from PIN or IMPORT until the pages are released, and bounds the sum by the module parameter
 * pin_limit_mib. RLIMIT_MEMLOCK does not apply: it is a limit per process, and a value high enough
 * for a GPU is too high for every other use that it bounds.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <linux/xarray.h>

#include "vgpu.h"

/* Accounts by uid. An account is listed as long as pages are charged to it. */
static DEFINE_XARRAY(vgpu_accounts);
/* Protects vgpu_accounts and the accounts in it. Innermost lock. */
static DEFINE_MUTEX(vgpu_accounts_mutex);

/**
 * vgpu_account_limit - maximum number of pages pinned by a user
 */
u64 vgpu_account_limit(void)
{
	unsigned int mib = READ_ONCE(vgpu_pin_limit_mib);

	return mib ? (u64)mib << (20 - PAGE_SHIFT) : totalram_pages() / 2;
}

/**
 * vgpu_user_of - user that a process is accounted to
 * @uid: of the process
 * @ns: its user namespace
 *
 * A user with subordinate ids (/etc/subuid) in a namespace of its own is a single user: the owner
 * of the outermost namespace not created by root. In namespaces created by root (containers), each
 * uid is a user.
 */
kuid_t vgpu_user_of(kuid_t uid, const struct user_namespace *ns)
{
	for (; ns->parent; ns = ns->parent)
		if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
			uid = ns->owner;
	return uid;
}

/**
 * vgpu_user - user that the calling process is accounted to
 */
kuid_t vgpu_user(void)
{
	return vgpu_user_of(current_uid(), current_cred()->user_ns);
}

static struct vgpu_account *vgpu_account_get(kuid_t uid)
{
	struct vgpu_account *account = xa_load(&vgpu_accounts, __kuid_val(uid));

	lockdep_assert_held(&vgpu_accounts_mutex);
	if (account)
		return account;
	account = kzalloc(sizeof(*account), GFP_KERNEL_ACCOUNT);
	if (!account)
		return NULL;
	account->uid = uid;
	if (!xa_is_err(xa_store(&vgpu_accounts, __kuid_val(uid), account, GFP_KERNEL_ACCOUNT)))
		return account;
	kfree(account);
	return NULL;
}

/* Frees the account when no page is charged to it any more. */
static void vgpu_account_put(struct vgpu_account *account)
{
	lockdep_assert_held(&vgpu_accounts_mutex);
	if (account->npages)
		return;
	xa_erase(&vgpu_accounts, __kuid_val(account->uid));
	kfree(account);
}

/**
 * vgpu_account_charge - charges pages to the calling user
 * @dev: for the log
 * @npages: pages, not 0
 *
 * Return: the account, for vgpu_account_uncharge(). -ENOBUFS: the user would have more than
 * vgpu_account_limit(), and the caller has no CAP_IPC_LOCK. -ENOMEM.
 */
struct vgpu_account *vgpu_account_charge(struct device *dev, u64 npages)
{
	u64 limit = vgpu_account_limit();
	struct vgpu_account *account;
	kuid_t user = vgpu_user();
	u64 before;
	bool over;

	mutex_lock(&vgpu_accounts_mutex);
	account = vgpu_account_get(user);
	if (!account) {
		mutex_unlock(&vgpu_accounts_mutex);
		return ERR_PTR(-ENOMEM);
	}
	before = account->npages;
	over = (npages > limit || before > limit - npages) && !capable(CAP_IPC_LOCK);
	if (over)
		vgpu_account_put(account);
	else
		account->npages += npages;
	mutex_unlock(&vgpu_accounts_mutex);
	if (!over)
		return account;
	dev_warn_ratelimited(dev, "user %u may not pin %llu KiB beside %llu KiB: the limit is %llu MiB (pin_limit_mib of vgpu_drv)\n",
			     __kuid_val(user), npages << (PAGE_SHIFT - 10),
			     before << (PAGE_SHIFT - 10), limit >> (20 - PAGE_SHIFT));
	return ERR_PTR(-ENOBUFS);
}

/**
 * vgpu_account_uncharge - undo vgpu_account_charge()
 * @account: return value of vgpu_account_charge(); may be freed
 * @npages: the same number
 */
void vgpu_account_uncharge(struct vgpu_account *account, u64 npages)
{
	mutex_lock(&vgpu_accounts_mutex);
	account->npages -= npages;
	vgpu_account_put(account);
	mutex_unlock(&vgpu_accounts_mutex);
}

/**
 * vgpu_account_pages - pages that are charged to a user now
 * @uid: the user
 */
u64 vgpu_account_pages(kuid_t uid)
{
	struct vgpu_account *account;
	u64 npages = 0;

	mutex_lock(&vgpu_accounts_mutex);
	account = xa_load(&vgpu_accounts, __kuid_val(uid));
	if (account)
		npages = account->npages;
	mutex_unlock(&vgpu_accounts_mutex);
	return npages;
}
