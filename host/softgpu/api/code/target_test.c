/* SPDX-License-Identifier: MIT */
/* What of an image a device may run: kernels with clusters, and PTX for newer devices. */
#include "api/api_test.h"

const char *sg_last_error_detail(void);

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
    } cases[] = {{86, "=8.6 "},   {87, "=8.9 "},   {89, "=8.9 "},   {90, "=9.0 "},      {100, "=10.0 "},
                 {103, "=12.0 "}, {121, "=13.0 "}, {130, "=13.0 "}, {140, "no profile"}};
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
        snprintf(text, sizeof(text), ".version 9.0\n.target sm_%u\n%s", t, body);
        NEED(!cuModuleLoadData(&m, text) && !cuModuleUnload(m));
        NEED(!cuModuleLoadData(&m, container(text, t, false, image)) && !cuModuleUnload(m));
    }
    for (int asked = 0; asked < 2; asked++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            const unsigned t = cases[i].target;
            const bool taken = asked && t <= 130;

            snprintf(text, sizeof(text), "// .target sm_50\n.version 9.5\n.target sm_%u%s\n%s", t,
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

/* One kernel with clusters does not keep the others of its image from running. Its PTX is for sm_90; that the image
 * has machine code for this device lets it load. */
static void test_cluster_kernel(void **state)
{
    static const char text[] =
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".visible .entry plain(.param .u64 p)\n{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n"
        "st.global.u32 [%rd1], 5;\nret;\n}\n"
        ".visible .entry two()\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n{\nret;\n}\n"
        ".visible .entry one()\n.reqnctapercluster 1\n{\nret;\n}\n";
    CUcontext c = ctx_begin();
    uint8_t image[4096];
    uint32_t v = 0;
    CUdeviceptr p;
    void *args[] = {&p};
    CUmodule m;
    CUfunction f;

    (void)state;
    OK(cuMemAlloc_v2(&p, 4));
    OK(cuModuleLoadData(&m, container(text, 90, true, image)));
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

static void test_newer_target(void **state)
{
    (void)state;
    test_alone("VGPU_SOFT_CC=8.0", "--newer");
    test_alone("VGPU_SOFT_CC=8.0 VGPU_SOFT_JIT=0", "--newer");
}

/* ---- clusters, in a process whose device has them (9.0) ---- */

#define RANKS \
    "{\n.reg .b64 %rd<4>;\n.reg .b32 %r<8>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %ctaid.x;\n" \
    "mov.u32 %r2, %cluster_ctarank;\nmov.u32 %r3, %cluster_nctarank;\nmad.lo.u32 %r2, %r3, 100, %r2;\n" \
    "mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd1, %rd1, %rd2;\nst.global.u32 [%rd1], %r2;\nret;\n}\n"

/* The words that 16 blocks have left: 0 when each is size * 100 and its rank. */
static int ranks_wrong(CUdeviceptr p, unsigned size)
{
    uint32_t v[16];

    if (cuMemcpyDtoH_v2(v, p, sizeof(v)) || cuMemsetD32_v2(p, 0, 16))
        return -1;
    for (unsigned i = 0; i < 16; i++)
        if (v[i] != size * 100 + i % size)
            return (int)i + 1;
    return 0;
}

static int clusters_of_graph(CUstream s, CUfunction f, CUlaunchConfig *cfg, CUdeviceptr p)
{
    CUlaunchAttributeValue v = {.clusterDim = {4, 1, 1}};
    CUgraphNode node, other;
    void *args[] = {&p};
    CUgraphExec exec;
    CUgraph g;
    size_t n = 1;

    NEED(!cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL) && !cuLaunchKernelEx(cfg, f, args, NULL));
    NEED(!cuStreamEndCapture(s, &g) && !cuGraphGetNodes(g, &node, &n) && n == 1);
    NEED(!cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &v));
    NEED(v.clusterDim.x == 2 && v.clusterDim.y == 1 && v.clusterDim.z == 1);
    v.clusterDim.x = 4;
    NEED(!cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &v));
    v.clusterDim.x = 3;
    NEED(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &v) ==
         CUDA_ERROR_INVALID_CLUSTER_SIZE);
    v.clusterDim.x = 0;
    v.deviceUpdatableKernelNode.deviceUpdatable = 1; /* not a matter of clusters, but of the same calls */
    NEED(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &v) ==
         CUDA_ERROR_NOT_SUPPORTED);
    NEED(strstr(sg_last_error_detail(), "DEVICE_UPDATABLE"));
    CUDA_KERNEL_NODE_PARAMS k = {f, 16, 1, 1, 32, 1, 1, 0, args, NULL, NULL, NULL};

    NEED(!cuGraphAddKernelNode_v2(&other, g, &node, 1, &k));
    NEED(!cuGraphKernelNodeCopyAttributes(other, node));
    NEED(!cuGraphInstantiateWithFlags(&exec, g, 0) && !cuGraphLaunch(exec, s) && !cuStreamSynchronize(s));
    NEED(!ranks_wrong(p, 4));
    NEED(!cuGraphExecDestroy(exec) && !cuGraphDestroy(g));
    return 0;
}

static int clusters(void)
{
    static const char text[] =
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".visible .entry free(.param .u64 p)\n" RANKS
        ".visible .entry two(.param .u64 p)\n.explicitcluster\n.reqnctapercluster 2\n" RANKS
        ".visible .entry said(.param .u64 p)\n.explicitcluster\n.maxclusterrank 4\n" RANKS;
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {2, 1, 1}};
    CUlaunchConfig cfg = {16, 1, 1, 32, 1, 1, 0, NULL, &attr, 1};
    const int alone = CUDA_ERROR_INVALID_CLUSTER_SIZE;
    CUfunction any, two, said;
    CUdeviceptr p;
    void *args[] = {&p};
    CUcontext c;
    CUmodule m;
    int n, line;

    NEED(!cuInit(0) && !cuCtxCreate_v2(&c, 0, 0) && !cuMemAlloc_v2(&p, 64));
    NEED(!cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0) && n == 1);
    NEED(!cuModuleLoadData(&m, text) && !cuModuleGetFunction(&any, m, "free"));
    NEED(!cuModuleGetFunction(&two, m, "two") && !cuModuleGetFunction(&said, m, "said"));
    NEED(!cuStreamCreate(&cfg.hStream, 0));

    NEED(!cuLaunchKernel(any, 16, 1, 1, 32, 1, 1, 0, NULL, args, NULL) && !ranks_wrong(p, 1));
    NEED(!cuLaunchKernel(two, 16, 1, 1, 32, 1, 1, 0, NULL, args, NULL) && !ranks_wrong(p, 2));
    NEED(cuLaunchKernel(two, 15, 1, 1, 32, 1, 1, 0, NULL, args, NULL) == alone);
    NEED(strstr(sg_last_error_detail(), "divide"));
    NEED(cuLaunchKernel(said, 16, 1, 1, 32, 1, 1, 0, NULL, args, NULL) == alone);
    NEED(!cuLaunchCooperativeKernel(two, 16, 1, 1, 32, 1, 1, 0, NULL, args) && !ranks_wrong(p, 2));
    for (unsigned x = 1; x <= 32; x *= 2) {
        attr.value.clusterDim.x = x;
        NEED(cuLaunchKernelEx(&cfg, any, args, NULL) == (x > 8 ? alone : 0));
        NEED(x > 8 || (!cuStreamSynchronize(cfg.hStream) && !ranks_wrong(p, x)));
        NEED(cuLaunchKernelEx(&cfg, said, args, NULL) == (x > 4 ? alone : 0));
        NEED(cuLaunchKernelEx(&cfg, two, args, NULL) == (x != 2 ? alone : 0));
        NEED(!cuOccupancyMaxActiveClusters(&n, any, &cfg));
        NEED(x > 8 ? n == 0 : n > 0);
    }
    attr.value.clusterDim.x = 0;
    NEED(cuLaunchKernelEx(&cfg, any, args, NULL) == alone);
    attr.value.clusterDim.x = 1u << 31;
    attr.value.clusterDim.y = attr.value.clusterDim.z = 2;
    NEED(cuLaunchKernelEx(&cfg, any, args, NULL) == alone);
    NEED(!cuOccupancyMaxActiveClusters(&n, any, &cfg) && n == 0);
    attr.value.clusterDim.x = 16;
    attr.value.clusterDim.y = attr.value.clusterDim.z = 1;
    NEED(!cuOccupancyMaxPotentialClusterSize(&n, any, &cfg) && n == 8);
    NEED(!cuFuncSetAttribute(any, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    NEED(!cuOccupancyMaxPotentialClusterSize(&n, any, &cfg) && n == 16);
    NEED(!cuOccupancyMaxPotentialClusterSize(&n, said, &cfg) && n == 4);
    NEED(!cuLaunchKernelEx(&cfg, any, args, NULL) && !cuStreamSynchronize(cfg.hStream) &&
         !ranks_wrong(p, 16));

    NEED(!cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, two) && n == 2);
    NEED(!cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, two) && n == 1);
    NEED(!cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, two) && n == 1);
    NEED(!cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, any) && n == 0);
    NEED(!cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, any) && n == 0);
    NEED(cuFuncSetAttribute(two, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 4) == CUDA_ERROR_NOT_PERMITTED);
    NEED(cuFuncSetAttribute(any, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, -1) == CUDA_ERROR_INVALID_VALUE);
    attr.value.clusterDim.x = 2;
    line = clusters_of_graph(cfg.hStream, any, &cfg, p);
    if (line)
        return line;
    NEED(!cuFuncSetAttribute(any, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 4));
    NEED(cuLaunchKernel(any, 16, 1, 1, 32, 1, 1, 0, NULL, args, NULL) == alone); /* 4 x 0 x 0 */
    NEED(!cuFuncSetAttribute(any, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, 1));
    NEED(!cuFuncSetAttribute(any, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, 1));
    NEED(!cuLaunchKernel(any, 16, 1, 1, 32, 1, 1, 0, NULL, args, NULL) && !ranks_wrong(p, 4));
    NEED(cuLaunchKernelEx(&cfg, any, args, NULL) == alone);
    NEED(!cuOccupancyMaxActiveClusters(&n, any, &cfg) && n > 0);
    cfg.numAttrs = 0;
    NEED(!cuOccupancyMaxActiveClusters(&line, any, &cfg) && line == n / 2); /* of four blocks, not two */
    NEED(!cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, any) && n == 4);
    NEED(!cuCtxSynchronize());
    return 0;
}

int clusters_main(void)
{
    const int line = clusters();

    if (line)
        printf("line %d\n", line);
    else
        printf("right\n");
    return 0;
}

static void test_clusters(void **state)
{
    (void)state;
    test_alone("VGPU_SOFT_CC=9.0", "--clusters");
    test_alone("VGPU_SOFT_CC=12.0 VGPU_SOFT_JIT=0", "--clusters");
}

const struct CMUnitTest target_tests[] = {
    cmocka_unit_test(test_cluster_kernel),
    cmocka_unit_test(test_clusters),
    cmocka_unit_test(test_newer_target),
};
const size_t n_target_tests = sizeof(target_tests) / sizeof(target_tests[0]);
