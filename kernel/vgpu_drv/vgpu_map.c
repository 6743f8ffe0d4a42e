// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: mappings of the window and the doorbell
 *
 * Device pages are installed by page faults only, so that a single place checks whether the client
 * still owns its slot (under dev->map_sem). When the device is lost they are unmapped, and the next
 * access gets a private zero page: the process continues and learns the reason from
 * VGPU_IOCTL_WAIT, instead of being killed by SIGBUS, and the slot can be reused.
 *
 * The window is RAM of the host and must be mapped write-back. x86 would map it uncached where the
 * firmware's MTRRs say "uncached" for the PCI hole (pat_x_mtrr_type()), and some hosts honour that,
 * which makes it a hundred times slower. The page table entries are therefore written without PAT
 * tracking, as i915 does for its own apertures (remap_io_mapping()).
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>

#include "vgpu.h"
#include "vgpu_compat.h"

#define VGPU_WINDOW_PGOFF (VGPU_WINDOW_OFFSET >> PAGE_SHIFT)
#define VGPU_DOORBELL_PGOFF (VGPU_DOORBELL_OFFSET >> PAGE_SHIFT)

struct vgpu_install {
	unsigned long pfn;
	pgprot_t prot;
	struct mm_struct *mm;
};

static int vgpu_install_pte(pte_t *pte, unsigned long addr, void *data)
{
	struct vgpu_install *in = data;

	if (pte_none(*pte))
		set_pte_at(in->mm, addr, pte, pte_mkspecial(pfn_pte(in->pfn, in->prot)));
	in->pfn++;
	return 0;
}

/* Installs the whole window at once: all of it will be used, and a fault is expensive in a VM. */
static vm_fault_t vgpu_fault_window(struct vm_fault *vmf, struct vgpu_client *client)
{
	struct vm_area_struct *vma = vmf->vma;
	struct vgpu_dev *dev = client->dev;
	u64 phys = dev->res.windows + client->slot * dev->cfg.window_size;
	struct vgpu_install in = {
		.pfn = (phys >> PAGE_SHIFT) + vma->vm_pgoff - VGPU_WINDOW_PGOFF,
		.prot = vma->vm_page_prot,
		.mm = vma->vm_mm,
	};

	if (apply_to_page_range(vma->vm_mm, vma->vm_start, vma->vm_end - vma->vm_start,
				vgpu_install_pte, &in))
		return VM_FAULT_OOM;
	return VM_FAULT_NOPAGE;
}

static vm_fault_t vgpu_fault_doorbell(struct vm_fault *vmf, struct vgpu_client *client)
{
	struct vgpu_res *res = &client->dev->res;
	u64 phys = res->notify + vgpu_doorbell_off(res, client->slot);

	return vmf_insert_pfn(vmf->vma, vmf->address & PAGE_MASK, phys >> PAGE_SHIFT);
}

static vm_fault_t vgpu_fault_blank(struct vm_fault *vmf, struct vgpu_client *client)
{
	struct page *page = xa_load(&client->blanks, vmf->pgoff), *old;

	if (!page) {
		page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!page)
			return VM_FAULT_OOM;
		old = xa_cmpxchg(&client->blanks, vmf->pgoff, NULL, page, GFP_KERNEL_ACCOUNT);
		if (old) {
			__free_page(page);
			if (xa_is_err(old))
				return VM_FAULT_OOM;
			page = old;
		}
	}
	return vmf_insert_pfn(vmf->vma, vmf->address & PAGE_MASK, page_to_pfn(page));
}

static vm_fault_t vgpu_fault(struct vm_fault *vmf)
{
	struct vgpu_client *client = vmf->vma->vm_private_data;
	struct vgpu_dev *dev = client->dev;
	vm_fault_t ret;

	down_read(&dev->map_sem);
	if (!READ_ONCE(client->attached) || !READ_ONCE(client->served))
		ret = vgpu_fault_blank(vmf, client);
	else if (vmf->pgoff >= VGPU_DOORBELL_PGOFF)
		ret = vgpu_fault_doorbell(vmf, client);
	else
		ret = vgpu_fault_window(vmf, client);
	up_read(&dev->map_sem);
	return ret;
}

static const struct vm_operations_struct vgpu_vm_ops = {
	.fault = vgpu_fault,
};

/**
 * vgpu_map_allowed - check that a client may map its window and doorbell
 * @client: the client
 *
 * The window of a dead worker may still be read. If the worker died before serving, the window must
 * not be mapped: CREATE is refused then, and the slot goes to another client while this file is
 * open.
 *
 * Return: 0, -ENXIO before CREATE_CLIENT, -ENODEV when the device is gone.
 */
int vgpu_map_allowed(struct vgpu_client *client)
{
	int err = vgpu_client_usable(client);

	if (err == -ENODEV && READ_ONCE(client->attached) && READ_ONCE(client->served))
		return 0;
	return err;
}

/**
 * vgpu_map - mmap() of the window or the doorbell
 * @client: the client; keeps the slot as long as the mapping exists, since the mapping holds the
 *	file
 * @vma: the new mapping
 *
 * Return: 0, -ENXIO before CREATE_CLIENT, -ENODEV when the device is gone, -EINVAL, -EPERM.
 */
int vgpu_map(struct vgpu_client *client, struct vm_area_struct *vma)
{
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	int err = vgpu_map_allowed(client);

	if (err)
		return err;
	err = vgpu_check_mmap(offset, vma->vm_end - vma->vm_start, vma->vm_flags,
			      client->dev->cfg.window_size);
	if (err)
		return err;
	/* Not inherited by fork(): a child must not write to its parent's ring. */
	vgpu_vm_flags(vma, VM_IO | VM_PFNMAP | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		      VM_MAYEXEC);
	if (offset == VGPU_DOORBELL_OFFSET)
		vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
	vma->vm_private_data = client;
	vma->vm_ops = &vgpu_vm_ops;
	return 0;
}

/**
 * vgpu_map_zap - unmap all device pages of clients that lost their slot
 * @dev: the device, dev->mutex held
 */
void vgpu_map_zap(struct vgpu_dev *dev)
{
	struct vgpu_client *client;

	lockdep_assert_held(&dev->mutex);
	/* Waits for faults that still saw a slot to install their page. */
	down_write(&dev->map_sem);
	up_write(&dev->map_sem);
	list_for_each_entry(client, &dev->clients, node)
		if (client->mapping)
			unmap_mapping_range(client->mapping, 0, 0, 1);
}

/**
 * vgpu_map_free_blanks - free the zero pages of a client without mappings
 * @client: the client
 */
void vgpu_map_free_blanks(struct vgpu_client *client)
{
	struct page *page;
	unsigned long i;

	xa_for_each(&client->blanks, i, page)
		__free_page(page);
	xa_destroy(&client->blanks);
}
