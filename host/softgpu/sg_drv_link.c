/* SPDX-License-Identifier: MIT */
/*
 * Driver API: the linker, for what an interpreter can link: one PTX input, which is its own result.
 * Several inputs would have to be merged into one PTX module; that is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "sg_int.h"

struct link {
    struct sg_obj obj;
    struct sg_jit jit;
    pthread_mutex_t lock;
    char *text; /* the input, NUL-terminated */
    size_t len;
};

static void link_free(struct sg_obj *obj)
{
    struct link *l = (struct link *)obj;

    free(l->text);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

CUresult CUDAAPI cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options,
                                 void **optionValues, CUlinkState *stateOut)
{
    struct sg_jit jit;
    struct link *l;
    CUresult r;

    SG_CTX(ctx);
    if (!stateOut)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_jit_parse(numOptions, options, optionValues, &jit);
    if (r != CUDA_SUCCESS)
        return r;
    l = calloc(1, sizeof(*l));
    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&l->obj, SG_T_LINK, ctx, link_free);
    pthread_mutex_init(&l->lock, NULL);
    l->jit = jit;
    bool ok = sg_obj_register(&l->obj);

    if (ok)
        *stateOut = SG_HANDLE(CUlinkState, l);
    sg_obj_put(&l->obj);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult add(struct link *l, CUjitInputType type, const void *data, size_t size)
{
    struct sg_image img = {0};
    CUresult r;

    if (type == CU_JIT_INPUT_CUBIN || type == CU_JIT_INPUT_OBJECT || type == CU_JIT_INPUT_LIBRARY)
        return sg_fail(CUDA_ERROR_NO_BINARY_FOR_GPU, "linker: input is SASS, not PTX");
    if (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_FATBINARY)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_image_load(data, size, sg_cc(l->obj.owner->device), &img);
    if (r != CUDA_SUCCESS)
        return r;
    if (img.is_elf) {
        r = sg_fail(CUDA_ERROR_NO_BINARY_FOR_GPU,
                    "linker: input has no PTX, which is all that this device runs; it has: %s",
                    img.has);
        sg_image_free(&img);
        return r;
    }
    pthread_mutex_lock(&l->lock);
    if (l->text) {
        r = sg_fail(CUDA_ERROR_NOT_SUPPORTED, "linker: more than one PTX input");
    } else {
        l->text = img.text;
        l->len = img.len;
        img.text = NULL;
    }
    pthread_mutex_unlock(&l->lock);
    sg_image_free(&img);
    return r;
}

CUresult CUDAAPI cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                                  const char *name, unsigned int numOptions,
                                  CUjit_option *options, void **optionValues)
{
    struct sg_jit jit;
    CUresult r;

    (void)name; /* for messages of a compiler */
    SG_INIT();
    SG_AUTO struct link *l = SG_LOOKUP(state, SG_T_LINK);

    if (!l)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!data || !size)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_jit_parse(numOptions, options, optionValues, &jit);
    return r != CUDA_SUCCESS ? r : add(l, type, data, size);
}

CUresult CUDAAPI cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                                  unsigned int numOptions, CUjit_option *options,
                                  void **optionValues)
{
    struct sg_jit jit;
    CUresult r;
    void *data;

    SG_INIT();
    SG_AUTO struct link *l = SG_LOOKUP(state, SG_T_LINK);

    if (!l)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_jit_parse(numOptions, options, optionValues, &jit);
    if (r == CUDA_SUCCESS)
        r = sg_file_read(path, &data);
    if (r != CUDA_SUCCESS)
        return r;
    r = add(l, type, data, SIZE_MAX);
    free(data);
    return r;
}

CUresult CUDAAPI cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    struct sg_module *m;
    struct sg_image img;
    CUresult r;

    SG_INIT();
    SG_AUTO struct link *l = SG_LOOKUP(state, SG_T_LINK);

    if (!l)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!cubinOut || !l->text)
        return CUDA_ERROR_INVALID_VALUE;
    img = (struct sg_image){.text = l->text, .len = l->len};
    r = sg_ptx_parse(&img, &l->jit, &m);
    sg_jit_done(&l->jit);
    if (r != CUDA_SUCCESS)
        return r;
    sg_module_free(m);
    *cubinOut = l->text; /* documented: it lives as long as the link state */
    if (sizeOut)
        *sizeOut = l->len + 1;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLinkDestroy(CUlinkState state)
{
    SG_INIT();
    SG_AUTO struct link *l = SG_LOOKUP(state, SG_T_LINK);

    return l && sg_obj_unregister(&l->obj) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuLinkCreate(unsigned int numOptions, CUjit_option *options, void **optionValues,
                              CUlinkState *stateOut)
{
    return cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
}

CUresult CUDAAPI cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size,
                               const char *name, unsigned int numOptions, CUjit_option *options,
                               void **optionValues)
{
    return cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult CUDAAPI cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path,
                               unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    return cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}
