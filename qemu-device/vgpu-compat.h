/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Differences between the QEMU versions supported by the device: 7.2 to 11.0.
 * No other file tests a version number.
 */
#ifndef HW_VGPU_COMPAT_H
#define HW_VGPU_COMPAT_H

#define VGC_QEMU_AT_LEAST(major, minor) \
    (QEMU_VERSION_MAJOR > (major) || \
     (QEMU_VERSION_MAJOR == (major) && QEMU_VERSION_MINOR >= (minor)))

#include "qapi/error.h"
#include "qemu/error-report.h"
#include "qemu/cutils.h"
#include "qemu/log.h"
#include "qemu/main-loop.h"
#include "qemu/memfd.h"
#include "qemu/units.h"
#include "exec/cpu-common.h"
#include "hw/pci/pci.h"
#include "hw/virtio/vhost.h"
#include "hw/virtio/vhost-user.h"
#include "hw/virtio/virtio-bus.h"
#include "chardev/char-fe.h"
#include "chardev/char-socket.h"
#include "migration/blocker.h"
/* Moved up to 11.0, in different releases: detected by name. */
#if __has_include("system/ramblock.h")
#include "system/ramblock.h" /* qemu_ram_is_shared(), before in exec/cpu-common.h */
#endif
#if __has_include("system/hostmem.h")
#include "system/hostmem.h"
#else
#include "sysemu/hostmem.h"
#endif
#if __has_include("hw/core/boards.h")
#include "hw/core/boards.h"
#include "hw/core/qdev-properties.h"
#include "hw/core/qdev-properties-system.h"
#else
#include "hw/boards.h"
#include "hw/qdev-properties.h"
#include "hw/qdev-properties-system.h"
#endif
#include <linux/vhost.h>
#include "standard-headers/linux/virtio_config.h"
#include "standard-headers/linux/virtio_ids.h"
#include "standard-headers/linux/virtio_pci.h"
#include "standard-headers/linux/virtio_ring.h"

/* Property arrays became const and lost their terminator in 10.0. */
#if VGC_QEMU_AT_LEAST(10, 0)
#define VGC_PROPERTIES static const Property
#define VGC_END_OF_PROPERTIES
#else
#define VGC_PROPERTIES static Property
#define VGC_END_OF_PROPERTIES DEFINE_PROP_END_OF_LIST(),
#endif

/*
 * class_init() takes const data from 10.1 on, and set_status() returns a value
 * from 10.2 on.
 */
#if VGC_QEMU_AT_LEAST(10, 1)
#define VGC_CLASS_DATA const void
#else
#define VGC_CLASS_DATA void
#endif

#if VGC_QEMU_AT_LEAST(10, 2)
#define VGC_SET_STATUS_TYPE int
#define VGC_SET_STATUS_RETURN return 0
typedef CharFrontend VgcChar;
#else
#define VGC_SET_STATUS_TYPE void
#define VGC_SET_STATUS_RETURN return
typedef CharBackend VgcChar;
#endif

/*
 * Interval between a socket chardev's own connection attempts. The device only
 * sets it to 0, and restores it where that does not abort QEMU.
 */
#if VGC_QEMU_AT_LEAST(9, 2)
#define VGC_RECONNECT_TIME(s) ((s)->reconnect_time_ms)
#else
#define VGC_RECONNECT_TIME(s) ((s)->reconnect_time)
#endif

/*
 * From 11.0 on, QEMU aborts when such an attempt finds no listener: it
 * unregisters a yank function that it registers only once connected
 * (qemu_chr_socket_connected(); seen with 11.0.3). The device then takes over
 * the interval, which is in milliseconds there.
 */
#define VGC_RECONNECT_ABORTS VGC_QEMU_AT_LEAST(11, 0)

/*
 * migrate_add_blocker() owns the reason from 8.2 on: it clears *reason on
 * failure.
 */
static inline int vgc_add_blocker(Error **reason, Error **errp)
{
#if VGC_QEMU_AT_LEAST(8, 2)
    return migrate_add_blocker(reason, errp);
#else
    int ret = migrate_add_blocker(*reason, errp);

    if (ret < 0) {
        error_free(*reason);
        *reason = NULL;
    }
    return ret;
#endif
}

static inline void vgc_del_blocker(Error **reason)
{
#if VGC_QEMU_AT_LEAST(8, 2)
    migrate_del_blocker(reason);
#else
    if (*reason) {
        migrate_del_blocker(*reason);
        error_free(*reason);
        *reason = NULL;
    }
#endif
}

/*
 * VHOST_SET_CONFIG_TYPE_MASTER (7.2) and VHOST_SET_CONFIG_TYPE_FRONTEND (8.0)
 * are both 0.
 */
#define VGC_SET_CONFIG_TYPE 0

#endif
