/* SPDX-License-Identifier: MIT */
/* The supported shapes and types of mma.sync. */
#include "exec/mma.h"

#include <stddef.h>

#define F(shape, a, b, c, m, k, na, nb, nc) \
    { \
        shape, SG_MMA_##a, SG_MMA_##b, c, m, k, na, nb, nc \
    }

const struct sg_mma_form sg_mma_forms[] = {
    F("m16n8k16", F16, F16, 'f', 16, 16, 4, 2, 4),   F("m16n8k16", F16, F16, 'h', 16, 16, 4, 2, 2),
    F("m16n8k16", BF16, BF16, 'f', 16, 16, 4, 2, 4), F("m16n8k8", F16, F16, 'f', 16, 8, 2, 1, 4),
    F("m16n8k8", F16, F16, 'h', 16, 8, 2, 1, 2),     F("m16n8k8", BF16, BF16, 'f', 16, 8, 2, 1, 4),
    F("m16n8k8", TF32, TF32, 'f', 16, 8, 4, 2, 4),   F("m16n8k4", TF32, TF32, 'f', 16, 4, 2, 1, 4),
    F("m16n8k32", S8, S8, 'i', 16, 32, 4, 2, 4),     F("m16n8k32", U8, U8, 'i', 16, 32, 4, 2, 4),
    F("m16n8k32", S8, U8, 'i', 16, 32, 4, 2, 4),     F("m16n8k32", U8, S8, 'i', 16, 32, 4, 2, 4),
    F("m16n8k16", S8, S8, 'i', 16, 16, 2, 1, 4),     F("m16n8k16", U8, U8, 'i', 16, 16, 2, 1, 4),
    F("m16n8k16", S8, U8, 'i', 16, 16, 2, 1, 4),     F("m16n8k16", U8, S8, 'i', 16, 16, 2, 1, 4),
    F("m8n8k16", S8, S8, 'i', 8, 16, 1, 1, 2),       F("m8n8k16", U8, U8, 'i', 8, 16, 1, 1, 2),
    F("m8n8k16", S8, U8, 'i', 8, 16, 1, 1, 2),       F("m8n8k16", U8, S8, 'i', 8, 16, 1, 1, 2),
    F("m8n8k4", F64, F64, 'd', 8, 4, 1, 1, 2),       F("m16n8k32", E4M3, E4M3, 'f', 16, 32, 4, 2, 4),
    F("m16n8k32", E5M2, E5M2, 'f', 16, 32, 4, 2, 4), F("m16n8k32", E4M3, E5M2, 'f', 16, 32, 4, 2, 4),
    F("m16n8k32", E5M2, E4M3, 'f', 16, 32, 4, 2, 4), {NULL, 0, 0, 0, 0, 0, 0, 0, 0},
};
