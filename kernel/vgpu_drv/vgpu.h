/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vgpu_drv: internal structures. README.md describes contexts and lock order.
 */
#ifndef VGPU_H
#define VGPU_H

#include <linux/completion.h>
#include <linux/dma-buf.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/virtio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "uapi/vgpu_device.h"
#include "uapi/vgpu_ioctl.h"

#include "vgpu_check.h"
#include "vgpu_id.h"
#include "vgpu_runs.h"

/*
 * mmap offsets, deliberately constant: a caller that ignores the offsets of CREATE_CLIENT and maps
 * offset 0 is refused. The distance bounds window_size (VGPU_WINDOW_MAX). mmap2() of a 32-bit
 * program has 32 bits for the page number, so both offsets are below 2^44.
 */
#define VGPU_WINDOW_OFFSET BIT_ULL(40)
#define VGPU_DOORBELL_OFFSET BIT_ULL(43)

/* Event buffers on queue 1: at most one WAKE per client is outstanding. */
#define VGPU_EVENT_BUFFERS 64

/* Events handled per interrupt; if the device floods the queue, a work item handles the rest. */
#define VGPU_EVENT_BUDGET 32

/*
 * Runs in one PIN request, in addition to the device's own limit: the request is a single kmalloc()
 * of at most 16 KiB, which does not fail for lack of contiguous memory.
 */
#define VGPU_RUNS_PER_REQUEST 1020

/**
 * enum vgpu_dev_state - life of a device
 * @VGPU_DEV_DOWN: reset; no queues. The first ioctl of a new file tries to start it again.
 * @VGPU_DEV_LIVE: queues run
 * @VGPU_DEV_LOST: failed; the reset that ends its access to memory is pending
 * @VGPU_DEV_GONE: reset and removed for good; the object lives until the last file is closed
 */
enum vgpu_dev_state {
	VGPU_DEV_DOWN,
	VGPU_DEV_LIVE,
	VGPU_DEV_LOST,
	VGPU_DEV_GONE,
};

/**
 * struct vgpu_dev - one vgpu-cuda device
 * @ref: a reference for the driver's binding, plus one per open file
 * @vdev: the virtio device; a reference on its struct device is held until the last file is closed;
 *	not accessed once @state is VGPU_DEV_GONE
 * @dma_dev: the device on the bus, referenced: exporters of dma-bufs map memory for it
 * @misc: /dev/vgpu<@index>
 * @index: number of the device file
 * @name: "vgpu<@index>"
 * @res: location of the windows and the doorbells
 * @cfg: the device's limits, fixed while LIVE
 * @lock: taken in interrupts; protects the fields down to @by_slot and each client's state
 * @state: see enum vgpu_dev_state
 * @ctl: control queue, NULL without queues
 * @ev: event queue, NULL without queues
 * @depth: capacity of @ctl in requests
 * @inflight: requests in @ctl
 * @reqs: the requests in @ctl
 * @answers: counts answers, to tell a live device from a lost one
 * @has_ping: the device serves PING, so a single unanswered request does not mean that it is lost
 * @pinging: a PING is in @ctl
 * @zombies: ended clients with a slot and pins that the device may still use
 * @nzombies: number of zombies, including those that the reaper has taken off the list
 * @events: @nevents buffers on @ev
 * @nevents: number of @events
 * @slots: the client slots in use
 * @by_slot: the client of a slot, NULL while it has none or is being closed
 * @wq: woken when @state changes or a place in @ctl becomes free
 * @event_work: handles events beyond VGPU_EVENT_BUDGET
 * @reset_work: checks the device's status; ends a LOST device
 * @reap_work: frees the resources of @zombies after the device has confirmed their end
 * @reap_mutex: one reaper at a time
 * @mutex: start, stop and the list of clients
 * @clients: every open file that has requested a slot
 * @next_start: earliest time of the next attempt to restart the device, jiffies
 * @map_sem: read: a page fault installs device pages; write: waits for such faults before zapping
 */
struct vgpu_dev {
	struct kref ref;
	struct virtio_device *vdev;
	struct device *dma_dev;
	struct miscdevice misc;
	int index;
	char name[16];
	struct vgpu_res res;
	struct vgpu_cfg cfg;

	spinlock_t lock; /* see above */
	enum vgpu_dev_state state;
	struct virtqueue *ctl;
	struct virtqueue *ev;
	unsigned int depth;
	unsigned int inflight;
	struct list_head reqs;
	u32 answers;
	bool has_ping;
	bool pinging;
	struct list_head zombies;
	unsigned int nzombies;
	struct vgpu_event *events;
	unsigned int nevents;
	struct vgpu_ids slots;
	struct vgpu_client *by_slot[VGPU_MAX_CLIENTS];

	wait_queue_head_t wq;
	struct work_struct event_work;
	struct work_struct reset_work;
	struct work_struct reap_work;
	struct mutex reap_mutex; /* see above */

	struct mutex mutex; /* see above */
	struct list_head clients;
	unsigned long next_start;

	struct rw_semaphore map_sem;
};

/**
 * struct vgpu_client - one open file
 * @dev: the device, referenced
 * @mm: the address space that opened the file, referenced with mmgrab(); NULL in unit tests
 * @mapping: of the file, to unmap device pages; NULL after the file is closed; under dev->mutex
 * @notifier: on @mm, ends the client with its address space
 * @notified: @notifier is registered; under @lock
 * @end_work: ends the client when @mm ends
 * @uid: user that opened the file, for the limit of slots per user
 * @exempt: not subject to the limit of slots per user
 * @node: in dev->clients
 * @lock: serialises create, pin, unpin and end
 * @ended: vgpu_client_end() has run; under @lock
 * @destroy: the request that ends the worker, in @orphans; under @lock
 * @zombie: in dev->zombies; under dev->lock
 * @closed: the file is closed, and the reaper frees the client; under dev->lock
 * @znode: in dev->zombies
 * @state: under dev->lock
 * @slot: valid while @attached
 * @attached: the client owns @slot; under dev->lock
 * @served: the worker has served, a condition for mapping the window; under dev->lock
 * @reason: enum vgpu_dead_reason, 0 while alive; under dev->lock
 * @wake_seq: counts wakes; under dev->lock
 * @wq: sleepers of VGPU_IOCTL_WAIT
 * @orphans: requests that were sent and have lost their waiter; under @lock
 * @regions: struct vgpu_region by id; under @lock
 * @next_region: start of the search for a free id
 * @nregions: number of @regions
 * @kept: regions unmapped by the worker that unpin_keep holds until the client ends, with a
 *	reference each; under @lock
 * @blanks: pages that stand in for device pages after the device was lost
 */
struct vgpu_client {
	struct vgpu_dev *dev;
	struct mm_struct *mm;
	struct address_space *mapping;
#if IS_ENABLED(CONFIG_MMU_NOTIFIER)
	struct mmu_notifier notifier;
#endif
	bool notified;
	struct work_struct end_work;
	kuid_t uid;
	bool exempt;
	struct list_head node;
	struct mutex lock; /* see above */
	bool ended;
	struct vgpu_req *destroy;
	bool zombie;
	bool closed;
	struct list_head znode;

	enum vgpu_client_state state;
	u32 slot;
	bool attached;
	bool served;
	u32 reason;
	u64 wake_seq;
	wait_queue_head_t wq;

	struct list_head orphans;
	struct xarray regions;
	u32 next_region;
	u32 nregions;
	struct list_head kept;
	struct xarray blanks;
};

/**
 * struct vgpu_req - a request on the control queue
 * @ref: a reference for the caller, plus one while the request is queued; the last put frees the
 *	buffers
 * @client: client that the request is about; sent only while the client owns its slot; NULL for
 *	PING
 * @node: in dev->reqs while queued
 * @orphan: in client->orphans
 * @sent: the request was put into the queue
 * @done: completed when answered or when the device is lost
 * @result: -EINPROGRESS, 0 when answered, -ENODEV when the device was lost first
 * @used: bytes that the device claims to have written
 * @cmd: the request, @cmd_len bytes
 * @resp: the answer, zeroed, @resp_len bytes
 * @cmd_len: bytes
 * @resp_len: bytes
 */
struct vgpu_req {
	struct kref ref;
	struct vgpu_client *client;
	struct list_head node;
	struct list_head orphan;
	bool sent;
	struct completion done;
	int result;
	u32 used;
	void *cmd;
	void *resp;
	u32 cmd_len;
	u32 resp_len;
};

/**
 * struct vgpu_account - a user with pinned pages, over all processes, files and devices
 * @uid: the user
 * @npages: pages charged, not 0 while the account is listed
 */
struct vgpu_account {
	kuid_t uid;
	u64 npages;
};

/**
 * struct vgpu_region - memory of a client that its worker also maps: pinned or imported
 * @ref: a reference for the client while the region is in client->regions, plus one per dma-buf
 * @runs: its pages
 * @id: in client->regions
 * @account: of the user to whom the pages are charged until released
 * @charged: pages charged to @account
 * @dirty: the worker may have written: pages are marked dirty on release
 * @stuck: a request for the region has no answer: only the end of the client releases it
 * @told: part of the region was sent to the device
 * @kept: in client->kept
 * @attach: imported: the attachment to the dma-buf that owns the pages, else NULL
 * @sgt: imported: the mapping of @attach
 */
struct vgpu_region {
	struct kref ref;
	struct vgpu_runs runs;
	u32 id;
	struct vgpu_account *account;
	u64 charged;
	bool dirty;
	bool stuck;
	bool told;
	struct list_head kept;
	struct dma_buf_attachment *attach;
	struct sg_table *sgt;
};

/**
 * struct vgpu_export_call - VGPU_IOCTL_EXPORT in progress
 * @uapi: the user-space structure; the first member
 * @dmabuf: created, but not yet in the caller's descriptor table
 */
struct vgpu_export_call {
	struct vgpu_export uapi;
	struct dma_buf *dmabuf;
};

/* vgpu_main.c: module parameters */
extern unsigned int vgpu_timeout_ms;
extern unsigned int vgpu_clients_per_user;
extern unsigned int vgpu_pin_limit_mib;
extern bool vgpu_unpin_keep;
int vgpu_timeout_set(const char *text, const struct kernel_param *param);
int vgpu_validate(struct virtio_device *vdev);

/* vgpu_res.c */
int vgpu_res_get(struct virtio_device *vdev, struct vgpu_res *res);
int vgpu_cfg_get(struct virtio_device *vdev, struct vgpu_cfg *cfg);
int vgpu_guest_ok(struct virtio_device *vdev);
#ifdef CONFIG_VGPU_CUDA_KUNIT_TEST
extern const struct vgpu_res *vgpu_res_for_test;
extern bool vgpu_encrypted_for_test;
#endif

/* vgpu_dev.c */
struct vgpu_dev *vgpu_dev_create(struct virtio_device *vdev, const struct vgpu_res *res);
void vgpu_dev_put(struct vgpu_dev *dev);
int vgpu_dev_start(struct vgpu_dev *dev);
void vgpu_dev_stop(struct vgpu_dev *dev, enum vgpu_dev_state state);
int vgpu_dev_freeze(struct vgpu_dev *dev);
int vgpu_dev_recover(struct vgpu_dev *dev);
void vgpu_dev_lost(struct vgpu_dev *dev, const char *why);
void vgpu_dev_remove(struct vgpu_dev *dev);

/* vgpu_vq.c */
struct vgpu_req *vgpu_req_alloc(struct vgpu_client *client, u32 type, u32 cmd_len, u32 resp_len);
void vgpu_req_put(struct vgpu_req *req);
int vgpu_req_queue(struct vgpu_dev *dev, struct vgpu_req *req);
int vgpu_req_run(struct vgpu_dev *dev, struct vgpu_req *req, bool killable);
int vgpu_req_status(struct vgpu_dev *dev, struct vgpu_req *req, void *resp, u32 *status);
void vgpu_ctl_callback(struct virtqueue *vq);
void vgpu_ctl_fail_locked(struct vgpu_dev *dev);
void vgpu_ctl_drop(struct vgpu_dev *dev);
void vgpu_event_callback(struct virtqueue *vq);
void vgpu_event_work(struct work_struct *work);
int vgpu_events_alloc(struct vgpu_dev *dev);
void vgpu_events_poll(struct vgpu_dev *dev);
void vgpu_events_drop(struct vgpu_dev *dev);

/* vgpu_client.c */
struct vgpu_client *vgpu_client_open(struct vgpu_dev *dev, struct mm_struct *mm,
				     struct address_space *mapping);
void vgpu_client_close(struct vgpu_client *client);
void vgpu_client_mm_gone(struct vgpu_client *client);
void vgpu_reap(struct vgpu_dev *dev);
void vgpu_reap_work(struct work_struct *work);
int vgpu_client_create(struct vgpu_client *client, const char *label);
int vgpu_client_usable(struct vgpu_client *client);
int vgpu_client_wait(struct vgpu_client *client, u64 seen, s64 deadline_ns, u64 *seq, u32 *reason);
int vgpu_client_call(struct vgpu_client *client, struct vgpu_req *req, bool killable);
void vgpu_client_wake_locked(struct vgpu_client *client);
void vgpu_client_die_locked(struct vgpu_client *client, u32 reason);

/* vgpu_account.c */
kuid_t vgpu_user_of(kuid_t uid, const struct user_namespace *ns);
kuid_t vgpu_user(void);
u64 vgpu_account_limit(void);
struct vgpu_account *vgpu_account_charge(struct device *dev, u64 npages);
void vgpu_account_uncharge(struct vgpu_account *account, u64 npages);
u64 vgpu_account_pages(kuid_t uid);

/* vgpu_pin.c */
int vgpu_pin(struct vgpu_client *client, struct vgpu_pin *arg);
int vgpu_unpin(struct vgpu_client *client, u32 id);
void vgpu_unpin_all(struct vgpu_client *client);
int vgpu_pin_allowed(struct vgpu_client *client, u64 addr, u64 length);
struct vgpu_region *vgpu_region_new(struct vgpu_client *client, u64 npages, u32 flags);
int vgpu_region_enter(struct vgpu_client *client, struct vgpu_region *region, struct vgpu_pin *arg);
void vgpu_region_put(struct vgpu_region *region);

/* vgpu_export.c */
int vgpu_export(struct vgpu_client *client, struct vgpu_export_call *call);
void vgpu_export_install(struct vgpu_export_call *call);
void vgpu_export_drop(struct vgpu_export_call *call);

/* vgpu_import.c */
int vgpu_import(struct vgpu_client *client, struct vgpu_import *arg);
int vgpu_import_dmabuf(struct vgpu_client *client, struct vgpu_import *arg, struct dma_buf *dmabuf);
void vgpu_import_release(struct vgpu_region *region);

/* vgpu_map.c */
int vgpu_map_allowed(struct vgpu_client *client);
int vgpu_map(struct vgpu_client *client, struct vm_area_struct *vma);
void vgpu_map_zap(struct vgpu_dev *dev);
void vgpu_map_free_blanks(struct vgpu_client *client);

/* vgpu_ioctl.c */
long vgpu_ioctl(struct vgpu_client *client, unsigned int cmd, void __user *arg);

/* vgpu_file.c */
extern const struct file_operations vgpu_fops;

#include "vgpu_fault.h"

#endif
