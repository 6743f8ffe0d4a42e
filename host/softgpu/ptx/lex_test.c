/* SPDX-License-Identifier: MIT */
/* Skipped blocks: where they end and on which line, compared with a loop over single bytes. */
#include "exec/exec_test.h"
#include "ptx/module.h"

#include <string.h>

enum { TEXTS = 20000, BYTES = 96 };

static uint32_t state = 1;

static uint32_t some(uint32_t n)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % n;
}

/* As PTX is read: strings end with their line, a comment without an end is the rest of the text. */
static bool skip(const char **p, const char *end, uint32_t *line, const char **line_start)
{
    uint32_t depth = 1;

    for (; *p < end; ++*p) {
        if (**p == '"') {
            for (++*p; *p < end && **p != '"' && **p != '\n'; ++*p)
                ;
            if (*p >= end)
                return false;
        } else if (**p == '/' && end - *p > 1 && (*p)[1] == '/') {
            for (; *p < end && **p != '\n'; ++*p)
                ;
            if (*p >= end)
                return false;
        }
        if (**p == '\n') {
            ++*line;
            *line_start = *p + 1;
        } else if (**p == '{') {
            depth++;
        } else if (**p == '}' && !--depth) {
            ++*p;
            return true;
        }
    }
    return false;
}

int main(void)
{
    static const char often[] = "ab \n\t;%r1,{}\"/", rarely[] = "abcdefgh ;%r1,.\n";
    uint32_t ended = 0, wrong = 0, first = 0;

    for (uint32_t i = 0; i < TEXTS; i++) {
        char text[BYTES];
        const uint32_t n = 1 + some(BYTES - 1), dense = some(40);
        const char *p = text + 1, *at = text;
        uint32_t line = 7;
        struct sg_lex l;
        bool end;

        text[0] = '{';
        for (uint32_t k = 1; k < n; k++)
            text[k] = some(40) < dense ? often[some(sizeof(often) - 1)] : rarely[some(sizeof(rarely) - 1)];
        /* further input of the lexer, not compared */
        if (n > 1 && some(2))
            text[n - 1] = '}';
        for (uint32_t k = 1; k + 1 < n; k++)
            if (text[k] == '/' && text[k + 1] == '*')
                text[k] = ' ';
        sg_lex_init(&l, text, text + n, 7);
        end = skip(&p, text + n, &line, &at);
        ended += end;
        if (sg_lex_skip_block(&l) != end ||
            (end && p == text + n && (l.line != line || l.line_start != at))) {
            first = wrong++ ? first : i;
        }
    }
    t_result("blocks that are skipped", !wrong && ended > TEXTS / 8 && ended < TEXTS - TEXTS / 8,
             "%u of %u differ, first number %u; %u end", wrong, TEXTS, first, ended);
    return t_end("softgpu lexer");
}
