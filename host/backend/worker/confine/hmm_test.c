/* SPDX-License-Identifier: MIT */
/*
 * The flag that nvidia-uvm is opened with. A filter hands the call to a handler, which answers as the
 * driver does: it takes the flag, or refuses what it does not know.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <ucontext.h>

#include <cmocka.h>

#include "confine.h"

struct init {
    uint64_t flags;
    uint32_t status;
};

static uint64_t got[4];
static unsigned calls;
static bool old_driver;

static void driver(int sig, siginfo_t *si, void *context)
{
    ucontext_t *u = context;
    struct init *init = (struct init *)u->uc_mcontext.gregs[REG_RDX];

    (void)sig;
    (void)si;
    if (calls < 4)
        got[calls] = init->flags;
    calls++;
    init->status = old_driver && init->flags ? 0x1f /* NV_ERR_INVALID_ARGUMENT */ : 0;
    u->uc_mcontext.gregs[REG_RAX] = 0;
}

/* In each test: cmocka has handlers of its own. */
static void arm(void)
{
    struct sigaction sa = {.sa_sigaction = driver, .sa_flags = SA_SIGINFO};

    sigaction(SIGSYS, &sa, NULL);
    calls = 0;
}

static int setup(void **state)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);

    (void)state;
    int r = seccomp_rule_add(ctx, SCMP_ACT_TRAP, SCMP_SYS(ioctl), 1,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, 0x30000001));
    r = r ? r : seccomp_load(ctx);
    seccomp_release(ctx);
    return r;
}

static void test_asked_to_do_without(void **state)
{
    struct init init = {.flags = 2};

    (void)state;
    arm();
    assert_int_equal(ioctl(0, 0x30000001, &init), 0);
    assert_int_equal(calls, 1);
    assert_int_equal(got[0], 3);
    assert_int_equal(init.flags, 2); /* as libcuda wrote it */
    assert_int_equal(init.status, 0);
}

/* A driver that does not know the flag gets what libcuda wanted. */
static void test_old_driver(void **state)
{
    struct init init = {.flags = 0};

    (void)state;
    arm();
    old_driver = true;
    assert_int_equal(ioctl(0, 0x30000001, &init), 0);
    assert_int_equal(calls, 2);
    assert_int_equal(got[0], 1);
    assert_int_equal(got[1], 0);
    assert_int_equal(init.status, 0);
    old_driver = false;
}

static void test_other_calls(void **state)
{
    int n = 5;

    (void)state;
    arm();
    assert_int_equal(ioctl(-1, 0x5421 /* FIONBIO */, &n), -1);
    assert_int_equal(n, 5);
    assert_int_equal(calls, 0);
}

/* Last: it cannot be taken back. */
static void test_allowed(void **state)
{
    struct init init = {.flags = 0};

    (void)state;
    arm();
    wrk_hmm_allow();
    assert_int_equal(ioctl(0, 0x30000001, &init), 0);
    assert_int_equal(calls, 1);
    assert_int_equal(got[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asked_to_do_without),
        cmocka_unit_test(test_old_driver),
        cmocka_unit_test(test_other_calls),
        cmocka_unit_test(test_allowed),
    };

    return cmocka_run_group_tests_name("hmm", tests, setup, NULL);
}
