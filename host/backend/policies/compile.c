/* SPDX-License-Identifier: MIT */
/*
 * Run by the build: compiles the policies to BPF, so that a worker need not. Prints the C source of
 * wrk_policy_codes[]. The process id is WRK_POLICY_SELF, which the worker replaces.
 */
#define _GNU_SOURCE
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "confine/confine.h"
#include "confine/policy.h"

#define CODE_MAX 4096u /* of the kernel: BPF_MAXINSNS */

static const struct {
    const char *name, *policy;
    bool starting;
} uses[] = {
#define USE(name, starting) \
    { \
#name, name, starting \
    }
    USE(wrk_policy_soft, false),        USE(wrk_policy_nvidia, false),   USE(wrk_policy_mps, false),
    USE(wrk_policy_nvidia_start, true), USE(wrk_policy_mps_start, true),
#undef USE
};
#define USES (sizeof(uses) / sizeof(uses[0]))

static int compile_fail(const char *name, const char *why)
{
    fprintf(stderr, "%s: %s\n", name, why);
    return 1;
}

/* A number in a conditional jump. */
static unsigned compile_count(const struct sock_filter *code, size_t n, uint32_t value)
{
    unsigned found = 0;

    for (size_t i = 0; i < n; i++)
        found += BPF_CLASS(code[i].code) == BPF_JMP && code[i].k == value;
    return found;
}

static int compile_one(unsigned u, unsigned short *length)
{
    const struct wrk_policy_use use = {.self = WRK_POLICY_SELF, .starting = uses[u].starting};
    static struct sock_filter code[CODE_MAX];
    char err[300] = "";
    scmp_filter_ctx ctx = wrk_policy_build(uses[u].policy, &use, err, sizeof(err));
    int fd = memfd_create("policy", MFD_CLOEXEC);

    if (!ctx || fd < 0 || seccomp_export_bpf(ctx, fd))
        return compile_fail(uses[u].name, err[0] ? err : "not exported by libseccomp");
    seccomp_release(ctx);
    ssize_t bytes = pread(fd, code, sizeof(code), 0);

    close(fd);
    size_t n = bytes > 0 ? (size_t)bytes / sizeof(code[0]) : 0;
    if (!n || n == CODE_MAX)
        return compile_fail(uses[u].name, "no code, or too much");
    if (!compile_count(code, n, WRK_POLICY_SELF))
        return compile_fail(uses[u].name, "the worker's process id is not where it is replaced");
    printf("static const struct sock_filter code_%u[] = {\n", u);
    for (size_t i = 0; i < n; i++)
        printf("    {0x%x, %u, %u, 0x%x},\n", code[i].code, code[i].jt, code[i].jf, code[i].k);
    printf("};\n");
    *length = (unsigned short)n;
    return 0;
}

int main(void)
{
    unsigned short length[USES];

    printf("#include \"confine/confine.h\"\n#include \"confine/policy.h\"\n");
    for (unsigned u = 0; u < USES; u++) {
        if (compile_one(u, &length[u]))
            return 1;
    }
    printf("const struct wrk_policy_code wrk_policy_codes[] = {\n");
    for (unsigned u = 0; u < USES; u++)
        printf("    {%s, %d, %u, code_%u},\n", uses[u].name, uses[u].starting, length[u], u);
    printf("};\nconst unsigned wrk_policy_codes_n = %u;\n", (unsigned)USES);
    return 0;
}
