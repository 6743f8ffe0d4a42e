/* SPDX-License-Identifier: MIT */
/*
 * Strings of JSON output. The text may come from a guest, a program or a recording and need not be
 * UTF-8: a byte that is not printable ASCII is written as \u00XX of its value, so any output is valid
 * JSON in ASCII, and the readers in this tree get the bytes back.
 */
#ifndef JSN_JSON_H
#define JSN_JSON_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define JSN_ESCAPE_MAX 6u /* length of the longest escape, bytes */
#define JSN_ROOM_MIN 5u   /* smallest room of jsn_string(), bytes: "..." with its quotes */

/* Writes a byte of a text as it stands inside a JSON string. Length in bytes, at least 1. */
static inline size_t jsn_escape(char to[JSN_ESCAPE_MAX], char byte)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char c = (unsigned char)byte;

    if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
        to[0] = byte;
        return 1;
    }
    to[0] = '\\';
    if (c == '"' || c == '\\') {
        to[1] = byte;
        return 2;
    }
    memcpy(to + 1, "u00", 3);
    to[4] = hex[c >> 4];
    to[5] = hex[c & 15];
    return JSN_ESCAPE_MAX;
}

/*
 * Writes n bytes of text as a JSON string with its quotes; no NUL is appended. A text that does not
 * fit is cut off between two escapes and ends in "...". Length in bytes, at most `room`; 0, with
 * nothing written, if room is less than JSN_ROOM_MIN.
 */
static inline size_t jsn_string(char *to, size_t room, const char *text, size_t n)
{
    size_t used = 1, cut = 1; /* cut: the last end of an escape where "..." still fits */
    char escape[JSN_ESCAPE_MAX];

    if (room < JSN_ROOM_MIN)
        return 0;
    to[0] = '"';
    for (size_t i = 0; i < n; i++) {
        size_t length = jsn_escape(escape, text[i]);

        if (length > room - 1 - used) {
            memcpy(to + cut, "...", 3);
            used = cut + 3;
            break;
        }
        memcpy(to + used, escape, length);
        used += length;
        if (used + 4 <= room)
            cut = used;
    }
    to[used++] = '"';
    return used;
}

/* Prints a text as a JSON string with its quotes. */
static inline void jsn_print(FILE *out, const char *text)
{
    char escape[JSN_ESCAPE_MAX];

    fputc('"', out);
    for (; *text; text++)
        fwrite(escape, 1, jsn_escape(escape, *text), out);
    fputc('"', out);
}

#endif
