/* SPDX-License-Identifier: MIT */
/* PTX texts that NVIDIA's ptxas refuses, and similar ones that it accepts. */
#include "../conform.h"

#define HEAD(target) ".version 8.0\n.target " target "\n.address_size 64\n"
#define BODY(target, text) \
    HEAD(target) \
    ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>; .reg .b64 %d<4>; .reg .f32 %f<4>; .reg .pred %p<3>;\n" text \
    "\nret;\n}\n"
#define ENTRY(before, params, directives) \
    HEAD("sm_80") before ".entry k(" params ")\n" directives "\n{\nret;\n}\n"

struct text {
    const char *check, *ptx;
    bool taken;
};

static void load(const struct text *t, unsigned n)
{
    char log[512];
    CUjit_option opt[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    CUmodule m = NULL;

    for (unsigned i = 0; i < n; i++) {
        void *val[] = {log, (void *)sizeof(log)};
        CUresult r = cuModuleLoadDataEx(&m, t[i].ptx, 2, opt, val);

        RC(t[i].check, r, t[i].taken ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX);
        if (!r)
            NEED(cuModuleUnload(m));
        else
            cf_true("log", log[0] != 0);
    }
}

#define LOAD(texts) load(texts, sizeof(texts) / sizeof((texts)[0]))

CASE(text_directives, CF_CTX)
{
    static const struct text texts[] = {
        {"plain", ENTRY(".visible ", "", ".maxntid 64 .minnctapersm 2"), true},
        {"no_threads", ENTRY(".visible ", "", ".maxntid 0"), false},
        {"no_threads_y", ENTRY(".visible ", "", ".reqntid 32, 0"), false},
        {"no_blocks", ENTRY(".visible ", "", ".maxntid 64 .minnctapersm 0"), false},
        {"two_sizes", ENTRY(".visible ", "", ".reqntid 32 .maxntid 64"), false},
        {"cluster", ENTRY(".visible ", "", ".reqnctapercluster 2"), false},
        {"cluster_rank", ENTRY(".visible ", "", ".maxclusterrank 4"), false},
        {"cluster_explicit", ENTRY(".visible ", "", ".explicitcluster"), false},
        {"extern_body", ENTRY(".extern ", "", ""), false},
        {"weak", ENTRY(".weak ", "", ""), true},
        {"comment", ENTRY("/* no end .visible ", "", ""), false},
        {"comment_ends", ENTRY("/***/ .visible /* a * b\n */ ", "", ""), true},
        {"predicate", HEAD("sm_80") ".global .pred x;\n", false},
        {"managed_constant", HEAD("sm_80") ".const .attribute(.managed) .u32 x = 3;\n", false},
        {"managed", HEAD("sm_80") ".global .attribute(.managed) .u32 x = 3;\n", true},
    };

    LOAD(texts);
}

CASE(text_parameters, CF_CTX)
{
    static const struct text texts[] = {
        {"array", ENTRY(".visible ", ".param .align 8 .b8 a[16], .param .u32 b[3]", ""), true},
        {"register", ENTRY(".visible ", ".reg .u32 a", ""), false},
        {"unsized", ENTRY(".visible ", ".param .u32 a[]", ""), false},
        {"vector", ENTRY(".visible ", ".param .v4 .f32 a", ""), false},
        {"predicate", ENTRY(".visible ", ".param .pred a", ""), false},
    };

    LOAD(texts);
}

CASE(text_instructions, CF_CTX)
{
    static const struct text texts[] = {
        {"unresolved", HEAD("sm_80") ".extern .func g();\n.visible .entry k()\n{\ncall g;\nret;\n}\n", false},
        {"unresolved_unused", HEAD("sm_80") ".extern .func g();\n.visible .entry k()\n{\nret;\n}\n", true},
        {"vote", BODY("sm_80", "vote.sync.ballot.b32 %r1, %p1, -1;"), true},
        {"vote_old", BODY("sm_80", "vote.ballot.b32 %r1, %p1;"), false},
        {"shfl_old", BODY("sm_80", "shfl.idx.b32 %r1, %r2, 3, 31;"), false},
        {"store_constant", BODY("sm_80", "st.const.u32 [%d1], %r1;"), false},
        {"atom_constant", BODY("sm_80", "atom.const.add.u32 %r1, [%d1], 1;"), false},
        {"acquire", BODY("sm_80", "ld.acquire.gpu.u32 %r1, [%d1];"), true},
        {"acquire_nobody", BODY("sm_80", "ld.acquire.u32 %r1, [%d1];"), false},
        {"scope_alone", BODY("sm_80", "ld.gpu.u32 %r1, [%d1];"), false},
        {"atom_add", BODY("sm_80", "atom.acq_rel.sys.global.add.u64 %d2, [%d1], 1;"), true},
        {"atom_add_signed", BODY("sm_80", "atom.global.add.s64 %d2, [%d1], 1;"), false},
        {"atom_max_float", BODY("sm_80", "atom.global.max.f32 %f2, [%d1], %f1;"), false},
        {"atom_and_unsigned", BODY("sm_80", "atom.global.and.u32 %r2, [%d1], 1;"), false},
        {"red_inc_signed", BODY("sm_80", "red.global.inc.s32 [%d1], 1;"), false},
        {"red_min", BODY("sm_80", "red.relaxed.gpu.global.min.s64 [%d1], %d2;"), true},
        {"cluster_barrier", BODY("sm_80", "barrier.cluster.arrive;"), false},
        {"cluster_memory", BODY("sm_80", "ld.shared::cluster.u32 %r1, [%r2];"), false},
        {"cluster_scope", BODY("sm_80", "fence.acq_rel.cluster;"), false},
        {"bulk", BODY("sm_80", "cp.async.bulk.wait_group 0;"), false},
        {"try_wait", BODY("sm_80", "mbarrier.try_wait.shared.b64 %p1, [%r1], %d1;"), false},
        {"test_wait", BODY("sm_80", "mbarrier.test_wait.shared.b64 %p1, [%r1], %d1;"), true},
        {"load_bits", BODY("sm_80", "ld.global.b8 %f1, [%d1];"), true},
        {"store_bits", BODY("sm_80", "st.global.b16 [%d1], %f1;"), true},
        {"load_unsigned", BODY("sm_80", "ld.global.u8 %f1, [%d1];"), false},
    };

    LOAD(texts);
}

/* Bits in a register of f32: the other bits are zeros. */
CASE(text_wide_bits, CF_CTX)
{
    static const char text[] =
        BODY("sm_75", "ld.param.u64 %d1, [p];\nld.global.b8 %f1, [%d1];\nmov.b32 %r1, %f1;\n"
                      "st.global.u32 [%d1+4], %r1;\nmov.b32 %f2, 0x12345678;\nst.global.b16 [%d1+8], %f2;");
    CUmodule m = NULL;
    CUfunction f = NULL;
    CUdeviceptr p = 0;
    void *params[] = {&p};
    uint32_t v[3] = {0};

    NEED(cuMemAlloc(&p, sizeof(v)));
    NEED(cuMemsetD8(p, 0xff, sizeof(v)));
    OK("load", cuModuleLoadData(&m, text));
    NEED(cuModuleGetFunction(&f, m, "k"));
    OK("launch", cf_launch(f, 1, 1, 0, NULL, params));
    NEED(cuMemcpyDtoH(v, p, sizeof(v)));
    cf_u64("loaded", v[1], 0xff);
    cf_u64("stored", v[2], 0xffff5678);
    OK("unload", cuModuleUnload(m));
    OK("free", cuMemFree(p));
}

/* Shift distances are modulo 64. */
CASE(text_shift, CF_CTX)
{
    static const char text[] = HEAD("sm_75") ".visible .global .u64 x[4] = {1<<64, 1<<-1, 8>>65, -8>>65};\n";
    static const uint64_t want[4] = {1, UINT64_C(1) << 63, 4, UINT64_MAX - 3};
    CUmodule m = NULL;
    CUdeviceptr p = 0;
    size_t n = 0;
    uint64_t v[4] = {0};

    OK("load", cuModuleLoadData(&m, text));
    OK("global", cuModuleGetGlobal(&p, &n, m, "x"));
    cf_u64("size", n, sizeof(v));
    OK("copy", cuMemcpyDtoH(v, p, sizeof(v)));
    for (unsigned i = 0; i < 4; i++)
        cf_true("value", v[i] == want[i]);
    OK("unload", cuModuleUnload(m));
}
