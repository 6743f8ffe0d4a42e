/* SPDX-License-Identifier: MIT */
/*
 * Cubins: the metadata read from them, and refusal of broken files without a read outside the file.
 * Files are built here; nvcc's files, given as arguments, are checked in the same way.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "exec/exec_test.h"

static void check(const char *what, bool ok)
{
    t_result(what, ok, "%s", ok ? "" : "not as it should be");
}

/* ---- a file of our own: one kernel with two parameters, variables with and without data ---- */

#define NSECT 11
struct file {
    uint8_t data[8192];
    size_t n;
    Elf64_Shdr sh[NSECT];
    char names[512];
    size_t nnames;
};

static uint32_t name(struct file *f, const char *s)
{
    size_t at = f->nnames;

    strcpy(f->names + at, s);
    f->nnames += strlen(s) + 1;
    return (uint32_t)at;
}

static void put(struct file *f, int i, const char *sect, uint32_t type, const void *data, size_t n)
{
    f->sh[i].sh_name = name(f, sect);
    f->sh[i].sh_type = type;
    f->sh[i].sh_offset = f->n;
    f->sh[i].sh_size = n;
    f->sh[i].sh_addralign = 8;
    if (type != SHT_NOBITS) {
        memcpy(f->data + f->n, data, n);
        f->n = (f->n + n + 7) & ~(size_t)7;
    }
}

static const uint8_t kernel_info[] = {
    4, 0x17, 12,   0, 0,   0, 0, 0, 1, 0, 8, 0, 0, 0xf0, 0x11, 0, /* parameter 1: at 8, 4 bytes */
    4, 0x17, 12,   0, 0,   0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x21, 0, /* parameter 0: at 0, 8 bytes */
    3, 0x1b, 0xff, 0,                                             /* ignored */
    4, 0x05, 12,   0, 128, 0, 0, 0, 2, 0, 0, 0, 1, 0,    0,    0, /* .maxntid 128, 2, 1 */
};
static const uint8_t module_info[] = {
    4, 0x2f, 8, 0, 1, 0, 0, 0, 40,   0,    0,    0,    /* symbol 1: 40 registers */
    4, 0x11, 8, 0, 1, 0, 0, 0, 96,   0,    0,    0,    /* frame of 96 bytes */
    4, 0x12, 8, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, /* stack: unknown */
};
static const char strings[] = "\0kern\0gv\0gz\0gp";

static void make_file(struct file *f)
{
    static const uint32_t init[4] = {7, 8, 0, 0};
    const Elf64_Sym syms[] = {
        {0},
        {.st_name = 1,
         .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
         .st_other = 0x10,
         .st_shndx = 5,
         .st_size = 16},
        {.st_name = 6, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), .st_shndx = 7, .st_size = 8},
        {.st_name = 9,
         .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
         .st_shndx = 8,
         .st_other = 4,
         .st_size = 400},
        {.st_name = 12,
         .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
         .st_shndx = 7,
         .st_value = 8,
         .st_size = 8},
    };
    const Elf64_Rela rela = {8, ELF64_R_INFO(2, 2), 4}; /* gp = &gv + 4 */
    Elf64_Ehdr eh = {.e_machine = 190,
                     .e_ehsize = 64,
                     .e_shentsize = sizeof(Elf64_Shdr),
                     .e_shnum = NSECT,
                     .e_shstrndx = 1,
                     .e_flags = 90 << 8};

    memset(f, 0, sizeof(*f));
    memcpy(eh.e_ident, "\177ELF\2\1\1\x41\x8", 9);
    f->n = 64;
    f->nnames = 1;
    put(f, 2, ".strtab", SHT_STRTAB, strings, sizeof(strings));
    put(f, 3, ".symtab", SHT_SYMTAB, syms, sizeof(syms));
    f->sh[3].sh_link = 2;
    f->sh[3].sh_entsize = sizeof(syms[0]);
    put(f, 4, ".nv.info", SHT_LOPROC, module_info, sizeof(module_info));
    put(f, 5, ".text.kern", SHT_PROGBITS, init, 16);
    put(f, 6, ".nv.info.kern", SHT_LOPROC, kernel_info, sizeof(kernel_info));
    put(f, 7, ".nv.global.init", SHT_PROGBITS, init, 16);
    put(f, 8, ".nv.global", SHT_NOBITS, NULL, 400);
    put(f, 9, ".rela.nv.global.init", SHT_RELA, &rela, sizeof(rela));
    f->sh[9].sh_info = 7;
    f->sh[9].sh_entsize = sizeof(rela);
    put(f, 10, ".nv.shared.kern", SHT_NOBITS, NULL, 1024 + 256);
    size_t at = f->nnames;

    (void)name(f, ".shstrtab");
    f->sh[1].sh_name = (uint32_t)at;
    f->sh[1].sh_type = SHT_STRTAB;
    f->sh[1].sh_offset = f->n;
    f->sh[1].sh_size = f->nnames;
    memcpy(f->data + f->n, f->names, f->nnames);
    f->n = (f->n + f->nnames + 7) & ~(size_t)7;
    eh.e_shoff = f->n;
    memcpy(f->data, &eh, sizeof(eh));
    memcpy(f->data + f->n, f->sh, sizeof(f->sh));
    f->n += sizeof(f->sh);
}

/* ---- every file ends at a page behind which nothing is mapped ---- */

static const uint8_t *at_edge(const uint8_t *data, size_t n)
{
    static uint8_t *map;
    static size_t room;

    if (!map || n > room) {
        room = (n + 4095) & ~(size_t)4095;
        map = mmap(NULL, room + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED || mprotect(map + room, 4096, PROT_NONE))
            exit(1);
    }
    memcpy(map + room - n, data, n);
    return map + room - n;
}

static int parse(const uint8_t *data, size_t n, struct sg_module **m, struct sg_diag *diag)
{
    return sg_sass_parse(at_edge(data, n), n, "SASS 90", m, diag);
}

/* Makes every query that a program can make; false: an answer is wrong. */
static bool use(struct sg_module *m)
{
    static uint8_t memory[1 << 16];
    struct sg_kernel_info info;
    struct sg_global_info g;
    struct sg_diag diag;
    uint32_t sum = 0, at = 0;

    for (uint32_t i = 0; i < sg_module_kernel_count(m); i++) {
        sg_kernel_get_info(sg_module_kernel(m, i), &info);
        for (uint32_t j = 0; j < info.nparams; j++)
            sum += info.params[j].offset + info.params[j].size;
        if (sg_kernel_prepare(sg_module_kernel(m, i), &diag) != 209 || !diag.message[0] ||
            info.param_bytes > SG_MAX_PARAM_BYTES || info.max_threads > 1024 || !info.name[0])
            return false;
    }
    for (uint32_t i = 0; i < sg_module_global_count(m); i++) {
        sg_module_get_global(m, i, &g);
        if (g.size > sizeof(memory) - at)
            continue;
        sg_module_set_global_address(m, i, (uint64_t)(uintptr_t)memory + at);
        at += (uint32_t)g.size;
    }
    return sg_module_init_globals(m, &diag) == 0 && sum != UINT32_MAX;
}

static void test_contents(void)
{
    static _Alignas(16) uint8_t memory[3][512];
    struct sg_kernel_info info;
    struct sg_global_info g;
    struct sg_module *m;
    struct sg_diag diag;
    struct file f;
    uint64_t pointer;

    make_file(&f);
    check("own file parses", parse(f.data, f.n, &m, &diag) == 0);
    if (!m)
        return;
    check("one kernel", sg_module_kernel_count(m) == 1 && sg_module_find_kernel(m, "kern"));
    check("no other", !sg_module_find_kernel(m, "gv"));
    sg_kernel_get_info(sg_module_kernel(m, 0), &info);
    check("parameters", info.nparams == 2 && info.param_bytes == 12 && !info.params[0].offset &&
                            info.params[0].size == 8 && info.params[1].offset == 8 &&
                            info.params[1].size == 4);
    check("attributes", info.max_threads == 256 && info.num_regs == 40 && info.local_bytes == 96 &&
                            info.static_shared == 256 && info.ptx_target == 90);
    check("launch is refused",
          sg_kernel_prepare(sg_module_kernel(m, 0), &diag) == 209 && strstr(diag.message, "SASS 90"));
    check("three variables", sg_module_global_count(m) == 3);
    for (uint32_t i = 0; i < 3; i++)
        sg_module_set_global_address(m, i, (uint64_t)(uintptr_t)memory[i]);
    memory[1][5] = 1;
    check("initialised", sg_module_init_globals(m, &diag) == 0);
    sg_module_get_global(m, 1, &g);
    check("managed", g.is_managed && g.size == 400 && !strcmp(g.name, "gz") && !memory[1][5]);
    memcpy(&pointer, memory[2], 8);
    check("values", memory[0][0] == 7 && memory[0][4] == 8);
    check("pointer", pointer == (uint64_t)(uintptr_t)memory[0] + 4);
    sg_module_free(m);
}

/* Cut short anywhere, and with bytes changed: refused or used, never followed outside. */
static void hurt(const char *what, const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    uint32_t seed = 12345;
    size_t step = n > 4096 ? n / 2048 : 1;
    bool ok = copy != NULL;
    struct sg_module *m;
    struct sg_diag diag;

    for (size_t cut = 0; ok && cut < n; cut += step) {
        int r = parse(data, cut, &m, &diag);

        ok = r == 0 || (r == 200 && diag.message[0] && !m);
        if (r == 0) {
            ok = ok && use(m);
            sg_module_free(m);
        }
    }
    check(what, ok);
    for (int round = 0; ok && round < 4000; round++) {
        static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff, 4, 8, 0x10};

        memcpy(copy, data, n);
        for (int k = 0; k <= round % 3; k++) {
            seed = seed * 1664525u + 1013904223u;
            size_t at = seed % n;

            seed = seed * 1664525u + 1013904223u;
            /* most of a file is code, which is not read: aim at its tables half of the time */
            if (seed & 0x10000)
                at = n - 1 - at % (n < 8192 ? n : 8192);
            copy[at] = values[(seed >> 8) % sizeof(values)];
        }
        int r = parse(copy, n, &m, &diag);

        ok = r == 0 ? use(m) : (r == 200 || r == 2) && diag.message[0];
        if (r == 0)
            sg_module_free(m);
    }
    check(what, ok);
    free(copy);
}

/* Values that are wrong in ways which chance does not find. */
static void test_refused(void)
{
    static const struct {
        int section;
        size_t at; /* in the section header, or from its data on when >= 100 */
        uint64_t value;
        int bytes;
    } bad[] = {
        {3, offsetof(Elf64_Shdr, sh_entsize), 23, 8},
        {3, offsetof(Elf64_Shdr, sh_link), 99, 4},
        {3, offsetof(Elf64_Shdr, sh_link), 3, 4},
        {3, offsetof(Elf64_Shdr, sh_offset), UINT64_MAX, 8},
        {4, offsetof(Elf64_Shdr, sh_size), UINT64_MAX, 8},
        {7, offsetof(Elf64_Shdr, sh_addralign), 3, 8},
        {7, offsetof(Elf64_Shdr, sh_name), 100000, 4},
        {8, offsetof(Elf64_Shdr, sh_size), 399, 8},
        {9, offsetof(Elf64_Shdr, sh_entsize), 1, 8},
        {9, 100, 9, 8},                        /* relocation over the end */
        {9, 100 + 12, 5, 4},                   /* of a missing symbol */
        {4, 100 + 2, 60000, 2},                /* record longer than its section */
        {6, 100 + 8, 5000, 2},                 /* parameter number */
        {6, 100 + 10, 40000, 2},               /* parameter offset */
        {3, 100 + 24, 100000, 4},              /* symbol's name */
        {3, 100 + 2 * 24 + 16, UINT64_MAX, 8}, /* variable's size */
    };
    struct sg_module *m;
    struct sg_diag diag;
    struct file f;
    char what[64];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        make_file(&f);
        size_t table = f.n - sizeof(f.sh);
        size_t at = bad[i].at < 100 ? table + bad[i].section * sizeof(Elf64_Shdr) + bad[i].at
                                    : f.sh[bad[i].section].sh_offset + bad[i].at - 100;

        memcpy(f.data + at, &bad[i].value, (size_t)bad[i].bytes);
        snprintf(what, sizeof(what), "broken value %zu is refused", i);
        check(what, parse(f.data, f.n, &m, &diag) == 200 && !m &&
                        !strncmp(diag.message, "cubin is malformed: ", 20));
    }
}

/* Found by fuzzing: an unused section header with a known name and a place outside the file. */
static void test_unused(void)
{
    static const int sections[] = {4, 6, 7, 8, 10};
    struct sg_module *m;
    struct sg_diag diag;
    struct file f;

    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        make_file(&f);
        uint8_t *sh = f.data + f.n - sizeof(f.sh) + (size_t)sections[i] * sizeof(Elf64_Shdr);
        const uint32_t unused = SHT_NULL;
        const uint64_t far = UINT64_MAX / 2;
        int r;

        memcpy(sh + offsetof(Elf64_Shdr, sh_type), &unused, sizeof(unused));
        memcpy(sh + offsetof(Elf64_Shdr, sh_offset), &far, sizeof(far));
        r = parse(f.data, f.n, &m, &diag);
        check("an unused section is not followed", r ? r == 200 && diag.message[0] : use(m));
        if (!r)
            sg_module_free(m);
    }
}

/* ---- parts that are not apart ---- */

#define LONG 60000u /* size of the string that contains all names, bytes */
struct large {
    uint8_t *data;
    size_t n;
    Elf64_Shdr sh[8];
};

static uint32_t part(struct large *f, uint32_t type, uint32_t entsize, const void *data, size_t n)
{
    const uint32_t i = f->sh[0].sh_info++;

    f->sh[i].sh_type = type;
    f->sh[i].sh_entsize = entsize;
    f->sh[i].sh_offset = f->n;
    f->sh[i].sh_size = n;
    f->sh[i].sh_addralign = 8;
    memcpy(f->data + f->n, data, n);
    f->n = (f->n + n + 7) & ~(size_t)7;
    return i;
}

/*
 * nsyms kernels (or variables) whose names are suffixes of a single string; nsect sections with equal
 * names and contents.
 */
static void make_overlaps(struct large *f, uint32_t string, uint32_t nsyms, bool vars, uint32_t nsect,
                          const char *sect, uint32_t type, const void *content, size_t n)
{
    static char names[256] = "\0.nv.global";
    char *s = malloc(string + 2);
    Elf64_Sym *y = calloc(nsyms + 1, sizeof(*y));
    Elf64_Ehdr eh = {.e_machine = 190,
                     .e_ehsize = 64,
                     .e_shentsize = sizeof(Elf64_Shdr),
                     .e_shstrndx = 1,
                     .e_flags = 90 << 8};
    uint32_t table;

    f->data = malloc(4u << 20);
    if (!s || !y || !f->data)
        exit(1);
    memset(f->sh, 0, sizeof(f->sh));
    f->n = 64;
    f->sh[0].sh_info = 1;
    strcpy(names + 12, sect);
    part(f, SHT_STRTAB, 0, names, 12 + strlen(sect) + 1);
    memset(s, 'n', string + 1);
    s[0] = s[string + 1] = 0;
    part(f, SHT_STRTAB, 0, s, string + 2);
    for (uint32_t i = 1; i <= nsyms; i++)
        y[i] = (Elf64_Sym){.st_name = i,
                           .st_info = ELF64_ST_INFO(STB_GLOBAL, vars ? STT_OBJECT : STT_FUNC),
                           .st_other = vars ? 0 : 0x10,
                           .st_shndx = 4};
    part(f, SHT_SYMTAB, sizeof(*y), y, (nsyms + 1) * sizeof(*y));
    f->sh[3].sh_link = 2;
    part(f, SHT_PROGBITS, 0, content, n);
    f->sh[4].sh_name = 1;
    table = part(f, type, type == SHT_RELA ? sizeof(Elf64_Rela) : 0, content, n);
    f->sh[table].sh_name = 12;
    f->sh[table].sh_info = 4;
    f->sh[0].sh_info = 0;
    eh.e_shoff = f->n;
    eh.e_shnum = (uint16_t)(table + nsect);
    memcpy(eh.e_ident, "\177ELF\2\1\1\x41\x8", 9);
    memcpy(f->data, &eh, sizeof(eh));
    memcpy(f->data + f->n, f->sh, table * sizeof(f->sh[0]));
    f->n += table * sizeof(f->sh[0]);
    for (uint32_t k = 0; k < nsect; k++, f->n += sizeof(f->sh[0]))
        memcpy(f->data + f->n, &f->sh[table], sizeof(f->sh[0]));
    free(s);
    free(y);
}

static void overlap(const char *what, const char *why, struct large *f)
{
    struct sg_diag diag = {0};
    struct sg_module *m;
    const int r = parse(f->data, f->n, &m, &diag);

    if (why)
        t_result(what, r == 200 && !m && strstr(diag.message, why), "%d %s", r, diag.message);
    else
        t_result(what, !r && use(m), "%d %s", r, diag.message);
    sg_module_free(m);
    free(f->data);
}

static void test_overlaps(void)
{
    static const char much[] = "describes more than there is in it";
    static uint8_t zeros[20000];
    static const uint8_t far[] = {4, 0x17, 12, 0, 0, 0, 0, 0, 0xff, 0x0f, 0, 0, 0, 0xf0, 0x11, 0};
    struct large f;

    make_overlaps(&f, 100, 100, false, 1, ".x", SHT_LOPROC, zeros, 64);
    overlap("names that are suffixes of a short string", NULL, &f);
    make_overlaps(&f, LONG, 20000, false, 1, ".x", SHT_LOPROC, zeros, 64);
    overlap("kernels whose names are suffixes of one string", much, &f);
    make_overlaps(&f, LONG, 20000, true, 1, ".x", SHT_LOPROC, zeros, 64);
    overlap("variables whose names are suffixes of one string", much, &f);
    make_overlaps(&f, 66000, 1, false, 1, ".x", SHT_LOPROC, zeros, 64);
    overlap("a name that is too long", "a name is too long", &f);
    make_overlaps(&f, 100, 100, false, 1, ".nv.info", SHT_LOPROC, zeros, sizeof(zeros));
    overlap("records that are there once", NULL, &f);
    make_overlaps(&f, 100, 100, false, 60, ".nv.info", SHT_LOPROC, zeros, sizeof(zeros));
    overlap("records that many sections have", much, &f);
    make_overlaps(&f, 100, 100, false, 60, ".rela", SHT_RELA, zeros, 19200);
    overlap("relocations that many sections have", much, &f);
    make_overlaps(&f, 100, 99, false, 1, ".nv.info.nn", SHT_LOPROC, far, sizeof(far));
    overlap("a record of more parameters than there are", much, &f);
}

/* nvcc's output for tests-ptx/meta.cu. */
static void test_file(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *in = fopen(path, "rb");
    size_t n = in ? fread(data, 1, sizeof(data), in) : 0;
    struct sg_kernel_info info;
    struct sg_module *m = NULL;
    struct sg_diag diag;

    if (!in) {
        t_skip(path, "no nvcc when the tests were built");
        return;
    }
    fclose(in);
    check(path, n && parse(data, n, &m, &diag) == 0 && use(m));
    if (!m)
        return;
    check("kernels and variables", sg_module_kernel_count(m) == 3 && sg_module_global_count(m) >= 5);
    if (sg_module_find_kernel(m, "mixed")) {
        sg_kernel_get_info(sg_module_find_kernel(m, "mixed"), &info);
        check("parameters of nvcc", info.nparams == 4 && info.param_bytes == 41 &&
                                        info.params[1].offset == 8 && info.params[2].offset == 16 &&
                                        info.params[2].size == 24 && info.params[3].offset == 40 &&
                                        info.params[3].size == 1);
        check("shared memory of nvcc", info.static_shared == 256 && info.num_regs >= 4);
    }
    if (sg_module_find_kernel(m, "large")) {
        sg_kernel_get_info(sg_module_find_kernel(m, "large"), &info);
        check("large parameters of nvcc",
              info.nparams == 3 && info.params[1].size == 5000 && info.params[2].offset == 5008);
    }
    if (sg_module_find_kernel(m, "bounded")) {
        sg_kernel_get_info(sg_module_find_kernel(m, "bounded"), &info);
        check("launch bounds of nvcc", info.max_threads == 128 && info.nparams == 0);
    }
    sg_module_free(m);
    hurt(path, data, n);
}

int main(int argc, char **argv)
{
    static const char *const files[] = {"meta_75.cubin", "meta_80.cubin", "meta_90.cubin", "meta_120.cubin"};
    const char *dir = argc ? strrchr(argv[0], '/') : NULL;
    char path[4096];
    struct file f;

    test_contents();
    test_refused();
    test_unused();
    test_overlaps();
    make_file(&f);
    hurt("own file, broken", f.data, f.n);
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%.*s%s", dir ? (int)(dir - argv[0] + 1) : 0, dir ? argv[0] : "",
                 files[i]);
        test_file(path);
    }
    return t_end("softgpu cubins");
}
