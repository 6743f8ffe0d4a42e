// SPDX-License-Identifier: MIT
// Shared by the parts of conform_rt_*: a line of output and a count for each check.
#ifndef RT_H
#define RT_H

#include <cuda_runtime.h>

void rc(const char *check, cudaError_t got, cudaError_t want = cudaSuccess);
void yes(const char *check, bool ok);

void textures(); // rt_textures.cu

#endif
