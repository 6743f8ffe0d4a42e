/* SPDX-License-Identifier: MIT */
/*
 * Cubins (SASS): their metadata is loaded, their code never runs.
 *
 * A program inspects its kernels before it launches them: names, parameters, attributes,
 * occupancy, addresses of variables. The ELF file contains all of these, so such queries succeed;
 * the launch is refused with CUDA_ERROR_NO_BINARY_FOR_GPU and the kernel's name. NVIDIA does not
 * document the format; this relies on observations of files of CUDA 11 to 13 (with cuobjdump's
 * names):
 *
 *   symbols       FUNC with st_other bit 4: a kernel; OBJECT in .nv.global, .nv.global.init or
 *                 .nv.constant3: a variable, st_other bit 2: __managed__
 *   .nv.info.K    records about kernel K; .nv.info: records that name a symbol. A record is
 *                 u8 format, u8 attribute, then format 4: u16 size and data, else 2 bytes of value
 *                   0x17 KPARAM_INFO     u32, u16 ordinal, u16 offset, u32 size << 18 | ...
 *                   0x45 the same for kernels with many bytes: u32, u16, u16 offset, u16 size, ...
 *                   0x19 CBANK_PARAM_SIZE  bytes of all parameters
 *                   0x05 MAX_THREADS, 0x10 REQNTID  3 x u32
 *                   0x2f REGCOUNT, 0x11 FRAME_SIZE, 0x12 MIN_STACK_SIZE  u32 symbol, u32 value
 *   .nv.shared.K  NOBITS of the static shared memory; from sm_90 on with 1024 bytes of the system
 *   relocations   types 2 and 4 put a 64-bit address into .nv.global.init
 */
#include "ptx/module.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EM_CUDA_MACHINE = 190,
    STO_ENTRY = 0x10,
    STO_MANAGED = 0x04,
    INFO_MAX_THREADS = 0x05,
    INFO_REQNTID = 0x10,
    INFO_FRAME_SIZE = 0x11,
    INFO_MIN_STACK = 0x12,
    INFO_KPARAM = 0x17,
    INFO_CBANK_SIZE = 0x19,
    INFO_REGCOUNT = 0x2f,
    INFO_KPARAM2 = 0x45,
    INFO_FORMAT_SIZED = 4,
    REL_64 = 2,
    REL_G64 = 4,
    SYSTEM_SHARED = 1024
};

/* Limits for hostile files; the largest in NVIDIA's libraries are far below. */
#define MAX_KERNELS 65536u
#define MAX_VARS 65536u
#define MAX_PARAMS 4096u
#define MAX_DATA_SECTIONS 8u
#define MAX_NAME 65536u
#define PARAM_RECORD 16u /* bytes */
/*
 * Limit, as a multiple of the file size, on the names, records, relocations and initial values that
 * are read or copied: these may overlap in the file. Names may be suffixes of one string, sections
 * may be nested, and a record may declare thousands of parameters.
 */
#define TIMES_THE_FILE 3u

struct sass {
    const uint8_t *p;
    size_t len;
    Elf64_Ehdr eh;
    const char *names; /* section names */
    uint64_t names_len;
    Elf64_Shdr symtab;
    const char *strings; /* symbol names */
    uint64_t strings_len;
    uint32_t nsyms;
    uint32_t *sym_kernel, *sym_var; /* per symbol: index + 1, 0: none */
    struct {
        uint32_t section;
        uint64_t at, size; /* copied to m->text + at */
    } data[MAX_DATA_SECTIONS];
    uint32_t ndata;
    uint64_t room; /* bytes that may still be read or copied: TIMES_THE_FILE */
    struct sg_module *m;
    struct sg_diag *diag;
};

static int refuse_cubin(struct sass *s, const char *what)
{
    return sg_diag_at(s->diag, SG_ERR_IMAGE, 0, 0, "cubin is malformed: %s", what);
}

static int cubin_nomem(struct sass *s)
{
    return sg_diag_at(s->diag, SG_ERR_NOMEM, 0, 0, "out of memory");
}

static bool in_file(const struct sass *s, uint64_t off, uint64_t n)
{
    return off <= s->len && n <= s->len - off;
}

static uint16_t get16(const uint8_t *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static uint32_t get32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* Charges the bytes of the file that are read or copied. */
static int charge_bytes(struct sass *s, uint64_t bytes)
{
    if (bytes > s->room)
        return refuse_cubin(s, "it describes more than there is in it");
    s->room -= bytes;
    return 0;
}

/* The part of a table of strings that the last NUL ends. */
static uint64_t terminated_length(const char *table, uint64_t len)
{
    while (len && table[len - 1])
        len--;
    return len;
}

/* *len: the length of a string that ends in its table, which counts. */
static int measure_string(struct sass *s, const char *string, uint32_t *len)
{
    *len = (uint32_t)strnlen(string, MAX_NAME + 1);
    return *len > MAX_NAME ? refuse_cubin(s, "a name is too long") : charge_bytes(s, *len);
}

/* Section header i; its contents are inside the file (NOBITS has none; an unused header is
   empty). */
static bool section_at(const struct sass *s, uint32_t i, Elf64_Shdr *sh)
{
    if (i >= s->eh.e_shnum)
        return false;
    memcpy(sh, s->p + s->eh.e_shoff + (uint64_t)i * sizeof(*sh), sizeof(*sh));
    if (sh->sh_type == SHT_NULL)
        sh->sh_offset = sh->sh_size = 0;
    return sh->sh_type == SHT_NOBITS || in_file(s, sh->sh_offset, sh->sh_size);
}

/* NULL: it has none that ends. Of any length: for comparisons. */
static const char *section_name(const struct sass *s, const Elf64_Shdr *sh)
{
    return sh->sh_name < s->names_len ? s->names + sh->sh_name : NULL;
}

static int read_header(struct sass *s)
{
    Elf64_Shdr sh;
    bool found = false;

    if (s->len < sizeof(s->eh))
        return refuse_cubin(s, "the header is cut short");
    memcpy(&s->eh, s->p, sizeof(s->eh));
    if (memcmp(s->eh.e_ident, ELFMAG, SELFMAG) || s->eh.e_ident[EI_CLASS] != ELFCLASS64 ||
        s->eh.e_ident[EI_DATA] != ELFDATA2LSB || s->eh.e_machine != EM_CUDA_MACHINE)
        return refuse_cubin(s, "it is no ELF file for CUDA");
    if (!s->eh.e_shnum || s->eh.e_shentsize != sizeof(sh) ||
        !in_file(s, s->eh.e_shoff, (uint64_t)s->eh.e_shnum * sizeof(sh)))
        return refuse_cubin(s, "the section table");
    if (!section_at(s, s->eh.e_shstrndx, &sh) || sh.sh_type != SHT_STRTAB)
        return refuse_cubin(s, "the section names");
    s->names = (const char *)s->p + sh.sh_offset;
    s->names_len = terminated_length(s->names, sh.sh_size);
    for (uint32_t i = 0; i < s->eh.e_shnum && !found; i++) {
        if (!section_at(s, i, &s->symtab))
            return refuse_cubin(s, "a section lies outside the file");
        found = s->symtab.sh_type == SHT_SYMTAB;
    }
    if (!found || s->symtab.sh_entsize != sizeof(Elf64_Sym) || !section_at(s, s->symtab.sh_link, &sh) ||
        sh.sh_type != SHT_STRTAB || s->symtab.sh_size / sizeof(Elf64_Sym) > UINT32_MAX)
        return refuse_cubin(s, "the symbol table");
    s->strings = (const char *)s->p + sh.sh_offset;
    s->strings_len = terminated_length(s->strings, sh.sh_size);
    s->nsyms = (uint32_t)(s->symtab.sh_size / sizeof(Elf64_Sym));
    return 0;
}

static void symbol_at(const struct sass *s, uint32_t i, Elf64_Sym *y)
{
    memcpy(y, s->p + s->symtab.sh_offset + (uint64_t)i * sizeof(*y), sizeof(*y));
}

/* ---- kernels ---- */

static int add_kernel(struct sass *s, uint32_t sym, const char *name, const char *has)
{
    struct sg_module *m = s->m;
    struct sg_func *f;
    struct sg_kernel *k;
    uint32_t len;
    int r = measure_string(s, name, &len);

    if (r)
        return r;
    if (m->nkernels >= MAX_KERNELS)
        return refuse_cubin(s, "too many kernels");
    if (sg_sym_find(&m->symtab, 0, name, len))
        return refuse_cubin(s, "a name occurs twice");
    if (!sg_grow(&m->funcs, &m->cap_funcs, m->nfuncs, sizeof(*m->funcs)) ||
        !sg_grow(&m->kernels, &m->cap_kernels, m->nkernels, sizeof(*m->kernels)))
        return cubin_nomem(s);
    f = &m->funcs[m->nfuncs];
    memset(f, 0, sizeof(*f));
    f->name = strdup(name);
    if (!f->name)
        return cubin_nomem(s);
    f->is_entry = true;
    f->alias = -1;
    m->nfuncs++;
    if (!sg_sym_add(&m->symtab, 0, f->name, len, SG_K_ENTRY, m->nfuncs - 1))
        return cubin_nomem(s);
    k = calloc(1, sizeof(*k));
    if (!k)
        return cubin_nomem(s);
    pthread_mutex_init(&k->lock, NULL);
    m->kernels[m->nkernels++] = k;
    f->kernel = m->nkernels;
    s->sym_kernel[sym] = m->nkernels;
    k->ops = &sg_kernel_ops;
    k->module = m;
    k->func = m->nfuncs - 1;
    k->state = 2; /* refused: sg_kernel_prepare() returns the reason */
    k->result = SG_ERR_NO_BINARY;
    snprintf(k->diag.message, sizeof(k->diag.message),
             "the image has no PTX, which is all that this device runs; it has: %s. Needed: PTX, "
             "as of nvcc -gencode arch=compute_80,code=compute_80",
             has);
    return 0;
}

/* k: NULL if no kernel has this name. */
static int kernel_named(struct sass *s, const char *name, struct sg_kernel **k)
{
    uint32_t len;
    int r = measure_string(s, name, &len);
    const struct sg_sym *y = r ? NULL : sg_sym_find(&s->m->symtab, 0, name, len);

    *k = y && y->kind == SG_K_ENTRY ? s->m->kernels[s->m->funcs[y->index].kernel - 1] : NULL;
    return r;
}

static int set_param(struct sass *s, struct sg_kernel *k, uint32_t ordinal, uint32_t offset, uint32_t size)
{
    struct sg_func *f = &s->m->funcs[k->func];

    if (ordinal >= MAX_PARAMS || offset + size > SG_MAX_PARAM_BYTES) /* 16 bits each: no overflow */
        return refuse_cubin(s, "a kernel parameter");
    if (ordinal >= f->nparams) {
        int r = charge_bytes(s, (uint64_t)(ordinal + 1 - f->nparams) * PARAM_RECORD);
        struct sg_param *grown = r ? NULL : realloc(k->params, (ordinal + 1) * sizeof(*grown));

        if (r)
            return r;
        if (!grown)
            return cubin_nomem(s);
        memset(grown + f->nparams, 0, (ordinal + 1 - f->nparams) * sizeof(*grown));
        k->params = grown;
        f->nparams = ordinal + 1;
    }
    k->params[ordinal].offset = offset;
    k->params[ordinal].size = size;
    if (offset + size > k->param_bytes)
        k->param_bytes = offset + size;
    return 0;
}

static void set_dims(uint32_t to[3], const uint8_t *d)
{
    for (int i = 0; i < 3; i++)
        to[i] = get32(d + 4 * i);
}

static int kernel_record(struct sass *s, struct sg_kernel *k, unsigned attr, const uint8_t *d, uint32_t n)
{
    struct sg_func *f = &s->m->funcs[k->func];

    if (attr == INFO_KPARAM && n >= 12)
        return set_param(s, k, get16(d + 4), get16(d + 6), get32(d + 8) >> 18);
    if (attr == INFO_KPARAM2 && n >= 12)
        return set_param(s, k, get16(d + 4), get16(d + 6), get16(d + 8));
    if (attr == INFO_MAX_THREADS && n >= 12)
        set_dims(f->maxntid, d);
    else if (attr == INFO_REQNTID && n >= 12)
        set_dims(f->reqntid, d);
    return 0;
}

/* A kernel's attributes by its symbol. */
static void symbol_record(struct sass *s, unsigned attr, const uint8_t *d, uint32_t n)
{
    uint32_t sym = n >= 8 ? get32(d) : UINT32_MAX, v;
    struct sg_code *c;

    if (sym >= s->nsyms || !s->sym_kernel[sym])
        return;
    c = &s->m->kernels[s->sym_kernel[sym] - 1]->code;
    v = get32(d + 4);
    if (attr == INFO_REGCOUNT)
        c->num_regs = v > 255 ? 255 : v;
    else if ((attr == INFO_FRAME_SIZE || attr == INFO_MIN_STACK) && v < 512u << 10 &&
             v > c->local_bytes) /* CUDA: at most 512 KiB per thread; all ones mean unknown */
        c->local_bytes = v;
}

static int read_info(struct sass *s, const Elf64_Shdr *sh, struct sg_kernel *k)
{
    const uint8_t *p = s->p + sh->sh_offset, *end = p + sh->sh_size;
    int r = charge_bytes(s, sh->sh_size);

    while (!r && end - p >= 4) {
        unsigned format = p[0], attr = p[1];
        uint32_t n = format == INFO_FORMAT_SIZED ? get16(p + 2) : 0;

        p += 4;
        if (n > (size_t)(end - p))
            return refuse_cubin(s, "a record of .nv.info");
        if (k && format == INFO_FORMAT_SIZED)
            r = kernel_record(s, k, attr, p, n);
        else if (k && attr == INFO_CBANK_SIZE && get16(p - 2) > k->param_bytes &&
                 get16(p - 2) <= SG_MAX_PARAM_BYTES)
            k->param_bytes = get16(p - 2);
        else if (!k)
            symbol_record(s, attr, p, n);
        p += n;
    }
    return r;
}

/* ---- variables ---- */

/* Offset in m->text of the contents of a section, copied once. */
static int data_of(struct sass *s, uint32_t i, const Elf64_Shdr *sh, uint64_t *at)
{
    char *grown;
    int r;

    for (uint32_t j = 0; j < s->ndata; j++) {
        if (s->data[j].section == i) {
            *at = s->data[j].at;
            return 0;
        }
    }
    if (s->ndata == MAX_DATA_SECTIONS)
        return refuse_cubin(s, "too many sections of initial values");
    r = charge_bytes(s, sh->sh_size);
    if (r)
        return r;
    grown = realloc(s->m->text, s->m->len + sh->sh_size + 1);
    if (!grown)
        return cubin_nomem(s);
    s->m->text = grown;
    memcpy(grown + s->m->len, s->p + sh->sh_offset, sh->sh_size);
    *at = s->m->len;
    s->data[s->ndata].section = i;
    s->data[s->ndata].at = *at;
    s->data[s->ndata++].size = sh->sh_size;
    s->m->len += sh->sh_size;
    return 0;
}

static int add_var(struct sass *s, uint32_t sym, const Elf64_Sym *y, const char *name)
{
    struct sg_module *m = s->m;
    struct sg_var v = {.size = y->st_size, .type = SG_TY_B8};
    Elf64_Shdr sh;
    const char *sect;
    uint32_t len;
    int r;

    if (!section_at(s, y->st_shndx, &sh))
        return 0; /* undefined, or of another kind */
    sect = section_name(s, &sh);
    if (!sect)
        return refuse_cubin(s, "a section's name");
    v.is_const = !strcmp(sect, ".nv.constant3");
    if (!v.is_const && strcmp(sect, ".nv.global") && strcmp(sect, ".nv.global.init"))
        return 0;
    if (y->st_value > sh.sh_size || y->st_size > sh.sh_size - y->st_value || sh.sh_addralign > 65536 ||
        (sh.sh_addralign & (sh.sh_addralign - 1)) || sh.sh_size > SG_MAX_GLOBAL || m->nvars >= MAX_VARS)
        return refuse_cubin(s, "a variable lies outside its section");
    if (v.is_const && sh.sh_size > SG_MAX_CONST)
        return refuse_cubin(s, "the constants are too large");
    r = measure_string(s, name, &len);
    if (r)
        return r;
    if (sg_sym_find(&m->symtab, 0, name, len))
        return 0; /* local names may repeat; a look-up finds the first */
    v.align = sh.sh_addralign ? (uint32_t)sh.sh_addralign : 1;
    v.is_managed = (y->st_other & STO_MANAGED) != 0;
    if (sh.sh_type != SHT_NOBITS) {
        r = data_of(s, y->st_shndx, &sh, &v.data_at);
        if (r)
            return r;
        v.data_at += y->st_value;
        v.has_data = true;
    }
    if (!sg_grow(&m->vars, &m->cap_vars, m->nvars, sizeof(*m->vars)))
        return cubin_nomem(s);
    v.name = strdup(name);
    if (!v.name)
        return cubin_nomem(s);
    m->vars[m->nvars++] = v;
    s->sym_var[sym] = m->nvars;
    return sg_sym_add(&m->symtab, 0, v.name, len, SG_K_GLOBAL, m->nvars - 1) ? 0 : cubin_nomem(s);
}

static int read_symbols(struct sass *s, const char *has)
{
    s->sym_kernel = calloc((size_t)s->nsyms + 1, sizeof(*s->sym_kernel));
    s->sym_var = calloc((size_t)s->nsyms + 1, sizeof(*s->sym_var));
    if (!s->sym_kernel || !s->sym_var)
        return cubin_nomem(s);
    for (uint32_t i = 1; i < s->nsyms; i++) {
        Elf64_Sym y;
        const char *name;
        int r = 0;

        symbol_at(s, i, &y);
        if (y.st_shndx == SHN_UNDEF || y.st_shndx >= s->eh.e_shnum)
            continue;
        if (y.st_name >= s->strings_len)
            return refuse_cubin(s, "a symbol's name");
        name = s->strings + y.st_name;
        if (ELF64_ST_TYPE(y.st_info) == STT_FUNC && (y.st_other & STO_ENTRY) && name[0])
            r = add_kernel(s, i, name, has);
        else if (ELF64_ST_TYPE(y.st_info) == STT_OBJECT && name[0])
            r = add_var(s, i, &y, name);
        if (r)
            return r;
    }
    return 0;
}

/* Addresses of variables in the initial values of other variables. Function addresses stay 0. */
static int read_relocations(struct sass *s, const Elf64_Shdr *sh)
{
    struct sg_module *m = s->m;
    uint64_t n = sh->sh_size / sizeof(Elf64_Rela), at = 0, size = 0;
    int r = charge_bytes(s, sh->sh_size);

    if (r)
        return r;
    if (sh->sh_entsize != sizeof(Elf64_Rela))
        return refuse_cubin(s, "a relocation section");
    for (uint32_t j = 0; j < s->ndata; j++) {
        if (s->data[j].section == sh->sh_info) {
            at = s->data[j].at;
            size = s->data[j].size;
        }
    }
    for (uint64_t i = 0; size >= 8 && i < n; i++) {
        Elf64_Rela rel;
        uint32_t sym;

        memcpy(&rel, s->p + sh->sh_offset + i * sizeof(rel), sizeof(rel));
        sym = (uint32_t)ELF64_R_SYM(rel.r_info);
        if (ELF64_R_TYPE(rel.r_info) != REL_64 && ELF64_R_TYPE(rel.r_info) != REL_G64)
            continue;
        if (rel.r_offset > size - 8 || sym >= s->nsyms)
            return refuse_cubin(s, "a relocation");
        if (!s->sym_var[sym])
            continue;
        if (!sg_grow(&m->data_relocs, &m->cap_data_relocs, m->ndata_relocs, sizeof(*m->data_relocs)))
            return cubin_nomem(s);
        m->data_relocs[m->ndata_relocs].at = at + rel.r_offset;
        m->data_relocs[m->ndata_relocs].addend = rel.r_addend;
        m->data_relocs[m->ndata_relocs++].var = s->sym_var[sym] - 1;
    }
    return 0;
}

static void set_shared(struct sass *s, struct sg_kernel *k, uint64_t size)
{
    if (s->m->target >= 90 && size >= SYSTEM_SHARED)
        size -= SYSTEM_SHARED;
    k->code.static_shared = size > SG_MAX_STATIC_SHARED ? SG_MAX_STATIC_SHARED : (uint32_t)size;
}

static int read_sections(struct sass *s)
{
    for (uint32_t i = 0; i < s->eh.e_shnum; i++) {
        struct sg_kernel *k;
        Elf64_Shdr sh;
        const char *name;
        int r = 0;

        if (!section_at(s, i, &sh))
            return refuse_cubin(s, "a section lies outside the file");
        name = section_name(s, &sh);
        if (!name)
            return refuse_cubin(s, "a section's name");
        if (sh.sh_type == SHT_RELA) {
            r = read_relocations(s, &sh);
        } else if (!strcmp(name, ".nv.info") && sh.sh_type != SHT_NOBITS) {
            r = read_info(s, &sh, NULL);
        } else if (!strncmp(name, ".nv.info.", 9) && sh.sh_type != SHT_NOBITS) {
            r = kernel_named(s, name + 9, &k);
            r = k ? read_info(s, &sh, k) : r;
        } else if (!strncmp(name, ".nv.shared.", 11)) {
            r = kernel_named(s, name + 11, &k);
            if (k)
                set_shared(s, k, sh.sh_size);
        }
        if (r)
            return r;
    }
    return 0;
}

int sg_sass_parse(const void *elf, size_t len, const char *has, struct sg_module **out, struct sg_diag *diag)
{
    struct sass s = {.p = elf, .len = len, .room = TIMES_THE_FILE * (uint64_t)len, .diag = diag};
    int r;

    *out = NULL;
    if (diag)
        memset(diag, 0, sizeof(*diag));
    s.m = calloc(1, sizeof(*s.m));
    if (!s.m)
        return cubin_nomem(&s);
    pthread_mutex_init(&s.m->lock, NULL);
    s.m->is_sass = true;
    s.m->taken_known = true;
    r = read_header(&s);
    if (!r) {
        s.m->target = s.eh.e_ident[EI_ABIVERSION] >= 8 ? (s.eh.e_flags >> 8) & 0xff : s.eh.e_flags & 0xff;
        r = read_symbols(&s, has);
    }
    if (!r)
        r = read_sections(&s);
    free(s.sym_kernel);
    free(s.sym_var);
    if (r) {
        sg_module_free(s.m);
        return r;
    }
    *out = s.m;
    return 0;
}

void sg_sass_init_globals(struct sg_module *m)
{
    for (uint32_t i = 0; i < m->ndata_relocs; i++) {
        const struct sg_data_reloc *rel = &m->data_relocs[i];
        uint64_t v = m->vars[rel->var].address + (uint64_t)rel->addend;

        memcpy(m->text + rel->at, &v, sizeof(v)); /* again for each place: absolute, not added */
    }
    for (uint32_t i = 0; i < m->nvars; i++) {
        struct sg_var *v = &m->vars[i];

        if (v->has_data && v->address)
            memcpy((void *)(uintptr_t)v->address, m->text + v->data_at, v->size);
    }
}
