/* SPDX-License-Identifier: MIT */
/*
 * The part of NVML's ABI that this library implements: numbers and layouts as documented in
 * NVIDIA's NVML API reference, declared anew. Programs are built against NVIDIA's own nvml.h.
 */
#ifndef NVML_ABI_H
#define NVML_ABI_H

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_ALREADY_INITIALIZED = 5,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_INSUFFICIENT_POWER = 8,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_IRQ_ISSUE = 11,
    NVML_ERROR_LIBRARY_NOT_FOUND = 12,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_CORRUPTED_INFOROM = 14,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_OPERATING_SYSTEM = 17,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_IN_USE = 19,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_NO_DATA = 21,
    NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
    NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
    NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_DEPRECATED = 26,
    NVML_ERROR_NOT_READY = 27,
    NVML_ERROR_GPU_NOT_FOUND = 28,
    NVML_ERROR_INVALID_STATE = 29,
    NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

/* nvmlDeviceGetP2PStatus: the queries, and the answers in use. */
enum {
    NVML_P2P_CAPS_INDEX_READ = 0,
    NVML_P2P_CAPS_INDEX_WRITE = 1,
    NVML_P2P_CAPS_INDEX_NVLINK = 2,
    NVML_P2P_CAPS_INDEX_ATOMICS = 3,
    NVML_P2P_CAPS_INDEX_PCI = 4,
    NVML_P2P_CAPS_INDEX_UNKNOWN = 5,
    NVML_P2P_STATUS_OK = 0,
    NVML_P2P_STATUS_NOT_SUPPORTED = 5,
};

typedef struct nvmlDevice_st *nvmlDevice_t;

#define NVML_INIT_FLAG_NO_GPUS 1u
#define NVML_INIT_FLAG_NO_ATTACH 2u
#define NVML_INIT_FLAG_FORCE_INIT 4u

#define NVML_STRUCT_VERSION(type, version) ((unsigned)sizeof(type) | (version) << 24)

typedef struct {
    unsigned long long total, free, used; /* bytes; used includes the driver's reservation */
} nvmlMemory_t;

typedef struct {
    unsigned version; /* NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2u) */
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned gpu, memory; /* percent of the last sample period */
} nvmlUtilization_t;

typedef struct { /* version 1 has no bus_id */
    char legacy_bus_id[16];
    unsigned domain, bus, device;
    unsigned ids; /* device id << 16 | vendor id */
    unsigned subsystem;
    char bus_id[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned version;
    unsigned domain, bus, device;
    unsigned ids, subsystem;
    unsigned base_class, sub_class;
    char bus_id[32];
} nvmlPciInfoExt_v1_t;

typedef struct {
    unsigned pid;
    unsigned long long used; /* bytes */
} nvmlProcessInfo_v1_t;

typedef struct {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance; /* 0xffffffff without MIG */
} nvmlProcessInfo_v2_t;

typedef struct {
    unsigned version;
    unsigned sensor;
    int temperature; /* degrees C */
} nvmlTemperature_v1_t;

#define NVML_CLOCK_GRAPHICS 0u
#define NVML_CLOCK_SM 1u
#define NVML_CLOCK_MEM 2u
#define NVML_CLOCK_VIDEO 3u

#define NVML_TEMPERATURE_GPU 0u

#define NVML_DEVICE_ARCH_TURING 6u
#define NVML_DEVICE_ARCH_AMPERE 7u
#define NVML_DEVICE_ARCH_ADA 8u
#define NVML_DEVICE_ARCH_HOPPER 9u
#define NVML_DEVICE_ARCH_BLACKWELL 10u
#define NVML_DEVICE_ARCH_UNKNOWN 0xffffffffu

#endif
