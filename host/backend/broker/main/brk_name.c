/* SPDX-License-Identifier: MIT */
/* Name of the virtual machine: --name, or derived from its socket. */
#define _GNU_SOURCE
#include "main.h"

#include <string.h>

bool brk_name_valid(const char *name)
{
    const size_t n = strlen(name);

    return n && n <= BRK_NAME_MAX &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-@") == n;
}

void brk_name_by_socket(struct brk_options *o)
{
    const char *path = o->vhost_user ? o->vhost_user : o->inherited[0] ? o->inherited : o->listen;
    const char *slash = path ? strrchr(path, '/') : NULL, *from = slash ? slash + 1 : path ? path : "";
    size_t n = strlen(from);

    if (n > 5 && !strcmp(from + n - 5, ".sock"))
        n -= 5;
    for (size_t i = 0; i < n && i < BRK_NAME_MAX; i++) {
        char one[2] = {from[i], '\0'};

        o->name[i] = brk_name_valid(one) ? from[i] : '_';
    }
}
