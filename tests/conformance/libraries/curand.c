/* SPDX-License-Identifier: MIT */
/* cuRAND: generators on the device compared with the library's CPU generators. */
#include "libs.h"

#include <curand.h>

const char libs_name[] = "cuRAND";

enum { N = 10000 };

static void both(curandRngType_t type, bool normal)
{
    static float got[N], want[N];
    curandGenerator_t device, host;
    float *d = libs_device(NULL, sizeof(got));
    double worst = 0;

    CALL(curandCreateGenerator(&device, type));
    CALL(curandCreateGeneratorHost(&host, type));
    if (type < CURAND_RNG_QUASI_DEFAULT) {
        CALL(curandSetPseudoRandomGeneratorSeed(device, 1234));
        CALL(curandSetPseudoRandomGeneratorSeed(host, 1234));
    }
    CALL(normal ? curandGenerateNormal(device, d, N, 1, 2) : curandGenerateUniform(device, d, N));
    CALL(normal ? curandGenerateNormal(host, want, N, 1, 2) : curandGenerateUniform(host, want, N));
    libs_read(got, d, sizeof(got));
    for (int i = 0; i < N; i++)
        worst = fmax(worst, fabs(got[i] - want[i]));
    libs_judge(worst, normal ? 2e-5 : 0); /* the normal distribution uses approximate functions */
}

#define BOTH(name, type) \
    static void name##_uniform(void) \
    { \
        both(type, false); \
    } \
    static void name##_normal(void) \
    { \
        both(type, true); \
    }
BOTH(xorwow, CURAND_RNG_PSEUDO_XORWOW)
BOTH(mrg32k3a, CURAND_RNG_PSEUDO_MRG32K3A)
BOTH(philox, CURAND_RNG_PSEUDO_PHILOX4_32_10)
BOTH(mt19937, CURAND_RNG_PSEUDO_MT19937)
BOTH(mtgp32, CURAND_RNG_PSEUDO_MTGP32)
BOTH(sobol32, CURAND_RNG_QUASI_SOBOL32)
BOTH(scrambled, CURAND_RNG_QUASI_SCRAMBLED_SOBOL32)

#define CASES(name) \
    {#name "-uniform", name##_uniform}, \
    { \
#name "-normal", name##_normal \
    }
const struct libs_case libs_cases[] = {
    CASES(xorwow), CASES(mrg32k3a), CASES(philox),    CASES(mt19937),
    CASES(mtgp32), CASES(sobol32),  CASES(scrambled), {NULL, NULL},
};
