/* SPDX-License-Identifier: MIT */
/* The transport inside a VM: /dev/vgpu0, served by vgpu_drv.ko. Each open file is a client. */
#define _GNU_SOURCE
#include "transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../kernel/vgpu_drv/uapi/vgpu_device.h"
#include "../../kernel/vgpu_drv/uapi/vgpu_ioctl.h"

#define PAGE 4096u
#define HUGE_PAGE (2u << 20)
/* doctor looks for the parameter's name. */
#define OVER_LIMIT "; over pin_limit_mib of vgpu_drv (of an older driver: ulimit -l)"

static void explain_failure(struct lnk_transport *t, const char *what, const char *where, int error)
{
    const char *hint = "";

    if (error == EACCES || error == EPERM)
        hint = "; the device's group (see its udev rule) must include this user";
    else if (error == ENOSPC || error == EBUSY)
        hint = "; all client slots are taken (property clients of -device vgpu-cuda, "
               "--max-clients of vgpu-backend)";
    else if (error == EUSERS)
        hint = "; this user has as many clients as it may (parameter clients_per_user of vgpu_drv)";
    else if (error == EAGAIN)
        hint = "; the host could not start a worker: see the log of vgpu-backend";
    else if (error == ENODEV)
        hint = "; the device or its backend is gone";
    snprintf(t->why, sizeof(t->why), "%s %s: %s%s", what, where, strerror(error), hint);
}

static int ioctl_retry(int fd, unsigned long request, void *arg)
{
    int rc;

    do {
        rc = ioctl(fd, request, arg);
    } while (rc < 0 && errno == EINTR);
    return rc < 0 ? -errno : 0;
}

static void dev_close(struct lnk_transport *t)
{
    if (t->window != NULL)
        munmap(t->window, t->window_size);
    if (t->bell_page != NULL)
        munmap(t->bell_page, PAGE);
    if (t->fd >= 0)
        close(t->fd);
    t->window = t->bell_page = NULL;
    t->fd = -1;
}

/* Drivers without dma-buf support do not know the request; drivers with it refuse the zeroes. */
static bool has_dmabuf(int fd, uint64_t features)
{
    struct vgpu_export nothing = {0};

    return (features & UINT64_C(1) << VGPU_F_PIN) != 0 &&
           ioctl_retry(fd, VGPU_IOCTL_EXPORT, &nothing) == -EINVAL;
}

static int dev_open(struct lnk_transport *t, const char *where)
{
    struct vgpu_query query = {0};
    struct vgpu_create_client client = {0};
    const char *step = "open";
    void *p;
    int rc;

    t->fd = open(where, O_RDWR | O_CLOEXEC);
    if (t->fd < 0) {
        rc = -errno;
        goto fail;
    }
    step = "query";
    rc = ioctl_retry(t->fd, VGPU_IOCTL_QUERY, &query);
    if (rc != 0)
        goto fail;
    if (query.abi_version != VGPU_IOCTL_ABI_VERSION) {
        snprintf(t->why, sizeof(t->why),
                 "%s speaks ioctl ABI %u, this libcuda speaks %u: update the older of the two", where,
                 query.abi_version, VGPU_IOCTL_ABI_VERSION);
        dev_close(t);
        return -EPROTO;
    }
    step = "create a client of";
    rc = ioctl_retry(t->fd, VGPU_IOCTL_CREATE_CLIENT, &client);
    if (rc != 0)
        goto fail;
    step = "map the window of";
    p = mmap(NULL, client.window_size, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd,
             (off_t)client.window_offset);
    if (p == MAP_FAILED) {
        rc = -errno;
        goto fail;
    }
    t->window = p;
    t->window_size = client.window_size;
    step = "map the doorbell of";
    p = mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, t->fd, (off_t)client.doorbell_offset);
    if (p == MAP_FAILED) {
        rc = -errno;
        goto fail;
    }
    t->bell_page = p;
    if (client.doorbell_in_page > PAGE - 2) {
        rc = -EPROTO;
        goto fail;
    }
    t->bell = (uint8_t *)p + client.doorbell_in_page;
    t->bell_value = client.doorbell_value;
    t->dmabuf = has_dmabuf(t->fd, query.features);
    atomic_store(&t->known_seq, client.wake_seq);
    return 0;

fail:
    explain_failure(t, step, where, -rc);
    dev_close(t);
    return rc;
}

static uint64_t dev_seen(struct lnk_transport *t)
{
    return atomic_load_explicit(&t->known_seq, memory_order_acquire);
}

static int dev_wait(struct lnk_transport *t, uint64_t seen, int64_t deadline_ns)
{
    struct vgpu_wait w = {.seen = seen, .deadline_ns = deadline_ns};
    int rc = ioctl_retry(t->fd, VGPU_IOCTL_WAIT, &w);

    if (rc == 0) {
        uint64_t known = atomic_load(&t->known_seq);

        while (known < w.seq && !atomic_compare_exchange_weak(&t->known_seq, &known, w.seq))
            ;
        if (w.state != 0)
            rc = -ENODEV;
    } else if (rc != -ETIMEDOUT && rc != -ENODEV) {
        rc = -ENODEV; /* EBADF, EPERM: no reply can be waited for any more */
    }
    return rc;
}

static void dev_doorbell(struct lnk_transport *t)
{
    *(volatile uint16_t *)t->bell = (uint16_t)t->bell_value;
}

static int dev_share(struct lnk_transport *t, void *va, uint64_t length, bool read_only,
                     struct lnk_shared_memory *m)
{
    struct vgpu_pin pin = {
        .addr = (uintptr_t)va,
        .length = length,
        .flags = read_only ? VGPU_PIN_FLAG_READONLY : 0,
    };
    int rc = ioctl_retry(t->fd, VGPU_IOCTL_PIN, &pin);

    if (rc != 0) {
        snprintf(t->why, sizeof(t->why), "pin %llu bytes: %s%s", (unsigned long long)length, strerror(-rc),
                 rc == -ENOBUFS  ? OVER_LIMIT
                 : rc == -ENOMEM ? "; RLIMIT_MEMLOCK of an older driver, or the guest's or the host's memory"
                 : rc == -EMFILE ? "; too many pinned areas in this process"
                 : rc == -EDQUOT ? LNK_PIN_QUOTA
                                 : "");
        return rc;
    }
    *m = (struct lnk_shared_memory){
        .va = va, .length = length, .region = pin.region, .worker_va = pin.worker_va};
    return 0;
}

/*
 * Allocates memory, on huge pages if it is long enough: the worker needs a mapping for each run of
 * contiguous pages, and a process may have 65,530 mappings (vm.max_map_count).
 */
static void *map_pages(void *hint, uint64_t length)
{
    uint64_t slack = length >= HUGE_PAGE && length <= SIZE_MAX - HUGE_PAGE ? HUGE_PAGE - PAGE : 0;
    uint8_t *p = mmap(hint, length + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t before = (0 - (uintptr_t)p) & (HUGE_PAGE - 1);

    if (p == MAP_FAILED || slack == 0)
        return p;
    if (before != 0)
        munmap(p, before);
    if (slack > before)
        munmap(p + before + length, slack - before);
    madvise(p + before, length, MADV_HUGEPAGE); /* a wish: small pages work too */
    return p + before;
}

static int dev_alloc_shared(struct lnk_transport *t, void *hint, uint64_t length, struct lnk_shared_memory *m)
{
    void *p = map_pages(hint, length);
    int rc;

    if (p == MAP_FAILED)
        return -errno;
    madvise(p, length, MADV_DONTFORK); /* copy-on-write would move the pages away from the pin */
    rc = dev_share(t, p, length, false, m);
    if (rc != 0)
        munmap(p, length);
    return rc;
}

static int dev_unshare(struct lnk_transport *t, struct lnk_shared_memory *m, bool unmap)
{
    struct vgpu_unpin unpin = {.region = m->region};
    int rc = ioctl_retry(t->fd, VGPU_IOCTL_UNPIN, &unpin);

    if (unmap)
        munmap(m->va, m->length);
    return rc;
}

static int dev_export_dmabuf(struct lnk_transport *t, const struct lnk_shared_memory *m, uint64_t offset,
                             uint64_t length, int *fd)
{
    struct vgpu_export arg = {.region = m->region, .offset = offset, .length = length};
    int rc = ioctl_retry(t->fd, VGPU_IOCTL_EXPORT, &arg);

    if (rc != 0) {
        snprintf(t->why, sizeof(t->why), "export %llu bytes: %s%s", (unsigned long long)length, strerror(-rc),
                 rc == -ENOBUFS  ? OVER_LIMIT
                 : rc == -EACCES ? "; the memory was registered as read-only"
                                 : "");
        return rc;
    }
    *fd = arg.fd;
    return 0;
}

static int dev_import_dmabuf(struct lnk_transport *t, int fd, void *va, uint64_t length, bool read_only,
                             struct lnk_shared_memory *m)
{
    struct vgpu_import arg = {
        .addr = (uintptr_t)va,
        .length = length,
        .fd = fd,
        .flags = read_only ? VGPU_PIN_FLAG_READONLY : 0,
    };
    int rc = ioctl_retry(t->fd, VGPU_IOCTL_IMPORT, &arg);

    if (rc != 0) {
        snprintf(t->why, sizeof(t->why), "import %llu bytes: %s%s", (unsigned long long)length, strerror(-rc),
                 rc == -EOPNOTSUPP
                     ? "; its exporter refuses it, or it is no memory of this VM (a device's own)"
                 : rc == -EINVAL  ? "; no dma-buf, or a smaller one"
                 : rc == -ENOBUFS ? OVER_LIMIT
                 : rc == -EMFILE  ? "; too many pinned areas in this process"
                 : rc == -EDQUOT  ? LNK_PIN_QUOTA
                                  : "");
        return rc;
    }
    *m = (struct lnk_shared_memory){
        .va = va, .length = length, .region = arg.region, .worker_va = arg.worker_va};
    return 0;
}

static void dev_forked(struct lnk_transport *t)
{
    /* The window is mapped VM_DONTCOPY by the driver; the open file must not outlive the parent. */
    close(t->fd);
    t->fd = -1;
}

const struct lnk_transport_ops lnk_transport_dev = {
    .name = "device",
    .open = dev_open,
    .seen = dev_seen,
    .wait = dev_wait,
    .doorbell = dev_doorbell,
    .alloc_shared = dev_alloc_shared,
    .share = dev_share,
    .unshare = dev_unshare,
    .export_dmabuf = dev_export_dmabuf,
    .import_dmabuf = dev_import_dmabuf,
    .forked = dev_forked,
    .close = dev_close,
};
