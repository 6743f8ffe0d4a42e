#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How much of the calls comes from the description alone.

share.py [HANDLERS ENTRIES SOFTGPU TABLE | --hidden]
  prints the figures; fails where fewer are generated than the numbers; TABLE: host/softgpu/api/entries.def

A handler of the worker is wholly generated when the worker has no wrk_do_NAME for it; an entry point of the guest
when libcuda has no vcu_NAME for it. Neither is, where all that is generated is a call of a function of ours that
serves nobody else: that function is the hand-written body by another name (--hidden lists these). The per-thread
variants (_ptsz, _ptds), all generated, count with their entry point; names that only refuse do not count. An entry point of
the software GPU is generated when the table or shared steps describe it, and whole when it has no body (sgd_NAME) either."""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import entries as table  # noqa: E402
import parse  # noqa: E402
import policy  # noqa: E402
from templates import softgpu, worker  # noqa: E402

# What every entry point and handler may call: no body of one.
RUNTIME = {'vcu_refuse', 'vcu_check_init', 'vcu_check_context', 'vcu_stream', *worker.rt_names()}


def hidden(d, entries):
    """Calls and entry points whose steps only hand on to one function that no other step names."""
    users, found = {}, []
    steps = [(x, 'answer', x.steps) for x in entries] + [(c, 'does', c.work) for c in d.calls]
    for x, _, list_ in steps:
        said = ' '.join(s.text for s in list_) + ' '.join(str(v) for p in getattr(x, 'params', []) for v in p.attrs.values())
        for name in set(re.findall(r'\b((?:wrk|vcu_(?!cu[A-Z]))\w+)\(', said)) - RUNTIME:
            users.setdefault(name, []).append(x.name)
    for x, end, list_ in steps:
        if any(s.kind in ('place', 'give', 'then', 'rows', 'add') for s in list_):
            continue
        for s in list_:
            m = re.match(r'(\w+)\(', s.text)
            if s.kind == end and m and users.get(m[1]) == [x.name]:
                found.append((x, end, m[1]))
    return found


def softgpu_share(d, path):
    """(generated, of them whole, all) of the software GPU's entry points; a definition by hand takes the place of shared steps."""
    rows, hand = {e.name: e for e in table.parse(path, d)}, set()
    for folder, _, names in os.walk(os.path.dirname(path)):
        for name in names:
            if name.endswith('.c'):
                with open(os.path.join(folder, name), encoding='utf-8') as f:
                    hand |= set(re.findall(r'^CUresult CUDAAPI (\w+)\(', f.read(), re.M))
    shared = [name for name, _, _, x in table.exports(d) if name not in rows and name not in hand and softgpu.shared(x)]
    whole = sum(bool(e.ends) for e in rows.values()) + len(shared)
    return len(rows) + len(shared), whole, len(table.exports(d))


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
    least = [int(n) for n in argv[1:4]] or [0, 0, 0]
    print(f'share: {made[0]} of {len(d.calls)} handlers ({100 * made[0] // len(d.calls)} %), {made[1]} of '
          f'{len(entries)} entry points ({100 * made[1] // len(entries)} %) are wholly generated')
    if len(argv) > 4:
        n, whole, all_ = softgpu_share(d, argv[4])
        made.append(n)
        print(f"share: {n} of {all_} entry points of the software GPU ({100 * n // all_} %) are generated, {whole} without a body of their own")
    return 1 if any(m < n for m, n in zip(made, least)) else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv))
