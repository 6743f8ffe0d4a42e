/* SPDX-License-Identifier: MIT */
/* Architectures in the options of NVRTC and nvJitLink. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"

/*
 * Returns the value of an architecture option, "" if it is the next argument; NULL: another option.
 */
static const char *arch_option_value(const char *option)
{
    static const char *const names[] = {"--gpu-architecture", "-arch", "--arch", "-gpu-architecture"};

    option += strspn(option, " \t");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t n = strlen(names[i]);

        if (strncmp(option, names[i], n) == 0 && (!option[n] || strchr("= \t", option[n])))
            return option + n + strspn(option + n, "= \t");
    }
    return NULL;
}

bool vj_options_virtual(struct vj_options *o, int count, const char *const *options)
{
    *o = (struct vj_options){.items = calloc((size_t)count + 1, sizeof(*o->items)),
                             .own = calloc((size_t)count + 1, sizeof(*o->own))};
    if (!o->items || !o->own) {
        vj_options_free(o);
        return false;
    }
    for (int i = 0; i < count; i++) {
        const char *value = options[i] ? arch_option_value(options[i]) : NULL;
        int at = i;

        o->items[i] = options[i];
        if (value && !*value && i + 1 < count && options[i + 1]) {
            at = ++i;
            o->items[i] = value = options[i];
        }
        if (!value || strncmp(value, "sm_", 3) != 0)
            continue;
        if (asprintf(&o->own[o->own_count], "%.*scompute_%s", (int)(value - options[at]), options[at],
                     value + 3) < 0) {
            vj_options_free(o);
            return false;
        }
        o->items[at] = o->own[o->own_count++];
        o->machine_code = true;
    }
    return true;
}

void vj_options_free(struct vj_options *o)
{
    for (size_t i = 0; i < o->own_count; i++)
        free(o->own[i]);
    free(o->own);
    free(o->items);
    *o = (struct vj_options){0};
}
