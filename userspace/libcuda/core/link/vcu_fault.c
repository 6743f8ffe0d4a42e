/* SPDX-License-Identifier: MIT */
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *vcu_fault_spec;

void vcu_fault_init(void)
{
    const char *v = getenv("VGPU_FAULT");

    vcu_fault_spec = v != NULL && *v != '\0' ? v : NULL;
}

bool vcu_fault_find(const char *kind, const char *name, char *value, size_t room)
{
    char want[128];
    size_t length;

    if (vcu_fault_spec == NULL)
        return false;
    length = (size_t)snprintf(want, sizeof(want), "%s%s%s=", kind, name != NULL ? "." : "",
                              name != NULL ? name : "");
    if (length >= sizeof(want))
        return false;
    for (const char *p = vcu_fault_spec; *p != '\0';) {
        size_t n = strcspn(p, ",");

        if (n >= length && strncmp(p, want, length) == 0 && n - length < room) {
            memcpy(value, p + length, n - length);
            value[n - length] = '\0';
            return true;
        }
        p += n;
        p += *p == ',';
    }
    return false;
}

bool vcu_fault_number(const char *kind, const char *name, int *value)
{
    char text[16];

    if (!vcu_fault_find(kind, name, text, sizeof(text)))
        return false;
    *value = atoi(text);
    return true;
}
