/* SPDX-License-Identifier: MIT */
/* What graphs name and the client destroys: where memory is short, and in graphs within each other
   (tests/cases/naming_test.c has the rest). */
#include "core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define FEW 1000u
#define MANY 50000u
#define CALLS 1000u
#define MOST \
    8.0 /* times the cost with few of them: the caches of a processor hold those, a walk makes it 50 */

#define MODULE VGP_HANDLE(VGP_H_MODULE, 1, 5)

static struct wrk_worker w;
static bool no_memory;
static unsigned unloaded;
static int object;

/* The linker puts these in front of the worker's own calls. */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return no_memory ? NULL : __real_calloc(n, size);
}

static CUresult unload(CUmodule m)
{
    (void)m;
    unloaded++;
    return CUDA_SUCCESS;
}

static int setup(void **state)
{
    (void)state;
    memset(&w, 0, sizeof(w));
    memset(&wrk_provider, 0, sizeof(wrk_provider));
    wrk_waits_init(&w.waits);
    wrk_provider.cuModuleUnload = unload;
    unloaded = 0;
    return 0;
}

static struct wrk_call call = {.w = &w, .rec = &(struct vgp_record){0}};

/* A call for the graph n looks up a module that there is from then on. */
static CUresult named(struct wrk_namer *n)
{
    assert_int_equal(wrk_handles_reserve(&w.handles, MODULE, VGP_H_MODULE), CUDA_SUCCESS);
    wrk_handles_put(&w.handles, MODULE, VGP_H_MODULE, &object, 0);
    wrk_naming_for(&call, n);
    return wrk_naming_found(&call, VGP_H_MODULE, wrk_handles_find(&w.handles, MODULE, VGP_H_MODULE), MODULE);
}

/* The end of a kept module takes a wait. Without memory for that it stays, and the worker goes on. */
static void test_end_without_memory(void **state)
{
    struct wrk_namer n = {0};

    (void)state;
    assert_int_equal(named(&n), CUDA_SUCCESS);
    assert_true(wrk_name_keep_long(&call, MODULE, VGP_H_MODULE));
    assert_null(wrk_handles_find(&w.handles, MODULE, VGP_H_MODULE));
    assert_int_equal(w.handles.kept, 1);
    assert_false(wrk_namer_stale(&n));
    no_memory = true;
    wrk_namer_clear(&w, &n);
    no_memory = false;
    assert_int_equal(w.handles.kept, 0);
    assert_int_equal(unloaded, 0);
    wrk_handles_fini(&w.handles);
}

/* Without memory for the name the call fails, and the module is nobody's. */
static void test_name_without_memory(void **state)
{
    struct wrk_namer n = {0};

    (void)state;
    assert_int_equal(named(&n), CUDA_SUCCESS);
    wrk_namer_clear(&w, &n);
    no_memory = true;
    CUresult r =
        wrk_naming_found(&call, VGP_H_MODULE, wrk_handles_find(&w.handles, MODULE, VGP_H_MODULE), MODULE);
    no_memory = false;
    assert_int_equal(r, CUDA_ERROR_OUT_OF_MEMORY);
    assert_false(wrk_name_keep_long(&call, MODULE, VGP_H_MODULE));
    assert_int_equal(w.handles.kept, 0);
    wrk_handles_fini(&w.handles);
}

/* A graph that is copied into one below it: each name is a name there, whatever the sizes of the tables. */
static void test_copy_to_a_part(void **state)
{
    static int objects[64];

    (void)state;
    for (unsigned n = 1; n <= 64; n++) {
        struct wrk_namer whole = {0}, part = {.up = &whole};

        wrk_naming_for(&call, &whole);
        for (unsigned i = 0; i < n; i++) {
            const uint64_t m = VGP_HANDLE(VGP_H_MODULE, n, 5 + i);

            assert_int_equal(wrk_handles_reserve(&w.handles, m, VGP_H_MODULE), CUDA_SUCCESS);
            wrk_handles_put(&w.handles, m, VGP_H_MODULE, &objects[i], 0);
            assert_int_equal(
                wrk_naming_found(&call, VGP_H_MODULE, wrk_handles_find(&w.handles, m, VGP_H_MODULE), m),
                CUDA_SUCCESS);
        }
        assert_true(wrk_namer_copy(&part, &whole));
        assert_int_equal(part.count, n);
        assert_int_equal(whole.count, n);
        wrk_namer_clear(&w, &part);
        wrk_namer_clear(&w, &whole);
        for (unsigned i = 0; i < n; i++)
            wrk_handles_remove(&w.handles, VGP_HANDLE(VGP_H_MODULE, n, 5 + i), VGP_H_MODULE);
    }
    wrk_handles_fini(&w.handles);
}

static struct wrk_handle_entry *module_entry(unsigned i)
{
    return wrk_handles_find(&w.handles, VGP_HANDLE(VGP_H_MODULE, 1, 5 + i), VGP_H_MODULE);
}

/* Seconds of processor time for CALLS calls, each of which names one module more and asks for ended ones. */
static double name_more(struct wrk_namer *n, unsigned from)
{
    struct timespec a, b;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (unsigned i = from; i < from + CALLS; i++) {
        wrk_naming_for(&call, n);
        wrk_naming_found(&call, VGP_H_MODULE, module_entry(i), VGP_HANDLE(VGP_H_MODULE, 1, 5 + i));
        assert_false(wrk_namer_stale(n));
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
}

/* A graph that names many objects costs a call, which names another one, no more than one that names few. */
static void test_cost(void **state)
{
    struct wrk_namer n = {0};
    double few = 0, many = 0;

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        const uint64_t m = VGP_HANDLE(VGP_H_MODULE, 1, 5 + i);

        assert_int_equal(wrk_handles_reserve(&w.handles, m, VGP_H_MODULE), CUDA_SUCCESS);
        wrk_handles_put(&w.handles, m, VGP_H_MODULE, &object, 0);
    }
    for (unsigned i = 0; i < MANY; i += CALLS) {
        many = name_more(&n, i);
        few = i == FEW ? many : few;
    }
    print_message("%u: %.2f us, %u: %.2f us\n", FEW, few * 1e6 / CALLS, MANY, many * 1e6 / CALLS);
    assert_int_equal(n.count, MANY);
    assert_true(many < MOST * few);
    wrk_handles_remove(&w.handles, VGP_HANDLE(VGP_H_MODULE, 1, 5 + MANY / 2), VGP_H_MODULE);
    assert_true(wrk_namer_stale(&n));
    wrk_namer_clear(&w, &n);
    wrk_handles_fini(&w.handles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_end_without_memory, setup),
        cmocka_unit_test_setup(test_name_without_memory, setup),
        cmocka_unit_test_setup(test_copy_to_a_part, setup),
        cmocka_unit_test_setup(test_cost, setup),
    };

    return cmocka_run_group_tests_name("naming", tests, NULL, NULL);
}
