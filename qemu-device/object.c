/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Only in the preloaded object: takes it out of LD_PRELOAD, before QEMU starts a program of its own. */
#include <stdlib.h>
#include <string.h>

static void __attribute__((constructor)) vgpu_object_loaded(void)
{
    const char *list = getenv("LD_PRELOAD");
    /* vgpu-qemu puts it first. */
    const char *rest = list ? strchr(list, ':') : NULL;

    if (!list || !strstr(list, "/vgpu-cuda-"))
        return;
    if (rest)
        setenv("LD_PRELOAD", rest + 1, 1);
    else
        unsetenv("LD_PRELOAD");
}
