/* SPDX-License-Identifier: MIT */
/* Modules and their functions: lifetime, variables, JIT options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module/module.h"

/* ---- JIT options ---- */

CUresult sg_jit_parse(unsigned n, CUjit_option *opts, void **values, struct sg_jit *out)
{
    memset(out, 0, sizeof(*out));
    if (n && (!opts || !values))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        switch (opts[i]) {
        case CU_JIT_WALL_TIME:
            out->wall_time = &values[i];
            break;
        case CU_JIT_MAX_REGISTERS:
            out->max_registers = (uint32_t)(uintptr_t)values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER:
            out->info_log = values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            out->info_size = (uint32_t)(uintptr_t)values[i];
            out->info_size_out = &values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER:
            out->error_log = values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            out->error_size = (uint32_t)(uintptr_t)values[i];
            out->error_size_out = &values[i];
            break;
        /* the remaining options select code generation, which does not apply to an interpreter */
        default:
            if ((unsigned)opts[i] >= CU_JIT_NUM_OPTIONS)
                return CUDA_ERROR_INVALID_VALUE;
            break;
        }
    }
    return CUDA_SUCCESS;
}

void sg_jit_error(struct sg_jit *jit, const char *text)
{
    if (!jit || !jit->error_log || !jit->error_size)
        return;
    int n = snprintf(jit->error_log, jit->error_size, "%s", text);
    size_t written = n < 0 ? 0 : (size_t)n;

    if (written >= jit->error_size)
        written = jit->error_size - 1;
    if (jit->error_size_out)
        *jit->error_size_out = (void *)(uintptr_t)written;
    jit->error_size_out = NULL; /* sg_jit_done() leaves it */
}

void sg_jit_done(struct sg_jit *jit)
{
    if (jit->error_log && jit->error_size && jit->error_size_out) {
        jit->error_log[0] = '\0';
        *jit->error_size_out = NULL;
    }
    if (jit->info_log && jit->info_size) {
        jit->info_log[0] = '\0';
        if (jit->info_size_out)
            *jit->info_size_out = NULL;
    }
    if (jit->wall_time) {
        float ms = 0.0f; /* bodies are translated at first use, not here */

        memcpy(jit->wall_time, &ms, sizeof(ms));
    }
}

/* ---- loading ---- */

/* An error in a body is reported where a compiler would report it: in the call that loads or
   links the text. Large PTX from a container was compiled by nvcc, which has found its errors:
   such bodies are translated when a kernel is first used (some 15 MB/s; libraries have a hundred
   MB). */
#define SG_EAGER_BYTES (256u << 10)

static bool bodies_can_wait(const struct sg_image *img)
{
    return img->target != 0 && img->len > SG_EAGER_BYTES;
}

static CUresult parse_image(const struct sg_image *img, bool part, struct sg_module **out,
                            struct sg_diag *diag)
{
    struct sg_diag later;
    CUresult r = (CUresult)(img->is_elf ? sg_sass_parse(img->text, img->len, img->has, out, diag)
                                        : sg_module_parse(img->text, img->len, out, diag));

    if (img->is_elf && r == CUDA_SUCCESS)
        sg_log("image has no PTX, which is all that this device runs; it has: %s. Its kernels can "
               "be looked at, not launched",
               img->has);
    if (img->is_elf || r != CUDA_SUCCESS || bodies_can_wait(img))
        return r;
    for (uint32_t i = 0; i < sg_module_kernel_count(*out); i++) {
        r = (CUresult)sg_kernel_prepare(sg_module_kernel(*out, i), &later);
        /* A missing instruction is not a fault of the image: the launch reports it. The message
           starts with the instruction. A missing function is one of a text. A container may have
           the PTX of an object beside machine code that was linked. */
        if (r == CUDA_ERROR_INVALID_PTX || (r == CUDA_ERROR_NOT_SUPPORTED &&
                                            (!sg_is_opcode(later.message) ||
                                             (!img->target && !part && strstr(later.message, SG_NO_BODY))))) {
            *diag = later;
            sg_module_free(*out);
            *out = NULL;
            return CUDA_ERROR_INVALID_PTX;
        }
    }
    return CUDA_SUCCESS;
}

CUresult sg_ptx_parse(const struct sg_image *img, bool part, struct sg_jit *jit, struct sg_module **out)
{
    struct sg_diag diag = {0};
    char text[SG_DIAG_MAX + 64];
    CUresult r = parse_image(img, part, out, &diag);

    if (r == CUDA_SUCCESS)
        return r;
    if (img->is_elf)
        snprintf(text, sizeof(text), "%s", diag.message);
    else
        snprintf(text, sizeof(text), "PTX line %u, column %u: %s", diag.line, diag.column, diag.message);
    sg_jit_error(jit, text);
    return sg_fail(r, "%s", text);
}

/* Set before the first load: sg_set_room(). NULL: memory is granted always. */
static bool (*has_room)(void *arg, uint64_t bytes);
static void *room_arg;

void sg_set_room(bool (*fn)(void *arg, uint64_t bytes), void *arg)
{
    has_room = fn;
    room_arg = arg;
}

/* Each variable has an allocation of its own: place_globals(). */
static CUresult ask_for_room(const struct sg_mod *mod)
{
    struct sg_global_info g;
    uint64_t bytes = 0;

    for (uint32_t i = 0; has_room && i < sg_module_global_count(mod->ptx); i++) {
        sg_module_get_global(mod->ptx, i, &g);
        if (g.size > UINT64_MAX / 4 || bytes > UINT64_MAX / 4) /* their sum fits 64 bits */
            return sg_fail(CUDA_ERROR_OUT_OF_MEMORY, "the module's variables exceed any device memory");
        bytes += (g.size ? g.size + SG_ALIGN - 1 : SG_ALIGN) / SG_ALIGN * SG_ALIGN;
    }
    return !bytes || has_room(room_arg, bytes)
               ? CUDA_SUCCESS
               : sg_fail(CUDA_ERROR_OUT_OF_MEMORY,
                         "the module's variables need %llu bytes of device memory, more than is left",
                         (unsigned long long)bytes);
}

static CUresult place_globals(struct sg_mod *mod, struct sg_jit *jit)
{
    struct sg_global_info g;
    struct sg_diag diag = {0};
    uint32_t n = sg_module_global_count(mod->ptx);
    CUresult r;

    mod->globals = calloc(n ? n : 1, sizeof(*mod->globals));
    if (!mod->globals)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (; mod->nglobals < n; mod->nglobals++) {
        uint32_t i = mod->nglobals;

        sg_module_get_global(mod->ptx, i, &g);
        if (g.is_extern) {
            snprintf(diag.message, sizeof(diag.message), "variable %s is extern and not defined", g.name);
            sg_jit_error(jit, diag.message);
            return sg_fail(CUDA_ERROR_INVALID_PTX, "%s", diag.message);
        }
        r = sg_mem_alloc_internal(mod->ctx, mod->ctx_id, g.is_managed ? SG_MEM_MANAGED : SG_MEM_DEVICE,
                                  g.size ? g.size : 1, g.align, &mod->globals[i]);
        if (r != CUDA_SUCCESS)
            return r;
        if (g.is_const)
            mod->const_bytes += (uint32_t)g.size;
        sg_module_set_global_address(mod->ptx, i, mod->globals[i]);
    }
    r = (CUresult)sg_module_init_globals(mod->ptx, &diag);
    if (r != CUDA_SUCCESS) {
        sg_jit_error(jit, diag.message);
        return sg_fail(r, "PTX line %u: %s", diag.line, diag.message);
    }
    return CUDA_SUCCESS;
}

/* Each texture and surface variable is a reference; kernels see its handle. */
static CUresult place_sampler(struct sg_mod *mod, uint32_t i, struct sg_texref *t, struct sg_jit *jit)
{
    struct sg_sampler_init s;
    struct sg_diag diag = {0};
    CUresult r = (CUresult)sg_module_get_sampler(mod->ptx, i, &s, &diag);

    if (r != CUDA_SUCCESS) {
        sg_jit_error(jit, diag.message);
        return sg_fail(r, "PTX line %u: %s", diag.line, diag.message);
    }
    t->sampler = true;
    for (int k = 0; k < 3; k++)
        t->desc.addressMode[k] = (CUaddress_mode)s.address[k];
    t->desc.filterMode = s.linear ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT;
    t->desc.flags = s.unnormalized ? 0 : CU_TRSF_NORMALIZED_COORDINATES;
    return CUDA_SUCCESS;
}

static CUresult place_texrefs(struct sg_mod *mod, struct sg_jit *jit)
{
    CUresult r = CUDA_SUCCESS;
    uint32_t n = sg_module_opaque_count(mod->ptx);
    enum sg_opaque_kind kind;

    mod->texrefs = calloc(n ? n : 1, sizeof(*mod->texrefs));
    if (!mod->texrefs)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (; mod->ntexrefs < n && r == CUDA_SUCCESS; mod->ntexrefs++) {
        struct sg_texref **t = &mod->texrefs[mod->ntexrefs];

        sg_module_get_opaque(mod->ptx, mod->ntexrefs, &kind);
        *t = sg_texref_new(mod->ctx, kind == SG_OPAQUE_SURFREF);
        if (!*t)
            return CUDA_ERROR_OUT_OF_MEMORY;
        (*t)->of_module = true;
        sg_module_set_opaque_handle(mod->ptx, mod->ntexrefs, (*t)->obj.handle);
        if (kind == SG_OPAQUE_SAMPLERREF)
            r = place_sampler(mod, mod->ntexrefs, *t, jit);
    }
    return r;
}

/* Detaches the counted entries; from here on only the caller can reach them. */
static uint32_t take_all(struct sg_mod *mod, uint32_t *count)
{
    uint32_t n;

    pthread_mutex_lock(&mod->lock);
    n = *count;
    *count = 0;
    pthread_mutex_unlock(&mod->lock);
    return n;
}

static void release_texrefs(struct sg_mod *mod)
{
    const uint32_t n = take_all(mod, &mod->ntexrefs);

    for (uint32_t i = 0; i < n; i++) {
        sg_obj_unregister(&mod->texrefs[i]->obj);
        sg_obj_put(&mod->texrefs[i]->obj);
    }
}

CUresult sg_mod_texref(struct sg_mod *mod, const char *name, bool surface, uint64_t *handle)
{
    CUresult r = CUDA_ERROR_NOT_FOUND;
    enum sg_opaque_kind kind;

    pthread_mutex_lock(&mod->lock);
    for (uint32_t i = 0; i < mod->ntexrefs && r != CUDA_SUCCESS; i++) {
        if (strcmp(sg_module_get_opaque(mod->ptx, i, &kind), name) ||
            kind != (surface ? SG_OPAQUE_SURFREF : SG_OPAQUE_TEXREF))
            continue;
        *handle = mod->texrefs[i]->obj.handle;
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&mod->lock);
    return r;
}

/* False: the context has ended, and with it all that was registered in it before. */
static bool is_current(const struct sg_mod *mod)
{
    return atomic_load(&mod->ctx->alive) && mod->ctx->id == mod->ctx_id;
}

static void release_globals(struct sg_mod *mod)
{
    const uint32_t n = take_all(mod, &mod->nglobals);

    /* Once the context's incarnation has ended, its memory is gone and may have been reused. */
    if (is_current(mod)) {
        for (uint32_t i = 0; i < n; i++)
            sg_mem_release_internal(mod->globals[i], mod->ctx_id);
    }
}

static void mod_free(struct sg_obj *obj)
{
    struct sg_mod *mod = (struct sg_mod *)obj;

    release_globals(mod);
    release_texrefs(mod);
    free(mod->globals);
    free(mod->texrefs);
    if (mod->ptx && !mod->ptx_is_libs)
        sg_module_free(mod->ptx);
    btr_fini(&mod->by_kernel);
    pthread_mutex_destroy(&mod->lock);
    sg_obj_put(&mod->ctx->obj);
    if (mod->lib)
        sg_obj_put(&mod->lib->obj);
    free(mod);
}

CUresult sg_mod_new(struct sg_ctx *ctx, uint32_t incarnation, const struct sg_image *img,
                    struct sg_module *ptx, struct sg_lib *lib, struct sg_jit *jit, struct sg_mod **out)
{
    struct sg_mod *mod = calloc(1, sizeof(*mod));
    CUresult r = CUDA_SUCCESS;

    if (!mod)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&mod->obj, SG_T_MODULE, ctx, mod_free);
    pthread_mutex_init(&mod->lock, NULL);
    sg_obj_get(&ctx->obj);
    mod->ctx = ctx;
    mod->ctx_id = incarnation;
    mod->lib = lib;
    if (lib)
        sg_obj_get(&lib->obj);
    mod->ptx = ptx;
    mod->ptx_is_libs = ptx != NULL;
    if (!ptx)
        r = sg_ptx_parse(img, false, jit, &mod->ptx);
    if (r == CUDA_SUCCESS && jit && jit->max_registers)
        sg_module_limit_registers(mod->ptx, jit->max_registers);
    if (r == CUDA_SUCCESS)
        r = ask_for_room(mod);
    if (r == CUDA_SUCCESS)
        r = place_globals(mod, jit);
    if (r == CUDA_SUCCESS)
        r = place_texrefs(mod, jit);
    if (r == CUDA_SUCCESS && !sg_obj_register(&mod->obj))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    /* after that: the end of the context either finds the handle or is seen here */
    if (r == CUDA_SUCCESS && !is_current(mod)) {
        sg_obj_unregister(&mod->obj);
        r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    if (r != CUDA_SUCCESS) {
        sg_obj_put(&mod->obj);
        return r;
    }
    *out = mod;
    return CUDA_SUCCESS;
}

/* ---- functions ---- */

static uint64_t func_key(const struct sg_kernel *k)
{
    return (uint64_t)(uintptr_t)k;
}

static void func_free(struct sg_obj *obj)
{
    struct sg_func *f = (struct sg_func *)obj;
    struct btr_item item;

    pthread_mutex_lock(&f->mod->lock);
    for (struct sg_func **pp = &f->mod->funcs; *pp; pp = &(*pp)->next) {
        if (*pp == f) {
            *pp = f->next;
            break;
        }
    }
    if (btr_find(&f->mod->by_kernel, func_key(f->kernel), &item) && item.value == f)
        btr_remove(&f->mod->by_kernel, func_key(f->kernel), NULL);
    pthread_mutex_unlock(&f->mod->lock);
    sg_obj_put(&f->mod->obj);
    free(f->old);
    free(f);
}

/* A reference, unless the object is on its way out. */
static bool try_get(struct sg_obj *obj)
{
    uint32_t n = atomic_load(&obj->refs);

    while (n) {
        if (atomic_compare_exchange_weak(&obj->refs, &n, n + 1))
            return true;
    }
    return false;
}

CUresult sg_mod_func(struct sg_mod *mod, struct sg_kernel *k, struct sg_func **out)
{
    struct sg_func *f;
    struct btr_item item;
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

    pthread_mutex_lock(&mod->lock);
    f = btr_find(&mod->by_kernel, func_key(k), &item) ? item.value : NULL;
    if (f && f->obj.handle && try_get(&f->obj)) {
        pthread_mutex_unlock(&mod->lock);
        *out = f;
        return CUDA_SUCCESS;
    }
    if (f && !mod->unloaded) /* it is about to end */
        btr_remove(&mod->by_kernel, func_key(k), NULL);
    f = mod->unloaded || !btr_reserve(&mod->by_kernel) ? NULL : calloc(1, sizeof(*f));
    if (mod->unloaded) /* the unloading thread may already have passed the list of functions */
        r = CUDA_ERROR_INVALID_HANDLE;
    if (f) {
        sg_obj_init(&f->obj, SG_T_FUNC, mod->ctx, func_free);
        sg_obj_get(&mod->obj);
        f->mod = mod;
        f->kernel = k;
        sg_kernel_get_info(k, &f->info);
        f->set = (struct sg_func_settings)SG_FUNC_INITIAL;
        f->next = mod->funcs;
        mod->funcs = f;
        btr_insert(&mod->by_kernel, func_key(k), 1, f);
        if (sg_obj_register(&f->obj))
            r = CUDA_SUCCESS;
        if (r == CUDA_SUCCESS && !is_current(mod)) { /* likewise */
            sg_obj_unregister(&f->obj);
            r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        }
    }
    pthread_mutex_unlock(&mod->lock);
    if (r == CUDA_SUCCESS)
        *out = f;
    else if (f)
        sg_obj_put(&f->obj);
    return r;
}

void sg_mod_unload(struct sg_mod *mod)
{
    sg_obj_unregister(&mod->obj);
    pthread_mutex_lock(&mod->lock);
    mod->unloaded = true;
    pthread_mutex_unlock(&mod->lock);
    for (;;) {
        struct sg_func *f;

        pthread_mutex_lock(&mod->lock);
        for (f = mod->funcs; f && !(f->obj.handle && try_get(&f->obj)); f = f->next)
            ;
        pthread_mutex_unlock(&mod->lock);
        if (!f)
            break;
        sg_obj_unregister(&f->obj);
        sg_obj_put(&f->obj);
    }
    sg_ctx_drain(mod->ctx);
    release_globals(mod);
    release_texrefs(mod);
}

CUresult sg_func_prepare(struct sg_func *f)
{
    struct sg_diag diag = {0};
    CUresult r;

    if (atomic_load_explicit(&f->prepared, memory_order_acquire))
        return CUDA_SUCCESS;
    r = (CUresult)sg_kernel_prepare(f->kernel, &diag);
    if (r == CUDA_ERROR_NO_BINARY_FOR_GPU)
        return sg_fail(r, "kernel %s cannot be launched: %s", f->info.name, diag.message);
    if (r != CUDA_SUCCESS)
        return sg_fail(r, "kernel %s, PTX line %u: %s", f->info.name, diag.line, diag.message);
    atomic_store_explicit(&f->prepared, true, memory_order_release);
    return CUDA_SUCCESS;
}

CUresult sg_mod_global(struct sg_mod *mod, const char *name, bool managed_only, CUdeviceptr *dptr,
                       size_t *bytes)
{
    CUresult r = CUDA_ERROR_NOT_FOUND;
    struct sg_global_info g;

    pthread_mutex_lock(&mod->lock);
    for (uint32_t i = 0; i < mod->nglobals && r != CUDA_SUCCESS; i++) {
        sg_module_get_global(mod->ptx, i, &g);
        if (strcmp(g.name, name) || (managed_only && !g.is_managed))
            continue;
        if (dptr)
            *dptr = mod->globals[i];
        if (bytes)
            *bytes = g.size;
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&mod->lock);
    return r;
}

/* ---- attributes ---- */

int sg_func_max_dynamic(const struct sg_kernel_info *info, const struct sg_func_settings *set)
{
    int base = sg_attr(0, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK) - (int)info->static_shared;

    return set->max_dynamic >= 0 ? set->max_dynamic : base > 0 ? base : 0;
}

CUresult sg_func_attribute(const struct sg_kernel_info *info, const struct sg_func_settings *set,
                           uint32_t const_bytes, int attrib, int *pi)
{
    switch (attrib) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *pi = (int)info->max_threads;
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *pi = (int)info->static_shared;
        break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *pi = (int)const_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *pi = (int)info->local_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *pi = (int)info->num_regs;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: /* CUB chooses its tuning by it: the PTX that runs */
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *pi = (int)info->ptx_target;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *pi = sg_func_max_dynamic(info, set);
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *pi = set->carveout;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *pi = set->nonportable_cluster;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *pi = set->cluster_policy;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
        *pi = info->explicit_cluster;
        break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        attrib -= CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
        *pi = info->cluster[0] ? (int)info->cluster[attrib] : set->cluster[attrib];
        break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        *pi = 0;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult sg_func_set_attribute(int device, const struct sg_kernel_info *info, struct sg_func_settings *set,
                               int attrib, int value)
{
    int optin = sg_attr(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);

    switch (attrib) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > optin || (int)info->static_shared > optin - value)
            return CUDA_ERROR_INVALID_VALUE;
        set->max_dynamic = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        set->carveout = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        set->nonportable_cluster = value != 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        if (value < 0 || value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
            return CUDA_ERROR_INVALID_VALUE;
        set->cluster_policy = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: /* the combination is checked at the launch */
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        if (info->cluster[0])
            return CUDA_ERROR_NOT_PERMITTED;
        if (value < 0)
            return CUDA_ERROR_INVALID_VALUE;
        set->cluster[attrib - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = value;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE; /* the remaining attributes are read-only */
    }
}
