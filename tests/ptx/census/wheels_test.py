#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""wheels.py on fat binaries made here: borders of pieces, sizes that lie, and the rule of what is taken."""
import io
import os
import struct
import sys
import zipfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wheels  # noqa: E402
from wheels import ELF, PTX  # noqa: E402


def entry(kind, arch, payload=40, header=64, claimed=None):
    head = struct.pack('<HHIQIIHHI', kind, 0x0101, header, payload if claimed is None else claimed, 0, 0, 0, 0, arch)
    return head.ljust(header, b'\0') + b'x' * payload


def fat(*entries, size=None):
    body = b''.join(entries)
    return struct.pack('<IHHQ', 0xBA55ED50, 1, 16, len(body) if size is None else size) + body


def found(data):
    return list(wheels.fat_binaries(io.BytesIO(data)))


def same(what, got, want):
    global failed
    print(('ok - ' if got == want else 'FAIL: ') + what + ('' if got == want else f': {got}, not {want}'))
    failed += got != want


failed = 0
two = [frozenset({(ELF, 80), (PTX, 90)}), frozenset({(PTX, 75)})]
one = fat(entry(ELF, 80), entry(PTX, 90, header=112)) + b'abc' + fat(entry(PTX, 75, payload=0))
same('wheels: two beside each other', found(b'front' + one + b'end'), two)
for piece in (1, 7, 16, 64, 65):
    wheels.PIECE = piece
    same(f'wheels: read by {piece}', found(b'front' + one + b'end'), two)
wheels.PIECE = 1 << 20
same('wheels: a larger payload than there is', found(fat(entry(PTX, 80), entry(PTX, 90, claimed=1 << 60))), [{(PTX, 80)}])
same('wheels: a header that is too small', found(fat(entry(PTX, 80, header=64).replace(b'\x40\0\0\0', b'\x3f\0\0\0', 1))), [])
same('wheels: cut', found(one[:90]), [{(ELF, 80)}])
same('wheels: the magic alone', found(wheels.MAGIC), [])
same('wheels: a size beyond all files, another behind it', found(fat(size=1 << 40) + fat(entry(PTX, 75))), [{(PTX, 75)}])
for has, cc, takes in (({(PTX, 80)}, 80, True), ({(PTX, 80)}, 75, False), ({(PTX, 90)}, 80, False), ({(ELF, 80)}, 80, False),
                       ({(PTX, 120), (ELF, 80)}, 80, True), ({(PTX, 120), (ELF, 80)}, 86, True),
                       ({(PTX, 120), (ELF, 86)}, 80, False), ({(PTX, 120), (ELF, 75)}, 80, False), (set(), 80, False)):
    same(f'wheels: {sorted(has)} on {cc}', wheels.runs(has, cc), takes)
wheel = io.BytesIO()
with zipfile.ZipFile(wheel, 'w', zipfile.ZIP_DEFLATED) as z:
    z.writestr('p/a.so', one)
    z.writestr('p/b.cpython-311-x86_64-linux-gnu.so', fat(entry(PTX, 75)))
    z.writestr('p/text.py', one)
fats = wheels.survey(wheel, 'p-1-py3-none-any.whl')
same('wheels: a wheel', wheels.counts(fats), (3, 3, 3, 80, 3))
sys.exit(1 if failed else 0)
