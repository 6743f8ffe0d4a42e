/* SPDX-License-Identifier: MIT */
/* Memory for native code: adjacent free pieces merge, in every order of frees. */
#include "exec/exec_test.h"
#include "jit/jit.h"

#include <string.h>

#ifdef SG_JIT

#define PIECE 65536u

static uint8_t code[3 * PIECE];

static void test_orders(bool between)
{
    static const unsigned orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    uint8_t *first = sg_jit_mem_put(code, 1);
    unsigned apart = 0, wrong = 0;

    sg_jit_mem_free(first, 1);
    for (unsigned i = 0; i < 6; i++) {
        uint8_t *p[3], *behind = NULL, *whole;

        for (unsigned k = 0; k < 3; k++)
            p[k] = sg_jit_mem_put(code, PIECE);
        if (between) /* the free memory behind them is not adjacent */
            behind = sg_jit_mem_put(code, 1);
        for (unsigned k = 0; k < 3; k++)
            sg_jit_mem_free(p[orders[i][k]], PIECE);
        whole = sg_jit_mem_put(code, sizeof(code));
        apart += p[0] != first || whole != first;
        wrong += !whole || memcmp(whole, code, sizeof(code)) != 0;
        sg_jit_mem_free(whole, sizeof(code));
        sg_jit_mem_free(behind, 1);
    }
    t_result(between ? "freed pieces in front of a used one are one" : "freed pieces are one",
             !apart && !wrong, "%u elsewhere, %u with other bytes", apart, wrong);
}

#endif

int main(int argc, char **argv)
{
    t_variant(argc, argv);
#ifdef SG_JIT
    if (sg_jit_mem_init()) {
        for (unsigned i = 0; i < sizeof(code); i++)
            code[i] = (uint8_t)(i * 7 + i / PIECE);
        test_orders(true);
        test_orders(false);
        return t_end("softgpu code memory");
    }
#endif
    t_skip("memory for native code", "no executable memory here");
    return t_end("softgpu code memory");
}
