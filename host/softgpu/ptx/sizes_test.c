/* SPDX-License-Identifier: MIT */
/*
 * Sizes that a text declares: products and sums of them that wrap. The initial values of a variable
 * are written into it, and nowhere else.
 */
#include "exec/exec_test.h"
#include "ptx/ptx.h"

#include <stdlib.h>
#include <string.h>

#define ROOM 4096u /* bytes on each side that must stay as they are */

static const struct {
    const char *name, *text;
    uint64_t size; /* UINT64_MAX: it is refused */
} cases[] = {
    {"rows", ".global .u16 x[2][2] = {{1}, {2, 3}};", 8},
    {"as many rows as there are", ".global .align 4 .b32 x[][3] = {{1, 2, 3}, {4}};", 24},
    {"no row has elements", ".global .align 4 .b32 x[][0] = {1, 2};", UINT64_MAX},
    {"rows so long that a number wraps", ".global .align 4 .b32 x[][2147483647][2147483649] = {{1}, 2};",
     UINT64_MAX},
    {"... of none", ".global .align 4 .b32 x[0][2147483647][2147483649];", UINT64_MAX},
    {"... in between", ".global .align 4 .b32 x[2147483647][0][2147483649];", UINT64_MAX},
    {"a product that is 0", ".global .align 4 .b32 x[][65536][65536][65536][65536] = {{1}, {2}};",
     UINT64_MAX},
    {"empty rows", ".global .align 4 .b32 x[2][2] = {{}, {}, {}, {1}};", UINT64_MAX},
    {"longer than declared", ".global .align 4 .b32 x[2] = {1, 2, 3};", UINT64_MAX},
};

/* The size of the variable in which its initial values are; UINT64_MAX: refused, UINT64_MAX - 1:
   written beside it. */
static uint64_t initialised(const char *variable)
{
    struct sg_module *m = NULL;
    struct sg_global_info g;
    struct sg_diag diag;
    uint64_t result = UINT64_MAX;
    char text[512];
    uint8_t *all;

    snprintf(text, sizeof(text), ".version 8.0\n.target sm_80\n.address_size 64\n%s\n", variable);
    if (sg_module_parse(text, strlen(text), &m, &diag))
        return result;
    sg_module_get_global(m, 0, &g);
    all = g.size <= ROOM ? malloc(2 * ROOM + g.size) : NULL;
    if (all) {
        memset(all, 0x5a, 2 * ROOM + g.size);
        sg_module_set_global_address(m, 0, (uintptr_t)all + ROOM);
        if (!sg_module_init_globals(m, &diag))
            result = g.size;
        for (uint64_t i = 0; i < ROOM; i++)
            if (all[i] != 0x5a || all[ROOM + g.size + i] != 0x5a)
                result = UINT64_MAX - 1;
    }
    free(all);
    sg_module_free(m);
    return result;
}

int main(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint64_t size = initialised(cases[i].text);

        t_result(cases[i].name, size == cases[i].size, "%lld", (long long)size);
    }
    return t_end("softgpu sizes");
}
