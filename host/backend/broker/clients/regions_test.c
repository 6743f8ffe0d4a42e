/* SPDX-License-Identifier: MIT */
/* What the broker keeps of a client's regions: bounded, whatever its worker and its mapper do. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "clients.h"
#include "vgb_fd.h"

#define RUNS 4096u
#define CALLS_MAX 65536u

static struct brk_client c;
static struct brk_proc proc;
static int worker, ram;
static unsigned mapped, unmapped;
static uint32_t last_status;

/* The mapper: it takes what it is given, and comes back when this test says so. */
int __wrap_brk_warden_file(struct brk_warden *w, int fd, bool read_only);
bool __wrap_brk_warden_place(struct brk_warden *w, uint32_t region, uint64_t value, uint64_t place,
                             struct vgb_plan *plan);

int __wrap_brk_warden_file(struct brk_warden *w, int fd, bool read_only)
{
    (void)w, (void)fd, (void)read_only;
    return 3;
}

bool __wrap_brk_warden_place(struct brk_warden *w, uint32_t region, uint64_t value, uint64_t place,
                             struct vgb_plan *plan)
{
    (void)w, (void)region, (void)value, (void)place;
    vgb_plan_drop(plan);
    return true;
}

bool __wrap_brk_warden_take(struct brk_warden *w, uint32_t region, uint64_t value, uint64_t place,
                            uint64_t length);

bool __wrap_brk_warden_take(struct brk_warden *w, uint32_t region, uint64_t value, uint64_t place,
                            uint64_t length)
{
    (void)w, (void)region, (void)value, (void)place, (void)length;
    return true;
}

static void on_mapped(struct brk_client *of, uint32_t region, uint32_t status, uint64_t va)
{
    (void)of, (void)region, (void)va;
    mapped++;
    last_status = status;
}

static void on_unmapped(struct brk_client *of, uint32_t region, uint32_t status)
{
    (void)of, (void)region;
    unmapped++;
    last_status = status;
}

static const struct brk_client_ops ops = {.mapped = on_mapped, .unmapped = on_unmapped};

static int setup(void **state)
{
    int pair[2];

    (void)state;
    memset(&c, 0, sizeof(c));
    memset(&proc, 0, sizeof(proc));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return -1;
    proc.sock.fd = pair[0];
    proc.state = BRK_PROC_ASSIGNED;
    proc.warden = (void *)&proc; /* not looked at */
    worker = pair[1];
    ram = memfd_create("ram", MFD_CLOEXEC);
    c.ops = &ops;
    c.proc = &proc;
    c.slice = true;
    c.state = BRK_C_SERVING;
    mapped = unmapped = 0;
    return ram < 0;
}

static int teardown(void **state)
{
    (void)state;
    brk_regions_gone(&c);
    close(proc.sock.fd);
    close(worker);
    close(ram);
    return 0;
}

static void read_all(void)
{
    struct vgb_msg m;
    unsigned none = 0;

    while (vgb_msg_recv(worker, &m, NULL, &none, MSG_DONTWAIT) == 1)
        brk_out_flush(&proc);
}

/* A region of so many runs, each a call of its own. */
static uint32_t map(uint32_t id)
{
    static struct brk_map_run runs[RUNS];
    struct brk_map m = {
        .region = id, .va = 0x7f0000000000, .length = RUNS * VGP_PAGE, .runs = runs, .nruns = RUNS};
    uint32_t status;

    for (unsigned i = 0; i < RUNS; i++)
        runs[i] = (struct brk_map_run){.fd = ram, .offset = 2ull * i * VGP_PAGE, .length = VGP_PAGE};
    status = brk_client_map(&c, &m);
    read_all();
    return status;
}

static void say(uint32_t type, uint32_t id)
{
    struct vgb_msg m = {.type = type, .region = id, .va = 0x7f0000000000};

    assert_true(brk_region_message(&c, &m));
    read_all();
}

/* Its worker finds a place for each region at once, and the mapper never comes back. */
static void test_mapper_rests(void **state)
{
    uint32_t id = 0;

    (void)state;
    for (; id < CALLS_MAX / RUNS; id++) {
        assert_int_equal(map(id), VGPU_S_OK);
        say(VGB_M_PLACE, id);
    }
    for (unsigned again = 0; again < 3; again++) {
        assert_int_equal(map(id), VGPU_S_NO_MEMORY);
        assert_int_equal(c.nregions, id); /* the failed region is not counted */
        assert_int_equal(c.pinned, (uint64_t)id * RUNS * VGP_PAGE);
        assert_int_equal(brk_pins.used, c.pinned);
    }
    brk_region_mapper_done(&c, 0, false); /* it does once */
    assert_int_equal(map(id), VGPU_S_OK);
    assert_int_equal(map(id + 1), VGPU_S_NO_MEMORY);
    say(VGB_M_MAPPED, 0);
    assert_int_equal(last_status, VGPU_S_OK);
    assert_int_equal(c.ncalls, CALLS_MAX);
}

/* A worker that was killed and is still there has the memory still. */
static void test_refusals(void **state)
{
    (void)state;
    c.state = BRK_C_DEAD;
    c.stuck = true;
    assert_int_equal(map(1), VGPU_S_STUCK);
    assert_int_equal(brk_client_unmap(&c, 1), VGPU_S_STUCK);
    c.stuck = false;
    assert_int_equal(map(1), VGPU_S_WORKER);
    assert_int_equal(brk_client_unmap(&c, 1), VGPU_S_WORKER);
    c.state = BRK_C_STARTING;
    assert_int_equal(map(1), VGPU_S_NO_CLIENT);
    assert_int_equal(brk_client_unmap(&c, 1), VGPU_S_NO_CLIENT);
}

/* No descriptor is held, and no answer is owed. */
static void as_at_first(void)
{
    assert_null(c.regions);
    assert_int_equal(c.nregions, 0);
    assert_int_equal(c.ncalls, 0);
    assert_int_equal(c.pinned, 0);
    assert_int_equal(brk_pins.used, 0);
    assert_int_equal(c.asked, 0);
}

/* A mapping that fails, in the broker or in the mapper, or is unmapped before it is complete: each
 * request has one answer, and the region's id is free afterwards. */
static void test_fails(void **state)
{
    struct vgb_msg failed = {.type = VGB_M_MAPPED, .region = 1, .status = 1};

    (void)state;
    brk_pins.used = 0;
    for (unsigned i = 0; i < 8; i++) {
        const bool placed = i & 1, unmaps = i & 2, maps = i & 4;

        mapped = unmapped = 0;
        assert_int_equal(map(1), VGPU_S_OK);
        assert_int_equal(c.asked, 1);
        if (placed || maps) {
            say(VGB_M_PLACE, 1);
            brk_region_mapper_done(&c, 1, false);
        }
        if (unmaps) {
            assert_int_equal(brk_client_unmap(&c, 1), VGPU_S_OK);
            assert_int_equal(brk_client_unmap(&c, 1), VGPU_S_INVALID);
            assert_int_equal(c.asked, 2);
        }
        if (maps) {
            say(VGB_M_MAPPED, 1);
            assert_int_equal(last_status, VGPU_S_OK);
            if (!unmaps)
                assert_int_equal(brk_client_unmap(&c, 1), VGPU_S_OK);
            say(VGB_M_UNMAPPED, 1);
        } else {
            assert_true(brk_region_message(&c, &failed));
        }
        if (placed || maps) {
            assert_int_equal(unmapped, 0); /* not before the mapper has taken it away */
            brk_region_mapper_done(&c, 1, true);
        }
        read_all();
        assert_int_equal(mapped, 1);
        assert_int_equal(unmapped, unmaps || maps);
        assert_int_equal(last_status, unmaps || maps ? VGPU_S_OK : VGPU_S_NO_MEMORY);
        as_at_first();
        assert_false(brk_region_message(&c, &failed)); /* a worker that says it again */
    }
}

/* Without a mapper: a worker that says later that it could not map a region has it not off the account. */
static void test_said_once(void **state)
{
    struct vgb_msg failed = {.type = VGB_M_MAPPED, .region = 1, .status = 1};

    (void)state;
    proc.warden = NULL;
    assert_int_equal(map(1), VGPU_S_OK);
    say(VGB_M_MAPPED, 1);
    assert_int_equal(last_status, VGPU_S_OK);
    assert_false(brk_region_message(&c, &failed));
    assert_int_equal(c.nregions, 1);
    assert_int_equal(c.pinned, RUNS * VGP_PAGE);
    /* One that is asked for its end while it maps says both. */
    assert_int_equal(map(2), VGPU_S_OK);
    assert_int_equal(brk_client_unmap(&c, 2), VGPU_S_OK);
    read_all();
    say(VGB_M_MAPPED, 2);
    say(VGB_M_UNMAPPED, 2);
    assert_int_equal(unmapped, 1);
    assert_int_equal(c.pinned, RUNS * VGP_PAGE);
}

/* The same without a mapper: what a worker could not map is not counted, and its id is free. */
static void test_fails_without_mapper(void **state)
{
    struct vgb_msg said = {.type = VGB_M_MAPPED, .region = 1};

    (void)state;
    brk_pins.used = 0;
    proc.warden = NULL;
    for (unsigned i = 0; i < 4; i++) {
        const bool fails = i & 1, unmaps = i & 2;

        mapped = unmapped = 0;
        assert_int_equal(map(1), VGPU_S_OK);
        assert_int_equal(c.pinned, RUNS * VGP_PAGE);
        if (unmaps)
            assert_int_equal(brk_client_unmap(&c, 1), VGPU_S_OK);
        said.status = fails;
        assert_true(brk_region_message(&c, &said));
        assert_int_equal(mapped, 1);
        assert_int_equal(last_status, fails ? VGPU_S_NO_MEMORY : VGPU_S_OK);
        if (!fails && !unmaps)
            assert_int_equal(brk_client_unmap(&c, 1), VGPU_S_OK);
        if (!fails || unmaps)
            say(VGB_M_UNMAPPED, 1);
        read_all();
        assert_int_equal(unmapped, !fails || unmaps);
        as_at_first();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mapper_rests, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_said_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fails_without_mapper, setup, teardown),
    };

    return cmocka_run_group_tests_name("regions", tests, NULL, NULL);
}
