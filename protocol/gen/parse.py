# SPDX-License-Identifier: MIT
"""Parser: text of the call description -> plain objects. No policy, no output."""
import re
from dataclasses import dataclass, field


# Of an entry point in the guest; of a handler in the worker.
STEPS = ('place', 'let', 'mint', 'zero', 'object', 'fault', 'done', 'enter', 'refuse', 'answer', 'then', 'give')
# What a call does to its client's state.
STATE = ('makes', 'changes', 'ends', 'keeps', 'cannot')
WORKER_STEPS = ('with', 'rows', 'needs', 'check', 'deny', 'does', 'add', 'set', 'exec', 'after', 'failed')


class DefError(Exception):
    """A line of the description that cannot be understood; the message has file and line."""


@dataclass
class Param:
    dir: str       # in, out, new, del
    type: str      # u32, handle, str, bytes, array, blob, struct, ...
    sub: str       # handle kind, array element type, struct name
    name: str
    ctype: str
    attrs: dict
    line: int


@dataclass
class Call:
    number: int
    name: str
    cls: str
    opts: dict
    line: int
    params: list = field(default_factory=list)
    steps: list = field(default_factory=list)
    work: list = field(default_factory=list)
    state: list = field(default_factory=list)  # (one of STATE, text, line)


@dataclass
class Local:
    name: str
    cparams: list  # (ctype, name)
    opts: dict
    line: int
    steps: list = field(default_factory=list)


@dataclass
class Step:
    """One line of what a generated entry point or handler does."""
    kind: str      # one of STEPS or WORKER_STEPS
    text: str      # a C expression; of `with`, `rows` and `let` a declaration, of `give` an assignment
    result: str    # of refuse and deny; of `rows` the element
    line: int
    why: str = ''  # of refuse and deny: what the log says


@dataclass
class Unsupported:
    name: str
    reason: str
    opts: dict
    line: int


@dataclass
class Struct:
    name: str
    fields: list  # (wire type, name, ctype)
    line: int


@dataclass
class Record:
    """What a handle stands for in libcuda."""
    ctype: str    # of a variable: a pointer, with the attribute that drops its reference
    lookup: str   # NULL: not live; OF is the handle
    result: str   # then


@dataclass
class Description:
    calls: list = field(default_factory=list)
    locals: list = field(default_factory=list)
    unsupported: list = field(default_factory=list)
    structs: dict = field(default_factory=dict)
    reasons: dict = field(default_factory=dict)
    provider: list = field(default_factory=list)
    records: dict = field(default_factory=dict)


def split_opts(words):
    opts = {}
    for w in words:
        key, eq, val = w.partition('=')
        opts[key] = val if eq else True
    return opts


def split_cparams(text):
    """'CUdevice *device, int ordinal' -> [('CUdevice *', 'device'), ('int', 'ordinal')]"""
    text = text.strip()
    if text in ('', 'void'):
        return []
    out = []
    for part in text.split(','):
        m = re.match(r'^(.*?)(\w+)$', part.strip())
        ctype = re.sub(r'\s*\*\s*', ' *', m[1].strip())
        out.append((re.sub(r'\* \*', '**', ctype), m[2]))
    return out


CONTINUED = ' ' * 8


def logical_lines(path):
    """(number, text) of each line without comments, together with those that continue it; the text begins as the first one does."""
    number, text = 0, ''
    with open(path, encoding='utf-8') as f:
        for no, raw in enumerate(f.read().split('\n'), 1):
            line = raw.split('#', 1)[0].rstrip()
            if not line:
                continue
            if not line.startswith(CONTINUED):
                if text:
                    yield number, text
                number, text = no, line
            elif text:
                text += ' ' + line.strip()
            else:
                raise DefError(f'{path}:{no}: nothing to continue: {line.strip()}')
    if text:
        yield number, text


def parse(path):
    d = Description()
    cur = None
    for no, line in logical_lines(path):
        raw = line

        def bad(why):
            raise DefError(f'{path}:{no}: {why}: {raw.strip()}')

        words = line.split()
        if line[0] in ' \t':
            if cur is None:
                bad('a parameter outside of a call or struct')
            if words[0] in STEPS + WORKER_STEPS:
                if isinstance(cur, Struct) or isinstance(cur, Local) and words[0] in WORKER_STEPS:
                    bad('a step of the wrong kind')
                text, result, why = line.strip()[len(words[0]):].strip(), '', ''
                if words[0] in ('refuse', 'deny', 'rows'):
                    text, _, result = text.partition(' : ')
                    result, _, why = result.partition(' because ')
                steps = cur.steps if words[0] in STEPS else cur.work
                steps.append(Step(words[0], text, result, no, why))
                continue
            if words[0] in STATE and isinstance(cur, Call):
                cur.state.append((words[0], line.strip()[len(words[0]):].strip(), no))
                continue
            if isinstance(cur, Local):
                bad('an entry point of the guest has steps, no parameters of the wire')
            left, colon, ctype = line.partition(' : ')
            if not colon:
                bad('" : C type" is missing')
            w = left.split()
            ctype = ctype.strip()
            if isinstance(cur, Struct):
                if len(w) != 2:
                    bad('a field is TYPE NAME : C TYPE')
                cur.fields.append((w[0], w[1], ctype))
                continue
            if len(w) < 3 or w[0] not in ('in', 'out', 'new', 'del'):
                bad('a parameter is in|out|new|del TYPE NAME [attribute...] : C TYPE')
            base, _, sub = w[1].partition(':')
            cur.params.append(Param(w[0], base, sub, w[2], ctype, split_opts(w[3:]), no))
        elif words[0] == 'call':
            if len(words) < 4:
                bad('call NUMBER NAME CLASS')
            cur = Call(int(words[1], 0), words[2], words[3], split_opts(words[4:]), no)
            d.calls.append(cur)
        elif words[0] == 'local':
            m = re.match(r'^local (\w+)\((.*)\)(.*)$', line)
            if not m:
                bad('local NAME(C parameters)')
            cur = Local(m[1], split_cparams(m[2]), split_opts(m[3].split()), no)
            d.locals.append(cur)
        elif words[0] == 'unsupported':
            if len(words) < 3:
                bad('unsupported REASON NAME')
            d.unsupported.append(Unsupported(words[2], words[1], split_opts(words[3:]), no))
            cur = None
        elif words[0] == 'reason':
            m = re.match(r'^reason (\w+) "(.*)"$', line)
            if not m:
                bad('reason ID "text"')
            d.reasons[m[1]] = m[2]
            cur = None
        elif words[0] == 'struct':
            cur = Struct(words[1], [], no)
            d.structs[words[1]] = cur
        elif words[0] == 'record':
            m = re.match(r'^record (\w+) : (.*\*) : (.*\bOF\b.*) : (CUDA_ERROR_\w+)$', line)
            if not m or m[1] in d.records:
                bad('record KIND : C TYPE : LOOKUP of OF : CUDA_ERROR_...')
            d.records[m[1]] = Record(m[2], m[3], m[4])
            cur = None
        elif words[0] == 'end':
            cur = None
        elif words[0] == 'provider':
            d.provider += words[1:]
            cur = None
        else:
            bad('unknown line')
    return d
