/* SPDX-License-Identifier: MIT */
/* Arrays that grow. */
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

bool sg_grow(void *p, uint32_t *cap, uint32_t n, size_t elem)
{
    void **pp = p;
    uint32_t want = *cap ? *cap : 16;
    void *q;

    if (n < *cap)
        return true;
    while (want <= n) {
        if (want > UINT32_MAX / 2)
            return false;
        want *= 2;
    }
    q = realloc(*pp, (size_t)want * elem);
    if (!q)
        return false;
    memset((char *)q + (size_t)*cap * elem, 0, (size_t)(want - *cap) * elem);
    *pp = q;
    *cap = want;
    return true;
}
