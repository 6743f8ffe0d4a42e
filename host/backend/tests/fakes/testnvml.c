/* SPDX-License-Identifier: MIT */
/*
 * An NVML of one device with fixed values. Its processes: whoever has initialised it here, by files in the folder
 * for compiled code, which processes of one VM share, and those of $VGPU_TEST_NVML_STRANGERS (numbers, with blanks
 * between them). Each uses its number of pages of 4096 bytes. Without $VGPU_TEST_NVML_DEVICE there is no device.
 * TESTNVML_OLDER: the NVML of an older driver, without the functions that came later.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "testnvml.h"

#define NOT_SUPPORTED 3
#define NOT_FOUND 6

static int device;

int nvmlInit_v2(void)
{
    const char *folder = getenv("CUDA_CACHE_PATH");
    char path[4200];

    if (folder) {
        snprintf(path, sizeof(path), "%s/%d", folder, (int)getpid());
        close(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    }
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **handle)
{
    (void)bus;
    *handle = &device;
    return getenv("VGPU_TEST_NVML_DEVICE") ? 0 : NOT_FOUND;
}

int nvmlSystemGetDriverVersion(char *text, unsigned room)
{
    snprintf(text, room, "123.45");
    return 0;
}

#ifdef TESTNVML_OLDER
struct memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

int nvmlDeviceGetMemoryInfo(void *d, struct memory *m)
{
    m->total = 80ull << 30;
    m->used = 30ull << 30;
    m->free = m->total - m->used;
    return d == &device ? 0 : 2;
}
#define RUNNING_PROCESSES nvmlDeviceGetComputeRunningProcesses_v2
#else
struct memory { /* nvmlMemory_v2_t */
    unsigned version;
    unsigned long long total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo_v2(void *d, struct memory *m)
{
    m->total = 80ull << 30;
    m->reserved = 1ull << 30;
    m->used = 30ull << 30;
    m->free = m->total - m->reserved - m->used;
    return d == &device ? 0 : 2;
}

#define RUNNING_PROCESSES nvmlDeviceGetComputeRunningProcesses_v3
#endif

struct process { /* nvmlProcessInfo_t */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

static void add(struct process *list, unsigned *n, unsigned room, long pid)
{
    if (pid > 0 && *n < room)
        list[(*n)++] = (struct process){.pid = (unsigned)pid, .used = (unsigned long long)pid * 4096};
}

int RUNNING_PROCESSES(void *d, unsigned *n, struct process *list)
{
    const char *folder = getenv("CUDA_CACHE_PATH"), *strangers = getenv("VGPU_TEST_NVML_STRANGERS");
    DIR *files = folder ? opendir(folder) : NULL;
    unsigned room = *n;
    struct dirent *e;

    *n = 0;
    for (char *end; strangers && *strangers; strangers = *end ? end + 1 : end)
        add(list, n, room, strtol(strangers, &end, 10));
    while (files && (e = readdir(files)))
        add(list, n, room, atol(e->d_name));
    if (files)
        closedir(files);
    return d == &device ? 0 : 2;
}

int nvmlDeviceGetUtilizationRates(void *d, unsigned rates[2])
{
    rates[0] = 37;
    rates[1] = 12;
    return d == &device ? 0 : 2;
}

int nvmlDeviceGetPowerUsage(void *d, unsigned *mw)
{
    *mw = 251000;
    return d == &device ? 0 : 2;
}

int nvmlDeviceGetTemperature(void *d, unsigned sensor, unsigned *degrees)
{
    *degrees = 55 + sensor;
    return d == &device ? 0 : 2;
}

int nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *mj)
{
    *mj = 1ull << 40;
    return d == &device ? 0 : 2;
}

int nvmlDeviceGetSerial(void *d, char *text, unsigned room)
{
    snprintf(text, room, "0123456789");
    return d == &device ? 0 : 2;
}

int nvmlDeviceGetFanSpeed(void *d, unsigned *percent)
{
    *percent = 99;
    return d == &device ? NOT_SUPPORTED : 2;
}

#define ONE(name, what) \
    int nvmlDeviceGet##name(void *d, unsigned *value) \
    { \
        *value = TESTNVML_##name; \
        return d == &device ? 0 : 2; \
    }
#define PAIR(name, what) \
    int nvmlDeviceGet##name(void *d, unsigned *first, unsigned *second) \
    { \
        *first = TESTNVML_##name; \
        *second = TESTNVML_##name + 1000; \
        return d == &device ? 0 : 2; \
    }
TESTNVML_ONES(ONE)
TESTNVML_PAIRS(PAIR)
