#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the table of instructions (host/softgpu/ptx/forms.def) against ptxas.

forms.py DEF LIBRARY PTXAS [--rounds N] [--all]: for every row instructions that it allows, for its .target and for a lower
one, and N (60) random ones near it for each opcode: other types, modifiers, registers. What ptxas accepts and LIBRARY (the
software GPU) refuses is printed; exit status 1 if there is any. What is accepted here alone is counted; --all prints it.
"""

import ctypes
import itertools
import os
import random
import re
import subprocess
import sys
import tempfile

ACCEPTED_OF = 300  # instructions of which one may be accepted here alone
TARGETS = (75, 80, 86, 90, 100)
SPECIFIC = {90: "90a", 100: "100a", 120: "120a"}  # by the .target of a GATE that is specific
# Formats of ldmatrix and fields of tensor maps, which ptxas ignores in many other instructions.
IGNORED = {"b8x16", "b6x16_p32", "b4x16_p64", "global_address", "rank", "box_dim", "global_dim", "element_stride", "global_stride",
           "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity", "fill_mode"}
REGISTERS = {"pred": "p", "b8": "c", "b16": "h", "u16": "us", "s16": "ss", "b32": "b", "u32": "u", "s32": "s", "f32": "f",
             "b64": "d", "u64": "ul", "s64": "sl", "f64": "dd", "f16": "hh"}
SIZES = {"8": 8, "16": 16, "32": 32, "64": 64, "128": 128}
BODY = ".reg " + "; .reg ".join(f".{t} {n}<8>" for t, n in REGISTERS.items()) + ";\n"
MODULE = ".global .align 16 .b8 gb[64];\n.const .align 16 .b8 kb[64];\n"


def read_table(path):
    text = "".join(open(p, encoding="ascii").read() for p in (path, path.replace(".def", "_memory.def")))
    groups = dict(re.findall(r'^GROUP\("([^"]*)", "([^"]*)"\)', text, re.M))
    rows = [(b, t, m, int(n), o) for b, t, m, n, o in
            re.findall(r'^FORM\("([^"]*)", "([^"]*)", "([^"]*)", (\d+), "([^"]*)"\)', text, re.M)]
    return groups, rows


def read_gates(path):
    """(opcodes, words, .target) of the gates that need a .target sm_NNa."""
    with open(path, encoding="ascii") as f:
        return [(b.split("|"), set(w.split("|")), int(t)) for b, w, t in
                re.findall(r'^GATE\("([^"]*)", "([^"]*)", (\d+), \d+, 1,', f.read(), re.M)]


def specific(line, gates):
    """The .target sm_NNa that an instruction needs, without "sm_"; None: any."""
    base, *words = line.split(" ")[0].split(".")
    for bases, needed, target in gates:
        if base in bases and (needed == {"*"} or needed & set(words)):
            return SPECIFIC[target]
    return None


def bits_of(kind):
    if kind == "pred":
        return 1
    if kind.endswith("x2"):
        return 2 * int(re.search(r"(\d+)x2", kind).group(1))
    return int(re.search(r"\d+$", kind).group(0))


def double_of(kind):
    return kind[0] + str(2 * bits_of(kind))


def register(kind, i):
    """A register for an operand of this type."""
    kind = {"u8": "u16", "s8": "s16", "b8": "b16", "u16x2": "b32", "s16x2": "b32", "bf16": "b16", "bf16x2": "b32",
            "f16x2": "b32", "f32x2": "b64", "tf32": "b32", "e4m3x2": "b16", "e5m2x2": "b16", "e2m1x2": "b8",
            "e2m3x2": "b16", "e3m2x2": "b16", "ue8m0x2": "b16"}.get(kind, kind)
    return REGISTERS[kind] + str(i)


def operand(letter, types, i, mods=()):
    vector = [int(m[1:]) for m in mods if re.fullmatch("v[248]", m)]
    if letter == "x" and vector:
        return "{" + ", ".join(register(types[0], k) for k in range(vector[0])) + "}"
    if letter == "p":
        return register("pred", i)
    if letter == "i":
        return register("u32", i)
    if letter == "h":
        return register("u64", i)
    if letter == "a":
        return f"[d{i}]"
    if letter == "n":
        return "16"
    if letter == "d":
        return register(double_of(types[0]), i)
    return register(types[1] if letter in "1v" and len(types) > 1 else types[0], i)


def expansions(row, groups):
    """(instruction, target) for the types and modifiers of a row."""
    base, types, mods, target, operands = row
    if "*" in types or "*" in mods or "*" in operands or "." in operands:
        return
    choices = [groups.get(t, t).split("|") for t in types.split()]
    words = []
    for group in mods.split():
        optional = group.endswith("?")
        group = group.strip("?!")
        words.append(groups.get(group, group).split("|") + ([""] if optional else []))
    for kinds in itertools.product(*choices):
        if "b128" in kinds:
            continue
        for chosen in itertools.product(*words):
            name = base + "".join("." + w for w in chosen if w) + "".join("." + k for k in kinds)
            yield f"{name} {', '.join(operand(c, kinds, i % 4, chosen) for i, c in enumerate(operands))};", target


def near(rows, every, groups, gates, rounds, rng):
    """Random instructions near those of an opcode; a modifier more may be any that the table has."""
    kinds = sorted({k for r in rows for part in r[1].split() for k in groups.get(part, part).split("|")} | {"u32", "f32", "b64"})
    words = sorted({w for r in rows for g in r[2].split() for w in groups.get(g.strip("?!"), g.strip("?!")).split("|")} |
                   {"sat", "ftz", "rn"})
    strange = sorted({w for r in every if r[0] != "testp" for g in r[2].split()
                      for w in groups.get(g.strip("?!"), g.strip("?!")).split("|")} - IGNORED | {"rna", "rs", "noftz", "scaled"})
    for _ in range(rounds):
        row = rng.choice(rows)
        if "*" in row[1] or "*" in row[2] or "*" in row[4] or "." in row[4]:
            continue
        types = [rng.choice(groups.get(p, p).split("|")) if rng.random() < 0.8 else rng.choice(kinds) for p in row[1].split()]
        chosen = [w for g in row[2].split() for w in [rng.choice(groups.get(g.strip("?!"), g.strip("?!")).split("|"))]
                  if not g.endswith("?") or rng.random() < 0.5]
        if rng.random() < 0.4:
            chosen.append(rng.choice(words if rng.random() < 0.5 else strange))
        if chosen and rng.random() < 0.2:
            chosen.pop(rng.randrange(len(chosen)))
        chosen = sorted(set(chosen), key=chosen.index)
        try:
            ops = [operand(c, types, i % 4, chosen) for i, c in enumerate(row[4])]
        except KeyError:
            continue
        if ops and rng.random() < 0.5:
            k = rng.randrange(len(ops))
            ops[k] = rng.choice([rng.choice(sorted(REGISTERS.values())) + "1", "7", "1.5", "0f3f800000"])
        if rng.random() < 0.1 and row[0] != "atom":  # of which ptxas takes some with an operand more
            ops.append("u3")
        name = row[0] + "".join("." + w for w in chosen if w != "*") + "".join("." + t for t in types)
        line = f"{name} {', '.join(ops)};"
        target = rng.choice(TARGETS)
        if name.endswith(".f32.bf16") and len(row[4]) > 2 and "7" in ops:
            continue  # ptxas 13.0 takes the constant, and ends with a signal where the result is used
        yield line, target
        if specific(line, gates):
            yield line, specific(line, gates)


class Ptxas:
    def __init__(self, path):
        self.path = path
        self.folder = tempfile.TemporaryDirectory()

    def run(self, lines, target):
        text = module(lines, target)
        first = text[:text.index(lines[0])].count("\n") + 1
        path = os.path.join(self.folder.name, "t.ptx")
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        r = subprocess.run([self.path, f"-arch=sm_{target}", "-o", os.devnull, path], capture_output=True, text=True,
                           check=False)
        found = {}
        for line, what in re.findall(r"line (\d+); (?:error|fatal)\s*: (.*)", r.stdout + r.stderr):
            found.setdefault(int(line) - first, what)
        return r.returncode == 0, {n: w for n, w in found.items() if 0 <= n < len(lines)}

    def judge(self, lines, target):
        """"" for what is accepted, else the reason."""
        if not lines:
            return []
        verdict, todo = [""] * len(lines), list(range(len(lines)))
        while todo:
            good, errors = self.run([lines[i] for i in todo], target)
            if good:
                break
            if not errors:
                if len(todo) == 1:
                    verdict[todo[0]] = "refused"
                    break
                half = len(todo) // 2
                for part in (todo[:half], todo[half:]):
                    for i, v in zip(part, self.judge([lines[i] for i in part], target)):
                        verdict[i] = v
                break
            for n, what in errors.items():
                verdict[todo[n]] = what
            todo = [t for k, t in enumerate(todo) if k not in errors]
        return verdict


def module(lines, target):
    return (f".version 9.0\n.target sm_{target}\n.address_size 64\n{MODULE}.visible .entry k(.param .u64 P)\n{{\n{BODY}" +
            "\n".join(lines) + "\nret;\n}\n")


class Ours:
    """The software GPU, by cuModuleLoadDataEx."""

    def __init__(self, path):
        os.environ["VGPU_SOFT_CC"] = "12.0"
        self.cu = ctypes.CDLL(path)
        context = ctypes.c_void_p()
        if self.cu.cuInit(0) or self.cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or \
                self.cu.cuCtxSetCurrent(context):
            raise SystemExit("forms: the software GPU does not start")

    def judge(self, line, target):
        m, log = ctypes.c_void_p(), ctypes.create_string_buffer(512)
        options, values = (ctypes.c_int * 2)(5, 6), (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 512)
        r = self.cu.cuModuleLoadDataEx(ctypes.byref(m), module([line], target).encode() + b"\0", 2, options, values)
        if not r:
            self.cu.cuModuleUnload(m)
        return log.value.decode() or f"error {r}" if r else ""


def main(args):
    if len(args) < 3:
        print(__doc__)
        return 2
    rounds = int(args[args.index("--rounds") + 1]) if "--rounds" in args else 60
    groups, rows = read_table(args[0])
    gates = read_gates(args[0])
    ours, ptxas, rng = Ours(args[1]), Ptxas(args[2]), random.Random(1)
    cases = []
    for row in rows:
        some = list(expansions(row, groups))
        for line, target in rng.sample(some, min(len(some), 200)):
            highest = max(target, 75)
            cases.append((line, highest))
            cases += [(line, t) for t in TARGETS if t < highest][-1:]
            if specific(line, gates):
                cases.append((line, specific(line, gates)))
    for base in sorted({r[0] for r in rows}):
        cases += near([r for r in rows if r[0] == base], rows, groups, gates, rounds, rng)
    cases = sorted({(line, str(t)) for line, t in cases})
    refused = accepted = 0
    for target in [str(t) for t in TARGETS] + sorted(SPECIFIC.values()):
        lines = [line for line, t in cases if t == target]
        for at in range(0, len(lines), 400):
            part = lines[at:at + 400]
            for line, theirs in zip(part, ptxas.judge(part, target)):
                mine = ours.judge(line, target)
                if bool(mine) == bool(theirs):
                    continue
                refused += bool(mine)
                accepted += bool(theirs)
                if mine or "--all" in args:
                    print(f"FAIL: sm_{target} {line} ptxas {'refuses: ' + theirs if theirs else 'accepts'}, "
                          f"we {'refuse: ' + mine if mine else 'accept'}")
    print(f"forms: {len(cases)} instructions, {refused} refused here alone, {accepted} accepted here alone")
    failed = (refused > 0) + (accepted * ACCEPTED_OF > len(cases))
    print(f"forms: {2 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
