/* SPDX-License-Identifier: MIT */
/* Statements of a function body: declarations, labels, scopes, instructions. */
#include "ptx/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int syntax_here(struct sg_dec *d, const char *what)
{
    d->line = d->l.tok.line;
    d->col = d->l.tok.col;
    return sg_dec_syntax(d, "%s near '%.*s'", what, (int)(d->l.tok.len > 40 ? 40 : d->l.tok.len), d->l.tok.s);
}

static int define_name(struct sg_dec *d, const struct sg_decl *x, uint32_t kind, uint32_t index)
{
    if (sg_scope_find_here(d, x->name, x->name_len) ||
        (kind == SG_K_REG && sg_scope_range_here(d, x->name, x->name_len))) {
        d->line = x->line;
        d->col = x->col;
        return sg_dec_syntax(d, "'%.*s' is defined twice", (int)x->name_len, x->name);
    }
    return sg_scope_define(d, x->name, x->name_len, kind, index);
}

/* .reg .v2 .u32 %v; GCC writes it: %v.x and %v.y are registers, %v alone is {%v.x, %v.y}. ptxas has %v.z, too. */
static int declare_vector(struct sg_dec *d, const struct sg_decl *x)
{
    struct sg_range v = {.count = x->vec, .first = d->nvregs, .type = (uint8_t)x->v.type};

    for (uint32_t i = 0; i < (x->vec > 4 ? x->vec : 4); i++)
        sg_new_vreg(d, x->v.type, false);
    if (d->err || !sg_grow(&d->ranges, &d->cap_ranges, d->nranges, sizeof(*d->ranges)))
        return d->err ? d->err : sg_dec_nomem(d);
    d->ranges[d->nranges] = v;
    return define_name(d, x, SG_K_VECTOR, d->nranges++);
}

static int declare_reg(struct sg_dec *d, const struct sg_decl *x)
{
    if (x->vec != 1 && !x->range && !x->v.ndims && sg_type_size(x->v.type) <= 8)
        return declare_vector(d, x);
    if (x->vec != 1 || x->v.ndims)
        return syntax_here(d, "arrays and ranges of vector registers are not available");
    if (!x->range)
        return define_name(d, x, SG_K_REG, sg_new_vreg(d, x->v.type, false));
    if (!sg_grow(&d->ranges, &d->cap_ranges, d->nranges, sizeof(*d->ranges)))
        return sg_dec_nomem(d);
    d->ranges[d->nranges] = (struct sg_range){.count = x->range, .type = (uint8_t)x->v.type};
    return define_name(d, x, SG_K_RANGE, d->nranges++);
}

/* Local memory, call parameters (which live there too), or shared memory of the body. */
static int declare_mem(struct sg_dec *d, const struct sg_decl *x, char space)
{
    uint32_t *top = space == 's' ? &d->shared_bytes : &d->local_bytes;
    uint32_t limit = space == 's' ? SG_MAX_STATIC_SHARED : SG_MAX_LOCAL;
    uint32_t align = x->v.align ? x->v.align : 1, at;

    d->line = x->line;
    d->col = x->col;
    if (align < 4 && space != 's')
        align = 4; /* keeps words of local memory apart */
    if (!sg_size_place(top, align, x->v.size, limit, &at)) {
        strcpy(d->oc.full, space == 's' ? ".shared" : ".local");
        d->large = space != 's';
        return sg_dec_refuse(d, "too much memory");
    }
    if (!sg_grow(&d->lvars, &d->cap_lvars, d->nlvars, sizeof(*d->lvars)))
        return sg_dec_nomem(d);
    d->lvars[d->nlvars] =
        (struct sg_lvar){at, (uint32_t)x->v.size, space == 's', space == 'p', sg_var_element(&x->v)};
    return define_name(d, x, SG_K_LOCAL, d->nlvars++);
}

/* .param .u64 %P<2>; as GCC writes it: the variables %P0 and %P1. */
static int declare_mems(struct sg_dec *d, const struct sg_decl *x, char space)
{
    struct sg_decl one = *x;
    size_t room = x->name_len + 12;

    if (!x->range)
        return declare_mem(d, x, space);
    if (x->range > SG_MAX_ARGS)
        return syntax_here(d, "too many variables in one declaration");
    for (uint32_t i = 0; i < x->range; i++) {
        char *name = malloc(room);
        int r;

        if (!name || !sg_grow(&d->names, &d->cap_names, d->nnames, sizeof(*d->names))) {
            free(name);
            return sg_dec_nomem(d);
        }
        d->names[d->nnames++] = name;
        one.name = name;
        one.name_len = (uint32_t)snprintf(name, room, "%.*s%u", (int)x->name_len, x->name, i);
        r = declare_mem(d, &one, space);
        if (r)
            return r;
    }
    return 0;
}

static int parse_decl(struct sg_dec *d)
{
    struct sg_decl x = {0};
    char space = d->l.tok.s[1]; /* r, l, p, s */
    uint32_t align;
    int r;

    sg_lex_next(&d->l);
    r = sg_decl_head(&d->l, &x, d->diag);
    align = x.v.align;
    for (;;) {
        if (r)
            return d->err = r;
        x.v.align = align;
        r = sg_decl_name(&d->l, &x, d->diag);
        if (r)
            return d->err = r;
        if (space != 'r' && !x.v.size)
            return syntax_here(d, "a variable without a size");
        r = space == 'r' ? declare_reg(d, &x) : declare_mems(d, &x, space);
        if (r)
            return r;
        if (!sg_tok_is(&d->l, ','))
            break;
        sg_lex_next(&d->l);
    }
    if (!sg_tok_is(&d->l, ';'))
        return syntax_here(d, "';' expected");
    sg_lex_next(&d->l);
    return 0;
}

static int skip_to(struct sg_dec *d, char c)
{
    while (!sg_tok_is(&d->l, c)) {
        if (d->l.tok.kind == SG_T_EOF)
            return syntax_here(d, "unfinished statement");
        sg_lex_next(&d->l);
    }
    sg_lex_next(&d->l);
    return 0;
}

static int skip_line(struct sg_dec *d)
{
    uint32_t line = d->l.tok.line;

    while (d->l.tok.kind != SG_T_EOF && d->l.tok.line == line)
        sg_lex_next(&d->l);
    return 0;
}

/* name: .branchtargets a, b, c;  -> lists[]: count, labels */
static int parse_targets(struct sg_dec *d, const struct sg_tok *name)
{
    uint32_t at = d->nlists, n = 0;

    d->line = name->line;
    d->col = name->col;
    if (sg_dec_define_targets(d, name->s, name->len, at))
        return d->err;
    if (!sg_grow(&d->lists, &d->cap_lists, d->nlists, sizeof(*d->lists)))
        return sg_dec_nomem(d);
    d->nlists++;
    do {
        sg_lex_next(&d->l);
        if (d->l.tok.kind != SG_T_ID)
            return syntax_here(d, "a label expected");
        if (!sg_grow(&d->lists, &d->cap_lists, d->nlists, sizeof(*d->lists)))
            return sg_dec_nomem(d);
        d->lists[d->nlists++] = sg_dec_label(d, d->l.tok.s, d->l.tok.len);
        n++;
        sg_lex_next(&d->l);
    } while (sg_tok_is(&d->l, ','));
    d->lists[at] = n;
    return skip_to(d, ';');
}

static int parse_label(struct sg_dec *d, const struct sg_tok *name)
{
    sg_lex_next(&d->l); /* ':' */
    if (d->l.tok.kind == SG_T_DIR && sg_tok_eq(&d->l.tok, ".branchtargets"))
        return parse_targets(d, name);
    if (d->l.tok.kind == SG_T_DIR &&
        (sg_tok_eq(&d->l.tok, ".callprototype") || sg_tok_eq(&d->l.tok, ".calltargets")))
        return skip_to(d, ';');
    d->line = name->line;
    d->col = name->col;
    return sg_dec_define_label(d, name->s, name->len);
}

static const struct sg_family *find_family(const char *base)
{
    static const struct sg_family *const tabs[] = {sg_families_int,  sg_families_flt,   sg_families_mem,
                                                   sg_families_warp, sg_families_ctl,   sg_families_mma,
                                                   sg_families_bulk, sg_families_video, sg_families_tex};

    for (size_t i = 0; i < sizeof(tabs) / sizeof(tabs[0]); i++)
        for (const struct sg_family *f = tabs[i]; f->base; f++)
            if (f->base[0] == base[0] && !strcmp(f->base, base))
                return f;
    return NULL;
}

/* An operand of an instruction, perhaps a negated register. */
static int parse_signed(struct sg_dec *d, struct sg_opnd *o)
{
    struct sg_lex sign;
    bool minus = sg_tok_is(&d->l, '-');
    int r;

    if (minus) {
        sign = d->l;
        sg_lex_next(&d->l);
        minus = d->l.tok.kind == SG_T_ID && !sg_tok_eq(&d->l.tok, "WARP_SZ");
        if (!minus) /* the sign of a constant */
            d->l = sign;
    }
    r = sg_parse_operand(d, o);
    if (r)
        return r;
    o->minus = minus;
    return minus && o->kind != SG_O_REG ? sg_dec_syntax(d, "'-' before an operand that is no register") : 0;
}

static int parse_operands(struct sg_dec *d)
{
    const uint32_t last = d->nops;

    d->nops = 0;
    while (!sg_tok_is(&d->l, ';')) {
        int r;

        if (d->nops == SG_MAX_OPERANDS)
            return sg_dec_refuse(d, "too many operands");
        r = parse_signed(d, &d->ops[d->nops]);
        if (r)
            return r;
        d->nops++;
        if (sg_tok_is(&d->l, ';'))
            break;
        if (!sg_tok_is(&d->l, ','))
            return sg_dec_syntax(d, "',' or ';' expected near '%.*s'", (int)d->l.tok.len, d->l.tok.s);
        sg_lex_next(&d->l);
        if (sg_tok_is(&d->l, ';'))
            return sg_dec_syntax(d, "an operand expected behind ','");
    }
    sg_lex_next(&d->l);
    /* Cleared, so that an emitter never sees an operand of the previous instruction. */
    for (uint32_t i = d->nops; i < last; i++)
        d->ops[i].kind = SG_O_NONE;
    return 0;
}

/* Emits an instruction whose operands have been parsed. */
static int emit_one(struct sg_dec *d, const struct sg_family *f, struct sg_pred p)
{
    uint32_t start = d->ninsns, label = 0;
    bool around = p.reg != SG_OPND_NONE && (f->flags & SG_FAM_CTL);
    bool span = p.reg != SG_OPND_NONE && !(f->flags & (SG_FAM_CTL | SG_FAM_PRED));

    if ((d->nops < f->min_ops || d->nops > f->max_ops) && (f->flags & SG_FAM_GROWS))
        return sg_dec_refuse(d, "not with as many operands"); /* perhaps a newer form */
    if (d->nops < f->min_ops || d->nops > f->max_ops)
        return sg_dec_syntax(d, "%s: %u operands, %u%s expected", d->oc.full, d->nops, f->min_ops,
                             f->max_ops != f->min_ops ? " or more" : "");
    for (uint32_t i = 0; i < d->nops; i++)
        if (d->ops[i].coords && !(f->flags & SG_FAM_COORDS))
            return sg_dec_syntax(d, "%s: coordinates in an address", d->oc.full);
    for (uint32_t i = 0; i < d->nops; i++)
        if (d->ops[i].part[0] && !(f->flags & SG_FAM_PARTS))
            return sg_dec_syntax(d, "%s: part '.%s' of a register", d->oc.full, d->ops[i].part);
    for (uint32_t i = 0; i < d->nops; i++)
        if (d->ops[i].minus && !(f->flags & SG_FAM_MINUS))
            return sg_dec_syntax(d, "%s: a negated register", d->oc.full);
    if (around) {
        label = sg_new_label(d);
        sg_emit_bra(d, label, p.reg, !p.neg);
    } else if (span) {
        sg_emit(d, p.neg ? SG_OP_pred_not : SG_OP_pred_if, SG_OPND_NONE, p.reg, SG_OPND_NONE, SG_OPND_NONE);
        d->in_span = true;
    }
    d->pred = p;
    d->family = f;
    f->emit(d);
    d->in_span = false;
    if (d->err)
        return d->err;
    if (span)
        d->insns[start].aux = d->ninsns - start - 1;
    if (around)
        sg_place_label(d, label);
    for (uint32_t i = 0; i < d->oc.nmods; i++)
        if (!d->oc.used[i])
            return sg_dec_refuse(d, NULL);
    return d->err;
}

static int parse_insn(struct sg_dec *d)
{
    struct sg_pred p = {SG_OPND_NONE, false};
    const struct sg_family *f;
    char text[SG_MAX_OPCODE];

    d->line = d->l.tok.line;
    d->col = d->l.tok.col;
    if (sg_tok_is(&d->l, '@')) {
        struct sg_opnd o;

        sg_lex_next(&d->l);
        if (sg_tok_is(&d->l, '!')) {
            p.neg = true;
            sg_lex_next(&d->l);
        }
        if (sg_parse_operand(d, &o))
            return d->err;
        if (o.kind != SG_O_REG || d->vregs[o.v].cls != SG_C_PRED)
            return sg_dec_syntax(d, "a predicate expected behind '@'");
        p.reg = o.v;
        d->line = d->l.tok.line;
        d->col = d->l.tok.col;
    }
    if (d->l.tok.kind != SG_T_ID)
        return syntax_here(d, "an instruction expected");
    sg_lex_opcode(&d->l, text, sizeof(text));
    if (sg_opcode_parse(&d->oc, text))
        return sg_dec_refuse(d, NULL);
    if (!strcmp(d->oc.base, "call"))
        return sg_dec_call(d, p);
    f = find_family(d->oc.base);
    if (!f)
        return sg_check_gates(d) ? d->err : sg_dec_refuse(d, NULL);
    if (parse_operands(d) || sg_check_form(d))
        return d->err;
    return emit_one(d, f, p);
}

static int open_scope(struct sg_dec *d)
{
    if (d->nscopes == SG_MAX_SCOPES)
        return syntax_here(d, "too many nested scopes");
    return sg_scope_open(d);
}

static int parse_directive(struct sg_dec *d)
{
    const struct sg_tok *t = &d->l.tok;

    if (sg_tok_eq(t, ".reg") || sg_tok_eq(t, ".local") || sg_tok_eq(t, ".param") || sg_tok_eq(t, ".shared"))
        return parse_decl(d);
    if (sg_tok_eq(t, ".loc") || sg_tok_eq(t, ".file"))
        return skip_line(d);
    if (sg_tok_eq(t, ".pragma"))
        return d->err = sg_parse_pragma(&d->l, d->diag);
    if (sg_tok_eq(t, ".section")) {
        while (!sg_tok_is(&d->l, '{') && d->l.tok.kind != SG_T_EOF)
            sg_lex_next(&d->l);
        return d->l.tok.kind != SG_T_EOF && sg_lex_skip_block(&d->l) ? 0 : syntax_here(d, "no '}'");
    }
    return syntax_here(d, "unknown directive");
}

/* Reads statements up to the end of the text; the scope of the function is already open. */
int sg_dec_body(struct sg_dec *d, const char *p, const char *end, uint32_t line)
{
    uint32_t base = d->nscopes, first = d->nnamed;

    sg_lex_init(&d->l, p, end, line);
    while (!d->err) {
        const struct sg_tok *t = &d->l.tok;

        if (t->kind == SG_T_EOF || (sg_tok_is(&d->l, '}') && d->nscopes == base))
            break;
        if (t->kind == SG_T_DIR) {
            parse_directive(d);
        } else if (sg_tok_is(&d->l, '{')) {
            open_scope(d);
            sg_lex_next(&d->l);
        } else if (sg_tok_is(&d->l, '}')) {
            sg_scope_close(d);
            sg_lex_next(&d->l);
        } else if (t->kind == SG_T_ID) {
            struct sg_tok name = *t;

            sg_lex_skip_ws(&d->l);
            if (d->l.p < d->l.end && *d->l.p == ':' && !(d->l.end - d->l.p > 1 && d->l.p[1] == ':')) {
                sg_lex_next(&d->l);
                parse_label(d, &name);
            } else {
                parse_insn(d);
            }
        } else if (sg_tok_is(&d->l, '@')) {
            if (d->l.p < d->l.end && *d->l.p == '@')
                skip_line(d); /* @@DWARF */
            else
                parse_insn(d);
        } else if (t->kind == SG_T_BAD || t->kind == SG_T_PUNCT || t->kind == SG_T_INT) {
            syntax_here(d, "a statement expected");
        } else {
            syntax_here(d, "a statement expected");
        }
    }
    while (!d->err && d->nscopes > base)
        sg_scope_close(d);
    if (!d->err)
        sg_scope_end_function(d, first);
    return d->err;
}
