/* SPDX-License-Identifier: MIT */
/* Kernels of a few lines that use one piece of memory; for exec/run_test.c and
   exec/fault_test.c. */
#ifndef SG_EXEC_RUN_TEST_H
#define SG_EXEC_RUN_TEST_H

#include "exec/exec_test.h"
#include "ptx/module.h"

#include <string.h>

#define HEAD ".version 9.0\n.target sm_100\n.address_size 64\n"
/* A kernel with one pointer: %rd1 = p0 + 4 * global thread index, %r1 = thread index in block,
 * %r2 = block, %r3 = lane. */
#define KERNEL(decl, body) \
    HEAD decl ".visible .entry t(.param .u64 p0)\n{\n" \
              ".reg .pred %p<10>;\n.reg .b32 %r<30>;\n.reg .b64 %rd<10>;\n.reg .f32 %f<5>;\n" \
              "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %laneid;\n" \
              "mov.u32 %r4, %ntid.x;\nmad.lo.u32 %r5, %r2, %r4, %r1;\n" \
              "ld.param.u64 %rd0, [p0];\nmul.wide.u32 %rd2, %r5, 4;\nadd.u64 %rd1, %rd0, %rd2;\n" body \
              "\nret;\n}\n"

#define COUNT 4096
static uint32_t *mem; /* memory of the kernel: COUNT words */

/* Runs the kernel on COUNT words of zeroed memory and returns the result. */
static inline int go3(const char *text, const uint32_t grid[3], const uint32_t block[3], struct sg_fault *f)
{
    struct tk t;
    struct {
        void *p;
    } prm = {mem};
    int r;

    memset(f, 0, sizeof(*f));
    memset(mem, 0, COUNT * 4);
    t_output_len = 0;
    t_output[0] = 0;
    if (!tk_open(&t, text, "t")) {
        sg_module_free(t.m);
        return -1;
    }
    r = tk_run3(&t, grid, block, 0, &prm, f);
    tk_close(&t);
    return r;
}

static int go(const char *text, uint32_t grid, uint32_t block, struct sg_fault *f)
{
    return go3(text, (uint32_t[3]){grid, 1, 1}, (uint32_t[3]){block, 1, 1}, f);
}

#endif
