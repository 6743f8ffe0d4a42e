/* SPDX-License-Identifier: MIT */
/* What of an image a device may run: kernels with clusters, and PTX for newer devices. */
#include "api/api_test.h"

const char *sg_last_error_detail(void);

/* One kernel with clusters does not keep the others of its image from running. */
static void test_cluster_kernel(void **state)
{
    static const char text[] =
        ".version 8.0\n.target sm_75\n.address_size 64\n"
        ".visible .entry plain(.param .u64 p)\n{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n"
        "st.global.u32 [%rd1], 5;\nret;\n}\n"
        ".visible .entry two()\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n.maxclusterrank 8\n{\nret;\n}\n"
        ".visible .entry one()\n.reqnctapercluster 1\n{\nret;\n}\n";
    CUcontext c = ctx_begin();
    uint32_t v = 0;
    CUdeviceptr p;
    void *args[] = {&p};
    CUmodule m;
    CUfunction f;

    (void)state;
    OK(cuMemAlloc_v2(&p, 4));
    OK(cuModuleLoadData(&m, text));
    OK(cuModuleGetFunction(&f, m, "plain"));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH_v2(&v, p, 4));
    assert_int_equal(v, 5);
    OK(cuModuleGetFunction(&f, m, "one"));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuModuleGetFunction(&f, m, "two"));
    IS(cuLaunchKernel(f, 2, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), NOT_SUPPORTED);
    assert_non_null(strstr(sg_last_error_detail(), "cluster"));
    OK(cuCtxSynchronize());
    ctx_end(c);
}

/* ---- PTX for a newer device than this one (8.0), in a process in which no library has asked yet ---- */

#define NEED(cond) \
    do { \
        if (!(cond)) \
            return __LINE__; \
    } while (0)

/* A fat binary of one PTX text, and with machine code for sm_80 before it when asked for. */
static void *container(const char *text, unsigned target, bool sass, uint8_t *out)
{
    const struct {
        uint16_t kind, version;
        uint32_t header;
        uint64_t size;
        uint32_t packed, zero;
        uint32_t isa, arch;
        uint64_t name, flags, none, full;
    } code = {2, 0x101, 64, 8, 0, 0, 9, 80, 0, 0, 0, 0},
      ptx = {1, 0x101, 64, strlen(text) + 1, 0, 0, 9, target, 0, 0, 0, 0};
    const uint64_t n = (sass ? 72 : 0) + 64 + strlen(text) + 1;
    const uint32_t magic[2] = {0xBA55ED50u, 16u << 16 | 1};
    uint8_t *p = out;

    memcpy(p, magic, 8);
    memcpy(p + 8, &n, 8);
    p += 16;
    if (sass) {
        memcpy(p, &code, 64);
        memcpy(p + 64, "\177ELFsass", 8);
        p += 72;
    }
    memcpy(p, &ptx, 64);
    memcpy(p + 64, text, strlen(text) + 1);
    return out;
}

static int newer(void)
{
    static const struct {
        unsigned target;
        const char *profile;
    } cases[] = {{86, "=8.6 "},   {87, "=8.9 "},   {89, "=8.9 "},   {90, "=9.0 "},
                 {100, "=12.0 "}, {121, "=13.0 "}, {130, "=13.0 "}, {140, "no profile"}};
    static const char body[] = ".address_size 64\n.visible .entry k()\n{\nret;\n}\n";
    uint8_t image[1024];
    CUlinkState link;
    CUlibrary lib;
    CUcontext c;
    char text[256];
    CUmodule m;
    int v;

    NEED(!cuInit(0) && !cuCtxCreate_v2(&c, 0, 0));
    for (unsigned t = 50; t <= 80; t += 10) {
        snprintf(text, sizeof(text), ".version 7.0\n.target sm_%u\n%s", t, body);
        NEED(!cuModuleLoadData(&m, text) && !cuModuleUnload(m));
        NEED(!cuModuleLoadData(&m, container(text, t, false, image)) && !cuModuleUnload(m));
    }
    for (int asked = 0; asked < 2; asked++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            const unsigned t = cases[i].target;
            const bool taken = asked && t <= 130;

            snprintf(text, sizeof(text), "// .target sm_50\n.version 8.7\n.target sm_%u%s\n%s", t,
                     t == 90 ? "a" : "", body);
            NEED(cuModuleLoadData(&m, text) == (taken ? 0 : CUDA_ERROR_INVALID_PTX));
            NEED(taken || strstr(sg_last_error_detail(), cases[i].profile));
            NEED(cuModuleLoadData(&m, container(text, t, false, image)) ==
                 (taken ? 0 : CUDA_ERROR_NO_BINARY_FOR_GPU));
            /* A GPU would run the machine code; here its PTX does the same, whatever its target. */
            NEED(!cuModuleLoadData(&m, container(text, t, true, image)));
            NEED(cuLibraryLoadData(&lib, text, NULL, NULL, 0, NULL, NULL, 0) ==
                 (taken ? 0 : CUDA_ERROR_INVALID_PTX));
            NEED(!cuLinkCreate_v2(0, NULL, NULL, &link));
            NEED(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, text, strlen(text) + 1, NULL, 0, NULL, NULL) ==
                 (taken ? 0 : CUDA_ERROR_INVALID_PTX));
            NEED(!cuLinkDestroy(link));
        }
        /* What cuBLAS is told, which takes its PTX then: SG_ATTR_LIBRARY_CC. */
        NEED(!cuDeviceGetAttribute(&v, (CUdevice_attribute)0x76677001, 0) && v == 130);
    }
    return 0;
}

int newer_main(void)
{
    const int line = newer();

    if (line)
        printf("line %d\n", line);
    else
        printf("right\n");
    return 0;
}

static void test_newer_target(void **state)
{
    (void)state;
    test_alone("VGPU_SOFT_CC=8.0", "--newer");
    test_alone("VGPU_SOFT_CC=8.0 VGPU_SOFT_JIT=0", "--newer");
}

const struct CMUnitTest target_tests[] = {
    cmocka_unit_test(test_cluster_kernel),
    cmocka_unit_test(test_newer_target),
};
const size_t n_target_tests = sizeof(target_tests) / sizeof(target_tests[0]);
