// SPDX-License-Identifier: MIT
/* Shared code of the cases about effects of attributes. */
#ifndef EFFECTS_H
#define EFFECTS_H

#include "conform.h"

static inline int device_attribute(CUdevice_attribute a)
{
    int v = -1;

    NEED(cuDeviceGetAttribute(&v, a, 0));
    return v;
}

/* Prints two lines for a limit: the last valid value, and the next value. */
static inline void ends(const char *name, CUresult at, CUresult over, CUresult want)
{
    char check[80];

    snprintf(check, sizeof(check), "%s_at", name);
    OK(check, at);
    snprintf(check, sizeof(check), "%s_over", name);
    RC(check, over, want);
}

#endif
