/* SPDX-License-Identifier: MIT */
/*
 * Computes the length of a code image. cuModuleLoadData and cuLibraryLoadData get a bare pointer to
 * PTX text, a cubin (ELF), a fatbin, or the 24-byte wrapper that nvcc puts around a fatbin. Only
 * sizes are computed here; the worker interprets the contents.
 */
#define _GNU_SOURCE
#include "code.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u

struct fatbin_wrapper {
    uint32_t magic, version;
    const void *data;
    const void *extra; /* version 2: the fat binaries of the linked objects, ended by NULL */
};

struct fatbin_header {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size; /* of what follows the header */
};

/* True if [code, code + n) can be read: inside the limit, or, without a limit, mapped. */
static bool may_read(const void *code, uint64_t n, uint64_t limit)
{
    return limit != 0 ? n <= limit : lnk_memory_mapped(code, n);
}

static void grow_size(uint64_t *size, uint64_t end)
{
    if (end > *size)
        *size = end;
}

static CUresult measure_elf(const uint8_t *code, uint64_t limit, uint64_t *size, const char **why)
{
    Elf64_Ehdr eh;
    uint64_t table;

    *why = "ELF header";
    if (!may_read(code, sizeof(eh), limit))
        return CUDA_ERROR_INVALID_IMAGE;
    memcpy(&eh, code, sizeof(eh));
    if (eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_ident[EI_DATA] != ELFDATA2LSB)
        return CUDA_ERROR_INVALID_IMAGE;
    *size = sizeof(eh);

    *why = "ELF section headers";
    table = (uint64_t)eh.e_shnum * sizeof(Elf64_Shdr);
    if (eh.e_shnum != 0 && (eh.e_shentsize != sizeof(Elf64_Shdr) || eh.e_shoff > (1ull << 40) ||
                            !may_read(code, eh.e_shoff + table, limit)))
        return CUDA_ERROR_INVALID_IMAGE;
    if (eh.e_shnum != 0)
        grow_size(size, eh.e_shoff + table);
    for (unsigned i = 0; i < eh.e_shnum; i++) {
        Elf64_Shdr sh;

        memcpy(&sh, code + eh.e_shoff + i * sizeof(sh), sizeof(sh));
        if (sh.sh_type == SHT_NOBITS || sh.sh_type == SHT_NULL)
            continue;
        *why = "an ELF section lies outside the image";
        if (sh.sh_offset > (1ull << 40) || sh.sh_size > (1ull << 40))
            return CUDA_ERROR_INVALID_IMAGE;
        grow_size(size, sh.sh_offset + sh.sh_size);
    }

    *why = "ELF program headers";
    table = (uint64_t)eh.e_phnum * sizeof(Elf64_Phdr);
    if (eh.e_phnum != 0 && (eh.e_phentsize != sizeof(Elf64_Phdr) || eh.e_phoff > (1ull << 40) ||
                            !may_read(code, eh.e_phoff + table, limit)))
        return CUDA_ERROR_INVALID_IMAGE;
    if (eh.e_phnum != 0)
        grow_size(size, eh.e_phoff + table);
    for (unsigned i = 0; i < eh.e_phnum; i++) {
        Elf64_Phdr ph;

        memcpy(&ph, code + eh.e_phoff + i * sizeof(ph), sizeof(ph));
        if (ph.p_filesz == 0)
            continue;
        *why = "an ELF segment lies outside the image";
        if (ph.p_offset > (1ull << 40) || ph.p_filesz > (1ull << 40))
            return CUDA_ERROR_INVALID_IMAGE;
        grow_size(size, ph.p_offset + ph.p_filesz);
    }
    *why = "the ELF image is truncated";
    return may_read(code, *size, limit) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

static CUresult measure_fatbin(const void *code, uint64_t limit, uint64_t *size, const char **why)
{
    struct fatbin_header h;

    *why = "fatbin header";
    if (!may_read(code, sizeof(h), limit))
        return CUDA_ERROR_INVALID_IMAGE;
    memcpy(&h, code, sizeof(h));
    if (h.magic != FATBIN_MAGIC || h.header_size < sizeof(h) || h.size > VGP_BLOB_MAX)
        return CUDA_ERROR_INVALID_IMAGE;
    *size = h.header_size + h.size;
    *why = "the fatbin is truncated";
    return may_read(code, *size, limit) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

/* The magic bytes of CUDA's Tile IR, which cuBLAS 13.10 and cuTile hand to the driver. */
static bool is_tile_ir(const void *code, uint64_t limit)
{
    static const char magic[8] = "\177TileIR";

    /* Not memcmp(): a short text may be the last of what can be read. */
    return may_read(code, sizeof(magic), limit) && strncmp(code, magic, sizeof(magic)) == 0;
}

/* PTX is text with a NUL at its end (which the driver wants to see too). */
static CUresult measure_ptx(const char *code, uint64_t limit, uint64_t *size, const char **why)
{
    size_t max = limit != 0 ? limit : VGP_BLOB_MAX;
    size_t n = 0;

    *why = "PTX text without an end";
    n = strnlen(code, max);
    if (n == max && limit == 0)
        return CUDA_ERROR_INVALID_IMAGE;
    /* Text starts with printable characters; any other start is not an image. */
    *why = "neither a fatbin, an ELF image nor PTX text";
    for (size_t i = 0; i < 16 && i < n; i++) {
        unsigned char c = (unsigned char)code[i];

        if (c < 32 && c != '\t' && c != '\n' && c != '\r')
            return CUDA_ERROR_INVALID_IMAGE;
        if (c >= 127)
            return CUDA_ERROR_INVALID_IMAGE;
    }
    if (n == 0)
        return CUDA_ERROR_INVALID_IMAGE;
    *size = n == max ? n : n + 1;
    return CUDA_SUCCESS;
}

/*
 * The fat binaries of an image compiled with -rdc=true, one after the other, each at a multiple of
 * eight bytes: the linked one, then those of the objects. (The wrapper's list holds pointers.)
 */
static CUresult join_objects(const void *const *list, struct vcu_image *image, const char **why)
{
    uint64_t size, at = (image->size + 7) & ~7ull;
    uint8_t *p = NULL;

    for (int pass = 0; pass < 2; pass++) {
        at = (image->size + 7) & ~7ull;
        for (size_t i = 0;; i++) {
            CUresult res;

            *why = "the list of linked fatbins";
            if (pass == 0 && !lnk_memory_mapped(&list[i], sizeof(list[i])))
                goto bad;
            if (list[i] == NULL)
                break;
            res = lnk_memory_mapped(list[i], sizeof(struct fatbin_header))
                      ? measure_fatbin(list[i], 0, &size, why)
                      : CUDA_ERROR_INVALID_IMAGE;
            if (res != CUDA_SUCCESS || size > VGP_BLOB_MAX || at + size > VGP_BLOB_MAX)
                goto bad;
            if (pass == 1)
                memcpy(p + at, list[i], size);
            at = (at + size + 7) & ~7ull;
        }
        if (pass == 0) {
            p = calloc(1, at);
            if (p == NULL)
                return CUDA_ERROR_OUT_OF_MEMORY;
            memcpy(p, image->data, image->size);
        }
    }
    image->data = image->copy = p;
    image->size = at;
    return CUDA_SUCCESS;
bad:
    free(p);
    return CUDA_ERROR_INVALID_IMAGE;
}

void vcu_image_done(struct vcu_image *image)
{
    free(image->copy);
    image->copy = NULL;
}

/* The first four bytes, or 0 for a start like text, which may be shorter. */
static uint32_t read_magic(const void *code, uint64_t limit)
{
    uint8_t first = *(const uint8_t *)code;
    uint32_t magic = 0;

    if ((first == (WRAPPER_MAGIC & 0xff) || first == (FATBIN_MAGIC & 0xff) || first == ELFMAG0) &&
        may_read(code, sizeof(magic), limit)) {
        /* "P" (0x50) starts a fatbin, and maybe a text: no NUL before the end of the magic. */
        if (first != (FATBIN_MAGIC & 0xff) || memcmp(code, "P\xed", 2) == 0)
            memcpy(&magic, code, sizeof(magic));
    }
    return magic;
}

CUresult vcu_image_measure(const void *code, uint64_t limit, struct vcu_image *image, const char **why)
{
    const void *const *objects = NULL;
    uint32_t magic;
    CUresult res;

    image->copy = NULL;
    *why = "the image pointer is NULL";
    if (code == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *why = "the image is not in mapped memory";
    if (limit == 0 && !lnk_memory_mapped(code, 1))
        return CUDA_ERROR_INVALID_VALUE;
    *why = "the image is shorter than any header";
    if (limit != 0 && limit < sizeof(magic))
        return CUDA_ERROR_INVALID_IMAGE;
    magic = read_magic(code, limit);
    if (magic == WRAPPER_MAGIC) {
        struct fatbin_wrapper w;

        *why = "fatbin wrapper";
        if (!may_read(code, sizeof(w), limit))
            return CUDA_ERROR_INVALID_IMAGE;
        memcpy(&w, code, sizeof(w));
        if (w.version != 1 && w.version != 2)
            return CUDA_ERROR_INVALID_IMAGE;
        if (w.data == NULL || !lnk_memory_mapped(w.data, sizeof(struct fatbin_header)))
            return CUDA_ERROR_INVALID_IMAGE;
        code = w.data;
        objects = w.version == 2 ? w.extra : NULL;
        limit = 0; /* the fatbin is elsewhere */
        magic = read_magic(code, 0);
    }
    image->data = code;
    if (magic == FATBIN_MAGIC) {
        image->kind = VCU_IMAGE_FATBIN;
        res = measure_fatbin(code, limit, &image->size, why);
        if (res == CUDA_SUCCESS && objects != NULL)
            res = join_objects(objects, image, why);
    } else if (memcmp(&magic, ELFMAG, SELFMAG) == 0) {
        image->kind = VCU_IMAGE_ELF;
        res = measure_elf(code, limit, &image->size, why);
    } else if (is_tile_ir(code, limit)) {
        /* The answer of a driver without its compiler. */
        *why = "Tile IR bytecode, which is not served: a kernel needs PTX";
        res = CUDA_ERROR_INVALID_IMAGE;
    } else {
        image->kind = VCU_IMAGE_PTX;
        res = measure_ptx(code, limit, &image->size, why);
    }
    if (res == CUDA_SUCCESS && image->size > VGP_BLOB_MAX) {
        *why = "the image is larger than 1 GiB";
        vcu_image_done(image);
        res = CUDA_ERROR_INVALID_IMAGE;
    }
    return res;
}
