/* SPDX-License-Identifier: MIT */
/* Tokens of PTX (PTX ISA, section "Syntax"). */
#include "ptx/module.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sg_diag_at(struct sg_diag *diag, int result, uint32_t line, uint32_t col, const char *fmt, ...)
{
    va_list ap;

    if (!diag)
        return result;
    diag->line = line;
    diag->column = col;
    va_start(ap, fmt);
    vsnprintf(diag->message, sizeof(diag->message), fmt, ap);
    va_end(ap);
    for (char *p = diag->message; *p; p++)
        if ((unsigned char)*p < 0x20)
            *p = ' ';
    return result;
}

int sg_lex_bad(const struct sg_lex *l, struct sg_diag *diag, const char *what)
{
    return sg_diag_at(diag, SG_ERR_PTX, l->tok.line, l->tok.col, "syntax error: %s near '%.*s'", what,
                      (int)(l->tok.len > 40 ? 40 : l->tok.len), l->tok.s);
}

bool sg_tok_eq(const struct sg_tok *t, const char *s)
{
    size_t n = strlen(s);

    return t->len == n && !memcmp(t->s, s, n);
}

static inline bool is_id_start(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

static inline bool is_id(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

/* The text after a comment that begins at p; NULL: it has no end. */
static const char *comment_end(const char *p, const char *end)
{
    for (p += 2; end - p > 1; p++) {
        p = memchr(p, '*', (size_t)(end - p - 1));
        if (!p)
            return NULL;
        if (p[1] == '/')
            return p + 2;
    }
    return NULL;
}

void sg_lex_skip_ws(struct sg_lex *l)
{
    while (l->p < l->end) {
        char c = *l->p;

        if (c == '\n') {
            l->p++;
            l->line++;
            l->line_start = l->p;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v' || c == '\0') {
            l->p++;
        } else if ((c == '/' && l->end - l->p > 1 && l->p[1] == '/') || (c == '#' && l->p == l->line_start)) {
            /* a comment, or a line of the preprocessor */
            while (l->p < l->end && *l->p != '\n')
                l->p++;
        } else if (c == '/' && l->end - l->p > 1 && l->p[1] == '*') {
            const char *behind = comment_end(l->p, l->end);

            if (!behind)
                break; /* a syntax error: sg_lex_next() */
            for (; l->p < behind; l->p++)
                if (*l->p == '\n') {
                    l->line++;
                    l->line_start = l->p + 1;
                }
        } else {
            break;
        }
    }
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

static bool hex_bits(struct sg_lex *l, int digits, enum sg_tok_kind kind)
{
    uint64_t v = 0;

    if (l->end - l->p < digits + 2)
        return false;
    for (int i = 0; i < digits; i++) {
        int d = digit_of(l->p[2 + i]);

        if (d > 15)
            return false;
        v = v << 4 | (unsigned)d;
    }
    l->tok.kind = kind;
    l->tok.ival = v;
    l->p += 2 + digits;
    return true;
}

static void lex_decimal_float(struct sg_lex *l)
{
    char buf[64], last = 0;
    size_t n = 0;
    double v;
    char *end;

    for (; l->p < l->end; l->p++) { /* to its end, of any length: the rest is not scanned again */
        char c = *l->p;

        if (!(c >= '0' && c <= '9') && c != '.' && c != 'e' && c != 'E' &&
            !((c == '+' || c == '-') && (last == 'e' || last == 'E')))
            break;
        if (n < sizeof(buf) - 1)
            buf[n] = c;
        n++;
        last = c;
    }
    buf[n < sizeof(buf) ? n : sizeof(buf) - 1] = 0;
    v = strtod(buf, &end);
    l->tok.kind = n >= sizeof(buf) || *end || isinf(v) ? SG_T_BAD : SG_T_F64;
    memcpy(&l->tok.ival, &v, 8);
}

static void lex_number(struct sg_lex *l)
{
    const char *p = l->p, *q;
    int radix = 10;
    uint64_t v = 0;
    bool over = false;

    if (*p == '0' && l->end - p > 1) {
        char c = p[1];

        if ((c == 'f' || c == 'F') && hex_bits(l, 8, SG_T_F32))
            return;
        if ((c == 'd' || c == 'D') && hex_bits(l, 16, SG_T_F64))
            return;
        if (c == 'x' || c == 'X') {
            radix = 16;
            p += 2;
        } else if (c == 'b' || c == 'B') {
            radix = 2;
            p += 2;
        } else if (c >= '0' && c <= '9') {
            radix = 8;
        }
    }
    if (radix == 10 || radix == 8) {
        for (q = p; q < l->end && *q >= '0' && *q <= '9'; q++)
            ;
        if (q < l->end && (*q == '.' || *q == 'e' || *q == 'E')) {
            lex_decimal_float(l);
            return;
        }
    }
    for (q = p; q < l->end && digit_of(*q) < radix; q++) {
        over |= v > (UINT64_MAX - (unsigned)digit_of(*q)) / (unsigned)radix;
        v = v * (unsigned)radix + (unsigned)digit_of(*q);
    }
    if (q == p || over) {
        l->tok.kind = SG_T_BAD;
        l->tok.over = over;
        l->tok.ival = v;
        l->p = over ? q : l->p + 1; /* none of these digits begins a token of its own */
        return;
    }
    if (q < l->end && *q == 'U')
        q++;
    l->p = q;
    l->tok.kind = SG_T_INT;
    l->tok.ival = v;
}

void sg_lex_next(struct sg_lex *l)
{
    struct sg_tok *t = &l->tok;
    unsigned char c;

    sg_lex_skip_ws(l);
    t->s = l->p;
    t->line = l->line;
    t->col = (uint32_t)(l->p - l->line_start) + 1;
    t->ch = 0;
    t->over = false;
    t->len = 0;
    if (l->p >= l->end) {
        t->kind = SG_T_EOF;
        return;
    }
    c = (unsigned char)*l->p;
    if (c == '/' && l->end - l->p > 1 &&
        l->p[1] == '*') { /* a comment without an end; it is looked for once */
        t->kind = SG_T_BAD;
        t->len = 2;
        l->p = l->end;
        return;
    }
    if (is_id_start(c) && (c != '%' || (l->end - l->p > 1 && is_id((unsigned char)l->p[1])))) {
        l->p++;
        while (l->p < l->end && is_id((unsigned char)*l->p))
            l->p++;
        t->kind = SG_T_ID;
    } else if (c >= '0' && c <= '9') {
        lex_number(l);
    } else if (c == '.' && l->end - l->p > 1 && l->p[1] >= '0' && l->p[1] <= '9') {
        lex_decimal_float(l);
    } else if (c == '.' && l->end - l->p > 1 && is_id_start((unsigned char)l->p[1])) {
        l->p++;
        while (l->p < l->end && is_id((unsigned char)*l->p))
            l->p++;
        t->kind = SG_T_DIR;
    } else if (c == '"') {
        const char *q = l->p + 1;

        while (q < l->end && *q != '"' && *q != '\n')
            q++;
        t->kind = q < l->end && *q == '"' ? SG_T_STR : SG_T_BAD;
        l->p = q < l->end ? q + 1 : q;
    } else {
        t->kind = c < 0x20 || c > 0x7e ? SG_T_BAD : SG_T_PUNCT;
        t->ch = (char)c;
        l->p++;
    }
    t->len = (uint32_t)(l->p - t->s);
}

void sg_lex_init(struct sg_lex *l, const char *p, const char *end, uint32_t line)
{
    memset(l, 0, sizeof(*l));
    l->p = p;
    l->end = end;
    l->line_start = p;
    l->line = line;
    sg_lex_next(l);
}

void sg_lex_opcode(struct sg_lex *l, char *buf, size_t size)
{
    size_t n = 0;

    for (uint32_t i = 0; i < l->tok.len && n < size - 1; i++)
        buf[n++] = l->tok.s[i];
    for (;;) {
        sg_lex_skip_ws(l);
        if (l->p >= l->end || *l->p != '.')
            break;
        do {
            if (n < size - 1)
                buf[n++] = *l->p;
            l->p++;
        } while (l->p < l->end && (is_id((unsigned char)*l->p) || *l->p == ':'));
    }
    buf[n] = 0;
    sg_lex_next(l);
}

/* Skips text without delimiters, 16 bytes at a time, and counts its lines: most of a library's text is bodies
   of unused kernels. */
static void skip_plain(struct sg_lex *l)
{
#ifdef __SSE2__
    const __m128i open = _mm_set1_epi8('{'), close = _mm_set1_epi8('}'), quote = _mm_set1_epi8('"'),
                  slash = _mm_set1_epi8('/'), newline = _mm_set1_epi8('\n');

    while (l->end - l->p >= 16) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)l->p);
        const uint32_t stop = (uint32_t)_mm_movemask_epi8(
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, open), _mm_cmpeq_epi8(v, close)),
                         _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash))));
        const uint32_t n = stop ? (uint32_t)__builtin_ctz(stop) : 16;
        const uint32_t lines = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, newline)) & ((1u << n) - 1);

        if (lines) {
            l->line += (uint32_t)__builtin_popcount(lines);
            l->line_start = l->p + 32 - __builtin_clz(lines);
        }
        l->p += n;
        if (stop)
            return;
    }
#else
    (void)l;
#endif
}

bool sg_lex_skip_block(struct sg_lex *l)
{
    uint32_t depth = 1;

    while (skip_plain(l), l->p < l->end) {
        char c = *l->p;

        switch (c) {
        case '\n':
            l->line++;
            l->line_start = l->p + 1;
            break;
        case '{':
            depth++;
            break;
        case '}':
            if (!--depth) {
                l->p++;
                sg_lex_next(l);
                return true;
            }
            break;
        case '"':
            l->p++;
            while (l->p < l->end && *l->p != '"' && *l->p != '\n')
                l->p++;
            if (l->p >= l->end || *l->p == '\n')
                continue;
            break;
        case '/':
            if (l->end - l->p > 1 && (l->p[1] == '/' || l->p[1] == '*')) {
                const char *at = l->p;

                sg_lex_skip_ws(l);
                if (l->p == at) /* the comment has no end */
                    l->p = l->end;
                continue;
            }
            break;
        default:
            break;
        }
        l->p++;
    }
    sg_lex_next(l);
    return false;
}

bool sg_ptx_begins(const char *text, size_t n)
{
    struct sg_lex l;

    sg_lex_init(&l, text, text + n, 1);
    return l.tok.kind == SG_T_DIR && sg_tok_eq(&l.tok, ".version");
}

#define TARGET_TOKENS_MAX 64 /* .version comes before .target */

uint32_t sg_ptx_target(const char *text, size_t n)
{
    struct sg_lex l;

    sg_lex_init(&l, text, text + n, 1);
    sg_lex_next(&l);
    for (int i = 0; i < TARGET_TOKENS_MAX && l.tok.kind != SG_T_EOF; i++) {
        const bool is = l.tok.kind == SG_T_DIR && sg_tok_eq(&l.tok, ".target");

        sg_lex_next(&l);
        if (is)
            return l.tok.len > 3 && !memcmp(l.tok.s, "sm_", 3) ? (uint32_t)strtoul(l.tok.s + 3, NULL, 10) : 0;
    }
    return 0;
}
