/* SPDX-License-Identifier: MIT */
/*
 * Single values of a device: from the host's NVML or, without it, the attribute that CUDA reports
 * for the same value. NVML_ERROR_NOT_SUPPORTED if neither has the value.
 */
#include "library.h"

#include <cuda.h>

#include "../../protocol/vgp_ring.h"

static int attribute_of(const struct nvml_device *d, int which)
{
    return d->attributes[which];
}

static nvmlReturn_t one_value(nvmlDevice_t device, unsigned what, unsigned argument, unsigned *value)
{
    struct nvml_device *d = nvml_device(device);
    uint64_t first = 0;
    nvmlReturn_t r;

    if (d == NULL || value == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    r = nvml_ask(d, what, argument, &first, NULL, NULL, 0);
    if (r == NVML_SUCCESS)
        *value = (unsigned)first;
    return r;
}

static nvmlReturn_t two_values(nvmlDevice_t device, unsigned what, unsigned *a, unsigned *b)
{
    struct nvml_device *d = nvml_device(device);
    uint64_t first = 0, second = 0;
    nvmlReturn_t r;

    if (d == NULL || a == NULL || b == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    r = nvml_ask(d, what, 0, &first, &second, NULL, 0);
    if (r == NVML_SUCCESS) {
        *a = (unsigned)first;
        *b = (unsigned)second;
    }
    return r;
}

static nvmlReturn_t text_value(nvmlDevice_t device, unsigned what, char *to, unsigned room)
{
    struct nvml_device *d = nvml_device(device);
    char value[96] = "";
    nvmlReturn_t r;

    if (d == NULL || to == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    r = nvml_ask(d, what, 0, NULL, NULL, value, sizeof(value));
    return r == NVML_SUCCESS ? nvml_put(to, room, value) : r;
}

/* Without the host's NVML the value is this attribute of CUDA, unless it is 0. */
static nvmlReturn_t else_attribute(nvmlReturn_t r, nvmlDevice_t device, int which, int divisor,
                                   unsigned *value)
{
    struct nvml_device *d = nvml_device(device);

    if (r != NVML_ERROR_NOT_SUPPORTED || d == NULL || attribute_of(d, which) <= 0)
        return r;
    *value = (unsigned)(attribute_of(d, which) / divisor);
    return NVML_SUCCESS;
}

#define VALUE(name, what) \
    NVML_CALL(name, (nvmlDevice_t device, unsigned *value), (device, value), "value=%u", \
              r == NVML_SUCCESS ? *value : 0) \
    { \
        return one_value(device, what, 0, value); \
    }
#define VALUE_OF(name, what, kinds) \
    NVML_CALL(name, (nvmlDevice_t device, unsigned kind, unsigned *value), (device, kind, value), \
              "kind=%u value=%u", kind, r == NVML_SUCCESS ? *value : 0) \
    { \
        return kind >= (kinds) ? NVML_ERROR_INVALID_ARGUMENT : one_value(device, what, kind, value); \
    }
#define PAIR(name, what) \
    NVML_CALL(name, (nvmlDevice_t device, unsigned *a, unsigned *b), (device, a, b), "first=%u second=%u", \
              r == NVML_SUCCESS ? *a : 0, r == NVML_SUCCESS ? *b : 0) \
    { \
        return two_values(device, what, a, b); \
    }
#define TEXT(name, what) \
    NVML_CALL(name, (nvmlDevice_t device, char *to, unsigned room), (device, to, room), "length=%u text=%s", \
              room, r == NVML_SUCCESS ? to : "?") \
    { \
        return text_value(device, what, to, room); \
    }

TEXT(nvmlDeviceGetSerial, VGP_NVML_SERIAL)
TEXT(nvmlDeviceGetVbiosVersion, VGP_NVML_VBIOS)
VALUE(nvmlDeviceGetPowerUsage, VGP_NVML_POWER_USAGE)
VALUE(nvmlDeviceGetPowerManagementLimit, VGP_NVML_POWER_LIMIT)
VALUE(nvmlDeviceGetPowerManagementDefaultLimit, VGP_NVML_POWER_DEFAULT)
VALUE(nvmlDeviceGetEnforcedPowerLimit, VGP_NVML_POWER_ENFORCED)
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, VGP_NVML_POWER_LIMITS)
VALUE_OF(nvmlDeviceGetTemperature, VGP_NVML_TEMPERATURE, 1)
VALUE_OF(nvmlDeviceGetTemperatureThreshold, VGP_NVML_TEMPERATURE_LIMIT, 8)
VALUE(nvmlDeviceGetFanSpeed, VGP_NVML_FAN_SPEED)
VALUE_OF(nvmlDeviceGetClockInfo, VGP_NVML_CLOCK, 4)
VALUE(nvmlDeviceGetPerformanceState, VGP_NVML_PSTATE)
VALUE(nvmlDeviceGetPowerState, VGP_NVML_PSTATE)
VALUE(nvmlDeviceGetPersistenceMode, VGP_NVML_PERSISTENCE)
VALUE(nvmlDeviceGetDisplayActive, VGP_NVML_DISPLAY_ACTIVE)
VALUE(nvmlDeviceGetDisplayMode, VGP_NVML_DISPLAY_MODE)
PAIR(nvmlDeviceGetMigMode, VGP_NVML_MIG_MODE)
VALUE(nvmlDeviceGetNumGpuCores, VGP_NVML_GPU_CORES)
VALUE(nvmlDeviceGetCurrPcieLinkGeneration, VGP_NVML_PCIE_GEN)
VALUE(nvmlDeviceGetCurrPcieLinkWidth, VGP_NVML_PCIE_WIDTH)
VALUE(nvmlDeviceGetMaxPcieLinkGeneration, VGP_NVML_PCIE_MAX_GEN)
VALUE(nvmlDeviceGetMaxPcieLinkWidth, VGP_NVML_PCIE_MAX_WIDTH)

NVML_CALL(nvmlDeviceGetTemperatureV, (nvmlDevice_t device, nvmlTemperature_v1_t *t), (device, t),
          "temperature=%d", r == NVML_SUCCESS ? t->temperature : 0)
{
    unsigned value = 0;
    nvmlReturn_t r;

    if (t == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (t->version != NVML_STRUCT_VERSION(nvmlTemperature_v1_t, 1u))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (t->sensor != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    r = one_value(device, VGP_NVML_TEMPERATURE, t->sensor, &value);
    if (r == NVML_SUCCESS)
        t->temperature = (int)value;
    return r;
}

/* CUDA reports maximum clocks, in kHz. */
NVML_CALL(nvmlDeviceGetMaxClockInfo, (nvmlDevice_t device, unsigned kind, unsigned *value),
          (device, kind, value), "kind=%u value=%u", kind, r == NVML_SUCCESS ? *value : 0)
{
    nvmlReturn_t r;

    if (kind > NVML_CLOCK_VIDEO)
        return NVML_ERROR_INVALID_ARGUMENT;
    r = one_value(device, VGP_NVML_MAX_CLOCK, kind, value);
    if (kind == NVML_CLOCK_VIDEO)
        return r;
    return else_attribute(r, device,
                          kind == NVML_CLOCK_MEM ? CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE
                                                 : CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
                          1000, value);
}

NVML_CALL(nvmlDeviceGetMemoryBusWidth, (nvmlDevice_t device, unsigned *value), (device, value), "value=%u",
          r == NVML_SUCCESS ? *value : 0)
{
    return else_attribute(one_value(device, VGP_NVML_BUS_WIDTH, 0, value), device,
                          CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 1, value);
}

NVML_CALL(nvmlDeviceGetComputeMode, (nvmlDevice_t device, unsigned *value), (device, value), "value=%u",
          r == NVML_SUCCESS ? *value : 0)
{
    nvmlReturn_t r = one_value(device, VGP_NVML_COMPUTE_MODE, 0, value);

    if (r == NVML_ERROR_NOT_SUPPORTED) { /* CUDA uses the same numbers */
        *value = (unsigned)attribute_of(nvml_device(device), CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
        r = NVML_SUCCESS;
    }
    return r;
}

NVML_CALL(nvmlDeviceGetBrand, (nvmlDevice_t device, unsigned *value), (device, value), "value=%u",
          r == NVML_SUCCESS ? *value : 0)
{
    nvmlReturn_t r = one_value(device, VGP_NVML_BRAND, 0, value);

    if (r == NVML_ERROR_NOT_SUPPORTED) {
        *value = 0; /* NVML_BRAND_UNKNOWN */
        r = NVML_SUCCESS;
    }
    return r;
}

NVML_CALL(nvmlDeviceGetEccMode, (nvmlDevice_t device, unsigned *a, unsigned *b), (device, a, b),
          "current=%u pending=%u", r == NVML_SUCCESS ? *a : 0, r == NVML_SUCCESS ? *b : 0)
{
    return two_values(device, VGP_NVML_ECC_MODE, a, b);
}

/* Returns the architecture for the device's compute capability. */
NVML_CALL(nvmlDeviceGetArchitecture, (nvmlDevice_t device, unsigned *value), (device, value), "value=%u",
          r == NVML_SUCCESS ? *value : 0)
{
    struct nvml_device *d = nvml_device(device);
    nvmlReturn_t r = one_value(device, VGP_NVML_ARCHITECTURE, 0, value);
    int cc;

    if (r != NVML_ERROR_NOT_SUPPORTED)
        return r;
    cc = 10 * attribute_of(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
         attribute_of(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    *value = cc == 75                ? NVML_DEVICE_ARCH_TURING
             : cc == 89              ? NVML_DEVICE_ARCH_ADA
             : cc / 10 == 8          ? NVML_DEVICE_ARCH_AMPERE
             : cc / 10 == 9          ? NVML_DEVICE_ARCH_HOPPER
             : cc >= 100 && cc < 130 ? NVML_DEVICE_ARCH_BLACKWELL
                                     : NVML_DEVICE_ARCH_UNKNOWN;
    return NVML_SUCCESS;
}

#define WIDE(name, what) \
    NVML_CALL(name, (nvmlDevice_t device, unsigned long long *value), (device, value), "value=%llu", \
              r == NVML_SUCCESS ? *value : 0) \
    { \
        struct nvml_device *d = nvml_device(device); \
        uint64_t first = 0; \
        nvmlReturn_t r; \
\
        if (d == NULL || value == NULL) \
            return NVML_ERROR_INVALID_ARGUMENT; \
        r = nvml_ask(d, what, 0, &first, NULL, NULL, 0); \
        if (r == NVML_SUCCESS) \
            *value = first; \
        return r; \
    }
WIDE(nvmlDeviceGetTotalEnergyConsumption, VGP_NVML_ENERGY)
WIDE(nvmlDeviceGetCurrentClocksThrottleReasons, VGP_NVML_CLOCK_REASONS)
WIDE(nvmlDeviceGetCurrentClocksEventReasons, VGP_NVML_CLOCK_REASONS)
