/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: the PTX front end, from the lexer to the decoder. Input: PTX text. Every kernel
 * is decoded, every global gets an address and its initial value; nothing is executed.
 */
#include "device.h"
#include "mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GLOBAL_MAX (1u << 20)
#define LINES 40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

static void decode(struct sg_module *m)
{
    struct sg_diag d;

    for (uint32_t i = 0; i < sg_module_global_count(m); i++) {
        struct sg_global_info g;

        sg_module_get_global(m, i, &g);
        if (g.size > GLOBAL_MAX) /* the driver half would ask its quota */
            return;
        sg_module_set_global_address(m, i, (uintptr_t)fz_alloc(g.size ? g.size : 1));
    }
    if (sg_module_init_globals(m, &d))
        return;
    for (uint32_t i = 0; i < sg_module_kernel_count(m); i++) {
        struct sg_kernel_info info;

        if (sg_kernel_prepare(sg_module_kernel(m, i), &d) && getenv("FZ_SAY"))
            printf("refused: line %u: %s\n", d.line, d.message);
        sg_kernel_get_info(sg_module_kernel(m, i), &info);
        if (info.param_bytes > SG_MAX_PARAM_BYTES)
            abort();
    }
}

/* As for a kernel that failed in an early line. */
static void look_up_source(const struct sg_module *m)
{
    char where[SG_SOURCE_MAX];

    for (uint32_t line = 0; line < LINES; line++) {
        if (sg_module_source(m, line, where, sizeof(where)) && !memchr(where, 0, sizeof(where)))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sg_module *m;
    struct sg_diag d = {.message = ""};

    if (!sg_module_parse((const char *)data, size, &m, &d)) {
        decode(m);
        look_up_source(m);
        sg_module_free(m);
        fz_free_all();
    } else if (!d.message[0]) {
        abort(); /* a refusal without a reason */
    } else if (getenv("FZ_SAY")) {
        printf("refused: line %u: %s\n", d.line, d.message);
    }
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    return fz_mutate(data, size, max, seed);
}
