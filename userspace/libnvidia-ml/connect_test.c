/* SPDX-License-Identifier: MIT */
/*
 * nvml_client.c: NVML's number for each error of a transport, a ring and a greeting, with one backend and beside another
 * that answers. Nothing of a backend that fails is left.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>

#include "library.h"
#include "vgp_guest.h"
#include "../../protocol/vgp_ring.h"

int lnk_trace_on;
const struct lnk_trace_results nvml_trace_results;

/* What happens with the first place; the further ones answer. */
static struct {
    int open;                     /* -errno, or 0 */
    int ring;                     /* likewise */
    CUresult hello, info, device; /* `device`: of its second GPU */
    bool old;                     /* a worker without NVML */
} first;
static unsigned places, opened, closed;
static bool at_first; /* the backend that is being greeted */

static void transport_close(struct lnk_transport *t)
{
    (void)t;
    closed++;
}

static const struct lnk_transport_ops ops = {.name = "test", .close = transport_close};

unsigned lnk_places(struct lnk_place list[LNK_PLACES_MAX])
{
    memset(list, 0, places * sizeof(*list));
    opened = closed = 0;
    return places;
}

int lnk_transport_open_at(struct lnk_transport *t, const struct lnk_place *place)
{
    (void)place;
    at_first = opened == 0;
    opened++;
    t->ops = &ops;
    if (at_first && first.open)
        closed++; /* nothing was opened */
    return at_first ? first.open : 0;
}

int lnk_transport_none(struct lnk_transport *t)
{
    t->why[0] = '\0';
    return -ENODEV;
}

int lnk_ring_init(struct lnk_ring *r, struct lnk_transport *t, lnk_notify_fn fn, void *arg, const char **why)
{
    (void)r;
    (void)t;
    (void)fn;
    (void)arg;
    *why = "test";
    return at_first ? first.ring : 0;
}

CUresult vgp_call_vgpHello(uint32_t major, uint32_t minor, const char *label, uint32_t *worker_major,
                           uint32_t *worker_minor, int32_t *version, int32_t *count, uint64_t *features,
                           char *provider, uint32_t provider_cap)
{
    (void)major;
    (void)minor;
    (void)label;
    *worker_major = *worker_minor = 1;
    *version = 13000;
    *count = 2;
    *features = at_first && first.old ? 0 : VGP_FEATURE_NVML;
    snprintf(provider, provider_cap, "test");
    return at_first ? first.hello : CUDA_SUCCESS;
}

CUresult vgp_call_vgpNvmlInfo(uint32_t *flags, int32_t *cuda, char *driver, uint32_t driver_cap,
                              char *library, uint32_t library_cap)
{
    *flags = 0;
    *cuda = 13000;
    snprintf(driver, driver_cap, "580.1");
    snprintf(library, library_cap, "13.580.1");
    return at_first ? first.info : CUDA_SUCCESS;
}

CUresult vgp_call_vgpDeviceInfo(uint32_t ordinal, uint64_t *total, uint64_t *quota, uint8_t *uuid,
                                uint32_t *uuid_len, char *name, uint32_t name_cap, char *bus,
                                uint32_t bus_cap, int32_t *attributes, uint32_t *attributes_len)
{
    (void)uuid;
    (void)attributes;
    *total = 1;
    *quota = 0;
    *uuid_len = *attributes_len = 0;
    snprintf(name, name_cap, "test");
    snprintf(bus, bus_cap, "0");
    return at_first && ordinal == 1 ? first.device : CUDA_SUCCESS;
}

void lnk_identify(unsigned number, const char *provider, uint8_t uuid[16], char *bus_id, int *domain)
{
    (void)number;
    (void)provider;
    (void)uuid;
    (void)bus_id;
    (void)domain;
}

int lnk_driver_version(int host)
{
    return host;
}

void lnk_trace_init(const struct lnk_trace_results *results)
{
    (void)results;
}

void nvml_why(const char *name, const char *fmt, ...)
{
    (void)name;
    (void)fmt;
}

CUresult lnk_ring_begin(struct lnk_ring *r, struct lnk_call *c, uint16_t call, uint32_t bytes,
                        enum lnk_reply_want want, uint64_t context, uint32_t thread)
{
    (void)r;
    (void)c;
    (void)call;
    (void)bytes;
    (void)want;
    (void)context;
    (void)thread;
    return CUDA_ERROR_UNKNOWN;
}

void lnk_ring_publish(struct lnk_call *c)
{
    (void)c;
}

CUresult lnk_ring_collect(struct lnk_call *c, const void **data, uint32_t *size)
{
    (void)c;
    *data = NULL;
    *size = 0;
    return CUDA_ERROR_UNKNOWN;
}

void lnk_ring_end(struct lnk_call *c)
{
    (void)c;
}

/* The first backend's error is the call's, unless another backend answers: then that one's devices are there. */
static void try_first(nvmlReturn_t want)
{
    places = 1;
    assert_int_equal(nvml_init(0), want);
    assert_int_equal(nvml.device_count, 0);
    assert_int_equal(nvml.link_count, 0);
    assert_int_equal(closed, opened);
    assert_int_equal(nvml_enter(), NVML_ERROR_UNINITIALIZED);
    places = 3;
    assert_int_equal(nvml_init(0), NVML_SUCCESS);
    assert_int_equal(nvml.link_count, 2);
    assert_int_equal(nvml.device_count, 4);
    assert_ptr_equal(nvml.devices[0].link, &nvml.links[0]);
    assert_ptr_equal(nvml.devices[2].link, &nvml.links[1]);
    assert_int_equal(nvml_shutdown(), NVML_SUCCESS);
    assert_int_equal(closed, opened);
    assert_int_equal(nvml_shutdown(), NVML_ERROR_UNINITIALIZED);
    memset(&first, 0, sizeof(first));
}

static void every_error_of_a_transport(void **state)
{
    static const struct {
        int error;
        nvmlReturn_t result;
    } cases[] = {{EACCES, NVML_ERROR_NO_PERMISSION},           {EPERM, NVML_ERROR_NO_PERMISSION},
                 {EPROTO, NVML_ERROR_LIB_RM_VERSION_MISMATCH}, {ENOMEM, NVML_ERROR_MEMORY},
                 {ENOENT, NVML_ERROR_DRIVER_NOT_LOADED},       {ENODEV, NVML_ERROR_DRIVER_NOT_LOADED},
                 {ECONNREFUSED, NVML_ERROR_DRIVER_NOT_LOADED}, {EBUSY, NVML_ERROR_DRIVER_NOT_LOADED}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        first.open = -cases[i].error;
        try_first(cases[i].result);
    }
    first.ring = -EPROTO;
    try_first(NVML_ERROR_LIB_RM_VERSION_MISMATCH);
    first.old = true;
    try_first(NVML_ERROR_LIB_RM_VERSION_MISMATCH);
    places = 0;
    assert_int_equal(nvml_init(0), NVML_ERROR_DRIVER_NOT_LOADED);
}

/* Each step of the greeting, with each result that has a number of its own, and one that has not. */
static void every_result_of_a_greeting(void **state)
{
    static const struct {
        CUresult cuda;
        nvmlReturn_t result;
    } cases[] = {{CUDA_ERROR_INVALID_VALUE, NVML_ERROR_INVALID_ARGUMENT},
                 {CUDA_ERROR_INVALID_DEVICE, NVML_ERROR_INVALID_ARGUMENT},
                 {CUDA_ERROR_OUT_OF_MEMORY, NVML_ERROR_MEMORY},
                 {CUDA_ERROR_NOT_SUPPORTED, NVML_ERROR_NOT_SUPPORTED},
                 {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, NVML_ERROR_LIB_RM_VERSION_MISMATCH},
                 {CUDA_ERROR_UNKNOWN, NVML_ERROR_UNKNOWN},
                 {CUDA_ERROR_LAUNCH_FAILED, NVML_ERROR_GPU_IS_LOST},
                 {CUDA_ERROR_DEVICE_UNAVAILABLE, NVML_ERROR_GPU_IS_LOST}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        first.hello = cases[i].cuda;
        try_first(cases[i].result);
        first.info = cases[i].cuda;
        try_first(cases[i].result);
        first.device = cases[i].cuda;
        try_first(cases[i].result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_error_of_a_transport),
                                       cmocka_unit_test(every_result_of_a_greeting)};

    return cmocka_run_group_tests_name("connect", tests, NULL, NULL);
}
