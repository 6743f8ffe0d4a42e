/* SPDX-License-Identifier: MIT */
/*
 * Evaluation of arbitrary values from a worker: nvml_usage.c and nvml_values.c, with the rest of the library
 * replaced by the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../lib/testing/range.h"
#include <cuda.h>

#include "library.h"
#include "vgp_guest.h"
#include "../../protocol/vgp_ring.h"

#define ASKED_MAX 10u /* limit on queries; a correct caller makes two */

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *u);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *m);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *m);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *n,
                                                     nvmlProcessInfo_v2_t *list);

static struct nvml_link the_link;
static struct nvml_device the_device;
static unsigned asked;
static struct {
    uint64_t cpu_ns, now_ns;
} says[2]; /* first query, later queries */
static struct {
    uint64_t total, reserved, used;
    uint32_t processes;
} has;
static unsigned last_what, last_argument;
static nvmlReturn_t answer = NVML_ERROR_NOT_SUPPORTED;
static uint64_t above; /* added to the host's numbers */

CUresult vgp_call_vgpNvmlUsage(uint32_t ordinal, uint64_t *total, uint64_t *reserved, uint64_t *used,
                               uint64_t *cpuNs, uint64_t *nowNs, uint32_t *count, uint64_t *processes,
                               uint32_t *processes_len)
{
    (void)ordinal;
    if (asked >= ASKED_MAX) {
        print_error("asked without end\n");
        exit(1);
    }
    *total = has.total;
    *reserved = has.reserved;
    *used = has.used;
    *cpuNs = says[asked > 0].cpu_ns;
    *nowNs = says[asked > 0].now_ns;
    asked++;
    *count = has.processes;
    *processes_len = 3 * has.processes;
    for (uint32_t i = 0; i < has.processes; i++) {
        processes[3 * i] = 100 + i;
        processes[3 * i + 1] = 1000 + i;
        processes[3 * i + 2] = 0;
    }
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
    last_what = what;
    last_argument = argument;
    if (answer == NVML_SUCCESS && first != NULL)
        *first = above + 1000 + what;
    if (answer == NVML_SUCCESS && second != NULL)
        *second = above + 2000 + what;
    if (answer == NVML_SUCCESS && text != NULL)
        snprintf(text, room, "text %u", what);
    return answer;
}

nvmlReturn_t nvml_put(char *to, unsigned room, const char *text)
{
    snprintf(to, room, "%s", text);
    return NVML_SUCCESS;
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
    assert_int_equal(gpu, 77); /* unchanged */
    assert_int_equal(rates(0, s, s, 0, &gpu), NVML_ERROR_UNKNOWN);
    assert_int_equal(rates(0, s, s, s, &gpu), NVML_SUCCESS); /* processor time stands still */
    assert_int_equal(gpu, 0);
    assert_int_equal(asked, 2);
    assert_int_equal(rates(0, 2 * s, s, s, &gpu), NVML_SUCCESS); /* processor time runs backwards */
    assert_uint_in_range(gpu, 0, 100);
    assert_int_equal(rates(0, 1, UINT64_MAX, UINT64_MAX, &gpu), NVML_SUCCESS);
    assert_uint_in_range(gpu, 0, 100);
    assert_int_equal(rates(s, s, 0, 2 * s, &gpu), NVML_SUCCESS); /* a worker has ended */
    assert_int_equal(gpu, 0);
}

/*
 * Reserved memory counts as used in version 1 of the call and separately in version 2, and as free
 * in neither.
 */
static void test_memory(void **state)
{
    static const struct {
        uint64_t total, reserved, used, shown_reserved, shown_used;
    } cases[] = {{100, 10, 30, 10, 30},
                 {100, 0, 30, 0, 30},
                 {100, 10, 90, 10, 90},
                 {100, 10, 91, 10, 90},
                 {100, 100, 1, 100, 0},
                 {100, 101, 0, 100, 0},
                 {100, UINT64_MAX, 2, 100, 0},
                 {100, 10, UINT64_MAX, 10, 90},
                 {100, 10, UINT64_MAX - 9, 10, 90},
                 {0, 1, 1, 0, 0}};
    nvmlDevice_t d = (nvmlDevice_t)&the_device;

    (void)state;
    the_link.flags = VGP_NVML_MEMORY;
    the_device = (struct nvml_device){.link = &the_link};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nvmlMemory_v2_t v2 = {.version = NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2u)};
        nvmlMemory_t v1;

        asked = 0;
        has.total = cases[i].total;
        has.reserved = cases[i].reserved;
        has.used = cases[i].used;
        assert_int_equal(nvmlDeviceGetMemoryInfo(d, &v1), NVML_SUCCESS);
        assert_int_equal(v1.total, has.total);
        assert_int_equal(v1.used, cases[i].shown_used + cases[i].shown_reserved);
        assert_int_equal(v1.free, has.total - v1.used);
        assert_int_equal(nvmlDeviceGetMemoryInfo_v2(d, &v2), NVML_SUCCESS);
        assert_int_equal(v2.total, has.total);
        assert_int_equal(v2.reserved, cases[i].shown_reserved);
        assert_int_equal(v2.used, cases[i].shown_used);
        assert_int_equal(v2.free, v1.free);
    }
    the_link.flags = 0;
    assert_int_equal(nvmlDeviceGetMemoryInfo(d, &(nvmlMemory_t){0}), NVML_ERROR_NOT_SUPPORTED);
}

/*
 * All processes are listed if they fit, including the last; otherwise only their number is
 * returned.
 */
static void test_processes(void **state)
{
    nvmlDevice_t d = (nvmlDevice_t)&the_device;
    nvmlProcessInfo_v2_t list[4];

    (void)state;
    the_device = (struct nvml_device){.link = &the_link};
    has.processes = 3;
    for (unsigned room = 0; room <= 4; room++) {
        unsigned n = room;

        asked = 0;
        list[0].pid = list[2].pid = 7;
        assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(d, &n, list),
                         room < 3 ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
        assert_int_equal(n, 3);
        assert_int_equal(list[0].pid, room < 3 ? 7 : 100);
        assert_int_equal(list[2].pid, room < 3 ? 7 : 102);
        if (room >= 3)
            assert_true(list[0].used == 1000 && list[2].used == 1002);
    }
    has.processes = 0;
}

/* Functions of NVML, and the host query that each makes. */
#define ONES(X) \
    X(PowerUsage, POWER_USAGE) \
    X(PowerManagementLimit, POWER_LIMIT) \
    X(PowerManagementDefaultLimit, POWER_DEFAULT) \
    X(EnforcedPowerLimit, POWER_ENFORCED) \
    X(FanSpeed, FAN_SPEED) \
    X(PerformanceState, PSTATE) \
    X(PowerState, PSTATE) \
    X(PersistenceMode, PERSISTENCE) \
    X(DisplayActive, DISPLAY_ACTIVE) \
    X(DisplayMode, DISPLAY_MODE) \
    X(NumGpuCores, GPU_CORES) \
    X(CurrPcieLinkGeneration, PCIE_GEN) \
    X(CurrPcieLinkWidth, PCIE_WIDTH) \
    X(MaxPcieLinkGeneration, PCIE_MAX_GEN) \
    X(MaxPcieLinkWidth, PCIE_MAX_WIDTH) \
    X(MemoryBusWidth, BUS_WIDTH) \
    X(ComputeMode, COMPUTE_MODE) \
    X(Brand, BRAND) \
    X(Architecture, ARCHITECTURE)
#define KINDS(X) \
    X(Temperature, TEMPERATURE, 1) \
    X(TemperatureThreshold, TEMPERATURE_LIMIT, 8) \
    X(ClockInfo, CLOCK, 4) \
    X(MaxClockInfo, MAX_CLOCK, 4)
#define PAIRS(X) \
    X(PowerManagementLimitConstraints, POWER_LIMITS) \
    X(MigMode, MIG_MODE) \
    X(EccMode, ECC_MODE)
#define TEXTS(X) \
    X(Serial, SERIAL) \
    X(VbiosVersion, VBIOS)
#define WIDES(X) \
    X(TotalEnergyConsumption, ENERGY) \
    X(CurrentClocksThrottleReasons, CLOCK_REASONS) \
    X(CurrentClocksEventReasons, CLOCK_REASONS)
#define ONE(name, what) nvmlReturn_t nvmlDeviceGet##name(nvmlDevice_t, unsigned *);
#define KIND(name, what, kinds) nvmlReturn_t nvmlDeviceGet##name(nvmlDevice_t, unsigned, unsigned *);
#define PAIR(name, what) nvmlReturn_t nvmlDeviceGet##name(nvmlDevice_t, unsigned *, unsigned *);
#define TEXT(name, what) nvmlReturn_t nvmlDeviceGet##name(nvmlDevice_t, char *, unsigned);
#define WIDE(name, what) nvmlReturn_t nvmlDeviceGet##name(nvmlDevice_t, unsigned long long *);
ONES(ONE)
KINDS(KIND)
PAIRS(PAIR)
TEXTS(TEXT)
WIDES(WIDE)
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *t);
#undef WIDE
#undef ONE
#undef KIND
#undef PAIR
#undef TEXT

static void test_values(void **state)
{
    nvmlDevice_t d = (nvmlDevice_t)&the_device;
    unsigned a, b;
    char text[96], want[96];

    (void)state;
    the_device = (struct nvml_device){.link = &the_link};
    answer = NVML_SUCCESS;
#define ONE(name, what) \
    a = 0; \
    assert_int_equal(nvmlDeviceGet##name(d, &a), NVML_SUCCESS); \
    assert_int_equal(a, 1000 + VGP_NVML_##what);
#define KIND(name, what, kinds) \
    for (unsigned kind = 0; kind <= (kinds); kind++) { \
        a = last_argument = 77; \
        assert_int_equal(nvmlDeviceGet##name(d, kind, &a), \
                         kind < (kinds) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT); \
        assert_int_equal(a, kind < (kinds) ? 1000 + VGP_NVML_##what : 77); \
        assert_int_equal(last_argument, kind < (kinds) ? kind : 77); \
    }
#define PAIR(name, what) \
    a = b = 0; \
    assert_int_equal(nvmlDeviceGet##name(d, &a, &b), NVML_SUCCESS); \
    assert_int_equal(a, 1000 + VGP_NVML_##what); \
    assert_int_equal(b, 2000 + VGP_NVML_##what);
#define TEXT(name, what) \
    assert_int_equal(nvmlDeviceGet##name(d, text, sizeof(text)), NVML_SUCCESS); \
    snprintf(want, sizeof(want), "text %u", VGP_NVML_##what); \
    assert_string_equal(text, want);
    ONES(ONE)
    KINDS(KIND)
    PAIRS(PAIR)
    TEXTS(TEXT)
    answer = NVML_ERROR_NOT_SUPPORTED;
}

/* Counters and sets of reasons are 64 bits wide, and are whole. */
static void test_wide_values(void **state)
{
    nvmlDevice_t d = (nvmlDevice_t)&the_device;
    unsigned long long a;

    (void)state;
    the_device = (struct nvml_device){.link = &the_link};
    for (int shift = 0; shift < 64; shift += 9) {
        above = UINT64_C(1) << shift;
#define WIDE(name, what) \
    answer = NVML_SUCCESS; \
    a = 0; \
    assert_int_equal(nvmlDeviceGet##name(d, &a), NVML_SUCCESS); \
    assert_true(a == above + 1000 + VGP_NVML_##what); \
    assert_int_equal(nvmlDeviceGet##name(d, NULL), NVML_ERROR_INVALID_ARGUMENT); \
    answer = NVML_ERROR_NOT_SUPPORTED; \
    assert_int_equal(nvmlDeviceGet##name(d, &a), NVML_ERROR_NOT_SUPPORTED); \
    assert_true(a == above + 1000 + VGP_NVML_##what);
        WIDES(WIDE)
    }
    above = 0;
}

/* A structure of another version, or for another sensor, is refused and unchanged. */
static void test_temperature(void **state)
{
    const unsigned version = NVML_STRUCT_VERSION(nvmlTemperature_v1_t, 1u);
    nvmlDevice_t d = (nvmlDevice_t)&the_device;
    nvmlTemperature_v1_t t;

    (void)state;
    answer = NVML_SUCCESS;
    for (int i = -1; i <= 1; i++) {
        t = (nvmlTemperature_v1_t){
            .version = version + (unsigned)i, .sensor = NVML_TEMPERATURE_GPU, .temperature = 7};
        assert_int_equal(nvmlDeviceGetTemperatureV(d, &t),
                         i == 0 ? NVML_SUCCESS : NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
        assert_int_equal(t.temperature, i == 0 ? 1000 + VGP_NVML_TEMPERATURE : 7);
    }
    t = (nvmlTemperature_v1_t){.version = version, .sensor = 1, .temperature = 7};
    assert_int_equal(nvmlDeviceGetTemperatureV(d, &t), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.temperature, 7);
    assert_int_equal(nvmlDeviceGetTemperatureV(d, NULL), NVML_ERROR_INVALID_ARGUMENT);
    answer = NVML_ERROR_NOT_SUPPORTED;
}

/*
 * Without the host's NVML: CUDA's attribute for the same value, or the caller's value unchanged if
 * CUDA has none.
 */
static void test_attributes(void **state)
{
    static const int clock_of[] = {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
                                   CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE};
    nvmlDevice_t d = (nvmlDevice_t)&the_device;
    unsigned a;

    (void)state;
    answer = NVML_ERROR_NOT_SUPPORTED;
    for (int known = 0; known < 2; known++) {
        const nvmlReturn_t r = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;

        the_device = (struct nvml_device){.link = &the_link};
        for (int i = 0; known && i < NVML_ATTRIBUTES_MAX; i++)
            the_device.attributes[i] = 1000 * (i + 1); /* a distinct value for each */
        for (unsigned kind = 0; kind < 4; kind++) {
            a = 77;
            assert_int_equal(nvmlDeviceGetMaxClockInfo(d, kind, &a), kind < 3 ? r : NVML_ERROR_NOT_SUPPORTED);
            assert_int_equal(a, known && kind < 3 ? clock_of[kind] + 1 : 77);
        }
        a = 77;
        assert_int_equal(nvmlDeviceGetMemoryBusWidth(d, &a), r);
        assert_int_equal(a, known ? 1000 * (CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH + 1) : 77);
        assert_int_equal(nvmlDeviceGetComputeMode(d, &a), NVML_SUCCESS);
        assert_int_equal(a, known ? 1000 * (CU_DEVICE_ATTRIBUTE_COMPUTE_MODE + 1) : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clock),      cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_processes),  cmocka_unit_test(test_values),
                                       cmocka_unit_test(test_attributes), cmocka_unit_test(test_wide_values),
                                       cmocka_unit_test(test_temperature)};

    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
