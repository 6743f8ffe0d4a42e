#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the reproducer of each hole in holes.txt and looks for its tests by name.

usage: run.py --top-build DIR [--quick] [--list] [NAME...]

A hole is closed when each test that is named for it ran and passed. A program that is not there, a test
that it does not have, that was skipped or did not run, is a failure; only a hole without named tests (a
proof) is "not run" where the program's tool is not installed, and one of the QEMU device where QEMU is not built.
--quick leaves the slow ones out, after a look whether their tests are in the sources. The last line counts
the holes.
"""
import argparse
import fnmatch
import functools
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.path.join(HERE, "../../.."))


class Hole:
    def __init__(self, line):
        self.name, self.what, program, tests = [part.strip() for part in line.split("|")]
        self.folder, command = [part.strip() for part in program.split(":", 1)]
        words = command.split()
        self.slow = words[0] == "slow"
        self.command = words[1:] if self.slow else words
        self.tests = [t.strip() for t in tests.split(",") if t.strip()]


def read():
    with open(os.path.join(HERE, "holes.txt")) as f:
        holes = [Hole(l) for l in f if l.strip() and not l.startswith("#")]
    names = [h.name for h in holes]
    assert len(set(names)) == len(names), "a name is there twice"
    return holes


def programs(build, hole):
    """The command lines: one, or one for each program of that name in the folders of a part."""
    name = hole.command[0]
    if name == "faults.py":  # a row of tests/system/faults
        script = os.path.join(TOP, hole.folder, "rows.py")
        command = [sys.executable, script, "--top-build", build, "--build", os.path.join(build, hole.folder), "--short",
                   hole.command[2]]
        return [command] if os.path.exists(script) else []
    if name == "device_test.py":
        script = os.path.join(TOP, hole.folder, name)
        return [[sys.executable, script, os.path.join(build, "qemu"), *hole.tests]] if os.path.exists(script) else []
    if name.endswith(".sh"):
        script = os.path.join(TOP, hole.folder, name)
        return [["bash", script, os.path.join(build, hole.folder)]] if os.path.exists(script) else []
    found = []
    for where, _, files in os.walk(os.path.join(build, hole.folder)):
        if name in files and os.access(os.path.join(where, name), os.X_OK):
            found.append([os.path.join(where, name)] + [w.format(build=build, top=TOP) for w in hole.command[1:]])
    return sorted(found)


def passed_tests(out):
    found = set(re.findall(r"^\[       OK \] (.+?)$", out, re.M))
    found |= set(re.findall(r"^ok - (.+?)$", out, re.M))
    found |= set(re.findall(r"^ok +(\w+) +[\d.]+ s$", out, re.M))
    found |= set(re.findall(r"^(row \d+: ok)", out, re.M))
    return found


@functools.lru_cache(maxsize=None)
def output(build, command):
    """(its exit status, what it printed), or None when it did not end. Once for each command: holes share programs."""
    command = list(command)
    env = dict(os.environ, BACKEND_DIR=os.path.join(build, "host/backend"))
    with tempfile.TemporaryDirectory(prefix="vgpu-regress-") as scratch:
        if os.path.basename(command[0]) == "fuzz_exec":  # what it finds is kept nowhere
            command = command[:1] + ["-artifact_prefix=" + scratch + "/"] + command[1:-1] + [scratch] + command[-1:]
        try:
            # Output goes to a file: processes left behind by a failed test would hold a pipe open.
            with tempfile.TemporaryFile() as f:
                done = subprocess.run(command, cwd=scratch, env=env, stdin=subprocess.DEVNULL, stdout=f,
                                      stderr=subprocess.STDOUT, timeout=1800)
                f.seek(0)
                return done.returncode, f.read().decode(errors="replace")
        except subprocess.TimeoutExpired:
            return None


def run(build, hole):
    """None, or why the hole is not known to be closed; "not run: ..." where a program's tool is not installed."""
    commands = programs(build, hole)
    if not commands:
        return "%s is not in %s" % (hole.command[0], hole.folder)
    results = [output(build, tuple(command)) for command in commands]
    if None in results:
        return "no end after 30 minutes"
    status = max(abs(code) for code, _ in results)
    out = "".join(text for _, text in results)
    if re.search(r"^not run: all: ", out, re.M):
        return re.search(r"^not run: all: .*", out, re.M).group(0)
    passed = passed_tests(out)
    for test in hole.tests:
        if not fnmatch.filter(passed, test):
            return "%s did not run or did not pass: %s" % (test, " ".join(out[-300:].split()))
    if status and not hole.tests:  # of others in the same program their own check tells
        return "status %d: %s" % (status, " ".join(out[-300:].split()))
    if not hole.tests and re.search(r"^not run: ", out, re.M):
        return re.search(r"^not run: .*", out, re.M).group(0)
    return None


def in_sources(hole):
    """The tests of a slow hole that no source has: literally, or as a script's string with variables in it."""
    text, patterns = "", []
    for where, dirs, files in os.walk(TOP):
        dirs[:] = [d for d in dirs if d not in ("build", ".git")]
        for name in files:
            if name.endswith((".c", ".sh", ".py", "Makefile")):
                with open(os.path.join(where, name), errors="replace") as f:
                    text += f.read()
    for string in re.findall(r'"([^"\n]*\$\w[^"\n]*)"', text):
        words = re.split(r"\$\w+", string)
        if len("".join(words)) > 12:  # else it matches anything
            patterns.append(re.compile(".+".join(re.escape(w) for w in words)))
    return [t for t in hole.tests + [os.path.splitext(hole.command[0])[0]]
            if t not in text and not any(p.fullmatch(t) for p in patterns)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--top-build", default=os.path.join(TOP, "build"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("name", nargs="*")
    args = parser.parse_args()
    holes = read()
    unknown = set(args.name) - {h.name for h in holes}
    if unknown:
        parser.error("no such hole: " + ", ".join(sorted(unknown)))
    if args.name:
        holes = [h for h in holes if h.name in args.name]
    passed = failed = skipped = 0
    for hole in holes:
        if args.list:
            print("%-24s %s" % (hole.name, hole.what))
            continue
        if args.quick and (hole.slow or hole.folder == "tests/system/faults"):
            missing = in_sources(hole) if hole.slow else []
            if missing:
                failed += 1
                print("FAIL: regress.%s: no source has %s" % (hole.name, ", ".join(missing)))
            else:
                skipped += 1
                print("not run: regress %s: short form: %s of %s runs it"
                      % (hole.name, " ".join(hole.command[:3]), hole.folder))
            continue
        why = run(os.path.abspath(args.top_build), hole)
        if why and why.startswith("not run: "):
            skipped += 1
            print("not run: regress %s: %s" % (hole.name, why[9:]), flush=True)
        elif why:
            failed += 1
            print("FAIL: regress.%s: %s: %s" % (hole.name, hole.what, why), flush=True)
        else:
            passed += 1
            print("regress.%s ok: %s" % (hole.name, ", ".join(hole.tests) or hole.command[0]), flush=True)
    if not args.list:
        print("regress: %d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
