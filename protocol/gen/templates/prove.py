# SPDX-License-Identifier: MIT
"""prove_CALL.c: statements about the decoder of each call of the worker, for CBMC (prove.sh). One file for each call: what
CBMC reads costs it more than what it proves."""
import re
from templates import worker
from templates.common import BANNER

ROOM = 48  # bytes of a record beyond its fixed part where a decoder has a loop over its elements

HEAD = '''#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a decoder copies to and from is checked, not what: replies are large. */
static void filled(const void *to, uint64_t n)
{
    __CPROVER_assert(__CPROVER_w_ok(to, n), "what is written has room");
}

static void copied(const void *to, const void *from, uint64_t n)
{
    filled(to, n);
    __CPROVER_assert(!from && !n || __CPROVER_r_ok(from, n), "what is copied can be read");
}
#define memcpy(to, from, n) copied(to, from, n)
#define memset(to, byte, n) filled(to, n)

uint32_t nondet_u32(void);
uint64_t nondet_u64(void);
bool nondet_bool(void);
CUresult nondet_result(void);

static bool refused;

CUresult wrk_malformed(struct wrk_call *c, const char *fmt, ...)
{
    (void)fmt;
    refused = c->malformed = true;
    return CUDA_ERROR_INVALID_VALUE;
}

/* A record as the ring gives it: header checked, any bytes, as many as its row allows. */
static struct wrk_call *call_of(uint32_t size)
{
    static struct wrk_call c;

    c.args = __CPROVER_allocate(size, 0);
    c.args_size = size;
    c.malformed = c.deferred = false;
    c.reply_size = 0;
    refused = false;
    return &c;
}

/* Memory lent to the handler: n elements of any content; NULL only where there are none. */
static void *lent(uint64_t n, uint64_t size)
{
    __CPROVER_assume(n < 1ull << 40); /* no machine has more */
    return !n && nondet_bool() ? NULL : __CPROVER_allocate(n * size, 0);
}

static void *lent_or_null(uint64_t n, uint64_t size)
{
    return nondet_bool() ? NULL : lent(n, size);
}

/* A terminated string of any length, or NULL. */
static char *lent_text(void)
{
    const uint64_t n = (uint64_t)nondet_u32() + 1;
    char *text = __CPROVER_allocate(n, 0);

    text[n - 1] = 0;
    return nondet_bool() ? NULL : text;
}

void *calloc(size_t n, size_t size)
{
    if (nondet_bool() || n >= 1ull << 40)
        return NULL;
    return __CPROVER_allocate(n * size, 1);
}

void free(void *p)
{
    __CPROVER_assert(!p || __CPROVER_POINTER_OFFSET(p) == 0, "what is freed was allocated");
}

/* The last string printed and a bound of its length: strlen() is asked only about that string. */
static const char *printed_at;
static uint64_t printed_bound;

/* snprintf(to, room, "%s", text). A string whose object ends with another byte than 0 counts as not terminated. */
static void printed(char *to, uint64_t room, const char *text)
{
    __CPROVER_assert(room && __CPROVER_w_ok(to, room), "what is printed has room");
    __CPROVER_assert(__CPROVER_r_ok(text, 1), "the string can be read");
    __CPROVER_assert(!text[__CPROVER_OBJECT_SIZE(text) - __CPROVER_POINTER_OFFSET(text) - 1], "the string is terminated");
    __CPROVER_havoc_slice(to, room);
    printed_at = to;
    printed_bound = nondet_u64();
    __CPROVER_assume(printed_bound < room);
    to[printed_bound] = 0;
}
#define snprintf(to, room, format, text) printed(to, room, text)

static size_t printed_length(const char *text)
{
    const uint64_t n = nondet_u64();

    __CPROVER_assert(text == printed_at, "the string was printed");
    __CPROVER_assume(n <= printed_bound);
    return n;
}
#define strlen(text) printed_length(text)

/* A call of the provider: its result is anything, and so is what it leaves in variables that it is given. */
static CUresult provided(int none, ...)
{
    (void)none;
    return nondet_result();
}
'''

# What functions of the worker are promised, and what their headers promise, beside one object for each pointer and as many as
# an array parameter says: (pointer, size, how). Sizes of "r" and "w", what is read and what is written, are in bytes, as is
# that of "string": what is written is terminated. "lent": where the function succeeds, the pointer leads to that many elements,
# and is NULL only where there are none; "lent?": or is NULL in any case. "return": the result of the function.
PROMISED = {
    'wrk_where_get': [('dependencies', '(uint64_t)n * 8', 'r'), ('edges', 'edge_bytes', 'r')],
    'wrk_launch_attributes': [('ids', '(uint64_t)n * 4', 'r'), ('values', 'value_bytes', 'r'),
                              ('attrs', 'WRK_LAUNCH_ATTRIBUTES_MAX * sizeof(*attrs)', 'w')],
    'wrk_memory_operations_known': [('list', 'n * sizeof(*list)', 'r')],
    'wrk_memory_operations_packed': [('words', '(uint64_t)nwords * 8', 'r'), ('out', '(nwords + 3) / 4 * sizeof(*out)', 'w')],
    'wrk_function_attributes': [('out', 'VGP_MAX_vgpModuleGetFunction_attributes * sizeof(*out)', 'w')],
    'wrk_param_layout': [('out', 'VGP_MAX_vgpModuleGetFunction_paramLayout * sizeof(*out)', 'w')],
    'wrk_blob_take': [('*data', 'size', 'lent')],
    'wrk_load_new': [('image', 'size', 'r')],
    'wrk_load_plain': [('image', 'size', 'r')],
    'wrk_blob_append': [('data', 'size', 'r')],
    'wrk_capture_nodes': [('handles', '(uint64_t)n * 8', 'r'), ('*nodes', 'n', 'lent')],
    'wrk_edges_ok': [('data', 'bytes', 'r'), ('*out', 'edges', 'lent?')],
    'wrk_alloc_node': [('access', 'n * sizeof(*access)', 'r')],
    'wrk_load_jit': [('ids', '(uint64_t)n * 4', 'r'), ('values', '(uint64_t)nvalues * 8', 'r')],
    'wrk_resource_groups': [('words', '(uint64_t)nwords * 4', 'r'), ('out', 'nwords / 5 * sizeof(*out)', 'w')],
    'wrk_resources_kept': [('ids', '(uint64_t)n * 8', 'r'), ('out', 'n * sizeof(*out)', 'w')],
    'wrk_nvml_text': [('to', 'room', 'string')],
    'wrk_node_bodies': [('return', '*n', 'lent?')],
    'wrk_kernel_node_pack': [('*packed', '*size', 'lent')],
    'wrk_jit_log_text': [('*text', '*total', 'lent')],
    'wrk_link_result': [('*result', '*size', 'lent')],
    'wrk_link_log': [('*text', '*total', 'lent')],
    'wrk_allocation_token': [('return', 'VGB_TOKEN', 'lent?')],
    'wrk_pool_token': [('return', 'VGB_TOKEN', 'lent?')],
}
# The same of functions of the provider, as CUDA's manual has it; {0} is the first argument. What is read and written may be
# NULL. "text": a terminated string, or NULL.
PROVIDED = {
    'cuModuleEnumerateFunctions': [('{0}', '(uint64_t){1} * sizeof(*{0})', 'w')],
    'cuLibraryEnumerateKernels': [('{0}', '(uint64_t){1} * sizeof(*{0})', 'w')],
    'cuFuncGetName': [('*{0}', '', 'text')],
    'cuKernelGetName': [('*{0}', '', 'text')],
    'cuGraphBatchMemOpNodeGetParams': [('{1}->paramArray', '{1}->count', 'lent')],
    'cuGraphMemAllocNodeGetParams': [('{1}->accessDescs', '{1}->accessDescCount', 'lent?')],
    'cuDevSmResourceSplit': [('{0}', '(uint64_t){1} * sizeof(CUdevResource)', 'w'), ('{5}', '(uint64_t){1} * sizeof(*{5})', 'w')],
    'cuDevSmResourceSplitByCount': [('{0}', '(uint64_t)*{1} * sizeof(CUdevResource)', 'w')],
    'cuStreamUpdateCaptureDependencies': [('{1}', '(uint64_t){2} * sizeof(*{1})', 'r')],
    'cuStreamUpdateCaptureDependencies_v2': [('{1}', '(uint64_t){3} * sizeof(*{1})', 'r'),
                                             ('{2}', '(uint64_t){3} * sizeof(*{2})', 'r')],
    'cuMemSetAccess': [('{2}', '(uint64_t){3} * sizeof(*{2})', 'r')],
    'cuMemPoolSetAccess': [('{1}', '(uint64_t){2} * sizeof(*{1})', 'r')],
    'cuStreamBatchMemOp_v2': [('{2}', '(uint64_t){1} * sizeof(*{2})', 'r')],
}
MAY_BE_NULL = ('wrk_graph_memory bytes',)


def constants(headers):
    """name -> value of the numbers that the worker's headers define."""
    found = {}
    for path in headers:
        with open(path, encoding='utf-8') as f:
            found.update(re.findall(r'^#define ((?:WRK|VGB)_\w+) (\d+)u?\b', f.read(), re.M))
    return found


def prototypes(headers, d):
    """name -> (type of the result, parameters), of all that handlers call in the worker, whose headers these files are."""
    found = worker.rt_names(d)
    for path in headers:
        with open(path, encoding='utf-8') as f:
            found.update(worker.declared(f.read()))
    return found


def declarations(text, known, d):
    """The types of the worker that its functions are given, and those functions that are only pointed to."""
    used = [n for n in worker.own_names(d) if re.search(rf'\b{n}\b', text)]
    structs = sorted({s for n in used for s in re.findall(r'\bstruct wrk_\w+', ' '.join(known[n]))})
    return [f'{s};' for s in structs] + [f'{known[n][0]} {n}({known[n][1]});' for n in used if not re.search(rf'\b{n}\(', text)]


def access(name, p, size, how):
    """Statements of a function that reads or fills what it is given."""
    if how == 'r':
        return [f'__CPROVER_assert(!{p} && !({size}) || __CPROVER_r_ok({p}, {size}), "{name}: {p} can be read");']
    o = [f'__CPROVER_assert(__CPROVER_w_ok({p}, {size}), "{name}: {p} has room");', f'__CPROVER_havoc_slice({p}, {size});']
    if how == 'string':
        o.append(f'{p}[{size} - 1] = 0;')
    return o


def lent(p, n, how):
    """The pointer that a function returns."""
    if how == 'text':
        return 'lent_text()'
    return f'lent{"_or_null" if how == "lent?" else ""}({n}, sizeof(*{p}))'


def stub(name, kind, params):
    """A function of the worker: its result and what it fills are anything, what it is given is what was promised to it."""
    promised = PROMISED.get(name, [])
    o = [f'{kind} nondet_{name}(void);'] if kind != 'void' else []
    o += [f'{kind} {name}({params})', '{']
    for p in params.split(', '):
        m = re.match(r'(const )?([\w ]+?) ?(\**)(\w+)(\[\w+\])?$', p)
        if not m or not m[3] and not m[5] or any(m[4] == q[0] for q in promised):
            continue
        if m[2].startswith('struct wrk_') and m[2] != 'struct wrk_where' and m[3] == '*':
            continue  # an object of the worker
        if m[3] == '*' and (m[2] == 'void' or m[1] and m[2] == 'char'):
            continue  # an object of the provider; a name
        if f'{name} {m[4]}' in MAY_BE_NULL:
            o += [f'    if (!{m[4]})', f'        return nondet_{name}();']
        how = 'r' if m[1] and m[3] != '**' else 'w'
        o += ['    ' + ln for ln in access(name, m[4], (f'{m[5][1:-1]} * ' if m[5] else '') + f'sizeof(*{m[4]})', how)]
    for p, size, how in promised:
        if not how.startswith('lent'):
            o += ['    ' + ln for ln in access(name, p, size, how)]
    pointers = ['return'] if kind.endswith('*') and not kind.startswith('struct wrk_') else []
    pointers += ['*' + m[1] for m in re.finditer(r'\b(?:const void|(?!void\b|wrk_)\w+) ?\*\*(\w+)', params)]
    unsaid = [p for p in pointers if not any(p == q[0] for q in promised)]
    if unsaid:
        raise ValueError(f'prove.py: {name}: nothing is promised of what {", ".join(unsaid)} leads to')
    fills = [(p, size, how) for p, size, how in promised if how.startswith('lent')]
    if fills:
        o.append(f'    {kind} r_ = nondet_{name}();')
    for p, size, how in fills:
        o.append(f'    r_ = {lent("r_", size, how)};' if p == 'return' else
                 f'    if ({"r_" if kind == "bool" else "r_ == CUDA_SUCCESS"})\n        {p} = {lent(p, size, how)};')
    if kind != 'void':
        o.append('    return r_;' if fills else f'    return nondet_{name}();')
    return o + ['}', '']


def custom(c):
    """A handler written by hand: all that was announced can be read; what it answers is anything."""
    o = [worker.custom_proto(c), '{', '    (void)c;']
    if c.args.size:
        o.append('    (void)a;')
    for p in c.var_in:
        size = f'a->{p.name}_size' if p.type == 'blob' else f'(uint64_t)a->{p.name}_len * {p.elem}'
        if p.type == 'blob':
            o.append(f'    if (!a->{p.name}_blob)')
        o.append(('    ' if p.type == 'blob' else '') +
                 f'    __CPROVER_assert(__CPROVER_r_ok({p.name}, {size}), "{c.name}: {p.name} can be read");')
    if c.ret.size:
        o.append('    __CPROVER_havoc_slice(r, sizeof(*r));')
    if c.var_out:
        o.append('    (void)o;')
    return o + ['    return nondet_result();', '}', '']


def arguments(text):
    """The arguments of a call, by its text between the parentheses."""
    o, depth = [''], 0
    for ch in text:
        depth += {'(': 1, '[': 1, '{': 1, ')': -1, ']': -1, '}': -1}.get(ch, 0)
        if ch == ',' and not depth:
            o.append('')
        else:
            o[-1] += ch
    return [a.strip() for a in o]


def called(name, text):
    """provided() for a call of the provider: what it is given by address is anything then."""
    given = arguments(text) if text else []
    before, after = [], []
    for m in (re.match(r'(?:\([^()]*\*\))?&(\w+)$', a) for a in given):
        after += [f'__CPROVER_havoc_slice(&{m[1]}, sizeof({m[1]}));'] if m else []
    for p, size, how in PROVIDED.get(name, []):
        p, size = (s.format(*[f'({a})' for a in given]) for s in (p, size))
        if how in ('r', 'w'):
            before.append(f'if ({p}) {{ {" ".join(access(name, p, size, how))} }}')
        else:
            after.append(f'if (r_ == CUDA_SUCCESS) {p} = {lent(p, size, how)};')
    return ' '.join(['({', *before, f'CUresult r_ = provided({", ".join(["0", *given])});', *after, 'r_; })'])


def without_provider(text):
    """The handler without the provider."""
    o, at = [], 0
    for m in re.finditer(r'wrk_provider\.(\w+)(\()?', text):
        if m.start() < at:
            raise ValueError('a call of the provider in the arguments of another')
        o.append(text[at:m.start()])
        at = m.end()
        if not m[2]:
            o.append('nondet_bool()')
            continue
        depth, end = 1, at
        while depth:
            depth += {'(': 1, ')': -1}.get(text[end], 0)
            end += 1
        o.append(called(m[1], text[at:end - 1]))
        at = end
    return ''.join(o) + text[at:]


def any_element(text):
    """The handler with one element, any, of each array of the reply: an iteration fills its own element and reads no other, so
    that what holds for any holds for all."""
    return re.sub(r'( +)for \(uint32_t i = 0; i < (ret\.\w+_len); i\+\+\)\n( +o\.\w+\[i\] = .*;)',
                  r'\1for (uint32_t i = nondet_u32(), once = 1; once && i < \2; once = 0)\n\3', text)


def statement(c, loops):
    o = ['void prove(void)', '{', '    const uint32_t size = nondet_u32();']
    first, most = -(-c.args.size // 16) * 16, -(-c.args_max // 16) * 16
    if loops:
        most = min(most, first + ROOM)
    o += ['', f'    __CPROVER_assume(size >= {first} && size <= {most} && size % 16 == 0);',
          '    struct wrk_call *c = call_of(size);']
    if c.args.size:
        o.append(f'    const struct vgp_args_{c.name} *a = (const void *)c->args;')
    o += ['', f'    handle_{c.name}(c);']
    parts = [str(c.args.size)]
    for p in c.var_in:
        parts.append(f'vgp_round8((uint64_t)a->{p.name}_len * {p.elem})')
        o.append(f'    __CPROVER_assert(refused || a->{p.name}_len <= {p.max}, "{c.name}: {p.name} obeys its limit");')
    return o + [f'    __CPROVER_assert(refused || vgp_round16({" + ".join(parts)}) == size, '
                f'"{c.name}: the record is what its parts add up to");',
                f'    __CPROVER_assert(c->reply_size <= sizeof(c->reply), "{c.name}: the reply has its size");', '}', '']


def promises_known(known, asked):
    """Refuses a promise of a function that the worker does not declare, or that no handler asks the provider for."""
    stale = sorted((set(PROMISED) - set(known)) | (set(PROVIDED) - set(asked)))
    if stale:
        raise ValueError(f'prove.py: promises of unknown functions: {" ".join(stale)}')


def render(d, headers):
    """name -> text of its file."""
    known, numbers = prototypes(headers, d), constants(headers)
    texts = {c.name: '\n'.join(worker.handler(c, d)) for c in d.calls}
    asked = {n for text in texts.values() for n in re.findall(r'\bwrk_provider\.(\w+)\(', text)}
    promises_known(known, asked)
    files = {}
    for c in d.calls:
        text = texts[c.name]
        loops = any(s.kind == 'rows' for s in c.work) if c.worker == 'steps' else False
        head = '\n'.join(worker.preamble())
        top, decoders = head.split('#include "vgp_worker.h"\n')
        o = declarations(text, known, d)
        for name in sorted(set(re.findall(r'\b(wrk_\w+)\(', text)) - {'wrk_malformed', 'wrk_where_n', f'wrk_do_{c.name}'} -
                           worker.inline_names(d) |
                           ({'wrk_where_end'} if 'wrk_where_end' in text else set())):
            o += stub(name, *known[name])
        if c.worker == 'custom':
            o += custom(c)
        o += [any_element(without_provider(text))] + statement(c, loops)
        o = '\n'.join(o)
        used = [f'#define {n} {v}' for n, v in numbers.items() if re.search(rf'\b{n}\b', o)]
        files[c.name] = '\n'.join([BANNER + top + '#include "vgp_worker.h"\n' + HEAD + decoders, *used, o])
    return files
