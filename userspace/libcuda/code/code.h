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

/* A CUfunction or a CUkernel. Its handle lives as long as its module or library, the record until
 * the last call that uses it ends. */
struct vcu_func {
    struct vcu_func *next; /* of the same parent */
    atomic_uint users;     /* references: the handle table, calls, a kernel's functions */
    atomic_bool ended;     /* its handle and the reference of the table are dropped */
    uint64_t handle;
    uint64_t parent;           /* module (CUfunction) or library (CUkernel) handle */
    _Atomic uint64_t function; /* kernel: its newest CUfunction, 0 = none requested */
    uint64_t older; /* function of a kernel: the previous function, of another context; vcu_module_lock */
    struct vcu_func *kernel;             /* function obtained from a kernel: that kernel, counted */
    uint64_t context;                    /* function: owner */
    int device;                          /* whose attributes are cached */
    int attributes[VCU_FUNC_ATTRIBUTES]; /* by CUfunction_attribute */
    uint32_t attribute_count;
    _Atomic bool launched;  /* a launch of it has been issued successfully */
    _Atomic bool in_node;   /* a node that launches it has been added successfully */
    _Atomic uint64_t block; /* the block accepted so far, 0 = none: see vcu_block_known() */
    uint32_t param_count;
    uint32_t param_bytes; /* size of the packed parameter buffer */
    struct vcu_param *params;
    struct cua_old_launch *old; /* NULL until first used */
    char name[];
};

/* A module or a library. */
struct vcu_code_record {
    atomic_uint users; /* the handle table, calls */
    atomic_bool ended; /* its handle and the reference of the table are dropped */
    uint64_t handle;
    uint64_t context;        /* module: owner; library: 0 */
    _Atomic uint64_t module; /* library: its CUmodule once requested */
    uint64_t library;        /* module that is a library's: that library */
    pthread_mutex_t lock;    /* protects gone, funcs and refs */
    bool gone;               /* unloaded: no further look-ups */
    struct vcu_func *funcs;  /* looked up so far */
    struct vcu_texref *refs; /* texture and surface references looked up so far */
};
/* Serialises the conversions library -> module and kernel -> function, which happen once each. */
extern pthread_mutex_t vcu_module_lock;
/* A record with a minted handle (module or library), which the caller enters or drops; NULL when
 * memory or handles are exhausted. */
struct vcu_code_record *vcu_code_record_new(enum vgp_handle_type type);
void vcu_code_record_drop(struct vcu_code_record *u);
/* With a reference; NULL: not live. */
struct vcu_code_record *vcu_code_record_find(uint64_t handle, enum vgp_handle_type type);
/* A module's unit, with a reference, and its context current where none is: a module knows its own. *borrowed is for
   vcu_context_return(), where this succeeded. */
CUresult vcu_module_enter(CUmodule hmod, struct vcu_code_record **u, bool *borrowed);
void vcu_code_record_put(struct vcu_code_record *u);
/* Drops its handle and those of all objects looked up in it, once; the caller has a reference or
 * excludes other users. */
void vcu_code_record_end(struct vcu_code_record *u);
/* A variable, initially NULL, whose reference is dropped at the end of its block. */
#define VCU_CODE_RECORD_HELD __attribute__((cleanup(vcu_code_record_let_go)))
void vcu_code_record_let_go(struct vcu_code_record **u);

/* The record in the handle table for a handle, with a reference in its atomic_uint at `users`
 * bytes; NULL: not live. */
void *vcu_record_find(uint64_t handle, enum vgp_handle_type type, size_t users);
/* Ends the handle if it is still live; true once per record: the table's reference passes to the
 * caller. */
bool vcu_record_end(uint64_t handle, atomic_bool *ended);

enum vcu_image_kind {
    VCU_IMAGE_PTX = 1,
    VCU_IMAGE_ELF = 2,
    VCU_IMAGE_FATBIN = 3,
    VCU_IMAGE_ARCHIVE = 4,
};
struct vcu_image {
    enum vcu_image_kind kind;
    const void *data; /* bytes to send: a wrapper is already followed to its fatbin */
    uint64_t size;    /* bytes */
    void *copy;       /* buffer behind data when the image had to be assembled; else NULL */
};
/*
 * Determines the type and length of the image at `code`. `limit` bounds the readable bytes, 0 =
 * unknown. Returns CUDA_SUCCESS, CUDA_ERROR_INVALID_IMAGE or CUDA_ERROR_INVALID_VALUE (NULL); *why
 * is then a static text that names the wrong part.
 */
CUresult vcu_image_measure(const void *code, uint64_t limit, struct vcu_image *image, const char **why);
/* Frees the buffer of vcu_image_measure(), if any. */
void vcu_image_done(struct vcu_image *image);
/* The whole of a regular file below 1 GiB with a NUL added, which *size counts; *text is the
   caller's to free. FILE_NOT_FOUND, INVALID_IMAGE, OPERATING_SYSTEM, OUT_OF_MEMORY. */
CUresult vcu_file_read(const char *call, const char *path, char **text, uint64_t *size);

/* vcu_texture_reference.c: ends the references of an ending context that belong to no module. */
void vcu_texrefs_forget(uint64_t context);

/* vcu_array_extent.c: bytes of an element and of a row, rows, and slices or layers. */
struct vcu_array_extent {
    uint32_t element;
    uint64_t row, height, depth;
};
/* Notes the extent of a new array of the current context. */
void vcu_array_note(CUarray array, const CUDA_ARRAY3D_DESCRIPTOR *d);
/* False: the array's extent is unknown, or it belongs to another context than ctx. */
bool vcu_array_extent(CUarray array, CUcontext ctx, struct vcu_array_extent *out);

/* A context takes its modules, libraries and functions with it, and its arrays. */
extern const struct vcu_unit_ops vcu_module_unit, vcu_array_unit;

/* CUfunction or CUkernel handle -> the record that describes it, with a reference; NULL when it is
 * not live. */
struct vcu_func *vcu_func_find(CUfunction f);
/* Same, and the context of the function: 0 for a kernel, which has none. */
struct vcu_func *vcu_func_find_in(CUfunction f, uint64_t *context);
/* Asks the worker whether the code of a live function or kernel is on the device, and with `load` puts it there. */
CUresult vcu_function_load(CUfunction function, bool load, CUfunctionLoadingState *state);
/* An attribute of it on a device: cached, or the worker's. */
CUresult vcu_function_attribute(struct vcu_func *f, int *value, CUfunction_attribute attribute, int device);
CUresult vcu_function_set_attribute(struct vcu_func *f, CUfunction_attribute attribute, int value,
                                    int device);
/* The handle's own record. */
struct vcu_func *vcu_func_get(uint64_t handle, enum vgp_handle_type type);
void vcu_func_put(struct vcu_func *f);
/* Drops its handle, once; the caller has a reference or excludes other users. */
void vcu_func_end(struct vcu_func *f);
#define VCU_FUNC_HELD __attribute__((cleanup(vcu_func_let_go)))
void vcu_func_let_go(struct vcu_func **f);

#include "launch.h"

/* ---- vcu_texture.c ---- */

/* Arrays without memory of their own are not offered (device attributes 112 and 130 are 0). */
CUresult vcu_array_check(const char *call, const void *out, const CUDA_ARRAY3D_DESCRIPTOR *d);
/* The documented result for an array that is neither sparse nor has deferred mapping. */
CUresult vcu_array_about(uint64_t handle, enum vgp_handle_type type);
CUresult vcu_array_requirements(uint64_t handle, enum vgp_handle_type type, CUdevice device);
/* A texture or surface object; desc and view are of textures only. */
CUresult vcu_texture_create(unsigned long long *number, bool surface, const CUDA_RESOURCE_DESC *res,
                            const CUDA_TEXTURE_DESC *desc, const CUDA_RESOURCE_VIEW_DESC *view);
CUresult vcu_texture_destroy(uint64_t number, bool surface);
/* What an object was made from, with the handles as the program knows them. */
struct vcu_texture_object {
    uint64_t number;
    bool surface, has_view;
    CUDA_RESOURCE_DESC res;
    CUDA_TEXTURE_DESC desc;
    CUDA_RESOURCE_VIEW_DESC view;
};
/* A copy of the record of an object, with a current context. */
CUresult vcu_texture_look(uint64_t number, bool surface, struct vcu_texture_object *out);

/* ---- vcu_tensor_map.c ---- */

/* What all forms of an encoder take; form: enum vgp_tensor_map. */
struct vcu_tensor_map {
    uint32_t form, type, rank, channels, pixels, interleave, mode, swizzle, promotion, fill;
    void *address;
    const cuuint64_t *dims, *strides;
    const cuuint32_t *box, *steps;
    const int *lower, *upper;
    uint32_t corners; /* elements of lower and upper */
};
CUresult vcu_tensor_map_encode(CUtensorMap *out, const struct vcu_tensor_map *m);
/* The bytes (*n of them) of the map for the same memory at another address. */
CUresult vcu_tensor_map_moved(const CUtensorMap *map, const void *address, uint8_t *bytes, uint32_t *n);

/* ---- vcu_texture_reference.c ---- */

/* A texture or surface reference. */
struct vcu_texref {
    struct vcu_texref *next; /* of the same module */
    atomic_uint users;       /* the handle table, calls */
    atomic_bool ended;       /* its handle has gone, and the table's reference with it */
    uint64_t handle;
    uint64_t context; /* owner of a reference without a module */
    bool surface;
    _Atomic uint64_t array, mipmap; /* the bound array, 0: another kind of memory or none */
    char name[];
};
/* With a reference; NULL: not live. */
struct vcu_texref *vcu_texref_find(uint64_t handle, enum vgp_handle_type type);
/* A variable, initially NULL, whose reference is dropped at the end of its block. */
#define VCU_TEXREF_HELD __attribute__((cleanup(vcu_texref_let_go)))
void vcu_texref_let_go(struct vcu_texref **t);
/* Drops its handle, once; the caller has a reference or excludes other users. */
void vcu_texref_end(struct vcu_texref *t);
/* Notes the array bound to it, 0: none. */
void vcu_texref_bind(struct vcu_texref *t, uint64_t array, uint64_t mipmap);
/* True for an address that the current device cannot bind without an offset. */
bool vcu_texture_unaligned(CUdeviceptr address);
/* The texture or surface reference of that name in a module; the worker is asked once. out: only checked. */
CUresult vcu_module_ref(void *out, CUmodule module, const char *name, bool surface, uint64_t *handle);

/* ---- vcu_launch.c, vcu_legacy_launch.c, vcu_occupancy.c ---- */

/* what: 0 active clusters, 1 size of a cluster. */
CUresult vcu_clusters_ask(const char *call, int *out, CUfunction func, const CUlaunchConfig *config,
                          uint32_t what);
/* A launch with the settings made by cuFuncSetBlockShape, cuParamSet* etc. */
CUresult vcu_launch_old(CUfunction hfunc, int width, int height, CUstream stream);
/* Blocks per multiprocessor, and the dynamic shared memory (bytes) that so many leave to each. */
CUresult vcu_occupancy_ask(int *blocks, CUfunction func, int threads, size_t shared, unsigned flags);
CUresult vcu_occupancy_shared(size_t *shared, CUfunction func, int blocks, int threads);

/* ---- vcu_limit.c: answers that the context keeps until it changes ---- */

CUresult vcu_limit_get(size_t *value, CUlimit limit);
CUresult vcu_limit_set(CUlimit limit, size_t value);
/* Either may be NULL. */
CUresult vcu_priority_range(int *least, int *greatest);

/* ---- vcu_lookup.c ---- */

/* Checks that the worker takes a name of this length; a longer name is not found. */
CUresult vcu_name_sent(const char *call, const char *name);
/* Returns an address and enters it in the table, so that copies recognise it as device memory. A
 * managed variable is managed for the program too, whichever call finds it. */
CUresult vcu_give_variable(const char *call, uint64_t owner, uint64_t dptr, uint64_t size,
                           CUdeviceptr *dptr_out, size_t *bytes_out);
CUresult vcu_module_variable(const char *call, CUmodule hmod, const char *name, uint64_t *at, uint64_t *size);
/* The number of functions of a module. */
CUresult vcu_module_count(CUmodule mod, uint32_t *count);

#endif
