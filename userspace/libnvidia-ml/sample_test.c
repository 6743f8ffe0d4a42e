/* SPDX-License-Identifier: MIT */
/* Utilisation from samples, with a worker that says what it likes: usage.c alone, the rest of the library is the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "library.h"
#include "vgp_guest.h"

#define ASKED_MAX 10u /* an honest caller asks twice */

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *u);

static struct nvml_link the_link;
static struct nvml_device the_device;
static unsigned asked;
static struct {
    uint64_t cpu_ns, now_ns;
} says[2]; /* first, and from then on */

CUresult vgp_call_vgpNvmlUsage(uint32_t ordinal, uint64_t *total, uint64_t *reserved, uint64_t *used,
                               uint64_t *cpuNs, uint64_t *nowNs, uint32_t *count, uint64_t *processes,
                               uint32_t *processes_len)
{
    (void)ordinal;
    (void)processes;
    if (asked >= ASKED_MAX) {
        print_error("asked without end\n");
        exit(1);
    }
    *total = *reserved = *used = 0;
    *cpuNs = says[asked > 0].cpu_ns;
    *nowNs = says[asked > 0].now_ns;
    asked++;
    *count = *processes_len = 0;
    return CUDA_SUCCESS;
}

int lnk_trace_on;
uint64_t lnk_trace_now(void)
{
    return 0;
}

nvmlReturn_t nvml_enter(void)
{
    return NVML_SUCCESS;
}

void nvml_leave(void)
{
}

nvmlReturn_t nvml_result(int cuda_result)
{
    return cuda_result ? NVML_ERROR_UNKNOWN : NVML_SUCCESS;
}

struct nvml_device *nvml_device(nvmlDevice_t handle)
{
    (void)handle;
    return &the_device;
}

unsigned nvml_at(const struct nvml_device *d)
{
    return d->ordinal;
}

nvmlReturn_t nvml_ask(const struct nvml_device *d, unsigned what, unsigned argument, uint64_t *first,
                      uint64_t *second, char *text, unsigned room)
{
    (void)d;
    (void)what;
    (void)argument;
    (void)first;
    (void)second;
    (void)text;
    (void)room;
    return NVML_ERROR_NOT_SUPPORTED;
}

void nvml_trace(const char *name, nvmlReturn_t r, uint64_t t0, const char *what, ...)
{
    (void)name;
    (void)r;
    (void)t0;
    (void)what;
}

void nvml_why(const char *name, const char *fmt, ...)
{
    (void)name;
    (void)fmt;
}

static nvmlReturn_t rates(uint64_t cpu0, uint64_t now0, uint64_t cpu1, uint64_t now1, unsigned *gpu)
{
    nvmlUtilization_t u = {77, 77};
    nvmlReturn_t r;

    the_device = (struct nvml_device){.link = &the_link};
    says[0].cpu_ns = cpu0;
    says[0].now_ns = now0;
    says[1].cpu_ns = cpu1;
    says[1].now_ns = now1;
    asked = 0;
    r = nvmlDeviceGetUtilizationRates((nvmlDevice_t)&the_device, &u);
    *gpu = u.gpu;
    return r;
}

static void test_clock(void **state)
{
    const uint64_t s = 1000000000;
    unsigned gpu;

    (void)state;
    assert_int_equal(rates(0, s, s / 2, 2 * s, &gpu), NVML_SUCCESS);
    assert_int_equal(gpu, 50);
    assert_int_equal(asked, 2);
    assert_int_equal(rates(0, 0, s, 0, &gpu), NVML_ERROR_UNKNOWN);
    assert_int_equal(gpu, 77); /* as it was */
    assert_int_equal(rates(0, s, s, 0, &gpu), NVML_ERROR_UNKNOWN);
    assert_int_equal(rates(0, s, s, s, &gpu), NVML_SUCCESS); /* it stands still */
    assert_int_equal(gpu, 0);
    assert_int_equal(asked, 2);
    assert_int_equal(rates(0, 2 * s, s, s, &gpu), NVML_SUCCESS); /* it goes back */
    assert_in_range(gpu, 0, 100);
    assert_int_equal(rates(0, 1, UINT64_MAX, UINT64_MAX, &gpu), NVML_SUCCESS);
    assert_in_range(gpu, 0, 100);
    assert_int_equal(rates(s, s, 0, 2 * s, &gpu), NVML_SUCCESS); /* a worker has ended */
    assert_int_equal(gpu, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clock)};

    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
