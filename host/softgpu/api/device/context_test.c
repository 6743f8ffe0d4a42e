/* SPDX-License-Identifier: MIT */
/* Contexts that have ended while they are current. */
#include "api/api_test.h"

void sg_books(char *text, size_t size); /* runtime/runtime.h */

/* What is asked of the current context when that has ended leaves its references alone. */
void test_ended_is_current(void **state)
{
    CUcontext c = ctx_begin(), other;
    unsigned long long id;
    char before[400], after[400];
    unsigned version;

    (void)state;
    sg_books(before, sizeof(before));
    OK(cuCtxCreate_v2(&other, 0, 0));
    OK(cuCtxDestroy_v2(other));
    OK(cuCtxPushCurrent_v2(c));
    OK(cuCtxCreate_v2(&other, 0, 0));
    OK(cuCtxPushCurrent_v2(other)); /* twice in the stack: the second entry stays */
    OK(cuCtxDestroy_v2(other));
    for (unsigned i = 0; i < 5; i++) {
        IS(cuCtxSynchronize(), CONTEXT_IS_DESTROYED);
        IS(cuCtxSynchronize_v2(NULL), CONTEXT_IS_DESTROYED);
        IS(cuCtxGetId(NULL, &id), CONTEXT_IS_DESTROYED);
        assert_int_not_equal(cuCtxGetApiVersion(NULL, &version), CUDA_SUCCESS);
    }
    OK(cuCtxPopCurrent_v2(&other));
    OK(cuCtxPopCurrent_v2(&other));
    sg_books(after, sizeof(after));
    assert_string_equal(before, after);
    OK(cuCtxSetCurrent(c));
    ctx_end(c);
}
