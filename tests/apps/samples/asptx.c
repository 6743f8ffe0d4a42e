/* SPDX-License-Identifier: MIT */
/*
 * Loaded before a sample that has its kernels compiled at run time (LD_PRELOAD): asks NVRTC and nvJitLink for
 * PTX where the sample asks for machine code, as nvcc.sh does when samples are built.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library's function that this one wraps. */
static void *next(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);

    if (!f) {
        fprintf(stderr, "asptx: %s is missing\n", name);
        abort();
    }
    return f;
}

/* "...sm_80" becomes "...compute_80"; another option stays. The text is never freed. */
static const char *virtual_arch(const char *option)
{
    const char *at = strstr(option, "=sm_");
    char *text;

    if (!strstr(option, "arch") || !at)
        return option;
    return asprintf(&text, "%.*s=compute_%s", (int)(at - option), option, at + 4) < 0 ? option : text;
}

int nvrtcCompileProgram(void *program, int count, const char *const *options)
{
    int (*compile)(void *, int, const char *const *) = next("nvrtcCompileProgram");
    const char **list = calloc((size_t)count + 1, sizeof(*list));
    int r;

    if (!list)
        return 1; /* NVRTC_ERROR_OUT_OF_MEMORY */
    for (int i = 0; i < count; i++)
        list[i] = virtual_arch(options[i]);
    r = compile(program, count, list);
    free(list);
    return r;
}

int nvrtcGetCUBINSize(void *program, size_t *size)
{
    return ((int (*)(void *, size_t *))next("nvrtcGetPTXSize"))(program, size);
}

int nvrtcGetCUBIN(void *program, char *code)
{
    return ((int (*)(void *, char *))next("nvrtcGetPTX"))(program, code);
}

/* nvJitLink's header gives its functions the names of its version. */
#define VERSION "_13_0"

int create(void *handle, uint32_t count, const char **options) __asm__("__nvJitLinkCreate" VERSION);
int linked_size(void *handle, size_t *size) __asm__("__nvJitLinkGetLinkedCubinSize" VERSION);
int linked(void *handle, void *code) __asm__("__nvJitLinkGetLinkedCubin" VERSION);

int create(void *handle, uint32_t count, const char **options)
{
    int (*real)(void *, uint32_t, const char **) = next("__nvJitLinkCreate" VERSION);
    const char **list = calloc(count + 1, sizeof(*list));
    int r;

    if (!list)
        return 6; /* NVJITLINK_ERROR_INTERNAL */
    memcpy(list, options, count * sizeof(*list));
    list[count] = "-ptx";
    r = real(handle, count + 1, list);
    free(list);
    return r;
}

int linked_size(void *handle, size_t *size)
{
    return ((int (*)(void *, size_t *))next("__nvJitLinkGetLinkedPtxSize" VERSION))(handle, size);
}

int linked(void *handle, void *code)
{
    return ((int (*)(void *, char *))next("__nvJitLinkGetLinkedPtx" VERSION))(handle, code);
}
