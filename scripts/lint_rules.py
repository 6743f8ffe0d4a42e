#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""lint_rules.py FILE...: rules of Makefiles that write into $(O) before anybody has made that folder.

A rule whose prerequisites are all sources may be the first that a parallel make starts. It therefore
names the folder as an order-only prerequisite (`| $(O)`) or makes it in its recipe. Without that it
works or fails by chance. Prints FILE: rules: what; exit status 1 when there is one.
"""
import re
import sys

# Variables that name sources, not what a build made.
SOURCES = {"SRC", "TOP", "HERE", "ROOT", "REPO", "SG", "GEN", "GEN_SRC", "CUDA_HOME", "SG_EXEC_DIR",
           "VHOST_USER", "wildcard", "abspath"}


def logical_lines(text):
    """(line number, text with its continuations joined) of each line."""
    number, joined, first = 0, "", 0
    for line in text.split("\n"):
        number += 1
        first = first if joined else number
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        yield first, joined + line
        joined = ""


def breaches(text):
    lines = list(logical_lines(text))
    for at, (number, line) in enumerate(lines):
        parts = re.split(r":(?![=%])(?=\s|$)", line)
        if line[:1] in "\t# " or len(parts) < 2 or "$(O)/" not in parts[0]:
            continue
        prerequisites = parts[-1]
        if re.match(r"\s*\w+\s*[:+?]?=", prerequisites):
            continue
        recipe = []
        while at + 1 < len(lines) and lines[at + 1][1].startswith("\t"):
            at += 1
            recipe.append(lines[at][1])
        built = set(re.findall(r"\$\((\w+)", prerequisites)) - SOURCES
        if recipe and not built and "mkdir" not in "".join(recipe):
            yield number, parts[0].strip()


def main():
    found = 0
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as f:
            for number, target in breaches(f.read()):
                print(f"{name}: rules: line {number}: {target} may come before its folder: add `| $(O)`")
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
