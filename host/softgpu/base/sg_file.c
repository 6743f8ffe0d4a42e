/* SPDX-License-Identifier: MIT */
/* Files that a program names. */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"

#define SG_FILE_MAX (1ull << 30) /* bytes: four times the largest accepted PTX text */

CUresult sg_file_read(const char *path, void **out, size_t *size)
{
    FILE *f = *path ? fopen(path, "rb") : NULL;
    char *data = NULL;
    size_t n = 0, cap = 0;

    if (!*path)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "the file's name is empty"); /* driver 580 */
    if (!f)
        return sg_fail(CUDA_ERROR_FILE_NOT_FOUND, "%s: %m", path);
    for (;;) {
        if (n + 65537 > cap) {
            char *grown = realloc(data, cap = cap ? 2 * cap : 1u << 20);

            if (!grown || cap > SG_FILE_MAX) {
                free(grown ? grown : data);
                fclose(f);
                return CUDA_ERROR_OUT_OF_MEMORY;
            }
            data = grown;
        }
        size_t got = fread(data + n, 1, 65536, f);

        n += got;
        if (!got)
            break;
    }
    bool bad = ferror(f);

    fclose(f);
    if (bad) {
        free(data);
        return sg_fail(CUDA_ERROR_FILE_NOT_FOUND, "%s: cannot be read", path);
    }
    data[n] = '\0'; /* PTX files have no NUL of their own */
    *out = data;
    *size = n;
    return CUDA_SUCCESS;
}
