/* SPDX-License-Identifier: MIT */
/*
 * Recognises cubins, to describe images that cannot run. Formats: ELF-64 (System V gABI); machine
 * number 190 (EM_CUDA), where e_flags contains the SM version: bits 0..7 in older files, bits 8..15
 * in files of ABI version 8 and later (observed with CUDA 13 tools).
 */
#include <elf.h>
#include <string.h>

#include "image/image.h"

#define SG_EM_CUDA 190

bool sg_elf_is(const void *data, size_t max)
{
    return max >= SELFMAG && !memcmp(data, ELFMAG, SELFMAG);
}

/* off + n <= max without overflow. */
static bool in_range(uint64_t off, uint64_t n, uint64_t max)
{
    return off <= max && n <= max - off;
}

static void extend_to(struct sg_elf_info *info, uint64_t end)
{
    if (end > info->size)
        info->size = end;
}

bool sg_elf_scan(const void *data, size_t max, struct sg_elf_info *out)
{
    const uint8_t *p = data;
    Elf64_Ehdr eh;

    memset(out, 0, sizeof(*out));
    if (max < sizeof(eh) || !sg_elf_is(data, max))
        return false;
    memcpy(&eh, p, sizeof(eh));
    if (eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_ident[EI_DATA] != ELFDATA2LSB ||
        eh.e_ehsize < sizeof(eh) || eh.e_ehsize > max)
        return false;
    out->is_cubin = eh.e_machine == SG_EM_CUDA;
    out->sm = eh.e_ident[EI_ABIVERSION] >= 8 ? (eh.e_flags >> 8) & 0xff : eh.e_flags & 0xff;
    extend_to(out, eh.e_ehsize);

    if (eh.e_shnum) {
        uint64_t table = (uint64_t)eh.e_shnum * sizeof(Elf64_Shdr);

        if (eh.e_shentsize != sizeof(Elf64_Shdr) || !in_range(eh.e_shoff, table, max))
            return false;
        extend_to(out, eh.e_shoff + table);
        for (unsigned i = 0; i < eh.e_shnum; i++) {
            Elf64_Shdr sh;

            memcpy(&sh, p + eh.e_shoff + i * sizeof(sh), sizeof(sh));
            if (sh.sh_type == SHT_NOBITS || sh.sh_type == SHT_NULL)
                continue;
            if (!in_range(sh.sh_offset, sh.sh_size, max))
                return false;
            extend_to(out, sh.sh_offset + sh.sh_size);
        }
    }
    if (eh.e_phnum) {
        uint64_t table = (uint64_t)eh.e_phnum * sizeof(Elf64_Phdr);

        if (eh.e_phentsize != sizeof(Elf64_Phdr) || !in_range(eh.e_phoff, table, max))
            return false;
        extend_to(out, eh.e_phoff + table);
        for (unsigned i = 0; i < eh.e_phnum; i++) {
            Elf64_Phdr ph;

            memcpy(&ph, p + eh.e_phoff + i * sizeof(ph), sizeof(ph));
            if (!in_range(ph.p_offset, ph.p_filesz, max))
                return false;
            extend_to(out, ph.p_offset + ph.p_filesz);
        }
    }
    return true;
}
