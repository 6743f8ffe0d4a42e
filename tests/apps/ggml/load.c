/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into llama.cpp's test-llama-archs. The test expects ggml with its backends linked in; the
 * distributed ggml loads them on request. The test computes its reference with four threads that spin
 * while they wait for each other, which takes minutes on two processors; here it gets one thread. With
 * VGPU_TEST_GPU_ONLY=1 the CPU is hidden from the list of tested devices, which saves most of the time
 * on an emulated processor; the reference is still computed on the CPU.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "ggml-backend.h"
#include "llama.h"

/* Weak: the commands that start the test carry the preloaded library, too. */
#pragma weak ggml_backend_load_all

__attribute__((constructor)) static void load_backends(void)
{
    if (ggml_backend_load_all)
        ggml_backend_load_all();
}

struct llama_context *llama_init_from_model(struct llama_model *model, struct llama_context_params params)
{
    struct llama_context *(*next)(struct llama_model *, struct llama_context_params);

    *(void **)&next = dlsym(RTLD_NEXT, "llama_init_from_model");
    if (!next)
        abort();
    params.n_threads = 1;
    params.n_threads_batch = 1;
    return next(model, params);
}

/* True if the caller is the test itself; ggml's libraries need to see all devices. */
static bool hides_cpu(const void *caller)
{
    Dl_info self, from;

    return getenv("VGPU_TEST_GPU_ONLY") && dladdr(caller, &from) &&
           dladdr((void *)getauxval(AT_ENTRY), &self) && from.dli_fbase == self.dli_fbase;
}

/* The CPU is the last device. */
size_t ggml_backend_dev_count(void)
{
    size_t (*next)(void), n;

    *(void **)&next = dlsym(RTLD_NEXT, "ggml_backend_dev_count");
    if (!next)
        abort();
    n = next();
    return n > 1 && hides_cpu(__builtin_return_address(0)) ? n - 1 : n;
}
