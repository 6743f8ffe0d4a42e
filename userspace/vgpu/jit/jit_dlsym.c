/* SPDX-License-Identifier: MIT */
/*
 * Interception of symbol look-ups. A program linked with NVRTC gets the intercepting functions by
 * name, since preloaded libraries are searched first. Most programs use dlopen() and call dlsym()
 * with its handle, which does not search preloaded libraries: dlsym() itself is therefore
 * intercepted, for these names only.
 *
 * A process may load several versions of a library, each with its own handles; each therefore has
 * its own intercepting functions (VJ_EACH_LIBRARY). A function reached by name belongs to the
 * library with which its caller was linked.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"

struct library {
    uintptr_t base;
    void *handle;
};
static struct library libraries[VJ_LIBRARIES];
static pthread_mutex_t libraries_lock = PTHREAD_MUTEX_INITIALIZER;

typedef void *dlsym_fn(void *handle, const char *name);
/* Read by the assembly entry point. */
__attribute__((visibility("hidden"))) dlsym_fn *vj_dlsym_libc;

static dlsym_fn *dlsym_of_libc(void)
{
    static const char *const versions[] = {"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34"};
    dlsym_fn *f = __atomic_load_n(&vj_dlsym_libc, __ATOMIC_RELAXED);

    for (size_t i = 0; !f && i < sizeof(versions) / sizeof(versions[0]); i++)
        f = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    __atomic_store_n(&vj_dlsym_libc, f, __ATOMIC_RELAXED);
    return f;
}

void *vj_real_dlsym(void *handle, const char *name)
{
    dlsym_fn *f = dlsym_of_libc();

    return f ? f(handle, name) : NULL;
}

/* ---- libraries ---- */

static bool is_own(const void *function)
{
    Dl_info here, there;

    return dladdr((void *)&libraries, &here) && dladdr(function, &there) && here.dli_fbase == there.dli_fbase;
}

/*
 * Returns the number of the library that contains a function; the library then stays loaded. -1:
 * too many libraries, or a function of this library.
 */
static int library_of_function(const void *function)
{
    Dl_info info;
    int found = -1;

    if (!function || is_own(function) || !dladdr(function, &info))
        return -1;
    pthread_mutex_lock(&libraries_lock);
    for (int i = 0; i < VJ_LIBRARIES && found < 0; i++) {
        struct library *l = &libraries[i];

        if (!l->handle) {
            l->handle = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE);
            if (!l->handle)
                break;
            l->base = (uintptr_t)info.dli_fbase;
        }
        if (l->base == (uintptr_t)info.dli_fbase)
            found = i;
    }
    pthread_mutex_unlock(&libraries_lock);
    return found;
}

void *vj_library_symbol(int library, const char *name)
{
    return vj_real_dlsym(libraries[library].handle, name);
}

/* Returns the function of that name in a loaded object or its dependencies. */
static void *function_of_object(const char *path, const char *name)
{
    void *handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY), *f;

    if (!handle)
        return NULL;
    f = vj_real_dlsym(handle, name);
    dlclose(handle);
    return f && !is_own(f) ? f : NULL;
}

/*
 * Loaded compilers, by the names of their files. Nothing is opened while the list of objects is
 * locked.
 */
struct loaded {
    char paths[VJ_LIBRARIES][PATH_MAX];
    int count;
};

static int compiler_is_loaded(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct loaded *l = arg;
    const char *file = strrchr(info->dlpi_name, '/');

    (void)size;
    file = file ? file + 1 : info->dlpi_name;
    if (strncmp(file, "libnvrtc.", 9) != 0 && strncmp(file, "libnvJitLink.", 13) != 0)
        return 0;
    if (strlen(info->dlpi_name) < PATH_MAX)
        strcpy(l->paths[l->count++], info->dlpi_name);
    return l->count == VJ_LIBRARIES;
}

/* For a caller that was given a pointer and is not linked with the library. */
static void *function_of_loaded(const char *name)
{
    struct loaded *l = calloc(1, sizeof(*l));
    void *f = NULL;

    if (!l)
        return NULL;
    dl_iterate_phdr(compiler_is_loaded, l);
    for (int i = 0; i < l->count && !f; i++)
        f = function_of_object(l->paths[i], name);
    free(l);
    return f;
}

int vj_library_of_caller(const void *caller, const char *name)
{
    struct link_map *map = NULL;
    Dl_info info;
    void *f = NULL;

    if (dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) && map && map->l_name && map->l_name[0])
        f = function_of_object(map->l_name, name);
    if (!f)
        f = vj_real_dlsym(RTLD_NEXT, name);
    if (!f)
        f = function_of_loaded(name);
    return library_of_function(f);
}

/* ---- dlsym ---- */

struct vj_answer {
    void *function;
    long answered; /* 0: call the C library's dlsym */
};

/* Called by the entry point with the arguments and the caller of dlsym(). */
__attribute__((visibility("hidden"), used)) struct vj_answer vj_dlsym_front(void *handle, const char *name,
                                                                            const void *caller)
{
    struct vj_answer answer = {0};
    void *f, *front;
    int library;

    if (!dlsym_of_libc()) {
        answer.answered = 1;
        return answer;
    }
    if (!name || (strncmp(name, "nvrtc", 5) != 0 && !strstr(name, "nvJitLink")))
        return answer;
    if (handle == RTLD_DEFAULT || handle == RTLD_NEXT) {
        library = vj_library_of_caller(caller, name);
        if (library < 0) {
            /*
             * The search starts after this library, which has the name but no library to intercept.
             */
            answer.function = vj_real_dlsym(RTLD_NEXT, name);
            answer.answered = 1;
            return answer;
        }
        f = vj_library_symbol(library, name);
    } else {
        f = vj_real_dlsym(handle, name);
        if (f && is_own(f)) { /* handle of the whole program */
            f = vj_real_dlsym(RTLD_NEXT, name);
            if (!f) {
                answer.answered = 1;
                return answer;
            }
        }
        library = library_of_function(f);
    }
    if (library < 0)
        return answer;
    front = vj_nvrtc_front(library, name);
    if (!front)
        front = vj_nvjitlink_front(library, name);
    answer.function = front ? front : f;
    answer.answered = answer.function != NULL;
    return answer;
}

/*
 * The entry point. For RTLD_NEXT and RTLD_DEFAULT the C library's dlsym inspects its return
 * address, so it is jumped to with the program's registers and stack and sees the program's
 * address. Compilers emit such a tail call at some optimisation levels only.
 */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "	.cfi_startproc\n"
        "	endbr64\n"
        "	pushq %rdi\n"
        "	.cfi_adjust_cfa_offset 8\n"
        "	pushq %rsi\n"
        "	.cfi_adjust_cfa_offset 8\n"
        "	subq $8, %rsp\n"
        "	.cfi_adjust_cfa_offset 8\n"
        "	movq 24(%rsp), %rdx\n"
        "	call vj_dlsym_front\n"
        "	addq $8, %rsp\n"
        "	.cfi_adjust_cfa_offset -8\n"
        "	popq %rsi\n"
        "	.cfi_adjust_cfa_offset -8\n"
        "	popq %rdi\n"
        "	.cfi_adjust_cfa_offset -8\n"
        "	testq %rdx, %rdx\n"
        "	jnz 1f\n"
        "	movq vj_dlsym_libc(%rip), %rax\n"
        "	jmp *%rax\n"
        "1:	ret\n"
        "	.cfi_endproc\n"
        ".size dlsym, .-dlsym\n");
#endif
