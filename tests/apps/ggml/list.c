/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into llama.cpp's test-backend-ops to have it list its cases without running one: every
 * operation is "not supported", which the test reports by the case's name.
 */
#include <stdbool.h>

#include "ggml-backend.h"

bool ggml_backend_supports_op(ggml_backend_t backend, const struct ggml_tensor *op)
{
    (void)backend;
    (void)op;
    return false;
}
