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

#define VGC_CONTROL_QUEUE_SIZE 64
#define VGC_EVENT_QUEUE_SIZE 64
/* A doorbell carries no buffers, but virtio requires a ring. */
#define VGC_DOORBELL_QUEUE_SIZE 4

/*
 * The vhost-user messages that carry a queue's file descriptors have 8 bits for
 * the index of the queue: 256 queues, of which two are not doorbells.
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
 * Milliseconds. The broker ends workers within seconds when it stops, and does
 * not wait for one that cannot be ended.
 */
#define VGC_MIN_ANSWER_TIMEOUT 100
#define VGC_MAX_ANSWER_TIMEOUT 3600000
#define VGC_DEFAULT_ANSWER_TIMEOUT 20000

/* Rate limit of messages that a guest can provoke: burst, interval in ms. */
#define VGC_REPORT_BURST 20
#define VGC_REPORT_MS 10000

/* Failed starts of the service per period in ms; a further start waits. */
#define VGC_FAILED_STARTS 8
#define VGC_FAILED_MS 2000

/* Between attempts to connect again, if the chardev has no time of its own; ms. */
#define VGC_CONNECT_MS 1000

/* Name of the memfd of the windows: the broker recognises the region by it. */
#define VGC_WINDOW_MEMFD "vgpu-windows"

/* The limits of the device, set with properties; bytes unless stated. */
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
    uint32_t answer_timeout; /* of the broker, milliseconds */
    bool trap_doorbells;     /* for tests: QEMU handles each */

    /* Fixed by realize. */
    struct vgpu_config config; /* read by the guest; little-endian */
    unsigned int nqueues;
    VirtQueue **queues;
    MemoryRegion window; /* the windows of all clients: the shared-memory BAR */
    Error *migration_blocker;

    /* The link to the broker; vgpu-cuda-vhost.c. All under the big lock. */
    VhostUserState vhost_user;
    struct vhost_dev vhost;
    struct vhost_virtqueue *vhost_vqs;
    const VhostOps *broker_ops; /* of vhost-user */
    VhostOps guarded_ops;       /* the same, as vhost has them */
    QEMUBH *fault_bh;
    bool closed;    /* the connection ended; fault_bh cleans up */
    bool connected; /* vhost is initialised, the broker has the configuration */
    bool started;   /* the broker serves the queues */
    bool stopping;  /* in vgc_link_stop() */
    bool guarded;   /* a guard watches the current request */
    char *refusal;   /* why the last returning broker was refused */

    /* Connecting again; vgpu-cuda-connect.c. */
    QEMUTimer *connect_timer; /* of the next attempt; NULL: the device makes none */
    int64_t connect_ms;       /* between attempts */

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
 * kernel (or from the emulated memory, which signals an eventfd without a trace
 * event, too) and leaves them to virtio-pci, which traces each and signals the
 * same eventfd.
 * @trap: false undoes it, before vhost takes its notifiers away
 */
void vgc_trap_doorbells(VgcDevice *d, bool trap);

/* vgpu-cuda-config.c */

/**
 * vgc_check_limits: are the properties in range?
 * Returns false and sets @errp with the property's name and its range if not.
 */
bool vgc_check_limits(const VgcLimits *limits, Error **errp);

/**
 * vgc_check_timeout: is the property answer-timeout in range?
 * @ms: milliseconds
 * Returns false and sets @errp if not.
 */
bool vgc_check_timeout(uint32_t ms, Error **errp);

/**
 * vgc_merge_config: the configuration of the device from the broker's offer and
 * the properties.
 * @offer: as received from the broker, untrusted
 * @out: the configuration for the guest and the broker; untouched on failure
 * Returns false and sets @errp when the offer is malformed or of another ABI
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
    QIOChannelSocket *sioc; /* a reference; NULL: no connection, no guard */
    int ms;
    bool gave_up; /* the connection was shut down; read when the thread has ended */
} VgcGuard;

/**
 * vgc_guard_begin: from now on the connection ends when the request takes
 * longer than answer-timeout. Does nothing within the time of another guard.
 */
void vgc_guard_begin(VgcDevice *d, VgcGuard *g);

/** vgc_guard_end: the request has returned. */
void vgc_guard_end(VgcDevice *d, VgcGuard *g);

/**
 * vgc_may_report: may a message be printed that a guest can provoke again and
 * again? Counts it; those that may not be are counted, too, and their number is
 * printed with the next that may.
 */
bool vgc_may_report(VgcDevice *d);

/** vgc_break: tells the driver that it has to reset the device. */
void vgc_break(VgcDevice *d);

/**
 * vgc_may_start: may the service be started now? Not when it has just failed
 * VGC_FAILED_STARTS times: vhost and virtio print lines of their own each time.
 */
bool vgc_may_start(VgcDevice *d);

/* vgpu-cuda-memory.c */

/**
 * vgc_own_memory: the regions of @all without the windows of other devices like
 * this one; freed by the caller.
 */
struct vhost_memory *vgc_own_memory(VgcDevice *d, const struct vhost_memory *all);

/**
 * vgc_rings_are_shared: are the rings of all queues in memory of the guest that
 * the broker can map? Says which are not. Needs a connected link.
 */
bool vgc_rings_are_shared(VgcDevice *d);

/* vgpu-cuda-connect.c */

/**
 * vgc_connect_check: is there a connected chardev? Waits for one attempt to
 * connect, no longer.
 */
bool vgc_connect_check(VgcDevice *d, Error **errp);

/**
 * vgc_connect_keep: the device connects the chardev again after each loss, unless
 * the chardev does it itself; where it cannot, a warning explains the consequence.
 */
void vgc_connect_keep(VgcDevice *d);

/** vgc_connect_later: the connection is lost, or its broker was refused. */
void vgc_connect_later(VgcDevice *d);

/** vgc_connect_fini: no more attempts. */
void vgc_connect_fini(VgcDevice *d);

/* vgpu-cuda-vhost.c */

/**
 * vgc_block_migration: QEMU refuses to save and to migrate the VM, with our
 * reason. False with @errp: -only-migratable.
 */
bool vgc_block_migration(VgcDevice *d, Error **errp);

/**
 * vgc_link_connect: initialises vhost for all queues of the device and requests
 * the offer.
 * @offer: what the broker answered, not yet validated
 */
bool vgc_link_connect(VgcDevice *d, struct vgpu_config *offer, Error **errp);

/** vgc_link_configure: tells the broker the final configuration, @d->config. */
bool vgc_link_configure(VgcDevice *d, Error **errp);

/**
 * vgc_link_follow: from now on, lost and new connections of the chardev are
 * acted upon.
 */
void vgc_link_follow(VgcDevice *d);

/** vgc_link_fini: undoes all of the above, in any state. */
void vgc_link_fini(VgcDevice *d);

/**
 * vgc_link_set_status: starts or stops the broker's service as the driver's
 * status asks.
 */
void vgc_link_set_status(VgcDevice *d, uint8_t status);

/**
 * vgc_link_features: the subset of @features, and of ours, that the broker
 * offers.
 */
uint64_t vgc_link_features(VgcDevice *d, uint64_t features);

#endif
