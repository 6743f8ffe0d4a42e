// SPDX-License-Identifier: MIT
/*
 * A client of a shared GPU, driven by tenancy.py: it says "ready", and for each line of its standard input works so
 * and answers with a line.
 *
 *   greedy MS       kernels of 64 blocks, two in flight: "work LAUNCHES"
 *   tail COUNT      one kernel at a time, pauses of 5 ms in between: "tail P50 P99", microseconds
 *   tiny MS         kernels that do nothing, as fast as they go: "work LAUNCHES"
 *   copies MS       copies of 1 MiB to the device: "work COPIES"
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                          ".visible .entry spin(.param .u64 p, .param .u32 n)\n{\n"
                          ".reg .u32 %r<6>; .reg .u64 %d<3>; .reg .pred %q;\n"
                          "ld.param.u64 %d0, [p]; ld.param.u32 %r0, [n]; cvta.to.global.u64 %d0, %d0;\n"
                          "mov.u32 %r1, %tid.x; mov.u32 %r2, 0;\n"
                          "again: setp.ge.u32 %q, %r2, %r0; @%q bra end;\n"
                          "mad.lo.u32 %r1, %r1, 1664525, 1013904223; add.u32 %r2, %r2, 1; bra again;\n"
                          "end: mov.u32 %r3, %ctaid.x; mul.wide.u32 %d1, %r3, 4; add.u64 %d0, %d0, %d1;\n"
                          "st.global.u32 [%d0], %r1; ret;\n}\n";

static struct api api;
static CUfunction spin;
static CUdeviceptr out;
static unsigned rounds = 2000; /* of a block's loop */

static bool launch(unsigned blocks, unsigned n)
{
    void *args[] = {&out, &n};

    return api.cuLaunchKernel(spin, blocks, 1, 1, 32, 1, 1, 0, NULL, args, NULL) == CUDA_SUCCESS;
}

static long work(const char *how, long ms)
{
    static char data[1 << 20];
    uint64_t end = now_ns() + (uint64_t)ms * 1000000u;
    long done = 0;

    while (now_ns() < end) {
        if (!strcmp(how, "copies")) {
            if (api.cuMemcpyHtoD(out, data, sizeof(data)))
                return -1;
            done++;
            continue;
        }
        bool tiny = !strcmp(how, "tiny");
        unsigned batch = tiny ? 64 : 2;

        for (unsigned i = 0; i < batch; i++) {
            if (!launch(tiny ? 1 : 64, tiny ? 0 : rounds))
                return -1;
        }
        if (api.cuCtxSynchronize())
            return -1;
        done += batch;
    }
    return done;
}

static bool tail(long count)
{
    struct samples s = {0};

    for (long i = 0; i < count; i++) {
        uint64_t t = now_ns();

        if (!launch(64, rounds) || api.cuCtxSynchronize())
            return false;
        samples_add(&s, (double)(now_ns() - t) / 1000);
        usleep(5000);
    }
    printf("tail %.0f %.0f\n", samples_at(&s, 0.5), samples_at(&s, 0.99));
    return true;
}

int main(void)
{
    char line[100], how[20];
    CUmodule m;
    long n;

    if (!api_open(&api, "libcuda.so.1"))
        return 1;
    if (api.cuModuleLoadData(&m, ptx) || api.cuModuleGetFunction(&spin, m, "spin") ||
        api.cuMemAlloc(&out, 1 << 20) || !launch(64, 1) || api.cuCtxSynchronize())
        return 1;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        if (sscanf(line, "%19s %ld", how, &n) != 2)
            return 2;
        if (!strcmp(how, "tail")) {
            if (!tail(n))
                return 1;
        } else {
            printf("work %ld\n", work(how, n));
        }
        fflush(stdout);
    }
    return 0;
}
