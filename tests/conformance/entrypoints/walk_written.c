/* SPDX-License-Identifier: MIT */
/* Determines the bytes behind its pointer arguments that a call wrote, even if refused. */
#include <stdio.h>

#include "walk.h"

static unsigned char before[WK_ARGS][WK_BUFFER];
static bool written[WK_ARGS][WK_BUFFER];
static bool any[WK_ARGS];

static unsigned char *watched(const struct wk_entry *e, const struct wk_vector *v, uint32_t i)
{
    return e->params[i].what == WK_PTR && wk_arena_holds(v->args[i]) ? (unsigned char *)(uintptr_t)v->args[i]
                                                                     : NULL;
}

void wk_written_fill(const struct wk_entry *e, const struct wk_vector *v, unsigned char byte)
{
    for (uint32_t i = 0; i < e->n_params; i++) {
        unsigned char *at = watched(e, v, i);

        if (at == NULL)
            continue;
        if (e->params[i].out)
            memset(at, byte, WK_BUFFER);
        memcpy(before[i], at, WK_BUFFER);
    }
}

bool wk_written_look(const struct wk_entry *e, const struct wk_vector *v)
{
    bool parts = false;

    for (uint32_t i = 0; i < e->n_params; i++) {
        unsigned char *at = watched(e, v, i);

        if (at == NULL || memcmp(at, before[i], WK_BUFFER) == 0)
            continue;
        any[i] = true;
        for (uint32_t k = 0; k < WK_BUFFER; k += 8) {
            unsigned n = 0;

            for (uint32_t b = k; b < k + 8; b++) {
                written[i][b] |= at[b] != before[i][b];
                n += written[i][b];
            }
            if (n > 0 && !e->params[i].out) /* not a pure output: by words */
                memset(&written[i][k], true, 8);
            else
                parts |= n > 0 && n < 8;
        }
    }
    return parts;
}

const char *wk_written_text(const struct wk_entry *e)
{
    static char text[512];
    size_t n = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < e->n_params; i++) {
        const char *sep = ":";

        if (!any[i])
            continue;
        n +=
            (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n == 0 ? " wrote " : ",", e->params[i].name);
        for (uint32_t b = 0; b < WK_BUFFER && n + 64 < sizeof(text); b++) {
            uint32_t from = b;

            while (b < WK_BUFFER && written[i][b])
                b++;
            if (b > from) {
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u-%u", sep, from, b - 1);
                sep = "+";
            }
        }
        memset(written[i], 0, sizeof(written[i]));
        any[i] = false;
    }
    return text;
}
