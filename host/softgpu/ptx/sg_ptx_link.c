/* SPDX-License-Identifier: MIT */
/*
 * The linker: combines several PTX texts into one (PTX ISA, section "Linking Directives"). .visible
 * names and kernels share a namespace; .weak names yield to others and are kept once; a name
 * without linkage is local to its text and is renamed if another text uses it, too. Nothing is
 * decoded here: an undefined name is reported when a kernel that uses it is decoded.
 */
#include "ptx/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum linkage { L_LOCAL, L_EXTERN, L_VISIBLE, L_WEAK, L_COMMON };

/* A declaration of a name: head (up to the name, shared by a list's names), then its own text. */
struct item {
    uint32_t input;
    enum linkage linkage;
    bool defines, is_func, is_entry, dropped;
    bool is_file; /* a .file line: precedes all other items of its input (sg_ptx_source.c) */
    const char *head, *head_end, *text, *text_end;
    const char *name; /* in the text; NULL: no name (.alias) */
    uint32_t name_len, line;
};

/* A name of the module level, over all texts. */
struct name {
    uint32_t strong, weak; /* 1-based item that defines it */
    uint32_t first_input;
    bool several; /* defined by more than one text */
};

/* State of an input text. */
struct text {
    uint32_t version, target;
    const char *target_text;
    size_t target_len;
    uint32_t first, end; /* its items */
    bool linked;
};

struct link {
    const struct sg_ptx_input *in;
    uint32_t n;
    struct text *texts;
    struct sg_diag *diag;
    struct sg_lex l;
    uint32_t input; /* whose text l reads */
    struct item *items;
    uint32_t nitems, cap_items;
    struct sg_symtab symtab; /* frame 0: index in names; frame 1 + input: renamed there */
    struct name *names;
    uint32_t nnames, cap_names;
    char *out;
    size_t len, cap;
};

static int refuse_link(struct link *k, const char *what)
{
    const struct sg_tok *t = &k->l.tok;

    return sg_diag_at(k->diag, SG_ERR_PTX, t->line, t->col, "syntax error: %s near '%.*s' (%s)", what,
                      (int)(t->len > 40 ? 40 : t->len), t->s, k->in[k->input].name);
}

static int link_nomem(struct link *k)
{
    return sg_diag_at(k->diag, SG_ERR_NOMEM, 0, 0, "out of memory");
}

static struct item *add_item(struct link *k, const struct item *it)
{
    if (!sg_grow(&k->items, &k->cap_items, k->nitems, sizeof(*k->items)))
        return NULL;
    k->items[k->nitems] = *it;
    return &k->items[k->nitems++];
}

/* Skips attributes and a list of return values: to the name of a function. */
static int to_function_name(struct link *k)
{
    uint32_t depth = 0;

    while (k->l.tok.kind != SG_T_EOF) {
        if (sg_tok_is(&k->l, '('))
            depth++;
        else if (sg_tok_is(&k->l, ')'))
            depth--;
        else if (!depth && k->l.tok.kind == SG_T_ID)
            return 0;
        else if (!depth && k->l.tok.kind != SG_T_DIR)
            break;
        sg_lex_next(&k->l);
    }
    return refuse_link(k, "a function name expected");
}

/* Behind the end of a text that stops in front of the current token. */
static const char *end_of_text(const struct link *k)
{
    return k->l.tok.s;
}

static int scan_func(struct link *k, struct item *it)
{
    int r;

    it->is_func = true;
    it->is_entry = sg_tok_eq(&k->l.tok, ".entry");
    sg_lex_next(&k->l);
    r = to_function_name(k);
    if (r)
        return r;
    it->name = k->l.tok.s;
    it->name_len = k->l.tok.len;
    it->line = k->l.tok.line;
    it->head_end = it->text = it->name;
    while (!sg_tok_is(&k->l, ';') && !sg_tok_is(&k->l, '{') && k->l.tok.kind != SG_T_EOF)
        sg_lex_next(&k->l);
    if (sg_tok_is(&k->l, '{')) {
        it->defines = true;
        if (!sg_lex_skip_block(&k->l))
            return refuse_link(k, "a body has no end");
    } else if (sg_tok_is(&k->l, ';')) {
        sg_lex_next(&k->l);
    } else {
        return refuse_link(k, "'{' or ';' expected");
    }
    it->text_end = end_of_text(k);
    return add_item(k, it) ? 0 : link_nomem(k);
}

/* A name in a list of variables, with its dimensions and its initial value. */
static int scan_declarator(struct link *k, struct item *it)
{
    if (k->l.tok.kind != SG_T_ID)
        return refuse_link(k, "a name expected");
    it->name = it->text = k->l.tok.s;
    it->name_len = k->l.tok.len;
    it->line = k->l.tok.line;
    while (!sg_tok_is(&k->l, ',') && !sg_tok_is(&k->l, ';')) {
        if (k->l.tok.kind == SG_T_EOF)
            return refuse_link(k, "';' expected");
        if (!sg_tok_is(&k->l, '{'))
            sg_lex_next(&k->l);
        else if (!sg_lex_skip_block(&k->l))
            return refuse_link(k, "'}' missing");
    }
    it->text_end = end_of_text(k);
    return add_item(k, it) ? 0 : link_nomem(k);
}

static int scan_var(struct link *k, struct item *it)
{
    uint32_t depth = 0;
    int r;

    it->defines = it->linkage != L_EXTERN;
    while (k->l.tok.kind != SG_T_EOF && (depth || k->l.tok.kind != SG_T_ID)) {
        depth += sg_tok_is(&k->l, '(') ? 1 : 0;
        depth -= depth && sg_tok_is(&k->l, ')') ? 1 : 0;
        sg_lex_next(&k->l);
    }
    it->head_end = end_of_text(k);
    for (;;) {
        r = scan_declarator(k, it);
        if (r)
            return r;
        if (!sg_tok_is(&k->l, ','))
            break;
        sg_lex_next(&k->l);
    }
    sg_lex_next(&k->l); /* ';' */
    return 0;
}

static int scan_header(struct link *k)
{
    struct text *t = &k->texts[k->input];
    bool is_target = sg_tok_eq(&k->l.tok, ".target");
    const char *start = end_of_text(k), *end = start;
    uint32_t line = k->l.tok.line, v = 0;
    double d;

    sg_lex_next(&k->l);
    if (!is_target && k->l.tok.kind == SG_T_F64) {
        memcpy(&d, &k->l.tok.ival, 8);
        if (d >= 1.0 && d < 100.0 && (uint32_t)(d * 10.0 + 0.5) > t->version)
            t->version = (uint32_t)(d * 10.0 + 0.5);
    }
    if (is_target && k->l.tok.kind == SG_T_ID && k->l.tok.len > 3 && k->l.tok.len < 12)
        v = (uint32_t)strtoul(k->l.tok.s + 3, NULL, 10);
    while (k->l.tok.line == line && k->l.tok.kind != SG_T_EOF) {
        end = k->l.tok.s + k->l.tok.len;
        sg_lex_next(&k->l);
    }
    if (is_target && v >= t->target) {
        t->target = v;
        t->target_text = start;
        t->target_len = (size_t)(end - start);
        if (t->target_len >= 96)
            return refuse_link(k, "a target that is too long");
    }
    return 0;
}

/* Skips a directive that ends with its line; returns the end of its last token. */
static const char *skip_line(struct link *k)
{
    const uint32_t line = k->l.tok.line;
    const char *end = k->l.tok.s;

    while (k->l.tok.line == line && k->l.tok.kind != SG_T_EOF) {
        end = k->l.tok.s + k->l.tok.len;
        sg_lex_next(&k->l);
    }
    return end;
}

/* .section NAME { ... }, .pragma "...";, and line directives (.loc, @@DWARF). */
static int skip_rest(struct link *k)
{
    if (sg_tok_eq(&k->l.tok, ".section")) {
        while (!sg_tok_is(&k->l, '{') && k->l.tok.kind != SG_T_EOF)
            sg_lex_next(&k->l);
        return k->l.tok.kind != SG_T_EOF && sg_lex_skip_block(&k->l) ? 0 : refuse_link(k, "'}' missing");
    }
    skip_line(k);
    return 0;
}

/* .file N "..." [, t, s]: without a following comment, which may continue on the next line. */
static int scan_file(struct link *k)
{
    struct item it = {.input = k->input, .head = k->l.tok.s, .dropped = true, .is_file = true};

    it.head_end = it.text = it.head;
    it.text_end = skip_line(k);
    return add_item(k, &it) ? 0 : link_nomem(k);
}

static enum linkage linkage_of(const struct sg_tok *t)
{
    return sg_tok_eq(t, ".extern")    ? L_EXTERN
           : sg_tok_eq(t, ".visible") ? L_VISIBLE
           : sg_tok_eq(t, ".weak")    ? L_WEAK
           : sg_tok_eq(t, ".common")  ? L_COMMON
                                      : L_LOCAL;
}

static int scan_item(struct link *k)
{
    const struct sg_tok *t = &k->l.tok;
    struct item it = {.input = k->input, .head = t->s};
    enum linkage l;

    while ((l = linkage_of(t)) != L_LOCAL) {
        it.linkage = l;
        sg_lex_next(&k->l);
    }
    if (sg_tok_eq(t, ".entry") || sg_tok_eq(t, ".func"))
        return scan_func(k, &it);
    if (sg_tok_eq(t, ".global") || sg_tok_eq(t, ".const") || sg_tok_eq(t, ".shared"))
        return scan_var(k, &it);
    if (sg_tok_eq(t, ".alias")) {
        while (!sg_tok_is(&k->l, ';') && t->kind != SG_T_EOF)
            sg_lex_next(&k->l);
        sg_lex_next(&k->l);
        it.head_end = it.text = it.head;
        it.text_end = end_of_text(k);
        return add_item(k, &it) ? 0 : link_nomem(k);
    }
    if (sg_tok_eq(t, ".version") || sg_tok_eq(t, ".target") || sg_tok_eq(t, ".address_size"))
        return scan_header(k);
    if (sg_tok_eq(t, ".file"))
        return scan_file(k);
    if (t->kind == SG_T_DIR || sg_tok_is(&k->l, '@'))
        return skip_rest(k);
    return refuse_link(k, "unexpected text");
}

static bool has_linkage(const struct item *it)
{
    return it->defines && (it->linkage == L_VISIBLE || it->linkage == L_WEAK || it->linkage == L_COMMON);
}

static bool is_builtin_name(const struct item *it)
{
    char name[64];

    if (it->name_len >= sizeof(name))
        return false;
    memcpy(name, it->name, it->name_len);
    name[it->name_len] = '\0';
    return sg_is_builtin(name);
}

/*
 * True if the text is linked for its own sake. The device runtime library is not, although it has
 * variables with linkage: the software GPU provides its functions.
 */
static bool is_root(const struct link *k, uint32_t input)
{
    bool has = !k->in[input].optional;

    for (uint32_t i = k->texts[input].first; i < k->texts[input].end && k->in[input].optional; i++) {
        const struct item *it = &k->items[i];

        if (!has_linkage(it))
            continue;
        if (it->is_func && is_builtin_name(it))
            return false;
        has |= it->is_entry || !it->is_func;
    }
    return has;
}

/* Enters the definitions of the texts, always linked texts first: index is the item. */
static bool enter_definitions(struct link *k, struct sg_symtab *defined)
{
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < k->nitems; i++) {
            const struct item *it = &k->items[i];

            if (it->name && has_linkage(it) && k->texts[it->input].linked == !pass &&
                !sg_sym_find(defined, 0, it->name, it->name_len) &&
                !sg_sym_add(defined, 0, it->name, it->name_len, 0, i))
                return false;
        }
    return true;
}

/* Selects the optional texts to link, and drops the items of the others. */
static int choose_texts(struct link *k, bool *any)
{
    uint32_t *queue = malloc((k->n + 1) * sizeof(*queue)), n = 0, kept = 0;
    struct sg_symtab defined = {0};

    for (uint32_t i = 0; queue && i < k->n; i++) {
        k->texts[i].linked = is_root(k, i);
        if (k->texts[i].linked)
            queue[n++] = i;
    }
    if (!queue || !enter_definitions(k, &defined)) {
        sg_sym_free(&defined);
        free(queue);
        return link_nomem(k);
    }
    for (uint32_t at = 0; at < n; at++)
        for (uint32_t i = k->texts[queue[at]].first; i < k->texts[queue[at]].end; i++) {
            const struct item *it = &k->items[i];
            struct sg_sym *y = it->name && !it->defines && !is_builtin_name(it)
                                   ? sg_sym_find(&defined, 0, it->name, it->name_len)
                                   : NULL;
            uint32_t from = y ? k->items[y->index].input : 0;

            if (y && !k->texts[from].linked) {
                k->texts[from].linked = true;
                queue[n++] = from;
            }
        }
    for (uint32_t i = 0; i < k->nitems; i++)
        if (k->texts[k->items[i].input].linked)
            k->items[kept++] = k->items[i];
    k->nitems = kept;
    *any = n || !k->n;
    sg_sym_free(&defined);
    free(queue);
    return 0;
}

/* Enters an item's name; of two weak definitions the first stays. */
static int enter_name(struct link *k, uint32_t i)
{
    struct item *it = &k->items[i];
    struct sg_sym *y = sg_sym_find(&k->symtab, 0, it->name, it->name_len);
    struct name *m;

    if (!y) {
        if (!sg_grow(&k->names, &k->cap_names, k->nnames, sizeof(*k->names)))
            return link_nomem(k);
        k->names[k->nnames] = (struct name){.first_input = it->input};
        y = sg_sym_add(&k->symtab, 0, it->name, it->name_len, 0, k->nnames);
        if (!y)
            return link_nomem(k);
        k->nnames++;
    }
    m = &k->names[y->index];
    m->several |= m->first_input != it->input;
    if (!it->defines || (it->linkage == L_LOCAL && !it->is_entry))
        return 0;
    if (it->linkage == L_WEAK || it->linkage == L_COMMON) {
        it->dropped = m->strong || m->weak;
        if (!it->dropped)
            m->weak = i + 1;
        return 0;
    }
    if (m->strong)
        return sg_diag_at(k->diag, SG_ERR_PTX, it->line, 0, "'%.*s' is defined in %s and in %s",
                          (int)it->name_len, it->name, k->in[k->items[m->strong - 1].input].name,
                          k->in[it->input].name);
    m->strong = i + 1;
    if (m->weak)
        k->items[m->weak - 1].dropped = true;
    return 0;
}

/* True if this name is local to the text and also used by another. */
static int mark_renamed(struct link *k)
{
    for (uint32_t i = 0; i < k->nitems; i++) {
        const struct item *it = &k->items[i];
        struct sg_sym *y;

        if (!it->name || it->linkage != L_LOCAL || it->is_entry)
            continue;
        y = sg_sym_find(&k->symtab, 0, it->name, it->name_len);
        if (!y || !k->names[y->index].several ||
            sg_sym_find(&k->symtab, 1 + it->input, it->name, it->name_len))
            continue;
        if (!sg_sym_add(&k->symtab, 1 + it->input, it->name, it->name_len, 0, 0))
            return link_nomem(k);
    }
    return 0;
}

static bool put_bytes(struct link *k, const char *s, size_t n)
{
    if (k->len + n + 1 > k->cap) {
        const size_t twice = (k->cap + n) * 2 + 4096, cap = twice < SG_PTX_TEXT_MAX ? twice : SG_PTX_TEXT_MAX;
        char *p = k->len + n < SG_PTX_TEXT_MAX ? realloc(k->out, cap) : NULL;

        if (!p)
            return false;
        k->out = p;
        k->cap = cap;
    }
    memcpy(k->out + k->len, s, n);
    k->len += n;
    k->out[k->len] = '\0';
    return true;
}

/* "$" is in no name that a C++ compiler makes of the source's own. */
static bool put_renamed(struct link *k, const char *s, size_t n, uint32_t input)
{
    char tail[24];
    int len = snprintf(tail, sizeof(tail), "$$%u", input);

    return put_bytes(k, s, n) && put_bytes(k, tail, (size_t)len);
}

/*
 * Copies text, renaming names of the input that are taken. A statement of a function starts with an
 * instruction, whatever the names are.
 */
static bool put_text(struct link *k, const struct item *it, const char *s, const char *end)
{
    uint32_t input = it->input;
    struct sg_lex l;
    bool start = false;

    sg_lex_init(&l, s, end, 1);
    while (l.tok.kind != SG_T_EOF) {
        const char *from = l.tok.s;
        uint32_t len = l.tok.len;

        if (!put_bytes(k, s, (size_t)(from - s)))
            return false;
        s = from + len;
        if (l.tok.kind == SG_T_ID && !start && sg_sym_find(&k->symtab, 1 + input, from, len)) {
            if (!put_renamed(k, from, len, input))
                return false;
        } else if (!put_bytes(k, from, len)) {
            return false;
        }
        start = it->is_func && l.tok.kind == SG_T_PUNCT && strchr(";{}:", l.tok.ch);
        sg_lex_next(&l);
    }
    return put_bytes(k, s, (size_t)(end - s));
}

/* Copies the .file lines of the text whose items begin here. */
static bool put_files(struct link *k, uint32_t first)
{
    bool ok = true;

    for (uint32_t i = first; i < k->nitems && k->items[i].input == k->items[first].input && ok; i++) {
        const struct item *it = &k->items[i];

        if (it->is_file)
            ok = put_bytes(k, it->text, (size_t)(it->text_end - it->text)) && put_bytes(k, "\n", 1);
    }
    return ok;
}

/* The highest .version and .target of the linked texts. */
static int make_header(struct link *k, char *to, size_t room)
{
    const struct text *top = NULL;
    uint32_t version = 0;

    for (uint32_t i = 0; i < k->n; i++) {
        const struct text *t = &k->texts[i];

        if (t->linked && t->version > version)
            version = t->version;
        if (t->linked && t->target && (!top || t->target >= top->target))
            top = t;
    }
    if (!top)
        return sg_diag_at(k->diag, SG_ERR_PTX, 1, 1, "syntax error: no .target sm_NN");
    snprintf(to, room, ".version %u.%u\n%.*s\n.address_size 64\n", version / 10, version % 10,
             (int)top->target_len, top->target_text);
    return 0;
}

static int emit_text(struct link *k)
{
    uint32_t input = UINT32_MAX, first = 0;
    bool renames = false, ok;
    char head[160];
    int r = make_header(k, head, sizeof(head));

    if (r)
        return r;

    for (uint32_t i = 0; i < k->symtab.n; i++)
        renames |= k->symtab.syms[i].frame != 0;
    ok = put_bytes(k, head, strlen(head));
    for (uint32_t i = 0; i < k->nitems && ok; i++) {
        const struct item *it = &k->items[i];

        if (it->input != k->items[first].input)
            first = i;
        if (it->dropped)
            continue;
        if (it->input != input)
            ok = put_files(k, first);
        input = it->input;
        if (!ok)
            break;
        if (renames)
            ok = put_text(k, it, it->head, it->head_end) && put_text(k, it, it->text, it->text_end);
        else
            ok = put_bytes(k, it->head, (size_t)(it->head_end - it->head)) &&
                 put_bytes(k, it->text, (size_t)(it->text_end - it->text));
        /* A variable's text ends before the "," or ";" of the list; texts of other items include their
           end. */
        ok = ok && (it->name && !it->is_func ? put_bytes(k, ";\n", 2) : put_bytes(k, "\n", 1));
    }
    return ok ? 0 : link_nomem(k);
}

int sg_ptx_link(const struct sg_ptx_input *in, uint32_t n, char **text, size_t *len, struct sg_diag *diag)
{
    struct link k = {.in = in, .n = n, .diag = diag};
    bool any = true;
    int r = 0;

    if (diag)
        memset(diag, 0, sizeof(*diag));
    k.texts = calloc(n ? n : 1, sizeof(*k.texts));
    if (!k.texts)
        return link_nomem(&k);
    for (k.input = 0; k.input < n && !r; k.input++) {
        k.texts[k.input].first = k.nitems;
        sg_lex_init(&k.l, in[k.input].text, in[k.input].text + in[k.input].len, 1);
        if (!sg_tok_eq(&k.l.tok, ".version"))
            r = refuse_link(&k, "the text must begin with .version");
        while (!r && k.l.tok.kind != SG_T_EOF)
            r = scan_item(&k);
        k.texts[k.input].end = k.nitems;
    }
    if (!r)
        r = choose_texts(&k, &any);
    if (!r && !any)
        r = sg_diag_at(diag, SG_ERR_NO_BINARY, 0, 0, "no text has a kernel, and nothing of them is needed");
    for (uint32_t i = 0; i < k.nitems && !r; i++)
        r = k.items[i].name ? enter_name(&k, i) : 0;
    if (!r)
        r = mark_renamed(&k);
    if (!r)
        r = emit_text(&k);
    if (r)
        free(k.out);
    else {
        *text = k.out;
        *len = k.len;
    }
    sg_sym_free(&k.symtab);
    free(k.names);
    free(k.items);
    free(k.texts);
    return r;
}
