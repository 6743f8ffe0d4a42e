/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into llama.cpp's test-llama-archs. The test expects ggml with its backends linked in;
 * the distributed one loads them, when somebody asks. And it computes its reference with four threads
 * that spin while they wait for each other, which takes minutes on two processors: one here.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "ggml-backend.h"
#include "llama.h"

/* Weak: the commands that start the test carry the preloaded library, too. */
#pragma weak ggml_backend_load_all

__attribute__((constructor)) static void load_backends(void)
{
    if (ggml_backend_load_all)
        ggml_backend_load_all();
}

struct llama_context *llama_init_from_model(struct llama_model *model,
                                            struct llama_context_params params)
{
    struct llama_context *(*next)(struct llama_model *, struct llama_context_params);

    *(void **)&next = dlsym(RTLD_NEXT, "llama_init_from_model");
    if (!next)
        abort();
    params.n_threads = 1;
    params.n_threads_batch = 1;
    return next(model, params);
}
