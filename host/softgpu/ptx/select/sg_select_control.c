/* SPDX-License-Identifier: MIT */
/* Emitters: control flow, barriers, calls (PTX ISA 9.7.12, 9.7.13.1). */
#define _GNU_SOURCE /* memmem */
#include "ptx/select/select.h"

#define MAX_INLINE_TEXT (256u << 20) /* bytes of function text read while expanding calls */

static int emit_bra(struct sg_dec *d)
{
    sg_mod(d, "uni");
    if (d->ops[0].kind != SG_O_NAME && d->ops[0].kind != SG_O_SYM)
        return sg_dec_syntax(d, "bra: a label expected");
    sg_emit_bra(d, sg_dec_label(d, d->ops[0].name, d->ops[0].name_len), d->pred.reg, d->pred.neg);
    return d->err;
}

static int emit_brx(struct sg_dec *d)
{
    uint32_t i, list;

    sg_mod(d, "uni");
    if (!sg_mod(d, "idx") || d->ops[1].kind != SG_O_NAME)
        return sg_dec_syntax(d, "brx.idx: a list of targets expected");
    if (!sg_dec_find_targets(d, d->ops[1].name, d->ops[1].name_len, &list))
        return sg_dec_syntax(d, "brx.idx: unknown list of targets '%.*s'", (int)d->ops[1].name_len,
                             d->ops[1].name);
    i = sg_emit(d, SG_OP_brx, NONE, sg_src(d, 0, SG_TY_U32), NONE, NONE);
    if (d->err)
        return d->err;
    d->insns[i].imm = list;
    d->metas[i].ctl = SG_CT_BRX;
    return 0;
}

static int emit_exit(struct sg_dec *d)
{
    bool none = d->pred.reg == NONE;
    uint32_t i = sg_emit(d,
                         none          ? SG_OP_exit
                         : d->pred.neg ? SG_OP_exit_not
                                       : SG_OP_exit_if,
                         NONE, d->pred.reg, NONE, NONE);

    if (!d->err)
        d->metas[i].ctl = SG_CT_EXIT;
    return d->err;
}

static int emit_ret(struct sg_dec *d)
{
    sg_mod(d, "uni");
    if (!d->ret_label)
        return emit_exit(d);
    if (d->ret_label == SG_RET_CALL) {
        struct sg_pred p = d->pred;
        uint32_t around = 0;

        if (p.reg != NONE) {
            around = sg_new_label(d);
            sg_emit_bra(d, around, p.reg, !p.neg);
        }
        uint32_t i = sg_emit(d, SG_OP_return, NONE, NONE, NONE, NONE);

        if (!d->err)
            d->metas[i].ctl = SG_CT_EXIT;
        if (p.reg != NONE)
            sg_place_label(d, around);
        return d->err;
    }
    sg_emit_bra(d, d->ret_label - 1, d->pred.reg, d->pred.neg);
    return d->err;
}

static int emit_trap(struct sg_dec *d)
{
    sg_emit(d, d->oc.base[0] == 't' ? SG_OP_trap : SG_OP_fence, NONE, NONE, NONE, NONE);
    return d->err;
}

/* bar{.cta}.sync a{, b}; .arrive a, b; .red.op p, a{, b}, {!}c; bar.warp.sync m; barrier ... */
static int emit_bar(struct sg_dec *d)
{
    bool red = sg_mod(d, "red");
    uint32_t id, count, c, n = d->nops, k;
    enum sg_op op;

    if (sg_mod(d, "warp")) {
        sg_mod(d, "sync");
        if (n != 1)
            return sg_dec_syntax(d, "bar.warp.sync: 1 operand expected");
        sg_emit(d, SG_OP_wsync, NONE, sg_src(d, 0, SG_TY_B32), NONE, NONE);
        return d->err;
    }
    if (sg_mod(d, "cluster"))
        return sg_emit_cluster_barrier(d);
    sg_mod(d, "cta");
    sg_mod(d, "aligned");
    if (n > red && d->ops[red].kind == SG_O_IMM && d->ops[red].imm >= 16)
        return sg_dec_syntax(d, "%s: there are barriers 0 to 15", d->oc.full);
    if (!red) {
        bool arrive = sg_mod(d, "arrive");

        if (!arrive && !sg_mod(d, "sync"))
            return sg_dec_syntax(d, "%s: .sync, .arrive or .red expected", d->oc.full);
        if (n < 1 || n > 2 || (arrive && n != 2))
            return sg_dec_syntax(d, "%s: wrong number of operands", d->oc.full);
        id = sg_src(d, 0, SG_TY_U32);
        count = n == 2 ? sg_src(d, 1, SG_TY_U32) : sg_const32(d, 0);
        sg_emit(d, arrive ? SG_OP_bar_arrive : SG_OP_bar_sync, NONE, id, count, NONE);
        return d->err;
    }
    if (n < 3 || n > 4)
        return sg_dec_syntax(d, "%s: wrong number of operands", d->oc.full);
    op = sg_mod(d, "popc")  ? SG_OP_bar_red_popc
         : sg_mod(d, "and") ? SG_OP_bar_red_and
         : sg_mod(d, "or")  ? SG_OP_bar_red_or
                            : SG_OP_NONE;
    if (!op)
        return sg_dec_syntax(d, "%s: .popc, .and or .or expected", d->oc.full);
    k = n - 1;
    id = sg_src(d, 1, SG_TY_U32);
    count = n == 4 ? sg_src(d, 2, SG_TY_U32) : sg_const32(d, 0);
    c = sg_src(d, k, SG_TY_PRED);
    sg_emit(d, op, sg_dst(d, 0, op == SG_OP_bar_red_popc ? SG_TY_U32 : SG_TY_PRED), id, count, c);
    return d->err;
}

static int emit_fence(struct sg_dec *d)
{
    static const char *const known[] = {"cta",
                                        "gl",
                                        "sys",
                                        "gpu",
                                        "cluster",
                                        "sc",
                                        "acq_rel",
                                        "acquire",
                                        "release",
                                        "level",
                                        "proxy",
                                        "alias",
                                        "async",
                                        "global",
                                        "shared::cta",
                                        "shared::cluster",
                                        "generic",
                                        "async::generic",
                                        "sync_restrict::shared::cta",
                                        "sync_restrict::shared::cluster",
                                        "mbarrier_init",
                                        "tensormap::generic"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        sg_mod(d, known[i]);
    sg_emit(d, SG_OP_fence, NONE, NONE, NONE, NONE);
    return d->err;
}

static int emit_nanosleep(struct sg_dec *d)
{
    sg_emit(d, SG_OP_nanosleep, NONE, sg_src(d, 0, SG_TY_U32), NONE, NONE);
    return d->err;
}

/* griddepcontrol: launches of a stream already run one after the other */
static int emit_nothing(struct sg_dec *d)
{
    static const char *const known[] = {"launch_dependents", "wait", "inc", "dec", "sync", "aligned", "mask"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        sg_mod(d, known[i]);
    return d->err;
}

const struct sg_family sg_families_ctl[] = {
    {"bra", emit_bra, 1, 1, SG_FAM_PRED, NULL},      {"brx", emit_brx, 2, 2, SG_FAM_CTL, NULL},
    {"ret", emit_ret, 0, 0, SG_FAM_PRED, NULL},      {"exit", emit_exit, 0, 0, SG_FAM_PRED, NULL},
    {"trap", emit_trap, 0, 0, SG_FAM_CTL, NULL},     {"brkpt", emit_trap, 0, 0, 0, NULL},
    {"bar", emit_bar, 1, 4, SG_FAM_CTL, NULL},       {"barrier", emit_bar, 0, 4, SG_FAM_CTL, NULL},
    {"membar", emit_fence, 0, 0, 0, NULL},           {"fence", emit_fence, 0, 2, SG_FAM_GROWS, NULL},
    {"nanosleep", emit_nanosleep, 1, 1, 0, NULL},    {"griddepcontrol", emit_nothing, 0, 0, 0, NULL},
    {"alloca", sg_emit_alloca, 2, 3, 0, NULL},       {"stacksave", sg_emit_alloca, 1, 1, 0, NULL},
    {"stackrestore", sg_emit_alloca, 1, 1, 0, NULL}, {"pmevent", emit_nothing, 1, 1, 0, NULL},
    {"setmaxnreg", emit_nothing, 1, 1, 0, NULL},     {NULL, NULL, 0, 0, 0, NULL},
};

/* ---- calls ---- */

/* ( a, b, ... ) into ops; current token is '(' */
static int call_args(struct sg_dec *d, struct sg_opnd *ops, uint32_t max, uint32_t *n)
{
    *n = 0;
    sg_lex_next(&d->l);
    while (!sg_tok_is(&d->l, ')')) {
        if (*n == max)
            return sg_dec_refuse(d, "too many arguments");
        if (sg_parse_operand(d, &ops[*n]))
            return d->err;
        if (ops[*n].kind == SG_O_SYM && (ops[*n].element || ops[*n].imm))
            return sg_dec_syntax(d, "call: an argument is a whole variable");
        ++*n;
        if (sg_tok_is(&d->l, ','))
            sg_lex_next(&d->l);
        else if (!sg_tok_is(&d->l, ')'))
            return sg_dec_syntax(d, "',' or ')' expected");
    }
    sg_lex_next(&d->l);
    return 0;
}

#define MAX_INDIRECT 64 /* limit of functions that a call through a pointer may reach */

/* Functions that CUDA itself provides to device code: those of sg_is_builtin(). */
static int call_builtin(struct sg_dec *d, const char *name, const struct sg_call *c)
{
    uint32_t a[5], f[5] = {NONE, NONE, NONE, NONE, NONE};

    if (!strcmp(name, "vprintf") && c->nargs == 2 && c->nrets <= 1) {
        d->code->prints = true;
        for (int i = 0; i < 2; i++)
            a[i] = sg_call_arg(d, &c->args[i], SG_TY_U64);
        f[0] = sg_temp(d, SG_TY_S32);
        f[1] = a[0];
        f[2] = a[1];
        sg_emit_x(d, SG_OP_vprintf, f, SG_F_D, SG_F_A | SG_F_B);
        if (c->nrets && !d->err)
            return sg_call_ret(d, &c->rets[0], SG_TY_S32, f[0]);
        return d->err;
    }
    if (!strcmp(name, "malloc") && c->nargs == 1 && c->nrets == 1) {
        d->code->allocates = true;
        f[0] = sg_temp(d, SG_TY_U64);
        sg_emit(d, SG_OP_malloc, f[0], sg_call_arg(d, &c->args[0], SG_TY_U64), NONE, NONE);
        return d->err ? d->err : sg_call_ret(d, &c->rets[0], SG_TY_U64, f[0]);
    }
    if (!strcmp(name, "free") && c->nargs == 1 && !c->nrets) {
        d->code->allocates = true;
        sg_emit(d, SG_OP_free, NONE, sg_call_arg(d, &c->args[0], SG_TY_U64), NONE, NONE);
        return d->err;
    }
    if (!strcmp(name, "cudaGraphSetConditional") && c->nargs == 2 && !c->nrets) {
        a[0] = sg_call_arg(d, &c->args[0], SG_TY_U64);
        a[1] = sg_call_arg(d, &c->args[1], SG_TY_U32);
        sg_emit(d, SG_OP_setcond, NONE, a[0], a[1], NONE);
        return d->err;
    }
    if (!strcmp(name, "__assertfail") && c->nargs == 5) {
        for (int i = 0; i < 5; i++)
            a[i] = sg_call_arg(d, &c->args[i], i == 2 ? SG_TY_U32 : SG_TY_U64);
        f[0] = a[0];
        f[1] = a[1];
        f[2] = a[2];
        f[3] = a[3];
        sg_emit_x(d, SG_OP_assertfail, f, 0, SG_F_D | SG_F_A | SG_F_B | SG_F_C);
        return d->err;
    }
    if (sg_call_cdp(d, name, c) || sg_call_graph(d, name, c))
        return d->err;
    snprintf(d->oc.full, sizeof(d->oc.full), "call %.80s", name);
    return sg_dec_refuse(d, SG_NO_BODY);
}

/*
 * Binds the names of the callee's parameters to the caller's arguments. *reg: the register of a parameter
 * held in a register; *place: a local variable other than the caller's, or NONE. Later look-ups by name would
 * be ambiguous, since several results may be called "_".
 */
static int bind_parameter(struct sg_dec *d, const struct sg_pdecl *p, const struct sg_opnd *o, bool is_ret,
                          uint32_t *reg, uint32_t *place)
{
    uint32_t kind = SG_K_LOCAL, index;

    *reg = *place = NONE;
    if (p->is_reg) {
        kind = SG_K_REG;
        index = *reg = sg_new_vreg(d, p->type, false);
    } else if (o->kind == SG_O_SYM && o->symkind == SG_K_LOCAL && !d->lvars[o->v].shared) {
        if (d->lvars[o->v].size < p->size)
            return sg_dec_syntax(d, "call: argument '%.*s' is smaller than parameter '%.*s'",
                                 (int)o->name_len, o->name, (int)p->len, p->name);
        index = o->v;
    } else if (!is_ret || o->kind == SG_O_REG) {
        uint32_t at;

        if (!sg_size_place(&d->local_bytes, 16, p->size, SG_MAX_LOCAL, &at))
            return sg_dec_refuse(d, "too much local memory");
        if (!sg_grow(&d->lvars, &d->cap_lvars, d->nlvars, sizeof(*d->lvars)))
            return sg_dec_nomem(d);
        d->lvars[d->nlvars] = (struct sg_lvar){at, p->size, false, true, p->element};
        index = *place = d->nlvars++;
        if (!is_ret) {
            uint32_t v = sg_call_arg(d, o, p->type);

            sg_ldst_local(d, true, p->type, v, d->lvars[index].offset);
        }
    } else {
        return sg_dec_syntax(d, "call: bad argument for '%.*s'", (int)p->len, p->name);
    }
    sg_scope_define(d, p->name, p->len, kind, index);
    return d->err;
}

static int expand_call(struct sg_dec *d, uint32_t func, struct sg_call *c)
{
    const struct sg_func *f = &d->m->funcs[func];
    uint32_t save_base = d->func_base, save_ret = d->ret_label;
    uint32_t label, ret_regs[SG_MAX_ARGS], places[SG_MAX_ARGS], reg, place, stack = NONE;
    struct sg_lex save = d->l;

    if (d->apart && !d->in_span && !sg_call_by_register(f))
        return sg_call_real(d, func, c);
    for (uint32_t i = 0; i < d->depth; i++)
        if (d->call_stack[i] == func)
            return sg_call_real(d, func, c);
    if (d->depth == SG_MAX_CALL_DEPTH)
        return sg_call_real(d, func, c);
    if (d->nscopes == SG_MAX_SCOPES)
        return sg_dec_refuse(d, "scopes are nested too deeply");
    d->parsed_bytes += (uint64_t)(f->body_end - f->body);
    if (d->parsed_bytes > MAX_INLINE_TEXT) {
        d->large = true;
        return sg_dec_refuse(d, "the called functions are too large");
    }
    if (c->nargs != f->nparams || c->nrets != f->nrets)
        return sg_dec_syntax(d, "call: %s takes %u arguments and returns %u values", f->name, f->nparams,
                             f->nrets);
    d->call_stack[d->depth++] = func;
    sg_scope_open(d);
    for (uint32_t i = 0; i < f->nparams && !d->err; i++) {
        bind_parameter(d, &f->params[i], &c->args[i], false, &reg, &place);
        if (reg != NONE && !d->err)
            sg_emit(d, sg_call_mov(f->params[i].type), reg, sg_call_arg(d, &c->args[i], f->params[i].type),
                    NONE, NONE);
    }
    for (uint32_t i = 0; i < f->nrets && !d->err; i++)
        bind_parameter(d, &f->rets[i], &c->rets[i], true, &ret_regs[i], &places[i]);
    d->func_base = d->nscopes - 1;
    label = sg_new_label(d);
    d->ret_label = label + 1;
    if (memmem(f->body, (size_t)(f->body_end - f->body), "alloca", 6))
        stack = sg_stack_save(d); /* its allocations end with it */
    if (!d->err)
        d->read_body(d, f->body, f->body_end - 1, f->body_line);
    if (!d->err)
        sg_place_label(d, label);
    if (stack != NONE)
        sg_stack_restore(d, stack);
    for (uint32_t i = 0; i < f->nrets && !d->err; i++) {
        if (places[i] != NONE) {
            ret_regs[i] = sg_temp(d, f->rets[i].type);
            sg_ldst_local(d, false, f->rets[i].type, ret_regs[i], d->lvars[places[i]].offset);
        }
        if (ret_regs[i] != NONE)
            sg_call_ret(d, &c->rets[i], f->rets[i].type, ret_regs[i]);
    }
    if (!d->err)
        sg_scope_close(d);
    d->depth--;
    d->func_base = save_base;
    d->ret_label = save_ret;
    d->l = save;
    return d->err;
}

/* True if an argument of a call through a pointer matches this parameter of a function's prototype. */
static bool argument_fits(const struct sg_dec *d, const struct sg_pdecl *p, const struct sg_opnd *o,
                          bool is_ret)
{
    if (!p->is_reg)
        return o->kind == SG_O_SYM && o->symkind == SG_K_LOCAL && d->lvars[o->v].size == p->size;
    if (p->type == SG_TY_PRED || p->vec > 1)
        return false;
    if (o->kind == SG_O_REG)
        return sg_type_size((enum sg_type)d->vregs[o->v].type) == p->size;
    return o->kind == SG_O_IMM && !is_ret;
}

/* True if a call through a pointer with these arguments may target this function. */
static bool signature_fits(const struct sg_dec *d, const struct sg_func *f, const struct sg_call *c)
{
    const struct sg_pdecl *p[2] = {f->params, f->rets};
    const struct sg_opnd *o[2] = {c->args, c->rets};
    const uint32_t n[2] = {c->nargs, c->nrets};

    if (f->is_entry || !f->body || !f->taken || f->nparams != c->nargs || f->nrets != c->nrets)
        return false;
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < n[k]; i++)
            if (!argument_fits(d, &p[k][i], &o[k][i], k == 1))
                return false;
    return true;
}

static void take_address(struct sg_module *m, const struct sg_tok *t)
{
    struct sg_sym *y = t->kind == SG_T_ID ? sg_sym_find(&m->symtab, 0, t->s, t->len) : NULL;

    if (y && y->kind == SG_K_FUNC)
        m->funcs[y->index].taken = true;
}

static void take_moves(struct sg_module *m, const char *opcode)
{
    const char *p = m->text, *end = m->text + m->len;

    while ((p = memmem(p, (size_t)(end - p), opcode, strlen(opcode)))) {
        struct sg_lex l;

        p += strlen(opcode);
        /* destination , source; the bound keeps a text full of comments from costing n^2 */
        sg_lex_init(&l, p, end - p > 512 ? p + 512 : end, 1);
        sg_lex_next(&l);
        if (!sg_tok_is(&l, ','))
            continue;
        sg_lex_next(&l);
        take_address(m, &l.tok);
    }
}

/* Marks the functions whose address is taken by an initialiser or a mov. */
static void module_find_taken(struct sg_module *m)
{
    pthread_mutex_lock(&m->lock);
    if (!m->taken_known) {
        for (uint32_t i = 0; i < m->nvars; i++) {
            struct sg_lex l;

            if (!m->vars[i].init || sg_type_size(m->vars[i].type) != 8)
                continue;
            sg_lex_init(&l, m->vars[i].init, m->text + m->len, 1);
            for (; l.tok.kind != SG_T_EOF && !sg_tok_is(&l, ';'); sg_lex_next(&l))
                take_address(m, &l.tok);
        }
        take_moves(m, "mov.u64");
        take_moves(m, "mov.b64");
        m->taken_known = true;
    }
    pthread_mutex_unlock(&m->lock);
}

/* Call through a pointer: compares it with each function of this signature in turn. */
static int call_indirect(struct sg_dec *d, uint32_t reg, struct sg_call *c)
{
    uint32_t end = sg_new_label(d), n = 0, p;

    if (d->vregs[reg].cls != SG_C_64)
        return sg_dec_syntax(d, "call: a function pointer needs 64 bits");
    module_find_taken(d->m);
    for (uint32_t i = 0; i < d->m->nfuncs && !d->err; i++) {
        uint32_t next;

        if (!signature_fits(d, &d->m->funcs[i], c))
            continue;
        if (++n > MAX_INDIRECT)
            return sg_dec_refuse(d, "too many functions fit this indirect call");
        next = sg_new_label(d);
        p = sg_temp(d, SG_TY_PRED);
        sg_emit(d, SG_OP_setp_eq_b64, p, reg, sg_const64(d, sg_func_address(i)), NONE);
        sg_emit_bra(d, next, p, true);
        /* Expanding functions reached through pointers from here as well would multiply the
           code. */
        if (d->indirect) {
            sg_call_real(d, i, c);
        } else {
            d->indirect++;
            expand_call(d, i, c);
            d->indirect--;
        }
        sg_emit_bra(d, end, NONE, false);
        sg_place_label(d, next);
    }
    sg_emit(d, SG_OP_badcall, NONE, NONE, NONE, NONE);
    sg_place_label(d, end);
    return d->err;
}

static int call_parsed(struct sg_dec *d, const struct sg_tok *t, struct sg_call *c)
{
    struct sg_named y;
    const struct sg_func *f;
    char name[128];
    uint32_t index;

    if (!sg_dec_find(d, t->s, t->len, &y)) {
        if (d->err)
            return d->err;
        snprintf(name, sizeof(name), "%.*s", (int)t->len, t->s);
        return call_builtin(d, name, c);
    }
    if (y.kind == SG_K_REG)
        return call_indirect(d, y.index, c);
    if (y.kind != SG_K_FUNC)
        return sg_dec_syntax(d, "call: '%.*s' is not a function", (int)t->len, t->s);
    index = y.index;
    f = &d->m->funcs[index];
    for (int hops = 0; f->alias >= 0 && hops < 16; hops++) {
        index = (uint32_t)f->alias;
        f = &d->m->funcs[index];
    }
    /* libcudadevrt contains PTX for the newest GPUs, which wraps functions of NVIDIA's driver:
       supported functions are handled here. */
    if (f->body && !strncmp(f->name, "__cudaCDP2", strlen("__cudaCDP2")) && sg_call_cdp(d, f->name, c))
        return d->err;
    return f->body ? expand_call(d, index, c) : call_builtin(d, f->name, c);
}

/* call{.uni} (ret), name, (args){, prototype}; the lexer stands behind the opcode */
int sg_dec_call(struct sg_dec *d, struct sg_pred p)
{
    struct sg_call c = {0};
    struct sg_tok name;
    uint32_t label = 0, line = d->line;

    c.rets = calloc(2 * SG_MAX_ARGS, sizeof(*c.rets));
    if (!c.rets)
        return sg_dec_nomem(d);
    c.args = c.rets + SG_MAX_ARGS;
    if (sg_tok_is(&d->l, '(')) {
        if (call_args(d, c.rets, SG_MAX_ARGS, &c.nrets))
            goto out;
        if (!sg_tok_is(&d->l, ',')) {
            sg_dec_syntax(d, "call: ',' expected");
            goto out;
        }
        sg_lex_next(&d->l);
    }
    name = d->l.tok;
    if (name.kind != SG_T_ID) {
        sg_dec_syntax(d, "call: a function expected");
        goto out;
    }
    sg_lex_next(&d->l);
    if (sg_tok_is(&d->l, ',')) {
        sg_lex_next(&d->l);
        if (sg_tok_is(&d->l, '(') && call_args(d, c.args, SG_MAX_ARGS, &c.nargs))
            goto out;
        if (sg_tok_is(&d->l, ',')) { /* prototype or list of targets */
            sg_lex_next(&d->l);
            sg_lex_next(&d->l);
        } else if (d->l.tok.kind == SG_T_ID) {
            sg_lex_next(&d->l);
        }
    }
    if (!sg_tok_is(&d->l, ';')) {
        sg_dec_syntax(d, "call: ';' expected");
        goto out;
    }
    sg_lex_next(&d->l);
    if (p.reg != NONE) {
        label = sg_new_label(d);
        sg_emit_bra(d, label, p.reg, !p.neg);
    }
    call_parsed(d, &name, &c);
    d->line = line;
    if (p.reg != NONE && !d->err)
        sg_place_label(d, label);
out:
    free(c.rets);
    return d->err;
}
