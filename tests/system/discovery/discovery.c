/* SPDX-License-Identifier: MIT */
/*
 * The GPU discovery of Ollama (its native probe, discover/native_probe*.go as of 2026), in its
 * order: ggml's libraries are opened, the CUDA backend is loaded, its devices and their properties
 * are listed; then libcuda is queried directly (dlopen, dlsym), with NVML for the driver's version
 * and the memory of the board. Prints Ollama's conclusion, as KEY=VALUE words in a line per device,
 * and fails where Ollama would fall back to the CPU.
 *
 *   discovery [FOLDER]   FOLDER has libggml-base.so, libggml*.so and libggml-cuda.so; without it
 *                        only the second half runs
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ggml's struct ggml_backend_dev_props, copied from its header. */
struct props {
    const char *name, *description;
    size_t memory_free, memory_total;
    int type; /* 0 CPU, 1 GPU, 2 integrated GPU, 3 accelerator */
    const char *device_id;
    uint8_t async, host_buffer, buffer_from_host_ptr, events;
};

struct device {
    char library[32], name[128], description[256], id[64];
    unsigned long long total, free, board; /* bytes; board: from NVML */
    int major, minor, integrated;
    int cuda_major, cuda_minor, driver_major;
};

#define DEVICES 16
static struct device devices[DEVICES];
static int ndevices;

static void *open_one(const char *path, int global)
{
    void *lib = dlopen(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));

    if (lib == NULL)
        fprintf(stderr, "discovery: %s\n", dlerror());
    return lib;
}

#define FIND(lib, fn, name) \
    do { \
        void *sym_ = lib != NULL ? dlsym(lib, name) : NULL; \
        if (sym_ == NULL) \
            fprintf(stderr, "discovery: no %s\n", name); \
        memcpy(&(fn), &sym_, sizeof(fn)); \
    } while (0)

/* ---- ggml ---- */

/* Finds a file by the start of its name; npm's builds append a version to "libggml". */
static int find_file(char *path, size_t size, const char *folder, const char *start)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    int found = 0;

    while (d != NULL && !found && (e = readdir(d)) != NULL) {
        if (strncmp(e->d_name, start, strlen(start)) == 0 && strstr(e->d_name, ".so") != NULL) {
            snprintf(path, size, "%s/%s", folder, e->d_name);
            found = 1;
        }
    }
    if (d != NULL)
        closedir(d);
    return found;
}

static int ask_ggml(const char *folder)
{
    char path[4096];
    void *base, *ggml, *reg;
    void *(*backend_load)(const char *);
    size_t (*dev_count)(void *);
    void *(*dev_get)(void *, size_t);
    const char *(*reg_name)(void *);
    void (*get_props)(void *, struct props *);

    snprintf(path, sizeof(path), "%s/libggml-base.so", folder);
    base = open_one(path, 1);
    if (!find_file(path, sizeof(path), folder, "libggml."))
        return 1;
    ggml = open_one(path, 1);
    if (base == NULL || ggml == NULL)
        return 1;
    FIND(ggml, backend_load, "ggml_backend_load");
    FIND(base, dev_count, "ggml_backend_reg_dev_count");
    FIND(base, dev_get, "ggml_backend_reg_dev_get");
    FIND(base, reg_name, "ggml_backend_reg_name");
    FIND(base, get_props, "ggml_backend_dev_get_props");
    if (!backend_load || !dev_count || !dev_get || !reg_name || !get_props)
        return 1;
    snprintf(path, sizeof(path), "%s/libggml-cuda.so", folder);
    reg = backend_load(path);
    if (reg == NULL) {
        fprintf(stderr, "discovery: ggml does not load %s\n", path);
        return 1;
    }
    for (size_t i = 0; i < dev_count(reg) && ndevices < DEVICES; i++) {
        struct device *d = &devices[ndevices];
        struct props p;
        void *dev = dev_get(reg, i);

        memset(&p, 0, sizeof(p));
        if (dev == NULL)
            continue;
        get_props(dev, &p);
        if (p.memory_total == 0)
            continue;
        snprintf(d->library, sizeof(d->library), "%s", reg_name(reg));
        snprintf(d->name, sizeof(d->name), "%s", p.name ? p.name : "");
        snprintf(d->description, sizeof(d->description), "%s", p.description ? p.description : "");
        snprintf(d->id, sizeof(d->id), "%s", p.device_id ? p.device_id : "");
        d->total = p.memory_total;
        d->free = p.memory_free;
        d->integrated = p.type == 2;
        ndevices++;
    }
    return ndevices == 0;
}

/* ---- libcuda and NVML, directly ---- */

static void *nvml;
static int (*nvml_init)(void), (*nvml_shutdown)(void);

static int open_nvml(void)
{
    nvml = open_one("libnvidia-ml.so.1", 0);
    FIND(nvml, nvml_init, "nvmlInit_v2");
    FIND(nvml, nvml_shutdown, "nvmlShutdown");
    return nvml == NULL || !nvml_init || !nvml_shutdown;
}

/* Major version of the driver, before the first dot; 0: unknown. */
static int driver_major(void)
{
    int (*get)(char *, unsigned), major = 0, r;
    char version[80] = "";

    if (nvml == NULL && open_nvml() != 0)
        return 0;
    FIND(nvml, get, "nvmlSystemGetDriverVersion");
    r = nvml_init();
    if (r != 0) {
        fprintf(stderr, "discovery: nvmlInit_v2: %d\n", r);
        return 0;
    }
    if (get != NULL && get(version, sizeof(version)) == 0)
        major = atoi(version);
    nvml_shutdown();
    return major;
}

static unsigned long long board_memory(const char *pci)
{
    struct {
        unsigned long long total, free, used;
    } m = {0, 0, 0};
    int (*by_pci)(const char *, void **), (*get)(void *, void *);
    void *handle = NULL;

    if (nvml == NULL || nvml_init() != 0)
        return 0;
    FIND(nvml, by_pci, "nvmlDeviceGetHandleByPciBusId_v2");
    FIND(nvml, get, "nvmlDeviceGetMemoryInfo");
    if (by_pci == NULL || get == NULL || by_pci(pci, &handle) != 0 || get(handle, &m) != 0)
        m.total = 0;
    nvml_shutdown();
    return m.total;
}

static struct device *same_device(const char *id, int index)
{
    for (int i = 0; i < ndevices; i++) {
        if (strcasecmp(devices[i].id, id) == 0 || (devices[i].id[0] == '\0' && i == index))
            return &devices[i];
    }
    if (ndevices == DEVICES)
        return NULL;
    return &devices[ndevices++];
}

static int ask_cuda(void)
{
    int (*init)(unsigned), (*get_version)(int *), (*get_count)(int *), (*get)(int *, int);
    int (*get_attribute)(int *, int, int), (*get_name)(char *, int, int);
    int (*get_total)(size_t *, int), (*get_pci)(char *, int, int);
    int version = 0, count = 0, driver, r;
    void *cuda = open_one("libcuda.so.1", 0);

    FIND(cuda, init, "cuInit");
    FIND(cuda, get_version, "cuDriverGetVersion");
    FIND(cuda, get_count, "cuDeviceGetCount");
    FIND(cuda, get, "cuDeviceGet");
    FIND(cuda, get_attribute, "cuDeviceGetAttribute");
    FIND(cuda, get_name, "cuDeviceGetName");
    FIND(cuda, get_total, "cuDeviceTotalMem_v2");
    FIND(cuda, get_pci, "cuDeviceGetPCIBusId");
    if (!init || !get_version || !get_count || !get || !get_attribute || !get_name || !get_total)
        return 1;
    r = init(0);
    if (r != 0) {
        fprintf(stderr, "discovery: cuInit failed: %d\n", r);
        return 1;
    }
    get_version(&version);
    driver = driver_major();
    if (get_count(&count) != 0)
        return 1;
    for (int i = 0; i < count; i++) {
        char name[128] = "", pci[32] = "";
        struct device *d;
        size_t total = 0;
        int dev, value = 0;

        if (get(&dev, i) != 0)
            continue;
        get_name(name, sizeof(name), dev);
        get_total(&total, dev);
        if (get_pci != NULL && get_pci(pci, sizeof(pci), dev) == 0) {
            for (char *c = pci; *c != '\0'; c++)
                *c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 'a' - 'A') : *c;
        }
        d = same_device(pci, i);
        if (d == NULL)
            break;
        strcpy(d->library, "CUDA");
        if (d->description[0] == '\0')
            snprintf(d->description, sizeof(d->description), "%s", name);
        snprintf(d->id, sizeof(d->id), "%s", pci);
        if (d->total == 0)
            d->total = total;
        get_attribute(&d->major, 75, dev);
        get_attribute(&d->minor, 76, dev);
        get_attribute(&value, 18, dev);
        d->integrated = value == 1;
        d->cuda_major = version / 1000;
        d->cuda_minor = version % 1000 / 10;
        d->driver_major = driver;
        d->board = board_memory(pci);
    }
    return count == 0;
}

int main(int argc, char **argv)
{
    int bad = 0;

    if (argc > 1 && ask_ggml(argv[1]) != 0) {
        printf("library=cpu (ggml's CUDA backend shows no device)\n");
        bad = 1;
    }
    if (ask_cuda() != 0) {
        printf("library=cpu (libcuda shows no device)\n");
        bad = 1;
    }
    for (int i = 0; i < ndevices; i++) {
        const struct device *d = &devices[i];

        printf("library=%s index=%d name=%s id=%s compute=%d.%d cuda=%d.%d driver=%d total=%llu "
               "free=%llu board=%llu integrated=%d description=%s\n",
               d->library, i, d->name, d->id, d->major, d->minor, d->cuda_major, d->cuda_minor,
               d->driver_major, d->total, d->free, d->board, d->integrated, d->description);
        if (strcmp(d->library, "CUDA") != 0 || d->major == 0 || d->total == 0 || d->board == 0 ||
            d->cuda_major == 0 || d->driver_major == 0 || d->id[0] == '\0')
            bad = 1;
    }
    return bad || ndevices == 0;
}
