/* SPDX-License-Identifier: MIT */
/*
 * Linking of PTX by the driver. cuLinkComplete of the software GPU returns PTX. It needs a context,
 * unlike nvJitLink: a thread without a context uses that of the first device meanwhile.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"
#include "jit/jit_link.h"

#define CUDA_ERROR_INVALID_PTX 218
#define CU_JIT_ERROR_LOG_BUFFER 5
#define CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES 6

static struct {
    int (*init)(unsigned int);
    int (*ctx_get_current)(void **);
    int (*ctx_push)(void *);
    int (*ctx_pop)(void **);
    int (*primary_retain)(void **, int);
    int (*primary_release)(int);
    int (*create)(unsigned int, int *, void **, void **);
    int (*add_data)(void *, int, const void *, size_t, const char *, unsigned int, int *, void **);
    int (*complete)(void *, void **, size_t *);
    int (*destroy)(void *);
    bool there;
} driver;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

static void driver_open(void)
{
    const struct {
        void *to;
        const char *name;
    } functions[] = {
        {&driver.init, "cuInit"},
        {&driver.ctx_get_current, "cuCtxGetCurrent"},
        {&driver.ctx_push, "cuCtxPushCurrent_v2"},
        {&driver.ctx_pop, "cuCtxPopCurrent_v2"},
        {&driver.primary_retain, "cuDevicePrimaryCtxRetain"},
        {&driver.primary_release, "cuDevicePrimaryCtxRelease_v2"},
        {&driver.create, "cuLinkCreate_v2"},
        {&driver.add_data, "cuLinkAddData_v2"},
        {&driver.complete, "cuLinkComplete"},
        {&driver.destroy, "cuLinkDestroy"},
    };
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *f = libcuda ? vj_real_dlsym(libcuda, functions[i].name) : NULL;

        if (!f)
            return;
        memcpy(functions[i].to, &f, sizeof(f));
    }
    driver.there = true;
}

static enum vj_link_result link_in_context(const struct vj_input *inputs, char **out, size_t *size, char *log)
{
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)VJ_LOG_SIZE};
    enum vj_link_result result = VJ_LINK_OK;
    void *state = NULL, *image;
    size_t n;
    int r;

    if (driver.create(2, options, values, &state) != 0)
        return VJ_LINK_NO_DRIVER;
    for (const struct vj_input *in = inputs; in && result == VJ_LINK_OK; in = in->next) {
        /* Texts are passed with their NUL. */
        r = driver.add_data(state, in->type, in->data, in->size + (in->type == VJ_DRIVER_PTX), in->name, 0,
                            NULL, NULL);
        if (r == CUDA_ERROR_INVALID_PTX)
            result = VJ_LINK_PTX;
        else if (r != 0)
            result = VJ_LINK_INPUT;
        if (r != 0 && !log[0])
            snprintf(log, VJ_LOG_SIZE,
                     "error   : the software GPU cannot link '%s' (CUDA error %d): it executes PTX", in->name,
                     r);
    }
    if (result == VJ_LINK_OK && out) {
        if (driver.complete(state, &image, &n) != 0) {
            result = VJ_LINK_INCOMPLETE;
        } else {
            n = strnlen(image, n);
            *out = malloc(n + 1);
            if (*out) {
                memcpy(*out, image, n);
                (*out)[n] = 0;
                *size = n + 1;
            } else {
                result = VJ_LINK_NO_DRIVER;
            }
        }
    }
    driver.destroy(state);
    return result;
}

enum vj_link_result vj_link_by_driver(const struct vj_input *inputs, char **out, size_t *size, char *log)
{
    void *context = NULL;
    enum vj_link_result result;

    log[0] = 0;
    pthread_once(&driver_once, driver_open);
    if (!driver.there || driver.init(0) != 0) {
        snprintf(log, VJ_LOG_SIZE,
                 "error   : PTX is linked by libcuda.so.1, which is not there or finds no GPU");
        return VJ_LINK_NO_DRIVER;
    }
    driver.ctx_get_current(&context);
    if (context)
        return link_in_context(inputs, out, size, log);
    if (driver.primary_retain(&context, 0) != 0 || driver.ctx_push(context) != 0) {
        if (context)
            driver.primary_release(0);
        snprintf(log, VJ_LOG_SIZE, "error   : PTX is linked in a context, which cannot be had");
        return VJ_LINK_NO_DRIVER;
    }
    result = link_in_context(inputs, out, size, log);
    driver.ctx_pop(&context);
    driver.primary_release(0);
    return result;
}
