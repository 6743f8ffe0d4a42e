/* SPDX-License-Identifier: MIT */
/*
 * Places of mapped guest memory, and their state after unmapping. The test can replace the file
 * system of a file (linked with --wrap).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/magic.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "vgb_fd.h"
#include "memory.h"
#include "vgp_worker.h"

#define HUGE_PAGE (2u << 20)

static struct wrk_memory memory;
static struct wrk_worker w;
static int broker;

static int setup(void **state)
{
    int pair[2];

    (void)state;
    memset(&w, 0, sizeof(w));
    memset(&memory, 0, sizeof(memory));
    w.memory = &memory;
    wrk_waits_init(&w.waits);
    wrk_regions_init(&w);
    wrk_quota_init(&w, 0);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
        return -1;
    w.sock = pair[0];
    broker = pair[1];
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(w.sock);
    close(broker);
    return 0;
}

/* A file whose every page begins with its own number. */
static int file(uint64_t bytes)
{
    int fd = memfd_create("guest", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    for (uint64_t at = 0; at < bytes; at += VGP_PAGE) {
        uint64_t n = at / VGP_PAGE;

        assert_int_equal(pwrite(fd, &n, sizeof(n), (off_t)at), sizeof(n));
    }
    return fd;
}

struct part {
    uint64_t offset, length;
};

/* Maps a region; its address here, 0: refused. */
static uint64_t map(uint32_t id, uint64_t va, int fd, uint32_t page, const struct part *parts, unsigned n)
{
    struct vgb_msg m = {.type = VGB_M_MAP, .region = id, .va = va, .nruns = n}, a;

    for (unsigned i = 0; i < n; i++) {
        m.runs[i] = (struct vgb_run){.page = page, .offset = parts[i].offset, .length = parts[i].length};
        m.length += parts[i].length;
    }
    int mine = dup(fd);
    assert_true(wrk_region_map(&w, &m, &mine, 1, &a));
    return a.status ? 0 : a.va;
}

static void unmap(uint32_t id)
{
    struct vgb_msg a;
    unsigned none = 0;

    wrk_region_unmap(&w, id);
    assert_int_equal(vgb_msg_recv(broker, &a, NULL, &none, MSG_DONTWAIT), 1);
    assert_int_equal(a.type, VGB_M_UNMAPPED);
    assert_int_equal(a.region, id);
    assert_int_equal(a.status, 0);
}

static bool can_read(uint64_t at)
{
    uint64_t v;
    struct iovec to = {&v, sizeof(v)}, from = {(void *)(uintptr_t)at, sizeof(v)};

    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == sizeof(v);
}

/* Could the process itself get this page? */
static bool is_free(uint64_t at)
{
    void *want = (void *)(uintptr_t)at;
    void *p = mmap(want, VGP_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    if (p != MAP_FAILED)
        munmap(p, VGP_PAGE);
    return p == want;
}

static uint64_t number_at(uint64_t at)
{
    return *(volatile uint64_t *)(uintptr_t)at;
}

/* An address that nothing is at, with room around it. */
static uint64_t free_address(uint64_t bytes)
{
    uint8_t *p = mmap(NULL, bytes + 2 * HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t at = ((uintptr_t)p + 2 * HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;

    assert_ptr_not_equal(p, MAP_FAILED);
    munmap(p, bytes + 2 * HUGE_PAGE);
    return at;
}

/* What the provider has seen is never the worker's again; the guest's memory may come back there. */
static void test_stays(void **state)
{
    const struct part four = {0, 4 * VGP_PAGE}, two = {4 * VGP_PAGE, 2 * VGP_PAGE};
    int fd = file(16 * VGP_PAGE);
    uint64_t va = free_address(16 * VGP_PAGE);

    (void)state;
    assert_int_equal(map(1, va, fd, VGP_PAGE, &four, 1), va);
    unmap(1); /* nobody has seen it */
    assert_true(is_free(va));
    assert_int_equal(map(1, va, fd, VGP_PAGE, &four, 1), va);
    assert_ptr_equal(wrk_region_address(&w, va, 8, true), (void *)(uintptr_t)va);
    unmap(1);
    for (unsigned i = 0; i < 4; i++) {
        assert_false(is_free(va + i * VGP_PAGE));
        assert_false(can_read(va + i * VGP_PAGE));
    }
    assert_true(is_free(va + 4 * VGP_PAGE));
    /* Again, in part, across the end, and from before the beginning. */
    assert_int_equal(map(2, va + VGP_PAGE, fd, VGP_PAGE, &two, 1), va + VGP_PAGE);
    assert_int_equal(number_at(va + VGP_PAGE), 4);
    assert_int_equal(map(3, va + 3 * VGP_PAGE, fd, VGP_PAGE, &two, 1), va + 3 * VGP_PAGE);
    unmap(3);
    assert_false(is_free(va)); /* what is left of the first one */
    assert_int_equal(map(3, va - VGP_PAGE, fd, VGP_PAGE, &two, 1), va - VGP_PAGE);
    assert_int_equal(number_at(va), 5);
    assert_int_equal(number_at(va + VGP_PAGE), 4);
    /* A taken range becomes another one, which is kept in the same way and used again. */
    uint64_t other = map(4, va, fd, VGP_PAGE, &two, 1);
    assert_true(other && other != va);
    assert_non_null(wrk_region_address(&w, va + VGP_PAGE, 8, true));
    memory.regions.list[2]->seen = true;
    unmap(4);
    assert_false(is_free(other));
    assert_int_equal(map(4, va, fd, VGP_PAGE, &two, 1), other);
    unmap(4);
    unmap(3);
    unmap(2);
    close(fd);
}

/* Of huge pages whole ones are mapped, away from their neighbours; else the memory is refused. */
static void test_huge(void **state)
{
    const struct part inside = {5 * VGP_PAGE, 3 * VGP_PAGE}, whole = {HUGE_PAGE, 2 * HUGE_PAGE};
    const struct part joined[] = {{HUGE_PAGE - VGP_PAGE, VGP_PAGE}, {2 * HUGE_PAGE, VGP_PAGE}};
    const struct part apart[] = {{0, VGP_PAGE}, {3 * VGP_PAGE, VGP_PAGE}};
    const struct part torn[] = {{VGP_PAGE, HUGE_PAGE}, {2 * HUGE_PAGE + VGP_PAGE, VGP_PAGE}};
    int fd = file(4 * HUGE_PAGE);
    uint64_t va = free_address(4 * HUGE_PAGE), at;
    uint8_t *mine = mmap((void *)(uintptr_t)(va + 8 * VGP_PAGE), VGP_PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    (void)state;
    assert_ptr_not_equal(mine, MAP_FAILED);
    *mine = 77;
    at = map(1, va + 5 * VGP_PAGE, fd, HUGE_PAGE, &inside, 1);
    assert_true(at);
    assert_int_equal(at % HUGE_PAGE, 5 * VGP_PAGE);
    assert_int_equal(number_at(at), 5);
    assert_int_equal(number_at(at + 2 * VGP_PAGE), 7);
    assert_int_equal(*mine, 77);
    unmap(1);
    assert_int_equal(*mine, 77);
    munmap(mine, VGP_PAGE);
    assert_int_equal(map(1, va, fd, HUGE_PAGE, &whole, 1), va); /* as the guest has it */
    assert_int_equal(number_at(va), HUGE_PAGE / VGP_PAGE);
    unmap(1);
    at = map(1, va, fd, HUGE_PAGE, joined, 2);
    assert_true(at);
    assert_int_equal(number_at(at), HUGE_PAGE / VGP_PAGE - 1);
    assert_int_equal(number_at(at + VGP_PAGE), 2 * HUGE_PAGE / VGP_PAGE);
    unmap(1);
    assert_int_equal(map(1, va, fd, HUGE_PAGE, apart, 2), 0);
    assert_int_equal(map(1, va, fd, HUGE_PAGE, torn, 2), 0);
    assert_int_equal(map(1, va, fd, 3 * VGP_PAGE, &whole, 1), 0); /* no such pages */
    assert_int_equal(memory.regions.n, 0);
    close(fd);
}

static const struct statfs *said;
int __real_fstatfs(int fd, struct statfs *s);
int __wrap_fstatfs(int fd, struct statfs *s);

int __wrap_fstatfs(int fd, struct statfs *s)
{
    if (!said)
        return __real_fstatfs(fd, s);
    *s = *said;
    return 0;
}

/* Only hugetlbfs reports a page size that is used, up to the largest one of the architecture. */
static void test_page_sizes(void **state)
{
    static const struct {
        long type, size;
        uint32_t page;
    } cases[] = {
        {HUGETLBFS_MAGIC, 2 << 20, 2 << 20}, {HUGETLBFS_MAGIC, 64 << 10, 64 << 10},
        {HUGETLBFS_MAGIC, 1 << 30, 1 << 30}, {HUGETLBFS_MAGIC, 2L << 30, 4096},
        {HUGETLBFS_MAGIC, 16L << 30, 4096},  {HUGETLBFS_MAGIC, 4096, 4096},
        {HUGETLBFS_MAGIC, 512, 4096},        {TMPFS_MAGIC, 2 << 20, 4096},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct statfs fs = {.f_type = cases[i].type, .f_bsize = cases[i].size};

        said = &fs;
        assert_int_equal(vgb_fd_page_size(0), cases[i].page);
        said = NULL;
    }
    assert_int_equal(vgb_fd_page_size(-1), 4096);
}

/* The same with the kernel's own. */
static void test_hugetlb(void **state)
{
    const struct part inside = {HUGE_PAGE + 5 * VGP_PAGE, 3 * VGP_PAGE};
    int fd = memfd_create("guest", MFD_CLOEXEC | MFD_HUGETLB | 21u << 26);
    uint8_t *p = MAP_FAILED;

    (void)state;
    if (fd >= 0 && !ftruncate(fd, 2 * HUGE_PAGE))
        p = mmap(NULL, 2 * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        printf("not run: test_hugetlb: no huge pages are reserved (/proc/sys/vm/nr_hugepages)\n");
        if (fd >= 0)
            close(fd);
        skip();
    }
    assert_int_equal(vgb_fd_page_size(fd), HUGE_PAGE);
    p[HUGE_PAGE + 5 * VGP_PAGE] = 42;
    uint64_t at = map(1, free_address(HUGE_PAGE) + 5 * VGP_PAGE, fd, vgb_fd_page_size(fd), &inside, 1);
    assert_true(at);
    assert_int_equal(*(uint8_t *)(uintptr_t)at, 42);
    assert_non_null(wrk_region_address(&w, memory.regions.list[0]->guest_va, 8, true));
    unmap(1);
    assert_false(can_read(at));
    munmap(p, 2 * HUGE_PAGE);
    close(fd);
}

/* The mappings of all regions together are bounded, and refused before the kernel has none left. */
static void test_pieces(void **state)
{
    /* Every other page: none can be joined; then a run of neighbours, which is one piece. */
    const struct part apart[] = {{0, VGP_PAGE}, {2 * VGP_PAGE, VGP_PAGE}, {4 * VGP_PAGE, VGP_PAGE}};
    const struct part joined[] = {{0, VGP_PAGE}, {VGP_PAGE, VGP_PAGE}, {2 * VGP_PAGE, 2 * VGP_PAGE}};
    uint64_t va = free_address(HUGE_PAGE);
    int fd = file(8 * VGP_PAGE);

    (void)state;
    assert_true(memory.regions.pieces_max >= 1000);
    memory.regions.pieces_max = 0; /* as long as nobody knows how many there may be, there are none */
    assert_int_equal(map(1, va, fd, VGP_PAGE, apart, 1), 0);
    memory.regions.pieces_max = 7 + wrk_places(); /* those of the other tests stay */
    assert_true(map(1, va, fd, VGP_PAGE, apart, 3));
    assert_int_equal(memory.regions.pieces, 3);
    assert_true(map(2, va + 16 * VGP_PAGE, fd, VGP_PAGE, apart, 3));
    assert_int_equal(map(3, va + 32 * VGP_PAGE, fd, VGP_PAGE, apart, 3), 0);
    assert_int_equal(memory.regions.pieces, 6); /* nothing is left of it */
    assert_true(map(3, va + 32 * VGP_PAGE, fd, VGP_PAGE, joined, 3));
    assert_int_equal(memory.regions.pieces, 7);
    assert_int_equal(map(4, va + 48 * VGP_PAGE, fd, VGP_PAGE, joined, 1), 0);
    unmap(1);
    assert_int_equal(memory.regions.pieces, 4);
    assert_true(map(4, va + 48 * VGP_PAGE, fd, VGP_PAGE, apart, 3));
    for (uint32_t id = 2; id <= 4; id++)
        unmap(id);
    assert_int_equal(memory.regions.pieces, 0);
    close(fd);
}

static unsigned unregistered;
static CUresult on_synchronize;
static _Atomic unsigned synchronized;

static CUresult set_current(CUcontext c)
{
    (void)c;
    return CUDA_SUCCESS;
}

static CUresult synchronize(void)
{
    synchronized++;
    return on_synchronize;
}

static CUresult unregister(void *p)
{
    (void)p;
    unregistered++;
    return CUDA_SUCCESS;
}

static void landed(void)
{
    struct pollfd bell = {.fd = w.doorbell, .events = POLLIN};
    uint64_t n;

    wrk_waits_hand_over(&w);
    assert_int_equal(poll(&bell, 1, 10000), 1);
    assert_int_equal(read(w.doorbell, &n, sizeof(n)), sizeof(n));
    wrk_waits_land(&w);
}

/* What the work of a context does with it is not known: its client cannot take it away, its broker can. */
static void test_unregister_errors(void **state)
{
    static int contexts[2];
    const struct part one = {0, VGP_PAGE};
    const struct vgp_args_vgpRegionUnregister a = {.region = 1};
    struct vgp_record rec = {.reply_slot = VGP_NO_REPLY};
    struct wrk_call c = {.w = &w, .rec = &rec};
    int fd = file(VGP_PAGE);
    uint64_t va = free_address(VGP_PAGE);
    struct vgb_msg m;
    unsigned none = 0;

    (void)state;
    wrk_provider.cuCtxSetCurrent = set_current;
    wrk_provider.cuCtxSynchronize = synchronize;
    wrk_provider.cuMemHostUnregister = unregister;
    w.doorbell = eventfd(0, EFD_CLOEXEC);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t handle = VGP_HANDLE(VGP_H_CONTEXT, 1, i + 1);

        assert_int_equal(wrk_handles_reserve(&w.handles, handle, VGP_H_CONTEXT), CUDA_SUCCESS);
        wrk_handles_put(&w.handles, handle, VGP_H_CONTEXT, &contexts[i], 0);
    }
    assert_int_equal(map(1, va, fd, VGP_PAGE, &one, 1), va);
    struct wrk_region *r = wrk_region_by_id(&w, 1);

    r->registered_at = r->base;
    r->ctx = (CUcontext)(void *)&contexts[0];
    on_synchronize = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    assert_int_equal(wrk_do_vgpRegionUnregister(&c, &a), CUDA_SUCCESS); /* deferred */
    landed();
    assert_int_equal(unregistered, 0);
    assert_ptr_equal(r->registered_at, r->base);
    assert_true(can_read(va));
    wrk_region_unmap(&w, 1);
    landed();
    assert_int_equal(unregistered, 1);
    assert_int_equal(vgb_msg_recv(broker, &m, NULL, &none, MSG_DONTWAIT), 1);
    assert_int_equal(m.type, VGB_M_UNMAPPED);
    assert_int_equal(m.status, 0);
    assert_false(can_read(va));
    close(w.doorbell);
    close(fd);
    wrk_handles_fini(&w.handles);
}

/* Memory within regions may be used anew once all contexts are idle; a capture is not waited for. */
static void test_settle(void **state)
{
    static int contexts[2];
    const struct vgp_args_vgpSettle a = {0};
    struct vgp_record rec = {.reply_slot = VGP_NO_REPLY};
    struct wrk_call c = {.w = &w, .rec = &rec};

    (void)state;
    wrk_provider.cuCtxSetCurrent = set_current;
    wrk_provider.cuCtxSynchronize = synchronize;
    w.doorbell = eventfd(0, EFD_CLOEXEC);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t handle = VGP_HANDLE(VGP_H_CONTEXT, 1, i + 1);

        assert_int_equal(wrk_handles_reserve(&w.handles, handle, VGP_H_CONTEXT), CUDA_SUCCESS);
        wrk_handles_put(&w.handles, handle, VGP_H_CONTEXT, &contexts[i], 0);
    }
    wrk_captures = 1;
    assert_int_equal(wrk_do_vgpSettle(&c, &a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    wrk_captures = 0;
    synchronized = 0;
    on_synchronize = CUDA_SUCCESS;
    assert_int_equal(wrk_do_vgpSettle(&c, &a), CUDA_SUCCESS); /* deferred */
    landed();
    assert_int_equal(synchronized, 2);
    close(w.doorbell);
    wrk_handles_fini(&w.handles);
}

/* Regions that overlap, one of them read-only: an address is found in whichever holds all of the range. */
static void test_overlap(void **state)
{
    const struct part eight = {0, 8 * VGP_PAGE}, two = {8 * VGP_PAGE, 2 * VGP_PAGE};
    struct vgb_msg readonly = {.type = VGB_M_MAP, .region = 4, .flags = VGB_MAP_READONLY, .nruns = 1}, a;
    int fd = file(16 * VGP_PAGE), mine = dup(fd);
    uint64_t va = free_address(16 * VGP_PAGE), at[4];

    (void)state;
    at[1] = map(1, va + VGP_PAGE, fd, VGP_PAGE, &eight, 1);
    at[2] = map(2, va + 2 * VGP_PAGE, fd, VGP_PAGE, &two, 1);
    at[3] = map(3, va + 2 * VGP_PAGE, fd, VGP_PAGE, &two, 1); /* where the second begins, too */
    readonly.va = va;
    readonly.length = 10 * VGP_PAGE;
    readonly.runs[0] = (struct vgb_run){.page = VGP_PAGE, .length = 10 * VGP_PAGE};
    assert_true(wrk_region_map(&w, &readonly, &mine, 1, &a));
    assert_int_equal(a.status, 0);
    assert_int_equal((uintptr_t)wrk_region_address(&w, va + 5 * VGP_PAGE, 8, true), at[1] + 4 * VGP_PAGE);
    assert_int_equal((uintptr_t)wrk_region_address(&w, va + 5 * VGP_PAGE, 8, false), a.va + 5 * VGP_PAGE);
    assert_null(wrk_region_address(&w, va, 8, true));
    assert_null(wrk_region_address(&w, va + 8 * VGP_PAGE, VGP_PAGE + 8, true));
    assert_null(wrk_region_address(&w, va - VGP_PAGE, 2 * VGP_PAGE, false));
    assert_null(wrk_region_address(&w, va, UINT64_MAX, false));
    for (unsigned i = 1; i <= 3; i++)
        assert_int_equal(wrk_region_guest_address(&w, (void *)(uintptr_t)(at[i] + 8), 8),
                         va + (i == 1 ? 1 : 2) * VGP_PAGE + 8);
    assert_int_equal(wrk_region_guest_address(&w, (void *)(uintptr_t)at[2], 3 * VGP_PAGE), 0);
    unmap(1);
    assert_int_equal((uintptr_t)wrk_region_address(&w, va + 2 * VGP_PAGE, 8, true), at[2]);
    unmap(2);
    assert_int_equal((uintptr_t)wrk_region_address(&w, va + 2 * VGP_PAGE, 8, true), at[3]);
    unmap(3);
    assert_null(wrk_region_address(&w, va + 2 * VGP_PAGE, 8, true));
    unmap(4);
    assert_null(wrk_region_address(&w, va + 2 * VGP_PAGE, 8, false));
    assert_int_equal(memory.regions.n, 0);
    close(fd);
}

#define FEW 120u
#define TIMES 32u
#define MANY (TIMES * FEW)

/* Processor time of look-ups among so many regions of every other page from va on. */
static double look_up_ns(uint64_t va, unsigned n)
{
    struct timespec a, b;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (unsigned i = 0; i < 20000; i++) {
        const unsigned k = i * 7919u % n;
        const uint64_t at = va + 2ull * k * VGP_PAGE;

        assert_int_equal(wrk_region_guest_address(&w, wrk_region_address(&w, at, 8, true), 8), at);
        assert_non_null(wrk_region_by_id(&w, k + 1));
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    return (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
}

static double least_look_up_ns(uint64_t va, unsigned n)
{
    double least = look_up_ns(va, n);

    for (unsigned i = 0; i < 4; i++) {
        const double ns = look_up_ns(va, n);

        least = ns < least ? ns : least;
    }
    return least;
}

/* A copy asks for its region: with 32 times as many of them it must not take 32 times as long. */
static void test_look_ups_do_not_grow(void **state)
{
    const struct part one = {0, VGP_PAGE};
    uint64_t va = free_address(2ull * MANY * VGP_PAGE);
    int fd = file(VGP_PAGE);
    double few, many;
    unsigned n = 0;

    (void)state;
    wrk_regions_init(&w);
    for (; n < FEW; n++)
        assert_true(map(n + 1, va + 2ull * n * VGP_PAGE, fd, VGP_PAGE, &one, 1));
    few = least_look_up_ns(va, n);
    for (; n < MANY; n++)
        assert_true(map(n + 1, va + 2ull * n * VGP_PAGE, fd, VGP_PAGE, &one, 1));
    many = least_look_up_ns(va, n);
    for (; n; n--)
        unmap(n);
    close(fd);
    if (many > TIMES / 3 * few)
        fail_msg("%u times as many regions: a look-up takes %.1f times as long", TIMES, many / few);
}

/*
 * A call that waits for the broker hears of an unmapping meanwhile. What it was given before stays an address of no other
 * memory, unless the guest maps there again.
 */
static void test_unmapped_in_wait(void **state)
{
    static const struct wrk_control_ops ops = {.unmap = wrk_region_unmap};
    const struct vgb_msg gone = {.type = VGB_M_UNMAP, .region = 1},
                         grant = {.type = VGB_M_GRANT, .value = 1 << 20};
    int fd = file(2 * VGP_PAGE);
    uint64_t at = free_address(2 * VGP_PAGE);
    struct vgb_msg a;
    unsigned none = 0;

    (void)state;
    wrk_control_init(&ops);
    w.quota.limit = 1 << 30;
    assert_int_equal(map(1, at, fd, VGP_PAGE, &(struct part){0, 2 * VGP_PAGE}, 1), at);
    assert_ptr_equal(wrk_host_pointer(&w, VGP_COPY_HOST, at, VGP_PAGE, true), (void *)(uintptr_t)at);
    assert_int_equal(vgb_msg_send(broker, &gone, NULL, 0, 0), 0);
    assert_int_equal(vgb_msg_send(broker, &grant, NULL, 0, 0), 0);
    assert_true(wrk_quota_take(&w, VGP_PAGE));
    assert_int_equal(vgb_msg_recv(broker, &a, NULL, &none, MSG_DONTWAIT), 1);
    assert_int_equal(a.type, VGB_M_RESERVE);
    assert_int_equal(vgb_msg_recv(broker, &a, NULL, &none, MSG_DONTWAIT), 1);
    assert_int_equal(a.type, VGB_M_UNMAPPED);
    assert_null(wrk_host_pointer(&w, VGP_COPY_HOST, at, VGP_PAGE, true));
    assert_false(can_read(at));
    assert_false(is_free(at));
    assert_int_not_equal((uintptr_t)wrk_layout_private(VGP_PAGE), at);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stays),
        cmocka_unit_test(test_huge),
        cmocka_unit_test(test_hugetlb),
        cmocka_unit_test(test_page_sizes),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_look_ups_do_not_grow),
        cmocka_unit_test(test_unregister_errors),
        cmocka_unit_test(test_settle),
        cmocka_unit_test(test_unmapped_in_wait),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
