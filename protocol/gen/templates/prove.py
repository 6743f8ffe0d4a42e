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
static void copied(const void *to, const void *from, uint64_t n)
{
    __CPROVER_assert(__CPROVER_w_ok(to, n), "what is written has room");
    __CPROVER_assert(!from || __CPROVER_r_ok(from, n), "what is copied can be read");
}
#define memcpy(to, from, n) copied(to, from, n)
#define memset(to, byte, n) copied(to, NULL, n)

uint32_t nondet_u32(void);
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

/* A call of the provider: its result is anything, and so is what it leaves in variables that it is given. */
static CUresult provided(int none, ...)
{
    (void)none;
    return nondet_result();
}
'''

# What is promised to functions of the worker beside one object for each pointer: (pointer, bytes, "r" or "w").
PROMISED = {
    'wrk_where_get': [('dependencies', '(uint64_t)n * 8', 'r'), ('edges', 'edge_bytes', 'r')],
    'wrk_launch_attributes': [('ids', '(uint64_t)n * 4', 'r'), ('values', 'value_bytes', 'r'),
                              ('attrs', 'WRK_LAUNCH_ATTRIBUTES_MAX * sizeof(*attrs)', 'w')],
    'wrk_memory_operations_known': [('list', 'n * sizeof(*list)', 'r')],
    'wrk_memory_operations_packed': [('words', '(uint64_t)nwords * 8', 'r'), ('out', '(nwords + 3) / 4 * sizeof(*out)', 'w')],
    'wrk_function_attributes': [('out', 'VGP_MAX_vgpModuleGetFunction_attributes * sizeof(*out)', 'w')],
    'wrk_param_layout': [('out', 'VGP_MAX_vgpModuleGetFunction_paramLayout * sizeof(*out)', 'w')],
    'wrk_long': [('args', '3 * sizeof(*args)', 'r')],
}
MAY_BE_NULL = ('wrk_graph_memory bytes',)


def prototypes(headers):
    """name -> (type of the result, parameters), of all that handlers call in the worker, whose headers these files are."""
    found = worker.rt_names()
    for path in headers:
        with open(path, encoding='utf-8') as f:
            found.update(worker.declared(f.read()))
    return found


def declarations(text, known, d):
    """The types of the worker that its functions are given, and those functions that are only pointed to."""
    used = [n for n in worker.own_names(d) if re.search(rf'\b{n}\b', text)]
    structs = sorted({s for n in used for s in re.findall(r'\bstruct wrk_\w+', ' '.join(known[n]))})
    return [f'{s};' for s in structs] + [f'{known[n][0]} {n}({known[n][1]});' for n in used if not re.search(rf'\b{n}\(', text)]


def stub(name, kind, params):
    """A function of the worker: its result and what it fills are anything, what it is given is what was promised to it."""
    o = []
    if kind != 'void':
        o.append(f'{kind} nondet_{name}(void);')
    o += [f'{kind} {name}({params})', '{']
    promised = PROMISED.get(name, [])
    for p in params.split(', '):
        m = re.match(r'(const )?([\w ]+?) ?(\*+)(\w+)$', p)
        if not m or m[1] or m[4] in ('c', 'w') and m[2].startswith('struct wrk_') and m[2] != 'struct wrk_where':
            continue
        if m[2] + m[3] == 'void*':
            continue  # an object of the provider
        if f'{name} {m[4]}' in MAY_BE_NULL:
            o += [f'    if (!{m[4]})', f'        return nondet_{name}();']
        if not any(m[4] == q[0] for q in promised):
            o += [f'    __CPROVER_assert(__CPROVER_w_ok({m[4]}, sizeof(*{m[4]})), "{name}: {m[4]} has room");',
                  f'    __CPROVER_havoc_slice({m[4]}, sizeof(*{m[4]}));']
    for p, size, how in promised:
        what = 'has room' if how == 'w' else 'can be read'
        o.append(f'    __CPROVER_assert(__CPROVER_{how}_ok({p}, {size}), "{name}: {p} {what}");')
        if how == 'w':
            o.append(f'    __CPROVER_havoc_slice({p}, {size});')
    if kind != 'void':
        o.append(f'    return nondet_{name}();')
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


def without_provider(text):
    """The handler with provided() for each call of the provider: what it is given by address is anything then."""
    o, at = [], 0
    for m in re.finditer(r'wrk_provider\.\w+(\()?', text):
        if m.start() < at:
            raise ValueError('a call of the provider in the arguments of another')
        o.append(text[at:m.start()])
        at = m.end()
        if not m[1]:
            o.append('nondet_bool()')
            continue
        depth, end = 1, at
        while depth:
            depth += {'(': 1, ')': -1}.get(text[end], 0)
            end += 1
        args = text[at:end - 1]
        lost = ''.join(f'__CPROVER_havoc_slice(&{v}, sizeof({v})); ' for v in re.findall(r'(?:^|, ?)(?:\([^()]*\*\))?&(\w+)(?=,|$)', args))
        o.append(f'({{ CUresult r_ = provided(0{", " if args else ""}{args}); {lost}r_; }})')
        at = end
    return ''.join(o) + text[at:]


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


def render(d, headers):
    """name -> text of its file."""
    known = prototypes(headers)
    files = {}
    for c in d.calls:
        text = '\n'.join(worker.handler(c, d))
        loops = any(s.kind == 'rows' for s in c.work) if c.worker == 'steps' else False
        head = '\n'.join(worker.preamble())
        top, decoders = head.split('#include "vgp_worker.h"\n')
        o = [BANNER + top + '#include "vgp_worker.h"\n' + HEAD + decoders] + declarations(text, known, d)
        for name in sorted(set(re.findall(r'\b(wrk_\w+)\(', text)) - {'wrk_malformed', 'wrk_where_n', f'wrk_do_{c.name}'} -
                           worker.inline_names() |
                           ({'wrk_where_end'} if 'wrk_where_end' in text else set())):
            o += stub(name, *known[name])
        if c.worker == 'custom':
            o += custom(c)
        o += [without_provider(text)] + statement(c, loops)
        files[c.name] = '\n'.join(o)
    return files
