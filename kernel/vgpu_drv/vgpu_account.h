/* SPDX-License-Identifier: GPL-2.0-only */
/* Pages that a user has pinned, over all of its processes, files and devices: see vgpu_account.c. */
#ifndef VGPU_ACCOUNT_H
#define VGPU_ACCOUNT_H

#include <linux/device.h>
#include <linux/uidgid.h>

/**
 * struct vgpu_account - a user with pinned pages
 * @uid: the user
 * @npages: pages that are charged, not 0 while the account is listed
 */
struct vgpu_account {
	kuid_t uid;
	u64 npages;
};

u64 vgpu_account_limit(void);
struct vgpu_account *vgpu_account_charge(struct device *dev, u64 npages);
void vgpu_account_uncharge(struct vgpu_account *account, u64 npages);
u64 vgpu_account_pages(kuid_t uid);

#endif
