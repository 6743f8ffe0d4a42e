#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What hardening (scripts/harden.mk) costs: two builds side by side, by processor time.

  harden_cost.py --build DIR --out DIR [--rounds N] [--limit RATIO]

Builds the software GPU, the broker and the worker without the flags in --out (minutes, once), runs the same programs on
both builds in turn, and compares the least processor time that a run took, children included: other work on the machine
adds to some runs, never to the least of all. A row fails above RATIO (default 1.05). Control: the interpreter in place
of native code, which costs more than that, must exceed RATIO, so that a difference of this size is seen here.
docs/results/hardening.md has the figures of a quiet machine.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLAGS = ["HARDEN_STACK=", "HARDEN_PROBE=", "HARDEN_BOUNDS=", "HARDEN_CET=", "HARDEN_CET_NATIVE=", "HARDEN_LINK="]
SECONDS = 600
MORE = 2


def build(args, folder, goals):
    """Builds GOALS of FOLDER without the flags; False, with the end of the log, when that fails."""
    out = os.path.join(args.out, folder)
    os.makedirs(out, exist_ok=True)
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES")}
    print("hardening: building %s without it" % folder, flush=True)
    done = subprocess.run(["make", "--no-print-directory", "-C", os.path.join(TOP, folder), "O=" + out,
                           "-j%d" % (os.cpu_count() or 1)] + FLAGS + [os.path.join(out, goal) for goal in goals],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, check=False)
    if done.returncode:
        print("FAIL: hardening: %s without it is not built: %s" % (folder, done.stdout[-1000:]))
    return not done.returncode


def cost(command, env):
    """Seconds of processor time of a run with its children; None, with a line, when it failed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS,
                          env=dict(os.environ, **env), check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        print("FAIL: hardening: %s ended with %d: %s" % (" ".join(command), done.returncode, done.stdout[-500:]))
        return None
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def least(runs, rounds):
    """The least of ROUNDS runs of each of RUNS, (command, environment), in turn; None when a run failed."""
    best = [None] * len(runs)
    for turn in range(rounds):
        order = range(len(runs)) if turn % 2 == 0 else reversed(range(len(runs)))
        for i in order:
            seconds = cost(*runs[i])
            if seconds is None:
                return None
            best[i] = seconds if best[i] is None else min(best[i], seconds)
    return best


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", required=True, help="the build folder, hardened")
    parser.add_argument("--out", required=True, help="where the build without the flags goes")
    parser.add_argument("--rounds", type=int, default=9, help="runs of each row and build (default 9)")
    parser.add_argument("--limit", type=float, default=1.05, help="most that hardening may cost (default 1.05)")
    args = parser.parse_args()
    args.build, args.out = os.path.abspath(args.build), os.path.abspath(args.out)
    if not build(args, "host/softgpu", ["libcuda-soft.so.1"]) or \
            not build(args, "host/backend", ["vgpu-backend", "vgpu-worker"]):
        print("hardening: 0 passed, 1 failed, 0 skipped")
        return 1
    # vgpu looks for the backend beside its own executable.
    shutil.copytree(os.path.join(args.build, "userspace"), os.path.join(args.out, "userspace"), dirs_exist_ok=True)
    bench = os.path.join(args.build, "tests/perf")

    def provider(folder):
        return os.path.join(folder, "host/softgpu/libcuda-soft.so.1")

    def insn(folder):
        return [os.path.join(bench, "insn-bench"), "--provider", provider(folder)]

    def soft(folder):
        return [os.path.join(bench, "soft-bench"), "--quick", "--provider", provider(folder)]

    def worker(folder):
        return [os.path.join(folder, "userspace/vgpu/vgpu"), "run", "--gpu", "soft", os.path.join(bench, "counters"),
                "launch-and-wait", "20000"]

    plain = {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=65536"}  # the default: the broker sets no other heap for its workers
    rows = [("the software GPU, native code", insn, {}, {}),
            ("the software GPU, interpreter", insn, {"VGPU_SOFT_JIT": "0"}, {"VGPU_SOFT_JIT": "0"}),
            ("the software GPU, copies, launches, a module", soft, {}, {}), ("broker and worker, 20,000 launches", worker, plain, {})]
    passed = failed = 0
    for name, command, without, env in rows:
        runs = [(command(args.out), without), (command(args.build), env)]
        best = least(runs, args.rounds)
        for _ in range(MORE):  # a row that is too dear by chance is not so with more rounds
            if best is None or best[1] <= best[0] * args.limit:
                break
            again = least(runs, args.rounds)
            best = again and [min(best[0], again[0]), min(best[1], again[1])]
        ok = best is not None and best[1] <= best[0] * args.limit
        if best:
            print("%shardening: %s: %.3f of %.3f s without it, at most %g" % ("ok - " if ok else "FAIL: ", name,
                                                                            best[1] / best[0], best[0], args.limit),
                  flush=True)
        passed, failed = passed + ok, failed + (not ok)
    best = least([(insn(args.build), {}), (insn(args.build), {"VGPU_SOFT_JIT": "0"})], 3)
    ok = best is not None and best[1] > best[0] * args.limit
    if best:
        print("%shardening: control: the interpreter in place of native code: %.3f, more than %g" %
              ("ok - " if ok else "FAIL: ", best[1] / best[0], args.limit))
    passed, failed = passed + ok, failed + (not ok)
    print("hardening: %d passed, %d failed, 0 skipped" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
