/* SPDX-License-Identifier: MIT */
/* Look-ups of the names of a module's and a library's contents. */
#include "../conform.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* texture and surface references */

enum {
    AS_FUNCTION = 1 << 0,
    AS_GLOBAL = 1 << 1,
    AS_TEXTURE = 1 << 2,
    AS_SURFACE = 1 << 3,
    AS_MANAGED = 1 << 4
};

/* The result of a look-up for a kind of name. */
static CUresult find_as(bool found)
{
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* Looks a name up in each way; `kinds`: the ways that find it. */
static void find_each(const char *what, CUmodule m, CUlibrary lib, const char *name, unsigned kinds)
{
    CUtexref t = NULL;
    CUsurfref s = NULL;
    CUfunction f = NULL;
    CUkernel k = NULL;
    CUdeviceptr p = 0;
    size_t n = 0;
    void *unified = NULL;
    char check[64];

#define NAMED(way) (snprintf(check, sizeof(check), "%s_%s", what, way), check)
    RC(NAMED("function"), cuModuleGetFunction(&f, m, name), find_as(kinds & AS_FUNCTION));
    /* a kernel is no variable, but known (driver 580) */
    RC(NAMED("global"), cuModuleGetGlobal(&p, &n, m, name),
       kinds & AS_FUNCTION ? CUDA_ERROR_INVALID_VALUE : find_as(kinds & AS_GLOBAL));
    RC(NAMED("texture"), cuModuleGetTexRef(&t, m, name), find_as(kinds & AS_TEXTURE));
    RC(NAMED("surface"), cuModuleGetSurfRef(&s, m, name), find_as(kinds & AS_SURFACE));
    RC(NAMED("kernel"), cuLibraryGetKernel(&k, lib, name), find_as(kinds & AS_FUNCTION));
    RC(NAMED("library_global"), cuLibraryGetGlobal(&p, &n, lib, name), find_as(kinds & AS_GLOBAL));
    RC(NAMED("managed"), cuLibraryGetManaged(&p, &n, lib, name), find_as(kinds & AS_MANAGED));
    RC_IN(NAMED("unified"), cuLibraryGetUnifiedFunction(&unified, lib, name), CUDA_ERROR_INVALID_VALUE,
          CUDA_ERROR_NOT_FOUND);
#undef NAMED
}

/* Each kind of name, looked up in each way: also names longer than a page. */
CASE(module_names, CF_CTX)
{
    static const char form[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                               ".visible .global .align 4 .u32 g_var[4];\n"
                               ".visible .const .align 4 .u32 c_var[4];\n"
                               ".visible .global .attribute(.managed) .align 4 .u32 m_var[4];\n"
                               ".visible .global .texref t_ref;\n.visible .global .surfref s_ref;\n"
                               ".visible .global .align 4 .u32 g_%s[4];\n"
                               ".visible .func d_fn() { ret; }\n.visible .entry k_fn() { ret; }\n"
                               ".visible .entry k_%s() { ret; }\n";
    static char body[6001], name[6003], none[100001], text[sizeof(form) + 2 * sizeof(body)];
    CUmodule m = NULL;
    CUlibrary lib = NULL;
    CUfunction f = NULL;
    const char *back = "";

    memset(body, 'x', sizeof(body) - 1);
    memset(none, 'x', sizeof(none) - 1);
    snprintf(text, sizeof(text), form, body, body);
    NEED(cuModuleLoadData(&m, text));
    NEED(cuLibraryLoadData(&lib, text, NULL, NULL, 0, NULL, NULL, 0));
    find_each("kernel", m, lib, "k_fn", AS_FUNCTION);
    find_each("device", m, lib, "d_fn", 0);
    find_each("global", m, lib, "g_var", AS_GLOBAL);
    find_each("const", m, lib, "c_var", AS_GLOBAL);
    find_each("managed", m, lib, "m_var", AS_GLOBAL | AS_MANAGED);
    find_each("texture", m, lib, "t_ref", AS_TEXTURE);
    find_each("surface", m, lib, "s_ref", AS_SURFACE);
    find_each("none", m, lib, "k_f", 0);
    find_each("long_none", m, lib, none, 0);
    snprintf(name, sizeof(name), "g_%s", body);
    find_each("long_global", m, lib, name, AS_GLOBAL);
    snprintf(name, sizeof(name), "k_%s", body);
    find_each("long_kernel", m, lib, name, AS_FUNCTION);
    NEED(cuModuleGetFunction(&f, m, name));
    OK("long_name", cuFuncGetName(&back, f));
    cf_true("long_name_right", !strcmp(back, name));
    OK("long_launch", cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK("sync", cuCtxSynchronize());
    NEED(cuLibraryUnload(lib));
    NEED(cuModuleUnload(m));
}
