/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous copies from pageable memory behind work that has not ended: the source is taken at the call, in every form
 * of copy, and the room that this takes is given back.
 */
#include <unistd.h>

#include "api/api_test.h"

#define BYTES 65536u

static const struct form {
    const char *name;
    size_t width, height, depth; /* bytes, rows, slices */
    size_t src_pitch, src_height, src_x, src_y, src_z;
    size_t dst_pitch, dst_height, dst_x, dst_y, dst_z;
} forms[] = {
    {"a row", 5000, 1, 1, 5000, 1, 0, 0, 0, 5000, 1, 0, 0, 0},
    {"dense rows", 64, 20, 1, 64, 20, 0, 0, 0, 64, 20, 0, 0, 0},
    {"rows of a wider source", 60, 20, 1, 100, 20, 7, 2, 0, 64, 20, 0, 0, 0},
    {"rows of a wider destination", 60, 20, 1, 60, 20, 0, 0, 0, 96, 30, 5, 3, 0},
    {"dense slices", 32, 8, 6, 32, 8, 0, 0, 0, 32, 8, 0, 0, 0},
    {"slices of a higher source", 32, 8, 6, 48, 11, 3, 1, 2, 32, 8, 0, 0, 0},
    {"slices of a higher destination", 32, 8, 6, 32, 8, 0, 0, 0, 40, 13, 1, 4, 3},
    {"slices of two different blocks", 30, 7, 5, 48, 11, 3, 1, 2, 40, 13, 1, 4, 3},
    {"slices of one row", 100, 1, 9, 128, 2, 0, 1, 0, 100, 3, 0, 0, 0},
};

static size_t place(size_t pitch, size_t height, size_t x, size_t y, size_t z)
{
    return (z * height + y) * pitch + x;
}

static void copy_model(const struct form *f, unsigned char *to, const unsigned char *from)
{
    for (size_t z = 0; z < f->depth; z++) {
        for (size_t y = 0; y < f->height; y++)
            memcpy(to + place(f->dst_pitch, f->dst_height, f->dst_x, f->dst_y + y, f->dst_z + z),
                   from + place(f->src_pitch, f->src_height, f->src_x, f->src_y + y, f->src_z + z), f->width);
    }
}

static CUresult copy_call(const struct form *f, CUdeviceptr to, const void *from, CUstream s)
{
    const CUDA_MEMCPY3D c = {.srcXInBytes = f->src_x,
                             .srcY = f->src_y,
                             .srcZ = f->src_z,
                             .srcMemoryType = CU_MEMORYTYPE_HOST,
                             .srcHost = from,
                             .srcPitch = f->src_pitch,
                             .srcHeight = f->src_height,
                             .dstXInBytes = f->dst_x,
                             .dstY = f->dst_y,
                             .dstZ = f->dst_z,
                             .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                             .dstDevice = to,
                             .dstPitch = f->dst_pitch,
                             .dstHeight = f->dst_height,
                             .WidthInBytes = f->width,
                             .Height = f->height,
                             .Depth = f->depth};

    return cuMemcpy3DAsync_v2(&c, s);
}

/* Each form, whose source is overwritten before the copy has run. */
static void test_staged_forms(void **state)
{
    unsigned char *src = malloc(BYTES), *want = malloc(BYTES), *is = malloc(BYTES);
    CUcontext c = ctx_begin();
    CUdeviceptr p;
    CUstream s;

    (void)state;
    assert_true(src && want && is);
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&p, BYTES));
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct gate g = GATE_INIT;

        for (size_t k = 0; k < BYTES; k++)
            src[k] = (unsigned char)(k * 7 + k / 251);
        memset(want, 0x11, BYTES);
        OK(cuMemsetD8_v2(p, 0x11, BYTES));
        copy_model(&forms[i], want, src);
        OK(cuLaunchHostFunc(s, gate_wait, &g));
        OK(copy_call(&forms[i], p, src, s));
        memset(src, 0xee, BYTES);
        gate_open(&g);
        OK(cuStreamSynchronize(s));
        OK(cuMemcpyDtoH_v2(is, p, BYTES));
        if (memcmp(is, want, BYTES))
            fail_msg("%s: not what the source had at the call", forms[i].name);
    }
    free(src);
    free(want);
    free(is);
    ctx_end(c);
}

#define LARGE (12u << 20)
#define TOGETHER 5 /* within what is staged at a time: 64 MiB */

struct late {
    struct gate gate;
    _Atomic bool issued, late;
};

/* Opens the gate when all copies were issued; before, when one of them does not return. */
static void *open_when_issued(void *arg)
{
    struct late *l = arg;

    for (int i = 0; i < 3000 && !l->issued; i++)
        usleep(10000);
    l->late = !l->issued;
    gate_open(&l->gate);
    return NULL;
}

static bool waited_for(CUstream s, CUdeviceptr p, const void *src, int copies)
{
    struct late l = {.gate = GATE_INIT};
    pthread_t t;

    OK(cuLaunchHostFunc(s, gate_wait, &l.gate));
    assert_int_equal(pthread_create(&t, NULL, open_when_issued, &l), 0);
    for (int i = 0; i < copies; i++)
        OK(cuMemcpyHtoDAsync_v2(p, src, LARGE, s));
    l.issued = true;
    pthread_join(t, NULL);
    OK(cuStreamSynchronize(s));
    return l.late;
}

/* Copies that fit return at once, however many were staged before and however many were not. */
static void test_staged_room(void **state)
{
    CUcontext c = ctx_begin();
    void *src = calloc(1, LARGE);
    CUdeviceptr p;
    CUstream s;

    (void)state;
    assert_non_null(src);
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&p, LARGE));
    for (int round = 0; round < 3; round++)
        assert_false(waited_for(s, p, src, TOGETHER));
    assert_true(waited_for(s, p, src, TOGETHER + 1)); /* one too many: that one is waited for */
    for (int round = 0; round < 3; round++)
        assert_false(waited_for(s, p, src, TOGETHER));
    free(src);
    ctx_end(c);
}

const struct CMUnitTest staged_tests[] = {cmocka_unit_test(test_staged_forms),
                                          cmocka_unit_test(test_staged_room)};
const size_t n_staged_tests = sizeof(staged_tests) / sizeof(staged_tests[0]);
