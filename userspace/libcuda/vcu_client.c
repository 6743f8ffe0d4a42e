/* SPDX-License-Identifier: MIT */
/*
 * The process's connection: made by the first cuInit, ended by the process's end.
 *
 * Rules: libcuda never aborts, exits or hangs the application. A child of fork() gets
 * CUDA_ERROR_NOT_INITIALIZED from everything and touches nothing of the parent's. When the process
 * exits, every call returns CUDA_ERROR_DEINITIALIZED from the exit handler on that the first cuInit
 * registered: what was registered before it (the runtime's clean-up, destructors of static objects)
 * meets that error, as with NVIDIA's driver, and so waits for no kernel that never ends. Nothing is
 * unmapped then, because other threads may still be inside a call.
 */
#define _GNU_SOURCE
#include "vcu.h"
#include "vcu_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../protocol/generated/vgp_calls.h"
#include "../../protocol/generated/vgp_guest.h"

/* Half of what may pend in a stream before issuing more blocks: the software GPU takes 16384 operations,
   NVIDIA's driver about 1024 launches. */
#define STREAM_ROOM_SOFT 7680u
#define STREAM_ROOM 480u

struct vcu_client vcu = { .stream_room = STREAM_ROOM, .init_lock = PTHREAD_MUTEX_INITIALIZER };
__thread int vcu_per_thread;

/* ---- threads -------------------------------------------------------------------------------- */

static __thread struct vcu_thread thread_state;
static __thread bool thread_registered;
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t number_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t numbers_used[64]; /* 4096 threads at a time have dense numbers */
static uint32_t numbers_beyond = 64 * 64;

static uint32_t number_take(void)
{
    uint32_t n = 0;

    pthread_mutex_lock(&number_lock);
    for (unsigned w = 0; w < 64; w++) {
        if (~numbers_used[w] != 0) {
            unsigned bit = (unsigned)__builtin_ctzll(~numbers_used[w]);

            numbers_used[w] |= 1ull << bit;
            n = w * 64 + bit;
            pthread_mutex_unlock(&number_lock);
            return n;
        }
    }
    n = numbers_beyond++;
    pthread_mutex_unlock(&number_lock);
    return n;
}

static void thread_ended(void *arg)
{
    struct vcu_thread *t = arg;

    if (t->number < 64 * 64) {
        pthread_mutex_lock(&number_lock);
        numbers_used[t->number / 64] &= ~(1ull << (t->number % 64));
        pthread_mutex_unlock(&number_lock);
    }
    free(t->heap);
    free(t->payload);
    free(t->lent.nodes);
    free(t->lent.edges);
    memset(t, 0, sizeof(*t));
    thread_registered = false; /* a later destructor of the thread may call us again */
}

static void make_thread_key(void)
{
    pthread_key_create(&thread_key, thread_ended);
}

struct vcu_thread *vcu_thread(void)
{
    if (__builtin_expect(!thread_registered, 0)) {
        pthread_once(&thread_once, make_thread_key);
        thread_registered = true;
        thread_state.number = number_take();
        pthread_setspecific(thread_key, &thread_state);
    }
    return &thread_state;
}

/* ---- notifications -------------------------------------------------------------------------- */

static void post_host_func(uint64_t cookie, const uint8_t *data, uint32_t size)
{
    struct vcu_host_run run = { .cookie = cookie };
    uint32_t words[3] = { 0 };

    memcpy(words, data, size < sizeof(words) ? size : sizeof(words));
    run.status = words[0];
    run.numbered = size >= sizeof(words) && words[1] < VGP_HOST_RUNS && words[2] != 0;
    run.slot = words[1];
    run.sequence = words[2];
    vcu_hostfunc_post(&run);
}

static void on_notify(void *arg, uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size)
{
    CUresult r;
    const char *name, *call;

    (void)arg;
    if (__builtin_expect(atomic_load_explicit(&vcu_record_on, memory_order_relaxed), 0))
        vcu_record_notify(type, cookie, data, size);
    switch (type) {
    case VGP_NOTIFY_PRINT:
        /* The same buffers as the application's own. */
        fwrite(data, 1, size, cookie == VGP_PRINT_STDERR ? stderr : stdout);
        break;
    case VGP_NOTIFY_DETAIL:
        vcu_why("worker", "%.*s", (int)size, (const char *)data);
        break;
    case VGP_NOTIFY_HOST_FUNC:
        post_host_func(cookie, data, size);
        break;
    case VGP_NOTIFY_RELEASED:
        vcu_hostfunc_released(cookie);
        break;
    case VGP_NOTIFY_ASYNC_ERROR:
        r = (CUresult)(uint32_t)cookie;
        if ((int)r <= 0 || (int)r > 9999)
            break;
        name = vcu_error_name(r);
        call = vgp_call_name((uint16_t)(cookie >> 32));
        vcu_why("worker", "%s, which had returned already, failed: %s",
                call == NULL ? "a call" : call, name == NULL ? "?" : name);
        atomic_store(&vcu.ring.async_error, (int)r);
        break;
    default:
        break; /* a newer worker's */
    }
}

/* ---- state ---------------------------------------------------------------------------------- */

CUresult vcu_check_init(void)
{
    switch (atomic_load_explicit(&vcu.state, memory_order_acquire)) {
    case VCU_READY:
        return CUDA_SUCCESS;
    case VCU_EXITED:
        return CUDA_ERROR_DEINITIALIZED;
    default:
        return CUDA_ERROR_NOT_INITIALIZED;
    }
}

static void in_child(void)
{
    vcu_logs_forked();
    if (vcu.state == VCU_READY || vcu.connected) {
        vcu.state = VCU_FORKED; /* first: nothing below may be used by the child */
        vcu_record_forked();
        vcu.transport.ops->forked(&vcu.transport);
    } else {
        pthread_mutex_init(&vcu.init_lock, NULL); /* another thread of the parent may hold it */
    }
}

__attribute__((constructor)) static void library_loaded(void)
{
    vcu_trace_init();
    vcu_logs_init();
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
    vcu_record_end();
    process_exits();
    if (vcu.state == VCU_EXITED)
        vcu_trace_ring(vcu.ring.records, vcu.ring.round_trips, vcu.ring.sleeps, vcu.ring.doorbells);
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
    res = vgp_call_vgpDeviceInfo((uint32_t)i, &d->total_memory, &quota, (uint8_t *)d->uuid.bytes,
                                 &uuid_len, d->name, sizeof(d->name), d->pci_bus_id,
                                 sizeof(d->pci_bus_id), d->attributes, &n);
    if (res != CUDA_SUCCESS)
        return res;
    if (quota != 0 && quota < d->total_memory)
        d->total_memory = quota; /* the VM's share is what it has */
    vcu_device_limit_attributes(d);
    d->primary = vcu_context_add_primary(i);
    return d->primary == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult greet(void)
{
    uint32_t major = 0, minor = 0;
    uint64_t features = 0;
    int32_t count = 0, version = 0;
    char label[64];
    int fewer;
    CUresult res;

    snprintf(label, sizeof(label), "%s", program_invocation_short_name);
    res = vgp_call_vgpHello(VGP_VERSION_MAJOR, VGP_VERSION_MINOR, label, &major, &minor, &version,
                            &count, &features, vcu.provider, sizeof(vcu.provider));
    if (res != CUDA_SUCCESS)
        return VCU_REFUSE(res, "cuInit", "the worker's GPU library does not start");
    vcu.host_driver_version = version;
    vcu.worker_minor = minor;
    if (strcmp(vcu.provider, "software GPU") == 0)
        vcu.stream_room = STREAM_ROOM_SOFT;
    if (count <= 0)
        return VCU_REFUSE(CUDA_ERROR_NO_DEVICE, "cuInit", "the host's %s shows no device",
                          vcu.provider);
    vcu.device_count = count < VCU_MAX_DEVICES ? count : VCU_MAX_DEVICES;
    for (int i = 0; i < vcu.device_count && res == CUDA_SUCCESS; i++)
        res = learn_device(i);
    if (vcu_fault_number("devices", NULL, &fewer) && fewer >= 0 && fewer < vcu.device_count)
        vcu.device_count = fewer;
    return res;
}

static CUresult connect_worker(void)
{
    const char *why = NULL;
    CUresult res;
    int rc;

    rc = vcu_transport_open(&vcu.transport);
    if (rc != 0)
        return VCU_REFUSE(rc == -EPROTO ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH : CUDA_ERROR_NO_DEVICE,
                          "cuInit", "%s", vcu.transport.why);
    rc = vcu_ring_init(&vcu.ring, &vcu.transport, on_notify, NULL, &why);
    if (rc != 0) {
        vcu.transport.ops->close(&vcu.transport);
        return VCU_REFUSE(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "cuInit",
                          "the window of the %s transport: %s", vcu.transport.ops->name, why);
    }
    vcu.ring.shared->guest_pid = (uint32_t)getpid(); /* for NVML's list of processes */
    vcu.connected = true;
    vcu_record_start(&vcu.ring);
    res = vcu_staging_init();
    if (res == CUDA_SUCCESS)
        res = greet();
    if (res != CUDA_SUCCESS) {
        vcu.connected = false;
        vcu.device_count = 0;
        vcu.transport.ops->close(&vcu.transport);
    }
    return res;
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
        res = connect_worker();
        if (res == CUDA_SUCCESS) {
            atomic_store_explicit(&vcu.state, VCU_READY, memory_order_release);
            atexit(process_exits); /* no room for it: the destructor does it, later */
        }
    }
    pthread_mutex_unlock(&vcu.init_lock);
    return res;
}
