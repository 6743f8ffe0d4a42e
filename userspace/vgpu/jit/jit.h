/* SPDX-License-Identifier: MIT */
/*
 * libvgpu-jit.so: declarations shared by its files. `vgpu run` and `vgpu vm run` preload the
 * library on the software GPU, which executes PTX and no machine code. It intercepts NVRTC and
 * nvJitLink and returns PTX where a program requests a cubin. It runs in the user's program: it
 * starts no thread, handles no signal, writes no output.
 */
#ifndef VGPU_JIT_H
#define VGPU_JIT_H

#include <stdbool.h>
#include <stddef.h>

#define VJ_EXPORT __attribute__((visibility("default")))

/* Maximum number of libraries (loaded copies of NVRTC and nvJitLink) handled in a process; a
 * further library is not intercepted. */
#define VJ_LIBRARIES 8
#define VJ_EACH_LIBRARY(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* jit_dlsym.c: libraries are numbered in the order of discovery. */

/* Returns the library whose function NAME is called by the code at CALLER; -1: none is loaded. */
int vj_library_of_caller(const void *caller, const char *name);
/* Returns a function of a library; NULL: missing. */
void *vj_library_symbol(int library, const char *name);
/* dlsym() of the C library. */
void *vj_real_dlsym(void *handle, const char *name);

/* Returns the function that intercepts NAME of a library; NULL: none. */
void *vj_nvrtc_front(int library, const char *name);
void *vj_nvjitlink_front(int library, const char *name);

/* jit_arch.c */
struct vj_options {
    const char **items;
    char **own; /* the modified options */
    size_t own_count;
    bool machine_code; /* an architecture sm_NN is requested */
};
/* Converts the options of a compiler from architecture sm_NN to compute_NN. False: no memory. */
bool vj_options_virtual(struct vj_options *o, int count, const char *const *options);
void vj_options_free(struct vj_options *o);

#endif
