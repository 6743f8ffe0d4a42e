/* SPDX-License-Identifier: MIT */
/* Guest memory that the worker registers with the provider. */
#define _GNU_SOURCE
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "vgb_fd.h"
#include "memory.h"
#include "vgp_worker.h"

static struct wrk_memory memory;
static struct wrk_worker w;
/* Region 1, at an unmapped address, equal to the guest's. */
static uint64_t map(uint64_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct vgb_msg m = {.type = VGB_M_MAP, .region = 1, .va = (uintptr_t)p, .length = bytes, .nruns = 1}, a;

    assert_ptr_not_equal(p, MAP_FAILED);
    munmap(p, bytes);
    int fd = memfd_create("guest", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    m.runs[0] = (struct vgb_run){.page = VGP_PAGE, .length = bytes};
    assert_true(wrk_region_map(&w, &m, &fd, 1, &a));
    assert_int_equal(a.status, 0);
    return m.va;
}

static void landed(void)
{
    struct pollfd bell = {.fd = w.doorbell, .events = POLLIN};
    uint64_t n;

    wrk_waits_hand_over(&w);
    assert_int_equal(poll(&bell, 1, 60000), 1);
    assert_int_equal(read(w.doorbell, &n, sizeof(n)), sizeof(n));
    wrk_waits_land(&w);
}

static unsigned registered;

static CUresult set_current(CUcontext c)
{
    (void)c;
    return CUDA_SUCCESS;
}

static CUresult unregister_it(void *p)
{
    (void)p;
    return CUDA_SUCCESS;
}

static CUresult register_it(void *p, size_t bytes, unsigned flags)
{
    (void)p;
    (void)bytes;
    (void)flags;
    registered++;
    return CUDA_SUCCESS;
}

static CUresult device_pointer(CUdeviceptr *out, void *p, unsigned flags)
{
    (void)flags;
    *out = (uintptr_t)p;
    return CUDA_SUCCESS;
}

/* The provider gets memory that is mapped whole, stays, is not registered, and is within its region. */
static void test_register_states(void **state)
{
    static const struct wrk_wait other;
    struct vgp_record rec = {.reply_slot = VGP_NO_REPLY};
    struct wrk_call c = {.w = &w, .rec = &rec};
    struct vgp_ret_vgpRegionRegister ret;
    struct wrk_region *r;
    uint64_t va;

    (void)state;
    wrk_provider.cuCtxSetCurrent = set_current;
    wrk_provider.cuMemHostRegister_v2 = register_it;
    wrk_provider.cuMemHostGetDevicePointer_v2 = device_pointer;
    wrk_provider.cuMemHostUnregister = unregister_it;
    va = map(4 * VGP_PAGE);
    r = wrk_region_by_id(&w, 1);
    for (unsigned i = 0; i < 10; i++) {
        const struct wrk_region was = *r;
        struct vgp_args_vgpRegionRegister a = {.region = 1, .va = va, .length = 4 * VGP_PAGE};

        switch (i) {
        case 0:
            a.region = 2;
            break;
        case 1:
            r->mapped -= VGP_PAGE;
            break;
        case 2:
            r->registered_at = r->base;
            break;
        case 3:
            r->busy = true;
            break;
        case 4:
            r->ending = &other;
            break;
        case 5:
            r->unmapping = true;
            break;
        case 6:
            a.va -= VGP_PAGE;
            break;
        case 7:
            a.length = 0;
            break;
        case 8:
            a.length += VGP_PAGE;
            break;
        default:
            a.va += VGP_PAGE;
            break;
        }
        if (wrk_do_vgpRegionRegister(&c, &a, &ret) != CUDA_ERROR_INVALID_VALUE || c.deferred)
            fail_msg("case %u is registered", i);
        *r = was;
    }
    const struct vgp_args_vgpRegionRegister a = {.region = 1, .va = va + VGP_PAGE, .length = 3 * VGP_PAGE};

    assert_int_equal(registered, 0);
    assert_int_equal(wrk_do_vgpRegionRegister(&c, &a, &ret), CUDA_SUCCESS); /* deferred */
    assert_true(c.deferred);
    landed();
    assert_int_equal(registered, 1);
    assert_ptr_equal(r->registered_at, r->base + VGP_PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_register_states)};

    w.memory = &memory;
    w.sock = -1;
    w.doorbell = eventfd(0, EFD_CLOEXEC);
    wrk_waits_init(&w.waits);
    wrk_regions_init(&w);
    wrk_quota_init(&w, 0);
    return cmocka_run_group_tests_name("register", tests, NULL, NULL);
}
