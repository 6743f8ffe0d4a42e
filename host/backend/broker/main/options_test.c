/* SPDX-License-Identifier: MIT */
/* The options against what --help says: the defaults, and which value each option sets, in which unit. */
#define _GNU_SOURCE
#include <ctype.h>
#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "main.h"

/* With what is needed to start; NULL: without the option. */
static void parse(struct brk_options *o, const char *option, const char *value)
{
    char name[64];
    char *argv[8] = {(char[]){"x"}, (char[]){"--listen"}, (char[]){"/x"}, (char[]){"--worker"},
                     (char[]){"/bin/sh"}};
    int n = 5;

    if (option) {
        snprintf(name, sizeof(name), "--%s", option);
        argv[n++] = name;
        argv[n++] = strdup(value);
    }
    optind = 0; /* of an earlier call */
    int r = brk_options_parse(n, argv, o);
    if (r != -1)
        fail_msg("%s %s: exit status %d", option ? option : "", option ? value : "", r);
    if (option)
        free(argv[n - 1]);
}

/* What --help says: each option in one line, with single blanks. */
static char help[32768];

/* An option's line begins with two blanks, what goes on with it with more. */
static void put_help(int c, const int before[4])
{
    static size_t n;

    if (c == '-' && before[3] == '\n' && before[2] == ' ' && before[1] == ' ' && n)
        help[n - 1] = '\n';
    if (n + 2 >= sizeof(help))
        return;
    if (!isspace(c))
        help[n++] = (char)c;
    else if (n && help[n - 1] != ' ')
        help[n++] = ' ';
}

static int read_help(void **state)
{
    char *argv[] = {(char[]){"x"}, (char[]){"--help"}, NULL};
    struct brk_options o;
    FILE *f = tmpfile();
    int was, c, before[4] = {0};

    (void)state;
    if (!f)
        return -1;
    fflush(stdout);
    was = dup(1);
    dup2(fileno(f), 1);
    optind = 0;
    brk_options_parse(2, argv, &o);
    fflush(stdout);
    dup2(was, 1);
    close(was);
    rewind(f);
    while ((c = fgetc(f)) != EOF) {
        put_help(c, before);
        memmove(&before[2], &before[1], 2 * sizeof(before[0]));
        before[1] = c;
    }
    fclose(f);
    return strlen(help) > 1000 ? 0 : -1;
}

/* The default in the option's text; false: it names none, or not by a number. */
static bool said_default(const char *option, uint64_t *value)
{
    char want[64], number[32];
    const char *at, *end, *text;
    size_t n;

    snprintf(want, sizeof(want), "\n--%s ", option);
    at = strstr(help, want);
    if (!at)
        fail_msg("--help has no --%s", option);
    end = strchr(at + 1, '\n');
    for (text = strstr(at, "default"); text && (!end || text < end); text = strstr(text + 1, "default")) {
        text += strlen("default");
        text += strspn(text, ": ");
        if (*text == ')' && text[-1] == ' ')
            continue;
        n = strspn(text, "0123456789KMGT");
        if (!n || n >= sizeof(number))
            continue;
        memcpy(number, text, n);
        number[n] = '\0';
        return brk_parse_size(number, value);
    }
    /* "0 (default)" */
    text = strstr(at, " (default)");
    if (text && (!end || text < end) && isdigit((unsigned char)text[-1])) {
        *value = (uint64_t)(text[-1] - '0');
        return true;
    }
    return false;
}

/* Other numbers than limits, as the program keeps them; `unit`: how many of these one of the option's is. */
static const struct number {
    const char *option;
    size_t at, size;
    uint64_t unit, value;
    bool has_default;
} numbers[] = {
#define NUMBER(option, member, unit, value, has_default) \
    { \
        option, offsetof(struct brk_options, member), sizeof(((struct brk_options *)0)->member), unit, \
            value, has_default \
    }
    NUMBER("memory-wait", memory_wait_ms, 1000, 7, true),
    NUMBER("long-call", long_call_ms, 1000, 8, true),
    NUMBER("window-size", window_size, 1, 32 << 20, true),
    NUMBER("pool", pool, 1, 5, true),
    NUMBER("pool-max", pool_max, 1, 11, true),
    NUMBER("image-cache", image_cache, 1, 3 << 20, true),
    NUMBER("cgroup-memory", cgroup_memory, 1, 12345, true),
    NUMBER("cgroup-cpu", cgroup_cpu, 1, 250, true),
    NUMBER("cgroup-weight", cgroup_weight, 1, 99, true),
    NUMBER("cgroup-pids", cgroup_pids, 1, 77, true),
    NUMBER("jit-cache", jit_cache, 1, 9 << 20, false), /* by who the clients are */
};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static uint64_t number_of(const struct brk_options *o, const struct number *n)
{
    uint64_t wide;
    unsigned narrow;

    if (n->size == sizeof(narrow)) {
        memcpy(&narrow, (const char *)o + n->at, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, (const char *)o + n->at, sizeof(wide));
    return wide;
}

static void test_defaults(void **state)
{
    struct brk_options o;
    unsigned said = 0;
    uint64_t value;

    (void)state;
    parse(&o, NULL, NULL);
    for (unsigned i = 0; i < BRK_L_COUNT; i++) {
        if (!said_default(brk_limits[i].name, &value))
            continue;
        said++;
        if (brk_limit_get(&o, (enum brk_limit_id)i) != value)
            fail_msg("--%s: the default is %llu, --help says %llu", brk_limits[i].name,
                     (unsigned long long)brk_limit_get(&o, (enum brk_limit_id)i), (unsigned long long)value);
    }
    assert_int_equal(said, BRK_L_COUNT - 1); /* --pin-quota: the host's memory */
    assert_int_equal(o.pin_quota, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    for (unsigned i = 0; i < NUMBERS; i++) {
        if (!numbers[i].has_default)
            continue;
        assert_true(said_default(numbers[i].option, &value));
        if (number_of(&o, &numbers[i]) != value * numbers[i].unit)
            fail_msg("--%s: the default is %llu, --help says %llu times %llu", numbers[i].option,
                     (unsigned long long)number_of(&o, &numbers[i]), (unsigned long long)value,
                     (unsigned long long)numbers[i].unit);
    }
    assert_int_equal(o.log_level, VGB_INFO);
    assert_string_equal(o.sandbox, "enforce");
    assert_false(o.pace || o.allow_hmm || o.jit_cache_shm);
    assert_int_equal(o.gpu, BRK_GPU_AUTO);
    assert_int_equal(o.pacing, BRK_PACING_AUTO);
    assert_int_equal(o.memory, BRK_MEMORY_ALONE);
}

/* Everything that is a number, to see that an option changes its own alone. */
static void all_numbers(const struct brk_options *o, uint64_t out[BRK_L_COUNT + NUMBERS])
{
    for (unsigned i = 0; i < BRK_L_COUNT; i++)
        out[i] = brk_limit_get(o, (enum brk_limit_id)i);
    for (unsigned i = 0; i < NUMBERS; i++)
        out[BRK_L_COUNT + i] = number_of(o, &numbers[i]);
}

/* A limit set at run time is for what starts later what its option would have been. */
static void test_set_as_option(void **state)
{
    uint64_t by_option[BRK_L_COUNT + NUMBERS], by_set[BRK_L_COUNT + NUMBERS];
    struct brk_options option, set;
    char text[32];

    (void)state;
    for (unsigned i = 0; i < BRK_L_COUNT; i++) {
        const uint64_t value = brk_limits[i].high == UINT64_MAX ? UINT64_C(77) << 20 : brk_limits[i].high;

        snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
        parse(&option, brk_limits[i].name, text);
        parse(&set, NULL, NULL);
        brk_limit_put(&set, (enum brk_limit_id)i, value);
        all_numbers(&option, by_option);
        all_numbers(&set, by_set);
        if (memcmp(by_option, by_set, sizeof(by_set)) ||
            memcmp(&option.limits, &set.limits, sizeof(set.limits)))
            fail_msg("set %s %s: not as --%s %s", brk_limits[i].name, text, brk_limits[i].name, text);
    }
}

static void check_change(const char *option, const char *text, unsigned which, uint64_t want)
{
    uint64_t before[BRK_L_COUNT + NUMBERS], after[BRK_L_COUNT + NUMBERS];
    struct brk_options o;

    parse(&o, NULL, NULL);
    all_numbers(&o, before);
    parse(&o, option, text);
    all_numbers(&o, after);
    for (unsigned i = 0; i < BRK_L_COUNT + NUMBERS; i++) {
        if (after[i] != (i == which ? want : before[i]))
            fail_msg("--%s %s: value %u is %llu, not %llu", option, text, i, (unsigned long long)after[i],
                     (unsigned long long)(i == which ? want : before[i]));
    }
}

static void test_each(void **state)
{
    char text[32];

    (void)state;
    for (unsigned i = 0; i < BRK_L_COUNT; i++) {
        const uint64_t value = brk_limits[i].low + 1; /* no default */

        snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
        check_change(brk_limits[i].name, text, i, value);
    }
    for (unsigned i = 0; i < NUMBERS; i++) {
        snprintf(text, sizeof(text), "%llu", (unsigned long long)numbers[i].value);
        check_change(numbers[i].option, text, BRK_L_COUNT + i, numbers[i].value * numbers[i].unit);
    }
}

/* The exit status of the program with these options, and what it says in `text`. */
static int refused(const char *option, const char *value, char *text, size_t size)
{
    char name[64];
    char *argv[] = {(char[]){"x"}, (char[]){"--listen"}, (char[]){"/x"}, name, strdup(value), NULL};
    struct brk_options o;
    FILE *said = tmpfile();
    int kept = dup(STDERR_FILENO), r;
    size_t n;

    assert_true(said && kept >= 0);
    snprintf(name, sizeof(name), "--%s", option);
    fflush(stderr);
    dup2(fileno(said), STDERR_FILENO);
    optind = 0;
    r = brk_options_parse(5, argv, &o);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    free(argv[4]);
    rewind(said);
    n = fread(text, 1, size - 1, said);
    text[n] = 0;
    fclose(said);
    return r;
}

/* One over each limit, words that are none or begin as one does, nothing: usage, with the option named and what it takes. */
static void test_refused(void **state)
{
    static const struct {
        const char *option, *value, *want;
    } bad[] = {{"pool", "17", "0 to 16"},
               {"pool", "-1", "0 to 16"},
               {"pool-max", "65", "0 to 64"},
               {"ready-fd", "0", "from 1"},
               {"fd", "2", "from 3"},
               {"long-call", "3601", "0 to 3600 seconds"},
               {"memory-wait", "61", "0 to 60 seconds"},
               {"image-cache", "1023K", "0, or 1M to 64G"},
               {"image-cache", "65G", "0, or 1M to 64G"},
               {"jit-cache", "1", "0, or 1M to 4G"},
               {"jit-cache", "5G", "0, or 1M to 4G"},
               {"window-size", "5M", "a power of two"},
               {"window-size", "2M", "a power of two"},
               {"window-size", "2G", "a power of two"},
               {"cgroup", "here", "a folder from the root"},
               {"cgroup-memory", "much", "not a size"},
               {"cgroup-cpu", "1048577", "percent"},
               {"cgroup-weight", "10001", "0 to 10000"},
               {"cgroup-pids", "4194305", "0 to 4M"},
               {"gpu", "softy", "auto, soft or nvidia"},
               {"gpu", "sof", "auto, soft or nvidia"},
               {"gpu", "auto, soft", "auto, soft or nvidia"},
               {"pacing", "turns", "auto, stop or ring"},
               {"memory-policy", "or", "promise or ceiling"},
               {"sandbox", "on", "enforce, log or off"},
               {"jit-cache-path", "f", "fd or shm"},
               {"name", "a/b", "letters"},
               {"peer-uid", "nobody here", "no such user"},
               {"peer-gid", "nobody here", "no such group"},
               {"status-user", "nobody here", "no such user"},
               {"log-level", "loud", "unknown level"},
               {"log-format", "xml", "text, json or journal"},
               {"protocol-minor", "1000", "no version"},
               {"gpu", "", "its value is empty"},
               {"control", "", "its value is empty"}};
    char text[400], path[5000];

    (void)state;
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int r = refused(bad[i].option, bad[i].value, text, sizeof(text));

        if (r != BRK_EXIT_USAGE || !strstr(text, bad[i].option) || !strstr(text, bad[i].want))
            fail_msg("--%s %s: exit status %d, %s", bad[i].option, bad[i].value, r, text);
    }
    memset(path, 'p', sizeof(path) - 1);
    path[sizeof(path) - 1] = 0;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(refused(i ? "worker" : "provider", path, text, sizeof(text)), BRK_EXIT_USAGE);
        assert_non_null(strstr(text, i ? "--worker" : "--provider"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_set_as_option), cmocka_unit_test(test_defaults),
                                       cmocka_unit_test(test_each), cmocka_unit_test(test_refused)};

    return cmocka_run_group_tests_name("options", tests, read_help, NULL);
}
