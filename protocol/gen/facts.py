# SPDX-License-Identifier: MIT
"""What a call does: to work on the device (effect=), and to its client's state (makes, changes, ends, keeps nothing, cannot). No output.

A call that says neither is an error: it would be slow, or lost in a save, and nobody would know."""
from dataclasses import dataclass

EFFECTS = ('any', 'none', 'complete', 'asks', 'waits', 'orders', 'calls', 'signals', 'runs')
IN_A_STREAM = ('orders', 'calls', 'signals', 'runs')
SCALES_MAX = 4  # VGP_SCALES_MAX
# Kinds of state without a handle: enum vgp_kind.
KINDS = ('memory', 'reservation', 'mapping', 'region', 'texture_object', 'condition', 'resource', 'jit_log')


class PolicyError(Exception):
    """A description that is well-formed and must not be; the message has file and line."""


class Located:
    """with Located(x): a refusal in here is of the line of x, unless of a line within."""

    def __init__(self, x):
        self.x = x

    def __enter__(self):
        pass

    def __exit__(self, kind, e, traceback):
        if isinstance(e, (PolicyError, ValueError)) and not getattr(e, 'located', False):
            e.args, e.located = (f'{self.x.path}:{self.x.line}: {e}',), True


@dataclass
class State:
    word: str      # makes, ends, changes
    what: str      # makes, ends: the kind; changes: KIND.NAME or KIND
    params: list   # makes, ends: the number's parameter, or none; changes: the key
    adds: bool = False  # changes: each one counts, none replaces an earlier one


def param(c, name):
    for p in c.params:
        if p.name == name:
            return p
    raise PolicyError(f'{c.name}: there is no parameter {name}')


def parse_state(c, word, text, handles):
    words = text.split()
    if word == 'keeps':
        if words != ['nothing']:
            raise PolicyError(f'{c.name}: keeps nothing, or what it makes, changes or ends')
        return None
    if not words or words[0].partition('.')[0] not in handles + KINDS + (('device', 'multicast') if word == 'changes' else ()):
        raise PolicyError(f'{c.name}: {word}: {words[0] if words else "nothing"} is no kind of state')
    adds = word == 'changes' and words[-1] == 'adds'
    names = words[1:-1] if adds else words[1:]
    if word != 'changes' and ('.' in words[0] or len(names) > 1):
        raise PolicyError(f'{c.name}: {word} KIND [PARAMETER]')
    for n in names:
        p = param(c, n)
        if word != 'makes' and p.dir == 'out':
            raise PolicyError(f'{c.name}: {word}: {n} is {p.dir}')
    return State(word, words[0], names, adds)


def find_streams(c):
    return [p for p in c.params if (p.dir, p.type, p.sub) == ('in', 'handle', 'stream')]


def apply_effect(c):
    """Attaches .effect, .fills, .fills_legacy, .waits_for."""
    c.effect = c.opts.pop('effect', None)
    if c.effect not in EFFECTS:
        raise PolicyError(f'{c.name}: effect={c.effect} is not one of {", ".join(EFFECTS)}')
    filling = c.effect in IN_A_STREAM
    if c.cls == 'flex' and not filling:
        raise PolicyError(f'{c.name}: a flex call puts work into a stream: effect={c.effect} does not fit')
    if c.effect == 'waits' and c.cls != 'wait' or c.effect == 'asks' and c.cls != 'sync':
        raise PolicyError(f'{c.name}: effect={c.effect} does not fit a call that is {c.cls}')
    c.fills = find_streams(c) if filling else []
    c.fills_legacy = filling and not c.fills
    c.waits_for = find_streams(c) if c.effect == 'waits' else []


def apply_state(c, handles):
    """Attaches .states and .cannot. What parameters say already is taken from them: new, del, node."""
    c.cannot, c.states, said = None, [], False
    for word, text, line in c.state:
        if word == 'cannot':
            if len(text) < 3 or text[0] != '"' or text[-1] != '"':
                raise PolicyError(f'{c.name}: cannot "reason"')
            c.cannot = text[1:-1]
            continue
        s = parse_state(c, word, text, handles)
        if said and (s is None or None in c.states):
            raise PolicyError(f'{c.name}: a call that keeps nothing says nothing else')
        said = True
        c.states.append(s)
    nothing = c.states == [None]
    c.states = [s for s in c.states if s]
    for p in c.params:
        if p.dir in ('new', 'del'):
            c.states.append(State('makes' if p.dir == 'new' else 'ends', p.sub, [p.name]))
    if c.node:
        c.states += [State('makes', 'graph_node', ['node']), State('changes', 'graph_node', ['target']),
                     State('changes', 'graph_exec', ['exec', 'target'])]
    if nothing and (c.states or c.cannot):
        raise PolicyError(f'{c.name}: a call that keeps nothing makes, changes and ends nothing')
    if not nothing and not c.states:
        raise PolicyError(f'{c.name}: what it makes, changes or ends is not said; or: keeps nothing')


def apply_marks(c):
    """Attributes of parameters: records, external, verdict, extent=A[*B], scales. Attaches .records, .external, .verdict, .range, .range_length,
    .scales."""
    c.records = c.external = c.range = c.verdict = None
    c.range_length = []
    for p in c.params:
        if 'records' in p.attrs:
            if (p.dir, p.type, p.sub) != ('in', 'handle', 'event') or c.records:
                raise PolicyError(f'{c.name}: {p.name}: what is recorded is one event')
            c.records = p
        if 'external' in p.attrs:
            if (p.dir, p.type) != ('in', 'u32') or c.external:
                raise PolicyError(f'{c.name}: {p.name}: external is a word of flags')
            c.external = p
        if 'verdict' in p.attrs:
            if (p.dir, p.type) != ('out', 'u32') or c.verdict:
                raise PolicyError(f'{c.name}: {p.name}: a verdict is one result, a number')
            c.verdict = p
        if 'extent' in p.attrs:
            c.range_length = [param(c, n) for n in str(p.attrs['extent']).split('*')]
            if c.range or (p.dir, p.type) != ('out', 'u64') or len(c.range_length) > 2 or \
                    any(q.type not in ('u32', 'u64') for q in c.range_length):
                raise PolicyError(f'{c.name}: {p.name}: extent=A or A*B of numbers, for one address that is told')
            c.range = p
    c.scales = [p for p in c.params if 'scales' in p.attrs]
    for p in c.scales:
        if c.effect != 'runs' or p.dir != 'in' or p.type not in ('u32', 'u64', 'handle'):
            raise PolicyError(f'{c.name}: {p.name}: scales is a number or a handle given to a call that runs work')
    if len(c.scales) > SCALES_MAX:
        raise PolicyError(f'{c.name}: {len(c.scales)} parameters with scales, not {SCALES_MAX} at most')


def apply_bits(c):
    """Attaches .runs_graph, .waits_all, .cannot_fail."""
    handles = [p.sub for p in c.params if p.dir == 'in' and p.type == 'handle']
    for p in c.params:
        if 'unawaited' in p.attrs and (c.effect != 'waits' or (p.dir, p.type) != ('in', 'handle')):
            raise PolicyError(f'{c.name}: {p.name}: unawaited is a handle given to a call that waits')
    c.runs_graph = c.effect == 'runs' and 'graph_exec' in handles
    c.waits_all = c.effect == 'waits' and all('unawaited' in p.attrs for p in c.params if p.type == 'handle')
    c.cannot_fail = c.cls == 'async' and c.effect == 'none' and not c.states


def apply(c, handles):
    apply_effect(c)
    apply_state(c, tuple(handles))
    apply_marks(c)
    apply_bits(c)
