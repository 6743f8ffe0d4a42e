// SPDX-License-Identifier: MIT
/*
 * dmabuf TEST: dma-bufs in a guest: of pinned memory, and of udmabuf and of other drivers
 * (dmabuf_drm.c) as external memory; also the end of either side. Exit status 0: passed, 1: failed
 * (the line names the check), 77: cannot run here, with the reason. `dmabuf list [virtio_gpu]`
 * lists the tests.
 */
#include "dmabuf.h"

#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- the GPU ---------------------------------------------------------------------------------- */

/* fill: word i becomes v + i. spin: waits until the word is v. */
static const char ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry fill(.param .u64 p, .param .u32 n, .param .u32 v) {\n"
    " .reg .pred q; .reg .b32 r<6>; .reg .b64 d<2>;\n"
    " ld.param.u64 d0, [p]; ld.param.u32 r0, [n]; ld.param.u32 r1, [v];\n"
    " mov.u32 r2, %ctaid.x; mov.u32 r3, %ntid.x; mov.u32 r4, %tid.x;\n"
    " mad.lo.s32 r2, r2, r3, r4; setp.ge.u32 q, r2, r0; @q ret;\n"
    " mul.wide.u32 d1, r2, 4; add.s64 d1, d0, d1; add.u32 r5, r1, r2;\n"
    " st.global.u32 [d1], r5; ret; }\n"
    ".visible .entry spin(.param .u64 p, .param .u32 v) {\n"
    " .reg .pred q; .reg .b32 r<2>; .reg .b64 d<1>;\n"
    " ld.param.u64 d0, [p]; ld.param.u32 r1, [v];\n"
    "again: ld.volatile.global.u32 r0, [d0]; setp.ne.u32 q, r0, r1; @q bra again; ret; }\n";

static CUmodule module;

void dm_gpu(void)
{
    CUcontext ctx;
    int yes = 0;

    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
    OK(cuDeviceGetAttribute(&yes, CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED, 0));
    if (!yes) {
        errno = EOPNOTSUPP;
        check_not_run("device attribute 146 is 0");
    }
    OK(cuModuleLoadData(&module, ptx));
}

CUfunction dm_kernel(const char *name)
{
    CUfunction f = NULL;

    OK(cuModuleGetFunction(&f, module, name));
    return f;
}

void dm_fill(CUdeviceptr p, unsigned n, unsigned v)
{
    void *params[] = {&p, &n, &v};

    OK(cuLaunchKernel(dm_kernel("fill"), (n + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    OK(cuCtxSynchronize());
}

bool dm_filled(const volatile uint32_t *p, unsigned n, unsigned v)
{
    for (unsigned i = 0; i < n; i++) {
        if (p[i] != v + i)
            return false;
    }
    return true;
}

CUresult dm_range(int *fd, const void *p, size_t size)
{
    return cuMemGetHandleForAddressRange(fd, (uintptr_t)p, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

CUresult dm_import(CUexternalMemory *m, int fd, unsigned long long size)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD, .handle.fd = fd, .size = size};

    return cuImportExternalMemory(m, &d);
}

CUdeviceptr dm_buffer(CUexternalMemory m, uint64_t offset, uint64_t size)
{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC d = {.offset = offset, .size = size};
    CUdeviceptr p = 0;

    OK(cuExternalMemoryGetMappedBuffer(&p, m, &d));
    return p;
}

uint32_t *dm_map(int fd, size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    CHECK(p != MAP_FAILED);
    return p;
}

static void sync_dmabuf(int fd, uint64_t flags)
{
    struct dma_buf_sync s = {.flags = flags};

    CHECK(ioctl(fd, DMA_BUF_IOCTL_SYNC, &s) == 0);
}

/* ---- export ----------------------------------------------------------------------------------- */

static void test_export(void)
{
    uint32_t *p, *all, *part;
    int fd = -1, two = -1;

    dm_gpu();
    OK(cuMemHostAlloc((void **)&p, BYTES, 0));
    OK(dm_range(&fd, p, BYTES));
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
    CHECK(lseek(fd, 0, SEEK_END) == (off_t)BYTES);
    OK(dm_range(&two, p + PAGE / 4, 2 * PAGE)); /* again, a part */
    CHECK(two != fd && lseek(two, 0, SEEK_END) == (off_t)(2 * PAGE));
    all = dm_map(fd, BYTES);
    part = dm_map(two, 2 * PAGE);
    dm_fill((uintptr_t)p, WORDS, 1000);
    sync_dmabuf(fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW);
    CHECK(dm_filled(all, WORDS, 1000));
    CHECK(dm_filled(part, 2 * PAGE / 4, 1000 + PAGE / 4));
    all[7] = 77;
    sync_dmabuf(fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW);
    CHECK(p[7] == 77);
    CHECK(mmap(NULL, BYTES + PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
    CHECK(mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, PAGE) == MAP_FAILED);
    CHECK(mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED);
    /* The memory is freed first: the dma-buf keeps its pages, and new memory has other pages. */
    OK(cuMemFreeHost(p));
    OK(cuMemHostAlloc((void **)&p, BYTES, 0));
    memset(p, 0xee, BYTES);
    CHECK(all[7] == 77 && all[8] == 1008 && part[0] == 1000 + PAGE / 4);
    close(fd);
    close(two);
    CHECK(all[8] == 1008); /* held by the mapping */
    munmap(all, BYTES);
    munmap(part, 2 * PAGE);
    OK(cuMemFreeHost(p));
}

/* Other memory with pages of the guest. */
static void test_kinds(void)
{
    uint32_t *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *seen;
    CUdeviceptr managed;
    int fd;

    dm_gpu();
    CHECK(own != MAP_FAILED);
    OK(cuMemHostRegister(own, BYTES, 0));
    OK(dm_range(&fd, own, BYTES));
    seen = dm_map(fd, BYTES);
    own[5] = 55;
    CHECK(seen[5] == 55);
    OK(cuMemHostUnregister(own));
    munmap(own, BYTES);
    CHECK(seen[5] == 55);
    munmap(seen, BYTES);
    close(fd);

    OK(cuMemAllocManaged(&managed, 5000, CU_MEM_ATTACH_GLOBAL));
    OK(dm_range(&fd, (void *)(uintptr_t)managed, 2 * PAGE)); /* whole pages; it ends inside one */
    seen = dm_map(fd, 2 * PAGE);
    dm_fill(managed, 1250, 9);
    CHECK(dm_filled(seen, 1250, 9));
    close(fd);
    munmap(seen, 2 * PAGE);
    OK(cuMemFree(managed));

    /* Read-only memory would be writable through the dma-buf. */
    own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED);
    if (cuMemHostRegister(own, BYTES, CU_MEMHOSTREGISTER_READ_ONLY) == CUDA_SUCCESS) {
        RC(dm_range(&fd, own, BYTES), CUDA_ERROR_NOT_SUPPORTED);
        OK(cuMemHostUnregister(own));
    }
}

static void test_refused(void)
{
    CUexternalMemory m = NULL;
    uint32_t *p;
    CUdeviceptr device;
    int fd = -1, yes = 1, null = open("/dev/null", O_RDWR), memory = memfd_create("no-dmabuf", 0);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD, .size = PAGE};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC b = {.offset = PAGE, .size = BYTES};

    dm_gpu();
    OK(cuDeviceGetAttribute(&yes, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
    CHECK(yes == 0);
    OK(cuMemAlloc(&device, BYTES));
    RC(dm_range(&fd, (void *)(uintptr_t)device, BYTES), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuMemHostAlloc((void **)&p, BYTES, 0));
    RC(dm_range(&fd, p, BYTES + PAGE), CUDA_ERROR_INVALID_VALUE);
    RC(dm_range(&fd, p + PAGE / 4, BYTES), CUDA_ERROR_INVALID_VALUE);
    RC(dm_range(&fd, p, (size_t)-PAGE), CUDA_ERROR_INVALID_VALUE);
    RC(dm_range(&fd, p + 1, PAGE), CUDA_ERROR_INVALID_VALUE);
    RC(dm_range(&fd, p, PAGE + 1), CUDA_ERROR_INVALID_VALUE);
    RC(dm_range(&fd, p, 0), CUDA_ERROR_INVALID_VALUE);
    RC(cuMemGetHandleForAddressRange(&fd, (uintptr_t)p, PAGE, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                     CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE),
       CUDA_ERROR_NOT_SUPPORTED);
    CHECK(fd == -1);

    d.handle.fd = -1;
    RC(cuImportExternalMemory(&m, &d), CUDA_ERROR_INVALID_VALUE);
    d.handle.fd = null;
    RC(cuImportExternalMemory(&m, &d), CUDA_ERROR_INVALID_VALUE);
    CHECK(ftruncate(memory, BYTES) == 0);
    d.handle.fd = memory;
    RC(cuImportExternalMemory(&m, &d), CUDA_ERROR_INVALID_VALUE);
    OK(dm_range(&fd, p, BYTES));
    d.handle.fd = fd;
    d.flags = CUDA_EXTERNAL_MEMORY_DEDICATED;
    RC(cuImportExternalMemory(&m, &d), CUDA_ERROR_INVALID_VALUE);
    d.flags = 0;
    d.size = BYTES + 1; /* larger than the dma-buf */
    RC(cuImportExternalMemory(&m, &d), CUDA_ERROR_INVALID_VALUE);
    d.size = (unsigned long long)-1;
    RC(cuImportExternalMemory(&m, &d), CUDA_ERROR_INVALID_VALUE);
    d.size = 1ull << 40;
    CHECK(cuImportExternalMemory(&m, &d) != CUDA_SUCCESS);
    d.size = BYTES;
    OK(cuImportExternalMemory(&m, &d));
    CHECK(fcntl(fd, F_GETFD) >= 0); /* the descriptor stays open */
    RC(cuExternalMemoryGetMappedBuffer(&device, m, &b), CUDA_ERROR_INVALID_VALUE);
    b.offset = UINT64_MAX;
    RC(cuExternalMemoryGetMappedBuffer(&device, m, &b), CUDA_ERROR_INVALID_VALUE);
    OK(cuDestroyExternalMemory(m));
    RC(cuDestroyExternalMemory(m), CUDA_ERROR_INVALID_HANDLE);
    close(fd);
}

/* ---- import ----------------------------------------------------------------------------------- */

void dm_use_import(int fd, uint32_t *seen)
{
    CUexternalMemory m, again;
    CUdeviceptr p, q, copy;
    unsigned type = 0;
    int other;
    uint32_t word = 4321;

    OK(dm_import(&m, fd, BYTES));
    OK(dm_import(&again, fd, BYTES));
    p = dm_buffer(m, 0, BYTES);
    q = dm_buffer(again, PAGE, PAGE);
    dm_fill(p, WORDS, 5);
    CHECK(dm_filled(seen, WORDS, 5));
    seen[PAGE / 4] = 99;
    OK(cuMemcpyDtoH(&word, q, 4));
    CHECK(word == 99);
    OK(cuMemsetD32(q, 7, PAGE / 4));
    CHECK(seen[PAGE / 4 - 1] == 5 + PAGE / 4 - 1 && seen[PAGE / 4] == 7 && seen[PAGE / 2 - 1] == 7);
    OK(cuMemAlloc(&copy, BYTES));
    OK(cuMemcpyDtoD(copy, p, BYTES));
    OK(cuMemsetD32(p, 0, WORDS));
    OK(cuMemcpy(p, copy, BYTES));
    CHECK(seen[0] == 5 && seen[PAGE / 4] == 7);
    word = 31;
    OK(cuMemcpyHtoD(p, &word, 4));
    CHECK(seen[0] == 31);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    CHECK(type == CU_MEMORYTYPE_DEVICE);
    RC(dm_range(&other, (void *)(uintptr_t)p, PAGE), CUDA_ERROR_NOT_SUPPORTED);
    RC(cuMemFreeAsync(q, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD32(q, 7, PAGE / 4));
    OK(cuMemFree(q));
    RC(cuMemFree(q), CUDA_ERROR_INVALID_VALUE);
    OK(cuDestroyExternalMemory(again));
    OK(cuDestroyExternalMemory(m)); /* held by its buffer */
    dm_fill(p, WORDS, 6);
    CHECK(dm_filled(seen, WORDS, 6));
    OK(cuMemFree(p));
    CHECK(cuMemcpyDtoH(&word, p, 4) != CUDA_SUCCESS);
    OK(cuMemFree(copy));
}

static void test_udmabuf(void)
{
    struct udmabuf_create c = {.size = BYTES, .flags = UDMABUF_FLAGS_CLOEXEC};
    int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;
    int memory = memfd_create("udmabuf", MFD_ALLOW_SEALING);
    uint32_t *seen;

    if (device < 0)
        check_not_run("/dev/udmabuf");
    dm_gpu();
    CHECK(ftruncate(memory, BYTES) == 0 && fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    seen = dm_map(memory, BYTES);
    c.memfd = (uint32_t)memory;
    fd = ioctl(device, UDMABUF_CREATE, &c);
    CHECK(fd >= 0);
    dm_use_import(fd, seen);
    close(fd);
    close(memory);
    munmap(seen, BYTES);
}

/* Everything is released while a kernel uses the memory. */
static void test_busy(void)
{
    uint32_t *p, *flag, one = 1;
    CUexternalMemory m;
    CUdeviceptr q, f;
    CUstream s;
    void *params[] = {&f, &one};
    int fd;

    dm_gpu();
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemHostAlloc((void **)&flag, PAGE, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&f, flag, 0));
    OK(cuMemHostAlloc((void **)&p, BYTES, 0));
    OK(dm_range(&fd, p, BYTES));
    OK(dm_import(&m, fd, BYTES));
    q = dm_buffer(m, 0, BYTES);
    *(volatile uint32_t *)flag = 0;
    OK(cuLaunchKernel(dm_kernel("spin"), 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
    OK(cuMemsetD32Async(q, 3, WORDS, s));
    close(fd);
    *(volatile uint32_t *)flag = 1; /* queued work overlaps with the following */
    OK(cuDestroyExternalMemory(m));
    OK(cuMemFree(q));
    OK(cuStreamSynchronize(s));
    CHECK(p[0] == 3 && p[WORDS - 1] == 3);
    OK(cuMemFreeHost(p));
    OK(cuMemFreeHost(flag));
}

/* ---- for guest.sh ----------------------------------------------------------------------------- */

static volatile sig_atomic_t told;

static void on_signal(int sig)
{
    (void)sig;
    told = 1;
}

void dm_hold(void)
{
    signal(SIGUSR1, on_signal);
    puts("holding");
    fflush(stdout);
    while (!told)
        usleep(20000);
}

/*
 * Holds a dma-buf whose client ends with the device, until a signal: its bytes must still be there.
 */
static void test_hold(void)
{
    uint32_t *p, *seen;
    int fd;

    dm_gpu();
    OK(cuMemHostAlloc((void **)&p, BYTES, 0));
    OK(dm_range(&fd, p, BYTES));
    seen = dm_map(fd, BYTES);
    dm_fill((uintptr_t)p, WORDS, 60);
    dm_hold();
    CHECK(dm_filled(seen, WORDS, 60));
    seen[1] = 1;
    CHECK(p[1] == 1);
    puts("held");
    fflush(stdout);
    _exit(0); /* the GPU may be gone: nothing to clean up */
}

#define VIRTIO_GPU "virtio_gpu"

/* `list` prints the names of the first list, `list virtio_gpu` those of the second. */
static const struct {
    const char *name;
    void (*run)(void);
    const char *list;
} tests[] = {
    {"export", test_export, ""},
    {"kinds", test_kinds, ""},
    {"refused", test_refused, ""},
    {"vgem_import", dm_vgem_import, ""},
    {"vgem_first", dm_vgem_first, ""},
    {"vgem_readonly", dm_vgem_readonly, ""},
    {"vgem_export", dm_vgem_export, ""},
    {"udmabuf", test_udmabuf, ""},
    {"exporter_killed", dm_exporter_killed, ""},
    {"exporter_exits", dm_exporter_exits, ""},
    {"importer_killed", dm_importer_killed, ""},
    {"busy", test_busy, ""},
    {"virtio_gpu_import", dm_virtio_gpu_import, VIRTIO_GPU},
    {"virtio_gpu_first", dm_virtio_gpu_first, VIRTIO_GPU},
    {"virtio_gpu_readonly", dm_virtio_gpu_readonly, VIRTIO_GPU},
    {"virtio_gpu_resource", dm_virtio_gpu_resource, VIRTIO_GPU},
    {"virtio_gpu_export", dm_virtio_gpu_export, VIRTIO_GPU},
    /* In no list: */
    {"virtio_gpu_hold", dm_virtio_gpu_hold, NULL},
    {"hold", test_hold, NULL},
    {"role_exporter", dm_role_exporter, NULL},
    {"role_importer", dm_role_importer, NULL},
};
#define NUMBER (sizeof(tests) / sizeof(tests[0]))

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "list", *more = argc > 2 ? argv[2] : "";
    bool list = strcmp(name, "list") == 0;

    dm_channel = atoi(more);
    for (size_t i = 0; i < NUMBER; i++) {
        if (list && tests[i].list != NULL && strcmp(tests[i].list, more) == 0)
            puts(tests[i].name);
        if (strcmp(name, tests[i].name) == 0) {
            alarm(600); /* against a hang, in an emulated guest under load, s */
            tests[i].run();
            return 0;
        }
    }
    return list ? 0 : 2;
}
