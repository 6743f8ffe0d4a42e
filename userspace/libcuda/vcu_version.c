/* SPDX-License-Identifier: MIT */
#include "vcu_version.h"

#include <cuda.h>
#include <stdlib.h>

int vcu_driver_version(void)
{
    const char *text = getenv("VGPU_DRIVER_VERSION");
    char *end;
    long value;

    if (text == NULL || *text == '\0')
        return CUDA_VERSION;
    value = strtol(text, &end, 10);
    return *end == '\0' && value >= 1000 && value <= 99999 ? (int)value : CUDA_VERSION;
}
