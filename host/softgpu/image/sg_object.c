/* SPDX-License-Identifier: MIT */
/*
 * Further inputs of the linker: host objects made by nvcc (-dc), with device code in a separate
 * section, and archives of them. Formats: ELF-64 (System V gABI), ar(5).
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "image/image.h"

#define FATBIN_MAGIC 0xBA55ED50u
#define AR_MAGIC "!<arch>\n"
#define AR_HEADER 60u

static bool in_range(uint64_t off, uint64_t n, uint64_t max)
{
    return off <= max && n <= max - off;
}

/* The containers of a section are consecutive, each aligned to eight bytes. */
static CUresult each_container(const uint8_t *p, uint64_t n, sg_container_fn *fn, void *arg)
{
    uint64_t at = 0;

    while (n - at >= 16) {
        uint32_t magic;
        uint16_t head;
        uint64_t body;
        CUresult r;

        memcpy(&magic, p + at, 4);
        if (magic != FATBIN_MAGIC) {
            at += 8;
            continue;
        }
        memcpy(&head, p + at + 6, 2);
        memcpy(&body, p + at + 8, 8);
        if (!in_range(head, body, n - at))
            return sg_fail(CUDA_ERROR_INVALID_IMAGE, "linker: a fat binary of an object is cut short");
        r = fn(p + at, head + body, arg);
        if (r != CUDA_SUCCESS)
            return r;
        at += (head + body + 7) & ~7ull;
        if (at > n)
            break;
    }
    return CUDA_SUCCESS;
}

CUresult sg_object_each(const void *data, size_t n, sg_container_fn *fn, void *arg)
{
    const uint8_t *p = data;
    struct sg_elf_info info;
    uint64_t left = n; /* sections that lie in each other are larger than the object */
    Elf64_Shdr names, sh;
    Elf64_Ehdr eh;

    if (!sg_elf_scan(data, n, &info) || info.is_cubin)
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "linker: the input is no object of the host");
    memcpy(&eh, p, sizeof(eh));
    if (!eh.e_shnum || eh.e_shstrndx >= eh.e_shnum)
        return CUDA_SUCCESS;
    memcpy(&names, p + eh.e_shoff + eh.e_shstrndx * sizeof(sh), sizeof(names));
    if (names.sh_type != SHT_STRTAB || !in_range(names.sh_offset, names.sh_size, n))
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "linker: the object's section names are malformed");
    for (unsigned i = 0; i < eh.e_shnum; i++) {
        static const char *const want[] = {".nv_fatbin", "__nv_relfatbin"};
        CUresult r = CUDA_SUCCESS;

        memcpy(&sh, p + eh.e_shoff + i * sizeof(sh), sizeof(sh));
        for (unsigned k = 0; k < 2 && sh.sh_type == SHT_PROGBITS && r == CUDA_SUCCESS; k++) {
            size_t len = strlen(want[k]) + 1;

            if (!in_range(sh.sh_name, len, names.sh_size) ||
                memcmp(p + names.sh_offset + sh.sh_name, want[k], len))
                continue;
            if (sh.sh_size > left)
                return sg_fail(CUDA_ERROR_INVALID_IMAGE, "linker: sections of the object lie in each other");
            left -= sh.sh_size;
            r = each_container(p + sh.sh_offset, sh.sh_size, fn, arg);
        }
        if (r != CUDA_SUCCESS)
            return r;
    }
    return CUDA_SUCCESS;
}

CUresult sg_archive_each(const void *data, size_t n, sg_container_fn *fn, void *arg)
{
    const uint8_t *p = data;
    size_t at = sizeof(AR_MAGIC) - 1;

    if (n < at || memcmp(p, AR_MAGIC, at))
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "linker: the input is no archive");
    while (n - at >= AR_HEADER) {
        char digits[11] = {0};
        uint64_t size;
        CUresult r;

        memcpy(digits, p + at + 48, 10);
        if (memcmp(p + at + 58, "`\n", 2))
            break; /* padding, or a NUL that was added */
        size = strtoull(digits, NULL, 10);
        at += AR_HEADER;
        if (size > n - at)
            return sg_fail(CUDA_ERROR_INVALID_IMAGE, "linker: the archive is cut short");
        if (sg_elf_is(p + at, size)) {
            /* ar aligns to two bytes only: a copy, so that headers can be read in place. */
            void *copy = malloc(size ? size : 1);

            if (!copy)
                return CUDA_ERROR_OUT_OF_MEMORY;
            memcpy(copy, p + at, size);
            r = sg_object_each(copy, size, fn, arg);
            free(copy);
            if (r != CUDA_SUCCESS)
                return r;
        }
        at += size + (size & 1);
        if (at > n)
            break;
    }
    return CUDA_SUCCESS;
}
