/* SPDX-License-Identifier: MIT */
/*
 * Interception of NVRTC. A program to be compiled for sm_NN is compiled for compute_NN, which gives
 * the same PTX and no machine code; its "cubin" is that PTX, which the driver's module loading
 * functions accept like a cubin.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"

/* Results of nvrtc.h, which the build does not require. */
#define NVRTC_ERROR_OUT_OF_MEMORY 1
#define NVRTC_ERROR_INTERNAL_ERROR 11

/* Programs whose cubin is their PTX. */
struct program {
    struct program *next;
    void *handle;
    int library;
};
static struct program *programs;
static pthread_mutex_t programs_lock = PTHREAD_MUTEX_INITIALIZER;

static bool program_is_marked(int library, const void *handle)
{
    bool is = false;

    pthread_mutex_lock(&programs_lock);
    for (const struct program *p = programs; p && !is; p = p->next)
        is = p->handle == handle && p->library == library;
    pthread_mutex_unlock(&programs_lock);
    return is;
}

static bool program_mark(int library, void *handle)
{
    struct program *p = malloc(sizeof(*p));

    if (!p)
        return false;
    *p = (struct program){.handle = handle, .library = library};
    pthread_mutex_lock(&programs_lock);
    p->next = programs;
    programs = p;
    pthread_mutex_unlock(&programs_lock);
    return true;
}

static void program_unmark(int library, const void *handle)
{
    pthread_mutex_lock(&programs_lock);
    for (struct program **at = &programs, *p; (p = *at);) {
        if (p->handle == handle && p->library == library) {
            *at = p->next;
            free(p);
        } else {
            at = &p->next;
        }
    }
    pthread_mutex_unlock(&programs_lock);
}

static bool wants_lto(int count, const char *const *options)
{
    for (int i = 0; i < count; i++) {
        if (options[i] && (strcmp(options[i], "-dlto") == 0 || strcmp(options[i], "--dlink-time-opt") == 0))
            return true;
    }
    return false;
}

static int front_compile(int library, void *handle, int count, const char *const *options)
{
    int (*real)(void *, int, const char *const *);
    struct vj_options o;
    int r;

    if (library < 0)
        return NVRTC_ERROR_INTERNAL_ERROR;
    real = (int (*)(void *, int, const char *const *))vj_library_symbol(library, "nvrtcCompileProgram");
    program_unmark(library, handle);
    /* Code for run-time linking has no cubin. */
    if (count <= 0 || !options || wants_lto(count, options))
        return real(handle, count, options);
    if (!vj_options_virtual(&o, count, options))
        return NVRTC_ERROR_OUT_OF_MEMORY;
    if (o.machine_code && !program_mark(library, handle))
        r = NVRTC_ERROR_OUT_OF_MEMORY;
    else
        r = real(handle, count, o.items);
    vj_options_free(&o);
    return r;
}

static int front_destroy(int library, void **handle)
{
    if (library < 0)
        return NVRTC_ERROR_INTERNAL_ERROR;
    if (handle)
        program_unmark(library, *handle);
    return ((int (*)(void **))vj_library_symbol(library, "nvrtcDestroyProgram"))(handle);
}

static int front_cubin_size(int library, void *handle, size_t *size)
{
    if (library < 0)
        return NVRTC_ERROR_INTERNAL_ERROR;
    return ((int (*)(void *, size_t *))vj_library_symbol(
        library, program_is_marked(library, handle) ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize"))(handle, size);
}

static int front_cubin(int library, void *handle, char *cubin)
{
    if (library < 0)
        return NVRTC_ERROR_INTERNAL_ERROR;
    return ((int (*)(void *, char *))vj_library_symbol(
        library, program_is_marked(library, handle) ? "nvrtcGetPTX" : "nvrtcGetCUBIN"))(handle, cubin);
}

/* ---- exports ---- */

#define CALLER(name) vj_library_of_caller(__builtin_return_address(0), name)

VJ_EXPORT int nvrtcCompileProgram(void *handle, int count, const char *const *options)
{
    return front_compile(CALLER("nvrtcCompileProgram"), handle, count, options);
}

VJ_EXPORT int nvrtcDestroyProgram(void **handle)
{
    return front_destroy(CALLER("nvrtcDestroyProgram"), handle);
}

VJ_EXPORT int nvrtcGetCUBINSize(void *handle, size_t *size)
{
    return front_cubin_size(CALLER("nvrtcGetCUBINSize"), handle, size);
}

VJ_EXPORT int nvrtcGetCUBIN(void *handle, char *cubin)
{
    return front_cubin(CALLER("nvrtcGetCUBIN"), handle, cubin);
}

#define OF_LIBRARY(n) \
    static int nvrtc_compile_##n(void *handle, int count, const char *const *options) \
    { \
        return front_compile(n, handle, count, options); \
    } \
    static int nvrtc_destroy_##n(void **handle) \
    { \
        return front_destroy(n, handle); \
    } \
    static int nvrtc_cubin_size_##n(void *handle, size_t *size) \
    { \
        return front_cubin_size(n, handle, size); \
    } \
    static int nvrtc_cubin_##n(void *handle, char *cubin) \
    { \
        return front_cubin(n, handle, cubin); \
    }
VJ_EACH_LIBRARY(OF_LIBRARY)

#define ROW(n) \
    {(void *)nvrtc_compile_##n, (void *)nvrtc_destroy_##n, (void *)nvrtc_cubin_size_##n, \
     (void *)nvrtc_cubin_##n},

void *vj_nvrtc_front(int library, const char *name)
{
    static const char *const names[] = {"nvrtcCompileProgram", "nvrtcDestroyProgram", "nvrtcGetCUBINSize",
                                        "nvrtcGetCUBIN"};
    static void *const fronts[VJ_LIBRARIES][4] = {VJ_EACH_LIBRARY(ROW)};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0)
            return fronts[library][i];
    }
    return NULL;
}
