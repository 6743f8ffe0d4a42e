# SPDX-License-Identifier: MIT
"""Parser: text of the description -> plain objects. No policy, no output.

The description has three sides, each with a grammar at the head of its files: what travels (protocol/cuda_calls.def), what the
guest does for an entry point, and what the worker does for a call; the last two name calls of the first."""
import re
from dataclasses import dataclass, field


# Of an entry point in the guest; of a handler in the worker.
STEPS = ('place', 'let', 'mint', 'zero', 'object', 'fault', 'done', 'enter', 'refuse', 'answer', 'then', 'give')
# What a call does to its client's state.
STATE = ('makes', 'changes', 'ends', 'keeps', 'cannot')
WORKER_STEPS = ('with', 'rows', 'needs', 'check', 'deny', 'does', 'add', 'set', 'exec', 'after', 'failed')
# Attributes of parameters: of the wire; of a handler with steps.
WIRE_ATTRS = ('max', 'len', 'count', 'null', 'own', 'as', 'mask', 'value', 'parent', 'ending', 'records', 'external', 'verdict',
              'extent', 'scales', 'device', 'addr', 'words', 'made', 'opaque', 'varies', 'unawaited')
WORKER_ATTRS = ('as', 'from', 'each', 'len', 'all', 'late', 'parent', 'error')


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
    path: str
    line: int


@dataclass
class Call:
    number: int
    name: str
    cls: str
    opts: dict
    path: str
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
    path: str
    line: int
    steps: list = field(default_factory=list)


@dataclass
class Step:
    """One line of what a generated entry point or handler does."""
    kind: str      # one of STEPS or WORKER_STEPS
    text: str      # a C expression; of `with`, `rows` and `let` a declaration, of `give` an assignment
    result: str    # of refuse and deny; of `rows` the element
    path: str
    line: int
    why: str = ''  # of refuse and deny: what the log says


@dataclass
class Unsupported:
    name: str
    reason: str
    opts: dict
    path: str
    line: int


@dataclass
class Struct:
    name: str
    fields: list  # (wire type, name, ctype)
    path: str
    line: int


@dataclass
class Reason:
    text: str
    path: str
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
    runtime: str = ''  # text of the header with what every handler may call


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
    try:
        with open(path, encoding='utf-8') as f:
            lines = f.read().split('\n')
    except OSError as e:
        raise DefError(f'{path}: {e.strerror}') from e
    for no, raw in enumerate(lines, 1):
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


class Reader:
    """The files of a side: a line at the margin begins a block, an indented line is part of it. begin() returns the block, or
    None where no line may be part of it; part() is given its lines."""

    def __init__(self, d):
        self.d, self.cur, self.path, self.no, self.line = d, None, '', 0, ''

    def bad(self, why):
        raise DefError(f'{self.path}:{self.no}: {why}: {self.line.strip()}')

    def read(self, path):
        self.cur, self.path = None, path
        for self.no, self.line in logical_lines(path):
            words = self.line.split()
            if self.line[0] not in ' \t':
                self.ended()
                self.cur = self.begin(words)
            elif self.cur is None:
                self.bad('a line that is part of nothing')
            else:
                self.part(words)
        self.ended()

    def ended(self):
        """The block before has ended."""


class Calls(Reader):
    """What travels."""

    def begin(self, words):
        d, line = self.d, self.line
        if words[0] == 'call':
            if len(words) < 4 or not re.fullmatch(r'0x[0-9a-f]{4}', words[1]):
                self.bad('call NUMBER NAME CLASS')
            d.calls.append(Call(int(words[1], 0), words[2], words[3], split_opts(words[4:]), self.path, self.no))
            return d.calls[-1]
        if words[0] == 'struct' and len(words) == 2:
            d.structs[words[1]] = Struct(words[1], [], self.path, self.no)
            return d.structs[words[1]]
        if words[0] == 'unsupported':
            if len(words) < 3:
                self.bad('unsupported REASON NAME')
            d.unsupported.append(Unsupported(words[2], words[1], split_opts(words[3:]), self.path, self.no))
        elif words[0] == 'reason':
            m = re.match(r'^reason (\w+) "(.*)"$', line)
            if not m:
                self.bad('reason ID "text"')
            d.reasons[m[1]] = Reason(m[2], self.path, self.no)
        elif words != ['end']:
            self.bad('unknown line')
        return None

    def part(self, words):
        cur = self.cur
        if isinstance(cur, Call) and words[0] in STATE:
            cur.state.append((words[0], self.line.strip()[len(words[0]):].strip(), self.no))
            return
        left, colon, ctype = self.line.partition(' : ')
        w = left.split()
        ctype = ctype.strip()
        if isinstance(cur, Struct):
            if not colon or len(w) != 2:
                self.bad('a field is TYPE NAME : C TYPE')
            cur.fields.append((w[0], w[1], ctype))
            return
        if not colon or len(w) < 3 or w[0] not in ('in', 'out', 'new', 'del'):
            self.bad('a parameter is in|out|new|del TYPE NAME [attribute...] : C TYPE')
        base, _, sub = w[1].partition(':')
        attrs = split_opts(w[3:])
        for a in attrs:
            # An expression of the handler's would name what only the worker has.
            if a not in WIRE_ATTRS or a == 'len' and w[0] == 'out' or a == 'as' and base != 'bytes' or a == 'parent' and w[0] == 'new':
                self.bad(f'{a} is no attribute of what travels')
        cur.params.append(Param(w[0], base, sub, w[2], ctype, attrs, self.path, self.no))


class Steps(Reader):
    """What a side does for a call; a call has one block in all files of a side."""
    kinds = ()   # of steps
    of = ''      # the list of a call that takes them

    def __init__(self, d):
        super().__init__(d)
        self.known = {c.name: c for c in d.calls}
        self.described = set()
        self.begun = 0  # line of the call

    def call(self, words):
        if len(words) != 2 or words[1] not in self.known:
            self.bad('no call of the description')
        if words[1] in self.described:
            self.bad('this call has its steps already')
        self.described.add(words[1])
        self.begun = self.no
        return self.known[words[1]]

    def ended(self):
        if isinstance(self.cur, Call) and not getattr(self.cur, self.of):
            raise DefError(f'{self.path}:{self.begun}: call {self.cur.name}: a call without a step')

    def step(self, words):
        if words[0] not in self.kinds:
            self.bad('a step is ' + ', '.join(self.kinds))
        text, result, why = self.line.strip()[len(words[0]):].strip(), '', ''
        if words[0] in ('refuse', 'deny', 'rows'):
            text, _, result = text.partition(' : ')
            result, _, why = result.partition(' because ')
        getattr(self.cur, self.of).append(Step(words[0], text, result, self.path, self.no, why))


class Entry(Steps):
    """What the guest does."""
    kinds, of = STEPS, 'steps'

    def begin(self, words):
        d, line = self.d, self.line
        if words[0] == 'call':
            return self.call(words)
        if words[0] == 'local':
            m = re.match(r'^local (\w+)\((.*)\)(.*)$', line)
            if not m:
                self.bad('local NAME(C parameters)')
            d.locals.append(Local(m[1], split_cparams(m[2]), split_opts(m[3].split()), self.path, self.no))
            return d.locals[-1]
        if words[0] != 'record':
            self.bad('unknown line')
        m = re.match(r'^record (\w+) : (.*\*) : (.*\bOF\b.*) : (CUDA_ERROR_\w+)$', line)
        if not m or m[1] in d.records:
            self.bad('record KIND : C TYPE : LOOKUP of OF : CUDA_ERROR_...')
        d.records[m[1]] = Record(m[2], m[3], m[4])
        return None

    def part(self, words):
        self.step(words)


class Worker(Steps):
    """What the worker does."""
    kinds, of = WORKER_STEPS, 'work'

    def begin(self, words):
        if words[0] == 'call':
            return self.call(words)
        if words[0] != 'provider':
            self.bad('unknown line')
        self.d.provider += words[1:]
        return None

    def part(self, words):
        if words[0] != 'param':
            self.step(words)
            return
        found = [p for p in self.cur.params if p.name == words[1]] if len(words) > 2 else []
        attrs = split_opts(words[2:])
        if not found or any(a not in WORKER_ATTRS or a in found[0].attrs for a in attrs):
            self.bad('param NAME ' + '|'.join(WORKER_ATTRS) + ', of a parameter that has it not yet')
        found[0].attrs.update(attrs)


def parse(path, entry=(), worker=()):
    """The description of what travels, and what the two sides do for it; without their files, the first alone."""
    d = Description()
    for reader, files in ((Calls, (path,)), (Entry, entry), (Worker, worker)):
        side = reader(d)
        for name in files:
            side.read(name)
    return d
