/* SPDX-License-Identifier: MIT */
/*
 * Connections of this library, one for each backend, and the functions required by the generated
 * encoders. A child of fork() keeps the library's user count and connects anew at its first call,
 * as with NVIDIA's library.
 */
#define _GNU_SOURCE
#include "library.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#include "vgp_guest.h"
#include "../../lib/link/link.h"

struct nvml_client nvml;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static __thread struct nvml_link *at; /* target of the thread's calls: nvml_at() */

/* ---- records and replies on our ring ---- */

struct submit {
    struct lnk_call call;
};
_Static_assert(sizeof(struct submit) <= sizeof(((struct vgp_submit *)0)->priv), "priv too small");

/* Replies are copied out of shared memory before anything decodes them. */
static __thread uint8_t payload[VGP_REPLY_SLOT_SIZE] __attribute__((aligned(16)));

static struct lnk_call *call_of(struct vgp_submit *s)
{
    struct submit *p = (struct submit *)s->priv;

    return &p->call;
}

/* NVML ignores CUDA_VISIBLE_DEVICES and shows all devices: its ordinals are the host's. */
int32_t vgp_device_sent(int32_t device)
{
    return device;
}

int32_t vgp_device_got(int32_t device)
{
    return device;
}

CUresult vgp_submit_begin(struct vgp_submit *s, uint16_t call, uint32_t bytes, bool want_reply)
{
    CUresult res = lnk_ring_begin(&at->ring, call_of(s), call, bytes,
                                  want_reply ? LNK_REPLY_WAIT : LNK_REPLY_NONE, 0, 0);

    s->args = call_of(s)->args;
    return res;
}

CUresult vgp_submit_async(struct vgp_submit *s)
{
    lnk_ring_publish(call_of(s));
    return CUDA_SUCCESS;
}

CUresult vgp_submit_publish(struct vgp_submit *s)
{
    lnk_ring_publish(call_of(s));
    return CUDA_SUCCESS;
}

CUresult vgp_submit_collect(struct vgp_submit *s, const void **data, uint32_t *size)
{
    const void *shared;
    CUresult res = lnk_ring_collect(call_of(s), &shared, size);

    if (*size > sizeof(payload)) {
        *size = 0;
        res = CUDA_ERROR_UNKNOWN;
    }
    if (*size != 0)
        memcpy(payload, shared, *size);
    *data = payload;
    return res;
}

void vgp_submit_end(struct vgp_submit *s)
{
    lnk_ring_end(call_of(s));
}

static void on_notify(void *arg, uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size)
{
    (void)arg;
    (void)cookie;
    if (type == VGP_NOTIFY_DETAIL)
        nvml_why("worker", "%.*s", (int)size, (const char *)data);
}

/* ---- connecting ---- */

nvmlReturn_t nvml_result(int cuda_result)
{
    switch (cuda_result) {
    case CUDA_SUCCESS:
        return NVML_SUCCESS;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
        return NVML_ERROR_INVALID_ARGUMENT;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return NVML_ERROR_MEMORY;
    case CUDA_ERROR_NOT_SUPPORTED:
        return NVML_ERROR_NOT_SUPPORTED;
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    case CUDA_ERROR_UNKNOWN:
        return NVML_ERROR_UNKNOWN;
    default:
        return NVML_ERROR_GPU_IS_LOST; /* the worker has ended */
    }
}

static nvmlReturn_t result_of_errno(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
        return NVML_ERROR_NO_PERMISSION;
    case EPROTO:
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    case ENOMEM:
        return NVML_ERROR_MEMORY;
    default:
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
}

unsigned nvml_at(const struct nvml_device *d)
{
    at = d->link;
    return d->ordinal;
}

static CUresult learn_device(struct nvml_link *link, unsigned ordinal, const char *provider)
{
    struct nvml_device *d = &nvml.devices[nvml.device_count];
    uint32_t uuid_len = sizeof(d->uuid), n = NVML_ATTRIBUTES_MAX;
    uint64_t quota = 0;
    CUresult res;

    memset(d, 0, sizeof(*d));
    d->link = link;
    d->ordinal = ordinal;
    res = vgp_call_vgpDeviceInfo(nvml_at(d), &d->total_memory, &quota, d->uuid, &uuid_len, d->name,
                                 sizeof(d->name), d->pci_bus_id, sizeof(d->pci_bus_id), d->attributes, &n);
    d->has_uuid = uuid_len == sizeof(d->uuid);
    if (quota != 0 && quota < d->total_memory)
        d->total_memory = quota;
    lnk_identify(link->transport.number, provider, d->uuid, d->pci_bus_id,
                 &d->attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID]);
    return res;
}

/*
 * Returns the branch of NVIDIA's driver that introduced this version of CUDA, for clients that
 * compare branches.
 */
static unsigned branch_of(int cuda)
{
    static const struct {
        int cuda;
        unsigned branch;
    } table[] = {{13010, 590}, {13000, 580}, {12090, 575}, {12080, 570},
                 {12060, 560}, {12040, 550}, {12020, 535}, {12000, 525}};

    for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (cuda >= table[i].cuda)
            return table[i].branch;
    }
    return 470;
}

/* Reads the backend's versions; the library reports those of the first backend. */
static CUresult learn_versions(struct nvml_link *link)
{
    int32_t cuda = 0;
    char driver[sizeof(nvml.driver_version)], library[sizeof(nvml.nvml_version)];
    CUresult res =
        vgp_call_vgpNvmlInfo(&link->flags, &cuda, driver, sizeof(driver), library, sizeof(library));

    if (res != CUDA_SUCCESS || nvml.link_count != 0)
        return res;
    memcpy(nvml.driver_version, driver, sizeof(driver));
    memcpy(nvml.nvml_version, library, sizeof(library));
    nvml.cuda_version = cuda;
    /*
     * Without an NVIDIA driver: the branch of our CUDA version, with a minor version that NVIDIA
     * never used.
     */
    if (nvml.driver_version[0] == '\0')
        snprintf(nvml.driver_version, sizeof(nvml.driver_version), "%u.0",
                 branch_of(lnk_driver_version(cuda)));
    if (nvml.nvml_version[0] == '\0')
        snprintf(nvml.nvml_version, sizeof(nvml.nvml_version), "%d.%.60s", lnk_driver_version(cuda) / 1000,
                 nvml.driver_version);
    return CUDA_SUCCESS;
}

static nvmlReturn_t greet_worker(struct nvml_link *link)
{
    uint32_t major = 0, minor = 0;
    uint64_t features = 0;
    int32_t count = 0, version = 0;
    char label[64], provider[64];
    CUresult res;

    at = link;
    snprintf(label, sizeof(label), "%.54s (NVML)", program_invocation_short_name);
    res = vgp_call_vgpHello(VGP_VERSION_MAJOR, VGP_VERSION_MINOR, label, &major, &minor, &version, &count,
                            &features, provider, sizeof(provider));
    if (res != CUDA_SUCCESS)
        return nvml_result((int)res);
    if ((features & VGP_FEATURE_NVML) == 0) {
        nvml_why("nvmlInit", "the host's vgpu-backend is older than this library: update it");
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    }
    res = learn_versions(link);
    for (int i = 0; i < count && nvml.device_count < NVML_DEVICES_MAX && res == CUDA_SUCCESS; i++) {
        res = learn_device(link, (unsigned)i, provider);
        if (res == CUDA_SUCCESS)
            nvml.device_count++;
    }
    return nvml_result((int)res);
}

static void disconnect_worker(void)
{
    for (unsigned i = 0; i < nvml.link_count; i++)
        nvml.links[i].transport.ops->close(&nvml.links[i].transport);
    free(nvml.links);
    nvml.links = NULL;
    nvml.link_count = 0;
    nvml.connected = false;
    nvml.device_count = 0;
}

/* Connects a backend as the next element of nvml.links; on failure nothing is left. */
static nvmlReturn_t connect_to(const struct lnk_place *place)
{
    struct nvml_link *link = &nvml.links[nvml.link_count];
    int devices = nvml.device_count;
    const char *why = NULL;
    nvmlReturn_t r;
    int rc = lnk_transport_open_at(&link->transport, place);

    if (rc != 0) {
        nvml_why("nvmlInit", "%s", link->transport.why);
        return result_of_errno(-rc);
    }
    rc = lnk_ring_init(&link->ring, &link->transport, on_notify, NULL, &why);
    if (rc != 0) {
        nvml_why("nvmlInit", "the window of the %s transport: %s", link->transport.ops->name, why);
        link->transport.ops->close(&link->transport);
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    }
    r = greet_worker(link);
    if (r == NVML_SUCCESS) {
        nvml.link_count++;
    } else {
        link->transport.ops->close(&link->transport);
        nvml.device_count = devices;
    }
    return r;
}

/* Connects to all places; called under the write lock. A backend that does not answer has no
 * devices and is named in the trace; if none answers, the first error is returned. */
static nvmlReturn_t connect_workers(void)
{
    struct lnk_place places[LNK_PLACES_MAX];
    unsigned n = lnk_places(places);
    nvmlReturn_t first = NVML_SUCCESS;

    if (n == 0) {
        struct lnk_transport none;

        lnk_transport_none(&none);
        nvml_why("nvmlInit", "%s", none.why);
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    nvml.links = calloc(n, sizeof(*nvml.links));
    if (nvml.links == NULL)
        return NVML_ERROR_MEMORY;
    for (unsigned i = 0; i < n; i++) {
        nvmlReturn_t r = connect_to(&places[i]);

        if (first == NVML_SUCCESS)
            first = r;
    }
    nvml.connected = nvml.link_count != 0;
    if (nvml.connected)
        return NVML_SUCCESS;
    disconnect_worker();
    return first;
}

nvmlReturn_t nvml_init(unsigned flags)
{
    nvmlReturn_t r = NVML_SUCCESS;

    if ((flags & ~(NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH | NVML_INIT_FLAG_FORCE_INIT)) != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    pthread_rwlock_wrlock(&lock);
    if (!nvml.connected)
        r = connect_workers();
    if (r == NVML_SUCCESS && nvml.device_count == 0 && (flags & NVML_INIT_FLAG_NO_GPUS) == 0) {
        nvml_why("nvmlInit", "the host shows no device");
        r = NVML_ERROR_DRIVER_NOT_LOADED;
        if (nvml.users == 0)
            disconnect_worker();
    }
    if (r == NVML_SUCCESS)
        nvml.users++;
    pthread_rwlock_unlock(&lock);
    return r;
}

nvmlReturn_t nvml_shutdown(void)
{
    nvmlReturn_t r = NVML_SUCCESS;

    pthread_rwlock_wrlock(&lock);
    if (nvml.users == 0)
        r = NVML_ERROR_UNINITIALIZED;
    else if (--nvml.users == 0 && nvml.connected)
        disconnect_worker();
    pthread_rwlock_unlock(&lock);
    return r;
}

nvmlReturn_t nvml_enter(void)
{
    nvmlReturn_t r = NVML_SUCCESS;

    pthread_rwlock_rdlock(&lock);
    while (nvml.users != 0 && !nvml.connected && r == NVML_SUCCESS) { /* in a child of fork() */
        pthread_rwlock_unlock(&lock);
        pthread_rwlock_wrlock(&lock);
        if (nvml.users != 0 && !nvml.connected)
            r = connect_workers();
        pthread_rwlock_unlock(&lock);
        pthread_rwlock_rdlock(&lock);
    }
    if (nvml.users == 0)
        r = NVML_ERROR_UNINITIALIZED;
    if (r != NVML_SUCCESS)
        pthread_rwlock_unlock(&lock);
    return r;
}

void nvml_leave(void)
{
    pthread_rwlock_unlock(&lock);
}

static void in_child(void)
{
    pthread_rwlock_init(&lock, NULL); /* may be held by another thread of the parent */
    for (unsigned i = 0; i < nvml.link_count; i++)
        nvml.links[i].transport.ops->forked(&nvml.links[i].transport);
    nvml.link_count = 0; /* memory is kept: a thread of the parent may hold the allocator's lock */
    nvml.connected = false;
    nvml.device_count = 0;
}

__attribute__((constructor)) static void library_loaded(void)
{
    lnk_trace_init(&nvml_trace_results);
    pthread_atfork(NULL, NULL, in_child);
}
