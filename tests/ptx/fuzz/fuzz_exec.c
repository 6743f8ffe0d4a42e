/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: decode and run. Input: the body of a kernel, put between a fixed head (which
 * declares registers, shared, local, constant and global memory and loads addresses) and a fixed
 * tail. The kernel runs with a few warps under the watchdog on memory that ends where
 * AddressSanitizer's guard begins: once as an ordinary launch, once as a cooperative launch, where the head
 * has the address of the grid's barrier, as in cooperative groups, and once as a cluster of two blocks. The
 * process must survive every body.
 */
#define _GNU_SOURCE
#include "device.h"
#include "mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_MAX 16384
#define ROOM 4096
#define BUDGET 20000 /* warp instructions of a launch */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

/* The first line, with the target: some instructions are of a single one. */
#define FIRST ".version 9.0\n.target %s\n.address_size 64\n"
static const char head[] =
    ".global .align 8 .b8 glob[256];\n.const .align 4 .b32 cst[16] = {1,2,3,4,5,6,7,8};\n"
    ".extern .shared .align 16 .b8 dyn[];\n"
    ".func (.param .b32 r) f(.param .b32 a)\n{\n.reg .b32 %x<3>;\nld.param.b32 %x1, [a];\n"
    "add.s32 %x2, %x1, 1;\nst.param.b32 [r], %x2;\nret;\n}\n"
    /* the device runtime: functions that a body may call, and kernels that it may launch */
    ".extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2(.param .b64 f,"
    " .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);\n"
    ".extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2(.param .b64 p, .param .b64 s);\n"
    ".extern .func (.param .b32 r) __cudaCDP2MemcpyAsync(.param .b64 t, .param .b64 f,"
    " .param .b64 n, .param .b32 k, .param .b64 s);\n"
    ".extern .func (.param .b32 r) __cudaCDP2MemsetAsync(.param .b64 t, .param .b32 v,"
    " .param .b64 n, .param .b64 s);\n"
    ".extern .func (.param .b32 r) __cudaCDP2Memcpy2DAsync(.param .b64 t, .param .b64 tp, .param .b64 f,"
    " .param .b64 fp, .param .b64 w, .param .b64 h, .param .b32 k, .param .b64 s);\n"
    ".extern .func (.param .b32 r) __cudaCDP2Memset2DAsync(.param .b64 t, .param .b64 tp, .param .b32 v,"
    " .param .b64 w, .param .b64 h, .param .b64 s);\n"
    ".extern .func (.param .b32 r) __cudaCDP2Memcpy3DAsync(.param .b64 p, .param .b64 s);\n"
    ".extern .func (.param .b32 r) __cudaCDP2Memset3DAsync(.param .align 8 .b8 p[32], .param .b32 v,"
    " .param .align 8 .b8 e[24], .param .b64 s);\n"
    ".extern .func (.param .b64 r) __cudaCDP2GetErrorString(.param .b32 e);\n"
    ".extern .func (.param .b32 r) __cudaCDP2Malloc(.param .b64 p, .param .b64 n);\n"
    ".extern .func (.param .b32 r) __cudaCDP2Free(.param .b64 p);\n"
    ".extern .func (.param .b32 r) __cudaCDP2StreamCreateWithFlags(.param .b64 p, .param .b32 f);\n"
    ".extern .func (.param .b32 r) __cudaCDP2GetLastError();\n"
    ".extern .func (.param .b32 r) __cudaCDP2FuncGetAttributes(.param .b64 p, .param .b64 f);\n"
    ".visible .entry child(.param .u64 p0, .param .u32 p1)\n.reqntid 4, 2\n{\n.reg .b32 %r<4>;\n"
    ".reg .b64 %rd<4>;\nld.param.u64 %rd1, [p0];\nld.param.u32 %r1, [p1];\nst.u32 [%rd1], %r1;\nret;\n}\n"
    ".visible .entry t(.param .u64 p0, .param .u64 p1, .param .u32 p2, .param .f32 p3,\n"
    ".param .align 8 .b8 p4[16])\n{\n.reg .pred %p<8>;\n.reg .b16 %h<16>;\n.reg .b32 %r<32>;\n"
    ".reg .b64 %rd<16>;\n.reg .f32 %f<16>;\n.reg .f64 %fd<8>;\n.reg .b128 %q<4>;\n"
    ".shared .align 16 .b8 sh[1024];\n.local .align 16 .b8 loc[64];\n"
    "ld.param.u64 %rd1, [p0];\nld.param.u64 %rd2, [p1];\nmov.u32 %r1, %tid.x;\n"
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %laneid;\nmul.wide.u32 %rd3, %r1, 8;\n"
    "add.s64 %rd4, %rd1, %rd3;\nmov.u32 %r4, sh;\nshl.b32 %r5, %r1, 3;\nadd.s32 %r6, %r4, %r5;\n"
    "mov.u64 %rd5, loc;\nand.b32 %r7, %r1, 1;\nsetp.eq.u32 %p1, %r7, 1;\nld.param.f32 %f1, [p3];\n"
    "mov.u32 %r8, %envreg1;\nmov.u32 %r9, %envreg2;\nmov.b64 %rd6, {%r9, %r8};\n"
    "mov.u32 %r10, 256;\nmov.u32 %r11, sh;\n";
static const char tail[] = "\nLEND:\nret;\n}\n";

/* With FZ_SAY set, why an input did not run: how the seeds are checked. */
static void say(const struct sg_diag *d)
{
    if (getenv("FZ_SAY"))
        printf("refused: line %u: %s\n", d->line, d->message);
}

/* warpgroup: in blocks of its four warps. */
static void run(struct sg_module *m, bool warpgroup)
{
    struct sg_launch l = {.grid = {2, 1, 1},
                          .block = {warpgroup ? 128 : 48, 1, 1},
                          .dynamic_shared = 256,
                          .max_instructions = BUDGET,
                          .print = fz_no_print,
                          .texture = fz_texture};
    uint64_t params[SG_MAX_PARAM_BYTES / 8 + 1];
    struct sg_kernel_info info;
    struct sg_fault fault = {.message = ""};
    struct sg_diag d;

    for (uint32_t i = 0; i < sg_module_global_count(m); i++) {
        struct sg_global_info g;

        sg_module_get_global(m, i, &g);
        if (g.size > ROOM)
            return;
        sg_module_set_global_address(m, i, (uintptr_t)fz_alloc(g.size ? g.size : 1));
    }
    l.kernel = sg_module_kernel(m, 1); /* the head has the first one */
    if (sg_module_init_globals(m, &d) || sg_kernel_prepare(l.kernel, &d)) {
        say(&d);
        return;
    }
    sg_kernel_get_info(l.kernel, &info);
    if (info.static_shared > 65536 || info.local_bytes > 65536)
        return; /* a launch of the driver half is refused */
    for (size_t i = 0; i < sizeof(params) / 8; i++)
        params[i] = 0x0000000300000002ull;
    params[0] = (uintptr_t)fz_alloc(ROOM);
    params[1] = (uintptr_t)fz_alloc(ROOM);
    fz_textures(params[1], ROOM);
    l.params = params;
    for (int k = 0; k < 3; k++) {
        l.cooperative = k == 1;
        for (int i = 0; i < 3; i++)
            l.cluster[i] = k < 2 ? 0 : i ? 1 : 2;
        if (!sg_exec_launch(&l, &fault))
            continue;
        if (!fault.message[0])
            abort(); /* a fault without a reason */
        if (getenv("FZ_SAY"))
            printf("fault%s: %s\n",
                   k == 2 ? " of the cluster"
                   : k    ? " of the cooperative launch"
                          : "",
                   fault.message);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[sizeof(FIRST) + 16 + sizeof(head) + BODY_MAX + sizeof(tail)];
    const bool blackwell = size <= BODY_MAX && memmem(data, size, "tcgen05", 7),
               hopper = size <= BODY_MAX && memmem(data, size, "wgmma", 5);
    struct sg_module *m;
    size_t n;
    struct sg_diag d;

    if (size > BODY_MAX)
        return -1;
    sg_exec_set_threads(1);
    n = (size_t)snprintf(text, sizeof(text), FIRST "%s",
                         blackwell ? "sm_100a"
                         : hopper  ? "sm_90a"
                                   : "sm_90",
                         head);
    memcpy(text + n, data, size);
    n += size;
    memcpy(text + n, tail, sizeof(tail) - 1);
    n += sizeof(tail) - 1;
    if (sg_module_parse(text, n, &m, &d)) {
        say(&d);
        return 0;
    }
    if (sg_module_kernel_count(m) > 1)
        run(m, blackwell || hopper);
    sg_module_free(m);
    fz_free_all();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    return fz_mutate(data, size, max, seed);
}
