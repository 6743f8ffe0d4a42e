/* SPDX-License-Identifier: MIT */
/*
 * seeds DIR TEXT: writes the seeds of fuzz_image, which are binary and therefore not in the tree:
 * the PTX of the file TEXT bare and in fat binaries (stored, LZ4, zstd; one target and several), and
 * a cubin without content. The layouts are those of image/sg_fatbin.c and of the System V gABI.
 */
#include <elf.h>
#include <lz4.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define CAP 65536
#define ENTRY 64

static uint8_t out[CAP];
static size_t len;
static const char *dir;

static void write_file(const char *name)
{
    char path[4096];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "wb");
    if (!f || fwrite(out, 1, len, f) != len || fclose(f)) {
        perror(path);
        exit(1);
    }
}

static void put(uint64_t v, unsigned bytes)
{
    memcpy(out + len, &v, bytes);
    len += bytes;
}

static void start(void)
{
    len = 0;
    put(1, 1); /* device: 8.0 */
    put(0xBA55ED50u, 4);
    put(1, 2);
    put(16, 2);
    put(0, 8);
}

/* packing: 0 stored, 1 LZ4, 2 zstd */
static void entry(unsigned kind, unsigned arch, int packing, const char *text, size_t n)
{
    uint8_t packed[CAP / 2];
    size_t m = 0;

    if (packing == 1)
        m = (size_t)LZ4_compress_default(text, (char *)packed, (int)n, sizeof(packed));
    else if (packing == 2)
        m = ZSTD_compress(packed, sizeof(packed), text, n, 3);
    put(kind, 2);
    put(0x0101, 2);
    put(ENTRY, 4);
    put(packing ? m : n, 8);
    put(m, 4);
    put(0, 4);
    put(9, 2);
    put(0, 2);
    put(arch, 4);
    put(0, 8);
    put(packing == 1 ? 0x2000 : packing == 2 ? 0x8000 : 0, 8);
    put(0, 8);
    put(packing ? n : 0, 8);
    memcpy(out + len, packing ? packed : (const uint8_t *)text, packing ? m : n);
    len += packing ? m : n;
}

static void finish(const char *name)
{
    uint64_t size = len - 1 - 16;

    memcpy(out + 1 + 8, &size, 8);
    write_file(name);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"stored", "lz4", "zstd"};
    static char text[CAP / 4];
    Elf64_Ehdr eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1, 51, 8},
                     .e_machine = 190,
                     .e_flags = 80 << 8,
                     .e_ehsize = sizeof(eh),
                     .e_shoff = sizeof(eh),
                     .e_shnum = 2,
                     .e_shentsize = sizeof(Elf64_Shdr)};
    Elf64_Shdr sh = {.sh_type = SHT_PROGBITS, .sh_offset = 64, .sh_size = 64};
    size_t n;
    FILE *f;

    if (argc != 3 || !(f = fopen(argv[2], "rb"))) {
        fprintf(stderr, "usage: seeds DIR TEXT\n");
        return 2;
    }
    n = fread(text, 1, sizeof(text) - 1, f) + 1; /* with the NUL that images count */
    fclose(f);
    dir = argv[1];
    for (int i = 0; i < 3; i++) {
        start();
        entry(1, 80, i, text, n);
        finish(names[i]);
    }
    start();
    entry(2, 80, 0, "machine code", 12);
    entry(1, 75, 2, text, n);
    entry(1, 90, 1, text, n);
    entry(8, 90, 0, "intermediate", 12);
    finish("several");
    start();
    entry(2, 90, 0, "machine code", 12);
    finish("sass");
    len = 0;
    put(0, 1);
    memcpy(out + len, text, n);
    len += n;
    write_file("text");
    len = 0;
    put(0, 1);
    memcpy(out + len, &eh, sizeof(eh));
    memset(out + len + sizeof(eh), 0, sizeof(sh));
    memcpy(out + len + sizeof(eh) + sizeof(sh), &sh, sizeof(sh));
    len += sizeof(eh) + 2 * sizeof(sh);
    write_file("cubin");
    return 0;
}
