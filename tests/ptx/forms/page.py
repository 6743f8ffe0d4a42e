#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page of PTX instructions (docs/instructions.md), of the software GPU's own tables.

page.py SOFTGPU PAGE [--write]: compares PAGE with what the tables of the folder SOFTGPU (host/softgpu) give, or writes it.
Exit status 1 if they differ. The operations come through the C preprocessor (CC, or gcc).
"""

import glob
import os
import re
import subprocess
import sys

HEAD = """# PTX instructions of the software GPU

Written by `tests/ptx/forms/page.py` from `host/softgpu/ptx/forms.def` and `forms_memory.def`, against which instructions are checked and which
`make check-tests.ptx.forms` holds against NVIDIA's ptxas. An instruction that is valid PTX and not here makes a launch of its kernel fail with
`CUDA_ERROR_NOT_SUPPORTED`, with its name and line in the log; the module's other kernels run. So do those that `docs/software-gpu.md`
names as refused although a row here has them.

*Types*: one of each column of alternatives, in this order. *Modifiers*: one of each group; a group in brackets may be missing; *n* stands for
any more. *.target*: the lowest `sm_NN`, where it is not any.

| word | stands for |
|---|---|
"""
ELSEWHERE = {"call"}  # selected in host/softgpu/ptx/sg_ptx_body.c
TITLES = {"moves, synchronisation, textures, video": "moves, synchronisation, textures, video instructions"}


def table(folder):
    """(chapter, opcode, types, modifiers, target) of each row, and the groups."""
    rows, chapter, groups = [], None, {}
    for name in ("forms.def", "forms_memory.def"):
        with open(os.path.join(folder, "ptx", name), encoding="ascii") as f:
            for line in f:
                if found := re.match(r"/\* ---- (.*) ---- \*/", line):
                    chapter = found.group(1)
                elif found := re.match(r'GROUP\("([^"]*)", "([^"]*)"\)', line):
                    groups[found.group(1)] = found.group(2)
                elif found := re.match(r'FORM\("([^"]*)", "([^"]*)", "([^"]*)", (\d+), "([^"]*)"\)', line):
                    rows.append((chapter, *found.groups()[:4]))
    return rows, groups


def words(text, groups):
    return " ".join(f"*{w}*" if w in groups else f"`.{w}`" for w in text.split("|"))


def types(text, groups):
    if text == "*":
        return "any"
    return ", ".join(words(position, groups) for position in text.split()) or "none"


def modifiers(text, groups):
    if text == "*":
        return "any"
    out = []
    for group in text.split():
        rest = group.strip("!")
        optional = rest.endswith("?")
        rest = rest.rstrip("?")
        shown = "*n*" if rest == "*" else words(rest.rstrip("*"), groups)
        out.append(f"[{shown}]" if optional else shown)
    return ", ".join(out)


def families(folder):
    found = set()
    select = os.path.join(folder, "ptx", "select")
    for path in sorted(glob.glob(os.path.join(select, "**", "*.c"), recursive=True)):
        with open(path, encoding="utf-8") as f:
            for body in re.findall(r"const struct sg_family sg_families_\w+\[\] = \{(.*?)\n\};", f.read(), re.S):
                found |= set(re.findall(r'\{"(\w+)"', body))
    return found


NATIVE = """
## Native code

What instructions become: each operation is a row under `host/softgpu/exec` that names its native code (`host/softgpu/jit/natives.def`), for
AVX-512 and AVX2, or none. *Compiled*: native code calls the handler where operands or running lanes do not allow more. *With AVX-512*: the
same, and always the handler with AVX2. *With the blocks*: control flow, which ends or divides the blocks of native code, with the handler
where that is simpler.

| operations | compiled | with AVX-512 | with the blocks | interpreted |
|---|---|---|---|---|
"""
SOURCE = """#define SG_ID(id, name, native) ROW name | native END
#include "exec/table/ids.h"
"""


def operations(folder):
    """(kind, name, native) of each row of an operation."""
    text = subprocess.run([os.environ.get("CC", "gcc"), "-E", "-xc", "-I", folder, "-"], input=SOURCE, stdout=subprocess.PIPE, check=True,
                          encoding="utf-8").stdout
    rows, kind = [], None
    for line in text.splitlines():
        if found := re.match(r'# \d+ "([^"]*)"', line):
            if found.group(1).endswith(".def"):
                with open(found.group(1), encoding="ascii") as f:
                    kind = re.search(r"/\* Operations \(exec/table/ops.h\): (.*)\. \*/", f.read()).group(1)
            continue
        for name, native in re.findall(r"ROW (.*?) \| (.*?) END", line):
            rows.append((kind, "".join(re.findall(r'"([^"]*)"', name)), native))
    return rows


def native_class(native):
    return {"none": 3, "flow": 2}.get(native, 1 if native.startswith("avx512(") else 0)


def shortened(names):
    """Names that differ in the last part only are one: `add` .b32 .b64"""
    parts = {}
    for name in names:
        start, dot, last = name.rpartition(".")
        parts.setdefault(start if dot else name, []).append(dot + last if dot else "")
    return ", ".join(" ".join([f"`{start}{ends[0]}`", *(f"`{e or start}`" for e in ends[1:])]) for start, ends in parts.items())


def native_code(folder):
    kinds = {}
    for kind, name, native in operations(folder):
        kinds.setdefault(kind, ([], [], [], []))[native_class(native)].append(name)
    return NATIVE + "".join(f"| {kind} | " + " | ".join(shortened(names) for names in cells) + " |\n" for kind, cells in kinds.items())


def page(folder):
    rows, groups = table(folder)
    with open(os.path.join(folder, "ptx", "sg_ptx_opcodes.c"), encoding="utf-8") as f:
        names = set(re.findall(r'^    "(\w+)",', f.read(), re.M))
    have, listed = families(folder) | ELSEWHERE, {r[1] for r in rows}
    out = HEAD
    for name, text in sorted(groups.items()):
        out += f"| *{name}* | {words(text, groups)} |\n"
    chapter = None
    for row in rows:
        if row[0] != chapter:
            chapter = row[0]
            title = TITLES.get(chapter, chapter)
            out += f"\n## {title[0].upper()}{title[1:]}\n\n| instruction | types | modifiers | .target |\n|---|---|---|---|\n"
        target = f"`sm_{row[4]}`" if int(row[4]) else ""
        out += f"| `{row[1]}` | {types(row[2], groups)} | {modifiers(row[3], groups)} | {target} |\n"
    out += "\n## Without a row\n\nTheir types and modifiers are checked where they are selected (`host/softgpu/ptx/select`): "
    out += ", ".join(f"`{n}`" for n in sorted(have - listed)) + ".\n"
    out += "\n## Refused by name\n\nInstructions of PTX ISA 9.0 that no kernel can run here: "
    out += ", ".join(f"`{n}`" for n in sorted(names - have)) + ".\n"
    return out + native_code(folder)


def main():
    folder, path = sys.argv[1:3]
    text = page(folder)
    if sys.argv[3:] == ["--write"]:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return 0
    with open(path, encoding="utf-8") as f:
        same = f.read() == text
    if not same:
        print(f"not ok - {path} is not what the tables give: {sys.argv[0]} {folder} {path} --write")
    print(f"page of instructions: {int(same)} passed, {int(not same)} failed, 0 skipped")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
