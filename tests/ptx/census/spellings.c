/* SPDX-License-Identifier: MIT */
/*
 * Finds instructions by the form of statements alone: inside braces, text that follows ";", "{", "}" or
 * a label's ":" and an optional guard "@p", and begins with a lower-case letter.
 */
#include "spellings.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 16384u /* the libraries have hundreds of spellings */
#define WORD 96

static struct slot {
    char word[WORD];
    unsigned arch;
    uint64_t count;
} slots[SLOTS];

static void add(const char *w, size_t n, unsigned arch)
{
    uint32_t h = arch;

    if (n >= WORD)
        n = WORD - 1;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)w[i]) * 16777619u;
    for (unsigned i = 0; i < SLOTS; i++) {
        struct slot *s = &slots[(h + i) % SLOTS];

        if (!s->count) {
            memcpy(s->word, w, n);
            s->word[n] = '\0';
            s->arch = arch;
        } else if (s->arch != arch || strlen(s->word) != n || memcmp(s->word, w, n)) {
            continue;
        }
        s->count++;
        return;
    }
    fprintf(stderr, "more than %u spellings\n", SLOTS);
    exit(2);
}

static int is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '.' || c == ':';
}

void spell_count(const char *text, size_t len, unsigned arch)
{
    const char *p = text, *end = text + len;
    int depth = 0, start = 0, inner = 0; /* inner: braces of operands, such as {%r1, %r2} */

    while (p < end) {
        const char c = *p;

        if (c == '/' && p + 1 < end && p[1] == '/') {
            while (p < end && *p != '\n')
                p++;
        } else if (c == '/' && p + 1 < end && p[1] == '*') {
            for (p += 2; p + 1 < end && !(p[0] == '*' && p[1] == '/'); p++)
                ;
            p += 2;
        } else if (c == '"') {
            for (p++; p < end && *p != '"'; p++)
                ;
            p++;
        } else if (c == '{' && depth > 0 && !start) {
            inner++;
            p++;
        } else if (c == '}' && inner) {
            inner--;
            p++;
        } else if (c == '{' || c == '}') {
            depth += c == '{' ? 1 : -1;
            start = 1;
            p++;
        } else if (c == ';') {
            start = 1;
            inner = 0;
            p++;
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            p++;
        } else if (start && depth > 0 && c == '@') {
            for (p++; p < end && *p != ' ' && *p != '\t' && *p != '\n'; p++)
                ;
        } else if (start && depth > 0 && (is_word(c) || c == '$') && c != '.') {
            const char *w = p;

            for (p++; p < end && (is_word(*p) || *p == '$') && !(*p == ':' && p[1] != ':' && p[-1] != ':');
                 p++)
                ;
            if (p < end && *p == ':') {
                p++; /* a label: the statement begins after it */
            } else {
                if (c >= 'a' && c <= 'z')
                    add(w, (size_t)(p - w), arch);
                start = 0;
            }
        } else {
            start = 0;
            p++;
        }
    }
}

static int compare(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;

    if (!x->count || !y->count)
        return (y->count != 0) - (x->count != 0);
    return x->arch != y->arch ? (x->arch > y->arch) - (x->arch < y->arch) : strcmp(x->word, y->word);
}

void spell_write(FILE *out, const char *name)
{
    qsort(slots, SLOTS, sizeof(slots[0]), compare);
    for (unsigned i = 0; i < SLOTS && slots[i].count; i++)
        fprintf(out, "%s\t%u\t%s\t%llu\n", name, slots[i].arch, slots[i].word,
                (unsigned long long)slots[i].count);
    memset(slots, 0, sizeof(slots));
}
