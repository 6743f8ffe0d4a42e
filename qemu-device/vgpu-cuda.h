/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vgpu-cuda: a virtio device whose queues are served by a broker process over
 * vhost-user. The guest's view is specified in docs/device.md; this device
 * never examines a CUDA call.
 */
#ifndef HW_VGPU_CUDA_H
#define HW_VGPU_CUDA_H

#include "vgpu-compat.h"
#include <linux/types.h>
#include "hw/vgpu/vgpu_device.h"

#define TYPE_VGC_DEVICE "vgpu-cuda-device"
OBJECT_DECLARE_SIMPLE_TYPE(VgcDevice, VGC_DEVICE)

/* The PCI device that contains a VgcDevice. */
#define TYPE_VGC_PCI "vgpu-cuda-base"

#define VGC_CONTROL_QUEUE_SIZE 64
#define VGC_EVENT_QUEUE_SIZE 64
/* A doorbell carries no buffers, but virtio requires a ring. */
#define VGC_DOORBELL_QUEUE_SIZE 4

/*
 * The vhost-user messages that carry a queue's file descriptors have an 8-bit
 * queue index: 256 queues, of which two are not doorbells.
 */
#define VGC_MAX_CLIENTS (256 - VGPU_VQ_DOORBELL)
#define VGC_DEFAULT_CLIENTS 32
#define VGC_MIN_WINDOW_SIZE (4 * MiB)
#define VGC_DEFAULT_WINDOW_SIZE (16 * MiB)
/*
 * The default processor models have 40 address bits: leave room for RAM and
 * other devices.
 */
#define VGC_MAX_BAR_SIZE (64 * GiB)

/*
 * Range and default of answer-timeout, ms. When it stops, the broker ends
 * workers within seconds, and does not wait for a worker that cannot be ended.
 */
#define VGC_MIN_ANSWER_TIMEOUT 100
#define VGC_MAX_ANSWER_TIMEOUT 3600000
#define VGC_DEFAULT_ANSWER_TIMEOUT 20000

/* Rate limit of messages that a guest can provoke: burst, interval in ms. */
#define VGC_REPORT_BURST 20
#define VGC_REPORT_MS 10000

/*
 * Maximum failed starts of the service per period in ms; a further start is
 * deferred.
 */
#define VGC_FAILED_STARTS 8
#define VGC_FAILED_MS 2000

/*
 * Default interval between connection attempts, ms, if the chardev has no
 * interval of its own.
 */
#define VGC_CONNECT_MS 1000

/* Name of the memfd of the windows: the broker recognises the region by it. */
#define VGC_WINDOW_MEMFD "vgpu-windows"

/* Limits of the device, set with properties; bytes unless stated. */
typedef struct VgcLimits {
    uint32_t clients;     /* slots, 1..VGC_MAX_CLIENTS */
    uint64_t window_size; /* per client, power of two, >= VGC_MIN_WINDOW_SIZE */
    uint64_t vram_quota;  /* whole VM, 0 = no limit */
    uint64_t pin_quota;   /* whole VM, 0 = no limit */
    uint32_t pin_runs;    /* in one VGPU_CMD_PIN; no property */
} VgcLimits;

struct VgcDevice {
    VirtIODevice parent_obj;

    VgcChar chardev;
    VgcLimits limits;
    uint32_t answer_timeout; /* of a request to the broker, ms */
    bool trap_doorbells;     /* for tests: QEMU handles each doorbell */

    /* Fixed by realize. */
    struct vgpu_config config; /* read by the guest; little-endian */
    unsigned int nqueues;
    VirtQueue **queues;
    MemoryRegion window; /* windows of all clients: the shared-memory BAR */
    Error *migration_blocker;

    /* Link to the broker; vgpu-cuda-vhost.c. All under the big lock. */
    VhostUserState vhost_user;
    struct vhost_dev vhost;
    struct vhost_virtqueue *vhost_vqs;
    const VhostOps *broker_ops; /* operations of vhost-user */
    VhostOps guarded_ops;       /* as used by vhost, with timeouts */
    QEMUBH *fault_bh;
    bool closed;    /* connection ended, to be cleaned up by fault_bh */
    bool connected; /* vhost is initialised, the broker has the configuration */
    bool started;   /* the broker serves the queues */
    bool stopping;  /* in vgc_link_stop() */
    bool guarded;   /* a guard watches the current request */
    char *refusal;   /* why the last returning broker was refused */

    /* Reconnecting; vgpu-cuda-connect.c. */
    QEMUTimer *connect_timer; /* next attempt; NULL: the device makes none */
    int64_t connect_ms;       /* interval between attempts, ms */

    /* Events provoked by a guest; vgpu-cuda-guard.c; QEMU_CLOCK_REALTIME, ms */
    int64_t reports;          /* messages printed, minus 1 per VGC_REPORT_MS */
    int64_t reports_ms;
    uint64_t reports_dropped; /* suppressed since the latest printed message */
    unsigned int failed_starts;
    int64_t failed_ms;       /* start of the period of failed_starts */
    QEMUTimer *start_timer;  /* retries a deferred start */
};

/* vgpu-cuda.c */

/**
 * vgc_trap_doorbells: with x-trap-doorbells, takes the doorbells away from the
 * kernel (or from the emulated memory, which also signals an eventfd without a
 * trace event) and leaves them to virtio-pci, which traces each and signals the
 * same eventfd.
 * @trap: false undoes it, before vhost takes its notifiers away
 */
void vgc_trap_doorbells(VgcDevice *d, bool trap);

/**
 * vgc_window_owner: the owner of the windows' memory region: the PCI device,
 * in whose memory @d and the region are.
 */
Object *vgc_window_owner(VgcDevice *d);

/* vgpu-cuda-config.c */

/**
 * vgc_check_limits: checks the ranges of the properties.
 * Returns false and sets @errp with the property's name and range on failure.
 */
bool vgc_check_limits(const VgcLimits *limits, Error **errp);

/**
 * vgc_check_timeout: checks the range of the property answer-timeout.
 * @ms: milliseconds
 * Returns false and sets @errp on failure.
 */
bool vgc_check_timeout(uint32_t ms, Error **errp);

/**
 * vgc_merge_config: computes the configuration of the device from the broker's
 * offer and the properties.
 * @offer: as received from the broker, untrusted
 * @out: the configuration for the guest and the broker; unchanged on failure
 * Returns false and sets @errp if the offer is malformed or of another ABI
 * version.
 */
bool vgc_merge_config(const struct vgpu_config *offer, const VgcLimits *limits,
                      struct vgpu_config *out, Error **errp);

/**
 * vgc_bar_size: size of the shared-memory BAR for a valid configuration, in
 * bytes.
 */
uint64_t vgc_bar_size(const struct vgpu_config *config);

/** vgc_config_limits: converts a configuration to limits. */
VgcLimits vgc_config_limits(const struct vgpu_config *config);

/* vgpu-cuda-guard.c */

/* Timeout of a synchronous request to the broker. */
typedef struct VgcGuard {
    QemuThread thread;
    QemuSemaphore done;
    QIOChannelSocket *sioc; /* referenced; NULL: no connection, no guard */
    int ms;
    bool gave_up; /* connection shut down; read after the thread ended */
} VgcGuard;

/**
 * vgc_guard_begin: starts the timeout of a request. The connection is shut down
 * if the request takes longer than answer-timeout. No effect while another
 * guard is active.
 */
void vgc_guard_begin(VgcDevice *d, VgcGuard *g);

/** vgc_guard_end: ends the timeout after the request has returned. */
void vgc_guard_end(VgcDevice *d, VgcGuard *g);

/**
 * vgc_may_report: checks whether a message that a guest can provoke repeatedly
 * may be printed, and counts it. Suppressed messages are counted too; their
 * number is printed with the next message that may be printed.
 */
bool vgc_may_report(VgcDevice *d);

/** vgc_break: notifies the driver that it has to reset the device. */
void vgc_break(VgcDevice *d);

/**
 * vgc_may_start: checks whether the service may be started now. False after
 * VGC_FAILED_STARTS recent failures, as vhost and virtio print lines of their
 * own for each.
 */
bool vgc_may_start(VgcDevice *d);

/* vgpu-cuda-memory.c */

/**
 * vgc_own_memory: returns the regions of @all without the windows of other
 * vgpu-cuda devices; freed by the caller.
 */
struct vhost_memory *vgc_own_memory(VgcDevice *d, const struct vhost_memory *all);

/**
 * vgc_rings_are_shared: checks that the rings of all queues are in guest memory
 * that the broker can map. Reports those that are not. Needs a connected link.
 */
bool vgc_rings_are_shared(VgcDevice *d);

/* vgpu-cuda-connect.c */

/**
 * vgc_connect_check: checks that the chardev is connected. Waits for at most
 * one attempt to connect.
 */
bool vgc_connect_check(VgcDevice *d, Error **errp);

/**
 * vgc_connect_keep: makes the device reconnect the chardev after each loss,
 * unless the chardev does so itself. Warns if neither can.
 */
void vgc_connect_keep(VgcDevice *d);

/**
 * vgc_connect_later: schedules an attempt, after the connection was lost or the
 * broker refused.
 */
void vgc_connect_later(VgcDevice *d);

/** vgc_connect_fini: ends all attempts. */
void vgc_connect_fini(VgcDevice *d);

/* vgpu-cuda-vhost.c */

/**
 * vgc_block_migration: makes QEMU refuse to save and migrate the VM, with the
 * reason of this device. False with @errp: -only-migratable.
 */
bool vgc_block_migration(VgcDevice *d, Error **errp);

/**
 * vgc_link_connect: initialises vhost for all queues of the device and requests
 * the offer.
 * @offer: the broker's answer, not yet validated
 */
bool vgc_link_connect(VgcDevice *d, struct vgpu_config *offer, Error **errp);

/**
 * vgc_link_configure: sends the final configuration, @d->config, to the broker.
 */
bool vgc_link_configure(VgcDevice *d, Error **errp);

/**
 * vgc_link_follow: starts handling of lost and new connections of the chardev.
 */
void vgc_link_follow(VgcDevice *d);

/** vgc_link_fini: undoes all vgc_link_*() calls, in any state. */
void vgc_link_fini(VgcDevice *d);

/**
 * vgc_link_set_status: starts or stops the broker's service according to the
 * driver's status.
 */
void vgc_link_set_status(VgcDevice *d, uint8_t status);

/**
 * vgc_link_features: returns the subset of @features, and of the device's, that
 * the broker offers.
 */
uint64_t vgc_link_features(VgcDevice *d, uint64_t features);

#endif
