/* SPDX-License-Identifier: MIT */
/*
 * Foundations of the driver-API half: options, log, handles and device attributes.
 *
 * __CUDA_API_VERSION_INTERNAL makes cuda.h declare every version of every entry point under its
 * exported name (cuMemAlloc_v2, cuMemcpy_ptds, ...), so the compiler checks our definitions against
 * NVIDIA's own prototypes.
 */
#ifndef SG_BASE_H
#define SG_BASE_H

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How an object holds a structure that a pointer member refers to; scripts/lint_holds.py refuses
 * members without a marker.
 * COUNTED   a reference (or a place among holders), which the object returns when it lets go
 * OWNED     held by nothing else: it ends with the object
 * LISTED    no reference: an element removes itself from the list before it ends
 * LENT      no reference: a containing object, a call or a lock keeps it alive for longer
 */
#define SG_COUNTED
#define SG_OWNED
#define SG_LISTED
#define SG_LENT

#define SG_DEVICE_NAME "vgpu-cuda software GPU (PTX on CPU)"

/* ---- configuration (base/sg_config.c): read once from the environment by cuInit ---- */

#define SG_MAX_DEVICES 8

struct sg_config {
    /* number of devices, 1 to SG_MAX_DEVICES; they differ only in compute capability */
    unsigned ndevices;
    struct {
        int major, minor;
    } cc[SG_MAX_DEVICES];
    int library_cc;    /* value of SG_ATTR_LIBRARY_CC, 10 * major + minor; 0: none */
    uint64_t memory;   /* memory of each device, bytes */
    unsigned threads;  /* number of executing threads, also reported as multiprocessors; >= 1 */
    uint64_t watchdog; /* warp instructions allowed per launch; 0: no limit */
    bool relaxed;      /* the result of floating-point atomics may depend on block order */
    bool poison;       /* new device memory is filled with 0xCD instead of zero */
};
extern struct sg_config sg_config;

/* Reads VGPU_SOFT_*. Returns false, after a line on stderr, if a value is invalid. */
bool sg_config_load(void);
/* The lowest VGPU_SOFT_CC profile that runs PTX for that target (10 * major + minor), or NULL. */
const char *sg_config_profile(unsigned target);

/* ---- log and refusal details (base/sg_log.c) ---- */

/* Opens the log named by VGPU_SOFT_LOG; logging before that, or without it, is dropped. */
void sg_log_open(void);
bool sg_log_enabled(void);
void sg_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Records the line for sg_last_error_detail(), logs it, and returns r. */
CUresult sg_fail(CUresult r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sg_detail_clear(void); /* called at the start of each API call */
/* Records and logs why a kernel ended abnormally. */
void sg_device_fail(const char *text);
/* Exported: sets the destination of device printf; fn NULL: standard output. */
void sg_set_print_sink(void (*fn)(void *ctx, const char *text, size_t len), void *ctx);
void sg_print(void *unused, const char *text, size_t len);
/* Exported: sets the destination of failed device asserts; fn NULL: standard error. */
void sg_set_error_sink(void (*fn)(void *ctx, const char *text, size_t len), void *ctx);
void sg_print_error(void *unused, const char *text, size_t len);
/*
 * The last sg_fail() message of this thread since sg_detail_clear(). If there is none and device is
 * true: the last sg_device_fail() message of any thread. Never NULL; valid until this thread's next
 * call.
 */
const char *sg_detail(bool device);

/* Reads a whole file of *size bytes and appends a NUL. The buffer is malloc'd. Errors: 301 or 2. */
CUresult sg_file_read(const char *path, void **out, size_t *size);

/* ---- handles (base/sg_handle.c) ---- */

enum sg_type {
    SG_T_CTX = 1,
    SG_T_STREAM,
    SG_T_EVENT,
    SG_T_MODULE,
    SG_T_FUNC,
    SG_T_LIB,
    SG_T_KERN,
    SG_T_POOL,
    SG_T_LINK,
    SG_T_PHYS,
    SG_T_GRAPH,
    SG_T_NODE,
    SG_T_GRAPH_EXEC,
    SG_T_UOBJ,
    SG_T_ARRAY,
    SG_T_MIPMAP,
    SG_T_TEXOBJ,
    SG_T_SURFOBJ,
    SG_T_TEXREF,
    SG_T_SURFREF,
    SG_T_COND,
    SG_T_GREEN,
    SG_T_RDESC,
    SG_T_COUNT,
};

struct sg_ctx;

/*
 * Head of each object that has a CUDA handle. A handle is a number that is looked up, never an
 * address that is dereferenced: a stale, foreign or invented handle is not found.
 */
struct sg_obj {
    _Atomic uint32_t refs;
    uint32_t type;
    uint64_t handle; /* 0: not registered, or no longer */
    /* context whose end removes the handle, or NULL; may be stale: compare only */
    const void *owner;
    void (*destroy)(struct sg_obj *obj); /* called when the last reference is dropped */
    /* object that contains this one, or NULL; references are counted on the whole */
    struct sg_obj *whole;
};

/* Initialises obj with one reference, which the caller owns. */
void sg_obj_init(struct sg_obj *obj, enum sg_type type, struct sg_ctx *owner,
                 void (*destroy)(struct sg_obj *));
/* Assigns a handle and takes a reference for the table. Returns false if out of memory. */
bool sg_obj_register(struct sg_obj *obj);
/* Removes the handle and drops the table's reference. Returns false if another thread already
   did. */
bool sg_obj_unregister(struct sg_obj *obj);
void sg_obj_get(struct sg_obj *obj);
/* For lists without references of their own: returns false if obj has no reference left and is
   ending. */
bool sg_obj_try_get(struct sg_obj *obj);
void sg_obj_put(struct sg_obj *obj); /* obj may be NULL */
/* Destroys obj, to which no other reference exists. */
void sg_obj_end(struct sg_obj *obj);
/* Marks obj as living as long as the process, so sg_obj_count() skips it. Call once per object. */
void sg_obj_lasts(const struct sg_obj *obj);
/* Number of objects that still have a reference, by type. */
void sg_obj_count(int64_t n[SG_T_COUNT]);
/* The object of that type behind a handle, with a reference for the caller, or NULL. */
void *sg_lookup(uint64_t handle, enum sg_type type);
/* Unregisters every object owned by ctx, at the end of ctx. */
void sg_unregister_owned(struct sg_ctx *ctx);

#define SG_HANDLE(type_t, obj_ptr) ((type_t)(uintptr_t)(obj_ptr)->obj.handle)
#define SG_LOOKUP(h, type) sg_lookup((uint64_t)(uintptr_t)(h), type)
/* A local variable whose reference is dropped at the end of its scope. */
static inline void sg_obj_put_cleanup(void *pp)
{
    sg_obj_put(*(struct sg_obj **)pp); /* every object starts with its sg_obj */
}
#define SG_AUTO __attribute__((cleanup(sg_obj_put_cleanup)))

/* ---- device properties (base/sg_device.c) ---- */

/*
 * A private attribute, numbered above those of cuda.h: the capability (10 * major + minor) to
 * report to libraries that contain PTX only for GPUs they do not know (cuBLAS). Our guest
 * libcuda.so.1 queries it. Without such a capability the result is CUDA_ERROR_INVALID_VALUE, as
 * from any driver.
 */
#define SG_ATTR_LIBRARY_CC 0x76677001
/* Value for this device; 0 for an unknown attribute. */
int sg_attr(int device, CUdevice_attribute a);
int sg_cc(int device); /* 10 * major + minor */
/* The lowest device with the same capability; both share one translation of an image. */
int sg_same_cc(int device);

#define SG_CHECK_DEVICE(dev) \
    do { \
        if ((unsigned)(dev) >= sg_config.ndevices) \
            return CUDA_ERROR_INVALID_DEVICE; \
    } while (0)

/* True if cuda.h defines the location's type. */
static inline bool sg_location_ok(const CUmemLocation *l)
{
    return l->type > CU_MEM_LOCATION_TYPE_INVALID && l->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

#endif
