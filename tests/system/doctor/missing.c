/* SPDX-License-Identifier: MIT */
/*
 * missing: looks up a name that libcuda does not export, as cuBLAS does for its own list, and
 * exits.
 * missing slot: calls a slot of a hidden table that libcuda does not serve, and exits.
 * missing without: looks for a libcudart of an unknown version, and continues without it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Returns a symbol of libcuda; NULL: not exported. */
static void *symbol(const char *name)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);

    return lib != NULL ? dlsym(lib, name) : NULL;
}

static int slot(void)
{
    static const unsigned char id[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                         0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
    void *init = symbol("cuInit"), *find = symbol("cuGetExportTable");
    int (*const *table)(void) = NULL;

    if (init == NULL || find == NULL || ((int (*)(unsigned))init)(0) != 0 ||
        ((int (*)(const void **, const void *))find)((const void **)&table, id) != 0)
        return 3;
    return table[5]() != 0 ? 14 : 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "slot") == 0)
        return slot();
    if (argc > 1 && strcmp(argv[1], "without") == 0) {
        puts(dlopen("libcudart.so.99", RTLD_NOW) != NULL ? "GPU" : "CPU");
        return 0;
    }
    if (symbol("cuNoSuchEntryPoint") == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 14;
    }
    return 0;
}
