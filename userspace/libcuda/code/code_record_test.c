/* SPDX-License-Identifier: MIT */
/* Records of modules and functions live as long as a call uses them, their handles until the module ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "code.h"

#include "vgp_guest.h"

static struct vcu_code_record *library_with(struct vcu_func **kernel)
{
    struct vcu_code_record *u = vcu_code_record_new(VGP_H_LIBRARY);
    struct vcu_func *f = calloc(1, sizeof(*f) + 2);

    assert_non_null(u);
    assert_non_null(f);
    assert_true(vcu_handle_set_data(u->handle, VGP_H_LIBRARY, u));
    atomic_init(&f->users, 1);
    strcpy(f->name, "k");
    f->handle = vgp_handle_mint(VGP_H_KERNEL);
    f->parent = u->handle;
    u->funcs = f;
    assert_true(vcu_handle_set_data(f->handle, VGP_H_KERNEL, f));
    *kernel = f;
    return u;
}

/* The CUfunction of a kernel. */
static struct vcu_func *function_of(struct vcu_func *kernel)
{
    struct vcu_func *f = calloc(1, sizeof(*f) + 1);

    assert_non_null(f);
    atomic_init(&f->users, 1);
    atomic_fetch_add(&kernel->users, 1);
    f->kernel = kernel;
    f->handle = vgp_handle_mint(VGP_H_FUNCTION);
    kernel->function = f->handle;
    assert_true(vcu_handle_set_data(f->handle, VGP_H_FUNCTION, f));
    return f;
}

static void test_unload_while_used(void **state)
{
    struct vcu_func *kernel, *function, *launch, *kept;
    struct vcu_code_record *u = library_with(&kernel), *look_up;
    const uint64_t unit = u->handle, handle = kernel->handle;

    (void)state;
    function = function_of(kernel);
    const uint64_t function_handle = function->handle;

    look_up = vcu_code_record_find(unit, VGP_H_LIBRARY);
    assert_ptr_equal(look_up, u);
    launch = vcu_func_find((CUfunction)(uintptr_t)function_handle); /* of the kernel that it stands for */
    assert_ptr_equal(launch, kernel);
    kept = vcu_func_get(function_handle, VGP_H_FUNCTION);
    assert_ptr_equal(kept, function);

    /* The other thread; the call to the worker has dropped the handle. */
    vgp_handle_drop(unit);
    vcu_code_record_end(u);
    assert_null(vcu_code_record_find(unit, VGP_H_LIBRARY));
    assert_null(vcu_func_find((CUfunction)(uintptr_t)handle));
    assert_null(vcu_func_find((CUfunction)(uintptr_t)function_handle));
    /* Records in use by calls still exist, each with its counted references. */
    assert_int_equal(look_up->users, 1);
    assert_true(look_up->gone);
    assert_null(look_up->funcs);
    assert_int_equal(kept->users, 1);
    assert_int_equal(launch->users, 2); /* this call's and the function's */
    assert_string_equal(launch->name, "k");

    vcu_code_record_end(look_up); /* a second thread unloads it as well: nothing more is taken */
    vcu_func_end(launch);
    assert_int_equal(look_up->users, 1);
    assert_int_equal(launch->users, 2);
    vcu_func_put(kept);
    assert_int_equal(launch->users, 1);
    vcu_func_put(launch);
    vcu_code_record_put(look_up);
}

static void test_held_to_the_end_of_a_block(void **state)
{
    struct vcu_func *kernel;
    struct vcu_code_record *u = library_with(&kernel);

    (void)state;
    {
        VCU_FUNC_HELD struct vcu_func *f = vcu_func_get(kernel->handle, VGP_H_KERNEL);
        VCU_CODE_RECORD_HELD struct vcu_code_record *v = vcu_code_record_find(u->handle, VGP_H_LIBRARY),
                                                    *none = NULL;

        assert_int_equal(f->users, 2);
        assert_int_equal(v->users, 2);
        assert_null(none);
    }
    assert_int_equal(kernel->users, 1);
    assert_int_equal(u->users, 1);
    vcu_code_record_end(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unload_while_used),
        cmocka_unit_test(test_held_to_the_end_of_a_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
