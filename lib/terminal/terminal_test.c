/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "terminal.h"

static void test_words(void **state)
{
    static const struct {
        const char *words, *shown, *keep;
    } cases[] = {
        {"plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", ""},
        {"\x1b[2J\r\a\x7f", "?[2J???", ""},
        {"a\tb\nc", "a\tb\nc", "\n\t"},
        {"a\tb\nc", "a?b\nc", "\n"},
        {"\xc2\x9b[2J", "??[2J", ""},               /* CSI */
        {"\x9b[2J\xff", "?[2J?", ""},               /* the same for a terminal without UTF-8 */
        {"\xe2\x80\xae evil", "??? evil", ""},      /* from right to left */
        {"\xe2\x80\xa8\xef\xbb\xbf", "??????", ""}, /* a line, and nothing to be seen */
        {"\xc0\x9b\xed\xa0\x80", "?????", ""},      /* too long, half of a pair */
        {"\xf0\x9f\x98", "???", ""},                /* cut off */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[64];

        snprintf(text, sizeof(text), "%s", cases[i].words);
        trm_harmless(text, cases[i].keep);
        assert_string_equal(text, cases[i].shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
    };

    return cmocka_run_group_tests_name("terminal", tests, NULL, NULL);
}
