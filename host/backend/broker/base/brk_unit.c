/* SPDX-License-Identifier: MIT */
/*
 * Folders that a service manager makes writable (systemd.exec(5): RUNTIME_DIRECTORY and similar).
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *brk_unit_error(int error)
{
    static const char *const variables[] = {"RUNTIME_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY"};
    static char text[600];
    const char *before = "; this unit may write to ";
    size_t n = (size_t)snprintf(text, sizeof(text), "%s", strerror(error));

    if (error != EROFS && error != EACCES && error != EPERM && error != ENOENT)
        return text;
    for (unsigned i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *folder = getenv(variables[i]);

        if (!folder || !*folder || n >= sizeof(text))
            continue;
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.150s", before, folder);
        before = ", ";
    }
    return text;
}
