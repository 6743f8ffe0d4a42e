/* SPDX-License-Identifier: MIT */
/* Loads the provider: any shared object with the CUDA driver API, such as NVIDIA's libcuda.so.1 or
 * the software GPU. Counts the threads that it and the worker start. */
#define _GNU_SOURCE
#include "provider.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct vgp_provider wrk_provider;
struct wrk_capabilities wrk_capabilities;

/* Pointers to functions through dlsym, without a cast that ISO C does not define. */
static bool provider_load(const char *name, void *slot)
{
    void *sym = dlsym(wrk_capabilities.library, name);

    memcpy(slot, &sym, sizeof(sym));
    return sym != NULL;
}

static void *provider_find(void *library, const char *name)
{
    return dlsym(library, name);
}

/* NULL, or the name of a missing mandatory function. */
static const char *load_table(void)
{
    static const struct {
        const char *name;
        size_t at;
    } need[] = {
#define NEED(fn) {#fn, offsetof(struct vgp_provider, fn)}
        NEED(cuInit),          NEED(cuDriverGetVersion),  NEED(cuDeviceGetCount),   NEED(cuDeviceGet),
        NEED(cuDeviceGetName), NEED(cuCtxSetCurrent),     NEED(cuCtxSynchronize),   NEED(cuStreamCreate),
        NEED(cuStreamQuery),   NEED(cuStreamSynchronize), NEED(cuEventCreate),      NEED(cuEventDestroy_v2),
        NEED(cuEventRecord),   NEED(cuEventQuery),        NEED(cuEventSynchronize),
#undef NEED
    };

    vgp_provider_load(&wrk_provider, provider_find, wrk_capabilities.library);
    /* Drivers before 12.8 export it only without the suffix, with the same semantics and
     * parameters. */
    if (!wrk_provider.cuEventElapsedTime_v2)
        provider_load("cuEventElapsedTime", &wrk_provider.cuEventElapsedTime_v2);
    for (unsigned i = 0; i < sizeof(need) / sizeof(need[0]); i++) {
        void *sym;

        memcpy(&sym, (const char *)&wrk_provider + need[i].at, sizeof(sym));
        if (!sym)
            return need[i].name;
    }
    return NULL;
}

/* The only place that distinguishes the software GPU from a driver, by an extension that drivers
 * lack. */
static void fill_capabilities(bool private_shm)
{
    struct wrk_capabilities *c = &wrk_capabilities;
    bool software = wrk_provider.sg_set_print_sink != NULL;

    c->title = software ? "software GPU" : "NVIDIA driver";
    c->software_policy = software;
    c->private_memory = wrk_provider.sg_memory_held != NULL;
    c->host_nvml = !software;
    c->reaches_process = !software;
    /* NVIDIA's library keeps a page of each event in /dev/shm */
    c->ipc_events = software || private_shm;
}

/* A string contained only in this project's libcuda.so.1 for guests. */
static const char own_mark[] = "VGPU_TRACE_JSON";

/* Path of the loaded library. */
static const char *file_of_provider(const char *path)
{
    Dl_info info;
    void *sym = dlsym(wrk_capabilities.library, "cuInit");

    return sym && dladdr(sym, &info) && info.dli_fname ? info.dli_fname : path;
}

void *wrk_provider_sibling(const char *name)
{
    const char *file = file_of_provider(""), *slash = strrchr(file, '/');
    char path[4200];
    void *dl = NULL;

    if (slash &&
        (size_t)snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - file), file, name) < sizeof(path))
        dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return dl ? dl : dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static bool file_contains(const char *path, const char *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool found = false;
    struct stat st;

    if (fd >= 0 && !fstat(fd, &st) && st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

        found = p != MAP_FAILED && memmem(p, (size_t)st.st_size, text, strlen(text));
        if (p != MAP_FAILED)
            munmap(p, (size_t)st.st_size);
    }
    if (fd >= 0)
        close(fd);
    return found;
}

/* Advice for the error codes of NVIDIA's driver at initialisation. */
static const char *remedy_for(CUresult r, const char *file)
{
    if (r == CUDA_ERROR_STUB_LIBRARY || strstr(file, "/stubs/"))
        return "this is the stub that the toolkit has for linking, not a driver: take its folder out "
               "of LD_LIBRARY_PATH";
    if (file_contains(file, own_mark))
        return "this is vgpu's own libcuda, which is for guests: take its folder out of "
               "LD_LIBRARY_PATH, or give --provider PATH";
    switch ((int)r) {
    case 100: /* CUDA_ERROR_NO_DEVICE */
        return "no GPU: does nvidia-smi show one, are there /dev/nvidia* that this user may open, and "
               "does CUDA_VISIBLE_DEVICES leave one?";
    case 304: /* CUDA_ERROR_OPERATING_SYSTEM */
        return "the driver was refused something: with --sandbox=log the backend names each system "
               "call that its sandbox would refuse; please report it";
    case 802: /* CUDA_ERROR_SYSTEM_NOT_READY */
        return "the GPUs of this host need the fabric manager: start nvidia-fabricmanager, of the "
               "driver's version";
    case 803: /* CUDA_ERROR_SYSTEM_DRIVER_MISMATCH */
        return "kernel module and library are of different versions: reboot, or reload the nvidia "
               "modules";
    case 804: /* CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE */
        return "a library for forward compatibility on a GPU that has none: take its folder out of "
               "LD_LIBRARY_PATH";
    case 999: /* CUDA_ERROR_UNKNOWN */
        return "often nvidia-uvm is not loaded or /dev/nvidia-uvm is missing: nvidia-modprobe -u -c 0; "
               "dmesg may say more";
    default:
        return "";
    }
}

/* Error message for a call that failed during initialisation. */
static int provider_failed(const char *path, const char *call, CUresult r, char *err, size_t err_size)
{
    CUresult (*get_name)(CUresult, const char **) = NULL;
    const char *file = file_of_provider(path), *name = NULL, *what;

    if (!provider_load("cuGetErrorName", &get_name) || get_name(r, &name) != CUDA_SUCCESS || !name)
        name = "CUDA error";
    what = remedy_for(r, file);
    snprintf(err, err_size, "%.60s: %s gave %d (%s)%s%s", file, call, (int)r, name, what[0] ? ": " : "",
             what);
    return -1;
}

int wrk_provider_open(const char *path, bool private_shm, char *err, size_t err_size)
{
    struct wrk_capabilities *c = &wrk_capabilities;
    CUresult r;
    CUdevice dev;

    c->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!c->library) {
        snprintf(err, err_size, "%s", dlerror());
        return -1;
    }
    const char *missing = load_table();
    if (missing) {
        snprintf(err, err_size, "%s does not export %s: not a CUDA driver library", path, missing);
        return -1;
    }
    fill_capabilities(private_shm);
    r = wrk_provider.cuInit(0);
    if (r != CUDA_SUCCESS)
        return provider_failed(path, "cuInit", r, err, err_size);
    r = wrk_provider.cuDriverGetVersion(&c->driver_version);
    if (r != CUDA_SUCCESS)
        return provider_failed(path, "cuDriverGetVersion", r, err, err_size);
    r = wrk_provider.cuDeviceGetCount(&c->device_count);
    if (r != CUDA_SUCCESS)
        return provider_failed(path, "cuDeviceGetCount", r, err, err_size);
    if (c->device_count > 0 && wrk_provider.cuDeviceGet(&dev, 0) == CUDA_SUCCESS)
        wrk_provider.cuDeviceGetName(c->device_name, (int)sizeof(c->device_name) - 1, dev);
    for (int i = 0; i < c->device_count && wrk_provider.cuDeviceTotalMem_v2; i++) {
        size_t bytes;

        if (wrk_provider.cuDeviceGet(&dev, i) == CUDA_SUCCESS &&
            wrk_provider.cuDeviceTotalMem_v2(&bytes, dev) == CUDA_SUCCESS)
            c->memory += bytes;
    }
    return 0;
}

/* ---- whether work is complete ---- */

struct wrk_answer wrk_answer_of(CUresult result)
{
    struct wrk_answer a = {.state = WRK_UNKNOWN, .result = result};

    if (result == CUDA_SUCCESS)
        a.state = WRK_COMPLETE;
    else if (result == CUDA_ERROR_NOT_READY)
        a.state = WRK_RUNNING;
    return a;
}

struct wrk_answer wrk_ask_event(const struct vgp_provider *from, CUevent event)
{
    return wrk_answer_of(from->cuEventQuery ? from->cuEventQuery(event) : CUDA_ERROR_NOT_SUPPORTED);
}

struct wrk_answer wrk_ask_stream(const struct vgp_provider *from, CUstream stream)
{
    return wrk_answer_of(from->cuStreamQuery ? from->cuStreamQuery(stream) : CUDA_ERROR_NOT_SUPPORTED);
}

struct wrk_answer wrk_await_event(const struct vgp_provider *from, CUevent event)
{
    return wrk_answer_of(from->cuEventSynchronize ? from->cuEventSynchronize(event)
                                                  : CUDA_ERROR_NOT_SUPPORTED);
}

struct wrk_answer wrk_await_stream(const struct vgp_provider *from, CUstream stream)
{
    return wrk_answer_of(from->cuStreamSynchronize ? from->cuStreamSynchronize(stream)
                                                   : CUDA_ERROR_NOT_SUPPORTED);
}

struct wrk_answer wrk_await_context(const struct vgp_provider *from)
{
    return wrk_answer_of(from->cuCtxSynchronize ? from->cuCtxSynchronize() : CUDA_ERROR_NOT_SUPPORTED);
}

/* ---- the chain of filters between the handlers and the provider's library ---- */

void wrk_filters_apply(struct wrk_worker *w, const struct wrk_filter *filters, unsigned n)
{
    /* Functions below each filter, called by it until the process exits. */
    static struct vgp_provider below[WRK_FILTERS_MAX];
    static unsigned used;

    for (unsigned i = 0; i < n && used < WRK_FILTERS_MAX; i++) {
        struct vgp_provider *next = &below[used++];

        *next = wrk_provider;
        filters[i].wrap(w, &wrk_provider, next);
    }
}

/* ---- threads, of the worker and of the provider ---- */

bool (*wrk_thread_allowed)(unsigned n);
static atomic_uint threads; /* threads besides the first */

struct start {
    void *(*fn)(void *);
    void *arg;
};

typedef int create_fn(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
static create_fn *real_create;

__attribute__((constructor)) static void find_real_create(void)
{
    real_create = (create_fn *)dlsym(RTLD_NEXT, "pthread_create");
}

static void thread_left(void *arg)
{
    (void)arg;
    atomic_fetch_sub(&threads, 1);
}

static void *thread_main(void *arg)
{
    struct start s = *(struct start *)arg;
    void *r;

    free(arg);
    pthread_cleanup_push(thread_left, NULL);
    r = s.fn(s.arg);
    pthread_cleanup_pop(1);
    return r;
}

/* Interposes the C library's, also for the provider: RLIMIT_NPROC counts a user's processes, not a
 * worker's threads. EAGAIN as from pthread_create(3) at a limit. */
int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    const unsigned n = atomic_fetch_add(&threads, 1) + 2;
    struct start *s;
    int r;

    if (wrk_thread_allowed && !wrk_thread_allowed(n)) {
        atomic_fetch_sub(&threads, 1);
        return EAGAIN;
    }
    s = malloc(sizeof(*s));
    if (s) {
        s->fn = fn;
        s->arg = arg;
    }
    r = s && real_create ? real_create(t, attr, thread_main, s) : EAGAIN;
    if (r) {
        free(s);
        thread_left(NULL);
    }
    return r;
}
