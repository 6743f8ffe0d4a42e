# SPDX-License-Identifier: MIT
"""The software GPU's table of entry points (host/softgpu/api/entries.def) -> checks in their order. No output.

The table says in which order a call of the description is checked there; parameters, their types and whether they may
be NULL come from the description, and a row that contradicts it is an error."""
import re
from dataclasses import dataclass, field

from facts import PolicyError
from templates.entry import exports

GATES = ('init', 'ctx', 'current', 'maybe_ctx', 'usable', 'thread', 'uncaptured')
# What may stand once; after answer or give nothing is checked any more.
ENDS = ('answer', 'give')


@dataclass
class Kind:
    ctype: str      # of the handle: CUevent, or CUevent!VARIANT
    object: str     # the struct it names
    lookup: str     # an expression of HANDLE and OBJECT whose value is a CUresult


@dataclass
class Check:
    kind: str       # a gate, or: pointer, handle, zero, mask, limit, device, object, refuse, unused
    param: str = ''
    text: str = ''  # mask, limit: the C expression; object: the variable, or none; refuse: the condition; zero: the type
    result: str = ''
    why: str = ''
    handle: Kind = None


@dataclass
class Entry:
    name: str
    line: int
    params: list
    call: object
    checks: list = field(default_factory=list)
    ends: list = field(default_factory=list)  # (answer or give, text)

    def objects(self):
        """The objects that are handed inward, by the parameter that names them."""
        return {k.param: k for k in self.checks if k.kind == 'object'}


def parse_check(e, word, kinds):
    if word in GATES:
        return Check(word)
    m = re.fullmatch(r'(\w*)=(\w+)(!\w+)?', word)
    types = {n: t for t, n in e.params}
    if m:
        key = types.get(m[2], '?') + (m[3] or '')
        if key not in kinds:
            raise PolicyError(f'entries.def:{e.line}: {e.name}: {word}: no handle line looks up {key}')
        return Check('object', m[2], m[1], handle=kinds[key])
    m = re.fullmatch(r'(device:|handle:|zero:|~)?(\w+)(?:(&|<=)(.+))?', word)
    named = {'~': 'unused', None: {'&': 'mask', '<=': 'limit', None: 'pointer'}[m[3]]} if m else {}
    name, kind, text = (m[2], named.get(m[1]) or m[1][:-1], m[4] or '') if m else ('', '', '')
    if name not in types or m[1] and m[3]:
        raise PolicyError(f'entries.def:{e.line}: {e.name}: {word} is no check of one of its parameters')
    if kind == 'device' and types[name] not in ('CUdevice', 'int'):
        raise PolicyError(f'entries.def:{e.line}: {e.name}: {name} is no device')
    if kind == 'zero':
        text = types[name].removesuffix('*').strip()
        if not types[name].endswith('*') or types[name].startswith('const') or text == 'void':
            raise PolicyError(f'entries.def:{e.line}: {e.name}: {name} is no output')
    return Check(kind, name, text)


def check_entry(e):
    """A row that the description contradicts."""
    seen = {k.param for k in e.checks if k.kind == 'pointer'}
    told = ' '.join(k.text for k in e.checks if k.kind == 'refuse')
    for p in getattr(e.call, 'params', []):
        if p.name in seen and 'null' in p.attrs:
            raise PolicyError(f'entries.def:{e.line}: {e.name}: {p.name} may be NULL')
        written = any(k == 'give' and re.match(rf'\*{p.name}\b', text) for k, text in e.ends)
        if written and 'null' not in p.attrs and p.name not in seen and not re.search(rf'\b{p.name}\b', told):
            raise PolicyError(f'entries.def:{e.line}: {e.name}: {p.name} is written and may not be NULL: it is to be checked')
    names = [k.text for k in e.checks if k.kind == 'object' and k.text]
    if len(set(names)) != len(names) or 'ctx' in names or set(names) & {n for _, n in e.params}:
        raise PolicyError(f'entries.def:{e.line}: {e.name}: an object needs a name of its own')
    if not any(k.kind in GATES or k.kind == 'object' for k in e.checks) and not re.match(r'answer cu[A-Z]', ' '.join(e.ends[0]) if e.ends else ''):
        raise PolicyError(f'entries.def:{e.line}: {e.name}: nothing is checked first: init, ctx, or a handle that does it')
    if len([1 for k, _ in e.ends if k == 'answer']) > 1 or e.ends and any(k == 'answer' for k, _ in e.ends[:-1]):
        raise PolicyError(f'entries.def:{e.line}: {e.name}: one answer, at the end')


def parse(path, d):
    """The entries of the table; d: the description."""
    known = {name: (params, x) for name, params, _, x in exports(d)}
    kinds, entries, e = {}, {}, None
    with open(path, encoding='utf-8') as f:
        lines = f.read().split('\n')
    for no, raw in enumerate(lines, 1):
        line = raw.split('#', 1)[0].rstrip()
        if not line:
            continue
        words = line.split()
        if words[0] == 'handle':
            m = re.fullmatch(r'handle (\w+(?:!\w+)?) (struct \w+) : (.*)', line)
            if not m:
                raise PolicyError(f'entries.def:{no}: handle CTYPE[!VARIANT] STRUCT : LOOKUP')
            kinds[m[1]] = Kind(m[1], m[2], m[3])
            continue
        if line[0] not in ' \t':
            if words[0] not in known or words[0] in entries:
                raise PolicyError(f'entries.def:{no}: {words[0]}: ' +
                                  ('twice' if words[0] in entries else 'no call of the description with a signature'))
            params, x = known[words[0]]
            e = entries[words[0]] = Entry(words[0], no, params, x)
            words = ['check'] + words[1:]
        if e is None or words[0] not in ('check', 'refuse', 'done') + ENDS or e.ends and words[0] not in ENDS:
            raise PolicyError(f'entries.def:{no}: a line of a call is check, refuse, done, and then give or answer')
        text = line.strip()[len(words[0]):].strip()
        if words[0] == 'check':
            e.checks += [parse_check(e, w, kinds) for w in words[1:]]
        elif words[0] == 'refuse':
            m = re.fullmatch(r'(.*) : (CUDA_ERROR_\w+)(?: because (".*"))?', text)
            if not m:
                raise PolicyError(f'entries.def:{no}: refuse EXPRESSION : CUDA_ERROR_...')
            e.checks.append(Check('refuse', '', m[1], m[2], m[3] or ''))
        elif words[0] == 'done':
            e.checks.append(Check('refuse', '', text, 'CUDA_SUCCESS'))
        else:
            e.ends.append((words[0], text))
    for x in entries.values():
        check_entry(x)
    return list(entries.values())
