/* SPDX-License-Identifier: MIT */
/* Handlers of modules, libraries, functions and kernels. */
#include "worker.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "vgp_worker.h"

/* Every section with bytes in the file, and the header tables, lie inside the image. */
static bool elf_ok(const uint8_t *p, uint64_t n)
{
    Elf64_Ehdr eh;
    Elf64_Shdr sh;
    Elf64_Phdr ph;

    if (n < sizeof(eh))
        return false;
    memcpy(&eh, p, sizeof(eh));
    if ((eh.e_shnum && eh.e_shentsize != sizeof(sh)) || (eh.e_phnum && eh.e_phentsize != sizeof(ph)) ||
        !vgp_range_ok(eh.e_shoff, (uint64_t)eh.e_shnum * sizeof(sh), n) ||
        !vgp_range_ok(eh.e_phoff, (uint64_t)eh.e_phnum * sizeof(ph), n))
        return false;
    for (unsigned i = 0; i < eh.e_shnum; i++) {
        memcpy(&sh, p + eh.e_shoff + i * sizeof(sh), sizeof(sh));
        if (sh.sh_type != SHT_NULL && sh.sh_type != SHT_NOBITS &&
            !vgp_range_ok(sh.sh_offset, sh.sh_size, n))
            return false;
    }
    for (unsigned i = 0; i < eh.e_phnum; i++) {
        memcpy(&ph, p + eh.e_phoff + i * sizeof(ph), sizeof(ph));
        if (!vgp_range_ok(ph.p_offset, ph.p_filesz, n))
            return false;
    }
    return true;
}

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u

/* The bytes of the fat binary at p, of which n were sent, with what it says; 0: it claims more. */
static uint64_t fatbin_size(const uint8_t *p, uint64_t n)
{
    uint16_t head;
    uint64_t body;

    if (n < 16)
        return 0;
    memcpy(&head, p + 6, sizeof(head));
    memcpy(&body, p + 8, sizeof(body));
    return head >= 16 && vgp_range_ok(head, body, n) ? head + body : 0;
}

/* Where the next one starts, behind the one at `at`; 0: there is none. */
static uint64_t fatbin_next(const uint8_t *p, uint64_t n, uint64_t at)
{
    uint64_t next = (at + fatbin_size(p + at, n - at) + 7) & ~7ull;
    uint32_t magic;

    if (next <= at || next >= n || n - next < 16)
        return 0;
    memcpy(&magic, p + next, sizeof(magic));
    return magic == FATBIN_MAGIC ? next : 0;
}

/*
 * The provider is not told how large the image is: what the image says of itself must fit. A fatbin
 * wrapper holds pointers, which must never come from a guest: libcuda has taken it off, and sends
 * the fat binaries of an image compiled with -rdc=true one after the other.
 */
static const char *image_wrong(const uint8_t *p, uint64_t n)
{
    uint32_t magic = 0;

    if (n < sizeof(magic))
        return n ? NULL : "the image is empty";
    memcpy(&magic, p, sizeof(magic));
    if (magic == WRAPPER_MAGIC)
        return "the image is a fat binary wrapper, which holds a pointer";
    if (magic == FATBIN_MAGIC) {
        uint64_t at = 0;

        do {
            if (!fatbin_size(p + at, n - at))
                return n < 16 ? "the fat binary is cut short"
                              : "the fat binary claims more than was sent";
            at = fatbin_next(p, n, at);
        } while (at);
    }
    if (!memcmp(&magic, ELFMAG, SELFMAG) && !elf_ok(p, n))
        return "the ELF image claims more than was sent";
    return NULL;
}

static bool image_refused(struct vgb_call *c, const void *image, uint64_t n)
{
    const char *wrong = image_wrong(image, n);

    if (wrong)
        vgb_notify_detail(c->w, wrong);
    return wrong != NULL;
}

/*
 * What the provider gets. Inline images are copied, with room behind: PTX is a string to the
 * provider. Several fat binaries get the wrapper that nvcc would have put around them.
 */
struct image {
    const void *data;
    void *copy;
};

struct wrapper {
    uint32_t magic, version;
    const void *data;
    const void **more; /* of the linked objects, ended by NULL */
};

static bool image_open(struct image *m, const void *data, uint64_t size, bool is_blob)
{
    const uint8_t *p = data;
    uint64_t objects = 0, at = 0, room = 0;
    uint32_t magic = 0;
    struct wrapper *w;

    m->data = data;
    m->copy = NULL;
    memcpy(&magic, data, size < sizeof(magic) ? size : sizeof(magic));
    while (magic == FATBIN_MAGIC && (at = fatbin_next(p, size, at)) != 0)
        objects++;
    if (is_blob && !objects)
        return true; /* vgb_blob_append() has put a NUL behind it */
    if (objects)
        room = sizeof(*w) + (objects + 1) * sizeof(void *);
    m->copy = calloc(1, room + (is_blob ? 0 : size + 64));
    if (!m->copy)
        return false;
    if (!is_blob) {
        memcpy((uint8_t *)m->copy + room, data, size);
        m->data = p = (uint8_t *)m->copy + room;
    }
    if (!objects)
        return true;
    w = m->copy;
    *w = (struct wrapper){WRAPPER_MAGIC, 2, p, (const void **)(w + 1)};
    at = 0;
    for (uint64_t i = 0; i < objects; i++) {
        at = fatbin_next(p, size, at);
        w->more[i] = p + at;
    }
    m->data = w;
    return true;
}

CUresult vgb_image_take(struct vgb_call *c, const void **image, uint64_t size, bool is_blob,
                        void **copy)
{
    struct image m;

    *copy = NULL;
    if (image_refused(c, *image, size))
        return CUDA_ERROR_INVALID_IMAGE;
    if (!image_open(&m, *image, size, is_blob))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *image = m.data;
    *copy = m.copy;
    return CUDA_SUCCESS;
}

#define LOGS 4
struct logs {
    CUjit_option option[LOGS];
    void *value[LOGS];
    char *info, *error;
};

static void logs_init(struct logs *l, char *info, size_t info_size, char *error, size_t error_size)
{
    l->info = info;
    l->error = error;
    info[0] = error[0] = 0;
    l->option[0] = CU_JIT_INFO_LOG_BUFFER;
    l->value[0] = info;
    l->option[1] = CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES;
    l->value[1] = (void *)(uintptr_t)(info_size - 1);
    l->option[2] = CU_JIT_ERROR_LOG_BUFFER;
    l->value[2] = error;
    l->option[3] = CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
    l->value[3] = (void *)(uintptr_t)(error_size - 1);
}

/* A parent remembered for a handle just put: it goes when the parent goes. */
static void set_parent(struct vgb_call *c, uint64_t handle, unsigned type, uint64_t parent)
{
    struct vgb_handle_entry *e = vgb_handles_find(&c->w->handles, handle, type);

    if (e)
        e->parent = parent;
}

struct children {
    struct vgb_worker *w;
    uint64_t parent;
    unsigned type;
};

static void drop_child(struct vgb_handle_entry *e, uint64_t handle, void *arg)
{
    struct children *k = arg;

    if (e->parent == k->parent)
        vgb_handles_remove(&k->w->handles, handle, k->type);
}

static void drop_children(struct vgb_worker *w, uint64_t parent)
{
    static const unsigned types[] = {VGP_H_FUNCTION, VGP_H_KERNEL, VGP_H_TEXTURE, VGP_H_SURFACE};

    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct children k = {.w = w, .parent = parent, .type = types[i]};

        vgb_handles_each(&w->handles, types[i], drop_child, &k);
    }
}

CUresult vgb_module_count(struct vgb_call *c, CUmodule module)
{
    /* Nothing more is taken, but what the module's variables took must be covered. */
    if (vgb_quota_take(c->w, 0))
        return CUDA_SUCCESS;
    vgb_notify_detail(c->w, "the module's variables exceed the quota of device memory");
    if (vgb_provider.cuModuleUnload)
        vgb_provider.cuModuleUnload(module);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult vgb_do_vgpModuleLoad(struct vgb_call *c, const struct vgp_args_vgpModuleLoad *a,
                              const void *image, struct vgp_ret_vgpModuleLoad *r,
                              struct vgp_outs_vgpModuleLoad *o)
{
    CUmodule module = NULL;
    struct image m;
    struct logs l;
    CUresult e = vgb_handle_reserve(c, a->module, VGP_H_MODULE);

    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuModuleLoadData || !vgb_provider.cuModuleLoadDataEx)
        return vgb_missing(c, "cuModuleLoadDataEx");
    if (image_refused(c, image, a->image_size))
        return CUDA_ERROR_INVALID_IMAGE;
    if (!image_open(&m, image, a->image_size, a->image_blob != 0))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (a->wantLogs) {
        logs_init(&l, o->infoLog, sizeof(o->infoLog), o->errorLog, sizeof(o->errorLog));
        e = vgb_provider.cuModuleLoadDataEx(&module, m.data, LOGS, l.option, l.value);
        o->infoLog[sizeof(o->infoLog) - 1] = o->errorLog[sizeof(o->errorLog) - 1] = 0;
        r->infoLog_len = (uint32_t)strlen(o->infoLog) + 1;
        r->errorLog_len = (uint32_t)strlen(o->errorLog) + 1;
    } else {
        e = vgb_provider.cuModuleLoadData(&module, m.data);
    }
    free(m.copy);
    if (e == CUDA_SUCCESS)
        e = vgb_module_count(c, module);
    if (e == CUDA_SUCCESS)
        vgb_handle_put(c, a->module, VGP_H_MODULE, module);
    return e;
}

CUresult vgb_do_vgpLibraryLoad(struct vgb_call *c, const struct vgp_args_vgpLibraryLoad *a,
                               const void *image, struct vgp_ret_vgpLibraryLoad *r,
                               struct vgp_outs_vgpLibraryLoad *o)
{
    CUlibrary library = NULL;
    struct image m;
    struct logs l;
    CUresult e = vgb_handle_reserve(c, a->library, VGP_H_LIBRARY);

    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuLibraryLoadData)
        return vgb_missing(c, "cuLibraryLoadData");
    if (image_refused(c, image, a->image_size))
        return CUDA_ERROR_INVALID_IMAGE;
    if (!image_open(&m, image, a->image_size, a->image_blob != 0))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (a->wantLogs) {
        logs_init(&l, o->infoLog, sizeof(o->infoLog), o->errorLog, sizeof(o->errorLog));
        e = vgb_provider.cuLibraryLoadData(&library, m.data, l.option, l.value, LOGS, NULL, NULL,
                                           0);
        o->infoLog[sizeof(o->infoLog) - 1] = o->errorLog[sizeof(o->errorLog) - 1] = 0;
        r->infoLog_len = (uint32_t)strlen(o->infoLog) + 1;
        r->errorLog_len = (uint32_t)strlen(o->errorLog) + 1;
    } else {
        e = vgb_provider.cuLibraryLoadData(&library, m.data, NULL, NULL, 0, NULL, NULL, 0);
    }
    /* A library may be compiled when it is first used: a provider keeps what it needs of the image
     * (CUDA: the caller may free it unless CU_LIBRARY_BINARY_IS_PRESERVED is given). */
    free(m.copy);
    if (e == CUDA_SUCCESS)
        vgb_handle_put(c, a->library, VGP_H_LIBRARY, library);
    return e;
}

static CUresult finish_module(struct vgb_worker *w, struct vgb_wait *wait, CUresult r)
{
    CUresult f = vgb_provider.cuModuleUnload((CUmodule)(uintptr_t)wait->arg[0]);

    (void)w;
    return r != CUDA_SUCCESS ? r : f;
}

static CUresult finish_library(struct vgb_worker *w, struct vgb_wait *wait, CUresult r)
{
    CUresult f = vgb_provider.cuLibraryUnload((CUlibrary)(uintptr_t)wait->arg[0]);

    (void)w;
    return r != CUDA_SUCCESS ? r : f;
}

CUresult vgb_do_cuModuleUnload(struct vgb_call *c, const struct vgp_args_cuModuleUnload *a)
{
    struct vgb_wait *wait;
    CUmodule module;
    CUresult r = vgb_handle_get(c, a->hmod, VGP_H_MODULE, false, (void **)&module);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuModuleUnload)
        return vgb_missing(c, "cuModuleUnload");
    wait = vgb_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    drop_children(c->w, a->hmod);
    vgb_handle_drop(c, a->hmod, VGP_H_MODULE);
    wait->finish = finish_module;
    wait->arg[0] = (uintptr_t)module;
    vgb_wait_add_context(c, wait);
    return vgb_wait_start(c, wait);
}

CUresult vgb_do_cuLibraryUnload(struct vgb_call *c, const struct vgp_args_cuLibraryUnload *a)
{
    struct vgb_wait *wait;
    CUlibrary library;
    CUresult r = vgb_handle_get(c, a->library, VGP_H_LIBRARY, false, (void **)&library);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuLibraryUnload)
        return vgb_missing(c, "cuLibraryUnload");
    wait = vgb_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    drop_children(c->w, a->library);
    vgb_handle_drop(c, a->library, VGP_H_LIBRARY);
    wait->finish = finish_library;
    wait->arg[0] = (uintptr_t)library;
    if (c->rec->context)
        vgb_wait_add_context(c, wait);
    return vgb_wait_start(c, wait);
}

/* Parameter i -> offset << 16 | size, as long as the provider has one more. */
static uint32_t param_layout(uint32_t *layout, uint32_t room, CUfunction f, CUkernel k)
{
    uint32_t n = 0;

    for (; n < room; n++) {
        size_t offset = 0, size = 0;
        CUresult r = k ? vgb_provider.cuKernelGetParamInfo(k, n, &offset, &size)
                       : vgb_provider.cuFuncGetParamInfo(f, n, &offset, &size);

        if (r != CUDA_SUCCESS || offset > 0xffff || size > 0xffff)
            break;
        layout[n] = (uint32_t)offset << 16 | (uint32_t)size;
    }
    return n;
}

CUresult vgb_do_vgpModuleGetFunction(struct vgb_call *c,
                                     const struct vgp_args_vgpModuleGetFunction *a,
                                     const char *name, struct vgp_ret_vgpModuleGetFunction *r,
                                     struct vgp_outs_vgpModuleGetFunction *o)
{
    CUfunction f = NULL;
    CUmodule module;
    CUresult e = vgb_handle_get(c, a->module, VGP_H_MODULE, false, (void **)&module);

    if (e == CUDA_SUCCESS)
        e = vgb_handle_reserve(c, a->function, VGP_H_FUNCTION);
    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuModuleGetFunction || !vgb_provider.cuFuncGetParamInfo ||
        !vgb_provider.cuFuncGetAttribute)
        return vgb_missing(c, "cuFuncGetParamInfo");
    e = vgb_provider.cuModuleGetFunction(&f, module, name);
    if (e != CUDA_SUCCESS)
        return e;
    for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX && i < 32; i++) {
        vgb_provider.cuFuncGetAttribute(&o->attributes[i], (CUfunction_attribute)i, f);
        r->attributes_len = (uint32_t)i + 1;
    }
    r->paramLayout_len = param_layout(o->paramLayout, 900, f, NULL);
    vgb_handle_put(c, a->function, VGP_H_FUNCTION, f);
    set_parent(c, a->function, VGP_H_FUNCTION, a->module);
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpModuleGetTexRef(struct vgb_call *c, const struct vgp_args_vgpModuleGetTexRef *a,
                                   const char *name)
{
    CUtexref ref = NULL;
    CUmodule module;
    CUresult e = vgb_handle_get(c, a->module, VGP_H_MODULE, false, (void **)&module);

    if (e == CUDA_SUCCESS)
        e = vgb_handle_reserve(c, a->ref, VGP_H_TEXTURE);
    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuModuleGetTexRef)
        return vgb_missing(c, "cuModuleGetTexRef");
    e = vgb_provider.cuModuleGetTexRef(&ref, module, name);
    if (e != CUDA_SUCCESS)
        return e;
    vgb_handle_put(c, a->ref, VGP_H_TEXTURE, ref);
    set_parent(c, a->ref, VGP_H_TEXTURE, a->module);
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpModuleGetSurfRef(struct vgb_call *c,
                                    const struct vgp_args_vgpModuleGetSurfRef *a, const char *name)
{
    CUsurfref ref = NULL;
    CUmodule module;
    CUresult e = vgb_handle_get(c, a->module, VGP_H_MODULE, false, (void **)&module);

    if (e == CUDA_SUCCESS)
        e = vgb_handle_reserve(c, a->ref, VGP_H_SURFACE);
    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuModuleGetSurfRef)
        return vgb_missing(c, "cuModuleGetSurfRef");
    e = vgb_provider.cuModuleGetSurfRef(&ref, module, name);
    if (e != CUDA_SUCCESS)
        return e;
    vgb_handle_put(c, a->ref, VGP_H_SURFACE, ref);
    set_parent(c, a->ref, VGP_H_SURFACE, a->module);
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpLibraryGetKernel(struct vgb_call *c,
                                    const struct vgp_args_vgpLibraryGetKernel *a, const char *name,
                                    struct vgp_ret_vgpLibraryGetKernel *r,
                                    struct vgp_outs_vgpLibraryGetKernel *o)
{
    CUkernel k = NULL;
    CUlibrary library;
    CUresult e = vgb_handle_get(c, a->library, VGP_H_LIBRARY, false, (void **)&library);

    if (e == CUDA_SUCCESS)
        e = vgb_handle_reserve(c, a->kernel, VGP_H_KERNEL);
    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuLibraryGetKernel || !vgb_provider.cuKernelGetParamInfo ||
        !vgb_provider.cuKernelGetAttribute)
        return vgb_missing(c, "cuKernelGetParamInfo");
    e = vgb_provider.cuLibraryGetKernel(&k, library, name);
    if (e != CUDA_SUCCESS)
        return e;
    for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX && i < 32; i++) {
        vgb_provider.cuKernelGetAttribute(&o->attributes[i], (CUfunction_attribute)i, k, a->device);
        r->attributes_len = (uint32_t)i + 1;
    }
    r->paramLayout_len = param_layout(o->paramLayout, 900, NULL, k);
    vgb_handle_put(c, a->kernel, VGP_H_KERNEL, k);
    set_parent(c, a->kernel, VGP_H_KERNEL, a->library);
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpKernelGetFunction(struct vgb_call *c,
                                     const struct vgp_args_vgpKernelGetFunction *a)
{
    CUfunction f = NULL;
    CUkernel k;
    CUresult e = vgb_handle_get(c, a->kernel, VGP_H_KERNEL, false, (void **)&k);

    if (e == CUDA_SUCCESS)
        e = vgb_handle_reserve(c, a->function, VGP_H_FUNCTION);
    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuKernelGetFunction)
        return vgb_missing(c, "cuKernelGetFunction");
    uint64_t library = vgb_handles_find(&c->w->handles, a->kernel, VGP_H_KERNEL)->parent;
    e = vgb_provider.cuKernelGetFunction(&f, k);
    if (e != CUDA_SUCCESS)
        return e;
    vgb_handle_put(c, a->function, VGP_H_FUNCTION, f);
    set_parent(c, a->function, VGP_H_FUNCTION, library);
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpLibraryGetModule(struct vgb_call *c,
                                    const struct vgp_args_vgpLibraryGetModule *a)
{
    CUmodule module = NULL;
    CUlibrary library;
    CUresult e = vgb_handle_get(c, a->library, VGP_H_LIBRARY, false, (void **)&library);

    if (e == CUDA_SUCCESS)
        e = vgb_handle_reserve(c, a->module, VGP_H_MODULE);
    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuLibraryGetModule)
        return vgb_missing(c, "cuLibraryGetModule");
    e = vgb_provider.cuLibraryGetModule(&module, library);
    if (e == CUDA_SUCCESS)
        vgb_handle_put(c, a->module, VGP_H_MODULE, module);
    return e;
}
