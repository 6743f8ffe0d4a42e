#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""options.py BUILD TOP [--write]: docs/options.md against what the programs' --help says, and docs/environment.md against
the variables that the sources read. Exit status 1: something is missing; --write makes docs/options.md anew."""
import os
import re
import subprocess
import sys

COMMANDS = [("vgpu-backend", ["host/backend/vgpu-backend"])] + [
    ("vgpu " + c, ["userspace/vgpu/vgpu"] + c.split())
    for c in ("run", "vm run", "smi", "metrics", "ctl", "cdi", "trace", "replay", "doctor")]
INTRO = """<!-- SPDX-License-Identifier: MIT -->
# All options

Of the programs that users start, as their `--help` has them (`scripts/options.py BUILD TOP --write` makes this page, a test compares
it). Options that all commands have (`--help`) are left out. Variables are in [environment.md](environment.md).

| program | option | what |
|---|---|---|
"""


def options(build, command):
    text = subprocess.run([os.path.join(build, command[0])] + command[1:] + ["--help"], stdout=subprocess.PIPE, check=True,
                          timeout=60).stdout.decode()
    found = []
    for line in text.splitlines():
        m = re.match(r" {2,6}(-[-A-Za-z].*?)(?:  +(\S.*)| (from .*|\S+: .*))?$", line)
        if m and re.search(r"--[a-z]", m[1]):
            option, what = m[1].strip(), m[2] or ""
            if re.match(r"PATH +", what):  # their columns are far apart
                option, what = option + " PATH", what[4:].strip()
            found.append([option, what])
        elif found and re.match(r" {10,}\S", line):
            found[-1][1] += " " + line.strip()
        elif line.strip() and not line.startswith(" "):
            found.append(None)
        if found and found[-1] is None:
            found.pop()
            found += [["", ""]]
    return [(o, what.strip()) for o, what in found if o and not o.endswith("--help") and "--help, --version" not in o]


def page(build):
    rows = []
    for name, command in COMMANDS:
        for option, what in options(build, command):
            rows.append("| `%s` | `%s` | %s |\n" % (name, option.replace("|", "\\|"), what.replace("|", "\\|").replace("<", "&lt;")))
    return INTRO + "".join(rows)


def variables(top):
    """Names that programs of ours read, but for tests and what every program reads."""
    found = {}
    for folder in ("userspace", "lib", "host"):
        for path, _, files in os.walk(os.path.join(top, folder)):
            for file in files:
                if not file.endswith(".c") or file.endswith("_test.c") or "/tests" in path or "testdata" in path:
                    continue
                with open(os.path.join(path, file)) as f:
                    text = f.read()
                for name in re.findall(r'(?:getenv|environment)\(\s*"([A-Z][A-Z0-9_]+)"', text):
                    found.setdefault(name, os.path.join(path, file))
    return {n: f for n, f in found.items() if n not in ("PATH", "HOME", "TERM", "LD_LIBRARY_PATH", "LISTEN_FDS", "LISTEN_PID",
                                                         "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "USER", "SHELL",
                                                         "PYTHONPATH", "LANG")}


def main():
    build, top = sys.argv[1:3]
    path = os.path.join(top, "docs/options.md")
    want = page(build)
    bad = False
    if "--write" in sys.argv:
        with open(path, "w") as f:
            f.write(want)
    with open(path) as f:
        have = f.read()
    # Programs and options: what is said of them may depend on the configuration (defaults).
    want, have = ({tuple(re.split(r"(?<!\\)\|", line)[1:3]) for line in text.splitlines() if line.startswith("| `")} for text in (want, have))
    for row in sorted(want ^ have):
        print("docs/options.md %s:%s; scripts/options.py BUILD TOP --write" % ("lacks" if row in want else "has too much", "|".join(row)))
        bad = True
    with open(os.path.join(top, "docs/environment.md")) as f:
        text = f.read()
    # `VGPU_SOFT_CC`, `_LIBRARY_CC`, ...: short for the same beginning
    short = set(re.findall(r"`(_[A-Z_]+)`", text))
    for name, file in sorted(variables(top).items()):
        if "`%s`" % name not in text and not (name.startswith("VGPU_SOFT_") and name[len("VGPU_SOFT"):] in short):
            print("docs/environment.md lacks %s, which %s reads" % (name, os.path.relpath(file, top)))
            bad = True
    return 1 if bad else 0


sys.exit(main())
