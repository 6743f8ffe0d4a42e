// SPDX-License-Identifier: MIT
/* Loads libcuda.so.1 with dlopen(), uses it, closes it, and repeats: nothing may hang or crash. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

static int once(int round)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CUresult (*init)(unsigned);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*set)(CUcontext);
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUresult (*sync)(void);
    CUcontext c = NULL;
    CUdeviceptr p = 0;

    if (!lib) {
        printf("dlclose.load_%d %s FAIL\n", round, dlerror());
        return 1;
    }
    *(void **)&init = dlsym(lib, "cuInit");
    *(void **)&retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
    *(void **)&set = dlsym(lib, "cuCtxSetCurrent");
    *(void **)&alloc = dlsym(lib, "cuMemAlloc_v2");
    *(void **)&sync = dlsym(lib, "cuCtxSynchronize");
    int bad = !init || !retain || !set || !alloc || !sync || init(0) || retain(&c, 0) || set(c) ||
              alloc(&p, 4096) || sync();
    printf("dlclose.use_%d %s\n", round, bad ? "no FAIL want yes" : "yes");
    printf("dlclose.close_%d %d\n", round, dlclose(lib));
    return bad;
}

int main(void)
{
    int bad = once(1) + once(2);
    printf("dlclose: %d passed, %d failed, 0 skipped\n", !bad, !!bad);
    return bad;
}
