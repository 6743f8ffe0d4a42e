/* SPDX-License-Identifier: MIT */
/* nvml_device.c: devices by index, UUID and PCI address, among GPUs that differ in a single number each;
 * nvml_events.c: the duration of waits for events. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <cuda.h>

#include "library.h"
#include "vgp_guest.h"

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length);
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *ext);
nvmlReturn_t nvmlEventSetCreate(void *set);
nvmlReturn_t nvmlEventSetFree(void *set);
nvmlReturn_t nvmlEventSetWait_v2(void *set, void *data, unsigned timeout_ms);
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer, unsigned index, unsigned *status);

#define DEVICES 5
static const struct {
    int domain, bus, slot;
} places[DEVICES] = {{0, 0x3b, 0x04}, {0, 0x04, 0x3b}, {0x12, 0x3b, 0x04}, {0, 0x3b, 0x1b}, {0, 0x44, 0x04}};

struct nvml_client nvml;
static struct nvml_link links[2];
static int asked[2]; /* devices of the latest query for peers */
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

const char *nvml_error_name(nvmlReturn_t r)
{
    return r == NVML_SUCCESS ? "" : NULL;
}

unsigned nvml_at(const struct nvml_device *d)
{
    return d->ordinal;
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

CUresult vgp_call_vgpNvmlGet(uint32_t ordinal, uint32_t what, uint32_t argument, int32_t *status,
                             uint64_t *first, uint64_t *second, char *text, uint32_t text_len)
{
    (void)argument;
    *status = NVML_SUCCESS;
    *first = 0x10de0000u + ordinal;
    *second = 0x20de0000u + ordinal;
    if (what == VGP_NVML_SERIAL && text != NULL)
        snprintf(text, text_len, "serial %u", ordinal);
    return CUDA_SUCCESS;
}

static CUresult peers(int *yes, CUdevice a, CUdevice b)
{
    asked[0] = a;
    asked[1] = b;
    *yes = a < b; /* in a single direction */
    return CUDA_SUCCESS;
}

CUresult vgp_call_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    return peers(canAccessPeer, dev, peerDev);
}

CUresult vgp_call_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                          CUdevice dstDevice)
{
    assert_int_equal(attrib, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
    return peers(value, srcDevice, dstDevice);
}

static nvmlDevice_t device(int i)
{
    return (nvmlDevice_t)&nvml.devices[i];
}

static int set_up(void **state)
{
    (void)state;
    nvml.device_count = DEVICES;
    links[0].flags = VGP_NVML_HOST;
    for (int i = 0; i < DEVICES; i++) {
        struct nvml_device *d = &nvml.devices[i];

        d->link = &links[i == DEVICES - 1];
        d->ordinal = 10 + (unsigned)i;
        d->has_uuid = true;
        d->uuid[0] = 0xab;              /* letters, whose case is ignored */
        d->uuid[15] = (unsigned char)i; /* only the last byte differs */
        d->attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID] = places[i].domain;
        d->attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID] = places[i].bus;
        d->attributes[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID] = places[i].slot;
    }
    return 0;
}

/* Returns the index of the device that a text identifies, or -1. */
static int named(const char *id)
{
    nvmlDevice_t d = NULL;
    nvmlReturn_t r = nvmlDeviceGetHandleByPciBusId_v2(id, &d);

    for (int i = 0; r == NVML_SUCCESS && i < DEVICES; i++) {
        if (d == device(i))
            return i;
    }
    assert_int_equal(r, NVML_ERROR_NOT_FOUND);
    assert_null(d);
    return -1;
}

static void every_form_of_a_place(void **state)
{
    static const char *const with_domain[] = {"%x:%x:%x", "%04X:%02X:%02X.0", "%08x:%02x:%02x.0",
                                              "%08X:%02X:%02X"};
    static const char *const without[] = {"%x:%x", "%02X:%02X.0", "%02x:%02x"};
    nvmlPciInfo_t pci;
    char id[64];

    (void)state;
    for (int i = 0; i < DEVICES; i++) {
        for (unsigned f = 0; f < sizeof(with_domain) / sizeof(with_domain[0]); f++) {
            snprintf(id, sizeof(id), with_domain[f], places[i].domain, places[i].bus, places[i].slot);
            assert_int_equal(named(id), i);
        }
        for (unsigned f = 0; f < sizeof(without) / sizeof(without[0]); f++) {
            snprintf(id, sizeof(id), without[f], places[i].bus, places[i].slot);
            assert_int_equal(named(id), places[i].domain ? 0 : i);
        }
        assert_int_equal(nvmlDeviceGetPciInfo_v3(device(i), &pci), NVML_SUCCESS);
        assert_int_equal(pci.domain, places[i].domain);
        assert_int_equal(pci.bus, places[i].bus);
        assert_int_equal(pci.device, places[i].slot);
        assert_int_equal(pci.ids, i == DEVICES - 1 ? 0 : 0x10de000a + i);
        assert_int_equal(pci.subsystem, i == DEVICES - 1 ? 0 : 0x20de000a + i);
        assert_int_equal(named(pci.bus_id), i);
        assert_int_equal(named(pci.legacy_bus_id), i);
    }
    assert_int_equal(named("0:3b:5"), -1);
    assert_int_equal(named("1:3b:4"), -1);
    assert_int_equal(named("3b:5"), -1);
}

static void every_other_name(void **state)
{
    nvmlDevice_t d;
    unsigned index;
    char text[96];

    (void)state;
    for (int i = 0; i < DEVICES; i++) {
        assert_int_equal(nvmlDeviceGetHandleByIndex_v2((unsigned)i, &d), NVML_SUCCESS);
        assert_ptr_equal(d, device(i));
        assert_int_equal(nvmlDeviceGetIndex(d, &index), NVML_SUCCESS);
        assert_int_equal(index, i);
        assert_int_equal(nvmlDeviceGetUUID(d, text, sizeof(text)), NVML_SUCCESS);
        d = NULL;
        assert_int_equal(nvmlDeviceGetHandleByUUID(text, &d), NVML_SUCCESS);
        assert_ptr_equal(d, device(i));
        snprintf(text, sizeof(text), "serial %d", 10 + i);
        d = NULL;
        assert_int_equal(nvmlDeviceGetHandleBySerial(text, &d),
                         i == DEVICES - 1 ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS);
        assert_ptr_equal(d, i == DEVICES - 1 ? NULL : device(i));
    }
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(DEVICES, &d), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetIndex(device(DEVICES), &index), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetIndex((nvmlDevice_t)((char *)device(1) + 1), &index),
                     NVML_ERROR_INVALID_ARGUMENT);
    nvml.devices[1].has_uuid = false;
    nvmlDeviceGetUUID(device(0), text, sizeof(text));
    text[strlen(text) - 1] = '1';
    assert_int_equal(nvmlDeviceGetHandleByUUID(text, &d), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlDeviceGetUUID(device(1), text, sizeof(text)), NVML_ERROR_NOT_SUPPORTED);
    nvml.devices[1].has_uuid = true;
}

/* Look-ups are limited to the current number of devices: later entries are not found. */
static void every_number_of_devices(void **state)
{
    char id[64], uuid[96], serial[32];
    unsigned index;
    nvmlDevice_t d;

    (void)state;
    for (int n = 0; n <= DEVICES; n++) {
        for (int i = 0; i < DEVICES; i++) {
            const nvmlReturn_t known = i < n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;

            nvml.device_count = DEVICES;
            assert_int_equal(nvmlDeviceGetUUID(device(i), uuid, sizeof(uuid)), NVML_SUCCESS);
            nvml.device_count = n;
            snprintf(id, sizeof(id), "%x:%x:%x", places[i].domain, places[i].bus, places[i].slot);
            snprintf(serial, sizeof(serial), "serial %d", 10 + i);
            assert_int_equal(nvmlDeviceGetHandleByPciBusId_v2(id, &d), known);
            assert_int_equal(nvmlDeviceGetHandleByUUID(uuid, &d), known);
            for (char *c = uuid + 4; *c != '\0'; c++)
                *c = (char)toupper((unsigned char)*c);
            assert_int_equal(nvmlDeviceGetHandleByUUID(uuid, &d), known);
            assert_int_equal(nvmlDeviceGetHandleBySerial(serial, &d),
                             i == DEVICES - 1 ? NVML_ERROR_NOT_FOUND : known);
            assert_int_equal(nvmlDeviceGetHandleByIndex_v2((unsigned)i, &d),
                             i < n ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT);
            assert_int_equal(nvmlDeviceGetIndex(device(i), &index),
                             i < n ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT);
        }
    }
    nvml.device_count = DEVICES;
}

/* CUDA answers for devices of the same backend; for other pairs there is no answer. */
static void every_pair_of_peers(void **state)
{
    unsigned status;

    (void)state;
    for (unsigned cap = 0; cap < NVML_P2P_CAPS_INDEX_UNKNOWN; cap++) {
        const bool link = cap == NVML_P2P_CAPS_INDEX_NVLINK || cap == NVML_P2P_CAPS_INDEX_PCI;

        for (int a = 0; a < DEVICES; a++) {
            for (int b = 0; b < DEVICES; b++) {
                const bool told = a != b && nvml.devices[a].link == nvml.devices[b].link &&
                                  (cap <= NVML_P2P_CAPS_INDEX_WRITE || cap == NVML_P2P_CAPS_INDEX_ATOMICS);
                const bool yes = told ? a < b : a == b && !link;

                asked[0] = asked[1] = -1;
                assert_int_equal(nvmlDeviceGetP2PStatus(device(a), device(b), cap, &status), NVML_SUCCESS);
                assert_int_equal(status, yes ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED);
                assert_int_equal(asked[0], told ? 10 + a : -1);
                assert_int_equal(asked[1], told ? 10 + b : -1);
            }
        }
    }
    assert_int_equal(nvmlDeviceGetP2PStatus(device(0), device(1), NVML_P2P_CAPS_INDEX_UNKNOWN, &status),
                     NVML_ERROR_INVALID_ARGUMENT);
}

/*
 * A program has the structure of its version: all of that is written, and not a byte more. An unknown version leaves
 * it unchanged.
 */
static void every_version_has_its_bytes(void **state)
{
    static const struct {
        nvmlReturn_t (*get)(nvmlDevice_t, nvmlPciInfo_t *);
        size_t bytes;
    } versions[] = {{nvmlDeviceGetPciInfo, offsetof(nvmlPciInfo_t, subsystem)},
                    {nvmlDeviceGetPciInfo_v2, offsetof(nvmlPciInfo_t, bus_id)},
                    {nvmlDeviceGetPciInfo_v3, sizeof(nvmlPciInfo_t)}};
    nvmlPciInfoExt_v1_t ext[2];
    nvmlPciInfo_t all;

    (void)state;
    assert_int_equal(nvmlDeviceGetPciInfo_v3(device(2), &all), NVML_SUCCESS);
    assert_int_equal(all.ids, 0x10de000c);
    assert_int_equal(all.subsystem, 0x20de000c);
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        unsigned char to[sizeof(all) + 64], guard[sizeof(to)];

        memset(to, 0xa7, sizeof(to));
        memset(guard, 0xa7, sizeof(guard));
        assert_int_equal(versions[i].get(device(2), (nvmlPciInfo_t *)(void *)to), NVML_SUCCESS);
        assert_memory_equal(to, &all, versions[i].bytes);
        assert_memory_equal(to + versions[i].bytes, guard, sizeof(to) - versions[i].bytes);
        assert_int_equal(versions[i].get(device(2), NULL), NVML_ERROR_INVALID_ARGUMENT);
    }
    for (int i = -1; i <= 1; i++) {
        memset(ext, 0xa7, sizeof(ext));
        ext[0].version = ext[1].version = NVML_STRUCT_VERSION(nvmlPciInfoExt_v1_t, 1u) + (unsigned)i;
        assert_int_equal(nvmlDeviceGetPciInfoExt(device(2), &ext[0]),
                         i == 0 ? NVML_SUCCESS : NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
        if (i != 0) {
            assert_memory_equal(&ext[0], &ext[1], sizeof(ext[0]));
            continue;
        }
        assert_int_equal(ext[0].domain, all.domain);
        assert_int_equal(ext[0].bus, all.bus);
        assert_int_equal(ext[0].device, all.device);
        assert_int_equal(ext[0].ids, all.ids);
        assert_int_equal(ext[0].subsystem, all.subsystem);
        assert_int_equal(ext[0].base_class, 0);
        assert_int_equal(ext[0].sub_class, 0);
        assert_string_equal(ext[0].bus_id, all.bus_id);
    }
}

static void every_wait_takes_its_time(void **state)
{
    static const unsigned waits[] = {0, 1, 30, 999, 1000, 1030};
    struct timespec from, to;
    void *set = NULL;
    char data[64];

    (void)state;
    assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
    for (unsigned i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        clock_gettime(CLOCK_MONOTONIC, &from);
        assert_int_equal(nvmlEventSetWait_v2(set, data, waits[i]), NVML_ERROR_TIMEOUT);
        clock_gettime(CLOCK_MONOTONIC, &to);
        assert_true((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec >=
                    waits[i] * 1000000l);
    }
    assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_a_place),       cmocka_unit_test(every_other_name),
        cmocka_unit_test(every_number_of_devices),     cmocka_unit_test(every_pair_of_peers),
        cmocka_unit_test(every_version_has_its_bytes), cmocka_unit_test(every_wait_takes_its_time)};

    return cmocka_run_group_tests_name("device", tests, set_up, NULL);
}
