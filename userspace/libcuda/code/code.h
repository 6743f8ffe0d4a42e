/* SPDX-License-Identifier: MIT */
/*
 * Modules, libraries and their functions, as the guest caches them. A function's attributes and
 * parameter layout arrive with its lookup and are answered from here.
 */
#ifndef VCU_CODE_H
#define VCU_CODE_H

#include "../core/core.h"

#define VCU_FUNC_ATTRIBUTES 32
#define VCU_MAX_PARAMS 900
/* CUDA's limit for the parameters of one kernel on current devices, bytes. */
#define VCU_MAX_PARAM_BYTES 32764u

struct vcu_param {
    uint32_t offset, size; /* bytes */
};

/* A CUfunction or a CUkernel. Its handle lives as long as its module or library, the record as long as a call uses it. */
struct vcu_func {
    struct vcu_func *next; /* of the same parent */
    atomic_uint users;     /* the handle table, calls, a kernel's functions */
    atomic_bool ended;     /* its handle has gone, and the table's reference with it */
    uint64_t handle;
    uint64_t parent;           /* module (CUfunction) or library (CUkernel) handle */
    _Atomic uint64_t function; /* kernel: its newest CUfunction, 0 = none was asked for */
    uint64_t older; /* function of a kernel: the one before it, of another context; vcu_module_lock */
    struct vcu_func *kernel;             /* function that came from a kernel: that kernel, counted */
    uint64_t context;                    /* function: owner */
    int device;                          /* whose attributes are cached */
    int attributes[VCU_FUNC_ATTRIBUTES]; /* by CUfunction_attribute */
    uint32_t attribute_count;
    _Atomic bool launched; /* a launch of it has been issued with success */
    _Atomic bool in_node;  /* a node that launches it has been added with success */
    uint32_t param_count;
    uint32_t param_bytes; /* size of the packed parameter buffer */
    struct vcu_param *params;
    struct cua_old_launch *old; /* NULL until first used */
    char name[];
};

/* A module or a library. */
struct vcu_unit {
    atomic_uint users; /* the handle table, calls */
    atomic_bool ended; /* its handle has gone, and the table's reference with it */
    uint64_t handle;
    uint64_t context;        /* module: owner; library: 0 */
    _Atomic uint64_t module; /* library: its CUmodule once asked for */
    uint64_t library;        /* module that is a library's: that library */
    pthread_mutex_t lock;    /* protects gone, funcs and refs */
    bool gone;               /* unloaded: nothing is looked up in it any more */
    struct vcu_func *funcs;  /* looked up so far */
    struct vcu_texref *refs; /* texture and surface references looked up so far */
};
/* Serialises library -> module and kernel -> function, which happen once each. */
extern pthread_mutex_t vcu_module_lock;
/* A record with a minted handle (module or library), which the caller enters or drops; NULL when memory or handles
   are short. */
struct vcu_unit *vcu_unit_new(enum vgp_handle_type type);
void vcu_unit_drop(struct vcu_unit *u);
/* With a reference; NULL: not live. */
struct vcu_unit *vcu_unit_find(uint64_t handle, enum vgp_handle_type type);
void vcu_unit_put(struct vcu_unit *u);
/* Drops its handle and those of everything looked up in it, once; the caller has a reference or keeps others from it. */
void vcu_unit_end(struct vcu_unit *u);
/* A variable, NULL at first, whose reference goes at the end of its block. */
#define VCU_UNIT_HELD __attribute__((cleanup(vcu_unit_let_go)))
void vcu_unit_let_go(struct vcu_unit **u);

/* What the handle table has for a handle, with a reference in its atomic_uint at `users` bytes; NULL: not live. */
void *vcu_record_find(uint64_t handle, enum vgp_handle_type type, size_t users);
/* Ends the handle, if it is still there; true once for a record: the table's reference is the caller's. */
bool vcu_record_end(uint64_t handle, atomic_bool *ended);

enum vcu_image_kind {
    VCU_IMAGE_PTX = 1,
    VCU_IMAGE_ELF = 2,
    VCU_IMAGE_FATBIN = 3,
    VCU_IMAGE_ARCHIVE = 4,
};
struct vcu_image {
    enum vcu_image_kind kind;
    const void *data; /* what to send: a wrapper is already followed to its fatbin */
    uint64_t size;    /* bytes */
    void *copy;       /* what data points to, when it had to be put together; else NULL */
};
/*
 * Finds out what `code` points to and how long it is. `limit` bounds what may be read, 0 = unknown.
 * Returns CUDA_SUCCESS, CUDA_ERROR_INVALID_IMAGE or CUDA_ERROR_INVALID_VALUE (NULL); *why is then a
 * static text that names the wrong part.
 */
CUresult vcu_image_measure(const void *code, uint64_t limit, struct vcu_image *image, const char **why);
/* Frees what vcu_image_measure() put together, if anything. */
void vcu_image_done(struct vcu_image *image);
/* The whole of a regular file below 1 GiB with a NUL added, which *size counts; *text is the
   caller's to free. FILE_NOT_FOUND, INVALID_IMAGE, OPERATING_SYSTEM, OUT_OF_MEMORY. */
CUresult vcu_file_read(const char *call, const char *path, char **text, uint64_t *size);

/* texture_reference.c: drops a module's references; those that no module has, when their context ends. */
void vcu_texrefs_free(struct vcu_texref *first);
void vcu_texrefs_forget(uint64_t context);

/* Modules, libraries and functions of a context go with it. */
extern const struct vcu_unit_ops vcu_module_unit;

/* CUfunction or CUkernel handle -> the record that describes it, with a reference; NULL when it is not live. */
struct vcu_func *vcu_func_find(CUfunction f);
/* ... and the context that the function is of: 0 for a kernel, which is of none. */
struct vcu_func *vcu_func_find_in(CUfunction f, uint64_t *context);
/* The handle's own record. */
struct vcu_func *vcu_func_get(uint64_t handle, enum vgp_handle_type type);
void vcu_func_put(struct vcu_func *f);
/* Drops its handle, once; the caller has a reference or keeps others from it. */
void vcu_func_end(struct vcu_func *f);
#define VCU_FUNC_HELD __attribute__((cleanup(vcu_func_let_go)))
void vcu_func_let_go(struct vcu_func **f);

#include "launch.h"

#endif
