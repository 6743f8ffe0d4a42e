/* SPDX-License-Identifier: MIT */
/*
 * A `ptxas` that keeps PTX. Just-in-time compilers (Triton, XLA) run the assembler and load its
 * output; the software GPU cannot execute machine code. This program writes a fat binary that holds
 * the unchanged PTX. `vgpu run` passes its path to those compilers (base/python.c).
 *
 * It takes the options of NVIDIA's ptxas; those about machine code have no effect here and are
 * ignored. Errors in the PTX are reported when the program loads it.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FAILED 255 /* as NVIDIA's ptxas */
#define TEXT_MAX (256u << 20)
/*
 * Version that the software GPU reads: PTX ISA 9.0, of CUDA 13.0. It is reported, so that Triton
 * writes PTX of that version.
 */
#define ISA_MAJOR 9
#define ISA_MINOR 0
#define RELEASE "13.0"
#define FATBIN_MAGIC 0xba55ed50u
#define KIND_PTX 1
#define FLAG_64_BIT 1u

/* A fat binary with a single entry; host/softgpu/image/sg_fatbin.c reads it. */
struct fatbin {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size;
    struct {
        uint16_t kind, version;
        uint32_t header_size;
        uint64_t size;
        uint32_t packed_size, options;
        uint16_t minor, major;
        uint32_t arch, name, name_length;
        uint64_t flags, reserved, full_size;
    } entry;
};
_Static_assert(sizeof(struct fatbin) == 16 + 64, "layout of a fat binary");

static int fail_on_file(const char *path, const char *why)
{
    fprintf(stderr, "ptxas fatal   : %s: %s\n", path, why);
    return FAILED;
}

/* True for options whose value is the next argument, unless it follows "=". */
static bool takes_value(const char *option)
{
    static const char *const names[] = {
        "o",
        "output-file",
        "arch",
        "gpu-name",
        "m",
        "machine",
        "O",
        "opt-level",
        "maxrregcount",
        "regAllocOptLevel",
        "e",
        "entry",
        "optf",
        "options-file",
        "ias",
        "input-as-string",
        "minnctapersm",
        "maxntid",
        "dlcm",
        "def-load-cache",
        "dscm",
        "def-store-cache",
        "fdlcm",
        "force-load-cache",
        "fscm",
        "force-store-cache",
        "override-directive-values",
        "split-compile",
        "jobserver",
        "cabi-first-param",
        "device-function-maxrregcount",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(option, names[i]) == 0)
            return true;
    return false;
}

/* Returns the value of option NAME in argument i or the next; NULL: another option. */
static const char *value_of(const char *name, char **argv, int *i)
{
    const char *option = argv[*i] + strspn(argv[*i], "-");
    size_t n = strlen(name);

    if (strncmp(option, name, n) != 0)
        return NULL;
    if (option[n] == '=')
        return option + n + 1;
    return option[n] == 0 && argv[*i + 1] ? argv[++*i] : NULL;
}

/* Returns the number after "sm_" or "compute_"; 0: none. */
static unsigned arch_of(const char *name)
{
    const char *digits = strchr(name, '_');

    return digits ? (unsigned)strtoul(digits + 1, NULL, 10) : 0;
}

/* Returns the whole file with a terminating NUL; NULL: errno. */
static char *file_contents(const char *path, size_t *len)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t room = 1 << 16, n;
    char *text = malloc(room + 1), *more;

    *len = 0;
    while (file && text && (n = fread(text + *len, 1, room - *len, file)) > 0) {
        *len += n;
        if (*len < room)
            continue;
        room *= 2;
        more = room <= TEXT_MAX ? realloc(text, room + 1) : NULL;
        if (!more) {
            free(text);
            errno = EFBIG;
        }
        text = more;
    }
    if (!file || !text || ferror(file)) {
        free(text);
        text = NULL;
    } else {
        text[*len] = 0;
    }
    if (file && file != stdin)
        fclose(file);
    return text;
}

/* The directive follows comments, at the start of a line or after blanks. */
static int check_ptx(const char *path, const char *text, size_t len)
{
    const char *version = text, *found;
    unsigned major, minor;

    if (strlen(text) != len)
        return fail_on_file(path, "not PTX: it has a NUL");
    while ((found = strstr(version, ".version")) && found != text && found[-1] != '\n' && found[-1] != ' ')
        version = found + 1;
    if (!found || sscanf(found, ".version %u.%u", &major, &minor) != 2)
        return fail_on_file(path, "not PTX: no .version");
    if (major > ISA_MAJOR || (major == ISA_MAJOR && minor > ISA_MINOR)) {
        fprintf(stderr,
                "ptxas %s, line 1; fatal   : Unsupported .version %u.%u; current version is '%d.%d'\n", path,
                major, minor, ISA_MAJOR, ISA_MINOR);
        return FAILED;
    }
    return 0;
}

/* A partly written file is removed. */
static int save_cubin(const char *path, const char *text, size_t len, unsigned arch)
{
    static const char zeros[8];
    size_t size = (len + 1 + 7) & ~(size_t)7;
    struct fatbin header = {
        .magic = FATBIN_MAGIC,
        .version = 1,
        .header_size = 16,
        .size = sizeof(header.entry) + size,
        .entry = {.kind = KIND_PTX,
                  .version = 0x101,
                  .header_size = sizeof(header.entry),
                  .size = size,
                  .major = ISA_MAJOR,
                  .minor = ISA_MINOR,
                  .arch = arch,
                  .flags = FLAG_64_BIT},
    };
    FILE *file = fopen(path, "wb");
    struct stat st;
    bool ok;

    if (!file)
        return fail_on_file(path, strerror(errno));
    ok = fwrite(&header, sizeof(header), 1, file) == 1 && fwrite(text, 1, len, file) == len &&
         fwrite(zeros, 1, size - len, file) == size - len;
    if (fclose(file) || !ok) {
        int err = errno;

        if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) /* leaves devices alone */
            unlink(path);
        return fail_on_file(path, strerror(err));
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *input = NULL, *output = "sg_elf.o", *value, *target;
    unsigned arch = 0;
    size_t len;
    char *text;
    int rc;

    for (int i = 1; i < argc; i++) {
        const char *option = argv[i] + strspn(argv[i], "-");

        if (strcmp(argv[i], "-V") == 0 || strcmp(argv[i], "--version") == 0) {
            printf("ptxas: vgpu's, which keeps PTX for the software GPU\n"
                   "Cuda compilation tools, release " RELEASE ", V" RELEASE ".0\n");
            return 0;
        }
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            printf(
                "usage: ptxas [OPTIONS] -o OUTPUT FILE.ptx\n\n"
                "Writes a fat binary with the PTX of FILE.ptx as it is, for vgpu's software GPU. Options are\n"
                "those of NVIDIA's ptxas; all but --output-file and --gpu-name are ignored.\n");
            return 0;
        }
        if (argv[i][0] != '-' || !*option)
            input = argv[i];
        else if ((value = value_of("o", argv, &i)) || (value = value_of("output-file", argv, &i)))
            output = value;
        else if ((value = value_of("gpu-name", argv, &i)) || (value = value_of("arch", argv, &i)))
            arch = arch_of(value);
        else if (takes_value(option))
            i++;
    }
    if (!input)
        return fail_on_file("no input", "ptxas [OPTIONS] -o OUTPUT FILE.ptx");
    text = file_contents(input, &len);
    if (!text)
        return fail_on_file(input, strerror(errno));
    rc = check_ptx(input, text, len);
    if (!rc) {
        target = strstr(text, ".target");
        rc = save_cubin(output, text, len, arch ? arch : target ? arch_of(target) : 0);
    }
    free(text);
    return rc;
}
