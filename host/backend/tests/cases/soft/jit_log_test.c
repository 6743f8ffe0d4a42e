/* SPDX-License-Identifier: MIT */
/* Logs of compilations: as many as a program may keep, and what it drops makes room, for as long as it runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "vgp_calls.h"

#define SETS 64u                   /* LOGS_MAX of worker/calls/code/wrk_call_jit.c */
#define BYTES (UINT32_C(32) << 20) /* LOG_BYTES_MAX of it */

static const char image[] = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
static struct broker broker;
static struct guest guest;

static int load(uint32_t index, uint32_t log, uint32_t info, uint32_t error)
{
    struct vgp_args_vgpModuleLoadEx a = {.module = VGP_HANDLE(VGP_H_MODULE, 1, index),
                                         .image_size = sizeof(image),
                                         .image_len = sizeof(image),
                                         .logId = log,
                                         .infoMax = info,
                                         .errorMax = error};

    guest_submit(&guest, VGP_vgpModuleLoadEx, 0, &a, sizeof(a), image, sizeof(image));
    return guest_wait(&guest, 0, NULL, NULL, 60000);
}

static void unload(uint32_t index)
{
    const struct vgp_args_cuModuleUnload a = {.hmod = VGP_HANDLE(VGP_H_MODULE, 1, index)};

    assert_int_equal(guest_call(&guest, VGP_cuModuleUnload, &a, sizeof(a), NULL, NULL), 0);
}

static void drop(uint32_t log)
{
    const struct vgp_args_vgpJitLogDrop a = {.logId = log};

    assert_int_equal(guest_call(&guest, VGP_vgpJitLogDrop, &a, sizeof(a), NULL, NULL), 0);
}

/* So many sets of logs of this size fit, and one more does not: twice, and after many that came and went. */
static void fill(uint32_t *next, unsigned fit, uint32_t info, uint32_t error)
{
    for (unsigned round = 0; round < 2; round++) {
        const uint32_t first = *next;

        for (unsigned i = 0; i < fit; i++, ++*next)
            assert_int_equal(load(*next, *next, info, error), 0);
        assert_int_equal(load(*next, *next, info, error), CUDA_ERROR_OUT_OF_MEMORY);
        drop(first);
        assert_int_equal(load(*next, *next, info, error), 0); /* the place of the one that was dropped */
        ++*next;
        for (uint32_t log = first + 1; log < *next; log++)
            drop(log);
        for (uint32_t index = first; index < *next; index++)
            unload(index);
    }
}

static void test_room(void **state)
{
    const char *const extra[] = {"--provider", soft_provider(), NULL};
    uint32_t next = 1;

    (void)state;
    assert_int_equal(broker_start(&broker, extra), 0);
    assert_int_equal(guest_connect(&guest, broker.sock, "logs"), 0);
    assert_int_equal(guest_context(&guest), 0);
    fill(&next, SETS, 4096, 0);
    fill(&next, SETS, 0, 4096);
    fill(&next, BYTES / (VGP_JIT_LOG_MAX + 1), VGP_JIT_LOG_MAX, 0);
    fill(&next, BYTES / (2 * VGP_JIT_LOG_MAX + 2), VGP_JIT_LOG_MAX, VGP_JIT_LOG_MAX);
    fill(&next, SETS, 4096, 4096);
    guest_close(&guest);
    assert_int_equal(broker_stop(&broker), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_room)};

    return cmocka_run_group_tests_name("logs of compilations", tests, NULL, NULL);
}
