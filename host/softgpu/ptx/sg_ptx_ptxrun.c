/* SPDX-License-Identifier: MIT */
/*
 * sg_ptxrun FILE.ptx...: parses PTX, decodes every kernel, and lists unsupported features. With -v
 * a line per kernel, with -q only the totals. Exit status 1 if a file could not be parsed.
 */
#include "ptx/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *buf = NULL;
    long n;

    if (!f)
        return NULL;
    if (!fseek(f, 0, SEEK_END) && (n = ftell(f)) >= 0) {
        rewind(f);
        buf = malloc((size_t)n + 1);
        if (buf)
            *len = fread(buf, 1, (size_t)n, f);
    }
    fclose(f);
    return buf;
}

static unsigned kernels, good;

static int one_file(const char *path, int verbose)
{
    struct sg_diag diag;
    struct sg_module *m;
    size_t len = 0;
    char *text = read_file(path, &len);
    int r;

    if (!text) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return 1;
    }
    r = sg_module_parse(text, len, &m, &diag);
    free(text);
    if (r) {
        fprintf(stderr, "%s:%u:%u: error %d: %s\n", path, diag.line, diag.column, r, diag.message);
        return 1;
    }
    for (uint32_t i = 0; i < sg_module_kernel_count(m); i++) {
        struct sg_kernel *k = sg_module_kernel(m, i);
        struct sg_kernel_info info;

        kernels++;
        r = sg_kernel_prepare(k, &diag);
        sg_kernel_get_info(k, &info);
        good += !r;
        if (r && verbose >= 0)
            printf("%s:%u:%u: %d: %s\n", path, diag.line, diag.column, r, diag.message);
        else if (verbose > 0)
            printf("%s: %s: %u parameters, %u registers, %u bytes shared, %u bytes local\n", path, info.name,
                   info.nparams, info.num_regs, info.static_shared, info.local_bytes);
    }
    sg_module_free(m);
    return 0;
}

int main(int argc, char **argv)
{
    int verbose = 0, bad = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: sg_ptxrun [-v|-q] FILE.ptx...\n");
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-v"))
            verbose = 1;
        else if (!strcmp(argv[i], "-q"))
            verbose = -1;
        else
            bad |= one_file(argv[i], verbose);
    }
    printf("%u kernels, %u decoded, %u not available\n", kernels, good, kernels - good);
    return bad;
}
