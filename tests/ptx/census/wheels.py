#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What CUDA code wheels contain, and with which VGPU_SOFT_CC the software GPU takes it.

  wheels.py FILE...              each a wheel, a library or a program: a line for each
  wheels.py --index LIST [NAME]  the wheels of LIST (NAME==VERSION a line) on the Python package index, or those that are
                                 named: a table in Markdown. Nothing is stored: the libraries are read as a stream,
                                 of which only the headers of the fat binaries count.
  wheels.py --tsv FILE...        FILE, architecture, fat binaries with PTX for it (to compare with `census`)

A fat binary is what nvcc makes of one source file. The software GPU executes PTX: of a fat binary it takes the PTX for its
own capability or lower and, where a GPU would run machine code of the same fat binary, PTX for any (docs/software-gpu.md).
The fields are those that host/softgpu/image/sg_fatbin.c describes. Exit status 1: a wheel could not be read.
"""
import argparse
import collections
import datetime
import io
import json
import struct
import sys
import urllib.parse
import urllib.request
import zipfile

INDEX = 'https://pypi.org/pypi/%s/json'
MAGIC = struct.pack('<IH', 0xBA55ED50, 1)
PROFILES = (75, 80, 86, 89, 90, 120, 130)  # of VGPU_SOFT_CC
DEFAULT = 80
PTX, ELF = 1, 2
PIECE = 1 << 20
FARTHEST = 4096  # largest header of an entry


class Stream:
    """Bytes of a file-like object; at most some pieces are kept."""

    def __init__(self, file):
        self.file, self.data, self.end = file, b'', False

    def fill(self, count):
        """Whether `count` bytes are there."""
        while len(self.data) < count and not self.end:
            piece = self.file.read(PIECE)
            self.end = not piece
            self.data += piece
        return len(self.data) >= count

    def skip(self, count):
        while count > len(self.data):
            count -= len(self.data)
            self.data = b''
            if not self.fill(1):
                return
        self.data = self.data[count:]

    def find(self, what):
        """Moves to the next `what`; whether there is one."""
        while True:
            at = self.data.find(what)
            if at >= 0:
                self.data = self.data[at:]
                return True
            self.data = self.data[-len(what) + 1:]
            if not self.fill(PIECE) and self.data.find(what) < 0:
                return False


def fat_binaries(file):
    """Sets of (kind, architecture), one for each fat binary in the bytes of `file`."""
    s = Stream(file)
    while s.fill(16) and s.find(MAGIC):
        if not s.fill(16):
            return
        head, size = struct.unpack_from('<HQ', s.data, 6)
        if head != 16 or size > 1 << 32:
            s.skip(4)
            continue
        s.skip(16)
        found = set()
        while size >= 64 and s.fill(64):
            kind, _, header, payload = struct.unpack_from('<HHIQ', s.data)
            arch = struct.unpack_from('<I', s.data, 28)[0]
            if not 64 <= header <= FARTHEST or header + payload > size:
                break
            found.add((kind, arch))
            s.skip(header + payload)
            size -= header + payload
        if found:
            yield frozenset(found)


def libraries(file, name):
    """A file-like object for each library in a wheel; or `file` itself."""
    if not name.endswith('.whl'):
        yield file
        return
    wheel = zipfile.ZipFile(file)
    for entry in wheel.infolist():
        base = entry.filename.rsplit('/', 1)[-1]
        if '.so' in base or '.fatbin' in base or '.' not in base and entry.external_attr >> 16 & 0o111:
            with wheel.open(entry) as f:
                yield f


def runs(fat, cc):
    """Whether the software GPU with that capability takes the fat binary."""
    ptx = [a for k, a in fat if k == PTX]
    native = any(k == ELF and a // 10 == cc // 10 and a <= cc for k, a in fat)
    return any(a <= cc for a in ptx) or bool(ptx) and native


def counts(fats):
    """(fat binaries, those with PTX, taken by the default device, best capability, taken there)."""
    taken = {cc: sum(n for f, n in fats.items() if runs(f, cc)) for cc in PROFILES}
    best = max(PROFILES, key=lambda cc: (taken[cc], cc == DEFAULT, -cc))
    with_ptx = sum(n for f, n in fats.items() if any(k == PTX for k, _ in f))
    return sum(fats.values()), with_ptx, taken[DEFAULT], best, taken[best]


def architectures(fats, kind):
    return ' '.join('%d.%d' % divmod(a, 10) for a in sorted({a for f in fats for k, a in f if k == kind})) or '-'


def survey(file, name):
    """Fat binaries by what they contain, of all libraries together."""
    fats = collections.Counter()
    for f in libraries(file, name):
        fats.update(fat_binaries(f))
    return fats


class Remote(io.RawIOBase):
    """A file on a server, read by ranges, ahead while reading is sequential."""

    def __init__(self, url, size):
        self.url, self.size, self.at, self.start, self.kept = url, size, 0, 0, b''

    def seekable(self):
        return True

    def readable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=0):
        self.at = offset + (0, self.at, self.size)[whence]
        return self.at

    def readinto(self, into):
        if not self.start <= self.at < self.start + len(self.kept):
            last = min(self.size, self.at + max(len(into), 8 * PIECE)) - 1
            if last < self.at:
                return 0
            ask = urllib.request.Request(self.url, headers={'Range': f'bytes={self.at}-{last}'})
            with urllib.request.urlopen(ask, timeout=120) as answer:
                if answer.status != 206:
                    raise OSError('the server gives no ranges')
                self.start, self.kept = self.at, answer.read()
        piece = self.kept[self.at - self.start:self.at - self.start + len(into)]
        into[:len(piece)] = piece
        self.at += len(piece)
        return len(piece)


def pick(files):
    """The wheel for Linux on x86-64: for Python 3.11 or any, else the first."""
    files = [f for f in files if f['filename'].endswith('x86_64.whl') and 'linux' in f['filename']]
    first = [f for f in files if any(t in f['filename'] for t in ('-cp311-', '-py3-', '-abi3-'))]
    return (first or files or [None])[0]


def read_wheels(path, only):
    """(name, version, MB, fat binaries or None) of each wheel of the list."""
    for line in open(path):
        name, _, version = line.strip().partition('==')
        if not version or line.startswith('#') or only and name not in only:
            continue
        print(f'{name} {version} ...', file=sys.stderr, flush=True)
        at = INDEX % name
        try:
            with urllib.request.urlopen(at, timeout=60) as answer:
                f = pick(json.load(answer)['releases'].get(version, []))
            if not f:
                raise OSError('no wheel for Linux on x86-64')
            remote = io.BufferedReader(Remote(urllib.parse.urljoin(at, f['url']), f['size']), 8 * PIECE)
            yield name, version, f['size'] >> 20, survey(remote, f['filename'])
        except (OSError, zipfile.BadZipFile) as e:
            print(f'{name}: {e}', file=sys.stderr)
            yield name, version, 0, None


def table(path, only):
    """Prints the page; how many wheels could not be read."""
    rows, kinds = [], collections.Counter()
    for name, version, size, fats in read_wheels(path, only):
        if fats is None:
            kinds['unread'] += 1
            rows.append((9, name, version, 'not read', *[''] * 6))
            continue
        total, with_ptx, taken, best, most = counts(fats)
        kind = 'none' if not total else 'all' if taken == total else 'machine' if not with_ptx else 'part'
        kinds[kind] += 1
        share = taken / total if total else -1
        rows.append((-share, name, version, size, total, with_ptx, taken, f'{most} with {best // 10}.{best % 10}'
                     if most > taken else '', architectures(fats, PTX), architectures(fats, ELF)))
    print(f"{datetime.date.today()}: {len(rows)} wheels. Of {kinds['all']} the default device takes every fat binary, of "
          f"{kinds['part']} a part; {kinds['machine']} have machine code only, {kinds['none']} no CUDA code; "
          f"{kinds['unread']} could not be read.\n")
    print('| wheel | version | MB | fat binaries | with PTX | taken | more with `VGPU_SOFT_CC` | PTX for | machine code for |')
    print('|---|---|---|---|---|---|---|---|---|')
    for row in sorted(rows, key=lambda r: (r[0], r[1].lower())):
        print('| ' + ' | '.join(str(x) for x in row[1:]) + ' |')
    return kinds['unread']


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument('--index', metavar='LIST')
    args.add_argument('--tsv', action='store_true')
    args.add_argument('names', nargs='*')
    a = args.parse_args()
    if a.index:
        sys.exit(1 if table(a.index, a.names) else 0)
    if not a.names:
        args.error('no file; --help says what can be given')
    for name in a.names:
        try:
            with open(name, 'rb') as f:
                fats = survey(f, name)
        except (OSError, zipfile.BadZipFile) as e:
            sys.exit(f'{name}: {e}')
        if not a.tsv:
            total, with_ptx, taken, best, most = counts(fats)
            print(f'{name}: {total} fat binaries, {with_ptx} with PTX, {taken} taken'
                  + (f' ({most} with VGPU_SOFT_CC={best // 10}.{best % 10})' if most > taken else '')
                  + f'; PTX for {architectures(fats, PTX)}, machine code for {architectures(fats, ELF)}')
            continue
        for arch in sorted({x for f in fats for k, x in f if k == PTX}):
            print(name.rsplit('/', 1)[-1], arch, sum(n for f, n in fats.items() if (PTX, arch) in f), sep='\t')


if __name__ == '__main__':
    main()
