/* SPDX-License-Identifier: MIT */
/* Module level of PTX: directives, variables, functions; bodies are only found, not read. */
#include "ptx/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parse {
    struct sg_lex l;
    struct sg_module *m;
    struct sg_diag *diag;
};

static int module_bad(struct parse *p, const char *what)
{
    return sg_lex_bad(&p->l, p->diag, what);
}

static int module_nomem(struct parse *p)
{
    return sg_diag_at(p->diag, SG_ERR_NOMEM, p->l.tok.line, 0, "out of memory");
}

static char *name_dup(const char *s, uint32_t len)
{
    char *n = malloc(len + 1);

    if (n) {
        memcpy(n, s, len);
        n[len] = 0;
    }
    return n;
}

static int add_opaque(struct parse *p, const struct sg_decl *d)
{
    struct sg_module *m = p->m;
    char *name;

    if (d->opaque_kind == SG_OPAQUE_SAMPLERREF && !m->independent)
        return sg_diag_at(p->diag, SG_ERR_PTX, d->line, d->col,
                          "sampler variables need .target texmode_independent");
    if (d->v.is_const)
        return sg_diag_at(p->diag, SG_ERR_PTX, d->line, d->col, "textures and surfaces are in .global");
    if (d->v.ndims || m->nopaques >= SG_RELOC_OPAQUE - 1)
        return sg_diag_at(p->diag, SG_ERR_UNSUPPORTED, d->line, d->col,
                          "arrays of texture, surface and sampler variables");
    if (!sg_grow(&m->opaques, &m->cap_opaques, m->nopaques, sizeof(*m->opaques)))
        return module_nomem(p);
    name = name_dup(d->name, d->name_len);
    if (!name)
        return module_nomem(p);
    m->opaques[m->nopaques] = (struct sg_opaque){name, d->opaque_kind, 0, d->v.init, d->v.init_line};
    return sg_sym_add(&m->symtab, 0, d->name, d->name_len, SG_K_OPAQUE, m->nopaques++) ? 0 : module_nomem(p);
}

/* Counts a definition among the constants. */
static int count_const(struct parse *p, const struct sg_decl *d, const struct sg_var *v)
{
    if (!v->is_const || v->is_extern || sg_size_add(&p->m->const_bytes, v->size, SG_MAX_CONST))
        return 0;
    return sg_diag_at(p->diag, SG_ERR_PTX, d->line, d->col, "more than %u bytes of .const", SG_MAX_CONST);
}

/* Repeated declarations (.extern first, definition later) share an entry. */
static int add_var(struct parse *p, const struct sg_decl *d, const struct sg_var *v)
{
    struct sg_module *m = p->m;
    struct sg_sym *y = sg_sym_find(&m->symtab, 0, d->name, d->name_len);
    struct sg_var **tab = v->is_shared ? &m->shared : &m->vars;
    uint32_t *n = v->is_shared ? &m->nshared : &m->nvars;
    uint32_t *cap = v->is_shared ? &m->cap_shared : &m->cap_vars;
    uint32_t kind = d->opaque ? SG_K_OPAQUE : v->is_shared ? SG_K_SHARED : SG_K_GLOBAL;
    struct sg_var *slot;
    char *name;

    if (y) {
        if (y->kind != kind || (kind != SG_K_OPAQUE && !(*tab)[y->index].is_extern && !v->is_extern))
            return sg_diag_at(p->diag, SG_ERR_PTX, d->line, d->col, "'%.*s' is defined twice",
                              (int)d->name_len, d->name);
        if (v->is_extern || kind == SG_K_OPAQUE)
            return 0;
        slot = &(*tab)[y->index];
        name = slot->name;
        *slot = *v;
        slot->name = name;
        return count_const(p, d, v);
    }
    if (kind == SG_K_OPAQUE)
        return add_opaque(p, d);
    if (!sg_grow(tab, cap, *n, sizeof(**tab)))
        return module_nomem(p);
    name = name_dup(d->name, d->name_len);
    if (!name)
        return module_nomem(p);
    slot = &(*tab)[*n];
    *slot = *v;
    slot->name = name;
    if (!sg_sym_add(&m->symtab, 0, d->name, d->name_len, kind, (*n)++)) /* freed with the module */
        return module_nomem(p);
    return count_const(p, d, v);
}

/* Skips an initialiser; counts its elements when the array has no size of its own. */
static int parse_init(struct parse *p, struct sg_decl *d)
{
    const char *text;

    sg_lex_skip_ws(&p->l);
    text = p->l.p;
    d->v.init = text;
    d->v.init_line = p->l.line;
    sg_lex_next(&p->l);
    if (d->v.unsized) {
        struct sg_lex sub;
        uint64_t n; /* rows, then bytes */
        int r;

        sg_lex_init(&sub, text, p->l.end, d->v.init_line);
        r = sg_init_count(&sub, &n, p->diag);
        if (r)
            return r;
        if (n > UINT32_MAX)
            return module_bad(p, "array dimension too large");
        d->v.dims[0] = (uint32_t)n;
        for (uint32_t i = 1; i < d->v.ndims; i++)
            if (!sg_size_mul(&n, d->v.dims[i], SG_MAX_GLOBAL))
                return module_bad(p, "array too large");
        if (!sg_size_mul(&n, (uint64_t)sg_type_size(d->v.type) * d->vec, SG_MAX_GLOBAL))
            return module_bad(p, "array too large");
        d->v.size = n;
        d->v.unsized = false;
    }
    if (sg_tok_is(&p->l, '{')) {
        if (!sg_lex_skip_block(&p->l))
            return module_bad(p, "'}' missing");
    } else {
        while (!sg_tok_is(&p->l, ';') && !sg_tok_is(&p->l, ',') && p->l.tok.kind != SG_T_EOF)
            sg_lex_next(&p->l);
    }
    return 0;
}

static bool is_reserved(const char *name, uint32_t len)
{
    return (len == 1 && name[0] == '_') || (len == 7 && !memcmp(name, "WARP_SZ", 7));
}

static int parse_var(struct parse *p, bool is_extern)
{
    struct sg_decl d = {0};
    bool is_const = sg_tok_eq(&p->l.tok, ".const");
    bool is_shared = sg_tok_eq(&p->l.tok, ".shared");
    uint32_t align;
    int r;

    sg_lex_next(&p->l);
    if (is_const && sg_tok_is(&p->l, '['))
        return sg_diag_at(p->diag, SG_ERR_UNSUPPORTED, p->l.tok.line, p->l.tok.col,
                          "numbered constant banks are not available");
    r = sg_decl_head(&p->l, &d, p->diag);
    if (!r && d.v.type == SG_TY_PRED)
        r = module_bad(p, "a predicate that is no register");
    if (!r && d.v.is_managed && (is_const || is_shared))
        r = module_bad(p, "'.managed' outside of global memory");
    align = d.v.align;
    for (;;) {
        if (r)
            return r;
        d.v.align = align;
        d.v.init = NULL;
        r = sg_decl_name(&p->l, &d, p->diag);
        if (r)
            return r;
        d.v.is_const = is_const;
        d.v.is_shared = is_shared;
        d.v.is_extern = is_extern;
        if (sg_tok_is(&p->l, '=')) {
            if (is_shared)
                return module_bad(p, "shared memory has no initialiser");
            r = parse_init(p, &d);
            if (r)
                return r;
        }
        if (!is_extern && !d.opaque && !d.v.size)
            return module_bad(p, "a size expected: only a variable that is .extern has none");
        if (is_reserved(d.name, d.name_len))
            return module_bad(p, "a reserved name: '_' and WARP_SZ are no variables");
        r = add_var(p, &d, &d.v);
        if (r)
            return r;
        if (!sg_tok_is(&p->l, ','))
            break;
        sg_lex_next(&p->l);
    }
    if (!sg_tok_is(&p->l, ';'))
        return module_bad(p, "';' expected");
    sg_lex_next(&p->l);
    return 0;
}

static int parse_dims(struct parse *p, uint32_t v[3])
{
    sg_lex_next(&p->l);
    v[0] = v[1] = v[2] = 1;
    for (int i = 0; i < 3; i++) {
        if (p->l.tok.kind != SG_T_INT || p->l.tok.ival > UINT32_MAX)
            return module_bad(p, "a number expected");
        v[i] = (uint32_t)p->l.tok.ival;
        sg_lex_next(&p->l);
        if (!sg_tok_is(&p->l, ','))
            break;
        sg_lex_next(&p->l);
    }
    return 0;
}

/* Limits of a kernel's blocks: at least 1 in each direction. */
static int parse_limit(struct parse *p, uint32_t v[3])
{
    int r = parse_dims(p, v);

    return r || (v[0] && v[1] && v[2]) ? r : module_bad(p, "a number above 0 expected");
}

static bool is_cluster_directive(const struct sg_tok *t)
{
    return sg_tok_eq(t, ".reqnctapercluster") || sg_tok_eq(t, ".maxclusterrank") ||
           sg_tok_eq(t, ".explicitcluster") || sg_tok_eq(t, ".blocksareclusters");
}

static bool is_function_directive(const struct sg_tok *t)
{
    return sg_tok_eq(t, ".noreturn") || sg_tok_eq(t, ".abi_preserve") ||
           sg_tok_eq(t, ".abi_preserve_control") || sg_tok_eq(t, ".attribute") || sg_tok_eq(t, ".pragma");
}

/* Directives between the parameters and the body. */
static int parse_func_directives(struct parse *p, struct sg_func *f)
{
    bool areclusters = false;

    while (p->l.tok.kind == SG_T_DIR) {
        uint32_t v[3];
        int r = 0;

        if (!f->is_entry && !is_function_directive(&p->l.tok))
            return module_bad(p, "a directive of kernels, not of functions");
        if (is_cluster_directive(&p->l.tok) && p->m->target < 90)
            return module_bad(p, "directives of clusters need .target sm_90 or higher");
        if (sg_tok_eq(&p->l.tok, ".maxntid"))
            r = parse_limit(p, f->maxntid);
        else if (sg_tok_eq(&p->l.tok, ".reqntid"))
            r = parse_limit(p, f->reqntid);
        else if (sg_tok_eq(&p->l.tok, ".minnctapersm"))
            r = parse_limit(p, v);
        else if (sg_tok_eq(&p->l.tok, ".maxnreg")) {
            r = parse_dims(p, v);
            f->maxnreg = v[0];
            if (!r && !v[0])
                return module_bad(p, "a number above 0 expected");
        } else if (sg_tok_eq(&p->l.tok, ".reqnctapercluster"))
            r = parse_dims(p, f->cluster);
        else if (sg_tok_eq(&p->l.tok, ".maxclusterrank")) {
            r = parse_dims(p, v);
            f->max_cluster = v[0];
        } else if (sg_tok_eq(&p->l.tok, ".explicitcluster")) {
            f->explicit_cluster = true;
            sg_lex_next(&p->l);
        } else if (sg_tok_eq(&p->l.tok, ".blocksareclusters")) {
            areclusters = true;
            sg_lex_next(&p->l);
        } else if (sg_tok_eq(&p->l.tok, ".noreturn") && f->is_entry) {
            return module_bad(p, "'.noreturn' is for functions, not for kernels");
        } else if (sg_tok_eq(&p->l.tok, ".pragma")) {
            r = sg_parse_pragma(&p->l, p->diag);
        } else if (sg_tok_eq(&p->l.tok, ".maxnctapersm") && p->m->version >= 21) {
            return module_bad(p, "'.maxnctapersm' is for PTX .version 2.0 and lower");
        } else { /* .noreturn .abi_preserve ...: hints */
            sg_lex_next(&p->l);
            while (p->l.tok.kind == SG_T_INT || sg_tok_is(&p->l, ','))
                sg_lex_next(&p->l);
        }
        if (r)
            return r;
    }
    if (areclusters && (!f->reqntid[0] || !f->cluster[0]))
        return module_bad(p, "'.blocksareclusters' needs '.reqntid' and '.reqnctapercluster'");
    if (f->max_cluster && f->cluster[0])
        return module_bad(p, "'.maxclusterrank' and '.reqnctapercluster' of one kernel");
    return f->maxntid[0] && f->reqntid[0] ? module_bad(p, "'.maxntid' and '.reqntid' of one kernel") : 0;
}

/* Adds f, or completes an earlier declaration; *out is its index. On failure the caller still
   owns f. */
static int func_slot(struct parse *p, struct sg_func *f, const struct sg_tok *name, struct sg_func **out)
{
    struct sg_module *m = p->m;
    struct sg_sym *y = sg_sym_find(&m->symtab, 0, name->s, name->len);

    if (y) {
        struct sg_func *old = y->kind == SG_K_FUNC || y->kind == SG_K_ENTRY ? &m->funcs[y->index] : NULL;

        if (!old || (old->body && f->body) || old->is_entry != f->is_entry) {
            return sg_diag_at(p->diag, SG_ERR_PTX, name->line, name->col, "'%.*s' is defined twice",
                              (int)name->len, name->s);
        }
        if (!sg_same_prototype(old, f))
            return sg_diag_at(p->diag, SG_ERR_PTX, name->line, name->col,
                              "'%.*s' is declared with other parameters", (int)name->len, name->s);
        *out = old;
        if (old->body) { /* a later declaration adds nothing */
            sg_func_clear(f);
            return 0;
        }
        sg_func_clear(old);
        *old = *f;
        return 0;
    }
    if (!sg_grow(&m->funcs, &m->cap_funcs, m->nfuncs, sizeof(*m->funcs)) ||
        !sg_sym_add(&m->symtab, 0, name->s, name->len, f->is_entry ? SG_K_ENTRY : SG_K_FUNC, m->nfuncs))
        return module_nomem(p);
    m->funcs[m->nfuncs] = *f;
    *out = &m->funcs[m->nfuncs++];
    return 0;
}

static int add_kernel(struct parse *p, struct sg_func *f)
{
    struct sg_module *m = p->m;
    uint32_t index = (uint32_t)(f - m->funcs);
    struct sg_kernel *k;

    if (!sg_grow(&m->kernels, &m->cap_kernels, m->nkernels, sizeof(*m->kernels)))
        return module_nomem(p);
    k = calloc(1, sizeof(*k));
    if (!k)
        return module_nomem(p);
    k->ops = &sg_kernel_ops;
    k->module = m;
    k->func = index;
    memcpy(k->cluster, f->cluster, sizeof(k->cluster));
    pthread_mutex_init(&k->lock, NULL);
    m->kernels[m->nkernels++] = k;
    f->kernel = m->nkernels;
    k->params = calloc(f->nparams ? f->nparams : 1, sizeof(*k->params));
    if (!k->params)
        return module_nomem(p);
    for (uint32_t i = 0; i < f->nparams; i++) {
        k->params[i].offset = f->params[i].offset;
        k->params[i].size = f->params[i].size;
        k->param_bytes = f->params[i].offset + f->params[i].size;
    }
    return 0;
}

static int parse_func_rest(struct parse *p, struct sg_func *f, struct sg_tok *name)
{
    int r;

    if (!f->is_entry && sg_tok_is(&p->l, '(')) {
        r = sg_parse_params(&p->l, &f->rets, &f->nrets, p->diag);
        if (r)
            return r;
    }
    if (p->l.tok.kind != SG_T_ID)
        return module_bad(p, "a function name expected");
    *name = p->l.tok;
    sg_lex_next(&p->l);
    if (sg_tok_is(&p->l, '(')) {
        r = sg_parse_params(&p->l, &f->params, &f->nparams, p->diag);
        if (!r && f->is_entry)
            r = sg_check_entry_params(&p->l, f, p->diag);
        if (r)
            return r;
    }
    r = parse_func_directives(p, f);
    if (r)
        return r;
    if (sg_tok_is(&p->l, '{') && f->is_extern)
        return module_bad(p, "'.extern' and a body");
    if (sg_tok_is(&p->l, '{')) {
        f->body = p->l.p;
        f->body_line = p->l.line;
        if (!sg_lex_skip_block(&p->l))
            return sg_diag_at(p->diag, SG_ERR_PTX, name->line, name->col,
                              "syntax error: the body of '%.*s' has no end", (int)name->len, name->s);
        f->body_end = p->l.tok.kind == SG_T_EOF ? p->l.end : p->l.tok.s;
        while (f->body_end > f->body && f->body_end[-1] != '}')
            f->body_end--;
    } else if (sg_tok_is(&p->l, ';')) {
        sg_lex_next(&p->l);
    } else {
        return module_bad(p, "'{' or ';' expected");
    }
    return 0;
}

static int parse_func(struct parse *p, bool is_extern, bool is_weak)
{
    struct sg_func f = {.alias = -1, .is_extern = is_extern, .is_weak = is_weak}, *slot = NULL;
    struct sg_tok name = {0};
    bool body;
    int r;

    f.is_entry = sg_tok_eq(&p->l.tok, ".entry");
    sg_lex_next(&p->l);
    while (p->l.tok.kind == SG_T_DIR && sg_tok_eq(&p->l.tok, ".attribute")) {
        struct sg_decl d = {0};

        d.v.type = SG_TY_B32; /* only the attribute is wanted */
        d.attribute_only = true;
        r = sg_decl_head(&p->l, &d, p->diag);
        if (r)
            return r;
    }
    r = parse_func_rest(p, &f, &name);
    if (r) {
        sg_func_clear(&f);
        return r;
    }
    f.name = name_dup(name.s, name.len);
    if (!f.name) {
        sg_func_clear(&f);
        return module_nomem(p);
    }
    body = f.body != NULL;
    r = func_slot(p, &f, &name, &slot);
    if (r) {
        sg_func_clear(&f);
        return r;
    }
    return slot->is_entry && body ? add_kernel(p, slot) : 0;
}

static int parse_alias(struct parse *p)
{
    struct sg_sym *a, *b;
    struct sg_tok ta, tb;

    sg_lex_next(&p->l);
    ta = p->l.tok;
    sg_lex_next(&p->l);
    if (ta.kind != SG_T_ID || !sg_tok_is(&p->l, ','))
        return module_bad(p, "two names expected");
    sg_lex_next(&p->l);
    tb = p->l.tok;
    a = sg_sym_find(&p->m->symtab, 0, ta.s, ta.len);
    b = tb.kind == SG_T_ID ? sg_sym_find(&p->m->symtab, 0, tb.s, tb.len) : NULL;
    if (!a || !b || a->kind != SG_K_FUNC || b->kind != SG_K_FUNC || a->index == b->index)
        return module_bad(p, ".alias needs two functions");
    if (p->m->version < 63)
        return module_bad(p, "'.alias' needs PTX .version 6.3 or higher");
    if (p->m->funcs[a->index].body || p->m->funcs[b->index].is_weak)
        return module_bad(p, "an alias has no body and is not of a '.weak' function");
    if (!sg_same_prototype(&p->m->funcs[a->index], &p->m->funcs[b->index]))
        return module_bad(p, "the parameters of an alias are those of its function");
    p->m->funcs[a->index].alias = (int32_t)b->index;
    sg_lex_next(&p->l);
    if (!sg_tok_is(&p->l, ';'))
        return module_bad(p, "';' expected");
    sg_lex_next(&p->l);
    return 0;
}

/* Register limits passed to cuLinkCreate are stored in the linked text (api/code/sgd_link.c). */
static void module_pragma(struct parse *p, const struct sg_tok *t)
{
    static const char key[] = SG_PRAGMA_REGISTERS;
    const char *at = t->s, *end = t->s + t->len;
    uint32_t n = 0;

    if (at < end && *at == '"')
        at++;
    if ((size_t)(end - at) < sizeof(key) || memcmp(at, key, sizeof(key) - 1))
        return;
    for (at += sizeof(key) - 1; at < end && *at >= '0' && *at <= '9' && n < 1000; at++)
        n = n * 10 + (uint32_t)(*at - '0');
    p->m->max_registers = n;
}

/* .section NAME { ... }, .file N "..." [, t, s], .loc ..., .pragma "...";, @@DWARF ... */
static int skip_debug(struct parse *p)
{
    uint32_t line = p->l.tok.line;

    if (sg_tok_eq(&p->l.tok, ".section")) {
        while (!sg_tok_is(&p->l, '{') && p->l.tok.kind != SG_T_EOF)
            sg_lex_next(&p->l);
        if (p->l.tok.kind == SG_T_EOF || !sg_lex_skip_block(&p->l))
            return module_bad(p, "'}' missing");
        return 0;
    }
    if (sg_tok_eq(&p->l.tok, ".pragma")) {
        struct sg_lex at = p->l;

        for (sg_lex_next(&at); at.tok.kind == SG_T_STR || sg_tok_is(&at, ','); sg_lex_next(&at))
            module_pragma(p, &at.tok);
        return sg_parse_pragma(&p->l, p->diag);
    }
    if (sg_tok_eq(&p->l.tok, ".loc"))
        return module_bad(p, "'.loc' outside of a function");
    if (sg_tok_eq(&p->l.tok, ".file")) {
        sg_lex_next(&p->l);
        if (p->l.tok.kind != SG_T_INT)
            return module_bad(p, "the number of a file expected");
        sg_lex_next(&p->l);
        if (p->l.tok.kind != SG_T_STR)
            return module_bad(p, "the name of a file expected");
    }
    while (p->l.tok.line == line && p->l.tok.kind != SG_T_EOF)
        sg_lex_next(&p->l);
    return 0;
}

static int parse_item(struct parse *p)
{
    const struct sg_tok *t = &p->l.tok;
    bool is_extern = sg_tok_eq(t, ".extern"), is_weak = sg_tok_eq(t, ".weak"),
         is_common = sg_tok_eq(t, ".common");

    if (is_extern || is_weak || is_common || sg_tok_eq(t, ".visible"))
        sg_lex_next(&p->l);
    if (is_common && !sg_tok_eq(t, ".global"))
        return module_bad(p, "'.global' expected behind '.common'");
    if (sg_tok_eq(t, ".entry") || sg_tok_eq(t, ".func"))
        return parse_func(p, is_extern, is_weak);
    if (sg_tok_eq(t, ".global") || sg_tok_eq(t, ".const") || sg_tok_eq(t, ".shared"))
        return parse_var(p, is_extern);
    if (sg_tok_eq(t, ".version") && !p->m->version)
        return sg_parse_version(&p->l, p->m, p->diag);
    if (sg_tok_eq(t, ".target") && !p->m->target)
        return sg_parse_target(&p->l, p->m, p->diag);
    if (sg_tok_eq(t, ".alias"))
        return parse_alias(p);
    if (sg_tok_eq(t, ".address_size") && !p->m->address_size && p->m->target) {
        sg_lex_next(&p->l);
        if (t->kind != SG_T_INT || (t->ival != 64 && t->ival != 32))
            return module_bad(p, "32 or 64 expected");
        if (t->ival == 32)
            return sg_diag_at(p->diag, SG_ERR_UNSUPPORTED, t->line, t->col,
                              ".address_size 32 is not available");
        p->m->address_size = 64;
        sg_lex_next(&p->l);
        return 0;
    }
    if (sg_tok_eq(t, ".section") || sg_tok_eq(t, ".file") || sg_tok_eq(t, ".loc") ||
        sg_tok_eq(t, ".pragma") || sg_tok_is(&p->l, '@'))
        return skip_debug(p);
    return module_bad(p, "unexpected text");
}

int sg_module_parse(const char *text, size_t len, struct sg_module **out, struct sg_diag *diag)
{
    struct parse p = {.diag = diag};
    int r = 0;

    *out = NULL;
    if (diag)
        memset(diag, 0, sizeof(*diag));
    if (len > SG_PTX_TEXT_MAX)
        return sg_diag_at(diag, SG_ERR_PTX, 0, 0, "the text is larger than %u bytes", SG_PTX_TEXT_MAX);
    p.m = calloc(1, sizeof(*p.m));
    if (!p.m)
        return sg_diag_at(diag, SG_ERR_NOMEM, 0, 0, "out of memory");
    p.m->text = malloc(len + 1);
    if (!p.m->text) {
        free(p.m);
        return sg_diag_at(diag, SG_ERR_NOMEM, 0, 0, "out of memory");
    }
    pthread_mutex_init(&p.m->lock, NULL);
    memcpy(p.m->text, text, len);
    while (len && !p.m->text[len - 1])
        len--;
    p.m->text[len] = 0;
    p.m->len = len;
    sg_lex_init(&p.l, p.m->text, p.m->text + len, 1);
    if (!sg_tok_eq(&p.l.tok, ".version"))
        r = module_bad(&p, "the text must begin with .version");
    while (!r && p.l.tok.kind != SG_T_EOF)
        r = parse_item(&p);
    if (!r && !p.m->target)
        r = sg_diag_at(diag, SG_ERR_PTX, 1, 1, "syntax error: no .target sm_NN");
    if (r) {
        sg_module_free(p.m);
        return r;
    }
    *out = p.m;
    return 0;
}
