/* SPDX-License-Identifier: MIT */
/*
 * lookup LIBRARY: reads lines "NAME VERSION FLAGS SYMBOL STATUS" and queries both versions of
 * cuGetProcAddress. SYMBOL is the export whose address is expected; "-": not found. Prints a line
 * per unexpected answer, and at the end the number of queries. Needs no GPU.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cuda.h>

typedef CUresult (*get_v1)(const char *, void **, int, cuuint64_t);
typedef CUresult (*get_v2)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void *lib;

static const char *symbol_of(void *fn)
{
    Dl_info info;

    if (fn == NULL)
        return "nothing";
    return dladdr(fn, &info) != 0 && info.dli_sname != NULL ? info.dli_sname : "something";
}

int main(int argc, char **argv)
{
    char name[128], symbol[128];
    unsigned asked = 0, wrong = 0, flags;
    int version, status;
    get_v1 one;
    get_v2 two;

    lib = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (lib == NULL) {
        fprintf(stderr, "usage: lookup LIBRARY (%s)\n", dlerror());
        return 2;
    }
    one = (get_v1)dlsym(lib, "cuGetProcAddress");
    two = (get_v2)dlsym(lib, "cuGetProcAddress_v2");
    if (one == NULL || two == NULL) {
        fprintf(stderr, "%s: no cuGetProcAddress\n", argv[1]);
        return 2;
    }
    while (scanf("%127s %d %u %127s %d", name, &version, &flags, symbol, &status) == 5) {
        bool found = strcmp(symbol, "-") != 0;
        void *want = found ? dlsym(lib, symbol) : NULL, *first = (void *)1, *second = (void *)1;
        CUdriverProcAddressQueryResult said = (CUdriverProcAddressQueryResult)77;
        CUresult expected =
            found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND; /* version 1; version 2 has a status */
        CUresult a = one(name, &first, version, flags);
        CUresult b = two(name, &second, version, flags, &said);

        asked++;
        if (a != expected || b != CUDA_SUCCESS || first != want || second != want || (int)said != status ||
            (found && want == NULL)) {
            printf("%s of CUDA %d, flags %u: results %d and %d, status %d, %s and %s; expected %s, "
                   "status %d\n",
                   name, version, flags, a, b, (int)said, symbol_of(first), symbol_of(second), symbol,
                   status);
            wrong++;
        }
    }
    printf("%u asked\n", asked);
    return wrong > 0;
}
