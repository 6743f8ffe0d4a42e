#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""duplicates.py [--lines N] [FILE...]: runs of N or more equal lines (default 40) in files of different folders.

Without FILE: the sources that git knows. Generated code, licence texts and test data are left out. Blanks at the ends of
lines do not count; empty lines at the ends of a run are not part of it. Prints FILE:LINE: duplicates: what for each run; exit
status 1 when there is one.
"""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = re.compile(r"(\.(c|h|cu|S|py|sh|mk|awk|mjs)|(^|/)(Makefile|Kbuild))$")
LEFT_OUT = re.compile(r"(^|/)(generated|LICENSES|testdata|corpus|docs)/")


def sources():
    done = subprocess.run(["git", "-C", TOP, "ls-files", "--cached", "--others", "--exclude-standard"],
                          check=True, stdout=subprocess.PIPE, text=True)
    return [f for f in done.stdout.splitlines()
            if SOURCE.search(f) and not LEFT_OUT.search(f) and os.path.exists(os.path.join(TOP, f))]


def runs(files, least):
    """(file, line, other file, other line, length) of each run, lines counted from 0; each pair of places once."""
    text, where = {}, {}
    for name in files:
        with open(os.path.join(TOP, name), encoding="utf-8", errors="replace") as f:
            text[name] = [line.strip() for line in f]
        for at in range(len(text[name]) - least + 1):
            if text[name][at] and text[name][at + least - 1]:
                where.setdefault(hash(tuple(text[name][at:at + least])), []).append((name, at))
    covered = set()
    for places in where.values():
        for i, (a, at) in enumerate(places):
            for b, bt in places[i + 1:]:
                if os.path.dirname(a) == os.path.dirname(b) or (a, b, at - bt, at) in covered:
                    continue
                n = 0
                while at + n < len(text[a]) and bt + n < len(text[b]) and text[a][at + n] == text[b][bt + n]:
                    covered.add((a, b, at - bt, at + n))
                    n += 1
                if n >= least:
                    yield a, at, b, bt, n


def main(args):
    least = 40
    if args[:1] == ["--lines"] and len(args) > 1 and args[1].isdigit() and int(args[1]) > 1:
        least, args = int(args[1]), args[2:]
    if args and args[0].startswith("-"):
        print(__doc__.split("\n", maxsplit=1)[0], file=sys.stderr)
        return 2
    found = 0
    for a, at, b, bt, n in runs(args or sources(), least):
        print(f"{a}:{at + 1}: duplicates: {n} lines as in {b}:{bt + 1}")
        found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
