/* SPDX-License-Identifier: MIT */
/*
 * Copies a library without the PTX in its fat binaries: only machine code (SASS) is left, as in builds
 * for certain GPUs. The entries stay in place, with a kind that no driver knows.
 *
 *   no_ptx FROM TO
 *
 * Exit status 0: at least one PTX entry was removed; prints their number.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FATBIN_MAGIC 0xBA55ED50u
#define KIND_PTX 1
#define KIND_NONE 0x40 /* neither PTX nor ELF */

static uint32_t get32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* One container of at most `size` bytes: header (16 bytes: magic, version, header size, size of the
 * rest), then entries (kind, ..., header size at 4, payload size at 8). Returns the number removed. */
static long take_out(uint8_t *p, size_t size)
{
    uint64_t end, at = 16;
    long n = 0;

    if (size < 16 || get32(p) != FATBIN_MAGIC || p[4] != 1 || p[6] != 16 || get64(p + 8) > size - 16)
        return 0;
    end = 16 + get64(p + 8);
    while (end - at >= 64) {
        uint64_t header = get32(p + at + 4), payload = get64(p + at + 8);

        if (header < 64 || header > end - at || payload > end - at - header)
            break;
        if (p[at] == KIND_PTX && p[at + 1] == 0) {
            p[at] = KIND_NONE;
            n++;
        }
        at += header + payload;
    }
    return n;
}

int main(int argc, char **argv)
{
    uint8_t *data;
    FILE *f;
    long size, n = 0;

    if (argc != 3) {
        fputs("usage: no_ptx FROM TO\n", stderr);
        return 2;
    }
    f = fopen(argv[1], "rb");
    if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 16) {
        fprintf(stderr, "no_ptx: cannot read %s\n", argv[1]);
        return 2;
    }
    rewind(f);
    data = malloc((size_t)size);
    if (!data || fread(data, 1, (size_t)size, f) != (size_t)size) {
        fprintf(stderr, "no_ptx: cannot read %s\n", argv[1]);
        return 2;
    }
    fclose(f);
    for (long at = 0; at <= size - 16; at += 8)
        n += take_out(data + at, (size_t)(size - at));
    f = fopen(argv[2], "wb");
    if (!f || fwrite(data, 1, (size_t)size, f) != (size_t)size || fclose(f)) {
        fprintf(stderr, "no_ptx: cannot write %s\n", argv[2]);
        return 2;
    }
    free(data);
    printf("%ld entries of PTX taken out\n", n);
    return n > 0 ? 0 : 1;
}
