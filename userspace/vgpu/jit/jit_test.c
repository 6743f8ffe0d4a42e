/* SPDX-License-Identifier: MIT */
/*
 * jit_test FOLDER, run with libvgpu-jit.so preloaded: results of NVRTC and nvJitLink as programs
 * see them. The libraries in FOLDER are stand-ins (jit_fake_compilers.c). NVRTC version 13 is linked
 * with this program; version 12 and nvJitLink are loaded as Python's frameworks load them.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../../lib/testing/range.h"

int nvrtcCreateProgram(void **p, const char *text, const char *name, int n, const char *const *h,
                       const char *const *i);
int nvrtcCompileProgram(void *handle, int count, const char *const *options);
int nvrtcDestroyProgram(void **p);
int nvrtcGetPTXSize(void *p, size_t *size);
int nvrtcGetCUBINSize(void *p, size_t *size);
int nvrtcGetCUBIN(void *p, char *cubin);

struct nvrtc {
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*destroy)(void **);
    int (*cubin_size)(void *, size_t *);
    int (*cubin)(void *, char *);
};

static const char *folder;

static void *library_open(const char *name)
{
    char path[4096];
    void *handle;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    return handle;
}

static void *function(void *handle, const char *name)
{
    void *f = dlsym(handle, name);

    assert_non_null(f);
    return f;
}

static struct nvrtc nvrtc_open(void *handle)
{
    struct nvrtc n;

    *(void **)&n.create = function(handle, "nvrtcCreateProgram");
    *(void **)&n.compile = function(handle, "nvrtcCompileProgram");
    *(void **)&n.destroy = function(handle, "nvrtcDestroyProgram");
    *(void **)&n.cubin_size = function(handle, "nvrtcGetCUBINSize");
    *(void **)&n.cubin = function(handle, "nvrtcGetCUBIN");
    return n;
}

static const struct nvrtc by_name = {nvrtcCreateProgram, nvrtcCompileProgram, nvrtcDestroyProgram,
                                     nvrtcGetCUBINSize, nvrtcGetCUBIN};

/* Returns a program's cubin; "": none. */
static const char *cubin_of(const struct nvrtc *n, int count, const char *const *options)
{
    static char cubin[256];
    size_t size = 77;
    void *p;

    memset(cubin, 0, sizeof(cubin));
    assert_int_equal(n->create(&p, "", "", 0, NULL, NULL), 0);
    assert_int_equal(n->compile(p, count, options), 0);
    assert_int_equal(n->cubin_size(p, &size), 0);
    assert_uint_in_range(size, 0, sizeof(cubin));
    if (size)
        assert_int_equal(n->cubin(p, cubin), 0);
    assert_int_equal(size, cubin[0] == '\177' || !cubin[0] ? strlen(cubin) : strlen(cubin) + 1);
    assert_int_equal(n->destroy(&p), 0);
    return cubin;
}

#define CUBIN(n, ...) \
    cubin_of(n, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)), \
             (const char *const[]){__VA_ARGS__})

static void check_nvrtc(const struct nvrtc *n, int version)
{
    char want[256];

    snprintf(want, sizeof(want), "ptx %d --gpu-architecture=compute_80 -I/sm_1", version);
    assert_string_equal(CUBIN(n, "--gpu-architecture=sm_80", "-I/sm_1"), want);
    snprintf(want, sizeof(want), "ptx %d -arch compute_90a", version);
    assert_string_equal(CUBIN(n, "-arch", "sm_90a"), want);
    snprintf(want, sizeof(want), "ptx %d -std=c++17 -arch=compute_100f", version);
    assert_string_equal(CUBIN(n, "-std=c++17", "-arch=sm_100f"), want);
    snprintf(want, sizeof(want), "ptx %d --gpu-architecture compute_80", version);
    assert_string_equal(CUBIN(n, "--gpu-architecture sm_80"), want);
    snprintf(want, sizeof(want), "ptx %d -arch=compute_70 -arch=compute_80", version);
    assert_string_equal(CUBIN(n, "-arch=sm_70", "-arch=sm_80"), want);
    /* A virtual architecture gives no cubin, from which programs decide what to load. */
    assert_string_equal(CUBIN(n, "--gpu-architecture=compute_80"), "");
    assert_string_equal(CUBIN(n, "-architecture", "-DX=1"), "");
    assert_string_equal(cubin_of(n, 0, NULL), "");
    assert_string_equal(CUBIN(n, "-DARCH=sm_80"),
                        "\177cubin"); /* passed on unchanged; "sm_" is enough for the stand-in */
    assert_string_equal(CUBIN(n, "-dlto", "-arch=sm_80"), "\177cubin");
}

static void test_nvrtc_linked(void **state)
{
    (void)state;
    check_nvrtc(&by_name, 13);
}

static void test_nvrtc_loaded(void **state)
{
    struct nvrtc n = nvrtc_open(library_open("libnvrtc.so.12"));

    (void)state;
    check_nvrtc(&n, 12);
    check_nvrtc(&by_name, 13);
}

/* Function of a library that this program is not linked with, and without a handle. */
static void test_link_by_pointer(void **state)
{
    int (*create)(void **, uint32_t, const char **), (*add)(void *, int, const void *, size_t, const char *);
    const char *option = "-arch=sm_80";
    void *h;

    (void)state;
    *(void **)&create = dlsym(RTLD_DEFAULT, "nvJitLinkCreate");
    *(void **)&add = dlsym(RTLD_DEFAULT, "__nvJitLinkAddData_13_0");
    assert_non_null(create);
    assert_non_null(add);
    assert_int_equal(create(&h, 1, &option), 0);
    assert_int_equal(add(h, 2, "wrong", 5, "x"), 4);
}

static void test_nvrtc_second_compile(void **state)
{
    const char *machine = "-arch=sm_80", *virtual = "-arch=compute_80";
    size_t size = 77;
    void *p;

    (void)state;
    assert_int_equal(nvrtcCreateProgram(&p, "", "", 0, NULL, NULL), 0);
    assert_int_equal(nvrtcCompileProgram(p, 1, &machine), 0);
    assert_int_equal(nvrtcCompileProgram(p, 1, &virtual), 0);
    assert_int_equal(nvrtcGetCUBINSize(p, &size), 0);
    assert_int_equal(size, 0);
    assert_int_equal(nvrtcDestroyProgram(&p), 0);
    assert_null(p);
}

/* All other names are passed on to the C library's dlsym(). */
static void test_dlsym(void **state)
{
    void *nvrtc = library_open("libnvrtc.so.12"), *own = dlopen(NULL, RTLD_NOW);

    (void)state;
    assert_null(dlsym(nvrtc, "nvrtcNoSuchFunction"));
    assert_non_null(strstr(dlerror(), "nvrtcNoSuchFunction"));
    assert_null(dlsym(nvrtc, "nvrtcGetLTOIR"));
    assert_null(dlsym(own, "no_such_function"));
    assert_non_null(strstr(dlerror(), "no_such_function"));
    /* Look-ups that depend on the caller. */
    assert_ptr_equal(dlsym(RTLD_DEFAULT, "strlen"), dlsym(own, "strlen"));
    assert_ptr_equal(dlsym(RTLD_NEXT, "strlen"), dlsym(own, "strlen"));
    assert_null(dlsym(RTLD_NEXT, "main"));
    /* NULL for a library that is not loaded, although the preloaded library has the names. */
    assert_null(dlsym(RTLD_DEFAULT, "nvJitLinkCreate"));
    assert_non_null(dlerror());
    assert_null(dlsym(own, "__nvJitLinkCreate_13_0"));
    assert_ptr_not_equal(dlsym(RTLD_DEFAULT, "nvrtcCompileProgram"), NULL);
}

/* ---- nvJitLink ---- */

static struct {
    int (*create)(void **, uint32_t, const char **);
    int (*destroy)(void **);
    int (*add)(void *, int, const void *, size_t, const char *);
    int (*add_file)(void *, int, const char *);
    int (*complete)(void *);
    int (*cubin_size)(void *, size_t *);
    int (*cubin)(void *, char *);
    int (*log_size)(void *, size_t *);
    int (*log)(void *, char *);
} nvjitlink;

static void nvjitlink_open(void)
{
    void *handle = library_open("libnvJitLink.so.13");

    *(void **)&nvjitlink.create = function(handle, "__nvJitLinkCreate_13_0");
    *(void **)&nvjitlink.destroy = function(handle, "__nvJitLinkDestroy_13_0");
    *(void **)&nvjitlink.add = function(handle, "__nvJitLinkAddData_13_0");
    *(void **)&nvjitlink.add_file = function(handle, "nvJitLinkAddFile");
    *(void **)&nvjitlink.complete = function(handle, "nvJitLinkComplete");
    *(void **)&nvjitlink.cubin_size = function(handle, "nvJitLinkGetLinkedCubinSize");
    *(void **)&nvjitlink.cubin = function(handle, "nvJitLinkGetLinkedCubin");
    *(void **)&nvjitlink.log_size = function(handle, "nvJitLinkGetErrorLogSize");
    *(void **)&nvjitlink.log = function(handle, "nvJitLinkGetErrorLog");
}

static void *link_create(const char *options)
{
    const char *words[8];
    char copy[128];
    uint32_t n = 0;
    void *h;

    strcpy(copy, options);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        words[n++] = word;
    assert_int_equal(nvjitlink.create(&h, n, words), 0);
    return h;
}

/* Returns the cubin of a link and destroys the link. */
static const char *link_cubin(void *h)
{
    static char cubin[512];
    size_t size = 0;

    assert_int_equal(nvjitlink.complete(h), 0);
    assert_int_equal(nvjitlink.cubin_size(h, &size), 0);
    assert_uint_in_range(size, 1, sizeof(cubin));
    memset(cubin, 0, sizeof(cubin));
    assert_int_equal(nvjitlink.cubin(h, cubin), 0);
    if (cubin[0] != '\177')
        assert_int_equal(size, strlen(cubin) + 1);
    assert_int_equal(nvjitlink.destroy(&h), 0);
    return cubin;
}

static const char *link_log(void *h)
{
    static char log[8192];
    size_t size = 0;

    assert_int_equal(nvjitlink.log_size(h, &size), 0);
    assert_uint_in_range(size, 1, sizeof(log));
    assert_int_equal(nvjitlink.log(h, log), 0);
    assert_int_equal(size, strlen(log) + 1);
    return log;
}

static void test_link_ptx(void **state)
{
    char path[4096];
    FILE *file;
    void *h = link_create("-arch=sm_80");

    (void)state;
    assert_int_equal(nvjitlink.add(h, 2, "a", 1, "x"), 0);
    assert_int_equal(nvjitlink.add(h, 2, "b\0", 2, "y"), 0);
    assert_string_equal(link_cubin(h), "1:x:a+1:y:b");
    /* Type by content: ANY, and cubins of NVRTC. */
    h = link_create("-arch=sm_80");
    assert_int_equal(nvjitlink.add(h, 10, ".version", 9, "any"), 0);
    assert_int_equal(nvjitlink.add(h, 1, ".version", 9, "cubin"), 0);
    assert_int_equal(nvjitlink.add(h, 10, "!<arch>\n", 9, "library"), 0);
    assert_int_equal(nvjitlink.add(h, 4, "fat", 4, "fatbin"), 0);
    assert_int_equal(nvjitlink.add(h, 10, "\x50\xed\x55\xba", 5, "fatbin"), 0);
    assert_string_equal(
        link_cubin(h),
        "1:any:.version+1:cubin:.version+4:library:!<arch>\n+2:fatbin:fat+2:fatbin:\x50\xed\x55\xba");
    h = link_create("-arch=sm_80");
    snprintf(path, sizeof(path), "%s/input.ptx", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs("text", file) < 0, 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(nvjitlink.add_file(h, 2, path), 0);
    assert_non_null(strstr(link_cubin(h), "/input.ptx:text"));
}

static void test_link_ltoir(void **state)
{
    void *h = link_create("-lto -arch=sm_80");

    (void)state;
    assert_int_equal(nvjitlink.add(h, 3, "a", 1, "x"), 0);
    assert_int_equal(nvjitlink.add(h, 4, "b", 1, "y"), 0);
    assert_string_equal(link_cubin(h), "lto -lto -arch=sm_80 -ptx; 3:x 4:y");
    h = link_create("-lto -arch=sm_80");
    assert_int_equal(nvjitlink.add(h, 2, "a", 1, "x"), 0);
    assert_int_equal(nvjitlink.add(h, 3, "b", 1, "y"), 0);
    assert_string_equal(link_cubin(h), "1:x:a+1:LTO-IR:lto -lto -arch=sm_80 -ptx; 3:y");
}

static void test_link_left_alone(void **state)
{
    void *h = link_create("-arch=compute_80 -lto -ptx");
    size_t size = 0;

    (void)state;
    assert_int_equal(nvjitlink.complete(h), 0);
    assert_int_equal(nvjitlink.cubin_size(h, &size), 6);
    assert_int_equal(nvjitlink.destroy(&h), 0);
    h = link_create("-lto -arch=sm_80 -ptx");
    assert_int_equal(nvjitlink.add(h, 2, "a", 1, "x"), 0);
    assert_int_equal(nvjitlink.complete(h), 0);
    assert_int_equal(nvjitlink.cubin_size(h, &size), 6);
    assert_string_equal(link_log(h), "own");
    assert_int_equal(nvjitlink.destroy(&h), 0);
    /* Links without inputs are left to nvJitLink. */
    assert_string_equal(link_cubin(link_create("-arch=sm_80")), "\177cubin");
}

static void test_link_refused(void **state)
{
    static const char elf[64] = "\177ELF\2\1\1";
    char cubin[64];
    void *h = link_create("-arch=sm_80");
    size_t size = 0;

    (void)state;
    memcpy(cubin, elf, sizeof(elf));
    cubin[18] = (char)190;
    assert_int_equal(nvjitlink.add(h, 2, "wrong", 5, "x"), 4);
    assert_string_equal(link_log(h), "wrong PTX");
    assert_int_equal(nvjitlink.add(h, 1, cubin, sizeof(cubin), "code"), 12);
    assert_non_null(strstr(link_log(h), "'code'"));
    assert_int_equal(nvjitlink.add(h, 9, "x", 1, "x"), 3);
    assert_int_equal(nvjitlink.add(h, 2, "missing", 7, "x"), 0);
    assert_int_equal(nvjitlink.complete(h), 6);
    assert_string_equal(link_log(h), "something is missing");
    nvjitlink.cubin_size(h, &size);
    assert_int_equal(nvjitlink.destroy(&h), 0);
}

static void test_link_context(void **state)
{
    int (*contexts)(void);
    int (*push)(void *);
    int (*pop)(void **);
    void *driver = library_open("libcuda.so.1"), *h = link_create("-arch=sm_80"), *context;

    (void)state;
    *(void **)&contexts = function(driver, "fake_contexts");
    *(void **)&push = function(driver, "cuCtxPushCurrent_v2");
    *(void **)&pop = function(driver, "cuCtxPopCurrent_v2");
    assert_int_equal(nvjitlink.add(h, 2, "a", 1, "x"), 0);
    assert_int_equal(contexts(), 0);
    push(driver);
    assert_string_equal(link_cubin(h), "1:x:a");
    assert_int_equal(contexts(), 1);
    pop(&context);
    assert_int_equal(contexts(), 0);
}

static int link_setup(void **state)
{
    (void)state;
    nvjitlink_open();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest before[] = {
        cmocka_unit_test(test_nvrtc_linked),
        cmocka_unit_test(test_nvrtc_second_compile),
        cmocka_unit_test(test_dlsym),
        cmocka_unit_test(test_nvrtc_loaded),
    };
    const struct CMUnitTest links[] = {
        cmocka_unit_test(test_link_ptx),        cmocka_unit_test(test_link_ltoir),
        cmocka_unit_test(test_link_left_alone), cmocka_unit_test(test_link_by_pointer),
        cmocka_unit_test(test_link_refused),    cmocka_unit_test(test_link_context),
    };

    const int count = (int)(sizeof(before) / sizeof(before[0]) + sizeof(links) / sizeof(links[0]));
    int failed;

    if (argc != 2)
        return 2;
    folder = argv[1];
    failed = cmocka_run_group_tests_name("NVRTC", before, NULL, NULL) +
             cmocka_run_group_tests_name("nvJitLink", links, link_setup, NULL);
    printf("userspace/vgpu/jit: %d passed, %d failed, 0 skipped\n", count - failed, failed);
    return failed != 0;
}
