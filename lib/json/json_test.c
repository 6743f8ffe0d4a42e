/* SPDX-License-Identifier: MIT */
/* Escapes of JSON strings: every byte, quotes, bytes that are not UTF-8, every room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "json.h"

/* The text as a string of JSON; valid until the next call. */
static const char *string_of(const char *text, size_t n, size_t room)
{
    static char to[256];
    size_t length;

    memset(to, '#', sizeof(to));
    assert_true(room < sizeof(to));
    length = jsn_string(to, room, text, n);
    assert_true(length <= room);
    for (size_t i = length; i < sizeof(to); i++)
        assert_true(i < room || to[i] == '#'); /* nothing behind the room */
    to[length] = '\0';
    return to;
}

static const char *printed(const char *text)
{
    static char *out;
    size_t size;
    FILE *f;

    free(out);
    f = open_memstream(&out, &size);
    assert_non_null(f);
    jsn_print(f, text);
    assert_int_equal(fclose(f), 0);
    return out;
}

static void test_texts(void **state)
{
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"", "\"\""},
        {"plain ~ text", "\"plain ~ text\""},
        {"\"\\/", "\"\\\"\\\\/\""},
        {"\b\f\n\r\t\x1f\x7f", "\"\\u0008\\u000c\\u000a\\u000d\\u0009\\u001f\\u007f\""},
        {"\xc3\xa4", "\"\\u00c3\\u00a4\""},            /* UTF-8, byte by byte */
        {"\xff\xc0\x80", "\"\\u00ff\\u00c0\\u0080\""}, /* not UTF-8 */
        {"a\xe2\x82", "\"a\\u00e2\\u0082\""},          /* a character that is cut off */
        {"\",\"level\":\"error\"}\n{", "\"\\\",\\\"level\\\":\\\"error\\\"}\\u000a{\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *text = cases[i].text;

        assert_string_equal(string_of(text, strlen(text), 200), cases[i].json);
        assert_string_equal(printed(text), cases[i].json);
    }
    assert_string_equal(string_of("a\0b", 3, 200), "\"a\\u0000b\"");
}

/* Every byte is decoded to itself, by the rules of JSON alone. */
static void test_bytes(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        const char *json = string_of(&text, 1, 200);
        unsigned value;

        if (json[1] == '\\' && json[2] == 'u') {
            assert_int_equal(strlen(json), 8);
            assert_int_equal(sscanf(json + 3, "%4x", &value), 1);
        } else {
            assert_int_equal(strlen(json), json[1] == '\\' ? 4 : 3);
            value = (unsigned char)json[json[1] == '\\' ? 2 : 1];
            assert_true(value >= 0x20 && value < 0x7f);
            assert_true((value == '"' || value == '\\') == (json[1] == '\\'));
        }
        assert_int_equal(value, byte);
        assert_int_equal(json[strlen(json) - 1], '"');
    }
}

static void test_room(void **state)
{
    (void)state;
    for (size_t room = 0; room < JSN_ROOM_MIN; room++)
        assert_string_equal(string_of("a", 1, room), "");
    assert_string_equal(string_of("", 0, 5), "\"\"");
    assert_string_equal(string_of("abc", 3, 5), "\"abc\"");
    assert_string_equal(string_of("abcd", 4, 5), "\"...\"");
    assert_string_equal(string_of("abcd", 4, 6), "\"abcd\"");
    assert_string_equal(string_of("abcde", 5, 6), "\"a...\"");
    /* No escape is cut in two. */
    assert_string_equal(string_of("a\nbc", 4, 13), "\"a\\u000abc\"");
    assert_string_equal(string_of("a\nbc", 4, 10), "\"a...\"");
    assert_string_equal(string_of("\"\"\"", 3, 7), "\"\\\"...\"");
    assert_string_equal(string_of("\"\"\"", 3, 8), "\"\\\"\\\"\\\"\"");
    /* Whatever the room, the text or its start and "...". */
    for (size_t room = JSN_ROOM_MIN; room < 60; room++) {
        static const char text[] = "x\"\n\xff\\yz\x01";
        char whole[64];
        size_t n, length;

        snprintf(whole, sizeof(whole), "%s", string_of(text, sizeof(text) - 1, 200));
        n = strlen(whole);
        const char *json = string_of(text, sizeof(text) - 1, room);

        length = strlen(json);
        if (n <= room) {
            assert_string_equal(json, whole);
            continue;
        }
        assert_string_equal(json + length - 4, "...\"");
        assert_memory_equal(json, whole, length - 4);
        assert_true(room - length < JSN_ESCAPE_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_room),
    };

    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
