/* SPDX-License-Identifier: MIT */
/* Handles and identity of devices. */
#include "library.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <cuda.h>

#include "vgp_guest.h"

struct nvml_device *nvml_device(nvmlDevice_t handle)
{
    uintptr_t at = (uintptr_t)handle, first = (uintptr_t)nvml.devices;

    if (at < first || (at - first) % sizeof(nvml.devices[0]) != 0 ||
        (at - first) / sizeof(nvml.devices[0]) >= (uintptr_t)nvml.device_count)
        return NULL;
    return &nvml.devices[(at - first) / sizeof(nvml.devices[0])];
}

unsigned nvml_ordinal(const struct nvml_device *d)
{
    return (unsigned)(d - nvml.devices);
}

nvmlReturn_t nvml_ask(const struct nvml_device *d, unsigned what, unsigned argument, uint64_t *first,
                      uint64_t *second, char *text, unsigned room)
{
    int32_t status = NVML_ERROR_UNKNOWN;
    uint64_t a = 0, b = 0;
    CUresult res;

    if ((d->link->flags & VGP_NVML_HOST) == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    res = vgp_call_vgpNvmlGet(nvml_at(d), what, argument, &status, &a, &b, text, room);
    if (res != CUDA_SUCCESS)
        return nvml_result((int)res);
    if (first != NULL)
        *first = a;
    if (second != NULL)
        *second = b;
    return nvml_error_name((nvmlReturn_t)status) != NULL ? (nvmlReturn_t)status : NVML_ERROR_UNKNOWN;
}

/* ---- look-up of devices ---- */

static nvmlReturn_t get_count(unsigned *count)
{
    if (count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = (unsigned)nvml.device_count;
    return NVML_SUCCESS;
}

NVML_CALL(nvmlDeviceGetCount, (unsigned *count), (count), "count=%u", r == NVML_SUCCESS ? *count : 0)
{
    return get_count(count);
}

NVML_CALL(nvmlDeviceGetCount_v2, (unsigned *count), (count), "count=%u", r == NVML_SUCCESS ? *count : 0)
{
    return get_count(count);
}

static nvmlReturn_t by_index(unsigned index, nvmlDevice_t *device)
{
    if (device == NULL || index >= (unsigned)nvml.device_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = (nvmlDevice_t)&nvml.devices[index];
    return NVML_SUCCESS;
}

NVML_CALL(nvmlDeviceGetHandleByIndex, (unsigned index, nvmlDevice_t *device), (index, device), "index=%u",
          index)
{
    return by_index(index, device);
}

NVML_CALL(nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvmlDevice_t *device), (index, device), "index=%u",
          index)
{
    return by_index(index, device);
}

/* Formats GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx from the bytes returned by cuDeviceGetUuid. */
static void uuid_text(const struct nvml_device *d, char text[48])
{
    const unsigned char *u = d->uuid;

    snprintf(text, 48, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
             u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

NVML_CALL(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device), (uuid, device), "uuid=%s",
          uuid != NULL ? uuid : "(null)")
{
    char text[48];

    if (uuid == NULL || device == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < nvml.device_count; i++) {
        uuid_text(&nvml.devices[i], text);
        if (nvml.devices[i].has_uuid && strcasecmp(text, uuid) == 0)
            return by_index((unsigned)i, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_CALL(nvmlDeviceGetHandleBySerial, (const char *serial, nvmlDevice_t *device), (serial, device),
          "serial=%s", serial != NULL ? serial : "(null)")
{
    char text[96];

    if (serial == NULL || device == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < nvml.device_count; i++) {
        if (nvml_ask(&nvml.devices[i], VGP_NVML_SERIAL, 0, NULL, NULL, text, sizeof(text)) == NVML_SUCCESS &&
            strcmp(text, serial) == 0)
            return by_index((unsigned)i, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

struct place {
    unsigned domain, bus, slot;
};

static struct place place_of(const struct nvml_device *d)
{
    const int *a = d->attributes;

    return (struct place){(unsigned)a[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID],
                          (unsigned)a[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID],
                          (unsigned)a[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID]};
}

/* Parses [domain:]bus:device[.function], hexadecimal. */
static nvmlReturn_t by_pci(const char *text, nvmlDevice_t *device)
{
    struct place want = {0, 0, 0};

    if (text == NULL || device == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (sscanf(text, "%x:%x:%x", &want.domain, &want.bus, &want.slot) != 3) {
        want.domain = 0;
        if (sscanf(text, "%x:%x", &want.bus, &want.slot) != 2)
            return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (int i = 0; i < nvml.device_count; i++) {
        struct place p = place_of(&nvml.devices[i]);

        if (p.domain == want.domain && p.bus == want.bus && p.slot == want.slot)
            return by_index((unsigned)i, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_CALL(nvmlDeviceGetHandleByPciBusId, (const char *id, nvmlDevice_t *device), (id, device), "pciBusId=%s",
          id != NULL ? id : "(null)")
{
    return by_pci(id, device);
}

NVML_CALL(nvmlDeviceGetHandleByPciBusId_v2, (const char *id, nvmlDevice_t *device), (id, device),
          "pciBusId=%s", id != NULL ? id : "(null)")
{
    return by_pci(id, device);
}

/* ---- properties ---- */

NVML_CALL(nvmlDeviceGetName, (nvmlDevice_t device, char *name, unsigned length), (device, name, length),
          "length=%u name=%s", length, r == NVML_SUCCESS ? name : "?")
{
    struct nvml_device *d = nvml_device(device);

    return d == NULL ? NVML_ERROR_INVALID_ARGUMENT : nvml_put(name, length, d->name);
}

NVML_CALL(nvmlDeviceGetUUID, (nvmlDevice_t device, char *uuid, unsigned length), (device, uuid, length),
          "length=%u uuid=%s", length, r == NVML_SUCCESS ? uuid : "?")
{
    struct nvml_device *d = nvml_device(device);
    char text[48];

    if (d == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!d->has_uuid)
        return NVML_ERROR_NOT_SUPPORTED;
    uuid_text(d, text);
    return nvml_put(uuid, length, text);
}

NVML_CALL(nvmlDeviceGetIndex, (nvmlDevice_t device, unsigned *index), (device, index), "index=%u",
          r == NVML_SUCCESS ? *index : 0)
{
    struct nvml_device *d = nvml_device(device);

    if (d == NULL || index == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *index = nvml_ordinal(d);
    return NVML_SUCCESS;
}

/* The PCI address is the host device's, as reported by CUDA. */
static nvmlReturn_t fill_pci(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    struct nvml_device *d = nvml_device(device);
    uint64_t ids = 0, subsystem = 0;
    struct place p;

    if (d == NULL || pci == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    memset(pci, 0, sizeof(*pci));
    p = place_of(d);
    if (nvml_ask(d, VGP_NVML_PCI_IDS, 0, &ids, &subsystem, NULL, 0) == NVML_SUCCESS) {
        pci->ids = (unsigned)ids; /* else 0: the software GPU is no PCI device */
        pci->subsystem = (unsigned)subsystem;
    }
    pci->domain = p.domain;
    pci->bus = p.bus;
    pci->device = p.slot;
    snprintf(pci->legacy_bus_id, sizeof(pci->legacy_bus_id), "%04X:%02X:%02X.0", p.domain & 0xffff,
             p.bus & 0xff, p.slot & 0xff);
    snprintf(pci->bus_id, sizeof(pci->bus_id), "%08X:%02X:%02X.0", p.domain, p.bus & 0xff, p.slot & 0xff);
    return NVML_SUCCESS;
}

NVML_CALL(nvmlDeviceGetPciInfo, (nvmlDevice_t device, nvmlPciInfo_t *pci), (device, pci), "busId=%s",
          r == NVML_SUCCESS ? pci->legacy_bus_id : "?")
{
    nvmlPciInfo_t all;
    nvmlReturn_t r = fill_pci(device, pci == NULL ? NULL : &all);

    if (r == NVML_SUCCESS) /* version 1 ends before the subsystem and the long bus id */
        memcpy(pci, &all, offsetof(nvmlPciInfo_t, subsystem));
    return r;
}

NVML_CALL(nvmlDeviceGetPciInfo_v2, (nvmlDevice_t device, nvmlPciInfo_t *pci), (device, pci), "busId=%s",
          r == NVML_SUCCESS ? pci->legacy_bus_id : "?")
{
    nvmlPciInfo_t all;
    nvmlReturn_t r = fill_pci(device, pci == NULL ? NULL : &all);

    if (r == NVML_SUCCESS)
        memcpy(pci, &all, offsetof(nvmlPciInfo_t, bus_id));
    return r;
}

NVML_CALL(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t *pci), (device, pci), "busId=%s",
          r == NVML_SUCCESS ? pci->bus_id : "?")
{
    return fill_pci(device, pci);
}

NVML_CALL(nvmlDeviceGetPciInfoExt, (nvmlDevice_t device, nvmlPciInfoExt_v1_t *ext), (device, ext), "busId=%s",
          r == NVML_SUCCESS ? ext->bus_id : "?")
{
    nvmlPciInfo_t pci;
    nvmlReturn_t r;

    if (ext == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (ext->version != NVML_STRUCT_VERSION(nvmlPciInfoExt_v1_t, 1u))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    r = fill_pci(device, &pci);
    if (r != NVML_SUCCESS)
        return r;
    ext->domain = pci.domain;
    ext->bus = pci.bus;
    ext->device = pci.device;
    ext->ids = pci.ids;
    ext->subsystem = pci.subsystem;
    ext->base_class = ext->sub_class = 0;
    memcpy(ext->bus_id, pci.bus_id, sizeof(ext->bus_id));
    return NVML_SUCCESS;
}

NVML_CALL(nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t device, int *major, int *minor),
          (device, major, minor), "major=%d minor=%d", r == NVML_SUCCESS ? *major : 0,
          r == NVML_SUCCESS ? *minor : 0)
{
    struct nvml_device *d = nvml_device(device);

    if (d == NULL || major == NULL || minor == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *major = d->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
    *minor = d->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
    return NVML_SUCCESS;
}

NVML_CALL(nvmlDeviceIsMigDeviceHandle, (nvmlDevice_t device, unsigned *is_mig), (device, is_mig),
          "isMigDevice=%u", r == NVML_SUCCESS ? *is_mig : 0)
{
    if (nvml_device(device) == NULL || is_mig == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *is_mig = 0; /* a MIG device of the host is a whole device here */
    return NVML_SUCCESS;
}

/*
 * "Returns zero if MIG is not supported": nvidia-smi of 580 and later uses an error of this call as
 * its own exit status.
 */
NVML_CALL(nvmlDeviceGetMaxMigDeviceCount, (nvmlDevice_t device, unsigned *count), (device, count), "count=%u",
          r == NVML_SUCCESS ? *count : 0)
{
    if (nvml_device(device) == NULL || count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

/* ---- peers, from CUDA's answers ---- */

static nvmlReturn_t p2p_status(const struct nvml_device *a, const struct nvml_device *b, unsigned index,
                               unsigned *status)
{
    int yes = a == b && index != NVML_P2P_CAPS_INDEX_NVLINK && index != NVML_P2P_CAPS_INDEX_PCI;
    CUresult res = CUDA_SUCCESS;

    if (a == NULL || b == NULL || status == NULL || index >= NVML_P2P_CAPS_INDEX_UNKNOWN)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (a != b && a->link == b->link && index <= NVML_P2P_CAPS_INDEX_WRITE)
        res = vgp_call_cuDeviceCanAccessPeer(&yes, (CUdevice)nvml_at(a), (CUdevice)nvml_at(b));
    else if (a != b && a->link == b->link && index == NVML_P2P_CAPS_INDEX_ATOMICS)
        res = vgp_call_cuDeviceGetP2PAttribute(&yes, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                                               (CUdevice)nvml_at(a), (CUdevice)nvml_at(b));
    if (res != CUDA_SUCCESS)
        return NVML_ERROR_UNKNOWN;
    *status = yes ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

NVML_CALL(nvmlDeviceGetP2PStatus, (nvmlDevice_t device, nvmlDevice_t peer, unsigned index, unsigned *status),
          (device, peer, index, status), "index=%u status=%u", index, r == NVML_SUCCESS ? *status : 0)
{
    return p2p_status(nvml_device(device), nvml_device(peer), index, status);
}
