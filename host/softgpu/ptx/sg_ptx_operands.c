/* SPDX-License-Identifier: MIT */
/* Parses an instruction: its opcode, operands and names. ptx/sg_ptx_code.c resolves them. */
#include "ptx/constant.h"
#include "ptx/decode.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint8_t sr;
} sregs[] = {
    {"%tid.x", SG_SR_TID_X},
    {"%tid.y", SG_SR_TID_Y},
    {"%tid.z", SG_SR_TID_Z},
    {"%tid.w", SG_SR_ZERO},
    {"%ntid.x", SG_SR_NTID_X},
    {"%ntid.y", SG_SR_NTID_Y},
    {"%ntid.z", SG_SR_NTID_Z},
    {"%ntid.w", SG_SR_ONE},
    {"%ctaid.x", SG_SR_CTAID_X},
    {"%ctaid.y", SG_SR_CTAID_Y},
    {"%ctaid.z", SG_SR_CTAID_Z},
    {"%ctaid.w", SG_SR_ZERO},
    {"%nctaid.x", SG_SR_NCTAID_X},
    {"%nctaid.y", SG_SR_NCTAID_Y},
    {"%nctaid.z", SG_SR_NCTAID_Z},
    {"%nctaid.w", SG_SR_ONE},
    {"%laneid", SG_SR_LANEID},
    {"%warpid", SG_SR_WARPID},
    {"%nwarpid", SG_SR_NWARPID},
    {"%smid", SG_SR_SMID},
    {"%nsmid", SG_SR_NSMID},
    {"%gridid", SG_SR_GRIDID},
    {"%lanemask_eq", SG_SR_LANEMASK_EQ},
    {"%lanemask_le", SG_SR_LANEMASK_LE},
    {"%lanemask_lt", SG_SR_LANEMASK_LT},
    {"%lanemask_ge", SG_SR_LANEMASK_GE},
    {"%lanemask_gt", SG_SR_LANEMASK_GT},
    {"%dynamic_smem_size", SG_SR_DYN_SMEM},
    {"%total_smem_size", SG_SR_TOTAL_SMEM},
    {"%aggr_smem_size", SG_SR_TOTAL_SMEM},
    {"%clusterid.w", SG_SR_ZERO},
    {"%nclusterid.w", SG_SR_ONE},
    {"%cluster_ctaid.w", SG_SR_ZERO},
    {"%cluster_nctaid.w", SG_SR_ONE},
    {"%clusterid.x", SG_SR_CLUSTERID_X},
    {"%clusterid.y", SG_SR_CLUSTERID_Y},
    {"%clusterid.z", SG_SR_CLUSTERID_Z},
    {"%nclusterid.x", SG_SR_NCLUSTERID_X},
    {"%nclusterid.y", SG_SR_NCLUSTERID_Y},
    {"%nclusterid.z", SG_SR_NCLUSTERID_Z},
    {"%cluster_ctaid.x", SG_SR_CLUSTER_CTAID_X},
    {"%cluster_ctaid.y", SG_SR_CLUSTER_CTAID_Y},
    {"%cluster_ctaid.z", SG_SR_CLUSTER_CTAID_Z},
    {"%cluster_nctaid.x", SG_SR_CLUSTER_NCTAID_X},
    {"%cluster_nctaid.y", SG_SR_CLUSTER_NCTAID_Y},
    {"%cluster_nctaid.z", SG_SR_CLUSTER_NCTAID_Z},
    {"%cluster_ctarank", SG_SR_CLUSTER_CTARANK},
    {"%cluster_nctarank", SG_SR_CLUSTER_NCTARANK},
    {"%is_explicit_cluster", SG_SR_EXPLICIT_CLUSTER},
    {"%clock", SG_SR_CLOCK},
    {"%clock_hi", SG_SR_CLOCK_HI},
    {"%clock64", SG_SR_CLOCK64},
    {"%globaltimer", SG_SR_GLOBALTIMER},
    {"%globaltimer_lo", SG_SR_GLOBALTIMER_LO},
    {"%globaltimer_hi", SG_SR_GLOBALTIMER_HI},
    {"%current_graph_exec", SG_SR_GRAPH_EXEC},
};

/* %envreg0 to 31, %pm0 to 7, %pm0_64 to 7, %reserved_smem_offset_*; -1: none such. */
static int find_numbered_sreg(const char *s, uint32_t len)
{
    static const char *const reserved[] = {"begin", "end", "cap", "0", "1"};
    uint32_t n = 0, at = 7;

    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (len == 22 + strlen(reserved[i]) && !memcmp(s, "%reserved_smem_offset_", 22) &&
            !memcmp(s + 22, reserved[i], len - 22))
            return SG_SR_ZERO; /* nothing is reserved */
    if (len >= 8 && len <= 9 && !memcmp(s, "%envreg", 7)) {
        for (; at < len && s[at] >= '0' && s[at] <= '9'; at++)
            n = n * 10 + (uint32_t)(s[at] - '0');
        if (at != len || n > 31)
            return -1;
        return n == 1 ? SG_SR_ENVREG1 : n == 2 ? SG_SR_ENVREG2 : SG_SR_ZERO;
    }
    if (len >= 4 && !memcmp(s, "%pm", 3) && s[3] >= '0' && s[3] <= '7')
        return len == 4 ? SG_SR_ZERO : len == 7 && !memcmp(s + 4, "_64", 3) ? SG_SR_ZERO64 : -1;
    return -1;
}

/* A special register by its full name; -1: none such. */
static int find_sreg(const char *s, uint32_t len)
{
    static const char colours[] = "rgba";
    const char *colour = len > 2 && s[len - 2] == '.' ? strchr(colours, s[len - 1]) : NULL;

    if (colour && *colour) { /* %tid.r is %tid.x */
        char name[48];

        memcpy(name, s, len);
        name[len - 1] = "xyzw"[colour - colours];
        return find_sreg(name, len);
    }
    for (size_t i = 0; i < sizeof(sregs) / sizeof(sregs[0]); i++)
        if (strlen(sregs[i].name) == len && !memcmp(sregs[i].name, s, len))
            return sregs[i].sr;
    return find_numbered_sreg(s, len);
}

/* Registers that need a .target; 0: any. */
static uint32_t sreg_target(const char *s, uint32_t len)
{
    static const char *const sm_90[] = {"%cluster", "%ncluster", "%is_explicit_cluster", "%aggr_smem_size"};

    for (size_t i = 0; i < sizeof(sm_90) / sizeof(sm_90[0]); i++)
        if (len >= strlen(sm_90[i]) && !memcmp(s, sm_90[i], strlen(sm_90[i])))
            return 90;
    return len > 14 && !memcmp(s, "%reserved_smem", 14) ? 80 : 0;
}

/* Constants behind a symbol or register, each with a sign. */
static int parse_offset(struct sg_dec *d, uint64_t *off)
{
    int r = sg_const_read_sum(&d->l, off, d->diag);

    return r ? d->err = r : 0;
}

static int parse_name(struct sg_dec *d, struct sg_opnd *o);

/* True if an expression begins here, not a name. */
static bool at_constant(const struct sg_dec *d)
{
    return d->l.tok.kind != SG_T_ID || sg_tok_eq(&d->l.tok, "WARP_SZ");
}

static uint64_t element_bytes(const struct sg_dec *d, const struct sg_opnd *o)
{
    switch (o->symkind) {
    case SG_K_GLOBAL:
        return sg_var_element(&d->m->vars[o->v]);
    case SG_K_SHARED:
        return sg_var_element(&d->m->shared[o->v]);
    case SG_K_LOCAL:
        return d->lvars[o->v].element;
    case SG_K_PARAM:
        return d->m->funcs[d->k->func].params[o->v].element;
    default:
        return 0;
    }
}

/* Behind an array: [i], [%r], [%r + i], in elements of the outermost dimension. */
static int parse_element(struct sg_dec *d, struct sg_opnd *o)
{
    uint64_t size = element_bytes(d, o), n = 0;
    struct sg_opnd x = {0};
    int r;

    if (!size)
        return sg_dec_syntax(d, "'%.*s' is no array", (int)o->name_len, o->name);
    sg_lex_next(&d->l);
    if (!at_constant(d)) {
        r = parse_name(d, &x);
        if (r)
            return r;
        if (x.kind != SG_O_REG || (d->vregs[x.v].cls != SG_C_32 && d->vregs[x.v].cls != SG_C_64))
            return sg_dec_syntax(d, "an index of 32 or 64 bits expected");
        o->index = x.v + 1;
        o->scale = size;
        r = parse_offset(d, &n);
    } else {
        r = sg_const_read_integer(&d->l, SG_CONST_ANY, &n, d->diag);
    }
    if (r)
        return d->err = r;
    if (!sg_tok_is(&d->l, ']'))
        return sg_dec_syntax(d, "']' expected");
    sg_lex_next(&d->l);
    o->imm = n * size;
    o->element = true;
    return 0;
}

/* A vector register or, with a suffix .x .y .z .w (.r .g .b .a), an element of it. */
static int parse_register_vector(struct sg_dec *d, const struct sg_range *v, struct sg_opnd *o)
{
    static const char names[] = "xyzwrgba";
    const struct sg_tok *t = &d->l.tok;
    const char *c = t->kind == SG_T_DIR && t->len == 2 ? strchr(names, t->s[1]) : NULL;

    if (c && *c) {
        const uint32_t i = (uint32_t)(c - names) % 4;

        o->kind = SG_O_REG;
        o->v = v->first + i;
        sg_lex_next(&d->l);
        return 0;
    }
    o->kind = SG_O_VEC;
    o->nel = v->count;
    for (uint32_t i = 0; i < v->count; i++)
        o->el[i] = (struct sg_opel){.kind = SG_O_REG, .v = v->first + i};
    return 0;
}

/* %tid and similar registers without a suffix: all four elements. */
static bool find_sreg_vector(const char *s, uint32_t len, struct sg_opnd *o)
{
    char full[48];

    if (len + 2 > sizeof(full))
        return false;
    memcpy(full, s, len);
    full[len] = '.';
    for (uint32_t i = 0; i < 4; i++) {
        int sr;

        full[len + 1] = "xyzw"[i];
        sr = find_sreg(full, len + 2);
        if (sr < 0)
            return false;
        o->el[i] = (struct sg_opel){.kind = SG_O_SREG, .v = (uint32_t)sr};
    }
    o->kind = SG_O_VEC;
    o->nel = 4;
    return true;
}

/* .b0 or .h10 behind a register: of the video instructions. */
static int parse_part(struct sg_dec *d, struct sg_opnd *o)
{
    const struct sg_tok *t = &d->l.tok;

    if (t->kind != SG_T_DIR || t->len > sizeof(o->part) || (t->s[1] != 'b' && t->s[1] != 'h'))
        return 0;
    memcpy(o->part, t->s + 1, t->len - 1);
    o->part[t->len - 1] = 0;
    sg_lex_next(&d->l);
    return 0;
}

/* The meaning of an identifier: register, special register, symbol, or just a name. */
static int parse_name(struct sg_dec *d, struct sg_opnd *o)
{
    struct sg_tok t = d->l.tok;
    struct sg_named y;
    char full[48];
    bool known;
    int sr;

    o->name = t.s;
    o->name_len = t.len;
    if (t.len == 1 && t.s[0] == '_') {
        o->kind = SG_O_SINK;
        sg_lex_next(&d->l);
        return 0;
    }
    known = sg_dec_find(d, t.s, t.len, &y);
    if (d->err)
        return d->err;
    sg_lex_next(&d->l);
    if (known && y.kind == SG_K_REG) {
        o->kind = SG_O_REG;
        o->v = y.index;
        return parse_part(d, o);
    }
    if (known && y.kind == SG_K_VECTOR)
        return parse_register_vector(d, &d->ranges[y.index], o);
    if (known) {
        o->kind = SG_O_SYM;
        o->symkind = (uint8_t)y.kind;
        o->v = y.index;
        return 0;
    }
    if (t.s[0] == '%' && t.len < 40) {
        uint32_t n = t.len;

        memcpy(full, t.s, n);
        if (d->l.tok.kind == SG_T_DIR && d->l.tok.len == 2) {
            memcpy(full + n, d->l.tok.s, 2);
            n += 2;
        }
        if (sreg_target(t.s, t.len) > d->m->target)
            return sg_dec_syntax(d, "'%.*s' needs .target sm_%u or higher", (int)t.len, t.s,
                                 sreg_target(t.s, t.len));
        sr = find_sreg(full, n);
        if (sr >= 0) {
            o->kind = SG_O_SREG;
            o->v = (uint32_t)sr;
            if (n != t.len)
                sg_lex_next(&d->l);
            return 0;
        }
        if (find_sreg_vector(t.s, t.len, o))
            return 0;
        return sg_dec_syntax(d, "unknown register '%.*s'", (int)t.len, t.s);
    }
    o->kind = SG_O_NAME;
    return 0;
}

static int parse_number(struct sg_dec *d, struct sg_opnd *o)
{
    struct sg_const c;
    int r;

    if (d->l.tok.over)
        d->l.tok.kind = SG_T_INT; /* ptxas takes the low 64 bits, but refuses it in an initialiser */
    r = sg_const_read(&d->l, SG_CONST_ANY, &c, d->diag);
    if (r)
        return d->err = r;
    o->imm = c.bits;
    o->kind = c.kind == SG_CONST_F32 ? SG_O_F32 : c.kind == SG_CONST_F64 ? SG_O_F64 : SG_O_IMM;
    return 0;
}

/* Moves the first elements of a vector to the list of the instruction, of which there is one: of wgmma its first
   operand, of tcgen05 any. */
static int begin_list(struct sg_dec *d, struct sg_opnd *o)
{
    const bool any = !strcmp(d->oc.base, "tcgen05");
    bool used = o != &d->ops[d->nops];

    if (!any && strcmp(d->oc.base, "wgmma"))
        return sg_dec_refuse(d, "vectors of more than 8 elements are not available");
    for (uint32_t i = 0; i < d->nops; i++)
        used |= !any || d->ops[i].kind == SG_O_LIST;
    if (used)
        return sg_dec_syntax(d, "%s: more than 8 registers in another operand than the first", d->oc.full);
    memcpy(d->list, o->el, sizeof(o->el));
    o->kind = SG_O_LIST;
    return 0;
}

static int parse_vector(struct sg_dec *d, struct sg_opnd *o)
{
    o->kind = SG_O_VEC;
    o->nel = 0;
    sg_lex_next(&d->l);
    while (!sg_tok_is(&d->l, '}')) {
        struct sg_opnd x = {0};
        int r = at_constant(d) ? parse_number(d, &x) : parse_name(d, &x);

        if (!r && o->nel == SG_MAX_VEC)
            r = begin_list(d, o);
        if (r)
            return r;
        if (o->nel == SG_MAX_LIST)
            return sg_dec_syntax(d, "%s: more than %u registers", d->oc.full, SG_MAX_LIST);
        if (x.kind == SG_O_SYM || x.kind == SG_O_NAME || x.kind == SG_O_VEC)
            return sg_dec_syntax(d, "a register expected in a vector");
        (o->kind == SG_O_LIST ? d->list : o->el)[o->nel++] = (struct sg_opel){x.kind, x.v, x.imm};
        if (sg_tok_is(&d->l, ','))
            sg_lex_next(&d->l);
        else if (!sg_tok_is(&d->l, '}'))
            return sg_dec_syntax(d, "',' or '}' expected");
    }
    sg_lex_next(&d->l);
    return 0;
}

/* Behind the texture or surface in an address: {sampler,} coordinates. */
static int parse_coords(struct sg_dec *d, struct sg_opnd *o)
{
    struct sg_opnd x = {0};
    int r;

    sg_lex_next(&d->l);
    o->coords = true;
    if (d->l.tok.kind == SG_T_ID) {
        r = parse_name(d, &x);
        if (r)
            return r;
        if (!sg_tok_is(&d->l, ',')) { /* a single coordinate, without braces */
            o->nel = 1;
            o->bare = true;
            o->el[0] = (struct sg_opel){x.kind, x.v, x.imm};
            return x.kind == SG_O_SYM || x.kind == SG_O_NAME || x.kind == SG_O_VEC
                       ? sg_dec_syntax(d, "a coordinate expected")
                       : 0;
        }
        if (x.kind != SG_O_REG && (x.kind != SG_O_SYM || x.symkind != SG_K_OPAQUE))
            return sg_dec_syntax(d, "a sampler expected");
        o->has_sampler = true;
        o->sampler_sym = x.kind == SG_O_SYM;
        o->sampler = x.v;
        sg_lex_next(&d->l);
    }
    if (!sg_tok_is(&d->l, '{'))
        return sg_dec_syntax(d, "coordinates expected");
    r = parse_vector(d, &x);
    if (r)
        return r;
    o->nel = x.nel;
    memcpy(o->el, x.el, sizeof(o->el));
    return 0;
}

static int parse_address(struct sg_dec *d, struct sg_opnd *o)
{
    int r;

    sg_lex_next(&d->l);
    if (!at_constant(d)) {
        r = parse_name(d, o);
        if (r)
            return r;
        if (o->kind != SG_O_REG && o->kind != SG_O_SYM)
            return sg_dec_syntax(d, "unknown symbol '%.*s'", (int)o->name_len, o->name);
        if (o->kind == SG_O_REG && sg_type_float((enum sg_type)d->vregs[o->v].type))
            return sg_dec_syntax(d, "an address in a register of floating-point type");
        o->base = o->kind;
    } else {
        r = parse_number(d, o);
        if (r)
            return r;
        if (o->kind != SG_O_IMM)
            return sg_dec_syntax(d, "an address expected");
        o->base = SG_O_NONE;
    }
    o->kind = SG_O_ADDR;
    r = parse_offset(d, &o->imm);
    if (r)
        return r;
    if (sg_tok_is(&d->l, ',')) {
        r = parse_coords(d, o);
        if (r)
            return r;
    }
    if (!sg_tok_is(&d->l, ']'))
        return sg_dec_syntax(d, "']' expected");
    sg_lex_next(&d->l);
    return 0;
}

/* |q behind p or a vector */
static int parse_second(struct sg_dec *d, struct sg_opnd *o)
{
    struct sg_opnd q = {0};
    int r;

    if (!sg_tok_is(&d->l, '|'))
        return 0;
    sg_lex_next(&d->l);
    if (d->l.tok.kind != SG_T_ID)
        return sg_dec_syntax(d, "a predicate expected behind '|'");
    r = parse_name(d, &q);
    if (r)
        return r;
    o->pq_sink = q.kind == SG_O_SINK;
    if (o->pq_sink)
        q.v = sg_temp(d, SG_TY_PRED);
    else if (q.kind != SG_O_REG || d->vregs[q.v].cls != SG_C_PRED)
        return sg_dec_syntax(d, "a predicate expected behind '|'");
    o->has_pq = true;
    o->pq = q.v;
    return 0;
}

int sg_parse_operand(struct sg_dec *d, struct sg_opnd *o)
{
    int r;

    memset(o, 0, offsetof(struct sg_opnd, el));
    if (sg_tok_is(&d->l, '{')) {
        r = parse_vector(d, o);
        return r ? r : parse_second(d, o);
    }
    if (sg_tok_is(&d->l, '['))
        return parse_address(d, o);
    if (sg_tok_is(&d->l, '!')) { /* negation of a predicate, or of a constant */
        struct sg_lex sign = d->l;

        sg_lex_next(&d->l);
        o->neg = !at_constant(d);
        if (!o->neg)
            d->l = sign;
    }
    if (at_constant(d))
        return parse_number(d, o);
    r = parse_name(d, o);
    if (r)
        return r;
    if (o->kind == SG_O_SYM && sg_tok_is(&d->l, '['))
        return parse_element(d, o);
    if (o->kind == SG_O_SYM)
        return parse_offset(d, &o->imm);
    return parse_second(d, o);
}

int sg_opcode_parse(struct sg_opcode *oc, const char *text)
{
    char *p;

    oc->ntypes = oc->nmods = 0;
    strncpy(oc->full, text, sizeof(oc->full) - 1);
    oc->full[sizeof(oc->full) - 1] = 0;
    memcpy(oc->text, oc->full, sizeof(oc->text));
    p = oc->text;
    oc->base = p;
    while (*p) {
        enum sg_type t;
        char *q;

        while (*p && *p != '.')
            p++;
        if (!*p)
            break;
        *p++ = 0;
        for (q = p; *q && *q != '.'; q++)
            ;
        t = sg_type_of(p, (size_t)(q - p));
        if (t != SG_TY_NONE) {
            if (oc->ntypes == SG_MAX_TYPES)
                return -1;
            oc->types[oc->ntypes++] = (uint8_t)t;
        } else {
            if (oc->nmods == SG_MAX_MODS)
                return -1;
            oc->used[oc->nmods] = false;
            oc->mods[oc->nmods++] = p;
        }
        p = q;
    }
    return 0;
}

bool sg_mod(struct sg_dec *d, const char *name)
{
    bool r = false;

    for (uint32_t i = 0; i < d->oc.nmods; i++)
        if (!strcmp(d->oc.mods[i], name))
            r = d->oc.used[i] = true;
    return r;
}
