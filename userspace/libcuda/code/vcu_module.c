/* SPDX-License-Identifier: MIT */
/*
 * Modules and libraries: loading images, finding functions and variables. The image goes to the
 * worker unchanged; only its length is determined in the guest (vcu_image.c).
 */
#define _GNU_SOURCE
#include "code.h"
#include "recall.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgp_entry.h"
#include "vgp_guest.h"
#include "jit.h"
#include "../memory/memory.h"

#define LOG_MAX 2048

/* ---- loading -------------------------------------------------------------------------------- */

/* A log of a load, in pieces of a reply each; a failure leaves the received part. */
static void fetch_log(uint32_t id, uint32_t which, const struct vcu_jit_log *log)
{
    uint32_t room = vcu_jit_log_room(log), done = 0, total = 0;
    char *text;

    if (room == 0 || (text = malloc(room + 4096u)) == NULL)
        return;
    do {
        uint32_t n = 4032;

        if (vgp_call_vgpJitLogRead(id, which, done, &total, (uint8_t *)text + done, &n) != CUDA_SUCCESS ||
            n == 0)
            break;
        done += n;
    } while (done < total && done < room);
    vcu_jit_give(log, text, done);
    free(text);
}

/* With the application's options. `error`: LOG_MAX bytes for the start of the error log. */
static CUresult load_with_options(uint64_t handle, enum vgp_handle_type type, const struct vcu_image *image,
                                  const struct vcu_jit *jit, char *error)
{
    static _Atomic uint32_t last_id;
    uint32_t info_max = vcu_jit_log_room(&jit->info), error_max = vcu_jit_log_room(&jit->error);
    uint32_t id = atomic_fetch_add(&last_id, 1) + 1;
    CUresult res;

    if (id == 0)
        id = atomic_fetch_add(&last_id, 1) + 1;
    if (type == VGP_H_MODULE)
        res = vgp_call_vgpModuleLoadEx((CUmodule)(uintptr_t)handle, image->data, image->size, jit->ids,
                                       jit->n, jit->values, jit->n, id, info_max, error_max);
    else
        res = vgp_call_vgpLibraryLoadEx((CUlibrary)(uintptr_t)handle, image->data, image->size, jit->ids,
                                        jit->n, jit->values, jit->n, id, info_max, error_max);
    if (info_max == 0 && error_max == 0)
        return res;
    fetch_log(id, 0, &jit->info);
    fetch_log(id, 1, &jit->error);
    vgp_call_vgpJitLogDrop(id);
    if (jit->error.text != NULL && jit->error.size != 0) {
        strncpy(error, jit->error.text, LOG_MAX - 1);
        error[LOG_MAX - 1] = '\0';
    }
    return res;
}

static CUresult module_load(enum vgp_handle_type type, const char *call, const void *code, uint64_t limit,
                            struct vcu_jit *jit, uint64_t *handle)
{
    struct vcu_image image;
    const char *why;
    char info[LOG_MAX] = "", error[LOG_MAX] = "";
    bool want = lnk_trace_on; /* the reason of a refusal, for the trace */
    struct vcu_code_record *u;
    CUresult res = vcu_image_measure(code, limit, &image, &why);

    if (res != CUDA_SUCCESS)
        return VCU_REFUSE(res, call, "%s", why);
    u = vcu_code_record_new(type);
    if (u == NULL) {
        vcu_image_done(&image);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (jit->n != 0 || jit->info.text != NULL || jit->error.text != NULL)
        res = load_with_options(u->handle, type, &image, jit, error);
    else if (type == VGP_H_MODULE)
        res = vgp_call_vgpModuleLoad((CUmodule)(uintptr_t)u->handle, image.data, image.size, want, info,
                                     sizeof(info), error, sizeof(error));
    else
        res = vgp_call_vgpLibraryLoad((CUlibrary)(uintptr_t)u->handle, image.data, image.size, want, info,
                                      sizeof(info), error, sizeof(error));
    vcu_jit_done(jit);
    vcu_image_done(&image);
    if (res != CUDA_SUCCESS) {
        vcu_code_record_drop(u);
        return VCU_REFUSE(res, call, "the host refused the image (%llu bytes)%s%s",
                          (unsigned long long)image.size, error[0] != '\0' ? ": " : "", error);
    }
    vcu_handle_set_data(u->handle, type, u);
    *handle = u->handle;
    return CUDA_SUCCESS;
}

CUresult vcu_file_read(const char *call, const char *path, char **text, uint64_t *size)
{
    int fd = *path == '\0' ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    off_t done = 0;
    char *p;
    ssize_t n;

    if (*path == '\0')
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "the file's name is empty");
    if (fd < 0)
        return VCU_REFUSE(errno == ENOENT ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_OPERATING_SYSTEM, call,
                          "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size >= (off_t)VGP_BLOB_MAX) {
        close(fd);
        return VCU_REFUSE(CUDA_ERROR_INVALID_IMAGE, call, "%s: not a regular file below 1 GiB", path);
    }
    p = malloc((size_t)st.st_size + 1); /* PTX files have no NUL at their end: one is added */
    if (p == NULL) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    do {
        n = read(fd, p + done, (size_t)(st.st_size - done));
        done += n > 0 ? n : 0;
    } while ((n > 0 && done < st.st_size) || (n < 0 && errno == EINTR));
    close(fd);
    if (n < 0) {
        free(p);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    /* Only the bytes read: the file may have become shorter meanwhile, and libcuda's own memory
     * follows. */
    p[done] = '\0';
    *text = p;
    *size = (uint64_t)done + 1;
    return CUDA_SUCCESS;
}

static CUresult load_file(enum vgp_handle_type type, const char *call, const char *path, struct vcu_jit *jit,
                          uint64_t *handle)
{
    uint64_t size;
    char *text;
    CUresult res = vcu_file_read(call, path, &text, &size);

    if (res != CUDA_SUCCESS)
        return res;
    res = module_load(type, call, text, size, jit, handle);
    free(text);
    return res;
}

CUresult vcu_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                                CUjit_option *options, void **optionValues)
{
    struct vcu_jit jit;
    uint64_t handle;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (module == NULL || image == NULL || (numOptions != 0 && (options == NULL || optionValues == NULL)))
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_jit_parse("cuModuleLoadData", &jit, numOptions, options, optionValues);
    if (res != CUDA_SUCCESS)
        return res;
    res = module_load(VGP_H_MODULE, "cuModuleLoadData", image, 0, &jit, &handle);
    if (res == CUDA_SUCCESS)
        *module = (CUmodule)(uintptr_t)handle;
    return res;
}

CUresult vcu_cuModuleLoad(CUmodule *module, const char *fname)
{
    struct vcu_jit jit = {0};
    uint64_t handle;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (module == NULL || fname == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = load_file(VGP_H_MODULE, "cuModuleLoad", fname, &jit, &handle);
    if (res == CUDA_SUCCESS)
        *module = (CUmodule)(uintptr_t)handle;
    return res;
}

/* Options on the location or ownership of code are served as far as they are hints. */
static CUresult check_library_options(unsigned n, const CUlibraryOption *options)
{
    for (unsigned i = 0; options != NULL && i < n; i++) {
        if (options[i] != CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE &&
            options[i] != CU_LIBRARY_BINARY_IS_PRESERVED)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return n != 0 && options == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult vcu_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                               void **jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption *libraryOptions, void **libraryOptionValues,
                               unsigned int numLibraryOptions)
{
    struct vcu_jit jit;
    uint64_t handle;
    CUresult res;

    if (library == NULL || code == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_check_init();
    if (res != CUDA_SUCCESS)
        return res;
    if (numJitOptions != 0 && (jitOptions == NULL || jitOptionsValues == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    res = check_library_options(numLibraryOptions, libraryOptions);
    if (res != CUDA_SUCCESS)
        return res;
    res = vcu_jit_parse("cuLibraryLoadData", &jit, numJitOptions, jitOptions, jitOptionsValues);
    if (res != CUDA_SUCCESS)
        return res;
    res = cua_library_tables(numLibraryOptions, libraryOptions, libraryOptionValues);
    if (res == CUDA_SUCCESS)
        res = module_load(VGP_H_LIBRARY, "cuLibraryLoadData", code, 0, &jit, &handle);
    else
        vcu_jit_done(&jit);
    if (res == CUDA_SUCCESS)
        *library = (CUlibrary)(uintptr_t)handle;
    return res;
}

CUresult vcu_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                                   void **jitOptionsValues, unsigned int numJitOptions,
                                   CUlibraryOption *libraryOptions, void **libraryOptionValues,
                                   unsigned int numLibraryOptions)
{
    struct vcu_jit jit;
    uint64_t handle, size;
    char *text;
    CUresult res;

    if (library == NULL || fileName == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_check_init();
    if (res != CUDA_SUCCESS)
        return res;
    if (numJitOptions != 0 && (jitOptions == NULL || jitOptionsValues == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_jit_parse("cuLibraryLoadFromFile", &jit, numJitOptions, jitOptions, jitOptionsValues);
    if (res == CUDA_SUCCESS)
        res = vcu_file_read("cuLibraryLoadFromFile", fileName, &text, &size);
    if (res != CUDA_SUCCESS)
        return res;
    res = check_library_options(numLibraryOptions, libraryOptions); /* after the file (driver 580) */
    if (res == CUDA_SUCCESS)
        res = cua_library_tables(numLibraryOptions, libraryOptions, libraryOptionValues);
    if (res == CUDA_SUCCESS)
        res = module_load(VGP_H_LIBRARY, "cuLibraryLoadFromFile", text, size, &jit, &handle);
    else
        vcu_jit_done(&jit);
    free(text);
    if (res == CUDA_SUCCESS)
        *library = (CUlibrary)(uintptr_t)handle;
    return res;
}

/* ---- unloading ------------------------------------------------------------------------------ */

CUresult vcu_cuModuleUnload(CUmodule hmod)
{
    VCU_CODE_RECORD_HELD struct vcu_code_record *u = vcu_code_record_find((uintptr_t)hmod, VGP_H_MODULE);
    bool borrowed;
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && hmod == NULL)
        res = CUDA_ERROR_INVALID_HANDLE;
    if (res == CUDA_SUCCESS)
        res = vcu_context_borrow(u == NULL ? 0 : u->context, &borrowed);
    if (res != CUDA_SUCCESS)
        return res;
    if (u == NULL)
        res = CUDA_ERROR_INVALID_HANDLE;
    else if (u->library != 0)
        res = VCU_REFUSE(CUDA_ERROR_NOT_PERMITTED, "cuModuleUnload", "the module belongs to a library");
    else
        res = vcu_capture_unsafe("cuModuleUnload");
    if (res == CUDA_SUCCESS)
        res = vgp_call_cuModuleUnload(hmod);
    vcu_context_return(borrowed);
    if (res == CUDA_SUCCESS)
        vcu_code_record_end(u);
    return res;
}

CUresult vcu_cuLibraryUnload(CUlibrary library)
{
    VCU_CODE_RECORD_HELD struct vcu_code_record *u = NULL, *module = NULL;
    CUresult res;

    if (library == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    res = vcu_check_init();
    if (res != CUDA_SUCCESS)
        return res;
    u = vcu_code_record_find((uintptr_t)library, VGP_H_LIBRARY);
    if (u == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    res = vcu_capture_unsafe("cuLibraryUnload");
    if (res == CUDA_SUCCESS)
        res = vgp_call_cuLibraryUnload(library);
    if (res != CUDA_SUCCESS)
        return res;
    vcu_code_record_end(u);
    module = vcu_code_record_find(atomic_load(&u->module), VGP_H_MODULE);
    if (module != NULL)
        vcu_code_record_end(module);
    return res;
}

/* Handles alone: another thread may end the record meanwhile. */
static void forget_unit(uint64_t handle, void *unused, void *arg)
{
    VCU_CODE_RECORD_HELD struct vcu_code_record *u = vcu_code_record_find(handle, VGP_H_MODULE);

    (void)unused;
    if (u != NULL && u->context == *(uint64_t *)arg)
        vcu_code_record_end(u);
}

/* Removes an ending function from its kernel's list. With vcu_module_lock held. */
static void unchain_function(struct vcu_func *kernel, const struct vcu_func *f)
{
    uint64_t h = atomic_load(&kernel->function);

    if (h == f->handle)
        atomic_store(&kernel->function, f->older);
    while (h != f->handle && h != 0) {
        VCU_FUNC_HELD struct vcu_func *g = vcu_func_get(h, VGP_H_FUNCTION);

        h = g != NULL ? g->older : 0;
        if (h == f->handle)
            g->older = f->older;
    }
}

/* A kernel's CUfunction belongs to a context; the kernel itself does not. */
static void forget_function(uint64_t handle, void *unused, void *arg)
{
    VCU_FUNC_HELD struct vcu_func *f = vcu_func_get(handle, VGP_H_FUNCTION);

    (void)unused;
    if (f == NULL || f->context != *(uint64_t *)arg || f->kernel == NULL)
        return;
    unchain_function(f->kernel, f);
    vcu_func_end(f);
}

static void forget_library_module(uint64_t handle, void *unused, void *arg)
{
    VCU_CODE_RECORD_HELD struct vcu_code_record *u = vcu_code_record_find(handle, VGP_H_LIBRARY);

    (void)unused;
    (void)arg;
    if (u != NULL && u->module != 0 && !vgp_handle_live(u->module, VGP_H_MODULE))
        u->module = 0;
}

static void context_ending(struct vcu_context *c)
{
    uint64_t context = c->handle;

    vcu_recall_forget();
    if (c->green != 0)
        return;
    pthread_mutex_lock(&vcu_module_lock);
    vcu_handle_each(VGP_H_FUNCTION, forget_function, &context);
    vcu_handle_each(VGP_H_MODULE, forget_unit, &context);
    vcu_handle_each(VGP_H_LIBRARY, forget_library_module, NULL);
    vcu_texrefs_forget(context);
    pthread_mutex_unlock(&vcu_module_lock);
}

const struct vcu_unit_ops vcu_module_unit = {.context_ending = context_ending};
