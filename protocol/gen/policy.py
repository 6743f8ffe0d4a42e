# SPDX-License-Identifier: MIT
"""Policy: what a description must satisfy, and the wire layout that follows from it. No output.

A call without number, maximum or class is an error here, never a default."""
from dataclasses import dataclass, field

import facts
from facts import PolicyError, Located
from parse import Local, Param

SCALARS = {'u8': (1, 'uint8_t'), 'u16': (2, 'uint16_t'), 'u32': (4, 'uint32_t'),
           'u64': (8, 'uint64_t'), 'i32': (4, 'int32_t'), 'i64': (8, 'int64_t'), 'f32': (4, 'float')}
CLASSES = ('async', 'sync', 'wait', 'flex')
HANDLES = {'context': 'VGP_H_CONTEXT', 'stream': 'VGP_H_STREAM', 'event': 'VGP_H_EVENT',
           'module': 'VGP_H_MODULE', 'function': 'VGP_H_FUNCTION', 'library': 'VGP_H_LIBRARY',
           'kernel': 'VGP_H_KERNEL', 'graph': 'VGP_H_GRAPH', 'graph_node': 'VGP_H_GRAPH_NODE',
           'graph_exec': 'VGP_H_GRAPH_EXEC', 'mem_pool': 'VGP_H_MEM_POOL', 'link': 'VGP_H_LINK',
           'array': 'VGP_H_ARRAY', 'mipmapped_array': 'VGP_H_MIPMAPPED_ARRAY',
           'texture': 'VGP_H_TEXTURE', 'surface': 'VGP_H_SURFACE',
           'allocation': 'VGP_H_ALLOCATION', 'user_object': 'VGP_H_USER_OBJECT',
           'green': 'VGP_H_GREEN', 'resource_desc': 'VGP_H_RESOURCE_DESC',
           'func': 'VGP_H_FUNCTION'}
BLOB_INLINE_MAX = 48 * 1024      # a larger blob goes in pieces of VGP_BLOB_CHUNK
RECORD_ARGS_MAX = 72 * 1024 - 32  # VGP_RECORD_MAX less the header
REPLY_MAX = 4096 - 16            # VGP_REPLY_SLOT_SIZE less the header
# The minor version that brought a call: by its number up to here, by its own since=1.N from here on.
SINCE_OF_OLD = ((0x0500, 0), (0x0a00, 1))


@dataclass
class Field:
    name: str
    ctype: str
    offset: int
    size: int


@dataclass
class Layout:
    """A fixed part: its C fields with padding made explicit, 8-byte multiples."""
    fields: list = field(default_factory=list)
    size: int = 0

    def add(self, name, ctype, size):
        off = (self.size + size - 1) // size * size
        if off > self.size:
            self.fields.append(Field(f'pad{self.size}', 'uint8_t', self.size, off - self.size))
        self.fields.append(Field(name, ctype, off, size))
        self.size = off + size

    def close(self):
        if self.size % 8:
            n = 8 - self.size % 8
            self.fields.append(Field(f'pad{self.size}', 'uint8_t', self.size, n))
            self.size += n


def limit(p, call):
    if 'max' not in p.attrs:
        raise PolicyError(f'{call.name}: {p.name} has no max')
    return int(p.attrs['max'], 0)


def layout_struct(st):
    lay = Layout()
    for wt, name, _ in st.fields:
        if wt not in SCALARS:
            raise PolicyError(f'struct {st.name}: {name}: type {wt} is not known here')
        size, ct = SCALARS[wt]
        lay.add(name, ct, size)
    lay.close()
    return lay


def find_struct(name, call, d):
    if name not in d.structs:
        raise PolicyError(f'{call.name}: struct {name} is not described')
    with Located(d.structs[name]):
        return layout_struct(d.structs[name])


def element_size(p, call, d):
    """Bytes of one element of an array: a scalar, a handle (as u64) or a described struct."""
    kind, _, name = p.sub.partition(':')
    if p.sub in SCALARS:
        return SCALARS[p.sub][0]
    if kind == 'handle' and name in HANDLES and p.dir == 'in':
        return 8
    if kind == 'struct' and p.dir == 'in':
        return find_struct(name, call, d).size
    raise PolicyError(f'{call.name}: {p.name}: an array of {p.sub} is not known in this direction')


def pad8(n):
    return (n + 7) & ~7


def since(c):
    """The minor version that a worker must speak to know the call."""
    said = c.opts.pop('since', None)
    if said is not None:
        major, dot, minor = str(said).partition('.')
        if major != '1' or not dot or not minor.isdigit():
            raise PolicyError(f'{c.name}: since={said} is not since=1.N')
        return int(minor)
    for limit_, minor in SINCE_OF_OLD:
        if c.number < limit_:
            return minor
    raise PolicyError(f'{c.name}: a call from {SINCE_OF_OLD[-1][0]:#06x} on needs since=1.N')


def silent(c):
    """A fill of memory that needs no reply where the guest knows that it cannot fail: the expressions for its address,
    pitch, width and height in elements, and the size of an element. From silent=1.N; N is kept as .silent_since."""
    if 'silent' not in c.opts:
        return None
    shape = {'dstDevice': 'dstDevice', 'dstPitch': '0', 'Width': 'N', 'Height': '1'}
    names = {p.name: p for p in c.params}
    value = [p for p in c.params if p.type in SCALARS and p.name not in ('dstDevice', 'dstPitch', 'Width', 'Height', 'N')]
    major, _, minor = str(c.opts.pop('silent')).partition('.')
    if c.cls != 'sync' or any(p.dir != 'in' for p in c.params) or major != '1' or not minor.isdigit() or \
            len(value) != 1 or 'dstDevice' not in names or not names.keys() & {'N', 'Width'}:
        raise PolicyError(f'{c.name}: silent=1.N is for fills of memory')
    c.silent_since = int(minor)
    return [n if n in names else other for n, other in shape.items()] + [str(SCALARS[value[0].type][0])]


def side(c, name, steps, known, default):
    """What the call's line says of a side. That steps follow is said there, too: without its block a call would be another."""
    said = c.opts.pop(name, None)
    if said is not None and said not in known:
        raise PolicyError(f'{c.name}: {name}={said} is not one of {known}')
    wanted = 'forward' if name == 'entry' and forwards(c) else 'steps'
    if bool(steps) != (said in ('steps', 'forward')) or steps and said != wanted:
        raise PolicyError(f'{c.name}: {name}={said}, ' + (f'with steps of {name}={wanted}' if steps else 'without steps'))
    return said or default


def apply_call(c, d):
    """Attaches .args, .ret, .var_in, .var_out and what the options say."""
    if c.cls not in CLASSES:
        raise PolicyError(f'{c.name}: class {c.cls} is not one of {CLASSES}')
    is_cu = c.name.startswith('cu')
    c.node = bool(c.opts.pop('node', False))
    if c.node:
        add_node_params(c)
    check_entry(c, d)
    check_work(c)
    c.entry = side(c, 'entry', c.steps, ('custom', 'steps', 'forward') if is_cu else (), 'forward' if is_cu else 'none')
    c.worker = side(c, 'worker', c.work, ('custom', 'steps'), 'forward' if is_cu else 'custom')
    if c.entry == 'forward' and c.steps:
        c.entry = 'steps'
    c.noctx = bool(c.opts.pop('noctx', False))
    c.long = bool(c.opts.pop('long', False))
    c.silent = silent(c)
    c.post = bool(c.opts.pop('post', False))
    c.intent = bool(c.opts.pop('intent', False)) or c.cls == 'flex'
    if c.post and (c.cls != 'sync' or any(p.dir not in ('in', 'del') for p in c.params) or c.worker not in ('custom', 'steps')):
        raise PolicyError(f'{c.name}: post=1.N is for a synchronous call without results and with a handler of its own')
    if c.long and (c.worker != 'forward' or c.cls != 'sync'):
        raise PolicyError(f'{c.name}: a long call is forwarded, and synchronous')
    c.per_thread = c.opts.pop('per_thread', None)
    c.since = since(c)
    c.added = c.opts.pop('added', None)
    facts.apply(c, HANDLES)
    if c.silent and c.effect != 'runs':
        raise PolicyError(f'{c.name}: what nobody waits for is work in flight: effect=runs')
    if c.fills_legacy and c.worker != 'forward':
        raise PolicyError(f'{c.name}: only a forwarded call fills the legacy stream')
    if c.opts:
        raise PolicyError(f'{c.name}: unknown option {c.opts}')
    if c.cls == 'wait' and c.worker != 'custom':
        raise PolicyError(f'{c.name}: a waiting call needs worker=custom: '
                          'the dispatcher must not block')
    layout_call(c, d)


def apply_refused(d):
    """Reasons, and the names that are refused for them."""
    for u in d.unsupported:
        with Located(u):
            if u.reason not in d.reasons:
                raise PolicyError(f'{u.name}: reason {u.reason} has no text')
    for name, reason in d.reasons.items():
        with Located(reason):
            if not any(u.reason == name for u in d.unsupported):
                raise PolicyError(f'reason {name}: no call is refused for it')


def apply(d):
    """Checks the description and attaches .args, .ret, .var_in, .var_out to each call."""
    numbers, names = {}, {}
    for c in d.calls:
        with Located(c):
            if c.number in numbers or not 0 < c.number < 0xffff:
                raise PolicyError(f'{c.name}: number {c.number:#x} is taken or out of range')
            numbers[c.number] = c
            apply_call(c, d)
    for x in d.calls + d.locals + d.unsupported:
        with Located(x):
            if x.name in names:
                raise PolicyError(f'{x.name}: described twice')
            names[x.name] = x
    apply_refused(d)
    for x in d.locals + d.unsupported:
        with Located(x):
            if isinstance(x, Local):
                check_entry(x, d)
                x.entry = 'steps' if x.steps else 'custom'
            x.per_thread = x.opts.pop('per_thread', None)
            x.added = x.opts.pop('added', None)
            x.caller = bool(x.opts.pop('caller', False)) if isinstance(x, Local) else False
            if x.opts:
                raise PolicyError(f'{x.name}: unknown option {x.opts}')
    d.calls.sort(key=lambda c: c.number)


def outputs(x):
    """The names of an entry point's results."""
    if hasattr(x, 'cparams'):
        return {n for t, n in x.cparams if t.endswith('*') and t != 'void *' and not t.startswith('const')}
    return {p.name for p in x.params if p.dir in ('out', 'new')}


def forwards(x):
    """True of steps around the checks and the forwarding that a call has without steps."""
    kinds = {s.kind for s in x.steps}
    return not isinstance(x, Local) and bool(kinds & {'done', 'then'}) and kinds <= {'let', 'done', 'then'}


def check_entry(x, d):
    """The steps of an entry point: checks, then one answer or none, then what is given back where it succeeded. Or those around
    a call that is forwarded: what may make it needless, and what follows where it succeeded."""
    kinds = [s.kind for s in x.steps]
    if not kinds:
        return
    if forwards(x):
        check_around(x, kinds)
        return
    last = kinds.index('answer') if 'answer' in kinds else kinds.index('give') - 1 if 'give' in kinds else 0
    if kinds.count('answer') > 1 or kinds.count('place') > 1 or 'place' in kinds[1:] or \
            ('answer' not in kinds and 'give' not in kinds) or \
            any(k in ('then', 'give') for k in kinds[:last]) or any(k not in ('then', 'give') for k in kinds[last + 1:]):
        with Located(x.steps[-1]):
            raise PolicyError(f'{x.name}: steps are checks, one answer, and what is given then')
    for s in x.steps:
        with Located(s):
            check_entry_step(x, s, d)


def check_around(x, kinds):
    behind = kinds.index('then') if 'then' in kinds else len(kinds)
    for s in x.steps[behind:]:
        with Located(s):
            if s.kind != 'then':
                raise PolicyError(f'{x.name}: {s.kind} behind a forwarded call')
    for s in x.steps:
        with Located(s):
            check_step(x, s)


def check_entry_step(x, s, d):
    if s.kind == 'place' and s.text not in ('add', 'set', 'exec'):
        raise PolicyError(f'{x.name}: a place is add, set or exec')
    if s.kind == 'mint' and (len(s.text.split()) != 2 or s.text.split()[1] not in HANDLES):
        raise PolicyError(f'{x.name}: mint NAME KIND')
    if s.kind == 'zero' and s.text not in outputs(x):
        raise PolicyError(f'{x.name}: zero {s.text}: no output')
    if s.kind == 'give' and ' = ' not in s.text:
        raise PolicyError(f'{x.name}: give is an assignment')
    if s.kind == 'object' and (len(s.text.split()) < 3 or s.text.split()[1] not in d.records):
        raise PolicyError(f'{x.name}: object NAME KIND HANDLE, of a kind that a record line describes')
    check_step(x, s)


def check_work(c):
    """The steps of a handler end with what it does; that of a node with what it does for each operation."""
    if not c.work:
        return
    kinds = [s.kind for s in c.work if s.kind != 'failed']
    does = [k for k in kinds if k in ('does', 'add', 'set', 'exec')]
    wanted = [k for k in ('add', 'set', 'exec') if k in kinds] if c.node and 'does' not in kinds else ['does']
    if does != wanted or (c.node and 'does' not in kinds and 'add' not in kinds) or \
        kinds.count('needs') > 1 or sum(s.kind == 'failed' for s in c.work) > 1 or \
            any(k == 'after' for k in kinds[:kinds.index(does[0])]) or \
            any(k not in ('does', 'add', 'set', 'exec', 'after') for k in kinds[kinds.index(does[0]):]):
        with Located(c.work[-1]):
            raise PolicyError(f'{c.name}: steps end with one does' + (', or add, set, exec' if c.node else ''))
    for s in c.work:
        with Located(s):
            check_step(c, s)
    for p in c.params:
        if p.dir == 'out' and p.type in ('array', 'bytes') and p.attrs.keys() & {'from', 'each'} and 'len' not in p.attrs:
            raise PolicyError(f'{c.name}: param {p.name} has no len')


def check_step(x, s):
    if (s.kind == 'fault') == bool(s.text) and s.kind != 'needs' or (s.kind in ('refuse', 'deny') and not s.result.startswith('CUDA_ERROR_')) or \
            (s.kind == 'rows' and not s.result) or (s.why and not (s.why[0] == s.why[-1] == '"')):
        raise PolicyError(f'{x.name}: {s.kind} is not complete')


# What every call about a node of a graph begins with, and its first result: where it is added, or which one is changed.
NODE_PARAMS = (
    ('in', 'u32', '', 'op', 'uint32_t', {}),
    ('in', 'handle', 'graph', 'graph', 'CUgraph', {'null': True}),
    ('in', 'handle', 'graph_node', 'target', 'CUgraphNode', {'null': True}),
    ('in', 'handle', 'graph_exec', 'exec', 'CUgraphExec', {'null': True}),
    ('in', 'array', 'handle:graph_node', 'dependencies', 'const CUgraphNode *', {'count': 'dependenciesCount', 'max': '2048'}),
    ('in', 'bytes', '', 'edgeData', 'const void *', {'len': 'edgeDataLen', 'max': '16384'}))


def add_node_params(c):
    first = [Param(*p[:5], dict(p[5]), c.path, c.line) for p in NODE_PARAMS]
    node = Param('out', 'u64', '', 'node', 'uint64_t *', {'made': True}, c.path, c.line)
    ins = [p for p in c.params if p.dir != 'out']
    c.params = first + ins + [node] + [p for p in c.params if p.dir == 'out']


def check_meaning(c, p):
    """What a replay is told about a field must fit the field."""
    words = p.type == 'u64' or p.type == 'array' and p.sub == 'u64'
    for attr, fits in (('addr', words), ('made', words), ('varies', p.dir == 'out'),
                       ('words', p.type == 'bytes'), ('opaque', p.type == 'bytes')):
        if attr in p.attrs and not fits:
            raise PolicyError(f'{c.name}: {p.name}: {attr} does not fit {p.dir} {p.type}')
    if 'device' in p.attrs and p.type != 'i32' and (p.type, p.sub) != ('array', 'i32'):
        raise PolicyError(f'{c.name}: {p.name}: device does not fit {p.dir} {p.type}')
    kind = p.attrs.get('device', True)
    if kind is not True and not any(q.name == kind and q.dir == p.dir for q in c.params):
        raise PolicyError(f'{c.name}: {p.name}: device={kind} names no parameter of the same direction')


def layout_param(c, p, d):
    check_meaning(c, p)
    lay = c.ret if p.dir == 'out' else c.args
    if p.type in SCALARS:
        size, ct = SCALARS[p.type]
        lay.add(p.name, ct, size)
    elif p.type == 'handle':
        if p.sub not in HANDLES:
            raise PolicyError(f'{c.name}: {p.name}: unknown handle kind {p.sub}')
        if p.dir == 'out':
            raise PolicyError(f'{c.name}: {p.name}: handles are minted by the guest: use new')
        lay.add(p.name, 'uint64_t', 8)
    elif p.type == 'struct':
        if p.dir not in ('in', 'out'):
            raise PolicyError(f'{c.name}: {p.name}: a struct is in or out')
        st = find_struct(p.sub, c, d)
        if lay.size % 8:
            lay.close()
        lay.fields.append(Field(p.name, f'struct vgp_{p.sub}', lay.size, st.size))
        lay.size += st.size
    elif p.type == 'blob' and p.dir == 'in':
        lay.add(f'{p.name}_size', 'uint64_t', 8)
        lay.add(f'{p.name}_blob', 'uint32_t', 4)
        lay.add(f'{p.name}_len', 'uint32_t', 4)
        p.elem, p.max = 1, BLOB_INLINE_MAX
        c.var_in.append(p)
    elif p.type in ('str', 'bytes', 'array'):
        p.max = limit(p, c)
        p.elem = element_size(p, c, d) if p.type == 'array' else 1
        lay.add(f'{p.name}_len', 'uint32_t', 4)  # elements (str: bytes with the NUL)
        (c.var_out if p.dir == 'out' else c.var_in).append(p)
    else:
        raise PolicyError(f'{c.name}: {p.name}: type {p.type} is not known here')


def layout_call(c, d):
    c.args, c.ret = Layout(), Layout()
    c.var_in, c.var_out = [], []
    for p in c.params:
        with Located(p):
            layout_param(c, p, d)
    c.args.close()
    c.ret.close()
    c.args_max = c.args.size + sum(pad8(p.max * p.elem) for p in c.var_in)
    c.ret_max = c.ret.size + sum(pad8(p.max * p.elem) for p in c.var_out)
    if c.args_max > RECORD_ARGS_MAX:
        raise PolicyError(f'{c.name}: arguments may take {c.args_max} bytes: too large a record')
    if c.ret_max > REPLY_MAX:
        raise PolicyError(f'{c.name}: the reply may take {c.ret_max} bytes, a slot has {REPLY_MAX}')
    if c.cls == 'async' and (c.ret.size or c.var_out):
        raise PolicyError(f'{c.name}: an asynchronous call has no reply and so no results')
