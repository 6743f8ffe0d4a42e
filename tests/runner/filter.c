// SPDX-License-Identifier: MIT
/*
 * Preloaded into unit tests (cmocka programs) when a part of them is selected.
 *   VGPU_TEST        shell pattern; a test runs if its name or its program's name matches
 *   VGPU_TEST_NAMES  file to which "<selected> <program>:<test>" is appended for every test, selected 0 or 1
 */
#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Processes started by a test are not filtered. */
__attribute__((constructor)) static void leave_children_alone(void)
{
    unsetenv("LD_PRELOAD");
}

int _cmocka_run_group_tests(const char *group_name, const struct CMUnitTest *const tests,
                            const size_t num_tests, CMFixtureFunction group_setup,
                            CMFixtureFunction group_teardown)
{
    __typeof__(&_cmocka_run_group_tests) next = dlsym(RTLD_NEXT, "_cmocka_run_group_tests");
    const char *pattern = getenv("VGPU_TEST"), *list = getenv("VGPU_TEST_NAMES");
    struct CMUnitTest *chosen = calloc(num_tests, sizeof(*chosen));
    FILE *names = list ? fopen(list, "a") : NULL;
    size_t n = 0;

    if (!next || !chosen)
        abort();
    for (size_t i = 0; i < num_tests; i++) {
        bool wanted = !pattern || !fnmatch(pattern, tests[i].name, 0) ||
                      !fnmatch(pattern, program_invocation_short_name, 0);
        if (names)
            fprintf(names, "%d %s:%s\n", wanted, program_invocation_short_name, tests[i].name);
        if (wanted)
            chosen[n++] = tests[i];
    }
    if (names)
        fclose(names);
    int failed = n ? next(group_name, chosen, n, group_setup, group_teardown) : 0;
    free(chosen);
    return failed;
}
