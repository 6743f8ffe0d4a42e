/* SPDX-License-Identifier: MIT */
/*
 * What cuModuleLoadData and cuLibraryLoadData may be handed: the wrapper that nvcc puts into a
 * program, a fat binary, a cubin, or PTX text. The size is not passed; PTX ends with a NUL, the
 * others say their size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sg_int.h"

#define WRAPPER_MAGIC 0x466243b1u /* __fatBinC_Wrapper_t, fatbinary_section.h */
#define FATBIN_MAGIC 0xBA55ED50u

struct wrapper {
    uint32_t magic, version;
    const void *data;
    void *more; /* version 2: array of further fat binaries, ended by NULL */
};

void sg_image_free(struct sg_image *img)
{
    free(img->text);
    img->text = NULL;
    img->len = 0;
}

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
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "PTX text has no end within %u bytes",
                       SG_PTX_TEXT_MAX);
    /* PTX starts with a blank, a comment or a directive; anything else is no image at all. */
    if (!len || !(text[0] == '.' || text[0] == '/' || text[0] == '\n' || text[0] == '\r' ||
                  text[0] == ' ' || text[0] == '\t'))
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

CUresult sg_image_load(const void *image, size_t max, int cc, struct sg_image *out)
{
    uint32_t magic;
    struct wrapper w;

    memset(out, 0, sizeof(*out));
    if (max >= sizeof(magic)) {
        /* PTX text shorter than that still has its NUL; bytes are compared one by one. */
        const unsigned char *b = image;

        magic = b[0];
        for (unsigned i = 1; i < 4 && b[i - 1]; i++)
            magic |= (uint32_t)b[i] << (8 * i);
        if (magic == WRAPPER_MAGIC) {
            if (max < sizeof(w))
                return sg_fail(CUDA_ERROR_INVALID_IMAGE, "fat binary wrapper is truncated");
            memcpy(&w, image, sizeof(w));
            if (!w.data || (w.version != 1 && w.version != 2))
                return sg_fail(CUDA_ERROR_INVALID_IMAGE, "fat binary wrapper of version %u",
                               w.version);
            return sg_fatbin_load(w.data, SIZE_MAX, cc, out);
        }
        if (magic == FATBIN_MAGIC)
            return sg_fatbin_load(image, max, cc, out);
        if (magic == 0x464c457fu) /* "\177ELF" */
            return load_cubin(image, max, out);
    }
    return load_text(image, max, out);
}
