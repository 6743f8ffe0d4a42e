/* SPDX-License-Identifier: MIT */
/*
 * Formats that cuModuleLoadData and cuLibraryLoadData accept: the wrapper that nvcc puts into a
 * program, a fat binary, a cubin, or PTX text. The size is not passed; PTX ends with a NUL, the
 * others contain their size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/image.h"

#define WRAPPER_MAGIC 0x466243b1u /* __fatBinC_Wrapper_t, fatbinary_section.h */
#define FATBIN_MAGIC 0xBA55ED50u

struct wrapper {
    uint32_t magic, version;
    const void *data;
    void *more; /* version 2: array of further fat binaries, ended by NULL */
};

static CUresult load_cubin(const void *image, size_t max, struct sg_image *out)
{
    struct sg_elf_info info;

    if (!sg_elf_scan(image, max, &info))
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "ELF image is malformed or truncated");
    if (!info.is_cubin)
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "ELF image is not a cubin");
    if (info.size > SG_PTX_TEXT_MAX)
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "cubin of %llu bytes is too large",
                       (unsigned long long)info.size);
    out->text = malloc(info.size + 1);
    if (!out->text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(out->text, image, info.size);
    out->text[info.size] = '\0';
    out->len = info.size;
    out->target = info.sm;
    out->is_elf = true;
    snprintf(out->has, sizeof(out->has), "SASS %u", info.sm);
    return CUDA_SUCCESS;
}

static CUresult load_text(const char *text, size_t max, struct sg_image *out)
{
    size_t len = strnlen(text, max < SG_PTX_TEXT_MAX ? max : SG_PTX_TEXT_MAX);

    if (len == SG_PTX_TEXT_MAX)
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "PTX text has no end within %u bytes", SG_PTX_TEXT_MAX);
    if (len >= 7 && memcmp(text, "\177TileIR", 7) == 0)
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "Tile IR bytecode is not served: a kernel needs PTX");
    /* PTX begins with .version, blanks and comments apart; anything else is no image at all. */
    if (!sg_ptx_begins(text, len))
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "image is neither fat binary, cubin nor PTX");
    out->text = malloc(len + 1);
    if (!out->text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(out->text, text, len);
    out->text[len] = '\0';
    out->len = len;
    strcpy(out->has, "PTX text");
    return CUDA_SUCCESS;
}

CUresult sg_image_link(const struct sg_image *img, const char *const *names, uint32_t n, struct sg_image *out)
{
    struct sg_ptx_input *in = calloc(n ? n : 1, sizeof(*in));
    struct sg_diag diag = {0};
    bool contained = false;
    char *text = NULL;
    size_t len = 0;
    int r;

    if (!in)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        in[i] = (struct sg_ptx_input){img[i].text, img[i].len, names[i], img[i].shadowed};
        contained |= img[i].target != 0;
    }
    r = sg_ptx_link(in, n, &text, &len, &diag);
    free(in);
    if (r)
        return sg_fail((CUresult)r, "linker: line %u: %s", diag.line, diag.message);
    memset(out, 0, sizeof(*out));
    out->text = text;
    out->len = len;
    out->target = contained ? sg_ptx_target(text, len) : 0;
    snprintf(out->has, sizeof(out->has), "%u linked PTX texts", n);
    return CUDA_SUCCESS;
}

/*
 * A program compiled with -rdc=true: its wrapper lists the fat binaries of its objects, and the
 * linked binary, which has only SASS. The driver links the PTX of the objects if the SASS does not
 * fit the device. An object for which a driver would use SASS (such as the device runtime library)
 * is linked only if some of its names are needed; names provided by the software GPU itself are
 * not.
 */
#define LIST_MAX 65536u
static CUresult load_list(const struct wrapper *w, int cc, struct sg_image *out)
{
    const void *const *list = w->more;
    struct sg_image *img = NULL, linked;
    const char **names = NULL;
    char(*name)[24] = NULL;
    struct sg_unpack u = {.left = SG_PTX_TEXT_MAX};
    uint32_t n = 0, used = 0;
    bool broken = false;
    CUresult r = sg_fatbin_load(w->data, SIZE_MAX, cc, &u, out);

    if ((r != CUDA_SUCCESS && r != CUDA_ERROR_NO_BINARY_FOR_GPU) || (r == CUDA_SUCCESS && !out->is_elf))
        return r;
    u.ptx_only = true;
    while (n < LIST_MAX && list[n])
        n++;
    img = calloc(n, sizeof(*img));
    names = calloc(n, sizeof(*names));
    name = calloc(n, sizeof(*name));
    for (uint32_t i = 0; i < n && img && names && name; i++) {
        CUresult e = sg_fatbin_load(list[i], SIZE_MAX, cc, &u, &img[used]);

        if (e == CUDA_SUCCESS && !img[used].is_elf) {
            snprintf(name[used], sizeof(name[used]), "object %u", i + 1);
            names[used] = name[used];
            used++;
            continue;
        }
        sg_image_free(&img[used]);
        if (e != CUDA_SUCCESS && e != CUDA_ERROR_NO_BINARY_FOR_GPU) {
            r = e;
            broken = true;
            break;
        }
    }
    if (n && (!img || !names || !name))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    else if (used && !broken) {
        CUresult e = sg_image_link(img, names, used, &linked);

        linked.native = out->native;
        if (e != CUDA_ERROR_NO_BINARY_FOR_GPU)
            sg_image_free(out);
        if (e == CUDA_SUCCESS)
            *out = linked;
        r = e != CUDA_ERROR_NO_BINARY_FOR_GPU ? e : r;
    }
    for (uint32_t i = 0; i < used; i++)
        sg_image_free(&img[i]);
    free(img);
    free(names);
    free(name);
    if (r != CUDA_SUCCESS)
        sg_image_free(out);
    return r;
}

CUresult sg_image_load(const void *image, size_t max, int cc, struct sg_image *out)
{
    struct sg_unpack u = {.left = SG_PTX_TEXT_MAX};
    uint32_t magic;
    struct wrapper w;

    memset(out, 0, sizeof(*out));
    if (max >= sizeof(magic)) {
        /* Even a PTX text shorter than that ends with a NUL; bytes are compared one by one. */
        const unsigned char *b = image;

        magic = b[0];
        for (unsigned i = 1; i < 4 && b[i - 1]; i++)
            magic |= (uint32_t)b[i] << (8 * i);
        if (magic == WRAPPER_MAGIC) {
            if (max < sizeof(w))
                return sg_fail(CUDA_ERROR_INVALID_IMAGE, "fat binary wrapper is truncated");
            memcpy(&w, image, sizeof(w));
            if (!w.data || (w.version != 1 && w.version != 2))
                return sg_fail(CUDA_ERROR_INVALID_IMAGE, "fat binary wrapper of version %u", w.version);
            return w.version == 2 && w.more ? load_list(&w, cc, out)
                                            : sg_fatbin_load(w.data, SIZE_MAX, cc, &u, out);
        }
        if (magic == FATBIN_MAGIC)
            return sg_fatbin_load(image, max, cc, &u, out);
        if (magic == 0x464c457fu) /* "\177ELF" */
            return load_cubin(image, max, out);
    }
    return load_text(image, max, out);
}
