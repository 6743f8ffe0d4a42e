/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: cubins (ptx/sg_ptx_cubin.c). Input: an ELF file, in a block of exactly its size. Reads
 * its kernels and variables, and gives the variables addresses and initial values.
 */
#include "device.h"

#include <stdlib.h>
#include <string.h>

#define GLOBAL_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(struct sg_module *m)
{
    static volatile size_t sum;
    struct sg_diag d = {.message = ""};

    for (uint32_t i = 0; i < sg_module_kernel_count(m); i++) {
        struct sg_kernel *k = sg_module_kernel(m, i);
        struct sg_kernel_info info;

        sg_kernel_get_info(k, &info);
        sum += strlen(info.name) + (sg_module_find_kernel(m, info.name) != NULL);
        if (info.param_bytes > SG_MAX_PARAM_BYTES)
            abort();
        for (uint32_t p = 0; p < info.nparams; p++)
            if (info.params[p].offset > info.param_bytes ||
                info.params[p].size > info.param_bytes - info.params[p].offset)
                abort(); /* the driver half copies parameters by these */
        if (!sg_kernel_prepare(k, &d) || !d.message[0])
            abort(); /* machine code must be refused, with a reason */
    }
    for (uint32_t i = 0; i < sg_module_global_count(m); i++) {
        struct sg_global_info g;

        sg_module_get_global(m, i, &g);
        sum += strlen(g.name);
        if (g.size > GLOBAL_MAX) /* the driver half would ask its quota */
            return;
        sg_module_set_global_address(m, i, (uintptr_t)fz_alloc(g.size ? g.size : 1));
    }
    sg_module_init_globals(m, &d);
    (void)sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sg_diag d = {.message = ""};
    struct sg_module *m;
    uint8_t *copy;

    if (!size || !(copy = malloc(size)))
        return 0;
    memcpy(copy, data, size);
    if (!sg_sass_parse(copy, size, "SASS", &m, &d)) {
        look(m);
        sg_module_free(m);
        fz_free_all();
    } else if (!d.message[0]) {
        abort(); /* a refusal without a reason */
    }
    free(copy);
    return 0;
}
