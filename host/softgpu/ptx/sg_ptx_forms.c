/* SPDX-License-Identifier: MIT */
/* Checks that PTX defines an instruction, for the module's .target and operands of these types.
   The rows are in ptx/forms.def. */
#include "ptx/decode.h"

#include <string.h>

/* PTX ISA version of the rows: additions of later versions are not rejected */
#define VERSION_KNOWN 90

struct form {
    const char *base, *types, *mods;
    uint16_t target;
    const char *operands;
};

struct gate {
    const char *base, *words;
    uint16_t target, version;
    uint16_t specific; /* 0: any .target; 1: sm_NNa; more: sm_NNa, and at most this one */
    const char *feature;
};

struct bound {
    const char *base, *words;
    uint32_t operand;
    uint64_t low, high, step;
};

#define GROUP(name, words)
#define FORM(base, types, mods, target, operands)
#define GATE(base, words, target, version, specific, feature)
#define BOUND(base, words, operand, low, high, step)

static const struct group {
    const char *name, *words;
} groups[] = {
#undef GROUP
#define GROUP(name, words) {name, words},
#include "ptx/forms.def"
#undef GROUP
#define GROUP(name, words)
};

static const struct form forms[] = {
#undef FORM
#define FORM(base, types, mods, target, operands) {base, types, mods, target, operands},
#include "ptx/forms.def"
#undef FORM
#define FORM(base, types, mods, target, operands)
};
#define NFORMS (sizeof(forms) / sizeof(forms[0]))

static const struct gate gates[] = {
#undef GATE
#define GATE(base, words, target, version, specific, feature) \
    {base, words, target, version, specific, feature},
#include "ptx/forms.def"
#undef GATE
#define GATE(base, words, target, version, specific, feature)
};

static const struct bound bounds[] = {
#undef BOUND
#define BOUND(base, words, operand, low, high, step) {base, words, operand, low, high, step},
#include "ptx/forms.def"
};

/* The part of a list up to its separator; moves *list behind it. */
static size_t next_part(const char **list, char separator, const char **part)
{
    const char *end = strchr(*list, separator);
    size_t n = end ? (size_t)(end - *list) : strlen(*list);

    *part = *list;
    *list += n + (end != NULL);
    return n;
}

static bool has_word(const char *words, size_t n, const char *word)
{
    size_t len = strlen(word);

    while (n) {
        const char *bar = memchr(words, '|', n);
        size_t here = bar ? (size_t)(bar - words) : n;

        if (here == len && !memcmp(words, word, len))
            return true;
        words += here + (bar != NULL);
        n -= here + (bar != NULL);
    }
    return false;
}

/* words: alternatives with '|'. */
static bool has_mod(const struct sg_opcode *oc, const char *words)
{
    for (uint32_t i = 0; i < oc->nmods; i++)
        if (has_word(words, strlen(words), oc->mods[i]))
            return true;
    return false;
}

/* True if a modifier or type occurs among n bytes of words. */
static bool has_mod_or_type(const struct sg_opcode *oc, const char *words, size_t n)
{
    for (uint32_t i = 0; i < oc->ntypes; i++)
        if (has_word(words, n, sg_type_name((enum sg_type)oc->types[i])))
            return true;
    for (uint32_t i = 0; i < oc->nmods; i++)
        if (has_word(words, n, oc->mods[i]))
            return true;
    return false;
}

/* The words of GATE and BOUND: "*" matches every instruction, "" instructions without modifiers; of
   groups, one word of each. */
static bool fits_words(const struct sg_opcode *oc, const char *words)
{
    const char *part;

    if (!strcmp(words, "*") || !*words)
        return *words || !oc->nmods;
    while (*words) {
        size_t n = next_part(&words, ' ', &part);

        if (!has_mod_or_type(oc, part, n))
            return false;
    }
    return true;
}

static bool group_has(const char *group, size_t n, const char *word)
{
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        if (strlen(groups[i].name) == n && !memcmp(groups[i].name, group, n))
            return has_word(groups[i].words, strlen(groups[i].words), word);
    return has_word(group, n, word);
}

static bool types_match(const char *list, const struct sg_opcode *oc)
{
    uint32_t i = 0;

    if (!strcmp(list, "*"))
        return true;
    for (; *list; i++) {
        const char *part;
        size_t n = next_part(&list, ' ', &part);

        if (i == oc->ntypes)
            return false;
        if ((n != 1 || part[0] != '*') && !group_has(part, n, sg_type_name((enum sg_type)oc->types[i])))
            return false;
    }
    return i == oc->ntypes;
}

static bool mods_match(const char *list, const struct sg_opcode *oc)
{
    uint32_t taken = 0;

    if (!strcmp(list, "*"))
        return true;
    while (*list) {
        const char *part;
        size_t n = next_part(&list, ' ', &part);
        bool optional = n && part[n - 1] == '?', first = part[0] == '!', found = false;

        if (n == 1 && *part == '*')
            return true;
        n -= optional + first;
        part += first;
        for (uint32_t i = 0; i < (first && oc->nmods ? 1 : oc->nmods) && !found; i++)
            if (!(taken >> i & 1) && group_has(part, n, oc->mods[i])) {
                taken |= 1u << i;
                found = true;
            }
        if (!found && !optional)
            return false;
    }
    return taken == (1u << oc->nmods) - 1;
}

/* mad of f32 without a rounding, up to PTX .version 3.1, as in ptxas (PTX ISA, "mad"). */
static const struct form first_mad = {"mad", "f32", "ftz? sat?", 0, "tttt"};

/* The row for this instruction whose .target is the lowest; *known: the opcode has rows at all. */
static const struct form *find_form(const struct sg_dec *d, bool *known)
{
    const struct form *best = NULL;

    *known = false;
    for (size_t i = 0; i <= NFORMS; i++) {
        const struct form *f = i < NFORMS ? &forms[i] : &first_mad;

        if (f == &first_mad && d->m->version >= 32)
            break;
        if (f->base[0] != d->oc.base[0] || strcmp(f->base, d->oc.base))
            continue;
        *known = true;
        if ((best && best->target <= f->target) || !types_match(f->types, &d->oc) ||
            !mods_match(f->mods, &d->oc))
            continue;
        if (strchr(f->operands, '*') || strlen(f->operands) == d->nops)
            best = f;
    }
    return best;
}

static bool is_bits(enum sg_type t)
{
    return t == SG_TY_B8 || t == SG_TY_B16 || t == SG_TY_B32 || t == SG_TY_B64 || t == SG_TY_B128;
}

/* True if a register of type r may be an operand of type t (PTX ISA, "Operand Type Checking"). */
static bool register_fits(enum sg_type r, enum sg_type t, bool wider)
{
    uint32_t have = sg_type_size(r), want = sg_type_size(t);

    if (r == SG_TY_PRED || t == SG_TY_PRED)
        return r == t;
    if (wider ? have < want : have != want)
        return false;
    if (wider && is_bits(t)) /* bits are extended with zeros in a wider register of any type */
        return true;
    if (is_bits(r) || (is_bits(t) && have == want))
        return true;
    if (t == SG_TY_U16X2 || t == SG_TY_S16X2)
        return false;
    if (sg_type_float(r) || sg_type_float(t))
        return r == t;
    return true;
}

static enum sg_type double_type(enum sg_type t)
{
    return t == SG_TY_S16   ? SG_TY_S32
           : t == SG_TY_U16 ? SG_TY_U32
           : t == SG_TY_S32 ? SG_TY_S64
           : t == SG_TY_U32 ? SG_TY_U64
                            : t;
}

static enum sg_type operand_type(const struct sg_dec *d, char what)
{
    enum sg_type t = (enum sg_type)d->oc.types[what == '1' || what == 'v' ? 1 : 0];

    switch (what) {
    case 'd':
        return double_type(t);
    case 'p':
        return SG_TY_PRED;
    case 'i':
    case 'n':
        return SG_TY_U32;
    case 'h':
    case 'a':
        return SG_TY_U64;
    default:
        return t;
    }
}

/* True if the first operand is no result. */
static bool sets_nothing(const struct sg_opcode *oc)
{
    static const char *const bases[] = {"bar", "barrier", "pmevent", "cp"};

    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++)
        if (!strcmp(oc->base, bases[i]))
            return !has_mod(oc, "red");
    return false;
}

/* True if '_' may stand for the result. */
static bool has_sink(const char *base)
{
    static const char bases[] = "atom|mbarrier|lop3|setp|elect|shfl|match";

    return has_word(bases, sizeof(bases) - 1, base);
}

static bool operand_fits(const struct sg_dec *d, uint32_t i, char what)
{
    const struct sg_opnd *o = &d->ops[i];
    enum sg_type t = operand_type(d, what);
    bool wider = what == 'w' || what == 'v' || what == 'x';

    if (what == 'a')
        return o->kind == SG_O_ADDR || (o->kind == SG_O_SYM && o->element);
    if (what == 'n')
        return o->kind == SG_O_IMM;
    if (i == 0 && !sets_nothing(&d->oc) &&
        (o->kind == SG_O_IMM || o->kind == SG_O_F32 || o->kind == SG_O_F64 || o->kind == SG_O_SREG))
        return false; /* the result */
    if (i == 0 && o->kind == SG_O_SINK && !sets_nothing(&d->oc) && !has_sink(d->oc.base))
        return false;
    if (what == 'h' && i &&
        (o->kind == SG_O_VEC || o->kind == SG_O_LIST || o->kind == SG_O_ADDR || o->kind == SG_O_SINK))
        return false;
    switch (o->kind) {
    case SG_O_REG:
        return register_fits((enum sg_type)d->vregs[o->v].type, t, wider);
    case SG_O_SREG:
        return what == 's' || what == 'v';
    case SG_O_SYM:
        return what == 's' || wider;
    case SG_O_IMM:
        return !sg_type_float(t) && t != SG_TY_U16X2 && t != SG_TY_S16X2;
    case SG_O_F32: /* 0f3f800000 */
        return t == SG_TY_F32 || t == SG_TY_F64 || t == SG_TY_B32;
    case SG_O_F64:
        return t == SG_TY_F32 || t == SG_TY_F64 || t == SG_TY_B64;
    default:
        return true; /* the emitters look at names, vectors and addresses */
    }
}

/* Known forms by their spelling, so that the rows are searched once for each. */
static struct sg_form_seen *cached_form(struct sg_dec *d)
{
    uint32_t h = 2166136261u ^ d->nops;
    struct sg_form_seen *seen;

    for (const char *p = d->oc.full; *p; p++)
        h = (h ^ (uint8_t)*p) * 16777619u;
    seen = &d->forms[h % SG_FORMS_SEEN];
    if (seen->nops != d->nops + 1 || strcmp(seen->full, d->oc.full)) {
        seen->form = find_form(d, &seen->known);
        seen->open = false;
        seen->nops = d->nops + 1;
        memcpy(seen->full, d->oc.full, sizeof(seen->full));
    }
    return seen;
}

static bool is_256_bits(const struct sg_opcode *oc)
{
    uint32_t n = has_mod(oc, "v8") ? 8 : has_mod(oc, "v4") ? 4 : 1;

    return oc->ntypes && n * sg_type_size((enum sg_type)oc->types[0]) == 32;
}

/* The first space that a copy names, its destination; NULL: none. */
static const char *first_space(const struct sg_opcode *oc)
{
    for (uint32_t i = 0; i < oc->nmods; i++)
        if (has_word("global|shared::cta|shared::cluster", 34, oc->mods[i]))
            return oc->mods[i];
    return NULL;
}

/* True if the variable of an address, if it has one, is in the space that the instruction names. */
static bool in_space(const struct sg_dec *d, const struct sg_opnd *o)
{
    const struct sg_opcode *oc = &d->oc;
    bool global = o->symkind == SG_K_GLOBAL, local = o->symkind == SG_K_LOCAL;

    if (o->kind != SG_O_ADDR || o->base != SG_O_SYM)
        return true;
    if (has_mod(oc, "const"))
        return global && d->m->vars[o->v].is_const;
    if (has_mod(oc, "param|param::entry|param::func"))
        return o->symkind == SG_K_PARAM || (local && d->lvars[o->v].is_param);
    if (has_mod(oc, "global"))
        return global && !d->m->vars[o->v].is_const;
    return o->symkind != SG_K_PARAM;
}

/* True if p|q stands where PTX allows only a single register. */
static bool second_predicate(const struct sg_dec *d)
{
    static const char bases[] = "setp|shfl|match|lop3|elect|tex|tld4";

    for (uint32_t i = 0; i < d->nops; i++)
        if (d->ops[i].has_pq && (i || !has_word(bases, sizeof(bases) - 1, d->oc.base)))
            return true;
    return false;
}

/* Rules that depend on more than .target. Returns the reason of a refusal, or NULL. */
static const char *broken_rule(const struct sg_dec *d)
{
    const struct sg_opcode *oc = &d->oc;
    const char *base = oc->base;
    bool memory = !strcmp(base, "ld") || !strcmp(base, "st");

    const bool atomic = !strcmp(base, "atom") || !strcmp(base, "red");

    if ((memory || atomic) && !in_space(d, &d->ops[base[0] == 'l' || base[0] == 'a']))
        return "the variable is in another state space";
    if (second_predicate(d))
        return "no second predicate may stand here";
    if (d->nops == 4 && oc->ntypes && oc->types[0] == SG_TY_F32 && d->m->version < 88 &&
        (!strcmp(base, "min") || !strcmp(base, "max")))
        return "three sources need PTX .version 8.8 or higher";
    if (!strcmp(base, "mov") && !has_mod(oc, "v2|v4|v8") && oc->ntypes &&
        !is_bits((enum sg_type)oc->types[0]) && (d->ops[0].kind == SG_O_VEC || d->ops[1].kind == SG_O_VEC))
        return "a register is packed and unpacked with types .b16 to .b128";
    if ((!strcmp(base, "st") || !strcmp(base, "atom") || !strcmp(base, "red")) && has_mod(oc, "const"))
        return "constant memory is not written";
    if (!strcmp(base, "mbarrier") && has_mod(oc, "arrive|arrive_drop") && has_mod(oc, "shared::cluster") &&
        d->ops[0].kind != SG_O_SINK)
        return "a barrier of another block returns no state: '_' expected";
    if (!strcmp(base, "cvta") && has_mod(oc, "to") && d->ops[1].kind == SG_O_SYM)
        return "a register expected";
    if (base[0] == 'v' && d->ops[0].part[0] && d->nops == 3)
        return "a part of the result needs a third source";
    if (base[0] == 'v' && base[strcspn(base, "24")])
        for (uint32_t i = 1; i < d->nops; i++)
            if (d->ops[i].kind == SG_O_IMM)
                return "operands with bytes or halves are registers";
    if (base[0] == 'v' && d->nops == 3 && has_mod(oc, "min|max") && oc->ntypes == 3)
        return "a second operation needs a third source";
    if (d->m->target < 90 &&
        (has_mod(oc, "cluster|shared::cluster|bulk|try_wait|expect_tx|complete_tx|mbarrier_init") ||
         (!strcmp(base, "fence") && has_mod(oc, "async"))))
        return "needs .target sm_90 or higher";
    if (has_mod(oc, "bulk") && d->m->version < 86 && first_space(oc) &&
        !strcmp(first_space(oc), "shared::cta"))
        return "a copy to .shared::cta needs PTX .version 8.6 or higher";
    if (memory && oc->ntypes && oc->types[0] == SG_TY_B128 && has_mod(oc, "v2|v4|v8"))
        return "a vector of more than 128 bits";
    if (memory && is_256_bits(oc) && d->m->version < 88)
        return "256 bits need PTX .version 8.8 or higher";
    if (memory && !has_mod(oc, "async") &&
        has_mod(oc, "relaxed|acquire|release") != has_mod(oc, "cta|cluster|gpu|sys"))
        return "a scope and an order of memory stand together";
    if ((!strcmp(base, "vote") || !strcmp(base, "shfl")) && !has_mod(oc, "sync") && d->m->version >= 64 &&
        d->m->target >= 70)
        return "from PTX 6.4 on and .target sm_70 on there is the form with .sync only";
    return NULL;
}

int sg_check_gates(struct sg_dec *d)
{
    for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); i++) {
        const struct gate *g = &gates[i];

        if (!has_word(g->base, strlen(g->base), d->oc.base) || !fits_words(&d->oc, g->words))
            continue;
        if (d->m->target < g->target || (g->specific && !d->m->target_suffix))
            return sg_dec_syntax(d, "%s needs .target sm_%u%s or higher", g->feature, g->target,
                                 g->specific ? "a" : "");
        if (g->specific > 1 && d->m->target > g->specific)
            return sg_dec_syntax(d, "%s needs .target sm_%ua to sm_%ua", g->feature, g->target, g->specific);
        if (d->m->version < g->version)
            return sg_dec_syntax(d, "%s needs PTX .version %u.%u or higher", g->feature, g->version / 10,
                                 g->version % 10);
    }
    return 0;
}

static int check_bounds(struct sg_dec *d)
{
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        const struct bound *b = &bounds[i];
        const struct sg_opnd *o = &d->ops[b->operand];

        if (b->operand >= d->nops || o->kind != SG_O_IMM || !has_word(b->base, strlen(b->base), d->oc.base) ||
            !fits_words(&d->oc, b->words))
            continue;
        if (o->imm < b->low || o->imm > b->high || o->imm % b->step)
            return sg_dec_syntax(d, "%s: operand %u is %llu; %llu to %llu in steps of %llu expected",
                                 d->oc.full, b->operand + 1, (unsigned long long)o->imm,
                                 (unsigned long long)b->low, (unsigned long long)b->high,
                                 (unsigned long long)b->step);
    }
    return 0;
}

static int check_gates_once(struct sg_dec *d, struct sg_form_seen *seen)
{
    if (seen->open || sg_check_gates(d))
        return d->err;
    seen->open = true;
    return 0;
}

int sg_check_form(struct sg_dec *d)
{
    struct sg_form_seen *seen = cached_form(d);
    const struct form *f = seen->form;
    const char *broken = d->m->version > VERSION_KNOWN ? NULL : broken_rule(d);

    if (broken)
        return sg_dec_syntax(d, "%s: %s", d->oc.full, broken);
    if (!seen->known)
        return check_gates_once(d, seen);
    if (!f && d->m->version > VERSION_KNOWN)
        return 0;
    if (!f)
        return sg_dec_syntax(d, "%s: PTX has no such instruction with %u operands", d->oc.full, d->nops);
    if (check_gates_once(d, seen) || check_bounds(d))
        return d->err;
    if (f->target > d->m->target)
        return sg_dec_syntax(d, "%s needs .target sm_%u or higher", d->oc.full, f->target);
    for (uint32_t i = 0; i < d->nops && f->operands[i]; i++) {
        const struct sg_opnd *o = &d->ops[i];
        char what = f->operands[i];

        if (what == '*' || what == '.' || operand_fits(d, i, what))
            continue;
        if (o->kind == SG_O_REG)
            return sg_dec_syntax(d, "%s: operand of type .%s where .%s is expected", d->oc.full,
                                 sg_type_name((enum sg_type)d->vregs[o->v].type),
                                 sg_type_name(operand_type(d, what)));
        return sg_dec_syntax(d, "%s: operand %u: %s", d->oc.full, i + 1,
                             i == 0                                 ? "a register expected as destination"
                             : o->kind == SG_O_SREG                 ? "no special register may stand here"
                             : o->kind == SG_O_SYM                  ? "no name of a variable may stand here"
                             : what == 'a'                          ? "an address expected"
                             : what == 'n'                          ? "a constant expected"
                             : sg_type_float(operand_type(d, what)) ? "a floating-point constant expected"
                                                                    : "an integer expected");
    }
    return 0;
}
