#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compares the places that know the names of the driver API; each difference is one line.

usage: names.py CC INCLUDE_DIR[:INCLUDE_DIR...] LIBCUDA SOFT LOOKUP REPOSITORY

The cuda.h of the first folder may be newer than the one that all was built with, or older than what is described.
cuda.h and the headers of cuGetProcAddress's types, what LIBCUDA exports, what its cuGetProcAddress
answers (asked by LOOKUP; SOFT, the provider, too), the description of the calls, protocol/cuda_symbols.tsv, docs/calls.md,
and the names that NVIDIA's libraries are known to ask for (userspace/libcuda/testdata).
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '../../../protocol/gen')]
sys.dont_write_bytecode = True
import header as hdr  # noqa: E402
import parse  # noqa: E402

LEGACY, PER_THREAD = 1, 2
OK, TOO_OLD, UNKNOWN = 0, 2, 1  # CUdriverProcAddressQueryResult


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, what, total, problems):
        for p in problems[:40]:
            print(f'FAIL: {what}: {p}')
        if len(problems) > 40:
            print(f'FAIL: {what}: and {len(problems) - 40} more')
        print(f'{"FAIL" if problems else "ok  "} {what}: {total - len(problems)} of {total}')
        self.passed += not problems
        self.failed += bool(problems)


def difference(a, b, only_a, only_b):
    return ([f'{n}: {only_a}' for n in sorted(a - b)] + [f'{n}: {only_b}' for n in sorted(b - a)])


def lines(path):
    with open(path, encoding='utf-8') as f:
        return [ln.rstrip('\n') for ln in f if ln.strip() and not ln.startswith('#')]


def described(d):
    """{exported name: how it is served} of the description."""
    out = {}
    for kind, rows in (('call', d.calls), ('local', d.locals), ('unsupported', d.unsupported)):
        for x in rows:
            if x.name.startswith('vgp') or (kind == 'call' and x.opts.get('entry') == 'none'):
                continue
            for name in [x.name] + ([f'{x.name}_{x.opts["per_thread"]}'] if 'per_thread' in x.opts else []):
                if name in out:
                    raise parse.DefError(f'{name} is described twice')
                out[name] = kind
    return out


def newer(d, version):
    """{exported name: (name for cuGetProcAddress, version, suffix)} of what CUDA has brought since the table was made,
    up to a version."""
    out = {}
    for x in d.calls + d.locals + d.unsupported:
        if int(x.opts.get('added', version + 1)) <= version:
            for suffix in [''] + ([f'_{x.opts["per_thread"]}'] if 'per_thread' in x.opts else []):
                out[x.name + suffix] = (re.sub(r'_v\d+$', '', x.name), x.opts['added'], suffix)
    return out


def page_names(text):
    """{section: names} of docs/calls.md, per-thread variants written out."""
    out = {}
    for title, body in re.findall(r'^## (.*?)\n(.*?)(?=^## |\Z)', text, re.M | re.S):
        if title == 'On the ring':
            found = re.findall(r'^\| 0x[0-9a-f]+ \| [0-9.]+ \| `(\w+)`(?: \(\+ `(_ptsz|_ptds)`\))?', body, re.M)
        else:
            found = re.findall(r'`(cu\w+)`(?: \(\+ `(_ptsz|_ptds)`\))?', body)
        out[title] = {n for n, _ in found} | {n + t for n, t in found if t}
    return out


def shape(header, ctype):
    """A type without names of its own: aliases resolved, so that two declarations can be compared."""
    const = 'const ' if ctype.startswith('const ') and '*' in ctype else ''  # a constant copy is a copy
    bare = ctype.removeprefix('const ')
    base = bare.rstrip('*')
    stars = bare[len(base):]
    return const + header.resolve(base.strip()) + stars


def typedefs(include):
    """{(name, suffix, version): [parameter types]} of the PFN_ types."""
    out = {}
    for f in ('cudaTypedefs.h', 'cudaGLTypedefs.h', 'cudaEGLTypedefs.h', 'cudaVDPAUTypedefs.h',
              'cudaProfilerTypedefs.h'):
        with open(hdr.found(include, f), encoding='ascii', errors='replace') as fh:
            text = fh.read()
        for m in re.finditer(r'\bPFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)\s*\(([^()]*)\)', text):
            params = []
            for part in re.sub(r'\s+', ' ', m[4]).split(','):
                p = re.match(r'^(.*?)(\w+)\s*(\[\w*\])?$', part.strip())
                if p and part.strip() != 'void':
                    params.append(hdr._type(p[1] + ('*' if p[3] else '')))
            out[m[1], m[3] or '', int(m[2])] = params
    return out


def display_names(include):
    """Exports that the headers of display APIs ask for; their own includes need not be there."""
    out = set()
    for f in ('cudaGL.h', 'cudaEGL.h', 'cudaVDPAU.h'):
        with open(hdr.found(include, f), encoding='ascii', errors='replace') as fh:
            text = fh.read()
        out |= set(re.findall(r'\bCUresult CUDAAPI (cu\w+)\s*\(', text))
        for new in re.findall(r'#define cu\w+ +(cu\w+)$', text, re.M):
            out.add(new)
        for per_thread, new in re.findall(r'#define cu\w+ +__CUDA_API_(PT\w+)\((cu\w+)\)', text):
            out |= {new, f'{new}_{per_thread.lower()}'}
    return {n for n in out if not n.startswith('cuWGL')}  # Windows


def expected_symbols(pfns, exports):
    """{(name, suffix): [(version, symbol), rising]}: the newest type is the newest export, and so on."""
    by_base = {}
    for symbol in exports:
        base, number, suffix = hdr.base_name(symbol)
        by_base.setdefault((base, suffix), []).append((number, symbol))
    out, problems = {}, []
    for base, suffix in sorted({(n, s) for n, s, _ in pfns}):
        versions = sorted(v for n, s, v in pfns if (n, s) == (base, suffix))
        symbols = [x for _, x in sorted(by_base.get((base, suffix), []))]
        if len(symbols) < len(versions):
            if not symbols and not (base.startswith('cuWGL') or base.startswith('cuD3D')):
                problems.append(f'{base}{suffix}: no export at all')
            versions = versions[len(versions) - len(symbols):]
        symbols = symbols[len(symbols) - len(versions):]
        if versions:
            out[base, suffix] = list(zip(versions, symbols))
    return out, problems


def signatures(header, pfns, expected):
    """Versions are paired with exports by order; their parameters must agree, too."""
    bad, total = [], 0
    for (base, suffix), rows in expected.items():
        for version, symbol in rows:
            f = header.functions.get(symbol)
            if f is None:
                continue
            total += 1
            have = [shape(header, t) for t, _ in f.params]
            want = [shape(header, t) for t in pfns[base, suffix, version]]
            if have != want:
                bad.append(f'{base} of CUDA {version} is {want}, {symbol} is {have}')
    return total, bad


def requests(expected, newest):
    """(name, version, flags, symbol or '-', status) of every question worth asking."""
    out = []
    plain = {b: rows for (b, s), rows in expected.items() if s == ''}
    variants = {b: rows for (b, s), rows in expected.items() if s}
    for base, rows in plain.items():
        out.append((base, rows[0][0] - 1, 0, '-', TOO_OLD))
        ask = sorted(v for v in {v for v, _ in rows} | {v - 1 for v, _ in rows[1:]} | {13000, newest} if v >= rows[0][0])
        for version in ask:
            symbol = [s for v, s in rows if v <= version][-1]
            for flags in (0, LEGACY):
                out.append((base, version, flags, symbol, OK))
            per_thread = [s for v, s in variants.get(base, []) if v <= version]
            if per_thread or base not in variants:
                out.append((base, version, PER_THREAD, per_thread[-1] if per_thread else symbol, OK))
    out.append(('cuNoSuchName', 13000, 0, '-', UNKNOWN))
    return out


def ask(lookup, libcuda, rows):
    """What LOOKUP complains about."""
    text = ''.join('%s %d %d %s %d\n' % r for r in rows)
    run = subprocess.run([lookup, libcuda], input=text, capture_output=True, text=True, check=False)
    out = run.stdout.splitlines()
    if run.returncode > 1 or len(out) == 0:
        return [f'{lookup}: ended with status {run.returncode}: {run.stderr.strip()}']
    if out[-1] != f'{len(rows)} asked':
        out.append(f'{out[-1]}, of {len(rows)}')
    return out[:-1]


def main():
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    cc, include, libcuda, soft, lookup, top = sys.argv[1:]
    header = hdr.read(cc, include)
    d = parse.parse(os.path.join(top, 'protocol/cuda_calls.def'), entry=[os.path.join(top, 'userspace/libcuda/entry/entry.def')])
    known = described(d)
    nm = subprocess.run(['nm', '-D', '--defined-only', libcuda], check=True, capture_output=True,
                        text=True).stdout
    exports = {ln.split()[-1] for ln in nm.splitlines()}
    declared = set(header.functions)
    with open(hdr.found(include, 'cuda.h'), encoding='utf-8', errors='replace') as f:
        version = int(re.search(r'^#define CUDA_VERSION (\d+)', f.read(), re.M)[1])
    added = newer(d, version)
    later = set(newer(d, 99999)) - set(added)  # than this cuda.h
    pfns = typedefs(include)
    r = Report()

    r.check('functions of cuda.h that are exported', len(declared),
            [f'{n} is not exported' for n in sorted(declared - exports)])
    r.check('functions of cuda.h that are described', len(declared),
            [f'{n} is not described' for n in sorted(declared - set(known))])
    display = display_names(include)
    r.check('names of the display APIs\' headers are the described ones beyond cuda.h', len(display),
            difference(display, set(known) - declared - later, 'not described', 'described, in no header'))
    r.check('exports and description are the same names', len(exports | set(known)),
            difference(exports, set(known), 'exported, not described', 'described, not exported'))
    with open(os.path.join(top, 'docs/calls.md'), encoding='utf-8') as f:
        page = page_names(f.read())
    ring = {x.name for x in d.calls} | {f'{x.name}_{x.opts["per_thread"]}' for x in d.calls if 'per_thread' in x.opts}
    r.check('docs/calls.md: calls on the ring', len(ring),
            difference(ring, page['On the ring'], 'not on the page', 'only on the page'))
    for title, kind in (('Answered in the guest', 'local'), ('Refused by name', 'unsupported')):
        names = {n for n, k in known.items() if k == kind}
        there = page[title]
        if kind == 'unsupported':  # the page names per-thread variants only where they are answered
            names = {n for n in names if not re.search(r'_pt(?:sz|ds)$', n)}
            there = {n for n in there if not re.search(r'_pt(?:sz|ds)$', n)}
        r.check(f'docs/calls.md: {title.lower()}', len(names),
                difference(names, there, 'not on the page', 'only on the page'))

    expected, problems = expected_symbols(pfns, exports - later)
    r.check('names of the PFN_ types that are exported', len({(n, s) for n, s, _ in pfns}), problems)
    total, bad = signatures(header, pfns, expected)
    r.check('versions of the PFN_ types whose parameters are those of the export', total, bad)
    table = {tuple(ln.split('\t')) for ln in lines(os.path.join(top, 'protocol/cuda_symbols.tsv'))}
    table |= {(base, v, suffix, name) for name, (base, v, suffix) in added.items()}
    rows = {(b, str(v), s, x) for (b, s), vs in expected.items() for v, x in vs}
    r.check('protocol/cuda_symbols.tsv, and what is described as added', len(rows),
            difference({' '.join(x) for x in rows}, {' '.join(x) for x in table},
                       'follows from the headers, is not in the table',
                       'is in the table, does not follow from the headers'))
    questions = requests(expected, version if later else 99999)
    r.check('answers of cuGetProcAddress, of all names and versions', len(questions),
            ask(lookup, libcuda, questions))
    absent = display | {n for n in added if known[n] == 'unsupported'}
    own = [q for q in questions if q[0] not in {hdr.base_name(n)[0] for n in absent}]
    r.check('the same from the software GPU, but for display APIs and what is refused', len(own), ask(lookup, soft, own))
    data = os.path.join(top, 'userspace/libcuda/testdata')
    runtime = []
    for ln in lines(os.path.join(data, 'cudart13_getprocaddress.tsv')):
        _, symbol, version, flags, want = (ln.split('\t') + [''] * 5)[:5]
        if symbol:
            runtime.append((symbol, int(version), int(flags), want, OK))
    r.check('answers that libcudart 13.0 asks for', len(runtime), ask(lookup, libcuda, runtime))
    cublas = set(lines(os.path.join(data, 'dlsym_cublas.txt')))
    r.check('names that cuBLAS looks up by dlsym', len(cublas),
            [f'{n} is not exported' for n in sorted(cublas - exports)])
    print(f'names: {r.passed} passed, {r.failed} failed')
    return r.failed != 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except (hdr.HeaderError, parse.DefError) as e:
        sys.exit(f'names.py: {e}')
