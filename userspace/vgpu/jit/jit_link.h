/* SPDX-License-Identifier: MIT */
/* Linking of PTX by the driver, for the interception of nvJitLink. */
#ifndef VGPU_JIT_LINK_H
#define VGPU_JIT_LINK_H

#include <stddef.h>

/* CUjitInputType, as cuda.h numbers it. */
enum vj_driver_input {
    VJ_DRIVER_CUBIN,
    VJ_DRIVER_PTX,
    VJ_DRIVER_FATBINARY,
    VJ_DRIVER_OBJECT,
    VJ_DRIVER_LIBRARY
};

struct vj_input {
    struct vj_input *next; /* in the order of addition */
    enum vj_driver_input type;
    char *name;
    size_t size;
    char data[]; /* with a terminating NUL */
};

enum vj_link_result {
    VJ_LINK_OK,
    VJ_LINK_NO_DRIVER, /* no libcuda.so.1, or no device */
    VJ_LINK_INPUT,     /* an input is rejected */
    VJ_LINK_PTX,       /* an input is invalid PTX */
    VJ_LINK_INCOMPLETE /* the inputs are incompatible */
};

#define VJ_LOG_SIZE 8192
/* Links the inputs into a single PTX text, to be freed; its size includes the NUL. log: buffer of
 * VJ_LOG_SIZE bytes. out NULL: only checks the inputs. */
enum vj_link_result vj_link_by_driver(const struct vj_input *inputs, char **out, size_t *size, char *log);

#endif
