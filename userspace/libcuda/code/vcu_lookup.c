/* SPDX-License-Identifier: MIT */
/*
 * Functions, kernels and variables of modules and libraries: looked up by name at the worker once,
 * then cached with their attributes and parameter layout.
 */
#include "code.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"
#include "../memory/memory.h"

/* ---- functions ------------------------------------------------------------------------------ */

static struct vcu_func *func_new(const char *name, const int32_t *attributes, uint32_t n_attributes,
                                 const uint32_t *layout, uint32_t n_params)
{
    struct vcu_func *f = calloc(1, sizeof(*f) + strlen(name) + 1);

    if (f == NULL)
        return NULL;
    atomic_init(&f->users, 1);
    strcpy(f->name, name);
    f->params = calloc(n_params == 0 ? 1 : n_params, sizeof(*f->params));
    if (f->params == NULL) {
        free(f);
        return NULL;
    }
    if (n_attributes > VCU_FUNC_ATTRIBUTES)
        n_attributes = VCU_FUNC_ATTRIBUTES;
    for (uint32_t i = 0; i < n_attributes; i++)
        f->attributes[i] = attributes[i];
    f->attribute_count = n_attributes;
    f->param_count = n_params;
    for (uint32_t i = 0; i < n_params; i++) {
        f->params[i].offset = layout[i] >> 16;
        f->params[i].size = layout[i] & 0xffff;
        if (f->params[i].offset + f->params[i].size > f->param_bytes)
            f->param_bytes = f->params[i].offset + f->params[i].size;
    }
    return f;
}

static struct vcu_func *find_known(struct vcu_code_record *u, const char *name)
{
    for (struct vcu_func *f = u->funcs; f != NULL; f = f->next) {
        if (strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}

static int device_now(void)
{
    struct vcu_context *c = vcu_context_find(NULL);

    return c == NULL ? 0 : c->device;
}

CUresult vcu_name_sent(const char *call, const char *name)
{
    const size_t most = vcu.worker_minor >= 11 ? 32767 : 4095;

    if (strnlen(name, most + 1) <= most)
        return CUDA_SUCCESS;
    return VCU_REFUSE(CUDA_ERROR_NOT_FOUND, call, "a name of more than %zu bytes", most);
}

/* Looks a function or kernel up by name; the same name gives the same handle. */
static CUresult look_up(struct vcu_code_record *u, bool kernel, const char *name, uint64_t *handle)
{
    enum vgp_handle_type type = kernel ? VGP_H_KERNEL : VGP_H_FUNCTION;
    int32_t attributes[VCU_FUNC_ATTRIBUTES];
    uint32_t layout[VCU_MAX_PARAMS];
    uint32_t n_attributes = VCU_FUNC_ATTRIBUTES, n_params = VCU_MAX_PARAMS;
    int device = device_now();
    CUresult res = CUDA_SUCCESS;
    struct vcu_func *f;
    uint64_t h;

    pthread_mutex_lock(&u->lock);
    if (u->gone) {
        pthread_mutex_unlock(&u->lock);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    f = find_known(u, name);
    if (f != NULL)
        goto found;
    res = vcu_name_sent(kernel ? "cuLibraryGetKernel" : "cuModuleGetFunction", name);
    h = res == CUDA_SUCCESS ? vgp_handle_mint(type) : 0;
    res = res != CUDA_SUCCESS ? res
          : h == 0            ? CUDA_ERROR_OUT_OF_MEMORY
          : kernel ? vgp_call_vgpLibraryGetKernel((CUkernel)(uintptr_t)h, (CUlibrary)(uintptr_t)u->handle,
                                                  name, device, attributes, &n_attributes, layout, &n_params)
                   : vgp_call_vgpModuleGetFunction((CUfunction)(uintptr_t)h, (CUmodule)(uintptr_t)u->handle,
                                                   name, attributes, &n_attributes, layout, &n_params);
    if (res == CUDA_SUCCESS) {
        f = func_new(name, attributes, n_attributes, layout, n_params);
        if (f == NULL)
            res = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (res != CUDA_SUCCESS) {
        if (h != 0)
            vgp_handle_drop(h);
        pthread_mutex_unlock(&u->lock);
        return res;
    }
    f->handle = h;
    f->parent = u->handle;
    f->context = u->context;
    f->device = device;
    f->next = u->funcs;
    u->funcs = f;
    vcu_handle_set_data(h, type, f);
found:
    *handle = f->handle;
    pthread_mutex_unlock(&u->lock);
    return res;
}

/* CUDA_MODULE_LOADING=EAGER: the runtime looks up all functions when it loads their image. What fails here fails, and
 * says so, where the function is launched. */
static void load_at_once(uint64_t handle)
{
    CUfunctionLoadingState state;

    if (vcu_loads_eagerly() && vcu_context_find(NULL) != NULL)
        vcu_function_load((CUfunction)(uintptr_t)handle, true, &state);
}

CUresult vcu_module_enter(CUmodule hmod, struct vcu_code_record **u, bool *borrowed)
{
    CUresult res = vcu_check_usable();

    *borrowed = false;
    if (res != CUDA_SUCCESS)
        return res;
    *u = vcu_code_record_find((uintptr_t)hmod, VGP_H_MODULE);
    return *u == NULL ? CUDA_ERROR_INVALID_HANDLE : vcu_context_borrow((*u)->context, borrowed);
}

/* A function of a library's module is that of the library's kernel: the same handle, the same attributes. */
static CUresult look_up_function(struct vcu_code_record *u, const char *name, uint64_t *handle)
{
    VCU_CODE_RECORD_HELD struct vcu_code_record *lib = NULL;
    CUfunction function = NULL;
    CUresult res;

    if (u->library == 0)
        return look_up(u, false, name, handle);
    lib = vcu_code_record_find(u->library, VGP_H_LIBRARY);
    res = lib == NULL ? CUDA_ERROR_INVALID_HANDLE : look_up(lib, true, name, handle);
    if (res == CUDA_SUCCESS)
        res = vcu_cuKernelGetFunction(&function, (CUkernel)(uintptr_t)*handle);
    *handle = (uintptr_t)function;
    return res;
}

CUresult vcu_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    VCU_CODE_RECORD_HELD struct vcu_code_record *u = NULL;
    uint64_t handle = 0;
    bool borrowed;
    CUresult res = vcu_module_enter(hmod, &u, &borrowed);

    if (res != CUDA_SUCCESS)
        return res;
    if (hfunc == NULL || name == NULL || *name == '\0')
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS) {
        res = look_up_function(u, name, &handle);
        *hfunc = (CUfunction)(uintptr_t)(res == CUDA_SUCCESS ? handle : 0);
    }
    if (res == CUDA_SUCCESS)
        load_at_once(handle);
    vcu_context_return(borrowed);
    return res;
}

CUresult vcu_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    VCU_CODE_RECORD_HELD struct vcu_code_record *u = NULL;
    uint64_t handle;
    CUresult res;

    if (pKernel == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_check_init();
    if (res != CUDA_SUCCESS)
        return res;
    u = vcu_code_record_find((uintptr_t)library, VGP_H_LIBRARY);
    if (u == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    res = look_up(u, true, name, &handle);
    if (res == CUDA_SUCCESS) {
        *pKernel = (CUkernel)(uintptr_t)handle;
        load_at_once(handle);
    }
    return res;
}

/* The function of a kernel in the current context, 0: none yet. With vcu_module_lock held. */
static uint64_t kernel_function_here(struct vcu_func *k)
{
    const uint64_t context = vcu_owner_context();
    uint64_t h = atomic_load(&k->function);

    while (h != 0) {
        VCU_FUNC_HELD struct vcu_func *f = vcu_func_get(h, VGP_H_FUNCTION);

        if (f == NULL || f->context == context)
            return f == NULL ? 0 : h;
        h = f->older;
    }
    return 0;
}

/* With vcu_module_lock held. */
static CUresult kernel_function_locked(struct vcu_func *k, CUkernel kernel)
{
    struct vcu_func *f = calloc(1, sizeof(*f) + 1);
    const uint64_t h = f == NULL ? 0 : vgp_handle_mint(VGP_H_FUNCTION);
    CUresult res =
        h == 0 ? CUDA_ERROR_OUT_OF_MEMORY : vgp_call_vgpKernelGetFunction((CUfunction)(uintptr_t)h, kernel);

    if (res != CUDA_SUCCESS) {
        if (h != 0)
            vgp_handle_drop(h);
        free(f);
        return res;
    }
    atomic_init(&f->users, 2); /* the table's and this call's */
    atomic_fetch_add(&k->users, 1);
    f->handle = h;
    f->kernel = k;
    f->context = vcu_owner_context();
    f->older = atomic_load(&k->function);
    vcu_handle_set_data(h, VGP_H_FUNCTION, f);
    atomic_store(&k->function, h);
    /* An unload of the library drops the kernel's handle first and then looks for its function. */
    if (!vgp_handle_live((uintptr_t)kernel, VGP_H_KERNEL)) {
        vcu_func_end(f);
        res = CUDA_ERROR_INVALID_HANDLE;
    }
    vcu_func_put(f);
    return res;
}

CUresult vcu_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    VCU_FUNC_HELD struct vcu_func *k = NULL;
    CUresult res;

    if (pFunc == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_check_context();
    if (res != CUDA_SUCCESS)
        return res;
    k = vcu_func_get((uintptr_t)kernel, VGP_H_KERNEL);
    if (k == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&vcu_module_lock);
    if (kernel_function_here(k) == 0)
        res = kernel_function_locked(k, kernel);
    if (res == CUDA_SUCCESS)
        *pFunc = (CUfunction)(uintptr_t)kernel_function_here(k);
    pthread_mutex_unlock(&vcu_module_lock);
    return res;
}

/* With vcu_module_lock held. */
static CUresult library_module_locked(struct vcu_code_record *u, CUlibrary library)
{
    VCU_CODE_RECORD_HELD struct vcu_code_record *m = NULL; /* found again, with a reference of this call's */
    struct vcu_code_record *fresh = vcu_code_record_new(VGP_H_MODULE);
    CUresult res = fresh == NULL ? CUDA_ERROR_OUT_OF_MEMORY
                                 : vgp_call_vgpLibraryGetModule((CUmodule)(uintptr_t)fresh->handle, library);

    if (res != CUDA_SUCCESS) {
        if (fresh != NULL)
            vcu_code_record_drop(fresh);
        return res;
    }
    fresh->library = u->handle;
    atomic_store(&u->module, fresh->handle);
    vcu_handle_set_data(fresh->handle, VGP_H_MODULE, fresh);
    if (vgp_handle_live((uintptr_t)library, VGP_H_LIBRARY))
        return CUDA_SUCCESS;
    /* Unloaded meanwhile: an unload drops the library's handle first and then looks for its
     * module. */
    m = vcu_code_record_find(atomic_load(&u->module), VGP_H_MODULE);
    if (m != NULL)
        vcu_code_record_end(m);
    return CUDA_ERROR_INVALID_HANDLE;
}

CUresult vcu_cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    VCU_CODE_RECORD_HELD struct vcu_code_record *u = NULL;
    CUresult res;

    if (pMod == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_check_context();
    if (res != CUDA_SUCCESS)
        return res;
    u = vcu_code_record_find((uintptr_t)library, VGP_H_LIBRARY);
    if (u == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&vcu_module_lock);
    if (u->module == 0)
        res = library_module_locked(u, library);
    if (res == CUDA_SUCCESS)
        *pMod = (CUmodule)(uintptr_t)u->module;
    pthread_mutex_unlock(&vcu_module_lock);
    return res;
}

/* ---- variables ------------------------------------------------------------------------------ */

CUresult vcu_give_variable(const char *call, uint64_t owner, uint64_t dptr, uint64_t size,
                           CUdeviceptr *dptr_out, size_t *bytes_out)
{
    struct vcu_place p;
    uint32_t managed = 0;
    CUresult res = CUDA_SUCCESS;

    if (vcu.worker_minor >= 1 && (!vcu_memory_find(dptr, &p) || p.start != dptr))
        res = vgp_call_vgpPointerManaged(dptr, &managed);
    if (res == CUDA_SUCCESS && managed != 0)
        res = vcu_managed_add(call, owner, dptr, size);
    if (res != CUDA_SUCCESS)
        return res;
    if (managed == 0)
        vcu_memory_note_variable(owner, dptr, size);
    if (dptr_out != NULL)
        *dptr_out = dptr;
    if (bytes_out != NULL)
        *bytes_out = size;
    return CUDA_SUCCESS;
}

CUresult vcu_module_variable(const char *call, CUmodule hmod, const char *name, uint64_t *at, uint64_t *size)
{
    VCU_CODE_RECORD_HELD struct vcu_code_record *u = NULL;
    bool borrowed;
    CUresult res = vcu_module_enter(hmod, &u, &borrowed);

    if (res != CUDA_SUCCESS)
        return res;
    res = name == NULL || *name == '\0' ? CUDA_ERROR_INVALID_VALUE : vcu_name_sent(call, name);
    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpModuleGetGlobal(hmod, name, at, size);
    if (res == CUDA_SUCCESS)
        res = vcu_give_variable(call, (uintptr_t)hmod, *at, *size, NULL, NULL);
    vcu_context_return(borrowed);
    return res;
}

/* The primary context of device 0 becomes current. It is retained once and stays so: the variables
   live in it. */
static CUresult borrow_context(void)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static CUcontext held;
    CUresult res = CUDA_SUCCESS;

    pthread_mutex_lock(&once);
    if (held == NULL)
        res = vcu_cuDevicePrimaryCtxRetain(&held, 0);
    pthread_mutex_unlock(&once);
    return res == CUDA_SUCCESS
               ? (vcu_context_enter((uintptr_t)held) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY)
               : res;
}

CUresult vcu_cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    uint64_t at = 0, size = 0;
    bool borrowed = false;
    CUresult res;

    if (name == NULL || *name == '\0' || (dptr == NULL && bytes == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_check_init();
    if (res != CUDA_SUCCESS)
        return res;
    if (vcu_handle_data((uintptr_t)library, VGP_H_LIBRARY) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    res = vcu_name_sent("cuLibraryGetManaged", name);
    if (res != CUDA_SUCCESS)
        return res;
    /* The runtime queries before it has a context: managed variables belong to all contexts. */
    if (vcu_owner_context() == 0) {
        res = borrow_context();
        if (res != CUDA_SUCCESS)
            return res;
        borrowed = true;
    }
    res = vgp_call_vgpLibraryGetManaged(library, name, &at, &size);
    if (res == CUDA_SUCCESS)
        res = vcu_managed_add("cuLibraryGetManaged", (uintptr_t)library, at, size);
    vcu_context_return(borrowed);
    if (res != CUDA_SUCCESS)
        return res;
    if (dptr != NULL)
        *dptr = at;
    if (bytes != NULL)
        *bytes = size;
    return CUDA_SUCCESS;
}

/* ---- lists ---------------------------------------------------------------------------------- */

CUresult vcu_module_count(CUmodule mod, uint32_t *count)
{
    VCU_CODE_RECORD_HELD struct vcu_code_record *u = NULL;
    char name[1];
    bool borrowed;
    CUresult res = vcu_module_enter(mod, &u, &borrowed);

    if (res != CUDA_SUCCESS)
        return res;
    res = vgp_call_vgpModuleFunctionName(mod, 0, count, name, sizeof(name));
    vcu_context_return(borrowed);
    return res;
}

CUresult vcu_cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
    char name[4096];
    uint32_t n = 0;
    bool borrowed;
    VCU_CODE_RECORD_HELD struct vcu_code_record *u = NULL;
    CUresult res;

    if (functions == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_check_usable();
    if (res == CUDA_SUCCESS)
        res = vcu_module_enter(mod, &u, &borrowed);
    if (res != CUDA_SUCCESS)
        return res;
    for (unsigned i = 0; i < numFunctions && res == CUDA_SUCCESS; i++) {
        uint64_t handle = 0;

        res = vgp_call_vgpModuleFunctionName(mod, i, &n, name, sizeof(name));
        if (res != CUDA_SUCCESS || i >= n)
            break;
        res = look_up_function(u, name, &handle);
        if (res == CUDA_SUCCESS)
            functions[i] = (CUfunction)(uintptr_t)handle;
    }
    vcu_context_return(borrowed);
    return res;
}

CUresult vcu_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    char name[4096];
    uint32_t n = 0;
    VCU_CODE_RECORD_HELD struct vcu_code_record *u = NULL;
    CUresult res;

    if (kernels == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_check_init();
    if (res != CUDA_SUCCESS)
        return res;
    u = vcu_code_record_find((uintptr_t)lib, VGP_H_LIBRARY);
    if (u == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; i < numKernels; i++) {
        uint64_t handle;

        res = vgp_call_vgpLibraryKernelName(lib, i, &n, name, sizeof(name));
        if (res != CUDA_SUCCESS || i >= n)
            return res;
        res = look_up(u, true, name, &handle);
        if (res != CUDA_SUCCESS)
            return res;
        kernels[i] = (CUkernel)(uintptr_t)handle;
    }
    return CUDA_SUCCESS;
}
