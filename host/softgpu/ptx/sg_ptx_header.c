/* SPDX-License-Identifier: MIT */
/* The head of a text: .version and .target. */
#include "ptx/module.h"

#include <ctype.h>
#include <string.h>

int sg_parse_version(struct sg_lex *l, struct sg_module *m, struct sg_diag *diag)
{
    double v;
    const struct sg_tok *t;

    sg_lex_next(l);
    t = &l->tok;
    if (t->kind != SG_T_F64)
        return sg_lex_bad(l, diag, "a version number expected");
    memcpy(&v, &t->ival, 8);
    if (!(v >= 1.0 && v < 100.0))
        return sg_lex_bad(l, diag, "a version number expected");
    m->version = (uint32_t)(v * 10.0 + 0.5);
    if (m->version > SG_PTX_VERSION_MAX)
        return sg_diag_at(diag, SG_ERR_PTX_VERSION, t->line, t->col,
                          ".version %.1f is newer than the newest known (%d.%d)", v, SG_PTX_VERSION_MAX / 10,
                          SG_PTX_VERSION_MAX % 10);
    sg_lex_next(l);
    if (sg_tok_is(l, ';'))
        return sg_lex_bad(l, diag, "no ';' expected");
    return 0;
}

/* The first .version, times 10, with this target (PTX ISA, "Release Notes"). UINT32_MAX: no such
   target. Targets above those of PTX 9.0 are left to later versions. */
static uint32_t target_version(uint32_t target)
{
    static const struct {
        uint8_t target, version;
    } known[] = {{50, 40}, {52, 41},  {53, 42},  {60, 50},  {61, 50},  {62, 50},  {70, 60},
                 {72, 61}, {75, 63},  {80, 70},  {86, 71},  {87, 74},  {88, 73},  {89, 78},
                 {90, 78}, {100, 86}, {101, 86}, {103, 88}, {110, 90}, {120, 87}, {121, 88}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].target == target)
            return known[i].version;
    return target < 50 ? 0 : target > 121 ? 91 : UINT32_MAX;
}

int sg_parse_target(struct sg_lex *l, struct sg_module *m, struct sg_diag *diag)
{
    bool unified = false;

    do {
        const struct sg_tok *t;

        sg_lex_next(l);
        t = &l->tok;
        if (t->kind != SG_T_ID)
            return sg_lex_bad(l, diag, "a target expected");
        if (!m->target && !(t->len > 3 && !memcmp(t->s, "sm_", 3)))
            return sg_lex_bad(l, diag, "sm_NN expected as the first target");
        if (t->len > 3 && !memcmp(t->s, "sm_", 3)) {
            uint32_t v = 0, i;

            for (i = 3; i < t->len && isdigit((unsigned char)t->s[i]) && v < 10000; i++)
                v = v * 10 + (uint32_t)(t->s[i] - '0');
            m->target = v;
            m->target_suffix = i < t->len;
            if (m->version < target_version(v))
                return sg_lex_bad(l, diag,
                                  target_version(v) == UINT32_MAX ? "no such target"
                                                                  : "the target needs a higher .version");
        } else if (sg_tok_eq(t, "texmode_independent")) {
            m->independent = true;
        } else if (sg_tok_eq(t, "texmode_unified")) {
            unified = true;
        } else if (!sg_tok_eq(t, "debug") && !sg_tok_eq(t, "map_f64_to_f32")) {
            return sg_lex_bad(l, diag, "unknown option of .target");
        }
        if (unified && m->independent)
            return sg_lex_bad(l, diag, "only one of texmode_unified and texmode_independent expected");
        sg_lex_next(l);
        if (sg_tok_is(l, ';'))
            return sg_lex_bad(l, diag, "no ';' expected");
    } while (sg_tok_is(l, ',') ||
             sg_tok_eq(&l->tok, ".target")); /* of several the last counts, as for ptxas */
    return 0;
}
