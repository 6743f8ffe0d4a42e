/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Only in the preloaded object: removes it from LD_PRELOAD before QEMU starts other programs. */
#include <stdlib.h>
#include <string.h>

static void __attribute__((constructor)) vgpu_object_loaded(void)
{
    const char *list = getenv("LD_PRELOAD");
    /* vgpu-qemu makes the object the first entry. */
    const char *rest = list ? strchr(list, ':') : NULL;

    if (!list || !strstr(list, "/vgpu-cuda-"))
        return;
    if (rest)
        setenv("LD_PRELOAD", rest + 1, 1);
    else
        unsetenv("LD_PRELOAD");
}
