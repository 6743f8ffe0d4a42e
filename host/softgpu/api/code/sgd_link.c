/* SPDX-License-Identifier: MIT */
/*
 * Driver API: the linker, for inputs that an interpreter can link: PTX, alone or in fat binaries.
 * The result is a single PTX text (ptx/sg_ptx_link.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

struct sg_link {
    struct sg_obj obj;
    int device; /* device of its context */
    struct sg_jit jit;
    pthread_mutex_t lock;
    SG_OWNED struct sg_image *in; /* PTX texts */
    char (*names)[64];            /* names given by the caller */
    uint32_t n, cap;
    /* bytes of text left for further inputs; all together are limited like a single image */
    uint64_t left;
    struct sg_image done; /* cuLinkComplete's result, which lives as long as the link state */
};

static void link_free(struct sg_obj *obj)
{
    struct sg_link *l = (struct sg_link *)obj;

    for (uint32_t i = 0; i < l->n; i++)
        sg_image_free(&l->in[i]);
    free(l->in);
    free(l->names);
    sg_image_free(&l->done);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

CUresult sgd_cuLinkCreate_v2(struct sg_ctx *ctx, unsigned int numOptions, CUjit_option *options,
                             void **optionValues, CUlinkState *stateOut)
{
    struct sg_jit jit;
    struct sg_link *l;
    CUresult r = sg_jit_parse(numOptions, options, optionValues, &jit);

    if (r != CUDA_SUCCESS)
        return r;
    l = calloc(1, sizeof(*l));
    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&l->obj, SG_T_LINK, ctx, link_free);
    pthread_mutex_init(&l->lock, NULL);
    l->device = ctx->device;
    l->jit = jit;
    l->left = SG_PTX_TEXT_MAX;
    bool ok = sg_obj_register(&l->obj);

    if (ok)
        *stateOut = SG_HANDLE(CUlinkState, l);
    sg_obj_put(&l->obj);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

#define INPUTS_MAX 65536u

/* Reports errors of an input in the call that adds it, with a line in the state's log. */
static CUresult check_input(struct sg_link *l, const struct sg_image *img)
{
    struct sg_module *m;
    CUresult r = img->shadowed ? CUDA_SUCCESS : sg_image_check_target(img, sg_cc(l->device));

    if (r != CUDA_SUCCESS) {
        sg_jit_error(&l->jit, sg_last_error_detail());
        return r;
    }
    if (img->shadowed) /* may not become part of the result */
        return CUDA_SUCCESS;
    r = sg_ptx_parse(img, true, &l->jit, &m);
    if (r == CUDA_SUCCESS)
        sg_module_free(m);
    return r;
}

/* Checks an image and takes it over. */
static CUresult keep_image(struct sg_link *l, struct sg_image *img, const char *name)
{
    CUresult r;

    if (img->len > l->left) {
        r = sg_fail(CUDA_ERROR_INVALID_IMAGE, "linker: all inputs together are larger than %u bytes",
                    SG_PTX_TEXT_MAX);
        sg_jit_error(&l->jit, sg_last_error_detail());
        return r;
    }
    r = check_input(l, img);
    if (r != CUDA_SUCCESS)
        return r;
    if (l->n == INPUTS_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (l->n == l->cap) {
        uint32_t cap = l->cap * 2 + 4;
        struct sg_image *in = realloc(l->in, cap * sizeof(*in));
        void *names = NULL;

        if (in) {
            l->in = in;
            names = realloc(l->names, cap * sizeof(*l->names));
        }
        if (!names)
            return CUDA_ERROR_OUT_OF_MEMORY;
        l->names = names;
        l->cap = cap;
    }
    if (name && name[0])
        snprintf(l->names[l->n], sizeof(l->names[0]), "%s", name);
    else
        snprintf(l->names[l->n], sizeof(l->names[0]), "input %u", l->n + 1);
    l->left -= img->len;
    l->in[l->n++] = *img;
    img->text = NULL;
    return CUDA_SUCCESS;
}

/* Contents of objects and archives, before any of them is added. */
struct taken {
    SG_LENT struct sg_link *l;
    SG_OWNED struct sg_image *img;
    uint32_t n, cap;
    struct sg_unpack u;
    bool machine_code; /* some code has no PTX for this device */
};

static CUresult take_image(const uint8_t *data, size_t n, void *arg)
{
    struct taken *t = arg;
    struct sg_image img = {0};
    CUresult r = sg_fatbin_load(data, n, sg_cc(t->l->device), &t->u, &img);

    if (r != CUDA_SUCCESS && r != CUDA_ERROR_NO_BINARY_FOR_GPU)
        return r;
    if (r != CUDA_SUCCESS || img.is_elf) {
        t->machine_code |= r == CUDA_SUCCESS;
        sg_image_free(&img);
        return CUDA_SUCCESS;
    }
    if (t->n == t->cap) {
        uint32_t cap = t->cap * 2 + 4;
        struct sg_image *p = cap > INPUTS_MAX ? NULL : realloc(t->img, cap * sizeof(*p));

        if (!p) {
            sg_image_free(&img);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        t->img = p;
        t->cap = cap;
    }
    t->img[t->n++] = img;
    return CUDA_SUCCESS;
}

/*
 * All PTX of an object or an archive is linked. An object without PTX cannot run; a library without
 * PTX is accepted: a program may name a library, such as libcudadevrt, of which it needs nothing,
 * or only functions provided here. cuLinkComplete reports names that are missing in the end.
 */
static CUresult add_objects(struct sg_link *l, bool library, const void *data, size_t size, const char *name)
{
    struct taken t = {.l = l, .u = {.ptx_only = true}};
    CUresult r;

    pthread_mutex_lock(&l->lock);
    t.u.left = l->left;
    pthread_mutex_unlock(&l->lock);
    r = library ? sg_archive_each(data, size, take_image, &t) : sg_object_each(data, size, take_image, &t);
    if (r == CUDA_SUCCESS && !library && !t.n)
        r = sg_fail(CUDA_ERROR_NO_BINARY_FOR_GPU, "linker: the object has no PTX%s",
                    t.machine_code ? ", only machine code" : "");
    pthread_mutex_lock(&l->lock);
    if (r == CUDA_SUCCESS && l->done.text)
        r = sg_fail(CUDA_ERROR_INVALID_VALUE, "linker: an input after cuLinkComplete");
    for (uint32_t i = 0; i < t.n && r == CUDA_SUCCESS; i++)
        r = keep_image(l, &t.img[i], name);
    pthread_mutex_unlock(&l->lock);
    for (uint32_t i = 0; i < t.n; i++)
        sg_image_free(&t.img[i]);
    free(t.img);
    return r;
}

static CUresult add_input(struct sg_link *l, CUjitInputType type, const void *data, size_t size,
                          const char *name)
{
    struct sg_image img = {0};
    CUresult r;

    if (type == CU_JIT_INPUT_CUBIN) {
        if (size < 4 || memcmp(data, "\177ELF", 4)) /* driver 580: not INVALID_IMAGE */
            return sg_fail(CUDA_ERROR_INVALID_VALUE, "linker: input is no cubin");
        return sg_fail(CUDA_ERROR_NO_BINARY_FOR_GPU, "linker: input is SASS, not PTX");
    }
    if (type == CU_JIT_INPUT_OBJECT || type == CU_JIT_INPUT_LIBRARY)
        return add_objects(l, type == CU_JIT_INPUT_LIBRARY, data, size, name);
    if (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_FATBINARY)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_image_load(data, size, sg_cc(l->device), &img);
    if (r != CUDA_SUCCESS) {
        sg_image_free(&img);
        return r;
    }
    if (img.is_elf) {
        r = sg_fail(CUDA_ERROR_NO_BINARY_FOR_GPU,
                    "linker: input has no PTX, which is all that this device runs; it has: %s", img.has);
        sg_image_free(&img);
        return r;
    }
    pthread_mutex_lock(&l->lock);
    /* The caller may hold the result, which cannot be replaced. */
    r = l->done.text ? sg_fail(CUDA_ERROR_INVALID_VALUE, "linker: an input after cuLinkComplete")
                     : keep_image(l, &img, name);
    pthread_mutex_unlock(&l->lock);
    sg_image_free(&img);
    return r;
}

CUresult sgd_cuLinkAddData_v2(struct sg_link *l, CUjitInputType type, void *data, size_t size,
                              const char *name, unsigned int numOptions, CUjit_option *options,
                              void **optionValues)
{
    struct sg_jit jit;
    CUresult r = sg_jit_parse(numOptions, options, optionValues, &jit);

    return r != CUDA_SUCCESS ? r : add_input(l, type, data, size, name);
}

/* Driver 580 reads the file before it looks at the linker. */
CUresult sgd_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                              unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    SG_AUTO struct sg_link *l = SG_LOOKUP(state, SG_T_LINK);
    struct sg_jit jit;
    size_t size;
    void *data;
    CUresult r = sg_jit_parse(numOptions, options, optionValues, &jit);

    if (r == CUDA_SUCCESS)
        r = sg_file_read(path, &data, &size);
    if (r == CUDA_ERROR_FILE_NOT_FOUND && type == CU_JIT_INPUT_CUBIN)
        return CUDA_ERROR_INVALID_VALUE; /* as driver 580 says of a missing cubin */
    if (r != CUDA_SUCCESS)
        return r;
    r = l ? add_input(l, type, data, size, path) : CUDA_ERROR_INVALID_HANDLE;
    free(data);
    return r;
}

/* An explicit link must be complete, so the linker's log lists the missing names. */
static CUresult undefined_symbols(struct sg_link *l, const struct sg_module *m)
{
    const char *name = sg_module_undefined(m);
    char text[SG_DIAG_MAX];

    for (uint32_t i = 0; i < sg_module_global_count(m) && !name; i++) {
        struct sg_global_info g;

        sg_module_get_global(m, i, &g);
        name = g.is_extern ? g.name : NULL;
    }
    if (!name)
        return CUDA_SUCCESS;
    snprintf(text, sizeof(text), "linker: '%s' is not defined in any input", name);
    sg_jit_error(&l->jit, text);
    return sg_fail(CUDA_ERROR_INVALID_PTX, "%s", text);
}

/* The option is stored with the code, as a pragma in the linked text. */
static CUresult note_registers(struct sg_image *img, uint32_t most)
{
    char note[64];
    int n = snprintf(note, sizeof(note), "\n.pragma \"" SG_PRAGMA_REGISTERS "%u\";\n", most);
    char *text = realloc(img->text, img->len + (size_t)n + 1);

    if (!text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(text + img->len, note, (size_t)n + 1);
    img->text = text;
    img->len += (size_t)n;
    return CUDA_SUCCESS;
}

/* Links all inputs into l->done, and checks the result. */
static CUresult complete_link(struct sg_link *l)
{
    const char **names = calloc(l->n, sizeof(*names));
    struct sg_image done;
    struct sg_module *m;
    CUresult r;

    if (l->done.text) {
        free(names);
        return CUDA_SUCCESS;
    }
    if (!names)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < l->n; i++)
        names[i] = l->names[i];
    r = sg_image_link(l->in, names, l->n, &done);
    free(names);
    if (r == CUDA_SUCCESS) {
        done.native = true;
        for (uint32_t i = 0; i < l->n; i++)
            done.native &= l->in[i].native || l->in[i].target <= (uint32_t)sg_cc(l->device);
        r = sg_image_check_target(&done, sg_cc(l->device));
        if (r != CUDA_SUCCESS)
            sg_image_free(&done);
    }
    if (r != CUDA_SUCCESS) {
        sg_jit_error(&l->jit, sg_last_error_detail());
        return r;
    }
    r = sg_ptx_parse(&done, false, &l->jit, &m);
    if (r != CUDA_SUCCESS) {
        sg_image_free(&done);
        return r;
    }
    r = undefined_symbols(l, m);
    sg_module_free(m);
    if (r == CUDA_SUCCESS && l->jit.max_registers)
        r = note_registers(&done, l->jit.max_registers);
    if (r != CUDA_SUCCESS) {
        sg_image_free(&done);
        return r;
    }
    l->done = done;
    return CUDA_SUCCESS;
}

CUresult sgd_cuLinkComplete(struct sg_link *l, void **cubinOut, size_t *sizeOut)
{
    CUresult r;

    pthread_mutex_lock(&l->lock);
    r = cubinOut && l->n ? complete_link(l) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        *cubinOut = l->done.text;
        if (sizeOut)
            *sizeOut = l->done.len + 1;
    }
    if (cubinOut && l->n)
        sg_jit_done(&l->jit);
    pthread_mutex_unlock(&l->lock);
    return r;
}

CUresult sgd_cuLinkDestroy(CUlinkState state)
{
    SG_AUTO struct sg_link *l = SG_LOOKUP(state, SG_T_LINK);

    return l && sg_obj_unregister(&l->obj) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
