/* SPDX-License-Identifier: MIT */
/* Texture and surface objects: what a call costs with many of them, and which of them count. */
#include "../calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define FEW 1000u
#define MANY 100000u
#define CALLS 1000u
#define MOST \
    8.0 /* times the cost with few of them: the caches of a processor hold those, a list makes it 100 */
#define TRIES 5 /* of which the best counts */

static struct wrk_worker w;
static struct vgp_record record;
static struct wrk_call call = {.w = &w, .rec = &record};
static uint64_t made[MANY];
static uint64_t next; /* number that the provider gives out */

static CUresult texture_create(CUtexObject *o, const CUDA_RESOURCE_DESC *r, const CUDA_TEXTURE_DESC *t,
                               const CUDA_RESOURCE_VIEW_DESC *v)
{
    (void)r;
    (void)t;
    (void)v;
    *o = next;
    next += UINT64_C(0x9e3779b97f4a7c15);
    return CUDA_SUCCESS;
}

static CUresult surface_create(CUsurfObject *o, const CUDA_RESOURCE_DESC *r)
{
    return texture_create(o, r, NULL, NULL);
}

static CUresult destroy(unsigned long long o)
{
    (void)o;
    return CUDA_SUCCESS;
}

static int setup(void **state)
{
    (void)state;
    memset(&w, 0, sizeof(w));
    wrk_waits_init(&w.waits);
    wrk_client_limits.handles = 0;
    record.context = 0;
    next = 1;
    wrk_provider.cuTexObjectCreate = texture_create;
    wrk_provider.cuSurfObjectCreate = surface_create;
    wrk_provider.cuTexObjectDestroy = destroy;
    wrk_provider.cuSurfObjectDestroy = destroy;
    return 0;
}

static CUresult make(bool surface, uint64_t *number)
{
    static const CUDA_TEXTURE_DESC t;
    const struct vgp_args_vgpTexObjectCreate a = {
        .type = CU_RESOURCE_TYPE_LINEAR, .surface = surface, .desc_len = surface ? 0 : sizeof(t)};
    struct vgp_ret_vgpTexObjectCreate r = {0};
    CUresult e = wrk_do_vgpTexObjectCreate(&call, &a, &t, NULL, &r);

    *number = r.object;
    return e;
}

/* The steps of vgpTexObjectDestroy. */
static CUresult drop(bool surface, uint64_t number)
{
    CUresult e = CUDA_ERROR_INVALID_VALUE;

    if (wrk_texture_known(number, surface))
        e = surface ? wrk_provider.cuSurfObjectDestroy(number) : wrk_provider.cuTexObjectDestroy(number);
    return e == CUDA_SUCCESS ? wrk_texture_destroyed(call.w, number, surface) : e;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Seconds of CALLS pairs of calls while there are n, on those made last. */
static double replace(unsigned n)
{
    double best = 1e9;

    for (int i = 0; i < TRIES; i++) {
        double t = now();

        for (unsigned k = 0; k < CALLS; k++) {
            assert_int_equal(drop(false, made[n - 1 - k]), CUDA_SUCCESS);
            assert_int_equal(make(false, &made[n - 1 - k]), CUDA_SUCCESS);
        }
        t = now() - t;
        best = t < best ? t : best;
    }
    return best;
}

static void test_cost(void **state)
{
    double few = 0, many;

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        if (i == FEW)
            few = replace(FEW);
        assert_int_equal(make(false, &made[i]), CUDA_SUCCESS);
    }
    many = replace(MANY);
    print_message("%u: %.2f us, %u: %.2f us\n", FEW, few * 1e6 / CALLS, MANY, many * 1e6 / CALLS);
    assert_true(many < MOST * few);
    assert_int_equal(w.handles.unnamed, MANY);
    wrk_textures_end(&w, 0);
    assert_int_equal(w.handles.unnamed, 0);
}

/* Seconds of CALLS ends of a context with one object. */
static double end_contexts(uint64_t context)
{
    double best = 1e9;
    uint64_t number;

    record.context = context;
    for (int i = 0; i < TRIES; i++) {
        double t = now();

        for (unsigned k = 0; k < CALLS; k++) {
            assert_int_equal(make(k % 2, &number), CUDA_SUCCESS);
            wrk_textures_end(&w, context);
        }
        t = now() - t;
        best = t < best ? t : best;
    }
    return best;
}

/* The end of a context costs as much as it has objects, however many others have. */
static void test_cost_of_end(void **state)
{
    static const uint64_t contexts[] = {VGP_HANDLE(VGP_H_CONTEXT, 1, 3), VGP_HANDLE(VGP_H_CONTEXT, 1, 4),
                                        VGP_HANDLE(VGP_H_CONTEXT, 1, 5)};
    double few = end_contexts(contexts[1]), many;
    uint64_t number;

    (void)state;
    for (unsigned i = 0; i < 2 * FEW; i++) {
        record.context = contexts[i % 2 * 2];
        assert_int_equal(make(false, &number), CUDA_SUCCESS);
    }
    many = end_contexts(contexts[1]);
    print_message("%.2f us, with %u of others %.2f us\n", few * 1e6 / CALLS, 2 * FEW, many * 1e6 / CALLS);
    assert_true(many < MOST * few);
    assert_int_equal(w.handles.unnamed, 2 * FEW);
    wrk_textures_end(&w, contexts[0]);
    wrk_textures_end(&w, contexts[2]);
    assert_int_equal(w.handles.unnamed, 0);
}

/* A context takes its own along, whatever their numbers, and no others. */
static void test_contexts(void **state)
{
    static const uint64_t contexts[] = {VGP_HANDLE(VGP_H_CONTEXT, 1, 3), VGP_HANDLE(VGP_H_CONTEXT, 1, 5)};
    uint64_t number[2][2];

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        record.context = contexts[i];
        next = UINT64_MAX - i;
        for (unsigned surface = 0; surface < 2; surface++) {
            assert_int_equal(make(surface, &number[i][surface]), CUDA_SUCCESS);
            assert_int_equal(drop(!surface, number[i][surface]), CUDA_ERROR_INVALID_VALUE);
        }
    }
    wrk_textures_end(&w, contexts[0]);
    assert_int_equal(w.handles.unnamed, 2);
    assert_int_equal(drop(false, number[0][0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(drop(true, number[0][1]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(drop(false, number[1][0]), CUDA_SUCCESS);
    wrk_textures_end(&w, contexts[1]);
    assert_int_equal(drop(true, number[1][1]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(w.handles.unnamed, 0);
}

/* They count as the objects that have handles. A number that is given out again is one object. */
static void test_count(void **state)
{
    uint64_t a, b;

    (void)state;
    wrk_client_limits.handles = 2;
    assert_int_equal(make(false, &a), CUDA_SUCCESS);
    next = a;
    assert_int_equal(make(false, &a), CUDA_SUCCESS);
    assert_int_equal(w.handles.unnamed, 1);
    assert_int_equal(make(true, &b), CUDA_SUCCESS);
    assert_int_equal(make(false, &b), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(drop(false, a), CUDA_SUCCESS);
    assert_int_equal(make(false, &b), CUDA_SUCCESS);
    wrk_textures_end(&w, 0);
    assert_int_equal(w.handles.unnamed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_cost, setup),
        cmocka_unit_test_setup(test_cost_of_end, setup),
        cmocka_unit_test_setup(test_contexts, setup),
        cmocka_unit_test_setup(test_count, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
