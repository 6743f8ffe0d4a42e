/* SPDX-License-Identifier: MIT */
/* cuDNN, compared with sums in double. */
#include "libs.h"

#include <cudnn.h>

const char libs_name[] = "cuDNN";

enum { B = 2, C = 3, K = 4, H = 12, W = 10, R = 3 };
static float x[B * C * H * W], f[K * C * R * R], y[B * K * H * W];
static cudnnHandle_t h;

static cudnnTensorDescriptor_t tensor(int c)
{
    cudnnTensorDescriptor_t t;

    CALL(cudnnCreateTensorDescriptor(&t));
    CALL(cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, B, c, H, W));
    return t;
}

static void make(void)
{
    for (int i = 0; i < B * C * H * W; i++)
        x[i] = (float)libs_random();
    for (int i = 0; i < K * C * R * R; i++)
        f[i] = (float)libs_random();
    CALL(cudnnCreate(&h));
}

static double at(int b, int c, int i, int j)
{
    return i < 0 || j < 0 || i >= H || j >= W ? 0 : x[((b * C + c) * H + i) * W + j];
}

static void convolve(cudnnConvolutionFwdAlgo_t algorithm)
{
    float one = 1, zero = 0;
    cudnnConvolutionDescriptor_t conv;
    cudnnFilterDescriptor_t filter;
    double worst = 0;
    size_t bytes;

    make();
    cudnnTensorDescriptor_t tx = tensor(C), ty = tensor(K);
    CALL(cudnnCreateFilterDescriptor(&filter));
    CALL(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, K, C, R, R));
    CALL(cudnnCreateConvolutionDescriptor(&conv));
    CALL(cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    CALL(cudnnGetConvolutionForwardWorkspaceSize(h, tx, filter, conv, ty, algorithm, &bytes));
    void *work = libs_device(NULL, bytes + 8);
    float *dy = libs_device(NULL, sizeof(y));
    CALL(cudnnConvolutionForward(h, &one, tx, libs_device(x, sizeof(x)), filter, libs_device(f, sizeof(f)),
                                 conv, algorithm, work, bytes, &zero, ty, dy));
    libs_read(y, dy, sizeof(y));
    for (int b = 0; b < B; b++)
        for (int k = 0; k < K; k++)
            for (int i = 0; i < H; i++)
                for (int j = 0; j < W; j++) {
                    double s = -y[((b * K + k) * H + i) * W + j];
                    for (int c = 0; c < C; c++)
                        for (int u = 0; u < R * R; u++)
                            s += f[(k * C + c) * R * R + u] * at(b, c, i + u / R - 1, j + u % R - 1);
                    worst = fmax(worst, fabs(s));
                }
    libs_judge(worst, 5e-6);
}

static void implicit(void)
{
    convolve(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
}
static void precomputed(void)
{
    convolve(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
}

static void softmax(void)
{
    float one = 1, zero = 0;
    double worst = 0;

    make();
    cudnnTensorDescriptor_t t = tensor(C);
    float *dx = libs_device(x, sizeof(x)), *dy = libs_device(NULL, sizeof(x));
    CALL(cudnnSoftmaxForward(h, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, t, dx, &zero, t,
                             dy));
    libs_read(y, dy, sizeof(x));
    for (int i = 0; i < B * C * H * W; i++) {
        double sum = 0;
        for (int c = 0; c < C; c++)
            sum += exp(at(i / (C * H * W), c, i / W % H, i % W));
        worst = fmax(worst, fabs(y[i] - exp(x[i]) / sum));
    }
    libs_judge(worst, 1e-6);
}

static void relu(void)
{
    float one = 1, zero = 0;
    cudnnActivationDescriptor_t a;
    double worst = 0;

    make();
    cudnnTensorDescriptor_t t = tensor(C);
    float *dx = libs_device(x, sizeof(x)), *dy = libs_device(NULL, sizeof(x));
    CALL(cudnnCreateActivationDescriptor(&a));
    CALL(cudnnSetActivationDescriptor(a, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    CALL(cudnnActivationForward(h, a, &one, t, dx, &zero, t, dy));
    libs_read(y, dy, sizeof(x));
    for (int i = 0; i < B * C * H * W; i++)
        worst = fmax(worst, fabs(y[i] - fmax(x[i], 0)));
    libs_judge(worst, 0);
}

static void pooling(void)
{
    float one = 1, zero = 0;
    cudnnPoolingDescriptor_t p;
    cudnnTensorDescriptor_t ty;
    double worst = 0;

    make();
    CALL(cudnnCreateTensorDescriptor(&ty));
    CALL(cudnnSetTensor4dDescriptor(ty, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, B, C, H / 2, W / 2));
    CALL(cudnnCreatePoolingDescriptor(&p));
    CALL(cudnnSetPooling2dDescriptor(p, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
    float *dx = libs_device(x, sizeof(x)), *dy = libs_device(NULL, sizeof(x));
    CALL(cudnnPoolingForward(h, p, &one, tensor(C), dx, &zero, ty, dy));
    libs_read(y, dy, B * C * H * W);
    for (int n = 0; n < B * C; n++)
        for (int i = 0; i < H / 2; i++)
            for (int j = 0; j < W / 2; j++) {
                const float *at2 = &x[(n * H + 2 * i) * W + 2 * j];
                double m = fmax(fmax(at2[0], at2[1]), fmax(at2[W], at2[W + 1]));
                worst = fmax(worst, fabs(y[(n * H / 2 + i) * (W / 2) + j] - m));
            }
    libs_judge(worst, 0);
}

const struct libs_case libs_cases[] = {
    {"convolution-implicit", implicit},
    {"convolution-precomputed", precomputed},
    {"softmax", softmax},
    {"relu", relu},
    {"max-pooling", pooling},
    {NULL, NULL},
};
