// SPDX-License-Identifier: MIT
// What the parts of conform_rt_* share: one line and one count for each check.
#ifndef RT_H
#define RT_H

#include <cuda_runtime.h>

void rc(const char *check, cudaError_t got, cudaError_t want = cudaSuccess);
void yes(const char *check, bool ok);

void textures(); // rt_textures.cu

#endif
