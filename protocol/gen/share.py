#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How much of the calls comes from the description alone.

share.py [HANDLERS ENTRIES | --hidden]
  prints the figures; fails where fewer are generated than the two numbers

A handler of the worker is wholly generated when the worker has no wrk_do_NAME for it; an entry point of the guest
when libcuda has no vcu_NAME for it. Neither is, where all that is generated is a call of a function of ours that
serves nobody else: that function is the hand-written body by another name (--hidden lists these). The per-thread
variants (_ptsz, _ptds), all generated, count with their entry point; names that only refuse do not count."""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import parse  # noqa: E402
import policy  # noqa: E402


def hidden(d, entries):
    """Calls and entry points whose steps only hand on to one function that no other step names."""
    own = {m[1] for p in d.guest + d.host for m in [re.search(r'(\w+)\(', p)] if m and not m[1].startswith('cua_')}
    users, found = {}, []
    steps = [(x, 'answer', x.steps) for x in entries] + [(c, 'does', c.work) for c in d.calls]
    for x, _, list_ in steps:
        said = ' '.join(s.text for s in list_) + ' '.join(str(v) for p in getattr(x, 'params', []) for v in p.attrs.values())
        for name in set(re.findall(r'\b(\w+)\(', said)) & own:
            users.setdefault(name, []).append(x.name)
    for x, end, list_ in steps:
        if any(s.kind in ('place', 'give', 'then', 'rows', 'add') for s in list_):
            continue
        for s in list_:
            m = re.match(r'(\w+)\(', s.text)
            if s.kind == end and m and users.get(m[1]) == [x.name]:
                found.append((x, end, m[1]))
    return found


def main(argv):
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    d = parse.parse(os.path.join(here, 'cuda_calls.def'))
    policy.apply(d)
    entries = [c for c in d.calls if c.entry != 'none'] + d.locals
    shims = hidden(d, entries)
    if argv[1:] == ['--hidden']:
        print('\n'.join(f'{x.name}: {function}' for x, _, function in shims))
        return 0
    made = [sum(c.worker != 'custom' for c in d.calls) - sum(end == 'does' for _, end, _ in shims),
            sum(x.entry != 'custom' for x in entries) - sum(end == 'answer' for _, end, _ in shims)]
    least = [int(n) for n in argv[1:3]] or [0, 0]
    print(f'share: {made[0]} of {len(d.calls)} handlers ({100 * made[0] // len(d.calls)} %), {made[1]} of '
          f'{len(entries)} entry points ({100 * made[1] // len(entries)} %) are wholly generated')
    return 1 if made[0] < least[0] or made[1] < least[1] else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv))
