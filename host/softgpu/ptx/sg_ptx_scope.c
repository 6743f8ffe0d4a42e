/* SPDX-License-Identifier: MIT */
/*
 * Names of a body. Each name has a stack of definitions with the innermost scope's on top, so the
 * cost of a look-up does not depend on the nesting depth. A closing scope removes its definitions
 * from the stacks.
 *
 * A label that has only been used may belong to the scope of its use, or to an enclosing scope. It
 * belongs to the innermost of these scopes that is still open, so closing a scope needs no update.
 * If two entries of a stack come to belong to the same scope, the upper entry refers to the lower.
 */
#include "ptx/decode.h"

/* Spaces of names, in place of a frame. */
enum { SPACE_PLAIN = 1, SPACE_RANGE, SPACE_LABEL };

int sg_scope_open(struct sg_dec *d)
{
    d->scopes[d->nscopes++] = (struct sg_scope){.frame = d->next_frame++};
    return 0;
}

/* ---- variables and registers ---- */

static struct sg_def *def_at(const struct sg_dec *d, uint32_t n)
{
    return n ? &d->defs[n - 1] : NULL;
}

/* The symbol of a name, created if needed: its index is that of its topmost definition, + 1.
   NULL: out of memory. */
static struct sg_sym *need_name(struct sg_dec *d, uint32_t space, const char *s, uint32_t len)
{
    struct sg_sym *y = sg_sym_find(&d->symtab, space, s, len);

    if (!y)
        y = sg_sym_add(&d->symtab, space, s, len, space, 0);
    if (!y)
        sg_dec_nomem(d);
    return y;
}

static uint32_t rank_of(const struct sg_dec *d, uint32_t n)
{
    return n ? d->defs[n - 1].rank : 0;
}

/*
 * The topmost range of a stack with more than n registers. Each range links to the next lower range
 * that is larger, and to a range further down, so that few steps suffice.
 */
static uint32_t find_larger(const struct sg_dec *d, uint32_t at, uint64_t n)
{
    while (at && d->defs[at - 1].count <= n) {
        const struct sg_def *x = &d->defs[at - 1];

        at = x->jump && d->defs[x->jump - 1].count <= n ? x->jump : x->larger;
    }
    return at;
}

static void link_range(const struct sg_dec *d, struct sg_def *x)
{
    const uint32_t up = find_larger(d, x->below, x->count);
    const uint32_t far = up ? d->defs[up - 1].jump : 0;
    const uint32_t farther = far ? d->defs[far - 1].jump : 0;

    x->larger = up;
    x->rank = rank_of(d, up) + 1;
    x->jump = up && rank_of(d, up) - rank_of(d, far) == rank_of(d, far) - rank_of(d, farther) ? farther : up;
}

static int define_at(struct sg_dec *d, uint32_t depth, const char *s, uint32_t len, uint32_t kind,
                     uint32_t index)
{
    const uint32_t space = kind == SG_K_RANGE ? SPACE_RANGE : SPACE_PLAIN;
    struct sg_sym *y = need_name(d, space, s, len);
    struct sg_def *x;

    if (!y || !sg_grow(&d->defs, &d->cap_defs, d->ndefs, sizeof(*d->defs)))
        return sg_dec_nomem(d);
    x = &d->defs[d->ndefs++];
    *x = (struct sg_def){.sym = (uint32_t)(y - d->symtab.syms),
                         .below = y->index,
                         .next = d->scopes[depth].defs,
                         .depth = depth,
                         .kind = kind,
                         .index = index};
    if (kind == SG_K_RANGE) {
        x->count = d->ranges[index].count;
        link_range(d, x);
    }
    y->index = d->scopes[depth].defs = d->ndefs;
    return 0;
}

int sg_scope_define(struct sg_dec *d, const char *s, uint32_t len, uint32_t kind, uint32_t index)
{
    return define_at(d, d->nscopes - 1, s, len, kind, index);
}

const struct sg_def *sg_scope_find_here(const struct sg_dec *d, const char *s, uint32_t len)
{
    for (uint32_t space = SPACE_PLAIN; space <= SPACE_RANGE; space++) {
        const struct sg_sym *y = sg_sym_find(&d->symtab, space, s, len);
        const struct sg_def *x = y ? def_at(d, y->index) : NULL;

        if (x && x->depth == d->nscopes - 1)
            return x;
    }
    return NULL;
}

/* The innermost range that contains a register of this name. As in ptxas, all trailing digits
   form the number: registers of .reg .b32 r2<4> cannot be named. */
static const struct sg_def *find_range(const struct sg_dec *d, const char *s, uint32_t len)
{
    uint32_t digits = len;
    const struct sg_sym *y;
    const struct sg_def *x;
    uint64_t n = 0;

    while (digits && s[digits - 1] >= '0' && s[digits - 1] <= '9')
        digits--;
    if (digits == len || len - digits > 9 || (s[digits] == '0' && len - digits > 1))
        return NULL;
    y = sg_sym_find(&d->symtab, SPACE_RANGE, s, digits);
    if (!y)
        return NULL;
    for (uint32_t k = digits; k < len; k++)
        n = n * 10 + (uint64_t)(s[k] - '0');
    x = def_at(d, find_larger(d, y->index, n));
    return x && x->depth >= d->func_base ? x : NULL;
}

bool sg_scope_range_here(const struct sg_dec *d, const char *s, uint32_t len)
{
    const struct sg_def *range = find_range(d, s, len);

    return range && range->depth == d->nscopes - 1;
}

bool sg_dec_find(struct sg_dec *d, const char *s, uint32_t len, struct sg_named *out)
{
    const struct sg_sym *y = sg_sym_find(&d->symtab, SPACE_PLAIN, s, len);
    const struct sg_def *x = y ? def_at(d, y->index) : NULL, *range = find_range(d, s, len);

    if (x && x->depth < d->func_base)
        x = NULL; /* belongs to a caller of this function */
    if (range && (!x || range->depth > x->depth)) {
        /* Any definition of the name is further out: the register goes on top of it. */
        *out = (struct sg_named){SG_K_REG, sg_new_vreg(d, (enum sg_type)d->ranges[range->index].type, false)};
        return !define_at(d, range->depth, s, len, out->kind, out->index);
    }
    if (x) {
        *out = (struct sg_named){x->kind, x->index};
        return true;
    }
    y = sg_sym_find(&d->m->symtab, 0, s, len);
    if (y)
        *out = (struct sg_named){y->kind, y->index};
    return y != NULL;
}

/* ---- labels ---- */

/* The innermost scope of a definition that is still open. */
static uint32_t depth_now(const struct sg_dec *d, const struct sg_named_label *x)
{
    uint32_t low = 0, high = d->nscopes;

    while (low + 1 < high) { /* frames grow with the depth */
        const uint32_t mid = (low + high) / 2;

        if (d->scopes[mid].frame <= x->frame)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* Removes the topmost label from the stack of its name; into: it refers to the label below. */
static void pop_label(struct sg_dec *d, uint32_t n, bool into)
{
    struct sg_named_label *x = &d->named[n - 1];
    const struct sg_sym *y = &d->symtab.syms[x->sym];

    if (into && d->named[x->below - 1].kind == SG_K_TARGETS) {
        d->line = d->labels[x->index].line;
        sg_dec_syntax(d, "'%.*s' is a list of branch targets, not a label", (int)y->len, y->name);
    } else if (into) {
        d->labels[x->index].alias = d->named[x->below - 1].index + 1;
    }
    d->symtab.syms[x->sym].index = x->below;
    x->gone = true;
}

/* The uppermost label of a name; NULL: none. */
static struct sg_named_label *top_label(struct sg_dec *d, const struct sg_sym *y)
{
    for (uint32_t n = y->index; n && d->named[n - 1].below; n = y->index) {
        const struct sg_named_label *x = &d->named[n - 1];

        if (depth_now(d, x) != depth_now(d, &d->named[x->below - 1]))
            break;
        pop_label(d, n, true);
    }
    return y->index ? &d->named[y->index - 1] : NULL;
}

/* The label of a name in the innermost scope; created as a mere use. NULL: out of memory. */
static struct sg_named_label *need_label(struct sg_dec *d, const char *s, uint32_t len)
{
    struct sg_sym *y = need_name(d, SPACE_LABEL, s, len);
    struct sg_named_label *x = y ? top_label(d, y) : NULL;
    uint32_t label;

    if (!y || (x && depth_now(d, x) == d->nscopes - 1))
        return x;
    label = sg_new_label(d);
    if (d->err || !sg_grow(&d->named, &d->cap_named, d->nnamed, sizeof(*d->named))) {
        sg_dec_nomem(d);
        return NULL;
    }
    x = &d->named[d->nnamed++];
    *x = (struct sg_named_label){.sym = (uint32_t)(y - d->symtab.syms),
                                 .below = y->index,
                                 .frame = d->scopes[d->nscopes - 1].frame,
                                 .kind = SG_K_LABEL,
                                 .index = label};
    y->index = d->nnamed;
    return x;
}

/* The label is of the innermost scope. */
static void fix_label(struct sg_dec *d, struct sg_named_label *x)
{
    struct sg_scope *scope = &d->scopes[d->nscopes - 1];

    x->frame = scope->frame;
    x->next = scope->labels;
    scope->labels = (uint32_t)(x - d->named) + 1;
}

uint32_t sg_dec_label(struct sg_dec *d, const char *s, uint32_t len)
{
    const struct sg_named_label *x = need_label(d, s, len);

    if (x && x->kind == SG_K_TARGETS)
        sg_dec_syntax(d, "'%.*s' is a list of branch targets, not a label", (int)len, s);
    return x && x->kind == SG_K_LABEL ? x->index : sg_new_label(d);
}

int sg_dec_define_label(struct sg_dec *d, const char *s, uint32_t len)
{
    struct sg_named_label *x = need_label(d, s, len);

    if (d->err || !x)
        return d->err;
    if (x->kind == SG_K_TARGETS)
        return sg_dec_syntax(d, "'%.*s' is a list of branch targets, not a label", (int)len, s);
    if (d->labels[x->index].insn != UINT32_MAX)
        return sg_dec_syntax(d, "label '%.*s' is defined twice", (int)len, s);
    fix_label(d, x);
    sg_place_label(d, x->index);
    return d->err;
}

int sg_dec_define_targets(struct sg_dec *d, const char *s, uint32_t len, uint32_t list)
{
    const uint32_t before = d->nnamed;
    struct sg_named_label *x = need_label(d, s, len);

    if (d->err || !x)
        return d->err;
    if (d->nnamed == before)
        return sg_dec_syntax(d, "a list of branch targets has the name of a label or of another: '%.*s'",
                             (int)len, s);
    x->kind = SG_K_TARGETS;
    x->index = list;
    fix_label(d, x);
    return 0;
}

bool sg_dec_find_targets(struct sg_dec *d, const char *s, uint32_t len, uint32_t *list)
{
    const struct sg_sym *y = sg_sym_find(&d->symtab, SPACE_LABEL, s, len);
    const struct sg_named_label *x = y ? top_label(d, y) : NULL;

    if (!x || x->kind != SG_K_TARGETS || depth_now(d, x) < d->func_base)
        return false;
    *list = x->index;
    return true;
}

uint32_t sg_dec_label_meant(const struct sg_dec *d, uint32_t label)
{
    struct sg_label *l = d->labels;

    while (l[label].alias) {
        const uint32_t next = l[label].alias - 1;

        if (l[next].alias)
            l[label].alias = l[next].alias; /* the next walk is half as long */
        label = next;
    }
    return label;
}

/* ---- the end of a scope ---- */

static void close_labels(struct sg_dec *d)
{
    for (uint32_t n = d->scopes[d->nscopes - 1].labels; n && !d->err; n = d->named[n - 1].next) {
        /* uses below it on the stack resolve to it */
        top_label(d, &d->symtab.syms[d->named[n - 1].sym]);
        if (!d->err)
            pop_label(d, n, false);
    }
    d->scopes[d->nscopes - 1].labels = 0;
}

void sg_scope_close(struct sg_dec *d)
{
    struct sg_scope *scope = &d->scopes[d->nscopes - 1];

    close_labels(d);
    for (uint32_t n = scope->defs; n; n = d->defs[n - 1].next)
        d->symtab.syms[d->defs[n - 1].sym].index = d->defs[n - 1].below;
    d->nscopes--;
}

void sg_scope_end_function(struct sg_dec *d, uint32_t first)
{
    close_labels(d);
    for (; d->nnamed > first && !d->err; d->nnamed--) { /* labels without a definition */
        if (!d->named[d->nnamed - 1].gone)
            pop_label(d, d->nnamed, d->named[d->nnamed - 1].below > first);
    }
}
