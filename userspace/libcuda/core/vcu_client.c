/* SPDX-License-Identifier: MIT */
/*
 * The process's connection: made by the first cuInit, ended by the process's end.
 *
 * Rules: libcuda never aborts, exits or hangs the application. A child of fork() gets
 * CUDA_ERROR_NOT_INITIALIZED from every call and does not touch the parent's state. When the
 * process exits, every call returns CUDA_ERROR_DEINITIALIZED from the exit handler on that the
 * first cuInit registered: handlers registered earlier (the runtime's clean-up, destructors of
 * static objects) get that error, as with NVIDIA's driver, and so do not wait for a kernel that
 * never ends. Nothing is unmapped then, because other threads may still be inside a call.
 */
#define _GNU_SOURCE
#include "core.h"
#include "link/visible.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vgp_calls.h"
#include "vgp_entry.h"
#include "vgp_guest.h"

/* Pending work beyond which issuing more would block: the software GPU takes 16384 operations for
 * each stream, NVIDIA's driver about 1024 launches for each channel, which many streams of a
 * context share. */
#define STREAM_ROOM_SOFT 15360u
#define CONTEXT_ROOM 960u

static bool print_stats; /* VGPU_STATS */
_Atomic uint64_t vcu_bytes_copied, vcu_bytes_lead;

/* A switch of NVIDIA's driver: any number but 0. */
static bool env_is_on(const char *name)
{
    const char *text = getenv(name);

    return text != NULL && atoi(text) != 0;
}

/* ---- notifications -------------------------------------------------------------------------- */

static void on_notify(void *arg, uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size)
{
    CUresult r;
    const char *name, *call;
    int none = 0;

    (void)arg;
    vcu_query_evidence();
    if (__builtin_expect(atomic_load_explicit(&lnk_record_on, memory_order_relaxed), 0))
        lnk_record_notify(type, cookie, data, size);
    switch (type) {
    case VGP_NOTIFY_PRINT:
        /* Uses the application's own stdio buffers. */
        fwrite(data, 1, size, cookie == VGP_PRINT_STDERR ? stderr : stdout);
        break;
    case VGP_NOTIFY_DETAIL:
        lnk_why("worker", "%.*s", (int)size, (const char *)data);
        break;
    case VGP_NOTIFY_ASYNC_ERROR:
        r = (CUresult)(uint32_t)cookie;
        if ((int)r <= 0 || (int)r > 9999)
            break;
        name = cua_error_name(r);
        call = vgp_call_name((uint16_t)(cookie >> 32));
        lnk_why("worker", "%s, which had returned already, failed: %s", call == NULL ? "a call" : call,
                name == NULL ? "?" : name);
        /* The first error is the cause of those that follow. */
        atomic_compare_exchange_strong(&vcu.ring.async_error, &none, (int)r);
        break;
    case VGP_NOTIFY_CAPTURE_LOST: /* cuStreamEndCapture reports it */
        r = (CUresult)(uint32_t)cookie;
        name = (int)r <= 0 || (int)r > 9999 ? NULL : cua_error_name(r);
        call = vgp_call_name((uint16_t)(cookie >> 32));
        lnk_why("worker", "%s, which was captured and had returned already, failed: %s; the capture is lost",
                call == NULL ? "a call" : call, name == NULL ? "?" : name);
        vcu_capture_doubt();
        break;
    case VGP_NOTIFY_GRAPH_FAILED: /* so does every call about the graph */
        r = (CUresult)(uint32_t)cookie;
        name = (int)r <= 0 || (int)r > 9999 ? NULL : cua_error_name(r);
        call = vgp_call_name((uint16_t)(cookie >> 32));
        lnk_why("worker", "%s, which had returned already, failed: %s; so does what is asked of its graph",
                call == NULL ? "a call" : call, name == NULL ? "?" : name);
        break;
    default: /* a unit's, or a newer worker's */
        vcu_units_notify(type, cookie, data, size);
        break;
    }
}

/* ---- state ---------------------------------------------------------------------------------- */

static void in_child(void)
{
    vcu_logs_forked();
    if (vcu.early) { /* the parent has only queried the version: the child may connect as its own process */
        lnk_record_forked();
        vcu.transport.ops->forked(&vcu.transport);
        vcu.connected = vcu.early = false;
        pthread_mutex_init(&vcu.init_lock, NULL);
    } else if (vcu.state == VCU_READY || vcu.connected) {
        vcu.state = VCU_FORKED; /* first: the child must not use anything below */
        lnk_record_forked();
        vcu.transport.ops->forked(&vcu.transport);
    } else {
        pthread_mutex_init(&vcu.init_lock, NULL); /* another thread of the parent may hold it */
    }
}

static const struct vcu_ahead_ops ahead = {
    .settle_wait = vcu_settle_wait,
    .mark_wait = vcu_mark_wait,
    .ask_legacy = vcu_ask_legacy,
    .send_parked = vcu_parked_send,
    .make_room = vcu_make_room,
    .send_blob = vcu_blob_send,
};

void vcu_client_loaded(const struct vcu_unit_ops *const *units)
{
    lnk_trace_init(&lnk_trace_results);
    vcu_units_set(units);
    vcu_ahead = &ahead;
    vcu_logs_init();
    vcu_wait_init();
    vcu_capture_init();
    vcu_query_init();
    vcu_parked_init();
    print_stats = env_is_on("VGPU_STATS");
    vcu_fault_init();
    pthread_atfork(NULL, NULL, in_child);
}

static void process_exits(void)
{
    int ready = VCU_READY;

    atomic_compare_exchange_strong(&vcu.state, &ready, VCU_EXITED);
}

__attribute__((destructor)) static void library_ends(void)
{
    lnk_record_end();
    process_exits();
    if (vcu.state == VCU_EXITED)
        lnk_trace_ring(vcu.ring.records, vcu.ring.round_trips, vcu.ring.sleeps, vcu.ring.doorbells);
    if (vcu.state == VCU_EXITED && print_stats)
        fprintf(stderr,
                "vgpu-stats: records=%llu round_trips=%llu sleeps=%llu doorbells=%llu waits_answered=%llu "
                "waits_made_up=%llu queries_answered=%llu bytes_copied=%llu polls_hit=%llu polls_vain=%llu "
                "slices_lost=%llu image_bytes_sent=%llu image_bytes_spared=%llu "
                "bytes_lead=%llu frees_reused=%llu\n",
                (unsigned long long)vcu.ring.records, (unsigned long long)vcu.ring.round_trips,
                (unsigned long long)vcu.ring.sleeps, (unsigned long long)vcu.ring.doorbells,
                (unsigned long long)vcu_waits_answered, (unsigned long long)vcu_waits_owed,
                (unsigned long long)vcu_queries_answered, (unsigned long long)vcu_bytes_copied,
                (unsigned long long)vcu.ring.poll.hits, (unsigned long long)vcu.ring.poll.vain,
                (unsigned long long)vcu.ring.poll.losses, (unsigned long long)vcu_image_bytes_sent,
                (unsigned long long)vcu_image_bytes_spared, (unsigned long long)vcu_bytes_lead,
                (unsigned long long)vcu_parked_reused);
}

/* ---- connecting ----------------------------------------------------------------------------- */

static CUresult learn_device(int i)
{
    struct vcu_device *d = &vcu.devices[i];
    uint32_t uuid_len = sizeof(d->uuid.bytes);
    uint32_t n = VCU_MAX_ATTRIBUTES;
    uint64_t quota = 0;
    CUresult res;

    memset(d, 0, sizeof(*d));
    d->library_cc = -1;
    res = vgp_call_vgpDeviceInfo((uint32_t)i, &d->total_memory, &quota, (uint8_t *)d->uuid.bytes, &uuid_len,
                                 d->name, sizeof(d->name), d->pci_bus_id, sizeof(d->pci_bus_id),
                                 d->attributes, &n);
    if (res != CUDA_SUCCESS)
        return res;
    if (quota != 0 && quota < d->total_memory)
        d->total_memory = quota; /* the VM's share is its memory */
    lnk_identify(vcu.transport.number, vcu.provider, (uint8_t *)d->uuid.bytes, d->pci_bus_id,
                 &d->attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID]);
    vcu_device_limit_attributes(d);
    return CUDA_SUCCESS;
}

/* The devices that the application sees, each with its primary context. */
static CUresult show_devices(void)
{
    CUresult res = vcu_place_show_devices();
    int fewer;

    for (int i = 0; i < vcu.device_count && res == CUDA_SUCCESS; i++) {
        vcu.devices[i].primary = vcu_context_add_primary(i);
        if (vcu.devices[i].primary == 0)
            res = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (vcu_fault_number("devices", NULL, &fewer) && fewer >= 0 && fewer < vcu.device_count)
        vcu.device_count = fewer;
    return res;
}

static CUresult greet_worker(void)
{
    uint32_t major = 0, minor = 0;
    uint64_t features = 0;
    int32_t count = 0, version = 0;
    char label[64];
    int room;
    CUresult res;

    snprintf(label, sizeof(label), "%s", program_invocation_short_name);
    res = vgp_call_vgpHello(VGP_VERSION_MAJOR, VGP_VERSION_MINOR, label, &major, &minor, &version, &count,
                            &features, vcu.provider, sizeof(vcu.provider));
    if (res != CUDA_SUCCESS)
        return VCU_REFUSE(res, "cuInit", "the worker's GPU library does not start");
    vcu.host_driver_version = version;
    vcu.worker_minor = minor;
    vcu.worker_features = features;
    if (strcmp(vcu.provider, "software GPU") == 0)
        vcu_room = (struct vcu_room){.stream = STREAM_ROOM_SOFT};
    else
        vcu_room = (struct vcu_room){.stream = CONTEXT_ROOM, .context = CONTEXT_ROOM};
    if (vcu_fault_number("room", NULL, &room) && room > 0)
        vcu_room = (struct vcu_room){.stream = (uint32_t)room, .context = (uint32_t)room};
    if (count <= 0)
        return VCU_REFUSE(CUDA_ERROR_NO_DEVICE, "cuInit", "the host's %s shows no device", vcu.provider);
    vcu.device_count = count < VCU_MAX_DEVICES ? count : VCU_MAX_DEVICES;
    for (int i = 0; i < vcu.device_count && res == CUDA_SUCCESS; i++)
        res = learn_device(i);
    return res;
}

static void disconnect_worker(void)
{
    vcu.connected = false;
    vcu.device_count = 0;
    vcu.transport.ops->close(&vcu.transport);
}

/* At a limit the error's name says so: "no device" would mislead users. */
static CUresult open_error(int rc)
{
    switch (rc) {
    case -EPROTO:
        return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    case -EUSERS: /* of this user, or of the backend */
    case -ENOSPC:
        return CUDA_ERROR_MPS_MAX_CLIENTS_REACHED;
    default:
        return CUDA_ERROR_NO_DEVICE;
    }
}

/* Connects to a place and queries versions and devices; `lasting`: for the life of the process. */
static CUresult connect_to(const struct lnk_place *place, bool lasting)
{
    const char *why = NULL;
    CUresult res = CUDA_SUCCESS;
    int rc;

    rc = lnk_transport_open_at(&vcu.transport, place);
    if (rc != 0)
        return VCU_REFUSE(open_error(rc), "cuInit", "%s", vcu.transport.why);
    rc = lnk_ring_init(&vcu.ring, &vcu.transport, on_notify, NULL, &why);
    if (rc != 0) {
        vcu.transport.ops->close(&vcu.transport);
        return VCU_REFUSE(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "cuInit", "the window of the %s transport: %s",
                          vcu.transport.ops->name, why);
    }
    vcu.ring.shared->guest_pid = (uint32_t)getpid(); /* for NVML's list of processes */
    vcu.connected = true;
    if (lasting) {
        lnk_record_start(&vcu.ring);
        res = vcu_units_connected();
    }
    if (res == CUDA_SUCCESS)
        res = greet_worker();
    if (res != CUDA_SUCCESS)
        disconnect_worker();
    return res;
}

static CUresult look_at(const struct lnk_place *place)
{
    return connect_to(place, false);
}

static CUresult connect_worker(void)
{
    const struct lnk_place *place, *next;
    CUresult res = vcu_place_choose(look_at, disconnect_worker, &place);

    if (res != CUDA_SUCCESS)
        return res;
    res = connect_to(place, true);
    while (res == CUDA_ERROR_NO_DEVICE && (next = vcu_place_after(place)) != NULL) {
        place = next;
        res = connect_to(place, true);
    }
    if (res == CUDA_SUCCESS)
        vcu_place_tell(place);
    return res;
}

int vcu_client_version(void)
{
    static _Atomic int answered;
    int version = atomic_load(&answered), none = 0;

    if (version != 0)
        return version;
    pthread_mutex_lock(&vcu.init_lock);
    if (lnk_driver_version_wanted() == 0 && vcu.state == VCU_NEW && !vcu.connected &&
        vcu.host_driver_version == 0)
        vcu.early = connect_worker() == CUDA_SUCCESS;
    version = lnk_driver_version(vcu.host_driver_version);
    pthread_mutex_unlock(&vcu.init_lock);
    return atomic_compare_exchange_strong(&answered, &none, version) ? version : none;
}

CUresult vcu_client_init(void)
{
    CUresult res = CUDA_SUCCESS;

    if (vcu.state == VCU_READY)
        return CUDA_SUCCESS;
    if (vcu.state != VCU_NEW)
        return vcu_check_init();
    pthread_mutex_lock(&vcu.init_lock);
    if (vcu.state == VCU_NEW) {
        if (vcu.early && vcu_place_stale()) { /* set since the version query */
            lnk_record_end();
            disconnect_worker();
            vcu.early = false;
        }
        if (!vcu.early)
            res = connect_worker();
        vcu.early = false;
        if (res == CUDA_SUCCESS) {
            res = show_devices();
            if (res != CUDA_SUCCESS)
                disconnect_worker();
        }
        vcu.launch_blocking = env_is_on("CUDA_LAUNCH_BLOCKING");
        if (res == CUDA_SUCCESS) {
            atomic_store_explicit(&vcu.state, VCU_READY, memory_order_release);
            atexit(process_exits); /* no room for it: the destructor does it later */
        }
    }
    pthread_mutex_unlock(&vcu.init_lock);
    return res;
}

CUresult vcu_cuInit(unsigned int Flags)
{
    if (Flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    VCU_FAULT("call", "cuInit");
    return vcu_client_init();
}
