#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""attributes.py CUDA_H CASES: is every attribute, flag and limit of cuda.h in attributes.tsv, with a case that sees its effect
or the reason why there is none? CASES: the output of conform --list. Prints what is wrong; exit status 1 then."""
import fnmatch
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.path.join(HERE, '../../..'))
ENUMS = ('CUdevice_attribute', 'CUfunction_attribute', 'CUlaunchAttributeID', 'CUmemPool_attribute', 'CUmem_advise',
         'CUmem_range_attribute', 'CUpointer_attribute', 'CUlimit', 'CUctx_flags', 'CUevent_flags', 'CUevent_record_flags',
         'CUevent_wait_flags', 'CUstream_flags', 'CUgraphMem_attribute', 'CUmemAccess_flags', 'CUdevice_P2PAttribute', 'CUfunc_cache',
         'CUsharedconfig')


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def attributes(header):
    """Names of the enumerators, without masks and the ends of lists that carry no meaning."""
    found = []
    for body, name in re.findall(r'typedef enum \w+ \{(.*?)\} (\w+);', read(header), re.S):
        if name in ENUMS:
            body = re.sub(r'/\*.*?\*/|//[^\n]*', '', body, flags=re.S)
            found += [m for m in re.findall(r'(CU_\w+)\s*(?:=[^,]*)?(?:,|\s*$)', body) if not m.endswith('_MASK')]
    return found


def sources():
    """The text of each file with cases, by the names of the cases that it has."""
    by_case = {}
    for path in glob.glob(os.path.join(HERE, '*.c')) + glob.glob(os.path.join(HERE, '*/*.c')):
        text = read(path)
        for name in re.findall(r'^CASE\((\w+)', text, re.M):
            by_case[name] = text
        for kind, name in re.findall(r'^(REVOKE_\w+)\((\w+)', text, re.M):
            for end in ('warm', 'cold', 'copy'):
                by_case[f'revoke_{name}_{end}'] = text
    return by_case


def stem(pattern):
    return re.escape(pattern).replace(r'\*', r'\w*')


def wrong_row(row, cases, texts):
    """What is wrong with one row, or None."""
    pattern, seen, why = (row + ['', ''])[:3]
    if seen == '-':
        return None if len(why) > 5 else 'no reason'
    if seen.startswith('file:'):
        path = os.path.join(TOP, seen[5:])
        if not os.path.exists(path):
            return f'no file {seen[5:]}'
        text = read(path)
    elif seen in cases and seen in texts:
        text = texts[seen]
    else:
        return f'no case {seen}'
    # A macro may assemble names, so that the file contains only the part after MAXIMUM_.
    short = re.sub(r'^CU_DEVICE_ATTRIBUTE_MAXIMUM_', '', pattern)
    return None if re.search(r'\b' + stem(pattern) + r'\b', text) or re.search(r'\b' + stem(short) + r'\b', text) else \
        f'{seen} does not name it'


def main(argv):
    bad = []
    names = attributes(argv[1])
    cases = set(read(argv[2]).split())
    texts = sources()
    rows = [ln.split('\t') for ln in read(os.path.join(HERE, 'attributes.tsv')).splitlines() if ln and ln[0] != '#']
    used = set()
    if len(names) < 250:
        bad.append(f'{len(names)} attributes in {argv[1]}')
    for name in names:
        row = next((r for r in rows if fnmatch.fnmatchcase(name, r[0])), None)
        if row is None:
            bad.append(f'{name}: not in attributes.tsv')
        else:
            used.add(row[0])
    for row in rows:
        if row[0] not in used:
            bad.append(f'{row[0]}: no such attribute, or one of a row above')
        why = wrong_row(row, cases, texts)
        if why:
            bad.append(f'{row[0]}: {why}')
    print('\n'.join(bad) if bad else f'{len(names)} attributes in {len(rows)} rows')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv))
