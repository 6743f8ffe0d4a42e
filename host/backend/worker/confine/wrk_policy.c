/* SPDX-License-Identifier: MIT */
/* Converts a policy, as text, to a filter of libseccomp: at build time (policies/compile.c), and in a worker whose
 * sandbox only logs. Format of a policy: policies/worker-soft.seccomp. */
#include "policy.h"

#include <ctype.h>
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONDITIONS_MAX 3u

static int policy_errno(const char *name)
{
    static const struct {
        const char *name;
        int value;
    } table[] = {
        {"ENOSYS", ENOSYS}, {"EACCES", EACCES}, {"EPERM", EPERM}, {"ENOMEM", ENOMEM}, {"ENOENT", ENOENT}};

    for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (!strcmp(name, table[i].name))
            return table[i].value;
    }
    return 0;
}

/* A number, or "self": the process id of the worker, valid for all its threads. */
static bool parse_value(const char *text, uint64_t self, uint64_t *value)
{
    char *end;

    if (!strcmp(text, "self")) {
        *value = self;
        return true;
    }
    errno = 0;
    *value = strtoull(text, &end, 0);
    return end != text && !*end && !errno;
}

/* "argN & MASK == VALUE" or "argN != VALUE"; the characters that were used, 0: not understood. */
static int parse_condition(const char *text, uint64_t self, struct scmp_arg_cmp *out)
{
    char mask[24], value[24];
    uint64_t m, v;
    unsigned arg;
    int used = 0;

    if (sscanf(text, " arg%u & %23s == %23s%n", &arg, mask, value, &used) == 3) {
        if (arg > 5 || !parse_value(mask, self, &m) || !parse_value(value, self, &v))
            return 0;
        *out = SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, m, v);
        return used;
    }
    if (sscanf(text, " arg%u != %23s%n", &arg, value, &used) == 2) {
        if (arg > 5 || !parse_value(value, self, &v))
            return 0;
        *out = SCMP_CMP(arg, SCMP_CMP_NE, v, 0);
        return used;
    }
    return 0;
}

/* Converts a policy line to a rule. 0, or -1: malformed or not accepted by libseccomp. */
static int add_rule(scmp_filter_ctx ctx, const char *line, const struct wrk_policy_use *use,
                    uint32_t otherwise)
{
    struct scmp_arg_cmp cmp[CONDITIONS_MAX];
    char name[32], word[16];
    uint32_t action = SCMP_ACT_ALLOW;
    unsigned n = 0;
    int used = 0;

    if (sscanf(line, "%31s%n", name, &used) != 1)
        return -1;
    int nr = seccomp_syscall_resolve_name(name);
    if (nr == __NR_SCMP_ERROR)
        return -1;
    for (line += used; *line; line += used) {
        used = 0;
        if (sscanf(line, " errno %15s%n", word, &used) == 1 && used && policy_errno(word) && !line[used])
            action = SCMP_ACT_ERRNO((uint32_t)policy_errno(word));
        else if (!strcmp(line, " kill"))
            action = SCMP_ACT_KILL_PROCESS, used = 5;
        else if (n < CONDITIONS_MAX && (used = parse_condition(line, use->self, &cmp[n])) > 0)
            n++;
        else
            return -1;
    }
    if (use->log && action != SCMP_ACT_ALLOW)
        action = SCMP_ACT_NOTIFY;
    /* libseccomp rejects rules equal to the default action. */
    return action == otherwise ? 0 : seccomp_rule_add_array(ctx, action, nr, n, cmp);
}

/* The policy's own "default errno NAME" line, or death. */
static uint32_t default_action(const char *policy)
{
    const char *line = strstr(policy, "\ndefault errno ");
    char word[16];

    if (!line || sscanf(line, "\ndefault errno %15s", word) != 1 || !policy_errno(word))
        return SCMP_ACT_KILL_PROCESS;
    return SCMP_ACT_ERRNO((uint32_t)policy_errno(word));
}

void *wrk_policy_build(const char *policy, const struct wrk_policy_use *use, char *err, size_t err_size)
{
    const uint32_t otherwise = use->log ? SCMP_ACT_NOTIFY : default_action(policy);
    const bool has_default = default_action(policy) != SCMP_ACT_KILL_PROCESS;
    scmp_filter_ctx ctx = seccomp_init(otherwise);
    char line[160];

    if (!ctx) {
        snprintf(err, err_size, "seccomp is not available");
        return NULL;
    }
    /*
     * no_new_privs is set already; calls of the 32-bit interface end the process, not the thread.
     */
    seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0);
    seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    for (const char *p = policy; *p;) {
        size_t n = strcspn(p, "\n");

        snprintf(line, sizeof(line), "%.*s", (int)n, p);
        p += n + (p[n] != 0);
        line[strcspn(line, "#")] = '\0';
        for (size_t l = strlen(line); l && isspace((unsigned char)line[l - 1]);)
            line[--l] = '\0';
        if (!strncmp(line, "default errno ", 14) && has_default)
            continue;
        if (*line && (n >= sizeof(line) || add_rule(ctx, line, use, otherwise))) {
            snprintf(err, err_size, "policy line not understood: %s", line);
            seccomp_release(ctx);
            return NULL;
        }
    }
    if (use->starting && seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(seccomp), 0)) {
        snprintf(err, err_size, "seccomp(2) cannot be allowed");
        seccomp_release(ctx);
        return NULL;
    }
    return ctx;
}
