/* SPDX-License-Identifier: MIT */
/*
 * Stand-ins for NVRTC, nvJitLink and the driver's linker in jit_test.c: each answers with a text
 * that describes how it was called. VERSION distinguishes two copies of NVRTC, as if two versions
 * were loaded in a process.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION 0
#endif

#ifdef FAKE_NVRTC
struct program {
    char ptx[256];
    int machine_code;
};

int nvrtcCreateProgram(void **p, const char *text, const char *name, int n, const char *const *h,
                       const char *const *i);
int nvrtcCreateProgram(void **p, const char *text, const char *name, int n, const char *const *h,
                       const char *const *i)
{
    (void)text, (void)name, (void)n, (void)h, (void)i;
    *p = calloc(1, sizeof(struct program));
    return *p ? 0 : 1;
}

int nvrtcCompileProgram(void *handle, int count, const char *const *options);
int nvrtcCompileProgram(void *handle, int count, const char *const *options)
{
    struct program *p = handle;
    size_t at = (size_t)snprintf(p->ptx, sizeof(p->ptx), "ptx %d", VERSION);

    p->machine_code = 0;
    for (int i = 0; i < count; i++) {
        p->machine_code |= strstr(options[i], "sm_") != NULL;
        at += (size_t)snprintf(p->ptx + at, sizeof(p->ptx) - at, " %s", options[i]);
    }
    return 0;
}

int nvrtcDestroyProgram(void **p);
int nvrtcDestroyProgram(void **p)
{
    *p = NULL; /* not freed, so that a handle's address is never reused */
    return 0;
}

int nvrtcGetPTXSize(struct program *p, size_t *size);
int nvrtcGetPTXSize(struct program *p, size_t *size)
{
    *size = strlen(p->ptx) + 1;
    return 0;
}

int nvrtcGetPTX(struct program *p, char *ptx);
int nvrtcGetPTX(struct program *p, char *ptx)
{
    strcpy(ptx, p->ptx);
    return 0;
}

int nvrtcGetCUBINSize(struct program *p, size_t *size);
int nvrtcGetCUBINSize(struct program *p, size_t *size)
{
    *size = p->machine_code ? 6 : 0;
    return 0;
}

int nvrtcGetCUBIN(struct program *p, char *cubin);
int nvrtcGetCUBIN(struct program *p, char *cubin)
{
    if (p->machine_code)
        strcpy(cubin, "\177cubin");
    return 0;
}
#endif

#ifdef FAKE_NVJITLINK
struct link {
    char options[100], inputs[100];
};

int nvJitLinkCreate(void **handle, uint32_t count, const char **options);
int nvJitLinkCreate(void **handle, uint32_t count, const char **options)
{
    struct link *l = calloc(1, sizeof(*l));

    for (uint32_t i = 0; l && i < count; i++)
        strcat(strcat(l->options, " "), options[i]);
    *handle = l;
    return l ? 0 : 6;
}
int __nvJitLinkCreate_13_0(void **handle, uint32_t count, const char **options)
    __attribute__((alias("nvJitLinkCreate")));

int nvJitLinkDestroy(void **handle);
int nvJitLinkDestroy(void **handle)
{
    *handle = NULL;
    return 0;
}
int __nvJitLinkDestroy_13_0(void **handle) __attribute__((alias("nvJitLinkDestroy")));

int nvJitLinkAddData(struct link *l, int type, const void *data, size_t size, const char *name);
int nvJitLinkAddData(struct link *l, int type, const void *data, size_t size, const char *name)
{
    (void)data, (void)size;
    snprintf(l->inputs + strlen(l->inputs), sizeof(l->inputs) - strlen(l->inputs), " %d:%s", type, name);
    return 0;
}
int __nvJitLinkAddData_13_0(struct link *l, int type, const void *data, size_t size, const char *name)
    __attribute__((alias("nvJitLinkAddData")));

int nvJitLinkAddFile(struct link *l, int type, const char *path);
int nvJitLinkAddFile(struct link *l, int type, const char *path)
{
    return nvJitLinkAddData(l, type, "", 1, path);
}

int nvJitLinkComplete(struct link *l);
int nvJitLinkComplete(struct link *l)
{
    (void)l;
    return 0;
}

int nvJitLinkGetLinkedCubinSize(struct link *l, size_t *size);
int nvJitLinkGetLinkedCubinSize(struct link *l, size_t *size)
{
    if (strstr(l->options, "-ptx"))
        return 6;
    *size = 6;
    return 0;
}

int nvJitLinkGetLinkedCubin(struct link *l, char *cubin);
int nvJitLinkGetLinkedCubin(struct link *l, char *cubin)
{
    (void)l;
    strcpy(cubin, "\177cubin");
    return 0;
}

static void link_ptx(struct link *l, char *to, size_t room)
{
    snprintf(to, room, "lto%s;%s", l->options, l->inputs);
}

int nvJitLinkGetLinkedPtxSize(struct link *l, size_t *size);
int nvJitLinkGetLinkedPtxSize(struct link *l, size_t *size)
{
    char text[256];

    link_ptx(l, text, sizeof(text));
    *size = strlen(text) + 1;
    return strstr(l->options, "-ptx") ? 0 : 3;
}

int nvJitLinkGetLinkedPtx(struct link *l, char *ptx);
int nvJitLinkGetLinkedPtx(struct link *l, char *ptx)
{
    link_ptx(l, ptx, 256);
    return 0;
}

int nvJitLinkGetErrorLogSize(struct link *l, size_t *size);
int nvJitLinkGetErrorLogSize(struct link *l, size_t *size)
{
    (void)l;
    *size = 4;
    return 0;
}

int nvJitLinkGetErrorLog(struct link *l, char *log);
int nvJitLinkGetErrorLog(struct link *l, char *log)
{
    (void)l;
    strcpy(log, "own");
    return 0;
}
#endif

#ifdef FAKE_LIBCUDA
/* State of the only link at a time, with its inputs joined by "+". */
static char linked[512], *log_text;
static int contexts, pushed;

int cuInit(unsigned int flags);
int cuInit(unsigned int flags)
{
    return (int)flags;
}

int cuCtxGetCurrent(void **context);
int cuCtxGetCurrent(void **context)
{
    *context = pushed ? linked : NULL;
    return 0;
}

int cuCtxPushCurrent_v2(void *context);
int cuCtxPushCurrent_v2(void *context)
{
    pushed += context != NULL;
    return 0;
}

int cuCtxPopCurrent_v2(void **context);
int cuCtxPopCurrent_v2(void **context)
{
    *context = linked;
    pushed--;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = linked;
    contexts += device == 0;
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxRelease_v2(int device)
{
    contexts -= device == 0;
    return 0;
}

/* Query of the test: number of contexts retained and pushed. */
int fake_contexts(void);
int fake_contexts(void)
{
    return contexts + pushed;
}

int cuLinkCreate_v2(unsigned int count, int *options, void **values, void **state);
int cuLinkCreate_v2(unsigned int count, int *options, void **values, void **state)
{
    if (!pushed)
        return 201;
    linked[0] = 0;
    log_text = count && options[0] == 5 ? values[0] : NULL;
    *state = linked;
    return 0;
}

int cuLinkAddData_v2(void *state, int type, const char *data, size_t size, const char *name,
                     unsigned int count, int *options, void **values);
int cuLinkAddData_v2(void *state, int type, const char *data, size_t size, const char *name,
                     unsigned int count, int *options, void **values)
{
    (void)state, (void)size, (void)count, (void)options, (void)values;
    if (type == 0)
        return 209;
    if (strstr(data, "wrong")) {
        strcpy(log_text, "wrong PTX");
        return 218;
    }
    snprintf(linked + strlen(linked), sizeof(linked) - strlen(linked), "%s%d:%s:%s", linked[0] ? "+" : "",
             type, name, data);
    return 0;
}

int cuLinkComplete(void *state, void **image, size_t *size);
int cuLinkComplete(void *state, void **image, size_t *size)
{
    if (strstr(state, "missing")) {
        strcpy(log_text, "something is missing");
        return 218;
    }
    *image = state;
    *size = strlen(state);
    return 0;
}

int cuLinkDestroy(void *state);
int cuLinkDestroy(void *state)
{
    (void)state;
    return 0;
}
#endif
