/* SPDX-License-Identifier: MIT */
/*
 * Makes untrusted text (from a guest, a program, a recording) safe to print on a terminal.
 * Characters that move the cursor, reorder or hide text, and bytes that are not UTF-8, become '?'.
 */
#ifndef TRM_TERMINAL_H
#define TRM_TERMINAL_H

#include <stdint.h>
#include <string.h>

/* Length in bytes of the UTF-8 character at p, and its code point; 0 if it is none, or NUL. */
static inline unsigned trm_decode(const unsigned char *p, uint32_t *point)
{
    unsigned n = *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
    uint32_t c;

    *point = *p;
    if (*p < 0x80)
        return *p != 0;
    if (!n)
        return 0;
    c = *p & (0xffu >> (n + 1));
    for (unsigned i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0; /* also at the end of the text */
        c = c << 6 | (p[i] & 0x3fu);
    }
    if ((n == 3 && c < 0x800) || (n == 4 && c < 0x10000) || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *point = c;
    return n;
}

/* Length in bytes of the character at p if a terminal shows it in one cell; 0 if not, or if it
   is not UTF-8. */
static inline unsigned trm_length(const unsigned char *p)
{
    uint32_t c;
    unsigned n = trm_decode(p, &c);

    if (*p < 0x80)
        return c >= 0x20 && c != 0x7f;
    /* C1, which includes CSI and NEL; characters that start lines, reverse their order, or are
       invisible. */
    if (c < 0xa0 || c == 0x61c || (c >= 0x200b && c < 0x2010) || (c >= 0x2028 && c < 0x202f) ||
        (c >= 0x2060 && c < 0x2070) || c == 0xfeff)
        return 0;
    return n;
}

/* Converts text in place. keep: control characters to leave unchanged. */
static inline void trm_harmless(char *text, const char *keep)
{
    while (*text) {
        unsigned n = strchr(keep, *text) ? 1 : trm_length((const unsigned char *)text);

        if (!n)
            *text = '?';
        text += n ? n : 1;
    }
}

#endif
