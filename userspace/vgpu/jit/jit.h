/* SPDX-License-Identifier: MIT */
/*
 * libvgpu-jit.so: declarations shared by its files. `vgpu run` and `vgpu vm run` preload the library on the software GPU,
 * which executes PTX and no machine code. It stands in front of NVRTC and nvJitLink and gives PTX where a program asks
 * them for a cubin. It runs in the user's program: it starts no thread, handles no signal, writes nothing.
 */
#ifndef VGPU_JIT_H
#define VGPU_JIT_H

#include <stdbool.h>
#include <stddef.h>

#define VJ_EXPORT __attribute__((visibility("default")))

/* Libraries (loaded copies of NVRTC and nvJitLink) that a process may have at a time; a further one is left alone. */
#define VJ_LIBRARIES 8
#define VJ_EACH_LIBRARY(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* jit_dlsym.c: the libraries are numbered as they are seen. */

/* The library whose function NAME the code at CALLER means; -1: none is loaded. */
int vj_library_of_caller(const void *caller, const char *name);
/* A function of a library; NULL: it has none. */
void *vj_library_symbol(int library, const char *name);
/* dlsym() of the C library. */
void *vj_real_dlsym(void *handle, const char *name);

/* The function that stands in front of NAME of a library; NULL: none does. */
void *vj_nvrtc_front(int library, const char *name);
void *vj_nvjitlink_front(int library, const char *name);

/* jit_arch.c */
struct vj_options {
    const char **items;
    char **own; /* the options that were changed */
    size_t own_count;
    bool machine_code; /* an architecture sm_NN is asked for */
};
/* The options of a compiler with its architecture sm_NN as compute_NN. False: no memory. */
bool vj_options_virtual(struct vj_options *o, int count, const char *const *options);
void vj_options_free(struct vj_options *o);

#endif
