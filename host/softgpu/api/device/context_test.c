/* SPDX-License-Identifier: MIT */
/* Contexts that have ended while they are current, or in use by another thread. */
#include "api/api_test.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

void sg_books(char *text, size_t size); /* runtime/runtime.h */

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

/* An image that is read once the test lets it: the thread that loads it is then behind all checks. */
#define PAGE 4096u
static char *image;
static sem_t reached, go_on;

static void on_fault(int sig)
{
    (void)sig;
    sem_post(&reached);
    while (sem_wait(&go_on))
        ;
    mprotect(image, PAGE, PROT_READ);
}

static void *load_there(void *context)
{
    static CUresult r;
    CUmodule m;

    r = cuCtxSetCurrent(context);
    if (r == CUDA_SUCCESS)
        r = cuModuleLoadData(&m, image);
    return &r;
}

/* A module is loaded while its context ends: own, green, and green with the primary context in use anew. */
void test_ends_during_load(void **state)
{
    static const char text[] =
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .global .align 8 .b8 v[1048576];\n"
        ".visible .global .texref t;\n.visible .entry k() { ret; }\n";
    const struct sigaction mine = {.sa_handler = on_fault};
    struct sigaction before_it;
    CUresult *r = NULL;
    unsigned flags;
    int active;

    (void)state;
    assert_int_equal(sem_init(&reached, 0, 0), 0);
    assert_int_equal(sem_init(&go_on, 0, 0), 0);
    assert_int_equal(sigaction(SIGSEGV, &mine, &before_it), 0);
    image = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(image, MAP_FAILED);
    memcpy(image, text, sizeof(text));
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_false(active);
    for (unsigned i = 0; i < 3; i++) {
        char before[400], after[400];
        CUdevResourceDesc desc;
        CUdevResource all;
        CUcontext c, again;
        CUgreenCtx green;
        pthread_t thread;

        sg_books(before, sizeof(before));
        if (i) {
            OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
            OK(cuDevResourceGenerateDesc(&desc, &all, 1));
            OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
            OK(cuCtxFromGreenCtx(&c, green));
        } else {
            OK(cuCtxCreate_v2(&c, 0, 0));
            OK(cuCtxPopCurrent_v2(&c));
        }
        assert_int_equal(mprotect(image, PAGE, PROT_NONE), 0);
        assert_int_equal(pthread_create(&thread, NULL, load_there, c), 0);
        while (sem_wait(&reached))
            ;
        if (i)
            OK(cuGreenCtxDestroy(green));
        else
            OK(cuCtxDestroy_v2(c));
        if (i == 2)
            OK(cuDevicePrimaryCtxRetain(&again, 0));
        sem_post(&go_on);
        assert_int_equal(pthread_join(thread, (void **)&r), 0);
        assert_int_equal(*r, CUDA_ERROR_CONTEXT_IS_DESTROYED);
        if (i == 2)
            OK(cuDevicePrimaryCtxRelease_v2(0));
        sg_books(after, sizeof(after));
        /* threads of streams may end later */
        assert_string_equal(strstr(before, "ranges"), strstr(after, "ranges"));
        assert_null(strstr(after, "module"));
        assert_null(strstr(after, "texture-reference"));
    }
    sigaction(SIGSEGV, &before_it, NULL);
    munmap(image, PAGE);
    sem_destroy(&reached);
    sem_destroy(&go_on);
}
