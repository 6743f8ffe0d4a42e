#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds listed PTX against ptxas: what forms.py does not generate, such as declarations, directives and constants.

listed.py KNOWN LIBRARY PTXAS LIST...: the verdicts of ptxas and of LIBRARY (the software GPU) on each line of the LISTs. Lines in
KNOWN are judged differently, for the reason above them; any other difference is a failure, and so is a known one that is gone.
"""

import ctypes
import os
import subprocess
import sys
import tempfile

import forms


def read(path):
    with open(path, encoding="ascii") as f:
        return [line.rstrip() for line in f if line.strip() and not line.startswith("#")]


def build(line):
    """(sm_NN, text) of a line: TARGET [VERSION] KIND text."""
    target, rest = line.split(" ", 1)
    version = "9.0"
    if rest[0].isdigit():
        version, rest = rest.split(" ", 1)
    kind, text = (rest + " ").split(" ", 1)
    text = text.replace("\\n", "\n")
    if kind == "text":
        return target, text
    head = f".version {version}\n.target {target}\n.address_size 64\n{forms.MODULE}"
    before, inside = (text + "\n", "") if kind == "module" else ("", text)
    return target, f"{head}{before}.visible .entry k(.param .u64 P)\n{{\n{forms.BODY}{inside}\nret;\n}}\n"


def theirs(ptxas, folder, target, text):
    path = os.path.join(folder, "t.ptx")
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    part = ["-c"] if ".extern" in text or ".unified" in text else []
    r = subprocess.run([ptxas, f"-arch={target}", *part, "-O0", "-o", os.devnull, path], capture_output=True, text=True,
                       check=False)
    return "" if not r.returncode else (r.stdout + r.stderr).strip().split("\n")[0] or "refused"


def mine(ours, text):
    m, log = ctypes.c_void_p(), ctypes.create_string_buffer(512)
    options, values = (ctypes.c_int * 2)(5, 6), (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 512)
    r = ours.cu.cuModuleLoadDataEx(ctypes.byref(m), text.encode() + b"\0", 2, options, values)
    if not r:
        ours.cu.cuModuleUnload(m)
    return log.value.decode() or f"error {r}" if r else ""


def main(args):
    if len(args) < 4:
        print(__doc__)
        return 2
    known, ours, ptxas = set(read(args[0])), forms.Ours(args[1]), args[2]
    lines = [line for path in args[3:] for line in read(path)]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for line in lines:
            target, text = build(line)
            a, b = mine(ours, text), theirs(ptxas, folder, target, text)
            if (bool(a) != bool(b)) == (line in known):
                continue
            failed += 1
            what = "known, but judged alike now" if line in known else f"ptxas: {b or 'accepted'}; we: {a or 'accepted'}"
            print(f"FAIL: {line}: {what}")
    for line in sorted(known - set(lines)):
        failed += 1
        print(f"FAIL: known, but not in the list: {line}")
    print(f"listed: {len(lines) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
