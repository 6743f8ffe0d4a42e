// SPDX-License-Identifier: MIT
/*
 * conform_dmabuf: memory of other drivers of the guest's kernel (vgem, virtio-gpu) as external
 * memory, and pinned memory as theirs. All DRM calls go through libdrm.
 */
#include "dmabuf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <virtgpu_drm.h>
#include <xf86drm.h>
#include <xf86drmMode.h>

#include "drm_device.h"

/* Opens the device of the driver that the tests name. */
static int open_device(const char *driver)
{
    int device = drm_device_open(driver);

    if (device < 0)
        check_not_run(driver);
    return device;
}

/* Creates a buffer of BYTES. */
static uint32_t new_dumb(int device, uint32_t **seen)
{
    uint32_t handle = 0, pitch = 0;
    uint64_t size = 0, offset = 0;

    CHECK(drmModeCreateDumbBuffer(device, PAGE / 4, BYTES / PAGE, 32, 0, &handle, &pitch, &size) == 0);
    CHECK(size == BYTES);
    CHECK(drmModeMapDumbBuffer(device, handle, &offset) == 0);
    *seen = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, device, (off_t)offset);
    CHECK(*seen != MAP_FAILED);
    return handle;
}

/* After the end of an import, and of the descriptor, all operations on them fail. */
static void refused_after_end(int fd)
{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC d = {.size = PAGE};
    CUexternalMemory m;
    CUdeviceptr p = 0;

    OK(dm_import(&m, fd, BYTES));
    OK(cuDestroyExternalMemory(m));
    RC(cuDestroyExternalMemory(m), CUDA_ERROR_INVALID_HANDLE);
    RC(cuExternalMemoryGetMappedBuffer(&p, m, &d), CUDA_ERROR_INVALID_HANDLE);
    close(fd);
    RC(dm_import(&m, fd, BYTES), CUDA_ERROR_INVALID_VALUE);
}

static void import(const char *driver)
{
    int device = open_device(driver), fd = -1;
    uint32_t handle, *seen;

    dm_gpu();
    handle = new_dumb(device, &seen);
    CHECK(drmPrimeHandleToFD(device, handle, DRM_CLOEXEC | DRM_RDWR, &fd) == 0);
    dm_use_import(fd, seen);
    refused_after_end(fd);
    munmap(seen, BYTES);
    CHECK(drmModeDestroyDumbBuffer(device, handle) == 0);
    close(device);
}

/* The driver releases its buffer first: the imported memory stays. */
static void device_closed_first(const char *driver)
{
    int device = open_device(driver), fd = -1;
    uint32_t handle, *seen, word = 0;
    CUexternalMemory m;
    CUdeviceptr p;

    dm_gpu();
    handle = new_dumb(device, &seen);
    CHECK(drmPrimeHandleToFD(device, handle, DRM_CLOEXEC | DRM_RDWR, &fd) == 0);
    OK(dm_import(&m, fd, BYTES));
    p = dm_buffer(m, 0, BYTES);
    seen[3] = 33;
    munmap(seen, BYTES);
    CHECK(drmModeDestroyDumbBuffer(device, handle) == 0);
    close(fd);
    close(device);
    OK(cuMemcpyDtoH(&word, p + 12, 4));
    CHECK(word == 33);
    dm_fill(p, WORDS, 2);
    OK(cuMemcpyDtoH(&word, p + BYTES - 4, 4));
    CHECK(word == 2 + WORDS - 1);
    OK(cuMemFree(p));
    OK(cuDestroyExternalMemory(m));
}

/* A read-only descriptor: kernels may read; their writes have no effect. */
static void import_readonly(const char *driver)
{
    int device = open_device(driver), fd = -1;
    uint32_t *seen, word = 0;
    uint32_t handle;
    CUexternalMemory m;
    CUdeviceptr p;
    CUresult r;

    dm_gpu();
    handle = new_dumb(device, &seen);
    CHECK(drmPrimeHandleToFD(device, handle, DRM_CLOEXEC, &fd) == 0);
    seen[0] = 17;
    r = dm_import(&m, fd, BYTES);
    if (r == CUDA_ERROR_NOT_SUPPORTED) {
        errno = EOPNOTSUPP;
        check_not_run("the host's driver registers no memory as read-only");
    }
    OK(r);
    p = dm_buffer(m, 0, BYTES);
    OK(cuMemcpyDtoH(&word, p, 4));
    CHECK(word == 17);
    word = 18;
    if (cuMemcpyHtoD(p, &word, 4) == CUDA_SUCCESS)
        cuCtxSynchronize();
    CHECK(seen[0] == 17);
}

/* Pinned memory exported to the device, and back: the same dma-buf; the device maps its pages. */
static void export_to(const char *driver)
{
    int device = open_device(driver), fd = -1, back = -1;
    uint32_t handle = 0, twice = 0, *p, *seen;

    dm_gpu();
    OK(cuMemHostAlloc((void **)&p, BYTES, 0));
    OK(dm_range(&fd, p, BYTES));
    CHECK(drmPrimeFDToHandle(device, fd, &handle) == 0 && handle != 0);
    CHECK(drmPrimeFDToHandle(device, fd, &twice) == 0 && twice == handle);
    CHECK(drmPrimeHandleToFD(device, handle, DRM_CLOEXEC | DRM_RDWR, &back) == 0);
    close(fd);
    dm_fill((uintptr_t)p, WORDS, 11);
    seen = dm_map(back, BYTES);
    CHECK(dm_filled(seen, WORDS, 11));
    OK(cuMemFreeHost(p)); /* held by the device and the mapping */
    CHECK(dm_filled(seen, WORDS, 11));
    close(back);
    CHECK(drmCloseBufferHandle(device, handle) == 0);
    CHECK(dm_filled(seen, WORDS, 11));
    munmap(seen, BYTES);
    close(device);
}

void dm_vgem_import(void)
{
    import("vgem");
}

void dm_vgem_first(void)
{
    device_closed_first("vgem");
}

void dm_vgem_readonly(void)
{
    import_readonly("vgem");
}

void dm_vgem_export(void)
{
    export_to("vgem");
}

/* ---- virtio-gpu -------------------------------------------------------------------------------- */

void dm_virtio_gpu_import(void)
{
    import("virtio_gpu");
}

void dm_virtio_gpu_first(void)
{
    device_closed_first("virtio_gpu");
}

void dm_virtio_gpu_readonly(void)
{
    import_readonly("virtio_gpu");
}

/* Linux's driver imports no other device's memory in 6.1 and 6.12: refused memory stays usable. */
void dm_virtio_gpu_export(void)
{
    int device = open_device("virtio_gpu"), fd = -1;
    uint32_t handle = 0, *p;

    dm_gpu();
    OK(cuMemHostAlloc((void **)&p, BYTES, 0));
    OK(dm_range(&fd, p, BYTES));
    if (drmPrimeFDToHandle(device, fd, &handle) == 0) {
        close(fd);
        close(device);
        export_to("virtio_gpu");
        return;
    }
    CHECK(errno == ENODEV);
    dm_fill((uintptr_t)p, WORDS, 12);
    CHECK(dm_filled(dm_map(fd, BYTES), WORDS, 12));
    OK(cuMemFreeHost(p));
}

/* Creates a resource on the render node, as Mesa does; not a scanout buffer. */
static uint32_t new_resource(int device, uint32_t **seen)
{
    struct drm_virtgpu_resource_create r = {
        .target = 2, /* a 2D texture */
        .format = 2, /* B8G8R8X8 */
        .width = PAGE / 4,
        .height = BYTES / PAGE,
        .depth = 1,
        .array_size = 1,
        .size = BYTES,
    };
    struct drm_virtgpu_map m = {0};

    CHECK(drmIoctl(device, DRM_IOCTL_VIRTGPU_RESOURCE_CREATE, &r) == 0);
    m.handle = r.bo_handle;
    CHECK(drmIoctl(device, DRM_IOCTL_VIRTGPU_MAP, &m) == 0);
    *seen = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, device, (off_t)m.offset);
    CHECK(*seen != MAP_FAILED);
    return r.bo_handle;
}

void dm_virtio_gpu_resource(void)
{
    int card = open_device("virtio_gpu"), fd = -1, device;
    char *path = drmGetRenderDeviceNameFromFd(card);
    uint32_t *seen, handle;

    CHECK(path != NULL);
    device = open(path, O_RDWR | O_CLOEXEC);
    CHECK(device >= 0);
    free(path);
    dm_gpu();
    handle = new_resource(device, &seen);
    CHECK(drmPrimeHandleToFD(device, handle, DRM_CLOEXEC | DRM_RDWR, &fd) == 0);
    CHECK(drmCloseBufferHandle(device, handle) == 0);
    close(device);
    close(card);
    dm_use_import(fd, seen);
    refused_after_end(fd);
    munmap(seen, BYTES);
}

/* For virtgpu.sh: holds an import until a signal; meanwhile either device may be removed. */
void dm_virtio_gpu_hold(void)
{
    int device = open_device("virtio_gpu"), fd = -1;
    uint32_t handle, *seen;
    CUexternalMemory m;
    CUdeviceptr p;

    dm_gpu();
    handle = new_dumb(device, &seen);
    CHECK(drmPrimeHandleToFD(device, handle, DRM_CLOEXEC | DRM_RDWR, &fd) == 0);
    OK(dm_import(&m, fd, BYTES));
    close(fd);
    p = dm_buffer(m, 0, BYTES);
    dm_fill(p, WORDS, 61);
    dm_hold();
    CHECK(dm_filled(seen, WORDS, 61));
    seen[1] = 1;
    if (access("/dev/vgpu0", F_OK) == 0) {
        dm_fill(p, WORDS, 62);
        CHECK(dm_filled(seen, WORDS, 62));
    }
    puts("held");
    fflush(stdout);
    _exit(0); /* the GPU may be gone: nothing to clean up */
}
