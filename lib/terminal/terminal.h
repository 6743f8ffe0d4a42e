/* SPDX-License-Identifier: MIT */
/*
 * Others' words for a terminal: a guest's, a program's, a recording's. What moves, turns around or hides something, and
 * what is not UTF-8, becomes '?'.
 */
#ifndef TRM_TERMINAL_H
#define TRM_TERMINAL_H

#include <stdint.h>
#include <string.h>

/* Bytes of the character at p, which a terminal shows in one place; 0: it does not, or this is not UTF-8. */
static inline unsigned trm_length(const unsigned char *p)
{
    unsigned n = *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
    uint32_t c;

    if (*p < 0x80)
        return *p >= 0x20 && *p != 0x7f;
    if (!n)
        return 0;
    c = *p & (0xffu >> (n + 1));
    for (unsigned i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0; /* the end of the text, too */
        c = c << 6 | (p[i] & 0x3fu);
    }
    if ((n == 3 && c < 0x800) || (n == 4 && c < 0x10000) || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    /* C1, which has CSI and NEL; what begins lines, turns their order around, or cannot be seen. */
    if (c < 0xa0 || c == 0x61c || (c >= 0x200b && c < 0x2010) || (c >= 0x2028 && c < 0x202f) ||
        (c >= 0x2060 && c < 0x2070) || c == 0xfeff)
        return 0;
    return n;
}

/* In place. keep: control characters that stay as they are. */
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
