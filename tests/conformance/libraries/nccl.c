/* SPDX-License-Identifier: MIT */
/* NCCL with a single rank, where every collective is a copy; also with the scale of a reduction. */
#include "libs.h"

#include <nccl.h>

const char libs_name[] = "NCCL";

enum { N = 3000 };
static float x[N], y[N];

static ncclComm_t begin(float **from, float **to)
{
    int device = 0;
    ncclComm_t c;

    for (int i = 0; i < N; i++)
        x[i] = (float)libs_random();
    *from = libs_device(x, sizeof(x));
    *to = libs_device(NULL, sizeof(x));
    CALL(ncclCommInitAll(&c, 1, &device));
    return c;
}

static void end(ncclComm_t c, const float *to, float factor)
{
    double worst = 0;

    CALL(cudaStreamSynchronize(NULL));
    libs_read(y, to, sizeof(y));
    for (int i = 0; i < N; i++)
        worst = fmax(worst, fabs(y[i] - x[i] * factor));
    CALL(ncclCommDestroy(c));
    libs_judge(worst, 0);
}

static void all_reduce(void)
{
    float *from, *to;
    ncclComm_t c = begin(&from, &to);

    CALL(ncclAllReduce(from, to, N, ncclFloat, ncclSum, c, NULL));
    end(c, to, 1);
}

static void pre_multiplied(void)
{
    float *from, *to, two = 2;
    ncclRedOp_t op;
    ncclComm_t c = begin(&from, &to);

    CALL(ncclRedOpCreatePreMulSum(&op, &two, ncclFloat, ncclScalarHostImmediate, c));
    CALL(ncclAllReduce(from, to, N, ncclFloat, op, c, NULL));
    end(c, to, 2);
}

static void broadcast(void)
{
    float *from, *to;
    ncclComm_t c = begin(&from, &to);

    CALL(ncclBroadcast(from, to, N, ncclFloat, 0, c, NULL));
    end(c, to, 1);
}

const struct libs_case libs_cases[] = {
    {"all-reduce", all_reduce},
    {"all-reduce-scaled", pre_multiplied},
    {"broadcast", broadcast},
    {NULL, NULL},
};
