#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How much of the calls comes from the description alone.

share.py [--entry FILE] [--worker FILE] [--runtime FILE] TABLE [--check FILE | --raise FILE | --hidden]
  the files of the sides as emit.py has them, and the software GPU's table of entry points; prints the figures; --check: fails where they are not those of FILE (protocol/share.tsv); --raise: writes them to FILE, unless
  one would fall

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
import emit  # noqa: E402
from templates import softgpu, worker  # noqa: E402

# What every entry point may call, as every handler what vgp_worker_rt.h declares: no body of one.
RUNTIME = {'vcu_refuse', 'vcu_check_init', 'vcu_check_context', 'vcu_stream'}


def hidden(d, entries):
    """Calls and entry points whose steps only hand on to one function that no other step names."""
    users, found = {}, []
    steps = [(x, 'answer', x.steps) for x in entries] + [(c, 'does', c.work) for c in d.calls]
    for x, _, list_ in steps:
        said = ' '.join(s.text for s in list_) + ' '.join(str(v) for p in getattr(x, 'params', []) for v in p.attrs.values())
        for name in set(re.findall(r'\b((?:wrk|vcu_(?!cu[A-Z]))\w+)\(', said)) - RUNTIME - set(worker.rt_names(d)):
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


def read_least(path):
    """{name: number} of the recorded figures."""
    with open(path, encoding='utf-8') as f:
        return {name: int(n) for name, n in (line.split('\t') for line in f if not line.startswith('#'))}


def compare(argv, made):
    """Exit status of --check and --raise."""
    option, path = argv
    least = read_least(path)
    fallen = [name for name, n in made.items() if n < least.get(name, 0)]
    if fallen:
        print(f'error: fewer {", ".join(fallen)} are generated than {path} records', file=sys.stderr)
        return 1
    if option == '--check' and made != least:
        print(f'error: more are generated than {path} records: make -C protocol golden', file=sys.stderr)
        return 1
    if option == '--raise' and made != least:
        with open(path, 'w', encoding='utf-8') as f:
            f.write('# Generated parts of the calls, which must not fall; written by `make -C protocol golden`.\n')
            f.writelines(f'{name}\t{n}\n' for name, n in made.items())
    return 0


def main(argv):
    d, argv = emit.read(argv)
    path, argv = argv[1], argv[:1] + argv[2:]
    entries = [c for c in d.calls if c.entry != 'none'] + d.locals
    shims = hidden(d, entries)
    if argv[1:] == ['--hidden']:
        print('\n'.join(f'{x.name}: {function}' for x, _, function in shims))
        return 0
    softgpu_made, whole, all_ = softgpu_share(d, path)
    made = {'worker': sum(c.worker != 'custom' for c in d.calls) - sum(end == 'does' for _, end, _ in shims),
            'guest': sum(x.entry != 'custom' for x in entries) - sum(end == 'answer' for _, end, _ in shims),
            'software GPU': softgpu_made}
    print(f"share: {made['worker']} of {len(d.calls)} handlers ({100 * made['worker'] // len(d.calls)} %), {made['guest']} of "
          f"{len(entries)} entry points ({100 * made['guest'] // len(entries)} %) are wholly generated")
    print(f'share: {softgpu_made} of {all_} entry points of the software GPU ({100 * softgpu_made // all_} %) are generated, '
          f'{whole} without a body of their own')
    return compare(argv[1:], made) if len(argv) == 3 and argv[1] in ('--check', '--raise') else int(len(argv) > 1)


if __name__ == '__main__':
    sys.exit(main(sys.argv))
