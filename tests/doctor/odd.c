/* SPDX-License-Identifier: MIT */
/* Looks a name up that libcuda does not export, as cuBLAS does for its own list, and gives up. */
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);

    if (lib == NULL || dlsym(lib, "cuNoSuchEntryPoint") == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 14;
    }
    return 0;
}
