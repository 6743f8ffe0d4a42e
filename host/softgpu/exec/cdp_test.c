/* SPDX-License-Identifier: MIT */
/* Kernels that launch kernels: parameters, order, depth, copies, refusals and the call whose error
   reports it. */
#include "exec/exec_test.h"

#include <string.h>
#include <unistd.h>

#define HEAD HEAD_OF("80")
#define HEAD_OF(target) \
    ".version 8.0\n.target sm_" target "\n.address_size 64\n" \
    ".extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2(.param .b64 f," \
    " .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2(.param .b64 p, .param .b64 s);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2MemcpyAsync(.param .b64 t, .param .b64 f," \
    " .param .b64 n, .param .b32 k, .param .b64 s);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2MemsetAsync(.param .b64 t, .param .b32 v," \
    " .param .b64 n, .param .b64 s);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2Memcpy2DAsync(.param .b64 t, .param .b64 tp, .param .b64 f," \
    " .param .b64 fp, .param .b64 w, .param .b64 h, .param .b32 k, .param .b64 s);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2Memset2DAsync(.param .b64 t, .param .b64 tp, .param .b32 v," \
    " .param .b64 w, .param .b64 h, .param .b64 s);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2Memcpy3DAsync(.param .b64 p, .param .b64 s);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2Memset3DAsync_ptsz(.param .align 8 .b8 p[32], .param .b32 v," \
    " .param .align 8 .b8 e[24], .param .b64 s);\n" \
    ".extern .func (.param .b64 r) __cudaCDP2GetErrorName(.param .b32 e);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2Malloc(.param .b64 p, .param .b64 n);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2Free(.param .b64 p);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2StreamCreateWithFlags(.param .b64 p," \
    " .param .b32 f);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2StreamDestroy(.param .b64 s);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2GetLastError();\n" \
    ".extern .func (.param .b32 r) __cudaCDP2PeekAtLastError();\n" \
    ".extern .func (.param .b32 r) __cudaCDP2EventCreateWithFlags(.param .b64 p, .param .b32 f);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2EventRecord_ptsz(.param .b64 e, .param .b64 s);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2StreamWaitEvent(.param .b64 s, .param .b64 e, .param .b32 f);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2EventDestroy(.param .b64 e);\n" \
    ".extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2_ptsz(.param .b64 p, .param .b64 s);\n"
#define REGS ".reg .b64 %rd<16>;\n.reg .b32 %r<16>;\n.reg .pred %p<4>;\n"

/* %rd9: the buffer for a launch of f with g blocks of b threads */
#define BUFFER(f, g, b, shared) \
    "{ .param .b64 p0; .param .align 4 .b8 p1[12]; .param .align 4 .b8 p2[12]; .param .b32 p3;\n" \
    ".param .b64 q; mov.u64 %rd8, " f "; st.param.b64 [p0], %rd8;\n" \
    "st.param.b32 [p1], " g "; st.param.b32 [p1+4], 1; st.param.b32 [p1+8], 1;\n" \
    "st.param.b32 [p2], " b "; st.param.b32 [p2+4], 1; st.param.b32 [p2+8], 1;\n" \
    "st.param.b32 [p3], " shared ";\n" \
    "call.uni (q), __cudaCDP2GetParameterBufferV2, (p0, p1, p2, p3); ld.param.b64 %rd9, [q]; }\n"
#define LAUNCH(stream) \
    "{ .param .b64 p0; .param .b64 p1; .param .b32 q; st.param.b64 [p0], %rd9;\n" \
    "mov.u64 %rd8, " stream "; st.param.b64 [p1], %rd8;\n" \
    "call.uni (q), __cudaCDP2LaunchDeviceV2, (p0, p1); ld.param.b32 %r9, [q]; }\n"
#define ERROR(which) "{ .param .b32 q; call.uni (q), __cudaCDP2" which ", (); ld.param.b32 %r8, [q]; }\n"

/* The same with the guide's names for PTX, which lack the compilers' prefix. */
#define PLAIN \
    ".version 8.0\n.target sm_80\n.address_size 64\n" \
    ".extern .func (.param .b64 r) cudaGetParameterBufferV2(.param .b64 f," \
    " .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);\n" \
    ".extern .func (.param .b32 r) cudaLaunchDeviceV2(.param .b64 p, .param .b64 s);\n"
#define PLAIN_LAUNCH(f, v) \
    "{ .param .b64 p0; .param .align 4 .b8 p1[12]; .param .align 4 .b8 p2[12]; .param .b32 p3;\n" \
    ".param .b64 q; .param .b32 e; mov.u64 %rd8, " f "; st.param.b64 [p0], %rd8;\n" \
    "st.param.b32 [p1], 1; st.param.b32 [p1+4], 1; st.param.b32 [p1+8], 1;\n" \
    "st.param.b32 [p2], 1; st.param.b32 [p2+4], 1; st.param.b32 [p2+8], 1; st.param.b32 [p3], 0;\n" \
    "call.uni (q), cudaGetParameterBufferV2, (p0, p1, p2, p3); ld.param.b64 %rd9, [q];\n" ARGS( \
        v) "st.param.b64 [p0], %rd9; mov.u64 %rd8, 0; st.param.b64 [q], %rd8;\n" \
           "call.uni (e), cudaLaunchDeviceV2, (p0, q); ld.param.b32 %r9, [e]; }\n"

/* append(table, value): table[0] counts, values follow */
#define APPEND \
    ".visible .entry append(.param .u64 t, .param .u32 v)\n{\n" REGS \
    "ld.param.u64 %rd1, [t];\nld.param.u32 %r1, [v];\natom.global.add.u32 %r2, [%rd1], 1;\n" \
    "mul.wide.u32 %rd2, %r2, 4;\nadd.u64 %rd2, %rd1, %rd2;\nst.global.u32 [%rd2+4], %r1;\nret;\n}\n"
#define ARGS(v) "st.global.u64 [%rd9], %rd1;\nst.u32 [%rd9+8], " v ";\n"

static void run(const char *name, const char *text, const uint32_t *want, unsigned n, uint32_t threads)
{
    uint32_t *out = tm_alloc(4096);
    struct sg_fault f = {0};
    bool ok = false;
    struct tk t;
    int r = -1;

    memset(out, 0, 4096);
    if (tk_open(&t, text, "parent")) {
        r = tk_run(&t, 1, threads, &out, &f);
        ok = !r && !memcmp(out, want, n * 4);
        tk_close(&t);
    }
    t_result(name, ok, "result %d %s %s: %u %u %u %u %u %u", r, f.message, t.diag.message, out[0], out[1],
             out[2], out[3], out[4], out[5]);
    tm_free_all();
}

#define PARENT(body) \
    HEAD APPEND ".visible .entry parent(.param .u64 t)\n{\n" REGS "ld.param.u64 %rd1, [t];\n" body "ret;\n}\n"
#define APPENDED(v, stream) BUFFER("append", "1", "1", "0") ARGS(v) LAUNCH(stream)
#define NOTE(reg) /* the parent itself appends, from thread 0's view */ \
    "atom.global.add.u32 %r2, [%rd1], 1;\nmul.wide.u32 %rd2, %r2, 4;\n" \
    "add.u64 %rd2, %rd1, %rd2;\nst.global.u32 [%rd2+4], " reg ";\n"

static void order(void)
{
    /* Children after their parent, in the order of launch; those of the tail stream last. */
    run("order of children",
        PARENT(APPENDED("10", "0") APPENDED("99", "3") APPENDED("11", "4") "mov.u32 %r1, 1;\n" NOTE("%r1")
                   NOTE("%r9")),
        (const uint32_t[]){5, 1, 0, 10, 11, 99}, 6, 1);
    run("names without prefix",
        PLAIN APPEND ".visible .entry parent(.param .u64 t)\n{\n" REGS
                     "ld.param.u64 %rd1, [t];\n" PLAIN_LAUNCH("append", "10") PLAIN_LAUNCH("append", "11")
                         NOTE("%r9") "ret;\n}\n",
        (const uint32_t[]){3, 0, 10, 11}, 4, 1);
    /* libcudadevrt's PTX has bodies, which call functions of NVIDIA's driver: they are not
       entered. */
    run("functions with a body",
        ".version 9.0\n.target sm_80\n.address_size 64\n"
        ".extern .func (.param .b64 r) __cuda_syscall_cnpv2GetParameterBufferV2(.param .b64 f);\n"
        ".extern .func (.param .b32 r) __cuda_syscall_cnpv2LaunchDeviceV2(.param .b64 p);\n"
        ".visible .func (.param .b64 r) __cudaCDP2GetParameterBufferV2(.param .b64 f,"
        " .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s)\n{\n"
        "{ .param .b64 p; .param .b64 q; call.uni (q), __cuda_syscall_cnpv2GetParameterBufferV2, (p); }\nret;\n}\n"
        ".visible .func (.param .b32 r) __cudaCDP2LaunchDeviceV2(.param .b64 p, .param .b64 s)\n{\n"
        "{ .param .b64 a; .param .b32 q; call.uni (q), __cuda_syscall_cnpv2LaunchDeviceV2, (a); }\nret;\n}\n" APPEND
        ".visible .entry parent(.param .u64 t)\n{\n" REGS "ld.param.u64 %rd1, [t];\n" APPENDED("10", "0")
            NOTE("%r9") "ret;\n}\n",
        (const uint32_t[]){2, 0, 10}, 3, 1);
    run("each thread of a warp",
        PARENT("mov.u32 %r4, %tid.x;\n" BUFFER("append", "1", "2", "0") ARGS("%r4") LAUNCH("0")),
        (const uint32_t[]){6, 0, 0, 1, 1, 2, 2}, 7, 3);
    /* A kernel that launches itself with a counter, down to 0. */
    run("depth",
        HEAD APPEND
        ".visible .entry down(.param .u64 t, .param .u32 v)\n{\n" REGS
        "ld.param.u64 %rd1, [t];\nld.param.u32 %r1, [v];\n" NOTE("%r1") "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra END;\nsub.u32 %r1, %r1, 1;\n" BUFFER(
            "down", "1", "1", "0") "setp.eq.u64 %p2, %rd9, 0;\n@%p2 bra NONE;\n" ARGS("%r1")
            LAUNCH("0") "bra END;\nNONE:\n" ERROR("GetLastError")
                NOTE("%r8") "END:\nret;\n}\n"
                            ".visible .entry parent(.param .u64 t)\n{\n" REGS
                            "ld.param.u64 %rd1, [t];\n" BUFFER("down", "1", "1", "0") ARGS("100")
                                LAUNCH("0") "ret;\n}\n",
        (const uint32_t[]){24, 100, 99, 98}, 4, 1); /* 23 grids below the first, and error 65 */
}

static void memory(void)
{
    /* Eight bytes of the table are set, copied, and only then read by a child. */
    run("copies and memsets",
        PARENT("add.u64 %rd3, %rd1, 64;\nadd.u64 %rd4, %rd1, 80;\n"
               "{ .param .b64 a; .param .b32 b; .param .b64 c; .param .b64 d; .param .b32 q;\n"
               "st.param.b64 [a], %rd3; st.param.b32 [b], 5; st.param.b64 [c], 8;\n"
               "st.param.b64 [d], 0; call.uni (q), __cudaCDP2MemsetAsync, (a, b, c, d); }\n"
               "{ .param .b64 a; .param .b64 b; .param .b64 c; .param .b32 d; .param .b64 e;\n"
               ".param .b32 q; st.param.b64 [a], %rd1; st.param.b64 [b], %rd3;\n"
               "st.param.b64 [c], 4; st.param.b32 [d], 3; st.param.b64 [e], 0;\n"
               "call.uni (q), __cudaCDP2MemcpyAsync, (a, b, c, d, e); ld.param.b32 %r1, [q]; }\n"
               "st.global.u32 [%rd1+4], %r1;\nst.global.u32 [%rd1], 77;\n"),
        (const uint32_t[]){0x05050505, 0, 0}, 3, 1);
    /* Two rows of 4 bytes are set, 8 bytes apart; two of 8 are copied from there 16 bytes away; a pitch is
       too small. */
#define COPY_ROWS(width, height) \
    "{ .param .b64 t; .param .b64 p; .param .b64 f; .param .b64 g; .param .b64 w; .param .b64 h;\n" \
    ".param .b32 k; .param .b64 s; .param .b32 q; st.param.b64 [t], %rd1; st.param.b64 [p], 8;\n" \
    "st.param.b64 [f], %rd3; st.param.b64 [g], 12; st.param.b64 [w], " width "; st.param.b64 [h], " height \
    ";\n" \
    "st.param.b32 [k], 3; st.param.b64 [s], 0;\n" \
    "call.uni (q), __cudaCDP2Memcpy2DAsync, (t, p, f, g, w, h, k, s); ld.param.b32 %r1, [q]; }\n"
    run("copies and memsets of rows",
        PARENT(
            "add.u64 %rd3, %rd1, 64;\n"
            "{ .param .b64 t; .param .b64 p; .param .b32 v; .param .b64 w; .param .b64 h; .param .b64 s;\n"
            ".param .b32 q; st.param.b64 [t], %rd3; st.param.b64 [p], 8; st.param.b32 [v], 257;\n"
            "st.param.b64 [w], 4; st.param.b64 [h], 3; st.param.b64 [s], 0;\n"
            "call.uni (q), __cudaCDP2Memset2DAsync, (t, p, v, w, h, s); ld.param.b32 %r1, [q]; }\n"
            "st.global.u32 [%rd1+24], %r1;\n" COPY_ROWS("8", "2") "st.global.u32 [%rd1+28], %r1;\n" COPY_ROWS(
                "9", "2") "st.global.u32 [%rd1+16], %r1;\n"),
        (const uint32_t[]){0x01010101, 0, 0, 0x01010101, 12, 0, 0, 0}, 8, 1);
    run("malloc, free, streams",
        PARENT(
            ".local .align 8 .b8 l[16];\nmov.u64 %rd5, l;\ncvta.local.u64 %rd5, %rd5;\n"
            "{ .param .b64 a; .param .b64 b; .param .b32 q; st.param.b64 [a], %rd5;\n"
            "st.param.b64 [b], 64; call.uni (q), __cudaCDP2Malloc, (a, b);\n"
            "ld.param.b32 %r1, [q]; }\n" NOTE("%r1") "ld.u64 %rd6, [%rd5];\nst.u32 [%rd6+60], 9;\nld.u32 %r1, [%rd6+60];\n" NOTE(
                "%r1") "{ .param .b64 a; .param .b32 q; st.param.b64 [a], %rd6;\n"
                       "call.uni (q), __cudaCDP2Free, (a); ld.param.b32 %r1, [q]; }\n" NOTE(
                           "%r1") "{ .param .b64 a; .param .b32 q; st.param.b64 [a], %rd6;\n"
                                  "call.uni (q), __cudaCDP2Free, (a); ld.param.b32 %r1, [q]; }\n" NOTE(
                                      "%r1") ERROR("PeekAtLastError") NOTE("%r8") ERROR("GetLastError")
                                      NOTE("%r8") ERROR("GetLastError") NOTE(
                                          "%r8") "{ .param .b64 a; .param .b32 b; .param .b32 q; st.param.b64 [a], %rd5;\n"
                                                 "st.param.b32 [b], 1; call.uni (q), __cudaCDP2StreamCreateWithFlags, (a, b);\n"
                                                 "ld.param.b32 %r1, [q]; }\n" NOTE(
                                                     "%r1") "ld.u64 %rd6, [%rd5];\n"
                                                            "{ .param .b64 a; .param .b32 q; st.param.b64 [a], %rd6;\n"
                                                            "call.uni (q), __cudaCDP2StreamDestroy, (a); ld.param.b32 %r1, [q]; }\n" NOTE(
                                                                "%r1")),
        (const uint32_t[]){9, 0, 9, 0, 1, 1, 1, 0, 0, 0}, 10, 1);
}

/* Two rows of 4 bytes in each of two slices are set, 8 bytes apart, slices of 3 rows; two rows, from the second,
   are copied to the end of rows of 8 bytes in slices of 2. A row does not fit, an array: errors. */
static void boxes(void)
{
#define COPY_BOX \
    "{ .param .b64 p; .param .b64 s; .param .b32 q; st.param.b64 [p], %rd4; st.param.b64 [s], 0;\n" \
    "call.uni (q), __cudaCDP2Memcpy3DAsync, (p, s); ld.param.b32 %r1, [q]; }\n"
    run("copies and memsets of boxes",
        PARENT(
            "add.u64 %rd3, %rd1, 512;\nadd.u64 %rd4, %rd1, 1024;\nmov.u64 %rd5, 0;\n"
            "{ .param .align 8 .b8 p[32]; .param .b32 v; .param .align 8 .b8 e[24]; .param .b64 s;\n"
            ".param .b32 q; st.param.b64 [p], %rd3; st.param.b64 [p+8], 8; st.param.b64 [p+16], 8;\n"
            "st.param.b64 [p+24], 3; st.param.b32 [v], 257; st.param.b64 [e], 4; st.param.b64 [e+8], 2;\n"
            "st.param.b64 [e+16], 2; st.param.b64 [s], 0;\n"
            "call.uni (q), __cudaCDP2Memset3DAsync_ptsz, (p, v, e, s); ld.param.b32 %r1, [q]; }\n"
            "st.global.u32 [%rd1+32], %r1;\n"
            "st.global.u64 [%rd4+16], 1;\nst.global.u64 [%rd4+32], %rd3;\nst.global.u64 [%rd4+40], 8;\n"
            "st.global.u64 [%rd4+48], 8;\nst.global.u64 [%rd4+56], 3;\nst.global.u64 [%rd4+72], 4;\n"
            "st.global.u64 [%rd4+96], %rd1;\nst.global.u64 [%rd4+104], 8;\nst.global.u64 [%rd4+112], 8;\n"
            "st.global.u64 [%rd4+120], 2;\nst.global.u64 [%rd4+128], 4;\nst.global.u64 [%rd4+136], 2;\n"
            "st.global.u64 [%rd4+144], 2;\nst.global.u32 [%rd4+152], 3;\n" COPY_BOX
            "st.global.u32 [%rd1+36], %r1;\nst.global.u64 [%rd4+128], 5;\n" COPY_BOX
            "st.global.u32 [%rd1+40], %r1;\nst.global.u64 [%rd4+128], 4;\nst.global.u64 [%rd4], 1;\n" COPY_BOX
            "st.global.u32 [%rd1+44], %r1;\n"),
        (const uint32_t[]){0, 0x01010101, 0, 0, 0, 0x01010101, 0, 0, 0, 0, 12, 1}, 12, 1);
    run("names of errors",
        PARENT(
            "{ .param .b32 a; .param .b64 q; st.param.b32 [a], 9; call.uni (q), __cudaCDP2GetErrorName, (a);\n"
            "ld.param.b64 %rd3, [q]; }\nld.u8 %r1, [%rd3+9];\nld.u8 %r2, [%rd3+29];\n"
            "st.global.u32 [%rd1], %r1;\nst.global.u32 [%rd1+4], %r2;\n"),
        (const uint32_t[]){'I', 0}, 2, 1);
}

/* Events, and the forms of nvcc --default-stream per-thread. An event that is none is an error. */
static void events(void)
{
#define CALL_2(name, first, type, second) \
    "{ .param .b64 a; .param .b" type " b; .param .b32 q; st.param.b64 [a], " first ";\n" \
    "st.param.b" type " [b], " second "; call.uni (q), __cudaCDP2" name \
    ", (a, b); ld.param.b32 %r5, [q]; }\n"
#define WAIT(event) \
    "{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b32 q; st.param.b64 [a], 0;\n" \
    "st.param.b64 [b], " event \
    "; st.param.b32 [c], 0; call.uni (q), __cudaCDP2StreamWaitEvent, (a, b, c);\n" \
    "ld.param.b32 %r5, [q]; }\n"
    run("events",
        PARENT(
            "add.u64 %rd5, %rd1, 2048;\n" CALL_2("EventCreateWithFlags", "%rd5", "32", "2")
                NOTE("%r5") "ld.u64 %rd6, [%rd5];\n" BUFFER("append", "1", "1", "0") ARGS("7") CALL_2(
                    "LaunchDeviceV2_ptsz", "%rd9", "64", "0") CALL_2("EventRecord_ptsz", "%rd6", "64", "0")
                    NOTE("%r5") WAIT("%rd6") NOTE("%r5") WAIT("0") NOTE("%r5") ERROR("GetLastError") NOTE(
                        "%r8") "{ .param .b64 a; .param .b32 q; st.param.b64 [a], %rd6;\n"
                               "call.uni (q), __cudaCDP2EventDestroy, (a); ld.param.b32 %r5, [q]; }\n" NOTE(
                                   "%r5")),
        (const uint32_t[]){7, 0, 0, 0, 1, 1, 0, 7}, 8, 1);
}

static void wrong(void)
{
    struct sg_fault f = {0};
    uint32_t *out;
    struct tk t;
    int r = -1;

#define REFUSED(f, g, b, code) \
    BUFFER(f, g, b, "0") \
    "setp.eq.u64 %p1, %rd9, 0;\nselp.u32 %r1, 1, 0, %p1;\n" NOTE("%r1") ERROR("GetLastError") NOTE("%r8")
    run("wrong launches",
        PARENT(REFUSED("append", "0", "1", 9) REFUSED("append", "1", "2000", 9)
                   REFUSED("%rd1", "1", "1", 98) "mov.u64 %rd9, 1234;\n" LAUNCH("0") NOTE("%r9")
                       APPENDED("6", "0") LAUNCH("0") NOTE("%r9")),
        (const uint32_t[]){9, 1, 9, 1, 9, 1, 98, 1, 1, 6}, 10, 1);
    /* More launches than may be pending: the excess fails, and the accepted launches run. */
    run("too many",
        PARENT("mov.u32 %r5, 0;\nL:\n" APPENDED(
            "1",
            "0") "add.u32 %r5, %r5, 1;\n"
                 "setp.lt.u32 %p1, %r5, 100;\n@%p1 bra L;\n"
                 "W:\n" BUFFER(
                     "append", "1", "1",
                     "0") "add.u32 %r5, %r5, 1;\n"
                          "setp.ne.u64 %p1, %rd9, 0;\n@%p1 bra W;\n" ERROR(
                              "GetLastError") "st.global.u32 [%rd1+512], %r8;\nst.global.u32 [%rd1+516], %r5;\n"),
        (const uint32_t[]){100, 1, 1}, 3, 1);
    out = tm_alloc(4096);
    memset(out, 0, 4096);
    if (tk_open(&t,
                PARENT("{ .param .b64 a; .param .b64 b; .param .b64 c; .param .b32 d;\n"
                       ".param .b64 e; .param .b32 q; st.param.b64 [a], 4096;\n"
                       "st.param.b64 [b], %rd1; st.param.b64 [c], 4; st.param.b32 [d], 3;\n"
                       "st.param.b64 [e], 0;\n"
                       "call.uni (q), __cudaCDP2MemcpyAsync, (a, b, c, d, e); }\n"),
                "parent")) {
        r = tk_run(&t, 1, 1, &out, &f);
        tk_close(&t);
    }
    t_result("a copy to nowhere", r == 700 && strstr(f.message, "copy of 4 bytes"), "%d: %s", r, f.message);
    tm_free_all();
}

/* The calls of all threads fail; the last error is kept for a limited number of threads. */
static void many_errors(void)
{
    uint32_t *out = tm_alloc(4096);
    struct sg_fault f = {0};
    struct tk t;
    int r = -1;

    memset(out, 0, 4096);
    if (tk_open(&t,
                PARENT(BUFFER("append", "0", "1",
                              "0") "setp.ne.u64 %p1, %rd9, 0;\n@%p1 bra END;\n"
                                   "red.global.add.u32 [%rd1], 1;\n" ERROR(
                                       "PeekAtLastError") "setp.ne.u32 %p1, %r8, 9;\n@%p1 bra END;\n"
                                                          "red.global.add.u32 [%rd1+4], 1;\nEND:\n"),
                "parent")) {
        r = tk_run(&t, 8, 1024, &out, &f);
        tk_close(&t);
    }
    t_result("errors of many threads", !r && out[0] == 8192 && out[1] == 4096, "%d: %u, %u", r, out[0],
             out[1]);
    tm_free_all();
}

/* The watchdog and an abort end the whole tree, also one that would never end. */
static void endless(void)
{
    static const char text[] = HEAD
        ".visible .entry parent(.param .u64 t)\n{\n" REGS "ld.param.u64 %rd1, [t];\n"
        "mov.u32 %r5, 0;\nL:\n" BUFFER("parent", "1", "1", "0") "setp.eq.u64 %p1, %rd9, 0;\n@%p1 bra END;\nst.global.u64 [%rd9], %rd1;\n" LAUNCH(
            "0") "add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 8;\n@%p1 bra L;\nEND:\nret;\n}\n";
    uint32_t *out = tm_alloc(4096);
    struct sg_fault f = {0};
    struct tk t;
    int r = -1;

    if (tk_open(&t, text, "parent")) {
        t_watchdog = 20000;
        r = tk_run(&t, 1, 1, &out, &f);
        t_watchdog = 0;
        t_result("the watchdog counts all grids", r == 702, "%d: %s", r, f.message);
        t_abort = 1;
        r = tk_run(&t, 1, 1, &out, &f);
        t_abort = 0;
        t_result("an abort ends them", r == 719, "%d: %s", r, f.message);
        tk_close(&t);
    } else {
        t_result("endless", false, "%s", t.diag.message);
    }
    tm_free_all();
}

/* A child that has clusters: its blocks are in them; a grid that they do not divide is no
   configuration. */
static void clusters(void)
{
    run("children with clusters",
        HEAD_OF(
            "90") ".visible .entry ranks(.param .u64 t, .param .u32 v)\n.explicitcluster\n.reqnctapercluster 2\n{\n" REGS
                  "ld.param.u64 %rd1, [t];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %cluster_ctarank;\n"
                  "mov.u32 %r3, %cluster_nctarank;\nmad.lo.u32 %r2, %r3, 10, %r2;\nmul.wide.u32 %rd2, %r1, 4;\n"
                  "add.u64 %rd2, %rd1, %rd2;\nst.global.u32 [%rd2+8], %r2;\nret;\n}\n"
                  ".visible .entry parent(.param .u64 t)\n{\n" REGS
                  "ld.param.u64 %rd1, [t];\n" BUFFER("ranks", "3", "1", "0")
                      ERROR("GetLastError") "setp.eq.u64 %p1, %rd9, 0;\nselp.u32 %r8, %r8, 1000, %p1;\nst.global.u32 [%rd1], %r8;\n" BUFFER(
                          "ranks", "4", "1", "0") ARGS("0")
                          LAUNCH("0") "st.global.u32 [%rd1+4], %r9;\nret;\n}\n",
        (const uint32_t[]){9, 0, 20, 21, 20, 21}, 6, 1);
}

/* Calls that would change a node of a graph say that this is not supported; their image is not
   refused. */
#define UPDATE(name, params, args) \
    "{ " params ".param .b32 q; call.uni (q), cudaGraphKernelNode" name ", (" args ");\n" \
    "ld.param.b32 %r9, [q]; }\nst.global.u32 [%rd1], %r9;\nadd.u64 %rd1, %rd1, 4;\n"
static void node_updates(void)
{
    run("updates of graph nodes",
        HEAD
        ".extern .func (.param .b32 r) cudaGraphKernelNodeSetParam(.param .b64 n, .param .b64 o, .param .b64 v,"
        " .param .b64 s);\n"
        ".extern .func (.param .b32 r) cudaGraphKernelNodeSetEnabled(.param .b64 n, .param .b32 e);\n"
        ".extern .func (.param .b32 r) cudaGraphKernelNodeSetGridDim(.param .b64 n, .param .align 4 .b8 g[12]);\n"
        ".extern .func (.param .b32 r) cudaGraphKernelNodeUpdatesApply(.param .b64 u, .param .b64 n);\n"
        ".visible .entry parent(.param .u64 t)\n{\n" REGS "ld.param.u64 %rd1, [t];\n" UPDATE(
            "SetParam", ".param .b64 a; .param .b64 b; .param .b64 c; .param .b64 e;", "a, b, c, e")
            UPDATE("SetEnabled", ".param .b64 a; .param .b32 b;", "a, b")
                UPDATE("SetGridDim", ".param .b64 a; .param .align 4 .b8 b[12];", "a, b")
                    UPDATE("UpdatesApply", ".param .b64 a; .param .b64 b;", "a, b") "ret;\n}\n",
        (const uint32_t[]){801, 801, 801, 801, 0}, 5, 1);
}

/* A memset of slices of one row, `width` bytes, all at the same place. */
#define SLICES(width, n) \
    PARENT("{ .param .align 8 .b8 p[32]; .param .b32 v; .param .align 8 .b8 e[24]; .param .b64 s;\n" \
           ".param .b32 q; st.param.b64 [p], %rd1; st.param.b64 [p+8], " width "; st.param.b64 [p+16], 8;\n" \
           "st.param.b64 [p+24], 0; st.param.b32 [v], 1; st.param.b64 [e], " width \
           "; st.param.b64 [e+8], 1;\n" \
           "st.param.b64 [e+16], " n "; st.param.b64 [s], 0;\n" \
           "call.uni (q), __cudaCDP2Memset3DAsync_ptsz, (p, v, e, s); ld.param.b32 %r1, [q]; }\n")

static void rows_count(const char *label, const char *text, bool late)
{
    uint32_t *out = tm_alloc(1 << 20);
    struct sg_fault f = {0};
    struct tk t;
    int r = -1;

    if (tk_open(&t, text, "parent")) {
        t_watchdog = 20000;
        alarm(60); /* else for ever */
        r = tk_run(&t, 1, 1, &out, &f);
        alarm(0);
        t_watchdog = 0;
        tk_close(&t);
    }
    t_result(label, r == (late ? 702 : 0), "%d: %s %s", r, f.message, t.diag.message);
    tm_free_all();
}

/* Rows count like the instructions that would store them. */
static void endless_rows(void)
{
    rows_count("the watchdog counts rows", SLICES("8", "0x4000000000000000"), true);
    rows_count("the watchdog counts the bytes of rows", SLICES("0x100000", "11"), true);
    rows_count("rows within the limit", SLICES("0x100000", "9"), false);
}

/*
 * A loop of 200 rounds is within one time slice after the 62 before it, in which 1984 children came to wait: a limit
 * of instructions that both exceed is noticed only if the searches among the children count as back edges.
 */
#define SEARCHES(body) \
    PARENT("mov.u32 %r5, 0;\nW:\n" BUFFER( \
        "append", "1", "1", "0") "add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 62;\n@%p1 bra W;\n" \
                                 "mov.u32 %r5, 0;\nL:\n" body \
                                 "add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 200;\n@%p1 bra L;\n")

static void ends_slices(const char *label, const char *text, uint32_t blocks, uint32_t threads, bool late)
{
    uint32_t *out = tm_alloc(4096);
    struct sg_fault f = {0};
    struct tk t;
    int r = -1;

    memset(out, 0, 4096);
    if (tk_open(&t, text, "parent")) {
        t_watchdog = 2000;
        r = tk_run(&t, blocks, threads, &out, &f);
        t_watchdog = 0;
        tk_close(&t);
    }
    t_result(label, r == (late ? 702 : 0), "%d: %s %s", r, f.message, t.diag.message);
    tm_free_all();
}

static void slices(void)
{
    ends_slices("a time slice counts the search for a launch",
                SEARCHES("mov.u64 %rd9, 8;\n" LAUNCH("0") "@%p2 bra L;\n"), 1, 32, true);
    ends_slices("without a search it ends later",
                SEARCHES("mul.lo.u32 %r6, %r5, 3;\nadd.u32 %r6, %r6, 1;\n@%p2 bra L;\n"), 1, 32, false);
    /* the first thread that fails is the last of the list */
    ends_slices("a time slice counts the search for a thread's error",
                PARENT(BUFFER("append", "0", "1", "0") "mov.u32 %r5, 0;\nL:\n" ERROR(
                    "PeekAtLastError") "add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 400;\n@%p1 bra L;\n"),
                1, 1024, true);
}

int main(void)
{
    order();
    clusters();
    node_updates();
    memory();
    boxes();
    events();
    wrong();
    many_errors();
    endless();
    endless_rows();
    slices();
    return t_end("softgpu nested launches");
}
