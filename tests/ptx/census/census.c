/* SPDX-License-Identifier: MIT */
/*
 * census [--opcodes FILE] LIBRARY...
 * census --text < PTX: the instruction spellings of text on standard input, one per line
 *
 * Takes the PTX out of every fat binary in the libraries and decodes its kernels with the software
 * GPU's front end. Prints, for each library and architecture,
 *
 *   LIBRARY ARCH MODULES BYTES KERNELS DECODED          (separated by tabs)
 *
 * and for each kernel that was not decoded, each module that was not parsed and each entry that did
 * not unpack a line "FAIL: ...". --opcodes: adds up instruction spellings, "LIBRARY ARCH SPELLING
 * COUNT". Exit status 1 when something failed.
 *
 * Containers are read by an independent walker instead of the software GPU's, so that entries which the
 * latter would overlook are counted.
 */
#include "ptx/ptx.h"

#include <fcntl.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "spellings.h"

#define ARCHS 32

volatile uint64_t sg_mem_generation = 1;

/* Nothing is executed here, so every address is refused. */
bool sg_mem_check(void *mem, uint64_t addr, uint64_t size, bool write, struct sg_mem_range *hit)
{
    (void)mem;
    (void)addr;
    (void)size;
    (void)write;
    (void)hit;
    return false;
}

static struct sum {
    unsigned arch;
    uint64_t modules, bytes, kernels, decoded;
} sums[ARCHS];
static unsigned nsums;
static uint64_t failures;
static const char *library;
static FILE *opcodes;

static struct sum *sum_of(unsigned arch)
{
    for (unsigned i = 0; i < nsums; i++)
        if (sums[i].arch == arch)
            return &sums[i];
    if (nsums == ARCHS) {
        fprintf(stderr, "%s: more than %d architectures\n", library, ARCHS);
        exit(2);
    }
    sums[nsums].arch = arch;
    return &sums[nsums++];
}

static void fail(unsigned arch, const char *what, const struct sg_diag *d)
{
    printf("FAIL: %s sm_%u: %s: line %u: %s\n", library, arch, what, d->line, d->message);
    failures++;
}

static void module(unsigned arch, const char *text, size_t len)
{
    struct sum *s = sum_of(arch);
    struct sg_diag d = {.message = ""};
    struct sg_module *m;
    uint32_t n;

    s->modules++;
    s->bytes += len;
    if (opcodes)
        spell_count(text, len, arch);
    if (sg_module_parse(text, len, &m, &d)) {
        fail(arch, "a module", &d);
        return;
    }
    n = sg_module_kernel_count(m);
    s->kernels += n;
    for (uint32_t i = 0; i < n; i++) {
        struct sg_kernel *k = sg_module_kernel(m, i);
        struct sg_kernel_info info;

        if (!sg_kernel_prepare(k, &d)) {
            s->decoded++;
            continue;
        }
        sg_kernel_get_info(k, &info);
        fail(arch, info.name, &d);
    }
    sg_module_free(m);
}

static uint64_t get(const uint8_t *p, unsigned bytes)
{
    uint64_t v = 0;

    memcpy(&v, p, bytes);
    return v;
}

/* One entry of kind PTX: header at p, payload at payload. */
static void entry(const uint8_t *p, const uint8_t *payload, uint64_t size)
{
    const uint64_t packed = get(p + 16, 4), flags = get(p + 40, 8), full = get(p + 56, 8);
    const unsigned arch = (unsigned)get(p + 28, 4);
    struct sg_diag d = {.message = "does not unpack"};
    char *text;
    bool ok;

    if (!packed) {
        module(arch, (const char *)payload, strnlen((const char *)payload, size));
        return;
    }
    text = packed <= size && full <= SG_PTX_TEXT_MAX ? malloc(full + 1) : NULL;
    if (flags & 0x8000)
        ok = text && ZSTD_decompress(text, full, payload, packed) == full;
    else
        ok = text && LZ4_decompress_safe((const char *)payload, text, (int)packed, (int)full) == (int)full;
    if (ok) {
        text[full] = '\0';
        module(arch, text, strlen(text));
    } else {
        fail(arch, "an entry", &d);
    }
    free(text);
}

/* The bytes of the container at p, or 0 when it is none. */
static uint64_t container(const uint8_t *p, uint64_t left)
{
    uint64_t pos, end;

    if (left < 16 || get(p, 4) != 0xBA55ED50u || get(p + 4, 2) != 1 || get(p + 6, 2) != 16 ||
        get(p + 8, 8) > left - 16)
        return 0;
    end = 16 + get(p + 8, 8);
    for (pos = 16; pos < end;) {
        uint64_t header, size;

        if (end - pos < 64)
            return 0;
        header = get(p + pos + 4, 4);
        size = get(p + pos + 8, 8);
        if (header < 64 || header > end - pos || size > end - pos - header)
            return 0;
        if (get(p + pos, 2) == 1)
            entry(p + pos, p + pos + header, size);
        pos += header + size;
    }
    return end;
}

static int one_library(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    const uint8_t *p;

    library = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (fd < 0 || fstat(fd, &st) || st.st_size < 16) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return 1;
    }
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED) {
        perror(path);
        return 1;
    }
    nsums = 0;
    memset(sums, 0, sizeof(sums));
    for (uint64_t at = 0; at + 16 <= (uint64_t)st.st_size;) {
        const uint64_t n = container(p + at, (uint64_t)st.st_size - at);

        at += n ? (n + 7) & ~7ull : 8;
    }
    munmap((void *)(uintptr_t)p, (size_t)st.st_size);
    for (unsigned i = 0; i < nsums; i++)
        printf("%s\t%u\t%llu\t%llu\t%llu\t%llu\n", library, sums[i].arch, (unsigned long long)sums[i].modules,
               (unsigned long long)sums[i].bytes, (unsigned long long)sums[i].kernels,
               (unsigned long long)sums[i].decoded);
    if (!nsums)
        printf("%s\t-\t0\t0\t0\t0\n", library);
    if (opcodes)
        spell_write(opcodes, library);
    fflush(stdout);
    return 0;
}

static int of_text(void)
{
    size_t n = 0, room = 1 << 20;
    char *text = malloc(room);

    while (text && !feof(stdin) && !ferror(stdin)) {
        n += fread(text + n, 1, room - n, stdin);
        if (n == room)
            text = realloc(text, room *= 2);
    }
    if (!text)
        return 2;
    spell_count(text, n, 0);
    spell_write(stdout, "text");
    free(text);
    return 0;
}

int main(int argc, char **argv)
{
    int bad = 0, i = 1;

    if (argc == 2 && !strcmp(argv[1], "--text"))
        return of_text();
    if (argc > 2 && !strcmp(argv[1], "--opcodes")) {
        opcodes = fopen(argv[2], "w");
        if (!opcodes) {
            perror(argv[2]);
            return 2;
        }
        i = 3;
    }
    if (i >= argc || argv[i][0] == '-') {
        fprintf(stderr, "usage: census [--opcodes FILE] LIBRARY...\n");
        return 2;
    }
    for (; i < argc; i++)
        bad |= one_library(argv[i]);
    if (opcodes && fclose(opcodes))
        bad = 1;
    return bad || failures ? 1 : 0;
}
