/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A vgpu-cuda device in memory, for the KUnit suites: a virtio device on the virtio bus with split
 * virtqueues; its device side is a work item that answers requests as the test specifies.
 */
#ifndef VGPU_FAKE_H
#define VGPU_FAKE_H

#include <kunit/test.h>
#include <linux/sizes.h>
#include <linux/virtio.h>
#include <linux/virtio_ring.h>
#include <linux/workqueue.h>

#include "vgpu.h"

#define VGPU_FAKE_CLIENTS 4
#define VGPU_FAKE_VRING 64
#define VGPU_FAKE_RUNS 3
/* Distance of a region's address in the worker to that in the client, bytes. */
#define VGPU_FAKE_VA SZ_16M
#define VGPU_FAKE_NOTIFY_OFF(queue) (VGPU_VQ_DOORBELL + VGPU_FAKE_CLIENTS - 1 - (queue))

/* Returned by vgpu_fake.answer() to leave the request unanswered. */
#define VGPU_FAKE_SILENT U32_MAX

/**
 * struct vgpu_fake_vq - the device's side of one virtqueue
 * @vq: the driver's side
 * @pages: memory of the ring
 * @ring: its layout
 * @avail: next available entry to be processed by the device
 */
struct vgpu_fake_vq {
	struct virtqueue *vq;
	void *pages;
	struct vring ring;
	u16 avail;
};

/**
 * struct vgpu_fake_kept - a request that was left without an answer
 * @head: head of the descriptor chain
 * @resp: room for the answer
 * @resp_len: size of @resp, bytes
 */
struct vgpu_fake_kept {
	u32 head;
	void *resp;
	u32 resp_len;
};

/**
 * struct vgpu_fake - the device
 * @vdev: on the virtio bus
 * @offered: feature bits
 * @status: device status
 * @config: configuration space
 * @find_vqs_err: return value of find_vqs(), 0 for success
 * @vring_num: entries of each queue
 * @vq: the queues
 * @nvqs: number of queues, 0 after a reset
 * @kick: the device side of the control queue
 * @answer: writes the answer to @cmd and returns the number of bytes it claims to have written.
 *	NULL: VGPU_S_OK for every request.
 * @bad_id: answer with this descriptor number instead, -1: the right one
 * @hold: do not process the control queue until vgpu_fake_kick()
 * @echoes: number of further kicks of the event queue that add a WAKE of slot 0
 * @requests: number of requests processed
 * @count: number of requests processed, by type
 * @resets: number of resets
 * @last_pin: copy of the last PIN request without its runs
 * @kept: requests without an answer, see vgpu_fake_answer_kept()
 * @nkept: number of @kept
 * @ctx: private data of the test
 */
struct vgpu_fake {
	struct virtio_device vdev;
	u64 offered;
	u8 status;
	struct vgpu_config config;
	int find_vqs_err;
	u32 vring_num;
	struct vgpu_fake_vq vq[VGPU_VQ_DOORBELL + VGPU_MAX_CLIENTS];
	u32 nvqs;
	struct work_struct kick;
	u32 (*answer)(struct vgpu_fake *fake, const struct vgpu_cmd_hdr *cmd, void *resp,
		      u32 resp_len);
	int bad_id;
	bool hold;
	unsigned int echoes;
	u32 requests;
	u32 count[8];
	u32 resets;
	struct vgpu_cmd_pin last_pin;
	struct vgpu_fake_kept kept[VGPU_FAKE_VRING];
	u32 nkept;
	void *ctx;
};

struct vgpu_fake *vgpu_fake_new(struct kunit *test);
int vgpu_fake_plug(struct vgpu_fake *fake);
void vgpu_fake_unplug(struct vgpu_fake *fake);
struct vgpu_dev *vgpu_fake_dev(struct vgpu_fake *fake);
void vgpu_fake_kick(struct vgpu_fake *fake);
void vgpu_fake_answer_kept(struct vgpu_fake *fake, u32 status);
bool vgpu_fake_event(struct vgpu_fake *fake, const struct vgpu_event *event, u32 used);
void vgpu_fake_event_irq(struct vgpu_fake *fake);

#endif
