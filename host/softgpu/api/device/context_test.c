/* SPDX-License-Identifier: MIT */
/* Contexts that have ended while they are current. */
#include "api/api_test.h"

static void end_current(void *ctx)
{
    CUcontext other;
    unsigned long long id;
    unsigned version;

    OK(cuCtxCreate_v2(&other, 0, 0));
    OK(cuCtxDestroy_v2(other));
    OK(cuCtxPushCurrent_v2(ctx));
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
    OK(cuCtxSetCurrent(ctx));
}

/* What is asked of the current context when that has ended leaves its references alone. */
void test_ended_is_current(void **state)
{
    CUcontext c = ctx_begin();

    (void)state;
    books_kept(end_current, c);
    ctx_end(c);
}
