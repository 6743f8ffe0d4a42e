/* SPDX-License-Identifier: MIT */
/*
 * Maps a line of PTX to a line of the source, with the .loc and .file directives that nvcc
 * -lineinfo leaves in the text (PTX ISA, "Debugging directives"). They are read only after a kernel
 * has failed, so that nothing is stored for this earlier.
 */
#include <stdio.h>
#include <string.h>

#include "ptx/module.h"

/* A place in the source, by the number of its file. */
struct place {
    uint64_t file, line;
};

/* Behind the line that begins at s. */
static const char *next_line(const char *s, const char *end)
{
    const char *nl = memchr(s, '\n', (size_t)(end - s));

    return nl ? nl + 1 : end;
}

/* Reads FILE LINE COLUMN, at which the lexer stands. */
static bool read_place(struct sg_lex *l, struct place *p)
{
    uint64_t v[3];

    for (int i = 0; i < 3; i++) {
        if (l->tok.kind != SG_T_INT)
            return false;
        v[i] = l->tok.ival;
        sg_lex_next(l);
    }
    *p = (struct place){v[0], v[1]};
    return true;
}

/* A line of the form `.loc FILE LINE COLUMN [, function_name NAME, inlined_at FILE LINE
   COLUMN]`. */
static bool read_loc(const char *s, const char *end, struct place *at, struct place *from)
{
    struct sg_lex l;

    sg_lex_init(&l, s, end, 1);
    if (!sg_tok_eq(&l.tok, ".loc"))
        return false;
    sg_lex_next(&l);
    *from = (struct place){0};
    if (!read_place(&l, at))
        return false;
    while (l.tok.kind != SG_T_EOF) {
        bool found = sg_tok_eq(&l.tok, "inlined_at");

        sg_lex_next(&l);
        if (found)
            return read_place(&l, from);
    }
    return true;
}

/* A line of the form `.file FILE "NAME"`. */
static bool read_file(const char *s, const char *end, uint64_t file, const char **name, int *len)
{
    struct sg_lex l;

    sg_lex_init(&l, s, end, 1);
    if (!sg_tok_eq(&l.tok, ".file"))
        return false;
    sg_lex_next(&l);
    if (l.tok.kind != SG_T_INT || l.tok.ival != file)
        return false;
    s = memchr(s, '"', (size_t)(end - s));
    end = s ? memchr(s + 1, '"', (size_t)(end - s - 1)) : NULL;
    if (!end || end - s - 1 > SG_SOURCE_MAX / 2)
        return false;
    *name = s + 1;
    *len = (int)(end - s - 1);
    return true;
}

/* The last .file with the number before `at`, else the first after it: nvcc puts these lines at
   the end, the linker before the code that uses them. */
static bool find_file(const struct sg_module *m, const char *at, uint64_t file, const char **name, int *len)
{
    const char *end = m->text + m->len;
    bool found = false;

    for (const char *s = m->text, *next; s < end; s = next) {
        next = next_line(s, end);
        if (found && s > at)
            break;
        found |= read_file(s, next, file, name, len);
    }
    return found;
}

bool sg_module_source(const struct sg_module *m, uint32_t line, char *to, size_t room)
{
    struct place at = {0}, from = {0}, p, q;
    const char *name, *s = NULL, *end = NULL;
    uint32_t here = 0;
    int len, n;

    if (m->is_sass)
        return false;
    for (uint32_t i = 0; i < m->nfuncs; i++) {
        const struct sg_func *f = &m->funcs[i];

        if (f->body && f->body_line <= line && (!s || f->body_line >= here)) {
            s = f->body;
            end = f->body_end;
            here = f->body_line;
        }
    }
    for (const char *next; s && s < end && here <= line; s = next, here++) {
        next = next_line(s, end);
        if (read_loc(s, next, &p, &q)) {
            at = p;
            from = q;
        }
    }
    if (!at.line || here <= line || !find_file(m, s, at.file, &name, &len))
        return false;
    n = snprintf(to, room, "%.*s:%llu", len, name, (unsigned long long)at.line);
    if (from.line && n >= 0 && (size_t)n < room && find_file(m, s, from.file, &name, &len))
        snprintf(to + n, room - (size_t)n, ", inlined at %.*s:%llu", len, name,
                 (unsigned long long)from.line);
    return true;
}
