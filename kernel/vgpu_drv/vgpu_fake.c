// SPDX-License-Identifier: GPL-2.0-only
/* Implements the device of vgpu_fake.h. */
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/virtio_config.h>

#include "vgpu_compat.h"
#include "vgpu_fake.h"

static struct vgpu_fake *to_fake(struct virtio_device *vdev)
{
	return container_of(vdev, struct vgpu_fake, vdev);
}

static void fake_get(struct virtio_device *vdev, unsigned int off, void *buf, unsigned int len)
{
	memcpy(buf, (u8 *)&to_fake(vdev)->config + off, len);
}

static u8 fake_get_status(struct virtio_device *vdev)
{
	return to_fake(vdev)->status;
}

static void fake_set_status(struct virtio_device *vdev, u8 status)
{
	to_fake(vdev)->status = status;
}

static void fake_reset(struct virtio_device *vdev)
{
	struct vgpu_fake *fake = to_fake(vdev);

	cancel_work_sync(&fake->kick);
	fake->status = 0;
	fake->nkept = 0;
	fake->resets++;
}

static u64 fake_get_features(struct virtio_device *vdev)
{
	return to_fake(vdev)->offered;
}

static int fake_finalize(struct virtio_device *vdev)
{
	vring_transport_features(vdev);
	return 0;
}

static const char *fake_bus_name(struct virtio_device *vdev)
{
	return "vgpu-fake";
}

static bool fake_notify(struct virtqueue *vq)
{
	struct vgpu_fake *fake = to_fake(vq->vdev);

	/*
	 * The driver holds its lock, so the device answers in a work item, as asynchronously as a
	 * real device.
	 */
	if (vq->index == VGPU_VQ_CONTROL && !fake->hold)
		schedule_work(&fake->kick);
	if (vq->index == VGPU_VQ_EVENT && fake->echoes) {
		struct vgpu_event wake = { .type = cpu_to_le32(VGPU_EV_WAKE) };

		fake->echoes--;
		vgpu_fake_event(fake, &wake, sizeof(wake));
	}
	return true;
}

static void fake_del_vqs(struct virtio_device *vdev)
{
	struct vgpu_fake *fake = to_fake(vdev);

	cancel_work_sync(&fake->kick);
	while (fake->nvqs) {
		struct vgpu_fake_vq *q = &fake->vq[--fake->nvqs];

		vring_del_virtqueue(q->vq);
		free_pages_exact(q->pages, vring_size(fake->vring_num, PAGE_SIZE));
	}
}

int vgpu_fake_make_vqs(struct virtio_device *vdev, unsigned int n, struct virtqueue **vqs,
		       const struct vgpu_vq_spec *spec)
{
	struct vgpu_fake *fake = to_fake(vdev);
	unsigned int i;

	if (fake->find_vqs_err)
		return fake->find_vqs_err;
	for (i = 0; i < n; i++) {
		struct vgpu_fake_vq *q = &fake->vq[i];
		size_t size = vring_size(fake->vring_num, PAGE_SIZE);

		memset(q, 0, sizeof(*q));
		q->pages = alloc_pages_exact(size, GFP_KERNEL | __GFP_ZERO);
		if (!q->pages)
			goto undo;
		vring_init(&q->ring, fake->vring_num, q->pages, PAGE_SIZE);
		q->vq = vring_new_virtqueue(i, fake->vring_num, PAGE_SIZE, vdev, true, false,
					    q->pages, fake_notify, spec[i].callback,
					    spec[i].name);
		if (!q->vq) {
			free_pages_exact(q->pages, size);
			goto undo;
		}
		vqs[i] = q->vq;
		fake->nvqs++;
	}
	return 0;
undo:
	fake_del_vqs(vdev);
	return -ENOMEM;
}

static const struct virtio_config_ops fake_ops = {
	.get = fake_get,
	.get_status = fake_get_status,
	.set_status = fake_set_status,
	.reset = fake_reset,
	.get_features = fake_get_features,
	.finalize_features = fake_finalize,
	.bus_name = fake_bus_name,
	.find_vqs = vgpu_fake_find_vqs,
	.del_vqs = fake_del_vqs,
};

static void fake_used(struct vgpu_fake_vq *q, u32 id, u32 len)
{
	u16 idx = le16_to_cpu((__force __le16)q->ring.used->idx);
	struct vring_used_elem *elem = &q->ring.used->ring[idx % q->ring.num];

	elem->id = (__force __virtio32)cpu_to_le32(id);
	elem->len = (__force __virtio32)cpu_to_le32(len);
	smp_wmb(); /* the entry before the index */
	q->ring.used->idx = (__force __virtio16)cpu_to_le16(idx + 1);
}

/* Return: the head of the next available chain, or -1. */
static int fake_avail(struct vgpu_fake_vq *q)
{
	u16 idx = le16_to_cpu((__force __le16)READ_ONCE(q->ring.avail->idx));

	smp_rmb(); /* the index before the entry */
	if (idx == q->avail)
		return -1;
	return le16_to_cpu((__force __le16)q->ring.avail->ring[q->avail++ % q->ring.num]);
}

static struct vring_desc *fake_desc(struct vgpu_fake_vq *q, u32 id)
{
	return &q->ring.desc[id];
}

static void *fake_buf(struct vring_desc *desc)
{
	return phys_to_virt(le64_to_cpu((__force __le64)desc->addr));
}

static void fake_interrupt(struct vgpu_fake_vq *q)
{
	unsigned long flags;

	local_irq_save(flags);
	vring_interrupt(0, q->vq);
	local_irq_restore(flags);
}

static u32 fake_default_answer(const struct vgpu_cmd_hdr *cmd, void *resp, u32 resp_len)
{
	const struct vgpu_cmd_pin *pin = container_of(cmd, struct vgpu_cmd_pin, hdr);
	struct vgpu_resp_pin *out = resp;

	if (cmd->type == cpu_to_le32(VGPU_CMD_PIN) &&
	    !(pin->pin_flags & cpu_to_le32(VGPU_PIN_MORE)))
		out->worker_va = cpu_to_le64(le64_to_cpu(pin->va) + VGPU_FAKE_VA);
	return resp_len;
}

static void fake_serve(struct work_struct *work)
{
	struct vgpu_fake *fake = container_of(work, struct vgpu_fake, kick);
	struct vgpu_fake_vq *q = &fake->vq[VGPU_VQ_CONTROL];
	bool irq = false;
	int head;

	if (!fake->nvqs)
		return;
	while ((head = fake_avail(q)) >= 0) {
		struct vring_desc *in, *out = fake_desc(q, head);
		struct vgpu_cmd_hdr *cmd = fake_buf(out);
		u32 resp_len, used;

		in = fake_desc(q, le16_to_cpu((__force __le16)out->next));
		resp_len = le32_to_cpu((__force __le32)in->len);
		fake->requests++;
		fake->count[le32_to_cpu(cmd->type) % ARRAY_SIZE(fake->count)]++;
		if (cmd->type == cpu_to_le32(VGPU_CMD_PIN))
			memcpy(&fake->last_pin, cmd, sizeof(fake->last_pin));
		used = fake->answer ? fake->answer(fake, cmd, fake_buf(in), resp_len) :
				      fake_default_answer(cmd, fake_buf(in), resp_len);
		if (used == VGPU_FAKE_SILENT) {
			if (fake->nkept < ARRAY_SIZE(fake->kept))
				fake->kept[fake->nkept++] = (struct vgpu_fake_kept){
					head, fake_buf(in), resp_len
				};
			continue;
		}
		fake_used(q, fake->bad_id >= 0 ? fake->bad_id : head, used);
		irq = true;
	}
	if (irq)
		fake_interrupt(q);
}

/**
 * vgpu_fake_kick - process the control queue
 * @fake: the device
 */
void vgpu_fake_kick(struct vgpu_fake *fake)
{
	schedule_work(&fake->kick);
	flush_work(&fake->kick);
}

/**
 * vgpu_fake_answer_kept - answer requests that were left without an answer
 * @fake: the device, not reset since
 * @status: enum vgpu_status
 */
void vgpu_fake_answer_kept(struct vgpu_fake *fake, u32 status)
{
	struct vgpu_fake_vq *q = &fake->vq[VGPU_VQ_CONTROL];
	struct vgpu_fake_kept *kept;

	flush_work(&fake->kick);
	while (fake->nkept) {
		kept = &fake->kept[--fake->nkept];
		((struct vgpu_resp_hdr *)kept->resp)->status = cpu_to_le32(status);
		fake_used(q, kept->head, kept->resp_len);
	}
	fake_interrupt(q);
}

/**
 * vgpu_fake_event - put an event on the event queue, without an interrupt
 * @fake: the device
 * @event: contents of the driver's buffer
 * @used: bytes that the device claims to have written
 *
 * Return: false when the queue has no buffer.
 */
bool vgpu_fake_event(struct vgpu_fake *fake, const struct vgpu_event *event, u32 used)
{
	struct vgpu_fake_vq *q = &fake->vq[VGPU_VQ_EVENT];
	int head = fake_avail(q);

	if (head < 0)
		return false;
	memcpy(fake_buf(fake_desc(q, head)), event, sizeof(*event));
	fake_used(q, head, used);
	return true;
}

/**
 * vgpu_fake_event_irq - raise the interrupt of the event queue
 * @fake: the device
 */
void vgpu_fake_event_irq(struct vgpu_fake *fake)
{
	fake_interrupt(&fake->vq[VGPU_VQ_EVENT]);
}

static void fake_release(struct device *dev)
{
	kfree(container_of(dev, struct vgpu_fake, vdev.dev));
}

/**
 * vgpu_fake_new - allocate a device that follows the ABI, not plugged in
 * @test: the case; fails without memory
 */
struct vgpu_fake *vgpu_fake_new(struct kunit *test)
{
	struct vgpu_fake *fake = kzalloc(sizeof(*fake), GFP_KERNEL);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fake);
	fake->config = (struct vgpu_config){
		.magic = cpu_to_le32(VGPU_CONFIG_MAGIC),
		.abi_version = cpu_to_le32(VGPU_DEVICE_ABI_VERSION),
		.max_clients = cpu_to_le32(VGPU_FAKE_CLIENTS),
		.max_pin_runs = cpu_to_le32(VGPU_FAKE_RUNS),
		.window_size = cpu_to_le64(VGPU_WINDOW_MIN),
	};
	fake->offered = BIT_ULL(VIRTIO_F_VERSION_1) | BIT_ULL(VGPU_F_PIN) | BIT_ULL(VGPU_F_PING);
	fake->vring_num = VGPU_FAKE_VRING;
	fake->bad_id = -1;
	INIT_WORK(&fake->kick, fake_serve);
	fake->vdev.id.device = VGPU_VIRTIO_ID;
	fake->vdev.id.vendor = VGPU_PCI_VENDOR_ID;
	fake->vdev.config = &fake_ops;
	fake->vdev.dev.release = fake_release;
	/* DMA masks of a bus: dma-bufs are mapped for the device. */
	fake->vdev.dev.coherent_dma_mask = DMA_BIT_MASK(64);
	fake->vdev.dev.dma_mask = &fake->vdev.dev.coherent_dma_mask;
	return fake;
}

/**
 * vgpu_fake_plug - put the device on the virtio bus, which probes the driver
 * @fake: the device; to be unplugged by the caller, even if the driver refuses it
 *
 * Return: 0, or the bus' error. vgpu_fake_dev() tells whether the driver accepted the device.
 */
int vgpu_fake_plug(struct vgpu_fake *fake)
{
	static struct vgpu_res res = {
		.windows = 0xf8000000,
		.windows_len = VGPU_FAKE_CLIENTS * VGPU_WINDOW_MIN,
		.notify = 0xf7000000,
		.notify_len = (VGPU_VQ_DOORBELL + VGPU_FAKE_CLIENTS) * PAGE_SIZE,
		.notify_mult = PAGE_SIZE,
	};
	u32 i;
	int err;

	/* Differ from the queue numbers: both are usually equal, but virtio does not require it. */
	for (i = 0; i < VGPU_VQ_DOORBELL + VGPU_FAKE_CLIENTS; i++)
		res.notify_off[i] = VGPU_FAKE_NOTIFY_OFF(i);
	vgpu_res_for_test = &res;
	err = register_virtio_device(&fake->vdev);
	vgpu_res_for_test = NULL;
	return err;
}

/**
 * vgpu_fake_unplug - remove the device from the bus
 * @fake: freed, unless the driver still has open files
 */
void vgpu_fake_unplug(struct vgpu_fake *fake)
{
	unregister_virtio_device(&fake->vdev);
}

/**
 * vgpu_fake_dev - the driver's object for the device
 * @fake: plugged in
 *
 * Return: the object, or NULL if the driver refused the device.
 */
struct vgpu_dev *vgpu_fake_dev(struct vgpu_fake *fake)
{
	return fake->vdev.dev.driver ? fake->vdev.priv : NULL;
}
