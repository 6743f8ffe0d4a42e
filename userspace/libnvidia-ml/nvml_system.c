/* SPDX-License-Identifier: MIT */
/* nvmlInit to nvmlSystem*: functions without a device. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "library.h"
#include "../../lib/link/link.h"

/* Only init and shutdown may be called before the library is initialised. */
#define NVML_START(name, parameters, flags) \
    NVML_EXPORT nvmlReturn_t name parameters; \
    NVML_EXPORT nvmlReturn_t name parameters \
    { \
        uint64_t t0 = lnk_trace_now(); \
        nvmlReturn_t r = nvml_init(flags); \
\
        if (__builtin_expect(lnk_trace_on, 0)) \
            nvml_trace(#name, r, t0, "flags=%u", (unsigned)(flags)); \
        return r; \
    }

NVML_START(nvmlInit_v2, (void), 0)
/* Before version 2 of nvmlInit a missing device was reported by later calls. */
NVML_START(nvmlInit, (void), NVML_INIT_FLAG_NO_GPUS)
NVML_START(nvmlInitWithFlags, (unsigned flags), flags)

NVML_EXPORT nvmlReturn_t nvmlShutdown(void);
NVML_EXPORT nvmlReturn_t nvmlShutdown(void)
{
    uint64_t t0 = lnk_trace_now();
    nvmlReturn_t r = nvml_shutdown();

    if (lnk_trace_on)
        nvml_trace("nvmlShutdown", r, t0, "%s", "");
    return r;
}

nvmlReturn_t nvml_put(char *to, unsigned room, const char *text)
{
    if (to == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (room <= strlen(text))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(to, text);
    return NVML_SUCCESS;
}

NVML_CALL(nvmlSystemGetDriverVersion, (char *version, unsigned length), (version, length),
          "length=%u version=%s", length, r == NVML_SUCCESS ? version : "?")
{
    return nvml_put(version, length, nvml.driver_version);
}

NVML_CALL(nvmlSystemGetNVMLVersion, (char *version, unsigned length), (version, length),
          "length=%u version=%s", length, r == NVML_SUCCESS ? version : "?")
{
    return nvml_put(version, length, nvml.nvml_version);
}

/* As libcuda reports: the version seen by this guest's programs. */
static nvmlReturn_t cuda_version(int *version)
{
    if (version == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *version = lnk_driver_version(nvml.cuda_version);
    return NVML_SUCCESS;
}

NVML_CALL(nvmlSystemGetCudaDriverVersion, (int *version), (version), "version=%d",
          r == NVML_SUCCESS ? *version : 0)
{
    return cuda_version(version);
}

NVML_CALL(nvmlSystemGetCudaDriverVersion_v2, (int *version), (version), "version=%d",
          r == NVML_SUCCESS ? *version : 0)
{
    return cuda_version(version);
}

/* Returns the first word of the command line, truncated to the capacity as by NVIDIA's library. */
NVML_CALL(nvmlSystemGetProcessName, (unsigned pid, char *name, unsigned length), (pid, name, length),
          "pid=%u name=%s", pid, r == NVML_SUCCESS ? name : "?")
{
    char path[64], text[4096];
    ssize_t n;
    int fd;

    if (name == NULL || length == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_NOT_FOUND;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n < 0 ? 0 : n] = '\0';
    snprintf(name, length, "%s", text);
    return NVML_SUCCESS;
}
