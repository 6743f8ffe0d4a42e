/* SPDX-License-Identifier: MIT */
/*
 * Interception of nvJitLink. When a program requests a cubin for sm_NN, the linked "cubin" is PTX:
 * nvJitLink itself translates LTO-IR (with -ptx, which it supports for links of LTO-IR only), the
 * driver links all other inputs (jit_link.c). Links with both kinds are made in that order;
 * nvJitLink drops functions of LTO-IR that no LTO-IR uses, so PTX that calls them fails with
 * undefined symbols. Links that return PTX anyway are not changed.
 */
#include <elf.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"
#include "jit/jit_link.h"

/* nvJitLinkResult and nvJitLinkInputType of nvJitLink.h, which the build does not require. */
enum {
    NVJITLINK_SUCCESS = 0,
    NVJITLINK_ERROR_INVALID_INPUT = 3,
    NVJITLINK_ERROR_PTX_COMPILE = 4,
    NVJITLINK_ERROR_INTERNAL = 6,
    NVJITLINK_ERROR_NULL_INPUT = 10,
    NVJITLINK_ERROR_INCORRECT_INPUT_TYPE = 12
};
enum {
    NVJITLINK_INPUT_CUBIN = 1,
    NVJITLINK_INPUT_PTX,
    NVJITLINK_INPUT_LTOIR,
    NVJITLINK_INPUT_FATBIN,
    NVJITLINK_INPUT_OBJECT,
    NVJITLINK_INPUT_LIBRARY,
    NVJITLINK_INPUT_INDEX,
    NVJITLINK_INPUT_ANY = 10
};

#define FATBIN_MAGIC 0xba55ed50u
#define LTOIR_MAGIC 0x7f4e43edu
#define ELF_MACHINE_CUDA 190
#define FILE_MAX (UINT32_MAX >> 1)

/* Links whose cubin is PTX. */
struct link {
    struct link *next;
    void *handle;
    int library;
    bool lto;                /* -lto was given; -ptx is added for nvJitLink */
    size_t ltoir;            /* number of inputs passed to nvJitLink */
    struct vj_input *inputs; /* inputs for the driver */
    char *ptx;               /* result; NULL: not complete */
    size_t ptx_size;
    char log[VJ_LOG_SIZE];
};
static struct link *links;
static pthread_mutex_t links_lock = PTHREAD_MUTEX_INITIALIZER;

/* As with nvJitLink, only a single thread at a time uses a handle, and the link returned here. */
static struct link *link_of_handle(int library, const void *handle)
{
    struct link *l;

    pthread_mutex_lock(&links_lock);
    for (l = links; l && (l->handle != handle || l->library != library); l = l->next)
        ;
    pthread_mutex_unlock(&links_lock);
    return l;
}

static void link_drop(int library, const void *handle)
{
    struct link *l = NULL;

    pthread_mutex_lock(&links_lock);
    for (struct link **at = &links; *at; at = &(*at)->next) {
        if ((*at)->handle == handle && (*at)->library == library) {
            l = *at;
            *at = l->next;
            break;
        }
    }
    pthread_mutex_unlock(&links_lock);
    if (!l)
        return;
    for (struct vj_input *in = l->inputs, *next; in; in = next) {
        next = in->next;
        free(in->name);
        free(in);
    }
    free(l->ptx);
    free(l);
}

/* Appends an input for the driver. */
static int link_add_input(struct link *l, enum vj_driver_input type, const void *data, size_t size,
                          const char *name, bool check)
{
    struct vj_input *in = malloc(sizeof(*in) + size + 1), **at = &l->inputs;
    enum vj_link_result r = VJ_LINK_OK;

    if (!in)
        return NVJITLINK_ERROR_INTERNAL;
    *in = (struct vj_input){.type = type, .name = strdup(name && *name ? name : "input"), .size = size};
    memcpy(in->data, data, size);
    in->data[size] = 0;
    if (!in->name)
        r = VJ_LINK_NO_DRIVER;
    else if (check)
        r = vj_link_by_driver(in, NULL, NULL, l->log);
    if (r != VJ_LINK_OK) {
        free(in->name);
        free(in);
        return r == VJ_LINK_PTX         ? NVJITLINK_ERROR_PTX_COMPILE
               : r == VJ_LINK_NO_DRIVER ? NVJITLINK_ERROR_INTERNAL
                                        : NVJITLINK_ERROR_INCORRECT_INPUT_TYPE;
    }
    while (*at)
        at = &(*at)->next;
    *at = in;
    return NVJITLINK_SUCCESS;
}

/* ---- kinds of input ---- */

static uint32_t first_word(const void *data, size_t size)
{
    uint32_t word = 0;

    memcpy(&word, data, size < sizeof(word) ? size : sizeof(word));
    return word;
}

/*
 * Returns the type of an input of type ANY, or called a cubin: NVRTC's cubins (jit_nvrtc.c) are
 * PTX.
 */
static int input_type(int type, const void *data, size_t size)
{
    const Elf64_Ehdr *elf = data;
    uint32_t magic = first_word(data, size);

    if (type != NVJITLINK_INPUT_ANY && type != NVJITLINK_INPUT_CUBIN)
        return type;
    if (magic == FATBIN_MAGIC)
        return NVJITLINK_INPUT_FATBIN;
    if (magic == LTOIR_MAGIC)
        return NVJITLINK_INPUT_LTOIR;
    if (size >= 8 && memcmp(data, "!<arch>\n", 8) == 0)
        return NVJITLINK_INPUT_LIBRARY;
    if (size >= sizeof(*elf) && memcmp(data, ELFMAG, SELFMAG) == 0) {
        uint16_t machine;

        memcpy(&machine, (const char *)data + offsetof(Elf64_Ehdr, e_machine), sizeof(machine));
        return machine == ELF_MACHINE_CUDA ? NVJITLINK_INPUT_CUBIN : NVJITLINK_INPUT_OBJECT;
    }
    return NVJITLINK_INPUT_PTX;
}

/* True for inputs that nvJitLink includes in its PTX; the driver does not support LTO-IR. */
static bool input_is_for_nvjitlink(const struct link *l, int type)
{
    return type == NVJITLINK_INPUT_LTOIR || type == NVJITLINK_INPUT_INDEX ||
           (l->lto && (type == NVJITLINK_INPUT_FATBIN || type == NVJITLINK_INPUT_OBJECT ||
                       type == NVJITLINK_INPUT_LIBRARY));
}

static int link_add(struct link *l, int type, const void *data, size_t size, const char *name)
{
    static const enum vj_driver_input types[] = {
        [NVJITLINK_INPUT_CUBIN] = VJ_DRIVER_CUBIN,      [NVJITLINK_INPUT_PTX] = VJ_DRIVER_PTX,
        [NVJITLINK_INPUT_FATBIN] = VJ_DRIVER_FATBINARY, [NVJITLINK_INPUT_OBJECT] = VJ_DRIVER_OBJECT,
        [NVJITLINK_INPUT_LIBRARY] = VJ_DRIVER_LIBRARY,
    };

    if (type < NVJITLINK_INPUT_CUBIN || type > NVJITLINK_INPUT_LIBRARY || type == NVJITLINK_INPUT_LTOIR)
        return NVJITLINK_ERROR_INVALID_INPUT;
    if (type == NVJITLINK_INPUT_PTX)
        size = strnlen(data, size);
    return link_add_input(l, types[type], data, size, name, true);
}

static void *file_contents(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    long n;

    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (n = ftell(file)) > 0 && n <= (long)FILE_MAX &&
        fseek(file, 0, SEEK_SET) == 0) {
        data = malloc((size_t)n);
        if (data && fread(data, 1, (size_t)n, file) != (size_t)n) {
            free(data);
            data = NULL;
        }
        *size = (size_t)n;
    }
    fclose(file);
    return data;
}

/* ---- intercepting functions ---- */

#define REAL(type, name) ((type)vj_library_symbol(library, name))

typedef int create_fn(void **handle, uint32_t count, const char **options);
typedef int handle_fn(void **handle);
typedef int add_data_fn(void *handle, int type, const void *data, size_t size, const char *name);
typedef int add_file_fn(void *handle, int type, const char *path);
typedef int complete_fn(void *handle);
typedef int size_fn(void *handle, size_t *size);
typedef int get_fn(void *handle, void *to);

static int front_create(int library, void **handle, uint32_t count, const char **options)
{
    create_fn *real = REAL(create_fn *, "nvJitLinkCreate");
    bool machine_code = false, lto = false, ptx = false;
    const char **items;
    struct vj_options o;
    struct link *l;
    int r;

    if (!handle || !options || !count || count > 65536)
        return real(handle, count, options);
    for (uint32_t i = 0; i < count; i++) {
        lto |= options[i] && (strcmp(options[i], "-lto") == 0 || strcmp(options[i], "-dlto") == 0);
        ptx |= options[i] && strcmp(options[i], "-ptx") == 0;
    }
    if (!vj_options_virtual(&o, (int)count, options))
        return NVJITLINK_ERROR_INTERNAL;
    machine_code = o.machine_code;
    vj_options_free(&o);
    if (ptx || !machine_code)
        return real(handle, count, options);
    items = calloc((size_t)count + 1, sizeof(*items));
    l = calloc(1, sizeof(*l));
    if (!items || !l) {
        free(items);
        free(l);
        return NVJITLINK_ERROR_INTERNAL;
    }
    memcpy(items, options, count * sizeof(*items));
    items[count] = "-ptx";
    r = real(handle, count + lto, items);
    free(items);
    if (r != NVJITLINK_SUCCESS) {
        free(l);
        return r;
    }
    link_drop(library, *handle);
    l->handle = *handle;
    l->library = library;
    l->lto = lto;
    pthread_mutex_lock(&links_lock);
    l->next = links;
    links = l;
    pthread_mutex_unlock(&links_lock);
    return r;
}

static int front_destroy(int library, void **handle)
{
    if (handle)
        link_drop(library, *handle);
    return REAL(handle_fn *, "nvJitLinkDestroy")(handle);
}

static int front_add_data(int library, void *handle, int type, const void *data, size_t size,
                          const char *name)
{
    struct link *l = link_of_handle(library, handle);
    int kind, r;

    if (!l || !data || !size || size > FILE_MAX)
        return REAL(add_data_fn *, "nvJitLinkAddData")(handle, type, data, size, name);
    kind = input_type(type, data, size);
    if (!input_is_for_nvjitlink(l, kind))
        return link_add(l, kind, data, size, name);
    r = REAL(add_data_fn *, "nvJitLinkAddData")(handle, type, data, size, name);
    l->ltoir += r == NVJITLINK_SUCCESS;
    return r;
}

static int front_add_file(int library, void *handle, int type, const char *path)
{
    struct link *l = link_of_handle(library, handle);
    size_t size;
    void *data = l && path ? file_contents(path, &size) : NULL;
    int kind, r;

    kind = data ? input_type(type, data, size) : 0;
    if (data && !input_is_for_nvjitlink(l, kind)) {
        r = link_add(l, kind, data, size, path);
    } else {
        r = REAL(add_file_fn *, "nvJitLinkAddFile")(handle, type, path);
        if (l)
            l->ltoir += r == NVJITLINK_SUCCESS;
    }
    free(data);
    return r;
}

/* Returns nvJitLink's PTX of the LTO-IR, to be freed. */
static int ltoir_ptx(const struct link *l, char **ptx, size_t *size)
{
    const int library = l->library;
    int r = REAL(complete_fn *, "nvJitLinkComplete")(l->handle);

    if (r == NVJITLINK_SUCCESS)
        r = REAL(size_fn *, "nvJitLinkGetLinkedPtxSize")(l->handle, size);
    if (r != NVJITLINK_SUCCESS)
        return r;
    *ptx = calloc(1, *size + 1);
    if (!*ptx)
        return NVJITLINK_ERROR_INTERNAL;
    return REAL(get_fn *, "nvJitLinkGetLinkedPtx")(l->handle, *ptx);
}

static int front_complete(int library, void *handle)
{
    struct link *l = link_of_handle(library, handle);
    char *ptx = NULL;
    int r;

    if (!l || (!l->ltoir && !l->inputs))
        return REAL(complete_fn *, "nvJitLinkComplete")(handle);
    if (l->ptx)
        return NVJITLINK_SUCCESS;
    if (l->ltoir) {
        r = ltoir_ptx(l, &ptx, &l->ptx_size);
        if (r == NVJITLINK_SUCCESS && !l->inputs) {
            l->ptx = ptx;
            return r;
        }
        if (r == NVJITLINK_SUCCESS)
            r = link_add_input(l, VJ_DRIVER_PTX, ptx, strlen(ptx), "LTO-IR", false);
        free(ptx);
        if (r != NVJITLINK_SUCCESS)
            return r;
        l->ltoir = 0;
    }
    if (vj_link_by_driver(l->inputs, &l->ptx, &l->ptx_size, l->log) != VJ_LINK_OK)
        return NVJITLINK_ERROR_INTERNAL;
    return NVJITLINK_SUCCESS;
}

static int front_cubin_size(int library, void *handle, size_t *size)
{
    const struct link *l = link_of_handle(library, handle);

    if (!l || !l->ptx)
        return REAL(size_fn *, "nvJitLinkGetLinkedCubinSize")(handle, size);
    if (!size)
        return NVJITLINK_ERROR_NULL_INPUT;
    *size = l->ptx_size;
    return NVJITLINK_SUCCESS;
}

static int front_cubin(int library, void *handle, void *cubin)
{
    const struct link *l = link_of_handle(library, handle);

    if (!l || !l->ptx)
        return REAL(get_fn *, "nvJitLinkGetLinkedCubin")(handle, cubin);
    if (!cubin)
        return NVJITLINK_ERROR_NULL_INPUT;
    memcpy(cubin, l->ptx, l->ptx_size);
    return NVJITLINK_SUCCESS;
}

static int front_log_size(int library, void *handle, size_t *size)
{
    const struct link *l = link_of_handle(library, handle);

    if (!l || !l->log[0] || !size)
        return REAL(size_fn *, "nvJitLinkGetErrorLogSize")(handle, size);
    *size = strlen(l->log) + 1;
    return NVJITLINK_SUCCESS;
}

static int front_log(int library, void *handle, char *log)
{
    const struct link *l = link_of_handle(library, handle);

    if (!l || !l->log[0] || !log)
        return REAL(get_fn *, "nvJitLinkGetErrorLog")(handle, log);
    memcpy(log, l->log, strlen(l->log) + 1);
    return NVJITLINK_SUCCESS;
}

/* ---- exports ---- */

/*
 * F(name, front, parameters, ...). Each function has this name and, for nvJitLink.h from 12.0 on, a
 * name for each version of the header ("__nvJitLinkCreate_12_4"), all equivalent.
 */
#define EACH_FUNCTION(F, n) \
    F(n, Create, front_create, (void **h, uint32_t c, const char **o), h, c, o) \
    F(n, Destroy, front_destroy, (void **h), h) \
    F(n, AddData, front_add_data, (void *h, int t, const void *d, size_t s, const char *name), h, t, d, s, \
      name) \
    F(n, AddFile, front_add_file, (void *h, int t, const char *p), h, t, p) \
    F(n, Complete, front_complete, (void *h), h) \
    F(n, GetLinkedCubinSize, front_cubin_size, (void *h, size_t *s), h, s) \
    F(n, GetLinkedCubin, front_cubin, (void *h, void *to), h, to) \
    F(n, GetErrorLogSize, front_log_size, (void *h, size_t *s), h, s) \
    F(n, GetErrorLog, front_log, (void *h, char *to), h, to)

#define ALIAS(name, v) \
    extern __typeof__(nvJitLink##name) __nvJitLink##name##_##v VJ_EXPORT \
        __attribute__((alias("nvJitLink" #name)))
#define ALIASES(name, m) \
    ALIAS(name, m##_0); \
    ALIAS(name, m##_1); \
    ALIAS(name, m##_2); \
    ALIAS(name, m##_3); \
    ALIAS(name, m##_4); \
    ALIAS(name, m##_5); \
    ALIAS(name, m##_6); \
    ALIAS(name, m##_7); \
    ALIAS(name, m##_8); \
    ALIAS(name, m##_9)

#define BY_NAME(n, name, front, parameters, ...) \
    VJ_EXPORT int nvJitLink##name parameters; \
    int nvJitLink##name parameters \
    { \
        int library = vj_library_of_caller(__builtin_return_address(0), "nvJitLink" #name); \
\
        return library < 0 ? NVJITLINK_ERROR_INTERNAL : front(library, __VA_ARGS__); \
    } \
    ALIASES(name, 12); \
    ALIASES(name, 13);

#define BY_LIBRARY(n, name, front, parameters, ...) \
    static int nvjitlink_##name##_##n parameters \
    { \
        return front(n, __VA_ARGS__); \
    }

EACH_FUNCTION(BY_NAME, )
#define OF_LIBRARY(n) EACH_FUNCTION(BY_LIBRARY, n)
VJ_EACH_LIBRARY(OF_LIBRARY)

#define FRONT(n, name, front, parameters, ...) (void *)nvjitlink_##name##_##n,
#define ROW(n) {EACH_FUNCTION(FRONT, n)},
#define NAME(n, name, front, parameters, ...) "nvJitLink" #name,

void *vj_nvjitlink_front(int library, const char *name)
{
    static const char *const names[] = {EACH_FUNCTION(NAME, )};
    static void *const fronts[VJ_LIBRARIES][sizeof(names) / sizeof(names[0])] = {VJ_EACH_LIBRARY(ROW)};

    if (strncmp(name, "__", 2) == 0)
        name += 2;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t n = strlen(names[i]);

        if (strncmp(name, names[i], n) == 0 && (!name[n] || name[n] == '_'))
            return fronts[library][i];
    }
    return NULL;
}
