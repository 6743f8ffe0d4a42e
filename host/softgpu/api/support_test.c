/* SPDX-License-Identifier: MIT */
/* What the tests of the driver API share. */
#include <unistd.h>

#include "api/api_test.h"

const char test_ptx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .global .align 4 .u32 counter = 7;\n"
    ".visible .const .align 4 .b8 table[8] = {1, 0, 0, 0, 2, 0, 0, 0};\n"
    ".extern .shared .align 4 .b8 dyn[];\n"
    /* p[i] = v for i < n */
    ".visible .entry fill(.param .u64 p, .param .u32 v, .param .u32 n)\n{\n"
    "  .reg .pred %p1; .reg .b32 %r<6>; .reg .b64 %rd<4>;\n"
    "  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [v]; ld.param.u32 %r2, [n];\n"
    "  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;\n"
    "  mad.lo.s32 %r3, %r3, %r4, %r5; setp.ge.u32 %p1, %r3, %r2; @%p1 bra DONE;\n"
    "  cvta.to.global.u64 %rd2, %rd1; mul.wide.u32 %rd3, %r3, 4; add.s64 %rd2, %rd2, %rd3;\n"
    "  st.global.u32 [%rd2], %r1;\nDONE:\n  ret;\n}\n"
    /* writes behind p */
    ".visible .entry oob(.param .u64 p)\n{\n  .reg .b64 %rd1; .reg .b32 %r1;\n"
    "  ld.param.u64 %rd1, [p]; mov.u32 %r1, 1; st.global.u32 [%rd1], %r1;\n  ret;\n}\n"
    /* until *p is not zero */
    ".visible .entry spin(.param .u64 p)\n{\n  .reg .b64 %rd1; .reg .b32 %r1; .reg .pred %p1;\n"
    "  ld.param.u64 %rd1, [p];\nAGAIN:\n  ld.volatile.global.u32 %r1, [%rd1];\n"
    "  setp.eq.u32 %p1, %r1, 0; @%p1 bra AGAIN;\n  ret;\n}\n"
    /* *p = counter++ */
    ".visible .entry late(.param .u64 p)\n{\n  .reg .b64 %rd<3>; .reg .b32 %r<3>;\n"
    "  ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [counter]; st.global.u32 [%rd1], %r1;\n"
    "  add.u32 %r2, %r1, 1; st.global.u32 [counter], %r2;\n  ret;\n}\n"
    ".visible .entry dynsh()\n{\n  .reg .b32 %r1; mov.u32 %r1, dyn; st.shared.u32 [%r1], %r1;\n"
    "  ret;\n}\n"
    ".visible .entry bounded()\n.maxntid 64, 1, 1\n{\n  ret;\n}\n"
    ".visible .entry exact()\n.reqntid 32, 1, 1\n{\n  ret;\n}\n"
    ".visible .entry trapped()\n{\n  trap;\n}\n";

void CUDA_CB gate_wait(void *gate)
{
    struct gate *g = gate;

    pthread_mutex_lock(&g->lock);
    g->reached = true;
    pthread_cond_broadcast(&g->cond);
    while (!g->open)
        pthread_cond_wait(&g->cond, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

void gate_open(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->cond);
    pthread_mutex_unlock(&g->lock);
}

void gate_await(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    while (!g->reached)
        pthread_cond_wait(&g->cond, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

CUcontext ctx_begin(void)
{
    CUcontext c;

    OK(cuCtxCreate_v2(&c, 0, 0));
    return c;
}

void ctx_end(CUcontext c)
{
    OK(cuCtxDestroy_v2(c));
    while (cuCtxPopCurrent_v2(NULL) == CUDA_SUCCESS)
        ;
}

void sg_books(char *text, size_t size); /* runtime/runtime.h */

void books_kept(void (*body)(void *arg), void *arg)
{
    char before[1024], after[1024];

    for (unsigned round = 0; round < 20; round++) {
        sg_books(before, sizeof(before));
        body(arg);
        /* threads of streams that have ended let go of them late on a full machine */
        for (unsigned wait = 0; wait < 10; wait++) {
            sg_books(after, sizeof(after));
            if (!strcmp(before, after))
                return;
            usleep(20000);
        }
    }
    assert_string_equal(before, after);
}

CUfunction get_kernel(CUmodule *m, const char *name)
{
    CUfunction f;

    if (!*m)
        OK(cuModuleLoadData(m, test_ptx));
    OK(cuModuleGetFunction(&f, *m, name));
    return f;
}

void launch_fill(CUfunction f, CUdeviceptr p, uint32_t value, uint32_t n, CUstream s)
{
    void *args[] = {&p, &value, &n};

    OK(cuLaunchKernel(f, (n + 127) / 128, 1, 1, 128, 1, 1, 0, s, args, NULL));
}
