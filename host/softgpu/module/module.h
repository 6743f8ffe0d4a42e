/* SPDX-License-Identifier: MIT */
/* Modules, libraries and their functions; textures and surfaces as seen by kernels. */
#ifndef SG_MODULE_H
#define SG_MODULE_H

#include "image/image.h"
#include "lib/btree/btree.h"
#include "ptx/ptx.h"
#include "runtime/runtime.h"

/* ---- modules, functions (module/sg_module.c), libraries (module/sg_library.c) ---- */

/* Kernel attributes that a program may set. */
struct sg_func_settings {
    int max_dynamic; /* bytes of dynamic shared memory; -1: not set */
    int carveout;    /* percent, -1: default */
    int nonportable_cluster, cluster_policy;
    int cluster[3]; /* required cluster size set by the program; 0,0,0: not set */
};
#define SG_FUNC_INITIAL \
    { \
        -1, -1, 0, 0, \
        { \
            0, 0, 0 \
        } \
    }

struct sg_func {
    struct sg_obj obj;
    SG_COUNTED struct sg_mod *mod; /* a reference */
    SG_LENT struct sg_kernel *kernel;
    struct sg_kernel_info info;
    struct sg_func_settings set;
    _Atomic bool prepared;
    SG_OWNED struct cua_old_launch *old; /* api/code/sgd_legacy_launch.c; NULL until first used */
    SG_LISTED struct sg_func *next;      /* mod->funcs */
};

/* A loaded CUmodule, also the instance of a library in one context. */
struct sg_mod {
    struct sg_obj obj;
    SG_COUNTED struct sg_ctx *ctx; /* a reference */
    uint32_t ctx_id;               /* incarnation of ctx that the module belongs to */
    SG_COUNTED struct sg_lib *lib; /* a reference, or NULL */
    SG_OWNED struct sg_module *ptx;
    bool ptx_is_libs;  /* ptx is lib->meta; the library frees it */
    uint64_t *globals; /* device addresses, one per module-level variable */
    uint32_t nglobals;
    /* one per texture, surface and sampler variable; a reference each */
    SG_COUNTED struct sg_texref **texrefs;
    uint32_t ntexrefs;
    uint32_t const_bytes;
    /* guards funcs, by_kernel, unloaded, and the entries of globals and texrefs */
    pthread_mutex_t lock;
    bool unloaded; /* no new functions are created */
    /* functions that have references; each removes itself when it ends */
    SG_LISTED struct sg_func *funcs;
    struct btr_tree by_kernel; /* the latest of them for each kernel, by the kernel's address */
};

struct sg_lib_inst {
    SG_OWNED struct sg_lib_inst *next;
    SG_COUNTED struct sg_mod *mod; /* a reference */
};

struct sg_kern {
    struct sg_obj obj;
    SG_COUNTED struct sg_lib *lib;    /* a reference; lib_unload() breaks the cycle */
    SG_LENT struct sg_kernel *kernel; /* a kernel of lib->meta */
    struct sg_kernel_info info;       /* name NULL: not computed yet; guarded by lib->lock */
    struct sg_func_settings set;
    SG_COUNTED struct sg_func *cached; /* the function used last, a reference */
};

struct sg_lib {
    struct sg_obj obj;
    /* Image to run on each capability, indexed by sg_same_cc(); kept for parsing it again in
       further contexts. */
    struct sg_image image[SG_MAX_DEVICES];
    /* parsed for device 0; also run by the first context that can use it */
    SG_OWNED struct sg_module *meta;
    bool meta_taken;
    bool unloaded;        /* no new instances; its kernels create no new functions */
    pthread_mutex_t lock; /* guards insts, both flags, and `set` and `cached` of each kernel */
    SG_OWNED struct sg_lib_inst *insts;
    /* one per kernel, a reference each; constant after loading */
    SG_COUNTED struct sg_kern **kerns;
    uint32_t nkerns;
};

/* Supported JIT options of cuModuleLoadDataEx and similar calls. */
struct sg_jit {
    char *error_log, *info_log;
    size_t error_size, info_size;
    void **error_size_out, **info_size_out; /* receive the number of bytes written */
    void **wall_time;
    uint32_t max_registers; /* upper limit for the reported registers of its kernels; 0: none */
};
CUresult sg_jit_parse(unsigned n, CUjit_option *opts, void **values, struct sg_jit *out);
void sg_jit_error(struct sg_jit *jit, const char *text);
void sg_jit_done(struct sg_jit *jit);

/* Parses the image for ctx; allocates and initialises its variables. incarnation: the id of ctx when
   the call began; 709 if that has ended. ptx: the parsed image, or NULL. */
CUresult sg_mod_new(struct sg_ctx *ctx, uint32_t incarnation, const struct sg_image *img,
                    struct sg_module *ptx, struct sg_lib *lib, struct sg_jit *jit, struct sg_mod **out);
/* Parses the PTX or the cubin's metadata. part: other images of a link may define what this one only
 * declares. */
CUresult sg_ptx_parse(const struct sg_image *img, bool part, struct sg_jit *jit, struct sg_module **out);
/* See vgp_provider_ext.h. */
void sg_set_room(bool (*fn)(void *arg, uint64_t bytes), void *arg);
/* Removes handles and variables; waits for running kernels. */
void sg_mod_unload(struct sg_mod *mod);
/* The function of a kernel of mod, created at first use; with a reference. */
CUresult sg_mod_func(struct sg_mod *mod, struct sg_kernel *k, struct sg_func **out);
CUresult sg_mod_global(struct sg_mod *mod, const char *name, bool managed_only, CUdeviceptr *dptr,
                       size_t *bytes);
/* The library's module in a context, loaded at first use; with a reference. */
CUresult sg_lib_module(struct sg_lib *lib, struct sg_ctx *ctx, struct sg_mod **out);
/* Creates and registers a library, with a reference; jit receives the log. */
CUresult sg_lib_new(const void *code, struct sg_jit *jit, struct sg_lib **out);
/* Removes the handles, and the modules in all contexts. */
void sg_lib_unload(struct sg_lib *lib);
/* Attributes of a kernel, computed at first use; _locked: the caller holds its library's lock. */
const struct sg_kernel_info *sg_kern_info(struct sg_kern *k);
const struct sg_kernel_info *sg_kern_info_locked(struct sg_kern *k);
/* The function behind a CUfunction or CUkernel in ctx; with a reference. 400: neither. */
CUresult sg_func_get(struct sg_ctx *ctx, CUfunction h, struct sg_func **out);
CUresult sg_kern_func(struct sg_kern *k, struct sg_ctx *ctx, struct sg_func **out);
/* Decodes the function's body once; 218 or 801 with a detail line if it cannot run. */
CUresult sg_func_prepare(struct sg_func *f);
CUresult sg_func_attribute(const struct sg_kernel_info *info, const struct sg_func_settings *set,
                           uint32_t const_bytes, int attrib, int *pi);
CUresult sg_func_set_attribute(int device, const struct sg_kernel_info *info, struct sg_func_settings *set,
                               int attrib, int value);
/*
 * A library's kernel and its functions in all contexts have the same settings (CUDA: those of a kernel
 * are the device's). sg_func_adopt_settings(): for a new function of a module.
 */
CUresult sg_kern_set_attribute(struct sg_kern *k, int device, int attrib, int value);
CUresult sg_func_set_own_attribute(struct sg_func *f, int device, int attrib, int value);
void sg_func_adopt_settings(struct sg_func *f);
/* Maximum dynamic shared memory of a launch, bytes. */
int sg_func_max_dynamic(const struct sg_kernel_info *info, const struct sg_func_settings *set);

/* ---- texture and surface objects (module/sg_texture_object.c), references (module/sg_texture_reference.c) ---- */

struct sg_texobj {
    struct sg_obj obj;             /* SG_T_TEXOBJ or SG_T_SURFOBJ */
    SG_COUNTED struct sg_ctx *ctx; /* a reference */
    CUDA_RESOURCE_DESC res;
    CUDA_TEXTURE_DESC desc;
    CUDA_RESOURCE_VIEW_DESC view;
    bool has_view;
    _Atomic bool dying; /* destroyed; queued launches may still look it up */
    /* list memory for destroyed objects (api/code/sgd_texture_object.c); freed with the object */
    _Atomic(void *) retired;
    SG_COUNTED struct sg_array *array;   /* a reference, or NULL */
    SG_COUNTED struct sg_mipmap *mipmap; /* a reference, or NULL */
    struct sg_texture t;
};
/* Creates an object without registering it. view may be NULL. 1, 801, 2. */
CUresult sg_texobj_new(struct sg_ctx *ctx, const CUDA_RESOURCE_DESC *res, const CUDA_TEXTURE_DESC *desc,
                       const CUDA_RESOURCE_VIEW_DESC *view, struct sg_texobj **out);
CUresult sg_surfobj_new(struct sg_ctx *ctx, const CUDA_RESOURCE_DESC *res, struct sg_texobj **out);

/* A texture or surface reference: a module's .texref or .surfref, or made by cuTexRefCreate. */
struct sg_texref {
    struct sg_obj obj;             /* SG_T_TEXREF or SG_T_SURFREF */
    SG_COUNTED struct sg_ctx *ctx; /* a reference */
    bool of_module;                /* constant; false: made by cuTexRefCreate */
    pthread_mutex_t lock;          /* guards the fields below */
    bool bound, sampler;           /* sampler: only desc is used, nothing can be bound */
    CUDA_RESOURCE_DESC res;
    CUDA_TEXTURE_DESC desc;
    CUarray_format format; /* set by cuTexRefSetFormat; for linear memory */
    unsigned channels;
    CUdeviceptr address; /* as passed to cuTexRefSetAddress */
};
/* Creates an object that is only a sampler: fetching through it is impossible. */
CUresult sg_sampler_new(struct sg_ctx *ctx, const CUDA_TEXTURE_DESC *desc, struct sg_texobj **out);
/* registered, with a reference */
struct sg_texref *sg_texref_new(struct sg_ctx *ctx, bool surface);
/* The texture for a kernel launched now, with a reference; 1: nothing is bound. */
CUresult sg_texref_object(struct sg_texref *t, struct sg_texobj **out);
/* The handle of a module's variable; 500: not found. */
CUresult sg_mod_texref(struct sg_mod *mod, const char *name, bool surface, uint64_t *handle);

/* Textures looked up by a launch; valid until the launch has ended. */
struct sg_texset {
    SG_LENT struct sg_ctx *ctx;
    pthread_mutex_t lock; /* guards the lists */
    SG_OWNED struct sg_texpin *pins[64];
};
void sg_texset_init(struct sg_texset *s, struct sg_ctx *ctx);
const struct sg_texture *sg_texset_get(void *texset, uint64_t handle, bool surface);
void sg_texset_clear(struct sg_texset *s);

/* Resident blocks of a function per multiprocessor; 0: not even one fits. */
int sg_occupancy(const struct sg_func *f, int block, size_t dynamic);
/* The same, ignoring shared memory. */
int sg_occupancy_threads(const struct sg_func *f, int block);
/* Reads a CLUSTER_DIMENSION attribute: 0,0,0 means not specified; 912: only some dimensions are
   0. */
CUresult sg_cluster_dimension(unsigned x, unsigned y, unsigned z, unsigned out[3]);
/* Maximum number of blocks in a cluster for this device and function; 0: no clusters. */
unsigned sg_cluster_limit(const struct sg_func *f);
#define SG_SHARED_UNIT 128 /* allocation granularity of shared memory, bytes */

/* ---- launches (module/sg_launch.c) ---- */

/* Parameters common to all forms of launch. */
struct sg_launch_request {
    CUfunction f;
    unsigned grid[3], block[3], dynamic;
    CUstream stream;
    bool cooperative;
    void **params, **extra;
    unsigned cluster[3];                /* blocks per cluster; 0,0,0: not specified */
    bool preferred;                     /* a preferred cluster dimension came with it */
    const CUaccessPolicyWindow *window; /* NULL: none */
};
/* Makes all checks that can be made at the call; then creates the operation. green: the green
   context whose multiprocessors it uses, or NULL. */
CUresult sg_launch_build(struct sg_ctx *ctx, struct sg_ctx *green, const struct sg_launch_request *q,
                         struct sg_op **out);
/* Attributes of a kernel node that its operation stores: cooperative, cluster. */
struct sg_launch_attributes {
    bool cooperative;
    unsigned cluster[3]; /* 0,0,0: not specified */
};
/* Creates the operation of a kernel node and stores the attributes a in it; a may be NULL. */
CUresult sg_launch_op(struct sg_ctx *ctx, const CUDA_KERNEL_NODE_PARAMS *p,
                      const struct sg_launch_attributes *a, struct sg_op **out);
bool sg_launch_nests(struct sg_op *op); /* true if its kernel launches kernels */
struct sg_ctx *sg_launch_ctx(struct sg_op *op);
CUresult sg_launch_describe(struct sg_op *op, CUDA_KERNEL_NODE_PARAMS *p, void ***storage);
void sg_launch_get_attributes(struct sg_op *op, struct sg_launch_attributes *a);
/* Copies a kernel's operation with other attributes. */
CUresult sg_launch_again(struct sg_op *op, const struct sg_launch_attributes *a, struct sg_op **out);

#endif
