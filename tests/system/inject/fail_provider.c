// SPDX-License-Identifier: MIT
/*
 * libfail.so: the software GPU as a provider whose k-th call returns CUDA_ERROR_OUT_OF_MEMORY
 * without any effect. names.h has FUNCTION(name) for each function of the provider's table; the
 * worker finds all other functions in libcuda-soft.so.1, which this library is linked to.
 * inject.so, preloaded, selects the call (inject.h).
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "inject.h"

static bool (*hit)(unsigned);

#define FUNCTION(name) void *fail_##name;
#include "names.h"
#undef FUNCTION

__attribute__((constructor)) static void start(void)
{
    void *p = dlsym(RTLD_DEFAULT, "inject_hit");

    __builtin_memcpy(&hit, &p, sizeof(p));
#define FUNCTION(name) fail_##name = dlsym(RTLD_NEXT, #name);
#include "names.h"
#undef FUNCTION
}

__attribute__((used)) int fail_now(void)
{
    return hit && hit(INJECT_PROVIDER);
}

/*
 * Each function: saves the argument registers around the query, then jumps to the software GPU's
 * function. No function of the driver API has floating-point arguments.
 */
#define FUNCTION(name) \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" \
            "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\nsub $8, %rsp\n" \
            "call fail_now@PLT\nadd $8, %rsp\n" \
            "pop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\n" \
            "test %eax, %eax\nmov $2, %eax\njnz 1f\n" \
            "mov fail_" #name "@GOTPCREL(%rip), %rax\njmp *(%rax)\n1: ret\n" \
            ".size " #name ", . - " #name "\n");
#include "names.h"
