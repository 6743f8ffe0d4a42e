/* SPDX-License-Identifier: MIT */
/*
 * The second time after a refusal: the same client does it right, is refused again as the first time, and does it right
 * again. What a refusal leaves behind shows in the second one, or in the broker's accounts.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "vgp_calls.h"
#include "vm.h"

#define ROUNDS 4u

struct refusal {
    const char *name;
    const char *option, *value;
    int refused; /* what too much is answered */
    /* Asks for too much, and for what is allowed; both leave the client as it was. */
    int (*wrong)(struct guest *g, unsigned round);
    int (*right)(struct guest *g, unsigned round);
};

static struct broker broker;

static int memory(struct guest *g, uint64_t bytes)
{
    uint64_t p;
    int r = guest_alloc(g, bytes, &p);

    return r ? r : guest_free(g, p);
}

static int memory_wrong(struct guest *g, unsigned round)
{
    (void)round;
    return memory(g, 9 << 20);
}

static int memory_right(struct guest *g, unsigned round)
{
    (void)round;
    return memory(g, 7 << 20);
}

/* All that the client may have, and one more in the end. */
static int objects(struct guest *g, uint16_t make, uint16_t destroy, enum vgp_handle_type type, unsigned n,
                   unsigned round)
{
    int r = 0;
    unsigned made = 0;

    while (!r && made < n) {
        uint64_t a[4] = {VGP_HANDLE(type, 1 + round, 10 + made)};

        r = guest_call(g, make, a,
                       make == VGP_cuStreamCreate ? sizeof(struct vgp_args_cuStreamCreate)
                                                  : sizeof(struct vgp_args_cuEventCreate),
                       NULL, NULL);
        made += !r;
    }
    while (made--) {
        uint64_t a[4] = {VGP_HANDLE(type, 1 + round, 10 + made)};

        assert_int_equal(guest_call(g, destroy, a, sizeof(struct vgp_args_cuEventDestroy_v2), NULL, NULL), 0);
    }
    return r;
}

static int streams_wrong(struct guest *g, unsigned round)
{
    return objects(g, VGP_cuStreamCreate, VGP_cuStreamDestroy_v2, VGP_H_STREAM, 9, 2 * round);
}

static int streams_right(struct guest *g, unsigned round)
{
    return objects(g, VGP_cuStreamCreate, VGP_cuStreamDestroy_v2, VGP_H_STREAM, 8, 2 * round + 1);
}

static int handles_wrong(struct guest *g, unsigned round)
{
    return objects(g, VGP_cuEventCreate, VGP_cuEventDestroy_v2, VGP_H_EVENT, 64, 2 * round);
}

static int handles_right(struct guest *g, unsigned round)
{
    return objects(g, VGP_cuEventCreate, VGP_cuEventDestroy_v2, VGP_H_EVENT, 60, 2 * round + 1);
}

static int clients_wrong(struct guest *g, unsigned round)
{
    struct guest more;
    int r = guest_connect(&more, broker.sock, "more");

    (void)g;
    (void)round;
    if (r)
        assert_non_null(strstr(more.refused, "client"));
    guest_close(&more);
    return r;
}

/* The first client makes room, and comes back. */
static int clients_right(struct guest *g, unsigned round)
{
    int r = -1;

    (void)round;
    guest_close(g);
    for (int i = 0; i < 1000 && r; i++) {
        r = guest_connect(g, broker.sock, "again");
        if (r) {
            guest_close(g);
            usleep(10000);
        }
    }
    return r ? r : guest_context(g);
}

static const struct refusal refusals[] = {
    {"memory of all", "--vram-quota", "8M", CUDA_ERROR_OUT_OF_MEMORY, memory_wrong, memory_right},
    {"streams", "--client-streams", "8", CUDA_ERROR_OUT_OF_MEMORY, streams_wrong, streams_right},
    {"handles", "--client-handles", "64", CUDA_ERROR_OUT_OF_MEMORY, handles_wrong, handles_right},
    {"clients", "--max-clients", "1", -1, clients_wrong, clients_right},
};

static void test_again(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *f = &refusals[i];
        const char *extra[] = {"--log", "/dev/null", f->option, f->value, NULL};
        struct guest g;

        memset(&broker, 0, sizeof(broker));
        assert_int_equal(broker_start(&broker, extra), 0);
        assert_int_equal(guest_connect(&g, broker.sock, f->name), 0);
        assert_int_equal(guest_context(&g), 0);
        for (unsigned round = 0; round < ROUNDS; round++) {
            int wrong = f->wrong(&g, round), right = f->right(&g, round);

            if (wrong != f->refused || right)
                fail_msg("%s, round %u: refused with %d, then %d", f->name, round, wrong, right);
        }
        guest_close(&g);
        assert_int_equal(broker_stop(&broker), 0);
    }
}

/* Memory that another client has is waited for as long each time that it is refused. */
static void test_wait_again(void **state)
{
    static const char *const extra[] = {
        "--log", "/dev/null", "--vram-quota", "8M", "--memory-policy", "ceiling", "--memory-wait", "4", NULL};
    struct vgp_args_cuMemAlloc_v2 args = {.bytesize = 6 << 20};
    struct guest g, h;
    uint64_t p;

    (void)state;
    memset(&broker, 0, sizeof(broker));
    assert_int_equal(broker_start(&broker, extra), 0);
    assert_int_equal(guest_connect(&g, broker.sock, "has"), 0);
    assert_int_equal(guest_connect(&h, broker.sock, "waits"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_context(&h), 0);
    for (unsigned round = 0; round < 2; round++) {
        assert_int_equal(guest_alloc(&g, 6 << 20, &p), 0);
        guest_submit(&h, VGP_cuMemAlloc_v2, 0, &args, sizeof(args), NULL, 0);
        assert_int_equal(guest_wait(&h, 0, NULL, NULL, 300), -1); /* no answer yet */
        assert_int_equal(guest_wait(&h, 0, NULL, NULL, 60000), CUDA_ERROR_OUT_OF_MEMORY);
        guest_submit(&h, VGP_cuMemAlloc_v2, 0, &args, sizeof(args), NULL, 0);
        assert_int_equal(guest_wait(&h, 0, NULL, NULL, 300), -1);
        assert_int_equal(guest_free(&g, p), 0);
        const void *made;
        assert_int_equal(guest_wait(&h, 0, &made, NULL, 60000), 0);
        uint64_t q = ((const struct vgp_ret_cuMemAlloc_v2 *)made)->dptr;
        assert_int_equal(guest_free(&h, q), 0);
        /* A worker gives its reservation back before it sleeps. */
        int r = CUDA_ERROR_OUT_OF_MEMORY;
        for (int i = 0; i < 10 && r; i++)
            r = memory(&g, 6 << 20);
        assert_int_equal(r, 0);
    }
    guest_close(&g);
    guest_close(&h);
    assert_int_equal(broker_stop(&broker), 0);
}

struct pin {
    struct vgpu_cmd_pin pin;
    struct vgpu_pin_run run;
};

static struct pin pin_of(uint32_t region, uint32_t pages)
{
    return (struct pin){.pin = {.hdr = {.type = VGPU_CMD_PIN},
                                .region = region,
                                .va = 0x7f3400000000 + ((uint64_t)region << 24),
                                .length = pages * UINT64_C(4096),
                                .nruns = 1},
                        .run = {RAM_GPA + 0x200000, pages * UINT64_C(4096)}};
}

static int pin_pages(struct vm *v, uint32_t region, uint32_t pages)
{
    struct pin q = pin_of(region, pages);

    return vm_control(v, &q, sizeof(q), NULL);
}

static int unpin(struct vm *v, uint32_t region)
{
    struct vgpu_cmd_unpin u = {.hdr = {.type = VGPU_CMD_UNPIN}, .region = region};

    return vm_control(v, &u, sizeof(u), NULL);
}

/* More pinned memory than the quota, a region that is there, and one that is not. */
static void test_pin_again(void **state)
{
    static const char *const extra[] = {"--vhost-user", "SOCKET", "--log", "/dev/null",
                                        "--pin-quota",  "16K",    NULL};
    struct vm v = {0};

    (void)state;
    assert_int_equal(vm_open(&v, extra), 0);
    assert_int_equal(vm_create(&v, 0), VGPU_S_OK);
    for (unsigned round = 0; round < ROUNDS; round++) {
        assert_int_equal(pin_pages(&v, 1, 5), VGPU_S_QUOTA);
        assert_int_equal(pin_pages(&v, 1, 4), VGPU_S_OK);
        assert_int_equal(pin_pages(&v, 1, 4), VGPU_S_BUSY);
        assert_int_equal(pin_pages(&v, 2, 1), VGPU_S_QUOTA);
        assert_null(broker_books(v.b.pid));
        assert_int_equal(unpin(&v, 1), VGPU_S_OK);
        assert_int_equal(unpin(&v, 1), VGPU_S_INVALID);
        assert_int_equal(unpin(&v, 2), VGPU_S_INVALID);
        assert_null(broker_books(v.b.pid));
    }
    assert_int_equal(vm_close(&v), 0);
}

/* Posts two requests at once; their statuses. */
static void post_two(struct vm *v, const void *request, uint32_t size, uint32_t answer, uint32_t *first,
                     uint32_t *second)
{
    struct vring_desc *d = (void *)v->ram;
    struct vgpu_resp_hdr h;

    for (unsigned i = 0; i < 2; i++) {
        memcpy(v->ram + REQUEST + i * 0x1000, request, size);
        d[2 * i] = (struct vring_desc){RAM_GPA + REQUEST + i * 0x1000, size, 1, (uint16_t)(2 * i + 1)};
        d[2 * i + 1] = (struct vring_desc){RAM_GPA + RESPONSE + i * 0x1000, answer, 2, 0};
    }
    vm_queue_post(v, 0, 0);
    vm_queue_post(v, 0, 2);
    assert_true(vm_queue_wait(v, 0, 5000, NULL) > 0 && vm_queue_wait(v, 0, 5000, NULL) > 0);
    memcpy(&h, v->ram + RESPONSE, sizeof(h));
    *first = h.status;
    memcpy(&h, v->ram + RESPONSE + 0x1000, sizeof(h));
    *second = h.status;
}

/* The same request twice: the second arrives while the worker is at the first, is refused, and has its own answer. */
static void test_twice_at_once(void **state)
{
    struct vgpu_cmd_unpin u = {.hdr = {.type = VGPU_CMD_UNPIN}, .region = 1};
    struct pin q = pin_of(1, 2);
    struct vm *v = *state;
    uint32_t first, second;

    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    for (unsigned round = 0; round < 20; round++) {
        post_two(v, &q, sizeof(q), sizeof(struct vgpu_resp_pin), &first, &second);
        assert_int_equal(first, VGPU_S_OK);
        assert_int_equal(second, VGPU_S_BUSY);
        post_two(v, &u, sizeof(u), sizeof(struct vgpu_resp_hdr), &first, &second);
        assert_int_equal(first, VGPU_S_OK);
        assert_int_equal(second, VGPU_S_INVALID);
        assert_null(broker_books(v->b.pid));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_wait_again),
        cmocka_unit_test(test_pin_again),
        cmocka_unit_test_setup_teardown(test_twice_at_once, vm_setup, vm_teardown),
    };

    return cmocka_run_group_tests_name("again", tests, NULL, NULL);
}
